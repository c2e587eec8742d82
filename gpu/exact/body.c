/* body.c - searches the cluster trees of bodies on the lattice. */
#include "gpu/exact/body.h"

#include <math.h>

ct_node_box ct_exact_node_box(const ct_exact_body *body, uint32_t node) {
    const ct_cluster_box *box = &body->boxes[node];
    ct_node_box out;
    double middle[3], half[3];
    for (int j = 0; j < 3; j++) {
        middle[j] = 0.5 * ((double)box->lo[j] + (double)box->hi[j]);
        half[j] = 0.5 * ((double)box->hi[j] - (double)box->lo[j]);
    }
    for (int k = 0; k < 3; k++) {
        const double *row = body->pose.row[k];
        const double at = row[0] * middle[0] + row[1] * middle[1] + row[2] * middle[2] + row[3];
        const double size = fabs(row[0]) * half[0] + fabs(row[1]) * half[1] + fabs(row[2]) * half[2];
        /* The rounding of these sums, of placing, and two units. */
        const double margin = 0x1p-48 * (fabs(at) + size + fabs(row[3])) + body->pose.rounding + 3;
        out.lo[k] = at - size - margin;
        out.hi[k] = at + size + margin;
    }
    return out;
}

/* ---- nodes ---- */

struct node {
    uint32_t level, index;
    ct_node_box box;
};

static struct node node_at(const ct_exact_body *body, uint32_t level, uint32_t index) {
    return (struct node){level, index, ct_exact_node_box(body, index)};
}

static struct node root_of(const ct_exact_body *body) {
    const ct_clusters *c = body->topology->clusters;
    return node_at(body, c->n_levels - 1, c->n_nodes - 1);
}

/* A node's children: *first .. *end. */
static void find_children(const ct_exact_body *body, const struct node *node, uint32_t *first, uint32_t *end) {
    const ct_clusters *c = body->topology->clusters;
    *first = c->level[node->level - 1] + (node->index - c->level[node->level]) * CT_CLUSTER_FAN;
    *end = *first + CT_CLUSTER_FAN < c->level[node->level] ? *first + CT_CLUSTER_FAN : c->level[node->level];
}

static double extent(const ct_node_box *box) {
    return box->hi[0] - box->lo[0] + (box->hi[1] - box->lo[1]) + (box->hi[2] - box->lo[2]);
}

/* ---- pairs ---- */

/* Boxes along the axes of a turned body: world boxes around its boxes are up to 1.7 times as wide, so a second look
 * along the body's own axes leaves far fewer pairs. */
struct own_axes {
    bool is_turned;
    double row[3][4];  /* takes the other body's coordinates to this body's axes, in units from its origin */
    double size[3][3]; /* |row| */
    double margin[3];
};

/* A pose's matrix is a rotation to 1e-3 only, so its transpose is not quite its inverse: how far, in units, a point of
 * the body's box may be from its coordinate along an axis. */
static double skew_of(const ct_exact_body *body, int axis) {
    const ct_cluster_box *root = &body->boxes[body->topology->clusters->n_nodes - 1];
    const double one = 1 / body->pose.scale;
    double skew = 0;
    for (int j = 0; j < 3; j++) {
        double product = -(double)(j == axis);
        for (int i = 0; i < 3; i++) product += body->pose.row[i][axis] * one * (body->pose.row[i][j] * one);
        skew += fabs(product) * fmax(fabs((double)root->lo[j]), fabs((double)root->hi[j])) * body->pose.scale;
    }
    return skew;
}

static struct own_axes own_axes_of(const ct_exact_body *own, const ct_exact_body *other) {
    struct own_axes axes = {.is_turned = own->pose.is_turned};
    const ct_cluster_box *root = &other->boxes[other->topology->clusters->n_nodes - 1];
    const double one = 1 / own->pose.scale;
    for (int k = 0; k < 3 && axes.is_turned; k++) {
        double most = 0;
        for (int j = 0; j < 4; j++) {
            double sum = 0, part = 0;
            for (int i = 0; i < 3; i++) {
                const double to = other->pose.row[i][j] - (j == 3 ? own->pose.row[i][3] : 0);
                sum += own->pose.row[i][k] * one * to;
                part += fabs(own->pose.row[i][k] * one) * (fabs(other->pose.row[i][j]) + fabs(own->pose.row[i][3]));
            }
            axes.row[k][j] = sum;
            if (j < 3) axes.size[k][j] = fabs(sum);
            most += part * (j < 3 ? 1 + fmax(fabs((double)root->lo[j]), fabs((double)root->hi[j])) : 1);
        }
        axes.margin[k] = 0x1p-46 * most + skew_of(own, k) + own->pose.rounding + other->pose.rounding + 6;
    }
    return axes;
}

static bool are_apart_along(const struct own_axes *axes, const ct_exact_body *own, const ct_cluster_box *a,
                            const ct_cluster_box *b) {
    for (int k = 0; k < 3; k++) {
        const double scale = own->pose.scale;
        double at = axes->row[k][3] - 0.5 * scale * ((double)a->lo[k] + (double)a->hi[k]);
        double reach = axes->margin[k] + 0.5 * scale * ((double)a->hi[k] - (double)a->lo[k]);
        for (int j = 0; j < 3; j++) {
            at += axes->row[k][j] * (0.5 * ((double)b->lo[j] + (double)b->hi[j]));
            reach += axes->size[k][j] * (0.5 * ((double)b->hi[j] - (double)b->lo[j]));
        }
        if (fabs(at) > reach) return true;
    }
    return false;
}

struct pair_search {
    const ct_exact_body *body[2];
    struct own_axes axes[2];
    ct_buffer *pairs;
    size_t n;
    ct_budget *budget;
    bool is_full;
};

static void add_pair(struct pair_search *search, uint32_t a, uint32_t b) {
    const size_t needed = (search->n + 1) * sizeof(ct_cluster_pair);
    if (needed > search->pairs->capacity &&
        !ct_buffer_reserve(search->pairs, search->budget, needed + needed / 2 + 1024,
                           search->n * sizeof(ct_cluster_pair), false)) {
        search->is_full = true;
        return;
    }
    ((ct_cluster_pair *)search->pairs->data)[search->n++] = (ct_cluster_pair){a, b};
}

static bool may_meet(const struct pair_search *search, const struct node *a, const struct node *b) {
    if (!ct_node_boxes_overlap(&a->box, &b->box)) return false;
    const ct_cluster_box *box[2] = {&search->body[0]->boxes[a->index], &search->body[1]->boxes[b->index]};
    for (int k = 0; k < 2; k++)
        if (search->axes[k].is_turned && are_apart_along(&search->axes[k], search->body[k], box[k], box[1 - k]))
            return false;
    return true;
}

/* a and b may meet. */
static void search_pairs(struct pair_search *search, const struct node *a, const struct node *b) {
    if (a->level == 0 && b->level == 0) {
        add_pair(search, a->index, b->index);
        return;
    }
    const bool splits_a = b->level == 0 || (a->level > 0 && extent(&a->box) >= extent(&b->box));
    uint32_t first, end;
    find_children(search->body[splits_a ? 0 : 1], splits_a ? a : b, &first, &end);
    for (uint32_t i = first; i < end && !search->is_full; i++) {
        const struct node child = node_at(search->body[splits_a ? 0 : 1], (splits_a ? a : b)->level - 1, i);
        const struct node *of_a = splits_a ? &child : a, *of_b = splits_a ? b : &child;
        if (may_meet(search, of_a, of_b)) search_pairs(search, of_a, of_b);
    }
}

bool ct_find_cluster_pairs(const ct_exact_body *a, const ct_exact_body *b, ct_buffer *pairs, size_t *n_pairs,
                           ct_budget *budget) {
    struct pair_search search = {
        .body = {a, b}, .axes = {own_axes_of(a, b), own_axes_of(b, a)}, .pairs = pairs, .budget = budget};
    const struct node root_a = root_of(a), root_b = root_of(b);
    if (may_meet(&search, &root_a, &root_b)) search_pairs(&search, &root_a, &root_b);
    *n_pairs = search.n;
    return !search.is_full;
}

/* ---- rays ---- */

struct ray_search {
    const ct_exact_body *body;
    ct_node_box ray;
    void (*visit)(void *argument, uint32_t cluster);
    void *argument;
};

static void search_ray(struct ray_search *search, const struct node *node) {
    if (!ct_node_boxes_overlap(&node->box, &search->ray)) return;
    if (node->level == 0) {
        search->visit(search->argument, node->index);
        return;
    }
    uint32_t first, end;
    find_children(search->body, node, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        const struct node child = node_at(search->body, node->level - 1, i);
        search_ray(search, &child);
    }
}

void ct_find_clusters_on_ray(const ct_exact_body *body, const double p[3],
                             void (*visit)(void *argument, uint32_t cluster), void *argument) {
    struct ray_search search = {body, {{p[0], p[1], p[2]}, {INFINITY, p[1], p[2]}}, visit, argument};
    const struct node root = root_of(body);
    search_ray(&search, &root);
}
