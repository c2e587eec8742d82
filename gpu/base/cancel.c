/* cancel.c - requests to end a call, and how the engine's threads see them. */
#include "gpu/base/cancel.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gpu/base/clock.h"
#include "gpu/base/fail.h"

__thread ct_working ct_thread_working;

void ct_cancel_init(ct_cancel *cancel, double seconds) {
    memset(cancel, 0, sizeof *cancel);
    if (seconds > 0) cancel->until = ct_now() + seconds;
}

void ct_cancel_request(ct_cancel *cancel, uint32_t reason) {
    uint32_t none = CT_CANCEL_NONE;
    __atomic_compare_exchange_n(&cancel->reason, &none, reason, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

uint32_t ct_cancel_reason(const ct_cancel *cancel) {
    return __atomic_load_n(&cancel->reason, __ATOMIC_ACQUIRE);
}

const char *ct_cancel_phase(const ct_cancel *cancel) {
    return __atomic_load_n(&cancel->phase, __ATOMIC_RELAXED);
}

ct_cancel_point ct_cancel_where(const ct_cancel *cancel) {
    ct_cancel_point at = {"starting", NULL, 0, {0, 0}};
    if (__atomic_load_n(&cancel->is_noted, __ATOMIC_ACQUIRE) == 2) at = cancel->at;
    if (!at.phase) at.phase = "starting";
    return at;
}

ct_cancel *ct_cancel_scope(ct_cancel *cancel) {
    ct_cancel *before = ct_thread_working.cancel;
    ct_thread_working = (ct_working){cancel, NULL, {0, 0}};
    return before;
}

/* The clock that ct_now reads, as of the kernel's last tick, at most TICK_S ago. Costs 5 ns instead of 25. */
#define TICK_S 0.01
static double coarse_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* `tick`, but the very time where the next tick may be after a call's end: else a step with a limit of 1 ms would run on
 * for all of a tick. */
static double time_at(const ct_cancel *cancel, double tick) {
    for (; cancel; cancel = cancel->outer)
        if (tick < cancel->until && cancel->until < tick + TICK_S) return ct_now();
    return tick;
}

/* The first poll that counts something is kept, or else the first of all: threads that only wait for others, or clean
 * up, say less. */
static void note_where(ct_cancel *cancel, const ct_working *working, const char *what, uint64_t count) {
    uint32_t none = 0;
    if (!__atomic_compare_exchange_n(&cancel->is_noted, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
    cancel->at = (ct_cancel_point){working->phase, what, count, {working->body[0], working->body[1]}};
    __atomic_store_n(&cancel->is_noted, 2, __ATOMIC_RELEASE);
}

/* True once a tick of the clock, when the thread writes its phase to the call. If it did so at every poll, threads of one
 * call that are in different phases would keep taking the cache line from each other. */
static bool is_new_tick(const ct_cancel *cancel, double now) {
    static __thread double noted __attribute__((tls_model(CT_TLS_MODEL)));
    static __thread const ct_cancel *noted_for __attribute__((tls_model(CT_TLS_MODEL)));
    if (now == noted && cancel == noted_for) return false;
    noted = now;
    noted_for = cancel;
    return true;
}

/* Who asks may take the lock of an interpreter and run its code: seldom, and on the one thread that it expects. */
#define ASK_EVERY_S 0.1
static bool is_told_to_end(ct_cancel *cancel, double now) {
    if (!cancel->ask || cancel->asked != (uint64_t)pthread_self() || now < cancel->ask_at || cancel->is_asking)
        return false;
    cancel->ask_at = now + ASK_EVERY_S;
    cancel->is_asking = true;
    const bool ends = cancel->ask(cancel->context);
    cancel->is_asking = false;
    return ends;
}

static bool is_requested(ct_cancel *cancel, const ct_working *working, double now, bool tells_phase, const char *what,
                         uint64_t count) {
    if (tells_phase && working->phase) __atomic_store_n(&cancel->phase, working->phase, __ATOMIC_RELAXED);
    if (cancel->until > 0 && now >= cancel->until) ct_cancel_request(cancel, CT_CANCEL_TIME);
    if (__atomic_load_n(&cancel->at_poll, __ATOMIC_RELAXED) &&
        __atomic_fetch_sub(&cancel->at_poll, 1, __ATOMIC_RELAXED) == 1)
        ct_cancel_request(cancel, CT_CANCEL_CALLER);
    if (is_told_to_end(cancel, now)) ct_cancel_request(cancel, CT_CANCEL_CALLER);
    if (cancel->outer && is_requested(cancel->outer, working, now, tells_phase, what, count))
        ct_cancel_request(cancel, ct_cancel_reason(cancel->outer));
    if (ct_cancel_reason(cancel) == CT_CANCEL_NONE) return false;
    note_where(cancel, working, what, count);
    return true;
}

/* Whether is_requested would find nothing, at a time within all limits of the call. */
static bool is_quiet(const ct_cancel *cancel) {
    for (; cancel; cancel = cancel->outer)
        if (__atomic_load_n(&cancel->reason, __ATOMIC_RELAXED) != CT_CANCEL_NONE ||
            __atomic_load_n(&cancel->at_poll, __ATOMIC_RELAXED))
            return false;
    return true;
}

static bool is_late(const ct_cancel *cancel, double now) {
    for (; cancel; cancel = cancel->outer)
        if (cancel->until > 0 && now >= cancel->until) return true;
    return false;
}

/* A small step polls some fifty times, and the clock is most of what a poll costs. While polls follow each other so fast
 * that a tick has seen MANY of them, it is read at every fourth one only. */
#define MANY 8
static __thread double polled_tick __attribute__((tls_model(CT_TLS_MODEL)));
static __thread uint32_t polls_of_tick __attribute__((tls_model(CT_TLS_MODEL)));
static __thread uint32_t polls_unread __attribute__((tls_model(CT_TLS_MODEL))); /* until the next that reads it */

bool ct_cancel_check(const ct_working *working, const char *what, uint64_t count) {
    const bool quiet = is_quiet(working->cancel);
    if (quiet && polls_unread) {
        polls_unread--;
        return false;
    }
    const double tick = coarse_now(), now = time_at(working->cancel, tick);
    const bool is_tick = is_new_tick(working->cancel, tick);
    polls_of_tick = tick == polled_tick ? polls_of_tick + 1 : 0;
    polled_tick = tick;
    if (polls_of_tick >= MANY) polls_unread = 3;
    if (!is_tick && quiet && !is_late(working->cancel, now)) return false;
    return is_requested(working->cancel, working, now, is_tick, what, count);
}

bool ct_cancel_was_seen(const ct_cancel *cancel) {
    return __atomic_load_n(&cancel->is_noted, __ATOMIC_ACQUIRE) != 0;
}

/* What lets a call end sooner, by what it counted, or by what it did. */
static const char *remedy_of(const char *what, const char *phase) {
    static const struct {
        const char *what, *remedy;
    } remedies[] = {
        {"pairs of bodies", "move bodies apart, or step them in several scenes"},
        {"pairs of clusters", "use meshes with fewer triangles near each other"},
        {"pairs of triangles", "use meshes with fewer triangles near each other"},
        {"crossings", "use meshes with fewer triangles that cross"},
        {"contacts", "leave out patches or cells, or ask for less of each contact"},
        {"patches", "leave out patches, or use meshes with fewer parts"},
        {"ray crossings", "use a lower resolution or a larger pixel_size, or meshes of fewer layers"},
        {"rays", "use a lower resolution, a larger pixel_size, or a lower ray_budget"},
        {"tiles", "use a larger tolerance or a lower ray_budget"},
        {"voxels", "use a lower voxel_level"},
        {"points", "use a lower max_points"},
        {"separations", "use a smaller margin"},
        {"cells", "use a larger cell_size"},
        {"pixels", "use a lower resolution"},
        {"measuring distances for a wrap", "use a coarser resolution for it, or a mesh of fewer triangles"},
        {"making a wrap", "use a coarser resolution for it, or a mesh of fewer triangles"},
    };
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (!strcmp(what ? what : phase, remedies[i].what)) return remedies[i].remedy;
    return "use smaller meshes";
}

ct_status ct_fail_cancelled(ct_error *error) {
    const ct_cancel *cancel = ct_thread_working.cancel;
    if (!error || error->status != CT_OK || !cancel) return CT_CANCELLED;
    const ct_cancel_point at = ct_cancel_where(cancel);
    char pair[64] = "", count[64] = "";
    if (at.body[0] && at.body[0] == at.body[1])
        snprintf(pair, sizeof pair, " of body %u with itself", at.body[0]);
    else if (at.body[0])
        snprintf(pair, sizeof pair, " of bodies %u and %u", at.body[0], at.body[1]);
    if (at.what) snprintf(count, sizeof count, ", after %llu %s", (unsigned long long)at.count, at.what);
    snprintf(error->message, sizeof error->message, "cancelled while %s%s%s: %s, or allow more time", at.phase, pair,
             count, remedy_of(at.what, at.phase));
    error->field[0] = 0;
    error->status = CT_CANCELLED;
    return CT_CANCELLED;
}
