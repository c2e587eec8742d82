/* pair_cpu.h - the method `exact` on the CPU: the state of a pair while it is computed, and the steps that compute it.
 */
#ifndef CT_EXACT_PAIR_H
#define CT_EXACT_PAIR_H

#include <stdatomic.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/large.h"
#include "gpu/method/device_cpu.h"
#include "gpu/methods/exact/exact_cpu.h"
#include "gpu/methods/exact/finish_k.h"
#include "gpu/methods/exact/pieces_k.h"

/* A triangle of a body and one of the other body that crosses it; numbers in their meshes. */
typedef struct ct_crossed_pair {
    uint32_t triangle, other;
    const ct_crossing_segment *segment; /* NULL: not kept */
    bool is_second;                     /* as in ct_crossing */
} ct_crossed_pair;

/* What a piece has of a cluster: the rest is not looked at. */
typedef struct ct_added_share {
    const uint8_t *triangles; /* [n] rising, in the cluster */
    uint32_t n;
    int32_t max_winding; /* the largest size of a winding number, of units or vertices */
} ct_added_share;

/* What one perturbation finds of a body's surface. */
typedef struct ct_exact_surface {
    /* Clusters with crossings: */
    ct_crossing **crossings;     /* by cluster */
    size_t *first_crossing;      /* [n_crossed + 1] */
    uint32_t *crossed_clusters;  /* [n_crossed] rising */
    uint32_t *crossed_as;        /* [clusters] 1 + index of a crossed cluster, or 0 */
    ct_crossed_cluster *crossed; /* [n_crossed] */
    uint32_t n_crossed;
    /* Pairs of triangles that cross, [first_crossed_pair[c], first_crossed_pair[c + 1]) of crossed cluster c, sorted;
     * only kept for second_cpu.c. */
    ct_crossed_pair *crossed_pairs;
    size_t *first_crossed_pair; /* [n_crossed + 1] */
    /* Winding numbers: */
    int32_t *of_unit; /* [units] */
    /* Of a body with itself, instead: at the start of each triangle's edge from corner 1 to 2, just outside. */
    int32_t *of_triangle;      /* [clusters * CT_CLUSTER_TRIANGLES] */
    const uint8_t *own_number; /* [CT_CLUSTER_TRIANGLES] 0, 1, 2 .. */
    uint32_t max_winding, inverted;
    bool is_folded_flat; /* somewhere; then the passes differ */
    uint32_t *added;     /* [n_added] rising: clusters whose surface is inside, or partly */
    uint32_t n_added;
    const ct_added_share *added_shares; /* [n_added], of a piece; NULL: the clusters as a whole */
    ct_cluster_sums *sums;              /* [n_added] */
    /* Copies of the crossings, in rising order of (triangle, other); only kept for pieces_cpu.c: */
    ct_crossing *shares; /* [n_shares] */
    uint32_t n_shares;
} ct_exact_surface;

/* One body of a pair. */
typedef struct ct_exact_part {
    ct_exact_body body;
    ct_exact_surface surface[2]; /* by perturbation */
    ct_exact_gradient gradient;  /* the sum over the perturbations */
    ct_node_box root;            /* of the whole body, placed (sum_cpu.c) */
} ct_exact_part;

/* Groups of CT_GROUP_VERTICES vertices: see ct_exact_gradient.groups. */
enum { CT_GROUP_VERTICES = 4096 };
struct ct_group_range {
    uint32_t first, end;
};

typedef struct ct_exact_pair {
    ct_device *device;
    ct_workspace *workspace;
    ct_pair_task *pair;
    uint32_t driver;
    bool is_spread;
    bool is_self; /* one body with itself: its surface is part 0's, and part 1's gradient is 0 until sides are split */
    bool is_twin; /* see pair_cpu.c */
    uint32_t first_worker, end_worker;
    ct_exact_lattice lattice;
    ct_exact_part part[2];
    ct_cluster_pair *cluster_pairs;
    size_t n_cluster_pairs;
    int pass, n_passes; /* perturbations: one, or both where there are ties */
    bool has_ties;
    int exponent; /* a step of the gradient's fixed point is 2^exponent units^2 */
    double scale; /* 2^-exponent */
    ct_exact_totals totals;
    ct_left_out left_out[2]; /* by perturbation */
    struct ct_free_floats *free_floats;
    struct ct_near_search *near;     /* search_cpu.c */
    struct ct_piece_search *pieces;  /* pieces_cpu.c */
    struct ct_group_range groups[2]; /* of a piece, by body: those of its vertices */
    ct_arena *arena;                 /* of ct_exact_allocate: the driving thread's, or that of a piece */
    ct_unit_summary unit_summary;    /* pieces_cpu.c: what its search asked for last */
    struct ct_entry_chunk *chunks;   /* finish_cpu.c: of body 0, then of body 1 */
    ct_pair_contact *contact;
    bool is_gradient_clear; /* finish_cpu.c: entries are written, and only the bits of touched vertices are left */
    double phase_start;     /* of ct_now: what has passed since is in no phase of the pair's seconds yet */
    atomic_bool has_failed; /* out of memory, or cancelled */
} ct_exact_pair;

/* ---- slots ---- */

typedef struct ct_exact_kernels {
    const ct_exact_cpu *clusters;
    const ct_search_cpu *search;
    const ct_second_cpu *second;
} ct_exact_kernels;

static inline const ct_exact_cpu *ct_exact_kernels_of(const ct_exact_pair *exact) {
    return ((const ct_exact_kernels *)exact->device->kernels_of_method[CT_METHOD_EXACT])->clusters;
}

static inline const ct_search_cpu *ct_exact_search_of(const ct_exact_pair *exact) {
    return ((const ct_exact_kernels *)exact->device->kernels_of_method[CT_METHOD_EXACT])->search;
}

static inline const ct_second_cpu *ct_exact_second_of(const ct_exact_pair *exact) {
    return ((const ct_exact_kernels *)exact->device->kernels_of_method[CT_METHOD_EXACT])->second;
}

/* The scratch of thread `worker` in a workspace. */
static inline ct_exact_scratch *ct_exact_scratch_of(const ct_workspace *workspace, uint32_t worker) {
    return workspace->workers[worker].of_method[CT_METHOD_EXACT];
}

/* ---- a pair ---- */

/* The poll of a pair, of which `what` counts something; NULL: nothing. A pair that is cancelled has failed. */
static inline bool ct_exact_is_cancelled(ct_exact_pair *exact, const char *what, uint64_t count) {
    if (!ct_is_cancelled_at(what, count)) return false;
    exact->has_failed = true;
    return true;
}

/* The poll at the start of a task. True: the pair has failed, and the task has nothing to do. */
static inline bool ct_exact_should_end(ct_exact_pair *exact) {
    return exact->has_failed || ct_exact_is_cancelled(exact, NULL, 0);
}

/* Words of ct_exact_gradient.touched, and of groups. */
static inline size_t ct_touched_words(uint32_t n_vertices) {
    return ((size_t)n_vertices + 63) / 64;
}

static inline size_t ct_touched_groups(uint32_t n_vertices) {
    return ((size_t)n_vertices + 4095) / 4096;
}

/* Runs tasks 0 to n - 1, on all threads if the pair is spread. */
static inline void ct_exact_for_each(ct_exact_pair *exact, uint32_t n, ct_pool_fn task) {
    if (exact->has_failed) return;
    if (exact->is_spread)
        ct_pool_run(exact->workspace->pool, n, task, exact);
    else
        for (uint32_t i = 0; i < n && !exact->has_failed; i++) task(exact, i, exact->driver);
}

/* Memory until the end of the pair, or of its present piece, from the driving thread. NULL: the pair has failed. */
static inline void *ct_exact_allocate(ct_exact_pair *exact, size_t bytes) {
    void *memory = ct_arena_alloc(exact->arena, &exact->device->budget, bytes ? bytes : 1);
    if (!memory) exact->has_failed = true;
    return memory;
}

static inline void *ct_exact_allocate_zeroed(ct_exact_pair *exact, size_t bytes) {
    void *memory = ct_exact_allocate(exact, bytes);
    enum { SHORT = 1 << 16 }; /* bytes: of most pairs all are, and need no poll */
    if (memory && bytes <= SHORT) memset(memory, 0, bytes);
    if (!memory || bytes <= SHORT || ct_fill_large(memory, 0, bytes)) return memory;
    exact->has_failed = true;
    return NULL;
}

/* ---- tasks ---- */

/* A task's items of one of the bodies. */
typedef struct ct_exact_chunk {
    int part;
    uint32_t first, end;
} ct_exact_chunk;

/* Chunk i of n[0] items of part 0 and n[1] of part 1. */
static inline ct_exact_chunk ct_exact_chunk_at(uint32_t i, const uint32_t n[2], uint32_t size) {
    const uint32_t chunks = (n[0] + size - 1) / size;
    const int part = i >= chunks;
    const uint32_t first = (part ? i - chunks : i) * size, end = first + size;
    return (ct_exact_chunk){part, first, end < n[part] ? end : n[part]};
}

static inline uint32_t ct_exact_count_chunks(const uint32_t n[2], uint32_t size) {
    return (n[0] + size - 1) / size + (n[1] + size - 1) / size;
}

/* ---- sets of clusters: a bit each ---- */

static inline size_t ct_count_set_words(uint32_t n_clusters) {
    return ((size_t)n_clusters + 63) / 64;
}

static inline uint32_t ct_count_set(const uint64_t *set, uint32_t n_clusters) {
    uint32_t n = 0;
    for (size_t w = 0; w < ct_count_set_words(n_clusters); w++) n += (uint32_t)__builtin_popcountll(set[w]);
    return n;
}

/* Their numbers, rising. */
static inline void ct_list_set(const uint64_t *set, uint32_t n_clusters, uint32_t *to) {
    for (size_t w = 0; w < ct_count_set_words(n_clusters); w++)
        for (uint64_t left = set[w]; left; left &= left - 1)
            *to++ = (uint32_t)(64 * w) + (uint32_t)__builtin_ctzll(left);
}

/* ---- passes and surfaces ---- */

/* Clusters between two polls of work on what is inside them: some 200 us. */
enum { CT_CLUSTER_POLL = 16 };

/* Parts whose surfaces are found: those of twins are the same. */
static inline int ct_exact_count_surfaces(const ct_exact_pair *exact) {
    return exact->is_self || exact->is_twin ? 1 : 2;
}

/* Body 1 moves along (e, e^2, e^3) in pass 0, against it in pass 1. */
static inline int ct_exact_moved_in(int pass) {
    return pass ? -1 : 1;
}

/* Winding numbers of cluster surface->added[k]. */
static inline ct_winding_numbers ct_exact_winding_numbers(const ct_topology *topology, const ct_exact_surface *surface,
                                                          uint32_t k) {
    const uint32_t cluster = surface->added[k], as = surface->crossed_as[cluster];
    if (surface->of_triangle)
        return (ct_winding_numbers){.crossed = as ? &surface->crossed[as - 1] : NULL,
                                    .of_unit = surface->of_triangle + (size_t)cluster * CT_CLUSTER_TRIANGLES,
                                    .unit_in_cluster = surface->own_number};
    return (ct_winding_numbers){.crossed = as ? &surface->crossed[as - 1] : NULL,
                                .of_unit = surface->of_unit + topology->first_unit[cluster],
                                .unit_in_cluster = topology->unit_in_cluster + (size_t)cluster * CT_CLUSTER_TRIANGLES};
}

/* True: each piece of the intersection becomes a contact. */
static inline bool ct_exact_wants_patches(const ct_exact_pair *exact) {
    return exact->pair->settings->patches;
}

/* True: the step wants products with the second derivative, or inertia. */
static inline bool ct_exact_wants_second(const ct_exact_pair *exact) {
    return exact->pair->n_directions || exact->pair->step->want & CT_WANT_INERTIA;
}

_Static_assert(CT_MAX_THREADS <= 1 << 8, "ct_crossing.worker");

/* For second_cpu.c: once all crossings are found, until the pair ends. */
static inline ct_crossed_pair ct_exact_crossed_pair(const ct_exact_pair *exact, const ct_crossing *crossing) {
    ct_crossed_pair pair = {.triangle = crossing->triangle, .other = crossing->other};
    if (crossing->segment) {
        const ct_crossing_lists *lists = &ct_exact_scratch_of(exact->workspace, crossing->worker)->lists;
        pair.segment = (const ct_crossing_segment *)lists->segments.data + (crossing->segment - 1);
        pair.is_second = crossing->is_second;
    }
    return pair;
}

/* ---- the steps of a pair, in order ---- */

/* Each does nothing to a pair that has failed, unless it says otherwise. */

/* search_cpu.c: finds the pairs of clusters that may cross, and lists their clusters with the blocks that may. */
void ct_exact_search(ct_exact_pair *exact);
/* cross_cpu.c: finds the crossings of this pass, and sums them up by cluster. has_ties: a tie was broken. */
void ct_exact_cross(ct_exact_pair *exact);
/* flood_cpu.c: finds the winding numbers of this pass, and lists the clusters that are inside, or partly. */
void ct_exact_flood(ct_exact_pair *exact);
/* sum_cpu.c: adds up the surfaces of all passes: fills the gradients, and adds to the totals. */
void ct_exact_sum(ct_exact_pair *exact);
/* finish_cpu.c: makes a contact from the totals and the gradients, which it clears: of a pair that has failed too. */
void ct_exact_finish(ct_exact_pair *exact, ct_pair_contact *contact);

/* ---- placing (pair_cpu.c) ---- */

/* Takes a cluster into body b's list, if it is not there, without its coordinates yet: residual is negative. crosses:
 * with memory for its floats. NULL: out of memory. */
ct_placed_cluster *ct_exact_list_cluster(ct_exact_pair *exact, int b, uint32_t cluster, bool crosses);
/* Places a cluster of body b, on the driving thread. NULL: out of memory. */
const ct_placed_cluster *ct_exact_place(ct_exact_pair *exact, int b, uint32_t cluster);

/* ---- a body with itself (self_cpu.c) ---- */

/* Crosses the triangles of two clusters of one body, for both passes. */
void ct_exact_cross_own(const ct_exact_pair *exact, const ct_cluster_pair *clusters, ct_crossing_lists *lists);
/* Finds the winding numbers just outside the surface of this pass, once crossings are summed. */
void ct_exact_find_own_winding(ct_exact_pair *exact);
/* Once all passes are added up: takes over what the flood saw of winding numbers. */
void ct_exact_total_own_winding(ct_exact_pair *exact);
/* Moves the gradient and the moments of one of the two sides of the contact to part 1. */
void ct_exact_split_sides(ct_exact_pair *exact);

/* ---- pieces (pieces_cpu.c) ---- */

/* Finds the pieces of the intersection. False: there is one at most, or the pair has failed. */
bool ct_exact_find_pieces(ct_exact_pair *exact);
/* Sums up and makes their contacts, the pair's, in the order of their indices. */
void ct_exact_finish_pieces(ct_exact_pair *exact);

/* ---- on request (second_cpu.c) ---- */

/* Adds to the contact what ct_exact_wants_second asks for, from the surfaces of all passes and the gradients. */
void ct_exact_find_second(ct_exact_pair *exact);

#endif
