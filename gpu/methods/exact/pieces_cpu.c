/* pieces_cpu.c - the method `exact` with patches: reduces both surfaces to one connected piece of the intersection
 * after the other, which sum_cpu.c adds up and finish_cpu.c makes a contact. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/large.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/exact/pair_cpu.h"
#include "gpu/methods/exact/pieces.h"
#include "gpu/methods/exact/pieces_k.h"

/* ---- the search ---- */

/* Copies the crossings of a pass. */
static void keep_shares(ct_exact_pair *exact, int pass) {
    for (int b = 0; b < 2 && !exact->has_failed; b++) {
        ct_exact_surface *surface = &exact->part[b].surface[pass];
        const size_t n = surface->first_crossing[surface->n_crossed];
        surface->shares = ct_exact_allocate(exact, n * sizeof *surface->shares);
        surface->n_shares = 0;
        for (size_t i = 0; i < n && surface->shares && !exact->has_failed; i++) {
            if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled_at("crossings", i)) exact->has_failed = true;
            if (surface->crossings[i]->crosses) surface->shares[surface->n_shares++] = *surface->crossings[i];
        }
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
    double far;
    ct_report_hit_fn report;
    void *to;
};

static void find_hits_in_cluster(void *argument, uint32_t cluster) {
    struct hit_search *search = argument;
    ct_exact_pair *exact = search->exact;
    const ct_placed_cluster *c = ct_exact_place(exact, search->body, cluster);
    if (ct_is_cancelled()) exact->has_failed = true;
    if (exact->has_failed) search->far = -INFINITY; /* ends the search */
    for (uint32_t t = 0; !exact->has_failed && t < c->n_triangles; t++) {
        const double *const q[3] = {c->points[c->corners[t][0]], c->points[c->corners[t][1]],
                                    c->points[c->corners[t][2]]};
        ct_met_triangle hit = {.body = search->body, .triangle = cluster * CT_CLUSTER_TRIANGLES + t};
        if (ct_meet_triangle(search->p, q, &hit)) search->far = search->report(search->to, &hit);
    }
}

static bool find_hits(void *argument, int b, const double p[3], double far, ct_report_hit_fn report, void *to) {
    ct_exact_pair *exact = argument;
    struct hit_search search = {exact, b, p, far, report, to};
    ct_visit_clusters_on_ray(&exact->part[b].body, p, &search.far, find_hits_in_cluster, &search);
    return !exact->has_failed;
}

static void place_added(ct_exact_pair *exact) {
    for (int pass = 0; pass < exact->n_passes; pass++)
        for (int b = 0; b < 2; b++) {
            const ct_exact_surface *surface = &exact->part[b].surface[pass];
            for (uint32_t k = 0; k < surface->n_added && !exact->has_failed; k++) {
                ct_exact_place(exact, b, surface->added[k]);
                if (ct_is_cancelled()) exact->has_failed = true;
            }
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
    ct_piece_search *search = exact->has_failed ? NULL : ct_exact_allocate(exact, sizeof *search);
    if (!search) return false;
    ct_enter_phase("finding patches");
    for (int pass = 0; pass < exact->n_passes; pass++) keep_shares(exact, pass);
    place_added(exact);
    *search = (ct_piece_search){.n_passes = exact->n_passes,
                                .arena = exact->arena,
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

/* Arrays for the surfaces of one piece: [pass][body]. What a piece sets in arrays of the size of the bodies it clears
 * again, so that its cost follows its own size. */
struct reduced {
    /* Between pieces 0: crossed_as, of_unit, and the numbers and winding numbers of `crossed`. */
    ct_exact_surface surface[2][2];
    ct_added_share *shares[2][2]; /* of surface.added_shares */
    int32_t *winding[2][2];       /* [vertices of all crossed clusters] for those of a piece */
    ct_crossed_triangle *crossed_triangles[2][2];
};

static void *allocate_zeroed(ct_exact_pair *exact, size_t bytes) {
    void *memory = ct_exact_allocate(exact, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

/* The most that a piece has of a body in a pass. */
struct most {
    uint32_t parts;
    size_t crossed_triangles;
};

static uint32_t count_crossed_triangles(const ct_piece_part *part) {
    return part->crossings.n < CT_CLUSTER_TRIANGLES ? part->crossings.n : CT_CLUSTER_TRIANGLES;
}

static void make_reduced_surface(ct_exact_pair *exact, int pass, int b, const struct most *most,
                                 struct reduced *reduced) {
    const ct_topology *topology = exact->part[b].body.topology;
    const ct_exact_surface *whole = &exact->part[b].surface[pass];
    ct_exact_surface *surface = &reduced->surface[pass][b];
    size_t n_vertices = 0;
    for (uint32_t i = 0; i < whole->n_crossed; i++)
        n_vertices += topology->clusters->first_vertex[whole->crossed_clusters[i] + 1] -
                      topology->clusters->first_vertex[whole->crossed_clusters[i]];
    surface->crossed_as = allocate_zeroed(exact, topology->clusters->n * sizeof *surface->crossed_as);
    surface->of_unit = allocate_zeroed(exact, topology->n_units * sizeof *surface->of_unit);
    surface->crossed = allocate_zeroed(exact, most->parts * sizeof *surface->crossed);
    surface->added = ct_exact_allocate(exact, most->parts * sizeof *surface->added);
    surface->sums = ct_exact_allocate(exact, most->parts * sizeof *surface->sums);
    reduced->shares[pass][b] = ct_exact_allocate(exact, most->parts * sizeof **reduced->shares[pass]);
    reduced->winding[pass][b] = allocate_zeroed(exact, n_vertices * sizeof **reduced->winding[pass]);
    reduced->crossed_triangles[pass][b] =
        ct_exact_allocate(exact, most->crossed_triangles * sizeof **reduced->crossed_triangles[pass]);
    surface->added_shares = reduced->shares[pass][b];
    if (!ct_exact_wants_second(exact)) return;
    surface->first_crossed_pair = ct_exact_allocate(exact, (most->parts + 1) * sizeof *surface->first_crossed_pair);
    surface->crossed_pairs = ct_exact_allocate(exact, whole->n_shares * sizeof *surface->crossed_pairs);
}

/* For second_cpu.c: the pairs of crossing triangles of crossed cluster `index`, which belong to the piece. */
static void list_crossed_pairs(const ct_exact_pair *exact, const ct_piece_part *part, uint32_t index,
                               ct_exact_surface *to) {
    const ct_piece_search *search = exact->pieces;
    const ct_piece_surface *from = &search->surface[part->pass][part->body];
    if (index == 0) to->first_crossed_pair[0] = 0;
    size_t n = to->first_crossed_pair[index];
    for (uint32_t i = 0; i < part->crossings.n; i++) {
        const ct_crossing *crossing = &from->crossings[search->crossings[part->crossings.first + i]];
        to->crossed_pairs[n++] = ct_exact_crossed_pair(exact, crossing);
    }
    to->first_crossed_pair[index + 1] = n;
}

/* Takes the vertices of a part's triangles into the range of those that the piece adds to. */
static void note_vertices(ct_exact_pair *exact, const ct_piece_part *part, const ct_placed_cluster *placed) {
    struct ct_group_range *range = &exact->groups[part->body];
    const uint8_t *triangles = exact->pieces->triangles + part->triangles.first;
    for (uint32_t i = 0; i < part->triangles.n; i++)
        for (int k = 0; k < 3; k++) {
            const uint32_t group = placed->vertices[placed->corners[triangles[i]][k]] / CT_GROUP_VERTICES;
            if (group < range->first) range->first = group;
            if (group >= range->end) range->end = group + 1;
        }
}

/* A piece's parts of one body and pass, while they are reduced. */
struct reduced_size {
    size_t vertices, crossed_triangles;
};

static void reduce_part(ct_exact_pair *exact, const ct_piece_part *part, struct reduced *reduced,
                        struct reduced_size *size) {
    const ct_piece_search *search = exact->pieces;
    const ct_exact_body *body = &exact->part[part->body].body;
    const ct_topology *topology = body->topology;
    const ct_placed_cluster *placed = &body->placed[body->placed_as[part->cluster] - 1];
    const bool is_crossed = exact->part[part->body].surface[part->pass].crossed_as[part->cluster];
    ct_exact_surface *to = &reduced->surface[part->pass][part->body];
    ct_crossed_cluster *crossed = is_crossed ? &to->crossed[to->n_crossed] : NULL;
    if (crossed) {
        crossed->winding = reduced->winding[part->pass][part->body] + size->vertices;
        crossed->triangles = reduced->crossed_triangles[part->pass][part->body] + size->crossed_triangles;
        size->vertices += placed->n_vertices;
        size->crossed_triangles += count_crossed_triangles(part);
        ct_total_piece_crossings(search, part, crossed);
        if (ct_exact_wants_second(exact)) list_crossed_pairs(exact, part, to->n_crossed, to);
        to->crossed_as[part->cluster] = ++to->n_crossed;
    }
    reduced->shares[part->pass][part->body][to->n_added] = (ct_added_share){
        .triangles = search->triangles + part->triangles.first,
        .n = part->triangles.n,
        .max_winding = ct_set_piece_winding(search, part, to->of_unit + topology->first_unit[part->cluster],
                                            crossed ? crossed->winding : NULL)};
    memset(&to->sums[to->n_added], 0, sizeof *to->sums);
    to->added[to->n_added++] = part->cluster;
    note_vertices(exact, part, placed);
}

static void clear_part(const ct_exact_pair *exact, const ct_piece_part *part, ct_exact_surface *reduced) {
    const ct_piece_search *search = exact->pieces;
    const ct_topology *topology = exact->part[part->body].body.topology;
    ct_crossed_cluster *crossed = NULL;
    if (reduced->crossed_as[part->cluster]) {
        crossed = &reduced->crossed[reduced->crossed_as[part->cluster] - 1];
        for (uint32_t i = 0; i < crossed->n; i++) crossed->number[crossed->triangles[i].triangle] = 0;
        reduced->crossed_as[part->cluster] = 0;
    }
    ct_clear_piece_winding(search, part, reduced->of_unit + topology->first_unit[part->cluster],
                           crossed ? crossed->winding : NULL);
}

/* moved_volume: the piece's bound has this part of the pair's. */
static void compute_piece(ct_exact_pair *exact, struct reduced *reduced, const ct_piece_part *parts, uint32_t n,
                          double moved_volume, ct_pair_contact *contact) {
    ct_exact_surface whole[2][2];
    struct reduced_size size[2][2] = {{{0}}};
    for (int pass = 0; pass < exact->n_passes; pass++)
        for (int b = 0; b < 2; b++) {
            whole[pass][b] = exact->part[b].surface[pass];
            reduced->surface[pass][b].n_added = reduced->surface[pass][b].n_crossed = 0;
        }
    for (int b = 0; b < 2; b++) exact->groups[b] = (struct ct_group_range){UINT32_MAX, 0};
    for (uint32_t i = 0; i < n; i++) reduce_part(exact, &parts[i], reduced, &size[parts[i].pass][parts[i].body]);
    for (int b = 0; b < 2; b++)
        if (!exact->groups[b].end) exact->groups[b].first = 0;
    for (int pass = 0; pass < exact->n_passes; pass++)
        for (int b = 0; b < 2; b++) exact->part[b].surface[pass] = reduced->surface[pass][b];
    exact->totals = (ct_exact_totals){.moved_volume = moved_volume};
    ct_exact_sum(exact);
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
static double near_volume(ct_exact_pair *exact) {
    double volume = 0;
    for (int b = 0; b < 2; b++) {
        double area = 0;
        for (int pass = 0; pass < exact->n_passes; pass++) {
            const ct_exact_surface *surface = &exact->part[b].surface[pass];
            for (uint32_t i = 0; i < surface->n_crossed; i++) {
                if (CT_POLL_EVERY(i, 64) && ct_is_cancelled()) exact->has_failed = true;
                for (uint32_t t = 0; t < surface->crossed[i].n; t++) area += surface->crossed[i].triangles[t].near_area;
            }
        }
        volume += residual_of(&exact->part[b], exact->n_passes) * area;
    }
    return volume;
}

/* ---- their order ---- */

struct ranked {
    const ct_pair_contact *contact;
    uint32_t number;
};

/* What is no contact comes last; equal ones stay as they are. */
static int by_rank(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->contact->is_found != y->contact->is_found) return x->contact->is_found ? -1 : 1;
    const int order = ct_compare_patches(&x->contact->contact, &y->contact->contact);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

static bool sort_contacts(ct_exact_pair *exact) {
    ct_pair_task *pair = exact->pair;
    const uint32_t n = pair->n_contacts;
    uint32_t *order = ct_exact_allocate(exact, n * sizeof *order);
    struct ranked *ranked = ct_exact_allocate(exact, n * sizeof *ranked);
    if (exact->has_failed) return false;
    for (uint32_t i = 0; i < n; i++) ranked[i] = (struct ranked){&pair->contacts[i], i};
    if (!ct_sort_large(ranked, n, sizeof *ranked, by_rank)) return false;
    for (uint32_t i = 0; i < n; i++) order[i] = ranked[i].number;
    /* Along each cycle of the order. */
    for (uint32_t i = 0; i < n; i++) {
        const ct_pair_contact first = pair->contacts[i];
        if (CT_POLL_EVERY(i, 256) && ct_is_cancelled_at("patches", i)) return false;
        for (uint32_t at = i, from; order[at] != UINT32_MAX; at = from) {
            from = order[at];
            order[at] = UINT32_MAX;
            pair->contacts[at] = from == i ? first : pair->contacts[from];
            pair->contacts[at].contact.index = at;
        }
    }
    return true;
}

/* ---- all contacts ---- */

/* The number of parts of the piece that parts[first] belongs to. */
static uint32_t count_parts(const ct_piece_search *search, size_t first) {
    size_t end = first;
    while (end < search->n_parts && search->parts[end].piece == search->parts[first].piece) end++;
    return (uint32_t)(end - first);
}

static struct reduced make_reduced(ct_exact_pair *exact) {
    const ct_piece_search *search = exact->pieces;
    struct most most[2][2] = {{{0}}};
    struct reduced reduced = {0};
    for (size_t i = 0; i < search->n_parts;) {
        struct most of[2][2] = {{{0}}};
        for (const uint32_t piece = search->parts[i].piece; i < search->n_parts && search->parts[i].piece == piece;
             i++) {
            const ct_piece_part *part = &search->parts[i];
            of[part->pass][part->body].parts++;
            of[part->pass][part->body].crossed_triangles += count_crossed_triangles(part);
        }
        for (int pass = 0; pass < exact->n_passes; pass++)
            for (int b = 0; b < 2; b++) {
                struct most *to = &most[pass][b];
                const struct most *from = &of[pass][b];
                if (from->parts > to->parts) to->parts = from->parts;
                if (from->crossed_triangles > to->crossed_triangles) to->crossed_triangles = from->crossed_triangles;
            }
    }
    for (int pass = 0; pass < exact->n_passes; pass++)
        for (int b = 0; b < 2; b++) make_reduced_surface(exact, pass, b, &most[pass][b], &reduced);
    return reduced;
}

static bool make_contacts(ct_exact_pair *exact) {
    ct_pair_task *pair = exact->pair;
    const ct_piece_search *search = exact->pieces;
    struct reduced reduced = make_reduced(exact);
    const size_t bytes = search->n_pieces * sizeof *pair->contacts;
    pair->contacts = ct_arena_alloc(&exact->workspace->workers[exact->driver].answers, &exact->device->answers, bytes);
    if (!pair->contacts) return false;
    pair->n_contacts = 0;
    if (exact->has_failed) return false;
    const double moved_volume = near_volume(exact);
    ct_arena of_piece = {0}, *const of_pair = exact->arena;
    for (size_t i = 0, n; i < search->n_parts && !exact->has_failed; i += n) {
        n = count_parts(search, i);
        if (ct_is_cancelled_at("patches", pair->n_contacts)) exact->has_failed = true;
        ct_pair_contact *contact = &pair->contacts[pair->n_contacts++]; /* pieces rise from 0 on */
        memset(contact, 0, sizeof *contact);
        exact->arena = &of_piece;
        exact->chunks = NULL;
        if (!exact->has_failed) compute_piece(exact, &reduced, &search->parts[i], (uint32_t)n, moved_volume, contact);
        exact->arena = of_pair;
        ct_arena_reset(&of_piece, &exact->device->budget);
    }
    ct_arena_free(&of_piece, &exact->device->budget);
    return !exact->has_failed && sort_contacts(exact);
}

void ct_exact_finish_pieces(ct_exact_pair *exact) {
    /* Most pieces are small, so one thread computes each. */
    const bool is_spread = exact->is_spread;
    exact->is_spread = false;
    for (int b = 0; b < 2; b++) exact->part[b].gradient.marks = NULL;
    ct_enter_phase("adding patches");
    /* Out of memory or not, gradients are 0 again: only ct_exact_sum fills them, and ct_exact_finish follows it. */
    if (!make_contacts(exact)) exact->has_failed = true;
    exact->is_spread = is_spread;
}
