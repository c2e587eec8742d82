/* points.c - chooses the points that stand for a contact, and shares out its area among them. See ct_point for the
 * rule.
 *
 *     seen along the normal            seen from the side
 *    1 ________________                                      The deepest point (1), then the one farthest from it (2),
 *      |             .  | 4          ......  dome of 1       that of the largest triangle (3), of the largest
 *      |       .        |        .../      \...              quadrangle (4), and so on; both times its depth. What lies
 *    3 |_.______________| 2     /    \__1__/    \            below the dome of a point, which falls to the outline, is
 *                              outline                       left out: a ball's contact has one point, a box's four.
 */
#include "gpu/after/points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/after/corner_search.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"

/* Candidates as deep as the deepest but for this part of it are the deepest as well. */
static const double SAME_DEPTH = 1e-3;
/* Of the deepest: by less than this a candidate may rise above the dome and still be left out. Between the corners of a
 * faceted ball, and of one whose lowest corner is not below its centre, the dome is low by that much. */
static const double ABOVE_DOME = 0.25;
/* Of the outline's area, or of its extent: what a further point adds to be worth it. A ring of points around a disc
 * ends at 8. */
static const double WORTH = 0.02;
/* Of the window's extent: how far corners may be outside of the outline that is searched for. */
static const double OUTLINE_ERROR = 0x1p-8;
/* Of the largest depth: what it may be missed by, far above rounding, by which depths on a flat side differ. Of what a
 * corner adds times its depth: the same. */
static const double DEPTH_ERROR = 1e-4, CHOICE_ERROR = 0.01;

struct chooser {
    ct_corner_search search;
    double (*outline)[2]; /* [n_outline] m, counter-clockwise: the convex hull of the corners */
    size_t n_outline, outline_capacity;
    double (*hull)[2]; /* [n_hull] m: the same of those that are chosen */
    size_t n_hull;
    double (*members)[2]; /* [n_chosen] m: where the chosen are */
    ct_corner *chosen;    /* [n_chosen] */
    size_t n_chosen;
};

/* Twice the area of a triangle, positive if it is counter-clockwise. */
static double area_of(const double a[2], const double b[2], const double c[2]) {
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

static double distance(const double a[2], const double b[2]) {
    return sqrt((b[0] - a[0]) * (b[0] - a[0]) + (b[1] - a[1]) * (b[1] - a[1]));
}

static double hull_area(const double (*hull)[2], size_t n) {
    double area = 0;
    for (size_t i = 1; i + 1 < n; i++) area += area_of(hull[0], hull[i], hull[i + 1]);
    return area;
}

/* ---- the outline ---- */

struct edge {
    const double *from, *to;
};

/* How far a place is beyond an edge of the outline, times twice its length. */
static double beyond_edge(const void *of, const double at[2]) {
    const struct edge *edge = of;
    return area_of(edge->to, edge->from, at);
}

static double to_left(const void *of, const double at[2]) {
    (void)of;
    return -at[0];
}

static double to_right(const void *of, const double at[2]) {
    (void)of;
    return at[0];
}

static ct_corner_found add_to_outline(struct chooser *c, const double at[2]) {
    void *outline =
        ct_column_grow(c->outline, &c->outline_capacity, c->n_outline, sizeof *c->outline, _Alignof(double));
    if (!outline) return CT_CORNER_NO_MEMORY;
    c->outline = outline;
    memcpy(c->outline[c->n_outline++], at, sizeof *c->outline);
    return CT_CORNER_FOUND;
}

/* Adds what is on the right of an edge, farther than the outline's error, and the edge's end. */
static ct_corner_found add_side(struct chooser *c, const double from[2], const double to[2]) {
    const struct edge edge = {from, to};
    const double window =
        fmax(c->search.columns->hi[0] - c->search.columns->lo[0], c->search.columns->hi[1] - c->search.columns->lo[1]);
    const ct_corner_query query = {
        .key = beyond_edge, .of = &edge, .beat = OUTLINE_ERROR * window * distance(from, to)};
    ct_corner next;
    ct_corner_found found = ct_corner_search_best(&c->search, &query, &next);
    if (found == CT_CORNER_NONE) return add_to_outline(c, to);
    if (found == CT_CORNER_FOUND) found = add_side(c, from, next.at);
    if (found == CT_CORNER_FOUND) found = add_side(c, next.at, to);
    return found;
}

/* The hull, but for the error: from the leftmost corner to the rightmost, below, and back. */
static ct_corner_found find_outline(struct chooser *c) {
    const ct_corner_query left = {.key = to_left, .beat = -INFINITY}, right = {.key = to_right, .beat = -INFINITY};
    ct_corner ends[2];
    c->n_outline = 0;
    ct_corner_found found = ct_corner_search_best(&c->search, &left, &ends[0]);
    if (found == CT_CORNER_FOUND) found = ct_corner_search_best(&c->search, &right, &ends[1]);
    if (found == CT_CORNER_FOUND && ends[0].at[0] == ends[1].at[0] && ends[0].at[1] == ends[1].at[1])
        return add_to_outline(c, ends[0].at);
    if (found == CT_CORNER_FOUND) found = add_side(c, ends[0].at, ends[1].at);
    if (found == CT_CORNER_FOUND) found = add_side(c, ends[1].at, ends[0].at);
    if (found != CT_CORNER_FOUND) return found;
    /* The leftmost is last: it comes first. */
    memmove(c->outline + 1, c->outline, (c->n_outline - 1) * sizeof *c->outline);
    memcpy(c->outline[0], ends[0].at, sizeof *c->outline);
    return found;
}

/* ---- choice ---- */

static int by_place(const void *a, const void *b) {
    const double *p = a, *q = b;
    for (int k = 0; k < 2; k++)
        if (p[k] != q[k]) return p[k] < q[k] ? -1 : 1;
    return 0;
}

/* Andrew's monotone chain, over places that it sorts. hull: room for n + 1. */
static size_t find_hull(double (*members)[2], size_t n, double (*hull)[2]) {
    size_t kept = 0;
    qsort(members, n, sizeof *members, by_place);
    for (int pass = 0; pass < 2; pass++) {
        const size_t least = kept + (pass ? 0 : 1);
        for (size_t i = 0; i < n; i++) {
            const double *at = members[pass ? n - 1 - i : i];
            if (pass && i == 0) continue; /* the last of the lower half */
            while (kept > least && area_of(hull[kept - 2], hull[kept - 1], at) <= 0) kept--;
            memcpy(hull[kept++], at, sizeof *hull);
        }
    }
    return kept > 1 ? kept - 1 : kept; /* the first is there twice */
}

/* How far the outline is from p in the direction of q, which is within it: in distances from p to q, at least 1. */
static double reach_of(const struct chooser *c, const double p[2], const double q[2]) {
    double reach = INFINITY;
    for (size_t i = 0; i < c->n_outline; i++) {
        const double *a = c->outline[i], *b = c->outline[(i + 1) % c->n_outline];
        const double of_p = area_of(a, b, p), of_q = area_of(a, b, q); /* >= 0 inside */
        const double parallel = 1e-6 * distance(a, b) * distance(p, q);
        if (of_p - of_q > parallel) reach = fmin(reach, fmax(of_p, 0) / (of_p - of_q));
    }
    return fmax(reach, 1);
}

/* Whether corners in the convex hull of these places, no deeper than this, are below the dome of a chosen one: that
 * falls with the part of the way to the outline, which is largest at one of the places. */
static bool are_below_domes(const void *of, double depth, const double (*places)[2], int n) {
    const struct chooser *c = of;
    for (size_t k = 0; k < c->n_chosen; k++) {
        const ct_corner *top = &c->chosen[k];
        double part = c->n_outline > 2 ? 0 : 1;
        if (!(depth < top->depth * (1 + ABOVE_DOME))) continue;
        for (int i = 0; i < n && part < 1; i++) part = fmax(part, 1 / reach_of(c, top->at, places[i]));
        if (depth < top->depth * (1 - part * part + ABOVE_DOME)) return true;
    }
    return false;
}

static double same(const void *of, const double at[2]) {
    (void)of;
    (void)at;
    return 1;
}

static double from_center(const void *of, const double at[2]) {
    const double center[2] = {0, 0};
    (void)of;
    return distance(at, center);
}

/* The deepest corner; of equally deep ones the farthest from the contact's centre. */
static ct_corner_found find_deepest(ct_corner_search *search, ct_corner *deepest) {
    const ct_corner_query depth = {.key = same, .per_depth = 1, .slack = DEPTH_ERROR};
    const ct_corner_found found = ct_corner_search_best(search, &depth, deepest);
    if (found != CT_CORNER_FOUND) return found;
    const ct_corner_query far = {.key = from_center, .least_depth = deepest->depth * (1 - SAME_DEPTH), .beat = -1};
    return ct_corner_search_best(search, &far, deepest);
}

/* What a corner would add to the area of the chosen ones' hull, twice; or to the distance between two. */
static double gain_of(const void *of, const double at[2]) {
    const struct chooser *c = of;
    if (c->n_chosen == 1) return distance(c->chosen[0].at, at);
    if (c->n_hull == 2) return fabs(area_of(c->hull[0], c->hull[1], at));
    double gain = 0;
    for (size_t i = 0; i < c->n_hull; i++) {
        const double area = area_of(c->hull[i], c->hull[(i + 1) % c->n_hull], at);
        if (area < 0) gain -= area;
    }
    return gain;
}

/* The corner that adds most, times its depth, if it is worth it. */
static ct_corner_found find_next(struct chooser *c, double most_deep, ct_corner *next) {
    double extent = 0;
    for (size_t i = 0; i < c->n_outline; i++) extent = fmax(extent, distance(c->outline[0], c->outline[i]));
    for (size_t k = 0; k < c->n_chosen; k++) memcpy(c->members[k], c->chosen[k].at, sizeof *c->members);
    c->n_hull = find_hull(c->members, c->n_chosen, c->hull);
    const double whole = c->n_chosen == 1 ? extent : hull_area(c->outline, c->n_outline);
    const ct_corner_query query = {.key = gain_of,
                                   .leaves_out = are_below_domes,
                                   .of = c,
                                   .per_depth = 1 / most_deep,
                                   .beat = WORTH * whole,
                                   .slack = CHOICE_ERROR};
    return ct_corner_search_best(&c->search, &query, next);
}

static ct_corner_found choose(struct chooser *c, size_t most) {
    ct_corner next;
    c->n_chosen = 0;
    ct_corner_found found = find_outline(c);
    if (found == CT_CORNER_FOUND) found = find_deepest(&c->search, &next);
    if (found != CT_CORNER_FOUND) return found;
    const double most_deep = next.depth;
    while (found == CT_CORNER_FOUND) {
        c->chosen[c->n_chosen++] = next;
        if (c->n_chosen == most) return found;
        found = find_next(c, most_deep, &next);
    }
    return found;
}

/* ---- areas ---- */

/* Weights that sum to 1, as equal as possible, and whose barycentre is `center` as far as no weight is negative. */
static void share_area(const struct chooser *c, const double center[2], double *weights) {
    bool counts[CT_MAX_POINTS];
    size_t n = c->n_chosen;
    for (size_t i = 0; i < n; i++) counts[i] = true;
    for (size_t left = n; left > 0; left--) {
        double mean[2] = {0, 0}, xx = 0, xy = 0, yy = 0;
        for (size_t i = 0; i < n; i++)
            for (int k = 0; k < 2; k++)
                if (counts[i]) mean[k] += c->chosen[i].of[k] / (double)left;
        for (size_t i = 0; i < n; i++) {
            if (!counts[i]) continue;
            const double x = c->chosen[i].of[0] - mean[0], y = c->chosen[i].of[1] - mean[1];
            xx += x * x;
            xy += x * y;
            yy += y * y;
        }
        /* The points' spread has the eigenvalues half +- root. On a line, the smaller is nothing, and the barycentre
         * can only be moved along it. */
        const double half = 0.5 * (xx + yy), root = sqrt(0.25 * (xx - yy) * (xx - yy) + xy * xy);
        const double to[2] = {center[0] - mean[0], center[1] - mean[1]};
        double slope[2] = {0, 0};
        if (half - root > 1e-9 * half) {
            const double det = xx * yy - xy * xy;
            slope[0] = (yy * to[0] - xy * to[1]) / det;
            slope[1] = (xx * to[1] - xy * to[0]) / det;
        } else if (half > 0) {
            double along[2] = {xx >= yy ? xx : xy, xx >= yy ? xy : yy};
            const double length = sqrt(along[0] * along[0] + along[1] * along[1]);
            const double part = (along[0] * to[0] + along[1] * to[1]) / (length * length * (half + root));
            for (int k = 0; k < 2; k++) slope[k] = along[k] * part;
        }
        double least = 0;
        size_t worst = n;
        for (size_t i = 0; i < n; i++) {
            const double *at = c->chosen[i].of;
            weights[i] = counts[i] ? 1 / (double)left + slope[0] * (at[0] - mean[0]) + slope[1] * (at[1] - mean[1]) : 0;
            if (weights[i] >= least) continue;
            least = weights[i];
            worst = i;
        }
        if (worst == n) return;
        counts[worst] = false;
    }
}

/* ---- points ---- */

static void write_points(const struct chooser *c, const ct_columns *columns, const ct_contact *contact,
                         ct_point *points) {
    double center[2] = {0, 0}, weights[CT_MAX_POINTS];
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 3; i++)
            center[k] += columns->axis[k][i] *
                         (0.5 * (contact->side_center[0][i] + contact->side_center[1][i]) - contact->center[i]);
    share_area(c, center, weights);
    for (size_t p = 0; p < c->n_chosen; p++) {
        const ct_corner *from = &c->chosen[p];
        ct_point *point = &points[p];
        for (int i = 0; i < 3; i++) {
            point->position[i] = columns->center[i] + columns->axis[0][i] * from->of[0] +
                                 columns->axis[1][i] * from->of[1] + columns->axis[2][i] * from->w;
            point->normal[i] = contact->normal[i];
        }
        point->depth = from->depth;
        point->weight = weights[p];
        point->group[0] = contact->index;
        point->group[1] = CT_NO_GROUP;
        point->id = 0;
    }
}

static size_t choose_points(struct ct_columns *columns, const ct_contact *contact, size_t most, ct_point *points,
                            bool *ok) {
    struct chooser c = {0};
    double(*places)[2] = malloc((2 * most + 1) * sizeof *places);
    c.chosen = malloc(most * sizeof *c.chosen);
    *ok = ct_corner_search_open(&c.search, columns, contact->depth) && places && c.chosen;
    if (*ok) {
        c.members = places;
        c.hull = places + most;
        ct_corner_found found = choose(&c, most);
        if (found == CT_CORNER_SPENT && ct_corner_search_measure_some(&c.search)) found = choose(&c, most);
        *ok = found == CT_CORNER_FOUND || found == CT_CORNER_NONE;
        if (*ok && c.n_chosen > 0) write_points(&c, columns, contact, points);
    }
    ct_corner_search_close(&c.search);
    free(c.outline);
    free(c.chosen);
    free(places);
    return c.n_chosen;
}

static ct_status add_contact_points(ct_surfaces *surfaces, const ct_result *result, const ct_contact *contact,
                                    bool is_divided, size_t most, ct_point *points, size_t *n, uint64_t *visits,
                                    ct_error *error) {
    ct_columns columns;
    ct_status status = ct_columns_open(&columns, surfaces, result, contact, is_divided, error);
    bool ok = true;
    columns.n_points = result->n_points;
    if (!status) *n = choose_points(&columns, contact, most, points, &ok);
    *visits += columns.visits;
    ct_columns_close(&columns);
    return ok ? status
              : ct_fail(error, CT_OUT_OF_MEMORY, "max_points", "no memory for points of bodies %u and %u",
                        contact->body[0], contact->body[1]);
}

/* The point of a cell. The vertices of its surfaces may lie far from it, and with them its centre: of such a centre
 * only the part along the normal counts, from the middle of the cell's cube. Where little of the surfaces is in the
 * cell, volume / area is more than the cube has. */
static ct_point point_of_cell(const ct_contact *contact, const ct_contact *cell, double side) {
    ct_point point = {.depth = cell->depth, .weight = cell->area, .group = {contact->index, cell->index}};
    double middle[3], along = 0, reach = 0;
    bool is_inside = true;
    for (int k = 0; k < 3; k++) {
        middle[k] = side * (cell->cell[k] + 0.5);
        is_inside = is_inside && fabs(cell->center[k] - middle[k]) <= side / 2;
        along += cell->normal[k] * (cell->center[k] - middle[k]);
        reach += fabs(cell->normal[k]) * side;
    }
    for (int k = 0; k < 3; k++) {
        const double shift = fmin(fmax(along * cell->normal[k], -side / 2), side / 2);
        point.position[k] = is_inside ? cell->center[k] : middle[k] + shift;
        point.normal[k] = cell->normal[k];
    }
    point.depth = fmin(point.depth, reach);
    return point;
}

struct ranked_cell {
    double volume;
    uint64_t index;
};

static int by_falling_volume(const void *a, const void *b) {
    const struct ranked_cell *p = a, *q = b;
    if (p->volume != q->volume) return p->volume > q->volume ? -1 : 1;
    return p->index < q->index ? -1 : p->index > q->index;
}

/* The cells of most volume, in falling order; of equal ones the first. side: of their cubes, m. */
static ct_status add_cell_points(const ct_result *result, const ct_contact *contact, double side, size_t most,
                                 ct_point *points, size_t *n, ct_error *error) {
    const ct_contact *cells = result->cells + contact->first_cell;
    if (contact->n_cells >= CT_NO_GROUP)
        return ct_fail(
            error, CT_LIMIT_EXCEEDED, "max_points",
            "bodies %u and %u: %llu cells, but points can name %u: use a larger cell_size, or set max_points "
            "to 0",
            contact->body[0], contact->body[1], (unsigned long long)contact->n_cells, CT_NO_GROUP - 1);
    double area = 0;
    size_t n_ranked = 0;
    struct ranked_cell *ranked = malloc((contact->n_cells + 1) * sizeof *ranked);
    for (uint64_t i = 0; ranked && i < contact->n_cells; i++)
        if (cells[i].area > 0) ranked[n_ranked++] = (struct ranked_cell){cells[i].volume, i};
    if (!ranked || !ct_sort_large(ranked, n_ranked, sizeof *ranked, by_falling_volume)) {
        free(ranked);
        return ct_fail(error, CT_OUT_OF_MEMORY, "max_points", "no memory for points of %zu cells", n_ranked);
    }
    *n = n_ranked < most ? n_ranked : most;
    for (size_t p = 0; p < *n; p++) points[p] = point_of_cell(contact, &cells[ranked[p].index], side);
    free(ranked);
    for (size_t p = 0; p < *n; p++) area += points[p].weight;
    for (size_t p = 0; p < *n; p++) points[p].weight /= area;
    return CT_OK;
}

static bool is_of_pair(const ct_contact *a, const ct_contact *b) {
    return a->body[0] == b->body[0] && a->body[1] == b->body[1];
}

static ct_status add_points(ct_surfaces *surfaces, ct_result *result, double cell_size, size_t most, uint64_t *visits,
                            ct_error *error) {
    size_t capacity = 0;
    for (size_t i = 0; i < result->n_contacts; i++) {
        ct_contact *contact = &result->contacts[i];
        size_t n = 0;
        if (ct_is_cancelled_at("points", result->n_points)) return ct_fail_cancelled(error);
        contact->first_point = result->n_points;
        if (!(contact->area > 0)) continue;
        if (result->n_points + most > capacity) {
            capacity = 2 * (result->n_points + most);
            ct_point *points = realloc(result->points, capacity * sizeof *points);
            if (!points) return ct_fail(error, CT_OUT_OF_MEMORY, "max_points", "no memory for points");
            result->points = points;
        }
        ct_point *points = result->points + result->n_points;
        const bool is_divided =
            contact->index > 0 || (i + 1 < result->n_contacts && is_of_pair(contact, &result->contacts[i + 1]));
        const ct_status status = contact->n_cells ? add_cell_points(result, contact, cell_size, most, points, &n, error)
                                                  : add_contact_points(surfaces, result, contact, is_divided, most,
                                                                       points, &n, visits, error);
        if (status) return status;
        contact->n_points = n;
        result->n_points += n;
    }
    return CT_OK;
}

ct_status ct_result_add_points(ct_scene *scene, ct_result *result, uint64_t *visits, ct_error *error) {
    uint64_t all_visits = 0;
    ct_surfaces surfaces;
    ct_enter_phase("choosing points");
    if (!ct_surfaces_open(&surfaces, scene))
        return ct_fail(error, CT_OUT_OF_MEMORY, "max_points", "no memory for points");
    const ct_scene_settings *settings = &scene->settings;
    const ct_status status =
        add_points(&surfaces, result, settings->cell_size, settings->max_points, &all_visits, error);
    if (visits) *visits = all_visits;
    ct_surfaces_close(&surfaces);
    return status;
}
