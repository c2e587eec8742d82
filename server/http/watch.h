/* watch.h - no connection may dawdle: each has a deadline for what it does now, and one that misses it is cut. This is
 * what stops clients that send a byte every few seconds; libmicrohttpd's own timeout begins anew with every byte. */
#ifndef CONTACTD_HTTP_WATCH_H
#define CONTACTD_HTTP_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WATCH_HEADER_NS   UINT64_C(10000000000) /* from accepting to the end of the first request's header */
#define WATCH_IDLE_NS     UINT64_C(30000000000) /* from an answer's end to the end of the next request's header */
#define WATCH_GRACE_NS    UINT64_C(30000000000) /* for a body or an answer, and beyond it WATCH_BYTES_PER_S */
#define WATCH_BYTES_PER_S UINT64_C(65536)

typedef struct watch watch;

typedef struct watched { /* one connection; lives between watch_add and watch_remove */
    struct watched *next, *previous;
    int fd;
    _Atomic uint64_t deadline_ns; /* of clock_ns(); 0: none (it waits for us) */
    bool cut;
} watched;

watch *watch_start(void); /* NULL: out of memory or threads */
void watch_stop(watch **watch);

watched *watch_add(watch *watch, int fd);             /* NULL: out of memory */
void watch_remove(watch *watch, watched *connection); /* before the socket is closed */

void watch_set(watched *connection, uint64_t from_now_ns); /* connection may be NULL */
void watch_clear(watched *connection);

/* How long moving that many bytes may take. */
uint64_t watch_transfer_ns(uint64_t bytes);

#endif
