/* slip.c - slip and viscous friction of a contact, from its friction weights and the velocities of its vertices.
 *
 * Faure 2008 section 3.3 takes the relative velocity along each ray. Here it is that of a contact, from the friction
 * weights of Allard 2010, so that every method has it, no lattice shows in it, and forces balance: a mean slip and a
 * turn about the normal. With patches or cells it is that of each of them. */
#include "gpu/scene/slip.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/scene/surfaces.h"

/* ---- sums that do not depend on the order of their terms ---- */

/* Rows between polls. */
enum { POLL = 1024 };

/* The sum of n terms, `stride` apart, as multiples of 2^-61 of the largest. Of no meaning where the work is cancelled.
 */
static double sum_of(const double *terms, uint64_t n, uint64_t stride) {
    double most = 0;
    for (uint64_t i = 0; i < n; i++) most = fmax(most, fabs(terms[i * stride]));
    if (!(most > 0)) return 0;
    int exponent;
    frexp(most, &exponent);
    __int128 sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return 0;
        sum += llrint(ldexp(terms[i * stride], 61 - exponent));
    }
    return ldexp((double)sum, exponent - 61);
}

static void cross(const double a[3], const double b[3], double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* ---- one side of a contact ---- */

enum { POSITION = 0, VELOCITY = 3, SCRATCH = 6, COLUMNS = 13 }; /* of a row of doubles for each entry */

struct side {
    const ct_body *body;
    const ct_velocity *velocity; /* NULL: at rest */
    double origin[3];            /* m, of the body, from the contact's centre */
    const double *weights;       /* [n] */
    double *rows;                /* [n][COLUMNS]; positions from the contact's centre */
    uint64_t n;
    double weight, size;  /* m^2: the sum of the weights, and of their magnitudes */
    double center[3];     /* m, from the contact's centre: the side's barycentre */
    double flow[3];       /* m^3/s: the sum of weight times velocity */
    double polar, turned; /* m^4, m^4/s: sums of weight times |e|^2 and e . v, where e = normal x (p - center) */
    bool has_center;
};

static void velocity_at(const struct side *side, uint32_t vertex, const double p[3], double out[3]) {
    const ct_velocity *v = side->velocity;
    memset(out, 0, 3 * sizeof *out);
    if (!v) return;
    if (side->body->kind == CT_BODY_RIGID) {
        const double arm[3] = {p[0] - side->origin[0], p[1] - side->origin[1], p[2] - side->origin[2]};
        cross(v->twist + 3, arm, out);
        for (int i = 0; i < 3; i++) out[i] += v->twist[i];
    } else {
        ct_velocity_row(v, ct_mesh_moves_with(side->body->mesh, vertex), out);
    }
}

static void place_rows(struct side *side, const float *positions, const uint32_t *vertices, const double center[3]) {
    const double *pose = side->body->pose; /* the identity for a deformable body */
    for (uint64_t k = 0; k < side->n; k++) {
        if (CT_POLL_EVERY(k, POLL) && ct_is_cancelled()) return;
        double *row = side->rows + k * COLUMNS;
        const float *p = positions + 3 * (size_t)vertices[k];
        for (int i = 0; i < 3; i++)
            row[POSITION + i] = pose[4 * i] * (double)p[0] + pose[4 * i + 1] * (double)p[1] +
                                pose[4 * i + 2] * (double)p[2] + (pose[4 * i + 3] - center[i]);
        velocity_at(side, vertices[k], row + POSITION, row + VELOCITY);
    }
}

/* Sums of column SCRATCH + i over all rows. */
static double column(const struct side *side, int i) {
    return sum_of(side->rows + SCRATCH + i, side->n, COLUMNS);
}

static void measure_side(struct side *side, const double normal[3]) {
    for (uint64_t k = 0; k < side->n; k++) {
        double *row = side->rows + k * COLUMNS, a = side->weights[k];
        for (int i = 0; i < 3; i++) {
            row[SCRATCH + i] = a * row[POSITION + i];
            row[SCRATCH + 3 + i] = a * row[VELOCITY + i];
        }
        row[SCRATCH + 6] = fabs(a);
    }
    side->weight = sum_of(side->weights, side->n, 1);
    side->size = column(side, 6);
    for (int i = 0; i < 3; i++) side->flow[i] = column(side, 3 + i);
    side->has_center = 10 * fabs(side->weight) > side->size;
    if (!side->has_center) return;
    for (int i = 0; i < 3; i++) side->center[i] = column(side, i) / side->weight;
    for (uint64_t k = 0; k < side->n; k++) {
        double *row = side->rows + k * COLUMNS, arm[3], e[3];
        for (int i = 0; i < 3; i++) arm[i] = row[POSITION + i] - side->center[i];
        cross(normal, arm, e);
        row[SCRATCH] = side->weights[k] * dot(e, e);
        row[SCRATCH + 1] = side->weights[k] * dot(e, row + VELOCITY);
    }
    side->polar = column(side, 0);
    side->turned = column(side, 1);
}

/* A half-space has no vertices: what its surface contributes follows from the other side's. */
static void measure_half_space(struct side *side, const struct side *other, const double center[3],
                               const double normal[3]) {
    double velocity[3];
    side->weight = -other->weight;
    side->size = fabs(side->weight);
    side->has_center = true;
    memcpy(side->center, center, sizeof side->center);
    velocity_at(side, 0, center, velocity);
    for (int i = 0; i < 3; i++) side->flow[i] = side->weight * velocity[i];
    side->polar = -other->polar;
    side->turned = side->velocity ? side->polar * dot(side->velocity->twist + 3, normal) : 0;
}

/* ---- friction ---- */

/* slide: -viscosity times the mean slip along the surface, Pa; turn: -viscosity J times the spin, N m. Adds the side's
 * part of both to the entries' forces (NULL: not wanted), and their sum to the wrench. sign: 1, or -1 for side 0. */
static void push_side(struct side *side, const double normal[3], const double slide[3], double turn, double sign,
                      double *forces, double wrench[6]) {
    const double per_arm = side->polar != 0 ? turn / fabs(side->polar) : 0;
    for (uint64_t k = 0; k < side->n; k++) {
        double *row = side->rows + k * COLUMNS, arm[3], e[3];
        for (int i = 0; i < 3; i++) arm[i] = row[POSITION + i] - side->center[i];
        cross(normal, arm, e);
        for (int i = 0; i < 3; i++) row[SCRATCH + i] = side->weights[k] * (slide[i] + per_arm * e[i]);
        if (forces) memcpy(forces + 3 * k, row + SCRATCH, 3 * sizeof *forces);
        for (int i = 0; i < 3; i++) arm[i] = row[POSITION + i] - side->origin[i];
        cross(arm, row + SCRATCH, row + SCRATCH + 3);
    }
    for (int i = 0; i < 6; i++) wrench[i] = column(side, i);
    if (!side->body->is_half_space) return;
    double arm[3], torque[3];
    for (int i = 0; i < 3; i++) {
        arm[i] = side->center[i] - side->origin[i];
        wrench[i] = side->weight * slide[i];
    }
    cross(arm, wrench, torque);
    for (int i = 0; i < 3; i++) wrench[3 + i] = torque[i] + sign * turn * normal[i];
}

static void find_slip(ct_contact *contact, struct side side[2], double viscosity, double *forces) {
    double slide[3], turn = 0;
    const double *n = contact->normal;
    for (int i = 0; i < 3; i++) contact->relative_velocity[i] = (side[0].flow[i] + side[1].flow[i]) / contact->area;
    if (side[0].has_center && side[1].has_center && side[0].polar < 0 && side[1].polar > 0)
        contact->spin = side[1].turned / side[1].polar - side[0].turned / side[0].polar;
    if (!(viscosity > 0)) return;
    const double along = dot(contact->relative_velocity, n);
    for (int i = 0; i < 3; i++) slide[i] = -viscosity * (contact->relative_velocity[i] - along * n[i]);
    if (contact->spin != 0) turn = -viscosity * contact->area * contact->area / (2 * M_PI) * contact->spin;
    for (int s = 0; s < 2; s++)
        push_side(&side[s], n, slide, turn, s ? 1 : -1, forces ? forces + 3 * contact->first[s] : NULL,
                  contact->friction[s]);
}

static ct_status add_slip(ct_surfaces *surfaces, const ct_step *step, ct_result *result, ct_contact *contact,
                          double *rows, ct_error *error) {
    const ct_scene *scene = surfaces->scene;
    struct side side[2] = {{0}};
    for (int s = 0; s < 2; s++) {
        const uint32_t index = ct_scene_index_of(scene, contact->body[s]);
        ct_surface *surface;
        ct_body *body = scene->bodies[index];
        side[s].body = body;
        side[s].velocity = body->velocity ? &step->velocities[body->velocity - 1] : NULL;
        for (int i = 0; i < 3; i++)
            side[s].origin[i] = (body->kind == CT_BODY_RIGID ? body->pose[4 * i + 3] : 0) - contact->center[i];
        side[s].n = contact->count[s];
        side[s].weights = result->weights + contact->first[s];
        side[s].rows = rows + (s ? contact->count[0] * COLUMNS : 0);
        if (body->is_half_space) continue;
        const ct_status status = ct_surfaces_get(surfaces, index, "velocities", &surface, error);
        if (status) return status;
        place_rows(&side[s], surface->positions, result->vertices + contact->first[s], contact->center);
        measure_side(&side[s], contact->normal);
    }
    for (int s = 0; s < 2; s++) {
        double center[3];
        for (int i = 0; i < 3; i++) center[i] = contact->side_center[s][i] - contact->center[i];
        if (side[s].body->is_half_space) measure_half_space(&side[s], &side[1 - s], center, contact->normal);
    }
    find_slip(contact, side, step->viscosity, result->friction_forces);
    return CT_OK;
}

/* The i-th of the contacts and then of their cells. */
static ct_contact *contact_or_cell(const ct_result *result, uint64_t i) {
    return i < result->n_contacts ? &result->contacts[i] : &result->cells[i - result->n_contacts];
}

ct_status ct_result_add_slip(ct_scene *scene, const ct_step *step, ct_result *result, ct_error *error) {
    const uint64_t n_all = result->n_contacts + result->n_cells;
    uint64_t most = 0;
    ct_enter_phase("finding slip");
    for (uint64_t i = 0; i < n_all; i++) {
        const ct_contact *contact = contact_or_cell(result, i);
        const uint64_t n = contact->count[0] + contact->count[1];
        if (n > most) most = n;
    }
    ct_surfaces surfaces;
    const bool is_open = ct_surfaces_open(&surfaces, scene);
    double *rows = malloc((most + 1) * COLUMNS * sizeof *rows);
    if (step->viscosity > 0) result->friction_forces = calloc(3 * result->n_entries + 1, sizeof(double));
    ct_status status = CT_OK;
    if (!is_open || !rows || (step->viscosity > 0 && !result->friction_forces))
        status = ct_fail(error, CT_OUT_OF_MEMORY, "velocities", "no memory for the slip of %zu contacts",
                         result->n_contacts);
    for (uint64_t i = 0; i < n_all && !status; i++) {
        ct_contact *contact = contact_or_cell(result, i);
        if (ct_is_cancelled())
            status = ct_fail_cancelled(error);
        else if (contact->area > 0)
            status = add_slip(&surfaces, step, result, contact, rows, error);
    }
    ct_surfaces_close(&surfaces);
    free(rows);
    result->has_slip = !status;
    return status;
}
