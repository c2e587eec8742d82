/* bench_engine.c - times the engine through its only door, gpu/include/contact.h: one JSON object a line, a line a run.
 *
 *   bench_engine [--backend cpu|cuda] [--only SCENE] [--meshes DIR] [--seconds S] [--threads N]
 *
 * Each scene runs on the fastest instruction set with the threads its figure allows, and again on the plain one with
 * one thread as the baseline. With --backend cuda it runs on the first device, and the baseline is the CPU's fastest;
 * exit code 3 says that there is no such device. Bodies move a little at every step, so that no step repeats another.
 * The first steps' results are hashed: every run of a scene must give the same bits. bench.py makes the table.
 *
 * This file has the scenes of two bodies of which much overlaps; crowd_scenes.c has those of which little touches. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/include/contact.h"
#include "tests/bench/crowd.h"
#include "tests/bench/engine.h"
#include "tests/bench/poses.h"
#include "tests/bench/samples.h"
#include "tests/scenes/shapes.h"

enum { MIN_SAMPLES = 7, MAX_SAMPLES = 4000, HASHED_STEPS = 4, WARM_UP = 3 };

/* ---- bodies ---- */

typedef struct body {
    ct_mesh *mesh; /* NULL: a half-space */
    char name[64]; /* file, or what was generated in its stead */
    double start[12];
    bool deformable;
    float *start_positions; /* deformable: its vertices at start */
    float *positions;       /* deformable: its vertices now, sent whole at every step */
    bool self_contact;
} body;

/* The named file, or the shape where the file is not there. Takes the shape. */
static body make_body(const char *file, struct shape shape, const char *shape_name, const double start[12]) {
    body b = {0};
    memcpy(b.start, start, sizeof b.start);
    b.mesh = file ? read_mesh_file(file) : NULL;
    if (b.mesh) {
        snprintf(b.name, sizeof b.name, "%s", file);
    } else {
        ct_error error = {0};
        b.mesh = shape_to_mesh(&shape, &error);
        if (!b.mesh) die("%s: %s", shape_name, error.message);
        snprintf(b.name, sizeof b.name, "generated: %s", shape_name);
    }
    shape_free(&shape);
    return b;
}

/* The convex hull of 100 points spread over a ball of radius 1. */
static body make_hull(const double start[12]) {
    enum { POINTS = 100 };
    body b = {.name = "hull of 100 points"};
    double points[POINTS][3];
    uint32_t triangles[POINTS - 2][3];
    ct_mesh_options options;
    ct_error error = {0};
    for (unsigned i = 0; i < POINTS; i++) {
        const double z = 1 - (2 * i + 1.0) / POINTS, r = sqrt(1 - z * z), angle = 2.399963229728653 * i;
        points[i][0] = r * cos(angle), points[i][1] = r * sin(angle), points[i][2] = z;
        for (unsigned k = 0; k < 3 && i < POINTS - 2; k++) triangles[i][k] = i + k;
    }
    ct_mesh_options_init(&options);
    options.closing = CT_CLOSING_HULL;
    if (ct_mesh_create_with(points, CT_F64, POINTS, triangles, POINTS - 2, &options, &b.mesh, NULL, &error))
        die("hull: %s", error.message);
    memcpy(b.start, start, sizeof b.start);
    return b;
}

static void make_deformable(body *b) {
    ct_mesh_info info;
    ct_mesh_get_info(b->mesh, &info);
    const float *rest = ct_mesh_positions(b->mesh);
    b->deformable = true;
    b->start_positions = malloc(info.vertices * 3 * sizeof(float));
    b->positions = malloc(info.vertices * 3 * sizeof(float));
    if (!b->positions || !b->start_positions) die("out of memory");
    for (uint64_t v = 0; v < info.vertices; v++)
        for (int i = 0; i < 3; i++) {
            const double *row = b->start + (size_t)i * 4;
            b->start_positions[3 * v + (uint64_t)i] =
                (float)(row[0] * rest[3 * v] + row[1] * rest[3 * v + 1] + row[2] * rest[3 * v + 2] + row[3]);
        }
}

static void free_body(body *b) {
    ct_mesh_release(&b->mesh);
    free(b->start_positions);
    free(b->positions);
}

/* ---- a scene to time ---- */

typedef struct bench {
    const char *name;
    body bodies[2];
    size_t n_bodies; /* 0: both */
    size_t n_scenes; /* each with both bodies; turned differently in each if there are several */
    uint32_t resolution[3];
    uint32_t want;
    double reach; /* m: how far the second body strays from its start */
    bool is_exact, patches;
    bool has_law;                 /* "pressure" */
    uint32_t max_points;          /* of each contact; 0: none */
    uint32_t n_directions;        /* of each rigid body: products with the second derivative */
    double pixel_size, cell_size; /* m; 0: the resolution, no cells */
    double tolerance_rel;         /* > 0: the method ebpi, with this and the published bound */
} bench;

typedef struct stage {
    ct_engine *engine;
    ct_scene **scenes;
    ct_step *steps;
    ct_update *updates;  /* two for each scene */
    double (*turns)[12]; /* start pose of the second body in each scene */
    ct_direction directions[2 * CT_MAX_DIRECTIONS];
} stage;

static ct_method method_of(const bench *b) {
    return b->tolerance_rel > 0 ? CT_METHOD_EBPI : b->is_exact ? CT_METHOD_EXACT : CT_METHOD_LDI;
}

static size_t count_bodies(const bench *b) {
    return b->n_bodies ? b->n_bodies : 2;
}

/* The unit twists of the first body, then those of the second one. */
static void add_directions(stage *s, const bench *b, ct_step *step) {
    for (uint32_t k = 0; k < b->n_directions; k++) {
        s->directions[k] = (ct_direction){.body = step->updates[k / 6].body, .index = k};
        s->directions[k].twist[k % 6] = 1;
    }
    step->directions = s->directions;
    step->n_directions = b->n_directions;
}

static void set_up(stage *s, const bench *b, const runner *runner) {
    ct_error error = {0};
    s->engine = make_engine(runner);
    size_t n = b->n_scenes;
    s->scenes = calloc(n, sizeof(ct_scene *));
    s->steps = calloc(n, sizeof *s->steps);
    s->updates = calloc(2 * n, sizeof *s->updates);
    s->turns = calloc(n, sizeof *s->turns);
    if (!s->scenes || !s->steps || !s->updates || !s->turns) die("out of memory");
    uint64_t rng = 1;
    for (size_t i = 0; i < n; i++) {
        ct_scene_settings settings;
        ct_scene_settings_init(&settings);
        settings.method = method_of(b);
        settings.patches = b->patches;
        if (b->has_law) settings.law = CT_LAW_PRESSURE;
        settings.max_points = b->max_points;
        if (settings.method == CT_METHOD_EBPI) settings.tolerance_rel = b->tolerance_rel;
        if (settings.method == CT_METHOD_EBPI) settings.ray_budget = CT_MAX_RAY_BUDGET;
        if (settings.method == CT_METHOD_LDI) memcpy(settings.resolution, b->resolution, sizeof settings.resolution);
        settings.pixel_size = b->pixel_size;
        settings.cell_size = b->cell_size;
        if (ct_scene_create(s->engine, &settings, &s->scenes[i], &error)) die("scene: %s", error.message);
        if (n > 1)
            shape_pose_random(&rng, 0.1, s->turns[i]);
        else
            memcpy(s->turns[i], b->bodies[1].start, sizeof s->turns[i]);
        for (size_t j = 0; j < count_bodies(b); j++) {
            const body *from = &b->bodies[j];
            ct_update *update = &s->updates[2 * i + j];
            ct_body_options body_options;
            ct_body_options_init(&body_options);
            body_options.kind = from->deformable ? CT_BODY_DEFORMABLE : from->mesh ? CT_BODY_RIGID : CT_BODY_HALF_SPACE;
            body_options.self_contact = from->self_contact;
            if (!from->deformable) memcpy(body_options.pose, from->start, sizeof body_options.pose);
            if (ct_scene_add_body(s->scenes[i], from->mesh, &body_options, &update->body, &error))
                die("body: %s", error.message);
            ct_mesh_info info = {0};
            if (from->mesh) ct_mesh_get_info(from->mesh, &info);
            update->kind = from->deformable ? CT_UPDATE_POSITIONS : CT_UPDATE_POSE;
            update->positions = from->positions;
            update->dtype = CT_F32;
            update->count = from->deformable ? info.vertices : 0;
            memcpy(update->pose, from->start, sizeof update->pose);
        }
        s->steps[i].scene = s->scenes[i];
        s->steps[i].updates = &s->updates[2 * i];
        s->steps[i].n_updates = count_bodies(b);
        s->steps[i].want = b->want;
        add_directions(s, b, &s->steps[i]);
    }
}

static void tear_down(stage *s, const bench *b) {
    for (size_t i = 0; i < b->n_scenes; i++) ct_scene_destroy(&s->scenes[i]);
    ct_engine_destroy(&s->engine);
    free(s->scenes);
    free(s->steps);
    free(s->updates);
    free(s->turns);
}

static const double golden[3] = {0.8191725133961645, 0.6710436067037893, 0.5497004779019703};

/* A deformable body whose positions are those of the step before would be at rest, and cost nothing: each one is moved a
 * little, the two apart from each other. */
static void move_positions(const bench *b, unsigned k) {
    static const double little = 1e-4; /* m */
    for (size_t j = 0; j < count_bodies(b); j++) {
        const body *of = &b->bodies[j];
        ct_mesh_info info = {0};
        if (!of->deformable) continue;
        ct_mesh_get_info(of->mesh, &info);
        for (uint64_t v = 0; v < 3 * info.vertices; v++) {
            const double u = golden[v % 3] * (double)(k + 1 + 100 * j);
            of->positions[v] = of->start_positions[v] + (float)(little * (2 * (u - floor(u)) - 1));
        }
    }
}

/* Where the bodies are at step k: the second one wanders around its start on a low-discrepancy path. */
static void place(stage *s, const bench *b, unsigned k) {
    move_positions(b, k);
    for (size_t i = 0; i < b->n_scenes; i++) {
        if (count_bodies(b) < 2) return;
        double *pose = s->updates[2 * i + 1].pose;
        memcpy(pose, s->turns[i], sizeof s->turns[i]);
        for (size_t axis = 0; axis < 3; axis++) {
            double u = golden[axis] * (double)(k + 1 + i);
            pose[4 * axis + 3] += b->reach * (2 * (u - floor(u)) - 1);
        }
    }
}

/* ---- runs ---- */

static void run(const bench *b, const runner *runner) {
    stage s = {0};
    set_up(&s, b, runner);
    run_totals totals = {0};
    double end = bench_now() + seconds_per_run;
    for (unsigned k = 0; k < WARM_UP + MAX_SAMPLES; k++) {
        if (k >= WARM_UP + MIN_SAMPLES && bench_now() > end) break;
        place(&s, b, k);
        if (k == WARM_UP) ct_engine_get_facts(s.engine, 0, &totals.before);
        double begin = bench_now();
        ct_status status = ct_engine_run(s.engine, s.steps, b->n_scenes);
        double took = bench_now() - begin;
        for (size_t i = 0; i < b->n_scenes; i++) {
            const ct_result *result = s.steps[i].result;
            if (status || !result) die("%s: step: %s", b->name, s.steps[i].error.message);
            if (result->ended != CT_ENDED_COMPLETED) die("%s: ended: %s", b->name, ct_ended_name(result->ended));
            if (k < HASHED_STEPS) hash_result(&totals, result);
            if (k >= WARM_UP) add_result(&totals, result);
            ct_result_free(&s.steps[i].result);
        }
        if (k >= WARM_UP) bench_add(&totals.ms, 1e3 * took);
    }
    if (!totals.contacts) die("%s: the bodies never touched", b->name);

    run_label label = {.scene = b->name, .n_scenes = b->n_scenes, .method = method_of(b)};
    memcpy(label.resolution, b->resolution, sizeof label.resolution);
    for (size_t j = 0; j < 2; j++) {
        ct_mesh_info info = {0};
        if (b->bodies[j].mesh) ct_mesh_get_info(b->bodies[j].mesh, &info);
        label.bodies[j] = j < count_bodies(b) ? b->bodies[j].name : "";
        label.triangles[j] = info.triangles;
    }
    print_run(&label, s.engine, &totals, "");
    bench_free(&totals.ms);
    tear_down(&s, b);
}

/* The measured run, and the baseline. */
static void compare(bench *b, unsigned threads) {
    runner cpu = {"cpu", "auto", threads < max_threads ? threads : max_threads}, plain = {"cpu", "base", 1};
    runner device = {backend, "auto", 0};
    bool on_cpu = strcmp(backend, "cpu") == 0;
    run(b, on_cpu ? &cpu : &device);
    run(b, on_cpu ? &plain : &cpu);
    for (int j = 0; j < 2; j++) free_body(&b->bodies[j]);
}

static const double armadillo_pose[12] = {0.8915443744921647,   -0.058071003702544255, 0.4491952658258477,  0.1,
                                          0.1601468865334481,   0.9681012866153426,    -0.1926989195282664, 0.05,
                                          -0.42367629511812177, 0.24373686094371833,   0.8724051464613702,  0.02};

static void compare_on_one(bench *b) {
    compare(b, 1);
}

/* The raster stage on OpenGL, where there is one; the baseline is the native rasteriser. On Mesa's llvmpipe it is this
 * very processor that draws. */
static void compare_egl(bench *b) {
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = backend;
    options.rasterizer = "egl";
    ct_engine *engine = NULL;
    ct_error error = {0};
    if (ct_engine_create(&options, &engine, &error) == CT_OK) {
        ct_engine_destroy(&engine);
        runner egl = {backend, "auto", max_threads, "egl"}, plain = {backend, "auto", max_threads, "native"};
        run(b, &egl);
        run(b, &plain);
    } else {
        fprintf(stderr, "bench_engine: %s is left out: %s\n", b->name, error.message);
    }
    for (int j = 0; j < 2; j++) free_body(&b->bodies[j]);
}

/* The method exact; the baseline is LDI at the bench's resolution, on the same threads. On another backend than the CPU
 * the baseline is the CPU's exact. */
static void compare_methods(bench *b, unsigned threads) {
    runner cpu = {"cpu", "auto", threads < max_threads ? threads : max_threads}, device = {backend, "auto", 0};
    const bool on_cpu = strcmp(backend, "cpu") == 0;
    b->is_exact = true;
    run(b, on_cpu ? &cpu : &device);
    b->is_exact = !on_cpu;
    run(b, &cpu);
    for (int j = 0; j < 2; j++) free_body(&b->bodies[j]);
}

/* Contacts divided into cells; the baseline has none. On the CPU alone. */
static void compare_cells(bench *b, double cell_size, unsigned threads) {
    runner cpu = {"cpu", "auto", threads < max_threads ? threads : max_threads};
    b->cell_size = cell_size;
    run(b, &cpu);
    b->cell_size = 0;
    run(b, &cpu);
    for (int j = 0; j < 2; j++) free_body(&b->bodies[j]);
}

/* With the law "pressure"; the baseline has none. On the CPU alone. */
static void compare_law(bench *b, unsigned threads) {
    runner cpu = {"cpu", "auto", threads < max_threads ? threads : max_threads};
    b->is_exact = b->has_law = true;
    b->want = CT_WANT_FRAME;
    run(b, &cpu);
    b->has_law = false;
    run(b, &cpu);
    for (int j = 0; j < 2; j++) free_body(&b->bodies[j]);
}

static void compare_law_on_one(bench *b) {
    compare_law(b, 1);
}

static void compare_methods_on_one(bench *b) {
    compare_methods(b, 1);
}

static void bunny_and_cube(const char *name, uint32_t resolution, bool deforms, void (*how)(bench *)) {
    if (!is_wanted(name)) return;
    bench b = {.name = name, .n_scenes = 1, .want = CT_WANT_GRADIENT, .reach = 0.01};
    for (int i = 0; i < 3; i++) b.resolution[i] = resolution;
    b.bodies[0] = make_body("bunny_capped.ply", shape_torus(0.65, 0.35, 186, 187), "torus 69,564", bunny_pose);
    b.bodies[1] = make_body(NULL, shape_cube(2, 1), "cube of side 2", cube_pose);
    if (deforms) make_deformable(&b.bodies[0]);
    how(&b);
}

/* `pose`: of the second armadillo. */
static void exact_armadillos(const char *name, const char *file, const double pose[12], bool deforms,
                             unsigned threads) {
    if (!is_wanted(name)) return;
    double identity[12];
    shape_pose_identity(identity);
    bench b = {.name = name, .n_scenes = 1, .want = CT_WANT_GRADIENT, .reach = 0.002, .resolution = {128, 128, 128}};
    b.bodies[0] = make_body(file, shape_torus(0.6, 0.35, 416, 416), "torus 346,112", identity);
    b.bodies[1] = make_body(file, shape_torus(0.6, 0.35, 416, 416), "torus 346,112", pose);
    for (int j = 0; j < 2 && deforms; j++) make_deformable(&b.bodies[j]);
    compare_methods(&b, threads);
}

static void exact_scenes(void) {
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.5;
    if (is_wanted("exact_boxes")) {
        bench b = {.name = "exact_boxes",
                   .n_scenes = 1,
                   .want = CT_WANT_GRADIENT,
                   .reach = 0.05,
                   .resolution = {128, 128, 128}};
        b.bodies[0] = make_body(NULL, shape_box(1, 1, 1), "box", pose);
        shape_pose_identity(pose);
        b.bodies[1] = make_body(NULL, shape_box(1, 1, 1), "box", pose);
        compare_methods(&b, 1);
    }
    if (is_wanted("exact_hulls")) {
        bench b = {
            .name = "exact_hulls", .n_scenes = 1, .want = CT_WANT_FRAME, .reach = 0.02, .resolution = {32, 32, 32}};
        shape_pose_identity(pose);
        b.bodies[0] = make_hull(pose);
        pose[3] = 1.2, pose[7] = 1.2, pose[11] = 0.8; /* 1.88 away: 6 % of a diameter deep */
        b.bodies[1] = make_hull(pose);
        compare_methods(&b, 1);
    }
    bunny_and_cube("exact_bunny_cube", 128, false, compare_methods_on_one);
    bunny_and_cube("exact_bunny_cube_deforming", 128, true, compare_methods_on_one);
    exact_armadillos("exact_armadillos", "armadillo_346k.ply", armadillo_pose, false, 2);
    exact_armadillos("exact_armadillos_deforming", "armadillo_346k.ply", armadillo_pose, true, 2);
    shape_pose_identity(pose);
    pose[3] = 1.2; /* by 98 % of its length */
    exact_armadillos("exact_armadillos_shallow", "armadillo_346k.ply", pose, false, 1);
    shape_pose_identity(pose);
    pose[3] = 0.004;
    exact_armadillos("exact_armadillos_coincident", "armadillo_86k.ply", pose, false, 1);
}

/* ---- what few scenes ask for ---- */

static bench bunny_on(const char *name, body other) {
    bench b = {.name = name, .n_scenes = 1, .want = CT_WANT_GRADIENT, .reach = 0.01, .is_exact = true};
    b.bodies[0] = make_body("bunny_capped.ply", shape_torus(0.65, 0.35, 186, 187), "torus 69,564", bunny_pose);
    b.bodies[1] = other;
    return b;
}

static body cube_under_bunny(void) {
    return make_body(NULL, shape_cube(2, 1), "cube of side 2", cube_pose);
}

/* As exact_bunny_cube with more wishes, and the bunny on a half-space instead. */
static void exact_wishes(void) {
    if (is_wanted("exact_products")) {
        bench b = bunny_on("exact_products", cube_under_bunny());
        b.n_directions = CT_MAX_DIRECTIONS;
        compare(&b, 1);
    }
    if (is_wanted("exact_inertia")) {
        bench b = bunny_on("exact_inertia", cube_under_bunny());
        b.want |= CT_WANT_INERTIA;
        compare(&b, 1);
    }
    if (is_wanted("exact_half_space")) {
        body below = {.name = "half-space"};
        ct_error error = {0};
        if (ct_plane_pose((const double[]){0.1, -0.2, 1}, 0.05, below.start, &error)) die("plane: %s", error.message);
        bench b = bunny_on("exact_half_space", below);
        compare(&b, 1);
    }
    if (is_wanted("exact_patches")) {
        bench b = {.name = "exact_patches", .n_scenes = 1, .want = CT_WANT_GRADIENT, .reach = 0.002};
        double identity[12];
        shape_pose_identity(identity);
        b.is_exact = b.patches = true;
        b.bodies[0] = make_body("armadillo_346k.ply", shape_torus(0.6, 0.35, 416, 416), "torus 346,112", identity);
        b.bodies[1] =
            make_body("armadillo_346k.ply", shape_torus(0.6, 0.35, 416, 416), "torus 346,112", armadillo_pose);
        compare(&b, 2);
    }
}

static void law_scenes(void) {
    double pose[12], identity[12];
    if (strcmp(backend, "cpu") != 0) return;
    shape_pose_identity(identity);
    if (is_wanted("law_boxes")) {
        bench b = {.name = "law_boxes", .n_scenes = 1, .reach = 0.01};
        shape_pose_axis((double[]){1, 2, 3}, 0.05, (double[]){0.9, 0.1, 0.1}, pose);
        b.bodies[0] = make_body(NULL, shape_box(1, 1, 1), "box", identity);
        b.bodies[1] = make_body(NULL, shape_box(1, 1, 1), "box", pose);
        compare_law(&b, 1);
    }
    if (is_wanted("law_ball")) {
        bench b = {.name = "law_ball", .n_scenes = 1, .reach = 0.002};
        shape_pose_identity(pose);
        pose[11] = 0.97;
        b.bodies[0] = make_body(NULL, shape_icosphere(0.5, 5), "ball 20,480", pose);
        b.bodies[1] = make_body(NULL, shape_box(2, 2, 1), "box", identity);
        compare_law(&b, 1);
    }
    bunny_and_cube("law_bunny_cube", 128, false, compare_law_on_one);
}

/* Four points of each contact by exact; the baseline has none. On the CPU alone. */
static void compare_points(bench *b) {
    runner cpu = {"cpu", "auto", 1};
    b->is_exact = true;
    b->want = CT_WANT_FRAME | CT_WANT_GRADIENT;
    b->max_points = 4;
    run(b, &cpu);
    b->max_points = 0;
    run(b, &cpu);
    for (int j = 0; j < 2; j++) free_body(&b->bodies[j]);
}

/* The contact surface with the law's wrench; the baseline has neither. */
static void compare_surface(bench *b) {
    runner cpu = {"cpu", "auto", 1};
    b->is_exact = b->has_law = true;
    b->want = CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_SURFACE;
    run(b, &cpu);
    b->has_law = false;
    b->want = CT_WANT_FRAME | CT_WANT_GRADIENT;
    run(b, &cpu);
    for (int j = 0; j < 2; j++) free_body(&b->bodies[j]);
}

/* Whether the row "<prefix>_<scene>" is wanted; its name, until the next call. */
static const char *wanted_row(const char *prefix, const char *scene) {
    static char name[64];
    snprintf(name, sizeof name, "%s_%s", prefix, scene);
    return is_wanted(name) ? name : NULL;
}

/* What contacts get besides, of bodies that are deep in each other, of such as have many long thin triangles, of a ball on a
 * floor, of a box on a box, of a nut on a bolt, and of many tori. */
static void scenes_with_more(const char *prefix, void (*compare)(bench *b)) {
    double pose[12], identity[12];
    const char *name;
    if (strcmp(backend, "cpu") != 0) return;
    shape_pose_identity(identity);
    if ((name = wanted_row(prefix, "bunny_cube"))) {
        bench b = bunny_on(name, cube_under_bunny());
        compare(&b);
    }
    if ((name = wanted_row(prefix, "armadillos"))) {
        bench b = {.name = name, .n_scenes = 1, .reach = 0.002};
        b.bodies[0] = make_body("armadillo_346k.ply", shape_torus(0.6, 0.35, 416, 416), "torus 346,112", identity);
        b.bodies[1] =
            make_body("armadillo_346k.ply", shape_torus(0.6, 0.35, 416, 416), "torus 346,112", armadillo_pose);
        compare(&b);
    }
    /* The gears' surface has more polygons than a step may have. */
    if (strcmp(prefix, "surface") != 0 && (name = wanted_row(prefix, "gears"))) {
        bench b = {.name = name, .n_scenes = 1, .reach = 0.002};
        shape_pose_axis((double[]){0, 0.3, 1}, 0.02, (double[]){0.3, 0.05, 0.02}, pose);
        b.bodies[0] = make_body("gear_51k.ply", shape_torus(0.6, 0.35, 1600, 16), "torus 51,200", identity);
        b.bodies[1] = make_body("gear_51k.ply", shape_torus(0.6, 0.35, 1600, 16), "torus 51,200", pose);
        compare(&b);
    }
    if ((name = wanted_row(prefix, "ball"))) {
        bench b = {.name = name, .n_scenes = 1, .reach = 0.002};
        shape_pose_identity(pose);
        pose[11] = 0.97;
        b.bodies[0] = make_body(NULL, shape_box(4, 4, 1), "box", identity);
        b.bodies[1] = make_body(NULL, shape_icosphere(0.5, 5), "ball 20,480", pose);
        compare(&b);
    }
    if ((name = wanted_row(prefix, "boxes"))) {
        bench b = {.name = name, .n_scenes = 1, .reach = 0.005};
        shape_pose_axis((double[]){1, 2, 3}, 0.002, (double[]){0.2, 0.3, 0.97}, pose);
        b.bodies[0] = make_body(NULL, shape_box(1, 1, 1), "box", identity);
        b.bodies[1] = make_body(NULL, shape_box(1, 1, 1), "box", pose);
        compare(&b);
    }
    if ((name = wanted_row(prefix, "nut"))) {
        bench b = {.name = name, .n_scenes = 1, .reach = 0.01};
        shape_pose_identity(pose);
        pose[11] = 0.06;
        b.bodies[0] = make_body(NULL, shape_bolt(0.8, 0.15, 0.4, 4, 60, 24), "bolt 11,640", identity);
        b.bodies[1] = make_body(NULL, shape_nut(0.8, 0.15, 0.4, 2, 60, 24, 0.03, 2.2), "nut 6,120", pose);
        compare(&b);
    }
    if ((name = wanted_row(prefix, "tori"))) {
        bench b = {.name = name, .n_scenes = 256, .reach = 0.05};
        b.bodies[0] = make_body(NULL, shape_torus(0.5, 0.25, 25, 20), "torus 1,000", identity);
        b.bodies[1] = make_body(NULL, shape_torus(0.5, 0.25, 25, 20), "torus 1,000", identity);
        compare(&b);
    }
}

/* Faure's octopus has 20,000 triangles, in contact with itself by rays at 256 x 256: here, two rings in one mesh. The
 * method exact finds it on the CPU alone. */
static void self_contact(const char *name, bool is_exact) {
    if (!is_wanted(name) || (is_exact && strcmp(backend, "cpu") != 0)) return;
    double identity[12];
    shape_pose_identity(identity);
    struct shape ring = shape_torus(0.6, 0.25, 100, 50), other = shape_copy(&ring);
    shape_translate(&other, 0.35, 0, 0.2);
    bench b = {.name = name,
               .n_bodies = 1,
               .n_scenes = 1,
               .want = CT_WANT_GRADIENT,
               .resolution = {256, 256, 256},
               .is_exact = is_exact};
    b.bodies[0] = make_body(NULL, shape_merge(&ring, &other), "two rings in one mesh, 20,000", identity);
    b.bodies[0].self_contact = true;
    make_deformable(&b.bodies[0]);
    shape_free(&ring);
    shape_free(&other);
    compare(&b, 2);
}

/* Some 500 cells each: of a shallow contact that is wide, and of deep ones. */
static void cell_scenes(void) {
    double pose[12];
    if (strcmp(backend, "cpu") != 0) return;
    if (is_wanted("cells_shallow")) {
        bench b = {.name = "cells_shallow",
                   .n_scenes = 1,
                   .want = CT_WANT_GRADIENT,
                   .reach = 0.001,
                   .resolution = {128, 128, 128},
                   .pixel_size = 0.003};
        shape_pose_axis((double[]){1, 0.3, 0}, 0.0003, (double[]){0.1, 0.05, -0.432}, pose);
        b.bodies[0] = make_body(NULL, shape_slab(2, 0.3, 0.004, 5, 128), "slab 66,560", pose);
        shape_pose_axis((double[]){0, 0, 1}, 0.1, (double[]){0, 0, 0.31}, pose);
        b.bodies[1] = make_body(NULL, shape_cube(1.5, 76), "cube 69,312", pose);
        compare_cells(&b, 0.066, 1);
    }
    if (is_wanted("cells_bunny_cube")) {
        bench b = {.name = "cells_bunny_cube",
                   .n_scenes = 1,
                   .want = CT_WANT_GRADIENT,
                   .reach = 0.01,
                   .resolution = {128, 128, 128}};
        b.bodies[0] = make_body("bunny_capped.ply", shape_torus(0.65, 0.35, 186, 187), "torus 69,564", bunny_pose);
        b.bodies[1] = make_body(NULL, shape_cube(2, 1), "cube of side 2", cube_pose);
        compare_cells(&b, 0.13, 1);
    }
    if (is_wanted("cells_armadillos")) {
        bench b = {.name = "cells_armadillos",
                   .n_scenes = 1,
                   .want = CT_WANT_GRADIENT,
                   .reach = 0.01,
                   .resolution = {280, 240, 260}};
        shape_pose_identity(pose);
        b.bodies[0] = make_body("armadillo_346k.ply", shape_torus(0.6, 0.35, 416, 416), "torus 346,112", pose);
        b.bodies[1] =
            make_body("armadillo_346k.ply", shape_torus(0.6, 0.35, 416, 416), "torus 346,112", armadillo_pose);
        compare_cells(&b, 0.1, 2);
    }
}

static void two_armadillos(void) {
    if (!is_wanted("armadillos")) return;
    double identity[12];
    shape_pose_identity(identity);
    bench b = {
        .name = "armadillos", .n_scenes = 1, .want = CT_WANT_GRADIENT, .reach = 0.01, .resolution = {280, 240, 260}};
    b.bodies[0] = make_body("armadillo_346k.ply", shape_torus(0.6, 0.35, 416, 416), "torus 346,112", identity);
    b.bodies[1] = make_body("armadillo_346k.ply", shape_torus(0.6, 0.35, 416, 416), "torus 346,112", armadillo_pose);
    compare(&b, 2);
}

/* 4.4 million triangles: two of 2.2 million that share one mesh. Moved by their poses, so nothing but those is sent. */
static void two_huge(void) {
    if (!is_wanted("huge")) return;
    double identity[12];
    shape_pose_identity(identity);
    bench b = {.name = "huge", .n_scenes = 1, .want = CT_WANT_GRADIENT, .reach = 0.01, .resolution = {512, 512, 512}};
    b.bodies[0] = make_body(NULL, shape_torus(0.6, 0.35, 1048, 1050), "torus 2,200,800", identity);
    b.bodies[1] = b.bodies[0];
    ct_mesh_retain(b.bodies[1].mesh);
    memcpy(b.bodies[1].start, armadillo_pose, sizeof b.bodies[1].start);
    compare(&b, 2);
}

/* The method ebpi to 1 % of the volume; the baseline is exact, on the same threads. */
static void compare_adaptive(bench *b, unsigned threads) {
    const runner cpu = {"cpu", "auto", threads < max_threads ? threads : max_threads};
    b->n_scenes = 1;
    b->want = CT_WANT_GRADIENT;
    b->tolerance_rel = 1e-2;
    run(b, &cpu);
    b->tolerance_rel = 0;
    b->is_exact = true;
    run(b, &cpu);
    for (int j = 0; j < 2; j++) free_body(&b->bodies[j]);
}

static struct shape sphere_of_squares(int n) {
    struct shape sphere = shape_cube(2, n);
    for (uint32_t v = 0; v < sphere.n_vertices; v++) {
        float *p = sphere.positions + 3 * (size_t)v;
        const double length = sqrt((double)p[0] * p[0] + (double)p[1] * p[1] + (double)p[2] * p[2]);
        for (int k = 0; k < 3; k++) p[k] = (float)(p[k] / length);
    }
    return sphere;
}

static void adaptive_scenes(void) {
    if (strcmp(backend, "cpu") != 0) return;
    double pose[12], identity[12];
    shape_pose_identity(identity);
    shape_pose_identity(pose);
    for (int k = 0; k < 3; k++) pose[4 * k + 3] = 0.3 + 0.2 * k;
    if (is_wanted("ebpi_spheres")) {
        bench b = {.name = "ebpi_spheres", .reach = 0.05};
        b.bodies[0] = make_body(NULL, sphere_of_squares(24), "sphere 6,912", identity);
        b.bodies[1] = make_body(NULL, sphere_of_squares(24), "sphere 6,912", pose);
        compare_adaptive(&b, 1);
    }
    if (is_wanted("ebpi_armadillos")) {
        bench b = {.name = "ebpi_armadillos", .reach = 0.002};
        b.bodies[0] = make_body("armadillo_346k.ply", shape_torus(0.6, 0.35, 416, 416), "torus 346,112", identity);
        b.bodies[1] =
            make_body("armadillo_346k.ply", shape_torus(0.6, 0.35, 416, 416), "torus 346,112", armadillo_pose);
        compare_adaptive(&b, 2);
    }
    if (is_wanted("ebpi_huge")) {
        bench b = {.name = "ebpi_huge", .reach = 0.01};
        b.bodies[0] = make_body(NULL, shape_torus(0.6, 0.35, 1048, 1050), "torus 2,200,800", identity);
        b.bodies[1] = b.bodies[0];
        ct_mesh_retain(b.bodies[1].mesh);
        memcpy(b.bodies[1].start, armadillo_pose, sizeof b.bodies[1].start);
        compare_adaptive(&b, 2);
    }
}

static void many_scenes(const char *name, bool is_exact) {
    if (!is_wanted(name)) return;
    double identity[12];
    shape_pose_identity(identity);
    bench b = {.name = name, .n_scenes = 1024, .want = CT_WANT_GRADIENT, .reach = 0.05, .resolution = {32, 32, 32}};
    b.bodies[0] = make_body(NULL, shape_torus(0.5, 0.25, 25, 20), "torus 1,000", identity);
    b.bodies[1] = make_body(NULL, shape_torus(0.5, 0.25, 25, 20), "torus 1,000", identity);
    if (is_exact)
        compare_methods(&b, 2);
    else
        compare(&b, 2);
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    bunny_and_cube("bunny_cube_128", 128, true, compare_on_one);
    bunny_and_cube("bunny_cube_16", 16, true, compare_on_one);
    bunny_and_cube("bunny_cube_128_egl", 128, true, compare_egl);
    two_armadillos();
    two_huge();
    many_scenes("batch_1024", false);
    cell_scenes();
    exact_scenes();
    exact_wishes();
    law_scenes();
    scenes_with_more("points", compare_points);
    scenes_with_more("surface", compare_surface);
    self_contact("self_20k", false);
    self_contact("exact_self_20k", true);
    many_scenes("exact_batch_1024", true);
    adaptive_scenes();
    time_crowds();
    if (only && !was_wanted) die("there is no scene %s", only);
    return 0;
}
