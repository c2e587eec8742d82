/* media.c - see media.h. */
#include "server/http/media.h"

#include <string.h>
#include <strings.h>

#include "server/http/text.h"

static const struct {
    const char *type;
    media_kind kind;
    ct_mesh_format format;
} types[] = {
    {"application/json", MEDIA_JSON, CT_FORMAT_AUTO},
    {"application/octet-stream", MEDIA_ANY, CT_FORMAT_AUTO},
    {"text/plain", MEDIA_ANY, CT_FORMAT_AUTO},
    {"model/obj", MEDIA_MESH, CT_FORMAT_OBJ},
    {"model/off", MEDIA_MESH, CT_FORMAT_OFF},
    {"model/ply", MEDIA_MESH, CT_FORMAT_PLY},
    {"application/ply", MEDIA_MESH, CT_FORMAT_PLY},
    {"application/x-ply", MEDIA_MESH, CT_FORMAT_PLY},
    {"model/stl", MEDIA_MESH, CT_FORMAT_STL},
    {"model/x.stl-binary", MEDIA_MESH, CT_FORMAT_STL},
    {"model/x.stl-ascii", MEDIA_MESH, CT_FORMAT_STL},
    {"model/gltf-binary", MEDIA_MESH, CT_FORMAT_GLTF},
    {"model/gltf+json", MEDIA_MESH, CT_FORMAT_GLTF},
    {"application/sla", MEDIA_MESH, CT_FORMAT_STL},
    {"application/vnd.ms-pki.stl", MEDIA_MESH, CT_FORMAT_STL},
};

bool media_find(const char *type, bool meshes, media *out, problem *p) {
    *out = (media){meshes ? MEDIA_ANY : MEDIA_JSON, CT_FORMAT_AUTO};
    if (!type) return true;
    size_t n = strcspn(type, "; \t");
    /* What curl and scripting languages say of a file when they are told nothing. JSON is not taken under the type of a
     * form, which a browser sends to another site without asking it first. */
    static const char untold[] = "application/x-www-form-urlencoded";
    if (meshes && n == sizeof untold - 1 && strncasecmp(untold, type, n) == 0) return true;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strlen(types[i].type) != n || strncasecmp(types[i].type, type, n) != 0) continue;
        if (types[i].kind != MEDIA_JSON && !meshes) break;
        *out = (media){types[i].kind, types[i].format};
        return true;
    }
    char shown[80];
    return problem_set_http(
        p, CONTACTD_UNSUPPORTED, 415, "a body of this type is not taken here", "Content-Type",
        "Content-Type is %s; expected %s", text_clean(type, shown, sizeof shown),
        meshes ? "model/gltf-binary, model/obj, model/off, model/ply, model/stl, application/octet-stream (the format "
                 "is told from the content) or application/json"
               : "application/json");
}

static size_t skip_space(const char *bytes, size_t size, size_t i) {
    while (i < size && (bytes[i] == ' ' || bytes[i] == '\t' || bytes[i] == '\r' || bytes[i] == '\n')) i++;
    return i;
}

/* Whether a key of a glTF file's own object begins here, quoted. */
static bool is_gltf_key(const char *at, size_t size) {
    static const char *const keys[] = {
        "accessors",      "animations", "asset",  "bufferViews", "buffers",   "cameras", "extensionsRequired",
        "extensionsUsed", "extensions", "extras", "images",      "materials", "meshes",  "nodes",
        "samplers",       "scenes",     "scene",  "skins",       "textures"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const size_t n = strlen(keys[i]);
        if (size >= n + 2 && at[0] == '"' && memcmp(at + 1, keys[i], n) == 0 && at[n + 1] == '"') return true;
    }
    return false;
}

bool media_looks_like_json(const char *bytes, size_t size) {
    size_t i = skip_space(bytes, size, 0);
    if (i == size || bytes[i] != '{') return false;
    i = skip_space(bytes, size, i + 1);
    return !is_gltf_key(bytes + i, size - i);
}
