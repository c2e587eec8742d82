/* sheet_overlay.c - clips faces against one another. All outlines are convex: what is cut out of one leaves several. */
#include "gpu/after/sheet_overlay.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"

/* Of the size of what is in the window: a strip as narrow as this is rounding, and so is a face that much above another. */
static const double NARROW = 1e-13, CLOSE = 1e-11;

/* Outlines clipped between polls: each takes some 50 ns. */
enum { POLL = 8192 };

/* ---- half-planes ---- */

/* Where x u + y v + z >= 0. */
struct half_plane {
    double x, y, z;
};

static double side_of(const struct half_plane *h, const double at[2]) {
    return h->x * at[0] + h->y * at[1] + h->z;
}

static struct half_plane left_of(const double p[2], const double q[2]) {
    struct half_plane h = {p[1] - q[1], q[0] - p[0], 0};
    h.z = -(h.x * p[0] + h.y * p[1]);
    return h;
}

/* Where `above` is higher than `below` by at least so much. */
static struct half_plane higher(const ct_sheet_face *above, const ct_sheet_face *below, double by) {
    static const double origin[2] = {0, 0};
    return (struct half_plane){above->slope[0] - below->slope[0], above->slope[1] - below->slope[1],
                               ct_sheet_height(above, origin) - ct_sheet_height(below, origin) - by};
}

static struct half_plane opposite(const struct half_plane *h) {
    return (struct half_plane){-h->x, -h->y, -h->z};
}

/* ---- outlines ---- */

/* Twice the area. */
static double area_of(const ct_sheet_outline *o) {
    double area = 0;
    for (uint32_t i = 2; i < o->n; i++)
        area += (o->at[i - 1][0] - o->at[0][0]) * (o->at[i][1] - o->at[0][1]) -
                (o->at[i - 1][1] - o->at[0][1]) * (o->at[i][0] - o->at[0][0]);
    return area;
}

static bool is_nothing(const ct_sheet_overlay *overlay, const ct_sheet_outline *o) {
    double length = 0;
    for (uint32_t i = 0; i < o->n; i++)
        for (int k = 0; k < 2; k++) length += fabs(o->at[(i + 1) % o->n][k] - o->at[i][k]);
    return o->n < 3 || !(area_of(o) > NARROW * overlay->faces->size * length);
}

/* What of the outline is in the half-plane: it has one corner more at most. */
static void clip(const ct_sheet_outline *o, const struct half_plane *h, ct_sheet_outline *out) {
    double side[CT_SHEET_CORNERS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n; i++) side[i] = side_of(h, o->at[i]);
    for (uint32_t i = 0; i < o->n; i++) {
        const uint32_t j = i + 1 < o->n ? i + 1 : 0;
        if (side[i] >= 0) memcpy(out->at[n++], o->at[i], sizeof o->at[i]);
        if ((side[i] >= 0) == (side[j] >= 0)) continue;
        const double t = side[i] / (side[i] - side[j]);
        for (int k = 0; k < 2; k++) out->at[n][k] = o->at[i][k] + t * (o->at[j][k] - o->at[i][k]);
        n++;
    }
    out->n = n;
}

static bool add_piece(ct_sheet_overlay *overlay, const ct_sheet_outline *o) {
    if (is_nothing(overlay, o)) return true;
    if (!ct_array_grow(&overlay->pieces, &overlay->capacity, overlay->n + 2)) return false;
    ct_sheet_outline *to = &overlay->pieces[overlay->n++];
    *to = *o;
    if (o->n <= CT_SHEET_CORNERS / 2) return true;
    /* A face cuts five times: there is room for as many corners more. */
    const uint32_t half = o->n / 2;
    ct_sheet_outline *rest = &overlay->pieces[overlay->n++];
    to->n = half + 1;
    rest->n = o->n - half + 1;
    memcpy(rest->at, o->at + half, (o->n - half) * sizeof *o->at);
    memcpy(rest->at[o->n - half], o->at[0], sizeof *o->at);
    return true;
}

/* ---- pairs of faces ---- */

/* What of the outline is over the face. */
static void clip_to_face(const ct_sheet_outline *o, const ct_sheet_face *face, ct_sheet_outline *out) {
    ct_sheet_outline a, b;
    const struct half_plane edges[3] = {left_of(face->at[0], face->at[1]), left_of(face->at[1], face->at[2]),
                                        left_of(face->at[2], face->at[0])};
    clip(o, &edges[0], &a);
    clip(&a, &edges[1], &b);
    clip(&b, &edges[2], out);
}

/* Takes from piece i what the half-planes have in common; what is left of it becomes pieces. */
static bool cut_out(ct_sheet_overlay *overlay, size_t i, const struct half_plane *h, int n) {
    ct_sheet_outline rest = overlay->pieces[i], common = rest, part;
    for (int k = 0; k < n; k++) {
        clip(&common, &h[k], &part);
        common = part;
    }
    if (is_nothing(overlay, &common)) return true;
    overlay->pieces[i] = overlay->pieces[--overlay->n];
    for (int k = 0; k < n; k++) {
        const struct half_plane outside = opposite(&h[k]);
        clip(&rest, &outside, &part);
        if (!add_piece(overlay, &part)) return false;
        clip(&rest, &h[k], &part);
        rest = part;
    }
    return true;
}

/* Whether no more of a piece than rounding is in the half-plane. */
static bool misses(const ct_sheet_overlay *overlay, const ct_sheet_outline *o, const struct half_plane *h) {
    const double least = NARROW * overlay->faces->size * (fabs(h->x) + fabs(h->y));
    for (uint32_t i = 0; i < o->n; i++)
        if (side_of(h, o->at[i]) > least) return false;
    return true;
}

/* Takes from all pieces where the face is between the two others. */
static bool hide_behind(ct_sheet_overlay *overlay, const ct_sheet_face *lower, const ct_sheet_face *upper,
                        const ct_sheet_face *face) {
    const double by = CLOSE * overlay->faces->size;
    struct half_plane h[5];
    for (int k = 0; k < 5; k++) { /* most faces around are beside a piece: one half-plane says so */
        h[k] = k < 3    ? left_of(face->at[k], face->at[(k + 1) % 3])
               : k == 3 ? higher(face, lower, by)
                        : higher(upper, face, by);
        if (overlay->n == 1 && misses(overlay, &overlay->pieces[0], &h[k])) return true;
    }
    /* Pieces that a cut adds lie behind those that it was made of: they have nothing in common with the face. */
    for (size_t i = overlay->n; i-- > 0;)
        if (!cut_out(overlay, i, h, 5)) return false;
    return true;
}

static bool is_cancelled(ct_sheet_overlay *overlay) {
    if (overlay->work < overlay->next_poll) return false;
    overlay->next_poll = overlay->work + POLL;
    return ct_is_cancelled();
}

/* A face of which only some corners take part may reach out of the window, where other faces were not gathered. */
static void clip_to_window(const ct_sheet_overlay *overlay, ct_sheet_outline *o) {
    const double *lo = overlay->faces->lo, *hi = overlay->faces->hi;
    const struct half_plane h[4] = {{1, 0, -lo[0]}, {-1, 0, hi[0]}, {0, 1, -lo[1]}, {0, -1, hi[1]}};
    for (int k = 0; k < 4; k++) {
        const ct_sheet_outline whole = *o;
        clip(&whole, &h[k], o);
    }
}

static ct_column_box box_of(const ct_sheet_outline *o, const ct_sheet_face *lower, const ct_sheet_face *upper) {
    ct_column_box box = {.lo = {INFINITY, INFINITY, INFINITY}, .hi = {-INFINITY, -INFINITY, -INFINITY}};
    for (uint32_t i = 0; i < o->n; i++) {
        const double w[2] = {ct_sheet_height(lower, o->at[i]), ct_sheet_height(upper, o->at[i])};
        for (int k = 0; k < 2; k++) {
            box.lo[k] = fmin(box.lo[k], o->at[i][k]);
            box.hi[k] = fmax(box.hi[k], o->at[i][k]);
        }
        box.lo[2] = fmin(box.lo[2], w[0]);
        box.hi[2] = fmax(box.hi[2], w[1]);
    }
    return box;
}

bool ct_sheet_overlay_pair(ct_sheet_overlay *overlay, const ct_sheet_face *lower, const ct_sheet_face *upper) {
    ct_sheet_outline o = {.n = 3}, part;
    const struct half_plane above = higher(upper, lower, 0);
    overlay->n = 0;
    overlay->work++;
    memcpy(o.at, lower->at, sizeof lower->at);
    clip(&o, &above, &part);
    clip_to_face(&part, upper, &o);
    clip_to_window(overlay, &o);
    if (!add_piece(overlay, &o)) return false;
    if (overlay->n == 0) return true;
    const ct_column_box box = box_of(&o, lower, upper);
    ct_column_search search = ct_column_tree_find(&overlay->faces->tree, &box);
    for (uint32_t i; overlay->n > 0 && ct_column_search_next(&search, &i);) {
        const ct_sheet_face *face = &overlay->faces->all[i];
        if (face != lower && face != upper && !hide_behind(overlay, lower, upper, face)) return false;
        overlay->work += overlay->n + 1;
        if (is_cancelled(overlay)) return false;
    }
    overlay->work += search.visits / 16;
    return !is_cancelled(overlay);
}

void ct_sheet_overlay_close(ct_sheet_overlay *overlay) {
    free(overlay->pieces);
    memset(overlay, 0, sizeof *overlay);
}
