/* body.c - searches the cluster trees of bodies on the lattice. */
#include "gpu/exact/body.h"

#include <math.h>

#include "gpu/base/cancel.h"

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

/* ---- pairs ---- */

bool ct_add_cluster_pair(ct_buffer *pairs, size_t *n_pairs, ct_budget *budget, ct_cluster_pair pair) {
    const size_t needed = (*n_pairs + 1) * sizeof pair;
    if (needed > pairs->capacity &&
        !ct_buffer_reserve(pairs, budget, needed + needed / 2 + 1024, *n_pairs * sizeof pair, false))
        return false;
    ((ct_cluster_pair *)pairs->data)[(*n_pairs)++] = pair;
    return true;
}

/* ---- the top of a block ---- */

struct top_search {
    ct_buffer *pairs;
    size_t n;
    ct_budget *budget;
    bool is_full;
    const ct_exact_body *body;
    ct_top_plane top;
    bool block_first;
};

static void search_top(struct top_search *search, const struct node *node) {
    if (node->level == 1 && ct_is_cancelled_at("pairs of clusters", search->n)) search->is_full = true;
    if (search->is_full || ct_find_side_of_top(&search->top, &node->box, node->level ? CT_NODE_SLACK : 0)) return;
    if (node->level == 0) {
        const ct_cluster_pair pair = {search->block_first ? 0 : node->index, search->block_first ? node->index : 0};
        if (!ct_add_cluster_pair(search->pairs, &search->n, search->budget, pair)) search->is_full = true;
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
    struct top_search search = {.pairs = pairs,
                                .budget = budget,
                                .body = body,
                                .top = ct_find_top_plane(&block->pose),
                                .block_first = block_first};
    const struct node root = root_of(body);
    search_top(&search, &root);
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

void ct_find_clusters_towards(const ct_exact_body *body, const double p[3], const double far[3],
                              void (*visit)(void *argument, uint32_t cluster), void *argument) {
    struct ray_search search = {.body = body, .visit = visit, .argument = argument};
    for (int k = 0; k < 3; k++) {
        search.ray.lo[k] = fmin(p[k], far[k]);
        search.ray.hi[k] = fmax(p[k], far[k]);
    }
    const struct node root = root_of(body);
    search_ray(&search, &root);
}

void ct_find_clusters_on_ray(const ct_exact_body *body, const double p[3],
                             void (*visit)(void *argument, uint32_t cluster), void *argument) {
    ct_find_clusters_towards(body, p, (const double[3]){INFINITY, p[1], p[2]}, visit, argument);
}
