/* bodies.c - the bodies of a scene: finding them, and the pairs that may be in contact. */
#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/scene/scene.h"

ct_body *ct_scene_find(const ct_scene *scene, uint32_t id, ct_error *error) {
    uint32_t slot = (id & CT_MAX_BODIES) - 1;
    if (id == 0 || slot >= scene->n_slots) {
        ct_fail(error, CT_NOT_FOUND, "body", "body %u is not in the scene, which has %u", id, scene->n_bodies);
        return NULL;
    }
    const ct_body_slot *entry = &scene->slots[slot];
    if (!entry->body || entry->generation != id >> CT_SLOT_BITS) {
        ct_fail(error, CT_NOT_FOUND, "body", "body %u was removed from the scene", id);
        return NULL;
    }
    return entry->body;
}

bool ct_scene_has_open_mesh(const ct_scene *scene) {
    for (uint32_t i = 0; i < scene->n_bodies; i++)
        if (scene->bodies[i]->mesh->n_closing) return true;
    return false;
}

static uint32_t index_of_body(const ct_scene *scene, uint32_t id) {
    uint32_t lo = 0, hi = scene->n_bodies;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (scene->bodies[mid]->id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int compare_keys(const void *a, const void *b) {
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

void ct_scene_refresh(ct_scene *scene) {
    if (!scene->ignored_stale) return;
    for (size_t i = 0; i < scene->n_ignored; i++) {
        uint64_t ids = scene->ignored_ids[i];
        scene->ignored[i] =
            ct_pair_key(index_of_body(scene, (uint32_t)(ids >> 32)), index_of_body(scene, (uint32_t)ids));
    }
    if (scene->n_ignored) qsort(scene->ignored, scene->n_ignored, sizeof *scene->ignored, compare_keys);
    scene->ignored_stale = false;
}

/* Bodies that are in no pair that is wanted have no group and no mask. */
static void leave_out_others(ct_scene *scene) {
    for (uint32_t b = 0; b < scene->n_bodies; b++) {
        const uint32_t id = scene->bodies[b]->id;
        ct_broad_body *body = &scene->broad_bodies[b];
        body->meets_itself = false;
        if (id != scene->only_pair[0] && id != scene->only_pair[1]) body->group = body->mask = 0;
    }
}

void ct_scene_find_pairs(ct_scene *scene, ct_error *error) {
    ct_scene_refresh(scene);
    for (uint32_t b = 0; b < scene->n_bodies; b++) {
        const ct_body *body = scene->bodies[b];
        scene->broad_bodies[b] = (ct_broad_body){body->box, body->group, body->mask, body->self_contact};
    }
    if (scene->only_pair[0]) leave_out_others(scene);
    ct_broadphase_run(&scene->broad, scene->broad_bodies, scene->n_bodies, scene->ignored, scene->n_ignored, error);
}
