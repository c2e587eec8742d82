/* crowd_scenes.c - scenes in which little of the meshes touches: the cost should follow the contact, not the meshes. */
#include <stdio.h>
#include <string.h>

#include "tests/bench/crowd.h"
#include "tests/bench/engine.h"
#include "tests/bench/ground.h"
#include "tests/bench/poses.h"

static ct_mesh *mesh_of(struct shape shape) {
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(&shape, &error);
    if (!mesh) die("generated mesh: %s", error.message);
    shape_free(&shape);
    return mesh;
}

/* ---- tori on a slab ---- */

typedef enum motion { POSES_SENT, POSITIONS_SENT, NOTHING_SENT } motion;

static const struct ground_scene {
    const char *name;
    int slab; /* squares along a side */
    unsigned n_tori;
    motion motion;
    uint32_t resolution; /* as crowd.resolution */
} ground_scenes[] = {
    {"ground_coarse_256", GROUND_COARSE, 256, POSES_SENT, 32},
    {"ground_16", GROUND_FINE, 16, POSES_SENT, 32},
    {"ground_64", GROUND_FINE, 64, POSES_SENT, 32},
    {"ground_256", GROUND_FINE, 256, POSES_SENT, 32},
    {"ground_1024", GROUND_FINE, 1024, POSES_SENT, 32},
    {"ground_4096", GROUND_FINE, 4096, POSES_SENT, 32},
    {"ground_256_deforming", GROUND_FINE, 256, POSITIONS_SENT, 32},
    {"ground_256_resting", GROUND_FINE, 256, NOTHING_SENT, 32},
    {"exact_ground_256", GROUND_FINE, 256, POSES_SENT, 0},
    {"exact_ground_256_resting", GROUND_FINE, 256, NOTHING_SENT, 0},
};
enum { N_GROUND_SCENES = sizeof ground_scenes / sizeof *ground_scenes };

static crowd lay_tori(const struct ground_scene *scene, ct_mesh *slab, ct_mesh *torus) {
    double pose[12];
    crowd crowd = crowd_begin(scene->name, scene->n_tori + 1, scene->resolution);
    crowd.kinds[0] = scene->slab == GROUND_FINE ? "slab 399,420" : "slab 6,396";
    crowd.kinds[1] = "tori of 1,024";
    crowd.n_pairs = crowd.n_contacts = scene->n_tori;
    shape_pose_identity(pose);
    crowd_add(&crowd, slab, pose, 0, false);
    for (unsigned i = 0; i < scene->n_tori; i++) {
        ground_torus_pose(i, scene->n_tori, pose);
        crowd_add(&crowd, torus, pose, scene->motion == NOTHING_SENT ? 0 : ground_reach,
                  scene->motion == POSITIONS_SENT);
    }
    return crowd;
}

static void time_grounds(void) {
    ct_mesh *fine = mesh_of(ground_slab(GROUND_FINE)), *coarse = mesh_of(ground_slab(GROUND_COARSE));
    ct_mesh *torus = mesh_of(ground_torus());
    crowd crowds[N_GROUND_SCENES];
    size_t n = 0;
    for (size_t i = 0; i < N_GROUND_SCENES; i++)
        if (is_wanted(ground_scenes[i].name))
            crowds[n++] = lay_tori(&ground_scenes[i], ground_scenes[i].slab == GROUND_FINE ? fine : coarse, torus);
    if (n) crowd_compare(crowds, n);
    for (size_t i = 0; i < n; i++) crowd_free(&crowds[i]);
    ct_mesh_release(&fine);
    ct_mesh_release(&coarse);
    ct_mesh_release(&torus);
}

/* ---- scanned meshes ---- */

/* NULL if the scene is not wanted or cannot be. */
static ct_mesh *scanned_mesh(const char *scene, const char *file) {
    if (!is_wanted(scene)) return NULL;
    ct_mesh *mesh = read_mesh_file(file);
    if (!mesh) fprintf(stderr, "bench_engine: %s is left out: there is no %s in %s\n", scene, file, meshes_dir);
    return mesh;
}

/* A body and its copy, moved by fractions of the body's box. The copy strays by `reach`, m. */
static void time_copies(const char *scene, const char *file, const double moved[3], double reach, size_t n_contacts) {
    ct_mesh *mesh = scanned_mesh(scene, file);
    if (!mesh) return;
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    crowd copies = crowd_begin(scene, 2, 128);
    copies.kinds[0] = copies.kinds[1] = file;
    copies.n_pairs = 1;
    copies.n_contacts = n_contacts;
    double pose[12];
    shape_pose_identity(pose);
    crowd_add(&copies, mesh, pose, 0, false);
    for (int axis = 0; axis < 3; axis++) pose[4 * axis + 3] = moved[axis] * (info.hi[axis] - info.lo[axis]);
    crowd_add(&copies, mesh, pose, reach, false);
    crowd_compare(&copies, 1);
    crowd_free(&copies);
    ct_mesh_release(&mesh);
}

/* As bunny_cube_128, but all of the bunny's positions change at every step, and the cube rests. */
static void time_deforming_bunny(void) {
    const char *scene = "bunny_deforming", *file = "bunny_70k.ply";
    ct_mesh *bunny = scanned_mesh(scene, file);
    if (!bunny) return;
    ct_mesh *cube = mesh_of(shape_cube(2, 1));
    crowd crowd = crowd_begin(scene, 2, 128);
    crowd.kinds[0] = file;
    crowd.kinds[1] = "cube of side 2";
    crowd.n_pairs = crowd.n_contacts = 1;
    crowd_add(&crowd, bunny, bunny_pose, 0.01, true);
    crowd_add(&crowd, cube, cube_pose, 0, false);
    crowd_compare(&crowd, 1);
    crowd_free(&crowd);
    ct_mesh_release(&bunny);
    ct_mesh_release(&cube);
}

/* ---- a stack ---- */

/* The stack of Allard 2010, Table 1: 40 soft bodies of 18,120 triangles, in ten layers of two by two. Each touches its
 * neighbours in the layer, and those above and below it, 2 cm deep. */
static void time_stack(void) {
    enum { LAYERS = 10, N_BODIES = 4 * LAYERS };
    if (!is_wanted("exact_stack_40")) return;
    const double major = 0.35, minor = 0.15, deep = 0.02;
    ct_mesh *torus = mesh_of(shape_torus(major, minor, 151, 60));
    crowd crowd = crowd_begin("exact_stack_40", N_BODIES, 0);
    crowd.kinds[0] = crowd.kinds[1] = "tori of 18,120";
    crowd.n_contacts = 4 * LAYERS + 4 * (LAYERS - 1);
    crowd.n_pairs = 6 * LAYERS + 16 * (LAYERS - 1); /* boxes of diagonal neighbours overlap, too */
    for (int i = 0; i < N_BODIES; i++) {
        const double side = 2 * (major + minor) - deep, z = (i / 4) * (2 * minor - deep);
        double pose[12];
        shape_pose_axis((double[3]){0, 0, 1}, 0.05 * i, (double[3]){side * (i % 2), side * (i / 2 % 2), z}, pose);
        crowd_add(&crowd, torus, pose, 0.001, true);
    }
    crowd_compare(&crowd, 1);
    crowd_free(&crowd);
    ct_mesh_release(&torus);
}

void time_crowds(void) {
    /* A device's figures are those of the other scenes; these run there only if asked for by name. */
    if (strcmp(backend, "cpu") != 0 && !only) return;
    time_grounds();
    time_copies("dragons_apart", "dragon_871k.ply", (double[3]){0.9, 0, 0}, 0.01, 1);
    time_copies("armadillos_apart", "armadillo_346k.ply", (double[3]){0.98, 0, 0}, 0.002, 1);
    time_copies("bunnies_apart", "bunny_70k.ply", (double[3]){0.9, 0, 0}, 0.002, 0);
    time_deforming_bunny();
    time_stack();
}
