/* hostile_run.c - checks of steps that are ended early. */
#include "tests/scenes/hostile_run.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/scenes/build.h"
#include "tests/scenes/polls.h"
#include "tests/scenes/stage.h"

static char complaint[1024]; /* empty: there is none. The first one stays */

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...) {
    if (complaint[0]) return;
    va_list args;
    va_start(args, format);
    vsnprintf(complaint, sizeof complaint, format, args);
    va_end(args);
}

/* Bytes allocated now, where a sanitizer counts them. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated(void) {
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
}

/* ---- calls that are watched ---- */

typedef struct requester {
    ct_cancel *cancel;
    double after;
} requester;

static void *request(void *argument) {
    const requester *r = argument;
    const struct timespec wait = {(time_t)r->after, (long)(1e9 * (r->after - (double)(time_t)r->after))};
    nanosleep(&wait, NULL);
    ct_cancel_request(r->cancel, CT_CANCEL_CALLER);
    return NULL;
}

static void check_polls(const char *call) {
    const polls_seen seen = polls_end();
    if (seen.longest > HOSTILE_GRACE)
        complain("%s: %.3f s of processor time without a poll, %s", call, seen.longest,
                 seen.phase ? seen.phase : "in no phase");
    if (seen.goes_on > HOSTILE_GRACE)
        complain("%s: went on for %.3f s of processor time after a poll said to end", call, seen.goes_on);
}

/* What a call that may be ended early may answer. */
static void check_status(const char *call, ct_status status, const ct_error *error, const ct_cancel *cancel) {
    if (status != error->status) complain("%s: status %d, but the error has %d", call, status, error->status);
    if (status == CT_OK) return;
    if (!error->message[0]) complain("%s: %s without a message", call, ct_status_name(status));
    if (status == CT_CANCELLED) {
        if (!ct_cancel_reason(cancel)) complain("%s: cancelled, but nothing said so", call);
        if (!strstr(error->message, ct_cancel_where(cancel).phase))
            complain("%s: no phase in %s", call, error->message);
    } else if (status != CT_OUT_OF_MEMORY && status != CT_LIMIT_EXCEEDED && status != CT_OUT_OF_RANGE) {
        complain("%s: %s: %s", call, ct_status_name(status), error->message);
    }
}

static ct_status open_stage(hostile_stage *stage, ct_engine *engine, const hostile_scene *scene,
                            const struct shape shapes[2], double seconds) {
    ct_cancel cancel;
    ct_error error = {0};
    ct_cancel_init(&cancel, seconds);
    ct_cancel_scope(&cancel);
    polls_begin();
    const ct_status status = hostile_open(stage, engine, scene, shapes, &error);
    check_polls("making the scene");
    ct_cancel_scope(NULL);
    check_status("making the scene", status, &error, &cancel);
    return status;
}

static ct_status run_step(const hostile_stage *stage, const hostile_scene *scene, const hostile_end *end,
                          ct_result **result) {
    ct_cancel cancel;
    ct_cancel_init(&cancel, end->seconds);
    cancel.at_poll = end->at_poll;
    if (end->is_requested) ct_cancel_request(&cancel, CT_CANCEL_CALLER);
    requester asks = {&cancel, end->request};
    pthread_t thread;
    const bool is_asked = end->request > 0 && !pthread_create(&thread, NULL, request, &asks);
    ct_step step = hostile_step(stage, scene);
    step.cancel = &cancel;
    polls_begin();
    const ct_status status = ct_engine_run(stage->engine, &step, 1);
    check_polls("step");
    if (is_asked) pthread_join(thread, NULL);
    check_status("step", status, &step.error, &cancel);
    if ((status == CT_OK) != (step.result != NULL))
        complain("step: %s with %s result", ct_status_name(status), step.result ? "a" : "no");
    *result = step.result;
    return status;
}

/* ---- what a step left behind ---- */

static ct_body_info *bodies_now(const hostile_stage *stage, size_t *n) {
    *n = ct_scene_body_count(stage->scene);
    ct_body_info *infos = shape_alloc(*n, sizeof *infos);
    for (size_t i = 0; i < *n; i++) ct_scene_body_at(stage->scene, i, &infos[i]);
    return infos;
}

static void check_bodies(const hostile_stage *stage, const ct_body_info *before) {
    size_t n;
    ct_body_info *now = bodies_now(stage, &n);
    for (size_t i = 0; i < n; i++)
        if (memcmp(now[i].pose, before[i].pose, sizeof now[i].pose) != 0 ||
            memcmp(now[i].lo, before[i].lo, sizeof now[i].lo) != 0 ||
            memcmp(now[i].hi, before[i].hi, sizeof now[i].hi) != 0)
            complain("the step failed, but body %u has moved", now[i].body);
    free(now);
}

static void compare(const ct_result *a, const ct_result *b) {
    char hex[2][33];
    stage_hash(a, hex[0]);
    stage_hash(b, hex[1]);
    if (strcmp(hex[0], hex[1]) != 0) complain("the next step's contacts are not a fresh engine's");
    if (a->n_points != b->n_points || a->n_separations != b->n_separations || a->n_warnings != b->n_warnings) {
        complain("the next step has %llu points, %zu separations and %zu warnings, a fresh engine's %llu, %zu and %zu",
                 (unsigned long long)a->n_points, a->n_separations, a->n_warnings, (unsigned long long)b->n_points,
                 b->n_separations, b->n_warnings);
        return;
    }
    for (uint64_t i = 0; i < a->n_points; i++)
        if (memcmp(a->points[i].position, b->points[i].position, sizeof a->points[i].position) != 0)
            complain("the next step's points are not a fresh engine's");
    for (size_t i = 0; i < a->n_separations; i++)
        if (memcmp(&a->separations[i].distance, &b->separations[i].distance, sizeof a->separations[i].distance) != 0)
            complain("the next step's separations are not a fresh engine's");
}

static ct_engine *make_engine(void) {
    ct_engine_options options;
    ct_engine *engine = NULL;
    ct_engine_options_init(&options);
    options.backend = "cpu";
    options.threads = 2;
    options.max_scratch_bytes = HOSTILE_SCRATCH;
    if (ct_engine_create(&options, &engine, NULL)) abort();
    return engine;
}

/* The next step, here and on a fresh engine. */
static void check_next(const hostile_stage *stage, const hostile_scene *scene, const struct shape shapes[2]) {
    static const hostile_end never = {0};
    ct_engine *engine = make_engine();
    hostile_stage fresh;
    ct_result *is = NULL, *expected = NULL;
    if (open_stage(&fresh, engine, scene, shapes, 0) == CT_OK) {
        const ct_status status = run_step(stage, scene, &never, &is);
        const ct_status should = run_step(&fresh, scene, &never, &expected);
        if (status != should)
            complain("the next step ends with %s, a fresh engine's with %s", ct_status_name(status),
                     ct_status_name(should));
        if (is && expected) compare(is, expected);
    }
    ct_result_free(&is);
    ct_result_free(&expected);
    hostile_close(&fresh);
    ct_engine_destroy(&engine);
}

const char *hostile_check(const hostile_scene *scene, const hostile_end *end, bool compares, ct_status *status) {
    complaint[0] = 0;
    struct shape shapes[2];
    hostile_scene_shapes(scene, shapes);
    const size_t before = allocated();
    ct_engine *engine = make_engine();
    hostile_stage stage;
    *status = open_stage(&stage, engine, scene, shapes, end->seconds);
    if (*status == CT_OK) {
        size_t n;
        ct_body_info *bodies = bodies_now(&stage, &n);
        ct_result *result = NULL;
        *status = run_step(&stage, scene, end, &result);
        if (*status != CT_OK) check_bodies(&stage, bodies);
        ct_engine_facts facts;
        ct_engine_get_facts(engine, 0, &facts);
        if (facts.scratch_peak > HOSTILE_SCRATCH)
            complain("the step took %llu bytes of working memory of %d", (unsigned long long)facts.scratch_peak,
                     HOSTILE_SCRATCH);
        ct_result_free(&result);
        free(bodies);
        if (compares) check_next(&stage, scene, shapes);
    }
    hostile_close(&stage);
    ct_engine_destroy(&engine);
    enum { OF_THREADS = 8192 }; /* bytes that the C library keeps of threads that have ended, for the next ones */
    const size_t after = allocated();
    if (after > before + OF_THREADS) complain("%zu bytes are still allocated when all is destroyed", after - before);
    for (int s = 0; s < 2; s++) shape_free(&shapes[s]);
    return complaint[0] ? complaint : NULL;
}
