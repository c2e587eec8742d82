/* exact_near.c - the method `exact` on the CPU: leaves out the pairs of clusters of which no two blocks meet, and
 * places what is left.
 *
 * Boxes of clusters overlap far more often than their triangles come near each other. The boxes of blocks of eight
 * triangles are known at rest and are quickly placed, so a second look at the pairs spares placing half of the
 * clusters, and most triangles of the others. It drops no two triangles whose boxes overlap, so no bit of an answer
 * depends on it. */
#include "gpu/backend/cpu/exact_pair.h"

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

static void list_near(ct_exact_pair *exact, int b) {
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
        exact->device->kernels->exact->place_blocks(&body->rigid->blocks[cluster], &body->boxes[cluster], &body->pose,
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
        exact->device->kernels->exact->meet_blocks(&a->boxes[a->near_as[exact->cluster_pairs[p].a] - 1],
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

void ct_exact_list_near(ct_exact_pair *exact) {
    const bool knows_blocks = exact->part[0].body.rigid && exact->part[1].body.rigid;
    if (exact->n_cluster_pairs < WORTH_LOOKING || !knows_blocks || exact->is_self) {
        keep_all(exact);
        return;
    }
    struct ct_near_search near = {.met = ct_exact_allocate(exact, exact->n_cluster_pairs * sizeof *near.met)};
    exact->near = &near;
    for (int b = 0; b < 2 && !exact->has_failed; b++) list_near(exact, b);
    const uint32_t n[2] = {near.body[0].n, near.body[1].n};
    ct_exact_for_each(exact, ct_exact_count_chunks(n, BLOCK_CHUNK), place_blocks);
    ct_exact_for_each(exact, (uint32_t)((exact->n_cluster_pairs + PAIR_CHUNK - 1) / PAIR_CHUNK), meet_blocks);
    if (!exact->has_failed) keep_near(exact);
    exact->near = NULL;
}
