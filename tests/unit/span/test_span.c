/* test_span.c - spans and sums of hand-made rays, of random rays against an independent implementation, and of long
 * rays, in any order of a ray's list. */
#include <stdlib.h>
#include <string.h>

#include "gpu/methods/ldi/span_cpu.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

static const ct_span_cpu *sets[2];
static int n_sets;

static void find_sets(void) {
    sets[n_sets++] = &ct_span_cpu_base;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
        sets[n_sets++] = &ct_span_cpu_avx2;
#endif
}

/* Used by run() and the reference. */
static ct_span_rule rule = CT_SPAN_OF_PAIR;
static int64_t ray_area = 1;
static uint32_t contact = 0; /* of CONTACTS */

enum { CONTACTS = 2, TRIANGLES = 4096, VERTICES = 130, A = 0, B = 1, IN = 1, OUT = 0 };

/* One ray's crossings, each on a triangle of its own. */
struct ray {
    ct_fragment *f;
    uint32_t n, capacity;
    int32_t winding[2];
};

static uint32_t triangles[2][3 * TRIANGLES];

static void make_triangles(void) {
    for (uint32_t b = 0; b < 2; b++)
        for (uint32_t t = 0; t < TRIANGLES; t++)
            for (uint32_t c = 0; c < 3; c++) triangles[b][3 * t + c] = (7 * t + 41 * c + b) % VERTICES;
}

static void cross(struct ray *ray, int body, int in, int32_t depth, uint32_t l1, uint32_t l2) {
    if (ray->n == ray->capacity) {
        ray->capacity = 2 * ray->capacity + 8;
        ray->f = realloc(ray->f, ray->capacity * sizeof *ray->f);
    }
    ray->f[ray->n] = (ct_fragment){(uint32_t)(depth + CT_DEPTH_BIAS) << 1 | (uint32_t)in, l1, l2,
                                   (uint32_t)body << 31 | ray->n % TRIANGLES};
    ray->n++;
}

/* ---- running the stage ---- */

struct outcome {
    int64_t gradient[2][3][VERTICES], length[3];
    ct_raw_span *spans;
    size_t n_spans;
    bool ok;
};

/* The sums of a contact that the options do not name. */
static void assert_other_is_untouched(const ct_contact_sums *sums, int view) {
    for (int b = 0; b < 2; b++) {
        for (int w = 0; w < 3; w++)
            for (uint32_t v = 0; v < VERTICES; v++) assert_int_equal(sums->gradient[b][w][v], 0);
        for (uint32_t g = 0; g <= VERTICES / CT_VERTEX_GROUP; g++) assert_int_equal(sums->touched[b][g], 0);
    }
    for (int w = 0; w < 3; w++) assert_int_equal(sums->length[w], w == view ? 1000 : 0);
}

/* `seed` shuffles the lists and picks the body rasterised first; 0 leaves them. Rays are those of a row of view `view`,
 * the last of three rows. */
static struct outcome run(const ct_span_cpu *set, const struct ray *rays, int n_rays, int view, uint64_t seed,
                          bool keep, size_t limit, bool listed) {
    static uint8_t touched[2][VERTICES / CT_VERTEX_GROUP + 1], other_touched[2][VERTICES / CT_VERTEX_GROUP + 1];
    static int64_t other_gradient[2][3][VERTICES];
    struct outcome out;
    int first_body = (int)(seed % 2);
    memset(&out, 0, sizeof out);
    memset(touched, 0, sizeof touched);
    size_t total = 0, at = 0;
    for (int i = 0; i < n_rays; i++) total += rays[i].n;
    ct_linked_fragment *links = calloc(total + 1, sizeof *links);
    uint32_t *head = malloc((size_t)n_rays * 3 * sizeof *head);
    int32_t(*winding)[2] = calloc((size_t)n_rays * 3, sizeof *winding);
    memset(head, 0xff, (size_t)n_rays * 3 * sizeof *head);
    for (int i = 0; i < n_rays; i++) {
        uint32_t *order = malloc((rays[i].n + 1) * sizeof *order), ray = (uint32_t)(2 * n_rays + i);
        for (uint32_t k = 0; k < rays[i].n; k++) {
            uint32_t j = seed ? (uint32_t)(shape_random(&seed) % (k + 1)) : k;
            order[k] = order[j];
            order[j] = k;
        }
        for (int second = 0; second < 2; second++) /* the body rasterised first comes to lie at a list's end */
            for (uint32_t k = 0; k < rays[i].n; k++) {
                const ct_fragment *f = &rays[i].f[order[k]];
                if ((f->tag >> 31 != (uint32_t)first_body) != second) continue;
                links[at] = (ct_linked_fragment){*f, head[ray]};
                head[ray] = (uint32_t)at++;
            }
        memcpy(winding[ray], rays[i].winding, 8);
        free(order);
    }
    const ct_binned_tile tile = {.tile = {.shift_u = 1, .shift_v = 1, .n_u = n_rays, .n_v = 13, .ray_area = ray_area},
                                 .view = view};
    ct_ray_lists lists = {.head = head,
                          .fragments = links,
                          .n_fragments = (uint32_t)total,
                          .winding = winding,
                          .initial = {CT_INITIAL_COUNTED, CT_INITIAL_COUNTED},
                          .bin = {&tile, 0, 10, n_rays, 3},
                          .view = view,
                          .first_body = first_body};
    if (listed) { /* nothing was counted: initial winding numbers follow from the balance of the crossings */
        lists.winding = NULL;
        lists.initial[0] = lists.initial[1] = CT_INITIAL_FROM_BALANCE;
    }
    ct_contact_sums sums[CONTACTS], *own = &sums[contact], *other = &sums[!contact];
    *own = (ct_contact_sums){.touched = {touched[0], touched[1]}};
    *other = (ct_contact_sums){.touched = {other_touched[0], other_touched[1]}};
    for (int b = 0; b < 2; b++)
        for (int w = 0; w < 3; w++) {
            own->gradient[b][w] = out.gradient[b][w];
            other->gradient[b][w] = other_gradient[b][w];
        }
    own->length[view] = other->length[view] = 1000; /* added to */
    const ct_span_options options = {{triangles[0], triangles[1]}, rule, contact, keep};
    ct_span_scratch scratch = {{0}};
    ct_budget budget = {.limit = limit};
    out.ok = set->span(&lists, &options, sums, &scratch, &budget);
    assert_other_is_untouched(other, view);
    memcpy(out.length, own->length, sizeof out.length);
    out.length[view] -= 1000;
    out.n_spans = scratch.n_spans;
    if (scratch.n_spans) {
        out.spans = malloc(scratch.n_spans * sizeof *out.spans);
        memcpy(out.spans, scratch.spans.data, scratch.n_spans * sizeof *out.spans);
    }
    for (int b = 0; b < 2; b++) /* vertices with a sum are marked, so that their sums are cleared later */
        for (uint32_t v = 0; v < VERTICES; v++)
            for (int w = 0; w < 3; w++)
                if (out.gradient[b][w][v]) assert_int_equal(touched[b][v / CT_VERTEX_GROUP], 1);
    ct_buffer_free(&scratch.ray, &budget);
    ct_buffer_free(&scratch.spans, &budget);
    assert_int_equal(budget.used, 0);
    free(links);
    free(head);
    free(winding);
    return out;
}

/* ---- the same, by counting ---- */

/* Between two depths next to each other nothing crosses: a stretch belongs to a span if the winding numbers, counted
 * from scratch, satisfy the rule. At a depth, leaving comes first and is a (possibly empty) stretch of its own. */
static int winding_upto(const struct ray *ray, int body, uint32_t key) {
    int winding = ray->winding[body];
    for (uint32_t k = 0; k < ray->n; k++)
        if (ray->f[k].tag >> 31 == (uint32_t)body && ray->f[k].key <= key) winding += ray->f[k].key & 1 ? 1 : -1;
    return winding;
}

/* The winding number from which on the rule counts the body. */
static int threshold(void) {
    return rule == CT_SPAN_OF_SELF ? 2 : 1;
}

static bool is_covered(const struct ray *ray, int body, uint32_t key) {
    return winding_upto(ray, body, key) >= threshold();
}

static bool is_in_span(const struct ray *ray, uint32_t key) {
    return is_covered(ray, A, key) && (rule == CT_SPAN_OF_SELF || is_covered(ray, B, key));
}

/* The crossing of a body at that key which took its winding number over the threshold, by order of (l1, l2, tag). */
static const ct_fragment *border(const struct ray *ray, int body, uint32_t key) {
    const int before = winding_upto(ray, body, key - 1);
    /* The number of coincident crossings in front of it. */
    const uint32_t wanted = (uint32_t)(key & 1 ? threshold() - 1 - before : before - threshold());
    for (uint32_t k = 0; k < ray->n; k++) {
        const ct_fragment *f = &ray->f[k];
        if (f->tag >> 31 != (uint32_t)body || f->key != key) continue;
        uint32_t rank = 0;
        for (uint32_t j = 0; j < ray->n; j++)
            if (ray->f[j].tag >> 31 == (uint32_t)body && ray->f[j].key == key && ct_fragment_before(&ray->f[j], f))
                rank++;
        if (rank == wanted) return f;
    }
    return NULL;
}

static void add_end(const struct ray *ray, struct outcome *out, int view, uint32_t key, uint32_t before_key, int sign) {
    bool crossed[2];
    for (int b = 0; b < 2; b++) crossed[b] = is_covered(ray, b, before_key) != is_covered(ray, b, key);
    for (int b = 0; b < 2; b++) {
        if (!crossed[b]) continue;
        const ct_fragment *f = border(ray, b, key);
        assert_non_null(f);
        int64_t whole = crossed[!b] ? CT_WEIGHT_ONE / 2 : CT_WEIGHT_ONE;
        int64_t l1 = crossed[!b] ? (int64_t)f->l1 / 2 : f->l1, l2 = crossed[!b] ? (int64_t)f->l2 / 2 : f->l2;
        const uint32_t *corner = triangles[b] + 3 * (f->tag & 0x7fffffff);
        out->gradient[b][view][corner[0]] += ray_area * sign * (whole - l1 - l2);
        out->gradient[b][view][corner[1]] += ray_area * sign * l1;
        out->gradient[b][view][corner[2]] += ray_area * sign * l2;
    }
}

static int by_key(const void *a, const void *b) {
    uint32_t x = ((const ct_fragment *)a)->key, y = ((const ct_fragment *)b)->key;
    return (x > y) - (x < y);
}

static struct outcome reference(const struct ray *rays, int n_rays, int view) {
    struct outcome out;
    memset(&out, 0, sizeof out);
    for (int i = 0; i < n_rays; i++) {
        const struct ray *ray = &rays[i];
        if (!ray->n) continue;
        ct_fragment *keys = malloc(ray->n * sizeof *keys);
        memcpy(keys, ray->f, ray->n * sizeof *keys);
        qsort(keys, ray->n, sizeof *keys, by_key);
        uint32_t last = 0;
        int32_t start = 0;
        for (uint32_t k = 0; k < ray->n; k++) {
            uint32_t key = keys[k].key;
            if (key == last) continue;
            bool was = is_in_span(ray, last), is = is_in_span(ray, key);
            if (was != is) add_end(ray, &out, view, key, last, is ? -1 : 1);
            if (is && !was) start = ct_fragment_depth(key);
            if (was && !is) {
                out.length[view] += ray_area * (ct_fragment_depth(key) - start);
                out.n_spans++;
            }
            last = key;
        }
        free(keys);
    }
    return out;
}

/* True if every ray's initial winding numbers are minus the sums of its crossings. */
static bool can_be_listed(const struct ray *rays, int n_rays) {
    for (int i = 0; i < n_rays; i++) {
        int sum[2] = {rays[i].winding[0], rays[i].winding[1]};
        for (uint32_t k = 0; k < rays[i].n; k++) sum[rays[i].f[k].tag >> 31] += rays[i].f[k].key & 1 ? 1 : -1;
        if (sum[0] || sum[1]) return false;
    }
    return true;
}

static int checked_listed; /* how often, with something to enter */

static void check(const struct ray *rays, int n_rays) {
    uint64_t seed = 99;
    bool both_ways = can_be_listed(rays, n_rays);
    checked_listed += both_ways && (rays[0].winding[0] || rays[0].winding[1]);
    for (int view = 0; view < 3; view++) {
        struct outcome expected = reference(rays, n_rays, view);
        for (int s = 0; s < n_sets; s++)
            for (int shuffle = 0; shuffle < 3; shuffle++) {
                struct outcome o =
                    run(sets[s], rays, n_rays, view, shuffle ? seed++ : 0, true, 0, both_ways && shuffle == 1);
                assert_true(o.ok);
                assert_memory_equal(o.gradient, expected.gradient, sizeof o.gradient);
                assert_memory_equal(o.length, expected.length, sizeof o.length);
                assert_int_equal(o.n_spans, expected.n_spans);
                int64_t length = 0, sum = 0;
                for (size_t i = 0; i < o.n_spans; i++) {
                    assert_true(o.spans[i].upper >= o.spans[i].lower);
                    assert_int_equal(o.spans[i].view, view);
                    assert_int_equal(o.spans[i].v, 2 * 12 + 1);
                    length += o.spans[i].upper - o.spans[i].lower;
                }
                assert_int_equal(ray_area * length, o.length[view]);
                for (int w = 0; w < 3; w++)
                    for (uint32_t v = 0; v < VERTICES; v++) sum += o.gradient[0][w][v] + o.gradient[1][w][v];
                assert_int_equal(sum, 0); /* what one end gives the other takes */
                free(o.spans);
                for (int listed = 0; listed <= both_ways; listed++) {
                    o = run(sets[s], rays, n_rays, view, shuffle ? seed : 0, false, 0, listed);
                    assert_memory_equal(o.gradient, expected.gradient, sizeof o.gradient);
                    assert_memory_equal(o.length, expected.length, sizeof o.length);
                    assert_int_equal(o.n_spans, 0);
                }
            }
    }
}

/* ---- hand-made rays ---- */

static const uint32_t THIRD = 1u << 28;

/* "A(3 B(5 )A7 )B9": A is entered at 3, B at 5, A left at 7, B at 9. */
static struct ray ray_of(const char *text) {
    struct ray ray = {0};
    while (*text) {
        while (*text == ' ') text++;
        bool out = *text == ')';
        if (out) text++;
        int body = *text++ - 'A';
        if (!out) text++;
        char *end;
        long depth = strtol(text, &end, 10);
        text = end;
        cross(&ray, body, out ? OUT : IN, (int32_t)depth, THIRD + ray.n, 2 * THIRD - 3 * ray.n);
    }
    return ray;
}

/* A kept span of a body with itself names the triangle with which the ray enters it. */
static void check_lower_triangle(const struct ray *ray, const ct_raw_span *span) {
    for (uint32_t k = 0; k < ray->n; k++) {
        const ct_fragment *f = &ray->f[k];
        if ((int32_t)(f->tag & INT32_MAX) == span->lower_body && f->key & 1 && ct_fragment_depth(f->key) == span->lower)
            return;
    }
    fail_msg("no triangle %d bounds the span from below", (int)span->lower_body);
}

static void expect(const char *text, int64_t length, size_t n_spans, const int32_t (*ends)[3]) {
    struct ray ray = ray_of(text);
    check(&ray, 1);
    struct outcome o = run(sets[0], &ray, 1, 1, 0, true, 0, false);
    if (o.length[1] != length || o.n_spans != n_spans)
        fail_msg("%s: %lld in %zu spans, expected %lld in %zu", text, (long long)o.length[1], o.n_spans,
                 (long long)length, n_spans);
    for (size_t i = 0; i < n_spans; i++) {
        assert_int_equal(o.spans[i].lower, ends[i][0]);
        assert_int_equal(o.spans[i].upper, ends[i][1]);
        if (rule == CT_SPAN_OF_SELF)
            check_lower_triangle(&ray, &o.spans[i]);
        else
            assert_int_equal(o.spans[i].lower_body, ends[i][2]);
    }
    free(o.spans);
    free(ray.f);
}

#define ENDS(...) ((const int32_t[][3]){__VA_ARGS__})

static void test_hand_made(void **state) {
    (void)state;
    expect("A(0 )A10", 0, 0, NULL);
    expect("A(0 B(3 )A10 )B12", 7, 1, ENDS({3, 10, 1}));
    expect("B(0 A(3 )B10 )A12", 7, 1, ENDS({3, 10, 0}));
    expect("A(0 B(3 )B7 )A10", 4, 1, ENDS({3, 7, 1}));                       /* nested */
    expect("A(0 )A5 B(5 )B9", 0, 0, NULL);                                   /* touching */
    expect("A(0 )A5 B(6 )B9", 0, 0, NULL);                                   /* apart */
    expect("A(0 B(0 )A5 )B5", 5, 1, ENDS({0, 5, 0}));                        /* the same place: both ends are shared */
    expect("A(0 B(0 )A5 )B9", 5, 1, ENDS({0, 5, 0}));                        /* one end is */
    expect("A(-4 )A3 A(3 )A8 B(-9 )B9", 12, 2, ENDS({-4, 3, 0}, {3, 8, 0})); /* two parts of A touch inside B */
    expect("A(0 A(2 )A6 )A9 B(1 )B8", 7, 1, ENDS({1, 8, 1}));                /* A overlaps itself */
    expect("A(0 A(2 )A6 )A9 B(-5 )B20", 9, 1, ENDS({0, 9, 0}));              /* inner walls bound nothing */
    expect("A(0 B(1 )B2 B(3 )B4 B(5 )B6 )A9", 3, 3, ENDS({1, 2, 1}, {3, 4, 1}, {5, 6, 1}));
    expect(")A0 A(4 B(-10 )B10", 0, 0, NULL); /* inside out: never inside */
    expect(")A0 A(2 A(4 )A7 B(-10 )B10", 3, 1, ENDS({4, 7, 0}));
    expect("A(3 )A3 B(0 )B9", 0, 0, NULL); /* a sheet */
    expect("A(0 A(0 )A5 )A5 B(0 )B5", 5, 1, ENDS({0, 5, 0}));
    expect("A(-268435456 B(-268435456 )A268435456 )B268435456", 536870912, 1, ENDS({-268435456, 268435456, 0}));
}

static void test_shared_ends(void **state) {
    (void)state;
    struct ray ray = {0};
    cross(&ray, A, IN, 0, 3, 5);
    cross(&ray, B, IN, 0, THIRD, THIRD);
    cross(&ray, A, OUT, 9, 0, 0);
    cross(&ray, B, OUT, 12, 0, 0);
    struct outcome o = run(sets[0], &ray, 1, 2, 0, false, 0, false);
    const uint32_t *a = triangles[A], *b = triangles[B] + 3;
    assert_int_equal(o.gradient[A][2][a[1]], -1);
    assert_int_equal(o.gradient[A][2][a[2]], -2);
    assert_int_equal(o.gradient[A][2][a[0]], -(CT_WEIGHT_ONE / 2 - 3));
    assert_int_equal(o.gradient[B][2][b[1]], -(int64_t)THIRD / 2);
    assert_int_equal(o.gradient[A][2][(triangles[A] + 6)[0]], CT_WEIGHT_ONE); /* leaves alone: whole */
    free(ray.f);
}

/* A ray that enters the window's depths inside of a body starts with that winding number. */
static void test_winding_before_the_window(void **state) {
    (void)state;
    struct ray ray = ray_of("B(3 )B7 )A10");
    ray.winding[A] = 1;
    check(&ray, 1);
    struct outcome o = run(sets[0], &ray, 1, 0, 0, false, 0, false);
    assert_int_equal(o.length[0], 4);
    ray.winding[A] = 2;
    check(&ray, 1);
    ray.winding[A] = 0;
    check(&ray, 1);
    o = run(sets[0], &ray, 1, 0, 0, false, 0, false);
    assert_int_equal(o.length[0], 0);
    ray.winding[A] = -1;
    check(&ray, 1);
    free(ray.f);
}

/* open: the crossings of a body need not sum to 0; the initial winding number is minus their sum. */
static struct ray random_ray(uint64_t *rng, uint32_t n, int32_t depths, bool open) {
    struct ray ray = {0};
    int balance[2] = {0, 0};
    for (uint32_t k = 0; k < n; k++) {
        int body = (int)(shape_random(rng) % 2), in = (int)(shape_random(rng) % 2);
        balance[body] += in ? 1 : -1;
        uint32_t l1 = (uint32_t)(shape_random(rng) % (shape_random(rng) % 3 ? CT_WEIGHT_ONE / 2 : 2));
        uint32_t l2 = (uint32_t)(shape_random(rng) % (CT_WEIGHT_ONE / 2));
        cross(&ray, body, in, (int32_t)(shape_random(rng) % (uint64_t)depths) - depths / 2, l1, l2);
    }
    for (int b = 0; b < 2; b++)
        if (open && balance[b] < 0 && !ray.winding[1 - b]) { /* inside both it cannot be */
            ray.winding[b] = -balance[b];
            balance[b] = 0;
        }
    for (int b = 0; b < 2; b++)
        for (; balance[b]; balance[b] += balance[b] > 0 ? -1 : 1)
            cross(&ray, b, balance[b] > 0 ? OUT : IN, depths / 2 + (int32_t)ray.n, 1, 2);
    return ray;
}

static void test_random_rays(void **state) {
    (void)state;
    uint64_t rng = 21;
    enum { RAYS = 7 };
    for (int round = 0; round < 400; round++) {
        struct ray rays[RAYS];
        const int32_t depths[] = {4, 20, 300, 1 << 28};
        for (int i = 0; i < RAYS; i++) {
            rays[i] =
                random_ray(&rng, (uint32_t)(shape_random(&rng) % (round % 3 ? 7 : 60)), depths[round % 4], round % 2);
            if (round % 10 == 0) rays[i].winding[round / 5 % 2] = (int32_t)(shape_random(&rng) % 3);
        }
        check(rays, RAYS);
        for (int i = 0; i < RAYS; i++) free(rays[i].f);
    }
    assert_true(checked_listed > 50);
}

/* Around the length at which another sort takes over, and far beyond. */
static void test_long_rays(void **state) {
    (void)state;
    uint64_t rng = 22;
    for (uint32_t n = 30; n < 36; n++) {
        struct ray ray = random_ray(&rng, n, 40, n % 2);
        check(&ray, 1);
        free(ray.f);
    }
    struct ray rays[3] = {{0}, random_ray(&rng, 1500, 1000, false), {0}};
    for (int i = 0; i < 3; i += 2) {
        cross(&rays[i], A, IN, -5, 1, 2);
        for (int32_t k = 0; k < 2000; k++) cross(&rays[i], B, k % 2 ? OUT : IN, 3 * (k / 2) + k % 2, THIRD, 7);
        cross(&rays[i], A, OUT, 10000, 3, 4);
    }
    struct outcome o = run(sets[0], rays, 3, 1, 5, true, 0, false),
                   alone = run(sets[0], &rays[1], 1, 1, 0, true, 0, false);
    assert_int_equal(o.length[1] - alone.length[1], 2 * 1000);
    assert_int_equal(o.n_spans - alone.n_spans, 2 * 1000);
    free(o.spans);
    free(alone.spans);
    check(&rays[1], 1);
    for (int i = 0; i < 3; i++) free(rays[i].f);
}

static void test_too_little_memory(void **state) {
    (void)state;
    struct ray ray = {0};
    cross(&ray, A, IN, -5, 1, 2);
    for (int32_t k = 0; k < 2000; k++) cross(&ray, B, k % 2 ? OUT : IN, k, THIRD, 7);
    cross(&ray, A, OUT, 10000, 3, 4);
    bool keep_failed = false, sort_failed = false, kept = false;
    for (size_t limit = 1000; limit < 200000; limit += 5000) {
        struct outcome with = run(sets[0], &ray, 1, 0, 0, true, limit, false),
                       without = run(sets[0], &ray, 1, 0, 0, false, limit, false);
        sort_failed = sort_failed || !without.ok;
        keep_failed = keep_failed || (without.ok && !with.ok);
        kept = kept || with.ok;
        free(with.spans);
    }
    assert_true(sort_failed && keep_failed && kept);
    free(ray.f);
}

/* ---- a body with itself ---- */

/* Spans are where the winding number is at least 2. */
static void test_self_hand_made(void **state) {
    (void)state;
    rule = CT_SPAN_OF_SELF;
    expect("A(0 )A10", 0, 0, NULL);
    expect("A(0 )A5 A(5 )A9", 0, 0, NULL); /* two parts that touch */
    expect("A(0 A(2 )A6 )A9", 4, 1, ENDS({2, 6, 0}));
    expect("A(0 A(1 A(2 )A5 )A7 )A9", 6, 1, ENDS({1, 7, 0})); /* 3 in the middle: inner walls bound nothing */
    expect("A(0 A(1 A(2 A(3 )A4 )A5 )A6 )A9", 5, 1, ENDS({1, 6, 0}));
    expect("A(0 A(0 )A8 )A8", 8, 1, ENDS({0, 8, 0})); /* two copies: the ends coincide */
    expect("A(0 A(0 A(0 A(0 )A8 )A8 )A8 )A8", 8, 1, ENDS({0, 8, 0}));
    expect("A(0 A(2 )A6 A(6 )A8 )A9", 6, 2, ENDS({2, 6, 0}, {6, 8, 0})); /* leaves and enters at one depth */
    expect("A(0 )A5 A(5 A(5 )A9 )A12", 4, 1, ENDS({5, 9, 0}));
    expect("A(0 A(3 )A3 )A9", 0, 0, NULL); /* at 3 it leaves before it enters */
    expect("A(0 A(1 )A2 A(3 )A4 )A5", 2, 2, ENDS({1, 2, 0}, {3, 4, 0}));
    expect(")A0 A(4 A(5 )A6", 0, 0, NULL);  /* inside out: -1, 0, 1, 0 */
    struct ray ray = ray_of("A(2 )A6 )A9"); /* starts inside: 1 */
    ray.winding[A] = 1;
    check(&ray, 1); /* counted, and from the balance */
    struct outcome o = run(sets[0], &ray, 1, 0, 0, false, 0, true);
    assert_int_equal(o.length[0], 4);
    free(ray.f);
    ray = ray_of("A(0 A(1 A(2 )A5 )A7"); /* starts at -1 */
    ray.winding[A] = -1;
    check(&ray, 1);
    o = run(sets[0], &ray, 1, 0, 0, false, 0, true);
    assert_int_equal(o.length[0], 3);
    free(ray.f);
}

/* A ray of body A with an initial winding number of -1, 0 or 1, as its window begins where the body does; the crossings
 * close the body. Few depths make coincident crossings. */
static struct ray random_self_ray(uint64_t *rng, uint32_t n, int32_t depths, int *max_winding) {
    struct ray ray = {.winding = {(int32_t)(shape_random(rng) % 3) - 1, 0}};
    int balance = ray.winding[A];
    for (uint32_t k = 0; k < n; k++) {
        const int in = balance < 0 || (balance < 4 && shape_random(rng) % 2); /* 4 at most, in this order */
        const uint32_t l1 = (uint32_t)(shape_random(rng) % 3), l2 = (uint32_t)(shape_random(rng) % 2);
        cross(&ray, A, in, (int32_t)(shape_random(rng) % (uint64_t)depths), l1, l2);
        balance += in ? 1 : -1;
    }
    for (; balance; balance += balance > 0 ? -1 : 1) cross(&ray, A, balance > 0 ? OUT : IN, depths, 1, 2);
    for (uint32_t k = 0; k < ray.n; k++) {
        const int winding = winding_upto(&ray, A, ray.f[k].key);
        if (winding > *max_winding) *max_winding = winding;
    }
    return ray;
}

static void test_self_random_rays(void **state) {
    (void)state;
    rule = CT_SPAN_OF_SELF;
    uint64_t rng = 23;
    enum { RAYS = 5 };
    int max_winding = 0;
    checked_listed = 0;
    for (int round = 0; round < 300; round++) {
        struct ray rays[RAYS];
        for (int i = 0; i < RAYS; i++)
            rays[i] = random_self_ray(&rng, (uint32_t)(shape_random(&rng) % (round % 3 ? 9 : 50)),
                                      (const int32_t[]){3, 20, 1 << 27}[round % 3], &max_winding);
        check(rays, RAYS);
        for (int i = 0; i < RAYS; i++) free(rays[i].f);
    }
    assert_true(max_winding >= 4 && checked_listed > 100);
}

/* ---- ray areas and contacts ---- */

/* With rays of three times the area, sums are exactly three times as large. */
static void test_ray_area(void **state) {
    (void)state;
    uint64_t rng = 24;
    for (int round = 0; round < 60; round++) {
        rule = round % 2 ? CT_SPAN_OF_SELF : CT_SPAN_OF_PAIR;
        int max_winding = 0;
        struct ray ray =
            rule == CT_SPAN_OF_SELF ? random_self_ray(&rng, 12, 20, &max_winding) : random_ray(&rng, 12, 20, false);
        for (int s = 0; s < n_sets; s++) {
            const struct outcome one = run(sets[s], &ray, 1, round % 3, 0, false, 0, false);
            ray_area = 3;
            const struct outcome three = run(sets[s], &ray, 1, round % 3, 0, false, 0, false);
            ray_area = 1;
            for (int w = 0; w < 3; w++) {
                assert_int_equal(three.length[w], 3 * one.length[w]);
                for (int b = 0; b < 2; b++)
                    for (uint32_t v = 0; v < VERTICES; v++)
                        assert_int_equal(three.gradient[b][w][v], 3 * one.gradient[b][w][v]);
            }
        }
        ray_area = 3;
        check(&ray, 1);
        ray_area = 1;
        free(ray.f);
    }
}

/* Sums of contact 1 are what those of contact 0 would be; run() checks that the other contact's stay as they were. */
static void test_contact_index(void **state) {
    (void)state;
    struct ray ray = ray_of("A(0 B(3 )A10 )B12");
    for (int s = 0; s < n_sets; s++) {
        contact = 0;
        const struct outcome first = run(sets[s], &ray, 1, 2, 0, false, 0, false);
        contact = 1;
        const struct outcome second = run(sets[s], &ray, 1, 2, 0, false, 0, false);
        assert_int_equal(second.length[2], 7);
        assert_memory_equal(second.length, first.length, sizeof first.length);
        assert_memory_equal(second.gradient, first.gradient, sizeof first.gradient);
    }
    check(&ray, 1);
    free(ray.f);
}

static int reset(void **state) {
    (void)state;
    rule = CT_SPAN_OF_PAIR;
    ray_area = 1;
    contact = 0;
    return 0;
}

int main(void) {
    find_sets();
    make_triangles();
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_hand_made, reset),
                                       cmocka_unit_test_setup(test_shared_ends, reset),
                                       cmocka_unit_test_setup(test_winding_before_the_window, reset),
                                       cmocka_unit_test_setup(test_random_rays, reset),
                                       cmocka_unit_test_setup(test_long_rays, reset),
                                       cmocka_unit_test_setup(test_too_little_memory, reset),
                                       cmocka_unit_test_setup(test_self_hand_made, reset),
                                       cmocka_unit_test_setup(test_self_random_rays, reset),
                                       cmocka_unit_test_setup(test_ray_area, reset),
                                       cmocka_unit_test_setup(test_contact_index, reset)};
    return cmocka_run_group_tests_name("span", tests, NULL, NULL);
}
