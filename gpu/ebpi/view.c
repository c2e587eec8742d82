/* view.c - plans a view's pixels and lists the faces over each. */
#include "gpu/ebpi/view.h"

#include <math.h>
#include <string.h>

#include "gpu/raster/raster_k.h"

ct_ebpi_view ct_ebpi_view_plan(const ct_window *window, int axis, int32_t most) {
    ct_ebpi_view view = {.axis = axis, .u = ct_view_u(axis), .v = ct_view_v(axis)};
    const ct_lattice *u = &window->axis[view.u], *v = &window->axis[view.v];
    const int32_t longer = u->n > v->n ? u->n : v->n;
    view.lo = window->axis[axis].lo - 1;
    view.hi = window->axis[axis].hi + 1;
    view.pitch_shift[0] = u->shift;
    view.pitch_shift[1] = v->shift;
    while (((longer - 1) >> view.pixel_shift) + 1 > most) view.pixel_shift++;
    view.columns = ((u->n - 1) >> view.pixel_shift) + 1;
    view.rows = ((v->n - 1) >> view.pixel_shift) + 1;
    return view;
}

ct_ebpi_rect ct_ebpi_pixel_rect(const ct_ebpi_view *view, int32_t column, int32_t row) {
    const int u = view->pixel_shift + view->pitch_shift[0], v = view->pixel_shift + view->pitch_shift[1];
    return (ct_ebpi_rect){column << u, (column + 1) << u, row << v, (row + 1) << v};
}

/* The rectangle lies wholly on the outer side of the edge from a to b of a triangle with the opposite corner c. */
static bool is_beyond_edge(const int32_t *a, const int32_t *b, const int32_t *c, int u, int v,
                           const ct_ebpi_rect *rect) {
    const int64_t du = b[u] - a[u], dv = b[v] - a[v];
    const int64_t inside = du * (c[v] - a[v]) - dv * (c[u] - a[u]);
    if (inside == 0) return ct_ebpi_is_beside_line(a, b, u, v, rect); /* seen edge-on: a segment */
    /* The corner of the rectangle that is furthest inwards. */
    const bool is_left = inside > 0;
    const int64_t at_u = (dv < 0) == is_left ? rect->u1 : rect->u0, at_v = (du > 0) == is_left ? rect->v1 : rect->v0;
    const int64_t side = du * (at_v - a[v]) - dv * (at_u - a[u]);
    return is_left ? side < 0 : side > 0;
}

bool ct_ebpi_face_meets(const ct_ebpi_view *view, const int32_t *const corner[3], const ct_ebpi_rect *rect) {
    const int u = view->u, v = view->v;
    const int32_t *a = corner[0], *b = corner[1], *c = corner[2];
    if (ct_max3(a[u], b[u], c[u]) < rect->u0 || ct_min3(a[u], b[u], c[u]) > rect->u1 ||
        ct_max3(a[v], b[v], c[v]) < rect->v0 || ct_min3(a[v], b[v], c[v]) > rect->v1)
        return false;
    if (ct_ebpi_is_in(a, u, v, rect) || ct_ebpi_is_in(b, u, v, rect) || ct_ebpi_is_in(c, u, v, rect)) return true;
    return !is_beyond_edge(a, b, c, u, v, rect) && !is_beyond_edge(b, c, a, u, v, rect) &&
           !is_beyond_edge(c, a, b, u, v, rect);
}

/* Which of the pixels in its box a face meets: what ct_ebpi_face_meets says, by three additions a pixel. */
struct coverage {
    int64_t at[3];  /* of each edge: how far inwards the pixel's furthest corner is; 0: on the edge */
    int64_t row[3]; /* the same, in the row's first pixel */
    int64_t per_column[3], per_row[3];
    bool is_edge_on; /* it has no inside: each pixel is tested */
};

static struct coverage begin_coverage(const ct_ebpi_view *view, const int32_t *const corner[3], int32_t column,
                                      int32_t row) {
    const int u = view->u, v = view->v;
    const ct_ebpi_rect first = ct_ebpi_pixel_rect(view, column, row);
    const int64_t u1 = corner[1][u] - corner[0][u], v1 = corner[1][v] - corner[0][v];
    const int64_t u2 = corner[2][u] - corner[0][u], v2 = corner[2][v] - corner[0][v];
    const int64_t area = u1 * v2 - u2 * v1, turn = area < 0 ? -1 : 1;
    struct coverage c = {.is_edge_on = area == 0};
    for (int k = 0; k < 3; k++) {
        const int32_t *a = corner[k], *b = corner[(k + 1) % 3];
        const int64_t du = turn * (b[u] - a[u]), dv = turn * (b[v] - a[v]);
        const int64_t at_u = dv < 0 ? first.u1 : first.u0, at_v = du > 0 ? first.v1 : first.v0;
        c.row[k] = c.at[k] = du * (at_v - a[v]) - dv * (at_u - a[u]);
        c.per_column[k] = -dv * (first.u1 - first.u0);
        c.per_row[k] = du * (first.v1 - first.v0);
    }
    return c;
}

static bool is_covered(const struct coverage *c, const ct_ebpi_view *view, const int32_t *const corner[3],
                       int32_t column, int32_t row) {
    if (!c->is_edge_on) return (c->at[0] | c->at[1] | c->at[2]) >= 0;
    const ct_ebpi_rect rect = ct_ebpi_pixel_rect(view, column, row);
    return ct_ebpi_face_meets(view, corner, &rect);
}

static void next_column(struct coverage *c) {
    for (int k = 0; k < 3; k++) c->at[k] += c->per_column[k];
}

static void next_row(struct coverage *c) {
    for (int k = 0; k < 3; k++) c->at[k] = c->row[k] += c->per_row[k];
}

struct pixel_range {
    int32_t column[2], row[2]; /* first and last */
    bool is_certain;           /* the face is over one pixel, whole */
};

/* The pixels that a face's extent meets; false: none. */
static bool find_pixels(const ct_ebpi_view *view, const int32_t *const corner[3], struct pixel_range *range) {
    const int u = view->u, v = view->v;
    const int su = view->pixel_shift + view->pitch_shift[0], sv = view->pixel_shift + view->pitch_shift[1];
    /* A face that ends on the border between two pixels belongs to both. */
    range->column[0] = (ct_min3(corner[0][u], corner[1][u], corner[2][u]) - 1) >> su;
    range->column[1] = ct_max3(corner[0][u], corner[1][u], corner[2][u]) >> su;
    range->row[0] = (ct_min3(corner[0][v], corner[1][v], corner[2][v]) - 1) >> sv;
    range->row[1] = ct_max3(corner[0][v], corner[1][v], corner[2][v]) >> sv;
    range->is_certain = range->column[0] == range->column[1] && range->row[0] == range->row[1];
    if (range->column[0] < 0) range->column[0] = 0;
    if (range->row[0] < 0) range->row[0] = 0;
    if (range->column[1] >= view->columns) range->column[1] = view->columns - 1;
    if (range->row[1] >= view->rows) range->row[1] = view->rows - 1;
    return range->column[0] <= range->column[1] && range->row[0] <= range->row[1];
}

static bool is_left_out(const ct_ebpi_view *view, int b, const int32_t *const corner[3]) {
    const int32_t p = corner[0][view->axis], q = corner[1][view->axis], r = corner[2][view->axis];
    return (p > view->hi && q > view->hi && r > view->hi) ||
           (view->initial[b] == CT_INITIAL_FROM_BALANCE && p < view->lo && q < view->lo && r < view->lo);
}

static void add_to_pixel(ct_ebpi_view *view, int b, uint32_t triangle, int32_t column, int32_t row, bool is_writing) {
    uint32_t *next = &view->next[b][(size_t)row * (size_t)view->columns + (size_t)column];
    if (is_writing) view->faces[*next] = (uint32_t)b << 31 | triangle;
    ++*next;
}

/* Counts, or writes the faces of a body. */
static void list_body(ct_ebpi_view *view, int b, bool is_writing) {
    const ct_ebpi_body *body = &view->body[b];
    for (uint32_t t = 0; t < body->n_triangles; t++) {
        const int32_t *corner[3];
        ct_ebpi_corners(body, t, corner);
        struct pixel_range range;
        if (is_left_out(view, b, corner) || !find_pixels(view, corner, &range)) continue;
        if (range.is_certain) {
            add_to_pixel(view, b, t, range.column[0], range.row[0], is_writing);
            continue;
        }
        struct coverage coverage = begin_coverage(view, corner, range.column[0], range.row[0]);
        for (int32_t row = range.row[0]; row <= range.row[1]; row++, next_row(&coverage))
            for (int32_t column = range.column[0]; column <= range.column[1]; column++, next_column(&coverage))
                if (is_covered(&coverage, view, corner, column, row)) add_to_pixel(view, b, t, column, row, is_writing);
    }
}

bool ct_ebpi_view_begin(ct_ebpi_view *view, const ct_ebpi_body body[2], ct_arena *arena, ct_budget *budget) {
    const size_t pixels = (size_t)view->columns * (size_t)view->rows;
    view->body = body;
    view->first = ct_arena_alloc(arena, budget, (pixels + 1) * sizeof *view->first);
    for (int b = 0; b < 2; b++) view->next[b] = ct_arena_alloc(arena, budget, pixels * sizeof *view->next[b]);
    return view->first && view->next[0] && view->next[1];
}

void ct_ebpi_view_count(ct_ebpi_view *view, int b) {
    memset(view->next[b], 0, (size_t)view->columns * (size_t)view->rows * sizeof *view->next[b]);
    list_body(view, b, false);
}

bool ct_ebpi_view_place(ct_ebpi_view *view, ct_arena *arena, ct_budget *budget) {
    const size_t pixels = (size_t)view->columns * (size_t)view->rows;
    uint64_t n = 0;
    for (size_t p = 0; p < pixels; p++) {
        const uint32_t count[2] = {view->next[0][p], view->next[1][p]};
        view->first[p] = view->next[0][p] = (uint32_t)n;
        view->next[1][p] = (uint32_t)(n + count[0]);
        n += (uint64_t)count[0] + count[1];
    }
    if (n > UINT32_MAX) return false;
    view->first[pixels] = (uint32_t)n;
    view->faces = ct_arena_alloc(arena, budget, n ? n * sizeof *view->faces : 1);
    return view->faces != NULL;
}

void ct_ebpi_view_write(ct_ebpi_view *view, int b) {
    list_body(view, b, true);
}

bool ct_ebpi_view_list(ct_ebpi_view *view, const ct_ebpi_body body[2], ct_arena *arena, ct_budget *budget) {
    if (!ct_ebpi_view_begin(view, body, arena, budget)) return false;
    for (int b = 0; b < 2; b++) ct_ebpi_view_count(view, b);
    if (!ct_ebpi_view_place(view, arena, budget)) return false;
    for (int b = 0; b < 2; b++) ct_ebpi_view_write(view, b);
    return true;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

double ct_ebpi_moved_volume(const ct_window *window, const ct_ebpi_body *body) {
    int64_t lo[3], hi[3], side[3];
    __int128 sum = 0; /* in any order */
    for (int k = 0; k < 3; k++) {
        const ct_lattice *axis = &window->axis[k];
        lo[k] = smaller(axis->lo, 0) - 1;
        hi[k] = -smaller(-(int64_t)axis->hi, -((int64_t)axis->n << axis->shift)) + 1;
        side[k] = hi[k] - lo[k];
    }
    for (uint32_t t = 0; t < body->n_triangles; t++) {
        const int32_t *corner[3];
        ct_ebpi_corners(body, t, corner);
        int64_t e[2][3], length[3], volume = 1;
        bool is_outside = false;
        for (int k = 0; k < 3; k++) {
            const int32_t least = ct_min3(corner[0][k], corner[1][k], corner[2][k]);
            const int32_t most = ct_max3(corner[0][k], corner[1][k], corner[2][k]);
            is_outside = is_outside || most < lo[k] || least > hi[k];
            length[k] = smaller((int64_t)most - least, side[k]);
            for (int i = 0; i < 2; i++) e[i][k] = (int64_t)corner[i + 1][k] - corner[0][k];
        }
        if (is_outside) continue;
        for (int k = 0; k < 3; k++) {
            const int i = (k + 1) % 3, j = (k + 2) % 3;
            const int64_t twice = e[0][i] * e[1][j] - e[0][j] * e[1][i];
            volume += smaller((twice < 0 ? -twice : twice) / 2 + 1, length[i] * length[j]) + 2 * length[k];
        }
        sum += volume;
    }
    return (double)sum * window->axis[0].unit * window->axis[1].unit * window->axis[2].unit;
}
