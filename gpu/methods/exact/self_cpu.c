/* self_cpu.c - the method `exact` for a body with itself, on the CPU: crossings of triangles that share a vertex, the
 * winding numbers just outside the surface, and the two sides of the contact. exact/self_k.h says what is counted. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "gpu/mesh/adjacency.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/exact/pair_cpu.h"
#include "gpu/methods/exact/self_k.h"

/* ---- crossings ---- */

static void load_triangle(const ct_placed_cluster *c, uint32_t t, const double *p[3]) {
    for (int k = 0; k < 3; k++) p[k] = c->points[c->corners[t][k]];
}

/* Adds what a crossing at a shared vertex adds to triangle s of the two. */
static void list_share(const ct_exact_pair *exact, const ct_placed_cluster *const c[2], const ct_touching_pair *pair,
                       int s, const ct_triangle_share *share, int turn, uint32_t passes, ct_crossing_lists *lists) {
    ct_crossing crossing = {.triangle = c[s]->cluster * CT_CLUSTER_TRIANGLES + pair->triangle[s],
                            .other = c[1 - s]->cluster * CT_CLUSTER_TRIANGLES + pair->triangle[1 - s],
                            .share = *share,
                            .crosses = true,
                            .passes = passes & 3};
    crossing.turn[pair->corner[s]] = (signed char)turn;
    ct_crossing *to = ct_append_crossing(lists, &exact->device->budget, s);
    if (to) *to = crossing;
}

static void cross_touching(const ct_exact_pair *exact, const ct_placed_cluster *const c[2],
                           const ct_touching_pair *pair, ct_crossing_lists *lists) {
    const double *p[2][3];
    const int corners[2] = {pair->corner[0], pair->corner[1]};
    int has_ties = 0;
    for (int s = 0; s < 2; s++) load_triangle(c[s], pair->triangle[s], p[s]);
    /* In pass 0 either triangle sees the other one move by the perturbation, in pass 1 against it. */
    for (int pass = 0; pass < (has_ties ? 2 : 1); pass++) {
        ct_triangle_share share[2];
        int turn[2];
        const int found = ct_cross_at_vertex(p, corners, ct_exact_moved_in(pass), share, turn, &has_ties);
        if (found == CT_TRIANGLES_INCONSISTENT) lists->n_inconsistent++;
        if (found != CT_TRIANGLES_CROSS) continue;
        list_share(exact, c, pair, 0, &share[0], turn[0], has_ties ? 1u << pass : 3, lists);
        list_share(exact, c, pair, 1, &share[1], turn[1], has_ties ? 2u >> pass : 3, lists);
        lists->has_ties |= has_ties != 0; /* if it is in neither pass, they do not differ */
    }
}

void ct_exact_cross_own(const ct_exact_pair *exact, const ct_cluster_pair *clusters, ct_crossing_lists *lists) {
    const ct_exact_body *body = &exact->part[0].body;
    const ct_placed_cluster *const c[2] = {&body->placed[body->placed_as[clusters->a] - 1],
                                           &body->placed[body->placed_as[clusters->b] - 1]};
    lists->n_touching = 0;
    ct_exact_kernels_of(exact)->cross(c[0], c[1], ct_exact_moved_in(0), &exact->device->budget, lists);
    const ct_touching_pair *pairs = lists->touching.data;
    for (size_t i = 0; i < lists->n_touching && !lists->is_full; i++) {
        if (CT_POLL_EVERY(i, 64) && ct_is_cancelled_at("pairs of triangles", lists->n_looked_at)) lists->is_full = true;
        cross_touching(exact, c, &pairs[i], lists);
    }
}

/* ---- winding numbers ---- */

struct own_flood {
    ct_exact_pair *exact;
    const ct_exact_body *body;
    ct_exact_surface *surface;
    const ct_adjacency *adjacency;
    const uint32_t (*triangles)[3];
    uint8_t *is_inside; /* [triangles] ct_is_inside_copy */
    uint8_t *is_known;  /* [triangles] */
    uint32_t *queue;    /* [triangles] */
};

static ct_edge_numbers edge_numbers_of(const ct_exact_surface *surface, uint32_t triangle) {
    const int32_t none[3] = {0, 0, 0};
    const uint32_t as = surface->crossed_as[triangle / CT_CLUSTER_TRIANGLES];
    const ct_crossed_cluster *crossed = as ? &surface->crossed[as - 1] : NULL;
    const uint32_t number = crossed ? crossed->number[triangle % CT_CLUSTER_TRIANGLES] : 0;
    if (!number) return ct_find_edge_numbers(none, none);
    const ct_crossed_triangle *of = &crossed->triangles[number - 1];
    const ct_edge_numbers n = ct_find_edge_numbers(of->jump, of->turn);
    assert(n.end[0] + of->turn[1] == 0);
    return n;
}

static const ct_placed_cluster *placed_of(const struct own_flood *flood, uint32_t triangle) {
    return &flood->body->placed[flood->body->placed_as[triangle / CT_CLUSTER_TRIANGLES] - 1];
}

static void load_corners(const struct own_flood *flood, uint32_t triangle, const double *p[3]) {
    load_triangle(placed_of(flood, triangle), triangle % CT_CLUSTER_TRIANGLES, p);
}

/* Triangles between two polls: some 50 us. */
enum { TRIANGLE_POLL = 512 };

/* One exact ray along +x, from the start of an edge: see ct_own_ray_hit. */
struct own_ray {
    const struct own_flood *flood;
    uint32_t vertex[2];   /* of the edge */
    const double *end[2]; /* of the edge */
    int moved;
    int32_t winding;
};

static void hit_cluster(void *argument, uint32_t cluster) {
    struct own_ray *ray = argument;
    if (ct_exact_should_end(ray->flood->exact)) return;
    const ct_placed_cluster *c = placed_of(ray->flood, cluster * CT_CLUSTER_TRIANGLES);
    for (uint32_t t = 0; t < c->n_triangles; t++) {
        const double *p[3];
        load_triangle(c, t, p);
        const uint32_t *corner = ray->flood->triangles[cluster * CT_CLUSTER_TRIANGLES + t];
        ray->winding += ct_own_ray_hit(ray->end, ray->vertex, p, corner, ray->moved);
    }
}

/* The winding number just outside the surface at the start of a triangle's edge 1. */
static int32_t find_seed(struct own_flood *flood, uint32_t triangle) {
    const uint32_t half_edge = ct_half_edge_opposite(flood->adjacency, 3 * triangle + 1);
    const uint32_t neighbour = ct_half_edge_triangle(half_edge);
    const int is_inside[2] = {flood->is_inside[triangle], flood->is_inside[neighbour]};
    const double *p[3], *q[3];
    load_corners(flood, triangle, p);
    load_corners(flood, neighbour, q);
    struct own_ray ray = {.flood = flood,
                          .vertex = {flood->triangles[triangle][1], flood->triangles[triangle][2]},
                          .end = {p[1], p[2]},
                          .moved = ct_exact_moved_in(flood->exact->pass)};
    ct_find_clusters_on_ray(flood->body, p[1], hit_cluster, &ray);
    flood->exact->pair->rays++;
    return ray.winding - ct_edge_is_inside_copy(p, q[(ct_half_edge_corner(half_edge) + 2) % 3], is_inside);
}

/* From a triangle to the one on the other side of an edge. */
static int jump_across(struct own_flood *flood, uint32_t triangle, uint32_t half_edge) {
    const uint32_t next = ct_half_edge_triangle(half_edge);
    const int is_inside[2] = {flood->is_inside[triangle], flood->is_inside[next]};
    if (is_inside[0] == is_inside[1]) return 0; /* most */
    const double *p[3], *q[3];
    load_corners(flood, triangle, p);
    load_corners(flood, next, q);
    const int jump = ct_jump_across_edge(p, q[(ct_half_edge_corner(half_edge) + 2) % 3], is_inside);
    flood->surface->is_folded_flat |= jump != 0;
    return jump;
}

/* Spreads from one triangle over its component, across edges. */
static void spread(struct own_flood *flood, uint32_t seed, int32_t number) {
    int32_t *numbers = flood->surface->of_triangle;
    uint32_t head = 0, tail = 0;
    numbers[seed] = number;
    flood->is_known[seed] = 1;
    flood->queue[tail++] = seed;
    while (head < tail) {
        if (CT_POLL_EVERY(head, TRIANGLE_POLL) && ct_exact_should_end(flood->exact)) return;
        const uint32_t triangle = flood->queue[head++];
        const ct_edge_numbers own = edge_numbers_of(flood->surface, triangle);
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t half_edge = ct_half_edge_opposite(flood->adjacency, 3 * triangle + k);
            const uint32_t next = ct_half_edge_triangle(half_edge), edge = ct_half_edge_corner(half_edge);
            const int32_t there = numbers[triangle] + own.end[k] + jump_across(flood, triangle, half_edge) -
                                  edge_numbers_of(flood->surface, next).start[edge];
            assert(!flood->is_known[next] || numbers[next] == there);
            if (flood->is_known[next]) continue;
            numbers[next] = there;
            flood->is_known[next] = 1;
            flood->queue[tail++] = next;
        }
    }
}

/* Notes the largest number, triangles with a negative one, and which clusters have any but 0. */
static void note_numbers(struct own_flood *flood, uint8_t *has_inside) {
    ct_exact_surface *surface = flood->surface;
    for (uint32_t t = 0; t < flood->body->n_triangles; t++) {
        if (CT_POLL_EVERY(t, TRIANGLE_POLL) && ct_exact_is_cancelled(flood->exact, NULL, 0)) return;
        const ct_edge_numbers n = edge_numbers_of(surface, t);
        int is_inverted;
        const uint32_t most = ct_find_deepest_edge(&n, surface->of_triangle[t], &is_inverted);
        if (most > surface->max_winding) surface->max_winding = most;
        surface->inverted += (uint32_t)is_inverted;
        if (surface->of_triangle[t]) has_inside[t / CT_CLUSTER_TRIANGLES] = 1;
    }
    for (uint32_t i = 0; i < surface->n_crossed; i++) has_inside[surface->crossed_clusters[i]] = 1;
}

static void find_insides(struct own_flood *flood) {
    const int moved = ct_exact_moved_in(flood->exact->pass);
    for (uint32_t i = 0; i < flood->body->n_placed; i++) {
        const ct_placed_cluster *c = &flood->body->placed[i];
        if (CT_POLL_EVERY(i, 4) && ct_exact_is_cancelled(flood->exact, NULL, 0)) return;
        for (uint32_t t = 0; t < c->n_triangles; t++) {
            const double *p[3];
            load_triangle(c, t, p);
            flood->is_inside[c->cluster * CT_CLUSTER_TRIANGLES + t] = (uint8_t)ct_is_inside_copy(p, moved);
        }
    }
}

static void list_added(ct_exact_pair *exact, ct_exact_surface *surface, const uint8_t *has_inside,
                       uint32_t n_clusters) {
    for (uint32_t c = 0; c < n_clusters; c++) surface->n_added += has_inside[c];
    surface->added = ct_exact_allocate(exact, surface->n_added * sizeof *surface->added);
    surface->sums = ct_exact_allocate_zeroed(exact, surface->n_added * sizeof *surface->sums);
    if (exact->has_failed) return;
    uint32_t n = 0;
    for (uint32_t c = 0; c < n_clusters; c++)
        if (has_inside[c]) surface->added[n++] = c;
}

void ct_exact_find_own_winding(ct_exact_pair *exact) {
    ct_mesh *mesh = exact->pair->body[0]->mesh;
    ct_exact_surface *surface = &exact->part[0].surface[exact->pass];
    const uint32_t n_clusters = exact->part[0].body.topology->clusters->n;
    struct own_flood flood = {.exact = exact,
                              .body = &exact->part[0].body,
                              .surface = surface,
                              .adjacency = ct_mesh_adjacency(mesh, NULL), /* made when the body was added */
                              .triangles = (const uint32_t(*)[3])mesh->triangles,
                              .is_inside = ct_exact_allocate(exact, mesh->n_triangles),
                              .is_known = ct_exact_allocate_zeroed(exact, mesh->n_triangles),
                              .queue = ct_exact_allocate(exact, mesh->n_triangles * sizeof *flood.queue)};
    const size_t n = (size_t)n_clusters * CT_CLUSTER_TRIANGLES;
    uint8_t *has_inside = ct_exact_allocate_zeroed(exact, n_clusters),
            *own_number = ct_exact_allocate(exact, CT_CLUSTER_TRIANGLES);
    surface->of_triangle = ct_exact_allocate_zeroed(exact, n * sizeof *surface->of_triangle);
    surface->own_number = own_number;
    if (!flood.adjacency) exact->has_failed = true;
    if (exact->has_failed) return;
    for (uint32_t t = 0; t < CT_CLUSTER_TRIANGLES; t++) own_number[t] = (uint8_t)t;
    find_insides(&flood);
    for (uint32_t t = 0; t < mesh->n_triangles && !exact->has_failed; t++)
        if (!flood.is_known[t]) spread(&flood, t, find_seed(&flood, t));
    if (exact->has_failed) return;
    note_numbers(&flood, has_inside);
    if (exact->has_failed) return;
    list_added(exact, surface, has_inside, n_clusters);
}

void ct_exact_total_own_winding(ct_exact_pair *exact) {
    for (int pass = 0; pass < exact->n_passes; pass++) {
        const ct_exact_surface *surface = &exact->part[0].surface[pass];
        if (surface->max_winding > exact->totals.max_winding) exact->totals.max_winding = surface->max_winding;
        if (surface->inverted > exact->totals.inverted) exact->totals.inverted = surface->inverted;
    }
}

/* ---- the two sides ---- */

static ct_contact_sums allocate_sums(ct_exact_pair *exact, uint32_t n_vertices) {
    const size_t padded = ((size_t)n_vertices + CT_VERTEX_BLOCK - 1) / CT_VERTEX_BLOCK * CT_VERTEX_BLOCK;
    ct_contact_sums sums = {0};
    for (int part = 0; part < 2; part++) {
        sums.touched[part] = ct_exact_allocate_zeroed(exact, padded / CT_VERTEX_GROUP);
        for (int k = 0; k < 3; k++) sums.gradient[part][k] = ct_exact_allocate_zeroed(exact, padded * sizeof(int64_t));
    }
    return sums;
}

/* Moves a vertex's gradient to part 1, and its moment: exact integers, so that the order of vertices does not matter.
 */
static void move_vertex(ct_exact_pair *exact, uint32_t v, ct_int128 moment[3][3]) {
    ct_exact_gradient *to = &exact->part[1].gradient;
    int64_t *from = exact->part[0].gradient.of[v];
    double point[3];
    ct_exact_place_vertex(&exact->part[0].body, v, point);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) moment[i][j] += (ct_int128)(int64_t)point[i] * from[j];
    memcpy(to->of[v], from, sizeof to->of[v]);
    memset(from, 0, sizeof to->of[v]);
    to->touched[v / 64] |= 1ull << v % 64;
    to->groups[v / 4096] |= 1ull << v / 64 % 64;
}

void ct_exact_split_sides(ct_exact_pair *exact) {
    const ct_mesh *mesh = exact->pair->body[0]->mesh;
    const ct_triangle_run whole = {0, mesh->n_triangles};
    const ct_weight_units units = {{1, 1, 1}};
    /* A share is rounded to a step at each of its triangle's corners. */
    const ct_self_surface surface = {.n_vertices = mesh->n_vertices,
                                     .triangles = mesh->triangles,
                                     .runs = &whole,
                                     .n_runs = 1,
                                     .rounding = (int64_t)(1.5 * CT_CLUSTER_TRIANGLES * exact->totals.n_clusters)};
    const ct_exact_gradient *gradient = &exact->part[0].gradient;
    const ct_contact_sums sums = allocate_sums(exact, mesh->n_vertices);
    if (exact->has_failed) return;
    for (uint32_t v = 0; v < mesh->n_vertices; v++) {
        if (CT_POLL_EVERY(v, 8 * TRIANGLE_POLL) && ct_exact_is_cancelled(exact, NULL, 0)) return;
        if (!(gradient->touched[v / 64] >> v % 64 & 1)) continue;
        sums.touched[0][v / CT_VERTEX_GROUP] = 1;
        for (int k = 0; k < 3; k++) sums.gradient[0][k][v] = gradient->of[v][k];
    }
    ct_side_scratch *scratch = &exact->workspace->workers[exact->driver].sides;
    if (!ct_split_sides(&surface, &units, &sums, scratch, &exact->device->budget)) {
        exact->has_failed = true;
        return;
    }
    ct_int128 moment[3][3] = {{0}};
    for (uint32_t v = 0; v < mesh->n_vertices; v++) {
        if (CT_POLL_EVERY(v, 8 * TRIANGLE_POLL) && ct_exact_is_cancelled(exact, NULL, 0)) return;
        if (sums.gradient[1][0][v] | sums.gradient[1][1][v] | sums.gradient[1][2][v]) move_vertex(exact, v, moment);
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const double part_1 = ldexp(ct_int128_to_double(moment[i][j]), exact->exponent);
            exact->totals.moment[1][i][j] += part_1;
            exact->totals.moment[0][i][j] -= part_1;
        }
}
