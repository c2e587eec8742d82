/* exact_pieces.c - the method `exact` with patches: reduces both surfaces to one connected piece of the intersection
 * after the other, which exact_pair.c then adds up and finish_exact.c makes a contact. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend/cpu/exact_pair.h"
#include "gpu/exact/found_pieces.h"
#include "gpu/exact/pieces.h"
#include "gpu/mesh/mesh.h"

/* ---- the search ---- */

void ct_exact_keep_shares(ct_exact_pair *exact) {
    for (int b = 0; b < 2 && !exact->has_failed; b++) {
        ct_exact_surface *surface = &exact->part[b].surface[exact->pass];
        const size_t n = surface->first_crossing[surface->n_crossed];
        surface->shares = ct_exact_allocate(exact, n * sizeof *surface->shares);
        surface->n_shares = 0;
        for (size_t i = 0; i < n && surface->shares; i++)
            if (surface->crossings[i]->crosses) surface->shares[surface->n_shares++] = *surface->crossings[i];
    }
}

static const ct_unit_summary *summarize_unit(void *argument, int pass, int b, uint32_t unit) {
    ct_exact_pair *exact = argument;
    const ct_topology *topology = exact->part[b].body.topology;
    const uint32_t cluster = topology->cluster_of_unit[unit];
    const ct_placed_cluster *c = ct_exact_place(exact, b, cluster);
    ct_unit_summary *summary = &exact->unit_summary;
    if (!c) return NULL;
    ct_begin_unit(summary);
    for (uint32_t t = 0; t < c->n_triangles; t++) {
        const uint32_t triangle = cluster * CT_CLUSTER_TRIANGLES + t;
        if (topology->unit_in_cluster[triangle] != unit - topology->first_unit[cluster]) continue;
        const double *const p[3] = {c->points[c->corners[t][0]], c->points[c->corners[t][1]],
                                    c->points[c->corners[t][2]]};
        ct_add_to_unit(summary, p, exact->part[b].surface[pass].of_unit[unit], (uint32_t)b, triangle);
    }
    return summary;
}

struct hit_search {
    ct_exact_pair *exact;
    int body;
    const double *p;
    void (*report)(void *to, const ct_met_triangle *hit);
    void *to;
};

static void find_hits_in_cluster(void *argument, uint32_t cluster) {
    const struct hit_search *search = argument;
    const ct_placed_cluster *c = ct_exact_place(search->exact, search->body, cluster);
    for (uint32_t t = 0; c && t < c->n_triangles; t++) {
        const double *const q[3] = {c->points[c->corners[t][0]], c->points[c->corners[t][1]],
                                    c->points[c->corners[t][2]]};
        ct_met_triangle hit = {.body = search->body, .triangle = cluster * CT_CLUSTER_TRIANGLES + t};
        if (ct_meet_triangle(search->p, q, &hit)) search->report(search->to, &hit);
    }
}

static bool find_hits(void *argument, int b, const double p[3], void (*report)(void *to, const ct_met_triangle *hit),
                      void *to) {
    ct_exact_pair *exact = argument;
    struct hit_search search = {exact, b, p, report, to};
    ct_find_clusters_on_ray(&exact->part[b].body, p, find_hits_in_cluster, &search);
    return !exact->has_failed;
}

static void place_added(ct_exact_pair *exact) {
    for (int pass = 0; pass < exact->n_passes; pass++)
        for (int b = 0; b < 2; b++) {
            const ct_exact_surface *surface = &exact->part[b].surface[pass];
            for (uint32_t k = 0; k < surface->n_added; k++) ct_exact_place(exact, b, surface->added[k]);
        }
}

static ct_piece_surface surface_of(const ct_exact_surface *surface) {
    return (ct_piece_surface){.crossed_clusters = surface->crossed_clusters,
                              .crossed_as = surface->crossed_as,
                              .crossed = surface->crossed,
                              .n_crossed = surface->n_crossed,
                              .of_unit = surface->of_unit,
                              .added = surface->added,
                              .n_added = surface->n_added,
                              .crossings = surface->shares,
                              .n_crossings = surface->n_shares};
}

bool ct_exact_find_pieces(ct_exact_pair *exact) {
    ct_piece_search *search = ct_exact_allocate(exact, sizeof *search);
    if (!search) return false;
    place_added(exact);
    *search = (ct_piece_search){.n_passes = exact->n_passes,
                                .arena = &exact->workspace->workers[exact->driver].exact.arena,
                                .budget = &exact->device->budget,
                                .source = {summarize_unit, find_hits, exact}};
    for (int b = 0; b < 2; b++) {
        search->body[b] = &exact->part[b].body;
        search->adjacency[b] = ct_mesh_adjacency(exact->pair->body[b]->mesh, NULL); /* made when the body was added */
        for (int pass = 0; pass < exact->n_passes; pass++) {
            search->moved[pass] = ct_exact_moved_in(pass);
            search->surface[pass][b] = surface_of(&exact->part[b].surface[pass]);
        }
    }
    exact->pieces = search;
    if (!exact->has_failed && !ct_find_pieces(search)) exact->has_failed = true;
    if (!exact->has_failed && search->n_pieces > 1) return true;
    exact->pieces = NULL; /* the whole pair is one contact, as without patches */
    return false;
}

/* ---- one piece ---- */

/* Arrays for the surfaces of one piece: [pass][body]. */
struct reduced {
    ct_exact_surface surface[2][2]; /* crossed_as and of_unit are 0 between pieces */
};

static void *allocate_zeroed(ct_exact_pair *exact, size_t bytes) {
    void *memory = ct_exact_allocate(exact, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

/* most: the most parts that a piece has of any body in any pass. */
static struct reduced make_reduced(ct_exact_pair *exact, uint32_t most) {
    struct reduced reduced = {0};
    for (int pass = 0; pass < exact->n_passes; pass++)
        for (int b = 0; b < 2; b++) {
            const ct_topology *topology = exact->part[b].body.topology;
            ct_exact_surface *surface = &reduced.surface[pass][b];
            surface->crossed_as = allocate_zeroed(exact, topology->clusters->n * sizeof *surface->crossed_as);
            surface->of_unit = allocate_zeroed(exact, topology->n_units * sizeof *surface->of_unit);
            surface->crossed = ct_exact_allocate(exact, most * sizeof *surface->crossed);
            surface->added = ct_exact_allocate(exact, most * sizeof *surface->added);
            surface->sums = ct_exact_allocate(exact, most * sizeof *surface->sums);
            if (!ct_exact_wants_second(exact)) continue;
            surface->first_crossed_pair = ct_exact_allocate(exact, (most + 1) * sizeof *surface->first_crossed_pair);
            surface->crossed_pairs =
                ct_exact_allocate(exact, exact->part[b].surface[pass].n_shares * sizeof *surface->crossed_pairs);
        }
    return reduced;
}

/* For exact_second.c: the pairs of crossing triangles of crossed cluster `index`, which belong to the piece. */
static void list_crossed_pairs(const ct_exact_pair *exact, const ct_piece_part *part, uint32_t index,
                               ct_exact_surface *to) {
    const ct_piece_surface *from = &exact->pieces->surface[part->pass][part->body];
    if (index == 0) to->first_crossed_pair[0] = 0;
    size_t n = to->first_crossed_pair[index];
    for (uint32_t i = ct_first_crossing_of_cluster(from, part->cluster);
         i < from->n_crossings && from->crossings[i].triangle / CT_CLUSTER_TRIANGLES == part->cluster; i++)
        if (ct_piece_of_crossing(exact->pieces, part->pass, part->body, i) == part->piece)
            to->crossed_pairs[n++] = (ct_crossed_pair){from->crossings[i].triangle, from->crossings[i].other};
    to->first_crossed_pair[index + 1] = n;
}

static void reduce_part(ct_exact_pair *exact, const ct_piece_part *part, ct_exact_surface *to) {
    const ct_topology *topology = exact->part[part->body].body.topology;
    if (!ct_make_piece_winding(exact->pieces, part, to->of_unit + topology->first_unit[part->cluster],
                               &to->crossed[to->n_crossed])) {
        exact->has_failed = true;
        return;
    }
    memset(&to->sums[to->n_added], 0, sizeof *to->sums);
    to->added[to->n_added++] = part->cluster;
    if (!exact->part[part->body].surface[part->pass].crossed_as[part->cluster]) return;
    if (ct_exact_wants_second(exact)) list_crossed_pairs(exact, part, to->n_crossed, to);
    to->crossed_as[part->cluster] = ++to->n_crossed;
}

static void clear_part(const ct_exact_pair *exact, const ct_piece_part *part, ct_exact_surface *reduced) {
    const ct_topology *topology = exact->part[part->body].body.topology;
    reduced->crossed_as[part->cluster] = 0;
    for (uint32_t unit = topology->first_unit[part->cluster]; unit < topology->first_unit[part->cluster + 1]; unit++)
        reduced->of_unit[unit] = 0;
}

/* moved_volume: the piece's bound has this part of the pair's. */
static void compute_piece(ct_exact_pair *exact, struct reduced *reduced, const ct_piece_part *parts, uint32_t n,
                          double moved_volume, ct_pair_contact *contact) {
    ct_exact_surface whole[2][2];
    for (int pass = 0; pass < exact->n_passes; pass++)
        for (int b = 0; b < 2; b++) {
            whole[pass][b] = exact->part[b].surface[pass];
            reduced->surface[pass][b].n_added = reduced->surface[pass][b].n_crossed = 0;
        }
    for (uint32_t i = 0; i < n && !exact->has_failed; i++)
        reduce_part(exact, &parts[i], &reduced->surface[parts[i].pass][parts[i].body]);
    if (exact->has_failed) return;
    for (int pass = 0; pass < exact->n_passes; pass++)
        for (int b = 0; b < 2; b++) exact->part[b].surface[pass] = reduced->surface[pass][b];
    exact->totals = (ct_exact_totals){.moved_volume = moved_volume};
    ct_exact_add_up(exact);
    ct_exact_finish(exact, contact);
    for (int pass = 0; pass < exact->n_passes; pass++)
        for (int b = 0; b < 2; b++) exact->part[b].surface[pass] = whole[pass][b];
    for (uint32_t i = 0; i < n; i++) clear_part(exact, &parts[i], &reduced->surface[parts[i].pass][parts[i].body]);
}

/* ---- all pieces ---- */

/* The most that a coordinate of a cluster that is inside or crossed was moved. */
static double residual_of(const ct_exact_part *part, int n_passes) {
    double most = 0;
    for (int pass = 0; pass < n_passes; pass++)
        for (uint32_t k = 0; k < part->surface[pass].n_added; k++)
            most = fmax(most, part->body.placed[part->body.placed_as[part->surface[pass].added[k]] - 1].residual);
    return most + part->body.pose.rounding;
}

/* Moving vertices to the lattice may enlarge any piece where triangles nearly touch, so every piece's bound has the
 * whole pair's share of it. */
static double near_volume(const ct_exact_pair *exact) {
    double volume = 0;
    for (int b = 0; b < 2; b++) {
        double area = 0;
        for (int pass = 0; pass < exact->n_passes; pass++) {
            const ct_exact_surface *surface = &exact->part[b].surface[pass];
            for (uint32_t i = 0; i < surface->n_crossed; i++)
                for (uint32_t t = 0; t < surface->crossed[i].n; t++) area += surface->crossed[i].triangles[t].near_area;
        }
        volume += residual_of(&exact->part[b], exact->n_passes) * area;
    }
    return volume;
}

/* What is no contact comes last. */
static int compare_contacts(const void *a, const void *b) {
    const ct_pair_contact *x = a, *y = b;
    if (x->is_found != y->is_found) return x->is_found ? -1 : 1;
    return ct_compare_patches(&x->contact, &y->contact);
}

/* The number of parts of the piece that parts[first] belongs to. */
static uint32_t count_parts(const ct_piece_search *search, size_t first) {
    size_t end = first;
    while (end < search->n_parts && search->parts[end].piece == search->parts[first].piece) end++;
    return (uint32_t)(end - first);
}

static bool make_contacts(ct_exact_pair *exact) {
    ct_pair_task *pair = exact->pair;
    const ct_piece_search *search = exact->pieces;
    uint32_t most = 0, n;
    for (size_t i = 0; i < search->n_parts; i += n) {
        n = count_parts(search, i);
        if (n > most) most = n;
    }
    struct reduced reduced = make_reduced(exact, most);
    const size_t bytes = search->n_pieces * sizeof *pair->contacts;
    pair->contacts = ct_arena_alloc(&exact->workspace->workers[exact->driver].answers, &exact->device->answers, bytes);
    if (!pair->contacts) return false;
    memset(pair->contacts, 0, bytes);
    pair->n_contacts = search->n_pieces;
    if (exact->has_failed) return false;
    const double moved_volume = near_volume(exact);
    for (size_t i = 0; i < search->n_parts && !exact->has_failed; i += n) {
        n = count_parts(search, i);
        compute_piece(exact, &reduced, &search->parts[i], n, moved_volume, &pair->contacts[search->parts[i].piece]);
    }
    if (exact->has_failed) return false;
    qsort(pair->contacts, pair->n_contacts, sizeof *pair->contacts, compare_contacts);
    for (uint32_t i = 0; i < pair->n_contacts; i++) pair->contacts[i].contact.index = i;
    return true;
}

void ct_exact_finish_pieces(ct_exact_pair *exact) {
    /* Most pieces are small, so one thread computes each. */
    const bool is_spread = exact->is_spread;
    exact->is_spread = false;
    for (int b = 0; b < 2; b++) exact->part[b].gradient.marks = NULL;
    /* Out of memory or not, gradients are 0 again: only ct_exact_add_up fills them, and ct_exact_finish follows it. */
    if (!make_contacts(exact)) exact->has_failed = true;
    exact->is_spread = is_spread;
}
