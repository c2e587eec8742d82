/* mesh.c - makes meshes from arrays, counts their references, keeps their slots. */
#include "gpu/mesh/mesh.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/close.h"
#include "gpu/mesh/clusters.h"
#include "gpu/mesh/order.h"
#include "gpu/mesh/repair.h"
#include "gpu/mesh/sha256.h"
#include "gpu/mesh/soup.h"
#include "gpu/mesh/validate.h"

struct ct_mesh_slot {
    const ct_mesh_slot_kind *kind;
    _Atomic(void *) content; /* NULL: not made, or freed again */
    uint64_t bytes;
    uint32_t holders; /* guarded by the mesh's `holding` */
    ct_mesh_slot *next;
};

/* ---- making ---- */

/* An open surface that was closed is not the mesh that a closed upload of the same triangles is. */
static void hash_content(const ct_soup *soup, uint64_t n_closing, uint8_t hash[16]) {
    const uint64_t counts[2] = {soup->n_vertices, soup->n_triangles};
    uint8_t digest[32];
    ct_sha256 sha;
    ct_sha256_init(&sha);
    ct_sha256_update(&sha, counts, sizeof counts);
    ct_sha256_update(&sha, soup->positions, 12 * soup->n_vertices);
    ct_sha256_update(&sha, soup->triangles, 12 * soup->n_triangles);
    if (n_closing) ct_sha256_update(&sha, &n_closing, sizeof n_closing);
    ct_sha256_final(&sha, digest);
    memcpy(hash, digest, 16);
}

static int compare_positions(const float *p, const float *q) {
    for (int k = 0; k < 3; k++)
        if (p[k] != q[k]) return p[k] < q[k] ? -1 : 1;
    return 0;
}

/* Chooses the rotation whose sequence of corner positions is lexicographically smallest. Rotations tie only where
 * corners coincide, and then either gives the same triangle. */
static void rotate_corners(const float *positions, uint32_t *corner) {
    const float *p[3] = {positions + 3 * (size_t)corner[0], positions + 3 * (size_t)corner[1],
                         positions + 3 * (size_t)corner[2]};
    int best = 0;
    for (int start = 1; start < 3; start++) {
        int order = 0;
        for (int c = 0; c < 3 && !order; c++) order = compare_positions(p[(start + c) % 3], p[(best + c) % 3]);
        if (order < 0) best = start;
    }
    if (!best) return;
    const uint32_t old[3] = {corner[0], corner[1], corner[2]};
    for (int c = 0; c < 3; c++) corner[c] = old[(best + c) % 3];
}

/* Gives back what a growing array of 12-byte rows has reserved beyond n rows. */
static void shrink_rows(void **rows, size_t n, size_t *capacity) {
    if (!n || n == *capacity) return;
    void *exact = realloc(*rows, 12 * n);
    if (exact) *rows = exact;
    *capacity = n;
}

/* The open direction, of length 1. False: there is none. */
static bool find_direction(const ct_mesh_options *options, double direction[3]) {
    const double *d = options->open_direction;
    const double largest = fmax(fabs(d[0]), fmax(fabs(d[1]), fabs(d[2])));
    if (!(largest > 0)) return false;
    for (int k = 0; k < 3; k++) direction[k] = d[k] / largest; /* so that no square overflows */
    const double size = sqrt(direction[0] * direction[0] + direction[1] * direction[1] + direction[2] * direction[2]);
    for (int k = 0; k < 3; k++) direction[k] /= size;
    return true;
}

/* An error of a repaired mesh says so. */
static ct_status fail_repaired(ct_status status, const ct_error *cause, ct_error *error) {
    if (status == CT_INVALID_MESH)
        return ct_fail(error, status, cause->field, "what the repair leaves is refused: %s", cause->message);
    return ct_fail(error, status, cause->field, "%s", cause->message);
}

ct_status ct_soup_finish(ct_soup *soup, const ct_mesh_options *options, ct_mesh **out, ct_mesh_changes *changes,
                         ct_error *error) {
    ct_surface_facts facts;
    ct_mesh_changes ignored;
    ct_error cause = {0};
    if (!changes) changes = &ignored;
    memset(changes, 0, sizeof *changes);
    ct_status status = options->repair ? ct_repair(soup, options->max_hole, changes, error) : CT_OK;
    uint32_t *rim = NULL, n_rim = 0;
    double direction[3];
    if (find_direction(options, direction)) status = ct_close_along(soup, direction, &rim, &n_rim, error);
    if (status == CT_OK) {
        status = ct_validate(soup->positions, soup->n_vertices, soup->triangles, soup->n_triangles, &facts,
                             options->repair ? &cause : error);
        if (status != CT_OK && options->repair) fail_repaired(status, &cause, error);
    }
    ct_mesh *mesh = status == CT_OK ? calloc(1, sizeof *mesh) : NULL;
    if (!mesh) {
        ct_soup_free(soup);
        free(rim);
        return status != CT_OK ? status : ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory for a mesh");
    }
    void *positions = soup->positions, *triangles = soup->triangles;
    shrink_rows(&positions, soup->n_vertices, &soup->vertex_capacity);
    shrink_rows(&triangles, soup->n_triangles, &soup->triangle_capacity);
    soup->positions = positions;
    soup->triangles = triangles;
    atomic_init(&mesh->references, 1);
    mesh->n_vertices = (uint32_t)soup->n_vertices;
    mesh->n_triangles = (uint32_t)soup->n_triangles;
    mesh->components = facts.components;
    mesh->n_closing = n_rim;
    mesh->rim = rim;
    mesh->volume = facts.volume;
    mesh->area = facts.area;
    memcpy(mesh->lo, facts.lo, sizeof mesh->lo);
    memcpy(mesh->hi, facts.hi, sizeof mesh->hi);
    if (!changes->is_changed) hash_content(soup, n_rim, mesh->hash);
    mesh->positions = positions;
    mesh->triangles = triangles;
    /* First, so that sums over corners, and with them the order of triangles, do not depend on the rotations given. */
    for (size_t t = 0; t < soup->n_triangles; t++) rotate_corners(mesh->positions, mesh->triangles + 3 * t);
    if (!ct_order_triangles(positions, mesh->lo, mesh->hi, triangles, soup->n_triangles)) {
        ct_soup_free(soup);
        free(rim);
        free(mesh);
        return ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory to order %zu triangles", soup->n_triangles);
    }
    if (changes->is_changed) hash_content(soup, 0, mesh->hash);
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mesh->making, &recursive);
    pthread_mutexattr_destroy(&recursive);
    pthread_mutex_init(&mesh->holding, NULL);
    memset(soup, 0, sizeof *soup);
    if (mesh->n_triangles >= CT_CLUSTERED_TRIANGLES && !ct_mesh_clusters(mesh, error)) {
        ct_mesh_release(&mesh);
        return CT_OUT_OF_MEMORY;
    }
    *out = mesh;
    return CT_OK;
}

/* ---- options ---- */

#define OPTIONS_COOKIE 0x43744d31u /* "CtM1" */

void ct_mesh_options_init(ct_mesh_options *options) {
    memset(options, 0, sizeof *options);
    options->cookie = OPTIONS_COOKIE;
    ct_mesh_limits_init(&options->limits);
}

ct_mesh_options ct_mesh_options_of(const ct_mesh_limits *limits) {
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    if (limits) options.limits = *limits;
    return options;
}

ct_status ct_mesh_options_check(const ct_mesh_options *options, ct_error *error) {
    if (options->cookie != OPTIONS_COOKIE)
        return ct_fail(error, CT_INVALID_ARGUMENT, "options", "the options were not set by ct_mesh_options_init");
    if (!isfinite(options->max_hole))
        return ct_fail(error, CT_NON_FINITE, "max_hole", "max_hole is %g, expected a finite number of m",
                       options->max_hole);
    if (options->max_hole < 0)
        return ct_fail(error, CT_OUT_OF_RANGE, "max_hole", "max_hole is %g m, expected 0 or more", options->max_hole);
    if (options->max_hole > 0 && !options->repair)
        return ct_fail(error, CT_INVALID_ARGUMENT, "max_hole", "max_hole is given, but no repair is asked for");
    for (int k = 0; k < 3; k++)
        if (!isfinite(options->open_direction[k]))
            return ct_fail(error, CT_NON_FINITE, "open_direction", "open_direction[%d] is %g, expected a finite number",
                           k, options->open_direction[k]);
    double direction[3];
    if (options->repair && find_direction(options, direction))
        return ct_fail(error, CT_INVALID_ARGUMENT, "open_direction",
                       "a repair would fill the rim of an open surface: repair it first, or leave out one of both");
    return CT_OK;
}

/* ---- from arrays ---- */

ct_status ct_mesh_create(const void *positions, ct_dtype dtype, size_t n_vertices, const void *triangles_u32,
                         size_t n_triangles, const ct_mesh_limits *limits, ct_mesh **out, ct_error *error) {
    const ct_mesh_options options = ct_mesh_options_of(limits);
    return ct_mesh_create_with(positions, dtype, n_vertices, triangles_u32, n_triangles, &options, out, NULL, error);
}

ct_status ct_mesh_create_with(const void *positions, ct_dtype dtype, size_t n_vertices, const void *triangles_u32,
                              size_t n_triangles, const ct_mesh_options *options, ct_mesh **out,
                              ct_mesh_changes *changes, ct_error *error) {
    *out = NULL;
    ct_status status = ct_mesh_options_check(options, error);
    if (status != CT_OK) return status;
    if (dtype != CT_F32 && dtype != CT_F64)
        return ct_fail(error, CT_INVALID_ARGUMENT, "dtype",
                       "positions have dtype %d, expected %d (float32) or %d (float64)", (int)dtype, CT_F32, CT_F64);
    if ((n_vertices && !positions) || (n_triangles && !triangles_u32))
        return ct_fail(error, CT_INVALID_ARGUMENT, positions ? "triangles" : "positions", "the array is missing");
    ct_soup soup;
    ct_soup_init(&soup, &options->limits);
    status = ct_soup_reserve_vertices(&soup, n_vertices, error);
    if (status == CT_OK) status = ct_soup_reserve_triangles(&soup, n_triangles, error);
    if (status != CT_OK) {
        ct_soup_free(&soup);
        return status;
    }
    if (dtype == CT_F32 && n_vertices) memcpy(soup.positions, positions, 12 * n_vertices);
    if (dtype == CT_F64)
        for (size_t i = 0; i < 3 * n_vertices; i++) {
            double x;
            memcpy(&x, (const char *)positions + 8 * i, 8);
            soup.positions[i] = (float)x;
        }
    if (n_triangles) memcpy(soup.triangles, triangles_u32, 12 * n_triangles);
    soup.n_vertices = n_vertices;
    soup.n_triangles = n_triangles;
    return ct_soup_finish(&soup, options, out, changes, error);
}

/* ---- slots ---- */

static ct_mesh_slot *find_slot(ct_mesh *mesh, const ct_mesh_slot_kind *kind) {
    ct_mesh_slot *slot = atomic_load_explicit(&mesh->slots, memory_order_acquire);
    while (slot && slot->kind != kind) slot = slot->next;
    return slot;
}

static const void *find_content(ct_mesh *mesh, const ct_mesh_slot_kind *kind) {
    ct_mesh_slot *slot = find_slot(mesh, kind);
    return slot ? atomic_load_explicit(&slot->content, memory_order_acquire) : NULL;
}

/* With `making` held. */
static void publish(ct_mesh *mesh, ct_mesh_slot *slot, void *content, uint64_t bytes) {
    slot->bytes = bytes;
    atomic_fetch_add_explicit(&mesh->slot_bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&slot->content, content, memory_order_release);
}

static void add_slot(ct_mesh *mesh, ct_mesh_slot *slot) {
    /* Read after `make`, which may have added slots of its own. */
    slot->next = atomic_load_explicit(&mesh->slots, memory_order_relaxed);
    atomic_fetch_add_explicit(&mesh->slot_bytes, sizeof *slot, memory_order_relaxed);
    atomic_store_explicit(&mesh->slots, slot, memory_order_release);
}

/* With `making` held. A slot whose content was freed is used again. */
static const void *make_content(ct_mesh *mesh, const ct_mesh_slot_kind *kind, ct_error *error) {
    ct_mesh_slot *slot = find_slot(mesh, kind);
    const bool is_new = !slot;
    if (is_new) slot = calloc(1, sizeof *slot);
    if (!slot) {
        ct_fail(error, CT_OUT_OF_MEMORY, "mesh", "no memory for the mesh's %s", kind->name);
        return NULL;
    }
    if (is_new) slot->kind = kind; /* others may be reading one that is there */
    uint64_t bytes = 0;
    void *content = kind->make(mesh, &bytes, error);
    if (content) publish(mesh, slot, content, bytes);
    if (content && is_new) add_slot(mesh, slot);
    if (!content && is_new) free(slot);
    if (mesh->has_asked) mesh->room.settle(mesh->room.context, mesh);
    mesh->has_asked = false;
    return content;
}

const void *ct_mesh_slot_get(ct_mesh *mesh, const ct_mesh_slot_kind *kind, ct_error *error) {
    const void *content = find_content(mesh, kind);
    if (content) return content;
    pthread_mutex_lock(&mesh->making);
    content = find_content(mesh, kind); /* another thread may have made it meanwhile */
    if (!content) content = make_content(mesh, kind, error);
    pthread_mutex_unlock(&mesh->making);
    return content;
}

const void *ct_mesh_slot_hold(ct_mesh *mesh, const ct_mesh_slot_kind *kind, ct_error *error) {
    while (ct_mesh_slot_get(mesh, kind, error)) {
        ct_mesh_slot *slot = find_slot(mesh, kind);
        pthread_mutex_lock(&mesh->holding);
        const void *content = atomic_load_explicit(&slot->content, memory_order_acquire);
        if (content) slot->holders++;
        pthread_mutex_unlock(&mesh->holding);
        if (content) return content; /* else another thread dropped it in between */
    }
    return NULL;
}

void ct_mesh_slot_drop(ct_mesh *mesh, const ct_mesh_slot_kind *kind) {
    ct_mesh_slot *slot = find_slot(mesh, kind);
    void *content = NULL;
    pthread_mutex_lock(&mesh->holding);
    if (--slot->holders == 0) {
        content = atomic_exchange_explicit(&slot->content, NULL, memory_order_acq_rel);
        atomic_fetch_sub_explicit(&mesh->slot_bytes, slot->bytes, memory_order_relaxed);
    }
    pthread_mutex_unlock(&mesh->holding);
    if (content) kind->destroy(content);
}

void ct_mesh_set_room(ct_mesh *mesh, const ct_mesh_room *room) {
    mesh->room = *room;
}

bool ct_mesh_ask_room(ct_mesh *mesh, uint64_t bytes, ct_error *error) {
    if (!mesh->room.ask) return true;
    mesh->has_asked = mesh->room.ask(mesh->room.context, mesh, bytes, error);
    return mesh->has_asked;
}

static void free_slots(ct_mesh *mesh) {
    ct_mesh_slot *slot = atomic_load_explicit(&mesh->slots, memory_order_relaxed);
    while (slot) {
        ct_mesh_slot *next = slot->next;
        void *content = atomic_load_explicit(&slot->content, memory_order_relaxed);
        if (content) slot->kind->destroy(content);
        free(slot);
        slot = next;
    }
}

/* ---- life and facts ---- */

ct_mesh *ct_mesh_retain(ct_mesh *mesh) {
    atomic_fetch_add_explicit(&mesh->references, 1, memory_order_relaxed);
    return mesh;
}

void ct_mesh_release(ct_mesh **mesh) {
    ct_mesh *released = *mesh;
    *mesh = NULL;
    if (!released || atomic_fetch_sub_explicit(&released->references, 1, memory_order_acq_rel) != 1) return;
    free_slots(released);
    pthread_mutex_destroy(&released->making);
    pthread_mutex_destroy(&released->holding);
    free(released->positions);
    free(released->triangles);
    free(released->rim);
    free(released);
}

void ct_mesh_get_info(const ct_mesh *mesh, ct_mesh_info *info) {
    static const char digits[] = "0123456789abcdef";
    info->vertices = mesh->n_vertices;
    info->triangles = mesh->n_triangles;
    info->closing_vertices = mesh->n_closing;
    info->bytes = sizeof *mesh + 12 * ((uint64_t)mesh->n_vertices + mesh->n_triangles) + 4 * (uint64_t)mesh->n_closing +
                  atomic_load_explicit(&mesh->slot_bytes, memory_order_relaxed);
    info->components = mesh->components;
    info->volume = mesh->volume;
    info->area = mesh->area;
    memcpy(info->lo, mesh->lo, sizeof info->lo);
    memcpy(info->hi, mesh->hi, sizeof info->hi);
    for (int i = 0; i < 16; i++) {
        info->hash[2 * i] = digits[mesh->hash[i] >> 4];
        info->hash[2 * i + 1] = digits[mesh->hash[i] & 15];
    }
    info->hash[32] = 0;
}

const float *ct_mesh_positions(const ct_mesh *mesh) {
    return mesh->positions;
}

const uint32_t *ct_mesh_rim(const ct_mesh *mesh) {
    return mesh->rim;
}

const uint32_t *ct_mesh_triangles(const ct_mesh *mesh) {
    return mesh->triangles;
}
