/* read_gltf.c - reads glTF 2.0, text (.gltf) and binary (.glb): the triangles of all meshes of the scene, each where
 * its nodes place it. Vertices at equal positions are welded, as writers repeat them wherever normals or textures
 * differ. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/io/gltf.h"
#include "gpu/mesh/io/read.h"
#include "gpu/mesh/io/weld.h"

/* p -> m[row][0..2] p + m[row][3] */
typedef struct transform {
    double m[3][4];
} transform;

/* A node still to be looked at. */
typedef struct pending {
    uint64_t node;
    transform parent;
} pending;

typedef struct reader {
    ct_gltf gltf;
    ct_soup *soup;
    ct_error *error;
    double (*points)[3]; /* of all meshes so far, placed */
    uint32_t *corners;   /* triangles of them */
    size_t n_points, point_capacity, n_corners, corner_capacity;
    size_t most;       /* points, and triangles: nodes may place one mesh many times */
    uint64_t accessor; /* of the last primitive of this mesh, whose primitives may share one; NONE: it is the first */
    size_t first_point, n_own_points; /* of that accessor */
    bool *is_seen;                    /* [n_nodes] */
    pending *stack;
    size_t n_stack, stack_capacity;
} reader;

/* A file may hold less than its nodes make of it; so much is always allowed. */
#define FREE_ELEMENTS ((size_t)1 << 20)
#define NONE          UINT64_MAX

static ct_status no_memory(const reader *r) {
    return ct_fail(r->error, CT_OUT_OF_MEMORY, "bytes", "no memory for a glTF file of %zu vertices so far",
                   r->n_points);
}

static ct_status fail_at(const reader *r, const char *kind, uint64_t i, const char *what) {
    return ct_fail(r->error, CT_PARSE_ERROR, "bytes", "%s[%llu] of the glTF file %s", kind, (unsigned long long)i,
                   what);
}

/* ---- where a node is ---- */

static transform compose(const transform *a, const transform *b) {
    transform c;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++)
            c.m[i][k] =
                a->m[i][0] * b->m[0][k] + a->m[i][1] * b->m[1][k] + a->m[i][2] * b->m[2][k] + (k == 3 ? a->m[i][3] : 0);
    return c;
}

static bool turns_inside_out(const transform *t) {
    double cross[3];
    ct_cross3(t->m[0], t->m[1], cross);
    return ct_dot3(cross, t->m[2]) < 0;
}

/* From translation, rotation (x, y, z, w, of any length) and scale. False: the rotation has no length. */
static bool set_parts(const double t[3], const double q[4], const double s[3], transform *out) {
    const double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    if (!(length > 0 && length < INFINITY)) return false;
    const double x = q[0] / length, y = q[1] / length, z = q[2] / length, w = q[3] / length;
    const double rotation[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)},
                                   {2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)},
                                   {2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)}};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) out->m[i][k] = rotation[i][k] * s[k];
        out->m[i][3] = t[i];
    }
    return true;
}

static ct_status read_transform(const reader *r, const json_t *node, uint64_t i, transform *out) {
    const json_t *matrix = json_object_get(node, "matrix");
    double m[16], t[3] = {0, 0, 0}, q[4] = {0, 0, 0, 1}, s[3] = {1, 1, 1};
    if (matrix) {
        if (!ct_gltf_read_numbers(matrix, 16, m))
            return fail_at(r, "nodes", i, "has a matrix that is not of 16 numbers");
        if (m[3] != 0 || m[7] != 0 || m[11] != 0 || m[15] != 1)
            return fail_at(r, "nodes", i, "has a matrix whose last row is not 0, 0, 0, 1");
        for (int row = 0; row < 3; row++)
            for (int column = 0; column < 4; column++) out->m[row][column] = m[4 * column + row];
        return CT_OK;
    }
    const struct {
        const char *key;
        size_t n;
        double *to;
    } parts[] = {{"translation", 3, t}, {"rotation", 4, q}, {"scale", 3, s}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        const json_t *value = json_object_get(node, parts[k].key);
        if (value && !ct_gltf_read_numbers(value, parts[k].n, parts[k].to))
            return ct_fail(r->error, CT_PARSE_ERROR, "bytes", "nodes[%llu].%s of the glTF file is not %zu numbers",
                           (unsigned long long)i, parts[k].key, parts[k].n);
    }
    return set_parts(t, q, s, out) ? CT_OK : fail_at(r, "nodes", i, "has a rotation without length");
}

/* ---- triangles ---- */

/* Room for n more points, or corners, as far as the file may have them. */
static ct_status check_room(const reader *r, size_t n, size_t have, const char *what) {
    if (n <= r->most - have) return CT_OK;
    return ct_fail(r->error, CT_LIMIT_EXCEEDED, "bytes",
                   "the nodes of the glTF file place more than %zu %s, more than a file of its size is read for: "
                   "register the mesh once, and add it as several bodies",
                   r->most, what);
}

static ct_status add_points(reader *r, uint64_t accessor, const transform *place) {
    ct_gltf_rows found, *const rows = &found;
    if (accessor == r->accessor) return CT_OK;
    ct_status status = ct_gltf_find_rows(&r->gltf, accessor, "VEC3", rows, r->error);
    if (status == CT_OK) status = check_room(r, rows->n, r->n_points, "vertices");
    if (status != CT_OK) return status;
    if (!ct_array_grow(&r->points, &r->point_capacity, r->n_points + rows->n)) return no_memory(r);
    r->accessor = accessor;
    r->first_point = r->n_points;
    r->n_own_points = rows->n;
    for (size_t i = 0; i < rows->n; i++) {
        double p[3];
        if (CT_POLL_EVERY(i, 1 << 10) && ct_is_cancelled()) return ct_fail_cancelled(r->error);
        for (size_t k = 0; k < 3; k++) p[k] = ct_gltf_number(rows, i, k);
        for (int k = 0; k < 3; k++) {
            const double *m = place->m[k];
            const double x = m[0] * p[0] + m[1] * p[1] + m[2] * p[2] + m[3];
            r->points[r->n_points][k] = x;
            if (x != (double)(float)x && isfinite(x)) r->soup->digits.loses_some = true;
        }
        r->n_points++;
    }
    return CT_OK;
}

/* Corner k of a primitive, as a point of this primitive. rows NULL: points are named in their order. */
static uint64_t corner_of(const ct_gltf_rows *rows, size_t k) {
    return rows ? (uint64_t)ct_gltf_number(rows, k, 0) : k;
}

enum { TRIANGLES = 4, STRIP, FAN };

/* Adds the triangles of a primitive whose points were added last. */
static ct_status add_triangles(reader *r, uint64_t mesh, uint64_t mode, const ct_gltf_rows *rows, bool turns) {
    const size_t n_points = r->n_own_points, n_corners = rows ? rows->n : n_points;
    const size_t n = mode == TRIANGLES ? n_corners / 3 : n_corners > 2 ? n_corners - 2 : 0;
    if (mode == TRIANGLES && n_corners % 3)
        return fail_at(r, "meshes", mesh, "has triangles whose corners are not a multiple of 3");
    ct_status status = check_room(r, n, r->n_corners / 3, "triangles");
    if (status != CT_OK) return status;
    if (!ct_array_grow(&r->corners, &r->corner_capacity, r->n_corners + 3 * n)) return no_memory(r);
    for (size_t t = 0; t < n; t++) {
        if (CT_POLL_EVERY(t, 1 << 10) && ct_is_cancelled()) return ct_fail_cancelled(r->error);
        size_t at[3] = {3 * t, 3 * t + 1, 3 * t + 2};
        if (mode == STRIP) at[0] = t, at[1] = t + 1 + t % 2, at[2] = t + 2 - t % 2;
        if (mode == FAN) at[0] = 0, at[1] = t + 1, at[2] = t + 2;
        for (int c = 0; c < 3; c++) {
            const uint64_t corner = corner_of(rows, at[turns ? 2 - c : c]);
            if (corner >= n_points)
                return ct_fail(r->error, CT_PARSE_ERROR, "bytes",
                               "meshes[%llu] of the glTF file has a triangle that names vertex %llu, but %zu vertices",
                               (unsigned long long)mesh, (unsigned long long)corner, n_points);
            r->corners[r->n_corners++] = (uint32_t)(r->first_point + corner);
        }
    }
    return CT_OK;
}

static ct_status add_primitive(reader *r, const json_t *primitive, uint64_t mesh, const transform *place) {
    uint64_t mode, position, corners;
    ct_gltf_rows rows;
    if (!json_is_object(primitive)) return fail_at(r, "meshes", mesh, "has a primitive that is no object");
    ct_status status = ct_gltf_read_count(primitive, "meshes", mesh, "mode", TRIANGLES, &mode, r->error);
    if (status != CT_OK) return status;
    if (mode > FAN) return fail_at(r, "meshes", mesh, "has a primitive of an unknown mode");
    if (mode < TRIANGLES) return CT_OK; /* points and lines */
    if (!ct_gltf_is_count(json_object_get(json_object_get(primitive, "attributes"), "POSITION"), &position))
        return fail_at(r, "meshes", mesh, "has a primitive without attributes.POSITION");
    const bool has_indices = json_object_get(primitive, "indices") != NULL;
    if (has_indices) {
        status = ct_gltf_read_count(primitive, "meshes", mesh, "indices", CT_GLTF_REQUIRED, &corners, r->error);
        if (status == CT_OK) status = ct_gltf_find_rows(&r->gltf, corners, "SCALAR", &rows, r->error);
        if (status == CT_OK && !ct_gltf_is_unsigned(&rows))
            return fail_at(r, "accessors", corners, "has indices that are no unsigned integers");
    }
    if (status == CT_OK) status = add_points(r, position, place);
    if (status != CT_OK) return status;
    return add_triangles(r, mesh, mode, has_indices ? &rows : NULL, turns_inside_out(place));
}

/* Whether an array of weights of morph targets has one that is not 0. */
static bool is_morphed(const json_t *weights) {
    for (size_t i = 0; i < json_array_size(weights); i++)
        if (json_number_value(json_array_get(weights, i)) != 0) return true;
    return false;
}

static ct_status add_mesh(reader *r, uint64_t i, const transform *place) {
    const json_t *mesh;
    ct_status status = ct_gltf_find(&r->gltf, "meshes", i, &mesh, r->error);
    if (status != CT_OK) return status;
    if (is_morphed(json_object_get(mesh, "weights")))
        return fail_at(r, "meshes", i, "is morphed (weights), which is not read: save it with the shape applied");
    const json_t *primitives = json_object_get(mesh, "primitives");
    r->accessor = NONE;
    for (size_t k = 0; k < json_array_size(primitives) && status == CT_OK; k++) {
        if (CT_POLL_EVERY(k, 256) && ct_is_cancelled()) return ct_fail_cancelled(r->error);
        status = add_primitive(r, json_array_get(primitives, k), i, place);
    }
    return status;
}

/* ---- nodes ---- */

static ct_status push(reader *r, uint64_t node, const transform *parent) {
    const size_t n_nodes = json_array_size(json_object_get(r->gltf.root, "nodes"));
    if (node >= n_nodes)
        return ct_fail(r->error, CT_PARSE_ERROR, "bytes", "the glTF file names nodes[%llu], but it has %zu of them",
                       (unsigned long long)node, n_nodes);
    if (r->is_seen[node]) return fail_at(r, "nodes", node, "is in the scene twice, or a child of itself");
    r->is_seen[node] = true;
    if (!ct_array_grow(&r->stack, &r->stack_capacity, r->n_stack + 1)) return no_memory(r);
    r->stack[r->n_stack++] = (pending){node, *parent};
    return CT_OK;
}

static ct_status push_all(reader *r, const json_t *nodes, const transform *parent) {
    ct_status status = CT_OK;
    for (size_t i = json_array_size(nodes); i > 0 && status == CT_OK; i--) { /* the first comes out first */
        uint64_t node;
        if (!ct_gltf_is_count(json_array_get(nodes, i - 1), &node))
            return ct_fail(r->error, CT_PARSE_ERROR, "bytes", "a list of nodes of the glTF file has no numbers");
        status = push(r, node, parent);
    }
    return status;
}

static ct_status read_node(reader *r, const pending *from) {
    const json_t *node;
    transform own;
    ct_status status = ct_gltf_find(&r->gltf, "nodes", from->node, &node, r->error);
    if (status == CT_OK) status = read_transform(r, node, from->node, &own);
    if (status != CT_OK) return status;
    const transform place = compose(&from->parent, &own);
    status = push_all(r, json_object_get(node, "children"), &place);
    uint64_t mesh;
    const json_t *named = json_object_get(node, "mesh");
    if (status != CT_OK || !named) return status;
    if (!ct_gltf_is_count(named, &mesh)) return fail_at(r, "nodes", from->node, "has a mesh that is no whole number");
    if (json_object_get(node, "skin"))
        return fail_at(r, "nodes", from->node, "has a skin, which is not read: save it with the pose applied");
    if (json_object_get(json_object_get(node, "extensions"), "EXT_mesh_gpu_instancing"))
        return fail_at(r, "nodes", from->node,
                       "has EXT_mesh_gpu_instancing, which is not read: save the copies as "
                       "nodes");
    if (is_morphed(json_object_get(node, "weights")))
        return fail_at(r, "nodes", from->node,
                       "is morphed (weights), which is not read: save it with the shape "
                       "applied");
    return add_mesh(r, mesh, &place);
}

/* Of a file without scenes: all nodes that are no child. */
static ct_status push_roots(reader *r, const json_t *nodes, const transform *identity) {
    const size_t n = json_array_size(nodes);
    bool *is_child = calloc(n + 1, sizeof *is_child);
    if (!is_child) return no_memory(r);
    for (size_t i = 0; i < n; i++) {
        const json_t *children = json_object_get(json_array_get(nodes, i), "children");
        for (size_t k = 0; k < json_array_size(children); k++) {
            uint64_t child;
            if (ct_gltf_is_count(json_array_get(children, k), &child) && child < n) is_child[child] = true;
        }
    }
    ct_status status = CT_OK;
    for (size_t i = n; i > 0 && status == CT_OK; i--)
        if (!is_child[i - 1]) status = push(r, i - 1, identity);
    free(is_child);
    return status;
}

static ct_status read_scene(reader *r) {
    static const transform identity = {{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};
    const json_t *root = r->gltf.root, *nodes = json_object_get(root, "nodes"), *scene;
    uint64_t number;
    ct_status status = CT_OK;
    r->is_seen = calloc(json_array_size(nodes) + 1, sizeof *r->is_seen);
    if (!r->is_seen) return no_memory(r);
    if (!json_array_size(nodes)) {
        const size_t n = json_array_size(json_object_get(root, "meshes"));
        for (size_t i = 0; i < n && status == CT_OK; i++) status = add_mesh(r, i, &identity);
        return status;
    }
    if (json_array_size(json_object_get(root, "scenes"))) {
        status = ct_gltf_read_count(root, "scenes", 0, "scene", 0, &number, r->error);
        if (status == CT_OK) status = ct_gltf_find(&r->gltf, "scenes", number, &scene, r->error);
        if (status == CT_OK) status = push_all(r, json_object_get(scene, "nodes"), &identity);
    } else {
        status = push_roots(r, nodes, &identity);
    }
    for (size_t i = 0; r->n_stack && status == CT_OK; i++) {
        const pending next = r->stack[--r->n_stack];
        if (CT_POLL_EVERY(i, 256) && ct_is_cancelled()) return ct_fail_cancelled(r->error);
        status = read_node(r, &next);
    }
    return status;
}

/* ---- the whole ---- */

static void read_rounded(const void *from, size_t i, void *position) {
    const reader *r = from;
    const double *point = r->points[r->corners[i]];
    float *to = position;
    for (int k = 0; k < 3; k++) to[k] = (float)point[k];
}

static void read_wide(const void *from, size_t i, void *position) {
    const reader *r = from;
    memcpy(position, r->points[r->corners[i]], sizeof *r->points);
}

ct_status ct_read_gltf(const char *bytes, size_t size, ct_soup *soup, ct_error *error) {
    reader r = {.soup = soup, .error = error, .most = size > FREE_ELEMENTS ? size : FREE_ELEMENTS};
    ct_status status = ct_gltf_open(bytes, size, &r.gltf, error);
    if (status == CT_OK) status = read_scene(&r);
    if (status == CT_OK && !r.n_corners)
        status = ct_fail(error, CT_INVALID_MESH, "bytes",
                         "the mesh is empty: the scene of this glTF file has %zu vertices and no triangle", r.n_points);
    ct_gltf_close(&r.gltf);
    if (status == CT_OK)
        status = ct_weld_points(&r, r.n_corners, soup->digits.is_wide ? read_wide : read_rounded, r.corners, r.n_points,
                                soup, error);
    free(r.points);
    free(r.corners);
    free(r.is_seen);
    free(r.stack);
    return status;
}
