/* check.c - checks every device of a backend, without a test library: for machines that have only a GPU and a compiler.
 * tests/gpu-check.sh runs it.
 *
 *   check [--backend cuda|cpu] [--rasterizer native|egl] [--short]
 *
 * Each golden scene must give its hash on each device, and the methods exact and ebpi the bits of this machine's CPU. A
 * step must copy no more bytes than changed, and launch few kernels, however many scenes are in the batch. Memory must
 * be freed, pinned memory counted, and a budget that is too small must be an error that names it. --short leaves out
 * what takes long under compute-sanitizer. Exit code 0: all checks passed, 1: some failed, 3: no such backend.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/golden.h"
#include "tests/scenes/stage.h"

enum { NO_BACKEND = 3, OVERHEAD = 64 << 10 };

static unsigned n_checks, n_failed;

__attribute__((format(printf, 2, 3))) static void check(bool good, const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("%-4s ", good ? "ok" : "FAIL");
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    n_checks++;
    n_failed += !good;
    fflush(stdout);
}

static const char *rasterizer = "native";

static ct_engine *make_engine(const char *backend, const char *devices, uint64_t device_bytes) {
    ct_error error = {0};
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = backend;
    options.rasterizer = rasterizer;
    options.devices = devices;
    options.max_device_bytes = device_bytes;
    ct_engine *engine = NULL;
    if (ct_engine_create(&options, &engine, &error) == CT_OK) return engine;
    fprintf(stderr, "check: backend %s, rasterizer %s, devices %s: %s\n", backend, rasterizer, devices, error.message);
    exit(error.status == CT_UNSUPPORTED ? NO_BACKEND : 1);
}

static ct_engine_facts facts_of(const ct_engine *engine) {
    ct_engine_facts facts;
    ct_engine_get_facts(engine, 0, &facts);
    return facts;
}

/* ---- the same bits ---- */

static void check_bits(ct_engine *engine, const char *device, bool brief) {
    for (size_t scene = 0; golden_name(scene); scene++) {
        if (brief && !strstr("moving, pile, crowd", golden_name(scene))) continue;
        struct golden_answer answer = golden_run(engine, scene);
        check(answer.contacts > 0 && strcmp(answer.hash, golden_hash(scene)) == 0,
              "%s: %s: %" PRIu64 " contacts, %" PRIu64 " fragments, hash %s, expected %s", device, golden_name(scene),
              answer.contacts, answer.fragments, answer.hash, golden_hash(scene));
    }
}

/* ---- the method exact ---- */

enum { EXACT_PAIRS = 12 };

/* Pair i of bodies: crossing in all ways, nested, identical, stacked; is_own: as the shells of one body, and its
 * contact with itself. The result's hash and bound go to `hash`. */
static uint64_t run_exact(ct_engine *engine, int i, bool is_own, char hash[60]) {
    struct shape shapes[] = {shape_torus(0.8, 0.35, 96, 48), shape_blob(1, 5, 0.4, 7), shape_cube(1, 9),
                             shape_box(2, 2, 0.5), shape_bolt(0.9, 0.2, 0.3, 4, 60, 30)};
    const int n = sizeof shapes / sizeof *shapes;
    double pose[12];
    uint64_t rng = (uint64_t)i;
    shape_pose_identity(pose);
    if (i % 3 == 1) shape_pose_random(&rng, 0.4, pose);
    if (i % 3 == 2) pose[11] = 0.75;
    const ct_scene_settings settings = stage_exact();
    struct shape second = shape_copy(&shapes[i / 3 % n]);
    shape_transform(&second, pose);
    struct shape both = shape_merge(&shapes[i % n], &second);
    const struct placed own = {&both, NULL, i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE, .self_contact = 1};
    const struct placed pair[] = {{&shapes[i % n], NULL, CT_BODY_DEFORMABLE},
                                  {&shapes[i / 3 % n], pose, CT_BODY_RIGID}};
    struct stage stage = stage_open(engine, &settings, is_own ? &own : pair, is_own ? 1 : 2);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    const uint64_t contacts = result->n_contacts;
    stage_hash(result, hash);
    snprintf(hash + 32, 28, " %a", contacts ? result->contacts->error_bound : 0.0);
    ct_result_free(&result);
    stage_close(&stage);
    for (int k = 0; k < n; k++) shape_free(&shapes[k]);
    shape_free(&second);
    shape_free(&both);
    return contacts;
}

/* The bits of the CPU of the machine. */
static void check_exact(ct_engine *engine, const char *device, bool brief) {
    ct_engine *cpu = stage_engine(0, NULL);
    for (int i = 0; i < 2 * (brief ? 3 : EXACT_PAIRS); i++) {
        const bool is_own = i % 2;
        char expected[60], hash[60];
        run_exact(cpu, i / 2, is_own, expected);
        const uint64_t contacts = run_exact(engine, i / 2, is_own, hash);
        check(!strcmp(hash, expected), "%s: exact, %s %d: %" PRIu64 " contacts, hash and bound %s, expected %s", device,
              is_own ? "body with itself" : "pair", i / 2, contacts, hash, expected);
    }
    ct_engine_destroy(&cpu);
}

/* ---- the method ebpi ---- */

enum { EBPI_PAIRS = 6 };

/* Pair i of bodies, by each allocation and bound. The result's hash and bound go to `hash`. */
static uint64_t run_ebpi(ct_engine *engine, int i, char hash[60]) {
    struct shape shapes[] = {shape_torus(0.8, 0.35, 48, 24), shape_blob(1, 4, 0.4, 7), shape_box(2, 2, 0.5)};
    const int n = sizeof shapes / sizeof *shapes;
    double pose[12];
    uint64_t rng = (uint64_t)i + 1;
    shape_pose_random(&rng, 0.4, pose);
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EBPI;
    settings.tolerance_rel = 0.05;
    settings.strict = i & 1;
    settings.allocation = (ct_allocation)(i / 2 % 3);
    struct stage stage = stage_open(
        engine, &settings,
        (struct placed[]){{&shapes[i % n], NULL, CT_BODY_DEFORMABLE}, {&shapes[(i + 1) % n], pose, CT_BODY_RIGID}}, 2);
    ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    const uint64_t contacts = result->n_contacts;
    stage_hash(result, hash);
    snprintf(hash + 32, 28, " %a", contacts ? result->contacts->error_bound : 0.0);
    ct_result_free(&result);
    stage_close(&stage);
    for (int k = 0; k < n; k++) shape_free(&shapes[k]);
    return contacts;
}

/* The bits of the CPU of the machine. */
static void check_ebpi(ct_engine *engine, const char *device, bool brief) {
    ct_engine *cpu = stage_engine(0, NULL);
    for (int i = 0; i < (brief ? 2 : EBPI_PAIRS); i++) {
        char expected[60], hash[60];
        run_ebpi(cpu, i, expected);
        const uint64_t contacts = run_ebpi(engine, i, hash);
        check(!strcmp(hash, expected), "%s: ebpi, pair %d: %" PRIu64 " contacts, hash and bound %s, expected %s",
              device, i, contacts, hash, expected);
    }
    ct_engine_destroy(&cpu);
}

/* ---- traffic, launches, memory ---- */

static struct stage open_pair(ct_engine *engine, ct_method method) {
    struct shape soft = shape_torus(0.8, 0.35, 96, 48), tool = shape_torus(0.6, 0.3, 64, 32);
    const ct_scene_settings settings = method == CT_METHOD_EXACT ? stage_exact() : stage_resolution(32);
    struct stage stage = stage_open(
        engine, &settings, (struct placed[]){{&soft, NULL, CT_BODY_DEFORMABLE}, {&tool, NULL, CT_BODY_RIGID}}, 2);
    shape_free(&soft);
    shape_free(&tool);
    return stage;
}

static ct_update pose_of(const struct stage *stage, int k) {
    ct_update update = {.body = stage->body[1], .kind = CT_UPDATE_POSE};
    shape_pose_identity(update.pose);
    update.pose[3] = 0.3 + 0.01 * k;
    return update;
}

static void check_traffic(ct_engine *engine, const char *device, ct_method method) {
    struct stage stage = open_pair(engine, method);
    ct_body_info body;
    ct_scene_body_at(stage.scene, 0, &body);
    size_t bytes = body.vertices * 12;
    float *positions = malloc(bytes);
    memcpy(positions, ct_mesh_positions(body.mesh), bytes);
    for (int k = 0; k < 3; k++) { /* only the last round is checked, when the tables have grown */
        ct_update updates[2] = {pose_of(&stage, k),
                                {.body = stage.body[0],
                                 .kind = CT_UPDATE_POSITIONS,
                                 .positions = positions,
                                 .dtype = CT_F32,
                                 .count = body.vertices}};
        for (size_t n = 1; n <= 2; n++) {
            ct_engine_facts before = facts_of(engine);
            ct_result *result = stage_step(&stage, updates, n, CT_WANT_FRAME);
            ct_engine_facts after = facts_of(engine);
            ct_result_free(&result);
            if (k < 2) continue;
            uint64_t up = after.uploaded - before.uploaded, down = after.downloaded - before.downloaded;
            uint64_t changed = n == 2 ? bytes : 0;
            check(up >= changed && up <= changed + OVERHEAD,
                  "%s: %" PRIu64 " bytes sent where %" PRIu64 " of positions changed", device, up, changed);
            check(down <= OVERHEAD, "%s: %" PRIu64 " bytes received without a gradient", device, down);
        }
    }
    free(positions);
    stage_close(&stage);
}

static uint64_t launches_of(ct_engine *engine, size_t n, ct_method method) {
    enum { MOST = 64 };
    struct stage stages[MOST];
    ct_step steps[MOST];
    uint64_t launches = 0;
    for (size_t i = 0; i < n; i++) stages[i] = open_pair(engine, method);
    for (int again = 0; again < 2; again++) { /* the first batch may grow the tables */
        for (size_t i = 0; i < n; i++) steps[i] = (ct_step){.scene = stages[i].scene, .want = CT_WANT_ALL};
        uint64_t before = facts_of(engine).launches;
        if (ct_engine_run(engine, steps, n)) check(false, "a batch of %zu failed", n);
        launches = facts_of(engine).launches - before;
        for (size_t i = 0; i < n; i++) ct_result_free(&steps[i].result);
    }
    for (size_t i = 0; i < n; i++) stage_close(&stages[i]);
    return launches;
}

static void check_launches(ct_engine *engine, const char *device, ct_method method) {
    uint64_t one = launches_of(engine, 1, method), many = launches_of(engine, 64, method);
    const int most = method == CT_METHOD_EXACT ? 16 : 15;
    check(one > 0 && one <= (uint64_t)most, "%s: %s: %" PRIu64 " launches for a step, at most %d wanted", device,
          ct_method_name(method), one, most);
    check(many == one, "%s: %s: %" PRIu64 " launches for a batch of 64 steps, as for one", device,
          ct_method_name(method), many);
}

static void check_freed_memory(ct_engine *engine, const char *device) {
    struct shape shape = shape_torus(0.8, 0.35, 200, 100);
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(&shape, &error);
    shape_free(&shape);
    ct_engine_facts before = facts_of(engine);
    ct_scene_settings settings = stage_resolution(16);
    ct_body_options options;
    ct_scene *scene = NULL;
    uint32_t body;
    ct_body_options_init(&options);
    ct_scene_create(engine, &settings, &scene, &error);
    ct_scene_add_body(scene, mesh, &options, &body, &error);
    ct_engine_facts held = facts_of(engine);
    ct_scene_destroy(&scene);
    ct_engine_forget_mesh(engine, mesh);
    ct_engine_facts after = facts_of(engine);
    check(held.memory_meshes > before.memory_meshes && held.memory_bodies > before.memory_bodies,
          "%s: a mesh takes %" PRIu64 " bytes, its body %" PRIu64, device, held.memory_meshes - before.memory_meshes,
          held.memory_bodies - before.memory_bodies);
    check(after.memory_meshes == before.memory_meshes && after.memory_bodies == before.memory_bodies,
          "%s: both come back: %" PRIu64 " and %" PRIu64 " bytes held, as before", device, after.memory_meshes,
          after.memory_bodies);
    ct_mesh_release(&mesh);
}

/* A step that asks for spans writes them into pinned memory, which is counted as scratch and freed with the engine. */
static void check_pinned_memory(ct_engine *engine, const char *device) {
    struct stage stage = open_pair(engine, CT_METHOD_LDI);
    uint64_t scratch[2] = {0};
    for (int spans = 0; spans < 2; spans++) {
        ct_result *result = stage_step(&stage, NULL, 0, spans ? CT_WANT_SPANS : 0);
        ct_engine_facts facts = facts_of(engine);
        scratch[spans] = facts.scratch_bytes;
        if (spans)
            check(result->n_spans > 0 && scratch[1] >= scratch[0] && scratch[1] >= result->n_spans * sizeof(ct_span) &&
                      facts.memory_used <= facts.memory_budget,
                  "%s: %" PRIu64 " spans, %" PRIu64 " bytes of scratch with them, %" PRIu64 " before", device,
                  result->n_spans, scratch[1], scratch[0]);
        ct_result_free(&result);
    }
    stage_close(&stage);
}

static void check_budget(const char *backend, const char *device) {
    const uint64_t budget = 64 << 20;
    ct_engine *engine = make_engine(backend, device, budget);
    struct shape shape = shape_torus(0.8, 0.35, 1000, 500); /* 1M triangles: 6 MB of positions, 12 MB of corners */
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(&shape, &error);
    shape_free(&shape);
    ct_scene_settings settings = stage_resolution(16);
    ct_body_options options;
    ct_scene *scene = NULL;
    uint32_t body;
    ct_body_options_init(&options);
    ct_scene_create(engine, &settings, &scene, &error);
    ct_status status = CT_OK;
    int n = 0;
    while (n < 64 && (status = ct_scene_add_body(scene, mesh, &options, &body, &error)) == CT_OK) n++;
    check(n > 0 && status == CT_OUT_OF_MEMORY, "%s: with a budget of 64 MiB, body %d is refused: %s", device, n + 1,
          error.message);
    ct_engine_facts facts = facts_of(engine);
    check(facts.memory_budget == budget && facts.memory_used <= budget, "%s: %" PRIu64 " of %" PRIu64 " bytes in use",
          device, facts.memory_used, facts.memory_budget);
    ct_scene_destroy(&scene);
    ct_mesh_release(&mesh);
    ct_engine_destroy(&engine);
}

int main(int argc, char **argv) {
    const char *backend = "cuda";
    bool brief = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--short"))
            brief = true;
        else if (!strcmp(argv[i], "--backend") && i + 1 < argc)
            backend = argv[++i];
        else if (!strcmp(argv[i], "--rasterizer") && i + 1 < argc)
            rasterizer = argv[++i];
        else
            return fprintf(stderr, "check: unknown option %s\n", argv[i]), 2;
    }
    ct_engine *all = make_engine(backend, "all", 0);
    size_t n = ct_engine_device_count(all);
    for (size_t d = 0; d < n; d++) {
        ct_engine_facts facts;
        ct_engine_get_facts(all, d, &facts);
        printf("device %zu: %s, %s, budget %" PRIu64 " MiB\n", d, facts.backend, facts.device,
               facts.memory_budget >> 20);
    }
    ct_engine_destroy(&all);
    bool has_memory = strcmp(backend, "cpu") != 0;
    for (size_t d = 0; d < n; d++) {
        char device[24];
        snprintf(device, sizeof device, "%zu", d);
        ct_engine *engine = make_engine(backend, device, 0);
        check_bits(engine, device, brief);
        check_exact(engine, device, brief);
        check_ebpi(engine, device, brief);
        if (has_memory) {
            static const ct_method methods[] = {CT_METHOD_LDI, CT_METHOD_EXACT};
            for (int m = 0; m < 2; m++) {
                check_traffic(engine, device, methods[m]);
                if (!brief) check_launches(engine, device, methods[m]);
            }
            check_freed_memory(engine, device);
            check_pinned_memory(engine, device);
        }
        ct_engine_destroy(&engine);
        if (has_memory && !brief) check_budget(backend, device);
    }
    if (!brief && has_memory) { /* the hashes must be this machine's CPU's too */
        rasterizer = "native";
        ct_engine *cpu = make_engine("cpu", "all", 0);
        check_bits(cpu, "cpu", false);
        ct_engine_destroy(&cpu);
    }
    printf("%u checks, %u failed\n", n_checks, n_failed);
    return n_failed != 0;
}
