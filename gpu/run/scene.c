/* scene.c - the public functions of scenes and bodies. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/after/identity.h"
#include "gpu/after/surfaces.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/mesh.h"
#include "gpu/method/backend.h"
#include "gpu/method/engine.h"
#include "gpu/run/bodies.h"
#include "gpu/scene/half_space.h"
#include "gpu/scene/scene.h"
#include "proto/setting_rows.h"

enum { BODY_COOKIE = 0xb0d40004 };

/* ---- settings ---- */

ct_status ct_scene_settings_check(const ct_scene_settings *s, ct_error *error) {
    if (!ct_settings_are_filled(s))
        return ct_fail(error, CT_INVALID_ARGUMENT, "settings", "settings were not filled by ct_scene_settings_init");
    return ct_method_check_settings(s, error);
}

ct_status ct_scene_settings_change(ct_scene_settings *settings, const ct_settings_change *change, ct_error *error) {
    const char *field;
    char message[sizeof error->message];
    if (!ct_settings_are_filled(settings))
        return ct_fail(error, CT_INVALID_ARGUMENT, "settings", "settings were not filled by ct_scene_settings_init");
    if (!ct_settings_apply(settings, change, &field, message, sizeof message)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, field, "%s", message);
}

static void name_default_resolution(ct_scene_settings *settings) {
    if (settings->method != CT_METHOD_LDI || settings->resolution[0]) return;
    for (int i = 0; i < 3; i++) settings->resolution[i] = CT_DEFAULT_RESOLUTION;
}

/* Checks the settings by themselves, then whether the engine has the method that they run. Fills *asked and *running,
 * see ct_scene. */
static ct_status resolve_settings(const ct_engine *engine, const ct_scene_settings *settings, ct_scene_settings *asked,
                                  ct_scene_settings *running, ct_error *error) {
    ct_status status = ct_scene_settings_check(settings, error);
    if (status) return status;
    *asked = *running = *settings;
    running->method = ct_method_to_run(engine, settings);
    name_default_resolution(asked);
    name_default_resolution(running);
    return ct_method_check_engine(engine, ct_method_row_of(running->method, NULL), error);
}

/* ---- scenes ---- */

/* The device with the fewest triangles, then with the fewest scenes. */
static size_t choose_device(ct_engine *engine) {
    size_t best = 0;
    for (size_t i = 1; i < engine->n_devices; i++) {
        uint64_t triangles = atomic_load(&engine->devices[i].triangles),
                 least = atomic_load(&engine->devices[best].triangles);
        if (triangles < least || (triangles == least &&
                                  atomic_load(&engine->devices[i].scenes) < atomic_load(&engine->devices[best].scenes)))
            best = i;
    }
    return best;
}

ct_status ct_scene_create(ct_engine *engine, const ct_scene_settings *settings, ct_scene **out, ct_error *error) {
    return ct_scene_create_on(engine, choose_device(engine), settings, out, error);
}

ct_status ct_scene_create_on(ct_engine *engine, size_t device, const ct_scene_settings *settings, ct_scene **out,
                             ct_error *error) {
    *out = NULL;
    ct_scene_settings asked, running;
    ct_status status = resolve_settings(engine, settings, &asked, &running, error);
    if (status) return status;
    ct_scene *scene = calloc(1, sizeof *scene);
    if (!scene) return ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory for a scene");
    scene->engine = engine;
    scene->asked = asked;
    scene->settings = running;
    scene->device = device;
    atomic_fetch_add(&engine->devices[scene->device].scenes, 1);
    *out = scene;
    return CT_OK;
}

size_t ct_scene_device(const ct_scene *scene) {
    return scene->device;
}

static void free_body(ct_scene *scene, ct_body *body) {
    ct_engine_device *device = &scene->engine->devices[scene->device];
    scene->engine->backend->body_destroy(device->device, body);
    atomic_fetch_sub(&device->triangles, body->mesh->n_triangles);
    ct_method_unprepare_mesh(&scene->settings, body->mesh);
    ct_mesh_release(&body->mesh);
    free(body);
}

void ct_scene_destroy(ct_scene **handle) {
    ct_scene *scene = *handle;
    if (!scene) return;
    for (uint32_t i = 0; i < scene->n_bodies; i++) free_body(scene, scene->bodies[i]);
    const ct_backend *backend = scene->engine->backend;
    if (backend->scene_forget) backend->scene_forget(scene->engine->devices[scene->device].device, scene);
    atomic_fetch_sub(&scene->engine->devices[scene->device].scenes, 1);
    ct_broadphase_free(&scene->broad);
    free(scene->broad_bodies);
    free(scene->slots);
    free(scene->bodies);
    free(scene->ignored_ids);
    free(scene->ignored);
    free(scene->pair_materials);
    ct_stray_updates_free(&scene->strays);
    ct_identity_free(&scene->identity);
    free(scene);
    *handle = NULL;
}

static ct_status prepare_mesh(const ct_scene *scene, const ct_scene_settings *running, ct_mesh *mesh, ct_body_kind kind,
                              bool meets_itself, ct_error *error) {
    const ct_mesh_use use = {.settings = running,
                             .kind = kind,
                             .meets_itself = meets_itself,
                             .on_cpu = strcmp(scene->engine->backend->name, "cpu") == 0};
    return ct_method_prepare_mesh(&use, mesh, error);
}

ct_status ct_scene_configure(ct_scene *scene, const ct_scene_settings *settings, ct_error *error) {
    ct_scene_settings asked, running;
    ct_status status = resolve_settings(scene->engine, settings, &asked, &running, error);
    if (status) return status;
    if (scene->n_self) status = ct_method_check_self(scene->engine, &running, error);
    if (!status && scene->n_half_spaces)
        status = ct_method_check_half_spaces(ct_method_row_of(running.method, NULL), "method", error);
    uint32_t n_prepared = 0;
    for (; n_prepared < scene->n_bodies && !status; n_prepared += !status) {
        const ct_body *body = scene->bodies[n_prepared];
        if (!(status = ct_method_check_kind(&running, body->kind, error)))
            status = prepare_mesh(scene, &running, body->mesh, body->kind, body->self_contact, error);
    }
    const ct_scene_settings *unused = status ? &running : &scene->settings; /* the new ones, or those until now */
    for (uint32_t i = 0; i < n_prepared; i++) ct_method_unprepare_mesh(unused, scene->bodies[i]->mesh);
    if (status) return status;
    scene->asked = asked;
    scene->settings = running;
    scene->version++;
    return CT_OK;
}

void ct_scene_get_settings(const ct_scene *scene, ct_scene_settings *settings) {
    *settings = scene->asked;
}

void ct_scene_get_running(const ct_scene *scene, ct_scene_settings *running) {
    *running = scene->settings;
}

/* ---- bodies ---- */

void ct_body_options_init(ct_body_options *options) {
    *options = (ct_body_options){.cookie = BODY_COOKIE,
                                 .kind = CT_BODY_DEFORMABLE,
                                 .pose = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0},
                                 .group = 1,
                                 .mask = UINT32_MAX,
                                 .material = CT_MATERIAL_NONE};
}

/* Reserves memory for one more element. False: out of memory. */
static bool reserve_one(void *array, uint32_t n, uint32_t *capacity, size_t size) {
    if (n < *capacity) return true;
    uint32_t want = *capacity ? 2 * *capacity : 4;
    void **memory = array, *larger = realloc(*memory, want * size);
    if (!larger) return false;
    *memory = larger;
    *capacity = want;
    return true;
}

/* Reserves all that adding a body needs, so that nothing can fail once the scene is changed. */
static bool reserve_body(ct_scene *scene, size_t n_ignore, uint32_t slot) {
    uint32_t body_capacity = scene->body_capacity;
    if (slot == scene->n_slots &&
        !reserve_one(&scene->slots, scene->n_slots, &scene->slot_capacity, sizeof(ct_body_slot)))
        return false;
    if (scene->n_bodies == body_capacity) {
        ct_broad_body *broad = realloc(scene->broad_bodies, (body_capacity ? 2 * body_capacity : 4) * sizeof *broad);
        if (!broad) return false;
        scene->broad_bodies = broad;
        if (!reserve_one(&scene->bodies, scene->n_bodies, &scene->body_capacity, sizeof(ct_body *))) return false;
    }
    size_t want = scene->n_ignored + n_ignore;
    if (want > scene->ignored_capacity) {
        want += want / 2;
        uint64_t *ids = realloc(scene->ignored_ids, want * sizeof *ids);
        if (ids) scene->ignored_ids = ids;
        uint64_t *indices = realloc(scene->ignored, want * sizeof *indices);
        if (indices) scene->ignored = indices;
        if (!ids || !indices) return false;
        scene->ignored_capacity = want;
    }
    return true;
}

static ct_status check_pose(ct_body_kind kind, const ct_mesh *mesh, const double pose[12], ct_error *error) {
    const ct_status status = ct_pose_check(pose, 0, error);
    return status || kind != CT_BODY_RIGID ? status : ct_pose_check_reach(pose, mesh, 0, error);
}

/* Everything but the memory. */
static ct_status check_new_body(const ct_scene *scene, const ct_mesh *mesh, const ct_body_options *o, ct_error *error) {
    if (o->cookie != BODY_COOKIE)
        return ct_fail(error, CT_INVALID_ARGUMENT, "options", "options were not filled by ct_body_options_init");
    if (o->kind != CT_BODY_DEFORMABLE && o->kind != CT_BODY_RIGID && o->kind != CT_BODY_HALF_SPACE)
        return ct_fail(error, CT_INVALID_ARGUMENT, "kind", "body kind %d is unknown", (int)o->kind);
    if (!mesh != (o->kind == CT_BODY_HALF_SPACE))
        return ct_fail(error, CT_INVALID_ARGUMENT, "mesh", "%s",
                       mesh ? "a half-space has no mesh: leave it out"
                            : "no mesh was given: only a half-space has none");
    if (o->kind != CT_BODY_DEFORMABLE) {
        ct_status status = check_pose(o->kind, mesh, o->pose, error);
        if (!status && o->has_start) status = check_pose(o->kind, mesh, o->start, error);
        if (status) return status;
    }
    if (o->self_contact && o->kind == CT_BODY_HALF_SPACE)
        return ct_fail(error, CT_INVALID_ARGUMENT, "self_contact",
                       "a half-space has no contact with itself: leave self_contact out");
    if (o->self_contact) {
        ct_status status = ct_method_check_self(scene->engine, &scene->settings, error);
        if (status) return status;
    }
    if (o->kind == CT_BODY_HALF_SPACE) {
        ct_status status = ct_method_check_half_spaces(ct_method_row_of(scene->settings.method, NULL), "kind", error);
        if (status) return status;
    }
    for (size_t i = 0; i < o->n_ignore; i++)
        if (!ct_scene_find(scene, o->ignore[i], NULL))
            return ct_fail(error, CT_NOT_FOUND, "ignore", "ignore[%zu] names body %u, which is not in the scene", i,
                           o->ignore[i]);
    const ct_status status = ct_material_check(&o->material, error);
    return status ? status : ct_method_check_kind(&scene->settings, o->kind, error);
}

ct_status ct_scene_add_body(ct_scene *scene, ct_mesh *mesh, const ct_body_options *o, uint32_t *id, ct_error *error) {
    ct_status status = check_new_body(scene, mesh, o, error);
    if (status) return status;
    const bool is_half_space = o->kind == CT_BODY_HALF_SPACE;
    uint32_t slot = scene->first_free;
    while (slot < scene->n_slots && scene->slots[slot].body) slot++;
    if (slot >= CT_MAX_BODIES)
        return ct_fail(error, CT_LIMIT_EXCEEDED, "body", "a scene has at most %d bodies", CT_MAX_BODIES);

    ct_body *body = calloc(1, sizeof *body);
    if (!body || !reserve_body(scene, o->n_ignore, slot)) {
        free(body);
        return ct_fail(error, CT_OUT_OF_MEMORY, "body", "no memory for one more body beside %u", scene->n_bodies);
    }
    mesh = is_half_space ? ct_half_space_mesh(error) : ct_mesh_retain(mesh);
    status = mesh ? prepare_mesh(scene, &scene->settings, mesh, o->kind, o->self_contact, error) : ct_failure();
    if (status) {
        ct_mesh_release(&mesh);
        free(body);
        return status;
    }
    body->kind = is_half_space ? CT_BODY_RIGID : o->kind;
    body->is_half_space = is_half_space;
    body->self_contact = o->self_contact;
    body->material = o->material;
    body->group = o->group;
    body->mask = o->mask;
    ct_body_options identity;
    ct_body_options_init(&identity);
    body->mesh = mesh;
    ct_body_place(body, o->kind == CT_BODY_DEFORMABLE ? identity.pose : o->pose, mesh->origin);
    memcpy(body->start, o->has_start && body->kind == CT_BODY_RIGID ? o->start : body->given, sizeof body->start);
    body->volume = mesh->volume;
    ct_engine_device *device = &scene->engine->devices[scene->device];
    status = scene->engine->backend->body_create(device->device, body, error);
    if (status) {
        ct_method_unprepare_mesh(&scene->settings, mesh);
        ct_mesh_release(&body->mesh);
        free(body);
        return status;
    }

    atomic_fetch_add(&device->triangles, mesh->n_triangles);
    if (slot == scene->n_slots) scene->slots[scene->n_slots++] = (ct_body_slot){0};
    ct_body_slot *entry = &scene->slots[slot];
    scene->first_free = slot + 1;
    entry->body = body;
    body->id = entry->generation << CT_SLOT_BITS | (slot + 1);
    ct_scene_count_body(scene, body, true);
    uint32_t at = scene->n_bodies++;
    for (; at > 0 && scene->bodies[at - 1]->id > body->id; at--) scene->bodies[at] = scene->bodies[at - 1];
    scene->bodies[at] = body;
    for (size_t i = 0; i < o->n_ignore; i++)
        scene->ignored_ids[scene->n_ignored++] = ct_pair_key(o->ignore[i], body->id);
    scene->ignored_stale = true;
    scene->version++;
    scene->n_self += body->self_contact;
    scene->n_half_spaces += is_half_space;
    *id = body->id;
    return CT_OK;
}

ct_status ct_scene_add_half_space(ct_scene *scene, const double normal[3], double offset,
                                  const ct_body_options *options, uint32_t *body, ct_error *error) {
    ct_body_options placed;
    ct_body_options_init(&placed);
    if (options) placed = *options;
    placed.kind = CT_BODY_HALF_SPACE;
    ct_status status = ct_plane_pose(normal, offset, placed.pose, error);
    return status ? status : ct_scene_add_body(scene, NULL, &placed, body, error);
}

ct_status ct_scene_remove_body(ct_scene *scene, uint32_t id, ct_error *error) {
    ct_body *body = ct_scene_find(scene, id, error);
    if (!body) return CT_NOT_FOUND;
    ct_scene_count_body(scene, body, false);
    uint32_t slot = (id & CT_MAX_BODIES) - 1;
    ct_body_slot *entry = &scene->slots[slot];
    if (slot < scene->first_free) scene->first_free = slot;
    entry->body = NULL;
    entry->generation = (entry->generation + 1) & ((1u << (32 - CT_SLOT_BITS)) - 1);
    uint32_t at = 0;
    while (scene->bodies[at] != body) at++;
    memmove(scene->bodies + at, scene->bodies + at + 1, (--scene->n_bodies - at) * sizeof *scene->bodies);
    size_t kept = 0;
    for (size_t i = 0; i < scene->n_ignored; i++) {
        uint64_t key = scene->ignored_ids[i];
        if ((uint32_t)key != id && (uint32_t)(key >> 32) != id) scene->ignored_ids[kept++] = key;
    }
    scene->n_ignored = kept;
    ct_scene_forget_materials(scene, id);
    scene->ignored_stale = true;
    scene->version++;
    scene->n_warnings -= body->condition != CT_WARNING_NONE;
    scene->n_self -= body->self_contact;
    scene->n_half_spaces -= body->is_half_space;
    free_body(scene, body);
    return CT_OK;
}

void ct_scene_count_body(ct_scene *scene, const ct_body *body, bool comes) {
    uint64_t bytes = sizeof *body + body->device_bytes + body->copy_bytes;
    if (body->kind == CT_BODY_DEFORMABLE && !body->device_bytes) bytes += 12 * (uint64_t)body->mesh->n_vertices;
    scene->body_bytes += comes ? bytes : -bytes;
    scene->body_device_bytes += comes ? body->device_bytes : -body->device_bytes;
}

ct_status ct_body_anew(const ct_scene *scene, const ct_body *body, ct_mesh *mesh, const double pose[12], ct_body *out,
                       ct_error *error) {
    *out = *body;
    out->mesh = mesh;
    out->volume = mesh->volume;
    out->condition = CT_WARNING_NONE;
    out->resident = NULL;
    ct_body_place(out, pose, mesh->origin);
    out->device_bytes = out->copy_bytes = 0;
    out->updates_since_volume = 0;
    out->is_volume_old = false;
    return scene->engine->backend->body_create(scene->engine->devices[scene->device].device, out, error);
}

ct_status ct_scene_replace_mesh(ct_scene *scene, uint32_t id, ct_mesh *mesh, ct_error *error) {
    ct_body *body = ct_scene_find(scene, id, error);
    if (!body) return CT_NOT_FOUND;
    if (body->is_half_space)
        return ct_fail(error, CT_INVALID_ARGUMENT, "body", "body %u is a half-space, which has no mesh to replace", id);
    if (!mesh) return ct_fail(error, CT_INVALID_ARGUMENT, "mesh", "body %u: no mesh was given", id);
    ct_status status = body->kind == CT_BODY_RIGID ? ct_pose_check_reach(body->given, mesh, id, error) : CT_OK;
    if (!status) status = prepare_mesh(scene, &scene->settings, mesh, body->kind, body->self_contact, error);
    if (status) return status;
    ct_engine_device *device = &scene->engine->devices[scene->device];
    ct_body next;
    status = ct_body_anew(scene, body, mesh, body->given, &next, error);
    if (status) {
        ct_method_unprepare_mesh(&scene->settings, mesh);
        return status;
    }
    ct_mesh_retain(mesh);
    ct_scene_count_body(scene, body, false);
    scene->engine->backend->body_destroy(device->device, body);
    ct_method_unprepare_mesh(&scene->settings, body->mesh);
    atomic_fetch_sub(&device->triangles, body->mesh->n_triangles);
    atomic_fetch_add(&device->triangles, mesh->n_triangles);
    ct_mesh_release(&body->mesh);
    scene->n_warnings -= body->condition != CT_WARNING_NONE;
    scene->version++;
    ct_scene_count_body(scene, &next, true);
    *body = next;
    return CT_OK;
}

/* ---- information ---- */

static void fill_info(const ct_body *body, ct_body_info *info) {
    *info = (ct_body_info){.body = body->id,
                           .kind = body->is_half_space ? CT_BODY_HALF_SPACE : body->kind,
                           .vertices = body->is_half_space ? 0 : ct_mesh_given(body->mesh),
                           .mesh = body->is_half_space ? NULL : body->mesh};
    memcpy(info->pose, body->given, sizeof info->pose);
    info->self_contact = body->self_contact;
    info->material = body->material;
    memcpy(info->lo, body->box.lo, sizeof info->lo);
    memcpy(info->hi, body->box.hi, sizeof info->hi);
}

size_t ct_scene_body_count(const ct_scene *scene) {
    return scene->n_bodies;
}

ct_status ct_scene_body_at(const ct_scene *scene, size_t index, ct_body_info *info) {
    if (index >= scene->n_bodies) return CT_OUT_OF_RANGE;
    fill_info(scene->bodies[index], info);
    return CT_OK;
}

ct_status ct_scene_body_info(const ct_scene *scene, uint32_t id, ct_body_info *info, ct_error *error) {
    const ct_body *body = ct_scene_find(scene, id, error);
    if (!body) return CT_NOT_FOUND;
    fill_info(body, info);
    return CT_OK;
}

ct_status ct_scene_body_positions(const ct_scene *scene, uint32_t id, float *out, ct_error *error) {
    const ct_body *body = ct_scene_find(scene, id, error);
    if (!body) return CT_NOT_FOUND;
    if (body->is_half_space)
        return ct_fail(error, CT_INVALID_ARGUMENT, "body", "body %u is a half-space, which has no vertices", id);
    ct_surfaces surfaces;
    ct_surface *surface;
    if (!ct_surfaces_open(&surfaces, scene))
        return ct_fail(error, CT_OUT_OF_MEMORY, "body", "no memory for positions of body %u", id);
    const ct_status status = ct_surfaces_get(&surfaces, ct_scene_index_of(scene, id), "body", &surface, error);
    const double *pose = body->pose;
    for (uint32_t v = 0; !status && v < body->mesh->n_vertices; v++) {
        double p[3];
        for (int k = 0; k < 3; k++) {
            const size_t at = 3 * (size_t)v + (size_t)k;
            p[k] = (double)surface->positions[at] + (surface->low ? (double)surface->low[at] : 0);
        }
        for (int k = 0; k < 3; k++)
            out[3 * (size_t)v + (size_t)k] = (float)(ct_dot3(pose + 4 * k, p) + pose[4 * k + 3]);
    }
    ct_surfaces_close(&surfaces);
    return status;
}

uint64_t ct_scene_bytes(const ct_scene *scene) {
    return scene->table_bytes + sizeof *scene + scene->slot_capacity * sizeof(ct_body_slot) +
           scene->body_capacity * (sizeof(ct_body *) + sizeof(ct_broad_body)) + scene->ignored_capacity * 16 +
           scene->strays.update_capacity * sizeof(ct_update) + scene->strays.number_bytes + scene->broad.bytes +
           scene->kept_bytes + ct_identity_bytes(scene->identity) + scene->body_bytes;
}

uint64_t ct_scene_device_bytes(const ct_scene *scene) {
    return scene->table_bytes + scene->body_device_bytes;
}
