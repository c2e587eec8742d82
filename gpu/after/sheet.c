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
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/after/law.h"
#include "gpu/after/sheet_overlay.h"
#include "gpu/after/spread.h"
#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/vec.h"

/* Between polls: polygons that are balanced, at some 300 ns each, and faces that nothing is found over. */
enum { POLL = 1024 };

/* Of a normal force w along a polygon: its sum, N, and those of w x and w x x, x from the contact's centre. */
struct moments {
    double sum, first[3], second[3][3];
};

/* Polygons that one thread makes, of contacts after one another, each with its corners after those of the one before. */
struct polygons {
    ct_surface_polygon *all;
    uint32_t *first; /* [n + 1] */
    ct_surface_vertex *vertices;
    size_t n, n_vertices, capacity, first_capacity, vertex_capacity;
};

/* What a thread needs for one contact after the other. */
struct sheet {
    const ct_contact *contact;
    ct_traction traction;
    bool is_moving; /* the surfaces move along or towards one another */
    ct_sheet_faces faces;
    ct_sheet_overlay overlay;
    struct polygons made;
    uint64_t from;           /* the first polygon of the contact in `made` */
    struct moments *moments; /* of the contact's polygons */
    size_t moments_capacity;
    double *rows;             /* of the sides' vertices, or NULL */
    _Atomic uint64_t *needed; /* polygons that the step has, those above the limit too */
    ct_error error;
};

/* ---- polygons ---- */

/* The middle of an edge of a polygon's triangles: with a third of its area each, polynomials of degree 2 are integrated
 * exactly. */
struct sample {
    double at[3]; /* m, from the contact's centre */
    double area, depth, pressure;
};
enum { MOST_SAMPLES = 3 * CT_SHEET_CORNERS };

static uint32_t find_samples(const ct_surface_vertex *v, uint32_t n, const double normal[3], struct sample *out) {
    uint32_t count = 0;
    for (uint32_t i = 2; i < n; i++) {
        const ct_surface_vertex *corner[3] = {&v[0], &v[i - 1], &v[i]};
        double e[2][3], cross[3];
        for (int k = 0; k < 2; k++) ct_sub3(corner[k + 1]->position, v[0].position, e[k]);
        ct_cross3(e[0], e[1], cross);
        const double twice = ct_dot3(cross, normal), third = twice > 0 ? twice / 6 : 0;
        for (int k = 0; k < 3; k++) {
            const ct_surface_vertex *a = corner[k], *b = corner[k < 2 ? k + 1 : 0];
            struct sample *s = &out[count++];
            *s = (struct sample){
                .area = third, .depth = (a->depth + b->depth) / 2, .pressure = (a->pressure + b->pressure) / 2};
            for (int i2 = 0; i2 < 3; i2++) s->at[i2] = (a->position[i2] + b->position[i2]) / 2;
        }
    }
    return count;
}

static void add_moments(struct moments *m, double w, const double at[3]) {
    m->sum += w;
    for (int a = 0; a < 3; a++) {
        m->first[a] += w * at[a];
        for (int b = 0; b < 3; b++) m->second[a][b] += w * at[a] * at[b];
    }
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

static void rub(const struct sheet *s, const struct sample *sample, ct_surface_polygon *p) {
    double force[3], slip[3];
    find_slip(s, p, sample->at, slip);
    const double square = ct_dot3(slip, slip), speed = s->traction.speed;
    const double pull =
        sample->pressure * sample->area * ct_traction_friction(&s->traction, square) / sqrt(square + speed * speed);
    for (int i = 0; i < 3; i++) force[i] = pull * slip[i];
    add_force(p, sample->at, force);
}

/* Centroid and area, of triangles that are all in one plane; and the force of the pressure and of friction on it. */
static void measure(const struct sheet *s, const ct_surface_vertex *v, uint32_t n, ct_surface_polygon *p,
                    struct moments *m) {
    struct sample samples[MOST_SAMPLES];
    const uint32_t count = find_samples(v, n, p->normal, samples);
    double force[3];
    for (uint32_t k = 0; k < count; k++) {
        const struct sample *of = &samples[k];
        p->area += of->area;
        for (int i = 0; i < 3; i++) p->center[i] += of->area * of->at[i];
        add_moments(m, of->pressure * of->area, of->at);
    }
    for (int i = 0; i < 3; i++) p->center[i] = p->area > 0 ? p->center[i] / p->area : v[0].position[i];
    if (!(m->sum > 0)) return;
    const double at[3] = {m->first[0] / m->sum, m->first[1] / m->sum, m->first[2] / m->sum};
    for (int i = 0; i < 3; i++) force[i] = m->sum * p->normal[i];
    add_force(p, at, force);
    for (uint32_t k = 0; k < count && s->traction.has_friction && s->is_moving; k++) rub(s, &samples[k], p);
}

static double pressure_at(const struct sheet *s, const ct_surface_polygon *p, const ct_surface_vertex *v) {
    const ct_material *m = &s->traction.material;
    double velocity[3];
    if (!s->traction.has_law) return 0;
    if (!s->is_moving || !(m->dissipation > 0)) return m->modulus * v->depth;
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
    struct polygons *to = &s->made;
    const bool is_ok = ct_array_grow(&to->all, &to->capacity, to->n + 1) &&
                       ct_array_grow(&to->first, &to->first_capacity, to->n + 2) &&
                       ct_array_grow(&s->moments, &s->moments_capacity, to->n - s->from + 1) &&
                       ct_array_grow(&to->vertices, &to->vertex_capacity, to->n_vertices + n);
    if (is_ok) to->first[to->n] = (uint32_t)to->n_vertices;
    return is_ok;
}

static bool add_polygon(struct sheet *s, const ct_sheet_outline *o) {
    struct polygons *to = &s->made;
    const ct_sheet_face *lower = s->overlay.lower, *upper = s->overlay.upper;
    const ct_sheet_face *const part[2] = {lower->side ? upper : lower, lower->side ? lower : upper};
    if (atomic_fetch_add(s->needed, 1) >= CT_MAX_POLYGONS) return true; /* they are counted for the error */
    if (!grow(s, o->n)) return false;
    ct_surface_polygon *p = &to->all[to->n];
    ct_surface_vertex *v = to->vertices + to->n_vertices;
    struct moments *m = &s->moments[to->n - s->from];
    *p = (ct_surface_polygon){.area = 0};
    *m = (struct moments){.sum = 0};
    place_corners(s, part, o, v);
    find_normal(s, part, p->normal);
    for (uint32_t i = 0; i < o->n; i++) v[i].pressure = pressure_at(s, p, &v[i]);
    measure(s, v, o->n, p, m);
    if (s->is_moving) find_slip(s, p, p->center, p->slip);
    to->n++;
    to->n_vertices += o->n;
    to->first[to->n] = (uint32_t)to->n_vertices;
    return true;
}

/* ---- the sum ---- */

/* The difference of the contact's wrench and the sum of the polygons' forces. It is spread over the polygons as a field of
 * forces w (pull + turn x r), where w is the normal force at a place: of all fields with this sum, the one with the least
 * sum of squares, each divided by w. Where nothing presses, depth takes its place. */
struct lack {
    double weight, middle[3]; /* N, m */
    double inertia[3][3];     /* N m^2, about the middle */
    double force[3], torque[3];
    double pull[3], turn[3];
};

static void weigh_by_depth(const struct sheet *s, size_t i) {
    const struct polygons *of = &s->made;
    struct sample samples[MOST_SAMPLES];
    struct moments *m = &s->moments[i - s->from];
    const uint32_t count =
        find_samples(of->vertices + of->first[i], of->first[i + 1] - of->first[i], of->all[i].normal, samples);
    *m = (struct moments){.sum = 0};
    for (uint32_t k = 0; k < count; k++) add_moments(m, samples[k].depth * samples[k].area, samples[k].at);
}

/* Adds the field to a polygon's force: r is x less the middle, so that it is w (a + turn x x). */
static void fill_lack(const struct lack *lack, const struct moments *m, ct_surface_polygon *p) {
    double a[3], force[3], torque[3], arm[3], along[3], trace = 0;
    ct_cross3(lack->middle, lack->turn, a);
    for (int i = 0; i < 3; i++) a[i] += lack->pull[i];
    ct_cross3(lack->turn, m->first, force);
    for (int i = 0; i < 3; i++) force[i] += m->sum * a[i];
    /* About the contact's centre: of w x x (a + turn x x), where x x (turn x x) is (x . x) turn - (x . turn) x. */
    ct_cross3(m->first, a, torque);
    for (int i = 0; i < 3; i++) {
        along[i] = ct_dot3(m->second[i], lack->turn);
        trace += m->second[i][i];
    }
    ct_cross3(p->center, force, arm);
    for (int i = 0; i < 3; i++) {
        p->force[i] += force[i];
        p->torque[i] += torque[i] + trace * lack->turn[i] - along[i] - arm[i];
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

/* What the contact's polygons lack; its torque is about the middle. */
static void find_lack(const struct sheet *s, struct lack *lack) {
    const double *wrench = s->traction.wrench;
    double shift[3];
    ct_cross3(lack->middle, wrench, shift);
    for (int i = 0; i < 3; i++) {
        lack->force[i] = wrench[i];
        lack->torque[i] = wrench[3 + i] - shift[i];
    }
    for (size_t p = s->from; p < s->made.n; p++) {
        const ct_surface_polygon *of = &s->made.all[p];
        double arm[3];
        ct_sub3(of->center, lack->middle, arm);
        ct_cross3(arm, of->force, shift);
        for (int i = 0; i < 3; i++) {
            lack->force[i] -= of->force[i];
            lack->torque[i] -= of->torque[i] + shift[i];
        }
    }
}

/* The moments of all of the contact's polygons; those about the middle follow from those about the contact's centre. False:
 * cancelled. */
static bool weigh_all(const struct sheet *s, bool by_depth, struct lack *lack) {
    struct moments all = {.sum = 0};
    *lack = (struct lack){.weight = 0};
    for (size_t p = s->from; p < s->made.n; p++) {
        if (CT_POLL_EVERY(p, POLL) && ct_is_cancelled()) return false;
        if (by_depth) weigh_by_depth(s, p);
        const struct moments *m = &s->moments[p - s->from];
        all.sum += m->sum;
        for (int a = 0; a < 3; a++) {
            all.first[a] += m->first[a];
            for (int b = 0; b < 3; b++) all.second[a][b] += m->second[a][b];
        }
    }
    if (!(all.sum > 0)) return true;
    lack->weight = all.sum;
    for (int i = 0; i < 3; i++) lack->middle[i] = all.first[i] / all.sum;
    double trace = 0;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            lack->inertia[a][b] = all.sum * lack->middle[a] * lack->middle[b] - all.second[a][b];
            if (a == b) trace -= lack->inertia[a][b];
        }
    for (int a = 0; a < 3; a++) lack->inertia[a][a] += trace;
    return true;
}

/* False: cancelled. A second time, what the first left by rounding. */
static bool balance(const struct sheet *s) {
    struct lack lack;
    if (!weigh_all(s, false, &lack)) return false;
    if (!(lack.weight > 0) && !weigh_all(s, true, &lack)) return false;
    if (!(lack.weight > 0)) return true;
    for (int round = 0; round < 2; round++) {
        find_lack(s, &lack);
        for (int i = 0; i < 3; i++) lack.pull[i] = lack.force[i] / lack.weight;
        solve((const double(*)[3])lack.inertia, lack.torque, lack.turn);
        for (size_t p = s->from; p < s->made.n; p++) {
            if (CT_POLL_EVERY(p, POLL) && ct_is_cancelled()) return false;
            fill_lack(&lack, &s->moments[p - s->from], &s->made.all[p]);
        }
    }
    return true;
}

/* ---- contacts ---- */

/* Columns between a face and those of the other body. False: out of memory, or cancelled. */
static bool overlay_face(struct sheet *s, const ct_sheet_face *from) {
    if (!ct_sheet_overlay_begin(&s->overlay, from)) return false;
    for (size_t i = 0; i < s->overlay.n_met; i++) {
        const ct_sheet_face *to = &s->faces.all[s->overlay.met[i]];
        if (to->looks_up == from->looks_up || to->side == from->side || !to->is_listed) continue;
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled_at("polygons", atomic_load(s->needed))) return false;
        if (!ct_sheet_overlay_pair(&s->overlay, to)) return false;
        for (size_t k = 0; k < s->overlay.n; k++)
            if (!add_polygon(s, &s->overlay.pieces[k])) return false;
    }
    return true;
}

/* From the faces that look up or from those that look down, whichever are more: they are smaller, and each meets fewer. */
static bool overlay_faces(struct sheet *s) {
    size_t count[2] = {0, 0};
    for (size_t i = 0; i < s->faces.n; i++) count[s->faces.all[i].looks_up] += s->faces.all[i].is_listed;
    for (size_t i = 0; i < s->faces.n; i++) {
        const ct_sheet_face *face = &s->faces.all[i];
        if (face->looks_up == (count[1] > count[0]) && face->is_listed && !overlay_face(s, face)) return false;
    }
    return true;
}

static void move_to_world(struct sheet *s) {
    const double *center = s->contact->center;
    for (size_t p = s->from; p < s->made.n; p++)
        for (int i = 0; i < 3; i++) s->made.all[p].center[i] += center[i];
    for (size_t v = s->made.first[s->from]; v < s->made.n_vertices; v++)
        for (int i = 0; i < 3; i++) s->made.vertices[v].position[i] += center[i];
}

/* Polygons of the contact; without memory for them, or cancelled, false. */
static bool make_polygons(struct sheet *s) {
    s->from = s->made.n;
    ct_sheet_overlay_open(&s->overlay, &s->faces);
    if (!grow(s, 0) || !overlay_faces(s)) return false;
    if (atomic_load(s->needed) > CT_MAX_POLYGONS) return true; /* it will fail */
    if (s->traction.has_law && !balance(s)) return false;
    move_to_world(s);
    return true;
}

/* ---- all contacts ---- */

struct job {
    const ct_step *step;
    const ct_result *result;
    ct_surfaces surfaces; /* of bodies in contact, fetched: threads only read them */
    struct sheet *sheets; /* [threads] */
    ct_made *made;        /* [n_contacts] */
    _Atomic uint64_t needed;
    atomic_bool has_failed;
};

/* Sides are measured for their motion. */
static ct_status describe(struct job *job, struct sheet *s) {
    ct_side side[2];
    for (int k = 0; k < 2; k++) {
        double *rows = s->rows && k ? s->rows + s->contact->count[0] * CT_SIDE_COLUMNS : s->rows;
        const ct_status status =
            ct_side_measure(&job->surfaces, job->step, job->result, s->contact, k, rows, true, &side[k], &s->error);
        if (status) return status;
    }
    ct_law_describe(job->surfaces.scene, job->step, s->contact, side, &s->traction);
    s->is_moving = false;
    for (int i = 0; i < 3; i++)
        s->is_moving = s->is_moving || s->traction.velocity[i] != 0 || s->traction.turning[i] != 0;
    return CT_OK;
}

static void add_contact(void *context, uint32_t index, uint32_t worker) {
    struct job *job = context;
    struct sheet *s = &job->sheets[worker];
    const ct_working before = ct_thread_working;
    s->contact = &job->result->contacts[index];
    ct_enter_phase("making the contact surface");
    for (int k = 0; k < 2; k++) ct_thread_working.body[k] = s->contact->body[k];
    job->made[index] = (ct_made){.worker = worker, .first = s->made.n};
    if (s->contact->area > 0 && !atomic_load(&job->has_failed)) {
        ct_status status =
            ct_is_cancelled_at("polygons", atomic_load(s->needed)) ? ct_fail_cancelled(&s->error) : CT_OK;
        if (!status) status = describe(job, s);
        if (!status) status = ct_sheet_faces_find(&s->faces, &job->surfaces, job->result, s->contact, &s->error);
        if (!status && !make_polygons(s))
            status = ct_fail(&s->error, CT_OUT_OF_MEMORY, "want", "no memory for a contact surface of %llu polygons",
                             (unsigned long long)atomic_load(s->needed));
        if (status) atomic_store(&job->has_failed, true);
    }
    job->made[index].n = s->made.n - job->made[index].first;
    ct_thread_working = before;
}

static uint64_t most_entries(const ct_result *result) {
    uint64_t most = 0;
    for (size_t i = 0; i < result->n_contacts; i++) {
        const uint64_t n = result->contacts[i].count[0] + result->contacts[i].count[1];
        if (n > most) most = n;
    }
    return most;
}

static ct_status open_job(struct job *job, uint32_t n_threads, ct_error *error) {
    const ct_result *r = job->result;
    const bool has_rows = ct_law_needs_rows(job->step);
    const uint64_t n_rows = (most_entries(r) + 1) * CT_SIDE_COLUMNS;
    bool is_ok = ct_surfaces_open(&job->surfaces, job->step->scene);
    job->sheets = calloc(n_threads, sizeof *job->sheets);
    job->made = calloc(r->n_contacts + 1, sizeof *job->made);
    is_ok = is_ok && job->sheets && job->made;
    for (uint32_t t = 0; t < n_threads && is_ok; t++) {
        struct sheet *s = &job->sheets[t];
        s->needed = &job->needed;
        if (has_rows) s->rows = malloc(n_rows * sizeof *s->rows);
        is_ok = grow(s, 0) && (s->rows || !has_rows);
    }
    if (is_ok) return ct_surfaces_fetch(&job->surfaces, r, "want", error);
    return ct_fail(error, CT_OUT_OF_MEMORY, "want", "no memory for the contact surface of %zu contacts", r->n_contacts);
}

static void free_polygons(struct polygons *p) {
    free(p->all);
    free(p->first);
    free(p->vertices);
}

static void close_job(struct job *job, uint32_t n_threads) {
    for (uint32_t t = 0; job->sheets && t < n_threads; t++) {
        struct sheet *s = &job->sheets[t];
        ct_sheet_overlay_free(&s->overlay);
        ct_sheet_faces_free(&s->faces);
        free_polygons(&s->made);
        free(s->moments);
        free(s->rows);
    }
    free(job->sheets);
    free(job->made);
    ct_surfaces_close(&job->surfaces);
}

/* The error of one of the threads that failed. */
static ct_status failure_of(const struct job *job, uint32_t n_threads, ct_error *error) {
    const uint64_t needed = atomic_load(&job->needed);
    for (uint32_t t = 0; t < n_threads; t++) {
        if (!job->sheets[t].error.status) continue;
        *error = job->sheets[t].error;
        return error->status;
    }
    if (needed <= CT_MAX_POLYGONS) return CT_OK;
    return ct_fail(
        error, CT_LIMIT_EXCEEDED, "want",
        "the contact surface has %llu polygons, expected at most %u in a step: leave the surface out of want, or "
        "step scenes with fewer or coarser bodies",
        (unsigned long long)needed, CT_MAX_POLYGONS);
}

/* Appends what a thread made of a contact. */
static void append(struct polygons *to, const struct polygons *from, const ct_made *made) {
    const uint32_t *first = from->first + made->first;
    const size_t n_vertices = made->n ? first[made->n] - first[0] : 0;
    if (made->n == 0) return;
    memcpy(to->all + to->n, from->all + made->first, made->n * sizeof *to->all);
    memcpy(to->vertices + to->n_vertices, from->vertices + first[0], n_vertices * sizeof *to->vertices);
    for (size_t i = 1; i <= made->n; i++) to->first[to->n + i] = (uint32_t)(to->n_vertices + first[i] - first[0]);
    to->n += made->n;
    to->n_vertices += n_vertices;
}

/* All polygons in the order of the contacts: as they are where one thread made them. False: out of memory. */
static bool gather(struct job *job, uint32_t n_threads, struct polygons *all) {
    size_t n = 0, n_vertices = 0;
    uint32_t n_used = 0, used = 0;
    for (uint32_t t = 0; t < n_threads; t++) {
        n += job->sheets[t].made.n;
        n_vertices += job->sheets[t].made.n_vertices;
        if (job->sheets[t].made.n == 0) continue;
        used = t;
        n_used++;
    }
    *all = (struct polygons){.n = 0};
    if (n_used < 2) {
        *all = job->sheets[used].made;
        job->sheets[used].made = (struct polygons){.n = 0};
        return true;
    }
    if (!ct_array_grow(&all->all, &all->capacity, n) || !ct_array_grow(&all->first, &all->first_capacity, n + 1) ||
        !ct_array_grow(&all->vertices, &all->vertex_capacity, n_vertices)) {
        free_polygons(all);
        return false;
    }
    all->first[0] = 0;
    for (size_t i = 0; i < job->result->n_contacts; i++)
        append(all, &job->sheets[job->made[i].worker].made, &job->made[i]);
    return true;
}

ct_status ct_result_add_sheet(ct_scene *scene, const ct_step *step, ct_result *result, ct_error *error) {
    struct job job = {.step = step, .result = result};
    const uint32_t n_threads = result->n_contacts > 1 ? ct_spread_threads(scene) : 1;
    struct polygons all;
    ct_enter_phase("making the contact surface");
    ct_status status = open_job(&job, n_threads, error);
    if (!status) {
        ct_spread(scene, (uint32_t)result->n_contacts, add_contact, &job);
        status = failure_of(&job, n_threads, error);
    }
    if (!status && !gather(&job, n_threads, &all))
        status = ct_fail(error, CT_OUT_OF_MEMORY, "want", "no memory for %llu polygons",
                         (unsigned long long)atomic_load(&job.needed));
    for (size_t i = 0, first = 0; i < result->n_contacts && !status; first += job.made[i++].n) {
        result->contacts[i].first_polygon = first;
        result->contacts[i].n_polygons = job.made[i].n;
    }
    if (!status) {
        result->polygons = all.all;
        result->polygon_first = all.first;
        result->polygon_vertices = all.vertices;
        result->n_polygons = all.n;
        result->n_polygon_vertices = all.n_vertices;
    }
    close_job(&job, n_threads);
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
