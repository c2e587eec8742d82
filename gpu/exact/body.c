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

static struct node root_of(const ct_exact_body *body) {
    const ct_clusters *c = body->topology->clusters;
    const struct node root = {c->n_levels - 1, c->n_nodes - 1, ct_exact_node_box(body, c->n_nodes - 1)};
    return root;
}

/* Writes the node's children whose boxes overlap a box, and returns how many there are. */
static int children_of(const ct_exact_body *body, const struct node *node, const ct_node_box *box,
                       struct node children[CT_CLUSTER_FAN]) {
    const ct_clusters *c = body->topology->clusters;
    const uint32_t first = c->level[node->level - 1] + (node->index - c->level[node->level]) * CT_CLUSTER_FAN;
    const uint32_t left = c->level[node->level] - first, n = left < CT_CLUSTER_FAN ? left : CT_CLUSTER_FAN;
    int found = 0;
    for (uint32_t i = 0; i < n; i++) {
        children[found] = (struct node){node->level - 1, first + i, ct_exact_node_box(body, first + i)};
        found += ct_node_boxes_overlap(&children[found].box, box);
    }
    return found;
}

static double extent(const ct_node_box *box) {
    return box->hi[0] - box->lo[0] + (box->hi[1] - box->lo[1]) + (box->hi[2] - box->lo[2]);
}

/* ---- pairs ---- */

struct pair_search {
    const ct_exact_body *a, *b;
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

/* The boxes of a and b overlap. */
static void search_pairs(struct pair_search *search, const struct node *a, const struct node *b) {
    if (a->level == 0 && b->level == 0) {
        add_pair(search, a->index, b->index);
        return;
    }
    struct node children[CT_CLUSTER_FAN];
    const bool splits_a = b->level == 0 || (a->level > 0 && extent(&a->box) >= extent(&b->box));
    const int n =
        splits_a ? children_of(search->a, a, &b->box, children) : children_of(search->b, b, &a->box, children);
    for (int i = 0; i < n && !search->is_full; i++) {
        if (splits_a)
            search_pairs(search, &children[i], b);
        else
            search_pairs(search, a, &children[i]);
    }
}

bool ct_find_cluster_pairs(const ct_exact_body *a, const ct_exact_body *b, ct_buffer *pairs, size_t *n_pairs,
                           ct_budget *budget) {
    struct pair_search search = {.a = a, .b = b, .pairs = pairs, .budget = budget};
    const struct node root_a = root_of(a), root_b = root_of(b);
    if (ct_node_boxes_overlap(&root_a.box, &root_b.box)) search_pairs(&search, &root_a, &root_b);
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
    if (node->level == 0) {
        search->visit(search->argument, node->index);
        return;
    }
    struct node children[CT_CLUSTER_FAN];
    const int n = children_of(search->body, node, &search->ray, children);
    for (int i = 0; i < n; i++) search_ray(search, &children[i]);
}

void ct_find_clusters_on_ray(const ct_exact_body *body, const double p[3],
                             void (*visit)(void *argument, uint32_t cluster), void *argument) {
    struct ray_search search = {body, {{p[0], p[1], p[2]}, {INFINITY, p[1], p[2]}}, visit, argument};
    const struct node root = root_of(body);
    if (ct_node_boxes_overlap(&root.box, &search.ray)) search_ray(&search, &root);
}
