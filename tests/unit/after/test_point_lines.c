/* test_point_lines.c - lines through a contact's bodies: by the column of triangles over the contact and by the bodies' trees they
 * have the same ends, to the bit. */
#include "tests/unit/unit.h"

#include "gpu/after/point_lines.h"
#include "tests/scenes/stage.h"

static ct_engine *engine;

/* How many lines have a stretch. */
static int compare_lines(ct_point_lines *lines, uint64_t *rng) {
    int n = 0;
    bool is_whole[2];
    for (int s = 0; s < 2; s++) is_whole[s] = lines->column[s].is_whole;
    for (int i = 0; i < 200; i++) {
        ct_stretch of[2], turned[2];
        double at[2], along[3] = {0, 0, 1};
        for (int k = 0; k < 2; k++) {
            const double beside = 0.01 * (lines->hi[k] - lines->lo[k]); /* columns end before */
            at[k] = shape_uniform(rng, lines->lo[k] - beside, lines->hi[k] + beside);
            along[k] = shape_uniform(rng, -0.3, 0.3);
        }
        memset(of, 0, sizeof of);
        memset(turned, 0, sizeof turned);
        for (int by_tree = 0; by_tree < 2; by_tree++) {
            for (int s = 0; s < 2; s++) lines->column[s].is_whole = !by_tree && is_whole[s];
            assert_true(ct_point_lines_cast(lines, at, NULL, &of[by_tree]));
            if (!(of[0].hi > of[0].lo)) continue;
            const double from[3] = {at[0], at[1], 0.5 * (of[0].lo + of[0].hi)}, depth = of[0].hi - of[0].lo;
            assert_true(ct_point_lines_reach(lines, from, along, of[0].winding, -depth, depth, &turned[by_tree]));
        }
        assert_memory_equal(&of[0], &of[1], sizeof of[0]);
        assert_memory_equal(&turned[0], &turned[1], sizeof turned[0]);
        n += of[0].hi > of[0].lo;
    }
    for (int s = 0; s < 2; s++) lines->column[s].is_whole = is_whole[s];
    return n;
}

static void test_columns_and_trees(void **state) {
    (void)state;
    uint64_t rng = 11;
    struct shape shapes[] = {shape_torus(0.6, 0.25, 60, 30), shape_blob(0.7, 4, 0.4, 3), shape_box(1, 1, 1)};
    int columns = 0, stretches = 0, contacts = 0;
    for (int i = 0; i < 60; i++) {
        double pose[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.5, pose[k]);
        const struct placed bodies[] = {{&shapes[i % 3], pose[0], CT_BODY_RIGID},
                                        {&shapes[(i / 3) % 3], pose[1], CT_BODY_RIGID}};
        ct_scene_settings settings = stage_exact();
        settings.patches = i % 2;
        struct stage stage = stage_open(engine, &settings, bodies, 2);
        ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_FRAME | CT_WANT_FRICTION);
        ct_surfaces surfaces;
        ct_error error = {0};
        assert_true(ct_surfaces_open(&surfaces, stage.scene));
        assert_int_equal(ct_surfaces_fetch(&surfaces, r, "max_points", &error), CT_OK);
        for (size_t c = 0; c < r->n_contacts; c++) {
            ct_point_lines lines = {0};
            if (!(r->contacts[c].area > 0)) continue;
            assert_int_equal(ct_point_lines_open(&lines, &surfaces, r, &r->contacts[c], r->n_contacts > 1, &error),
                             CT_OK);
            columns += lines.column[0].is_whole + lines.column[1].is_whole;
            stretches += compare_lines(&lines, &rng);
            contacts++;
            ct_point_lines_free(&lines);
        }
        ct_surfaces_close(&surfaces);
        ct_result_free(&r);
        stage_close(&stage);
    }
    assert_in_range(columns, contacts / 2, 2 * contacts - 5); /* some have too many triangles */
    assert_true(stretches > 1000);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) shape_free(&shapes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_columns_and_trees)};
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = "cpu";
    if (ct_engine_create(&options, &engine, NULL)) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ct_engine_destroy(&engine);
    return failed;
}
