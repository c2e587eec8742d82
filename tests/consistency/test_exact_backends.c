/* test_exact_backends.c - every backend that has the method `exact` computes the CPU's bits with it: contacts, bounds,
 * gradients, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "gpu/picture/picture.h"
#include "tests/consistency/grazing.h"
#include "tests/consistency/twin.h"

static const uint32_t all_wants[] = {CT_WANT_ALL, 0, CT_WANT_FRAME, CT_WANT_GRADIENT, CT_WANT_FRICTION, CT_WANT_FORCES};

static void shift(double pose[12], double x, double y, double z) {
    shape_pose_identity(pose);
    pose[3] = x, pose[7] = y, pose[11] = z;
}

static uint64_t compare_pair(const char *name, const struct shape *a, const double *pose_a, const struct shape *b,
                             const double *pose_b, ct_body_kind kind, uint32_t want) {
    const ct_scene_settings settings = stage_exact();
    return compare_once(name, &settings, (struct placed[]){{a, pose_a, kind}, {b, pose_b, CT_BODY_RIGID}}, 2, want);
}

/* More bodies than a stage has room for; only the first ones' handles are kept. */
static struct twin open_crowd(const ct_scene_settings *settings, const struct placed *bodies, int n) {
    struct twin twin = twin_open(settings, bodies, STAGE_MAX);
    for (int e = 0; e < 2; e++)
        for (int i = STAGE_MAX; i < n; i++) {
            ct_body_options options;
            ct_error error = {0};
            uint32_t body;
            ct_body_options_init(&options);
            options.kind = CT_BODY_RIGID;
            memcpy(options.pose, bodies[i].pose, sizeof options.pose);
            if (!bodies[i].shape) options.kind = CT_BODY_HALF_SPACE;
            ct_mesh *mesh = bodies[i].shape ? shape_to_mesh(bodies[i].shape, &error) : NULL;
            assert_int_equal(ct_scene_add_body(twin.of[e].scene, mesh, &options, &body, &error), CT_OK);
            ct_mesh_release(&mesh);
        }
    return twin;
}

/* A mesh of one cluster, or of hundreds. */
static struct shape random_shape(uint64_t *rng, bool is_large) {
    const uint64_t seed = shape_random(rng);
    switch (seed % 8) {
    case 0:
        return is_large ? shape_torus(0.8, 0.35, 120, 60) : shape_torus(0.8, 0.35, 24, 16);
    case 1:
        return shape_blob(1, is_large ? 4 : 2, 0.5, seed);
    case 2:
        return shape_bolt(0.9, 0.2, 0.4, is_large ? 4 : 2, is_large ? 40 : 16, 12);
    case 3:
        return shape_cube(1.5, is_large ? 16 : 3);
    case 4:
        return shape_box(shape_uniform(rng, 0.3, 1.5), 1, 0.5);
    case 5:
        return shape_tetrahedron(1.4);
    case 6:
        return shape_box(1.5, 1.5, 0.01);
    default:
        return shape_icosphere(1, is_large ? 4 : 2);
    }
}

static void test_random_pairs(void **state) {
    (void)state;
    uint64_t rng = 31, contacts = 0;
    for (int round = 0; round < 60; round++) {
        struct shape a = random_shape(&rng, round % 5 == 0), b = random_shape(&rng, round % 7 < 2);
        double pose[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.5, pose[k]);
        contacts += compare_pair("random pair", &a, pose[0], &b, pose[1],
                                 round % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE, all_wants[round % 4 ? 0 : round % 6]);
        shape_free(&a);
        shape_free(&b);
    }
    assert_true(contacts > 40);
}

/* Faces, edges and corners that coincide: both perturbations, and their mean. */
static void test_ties(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1), fine = shape_cube(1, 5), flat = shape_box(2, 2, 0.25);
    uint64_t contacts = 0;
    for (int i = 0; i < 27; i++) {
        double pose[12];
        shift(pose, (i % 3) / 2.0, (i / 3 % 3) / 4.0, (i / 9) / 2.0);
        contacts += compare_pair("cubes", i & 1 ? &cube : &fine, NULL, i & 2 ? &cube : &fine, pose,
                                 i % 4 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE, CT_WANT_ALL);
    }
    assert_true(contacts > 10);
    const double heights[] = {0, 0.125, 0.625, 0.6249};
    for (int i = 0; i < 4; i++) { /* a plate through a cube, on it, and touching it */
        double pose[12];
        shift(pose, 0.5, 0, heights[i]);
        compare_pair("plate", &fine, NULL, &flat, pose, CT_BODY_RIGID, CT_WANT_ALL);
    }
    shape_free(&cube);
    shape_free(&fine);
    shape_free(&flat);
}

static void test_identical_bodies(void **state) {
    (void)state;
    struct shape shapes[] = {shape_box(1, 1, 1), shape_cube(1, 7), shape_blob(0.8, 3, 0.4, 2), shape_icosphere(1, 3),
                             shape_torus(1, 0.3, 30, 12)};
    uint64_t rng = 4;
    for (int i = 0; i < 5; i++) {
        double pose[12];
        shape_pose_random(&rng, 1, pose);
        assert_int_equal(compare_pair("identical", &shapes[i], NULL, &shapes[i], NULL, CT_BODY_DEFORMABLE, CT_WANT_ALL),
                         1);
        assert_int_equal(compare_pair("turned", &shapes[i], pose, &shapes[i], pose, CT_BODY_RIGID, CT_WANT_ALL), 1);
        shape_free(&shapes[i]);
    }
}

/* Boxes on boxes in a scene of their own: every contact is a tie. */
static void test_stack(void **state) {
    (void)state;
    enum { N = 12 };
    struct shape box = shape_box(1, 1, 0.5);
    double poses[N][12];
    struct placed bodies[N];
    for (int i = 0; i < N; i++) {
        shift(poses[i], 0.25 * (i % 3), 0, 0.5 * i - (i % 2 ? 0x1p-10 : 0));
        bodies[i] = (struct placed){&box, poses[i], i % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
    }
    const ct_scene_settings settings = stage_exact();
    assert_true(compare_once("stack", &settings, bodies, N, CT_WANT_ALL) >= 1);
    shape_free(&box);
}

/* One body in another, of which no triangle crosses; and one in the hole of another. */
static void test_nested_and_apart(void **state) {
    (void)state;
    struct shape outer = shape_cube(4, 12), inner = shape_blob(0.8, 3, 0.4, 2), ring = shape_torus(1.5, 0.2, 40, 12);
    double pose[12];
    shift(pose, 0.3, 0.2, 0.1);
    assert_int_equal(compare_pair("nested", &outer, NULL, &inner, pose, CT_BODY_RIGID, CT_WANT_ALL), 1);
    assert_int_equal(compare_pair("nested", &inner, pose, &outer, NULL, CT_BODY_RIGID, CT_WANT_ALL), 1);
    assert_int_equal(compare_pair("hole", &ring, NULL, &inner, NULL, CT_BODY_RIGID, CT_WANT_ALL), 0);
    shift(pose, 2.05, 2.05, 2.05);
    assert_int_equal(compare_pair("corner", &outer, NULL, &inner, pose, CT_BODY_DEFORMABLE, CT_WANT_ALL), 1);
    shape_free(&outer);
    shape_free(&inner);
    shape_free(&ring);
}

/* Many shells in one mesh, which overlap each other: winding numbers above 1, and a component each. */
static void test_overlapping_shells(void **state) {
    (void)state;
    enum { SHELLS = 40 };
    struct shape ball = shape_icosphere(0.5, 1), box = shape_box(1.2, 1.2, 1.2);
    struct shape many = {calloc(SHELLS * 3 * (size_t)ball.n_vertices, sizeof(float)), SHELLS * ball.n_vertices,
                         calloc(SHELLS * 3 * (size_t)ball.n_triangles, sizeof(uint32_t)), SHELLS * ball.n_triangles};
    assert_true(many.positions && many.triangles);
    uint64_t rng = 9;
    for (uint32_t i = 0; i < SHELLS; i++) {
        float at[3];
        for (int k = 0; k < 3; k++) at[k] = (float)shape_uniform(&rng, -0.8, 0.8);
        for (uint32_t v = 0; v < 3 * ball.n_vertices; v++)
            many.positions[3 * i * ball.n_vertices + v] = ball.positions[v] + at[v % 3];
        for (uint32_t t = 0; t < 3 * ball.n_triangles; t++)
            many.triangles[3 * i * ball.n_triangles + t] = ball.triangles[t] + i * ball.n_vertices;
    }
    double tilted[12];
    shape_pose_axis((const double[]){1, 0.2, 0.1}, 0.3, (const double[]){0.1, 0, 0.3}, tilted);
    assert_int_equal(compare_pair("shells", &many, NULL, &box, tilted, CT_BODY_RIGID, CT_WANT_ALL), 1);
    assert_int_equal(compare_pair("shells", &many, NULL, &many, tilted, CT_BODY_DEFORMABLE, CT_WANT_ALL), 1);
    shape_free(&ball);
    shape_free(&box);
    shape_free(&many);
}

/* A large triangle that thousands of small ones cross: more crossings of a cluster than a block sorts at once. */
static void test_many_crossings_of_a_triangle(void **state) {
    (void)state;
    struct shape floor = shape_box(9, 9, 1), fine = shape_blob(1, 4, 0.3, 4),
                 comb = shape_bolt(0.5, 0.2, 0.02, 30, 12, 6);
    double pose[12];
    shift(pose, 0.1, 0.2, 0.9);
    assert_int_equal(compare_pair("floor", &floor, NULL, &fine, pose, CT_BODY_RIGID, CT_WANT_ALL), 1);
    shape_pose_axis((const double[]){1, 0.02, 0}, 1.57, (const double[]){0, 0, 0.5}, pose);
    assert_int_equal(compare_pair("comb", &floor, NULL, &comb, pose, CT_BODY_RIGID, CT_WANT_ALL), 1);
    shape_free(&floor);
    shape_free(&fine);
    shape_free(&comb);
}

static void test_many_bodies(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 5, 24};
    uint64_t rng = 3, contacts = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct shape shapes[STAGE_MAX];
        double poses[STAGE_MAX][12];
        struct placed bodies[STAGE_MAX];
        for (int i = 0; i < sizes[s]; i++) {
            shapes[i] = i % 3 ? shape_icosphere(0.5, 1) : shape_box(0.8, 0.7, 0.6);
            shape_pose_random(&rng, 1.0, poses[i]);
            bodies[i] = (struct placed){&shapes[i], poses[i], i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
        }
        const ct_scene_settings settings = stage_exact();
        contacts += compare_once("pile", &settings, bodies, sizes[s], CT_WANT_ALL);
        for (int i = 0; i < sizes[s]; i++) shape_free(&shapes[i]);
    }
    assert_true(contacts > 20);
}

/* Scenes of all sizes in one batch, of which some run LDI, over several steps. */
static void test_batches(void **state) {
    (void)state;
    enum { N = 24 };
    uint64_t rng = 12, contacts = 0;
    struct twin twins[N];
    for (int i = 0; i < N; i++) {
        struct shape shapes[4];
        double poses[4][12];
        struct placed bodies[4];
        const int n = i % 5 == 4 ? 0 : 1 + i % 4;
        for (int k = 0; k < n; k++) {
            shapes[k] = random_shape(&rng, false);
            shape_pose_random(&rng, 0.6, poses[k]);
            bodies[k] = (struct placed){&shapes[k], poses[k], k % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
        }
        const ct_scene_settings settings = i % 6 == 5 ? stage_resolution(8) : stage_exact();
        twins[i] = twin_open(&settings, bodies, n);
        for (int k = 0; k < n; k++) shape_free(&shapes[k]);
    }
    for (int round = 0; round < 4; round++)
        contacts += compare("batch", twins + round, NULL, NULL, (size_t)(N - 5 * round), all_wants[round]);
    assert_true(contacts > 30);
    for (int i = 0; i < N; i++) twin_close(&twins[i]);
}

/* Deformable bodies of few and of many triangles that move every step, until one is turned inside out. */
static void test_deformable(void **state) {
    (void)state;
    for (int fineness = 2; fineness <= 4; fineness += 2) {
        struct shape soft = shape_blob(1, fineness, 0.2, 3), tool = shape_torus(0.9, 0.3, 20, 10);
        const ct_scene_settings settings = stage_exact();
        struct twin twin =
            twin_open(&settings, (struct placed[]){{&soft, NULL, CT_BODY_DEFORMABLE}, {&tool, NULL, 0}}, 2);
        uint64_t rng = 50, contacts = 0;
        for (int step = 0; step < 8; step++) {
            for (uint32_t v = 0; v < 3 * soft.n_vertices; v++) {
                soft.positions[v] *= (float)shape_uniform(&rng, 0.98, 1.02);
                if (step == 6 && v % 3 == 0) soft.positions[v] = -soft.positions[v];
            }
            ct_update updates[2] = {
                {twin.of[0].body[0], CT_UPDATE_POSITIONS, soft.positions, CT_F32, soft.n_vertices, NULL, 0, {0}},
                {.body = twin.of[0].body[1], .kind = CT_UPDATE_POSE}};
            shape_pose_axis((const double[]){1, step, 2}, 0.05 * step, (const double[]){0.4, 0.1 * step, 0},
                            updates[1].pose);
            const ct_update *list = updates;
            const size_t n_updates = 2;
            contacts += compare("deformable", &twin, &list, &n_updates, 1, CT_WANT_ALL);
        }
        assert_true(contacts >= 6);
        twin_close(&twin);
        shape_free(&soft);
        shape_free(&tool);
    }
}

/* A body of two balls, one of which is turned inside out, with faces that coincide with the other body's, and without.
 */
static void test_inverted_region(void **state) {
    (void)state;
    struct shape ball = shape_blob(1, 3, 0.2, 3), box = shape_cube(1, 4), away = shape_copy(&box), both, probe;
    shape_translate(&away, 3, 0, 0);
    both = shape_merge(&ball, &away);
    probe = shape_merge(&ball, &away);
    for (uint32_t v = ball.n_vertices; v < both.n_vertices; v++) both.positions[3 * v] = 6 - both.positions[3 * v];
    const ct_scene_settings settings = stage_exact();
    struct shape rest = shape_merge(&ball, &away);
    for (int round = 0; round < 4; round++) {
        double pose[12];
        shape_pose_axis((const double[]){0, 0, 1}, 0, (const double[]){0.1 * round, 0.125 * round, 0}, pose);
        struct twin twin =
            twin_open(&settings, (struct placed[]){{&rest, NULL, CT_BODY_DEFORMABLE, 0}, {&probe, pose, 0, 0}}, 2);
        const ct_update update = {
            twin.of[0].body[0], CT_UPDATE_POSITIONS, both.positions, CT_F32, both.n_vertices, NULL, 0, {0}};
        const ct_update *list = &update;
        assert_int_equal(compare("inverted", &twin, &list, &(size_t){1}, 1, CT_WANT_ALL), 1);
        ct_result *result = stage_step(&twin.of[0], NULL, 0, 0);
        assert_true(result->contacts->inverted_triangles > 12);
        ct_result_free(&result);
        twin_close(&twin);
    }
    struct shape *shapes[] = {&ball, &box, &away, &both, &probe, &rest};
    for (int i = 0; i < 6; i++) shape_free(shapes[i]);
}

/* Tilted triangles that are far larger than the contact: volumes count from a point in their planes. */
static void test_huge_triangles(void **state) {
    (void)state;
    uint64_t rng = 8, contacts = 0;
    struct shape blob = shape_blob(0.7, 2, 0.4, 5), box = shape_box(1, 0.8, 0.6), ring = shape_torus(0.7, 0.3, 20, 10);
    for (int i = 0; i < 12; i++) {
        const double size = pow(10, 1 + i % 4);
        struct shape floor = i % 2 ? shape_box(size, size, size) : shape_cube(size, 4);
        double turn[12], pose[12], tilt[12];
        shape_pose_random(&rng, 0.2, pose);
        shape_pose_axis((const double[]){1, 0.2 * i, 0.4}, 0.07 + 0.01 * i, (const double[]){0, 0, 0}, tilt);
        memcpy(turn, tilt, sizeof turn);
        for (int k = 0; k < 3; k++) /* a point of the top, but not its middle, lies in the origin */
            turn[4 * k + 3] = -(tilt[4 * k] * 0.1 * size + tilt[4 * k + 2] * 0.5 * size);
        contacts += compare_pair("huge triangles", i % 3 ? &floor : &blob, i % 3 ? turn : pose,
                                 i % 3 == 0   ? &floor
                                 : i % 3 == 1 ? &box
                                              : &ring,
                                 i % 3 ? pose : turn, CT_BODY_RIGID, CT_WANT_ALL);
        shape_free(&floor);
    }
    assert_int_equal(contacts, 12);
    shape_free(&blob);
    shape_free(&box);
    shape_free(&ring);
}

/* Bodies whose bound has what the sums over crossings leave out, also with patches. */
static void test_grazing(void **state) {
    (void)state;
    uint64_t rng = 3, contacts = 0;
    for (int i = 0; i < 16; i++) {
        ct_scene_settings settings = stage_exact();
        const struct frame *f = i % 2 ? &tilted : &level;
        double pose[12], moved[12];
        settings.patches = i / 4 % 2;
        if (i < 8)
            shape_pose_identity(pose);
        else
            shape_pose_random(&rng, 0, pose);
        memcpy(moved, pose, sizeof moved);
        for (int k = 0; k < 3; k++) moved[4 * k + 3] = shape_uniform(&rng, -1, 1) * unit;
        struct shape ground = make_ground(f);
        struct comb comb = make_comb(f, 0, 5ll << 12, i / 2 % 2, (struct offset){0, 0}, 1ll << 26);
        const struct placed bodies[2] = {{&ground, pose, i < 8 ? CT_BODY_DEFORMABLE : CT_BODY_RIGID},
                                         {&comb.shape, moved, CT_BODY_RIGID}};
        contacts += compare_once("grazing", &settings, bodies, 2, CT_WANT_ALL);
        shape_free(&ground);
        shape_free(&comb.shape);
    }
    assert_true(contacts >= 16);
}

/* ---- half-spaces ---- */

/* Planes along the axes and tilted ones, grazing a body, through it and far below it; with the half-space first or
 * second. */
static void test_half_spaces(void **state) {
    (void)state;
    const ct_scene_settings settings = stage_exact();
    uint64_t rng = 17, contacts = 0;
    for (int round = 0; round < 60; round++) {
        struct shape shape = random_shape(&rng, round % 5 == 0);
        double pose[12], plane[12], normal[3];
        for (int k = 0; k < 3; k++) normal[k] = round % 3 ? shape_uniform(&rng, -1, 1) : (k == round / 3 % 3) - 0.0;
        assert_int_equal(ct_plane_pose(normal, round % 10 == 9 ? 1e5 : shape_uniform(&rng, -0.8, 0.8), plane, NULL),
                         CT_OK);
        shape_pose_random(&rng, 0.5, pose);
        const struct placed body = {&shape, round % 4 ? pose : NULL,
                                    round % 5 == 2 ? CT_BODY_DEFORMABLE : CT_BODY_RIGID},
                            below = {.pose = plane};
        const struct placed bodies[2] = {round % 2 ? below : body, round % 2 ? body : below};
        contacts += compare_once("half-space", &settings, bodies, 2, all_wants[round % 4 ? 0 : round % 6]);
        shape_free(&shape);
    }
    assert_true(contacts > 35);
}

/* A face in the plane, from either side: both perturbations, and their mean. */
static void test_half_space_ties(void **state) {
    (void)state;
    struct shape fine = shape_cube(1, 5), box = shape_box(1, 1, 1);
    const ct_scene_settings settings = stage_exact();
    uint64_t contacts = 0;
    for (int i = 0; i < 12; i++) {
        double plane[12], normal[3] = {0, 0, 0};
        normal[i % 3] = i % 2 ? 1 : -1;
        assert_int_equal(ct_plane_pose(normal, 0.5 * (i / 3 - 1), plane, NULL), CT_OK);
        contacts += compare_once("face in a plane", &settings,
                                 (struct placed[]){{.shape = i % 4 ? &fine : &box}, {.pose = plane}}, 2, CT_WANT_ALL);
    }
    assert_true(contacts >= 6);
    shape_free(&fine);
    shape_free(&box);
}

/* The rays of a picture, which are those of LDI, leave half-spaces out. */
static void test_half_space_in_a_picture(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    double pose[12];
    shift(pose, 0.5, 0.25, 0);
    const ct_scene_settings settings = stage_exact();
    struct twin twin = twin_open(&settings, (struct placed[]){{&box, NULL, 0}, {&box, pose, 0}, {0}}, 3);
    ct_snapshot *snapshots[2];
    ct_snapshot_options options;
    ct_error error = {0};
    ct_snapshot_options_init(&options);
    for (int e = 0; e < 2; e++)
        assert_int_equal(ct_snapshot_take(twin.of[e].scene, &options, &snapshots[e], &error), CT_OK);
    assert_int_equal(snapshots[0]->n_contacts, 1);
    assert_int_equal(snapshots[1]->n_contacts, 1);
    assert_true(snapshots[0]->n_spans > 0 && snapshots[0]->n_spans == snapshots[1]->n_spans);
    for (int e = 0; e < 2; e++) ct_snapshot_free(&snapshots[e]);
    twin_close(&twin);
    shape_free(&box);
}

/* Two floors and a wall, which have no contact with each other, in small scenes and in a crowd; then they move. */
static void test_half_spaces_and_bodies(void **state) {
    (void)state;
    uint64_t rng = 23;
    for (int n = 4; n <= 160; n += 156) {
        struct shape ball = shape_icosphere(0.5, 1), cube = shape_cube(0.8, 2);
        double(*poses)[12] = calloc((size_t)n, sizeof *poses);
        struct placed *bodies = calloc((size_t)n, sizeof *bodies);
        assert_true(poses && bodies);
        const double normals[3][3] = {{0, 0, 1}, {0.1, 0, 1}, {1, 0.2, 0}};
        for (int i = 0; i < n; i++) {
            if (i % 40 < 3 && i < 80) {
                assert_int_equal(ct_plane_pose(normals[i % 40], 0.1 * i, poses[i], NULL), CT_OK);
                bodies[i] = (struct placed){.pose = poses[i]};
                continue;
            }
            shape_pose_random(&rng, n > 100 ? 4 : 0.5, poses[i]);
            bodies[i] = (struct placed){i % 2 ? &ball : &cube, poses[i], i % 9 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
        }
        const ct_scene_settings settings = stage_exact();
        struct twin twin = n <= STAGE_MAX ? twin_open(&settings, bodies, n) : (struct twin){0};
        if (n > STAGE_MAX) twin = open_crowd(&settings, bodies, n);
        uint64_t contacts = compare("floors", &twin, NULL, NULL, 1, CT_WANT_ALL);
        for (int round = 0; round < 3; round++) {
            ct_update update = {.body = twin.of[0].body[0], .kind = CT_UPDATE_POSE};
            assert_int_equal(ct_plane_pose((const double[]){0.1 * round, 0.2, 1}, 0.3 - round, update.pose, NULL),
                             CT_OK);
            const ct_update *list = &update;
            const size_t n_updates = 1;
            contacts += compare("moved floor", &twin, &list, &n_updates, 1, CT_WANT_ALL);
        }
        assert_true(contacts > 3 + (uint64_t)n);
        twin_close(&twin);
        shape_free(&ball);
        shape_free(&cube);
        free(poses);
        free(bodies);
    }
}

/* Extents that 40 bits cannot hold: the same error. Beside it a pair that fits. */
static void test_extents(void **state) {
    (void)state;
    struct shape huge = shape_box(1e8, 1e8, 1e8), dust = shape_box(0.1, 0.1, 0.1), box = shape_box(1, 1, 1);
    const ct_scene_settings settings = stage_exact();
    struct twin twins[2] = {twin_open(&settings, (struct placed[]){{&huge, NULL, 0}, {&dust, NULL, 0}}, 2),
                            twin_open(&settings, (struct placed[]){{&box, NULL, 0}, {&box, NULL, 0}}, 2)};
    assert_int_equal(compare("extents", twins, NULL, NULL, 2, CT_WANT_ALL), 1);
    for (int i = 0; i < 2; i++) twin_close(&twins[i]);
    shape_free(&huge);
    shape_free(&dust);
    shape_free(&box);
}

/* A half-space whose pose is too far away for doubles: the same error where its plane may cut the body, and the same
 * answer where the body is wholly inside. */
static void test_far_half_spaces(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 3);
    const ct_scene_settings settings = stage_exact();
    double plane[2][12];
    assert_int_equal(ct_plane_pose((const double[]){0, 0.6, 0.8}, 0.25, plane[0], NULL), CT_OK);
    plane[0][3] = 1e15;
    assert_int_equal(ct_plane_pose((const double[]){0, 0.6, 0.8}, 1e18, plane[1], NULL), CT_OK);
    struct twin twins[2];
    for (int i = 0; i < 2; i++)
        twins[i] = twin_open(&settings, (struct placed[]){{&ball, NULL, 0}, {NULL, plane[i], 0}}, 2);
    assert_int_equal(compare("far half-spaces", twins, NULL, NULL, 2, CT_WANT_ALL), 1);
    for (int i = 0; i < 2; i++) twin_close(&twins[i]);
    shape_free(&ball);
}

/* A scene that changes its method. */
static void test_changed_method(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 3), box = shape_box(1, 1, 1);
    double pose[12];
    shift(pose, 0.5, 0.1, 0);
    const ct_scene_settings rays = stage_resolution(16), exact = stage_exact();
    struct twin twin = twin_open(&rays, (struct placed[]){{&ball, NULL, CT_BODY_DEFORMABLE}, {&box, pose, 0}}, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(compare("changed method", &twin, NULL, NULL, 1, CT_WANT_ALL), 1);
        for (int e = 0; e < 2; e++)
            assert_int_equal(ct_scene_configure(twin.of[e].scene, i % 2 ? &rays : &exact, NULL), CT_OK);
    }
    twin_close(&twin);
    shape_free(&ball);
    shape_free(&box);
}

/* A pair that the coordinates cannot hold fails its step, or is left out, beside others that go on. */
static void test_unplaced(void **state) {
    (void)state;
    struct shape planet = shape_box(2e9, 2e9, 2e9), pin = shape_box(2e-7, 2e-7, 2e-7), cube = shape_box(1, 1, 1);
    double at[3][12];
    shift(at[0], 0, 0, -1e9);
    shift(at[1], 3e9, 0, 0.3);
    shift(at[2], 3e9, 0, 1);
    const struct placed bodies[] = {{&planet, at[0], CT_BODY_RIGID},
                                    {&pin, NULL, CT_BODY_RIGID},
                                    {&cube, at[1], CT_BODY_RIGID},
                                    {&cube, at[2], CT_BODY_RIGID}};
    ct_scene_settings settings[3] = {stage_exact(), stage_exact(), stage_exact()};
    settings[1].patches = true;
    settings[2].method = CT_METHOD_LDI;
    settings[2].pixel_size = 0.05;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct twin twins[3];
        for (int k = 0; k < 3; k++) {
            settings[i].skip_unplaced = k == 1;
            twins[k] = twin_open(&settings[i], bodies + (k == 2 ? 2 : 0), k == 2 ? 2 : 4);
        }
        for (int step = 0; step < 2; step++) {
            assert_int_equal(compare("unplaced", twins, NULL, NULL, 3, CT_WANT_FRAME | CT_WANT_GRADIENT), 2);
            for (int e = 0; e < 2; e++) {
                ct_step left = {.scene = twins[1].of[e].scene, .want = CT_WANT_FRAME};
                assert_int_equal(ct_engine_run(engines[e], &left, 1), CT_OK);
                assert_int_equal(left.result->n_warnings, 2);
                for (int b = 0; b < 2; b++) {
                    assert_int_equal(left.result->warnings[b].code, CT_WARNING_UNPLACED);
                    assert_int_equal(left.result->warnings[b].body, twins[1].of[e].body[b]);
                }
                ct_result_free(&left.result);
            }
        }
        for (int k = 0; k < 3; k++) twin_close(&twins[k]);
    }
    /* One pair is left out, and another takes too many samples, which fails the step on every backend. */
    struct shape hall = shape_box(1000, 1000, 1000);
    const struct placed both[] = {bodies[0], bodies[1], {&hall, at[1], CT_BODY_RIGID}, {&hall, at[2], CT_BODY_RIGID}};
    settings[2].skip_unplaced = true;
    struct twin twin = twin_open(&settings[2], both, 4);
    compare("unplaced and too many", &twin, NULL, NULL, 1, CT_WANT_FRAME);
    for (int e = 0; e < 2; e++) {
        ct_step step = {.scene = twin.of[e].scene, .want = CT_WANT_FRAME};
        assert_int_equal(ct_engine_run(engines[e], &step, 1), CT_LIMIT_EXCEEDED);
    }
    twin_close(&twin);
    shape_free(&hall);
    shape_free(&planet);
    shape_free(&pin);
    shape_free(&cube);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_pairs),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_identical_bodies),
        cmocka_unit_test(test_stack),
        cmocka_unit_test(test_nested_and_apart),
        cmocka_unit_test(test_overlapping_shells),
        cmocka_unit_test(test_many_crossings_of_a_triangle),
        cmocka_unit_test(test_many_bodies),
        cmocka_unit_test(test_unplaced),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_deformable),
        cmocka_unit_test(test_inverted_region),
        cmocka_unit_test(test_huge_triangles),
        cmocka_unit_test(test_grazing),
        cmocka_unit_test(test_half_spaces),
        cmocka_unit_test(test_far_half_spaces),
        cmocka_unit_test(test_half_space_ties),
        cmocka_unit_test(test_half_spaces_and_bodies),
        cmocka_unit_test(test_half_space_in_a_picture),
        cmocka_unit_test(test_extents),
        cmocka_unit_test(test_changed_method),
    };
    static const char *const rasterizers[] = {"native"};
    return twin_run_on_backends(tests, sizeof tests / sizeof *tests, rasterizers, 1);
}
