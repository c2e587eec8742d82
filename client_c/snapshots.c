/* snapshots.c - pictures of scenes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/records.h"
#include "client_c/restore.h"
#include "client_c/session.h"
#include "client_c/steps.h"

#define SNAPSHOT_COOKIE 0xc0a6u

void contactd_snapshot_options_init(contactd_snapshot_options *options) {
    if (!options) return;
    *options = (contactd_snapshot_options){
        .cookie = SNAPSHOT_COOKIE, .azimuth = NAN, .elevation = NAN, .zoom = NAN, .field_of_view = NAN, .opacity = NAN};
}

static contactd_code request_of(contactd_client *client, const contactd_snapshot_options *options, const char *object,
                                wire_get_snapshot *out) {
    contactd_snapshot_options defaults;
    contactd_snapshot_options_init(&defaults);
    if (!options) options = &defaults;
    if (options->cookie != SNAPSHOT_COOKIE)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, object, "options",
                        "options were not filled by contactd_snapshot_options_init");
    *out = (wire_get_snapshot){.width = options->width,
                               .height = options->height,
                               .contact = {options->contact[0], options->contact[1]},
                               .show = options->show,
                               .resolution = options->resolution,
                               .has_up = options->up,
                               .has_eye = options->eye,
                               .has_target = options->target,
                               .has_background = options->background,
                               .azimuth = options->azimuth,
                               .elevation = options->elevation,
                               .zoom = options->zoom,
                               .field_of_view = options->field_of_view,
                               .opacity = options->opacity};
    if (options->up) memcpy(out->up, options->up, sizeof out->up);
    if (options->eye) memcpy(out->eye, options->eye, sizeof out->eye);
    if (options->target) memcpy(out->target, options->target, sizeof out->target);
    if (options->background) memcpy(out->background, options->background, sizeof out->background);
    return CONTACTD_OK;
}

static contactd_code exchange(contactd_client *client, const wire_get_snapshot *request, const char *object) {
    wire_message m = {.type = WIRE_GET_SNAPSHOT, .u.get_snapshot = *request};
    return ctc_exchange(client, &m, WIRE_SNAPSHOT, object);
}

static void take(const contactd_client *client, const void **png, size_t *size) {
    const wire_array *file = &client->message.u.snapshot.png;
    *png = file->data;
    *size = (size_t)file->count;
}

contactd_code contactd_snapshot(contactd_client *client, contactd_scene handle,
                                const contactd_snapshot_options *options, const void **png, size_t *size) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "snapshot", png);
    CTC_REQUIRE(client, "snapshot", size);
    *png = NULL;
    *size = 0;
    ctc_scene *scene = ctc_find_scene(client, handle);
    if (!scene) return client->error.code;
    char object[CTC_OBJECT];
    wire_get_snapshot request;
    contactd_code code = request_of(client, options, ctc_scene_object(scene, object), &request);
    if (code == CONTACTD_OK) code = ctc_flush(client, handle, 1);
    if (code != CONTACTD_OK) return code;
    ctc_body *bodies[2] = {NULL, NULL};
    for (int i = 0; i < 2 && (request.contact[0] || request.contact[1]); i++) {
        bodies[i] = ctc_find_body(client, scene, request.contact[i]);
        if (!bodies[i]) return client->error.code;
    }
    do {
        code = ctc_ensure_scene(client, scene);
        if (code != CONTACTD_OK) continue;
        request.scene = scene->server;
        for (int i = 0; i < 2 && bodies[i]; i++) request.contact[i] = bodies[i]->server;
        code = exchange(client, &request, object);
    } while (code == CTC_AGAIN);
    if (code == CONTACTD_OK) take(client, png, size);
    return code;
}

contactd_code contactd_snapshot_by_id(contactd_client *client, uint64_t id, const contactd_snapshot_options *options,
                                      const void **png, size_t *size) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "snapshot", png);
    CTC_REQUIRE(client, "snapshot", size);
    *png = NULL;
    *size = 0;
    char object[CTC_OBJECT];
    snprintf(object, sizeof object, "scene %llu", (unsigned long long)id);
    wire_get_snapshot request;
    contactd_code code = request_of(client, options, object, &request);
    if (code != CONTACTD_OK) return code;
    request.scene = id;
    do code = exchange(client, &request, object);
    while (code == CTC_AGAIN);
    if (code == CONTACTD_OK) take(client, png, size);
    return code;
}
