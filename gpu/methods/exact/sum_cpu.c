/* sum_cpu.c - the sums of the method `exact` on the CPU: adds up the parts of both surfaces that lie inside the other
 * body, to the gradient in a fixed point and to the totals. */
#include <math.h>
#include <stdlib.h>

#include "gpu/base/cancel.h"
#include "gpu/methods/exact/pair_cpu.h"

/* ---- the fixed point ---- */

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
    const ct_exact_body *own = &exact->part[chunk.part].body;
    const ct_exact_surface *surface = &exact->part[chunk.part].surface[exact->pass];
    const ct_node_box *window = &exact->part[1 - chunk.part].root;
    const bool is_root = own->topology->clusters->n_nodes == 1;
    for (uint32_t k = chunk.first; k < chunk.end; k++) {
        const ct_node_box box = is_root ? exact->part[chunk.part].root : ct_exact_node_box(own, surface->added[k]);
        const ct_cut_box cut = ct_cut_to_window(&box, window);
        surface->sums[k].cut_sides = cut.sides;
        surface->sums[k].largest_share = fmax(cut.face * (1 + bound_winding(own->topology, surface, k)),
                                              find_crossed_share(own, surface, surface->added[k]));
    }
}

/* The exponent of the fixed point's step. */
static int plan_fixed_point(ct_exact_pair *exact) {
    double sum = 0, most = 0;
    for (int b = 0; b < 2; b++) {
        const ct_exact_body *body = &exact->part[b].body;
        exact->part[b].root = ct_exact_node_box(body, body->topology->clusters->n_nodes - 1);
    }
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

/* ---- surfaces ---- */

static void add_cluster(const ct_exact_pair *exact, ct_exact_part *part, uint32_t k) {
    const ct_exact_surface *surface = &part->surface[exact->pass];
    const uint32_t cluster = surface->added[k];
    const ct_exact_cpu *kernels = ct_exact_kernels_of(exact);
    const ct_winding_numbers w = ct_exact_winding_numbers(part->body.topology, surface, k);
    ct_placed_cluster *placed = &part->body.placed[part->body.placed_as[cluster] - 1];
    if (placed->residual < 0) kernels->place(placed, &part->body);
    if (surface->added_shares) {
        const ct_added_share *share = &surface->added_shares[k];
        kernels->add_some(placed, &w, share->triangles, share->n, exact->scale, &part->gradient, &surface->sums[k]);
        return;
    }
    kernels->add(placed, &w, exact->scale, &part->gradient, &surface->sums[k]);
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
            if (CT_POLL_EVERY(k, CT_CLUSTER_POLL) && ct_exact_is_cancelled(exact, NULL, 0)) return;
            add_cluster(exact, &exact->part[b], k);
        }
}

/* ---- totals ---- */

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
            if (CT_POLL_EVERY(k, 64 * CT_CLUSTER_POLL) && ct_exact_is_cancelled(exact, NULL, 0)) return;
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

void ct_exact_sum(ct_exact_pair *exact) {
    if (exact->has_failed) return;
    ct_enter_phase("adding surfaces");
    exact->exponent = plan_fixed_point(exact);
    exact->scale = ldexp(1, -exact->exponent);
    for (exact->pass = 0; exact->pass < exact->n_passes && !exact->has_failed; exact->pass++) add_surfaces(exact);
    for (exact->pass = 0; exact->pass < exact->n_passes && !exact->has_failed; exact->pass++) total_sums(exact);
    if (exact->is_self) ct_exact_total_own_winding(exact);
}
