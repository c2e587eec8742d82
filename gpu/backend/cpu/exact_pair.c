/* exact_pair.c - the method `exact` on the CPU: plans a pair, finds its crossings and winding numbers, and adds up the
 * parts of both surfaces that lie inside the other body. */
#include "gpu/backend/cpu/exact_pair.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend/cpu/cpu.h"
#include "gpu/exact/extents.h"
#include "gpu/mesh/mesh.h"
#include "gpu/scene/half_space.h"

/* ---- planning ---- */

/* Estimate in ns; only the choice between one thread and several depends on it. */
static double cost_of(const ct_pair_task *pair) {
    const ct_body *const *body = pair->body;
    if (ct_is_self_task(pair)) return 5000 + 400.0 * body[0]->mesh->n_triangles;
    const uint32_t n_triangles[2] = {body[0]->mesh->n_triangles, body[1]->mesh->n_triangles};
    return 5000 + 20 * ct_exact_triangles(&body[0]->box, &body[1]->box, n_triangles);
}

/* A half-space takes part as a block that is out of reach but for its top. False: the bodies have no contact. */
static bool place_bodies(const ct_pair_task *pair, ct_pair_placement *out) {
    const ct_body *const *body = pair->body;
    return ct_place_pair((const double *const[2]){body[0]->pose, body[1]->pose},
                         (const ct_box *const[2]){&body[0]->box, &body[1]->box},
                         (const int[2]){body[0]->is_half_space, body[1]->is_half_space}, out);
}

static ct_status plan_pair(const ct_device *device, const ct_scene_settings *settings, ct_pair_task *pair,
                           ct_error *error) {
    (void)device;
    ct_pair_placement placement;
    if (place_bodies(pair, &placement)) {
        const ct_status status = ct_check_placement(&placement, error);
        if (status) return status;
    }
    pair->wants_patches = settings->patches;
    pair->n_contacts = 1;
    pair->cost = cost_of(pair);
    return CT_OK;
}

/* ---- memory ---- */

static ct_exact_scratch *driver_of(const ct_exact_pair *exact) {
    return &exact->workspace->workers[exact->driver].exact;
}

/* ---- bodies ---- */

static const ct_cluster_box *current_boxes(ct_exact_pair *exact, const ct_body *body, const ct_clusters *clusters) {
    if (body->kind == CT_BODY_RIGID) return clusters->rest;
    if (body->resident->boxes && !body->resident->is_stale) return body->resident->boxes;
    ct_cluster_box *boxes = ct_exact_allocate(exact, clusters->n_nodes * sizeof *boxes);
    if (!boxes) return NULL;
    enum { AT_ONCE = 64 };
    for (uint32_t first = 0; first < clusters->n; first += AT_ONCE) {
        const uint32_t left = clusters->n - first;
        if (ct_exact_is_cancelled(exact, NULL, 0)) return NULL;
        ct_clusters_refit(clusters, body->resident->positions, first, first + (left < AT_ONCE ? left : AT_ONCE), boxes);
    }
    ct_clusters_refit_tree(clusters, boxes);
    return boxes;
}

static double reach_of(const ct_mesh *mesh) {
    double reach = 0;
    for (int k = 0; k < 3; k++) reach = fmax(reach, fmax(fabs(mesh->lo[k]), fabs(mesh->hi[k])));
    return reach;
}

static void begin_part(ct_exact_pair *exact, int b, const ct_pair_placement *placement) {
    const ct_body *body = exact->pair->body[b];
    const bool is_rigid = body->kind == CT_BODY_RIGID;
    const double *pose = body->is_half_space ? placement->block[b] : is_rigid ? body->pose : NULL;
    ct_exact_part *part = &exact->part[b];
    ct_exact_scratch *scratch = driver_of(exact);
    ct_budget *budget = &exact->device->budget;
    const ct_topology *topology = ct_mesh_topology(body->mesh, NULL); /* made when the body was added */
    const uint32_t n_clusters = topology->clusters->n, n_vertices = body->mesh->n_vertices;
    const size_t n_words = ct_touched_words(n_vertices), n_groups = ct_touched_groups(n_vertices);
    part->body = (ct_exact_body){
        .topology = topology,
        .boxes = current_boxes(exact, body, topology->clusters),
        .positions = is_rigid ? body->mesh->positions : body->resident->positions,
        .rigid = is_rigid && ct_has_rigid_clusters(body->mesh) ? ct_mesh_rigid_clusters(body->mesh, NULL) : NULL,
        .pose = ct_lattice_pose_of(&exact->lattice, pose, reach_of(body->mesh)),
        .n_triangles = body->mesh->n_triangles,
    };
    const bool is_mirrored = exact->is_twin && b == 1;
    part->body.placed =
        is_mirrored ? exact->part[0].body.placed : ct_exact_allocate(exact, n_clusters * sizeof(ct_placed_cluster));
    part->body.placed_as =
        is_mirrored ? exact->part[0].body.placed_as : ct_exact_allocate_zeroed(exact, n_clusters * sizeof(uint32_t));
    part->body.pose.rounding += placement->rounding[b] * exact->lattice.inverse;
    if (!ct_buffer_reserve(&scratch->gradient[b], budget, n_vertices * sizeof(int64_t[3]),
                           scratch->gradient[b].capacity, true) ||
        !ct_buffer_reserve(&scratch->touched[b], budget, (n_words + n_groups) * sizeof(uint64_t) + n_words * 64,
                           scratch->touched[b].capacity, true)) {
        exact->has_failed = true;
        return;
    }
    uint64_t *touched = scratch->touched[b].data, *groups = touched + n_words;
    part->gradient = (ct_exact_gradient){.of = scratch->gradient[b].data,
                                         .touched = touched,
                                         .groups = groups,
                                         .marks = exact->is_spread ? (uint8_t *)(groups + n_groups) : NULL,
                                         .in_several_runs = topology->in_several_runs};
}

/* ---- placing ---- */

ct_placed_cluster *ct_exact_list_cluster(ct_exact_pair *exact, int b, uint32_t cluster, bool crosses) {
    ct_exact_body *body = &exact->part[exact->is_twin ? 0 : b].body;
    if (body->placed_as[cluster]) return &body->placed[body->placed_as[cluster] - 1];
    const ct_clusters *clusters = body->topology->clusters;
    const uint32_t first = clusters->first_vertex[cluster], first_triangle = cluster * CT_CLUSTER_TRIANGLES;
    const uint32_t left = body->n_triangles - first_triangle;
    ct_placed_cluster *c = &body->placed[body->n_placed];
    *c = (ct_placed_cluster){.cluster = cluster,
                             .first_vertex = first,
                             .n_triangles = left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES,
                             .n_vertices = clusters->first_vertex[cluster + 1] - first,
                             .vertices = clusters->vertices + first,
                             .positions = body->rigid && body->rigid->positions ? body->rigid->positions + first : NULL,
                             .corners = body->topology->corners + first_triangle,
                             .block_order = body->topology->block_order + first_triangle,
                             .is_shared = exact->is_spread,
                             .residual = -1};
    c->points = ct_exact_allocate(exact, c->n_vertices * sizeof *c->points);
    if (crosses && exact->is_spread) c->floats = ct_exact_allocate(exact, sizeof *c->floats);
    if (exact->has_failed) return NULL;
    body->placed_as[cluster] = ++body->n_placed;
    return c;
}

/* Clusters that one task places. */
enum { PLACE_CHUNK = 16 };

static void place_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    if (ct_exact_should_end(exact)) return;
    const uint32_t n[2] = {exact->part[0].body.n_placed, exact->part[1].body.n_placed};
    const ct_exact_chunk chunk = ct_exact_chunk_at(i, n, PLACE_CHUNK);
    ct_exact_body *body = &exact->part[chunk.part].body;
    for (uint32_t c = chunk.first; c < chunk.end; c++)
        exact->device->kernels->exact->place(&body->placed[c], &body->pose, body->positions);
}

/* Places the clusters of all pairs, unless one thread crosses them: see take_floats. */
static void place_pairs(ct_exact_pair *exact) {
    ct_exact_list_near(exact);
    if (!exact->is_spread) return;
    const uint32_t n[2] = {exact->part[0].body.n_placed, exact->part[1].body.n_placed};
    ct_exact_for_each(exact, ct_exact_count_chunks(n, PLACE_CHUNK), place_chunk);
}

/* For floods, on the driving thread: body i of the flood is part `first`, or the other one. */
struct placer {
    ct_exact_pair *exact;
    int first;
};

const ct_placed_cluster *ct_exact_place(ct_exact_pair *exact, int b, uint32_t cluster) {
    ct_exact_body *body = &exact->part[b].body;
    ct_placed_cluster *c = ct_exact_list_cluster(exact, b, cluster, false);
    if (c && c->residual < 0) exact->device->kernels->exact->place(c, &body->pose, body->positions);
    return c;
}

static const ct_placed_cluster *place_for_flood(void *argument, int i, uint32_t cluster) {
    const struct placer *placer = argument;
    return ct_exact_place(placer->exact, i ? 1 - placer->first : placer->first, cluster);
}

/* ---- crossings ---- */

/* Floats of clusters without pairs left, of a pair that one thread computes: the next clusters get them, so that few
 * are in use at a time and stay in the processor's cache. */
struct ct_free_floats {
    struct ct_free_floats *next;
};

/* Gives a cluster floats, and places it. */
static void take_floats(ct_exact_pair *exact, const ct_exact_body *body, ct_placed_cluster *c) {
    if (c->floats) return;
    struct ct_free_floats *free_floats = exact->free_floats;
    if (free_floats) exact->free_floats = free_floats->next;
    c->floats = free_floats ? (void *)free_floats : ct_exact_allocate(exact, sizeof *c->floats);
    if (c->floats) exact->device->kernels->exact->place(c, &body->pose, body->positions);
}

/* After one of a cluster's pairs was crossed. */
static void release_floats(ct_exact_pair *exact, ct_placed_cluster *c) {
    if (--c->n_pairs_left) return;
    struct ct_free_floats *free_floats = (void *)c->floats;
    free_floats->next = exact->free_floats;
    exact->free_floats = free_floats;
    c->floats = NULL;
}

/* Pairs of clusters that one task crosses: about 20 us. */
enum { CROSS_CHUNK = 32 };

static void cross_chunk(void *argument, uint32_t i, uint32_t worker) {
    ct_exact_pair *exact = argument;
    const size_t first = (size_t)i * CROSS_CHUNK, left = exact->n_cluster_pairs - first;
    ct_crossing_lists *lists = &exact->workspace->workers[worker].exact.lists;
    if (exact->has_failed || ct_exact_is_cancelled(exact, "pairs of triangles", lists->n_looked_at)) return;
    const ct_exact_body *a = &exact->part[0].body, *b = &exact->part[exact->is_self ? 0 : 1].body;
    for (size_t p = first; p < first + (left < CROSS_CHUNK ? left : CROSS_CHUNK); p++) {
        ct_placed_cluster *ca = &a->placed[a->placed_as[exact->cluster_pairs[p].a] - 1],
                          *cb = &b->placed[b->placed_as[exact->cluster_pairs[p].b] - 1];
        if (!exact->is_spread) {
            take_floats(exact, a, ca);
            take_floats(exact, b, cb);
            if (exact->has_failed) return;
        }
        if (lists->is_full) break;
        if (exact->is_self)
            ct_exact_cross_own(exact, &exact->cluster_pairs[p], lists);
        else
            exact->device->kernels->exact->cross(ca, cb, ct_exact_moved_in(0), &exact->device->budget, lists);
        if (!exact->is_spread) {
            release_floats(exact, ca);
            release_floats(exact, cb);
        }
    }
    if (lists->is_full) exact->has_failed = true;
}

/* Sets of clusters: a bit each. */
static size_t count_set_words(uint32_t n_clusters) {
    return ((size_t)n_clusters + 63) / 64;
}

static uint32_t count_set(const uint64_t *set, uint32_t n_clusters) {
    uint32_t n = 0;
    for (size_t w = 0; w < count_set_words(n_clusters); w++) n += (uint32_t)__builtin_popcountll(set[w]);
    return n;
}

/* Their numbers, rising. */
static void list_set(const uint64_t *set, uint32_t n_clusters, uint32_t *to) {
    for (size_t w = 0; w < count_set_words(n_clusters); w++)
        for (uint64_t left = set[w]; left; left &= left - 1)
            *to++ = (uint32_t)(64 * w) + (uint32_t)__builtin_ctzll(left);
}

/* Parts whose surfaces are found: those of twins are the same. */
static int count_surfaces(const ct_exact_pair *exact) {
    return exact->is_self || exact->is_twin ? 1 : 2;
}

/* A list of crossings, of which those of a pass are taken: all passes' are found at once. */
struct taken_list {
    ct_crossing *list;
    size_t n;
    uint8_t pass;        /* the bit in ct_crossing.passes */
    bool drops_diagonal; /* of a triangle and itself: a twin's mirror image of it is in the other list */
};

static struct taken_list list_taken(const ct_exact_pair *exact, uint32_t worker, int b, int of) {
    const ct_crossing_lists *lists = &exact->workspace->workers[worker].exact.lists;
    const bool is_mirrored = exact->is_twin && of != b;
    return (struct taken_list){.list = lists->of_body[of].data,
                               .n = lists->n[of],
                               .pass = (uint8_t)(1u << (is_mirrored ? 1 - exact->pass : exact->pass)),
                               .drops_diagonal = is_mirrored};
}

static inline bool is_taken(const struct taken_list *from, const ct_crossing *crossing) {
    return (crossing->passes & from->pass) && !(from->drops_diagonal && crossing->triangle == crossing->other);
}

/* Crossings between two polls, some 50 us, and clusters: some 200 us. */
enum { GATHER_POLL = 4096, CLUSTER_POLL = 16 };

/* Sorts the threads' crossings of a body by cluster. Those of a body with itself, or its twin, are in both lists. */
static void gather_crossings(ct_exact_pair *exact, int b) {
    const int last = exact->is_self || exact->is_twin ? 1 : b;
    ct_exact_surface *surface = &exact->part[b].surface[exact->pass];
    const uint32_t n_clusters = exact->part[b].body.topology->clusters->n;
    uint32_t *count = ct_exact_allocate_zeroed(exact, n_clusters * sizeof *count);
    uint64_t *is_crossed = ct_exact_allocate_zeroed(exact, count_set_words(n_clusters) * sizeof *is_crossed);
    size_t n = 0;
    if (exact->has_failed) return;
    for (uint32_t w = exact->first_worker; w < exact->end_worker; w++)
        for (int of = b; of <= last; of++) {
            const struct taken_list from = list_taken(exact, w, b, of);
            for (size_t i = 0; i < from.n; i++) {
                if (CT_POLL_EVERY(i, GATHER_POLL) && ct_exact_is_cancelled(exact, "crossings", i)) return;
                const uint32_t cluster = from.list[i].triangle / CT_CLUSTER_TRIANGLES;
                const uint64_t counts = is_taken(&from, &from.list[i]);
                count[cluster] += (uint32_t)counts;
                is_crossed[cluster / 64] |= counts << cluster % 64;
                n += counts;
            }
        }
    if (b == 0 && !exact->is_self) exact->pair->fragments += n;
    surface->n_crossed = count_set(is_crossed, n_clusters);
    surface->crossings = ct_exact_allocate(exact, n * sizeof *surface->crossings);
    surface->crossed_as = ct_exact_allocate_zeroed(exact, n_clusters * sizeof *surface->crossed_as);
    surface->first_crossing = ct_exact_allocate(exact, (surface->n_crossed + 1) * sizeof *surface->first_crossing);
    surface->crossed_clusters = ct_exact_allocate(exact, surface->n_crossed * sizeof *surface->crossed_clusters);
    surface->crossed = ct_exact_allocate(exact, surface->n_crossed * sizeof *surface->crossed);
    size_t *at = ct_exact_allocate(exact, surface->n_crossed * sizeof *at);
    if (exact->has_failed) return;
    list_set(is_crossed, n_clusters, surface->crossed_clusters);
    size_t first = 0;
    for (uint32_t i = 0; i < surface->n_crossed; i++) {
        const uint32_t cluster = surface->crossed_clusters[i];
        surface->first_crossing[i] = at[i] = first;
        surface->crossed_as[cluster] = i + 1;
        first += count[cluster];
    }
    surface->first_crossing[surface->n_crossed] = first;
    ct_crossing **const to = surface->crossings;
    const uint32_t *const crossed_as = surface->crossed_as;
    for (uint32_t w = exact->first_worker; w < exact->end_worker; w++)
        for (int of = b; of <= last; of++) {
            const struct taken_list from = list_taken(exact, w, b, of);
            for (size_t i = 0; i < from.n; i++) {
                if (CT_POLL_EVERY(i, GATHER_POLL) && ct_exact_is_cancelled(exact, "crossings", i)) return;
                if (is_taken(&from, &from.list[i]))
                    to[at[crossed_as[from.list[i].triangle / CT_CLUSTER_TRIANGLES] - 1]++] = &from.list[i];
            }
        }
    for (uint32_t i = 0; i < surface->n_crossed; i++) { /* what they are totalled into */
        if (CT_POLL_EVERY(i, CLUSTER_POLL) && ct_exact_is_cancelled(exact, "crossings", first)) return;
        const uint32_t cluster = surface->crossed_clusters[i];
        const ct_clusters *clusters = exact->part[b].body.topology->clusters;
        const size_t crossings = surface->first_crossing[i + 1] - surface->first_crossing[i];
        const size_t most = crossings < CT_CLUSTER_TRIANGLES ? crossings : CT_CLUSTER_TRIANGLES;
        surface->crossed[i].triangles = ct_exact_allocate(exact, most * sizeof *surface->crossed[i].triangles);
        surface->crossed[i].winding = ct_exact_allocate(
            exact, (clusters->first_vertex[cluster + 1] - clusters->first_vertex[cluster]) * sizeof(int32_t));
        if (exact->has_failed) return;
    }
}

enum { TOTAL_CHUNK = 16 };

static void total_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    const uint32_t n[2] = {exact->part[0].surface[exact->pass].n_crossed,
                           exact->part[1].surface[exact->pass].n_crossed};
    const ct_exact_chunk chunk = ct_exact_chunk_at(i, n, TOTAL_CHUNK);
    ct_exact_surface *surface = &exact->part[chunk.part].surface[exact->pass];
    const ct_topology *topology = exact->part[chunk.part].body.topology;
    for (uint32_t c = chunk.first; c < chunk.end; c++) {
        if (exact->has_failed || ct_exact_is_cancelled(exact, "crossings", surface->first_crossing[c])) return;
        const size_t first = surface->first_crossing[c], n_crossings = surface->first_crossing[c + 1] - first;
        const uint32_t cluster = surface->crossed_clusters[c];
        if (exact->is_self) { /* it has winding numbers of triangles instead */
            const uint32_t *first_vertex = topology->clusters->first_vertex + cluster;
            ct_sum_crossings(cluster, surface->crossings + first, n_crossings, &surface->crossed[c]);
            memset(surface->crossed[c].winding, 0, (first_vertex[1] - first_vertex[0]) * sizeof(int32_t));
            continue;
        }
        const bool is_consistent =
            ct_total_crossings(topology, cluster, surface->crossings + first, n_crossings, &surface->crossed[c]);
        assert(is_consistent || ct_is_cancelled()); /* what is cancelled is not summed up */
        (void)is_consistent;
    }
}

/* Fills the threads' lists of crossings. */
static void list_crossings(ct_exact_pair *exact) {
    for (uint32_t w = exact->first_worker; w < exact->end_worker; w++) {
        ct_crossing_lists *lists = &exact->workspace->workers[w].exact.lists;
        lists->n[0] = lists->n[1] = 0;
        lists->n_looked_at = 0;
        lists->has_ties = lists->is_full = false;
        lists->n_inconsistent = 0;
        lists->left_out[0] = lists->left_out[1] = (ct_left_out){0};
        lists->is_self = exact->is_self;
        lists->is_twin = exact->is_twin;
        lists->has_both = true;
    }
    ct_exact_for_each(exact, (uint32_t)((exact->n_cluster_pairs + CROSS_CHUNK - 1) / CROSS_CHUNK), cross_chunk);
}

/* Returns whether a tie was broken. */
static bool find_crossings(ct_exact_pair *exact) {
    bool has_ties = false;
    uint64_t n_inconsistent = 0;
    ct_enter_phase("crossing triangles");
    if (exact->pass == 0) list_crossings(exact);
    for (uint32_t w = exact->first_worker; w < exact->end_worker; w++) {
        const ct_crossing_lists *lists = &exact->workspace->workers[w].exact.lists;
        has_ties |= lists->has_ties;
        n_inconsistent += lists->n_inconsistent;
        ct_add_left_out(&exact->left_out[exact->pass], &lists->left_out[exact->pass]);
        if (exact->is_self) exact->pair->fragments += lists->n[0];
    }
    assert(n_inconsistent == 0);
    (void)n_inconsistent;
    ct_enter_phase("summing crossings");
    for (int b = 0; b < count_surfaces(exact) && !exact->has_failed; b++) gather_crossings(exact, b);
    const uint32_t n[2] = {exact->part[0].surface[exact->pass].n_crossed,
                           exact->part[1].surface[exact->pass].n_crossed};
    ct_exact_for_each(exact, ct_exact_count_chunks(n, TOTAL_CHUNK), total_chunk);
    if (ct_exact_wants_second(exact)) ct_exact_keep_crossings(exact);
    if (exact->pair->wants_patches) ct_exact_keep_shares(exact);
    return has_ties;
}

/* ---- winding numbers ---- */

static void find_winding_numbers(ct_exact_pair *exact, int b) {
    ct_exact_surface *surface = &exact->part[b].surface[exact->pass];
    const ct_topology *topology = exact->part[b].body.topology;
    const uint32_t n_clusters = topology->clusters->n;
    struct placer placer = {exact, b};
    surface->of_unit = ct_exact_allocate_zeroed(exact, topology->n_units * sizeof *surface->of_unit);
    ct_flood flood = {.body = {&exact->part[b].body, &exact->part[1 - b].body},
                      .moved = b == 0 ? ct_exact_moved_in(exact->pass) : -ct_exact_moved_in(exact->pass),
                      .crossed_as = surface->crossed_as,
                      .crossed = surface->crossed,
                      .crossed_clusters = surface->crossed_clusters,
                      .n_crossed = surface->n_crossed,
                      .place = place_for_flood,
                      .argument = &placer,
                      .is_crossed = ct_exact_allocate_zeroed(exact, topology->n_units),
                      .is_known = ct_exact_allocate_zeroed(exact, topology->n_units),
                      .is_done = ct_exact_allocate_zeroed(exact, topology->n_components),
                      .queue = ct_exact_allocate(exact, topology->n_units * sizeof *flood.queue),
                      .of_unit = surface->of_unit,
                      .has_inside = ct_exact_allocate_zeroed(exact, count_set_words(n_clusters) * sizeof(uint64_t))};
    if (exact->has_failed) return;
    if (!ct_flood_winding_numbers(&flood)) {
        exact->has_failed = true;
        return;
    }
    exact->pair->rays += exact->is_twin ? 2 * flood.n_rays : flood.n_rays;
    surface->n_added = count_set(flood.has_inside, n_clusters);
    surface->added = ct_exact_allocate(exact, surface->n_added * sizeof *surface->added);
    surface->sums = ct_exact_allocate_zeroed(exact, surface->n_added * sizeof *surface->sums);
    if (exact->has_failed) return;
    list_set(flood.has_inside, n_clusters, surface->added);
}

/* ---- adding up ---- */

static void add_cluster(const ct_exact_pair *exact, ct_exact_part *part, uint32_t k) {
    const ct_exact_surface *surface = &part->surface[exact->pass];
    const uint32_t cluster = surface->added[k];
    const ct_exact_cpu *kernels = exact->device->kernels->exact;
    const ct_winding_numbers w = ct_exact_winding_numbers(part->body.topology, surface, k);
    ct_placed_cluster *placed = &part->body.placed[part->body.placed_as[cluster] - 1];
    if (placed->residual < 0) kernels->place(placed, &part->body.pose, part->body.positions);
    if (surface->added_shares) {
        const ct_added_share *share = &surface->added_shares[k];
        kernels->add_some(placed, &w, share->triangles, share->n, ldexp(1, -exact->exponent), &part->gradient,
                          &surface->sums[k]);
        return;
    }
    kernels->add(placed, &w, ldexp(1, -exact->exponent), &part->gradient, &surface->sums[k]);
}

static uint32_t count_runs(const ct_exact_part *part) {
    return (part->body.topology->clusters->n + CT_RUN_CLUSTERS - 1) / CT_RUN_CLUSTERS;
}

/* The first of the clusters to add that is not before `cluster`. */
static uint32_t first_added_from(const ct_exact_surface *surface, uint32_t cluster) {
    uint32_t first = 0, end = surface->n_added;
    while (first < end) {
        const uint32_t middle = first + (end - first) / 2;
        if (surface->added[middle] < cluster)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* One thread adds all clusters of a run: see ct_exact_gradient.in_several_runs. */
static void add_run(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    if (ct_exact_should_end(exact)) return;
    const uint32_t of_first = count_runs(&exact->part[0]);
    ct_exact_part *part = &exact->part[i < of_first ? 0 : 1];
    const ct_exact_surface *surface = &part->surface[exact->pass];
    const uint32_t run = i < of_first ? i : i - of_first;
    const uint32_t end = first_added_from(surface, (run + 1) * CT_RUN_CLUSTERS);
    for (uint32_t k = first_added_from(surface, run * CT_RUN_CLUSTERS); k < end; k++) add_cluster(exact, part, k);
}

static void add_surfaces(ct_exact_pair *exact) {
    const uint32_t n_runs = count_runs(&exact->part[0]) + (exact->is_twin ? 0 : count_runs(&exact->part[1]));
    if (exact->is_spread) ct_exact_for_each(exact, n_runs, add_run);
    for (int b = 0; b < (exact->is_twin ? 1 : 2) && !exact->is_spread && !exact->has_failed; b++)
        for (uint32_t k = 0; k < exact->part[b].surface[exact->pass].n_added; k++) {
            if (CT_POLL_EVERY(k, CLUSTER_POLL) && ct_exact_is_cancelled(exact, NULL, 0)) return;
            add_cluster(exact, &exact->part[b], k);
        }
}

/* Lists the clusters inside that have no coordinates yet; add_cluster places them. */
static void list_added(ct_exact_pair *exact, int b) {
    const ct_exact_surface *surface = &exact->part[b].surface[exact->pass];
    for (uint32_t k = 0; k < surface->n_added && !exact->has_failed; k++) {
        if (CT_POLL_EVERY(k, CLUSTER_POLL) && ct_exact_is_cancelled(exact, NULL, 0)) return;
        ct_exact_list_cluster(exact, b, surface->added[k], false);
    }
}

/* Bounds the winding numbers of a cluster's triangles. From the numbers themselves, not from the relative ones, which
 * depend on the order of vertices. */
static double bound_winding(const ct_topology *topology, const ct_exact_surface *surface, uint32_t k) {
    const uint32_t cluster = surface->added[k], as = surface->crossed_as[cluster];
    int32_t most = 0;
    if (surface->added_shares) return surface->added_shares[k].max_winding + (as ? 2 : 0);
    if (surface->of_triangle) {
        const int32_t *numbers = surface->of_triangle + (size_t)cluster * CT_CLUSTER_TRIANGLES;
        for (uint32_t t = 0; t < CT_CLUSTER_TRIANGLES; t++)
            if (abs(numbers[t]) > most) most = abs(numbers[t]);
        return as ? most + 2 : most;
    }
    const int32_t *of_unit = surface->of_unit + topology->first_unit[cluster];
    if (!as) {
        for (uint32_t u = 0; u < topology->first_unit[cluster + 1] - topology->first_unit[cluster]; u++)
            if (abs(of_unit[u]) > most) most = abs(of_unit[u]);
        return most;
    }
    const uint32_t first = topology->clusters->first_vertex[cluster],
                   end = topology->clusters->first_vertex[cluster + 1];
    const bool is_one_unit = topology->first_unit[cluster + 1] - topology->first_unit[cluster] == 1;
    for (uint32_t i = 0; i < end - first && is_one_unit; i++) {
        const int32_t size = abs(of_unit[0] + surface->crossed[as - 1].winding[i]);
        most = size > most ? size : most;
    }
    for (uint32_t i = first; i < end && !is_one_unit; i++) {
        const ct_walk_step step = topology->walk[i];
        const size_t t = (size_t)cluster * CT_CLUSTER_TRIANGLES + ct_walk_triangle(step);
        const int32_t winding = of_unit[topology->unit_in_cluster[t]] +
                                surface->crossed[as - 1].winding[topology->corners[t][ct_walk_to(step)]];
        if (abs(winding) > most) most = abs(winding);
    }
    return most + 2; /* between its corners a triangle may be deeper inside: see find_crossed_share */
}

/* The largest share of a crossed triangle in a cluster. */
static double find_crossed_share(const ct_exact_body *own, const ct_exact_surface *surface, uint32_t cluster) {
    const uint32_t as = surface->crossed_as[cluster];
    if (!as) return 0;
    const ct_topology *topology = own->topology;
    const ct_crossed_cluster *crossed = &surface->crossed[as - 1];
    const ct_placed_cluster *c = &own->placed[own->placed_as[cluster] - 1];
    double most = 0;
    for (uint32_t i = 0; i < crossed->n; i++) {
        const uint32_t t = crossed->triangles[i].triangle;
        const size_t triangle = (size_t)cluster * CT_CLUSTER_TRIANGLES + t;
        const uint32_t unit = topology->first_unit[cluster] + topology->unit_in_cluster[triangle];
        const int32_t winding = surface->of_triangle ? surface->of_triangle[triangle]
                                                     : surface->of_unit[unit] + crossed->winding[c->corners[t][1]];
        const double *const p[3] = {c->points[c->corners[t][0]], c->points[c->corners[t][1]],
                                    c->points[c->corners[t][2]]};
        most = ct_greater(most, ct_crossed_share(p, winding, &crossed->triangles[i].integrals));
    }
    return most;
}

/* Clusters that one task looks at. */
enum { PLAN_CHUNK = 32 };

/* Finds the largest share that a triangle of a cluster may have, for each cluster that is added in this pass. The part
 * of a triangle inside the other body has no larger projection along an axis than its cluster's box has, cut to the
 * other body's box. */
static void plan_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    if (ct_exact_should_end(exact)) return;
    const uint32_t n[2] = {exact->part[0].surface[exact->pass].n_added, exact->part[1].surface[exact->pass].n_added};
    const ct_exact_chunk chunk = ct_exact_chunk_at(i, n, PLAN_CHUNK);
    const ct_exact_body *own = &exact->part[chunk.part].body, *other = &exact->part[1 - chunk.part].body;
    const ct_exact_surface *surface = &exact->part[chunk.part].surface[exact->pass];
    const ct_node_box window = ct_exact_node_box(other, other->topology->clusters->n_nodes - 1);
    for (uint32_t k = chunk.first; k < chunk.end; k++) {
        const ct_node_box box = ct_exact_node_box(own, surface->added[k]);
        const ct_cut_box cut = ct_cut_to_window(&box, &window);
        surface->sums[k].cut_sides = cut.sides;
        surface->sums[k].largest_share = fmax(cut.face * (1 + bound_winding(own->topology, surface, k)),
                                              find_crossed_share(own, surface, surface->added[k]));
    }
}

/* The exponent of the fixed point's step. */
static int plan_fixed_point(ct_exact_pair *exact) {
    double sum = 0, most = 0;
    for (exact->pass = 0; exact->pass < exact->n_passes; exact->pass++) {
        const uint32_t n[2] = {exact->part[0].surface[exact->pass].n_added,
                               exact->is_twin ? 0 : exact->part[1].surface[exact->pass].n_added};
        ct_exact_for_each(exact, ct_exact_count_chunks(n, PLAN_CHUNK), plan_chunk);
    }
    for (exact->pass = 0; exact->pass < exact->n_passes; exact->pass++) {
        double of_part[2] = {0, 0};
        for (int b = 0; b < 2; b++)
            for (uint32_t k = 0; k < exact->part[b].surface[exact->pass].n_added; k++) {
                const double share = exact->part[b].surface[exact->pass].sums[k].largest_share;
                most = fmax(most, share);
                of_part[b] += share * CT_CLUSTER_TRIANGLES;
            }
        sum += of_part[0] + of_part[1];
    }
    return ct_fixed_point_exponent(most, sum);
}

/* Adds a pass's sums to the totals, in the order of the clusters. */
static void total_sums(ct_exact_pair *exact) {
    ct_exact_totals *totals = &exact->totals;
    double moment[2][3][3] = {{{0}}}, first_moment[2][3] = {{0}}, rounding[2] = {0}, arithmetic[2] = {0},
           moved_volume[2], areas[2], excess = 0, slack = 0;
    uint32_t inverted = 0;
    for (int b = 0; b < 2; b++) {
        const ct_exact_part *part = &exact->part[b];
        const ct_exact_surface *surface = &part->surface[exact->pass];
        double area = 0, near_area = 0, residual = 0, layers = 0;
        for (uint32_t k = 0; k < surface->n_added; k++) {
            if (CT_POLL_EVERY(k, 64 * CLUSTER_POLL) && ct_exact_is_cancelled(exact, NULL, 0)) return;
            const ct_cluster_sums *s = &surface->sums[k];
            for (int i = 0; i < 3; i++) {
                for (int j = 0; j < 3; j++) moment[b][i][j] += s->moment[i][j];
                first_moment[b][i] += s->first_moment[i];
            }
            area += s->area;
            near_area += s->near_area;
            rounding[b] += s->rounding;
            arithmetic[b] += ct_bound_arithmetic(s->reach, s->area);
            if (s->max_winding > totals->max_winding) totals->max_winding = s->max_winding;
            inverted += s->inverted;
            const double moved_area = ct_bound_moved_area(s->cut_sides);
            near_area += moved_area;
            layers += ct_bound_layers(moved_area, s->max_winding);
            residual = fmax(residual, part->body.placed[part->body.placed_as[surface->added[k]] - 1].residual);
        }
        areas[b] = area;
        totals->n_clusters += surface->n_added;
        residual += part->body.pose.rounding;
        moved_volume[b] = ct_bound_moved_volume(residual, area, near_area);
        excess += residual * layers;
        slack += residual * area * CT_BOUND_SLACK;
    }
    if (inverted > totals->inverted) totals->inverted = inverted;
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) totals->moment[b][i][j] += moment[b][i][j];
    for (int i = 0; i < 3; i++) totals->first_moment[i] += first_moment[0][i] + first_moment[1][i];
    totals->rounding += rounding[0] + rounding[1];
    totals->arithmetic += arithmetic[0] + arithmetic[1];
    totals->moved_volume += moved_volume[0] + moved_volume[1];
    totals->moved_volume += ct_bound_left_out(&exact->left_out[exact->pass], exact->part[0].body.pose.rounding,
                                              exact->part[1].body.pose.rounding, excess, slack);
    totals->area += areas[0] + areas[1];
}

/* Finds both surfaces with one perturbation. Returns whether the other one may find others: a tie was broken. start: of
 * ct_now, at present. */
static bool find_surfaces(ct_exact_pair *exact, double start) {
    const bool has_ties = find_crossings(exact);
    exact->pair->seconds[CT_PHASE_RASTER] += ct_now() - start;
    ct_enter_phase("finding winding numbers");
    if (exact->is_self && !exact->has_failed) ct_exact_find_own_winding(exact);
    for (int b = 0; b < count_surfaces(exact) && !exact->has_failed && !exact->is_self; b++)
        find_winding_numbers(exact, b);
    for (int b = 0; b < 2 && !exact->has_failed; b++) list_added(exact, b);
    return has_ties || exact->part[0].surface[exact->pass].is_folded_flat;
}

void ct_exact_add_up(ct_exact_pair *exact) {
    ct_enter_phase("adding surfaces");
    exact->exponent = plan_fixed_point(exact);
    for (exact->pass = 0; exact->pass < exact->n_passes && !exact->has_failed; exact->pass++) add_surfaces(exact);
    if (exact->is_twin) ct_exact_mirror_gradient(exact);
    for (exact->pass = 0; exact->pass < exact->n_passes && !exact->has_failed; exact->pass++) total_sums(exact);
    if (exact->is_self) ct_exact_total_own_winding(exact);
}

/* The pair's only contact. */
static void finish_pair(ct_exact_pair *exact) {
    ct_pair_task *pair = exact->pair;
    pair->n_contacts = 1;
    pair->contacts = ct_arena_alloc(&exact->workspace->workers[exact->driver].answers, &exact->device->answers,
                                    sizeof *pair->contacts);
    if (pair->contacts)
        memset(pair->contacts, 0, sizeof *pair->contacts); /* it has no entries if there is no memory to finish it */
    else
        exact->has_failed = true;
    ct_exact_finish(exact, pair->contacts);
}

/* False: out of memory. */
static bool find_cluster_pairs(ct_exact_pair *exact, ct_buffer *pairs) {
    ct_budget *budget = &exact->device->budget;
    if (exact->is_self)
        return exact->device->kernels->search->find_own_pairs(&exact->part[0].body, pairs, &exact->n_cluster_pairs,
                                                              budget);
    for (int b = 0; b < 2; b++)
        if (exact->pair->body[b]->is_half_space)
            return ct_find_clusters_at_top(&exact->part[1 - b].body, &exact->part[b].body, b == 0, pairs,
                                           &exact->n_cluster_pairs, budget);
    return exact->device->kernels->search->find_pairs(&exact->part[0].body, &exact->part[1].body, pairs,
                                                      &exact->n_cluster_pairs, budget);
}

static void compute_pair(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread) {
    ct_pair_placement placement;
    if (!place_bodies(pair, &placement)) return;
    ct_exact_pair exact = {.device = workspace->device,
                           .workspace = workspace,
                           .pair = pair,
                           .driver = worker,
                           .arena = &workspace->workers[worker].exact.arena,
                           .is_spread = is_spread,
                           .is_self = ct_is_self_task(pair),
                           .first_worker = is_spread ? 0 : worker,
                           .end_worker = is_spread ? workspace->device->threads : worker + 1,
                           .lattice = ct_plan_exact_lattice(&placement.box[0], &placement.box[1])};
    const double start = ct_now();
    ct_enter_phase("searching pairs of clusters");
    exact.is_twin = ct_exact_are_twins(&exact);
    for (int b = 0; b < 2; b++) begin_part(&exact, b, &placement);
    ct_exact_scratch *scratch = driver_of(&exact);
    if (!exact.has_failed && !find_cluster_pairs(&exact, &scratch->cluster_pairs)) exact.has_failed = true;
    exact.cluster_pairs = scratch->cluster_pairs.data;
    if (exact.is_twin && !exact.has_failed) ct_exact_halve_pairs(&exact);
    if (!exact.has_failed) place_pairs(&exact);
    const double placed = ct_now(); /* kept: reading the clock costs 0.3 % of a pair of boxes */
    pair->seconds[CT_PHASE_RASTER] += placed - start;
    const double crossed = pair->seconds[CT_PHASE_RASTER];
    exact.n_passes = 1;
    if (!exact.has_failed && find_surfaces(&exact, placed) && !exact.has_failed) {
        exact.n_passes = 2;
        exact.pass = 1;
        find_surfaces(&exact, ct_now());
    }
    if (exact.is_twin && !exact.has_failed) ct_exact_mirror_surfaces(&exact);
    const bool has_pieces = pair->wants_patches && !exact.has_failed && ct_exact_find_pieces(&exact);
    if (!exact.has_failed && !has_pieces) ct_exact_add_up(&exact);
    const double summed = ct_now();
    pair->seconds[CT_PHASE_SPAN] += summed - placed - (pair->seconds[CT_PHASE_RASTER] - crossed);
    if (has_pieces)
        ct_exact_finish_pieces(&exact);
    else
        finish_pair(&exact);
    pair->seconds[CT_PHASE_CONTACT] += ct_now() - summed;
    ct_arena_reset(&scratch->arena, &exact.device->budget);
    if (exact.has_failed) {
        pair->status = ct_failure();
        ct_cpu_clear_pair(pair);
    }
}

const ct_pair_method ct_cpu_exact_method = {
    .plan = plan_pair, .compute = compute_pair, .needs_boxes = true, .needs_volumes = true, .takes_half_spaces = true};

void ct_cpu_run_exact(ct_device *device, ct_step *steps, size_t n_steps) {
    ct_cpu_run_pairs(device, steps, n_steps, &ct_cpu_exact_method);
}
