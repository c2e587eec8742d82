/* test_patch_touching.c - the method `exact` with patches where parts of one body touch each other, and faces of the
 * other body coincide with theirs: bodies of cubes and blocks on a lattice, against a flood fill. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "tests/consistency/cell_bodies.h"
#include "tests/consistency/engine.h"
#include "tests/consistency/patch_shapes.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) /* slow */
enum { BODIES = 2 };
#else
enum { BODIES = 8 };
#endif

static const int UNMOVED[3];

/* Level, turned about one axis, and oblique. */
static const struct cell_map MAPS[] = {
    {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}, {{{4, -1, 0}, {1, 4, 0}, {0, 0, 1}}}, {{{3, -1, 1}, {1, 4, -1}, {0, 1, 3}}}};
enum { N_MAPS = sizeof MAPS / sizeof *MAPS };

static ct_result *run(const struct shape *a, const struct shape *b, bool patches) {
    ct_scene_settings settings = stage_exact();
    settings.patches = patches;
    return stage_once(engine, &settings, (struct placed[]){{a, NULL, CT_BODY_RIGID, 0}, {b, NULL, CT_BODY_RIGID, 0}}, 2,
                      CT_WANT_ALL);
}

/* sign: -1 if the bodies changed places. */
static struct cell_piece *find_piece(struct cell_pieces *pieces, const ct_contact *c, int sign) {
    for (uint32_t i = 0; i < pieces->n; i++) {
        struct cell_piece *piece = &pieces->of[i];
        double distance = fabs(piece->volume - c->volume);
        for (int k = 0; k < 3; k++) {
            distance = fmax(distance, fabs(piece->center[k] - c->center[k]));
            distance = fmax(distance, fabs(sign * piece->gradient[k] - c->generalized_gradient[1][k]));
        }
        if (!piece->is_taken && distance < 1e-7) return piece;
    }
    return NULL;
}

/* Each contact is a piece, with its volume, centre and gradient, and each piece a contact; their volumes are the
 * pair's. */
static void check(const char *name, struct cell_pieces pieces, int sign, const ct_result *r, const ct_result *whole) {
    double volume = 0;
    if (r->n_contacts != pieces.n) fail_msg("%s: %zu patches, expected %u", name, r->n_contacts, pieces.n);
    for (size_t i = 0; i < r->n_contacts; i++) {
        struct cell_piece *piece = find_piece(&pieces, &r->contacts[i], sign);
        if (!piece) {
            fail_msg("%s: patch %zu of volume %g is none of the pieces", name, i, r->contacts[i].volume);
            return;
        }
        piece->is_taken = true;
        volume += r->contacts[i].volume;
    }
    if (pieces.n) assert_float_equal(volume, whole->contacts->volume, 1e-9);
}

/* In both orders of the bodies, and with vertices and triangles in other orders. Frees the shapes. Returns how many
 * pieces there are. */
static uint32_t check_orders(const char *name, const struct cell_pieces *pieces, struct shape *a, struct shape *b,
                             uint64_t *rng) {
    for (int order = 0; order < 4; order++) {
        if (order == 2) {
            shape_shuffle(a, rng);
            shape_shuffle(b, rng);
        }
        const struct shape *first = order % 2 ? b : a, *second = order % 2 ? a : b;
        ct_result *r = run(first, second, true), *whole = run(first, second, false);
        check(name, *pieces, order % 2 ? -1 : 1, r, whole);
        ct_result_free(&r);
        ct_result_free(&whole);
    }
    shape_free(a);
    shape_free(b);
    return pieces->n;
}

static void random_shift(uint64_t *rng, int shift[3]) {
    for (int k = 0; k < 3; k++) shift[k] = (int)(shape_random(rng) % 7) - 3;
}

/* ---- cells ---- */

static uint32_t check_cells(uint64_t seed, int density, int walls, int hollow, const struct cell_map *map) {
    uint64_t rng = seed;
    int shift[3];
    char name[96];
    const struct cell_body a = random_cells(&rng, density, walls, hollow),
                           b = random_cells(&rng, density, walls, hollow > 1);
    random_shift(&rng, shift);
    snprintf(name, sizeof name, "seed %d, %d cells and %d walls of 16, hollow %d, map %d", (int)seed, density, walls,
             hollow, (int)(map - MAPS));
    const struct cell_pieces pieces = find_cell_pieces(&a, &b, shift, map);
    struct shape shape = shape_of_cells(&a, UNMOVED, map), moved = shape_of_cells(&b, shift, map);
    return check_orders(name, &pieces, &shape, &moved, &rng);
}

/* All cubes by themselves, solids without walls, and solids with slits, which touch themselves. */
static void test_cells(void **state) {
    (void)state;
    static const int walls[] = {16, 0, 6, 2}, densities[] = {16, 10};
    uint64_t seed = 1;
    uint32_t total = 0;
    for (int m = 0; m < N_MAPS; m++)
        for (int w = 0; w < 4; w++)
            for (int d = 0; d < 2; d++)
                for (int i = 0; i < BODIES / 4 + 1; i++)
                    total += check_cells(seed++, densities[d], walls[w], 0, &MAPS[m]);
    assert_true(total > 100);
    /* Here each perturbation finds two pieces of a chain, which only the middle of the chain joins. */
    assert_int_equal(check_cells(10012, 10, 0, 0, &MAPS[1]), 1);
    assert_int_equal(check_cells(2098, 16, 6, 0, &MAPS[0]), 4);
}

/* Cavities that touch the outside, each other, and the other body's faces. */
static void test_hollow(void **state) {
    (void)state;
    static const int walls[] = {16, 0, 4};
    uint64_t seed = 1001;
    for (int m = 0; m < N_MAPS; m++)
        for (int w = 0; w < 3; w++)
            for (int i = 0; i < BODIES / 7 + 1; i++) check_cells(seed++, 16, walls[w], 1 + i % 2, &MAPS[m]);
}

/* ---- blocks ---- */

/* Large triangles, which the other body's curves part into many regions, around others and touching them. */
static void test_blocks(void **state) {
    (void)state;
    static const int walls[] = {16, 0, 6};
    uint64_t rng = 5;
    for (int i = 0; i < 6 * BODIES; i++) {
        const struct cell_map *map = &MAPS[i % N_MAPS];
        const struct cell_blocks a = random_blocks(&rng, i % 7), b = random_blocks(&rng, i / 2 % 7);
        const struct cell_body cells =
            i / 3 % 2 ? cells_of_blocks(&a) : random_cells(&rng, 16, walls[i / 6 % 3], false);
        const struct cell_body other = cells_of_blocks(&b);
        int shift[3];
        char name[32];
        random_shift(&rng, shift);
        snprintf(name, sizeof name, "blocks %d", i);
        const struct cell_pieces pieces = find_cell_pieces(&cells, &other, shift, map);
        struct shape shape = i / 3 % 2 ? shape_of_blocks(&a, UNMOVED, map) : shape_of_cells(&cells, UNMOVED, map);
        struct shape moved = shape_of_blocks(&b, shift, map);
        check_orders(name, &pieces, &shape, &moved, &rng);
    }
}

/* ---- rules ---- */

static size_t count_patches(const struct shape *a, const struct shape *b) {
    ct_result *r = run(a, b, true);
    const size_t n = r->n_contacts;
    ct_result_free(&r);
    r = run(b, a, true);
    assert_int_equal(r->n_contacts, n);
    ct_result_free(&r);
    return n;
}

/* Two cubes by themselves inside a block are two, whatever they share; as one solid they are one. */
static void test_walls(void **state) {
    (void)state;
    static const double second[3][3] = {{1, 0, 0}, {1, 1, 0}, {1, 1, 1}};
    struct shape around = box_between((const double[]){-1, -1, -1}, (const double[]){3, 3, 3}),
                 half = box_between((const double[]){0, 0, 0}, (const double[]){2, 2, 0.5}),
                 solid = box_between((const double[]){0, 0, 0}, (const double[]){2, 1, 1});
    for (int i = 0; i < 3; i++) {
        struct shape two = {0};
        append_box(&two, (const double[]){0, 0, 0}, (const double[]){1, 1, 1}, 0);
        append_box(&two, second[i], (const double[]){second[i][0] + 1, second[i][1] + 1, second[i][2] + 1}, 0);
        assert_int_equal(count_patches(&two, &around), 2);
        assert_int_equal(count_patches(&two, &half), i < 2 ? 2 : 1);
        shape_free(&two);
    }
    assert_int_equal(count_patches(&solid, &around), 1);
    assert_int_equal(count_patches(&solid, &half), 1);
    shape_free(&around);
    shape_free(&half);
    shape_free(&solid);
}

/* A vertex that two cubes share in the mesh joins them where it is inside the other body. */
static void test_shared_vertex(void **state) {
    (void)state;
    struct shape two = {0}, around = box_between((const double[]){-1, -1, -1}, (const double[]){3, 3, 3}),
                 apart = box_between((const double[]){0.5, -1, -1}, (const double[]){3, 3, 0.75});
    append_box(&two, (const double[]){0, 0, 0}, (const double[]){1, 1, 1}, 0);
    append_box(&two, (const double[]){1, 1, 1}, (const double[]){2, 2, 2}, 0);
    uint32_t of_first = 0, of_second = 0;
    for (uint32_t v = 0; v < two.n_vertices; v++) {
        const float *p = two.positions + 3 * (size_t)v;
        if (p[0] == 1 && p[1] == 1 && p[2] == 1) *(v < 8 ? &of_first : &of_second) = v;
    }
    assert_int_equal(count_patches(&two, &around), 2);
    for (uint32_t i = 0; i < 3 * two.n_triangles; i++)
        if (two.triangles[i] == of_second) two.triangles[i] = of_first;
    two.positions[3 * (size_t)of_second] = 1.5f; /* no longer used, inside its cube */
    assert_int_equal(count_patches(&two, &around), 1);
    assert_int_equal(count_patches(&two, &apart), 1); /* which only the first cube reaches */
    struct shape *shapes[] = {&two, &around, &apart};
    for (int i = 0; i < 3; i++) shape_free(shapes[i]);
}

/* A table whose legs stand in a block: where its plate lies on the block, the touching faces join the legs; where it is
 * above, they are patches of their own. */
static void test_table(void **state) {
    (void)state;
    const struct cell_map level = MAPS[0];
    struct cell_body table = {0};
    for (int x = 0; x < SIDE; x++)
        for (int y = 0; y < SIDE; y++) {
            table.is_solid[x][y][2] = true;
            table.is_solid[x][y][0] = table.is_solid[x][y][1] = x != 1 && y != 1;
        }
    for (int axis = 0; axis < 3; axis++)
        for (int is_over = 0; is_over < 2; is_over++)
            for (int sign = -1; sign < 2; sign += 2) {
                struct shape legs = shape_of_cells(&table, UNMOVED, &level);
                for (uint32_t v = 0; v < legs.n_vertices; v++) { /* the legs along any axis */
                    float *p = legs.positions + 3 * (size_t)v, q[3] = {p[0], p[1], p[2]};
                    for (int k = 0; k < 3; k++) p[(axis + 1 + k) % 3] = q[k];
                }
                double lo[3] = {-1, -1, -1}, hi[3] = {4, 4, 4};
                hi[axis] = is_over ? 1.75 : 2;
                if (sign < 0) { /* mirrored about the origin */
                    for (uint32_t v = 0; v < 3 * legs.n_vertices; v++) legs.positions[v] = -legs.positions[v];
                    for (uint32_t t = 0; t < legs.n_triangles; t++) {
                        uint32_t *c = legs.triangles + 3 * (size_t)t, first = c[0];
                        c[0] = c[1];
                        c[1] = first;
                    }
                    for (int k = 0; k < 3; k++) {
                        const double low = lo[k];
                        lo[k] = -hi[k];
                        hi[k] = -low;
                    }
                }
                struct shape block = box_between(lo, hi);
                assert_int_equal(count_patches(&legs, &block), is_over ? 4 : 1);
                shape_free(&legs);
                shape_free(&block);
            }
}

/* Divides the triangles that face along x, over two of four columns, into three each. */
static struct shape refine_columns(const struct shape *from) {
    struct shape to = shape_begin(from->n_vertices + from->n_triangles, 3 * (uint64_t)from->n_triangles);
    for (uint32_t v = 0; v < from->n_vertices; v++) {
        const float *p = from->positions + 3 * (size_t)v;
        shape_add_vertex(&to, (double)p[0], (double)p[1], (double)p[2]);
    }
    for (uint32_t t = 0; t < from->n_triangles; t++) {
        const uint32_t *c = from->triangles + 3 * (size_t)t;
        double at[3] = {0};
        bool is_level = true;
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 3; k++) at[k] += (double)from->positions[3 * (size_t)c[i] + (size_t)k] / 3;
        for (int i = 0; i < 3; i++) is_level = is_level && (double)from->positions[3 * (size_t)c[i]] == at[0];
        if (!is_level || (at[0] < 1.5) == (at[1] < 1.5)) {
            shape_add_triangle(&to, c[0], c[1], c[2]);
            continue;
        }
        const uint32_t middle = shape_add_vertex(&to, at[0], at[1], at[2]);
        for (int i = 0; i < 3; i++) shape_add_triangle(&to, c[i], c[(i + 1) % 3], middle);
    }
    return to;
}

/* Four columns through a plate, joined above it and below it by turns. So one perturbation joins the first with the
 * second, and the third with the fourth; the other one the second with the third, and the fourth with the first. Two
 * columns have far larger triangles. All are one, though any two have one volume. */
static void test_ring(void **state) {
    (void)state;
    struct cell_body columns = {0};
    for (int i = 0; i < CELLS; i++) {
        const int x = i % 3, y = i / 3 % 3, z = i / 9;
        columns.is_solid[x][y][z] = (x != 1 && y != 1) || (z == 2 && x != 1 && y == 1) || (z == 0 && x == 1 && y != 1);
    }
    struct shape even = shape_of_cells(&columns, UNMOVED, &MAPS[0]), ring = refine_columns(&even),
                 plate = box_between((const double[]){-1, -1, 1}, (const double[]){4, 4, 2}),
                 thinner = box_between((const double[]){-1, -1, 1.25}, (const double[]){4, 4, 1.75});
    assert_int_equal(count_patches(&even, &plate), 1);
    assert_int_equal(count_patches(&ring, &plate), 1);
    assert_int_equal(count_patches(&ring, &thinner), 4);
    struct shape *shapes[] = {&even, &ring, &plate, &thinner};
    for (int i = 0; i < 4; i++) shape_free(shapes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells), cmocka_unit_test(test_hollow),        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_walls), cmocka_unit_test(test_shared_vertex), cmocka_unit_test(test_table),
        cmocka_unit_test(test_ring),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
