/* each.c - the same command on each of many scenes, or many times on one, for one message. A few are queued at a time, so
 * that a long list takes few places in the queue and other clients' commands run between its own; the last that ends queues
 * the next few, on the thread where it ran. The first that fails ends the list; copies made until then are closed again. */
#include "server/stream/each.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/stream/many.h"

enum { AT_ONCE = 32 };

struct each_scene {
    request *request;
    command_kind kind;
    uint32_t n, next;  /* commands, and the first that was not queued yet */
    uint32_t n_queued; /* of commands[], the last time */
    uint64_t *opened;  /* [n] COPY: the scenes */
    uint32_t n_opened;
    atomic_uint waiting; /* commands not done, and one while they are queued */
    server_error error;  /* the first; code OK: none */
    scene_record record; /* COPY: of the first copy */
    command commands[AT_ONCE];
};

void each_free(each_scene **each) {
    if (*each) free((*each)->opened);
    free(*each);
    *each = NULL;
}

static void go_on(each_scene *each);

static void one_done(command *command) {
    each_scene *each = command->context;
    if (atomic_fetch_sub_explicit(&each->waiting, 1, memory_order_acq_rel) == 1) go_on(each);
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
    } else {
        command->scene = message->u.reset_scenes.scenes[i]; /* or close_scenes, which is the same */
    }
}

/* Closing what is closed already is no error: a message that is sent again does that. */
static bool is_harmless(const each_scene *each, contactd_code code) {
    return each->kind == COMMAND_CLOSE && (code == CONTACTD_NOT_FOUND || code == CONTACTD_STALE_HANDLE);
}

/* What became of the commands that are done. */
static void note(each_scene *each) {
    for (uint32_t i = 0; i < each->n_queued; i++) {
        const command *command = &each->commands[i];
        if (command->error.code != CONTACTD_OK) {
            if (each->error.code == CONTACTD_OK && !is_harmless(each, command->error.code))
                each->error = command->error;
        } else if (each->kind == COMMAND_COPY) {
            if (each->n_opened == 0) each->record = command->out.scene;
            each->opened[each->n_opened++] = command->out.scene.handle;
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

/* Copies that were made before one failed. */
static void take_back(each_scene *each) {
    each->kind = COMMAND_CLOSE;
    each->n = each->n_opened;
    each->n_opened = each->next = 0;
}

/* On any thread, with nothing queued. */
static void go_on(each_scene *each) {
    for (;;) {
        note(each);
        const bool has_failed = each->error.code != CONTACTD_OK;
        if (has_failed && each->kind == COMMAND_COPY && each->n_opened)
            take_back(each);
        else if (each->next == each->n || (has_failed && each->kind != COMMAND_CLOSE))
            break;
        queue_some(each);
        if (atomic_fetch_sub_explicit(&each->waiting, 1, memory_order_acq_rel) != 1) return;
    }
    stream_finish(each->request);
}

bool each_submit(request *request, server_error *error) {
    const wire_message *message = &request->message;
    const bool is_copy = message->type == WIRE_COPY_SCENE;
    const uint32_t n = is_copy ? message->u.copy_scene.n : message->u.reset_scenes.n;
    if (is_copy && n == 0)
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, "message", "keys",
                           "keys is empty: expected one for each copy");
    if (message->type == WIRE_RESET_SCENES && !many_check_ids(message->u.reset_scenes.scenes, n, error)) return false;
    each_scene *each = calloc(1, sizeof *each);
    uint64_t *opened = calloc(n + 1, sizeof *opened);
    if (!each || !opened) {
        free(each);
        free(opened);
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "message", "scenes", "no memory for %" PRIu32 " scenes", n);
    }
    each->request = request;
    each->kind = is_copy ? COMMAND_COPY : message->type == WIRE_RESET_SCENES ? COMMAND_RESET : COMMAND_CLOSE;
    each->n = n;
    each->opened = opened;
    request->each = each;
    stream_charge_request(request, sizeof *each + n * sizeof *opened);
    request->stream->n_outstanding++;
    go_on(each);
    return true;
}

void each_reply(stream *stream, request *request) {
    const each_scene *each = request->each;
    const bool is_copy = request->message.type == WIRE_COPY_SCENE;
    if (each->error.code != CONTACTD_OK) {
        reply_error(stream, request, request->message.request, &each->error, server_error_may_retry(&each->error));
        return;
    }
    wire_message message = {0};
    if (is_copy)
        message.u.scenes_opened = (wire_scenes_opened){.scenes = each->opened,
                                                       .n = each->n_opened,
                                                       .settings = reply_settings(&each->record.settings),
                                                       .revision = each->record.revision,
                                                       .running_method = each->record.running.method};
    reply(stream, request, is_copy ? WIRE_SCENES_OPENED : WIRE_DONE, &message);
}
