/* search_cpu.c - the search of the method `exact` on the CPU: rays and planes through cluster trees, and which pairs of
 * clusters, and which of their blocks, may cross. */
#include <math.h>

#include "gpu/base/cancel.h"
#include "gpu/methods/exact/pair_cpu.h"

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

/* As ct_search_cpu, for a body and a block that stands for a half-space (scene/half_space_k.h): pairs of the block's only
 * cluster with those clusters whose boxes meet the plane of its top, z = 0 in its own axes. block_first: the block is
 * `a` of the pairs. */
static bool find_clusters_at_top(const ct_exact_body *body, const ct_exact_body *block, bool block_first,
                                 ct_buffer *pairs, size_t *n_pairs, ct_budget *budget) {
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

/* ---- rays, nearer clusters first ---- */

/* Units. Hits are computed in doubles, and may lie so far outside of their cluster's box. */
static const double HIT_ROUNDING = 16;

struct ordered_search {
    const ct_exact_body *body;
    const double *p, *far;
    void (*visit)(void *argument, uint32_t cluster);
    void *argument;
};

static bool is_on_ray(const struct ordered_search *search, const ct_node_box *box) {
    const double *p = search->p;
    return box->hi[0] >= p[0] && box->lo[0] <= *search->far + HIT_ROUNDING && box->lo[1] <= p[1] &&
           box->hi[1] >= p[1] && box->lo[2] <= p[2] && box->hi[2] >= p[2];
}

static void visit_node(struct ordered_search *search, uint32_t level, uint32_t index) {
    const ct_clusters *c = search->body->topology->clusters;
    struct {
        double lo;
        uint32_t index;
    } children[CT_CLUSTER_FAN];
    uint32_t n = 0;
    if (level == 0) {
        search->visit(search->argument, index);
        return;
    }
    const uint32_t first = c->level[level - 1] + (index - c->level[level]) * CT_CLUSTER_FAN,
                   end = first + CT_CLUSTER_FAN < c->level[level] ? first + CT_CLUSTER_FAN : c->level[level];
    for (uint32_t i = first; i < end; i++) {
        const ct_node_box box = ct_exact_node_box(search->body, i);
        if (!is_on_ray(search, &box)) continue;
        uint32_t at = n++;
        for (; at > 0 && children[at - 1].lo > box.lo[0]; at--) children[at] = children[at - 1];
        children[at].lo = box.lo[0];
        children[at].index = i;
    }
    for (uint32_t i = 0; i < n; i++)
        if (children[i].lo <= *search->far + HIT_ROUNDING) visit_node(search, level - 1, children[i].index);
}

void ct_visit_clusters_on_ray(const ct_exact_body *body, const double p[3], const double *far,
                              void (*visit)(void *argument, uint32_t cluster), void *argument) {
    const ct_clusters *c = body->topology->clusters;
    struct ordered_search search = {.body = body, .p = p, .far = far, .visit = visit, .argument = argument};
    const ct_node_box box = ct_exact_node_box(body, c->n_nodes - 1);
    if (is_on_ray(&search, &box)) visit_node(&search, c->n_levels - 1, c->n_nodes - 1);
}

/* ---- pairs of clusters of which blocks meet ---- */

/* Boxes of clusters overlap far more often than their triangles come near each other. The boxes of blocks of eight
 * triangles are known at rest and are quickly placed, so a second look at the pairs spares placing half of the
 * clusters, and most triangles of the others. It drops no two triangles whose boxes overlap, so no bit of an answer
 * depends on it. */

/* Of fewer pairs all blocks are taken. */
enum { WORTH_LOOKING = 16 };

/* A body's clusters in the pairs. */
struct near_body {
    uint32_t *near_as;  /* [clusters] 1 + index into the list; 0: not in it */
    uint32_t *clusters; /* [n] */
    ct_block_boxes *boxes;
    uint32_t n;
};

struct ct_near_search {
    struct near_body body[2];
    uint16_t (*met)[2]; /* [pairs] blocks of either cluster that meet the other one's */
};

/* Pairs of clusters between two polls: some 50 us, where their clusters are not in the cache. */
enum { LIST_POLL = 1024 };

static void list_near_body(ct_exact_pair *exact, int b) {
    struct near_body *near = &exact->near->body[b];
    const uint32_t n_clusters = exact->part[b].body.topology->clusters->n;
    const size_t most = exact->n_cluster_pairs < n_clusters ? exact->n_cluster_pairs : n_clusters;
    near->near_as = ct_exact_allocate_zeroed(exact, n_clusters * sizeof *near->near_as);
    near->clusters = ct_exact_allocate(exact, most * sizeof *near->clusters);
    if (exact->has_failed) return;
    for (size_t i = 0; i < exact->n_cluster_pairs; i++) {
        if (CT_POLL_EVERY(i, LIST_POLL) && ct_exact_is_cancelled(exact, "pairs of clusters", i)) return;
        const uint32_t cluster = b ? exact->cluster_pairs[i].b : exact->cluster_pairs[i].a;
        if (near->near_as[cluster]) continue;
        near->clusters[near->n] = cluster;
        near->near_as[cluster] = ++near->n;
    }
    near->boxes = ct_exact_allocate(exact, near->n * sizeof *near->boxes);
}

/* Clusters whose blocks one task places, pairs that one task looks at: about 5 us. */
enum { BLOCK_CHUNK = 64, PAIR_CHUNK = 128 };

static void place_blocks(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    if (ct_exact_should_end(exact)) return;
    const uint32_t n[2] = {exact->near->body[0].n, exact->near->body[1].n};
    const ct_exact_chunk chunk = ct_exact_chunk_at(i, n, BLOCK_CHUNK);
    const ct_exact_body *body = &exact->part[chunk.part].body;
    const struct near_body *near = &exact->near->body[chunk.part];
    for (uint32_t k = chunk.first; k < chunk.end; k++) {
        const uint32_t cluster = near->clusters[k];
        ct_exact_kernels_of(exact)->place_blocks(&body->rigid->blocks[cluster], &body->boxes[cluster], &body->pose,
                                                 &near->boxes[k]);
    }
}

static void meet_blocks(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    if (exact->has_failed || ct_exact_is_cancelled(exact, "pairs of clusters", (uint64_t)i * PAIR_CHUNK)) return;
    const struct near_body *a = &exact->near->body[0], *b = &exact->near->body[1];
    const size_t first = (size_t)i * PAIR_CHUNK, left = exact->n_cluster_pairs - first;
    for (size_t p = first; p < first + (left < PAIR_CHUNK ? left : PAIR_CHUNK); p++)
        ct_exact_kernels_of(exact)->meet_blocks(&a->boxes[a->near_as[exact->cluster_pairs[p].a] - 1],
                                                &b->boxes[b->near_as[exact->cluster_pairs[p].b] - 1],
                                                exact->near->met[p]);
}

/* Keeps the pairs of which blocks meet, and lists their clusters with these blocks. */
static void keep_near(ct_exact_pair *exact) {
    ct_cluster_pair *pairs = exact->cluster_pairs;
    size_t n = 0;
    for (size_t i = 0; i < exact->n_cluster_pairs && !exact->has_failed; i++) {
        if (CT_POLL_EVERY(i, LIST_POLL) && ct_exact_is_cancelled(exact, "pairs of clusters", i)) return;
        const uint16_t *met = exact->near->met[i];
        if (!met[0]) continue;
        const ct_cluster_pair pair = pairs[n++] = pairs[i];
        for (int b = 0; b < 2; b++) {
            ct_placed_cluster *c = ct_exact_list_cluster(exact, b, b ? pair.b : pair.a, true);
            if (!c) return;
            c->blocks |= met[b];
            c->n_pairs_left++;
        }
    }
    exact->n_cluster_pairs = n;
}

static void keep_all(ct_exact_pair *exact) {
    for (size_t i = 0; i < exact->n_cluster_pairs && !exact->has_failed; i++) {
        if (CT_POLL_EVERY(i, LIST_POLL) && ct_exact_is_cancelled(exact, "pairs of clusters", i)) return;
        for (int b = 0; b < 2; b++) {
            const uint32_t cluster = b ? exact->cluster_pairs[i].b : exact->cluster_pairs[i].a;
            ct_placed_cluster *c = ct_exact_list_cluster(exact, exact->is_self ? 0 : b, cluster, true);
            if (!c) return;
            c->blocks = UINT16_MAX;
            c->n_pairs_left++;
        }
    }
}

/* Leaves out pairs of which no two blocks meet. */
static void list_near(ct_exact_pair *exact) {
    const bool knows_blocks = exact->part[0].body.rigid && exact->part[1].body.rigid;
    if (exact->n_cluster_pairs < WORTH_LOOKING || !knows_blocks || exact->is_self) {
        keep_all(exact);
        return;
    }
    struct ct_near_search near = {.met = ct_exact_allocate(exact, exact->n_cluster_pairs * sizeof *near.met)};
    exact->near = &near;
    for (int b = 0; b < 2 && !exact->has_failed; b++) list_near_body(exact, b);
    const uint32_t n[2] = {near.body[0].n, near.body[1].n};
    ct_exact_for_each(exact, ct_exact_count_chunks(n, BLOCK_CHUNK), place_blocks);
    ct_exact_for_each(exact, (uint32_t)((exact->n_cluster_pairs + PAIR_CHUNK - 1) / PAIR_CHUNK), meet_blocks);
    if (!exact->has_failed) keep_near(exact);
    exact->near = NULL;
}

/* ---- the search ---- */

/* Of twins: drops the pairs of clusters that are others, mirrored. */
static void halve_pairs(ct_exact_pair *exact) {
    ct_cluster_pair *pairs = exact->cluster_pairs;
    size_t n = 0;
    for (size_t i = 0; i < exact->n_cluster_pairs; i++) {
        if (CT_POLL_EVERY(i, 8192) && ct_exact_is_cancelled(exact, "pairs of clusters", i)) return;
        if (pairs[i].a <= pairs[i].b) pairs[n++] = pairs[i];
    }
    exact->n_cluster_pairs = n;
}

/* False: out of memory. */
static bool find_cluster_pairs(ct_exact_pair *exact, ct_buffer *pairs) {
    ct_budget *budget = &exact->device->budget;
    if (exact->is_self)
        return ct_exact_search_of(exact)->find_own_pairs(&exact->part[0].body, pairs, &exact->n_cluster_pairs, budget);
    for (int b = 0; b < 2; b++)
        if (exact->pair->body[b]->is_half_space)
            return find_clusters_at_top(&exact->part[1 - b].body, &exact->part[b].body, b == 0, pairs,
                                        &exact->n_cluster_pairs, budget);
    return ct_exact_search_of(exact)->find_pairs(&exact->part[0].body, &exact->part[1].body, pairs,
                                                 &exact->n_cluster_pairs, budget);
}

void ct_exact_search(ct_exact_pair *exact) {
    ct_buffer *pairs = &ct_exact_scratch_of(exact->workspace, exact->driver)->cluster_pairs;
    if (exact->has_failed) return;
    ct_enter_phase("searching pairs of clusters");
    if (!find_cluster_pairs(exact, pairs)) exact->has_failed = true;
    exact->cluster_pairs = pairs->data;
    if (exact->is_twin && !exact->has_failed) halve_pairs(exact);
    if (!exact->has_failed) list_near(exact);
}
