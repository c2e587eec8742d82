/* pauses.c - see pauses.h. */
#include "server/base/pauses.h"

#include <stdatomic.h>

#define LATE_NS (UINT64_C(1000000000) + PAUSES_LOOK_NS)

static _Atomic uint64_t looked_ns; /* 0: nobody looks */
static _Atomic uint64_t ended_ns;  /* when the last pause was over; 0: there was none */

void pauses_look(uint64_t now_ns) {
    const uint64_t then = atomic_load(&looked_ns);
    if (then && now_ns > then + LATE_NS) atomic_store(&ended_ns, now_ns); /* before looked_ns tells of no pause */
    atomic_store(&looked_ns, now_ns);
}

void pauses_rest(void) {
    atomic_store(&looked_ns, 0);
}

bool pauses_were(uint64_t then_ns, uint64_t now_ns) {
    const uint64_t looked = atomic_load(&looked_ns);
    const uint64_t since = looked > then_ns ? looked : then_ns;
    return (looked && now_ns > since + LATE_NS) || atomic_load(&ended_ns) > then_ns;
}
