/* picture.c - see picture.h. */
#include "server/core/picture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void picture_fail_full(server_error *error) {
    server_fail(error, CONTACTD_BUSY, "server", "",
                "as many pictures wait to be drawn as may (%d, and half of them for one principal or address): ask "
                "again later",
                WORKERS_PICTURES);
    error->retry_after_ms = 3000;
}

bool picture_check(const ct_snapshot_options *options, workers *workers, const identity *who, server_error *error) {
    const uint64_t pixels = (uint64_t)options->width * options->height;
    if (pixels > PICTURE_MOST_PIXELS)
        return server_fail(error, CONTACTD_OUT_OF_RANGE, "snapshot", "width",
                           "a picture of %" PRIu32 " x %" PRIu32 " has %" PRIu64
                           " pixels, expected at most %d (2048 x 2048): draw parts of it, with zoom and target",
                           options->width, options->height, pixels, PICTURE_MOST_PIXELS);
    if (workers_have_room(workers, WORK_PICTURES, who)) return true;
    picture_fail_full(error);
    return false;
}

static ct_status draw(const ct_snapshot *snapshot, const ct_snapshot_options *options, uint8_t *pixels, picture *out,
                      ct_error *cause) {
    ct_status status = ct_snapshot_draw(snapshot, pixels, cause);
    if (status != CT_OK) return status;
    return ct_snapshot_png(options->width, options->height, pixels, &out->png, &out->size, cause);
}

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
        good = draw(*snapshot, options, pixels, out, &cause) == CT_OK; /* the worker's ct_cancel limits the time */
        if (!good) server_fail_work(error, object, &cause);
    }
    free(pixels);
    ct_snapshot_free(snapshot);
    if (good) metrics_add(metrics, METRICS_SNAPSHOTS, 1);
    return good;
}
