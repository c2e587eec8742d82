/* test_backends.c - every available backend, with each of its rasterisers, computes the bits of the CPU backend's
 * native rasteriser on every kind of scene: hashes of whole answers, errors of failed steps, boxes of bodies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/method/backend.h"
#include "tests/consistency/twin.h"
#include "tests/scenes/golden.h"

static const uint32_t everything = CT_WANT_ALL | CT_WANT_SPANS;

#ifdef __SANITIZE_ADDRESS__ /* slow */
enum { SHARE = 5 };
#else
enum { SHARE = 1 };
#endif

/* ---- hashes ---- */

static void test_golden_scenes(void **state) {
    (void)state;
#ifdef __SANITIZE_ADDRESS__ /* slow: the CPU's are in test_golden.c, the shim's in a build without sanitizers */
    skip();
#endif
    for (size_t i = 0; golden_name(i); i++) {
        struct golden_answer answer = golden_run(engines[1], i);
        if (strcmp(answer.hash, golden_hash(i)) != 0)
            fail_msg("%s: the answers' hash is %s, expected %s", golden_name(i), answer.hash, golden_hash(i));
        assert_true(answer.contacts > 0);
    }
}

/* ---- scenes ---- */

static struct shape random_shape(uint64_t *rng) {
    uint64_t seed = shape_random(rng);
    switch (seed % 6) {
    case 0:
        return shape_torus(0.8, 0.35, 20, 12);
    case 1:
        return shape_blob(1, 2 + (int)(seed / 6 % 2), 0.5, seed);
    case 2:
        return shape_bolt(0.9, 0.2, 0.4, 2, 24, 8);
    case 3:
        return shape_cube(1.5, 3);
    case 4:
        return shape_tetrahedron(1.4);
    default:
        return shape_l_prism(1.5, 1);
    }
}

static void test_random_pairs(void **state) {
    (void)state;
    static const uint32_t wants[] = {0,
                                     CT_WANT_FRAME,
                                     CT_WANT_GRADIENT,
                                     CT_WANT_FRICTION,
                                     CT_WANT_FORCES,
                                     CT_WANT_SPANS,
                                     CT_WANT_FRAME | CT_WANT_SPANS,
                                     CT_WANT_ALL,
                                     CT_WANT_ALL | CT_WANT_SPANS};
    uint64_t rng = 71, contacts = 0;
    for (int round = 0; round < 45 / SHARE; round++) {
        struct shape a = random_shape(&rng), b = random_shape(&rng);
        double pose[2][12];
        shape_pose_random(&rng, 0.5, pose[0]);
        shape_pose_random(&rng, 0.5, pose[1]);
        ct_scene_settings settings = round % 2 ? stage_resolution(1 + (uint32_t)shape_random(&rng) % 60)
                                               : stage_pixel(0.02 + 0.01 * (round % 9));
        if (round % 5 == 1) settings.resolution[0] = 200; /* triangles of many samples */
        if (round % 7 == 1) settings.resolution[1] = 1;
        settings.stiffness = 1 + round;
        ct_body_kind kind = round % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
        const struct placed bodies[] = {{&a, pose[0], kind}, {&b, pose[1], CT_BODY_RIGID}};
        contacts += compare_once("random pair", &settings, bodies, 2, wants[round % 9]);
        shape_free(&a);
        shape_free(&b);
    }
    assert_true(contacts > 30 / SHARE);
}

/* Faces in one plane, edges in one line, bodies in one place: many crossings at the same depth. */
static void test_ties(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1), cube = shape_cube(1, 4), prism = shape_l_prism(1, 1),
                 negative = shape_box(1, 1, 1);
    for (uint32_t v = 0; v < 3 * negative.n_vertices; v++)
        if (negative.positions[v] == 0) negative.positions[v] = -0.0F;
    const struct shape *shapes[] = {&box, &cube, &prism, &negative};
    for (int i = 0; i < 16; i++)
        for (int shift = 0; shift < 3; shift++) {
            double pose[12];
            shape_pose_identity(pose);
            pose[3] = 0.25 * shift;
            pose[7] = shift == 2 ? 0.5 : 0;
            for (int pixel = 0; pixel < 2; pixel++) {
                ct_scene_settings settings = pixel ? stage_pixel(0.125) : stage_resolution(8);
                const struct placed bodies[] = {{shapes[i / 4], NULL, CT_BODY_DEFORMABLE}, {shapes[i % 4], pose, 0}};
                compare_once("aligned boxes", &settings, bodies, 2, everything);
            }
        }
    shape_free(&box);
    shape_free(&cube);
    shape_free(&prism);
    shape_free(&negative);
}

static double distance2_of(const struct shape *shape, size_t t) {
    double square = 0;
    for (size_t k = 0; k < 3; k++) {
        double middle = 0;
        for (size_t c = 0; c < 3; c++)
            middle += (double)shape->positions[3 * (size_t)shape->triangles[3 * t + c] + k] / 3;
        square += middle * middle;
    }
    return square;
}

static void swap_triangles(struct shape *shape, size_t a, size_t b) {
    for (size_t c = 0; c < 3; c++) {
        const uint32_t first = shape->triangles[3 * a + c];
        shape->triangles[3 * a + c] = shape->triangles[3 * b + c];
        shape->triangles[3 * b + c] = first;
    }
}

/* A shell is judged by where seven of its triangles lie, evenly spread over their list (gpu/mesh/build/shells.c).
 * With those closest to the origin there, a cavity may stick out of the shell around it. */
static void put_closest_where_judged(struct shape *shape) {
    enum { PLACES = 7 };
    for (size_t place = 0; place < PLACES; place++) { /* the closest first, then one after the other to its place */
        size_t closest = place;
        for (size_t t = place; t < shape->n_triangles; t++)
            if (distance2_of(shape, t) < distance2_of(shape, closest)) closest = t;
        swap_triangles(shape, place, closest);
    }
    for (size_t place = PLACES; place-- > 0;) swap_triangles(shape, place, place * shape->n_triangles / PLACES);
}

/* A body whose second shell, a cavity that sticks out of the first, is inside out there (ct_contact.inverted_volume,
 * which compare looks at). */
static void test_inverted(void **state) {
    (void)state;
    uint64_t rng = 5, contacts = 0;
    for (int round = 0; round < 18; round++) {
        struct shape shells[] = {round % 2 ? shape_box(2, 2, 2) : shape_icosphere(1, 3), shape_torus(0.7, 0.3, 30, 12)};
        struct shape other = random_shape(&rng);
        if (round % 3 == 2) {
            shape_free(&shells[1]);
            shells[1] = shape_cube(1, 9);
            for (size_t v = 0; v < shells[1].n_vertices; v++)
                shells[1].positions[3 * v + 1] *= 9; /* beyond the window */
            shape_translate(&shells[1], -0.3, 4, 0);
        }
        shape_translate(&shells[1], 1.2, 0, 0);
        put_closest_where_judged(&shells[1]);
        for (size_t t = 0; t < shells[1].n_triangles; t++) {
            uint32_t *k = shells[1].triangles + 3 * t, first = k[0];
            k[0] = k[1], k[1] = first;
        }
        struct shape body = shape_merge(&shells[0], &shells[1]);
        double pose[12];
        shape_pose_random(&rng, 0.2, pose);
        pose[3] += 0.8;
        const ct_scene_settings settings = round % 4 ? stage_resolution(40) : stage_pixel(0.04);
        const struct placed bodies[] = {{&body, NULL, round % 5 ? 0 : CT_BODY_DEFORMABLE}, {&other, pose, 0}};
        if (shape_volume(&body) > 0)
            contacts +=
                compare_once("inside out in places", &settings, bodies, 2, round % 2 ? CT_WANT_ALL : everything);
        shape_free(&shells[0]), shape_free(&shells[1]), shape_free(&other), shape_free(&body);
    }
    assert_true(contacts > 8);
}

static void test_nested_and_apart(void **state) {
    (void)state;
    struct shape outer = shape_icosphere(1, 3), inner = shape_icosphere(0.3, 2), far = shape_box(1, 1, 1);
    shape_translate(&far, 10, 0, 0);
    ct_scene_settings settings = stage_resolution(30);
    assert_int_equal(
        compare_once("nested", &settings, (struct placed[]){{&outer, NULL, 0}, {&inner, NULL, 0}}, 2, everything), 1);
    assert_int_equal(
        compare_once("apart", &settings, (struct placed[]){{&outer, NULL, 0}, {&far, NULL, 0}}, 2, everything), 0);
    assert_int_equal(compare_once("alone", &settings, (struct placed[]){{&outer, NULL, 0}}, 1, everything), 0);
    assert_int_equal(compare_once("no bodies", &settings, NULL, 0, everything), 0);
    shape_free(&outer);
    shape_free(&inner);
    shape_free(&far);
}

/* A thread seen from the side, and a stack of plates in one mesh: rays through hundreds of layers. */
static void test_deep_rays(void **state) {
    (void)state;
    enum { PLATES = 200 };
    struct shape bolt = shape_bolt(0.5, 0.2, 0.02, 60, 12, 6), box = shape_box(3, 3, 3), plate = shape_box(1, 1, 0.01);
    struct shape stack = {calloc(PLATES * 24, sizeof(float)), PLATES * 8, calloc(PLATES * 36, sizeof(uint32_t)),
                          PLATES * 12};
    assert_true(stack.positions && stack.triangles);
    for (uint32_t i = 0; i < PLATES; i++) {
        for (uint32_t v = 0; v < 24; v++) {
            float lift = v % 3 == 2 ? 0.02F * (float)((i * 37) % PLATES) : 0; /* in no order */
            stack.positions[24 * i + v] = plate.positions[v] + lift;
        }
        for (uint32_t t = 0; t < 36; t++) stack.triangles[36 * i + t] = plate.triangles[t] + 8 * i;
    }
    double tilted[12];
    const double axis[3] = {1, 0.2, 0.1}, by[3] = {0.1, 0, 0.3};
    shape_pose_axis(axis, 0.02, by, tilted);
    ct_scene_settings settings = stage_resolution(12);
    assert_int_equal(
        compare_once("bolt", &settings, (struct placed[]){{&bolt, NULL, 0}, {&box, tilted, 0}}, 2, everything), 1);
    assert_int_equal(
        compare_once("stack", &settings, (struct placed[]){{&stack, NULL, 0}, {&box, tilted, 0}}, 2, everything), 1);
    assert_int_equal(
        compare_once("two stacks", &settings, (struct placed[]){{&stack, NULL, 0}, {&stack, tilted, 0}}, 2, everything),
        1);
    shape_free(&bolt);
    shape_free(&box);
    shape_free(&plate);
    shape_free(&stack);
}

/* Twelve triangles as large as the window beside thousands smaller than a sample. */
static void test_ground_plane(void **state) {
    (void)state;
    struct shape ground = shape_box(50, 50, 1), fine = shape_blob(1, 5, 0.3, 4);
    double pose[12];
    shape_pose_identity(pose);
    pose[11] = 0.7;
    ct_scene_settings settings = stage_resolution(150);
    settings.resolution[2] = 7;
    assert_int_equal(
        compare_once("ground", &settings, (struct placed[]){{&ground, NULL, 0}, {&fine, pose, 0}}, 2, everything), 1);
    shape_free(&ground);
    shape_free(&fine);
}

static void test_many_bodies(void **state) {
    (void)state;
#ifdef CT_CUDA_SHIM /* two thousand pairs take minutes */
    static const int sizes[] = {1, 2, 3, SHARE > 1 ? 17 : 33};
#else
    static const int sizes[] = {1, 2, 3, 17, 64};
#endif
    uint64_t rng = 3, contacts = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct shape shapes[STAGE_MAX];
        double poses[STAGE_MAX][12];
        struct placed bodies[STAGE_MAX];
        for (int i = 0; i < sizes[s]; i++) {
            shapes[i] = i % 3 ? shape_icosphere(0.5, 1) : shape_box(0.8, 0.7, 0.6);
            shape_pose_random(&rng, 1.2, poses[i]);
            bodies[i] = (struct placed){&shapes[i], poses[i], i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
        }
        ct_scene_settings settings = stage_resolution(9);
        contacts += compare_once("pile", &settings, bodies, sizes[s], everything);
        for (int i = 0; i < sizes[s]; i++) shape_free(&shapes[i]);
    }
    assert_true(contacts > 50 / SHARE);
}

/* Groups, masks, ignored pairs, bodies that come and go: 200 of them. */
static void test_filters(void **state) {
    (void)state;
    enum { N = 200 };
    struct shape ball = shape_icosphere(0.5, 1);
    ct_mesh *mesh = shape_to_mesh(&ball, NULL);
    ct_scene_settings settings = stage_resolution(5);
    struct twin twin;
    uint32_t ids[2][N];
    for (int e = 0; e < 2; e++) {
        uint64_t rng = 8;
        twin.of[e].engine = engines[e];
        assert_int_equal(ct_scene_create(engines[e], &settings, &twin.of[e].scene, NULL), CT_OK);
        for (int i = 0; i < N; i++) {
            ct_body_options options;
            ct_body_options_init(&options);
            options.kind = CT_BODY_RIGID;
            shape_pose_random(&rng, 2.5, options.pose);
            options.group = 1u << i % 5;
            options.mask = i % 4 ? UINT32_MAX : 0x15;
            uint32_t ignore[3] = {0};
            options.ignore = ignore;
            for (; i > 10 && options.n_ignore < 3; options.n_ignore++)
                ignore[options.n_ignore] = ids[e][shape_random(&rng) % (uint64_t)(i - 1)];
            /* one that is gone cannot be named */
            for (size_t k = 0; k < options.n_ignore; k++)
                if (ct_scene_body_info(twin.of[e].scene, ignore[k], &(ct_body_info){0}, NULL))
                    ignore[k] = ids[e][i - 1];
            assert_int_equal(ct_scene_add_body(twin.of[e].scene, mesh, &options, &ids[e][i], NULL), CT_OK);
            if (i % 9 == 8) assert_int_equal(ct_scene_remove_body(twin.of[e].scene, ids[e][i - 4], NULL), CT_OK);
        }
    }
    assert_true(compare("filters", &twin, NULL, NULL, 1, everything) > 100);
    twin_close(&twin);
    ct_mesh_release(&mesh);
    shape_free(&ball);
}

/* ---- steps ---- */

static void jitter(struct shape *shape, uint64_t *rng) {
    for (uint32_t v = 0; v < 3 * shape->n_vertices; v++) shape->positions[v] *= (float)shape_uniform(rng, 0.98, 1.02);
}

/* A deformable body gets another mesh after each step, moves, and meets a rigid one that gets others too. */
static void test_other_meshes(void **state) {
    (void)state;
    struct shape shapes[] = {shape_blob(1, 3, 0.2, 3), shape_cube(1, 1), shape_torus(0.7, 0.3, 20, 10),
                             shape_icosphere(0.9, 4)};
    ct_mesh *meshes[4];
    for (int i = 0; i < 4; i++) meshes[i] = shape_to_mesh(&shapes[i], NULL);
    const struct placed first[] = {{&shapes[0], NULL, CT_BODY_DEFORMABLE}, {&shapes[0], NULL, 0}};
    ct_scene_settings settings[] = {stage_resolution(20), stage_exact()};
    for (int m = 0; m < 2; m++) {
        struct twin twin = twin_open(&settings[m], first, 2);
        const uint32_t want = m ? CT_WANT_ALL : everything;
        uint64_t contacts = 0;
        for (int step = 0; step < 8; step++) {
            const struct shape *shape = &shapes[step % 4];
            for (int e = 0; e < 2; e++)
                for (int b = 0; b < 2; b++)
                    assert_int_equal(ct_scene_replace_mesh(twin.of[e].scene, twin.of[e].body[b],
                                                           meshes[(step + (b ? step / 4 : 0)) % 4], NULL),
                                     CT_OK);
            contacts += compare("other meshes, at rest", &twin, NULL, NULL, 1, want);
            double *moved = calloc(shape->n_vertices, 3 * sizeof *moved);
            assert_non_null(moved);
            for (uint32_t i = 0; i < 3 * shape->n_vertices; i++)
                moved[i] = (double)(float)(shape->positions[i] + 0.11 * step);
            const ct_update update = {.body = twin.of[0].body[0],
                                      .kind = CT_UPDATE_POSITIONS,
                                      .positions = moved,
                                      .dtype = CT_F64,
                                      .count = shape->n_vertices};
            contacts += compare("other meshes", &twin, (const ct_update *const[]){&update}, (size_t[]){1}, 1, want);
            free(moved);
        }
        assert_true(contacts >= 14);
        twin_close(&twin);
    }
    for (int i = 0; i < 4; i++) {
        ct_mesh_release(&meshes[i]);
        shape_free(&shapes[i]);
    }
}

/* Velocities of a deformable and a rigid body: slip and friction are computed from each backend's answer. */
static void test_slip(void **state) {
    (void)state;
    uint64_t rng = 4;
    struct shape ball = shape_icosphere(1, 3), tool = shape_torus(0.7, 0.3, 20, 10);
    double *values = calloc(ball.n_vertices, 3 * sizeof *values);
    assert_non_null(values);
    for (uint32_t i = 0; i < 3 * ball.n_vertices; i++) values[i] = shape_uniform(&rng, -1, 1);
    double pose[12];
    shape_pose_random(&rng, 0.5, pose);
    ct_scene_settings settings[] = {stage_resolution(24), stage_exact()};
    for (int m = 0; m < 2; m++) {
        struct twin twin =
            twin_open(&settings[m], (struct placed[]){{&ball, NULL, CT_BODY_DEFORMABLE, 0}, {&tool, pose, 0, 0}}, 2);
        ct_step steps[2];
        for (int e = 0; e < 2; e++) {
            const ct_velocity velocities[] = {{twin.of[e].body[0], values, CT_F64, ball.n_vertices, {0}},
                                              {.body = twin.of[e].body[1], .twist = {1, 2, 3, -4, 5, 6}}};
            steps[e] = (ct_step){.scene = twin.of[e].scene,
                                 .want = CT_WANT_ALL,
                                 .velocities = velocities,
                                 .n_velocities = 2,
                                 .viscosity = 3};
            assert_int_equal(ct_engine_run(engines[e], &steps[e], 1), CT_OK);
        }
        assert_int_equal(steps[0].result->n_contacts, 1);
        assert_true(steps[0].result->contacts[0].spin != 0 && steps[0].result->friction_forces);
        assert_same_slip("slip", steps[0].result, steps[1].result);
        for (int e = 0; e < 2; e++) ct_result_free(&steps[e].result);
        twin_close(&twin);
    }
    free(values);
    shape_free(&ball);
    shape_free(&tool);
}

/* All kinds of updates, repeated and overlapping ones, unsorted indices, float64, several of a body in one step. */
static void test_updates(void **state) {
    (void)state;
    uint64_t rng = 50;
    struct shape soft = shape_blob(1, 3, 0.2, 3), tool = shape_torus(0.7, 0.3, 20, 10);
    double *wide = calloc(soft.n_vertices, 3 * sizeof *wide);
    assert_non_null(wide);
    ct_scene_settings settings = stage_pixel(0.07);
    struct twin twin = twin_open(&settings, (struct placed[]){{&soft, NULL, CT_BODY_DEFORMABLE}, {&tool, NULL, 0}}, 2);
    const uint32_t body = twin.of[0].body[0];
    for (int step = 0; step < 24; step++) {
        jitter(&soft, &rng);
        for (uint32_t v = 0; v < 3 * soft.n_vertices; v++) wide[v] = (double)(float)(soft.positions[v] * 1.0000001);
        uint32_t many[200], ranges[] = {500, 60, 10, 30, 20, 30, 0, 1, 641, 1}, rising[] = {0, 5, 9, 500};
        uint32_t tiny[] = {1, 1, 3, 2, 90, 1};
        for (int i = 0; i < 200; i++) many[i] = (uint32_t)shape_random(&rng) % (step % 2 ? 50 : soft.n_vertices);
        ct_update pose = {.body = twin.of[0].body[1], .kind = CT_UPDATE_POSE};
        const double axis[3] = {1, step, 2}, by[3] = {0.9 - 0.03 * step, 0.3, 0.05 * step};
        shape_pose_axis(axis, 0.03 * step, by, pose.pose);
        ct_update moved = pose;
        moved.pose[3] += 0.1;
        const ct_update all = {body, CT_UPDATE_POSITIONS, soft.positions, CT_F32, soft.n_vertices, NULL, 0, {0}},
                        all64 = {body, CT_UPDATE_POSITIONS, wide, CT_F64, soft.n_vertices, NULL, 0, {0}},
                        some = {body, CT_UPDATE_INDEXED, soft.positions + 9, CT_F32, 200, many, 200, {0}},
                        some64 = {body, CT_UPDATE_INDEXED, wide + 30, CT_F64, 200, many, 200, {0}},
                        parts = {body, CT_UPDATE_RANGES, soft.positions, CT_F32, 122, ranges, 10, {0}},
                        parts64 = {body, CT_UPDATE_RANGES, wide + 3, CT_F64, 122, ranges, 10, {0}},
                        four = {body, CT_UPDATE_INDEXED, soft.positions + 3, CT_F32, 4, rising, 4, {0}},
                        three = {body, CT_UPDATE_RANGES, soft.positions + 6, CT_F32, 4, tiny, 6, {0}},
                        none = {body, CT_UPDATE_INDEXED, NULL, CT_F32, 0, NULL, 0, {0}};
        const ct_update lists[][4] = {{all, pose},
                                      {all64},
                                      {some, pose, none},
                                      {some64, four},
                                      {parts},
                                      {parts64, some},
                                      {four, all, parts},
                                      {three, pose, moved},
                                      {all, parts64, some},
                                      {none},
                                      {three},
                                      {pose, four, moved, none}};
        static const size_t counts[] = {2, 1, 3, 2, 1, 2, 3, 3, 3, 1, 1, 4};
        const ct_update *updates = lists[step % 12];
        compare("updates", &twin, &updates, &counts[step % 12], 1, everything);
    }
    twin_close(&twin);
    free(wide);
    shape_free(&soft);
    shape_free(&tool);
}

/* Refused steps beside good ones, in one batch: the refused ones change nothing, and say the same. */
static void test_refused(void **state) {
    (void)state;
    enum { N = 9 };
    struct shape soft = shape_icosphere(1, 2), box = shape_box(1, 1, 1), bad = shape_icosphere(1, 2);
    double infinite[3] = {0, 1e300, 0};
    bad.positions[301] = NAN;
    uint32_t index[2] = {4, 4};
    float twice[6] = {INFINITY, 0, 0, 1, 1, 1}; /* the first is overwritten, but refused all the same */
    struct twin twins[N];
    const ct_update *updates[N];
    ct_update list[N][2];
    size_t counts[N];
    for (int i = 0; i < N; i++) {
        ct_scene_settings settings = i == 5 ? stage_pixel(1e-5) : i == 7 ? stage_pixel(1e-12) : stage_resolution(10);
        twins[i] = twin_open(&settings, (struct placed[]){{&soft, NULL, CT_BODY_DEFORMABLE}, {&box, NULL, 0}}, 2);
        uint32_t body = twins[i].of[0].body[0];
        list[i][0] = (ct_update){body, CT_UPDATE_POSITIONS, soft.positions, CT_F32, soft.n_vertices, NULL, 0, {0}};
        list[i][1] = (ct_update){.body = twins[i].of[0].body[1], .kind = CT_UPDATE_POSE};
        const double by[3] = {0.1 * i, 0, 0}, axis[3] = {0, 0, 1};
        shape_pose_axis(axis, 0.1, by, list[i][1].pose);
        if (i == 1) list[i][0].positions = bad.positions;
        if (i == 3) list[i][0] = (ct_update){body, CT_UPDATE_INDEXED, infinite, CT_F64, 1, index, 1, {0}};
        if (i == 4) list[i][0] = (ct_update){body, CT_UPDATE_INDEXED, twice, CT_F32, 2, index, 2, {0}};
        if (i == 6) list[i][0].count = 3;
        updates[i] = list[i];
        counts[i] = 2;
    }
    assert_int_equal(compare("refused", twins, updates, counts, N, everything), 3);
    /* The next step sees the same positions on both backends. */
    compare("after", twins, NULL, NULL, N, everything);
    for (int i = 0; i < N; i++) twin_close(&twins[i]);
    shape_free(&soft);
    shape_free(&box);
    shape_free(&bad);
}

/* Scenes of all sizes in one batch, over several steps. */
static void test_batches(void **state) {
    (void)state;
    enum { N = 40 };
    uint64_t rng = 12, contacts = 0;
    struct twin twins[N];
    for (int i = 0; i < N; i++) {
        struct shape shapes[4];
        double poses[4][12];
        struct placed bodies[4];
        int n = i % 5 == 4 ? 0 : 1 + i % 4;
        for (int k = 0; k < n; k++) {
            shapes[k] = random_shape(&rng);
            shape_pose_random(&rng, 0.6, poses[k]);
            bodies[k] = (struct placed){&shapes[k], poses[k], k % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
        }
        ct_scene_settings settings = stage_resolution(4 + (uint32_t)i);
        twins[i] = twin_open(&settings, bodies, n);
        for (int k = 0; k < n; k++) shape_free(&shapes[k]);
    }
    for (int round = 0; round < 4; round++) {
        static const uint32_t wants[] = {CT_WANT_ALL | CT_WANT_SPANS, 0, CT_WANT_FRAME, CT_WANT_GRADIENT};
        contacts += compare("batch", twins + round, NULL, NULL, (size_t)(N - 9 * round), wants[round]);
    }
    assert_true(contacts > 40);
    for (int i = 0; i < N; i++) twin_close(&twins[i]);
}

/* ---- meshes that are not ours, where there are any ---- */

static void test_real_meshes(void **state) {
    (void)state;
    static const char *const names[][2] = {
        {"bunny_7k.ply", "cube.ply"}, {"fandisk_13k.ply", "femur_8k.ply"}, {"nut_m16_15k.ply", "bolt_m16_26k.ply"}};
    int met = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ct_mesh *meshes[2] = {stage_scanned_mesh(names[i][0]), stage_scanned_mesh(names[i][1])};
        struct twin twin;
        for (int e = 0; e < 2 && meshes[0] && meshes[1]; e++) {
            ct_scene_settings settings = stage_resolution(64);
            twin.of[e] = (struct stage){.engine = engines[e]};
            assert_int_equal(ct_scene_create(engines[e], &settings, &twin.of[e].scene, NULL), CT_OK);
            for (int k = 0; k < 2; k++) {
                ct_mesh_info info;
                ct_mesh_get_info(meshes[k], &info);
                ct_body_options options;
                ct_body_options_init(&options);
                options.kind = CT_BODY_RIGID;
                if (i < 2) /* in one place; nut and bolt are there already */
                    for (int c = 0; c < 3; c++) options.pose[4 * c + 3] = -(info.lo[c] + info.hi[c]) / 2;
                assert_int_equal(ct_scene_add_body(twin.of[e].scene, meshes[k], &options, &twin.of[e].body[k], NULL),
                                 CT_OK);
            }
        }
        if (meshes[0] && meshes[1]) {
            compare(names[i][0], &twin, NULL, NULL, 1, everything);
            twin_close(&twin);
            met++;
        }
        for (int k = 0; k < 2; k++)
            if (meshes[k]) ct_mesh_release(&meshes[k]);
    }
    if (!met) skip();
}

/* ---- every backend ---- */

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_scenes), cmocka_unit_test(test_random_pairs),
        cmocka_unit_test(test_ties),          cmocka_unit_test(test_nested_and_apart),
        cmocka_unit_test(test_inverted),      cmocka_unit_test(test_deep_rays),
        cmocka_unit_test(test_ground_plane),  cmocka_unit_test(test_many_bodies),
        cmocka_unit_test(test_filters),       cmocka_unit_test(test_other_meshes),
        cmocka_unit_test(test_slip),          cmocka_unit_test(test_updates),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_batches),
        cmocka_unit_test(test_real_meshes),
    };
    static const char *const rasterizers[] = {"native", "egl"};
    return twin_run_on_backends(tests, sizeof tests / sizeof *tests, rasterizers, 2);
}
