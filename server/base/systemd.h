/* systemd.h - what a service manager passes to the server (listening sockets) and is told by it (ready, alive,
 * stopping).
 *
 * The protocols are those of sd_listen_fds(3) and sd_notify(3), without their library: two environment variables, and
 * datagrams to the socket that a third one names. Without these variables every call does nothing.
 */
#ifndef SERVER_SYSTEMD_H
#define SERVER_SYSTEMD_H

#include <stdbool.h>
#include <stdint.h>

#include "server/base/error.h"

enum { SYSTEMD_MAX_SOCKETS = 16 };

typedef struct passed_sockets {
    int stream[SYSTEMD_MAX_SOCKETS]; /* listening, non-blocking, close-on-exec */
    uint32_t n_stream;
    int http; /* the same, or -1 */
} passed_sockets;

/* Reads LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES, and removes them from the environment. A socket unit says with
 * FileDescriptorName= which port its socket is: "stream" or "http". Call it before any thread exists. The sockets
 * belong to the caller. False: a socket has another name, or is none that connections can be accepted from. */
bool systemd_take_sockets(passed_sockets *out, server_error *error);

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them from the environment. Call it before any thread
 * exists. False: NOTIFY_SOCKET names no socket. */
bool systemd_open(server_error *error);
void systemd_close(void);

void systemd_say_ready(const char *status); /* requests are answered from now on */
/* It ends within limit_ms from now, which may be more than the unit's TimeoutStopSec. */
void systemd_say_stopping(uint64_t limit_ms);
/* The thread that calls this often works. Tells so a few times per WatchdogSec, at most; one thread only. */
void systemd_say_alive(uint64_t now_ns);

#endif
