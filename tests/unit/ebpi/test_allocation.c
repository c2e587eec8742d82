/* test_allocation.c - which tiles a pass refines: the optimal allocation against a sort of all gains, the equal one
 * against its definition. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/methods/ebpi/allocation.h"
#include "tests/scenes/build.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

enum { N = 3000 };

static const ct_ebpi_view VIEW = {.axis = 1, .u = 2, .v = 0, .pitch_shift = {1, 1}, .pixel_shift = 6};

/* Tiles of pixel size, one in five of another view, with bounds over several powers of 10. */
static void make_tiles(ct_ebpi_tile *tiles, uint64_t *rng) {
    static const ct_ebpi_cut cuts[] = {{1, 0}, {0, 1}, {1, 1}};
    for (int i = 0; i < N; i++) {
        tiles[i] = (ct_ebpi_tile){.view = i % 5 == 4 ? 0 : 1, .shift_u = 7, .shift_v = 7};
        tiles[i].bound = shape_random(rng) % 4 ? (int64_t)(1e9 * pow(10, shape_uniform(rng, -6, 0))) : 0;
        tiles[i].cut[0] = cuts[shape_random(rng) % 3];
        tiles[i].cut[1] = (ct_ebpi_cut){2, 2};
        tiles[i].left[0] = (float)shape_uniform(rng, 0.1, 0.3);
        tiles[i].left[1] = (float)shape_uniform(rng, 0.05, 0.2);
    }
}

static double gain_per_ray(const ct_ebpi_tile *tile, int k) {
    return (double)tile->bound * (1 - (double)tile->left[k]) / (1 << (tile->cut[k].u + tile->cut[k].v));
}

/* All that are cut gain more for each ray, to a level's width, than any that is not; with what they take off, the bound
 * is at the goal. */
static void test_optimal(void **state) {
    (void)state;
    static ct_ebpi_tile tiles[N];
    static ct_ebpi_cut cut[N];
    ct_ebpi_level *level = shape_alloc(CT_EBPI_LEVELS, sizeof *level);
    uint64_t rng = 3;
    for (int round = 0; round < 40; round++) {
        make_tiles(tiles, &rng);
        double bound = 0;
        for (int i = 0; i < N; i++)
            if (tiles[i].view == 1) bound += ct_ebpi_bound_of(&VIEW, &tiles[i], 1e-9);
        const double part = shape_uniform(&rng, 0.3, 0.9);
        const int k = part < 1 / 1.4;
        ct_ebpi_pass pass = {&VIEW, tiles, N, 1e-9, bound, part * bound, UINT64_MAX, 0, false, cut};
        memset(cut, 0, sizeof cut);
        ct_ebpi_choose_optimal(&pass, level);
        double least_cut = INFINITY, most_left = 0, left = bound, all = 0;
        uint64_t rays = 0;
        for (int i = 0; i < N; i++) {
            if (tiles[i].view != 1) {
                assert_true(cut[i].u == 0 && cut[i].v == 0);
                continue;
            }
            const double gain = gain_per_ray(&tiles[i], k);
            all += ct_ebpi_bound_of(&VIEW, &tiles[i], 1e-9) * (1 - (double)tiles[i].left[k]);
            if (!cut[i].u && !cut[i].v) {
                most_left = fmax(most_left, gain);
                continue;
            }
            assert_true(cut[i].u == tiles[i].cut[k].u && cut[i].v == tiles[i].cut[k].v);
            least_cut = fmin(least_cut, gain);
            left -= ct_ebpi_bound_of(&VIEW, &tiles[i], 1e-9) * (1 - (double)tiles[i].left[k]);
            rays += (uint64_t)1 << (cut[i].u + cut[i].v);
        }
        assert_true(rays == pass.n_new && rays > 0 && !pass.is_short);
        assert_true(least_cut >= most_left * (1 - 1.0 / 32));
        const double goal = fmax(part * bound, bound - 0.7 * all);
        assert_true(left <= goal * (1 + 1e-12) && left > 0.9 * goal);
        /* With half the rays they go where they gain most, and it says that more were needed. */
        ct_ebpi_pass poor = pass;
        poor.most = rays / 2;
        memset(cut, 0, sizeof cut);
        ct_ebpi_choose_optimal(&poor, level);
        assert_true(poor.is_short && poor.n_new <= rays / 2 && poor.n_new > rays / 2 - 17);
    }
    free(level);
}

/* Each pixel has the same part; in those that exceed it, tiles that hold more than the average are cut. */
static void test_equal(void **state) {
    (void)state;
    ct_ebpi_pixel pixel[4];
    const ct_ebpi_share share = {.pixel_shift = 6, .columns = 2, .rows = 2, .unit = 1, .of_pitch = 1, .pixel = pixel};
    const int64_t part = (int64_t)1 << CT_EBPI_DEPTH_BITS; /* a tile's bound that is just the share */
    ct_ebpi_polynomial polynomial = {{0}, 0, 0};
    polynomial.term[CT_EBPI_W] = 8 * part; /* an edge along v: 8 tiles along u are needed */
    polynomial.along_v = 1;
    ct_ebpi_tile whole = {.view = 1, .shift_u = 7, .shift_v = 7, .bound = 8 * part};
    memset(pixel, 0, sizeof pixel);
    ct_ebpi_add_to_pixel(&VIEW, &share, &whole);
    ct_ebpi_cut cut = ct_ebpi_equal_cut(&VIEW, &share, &whole, &polynomial);
    assert_true(cut.u == 3 && cut.v == 0);
    whole.bound = part;
    memset(pixel, 0, sizeof pixel);
    ct_ebpi_add_to_pixel(&VIEW, &share, &whole);
    cut = ct_ebpi_equal_cut(&VIEW, &share, &whole, &polynomial);
    assert_true(cut.u == 0 && cut.v == 0);
    /* Two halves, of which one holds the error: within the part together, then not. */
    for (int64_t factor = 2; factor <= 3; factor++) {
        ct_ebpi_tile half[2] = {{.view = 1, .shift_u = 6, .shift_v = 7, .u = 128, .v = 128, .bound = factor * part},
                                {.view = 1, .shift_u = 6, .shift_v = 7, .u = 192, .v = 128, .bound = 0}};
        memset(pixel, 0, sizeof pixel);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(ct_ebpi_pixel_of(&VIEW, &share, &half[i]), 3);
            ct_ebpi_add_to_pixel(&VIEW, &share, &half[i]);
        }
        cut = ct_ebpi_equal_cut(&VIEW, &share, &half[0], &polynomial);
        assert_true(cut.u == (factor == 2 ? 0 : 2) && cut.v == cut.u);
        cut = ct_ebpi_equal_cut(&VIEW, &share, &half[1], &polynomial);
        assert_true(cut.u == 0 && cut.v == 0);
    }
    /* Four pixels gathered. */
    ct_ebpi_tile large = {.view = 1, .shift_u = 8, .shift_v = 8, .bound = part};
    memset(pixel, 0, sizeof pixel);
    ct_ebpi_add_to_pixel(&VIEW, &share, &large);
    assert_int_equal(pixel[0].n, 0);
    cut = ct_ebpi_equal_cut(&VIEW, &share, &large, &polynomial);
    assert_true(cut.u == 0 && cut.v == 0);
    large.bound++;
    cut = ct_ebpi_equal_cut(&VIEW, &share, &large, &polynomial);
    assert_true(cut.u == 1 && cut.v == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_optimal), cmocka_unit_test(test_equal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
