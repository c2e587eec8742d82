/* test_patch_costs.c - patches of the method `exact` cost as much as the crossings that they are made of, however many
 * pieces, cavities and shells there are. Every loop of the engine whose length follows from input looks whether its
 * step is cancelled after a bounded number of iterations, so the number of these polls measures its work, on any
 * machine. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"
#include "tests/scenes/build.h"
#include "tests/unit/unit.h"

/* ---- scenes ---- */

static void add_box(struct shape *s, const double lo[3], const double hi[3], int is_inverted) {
    static const uint32_t corners[12][3] = {{0, 2, 1}, {1, 2, 3}, {4, 5, 6}, {5, 7, 6}, {0, 1, 4}, {1, 5, 4},
                                            {2, 6, 3}, {3, 6, 7}, {0, 4, 2}, {2, 4, 6}, {1, 3, 5}, {3, 7, 5}};
    const uint32_t first = s->n_vertices;
    for (int v = 0; v < 8; v++)
        shape_add_vertex(s, v & 1 ? hi[0] : lo[0], v & 2 ? hi[1] : lo[1], v & 4 ? hi[2] : lo[2]);
    for (int t = 0; t < 12; t++)
        shape_add_triangle(s, first + corners[t][0], first + corners[t][is_inverted ? 2 : 1],
                           first + corners[t][is_inverted ? 1 : 2]);
}

static struct shape boxes(uint32_t most) {
    return shape_begin(8 * most, 12 * (uint64_t)most);
}

/* Two bodies of some size, and what is known of their patches. */
struct scene {
    struct shape shape[2];
    size_t n_patches;
    double volume; /* of all patches together, m^3 */
};

static struct shape box_from(double x, double y, double z, double to_x, double to_y, double to_z) {
    struct shape s = boxes(1);
    add_box(&s, (const double[3]){x, y, z}, (const double[3]){to_x, to_y, to_z}, 0);
    return s;
}

/* Two combs whose n teeth each cross all of the other's: n^2 patches of 1/2 by 1/2 by 1/4. */
static struct scene combs(int n) {
    struct scene s = {{boxes((uint32_t)n), boxes((uint32_t)n)}, (size_t)n * (size_t)n, 0.0625 * n * n};
    for (int i = 0; i < n; i++) {
        add_box(&s.shape[0], (const double[3]){-1, i, 0}, (const double[3]){n + 1, i + 0.5, 0.5}, 0);
        add_box(&s.shape[1], (const double[3]){i + 0.125, -1, 0.25}, (const double[3]){i + 0.625, n + 1, 0.75}, 0);
    }
    return s;
}

/* A slab with n^2 bumps that touch another one, whose two large triangles they cross. */
static struct scene board(int n) {
    struct scene s = {{boxes(1 + (uint32_t)(n * n)), box_from(-2.3, -3.1, 0.25, n + 2.2, n + 2.7, 2)},
                      (size_t)n * (size_t)n,
                      0.0625 * n * n};
    add_box(&s.shape[0], (const double[3]){-1, -1, -1}, (const double[3]){n + 1, n + 1, 0}, 0);
    for (int i = 0; i < n * n; i++)
        add_box(&s.shape[0], (const double[3]){i % n, (double)(i / n), -0.5},
                (const double[3]){i % n + 0.5, i / n + 0.5, 0.5}, 0);
    return s;
}

/* A row of n^2 teeth along x between two faces that they are flush with: with ties, so there are two perturbations. */
static struct scene flush_row(int n) {
    const int teeth = n * n;
    struct scene s = {{boxes((uint32_t)teeth), box_from(-2, 0, -1, teeth + 3, 1, 1)}, (size_t)teeth, teeth};
    for (int i = 0; i < teeth; i++)
        add_box(&s.shape[0], (const double[3]){i, 0, -1}, (const double[3]){i + 0.5, 1, 1}, 0);
    return s;
}

/* A row of n^2 boxes, and the same moved by half a box: faces coincide along all of both. */
static struct scene two_rows(int n) {
    const int teeth = n * n;
    struct scene s = {{boxes((uint32_t)teeth), boxes((uint32_t)teeth)}, (size_t)teeth, 0.25 * 2 * teeth};
    for (int i = 0; i < teeth; i++)
        for (int b = 0; b < 2; b++)
            add_box(&s.shape[b], (const double[3]){i + 0.25 * b, 0, -1}, (const double[3]){i + 0.25 * b + 0.5, 1, 1},
                    0);
    return s;
}

/* n^2 small cubes inside a slab: nothing crosses. */
static struct scene cloud(int n) {
    const int cubes = n * n;
    struct scene s = {{boxes((uint32_t)cubes), box_from(-1, -1, -1, n + 1, n + 1, 2)}, (size_t)cubes, cubes / 8.0};
    for (int i = 0; i < cubes; i++)
        add_box(&s.shape[0], (const double[3]){i % n, (double)(i / n), i % 7 * 0.0625},
                (const double[3]){i % n + 0.5, i / n + 0.5, i % 7 * 0.0625 + 0.5}, 0);
    return s;
}

/* A block with a row of n^2 cavities along x, each in sight of the next. It is cut where as many spikes begin inside
 * it, which count twice there; a ray from the last cavity meets the cut. */
static struct scene cavities(int n) {
    const int holes = n * n;
    struct scene s = {{boxes(1 + 2 * (uint32_t)holes), box_from(-2, -2, -2, holes + 0.875, 3, 3)},
                      1,
                      9.0 * (holes + 1.875) - holes * 0.125 + holes * 0.125 * 0.0009765625};
    add_box(&s.shape[0], (const double[3]){-1, -1, -1}, (const double[3]){holes + 1, 2, 2}, 0);
    for (int i = 0; i < holes; i++) {
        const double y = (i % n + 0.5) * 2.5 / n - 0.75, z = (i / n + 0.5) * 2.5 / n - 0.75;
        add_box(&s.shape[0], (const double[3]){i + 0.25, 0.25, 0.25}, (const double[3]){i + 0.75, 0.75, 0.75}, 1);
        add_box(&s.shape[0], (const double[3]){holes + 0.75, y, z},
                (const double[3]){holes + 2, y + 0.03125, z + 0.03125}, 0);
    }
    return s;
}

/* 4 n shells around each other, solid and hollow by turns, cut by a slab: squares around each other. */
static struct scene shells(int n) {
    const int count = 4 * n;
    struct scene s = {
        {boxes((uint32_t)count), box_from(-count - 1, -count - 1, 0, count + 1, count + 1, 0.25)}, 2 * (size_t)n, 0};
    for (int i = 0; i < count; i++) {
        const double size = count - i - 0.25;
        add_box(&s.shape[0], (const double[3]){-size, -size, -size}, (const double[3]){size, size, size}, i % 2);
        s.volume += (i % 2 ? -1 : 1) * 4 * size * size * 0.25;
    }
    return s;
}

/* ---- costs ---- */

/* Runs a scene; returns polls for each pair of triangles that cross, each triangle and each patch. */
static double run_scene(struct scene (*make)(int), int n) {
    struct scene s = make(n);
    ct_scene_settings settings = stage_exact();
    settings.patches = true;
    struct stage stage =
        stage_open(engine, &settings,
                   (struct placed[]){{&s.shape[0], NULL, CT_BODY_RIGID}, {&s.shape[1], NULL, CT_BODY_RIGID}}, 2);
    ct_cancel cancel;
    ct_cancel_init(&cancel, 0);
    cancel.at_poll = UINT64_MAX; /* never */
    ct_result *r = stage_run(&stage, (ct_step){.want = CT_WANT_FRAME | CT_WANT_GRADIENT, .cancel = &cancel});
    const double polls = (double)(UINT64_MAX - cancel.at_poll);
    const double size = (double)r->fragments + s.shape[0].n_triangles + s.shape[1].n_triangles + (double)r->n_contacts;
    double volume = 0, bound = 0;
    for (size_t i = 0; i < r->n_contacts; i++) {
        volume += r->contacts[i].volume;
        bound += r->contacts[i].error_bound;
        if (i) assert_true(r->contacts[i].volume <= r->contacts[i - 1].volume);
    }
    assert_int_equal(r->n_contacts, s.n_patches);
    assert_float_equal(volume, s.volume, bound + 1e-12 * s.volume);
    ct_result_free(&r);
    stage_close(&stage);
    for (int b = 0; b < 2; b++) shape_free(&s.shape[b]);
    return polls / size;
}

static void check_costs(struct scene (*make)(int), int small) {
    const double at_small = run_scene(make, small), at_large = run_scene(make, 4 * small);
    print_message("%.3f, %.3f polls for each crossing, triangle and patch\n", at_small, at_large);
    assert_true(at_large < 8);
    assert_true(at_large < 1.4 * at_small); /* of 16 times the size */
}

static void test_combs(void **state) {
    (void)state;
    check_costs(combs, 16);
}

static void test_board(void **state) {
    (void)state;
    check_costs(board, 16);
}

static void test_flush_row(void **state) {
    (void)state;
    check_costs(flush_row, 8);
}

static void test_two_rows(void **state) {
    (void)state;
    check_costs(two_rows, 8);
}

static void test_cloud(void **state) {
    (void)state;
    check_costs(cloud, 12);
}

static void test_cavities(void **state) {
    (void)state;
    check_costs(cavities, 8);
}

static void test_shells(void **state) {
    (void)state;
    check_costs(shells, 12);
}

/* ---- cancelling ---- */

/* Cancels a step at every other poll, and then gives the bits of a scene that was not cancelled. */
static void check_cancelled(struct scene (*make)(int), int n, const char *const phases[3]) {
    struct scene s = make(n);
    ct_scene_settings settings = stage_exact();
    settings.patches = true;
    struct stage stage =
        stage_open(engine, &settings,
                   (struct placed[]){{&s.shape[0], NULL, CT_BODY_RIGID}, {&s.shape[1], NULL, CT_BODY_RIGID}}, 2);
    char expected[33], hex[33];
    bool is_seen[3] = {false, false, false};
    ct_cancel cancel;
    ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    assert_int_equal(r->n_contacts, s.n_patches);
    stage_hash(r, expected);
    ct_result_free(&r);
    for (uint64_t poll = 1;; poll += 2) {
        ct_cancel_init(&cancel, 0);
        cancel.at_poll = poll;
        stage_forget_answers(&stage);
        ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL, .cancel = &cancel};
        const ct_status status = ct_engine_run(engine, &step, 1);
        ct_result_free(&step.result);
        if (status == CT_OK) break;
        assert_int_equal(status, CT_CANCELLED);
        for (int i = 0; i < 3; i++) is_seen[i] |= phases[i] && !strcmp(ct_cancel_where(&cancel).phase, phases[i]);
        stage_forget_answers(&stage);
        r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
        stage_hash(r, hex);
        ct_result_free(&r);
        assert_string_equal(hex, expected);
    }
    for (int i = 0; i < 3; i++)
        if (phases[i] && !is_seen[i]) fail_msg("never cancelled while %s", phases[i]);
    stage_close(&stage);
    for (int b = 0; b < 2; b++) shape_free(&s.shape[b]);
}

static void test_cancelled(void **state) {
    (void)state;
    check_cancelled(combs, 5, (const char *const[3]){"finding patches", "finding cavities", "adding patches"});
    check_cancelled(two_rows, 3, (const char *const[3]){"finding patches", "finding cavities", "adding patches"});
    check_cancelled(cavities, 3, (const char *const[3]){"finding patches", "finding cavities"});
    check_cancelled(shells, 2, (const char *const[3]){"finding patches", "finding cavities"});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_combs),    cmocka_unit_test(test_board),     cmocka_unit_test(test_flush_row),
        cmocka_unit_test(test_two_rows), cmocka_unit_test(test_cloud),     cmocka_unit_test(test_cavities),
        cmocka_unit_test(test_shells),   cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
