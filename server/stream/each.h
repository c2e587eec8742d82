/* each.h - ResetScenes, CloseScenes, CopyScene and AddBodies: the same command many times. */
#ifndef SERVER_EACH_H
#define SERVER_EACH_H

#include "server/stream/internal.h"

/* False: *error says why the request is refused; else it is answered later. */
bool each_submit(request *request, server_error *error);
void each_reply(stream *stream, request *request);
void each_free(each_scene **each); /* nulls; NULL is allowed */

#endif
