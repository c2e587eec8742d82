/* steps.c - steps in flight: sent in order, sent again where they may have been lost, answered, waited for. */
#include "client_c/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/flight.h"
#include "client_c/mirror.h"
#include "client_c/records.h"
#include "client_c/restore.h"
#include "client_c/result.h"
#include "client_c/session.h"
#include "client_c/socket.h"

#define STEP_COOKIE 0xc0b6u

/* Between two calls: longer than it takes to hand over a step, shorter than to compute one. */
enum { AWAY_NS = 100000 };
/* So long is a step alone of those that a server was at work on when it ended. */
enum { ALONE_NS = 1000000000 };

void contactd_step_options_init(contactd_step_options *options) {
    if (!options) return;
    *options = (contactd_step_options){.cookie = STEP_COOKIE, .want = CONTACTD_WANT_ALL};
}

/* ---- sending ---- */

/* Of the steps that a server was at work on when it ended, one is sent after the other, as long as each is answered
 * soon: so the one that ends servers is told from those beside it. */
static bool must_wait(const contactd_client *client, const ctc_step *step, uint64_t now) {
    for (size_t i = 0; step->ends && i < client->n_steps; i++) {
        const ctc_step *other = client->steps[i];
        if (other->ends && other->state == STEP_SENT && now < other->sent_ns + ALONE_NS) return true;
    }
    return false;
}

/* The client has the answers to all steps of the scene up to this number: it awaits that of the next one. */
static uint64_t last_received(const contactd_client *client, const ctc_step *step, uint64_t sequence) {
    for (size_t i = 0; i < client->n_steps && client->steps[i] != step; i++) {
        const ctc_step *other = client->steps[i];
        if (other->scene == step->scene && ctc_is_in_flight(other)) return other->sequence - 1;
    }
    return sequence - 1;
}

static contactd_code send_step(contactd_client *client, ctc_scene *scene, ctc_step *step) {
    if (step->n_updates &&
        !ctc_grow(&client->updates, step->n_updates - 1, &client->cap_updates, sizeof *client->updates))
        return ctc_no_memory(client, "step");
    for (size_t i = 0; i < step->n_updates; i++) {
        const contactd_update *u = &step->updates[i];
        wire_update *w = &client->updates[i];
        *w = (wire_update){.body = scene->bodies[u->body - 1]->server, .kind = (wire_update_kind)u->kind};
        if (u->kind == CONTACTD_POSE)
            memcpy(w->pose, u->pose, sizeof w->pose);
        else
            w->positions = (wire_array){u->float64 ? WIRE_F64 : WIRE_F32, 3 * u->count, u->positions};
        if (u->kind == CONTACTD_RANGES || u->kind == CONTACTD_INDEXED)
            w->indices = (wire_array){WIRE_U32, u->n_indices, u->indices};
    }
    const size_t n_motions = step->n_directions + step->n_velocities;
    if (n_motions && !ctc_grow(&client->directions, n_motions - 1, &client->cap_directions, sizeof *client->directions))
        return ctc_no_memory(client, "step");
    for (size_t i = 0; i < n_motions; i++) {
        const contactd_direction *d = &step->directions[i];
        const ctc_body *body = scene->bodies[d->body - 1];
        wire_direction *w = &client->directions[i];
        *w = (wire_direction){.body = body->server, .index = d->index, .has_twist = body->rigid};
        if (body->rigid)
            memcpy(w->twist, d->twist, sizeof w->twist);
        else
            w->values = (wire_array){WIRE_F64, 3 * body->vertices, d->values};
    }
    uint64_t sequence = step->sequence ? step->sequence : scene->sequence + 1;
    wire_message m = {.type = WIRE_STEP,
                      .u.step = {.scene = scene->server,
                                 .sequence = sequence,
                                 .received = last_received(client, step, sequence),
                                 .want = step->want,
                                 .deadline_us = step->deadline_us,
                                 .time_budget_us = step->time_budget_us,
                                 .tolerance = step->tolerance,
                                 .updates = client->updates,
                                 .n_updates = (uint32_t)step->n_updates,
                                 .directions = client->directions,
                                 .n_directions = (uint32_t)step->n_directions,
                                 .velocities = client->directions + step->n_directions,
                                 .n_velocities = (uint32_t)step->n_velocities,
                                 .viscosity = step->viscosity}};
    contactd_code code = ctc_send(client, &m, step, false);
    if (code != CONTACTD_OK) return code;
    if (!step->sequence) scene->sequence = step->sequence = sequence;
    step->request = m.request;
    step->state = STEP_SENT;
    step->sent_ns = ctc_now();
    step->breaks = client->breaks;
    step->epoch = client->epoch;
    return CONTACTD_OK;
}

/* Fails what is in flight of a scene that cannot be restored. */
static void fail_scene(contactd_client *client, uint32_t scene) {
    for (size_t i = client->n_steps; i-- > 0;) {
        ctc_step *step = client->steps[i];
        if (step->scene != scene || !ctc_is_in_flight(step)) continue;
        step->error = client->error;
        ctc_end_step(client, step);
    }
    client->error = (contactd_error){.code = CONTACTD_OK};
}

static bool own_timeout(const contactd_client *client) {
    return strcmp(client->error.field, "timeout_ms") == 0;
}

/* False: this step, and so those of its scene behind it, cannot be sent now. */
static bool may_send(contactd_client *client, const ctc_step *step, uint64_t now) {
    size_t sent = 0;
    for (size_t i = 0; i < client->n_steps; i++) {
        const ctc_step *other = client->steps[i];
        if (other == step) break;
        if (other->scene == step->scene && other->state == STEP_UNSENT) return false;
    }
    for (size_t i = 0; i < client->n_steps; i++) sent += client->steps[i]->state == STEP_SENT;
    if (must_wait(client, step, now)) return false;
    return now >= step->retry_ns && (!client->welcome.max_in_flight || sent < client->welcome.max_in_flight);
}

/* Sends what is unsent and may be sent now, in order, and again what may have been lost. Recovers a lost session. */
static contactd_code serve_steps(contactd_client *client) {
    if (client->lost) {
        contactd_code code = ctc_recover(client);
        if (code != CONTACTD_OK) return code;
    }
    uint64_t now = ctc_now();
    for (size_t i = 0; i < client->n_steps; i++) {
        ctc_step *step = client->steps[i];
        bool broken = step->breaks != client->breaks && client->connected;
        if (step->state == STEP_SENT && (broken || now > step->sent_ns + (uint64_t)client->resend_ms * 1000000u))
            step->state = STEP_UNSENT;
    }
    for (size_t i = 0; i < client->n_steps; i++) {
        ctc_step *step = client->steps[i];
        if (step->state != STEP_UNSENT || !may_send(client, step, now)) continue;
        ctc_scene *scene = client->scenes[step->scene - 1];
        contactd_code code = ctc_ensure_scene(client, scene);
        if (code == CTC_AGAIN) return CONTACTD_OK; /* the caller comes back */
        if (code != CONTACTD_OK) {
            if (own_timeout(client)) return code;
            fail_scene(client, step->scene);
            return CONTACTD_OK;
        }
        if (step->state != STEP_UNSENT) continue; /* its answer came meanwhile */
        code = send_step(client, scene, step);
        if (code == CONTACTD_BUSY) return CONTACTD_OK; /* no connection, or no room: later */
        if (code != CONTACTD_OK) {
            step->error = client->error;
            client->error = (contactd_error){.code = CONTACTD_OK};
            ctc_end_step(client, step);
            return CONTACTD_OK;
        }
    }
    return CONTACTD_OK;
}

/* Sends what may be sent and waits for one message, at most until the earliest retry is due. */
static contactd_code wait_once(contactd_client *client, const ctc_step *waiting) {
    contactd_code code = serve_steps(client);
    if (code != CONTACTD_OK || (waiting && !ctc_is_in_flight(waiting))) return code;
    uint64_t until = client->deadline_ns, now = ctc_now();
    for (size_t i = 0; i < client->n_steps; i++) {
        const ctc_step *step = client->steps[i];
        if (step->state == STEP_UNSENT && step->retry_ns > now && step->retry_ns < until) until = step->retry_ns;
    }
    ctc_pump(client, 0, until);
    if (ctc_now() < client->deadline_ns || (waiting && !ctc_is_in_flight(waiting))) return CONTACTD_OK;
    if (waiting && waiting->error.code != CONTACTD_OK && client->connected) { /* why it was refused says more */
        client->error = waiting->error;
        snprintf(client->error.field, sizeof client->error.field, "timeout_ms");
        return client->error.code;
    }
    char object[CTC_OBJECT] = "step";
    if (waiting) ctc_scene_object(client->scenes[waiting->scene - 1], object);
    return ctc_timed_out(client, object, "the answer to a step");
}

contactd_code ctc_flush(contactd_client *client, uint32_t scene, size_t below) {
    for (;;) {
        size_t n = 0;
        for (size_t i = 0; i < client->n_steps; i++)
            n += ctc_is_in_flight(client->steps[i]) && (!scene || client->steps[i]->scene == scene);
        if (n < below) return CONTACTD_OK;
        contactd_code code = wait_once(client, NULL);
        if (code != CONTACTD_OK) return code;
    }
}

/* ---- the calls ---- */

/* The step, in flight; or NULL, and the client's error says why. */
static ctc_step *submit(contactd_client *client, contactd_scene handle, const contactd_update *updates, size_t n,
                        const contactd_step_options *options) {
    contactd_step_options defaults;
    ctc_step *step = NULL;
    ctc_begin(client);
    ctc_scene *scene = ctc_find_scene(client, handle);
    if (!scene) return NULL;
    contactd_step_options_init(&defaults);
    if (!options) options = &defaults;
    if (options->cookie != STEP_COOKIE) {
        ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "step", "options",
                 "options were not filled by contactd_step_options_init of this version");
        return NULL;
    }
    if (ctc_grow(&client->steps, client->n_steps, &client->cap_steps, sizeof *client->steps))
        step = ctc_take_spare_step(client);
    if (!step) {
        ctc_no_memory(client, "step");
        return NULL;
    }
    contactd_code code = ctc_take_updates(client, scene, step, updates, n, options);
    if (code == CONTACTD_OK && client->welcome.max_in_flight)
        code = ctc_flush(client, 0, client->welcome.max_in_flight);
    if (code != CONTACTD_OK) {
        ctc_put_spare_step(client, step);
        return NULL;
    }
    step->state = STEP_UNSENT;
    step->ticket = ++client->ticket;
    step->scene = scene->handle;
    step->request = step->sequence = step->retry_ns = step->epoch = 0;
    step->ends = 0;
    step->want = options->want;
    step->deadline_us = options->deadline_us;
    step->time_budget_us = options->time_budget_us;
    step->tolerance = options->tolerance;
    step->submitted_ns = ctc_now();
    step->error = (contactd_error){.code = CONTACTD_OK};
    client->steps[client->n_steps++] = step;
    code = serve_steps(client);
    /* What was refused before it got a number never was in flight. */
    if (step->sequence == 0 && (code != CONTACTD_OK || step->state == STEP_ANSWERED)) {
        if (code == CONTACTD_OK) client->error = step->error;
        ctc_remove_step(client, step);
        ctc_put_spare_step(client, step);
        return NULL;
    }
    client->error = (contactd_error){.code = CONTACTD_OK};
    return step;
}

static contactd_code wait_for(contactd_client *client, ctc_step *step, const contactd_result **out) {
    if (client->current) ctc_put_spare_step(client, client->current);
    client->current = NULL;
    while (ctc_is_in_flight(step)) {
        contactd_code code = wait_once(client, step);
        if (code != CONTACTD_OK) return code;
    }
    ctc_remove_step(client, step);
    client->current = step;
    client->error = step->error;
    if (step->error.code != CONTACTD_OK) return step->error.code;
    char object[CTC_OBJECT];
    if (!ctc_make_result(client, step))
        return ctc_no_memory(client, ctc_scene_object(client->scenes[step->scene - 1], object));
    *out = &step->result;
    return CONTACTD_OK;
}

contactd_code contactd_step_submit(contactd_client *client, contactd_scene scene, const contactd_update *updates,
                                   size_t n_updates, const contactd_step_options *options, contactd_ticket *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "step", out);
    /* A caller that was away since the last call computes, and will go on: the step must be sent meanwhile, not at the
     * next sched_yield. */
    if (ctc_now() - client->left_ns > AWAY_NS) wire_zmq_thread_set_batch(&client->zmq_thread, false);
    const ctc_step *step = submit(client, scene, updates, n_updates, options);
    *out = step ? step->ticket : 0;
    client->left_ns = ctc_now();
    return client->error.code;
}

/* The step that a caller may wait for; or NULL, and the client's error says why. */
static ctc_step *step_of_ticket(contactd_client *client, contactd_ticket ticket) {
    for (size_t i = 0; i < client->n_steps; i++)
        if (client->steps[i]->ticket == ticket && !client->steps[i]->abandoned) return client->steps[i];
    char object[CTC_OBJECT];
    snprintf(object, sizeof object, "step %llu", (unsigned long long)ticket);
    ctc_fail(client, CONTACTD_NOT_FOUND, object, "ticket",
             "there is no such step in flight: it was waited for already, or its scene was closed");
    return NULL;
}

contactd_code contactd_step_wait(contactd_client *client, contactd_ticket ticket, const contactd_result **out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "step", out);
    *out = NULL;
    ctc_step *step = step_of_ticket(client, ticket);
    if (!step) return client->error.code;
    contactd_code code = wait_for(client, step, out);
    client->left_ns = ctc_now();
    return code;
}

contactd_code contactd_step(contactd_client *client, contactd_scene scene, const contactd_update *updates,
                            size_t n_updates, const contactd_step_options *options, const contactd_result **out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "step", out);
    *out = NULL;
    ctc_step *step = submit(client, scene, updates, n_updates, options);
    if (!step) return client->error.code;
    contactd_code code = wait_for(client, step, out);
    if (ctc_is_in_flight(step)) step->abandoned = true;
    return code;
}

/* ---- results that the caller keeps ---- */

static contactd_code fail_unknown_result(contactd_client *client, const char *why) {
    return ctc_fail(client, CONTACTD_NOT_FOUND, "result", "result", "%s", why);
}

contactd_code contactd_result_keep(contactd_client *client, const contactd_result *result) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "result", result);
    ctc_step *step = client->current;
    if (!step || result != &step->result)
        return fail_unknown_result(client, "it is not the result of the client's last wait, or is kept already: keep a "
                                           "result before the next wait");
    step->next = client->kept;
    client->kept = step;
    client->current = NULL;
    return CONTACTD_OK;
}

contactd_code contactd_result_release(contactd_client *client, const contactd_result **result) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "result", result);
    if (!*result) return CONTACTD_OK;
    for (ctc_step **at = &client->kept; *at; at = &(*at)->next) {
        ctc_step *step = *at;
        if (*result != &step->result) continue;
        *at = step->next;
        ctc_put_spare_step(client, step);
        *result = NULL;
        return CONTACTD_OK;
    }
    return fail_unknown_result(client, "this client keeps no such result: it was released already, or was never kept");
}

/* ---- event loops ---- */

/* Milliseconds until something is due without a message: a retry, a sending anew, a look at the connection. */
static int next_due(const contactd_client *client, uint64_t now) {
    enum { LOOK_MS = 100 };
    uint64_t until = UINT64_MAX;
    for (size_t i = 0; i < client->n_steps; i++) {
        const ctc_step *step = client->steps[i];
        uint64_t due = now + LOOK_MS * UINT64_C(1000000);
        if (!ctc_is_in_flight(step)) continue;
        if (step->state == STEP_UNSENT && step->retry_ns > now && step->retry_ns < due) due = step->retry_ns;
        if (due < until) until = due;
    }
    return until == UINT64_MAX ? -1 : (int)((until - now) / 1000000u) + 1;
}

/* All that has come, and what may be sent after it. */
static contactd_code take_in(contactd_client *client) {
    for (;;) {
        contactd_code code = serve_steps(client);
        if (code != CONTACTD_OK) return code;
        const bool got = ctc_pump(client, 0, 0) != CTC_NOTHING;
        client->waiting_ns = 0; /* it was no wait, from which the next one could learn */
        if (!got) return CONTACTD_OK;
    }
}

int contactd_fd(const contactd_client *client) {
    int fd = -1;
    if (!client || zmq_getsockopt(client->socket, ZMQ_FD, &fd, &(size_t){sizeof fd})) return -1;
    return fd;
}

contactd_code contactd_process(contactd_client *client, int *wait_ms) {
    CTC_BEGIN(client);
    const contactd_code code = take_in(client);
    client->left_ns = ctc_now();
    if (wait_ms) *wait_ms = next_due(client, client->left_ns);
    return code;
}

contactd_code contactd_step_try_wait(contactd_client *client, contactd_ticket ticket, const contactd_result **out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "step", out);
    *out = NULL;
    ctc_step *step = step_of_ticket(client, ticket);
    if (!step) return client->error.code;
    contactd_code code = ctc_is_in_flight(step) ? take_in(client) : CONTACTD_OK;
    if (code == CONTACTD_OK && !ctc_is_in_flight(step)) code = wait_for(client, step, out);
    client->left_ns = ctc_now();
    return code;
}

contactd_code contactd_wait_any(contactd_client *client, contactd_ticket *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "step", out);
    for (*out = 0;;) {
        const ctc_step *waiting = NULL;
        for (size_t i = 0; i < client->n_steps; i++) {
            const ctc_step *step = client->steps[i];
            if (step->abandoned) continue;
            if (!ctc_is_in_flight(step)) {
                *out = step->ticket;
                return CONTACTD_OK;
            }
            if (!waiting) waiting = step;
        }
        if (!waiting) return CONTACTD_OK;
        const contactd_code code = wait_once(client, waiting);
        client->left_ns = ctc_now();
        if (code != CONTACTD_OK) return code;
    }
}
