/* shim_block.cu - how the shim runs a grid: two multiprocessors, each a thread of the host that takes every other
 * block; a block's threads are fibers, which take turns where they wait for each other. See shim.cuh.
 *
 * ThreadSanitizer is told of fibers as if they were threads, and of nothing that orders them but barriers, fences, and
 * the beginning and end of a launch: a race between any two threads of a grid shows, as long as their blocks run on
 * different multiprocessors or are the same. So nothing here that a fiber and its scheduler share may be instrumented.
 */
#ifdef CT_CUDA_SHIM
#include "gpu/backend/cuda/cuda.cuh"

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
#define UNSEEN __attribute__((noinline, no_sanitize("thread")))
#else
#define UNSEEN
#define __tsan_acquire(object) ((void)(object))
#define __tsan_release(object) ((void)(object))
#endif

thread_local ct_shim_index ct_shim_at;

/* ---- fibers ---- */

/* Keeps what a called function must preserve on the stack it leaves, and goes on where the other was left. */
extern "C" void ct_shim_swap(void **leave, void *go_on);
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
enum { SWAP_WORDS = 8, SWAP_RETURN = 6 }; /* what a new stack begins with, and where in it to go */
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
#error "CUDA=shim knows x86-64 and aarch64 only: how is a stack left for another?"
#endif

namespace {

enum : unsigned { MULTIPROCESSORS = 2, WARP = 32, WARPS = CT_BLOCK / WARP };
enum : size_t { STACK = 128 << 10, GUARD = 64 << 10 };

struct fiber {
    void *stack; /* lowest address */
    size_t size;
    void *left;      /* where it was left */
    void *sanitizer; /* what ThreadSanitizer knows it by */
};

/* What a thread of a block waits for. */
enum waits { READY, DONE, AT_BARRIER, AT_ACTIVE, AT_MATCH, AT_SHUFFLE };

struct lane {
    fiber self;
    waits now;
    const char *file; /* where it waits */
    int line;
    unsigned mask;  /* it waits with these of its warp; or what AT_ACTIVE and AT_MATCH give */
    int from;       /* AT_SHUFFLE: whose value it wants */
    uint64_t value; /* AT_MATCH, AT_SHUFFLE: its own; then what AT_SHUFFLE gives */
};

struct multiprocessor {
    fiber host;
    lane lanes[CT_BLOCK];
    lane *running;
    const std::function<void()> *kernel;
    unsigned order;      /* CT_SHIM_ORDER */
    uint64_t dice;       /* who of those at a place are there together; unless order is 0 */
    unsigned n_barriers; /* passed */
    /* What ThreadSanitizer knows barriers by, in turn, and the launch. That is the host's, who hands it over: through
     * a multiprocessor's own, blocks of one could come to be ordered with those of the other. */
    char barrier[2], *begun, *ended;
};

thread_local multiprocessor *mine;

/* ---- turns ---- */

UNSEEN void swap(fiber *from, fiber *to) {
#ifdef CT_TELL_ASAN
    void *kept = nullptr;
    __sanitizer_start_switch_fiber(&kept, to->stack, to->size);
#endif
#ifdef CT_TELL_TSAN
    __tsan_switch_to_fiber(to->sanitizer, __tsan_switch_to_fiber_no_sync);
#endif
    ct_shim_swap(&from->left, to->left);
#ifdef CT_TELL_ASAN
    __sanitizer_finish_switch_fiber(kept, nullptr, nullptr);
#endif
}

UNSEEN fiber *enter(multiprocessor *m, lane *l) {
    m->running = l;
    ct_shim_at.thread = (unsigned)(l - m->lanes);
    return &l->self;
}

/* From a thread that waits or is done to the next of its warp that is ready, or to the scheduler. */
UNSEEN void leave(multiprocessor *m, lane *self) {
    const unsigned t = (unsigned)(self - m->lanes), flip = m->order % WARP;
    fiber *next = &m->host;
    for (unsigned k = (t % WARP ^ flip) + 1; k < WARP && next == &m->host; k++) {
        lane *l = &m->lanes[t / WARP * WARP + (k ^ flip)];
        if (l->now == READY) next = enter(m, l);
    }
    swap(&self->self, next);
}

/* The life of a thread's fiber: the same kernel for one block after another, then another kernel. */
UNSEEN void live() {
#ifdef CT_TELL_ASAN
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
    multiprocessor *m = mine;
    lane *self = m->running;
    for (;;) {
        __tsan_acquire(m->begun);
        (*m->kernel)();
        __tsan_release(m->ended);
        self->now = DONE;
        leave(m, self);
    }
}

UNSEEN lane *wait(waits what, const char *file, int line) {
    lane *self = mine->running;
    self->file = file;
    self->line = line;
    self->now = what;
    leave(mine, self);
    return self;
}

UNSEEN const char *name(waits what) {
    return what == AT_BARRIER  ? "__syncthreads"
           : what == AT_ACTIVE ? "__activemask"
           : what == AT_MATCH  ? "__match_any_sync"
                               : "__shfl_sync";
}

[[noreturn]] UNSEEN void give_up(const multiprocessor *m, const lane *l, const char *why) {
    fprintf(stderr, "CUDA shim: %s:%d: thread %d of block %u, at %s: %s\n", l->file, l->line, (int)(l - m->lanes),
            ct_shim_at.block, name(l->now), why);
    abort();
}

UNSEEN bool is_at_one_place(const lane *a, const lane *b) {
    return a->now == b->now && a->line == b->line && a->file == b->file;
}

/* Have all come that a lane of a warp waits for? */
UNSEEN bool have_all_come(const lane *warp, const lane *l) {
    for (unsigned k = 0; k < WARP; k++)
        if (l->mask >> k & 1 && !(is_at_one_place(&warp[k], l) && warp[k].mask == l->mask)) return false;
    return true;
}

UNSEEN void match(lane *warp, unsigned mask) {
    unsigned same[WARP];
    for (unsigned k = 0; k < WARP; k++) {
        same[k] = 0;
        for (unsigned i = 0; i < WARP && mask >> k & 1; i++)
            if (mask >> i & 1 && warp[i].value == warp[k].value) same[k] |= 1u << i;
    }
    for (unsigned k = 0; k < WARP; k++) {
        if (!(mask >> k & 1)) continue;
        warp[k].mask = same[k];
        warp[k].now = READY;
    }
}

UNSEEN void shuffle(const multiprocessor *m, lane *warp, unsigned mask) {
    uint64_t given[WARP];
    for (unsigned k = 0; k < WARP; k++) {
        if (!(mask >> k & 1)) continue;
        const unsigned from = (unsigned)warp[k].from % WARP;
        if (!(mask >> from & 1)) give_up(m, &warp[k], "it wants the value of a thread that its mask leaves out");
        given[k] = warp[from].value;
    }
    for (unsigned k = 0; k < WARP; k++) {
        if (!(mask >> k & 1)) continue;
        warp[k].value = given[k];
        warp[k].now = READY;
    }
}

/* Those of a warp that are at one place, or by the dice some of them, go on together. */
UNSEEN void activate(multiprocessor *m, lane *warp, const lane *first) {
    const lane place = *first;
    unsigned mask = 0;
    for (unsigned k = 0; k < WARP; k++) {
        if (!is_at_one_place(&warp[k], &place)) continue;
        m->dice = m->dice * 6364136223846793005u + 1442695040888963407u;
        const bool stays = m->order && m->dice >> 62 == 0;
        if (&warp[k] == first || !stays) mask |= 1u << k;
    }
    for (unsigned k = 0; k < WARP; k++) {
        if (!(mask >> k & 1)) continue;
        warp[k].mask = mask;
        warp[k].now = READY;
    }
}

/* With no thread of a warp ready: lets some go on. False: none can. */
UNSEEN bool go_on(multiprocessor *m, lane *warp) {
    for (unsigned k = 0; k < WARP; k++) {
        lane *l = &warp[k];
        if (l->now != AT_MATCH && l->now != AT_SHUFFLE) continue;
        if (!(l->mask >> k & 1)) give_up(m, l, "its mask leaves it out");
        if (!have_all_come(warp, l)) continue;
        if (l->now == AT_MATCH)
            match(warp, l->mask);
        else
            shuffle(m, warp, l->mask);
        return true;
    }
    for (unsigned k = 0; k < WARP; k++)
        if (warp[k].now == AT_ACTIVE) {
            activate(m, warp, &warp[k]);
            return true;
        }
    return false;
}

/* With all threads done or waiting for others: opens the barrier. False: they are done. */
UNSEEN bool open_barrier(multiprocessor *m) {
    const lane *first = nullptr;
    for (lane &l : m->lanes) {
        if (l.now == DONE) continue;
        if (l.now != AT_BARRIER) give_up(m, &l, "it waits for threads that do not come");
        if (first && !is_at_one_place(first, &l)) give_up(m, &l, "others wait at another barrier");
        if (!first) first = &l;
    }
    if (!first) return false;
    m->n_barriers++;
    for (lane &l : m->lanes)
        if (l.now == AT_BARRIER) l.now = READY;
    return true;
}

UNSEEN void run_block(multiprocessor *m, unsigned block) {
    ct_shim_at.block = block;
    for (lane &l : m->lanes) l.now = READY;
    do {
        for (unsigned w = 0; w < WARPS; w++) {
            const unsigned first = (w ^ m->order / WARP % WARPS) * WARP;
            do {
                for (unsigned k = 0; k < WARP; k++) {
                    lane *l = &m->lanes[first + (k ^ m->order % WARP)];
                    if (l->now == READY) swap(&m->host, enter(m, l));
                }
            } while (go_on(m, &m->lanes[first]));
        }
    } while (open_barrier(m));
}

/* ---- multiprocessors ---- */

/* A stack as ct_shim_swap leaves one, from which it goes to live(). */
void begin(fiber *f, char *stack) {
    f->stack = stack;
    f->size = STACK;
    void **top = (void **)(stack + STACK) - SWAP_WORDS;
    top[SWAP_RETURN] = (void *)live;
    f->left = top;
#ifdef CT_TELL_TSAN
    f->sanitizer = __tsan_create_fiber(0);
#endif
}

/* The multiprocessors of one thread of the host that synchronises streams. */
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
        __asan_unpoison_memory_region(stacks, CT_BLOCK * each); /* what the fibers still had on them */
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

    UNSEEN void run_blocks(unsigned index) {
        mine->kernel = kernel;
        mine->begun = &begun;
        mine->ended = &ended;
        mine->order = order;
        mine->dice = order;
        ct_shim_at.grid = grid;
        for (unsigned b = index; b < grid; b += MULTIPROCESSORS) run_block(mine, order ? grid - 1 - b : b);
    }
};

} // namespace

void ct_shim_run(unsigned grid, unsigned order, const std::function<void()> &kernel) {
    static thread_local grid_runner runner;
    runner.run(grid, order, kernel);
}

/* ---- what threads do together ---- */

UNSEEN void ct_shim_barrier(const char *file, int line) {
    char *object = &mine->barrier[mine->n_barriers & 1];
    __tsan_release(object);
    wait(AT_BARRIER, file, line);
    __tsan_acquire(object);
}

UNSEEN unsigned ct_shim_active(const char *file, int line) {
    return wait(AT_ACTIVE, file, line)->mask;
}

UNSEEN unsigned ct_shim_match(unsigned mask, uint64_t key, const char *file, int line) {
    mine->running->mask = mask;
    mine->running->value = key;
    return wait(AT_MATCH, file, line)->mask;
}

UNSEEN uint64_t ct_shim_shuffle(unsigned mask, uint64_t value, int from, const char *file, int line) {
    mine->running->mask = mask;
    mine->running->value = value;
    mine->running->from = from;
    return wait(AT_SHUFFLE, file, line)->value;
}

#endif
