/* picture.h - draws a snapshot that the scheduler took, and makes a PNG file of it: for HTTP and stream, on the
 * service's workers. */
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
