/* restore.c - the requests that make meshes, scenes and bodies on a server, and with them again what a server lost:
 * as it was after the last answered step. */
#include "client_c/restore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/flight.h"
#include "client_c/records.h"
#include "client_c/session.h"
#include "proto/setting_rows.h"

/* ---- meshes ---- */

contactd_code ctc_send_register(contactd_client *client, ctc_mesh *mesh, const wire_register_mesh *source) {
    char object[CTC_OBJECT];
    wire_message m = {.type = WIRE_REGISTER_MESH, .u.register_mesh = *source};
    contactd_code code = ctc_exchange(client, &m, WIRE_MESH_INFO, ctc_mesh_object(client, mesh, object));
    if (code != CONTACTD_OK) return code;
    const wire_mesh_info *info = &client->message.u.mesh_info;
    if (source->scale != 0 && !info->shells)
        return ctc_fail(client, CONTACTD_UNSUPPORTED, object, "scale",
                        "the server is too old to scale meshes: scale the file, or leave scale out");
    if (source->closing != info->closing)
        return ctc_fail(client, CONTACTD_UNSUPPORTED, object, "closing",
                        "the server is too old to close meshes so: register a closed mesh");
    mesh->server = info->mesh;
    mesh->vertices = info->vertices - info->closing_vertices;
    snprintf(mesh->hash, sizeof mesh->hash, "%s", info->hash);
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

/* ---- bodies and their materials ---- */

/* A server older than self-contact added the body without it: takes the body out again. */
static contactd_code refuse_body(contactd_client *client, ctc_scene *scene, uint32_t body, const char *object) {
    wire_message m = {.type = WIRE_REMOVE_BODY, .u.remove_body = {scene->server, body}};
    const contactd_code code = ctc_exchange(client, &m, WIRE_DONE, object);
    if (code != CONTACTD_OK) return code;
    return ctc_fail(client, CONTACTD_UNSUPPORTED, object, "self_contact",
                    "the server is too old to compute the contact of a body with itself: leave self_contact out");
}

/* Whether a request failed because its mesh, being unused, made room for others. */
bool ctc_is_mesh_stale(const contactd_client *client, contactd_code code) {
    return code == CONTACTD_STALE_HANDLE && strncmp(client->message.u.error.object, "scene", 5) != 0;
}

contactd_code ctc_send_add_body(contactd_client *client, ctc_scene *scene, ctc_body *body) {
    char object[CTC_OBJECT];
    ctc_mesh *mesh = body->mesh ? client->meshes[body->mesh - 1] : NULL;
    for (int attempt = 0;; attempt++) {
        contactd_code code = mesh ? ctc_ensure_mesh(client, mesh) : CONTACTD_OK;
        if (code != CONTACTD_OK) return code;
        const size_t n_ignore = body->n_ignore;
        uint32_t *ignore = malloc((n_ignore + 1) * sizeof *ignore), n = 0;
        if (!ignore) return ctc_no_memory(client, "body");
        for (size_t i = 0; i < n_ignore; i++) { /* those that were not removed since */
            const ctc_body *other = scene->bodies[body->ignore[i] - 1];
            if (other) ignore[n++] = other->server;
        }
        wire_message m = {.type = WIRE_ADD_BODY,
                          .u.add_body = {.scene = scene->server,
                                         .mesh = mesh ? mesh->server : 0,
                                         .kind = !mesh         ? WIRE_BODY_HALF_SPACE
                                                 : body->rigid ? WIRE_BODY_RIGID
                                                               : WIRE_BODY_DEFORMABLE,
                                         .group = body->group,
                                         .mask = body->mask,
                                         .self_contact = body->self_contact,
                                         .material = body->material,
                                         .ignore = ignore,
                                         .n_ignore = n}};
        memcpy(m.u.add_body.pose, body->pose, sizeof body->pose);
        memcpy(m.u.add_body.start, body->start, sizeof body->start);
        code = ctc_exchange(client, &m, WIRE_BODY_ADDED, ctc_scene_object(scene, object));
        free(ignore);
        if (mesh && attempt == 0 && ctc_is_mesh_stale(client, code)) {
            mesh->server = 0; /* bring it back, once */
            continue;
        }
        if (code != CONTACTD_OK) return code;
        if (body->self_contact && !client->message.u.body_added.self_contact)
            return refuse_body(client, scene, client->message.u.body_added.body, object);
        body->server = client->message.u.body_added.body;
        scene->n_ids = 0;
        return CONTACTD_OK;
    }
}

/* other NULL: the body's own. */
contactd_code ctc_send_material(contactd_client *client, const ctc_scene *scene, const ctc_body *body,
                                const ctc_body *other, const ct_material *material) {
    char object[CTC_OBJECT];
    wire_message m = {.type = WIRE_SET_MATERIAL,
                      .u.set_material = {scene->server, body->server, other ? other->server : 0, *material}};
    return ctc_exchange(client, &m, WIRE_DONE, ctc_scene_object(scene, object));
}

static contactd_code send_pairs(contactd_client *client, ctc_scene *scene) {
    contactd_code code = CONTACTD_OK;
    for (uint32_t i = 0; i < scene->n_pairs && code == CONTACTD_OK; i++) {
        const ctc_pair *pair = &scene->pairs[i];
        code = ctc_send_material(client, scene, scene->bodies[pair->body[0] - 1], scene->bodies[pair->body[1] - 1],
                                 &pair->material);
    }
    return code;
}

/* ---- positions ---- */

/* What a body's vertices were told to be, as an update: all of them, or those that were given. */
static bool state_of(const ctc_body *body, wire_update *out, void **block) {
    *block = NULL;
    *out = (wire_update){.body = body->server, .kind = WIRE_UPDATE_POSITIONS};
    const wire_dtype dtype = body->float64 ? WIRE_F64 : WIRE_F32;
    if (body->n_known == body->vertices) {
        out->positions = (wire_array){dtype, 3 * body->vertices, body->positions};
        return true;
    }
    const size_t n = (size_t)body->n_known, size = body->float64 ? 24 : 12;
    char *positions = malloc(n * (size + sizeof(uint32_t)));
    if (!positions) return false;
    uint32_t *indices = (uint32_t *)(void *)(positions + n * size);
    size_t k = 0;
    for (uint64_t v = 0; v < body->vertices; v++) {
        if (!body->known[v]) continue;
        memcpy(positions + size * k, (const char *)body->positions + size * v, size);
        indices[k++] = (uint32_t)v;
    }
    out->kind = WIRE_UPDATE_INDEXED;
    out->positions = (wire_array){dtype, 3 * n, positions};
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

/* ---- scenes ---- */

contactd_code ctc_check_settings(contactd_client *client, const wire_settings *asked, const wire_settings *told,
                                 const char *object) {
    for (int k = 0; k < CT_SETTINGS; k++) {
        const ct_setting_row *row = &ct_setting_rows[k];
        const bool is_asked = (asked->given & CT_GIVEN(k)) && !ct_setting_is_zero(row, &asked->to);
        if (is_asked && !row->is_zero_left_out && !(told->given & CT_GIVEN(k)))
            return ctc_fail(client, CONTACTD_UNSUPPORTED, object, row->name,
                            "the server is too old for %s: leave it out", row->name);
    }
    return CONTACTD_OK;
}

/* It would compute something else than what was asked for. */
static contactd_code close_refused(contactd_client *client, const wire_settings *asked, const char *object) {
    wire_message m = {.type = WIRE_CLOSE_SCENE, .u.close_scene.scene = client->message.u.scene_info.scene};
    const wire_settings told = client->message.u.scene_info.settings;
    const contactd_code code = ctc_exchange(client, &m, WIRE_DONE, object);
    return code == CONTACTD_OK ? ctc_check_settings(client, asked, &told, object) : code;
}

contactd_code ctc_send_open(contactd_client *client, ctc_scene *scene, const wire_settings *settings) {
    char object[CTC_OBJECT];
    wire_message m = {.type = WIRE_OPEN_SCENE, .u.open_scene = {*settings, scene->name, scene->key, scene->revision}};
    contactd_code code = ctc_exchange(client, &m, WIRE_SCENE_INFO, ctc_scene_object(scene, object));
    if (code != CONTACTD_OK) return code;
    if (ctc_check_settings(client, settings, &client->message.u.scene_info.settings, object) != CONTACTD_OK)
        return close_refused(client, settings, object);
    scene->server = client->message.u.scene_info.scene;
    ctc_adopt_settings(scene, &client->message.u.scene_info.settings, client->message.u.scene_info.revision);
    scene->sequence = 0;
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
    if (code == CONTACTD_OK) code = send_pairs(client, scene);
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
