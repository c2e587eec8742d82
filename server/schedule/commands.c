/* commands.c - what each command but a step does to its scene. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/log.h"
#include "server/schedule/internal.h"

void command_clear(command *command) {
    memset(command, 0, offsetof(struct command, out));
    command->out.step.answer = NULL;
    server_clear(&command->error);
}

void command_object(const command *command, char object[96]) {
    snprintf(object, 96, "scene %" PRIu64, command->scene);
}

static bool apply(ct_scene_settings *settings, const ct_settings_change *change, const char *object,
                  server_error *error) {
    const char *field;
    char message[512];
    const contactd_code code = ct_settings_apply(settings, change, &field, message, sizeof message);
    return !code || server_fail(error, code, object, field, "%s", message);
}

/* A limit above the one that the principal has is lowered to it, as the answer shows. */
static void lower_step_time(const scheduler *scheduler, const command *command, ct_scene_settings *settings) {
    const char *name;
    const double most = 1e-9 * (double)scheduler_limit_ns(scheduler, &command->who, &name);
    if (most > 0 && isfinite(settings->max_step_time) && settings->max_step_time > most) settings->max_step_time = most;
}

/* What somebody else than the client asked for before the server ended, if the client does not know better. */
static void take_stored(scheduler *scheduler, command *command, ct_scene_settings *settings) {
    ct_scene_settings stored;
    uint64_t revision;
    state *state = registry_state(scheduler->registry);
    if (!state || !command->in.open.key ||
        !state_get_settings(state, command->in.open.key, command->who.name, &stored, &revision) ||
        revision <= command->in.open.revision)
        return;
    ct_scene *trial;
    ct_error cause = {0};
    if (ct_scene_create(scheduler->engine, &stored, &trial, &cause) != CT_OK) {
        log_warn("state",
                 "a scene gets the settings that its client asks for, as those configured before cannot run: %s",
                 cause.message);
        return;
    }
    ct_scene_destroy(&trial);
    *settings = stored;
    command->in.open.revision = revision;
}

/* The client's own scene, with what is in it. False: the engine's scene is the caller's still. */
static bool register_scene(scheduler *scheduler, command *command, ct_scene *engine, const char *name,
                           const scene_contents *contents, scene **out) {
    session *owner = NULL;
    *out = NULL;
    if (command->session != SESSION_NONE) {
        owner = session_acquire(scheduler->registry, command->session, &command->error);
        if (!owner) return false;
    }
    *out = scene_new(scheduler->registry, engine, name, owner, &command->who, contents, &command->error);
    session_release(&owner);
    return *out != NULL;
}

bool command_open(scheduler *scheduler, command *command) {
    ct_scene_settings settings;
    ct_error cause = {0};
    ct_scene *engine = NULL;
    ct_scene_settings_init(&settings);
    if (!apply(&settings, &command->in.open.settings, "scene", &command->error)) return false;
    take_stored(scheduler, command, &settings);
    lower_step_time(scheduler, command, &settings);
    if (!registry_has_scene_room(scheduler->registry, 0, &command->who, "scene", &command->error)) return false;
    scene *scene = NULL;
    if (ct_scene_create(scheduler->engine, &settings, &engine, &cause) != CT_OK)
        return server_fail_engine(&command->error, "scene", &cause);
    if (!register_scene(scheduler, command, engine, command->in.open.name, NULL, &scene)) ct_scene_destroy(&engine);
    if (!scene) return false;
    scene_set_key(scheduler->registry, scene, command->in.open.key, command->in.open.revision);
    if (command->in.open.ttl_s) scene_set_ttl(scheduler->registry, scene, command->in.open.ttl_s);
    scene_get_record(scheduler->registry, scene, &command->out.scene);
    scene_release(&scene);
    return true;
}

static void run_configure(scheduler *scheduler, command *command, const char *object) {
    ct_scene_settings settings;
    ct_error cause = {0};
    uint64_t wanted = command->in.configure.if_version;
    scene_get_record(scheduler->registry, command->target, &command->out.scene);
    if (wanted && wanted != command->out.scene.version) {
        server_fail(&command->error, CONTACTD_CONFLICT, object, "version",
                    "the scene was changed in between: it has version %" PRIu64 " now; look at it again",
                    command->out.scene.version);
        return;
    }
    ct_scene_get_settings(command->target->engine, &settings);
    if (!apply(&settings, &command->in.configure.settings, object, &command->error)) return;
    lower_step_time(scheduler, command, &settings);
    if (ct_scene_configure(command->target->engine, &settings, &cause) != CT_OK) {
        server_fail_engine(&command->error, object, &cause);
        return;
    }
    scene_note_settings(scheduler->registry, command->target);
    scene_get_record(scheduler->registry, command->target, &command->out.scene);
}

static bool has_room_for_use(scene *scene) {
    if (scene->n_uses < scene->room_uses) return true;
    size_t room = scene->room_uses ? scene->room_uses * 2 : 4;
    body_use *grown = realloc(scene->uses, room * sizeof *grown);
    if (!grown) return false;
    scene->uses = grown;
    scene->room_uses = room;
    return true;
}

/* Makes room among the kept answers for the positions of a body. False: *error says that scenes hold too much. */
static bool make_room_for_body(scheduler *scheduler, const command *command, const ct_mesh_info *info,
                               const char *object, server_error *error) {
    uint64_t bytes = info->vertices * 3 * sizeof(float);
    pthread_mutex_lock(&scheduler->lock);
    answer_store_make_room(registry_kept_answers(scheduler->registry), bytes);
    pthread_mutex_unlock(&scheduler->lock);
    /* The scene counts for the principal that opened it, whoever adds the body. */
    identity payer = scene_payer(scheduler->registry, command->target);
    bool is_own = payer.principal == command->who.principal;
    return registry_has_scene_room(scheduler->registry, bytes, is_own ? &command->who : &payer, object, error);
}

static void note_size(scene *scene, const ct_mesh_info *info) {
    const double x = info->hi[0] - info->lo[0], y = info->hi[1] - info->lo[1], z = info->hi[2] - info->lo[2];
    const double size = sqrt(x * x + y * y + z * z);
    if (size > scene->size_m[0]) {
        scene->size_m[1] = scene->size_m[0];
        scene->size_m[0] = size;
    } else if (size > scene->size_m[1]) {
        scene->size_m[1] = size;
    }
}

static void run_add_body(scheduler *scheduler, command *command, const char *object) {
    scene *scene = command->target;
    ct_mesh *mesh = NULL;
    ct_error cause = {0};
    if (!has_room_for_use(scene)) {
        server_fail(&command->error, CONTACTD_OUT_OF_MEMORY, object, "", "no memory for another body");
        return;
    }
    mesh_entry *entry = NULL;
    ct_mesh_info info = {0}; /* a half-space has no mesh */
    if (command->in.add_body.options.kind != CT_BODY_HALF_SPACE) {
        entry = mesh_use(scheduler->registry, command->in.add_body.mesh, &command->who, &mesh, &command->error);
        if (!entry) return;
        ct_mesh_get_info(mesh, &info);
    }
    if (make_room_for_body(scheduler, command, &info, object, &command->error) &&
        ct_scene_add_body(scene->engine, mesh, &command->in.add_body.options, &command->out.body, &cause) != CT_OK) {
        server_fail_engine(&command->error, object, &cause);
    }
    if (command->error.code != CONTACTD_OK) {
        mesh_unuse(scheduler->registry, entry);
        return;
    }
    scene->uses[scene->n_uses++] = (body_use){command->out.body, info.triangles, entry};
    scene->triangles += info.triangles;
    note_size(scene, &info);
    scene_note_change(scheduler->registry, scene);
}

static void run_remove_body(scheduler *scheduler, command *command, const char *object) {
    scene *scene = command->target;
    ct_error cause = {0};
    if (ct_scene_remove_body(scene->engine, command->in.remove_body.body, &cause) != CT_OK) {
        server_fail_engine(&command->error, object, &cause);
        return;
    }
    size_t i = 0;
    while (i < scene->n_uses && scene->uses[i].body != command->in.remove_body.body) i++;
    if (i < scene->n_uses) {
        scene->triangles -= scene->uses[i].triangles;
        mesh_unuse(scheduler->registry, scene->uses[i].mesh);
        scene->uses[i] = scene->uses[--scene->n_uses];
    }
    scene_note_change(scheduler->registry, scene);
}

static void run_replace_mesh(scheduler *scheduler, command *command, const char *object) {
    scene *scene = command->target;
    const uint32_t body = command->in.replace_mesh.body;
    ct_mesh *mesh = NULL;
    ct_error cause = {0};
    ct_mesh_info info;
    mesh_entry *entry =
        mesh_use(scheduler->registry, command->in.replace_mesh.mesh, &command->who, &mesh, &command->error);
    if (!entry) return;
    ct_mesh_get_info(mesh, &info);
    if (make_room_for_body(scheduler, command, &info, object, &command->error) &&
        ct_scene_replace_mesh(scene->engine, body, mesh, &cause) != CT_OK) {
        server_fail_engine(&command->error, object, &cause);
    }
    if (command->error.code != CONTACTD_OK) {
        mesh_unuse(scheduler->registry, entry);
        return;
    }
    size_t i = 0;
    while (scene->uses[i].body != body) i++; /* each body has one */
    scene->triangles += info.triangles - scene->uses[i].triangles;
    mesh_unuse(scheduler->registry, scene->uses[i].mesh);
    scene->uses[i] = (body_use){body, info.triangles, entry};
    note_size(scene, &info);
    scene_note_change(scheduler->registry, scene);
}

static void run_reset(scheduler *scheduler, command *command, const char *object) {
    ct_error cause = {0};
    if (ct_scene_reset(command->target->engine, &cause) != CT_OK)
        server_fail_engine(&command->error, object, &cause);
    else
        scene_note_change(scheduler->registry, command->target);
}

/* Uses the scene's meshes once more each. False: out of memory, or *error says which mesh is not there. */
static bool use_meshes(scheduler *scheduler, const command *command, scene_contents *contents, server_error *error) {
    const scene *scene = command->target;
    *contents = (scene_contents){.triangles = scene->triangles};
    memcpy(contents->size_m, scene->size_m, sizeof contents->size_m);
    contents->uses = malloc((scene->n_uses + 1) * sizeof *contents->uses);
    if (!contents->uses)
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "scene", "", "no memory for %zu bodies", scene->n_uses);
    for (size_t i = 0; i < scene->n_uses; i++) {
        body_use use = scene->uses[i];
        ct_mesh *mesh;
        if (use.mesh && !(use.mesh = mesh_use(scheduler->registry, mesh_handle(use.mesh), &command->who, &mesh, error)))
            return false;
        contents->uses[contents->n_uses++] = use;
    }
    return true;
}

static void free_contents(scheduler *scheduler, scene_contents *contents) {
    for (size_t i = 0; i < contents->n_uses; i++) mesh_unuse(scheduler->registry, contents->uses[i].mesh);
    free(contents->uses);
}

static void run_copy(scheduler *scheduler, command *command, const char *object) {
    scene *scene = NULL;
    ct_scene *engine = NULL;
    ct_error cause = {0};
    scene_contents contents;
    const uint64_t bytes = ct_scene_bytes(command->target->engine);
    pthread_mutex_lock(&scheduler->lock);
    answer_store_make_room(registry_kept_answers(scheduler->registry), bytes);
    pthread_mutex_unlock(&scheduler->lock);
    if (!registry_has_scene_room(scheduler->registry, bytes, &command->who, object, &command->error)) return;
    bool good = use_meshes(scheduler, command, &contents, &command->error);
    if (good && ct_scene_copy(command->target->engine, &engine, &cause) != CT_OK)
        good = server_fail_engine(&command->error, object, &cause);
    good = good && register_scene(scheduler, command, engine, command->target->record.name, &contents, &scene);
    if (!good) {
        ct_scene_destroy(&engine);
        free_contents(scheduler, &contents);
        return;
    }
    scene_set_key(scheduler->registry, scene, command->in.copy.key, 0);
    scene_get_record(scheduler->registry, scene, &command->out.scene);
    scene_release(&scene);
}

static void run_set_material(scheduler *scheduler, command *command, const char *object) {
    scene *scene = command->target;
    ct_error cause = {0};
    if (ct_scene_set_material(scene->engine, command->in.set_material.body, command->in.set_material.other,
                              &command->in.set_material.material, &cause) != CT_OK) {
        server_fail_engine(&command->error, object, &cause);
        return;
    }
    scene_note_change(scheduler->registry, scene);
}

static const body_use *use_of(const scene *scene, uint32_t body, size_t hint) {
    for (size_t i = 0; i < scene->n_uses; i++) { /* bodies mostly stand in the order in which they came */
        const body_use *use = &scene->uses[(hint + i) % scene->n_uses];
        if (use->body == body) return use;
    }
    return NULL;
}

/* Of the deformable bodies that are listed. */
static bool copy_positions(command *command, const char *object) {
    const body_record *items = command->out.bodies.items;
    size_t vertices = 0, at = 0;
    for (size_t i = 0; i < command->out.bodies.n; i++)
        if (items[i].kind == CT_BODY_DEFORMABLE) vertices += items[i].mesh_vertices;
    float *positions = malloc((vertices + 1) * 3 * sizeof *positions);
    if (!positions)
        return server_fail(&command->error, CONTACTD_OUT_OF_MEMORY, object, "", "no memory for %zu positions",
                           vertices);
    for (size_t i = 0; i < command->out.bodies.n; i++) {
        ct_error cause = {0};
        if (items[i].kind != CT_BODY_DEFORMABLE) continue;
        if (ct_scene_body_positions(command->target->engine, items[i].body, positions + 3 * at, &cause) != CT_OK) {
            free(positions);
            return server_fail_engine(&command->error, object, &cause);
        }
        at += items[i].mesh_vertices;
    }
    command->out.bodies.positions = positions;
    return true;
}

static void run_list_bodies(command *command, const char *object) {
    const scene *scene = command->target;
    size_t n = ct_scene_body_count(scene->engine);
    body_record *items = calloc(n + 1, sizeof *items);
    if (!items) {
        server_fail(&command->error, CONTACTD_OUT_OF_MEMORY, object, "", "no memory for a list of %zu bodies", n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        ct_body_info info;
        if (ct_scene_body_at(scene->engine, i, &info) != CT_OK) continue;
        ct_mesh_info mesh = {0};
        if (info.mesh) ct_mesh_get_info(info.mesh, &mesh);
        const body_use *use = use_of(scene, info.body, i);
        body_record *item = &items[command->out.bodies.n++];
        item->body = info.body;
        item->kind = info.kind;
        item->vertices = info.vertices;
        item->self_contact = info.self_contact;
        item->material = info.material;
        item->mesh = use ? mesh_handle(use->mesh) : 0;
        item->mesh_vertices = mesh.vertices;
        item->mesh_triangles = mesh.triangles;
        memcpy(item->mesh_hash, mesh.hash, sizeof item->mesh_hash);
        memcpy(item->pose, info.pose, sizeof item->pose);
        memcpy(item->lo, info.lo, sizeof item->lo);
        memcpy(item->hi, info.hi, sizeof item->hi);
    }
    command->out.bodies.items = items;
    if (command->in.list_bodies.with_positions && !copy_positions(command, object)) {
        free(items);
        command->out.bodies.items = NULL;
        command->out.bodies.n = 0;
    }
}

static void run_snapshot(command *command, const char *object) {
    ct_error cause = {0};
    if (ct_snapshot_take(command->target->engine, &command->in.snapshot.options, &command->out.snapshot, &cause) !=
        CT_OK) {
        server_fail_engine(&command->error, object, &cause);
    }
}

void command_close_scene(scheduler *scheduler, scene *scene) {
    ct_scene_destroy(&scene->engine);
    for (size_t i = 0; i < scene->n_uses; i++) mesh_unuse(scheduler->registry, scene->uses[i].mesh);
    scene->n_uses = 0;
    scene_forget(scheduler->registry, scene);
}

/* A scene that was closed for good; one whose client is only silent may come back. */
static void forget_settings(scheduler *scheduler, const command *command) {
    const scene_record *record = &command->target->record; /* what is read here never changes */
    state *state = registry_state(scheduler->registry);
    if (!state || command->internal || !record->key || record->principal != command->who.principal) return;
    state_drop_settings(state, record->key, command->who.name);
}

void command_run(scheduler *scheduler, command *command) {
    char object[96];
    command_object(command, object);
    switch (command->kind) {
    case COMMAND_CONFIGURE:
        run_configure(scheduler, command, object);
        break;
    case COMMAND_ADD_BODY:
        run_add_body(scheduler, command, object);
        break;
    case COMMAND_REMOVE_BODY:
        run_remove_body(scheduler, command, object);
        break;
    case COMMAND_REPLACE_MESH:
        run_replace_mesh(scheduler, command, object);
        break;
    case COMMAND_SET_MATERIAL:
        run_set_material(scheduler, command, object);
        break;
    case COMMAND_LIST_BODIES:
        run_list_bodies(command, object);
        break;
    case COMMAND_RESET:
        run_reset(scheduler, command, object);
        break;
    case COMMAND_COPY:
        run_copy(scheduler, command, object);
        break;
    case COMMAND_SNAPSHOT:
        run_snapshot(command, object);
        break;
    case COMMAND_CLOSE:
        forget_settings(scheduler, command);
        command_close_scene(scheduler, command->target);
        break;
    case COMMAND_OPEN:
    case COMMAND_STEP:
        break; /* not run here */
    }
}
