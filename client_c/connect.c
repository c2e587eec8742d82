/* connect.c - options of clients, connecting and closing. */
#include "client_c/connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_c/base.h"
#include "client_c/copies.h"
#include "client_c/flight.h"
#include "client_c/records.h"
#include "client_c/servers.h"
#include "client_c/session.h"
#include "client_c/socket.h"
#include "proto/trace.h"

#define OPTIONS_COOKIE 0xc1a2u

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
    ctc_socket_close(client);
    wire_encoder_free(&client->encoder);
    wire_scratch_free(&client->scratch);
    free(client->scenes);
    free(client->meshes);
    free(client->shapes);
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
    if (code == CONTACTD_OK) code = ctc_socket_open(client, options);
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
    uint64_t ids[1024];        /* so many at a time, as there may be no memory left */
    uint32_t n = 0;
    for (uint32_t i = 0; i < client->n_scenes; i++) {
        const ctc_scene *scene = client->scenes[i];
        if (scene && scene->server) ids[n++] = scene->server;
        if (n < 1024 && i + 1 < client->n_scenes) continue;
        if (ctc_send_close(client, ids, n) != CONTACTD_OK && ctc_now() >= client->deadline_ns) return;
        n = 0;
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
