/* test_compact.c - moments, entries and barycentres computed from sums with every instruction set, against the plain
 * arithmetic of frame_k.h: parts of several threads, vertices of some groups only, and numbers at and beyond the range
 * of the SIMD path. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/contact/compact_cpu.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

static const ct_compact_cpu *sets[2];
static int n_sets;

static void find_sets(void) {
    sets[n_sets++] = &ct_compact_cpu_base;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        sets[n_sets++] = &ct_compact_cpu_avx2;
#endif
}

enum {
    MAX_VERTICES = 3000,
    PADDED = (MAX_VERTICES + CT_VERTEX_BLOCK - 1) / CT_VERTEX_BLOCK * CT_VERTEX_BLOCK,
    THREADS = 4,
    BODY = 1
};

static int64_t sums[THREADS][3][PADDED];
static uint8_t touched[THREADS][PADDED / CT_VERTEX_GROUP];
static ct_coords coords[PADDED];

static int64_t total[PADDED][3]; /* of all parts */

static void clear_all(void) {
    memset(sums, 0, sizeof sums);
    memset(touched, 0, sizeof touched);
    memset(total, 0, sizeof total);
    memset(coords, 0, sizeof coords);
}

static void add(int part, size_t vertex, int w, int64_t weight) {
    sums[part][w][vertex] += weight;
    total[vertex][w] += weight;
    touched[part][vertex / CT_VERTEX_GROUP] = 1;
}

struct outcome {
    size_t count;
    ct_moments moments;
    ct_barycentre barycentre;
    uint32_t vertices[PADDED];
    double gradient[3 * PADDED], weights[PADDED], forces[3 * PADDED];
};

/* One vertex after the other. */
static void scalar(const ct_entry_scaling *scaling, size_t first, size_t end, size_t at, struct outcome *o) {
    for (size_t v = first; v < end; v++) {
        ct_moments_add(&o->moments, coords[v], total[v]);
        ct_barycentre_add(&o->barycentre, scaling->contact, scaling->has_normal, scaling->barycentre_scale,
                          &scaling->units, coords[v], total[v]);
        if (!total[v][0] && !total[v][1] && !total[v][2]) continue;
        const size_t i = at + o->count++;
        o->vertices[i] = (uint32_t)v;
        ct_frame_gradient(&scaling->units, total[v], &o->gradient[3 * i]);
        o->weights[i] = ct_frame_friction(scaling->contact, &o->gradient[3 * i]);
        for (int k = 0; k < 3; k++) o->forces[3 * i + k] = scaling->pressure * o->gradient[3 * i + k];
    }
}

static void assert_same_moments(const ct_moments *a, const ct_moments *b) {
    for (int i = 0; i < 3; i++) {
        assert_true(a->force[i] == b->force[i]);
        for (int j = 0; j < 3; j++) assert_true(a->moment[i][j] == b->moment[i][j]);
    }
}

static void assert_same_barycentre(const ct_barycentre *a, const ct_barycentre *b) {
    assert_true(a->sum == b->sum);
    assert_true(a->sum_abs == b->sum_abs);
    for (int i = 0; i < 3; i++) {
        assert_true(a->first[i] == b->first[i]);
        assert_true(a->first_abs[i] == b->first_abs[i]);
    }
}

/* Vertices [first, end) of what add() left, against scalar(). `want`: bits for gradient, weights and forces; 8 for
 * entries at all. Nothing may be written beside the entries. */
static void check(const ct_compact_cpu *set, uint32_t n_threads, size_t first, size_t end,
                  const ct_entry_scaling *scaling, unsigned want) {
    static struct outcome expected, got;
    const size_t at = first / 2;
    memset(&expected, 0x5a, sizeof expected);
    memset(&got, 0x5a, sizeof got);
    expected.count = 0;
    memset(&expected.moments, 0, sizeof expected.moments);
    memset(&expected.barycentre, 0, sizeof expected.barycentre);
    got.moments = expected.moments;
    got.barycentre = expected.barycentre;
    expected.moments.force[2] = got.moments.force[2] = 77; /* added to */
    expected.barycentre.sum = got.barycentre.sum = -5;
    scalar(scaling, first, end, at, &expected);

    ct_contact_sums of_thread[THREADS], *pointers[THREADS];
    for (int p = 0; p < THREADS; p++) {
        memset(&of_thread[p], 0, sizeof of_thread[p]);
        for (int w = 0; w < 3; w++) of_thread[p].gradient[BODY][w] = sums[p][w];
        of_thread[p].touched[BODY] = touched[p];
        pointers[p] = &of_thread[p];
    }
    const ct_partial_sums partial = {pointers, n_threads, BODY, (const ct_coords *)coords};
    got.count = set->reduce_sums(&partial, first, end, &got.moments);
    assert_int_equal(got.count, expected.count);
    assert_same_moments(&got.moments, &expected.moments);
    const ct_entry_arrays to = {want & 8 ? got.vertices : NULL, want & 1 ? got.gradient : NULL,
                                want & 2 ? got.weights : NULL, want & 4 ? got.forces : NULL};
    set->write_entries(&partial, first, end, scaling, &got.barycentre, &to, at, got.count);
    assert_same_barycentre(&got.barycentre, &expected.barycentre);
    if (want & 8) assert_same_bytes(got.vertices, expected.vertices, sizeof got.vertices);
    if (want & 1) assert_same_bytes(got.gradient, expected.gradient, sizeof got.gradient);
    if (want & 2) assert_same_bytes(got.weights, expected.weights, sizeof got.weights);
    if (want & 4) assert_same_bytes(got.forces, expected.forces, sizeof got.forces);
    for (uint32_t p = 0; p < n_threads; p++) {
        for (size_t v = first; v < end; v++)
            for (int w = 0; w < 3; w++) assert_int_equal(sums[p][w][v], 0);
        for (size_t g = first / CT_VERTEX_GROUP; g < end / CT_VERTEX_GROUP; g++) assert_int_equal(touched[p][g], 0);
    }
}

static int64_t random_bits(uint64_t *rng, int most) {
    const int bits = 1 + (int)(shape_random(rng) % (uint64_t)most);
    const int64_t size = (int64_t)(shape_random(rng) >> (64 - bits));
    return shape_random(rng) & 1 ? size : -size;
}

/* Any numbers, in any groups, in one to four parts; all at once and in two halves. */
static void test_random(void **state) {
    (void)state;
    uint64_t rng = 5;
    for (int round = 0; round < (UNIT_RACES_ONLY ? 0 : 400); round++) {
        const size_t n = 1 + shape_random(&rng) % (round % 4 ? 300 : MAX_VERTICES),
                     density = 1 + shape_random(&rng) % 40;
        const size_t padded = (n + CT_VERTEX_BLOCK - 1) / CT_VERTEX_BLOCK * CT_VERTEX_BLOCK,
                     middle = padded / 2 / CT_VERTEX_BLOCK * CT_VERTEX_BLOCK;
        const uint32_t n_threads = 1 + (uint32_t)(shape_random(&rng) % THREADS);
        const int most = (int[]){20, 40, 48, 60}[round % 4], of_coords = round % 3 ? 29 : 31;
        ct_contact contact;
        memset(&contact, 0, sizeof contact);
        const int has_normal = round % 5 > 0;
        for (int k = 0; has_normal && k < 3; k++) contact.normal[k] = shape_uniform(&rng, -1, 1);
        ct_entry_scaling scaling = {
            .contact = &contact, .has_normal = has_normal, .pressure = shape_uniform(&rng, -9, 9)};
        for (int k = 0; k < 3; k++) scaling.units.of[k] = ldexp(shape_uniform(&rng, 0.5, 1), -30);
        /* The largest weights: of 47 bits or so, where those that are added up four at a time end, or less, or more. */
        scaling.barycentre_scale = ldexp(shape_uniform(&rng, 0.5, 1), 30 + 46 + (round / 4 % 3 - 1) * 6 - most);
        for (int s = 0; s < n_sets; s++) {
            uint64_t same = rng + (uint64_t)round; /* for both sets */
            clear_all();
            for (size_t v = 0; v < padded; v++) {
                for (int k = 0; k < 3; k++) coords[v][k] = (int32_t)random_bits(&same, of_coords);
                if (v >= n || shape_random(&same) % density) continue;
                for (uint32_t p = 0; p < n_threads; p++)
                    for (int w = 0; w < 3; w++)
                        if (shape_random(&same) % 2) add((int)p, v, w, random_bits(&same, most) / n_threads);
                if (shape_random(&same) % 4 == 0) /* nothing is left of it, though it is marked */
                    for (int w = 0; w < 3; w++) add(0, v, w, -total[v][w]);
            }
            const unsigned want = round % 8 ? 15 : (unsigned)(shape_random(&same) % 16) | 8;
            if (round % 2) {
                check(sets[s], n_threads, 0, middle, &scaling, want);
                check(sets[s], n_threads, middle, padded, &scaling, want);
            } else {
                check(sets[s], n_threads, 0, padded, &scaling, round % 16 == 6 ? 0 : want);
            }
        }
    }
}

/* All vertices, with the largest weights and coordinates that there are in the range, or the first beyond it. */
static void test_extremes(void **state) {
    (void)state;
    const int64_t end = (int64_t)1 << 47;
    const int64_t weights[] = {end - 1,         -end,          end,        -end - 1,
                               end - (1 << 24), (1 << 24) - 1, -(1 << 24), INT64_MAX >> 8};
    const int32_t positions[] = {INT32_MAX, INT32_MIN, -INT32_MAX, 1};
    ct_contact contact;
    memset(&contact, 0, sizeof contact);
    contact.normal[2] = 1;
    /* With these, what counts in the barycentre is the sum of view 2 itself. */
    const ct_entry_scaling scaling = {{{1, 1, 1}}, &contact, 1, 1, 3};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        for (size_t k = 0; k < sizeof positions / sizeof *positions; k++)
            for (int s = 0; s < n_sets; s++) {
                clear_all();
                for (size_t v = 0; v < MAX_VERTICES; v++) {
                    for (int w = 0; w < 3; w++) {
                        coords[v][w] = positions[k];
                        add(0, v, w, weights[i]);
                    }
                }
                check(sets[s], 1, 0, PADDED, &scaling, 15);
            }
}

/* One vertex is beyond the range and its neighbours are not. */
static void test_one_beyond(void **state) {
    (void)state;
    ct_contact contact;
    memset(&contact, 0, sizeof contact);
    contact.normal[0] = 0.25;
    const ct_entry_scaling scaling = {{{1, 1, 1}}, &contact, 1, 4, 3};
    for (int s = 0; s < n_sets; s++)
        for (int w = 0; w < 3; w++)
            for (size_t v = 0; v < 3 * CT_VERTEX_BLOCK; v++) {
                clear_all();
                for (size_t i = 0; i < 3 * CT_VERTEX_BLOCK; i++) {
                    coords[i][w] = (int32_t)(1000 + i);
                    for (int k = 0; k < 3; k++) add(0, i, k, (int64_t)(i + 1) << 30);
                }
                add(0, v, w, (int64_t)1 << 52);
                check(sets[s], 1, 0, 3 * CT_VERTEX_BLOCK, &scaling, 15);
            }
}

int main(void) {
    find_sets();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_extremes),
                                       cmocka_unit_test(test_one_beyond)};
    return cmocka_run_group_tests_name("compact", tests, NULL, NULL);
}
