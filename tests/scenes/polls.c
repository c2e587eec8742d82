/* polls.c - watches the engine's polls. */
#include "tests/scenes/polls.h"

#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "gpu/base/cancel.h"

bool __real_ct_cancel_check(const ct_working *working, const char *what, uint64_t count);
bool __wrap_ct_cancel_check(const ct_working *working, const char *what, uint64_t count);

static uint64_t n_polls, longest_ns, ended_ns; /* ended_ns: of the process; 0: not yet */
static const char *longest_phase;
static polls_stacks *stacks;
static uint64_t sampled_after_ns;

static uint64_t n_begun; /* calls of polls_begin */

/* Of this thread's last poll, or of the first look at it since polls_begin. */
static __thread struct { uint64_t ns, begun; } last __attribute__((tls_model("initial-exec")));

static uint64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void note_gap(uint64_t ns, const char *phase) {
    uint64_t longest = __atomic_load_n(&longest_ns, __ATOMIC_RELAXED);
    while (ns > longest)
        if (__atomic_compare_exchange_n(&longest_ns, &longest, ns, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            __atomic_store_n(&longest_phase, phase, __ATOMIC_RELAXED);
            return;
        }
}

/* Processor time since the thread's last poll. A thread of the pool may have idled until now. */
static uint64_t since_poll(uint64_t now) {
    const uint64_t begun = __atomic_load_n(&n_begun, __ATOMIC_RELAXED);
    if (last.begun == begun) return now - last.ns;
    last.begun = begun, last.ns = now;
    return 0;
}

bool __wrap_ct_cancel_check(const ct_working *working, const char *what, uint64_t count) {
    __atomic_add_fetch(&n_polls, 1, __ATOMIC_RELAXED);
    const uint64_t now = now_ns(CLOCK_THREAD_CPUTIME_ID), since = since_poll(now);
    if (!__atomic_load_n(&ended_ns, __ATOMIC_RELAXED)) note_gap(since, working->phase);
    last.ns = now;
    const bool is_cancelled = __real_ct_cancel_check(working, what, count);
    uint64_t none = 0;
    if (is_cancelled)
        __atomic_compare_exchange_n(&ended_ns, &none, now_ns(CLOCK_PROCESS_CPUTIME_ID), false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    return is_cancelled;
}

void polls_begin(void) {
    n_polls = longest_ns = ended_ns = 0;
    longest_phase = NULL;
    last.begun = __atomic_add_fetch(&n_begun, 1, __ATOMIC_RELAXED);
    last.ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
}

polls_seen polls_end(void) {
    const uint64_t now = now_ns(CLOCK_PROCESS_CPUTIME_ID), ended = __atomic_load_n(&ended_ns, __ATOMIC_RELAXED);
    if (!ended) note_gap(since_poll(now_ns(CLOCK_THREAD_CPUTIME_ID)), "returning");
    return (polls_seen){n_polls, 1e-9 * (double)longest_ns, ended ? 1e-9 * (double)(now - ended) : 0, longest_phase};
}

/* ---- where ---- */

static void sample(int signal) {
    (void)signal;
    if (!ct_thread_working.cancel) return;
    const uint64_t ended = __atomic_load_n(&ended_ns, __ATOMIC_RELAXED);
    uint64_t since = since_poll(now_ns(CLOCK_THREAD_CPUTIME_ID));
    if (ended)
        since = now_ns(CLOCK_PROCESS_CPUTIME_ID) - ended;
    else
        note_gap(since, ct_thread_working.phase);
    if (since < sampled_after_ns) return;
    const uint32_t at = __atomic_fetch_add(&stacks->n, 1, __ATOMIC_RELAXED);
    if (at >= POLLS_STACKS) return;
    polls_stack *to = &stacks->of[at];
    void *frames[POLLS_DEPTH + 2];
    const int n = backtrace(frames, POLLS_DEPTH + 2) - 2; /* without this function and the signal's frame */
    to->depth = n < 0 ? 0 : n;
    memcpy(to->frames, frames + 2, (size_t)to->depth * sizeof *frames);
    to->is_after = ended != 0;
    to->since = 1e-9 * (double)since;
}

void polls_sample(polls_stacks *to, double seconds) {
    void *frames[4];
    backtrace(frames, 4); /* loads what it needs, which a signal handler may not */
    stacks = to;
    sampled_after_ns = (uint64_t)(1e9 * seconds);
    struct sigaction action = {.sa_handler = sample, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    const struct itimerval each = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_PROF, &each, NULL);
}
