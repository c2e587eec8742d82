/* test_walk.c - ct_walk_crossing alone, over random crossings, against the definition of the span rule: a span is a
 * maximal depth interval in which the rule holds; and of what is inside out. */
#include "tests/unit/unit.h"

#include <stdbool.h>
#include <stdlib.h>

#include "gpu/methods/ldi/span_k.h"
#include "tests/scenes/shapes.h"

enum { MAX_CROSSINGS = 40, DEPTHS = 16, MAX_SPANS = DEPTHS };

struct crossing {
    int depth, entering, body;
};

struct ray {
    struct crossing c[MAX_CROSSINGS]; /* by rising (depth, entering): leaving first */
    int n;
    int initial[2];
};

/* ---- the definition ---- */

/* A body's winding number between depths d and d + 1. */
static int winding_behind(const struct ray *ray, int body, int d) {
    int winding = ray->initial[body];
    for (int i = 0; i < ray->n; i++)
        if (ray->c[i].body == body && ray->c[i].depth <= d) winding += ray->c[i].entering ? 1 : -1;
    return winding;
}

static bool covers(const struct ray *ray, ct_span_rule rule, int body, int d) {
    return winding_behind(ray, body, d) >= (rule == CT_SPAN_OF_SELF ? 2 : 1);
}

static bool rule_holds(const struct ray *ray, ct_span_rule rule, int d) {
    return covers(ray, rule, 0, d) && (rule == CT_SPAN_OF_SELF || covers(ray, rule, 1, d));
}

static bool is_inverted(const struct ray *ray, ct_span_rule rule, int d) {
    const int a = winding_behind(ray, 0, d), b = winding_behind(ray, 1, d);
    return rule == CT_SPAN_OF_SELF ? a < 0 : (a < 0 && b != 0) || (b < 0 && a != 0);
}

/* ---- the walk ---- */

static int walk_ray(const struct ray *ray, ct_span_rule rule, ct_span_event spans[MAX_SPANS], int64_t *inverted) {
    int n = 0;
    ct_walk walk = ct_walk_begin(rule, ray->initial[0], ray->initial[1]);
    for (int i = 0; i < ray->n; i++) {
        const struct crossing *c = &ray->c[i], *next = c + 1;
        const bool has_next_same_key = i + 1 < ray->n && next->depth == c->depth && next->entering == c->entering;
        ct_span_event event;
        const uint32_t key = (uint32_t)(c->depth + CT_DEPTH_BIAS) << 1 | (uint32_t)c->entering;
        if (!ct_walk_crossing(&walk, key, c->body, i, has_next_same_key, &event)) continue;
        assert_true(n < MAX_SPANS);
        spans[n++] = event;
    }
    *inverted = walk.inverted;
    return n;
}

/* Checks one end of a span, and returns its depth. Crossings that bound it take their body over the rule's threshold.
 */
static int check_bound(const struct ray *ray, ct_span_rule rule, const ct_bound *bound, bool is_lower) {
    int depth = -1;
    for (int body = 0; body < 2; body++) {
        const int64_t i = bound->fragment[body];
        if (i < 0) continue;
        assert_true(i < ray->n);
        const struct crossing *c = &ray->c[i];
        assert_int_equal(c->body, body);
        assert_int_equal(c->entering, is_lower);
        assert_true(depth < 0 || depth == c->depth);
        depth = c->depth;
        int before = ray->initial[body];
        for (int64_t k = 0; k < i; k++)
            if (ray->c[k].body == body) before += ray->c[k].entering ? 1 : -1;
        const int threshold = rule == CT_SPAN_OF_SELF ? 2 : 1;
        assert_int_equal(before, is_lower ? threshold - 1 : threshold);
    }
    assert_true(depth >= 0); /* at least one body bounds it */
    return depth;
}

/* Between the leaving and the entering crossings of the bound's depth the ray is outside the span. A body that does not
 * cover that (empty) stretch bounds the span; if neither body does, both bound it. */
static void check_bodies(const struct ray *ray, ct_span_rule rule, const ct_bound *bound, int depth) {
    for (int body = 0; body < 2; body++) {
        int winding = winding_behind(ray, body, depth - 1);
        for (int i = 0; i < ray->n; i++)
            winding -= ray->c[i].body == body && ray->c[i].depth == depth && !ray->c[i].entering;
        const bool bounds = winding < (rule == CT_SPAN_OF_SELF ? 2 : 1) && (rule == CT_SPAN_OF_PAIR || body == 0);
        assert_int_equal(bound->fragment[body] >= 0, bounds);
    }
}

static int n_spans_seen, n_shared_seen, max_winding_seen;
static int64_t inverted_seen;

static void check_ray(const struct ray *ray, ct_span_rule rule) {
    ct_span_event spans[MAX_SPANS];
    int64_t inverted;
    const int n = walk_ray(ray, rule, spans, &inverted);
    bool is_in_span[DEPTHS] = {false};
    int end = 0;
    for (int k = 0; k < n; k++) {
        const int lower = check_bound(ray, rule, &spans[k].lower, true);
        const int upper = check_bound(ray, rule, &spans[k].upper, false);
        check_bodies(ray, rule, &spans[k].lower, lower);
        check_bodies(ray, rule, &spans[k].upper, upper);
        assert_true(end <= lower && lower < upper); /* in order, apart, never empty */
        end = upper;
        for (int d = lower; d < upper; d++) is_in_span[d] = true;
        n_shared_seen += spans[k].lower.fragment[0] >= 0 && spans[k].lower.fragment[1] >= 0;
    }
    inverted_seen += inverted;
    for (int d = 0; d < DEPTHS; d++) inverted -= is_inverted(ray, rule, d);
    assert_int_equal(inverted, 0);
    for (int d = 0; d < DEPTHS; d++) {
        assert_int_equal(is_in_span[d], rule_holds(ray, rule, d));
        const int winding = winding_behind(ray, 0, d);
        if (winding > max_winding_seen) max_winding_seen = winding;
    }
    n_spans_seen += n;
}

/* ---- random rays ---- */

static int by_key(const void *a, const void *b) {
    const struct crossing *x = a, *y = b;
    return x->depth != y->depth ? x->depth - y->depth : x->entering - y->entering;
}

/* Closed surfaces: initial winding number and crossings sum to 0. As in a window, the ray starts outside all spans. */
static struct ray random_ray(uint64_t *rng, ct_span_rule rule) {
    struct ray ray = {.n = 0};
    const int n_bodies = rule == CT_SPAN_OF_SELF ? 1 : 2, n = (int)(shape_random(rng) % (MAX_CROSSINGS / 4));
    for (int body = 0; body < n_bodies; body++) {
        ray.initial[body] = (int)(shape_random(rng) % 3) - 1;
        if (body == 1 && ray.initial[0] > 0 && ray.initial[1] > 0) ray.initial[1] = 0;
        int balance = ray.initial[body];
        for (int i = 0; i < n; i++) {
            const struct crossing c = {(int)(shape_random(rng) % (DEPTHS - 1)), shape_random(rng) % 2, body};
            ray.c[ray.n++] = c;
            balance += c.entering ? 1 : -1;
        }
        for (; balance; balance += balance > 0 ? -1 : 1) {
            assert_true(ray.n < MAX_CROSSINGS);
            ray.c[ray.n++] = (struct crossing){DEPTHS - 1, balance < 0, body};
        }
    }
    qsort(ray.c, (size_t)ray.n, sizeof *ray.c, by_key);
    return ray;
}

static void check_random_rays(ct_span_rule rule) {
    uint64_t rng = 7;
    n_spans_seen = n_shared_seen = max_winding_seen = 0;
    inverted_seen = 0;
    for (int round = 0; round < 20000; round++) {
        const struct ray ray = random_ray(&rng, rule);
        check_ray(&ray, rule);
    }
    assert_true(n_spans_seen > 2000 && max_winding_seen >= 4 && inverted_seen > 2000);
}

static void test_pair(void **state) {
    (void)state;
    check_random_rays(CT_SPAN_OF_PAIR);
    assert_true(n_shared_seen > 200);
}

static void test_self(void **state) {
    (void)state;
    check_random_rays(CT_SPAN_OF_SELF);
    assert_int_equal(n_shared_seen, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pair), cmocka_unit_test(test_self)};
    return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
