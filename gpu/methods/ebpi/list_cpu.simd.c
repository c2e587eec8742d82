/* list_cpu.simd.c - lists the faces over each pixel of a pair's views, four faces at a time. Once to count them, once
 * to write them. */
#include "gpu/base/cancel.h"
#include "gpu/methods/ebpi/face_lanes.h"
#include "gpu/methods/ebpi/tile_cpu.h"

/* Four faces of a body. */
struct faces4 {
    ct_v4i at[3][4];           /* corner; axis, and padding */
    ct_v4i low[3], high[3];    /* per axis */
    uint32_t first;            /* triangle; the others follow it */
    unsigned present;          /* lane set; other lanes repeat the last face */
    const int32_t *corner[12]; /* by lane, three each */
};

/* Corners are prefetched this many triangles ahead: vertices lie in no order that the caches could predict. Not where
 * all vertices fit a core's cache. */
enum { AHEAD = 24, FEW_TRIANGLES = 1 << 16 };

static inline void prefetch(const ct_ebpi_body *body, uint32_t first) {
    if (body->n_triangles < FEW_TRIANGLES || first + 4 > body->n_triangles) return;
    for (size_t k = 0; k < 12; k++) __builtin_prefetch(body->coords[body->triangles[3 * (size_t)first + k]]);
}

static inline __attribute__((always_inline)) void load_faces(struct faces4 *f, const ct_ebpi_body *body, uint32_t first,
                                                             uint32_t end) {
    f->first = first;
    f->present = end - first >= 4 ? 15 : (1u << (end - first)) - 1;
    prefetch(body, first + AHEAD);
    for (uint32_t l = 0; l < 4; l++) {
        const uint32_t *of = body->triangles + 3 * (size_t)(first + l < end ? first + l : end - 1);
        for (uint32_t k = 0; k < 3; k++) f->corner[3 * l + k] = body->coords[of[k]];
    }
    for (int k = 0; k < 3; k++) {
        const int32_t *const p[4] = {f->corner[k], f->corner[3 + k], f->corner[6 + k], f->corner[9 + k]};
        transpose(p, f->at[k]);
    }
    for (int k = 0; k < 3; k++) {
        f->low[k] = min_v4i(min_v4i(f->at[0][k], f->at[1][k]), f->at[2][k]);
        f->high[k] = max_v4i(max_v4i(f->at[0][k], f->at[1][k]), f->at[2][k]);
    }
}

/* Where the faces of a part go. */
struct writer {
    uint32_t *next;  /* per pixel */
    uint32_t *faces; /* NULL: they are counted */
    uint32_t tag;    /* of the first of four faces */
};

static inline __attribute__((always_inline)) void add_to_pixel(const struct writer *to, int32_t pixel, uint32_t lane) {
    const uint32_t at = to->next[pixel]++;
    if (to->faces) to->faces[at] = to->tag + lane;
}

static inline __attribute__((always_inline)) void add_to_pixels(const struct writer *to, ct_v4i pixel, unsigned lanes) {
    int32_t at[4];
    store_v4i(at, pixel);
    for (; lanes; lanes &= lanes - 1) {
        const uint32_t l = (uint32_t)__builtin_ctz(lanes);
        add_to_pixel(to, at[l], l);
    }
}

/* The pixels that four faces' extents meet: first and last. */
struct pixels4 {
    ct_v4i column[2], row[2];
};

/* A face that is parallel to the rays has no inside: each pixel is tested. */
static __attribute__((noinline)) void list_edge_on(const ct_ebpi_view *view, const struct faces4 *f,
                                                   const struct pixels4 *range, const struct writer *to, uint32_t l) {
    const int32_t *const *corner = f->corner + 3 * (size_t)l;
    for (int32_t row = range->row[0][l]; row <= range->row[1][l] && !(CT_POLL_EVERY(row, 64) && ct_is_cancelled());
         row++)
        for (int32_t column = range->column[0][l]; column <= range->column[1][l]; column++) {
            const ct_ebpi_rect rect = ct_ebpi_pixel_rect(view, column, row);
            if (ct_ebpi_face_meets(view, corner, &rect)) add_to_pixel(to, row * view->columns + column, l);
        }
}

/* Faces that are over several pixels' extents. A face that is not parallel to the rays meets a pixel where, for each of
 * its edges, the pixel's corner that is furthest inwards is inside or on the edge: what ct_ebpi_face_meets says, by
 * three additions a pixel. */
static inline __attribute__((always_inline)) void list_spread(const ct_ebpi_view *view, const struct faces4 *f,
                                                              const struct pixels4 *range, const struct writer *to,
                                                              unsigned lanes) {
    const int axis_u = view->u, axis_v = view->v;
    const int su = view->pixel_shift + view->pitch_shift[0], sv = view->pixel_shift + view->pitch_shift[1];
    const ct_v4i u0 = range->column[0] << su, u1 = u0 + (1 << su), v0 = range->row[0] << sv, v1 = v0 + (1 << sv);
    ct_v4i du[3], dv[3];
    for (int k = 0; k < 3; k++) {
        du[k] = f->at[(k + 1) % 3][axis_u] - f->at[k][axis_u];
        dv[k] = f->at[(k + 1) % 3][axis_v] - f->at[k][axis_v];
    }
    const ct_v4l area = product(wide(du[0]), wide(dv[1])) - product(wide(du[1]), wide(dv[0]));
    for (unsigned left = lanes & sign_bits(area == 0); left; left &= left - 1)
        list_edge_on(view, f, range, to, (uint32_t)__builtin_ctz(left));
    lanes &= ~sign_bits(area == 0);
    const ct_v4i turn = ct_v4i_of_v4l(area < 0);
    ct_v4l at[3], row[3], per_column[3], per_row[3]; /* of each edge: how far inwards; 0: on the edge */
    for (int k = 0; k < 3; k++) {
        const ct_v4i tu = (du[k] ^ turn) - turn, tv = (dv[k] ^ turn) - turn;
        const ct_v4i at_u = ((tv < 0) & u1) | (~(tv < 0) & u0), at_v = ((tu > 0) & v1) | (~(tu > 0) & v0);
        at[k] = row[k] =
            product(wide(tu), wide(at_v - f->at[k][axis_v])) - product(wide(tv), wide(at_u - f->at[k][axis_u]));
        per_column[k] = -wide(tv) << su;
        per_row[k] = wide(tu) << sv;
    }
    const ct_v4i columns = range->column[1] - range->column[0];
    ct_v4i left = columns, rows = range->row[1] - range->row[0]; /* still to come */
    ct_v4i pixel = range->row[0] * view->columns + range->column[0], row_pixel = pixel;
    uint32_t n = 0;
    for (unsigned in_row = lanes; lanes; n++) {
        if (CT_POLL_EVERY(n + 1, 1 << 15) && ct_is_cancelled()) return;
        add_to_pixels(to, pixel, in_row & ~sign_bits(at[0] | at[1] | at[2]));
        left -= 1;
        in_row &= ~sign_bits_v4i(left);
        if (in_row) {
            pixel += 1;
            for (int k = 0; k < 3; k++) at[k] += per_column[k];
        } else {
            rows -= 1;
            in_row = lanes &= ~sign_bits_v4i(rows);
            left = columns;
            pixel = row_pixel += view->columns;
            for (int k = 0; k < 3; k++) at[k] = row[k] += per_row[k];
        }
    }
}

static inline __attribute__((always_inline)) void list_in_view(const ct_ebpi_view *view, int b, const struct faces4 *f,
                                                               const struct writer *to) {
    const int axis_u = view->u, axis_v = view->v, axis_w = view->axis;
    const int su = view->pixel_shift + view->pitch_shift[0], sv = view->pixel_shift + view->pitch_shift[1];
    ct_v4i is_left_out = f->low[axis_w] > view->hi;
    if (view->initial[b] == CT_INITIAL_FROM_BALANCE) is_left_out |= f->high[axis_w] < view->lo;
    /* A face that ends on the border between two pixels belongs to both. */
    struct pixels4 range = {{(f->low[axis_u] - 1) >> su, f->high[axis_u] >> su},
                            {(f->low[axis_v] - 1) >> sv, f->high[axis_v] >> sv}};
    const ct_v4i is_single = (range.column[0] == range.column[1]) & (range.row[0] == range.row[1]);
    range.column[0] = max_v4i(range.column[0], v4i(0));
    range.row[0] = max_v4i(range.row[0], v4i(0));
    range.column[1] = min_v4i(range.column[1], v4i(view->columns - 1));
    range.row[1] = min_v4i(range.row[1], v4i(view->rows - 1));
    const ct_v4i is_over = (range.column[0] <= range.column[1]) & (range.row[0] <= range.row[1]) & ~is_left_out;
    const unsigned lanes = f->present & sign_bits_v4i(is_over), single = lanes & sign_bits_v4i(is_single);
    if (single) add_to_pixels(to, range.row[0] * view->columns + range.column[0], single);
    if (lanes != single) list_spread(view, f, &range, to, lanes & ~single);
}

static inline __attribute__((always_inline)) void list_part(const ct_ebpi_view *views, int n_views, int b,
                                                            uint32_t part, bool is_writing) {
    const uint32_t end = ct_ebpi_part_begin(views, b, part + 1);
    struct faces4 f;
    uint32_t n = 0;
    for (uint32_t t = ct_ebpi_part_begin(views, b, part); t < end; t += 4) {
        if (CT_POLL_EVERY(++n, 256) && ct_is_cancelled_at("faces", t)) return;
        load_faces(&f, &views->body[b], t, end);
        for (int w = 0; w < n_views; w++) {
            const ct_ebpi_view *view = &views[w];
            const size_t pixels = (size_t)view->columns * (size_t)view->rows;
            const struct writer to = {view->next[b] + part * pixels, is_writing ? view->faces : NULL,
                                      (uint32_t)b << 31 | t};
            list_in_view(view, b, &f, &to);
        }
    }
}

static void count_faces(const ct_ebpi_view *views, int n_views, int b, uint32_t part) {
    for (int w = 0; w < n_views; w++) {
        const size_t pixels = (size_t)views[w].columns * (size_t)views[w].rows;
        memset(views[w].next[b] + part * pixels, 0, pixels * sizeof *views[w].next[b]);
    }
    list_part(views, n_views, b, part, false);
}

static void write_faces(const ct_ebpi_view *views, int n_views, int b, uint32_t part) {
    list_part(views, n_views, b, part, true);
}

/* ---- what snapping moves ---- */

/* The lattice along an axis, from a unit in front of the window to one behind. */
struct axis_part {
    int32_t lo, hi;
};

static struct axis_part part_of(const ct_lattice *axis) {
    const int64_t end = (int64_t)axis->n << axis->shift;
    return (struct axis_part){(axis->lo < 0 ? axis->lo : 0) - 1, (axis->hi > end ? axis->hi : (int32_t)end) + 1};
}

static inline ct_v4l smaller(ct_v4l a, ct_v4l b) {
    const ct_v4l is_less = a < b;
    return (is_less & a) | (~is_less & b);
}

static __int128 bound_moved(const ct_window *window, const ct_ebpi_view *view, int b, uint32_t part) {
    const uint32_t end = ct_ebpi_part_begin(view, b, part + 1);
    const struct axis_part axis[3] = {part_of(&window->axis[0]), part_of(&window->axis[1]), part_of(&window->axis[2])};
    ct_v4u low = {0}, high = {0}; /* sums of the lower and upper halves: they hold those of 2^32 triangles */
    struct faces4 f;
    for (uint32_t t = ct_ebpi_part_begin(view, b, part); t < end; t += 4) {
        load_faces(&f, &view->body[b], t, end);
        const ct_v4i lane = {0, 1, 2, 3};
        ct_v4i counts = lane < (int32_t)__builtin_popcount(f.present);
        ct_v4l e[2][3], length[3], volume = {1, 1, 1, 1};
        for (int k = 0; k < 3; k++) {
            counts &= (f.high[k] >= axis[k].lo) & (f.low[k] <= axis[k].hi);
            length[k] = wide(min_v4i(f.high[k] - f.low[k], v4i(axis[k].hi - axis[k].lo)));
            for (int i = 0; i < 2; i++) e[i][k] = wide(f.at[i + 1][k] - f.at[0][k]);
        }
        for (int k = 0; k < 3; k++) {
            const int i = (k + 1) % 3, j = (k + 2) % 3;
            const ct_v4l twice = product(e[0][i], e[1][j]) - product(e[0][j], e[1][i]), sign = twice < 0;
            const ct_v4l half = (ct_v4l)((ct_v4u)((twice ^ sign) - sign) >> 1);
            volume += smaller(half + 1, product(length[i], length[j])) + length[k] + length[k];
        }
        const ct_v4u counted = (ct_v4u)(volume & wide(counts));
        low += counted & 0xffffffff;
        high += counted >> 32;
    }
    __int128 sum = 0;
    for (int l = 0; l < 4; l++) sum += low[l] + ((__int128)high[l] << 32);
    return sum;
}

const ct_ebpi_list_cpu CT_VARIANT(ct_ebpi_list_cpu) = {count_faces, write_faces, bound_moved};
