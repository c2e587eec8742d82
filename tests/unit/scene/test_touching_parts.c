/* test_touching_parts.c - contacts of bodies whose parts share edges or faces: volumes against closed forms, and pieces,
 * gradients and volumes against those of the same parts with vertices of their own. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

static ct_engine *engine;

/* Two unit boxes side by side; the vertices of `second` that it names are those of the first at the same place. */
static struct shape two_boxes(const double offset[3], bool is_welded, uint32_t place_of[16]) {
    struct shape boxes[2] = {shape_box(1, 1, 1), shape_box(1, 1, 1)};
    shape_translate(&boxes[1], offset[0], offset[1], offset[2]);
    struct shape both = shape_merge(&boxes[0], &boxes[1]);
    for (uint32_t v = 0; v < 16; v++) {
        place_of[v] = v;
        for (uint32_t w = 0; w < v && is_welded && place_of[v] == v; w++)
            if (memcmp(both.positions + 3 * v, both.positions + 3 * w, 12) == 0) place_of[v] = w;
    }
    for (uint32_t i = 0; i < 3 * both.n_triangles; i++) both.triangles[i] = place_of[both.triangles[i]];
    for (int b = 0; b < 2; b++) shape_free(&boxes[b]);
    return both;
}

static const double edge[3] = {1, 1, 0}, face[3] = {1, 0, 0};

static void add_gradients(const ct_result *r, const uint32_t place_of[16], double sums[16][3]) {
    memset(sums, 0, 16 * sizeof *sums);
    for (size_t i = 0; i < r->n_contacts; i++)
        for (uint64_t k = 0; k < r->contacts[i].count[0]; k++)
            for (int a = 0; a < 3; a++) {
                const uint64_t entry = r->contacts[i].first[0] + k;
                sums[place_of[r->vertices[entry]]][a] += r->gradient[3 * entry + (uint64_t)a];
            }
}

/* Of one body's shared and own vertices. volume, n_contacts: 0, unknown. */
static void compare(const ct_scene_settings *settings, const double offset[3], ct_body_kind kind, const double pose[12],
                    double volume, size_t n_contacts, double tolerance) {
    uint32_t places[2][16];
    struct shape boxes[2] = {two_boxes(offset, true, places[0]), two_boxes(offset, false, places[1])};
    struct shape probe = shape_box(0.5, 0.5, 0.5);
    ct_result *result[2];
    double sums[2][16][3];
    for (int s = 0; s < 2; s++) {
        const struct placed bodies[] = {{&boxes[s], NULL, kind}, {&probe, pose, CT_BODY_RIGID}};
        result[s] = stage_once(engine, settings, bodies, 2, CT_WANT_ALL);
        add_gradients(result[s], places[0], sums[s]);
    }
    if (n_contacts) assert_int_equal(result[0]->n_contacts, n_contacts);
    double volumes[2] = {0, 0};
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < result[s]->n_contacts; i++) volumes[s] += result[s]->contacts[i].volume;
    assert_true(fabs(volumes[0] - volumes[1]) <= tolerance);
    if (volume > 0) assert_true(fabs(volumes[0] - volume) <= tolerance);
    for (int v = 0; v < 16; v++)
        for (int a = 0; a < 3; a++) assert_true(fabs(sums[0][v][a] - sums[1][v][a]) <= 10 * tolerance);
    for (int s = 0; s < 2; s++) {
        ct_result_free(&result[s]);
        shape_free(&boxes[s]);
    }
    shape_free(&probe);
}

static void at(double x, double y, double z, double pose[12]) {
    shape_pose_identity(pose);
    pose[3] = x, pose[7] = y, pose[11] = z;
}

static void test_exact(void **state) {
    (void)state;
    uint64_t rng = 3;
    for (int patches = 0; patches < 2; patches++)
        for (int kind = 0; kind < 2; kind++) {
            ct_scene_settings settings = stage_exact();
            settings.patches = patches;
            const ct_body_kind of = kind ? CT_BODY_DEFORMABLE : CT_BODY_RIGID;
            double pose[12];
            at(0.5, 0.5, 0.125, pose); /* around the edge: a quarter in each box */
            compare(&settings, edge, of, pose, 2 * 0.25 * 0.25 * 0.5, patches ? 2 : 1, 1e-9);
            at(0.5, 0.5, 0.5, pose); /* around the edge's end: pieces that meet in a vertex are one */
            compare(&settings, edge, of, pose, 2 * 0.25 * 0.25 * 0.25, 1, 1e-9);
            at(0.375, 0.25, 0.125, pose); /* in one box but for a corner of the other's reach */
            compare(&settings, edge, of, pose, 0.375 * 0.5 * 0.5, 1, 1e-9);
            at(0.5, 0, 0.5, pose); /* through the face that both have */
            compare(&settings, face, of, pose, 0.5 * 0.5 * 0.25, 0, 1e-9);
            for (int i = 0; i < 40; i++) {
                double near[12];
                shape_pose_random(&rng, 0.4, near);
                near[3] += 0.5, near[7] += i % 2 ? 0.5 : 0;
                compare(&settings, i % 2 ? edge : face, of, near, 0, 0, 1e-9);
            }
        }
}

static void test_sampled(void **state) {
    (void)state;
    double pose[12];
    for (int kind = 0; kind < 2; kind++) {
        const ct_body_kind of = kind ? CT_BODY_DEFORMABLE : CT_BODY_RIGID;
        const ct_scene_settings ldi = stage_resolution(64);
        ct_scene_settings ebpi;
        ct_scene_settings_init(&ebpi);
        ebpi.method = CT_METHOD_EBPI;
        ebpi.tolerance_rel = 1e-3;
        at(0.5, 0.5, 0.125, pose);
        compare(&ldi, edge, of, pose, 2 * 0.25 * 0.25 * 0.5, 0, 1e-3);
        compare(&ebpi, edge, of, pose, 2 * 0.25 * 0.25 * 0.5, 0, 1e-4);
        at(0.5, 0, 0.5, pose);
        compare(&ldi, face, of, pose, 0.5 * 0.5 * 0.25, 0, 1e-3);
        compare(&ebpi, face, of, pose, 0.5 * 0.5 * 0.25, 0, 1e-4);
    }
}

static void test_self_contact(void **state) { /* refused by exact, which follows edges there; not by ldi */
    (void)state;
    uint32_t places[16];
    struct shape both = two_boxes(edge, true, places);
    for (int method = 0; method < 2; method++) {
        const ct_scene_settings settings = method ? stage_resolution(8) : stage_exact();
        ct_scene *scene = NULL;
        ct_error error = {0};
        assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_OK);
        ct_mesh *mesh = shape_to_mesh(&both, &error);
        assert_non_null(mesh);
        ct_body_options options;
        ct_body_options_init(&options);
        options.kind = CT_BODY_DEFORMABLE;
        options.self_contact = true;
        uint32_t body;
        const ct_status status = ct_scene_add_body(scene, mesh, &options, &body, &error);
        assert_int_equal(status, method ? CT_OK : CT_INVALID_ARGUMENT);
        if (!method) {
            assert_string_equal(error.field, "self_contact");
            assert_non_null(strstr(error.message, "vertices of its own"));
        }
        ct_mesh_release(&mesh);
        ct_scene_destroy(&scene);
    }
    shape_free(&both);
}

int main(void) {
    engine = stage_engine(2, NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact), cmocka_unit_test(test_sampled),
                                       cmocka_unit_test(test_self_contact)};
    const int failed = cmocka_run_group_tests_name("touching parts", tests, NULL, NULL);
    ct_engine_destroy(&engine);
    return failed;
}
