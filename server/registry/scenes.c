/* scenes.c - the open scenes: handles, owners, statistics. What runs in them is the scheduler's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/registry/internal.h"

/* With the lock held. */
static void count_bytes(registry *registry, const scene *scene, uint64_t was, uint64_t is) {
    shares_give(&registry->scene_bytes, scene->principal, was);
    shares_take(&registry->scene_bytes, scene->principal, is);
    registry->kept.scene_bytes += is - was;
}

/* So many strays are allowed, however few scenes are. */
enum { FEW_STRAYS = 16 };

static uint32_t part_of(uint32_t limit, uint32_t divisor) {
    uint32_t part = limit / divisor;
    return part > FEW_STRAYS ? part : FEW_STRAYS;
}

/* With the lock held. */
static bool has_place_for_stray(const registry *registry, const identity *who, server_error *error) {
    const uint32_t limit = registry->limits.max_scenes;
    const uint32_t all = part_of(limit, 2), own = part_of(limit, 8);
    const uint32_t used = registry->strays_of[who->origin % STRAY_PLACES];
    if (registry->n_strays < all && used < own) return true;
    if (used >= own) {
        server_fail(error, CONTACTD_LIMIT_EXCEEDED, "scene", "",
                    "%" PRIu32 " scenes opened over HTTP from this address wait for a client, of at most %" PRIu32
                    " (an eighth of --max-scenes): close some, or open them over the stream",
                    used, own);
    } else {
        server_fail(error, CONTACTD_LIMIT_EXCEEDED, "scene", "",
                    "%" PRIu32 " scenes opened over HTTP wait for a client, of at most %" PRIu32
                    " (half of --max-scenes; the rest is for the stream): close some, or open them over the stream",
                    registry->n_strays, all);
    }
    if (error) error->retry_after_ms = RETRY_AFTER_MS;
    return false;
}

/* With the lock held. */
static void count_stray(registry *registry, scene *scene, uint32_t origin) {
    scene->origin = origin;
    if (!origin) return;
    registry->n_strays++;
    registry->strays_of[origin % STRAY_PLACES]++;
}

/* With the lock held. */
static void uncount_stray(registry *registry, scene *scene) {
    if (!scene->origin) return;
    registry->n_strays--;
    registry->strays_of[scene->origin % STRAY_PLACES]--;
    scene->origin = 0;
}

/* With the lock held. */
static bool has_place(registry *registry, const identity *who, server_error *error) {
    shares *n_scenes = &registry->n_scenes;
    if (!shares_know(n_scenes, who) || !shares_know(&registry->scene_bytes, who))
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "scene", "", "no memory to count a scene");
    if (shares_allow_held(n_scenes, who, 1)) return true;
    if (registry->scenes.used >= registry->limits.max_scenes) {
        server_fail(error, CONTACTD_LIMIT_EXCEEDED, "scene", "",
                    "%" PRIu32 " scenes are open, which is the limit (--max-scenes)", registry->scenes.used);
    } else {
        server_fail(error, CONTACTD_LIMIT_EXCEEDED, "scene", "",
                    "%" PRIu64 " scenes of %s are open; its share of --max-scenes %" PRIu64 " is %" PRIu64
                    " and up to %" PRIu64
                    " while others leave them: close scenes, or give it more weight in --principals",
                    shares_used(n_scenes, who->principal), who->name, n_scenes->limit, shares_kept(n_scenes, who),
                    shares_most(n_scenes, who));
    }
    if (error) error->retry_after_ms = RETRY_AFTER_MS;
    return false;
}

/* With the lock held. */
static void take_contents(registry *registry, scene *scene, const scene_contents *contents) {
    scene->uses = contents->uses;
    scene->n_uses = scene->room_uses = contents->n_uses;
    scene->triangles = contents->triangles;
    memcpy(scene->size_m, contents->size_m, sizeof scene->size_m);
    scene->record.bodies = (uint32_t)contents->n_uses;
    registry->bodies += scene->record.bodies;
}

scene *scene_new(registry *registry, ct_scene *engine, const char *name, session *owner, const identity *who,
                 const scene_contents *contents, server_error *error) {
    scene *scene = calloc(1, sizeof *scene);
    if (!scene) {
        server_fail(error, CONTACTD_OUT_OF_MEMORY, "scene", "", "no memory for a scene");
        return NULL;
    }
    atomic_init(&scene->references, 2); /* the table's and the caller's */
    registry_copy_name(scene->record.name, name);
    scene->principal = scene->record.principal = who->principal;
    ct_scene_get_settings(engine, &scene->record.settings);
    ct_scene_get_running(engine, &scene->record.running);
    scene->record.bytes = ct_scene_bytes(engine);
    scene->record.device_bytes = ct_scene_device_bytes(engine);
    scene->device = ct_scene_device(engine);
    scene->opened_ns = scene->stepped_ns = clock_ns();
    scene->record.version = scene->record.revision = 1;
    atomic_init(&scene->asked_ns, scene->opened_ns);

    pthread_mutex_lock(&registry->lock);
    if (!has_place(registry, who, error) || (!owner && who->origin && !has_place_for_stray(registry, who, error))) {
        /* *error says why */
    } else if (!(scene->handle = slots_add(&registry->scenes, scene))) {
        server_fail(error, CONTACTD_OUT_OF_MEMORY, "scene", "", "no room in the table of scenes");
    } else {
        scene->record.handle = scene->handle;
        shares_take(&registry->n_scenes, scene->principal, 1);
        count_bytes(registry, scene, 0, scene->record.bytes);
        scene->engine = engine;
        if (contents) take_contents(registry, scene, contents);
        count_stray(registry, scene, owner ? 0 : who->origin);
        if (owner) {
            atomic_fetch_add_explicit(&owner->references, 1, memory_order_relaxed);
            scene->owner = owner;
            scene->record.owner = owner->token;
            owner->scenes++;
        }
    }
    bool good = scene->handle != 0;
    pthread_mutex_unlock(&registry->lock);
    if (!good) {
        free(scene);
        return NULL;
    }
    return scene;
}

bool registry_fail_scene(uint64_t handle, server_error *error) {
    char object[96];
    snprintf(object, sizeof object, "scene %" PRIu64, handle);
    return server_fail(error, CONTACTD_NOT_FOUND, object, "scene",
                       "there is no scene of this handle, or it is another principal's: open a scene of your own");
}

/* With the lock held. */
static scene *find(const registry *registry, uint64_t handle, server_error *error) {
    bool stale;
    scene *scene = slots_get(&registry->scenes, handle, &stale);
    if (scene) return scene;
    if (!stale) {
        registry_fail_scene(handle, error);
        return NULL;
    }
    char object[96];
    snprintf(object, sizeof object, "scene %" PRIu64, handle);
    server_fail(error, CONTACTD_STALE_HANDLE, object, "scene", "the scene was closed: open another one");
    return NULL;
}

scene *scene_acquire(registry *registry, uint64_t handle, server_error *error) {
    pthread_mutex_lock(&registry->lock);
    scene *scene = find(registry, handle, error);
    if (scene) atomic_fetch_add_explicit(&scene->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&registry->lock);
    return scene;
}

void scenes_acquire(registry *registry, const uint64_t *handles, size_t n, scene **out) {
    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; i < n; i++) {
        out[i] = slots_get(&registry->scenes, handles[i], NULL);
        if (out[i]) __builtin_prefetch(out[i], 1); /* an atomic waits for memory, and the next one for it */
    }
    for (size_t i = 0; i < n; i++)
        if (out[i]) atomic_fetch_add_explicit(&out[i]->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&registry->lock);
}

void scene_release(scene **scene) {
    struct scene *gone = *scene;
    *scene = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) != 1) return;
    ct_scene_destroy(&gone->engine);
    session_release(&gone->owner);
    free(gone->uses);
    free(gone->warnings);
    free(gone);
}

void scene_adopt(registry *registry, scene *scene, session *owner) {
    atomic_fetch_add_explicit(&owner->references, 1, memory_order_relaxed);
    pthread_mutex_lock(&registry->lock);
    uncount_stray(registry, scene);
    scene->owner = owner;
    scene->record.owner = owner->token;
    owner->scenes++;
    pthread_mutex_unlock(&registry->lock);
}

void scene_forget(registry *registry, scene *scene) {
    pthread_mutex_lock(&registry->lock);
    slots_remove(&registry->scenes, scene->handle);
    count_bytes(registry, scene, scene->record.bytes, 0);
    shares_give(&registry->n_scenes, scene->principal, 1);
    registry->bodies -= scene->record.bodies;
    uncount_stray(registry, scene);
    if (scene->owner) scene->owner->scenes--;
    pthread_mutex_unlock(&registry->lock);
    scene_release(&scene); /* the table's reference */
}

/* With the lock held. */
static void fill_record(const scene *scene, uint64_t now_ns, scene_record *out) {
    *out = scene->record;
    out->bytes += atomic_load(&scene->sequence.bytes);
    out->owner_name[0] = 0;
    if (scene->owner) memcpy(out->owner_name, scene->owner->client, sizeof out->owner_name);
    out->pending = atomic_load(&scene->pending);
    out->age_s = (double)(now_ns - scene->opened_ns) * 1e-9;
    out->idle_s = now_ns > scene->stepped_ns ? (double)(now_ns - scene->stepped_ns) * 1e-9 : 0;
}

void scene_get_record(registry *registry, scene *scene, scene_record *out) {
    uint64_t now = clock_ns();
    pthread_mutex_lock(&registry->lock);
    fill_record(scene, now, out);
    pthread_mutex_unlock(&registry->lock);
}

bool scene_is_visible(const scene_record *scene, const identity *who) {
    return role_operates(who->role) || scene->principal == who->principal;
}

bool registry_scene(registry *registry, uint64_t handle, scene_record *out, server_error *error) {
    uint64_t now = clock_ns();
    pthread_mutex_lock(&registry->lock);
    scene *scene = find(registry, handle, error);
    if (scene) fill_record(scene, now, out);
    pthread_mutex_unlock(&registry->lock);
    return scene != NULL;
}

bool registry_scene_latencies(registry *registry, uint64_t handle, float out[REGISTRY_RECENT], size_t *n,
                              server_error *error) {
    *n = 0;
    pthread_mutex_lock(&registry->lock);
    scene *scene = find(registry, handle, error);
    if (scene) {
        *n = scene->record.steps < REGISTRY_RECENT ? (size_t)scene->record.steps : REGISTRY_RECENT;
        memcpy(out, scene->latency_s, *n * sizeof *out);
    }
    pthread_mutex_unlock(&registry->lock);
    return scene != NULL;
}

static int by_handle(const void *a, const void *b) {
    const scene_record *x = a, *y = b;
    return (x->handle > y->handle) - (x->handle < y->handle);
}

bool registry_list_scenes(registry *registry, scene_record **out, size_t *n, server_error *error) {
    *out = NULL;
    *n = 0;
    uint64_t now = clock_ns();
    pthread_mutex_lock(&registry->lock);
    uint32_t count = registry->scenes.used, at = 0;
    scene_record *records = count ? malloc(count * sizeof *records) : NULL;
    if (records) {
        for (scene *scene; (scene = slots_next(&registry->scenes, &at));) fill_record(scene, now, &records[(*n)++]);
    }
    pthread_mutex_unlock(&registry->lock);
    if (count && !records) {
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "scenes", "", "no memory for a list of %" PRIu32, count);
    }
    if (records) qsort(records, *n, sizeof *records, by_handle);
    *out = records;
    return true;
}

bool registry_scenes_of(registry *registry, const session *owner, uint64_t **out, size_t *n) {
    *n = 0;
    pthread_mutex_lock(&registry->lock);
    uint32_t count = registry->scenes.used, at = 0;
    *out = malloc((count + 1) * sizeof **out);
    if (*out) {
        for (scene *scene; (scene = slots_next(&registry->scenes, &at));) {
            if (!owner || scene->owner == owner) (*out)[(*n)++] = scene->handle;
        }
    }
    pthread_mutex_unlock(&registry->lock);
    return *out != NULL;
}

void registry_visit_scenes(registry *registry, void (*visit)(void *context, scene *scene), void *context) {
    uint32_t at = 0;
    pthread_mutex_lock(&registry->lock);
    for (scene *scene; (scene = slots_next(&registry->scenes, &at));) visit(context, scene);
    pthread_mutex_unlock(&registry->lock);
}

/* With the lock held. */
static void set_bytes(registry *registry, scene *scene, uint64_t bytes, uint64_t device_bytes) {
    count_bytes(registry, scene, scene->record.bytes, bytes);
    scene->record.bytes = bytes;
    scene->record.device_bytes = device_bytes;
}

void scene_set_key(registry *registry, scene *scene, uint64_t key, uint64_t revision) {
    pthread_mutex_lock(&registry->lock);
    scene->record.key = key;
    if (revision) scene->record.revision = revision;
    pthread_mutex_unlock(&registry->lock);
}

static void note_change(registry *registry, scene *scene, bool has_new_settings) {
    uint32_t bodies = (uint32_t)ct_scene_body_count(scene->engine);
    uint64_t bytes = ct_scene_bytes(scene->engine), device_bytes = ct_scene_device_bytes(scene->engine);
    pthread_mutex_lock(&registry->lock);
    ct_scene_get_settings(scene->engine, &scene->record.settings);
    ct_scene_get_running(scene->engine, &scene->record.running);
    registry->bodies += bodies;
    registry->bodies -= scene->record.bodies;
    scene->record.bodies = bodies;
    scene->record.version++;
    scene->record.revision += has_new_settings;
    set_bytes(registry, scene, bytes, device_bytes);
    pthread_mutex_unlock(&registry->lock);
}

void scene_note_change(registry *registry, scene *scene) {
    note_change(registry, scene, false);
}

void scene_note_settings(registry *registry, scene *scene) {
    note_change(registry, scene, true);
}

/* With the lock held. */
static void note_step(const scene_step *step) {
    const ct_result *result = step->result;
    scene *scene = step->scene;
    scene_record *record = &scene->record;
    if (step->number) record->sequence = step->number;
    scene->stepped_ns = step->ended_ns;
    if (!result) {
        record->failed++;
    } else {
        scene->latency_s[record->steps++ % REGISTRY_RECENT] =
            (float)((double)(step->ended_ns - step->submitted_ns) * 1e-9);
        record->contacts = (uint32_t)result->n_contacts;
        record->volume = 0;
        for (size_t i = 0; i < result->n_contacts; i++) record->volume += result->contacts[i].volume;
        record->pairs = result->pairs;
        record->rays = result->rays;
        record->fragments = result->fragments;
        record->queue_s = step->queue_s;
        record->total_queue_s += step->queue_s;
        for (int p = 0; p < CT_PHASES; p++) {
            record->phase_s[p] = result->seconds[p];
            record->total_phase_s[p] += result->seconds[p];
            record->wall_s[p] = result->wall_seconds[p];
            record->total_wall_s[p] += result->wall_seconds[p];
        }
    }
}

void scenes_note_steps(registry *registry, const scene_step *steps, size_t n, uint64_t counts[SCENES_AT_ONCE]) {
    uint64_t bytes[SCENES_AT_ONCE], device_bytes[SCENES_AT_ONCE];
    for (size_t i = 0; i < n; i++) {
        bytes[i] = ct_scene_bytes(steps[i].scene->engine);
        device_bytes[i] = ct_scene_device_bytes(steps[i].scene->engine);
    }
    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; i < n; i++) {
        set_bytes(registry, steps[i].scene, bytes[i], device_bytes[i]);
        note_step(&steps[i]);
        counts[i] = steps[i].scene->record.steps;
    }
    pthread_mutex_unlock(&registry->lock);
}

void scene_set_ttl(registry *registry, scene *scene, uint32_t ttl_s) {
    pthread_mutex_lock(&registry->lock);
    scene->record.ttl_s = ttl_s;
    pthread_mutex_unlock(&registry->lock);
}

size_t registry_expired_scenes(registry *registry, uint64_t now_ns, uint64_t *out, size_t room) {
    size_t n = 0;
    uint32_t at = 0;
    pthread_mutex_lock(&registry->lock);
    for (scene *scene; n < room && (scene = slots_next(&registry->scenes, &at));) {
        uint64_t ttl_s = scene->record.ttl_s;
        bool is_unstepped = scene->origin && !scene->record.steps && !scene->record.failed;
        if (is_unstepped && (!ttl_s || ttl_s > REGISTRY_UNSTEPPED_S)) ttl_s = REGISTRY_UNSTEPPED_S;
        uint64_t ttl_ns = ttl_s * UINT64_C(1000000000);
        if (!ttl_ns || scene->owner || atomic_load(&scene->pending)) continue;
        if (now_ns > atomic_load(&scene->asked_ns) + ttl_ns) out[n++] = scene->handle;
    }
    pthread_mutex_unlock(&registry->lock);
    return n;
}

answer_store *registry_kept_answers(registry *registry) {
    return &registry->kept;
}

/* With the lock held. */
static bool fail_share(const shares *shares, const identity *who, uint64_t bytes, const char *object,
                       server_error *error) {
    server_fail(error, CONTACTD_LIMIT_EXCEEDED, object, "scene-memory",
                "this needs %" PRIu64 " bytes; scenes of %s hold %" PRIu64
                ", and its share of --scene-memory is %" PRIu64 " bytes and up to %" PRIu64
                " while others leave them: close scenes, or give it more weight in --principals",
                bytes, who->name[0] ? who->name : "this principal", shares_used(shares, who->principal),
                shares_kept(shares, who), shares_most(shares, who));
    if (error && bytes <= shares_most(shares, who)) error->retry_after_ms = RETRY_AFTER_MS;
    return false;
}

bool registry_has_scene_room(registry *registry, uint64_t bytes, const identity *who, const char *object,
                             server_error *error) {
    shares *shares = &registry->scene_bytes;
    pthread_mutex_lock(&registry->lock);
    uint64_t held = registry->kept.scene_bytes + registry->kept.kept_bytes, limit = registry->limits.scene_bytes;
    bool has_room = held <= limit && bytes <= limit - held;
    bool has_share = shares_know(shares, who) && shares_allow_held(shares, who, bytes);
    if (has_room && !has_share) fail_share(shares, who, bytes, object, error);
    pthread_mutex_unlock(&registry->lock);
    if (has_room) return has_share;
    server_fail(error, CONTACTD_LIMIT_EXCEEDED, object, "scene-memory",
                "this needs %" PRIu64 " bytes; scenes hold %" PRIu64 " of the %" PRIu64
                " that --scene-memory allows: close scenes, or start the server with more",
                bytes, held, limit);
    if (error && bytes <= limit) error->retry_after_ms = RETRY_AFTER_MS;
    return false;
}

identity scene_payer(registry *registry, const scene *scene) {
    pthread_mutex_lock(&registry->lock);
    identity who = shares_identity(&registry->scene_bytes, scene->principal);
    pthread_mutex_unlock(&registry->lock);
    return who;
}

void registry_free_scenes(registry *registry) {
    uint32_t at = 0;
    for (scene *scene; (scene = slots_next(&registry->scenes, &at));) {
        sequence_clear(&scene->sequence, &registry->kept);
        struct scene *gone = scene;
        scene_release(&gone);
    }
    slots_free(&registry->scenes);
}
