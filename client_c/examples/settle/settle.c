/* settle.c - a rigid-body simulator that gets its contacts from contactd: rings fall over a threaded peg and settle in
 * a stack, or copies of the user's own meshes fall on a plate. Contact forces are -p dV/dq with the penalty p of the
 * intersection volume (rigid.c); this file sets up the bodies, steps, and writes what happened. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/contactd.h"
#include "client_c/examples/settle/npz.h"
#include "client_c/examples/settle/rigid.h"
#include "tests/scenes/shapes.h"

enum { BODIES = 8, ROWS = 64, SWEEPS = 30 };

static const double gravity[3] = {0, 0, -9.81};

typedef struct options {
    const char *server, *csv, *dump, *mesh_a, *mesh_b;
    int steps;
    double dt, friction;
    unsigned resolution; /* 0: none, so that the server chooses the method */
    bool progress;
} options;

typedef struct simulation {
    options o;
    contactd_client *client;
    contactd_scene scene;
    int n;
    struct shape shapes[BODIES]; /* about the centre of mass */
    rigid rigids[BODIES];
    contactd_body handles[BODIES];
    contact_law law;
    FILE *csv;
    double most_volume;
    double final_speed; /* m/s, of the fastest body */
} simulation;

static const char usage[] =
    "usage: settle [--server ADDRESS] [--steps N] [--csv FILE] [--dump DIR] [--progress] [--mesh-a FILE] [--mesh-b "
    "FILE]\n"
    "              [--resolution N] [--dt SECONDS] [--friction MU]\n"
    "Rings settle on a threaded peg; with --mesh-a and --mesh-b, copies of those meshes on a plate.\n"
    "--csv: one line a step. --dump: settle.npz with the bodies and the deepest intersection of the last step.\n"
    "--resolution: ray samples across a contact's window; without it the server chooses the method.\n";

static int problem(const simulation *s, const char *what) {
    const contactd_error *e = contactd_last_error(s->client);
    fprintf(stderr, "settle: %s: %s: %s\n", what, contactd_code_name(e->code), e->message);
    return 1;
}

/* ---- bodies
 * ----------------------------------------------------------------------------------------------------------- */

/* The simulation owns the shape. */
static rigid *add(simulation *s, struct shape shape, double density) {
    rigid *body = &s->rigids[s->n];
    *body = rigid_of_mesh(shape.positions, shape.n_vertices, shape.triangles, shape.n_triangles, density);
    s->shapes[s->n++] = shape;
    return body;
}

static void fix(rigid *body, double x, double y, double z) {
    body->fixed = true;
    memset(body->inverse_inertia, 0, sizeof body->inverse_inertia);
    body->x[0] = x, body->x[1] = y, body->x[2] = z;
}

static void drop(rigid *body, uint64_t *random, double height, double aside, double tilt) {
    double axis[3];
    for (int c = 0; c < 3; c++) {
        axis[c] = shape_uniform(random, -1, 1);
        body->x[c] = c < 2 ? shape_uniform(random, -aside, aside) : height;
        body->w[c] = shape_uniform(random, -1, 1);
    }
    rigid_turn(body, axis, tilt * shape_uniform(random, 0.4, 1));
}

/* Six rings whose hole is the same, from thick to thin, over a peg with a thread. The plate and the peg come third and
 * sixth, where the demo's pictures are grey and violet. */
static void rings_on_peg(simulation *s) {
    const double hole = 0.029, plate = 0.02, peg = 0.16;
    uint64_t random = 11;
    for (int i = 0, ring = 0; ring < 6; i++) {
        if (i == 2) {
            fix(add(s, shape_box(0.3, 0.3, plate), 1000), 0, 0, -plate / 2);
        } else if (i == 5) {
            fix(add(s, shape_bolt(0.021, 0.0015, peg / 16, 16, 64, 8), 1000), 0, 0, peg / 2 + 0.002);
        } else {
            double r = 0.016 - 0.0012 * ring;
            drop(add(s, shape_torus(hole + r, r, 96, 32), 1000), &random, 0.05 + 0.05 * ring, 0.003, 0.35);
            ring++;
        }
    }
}

/* A user's file, 0.1 m wide and about its centre of mass, as the server read it. */
static int load(simulation *s, const char *path, struct shape *out) {
    contactd_mesh mesh;
    contactd_geometry g;
    if (contactd_register_mesh_file(s->client, path, &mesh) || contactd_get_mesh_geometry(s->client, mesh, &g))
        return problem(s, path);
    out->positions = malloc(g.n_vertices * 12);
    out->triangles = malloc(g.n_triangles * 12);
    if (!out->positions || !out->triangles) {
        fputs("settle: out of memory\n", stderr);
        return 1;
    }
    out->n_vertices = (uint32_t)g.n_vertices;
    out->n_triangles = (uint32_t)g.n_triangles;
    memcpy(out->triangles, g.triangles, g.n_triangles * 12);
    double lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY}, size = 0;
    for (size_t v = 0; v < 3 * g.n_vertices; v++) {
        lo[v % 3] = fmin(lo[v % 3], g.positions[v]);
        hi[v % 3] = fmax(hi[v % 3], g.positions[v]);
    }
    for (int c = 0; c < 3; c++) size = fmax(size, hi[c] - lo[c]);
    for (size_t v = 0; v < 3 * g.n_vertices; v++)
        out->positions[v] = (float)((g.positions[v] - (lo[v % 3] + hi[v % 3]) / 2) * 0.1 / size);
    return 0;
}

static int users_meshes(simulation *s) {
    const char *paths[2] = {s->o.mesh_a ? s->o.mesh_a : s->o.mesh_b, s->o.mesh_b ? s->o.mesh_b : s->o.mesh_a};
    uint64_t random = 5;
    for (int i = 0; i < 5; i++) {
        struct shape shape = {0};
        if (i == 2) {
            fix(add(s, shape_box(0.5, 0.5, 0.02), 1000), 0, 0, -0.01);
            continue;
        }
        if (load(s, paths[i % 2], &shape)) {
            shape_free(&shape);
            return 1;
        }
        drop(add(s, shape, 1000), &random, 0.09 + 0.11 * (i - (i > 2)), 0.015, 0.6);
    }
    return 0;
}

static int make_scene(simulation *s) {
    double weight = 0;
    if (s->o.mesh_a || s->o.mesh_b) {
        if (users_meshes(s)) return 1;
    } else {
        rings_on_peg(s);
    }
    for (int i = 0; i < s->n; i++) weight += s->rigids[i].fixed ? 0 : 9.81 * s->rigids[i].mass;
    /* A patch of 2 cm by 2 cm gives way by 0.1 mm under all of the weight. */
    s->law = (contact_law){.stiffness = weight / (4e-4 * 4e-4 * 1e-4), .damping = 0.02, .friction = s->o.friction};

    contactd_settings settings;
    contactd_settings_init(&settings);
    for (int c = 0; c < 3 && s->o.resolution; c++) settings.resolution[c] = s->o.resolution;
    settings.stiffness = s->law.stiffness;
    if (contactd_open_scene(s->client, "settle", &settings, &s->scene)) return problem(s, "scene");
    contactd_body fixed[BODIES];
    size_t n_fixed = 0;
    for (int i = 0; i < s->n; i++) {
        const struct shape *shape = &s->shapes[i];
        contactd_mesh mesh;
        contactd_body_options body;
        contactd_body_options_init(&body);
        body.rigid = true;
        rigid_pose(&s->rigids[i], body.pose);
        if (s->rigids[i].fixed) { /* what never moves need not be paired */
            body.ignore = fixed;
            body.n_ignore = n_fixed;
        }
        if (contactd_register_mesh(s->client, s->rigids[i].fixed ? "fixed" : "falling", shape->positions,
                                   shape->n_vertices, shape->triangles, shape->n_triangles, &mesh) ||
            contactd_add_body(s->client, s->scene, mesh, &body, &s->handles[i]))
            return problem(s, "body");
        if (s->rigids[i].fixed) fixed[n_fixed++] = s->handles[i];
    }
    return 0;
}

/* ---- stepping
 * --------------------------------------------------------------------------------------------------------- */

static int index_of(const simulation *s, contactd_body body) {
    for (int i = 0; i < s->n; i++)
        if (s->handles[i] == body) return i;
    return -1;
}

/* Asks for the contacts of the bodies where they are now. */
static int ask(simulation *s, bool spans, const contactd_result **out) {
    contactd_update updates[BODIES];
    contactd_step_options step;
    size_t n = 0;
    contactd_step_options_init(&step);
    step.want = CONTACTD_WANT_FRAME | (spans ? CONTACTD_WANT_SPANS : 0);
    for (int i = 0; i < s->n; i++) {
        double pose[12];
        rigid_pose(&s->rigids[i], pose);
        if (!s->rigids[i].fixed) updates[n++] = contactd_move(s->handles[i], pose);
    }
    return contactd_step(s->client, s->scene, updates, n, &step, out) ? problem(s, "step") : 0;
}

static int advance(simulation *s, int step) {
    const contactd_result *result;
    contact_row rows[ROWS];
    double volume = 0, force = 0, speed = 0;
    if (ask(s, false, &result)) return 1;
    if (result->n_contacts > ROWS) {
        fprintf(stderr, "settle: %u contacts, at most %d are expected\n", result->n_contacts, ROWS);
        return 1;
    }
    for (int i = 0; i < s->n; i++) rigid_begin_step(&s->rigids[i], s->o.dt, gravity);
    for (uint32_t i = 0; i < result->n_contacts; i++) {
        const contactd_contact *c = &result->contacts[i];
        rows[i] = contact_row_of(c, (int[2]){index_of(s, c->bodies[0]), index_of(s, c->bodies[1])}, s->rigids);
        volume += c->volume;
    }
    contact_solve(rows, result->n_contacts, s->rigids, &s->law, s->o.dt, SWEEPS);
    for (uint32_t i = 0; i < result->n_contacts; i++) force += rows[i].push;
    for (int i = 0; i < s->n; i++) {
        const rigid *r = &s->rigids[i];
        rigid_end_step(&s->rigids[i], s->o.dt);
        double v = sqrt(r->v[0] * r->v[0] + r->v[1] * r->v[1] + r->v[2] * r->v[2]);
        if (!isfinite(v)) {
            fprintf(stderr, "settle: the simulation diverged at step %d\n", step);
            return 1;
        }
        speed = fmax(speed, v);
    }
    s->most_volume = fmax(s->most_volume, volume);
    s->final_speed = speed;
    if (s->csv) {
        fprintf(s->csv, "%d,%.9g,%u,%.9g,%.9g,%.9g", step, step * s->o.dt, result->n_contacts, volume, force,
                result->latency_us);
        for (int p = 0; p < CONTACTD_PHASES; p++) fprintf(s->csv, ",%.9g", result->timings_us[p]);
        fputc('\n', s->csv);
    }
    if (s->o.progress && (step % 50 == 49 || step == s->o.steps - 1)) {
        printf("settle: step %d/%d, %u contacts, force %6.1f N, fastest body %.2f m/s\n", step + 1, s->o.steps,
               result->n_contacts, force, speed);
        fflush(stdout);
    }
    return 0;
}

/* ---- writing
 * ---------------------------------------------------------------------------------------------------------- */

static void write_bodies(const simulation *s, npz *file) {
    for (int i = 0; i < s->n; i++) {
        char name[32], shape[64];
        double pose[12];
        struct shape world = shape_copy(&s->shapes[i]);
        rigid_pose(&s->rigids[i], pose);
        shape_transform(&world, pose);
        snprintf(name, sizeof name, "vertices%d", i);
        snprintf(shape, sizeof shape, "(%u, 3)", world.n_vertices);
        npz_add(file, name, "<f4", shape, world.positions, (size_t)world.n_vertices * 12);
        snprintf(name, sizeof name, "triangles%d", i);
        snprintf(shape, sizeof shape, "(%u, 3)", world.n_triangles);
        npz_add(file, name, "<u4", shape, world.triangles, (size_t)world.n_triangles * 12);
        shape_free(&world);
    }
}

/* The bodies as they lie, and of the largest contact the spans where both bodies are. */
static int dump(simulation *s) {
    char path[4096], shape[64];
    const contactd_result *result;
    const contactd_contact *largest = NULL;
    contactd_settings settings;
    contactd_settings_init(&settings);
    settings.method = CT_METHOD_LDI; /* the method that has spans */
    if (contactd_configure(s->client, s->scene, &settings)) return problem(s, "scene");
    if (ask(s, true, &result)) return 1;
    for (uint32_t i = 0; i < result->n_contacts; i++)
        if (!largest || result->contacts[i].volume > largest->volume) largest = &result->contacts[i];
    snprintf(path, sizeof path, "%s/settle.npz", s->o.dump);
    npz *file = npz_open(path);
    if (!file) {
        fprintf(stderr, "settle: cannot write %s: %s\n", path, strerror(errno));
        return 1;
    }
    write_bodies(s, file);
    uint64_t n = largest ? largest->n_spans : 0;
    int64_t pair[2] = {largest ? index_of(s, largest->bodies[0]) : 0, largest ? index_of(s, largest->bodies[1]) : 1};
    snprintf(shape, sizeof shape, "(%llu, 2, 3)", (unsigned long long)n);
    npz_add(file, "spans", "<f4", shape, n ? (const void *)largest->spans : "", (size_t)n * 24);
    snprintf(shape, sizeof shape, "(%llu,)", (unsigned long long)n);
    npz_add(file, "axes", "|u1", shape, n ? (const void *)largest->span_axes : "", (size_t)n);
    npz_add(file, "pair", "<i8", "(2,)", pair, sizeof pair);
    if (npz_close(&file)) return 0;
    fprintf(stderr, "settle: %s could not be written whole\n", path);
    return 1;
}

static int simulate(simulation *s) {
    if (s->o.csv) {
        s->csv = fopen(s->o.csv, "w");
        if (!s->csv) {
            fprintf(stderr, "settle: cannot write %s: %s\n", s->o.csv, strerror(errno));
            return 1;
        }
        fputs("step,time,contacts,volume,force,latency_us", s->csv);
        for (int p = 0; p < CONTACTD_PHASES; p++) fprintf(s->csv, ",%s_us", contactd_phase_name(p));
        fputc('\n', s->csv);
    }
    int failed = make_scene(s);
    for (int step = 0; step < s->o.steps && !failed; step++) failed = advance(s, step);
    if (!failed && s->o.dump) failed = dump(s);
    if (s->csv && fclose(s->csv) && !failed) {
        fprintf(stderr, "settle: %s could not be written whole: %s\n", s->o.csv, strerror(errno));
        failed = 1;
    }
    if (!failed && !(s->most_volume > 0)) {
        fputs("settle: no bodies ever touched\n", stderr);
        failed = 1;
    }
    return failed;
}

static bool parse(int argc, char **argv, options *o) {
    *o = (options){.steps = 600, .dt = 1.0 / 300, .friction = 0.3};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        char *end = NULL;
        bool valued = true;
        if (strcmp(name, "--progress") == 0) {
            o->progress = true;
            continue;
        }
        if (!value) return false;
        if (strcmp(name, "--server") == 0)
            o->server = value;
        else if (strcmp(name, "--csv") == 0)
            o->csv = value;
        else if (strcmp(name, "--dump") == 0)
            o->dump = value;
        else if (strcmp(name, "--mesh-a") == 0)
            o->mesh_a = value;
        else if (strcmp(name, "--mesh-b") == 0)
            o->mesh_b = value;
        else if (strcmp(name, "--steps") == 0)
            o->steps = (int)strtol(value, &end, 10);
        else if (strcmp(name, "--resolution") == 0)
            o->resolution = (unsigned)strtoul(value, &end, 10);
        else if (strcmp(name, "--dt") == 0)
            o->dt = strtod(value, &end);
        else if (strcmp(name, "--friction") == 0)
            o->friction = strtod(value, &end);
        else
            valued = false;
        if (!valued || (end && *end)) return false;
        i++;
    }
    return o->steps > 0 && o->dt > 0 && o->friction >= 0;
}

int main(int argc, char **argv) {
    static simulation s;
    if (!parse(argc, argv, &s.o)) {
        fputs(usage, stderr);
        return 2;
    }
    contactd_options connect;
    contactd_error error;
    contactd_options_init(&connect);
    connect.name = "settle";
    if (s.o.server) connect.server = s.o.server;
    if (contactd_connect(&connect, &s.client, &error)) {
        fprintf(stderr, "settle: %s\n", error.message);
        return 1;
    }
    int failed = simulate(&s);
    for (int i = 0; i < s.n; i++) shape_free(&s.shapes[i]);
    contactd_close(&s.client);
    return failed;
}
