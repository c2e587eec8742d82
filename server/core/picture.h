/* picture.h - draws a snapshot that the scheduler took, and makes a PNG file of it: for HTTP and stream, on the
 * service's workers. */
#ifndef SERVER_PICTURE_H
#define SERVER_PICTURE_H

#include "gpu/include/snapshot.h"
#include "server/base/error.h"
#include "server/core/workers.h"
#include "server/metrics/metrics.h"

typedef struct picture {
    uint32_t width, height;
    uint8_t *png; /* free() */
    size_t size;
} picture;

/* A picture of more pixels is refused before anything is done for it: a software rasteriser takes 1 us for each. */
enum { PICTURE_MOST_PIXELS = 4 << 20 };
/* Whether the picture's size, and the pictures that wait, allow to begin with it. Before its snapshot is taken. */
bool picture_check(const ct_snapshot_options *options, workers *workers, const identity *who, server_error *error);
/* Why the workers did not take a picture. */
void picture_fail_full(server_error *error);

/* Draws and frees the snapshot of `scene`. False: *error says why. */
bool picture_make(ct_snapshot **snapshot, const ct_snapshot_options *options, uint64_t scene, metrics *metrics,
                  picture *out, server_error *error);

#endif
