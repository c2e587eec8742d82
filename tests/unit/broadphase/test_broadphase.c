/* test_broadphase.c - the broad phase against testing all pairs; its filters; the number of box tests; limits, and runs
 * that are cancelled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/scene/broadphase.h"

static uint64_t rng_state;
static double uniform(void) { /* splitmix64, 0..1 */
    uint64_t z = rng_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static ct_broad_body body_at(double x, double y, double z, double sx, double sy, double sz) {
    return (ct_broad_body){{{x - sx / 2, y - sy / 2, z - sz / 2}, {x + sx / 2, y + sy / 2, z + sz / 2}}, 1, ~0u};
}

static bool overlap(const ct_box *a, const ct_box *b) {
    for (int i = 0; i < 3; i++)
        if (!(fmax(a->lo[i], b->lo[i]) < fmin(a->hi[i], b->hi[i]))) return false;
    return true;
}

/* Compares with the plain double loop; gives the number of pairs. */
static size_t check(ct_broadphase *broad, const ct_broad_body *bodies, size_t n, const uint64_t *ignored,
                    size_t n_ignored) {
    assert_int_equal(ct_broadphase_run(broad, bodies, n, ignored, n_ignored, NULL), CT_OK);
    size_t k = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i; j < n; j++) {
            const bool itself = i == j;
            if (itself && !bodies[i].meets_itself) continue;
            bool skip = !itself && (!(bodies[i].group & bodies[j].mask) || !(bodies[j].group & bodies[i].mask));
            for (size_t m = 0; m < n_ignored && !skip && !itself; m++) skip = ignored[m] == ct_pair_key(i, j);
            if (skip || !overlap(&bodies[i].box, &bodies[j].box)) continue;
            assert_true(k < broad->n_pairs);
            assert_int_equal(broad->pairs[k].a, i);
            assert_int_equal(broad->pairs[k].b, j);
            k++;
        }
    assert_int_equal(broad->n_pairs, k);
    return k;
}

static void test_nothing(void **state) {
    (void)state;
    ct_broadphase broad = {0};
    ct_broad_body one = body_at(0, 0, 0, 1, 1, 1);
    check(&broad, NULL, 0, NULL, 0);
    check(&broad, &one, 1, NULL, 0);
    ct_broad_body empty[3] = {one, one, one};
    empty[1].box.hi[1] = empty[1].box.lo[1];
    empty[2].box.lo[0] = INFINITY;
    empty[2].box.hi[0] = -INFINITY;
    check(&broad, empty, 3, NULL, 0);
    assert_int_equal(broad.n_pairs, 0);
    ct_broadphase_free(&broad);
    ct_broadphase_free(&broad);
}

static void test_touching_is_no_pair(void **state) {
    (void)state;
    ct_broadphase broad = {0};
    for (int axis = 0; axis < 3; axis++) {
        double at[3] = {0, 0, 0};
        at[axis] = 1;
        ct_broad_body pair[2] = {body_at(0, 0, 0, 1, 1, 1), body_at(at[0], at[1], at[2], 1, 1, 1)};
        assert_int_equal(check(&broad, pair, 2, NULL, 0), 0);
        pair[0].box.hi[axis] = nextafter(pair[0].box.hi[axis], 1);
        assert_int_equal(check(&broad, pair, 2, NULL, 0), 1);
    }
    ct_broadphase_free(&broad);
}

static void test_filters(void **state) {
    (void)state;
    ct_broadphase broad = {0};
    ct_broad_body bodies[5];
    for (int i = 0; i < 5; i++) bodies[i] = body_at(0.1 * i, 0, 0, 1, 1, 1);
    assert_int_equal(check(&broad, bodies, 5, NULL, 0), 10);
    const uint64_t ignored[] = {ct_pair_key(2, 0), ct_pair_key(1, 3), ct_pair_key(1, 3), ct_pair_key(4, 3)};
    assert_int_equal(check(&broad, bodies, 5, ignored, 4), 7);
    bodies[4].group = 2;
    for (int i = 0; i < 4; i++) bodies[i].mask = 1; /* one side refusing is enough */
    assert_int_equal(check(&broad, bodies, 5, ignored, 4), 4);
    bodies[0].mask = 0;
    assert_int_equal(check(&broad, bodies, 5, NULL, 0), 3);
    bodies[0].meets_itself = bodies[3].meets_itself = true; /* whatever the masks say */
    assert_int_equal(check(&broad, bodies, 5, NULL, 0), 5);
    assert_int_equal(check(&broad, bodies, 1, NULL, 0), 1); /* a body alone */
    bodies[0].box.hi[1] = bodies[0].box.lo[1];
    assert_int_equal(check(&broad, bodies, 1, NULL, 0), 0);
    ct_broadphase_free(&broad);
}

static void test_random_scenes(void **state) {
    (void)state;
    ct_broadphase broad = {0};
    rng_state = 7;
    enum { MAX = 300 };
    static ct_broad_body bodies[MAX];
    size_t pairs = 0;
    for (int scene = 0; scene < 300; scene++) {
        size_t n = 2 + (size_t)(uniform() * (MAX - 2));
        double spread[3], offset = scene % 5 == 4 ? 1e7 : 0;
        for (int i = 0; i < 3; i++) spread[i] = uniform() < 0.3 ? 0 : pow(10, 3 * uniform() - 1);
        bool lattice = scene % 3 == 0; /* many equal coordinates and touching boxes */
        uint64_t ignored[8];
        for (size_t i = 0; i < n; i++) {
            double at[3], size[3], big = uniform() < 0.02 ? 100 : 1;
            for (int k = 0; k < 3; k++) {
                at[k] = spread[k] * uniform() + offset;
                size[k] = big * (0.1 + uniform());
                if (lattice) at[k] = floor(at[k]), size[k] = ceil(size[k] * 2) / 2;
            }
            bodies[i] = body_at(at[0], at[1], at[2], size[0], size[1], size[2]);
            bodies[i].group = 1u << (int)(3 * uniform());
            bodies[i].mask = uniform() < 0.5 ? ~0u : (uint32_t)(8 * uniform());
            bodies[i].meets_itself = scene % 4 == 1 && uniform() < 0.3;
        }
        for (int i = 0; i < 8; i++) {
            uint32_t a = (uint32_t)(uniform() * (double)(n - 1)), b = a + 1;
            uint64_t key = ct_pair_key(a, b);
            int k = i;
            for (; k > 0 && ignored[k - 1] > key; k--) ignored[k] = ignored[k - 1];
            ignored[k] = key;
        }
        pairs += check(&broad, bodies, n, ignored, 8);
    }
    assert_true(pairs > 10000);
    ct_broadphase_free(&broad);
}

enum { N = 1000 };
static void few_tests(const char *name, ct_broad_body *bodies, uint64_t at_most) {
    ct_broadphase broad = {0};
    check(&broad, bodies, N, NULL, 0);
    print_message("%s: %llu box tests, %zu pairs\n", name, (unsigned long long)broad.box_tests, broad.n_pairs);
    if (broad.box_tests > at_most)
        fail_msg("%s: %llu box tests for %zu pairs, expected at most %llu", name, (unsigned long long)broad.box_tests,
                 broad.n_pairs, (unsigned long long)at_most);
    size_t bytes = broad.bytes;
    check(&broad, bodies, N, NULL, 0);
    assert_int_equal(broad.bytes, bytes); /* a second call needs no more memory */
    ct_broadphase_free(&broad);
}

static void test_few_box_tests(void **state) {
    (void)state;
    static ct_broad_body bodies[N];
    for (int axis = 0; axis < 3; axis++) {
        for (int i = 0; i < N; i++) {
            double at[3] = {0, 0, 0};
            at[axis] = 0.95 * i;
            bodies[i] = body_at(at[0], at[1], at[2], 1, 1, 1);
        }
        few_tests("stack", bodies, 2000);
        for (int i = 0; i < N; i++) {
            double at[3] = {0, 0, 0};
            at[(axis + 1) % 3] = 0.95 * (i % 32);
            at[(axis + 2) % 3] = 0.95 * (i / 32);
            bodies[i] = body_at(at[0], at[1], at[2], 1, 1, 1);
        }
        few_tests("plane", bodies, 20000);
    }
    for (int i = 0; i < N; i++) bodies[i] = body_at(i % 10, i / 10 % 10, i / 100, 1.1, 1.1, 1.1);
    few_tests("pile", bodies, 60000);
    bodies[0] = body_at(5, 5, -1, 1000, 1000, 2);
    few_tests("pile on a ground", bodies, 60000);
    bodies[1] = body_at(1e6, 1e6, 1e6, 1, 1, 1);
    few_tests("pile on a ground and a lost body", bodies, 60000);
}

/* All bodies overlap all others. */
static ct_broad_body *make_heap(size_t n) {
    ct_broad_body *bodies = malloc(n * sizeof *bodies);
    for (size_t i = 0; i < n; i++) bodies[i] = body_at(uniform(), uniform(), uniform(), 3, 3, 3);
    return bodies;
}

static void test_most_pairs(void **state) {
    (void)state;
    enum { BODIES = 100, PAIRS = BODIES * (BODIES - 1) / 2 };
    ct_broad_body *bodies = make_heap(BODIES);
    ct_broadphase broad = {.most_pairs = PAIRS};
    assert_int_equal(check(&broad, bodies, BODIES, NULL, 0), PAIRS);
    broad.most_pairs = PAIRS - 1;
    ct_error error = {0};
    assert_int_equal(ct_broadphase_run(&broad, bodies, BODIES, NULL, 0, &error), CT_LIMIT_EXCEEDED);
    assert_non_null(strstr(error.message, "4949 pairs"));
    assert_true(broad.n_pairs == 0 && !broad.pairs);
    broad.most_pairs = 0;
    assert_int_equal(check(&broad, bodies, BODIES, NULL, 0), PAIRS);
    ct_broadphase_free(&broad);
    free(bodies);
}

/* Wherever it is cancelled, it says how many pairs it had, and the next call finds them all. */
static void test_cancelled(void **state) {
    (void)state;
    enum { BODIES = 1000, PAIRS = BODIES * (BODIES - 1) / 2 };
    ct_broad_body *bodies = make_heap(BODIES);
    ct_broadphase broad = {0};
    int n_counted = 0, n_polls = 0;
    for (uint64_t poll = 1;; poll += 1 + poll / 8, n_polls++) {
        ct_cancel cancel;
        ct_cancel_init(&cancel, 0);
        cancel.at_poll = poll;
        ct_error error = {0};
        ct_cancel *const before = ct_cancel_scope(&cancel);
        const ct_status status = ct_broadphase_run(&broad, bodies, BODIES, NULL, 0, &error);
        ct_cancel_scope(before);
        if (!status) break;
        assert_int_equal(status, CT_CANCELLED);
        assert_int_equal(error.status, CT_CANCELLED);
        assert_true(broad.n_pairs == 0 && !broad.pairs);
        const ct_cancel_point at = ct_cancel_where(&cancel);
        n_counted += at.what && !strcmp(at.what, "pairs of bodies") && at.count > 0;
        assert_int_equal(ct_broadphase_run(&broad, bodies, BODIES, NULL, 0, NULL), CT_OK);
        assert_int_equal(broad.n_pairs, PAIRS);
    }
    /* Half a million tests of boxes, and as many pairs that are sorted: a poll for every few thousand. */
    assert_true(n_polls >= 20 && n_counted >= 15);
    ct_broadphase_free(&broad);
    free(bodies);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_most_pairs),    cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_nothing),       cmocka_unit_test(test_touching_is_no_pair),
        cmocka_unit_test(test_filters),       cmocka_unit_test(test_random_scenes),
        cmocka_unit_test(test_few_box_tests),
    };
    return cmocka_run_group_tests_name("broadphase", tests, NULL, NULL);
}
