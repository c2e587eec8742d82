/* many.c - steps of many scenes: checked, sent in one message, and kept as the state of the bodies where they went well. */
#include "client_c/many_result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/flight.h"
#include "client_c/mirror.h"
#include "client_c/records.h"
#include "client_c/restore.h"
#include "client_c/session.h"
#include "client_c/steps.h"

#define MANY_COOKIE 0xc0b8u

static const char object_of_all[] = "steps of many scenes";

void contactd_many_init(contactd_many *many) {
    if (many) *many = (contactd_many){.cookie = MANY_COOKIE, .want = CONTACTD_WANT_FRAME};
}

/* What a call works on. */
typedef struct work {
    contactd_client *client;
    const contactd_many *many;
    ctc_scene **scenes;                   /* [n] */
    uint64_t *ids, *sequences, *vertices; /* [n], [n], [n_soft] */
    uint32_t *posed, *moving, *soft;      /* the server's bodies, [n][n_posed] and so on */
    uint64_t sum;                         /* of vertices */
} work;

/* ---- checking ---- */

static contactd_code fail(contactd_client *client, contactd_code code, const char *field, const char *why) {
    return ctc_fail(client, code, object_of_all, field, "%s", why);
}

static contactd_code check_pointers(contactd_client *client, const contactd_many *m) {
    const struct {
        const char *field;
        bool is_missing;
    } rows[] = {{"scenes", m->n_scenes && !m->scenes},    {"posed", m->n_posed && !m->posed},
                {"poses", m->n_posed && !m->poses},       {"moving", m->n_moving && !m->moving},
                {"twists", m->n_moving && !m->twists},    {"soft", m->n_soft && !m->soft},
                {"positions", m->n_soft && !m->positions}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].is_missing)
            return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, object_of_all, rows[i].field, "%s is NULL",
                            rows[i].field);
    return CONTACTD_OK;
}

static contactd_code check_options(contactd_client *client, const contactd_many *m) {
    const uint32_t known = CONTACTD_WANT_FRAME | CONTACTD_WANT_INERTIA | CONTACTD_WANT_IDS;
    if (m->cookie != MANY_COOKIE)
        return fail(client, CONTACTD_INVALID_ARGUMENT, "many",
                    "it was not filled by contactd_many_init of this version");
    if (m->want & ~known)
        return fail(client, CONTACTD_INVALID_ARGUMENT, "want",
                    "many scenes are asked for FRAME, INERTIA and IDS alone: for gradients and forces step a scene");
    if (m->n_scenes > WIRE_MOST_SCENES)
        return ctc_fail(client, CONTACTD_TOO_LARGE, object_of_all, "n_scenes",
                        "%zu scenes are given, at most %d are allowed: step the rest in another call", m->n_scenes,
                        WIRE_MOST_SCENES);
    if (client->welcome.last_message < WIRE_STEP_MANY)
        return fail(client, CONTACTD_UNSUPPORTED, "scenes",
                    "the server is too old to step many scenes at once: submit their steps one by one");
    return check_pointers(client, m);
}

static contactd_code check_scene(work *w, ctc_scene *scene) {
    char object[CTC_OBJECT];
    ctc_scene_object(scene, object);
    if (scene->many_call == w->client->many_calls)
        return ctc_fail(w->client, CONTACTD_INVALID_ARGUMENT, object, "scenes", "the scene is listed twice");
    if (scene->has_continuous_frames)
        return ctc_fail(w->client, CONTACTD_INVALID_ARGUMENT, object, "scenes",
                        "its frames are continuous, which steps of many scenes leave out: step it alone");
    scene->many_call = w->client->many_calls;
    return CONTACTD_OK;
}

static contactd_update pose_of(const contactd_many *m, size_t scene, size_t i) {
    return contactd_move(m->posed[i], m->poses + 12 * (scene * m->n_posed + i));
}

/* first: of the body's vertices, among those of its scene. */
static contactd_update positions_of(const work *w, size_t scene, size_t i, uint64_t first) {
    const contactd_many *m = w->many;
    return (contactd_update){.body = m->soft[i],
                             .kind = CONTACTD_POSITIONS,
                             .positions =
                                 (const char *)m->positions + (m->float64 ? 24 : 12) * (size_t)(scene * w->sum + first),
                             .float64 = m->float64,
                             .count = w->vertices[i]};
}

/* The error of a body names its scene too, where there are many of the same handle. */
static contactd_code name_scene(work *w, const ctc_scene *scene, contactd_code code) {
    contactd_error *error = &w->client->error;
    char object[CTC_OBJECT];
    if (code == CONTACTD_OK || strstr(error->object, "scene")) return code;
    const size_t end = strlen(error->object);
    snprintf(error->object + end, sizeof error->object - end, " of %.60s", ctc_scene_object(scene, object));
    return code;
}

static contactd_code check_motion(work *w, ctc_scene *scene, size_t k) {
    const contactd_many *m = w->many;
    contactd_code code = CONTACTD_OK;
    for (size_t i = 0; i < m->n_posed && code == CONTACTD_OK; i++) {
        const contactd_update update = pose_of(m, k, i);
        code = ctc_check_update(w->client, scene, &update);
    }
    for (size_t i = 0; i < m->n_moving && code == CONTACTD_OK; i++) {
        const ctc_body *body = ctc_find_body(w->client, scene, m->moving[i]);
        char object[CTC_OBJECT];
        if (!body) return name_scene(w, scene, w->client->error.code);
        snprintf(object, sizeof object, "body %u", m->moving[i]);
        if (!body->rigid)
            code = ctc_fail(w->client, CONTACTD_CONFLICT, object, "twists", "body %u is deformable: it takes no twist",
                            m->moving[i]);
    }
    uint64_t first = 0;
    for (size_t i = 0; i < m->n_soft && code == CONTACTD_OK; i++) {
        const contactd_update update = positions_of(w, k, i, first);
        code = ctc_check_update(w->client, scene, &update);
        first += w->vertices[i];
    }
    return name_scene(w, scene, code);
}

/* The vertices of the first scene's bodies; those of the others are the same, or an error. */
static contactd_code count_vertices(work *w) {
    for (size_t i = 0; i < w->many->n_soft; i++) {
        const ctc_body *body = ctc_find_body(w->client, w->scenes[0], w->many->soft[i]);
        if (!body) return w->client->error.code;
        w->sum += w->vertices[i] = body->vertices;
    }
    if (w->many->n_positions == w->many->n_scenes * w->sum) return CONTACTD_OK;
    return ctc_fail(w->client, CONTACTD_WRONG_LENGTH, object_of_all, "positions",
                    "%zu positions are given, expected %llu, the vertices of the bodies of soft in each of %zu scenes",
                    w->many->n_positions, (unsigned long long)(w->many->n_scenes * w->sum), w->many->n_scenes);
}

static contactd_code check(work *w) {
    contactd_client *client = w->client;
    client->many_calls++;
    for (size_t k = 0; k < w->many->n_scenes; k++) {
        w->scenes[k] = ctc_find_scene(client, w->many->scenes[k]);
        contactd_code code = w->scenes[k] ? check_scene(w, w->scenes[k]) : client->error.code;
        if (code == CONTACTD_OK && k == 0) code = count_vertices(w);
        if (code == CONTACTD_OK) code = check_motion(w, w->scenes[k], k);
        if (code != CONTACTD_OK) return code;
    }
    return CONTACTD_OK;
}

/* ---- sending ---- */

/* Once where all scenes have the same, else one scene's after the other's. */
static wire_bodies bodies_of(const work *w, const contactd_body *handles, size_t n, uint32_t *to) {
    bool differ = false;
    for (size_t k = 0; k < w->many->n_scenes; k++)
        for (size_t i = 0; i < n; i++) {
            to[k * n + i] = w->scenes[k]->bodies[handles[i] - 1]->server;
            differ |= to[k * n + i] != to[i];
        }
    return (wire_bodies){to, (uint32_t)n, differ};
}

static wire_array numbers(wire_dtype dtype, const void *data, uint64_t n) {
    return (wire_array){n ? dtype : WIRE_NONE, n, n ? data : NULL};
}

static contactd_code send(work *w) {
    const contactd_many *m = w->many;
    const size_t n = m->n_scenes;
    for (size_t k = 0; k < n; k++) {
        contactd_code code = ctc_ensure_scene(w->client, w->scenes[k]);
        if (code != CONTACTD_OK) return code;
        w->ids[k] = w->scenes[k]->server;
        w->sequences[k] = w->scenes[k]->sequence + 1;
    }
    wire_message message = {
        .type = WIRE_STEP_MANY,
        .u.step_many = {.scenes = w->ids,
                        .sequences = w->sequences,
                        .n = (uint32_t)n,
                        .want = m->want,
                        .deadline_us = m->deadline_us,
                        .posed = bodies_of(w, m->posed, m->n_posed, w->posed),
                        .moving = bodies_of(w, m->moving, m->n_moving, w->moving),
                        .soft = bodies_of(w, m->soft, m->n_soft, w->soft),
                        .poses = numbers(WIRE_F64, m->poses, 12 * n * m->n_posed),
                        .twists = numbers(WIRE_F64, m->twists, 6 * n * m->n_moving),
                        .positions = numbers(m->float64 ? WIRE_F64 : WIRE_F32, m->positions, 3 * n * w->sum),
                        .vertices = w->vertices}};
    return ctc_exchange(w->client, &message, WIRE_MANY_RESULT, object_of_all);
}

/* ---- the answer ---- */

static void keep_motion(work *w, size_t k) {
    uint64_t first = 0;
    for (size_t i = 0; i < w->many->n_posed; i++) {
        const contactd_update update = pose_of(w->many, k, i);
        ctc_keep_update(w->scenes[k], &update);
    }
    for (size_t i = 0; i < w->many->n_soft; i++) {
        const contactd_update update = positions_of(w, k, i, first);
        ctc_keep_update(w->scenes[k], &update);
        first += w->vertices[i];
    }
}

/* What the server has done. */
static void note_steps(work *w, const contactd_many_result *result, const bool *is_answer) {
    for (size_t k = 0, e = 0; k < w->many->n_scenes; k++) {
        ctc_scene *scene = w->scenes[k];
        if (e == result->n_errors || result->errors[e].scene != k) {
            scene->sequence++;
            scene->rebuilt = false;
            keep_motion(w, k);
            continue;
        }
        scene->sequence += is_answer[e];
        /* Server and client differ on what the next number is. */
        if (result->errors[e++].error.code == CONTACTD_CONFLICT) ctc_rebuild_scene(w->client, scene);
    }
}

/* What note_steps and ctc_make_many count on: errors in rising order, and numbers of all contacts. */
static bool is_understood(const wire_many_result *in, size_t n) {
    uint64_t contacts = 0;
    for (uint32_t e = 1; e < in->n_errors; e++)
        if (in->errors[e].index <= in->errors[e - 1].index) return false;
    for (uint32_t k = 0; k < in->n; k++) contacts += in->counts[k];
    return in->n == n && contacts <= in->data.count && contacts < UINT32_MAX;
}

static contactd_code take_answer(work *w, contactd_many_result **result) {
    contactd_client *client = w->client;
    const wire_many_result *in = &client->message.u.many_result;
    if (!is_understood(in, w->many->n_scenes))
        return fail(client, CONTACTD_INTERNAL, "answer", "the server's answer is of other scenes");
    bool *is_answer = calloc(in->n_errors + 1, sizeof *is_answer);
    if (!is_answer) return ctc_no_memory(client, object_of_all);
    for (uint32_t e = 0; e < in->n_errors; e++) is_answer[e] = in->errors[e].is_answer;
    const bool is_made = ctc_make_many(client, w->scenes, result);
    if (is_made) note_steps(w, *result, is_answer);
    free(is_answer);
    return is_made ? CONTACTD_OK : ctc_no_memory(client, object_of_all);
}

/* After such an error it is not known whether the steps were computed, or they were and their answer does not come: the
 * scenes are built again when they are next needed, as they were before. */
static void forget_steps(work *w, contactd_code code) {
    const contactd_code refusals[] = {CONTACTD_BUSY, CONTACTD_SHUTTING_DOWN, CONTACTD_UNSUPPORTED,
                                      CONTACTD_INVALID_ARGUMENT, CONTACTD_FORBIDDEN};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (code == refusals[i]) return;
    for (size_t k = 0; k < w->many->n_scenes; k++) ctc_rebuild_scene(w->client, w->scenes[k]);
}

static contactd_code step_all(work *w, contactd_many_result **result) {
    contactd_code code = check(w);
    for (size_t k = 0; k < w->many->n_scenes && code == CONTACTD_OK; k++)
        code = ctc_flush(w->client, w->scenes[k]->handle, 1);
    if (code != CONTACTD_OK) return code;
    do code = send(w);
    while (code == CTC_AGAIN);
    if (code == CONTACTD_OK) code = take_answer(w, result);
    if (code != CONTACTD_OK) forget_steps(w, code);
    return code;
}

/* A result of no scenes. */
static contactd_code make_nothing(contactd_client *client, contactd_many_result **result) {
    client->message = (wire_message){.type = WIRE_MANY_RESULT};
    return ctc_make_many(client, NULL, result) ? CONTACTD_OK : ctc_no_memory(client, object_of_all);
}

contactd_code contactd_step_many(contactd_client *client, const contactd_many *many, contactd_many_result **result) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, object_of_all, many);
    CTC_REQUIRE(client, object_of_all, result);
    contactd_code code = check_options(client, many);
    if (code != CONTACTD_OK) return code;
    const size_t n = many->n_scenes, bodies = many->n_posed + many->n_moving + many->n_soft;
    if (!n) return make_nothing(client, result);
    const ctc_scene *first = ctc_find_scene(client, many->scenes[0]);
    if (!first) return client->error.code;
    if (many->n_posed > first->n_bodies || many->n_moving > first->n_bodies || many->n_soft > first->n_bodies)
        return ctc_fail(client, CONTACTD_OUT_OF_RANGE, object_of_all, "n_posed, n_moving, n_soft",
                        "%zu, %zu and %zu bodies move, but a scene has had %u", many->n_posed, many->n_moving,
                        many->n_soft, first->n_bodies);
    char *block = malloc(n * (sizeof(ctc_scene *) + 16) + 8 * many->n_soft + 4 * n * bodies);
    if (!block) return ctc_no_memory(client, object_of_all);
    work w = {.client = client, .many = many, .scenes = (ctc_scene **)(void *)block};
    w.ids = (uint64_t *)(void *)(w.scenes + n);
    w.sequences = w.ids + n;
    w.vertices = w.sequences + n;
    w.posed = (uint32_t *)(void *)(w.vertices + many->n_soft);
    w.moving = w.posed + n * many->n_posed;
    w.soft = w.moving + n * many->n_moving;
    code = step_all(&w, result);
    free(block);
    client->left_ns = ctc_now();
    return code;
}
