/* face_records.h - the faces over a tile, copied together, so that the tile and the parts that it is cut into find them
 * in a core's cache: a mesh has a face's corners in four places. For tile_cpu.simd.c. */
#ifndef CT_EBPI_FACE_RECORDS_H
#define CT_EBPI_FACE_RECORDS_H

#include "gpu/methods/ebpi/face_lanes.h"
#include "gpu/methods/ebpi/tile_cpu.h"

/* Of each corner: its lattice coordinates, then the tag of the face on the other side of the edge that begins there. */
typedef int32_t face_record[3][4];

/* Some of the faces that were copied. */
struct face_part {
    const face_record *record;
    const uint32_t *tag;   /* of each record: body << 31 | triangle */
    const uint32_t *index; /* NULL: all, in their order */
};

static inline uint32_t index_in(const struct face_part *part, uint32_t i) {
    return part->index ? part->index[i] : i;
}

/* Corners are asked for this many faces ahead, and where to find them twice as many: both come from main memory where
 * meshes are large. */
enum { RECORDS_AHEAD = 12 };

/* Copies n faces of one body. */
static void copy_body(const ct_ebpi_body *body, const uint32_t *faces, uint32_t n, face_record *to) {
    const uint32_t *triangles = body->triangles, (*opposite)[3] = body->adjacency->opposite;
    const ct_coords *coords = body->coords;
    for (uint32_t i = 0; i < n; i++) {
        if (i + 2 * RECORDS_AHEAD < n) {
            const size_t ahead = faces[i + 2 * RECORDS_AHEAD] & 0x7fffffff;
            __builtin_prefetch(triangles + 3 * ahead);
            __builtin_prefetch(opposite + ahead);
        }
        if (i + RECORDS_AHEAD < n) {
            const uint32_t *ahead = triangles + 3 * (size_t)(faces[i + RECORDS_AHEAD] & 0x7fffffff);
            for (int k = 0; k < 3; k++) __builtin_prefetch(coords[ahead[k]]);
        }
        const size_t triangle = faces[i] & 0x7fffffff;
        for (size_t k = 0; k < 3; k++) {
            ct_v4i corner = load_v4i(coords[triangles[3 * triangle + k]]);
            corner[3] = (int32_t)((faces[i] & 0x80000000u) | ct_half_edge_triangle(opposite[triangle][k]));
            store_v4i(to[i][k], corner);
        }
    }
}

/* Copies a tile's faces. False: out of memory. */
static bool copy_faces(const ct_ebpi_view *view, const ct_ebpi_tile *tile, ct_ebpi_scratch *scratch, ct_budget *budget,
                       struct face_part *part) {
    const uint32_t n = tile->n_faces, n_first = ct_ebpi_count_first(tile);
    if (!ct_buffer_reserve(&scratch->records, budget, n * sizeof(face_record), 0, false) ||
        !ct_buffer_reserve(&scratch->tags, budget, n * sizeof(uint32_t), 0, false))
        return false;
    face_record *record = scratch->records.data;
    if (n_first) copy_body(&view->body[0], tile->faces, n_first, record);
    if (n > n_first) copy_body(&view->body[1], tile->faces + n_first, n - n_first, record + n_first);
    if (n) memcpy(scratch->tags.data, tile->faces, n * sizeof *tile->faces);
    *part = (struct face_part){record, scratch->tags.data, NULL};
    return true;
}

/* at: corner; axis, and the tag of the face on the other side. */
static inline __attribute__((always_inline)) void transpose_faces(const face_record *const face[4], ct_v4i at[3][4]) {
    for (int k = 0; k < 3; k++) {
        const int32_t *const p[4] = {(*face[0])[k], (*face[1])[k], (*face[2])[k], (*face[3])[k]};
        transpose(p, at[k]);
    }
}

#endif
