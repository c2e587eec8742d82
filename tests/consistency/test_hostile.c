/* test_hostile.c - scenes that are made to take long end when they are told to, whatever the method and the settings,
 * and the next step is right. The fuzz target time checks the same on any scene. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/hostile_run.h"
#include "tests/unit/unit.h"

/* Instrumented, fewer: small scenes, and one in so many of the large ones. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SCENES = 60, EACH = 7 };
#else
enum { SCENES = 800, EACH = 1 };
#endif

static void test_shapes_are_meshes(void **state) {
    (void)state;
    static const uint32_t sizes[] = {4, 77, 300, 3000};
    enum { SMALLEST = 144 }; /* of all kinds, the sponge's */
    for (int kind = 0; kind < HOSTILE_KINDS; kind++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int variant = 0; variant < 2; variant++) {
                struct shape shape = hostile_shape((hostile_kind)kind, sizes[s], variant, 5);
                ct_error error = {0};
                ct_mesh *mesh = shape_to_mesh(&shape, &error);
                if (!mesh) fail_msg("%s %u: %s", hostile_name((hostile_kind)kind), sizes[s], error.message);
                assert_in_range(shape.n_triangles, 4, sizes[s] < SMALLEST ? 4 * SMALLEST : sizes[s]);
                ct_mesh_release(&mesh);
                shape_free(&shape);
            }
    assert_int_equal(hostile_find("star"), HOSTILE_STAR);
    assert_int_equal(hostile_find("stars"), HOSTILE_KINDS);
}

static hostile_scene random_scene(uint64_t *rng, uint32_t max_triangles, uint32_t max_bodies) {
    uint64_t bytes[16];
    for (size_t i = 0; i < 16; i++) bytes[i] = shape_random(rng);
    return hostile_scene_of((const uint8_t *)bytes, sizeof bytes, max_triangles, max_bodies);
}

/* A scene's words make the same scene. */
static void test_words(void **state) {
    (void)state;
    uint64_t rng = 1;
    for (int i = 0; i < 1000; i++) {
        const hostile_scene scene = random_scene(&rng, 20000, 1000);
        ct_error error = {0};
        if (ct_scene_settings_check(&scene.settings, &error)) fail_msg("%s", error.message);
        char words[1024], again[1024];
        hostile_scene_print(&scene, words, sizeof words);
        strcpy(again, words);
        hostile_scene copy = hostile_scene_default();
        for (char *rest = again, *word; (word = strtok_r(rest, " ", &rest));)
            assert_true(hostile_scene_set(&copy, word));
        hostile_scene_print(&copy, again, sizeof again);
        assert_string_equal(words, again);
    }
    hostile_scene scene = hostile_scene_default();
    assert_false(hostile_scene_set(&scene, "shape=cow"));
    assert_false(hostile_scene_set(&scene, "shapes=star"));
    assert_false(hostile_scene_set(&scene, "margin=wide"));
}

static void check(const hostile_scene *scene, const hostile_end *end, bool compares, size_t counts[2]) {
    ct_status status;
    const char *complaint = hostile_check(scene, end, compares, &status);
    char words[1024];
    hostile_scene_print(scene, words, sizeof words);
    if (complaint) fail_msg("%s: %s", words, complaint);
    counts[0] += status == CT_OK, counts[1] += status == CT_CANCELLED;
}

/* Small scenes, ended at any poll; what follows has the bits of a fresh engine. */
static void test_small_scenes(void **state) {
    (void)state;
    uint64_t rng = 2;
    size_t counts[2] = {0};
    for (int i = 0; i < SCENES; i++) {
        hostile_scene scene = random_scene(&rng, 100, 4);
        hostile_scene_shrink(&scene);
        hostile_end end = {.at_poll = 1 + (shape_random(&rng) & 0xffff) % (1u << shape_random(&rng) % 12)};
        if (i % 10 == 9) end = (hostile_end){.is_requested = true};
        check(&scene, &end, true, counts);
    }
    assert_true(counts[0] > SCENES / 10 && counts[1] > SCENES / 4);
}

/* Each kind with each method, as large as takes seconds or minutes where nothing ends it. */
static void test_large_scenes(void **state) {
    (void)state;
    static const char *const words[] = {
        "method=exact place=pair",
        "method=exact place=same patches=1",
        "method=exact place=self",
        "method=exact place=crowd margin=1e9 max_points=4096",
        "method=ldi place=same resolution=4096",
        "method=ebpi place=pair tolerance_rel=1e-6 ray_budget=268435456",
        "method=voxtree place=pair voxel_level=8 want=7",
    };
    enum { WORDS = sizeof words / sizeof *words };
    size_t counts[2] = {0};
    for (int i = 0; i < HOSTILE_KINDS * WORDS; i++) {
        const int kind = i / WORDS;
        if (i % EACH != kind % EACH) continue;
        hostile_scene scene = hostile_scene_default();
        char copy[256];
        strcpy(copy, words[i % WORDS]);
        for (char *rest = copy, *word; (word = strtok_r(rest, " ", &rest));)
            assert_true(hostile_scene_set(&scene, word));
        scene.kind = (hostile_kind)kind;
        scene.triangles = scene.place == HOSTILE_CROWD ? 20 : 4000;
        check(&scene, &(hostile_end){.seconds = 0.02}, false, counts);
    }
    assert_true(counts[1] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_are_meshes),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_small_scenes),
        cmocka_unit_test(test_large_scenes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
