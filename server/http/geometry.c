/* geometry.c - see geometry.h. A file has a header, a chunk of JSON that describes the rest, and a chunk with positions
 * (float32) and triangles (uint32). Positions count from the mesh's origin, which is the translation of its node. */
#include "server/http/geometry.h"

#include <stdlib.h>
#include <string.h>

#include "server/base/json_out.h"

enum { PARTS = 3, HEADER = 12, CHUNK = 8, JSON_LIMIT = 4096 };
enum { MAGIC = 0x46546C67, VERSION = 2, JSON = 0x4E4F534A, BINARY = 0x004E4942 };
enum { FLOATS = 5126, INTEGERS = 5125, VERTICES = 34962, INDICES = 34963 };

struct geometry {
    ct_mesh *mesh;
    struct {
        const void *data;
        uint64_t size;
    } part[PARTS];
    char head[HEADER + 2 * CHUNK + JSON_LIMIT];
};

/* ---- the description ---- */

static void accessor(json_out *out, int view, int type, uint64_t count, const char *shape, const float bounds[2][3]) {
    json_out_object(out, NULL);
    json_out_integer(out, "bufferView", (uint64_t)view);
    json_out_integer(out, "componentType", (uint64_t)type);
    json_out_integer(out, "count", count);
    json_out_string(out, "type", shape);
    if (bounds) {
        json_out_floats(out, "min", bounds[0], 3);
        json_out_floats(out, "max", bounds[1], 3);
    }
    json_out_object_end(out);
}

static void view(json_out *out, uint64_t offset, uint64_t bytes, int target) {
    json_out_object(out, NULL);
    json_out_integer(out, "buffer", 0);
    json_out_integer(out, "byteOffset", offset);
    json_out_integer(out, "byteLength", bytes);
    json_out_integer(out, "target", (uint64_t)target);
    json_out_object_end(out);
}

/* An array of one object is begun, and one is ended. */
static void begin_one(json_out *out, const char *key) {
    json_out_array(out, key);
    json_out_object(out, NULL);
}

static void end_one(json_out *out) {
    json_out_object_end(out);
    json_out_array_end(out);
}

static void write_nodes(json_out *out, const ct_mesh_info *info) {
    json_out_integer(out, "scene", 0);
    begin_one(out, "scenes");
    json_out_array(out, "nodes");
    json_out_integer(out, NULL, 0);
    json_out_array_end(out);
    end_one(out);
    begin_one(out, "nodes");
    json_out_integer(out, "mesh", 0);
    json_out_numbers(out, "translation", info->origin, 3);
    end_one(out);
    begin_one(out, "meshes");
    json_out_string(out, "name", info->hash);
    begin_one(out, "primitives");
    json_out_object(out, "attributes");
    json_out_integer(out, "POSITION", 0);
    json_out_object_end(out);
    json_out_integer(out, "indices", 1);
    end_one(out);
    end_one(out);
}

static void find_bounds(const float *positions, uint64_t n, float bounds[2][3]) {
    for (int k = 0; k < 3; k++) bounds[0][k] = bounds[1][k] = positions[k];
    for (uint64_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) {
            const float x = positions[3 * i + (uint64_t)k];
            if (x < bounds[0][k]) bounds[0][k] = x;
            if (x > bounds[1][k]) bounds[1][k] = x;
        }
}

/* Returns its length, a multiple of 4. */
static size_t write_json(char *to, const ct_mesh_info *info, const float *positions) {
    json_out out;
    float bounds[2][3];
    const uint64_t position_bytes = 12 * info->vertices, index_bytes = 12 * info->triangles;
    find_bounds(positions, info->vertices, bounds);
    json_out_init_fixed(&out, to, JSON_LIMIT);
    json_out_object(&out, NULL);
    json_out_object(&out, "asset");
    json_out_string(&out, "version", "2.0");
    json_out_string(&out, "generator", "contactd");
    json_out_object_end(&out);
    write_nodes(&out, info);
    json_out_array(&out, "accessors");
    accessor(&out, 0, FLOATS, info->vertices, "VEC3", (const float(*)[3])bounds);
    accessor(&out, 1, INTEGERS, 3 * info->triangles, "SCALAR", NULL);
    json_out_array_end(&out);
    json_out_array(&out, "bufferViews");
    view(&out, 0, position_bytes, VERTICES);
    view(&out, position_bytes, index_bytes, INDICES);
    json_out_array_end(&out);
    begin_one(&out, "buffers");
    json_out_integer(&out, "byteLength", position_bytes + index_bytes);
    end_one(&out);
    json_out_object_end(&out);
    size_t size = out.size;
    while (size % 4) to[size++] = ' ';
    return size;
}

/* ---- the file ---- */

static char *put(char *to, uint32_t value) {
    for (int i = 0; i < 4; i++) to[i] = (char)(value >> 8 * i & 0xff);
    return to + 4;
}

geometry *geometry_open(ct_mesh *mesh, uint64_t *size) {
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    const uint64_t bytes = 12 * (info.vertices + info.triangles);
    geometry *g = bytes < UINT32_MAX - sizeof g->head ? calloc(1, sizeof *g) : NULL;
    if (!g) return NULL;
    g->mesh = ct_mesh_retain(mesh);
    const size_t json = write_json(g->head + HEADER + CHUNK, &info, ct_mesh_positions(mesh));
    const size_t head = HEADER + CHUNK + json + CHUNK;
    *size = head + bytes;
    char *at = put(put(put(g->head, MAGIC), VERSION), (uint32_t)*size);
    at = put(put(at, (uint32_t)json), JSON);
    put(put(at + json, (uint32_t)bytes), BINARY);
    g->part[0].data = g->head;
    g->part[0].size = head;
    g->part[1].data = ct_mesh_positions(mesh);
    g->part[1].size = 12 * info.vertices;
    g->part[2].data = ct_mesh_triangles(mesh);
    g->part[2].size = 12 * info.triangles;
    return g;
}

size_t geometry_read(void *of, uint64_t at, char *to, size_t most) {
    const geometry *g = of;
    size_t n = 0;
    for (int i = 0; i < PARTS && n < most; i++) {
        if (at >= g->part[i].size) {
            at -= g->part[i].size;
            continue;
        }
        const uint64_t left = g->part[i].size - at;
        const size_t part = left < most - n ? (size_t)left : most - n;
        memcpy(to + n, (const char *)g->part[i].data + at, part);
        n += part;
        at = 0;
    }
    return n;
}

void geometry_close(void *of) {
    geometry *g = of;
    ct_mesh_release(&g->mesh);
    free(g);
}
