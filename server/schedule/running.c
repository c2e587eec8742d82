/* running.c - what runs now, for those who look: the log, the status and one gauge. For the scheduler. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/schedule/internal.h"

/* What runs for longer is logged. */
#define LONG_S 1.0

const char *command_name(command_kind kind) {
    static const char *const names[] = {
        [COMMAND_OPEN] = "open",
        [COMMAND_CONFIGURE] = "configure",
        [COMMAND_ADD_BODY] = "add_body",
        [COMMAND_REMOVE_BODY] = "remove_body",
        [COMMAND_REPLACE_MESH] = "replace_mesh",
        [COMMAND_SET_MATERIAL] = "set_material",
        [COMMAND_LIST_BODIES] = "list_bodies",
        [COMMAND_STEP] = "step",
        [COMMAND_SNAPSHOT] = "snapshot",
        [COMMAND_CLOSE] = "close",
        [COMMAND_RESET] = "reset",
        [COMMAND_COPY] = "copy",
    };
    return names[kind];
}

/* 0: it does not run. */
static double seconds_of(const command *command, uint64_t now) {
    const uint64_t began_ns = atomic_load(&command->began_ns);
    return began_ns && now > began_ns ? 1e-9 * (double)(now - began_ns) : 0;
}

static void fill(running_command *out, const command *command, double seconds) {
    const char *phase = ct_cancel_phase(&command->cancel);
    *out = (running_command){.scene = command->scene,
                             .principal = command->target->principal,
                             .kind = command->kind,
                             .phase = phase ? phase : "starting",
                             .seconds = seconds};
    memcpy(out->name, command->target->record.name, sizeof out->name);
    memcpy(out->asked_by, command->who.name, sizeof out->asked_by);
    memcpy(out->client, command->asker->client, sizeof out->client);
}

/* Calls visit for each command that runs for `least` seconds or longer. With the lock held. */
static void visit_running(scheduler *scheduler, double least, void (*visit)(void *context, command *, double seconds),
                          void *context) {
    const uint64_t now = clock_ns();
    for (uint32_t i = 0; i < scheduler->n_lanes; i++) {
        for (uint32_t r = 0; r < scheduler->lanes[i].n_runners; r++) {
            const runner *runner = &scheduler->lanes[i].runners[r];
            for (command *command = runner->is_running ? runner->first_taken : NULL; command; command = command->next) {
                const double seconds = seconds_of(command, now);
                if (seconds >= least) visit(context, command, seconds);
            }
        }
    }
}

typedef struct list {
    running_command *items;
    size_t n, room;
} list;

static void count(void *context, command *command, double seconds) {
    (void)command;
    (void)seconds;
    ((list *)context)->room++;
}

static void add(void *context, command *command, double seconds) {
    list *list = context;
    if (list->n < list->room) fill(&list->items[list->n++], command, seconds); /* it may have begun since the count */
}

static int longest_first(const void *a, const void *b) {
    const running_command *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

bool scheduler_list_running(scheduler *scheduler, double least_s, running_command **out, size_t *n) {
    list list = {0};
    pthread_mutex_lock(&scheduler->lock);
    visit_running(scheduler, least_s, count, &list);
    list.items = malloc((list.room + 1) * sizeof *list.items);
    if (list.items) visit_running(scheduler, least_s, add, &list);
    pthread_mutex_unlock(&scheduler->lock);
    if (list.items) qsort(list.items, list.n, sizeof *list.items, longest_first);
    *out = list.items;
    *n = list.n;
    return list.items != NULL;
}

static void take_longest(void *context, command *command, double seconds) {
    double *longest = context;
    (void)command;
    if (seconds > *longest) *longest = seconds;
}

double scheduler_longest_running(scheduler *scheduler) {
    double longest = 0;
    pthread_mutex_lock(&scheduler->lock);
    visit_running(scheduler, 0, take_longest, &longest);
    pthread_mutex_unlock(&scheduler->lock);
    return longest;
}

/* ---- the log ---- */

/* "scene 3 \"brush\" of anna (client \"sim\")" */
static void describe(const running_command *running, char text[256]) {
    char name[REGISTRY_NAME + 8] = "", who[IDENTITY_NAME + 8] = "", client[REGISTRY_NAME + 16] = "";
    if (running->name[0]) snprintf(name, sizeof name, " \"%s\"", running->name);
    if (running->asked_by[0]) snprintf(who, sizeof who, " of %s", running->asked_by);
    if (running->client[0]) snprintf(client, sizeof client, " (client \"%s\")", running->client);
    snprintf(text, 256, "scene %" PRIu64 "%s%s%s: %s", running->scene, name, who, client, command_name(running->kind));
}

enum { LINES = 16 }; /* of one look; the others are said at the next */

typedef struct lines {
    running_command items[LINES];
    size_t n;
} lines;

static void note_long(void *context, command *command, double seconds) {
    lines *lines = context;
    if (lines->n == LINES || atomic_exchange(&command->is_logged, true)) return;
    fill(&lines->items[lines->n++], command, seconds);
}

void running_log_long(scheduler *scheduler) {
    lines lines = {.n = 0};
    pthread_mutex_lock(&scheduler->lock);
    visit_running(scheduler, LONG_S, note_long, &lines);
    pthread_mutex_unlock(&scheduler->lock);
    for (size_t i = 0; i < lines.n; i++) {
        char text[256];
        describe(&lines.items[i], text);
        log_warn("schedule", "%s has run for %.1f s: %s", text, lines.items[i].seconds, lines.items[i].phase);
    }
}

void running_log_end(const command *command, double seconds) {
    running_command running;
    char text[256];
    fill(&running, command, seconds);
    describe(&running, text);
    const char *outcome = command->error.code != CONTACTD_OK ? command->error.message
                          : command->fate != COMMAND_ENDS    ? "it waits again"
                                                             : "done";
    log_warn("schedule", "%s ran for %.1f s: %s", text, seconds, outcome);
}
