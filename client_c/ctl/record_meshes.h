/* record_meshes.h - the meshes that a recording needs and that were registered before it began: contactctl record asks
 * the server for each when it is first used, so that the file can be replayed on a server that never saw them. */
#ifndef CONTACTCTL_RECORD_MESHES_H
#define CONTACTCTL_RECORD_MESHES_H

#include "client_c/ctl/recording.h"
#include "client_c/ctl/sockets.h"

typedef struct record_request {
    uint32_t client;
    uint64_t request;
} record_request;

typedef struct record_meshes {
    const ctl *ctl;
    void *context, *socket; /* socket: NULL until the first mesh is fetched */
    wire_encoder *encoder;
    wire_scratch *scratch;
    uint64_t *known; /* [n_known] handles of meshes that the recording has, or that cannot be had */
    size_t n_known, room_known;
    record_request *registering; /* [n_registering] without an answer yet */
    size_t n_registering, room_registering;
    uint64_t last_request, epoch; /* epoch: of the server that the handles are of */
} record_meshes;

/* The context is ZeroMQ's. False: out of memory. */
bool record_meshes_open(record_meshes *meshes, const ctl *ctl, void *context);
void record_meshes_close(record_meshes *meshes);
/* Looks at a message that passes. True: it is about a mesh that the recording lacks, and *out is the server's answer
 * with its geometry, which the caller closes. Waits for that answer. Where it cannot be had, a message says so. */
bool record_meshes_fetch(record_meshes *meshes, direction direction, uint32_t client, const ctl_frames *message,
                         ctl_frames *out);

#endif
