/* tile_cpu.simd.c - bounds the error of one tile's volume, and shares a tile's faces among its parts. */
#include "gpu/ebpi/tile_cpu.h"

#include "gpu/ebpi/tile_depths.h"
#include "gpu/ebpi/tile_faces.h"
#include "gpu/ebpi/tile_kinks.h"

/* ---- a tile's bound ---- */

/* Both ends of a span are rounded to a unit, after some rounding in double. */
static const int64_t SPAN_ROUNDING = ((int64_t)1 << CT_EBPI_DEPTH_BITS) + 64;

static bool reserve(struct tile_faces *t, ct_ebpi_scratch *scratch, ct_budget *budget, size_t n) {
    t->slot_mask = 7;
    while (t->slot_mask < 2 * n) t->slot_mask = 2 * t->slot_mask + 1;
    if (!ct_buffer_reserve(&scratch->faces, budget, lay_out(t, NULL, n), 0, false) ||
        !ct_buffer_reserve(&scratch->intervals, budget, joint_size(n), 0, false) ||
        !ct_buffer_reserve(&scratch->slots, budget, ((size_t)t->slot_mask + 1) * sizeof(uint32_t), 0, false))
        return false;
    lay_out(t, scratch->faces.data, n);
    t->slots = scratch->slots.data;
    return true;
}

static bool measure(const ct_ebpi_view *view, ct_ebpi_bound bound, ct_ebpi_tile *tile, ct_ebpi_polynomial *polynomial,
                    ct_ebpi_scratch *scratch, ct_budget *budget) {
    struct tile_faces t = {.view = view, .bound = bound, .polynomial = polynomial};
    tile->length = 0;
    tile->bound = 0;
    tile->n_crossed[0] = tile->n_crossed[1] = tile->begin[0] = tile->begin[1] = 0;
    if (polynomial) memset(polynomial, 0, sizeof *polynomial);
    if (!tile->n_faces || tile->faces[0] >> 31 == tile->faces[tile->n_faces - 1] >> 31)
        return true; /* one body is nowhere over the tile */
    const int32_t w = 1 << tile->shift_u, h = 1 << tile->shift_v;
    t.rect = rect_of(tile);
    t.center[0] = tile->u + w / 2;
    t.center[1] = tile->v + h / 2;
    t.width = w;
    t.height = h;
    t.reach = 0.5 * sqrt(t.width * t.width + t.height * t.height);
    if (!reserve(&t, scratch, budget, tile->n_faces)) return false;
    list_faces(&t, tile);
    const int64_t most = find_joint(&t, scratch->intervals.data);
    if (!t.joint.n) return true;
    int64_t n_spans, sum = most << CT_EBPI_DEPTH_BITS;
    tile->length = measure_ray(&t, &n_spans);
    if (most > 0 && add_kinks(&t) && t.kinks < sum) sum = t.kinks;
    tile->bound = sum + n_spans * SPAN_ROUNDING;
    if (polynomial) add_lanes(&t);
    return true;
}

/* ---- parts of a tile ---- */

/* The first and the last of the n = 2^cut intervals from `from`, of 2^shift units each, that lo to hi meets. */
static void find_range(int32_t lo, int32_t hi, int32_t from, int shift, int n, int range[2]) {
    const int32_t first = (lo - from - 1) >> shift, last = (hi - from) >> shift;
    range[0] = first < 0 ? 0 : first;
    range[1] = last > n - 1 ? n - 1 : last;
}

/* The parts of row `row` that a face is over: those where the furthest corner inwards of each of its edges is inside,
 * as ct_ebpi_face_meets has it for a face that is not seen edge-on. */
struct row_test {
    ct_v4l at[3]; /* of each edge, in the four parts of the first row: how far inwards; 0: on the edge */
    int64_t per_row[3];
};

static inline __attribute__((always_inline)) struct row_test
begin_rows(const ct_ebpi_view *view, const ct_ebpi_rect *first, const int32_t *const corner[3], int64_t area) {
    const int u = view->u, v = view->v;
    const int64_t turn = area < 0 ? -1 : 1;
    struct row_test test;
    for (int k = 0; k < 3; k++) {
        const int32_t *a = corner[k], *b = corner[(k + 1) % 3];
        const int64_t du = turn * (b[u] - a[u]), dv = turn * (b[v] - a[v]);
        const int64_t at_u = dv < 0 ? first->u1 : first->u0, at_v = du > 0 ? first->v1 : first->v0;
        test.at[k] = four_steps(du * (at_v - a[v]) - dv * (at_u - a[u]), -dv * (first->u1 - first->u0));
        test.per_row[k] = du * (first->v1 - first->v0);
    }
    return test;
}

static bool share(const ct_ebpi_view *view, ct_ebpi_tile *tiles, int cut_u, int cut_v, ct_ebpi_scratch *scratch,
                  ct_arena *arena, ct_budget *budget) {
    const uint32_t *faces = tiles->faces, n_faces = tiles->n_faces;
    const int n_u = 1 << cut_u, n_v = 1 << cut_v, axis_u = view->u, axis_v = view->v;
    const ct_ebpi_rect first = rect_of(&tiles[0]);
    uint32_t count[16] = {0}, *next[16];
    size_t all = 0;
    if (!ct_buffer_reserve(&scratch->covered, budget, ((size_t)n_faces + 1) * sizeof(uint16_t), 0, false)) return false;
    uint16_t *covered = scratch->covered.data; /* of each face: a bit for each tile that it meets */
    for (uint32_t i = 0; i < n_faces; i++) {
        const int32_t *corner[3];
        int u[2], v[2];
        ct_ebpi_corners(&view->body[faces[i] >> 31], faces[i] & 0x7fffffff, corner);
        const int32_t *p = corner[0], *q = corner[1], *r = corner[2];
        find_range(ct_min3(p[axis_u], q[axis_u], r[axis_u]), ct_max3(p[axis_u], q[axis_u], r[axis_u]), first.u0,
                   tiles->shift_u, n_u, u);
        find_range(ct_min3(p[axis_v], q[axis_v], r[axis_v]), ct_max3(p[axis_v], q[axis_v], r[axis_v]), first.v0,
                   tiles->shift_v, n_v, v);
        unsigned bits = 0;
        if (u[0] == u[1] && v[0] == v[1]) {
            bits = 1u << (v[0] * n_u + u[0]);
        } else {
            const int64_t area = (int64_t)(q[axis_u] - p[axis_u]) * (r[axis_v] - p[axis_v]) -
                                 (int64_t)(r[axis_u] - p[axis_u]) * (q[axis_v] - p[axis_v]);
            const unsigned columns = (2u << u[1]) - (1u << u[0]);
            if (area) {
                struct row_test test = begin_rows(view, &first, corner, area);
                for (int row = 0; row <= v[1]; row++) {
                    const unsigned met = ~sign_bits(test.at[0] | test.at[1] | test.at[2]) & columns;
                    if (row >= v[0]) bits |= met << (row * n_u);
                    for (int k = 0; k < 3; k++) test.at[k] += test.per_row[k];
                }
            } else { /* seen edge-on */
                for (int row = v[0]; row <= v[1]; row++)
                    for (int column = u[0]; column <= u[1]; column++) {
                        const ct_ebpi_rect rect = rect_of(&tiles[row * n_u + column]);
                        bits |= (unsigned)ct_ebpi_face_meets(view, corner, &rect) << (row * n_u + column);
                    }
            }
        }
        covered[i] = (uint16_t)bits;
        for (unsigned left = bits; left; left &= left - 1) count[__builtin_ctz(left)]++;
        all += (size_t)__builtin_popcount(bits);
    }
    uint32_t *list = ct_arena_alloc(arena, budget, (all + 1) * sizeof *list);
    if (!list) return false;
    for (int k = 0; k < n_u * n_v; k++) {
        next[k] = list;
        tiles[k].faces = list;
        tiles[k].n_faces = count[k];
        list += count[k];
    }
    for (uint32_t i = 0; i < n_faces; i++)
        for (uint32_t left = covered[i]; left; left &= left - 1) *next[__builtin_ctz(left)]++ = faces[i];
    return true;
}

const ct_ebpi_cpu CT_VARIANT(ct_ebpi_cpu) = {measure, share, &CT_VARIANT(ct_ebpi_list_cpu)};
