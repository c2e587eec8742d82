/* copies.c - scenes as they were at first, and copies of scenes. */
#include <stdlib.h>
#include <string.h>

#include "gpu/after/identity.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/method/backend.h"
#include "gpu/method/engine.h"
#include "gpu/run/bodies.h"

/* ---- resetting ---- */

static ct_device *device_of(const ct_scene *scene) {
    return scene->engine->devices[scene->device].device;
}

/* All bodies anew, before any takes the place of the old one. */
static ct_status make_all_anew(const ct_scene *scene, ct_body *next, ct_error *error) {
    for (uint32_t i = 0; i < scene->n_bodies; i++) {
        const ct_body *body = scene->bodies[i];
        const ct_status status = ct_body_anew(scene, body, body->mesh, body->start, &next[i], error);
        if (!status) continue;
        while (i-- > 0) scene->engine->backend->body_destroy(device_of(scene), &next[i]);
        return status;
    }
    return CT_OK;
}

ct_status ct_scene_reset(ct_scene *scene, ct_error *error) {
    ct_body *next = malloc((scene->n_bodies + 1) * sizeof *next);
    if (!next) return ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory to reset %u bodies", scene->n_bodies);
    const ct_status status = make_all_anew(scene, next, error);
    for (uint32_t i = 0; i < scene->n_bodies && !status; i++) {
        ct_scene_count_body(scene, scene->bodies[i], false);
        scene->engine->backend->body_destroy(device_of(scene), scene->bodies[i]);
        *scene->bodies[i] = next[i];
        ct_scene_count_body(scene, scene->bodies[i], true);
    }
    free(next);
    if (status) return status;
    scene->n_warnings = 0;
    scene->version++;
    ct_identity_forget(scene);
    return CT_OK;
}

/* ---- copying ---- */

static ct_body_options options_of(const ct_body *body) {
    ct_body_options options;
    ct_body_options_init(&options);
    options.kind = body->is_half_space ? CT_BODY_HALF_SPACE : body->kind;
    memcpy(options.pose, body->given, sizeof options.pose);
    options.group = body->group;
    options.mask = body->mask;
    options.self_contact = body->self_contact;
    options.material = body->material;
    return options;
}

/* The same slots, all free, so that bodies get the same handles. */
static bool copy_slots(const ct_scene *scene, ct_scene *to) {
    to->slots = malloc((scene->n_slots + 1) * sizeof *to->slots);
    if (!to->slots) return false;
    to->n_slots = scene->n_slots;
    to->slot_capacity = scene->n_slots + 1;
    for (uint32_t s = 0; s < scene->n_slots; s++) to->slots[s] = (ct_body_slot){NULL, scene->slots[s].generation};
    return true;
}

static ct_status copy_bodies(const ct_scene *scene, ct_scene *to, ct_error *error) {
    for (uint32_t i = 0; i < scene->n_bodies; i++) {
        const ct_body *body = scene->bodies[i];
        const ct_body_options options = options_of(body);
        uint32_t id;
        to->first_free = (body->id & CT_MAX_BODIES) - 1; /* where the next body goes */
        const ct_status status = ct_scene_add_body(to, body->is_half_space ? NULL : body->mesh, &options, &id, error);
        if (status) return status;
    }
    to->first_free = scene->first_free;
    return CT_OK;
}

static bool copy_pairs(const ct_scene *scene, ct_scene *to) {
    const size_t ignored = scene->n_ignored, materials = scene->n_pair_materials;
    to->ignored_ids = malloc((ignored + 1) * sizeof *to->ignored_ids);
    to->ignored = malloc((ignored + 1) * sizeof *to->ignored);
    to->pair_materials = malloc((materials + 1) * sizeof *to->pair_materials);
    if (!to->ignored_ids || !to->ignored || !to->pair_materials) return false;
    to->n_ignored = ignored;
    to->ignored_capacity = ignored + 1;
    to->ignored_stale = true;
    to->n_pair_materials = materials;
    to->pair_material_capacity = materials + 1;
    if (ignored) memcpy(to->ignored_ids, scene->ignored_ids, ignored * sizeof *to->ignored_ids);
    if (materials) memcpy(to->pair_materials, scene->pair_materials, materials * sizeof *to->pair_materials);
    return true;
}

ct_status ct_scene_copy(const ct_scene *scene, ct_scene **out, ct_error *error) {
    ct_status status = ct_scene_create_on(scene->engine, scene->device, &scene->asked, out, error);
    if (status) return status;
    if (!copy_slots(scene, *out) || !copy_pairs(scene, *out))
        status = ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory to copy a scene of %u bodies", scene->n_bodies);
    else
        status = copy_bodies(scene, *out, error);
    if (status) ct_scene_destroy(out);
    return status;
}
