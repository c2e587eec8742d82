/* sockets.h - ZeroMQ sockets that carry whole messages as they are, for record and replay. */
#ifndef CONTACTCTL_SOCKETS_H
#define CONTACTCTL_SOCKETS_H

#include <zmq.h>

#include "client_c/ctl/ctl.h"
#include "proto/codec.h"

typedef struct ctl_frames {
    zmq_msg_t frames[1 + WIRE_MAX_FRAMES];
    size_t n;
} ctl_frames;

void ctl_set_common(void *socket); /* no lingering, heartbeats */
/* A connection to the server that the command line names, with its keys. NULL after a message. */
void *ctl_socket(const ctl *ctl, void *context);
/* One message, without waiting. False: none, or one of too many frames, which is dropped. */
bool ctl_receive(void *socket, ctl_frames *out);
/* Frames go to ZeroMQ; identity too, or NULL. Dropped if there is no room, as clients send again. */
void ctl_send(void *socket, zmq_msg_t *identity, ctl_frames *frames);
void ctl_close_frames(ctl_frames *frames);
size_t ctl_view_frames(const ctl_frames *frames, wire_frame *out);

#endif
