/* warn.c - counts the warnings of steps, and logs each body's condition when it changes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/warnings.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/schedule/internal.h"

#define CHECK_WARNING(name, number, text)                                                                              \
    _Static_assert((int)CT_WARNING_##name == number, "warnings.h and contact.h differ in " #name);
CONTACTD_WARNING_MAP(CHECK_WARNING)
#define COUNT_WARNING(name, number, text) +1
enum { N_NAMED = 0 CONTACTD_WARNING_MAP(COUNT_WARNING), N_WARNINGS = 0 CT_WARNING_MAP(COUNT_WARNING) };
_Static_assert(N_NAMED == N_WARNINGS, "warnings.h lacks a code");

/* A scene of many bodies that flicker must not fill the disk. */
enum { LINES = 20, WINDOW_S = 10 };

/* Whether one more line may be logged now. */
static bool may_log(warning_log *log) {
    uint64_t now = clock_ns(), begin = atomic_load(&log->begin_ns);
    /* Signed: another thread may have begun a window since this one looked at the clock. */
    if ((begin == 0 || (int64_t)(now - begin) >= WINDOW_S * INT64_C(1000000000)) &&
        atomic_compare_exchange_strong(&log->begin_ns, &begin, now)) {
        uint64_t left_out = atomic_exchange(&log->left_out, 0);
        atomic_store(&log->lines, 0);
        if (left_out) log_warn("schedule", "%" PRIu64 " changes of bodies' conditions were not logged", left_out);
    }
    if (atomic_fetch_add(&log->lines, 1) < LINES) return true;
    atomic_fetch_add(&log->left_out, 1);
    return false;
}

static void log_change(scheduler *scheduler, const scene *scene, const ct_warning *was, const ct_warning *is) {
    if (!may_log(&scheduler->warning_log)) return;
    char volume[40] = "";
    if (is && !isnan(is->value)) snprintf(volume, sizeof volume, " (%g m^3)", is->value);
    if (is)
        log_warn("schedule", "scene %" PRIu64 ": body %u: %s: %s%s", scene->handle, is->body, ct_warning_name(is->code),
                 ct_warning_text(is->code), volume);
    else
        log_info("schedule", "scene %" PRIu64 ": body %u: %s is over", scene->handle, was->body,
                 ct_warning_name(was->code));
}

/* Both lists are in rising order of body. */
static void log_changes(scheduler *scheduler, const scene *scene, const ct_result *result) {
    size_t i = 0, k = 0;
    while (i < scene->n_warnings || k < result->n_warnings) {
        const ct_warning *was = i < scene->n_warnings ? &scene->warnings[i] : NULL;
        const ct_warning *is = k < result->n_warnings ? &result->warnings[k] : NULL;
        if (was && is && was->body != is->body) *(was->body < is->body ? &is : &was) = NULL;
        if (!was || !is || was->code != is->code) log_change(scheduler, scene, was, is);
        i += was != NULL;
        k += is != NULL;
    }
}

void scheduler_note_warnings(scheduler *scheduler, scene *scene, const ct_result *result) {
    for (size_t i = 0; i < result->n_warnings; i++) metrics_count_warning(scheduler->metrics, result->warnings[i].code);
    if (!result->n_warnings && !scene->n_warnings) return;
    log_changes(scheduler, scene, result);
    if (result->n_warnings > scene->room_warnings) {
        ct_warning *grown = realloc(scene->warnings, result->n_warnings * sizeof *grown);
        if (!grown) return; /* the same changes are logged once more after the next step */
        scene->warnings = grown;
        scene->room_warnings = result->n_warnings;
    }
    scene->n_warnings = result->n_warnings;
    if (result->n_warnings) memcpy(scene->warnings, result->warnings, result->n_warnings * sizeof *scene->warnings);
}
