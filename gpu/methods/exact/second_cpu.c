/* second_cpu.c - what a contact of the method `exact` has only on request: products with the second derivative
 * and the inertia of the intersection (second_k.h).
 *
 * Both are sums over the triangles inside the other body and over the segments of those that cross. Each cluster is
 * summed by one task, in the order of its triangles and crossings; clusters are then added in their order. So the bits
 * do not depend on the number of threads, the instruction set, or the order of triangles and bodies.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/exact/pair_cpu.h"
#include "gpu/methods/exact/second_k.h"
#include "gpu/methods/exact/self_k.h"

/* ---- from clusters to contacts, for every backend ---- */

/* Clusters, and vertices, between two polls: some 100 us with 12 directions. */
enum { MERGED_POLL = 8, VERTEX_POLL = 2048 };

/* m^5, as in ct_contact. sum: of both bodies, about the centre, in units. */
static void find_inertia(const double sum[2][CT_MOMENTS], double unit, double inertia[3][3]) {
    double total[6];
    for (int m = 0; m < 6; m++) total[m] = (sum[0][m] + sum[1][m]) * (unit * unit * unit * unit * unit);
    const double trace = total[0] + total[1] + total[2];
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3;
        inertia[i][i] = trace - total[i];
        inertia[i][j] = inertia[j][i] = -total[3 + i];
    }
}

/* The index of r_i r_k in xx, yy, zz, xy, yz, zx. */
static int product_of(int i, int k) {
    return i == k ? i : (i + 1) % 3 == k ? 3 + i : 3 + k;
}

/* Force and torque of the pressure y = t . r, and the moments of the area, as means of both sides. */
static void find_linear_pressure(const double sum[2][CT_MOMENTS], double unit, ct_contact *contact) {
    double first[3][3], second[6][3];
    for (int i = 0; i < 9; i++)
        first[i / 3][i % 3] = (sum[1][CT_SURFACE_FIRST + i] - sum[0][CT_SURFACE_FIRST + i]) / 2 * (unit * unit * unit);
    for (int i = 0; i < 18; i++)
        second[i / 3][i % 3] =
            (sum[1][CT_SURFACE_SECOND + i] - sum[0][CT_SURFACE_SECOND + i]) / 2 * (unit * unit * unit * unit);
    for (int t = 0; t < 2; t++) {
        const double *along = contact->tangents[t];
        double turned[3][3]; /* integral of y r_i n_j dA */
        for (int j = 0; j < 3; j++) {
            contact->linear_pressure[t][j] = 0;
            for (int k = 0; k < 3; k++) contact->linear_pressure[t][j] += along[k] * first[k][j];
            for (int i = 0; i < 3; i++) {
                turned[i][j] = 0;
                for (int k = 0; k < 3; k++) turned[i][j] += along[k] * second[product_of(i, k)][j];
            }
        }
        for (int i = 0; i < 3; i++) {
            const int j = (i + 1) % 3, k = (i + 2) % 3;
            contact->linear_pressure[t][3 + i] = turned[j][k] - turned[k][j];
        }
        for (int of = t; of < 2; of++) { /* of the tangents 00, 01, 11 */
            double *moment = &contact->plane_moments[t + of];
            *moment = 0;
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++) *moment += contact->tangents[of][i] * turned[i][j] * contact->normal[j];
        }
    }
}

void ct_second_moments(const ct_second_pair *pair, ct_contact *contact) {
    double sum[2][CT_MOMENTS] = {{0}};
    for (int pass = 0; pass < pair->n_passes; pass++)
        for (int b = 0; b < 2; b++) {
            double of_pass[CT_MOMENTS] = {0};
            for (uint32_t k = 0; k < pair->n_clusters[b][pass]; k++)
                for (int m = 0; m < CT_MOMENTS; m++) of_pass[m] += pair->clusters[b][pass][k].moments[m];
            for (int m = 0; m < CT_MOMENTS; m++) sum[b][m] += of_pass[m] / pair->n_passes;
        }
    find_inertia((const double(*)[CT_MOMENTS])sum, pair->unit, contact->inertia);
    find_linear_pressure((const double(*)[CT_MOMENTS])sum, pair->unit, contact);
}

uint32_t ct_second_number_rows(const ct_second_pair *pair, int b, uint32_t n_vertices, uint32_t *row_of) {
    for (int pass = 0; pass < pair->n_passes; pass++)
        for (uint32_t k = 0; k < pair->n_clusters[b][pass]; k++) {
            const ct_second_cluster *c = &pair->clusters[b][pass][k];
            for (uint32_t v = 0; v < c->n_vertices; v++) row_of[c->vertices[v]] = 1;
        }
    uint32_t n = 0;
    for (uint32_t v = 0; v < n_vertices; v++)
        if (row_of[v]) row_of[v] = ++n;
    return n;
}

uint32_t ct_second_merge(const ct_second_pair *pair, int b, uint32_t n_vertices, const uint32_t *row_of,
                         double *const sums[2], uint32_t *vertices, double *values) {
    const size_t row = 3 * (size_t)pair->n_directions;
    for (int pass = 0; pass < pair->n_passes; pass++)
        for (uint32_t k = 0; k < pair->n_clusters[b][pass]; k++) {
            const ct_second_cluster *c = &pair->clusters[b][pass][k];
            if (CT_POLL_EVERY(k, MERGED_POLL) && ct_is_cancelled()) return 0;
            for (uint32_t v = 0; v < c->n_vertices; v++) {
                double *to = sums[pass] + (row_of[c->vertices[v]] - 1) * row;
                for (size_t i = 0; i < row; i++) to[i] += c->products[v * row + i];
            }
        }
    const double scale = pair->unit / pair->n_passes;
    uint32_t n = 0;
    for (uint32_t v = 0; v < n_vertices; v++) {
        if (CT_POLL_EVERY(v, VERTEX_POLL) && ct_is_cancelled()) return 0;
        if (!row_of[v]) continue;
        const double *from[2] = {sums[0] + (row_of[v] - 1) * row, NULL};
        if (pair->n_passes == 2) from[1] = sums[1] + (row_of[v] - 1) * row;
        double *to = values + n * row; /* in sums[0], it is at from[0] or before it */
        bool is_zero = true;
        for (size_t i = 0; i < row; i++) {
            const double sum = from[1] ? from[0][i] + from[1][i] : from[0][i];
            is_zero = is_zero && sum == 0;
            to[i] = sum * scale;
        }
        if (!is_zero) vertices[n++] = v;
    }
    return n;
}

void ct_second_generalized(const ct_second_pair *pair, int b, uint32_t k, double out[6]) {
    double total[2][3] = {{0}};
    for (int pass = 0; pass < pair->n_passes; pass++) {
        double sum[2][3] = {{0}};
        for (uint32_t c = 0; c < pair->n_clusters[b][pass]; c++)
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 3; j++) sum[i][j] += pair->clusters[b][pass][c].forces[k][i][j];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 3; j++) total[i][j] += sum[i][j];
    }
    const double unit = pair->unit, scale = unit / pair->n_passes;
    double force[3];
    for (int j = 0; j < 3; j++) force[j] = total[0][j] * scale;
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, l = (i + 2) % 3;
        const double torque = pair->arm[b][j] * force[l] - pair->arm[b][l] * force[j];
        out[i] = force[i];
        out[3 + i] = torque + total[1][i] * scale * unit;
    }
}

/* ---- keeping crossings ---- */

/* Keeps the pairs of crossing triangles of a pass. */
static void keep_crossings(ct_exact_pair *exact, int pass) {
    for (int b = 0; b < (exact->is_self ? 1 : 2) && !exact->has_failed; b++) {
        ct_exact_surface *surface = &exact->part[b].surface[pass];
        const size_t n = surface->first_crossing[surface->n_crossed];
        surface->first_crossed_pair =
            ct_exact_allocate(exact, (surface->n_crossed + 1) * sizeof *surface->first_crossed_pair);
        surface->crossed_pairs = ct_exact_allocate(exact, n * sizeof *surface->crossed_pairs);
        if (exact->has_failed) return;
        size_t kept = 0;
        for (uint32_t c = 0; c < surface->n_crossed; c++) {
            surface->first_crossed_pair[c] = kept;
            for (size_t i = surface->first_crossing[c]; i < surface->first_crossing[c + 1]; i++) {
                const ct_crossing *crossing = surface->crossings[i];
                if (CT_POLL_EVERY(i, 4096) && ct_exact_is_cancelled(exact, "crossings", i)) return;
                if (!crossing->crosses) continue;
                surface->crossed_pairs[kept++] = ct_exact_crossed_pair(exact, crossing);
            }
        }
        surface->first_crossed_pair[surface->n_crossed] = kept;
    }
}

/* ---- a cluster's sums ---- */

/* What a thread knows of the cluster that it sums. */
struct cluster_scratch {
    ct_directed *motions, *products; /* [vertices] m and units * m */
    double (*gradients)[3];          /* [vertices] units^2 */
    bool *is_counted;                /* [vertices] */
};

struct second {
    ct_exact_pair *exact;
    uint32_t n_directions, quads; /* of four directions */
    bool wants_moments;
    double center[3];                /* units */
    double arm[2][3];                /* m: from a body's origin to the lattice's */
    ct_directed twists[2][2];        /* of each body, where it is rigid: translation, m, and rotation */
    ct_second_cluster *sums[2][2];   /* [part][pass][n_added] */
    struct cluster_scratch *scratch; /* [end_worker - first_worker] */
};

static void find_twists(struct second *second, int b) {
    const ct_pair_task *pair = second->exact->pair;
    const ct_body *body = pair->body[b];
    for (uint32_t k = 0; k < second->n_directions && body->kind == CT_BODY_RIGID; k++) {
        if (!body->direction[k]) continue;
        const double *twist = pair->step->directions[body->direction[k] - 1].twist;
        for (int i = 0; i < 6; i++) second->twists[b][i / 3].of[i % 3][k] = twist[i];
    }
}

/* A vertex's motion. */
static void find_motion(const struct second *second, int b, uint32_t vertex, const double *point, ct_directed *out) {
    const ct_pair_task *pair = second->exact->pair;
    const ct_body *body = pair->body[b];
    if (body->kind == CT_BODY_RIGID) {
        double from_origin[3];
        for (int i = 0; i < 3; i++) from_origin[i] = point[i] * second->exact->lattice.unit + second->arm[b][i];
        ct_exact_second_of(second->exact)->move(second->twists[b], from_origin, second->quads, out);
        return;
    }
    memset(out, 0, sizeof *out);
    for (uint32_t k = 0; k < second->n_directions; k++) {
        double row[3];
        if (!body->direction[k]) continue;
        ct_direction_row(&pair->step->directions[body->direction[k] - 1], ct_mesh_moves_with(body->mesh, vertex), row);
        for (int i = 0; i < 3; i++) out->of[i][k] = row[i];
    }
}

static const ct_placed_cluster *placed_of(const ct_exact_body *body, uint32_t cluster) {
    return &body->placed[body->placed_as[cluster] - 1];
}

/* A triangle of the cluster that is being summed. */
struct own_triangle {
    const double *point[3];
    uint16_t corner[3];           /* in the cluster */
    double u[3], v[3], normal[3]; /* the sides to corners 1 and 2, u x v */
};

static void find_triangle(const ct_placed_cluster *c, uint32_t t, struct own_triangle *out) {
    for (int i = 0; i < 3; i++) {
        out->corner[i] = c->corners[t][i];
        out->point[i] = c->points[out->corner[i]];
    }
    for (int j = 0; j < 3; j++) {
        out->u[j] = out->point[1][j] - out->point[0][j];
        out->v[j] = out->point[2][j] - out->point[0][j];
    }
    ct_cross_product(out->u, out->v, out->normal);
}

/* The motions of its corners, and where their products are added up. */
static void take_corners(const struct cluster_scratch *scratch, const struct own_triangle *triangle,
                         const ct_directed *motions[3], ct_directed *products[3]) {
    for (int i = 0; i < 3; i++) {
        motions[i] = &scratch->motions[triangle->corner[i]];
        products[i] = &scratch->products[triangle->corner[i]];
    }
}

/* A triangle inside the other body, or partly; winding: the other's winding number at corner 1. */
static void add_inside(const struct second *second, const struct own_triangle *triangle, int32_t winding,
                       const ct_crossed_triangle *crossed, const struct cluster_scratch *scratch) {
    ct_integrals integrals = ct_whole_integrals(winding);
    for (int i = 0; crossed && i < CT_INTEGRALS; i++) integrals.of[i] += crossed->integrals.of[i];
    const double part[3] = {integrals.of[0] - integrals.of[1] - integrals.of[2], integrals.of[1], integrals.of[2]};
    const ct_directed *motions[3];
    ct_directed *products[3];
    take_corners(scratch, triangle, motions, products);
    ct_exact_second_of(second->exact)->turn(triangle->u, triangle->v, part, motions, second->quads, products);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) scratch->gradients[triangle->corner[i]][j] += triangle->normal[j] * part[i];
}

/* A segment in which a triangle of the other body, or of the same one, crosses triangle t of cluster `own`. */
struct segment {
    const ct_placed_cluster *cluster; /* of the other triangle */
    const uint16_t *corner;           /* in it */
    const double *point[3];
    ct_recrossing seen;
};

/* A segment that was not kept. False: there is none. */
static bool recross(const struct second *second, int b, int pass, const ct_placed_cluster *own,
                    const uint16_t *own_corner, struct segment *segment) {
    const double *const point[3] = {own->points[own_corner[0]], own->points[own_corner[1]], own->points[own_corner[2]]};
    const int moved = b == 0 ? ct_exact_moved_in(pass) : -ct_exact_moved_in(pass);
    int shared[2];
    uint32_t vertices[2][3];
    for (int i = 0; i < 3; i++) {
        vertices[0][i] = own->vertices[own_corner[i]];
        vertices[1][i] = segment->cluster->vertices[segment->corner[i]];
    }
    const bool is_at_vertex = second->exact->is_self && ct_count_shared_vertices(vertices[0], vertices[1], shared);
    return is_at_vertex ? ct_recross_at_vertex(point, segment->point, shared, moved, &segment->seen)
                        : ct_recross(point, segment->point, moved, &segment->seen);
}

/* has_normals: all of it is wanted, not its ends and jumps alone. False: they do not cross. */
static bool find_segment(const struct second *second, int b, int pass, const ct_placed_cluster *own, uint32_t t,
                         const ct_crossed_pair *pair, bool has_normals, struct segment *out) {
    const ct_exact_part *part = &second->exact->part[second->exact->is_self ? 0 : 1 - b];
    if (pair->segment) ct_see_segment(pair->segment, pair->is_second, &out->seen);
    if (pair->segment && !has_normals) return true;
    out->cluster = placed_of(&part->body, pair->other / CT_CLUSTER_TRIANGLES);
    out->corner = out->cluster->corners[pair->other % CT_CLUSTER_TRIANGLES];
    for (int i = 0; i < 3; i++) out->point[i] = out->cluster->points[out->corner[i]];
    const uint16_t *corner = own->corners[t];
    if (!pair->segment) return recross(second, b, pass, own, corner, out);
    const double *const point[3] = {own->points[corner[0]], own->points[corner[1]], own->points[corner[2]]};
    ct_see_normals(point, out->point, pair->segment, pair->is_second, &out->seen);
    return true;
}

/* ---- products ---- */

static void add_moved_segment(const struct second *second, int b, const struct own_triangle *triangle,
                              const struct segment *segment, const struct cluster_scratch *scratch) {
    ct_directed others[3];
    const ct_directed *motions[3], *const other[3] = {&others[0], &others[1], &others[2]};
    ct_directed *products[3];
    for (int i = 0; i < 3; i++)
        find_motion(second, 1 - b, segment->cluster->vertices[segment->corner[i]], segment->point[i], &others[i]);
    take_corners(scratch, triangle, motions, products);
    ct_exact_second_of(second->exact)->cut(&segment->seen, motions, other, second->quads, products);
}

static void begin_cluster(const struct second *second, int b, const ct_placed_cluster *c,
                          struct cluster_scratch *scratch) {
    for (uint32_t v = 0; v < c->n_vertices; v++)
        find_motion(second, b, c->vertices[v], c->points[v], &scratch->motions[v]);
    memset(scratch->products, 0, c->n_vertices * sizeof *scratch->products);
    memset(scratch->gradients, 0, c->n_vertices * sizeof *scratch->gradients);
    memset(scratch->is_counted, 0, c->n_vertices * sizeof *scratch->is_counted);
}

/* Adds up the cluster's forces and torques, and the torque of its gradient as its vertices move: in the order in which
 * triangles use the vertices, so that their numbers do not matter. */
static void add_forces(const struct second *second, int b, const ct_placed_cluster *c, struct cluster_scratch *scratch,
                       ct_second_cluster *sums) {
    ct_directed force[2];
    memset(force, 0, sizeof force);
    for (uint32_t t = 0; t < c->n_triangles; t++)
        for (int i = 0; i < 3; i++) {
            const uint32_t v = c->corners[t][i];
            if (scratch->is_counted[v]) continue;
            scratch->is_counted[v] = true;
            ct_exact_second_of(second->exact)
                ->push(c->points[v], scratch->gradients[v], &second->exact->lattice, &second->twists[b][0],
                       &scratch->motions[v], &scratch->products[v], second->quads, force);
        }
    for (uint32_t k = 0; k < second->n_directions; k++)
        for (int i = 0; i < 6; i++) sums->forces[k][i / 3][i % 3] = force[i / 3].of[i % 3][k];
}

/* A cluster that is summed, and where its crossings lie. */
struct summed_cluster {
    const ct_placed_cluster *placed;
    ct_winding_numbers w;
    const ct_crossed_pair *pairs, *end; /* in rising order of its triangles */
    uint32_t first;                     /* its first triangle's number */
};

static struct summed_cluster open_cluster(const struct second *second, int b, int pass, uint32_t index) {
    const ct_exact_part *part = &second->exact->part[b];
    const ct_exact_surface *surface = &part->surface[pass];
    const uint32_t cluster = surface->added[index], as = surface->crossed_as[cluster];
    return (struct summed_cluster){
        .placed = placed_of(&part->body, cluster),
        .w = ct_exact_winding_numbers(part->body.topology, surface, index),
        .pairs = as ? surface->crossed_pairs + surface->first_crossed_pair[as - 1] : NULL,
        .end = as ? surface->crossed_pairs + surface->first_crossed_pair[as] : NULL,
        .first = cluster * CT_CLUSTER_TRIANGLES,
    };
}

/* The other body's winding number at corner 1 of a triangle; *crossed: NULL if it is not. */
static int32_t look_at(const struct summed_cluster *c, uint32_t t, const ct_crossed_triangle **crossed) {
    const ct_crossed_cluster *of = c->w.crossed;
    *crossed = of && of->number[t] ? &of->triangles[of->number[t] - 1] : NULL;
    return c->w.of_unit[c->w.unit_in_cluster[t]] + (of ? of->winding[c->placed->corners[t][1]] : 0);
}

static bool is_cancelled_at(const struct second *second, const struct summed_cluster *c, const ct_crossed_pair *pair) {
    const size_t done = (size_t)(pair - c->pairs);
    return CT_POLL_EVERY(done, 32) && ct_exact_is_cancelled(second->exact, "crossings", done);
}

static void add_products_of(const struct second *second, int b, int pass, const struct summed_cluster *c,
                            struct cluster_scratch *scratch, ct_second_cluster *sums) {
    const ct_crossed_pair *pair = c->pairs;
    begin_cluster(second, b, c->placed, scratch);
    for (uint32_t t = 0; t < c->placed->n_triangles; t++) {
        const ct_crossed_triangle *crossed;
        const int32_t winding = look_at(c, t, &crossed);
        if (!crossed && !winding) continue;
        struct own_triangle triangle;
        find_triangle(c->placed, t, &triangle);
        add_inside(second, &triangle, winding, crossed, scratch);
        for (; pair < c->end && pair->triangle == c->first + t; pair++) {
            struct segment segment;
            if (is_cancelled_at(second, c, pair)) return;
            if (find_segment(second, b, pass, c->placed, t, pair, true, &segment))
                add_moved_segment(second, b, &triangle, &segment, scratch);
        }
    }
    add_forces(second, b, c->placed, scratch, sums);
    ct_exact_second_of(second->exact)
        ->write(scratch->products, c->placed->n_vertices, second->n_directions, sums->products);
}

static void add_moments_of(const struct second *second, int b, int pass, const struct summed_cluster *c,
                           ct_second_cluster *sums) {
    ct_moment_share shares[CT_CLUSTER_TRIANGLES];
    const ct_crossed_pair *pair = c->pairs;
    uint32_t n = 0;
    for (uint32_t t = 0; t < c->placed->n_triangles; t++) {
        const ct_crossed_triangle *crossed;
        const int32_t winding = look_at(c, t, &crossed);
        if (!crossed && !winding) continue;
        ct_moment_share *share = &shares[n++];
        share->triangle = t;
        ct_whole_monomials(winding, share->monomials);
        for (; pair < c->end && pair->triangle == c->first + t; pair++) {
            struct segment segment;
            const ct_recrossing *seen = &segment.seen;
            if (is_cancelled_at(second, c, pair)) return;
            if (!find_segment(second, b, pass, c->placed, t, pair, false, &segment)) continue;
            ct_add_segment_monomials(seen->own[0], seen->own[1], 1, share->monomials);
            for (int i = 0; i < seen->n_jumps; i++)
                ct_add_edge_monomials(seen->jump_at[i], seen->jump[i], share->monomials);
        }
    }
    ct_exact_kernels_of(second->exact)->add_moments(c->placed, shares, n, second->center, sums->moments);
}

static void add_cluster(const struct second *second, int b, int pass, uint32_t index, struct cluster_scratch *scratch,
                        ct_second_cluster *sums) {
    const struct summed_cluster cluster = open_cluster(second, b, pass, index);
    if (second->n_directions) add_products_of(second, b, pass, &cluster, scratch, sums);
    if (second->wants_moments) add_moments_of(second, b, pass, &cluster, sums);
}

/* ---- all clusters ---- */

/* Task i is a cluster of the passes and parts, one after the other. */
static void add_one(void *argument, uint32_t i, uint32_t worker) {
    const struct second *second = argument;
    if (ct_exact_should_end(second->exact)) return;
    struct cluster_scratch *scratch = &second->scratch[worker - second->exact->first_worker];
    for (int b = 0; b < 2; b++)
        for (int pass = 0; pass < second->exact->n_passes; pass++) {
            const uint32_t n = second->exact->part[b].surface[pass].n_added;
            if (i < n) {
                add_cluster(second, b, pass, i, scratch, &second->sums[b][pass][i]);
                return;
            }
            i -= n;
        }
}

static void allocate_scratch(struct second *second) {
    enum { MOST = 3 * CT_CLUSTER_TRIANGLES }; /* vertices of a cluster */
    ct_exact_pair *exact = second->exact;
    const uint32_t n = exact->end_worker - exact->first_worker;
    second->scratch = ct_exact_allocate(exact, n * sizeof *second->scratch);
    for (uint32_t i = 0; i < n && !exact->has_failed; i++) {
        struct cluster_scratch *scratch = &second->scratch[i];
        if (second->n_directions) {
            scratch->motions = ct_exact_allocate(exact, MOST * sizeof *scratch->motions);
            scratch->products = ct_exact_allocate(exact, MOST * sizeof *scratch->products);
        }
        scratch->gradients = ct_exact_allocate(exact, MOST * sizeof *scratch->gradients);
        scratch->is_counted = ct_exact_allocate(exact, MOST * sizeof *scratch->is_counted);
    }
}

/* Allocates the sums of all clusters, and computes them. */
static void add_clusters(struct second *second) {
    ct_exact_pair *exact = second->exact;
    const size_t n_directions = second->n_directions;
    uint32_t n = 0;
    allocate_scratch(second);
    if (exact->has_failed) return;
    for (int b = 0; b < 2; b++)
        for (int pass = 0; pass < exact->n_passes; pass++) {
            const ct_exact_surface *surface = &exact->part[b].surface[pass];
            second->sums[b][pass] = ct_exact_allocate_zeroed(exact, surface->n_added * sizeof **second->sums[b]);
            for (uint32_t k = 0; k < surface->n_added && !exact->has_failed; k++) {
                if (CT_POLL_EVERY(k, 16) && ct_exact_is_cancelled(exact, NULL, 0)) return;
                ct_second_cluster *sums = &second->sums[b][pass][k];
                const ct_placed_cluster *c = placed_of(&exact->part[b].body, surface->added[k]);
                sums->vertices = c->vertices;
                sums->n_vertices = c->n_vertices;
                sums->products = ct_exact_allocate(exact, c->n_vertices * n_directions * 3 * sizeof(double));
                sums->forces = ct_exact_allocate(exact, n_directions * sizeof *sums->forces);
                sums->moments = ct_exact_allocate_zeroed(exact, CT_MOMENTS * sizeof(double));
            }
            if (exact->has_failed) return;
            n += surface->n_added;
        }
    if (exact->is_spread)
        ct_pool_run(exact->workspace->pool, n, add_one, second);
    else
        for (uint32_t i = 0; i < n; i++) add_one(second, i, exact->driver);
}

/* ---- what the contact has of them ---- */

/* A body's vertices with products. */
struct rows {
    uint32_t n_vertices, n;
    uint32_t *of; /* [n_vertices] 1 + row; 0: none */
};

static struct rows number_rows(const struct second *second, const ct_second_pair *sums, int b) {
    const ct_body *body = second->exact->pair->body[b];
    struct rows rows = {.n_vertices = body->is_half_space ? 0 : body->mesh->n_vertices}; /* it has none for its users */
    rows.of = ct_exact_allocate_zeroed(second->exact, (rows.n_vertices + 1) * sizeof *rows.of);
    if (!second->exact->has_failed && rows.n_vertices)
        rows.n = ct_second_number_rows(sums, b, rows.n_vertices, rows.of);
    return rows;
}

/* Returns the number of vertices that are left. */
static uint32_t merge_clusters(const struct second *second, const ct_second_pair *sums, int b, const struct rows *rows,
                               uint32_t *vertices, double *values) {
    ct_exact_pair *exact = second->exact;
    double *of_pass[2] = {NULL, NULL};
    if (!rows->n_vertices) return 0;
    for (int pass = 0; pass < exact->n_passes; pass++)
        of_pass[pass] = ct_exact_allocate_zeroed(exact, rows->n * second->n_directions * sizeof(double[3]));
    if (exact->has_failed) return 0;
    const uint32_t n = ct_second_merge(sums, b, rows->n_vertices, rows->of, of_pass, vertices, values);
    ct_exact_is_cancelled(exact, NULL, 0); /* then it was not finished */
    return n;
}

static void find_products(const struct second *second, const ct_second_pair *sums, ct_pair_contact *out) {
    ct_exact_pair *exact = second->exact;
    struct rows rows[2];
    for (int b = 0; b < 2; b++) rows[b] = number_rows(second, sums, b);
    const size_t most = (size_t)rows[0].n + rows[1].n, row = 3 * (size_t)second->n_directions;
    ct_arena *answers = &exact->workspace->workers[exact->driver].answers;
    ct_budget *budget = &exact->device->answers;
    uint32_t *vertices = ct_arena_alloc(answers, budget, (most + 1) * sizeof *vertices);
    double *values = ct_arena_alloc(answers, budget, (most + 1) * row * sizeof *values);
    double *generalized = ct_arena_alloc(answers, budget, second->n_directions * 2 * 6 * sizeof *generalized);
    if (!vertices || !values || !generalized) exact->has_failed = true;
    for (size_t b = 0, at = 0; b < 2 && !exact->has_failed; at += out->contact.count_product[b++]) {
        out->contact.count_product[b] =
            merge_clusters(second, sums, (int)b, &rows[b], vertices + at, values + at * row);
        for (uint32_t k = 0; k < second->n_directions; k++)
            ct_second_generalized(sums, (int)b, k, generalized + 6 * (2 * (size_t)k + b));
    }
    out->product_vertices = vertices;
    out->products = values;
    out->generalized_product = generalized;
}

/* The sums of all clusters. */
static ct_second_pair list_sums(const struct second *second) {
    const ct_exact_pair *exact = second->exact;
    ct_second_pair pair = {
        .n_passes = exact->n_passes, .n_directions = second->n_directions, .unit = exact->lattice.unit};
    memcpy(pair.arm, second->arm, sizeof pair.arm);
    for (int b = 0; b < 2; b++)
        for (int pass = 0; pass < exact->n_passes; pass++) {
            pair.clusters[b][pass] = second->sums[b][pass];
            pair.n_clusters[b][pass] = exact->part[b].surface[pass].n_added;
        }
    return pair;
}

void ct_exact_find_second(ct_exact_pair *exact) {
    ct_enter_phase("finding second derivatives");
    for (int pass = 0; pass < exact->n_passes && !exact->pieces; pass++) keep_crossings(exact, pass);
    if (exact->has_failed) return;
    ct_contact *contact = &exact->contact->contact;
    struct second second = {.exact = exact,
                            .n_directions = exact->pair->n_directions,
                            .quads = (exact->pair->n_directions + 3) / 4,
                            .wants_moments = (exact->pair->step->want & CT_WANT_INERTIA) != 0};
    for (int i = 0; i < 3; i++) {
        second.center[i] = (contact->center[i] - exact->lattice.origin[i]) * exact->lattice.inverse;
        for (int b = 0; b < 2; b++) {
            const ct_body *body = exact->pair->body[b];
            second.arm[b][i] = exact->lattice.origin[i] - body->given[4 * i + 3];
        }
    }
    for (int b = 0; b < 2; b++) find_twists(&second, b);
    add_clusters(&second);
    if (exact->has_failed) return;
    const ct_second_pair sums = list_sums(&second);
    if (second.wants_moments) ct_second_moments(&sums, contact);
    if (second.n_directions) find_products(&second, &sums, exact->contact);
}
