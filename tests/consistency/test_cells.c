/* test_cells.c - contacts divided into cells: sums that equal the contact's to the last integer, Newton's third law in
 * each cell, volumes against closed forms and brute force, gradients with their walls against differences of spans,
 * bits that must not change, and refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"
#include "tests/consistency/scratch.h"
#include "tests/scenes/overlap.h"

static const uint32_t everything = CT_WANT_ALL | CT_WANT_SPANS;

static ct_scene_settings with_cells(ct_scene_settings settings, double size) {
    settings.cell_size = size;
    return settings;
}

/* ---- integers behind the numbers ---- */

/* A gradient component is an integer times 2^-30 of a ray's area. */
static int64_t weight_of(const ct_contact *c, int w, double component) {
    const double unit = ldexp(c->pitch[(w + 1) % 3] * c->pitch[(w + 2) % 3], -30);
    const double weight = component / unit;
    assert_true(fabs(weight) < 0x1p52 && fabs(weight - rint(weight)) < 1e-3);
    return llrint(weight);
}

/* A view's volume is an integer times the pitches' product over 2^shift, where 2^(28 - shift) pitches are the bodies'
 * reach: 16 at least in these tests. */
static int64_t length_of(const ct_contact *c, int w) {
    const double length = c->volumes[w] / ldexp(c->pitch[0] * c->pitch[1] * c->pitch[2], -24);
    assert_true(length < 0x1p49 && fabs(length - rint(length)) < 0.2);
    return llrint(length);
}

static void add_weights(const ct_result *r, const ct_contact *c, int64_t *dense[2], int64_t sign) {
    for (int part = 0; part < 2; part++)
        for (uint64_t e = c->first[part]; e < c->first[part] + c->count[part]; e++)
            for (int w = 0; w < 3; w++)
                dense[part][3 * r->vertices[e] + (uint32_t)w] +=
                    sign * weight_of(c, w, r->gradient[3 * e + (uint64_t)w]);
}

/* What holds of every cell by itself. */
static void check_cell(const ct_result *r, const ct_contact *pair, const ct_contact *cell) {
    int64_t sum[3] = {0, 0, 0};
    double area = 0;
    assert_memory_equal(cell->body, pair->body, sizeof cell->body);
    assert_memory_equal(cell->pitch, pair->pitch, sizeof cell->pitch);
    assert_true(cell->volume > 0 && cell->n_spans == 0 && cell->n_cells == 0);
    for (int part = 0; part < 2; part++)
        for (uint64_t e = cell->first[part]; e < cell->first[part] + cell->count[part]; e++) {
            assert_true(e == cell->first[part] || r->vertices[e] > r->vertices[e - 1]);
            double weight = 0;
            for (int w = 0; w < 3; w++) {
                const double g = r->gradient[3 * e + (uint64_t)w];
                sum[w] += weight_of(cell, w, g);
                weight += cell->normal[w] * g;
                assert_true(r->forces[3 * e + (uint64_t)w] == -cell->volume * g);
            }
            assert_float_equal(r->weights[e], weight, 1e-12 * (1 + fabs(weight)));
            area += part ? weight : 0;
        }
    for (int w = 0; w < 3; w++) { /* Newton's third law, exactly */
        assert_int_equal(sum[w], 0);
        assert_true(cell->generalized_gradient[0][w] + cell->generalized_gradient[1][w] == 0);
    }
    const double *n = cell->normal, size = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    assert_true(size == 0 || fabs(size - 1) < 1e-12);
    if (size > 0) {
        assert_float_equal(cell->area, area, 1e-9 * area + 1e-14);
        assert_float_equal(cell->depth * cell->area, cell->volume, 1e-9 * cell->volume);
    }
}

/* The cells of every contact: in order, each sound, and together the contact. Returns how many there are. */
static uint64_t check_cells(const ct_result *r, const uint32_t n_vertices[2]) {
    uint64_t next = 0;
    for (size_t i = 0; i < r->n_contacts; i++) {
        const ct_contact *pair = &r->contacts[i];
        int64_t *dense[2], length[3] = {0, 0, 0};
        double volume = 0, generalized[2][6] = {{0}};
        for (int b = 0; b < 2; b++) dense[b] = calloc(3 * (size_t)n_vertices[b], sizeof *dense[b]);
        assert_true(dense[0] && dense[1]);
        assert_int_equal(pair->first_cell, next);
        assert_true(pair->n_cells > 0);
        for (uint64_t k = 0; k < pair->n_cells; k++, next++) {
            const ct_contact *cell = &r->cells[next];
            assert_int_equal(cell->index, k);
            if (k > 0) assert_true(memcmp(cell->cell, cell[-1].cell, sizeof cell->cell) != 0);
            for (int a = 0; a < 3 && k > 0; a++) { /* rising */
                assert_true(cell->cell[a] >= cell[-1].cell[a]);
                if (cell->cell[a] > cell[-1].cell[a]) break;
            }
            check_cell(r, pair, cell);
            add_weights(r, cell, dense, 1);
            for (int w = 0; w < 3; w++) length[w] += length_of(cell, w);
            volume += cell->volume;
            for (int b = 0; b < 2; b++)
                for (int j = 0; j < 6; j++) generalized[b][j] += cell->generalized_gradient[b][j];
        }
        add_weights(r, pair, dense, -1);
        for (int b = 0; b < 2; b++)
            for (uint32_t v = 0; v < 3 * n_vertices[b]; v++) assert_int_equal(dense[b][v], 0);
        for (int w = 0; w < 3; w++) assert_int_equal(length[w], length_of(pair, w));
        assert_float_equal(volume, pair->volume, 1e-13 * pair->volume * (double)pair->n_cells);
        for (int b = 0; b < 2; b++)
            for (int j = 0; j < 6; j++)
                assert_float_equal(generalized[b][j], pair->generalized_gradient[b][j], 1e-9 * (1 + pair->area));
        for (int b = 0; b < 2; b++) free(dense[b]);
    }
    assert_int_equal(next, r->n_cells);
    return r->n_cells;
}

static void cells_sum_to_the_pair(void **state) {
    (void)state;
    uint64_t rng = 11, cells = 0;
    struct shape a = shape_blob(0.5, 4, 0.3, 5), b = shape_torus(0.4, 0.17, 24, 14), c = shape_cube(0.7, 3);
    const struct shape *shapes[3] = {&a, &b, &c};
    for (int i = 0; i < 24; i++) {
        double pose[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.25, pose[k]);
        const struct shape *of[2] = {shapes[i % 3], shapes[(i / 3) % 3]};
        const double size = shape_uniform(&rng, 0.02, 0.3);
        const ct_scene_settings settings =
            with_cells(i % 2 ? stage_resolution(8 + (uint32_t)i) : stage_pixel(0.03125), size);
        ct_result *r =
            stage_once(engine, &settings, (struct placed[]){{of[0], pose[0], 0}, {of[1], pose[1], 0}}, 2, everything);
        cells += check_cells(r, (uint32_t[]){of[0]->n_vertices, of[1]->n_vertices});
        ct_result_free(&r);
    }
    assert_true(cells > 1000);
    shape_free(&a);
    shape_free(&b);
    shape_free(&c);
}

/* Cells leave every bit of the contacts themselves as it is without them. */
static void contacts_keep_their_bits(void **state) {
    (void)state;
    struct shape a = shape_icosphere(0.5, 3), b = shape_box(1, 1, 1);
    double pose[12];
    shape_pose_axis((double[]){1, 2, 3}, 0.1, (double[]){0.4, 0.3, 0.2}, pose);
    const struct placed bodies[] = {{&a, pose, 0}, {&b, NULL, 0}};
    const ct_scene_settings plain = stage_resolution(48), divided = with_cells(plain, 0.1);
    ct_result *whole = stage_once(engine, &plain, bodies, 2, everything),
              *cut = stage_once(engine, &divided, bodies, 2, everything);
    assert_int_equal(whole->n_cells, 0);
    assert_true(cut->n_cells > 20 && cut->n_contacts == 1);
    ct_contact contact = cut->contacts[0];
    assert_int_equal(contact.n_cells, cut->n_cells);
    contact.n_cells = 0;
    assert_memory_equal(&contact, &whole->contacts[0], sizeof contact);
    assert_memory_equal(cut->vertices, whole->vertices, whole->n_entries * sizeof *whole->vertices);
    assert_memory_equal(cut->gradient, whole->gradient, whole->n_entries * 3 * sizeof *whole->gradient);
    assert_memory_equal(cut->spans, whole->spans, whole->n_spans * sizeof *whole->spans);
    ct_result_free(&whole);
    /* One cell that holds all is the contact. */
    const ct_scene_settings one = with_cells(plain, 64);
    double far[12];
    memcpy(far, pose, sizeof far);
    for (int k = 0; k < 3; k++) far[4 * k + 3] += 8;
    const double shift[12] = {1, 0, 0, 8, 0, 1, 0, 8, 0, 0, 1, 8};
    ct_result *r = stage_once(engine, &one, (struct placed[]){{&a, far, 0}, {&b, shift, 0}}, 2, everything);
    assert_int_equal(r->n_cells, 1);
    ct_contact cell = r->cells[0];
    const ct_contact *pair = r->contacts;
    for (int p = 0; p < 2; p++) {
        const uint64_t n = pair->count[p];
        assert_int_equal(cell.count[p], n);
        assert_memory_equal(r->vertices + cell.first[p], r->vertices + pair->first[p], n * sizeof *r->vertices);
        assert_memory_equal(r->gradient + 3 * cell.first[p], r->gradient + 3 * pair->first[p], 24 * n);
        assert_memory_equal(r->weights + cell.first[p], r->weights + pair->first[p], 8 * n);
        assert_memory_equal(r->forces + 3 * cell.first[p], r->forces + 3 * pair->first[p], 24 * n);
    }
    memcpy(cell.first, pair->first, sizeof cell.first);
    cell.n_spans = pair->n_spans;
    cell.n_cells = 1;
    assert_true(isnan(cell.inverted_volume)); /* not sampled of cells */
    cell.inverted_volume = pair->inverted_volume;
    assert_memory_equal(&cell, pair, sizeof cell);
    ct_result_free(&r);
    ct_result_free(&cut);
    shape_free(&a);
    shape_free(&b);
}

/* ---- closed forms ---- */

/* A box with one corner at the origin. */
static struct shape corner_box(double x, double y, double z) {
    struct shape box = shape_box(x, y, z);
    shape_translate(&box, x / 2, y / 2, z / 2);
    return box;
}

/* Two boxes whose intersection is [0.25, 1] x [0, 1] x [0.5, 1], all on a power of two: every number is exact. */
static void boxes_are_exact(void **state) {
    (void)state;
    struct shape a = corner_box(1, 1, 1);
    const double pose[12] = {1, 0, 0, 0.25, 0, 1, 0, 0, 0, 0, 1, 0.5};
    const ct_scene_settings settings = with_cells(stage_pixel(0.03125), 0.375);
    ct_result *r = stage_once(engine, &settings, (struct placed[]){{&a, NULL, 0}, {&a, pose, 0}}, 2, everything);
    assert_int_equal(r->n_contacts, 1);
    assert_int_equal(r->n_cells, 3 * 3 * 2);
    const double lo[3] = {0.25, 0, 0.5}, hi[3] = {1, 1, 1};
    check_cells(r, (uint32_t[]){a.n_vertices, a.n_vertices});
    for (uint64_t i = 0; i < r->n_cells; i++) {
        const ct_contact *c = &r->cells[i];
        double side[3], exact = 1;
        for (int k = 0; k < 3; k++) {
            side[k] = fmin(hi[k], 0.375 * (c->cell[k] + 1)) - fmax(lo[k], 0.375 * c->cell[k]);
            exact *= side[k];
        }
        /* Moving A along z moves the upper end of all spans along z by as much, and their walls by alpha of that. */
        for (int w = 0; w < 3; w++) {
            assert_true(c->volumes[w] == exact);
            const double across = exact / side[w], moved = w == 1 ? 0 : across * side[w] / (hi[w] - lo[w]);
            assert_float_equal(c->generalized_gradient[0][w], moved, 1e-8 * across);
        }
    }
    ct_result_free(&r);
    shape_free(&a);
}

/* Against exact intersections: a ball in a large box, whose part in a cell is the ball's part in a smaller box. */
static void volumes_are_those_of_the_cubes(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(0.5, 3), block = corner_box(2, 2, 1);
    const double at[12] = {1, 0, 0, 0.53, 0, 1, 0, 0.61, 0, 0, 1, 1.12}, size = 0.25;
    const ct_scene_settings settings = with_cells(stage_resolution(160), size);
    ct_result *r = stage_once(engine, &settings, (struct placed[]){{&ball, at, 0}, {&block, NULL, 0}}, 2, everything);
    assert_true(check_cells(r, (uint32_t[]){ball.n_vertices, block.n_vertices}) > 20);
    long double all = 0;
    for (uint64_t i = 0; i < r->n_cells; i++) {
        const ct_contact *c = &r->cells[i];
        double pose[12] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, side[3];
        for (int k = 0; k < 3; k++) {
            pose[4 * k + 3] = size * c->cell[k];
            side[k] = fmin(size * (c->cell[k] + 1), k == 2 ? 1 : 2) - pose[4 * k + 3];
        }
        struct shape part = corner_box(side[0], side[1], side[2]);
        struct overlap exact = overlap_find((const struct shape *[]){&ball, &part}, (const double *[]){at, pose}, 0);
        /* A ray more or less along the outline of the cube's faces. */
        const double error = 3 * size * size * c->pitch[0];
        assert_float_equal(c->volume, (double)exact.volume, error);
        all += exact.volume;
        overlap_free(&exact);
        shape_free(&part);
    }
    struct overlap whole = overlap_find((const struct shape *[]){&ball, &block}, (const double *[]){at, NULL}, 0);
    assert_float_equal((double)all, (double)whole.volume, 1e-6); /* no cell is missing but slivers */
    overlap_free(&whole);
    ct_result_free(&r);
    shape_free(&ball);
    shape_free(&block);
}

/* ---- walls ---- */

/* How much longer than x the span of the same ray is whose ends are nearly where those of x are; NaN: there is none. */
static double change_of(const ct_result *r, const ct_span *x) {
    for (uint64_t i = 0; i < r->n_spans; i++) {
        const ct_span *y = &r->spans[i];
        bool is_same = y->axis == x->axis;
        for (uint32_t k = 0; k < 3; k++)
            is_same = is_same && (k == x->axis ? fabsf(x->lower[k] - y->lower[k]) < 0.005f &&
                                                     fabsf(x->upper[k] - y->upper[k]) < 0.005f
                                               : x->lower[k] == y->lower[k]);
        const uint32_t w = x->axis;
        if (is_same) return ((double)y->upper[w] - (double)y->lower[w]) - ((double)x->upper[w] - (double)x->lower[w]);
    }
    return NAN;
}

/* Moves vertices of one body along an axis. Rays along it then meet the same triangles, and the ends of their spans
 * move linearly; a wall that cuts a span moves with both. So each cell's gradient times the displacement is the change
 * of what its shares of the spans add up to: taken from the spans themselves. */
static void gradients_follow_the_walls(void **state) {
    (void)state;
    struct shape a = shape_icosphere(0.5, 3), b = shape_torus(0.45, 0.2, 20, 12);
    const double at[12] = {1, 0, 0, 0.21, 0, 1, 0, 0.13, 0, 0, 1, 0.1}, size = 0.11, pixel = 1.0 / 64;
    const ct_scene_settings settings = with_cells(stage_pixel(pixel), size);
    uint64_t rng = 5, cut = 0;
    for (uint32_t w = 0; w < 3; w++) {
        /* The same box, so the same window: the vertices at its ends do not move. */
        double *moved_by = calloc(a.n_vertices, sizeof *moved_by);
        struct shape moved = shape_copy(&a), halfway = shape_copy(&a);
        assert_non_null(moved_by);
        for (uint32_t v = 0; v < a.n_vertices; v++) {
            float *p = moved.positions + 3 * v;
            if (fabsf(p[w]) > 0.45f) continue;
            const float before = p[w];
            p[w] += (float)shape_uniform(&rng, -2e-3, 2e-3);
            moved_by[v] = (double)p[w] - (double)before;
            halfway.positions[3 * v + w] = (before + p[w]) / 2;
        }
        const struct placed before[] = {{&a, at, 0}, {&b, NULL, 0}}, after[] = {{&moved, at, 0}, {&b, NULL, 0}},
                            between[] = {{&halfway, at, 0}, {&b, NULL, 0}};
        ct_result *r = stage_once(engine, &settings, before, 2, everything),
                  *s = stage_once(engine, &settings, after, 2, everything),
                  *h = stage_once(engine, &settings, between, 2, everything);
        assert_true(r->n_contacts == 1 && s->n_contacts == 1);
        double *change = calloc(r->n_cells, sizeof *change), *unmatched_in = calloc(r->n_cells, sizeof *change);
        assert_true(change && unmatched_in);
        uint64_t matched = 0, unmatched = 0;
        for (uint64_t i = 0; i < r->n_spans; i++) {
            const ct_span *x = &r->spans[i];
            if (x->axis != w) continue;
            const double lower = (double)x->lower[w], length = (double)x->upper[w] - lower;
            const double longer = change_of(s, x), halfway_longer = change_of(h, x);
            /* Not linear: a span has vanished, or its end is another body's surface now. */
            const bool is_linear = fabs(longer - 2 * halfway_longer) < 4e-7;
            matched += is_linear;
            unmatched += !is_linear;
            for (uint64_t c = 0; c < r->n_cells; c++) {
                const ct_contact *cell = &r->cells[c];
                bool is_inside = true;
                for (uint32_t k = 0; k < 3; k++)
                    is_inside = is_inside && (k == w || floor((double)x->lower[k] / size) == cell->cell[k]);
                const double from = fmax(0, (size * cell->cell[w] - lower) / length),
                             to = fmin(1, (size * (cell->cell[w] + 1) - lower) / length);
                if (!is_inside || to <= from) continue;
                cut += to - from < 1;
                if (is_linear)
                    change[c] += (to - from) * longer * pixel * pixel;
                else
                    unmatched_in[c]++;
            }
        }
        assert_true(50 * unmatched < matched);
        assert_true(matched > 100);
        for (uint64_t c = 0; c < r->n_cells; c++) {
            const ct_contact *cell = &r->cells[c];
            double along = 0, most = 0;
            for (uint64_t e = cell->first[0]; e < cell->first[0] + cell->count[0]; e++) {
                along += r->gradient[3 * e + w] * moved_by[r->vertices[e]];
                most += fabs(r->gradient[3 * e + w] * moved_by[r->vertices[e]]);
            }
            /* float32 ends of spans: 2^-24 of a metre each */
            assert_float_equal(change[c], along,
                               1e-4 * most + (256 * 0x1p-23 + unmatched_in[c] * 4e-3) * pixel * pixel);
        }
        free(change);
        free(unmatched_in);
        free(moved_by);
        ct_result_free(&r);
        ct_result_free(&s);
        ct_result_free(&h);
        shape_free(&moved);
        shape_free(&halfway);
    }
    assert_true(cut > 1000);
    shape_free(&a);
    shape_free(&b);
}

/* ---- bits ---- */

static void hash_on(uint32_t threads, const char *simd, const ct_scene_settings *settings, const struct placed *bodies,
                    int n, uint32_t want, char hex[33]) {
    ct_engine *on = stage_engine(threads, simd);
    ct_result *r = stage_once(on, settings, bodies, n, want);
    assert_true(r->n_cells > 0);
    stage_hash(r, hex);
    ct_result_free(&r);
    ct_engine_destroy(&on);
}

static void bits_do_not_depend_on_threads_and_simd(void **state) {
    (void)state;
    struct shape a = shape_blob(0.5, 5, 0.3, 5), b = shape_torus(0.4, 0.2, 96, 48), c = shape_cube(0.8, 12);
    double pose[12];
    shape_pose_axis((double[]){1, 0.5, 0.2}, 0.07, (double[]){0.3, 0.2, 0.1}, pose);
    const struct placed bodies[] = {{&a, pose, 0}, {&b, NULL, CT_BODY_DEFORMABLE}, {&c, NULL, 0}};
    const struct {
        ct_scene_settings settings;
        uint32_t want;
    } cases[] = {{with_cells(stage_resolution(128), 0.07), CT_WANT_ALL},
                 {with_cells(stage_pixel(0.01), 0.05), CT_WANT_ALL},
                 {with_cells(stage_resolution(96), 0.11), 0},
                 {with_cells(stage_resolution(64), 0.2), everything},
                 {with_cells(stage_resolution(4), 0.008), CT_WANT_ALL}}; /* a hundred walls in a span */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char first[33], hex[33];
        hash_on(1, "base", &cases[i].settings, bodies, 3, cases[i].want, first);
        const uint32_t threads[] = {1, 2, 7};
        for (size_t t = 0; t < 3; t++) {
            hash_on(threads[t], NULL, &cases[i].settings, bodies, 3, cases[i].want, hex);
            assert_string_equal(hex, first);
            hash_on(threads[t], "base", &cases[i].settings, bodies, 3, cases[i].want, hex);
            assert_string_equal(hex, first);
        }
    }
    shape_free(&a);
    shape_free(&b);
    shape_free(&c);
}

/* The order of triangles and of bodies. */
static void bits_do_not_depend_on_order(void **state) {
    (void)state;
    uint64_t rng = 3;
    struct shape a = shape_blob(0.5, 3, 0.3, 9), b = shape_torus(0.4, 0.2, 24, 12);
    const double pose[12] = {1, 0, 0, 0.2, 0, 1, 0, 0.1, 0, 0, 1, 0.15};
    const ct_scene_settings settings = with_cells(stage_resolution(64), 0.1);
    ct_result *r = stage_once(engine, &settings, (struct placed[]){{&a, pose, 0}, {&b, NULL, 0}}, 2, everything);
    ct_result *swapped = stage_once(engine, &settings, (struct placed[]){{&b, NULL, 0}, {&a, pose, 0}}, 2, everything);
    struct shape c = shape_copy(&a);
    shape_shuffle(&c, &rng);
    ct_result *shuffled = stage_once(engine, &settings, (struct placed[]){{&c, pose, 0}, {&b, NULL, 0}}, 2, everything);
    assert_int_equal(swapped->n_cells, r->n_cells);
    assert_int_equal(shuffled->n_cells, r->n_cells);
    for (uint64_t i = 0; i < r->n_cells; i++) {
        const ct_contact *x = &r->cells[i], *y = &swapped->cells[i], *z = &shuffled->cells[i];
        assert_memory_equal(x->cell, y->cell, sizeof x->cell);
        assert_true(x->volume == y->volume && x->area == y->area && x->depth == y->depth);
        assert_memory_equal(x->generalized_gradient[0], y->generalized_gradient[1], 48);
        assert_memory_equal(x->generalized_gradient[1], y->generalized_gradient[0], 48);
        assert_memory_equal(x->center, y->center, sizeof x->center);
        assert_true(x->volume == z->volume && x->count[1] == z->count[1]);
        /* A third of a weight is rounded, and the third corner gets the rest: which one is third depends on the order
         * in which corners are given. */
        for (int k = 0; k < 6; k++)
            assert_float_equal(x->generalized_gradient[0][k], z->generalized_gradient[0][k], 1e-9);
    }
    ct_result_free(&r);
    ct_result_free(&swapped);
    ct_result_free(&shuffled);
    shape_free(&a);
    shape_free(&b);
    shape_free(&c);
}

/* Without a gradient, cells have the same volumes. */
static void volumes_need_no_gradient(void **state) {
    (void)state;
    struct shape a = shape_icosphere(0.5, 3);
    const double pose[12] = {1, 0, 0, 0.3, 0, 1, 0, 0.2, 0, 0, 1, 0.4};
    const ct_scene_settings settings = with_cells(stage_resolution(50), 0.09);
    const struct placed bodies[] = {{&a, NULL, 0}, {&a, pose, 0}};
    ct_result *all = stage_once(engine, &settings, bodies, 2, everything),
              *r = stage_once(engine, &settings, bodies, 2, 0);
    assert_true(all->n_cells > 50 && r->n_cells == all->n_cells && !r->vertices);
    for (uint64_t i = 0; i < r->n_cells; i++) {
        assert_memory_equal(r->cells[i].volumes, all->cells[i].volumes, sizeof r->cells[i].volumes);
        assert_memory_equal(r->cells[i].cell, all->cells[i].cell, sizeof r->cells[i].cell);
        assert_true(r->cells[i].volume == all->cells[i].volume && r->cells[i].count[0] == 0 && r->cells[i].area == 0);
    }
    ct_result_free(&all);
    ct_result_free(&r);
    shape_free(&a);
}

/* Rays are coarser than cells here, and every wall lies on a sample or on a face. */
static void walls_may_lie_on_samples(void **state) {
    (void)state;
    struct shape a = corner_box(1, 1, 1);
    const double pose[12] = {1, 0, 0, 0.5, 0, 1, 0, 0.5, 0, 0, 1, 0.5};
    const ct_scene_settings settings = with_cells(stage_pixel(0.25), 0.0625);
    ct_result *r = stage_once(engine, &settings, (struct placed[]){{&a, NULL, 0}, {&a, pose, 0}}, 2, everything);
    check_cells(r, (uint32_t[]){a.n_vertices, a.n_vertices});
    for (uint64_t i = 0; i < r->n_cells; i++) {
        const ct_contact *c = &r->cells[i];
        /* Samples are at 0.625 and 0.875: on walls, so in the cells above them, numbers 10 and 14. */
        for (int w = 0; w < 3; w++) {
            const int u = c->cell[(w + 1) % 3], v = c->cell[(w + 2) % 3];
            const bool has_ray = (u == 10 || u == 14) && (v == 10 || v == 14);
            assert_true(c->volumes[w] == (has_ray ? 0.25 * 0.25 * 0.0625 : 0));
        }
    }
    ct_result_free(&r);
    shape_free(&a);
}

/* ---- a body with itself ---- */

static void a_body_with_itself_has_cells(void **state) {
    (void)state;
    struct shape a = shape_icosphere(0.5, 3), b = shape_cube(0.8, 4);
    shape_translate(&b, 0.31, 0.22, 0.4);
    struct shape both = shape_merge(&a, &b);
    const ct_scene_settings settings = with_cells(stage_pixel(0.02), 0.1);
    ct_result *pair = stage_once(engine, &settings, (struct placed[]){{&a, NULL, 0}, {&b, NULL, 0}}, 2, everything),
              *self =
                  stage_once(engine, &settings, (struct placed[]){{&both, NULL, 0, .self_contact = 1}}, 1, everything);
    check_cells(self, (uint32_t[]){both.n_vertices, both.n_vertices});
    assert_int_equal(self->n_cells, pair->n_cells);
    assert_true(self->n_cells > 40);
    for (uint64_t i = 0; i < self->n_cells; i++) {
        const ct_contact *x = &self->cells[i], *y = &pair->cells[i];
        assert_memory_equal(x->cell, y->cell, sizeof x->cell);
        /* The lattice is another one, as its window is the whole body's box. */
        for (int w = 0; w < 3; w++) assert_float_equal(x->volumes[w], y->volumes[w], 1e-9);
        const int same = x->generalized_gradient[0][0] * y->generalized_gradient[0][0] +
                             x->generalized_gradient[0][1] * y->generalized_gradient[0][1] +
                             x->generalized_gradient[0][2] * y->generalized_gradient[0][2] >
                         0;
        for (int k = 0; k < 3; k++)
            assert_float_equal(x->generalized_gradient[0][k], y->generalized_gradient[!same][k], 1e-5);
    }
    ct_result_free(&pair);
    ct_result_free(&self);
    shape_free(&a);
    shape_free(&b);
    shape_free(&both);
}

/* ---- refusals ---- */

static void bad_settings_are_refused(void **state) {
    (void)state;
    const double bad[] = {-1, NAN, INFINITY, -INFINITY, 1e-31, 1e31};
    ct_scene *scene;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const ct_scene_settings settings = with_cells(stage_resolution(16), bad[i]);
        ct_error error = {0};
        assert_int_equal(ct_scene_create(engine, &settings, &scene, &error),
                         isfinite(bad[i]) ? CT_OUT_OF_RANGE : CT_NON_FINITE);
        assert_string_equal(error.field, "cell_size");
    }
    ct_error error = {0};
    ct_scene_settings settings = with_cells(stage_exact(), 0.1);
    assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_INVALID_ARGUMENT);
    assert_string_equal(error.field, "cell_size");
    assert_non_null(strstr(error.message, "exact"));
    ct_scene_settings_init(&settings);
    settings.cell_size = 0.1;
    settings.patches = true;
    error = (ct_error){0};
    assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_INVALID_ARGUMENT);
    assert_string_equal(error.field, "cell_size");
    /* AUTO runs LDI. */
    settings.patches = false;
    error = (ct_error){0};
    assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_OK);
    ct_scene_settings running;
    ct_scene_get_running(scene, &running);
    assert_int_equal(running.method, CT_METHOD_LDI);
    assert_int_equal(running.resolution[0], CT_DEFAULT_RESOLUTION);
    assert_true(running.cell_size == 0.1);
    ct_scene_destroy(&scene);
}

static ct_error step_error(ct_engine *on, const ct_scene_settings *settings, const struct placed *bodies) {
    struct stage stage = stage_open(on, settings, bodies, 2);
    ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL};
    const ct_status status = ct_engine_run(on, &step, 1);
    assert_true(status == step.error.status && status && !step.result);
    /* The scene goes on. */
    ct_scene_settings larger = *settings;
    larger.cell_size = 100;
    assert_int_equal(ct_scene_configure(stage.scene, &larger, NULL), CT_OK);
    ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    assert_true(r->n_cells >= 1);
    ct_result_free(&r);
    stage_close(&stage);
    return step.error;
}

static void too_many_cells_are_refused(void **state) {
    (void)state;
    struct shape a = corner_box(1, 1, 1);
    const double pose[12] = {1, 0, 0, 0.5, 0, 1, 0, 0.5, 0, 0, 1, 0.5};
    const struct placed bodies[] = {{&a, NULL, 0}, {&a, pose, 0}};
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = "cpu";
    options.max_cells = CT_MAX_CELLS + 1;
    ct_engine *small;
    assert_int_equal(ct_engine_create(&options, &small, NULL), CT_OUT_OF_RANGE);
    for (uint32_t threads = 1; threads < 4; threads++) {
        options.threads = threads;
        options.max_cells = 64;
        assert_int_equal(ct_engine_create(&options, &small, NULL), CT_OK);
        const ct_scene_settings fits = with_cells(stage_resolution(64), 0.125);
        ct_result *r = stage_once(small, &fits, bodies, 2, CT_WANT_ALL);
        assert_int_equal(r->n_cells, 64);
        ct_result_free(&r);
        ct_scene_settings settings = with_cells(stage_resolution(64), 0.0625);
        ct_error error = step_error(small, &settings, bodies);
        assert_int_equal(error.status, CT_LIMIT_EXCEEDED);
        assert_string_equal(error.field, "cell_size");
        assert_non_null(strstr(error.message, "bodies 1 and 2"));
        assert_non_null(strstr(error.message, "which 512 hold"));
        assert_non_null(strstr(error.message, "at most 64"));
        settings = with_cells(stage_resolution(512), 0.5 / 64);
        error = step_error(small, &settings, bodies);
        assert_int_equal(error.status, CT_LIMIT_EXCEEDED);
        assert_non_null(strstr(error.message, "more than 1024 hold"));
        ct_engine_destroy(&small);
    }
    ct_scene_settings settings = with_cells(stage_resolution(16), 1e-4);
    ct_error error = step_error(engine, &settings, bodies);
    assert_int_equal(error.status, CT_LIMIT_EXCEEDED);
    assert_non_null(strstr(error.message, "bodies 1 and 2"));
    assert_non_null(strstr(error.message, "4096"));
    const double far[2][12] = {{1, 0, 0, 0, 0, 1, 0, 1e7, 0, 0, 1, 0}, {1, 0, 0, 0.5, 0, 1, 0, 1e7, 0, 0, 1, 0.5}};
    settings = with_cells(stage_resolution(16), 0.001);
    error = step_error(engine, &settings, (struct placed[]){{&a, far[0], 0}, {&a, far[1], 0}});
    assert_int_equal(error.status, CT_OUT_OF_RANGE);
    assert_non_null(strstr(error.message, "bodies 1 and 2"));
    shape_free(&a);
}

/* Whatever the scratch limit, a step either fits or says that it does not; and a step that fits has its own bits. */
static void memory_may_run_short(void **state) {
    (void)state;
    struct shape a = shape_blob(0.5, 3, 0.3, 9);
    const double pose[12] = {1, 0, 0, 0.2, 0, 1, 0, 0.1, 0, 0, 1, 0.15};
    const struct placed bodies[] = {{&a, NULL, 0}, {&a, pose, 0}};
    const ct_scene_settings settings = with_cells(stage_resolution(64), 0.06);
    char expected[33];
    hash_on(2, NULL, &settings, bodies, 2, CT_WANT_ALL, expected);
    const struct scratch_limits limits = {.first = 1 << 16, .more = 1 << 16, .n_steps = 2};
    check_scratch_limits(engine, &limits, "working memory", &settings, bodies, 2, CT_WANT_ALL, expected);
    shape_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_sum_to_the_pair),
        cmocka_unit_test(contacts_keep_their_bits),
        cmocka_unit_test(boxes_are_exact),
        cmocka_unit_test(volumes_are_those_of_the_cubes),
        cmocka_unit_test(gradients_follow_the_walls),
        cmocka_unit_test(bits_do_not_depend_on_threads_and_simd),
        cmocka_unit_test(bits_do_not_depend_on_order),
        cmocka_unit_test(volumes_need_no_gradient),
        cmocka_unit_test(walls_may_lie_on_samples),
        cmocka_unit_test(a_body_with_itself_has_cells),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(too_many_cells_are_refused),
        cmocka_unit_test(memory_may_run_short),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
