/* body.c - searches the cluster trees of bodies on the lattice. */
#include "gpu/exact/body.h"

#include <math.h>

ct_node_box ct_exact_node_box(const ct_exact_body *body, uint32_t node) {
    return ct_place_box(&body->boxes[node], &body->pose);
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

struct pair_search {
    const ct_exact_body *body[2];
    ct_own_axes axes[2];
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
    const ct_cluster_box *box[2] = {&search->body[0]->boxes[a->index], &search->body[1]->boxes[b->index]};
    return ct_boxes_may_meet(&a->box, &b->box, box, search->axes, a->level || b->level ? CT_NODE_SLACK : 0);
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

/* Pairs of clusters below a node. */
static void search_own_pairs(struct pair_search *search, const struct node *node) {
    if (node->level == 0) {
        add_pair(search, node->index, node->index);
        return;
    }
    uint32_t first, end;
    find_children(search->body[0], node, &first, &end);
    for (uint32_t i = first; i < end && !search->is_full; i++) {
        const struct node child = node_at(search->body[0], node->level - 1, i);
        search_own_pairs(search, &child);
        for (uint32_t j = i + 1; j < end && !search->is_full; j++) {
            const struct node other = node_at(search->body[0], node->level - 1, j);
            if (may_meet(search, &child, &other)) search_pairs(search, &child, &other);
        }
    }
}

static struct pair_search begin_pair_search(const ct_exact_body *a, const ct_exact_body *b, ct_buffer *pairs,
                                            ct_budget *budget) {
    const ct_cluster_box *box_a = &a->boxes[a->topology->clusters->n_nodes - 1],
                         *box_b = &b->boxes[b->topology->clusters->n_nodes - 1];
    return (struct pair_search){.body = {a, b},
                                .axes = {ct_find_own_axes(&a->pose, box_a, &b->pose, box_b),
                                         ct_find_own_axes(&b->pose, box_b, &a->pose, box_a)},
                                .pairs = pairs,
                                .budget = budget};
}

bool ct_find_own_cluster_pairs(const ct_exact_body *body, ct_buffer *pairs, size_t *n_pairs, ct_budget *budget) {
    struct pair_search search = begin_pair_search(body, body, pairs, budget);
    const struct node root = root_of(body);
    search_own_pairs(&search, &root);
    *n_pairs = search.n;
    return !search.is_full;
}

bool ct_find_cluster_pairs(const ct_exact_body *a, const ct_exact_body *b, ct_buffer *pairs, size_t *n_pairs,
                           ct_budget *budget) {
    const struct node root_a = root_of(a), root_b = root_of(b);
    struct pair_search search = begin_pair_search(a, b, pairs, budget);
    if (may_meet(&search, &root_a, &root_b)) search_pairs(&search, &root_a, &root_b);
    *n_pairs = search.n;
    return !search.is_full;
}

/* ---- the top of a block ---- */

struct top_search {
    struct pair_search pairs;
    const ct_exact_body *body;
    ct_top_plane top;
    bool block_first;
};

static void search_top(struct top_search *search, const struct node *node) {
    if (search->pairs.is_full || ct_find_side_of_top(&search->top, &node->box, node->level ? CT_NODE_SLACK : 0)) return;
    if (node->level == 0) {
        add_pair(&search->pairs, search->block_first ? 0 : node->index, search->block_first ? node->index : 0);
        return;
    }
    uint32_t first, end;
    find_children(search->body, node, &first, &end);
    for (uint32_t i = first; i < end; i++) {
        const struct node child = node_at(search->body, node->level - 1, i);
        search_top(search, &child);
    }
}

bool ct_find_clusters_at_top(const ct_exact_body *body, const ct_exact_body *block, bool block_first, ct_buffer *pairs,
                             size_t *n_pairs, ct_budget *budget) {
    struct top_search search = {.pairs = {.pairs = pairs, .budget = budget},
                                .body = body,
                                .top = ct_find_top_plane(&block->pose),
                                .block_first = block_first};
    const struct node root = root_of(body);
    search_top(&search, &root);
    *n_pairs = search.pairs.n;
    return !search.pairs.is_full;
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
