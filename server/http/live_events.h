/* live_events.h - the texts of server-sent events about a scene: proto/openapi.json describes them. For live.c. */
#ifndef CONTACTD_HTTP_LIVE_EVENTS_H
#define CONTACTD_HTTP_LIVE_EVENTS_H

#include <stdatomic.h>

#include "server/registry/registry.h"
#include "server/schedule/schedule.h"

/* Shared by all who send it. */
typedef struct live_event {
    atomic_uint references;
    size_t size;
    char *text;
} live_event;

live_event *live_event_retain(live_event *event);
void live_event_release(live_event **event); /* nulls the pointer; NULL inside is allowed */

/* What a frame has beside poses, positions and contacts. */
enum { LIVE_POINTS = 1, LIVE_SURFACE = 2, LIVE_CHOICES = 4 };

/* A scene at one moment. */
typedef struct live_look {
    const scene_record *scene;
    const body_record *bodies; /* [n_bodies] */
    size_t n_bodies;
    const float *positions;    /* as in command.out.bodies */
    const step_answer *answer; /* the last step's; NULL: it is not kept */
    size_t limit;              /* bytes of an event */
} live_look;

/* NULL: out of memory, or beyond the limit. */
live_event *live_bodies_event(const live_look *look);
live_event *live_frame_event(const live_look *look, unsigned show);
/* may_again: asking for events again may succeed. */
live_event *live_closed_event(const char *why, bool may_again);
live_event *live_heartbeat(void);

#endif
