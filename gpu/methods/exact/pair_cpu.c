/* pair_cpu.c - the method `exact` on the CPU: plans a pair of bodies, and computes it, step by step. */
#include "gpu/methods/exact/pair_cpu.h"

#include <math.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/method/backend_cpu.h"
#include "gpu/methods/exact/exact.h"
#include "gpu/scene/half_space.h"

/* ---- planning ---- */

ct_status ct_check_placement(const ct_pair_placement *placement, ct_error *error) {
    const ct_box *a = &placement->box[0], *b = &placement->box[1];
    if (placement->is_too_far)
        return ct_fail(error, CT_OUT_OF_RANGE, "pose",
                       "the half-space's pose, or the other body, lies so far from the origin that doubles do not tell "
                       "how much of the body is below the plane: move the scene's origin near both, or give the "
                       "half-space a pose whose origin is a point of the plane near the body");
    if (ct_extents_fit(a, b)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, "method",
                   "they extend over %g m and %g m, more apart than the 40 bits of exact coordinates can hold: split "
                   "the larger mesh, or choose method \"ldi\"",
                   ct_extent_of(a), ct_extent_of(b));
}

double ct_exact_triangles(const ct_box *a, const ct_box *b, const uint32_t n_triangles[2]) {
    double triangles = 0;
    for (int i = 0; i < 2; i++) {
        const ct_box *own = i ? b : a, *other = i ? a : b;
        double part = 1;
        for (int k = 0; k < 3; k++) {
            const double size = own->hi[k] - own->lo[k];
            if (size > 0) part *= fmin(1, (fmin(own->hi[k], other->hi[k]) - fmax(own->lo[k], other->lo[k])) / size);
        }
        triangles += part * n_triangles[i];
    }
    return triangles;
}

/* Estimate in ns; only the choice between one thread and several depends on it. */
static double cost_of(const ct_pair_task *pair) {
    const ct_body *const *body = pair->body;
    if (ct_is_self_task(pair)) return 5000 + 400.0 * body[0]->mesh->n_triangles;
    const uint32_t n_triangles[2] = {body[0]->mesh->n_triangles, body[1]->mesh->n_triangles};
    return 5000 + 20 * ct_exact_triangles(&body[0]->box, &body[1]->box, n_triangles);
}

/* A half-space takes part as a block that is out of reach but for its top. False: the bodies have no contact. */
static bool place_bodies(const ct_body *const body[2], ct_pair_placement *out) {
    return ct_place_pair((const double *const[2]){body[0]->pose, body[1]->pose},
                         (const ct_box *const[2]){&body[0]->box, &body[1]->box},
                         (const int[2]){body[0]->is_half_space, body[1]->is_half_space}, out);
}

ct_status ct_exact_check_pair(const ct_body *const body[2], ct_error *error) {
    ct_pair_placement placement;
    return place_bodies(body, &placement) ? ct_check_placement(&placement, error) : CT_OK;
}

static ct_status plan_pair(const ct_device *device, const ct_scene_settings *settings, ct_pair_task *pair,
                           ct_error *error) {
    (void)device, (void)settings;
    const ct_status status = ct_exact_check_pair(pair->body, error);
    if (status) return status;
    pair->n_contacts = 1;
    pair->cost = cost_of(pair);
    return CT_OK;
}

/* ---- memory ---- */

static void free_scratch(ct_exact_scratch *scratch, ct_budget *budget) {
    ct_buffer *buffers[] = {&scratch->lists.of_body[0], &scratch->lists.of_body[1], &scratch->lists.touching,
                            &scratch->lists.segments,   &scratch->cluster_pairs,    &scratch->gradient[0],
                            &scratch->gradient[1],      &scratch->touched[0],       &scratch->touched[1]};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) ct_buffer_free(buffers[i], budget);
}

static ct_exact_scratch *driver_of(const ct_exact_pair *exact) {
    return ct_exact_scratch_of(exact->workspace, exact->driver);
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
        const uint32_t end = first + (left < AT_ONCE ? left : AT_ONCE);
        ct_clusters_refit(clusters, body->resident->positions, first, end, boxes);
        if (body->resident->has_low) ct_clusters_widen(first, end, boxes);
    }
    ct_clusters_refit_tree(clusters, boxes);
    return boxes;
}

/* m, the largest |coordinate| of a position. */
static double reach_of(const ct_body *body) {
    double reach = 0;
    if (body->kind == CT_BODY_RIGID) return ct_mesh_reach(body->mesh);
    for (int k = 0; k < 3; k++)
        reach = fmax(reach, fmax(fabs(body->box.lo[k] - body->resident->origin[k]),
                                 fabs(body->box.hi[k] - body->resident->origin[k])));
    return reach;
}

static void begin_part(ct_exact_pair *exact, int b, const ct_pair_placement *placement) {
    const ct_body *body = exact->pair->body[b];
    const bool is_rigid = body->kind == CT_BODY_RIGID;
    const double *pose = body->is_half_space ? placement->block[b] : ct_body_pose(body), reach = reach_of(body);
    const bool has_low = is_rigid ? body->mesh->low != NULL : body->resident->has_low;
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
        .low = !has_low   ? NULL
               : is_rigid ? body->mesh->low
                          : body->resident->low,
        .rigid = is_rigid && ct_has_rigid_clusters(body->mesh) ? ct_mesh_rigid_clusters(body->mesh, NULL) : NULL,
        .pose = ct_lattice_pose_of(&exact->lattice, pose, reach),
        .n_triangles = body->mesh->n_triangles,
    };
    const bool is_mirrored = exact->is_twin && b == 1;
    part->body.placed =
        is_mirrored ? exact->part[0].body.placed : ct_exact_allocate(exact, n_clusters * sizeof(ct_placed_cluster));
    part->body.placed_as =
        is_mirrored ? exact->part[0].body.placed_as : ct_exact_allocate_zeroed(exact, n_clusters * sizeof(uint32_t));
    part->body.pose.rounding += placement->rounding[b] * exact->lattice.inverse;
    /* What doubles lose to the lower parts, and as much for the rounding of their sums. */
    if (has_low) part->body.pose.rounding += 2 * CT_SPLIT_ROUNDING * reach * exact->lattice.inverse;
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
    for (uint32_t c = chunk.first; c < chunk.end; c++) ct_exact_kernels_of(exact)->place(&body->placed[c], body);
}

/* Places the clusters of all pairs, unless one thread crosses them: then crossing does (cross_cpu.c). */
static void place_clusters(ct_exact_pair *exact) {
    if (exact->has_failed || !exact->is_spread) return;
    const uint32_t n[2] = {exact->part[0].body.n_placed, exact->part[1].body.n_placed};
    ct_exact_for_each(exact, ct_exact_count_chunks(n, PLACE_CHUNK), place_chunk);
}

const ct_placed_cluster *ct_exact_place(ct_exact_pair *exact, int b, uint32_t cluster) {
    ct_exact_body *body = &exact->part[b].body;
    ct_placed_cluster *c = ct_exact_list_cluster(exact, b, cluster, false);
    if (c && c->residual < 0) ct_exact_kernels_of(exact)->place(c, body);
    return c;
}

/* ---- twins ---- */

/* Two bodies of one mesh in one place, as a mesh that is added twice without a pose is.
 *
 * All of their triangles touch, but half of the work is that of the other half, mirrored. Let A and B be the bodies. In
 * pass 0 B moves by an infinitesimal d against A, in pass 1 A by d against B. So what triangle t of A is to u of B in
 * pass 0, t of B is to u of A in pass 1: B's surface of one pass is A's of the other one, bit for bit, and the
 * gradient, the sum of both, is the same for both. Only A's is computed. And what u of B is to t of A in a pass, u of A
 * is to t of B in the other one, so that each two triangles are crossed once (ct_crossing_lists.is_twin). */

/* Whether memory is the same. Cancelled: false. */
static bool is_same(const void *a, const void *b, size_t bytes) {
    enum { AT_ONCE = 1 << 18 };
    for (size_t at = 0; at < bytes; at += AT_ONCE) {
        const size_t left = bytes - at < AT_ONCE ? bytes - at : AT_ONCE;
        if (ct_is_cancelled() || memcmp((const char *)a + at, (const char *)b + at, left) != 0) return false;
    }
    return true;
}

/* Patches and second derivatives have parts of their own for either body. */
static bool are_twins(ct_exact_pair *exact) {
    const ct_body *a = exact->pair->body[0], *b = exact->pair->body[1];
    if (exact->is_self || ct_exact_wants_patches(exact) || ct_exact_wants_second(exact)) return false;
    if (a->is_half_space || b->is_half_space || a->kind != b->kind) return false;
    if (memcmp(a->pose, b->pose, sizeof a->pose) != 0 || memcmp(&a->box, &b->box, sizeof a->box) != 0) return false;
    const bool is_one_mesh = a->mesh == b->mesh || (a->mesh->n_triangles == b->mesh->n_triangles &&
                                                    !memcmp(a->mesh->hash, b->mesh->hash, sizeof a->mesh->hash));
    if (!is_one_mesh || a->kind == CT_BODY_RIGID) return is_one_mesh;
    const size_t bytes = a->mesh->n_vertices * sizeof(float[3]);
    if (a->resident->has_low != b->resident->has_low) return false;
    return is_same(a->resident->positions, b->resident->positions, bytes) &&
           (!a->resident->has_low || is_same(a->resident->low, b->resident->low, bytes));
}

/* Fills part 1's surfaces of all passes from part 0's. */
static void mirror_surfaces(ct_exact_pair *exact) {
    /* With one pass there are no ties, and both perturbations are alike. */
    for (int pass = 0; pass < exact->n_passes; pass++)
        exact->part[1].surface[pass] = exact->part[0].surface[exact->n_passes - 1 - pass];
}

/* Groups of 4,096 vertices that one task copies. */
enum { MIRROR_CHUNK = 2 };

static void copy_vertex(const ct_exact_gradient *from, const ct_exact_gradient *to, size_t vertex) {
    memcpy(to->of[vertex], from->of[vertex], sizeof *to->of);
}

static void mirror_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    const ct_exact_gradient *from = &exact->part[0].gradient, *to = &exact->part[1].gradient;
    const uint32_t n_vertices = exact->pair->body[0]->mesh->n_vertices;
    const size_t n_words = ct_touched_words(n_vertices), n_groups = ct_touched_groups(n_vertices);
    const size_t first = (size_t)i * MIRROR_CHUNK,
                 end = first + MIRROR_CHUNK < n_groups ? first + MIRROR_CHUNK : n_groups;
    if (ct_exact_should_end(exact)) return;
    if (from->marks) {
        for (size_t v = first * 4096; v < end * 4096 && v < n_words * 64; v++) {
            to->marks[v] = from->marks[v];
            if (from->marks[v]) copy_vertex(from, to, v);
        }
        return;
    }
    for (size_t group = first; group < end; group++) {
        to->groups[group] = from->groups[group];
        for (uint64_t words = from->groups[group]; words; words &= words - 1) {
            const size_t word = group * 64 + (size_t)__builtin_ctzll(words);
            to->touched[word] = from->touched[word];
            for (uint64_t left = from->touched[word]; left; left &= left - 1)
                copy_vertex(from, to, word * 64 + (size_t)__builtin_ctzll(left));
        }
    }
}

/* Fills part 1's gradient from part 0's. */
static void mirror_gradient(ct_exact_pair *exact) {
    const size_t n_groups = ct_touched_groups(exact->pair->body[0]->mesh->n_vertices);
    ct_exact_for_each(exact, (uint32_t)((n_groups + MIRROR_CHUNK - 1) / MIRROR_CHUNK), mirror_chunk);
}

/* ---- a pair ---- */

/* Ends a stretch of the pair's time. */
static void end_phase(ct_exact_pair *exact, int phase) {
    const double now = ct_now();
    exact->pair->seconds[phase] += now - exact->phase_start;
    exact->phase_start = now;
}

/* False: the bodies have no contact. */
static bool begin_pair(ct_exact_pair *exact, ct_workspace *workspace, ct_pair_task *pair, uint32_t worker,
                       bool is_spread) {
    ct_pair_placement placement;
    if (!place_bodies(pair->body, &placement)) return false;
    *exact = (ct_exact_pair){.device = workspace->device,
                             .workspace = workspace,
                             .pair = pair,
                             .driver = worker,
                             .arena = &workspace->workers[worker].arena,
                             .is_spread = is_spread,
                             .is_self = ct_is_self_task(pair),
                             .first_worker = is_spread ? 0 : worker,
                             .end_worker = is_spread ? workspace->device->threads : worker + 1,
                             .lattice = ct_plan_exact_lattice(&placement.box[0], &placement.box[1],
                                                              placement.has_foot ? placement.foot : NULL),
                             .n_passes = 1,
                             .phase_start = ct_now()};
    ct_enter_phase("placing bodies");
    exact->is_twin = are_twins(exact);
    for (int b = 0; b < 2; b++) begin_part(exact, b, &placement);
    return true;
}

/* Finds both surfaces inside the other body, with one perturbation, and with both if a tie was broken. */
static void find_surfaces(ct_exact_pair *exact) {
    for (exact->pass = 0; exact->pass < exact->n_passes && !exact->has_failed; exact->pass++) {
        ct_exact_cross(exact);
        end_phase(exact, CT_PHASE_RASTER);
        ct_exact_flood(exact);
        if (exact->pass == 1 || exact->has_failed) return;
        if (!exact->has_ties && !exact->part[0].surface[0].is_folded_flat) return;
        end_phase(exact, CT_PHASE_SPAN);
        exact->n_passes = 2;
    }
}

/* Sums up the surfaces to the pair's only contact. */
static void make_contact(ct_exact_pair *exact) {
    ct_pair_task *pair = exact->pair;
    ct_exact_sum(exact);
    if (exact->is_twin) mirror_gradient(exact);
    end_phase(exact, CT_PHASE_SPAN);
    pair->n_contacts = 1;
    pair->contacts = ct_arena_alloc(&exact->workspace->workers[exact->driver].answers, &exact->device->answers,
                                    sizeof *pair->contacts);
    if (pair->contacts)
        memset(pair->contacts, 0, sizeof *pair->contacts); /* it has no entries if there is no memory to finish it */
    else
        exact->has_failed = true;
    ct_exact_finish(exact, pair->contacts);
}

/* Sums up the surfaces to a contact of each piece. */
static void make_contacts(ct_exact_pair *exact) {
    end_phase(exact, CT_PHASE_SPAN);
    ct_exact_finish_pieces(exact);
}

static void end_pair(ct_exact_pair *exact) {
    end_phase(exact, CT_PHASE_CONTACT);
    ct_arena_reset(exact->arena, &exact->device->budget);
    if (!exact->has_failed) return;
    exact->pair->status = ct_failure();
    ct_cpu_clear_pair(exact->pair);
}

static void compute_pair(ct_workspace *workspace, ct_pair_task *pair, uint32_t worker, bool is_spread) {
    ct_exact_pair exact;
    if (!begin_pair(&exact, workspace, pair, worker, is_spread)) return;
    ct_exact_search(&exact);
    place_clusters(&exact);
    find_surfaces(&exact);
    if (exact.is_twin) mirror_surfaces(&exact);
    if (ct_exact_wants_patches(&exact) && ct_exact_find_pieces(&exact))
        make_contacts(&exact);
    else
        make_contact(&exact);
    end_pair(&exact);
}

static void release(ct_workspace *workspace) {
    ct_device *device = workspace->device;
    for (uint32_t w = 0; w < device->threads; w++) free_scratch(ct_exact_scratch_of(workspace, w), &device->budget);
}

static const ct_exact_kernels kernels_base = {&ct_exact_cpu_base, &ct_search_cpu_base, &ct_second_cpu_base};
#ifdef __x86_64__
static const ct_exact_kernels kernels_avx2 = {&ct_exact_cpu_avx2, &ct_search_cpu_avx2, &ct_second_cpu_avx2};
#endif

const ct_cpu_method ct_cpu_exact_method = {.kernels = CT_KERNELS(kernels),
                                           .thread_bytes = sizeof(ct_exact_scratch),
                                           .release = release,
                                           .plan = plan_pair,
                                           .compute = compute_pair,
                                           .needs_boxes = true,
                                           .needs_volumes = true,
                                           .keeps_answers = true,
                                           .takes_half_spaces = true,
                                           .remedy = "mesh with fewer triangles"};

void ct_cpu_run_exact(ct_device *device, ct_step *steps, size_t n_steps) {
    ct_cpu_run_pairs(device, steps, n_steps, &ct_cpu_exact_method);
}
