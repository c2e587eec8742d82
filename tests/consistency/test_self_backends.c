/* test_self_backends.c - contacts of a body with itself by LDI: every backend gives the CPU's bits, by itself, beside
 * others, in crowds and in batches. */
#include "tests/consistency/self_shapes.h"
#include "tests/consistency/twin.h"

static const uint32_t everything = CT_WANT_ALL | CT_WANT_SPANS;

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* slow on the shim */
enum { ROUNDS = 7, LARGE_SCENES = 0 };
#else
enum { ROUNDS = 21, LARGE_SCENES = 1 };
#endif

static void test_alone(void **state) {
    (void)state;
    static const uint32_t wants[] = {0,
                                     CT_WANT_FRAME,
                                     CT_WANT_SPANS,
                                     CT_WANT_GRADIENT,
                                     CT_WANT_ALL,
                                     CT_WANT_FRICTION | CT_WANT_SPANS,
                                     CT_WANT_ALL | CT_WANT_SPANS};
    uint64_t rng = 17, contacts = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct shape body = random_shells(&rng);
        double pose[12];
        shape_pose_random(&rng, 0.5, pose);
        ct_scene_settings settings = round % 2 ? stage_resolution(1 + (uint32_t)shape_random(&rng) % 50)
                                               : stage_pixel(0.02 + 0.01 * (round % 9));
        if (round % 5 == 1) settings.resolution[0] = 200;
        settings.stiffness = 1 + round;
        const struct placed placed = {&body, pose, round % 3 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE, .self_contact = 1};
        contacts += compare_once("alone", &settings, &placed, 1, wants[round % 7]);
        shape_free(&body);
    }
    assert_true(contacts > 2 * ROUNDS / 3);
}

/* A shell inside another has no sides; coinciding shells have ends shared by both; and an inverted one. */
static void test_nested(void **state) {
    (void)state;
    struct shape outer = shape_icosphere(1, 3), inner = shape_icosphere(0.4, 3), cube = shape_cube(1, 4);
    struct shape nested = shape_merge(&outer, &inner), twice = shape_merge(&cube, &cube),
                 three = shape_merge(&twice, &cube);
    const struct shape *shapes[] = {&nested, &twice, &three, &outer};
    for (int i = 0; i < 4; i++) {
        const ct_scene_settings settings = i ? stage_pixel(0.125) : stage_resolution(24);
        assert_int_equal(
            compare_once("nested", &settings, &(struct placed){shapes[i], NULL, 0, .self_contact = 1}, 1, everything),
            i < 3);
    }
    shape_free(&outer);
    shape_free(&inner);
    shape_free(&cube);
    shape_free(&nested);
    shape_free(&twice);
    shape_free(&three);
}

/* Beside others in scenes of n bodies: above 128 they are a crowd. In the largest, body 0 contains all others, so
 * that its row of pairs is long. */
static void test_beside_others(void **state) {
    (void)state;
    static const int sizes[] = {2, 5, 30, 140};
    enum { MOST = 140 };
    uint64_t rng = 23;
    struct shape ball = shape_icosphere(0.5, 1), ground = shape_cube(60, 1), other = shape_icosphere(0.4, 1);
    shape_translate(&other, 0.4, 0.1, 0);
    struct shape two = shape_merge(&ball, &other);
    ct_mesh *meshes[] = {shape_to_mesh(&ball, NULL), shape_to_mesh(&two, NULL), shape_to_mesh(&ground, NULL)};
    const ct_scene_settings settings = stage_resolution(5);
    ct_engine_facts facts;
    ct_engine_get_facts(engines[1], 0, &facts);
    /* OpenGL does not reach as much at once as the largest takes. */
    const size_t n = sizeof sizes / sizeof *sizes - !(LARGE_SCENES && strcmp(facts.rasterizer, "egl") != 0);
    for (size_t i = 0; i < n; i++) {
        struct twin twin;
        double poses[MOST][12];
        for (int b = 0; b < sizes[i]; b++) shape_pose_random(&rng, 1 + 0.06 * sizes[i], poses[b]);
        for (int e = 0; e < 2; e++) {
            twin.of[e] = (struct stage){.engine = engines[e]};
            assert_int_equal(ct_scene_create(engines[e], &settings, &twin.of[e].scene, NULL), CT_OK);
            for (int b = 0; b < sizes[i]; b++) {
                ct_body_options options;
                ct_body_options_init(&options);
                options.kind = b % 5 == 4 ? CT_BODY_DEFORMABLE : CT_BODY_RIGID; /* the pose is for rigid ones */
                options.self_contact = b % 3 == 0;
                options.group = b % 7 ? 1 : 2;
                options.mask = b % 2 ? 3 : 1; /* bodies 0, 14, ... do not meet themselves by these */
                memcpy(options.pose, poses[b], sizeof options.pose);
                uint32_t id;
                assert_int_equal(ct_scene_add_body(twin.of[e].scene,
                                                   meshes[b == 0 && i == 3 ? 2
                                                          : b % 2          ? 0
                                                                           : 1],
                                                   &options, &id, NULL),
                                 CT_OK);
            }
        }
        assert_true(compare("beside others", &twin, NULL, NULL, 1, everything) > (uint64_t)sizes[i] / 8);
        twin_close(&twin);
    }
    for (int k = 0; k < 3; k++) ct_mesh_release(&meshes[k]);
    shape_free(&ball);
    shape_free(&ground);
    shape_free(&other);
    shape_free(&two);
}

/* Scenes with and without such bodies, as one batch; a body that deforms into itself from step to step. */
static void test_batches(void **state) {
    (void)state;
    enum { N = 6 };
    uint64_t rng = 5;
    struct shape bodies[N];
    struct twin twins[N];
    ct_update updates[N];
    const ct_update *of_twin[N];
    size_t n_updates[N];
    const ct_scene_settings settings = stage_resolution(20);
    for (int i = 0; i < N; i++) {
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
        assert_true(compare("batch", twins, of_twin, n_updates, N, step == 1 ? CT_WANT_ALL : everything) >= N);
    }
    for (int i = 0; i < N; i++) {
        twin_close(&twins[i]);
        shape_free(&bodies[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_beside_others),
        cmocka_unit_test(test_batches),
    };
    static const char *const rasterizers[] = {"native", "egl"};
    return twin_run_on_backends(tests, sizeof tests / sizeof *tests, rasterizers, 2);
}
