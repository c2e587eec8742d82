/* bench_rates.c - what this machine can do: how fast it reads memory and its caches, how fast the engine's own arithmetic is
 * where nothing else is in its way, and what the pool of threads costs. One JSON object, for roofline.py. It calls the
 * engine's own functions, compiled for the last of the Makefile's SIMD_SETS.
 *
 * Of each number the least, the tenth percentile and the median of several samples: the least is the limit, the median says how
 * busy the machine was. */
#include "gpu/methods/exact/exact_cpu.simd.c" /* NOLINT(bugprone-suspicious-include): what it keeps to itself is timed */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu/device/pool.h"
#include "gpu/methods/ldi/span_cpu.h"
#include "tests/bench/samples.h"
#include "tests/bench/session.h"
#include "tests/scenes/shapes.h"

enum { SAMPLES = 15 };
static volatile double sink;

static void *allocate(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!memory) die("no memory");
    memset(memory, 1, bytes);
    return memory;
}

/* Prints the least of the samples, the tenth percentile and the median, and frees them. */
static void print_quantiles(const char *name, bench_samples *samples) {
    printf("\"%s\":[%.6g,%.6g,%.6g]", name, bench_quantile(samples, 0), bench_quantile(samples, 0.1),
           bench_quantile(samples, 0.5));
    bench_free(samples);
}

/* ---- memory ---- */

struct reader {
    const ct_v4l *from;
    size_t n; /* vectors */
    unsigned passes;
    int64_t sum;
};

static void *read_all(void *argument) {
    struct reader *r = argument;
    ct_v4l sum[8] = {{0}};
    for (unsigned pass = 0; pass < r->passes; pass++) {
        for (size_t i = 0; i < r->n; i += 8)
            for (int k = 0; k < 8; k++) sum[k] += r->from[i + (size_t)k];
        __asm__ volatile("" ::: "memory"); /* the passes are not made one */
    }
    for (int k = 0; k < 8; k++) r->sum += sum[k][0];
    return NULL;
}

/* s a byte, of so many threads together that read `bytes` all over again, a part each. */
static void print_bandwidth(const char *name, size_t bytes, unsigned threads) {
    enum { MOST = 2, AT_ONCE = 128 << 20 };
    bench_samples samples = {0};
    char *memory = allocate(bytes);
    struct reader of[MOST];
    pthread_t handle;
    for (unsigned t = 0; t < threads; t++)
        of[t] = (struct reader){.from = (const ct_v4l *)(memory + bytes / threads * t),
                                .n = bytes / threads / sizeof(ct_v4l) / 8 * 8,
                                .passes = (unsigned)(AT_ONCE / bytes ? AT_ONCE / bytes : 1)};
    for (int i = 0; i < SAMPLES / 2; i++) {
        const double start = bench_now();
        if (threads > 1 && pthread_create(&handle, NULL, read_all, &of[1])) die("no thread");
        read_all(&of[0]);
        if (threads > 1) pthread_join(handle, NULL);
        bench_add(&samples, (bench_now() - start) / ((double)bytes * of[0].passes));
    }
    sink = (double)of[0].sum;
    free(memory);
    print_quantiles(name, &samples);
}

/* As Linux has it, or a usual size where it does not say; sysconf may tell of all caches of a host together. */
static size_t cache_bytes(int level) {
    char path[80];
    size_t kib = level == 2 ? 512 : 16 << 10;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", level);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%zu", &kib) != 1) kib = 16 << 10;
    if (file) fclose(file);
    return kib << 10;
}

/* ---- exact: pairs of triangles that cross ---- */

enum { N = CT_CLUSTER_TRIANGLES };
typedef void (*timed_fn)(void);

/* s an item: fn works on `items`. */
static void print_rate(const char *name, timed_fn fn, double items) {
    enum { AT_ONCE = 300 };
    bench_samples samples = {0};
    for (int s = 0; s < SAMPLES; s++) {
        const double start = bench_now();
        for (int i = 0; i < AT_ONCE; i++) fn();
        bench_add(&samples, (bench_now() - start) / (AT_ONCE * items));
    }
    printf(",");
    print_quantiles(name, &samples);
}

static _Alignas(32) double points[2][3 * N][4];
static uint16_t corners[N][3];
static ct_placed_cluster clusters[2];
static ct_crossing_lists lists;
static struct pair_queue queue;
static ct_budget budget;

static ct_v4l measure_four(uint32_t at) {
    struct triangles4 pairs[2];
    struct normal4 normal[2];
    struct values4 sides[2], e[3];
    int first[4];
    load_pairs(&queue, at, first, pairs);
    for (int s = 0; s < 2; s++) normal[s] = normals_of(pairs[s].corner);
    uint32_t integers = find_sides4(pairs[0].corner, &pairs[1].corner[0], &normal[1], &sides[0]);
    integers |= find_sides4(pairs[1].corner, &pairs[0].corner[0], &normal[0], &sides[1]);
    integers |= find_edge_values4(pairs, sides, e);
    return find_piercing(sides, e) + (int64_t)(integers << 8);
}

/* The six sides and nine orientations of edges of each pair, filtered, four pairs at a time. */
static void measure_pairs(void) {
    ct_v4l sum = {0};
    for (uint32_t at = 0; at < N; at += 4) sum += measure_four(at);
    sink = (double)sum[0];
}

/* The same, and the integrals of both triangles over what the other cuts off. */
static void cross_pairs(void) {
    lists.n[0] = lists.n[1] = 0;
    for (uint32_t at = 0; at < N; at += 4) cross_queue(&queue, at, 4);
}

/* Triangles at random in a box, as large as it, until each crosses its partner. */
static void make_crossing_pairs(void) {
    uint64_t rng = 1;
    for (uint32_t t = 0; t < N; t++)
        for (uint32_t k = 0; k < 3; k++) corners[t][k] = (uint16_t)(3 * t + k);
    for (int s = 0; s < 2; s++)
        clusters[s] =
            (ct_placed_cluster){.n_triangles = N, .n_vertices = 3 * N, .corners = corners, .points = points[s]};
    queue.a = &clusters[0];
    queue.b = &clusters[1];
    queue.moved = 1;
    queue.budget = &budget;
    queue.lists = &lists;
    queue.has_both = lists.has_both = true;
    for (int b = 0; b < 2; b++)
        if (!ct_buffer_reserve(&lists.of_body[b], &budget, 2 * N * sizeof(ct_crossing), 0, true)) die("no memory");
    for (uint32_t t = 0; t < N;) {
        for (int s = 0; s < 2; s++)
            for (uint32_t k = 0; k < 3; k++)
                for (int i = 0; i < 3; i++) points[s][3 * t + k][i] = (double)(shape_random(&rng) % (1u << 30));
        for (uint32_t i = 0; i < 4; i++) queue.triangle[0][i] = queue.triangle[1][i] = (uint8_t)t;
        t += (measure_four(0)[0] & UINT8_MAX) != 0;
    }
    for (uint32_t t = 0; t < N; t++) queue.triangle[0][t] = queue.triangle[1][t] = (uint8_t)t;
    cross_pairs();
    if (lists.n[0] != N || lists.n_inconsistent) die("of %d pairs %zu cross", N, lists.n[0]);
}

/* ---- exact: the surface inside ---- */

enum { SIDE = 8, GRID = (SIDE + 1) * (SIDE + 1) }; /* a cluster of 128 triangles as meshes have them */
static _Alignas(32) double grid_points[GRID][4];
static float grid_positions[GRID][3];
static int64_t gradient[GRID + 1][3];
static uint64_t touched[2], groups[1];
static uint32_t numbers[GRID];
static uint16_t grid_corners[N][3];
static ct_placed_cluster grid;
static ct_exact_body grid_body;

static void make_grid(void) {
    for (uint32_t v = 0; v < GRID; v++) {
        numbers[v] = v;
        for (uint32_t i = 0; i < 3; i++)
            grid_positions[v][i] =
                i == 2 ? 0.01F * (float)(v % 5) : 0.1F * (float)(i ? v / (SIDE + 1) : v % (SIDE + 1));
    }
    for (uint32_t t = 0; t < N; t++) {
        const uint32_t at = t / 2 / SIDE * (SIDE + 1) + t / 2 % SIDE,
                       square[4] = {at, at + 1, at + SIDE + 2, at + SIDE + 1};
        for (uint32_t k = 0; k < 3; k++) grid_corners[t][k] = (uint16_t)square[t % 2 ? (k + 2) % 4 : k];
    }
    grid = (ct_placed_cluster){.n_triangles = N,
                               .n_vertices = GRID,
                               .vertices = numbers,
                               .positions = (const float(*)[3])grid_positions,
                               .corners = (const uint16_t(*)[3])grid_corners,
                               .points = grid_points};
    for (int k = 0; k < 3; k++) grid_body.pose.row[k][k] = 0x1p30;
}

static void place_grid(void) {
    place(&grid, &grid_body);
}

static void add_grid(void) {
    static const int32_t inside[1] = {1};
    static const uint8_t unit[N];
    const ct_winding_numbers w = {.of_unit = inside, .unit_in_cluster = unit};
    const ct_exact_gradient to = {.of = gradient, .touched = touched, .groups = groups};
    ct_cluster_sums sums = {.max_winding = 0};
    add(&grid, &w, 0x1p-20, &to, &sums);
    sink = sums.area;
}

/* ---- ldi ---- */

enum { RAYS = 64 * 64, ROWS = 64, RAY_TRIANGLES = RAYS / 4 };
static uint64_t front[RAYS + 4], back[RAYS + 4];

/* A fragment at the least: three edge functions, whether all are positive, two weights, a depth, and 16 bytes written. Four
 * triangles at a time, from sample to sample. */
static void make_fragments(void) {
    ct_v4d e[3] = {{1, 2, 3, 4}, {2, 3, 4, 5}, {9, 8, 7, 6}};
    const ct_v4d step[3] = {{1, 1, 1, 1}, {2, 2, 2, 2}, {0.5, 0.5, 0.5, 0.5}}, zero = {0}, scale = zero + 0.25;
    size_t n = 0;
    for (int i = 0; i < RAYS / 4; i++) {
        const ct_v4l in = (e[0] > zero) & (e[1] > zero) & (e[2] > zero);
        const ct_v4d l1 = e[1] * scale, l2 = e[2] * scale, depth = l1 * 3 + l2 * 5 + 7;
        const ct_v4l key = (ct_v4l)(depth + CT_ROUND_MAGIC) << 32 | ((ct_v4l)(l1 + CT_ROUND_MAGIC) & UINT32_MAX);
        const ct_v4l tag = ((ct_v4l)(l2 + CT_ROUND_MAGIC) & UINT32_MAX) | 1;
        memcpy(front + n, &key, sizeof key);
        memcpy(back + n, &tag, sizeof tag);
        n += (size_t)__builtin_popcount(ct_v4l_to_bits(in));
        for (int k = 0; k < 3; k++) e[k] += step[k];
    }
    sink = (double)(front[n / 2] + back[n / 2]);
}

static ct_linked_fragment fragments[4 * RAYS];
static uint32_t heads[RAYS], ray_triangles[3 * RAY_TRIANGLES];
static const ct_binned_tile tile = {.tile.ray_area = 1};
static ct_ray_lists rays = {.head = heads,
                            .fragments = fragments,
                            .n_fragments = 4 * RAYS,
                            .bin = {.of = &tile, .columns = RAYS / ROWS, .rows = ROWS}};
static ct_span_scratch scratch;
static int64_t plane[3 * RAY_TRIANGLES];
static uint8_t flags[3 * RAY_TRIANGLES];

/* Each ray enters both bodies and leaves both; four neighbours meet the same triangles. */
static void make_rays(void) {
    for (uint32_t i = 0; i < 3 * RAY_TRIANGLES; i++) ray_triangles[i] = i;
    for (uint32_t r = 0; r < RAYS; r++) {
        heads[r] = 4 * r;
        for (uint32_t k = 0; k < 4; k++) {
            const uint32_t depth = (k % 2 ? 100 : 0) + (k / 2 ? 10 : 0);
            fragments[4 * r + k] = (ct_linked_fragment){{.key = (depth + CT_DEPTH_BIAS) << 1 | (k % 2 == 0),
                                                         .l1 = 9,
                                                         .l2 = 7,
                                                         .tag = (k / 2 ? 0 : 1u << 31) | r / 4},
                                                        k < 3 ? 4 * r + k + 1 : CT_END};
        }
    }
}

static void find_spans(void) {
    const ct_span_options options = {.triangles = {ray_triangles, ray_triangles}, .rule = CT_SPAN_OF_PAIR};
    ct_contact_sums sums = {.touched = {flags, flags}};
    for (int b = 0; b < 2; b++) sums.gradient[b][0] = plane;
#ifdef __AVX2__
    const ct_span_cpu *const kernels = &ct_span_cpu_avx2;
#else
    const ct_span_cpu *const kernels = &ct_span_cpu_base;
#endif
    if (!kernels->span(&rays, &options, &sums, &scratch, &budget) || sums.spans[0] != RAYS)
        die("not all rays have a span");
}

/* ---- the pool ---- */

enum { SPINS = 2000 /* of a thread before it sleeps, as in pool.c */, MANY = 200000, PROBES = 200 };
static struct {
    double at[2];
    atomic_int n_begun;
} probe;

/* Two tasks, on a thread each: the first waits for the second. */
static void begin(void *context, uint32_t index, uint32_t worker) {
    (void)context, (void)index;
    probe.at[worker] = bench_now();
    atomic_fetch_add(&probe.n_begun, 1);
    while (atomic_load(&probe.n_begun) < 2 && bench_now() < probe.at[worker] + 0.02) {
    }
}

static void do_nothing(void *context, uint32_t index, uint32_t worker) {
    (void)context, (void)index, (void)worker;
}

static void probe_pool(ct_pool *pool, bool is_asleep) {
    bench_samples open = {0}, wake = {0}, close = {0};
    for (int i = 0; i < PROBES; i++) {
        if (is_asleep) usleep(1500);
        probe.at[0] = probe.at[1] = 0;
        atomic_store(&probe.n_begun, 0);
        const double start = bench_now();
        ct_pool_run(pool, 2, begin, NULL);
        const double end = bench_now(), last = probe.at[0] > probe.at[1] ? probe.at[0] : probe.at[1];
        if (probe.at[0] == 0 || probe.at[1] == 0) continue; /* the other thread did not come in time */
        bench_add(&open, probe.at[0] - start);
        bench_add(&wake, probe.at[1] - start);
        bench_add(&close, end - last);
    }
    printf(",");
    print_quantiles(is_asleep ? "open_asleep" : "open", &open);
    printf(",");
    print_quantiles(is_asleep ? "wake_asleep" : "wake", &wake);
    printf(",");
    print_quantiles(is_asleep ? "close_asleep" : "close", &close);
}

static void print_pool(void) {
    enum { CLAIMED = 8 }; /* tasks of so many are claimed at a time (pool.c) */
    bench_samples spin = {0}, claim = {0};
    ct_pool *pool = NULL;
    ct_error error = {0};
    if (ct_pool_create(2, false, &pool, &error)) die("%s", error.message);
    for (int i = 0; i < SAMPLES; i++) {
        double start = bench_now();
        for (int k = 0; k < SPINS && atomic_load_explicit(&probe.n_begun, memory_order_relaxed) >= 0; k++) {
#ifdef __x86_64__
            __builtin_ia32_pause();
#elif defined(__aarch64__)
            __asm__ volatile("yield");
#endif
        }
        bench_add(&spin, bench_now() - start);
        start = bench_now();
        ct_pool_run(pool, MANY, do_nothing, NULL);
        bench_add(&claim, 2 * (bench_now() - start) * CLAIMED / MANY);
    }
    print_quantiles("spin", &spin);
    printf(",");
    print_quantiles("claim", &claim);
    probe_pool(pool, false);
    probe_pool(pool, true);
    ct_pool_destroy(&pool);
}

int main(void) {
    const size_t l2 = cache_bytes(2), l3 = cache_bytes(3);
    const size_t large = 4 * l3 < 256 << 20 ? 256 << 20 : 4 * l3 > 1 << 30 ? 1 << 30 : 4 * l3;
#ifdef __AVX2__
    if (!__builtin_cpu_supports("avx2")) die("this machine has no AVX2, for which the rates are compiled");
#endif
    printf("{\"l2_bytes\":%zu,\"l3_bytes\":%zu,\"memory_bytes\":%zu,\"s_per_byte\":{", l2, l3, large);
    print_bandwidth("l2_1", l2 / 2, 1);
    for (unsigned threads = 1; threads <= 2; threads++) {
        char name[16];
        snprintf(name, sizeof name, "l3_%u", threads);
        printf(",");
        print_bandwidth(name, l3 / 4, threads);
        snprintf(name, sizeof name, "memory_%u", threads);
        printf(",");
        print_bandwidth(name, large, threads);
    }
    printf(",");
    print_bandwidth("l2_2", l2, 2);
    make_crossing_pairs();
    make_grid();
    make_rays();
    printf("},\"s\":{\"samples\":[%d]", SAMPLES);
    print_rate("pair", measure_pairs, N);
    print_rate("crossing", cross_pairs, N);
    print_rate("vertex", place_grid, GRID);
    print_rate("triangle", add_grid, N);
    print_rate("fragment", make_fragments, RAYS);
    print_rate("span", find_spans, RAYS);
    printf("},\"pool\":{");
    print_pool();
    printf("}}\n");
    return 0;
}
