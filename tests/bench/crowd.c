/* crowd.c - times scenes with any number of bodies, in turns. */
#include "tests/bench/crowd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/engine.h"

/* A turn takes a tenth of the seconds for a run. Three turns are enough where a step takes longer than that; a baseline
 * of one turn shows the same bits. */
enum { HASHED_STEPS = 2, TURNS = 5, MIN_TURNS = 3, MAX_STEPS_IN_TURN = 1000 };

/* s. A scene with longer steps has no baseline, which would take several times as long. */
static const double max_step_with_baseline = 1;

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory) die("out of memory");
    return memory;
}

crowd crowd_begin(const char *name, size_t n_bodies, uint32_t resolution) {
    return (crowd){.name = name, .resolution = resolution, .bodies = allocate(n_bodies, sizeof(crowd_body))};
}

void crowd_add(crowd *crowd, ct_mesh *mesh, const double start[12], double reach, bool is_deformable) {
    crowd_body *body = &crowd->bodies[crowd->n_bodies++];
    *body = (crowd_body){.mesh = ct_mesh_retain(mesh), .reach = reach, .is_deformable = is_deformable};
    memcpy(body->start, start, sizeof body->start);
}

void crowd_free(crowd *crowd) {
    for (size_t i = 0; i < crowd->n_bodies; i++) ct_mesh_release(&crowd->bodies[i].mesh);
    free(crowd->bodies);
    crowd->bodies = NULL;
    crowd->n_bodies = 0;
}

/* ---- a crowd in an engine of its own ---- */

typedef struct crowd_stage {
    const crowd *crowd;
    ct_engine *engine;
    ct_scene *scene;
    ct_update *updates; /* of the bodies that do not rest, in their order */
    float **positions;  /* [n_updates], what an update of positions sends; else NULL */
    size_t n_updates;
    unsigned steps; /* done so far */
    run_totals totals;
    double last_step; /* s */
    bench_samples turn_ms, turn_medians_ms;
} crowd_stage;

static bool is_updated(const crowd_body *body) {
    return body->reach > 0 || body->is_deformable;
}

static void add_update(crowd_stage *stage, const crowd_body *body, uint32_t handle) {
    size_t at = stage->n_updates++;
    ct_update *update = &stage->updates[at];
    update->body = handle;
    update->kind = CT_UPDATE_POSE;
    if (!body->is_deformable) return;
    ct_mesh_info info;
    ct_mesh_get_info(body->mesh, &info);
    update->kind = CT_UPDATE_POSITIONS;
    update->dtype = CT_F32;
    update->count = info.vertices;
    update->positions = stage->positions[at] = allocate(info.vertices, 3 * sizeof(float));
}

static ct_method method_of(const crowd *crowd) {
    return crowd->resolution ? CT_METHOD_LDI : CT_METHOD_EXACT;
}

static crowd_stage set_up(const crowd *crowd, const runner *runner) {
    crowd_stage stage = {.crowd = crowd, .engine = make_engine(runner)};
    ct_error error = {0};
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = method_of(crowd);
    for (int axis = 0; axis < 3; axis++) settings.resolution[axis] = crowd->resolution;
    if (ct_scene_create(stage.engine, &settings, &stage.scene, &error))
        die("%s: scene: %s", crowd->name, error.message);
    stage.updates = allocate(crowd->n_bodies, sizeof *stage.updates);
    stage.positions = allocate(crowd->n_bodies, sizeof *stage.positions);
    for (size_t i = 0; i < crowd->n_bodies; i++) {
        const crowd_body *body = &crowd->bodies[i];
        uint32_t handle;
        ct_body_options options;
        ct_body_options_init(&options);
        options.kind = body->is_deformable ? CT_BODY_DEFORMABLE : CT_BODY_RIGID;
        if (!body->is_deformable) memcpy(options.pose, body->start, sizeof options.pose);
        if (ct_scene_add_body(stage.scene, body->mesh, &options, &handle, &error))
            die("%s: body: %s", crowd->name, error.message);
        if (is_updated(body)) add_update(&stage, body, handle);
    }
    return stage;
}

static void tear_down(crowd_stage *stage) {
    for (size_t i = 0; i < stage->n_updates; i++) free(stage->positions[i]);
    free(stage->positions);
    free(stage->updates);
    ct_scene_destroy(&stage->scene);
    ct_engine_destroy(&stage->engine);
    bench_free(&stage->totals.ms);
    bench_free(&stage->turn_ms);
    bench_free(&stage->turn_medians_ms);
}

/* Number k of a low-discrepancy sequence in -1..1, one sequence per axis. */
static double wander(size_t axis, size_t k) {
    static const double golden[3] = {0.8191725133961645, 0.6710436067037893, 0.5497004779019703};
    double u = golden[axis] * (double)(k + 1);
    return 2 * (u - floor(u)) - 1;
}

static void write_positions(const crowd_body *body, const double pose[12], double scale, uint64_t n_vertices,
                            float *to) {
    const float *rest = ct_mesh_positions(body->mesh);
    for (uint64_t v = 0; v < n_vertices; v++, rest += 3, to += 3)
        for (size_t i = 0; i < 3; i++) {
            const double *row = pose + 4 * i;
            to[i] = (float)(scale * (row[0] * (double)rest[0] + row[1] * (double)rest[1] + row[2] * (double)rest[2]) +
                            row[3]);
        }
}

/* Moves the bodies to where they are at the next step. */
static void move_bodies(crowd_stage *stage) {
    size_t at = 0;
    for (size_t i = 0; i < stage->crowd->n_bodies; i++) {
        const crowd_body *body = &stage->crowd->bodies[i];
        if (!is_updated(body)) continue;
        double pose[12];
        memcpy(pose, body->start, sizeof pose);
        for (size_t axis = 0; axis < 3; axis++) pose[4 * axis + 3] += body->reach * wander(axis, stage->steps + i);
        ct_update *update = &stage->updates[at];
        if (body->is_deformable)
            write_positions(body, pose, 1 + 0.01 * wander(0, stage->steps + i), update->count, stage->positions[at]);
        else
            memcpy(update->pose, pose, sizeof pose);
        at++;
    }
}

/* ---- runs ---- */

static double step_once(crowd_stage *stage, bool is_counted) {
    const crowd *crowd = stage->crowd;
    move_bodies(stage);
    ct_step step = {
        .scene = stage->scene, .updates = stage->updates, .n_updates = stage->n_updates, .want = CT_WANT_GRADIENT};
    double begin = bench_now();
    ct_status status = ct_engine_run(stage->engine, &step, 1);
    double took = bench_now() - begin;
    if (status) die("%s: step: %s", crowd->name, step.error.message);
    if (step.result->pairs != crowd->n_pairs || step.result->n_contacts != crowd->n_contacts)
        die("%s: step %u: expected %zu pairs and %zu contacts, found %llu and %zu", crowd->name, stage->steps,
            crowd->n_pairs, crowd->n_contacts, (unsigned long long)step.result->pairs, step.result->n_contacts);
    if (stage->steps < HASHED_STEPS) hash_result(&stage->totals, step.result);
    if (is_counted) {
        add_result(&stage->totals, step.result);
        bench_add(&stage->totals.ms, 1e3 * took);
        bench_add(&stage->turn_ms, 1e3 * took);
    }
    ct_result_free(&step.result);
    stage->steps++;
    stage->last_step = took;
    return took;
}

/* The first step of a turn meets caches that other scenes have emptied. It does not count, unless a step takes so long
 * that the caches make no difference. */
static void run_turn(crowd_stage *stage, double seconds) {
    bench_clear(&stage->turn_ms);
    if (stage->steps == 0 || stage->last_step < seconds) step_once(stage, false);
    if (!stage->totals.ms.count) ct_engine_get_facts(stage->engine, 0, &stage->totals.before);
    double spent = 0;
    for (int i = 0; i < MAX_STEPS_IN_TURN && (i == 0 || spent < seconds); i++) spent += step_once(stage, true);
    bench_add(&stage->turn_medians_ms, bench_quantile(&stage->turn_ms, 0.5));
}

static void print_crowd(crowd_stage *stage) {
    const crowd *crowd = stage->crowd;
    run_label label = {.scene = crowd->name, .n_scenes = 1, .method = method_of(crowd)};
    for (int kind = 0; kind < 2; kind++) label.bodies[kind] = crowd->kinds[kind];
    for (int axis = 0; axis < 3; axis++) label.resolution[axis] = crowd->resolution;
    for (size_t i = 0; i < crowd->n_bodies; i++) {
        ct_mesh_info info;
        ct_mesh_get_info(crowd->bodies[i].mesh, &info);
        label.triangles[i > 0] += info.triangles;
    }
    char more[256];
    int n = snprintf(more, sizeof more, ",\"n_bodies\":%zu,\"turns_ms\":[", crowd->n_bodies);
    for (size_t i = 0; i < stage->turn_medians_ms.count; i++)
        n += snprintf(more + n, sizeof more - (size_t)n, "%s%.6g", i ? "," : "", stage->turn_medians_ms.values[i]);
    snprintf(more + n, sizeof more - (size_t)n, "]");
    print_run(&label, stage->engine, &stage->totals, more);
}

/* The turns end early, though not before min_turns, when they have taken as long as all should. last_steps[i] is how
 * long crowd i's last step took, s. */
static void run_in_turns(const crowd *const *crowds, size_t n, const runner *runner, int turns, int min_turns,
                         double *last_steps) {
    crowd_stage *stages = allocate(n, sizeof *stages);
    for (size_t i = 0; i < n; i++) stages[i] = set_up(crowds[i], runner);
    double seconds = seconds_per_run / 10, end = bench_now() + (double)n * turns * seconds;
    for (int turn = 0; turn < turns && (turn < min_turns || bench_now() < end); turn++)
        for (size_t i = 0; i < n; i++) run_turn(&stages[i], seconds);
    for (size_t i = 0; i < n; i++) {
        last_steps[i] = stages[i].last_step;
        print_crowd(&stages[i]);
        tear_down(&stages[i]);
    }
    free(stages);
}

void crowd_compare(const crowd *crowds, size_t n) {
    const runner cpu = {"cpu", "auto", max_threads}, plain = {"cpu", "base", 1}, device = {backend, "auto", 0};
    bool on_cpu = strcmp(backend, "cpu") == 0;
    const crowd **timed = allocate(n, sizeof *timed);
    double *last_steps = allocate(n, sizeof *last_steps);
    for (size_t i = 0; i < n; i++) timed[i] = &crowds[i];
    run_in_turns(timed, n, on_cpu ? &cpu : &device, TURNS, MIN_TURNS, last_steps);
    size_t n_quick = 0;
    for (size_t i = 0; i < n; i++)
        if (last_steps[i] <= max_step_with_baseline) timed[n_quick++] = &crowds[i];
    run_in_turns(timed, n_quick, on_cpu ? &plain : &cpu, 1, 1, last_steps);
    free(timed);
    free(last_steps);
}
