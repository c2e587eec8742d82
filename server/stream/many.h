/* many.h - StepMany: the steps of many scenes that one message asks for, and the one answer to all of them. For the
 * stream's own files. */
#ifndef SERVER_STREAM_MANY_H
#define SERVER_STREAM_MANY_H

#include "server/stream/internal.h"

/* Queues the steps of a decoded StepMany. False: *error says why none was; else stream_finish follows. */
bool many_submit(request *request, server_error *error);
/* Sends the answer of a finished one. */
void many_reply(stream *stream, request *request);
/* Whether each scene of a message's list is there once. */
bool many_check_ids(const uint64_t *scenes, uint32_t n, server_error *error);
void many_free(many_steps **many); /* NULL inside is allowed */

#endif
