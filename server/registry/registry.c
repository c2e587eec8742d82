/* registry.c - making and ending the registry, and its totals. */
#include "server/registry/internal.h"

#include <stdlib.h>
#include <string.h>

registry *registry_new(const registry_limits *limits, metrics *metrics) {
    registry *registry = calloc(1, sizeof *registry);
    if (!registry) return NULL;
    registry->limits = *limits;
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
    pthread_mutex_destroy(&(*registry)->lock);
    free(*registry);
    *registry = NULL;
}

void registry_copy_name(char to[REGISTRY_NAME], const char *from) {
    size_t n = from ? strlen(from) : 0;
    if (n >= REGISTRY_NAME) {
        n = REGISTRY_NAME - 1;
        while (n && ((unsigned char)from[n] & 0xc0) == 0x80) n--;
    }
    if (n) memcpy(to, from, n);
    to[n] = 0;
}

void registry_get_totals(registry *registry, registry_totals *out) {
    pthread_mutex_lock(&registry->lock);
    *out = (registry_totals){
        .sessions = registry->n_sessions,
        .scenes = registry->scenes.used,
        .meshes = registry->meshes.used,
        .bodies = (uint32_t)registry->bodies,
        .mesh_bytes = registry->mesh_bytes,
        .mesh_bytes_limit = registry->limits.mesh_bytes,
        .scene_bytes = registry->scene_bytes + atomic_load(&registry->kept_bytes),
    };
    pthread_mutex_unlock(&registry->lock);
}
