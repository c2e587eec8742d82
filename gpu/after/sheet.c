/* sheet.c - the contact surface. Faces of both bodies that a column runs between, from the one on which it enters the
 * intersection to the one on which it leaves it, have a polygon at a fraction of the way:
 *
 *     part 0  \            /
 *     ---------\----------/---  part 1's surface      share 1
 *               \ ______ /      polygons              between
 *                \______/       part 0's surface      share 0
 *
 * The fraction is the law's own: at it the surface is flat where one of both is, and half-way between equal balls. */
#include "gpu/after/sheet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/after/law.h"
#include "gpu/after/sheet_overlay.h"
#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/vec.h"

/* Between polls: polygons that are balanced, at some 300 ns each, and faces that nothing is found over. */
enum { POLL = 1024 };

struct sheet {
    ct_result *result;
    size_t capacity, vertex_capacity, first_capacity;
    uint64_t needed; /* polygons that the step has, those above the limit too */
    const ct_contact *contact;
    ct_traction traction;
    ct_sheet_faces faces;
    ct_sheet_overlay overlay;
};

/* ---- polygons ---- */

/* The middle of an edge of a polygon's triangles: with a third of its area each, polynomials of degree 2 are integrated
 * exactly. */
struct sample {
    double at[3]; /* m, from the contact's centre */
    double area, depth, pressure;
};
enum { MOST_SAMPLES = 3 * CT_SHEET_CORNERS };

static uint32_t find_samples(const ct_surface_vertex *v, uint32_t n, struct sample *out) {
    uint32_t count = 0;
    for (uint32_t i = 2; i < n; i++) {
        const ct_surface_vertex *corner[3] = {&v[0], &v[i - 1], &v[i]};
        double e[2][3], cross[3];
        for (int k = 0; k < 2; k++) ct_sub3(corner[k + 1]->position, v[0].position, e[k]);
        ct_cross3(e[0], e[1], cross);
        const double third = sqrt(ct_dot3(cross, cross)) / 6;
        for (int k = 0; k < 3; k++) {
            const ct_surface_vertex *a = corner[k], *b = corner[(k + 1) % 3];
            struct sample *s = &out[count++];
            *s = (struct sample){
                .area = third, .depth = (a->depth + b->depth) / 2, .pressure = (a->pressure + b->pressure) / 2};
            for (int i2 = 0; i2 < 3; i2++) s->at[i2] = (a->position[i2] + b->position[i2]) / 2;
        }
    }
    return count;
}

static void add_force(ct_surface_polygon *p, const double at[3], const double force[3]) {
    double arm[3], torque[3];
    ct_sub3(at, p->center, arm);
    ct_cross3(arm, force, torque);
    for (int i = 0; i < 3; i++) {
        p->force[i] += force[i];
        p->torque[i] += torque[i];
    }
}

/* m/s: of part 1 relative to part 0, along the polygon. */
static void find_slip(const struct sheet *s, const ct_surface_polygon *p, const double at[3], double slip[3]) {
    ct_traction_velocity(&s->traction, at, slip);
    const double rise = ct_dot3(slip, p->normal);
    for (int i = 0; i < 3; i++) slip[i] -= rise * p->normal[i];
}

static void press(const struct sheet *s, const ct_surface_vertex *v, uint32_t n, ct_surface_polygon *p) {
    struct sample samples[MOST_SAMPLES];
    const uint32_t count = find_samples(v, n, samples);
    for (uint32_t k = 0; k < count; k++) {
        const double size = samples[k].pressure * samples[k].area;
        double force[3], slip[3];
        for (int i = 0; i < 3; i++) force[i] = size * p->normal[i];
        if (s->traction.has_friction) {
            find_slip(s, p, samples[k].at, slip);
            const double square = ct_dot3(slip, slip);
            const double pull = size * ct_traction_friction(&s->traction, square) /
                                sqrt(square + s->traction.speed * s->traction.speed);
            for (int i = 0; i < 3; i++) force[i] += pull * slip[i];
        }
        add_force(p, samples[k].at, force);
    }
}

/* Centroid and area, of triangles that are all in one plane. */
static void measure(const ct_surface_vertex *v, uint32_t n, ct_surface_polygon *p) {
    struct sample samples[MOST_SAMPLES];
    const uint32_t count = find_samples(v, n, samples);
    for (uint32_t k = 0; k < count; k++) {
        p->area += samples[k].area;
        for (int i = 0; i < 3; i++) p->center[i] += samples[k].area * samples[k].at[i];
    }
    for (int i = 0; i < 3; i++) p->center[i] = p->area > 0 ? p->center[i] / p->area : v[0].position[i];
}

static double pressure_at(const struct sheet *s, const ct_surface_polygon *p, const ct_surface_vertex *v) {
    const ct_material *m = &s->traction.material;
    double velocity[3];
    if (!s->traction.has_law) return 0;
    ct_traction_velocity(&s->traction, v->position, velocity);
    return m->modulus * v->depth * fmax(1 + m->dissipation * ct_dot3(velocity, p->normal), 0);
}

/* The corners between both faces, counter-clockwise about the polygon's normal; from the contact's centre. */
static void place_corners(const struct sheet *s, const ct_sheet_face *const part[2], const ct_sheet_outline *o,
                          ct_surface_vertex *v) {
    const double share = s->traction.share;
    const bool is_upright = !part[0]->looks_up;
    for (uint32_t i = 0; i < o->n; i++) {
        const double *at = o->at[is_upright ? i : o->n - 1 - i],
                     w[2] = {ct_sheet_height(part[0], at), ct_sheet_height(part[1], at)};
        const double uvw[3] = {at[0], at[1], (1 - share) * w[0] + share * w[1]};
        v[i] = (ct_surface_vertex){.depth = fmax(is_upright ? w[1] - w[0] : w[0] - w[1], 0)};
        for (int k = 0; k < 3; k++)
            v[i].position[k] =
                uvw[0] * s->faces.axis[0][k] + uvw[1] * s->faces.axis[1][k] + uvw[2] * s->faces.axis[2][k];
    }
}

static void find_normal(const struct sheet *s, const ct_sheet_face *const part[2], double normal[3]) {
    const double share = s->traction.share, up = part[0]->looks_up ? -1 : 1;
    double slope[2];
    for (int k = 0; k < 2; k++) slope[k] = (1 - share) * part[0]->slope[k] + share * part[1]->slope[k];
    const double scale = up / sqrt(1 + slope[0] * slope[0] + slope[1] * slope[1]);
    for (int i = 0; i < 3; i++)
        normal[i] = scale * (s->faces.axis[2][i] - slope[0] * s->faces.axis[0][i] - slope[1] * s->faces.axis[1][i]);
}

static bool grow(struct sheet *s, uint32_t n) {
    ct_result *r = s->result;
    return ct_array_grow(&r->polygons, &s->capacity, r->n_polygons + 1) &&
           ct_array_grow(&r->polygon_first, &s->first_capacity, r->n_polygons + 2) &&
           ct_array_grow(&r->polygon_vertices, &s->vertex_capacity, r->n_polygon_vertices + n);
}

static bool add_polygon(struct sheet *s, const ct_sheet_face *lower, const ct_sheet_face *upper,
                        const ct_sheet_outline *o) {
    ct_result *r = s->result;
    const ct_sheet_face *const part[2] = {lower->side ? upper : lower, lower->side ? lower : upper};
    if (s->needed++ >= CT_MAX_POLYGONS) return true; /* they are counted for the error */
    if (!grow(s, o->n)) return false;
    ct_surface_polygon *p = &r->polygons[r->n_polygons];
    ct_surface_vertex *v = r->polygon_vertices + r->n_polygon_vertices;
    *p = (ct_surface_polygon){.area = 0};
    place_corners(s, part, o, v);
    find_normal(s, part, p->normal);
    for (uint32_t i = 0; i < o->n; i++) v[i].pressure = pressure_at(s, p, &v[i]);
    measure(v, o->n, p);
    find_slip(s, p, p->center, p->slip);
    if (s->traction.has_law) press(s, v, o->n, p);
    r->n_polygons++;
    r->n_polygon_vertices += o->n;
    r->polygon_first[r->n_polygons] = (uint32_t)r->n_polygon_vertices;
    return true;
}

/* ---- the sum ---- */

/* The difference of the contact's wrench and the sum of the polygons' forces. It is spread over the polygons as a field of
 * forces w (pull + turn x r), where w is the normal force at a place: of all fields with this sum, the one with the least
 * sum of squares, each divided by w. */
struct lack {
    double weight, middle[3]; /* N, m */
    double inertia[3][3];     /* N m^2, about the middle */
    double force[3], torque[3];
    double pull[3], turn[3];
};

static double weight_of(const struct sample *s, bool by_depth) {
    return s->area * (by_depth ? s->depth : s->pressure);
}

/* The polygon's samples, from the contact's centre. */
static uint32_t samples_of(const ct_result *r, uint64_t i, struct sample samples[MOST_SAMPLES]) {
    const uint32_t first = r->polygon_first[i];
    return find_samples(r->polygon_vertices + first, r->polygon_first[i + 1] - first, samples);
}

/* Adds the polygon's moments about the contact's centre. */
static void weigh(const struct sheet *s, uint64_t i, bool by_depth, struct lack *lack) {
    struct sample samples[MOST_SAMPLES];
    const uint32_t count = samples_of(s->result, i, samples);
    for (uint32_t k = 0; k < count; k++) {
        const double w = weight_of(&samples[k], by_depth), *at = samples[k].at, square = ct_dot3(at, at);
        lack->weight += w;
        for (int a = 0; a < 3; a++) {
            lack->middle[a] += w * at[a];
            for (int b = 0; b < 3; b++) lack->inertia[a][b] += w * ((a == b ? square : 0) - at[a] * at[b]);
        }
    }
}

/* Adds the field to the polygon's force. */
static void fill_lack(const struct sheet *s, uint64_t i, bool by_depth, const struct lack *lack) {
    struct sample samples[MOST_SAMPLES];
    const uint32_t count = samples_of(s->result, i, samples);
    for (uint32_t k = 0; k < count; k++) {
        const double w = weight_of(&samples[k], by_depth);
        double arm[3], force[3];
        ct_sub3(samples[k].at, lack->middle, arm);
        ct_cross3(lack->turn, arm, force);
        for (int a = 0; a < 3; a++) force[a] = w * (lack->pull[a] + force[a]);
        add_force(&s->result->polygons[i], samples[k].at, force);
    }
}

/* x with A x = b, A symmetric and positive; what is nearly 0 along some axis is left at 0 there. */
static void solve(const double a[3][3], const double b[3], double x[3]) {
    const double small = 1e-12 * (a[0][0] + a[1][1] + a[2][2]);
    double m[3][3], minor[3][3];
    memcpy(m, a, sizeof m);
    for (int i = 0; i < 3; i++) m[i][i] += small;
    for (int i = 0; i < 3; i++) ct_cross3(m[(i + 1) % 3], m[(i + 2) % 3], minor[i]);
    const double det = ct_dot3(m[0], minor[0]);
    for (int i = 0; i < 3; i++)
        x[i] = det > 0 ? (minor[0][i] * b[0] + minor[1][i] * b[1] + minor[2][i] * b[2]) / det : 0;
}

/* What the polygons from `first` on lack; its torque is about the middle. */
static void find_lack(const struct sheet *s, uint64_t first, struct lack *lack) {
    const double *wrench = s->traction.wrench;
    double shift[3];
    ct_cross3(lack->middle, wrench, shift);
    for (int i = 0; i < 3; i++) {
        lack->force[i] = wrench[i];
        lack->torque[i] = wrench[3 + i] - shift[i];
    }
    for (uint64_t p = first; p < s->result->n_polygons; p++) {
        const ct_surface_polygon *of = &s->result->polygons[p];
        double arm[3];
        ct_sub3(of->center, lack->middle, arm);
        ct_cross3(arm, of->force, shift);
        for (int i = 0; i < 3; i++) {
            lack->force[i] -= of->force[i];
            lack->torque[i] -= of->torque[i] + shift[i];
        }
    }
}

/* The moments of all polygons from `first` on; those about the middle follow from those about the contact's centre. False:
 * cancelled. */
static bool weigh_all(const struct sheet *s, uint64_t first, bool by_depth, struct lack *lack) {
    *lack = (struct lack){.weight = 0};
    for (uint64_t p = first; p < s->result->n_polygons; p++) {
        if (CT_POLL_EVERY(p, POLL) && ct_is_cancelled()) return false;
        weigh(s, p, by_depth, lack);
    }
    if (!(lack->weight > 0)) return true;
    for (int i = 0; i < 3; i++) lack->middle[i] /= lack->weight;
    const double square = ct_dot3(lack->middle, lack->middle);
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            lack->inertia[a][b] -= lack->weight * ((a == b ? square : 0) - lack->middle[a] * lack->middle[b]);
    return true;
}

/* False: cancelled. A second time, what the first left by rounding. */
static bool balance(const struct sheet *s, uint64_t first) {
    struct lack lack;
    bool by_depth = false;
    if (!weigh_all(s, first, by_depth, &lack)) return false;
    if (!(lack.weight > 0)) {
        by_depth = true;
        if (!weigh_all(s, first, by_depth, &lack)) return false;
    }
    if (!(lack.weight > 0)) return true;
    for (int round = 0; round < 2; round++) {
        find_lack(s, first, &lack);
        for (int i = 0; i < 3; i++) lack.pull[i] = lack.force[i] / lack.weight;
        solve((const double(*)[3])lack.inertia, lack.torque, lack.turn);
        for (uint64_t p = first; p < s->result->n_polygons; p++) {
            if (CT_POLL_EVERY(p, POLL) && ct_is_cancelled()) return false;
            fill_lack(s, p, by_depth, &lack);
        }
    }
    return true;
}

/* ---- contacts ---- */

/* Columns that begin on a face and end on one of the other body. False: out of memory, or cancelled. */
static bool overlay_face(struct sheet *s, const ct_sheet_face *lower) {
    ct_column_box box = {.lo = {INFINITY, INFINITY, lower->least}, .hi = {-INFINITY, -INFINITY, s->faces.hi[2]}};
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 2; k++) {
            box.lo[k] = fmin(box.lo[k], lower->at[c][k]);
            box.hi[k] = fmax(box.hi[k], lower->at[c][k]);
        }
    ct_column_search search = ct_column_tree_find(&s->faces.tree, &box);
    for (uint32_t i, n = 0; ct_column_search_next(&search, &i); n++) {
        const ct_sheet_face *upper = &s->faces.all[i];
        if (CT_POLL_EVERY(n, POLL) && ct_is_cancelled_at("polygons", s->needed)) return false;
        if (!upper->looks_up || upper->side == lower->side || !upper->is_listed) continue;
        if (!ct_sheet_overlay_pair(&s->overlay, lower, upper)) return false;
        for (size_t k = 0; k < s->overlay.n; k++)
            if (!add_polygon(s, lower, upper, &s->overlay.pieces[k])) return false;
    }
    return true;
}

static void move_to_world(const struct sheet *s, uint64_t first) {
    const double *center = s->contact->center;
    ct_result *r = s->result;
    for (uint64_t p = first; p < r->n_polygons; p++) {
        for (int i = 0; i < 3; i++) r->polygons[p].center[i] += center[i];
        for (uint32_t v = r->polygon_first[p]; v < r->polygon_first[p + 1]; v++)
            for (int i = 0; i < 3; i++) r->polygon_vertices[v].position[i] += center[i];
    }
}

static ct_status add_contact(struct sheet *s, ct_surfaces *surfaces, ct_error *error) {
    const uint64_t first = s->result->n_polygons;
    ct_status status = ct_sheet_faces_open(&s->faces, surfaces, s->result, s->contact, error);
    bool is_ok = true;
    s->overlay.faces = &s->faces;
    for (size_t i = 0; i < s->faces.n && is_ok && !status; i++)
        if (!s->faces.all[i].looks_up && s->faces.all[i].is_listed) is_ok = overlay_face(s, &s->faces.all[i]);
    if (is_ok && !status && s->traction.has_law && s->needed <= CT_MAX_POLYGONS) is_ok = balance(s, first);
    if (!is_ok)
        status = ct_fail(error, CT_OUT_OF_MEMORY, "want", "no memory for a contact surface of %llu polygons",
                         (unsigned long long)s->needed);
    if (!status) move_to_world(s, first);
    ct_sheet_faces_close(&s->faces);
    return status;
}

/* Sides are measured for their motion. rows: as many as the largest contact has entries, or NULL. */
static ct_status describe(struct sheet *s, ct_surfaces *surfaces, const ct_step *step, double *rows, ct_error *error) {
    ct_side side[2];
    for (int k = 0; k < 2; k++) {
        double *of_side = rows && k ? rows + s->contact->count[0] * CT_SIDE_COLUMNS : rows;
        const ct_status status =
            ct_side_measure(surfaces, step, s->result, s->contact, k, of_side, true, &side[k], error);
        if (status) return status;
    }
    ct_law_describe(surfaces->scene, step, s->contact, side, &s->traction);
    return CT_OK;
}

static uint64_t most_entries(const ct_result *result) {
    uint64_t most = 0;
    for (size_t i = 0; i < result->n_contacts; i++) {
        const uint64_t n = result->contacts[i].count[0] + result->contacts[i].count[1];
        if (n > most) most = n;
    }
    return most;
}

static ct_status check_limit(const struct sheet *s, ct_error *error) {
    if (s->needed <= CT_MAX_POLYGONS) return CT_OK;
    return ct_fail(
        error, CT_LIMIT_EXCEEDED, "want",
        "the contact surface has %llu polygons, expected at most %u in a step: leave the surface out of want, or "
        "step scenes with fewer or coarser bodies",
        (unsigned long long)s->needed, CT_MAX_POLYGONS);
}

ct_status ct_result_add_sheet(ct_scene *scene, const ct_step *step, ct_result *result, ct_error *error) {
    struct sheet s = {.result = result};
    ct_surfaces surfaces;
    ct_enter_phase("making the contact surface");
    const bool is_open = ct_surfaces_open(&surfaces, scene), has_rows = ct_law_needs_rows(step);
    double *rows = has_rows ? malloc((most_entries(result) + 1) * CT_SIDE_COLUMNS * sizeof *rows) : NULL;
    ct_status status = CT_OK;
    if (!is_open || (has_rows && !rows) || !grow(&s, 0))
        status = ct_fail(error, CT_OUT_OF_MEMORY, "want", "no memory for the contact surface of %zu contacts",
                         result->n_contacts);
    else
        result->polygon_first[0] = 0;
    for (size_t i = 0; i < result->n_contacts && !status; i++) {
        ct_contact *contact = &result->contacts[i];
        s.contact = contact;
        contact->first_polygon = result->n_polygons;
        if (ct_is_cancelled_at("polygons", s.needed)) status = ct_fail_cancelled(error);
        if (!status && contact->area > 0) {
            status = describe(&s, &surfaces, step, rows, error);
            if (!status) status = add_contact(&s, &surfaces, error);
        }
        contact->n_polygons = result->n_polygons - contact->first_polygon;
    }
    if (!status) status = check_limit(&s, error);
    ct_sheet_overlay_close(&s.overlay);
    ct_surfaces_close(&surfaces);
    free(rows);
    return status;
}

/* ---- what a step needs ---- */

uint32_t ct_sheet_wants(const ct_step *step) {
    return step->want & CT_WANT_SURFACE ? CT_WANT_FRAME | CT_WANT_FRICTION | CT_WANT_INERTIA : 0;
}

ct_status ct_sheet_check(const ct_step *step, ct_error *error) {
    if (!(step->want & CT_WANT_SURFACE) || step->scene->n_self == 0) return CT_OK;
    return ct_fail(
        error, CT_UNSUPPORTED, "want",
        "a body of the scene has self_contact, and a contact of a body with itself has no surface between two "
        "bodies: leave the surface out of want, or add the body without self_contact");
}
