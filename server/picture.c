/* picture.c - see picture.h. */
#include "server/picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

bool picture_make(ct_snapshot **snapshot, const ct_snapshot_options *options, uint64_t scene, metrics *metrics,
                  picture *out, server_error *error) {
    char object[96];
    ct_error cause = {0};
    snprintf(object, sizeof object, "scene %" PRIu64, scene);
    *out = (picture){.width = options->width, .height = options->height};
    uint8_t *pixels = malloc((size_t)options->width * options->height * 4);
    bool good = pixels || server_fail(error, CONTACTD_OUT_OF_MEMORY, object, "width",
                                      "no memory for a picture of %" PRIu32 " x %" PRIu32 " pixels", options->width,
                                      options->height);
    if (good) {
        good = ct_snapshot_draw(*snapshot, pixels, &cause) == CT_OK &&
               ct_snapshot_png(options->width, options->height, pixels, &out->png, &out->size, &cause) == CT_OK;
        if (!good) server_fail_engine(error, object, &cause);
    }
    free(pixels);
    ct_snapshot_free(snapshot);
    if (good) metrics_add(metrics, METRICS_SNAPSHOTS, 1);
    return good;
}
