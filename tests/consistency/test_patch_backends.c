/* test_patch_backends.c - every backend that has the method `exact` computes the CPU's bits of patches: how many there
 * are, their order, and all that a contact has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "tests/consistency/cell_bodies.h"
#include "tests/consistency/patch_shapes.h"
#include "tests/consistency/twin.h"

#ifdef __SANITIZE_ADDRESS__ /* slow on the shim */
enum { BLOBS = 3, TOUCHING = 2 };
#else
enum { BLOBS = 24, TOUCHING = 9 };
#endif

static const ct_body_kind RIGID = CT_BODY_RIGID, SOFT = CT_BODY_DEFORMABLE;

static ct_scene_settings with_patches(void) {
    ct_scene_settings settings = stage_exact();
    settings.patches = true;
    return settings;
}

/* In both orders of bodies. Returns the patches. */
static uint64_t compare_patches(const char *name, struct placed a, struct placed b, uint32_t want) {
    const ct_scene_settings settings = with_patches();
    const uint64_t n = compare_once(name, &settings, (struct placed[]){a, b}, 2, want);
    assert_int_equal(compare_once(name, &settings, (struct placed[]){b, a}, 2, want), n);
    return n;
}

static uint64_t compare_shapes(const char *name, const struct shape *a, const struct shape *b) {
    return compare_patches(name, (struct placed){a, NULL, RIGID, 0}, (struct placed){b, NULL, SOFT, 0}, CT_WANT_ALL);
}

/* The teeth of a comb in a slab; faces that coincide, or not. */
static void test_comb(void **state) {
    (void)state;
    for (int n = 1; n <= 12; n += n < 3 ? 1 : 9)
        for (int turn = 0; turn < 3; turn++) {
            struct shape teeth = comb(n);
            struct shape slab =
                turn ? box_between((const double[]){-1, -1 + 0.25 * turn, 0.75}, (const double[]){20, 3, 2})
                     : box_between((const double[]){0, 0, 0.75}, (const double[]){n - 0.5, 1, 1});
            assert_int_equal(compare_shapes("comb", &teeth, &slab), n);
            shape_free(&teeth);
            shape_free(&slab);
        }
    struct shape teeth = comb(9), slab = shape_cube(8, 12), block;
    double pose[12];
    shape_pose_axis((const double[]){1, 0.2, 0.1}, 0.03, (const double[]){4, 0, 4.5}, pose);
    static const uint32_t wants[] = {CT_WANT_ALL, 0, CT_WANT_FRAME, CT_WANT_GRADIENT, CT_WANT_FRICTION, CT_WANT_FORCES};
    for (int i = 0; i < 6; i++)
        assert_true(compare_patches("tilted comb", (struct placed){&teeth, NULL, i % 2 ? RIGID : SOFT, 0},
                                    (struct placed){&slab, pose, RIGID, 0}, wants[i]) > 3);
    block = box_between((const double[]){-1, 0.25, -0.5}, (const double[]){9, 0.75, 9});
    assert_int_equal(compare_shapes("back and teeth", &teeth, &block), 1);
    shape_free(&teeth);
    shape_free(&slab);
    shape_free(&block);
}

/* Pieces without curves, pieces that share a face, cavities, and rings, whose curves no edge connects. */
static void test_boundaries(void **state) {
    (void)state;
    struct shape inside = {0}, outside = shape_cube(10, 3), hollow = {0}, around = shape_cube(20, 2),
                 cut = box_between((const double[]){-9, -9, -9}, (const double[]){9, 9, 2}), pipe = {0};
    append_box(&inside, (const double[]){-4, -4, -4}, (const double[]){-3, -3, -2}, 0);
    append_box(&inside, (const double[]){0, 0, 0}, (const double[]){1, 1, 1}, 0);
    append_box(&inside, (const double[]){3, 3, 3}, (const double[]){4, 4, 7}, 0);
    append_box(&inside, (const double[]){20, 3, 3}, (const double[]){21, 4, 7}, 0);
    assert_int_equal(compare_shapes("nested", &inside, &outside), 3);
    append_box(&hollow, (const double[]){-4, -4, -4}, (const double[]){4, 4, 4}, 0);
    append_box(&hollow, (const double[]){-3, -3, -3}, (const double[]){-1, 3, 3}, 1);
    append_box(&hollow, (const double[]){1, -3, -3}, (const double[]){3, 3, 1}, 1);
    assert_int_equal(compare_shapes("hollow", &hollow, &around), 1);
    append_box(&hollow, (const double[]){-2.5, -2.5, -2.5}, (const double[]){-2, 1, 1}, 0);
    assert_int_equal(compare_shapes("hollow", &hollow, &around), 2);
    assert_int_equal(compare_shapes("hollow, cut", &hollow, &cut), 2);
    assert_int_equal(compare_shapes("hollow, with itself", &hollow, &hollow), 2);
    append_box(&pipe, (const double[]){-6, -10, -1}, (const double[]){-2, -6, 30}, 0);
    append_box(&pipe, (const double[]){-5, -9, 0}, (const double[]){-3, -7, 29}, 1);
    append_box(&pipe, (const double[]){-4.5, -8.5, 1}, (const double[]){-3.5, -7.5, 28}, 0);
    append_box(&pipe, (const double[]){-4.25, -8.25, 2}, (const double[]){-3.75, -7.75, 27}, 1);
    append_box(&pipe, (const double[]){1, 9, 3}, (const double[]){2, 10, 28}, 0);
    for (int n = 1; n < 8; n += 6) {
        struct shape block = shape_cube(40, n);
        assert_int_equal(compare_shapes("rings", &pipe, &block), 3);
        shape_free(&block);
    }
    static const double second[3][3] = {{1, 0, 0}, {1, 1, 0}, {1, 1, 1}};
    for (int i = 0; i < 6; i++) {
        struct shape two = {0}, slab = shape_cube(10, i % 2 ? 20 : 1);
        const double *lo = second[i / 2], hi[3] = {lo[0] + 1, lo[1] + 1, lo[2] + 1};
        append_box(&two, (const double[]){0, 0, 0}, (const double[]){1, 1, 1}, 0);
        append_box(&two, lo, hi, 0);
        shape_translate(&slab, 0, 0, 5.5);
        assert_int_equal(compare_shapes("touching", &two, &slab), 2);
        shape_free(&two);
        shape_free(&slab);
    }
    struct shape *shapes[] = {&inside, &outside, &hollow, &around, &cut, &pipe};
    for (int i = 0; i < 6; i++) shape_free(shapes[i]);
}

/* Blobs in one mesh against another body; a ring through a plate; a bolt whose thread grazes a block. */
static void test_curved(void **state) {
    (void)state;
    uint64_t rng = 11, most = 0;
    for (int i = 0; i < BLOBS; i++) {
        struct shape all = {0}, other = i % 2 ? shape_blob(2.5, 4, 0.2, 5) : shape_box(6, 5, 0.3);
        double pose[12];
        for (int k = 0; k < 6; k++) {
            struct shape one =
                k % 3 == 0 ? shape_blob(0.5, 3, 0.3, shape_random(&rng)) : shape_icosphere(0.5, k % 3 + 1);
            append(&all, &one, 1.25 * (k % 3) - 1.25, 1.25 * (k / 3) - 0.5, shape_uniform(&rng, -0.5, 0.5), 0);
            shape_free(&one);
        }
        shape_pose_random(&rng, 0.3, pose);
        const uint64_t n = compare_patches("blobs", (struct placed){&all, NULL, i % 3 ? RIGID : SOFT, 0},
                                           (struct placed){&other, pose, i % 4 ? RIGID : SOFT, 0}, CT_WANT_ALL);
        if (n > most) most = n;
        shape_free(&all);
        shape_free(&other);
    }
    assert_true(most >= 5);
    struct shape ring = shape_torus(1, 0.3, 48, 24), plate = shape_cube(4, 16),
                 bolt = shape_bolt(1, 0.2, 0.4, 4, 48, 24), block = shape_cube(8, 12);
    double pose[12];
    for (uint32_t v = 0; v < plate.n_vertices; v++) plate.positions[3 * (size_t)v + 2] *= 0.05F;
    shape_pose_axis((const double[]){1, 0, 0}, 0.25, (const double[]){0.01, 0.02, 0.1}, pose);
    assert_int_equal(compare_patches("ring", (struct placed){&ring, pose, RIGID, 0},
                                     (struct placed){&plate, NULL, RIGID, 0}, CT_WANT_ALL),
                     2);
    shape_pose_axis((const double[]){0, 1, 0}, 0.25, (const double[]){0, 0, 4.85}, pose);
    assert_true(compare_patches("bolt", (struct placed){&bolt, pose, RIGID, 0}, (struct placed){&block, NULL, RIGID, 0},
                                CT_WANT_ALL) > 3);
    struct shape *shapes[] = {&ring, &plate, &bolt, &block};
    for (int i = 0; i < 4; i++) shape_free(shapes[i]);
}

/* Lattices of cubes whose faces coincide: both perturbations find pieces, which are matched along rays. Each cube meets
 * one of the other body. */
static void test_ties(void **state) {
    (void)state;
    struct shape cubes = {0};
    for (int i = 0; i < 8; i++) {
        const double lo[3] = {i % 2 * 1.5, i / 2 % 2 * 1.5, i / 4 * 1.5}, hi[3] = {lo[0] + 1, lo[1] + 1, lo[2] + 1};
        append_box(&cubes, lo, hi, 0);
    }
    for (int i = 0; i < 27; i++) {
        double pose[12];
        shape_pose_identity(pose);
        for (int k = 0, j = i; k < 3; k++, j /= 3) pose[4 * k + 3] = j % 3 * 0.25;
        const struct placed a = {&cubes, NULL, i % 2 ? RIGID : SOFT, 0}, b = {&cubes, pose, RIGID, 0};
        assert_int_equal(compare_patches("cubes", a, b, CT_WANT_ALL), 8);
    }
    shape_free(&cubes);
}

/* Bodies whose parts touch each other, along faces with which the other's coincide. */
static void test_touching(void **state) {
    (void)state;
    static const struct cell_map map = {{{3, -1, 1}, {1, 4, -1}, {0, 1, 3}}};
    static const int none[3], walls[] = {16, 6, 0};
    uint64_t rng = 7;
    for (int i = 0; i < TOUCHING; i++) {
        const int shift[3] = {i % 3, 2 * (i % 2) - 1, 0};
        const struct cell_body a = random_cells(&rng, 16 - 6 * (i % 2), walls[i / 3], i == 4),
                               b = random_cells(&rng, 16, walls[i / 3], false);
        const struct cell_pieces pieces = find_cell_pieces(&a, &b, shift, &map);
        struct shape cells = shape_of_cells(&a, none, &map), moved = shape_of_cells(&b, shift, &map);
        assert_int_equal(compare_shapes("touching", &cells, &moved), pieces.n);
        shape_free(&cells);
        shape_free(&moved);
    }
}

/* Combs stand on a half-space, and lie on each other, in scenes of which some have no patches, over several steps. */
static void test_batches(void **state) {
    (void)state;
    enum { N = 9 };
    struct shape teeth = comb(5), ball = shape_icosphere(0.4, 2);
    struct twin twins[N];
    uint64_t n = 0, rng = 6;
    for (int i = 0; i < N; i++) {
        double poses[5][12];
        struct placed bodies[5];
        for (int k = 0; k < 5; k++) {
            shape_pose_axis((const double[]){1, 0.1 * k, 0}, k % 2 ? M_PI - 0.02 : 0.01 * i,
                            (const double[]){1.3 * k, 0.2 * k, k % 2 ? 0.9 : 0.05 * i}, poses[k]);
            bodies[k] = (struct placed){k == 4 ? &ball : &teeth, poses[k], k % 3 ? RIGID : SOFT, 0};
        }
        if (i % 2) bodies[i % 4] = (struct placed){.shape = NULL, .pose = poses[1], .kind = CT_BODY_HALF_SPACE};
        ct_scene_settings settings = i % 4 == 3 ? stage_resolution(8) : stage_exact();
        settings.patches = i % 4 < 2;
        if (i % 4 == 3) bodies[i % 4] = bodies[0];
        twins[i] = twin_open(&settings, bodies, i % 5 ? 5 : i / 5);
    }
    for (int step = 0; step < 4; step++) {
        ct_update updates[N];
        const ct_update *lists[N];
        size_t n_updates[N];
        for (int i = 0; i < N; i++) {
            lists[i] = &updates[i];
            n_updates[i] = i % 5 && i % 2 == 0;
            updates[i] = (ct_update){.body = twins[i].of[0].body[1], .kind = CT_UPDATE_POSE};
            shape_pose_axis((const double[]){1, 0.1, 0}, M_PI - 0.02,
                            (const double[]){shape_uniform(&rng, 1, 1.6), 0.1, shape_uniform(&rng, 0.5, 1.1)},
                            updates[i].pose);
        }
        n += compare("batch", twins, lists, n_updates, (size_t)(N - step), CT_WANT_ALL);
    }
    assert_true(n > 60);
    for (int i = 0; i < N; i++) twin_close(&twins[i]);
    shape_free(&teeth);
    shape_free(&ball);
}

/* Products with the second derivative, and inertia, of each patch. */
static void test_second_derivatives(void **state) {
    (void)state;
    struct shape teeth = comb(5), slabs[2] = {shape_cube(12, 3), box_between((const double[]){-1, -0.5, 0.75},
                                                                             (const double[]){20, 3, 2})};
    double pose[12], none[12];
    shape_pose_axis((const double[]){1, 0.2, 0.1}, 0.02, (const double[]){3, 0.5, 6.6}, pose);
    shape_pose_identity(none);
    const ct_scene_settings settings = with_patches();
    for (int i = 0; i < 2; i++) {
        struct twin twin = twin_open(
            &settings, (struct placed[]){{&teeth, NULL, RIGID, 0}, {&slabs[i], i ? none : pose, RIGID, 0}}, 2);
        ct_direction directions[3] = {{.body = twin.of[0].body[0], .index = 0, .twist = {0.3, 1, -2, 0.5, 1, 0.25}},
                                      {.body = twin.of[0].body[1], .index = 0, .twist = {1, 0, 1, -1, 2, 0.5}},
                                      {.body = twin.of[0].body[1], .index = 1, .twist = {0, 0, 1, 1, 0, 0}}};
        ct_step steps[2];
        for (int e = 0; e < 2; e++) {
            steps[e] = (ct_step){.scene = twin.of[e].scene,
                                 .want = CT_WANT_ALL | CT_WANT_INERTIA,
                                 .directions = directions,
                                 .n_directions = 3};
            assert_int_equal(ct_engine_run(engines[e], &steps[e], 1), CT_OK);
        }
        const ct_result *a = steps[0].result, *b = steps[1].result;
        assert_int_equal(a->n_contacts, 5);
        assert_int_equal(b->n_contacts, 5);
        for (int c = 0; c < 5; c++) {
            assert_memory_equal(a->contacts[c].inertia, b->contacts[c].inertia, sizeof a->contacts[c].inertia);
            assert_true(a->contacts[c].inertia[0][0] > 0);
            assert_memory_equal(a->contacts[c].first_product, b->contacts[c].first_product, 2 * sizeof(uint64_t));
            assert_memory_equal(a->contacts[c].count_product, b->contacts[c].count_product, 2 * sizeof(uint64_t));
        }
        assert_int_equal(a->n_products, b->n_products);
        assert_true(a->n_products > 20);
        assert_memory_equal(a->product_vertices, b->product_vertices, a->n_products * sizeof *a->product_vertices);
        assert_memory_equal(a->products, b->products, a->n_products * 2 * 3 * sizeof *a->products);
        assert_memory_equal(a->generalized_product, b->generalized_product,
                            5 * 2 * 12 * sizeof *a->generalized_product);
        for (int e = 0; e < 2; e++) ct_result_free(&steps[e].result);
        twin_close(&twin);
    }
    shape_free(&teeth);
    for (int i = 0; i < 2; i++) shape_free(&slabs[i]);
}

/* Faces far larger than the contact round it most, so volumes count from another point than the lattice's origin: not
 * those of pieces. A pair of one piece has the bits that it has without patches. */
static void test_large_faces(void **state) {
    (void)state;
    struct shape shapes[] = {shape_blob(0.5, 3, 0.4, 3), comb(5)};
    shape_translate(&shapes[1], -2, 0, 0);
    uint64_t rng = 91;
    int whole = 0, divided = 0;
    for (int i = 0; i < 32; i++) {
        double plane[12], pose[12];
        shape_pose_random(&rng, 0.8, plane);
        shape_pose_random(&rng, 0.8, pose);
        const struct placed bodies[] = {{NULL, plane, RIGID, 0}, {&shapes[i % 2], pose, i % 3 ? SOFT : RIGID, 0}};
        const ct_scene_settings settings = with_patches(), without = stage_exact();
        const uint64_t n = compare_once("large faces", &settings, bodies, 2, CT_WANT_ALL);
        divided += n > 1;
        if (n != 1) continue;
        whole++;
        char hex[2][33];
        ct_result *r[] = {stage_once(engines[1], &settings, bodies, 2, CT_WANT_ALL),
                          stage_once(engines[1], &without, bodies, 2, CT_WANT_ALL)};
        for (int k = 0; k < 2; k++) stage_hash(r[k], hex[k]);
        assert_string_equal(hex[0], hex[1]);
        assert_true(r[0]->contacts->error_bound == r[1]->contacts->error_bound);
        for (int k = 0; k < 2; k++) ct_result_free(&r[k]);
    }
    assert_true(whole > 5 && divided > 2);
    for (int i = 0; i < 2; i++) shape_free(&shapes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comb),
        cmocka_unit_test(test_boundaries),
        cmocka_unit_test(test_curved),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_touching),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_second_derivatives),
        cmocka_unit_test(test_large_faces),
    };
    static const char *const native[] = {"native"};
    return twin_run_on_backends(tests, sizeof tests / sizeof *tests, native, 1);
}
