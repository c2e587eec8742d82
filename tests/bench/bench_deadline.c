/* bench_deadline.c - how the method voxtree keeps to deadlines, and what its trees take. Prints a line of JSON for each
 * scene, and one for a tree.
 *
 *   bench_deadline [SECONDS [MESHES]]
 *
 * The bodies are scanned meshes of the folder MESHES, or generated ones of the same size. Those that move are elsewhere
 * at each step. "over_us" is the time beyond the budget of the steps that the budget ended. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/include/contact.h"
#include "gpu/methods/voxtree/tree.h"
#include "tests/bench/samples.h"
#include "tests/scenes/build.h"
#include "tests/scenes/stage.h"

enum { MAX_BODIES = 256, WARM_UP = 3, MAX_STEPS = 20000 };

typedef struct deadline_scene {
    const char *name;
    ct_mesh *mesh; /* of all bodies */
    double start[MAX_BODIES][12];
    int n_bodies;
    uint32_t threads, voxel_level, level;
    double time_budget; /* s; 0: none */
    double reach;       /* m: how far bodies stray along each axis */
} deadline_scene;

static double seconds = 3;

/* A ring; or the file, if it is there. */
static ct_mesh *make_mesh(const char *file, int around) {
    ct_mesh *mesh = file ? stage_scanned_mesh(file) : NULL;
    if (mesh) return mesh;
    struct shape torus = shape_torus(0.6, 0.35, around, around);
    mesh = shape_to_mesh(&torus, NULL);
    shape_free(&torus);
    if (!mesh) abort();
    return mesh;
}

static void run(const deadline_scene *of) {
    ct_engine *engine = stage_engine(of->threads, NULL);
    ct_scene_settings settings = stage_voxtree(of->voxel_level, of->level);
    struct stage stage = {.engine = engine};
    ct_update *updates = shape_alloc(MAX_BODIES, sizeof *updates);
    ct_error error = {0};
    if (ct_scene_create(engine, &settings, &stage.scene, &error)) abort();
    for (int i = 0; i < of->n_bodies; i++) {
        ct_body_options options;
        ct_body_options_init(&options);
        options.kind = CT_BODY_RIGID;
        updates[i] = (ct_update){.kind = CT_UPDATE_POSE};
        if (ct_scene_add_body(stage.scene, of->mesh, &options, &updates[i].body, &error)) {
            fprintf(stderr, "bench_deadline: %s: %s\n", of->name, error.message);
            exit(1);
        }
    }
    bench_samples us = {0}, over = {0};
    uint64_t rng = 1, n_pairs = 0, n_examined = 0, n_contacts = 0;
    double quality = 0, end = bench_now() + seconds;
    int n = 0;
    for (int step = 0; step < MAX_STEPS && (step <= WARM_UP || bench_now() < end); step++) {
        for (int i = 0; i < of->n_bodies; i++) {
            memcpy(updates[i].pose, of->start[i], sizeof updates[i].pose);
            for (int k = 0; k < 3; k++) updates[i].pose[4 * k + 3] += of->reach * shape_uniform(&rng, -1, 1);
        }
        ct_step job = {.scene = stage.scene,
                       .updates = updates,
                       .n_updates = (size_t)of->n_bodies,
                       .want = CT_WANT_FRAME,
                       .time_budget = of->time_budget};
        const double begin = bench_now();
        const ct_status status = ct_engine_run(engine, &job, 1);
        const double took = bench_now() - begin;
        if (status) {
            fprintf(stderr, "bench_deadline: %s: %s\n", of->name, job.error.message);
            exit(1);
        }
        if (step >= WARM_UP) {
            bench_add(&us, 1e6 * took);
            if (job.result->ended == CT_ENDED_TIME) bench_add(&over, 1e6 * (took - of->time_budget));
            for (uint64_t i = 0; i < job.result->n_progress; i++) n_examined += job.result->progress[i].is_examined;
            n_pairs += job.result->n_progress;
            n_contacts += job.result->n_contacts;
            quality += job.result->quality;
            n++;
        }
        ct_result_free(&job.result);
    }
    ct_mesh_info info = {0};
    ct_mesh_get_info(of->mesh, &info);
    printf("{\"scene\":\"%s\",\"bodies\":%d,\"triangles\":%llu,\"threads\":%u,\"budget_us\":%g,\"steps\":%d,"
           "\"ended_by_time\":%zu,\"us\":{\"p10\":%.6g,\"p50\":%.6g,\"p90\":%.6g,\"p99\":%.6g},",
           of->name, of->n_bodies, (unsigned long long)info.triangles, of->threads, 1e6 * of->time_budget, n,
           over.count, bench_quantile(&us, 0.1), bench_quantile(&us, 0.5), bench_quantile(&us, 0.9),
           bench_quantile(&us, 0.99));
    printf("\"over_us\":{\"p50\":%.6g,\"p99\":%.6g,\"max\":%.6g},\"pairs\":%.6g,\"examined\":%.6g,\"contacts\":%.6g,"
           "\"quality\":%.6g}\n",
           bench_quantile(&over, 0.5), bench_quantile(&over, 0.99), bench_quantile(&over, 1), (double)n_pairs / n,
           n_pairs ? (double)n_examined / (double)n_pairs : 0, (double)n_contacts / n, quality / n);
    fflush(stdout);
    bench_free(&us);
    bench_free(&over);
    free(updates);
    ct_scene_destroy(&stage.scene);
    ct_engine_destroy(&engine);
}

/* Deep in each other, in general positions. */
static void two_bodies(const char *name, ct_mesh *mesh, uint32_t level, double time_budget) {
    deadline_scene scene = {.name = name,
                            .mesh = mesh,
                            .n_bodies = 2,
                            .threads = 1,
                            .voxel_level = level ? level : CT_MAX_VOXEL_LEVEL,
                            .level = level,
                            .time_budget = time_budget,
                            .reach = 0.01};
    shape_pose_identity(scene.start[0]);
    shape_pose_axis((const double[]){0.4, 0.9, 0.2}, 0.5, (const double[]){0.1, 0.05, 0.02}, scene.start[1]);
    run(&scene);
}

/* Eight by eight bodies in four layers, turned at random; each overlaps its neighbours. */
static void pile(const char *name, ct_mesh *mesh, double time_budget) {
    deadline_scene scene = {
        .name = name, .mesh = mesh, .n_bodies = 256, .threads = 2, .time_budget = time_budget, .reach = 0.02};
    uint64_t rng = 256;
    for (int i = 0; i < scene.n_bodies; i++) {
        double *pose = scene.start[i];
        shape_pose_random(&rng, 0, pose);
        pose[3] = 1.5 * (i % 8), pose[7] = 1.5 * (i / 8 % 8), pose[11] = 1.5 * (i / 64);
    }
    run(&scene);
}

/* Of the mesh, which must have none of this level; "bytes_per_node" are of all levels and their indices. */
static void build_tree(ct_mesh *mesh, uint32_t level) {
    const double begin = bench_now();
    const ct_voxel_tree *tree = ct_voxel_tree_of(mesh, level, NULL);
    const double took = bench_now() - begin;
    if (!tree) abort();
    ct_mesh_info info = {0};
    ct_mesh_get_info(mesh, &info);
    printf("{\"scene\":\"voxtree_tree\",\"triangles\":%llu,\"level\":%u,\"ms\":%.6g,\"nodes\":%llu,\"bytes\":%llu,"
           "\"bytes_per_node\":%.4g}\n",
           (unsigned long long)info.triangles, level, 1e3 * took, (unsigned long long)tree->n_nodes,
           (unsigned long long)tree->bytes, (double)tree->bytes / (double)tree->n_nodes);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc > 1) seconds = atof(argv[1]);
    if (argc > 3 || !(seconds > 0)) {
        fputs("usage: bench_deadline [SECONDS [MESHES]]\n", stderr);
        return 2;
    }
    if (argc > 2) setenv("CONTACTD_MESHES", argv[2], 1);
    ct_mesh *armadillo = make_mesh("armadillo_346k.ply", 416), *ring = make_mesh(NULL, 132);
    build_tree(armadillo, 7);
    two_bodies("voxtree_armadillos", armadillo, 5, 0);
    two_bodies("voxtree_overshoot", armadillo, 0, 200e-6);
    pile("voxtree_pile_256", ring, 2e-3);
    ct_mesh_release(&armadillo);
    ct_mesh_release(&ring);
    return 0;
}
