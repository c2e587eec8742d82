/* shim_block.cu - runs a grid for the shim. Two multiprocessors, each a thread of the host, run every other block. The
 * threads of a block are fibers, which switch where they wait for each other. See shim.cuh.
 *
 * ThreadSanitizer treats each fiber as a thread, and only barriers, fences and the begin and end of a launch order
 * them. So a race between two threads of a grid is found if they share a block or if their blocks run on different
 * multiprocessors. Code that a fiber and its scheduler share must not be instrumented: it would order them.
 */
#ifdef CT_CUDA_SHIM
#include "gpu/device/cuda/cuda.cuh"

#include <condition_variable>
#include <mutex>
#include <thread>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define CT_TELL_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define CT_TELL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CT_TELL_ASAN 1
#elif __has_feature(thread_sanitizer)
#define CT_TELL_TSAN 1
#endif
#endif
#ifdef CT_TELL_ASAN
#include <sanitizer/asan_interface.h>
#endif
#ifdef CT_TELL_TSAN
#include <sanitizer/tsan_interface.h>
#define UNINSTRUMENTED __attribute__((noinline, no_sanitize("thread")))
#else
#define UNINSTRUMENTED
#define __tsan_acquire(object) ((void)(object))
#define __tsan_release(object) ((void)(object))
#endif

thread_local ct_shim_index ct_shim_at;

/* ---- fibers ---- */

/* Pushes the registers that a function must preserve onto the current stack, saves its top in *from, and continues on
 * stack `to`. */
extern "C" void ct_shim_swap(void **from, void *to);
#if defined(__x86_64__)
asm(".text\n"
    ".type ct_shim_swap, @function\n"
    "ct_shim_swap:\n"
    "  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp\n"
    "  ret\n"
    ".size ct_shim_swap, . - ct_shim_swap\n");
enum { SWAP_WORDS = 8, SWAP_RETURN = 6 }; /* words of a new stack, and the one that holds the return address */
#elif defined(__aarch64__)
asm(".text\n"
    ".type ct_shim_swap, %function\n"
    "ct_shim_swap:\n"
    "  stp x19, x20, [sp, #-160]!\n"
    "  stp x21, x22, [sp, #16]\n"
    "  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n"
    "  stp x27, x28, [sp, #64]\n"
    "  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n"
    "  stp d10, d11, [sp, #112]\n"
    "  stp d12, d13, [sp, #128]\n"
    "  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n"
    "  str x9, [x0]\n"
    "  mov sp, x1\n"
    "  ldp x21, x22, [sp, #16]\n"
    "  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n"
    "  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n"
    "  ldp d10, d11, [sp, #112]\n"
    "  ldp d12, d13, [sp, #128]\n"
    "  ldp d14, d15, [sp, #144]\n"
    "  ldp x19, x20, [sp], #160\n"
    "  ret\n"
    ".size ct_shim_swap, . - ct_shim_swap\n");
enum { SWAP_WORDS = 20, SWAP_RETURN = 11 };
#else
#error "CUDA=shim supports x86-64 and aarch64 only: ct_shim_swap is written in assembler"
#endif

namespace {

enum : unsigned { MULTIPROCESSORS = 2, WARP = 32, WARPS = CT_BLOCK / WARP };
enum : size_t { STACK = 128 << 10, GUARD = 64 << 10 };

struct fiber {
    void *stack; /* lowest address */
    size_t size;
    void *top;       /* of its stack, where it does not run */
    void *sanitizer; /* ThreadSanitizer's handle */
};

/* Whether a thread of a block runs, or what it waits for. */
enum fiber_state { READY, DONE, AT_BARRIER, AT_ACTIVE, AT_MATCH, AT_SHUFFLE };

struct lane {
    fiber self;
    fiber_state state;
    const char *file; /* where it waits */
    int line;
    unsigned mask;  /* threads of the warp that it waits with; then the result of AT_ACTIVE and AT_MATCH */
    int from;       /* AT_SHUFFLE: the lane whose value it reads */
    uint64_t value; /* AT_MATCH, AT_SHUFFLE: its own; then the result of AT_SHUFFLE */
};

struct multiprocessor {
    fiber host;
    lane lanes[CT_BLOCK];
    lane *running;
    const std::function<void()> *kernel;
    unsigned order;      /* CT_SHIM_ORDER */
    uint64_t random;     /* splits the threads that reach an __activemask; unused if order is 0 */
    unsigned n_barriers; /* passed */
    /* Objects that order memory for ThreadSanitizer: two barriers, used in turn, and the begin and end of the launch.
     * The latter belong to the launch: objects of a multiprocessor would order its blocks with those of the other. */
    char barrier[2], *begun, *ended;
};

thread_local multiprocessor *mine;

/* ---- switching ---- */

UNINSTRUMENTED void swap(fiber *from, fiber *to) {
#ifdef CT_TELL_ASAN
    void *kept = nullptr;
    __sanitizer_start_switch_fiber(&kept, to->stack, to->size);
#endif
#ifdef CT_TELL_TSAN
    __tsan_switch_to_fiber(to->sanitizer, __tsan_switch_to_fiber_no_sync);
#endif
    ct_shim_swap(&from->top, to->top);
#ifdef CT_TELL_ASAN
    __sanitizer_finish_switch_fiber(kept, nullptr, nullptr);
#endif
}

UNINSTRUMENTED fiber *enter(multiprocessor *m, lane *l) {
    m->running = l;
    ct_shim_at.thread = (unsigned)(l - m->lanes);
    return &l->self;
}

/* Switches from a thread that waits or is done to the next ready thread of its warp, or to the scheduler. */
UNINSTRUMENTED void switch_away(multiprocessor *m, lane *self) {
    const unsigned t = (unsigned)(self - m->lanes), flip = m->order % WARP;
    fiber *next = &m->host;
    for (unsigned k = (t % WARP ^ flip) + 1; k < WARP && next == &m->host; k++) {
        lane *l = &m->lanes[t / WARP * WARP + (k ^ flip)];
        if (l->state == READY) next = enter(m, l);
    }
    swap(&self->self, next);
}

/* A fiber runs the kernel once for each block, one launch after another. */
UNINSTRUMENTED void run_fiber() {
#ifdef CT_TELL_ASAN
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
    multiprocessor *m = mine;
    lane *self = m->running;
    for (;;) {
        __tsan_acquire(m->begun);
        (*m->kernel)();
        __tsan_release(m->ended);
        self->state = DONE;
        switch_away(m, self);
    }
}

UNINSTRUMENTED lane *wait(fiber_state what, const char *file, int line) {
    lane *self = mine->running;
    self->file = file;
    self->line = line;
    self->state = what;
    switch_away(mine, self);
    return self;
}

UNINSTRUMENTED const char *name(fiber_state what) {
    return what == AT_BARRIER  ? "__syncthreads"
           : what == AT_ACTIVE ? "__activemask"
           : what == AT_MATCH  ? "__match_any_sync"
                               : "__shfl_sync";
}

[[noreturn]] UNINSTRUMENTED void abort_at(const multiprocessor *m, const lane *l, const char *why) {
    fprintf(stderr, "CUDA shim: %s:%d: thread %d of block %u, at %s: %s\n", l->file, l->line, (int)(l - m->lanes),
            ct_shim_at.block, name(l->state), why);
    abort();
}

UNINSTRUMENTED bool wait_together(const lane *a, const lane *b) {
    return a->state == b->state && a->line == b->line && a->file == b->file;
}

/* Whether all threads that a lane waits for have arrived. */
UNINSTRUMENTED bool all_have_arrived(const lane *warp, const lane *l) {
    for (unsigned k = 0; k < WARP; k++)
        if (l->mask >> k & 1 && !(wait_together(&warp[k], l) && warp[k].mask == l->mask)) return false;
    return true;
}

UNINSTRUMENTED void match(lane *warp, unsigned mask) {
    unsigned same[WARP];
    for (unsigned k = 0; k < WARP; k++) {
        same[k] = 0;
        for (unsigned i = 0; i < WARP && mask >> k & 1; i++)
            if (mask >> i & 1 && warp[i].value == warp[k].value) same[k] |= 1u << i;
    }
    for (unsigned k = 0; k < WARP; k++) {
        if (!(mask >> k & 1)) continue;
        warp[k].mask = same[k];
        warp[k].state = READY;
    }
}

UNINSTRUMENTED void shuffle(const multiprocessor *m, lane *warp, unsigned mask) {
    uint64_t given[WARP];
    for (unsigned k = 0; k < WARP; k++) {
        if (!(mask >> k & 1)) continue;
        const unsigned from = (unsigned)warp[k].from % WARP;
        if (!(mask >> from & 1)) abort_at(m, &warp[k], "it reads the value of a thread that is not in its mask");
        given[k] = warp[from].value;
    }
    for (unsigned k = 0; k < WARP; k++) {
        if (!(mask >> k & 1)) continue;
        warp[k].value = given[k];
        warp[k].state = READY;
    }
}

/* Resumes the threads of a warp that wait at the same __activemask, or a random part of them, with a common mask. */
UNINSTRUMENTED void resume_active(multiprocessor *m, lane *warp, const lane *first) {
    const lane at = *first;
    unsigned mask = 0;
    for (unsigned k = 0; k < WARP; k++) {
        if (!wait_together(&warp[k], &at)) continue;
        m->random = m->random * 6364136223846793005u + 1442695040888963407u;
        const bool stays = m->order && m->random >> 62 == 0;
        if (&warp[k] == first || !stays) mask |= 1u << k;
    }
    for (unsigned k = 0; k < WARP; k++) {
        if (!(mask >> k & 1)) continue;
        warp[k].mask = mask;
        warp[k].state = READY;
    }
}

/* With no thread of a warp ready: resumes threads that wait at an intrinsic. False: none can resume. */
UNINSTRUMENTED bool resume_warp(multiprocessor *m, lane *warp) {
    for (unsigned k = 0; k < WARP; k++) {
        lane *l = &warp[k];
        if (l->state != AT_MATCH && l->state != AT_SHUFFLE) continue;
        if (!(l->mask >> k & 1)) abort_at(m, l, "its mask does not contain it");
        if (!all_have_arrived(warp, l)) continue;
        if (l->state == AT_MATCH)
            match(warp, l->mask);
        else
            shuffle(m, warp, l->mask);
        return true;
    }
    for (unsigned k = 0; k < WARP; k++)
        if (warp[k].state == AT_ACTIVE) {
            resume_active(m, warp, &warp[k]);
            return true;
        }
    return false;
}

/* With all threads done or at a barrier: opens the barrier. False: all are done. */
UNINSTRUMENTED bool open_barrier(multiprocessor *m) {
    const lane *first = nullptr;
    for (lane &l : m->lanes) {
        if (l.state == DONE) continue;
        if (l.state != AT_BARRIER) abort_at(m, &l, "it waits for threads that do not come");
        if (first && !wait_together(first, &l)) abort_at(m, &l, "others wait at another barrier");
        if (!first) first = &l;
    }
    if (!first) return false;
    m->n_barriers++;
    for (lane &l : m->lanes)
        if (l.state == AT_BARRIER) l.state = READY;
    return true;
}

UNINSTRUMENTED void run_block(multiprocessor *m, unsigned block) {
    ct_shim_at.block = block;
    for (lane &l : m->lanes) l.state = READY;
    do {
        for (unsigned w = 0; w < WARPS; w++) {
            const unsigned first = (w ^ m->order / WARP % WARPS) * WARP;
            do {
                for (unsigned k = 0; k < WARP; k++) {
                    lane *l = &m->lanes[first + (k ^ m->order % WARP)];
                    if (l->state == READY) swap(&m->host, enter(m, l));
                }
            } while (resume_warp(m, &m->lanes[first]));
        }
    } while (open_barrier(m));
}

/* ---- multiprocessors ---- */

/* Makes a stack as ct_shim_swap leaves one, which returns into run_fiber(). */
void begin(fiber *f, char *stack) {
    f->stack = stack;
    f->size = STACK;
    void **top = (void **)(stack + STACK) - SWAP_WORDS;
    top[SWAP_RETURN] = (void *)run_fiber;
    f->top = top;
#ifdef CT_TELL_TSAN
    f->sanitizer = __tsan_create_fiber(0);
#endif
}

/* The multiprocessors that run the grids of one host thread. */
class grid_runner {
  public:
    grid_runner() {
        for (unsigned i = 0; i < MULTIPROCESSORS; i++) threads[i] = std::thread([this, i] { serve(i); });
    }
    ~grid_runner() {
        {
            std::lock_guard<std::mutex> lock(mutex);
            is_closing = true;
        }
        change.notify_all();
        for (std::thread &t : threads) t.join();
    }
    void run(unsigned size, unsigned how, const std::function<void()> &what) {
        std::unique_lock<std::mutex> lock(mutex);
        grid = size;
        order = how;
        kernel = &what;
        __tsan_release(&begun);
        n_launches++;
        n_busy = MULTIPROCESSORS;
        change.notify_all();
        change.wait(lock, [this] { return n_busy == 0; });
        __tsan_acquire(&ended);
    }

  private:
    std::mutex mutex;
    std::condition_variable change;
    unsigned grid, order, n_busy = 0;
    const std::function<void()> *kernel;
    uint64_t n_launches = 0;
    bool is_closing = false;
    char begun, ended;
    std::thread threads[MULTIPROCESSORS];

    void serve(unsigned index) {
        mine = (multiprocessor *)calloc(1, sizeof *mine);
        const size_t each = STACK + GUARD;
        char *stacks =
            (char *)mmap(nullptr, CT_BLOCK * each, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (!mine || stacks == MAP_FAILED) abort();
        for (unsigned t = 0; t < CT_BLOCK; t++) {
            mprotect(stacks + t * each + GUARD, STACK, PROT_READ | PROT_WRITE);
            begin(&mine->lanes[t].self, stacks + t * each + GUARD);
        }
        find_host(&mine->host);
        for (uint64_t done = 0;; done++) {
            {
                std::unique_lock<std::mutex> lock(mutex);
                change.wait(lock, [&] { return is_closing || n_launches > done; });
                if (is_closing) break;
            }
            run_blocks(index);
            std::lock_guard<std::mutex> lock(mutex);
            n_busy--;
            change.notify_all();
        }
#ifdef CT_TELL_TSAN
        for (lane &l : mine->lanes) __tsan_destroy_fiber(l.self.sanitizer);
#endif
#ifdef CT_TELL_ASAN
        __asan_unpoison_memory_region(stacks, CT_BLOCK * each); /* frames of the fibers */
#endif
        munmap(stacks, CT_BLOCK * each);
        free(mine);
    }

    static void find_host(fiber *host) {
        pthread_attr_t attributes;
        if (pthread_getattr_np(pthread_self(), &attributes)) abort();
        pthread_attr_getstack(&attributes, &host->stack, &host->size);
        pthread_attr_destroy(&attributes);
#ifdef CT_TELL_TSAN
        host->sanitizer = __tsan_get_current_fiber();
#endif
    }

    UNINSTRUMENTED void run_blocks(unsigned index) {
        mine->kernel = kernel;
        mine->begun = &begun;
        mine->ended = &ended;
        mine->order = order;
        mine->random = order;
        ct_shim_at.grid = grid;
        for (unsigned b = index; b < grid; b += MULTIPROCESSORS) run_block(mine, order ? grid - 1 - b : b);
    }
};

} // namespace

void ct_shim_run(unsigned grid, unsigned order, const std::function<void()> &kernel) {
    static thread_local grid_runner runner;
    runner.run(grid, order, kernel);
}

/* ---- barriers and intrinsics ---- */

UNINSTRUMENTED void ct_shim_barrier(const char *file, int line) {
    char *object = &mine->barrier[mine->n_barriers & 1];
    __tsan_release(object);
    wait(AT_BARRIER, file, line);
    __tsan_acquire(object);
}

UNINSTRUMENTED unsigned ct_shim_active(const char *file, int line) {
    return wait(AT_ACTIVE, file, line)->mask;
}

UNINSTRUMENTED unsigned ct_shim_match(unsigned mask, uint64_t key, const char *file, int line) {
    mine->running->mask = mask;
    mine->running->value = key;
    return wait(AT_MATCH, file, line)->mask;
}

UNINSTRUMENTED uint64_t ct_shim_shuffle(unsigned mask, uint64_t value, int from, const char *file, int line) {
    mine->running->mask = mask;
    mine->running->value = value;
    mine->running->from = from;
    return wait(AT_SHUFFLE, file, line)->value;
}

#endif
