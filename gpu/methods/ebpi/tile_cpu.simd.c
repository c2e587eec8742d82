/* tile_cpu.simd.c - bounds the error of one tile's volume, and shares a tile's faces among its parts. */
#include "gpu/methods/ebpi/tile_cpu.h"

#include "gpu/methods/ebpi/tile_depths.h"
#include "gpu/methods/ebpi/tile_faces.h"
#include "gpu/methods/ebpi/tile_kept.h"
#include "gpu/methods/ebpi/tile_kinks.h"

/* ---- a tile's bound ---- */

/* Both ends of a span are rounded to a unit, after some rounding in double. */
static const int64_t SPAN_ROUNDING = ((int64_t)1 << CT_EBPI_DEPTH_BITS) + 64;

static bool reserve(struct tile_faces *t, ct_ebpi_scratch *scratch, ct_budget *budget, size_t n) {
    t->slot_mask = 7;
    while (t->slot_mask < 4 * n) t->slot_mask = 2 * t->slot_mask + 1;
    if (!ct_buffer_reserve(&scratch->faces, budget, lay_out(t, NULL, n), 0, false) ||
        !ct_buffer_reserve(&scratch->intervals, budget, joint_size(n), 0, false) ||
        !ct_buffer_reserve(&scratch->slots, budget, ((size_t)t->slot_mask + 1) * sizeof *t->slots, 0, false))
        return false;
    lay_out(t, scratch->faces.data, n);
    t->slots = scratch->slots.data;
    return true;
}

/* The body is nowhere over the tile. */
static bool is_absent(const ct_ebpi_tile *tile, int b) {
    const bool has_faces = tile->n_faces && tile->faces[b ? tile->n_faces - 1 : 0] >> 31 == (unsigned)b;
    return !has_faces && tile->start[b] <= 0;
}

/* Of fewer faces it does not pay to drop some. */
enum { FEW_FACES = 16 };

/* from: the tile's faces. */
static bool measure_part(const ct_ebpi_view *view, ct_ebpi_bound bound, const struct face_part *from,
                         ct_ebpi_tile *tile, ct_ebpi_polynomial *polynomial, ct_ebpi_scratch *scratch,
                         ct_budget *budget) {
    struct tile_faces t = {
        .view = view, .bound = bound, .polynomial = polynomial, .winding = {tile->start[0], tile->start[1]}};
    tile->length = 0;
    tile->bound = 0;
    tile->n_crossed[0] = tile->n_crossed[1] = tile->begin[0] = tile->begin[1] = 0;
    if (polynomial) memset(polynomial, 0, sizeof *polynomial);
    if (is_absent(tile, 0) || is_absent(tile, 1)) return true;
    const int32_t w = 1 << tile->shift_u, h = 1 << tile->shift_v;
    t.rect = rect_of(tile);
    t.center[0] = tile->u + w / 2;
    t.center[1] = tile->v + h / 2;
    t.width = w;
    t.height = h;
    t.reach = 0.5 * sqrt(t.width * t.width + t.height * t.height);
    if (!reserve(&t, scratch, budget, tile->n_faces)) return false;
    list_faces(&t, tile, from);
    const int64_t most = find_joint(&t, scratch->intervals.data);
    if (!t.joint.n) return true;
    int64_t n_spans, sum = most << CT_EBPI_DEPTH_BITS;
    tile->length = measure_ray(&t, &n_spans);
    if (most > 0 && add_kinks(&t) && t.kinks < sum) sum = t.kinks;
    tile->bound = sum + n_spans * SPAN_ROUNDING;
    if (polynomial) add_lanes(&t);
    if (tile->bound > 0 && t.all >= FEW_FACES) drop_faces(&t, tile);
    return true;
}

static bool measure(const ct_ebpi_view *view, ct_ebpi_bound bound, ct_ebpi_tile *tile, ct_ebpi_polynomial *polynomial,
                    ct_ebpi_scratch *scratch, ct_budget *budget) {
    struct face_part all;
    return copy_faces(view, tile, scratch, budget, &all) &&
           measure_part(view, bound, &all, tile, polynomial, scratch, budget);
}

/* ---- parts of a tile ---- */

/* The parts that a tile is cut into, and what is found of the tile's faces in each. */
struct parts {
    const ct_ebpi_view *view;
    const ct_ebpi_tile *tiles;
    ct_ebpi_rect first; /* tiles[0] */
    int columns, rows;
    uint32_t *face[CT_EBPI_PARTS_AT_ONCE]; /* of each part */
    uint32_t n[CT_EBPI_PARTS_AT_ONCE];
};

/* The columns, or rows, that four faces' extents meet, of n from `from`, of 2^shift units each: lanes[k] is those of
 * number k. */
static inline __attribute__((always_inline)) void find_lanes(ct_v4i lo, ct_v4i hi, int32_t from, int shift, int n,
                                                             unsigned lanes[4]) {
    const ct_v4i first = (lo - from - 1) >> shift, last = (hi - from) >> shift;
    for (int k = 0; k < n; k++) lanes[k] = sign_bits_v4i((first <= k) & (last >= k));
}

/* Of face l, seen edge-on, which has no inside: each part is tested. */
static __attribute__((noinline)) void share_edge_on(const struct parts *parts, const face_record *face, unsigned l,
                                                    unsigned met[CT_EBPI_PARTS_AT_ONCE]) {
    const int32_t *const corner[3] = {(*face)[0], (*face)[1], (*face)[2]};
    for (int k = 0; k < parts->columns * parts->rows; k++) {
        const ct_ebpi_rect rect = rect_of(&parts->tiles[k]);
        if (!(met[k] >> l & 1) || ct_ebpi_face_meets(parts->view, corner, &rect)) continue;
        met[k] &= ~(1u << l);
    }
}

/* The numbers of the lanes in a lane set, in rising order; what follows them is undefined. */
static inline ct_v4i in_order(unsigned lanes) {
    static const int32_t numbers[16][4] = {{0}, {0},    {1},    {0, 1},    {2},    {0, 2},    {1, 2},    {0, 1, 2},
                                           {3}, {0, 3}, {1, 3}, {0, 1, 3}, {2, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}};
    return load_v4i(numbers[lanes]);
}

/* The parts that faces i to i + 3 are over: of those that their extents meet, the ones where the furthest corner
 * inwards of each of a face's edges is inside, as ct_ebpi_face_meets has it for a face that is not seen edge-on. */
static inline __attribute__((always_inline)) void share_four(struct parts *parts, const struct face_part *faces,
                                                             uint32_t i, uint32_t n) {
    const int axis_u = parts->view->u, axis_v = parts->view->v;
    const int shift_u = parts->tiles->shift_u, shift_v = parts->tiles->shift_v;
    const face_record *face[4];
    ct_v4i at[3][4], low[2], high[2];
    for (uint32_t l = 0; l < 4; l++) face[l] = &faces->record[i + l < n ? i + l : n - 1];
    transpose_faces(face, at);
    const int axis[2] = {axis_u, axis_v};
    for (int k = 0; k < 2; k++) {
        low[k] = min_v4i(min_v4i(at[0][axis[k]], at[1][axis[k]]), at[2][axis[k]]);
        high[k] = max_v4i(max_v4i(at[0][axis[k]], at[1][axis[k]]), at[2][axis[k]]);
    }
    unsigned in_column[4], in_row[4], met[CT_EBPI_PARTS_AT_ONCE], several = 0, once = 0;
    find_lanes(low[0], high[0], parts->first.u0, shift_u, parts->columns, in_column);
    find_lanes(low[1], high[1], parts->first.v0, shift_v, parts->rows, in_row);
    const unsigned present = n - i >= 4 ? 15 : (1u << (n - i)) - 1;
    for (int row = 0; row < parts->rows; row++)
        for (int column = 0; column < parts->columns; column++) {
            const unsigned lanes = in_column[column] & in_row[row] & present;
            met[row * parts->columns + column] = lanes;
            several |= once & lanes;
            once |= lanes;
        }
    if (several) {
        ct_v4i du[3], dv[3];
        for (int k = 0; k < 3; k++) {
            du[k] = at[(k + 1) % 3][axis_u] - at[k][axis_u];
            dv[k] = at[(k + 1) % 3][axis_v] - at[k][axis_v];
        }
        const ct_v4l area = product(wide(du[0]), wide(dv[1])) - product(wide(du[1]), wide(dv[0]));
        const ct_v4i turn = ct_v4i_of_v4l(area < 0);
        ct_v4l in_first[3], per_column[3], per_row[3]; /* of each edge: how far inwards; 0: on the edge */
        for (int k = 0; k < 3; k++) {
            const ct_v4i tu = (du[k] ^ turn) - turn, tv = (dv[k] ^ turn) - turn;
            const ct_v4i at_u = ((tv < 0) & parts->first.u1) | (~(tv < 0) & parts->first.u0);
            const ct_v4i at_v = ((tu > 0) & parts->first.v1) | (~(tu > 0) & parts->first.v0);
            in_first[k] = product(wide(tu), wide(at_v - at[k][axis_v])) - product(wide(tv), wide(at_u - at[k][axis_u]));
            per_column[k] = -wide(tv) << shift_u;
            per_row[k] = wide(tu) << shift_v;
        }
        const unsigned edge_on = sign_bits(area == 0);
        for (int row = 0; row < parts->rows; row++) {
            ct_v4l in[3] = {in_first[0], in_first[1], in_first[2]};
            for (int column = 0; column < parts->columns; column++) {
                met[row * parts->columns + column] &= ~sign_bits(in[0] | in[1] | in[2]) | edge_on;
                for (int k = 0; k < 3; k++) in[k] += per_column[k];
            }
            for (int k = 0; k < 3; k++) in_first[k] += per_row[k];
        }
        for (unsigned left = several & edge_on; left; left &= left - 1) {
            const unsigned l = (unsigned)__builtin_ctz(left);
            share_edge_on(parts, face[l], l, met);
        }
    }
    for (int k = 0; k < parts->columns * parts->rows; k++) {
        store_v4i((int32_t *)parts->face[k] + parts->n[k], (int32_t)i + in_order(met[k]));
        parts->n[k] += count_lanes(met[k]);
    }
}

static bool share(const ct_ebpi_view *view, ct_ebpi_bound bound, ct_ebpi_tile *tiles, int cut_u, int cut_v,
                  ct_ebpi_polynomial *polynomials, ct_ebpi_scratch *scratch, ct_arena *arena, ct_budget *budget) {
    const uint32_t n_faces = tiles->n_faces;
    const int n = 1 << (cut_u + cut_v);
    struct parts parts = {view, tiles, rect_of(&tiles[0]), 1 << cut_u, 1 << cut_v, {NULL}, {0}};
    const size_t stride = (size_t)n_faces + 4; /* lists are written four at a time */
    struct face_part part;
    size_t all = 0;
    if (!copy_faces(view, tiles, scratch, budget, &part) ||
        !ct_buffer_reserve(&scratch->parts, budget, (size_t)n * stride * sizeof(uint32_t), 0, false))
        return false;
    for (int k = 0; k < n; k++) parts.face[k] = (uint32_t *)scratch->parts.data + (size_t)k * stride;
    for (uint32_t i = 0; i < n_faces; i += 4) share_four(&parts, &part, i, n_faces);
    for (int k = 0; k < n; k++) all += parts.n[k];
    uint32_t *list = ct_arena_alloc(arena, budget, (all + 1) * sizeof *list);
    if (!list) return false;
    for (int k = 0; k < n; k++) {
        tiles[k].faces = list;
        tiles[k].n_faces = parts.n[k];
        for (uint32_t i = 0; i < parts.n[k]; i++) list[i] = part.tag[parts.face[k][i]];
        list += parts.n[k];
        part.index = parts.face[k];
        if (polynomials && !measure_part(view, bound, &part, &tiles[k], &polynomials[k], scratch, budget)) return false;
    }
    return true;
}

const ct_ebpi_cpu CT_VARIANT(ct_ebpi_cpu) = {measure, share, &CT_VARIANT(ct_ebpi_list_cpu)};
