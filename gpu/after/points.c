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

#include "gpu/after/point_lines.h"
#include "gpu/after/point_places.h"
#include "gpu/after/spread.h"
#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/base/vec.h"

/* Candidates as deep as the deepest but for this part of it are the deepest as well. */
static const double SAME_DEPTH = 1e-3;
/* Of the deepest: by less than this a candidate may rise above the dome and still be left out. Between the corners of a
 * faceted ball, and of one whose lowest corner is not below its centre, the dome is low by that much. */
static const double ABOVE_DOME = 0.25;
/* The cosine of the angle between two candidates' directions, from which on one may stand for the other. */
static const double SAME_WAY = 0.9;
/* Of the outline's area, or of its extent: what a further point adds to be worth it. A ring of points around a disc
 * ends at 8. */
static const double WORTH = 0.02;
/* The outline of a contact whose outermost candidates are vertices is at most this many times as wide as they lie. */
static const double WIDEST = 1.5;

/* Seen along a normal that leans, flat sides of the contact make a slope around its outline, steeper than what bounds
 * it above and below. It is as wide as this part of the depth for sides that lean by 1 in 4; at most this part of the
 * window. Where a line is shorter than this part of the contact's depth, and one beyond the slope is longer by this
 * much, that one stands for the place. */
static const double SLOPE = 0.25, WINDOW_PART = 0x1p-5, IS_SHALLOW = 0.5, ON_SLOPE = 1.5;
/* The cosine of the angle between the contact's normal and the direction between its surfaces, where one is a wall. */
static const double ON_A_WALL = 0.9;
/* Of the window: places as near to one another are one. */
static const double SAME_PLACE = 0x1p-6;
/* Of the rounding of lines: how far inside the outline a line is cast for a corner. */
static const double BESIDE = 4;
/* Of a stretch: how far beyond the planes of its ends' surfaces those of a turned line are looked for; and how long it
 * is at least, of what these planes say. */
static const double LOOK_BEYOND = 1.5, LEAST_TURNED = 0.5;
/* A direction that leans from the contact's normal by less is the normal. */
static const double LEANS = 1e-9;

typedef struct candidate {
    double at[2];       /* m: u, v of its line */
    double depth;       /* m: of the line, across the surfaces at its ends */
    ct_stretch stretch; /* of the line */
    double along[3];    /* u, v, w: unit, between the surfaces at its ends */
    bool is_left_out;   /* chosen, or below the dome of one that is */
} candidate;

/* A chosen point. */
typedef struct choice {
    double at[3], along[3]; /* u, v, w: the middle of its stretch, and the direction of its line */
    double depth;           /* m: the stretch's length */
} choice;

/* What a thread needs for one contact and the next, and the points that it made. */
typedef struct chooser {
    ct_point_lines lines;
    ct_point_places places;
    candidate *all; /* [n] */
    size_t n, capacity;
    double (*outline)[2]; /* [n_outline] m, counter-clockwise */
    double (*sorted)[2];
    size_t n_outline, outline_capacity, sorted_capacity;
    double (*hull)[2]; /* [n_hull] m: the convex hull of those that are chosen */
    size_t n_hull;
    double (*members)[2]; /* [n_chosen] m: where the chosen are */
    candidate **chosen;   /* [n_chosen] */
    choice *choices;      /* [n_chosen] */
    size_t n_chosen;
    ct_point *points; /* [n_points] */
    size_t n_points, point_capacity;
    ct_error error;
} chooser;

/* Twice the area of a triangle, positive if it is counter-clockwise. */
static double area_of(const double a[2], const double b[2], const double c[2]) {
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

static double distance(const double a[2], const double b[2]) {
    return sqrt((b[0] - a[0]) * (b[0] - a[0]) + (b[1] - a[1]) * (b[1] - a[1]));
}

/* Twice the area. */
static double hull_area(const double (*hull)[2], size_t n) {
    double area = 0;
    for (size_t i = 1; i + 1 < n; i++) area += area_of(hull[0], hull[i], hull[i + 1]);
    return area;
}

/* ---- candidates ---- */

/* Towards the contact's centre. */
static void turn_inwards(const double at[2], double inwards[2]) {
    const double length = sqrt(at[0] * at[0] + at[1] * at[1]);
    inwards[0] = length > 0 ? -at[0] / length : 1;
    inwards[1] = length > 0 ? -at[1] / length : 0;
}

/* Between the surfaces at a stretch's ends. */
static void find_direction(const ct_stretch *stretch, double along[3]) {
    ct_sub3(stretch->normal[1], stretch->normal[0], along);
    const double length = sqrt(ct_dot3(along, along));
    for (int k = 0; k < 3; k++) along[k] = length > 0 ? along[k] / length : k == 2;
    if (fabs(along[0]) < LEANS && fabs(along[1]) < LEANS) memcpy(along, (const double[]){0, 0, 1}, 3 * sizeof *along);
}

/* Casts the line that is `inset` farther in than a place. False: out of memory, or cancelled. */
static bool cast_inside(chooser *c, const double place[2], double inset, const ct_line_start *start, candidate *to) {
    double inwards[2];
    turn_inwards(place, inwards);
    for (int k = 0; k < 2; k++) to->at[k] = place[k] + inset * inwards[k];
    if (!ct_point_lines_cast(&c->lines, to->at, start, &to->stretch)) return false;
    to->depth = 0;
    if (!(to->stretch.hi > to->stretch.lo)) return true;
    find_direction(&to->stretch, to->along);
    to->depth = (to->stretch.hi - to->stretch.lo) * to->along[2];
    to->is_left_out = false;
    return true;
}

/* Where a line just inside a place's outline is in the contact: towards its centre, or away from it. A vertex that is not
 * inside the other body has none. */
static bool cast_near(chooser *c, const ct_point_place *place, candidate *near) {
    const double beside = BESIDE * c->lines.rounding;
    const ct_line_start start = {place->side, place->at[2]};
    const bool is_vertex = place->side >= 0;
    if (!cast_inside(c, place->at, beside, is_vertex ? &start : NULL, near)) return false;
    return near->depth > 0 || cast_inside(c, place->at, -beside, is_vertex ? &start : NULL, near);
}

/* Whether a candidate stands for a place. */
static bool has_near(const chooser *c, const double place[2], double distance) {
    for (size_t i = 0; i < c->n; i++)
        if (fabs(c->all[i].at[0] - place[0]) < distance && fabs(c->all[i].at[1] - place[1]) < distance) return true;
    return false;
}

/* Adds the candidate of a place, if it is over the contact; of one on a slope, that beyond it. */
static bool add_candidate(chooser *c, const ct_point_place *place, double contact_depth) {
    const double width = fmax(c->lines.hi[0] - c->lines.lo[0], c->lines.hi[1] - c->lines.lo[1]);
    candidate near, beyond;
    if (has_near(c, place->at, SAME_PLACE * width)) return true;
    if (!cast_near(c, place, &near)) return false;
    if (!(near.depth > 0)) return true;
    if (near.depth < IS_SHALLOW * contact_depth && near.along[2] < ON_A_WALL) {
        if (!cast_inside(c, place->at, fmin(SLOPE * contact_depth, WINDOW_PART * width), NULL, &beyond)) return false;
        if (beyond.depth > ON_SLOPE * near.depth) near = beyond;
    }
    if (!ct_array_grow(&c->all, &c->capacity, c->n + 1)) return false;
    c->all[c->n++] = near;
    return true;
}

static bool find_candidates(chooser *c, double contact_depth, size_t most) {
    c->n = 0;
    if (!ct_point_places_find(&c->places, &c->lines, contact_depth, most)) return false;
    for (size_t i = 0; i < c->places.n; i++)
        if (!add_candidate(c, &c->places.all[i], contact_depth)) return false;
    return true;
}

/* ---- the outline ---- */

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

/* The candidates' convex hull. Where these are vertices, it lies inside the contact's own: it is widened, about the mean of
 * its corners, to the contact's area. */
static bool find_outline(chooser *c, double contact_area) {
    double middle[2] = {0, 0};
    if (!ct_array_grow(&c->sorted, &c->sorted_capacity, c->n + 1) ||
        !ct_array_grow(&c->outline, &c->outline_capacity, c->n + 1))
        return false;
    for (size_t i = 0; i < c->n; i++) memcpy(c->sorted[i], c->all[i].at, sizeof *c->sorted);
    c->n_outline = find_hull(c->sorted, c->n, c->outline);
    const double area = 0.5 * hull_area((const double(*)[2])c->outline, c->n_outline);
    if (!(contact_area > area) || !(area > 0)) return true;
    const double wider = fmin(sqrt(contact_area / area), WIDEST);
    for (size_t i = 0; i < c->n_outline; i++)
        for (int k = 0; k < 2; k++) middle[k] += c->outline[i][k] / (double)c->n_outline;
    for (size_t i = 0; i < c->n_outline; i++)
        for (int k = 0; k < 2; k++) c->outline[i][k] = middle[k] + wider * (c->outline[i][k] - middle[k]);
    return true;
}

/* ---- choice ---- */

/* How far the outline is from p in the direction of q, which is within it: in distances from p to q, at least 1. */
static double reach_of(const chooser *c, const double p[2], const double q[2]) {
    double reach = INFINITY;
    for (size_t i = 0; i < c->n_outline; i++) {
        const double *a = c->outline[i], *b = c->outline[(i + 1) % c->n_outline];
        const double of_p = area_of(a, b, p), of_q = area_of(a, b, q); /* >= 0 inside */
        const double parallel = 1e-6 * distance(a, b) * distance(p, q);
        if (of_p - of_q > parallel) reach = fmin(reach, fmax(of_p, 0) / (of_p - of_q));
    }
    return fmax(reach, 1);
}

/* Leaves out the candidates below the dome of one: it falls with the part of the way to the outline. */
static void leave_out_below(chooser *c, candidate *top) {
    top->is_left_out = true;
    for (size_t i = 0; i < c->n; i++) {
        candidate *of = &c->all[i];
        if (of->is_left_out || !(of->depth < top->depth * (1 + ABOVE_DOME))) continue;
        if (ct_dot3(of->along, top->along) < SAME_WAY) continue;
        const double part = c->n_outline > 2 ? 1 / reach_of(c, top->at, of->at) : 1;
        of->is_left_out = of->depth < top->depth * (1 - part * part + ABOVE_DOME);
    }
}

/* Whether a value is larger, or as large at a smaller place. */
static bool is_better(double value, const candidate *of, double best_value, const candidate *best) {
    return !best || value > best_value || (value == best_value && by_place(of->at, best->at) < 0);
}

/* The deepest; of equally deep ones the farthest from the contact's centre. NULL: there is none. */
static candidate *find_deepest(chooser *c) {
    candidate *deepest = NULL, *best = NULL;
    double best_value = 0;
    for (size_t i = 0; i < c->n; i++)
        if (!deepest || c->all[i].depth > deepest->depth) deepest = &c->all[i];
    for (size_t i = 0; i < c->n; i++) {
        const double value = distance(c->all[i].at, (const double[]){0, 0});
        if (c->all[i].depth < deepest->depth * (1 - SAME_DEPTH) || !is_better(value, &c->all[i], best_value, best))
            continue;
        best = &c->all[i];
        best_value = value;
    }
    return best;
}

/* What a candidate would add to the area of the chosen ones' hull, twice; or to the distance between two. */
static double gain_of(const chooser *c, const double at[2]) {
    if (c->n_chosen == 1) return distance(c->chosen[0]->at, at);
    if (c->n_hull == 2) return fabs(area_of(c->hull[0], c->hull[1], at));
    double gain = 0;
    for (size_t i = 0; i < c->n_hull; i++) {
        const double area = area_of(c->hull[i], c->hull[(i + 1) % c->n_hull], at);
        if (area < 0) gain -= area;
    }
    return gain;
}

/* The candidate that adds most, times its depth, if it is worth it. NULL: none is. */
static candidate *find_next(chooser *c) {
    double extent = 0, best_value = 0;
    candidate *best = NULL;
    for (size_t i = 0; i < c->n_outline; i++) extent = fmax(extent, distance(c->outline[0], c->outline[i]));
    for (size_t k = 0; k < c->n_chosen; k++) memcpy(c->members[k], c->chosen[k]->at, sizeof *c->members);
    c->n_hull = find_hull(c->members, c->n_chosen, c->hull);
    const double whole = c->n_chosen == 1 ? extent : hull_area((const double(*)[2])c->outline, c->n_outline);
    for (size_t i = 0; i < c->n; i++) {
        candidate *of = &c->all[i];
        if (of->is_left_out) continue;
        const double value = gain_of(c, of->at) * of->depth / c->chosen[0]->depth;
        if (!(value > WORTH * whole) || !is_better(value, of, best_value, best)) continue;
        best = of;
        best_value = value;
    }
    return best;
}

static void choose(chooser *c, size_t most) {
    c->n_chosen = 0;
    for (candidate *next = find_deepest(c); next; next = c->n_chosen < most ? find_next(c) : NULL) {
        c->chosen[c->n_chosen++] = next;
        leave_out_below(c, next);
    }
}

/* ---- lines of their own ---- */

/* The stretch in the direction between its ends' surfaces, around the middle of that of a candidate. *is_found: its ends
 * are about where the planes of these surfaces are; else *aside is how far beside the candidate's line they would be, m.
 * False: out of memory, or cancelled. */
static bool turn_line(chooser *c, const candidate *of, choice *to, bool *is_found, double *aside) {
    const ct_stretch *old = &of->stretch;
    const double half = 0.5 * (old->hi - old->lo), from[3] = {of->at[0], of->at[1], 0.5 * (old->lo + old->hi)};
    ct_stretch turned;
    memcpy(to->along, of->along, sizeof to->along);
    memcpy(to->at, from, sizeof to->at);
    to->depth = old->hi - old->lo;
    *is_found = true;
    *aside = 0;
    if (to->along[2] == 1) return true;
    const double lo = -half * old->normal[0][2] / ct_dot3(to->along, old->normal[0]),
                 hi = half * old->normal[1][2] / ct_dot3(to->along, old->normal[1]);
    const double beyond = LOOK_BEYOND * c->lines.rounding;
    if (!ct_point_lines_reach(&c->lines, from, to->along, old->winding, LOOK_BEYOND * lo - beyond,
                              LOOK_BEYOND * hi + beyond, &turned))
        return false;
    *aside = fmax(-lo, hi) * sqrt(to->along[0] * to->along[0] + to->along[1] * to->along[1]);
    *is_found = turned.hi - turned.lo > LEAST_TURNED * (hi - lo);
    to->depth = turned.hi - turned.lo;
    for (int k = 0; k < 3; k++) to->at[k] = from[k] + 0.5 * (turned.lo + turned.hi) * to->along[k];
    return true;
}

/* A point of a candidate. Where the outline cuts its turned line short, that is tried farther in; what has no such line
 * has the contact's normal. */
static bool finish(chooser *c, const candidate *of, choice *to) {
    bool is_found;
    double aside;
    candidate farther;
    if (!turn_line(c, of, to, &is_found, &aside)) return false;
    if (is_found) return true;
    if (!cast_inside(c, of->at, LOOK_BEYOND * aside, NULL, &farther)) return false;
    if (farther.depth > 0 && !turn_line(c, &farther, to, &is_found, &aside)) return false;
    if (is_found) return true;
    const ct_stretch *old = &of->stretch;
    *to = (choice){{of->at[0], of->at[1], 0.5 * (old->lo + old->hi)}, {0, 0, 1}, old->hi - old->lo};
    return true;
}

/* ---- areas ---- */

/* Weights that sum to 1, as equal as possible, and whose barycentre is `center` as far as no weight is negative. */
static void share_area(const chooser *c, const double center[2], double *weights) {
    bool counts[CT_MAX_POINTS];
    size_t n = c->n_chosen;
    for (size_t i = 0; i < n; i++) counts[i] = true;
    for (size_t left = n; left > 0; left--) {
        double mean[2] = {0, 0}, xx = 0, xy = 0, yy = 0;
        for (size_t i = 0; i < n; i++)
            for (int k = 0; k < 2; k++)
                if (counts[i]) mean[k] += c->choices[i].at[k] / (double)left;
        for (size_t i = 0; i < n; i++) {
            if (!counts[i]) continue;
            const double x = c->choices[i].at[0] - mean[0], y = c->choices[i].at[1] - mean[1];
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
            const double *at = c->choices[i].at;
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

static void write_points(const chooser *c, const ct_contact *contact, ct_point *points) {
    const ct_point_lines *lines = &c->lines;
    double center[2] = {0, 0}, weights[CT_MAX_POINTS];
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 3; i++)
            center[k] += lines->axis[k][i] *
                         (0.5 * (contact->side_center[0][i] + contact->side_center[1][i]) - contact->center[i]);
    share_area(c, center, weights);
    for (size_t p = 0; p < c->n_chosen; p++) {
        const choice *from = &c->choices[p];
        ct_point *point = &points[p];
        ct_point_lines_place(lines, from->at, point->position);
        for (int i = 0; i < 3; i++)
            point->normal[i] = lines->sense * (lines->axis[0][i] * from->along[0] + lines->axis[1][i] * from->along[1] +
                                               lines->axis[2][i] * from->along[2]);
        point->depth = from->depth;
        point->weight = weights[p];
        point->group[0] = contact->index;
        point->group[1] = CT_NO_GROUP;
        point->id = 0;
    }
}

/* False: out of memory, or cancelled. */
static bool choose_points(chooser *c, const ct_contact *contact, size_t most, ct_point *points) {
    if (!find_candidates(c, contact->depth, most) || !find_outline(c, contact->area)) return false;
    choose(c, most);
    for (size_t p = 0; p < c->n_chosen; p++)
        if (!finish(c, c->chosen[p], &c->choices[p])) return false;
    if (c->n_chosen > 0) write_points(c, contact, points);
    return true;
}

static ct_status add_contact_points(chooser *c, ct_surfaces *surfaces, const ct_result *result,
                                    const ct_contact *contact, bool is_divided, size_t most, ct_point *points,
                                    size_t *n, ct_error *error) {
    const ct_status status = ct_point_lines_open(&c->lines, surfaces, result, contact, is_divided, error);
    const bool is_ok = status || choose_points(c, contact, most, points);
    *n = status ? 0 : c->n_chosen;
    return is_ok ? status
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

/* ---- all contacts ---- */

struct job {
    const ct_result *result;
    double cell_size;
    size_t most;
    ct_surfaces surfaces; /* fetched: threads read them, and make clusters */
    chooser *choosers;    /* [threads] */
    ct_made *made;        /* [n_contacts] */
    bool has_failed;      /* atomic */
};

/* Memory for so many chosen points, once. */
static bool open_chooser(chooser *c, size_t most) {
    if (c->members) return true;
    double(*places)[2] = malloc((2 * most + 1) * sizeof *places);
    c->chosen = malloc(most * sizeof *c->chosen);
    c->choices = malloc(most * sizeof *c->choices);
    c->members = places;
    c->hull = places ? places + most : NULL;
    return places && c->chosen && c->choices;
}

static void free_chooser(chooser *c) {
    ct_point_lines_free(&c->lines);
    ct_point_places_free(&c->places);
    free(c->all);
    free(c->outline);
    free(c->sorted);
    free(c->members);
    free(c->chosen);
    free(c->choices);
    free(c->points);
}

static ct_status make_points(struct job *job, chooser *c, size_t index, size_t *n) {
    const ct_result *result = job->result;
    const ct_contact *contact = &result->contacts[index];
    if (!open_chooser(c, job->most) || !ct_array_grow(&c->points, &c->point_capacity, c->n_points + job->most))
        return ct_fail(&c->error, CT_OUT_OF_MEMORY, "max_points", "no memory for points");
    ct_point *points = c->points + c->n_points;
    const bool is_divided =
        contact->index > 0 || (index + 1 < result->n_contacts && is_of_pair(contact, &result->contacts[index + 1]));
    return contact->n_cells
               ? add_cell_points(result, contact, job->cell_size, job->most, points, n, &c->error)
               : add_contact_points(c, &job->surfaces, result, contact, is_divided, job->most, points, n, &c->error);
}

static void add_points(void *context, uint32_t index, uint32_t worker) {
    struct job *job = context;
    chooser *c = &job->choosers[worker];
    const ct_contact *contact = &job->result->contacts[index];
    size_t n = 0;
    if (!(contact->area > 0) || __atomic_load_n(&job->has_failed, __ATOMIC_RELAXED)) return;
    const ct_working before = ct_work_for(NULL, contact->body[0], contact->body[1]);
    ct_enter_phase("choosing points");
    ct_status status = ct_is_cancelled_at("points", c->n_points) ? ct_fail_cancelled(&c->error) : CT_OK;
    if (!status) status = make_points(job, c, index, &n);
    if (status) __atomic_store_n(&job->has_failed, true, __ATOMIC_RELAXED);
    job->made[index] = (ct_made){.worker = worker, .first = c->n_points, .n = n};
    c->n_points += n;
    ct_work_back(before);
}

/* All points in the order of the contacts. */
static ct_status gather(const struct job *job, uint32_t n_threads, ct_result *result, ct_error *error) {
    size_t n = 0;
    for (uint32_t t = 0; t < n_threads; t++) {
        n += job->choosers[t].n_points;
        if (!job->choosers[t].error.status) continue;
        *error = job->choosers[t].error;
        return error->status;
    }
    if (n == 0) return CT_OK;
    result->points = malloc(n * sizeof *result->points);
    if (!result->points) return ct_fail(error, CT_OUT_OF_MEMORY, "max_points", "no memory for %zu points", n);
    for (size_t i = 0; i < result->n_contacts; i++) {
        const ct_made *made = &job->made[i];
        result->contacts[i].first_point = result->n_points;
        result->contacts[i].n_points = made->n;
        if (made->n)
            memcpy(result->points + result->n_points, job->choosers[made->worker].points + made->first,
                   made->n * sizeof *result->points);
        result->n_points += made->n;
    }
    return CT_OK;
}

ct_status ct_result_add_points(ct_scene *scene, uint32_t most, ct_result *result, uint64_t *visits, ct_error *error) {
    struct job job = {.result = result, .cell_size = scene->settings.cell_size, .most = most};
    const uint32_t n_threads = result->n_contacts > 1 ? ct_spread_threads(scene) : 1;
    uint64_t n_visits = 0;
    ct_enter_phase("choosing points");
    const bool is_open = ct_surfaces_open(&job.surfaces, scene);
    job.choosers = calloc(n_threads, sizeof *job.choosers);
    job.made = calloc(result->n_contacts + 1, sizeof *job.made);
    ct_status status = is_open && job.choosers && job.made
                           ? CT_OK
                           : ct_fail(error, CT_OUT_OF_MEMORY, "max_points", "no memory for points");
    if (!status) status = ct_surfaces_fetch(&job.surfaces, result, "max_points", error);
    if (!status) {
        ct_spread(scene, (uint32_t)result->n_contacts, add_points, &job);
        status = gather(&job, n_threads, result, error);
    }
    for (uint32_t t = 0; job.choosers && t < n_threads; t++) {
        n_visits += job.choosers[t].lines.visits;
        free_chooser(&job.choosers[t]);
    }
    if (visits) *visits = n_visits;
    free(job.choosers);
    free(job.made);
    ct_surfaces_close(&job.surfaces);
    return status;
}
