/* registry.c - making and ending the registry, and its totals. */
#include "server/registry/internal.h"

#include <stdlib.h>
#include <string.h>

registry *registry_new(const registry_limits *limits, ct_engine *engine, metrics *metrics) {
    registry *registry = calloc(1, sizeof *registry);
    if (!registry) return NULL;
    registry->limits = *limits;
    registry->kept.max_bytes = limits->scene_bytes;
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
    pthread_mutex_destroy(&(*registry)->lock);
    free(*registry);
    *registry = NULL;
}

/* Length of the UTF-8 character at text, 0 if it is none. */
static size_t utf8_length(const unsigned char *text) {
    size_t n = text[0] < 0x80   ? 1
               : text[0] < 0xc2 ? 0
               : text[0] < 0xe0 ? 2
               : text[0] < 0xf0 ? 3
               : text[0] < 0xf5 ? 4
                                : 0;
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
    }
    /* Neither longer than needed, nor half of a UTF-16 pair, nor beyond the last code point. */
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
        (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f)) {
        return 0;
    }
    return n;
}

void registry_copy_name(char to[REGISTRY_NAME], const char *from) {
    const unsigned char *text = (const unsigned char *)(from ? from : "");
    size_t length = 0;
    while (*text) {
        size_t n = utf8_length(text);
        if (length + (n ? n : 1) >= REGISTRY_NAME) break;
        if (n) {
            memcpy(to + length, text, n);
        } else {
            to[length] = '?';
        }
        length += n ? n : 1;
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
        .mesh_bytes = registry->mesh_bytes,
        .mesh_bytes_limit = registry->limits.mesh_bytes,
        .scene_bytes = registry->kept.scene_bytes + registry->kept.kept_bytes,
    };
    pthread_mutex_unlock(&registry->lock);
}
