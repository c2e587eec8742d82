/* rigid.c - rigid-body motion and penalty contacts, for the settle example. */
#include "client_c/examples/settle/rigid.h"

#include <math.h>
#include <string.h>

static double dot(const double *a, const double *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
static void cross(const double a[3], const double b[3], double out[3]) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

/* ---- mass
 * ------------------------------------------------------------------------------------------------------------- */

/* Sums over the tetrahedra between the origin and each triangle: volume, first and second moments. */
static double moments(const float *positions, const uint32_t *triangles, size_t n, double first[3],
                      double second[3][3]) {
    double volume = 0;
    memset(first, 0, 3 * sizeof *first);
    memset(second, 0, 9 * sizeof **second);
    for (size_t t = 0; t < n; t++) {
        double p[3][3], normal[3], sum[3];
        for (int k = 0; k < 3; k++)
            for (int c = 0; c < 3; c++) p[k][c] = positions[3 * (size_t)triangles[3 * t + k] + c];
        cross(p[1], p[2], normal);
        double v = dot(p[0], normal, 3) / 6;
        volume += v;
        for (int c = 0; c < 3; c++) {
            sum[c] = p[0][c] + p[1][c] + p[2][c];
            first[c] += v * sum[c] / 4;
        }
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                double products = p[0][i] * p[0][j] + p[1][i] * p[1][j] + p[2][i] * p[2][j];
                second[i][j] += v * (products + sum[i] * sum[j]) / 20;
            }
    }
    return volume;
}

static void invert(const double m[3][3], double out[3][3]) {
    double c[3][3], determinant;
    for (int i = 0; i < 3; i++) cross(m[(i + 1) % 3], m[(i + 2) % 3], c[i]);
    determinant = dot(m[0], c[0], 3);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) out[i][j] = c[j][i] / determinant;
}

static void rotation(const double q[4], double r[3][3]) {
    double w = q[0], x = q[1], y = q[2], z = q[3];
    double m[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                      {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                      {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
    memcpy(r, m, sizeof m);
}

/* R m R^T */
static void to_world(const double r[3][3], const double m[3][3], double out[3][3]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            out[i][j] = 0;
            for (int k = 0; k < 3; k++) out[i][j] += r[i][k] * dot(m[k], r[j], 3);
        }
}

static void update_inertia(rigid *body) {
    double r[3][3], world[3][3];
    memset(body->inverse_inertia, 0, sizeof body->inverse_inertia);
    if (body->fixed) return;
    rotation(body->q, r);
    to_world(r, body->inertia, world);
    invert(world, body->inverse_inertia);
}

rigid rigid_of_mesh(float *positions, size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                    double density) {
    rigid body = {.q = {1, 0, 0, 0}};
    double first[3], second[3][3];
    body.volume = moments(positions, triangles, n_triangles, first, second);
    for (size_t v = 0; v < n_vertices; v++)
        for (int c = 0; c < 3; c++) positions[3 * v + c] = (float)(positions[3 * v + c] - first[c] / body.volume);
    moments(positions, triangles, n_triangles, first, second);
    body.mass = density * body.volume;
    double trace = second[0][0] + second[1][1] + second[2][2];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) body.inertia[i][j] = density * ((i == j ? trace : 0) - second[i][j]);
    update_inertia(&body);
    return body;
}

/* ---- motion
 * ----------------------------------------------------------------------------------------------------------- */

void rigid_pose(const rigid *body, double pose[12]) {
    double r[3][3];
    rotation(body->q, r);
    for (int i = 0; i < 3; i++) {
        memcpy(pose + 4 * i, r[i], sizeof r[i]);
        pose[4 * i + 3] = body->x[i];
    }
}

void rigid_turn(rigid *body, const double axis[3], double angle) {
    double length = sqrt(dot(axis, axis, 3));
    if (length == 0 || angle == 0) return;
    double s = sin(angle / 2) / length, a[4] = {cos(angle / 2), s * axis[0], s * axis[1], s * axis[2]}, b[4], n = 0;
    memcpy(b, body->q, sizeof b);
    body->q[0] = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3];
    body->q[1] = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2];
    body->q[2] = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1];
    body->q[3] = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0];
    n = sqrt(dot(body->q, body->q, 4));
    for (int i = 0; i < 4; i++) body->q[i] /= n;
    update_inertia(body);
}

void rigid_begin_step(rigid *body, double dt, const double gravity[3]) {
    const double drag = 0.5; /* 1/s, of the spin */
    if (body->fixed) return;
    /* Torque-free turning: what inertia does to the spin, from the momentum that stays. */
    double r[3][3], world[3][3], momentum[3], gyro[3];
    rotation(body->q, r);
    to_world(r, body->inertia, world);
    for (int i = 0; i < 3; i++) momentum[i] = dot(world[i], body->w, 3);
    cross(body->w, momentum, gyro);
    for (int i = 0; i < 3; i++) {
        body->v[i] += dt * gravity[i];
        body->w[i] -= dt * dot(body->inverse_inertia[i], gyro, 3);
    }
    for (int i = 0; i < 3; i++) body->w[i] /= 1 + drag * dt;
}

void rigid_end_step(rigid *body, double dt) {
    if (body->fixed) return;
    for (int i = 0; i < 3; i++) body->x[i] += dt * body->v[i];
    rigid_turn(body, body->w, dt * sqrt(dot(body->w, body->w, 3)));
}

/* ---- contacts
 * --------------------------------------------------------------------------------------------------------- */

/* M^-1 J for one body. */
static void accelerate(const rigid *body, const double j[6], double out[6]) {
    for (int i = 0; i < 3; i++) {
        out[i] = body->fixed ? 0 : j[i] / body->mass;
        out[3 + i] = dot(body->inverse_inertia[i], j + 3, 3);
    }
}

static double inverse_mass(const rigid *bodies, const int body[2], double j[2][6]) {
    double sum = 0, a[6];
    for (int b = 0; b < 2; b++) {
        accelerate(&bodies[body[b]], j[b], a);
        sum += dot(j[b], a, 6);
    }
    return sum;
}

static double rate(const rigid *bodies, const int body[2], double j[2][6]) {
    double sum = 0;
    for (int b = 0; b < 2; b++) sum += dot(j[b], bodies[body[b]].v, 3) + dot(j[b] + 3, bodies[body[b]].w, 3);
    return sum;
}

static void push(rigid *bodies, const int body[2], double j[2][6], double impulse) {
    double a[6];
    for (int b = 0; b < 2; b++) {
        rigid *r = &bodies[body[b]];
        accelerate(r, j[b], a);
        for (int i = 0; i < 3; i++) {
            r->v[i] += impulse * a[i];
            r->w[i] += impulse * a[3 + i];
        }
    }
}

contact_row contact_row_of(const contactd_contact *contact, const int body[2], const rigid *bodies) {
    contact_row row = {.body = {body[0], body[1]}, .volume = contact->volume};
    memcpy(row.gradient, contact->generalized_gradient, sizeof row.gradient);
    row.normal_mass = inverse_mass(bodies, row.body, row.gradient);
    for (int t = 0; t < 2; t++) {
        for (int b = 0; b < 2; b++) {
            double arm[3], sign = b ? 1 : -1, turn[3];
            for (int c = 0; c < 3; c++) arm[c] = contact->center[c] - bodies[body[b]].x[c];
            cross(arm, contact->tangents[t], turn);
            for (int c = 0; c < 3; c++) {
                row.tangent[t][b][c] = sign * contact->tangents[t][c];
                row.tangent[t][b][3 + c] = sign * turn[c];
            }
        }
        row.tangent_mass[t] = inverse_mass(bodies, row.body, row.tangent[t]);
    }
    return row;
}

void contact_solve(contact_row *rows, size_t n, rigid *bodies, const contact_law *law, double dt, int sweeps) {
    double c = law->stiffness * (dt + law->damping);
    for (int s = 0; s < sweeps; s++)
        for (size_t i = 0; i < n; i++) {
            contact_row *r = &rows[i];
            double before = r->pressure, w = r->normal_mass;
            double p = law->stiffness * r->volume + c * (rate(bodies, r->body, r->gradient) + dt * w * before);
            r->pressure = fmax(0, p / (1 + c * dt * w));
            push(bodies, r->body, r->gradient, -dt * (r->pressure - before));
            /* The force along the normal is p |dV/dx|; friction stays below its share of it. */
            r->push = r->pressure * sqrt(dot(r->gradient[0], r->gradient[0], 3));
            for (int t = 0; t < 2; t++) {
                if (!(r->tangent_mass[t] > 0)) continue;
                double most = law->friction * r->push * dt, old = r->slide[t];
                double wanted = old - rate(bodies, r->body, r->tangent[t]) / r->tangent_mass[t];
                r->slide[t] = fmin(most, fmax(-most, wanted));
                push(bodies, r->body, r->tangent[t], r->slide[t] - old);
            }
        }
}
