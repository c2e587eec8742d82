/* flight.c - steps in flight: their records, what their answers do, and what becomes of them when a server ends. */
#include "client_c/flight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/mirror.h"
#include "client_c/records.h"
#include "client_c/servers.h"

/* Before a step is sent again whose answer there was no memory for. */
enum { RESEND_NS = 20000000 };

/* ---- records ---- */

static void clear(ctc_step *step) {
    for (size_t i = 0; i < step->n_large; i++) zmq_msg_close(&step->large[i]);
    step->n_large = 0;
    step->n_updates = step->n_directions = step->n_velocities = 0;
}

static void step_free(ctc_step **step) {
    if (!*step) return;
    clear(*step);
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

static void free_list(ctc_step **list) {
    while (*list) {
        ctc_step *step = *list;
        *list = step->next;
        step_free(&step);
    }
}

void ctc_steps_free(contactd_client *client) {
    for (size_t i = 0; i < client->n_steps; i++) step_free(&client->steps[i]);
    free(client->steps);
    step_free(&client->current);
    free_list(&client->kept);
    free_list(&client->spare);
}

ctc_step *ctc_take_spare_step(contactd_client *client) {
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

void ctc_put_spare_step(contactd_client *client, ctc_step *step) {
    clear(step);
    ctc_received_close(step->received);
    step->state = STEP_FREE;
    step->abandoned = false;
    step->next = client->spare;
    client->spare = step;
}

void ctc_remove_step(contactd_client *client, ctc_step *step) {
    size_t i = 0;
    while (client->steps[i] != step) i++;
    memmove(&client->steps[i], &client->steps[i + 1], (client->n_steps - i - 1) * sizeof *client->steps);
    client->n_steps--;
}

ctc_step *ctc_step_of_request(contactd_client *client, uint64_t request) {
    for (size_t i = 0; i < client->n_steps; i++)
        if (client->steps[i]->request == request && request && ctc_is_in_flight(client->steps[i]))
            return client->steps[i];
    return NULL;
}

void ctc_unsend_steps(contactd_client *client, uint32_t scene) {
    for (size_t i = 0; i < client->n_steps; i++) {
        ctc_step *step = client->steps[i];
        if (!ctc_is_in_flight(step) || (scene && step->scene != scene)) continue;
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
        ctc_remove_step(client, step);
        ctc_put_spare_step(client, step);
    }
}

void ctc_forget_scene(contactd_client *client, contactd_scene handle) {
    const ctc_scene *scene = client->scenes[handle - 1];
    ctc_drop_steps(client, handle);
    for (uint32_t i = 0; i < scene->n_bodies; i++) {
        const ctc_body *body = scene->bodies[i];
        if (body && body->mesh && client->meshes[body->mesh - 1]) client->meshes[body->mesh - 1]->bodies--;
    }
    ctc_scene_free(&client->scenes[handle - 1]);
}

void ctc_rebuild_scene(contactd_client *client, ctc_scene *scene) {
    if (scene->server) scene->orphan = scene->server;
    scene->server = 0;
    scene->sequence = 0;
    scene->n_ids = 0;
    for (uint32_t i = 0; i < scene->n_bodies; i++)
        if (scene->bodies[i]) scene->bodies[i]->server = 0;
    ctc_unsend_steps(client, scene->handle);
}

/* ---- answers ---- */

void ctc_end_step(contactd_client *client, ctc_step *step) {
    step->state = STEP_ANSWERED;
    step->answered_ns = ctc_now();
    clear(step);
    if (!step->abandoned) return;
    ctc_remove_step(client, step);
    ctc_put_spare_step(client, step);
}

/* How many bytes of `at` are before a number of a body; 0: none is here. */
static size_t before_body(const char *at, bool is_after_bodies) {
    const size_t n = strncmp(at, "body ", 5) == 0 || (is_after_bodies && strncmp(at, " and ", 5) == 0) ? 5
                     : strncmp(at, "bodies ", 7) == 0                                                  ? 7
                                                                                                       : 0;
    return n && at[n] >= '0' && at[n] <= '9' ? n : 0;
}

/* "bodies 16777217 and 3" of the server are other numbers here. text: [size], as messages have at most. */
static void rename_bodies(ctc_scene *scene, char *text, size_t size) {
    char renamed[sizeof((contactd_error *)0)->message];
    size_t n = 0;
    bool is_after_bodies = false;
    for (char *at = text; *at && n + 1 < sizeof renamed;) {
        const size_t word = before_body(at, is_after_bodies);
        is_after_bodies = word == 7;
        if (!word) {
            renamed[n++] = *at++;
            continue;
        }
        const char *const begins = at;
        const unsigned long server = strtoul(at + word, &at, 10);
        const uint32_t body = server <= UINT32_MAX ? ctc_body_of(scene, (uint32_t)server) : 0;
        n += (size_t)snprintf(renamed + n, sizeof renamed - n, "%.*s%lu", (int)word, begins, body ? body : server);
    }
    if (n >= sizeof renamed) n = sizeof renamed - 1;
    renamed[n] = 0;
    snprintf(text, size, "%s", renamed);
}

void ctc_fill_step_error(ctc_scene *scene, const wire_error *from, contactd_error *to) {
    char object[CTC_OBJECT];
    const bool is_body = strncmp(from->object, "body ", 5) == 0;
    ctc_answer_error(from, is_body ? "" : ctc_scene_object(scene, object), to);
    if (is_body) rename_bodies(scene, to->object, sizeof to->object);
    rename_bodies(scene, to->message, sizeof to->message);
}

static void step_refused(contactd_client *client, ctc_scene *scene, ctc_step *step) {
    const wire_error *e = &client->message.u.error;
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
    ctc_fill_step_error(scene, e, &step->error);
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
    ctc_end_step(client, step);
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
        ctc_end_step(client, step);
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
    ctc_end_step(client, step);
}

/* ---- when servers end ---- */

static bool is_oldest_of_scene(const contactd_client *client, const ctc_step *step) {
    for (size_t i = 0; client->steps[i] != step; i++)
        if (client->steps[i]->scene == step->scene && ctc_is_in_flight(client->steps[i])) return false;
    return true;
}

void ctc_note_ends(contactd_client *client, uint64_t epoch) {
    for (size_t i = 0; i < client->n_steps; i++) {
        ctc_step *step = client->steps[i];
        if (ctc_is_in_flight(step) && step->epoch == epoch && is_oldest_of_scene(client, step)) step->ends++;
    }
    /* From the last on, as abandoned ones leave the list. */
    for (size_t i = client->n_steps; i-- > 0;) {
        ctc_step *step = client->steps[i];
        if (!ctc_is_in_flight(step) || step->ends < CTC_MOST_ENDS) continue;
        char object[CTC_OBJECT], doing[64];
        snprintf(doing, sizeof doing, "computed step %llu of this scene", (unsigned long long)step->ticket);
        ctc_fill_error(&step->error, CONTACTD_SERVER_ENDED, ctc_scene_object(client->scenes[step->scene - 1], object),
                       "", CTC_ENDED_TEXT, doing, ", and step with other input");
        ctc_end_step(client, step);
    }
}
