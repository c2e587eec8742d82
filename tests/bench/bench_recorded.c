/* bench_recorded.c - bench_engine with another pool of threads, which computes all tasks on one thread and says how long they
 * would have taken on several; and with counts of what the answer needed. For roofline.py; the scenes, options and lines are
 * bench_engine's, and each line has "recorded" besides.
 *
 *   RECORD='threads [open wake open_asleep wake_asleep claim close spin]' bench_recorded [as bench_engine]
 *
 * threads: of the engine, so that it cuts and spreads work as it does for so many. The others are times in s that bench_rates
 * measures of the real pool. The rule is the pool's (gpu/device/pool.c): the caller begins at once, the others when they are
 * awake; the next tasks go to the thread that is free first; a run ends when all have ended. A step then takes what passed
 * outside of runs, and the longest thread of each run. This is a simulation: one core's caches serve all threads, and nobody
 * waits for memory that others read, nor for locks that others hold. Times are the thread's own, of its processor, so that
 * other programs change them little.
 *
 * The linker gives this file the calls of the functions below (--wrap), so that the engine itself has nothing for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/base/cancel.h"
#include "gpu/device/pool.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/exact/pair_cpu.h"
#include "gpu/methods/ldi/pair_cpu.h"
#include "tests/bench/engine.h"
#include "tests/bench/samples.h"

enum { WARM_UP = 3, MOST_THREADS = 64, MOST_TEXT = 2048 };

/* Parts of a pair by exact; the rest is what passes outside of them. */
enum { SEARCH, PLACE, CROSS, FLOOD, SUM, FINISH, STAGES };
static const char *const stage_names[STAGES] = {"search", "place", "cross", "flood", "sum", "finish"};

static struct {
    double open, wake, open_asleep, wake_asleep, claim, close, spin; /* s, of the pool */
    unsigned threads;                                                /* 0: what the scene says */
} given;

/* Of a run of bench_engine: of its first step. */
static struct counts {
    uint64_t cluster_pairs, looked_at, crossings;      /* by exact; pairs of triangles: not separated, and crossing */
    uint64_t placed, added, vertices, crossed, inside; /* clusters; of those added: vertices; triangles */
    uint64_t moved, listed;                            /* vertices of deformable bodies, and in their clusters */
    uint64_t near_triangles, near_vertices, spans;     /* by rays */
} counts;

static struct {
    unsigned steps;
    bench_samples ms, serial_ms, tasks_ms,
        speedup; /* of steps: simulated; outside of runs; in tasks; how much faster than one
                                                       thread with the same tasks, which what slows both down leaves alone */
    uint64_t runs, tasks;
    double stages[STAGES];
    double wall;                     /* s, by the clock, as stages are */
    double step_tasks, step_longest; /* s, of the step so far: in tasks; simulated */
    double last_end;                 /* of own_time: when the last run ended */
    double searched;                 /* of bench_now: when the last stage ended */
} record;

/* s, of this thread's processor. */
static double own_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the pool ---- */

struct ct_pool {
    uint32_t threads;
};

ct_status ct_pool_create(uint32_t threads, bool in_background, ct_pool **out, ct_error *error) {
    (void)in_background, (void)error;
    if (!(*out = calloc(1, sizeof **out)) || threads > MOST_THREADS) die("no pool of %u threads", threads);
    (*out)->threads = threads;
    return CT_OK;
}

void ct_pool_destroy(ct_pool **pool) {
    free(*pool);
    *pool = NULL;
}

/* As in pool.c. */
static uint32_t claim_size(uint32_t threads, uint32_t n) {
    const uint32_t size = n / (32 * threads);
    return size < 1 ? 1 : size > 8 ? 8 : size;
}

/* When each thread can begin, from the start of the run. */
static void wake(uint32_t threads, bool is_asleep, double *free_at) {
    const double each = is_asleep ? given.open_asleep - given.open : given.open;
    free_at[0] = given.open + (is_asleep ? each * (threads - 1) : 0);
    for (uint32_t w = 1; w < threads; w++) free_at[w] = (is_asleep ? given.wake_asleep : given.wake) + each * (w - 1);
}

void ct_pool_run(ct_pool *pool, uint32_t n, ct_pool_fn task, void *context) {
    if (!pool || pool->threads < 2 || n < 2 || ct_thread_working.is_in_task) {
        for (uint32_t i = 0; i < n; i++) task(context, i, 0);
        return;
    }
    double free_at[MOST_THREADS], longest = 0, before = own_time();
    const uint32_t size = claim_size(pool->threads, n);
    wake(pool->threads, before - record.last_end > given.spin, free_at);
    ct_thread_working.is_in_task = true;
    for (uint32_t i = 0; i < n; i += size) {
        uint32_t worker = 0;
        for (uint32_t w = 1; w < pool->threads; w++)
            if (free_at[w] < free_at[worker]) worker = w;
        for (uint32_t k = i; k < n && k < i + size; k++) task(context, k, worker);
        const double now = own_time(), took = now - before;
        free_at[worker] += given.claim + took;
        longest = free_at[worker] > longest ? free_at[worker] : longest;
        record.step_tasks += took;
        record.tasks++;
        before = now;
    }
    ct_thread_working.is_in_task = false;
    record.runs++;
    record.step_longest += longest + given.close;
    record.last_end = before;
}

/* ---- the engine's doors ---- */

ct_engine *__real_make_engine(const runner *runner);
ct_engine *__wrap_make_engine(const runner *asked);
ct_status __real_ct_engine_run(ct_engine *engine, ct_step *steps, size_t n_steps);
ct_status __wrap_ct_engine_run(ct_engine *engine, ct_step *steps, size_t n_steps);
void __real_print_run(const run_label *label, ct_engine *engine, run_totals *totals, const char *more);
void __wrap_print_run(const run_label *label, ct_engine *engine, run_totals *totals, const char *more);

static void read_given(void) {
    const char *text = getenv("RECORD");
    if (text && sscanf(text, "%u %lf %lf %lf %lf %lf %lf %lf", &given.threads, &given.open, &given.wake,
                       &given.open_asleep, &given.wake_asleep, &given.claim, &given.close, &given.spin) < 1)
        die("RECORD='%s'", text);
}

ct_engine *__wrap_make_engine(const runner *asked) {
    runner with = *asked;
    read_given();
    if (given.threads) with.threads = given.threads;
    bench_clear(&record.ms);
    bench_clear(&record.serial_ms);
    bench_clear(&record.tasks_ms);
    bench_clear(&record.speedup);
    record.steps = 0;
    counts = (struct counts){0};
    return __real_make_engine(&with);
}

ct_status __wrap_ct_engine_run(ct_engine *engine, ct_step *steps, size_t n_steps) {
    record.step_tasks = record.step_longest = 0;
    if (record.steps == WARM_UP) {
        record.runs = record.tasks = 0;
        record.wall = 0;
        memset(record.stages, 0, sizeof record.stages);
    }
    const double start = bench_now(), begin = own_time();
    const ct_status status = __real_ct_engine_run(engine, steps, n_steps);
    const double serial = own_time() - begin - record.step_tasks;
    record.wall += bench_now() - start;
    if (record.steps++ >= WARM_UP) {
        bench_add(&record.ms, 1e3 * (serial + record.step_longest));
        bench_add(&record.serial_ms, 1e3 * serial);
        bench_add(&record.tasks_ms, 1e3 * record.step_tasks);
        bench_add(&record.speedup, (serial + record.step_tasks) / (serial + record.step_longest));
    }
    return status;
}

void __wrap_print_run(const run_label *label, ct_engine *engine, run_totals *totals, const char *more) {
    char text[MOST_TEXT];
    const double n = record.steps > WARM_UP ? record.steps - WARM_UP : 1;
    int at = snprintf(
        text, sizeof text,
        "%s,\"recorded\":{\"ms\":{\"p10\":%.6g,\"median\":%.6g,\"p90\":%.6g},\"serial_ms\":%.6g,\"tasks_ms\":%.6g,"
        "\"speedup\":%.6g,\"runs\":%.6g,\"tasks\":%.6g,\"wall_ms\":%.6g,\"stages_ms\":{",
        more, bench_quantile(&record.ms, 0.1), bench_quantile(&record.ms, 0.5), bench_quantile(&record.ms, 0.9),
        bench_quantile(&record.serial_ms, 0.5), bench_quantile(&record.tasks_ms, 0.5),
        bench_quantile(&record.speedup, 0.5), (double)record.runs / n, (double)record.tasks / n, 1e3 * record.wall / n);
    for (int s = 0; s < STAGES; s++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s\"%s\":%.6g", s ? "," : "", stage_names[s],
                       1e3 * record.stages[s] / n);
    const struct {
        const char *name;
        uint64_t n;
    } all[] = {{"cluster_pairs", counts.cluster_pairs},
               {"looked_at", counts.looked_at},
               {"crossings", counts.crossings},
               {"placed", counts.placed},
               {"added", counts.added},
               {"vertices", counts.vertices},
               {"crossed", counts.crossed},
               {"inside", counts.inside},
               {"moved", counts.moved},
               {"listed", counts.listed},
               {"near_triangles", counts.near_triangles},
               {"near_vertices", counts.near_vertices},
               {"spans", counts.spans}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s\"%s\":%llu", i ? "," : "},\"counts\":{", all[i].name,
                       (unsigned long long)all[i].n);
    snprintf(text + at, sizeof text - (size_t)at, "}}");
    __real_print_run(label, engine, totals, text);
}

/* ---- counts ---- */

static void count_part(const ct_exact_pair *exact, int b) {
    const ct_exact_part *part = &exact->part[b];
    const ct_exact_surface *surface = &part->surface[0];
    const ct_topology *topology = part->body.topology;
    const ct_body *body = exact->pair->body[b];
    counts.placed += part->body.n_placed;
    counts.added += surface->n_added;
    if (body->kind == CT_BODY_DEFORMABLE) {
        counts.moved += body->mesh->n_vertices;
        counts.listed += topology->clusters->first_vertex[topology->clusters->n];
    }
    for (uint32_t k = 0; k < surface->n_added; k++) {
        const ct_winding_numbers w = ct_exact_winding_numbers(topology, surface, k);
        const uint32_t cluster = surface->added[k], first = cluster * CT_CLUSTER_TRIANGLES;
        counts.vertices += topology->clusters->first_vertex[cluster + 1] - topology->clusters->first_vertex[cluster];
        for (uint32_t t = 0; t < CT_CLUSTER_TRIANGLES && first + t < part->body.n_triangles; t++) {
            int32_t winding = w.of_unit[w.unit_in_cluster[t]];
            if (w.crossed) winding += w.crossed->winding[topology->corners[first + t][1]];
            if (w.crossed && w.crossed->number[t])
                counts.crossed++;
            else
                counts.inside += winding != 0;
        }
    }
}

static void count_exact(const ct_exact_pair *exact) {
    counts.cluster_pairs += exact->n_cluster_pairs;
    for (uint32_t w = exact->first_worker; w < exact->end_worker; w++) {
        const ct_crossing_lists *lists = &ct_exact_scratch_of(exact->workspace, w)->lists;
        const ct_crossing *found = lists->of_body[0].data;
        counts.looked_at += lists->n_looked_at;
        for (size_t i = 0; i < lists->n[0]; i++) counts.crossings += found[i].crosses && found[i].passes & 1;
    }
    for (int b = 0; b < 2; b++) count_part(exact, b);
}

#define TIMED(stage, name)                                                                                             \
    void __real_##name(ct_exact_pair *exact);                                                                          \
    void __wrap_##name(ct_exact_pair *exact);                                                                          \
    void __wrap_##name(ct_exact_pair *exact) {                                                                         \
        const double start = bench_now();                                                                              \
        if ((stage) == CROSS && exact->pass == 0) record.stages[PLACE] += start - record.searched;                     \
        if ((stage) == SUM && record.steps == 0) count_exact(exact);                                                   \
        __real_##name(exact);                                                                                          \
        record.searched = bench_now();                                                                                 \
        record.stages[stage] += record.searched - start;                                                               \
    }
TIMED(SEARCH, ct_exact_search)
TIMED(CROSS, ct_exact_cross)
TIMED(FLOOD, ct_exact_flood)
TIMED(SUM, ct_exact_sum)

void __real_ct_exact_finish(ct_exact_pair *exact, ct_pair_contact *contact);
void __wrap_ct_exact_finish(ct_exact_pair *exact, ct_pair_contact *contact);
void __wrap_ct_exact_finish(ct_exact_pair *exact, ct_pair_contact *contact) {
    const double start = bench_now();
    __real_ct_exact_finish(exact, contact);
    record.stages[FINISH] += bench_now() - start;
}

void __real_ct_pair_finish(ct_pair_context *context);
void __wrap_ct_pair_finish(ct_pair_context *context);
void __wrap_ct_pair_finish(ct_pair_context *context) {
    if (record.steps == 0) {
        for (int b = 0; b < 2; b++) {
            counts.near_triangles += context->near[b].n_triangles;
            counts.near_vertices += context->near[b].n_vertices;
        }
        for (uint32_t w = context->first_worker; w < context->end_worker; w++) {
            const ct_ldi_scratch *scratch = ct_ldi_scratch_of(context->workspace, w);
            for (int v = 0; v < 3 && scratch->sums_pair == context->pair->number; v++)
                counts.spans += (uint64_t)(scratch->sums->spans[v] / context->plan->tiles[v].tile.ray_area);
        }
    }
    __real_ct_pair_finish(context);
}
