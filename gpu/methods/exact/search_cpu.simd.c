/* search_cpu.simd.c - searches two cluster trees at once, compiled once per instruction set. The arithmetic of each
 * lane is that of lattice_k.h, operation by operation: which clusters are looked at is a part of the answer. */
#include "gpu/methods/exact/exact_cpu.h"

#include <math.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/simd.h"

/* Lanes are in two vectors of four. */
enum { HALVES = CT_CLUSTER_FAN / 4 };

/* The children of a node. */
struct family {
    ct_v4d lo[3][HALVES], hi[3][HALVES]; /* ct_node_box; empty for children that there are not */
    ct_v4d middle[3][HALVES],
        half[3][HALVES]; /* m: middle and half sides of the boxes, in the frame of the positions */
};

struct node {
    uint32_t level, index;
    double lo[3], hi[3], middle[3], half[3];
};

/* Families that were needed last: while one tree is descended, the other one's are met again and again. */
enum { CACHED_FAMILIES = 16 };

struct family_cache {
    struct family families[CACHED_FAMILIES];
    uint32_t parent[CACHED_FAMILIES]; /* node; UINT32_MAX: none */
};

struct search {
    const ct_exact_body *body[2];
    ct_own_axes axes[2];
    struct family_cache cache[2];
    ct_buffer *pairs;
    size_t n;
    ct_budget *budget;
    uint32_t n_visits; /* families that were looked at */
    bool is_full;      /* out of memory, or cancelled */
};

static inline ct_v4d absolute(ct_v4d x) {
    return (ct_v4d)((ct_v4l)x & INT64_MAX);
}

static inline ct_v4d all(double x) {
    return (ct_v4d){x, x, x, x};
}

/* ---- families ---- */

/* As ct_place_box along axis k. */
static inline void place_axis(struct family *f, const ct_lattice_pose *pose, int k, int i) {
    const double *row = pose->row[k];
    const ct_v4d at = row[0] * f->middle[0][i] + row[1] * f->middle[1][i] + row[2] * f->middle[2][i] + row[3];
    const ct_v4d size = fabs(row[0]) * f->half[0][i] + fabs(row[1]) * f->half[1][i] + fabs(row[2]) * f->half[2][i];
    const ct_v4d margin = 0x1p-48 * (absolute(at) + size + fabs(row[3])) + pose->rounding + 3;
    f->lo[k][i] = at - size - margin;
    f->hi[k][i] = at + size + margin;
}

static void find_family(const ct_exact_body *body, uint32_t first, uint32_t n, struct family *f) {
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < HALVES; i++) f->middle[k][i] = f->half[k][i] = all(0);
    for (uint32_t c = 0; c < n; c++) {
        const ct_cluster_box *box = &body->boxes[first + c];
        for (int k = 0; k < 3; k++) {
            f->middle[k][c / 4][c % 4] = 0.5 * ((double)box->lo[k] + (double)box->hi[k]);
            f->half[k][c / 4][c % 4] = 0.5 * ((double)box->hi[k] - (double)box->lo[k]);
        }
    }
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < HALVES; i++) place_axis(f, &body->pose, k, i);
    for (uint32_t c = n; c < CT_CLUSTER_FAN; c++)
        for (int k = 0; k < 3; k++) {
            f->lo[k][c / 4][c % 4] = INFINITY;
            f->hi[k][c / 4][c % 4] = -INFINITY;
        }
}

static uint32_t first_child(const ct_exact_body *body, const struct node *node) {
    const ct_clusters *c = body->topology->clusters;
    return c->level[node->level - 1] + (node->index - c->level[node->level]) * CT_CLUSTER_FAN;
}

/* Valid until the next call for the same body. */
static const struct family *family_of(struct search *search, int b, const struct node *node) {
    struct family_cache *cache = &search->cache[b];
    const uint32_t slot = node->index % CACHED_FAMILIES, first = first_child(search->body[b], node);
    const uint32_t left = search->body[b]->topology->clusters->level[node->level] - first;
    if (cache->parent[slot] != node->index) {
        find_family(search->body[b], first, left < CT_CLUSTER_FAN ? left : CT_CLUSTER_FAN, &cache->families[slot]);
        cache->parent[slot] = node->index;
    }
    return &cache->families[slot];
}

static struct node take_child(const struct family *f, uint32_t level, uint32_t index, uint32_t lane) {
    struct node node = {.level = level, .index = index};
    for (int k = 0; k < 3; k++) {
        node.lo[k] = f->lo[k][lane / 4][lane % 4];
        node.hi[k] = f->hi[k][lane / 4][lane % 4];
        node.middle[k] = f->middle[k][lane / 4][lane % 4];
        node.half[k] = f->half[k][lane / 4][lane % 4];
    }
    return node;
}

static struct node root_of(const ct_exact_body *body) {
    const ct_clusters *c = body->topology->clusters;
    struct family only;
    find_family(body, c->n_nodes - 1, 1, &only);
    return take_child(&only, c->n_levels - 1, c->n_nodes - 1, 0);
}

/* ---- tests ---- */

/* As ct_node_boxes_meet. */
static inline ct_v4l find_overlaps(const struct family *f, int i, const struct node *other, double slack) {
    ct_v4l apart = {0, 0, 0, 0};
    for (int k = 0; k < 3; k++)
        apart |= (f->lo[k][i] > all(other->hi[k] + slack)) | (all(other->lo[k]) > f->hi[k][i] + slack);
    return ~apart;
}

/* As ct_are_apart_along of the children, whose body has these axes, and of a node of the other body. The scale is a
 * power of two, so it makes no difference when a sum is multiplied by it. */
static inline ct_v4l find_apart_along_own(const ct_own_axes *axes, const struct family *f, int i,
                                          const struct node *other, double slack) {
    ct_v4l apart = {0, 0, 0, 0};
    for (int k = 0; k < 3; k++) {
        ct_v4d at = axes->row[k][3] - axes->scale * f->middle[k][i];
        ct_v4d reach = axes->margin[k] + axes->scale * f->half[k][i];
        for (int j = 0; j < 3; j++) {
            at += axes->row[k][j] * other->middle[j];
            reach += axes->size[k][j] * other->half[j];
        }
        apart |= absolute(at) > reach + slack;
    }
    return apart;
}

/* The same along the other node's axes. */
static inline ct_v4l find_apart_along_other(const ct_own_axes *axes, const struct node *other, const struct family *f,
                                            int i, double slack) {
    ct_v4l apart = {0, 0, 0, 0};
    for (int k = 0; k < 3; k++) {
        ct_v4d at = all(axes->row[k][3] - axes->scale * other->middle[k]);
        ct_v4d reach = all(axes->margin[k] + axes->scale * other->half[k]);
        for (int j = 0; j < 3; j++) {
            at += axes->row[k][j] * f->middle[j][i];
            reach += axes->size[k][j] * f->half[j][i];
        }
        apart |= absolute(at) > reach + slack;
    }
    return apart;
}

/* The bits of body b's children that may meet a node of the other body. */
static uint32_t find_meeting(const struct search *search, int b, const struct family *f, const struct node *other,
                             double slack) {
    uint32_t found = 0;
    for (int i = 0; i < HALVES; i++) {
        ct_v4l meets = find_overlaps(f, i, other, slack);
        if (!ct_v4l_to_bits(meets)) continue;
        if (search->axes[b].is_turned) meets &= ~find_apart_along_own(&search->axes[b], f, i, other, slack);
        if (search->axes[1 - b].is_turned) meets &= ~find_apart_along_other(&search->axes[1 - b], other, f, i, slack);
        found |= ct_v4l_to_bits(meets) << 4 * i;
    }
    return found;
}

/* ---- the search ---- */

static double extent(const struct node *node) {
    return node->hi[0] - node->lo[0] + (node->hi[1] - node->lo[1]) + (node->hi[2] - node->lo[2]);
}

static void add_pair(struct search *search, uint32_t a, uint32_t b) {
    if (!ct_add_cluster_pair(search->pairs, &search->n, search->budget, (ct_cluster_pair){a, b}))
        search->is_full = true;
}

/* Families between two polls: some 20 us. */
enum { POLLED_VISITS = 256 };

static void poll(struct search *search) {
    if (CT_POLL_EVERY(++search->n_visits, POLLED_VISITS) && ct_is_cancelled_at("pairs of clusters", search->n))
        search->is_full = true;
}

/* a and b may meet. */
static void search_pairs(struct search *search, const struct node *a, const struct node *b) {
    if (a->level == 0 && b->level == 0) {
        add_pair(search, a->index, b->index);
        return;
    }
    poll(search);
    const bool splits_a = b->level == 0 || (a->level > 0 && extent(a) >= extent(b));
    const int split = splits_a ? 0 : 1;
    const struct node *parent = splits_a ? a : b, *other = splits_a ? b : a;
    const double slack = parent->level > 1 || other->level ? CT_NODE_SLACK : 0;
    const uint32_t first = first_child(search->body[split], parent);
    for (uint32_t left = find_meeting(search, split, family_of(search, split, parent), other, slack);
         left && !search->is_full; left &= left - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(left);
        if (parent->level == 1 && other->level == 0) { /* two clusters: most pairs of nodes */
            add_pair(search, splits_a ? first + lane : other->index, splits_a ? other->index : first + lane);
            continue;
        }
        const struct node child = take_child(family_of(search, split, parent), parent->level - 1, first + lane, lane);
        search_pairs(search, splits_a ? &child : other, splits_a ? other : &child);
    }
}

/* Pairs of clusters below a node. */
static void search_own_pairs(struct search *search, const struct node *node) {
    if (node->level == 0) {
        add_pair(search, node->index, node->index);
        return;
    }
    poll(search);
    const uint32_t first = first_child(search->body[0], node), level = node->level - 1;
    const uint32_t left = search->body[0]->topology->clusters->level[node->level] - first;
    for (uint32_t i = 0; i < (left < CT_CLUSTER_FAN ? left : CT_CLUSTER_FAN) && !search->is_full; i++) {
        const struct node child = take_child(family_of(search, 1, node), level, first + i, i);
        search_own_pairs(search, &child);
        uint32_t others = find_meeting(search, 1, family_of(search, 1, node), &child, level ? CT_NODE_SLACK : 0);
        for (others &= ~((2u << i) - 1); others && !search->is_full; others &= others - 1) {
            const uint32_t lane = (uint32_t)__builtin_ctz(others);
            const struct node other = take_child(family_of(search, 1, node), level, first + lane, lane);
            search_pairs(search, &child, &other);
        }
    }
}

static void begin_search(struct search *search, const ct_exact_body *a, const ct_exact_body *b, ct_buffer *pairs,
                         ct_budget *budget) {
    const ct_cluster_box *box_a = &a->boxes[a->topology->clusters->n_nodes - 1],
                         *box_b = &b->boxes[b->topology->clusters->n_nodes - 1];
    search->body[0] = a;
    search->body[1] = b;
    search->axes[0] = ct_find_own_axes(&a->pose, box_a, &b->pose, box_b);
    search->axes[1] = ct_find_own_axes(&b->pose, box_b, &a->pose, box_a);
    for (int i = 0; i < 2; i++) memset(search->cache[i].parent, -1, sizeof search->cache[i].parent);
    search->pairs = pairs;
    search->n = 0;
    search->budget = budget;
    search->n_visits = 0;
    search->is_full = false;
}

static bool roots_may_meet(const struct search *search, const struct node *a, const struct node *b) {
    struct family only;
    find_family(search->body[0], a->index, 1, &only);
    return find_meeting(search, 0, &only, b, a->level || b->level ? CT_NODE_SLACK : 0) != 0;
}

static bool find_pairs(const ct_exact_body *a, const ct_exact_body *b, ct_buffer *pairs, size_t *n_pairs,
                       ct_budget *budget) {
    const struct node root_a = root_of(a), root_b = root_of(b);
    struct search search;
    begin_search(&search, a, b, pairs, budget);
    if (roots_may_meet(&search, &root_a, &root_b)) search_pairs(&search, &root_a, &root_b);
    *n_pairs = search.n;
    return !search.is_full;
}

static bool find_own_pairs(const ct_exact_body *body, ct_buffer *pairs, size_t *n_pairs, ct_budget *budget) {
    const struct node root = root_of(body);
    struct search search;
    begin_search(&search, body, body, pairs, budget);
    search_own_pairs(&search, &root);
    *n_pairs = search.n;
    return !search.is_full;
}

const ct_search_cpu CT_VARIANT(ct_search_cpu) = {find_pairs, find_own_pairs};
