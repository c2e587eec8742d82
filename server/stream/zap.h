/* zap.h - answers ZeroMQ's question whether a client may connect (ZAP, RFC 27), on a thread of its own, so that a flood
 * of handshakes does not hold up the I/O thread. For stream.c. */
#ifndef SERVER_STREAM_ZAP_H
#define SERVER_STREAM_ZAP_H

#include "server/guard/guard.h"
#include "server/metrics/metrics.h"

typedef struct zap zap;

/* Endpoints name the domain that says what is asked for. */
#define ZAP_DOMAIN_KEY  "key"  /* a listed CURVE key */
#define ZAP_DOMAIN_UID  "uid"  /* a listed user of this machine, over ipc:// */
#define ZAP_DOMAIN_OPEN "open" /* nothing: ipc:// where the socket's file lets in only the server's own user */

/* The messages of a client that was admitted carry its credential, as guard_find takes it, as ZeroMQ's "User-Id".
 * context is ZeroMQ's, with no endpoint bound yet. NULL: ZeroMQ's or the system's error is in errno. */
zap *zap_start(void *context, guard *guard, metrics *metrics);
/* After zmq_ctx_shutdown of the context, which ends the thread, and before zmq_ctx_term. NULL inside is allowed. */
void zap_stop(zap **zap);

#endif
