/* records.c - the meshes, scenes and bodies of a client by their handles, and how errors name them. */
#include "client_c/records.h"

#include <stdio.h>
#include <stdlib.h>

#include "client_c/base.h"

/* ---- meshes ---- */

const char *ctc_mesh_object(const contactd_client *client, const ctc_mesh *mesh, char buffer[CTC_OBJECT]) {
    uint32_t i = 0;
    while (i < client->n_meshes && client->meshes[i] != mesh) i++;
    if (*mesh->name)
        snprintf(buffer, CTC_OBJECT, "mesh %s", mesh->name);
    else if (i < client->n_meshes)
        snprintf(buffer, CTC_OBJECT, "mesh %u", i + 1);
    else
        snprintf(buffer, CTC_OBJECT, "mesh");
    return buffer;
}

ctc_mesh *ctc_find_mesh(contactd_client *client, contactd_mesh mesh) {
    if (mesh && mesh <= client->n_meshes && client->meshes[mesh - 1]) return client->meshes[mesh - 1];
    char object[CTC_OBJECT];
    snprintf(object, sizeof object, "mesh %u", mesh);
    bool was = mesh && mesh <= client->n_meshes;
    ctc_fail(client, was ? CONTACTD_STALE_HANDLE : CONTACTD_NOT_FOUND, object, "mesh",
             was ? "mesh %u was removed" : "there is no mesh %u: this client registered none with that handle", mesh);
    return NULL;
}

void ctc_mesh_free(ctc_mesh **mesh) {
    if (!*mesh) return;
    free((*mesh)->name);
    free((*mesh)->positions);
    free((*mesh)->triangles);
    free((*mesh)->file);
    free(*mesh);
    *mesh = NULL;
}

/* ---- bodies ---- */

void ctc_body_free(ctc_body **body) {
    if (!*body) return;
    free((*body)->ignore);
    free((*body)->positions);
    free((*body)->known);
    free(*body);
    *body = NULL;
}

ctc_body *ctc_find_body(contactd_client *client, ctc_scene *scene, contactd_body body) {
    if (body && body <= scene->n_bodies && scene->bodies[body - 1]) return scene->bodies[body - 1];
    char object[CTC_OBJECT];
    snprintf(object, sizeof object, "body %u", body);
    bool was = body && body <= scene->n_bodies;
    ctc_fail(client, was ? CONTACTD_STALE_HANDLE : CONTACTD_NOT_FOUND, object, "body",
             was ? "body %u of scene %u was removed" : "there is no body %u in scene %u", body, scene->handle);
    return NULL;
}

static int by_server(const void *a, const void *b) {
    const struct ctc_body_id *x = a, *y = b;
    return x->server < y->server ? -1 : x->server > y->server;
}

uint32_t ctc_body_of(ctc_scene *scene, uint32_t server_body) {
    if (scene->n_ids == 0) {
        for (uint32_t i = 0; i < scene->n_bodies; i++) {
            if (!scene->bodies[i]) continue;
            if (!ctc_grow32(&scene->ids, scene->n_ids, &scene->cap_ids, sizeof *scene->ids)) return 0;
            scene->ids[scene->n_ids++] = (struct ctc_body_id){scene->bodies[i]->server, i + 1};
        }
        qsort(scene->ids, scene->n_ids, sizeof *scene->ids, by_server);
    }
    struct ctc_body_id key = {server_body, 0};
    const struct ctc_body_id *found =
        scene->n_ids ? bsearch(&key, scene->ids, scene->n_ids, sizeof key, by_server) : NULL;
    return found ? found->handle : 0;
}

/* ---- scenes ---- */

const char *ctc_scene_object(const ctc_scene *scene, char buffer[CTC_OBJECT]) {
    snprintf(buffer, CTC_OBJECT, *scene->name ? "scene %u \"%s\"" : "scene %u", scene->handle, scene->name);
    return buffer;
}

ctc_scene *ctc_find_scene(contactd_client *client, contactd_scene scene) {
    if (scene && scene <= client->n_scenes && client->scenes[scene - 1]) return client->scenes[scene - 1];
    char object[CTC_OBJECT];
    snprintf(object, sizeof object, "scene %u", scene);
    bool was = scene && scene <= client->n_scenes;
    ctc_fail(client, was ? CONTACTD_STALE_HANDLE : CONTACTD_NOT_FOUND, object, "scene",
             was ? "scene %u was closed" : "there is no scene %u: this client opened none with that handle", scene);
    return NULL;
}

void ctc_scene_free(ctc_scene **scene) {
    if (!*scene) return;
    for (uint32_t i = 0; i < (*scene)->n_bodies; i++) ctc_body_free(&(*scene)->bodies[i]);
    free((*scene)->bodies);
    free((*scene)->ids);
    free((*scene)->pairs);
    free((*scene)->frames);
    free((*scene)->name);
    free(*scene);
    *scene = NULL;
}

void ctc_adopt_settings(ctc_scene *scene, const wire_settings *settings, uint64_t revision) {
    if (revision < scene->revision) return; /* of a step that was answered before they changed */
    scene->settings = *settings;
    scene->revision = revision;
}
