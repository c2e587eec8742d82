/* picture.h - a snapshot that the scheduler took, drawn and made a file of: for HTTP and stream, on threads of theirs
 * that may work long. */
#ifndef SERVER_PICTURE_H
#define SERVER_PICTURE_H

#include "gpu/include/snapshot.h"
#include "server/error.h"
#include "server/metrics/metrics.h"

typedef struct picture {
    uint32_t width, height;
    uint8_t *png; /* free() */
    size_t size;
} picture;

/* Draws and frees the snapshot of `scene`. False: *error says why. */
bool picture_make(ct_snapshot **snapshot, const ct_snapshot_options *options, uint64_t scene, metrics *metrics,
                  picture *out, server_error *error);

#endif
