/* each.c - the same command on each of many scenes, or many times on one, for one message. A few are queued at a time, so
 * that a long list takes few places in the queue and other clients' commands run between its own; the last that ends queues
 * the next few, on the thread where it ran. The first that fails ends the list; copies made until then are closed again, and
 * bodies taken out. */
#include "server/stream/each.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/stream/many.h"

enum { AT_ONCE = 32 };

struct each_scene {
    request *request;
    command_kind kind;
    uint32_t n, next;    /* commands, and the first that was not queued yet */
    uint32_t n_queued;   /* of commands[], the last time */
    uint64_t *opened;    /* [n] COPY: the scenes */
    uint32_t *added;     /* [n] ADD_BODY: the bodies */
    uint32_t n_made;     /* of either */
    atomic_uint waiting; /* commands not done, and one while they are queued */
    server_error error;  /* the first; code OK: none */
    scene_record record; /* COPY: of the first copy */
    command commands[AT_ONCE];
};

void each_free(each_scene **each) {
    if (*each) {
        free((*each)->opened);
        free((*each)->added);
    }
    free(*each);
    *each = NULL;
}

static void go_on(each_scene *each);

static void one_done(command *command) {
    each_scene *each = command->context;
    if (atomic_fetch_sub_explicit(&each->waiting, 1, memory_order_acq_rel) == 1) go_on(each);
}

static void fill_body(const wire_add_bodies *in, uint32_t i, command *command) {
    ct_body_options *options = &command->in.add_body.options;
    command->in.add_body.mesh = in->meshes[in->n_meshes > 1 ? i : 0];
    ct_body_options_init(options);
    options->kind = CT_BODY_RIGID;
    memcpy(options->pose, in->poses + 12 * (size_t)i, sizeof options->pose);
    options->group = in->group;
    options->mask = in->mask;
    options->ignore = in->ignore;
    options->n_ignore = in->n_ignore;
    options->self_contact = in->self_contact;
    options->material = in->material;
}

static void fill_command(each_scene *each, uint32_t i, command *command) {
    const request *request = each->request;
    const wire_message *message = &request->message;
    command_clear(command);
    command->kind = each->kind;
    command->session = message->session;
    command->who = request->who;
    command->received_ns = request->received_ns;
    command->context = each;
    command->done = one_done;
    if (each->kind == COMMAND_COPY) {
        command->scene = message->u.copy_scene.scene;
        command->in.copy.key = message->u.copy_scene.keys[i];
    } else if (message->type == WIRE_COPY_SCENE) { /* taken back */
        command->scene = each->opened[i];
    } else if (message->type == WIRE_ADD_BODIES) {
        command->scene = message->u.add_bodies.scene;
        if (each->kind == COMMAND_ADD_BODY)
            fill_body(&message->u.add_bodies, i, command);
        else
            command->in.remove_body.body = each->added[i];
    } else {
        command->scene = message->u.reset_scenes.scenes[i]; /* or close_scenes, which is the same */
    }
}

/* Closing what is closed already is no error: a message that is sent again does that. */
static bool is_harmless(const each_scene *each, contactd_code code) {
    return each->kind == COMMAND_CLOSE && (code == CONTACTD_NOT_FOUND || code == CONTACTD_STALE_HANDLE);
}

/* Which of the bodies the error is about. */
static void name_body(each_scene *each, uint32_t i) {
    char *message = each->error.message;
    const size_t n = strlen(message);
    snprintf(message + n, sizeof each->error.message - n, " (body %" PRIu32 " of %" PRIu32 ", from 0)", i, each->n);
}

/* What became of the commands that are done. */
static void note(each_scene *each) {
    for (uint32_t i = 0; i < each->n_queued; i++) {
        const command *command = &each->commands[i];
        if (command->error.code != CONTACTD_OK) {
            if (each->error.code != CONTACTD_OK || is_harmless(each, command->error.code)) continue;
            each->error = command->error;
            if (each->kind == COMMAND_ADD_BODY) name_body(each, each->next - each->n_queued + i);
        } else if (each->kind == COMMAND_COPY) {
            if (each->n_made == 0) each->record = command->out.scene;
            each->opened[each->n_made++] = command->out.scene.handle;
        } else if (each->kind == COMMAND_ADD_BODY) {
            each->added[each->n_made++] = command->out.body;
        }
    }
}

/* Queues the next commands; those that are refused are done. */
static void queue_some(each_scene *each) {
    scheduler *scheduler = each->request->stream->service->scheduler;
    const uint32_t left = each->n - each->next, n = left < AT_ONCE ? left : AT_ONCE;
    each->n_queued = n;
    atomic_store_explicit(&each->waiting, n + 1, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++) {
        fill_command(each, each->next, &each->commands[i]);
        const bool is_refused = scheduler_submit(scheduler, &each->commands[i]) == SUBMIT_REFUSED;
        if (is_refused && i > 0 && each->commands[i].error.code == CONTACTD_BUSY) {
            /* there is room again when those before it are done: the rest comes in the next round */
            each->n_queued = i;
            atomic_fetch_sub_explicit(&each->waiting, n - i, memory_order_acq_rel);
            break;
        }
        each->next++;
        if (is_refused) atomic_fetch_sub_explicit(&each->waiting, 1, memory_order_acq_rel);
    }
    scheduler_kick(scheduler);
}

static bool makes(command_kind kind) {
    return kind == COMMAND_COPY || kind == COMMAND_ADD_BODY;
}

/* What was made before one failed. */
static void take_back(each_scene *each) {
    each->kind = each->kind == COMMAND_COPY ? COMMAND_CLOSE : COMMAND_REMOVE_BODY;
    each->n = each->n_made;
    each->n_made = each->next = 0;
}

/* On any thread, with nothing queued. */
static void go_on(each_scene *each) {
    for (;;) {
        note(each);
        const bool has_failed = each->error.code != CONTACTD_OK;
        if (has_failed && makes(each->kind) && each->n_made)
            take_back(each);
        else if (each->next == each->n ||
                 (has_failed && each->kind != COMMAND_CLOSE && each->kind != COMMAND_REMOVE_BODY))
            break;
        queue_some(each);
        if (atomic_fetch_sub_explicit(&each->waiting, 1, memory_order_acq_rel) != 1) return;
    }
    stream_finish(each->request);
}

bool each_submit(request *request, server_error *error) {
    const wire_message *message = &request->message;
    const bool is_copy = message->type == WIRE_COPY_SCENE, adds = message->type == WIRE_ADD_BODIES;
    const uint32_t n = is_copy ? message->u.copy_scene.n : adds ? message->u.add_bodies.n : message->u.reset_scenes.n;
    if (is_copy && n == 0)
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, "message", "keys",
                           "keys is empty: expected one for each copy");
    if (message->type == WIRE_RESET_SCENES && !many_check_ids(message->u.reset_scenes.scenes, n, error)) return false;
    each_scene *each = calloc(1, sizeof *each);
    uint64_t *opened = is_copy ? calloc(n, sizeof *opened) : NULL;
    uint32_t *added = adds ? calloc((size_t)n + 1, sizeof *added) : NULL;
    if (!each || (is_copy && !opened) || (adds && !added)) {
        free(each);
        free(opened);
        free(added);
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "message", "", "no memory for %" PRIu32 " %s", n,
                           adds ? "bodies" : "scenes");
    }
    each->request = request;
    each->kind = is_copy                              ? COMMAND_COPY
                 : adds                               ? COMMAND_ADD_BODY
                 : message->type == WIRE_RESET_SCENES ? COMMAND_RESET
                                                      : COMMAND_CLOSE;
    each->n = n;
    each->opened = opened;
    each->added = added;
    request->each = each;
    if (adds) request->scene = message->u.add_bodies.scene;
    stream_charge_request(request, sizeof *each + n * (is_copy ? sizeof *opened : adds ? sizeof *added : 0));
    request->stream->n_outstanding++;
    go_on(each);
    return true;
}

void each_reply(stream *stream, request *request) {
    const each_scene *each = request->each;
    const wire_type type = request->message.type;
    if (each->error.code != CONTACTD_OK) {
        reply_error(stream, request, request->message.request, &each->error, server_error_may_retry(&each->error));
        return;
    }
    wire_message message = {0};
    if (type == WIRE_ADD_BODIES)
        message.u.bodies_added = (wire_bodies_added){request->scene, each->added, each->n_made};
    if (type == WIRE_COPY_SCENE)
        message.u.scenes_opened = (wire_scenes_opened){.scenes = each->opened,
                                                       .n = each->n_made,
                                                       .settings = reply_settings(&each->record.settings),
                                                       .revision = each->record.revision,
                                                       .running_method = each->record.running.method};
    reply(stream, request,
          type == WIRE_COPY_SCENE   ? WIRE_SCENES_OPENED
          : type == WIRE_ADD_BODIES ? WIRE_BODIES_ADDED
                                    : WIRE_DONE,
          &message);
}
