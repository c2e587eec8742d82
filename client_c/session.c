/* session.c - a client's session with a server: requests with their answers, and a new session when the server knows
 * nothing of the client any more. */
#include "client_c/session.h"

#include <stdlib.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/flight.h"
#include "client_c/servers.h"
#include "client_c/socket.h"

/* ---- requests ---- */

static bool repeatable(wire_type type) {
    return type != WIRE_OPEN_SCENE && type != WIRE_ADD_BODY && type != WIRE_ADD_BODIES && type != WIRE_COPY_SCENE;
}

/* What a server works on: beside what restores a scene, requests that may take long. */
static bool is_work(const contactd_client *client, wire_type type) {
    return type == WIRE_REGISTER_MESH || type == WIRE_ADD_BODY || type == WIRE_ADD_BODIES || type == WIRE_CONFIGURE ||
           type == WIRE_REPLACE_MESH || type == WIRE_GET_SNAPSHOT || type == WIRE_STEP_MANY ||
           type == WIRE_RESET_SCENES || type == WIRE_COPY_SCENE ||
           (type != WIRE_HELLO && client->work_ends != &client->call_ends);
}

/* The object is gone: an earlier, unanswered sending of the same request removed it, so the request succeeded. */
static bool done_before(wire_type type, contactd_code code) {
    return (type == WIRE_CLOSE_SCENE || type == WIRE_REMOVE_BODY || type == WIRE_REMOVE_MESH) &&
           (code == CONTACTD_NOT_FOUND || code == CONTACTD_STALE_HANDLE);
}

/* Waits without losing answers to steps. */
static void pause_for(contactd_client *client, uint32_t hint_ms) {
    double ms = (hint_ms ? hint_ms : 20) * (0.5 + ctc_random(client));
    uint64_t until = ctc_now() + (uint64_t)(ms * 1e6);
    if (until > client->deadline_ns) until = client->deadline_ns;
    while (ctc_now() < until) ctc_pump(client, 0, until);
}

contactd_code ctc_exchange(contactd_client *client, wire_message *m, wire_type expected, const char *object) {
    uint32_t sent = 0;
    for (;;) {
        if (client->lost && !client->recovering) {
            contactd_code code = ctc_recover(client);
            return code == CONTACTD_OK ? CTC_AGAIN : code;
        }
        if (is_work(client, m->type) && client->call_ends >= CTC_MOST_ENDS)
            return ctc_fail(client, CONTACTD_SERVER_ENDED, object, "", CTC_ENDED_TEXT, "worked on this", "");
        ctc_drain_monitor(client);
        client->has_lost_answer = false;
        uint64_t breaks = client->breaks;
        contactd_code code = ctc_send(client, m, NULL, true);
        if (code != CONTACTD_OK) return code;
        if (is_work(client, m->type)) client->work_epoch = client->epoch;
        sent++;
        ctc_event event;
        bool broken = false;
        while ((event = ctc_pump(client, m->request, client->deadline_ns)) != CTC_ANSWER) {
            if (client->lost && m->type != WIRE_HELLO) break;
            if (client->has_lost_answer) break;
            broken = client->breaks != breaks;
            if (broken && client->connected) break;
            if (ctc_now() >= client->deadline_ns) {
                if (!repeatable(m->type)) client->lost = true; /* whether it was done is not known */
                return ctc_timed_out(client, object, "an answer");
            }
        }
        if (client->has_lost_answer) {
            client->has_lost_answer = false;
            if (!repeatable(m->type)) client->lost = true; /* it was done, but the new object's handle is lost */
            return ctc_no_memory(client, object);
        }
        if (event != CTC_ANSWER) {
            if (broken && !repeatable(m->type)) client->lost = true;
            if (client->lost && client->recovering && m->type != WIRE_HELLO) return CTC_AGAIN;
            continue; /* repeat, or recover */
        }
        bool has_lost_state = client->message.type == WIRE_ERROR && client->message.u.error.code == CONTACTD_STATE_LOST;
        if (is_work(client, m->type) && !has_lost_state) client->work_epoch = 0;
        if (client->message.type == expected) return CONTACTD_OK;
        if (client->message.type != WIRE_ERROR)
            return ctc_fail(client, CONTACTD_INTERNAL, object, "answer", "the server answered %s with %s, expected %s",
                            wire_type_name(m->type), wire_type_name(client->message.type), wire_type_name(expected));
        wire_error e = client->message.u.error;
        if (has_lost_state && m->type != WIRE_HELLO) {
            client->lost = true;
            if (client->recovering) return CTC_AGAIN;
            continue;
        }
        if (sent > 1 && done_before(m->type, e.code)) return CONTACTD_OK;
        ctc_answer_error(&e, object, &client->error);
        if ((e.code != CONTACTD_BUSY && e.code != CONTACTD_SHUTTING_DOWN) || ctc_now() >= client->deadline_ns)
            return e.code;
        if (e.code == CONTACTD_SHUTTING_DOWN && ctc_servers_leave(client)) {
            sent--; /* it was refused, so it was not done */
            continue;
        }
        pause_for(client, e.retry_after_ms);
        if (ctc_now() >= client->deadline_ns) return client->error.code;
        sent--; /* it was refused, so it was not done */
    }
}

/* ---- the session ---- */

/* The strings of a Welcome outlive the message. */
static bool keep_welcome(contactd_client *client) {
    wire_welcome w = client->message.u.welcome;
    const char **texts[4 + sizeof w.methods / sizeof *w.methods] = {&w.server, &w.backend, &w.rasterizer, &w.device};
    size_t n = 4, bytes = 0;
    for (uint32_t i = 0; i < w.n_methods; i++) texts[n++] = &w.methods[i];
    for (size_t i = 0; i < n; i++) bytes += strlen(*texts[i]) + 1;
    char *block = malloc(bytes), *at = block;
    if (!block) return false;
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(*texts[i]) + 1;
        memcpy(at, *texts[i], length);
        *texts[i] = at;
        at += length;
    }
    w.successors = ""; /* ctc_servers_learn has them */
    free(client->welcome_text);
    client->welcome_text = block;
    client->welcome = w;
    return true;
}

contactd_code ctc_hello(contactd_client *client) {
    wire_message m = {.type = WIRE_HELLO, .u.hello = {WIRE_VERSION, WIRE_VERSION, client->name, client->lease_ms}};
    bool was = client->recovering;
    client->recovering = true; /* a Hello needs no session */
    contactd_code code = ctc_exchange(client, &m, WIRE_WELCOME, "server");
    client->recovering = was;
    if (code != CONTACTD_OK) return code;
    if (client->message.u.welcome.version != WIRE_VERSION)
        return ctc_fail(client, CONTACTD_VERSION_MISMATCH, "server", "version",
                        "the server speaks version %u of the protocol, this library %d",
                        client->message.u.welcome.version, WIRE_VERSION);
    bool is_given_several = client->servers.sources && *client->servers.sources; /* it chooses among these */
    if (*client->message.u.welcome.successors && !is_given_several)
        ctc_servers_learn(client, client->message.u.welcome.successors);
    if (!keep_welcome(client)) return ctc_no_memory(client, "client");
    client->session = client->welcome.session;
    client->epoch = client->welcome.epoch;
    client->greeted = true;
    client->connected = true;
    client->lost = false;
    return CONTACTD_OK;
}

contactd_code ctc_recover(contactd_client *client) {
    enum { PAUSE_MS = 100 }; /* a server that loses every session at once is not asked without end */
    uint64_t pause = client->recovered_ns + (uint64_t)PAUSE_MS * 1000000u;
    while (ctc_now() < pause && ctc_now() < client->deadline_ns) ctc_pump(client, 0, pause);
    if (ctc_now() >= client->deadline_ns)
        return client->connected ? ctc_fail(client, CONTACTD_STATE_LOST, "client", "timeout_ms",
                                            "%s lost this client's session, and it could not be restored within %u ms",
                                            client->address, client->timeout_ms)
                                 : ctc_timed_out(client, "client", "an answer");
    const uint64_t ended = client->epoch;
    client->recovering = true;
    contactd_code code = ctc_hello(client);
    client->recovering = false;
    if (code != CONTACTD_OK) return code;
    if (client->epoch != ended && !client->is_end_announced) {
        if (client->work_epoch == ended) ++*client->work_ends;
        ctc_note_ends(client, ended);
    }
    client->is_end_announced = false;
    client->work_epoch = 0;
    client->recoveries++;
    client->recovered_ns = ctc_now();
    for (uint32_t i = 0; i < client->n_meshes; i++)
        if (client->meshes[i]) client->meshes[i]->server = 0;
    for (uint32_t i = 0; i < client->n_scenes; i++) {
        if (!client->scenes[i]) continue;
        ctc_rebuild_scene(client, client->scenes[i]);
        client->scenes[i]->orphan = 0; /* it is another session's */
    }
    return CONTACTD_OK;
}
