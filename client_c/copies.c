/* copies.c - many scenes in one request: copies of one, resets and closing. */
#include "client_c/copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client_c/base.h"
#include "client_c/flight.h"
#include "client_c/records.h"
#include "client_c/restore.h"
#include "client_c/session.h"
#include "client_c/steps.h"

static contactd_code check_count(contactd_client *client, size_t n) {
    if (n <= WIRE_MOST_SCENES) return CONTACTD_OK;
    return ctc_fail(client, CONTACTD_TOO_LARGE, "scenes", "n", "%zu scenes are given, at most %d are allowed in a call",
                    n, WIRE_MOST_SCENES);
}

/* Each must be open. found: [n + 1], to be freed, where it goes well. */
static contactd_code find_all(contactd_client *client, const contactd_scene *scenes, size_t n, ctc_scene ***found) {
    *found = NULL;
    contactd_code code = check_count(client, n);
    if (code != CONTACTD_OK) return code;
    if (n && !scenes) return ctc_fail_null(client, "scenes", "scenes");
    ctc_scene **all = malloc((n + 1) * sizeof *all);
    if (!all) return ctc_no_memory(client, "scenes");
    client->many_calls++;
    for (size_t k = 0; k < n && code == CONTACTD_OK; k++) {
        all[k] = ctc_find_scene(client, scenes[k]);
        if (!all[k]) {
            code = client->error.code;
        } else if (all[k]->many_call == client->many_calls) {
            char object[CTC_OBJECT];
            code = ctc_fail(client, CONTACTD_INVALID_ARGUMENT, ctc_scene_object(all[k], object), "scenes",
                            "the scene is listed twice");
        } else {
            all[k]->many_call = client->many_calls;
        }
    }
    if (code == CONTACTD_OK)
        *found = all;
    else
        free(all);
    return code;
}

/* ---- resets ---- */

static void note_reset(ctc_scene *scene) {
    scene->n_frames = 0;
    for (uint32_t i = 0; i < scene->n_bodies; i++) {
        ctc_body *body = scene->bodies[i];
        if (!body) continue;
        memcpy(body->pose, body->start, sizeof body->pose);
        if (body->known) memset(body->known, 0, (size_t)body->vertices);
        body->n_known = 0;
    }
}

static contactd_code send_reset(contactd_client *client, ctc_scene *const *scenes, uint64_t *ids, size_t n) {
    for (size_t k = 0; k < n; k++) {
        contactd_code code = ctc_ensure_scene(client, scenes[k]);
        if (code != CONTACTD_OK) return code;
        ids[k] = scenes[k]->server;
    }
    wire_message m = {.type = WIRE_RESET_SCENES, .u.reset_scenes = {ids, (uint32_t)n}};
    return ctc_exchange(client, &m, WIRE_DONE, "reset of scenes");
}

contactd_code contactd_reset_scenes(contactd_client *client, const contactd_scene *scenes, size_t n) {
    CTC_BEGIN(client);
    ctc_scene **found;
    contactd_code code = find_all(client, scenes, n, &found);
    if (code != CONTACTD_OK) return code;
    uint64_t *ids = malloc((n + 1) * sizeof *ids);
    if (!ids)
        code = ctc_no_memory(client, "scenes");
    else if (client->welcome.last_message < WIRE_RESET_SCENES)
        code = ctc_fail(
            client, CONTACTD_UNSUPPORTED, "scenes", "scenes",
            "the server is too old to reset scenes: step them to the poses and positions that they are to have");
    for (size_t k = 0; k < n && code == CONTACTD_OK; k++) code = ctc_flush(client, scenes[k], 1);
    if (n && code == CONTACTD_OK) {
        do code = send_reset(client, found, ids, n);
        while (code == CTC_AGAIN);
        for (size_t k = 0; k < n; k++) {
            if (code == CONTACTD_OK)
                note_reset(found[k]);
            else
                ctc_rebuild_scene(client, found[k]); /* whether it was reset is not known */
        }
    }
    free(ids);
    free(found);
    return code;
}

/* ---- copies ---- */

static ctc_body *copy_body(const ctc_body *from) {
    ctc_body *body = malloc(sizeof *body);
    if (!body) return NULL;
    *body = *from;
    memcpy(body->start, body->pose, sizeof body->start);
    body->positions = NULL;
    body->known = NULL;
    body->n_known = 0;
    body->ignore = NULL;
    if (!from->n_ignore) return body;
    body->ignore = malloc(from->n_ignore * sizeof *body->ignore);
    if (!body->ignore) ctc_body_free(&body);
    if (body) memcpy(body->ignore, from->ignore, from->n_ignore * sizeof *body->ignore);
    return body;
}

/* Without what the server says of it. NULL: out of memory. */
static ctc_scene *copy_record(const ctc_scene *from) {
    ctc_scene *scene = calloc(1, sizeof *scene);
    if (!scene) return NULL;
    scene->name = ctc_strdup(from->name);
    scene->bodies = calloc(from->n_bodies + 1, sizeof *scene->bodies);
    scene->pairs = malloc((from->n_pairs + 1) * sizeof *scene->pairs);
    bool good = scene->name && scene->bodies && scene->pairs &&
                getrandom(&scene->key, sizeof scene->key, 0) == sizeof scene->key;
    scene->cap_bodies = from->n_bodies + 1;
    scene->cap_pairs = from->n_pairs + 1;
    for (uint32_t i = 0; i < from->n_bodies && good; i++) {
        if (from->bodies[i]) good = (scene->bodies[i] = copy_body(from->bodies[i])) != NULL;
        scene->n_bodies = i + 1;
    }
    if (!good) {
        ctc_scene_free(&scene);
        return NULL;
    }
    scene->n_pairs = from->n_pairs;
    if (from->n_pairs) memcpy(scene->pairs, from->pairs, from->n_pairs * sizeof *scene->pairs);
    return scene;
}

static contactd_code send_copy(contactd_client *client, ctc_scene *scene, ctc_scene *const *copies, uint64_t *keys,
                               size_t n) {
    char object[CTC_OBJECT];
    contactd_code code = ctc_ensure_scene(client, scene);
    if (code != CONTACTD_OK) return code;
    for (size_t k = 0; k < n; k++) keys[k] = copies[k]->key;
    wire_message m = {.type = WIRE_COPY_SCENE, .u.copy_scene = {scene->server, keys, (uint32_t)n}};
    code = ctc_exchange(client, &m, WIRE_SCENES_OPENED, ctc_scene_object(scene, object));
    if (code == CONTACTD_OK && client->message.u.scenes_opened.n != n)
        code = ctc_fail(client, CONTACTD_INTERNAL, object, "answer", "the server made %u copies, expected %zu",
                        client->message.u.scenes_opened.n, n);
    return code;
}

/* The copies are the client's, as the answer has them. */
static void take_copies(contactd_client *client, const ctc_scene *scene, ctc_scene **copies, size_t n,
                        contactd_scene *out) {
    const wire_scenes_opened *opened = &client->message.u.scenes_opened;
    for (size_t k = 0; k < n; k++) {
        ctc_scene *copy = copies[k];
        memcpy(&copy->server, opened->scenes + k, sizeof copy->server);
        ctc_adopt_settings(copy, &opened->settings, opened->revision);
        for (uint32_t i = 0; i < copy->n_bodies; i++) {
            ctc_body *body = copy->bodies[i];
            if (!body) continue;
            body->server = scene->bodies[i]->server;
            if (body->mesh) client->meshes[body->mesh - 1]->bodies++;
        }
        copy->handle = out[k] = client->n_scenes + 1;
        client->scenes[client->n_scenes++] = copy;
        copies[k] = NULL;
    }
}

static contactd_code copy_scene(contactd_client *client, ctc_scene *scene, size_t n, ctc_scene **copies, uint64_t *keys,
                                contactd_scene *out) {
    char object[CTC_OBJECT];
    ctc_scene_object(scene, object);
    for (size_t k = 0; k < n; k++)
        if (!(copies[k] = copy_record(scene))) return ctc_no_memory(client, object);
    if (n &&
        !ctc_grow32(&client->scenes, client->n_scenes + (uint32_t)n - 1, &client->cap_scenes, sizeof *client->scenes))
        return ctc_no_memory(client, object);
    contactd_code code = ctc_flush(client, scene->handle, 1);
    if (code != CONTACTD_OK || !n) return code;
    for (size_t k = 0; k < n; k++) /* the poses after these steps */
        for (uint32_t i = 0; i < scene->n_bodies; i++) {
            ctc_body *body = copies[k]->bodies[i];
            if (!body) continue;
            memcpy(body->pose, scene->bodies[i]->pose, sizeof body->pose);
            memcpy(body->start, body->pose, sizeof body->start);
        }
    do code = send_copy(client, scene, copies, keys, n);
    while (code == CTC_AGAIN);
    if (code == CONTACTD_OK) take_copies(client, scene, copies, n, out);
    return code;
}

contactd_code contactd_copy_scene(contactd_client *client, contactd_scene handle, size_t n, contactd_scene *out) {
    CTC_BEGIN(client);
    contactd_code code = check_count(client, n);
    if (code != CONTACTD_OK) return code;
    if (n) CTC_REQUIRE(client, "scene", out);
    for (size_t k = 0; k < n; k++) out[k] = 0;
    ctc_scene *scene = ctc_find_scene(client, handle);
    if (!scene) return client->error.code;
    char object[CTC_OBJECT];
    if (client->welcome.last_message < WIRE_COPY_SCENE)
        return ctc_fail(client, CONTACTD_UNSUPPORTED, ctc_scene_object(scene, object), "scene",
                        "the server is too old to copy scenes: open them one by one, and add their bodies");
    ctc_scene **copies = calloc(n + 1, sizeof *copies);
    uint64_t *keys = malloc((n + 1) * sizeof *keys);
    code = copies && keys ? copy_scene(client, scene, n, copies, keys, out)
                          : ctc_no_memory(client, ctc_scene_object(scene, object));
    for (size_t k = 0; k < n && copies; k++) ctc_scene_free(&copies[k]); /* those that did not become the client's */
    free(copies);
    free(keys);
    return code;
}

/* ---- closing ---- */

contactd_code ctc_send_close(contactd_client *client, const uint64_t *ids, size_t n) {
    if (client->welcome.last_message >= WIRE_CLOSE_SCENES) {
        wire_message m = {.type = WIRE_CLOSE_SCENES, .u.close_scenes = {ids, (uint32_t)n}};
        return n ? ctc_exchange(client, &m, WIRE_DONE, "scenes") : CONTACTD_OK;
    }
    for (size_t k = 0; k < n; k++) {
        wire_message m = {.type = WIRE_CLOSE_SCENE, .u.close_scene.scene = ids[k]};
        const contactd_code code = ctc_exchange(client, &m, WIRE_DONE, "scene");
        if (code != CONTACTD_OK && code != CONTACTD_NOT_FOUND && code != CONTACTD_STALE_HANDLE) return code;
    }
    return CONTACTD_OK;
}

contactd_code contactd_close_scenes(contactd_client *client, const contactd_scene *scenes, size_t n) {
    CTC_BEGIN(client);
    ctc_scene **found;
    contactd_code code = find_all(client, scenes, n, &found);
    if (code != CONTACTD_OK) return code;
    uint64_t *ids = malloc((n + 1) * sizeof *ids);
    size_t n_ids = 0;
    if (!ids) code = ctc_no_memory(client, "scenes");
    for (size_t k = 0; k < n && ids && !client->lost; k++)
        if (found[k]->server) ids[n_ids++] = found[k]->server;
    if (ids) code = ctc_send_close(client, ids, n_ids);
    if (code == CTC_AGAIN) code = CONTACTD_OK; /* a server that knows nothing of them has closed them */
    for (size_t k = 0; k < n && code == CONTACTD_OK; k++) ctc_forget_scene(client, scenes[k]);
    if (code == CONTACTD_OK) client->error = (contactd_error){.code = CONTACTD_OK};
    free(ids);
    free(found);
    return code;
}
