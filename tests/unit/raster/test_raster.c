/* test_raster.c - rasterising against exact rational arithmetic: coverage, depth and weights. The crossings of a closed
 * surface sum to 0 on every ray; the division of the work into bins and threads changes no bit. */
#include <math.h>

#include "tests/unit/raster/cast.h"

/* ---- the rule, once more and differently ---- */

typedef __int128 wide;

struct exact {
    int side;       /* 1: seen counter-clockwise, -1: clockwise, 0: not covered */
    wide weight[3]; /* of the corners, in units of 1 / total */
    wide total;
};

/* On which side of the line from p to q the point (x + e, y + e^2) lies: 1 left, -1 right, never 0 for p != q. */
static int side_of(const int64_t p[2], const int64_t q[2], int64_t x, int64_t y) {
    int64_t dx = q[0] - p[0], dy = q[1] - p[1];
    wide cross = (wide)dx * (y - p[1]) - (wide)dy * (x - p[0]);
    if (cross) return cross > 0 ? 1 : -1;
    if (dy) return dy < 0 ? 1 : -1;
    return dx > 0 ? 1 : -1;
}

static wide twice_area(const int64_t a[2], const int64_t b[2], const int64_t c[2]) {
    return (wide)(b[0] - a[0]) * (c[1] - a[1]) - (wide)(b[1] - a[1]) * (c[0] - a[0]);
}

static struct exact exactly(const struct cast_body *body, uint32_t triangle, int w, int64_t x, int64_t y) {
    struct exact e = {0};
    int64_t p[3][2], s[2] = {x, y};
    for (int c = 0; c < 3; c++) {
        const int32_t *q = body->coords[body->shape.triangles[3 * (size_t)triangle + (size_t)c]];
        p[c][0] = q[(w + 1) % 3];
        p[c][1] = q[(w + 2) % 3];
    }
    wide area = twice_area(p[0], p[1], p[2]);
    if (area == 0) return e;
    int side = area > 0 ? 1 : -1;
    for (int c = 0; c < 3; c++)
        if (side_of(p[(c + 1) % 3], p[(c + 2) % 3], x, y) != side) return e;
    e.side = side;
    e.total = area * side;
    e.weight[0] = twice_area(s, p[1], p[2]) * side;
    e.weight[1] = twice_area(p[0], s, p[2]) * side;
    e.weight[2] = twice_area(p[0], p[1], s) * side;
    return e;
}

static int64_t corner_depth(const struct cast_body *body, uint32_t triangle, int w, int c) {
    return body->coords[body->shape.triangles[3 * (size_t)triangle + (size_t)c]][w];
}

/* |value - numerator / total| is at most a half and a millionth: doubles were rounded on the way. */
static void assert_near(int64_t value, wide numerator, wide total) {
    wide off = (wide)value * total - numerator;
    if (off < 0) off = -off;
    assert_true((2 * off - total) * 500000 <= total);
}

static void check_fragment(const struct cast_body *body, const struct cast_fragment *c, const struct exact *e) {
    uint32_t triangle = c->f.tag & 0x7fffffff;
    assert_int_equal(c->f.key & 1, e->side < 0);
    int64_t l1 = (int32_t)c->f.l1, l2 = (int32_t)c->f.l2, l0 = CT_WEIGHT_ONE - l1 - l2;
    assert_true(l0 >= -1 && l1 >= 0 && l2 >= 0 && l1 <= CT_WEIGHT_ONE && l2 <= CT_WEIGHT_ONE);
    assert_near(l1, e->weight[1] * CT_WEIGHT_ONE, e->total);
    assert_near(l2, e->weight[2] * CT_WEIGHT_ONE, e->total);
    wide depth = 0;
    for (int k = 0; k < 3; k++) depth += e->weight[k] * corner_depth(body, triangle, c->view, k);
    assert_near(ct_fragment_depth(c->f.key), depth, e->total);
}

/* Where a triangle lies against the window's depths: all its corners before (-1) or after them (1), else 0. */
static int stage_of(const struct cast_body *body, uint32_t triangle, int w, const ct_lattice *z) {
    int before = 0, after = 0;
    for (int k = 0; k < 3; k++) {
        before += corner_depth(body, triangle, w, k) < z->lo;
        after += corner_depth(body, triangle, w, k) > z->hi;
    }
    return before == 3 ? -1 : after == 3;
}

static void check_ray(const ct_window *window, struct cast_body *bodies, uint32_t n_bodies, const struct cast *cast,
                      uint32_t first, int w, int32_t row, int32_t column, size_t *at) {
    const ct_lattice *u = &window->axis[(w + 1) % 3], *v = &window->axis[(w + 2) % 3], *z = &window->axis[w];
    int64_t x = (2 * (int64_t)column + 1) << (u->shift - 1), y = (2 * (int64_t)row + 1) << (v->shift - 1);
    int before[2] = {0, 0}, kept[2] = {0, 0};
    for (uint32_t b = 0; b < n_bodies; b++) {
        int sum = 0;
        for (uint32_t t = 0; t < bodies[b].shape.n_triangles; t++) {
            int side = exactly(&bodies[b], t, w, x, y).side;
            if (!side) continue;
            sum += side;
            int stage = stage_of(&bodies[b], t, w, z);
            if (stage < 0) before[b] -= side;
            if (stage == 0) kept[b]++;
        }
        assert_int_equal(sum, 0); /* closed: as often in as out */
        bool counted = cast->initial[b][w] == CT_INITIAL_COUNTED;
        assert_int_equal(cast->winding[w][(size_t)row * (size_t)u->n + (size_t)column][b], counted ? before[b] : 0);
    }
    for (uint32_t b = 0; b < n_bodies; b++) {
        if (b != first && !kept[first] && before[first] <= 0) continue; /* the first is never entered: no span */
        for (uint32_t t = 0; t < bodies[b].shape.n_triangles; t++) {
            struct exact e = exactly(&bodies[b], t, w, x, y);
            if (!e.side || stage_of(&bodies[b], t, w, z)) continue;
            assert_true(*at < cast->n);
            const struct cast_fragment *c = &cast->fragments[(*at)++];
            assert_int_equal(c->view, w);
            assert_int_equal(c->row, row);
            assert_int_equal(c->column, column);
            assert_int_equal(c->f.tag, b << 31 | t);
            check_fragment(&bodies[b], c, &e);
        }
    }
}

/* All of a cast of closed bodies against the rule. Returns the number of fragments. */
static size_t check_all(const ct_window *window, struct cast_body *bodies, uint32_t n_bodies, const struct cast *cast,
                        uint32_t first) {
    size_t at = 0;
    for (int w = 0; w < 3; w++)
        for (int32_t row = 0; row < window->axis[(w + 2) % 3].n; row++)
            for (int32_t column = 0; column < window->axis[(w + 1) % 3].n; column++)
                check_ray(window, bodies, n_bodies, cast, first, w, row, column, &at);
    assert_int_equal(at, cast->n);
    return at;
}

/* ---- scenes ---- */

static int32_t between(uint64_t *rng, int64_t lo, int64_t hi) {
    return (int32_t)(lo + (int64_t)(shape_random(rng) % (uint64_t)(hi - lo + 1)));
}

static struct shape any_shape(uint64_t *rng) {
    switch (shape_random(rng) % 5) {
    case 0:
        return shape_tetrahedron(1);
    case 1:
        return shape_cube(1, 1 + between(rng, 0, 2));
    case 2:
        return shape_torus(1, 0.3, 3 + between(rng, 0, 4), 3 + between(rng, 0, 3));
    case 3:
        return shape_icosphere(1, between(rng, 0, 1));
    default:
        return shape_l_prism(1, 1);
    }
}

/* A closed surface stays closed wherever its vertices go: on samples, half-way between them, all in a plane, on top of
 * each other, or as far out as coordinates may be. */
static void scatter(uint64_t *rng, const ct_window *window, struct cast_body *body, int kind) {
    for (uint32_t v = 0; v < body->shape.n_vertices; v++)
        for (int k = 0; k < 3; k++) {
            const ct_lattice *a = &window->axis[k];
            int32_t half = 1 << (a->shift - 1), n = a->n, q;
            switch (kind) {
            case 0:
                q = half * between(rng, -1, 2 * n + 1);
                break; /* samples and the middle between */
            case 1:
                q = half * (2 * between(rng, 0, n - 1) + 1);
                break; /* samples only */
            case 2:
                q = between(rng, -(int64_t)n * half, 3 * (int64_t)n * half);
                break;
            case 3:
                q = between(rng, -(1 << 28), 1 << 28);
                break;
            case 4:
                q = shape_random(rng) % 2 ? between(rng, 0, 1) * (2 << 28) - (1 << 28) : half;
                break;
            default:
                q = half * between(rng, 1, 3) + between(rng, -1, 1);
                break; /* slivers */
            }
            if (q > 1 << 28) q = 1 << 28;
            if (q < -(1 << 28)) q = -(1 << 28);
            body->coords[v][k] = q;
        }
}

static ct_window any_window(uint64_t *rng) {
    int32_t n[3], shift[3];
    for (int k = 0; k < 3; k++) {
        n[k] = between(rng, 0, 3) ? between(rng, 1, 12) : between(rng, 9, 30);
        int most = 28;
        while (((int64_t)n[k] << most) > 1 << 28) most--;
        shift[k] = between(rng, 0, 2) ? between(rng, 1, most) : most;
    }
    return cast_window(n, shift);
}

static const struct cast_how plain = {&cast_sets[0], 8192, 1000, 0, 0, false};

static void test_exact_and_watertight(void **state) {
    (void)state;
    uint64_t rng = 11;
    size_t fragments = 0;
    for (int round = 0; round < 120; round++) {
        ct_window window = any_window(&rng);
        struct cast_body bodies[2] = {cast_body_of(any_shape(&rng)), cast_body_of(any_shape(&rng))};
        for (int b = 0; b < 2; b++) scatter(&rng, &window, &bodies[b], (round + b) % 6);
        struct cast cast;
        struct cast_how how = plain;
        how.first = (uint32_t)round % 2;
        assert_true(cast_run(&window, bodies, 2, &how, &cast));
        fragments += check_all(&window, bodies, 2, &cast, how.first);
        cast_free(&cast);
        for (int b = 0; b < 2; b++) cast_body_free(&bodies[b]);
    }
    print_message("%zu fragments\n", fragments);
    assert_true(fragments > 60000);
}

/* Crossings before the window's depths are counted where the body reaches beyond them, else left out, as are those
 * after it: triangle by triangle, all three corners. */
static void test_before_and_after(void **state) {
    (void)state;
    uint64_t rng = 12;
    size_t fragments = 0, kinds[3] = {0};
    for (int round = 0; round < 80; round++) {
        ct_window window = any_window(&rng);
        for (int k = 0; k < 3; k++) {
            ct_lattice *a = &window.axis[k];
            int32_t x = between(&rng, 0, (int64_t)a->n << a->shift), y = between(&rng, 0, (int64_t)a->n << a->shift);
            a->lo = x < y ? x : y;
            a->hi = x < y ? y : x;
            int open = between(&rng, 0, 3);
            if (open == 1) a->lo = -(1 << 29);
            if (open == 2) a->hi = 1 << 29;
        }
        struct cast_body bodies[2] = {cast_body_of(shape_icosphere(1, 1)), cast_body_of(shape_cube(1, 3))};
        for (int b = 0; b < 2; b++) scatter(&rng, &window, &bodies[b], 2 * (round % 2));
        struct cast cast;
        struct cast_how how = plain;
        how.first = (uint32_t)round % 2;
        assert_true(cast_run(&window, bodies, 2, &how, &cast));
        fragments += check_all(&window, bodies, 2, &cast, how.first);
        for (int b = 0; b < 2; b++)
            for (int w = 0; w < 3; w++) kinds[cast.initial[b][w]]++;
        cast_free(&cast);
        for (int b = 0; b < 2; b++) cast_body_free(&bodies[b]);
    }
    assert_true(kinds[CT_INITIAL_ZERO] > 20 && kinds[CT_INITIAL_FROM_BALANCE] > 20 && kinds[CT_INITIAL_COUNTED] > 20);
    assert_true(fragments > 4000);
}

/* Instruction sets, bins of any size, chunks of any size, small triangles crossed at once or binned like the others:
 * the same fragments. */
static void test_no_cut_changes_a_bit(void **state) {
    (void)state;
    uint64_t rng = 13;
    for (int round = 0; round < 40; round++) {
        ct_window window = any_window(&rng);
        struct cast_body bodies[2] = {cast_body_of(shape_torus(1, 0.4, 9, 7)), cast_body_of(any_shape(&rng))};
        for (int b = 0; b < 2; b++) scatter(&rng, &window, &bodies[b], (round + b) % 6);
        window.axis[round % 3].lo = 0;
        window.axis[round % 3].hi = window.axis[round % 3].n << (window.axis[round % 3].shift - 1);
        struct cast expected;
        assert_true(cast_run(&window, bodies, 2, &plain, &expected));
        const int32_t samples[] = {1, 20, 100, 1 << 20};
        const uint32_t chunks[] = {1, 7, 100, 1 << 14};
        for (int s = 0; s < cast_n_sets(); s++)
            for (int k = 0; k < 4; k++) {
                struct cast cast;
                struct cast_how how = {&cast_sets[s],
                                       samples[k],
                                       chunks[(k + round) % 4],
                                       0,
                                       0,
                                       (s + k + round) % 3 == 0,
                                       (const int32_t[]){0, 1, 4, 16}[(s + k + round) % 4]};
                assert_true(cast_run(&window, bodies, 2, &how, &cast));
                cast_assert_same(&window, &expected, &cast);
                cast_free(&cast);
            }
        cast_free(&expected);
        for (int b = 0; b < 2; b++) cast_body_free(&bodies[b]);
    }
}

/* The part of a large window that a small one has too is rasterised over few columns there: the same bits. */
static void test_narrow_and_wide_agree(void **state) {
    (void)state;
    uint64_t rng = 14;
    size_t shared = 0;
    for (int round = 0; round < 40; round++) {
        const int32_t large[3] = {40, 40, 40}, small[3] = {8, 5, 3}, shift[3] = {22, 20, between(&rng, 1, 22)};
        ct_window wide_window = cast_window(large, shift), narrow_window = cast_window(small, shift);
        struct cast_body body = cast_body_of(shape_icosphere(1, 0));
        scatter(&rng, &wide_window, &body, round % 6);
        struct cast wide_cast, narrow_cast;
        struct cast_how how = {&cast_sets[round % cast_n_sets()], 64 << round % 8, 1000, 0, 0, false};
        assert_true(cast_run(&wide_window, &body, 1, &how, &wide_cast));
        assert_true(cast_run(&narrow_window, &body, 1, &how, &narrow_cast));
        size_t k = 0;
        for (size_t i = 0; i < wide_cast.n; i++) {
            const struct cast_fragment *c = &wide_cast.fragments[i];
            if (c->column >= small[ct_view_u(c->view)] || c->row >= small[ct_view_v(c->view)]) continue;
            assert_true(k < narrow_cast.n);
            assert_memory_equal(c, &narrow_cast.fragments[k++], sizeof *c);
        }
        assert_int_equal(k, narrow_cast.n);
        shared += k;
        cast_free(&wide_cast);
        cast_free(&narrow_cast);
        cast_body_free(&body);
    }
    assert_true(shared > 2000);
}

static void test_too_little_memory(void **state) {
    (void)state;
    const int32_t n[3] = {60, 60, 60}, shift[3] = {10, 10, 10};
    ct_window window = cast_window(n, shift);
    uint64_t rng = 15;
    struct cast_body body = cast_body_of(shape_icosphere(1, 2));
    scatter(&rng, &window, &body, 2);
    struct cast full, cast;
    struct cast_how how = plain;
    assert_true(cast_run(&window, &body, 1, &how, &full));
    bool any = false, all = false;
    for (size_t limit = 256; !all; limit = limit * 5 / 4) {
        how.limit = limit;
        all = cast_run(&window, &body, 1, &how, &cast);
        any = any || !all;
        if (all) cast_assert_same(&window, &full, &cast);
        cast_free(&cast);
        assert_true(limit < 1 << 28);
    }
    assert_true(any);
    cast_free(&full);
    cast_body_free(&body);
}

/* Rows with more samples than the initial capacity. */
static void test_long_rows(void **state) {
    (void)state;
    const int32_t n[3] = {8000, 3, 2}, shift[3] = {10, 10, 10};
    ct_window window = cast_window(n, shift);
    struct cast_body body = cast_body_of(shape_cube(1, 1));
    for (uint32_t v = 0; v < body.shape.n_vertices; v++)
        for (int k = 0; k < 3; k++) body.coords[v][k] = body.shape.positions[3 * v + (uint32_t)k] > 0 ? n[k] << 10 : 0;
    for (int s = 0; s < cast_n_sets(); s++) {
        struct cast cast;
        struct cast_how how = plain;
        how.set = &cast_sets[s];
        assert_true(cast_run(&window, &body, 1, &how, &cast));
        assert_int_equal(check_all(&window, &body, 1, &cast, 0), 2 * (8000 * 3 + 3 * 2 + 2 * 8000));
        cast_free(&cast);
    }
    cast_body_free(&body);
}

/* Binning reads only the corners of triangles that culling kept, the padding of the lists included. */
static void test_reads_only_kept_triangles(void **state) {
    (void)state;
    const int32_t n[3] = {20, 20, 20}, shift[3] = {10, 10, 10}; /* an eighth of the sphere */
    const ct_window window = cast_window(n, shift);
    ct_binned_tile tiles[3];
    const ct_bin_plan plan = ct_bin_plan_views(&window, 100, CT_MAX_RESOLUTION, tiles);
    for (int set = 0; set < cast_n_sets(); set++) {
        struct cast_body body = cast_body_of(shape_icosphere(1, 3));
        const struct shape *s = &body.shape;
        for (uint32_t v = 0; v < s->n_vertices; v++)
            for (int k = 0; k < 3; k++)
                body.coords[v][k] = (int32_t)lrint((double)s->positions[3 * v + (uint32_t)k] * 20000);
        cast_fill_cells(&window, &body);
        uint32_t first = 0; /* one that no ray meets, far from those that some do */
        while (body.coords[s->triangles[3 * first]][0] > -8000 || body.coords[s->triangles[3 * first]][1] > -8000)
            first++;
        const ct_snapped_body snapped = {
            (const ct_coords *)body.coords, body.cells, s->triangles, s->n_triangles, 0, {0}};
        ct_budget budget = {.limit = 0};
        ct_bin_scratch scratch;
        ct_binned_chunk bin;
        memset(&scratch, 0, sizeof scratch);
        memset(&bin, 0, sizeof bin);
        assert_true(
            cast_sets[set].bin->cull(&scratch, &budget, &snapped, &(ct_triangle_run){first, s->n_triangles}, 1));
        bool *known = calloc(s->n_vertices, sizeof *known);
        for (int list = 0; list < CT_KEPT_LISTS; list++)
            for (uint32_t i = 0; i < 3 * scratch.n_kept[list]; i++)
                known[s->triangles[3 * scratch.kept[list][i / 3] + i % 3]] = true;
        for (uint32_t v = 0; v < s->n_vertices; v++)
            for (int k = 0; k < 3 && !known[v]; k++) body.coords[v][k] = v % 2 ? INT32_MIN : INT32_MAX;
        uint32_t beyond = 0;
        for (int list = 0; list < CT_KEPT_LISTS; list++)
            for (uint32_t i = scratch.n_kept[list]; i % 4; i++, beyond++)
                for (int c = 0; c < 3; c++) assert_true(known[s->triangles[3 * scratch.kept[list][i] + (uint32_t)c]]);
        assert_true(beyond > 0);
        assert_true(cast_sets[set].bin->bin(&bin, &scratch, &budget, &snapped, &window, &plan, true));
        free(known);
        ct_binned_chunk_free(&bin, &budget);
        ct_bin_scratch_free(&scratch, &budget);
        cast_body_free(&body);
    }
}

/* Bins cut a tile without gaps or overlaps, are as large as asked for, and are found by their number. */
static void test_bins(void **state) {
    (void)state;
    uint64_t rng = 16;
    for (int round = 0; round < 2000; round++) {
        int32_t n[3], shift[3] = {1, 1, 1}, samples = between(&rng, 1, 20000), columns = between(&rng, 1, 5000);
        for (int k = 0; k < 3; k++) n[k] = between(&rng, 1, round % 2 ? 4096 : 50);
        ct_window window = cast_window(n, shift);
        ct_binned_tile tiles[3];
        const ct_bin_plan plan = ct_bin_plan_views(&window, samples, columns, tiles);
        uint32_t total = 0;
        for (int w = 0; w < 3; w++) {
            const ct_binned_tile *t = &tiles[w];
            int64_t across = n[ct_view_u(w)], rows = n[ct_view_v(w)], height = (int64_t)1 << t->shift_v;
            int64_t width = t->columns == 1 ? across : (int64_t)1 << t->shift_u;
            assert_int_equal(t->first, total);
            total += t->columns * t->rows;
            assert_true(width <= columns && (across <= columns) == (t->columns == 1));
            assert_true(t->rows * height >= rows && (t->rows - 1) * height < rows);
            assert_true(height == 1 || height * width <= samples);       /* no larger than asked for */
            assert_true(height >= rows || 2 * height * width > samples); /* nor half of it */
            int64_t covered = 0;
            for (uint32_t b = t->first; b < total; b++) {
                const ct_bin bin = ct_bin_at(&plan, b);
                assert_ptr_equal(bin.of, t);
                assert_true(bin.columns >= 1 && bin.rows >= 1);
                assert_int_equal(bin.first_column, (int32_t)((b - t->first) % t->columns << t->shift_u));
                assert_int_equal(bin.first_row, (int32_t)((b - t->first) / t->columns << t->shift_v));
                covered += (int64_t)bin.columns * bin.rows;
                if (total - t->first > 5000) break; /* enough of them */
            }
            if (total - t->first <= 5000) assert_int_equal(covered, across * rows);
        }
        assert_int_equal(plan.n_bins, total);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_and_watertight),      cmocka_unit_test(test_before_and_after),
        cmocka_unit_test(test_no_cut_changes_a_bit),      cmocka_unit_test(test_narrow_and_wide_agree),
        cmocka_unit_test(test_too_little_memory),         cmocka_unit_test(test_long_rows),
        cmocka_unit_test(test_reads_only_kept_triangles), cmocka_unit_test(test_bins)};
    return cmocka_run_group_tests_name("raster", tests, NULL, NULL);
}
