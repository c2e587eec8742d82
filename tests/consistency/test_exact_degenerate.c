/* test_exact_degenerate.c - the method `exact` where surfaces are as bad as they come: bodies of many pieces that
 * touch, overlap themselves or are inside out in parts, edges on faces, flat triangles, needles, sizes and places at
 * the limits. */
#include "tests/consistency/exact_checks.h"

/* ---- bodies of many pieces ---- */

static struct shape cubes(int n, double side, double pitch) {
    struct shape cube = shape_box(side, side, side), all = {0};
    for (int i = 0; i < n * n * n; i++) append(&all, &cube, pitch * (i % n), pitch * (i / n % n), pitch * (i / n / n));
    shape_free(&cube);
    return all;
}

/* Lattices of cubes that touch each other, stand apart or overlap each other, in all of which many faces coincide,
 * against themselves shifted, and against a box. */
static void test_lattices_of_cubes(void **state) {
    (void)state;
    static const double shifts[][3] = {{0, 0, 0}, {0.25, 0, 0}, {0.5, 0.5, 0.5}, {1, 0, 0}, {1, 1, 0.25}, {2, 3, -1}};
    struct errors errors = {0};
    for (int kind = 0; kind < 3; kind++) {
        struct shape lattice = cubes(4, (double[]){1, 0.5, 1.5}[kind], 1), box = shape_box(4, 3.5, 3);
        for (int i = 0; i < 6; i++) {
            double pose[12];
            shift(pose, shifts[i][0], shifts[i][1], shifts[i][2]);
            check_pair(&lattice, NULL, &lattice, pose, 0, &errors);
            check_pair(&lattice, pose, &box, NULL, 0, &errors);
        }
        ct_result *result = run_pair(&lattice, NULL, &lattice, NULL);
        assert_int_equal(only_contact(result)->max_winding, kind == 2 ? 8 : 1);
        ct_result_free(&result);
        shape_free(&lattice);
        shape_free(&box);
    }
    print_errors("lattices of cubes", &errors);
    assert_true(errors.volume < 1e-11 && errors.bound < 1e-9);
}

/* Bodies that overlap themselves count as often as they do. */
static void test_self_overlap(void **state) {
    (void)state;
    uint64_t rng = 8;
    struct errors errors = {0};
    for (int i = 0; i < 30; i++) {
        struct shape two = shape_icosphere(0.6, 1), other = shape_torus(0.6, 0.3, 10, 6);
        append(&two, &other, 0.25, 0, 0);
        if (i % 3 == 0) append(&two, &other, 0.25, 0, 0); /* two shells that coincide */
        if (i % 3 == 1) append(&other, &two, 0, 0.3, 0.1);
        double pose[12];
        shape_pose_random(&rng, 0.3, pose);
        check_pair(&two, NULL, &other, pose, 1e-9, &errors);
        shape_free(&two);
        shape_free(&other);
    }
    print_errors("self-overlap", &errors);
    struct shape shells = shape_box(1, 1, 1), box = shape_box(2, 2, 2);
    for (int i = 0; i < 4; i++) append(&shells, &box, 0, 0, 0);
    struct shape probe = shape_box(0.25, 0.25, 0.25);
    for (int i = 0; i < 2; i++) {
        double pose[12];
        shift(pose, i ? 1 : 0, 0, 0); /* in the middle, and half in the outer shells */
        ct_result *result = run_pair(&shells, NULL, &probe, pose);
        const ct_contact *c = only_contact(result);
        assert_volume(c, i ? 4 * 0x1p-7 : 5 * 0x1p-6);
        assert_int_equal(c->max_winding, i ? 4 : 5);
        ct_result_free(&result);
    }
    shape_free(&shells);
    shape_free(&box);
    shape_free(&probe);
}

/* A deformed body of two boxes, one of which is mirrored: inside out. What is in it counts negatively, and is counted.
 */
static void test_inverted_region(void **state) {
    (void)state;
    struct shape boxes = shape_box(1, 1, 1), probes = shape_box(0.5, 0.5, 0.5);
    const struct shape second = shape_box(1, 1, 1), probe = shape_box(0.25, 0.25, 0.25);
    append(&boxes, &second, 3, 0, 0);
    append(&probes, &probe, 3, 0, 0);
    double pose[12];
    shape_pose_identity(pose);
    const struct placed bodies[] = {{&boxes, NULL, CT_BODY_DEFORMABLE, 0}, {&probes, pose, 0, 0}};
    const ct_scene_settings settings[] = {stage_exact(), stage_pixel(1.0 / 64)};
    float *mirrored = malloc(boxes.n_vertices * 12);
    assert_non_null(mirrored);
    memcpy(mirrored, boxes.positions, boxes.n_vertices * 12);
    for (uint32_t v = 8; v < 16; v++) mirrored[3 * v] = 6 - mirrored[3 * v];
    for (int m = 0; m < 2; m++) {
        struct stage stage = stage_open(engine, &settings[m], bodies, 2);
        ct_result *whole = stage_step(&stage, NULL, 0, CT_WANT_ALL);
        assert_true(fabs(whole->contacts->volume - (0.125 + 0x1p-6)) < 1e-9);
        assert_int_equal(whole->contacts->inverted_triangles, 0);
        const ct_update update = {.body = stage.body[0],
                                  .kind = CT_UPDATE_POSITIONS,
                                  .positions = mirrored,
                                  .dtype = CT_F32,
                                  .count = boxes.n_vertices};
        ct_result *half = stage_step(&stage, &update, 1, CT_WANT_ALL);
        assert_true(fabs(half->contacts->volume - (m ? 0.125 : 0.125 - 0x1p-6)) < 1e-9);
        assert_int_equal(half->contacts->inverted_triangles, m ? 0 : 12); /* those of the probe in the mirrored box */
        ct_result_free(&whole);
        ct_result_free(&half);
        double moved[12];
        memcpy(moved, pose, sizeof moved);
        moved[7] = 0.5; /* through the box's side: some are crossed */
        const ct_update push = {.body = stage.body[1], .kind = CT_UPDATE_POSE};
        ct_update pushed = push;
        memcpy(pushed.pose, moved, sizeof moved);
        half = stage_step(&stage, &pushed, 1, CT_WANT_ALL);
        /* of the probe those that have a corner inside, and of the box none: the probe is not inside out */
        assert_int_equal(half->contacts->inverted_triangles, m ? 0 : 10);
        ct_result_free(&half);
        stage_close(&stage);
    }
    free(mirrored);
    shape_free(&boxes);
    shape_free(&probes);
    shape_free(&(struct shape[]){second}[0]);
    shape_free(&(struct shape[]){probe}[0]);
}

/* Thousands of boxes in one place, all through the middle of one face: inside all of them, but no corner of it is. */
static void test_deep_between_corners(void **state) {
    (void)state;
    for (int n = 20; n <= 2000; n *= 10) {
        struct shape box = shape_box(0.5, 0.5, 4), plate = shape_box(3, 3, 1);
        struct shape boxes = shape_begin(8 * (uint64_t)n, 12 * (uint64_t)n);
        for (int i = 0; i < n; i++) {
            const uint32_t first = boxes.n_vertices;
            for (uint32_t v = 0; v < 8; v++) {
                const float *p = box.positions + 3 * (size_t)v;
                shape_add_vertex(&boxes, (double)p[0], (double)p[1], (double)p[2]);
            }
            for (uint32_t t = 0; t < 12; t++) {
                const uint32_t *v = box.triangles + 3 * (size_t)t;
                shape_add_triangle(&boxes, first + v[0], first + v[1], first + v[2]);
            }
        }
        double pose[12];
        shift(pose, 0.001, 0.3, 0);
        ct_result *result = run_pair(&plate, NULL, &boxes, pose);
        const ct_contact *c = only_contact(result);
        assert_sane(result, c);
        assert_true(fabs(c->volume - 0.25 * n) <= c->error_bound);
        double lift[2] = {0, 0}; /* of the plate's upper and lower face */
        for (uint64_t e = c->first[0]; e < c->first[0] + c->count[0]; e++)
            lift[result->gradient[3 * e + 2] < 0] += result->gradient[3 * e + 2];
        assert_float_equal(lift[0], 0.25 * n, 1e-8 * n);
        assert_float_equal(lift[1], -0.25 * n, 1e-8 * n);
        ct_result_free(&result);
        shape_free(&box);
        shape_free(&plate);
        shape_free(&boxes);
    }
}

/* A comb whose edges touch a plate, to within a unit: hundreds of edges may or may not cross it. A peg is half in it.
 */
static void test_edges_on_a_face(void **state) {
    (void)state;
    uint64_t rng = 15;
    struct errors errors = {0};
    for (int i = 0; i < 16; i++) {
        enum { TEETH = 100 };
        struct shape comb = shape_begin(4 * TEETH + 6, 8 * TEETH + 8), plate = shape_box(4, 4, 1);
        for (int k = 0; k <= 2 * TEETH; k++) /* a zigzag from -1 to 1 along x, its edges along y */
            for (int side = -1; side <= 1; side += 2)
                shape_add_vertex(&comb, (double)(k - TEETH) / TEETH, side, k % 2 ? 0.5 : 0.625);
        for (int corner = -1; corner <= 1; corner += 2)
            for (int side = -1; side <= 1; side += 2) shape_add_vertex(&comb, corner, side, 1);
        const uint32_t n = 2 * TEETH, top = 2 * (n + 1); /* top: left front, left back, right front, right back */
        for (uint32_t k = 0; k < n; k++) {
            shape_add_quad(&comb, 2 * k, 2 * k + 1, 2 * k + 3, 2 * k + 2);
            shape_add_triangle(&comb, 2 * k, 2 * k + 2, top);
            shape_add_triangle(&comb, 2 * k + 3, 2 * k + 1, top + 1);
        }
        shape_add_triangle(&comb, top, 2 * n, top + 2);
        shape_add_triangle(&comb, 2 * n + 1, top + 1, top + 3);
        shape_add_quad(&comb, top, top + 2, top + 3, top + 1);
        shape_add_quad(&comb, 0, top, top + 1, 1);
        shape_add_quad(&comb, 2 * n, 2 * n + 1, top + 3, top + 2);
        struct shape peg = shape_box(0.2, 0.2, 0.2);
        append(&comb, &peg, -1.6, 0, 0.5); /* half in the plate, so that there is a contact, with a bound */
        shape_free(&peg);
        double turn[12], over[12], pose[12];
        shape_pose_random(&rng, 1, turn);
        shape_pose_identity(over);
        over[11] = i % 4 ? shape_uniform(&rng, -1, 1) * pow(10, -8 - i % 6) : 0;
        if (i % 2) over[3] = 1.5; /* half of it beyond the plate */
        compose(turn, over, pose);
        check_pair(&plate, turn, &comb, pose, 0, &errors);
        shape_free(&comb);
        shape_free(&plate);
    }
    print_errors("edges on a face", &errors);
    assert_true(errors.contacts == errors.pairs && errors.volume < 1e-9);
}

/* ---- surfaces as bad as they come ---- */

/* Vertices anywhere on a small grid: closed surfaces that cross, fold and overlap themselves, with flat triangles,
 * needles and triangles on top of each other, inside out in parts. The volume is the integral of both winding numbers'
 * product, which may be negative: then there is no contact. */
static void test_random_surfaces_on_a_grid(void **state) {
    (void)state;
    uint64_t rng = 9;
    const ct_scene_settings settings = stage_exact();
    struct shape kinds[] = {shape_tetrahedron(1), shape_box(1, 1, 1), shape_icosphere(1, 0), shape_icosphere(1, 1),
                            shape_torus(1, 0.4, 5, 4)};
    int contacts = 0, signs[2] = {0, 0};
    double worst = 0, worst_bound = 0;
    for (int i = 0; i < 3000; i++) {
        struct shape *a = &kinds[shape_random(&rng) % 5], *b = &kinds[shape_random(&rng) % 5];
        struct shape moved[2] = {shape_copy(a), shape_copy(b)};
        struct stage stage = stage_open(
            engine, &settings, (struct placed[]){{a, NULL, CT_BODY_DEFORMABLE}, {b, NULL, CT_BODY_DEFORMABLE}}, 2);
        const uint64_t grid = 2 + (uint64_t)i % 4;
        ct_update updates[2];
        for (int body = 0; body < 2; body++) {
            for (size_t k = 0; k < 3 * (size_t)moved[body].n_vertices; k++)
                moved[body].positions[k] = (float)(shape_random(&rng) % grid);
            updates[body] = move_vertices(&moved[body], stage.body[body]);
        }
        ct_result *result = stage_step(&stage, updates, 2, CT_WANT_ALL);
        const struct overlap expected = overlap_find((const struct shape *[]){&moved[0], &moved[1]}, NULL, 0);
        signs[expected.volume > 0] += fabsl(expected.volume) > 1e-12L;
        const bool is_inverted = shape_volume(&moved[0]) < -1e-9 || shape_volume(&moved[1]) < -1e-9;
        if (expected.volume > 1e-9L && !is_inverted) {
            const ct_contact *c = only_contact(result);
            const double error = (double)fabsl(c->volume - expected.volume);
            assert_true(error <= c->error_bound + 1e-15);
            for (int k = 0; k < 3; k++) assert_true(c->generalized_gradient[0][k] == -c->generalized_gradient[1][k]);
            worst = fmax(worst, error);
            worst_bound = fmax(worst_bound, c->error_bound);
            contacts++;
        } else {
            assert_int_equal(result->n_contacts, 0);
        }
        ct_result_free(&result);
        stage_close(&stage);
        for (int body = 0; body < 2; body++) shape_free(&moved[body]);
    }
    print_message("%d contacts, %d volumes above 0, %d below; volumes off by at most %.1e, bounds at most %.1e\n",
                  contacts, signs[1], signs[0], worst, worst_bound);
    assert_true(contacts > 300 && worst_bound < 1e-7);
    for (int i = 0; i < 5; i++) shape_free(&kinds[i]);
}

/* Needles and slivers: shapes pulled to 1e-4 to 1e4 of their size along one axis. */
static void test_needles(void **state) {
    (void)state;
    uint64_t rng = 10;
    struct errors errors = {0};
    for (int i = 0; i < 100; i++) {
        struct shape shape[2];
        double pose[2][12];
        for (int body = 0; body < 2; body++) {
            shape[body] = shape_of_kind((int)(shape_random(&rng) % KINDS), &rng);
            const double pull = pow(10, shape_uniform(&rng, -4, 0));
            const uint64_t axis = shape_random(&rng) % 3;
            for (uint32_t v = 0; v < shape[body].n_vertices; v++) {
                float *x = &shape[body].positions[3 * (size_t)v + axis];
                *x = (float)(pull * (double)*x);
            }
            shape_pose_random(&rng, i % 2 ? 0.1 : 0.001, pose[body]);
        }
        check_pair(&shape[0], pose[0], &shape[1], pose[1], 1e-6, &errors);
        shape_free(&shape[0]);
        shape_free(&shape[1]);
    }
    print_errors("needles", &errors);
    assert_true(errors.contacts > 60);
}

/* A small body half in the face of a large one: up to 10^5 times as large, and 100 m from the origin of either. */
static void test_extreme_sizes(void **state) {
    (void)state;
    uint64_t rng = 11;
    for (int power = 0; power <= 5; power++) {
        struct errors errors = {0};
        const double size = pow(10, power);
        for (int i = 0; i < 10; i++) {
            struct shape floor = i % 2 ? shape_box(size, size, size) : shape_cube(size, 8);
            struct shape body = shape_of_kind(i % KINDS, &rng);
            double on_top[12], turn[12], pose[12];
            shape_pose_random(&rng, 0.2, on_top);
            on_top[11] += size / 2;
            on_top[3] += 0.1 * size;
            shape_pose_random(&rng, 100, turn);
            compose(turn, on_top, pose);
            check_pair(&floor, turn, &body, pose, 1e-10 * size, &errors);
            shape_free(&floor);
            shape_free(&body);
        }
        print_message("%.0e: ", size);
        print_errors("extreme sizes", &errors);
        assert_int_equal(errors.contacts, 10);
        assert_true(errors.volume < 1e-10 * size * size);
        /* Triangles' rounding is bounded by their own size: 100 times as much, unless volumes count from a point in
         * their planes. */
        assert_true(errors.bound < 1e-8 * size);
    }
}

/* Both bodies moved together, far from the origin. The poses' translations have a rounding of their own there. */
static void test_far_from_the_origin(void **state) {
    (void)state;
    uint64_t rng = 12;
    struct errors errors = {0};
    for (int i = 0; i < 60; i++) {
        struct shape a = shape_of_kind(i % KINDS, &rng), b = shape_of_kind((i / KINDS + 4) % KINDS, &rng);
        double pose[2][12];
        for (int body = 0; body < 2; body++) shape_pose_random(&rng, 0.3, pose[body]);
        for (int k = 0; k < 3; k++) {
            const double by = shape_uniform(&rng, -1, 1) * pow(10, 1 + i % 6);
            for (int body = 0; body < 2; body++) pose[body][4 * k + 3] += by;
        }
        check_pair(&a, pose[0], &b, pose[1], 1e-7, &errors);
        shape_free(&a);
        shape_free(&b);
    }
    print_errors("far from the origin", &errors);
    assert_true(errors.contacts > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lattices_of_cubes),
        cmocka_unit_test(test_self_overlap),
        cmocka_unit_test(test_inverted_region),
        cmocka_unit_test(test_deep_between_corners),
        cmocka_unit_test(test_edges_on_a_face),
        cmocka_unit_test(test_random_surfaces_on_a_grid),
        cmocka_unit_test(test_needles),
        cmocka_unit_test(test_extreme_sizes),
        cmocka_unit_test(test_far_from_the_origin),
    };
    return cmocka_run_group_tests_name("the method exact on bad surfaces", tests, setup, teardown);
}
