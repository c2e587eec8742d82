/* test_exact_method.c - the method `exact` against closed forms, against brute force in extended precision, and its
 * gradient against differences: volumes within the bound that comes with them, gradients at every vertex, no contact
 * where there is none. */
#include "tests/consistency/exact_checks.h"

/* ---- against brute force ---- */

static void test_random_pairs(void **state) {
    (void)state;
    uint64_t rng = 1;
    struct errors errors = {0};
    for (int i = 0; i < 3 * KINDS * (KINDS + 1) / 2; i++) {
        static const int kind_of[45][2] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 6}, {0, 7}, {0, 8},
                                           {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {1, 6}, {1, 7}, {1, 8}, {2, 2},
                                           {2, 3}, {2, 4}, {2, 5}, {2, 6}, {2, 7}, {2, 8}, {3, 3}, {3, 4}, {3, 5},
                                           {3, 6}, {3, 7}, {3, 8}, {4, 4}, {4, 5}, {4, 6}, {4, 7}, {4, 8}, {5, 5},
                                           {5, 6}, {5, 7}, {5, 8}, {6, 6}, {6, 7}, {6, 8}, {7, 7}, {7, 8}, {8, 8}};
        struct shape a = shape_of_kind(kind_of[i % 45][0], &rng), b = shape_of_kind(kind_of[i % 45][1], &rng);
        double pose[2][12];
        shape_pose_random(&rng, 0.4, pose[0]);
        shape_pose_random(&rng, 0.4, pose[1]);
        check_pair(&a, pose[0], &b, pose[1], 1e-8, &errors);
        shape_free(&a);
        shape_free(&b);
    }
    print_errors("random pairs", &errors);
    assert_true(errors.contacts > 100);
}

/* ---- closed forms ---- */

/* Unit cubes at all multiples of a quarter: faces, edges and corners coincide in all ways. The gradient is the mean of
 * those of the cubes moved apart by a little and towards each other, so it is 0 along axes where they coincide. */
static void test_cubes_at_quarters(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1), fine = shape_cube(1, 4);
    for (int i = 0; i < 9 * 9 * 9; i++) {
        const int at[3] = {i % 9 - 4, i / 9 % 9 - 4, i / 81 - 4};
        double pose[12], side[3], volume = 1;
        shift(pose, at[0] / 4.0, at[1] / 4.0, at[2] / 4.0);
        for (int k = 0; k < 3; k++) {
            side[k] = 1 - abs(at[k]) / 4.0;
            volume *= side[k];
        }
        for (int pair = 0; pair < 3; pair++) {
            ct_result *result = run_pair(pair & 1 ? &fine : &cube, NULL, pair & 2 ? &fine : &cube, pose);
            if (volume == 0) {
                assert_int_equal(result->n_contacts, 0);
                assert_int_equal(result->n_entries, 0);
            } else {
                const ct_contact *c = only_contact(result);
                assert_sane(result, c);
                assert_volume(c, volume);
                assert_int_equal(c->max_winding, 1);
                for (int k = 0; k < 3; k++) {
                    const double face = volume / side[k], sign = (at[k] > 0) - (at[k] < 0);
                    assert_float_equal(c->generalized_gradient[0][k], sign * face, 1e-12);
                    assert_float_equal(c->center[k], at[k] / 8.0, 1e-9);
                }
            }
            ct_result_free(&result);
        }
    }
    shape_free(&cube);
    shape_free(&fine);
}

/* The same, turned: coordinates are rounded, so faces no longer coincide exactly, and the bound covers that. */
static void test_turned_cubes(void **state) {
    (void)state;
    uint64_t rng = 3;
    struct shape cube = shape_box(1, 1, 1);
    for (int i = 0; i < 200; i++) {
        double at[12], turn[12], pose[12], volume = 1;
        int steps[3];
        for (int k = 0; k < 3; k++) {
            steps[k] = (int)(shape_random(&rng) % 9) - 4;
            volume *= 1 - abs(steps[k]) / 4.0;
        }
        shift(at, steps[0] / 4.0, steps[1] / 4.0, steps[2] / 4.0);
        shape_pose_random(&rng, 100, turn);
        compose(turn, at, pose);
        ct_result *result = run_pair(&cube, turn, &cube, pose);
        if (volume == 0) {
            assert_int_equal(result->n_contacts, 0);
        } else {
            const ct_contact *c = only_contact(result);
            assert_sane(result, c);
            /* The poses themselves are rounded to double. */
            assert_true(fabs(c->volume - volume) <= c->error_bound + 1e-12);
            assert_true(c->error_bound <= 1e-8 * volume);
        }
        ct_result_free(&result);
    }
    shape_free(&cube);
}

static void test_apart(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1), ball = shape_icosphere(1, 3), ring = shape_torus(1, 0.2, 24, 12);
    double pose[12];
    const double gaps[] = {0, 0x1p-23, 1e-12, 1e-3, 5};
    for (int i = 0; i < 5; i++) {
        shift(pose, 1 + gaps[i], 0.25, 0);
        ct_result *result = run_pair(&cube, NULL, &cube, pose);
        assert_int_equal(result->n_contacts, 0);
        ct_result_free(&result);
    }
    shift(pose, 2, 0, 0);
    ct_result *result = run_pair(&ball, NULL, &ball, pose);
    assert_int_equal(result->n_contacts, 0);
    ct_result_free(&result);
    shape_pose_axis((const double[]){1, 0, 0}, 0.25, (const double[]){1, 0, 0}, pose); /* links of a chain */
    result = run_pair(&ring, NULL, &ring, pose);
    assert_int_equal(result->pairs, 1);
    assert_int_equal(result->n_contacts, 0);
    ct_result_free(&result);
    shift(pose, 0, 0, 0);
    result = run_pair(&ring, NULL, &cube, pose); /* through the hole */
    assert_int_equal(result->n_contacts, 0);
    ct_result_free(&result);
    shape_free(&cube);
    shape_free(&ball);
    shape_free(&ring);
}

static void test_nested(void **state) {
    (void)state;
    uint64_t rng = 5;
    struct shape outer[] = {shape_box(4, 4, 4), shape_icosphere(2, 5), shape_cube(4, 12)};
    struct shape inner[] = {shape_box(1, 0.5, 0.25), shape_blob(0.8, 4, 0.4, 2), shape_tetrahedron(1)};
    for (int i = 0; i < 36; i++) {
        const struct shape *in = &inner[i % 3], *out = &outer[i / 3 % 3];
        double pose[2][12];
        shape_pose_random(&rng, 0.2, pose[0]);
        shape_pose_random(&rng, 0.2, pose[1]);
        ct_result *result = i % 2 ? run_pair(in, pose[0], out, pose[1]) : run_pair(out, pose[1], in, pose[0]);
        const ct_contact *c = only_contact(result);
        const int part = i % 2 ? 0 : 1;
        assert_sane(result, c);
        assert_true(fabs(c->volume - shape_volume(in)) <= c->error_bound + 1e-14);
        assert_int_equal(c->count[1 - part], 0);
        assert_true(c->count[part] > 0);
        for (int k = 0; k < 6; k++) {
            assert_float_equal(c->generalized_gradient[part][k], 0, 1e-9);
            assert_float_equal(c->generalized_gradient[1 - part][k], 0, 0);
        }
        ct_result_free(&result);
    }
    for (int i = 0; i < 3; i++) {
        shape_free(&outer[i]);
        shape_free(&inner[i]);
    }
}

/* A body and its copy in the same place: all faces coincide, so each body bears half of the gradient. */
static void test_identical_bodies(void **state) {
    (void)state;
    uint64_t rng = 6;
    struct shape shapes[] = {shape_box(1, 1, 1),
                             shape_cube(1, 5),
                             shape_blob(0.8, 3, 0.4, 2),
                             shape_icosphere(1, 5),
                             shape_l_prism(1, 0.5),
                             shape_torus(1, 0.4, 80, 40),
                             shape_bolt(1, 0.2, 0.3, 3, 30, 24),
                             shape_tetrahedron(1)};
    for (int i = 0; i < 8; i++) {
        for (int turned = 0; turned < 2; turned++) {
            double pose[12];
            shape_pose_identity(pose);
            if (turned) shape_pose_random(&rng, 3, pose);
            ct_result *result = run_pair(&shapes[i], pose, &shapes[i], pose);
            const ct_contact *c = only_contact(result);
            assert_sane(result, c);
            assert_true(fabs(c->volume - shape_volume(&shapes[i])) <= c->error_bound);
            assert_true(c->error_bound <= 1e-8 * c->volume);
            assert_int_equal(c->count[0], c->count[1]);
            for (uint64_t e = 0; e < 3 * c->count[0]; e++)
                assert_float_equal(result->gradient[3 * c->first[0] + e], result->gradient[3 * c->first[1] + e], 1e-11);
            for (int k = 0; k < 3; k++) assert_float_equal(c->generalized_gradient[0][k], 0, 1e-10);
            for (int k = 0; k < 3; k++) assert_true(c->normal[k] == 0); /* what the sum has is rounding */
            assert_true(c->area == 0 && c->depth == 0);
            ct_result_free(&result);
        }
        shape_free(&shapes[i]);
    }
}

/* The corner of a cube, pressed into a face by 10^-2 to 10^-5 of its side: its force is far above rounding. */
static void test_shallow_corner_has_a_normal(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1), floor = shape_box(4, 4, 1);
    for (int e = 2; e <= 5; e++) {
        double pose[12], turn[12], below[12];
        shape_pose_axis((double[]){1, -1, 0}, acos(1 / sqrt(3)) / (2 * acos(-1)), (double[]){0, 0, 0}, turn);
        memcpy(pose, turn, sizeof pose);
        double lowest = 0;
        for (int c = 0; c < 8; c++)
            lowest = fmin(lowest, (c & 1 ? 0.5 : -0.5) * turn[8] + (c & 2 ? 0.5 : -0.5) * turn[9] +
                                      (c & 4 ? 0.5 : -0.5) * turn[10]);
        pose[11] = -lowest - pow(10, -e);
        shift(below, 0.1, 0.2, -0.5);
        ct_result *result = run_pair(&floor, below, &cube, pose);
        const ct_contact *c = only_contact(result);
        assert_float_equal(c->normal[2], -1, 1e-2);
        assert_true(c->area > 0);
        ct_result_free(&result);
    }
    shape_free(&cube);
    shape_free(&floor);
}

/* As far away as a pose may be, the shape is still what it is. */
static void test_at_the_limit_of_poses(void **state) {
    (void)state;
    struct shape cube = shape_box(1, 1, 1);
    double pose[2][12];
    for (int turned = 0; turned < 2; turned++) {
        for (int b = 0; b < 2; b++) {
            shape_pose_identity(pose[b]);
            if (turned) shape_pose_axis((double[]){1, 2, 3}, 0.1, (double[]){0, 0, 0}, pose[b]);
            pose[b][3] = CT_POSE_REACH - 2 + 0.5 * b, pose[b][7] = -CT_POSE_REACH + 2, pose[b][11] = 1000;
        }
        ct_result *result = run_pair(&cube, pose[0], &cube, pose[1]);
        const ct_contact *c = only_contact(result);
        struct placed near[] = {{&cube, pose[0], 0}, {&cube, pose[1], 0}};
        double own[2][12];
        for (int b = 0; b < 2; b++) {
            memcpy(own[b], pose[b], sizeof own[b]);
            own[b][3] = 0.5 * b, own[b][7] = own[b][11] = 0;
            near[b].pose = own[b];
        }
        ct_result *truth = run(near, 2);
        assert_true(fabs(c->volume - only_contact(truth)->volume) <= c->error_bound + truth->contacts->error_bound);
        assert_true(c->error_bound < 1e-3);
        ct_result_free(&truth);
        ct_result_free(&result);
    }
    shape_free(&cube);
}

/* A body against itself turned and moved by 10^-4 to 10^-14: all faces are nearly coplanar, their distances around and
 * below a unit of the lattice, so rounding moves surfaces through each other everywhere. */
static void test_nearly_coincident_bodies(void **state) {
    (void)state;
    uint64_t rng = 7;
    struct errors errors = {0};
    for (int i = 0; i < 66; i++) {
        struct shape shape = shape_of_kind(i % KINDS, &rng);
        const double by = pow(10, -4 - i / 6);
        double turn[12], nearly[12], pose[12];
        shape_pose_random(&rng, 1, turn);
        shape_pose_axis((double[]){shape_uniform(&rng, -1, 1), 1, 0.5}, by * shape_uniform(&rng, -1, 1),
                        (double[]){by * shape_uniform(&rng, -1, 1), by * shape_uniform(&rng, -1, 1), 0}, nearly);
        compose(turn, nearly, pose);
        check_pair(&shape, turn, &shape, pose, 0, &errors);
        shape_free(&shape);
    }
    print_errors("nearly coincident", &errors);
    assert_true(errors.contacts == errors.pairs && errors.volume < 1e-9);
}

/* A stack of equal boxes, each 1/64 deep in the next, with coincident sides: each pushes the next one straight up. */
static void test_stack(void **state) {
    (void)state;
    enum { N = 8 };
    struct shape box = shape_cube(1, 2);
    double poses[N][12];
    struct placed bodies[N];
    for (int i = 0; i < N; i++) {
        shift(poses[i], 0, 0, i * (1 - 0x1p-6));
        bodies[i] = (struct placed){&box, poses[i], i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE};
    }
    ct_result *result = run(bodies, N);
    assert_int_equal(result->n_contacts, N - 1);
    for (int i = 0; i < N - 1; i++) {
        const ct_contact *c = &result->contacts[i];
        assert_int_equal(c->body[0], i + 1);
        assert_int_equal(c->body[1], i + 2);
        assert_sane(result, c);
        assert_volume(c, 0x1p-6);
        for (int k = 0; k < 3; k++) {
            assert_float_equal(c->generalized_gradient[0][k], k == 2, 1e-12);
            assert_float_equal(c->normal[k], k == 2 ? -1 : 0, 1e-12);
            assert_float_equal(c->center[k], k == 2 ? 0.5 + i * (1 - 0x1p-6) - 0x1p-7 : 0, 1e-9);
        }
        assert_float_equal(c->generalized_gradient[0][3], 0, 1e-12);
        assert_float_equal(c->generalized_gradient[0][4], 0, 1e-12);
        assert_float_equal(c->area, 1, 1e-9);
        assert_float_equal(c->depth, 0x1p-6, 1e-9);
    }
    ct_result_free(&result);
    shape_free(&box);
}

/* ---- trees of several levels ---- */

static void test_large_meshes(void **state) {
    (void)state;
    uint64_t rng = 13;
    struct errors errors = {0};
    struct shape large[] = {shape_icosphere(1, 5), shape_blob(1, 5, 0.5, 4), shape_torus(0.9, 0.3, 160, 80),
                            shape_bolt(0.8, 0.15, 0.2, 8, 60, 24), shape_cube(1.5, 30)};
    struct shape small[] = {shape_box(1, 1, 1), shape_tetrahedron(2), shape_box(3, 3, 0.01)};
    for (int i = 0; i < 15; i++) {
        double pose[2][12];
        for (int body = 0; body < 2; body++) shape_pose_random(&rng, 0.5, pose[body]);
        check_pair(&large[i % 5], pose[0], &small[i / 5], pose[1], 1e-8, &errors);
    }
    print_errors("large meshes", &errors);
    assert_int_equal(errors.contacts, 15);
    assert_true(errors.volume < 1e-9);
    for (int i = 0; i < 5; i++) shape_free(&large[i]);
    for (int i = 0; i < 3; i++) shape_free(&small[i]);
}

/* ---- differences ---- */

/* The volume with one coordinate of one vertex moved by h. */
static double moved_volume(struct stage *stage, struct shape *shape, int body, uint32_t vertex, int axis, float h) {
    float *x = &shape->positions[3 * (size_t)vertex + (size_t)axis];
    const float before = *x;
    *x += h;
    const ct_update update = move_vertices(shape, stage->body[body]);
    ct_result *result = stage_step(stage, &update, 1, 0);
    const double volume = only_contact(result)->volume;
    ct_result_free(&result);
    *x = before;
    const ct_update back = move_vertices(shape, stage->body[body]);
    result = stage_step(stage, &back, 1, 0);
    ct_result_free(&result);
    return volume;
}

/* The gradient against central differences of the volume, of two steps, so that the error of the fourth order is left
 * between kinks. */
static void test_differences(void **state) {
    (void)state;
    uint64_t rng = 14;
    const ct_scene_settings settings = stage_exact();
    double worst = 0;
    int n = 0;
    for (int i = 0; i < 24; i++) {
        struct shape shape[2] = {shape_of_kind(i % KINDS, &rng), shape_of_kind((3 * i + 2) % KINDS, &rng)};
        double pose[12];
        shape_pose_random(&rng, 0.3, pose);
        shape_transform(&shape[1], pose);
        for (int body = 0; body < 2; body++) /* so that x + h is a float */
            for (size_t k = 0; k < 3 * (size_t)shape[body].n_vertices; k++)
                shape[body].positions[k] = floorf(shape[body].positions[k] * 0x1p20f) * 0x1p-20f;
        struct stage stage = stage_open(
            engine, &settings,
            (struct placed[]){{&shape[0], NULL, CT_BODY_DEFORMABLE}, {&shape[1], NULL, CT_BODY_DEFORMABLE}}, 2);
        ct_result *result = stage_step(&stage, NULL, 0, CT_WANT_GRADIENT);
        for (int body = 0; body < 2 && result->n_contacts; body++) {
            const ct_contact *c = result->contacts;
            double *g = dense_gradient(result, c, body, shape[body].n_vertices);
            for (int probe = 0; probe < 6; probe++) {
                const uint32_t v = c->count[body] && probe
                                       ? result->vertices[c->first[body] + shape_random(&rng) % c->count[body]]
                                       : (uint32_t)(shape_random(&rng) % shape[body].n_vertices);
                const int axis = (int)(shape_random(&rng) % 3);
                const float h = 0x1p-14f;
                double slope[2];
                for (int k = 0; k < 2; k++)
                    slope[k] = (moved_volume(&stage, &shape[body], body, v, axis, (float)(k + 1) * h) -
                                moved_volume(&stage, &shape[body], body, v, axis, -(float)(k + 1) * h)) /
                               (2 * (k + 1) * (double)h);
                const double error = fabs((4 * slope[0] - slope[1]) / 3 - g[3 * (size_t)v + (size_t)axis]);
                worst = fmax(worst, error);
                n++;
            }
            free(g);
        }
        ct_result_free(&result);
        stage_close(&stage);
        for (int body = 0; body < 2; body++) shape_free(&shape[body]);
    }
    print_message("%d derivatives, off by at most %.1e m^2\n", n, worst);
    assert_true(n > 200 && worst < 2e-7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_pairs),
        cmocka_unit_test(test_cubes_at_quarters),
        cmocka_unit_test(test_turned_cubes),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_identical_bodies),
        cmocka_unit_test(test_shallow_corner_has_a_normal),
        cmocka_unit_test(test_at_the_limit_of_poses),
        cmocka_unit_test(test_nearly_coincident_bodies),
        cmocka_unit_test(test_stack),
        cmocka_unit_test(test_large_meshes),
        cmocka_unit_test(test_differences),
    };
    return cmocka_run_group_tests_name("the method exact", tests, setup, teardown);
}
