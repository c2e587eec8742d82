/* contactd.c - the C client's base: options, connecting and closing, errors, and questions about the server. */
#include "client_c/contactd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client_c/client.h"

#define OPTIONS_COOKIE 0xc1a2u

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

/* ---- shared by the library ---- */

uint64_t ctc_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double ctc_random(contactd_client *client) {
    uint64_t z = client->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

char *ctc_strdup(const char *text) {
    return strdup(text ? text : "");
}

bool ctc_grow(void *array, size_t n, size_t *cap, size_t element) {
    if (n < *cap) return true;
    size_t more = *cap ? 2 * *cap : 8;
    while (more <= n) more *= 2;
    void *old, *grown;
    memcpy(&old, array, sizeof old);
    grown = realloc(old, more * element);
    if (!grown) return false;
    memcpy(array, &grown, sizeof grown);
    *cap = more;
    return true;
}
bool ctc_grow32(void *array, uint32_t n, uint32_t *cap, size_t element) {
    size_t wide = *cap;
    if (!ctc_grow(array, n, &wide, element)) return false;
    *cap = (uint32_t)wide;
    return true;
}

static contactd_code set_error(contactd_error *error, contactd_code code, const char *object, const char *field,
                               const char *format, va_list args) {
    *error = (contactd_error){.code = code, .retry = wire_code_retry((int)code)};
    snprintf(error->object, sizeof error->object, "%s", object);
    snprintf(error->field, sizeof error->field, "%s", field);
    vsnprintf(error->message, sizeof error->message, format, args);
    return code;
}

contactd_code ctc_fail(contactd_client *client, contactd_code code, const char *object, const char *field,
                       const char *format, ...) {
    va_list args;
    va_start(args, format);
    set_error(&client->error, code, object, field, format, args);
    va_end(args);
    return code;
}

contactd_code ctc_fill_error(contactd_error *error, contactd_code code, const char *object, const char *field,
                             const char *format, ...) {
    if (!error) return code;
    va_list args;
    va_start(args, format);
    set_error(error, code, object, field, format, args);
    va_end(args);
    return code;
}

contactd_code ctc_fail_null(contactd_client *client, const char *object, const char *argument) {
    return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, object, argument, "%s is NULL", argument);
}

contactd_code ctc_no_memory(contactd_client *client, const char *object) {
    return ctc_fail(client, CONTACTD_OUT_OF_MEMORY, object, "", "%s: out of memory in this process", object);
}

void ctc_begin(contactd_client *client) {
    client->error = (contactd_error){.code = CONTACTD_OK};
    client->deadline_ns = ctc_now() + (uint64_t)client->timeout_ms * 1000000u;
    client->strangers = 0;
    client->refused = 0;
    client->greeting.is_asked = false;
    client->unauthenticated = false;
    client->waiting_ns = 0;
    client->work_epoch = 0;
    client->call_ends = 0;
    client->work_ends = &client->call_ends;
}

/* ---- connecting ---- */

void contactd_options_init(contactd_options *options) {
    if (!options) return;
    const char *server = getenv("CONTACTD_SERVER");
    *options = (contactd_options){.cookie = OPTIONS_COOKIE,
                                  .server = server && *server ? server : "tcp://127.0.0.1:5555",
                                  .name = "",
                                  .timeout_ms = 10000,
                                  .resend_ms = 3000,
                                  .spin_us = 2000,
                                  .keep_meshes = true,
                                  .server_key = getenv("CONTACTD_SERVER_KEY"),
                                  .client_key = getenv("CONTACTD_CLIENT_KEY")};
}

void ctc_client_free(contactd_client *client) {
    ctc_steps_free(client);
    for (uint32_t i = 0; i < client->n_scenes; i++) ctc_scene_free(&client->scenes[i]);
    for (uint32_t i = 0; i < client->n_meshes; i++) ctc_mesh_free(&client->meshes[i]);
    ctc_link_close(client);
    wire_encoder_free(&client->encoder);
    wire_scratch_free(&client->scratch);
    free(client->scenes);
    free(client->meshes);
    free(client->updates);
    free(client->directions);
    free(client->list);
    free(client->address);
    free(client->left_address);
    ctc_servers_close(&client->servers);
    free(client->name);
    free(client->incoming);
    free(client);
}

contactd_code ctc_options_check(const contactd_options *options, contactd_error *error) {
    if (!options || options->cookie != OPTIONS_COOKIE)
        return ctc_fill_error(error, CONTACTD_INVALID_ARGUMENT, "client", "options",
                              "options were not filled by contactd_options_init of this version");
    if (!options->server || !*options->server)
        return ctc_fill_error(error, CONTACTD_INVALID_ARGUMENT, "client", "server",
                              "server is empty, expected an address such as tcp://127.0.0.1:5555");
    if (options->timeout_ms == 0)
        return ctc_fill_error(error, CONTACTD_INVALID_ARGUMENT, "client", "timeout_ms",
                              "timeout_ms is 0, expected > 0");
    return CONTACTD_OK;
}

contactd_code ctc_client_new(const contactd_options *options, const ctc_start *start, contactd_client **out,
                             contactd_error *error) {
    *out = NULL;
    contactd_client *client = calloc(1, sizeof *client);
    if (!client) return ctc_fill_error(error, CONTACTD_OUT_OF_MEMORY, "client", "", "out of memory in this process");
    client->timeout_ms = options->timeout_ms;
    client->resend_ms = options->resend_ms ? options->resend_ms : options->timeout_ms;
    client->lease_ms = options->lease_ms;
    client->keep_meshes = options->keep_meshes;
    wire_spin_init(&client->spin, options->spin_us);
    bool named = options->name && *options->name;
    if (asprintf(&client->name, named ? "%s (%s)" : "%.0s%s", named ? options->name : "",
                 "libcontactd " CONTACTD_VERSION) < 0)
        client->name = NULL;
    client->encoder = wire_encoder_new();
    client->scratch = wire_scratch_new();
    client->incoming = calloc(1, sizeof *client->incoming);
    client->random = ctc_now() ^ ((uint64_t)getpid() << 32) ^ (uint64_t)(uintptr_t)client;
    ctc_begin(client);

    contactd_code code;
    if (!client->name || !client->encoder || !client->scratch || !client->incoming)
        code = ctc_no_memory(client, "client");
    else
        code = ctc_servers_open(client, options->server, start);
    if (code == CONTACTD_OK) code = ctc_link_open(client, options);
    if (code == CONTACTD_OK) {
        *out = client;
        return code;
    }
    if (error) *error = client->error;
    ctc_client_free(client);
    return code;
}

contactd_code contactd_connect(const contactd_options *options, contactd_client **out, contactd_error *error) {
    if (error) *error = (contactd_error){.code = CONTACTD_OK};
    if (!out) return ctc_fill_error(error, CONTACTD_INVALID_ARGUMENT, "client", "out", "out is NULL");
    *out = NULL;
    contactd_client *client = NULL;
    contactd_code code = ctc_options_check(options, error);
    if (code == CONTACTD_OK) code = ctc_client_new(options, NULL, &client, error);
    if (code != CONTACTD_OK) return code;
    code = ctc_hello(client);
    if (code == CONTACTD_OK) {
        *out = client;
        return code;
    }
    if (error) *error = client->error;
    ctc_client_free(client);
    return code;
}

/* The server would close the scenes with the lease; told so, it frees them now. It is not waited for long. */
void ctc_say_goodbye(contactd_client *client) {
    enum { PATIENCE_MS = 1000 };
    uint64_t patience = ctc_now() + (uint64_t)PATIENCE_MS * 1000000u;
    ctc_begin(client);
    if (client->deadline_ns > patience) client->deadline_ns = patience;
    client->recovering = true; /* nothing is to be restored any more */
    for (uint32_t i = 0; i < client->n_scenes; i++) {
        ctc_scene *scene = client->scenes[i];
        if (!scene || !scene->server) continue;
        wire_message m = {.type = WIRE_CLOSE_SCENE, .u.close_scene.scene = scene->server};
        if (ctc_exchange(client, &m, WIRE_DONE, "scene") != CONTACTD_OK && ctc_now() >= client->deadline_ns) return;
    }
}

void contactd_close(contactd_client **client) {
    if (!client || !*client) return;
    if ((*client)->connected && !(*client)->lost) ctc_say_goodbye(*client);
    ctc_client_free(*client);
    *client = NULL;
}

const contactd_error *contactd_last_error(const contactd_client *client) {
    static const contactd_error no_client = {.code = CONTACTD_INVALID_ARGUMENT,
                                             .object = "client",
                                             .field = "client",
                                             .message = "client is NULL: contactd_connect fills it when it succeeds"};
    return client ? &client->error : &no_client;
}

contactd_code contactd_set_timeout(contactd_client *client, uint32_t timeout_ms) {
    CTC_BEGIN(client);
    if (timeout_ms == 0)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "client", "timeout_ms", "timeout_ms is 0, expected > 0");
    client->timeout_ms = timeout_ms;
    return CONTACTD_OK;
}

contactd_code contactd_set_traceparent(contactd_client *client, const char *traceparent) {
    CTC_BEGIN(client);
    if (traceparent && *traceparent && !trace_is_parent(traceparent))
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "client", "traceparent",
                        "traceparent is not of the form 00-TRACE_ID-PARENT_ID-FLAGS of W3C Trace Context");
    snprintf(client->traceparent, sizeof client->traceparent, "%s", traceparent ? traceparent : "");
    return CONTACTD_OK;
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
