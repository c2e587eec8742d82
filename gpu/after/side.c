/* side.c - moments of one side of a contact, and forces on its vertices. */
#include "gpu/after/side.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/after/slip.h"
#include "gpu/after/spread.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/mesh.h"

/* Rows between polls. */
enum { POLL = 1024 };

enum { POSITION = 0, VELOCITY = 3, SCRATCH = CT_SIDE_SCRATCH };

/* The sum of n terms, `stride` apart, as multiples of 2^-61 of the largest: whatever their order. Of no meaning where the
 * work is cancelled. */
static double sum_of(const double *terms, uint64_t n, uint64_t stride) {
    double most = 0;
    for (uint64_t i = 0; i < n; i++) most = fabs(terms[i * stride]) > most ? fabs(terms[i * stride]) : most;
    if (!(most > 0)) return 0;
    int exponent;
    frexp(most, &exponent);
    /* ldexp in two factors, as one may not fit a double. */
    const double half = ldexp(1, (61 - exponent) / 2), rest = ldexp(1, 61 - exponent - (61 - exponent) / 2);
    __int128 sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return 0;
        sum += llrint(terms[i * stride] * half * rest);
    }
    return ldexp((double)sum, exponent - 61);
}

double ct_side_sum(const ct_side *side, int i) {
    return sum_of(side->rows + SCRATCH + i, side->n, CT_SIDE_COLUMNS);
}

static double *row_of(const ct_side *side, uint64_t k) {
    return side->rows + k * CT_SIDE_COLUMNS;
}

/* ---- positions and velocities ---- */

void ct_side_velocity(const ct_side *side, const double p[3], double out[3]) {
    const double arm[3] = {p[0] - side->origin[0], p[1] - side->origin[1], p[2] - side->origin[2]};
    memset(out, 0, 3 * sizeof *out);
    if (!side->velocity) return;
    ct_cross3(side->velocity->twist + 3, arm, out);
    for (int i = 0; i < 3; i++) out[i] += side->velocity->twist[i];
}

static void place_rows(ct_side *side, const ct_surface *surface, const uint32_t *vertices, const double center[3]) {
    const double *pose = side->body->pose;
    for (uint64_t k = 0; k < side->n; k++) {
        if (CT_POLL_EVERY(k, POLL) && ct_is_cancelled()) return;
        double *row = row_of(side, k);
        double p[3];
        for (int i = 0; i < 3; i++) {
            const size_t at = 3 * (size_t)vertices[k] + (size_t)i;
            p[i] = (double)surface->positions[at] + (surface->low ? (double)surface->low[at] : 0);
        }
        for (int i = 0; i < 3; i++)
            row[POSITION + i] =
                pose[4 * i] * p[0] + pose[4 * i + 1] * p[1] + pose[4 * i + 2] * p[2] + (pose[4 * i + 3] - center[i]);
        if (side->body->kind == CT_BODY_RIGID || !side->velocity)
            ct_side_velocity(side, row + POSITION, row + VELOCITY);
        else
            ct_velocity_row(side->velocity, ct_mesh_moves_with(side->body->mesh, vertices[k]), row + VELOCITY);
    }
}

/* ---- moments ---- */

static void measure_flow(ct_side *side) {
    for (uint64_t k = 0; k < side->n; k++)
        for (int i = 0; i < 3; i++) row_of(side, k)[SCRATCH + i] = side->weights[k] * row_of(side, k)[VELOCITY + i];
    side->weight = sum_of(side->weights, side->n, 1);
    for (int i = 0; i < 3; i++) side->flow[i] = ct_side_sum(side, i);
}

static void measure_middle(ct_side *side) {
    for (uint64_t k = 0; k < side->n; k++) {
        double *row = row_of(side, k), *to = row + SCRATCH, w = side->weights[k];
        to[0] = fabs(w);
        for (int i = 0; i < 3; i++) {
            to[1 + i] = w * row[POSITION + i];
            to[4 + i] = fabs(w) * row[VELOCITY + i];
        }
    }
    side->size = ct_side_sum(side, 0);
    for (int i = 0; i < 3; i++) {
        side->first[i] = ct_side_sum(side, 1 + i);
        side->drift[i] = ct_side_sum(side, 4 + i);
    }
    for (uint64_t k = 0; k < side->n; k++)
        for (int i = 0; i < 3; i++)
            row_of(side, k)[SCRATCH + i] = fabs(side->weights[k]) * row_of(side, k)[POSITION + i];
    for (int i = 0; i < 3 && side->size > 0; i++) side->middle[i] = ct_side_sum(side, i) / side->size;
}

static void measure_moments(ct_side *side) {
    for (uint64_t k = 0; k < side->n; k++) {
        double *row = row_of(side, k), *to = row + SCRATCH, arm[3], e[3];
        const double size = fabs(side->weights[k]);
        ct_sub3(row + POSITION, side->middle, arm);
        ct_cross3(side->normal, arm, e);
        const double u = ct_dot3(side->u, arm), v = ct_dot3(side->v, arm), n = ct_dot3(side->normal, arm),
                     rise = ct_dot3(side->normal, row + VELOCITY);
        to[0] = size * u * u;
        to[1] = size * u * v;
        to[2] = size * v * v;
        to[3] = size * n * u;
        to[4] = size * n * v;
        to[5] = size * u * rise;
        to[6] = size * v * rise;
        to[7] = size * ct_dot3(e, row + VELOCITY);
    }
    side->uu = ct_side_sum(side, 0);
    side->uv = ct_side_sum(side, 1);
    side->vv = ct_side_sum(side, 2);
    for (int i = 0; i < 2; i++) {
        side->lift[i] = ct_side_sum(side, 3 + i);
        side->tilt[i] = ct_side_sum(side, 5 + i);
    }
    side->swirl = ct_side_sum(side, 7);
}

ct_status ct_side_measure(ct_surfaces *surfaces, const ct_step *step, const ct_result *result,
                          const ct_contact *contact, int s, double *rows, bool has_moments, ct_side *side,
                          ct_error *error) {
    const ct_scene *scene = surfaces->scene;
    const uint32_t index = ct_scene_index_of(scene, contact->body[s]);
    const ct_body *body = scene->bodies[index];
    ct_surface *surface;
    *side = (ct_side){.body = body,
                      .surface = &surfaces->of[index],
                      .velocity = step->n_velocities && body->velocity ? &step->velocities[body->velocity - 1] : NULL,
                      .normal = contact->normal,
                      .u = contact->tangents[0],
                      .v = contact->tangents[1],
                      .rows = rows};
    for (int i = 0; i < 3; i++) side->origin[i] = body->given[4 * i + 3] - contact->center[i];
    if (body->is_half_space || !rows) return CT_OK;
    side->n = contact->count[s];
    side->weights = result->weights + contact->first[s];
    const ct_status status = ct_surfaces_get(surfaces, index, "velocities", &surface, error);
    if (status) return status;
    place_rows(side, surface, result->vertices + contact->first[s], contact->center);
    measure_flow(side);
    if (!has_moments) return CT_OK;
    measure_middle(side);
    measure_moments(side);
    return CT_OK;
}

/* ---- all contacts ---- */

/* Contacts that a thread works on before it takes others: each takes some microseconds. */
enum { CONTACTS_OF_TASK = 16 };

struct hand { /* a thread's */
    double *rows;
    ct_error error;
};

struct job {
    const ct_side_work *work;
    ct_surfaces surfaces; /* with positions, where these are looked at */
    struct hand *hands;   /* [threads] */
    uint64_t n, n_rows;
    bool has_failed; /* atomic */
};

/* The i-th of the contacts and then of their cells. */
static ct_contact *contact_or_cell(const ct_result *result, uint64_t i) {
    return i < result->n_contacts ? &result->contacts[i] : &result->cells[i - result->n_contacts];
}

static ct_status work_on(struct job *job, ct_contact *contact, struct hand *hand) {
    const ct_side_work *work = job->work;
    ct_side side[2];
    if (ct_is_cancelled()) return ct_fail_cancelled(&hand->error);
    if (!(contact->area > 0) && !work->has_nested) return CT_OK;
    if (work->has_rows && !hand->rows) hand->rows = malloc((job->n_rows + 1) * CT_SIDE_COLUMNS * sizeof *hand->rows);
    if (work->has_rows && !hand->rows)
        return ct_fail(&hand->error, CT_OUT_OF_MEMORY, work->field, "no memory for the sides of %llu contacts",
                       (unsigned long long)job->n);
    for (int s = 0; s < 2; s++) {
        double *rows = hand->rows && s ? hand->rows + contact->count[0] * CT_SIDE_COLUMNS : hand->rows;
        const ct_body *body = work->scene->bodies[ct_scene_index_of(work->scene, contact->body[s])];
        const ct_status status =
            ct_side_measure(&job->surfaces, work->step, work->result, contact, s, rows,
                            work->has_moments || body->kind != CT_BODY_RIGID, &side[s], &hand->error);
        if (status) return status;
    }
    work->task(work, contact, side);
    return CT_OK;
}

static void work_on_some(void *context, uint32_t index, uint32_t worker) {
    struct job *job = context;
    const uint64_t first = (uint64_t)index * CONTACTS_OF_TASK, end = first + CONTACTS_OF_TASK;
    ct_enter_phase(job->work->phase);
    for (uint64_t i = first; i < end && i < job->n && !__atomic_load_n(&job->has_failed, __ATOMIC_RELAXED); i++)
        if (work_on(job, contact_or_cell(job->work->result, i), &job->hands[worker]))
            __atomic_store_n(&job->has_failed, true, __ATOMIC_RELAXED);
}

/* Fetches positions of a contact's bodies, where they are looked at, and the tree of one around the other. */
static ct_status fetch(struct job *job, const ct_contact *contact, ct_error *error) {
    const ct_side_work *work = job->work;
    ct_status status = CT_OK;
    for (int s = 0; s < 2 && !status; s++) {
        const uint32_t index = ct_scene_index_of(work->scene, contact->body[s]);
        const ct_body *body = work->scene->bodies[index];
        const bool is_outer = work->has_nested && contact->is_nested && contact->inner_part != (uint32_t)s;
        ct_surface *surface;
        if (is_outer && body->kind == CT_BODY_RIGID && !body->is_half_space)
            status = ct_surfaces_tree(&job->surfaces, index, work->field, &surface, error);
        else if (work->has_rows)
            status = ct_surfaces_get(&job->surfaces, index, work->field, &surface, error);
    }
    return status;
}

/* Finds the most rows of a contact, and fetches surfaces. */
static ct_status prepare(struct job *job, ct_error *error) {
    const ct_side_work *work = job->work;
    ct_status status = CT_OK;
    for (uint64_t i = 0; i < job->n && (work->has_rows || work->has_nested) && !status; i++) {
        const ct_contact *contact = contact_or_cell(work->result, i);
        const uint64_t n = contact->count[0] + contact->count[1];
        if (n > job->n_rows) job->n_rows = n;
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return ct_fail_cancelled(error);
        if (i < work->result->n_contacts && (work->has_rows || contact->is_nested)) status = fetch(job, contact, error);
    }
    return status;
}

ct_status ct_side_work_run(const ct_side_work *work, ct_error *error) {
    struct job job = {.work = work, .n = work->result->n_contacts + (work->has_cells ? work->result->n_cells : 0)};
    const uint32_t n_threads = job.n > CONTACTS_OF_TASK ? ct_spread_threads(work->scene) : 1;
    ct_enter_phase(work->phase);
    const bool is_open = ct_surfaces_open(&job.surfaces, work->scene);
    job.hands = calloc(n_threads, sizeof *job.hands);
    ct_status status = is_open && job.hands
                           ? prepare(&job, error)
                           : ct_fail(error, CT_OUT_OF_MEMORY, work->field, "no memory for the sides of %llu contacts",
                                     (unsigned long long)job.n);
    if (!status)
        ct_spread(work->scene, (uint32_t)((job.n + CONTACTS_OF_TASK - 1) / CONTACTS_OF_TASK), work_on_some, &job);
    for (uint32_t t = 0; job.hands && t < n_threads; t++) {
        if (!status && job.hands[t].error.status) {
            *error = job.hands[t].error;
            status = error->status;
        }
        free(job.hands[t].rows);
    }
    free(job.hands);
    ct_surfaces_close(&job.surfaces);
    return status;
}

/* ---- loads ---- */

/* The load's torque about the contact's centre. */
static void find_torque(const ct_side *side, const ct_side_load *load, double torque[3]) {
    double of_push[3], of_pull[3], arm[3];
    const double polar = side->uu + side->vv;
    for (int i = 0; i < 3; i++) {
        arm[i] = side->size * side->middle[i];
    }
    ct_cross3(side->first, load->push, of_push);
    ct_cross3(arm, load->pull, of_pull);
    /* -n x (S along), and turn times the sum of |w| y x e */
    const double a = side->uu * load->along[0] + side->uv * load->along[1],
                 b = side->uv * load->along[0] + side->vv * load->along[1];
    for (int i = 0; i < 3; i++)
        torque[i] = of_push[i] + of_pull[i] - a * side->v[i] + b * side->u[i] +
                    load->turn * (polar * side->normal[i] - side->lift[0] * side->u[i] - side->lift[1] * side->v[i]);
}

void ct_side_balance(const ct_side *side, const double torque[3], ct_side_load *load) {
    double now[3], missing[3];
    const double polar = side->uu + side->vv, det = side->uu * side->vv - side->uv * side->uv;
    load->along[0] = load->along[1] = load->turn = 0;
    find_torque(side, load, now);
    ct_sub3(torque, now, missing);
    if (!(polar > 0)) return;
    load->turn = ct_dot3(missing, side->normal) / polar;
    if (!(det > 1e-9 * polar * polar)) return;
    const double a = ct_dot3(missing, side->u) + load->turn * side->lift[0],
                 b = ct_dot3(missing, side->v) + load->turn * side->lift[1];
    load->along[0] = (side->vv * -b - side->uv * a) / det;
    load->along[1] = (side->uu * a - side->uv * -b) / det;
}

double ct_side_power(const ct_side *side, const ct_side_load *load) {
    return ct_dot3(load->push, side->flow) + load->along[0] * side->tilt[0] + load->along[1] * side->tilt[1] +
           load->turn * side->swirl;
}

void ct_side_push(const ct_side *side, const ct_side_load *load, double *forces) {
    for (uint64_t k = 0; k < side->n; k++) {
        double arm[3], e[3];
        const double w = side->weights[k], size = fabs(w);
        ct_sub3(row_of(side, k) + POSITION, side->middle, arm);
        ct_cross3(side->normal, arm, e);
        const double along = load->along[0] * ct_dot3(side->u, arm) + load->along[1] * ct_dot3(side->v, arm);
        for (int i = 0; i < 3; i++)
            forces[3 * k + (uint64_t)i] +=
                w * load->push[i] + size * (load->pull[i] + along * side->normal[i] + load->turn * e[i]);
    }
}
