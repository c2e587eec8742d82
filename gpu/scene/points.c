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
#include "gpu/scene/points.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/base/fail.h"
#include "gpu/scene/columns.h"

/* Candidates as deep as the deepest but for this part of it are the deepest as well. */
static const double SAME_DEPTH = 1e-3;
/* Of the deepest: by less than this a candidate may rise above the dome and still be left out. Between the corners of a
 * faceted ball, and of one whose lowest corner is not below its centre, the dome is low by that much. */
static const double ABOVE_DOME = 0.25;
/* Of the outline's area, or of its extent: what a further point adds to be worth it. A ring of points around a disc
 * ends at 8. */
static const double WORTH = 0.02;
/* Seen along a normal that leans, flat sides of the contact make a slope around its outline, steeper than what bounds
 * it above and below. It is as wide as this part of the depth for sides that lean by 1 in 4; at most this part of the
 * window. */
static const double SLOPE = 0.25, WINDOW_PART = 0x1p-5;

struct candidate {
    double at[2]; /* m: u, v */
    double depth; /* m */
    double w;     /* m: the middle of its span */
};

struct chooser {
    struct candidate *all; /* [n] sorted by place */
    size_t n;
    size_t *outline; /* [n_outline] of the candidates, counter-clockwise: the convex hull */
    size_t n_outline;
    size_t *hull; /* [n_hull] the same of those that are chosen */
    size_t n_hull;
    size_t *chosen; /* [n_chosen] */
    size_t n_chosen;
};

/* ---- candidates ---- */

/* Twice the area of a triangle, positive if it is counter-clockwise. */
static double area_of(const double a[2], const double b[2], const double c[2]) {
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

static double distance(const double a[2], const double b[2]) {
    return sqrt((b[0] - a[0]) * (b[0] - a[0]) + (b[1] - a[1]) * (b[1] - a[1]));
}

/* The longest of the columns beside a corner, on all sides: the contact is on some of them. The directions are along no
 * edge that meshes are likely to have. False: out of memory. */
static bool measure_around(ct_columns *columns, const double at[2], double step, struct candidate *out) {
    static const double around[8][2] = {{0.934, 0.357},   {0.408, 0.913},   {-0.357, 0.934}, {-0.913, 0.408},
                                        {-0.934, -0.357}, {-0.408, -0.913}, {0.357, -0.934}, {0.913, -0.408}};
    const bool is_close = step <= columns->step; /* columns that are, all cross much the same triangles */
    *out = (struct candidate){.at = {at[0], at[1]}};
    if (is_close && !ct_columns_gather(columns, at, step)) return false;
    for (int k = 0; k < 8; k++) {
        const double place[2] = {at[0] + step * around[k][0], at[1] + step * around[k][1]};
        ct_column_span span;
        if (!is_close && !ct_columns_gather(columns, place, 0)) return false;
        if (!ct_columns_cast(columns, place, &span)) return false;
        if (!(span.hi - span.lo > out->depth)) continue;
        out->depth = span.hi - span.lo;
        out->w = 0.5 * (span.lo + span.hi);
    }
    return true;
}

/* Just beside the corner; where that is on a slope, from beyond it. */
static bool measure(ct_columns *columns, const double at[2], double slope, struct candidate *out) {
    struct candidate beyond;
    if (!measure_around(columns, at, columns->step, out) || !measure_around(columns, at, slope, &beyond)) return false;
    if (beyond.depth > 1.5 * out->depth) *out = beyond;
    return true;
}

static bool add_candidate(ct_columns *columns, size_t corner, double slope, struct chooser *chooser) {
    struct candidate *candidate = &chooser->all[chooser->n];
    if (!measure(columns, columns->corners[corner], slope, candidate)) return false;
    chooser->n += candidate->depth > 0;
    return true;
}

static int by_place(const void *a, const void *b) {
    const struct candidate *p = a, *q = b;
    for (int k = 0; k < 2; k++)
        if (p->at[k] != q->at[k]) return p->at[k] < q->at[k] ? -1 : 1;
    return 0;
}

/* As many as the bound on visits allows, evenly spread along u. */
static bool find_some_candidates(ct_columns *columns, double slope, struct chooser *chooser) {
    const size_t n = columns->n_corners;
    ct_columns_renew(columns);
    for (size_t k = 0; k < ct_spread_end(n) && !ct_columns_are_spent(columns); k++) {
        const size_t corner = ct_spread(k, n);
        if (corner < n && !add_candidate(columns, corner, slope, chooser)) return false;
    }
    qsort(chooser->all, chooser->n, sizeof *chooser->all, by_place);
    return true;
}

static bool find_candidates(ct_columns *columns, double depth, struct chooser *chooser) {
    const double window = fmax(columns->hi[0] - columns->lo[0], columns->hi[1] - columns->lo[1]);
    const double slope = fmax(columns->step, fmin(SLOPE * depth, WINDOW_PART * window));
    for (size_t i = 0; i < columns->n_corners && !ct_columns_are_spent(columns); i++)
        if (!add_candidate(columns, i, slope, chooser)) return false;
    if (!ct_columns_are_spent(columns)) return true;
    chooser->n = 0;
    return find_some_candidates(columns, slope, chooser);
}

/* Andrew's monotone chain, over candidates that are sorted by place. members: [n], rising; hull: room for n + 1. */
static size_t find_hull(const struct candidate *all, const size_t *members, size_t n, size_t *hull) {
    size_t kept = 0;
    for (int pass = 0; pass < 2; pass++) {
        const size_t least = kept + (pass ? 0 : 1);
        for (size_t i = 0; i < n; i++) {
            const size_t k = members[pass ? n - 1 - i : i];
            if (pass && i == 0) continue; /* the last of the lower half */
            while (kept > least && area_of(all[hull[kept - 2]].at, all[hull[kept - 1]].at, all[k].at) <= 0) kept--;
            hull[kept++] = k;
        }
    }
    return kept > 1 ? kept - 1 : kept; /* the first is there twice */
}

/* ---- choice ---- */

static double hull_area(const struct candidate *all, const size_t *hull, size_t n) {
    double area = 0;
    for (size_t i = 1; i + 1 < n; i++) area += area_of(all[hull[0]].at, all[hull[i]].at, all[hull[i + 1]].at);
    return area;
}

/* How far the outline is from p in the direction of q, which is within it: in distances from p to q, at least 1. */
static double reach_of(const struct chooser *c, const double p[2], const double q[2]) {
    double reach = INFINITY;
    for (size_t i = 0; i < c->n_outline; i++) {
        const double *a = c->all[c->outline[i]].at, *b = c->all[c->outline[(i + 1) % c->n_outline]].at;
        const double of_p = area_of(a, b, p), of_q = area_of(a, b, q); /* >= 0 inside */
        const double parallel = 1e-6 * distance(a, b) * distance(p, q);
        if (of_p - of_q > parallel) reach = fmin(reach, fmax(of_p, 0) / (of_p - of_q));
    }
    return fmax(reach, 1);
}

/* Makes a candidate a point, and leaves out those below its dome. */
static void take(struct chooser *c, size_t next) {
    const struct candidate top = c->all[next];
    c->chosen[c->n_chosen++] = next;
    for (size_t i = 0; i < c->n; i++) {
        struct candidate *candidate = &c->all[i];
        bool is_chosen = false;
        if (!(candidate->depth > 0)) continue; /* left out before */
        for (size_t k = 0; k < c->n_chosen; k++) is_chosen = is_chosen || c->chosen[k] == i;
        if (is_chosen) continue;
        const double part = c->n_outline > 2 ? 1 / reach_of(c, top.at, candidate->at) : 1;
        if (candidate->depth < top.depth * (1 - part * part + ABOVE_DOME)) candidate->depth = 0;
    }
}

static size_t find_deepest(const struct chooser *c) {
    const double middle[2] = {0, 0};
    double most = 0, farthest = -1;
    size_t deepest = 0;
    for (size_t i = 0; i < c->n; i++) most = fmax(most, c->all[i].depth);
    for (size_t i = 0; i < c->n; i++) {
        if (c->all[i].depth < most * (1 - SAME_DEPTH)) continue;
        const double from = distance(c->all[i].at, middle);
        if (from <= farthest) continue;
        farthest = from;
        deepest = i;
    }
    return deepest;
}

/* What the candidate would add to the area of the chosen ones' hull, twice; or to the distance between two. */
static double gain_of(const struct chooser *c, const double at[2]) {
    if (c->n_chosen == 1) return distance(c->all[c->chosen[0]].at, at);
    if (c->n_hull == 2) return fabs(area_of(c->all[c->hull[0]].at, c->all[c->hull[1]].at, at));
    double gain = 0;
    for (size_t i = 0; i < c->n_hull; i++) {
        const double area = area_of(c->all[c->hull[i]].at, c->all[c->hull[(i + 1) % c->n_hull]].at, at);
        if (area < 0) gain -= area;
    }
    return gain;
}

static int by_index(const void *a, const void *b) {
    const size_t p = *(const size_t *)a, q = *(const size_t *)b;
    return (p > q) - (p < q);
}

/* members: room for as many as are chosen. */
static void choose(struct chooser *c, size_t most, size_t *members) {
    double extent = 0;
    for (size_t i = 0; i < c->n; i++) members[i] = i;
    c->n_outline = find_hull(c->all, members, c->n, c->outline);
    const double outline = hull_area(c->all, c->outline, c->n_outline);
    for (size_t i = 0; i < c->n_outline; i++)
        extent = fmax(extent, distance(c->all[c->outline[0]].at, c->all[c->outline[i]].at));
    const size_t deepest = find_deepest(c);
    const double most_deep = c->all[deepest].depth;
    take(c, deepest);
    while (c->n_chosen < most) {
        double best = 0;
        size_t next = c->n;
        for (size_t k = 0; k < c->n_chosen; k++) members[k] = c->chosen[k];
        qsort(members, c->n_chosen, sizeof *members, by_index);
        c->n_hull = find_hull(c->all, members, c->n_chosen, c->hull);
        for (size_t i = 0; i < c->n; i++) {
            const double gain = c->all[i].depth > 0 ? gain_of(c, c->all[i].at) * (c->all[i].depth / most_deep) : 0;
            if (gain <= best) continue;
            best = gain;
            next = i;
        }
        if (next == c->n || !(best > WORTH * (c->n_chosen == 1 ? extent : outline))) break;
        take(c, next);
    }
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
                if (counts[i]) mean[k] += c->all[c->chosen[i]].at[k] / (double)left;
        for (size_t i = 0; i < n; i++) {
            if (!counts[i]) continue;
            const double x = c->all[c->chosen[i]].at[0] - mean[0], y = c->all[c->chosen[i]].at[1] - mean[1];
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
            const double *at = c->all[c->chosen[i]].at;
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
        const struct candidate *from = &c->all[c->chosen[p]];
        ct_point *point = &points[p];
        for (int i = 0; i < 3; i++) {
            point->position[i] = columns->center[i] + columns->axis[0][i] * from->at[0] +
                                 columns->axis[1][i] * from->at[1] + columns->axis[2][i] * from->w;
            point->normal[i] = contact->normal[i];
        }
        point->depth = from->depth;
        point->weight = weights[p];
        point->group[0] = contact->index;
        point->group[1] = CT_NO_GROUP;
    }
}

static size_t choose_points(struct ct_columns *columns, const ct_contact *contact, size_t most, ct_point *points,
                            bool *ok) {
    struct chooser c = {0};
    const size_t n = columns->n_corners + 2;
    c.all = malloc(n * sizeof *c.all);
    size_t *memory = malloc(4 * n * sizeof *memory);
    c.outline = memory;
    *ok = c.all && memory && find_candidates(columns, contact->depth, &c);
    if (*ok && c.n) {
        c.hull = memory + n;
        c.chosen = memory + 2 * n;
        choose(&c, most, memory + 3 * n);
        write_points(&c, columns, contact, points);
    }
    free(c.all);
    free(memory);
    return c.n_chosen;
}

static ct_status add_contact_points(ct_surfaces *surfaces, const ct_result *result, const ct_contact *contact,
                                    bool is_divided, size_t most, ct_point *points, size_t *n, uint64_t *visits,
                                    ct_error *error) {
    ct_columns columns;
    ct_status status = ct_columns_open(&columns, surfaces, result, contact, is_divided, error);
    bool ok = true;
    if (!status) *n = choose_points(&columns, contact, most, points, &ok);
    *visits += columns.visits;
    ct_columns_close(&columns);
    return ok ? status
              : ct_fail(error, CT_OUT_OF_MEMORY, "max_points", "no memory for points of bodies %u and %u",
                        contact->body[0], contact->body[1]);
}

/* The cells of most volume, in falling order; of equal ones the first. */
static ct_status add_cell_points(const ct_result *result, const ct_contact *contact, size_t most, ct_point *points,
                                 size_t *n, ct_error *error) {
    const ct_contact *cells = result->cells + contact->first_cell;
    if (contact->n_cells >= CT_NO_GROUP)
        return ct_fail(
            error, CT_LIMIT_EXCEEDED, "max_points",
            "bodies %u and %u: %llu cells, but points can name %u: use a larger cell_size, or set max_points "
            "to 0",
            contact->body[0], contact->body[1], (unsigned long long)contact->n_cells, CT_NO_GROUP - 1);
    double area = 0;
    for (uint64_t i = 0; i < contact->n_cells; i++) {
        const ct_contact *cell = &cells[i];
        if (!(cell->area > 0)) continue;
        size_t at = *n;
        while (at > 0 && cells[points[at - 1].group[1]].volume < cell->volume) at--;
        if (at == most) continue;
        *n += *n < most;
        memmove(points + at + 1, points + at, (*n - 1 - at) * sizeof *points);
        points[at] = (ct_point){.depth = cell->depth, .weight = cell->area, .group = {contact->index, cell->index}};
        memcpy(points[at].position, cell->center, sizeof points->position);
        memcpy(points[at].normal, cell->normal, sizeof points->normal);
    }
    for (size_t p = 0; p < *n; p++) area += points[p].weight;
    for (size_t p = 0; p < *n; p++) points[p].weight /= area;
    return CT_OK;
}

static bool is_of_pair(const ct_contact *a, const ct_contact *b) {
    return a->body[0] == b->body[0] && a->body[1] == b->body[1];
}

static ct_status add_points(ct_surfaces *surfaces, ct_result *result, size_t most, uint64_t *visits, ct_error *error) {
    size_t capacity = 0;
    for (size_t i = 0; i < result->n_contacts; i++) {
        ct_contact *contact = &result->contacts[i];
        size_t n = 0;
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
        const ct_status status = contact->n_cells ? add_cell_points(result, contact, most, points, &n, error)
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
    if (!ct_surfaces_open(&surfaces, scene))
        return ct_fail(error, CT_OUT_OF_MEMORY, "max_points", "no memory for points");
    const ct_status status = add_points(&surfaces, result, scene->settings.max_points, &all_visits, error);
    if (visits) *visits = all_visits;
    ct_surfaces_close(&surfaces);
    return status;
}
