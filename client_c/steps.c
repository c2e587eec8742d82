/* steps.c - steps in flight: sent in order, sent again where they may have been lost, answered, waited for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/client.h"

#define STEP_COOKIE 0xc0b6u

/* Between two calls: longer than it takes to hand over a step, shorter than to compute one. */
enum { AWAY_NS = 100000 };
/* Before a step is sent again whose answer there was no memory for. */
enum { RESEND_NS = 20000000 };
/* So long is a step alone of those that a server was at work on when it ended. */
enum { ALONE_NS = 1000000000 };

void contactd_step_options_init(contactd_step_options *options) {
    if (!options) return;
    *options = (contactd_step_options){.cookie = STEP_COOKIE, .want = CONTACTD_WANT_ALL};
}

/* ---- records ---- */

void ctc_step_clear(contactd_client *client, ctc_step *step) {
    (void)client;
    for (size_t i = 0; i < step->n_large; i++) zmq_msg_close(&step->large[i]);
    step->n_large = 0;
    step->n_updates = step->n_directions = step->n_velocities = 0;
}

static void step_free(ctc_step **step) {
    if (!*step) return;
    ctc_step_clear(NULL, *step);
    if ((*step)->received) ctc_received_close((*step)->received);
    free((*step)->received);
    wire_scratch_free(&(*step)->scratch);
    for (size_t i = 0; i < sizeof(*step)->aligned / sizeof *(*step)->aligned; i++) free((*step)->aligned[i]);
    free((*step)->contacts);
    free((*step)->warnings);
    free((*step)->progress);
    free((*step)->separations);
    free((*step)->updates);
    free((*step)->directions);
    free((*step)->storage);
    free((*step)->large);
    free(*step);
    *step = NULL;
}

void ctc_steps_free(contactd_client *client) {
    for (size_t i = 0; i < client->n_steps; i++) step_free(&client->steps[i]);
    free(client->steps);
    step_free(&client->current);
    while (client->spare) {
        ctc_step *step = client->spare;
        client->spare = step->next;
        step_free(&step);
    }
}

static ctc_step *take_spare(contactd_client *client) {
    ctc_step *step = client->spare;
    if (step) {
        client->spare = step->next;
        return step;
    }
    step = calloc(1, sizeof *step);
    if (!step) return NULL;
    step->received = calloc(1, sizeof *step->received);
    step->scratch = wire_scratch_new();
    if (!step->received || !step->scratch) step_free(&step);
    return step;
}

static void put_spare(contactd_client *client, ctc_step *step) {
    ctc_step_clear(client, step);
    ctc_received_close(step->received);
    step->state = STEP_FREE;
    step->abandoned = false;
    step->next = client->spare;
    client->spare = step;
}

static void remove_step(contactd_client *client, ctc_step *step) {
    size_t i = 0;
    while (client->steps[i] != step) i++;
    memmove(&client->steps[i], &client->steps[i + 1], (client->n_steps - i - 1) * sizeof *client->steps);
    client->n_steps--;
}

static bool in_flight(const ctc_step *step) {
    return step->state == STEP_UNSENT || step->state == STEP_SENT;
}

ctc_step *ctc_step_of_request(contactd_client *client, uint64_t request) {
    for (size_t i = 0; i < client->n_steps; i++)
        if (client->steps[i]->request == request && request && in_flight(client->steps[i])) return client->steps[i];
    return NULL;
}

void ctc_unsend_steps(contactd_client *client, uint32_t scene) {
    for (size_t i = 0; i < client->n_steps; i++) {
        ctc_step *step = client->steps[i];
        if (!in_flight(step) || (scene && step->scene != scene)) continue;
        step->state = STEP_UNSENT;
        step->request = step->sequence = step->retry_ns = step->epoch = 0;
    }
}

void ctc_resend_steps(contactd_client *client, uint64_t request) {
    for (size_t i = 0; i < client->n_steps; i++) {
        ctc_step *step = client->steps[i];
        if (step->state != STEP_SENT || (request && step->request != request)) continue;
        step->state = STEP_UNSENT;
        step->retry_ns = ctc_now() + RESEND_NS;
        step->error = (contactd_error){.code = CONTACTD_OUT_OF_MEMORY, .retry = true};
        snprintf(step->error.message, sizeof step->error.message, "no memory to decode the server's answer");
    }
}

void ctc_drop_steps(contactd_client *client, uint32_t scene) {
    for (size_t i = client->n_steps; i-- > 0;) {
        ctc_step *step = client->steps[i];
        if (step->scene != scene) continue;
        remove_step(client, step);
        put_spare(client, step);
    }
}

/* ---- answers ---- */

static void end_step(contactd_client *client, ctc_step *step) {
    step->state = STEP_ANSWERED;
    step->answered_ns = ctc_now();
    ctc_step_clear(client, step);
    if (!step->abandoned) return;
    remove_step(client, step);
    put_spare(client, step);
}

/* "body 16777217" of the server is another number here. */
static void rename_body(ctc_scene *scene, contactd_error *error) {
    if (strncmp(error->object, "body ", 5) != 0) return;
    unsigned long server = strtoul(error->object + 5, NULL, 10);
    uint32_t body = server <= UINT32_MAX ? ctc_body_of(scene, (uint32_t)server) : 0;
    if (body) snprintf(error->object, sizeof error->object, "body %u", body);
}

static void step_refused(contactd_client *client, ctc_scene *scene, ctc_step *step) {
    const wire_error *e = &client->message.u.error;
    char object[CTC_OBJECT];
    if (e->code == CONTACTD_STATE_LOST) {
        client->lost = true;
        return;
    }
    if (e->code == CONTACTD_CONFLICT && !scene->rebuilt) {
        /* Server and client differ on what the next number is: begin the scene again, but not forever. */
        scene->rebuilt = true;
        ctc_rebuild_scene(client, scene);
        return;
    }
    bool body = strncmp(e->object, "body ", 5) == 0;
    ctc_answer_error(e, body ? "" : ctc_scene_object(scene, object), &step->error);
    rename_body(scene, &step->error);
    if (e->code == CONTACTD_BUSY || e->code == CONTACTD_SHUTTING_DOWN) {
        if (e->code == CONTACTD_SHUTTING_DOWN && ctc_servers_leave(client)) {
            ctc_unsend_steps(client, 0);
            return;
        }
        double ms = (e->retry_after_ms ? e->retry_after_ms : 20) * (0.5 + ctc_random(client));
        step->state = STEP_UNSENT;
        step->retry_ns = ctc_now() + (uint64_t)(ms * 1e6);
        step->epoch = 0;
        return;
    }
    end_step(client, step);
}

void ctc_step_answered(contactd_client *client, ctc_step *step) {
    ctc_scene *scene = client->scenes[step->scene - 1];
    char object[CTC_OBJECT];
    if (client->message.type == WIRE_ERROR) {
        step_refused(client, scene, step);
        return;
    }
    if (client->message.type != WIRE_STEP_RESULT || client->message.u.step_result.sequence != step->sequence) {
        step->error = (contactd_error){.code = CONTACTD_INTERNAL, .field = "answer"};
        snprintf(step->error.object, sizeof step->error.object, "%s", ctc_scene_object(scene, object));
        snprintf(step->error.message, sizeof step->error.message, "the server answered a step with %s",
                 client->message.type == WIRE_STEP_RESULT ? "the result of another"
                                                          : wire_type_name(client->message.type));
        end_step(client, step);
        return;
    }
    scene->rebuilt = false;
    step->error = (contactd_error){.code = CONTACTD_OK};
    step->answer = client->message;
    ctc_received *received = step->received;
    step->received = client->incoming;
    client->incoming = received;
    wire_scratch *scratch = step->scratch;
    step->scratch = client->scratch;
    client->scratch = scratch;
    ctc_mirror_step(scene, step);
    end_step(client, step);
}

/* ---- when servers end ---- */

static bool is_oldest_of_scene(const contactd_client *client, const ctc_step *step) {
    for (size_t i = 0; client->steps[i] != step; i++)
        if (client->steps[i]->scene == step->scene && in_flight(client->steps[i])) return false;
    return true;
}

void ctc_note_ends(contactd_client *client, uint64_t epoch) {
    for (size_t i = 0; i < client->n_steps; i++) {
        ctc_step *step = client->steps[i];
        if (in_flight(step) && step->epoch == epoch && is_oldest_of_scene(client, step)) step->ends++;
    }
    /* From the last on, as abandoned ones leave the list. */
    for (size_t i = client->n_steps; i-- > 0;) {
        ctc_step *step = client->steps[i];
        if (!in_flight(step) || step->ends < CTC_MOST_ENDS) continue;
        char object[CTC_OBJECT], doing[64];
        snprintf(doing, sizeof doing, "computed step %llu of this scene", (unsigned long long)step->ticket);
        ctc_fill_error(&step->error, CONTACTD_SERVER_ENDED, ctc_scene_object(client->scenes[step->scene - 1], object),
                       "", CTC_ENDED_TEXT, doing, ", and step with other input");
        end_step(client, step);
    }
}

/* Of the steps that a server was at work on when it ended, one is sent after the other, as long as each is answered
 * soon: so the one that ends servers is told from those beside it. */
static bool must_wait(const contactd_client *client, const ctc_step *step, uint64_t now) {
    for (size_t i = 0; step->ends && i < client->n_steps; i++) {
        const ctc_step *other = client->steps[i];
        if (other->ends && other->state == STEP_SENT && now < other->sent_ns + ALONE_NS) return true;
    }
    return false;
}

/* ---- sending ---- */

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
        if (step->scene != scene || !in_flight(step)) continue;
        step->error = client->error;
        end_step(client, step);
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

contactd_code ctc_serve_steps(contactd_client *client) {
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
            end_step(client, step);
            return CONTACTD_OK;
        }
    }
    return CONTACTD_OK;
}

/* Sends what may be sent and waits for one message, at most until the earliest retry is due. */
static contactd_code wait_once(contactd_client *client, const ctc_step *waiting) {
    contactd_code code = ctc_serve_steps(client);
    if (code != CONTACTD_OK || (waiting && !in_flight(waiting))) return code;
    uint64_t until = client->deadline_ns, now = ctc_now();
    for (size_t i = 0; i < client->n_steps; i++) {
        const ctc_step *step = client->steps[i];
        if (step->state == STEP_UNSENT && step->retry_ns > now && step->retry_ns < until) until = step->retry_ns;
    }
    ctc_pump(client, 0, until);
    if (ctc_now() < client->deadline_ns || (waiting && !in_flight(waiting))) return CONTACTD_OK;
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
            n += in_flight(client->steps[i]) && (!scene || client->steps[i]->scene == scene);
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
    if (ctc_grow(&client->steps, client->n_steps, &client->cap_steps, sizeof *client->steps)) step = take_spare(client);
    if (!step) {
        ctc_no_memory(client, "step");
        return NULL;
    }
    contactd_code code = ctc_take_updates(client, scene, step, updates, n, options);
    if (code == CONTACTD_OK && client->welcome.max_in_flight)
        code = ctc_flush(client, 0, client->welcome.max_in_flight);
    if (code != CONTACTD_OK) {
        put_spare(client, step);
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
    code = ctc_serve_steps(client);
    /* What was refused before it got a number never was in flight. */
    if (step->sequence == 0 && (code != CONTACTD_OK || step->state == STEP_ANSWERED)) {
        if (code == CONTACTD_OK) client->error = step->error;
        remove_step(client, step);
        put_spare(client, step);
        return NULL;
    }
    client->error = (contactd_error){.code = CONTACTD_OK};
    return step;
}

static contactd_code wait_for(contactd_client *client, ctc_step *step, const contactd_result **out) {
    if (client->current) put_spare(client, client->current);
    client->current = NULL;
    while (in_flight(step)) {
        contactd_code code = wait_once(client, step);
        if (code != CONTACTD_OK) return code;
    }
    remove_step(client, step);
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
    if (in_flight(step)) step->abandoned = true;
    return code;
}

/* ---- event loops ---- */

/* Milliseconds until something is due without a message: a retry, a sending anew, a look at the connection. */
static int next_due(const contactd_client *client, uint64_t now) {
    enum { LOOK_MS = 100 };
    uint64_t until = UINT64_MAX;
    for (size_t i = 0; i < client->n_steps; i++) {
        const ctc_step *step = client->steps[i];
        uint64_t due = now + LOOK_MS * UINT64_C(1000000);
        if (!in_flight(step)) continue;
        if (step->state == STEP_UNSENT && step->retry_ns > now && step->retry_ns < due) due = step->retry_ns;
        if (due < until) until = due;
    }
    return until == UINT64_MAX ? -1 : (int)((until - now) / 1000000u) + 1;
}

/* All that has come, and what may be sent after it. */
static contactd_code take_in(contactd_client *client) {
    for (;;) {
        contactd_code code = ctc_serve_steps(client);
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
    contactd_code code = in_flight(step) ? take_in(client) : CONTACTD_OK;
    if (code == CONTACTD_OK && !in_flight(step)) code = wait_for(client, step, out);
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
            if (!in_flight(step)) {
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
