/* recover.c - what the client does when the server knows nothing of it any more: a new session, and in it the meshes,
 * scenes, bodies and positions as they were after the last answered step. */
#include <stdlib.h>
#include <string.h>

#include "client_c/client.h"

void ctc_rebuild_scene(contactd_client *client, ctc_scene *scene) {
    if (scene->server) scene->orphan = scene->server;
    scene->server = 0;
    scene->sequence = 0;
    scene->n_ids = 0;
    for (uint32_t i = 0; i < scene->n_bodies; i++)
        if (scene->bodies[i]) scene->bodies[i]->server = 0;
    ctc_unsend_steps(client, scene->handle);
}

contactd_code ctc_recover(contactd_client *client) {
    enum { PAUSE_MS = 100 }; /* a server that loses every session at once is not asked without end */
    uint64_t pause = client->recovered_ns + (uint64_t)PAUSE_MS * 1000000u;
    while (ctc_now() < pause && ctc_now() < client->deadline_ns) ctc_pump(client, 0, pause);
    if (ctc_now() >= client->deadline_ns)
        return client->connected ? ctc_fail(client, CONTACTD_STATE_LOST, "client", "timeout_ms",
                                            "%s lost this client's session, and it could not be restored within %u ms",
                                            client->address, client->timeout_ms)
                                 : ctc_timed_out(client, "client", "an answer");
    const uint64_t ended = client->epoch;
    client->recovering = true;
    contactd_code code = ctc_hello(client);
    client->recovering = false;
    if (code != CONTACTD_OK) return code;
    if (client->epoch != ended && !client->is_end_announced) {
        if (client->work_epoch == ended) ++*client->work_ends;
        ctc_note_ends(client, ended);
    }
    client->is_end_announced = false;
    client->work_epoch = 0;
    client->recoveries++;
    client->recovered_ns = ctc_now();
    for (uint32_t i = 0; i < client->n_meshes; i++)
        if (client->meshes[i]) client->meshes[i]->server = 0;
    for (uint32_t i = 0; i < client->n_scenes; i++) {
        if (!client->scenes[i]) continue;
        ctc_rebuild_scene(client, client->scenes[i]);
        client->scenes[i]->orphan = 0; /* it is another session's */
    }
    return CONTACTD_OK;
}

contactd_code ctc_ensure_mesh(contactd_client *client, ctc_mesh *mesh) {
    if (mesh->server) return CONTACTD_OK;
    char object[CTC_OBJECT];
    ctc_mesh_object(client, mesh, object);
    wire_message m = {.type = WIRE_GET_MESH, .u.get_mesh.hash = mesh->hash};
    contactd_code code = ctc_exchange(client, &m, WIRE_MESH_INFO, object);
    if (code == CONTACTD_OK) {
        mesh->server = client->message.u.mesh_info.mesh;
        return code;
    }
    /* Not there, or for now only others': registering it again needs the upload. */
    if (code != CONTACTD_NOT_FOUND && code != CONTACTD_STALE_HANDLE && code != CONTACTD_FORBIDDEN) return code;
    if (!mesh->kept)
        return ctc_fail(client, CONTACTD_STATE_LOST, object, "keep_meshes",
                        "the server lost %s and no copy of it was kept: register it again, or set keep_meshes", object);
    return ctc_send_register(client, mesh, &mesh->source);
}

/* ---- positions ---- */

/* What a body's vertices were told to be, as an update: all of them, or those that were given. */
static bool state_of(const ctc_body *body, wire_update *out, void **block) {
    *block = NULL;
    *out = (wire_update){.body = body->server, .kind = WIRE_UPDATE_POSITIONS};
    if (body->n_known == body->vertices) {
        out->positions = (wire_array){WIRE_F32, 3 * body->vertices, body->positions};
        return true;
    }
    size_t n = (size_t)body->n_known, k = 0;
    float *positions = malloc(n * 16);
    if (!positions) return false;
    uint32_t *indices = (uint32_t *)(positions + 3 * n);
    for (uint64_t v = 0; v < body->vertices; v++) {
        if (!body->known[v]) continue;
        memcpy(positions + 3 * k, body->positions + 3 * v, 3 * sizeof *positions);
        indices[k++] = (uint32_t)v;
    }
    out->kind = WIRE_UPDATE_INDEXED;
    out->positions = (wire_array){WIRE_F32, 3 * n, positions};
    out->indices = (wire_array){WIRE_U32, n, indices};
    *block = positions;
    return true;
}

/* One step that wants nothing for each body with positions of its own: a message holds one body's at least. */
static contactd_code restore_positions(contactd_client *client, ctc_scene *scene, const char *object) {
    for (uint32_t i = 0; i < scene->n_bodies; i++) {
        ctc_body *body = scene->bodies[i];
        if (!body || body->n_known == 0) continue;
        wire_update update;
        void *block;
        if (!state_of(body, &update, &block)) return ctc_no_memory(client, object);
        wire_message m = {
            .type = WIRE_STEP,
            .u.step = {.scene = scene->server, .sequence = scene->sequence + 1, .updates = &update, .n_updates = 1}};
        contactd_code code = ctc_exchange(client, &m, WIRE_STEP_RESULT, object);
        free(block);
        if (code != CONTACTD_OK) return code;
        scene->sequence++;
    }
    return CONTACTD_OK;
}

static contactd_code build_scene(contactd_client *client, ctc_scene *scene, const char *object) {
    if (scene->ends >= CTC_MOST_ENDS) {
        scene->ends = 0;
        scene->barred_epoch = client->epoch;
    }
    if (scene->barred_epoch && scene->barred_epoch == client->epoch)
        return ctc_fail(client, CONTACTD_SERVER_ENDED, object, "", CTC_ENDED_TEXT, "restored this", "");
    client->work_ends = &scene->ends;
    contactd_code code = ctc_send_open(client, scene, &scene->settings);
    for (uint32_t i = 0; i < scene->n_bodies && code == CONTACTD_OK; i++)
        if (scene->bodies[i]) code = ctc_send_add_body(client, scene, scene->bodies[i]);
    if (code == CONTACTD_OK) code = ctc_send_pairs(client, scene);
    if (code == CONTACTD_OK) code = restore_positions(client, scene, object);
    client->work_ends = &client->call_ends;
    if (code == CONTACTD_OK) scene->ends = 0;
    return code;
}

contactd_code ctc_ensure_scene(contactd_client *client, ctc_scene *scene) {
    if (client->lost) {
        contactd_code code = ctc_recover(client);
        return code == CONTACTD_OK ? CTC_AGAIN : code;
    }
    if (scene->server) return CONTACTD_OK;
    char object[CTC_OBJECT];
    ctc_scene_object(scene, object);
    if (scene->orphan) {
        wire_message m = {.type = WIRE_CLOSE_SCENE, .u.close_scene.scene = scene->orphan};
        contactd_code code = ctc_exchange(client, &m, WIRE_DONE, object);
        if (code != CONTACTD_OK && code != CONTACTD_NOT_FOUND && code != CONTACTD_STALE_HANDLE) return code;
        scene->orphan = 0;
    }
    contactd_code code = build_scene(client, scene, object);
    if (code != CONTACTD_OK && scene->server) ctc_rebuild_scene(client, scene); /* half of a scene is none */
    return code;
}
