/* watch.h - the HTTP connections: their deadlines and their number.
 *
 * Each connection has a deadline for what it does now, and one that misses it is cut. This stops clients that send a
 * byte every few seconds; libmicrohttpd's own timeout begins anew with every byte. When connections become too many,
 * the one that has sent no request for the longest is cut, else the one that has been sending its request for the
 * longest. So a newcomer is heard, whoever holds the connections.
 *
 * libmicrohttpd does not look at a connection whose request is carried out. What is computed for a client that has left
 * is ended here. A client that closes only its sending side is taken to have left, as other HTTP servers do: what TCP
 * tells is the same as of one that was killed. What is answered within WATCH_LOOK_NS reaches it all the same. */
#ifndef CONTACTD_HTTP_WATCH_H
#define CONTACTD_HTTP_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpu/include/contact_cancel.h"

#define WATCH_HEADER_NS   UINT64_C(10000000000) /* from accepting to the end of the first request's header */
#define WATCH_IDLE_NS     UINT64_C(30000000000) /* from an answer's end to the end of the next request's header */
#define WATCH_GRACE_NS    UINT64_C(30000000000) /* for a body or an answer, and beyond it WATCH_BYTES_PER_S */
#define WATCH_BYTES_PER_S UINT64_C(65536)
#define WATCH_LOOK_NS     UINT64_C(20000000)   /* between two looks whether clients that wait have left */
#define WATCH_UNSERVED_NS UINT64_C(3000000000) /* between two looks: the process did not run meanwhile */

typedef struct watch watch;

typedef enum watch_stage { WATCH_NO_REQUEST, WATCH_RECEIVING, WATCH_ANSWERING } watch_stage;

typedef struct watched { /* one connection; lives between watch_add and watch_remove */
    struct watched *next, *previous;
    int fd;
    _Atomic watch_stage stage;
    _Atomic uint64_t since_ns;    /* of clock_ns(): when the stage began */
    _Atomic uint64_t deadline_ns; /* of clock_ns(); 0: none (it waits for us) */
    bool cut;
    ct_cancel *left; /* to be requested when the client leaves; NULL: none */
} watched;

watch *watch_start(uint32_t max_connections); /* NULL: out of memory or threads */
void watch_stop(watch **watch);

watched *watch_add(watch *watch, int fd);             /* NULL: out of memory */
void watch_remove(watch *watch, watched *connection); /* before the socket is closed */

/* More connections than max_connections are open, none of which could be cut: they wait for answers. */
bool watch_is_crowded(watch *watch);

/* connection may be NULL in the following. */
/* From now on `left` is requested, with SCHEDULE_LEFT, when the client has left; NULL: no longer. */
void watch_leave(watch *watch, watched *connection, ct_cancel *left);
void watch_begin(watched *connection, watch_stage stage, uint64_t from_now_ns);
void watch_set(watched *connection, uint64_t from_now_ns); /* a new deadline in the same stage */
void watch_clear(watched *connection);                     /* no deadline: it waits for us */
/* Sets the deadline to the stage's begin plus watch_transfer_ns of the bytes that have come since. */
void watch_note_received(watched *connection, uint64_t bytes);

/* How long moving that many bytes may take. */
uint64_t watch_transfer_ns(uint64_t bytes);

#endif
