/* test_doubles.c - positions in double precision: contacts far from the origin and thin ones, whose volume is known from
 * the doubles that were given, lie within the proven bound, and gradients agree with differences of a micrometre. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/stage.h"

static ct_engine *engine; /* CPU, two threads */
static struct shape unit;

/* The corners of a box from lo to hi, as shape_box(1, 1, 1) orders them. */
static void box_corners(const double lo[3], const double hi[3], double out[24]) {
    for (int i = 0; i < 24; i++) out[i] = unit.positions[i] < 0 ? lo[i % 3] : hi[i % 3];
}

/* A scene of boxes, rigid with their corners in the mesh, or deformable with their corners sent. */
struct boxes {
    ct_engine *on;
    ct_scene *scene;
    uint32_t body[2];
    double lo[2][3], hi[2][3], corners[2][24];
};

static ct_mesh *mesh_of(const double corners[24]) {
    ct_mesh *mesh;
    ct_error error = {0};
    if (ct_mesh_create(corners, CT_F64, 8, unit.triangles, 12, NULL, &mesh, &error) != CT_OK)
        fail_msg("%s", error.message);
    return mesh;
}

static void open_boxes(struct boxes *b, ct_engine *on, bool is_rigid) {
    const ct_scene_settings settings = stage_exact();
    ct_error error = {0};
    b->on = on;
    assert_int_equal(ct_scene_create(on, &settings, &b->scene, &error), CT_OK);
    for (int i = 0; i < 2; i++) {
        ct_body_options options;
        ct_body_options_init(&options);
        options.kind = is_rigid ? CT_BODY_RIGID : CT_BODY_DEFORMABLE;
        box_corners(b->lo[i], b->hi[i], b->corners[i]);
        const double zero[3] = {0}, one[3] = {1, 1, 1};
        double plain[24];
        box_corners(zero, one, plain);
        ct_mesh *mesh = mesh_of(is_rigid ? b->corners[i] : plain);
        assert_int_equal(ct_scene_add_body(b->scene, mesh, &options, &b->body[i], &error), CT_OK);
        ct_mesh_release(&mesh);
    }
}

static ct_result *step_boxes(struct boxes *b, bool is_rigid) {
    ct_update updates[2];
    for (int i = 0; i < 2; i++)
        updates[i] = (ct_update){
            .body = b->body[i], .kind = CT_UPDATE_POSITIONS, .positions = b->corners[i], .dtype = CT_F64, .count = 8};
    ct_step step = {.scene = b->scene, .updates = updates, .n_updates = is_rigid ? 0 : 2, .want = CT_WANT_ALL};
    if (ct_engine_run(b->on, &step, 1) != CT_OK) fail_msg("%s", step.error.message);
    return step.result;
}

/* What the doubles say, rounded to a part of 10^19. */
static long double overlap_of(const struct boxes *b) {
    long double volume = 1;
    for (int k = 0; k < 3; k++)
        volume *= (long double)fmin(b->hi[0][k], b->hi[1][k]) - (long double)fmax(b->lo[0][k], b->lo[1][k]);
    return volume;
}

static void expect_within_bound(ct_engine *on, double away, double depth, bool is_rigid) {
    struct boxes b = {.lo = {{-1, -1, -1}, {-0.05, -0.05, -depth}}, .hi = {{1, 1, 0}, {0.05, 0.05, 0.1}}};
    const double by[3] = {away, 2.1 * away, -0.3 * away};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) b.lo[i][k] += by[k], b.hi[i][k] += by[k];
    open_boxes(&b, on, is_rigid);
    ct_result *result = step_boxes(&b, is_rigid);
    const long double truth = overlap_of(&b);
    assert_int_equal(result->n_contacts, 1);
    const ct_contact *c = &result->contacts[0];
    if (!(fabsl((long double)c->volume - truth) <= (long double)c->error_bound))
        fail_msg("%g m away, %g m deep, %s: %.17g m^3, expected %.17Lg, bound %g", away, depth,
                 is_rigid ? "rigid" : "deformable", c->volume, truth, c->error_bound);
    /* On the CPU the bound is that of the lattice, wherever the bodies are. */
    ct_engine_facts facts;
    ct_engine_get_facts(on, 0, &facts);
    if (!strcmp(facts.backend, "cpu") && c->error_bound > 1e-11)
        fail_msg("%g m away, %g m deep, rigid %d: bound %g", away, depth, is_rigid, c->error_bound);
    for (int k = 0; k < 3; k++) assert_true(c->generalized_gradient[0][k] == -c->generalized_gradient[1][k]);
    ct_result_free(&result);
    ct_scene_destroy(&b.scene);
}

static void test_far_and_thin(void **state) {
    (void)state;
    for (int is_rigid = 0; is_rigid < 2; is_rigid++)
        for (int a = 0; a < 9; a++)
            for (int d = 2; d <= 6; d++)
                expect_within_bound(engine, a ? 1.01 * pow(10, a - 1) + 0.1 : 0, pow(10, -d), is_rigid);
}

/* On CUDA positions are float32: what that rounds is in the bound. */
static void test_cuda(void **state) {
    (void)state;
    ct_engine_options options;
    ct_engine *other;
    ct_engine_options_init(&options);
    options.backend = "cuda";
    if (ct_engine_create(&options, &other, NULL) != CT_OK) skip(); /* built without, or no device */
    for (int is_rigid = 0; is_rigid < 2; is_rigid++)
        for (int a = 0; a < 5; a++) expect_within_bound(other, a ? 1.01 * pow(10, a - 1) : 0, 1e-2, is_rigid);
    ct_engine_destroy(&other);
}

/* ---- differences ---- */

static void turn_and_move(uint64_t *rng, double corners[24]) {
    double axis[3], by[3], pose[12];
    for (int k = 0; k < 3; k++) {
        axis[k] = shape_uniform(rng, -1, 1);
        by[k] = shape_uniform(rng, -0.3, 0.3);
    }
    shape_pose_axis(axis, shape_uniform(rng, 0, 3), by, pose);
    for (int v = 0; v < 8; v++) {
        const double p[3] = {corners[3 * v], corners[3 * v + 1], corners[3 * v + 2]};
        for (int k = 0; k < 3; k++)
            corners[3 * v + k] = pose[4 * k] * p[0] + pose[4 * k + 1] * p[1] + pose[4 * k + 2] * p[2] + pose[4 * k + 3];
    }
}

static double volume_at(struct boxes *b) {
    ct_result *result = step_boxes(b, false);
    const double volume = result->n_contacts ? result->contacts[0].volume : 0;
    ct_result_free(&result);
    return volume;
}

/* torch.autograd.gradcheck's step and tolerances. */
static void test_differences(void **state) {
    (void)state;
    uint64_t rng = 77;
    int n = 0;
    for (int round = 0; round < 12; round++) {
        struct boxes b = {.lo = {{-0.5, -0.5, -0.5}, {-0.5, -0.5, -0.5}}, .hi = {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}}};
        open_boxes(&b, engine, false);
        const double away = round % 3 ? 0 : 3e4;
        for (int i = 0; i < 2; i++) {
            turn_and_move(&rng, b.corners[i]);
            for (int k = 0; k < 24; k++) b.corners[i][k] += away;
        }
        ct_result *result = step_boxes(&b, false);
        for (uint64_t e = 0; e < (result->n_contacts ? result->n_entries : 0); e++) {
            const ct_contact *c = &result->contacts[0];
            const int i = e >= c->first[1];
            for (int k = 0; k < 3; k++) {
                double *x = &b.corners[i][3 * result->vertices[e] + (uint32_t)k], was = *x;
                *x = was + 1e-6;
                const double up = volume_at(&b), high = *x;
                *x = was - 1e-6;
                const double slope = (up - volume_at(&b)) / (high - *x), given = result->gradient[3 * e + (uint64_t)k];
                *x = was;
                n++;
                if (fabs(slope - given) > 1e-5 + 1e-3 * fabs(given))
                    fail_msg("round %d, body %d, vertex %u: %g, by differences %g", round, i, result->vertices[e],
                             given, slope);
            }
        }
        ct_result_free(&result);
        ct_scene_destroy(&b.scene);
    }
    assert_true(n > 200);
}

/* ---- the same body, however it came ---- */

static void test_what_float32_holds_is_the_same(void **state) {
    (void)state;
    double wide[24];
    ct_mesh *a, *b;
    ct_mesh_info of_a, of_b;
    for (int i = 0; i < 24; i++) wide[i] = (double)unit.positions[i];
    assert_int_equal(ct_mesh_create(wide, CT_F64, 8, unit.triangles, 12, NULL, &a, NULL), CT_OK);
    assert_int_equal(ct_mesh_create(unit.positions, CT_F32, 8, unit.triangles, 12, NULL, &b, NULL), CT_OK);
    ct_mesh_get_info(a, &of_a);
    ct_mesh_get_info(b, &of_b);
    assert_string_equal(of_a.hash, of_b.hash);
    assert_int_equal(of_a.dtype, CT_F32);
    ct_mesh_release(&a);
    wide[5] += 1e-12;
    assert_int_equal(ct_mesh_create(wide, CT_F64, 8, unit.triangles, 12, NULL, &a, NULL), CT_OK);
    ct_mesh_get_info(a, &of_a);
    assert_string_not_equal(of_a.hash, of_b.hash);
    assert_int_equal(of_a.dtype, CT_F64);
    double back[24];
    ct_mesh_positions_f64(a, back);
    assert_true(fabs(back[5] - wide[5]) < 1e-15);
    for (int i = 0; i < 24; i++) assert_true(i == 5 || back[i] == wide[i]);
    ct_mesh_release(&a);
    ct_mesh_release(&b);
}

/* All at once, or corner by corner, and after float32, and after having been elsewhere. */
static void test_parts(void **state) {
    (void)state;
    uint64_t rng = 5;
    struct boxes b = {.lo = {{-0.5, -0.5, -0.5}, {-0.5, -0.5, -0.5}}, .hi = {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}}};
    open_boxes(&b, engine, false);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 2; i++) {
            box_corners(b.lo[i], b.hi[i], b.corners[i]);
            turn_and_move(&rng, b.corners[i]);
        }
        const double whole = volume_at(&b);
        float elsewhere[24];
        for (int i = 0; i < 24; i++) elsewhere[i] = (float)(i + round * i % 5);
        const uint32_t all[8] = {7, 6, 5, 4, 3, 2, 1, 0};
        double turned[24];
        for (int v = 0; v < 8; v++) memcpy(turned + 3 * v, b.corners[0] + 3 * (7 - v), 24);
        ct_update updates[2] = {
            {.body = b.body[0], .kind = CT_UPDATE_POSITIONS, .positions = elsewhere, .dtype = CT_F32, .count = 8},
            {.body = b.body[0],
             .kind = CT_UPDATE_INDEXED,
             .positions = turned,
             .dtype = CT_F64,
             .count = 8,
             .indices = all,
             .n_indices = 8}};
        ct_step step = {.scene = b.scene, .updates = updates, .n_updates = 2, .want = CT_WANT_ALL};
        assert_int_equal(ct_engine_run(b.on, &step, 1), CT_OK);
        const double parts = step.result->n_contacts ? step.result->contacts[0].volume : 0;
        const double bound = step.result->n_contacts ? step.result->contacts[0].error_bound : 0;
        assert_true(fabs(whole - parts) <= 2 * bound);
        ct_result_free(&step.result);
    }
    ct_scene_destroy(&b.scene);
}

int main(void) {
    engine = stage_engine(2, NULL);
    unit = shape_box(1, 1, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_far_and_thin), cmocka_unit_test(test_cuda), cmocka_unit_test(test_differences),
        cmocka_unit_test(test_what_float32_holds_is_the_same), cmocka_unit_test(test_parts)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    shape_free(&unit);
    ct_engine_destroy(&engine);
    return failed;
}
