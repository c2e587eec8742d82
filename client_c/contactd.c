/* contactd.c - the C client's base: options, connecting and closing, errors, and questions about the server. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client_c/base.h"
#include "client_c/session.h"

const char *contactd_code_name(contactd_code code) {
    return wire_code_name((int)code);
}
const char *contactd_code_text(contactd_code code) {
    return wire_code_text((int)code);
}
const char *contactd_warning_name(contactd_warning_code code) {
    return wire_warning_name((int)code);
}
const char *contactd_warning_text(contactd_warning_code code) {
    return wire_warning_text((int)code);
}
const char *contactd_phase_name(int phase) {
    return phase >= 0 && phase < WIRE_TIMINGS ? wire_timing_names[phase] : "";
}

/* ---- questions ---- */

contactd_code contactd_get_server(contactd_client *client, contactd_server *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "server", out);
    const wire_welcome *w = &client->welcome;
    *out = (contactd_server){.server = w->server,
                             .backend = w->backend,
                             .rasterizer = w->rasterizer,
                             .device = w->device,
                             .epoch = w->epoch,
                             .protocol = w->version,
                             .lease_ms = w->lease_ms,
                             .max_resolution = w->max_resolution,
                             .max_in_flight = w->max_in_flight,
                             .max_message_bytes = w->max_message_bytes,
                             .max_triangles = w->max_triangles,
                             .max_vertices = w->max_vertices,
                             .n_methods = w->n_methods,
                             .recoveries = client->recoveries};
    memcpy(out->methods, w->methods, sizeof out->methods);
    return CONTACTD_OK;
}

contactd_code contactd_ping(contactd_client *client, double *round_trip_us) {
    CTC_BEGIN(client);
    for (;;) {
        uint64_t nonce = client->request ^ 0x5eedu, sent = ctc_now();
        wire_message m = {.type = WIRE_PING, .u.ping.nonce = nonce};
        contactd_code code = ctc_exchange(client, &m, WIRE_PONG, "server");
        if (code == CTC_AGAIN) continue;
        if (code == CONTACTD_OK && client->message.u.pong.nonce != nonce)
            return ctc_fail(client, CONTACTD_INTERNAL, "server", "nonce", "the server answered another ping");
        if (code == CONTACTD_OK && round_trip_us) *round_trip_us = (double)(ctc_now() - sent) * 1e-3;
        return code;
    }
}

contactd_code contactd_get_status(contactd_client *client, contactd_status *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "server", out);
    contactd_code code;
    do {
        wire_message m = {.type = WIRE_GET_STATUS};
        code = ctc_exchange(client, &m, WIRE_STATUS, "server");
    } while (code == CTC_AGAIN);
    if (code != CONTACTD_OK) return code;
    const wire_status *s = &client->message.u.status;
    contactd_device *devices = realloc(client->list, (s->n_devices + 1) * sizeof *devices);
    if (!devices) return ctc_no_memory(client, "list of devices");
    client->list = devices;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const wire_device *d = &s->devices[i];
        devices[i] = (contactd_device){.device = d->device,
                                       .scenes = d->scenes,
                                       .triangles = d->triangles,
                                       .memory_budget = d->memory_budget,
                                       .memory_used = d->memory_used,
                                       .memory_meshes = d->memory_meshes,
                                       .memory_bodies = d->memory_bodies,
                                       .scratch_bytes = d->scratch_bytes,
                                       .scratch_peak = d->scratch_peak,
                                       .uploaded = d->uploaded,
                                       .downloaded = d->downloaded,
                                       .launches = d->launches,
                                       .lost = d->lost,
                                       .lost_reason = d->lost_reason};
    }
    *out = (contactd_status){.server = s->server,
                             .backend = s->backend,
                             .rasterizer = s->rasterizer,
                             .device = s->device,
                             .simd = s->simd,
                             .ready_reason = s->ready_reason,
                             .ready = s->ready,
                             .threads = s->threads,
                             .epoch = s->epoch,
                             .uptime_s = s->uptime_s,
                             .sessions = s->sessions,
                             .scenes = s->scenes,
                             .meshes = s->meshes,
                             .bodies = s->bodies,
                             .queue_depth = s->queue_depth,
                             .queue_capacity = s->queue_capacity,
                             .max_resolution = s->max_resolution,
                             .mesh_bytes = s->mesh_bytes,
                             .mesh_bytes_limit = s->mesh_bytes_limit,
                             .scene_bytes = s->scene_bytes,
                             .scratch_bytes = s->scratch_bytes,
                             .steps = s->steps,
                             .contacts = s->contacts,
                             .max_message_bytes = s->max_message_bytes,
                             .devices = devices,
                             .n_devices = s->n_devices,
                             .n_methods = s->n_methods,
                             .auto_method = s->auto_method,
                             .insecure = s->insecure};
    memcpy(out->methods, s->methods, sizeof out->methods);
    return CONTACTD_OK;
}
