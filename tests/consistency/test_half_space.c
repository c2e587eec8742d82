/* test_half_space.c - half-spaces against closed forms, against a huge box and by differences: volume, gradient at
 * every vertex, the plane's 6-vector. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"
#include "tests/scenes/build.h"
#include "tests/scenes/clip.h"

/* A body and the half-space below a plane. */
struct pair {
    ct_scene *scene;
    uint32_t body, plane;
};

static struct pair open_pair(const struct shape *shape, const double *pose, const double plane_pose[12],
                             bool plane_first, bool patches) {
    struct pair pair;
    ct_scene_settings settings = stage_exact();
    ct_body_options options;
    ct_error error = {0};
    settings.patches = patches;
    assert_int_equal(ct_scene_create(engine, &settings, &pair.scene, &error), CT_OK);
    ct_mesh *mesh = shape_to_mesh(shape, &error);
    assert_non_null(mesh);
    for (int step = 0; step < 2; step++) {
        ct_body_options_init(&options);
        if ((step == 0) == plane_first) {
            options.kind = CT_BODY_HALF_SPACE;
            memcpy(options.pose, plane_pose, sizeof options.pose);
            assert_int_equal(ct_scene_add_body(pair.scene, NULL, &options, &pair.plane, &error), CT_OK);
            continue;
        }
        options.kind = CT_BODY_RIGID;
        if (pose) memcpy(options.pose, pose, sizeof options.pose);
        assert_int_equal(ct_scene_add_body(pair.scene, mesh, &options, &pair.body, &error), CT_OK);
    }
    ct_mesh_release(&mesh);
    return pair;
}

static ct_result *step_pair(struct pair *pair) {
    ct_step step = {.scene = pair->scene, .want = CT_WANT_ALL | CT_WANT_INERTIA};
    if (ct_engine_run(engine, &step, 1)) fail_msg("%s", step.error.message);
    return step.result;
}

static ct_result *run_posed(const struct shape *shape, const double *pose, const double plane_pose[12],
                            bool plane_first) {
    struct pair pair = open_pair(shape, pose, plane_pose, plane_first, false);
    ct_result *result = step_pair(&pair);
    ct_scene_destroy(&pair.scene);
    return result;
}

static ct_result *run(const struct shape *shape, const double *pose, const double normal[3], double offset) {
    double plane[12];
    assert_int_equal(ct_plane_pose(normal, offset, plane, NULL), CT_OK);
    return run_posed(shape, pose, plane, false);
}

static const ct_contact *only_contact(const ct_result *result) {
    assert_int_equal(result->n_contacts, 1);
    return result->contacts;
}

/* The body is part 0. Sum rules: the gradient's sum is the body's force, and the plane's is its opposite. */
static void check_sums(const ct_result *r, const ct_contact *c) {
    double sum[3] = {0}, size = 0;
    assert_int_equal(c->count[1], 0);
    for (uint64_t e = c->first[0]; e < c->first[0] + c->count[0]; e++)
        for (uint64_t k = 0; k < 3; k++) {
            sum[k] += r->gradient[3 * e + k];
            size += fabs(r->gradient[3 * e + k]);
        }
    for (int k = 0; k < 3; k++) {
        assert_float_equal(sum[k], c->generalized_gradient[0][k], 1e-13 * size);
        assert_true(c->generalized_gradient[0][k] == -c->generalized_gradient[1][k]);
    }
    assert_true(c->volume > c->error_bound && c->error_bound >= 0);
}

/* ---- a tilted plane, against the clipped mesh ---- */

static void check_against_clip(const struct shape *shape, const double *pose, const double normal[3], double offset) {
    ct_result *r = run(shape, pose, normal, offset);
    double plane[12];
    assert_int_equal(ct_plane_pose(normal, offset, plane, NULL), CT_OK);
    struct corner corner = {
        .apex = {plane[3], plane[7], plane[11]}, .normal = {{plane[2], plane[6], plane[10]}}, .n = 1};
    const double about[3] = {pose ? pose[3] : 0, pose ? pose[7] : 0, pose ? pose[11] : 0};
    struct clipped expected = clip(shape, pose, &corner, about);
    if (!r->n_contacts) {
        assert_true(expected.volume < 1e-9);
    } else {
        const ct_contact *c = only_contact(r);
        check_sums(r, c);
        assert_true(fabs(c->volume - expected.volume) <= c->error_bound + 1e-13 * (1 + expected.volume));
        double *dense = shape_alloc(3 * (uint64_t)shape->n_vertices, sizeof *dense), size = 0;
        for (uint64_t e = c->first[0]; e < c->first[0] + c->count[0]; e++)
            memcpy(dense + 3 * (size_t)r->vertices[e], r->gradient + 3 * e, 3 * sizeof *dense);
        for (size_t k = 0; k < 3 * (size_t)shape->n_vertices; k++) size += fabs(expected.gradient[k]);
        for (size_t k = 0; k < 3 * (size_t)shape->n_vertices; k++)
            assert_float_equal(dense[k], expected.gradient[k], 1e-9 * size);
        for (int k = 0; k < 6; k++)
            assert_float_equal(c->generalized_gradient[0][k], expected.wrench[k], 1e-9 * (1 + size));
        free(dense);
    }
    free(expected.gradient);
    ct_result_free(&r);
}

static void test_tilted_planes(void **state) {
    (void)state;
    uint64_t rng = 3;
    struct shape shapes[] = {shape_box(1, 1.5, 0.7),     shape_icosphere(0.7, 3), shape_torus(0.6, 0.25, 40, 20),
                             shape_blob(0.8, 4, 0.4, 3), shape_l_prism(1, 0.5),   shape_bolt(0.5, 0.1, 0.25, 3, 24, 12),
                             shape_icosphere(1, 5)};
    for (int i = 0; i < 210; i++) {
        double pose[12], normal[3];
        shape_pose_random(&rng, i % 5 ? 0.5 : 100, pose);
        for (int k = 0; k < 3; k++) normal[k] = shape_uniform(&rng, -1, 1);
        const double length = sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]);
        double offset = shape_uniform(&rng, -0.9, 0.9);
        for (int k = 0; k < 3; k++) offset += normal[k] / length * pose[4 * k + 3];
        check_against_clip(&shapes[i % 7], pose, normal, offset);
    }
    for (int i = 0; i < 7; i++) shape_free(&shapes[i]);
}

/* Depths of a millionth of the body: a ball, of which V and the bound are of one order in every direction, and a box's
 * corner, V = d^3 / (6 n_x n_y n_z). */
static void test_barely_below(void **state) {
    (void)state;
    uint64_t rng = 5;
    struct shape ball = shape_icosphere(0.5, 5), box = shape_box(1, 1.5, 0.7);
    for (int i = 0; i < 24; i++) {
        const struct shape *shape = i % 2 ? &box : &ball;
        double normal[3], length = 0, lowest = INFINITY, product = 6;
        for (int k = 0; k < 3; k++)
            normal[k] = (shape_uniform(&rng, 0, 1) < 0.5 ? -1 : 1) * shape_uniform(&rng, 0.3, 1);
        for (int k = 0; k < 3; k++) length += normal[k] * normal[k];
        for (int k = 0; k < 3; k++) product *= fabs(normal[k] /= sqrt(length));
        for (uint32_t v = 0; v < shape->n_vertices; v++) {
            double height = 0;
            for (int k = 0; k < 3; k++) height += normal[k] * (double)shape->positions[3 * v + k];
            lowest = fmin(lowest, height);
        }
        const double depth = shape == &box ? 1e-4 : 1e-6;
        ct_result *r = run(shape, NULL, normal, lowest + depth);
        const ct_contact *c = only_contact(r);
        check_sums(r, c);
        assert_true(c->error_bound < (shape == &box ? 0.1 : 0.02) * c->volume);
        if (shape == &box) assert_true(fabs(c->volume - depth * depth * depth / product) <= c->error_bound);
        ct_result_free(&r);
    }
    shape_free(&ball);
    shape_free(&box);
}

/* ---- planes through vertices and in faces ---- */

/* A unit cube around 0 at multiples of a quarter: where the plane lies in a face, the mean of both perturbations. */
static void test_axis_planes(void **state) {
    (void)state;
    struct shape cubes[2] = {shape_cube(1, 1), shape_cube(1, 4)};
    for (int axis = 0; axis < 3; axis++)
        for (int sign = -1; sign <= 1; sign += 2)
            for (int at = -3; at <= 3; at++)
                for (int fine = 0; fine < 2; fine++) {
                    double normal[3] = {0}, inside = fmin(1, fmax(0, 0.5 + at / 4.0));
                    normal[axis] = 3 * sign;
                    ct_result *r = run(&cubes[fine], NULL, normal, at / 4.0);
                    if (inside == 0) {
                        assert_int_equal(r->n_contacts, 0);
                    } else {
                        const ct_contact *c = only_contact(r);
                        check_sums(r, c);
                        assert_true(fabs(c->volume - inside) <= c->error_bound && c->error_bound < 1e-8);
                        const double area = at == 2 ? 0.5 : at > 2 ? 0 : 1;
                        for (int k = 0; k < 3; k++)
                            assert_float_equal(c->generalized_gradient[1][k], k == axis ? sign * area : 0, 1e-10);
                        for (int k = 0; k < 3; k++)
                            assert_float_equal(c->center[k], k == axis ? sign * (inside - 1) / 2 : 0, 1e-9);
                        for (int k = 0; k < 3 && at < 2; k++)
                            assert_float_equal(c->normal[k], k == axis ? sign : 0, 1e-10);
                    }
                    ct_result_free(&r);
                }
    /* A plane through opposite edges, and one through three corners. */
    for (int fine = 0; fine < 2; fine++) {
        ct_result *r = run(&cubes[fine], NULL, (const double[]){1, 1, 0}, 0);
        assert_float_equal(only_contact(r)->volume, 0.5, r->contacts->error_bound + 1e-15);
        assert_float_equal(r->contacts->area, sqrt(2), 1e-9);
        ct_result_free(&r);
        r = run(&cubes[fine], NULL, (const double[]){1, 1, 1}, 0.5 / sqrt(3));
        assert_float_equal(only_contact(r)->volume, 5.0 / 6, r->contacts->error_bound + 1e-15);
        ct_result_free(&r);
    }
    for (int i = 0; i < 2; i++) shape_free(&cubes[i]);
}

/* ---- against a huge box ---- */

static void test_huge_box(void **state) {
    (void)state;
    uint64_t rng = 5;
    struct shape box = shape_box(16, 16, 16), ball = shape_icosphere(1, 4),
                 bolt = shape_bolt(0.8, 0.15, 0.3, 4, 40, 20);
    shape_translate(&box, 0, 0, -8); /* its top is z = 0 */
    for (int i = 0; i < 30; i++) {
        double plane[12], pose[12];
        shape_pose_random(&rng, 0.8, plane);
        shape_pose_random(&rng, 0.2, pose);
        const struct shape *shape = i % 2 ? &ball : &bolt;
        const ct_scene_settings settings = stage_exact();
        ct_result *r = run_posed(shape, pose, plane, false), *swapped = run_posed(shape, pose, plane, true);
        ct_result *other =
            stage_once(engine, &settings, (struct placed[]){{shape, pose, CT_BODY_RIGID}, {&box, plane, CT_BODY_RIGID}},
                       2, CT_WANT_ALL);
        assert_int_equal(r->n_contacts, other->n_contacts);
        assert_int_equal(r->n_contacts, swapped->n_contacts);
        if (r->n_contacts) {
            const ct_contact *c = r->contacts, *d = other->contacts, *e = swapped->contacts;
            check_sums(r, c);
            assert_true(fabs(c->volume - d->volume) <= c->error_bound + d->error_bound);
            assert_float_equal(c->area, d->area, 1e-8);
            assert_int_equal(c->count[0], d->count[0]);
            for (int p = 0; p < 2; p++)
                for (int k = 0; k < 6; k++) {
                    assert_float_equal(c->generalized_gradient[p][k], d->generalized_gradient[p][k], 1e-8);
                    assert_true(c->generalized_gradient[p][k] == e->generalized_gradient[1 - p][k]);
                }
            for (int k = 0; k < 3; k++) {
                assert_float_equal(c->center[k], d->center[k], 1e-8);
                assert_true(c->normal[k] == -e->normal[k]);
            }
            for (uint64_t k = 0; k < 3 * c->count[0]; k++)
                assert_float_equal(r->gradient[3 * c->first[0] + k], other->gradient[3 * d->first[0] + k], 1e-8);
            assert_memory_equal(&c->volume, &e->volume, sizeof c->volume);
        }
        ct_result_free(&r);
        ct_result_free(&swapped);
        ct_result_free(&other);
    }
    shape_free(&box);
    shape_free(&ball);
    shape_free(&bolt);
}

/* ---- moving it ---- */

static void test_differences(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 4);
    double pose[12];
    const double normal[3] = {0.2, -0.3, 1}, h = 1e-4;
    assert_int_equal(ct_plane_pose(normal, 0.3, pose, NULL), CT_OK);
    pose[3] += 0.5; /* another point of another plane */
    struct pair pair = open_pair(&ball, NULL, pose, false, false);
    ct_result *r = step_pair(&pair);
    for (int d = 0; d < 6; d++) {
        double volume[2];
        for (int side = 0; side < 2; side++) {
            ct_update update = {.body = pair.plane, .kind = CT_UPDATE_POSE};
            memcpy(update.pose, pose, sizeof pose);
            const double by = side ? h : -h;
            if (d < 3) {
                update.pose[4 * d + 3] += by;
            } else { /* about its origin */
                const int i = (d - 3 + 1) % 3, j = (d - 3 + 2) % 3;
                for (int k = 0; k < 3; k++) {
                    update.pose[4 * i + k] = pose[4 * i + k] * cos(by) - pose[4 * j + k] * sin(by);
                    update.pose[4 * j + k] = pose[4 * i + k] * sin(by) + pose[4 * j + k] * cos(by);
                }
            }
            ct_step step = {.scene = pair.scene, .updates = &update, .n_updates = 1, .want = CT_WANT_FRAME};
            assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
            volume[side] = only_contact(step.result)->volume;
            ct_result_free(&step.result);
        }
        assert_float_equal((volume[1] - volume[0]) / (2 * h), r->contacts->generalized_gradient[1][d], 4e-6);
    }
    ct_result_free(&r);
    ct_scene_destroy(&pair.scene);
    shape_free(&ball);
}

/* Far above, far below, far from its origin: only the plane matters. */
static void test_far(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 3);
    const double whole = shape_volume(&ball), up[3] = {0, 0, 1};
    for (int e = 1; e < 9; e++) {
        ct_result *r = run(&ball, NULL, up, -pow(10, e));
        assert_int_equal(r->n_contacts, 0);
        ct_result_free(&r);
        r = run(&ball, NULL, up, pow(10, e));
        const ct_contact *c = only_contact(r);
        assert_true(fabs(c->volume - whole) <= c->error_bound);
        for (int k = 0; k < 6; k++) assert_float_equal(c->generalized_gradient[1][k], 0, 1e-11);
        ct_result_free(&r);
        double plane[12];
        assert_int_equal(ct_plane_pose((const double[]){0, 0.6, 0.8}, 0.25, plane, NULL), CT_OK);
        r = run_posed(&ball, NULL, plane, false);
        plane[3] = 0.1 * pow(10, e);
        plane[7] += 0.8 * pow(10, e);
        plane[11] -= 0.6 * pow(10, e);
        ct_result *far = run_posed(&ball, NULL, plane, false);
        assert_true(fabs(only_contact(far)->volume - only_contact(r)->volume) <=
                    far->contacts->error_bound + r->contacts->error_bound + 4e-16 * pow(10, e));
        ct_result_free(&far);
        ct_result_free(&r);
    }
    shape_free(&ball);
}

/* Planes so far away that doubles do not hold the body's size beside their place: a body wholly inside or outside has
 * the right answer. One that the plane may cut is refused, by the name of its pose. */
static void test_beyond_doubles(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 3);
    const double whole = shape_volume(&ball), normals[3][3] = {{0, 0, 1}, {0, 0.6, 0.8}, {-1, 2, 3}};
    double pose[12], plane[12];
    shape_pose_identity(pose);
    pose[3] = 3;
    for (int e = 10; e <= 25; e++)
        for (int n = 0; n < 3; n++) {
            for (int inside = 0; inside < 2; inside++) {
                assert_int_equal(ct_plane_pose(normals[n], (inside ? 1 : -1) * pow(10, e), plane, NULL), CT_OK);
                ct_result *r = run_posed(&ball, pose, plane, n == 1);
                assert_int_equal(r->n_contacts, inside);
                if (inside) assert_true(fabs(r->contacts->volume - whole) <= r->contacts->error_bound);
                if (inside) assert_true(r->contacts->error_bound < 1e-8);
                ct_result_free(&r);
            }
            if (e < 13) continue;
            assert_int_equal(ct_plane_pose(normals[n], 0.25, plane, NULL), CT_OK);
            for (int k = 0; k < 3; k++) plane[4 * k + 3] += plane[4 * k] * pow(10, e);
            struct pair pair = open_pair(&ball, pose, plane, false, false);
            ct_step step = {.scene = pair.scene, .want = CT_WANT_ALL};
            assert_int_equal(ct_engine_run(engine, &step, 1), CT_OUT_OF_RANGE);
            assert_string_equal(step.error.field, "pose");
            assert_non_null(strstr(step.error.message, "move the scene's origin"));
            ct_scene_destroy(&pair.scene);
        }
    shape_free(&ball);
}

/* Patches of a half-space; and many bodies on one, beside another. */
static void test_several(void **state) {
    (void)state;
    struct shape ring = shape_torus(1, 0.3, 40, 20), cube = shape_box(1, 1, 1);
    double pose[12], plane[12];
    shape_pose_axis((const double[]){1, 0, 0}, 0.25, (const double[]){0, 0, 0}, pose);
    assert_int_equal(ct_plane_pose((const double[]){0, 0, 1}, 0.05, plane, NULL), CT_OK);
    struct pair pair = open_pair(&ring, pose, plane, false, true);
    ct_result *r = step_pair(&pair);
    assert_int_equal(r->n_contacts, 1);
    ct_result_free(&r);
    ct_update update = {.body = pair.plane, .kind = CT_UPDATE_POSE};
    assert_int_equal(ct_plane_pose((const double[]){1, 0, -1}, 0.1, update.pose, NULL), CT_OK);
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(&cube, &error);
    ct_body_options options;
    ct_body_options_init(&options);
    options.kind = CT_BODY_RIGID;
    uint32_t id, wall;
    for (int i = 0; i < 20; i++) {
        options.pose[3] = 10 + 2 * i;
        options.pose[11] = 0.3;
        assert_int_equal(ct_scene_add_body(pair.scene, mesh, &options, &id, &error), CT_OK);
    }
    ct_mesh_release(&mesh);
    assert_int_equal(ct_scene_add_half_space(pair.scene, (const double[]){-1, 0, 0}, -10, NULL, &wall, &error), CT_OK);
    r = step_pair(&pair);
    assert_int_equal(r->n_contacts, 1 + 20 + 20); /* the ring, and each cube with both */
    double below = 0, beyond = 0;
    for (size_t i = 0; i < r->n_contacts; i++) {
        const ct_contact *c = &r->contacts[i];
        if (c->body[0] == pair.plane) below += c->volume;
        if (c->body[1] == wall) beyond += c->volume;
    }
    assert_float_equal(below, 20 * 0.25, 1e-8);
    assert_float_equal(beyond, 19.5, 1e-8);
    ct_result_free(&r);
    ct_body_info info;
    assert_int_equal(ct_scene_body_info(pair.scene, wall, &info, &error), CT_OK);
    assert_true(info.kind == CT_BODY_HALF_SPACE && !info.mesh && info.vertices == 0);
    assert_true(info.lo[0] == 10 && info.hi[0] == CT_ENDLESS && info.lo[1] == -CT_ENDLESS);
    assert_int_equal(ct_scene_remove_body(pair.scene, wall, &error), CT_OK);
    ct_scene_destroy(&pair.scene);
    /* A bolt lies with its thread's crests in the plane: a patch for each. */
    struct shape bolt = shape_bolt(1, 0.2, 0.4, 4, 48, 24);
    shape_pose_axis((const double[]){0, 1, 0}, 0.25, (const double[]){0, 0, 0}, pose);
    assert_int_equal(ct_plane_pose((const double[]){0, 0, 1}, -0.9, plane, NULL), CT_OK);
    double sum = 0;
    for (int patches = 0; patches < 2; patches++) {
        struct pair crests = open_pair(&bolt, pose, plane, true, patches);
        r = step_pair(&crests);
        assert_true(patches ? r->n_contacts >= 3 && r->n_contacts <= 5 : r->n_contacts == 1);
        for (size_t i = 0; i < r->n_contacts; i++) {
            assert_true(r->contacts[i].generalized_gradient[0][2] > 0.9 * r->contacts[i].area);
            sum += (patches ? 1 : -1) * r->contacts[i].volume;
        }
        ct_result_free(&r);
        ct_scene_destroy(&crests.scene);
    }
    assert_float_equal(sum, 0, 1e-9);
    shape_free(&bolt);
    shape_free(&ring);
    shape_free(&cube);
}

static void test_refusals(void **state) {
    (void)state;
    ct_error error = {0};
    double pose[12];
    assert_int_equal(ct_plane_pose((const double[]){0, 0, 0}, 1, pose, &error), CT_OUT_OF_RANGE);
    assert_string_equal(error.field, "normal");
    memset(&error, 0, sizeof error);
    assert_int_equal(ct_plane_pose((const double[]){0, NAN, 0}, 1, pose, &error), CT_NON_FINITE);
    memset(&error, 0, sizeof error);
    assert_int_equal(ct_plane_pose((const double[]){0, 1, 0}, INFINITY, pose, &error), CT_NON_FINITE);
    assert_string_equal(error.field, "offset");
    memset(&error, 0, sizeof error);
    ct_scene_settings settings = stage_resolution(16);
    ct_scene *scene;
    uint32_t body = 0;
    assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_OK);
    assert_int_equal(ct_scene_add_half_space(scene, (const double[]){0, 0, 1}, 0, NULL, &body, &error), CT_UNSUPPORTED);
    assert_non_null(strstr(error.message, "\"ldi\" takes no half-spaces"));
    assert_int_equal(body, 0);
    ct_scene_destroy(&scene);
    memset(&error, 0, sizeof error);
    ct_scene_settings exact = stage_exact();
    assert_int_equal(ct_scene_create(engine, &exact, &scene, &error), CT_OK);
    assert_int_equal(ct_scene_add_half_space(scene, (const double[]){0, 0, 1}, 0, NULL, &body, &error), CT_OK);
    assert_int_equal(ct_scene_configure(scene, &settings, &error), CT_UNSUPPORTED);
    assert_string_equal(error.field, "method");
    assert_int_equal(ct_scene_remove_body(scene, body, NULL), CT_OK);
    assert_int_equal(ct_scene_configure(scene, &settings, NULL), CT_OK);
    ct_body_options options;
    ct_body_options_init(&options);
    assert_int_equal(ct_scene_add_body(scene, NULL, &options, &body, NULL), CT_INVALID_ARGUMENT);
    ct_scene_destroy(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tilted_planes), cmocka_unit_test(test_axis_planes),
        cmocka_unit_test(test_huge_box),      cmocka_unit_test(test_differences),
        cmocka_unit_test(test_far),           cmocka_unit_test(test_several),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_beyond_doubles),
        cmocka_unit_test(test_barely_below),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
