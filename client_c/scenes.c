/* scenes.c - scenes and bodies, which the client opens and changes on the server. */
#include <float.h>
#include <math.h>
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

#define BODY_COOKIE 0xc0b4u

/* ---- settings ---- */

void contactd_settings_init(contactd_settings *settings) {
    if (settings) ct_settings_leave_out(settings);
}

const char *contactd_method_name(ct_method method) {
    return ct_method_name(method);
}

bool contactd_method_find(const char *name, ct_method *out) {
    int64_t number;
    if (!name || !out || !ct_setting_choice_find(&ct_setting_rows[CT_SETTING_METHOD], name, &number)) return false;
    *out = (ct_method)number;
    return true;
}

/* A method that this library and the server both know, or AUTO, which the server does not list. */
static contactd_code check_method(contactd_client *client, ct_method method, const char *object) {
    const wire_welcome *w = &client->welcome;
    const char *name = ct_method_name(method);
    char offered[256] = "";
    size_t at = 0;
    bool is_offered = false;
    for (uint32_t i = 0; i < w->n_methods; i++) {
        is_offered |= strcmp(name, w->methods[i]) == 0;
        if (at < sizeof offered)
            at += (size_t)snprintf(offered + at, sizeof offered - at, "%s%s", i ? ", " : "", w->methods[i]);
    }
    if (method == CT_METHOD_AUTO || is_offered) return CONTACTD_OK;
    return ctc_fail(client, CONTACTD_UNSUPPORTED, object, "method",
                    "method %s (%d) is not offered by this server, or not known to this library; the server offers: "
                    "auto, %s",
                    name, (int)method, offered);
}

/* What is absent is 0. */
static contactd_code settings_of(contactd_client *client, const contactd_settings *from, const char *object,
                                 wire_settings *to) {
    *to = (wire_settings){0};
    if (!from) return CONTACTD_OK;
    if (!ct_settings_are_filled(from))
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, object, "settings",
                        "settings were not filled by contactd_settings_init of this version");
    int given = 0;
    for (int i = 0; i < 3; i++) given += from->resolution[i] != CONTACTD_DEFAULT;
    if (given && given < 3)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, object, "resolution",
                        "resolution has %d of 3 numbers: give all of them or none", given);
    *to = ct_settings_given(from);
    for (int s = 0; s < CT_SETTINGS; s++) {
        char message[512];
        if (!(to->given & CT_GIVEN(s)) || s == CT_SETTING_METHOD) continue;
        const contactd_code code = ct_setting_check_request(&ct_setting_rows[s], from, message, sizeof message);
        if (code) return ctc_fail(client, code, object, ct_setting_rows[s].name, "%s, or -1 to leave it out", message);
    }
    return to->given & CT_GIVEN(CT_SETTING_METHOD) ? check_method(client, from->method, object) : CONTACTD_OK;
}

static void scene_info_of(const wire_scene_info *from, contactd_scene_info *to) {
    *to =
        (contactd_scene_info){.id = from->scene,
                              .name = from->name,
                              .owner = from->owner,
                              .settings = from->settings.to,
                              .running_method = from->running_method ? from->running_method : from->settings.to.method,
                              .revision = from->revision,
                              .bodies = from->bodies,
                              .contacts = from->contacts,
                              .bytes = from->bytes,
                              .steps = from->steps,
                              .mine = from->mine};
}

/* ---- scenes ---- */

contactd_code contactd_open_scene(contactd_client *client, const char *name, const contactd_settings *settings,
                                  contactd_scene *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "scene", out);
    *out = 0;
    wire_settings wire;
    contactd_code code = settings_of(client, settings, "scene", &wire);
    if (code != CONTACTD_OK) return code;
    ctc_scene *scene = calloc(1, sizeof *scene);
    if (!scene) return ctc_no_memory(client, "scene");
    scene->name = ctc_strdup(name);
    scene->handle = client->n_scenes + 1;
    if (!scene->name || !ctc_grow32(&client->scenes, client->n_scenes, &client->cap_scenes, sizeof *client->scenes))
        code = ctc_no_memory(client, "scene");
    else if (getrandom(&scene->key, sizeof scene->key, 0) != sizeof scene->key)
        code = ctc_fail(client, CONTACTD_INTERNAL, "scene", "", "the system gives no random numbers");
    else
        do code = ctc_send_open(client, scene, &wire);
        while (code == CTC_AGAIN);
    if (code != CONTACTD_OK) {
        ctc_scene_free(&scene);
        return code;
    }
    client->scenes[client->n_scenes++] = scene;
    *out = scene->handle;
    return CONTACTD_OK;
}

contactd_code contactd_configure(contactd_client *client, contactd_scene handle, const contactd_settings *settings) {
    CTC_BEGIN(client);
    ctc_scene *scene = ctc_find_scene(client, handle);
    if (!scene) return client->error.code;
    char object[CTC_OBJECT];
    wire_settings wire;
    contactd_code code = settings_of(client, settings, ctc_scene_object(scene, object), &wire);
    if (code == CONTACTD_OK) code = ctc_flush(client, handle, 1);
    if (code != CONTACTD_OK) return code;
    do {
        code = ctc_ensure_scene(client, scene);
        if (code != CONTACTD_OK) continue;
        wire_message m = {.type = WIRE_CONFIGURE, .u.configure = {scene->server, wire}};
        code = ctc_exchange(client, &m, WIRE_SCENE_INFO, object);
    } while (code == CTC_AGAIN);
    const wire_scene_info *info = &client->message.u.scene_info;
    if (code != CONTACTD_OK) return code;
    ctc_adopt_settings(scene, &info->settings, info->revision);
    return ctc_check_settings(client, &wire, &info->settings, object);
}

contactd_code contactd_close_scene(contactd_client *client, contactd_scene handle) {
    CTC_BEGIN(client);
    ctc_scene *scene = ctc_find_scene(client, handle);
    if (!scene) return client->error.code;
    char object[CTC_OBJECT];
    contactd_code code = CONTACTD_OK;
    if (scene->server && !client->lost) {
        wire_message m = {.type = WIRE_CLOSE_SCENE, .u.close_scene.scene = scene->server};
        code = ctc_exchange(client, &m, WIRE_DONE, ctc_scene_object(scene, object));
    }
    /* A server that knows nothing of it has closed it. */
    if (code != CONTACTD_OK && code != CTC_AGAIN && code != CONTACTD_NOT_FOUND && code != CONTACTD_STALE_HANDLE)
        return code;
    ctc_forget_scene(client, handle);
    client->error = (contactd_error){.code = CONTACTD_OK};
    return CONTACTD_OK;
}

contactd_code contactd_close_scene_by_id(contactd_client *client, uint64_t id) {
    CTC_BEGIN(client);
    char object[CTC_OBJECT];
    snprintf(object, sizeof object, "scene %llu", (unsigned long long)id);
    contactd_code code;
    do {
        wire_message m = {.type = WIRE_CLOSE_SCENE, .u.close_scene = {id, true}};
        code = ctc_exchange(client, &m, WIRE_DONE, object);
    } while (code == CTC_AGAIN);
    return code;
}

contactd_code contactd_get_scene_info(contactd_client *client, contactd_scene handle, contactd_scene_info *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "scene", out);
    ctc_scene *scene = ctc_find_scene(client, handle);
    if (!scene) return client->error.code;
    char object[CTC_OBJECT];
    contactd_code code;
    do {
        code = ctc_ensure_scene(client, scene);
        if (code != CONTACTD_OK) continue;
        wire_message m = {.type = WIRE_GET_SCENE, .u.get_scene.scene = scene->server};
        code = ctc_exchange(client, &m, WIRE_SCENE_INFO, ctc_scene_object(scene, object));
    } while (code == CTC_AGAIN);
    if (code == CONTACTD_OK) scene_info_of(&client->message.u.scene_info, out);
    return code;
}

contactd_code contactd_list_scenes(contactd_client *client, const contactd_scene_info **out, size_t *n) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "list of scenes", out);
    CTC_REQUIRE(client, "list of scenes", n);
    *out = NULL;
    *n = 0;
    contactd_code code;
    do {
        wire_message m = {.type = WIRE_LIST_SCENES};
        code = ctc_exchange(client, &m, WIRE_SCENE_LIST, "server");
    } while (code == CTC_AGAIN);
    if (code != CONTACTD_OK) return code;
    const wire_scene_list *from = &client->message.u.scene_list;
    contactd_scene_info *list = realloc(client->list, (from->n + 1) * sizeof *list);
    if (!list) return ctc_no_memory(client, "list of scenes");
    client->list = list;
    for (uint32_t i = 0; i < from->n; i++) scene_info_of(&from->scenes[i], &list[i]);
    *out = list;
    *n = from->n;
    return CONTACTD_OK;
}

contactd_code contactd_configure_by_id(contactd_client *client, uint64_t id, const contactd_settings *settings,
                                       contactd_scene_info *out) {
    CTC_BEGIN(client);
    char object[CTC_OBJECT];
    snprintf(object, sizeof object, "scene %llu", (unsigned long long)id);
    wire_settings wire;
    contactd_code code = settings_of(client, settings, object, &wire);
    if (code != CONTACTD_OK) return code;
    do {
        wire_message m = {.type = WIRE_GET_SCENE, .u.get_scene.scene = id};
        if (settings) {
            m.type = WIRE_CONFIGURE;
            m.u.configure = (wire_configure){id, wire};
        }
        code = ctc_exchange(client, &m, WIRE_SCENE_INFO, object);
    } while (code == CTC_AGAIN);
    if (code != CONTACTD_OK) return code;
    if (out) scene_info_of(&client->message.u.scene_info, out);
    return settings ? ctc_check_settings(client, &wire, &client->message.u.scene_info.settings, object) : code;
}

/* ---- bodies ---- */

void contactd_body_options_init(contactd_body_options *options) {
    if (!options) return;
    *options = (contactd_body_options){.cookie = BODY_COOKIE,
                                       .pose = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0},
                                       .group = 1,
                                       .mask = ~UINT32_C(0),
                                       .material = CT_MATERIAL_NONE};
}

static contactd_code check_body(contactd_client *client, ctc_scene *scene, const contactd_body_options *options,
                                const char *object) {
    if (options->cookie != BODY_COOKIE)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, object, "options",
                        "options were not filled by contactd_body_options_init of this version");
    if (options->n_ignore && !options->ignore)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, object, "ignore", "ignore is NULL, but n_ignore is %zu",
                        options->n_ignore);
    if (options->n_ignore > scene->n_bodies)
        return ctc_fail(client, CONTACTD_OUT_OF_RANGE, object, "n_ignore",
                        "%zu bodies are to be ignored, but the scene has had %u", options->n_ignore, scene->n_bodies);
    for (size_t i = 0; i < options->n_ignore; i++)
        if (!ctc_find_body(client, scene, options->ignore[i])) {
            snprintf(client->error.field, sizeof client->error.field, "ignore");
            return client->error.code;
        }
    return CONTACTD_OK;
}

/* What the client keeps of a body, not yet in the scene. mesh NULL: a half-space. NULL: out of memory. */
static ctc_body *new_body(const contactd_body_options *options, const ctc_mesh *mesh, contactd_mesh mesh_handle,
                          const double pose[12]) {
    ctc_body *body = calloc(1, sizeof *body);
    if (!body) return NULL;
    *body = (ctc_body){.mesh = mesh_handle,
                       .rigid = !mesh || options->rigid,
                       .group = options->group,
                       .mask = options->mask,
                       .self_contact = options->self_contact,
                       .material = options->material,
                       .n_ignore = options->n_ignore,
                       .vertices = mesh ? mesh->vertices : 0};
    memcpy(body->pose, pose, sizeof body->pose);
    memcpy(body->start, pose, sizeof body->start);
    if (!body->n_ignore) return body;
    body->ignore = malloc(body->n_ignore * sizeof *body->ignore);
    if (!body->ignore) ctc_body_free(&body);
    if (body) memcpy(body->ignore, options->ignore, body->n_ignore * sizeof *body->ignore);
    return body;
}

/* Makes it one of the scene's. */
static contactd_body take_body(ctc_scene *scene, ctc_body *body, ctc_mesh *mesh) {
    body->handle = scene->n_bodies + 1;
    scene->bodies[scene->n_bodies++] = body;
    if (mesh) mesh->bodies++;
    return body->handle;
}

/* mesh NULL: a half-space. */
static contactd_code add_body(contactd_client *client, contactd_scene scene_handle, ctc_mesh *mesh,
                              contactd_mesh mesh_handle, const contactd_body_options *options, contactd_body *out) {
    ctc_scene *scene = ctc_find_scene(client, scene_handle);
    if (!scene) return client->error.code;
    char object[CTC_OBJECT];
    contactd_code code = check_body(client, scene, options, ctc_scene_object(scene, object));
    if (code == CONTACTD_OK) code = ctc_flush(client, scene_handle, 1);
    if (code != CONTACTD_OK) return code;

    ctc_body *body = new_body(options, mesh, mesh_handle, options->pose);
    if (!body || !ctc_grow32(&scene->bodies, scene->n_bodies, &scene->cap_bodies, sizeof *scene->bodies))
        code = ctc_no_memory(client, object);
    if (code == CONTACTD_OK) do {
            code = ctc_ensure_scene(client, scene);
            if (code == CONTACTD_OK) code = ctc_send_add_body(client, scene, body);
        } while (code == CTC_AGAIN);
    if (code == CONTACTD_OK)
        *out = take_body(scene, body, mesh);
    else
        ctc_body_free(&body);
    return code;
}

contactd_code contactd_add_body(contactd_client *client, contactd_scene scene_handle, contactd_mesh mesh_handle,
                                const contactd_body_options *options, contactd_body *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "body", out);
    *out = 0;
    ctc_scene *scene = ctc_find_scene(client, scene_handle);
    ctc_mesh *mesh = scene ? ctc_find_mesh(client, mesh_handle) : NULL;
    if (!mesh) return client->error.code;
    contactd_body_options defaults;
    contactd_body_options_init(&defaults);
    return add_body(client, scene_handle, mesh, mesh_handle, options ? options : &defaults, out);
}

/* ---- many bodies ---- */

/* The bodies of one call, and what is sent of them. */
struct bodies_to_add {
    ctc_scene *scene;
    ctc_mesh **meshes; /* [n_meshes] */
    size_t n_meshes;
    const double (*poses)[12];
    const contactd_body_options *options;
    ctc_body **made; /* [n] */
    size_t n;
    uint64_t *mesh_ids; /* [n_meshes] */
    uint32_t *ignore;   /* [options->n_ignore] */
};

static contactd_code make_bodies(contactd_client *client, struct bodies_to_add *add, const contactd_mesh *handles,
                                 const char *object) {
    const ctc_scene *scene = add->scene;
    for (size_t i = 0; i < add->n; i++) {
        const size_t m = add->n_meshes > 1 ? i : 0;
        if (!(add->made[i] = new_body(add->options, add->meshes[m], handles[m], add->poses[i])))
            return ctc_no_memory(client, object);
        add->made[i]->rigid = true;
    }
    if (add->n && !ctc_grow32(&add->scene->bodies, scene->n_bodies + (uint32_t)add->n - 1, &add->scene->cap_bodies,
                              sizeof *scene->bodies))
        return ctc_no_memory(client, object);
    return CONTACTD_OK;
}

static contactd_code send_bodies(contactd_client *client, struct bodies_to_add *add) {
    char object[CTC_OBJECT];
    ctc_scene *scene = add->scene;
    const contactd_body_options *options = add->options;
    for (int attempt = 0;; attempt++) {
        contactd_code code = ctc_ensure_scene(client, scene);
        for (size_t i = 0; i < add->n_meshes && code == CONTACTD_OK; i++) {
            code = ctc_ensure_mesh(client, add->meshes[i]);
            add->mesh_ids[i] = add->meshes[i]->server;
        }
        if (code != CONTACTD_OK) return code;
        for (size_t i = 0; i < options->n_ignore; i++) add->ignore[i] = scene->bodies[options->ignore[i] - 1]->server;
        wire_message m = {.type = WIRE_ADD_BODIES,
                          .u.add_bodies = {.scene = scene->server,
                                           .meshes = add->mesh_ids,
                                           .n_meshes = (uint32_t)add->n_meshes,
                                           .poses = add->poses[0],
                                           .n = (uint32_t)add->n,
                                           .group = options->group,
                                           .mask = options->mask,
                                           .self_contact = options->self_contact,
                                           .material = options->material,
                                           .ignore = add->ignore,
                                           .n_ignore = (uint32_t)options->n_ignore}};
        code = ctc_exchange(client, &m, WIRE_BODIES_ADDED, ctc_scene_object(scene, object));
        if (attempt == 0 && ctc_is_mesh_stale(client, code)) { /* bring them back, once */
            for (size_t i = 0; i < add->n_meshes; i++) add->meshes[i]->server = 0;
            continue;
        }
        if (code == CONTACTD_OK && client->message.u.bodies_added.n != add->n)
            code = ctc_fail(client, CONTACTD_INTERNAL, object, "answer", "the server added %u bodies, expected %zu",
                            client->message.u.bodies_added.n, add->n);
        return code;
    }
}

static contactd_code add_bodies(contactd_client *client, struct bodies_to_add *add, const contactd_mesh *handles,
                                contactd_body *out) {
    char object[CTC_OBJECT];
    ctc_scene *scene = add->scene;
    contactd_code code = check_body(client, scene, add->options, ctc_scene_object(scene, object));
    if (code == CONTACTD_OK) code = ctc_flush(client, scene->handle, 1);
    for (size_t i = 0; i < add->n_meshes && code == CONTACTD_OK; i++)
        if (!(add->meshes[i] = ctc_find_mesh(client, handles[i]))) code = client->error.code;
    if (code == CONTACTD_OK) code = make_bodies(client, add, handles, object);
    if (code != CONTACTD_OK || !add->n) return code;
    do code = send_bodies(client, add);
    while (code == CTC_AGAIN);
    if (code != CONTACTD_OK) return code;
    for (size_t i = 0; i < add->n; i++) {
        add->made[i]->server = client->message.u.bodies_added.bodies[i];
        out[i] = take_body(scene, add->made[i], add->meshes[add->n_meshes > 1 ? i : 0]);
        add->made[i] = NULL;
    }
    scene->n_ids = 0;
    return code;
}

contactd_code contactd_add_bodies(contactd_client *client, contactd_scene scene_handle, const contactd_mesh *meshes,
                                  size_t n_meshes, const double (*poses)[12], size_t n,
                                  const contactd_body_options *options, contactd_body *out) {
    CTC_BEGIN(client);
    char object[CTC_OBJECT];
    if (n > WIRE_MOST_BODIES)
        return ctc_fail(client, CONTACTD_TOO_LARGE, "bodies", "n",
                        "%zu bodies are given, at most %d are allowed in a call", n, WIRE_MOST_BODIES);
    if (n) {
        CTC_REQUIRE(client, "bodies", out);
        CTC_REQUIRE(client, "meshes", meshes);
        CTC_REQUIRE(client, "poses", poses);
    }
    for (size_t i = 0; i < n; i++) out[i] = 0;
    ctc_scene *scene = ctc_find_scene(client, scene_handle);
    if (!scene) return client->error.code;
    if (n && n_meshes != n && n_meshes != 1)
        return ctc_fail(client, CONTACTD_WRONG_LENGTH, ctc_scene_object(scene, object), "meshes",
                        "%zu meshes for %zu bodies: expected one, or one of each", n_meshes, n);
    if (client->welcome.last_message < WIRE_ADD_BODIES)
        return ctc_fail(client, CONTACTD_UNSUPPORTED, ctc_scene_object(scene, object), "bodies",
                        "the server is too old to add many bodies at once: add them one by one");
    contactd_body_options defaults;
    contactd_body_options_init(&defaults);
    if (!options) options = &defaults;
    struct bodies_to_add add = {
        .scene = scene, .n_meshes = n ? n_meshes : 0, .poses = poses, .options = options, .n = n};
    add.meshes = calloc(add.n_meshes + 1, sizeof *add.meshes);
    add.made = calloc(n + 1, sizeof *add.made);
    add.mesh_ids = malloc((add.n_meshes + 1) * sizeof *add.mesh_ids);
    add.ignore = malloc((options->n_ignore + 1) * sizeof *add.ignore);
    const contactd_code code = add.meshes && add.made && add.mesh_ids && add.ignore
                                   ? add_bodies(client, &add, meshes, out)
                                   : ctc_no_memory(client, ctc_scene_object(scene, object));
    for (size_t i = 0; i < n && add.made; i++) ctc_body_free(&add.made[i]); /* those that did not become the scene's */
    free(add.meshes);
    free(add.made);
    free(add.mesh_ids);
    free(add.ignore);
    return code;
}

/* ---- half-spaces ---- */

bool contactd_plane_pose(const double normal[3], double offset, double pose[12]) {
    double largest = 0, n[3], u[3], v[3];
    int least = 0;
    if (!normal || !pose) return false;
    for (int k = 0; k < 3; k++) largest = fmax(largest, fabs(normal[k]));
    if (!isfinite(normal[0] + normal[1] + normal[2] + offset) || !(largest >= 1e-150 && largest <= 1e150)) return false;
    const double length = sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]);
    for (int k = 0; k < 3; k++) {
        n[k] = normal[k] / length;
        if (fabs(n[k]) < fabs(n[least])) least = k;
    }
    const int i = (least + 1) % 3, j = (least + 2) % 3;
    const double across = sqrt(n[i] * n[i] + n[j] * n[j]);
    u[least] = 0;
    u[i] = n[j] / across;
    u[j] = -n[i] / across;
    for (int k = 0; k < 3; k++) v[k] = n[(k + 1) % 3] * u[(k + 2) % 3] - n[(k + 2) % 3] * u[(k + 1) % 3];
    for (int k = 0; k < 3; k++) {
        pose[4 * k] = u[k];
        pose[4 * k + 1] = v[k];
        pose[4 * k + 2] = n[k];
        pose[4 * k + 3] = n[k] * offset;
    }
    return true;
}

contactd_code contactd_add_half_space(contactd_client *client, contactd_scene scene_handle, const double normal[3],
                                      double offset, const contactd_body_options *options, contactd_body *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "body", out);
    CTC_REQUIRE(client, "normal", normal);
    *out = 0;
    contactd_body_options placed;
    contactd_body_options_init(&placed);
    if (options) placed = *options;
    if (!contactd_plane_pose(normal, offset, placed.pose))
        return ctc_fail(
            client, CONTACTD_OUT_OF_RANGE, "half-space", "normal",
            "the normal is %g %g %g and the offset %g: expected a normal of a length from 1e-150 to 1e150, and "
            "finite numbers",
            normal[0], normal[1], normal[2], offset);
    return add_body(client, scene_handle, NULL, 0, &placed, out);
}

/* ---- materials ---- */

static ctc_pair *find_pair(const ctc_scene *scene, const contactd_body body[2]) {
    for (uint32_t i = 0; i < scene->n_pairs; i++)
        if (scene->pairs[i].body[0] == body[0] && scene->pairs[i].body[1] == body[1]) return &scene->pairs[i];
    return NULL;
}

static void drop_pair(ctc_scene *scene, ctc_pair *pair) {
    *pair = scene->pairs[--scene->n_pairs];
}

static void forget_pairs(ctc_scene *scene, contactd_body body) {
    for (uint32_t i = scene->n_pairs; i-- > 0;)
        if (scene->pairs[i].body[0] == body || scene->pairs[i].body[1] == body) drop_pair(scene, &scene->pairs[i]);
}

static bool is_none(const ct_material *m) {
    return isnan(m->modulus) && isnan(m->friction) && isnan(m->dissipation) && isnan(m->static_friction);
}

contactd_code contactd_set_material(contactd_client *client, contactd_scene scene_handle, contactd_body handle,
                                    contactd_body other_handle, const ct_material *material) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "material", material);
    ctc_scene *scene = ctc_find_scene(client, scene_handle);
    ctc_body *body = scene ? ctc_find_body(client, scene, handle) : NULL;
    ctc_body *other = body && other_handle ? ctc_find_body(client, scene, other_handle) : NULL;
    char object[CTC_OBJECT];
    if (!body || (other_handle && !other)) return client->error.code;
    if (!ctc_grow32(&scene->pairs, scene->n_pairs, &scene->cap_pairs, sizeof *scene->pairs))
        return ctc_no_memory(client, ctc_scene_object(scene, object));
    contactd_code code = ctc_flush(client, scene_handle, 1);
    if (code != CONTACTD_OK) return code;
    do {
        code = ctc_ensure_scene(client, scene);
        if (code == CONTACTD_OK) code = ctc_send_material(client, scene, body, other, material);
    } while (code == CTC_AGAIN);
    if (code != CONTACTD_OK) return code;
    if (!other) {
        body->material = *material;
        return code;
    }
    const bool in_order = handle <= other_handle;
    const contactd_body both[2] = {in_order ? handle : other_handle, in_order ? other_handle : handle};
    ctc_pair *pair = find_pair(scene, both);
    if (is_none(material)) {
        if (pair) drop_pair(scene, pair);
    } else {
        if (!pair) pair = &scene->pairs[scene->n_pairs++];
        *pair = (ctc_pair){{both[0], both[1]}, *material};
    }
    return code;
}

contactd_code contactd_remove_body(contactd_client *client, contactd_scene scene_handle, contactd_body handle) {
    CTC_BEGIN(client);
    ctc_scene *scene = ctc_find_scene(client, scene_handle);
    ctc_body *body = scene ? ctc_find_body(client, scene, handle) : NULL;
    if (!body) return client->error.code;
    char object[CTC_OBJECT];
    contactd_code code = ctc_flush(client, scene_handle, 1);
    if (code != CONTACTD_OK) return code;
    do {
        code = ctc_ensure_scene(client, scene);
        if (code != CONTACTD_OK) continue;
        wire_message m = {.type = WIRE_REMOVE_BODY, .u.remove_body = {scene->server, body->server}};
        code = ctc_exchange(client, &m, WIRE_DONE, ctc_scene_object(scene, object));
    } while (code == CTC_AGAIN);
    if (code != CONTACTD_OK) return code;
    if (body->mesh) client->meshes[body->mesh - 1]->bodies--;
    ctc_body_free(&scene->bodies[handle - 1]);
    forget_pairs(scene, handle);
    scene->n_ids = 0;
    return CONTACTD_OK;
}

static contactd_code send_replace_mesh(contactd_client *client, ctc_scene *scene, ctc_body *body, ctc_mesh *mesh) {
    char object[CTC_OBJECT];
    for (int attempt = 0;; attempt++) {
        contactd_code code = ctc_ensure_mesh(client, mesh);
        if (code != CONTACTD_OK) return code;
        wire_message m = {.type = WIRE_REPLACE_MESH, .u.replace_mesh = {scene->server, body->server, mesh->server}};
        code = ctc_exchange(client, &m, WIRE_DONE, ctc_scene_object(scene, object));
        if (attempt || !ctc_is_mesh_stale(client, code)) return code;
        mesh->server = 0;
    }
}

contactd_code contactd_replace_mesh(contactd_client *client, contactd_scene scene_handle, contactd_body handle,
                                    contactd_mesh mesh_handle) {
    CTC_BEGIN(client);
    ctc_scene *scene = ctc_find_scene(client, scene_handle);
    ctc_body *body = scene ? ctc_find_body(client, scene, handle) : NULL;
    ctc_mesh *mesh = body ? ctc_find_mesh(client, mesh_handle) : NULL;
    char object[CTC_OBJECT];
    if (!mesh) return client->error.code;
    if (!body->mesh)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, ctc_scene_object(scene, object), "body",
                        "body %u is a half-space, which has no mesh to replace", handle);
    contactd_code code = ctc_flush(client, scene_handle, 1);
    if (code != CONTACTD_OK) return code;
    do {
        code = ctc_ensure_scene(client, scene);
        if (code == CONTACTD_OK) code = send_replace_mesh(client, scene, body, mesh);
    } while (code == CTC_AGAIN);
    if (code != CONTACTD_OK) return code;
    client->meshes[body->mesh - 1]->bodies--;
    mesh->bodies++;
    body->mesh = mesh_handle;
    body->vertices = mesh->vertices;
    body->n_known = 0;
    free(body->positions);
    free(body->known);
    body->positions = NULL;
    body->known = NULL;
    return CONTACTD_OK;
}
