/* bench_hostile.c - hostile scenes (tests/scenes/hostile.h), for hostile.py and polls.py:
 *
 *     bench_hostile kinds                            the names of all kinds of shapes
 *     bench_hostile shape KIND TRIANGLES VARIANT     writes a mesh: two uint32 counts, float32 positions, uint32
 * triangles bench_hostile run CALLS LIMIT GIVE_UP WORD...  calls the engine on a scene of these words (hostile_scene.h)
 *
 * CALLS: "step", "files" (the first shape, read in each format), "repair" (the same with defects), "picture", or "all".
 * Each call of the engine is ended after LIMIT s. Prints a line of JSON for each: how it ended, how long it took, and
 * the longest time for which it did not poll; in the end the stacks where it did not. After GIVE_UP s in one call it
 * prints what it knows and ends with exit code 3. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/base/cancel.h"
#include "gpu/base/clock.h"
#include "gpu/include/snapshot.h"
#include "tests/scenes/build.h"
#include "tests/scenes/hostile_scene.h"
#include "tests/scenes/mesh_files.h"
#include "tests/scenes/polls.h"

/* s: stacks are of threads that have not polled for so long. */
static const double too_long = 0.005;

static polls_stacks stacks;
static double limit, give_up;

/* ---- calls, one at a time ---- */

static struct {
    const char *name;
    double began;
    ct_cancel cancel;
    pthread_mutex_t mutex; /* held while lines are printed */
} call = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void print_text(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putchar('\\');
        putchar((unsigned char)*text < 32 ? ' ' : *text);
    }
    putchar('"');
}

static void print_stacks(void) {
    const uint32_t n = stacks.n < POLLS_STACKS ? stacks.n : POLLS_STACKS;
    printf("{\"stacks\":[");
    for (uint32_t i = 0; i < n; i++) {
        const polls_stack *stack = &stacks.of[i];
        printf("%s{\"after\":%s,\"since\":%.6g,\"frames\":[", i ? "," : "", stack->is_after ? "true" : "false",
               stack->since);
        for (int f = 0; f < stack->depth; f++) printf("%s\"%p\"", f ? "," : "", stack->frames[f]);
        printf("]}");
    }
    printf("],\"print_stacks\":\"%p\"}\n", (void *)(uintptr_t)print_stacks);
    fflush(stdout);
}

static void begin(const char *name) {
    pthread_mutex_lock(&call.mutex);
    call.name = name;
    call.began = ct_now();
    ct_cancel_init(&call.cancel, limit);
    pthread_mutex_unlock(&call.mutex);
    ct_cancel_scope(&call.cancel);
    polls_begin();
}

static void end(ct_status status, const ct_error *error, const char *more) {
    const polls_seen seen = polls_end();
    ct_cancel_scope(NULL);
    pthread_mutex_lock(&call.mutex);
    printf("{\"call\":\"%s\",\"status\":\"%s\",\"seconds\":%.6g,\"polls\":%llu,\"longest\":%.6g,\"goes_on\":%.6g,"
           "\"phase\":\"%s\",\"message\":",
           call.name, ct_status_name(status), ct_now() - call.began, (unsigned long long)seen.polls, seen.longest,
           seen.goes_on, seen.phase ? seen.phase : "");
    print_text(status ? error->message : more);
    printf("}\n");
    fflush(stdout);
    call.name = NULL;
    pthread_mutex_unlock(&call.mutex);
}

static void *watch(void *unused) {
    (void)unused;
    for (;;) {
        usleep(50000);
        pthread_mutex_lock(&call.mutex);
        if (call.name && ct_now() - call.began > give_up) {
            const char *phase = ct_cancel_phase(&call.cancel);
            printf("{\"call\":\"%s\",\"status\":\"HANGS\",\"seconds\":%.6g,\"phase\":\"%s\"}\n", call.name,
                   ct_now() - call.began, phase ? phase : "");
            print_stacks();
            _exit(3);
        }
        pthread_mutex_unlock(&call.mutex);
    }
}

/* ---- what is called ---- */

static void run_step(hostile_stage *stage, const hostile_scene *scene) {
    char more[128];
    ct_step step = hostile_step(stage, scene);
    begin("step");
    const ct_status status = ct_engine_run(stage->engine, &step, 1);
    snprintf(more, sizeof more, "%zu contacts, %zu separations, %llu pairs",
             status ? (size_t)0 : step.result->n_contacts, status ? (size_t)0 : step.result->n_separations,
             status ? 0ULL : (unsigned long long)step.result->pairs);
    end(status, &step.error, more);
    begin("free result");
    ct_result_free(&step.result);
    end(CT_OK, NULL, "");
}

static void read_files(const struct shape *shape) {
    for (int kind = 0; kind < MESH_FILE_KINDS; kind++) {
        size_t size;
        void *bytes = mesh_file_write(shape, (mesh_file_kind)kind, &size);
        ct_mesh *mesh = NULL;
        ct_error error = {0};
        begin(mesh_file_name((mesh_file_kind)kind));
        const ct_status status = ct_mesh_read(bytes, size, CT_FORMAT_AUTO, NULL, &mesh, &error);
        end(status, &error, "");
        ct_mesh_release(&mesh);
        free(bytes);
    }
}

static void repair(const struct shape *shape) {
    for (int defect = 0; defect < MESH_DEFECTS; defect++) {
        struct shape damaged = mesh_defect(shape, (mesh_defect_kind)defect);
        ct_mesh_options options;
        ct_mesh_options_init(&options);
        options.repair = true;
        options.max_hole = 1e3;
        ct_mesh *mesh = NULL;
        ct_error error = {0};
        ct_mesh_changes changes;
        begin(mesh_defect_name((mesh_defect_kind)defect));
        const ct_status status = ct_mesh_create_with(damaged.positions, CT_F32, damaged.n_vertices, damaged.triangles,
                                                     damaged.n_triangles, &options, &mesh, &changes, &error);
        end(status, &error, "");
        ct_mesh_release(&mesh);
        shape_free(&damaged);
    }
}

static void draw(hostile_stage *stage) {
    static const struct {
        const char *name;
        uint32_t show;
    } shows[] = {{"picture of samples", CT_SHOW_DEFAULT},
                 {"picture of contacts", CT_SHOW_CONTACTS | CT_SHOW_GRADIENTS},
                 {"picture of rays", CT_SHOW_RAYS},
                 {"picture of cubes", CT_SHOW_NODES | CT_SHOW_NORMALS}};
    for (size_t i = 0; i < sizeof shows / sizeof *shows; i++) {
        ct_snapshot_options options;
        ct_snapshot_options_init(&options);
        options.show = shows[i].show;
        options.width = options.height = 2048;
        if (options.show & CT_SHOW_SAMPLES) options.resolution = 1024;
        ct_snapshot *snapshot = NULL;
        ct_error error = {0};
        begin(shows[i].name);
        ct_status status = ct_snapshot_take(stage->scene, &options, &snapshot, &error);
        end(status, &error, "taken");
        if (!snapshot) continue;
        uint8_t *pixels = shape_alloc(4 * (uint64_t)options.width, options.height), *png = NULL;
        size_t size;
        begin("drawing");
        status = ct_snapshot_draw(snapshot, pixels, &error);
        end(status, &error, "drawn");
        if (!status) {
            begin("png");
            status = ct_snapshot_png(options.width, options.height, pixels, &png, &size, &error);
            end(status, &error, "encoded");
        }
        free(png), free(pixels);
        ct_snapshot_free(&snapshot);
    }
}

/* What a scene takes from its meshes when its method changes, and when a body gets another mesh. */
static void change_scene(hostile_stage *stage, const hostile_scene *scene, const struct shape *shape) {
    static const ct_method methods[] = {CT_METHOD_VOXTREE, CT_METHOD_EXACT, CT_METHOD_EBPI, CT_METHOD_LDI};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        ct_scene_settings settings = hostile_scene_default().settings;
        settings.method = methods[i];
        if (methods[i] == CT_METHOD_VOXTREE) settings.voxel_level = CT_MAX_VOXEL_LEVEL;
        if (methods[i] == CT_METHOD_EBPI) settings.tolerance_rel = 0.01;
        ct_error error = {0};
        begin("configure");
        const ct_status status = ct_scene_configure(stage->scene, &settings, &error);
        end(status, &error, ct_method_name(methods[i]));
    }
    ct_error error = {0};
    begin("make");
    ct_mesh *mesh = shape_to_mesh(shape, &error);
    end(error.status, &error, "");
    if (mesh) {
        begin("replace mesh");
        const ct_status status = ct_scene_replace_mesh(stage->scene, stage->bodies[0], mesh, &error);
        end(status, &error, "");
    }
    ct_mesh_release(&mesh);
    (void)scene;
}

static int run(int n, char **words) {
    const char *calls = words[0];
    const bool is_all = !strcmp(calls, "all");
    limit = strtod(words[1], NULL);
    give_up = strtod(words[2], NULL);
    hostile_scene scene = hostile_scene_default();
    for (int i = 3; i < n; i++)
        if (!hostile_scene_set(&scene, words[i])) {
            fprintf(stderr, "bench_hostile: %s: no such word\n", words[i]);
            return 2;
        }
    struct shape shapes[2];
    hostile_scene_shapes(&scene, shapes);
    printf("{\"triangles\":[%u,%u],\"bytes\":%llu}\n", shapes[0].n_triangles, shapes[1].n_triangles,
           (unsigned long long)(hostile_bytes(&shapes[0]) + hostile_bytes(&shapes[1])));
    pthread_t watcher;
    pthread_create(&watcher, NULL, watch, NULL);
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = "cpu";
    options.threads = 2;
    options.max_scratch_bytes = (uint64_t)2 << 30;
    ct_engine *engine = NULL;
    ct_error error = {0};
    if (ct_engine_create(&options, &engine, &error)) {
        fprintf(stderr, "bench_hostile: %s\n", error.message);
        return 1;
    }
    polls_sample(&stacks, too_long);
    if (is_all || !strcmp(calls, "files")) read_files(&shapes[0]);
    if (is_all || !strcmp(calls, "repair")) repair(&shapes[0]);
    if (is_all || !strcmp(calls, "step") || !strcmp(calls, "picture")) {
        hostile_stage stage;
        begin("open");
        const ct_status status = hostile_open(&stage, engine, &scene, shapes, &error);
        end(status, &error, "");
        if (status == CT_OK && strcmp(calls, "picture") != 0) run_step(&stage, &scene);
        if (status == CT_OK && (is_all || !strcmp(calls, "picture"))) draw(&stage);
        if (status == CT_OK && is_all) change_scene(&stage, &scene, &shapes[0]);
        begin("close");
        hostile_close(&stage);
        end(CT_OK, NULL, "");
    }
    begin("destroy the engine");
    ct_engine_destroy(&engine);
    end(CT_OK, NULL, "");
    print_stacks();
    for (int s = 0; s < 2; s++) shape_free(&shapes[s]);
    return 0;
}

static int write_shape(char **words) {
    const hostile_kind kind = hostile_find(words[0]);
    if (kind == HOSTILE_KINDS) {
        fprintf(stderr, "bench_hostile: %s: no such kind of shape\n", words[0]);
        return 2;
    }
    struct shape shape = hostile_shape(kind, (uint32_t)strtoul(words[1], NULL, 10), atoi(words[2]), 1);
    const uint32_t counts[2] = {shape.n_vertices, shape.n_triangles};
    const bool is_written = fwrite(counts, sizeof counts, 1, stdout) == 1 &&
                            fwrite(shape.positions, 12, shape.n_vertices, stdout) == shape.n_vertices &&
                            fwrite(shape.triangles, 12, shape.n_triangles, stdout) == shape.n_triangles;
    shape_free(&shape);
    return is_written && !fflush(stdout) ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "kinds")) {
        for (int kind = 0; kind < HOSTILE_KINDS; kind++) puts(hostile_name((hostile_kind)kind));
        return 0;
    }
    if (argc == 5 && !strcmp(argv[1], "shape")) return write_shape(argv + 2);
    if (argc >= 5 && !strcmp(argv[1], "run")) return run(argc - 2, argv + 2);
    fprintf(stderr, "usage: bench_hostile kinds | shape KIND TRIANGLES VARIANT | run CALLS LIMIT GIVE_UP WORD...\n");
    return 2;
}
