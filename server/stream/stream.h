/* stream.h - the ZeroMQ side of contactd: simulators' sessions, scenes and steps. Started and stopped by main.c.
 *
 * One I/O thread owns the ROUTER socket: it receives, decodes, admits and answers, and runs small steps itself when the
 * scheduler's worker is idle. The service's workers (server/core/workers.h) read and free meshes, open scenes and draw.
 */
#ifndef SERVER_STREAM_H
#define SERVER_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "server/base/error.h"
#include "server/core/service.h"

typedef struct stream stream;

/* Binds service->config->stream, or takes over service->sockets if some are the stream's, and starts answering. A port
 * 0 or "*" takes any free one. The service must outlive the stream. NULL: nothing runs, and *error names the endpoint
 * and why. */
stream *stream_start(const service *service, server_error *error);

/* The endpoints as bound, e.g. "tcp://127.0.0.1:41873". */
uint32_t stream_endpoint_count(const stream *stream);
const char *stream_endpoint(const stream *stream, size_t index);

/* Tells all connected clients service->successors, if there are any: the server begins to drain. */
void stream_announce_drain(stream *stream);

/* Receives nothing more, answers what the scheduler and the workers still finish, sends for at most linger_ms, ends.
 * Where there are successors it first refuses requests until all clients have gone, at most for linger_ms. The
 * scheduler must have been drained and not be stopped. NULL inside is allowed. */
void stream_stop(stream **stream, uint32_t linger_ms);

#endif
