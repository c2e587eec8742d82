/* registry.c - making and ending the registry, and its totals. */
#include "server/registry/internal.h"

#include <stdlib.h>
#include <string.h>

#include "proto/utf8.h"
#include "server/base/name.h"

registry *registry_new(const registry_limits *limits, ct_engine *engine, metrics *metrics) {
    registry *registry = calloc(1, sizeof *registry);
    if (!registry) return NULL;
    registry->limits = *limits;
    registry->kept.max_bytes = limits->scene_bytes;
    shares_init(&registry->mesh_bytes, limits->mesh_bytes);
    shares_init(&registry->n_scenes, limits->max_scenes);
    shares_init(&registry->scene_bytes, limits->scene_bytes);
    registry->engine = engine;
    registry->metrics = metrics;
    if (!registry_init_sessions(registry)) {
        free(registry);
        return NULL;
    }
    pthread_mutex_init(&registry->lock, NULL);
    return registry;
}

void registry_free(registry **registry) {
    if (!*registry) return;
    registry_free_scenes(*registry);
    registry_free_sessions(*registry);
    registry_free_meshes(*registry);
    shares_free(&(*registry)->mesh_bytes);
    shares_free(&(*registry)->n_scenes);
    shares_free(&(*registry)->scene_bytes);
    pthread_mutex_destroy(&(*registry)->lock);
    free(*registry);
    *registry = NULL;
}

void registry_copy_name(char to[REGISTRY_NAME], const char *from) {
    const char *text = from ? from : "";
    size_t length = 0;
    while (*text) {
        size_t n = wire_utf8_length(text, strlen(text));
        size_t copied = n && name_may_have(name_code_point(text, n)) ? n : 1;
        if (length + copied >= REGISTRY_NAME) break;
        to[length] = '?';
        if (n == copied) memcpy(to + length, text, n);
        length += copied;
        text += n ? n : 1;
    }
    to[length] = 0;
}

void registry_get_totals(registry *registry, registry_totals *out) {
    pthread_mutex_lock(&registry->lock);
    registry_refresh_mesh_bytes(registry);
    *out = (registry_totals){
        .sessions = registry->n_sessions,
        .scenes = registry->scenes.used,
        .meshes = registry->meshes.used,
        .bodies = (uint32_t)registry->bodies,
        .mesh_bytes = registry->mesh_bytes.used,
        .mesh_bytes_limit = registry->limits.mesh_bytes,
        .scene_bytes = registry->kept.scene_bytes + registry->kept.kept_bytes,
    };
    pthread_mutex_unlock(&registry->lock);
}
