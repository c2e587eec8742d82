/* test_self_exact_backends.c - contacts of a body with itself by the method `exact`: every backend gives the CPU's
 * bits, of shells, tangles, folds and ties, beside others, in crowds, in batches and with second derivatives, and tells
 * of a lack of memory. */
#include "tests/consistency/scratch.h"
#include "tests/consistency/self_shapes.h"
#include "tests/consistency/twin_second.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* slow on the shim */
enum { FEWER = 6 };
#else
enum { FEWER = 1 };
#endif

static const uint32_t wants[] = {
    CT_WANT_ALL, 0, CT_WANT_FRAME, CT_WANT_GRADIENT, CT_WANT_FRICTION, CT_WANT_FORCES, CT_WANT_ALL | CT_WANT_INERTIA};
enum { N_WANTS = sizeof wants / sizeof *wants };

/* One body alone. Returns the contacts found. */
static uint64_t compare_alone(const char *name, const struct shape *shape, const double *pose, ct_body_kind kind,
                              uint32_t want) {
    const ct_scene_settings settings = stage_exact();
    return compare_once(name, &settings, &(struct placed){shape, pose, kind, .self_contact = 1}, 1, want);
}

static void test_shells(void **state) {
    (void)state;
    uint64_t rng = 17, contacts = 0;
    for (int round = 0; round < 42 / FEWER; round++) {
        struct shape body = random_shells(&rng);
        double pose[12];
        shape_pose_random(&rng, 0.5, pose);
        contacts += compare_alone("shells", &body, pose, round % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE,
                                  wants[round % N_WANTS]);
        shape_free(&body);
    }
    assert_true(contacts > 28 / FEWER);
}

/* Faces, edges and vertices coincide; several layers; whole shells that coincide. */
static void test_ties(void **state) {
    (void)state;
    static const double shifts[][3] = {{0.5, 0, 0},     {0.5, 0.5, 0},     {0.5, 0.5, 0.5}, {0, 0, 0},
                                       {0.25, 0.25, 0}, {0.75, 0.5, 0.25}, {0.5, -0.25, 0}};
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++)
        for (int n = 1; n <= 4; n++) {
            struct shape a = shape_cube(1, n), b = i % 2 ? shape_cube(1, 3) : shape_cube(1, n);
            shape_translate(&b, shifts[i][0], shifts[i][1], shifts[i][2]);
            struct shape ab = shape_merge(&a, &b), abb = shape_merge(&ab, &b);
            const ct_body_kind kind = n % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
            assert_int_equal(compare_alone("ties", &ab, NULL, kind, CT_WANT_ALL), 1);
            assert_int_equal(compare_alone("three shells", &abb, NULL, kind, wants[i]), 1);
            shape_free(&a), shape_free(&b), shape_free(&ab), shape_free(&abb);
        }
}

/* Triangles that cross others that they share a vertex with, parts that are inside out; with ties where vertices are on
 * a grid, and folds that lie flat. */
static void test_tangles(void **state) {
    (void)state;
    uint64_t contacts = 0;
    for (uint64_t seed = 1; seed <= 60 / FEWER; seed++) {
        const double step = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 0.25 : 0.5;
        struct shape shape = make_tangle(1 + (int)(seed % 3), seed % 4 ? 0.5 : 0.8, step, seed);
        contacts += compare_alone("tangle", &shape, NULL, seed % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE,
                                  seed % 5 ? CT_WANT_ALL : wants[seed % N_WANTS]);
        shape_free(&shape);
    }
    assert_true(contacts > 20 / FEWER);
}

/* A slab folded along a line: its faces lie on themselves, turned over, without any crossing. Beside it a shell. */
static void test_flat_folds(void **state) {
    (void)state;
    for (int round = 0; round < 6; round++) {
        struct shape slab = shape_cube(1, 4 + round % 3), ball = shape_cube(0.6, 3);
        const float line = round < 3 ? 0.125F : 0.25F;
        for (uint32_t v = 0; v < slab.n_vertices; v++) {
            float *p = slab.positions + 3 * (size_t)v;
            if (p[0] > line) p[0] = 2 * line - p[0];
        }
        shape_translate(&ball, -0.25, 0.125 * round, 0.25);
        struct shape both = shape_merge(&slab, &ball);
        compare_alone("fold", &slab, NULL, CT_BODY_RIGID, CT_WANT_ALL);
        assert_int_equal(compare_alone("fold and shell", &both, NULL, CT_BODY_DEFORMABLE, CT_WANT_ALL), 1);
        shape_free(&slab), shape_free(&ball), shape_free(&both);
    }
}

/* Shells that share tips, rings whose ends overlap, loops, a shell in another one, and bodies that only touch
 * themselves where their triangles meet. */
static void test_others(void **state) {
    (void)state;
    struct shape outer = shape_icosphere(1, 3), inner = shape_icosphere(0.4, 3);
    struct shape shapes[] = {make_tips(0),         make_tips(1),
                             make_limacon(60, 12), make_limacon(24, 40),
                             make_ring(),          shape_merge(&outer, &inner),
                             shape_cube(1, 5),     shape_bolt(0.5, 0.1, 0.2, 3, 24, 8),
                             shape_tetrahedron(1)};
    static const uint64_t expected[] = {1, 1, 1, 1, 1, 1, 0, 0, 0};
    uint64_t rng = 3;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        double pose[12];
        shape_pose_random(&rng, 3, pose);
        for (int kind = 0; kind < 2; kind++) {
            const ct_body_kind of = kind ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
            assert_int_equal(compare_alone("other", &shapes[i], NULL, of, CT_WANT_ALL), expected[i]);
            assert_int_equal(compare_alone("turned", &shapes[i], pose, of, wants[i % N_WANTS]), expected[i]);
        }
        shape_free(&shapes[i]);
    }
    shape_free(&outer), shape_free(&inner);
}

/* Beside others in scenes of n bodies, above 128 of which they are a crowd. */
static void test_beside_others(void **state) {
    (void)state;
    static const int sizes[] = {2, 5, 20, 130};
    enum { MOST = 130 };
    uint64_t rng = 23;
    struct shape ball = shape_icosphere(0.5, 1), other = shape_icosphere(0.4, 1);
    shape_translate(&other, 0.4, 0.1, 0);
    struct shape two = shape_merge(&ball, &other);
    ct_mesh *meshes[] = {shape_to_mesh(&ball, NULL), shape_to_mesh(&two, NULL)};
    const ct_scene_settings settings = stage_exact();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes - (FEWER > 1); i++) {
        struct twin twin;
        double poses[MOST][12];
        for (int b = 0; b < sizes[i]; b++) shape_pose_random(&rng, 0.8 * cbrt(sizes[i]), poses[b]);
        for (int e = 0; e < 2; e++) {
            twin.of[e] = (struct stage){.engine = engines[e]};
            assert_int_equal(ct_scene_create(engines[e], &settings, &twin.of[e].scene, NULL), CT_OK);
            for (int b = 0; b < sizes[i]; b++) {
                ct_body_options options;
                ct_body_options_init(&options);
                options.kind = b % 5 == 4 ? CT_BODY_DEFORMABLE : CT_BODY_RIGID; /* the pose is for rigid ones */
                options.self_contact = b % 3 == 0;
                memcpy(options.pose, poses[b], sizeof options.pose);
                uint32_t id;
                assert_int_equal(ct_scene_add_body(twin.of[e].scene, meshes[b % 2 == 0], &options, &id, NULL), CT_OK);
            }
        }
        assert_true(compare("beside others", &twin, NULL, NULL, 1, CT_WANT_ALL) > (uint64_t)sizes[i] / 8);
        if (i < 2) assert_true(compare("volumes", &twin, NULL, NULL, 1, 0) > 0);
        twin_close(&twin);
    }
    for (int k = 0; k < 2; k++) ct_mesh_release(&meshes[k]);
    shape_free(&ball), shape_free(&other), shape_free(&two);
}

/* Scenes with and without such bodies, and with patches, as one batch; bodies that deform into themselves from step to
 * step. */
static void test_batches(void **state) {
    (void)state;
    enum { N = 6 };
    uint64_t rng = 5;
    struct shape bodies[N];
    struct twin twins[N];
    ct_update updates[N];
    const ct_update *of_twin[N];
    size_t n_updates[N];
    for (int i = 0; i < N; i++) {
        ct_scene_settings settings = stage_exact();
        settings.patches = i % 3 == 2;
        bodies[i] = random_shells(&rng);
        twins[i] = twin_open(&settings,
                             (struct placed[]){{&bodies[i], NULL, CT_BODY_DEFORMABLE, .self_contact = i % 3 != 2},
                                               {&bodies[0], NULL, 0}},
                             1 + i % 2);
    }
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < N; i++) {
            for (uint32_t v = 0; v < 3 * bodies[i].n_vertices; v++)
                bodies[i].positions[v] *= (float)shape_uniform(&rng, 0.97, 1.03);
            updates[i] = (ct_update){.kind = CT_UPDATE_POSITIONS,
                                     .body = twins[i].of[0].body[0],
                                     .positions = bodies[i].positions,
                                     .count = bodies[i].n_vertices,
                                     .dtype = CT_F32};
            of_twin[i] = &updates[i];
            n_updates[i] = 1;
        }
        assert_true(compare("batch", twins, of_twin, n_updates, N, wants[step]) >= N - 1);
        assert_true(compare("without patches", twins, NULL, NULL, 2, CT_WANT_ALL) >= 2);
    }
    for (int i = 0; i < N; i++) {
        twin_close(&twins[i]);
        shape_free(&bodies[i]);
    }
}

/* Products and inertia: alone, of tangles, with ties, beside other bodies, and in a batch. */
static void test_second(void **state) {
    (void)state;
    enum { N = 6 };
    const ct_scene_settings settings = stage_exact();
    struct shape cubes[] = {shape_cube(1, 3), shape_cube(1, 2)};
    shape_translate(&cubes[1], 0.5, 0, 0);
    uint64_t rng = 8;
    struct shape shapes[N] = {make_limacon(30, 6),           make_tangle(2, 0.3, 0, 1), make_tangle(2, 0.5, 0.25, 2),
                              shape_merge(cubes, cubes + 1), random_shells(&rng),       make_tips(1)};
    struct placed bodies[N][MOST_BODIES];
    struct twin twins[N];
    const uint32_t n_directions[N] = {2, 1, 12, 3, 0, 4};
    memset(bodies, 0, sizeof bodies);
    for (int i = 0; i < N; i++) {
        const ct_body_kind kind = i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
        bodies[i][0] = (struct placed){&shapes[i], NULL, kind, .self_contact = 1};
        bodies[i][1] = (struct placed){&cubes[0], NULL, CT_BODY_RIGID, 0};
        twins[i] = twin_open(&settings, bodies[i], 1 + i % 2);
        assert_true(compare_second(&twins[i], &bodies[i], &n_directions[i], 1, CT_WANT_ALL | CT_WANT_INERTIA) > 0);
    }
    assert_true(compare_second(twins, bodies, n_directions, N, CT_WANT_GRADIENT) > 300);
    assert_true(compare_second(twins, bodies, n_directions, N, CT_WANT_INERTIA) > 300);
    assert_true(compare_second(twins, bodies, n_directions, N, 0) > 300);
    for (int i = 0; i < N; i++) {
        twin_close(&twins[i]);
        shape_free(&shapes[i]);
    }
    shape_free(&cubes[0]), shape_free(&cubes[1]);
}

/* A scene that changes its method, and a body that gets another mesh. */
static void test_changes(void **state) {
    (void)state;
    struct shape folded = make_limacon(60, 12), ball = shape_icosphere(0.5, 3);
    const ct_scene_settings rays = stage_resolution(16), exact = stage_exact();
    struct twin twin = twin_open(
        &rays, (struct placed[]){{&folded, NULL, CT_BODY_DEFORMABLE, .self_contact = 1}, {&ball, NULL, 0}}, 2);
    for (int i = 0; i < 4; i++) {
        assert_true(compare("changed method", &twin, NULL, NULL, 1, CT_WANT_ALL) > 0);
        for (int e = 0; e < 2; e++)
            assert_int_equal(ct_scene_configure(twin.of[e].scene, i % 2 ? &rays : &exact, NULL), CT_OK);
    }
    struct shape tangle = make_tangle(2, 0.5, 0.25, 4);
    ct_mesh *mesh = shape_to_mesh(&tangle, NULL);
    for (int e = 0; e < 2; e++) {
        assert_int_equal(ct_scene_configure(twin.of[e].scene, &exact, NULL), CT_OK);
        assert_int_equal(ct_scene_replace_mesh(twin.of[e].scene, twin.of[e].body[0], mesh, NULL), CT_OK);
    }
    ct_mesh_release(&mesh);
    assert_true(compare("another mesh", &twin, NULL, NULL, 1, CT_WANT_ALL) > 0);
    twin_close(&twin);
    shape_free(&folded), shape_free(&ball), shape_free(&tangle);
}

/* With too little memory a step fails and says so; with enough it has the CPU's bits. */
static void test_out_of_memory(void **state) {
    (void)state;
    struct shape folded = make_limacon(100, 50);
    const struct placed body = {&folded, NULL, 0, .self_contact = 1};
    const ct_scene_settings settings = stage_exact();
    ct_result *whole = stage_once(engines[0], &settings, &body, 1, CT_WANT_ALL);
    char expected[33];
    stage_hash(whole, expected);
    ct_result_free(&whole);
    const struct scratch_limits limits = {.first = 1 << 20, .more = 1 << 21, .n_steps = 1};
    check_scratch_limits(engines[1], &limits, "working memory", &settings, &body, 1, CT_WANT_ALL, expected);
    shape_free(&folded);
}

/* Contacts of a body with itself are not divided into patches, on no backend. */
static void test_refusals(void **state) {
    (void)state;
    struct shape folded = make_limacon(20, 4);
    ct_mesh *mesh = shape_to_mesh(&folded, NULL);
    ct_scene_settings patches = stage_exact();
    patches.patches = true;
    char message[2][sizeof((ct_error *)0)->message];
    for (int e = 0; e < 2; e++) {
        struct stage stage = stage_open(engines[e], &patches, NULL, 0);
        ct_body_options options;
        ct_body_options_init(&options);
        options.self_contact = true;
        ct_error error = {0};
        uint32_t body = 0;
        assert_int_equal(ct_scene_add_body(stage.scene, mesh, &options, &body, &error), CT_UNSUPPORTED);
        assert_string_equal(error.field, "self_contact");
        assert_non_null(strstr(error.message, "not divided into patches"));
        memcpy(message[e], error.message, sizeof message[e]);
        stage_close(&stage);
    }
    assert_string_equal(message[0], message[1]);
    ct_mesh_release(&mesh);
    shape_free(&folded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shells),        cmocka_unit_test(test_ties),     cmocka_unit_test(test_tangles),
        cmocka_unit_test(test_flat_folds),    cmocka_unit_test(test_others),   cmocka_unit_test(test_beside_others),
        cmocka_unit_test(test_batches),       cmocka_unit_test(test_second),   cmocka_unit_test(test_changes),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_refusals),
    };
    static const char *const rasterizers[] = {"native"};
    return twin_run_on_backends(tests, sizeof tests / sizeof *tests, rasterizers, 1);
}
