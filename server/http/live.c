/* live.c - see live.h. */
#include "server/http/live.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/http/live_events.h"

enum { DEFAULT_RATE = 15, MAX_RATE = 60 };
#define SECOND_NS    UINT64_C(1000000000)
#define HEARTBEAT_NS (10 * SECOND_NS)

/* One that watches a scene. */
typedef struct viewer {
    struct viewer *next;
    struct watched_scene *scene;
    http_sleeper sleeper;
    bool is_asleep, has_ended;
    bool is_counted; /* in live.n_viewers */
    bool is_new;     /* it has not been told of the bodies */
    identity who;
    uint32_t generation;     /* of the list of principals that it was in */
    unsigned show;           /* LIVE_... */
    uint64_t period_ns;      /* between two frames */
    uint64_t next_ns;        /* no frame before */
    uint64_t told_ns;        /* when something was last sent */
    live_event *first_event; /* to send before any frame: of bodies, and at last of the end */
    live_event *frame;       /* the newest that was not begun */
    live_event *early;       /* the newest of all, to be sent once next_ns has come */
    live_event *sending;
    size_t sent; /* of it */
} viewer;

typedef struct watched_scene {
    struct watched_scene *next;
    struct live *live;
    uint64_t handle;
    viewer *viewers;
    uint64_t next_ns;        /* no look before */
    uint64_t steps, version; /* when it was last looked at */
    uint64_t told_version;   /* that all viewers know but new ones */
    bool waits;              /* the queue was full: nothing before next_ns, for new viewers neither */
    bool is_looked_at;       /* the command is queued */
    bool has_look;           /* it is done */
    command look;
} watched_scene;

struct live {
    const service *service;
    pthread_t thread;
    pthread_mutex_t
        lock; /* guards all that follows, and what scenes and viewers hold but for `look` while it is queued */
    pthread_cond_t wake;
    watched_scene *scenes;
    uint32_t n_viewers;
    bool has_ended, is_stopping;
};

/* ---- viewers; with the lock ---- */

static void rouse(viewer *v) {
    if (!v->is_asleep) return;
    v->is_asleep = false;
    v->sleeper.wake(v->sleeper.of);
}

static void uncount(viewer *v) {
    v->scene->live->n_viewers -= v->is_counted;
    v->is_counted = false;
}

/* Whoever has left while there was nothing to send: its connection is looked at again, and closed. */
static void forget_gone(watched_scene *scene) {
    for (viewer *v = scene->viewers; v; v = v->next) {
        if (!v->is_asleep || !v->sleeper.has_left(v->sleeper.of)) continue;
        uncount(v);
        v->has_ended = true;
        rouse(v);
    }
}

/* Takes a reference of its own. */
static void give(live_event **place, live_event *event) {
    live_event_release(place);
    *place = live_event_retain(event);
}

/* may_again: it may come again. */
static void end_viewer(viewer *v, const char *why, bool may_again) {
    if (v->has_ended) return;
    v->has_ended = true;
    live_event_release(&v->first_event);
    live_event_release(&v->frame);
    live_event_release(&v->early);
    v->first_event = live_closed_event(why, may_again); /* NULL: the stream just ends */
    rouse(v);
}

static void end_all(watched_scene *scene, const char *why, bool may_again) {
    for (viewer *v = scene->viewers; v; v = v->next) end_viewer(v, why, may_again);
}

/* The next event, or part of one. 0: it has ended. */
static size_t read_viewer(void *context, uint64_t at, char *to, size_t most) {
    viewer *v = context;
    struct live *live = v->scene->live;
    size_t n = 0;
    (void)at;
    pthread_mutex_lock(&live->lock);
    if (!v->sending) {
        live_event **next = v->first_event ? &v->first_event : &v->frame;
        v->sending = *next;
        *next = NULL;
        v->sent = 0;
    }
    if (v->sending) {
        const size_t left = v->sending->size - v->sent;
        n = left < most ? left : most;
        memcpy(to, v->sending->text + v->sent, n);
        v->sent += n;
        v->told_ns = clock_ns();
        if (v->sent == v->sending->size) live_event_release(&v->sending);
    } else if (!v->has_ended) {
        v->is_asleep = true;
        v->sleeper.sleep(v->sleeper.of);
        n = HTTP_SOURCE_WAITS;
    }
    pthread_mutex_unlock(&live->lock);
    return n;
}

static void attach_viewer(void *context, const http_sleeper *sleeper) {
    viewer *v = context;
    v->sleeper = *sleeper;
}

static void close_viewer(void *context) {
    viewer *v = context;
    struct live *live = v->scene->live;
    pthread_mutex_lock(&live->lock);
    viewer **at = &v->scene->viewers;
    while (*at != v) at = &(*at)->next;
    *at = v->next;
    uncount(v);
    pthread_cond_signal(&live->wake);
    pthread_mutex_unlock(&live->lock);
    live_event_release(&v->first_event);
    live_event_release(&v->frame);
    live_event_release(&v->early);
    live_event_release(&v->sending);
    free(v);
}

/* ---- looking ---- */

static void on_look(command *command) { /* on a thread of the scheduler */
    watched_scene *scene = command->context;
    struct live *live = scene->live;
    pthread_mutex_lock(&live->lock);
    scene->has_look = true;
    pthread_cond_signal(&live->wake);
    pthread_mutex_unlock(&live->lock);
}

/* The first that is there and is wanted. */
static const viewer *viewer_of(const watched_scene *scene, bool is_new) {
    for (const viewer *v = scene->viewers; v; v = v->next)
        if (!v->has_ended && (v->is_new || !is_new)) return v;
    return NULL;
}

static uint64_t period_of(const watched_scene *scene) {
    uint64_t least = SECOND_NS;
    for (const viewer *v = scene->viewers; v; v = v->next)
        if (v->period_ns < least) least = v->period_ns;
    return least;
}

/* Why no frame comes. Empty: one does. */
typedef struct hindrance {
    char text[256];
    bool may_again;
} hindrance;

/* error NULL: the scene is not there. */
static void hinder(hindrance *hindrance, const server_error *error) {
    const contactd_code code = error ? error->code : CONTACTD_NOT_FOUND;
    const bool has_gone = code == CONTACTD_NOT_FOUND || code == CONTACTD_STALE_HANDLE;
    snprintf(hindrance->text, sizeof hindrance->text, "%.255s", has_gone ? "the scene was closed" : error->message);
    hindrance->may_again = !has_gone;
}

/* Queues the command if there is something to see, without the lock but for its end. */
static void look(watched_scene *scene, bool is_new, const identity *who, hindrance *hindrance) {
    const service *service = scene->live->service;
    scene_record record;
    server_error error = {0};
    scene->waits = false;
    if (!registry_scene(service->registry, scene->handle, &record, &error)) {
        hinder(hindrance, NULL);
        return;
    }
    if (!is_new && record.steps == scene->steps && record.version == scene->version) return;
    scene->steps = record.steps;
    scene->version = record.version;
    scene->look = (command){.kind = COMMAND_LIST_BODIES,
                            .session = SESSION_NONE,
                            .who = *who,
                            .scene = scene->handle,
                            .done = on_look,
                            .context = scene};
    scene->look.in.list_bodies.with_positions = scene->look.in.list_bodies.with_answer = true;
    scene->is_looked_at = true;
    const submit_outcome outcome = scheduler_submit(service->scheduler, &scene->look);
    if (outcome == SUBMIT_QUEUED) {
        scheduler_kick(service->scheduler);
        return;
    }
    scene->is_looked_at = false;
    scene->steps = 0; /* it is looked at again */
    scene->waits = scene->look.error.code == CONTACTD_BUSY;
    if (!scene->waits) hinder(hindrance, &scene->look.error);
}

/* What viewers get of a look. Frames are made for each choice of LIVE_... that one of them had made when it began. */
typedef struct news {
    bool wanted[LIVE_CHOICES];
    live_event *bodies, *frame[LIVE_CHOICES];
    hindrance hindrance;
} news;

static void make_news(const watched_scene *scene, news *news) {
    const command *look = &scene->look;
    if (look->error.code != CONTACTD_OK) {
        hinder(&news->hindrance, &look->error);
        return;
    }
    scene_record record;
    server_error error = {0};
    if (!registry_scene(scene->live->service->registry, scene->handle, &record, &error)) {
        hinder(&news->hindrance, NULL);
        return;
    }
    const live_look seen = {.scene = &record,
                            .bodies = look->out.bodies.items,
                            .n_bodies = look->out.bodies.n,
                            .positions = look->out.bodies.positions,
                            .answer = look->out.bodies.answer,
                            .limit = scene->live->service->config->max_message};
    news->bodies = live_bodies_event(&seen);
    for (unsigned show = 0; show < LIVE_CHOICES; show++)
        if (news->wanted[show]) news->frame[show] = live_frame_event(&seen, show);
}

static void free_look(watched_scene *scene) {
    free(scene->look.out.bodies.items);
    free(scene->look.out.bodies.positions);
    if (scene->look.error.code == CONTACTD_OK) step_answer_release(&scene->look.out.bodies.answer);
    memset(&scene->look, 0, sizeof scene->look);
}

/* With the lock, as what follows. */
static void send_early(viewer *v, uint64_t now) {
    if (!v->early || now < v->next_ns) return;
    live_event_release(&v->frame);
    v->frame = v->early;
    v->early = NULL;
    v->next_ns = now + v->period_ns;
    rouse(v);
}

static void tell(watched_scene *scene, const news *news) {
    const uint64_t now = clock_ns();
    const bool has_changed = scene->told_version != scene->version;
    for (viewer *v = scene->viewers; v; v = v->next) {
        live_event *frame = news->frame[v->show];
        if (v->has_ended || !news->wanted[v->show]) continue; /* who came meanwhile is new: there is another look */
        if (!news->bodies || !frame) {
            if (news->hindrance.text[0])
                end_viewer(v, news->hindrance.text, news->hindrance.may_again);
            else
                end_viewer(v, "there is no memory for a frame, or it would be larger than --max-message", false);
            continue;
        }
        if (v->is_new || has_changed) {
            give(&v->first_event, news->bodies);
            v->next_ns = now;
        }
        v->is_new = false;
        give(&v->early, frame);
        send_early(v, now);
    }
    scene->told_version = scene->version;
}

/* ---- the thread; with the lock, which is let go of to look ---- */

static void take_look(struct live *live, watched_scene *scene) {
    news news = {0};
    for (viewer *v = scene->viewers; v; v = v->next) news.wanted[v->show] = true;
    scene->has_look = scene->is_looked_at = false;
    pthread_mutex_unlock(&live->lock);
    make_news(scene, &news);
    free_look(scene);
    pthread_mutex_lock(&live->lock);
    tell(scene, &news);
    live_event_release(&news.bodies);
    for (unsigned show = 0; show < LIVE_CHOICES; show++) live_event_release(&news.frame[show]);
}

static void begin_look(struct live *live, watched_scene *scene, uint64_t now) {
    const viewer *new = viewer_of(scene, true);
    const identity who = (new ? new : viewer_of(scene, false))->who;
    hindrance hindrance = {0};
    scene->next_ns = now + period_of(scene);
    pthread_mutex_unlock(&live->lock);
    look(scene, new, &who, &hindrance);
    pthread_mutex_lock(&live->lock);
    if (hindrance.text[0]) end_all(scene, hindrance.text, hindrance.may_again);
}

/* What is due without a look. *next: when something will be. */
static void send_due(watched_scene *scene, uint64_t now, uint64_t *next) {
    for (viewer *v = scene->viewers; v; v = v->next) {
        send_early(v, now);
        if (v->early && v->next_ns < *next) *next = v->next_ns;
        if (v->has_ended || !v->is_asleep || now - v->told_ns < HEARTBEAT_NS) continue;
        live_event_release(&v->first_event);
        v->first_event = live_heartbeat();
        rouse(v);
    }
}

/* Whoever came under an older list of principals may have lost its place in it: it must show its token again. */
static void end_unlisted(watched_scene *scene) {
    const uint32_t generation = guard_generation(scene->live->service->guard);
    for (viewer *v = scene->viewers; v; v = v->next)
        if (v->generation != generation) end_viewer(v, "the list of principals was read again", true);
}

/* Does what is to be done for a scene, which may let go of the lock: then true, and the list is walked anew. */
static bool serve(struct live *live, watched_scene *scene, uint64_t now, uint64_t *next) {
    forget_gone(scene);
    end_unlisted(scene);
    send_due(scene, now, next);
    if (scene->has_look) {
        take_look(live, scene);
        return true;
    }
    if (scene->is_looked_at || !viewer_of(scene, false)) return false;
    if (now >= scene->next_ns || (viewer_of(scene, true) && !scene->waits)) {
        begin_look(live, scene, now);
        return true;
    }
    if (scene->next_ns < *next) *next = scene->next_ns;
    return false;
}

static void drop_unwatched(struct live *live) {
    for (watched_scene **at = &live->scenes; *at;) {
        watched_scene *scene = *at;
        if (scene->viewers || scene->is_looked_at) {
            at = &scene->next;
            continue;
        }
        *at = scene->next;
        free(scene);
    }
}

static void wait_until(struct live *live, uint64_t now, uint64_t next) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const uint64_t at = (uint64_t)until.tv_nsec + (next > now ? next - now : 0);
    until.tv_sec += (time_t)(at / SECOND_NS);
    until.tv_nsec = (long)(at % SECOND_NS);
    pthread_cond_timedwait(&live->wake, &live->lock, &until);
}

static void *run(void *argument) {
    struct live *live = argument;
    pthread_mutex_lock(&live->lock);
    while (!live->is_stopping || live->scenes) {
        const uint64_t now = clock_ns();
        uint64_t next = now + SECOND_NS;
        bool again = false;
        for (watched_scene *scene = live->scenes; scene && !again; scene = scene->next)
            again = serve(live, scene, now, &next);
        if (again) continue;
        drop_unwatched(live);
        if (!live->is_stopping || live->scenes) wait_until(live, now, next);
    }
    pthread_mutex_unlock(&live->lock);
    return NULL;
}

struct live *live_start(const service *service) {
    struct live *live = calloc(1, sizeof *live);
    if (!live) return NULL;
    live->service = service;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&live->lock, NULL);
    pthread_cond_init(&live->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&live->thread, NULL, run, live) == 0) return live;
    pthread_mutex_destroy(&live->lock);
    pthread_cond_destroy(&live->wake);
    free(live);
    return NULL;
}

void live_end(struct live *live) {
    if (!live) return;
    pthread_mutex_lock(&live->lock);
    live->has_ended = true;
    for (watched_scene *scene = live->scenes; scene; scene = scene->next)
        end_all(scene, "the server is shutting down", true);
    pthread_mutex_unlock(&live->lock);
}

void live_stop(struct live **where) {
    struct live *live = *where;
    *where = NULL;
    if (!live) return;
    pthread_mutex_lock(&live->lock);
    live->is_stopping = true;
    pthread_cond_signal(&live->wake);
    pthread_mutex_unlock(&live->lock);
    pthread_join(live->thread, NULL);
    pthread_mutex_destroy(&live->lock);
    pthread_cond_destroy(&live->wake);
    free(live);
}

/* ---- requests ---- */

static bool parse(const char *query, viewer *v, problem *p) {
    query_field field[] = {{.name = "rate"}, {.name = "points"}, {.name = "surface"}, {.name = NULL}};
    uint64_t rate = DEFAULT_RATE;
    bool points = true, surface = true;
    if (!request_fields(query, field, HTTP_QUERY_LIVE, p) || !request_whole(&field[0], 1, MAX_RATE, &rate, p) ||
        !request_flag(&field[1], &points, p) || !request_flag(&field[2], &surface, p))
        return false;
    v->period_ns = SECOND_NS / rate;
    v->show = (points ? LIVE_POINTS : 0u) | (surface ? LIVE_SURFACE : 0u);
    return true;
}

static bool check_scene(const service *service, uint64_t handle, const identity *who, problem *p) {
    scene_record record;
    server_error error = {0};
    if (!registry_scene(service->registry, handle, &record, &error)) return problem_take(p, &error);
    return scene_is_visible(&record, who) || (registry_fail_scene(handle, &error), problem_take(p, &error));
}

/* With the lock. NULL: out of memory. */
static watched_scene *scene_of(struct live *live, uint64_t handle) {
    for (watched_scene *scene = live->scenes; scene; scene = scene->next)
        if (scene->handle == handle) return scene;
    watched_scene *scene = calloc(1, sizeof *scene);
    if (!scene) return NULL;
    scene->live = live;
    scene->handle = handle;
    scene->next = live->scenes;
    return live->scenes = scene;
}

static bool join(struct live *live, uint64_t handle, viewer *v, problem *p) {
    const uint32_t most = live->service->config->http_viewers;
    if (live->has_ended) return problem_set(p, CONTACTD_SHUTTING_DOWN, NULL, "the server is shutting down");
    for (watched_scene *scene = live->scenes; scene && live->n_viewers >= most; scene = scene->next) forget_gone(scene);
    if (live->n_viewers >= most) {
        problem_set_http(p, CONTACTD_BUSY, 503, "too many viewers", NULL,
                         "as many viewers watch scenes as may (%u, --http-viewers): close one, or look at snapshots",
                         most);
        p->retry_after_ms = 5000;
        return false;
    }
    v->scene = scene_of(live, handle);
    if (!v->scene) return problem_set(p, CONTACTD_OUT_OF_MEMORY, NULL, "no memory for another viewer");
    v->next = v->scene->viewers;
    v->scene->viewers = v;
    v->is_counted = true;
    live->n_viewers++;
    pthread_cond_signal(&live->wake);
    return true;
}

bool handle_live(const service *service, const http_request *request, http_answer *answer, problem *p) {
    uint64_t handle;
    if (!route_scene(&request->match, &handle, p)) return false;
    viewer *v = calloc(1, sizeof *v);
    if (!v) return problem_set(p, CONTACTD_OUT_OF_MEMORY, NULL, "no memory for another viewer");
    v->is_new = true;
    v->who = request->who;
    v->generation = request->generation;
    v->told_ns = clock_ns();
    bool good = parse(request->query, v, p) && check_scene(service, handle, &request->who, p);
    if (good) {
        pthread_mutex_lock(&request->live->lock);
        good = join(request->live, handle, v, p);
        pthread_mutex_unlock(&request->live->lock);
    }
    if (!good) {
        free(v);
        return false;
    }
    *answer = (http_answer){
        .status = 200, .type = "text/event-stream", .source = {read_viewer, close_viewer, attach_viewer, v}};
    return true;
}
