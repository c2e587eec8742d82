/* gltf.c - mesh files as they are sent: a .gltf file with the buffers of the files beside it, as the server sees none
 * of this machine's files. */
#include <jansson.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/ctl/ctl.h"

/* Where a buffer lies, from a URI: beside the .gltf file or below. NULL: elsewhere, or no memory. The caller frees
 * it. */
static char *path_of_buffer(const char *gltf, const char *uri) {
    const char *slash = strrchr(gltf, '/');
    const size_t folder = slash ? (size_t)(slash + 1 - gltf) : 0;
    char *path = uri[0] == '/' || strchr(uri, ':') ? NULL : malloc(folder + strlen(uri) + 1);
    if (!path) return NULL;
    memcpy(path, gltf, folder);
    char *to = path + folder;
    for (const char *from = uri; *from; from++) {
        char two[3] = {0}, *end = two;
        if (*from == '%' && from[1]) two[0] = from[1], two[1] = from[2];
        const long escaped = two[1] ? strtol(two, &end, 16) : 0;
        const bool is_escape = end == two + 2 && escaped > 0;
        *to++ = is_escape ? (char)escaped : *from;
        if (is_escape) from += 2;
    }
    *to = 0;
    const char *inside = path + folder;
    const size_t n = strlen(inside);
    const bool leaves = inside[0] == '/' || strncmp(inside, "../", 3) == 0 || strstr(inside, "/../") ||
                        strcmp(inside, "..") == 0 || (n >= 3 && strcmp(inside + n - 3, "/..") == 0);
    if (!leaves) return path;
    free(path);
    return NULL;
}

/* Puts the file that the buffer names into it. False: the mistake has been reported. */
static bool embed_buffer(const char *gltf, json_t *buffer) {
    static const char head[] = "data:application/octet-stream;base64,";
    const char *uri = json_string_value(json_object_get(buffer, "uri"));
    if (!uri || strncmp(uri, "data:", 5) == 0) return true;
    char *path = path_of_buffer(gltf, uri), *text = NULL;
    unsigned char *bytes = NULL;
    size_t size = 0;
    if (!path) {
        ctl_mistake("%s has a buffer at %s, which is not beside it or below: save the mesh as one file (.glb)", gltf,
                    uri);
        return false;
    }
    bool is_read = ctl_read_file(path, &bytes, &size);
    const size_t room = is_read ? sodium_base64_encoded_len(size, sodium_base64_VARIANT_ORIGINAL) : 0;
    if (is_read) text = malloc(sizeof head + room);
    if (text) {
        memcpy(text, head, sizeof head - 1);
        sodium_bin2base64(text + sizeof head - 1, room, bytes, size, sodium_base64_VARIANT_ORIGINAL);
    }
    if (is_read && (!text || json_object_set_new(buffer, "uri", json_string(text)) != 0)) {
        ctl_mistake("no memory for %s", path);
        is_read = false;
    }
    free(path), free(bytes), free(text);
    return is_read;
}

static bool is_gltf_text(const unsigned char *bytes, size_t size) {
    size_t i = size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < size && strchr(" \t\r\n", bytes[i]) && bytes[i]) i++;
    return i < size && bytes[i] == '{';
}

bool ctl_read_mesh(const char *path, unsigned char **bytes, size_t *size) {
    if (!ctl_read_file(path, bytes, size)) return false;
    if (!is_gltf_text(*bytes, *size)) return true;
    json_t *document = json_loadb((const char *)*bytes, *size, 0, NULL);
    const json_t *buffers = json_object_get(document, "buffers");
    bool is_done = true, has_other_files = false;
    for (size_t i = 0; i < json_array_size(buffers) && is_done; i++) {
        json_t *buffer = json_array_get(buffers, i);
        const char *uri = json_string_value(json_object_get(buffer, "uri"));
        has_other_files = has_other_files || (uri && strncmp(uri, "data:", 5) != 0);
        is_done = embed_buffer(path, buffer);
    }
    char *text = is_done && has_other_files ? json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (is_done && has_other_files && !text) {
        ctl_mistake("no memory for %s", path);
        is_done = false;
    }
    json_decref(document); /* NULL where the file is no JSON; the server then says what is wrong with it */
    if (text || !is_done) {
        free(*bytes);
        *bytes = (unsigned char *)text;
        *size = text ? strlen(text) : 0;
    }
    return is_done;
}
