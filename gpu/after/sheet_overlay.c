/* sheet_overlay.c - clips faces against one another. All outlines are convex: what is cut out of one leaves several. */
#include "gpu/after/sheet_overlay.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"

/* Of the size of what is in the window: a strip as narrow as this is rounding, and so is a face that much above another. */
static const double NARROW = 1e-13, CLOSE = 1e-11;

/* Of the same: rounding of the window's ends along the normal. Less than what faces beyond them are gathered by. */
static const double ROUNDED = 5e-13;

/* Outlines clipped between polls: each takes some 50 ns. */
enum { POLL = 8192 };

/* Up to so many faces that a face meets are all looked at, for those that hide others; of more, the trees find them. */
enum { MANY = 64 };

/* The trees are searched for a face and for so many after it, that are no wider together than so many times the first. */
enum { GROUP = 24 };
static const double WIDE = 4;

/* ---- half-planes ---- */

/* Where x u + y v + z >= 0. */
struct half_plane {
    double x, y, z;
};

static double side_of(const struct half_plane *h, const double at[2]) {
    return h->x * at[0] + h->y * at[1] + h->z;
}

/* Edge k of a face, which is inside. */
static struct half_plane edge_of(const ct_sheet_face *face, int k) {
    const double *p = face->at[k], *q = face->at[k < 2 ? k + 1 : 0];
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

/* Where the face is above or below a height. */
static struct half_plane above(const ct_sheet_face *face, double height) {
    static const double origin[2] = {0, 0};
    return (struct half_plane){face->slope[0], face->slope[1], ct_sheet_height(face, origin) - height};
}
static struct half_plane below(const ct_sheet_face *face, double height) {
    static const double origin[2] = {0, 0};
    return (struct half_plane){-face->slope[0], -face->slope[1], height - ct_sheet_height(face, origin)};
}

/* ---- outlines ---- */

static void copy(const ct_sheet_outline *o, ct_sheet_outline *to) {
    to->n = o->n;
    memcpy(to->at, o->at, o->n * sizeof *o->at);
}

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
    if (o->n < 3) return true;
    for (uint32_t i = 0, j = o->n - 1; i < o->n; j = i++)
        for (int k = 0; k < 2; k++) length += fabs(o->at[i][k] - o->at[j][k]);
    return !(area_of(o) > NARROW * overlay->faces->size * length);
}

/* What of the outline is in the half-plane: it has one corner more at most. The outline itself, where all of it is. */
static const ct_sheet_outline *clip(const ct_sheet_outline *o, const struct half_plane *h, ct_sheet_outline *out) {
    double side[CT_SHEET_CORNERS];
    bool is_all = true;
    for (uint32_t i = 0; i < o->n; i++) {
        side[i] = side_of(h, o->at[i]);
        is_all = is_all && side[i] >= 0;
    }
    if (is_all) return o;
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        const uint32_t j = i + 1 < o->n ? i + 1 : 0;
        if (side[i] >= 0) memcpy(out->at[n++], o->at[i], sizeof o->at[i]);
        if ((side[i] >= 0) == (side[j] >= 0)) continue;
        const double t = side[i] / (side[i] - side[j]);
        for (int k = 0; k < 2; k++) out->at[n][k] = o->at[i][k] + t * (o->at[j][k] - o->at[i][k]);
        n++;
    }
    out->n = n;
    return out;
}

/* What of the outline is in all of the half-planes: the outline itself, or in one of both rooms. */
static const ct_sheet_outline *clip_all(const ct_sheet_outline *o, const struct half_plane *h, int n,
                                        ct_sheet_outline room[2]) {
    for (int k = 0; k < n && o->n > 0; k++) o = clip(o, &h[k], o == &room[0] ? &room[1] : &room[0]);
    return o;
}

static bool add_piece(ct_sheet_overlay *overlay, const ct_sheet_outline *o) {
    if (is_nothing(overlay, o)) return true;
    if (!ct_array_grow(&overlay->pieces, &overlay->capacity, overlay->n + 2)) return false;
    ct_sheet_outline *to = &overlay->pieces[overlay->n++];
    copy(o, to);
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

/* ---- what a face meets ---- */

static bool is_cancelled(ct_sheet_overlay *overlay) {
    if (overlay->work < overlay->next_poll) return false;
    overlay->next_poll = overlay->work + POLL;
    return ct_is_cancelled();
}

/* Whether no more than rounding of these corners is in the half-plane. */
static bool misses(const ct_sheet_overlay *overlay, const struct half_plane *h, const double at[][2], uint32_t n) {
    const double least = NARROW * overlay->faces->size * (fabs(h->x) + fabs(h->y));
    for (uint32_t i = 0; i < n; i++)
        if (side_of(h, at[i]) > least) return false;
    return true;
}

/* Whether two faces are beside one another, as most neighbours are: then an edge of one of them parts them. */
static bool are_apart(const ct_sheet_overlay *overlay, const struct half_plane edges[3], const ct_sheet_face *a,
                      const ct_sheet_face *b) {
    for (int k = 0; k < 3; k++)
        if (misses(overlay, &edges[k], b->at, 3)) return true;
    for (int k = 0; k < 3; k++) {
        const struct half_plane edge = edge_of(b, k);
        if (misses(overlay, &edge, a->at, 3)) return true;
    }
    return false;
}

static void grow_box(ct_column_box *box, const ct_column_box *by) {
    for (int k = 0; k < 3; k++) {
        box->lo[k] = by->lo[k] < box->lo[k] ? by->lo[k] : box->lo[k];
        box->hi[k] = by->hi[k] > box->hi[k] ? by->hi[k] : box->hi[k];
    }
}

static bool is_within(const ct_column_box *a, const ct_column_box *b) {
    for (int k = 0; k < 3; k++)
        if (a->lo[k] < b->lo[k] || a->hi[k] > b->hi[k]) return false;
    return true;
}

/* The box of a face and of those after it that it is made for as well: as long as it is a few times as wide. */
static ct_column_box box_around(const ct_sheet_faces *faces, const ct_sheet_face *from) {
    const size_t first = (size_t)(from - faces->all), left = faces->n - first;
    const ct_column_box *own = &faces->boxes[first];
    const double wide = WIDE * fmax(own->hi[0] - own->lo[0], own->hi[1] - own->lo[1]);
    ct_column_box box = *own;
    if (ct_sheet_is_folded(faces, 0) || ct_sheet_is_folded(faces, 1)) return box; /* there is much above one another */
    for (size_t i = first + 1; i < first + (left < GROUP ? left : GROUP); i++) {
        const ct_sheet_face *face = &faces->all[i];
        ct_column_box more = box;
        if (face->side != from->side || face->looks_up != from->looks_up || !face->is_listed) continue;
        grow_box(&more, &faces->boxes[i]);
        if (more.hi[0] - more.lo[0] <= wide && more.hi[1] - more.lo[1] <= wide) box = more;
    }
    return box;
}

/* False: out of memory, or cancelled. */
static bool list_around(ct_sheet_overlay *overlay, int side) {
    const ct_sheet_faces *faces = overlay->faces;
    const ct_column_tree *tree = &faces->tree[side];
    ct_sheet_around *around = &overlay->around;
    ct_column_search search = ct_column_tree_find(tree, &around->box);
    for (uint32_t i; ct_column_search_next(&search, &i); overlay->work++) {
        if (is_cancelled(overlay) || !ct_array_grow(&around->faces, &around->capacity, around->n + 1)) return false;
        if (around->n / CT_COLUMN_FAN >= around->box_capacity) {
            const size_t n = 2 * around->box_capacity + 16;
            ct_column_node *boxes = aligned_alloc(_Alignof(ct_column_node), n * sizeof *boxes);
            if (!boxes) return false;
            if (around->boxes) memcpy(boxes, around->boxes, around->box_capacity * sizeof *boxes);
            free(around->boxes);
            around->boxes = boxes;
            around->box_capacity = n;
        }
        ct_column_copy_child(tree, i, &around->boxes[around->n / CT_COLUMN_FAN], around->n % CT_COLUMN_FAN);
        around->faces[around->n++] = faces->first[side] + i;
    }
    overlay->work += search.visits / 16;
    return true;
}

/* What a line from the face, or from those after it, may meet. */
static bool look_around(ct_sheet_overlay *overlay, const ct_column_box *box) {
    const ct_sheet_faces *faces = overlay->faces;
    const ct_sheet_face *from = overlay->from;
    if (overlay->around.side == from->side && is_within(box, &overlay->around.box)) return true;
    overlay->around.side = from->side;
    overlay->around.box = box_around(faces, from);
    grow_box(&overlay->around.box, box);
    overlay->around.n = 0;
    return list_around(overlay, !from->side) &&
           (!ct_sheet_is_folded(faces, from->side) || list_around(overlay, from->side));
}

/* Few faces in the order in which lines come to them, about: what hides others comes first. */
static void sort_met(ct_sheet_overlay *overlay) {
    const ct_column_box *boxes = overlay->faces->boxes;
    const bool is_up = !overlay->from->looks_up;
    for (size_t i = 1; i < overlay->n_met; i++) {
        const size_t face = overlay->met[i];
        size_t to = i;
        for (; to > 0; to--) {
            const size_t before = overlay->met[to - 1];
            if (is_up ? boxes[before].lo[2] <= boxes[face].lo[2] : boxes[before].hi[2] >= boxes[face].hi[2]) break;
            overlay->met[to] = before;
        }
        overlay->met[to] = face;
    }
}

bool ct_sheet_overlay_begin(ct_sheet_overlay *overlay, const ct_sheet_face *from) {
    const ct_sheet_faces *faces = overlay->faces;
    const ct_sheet_around *around = &overlay->around;
    ct_column_box box = faces->boxes[from - faces->all];
    struct half_plane edges[3];
    for (int k = 0; k < 3; k++) edges[k] = edge_of(from, k);
    overlay->is_amid = is_within(&box, &(ct_column_box){.lo = {faces->lo[0], faces->lo[1], faces->lo[2]},
                                                        .hi = {faces->hi[0], faces->hi[1], faces->hi[2]}});
    if (from->looks_up)
        box.lo[2] = faces->lo[2];
    else
        box.hi[2] = faces->hi[2];
    overlay->from = from;
    overlay->n_met = 0;
    if (!look_around(overlay, &box)) return false;
    const ct_column_node node = ct_column_node_of(&box);
    for (size_t first = 0; first < around->n; first += CT_COLUMN_FAN, overlay->work++) {
        if (is_cancelled(overlay)) return false;
        for (uint32_t lanes = ct_column_nodes_meet(&around->boxes[first / CT_COLUMN_FAN], &node); lanes;
             lanes &= lanes - 1) {
            const size_t at = first + (size_t)__builtin_ctz(lanes);
            const ct_sheet_face *face = at < around->n ? &faces->all[around->faces[at]] : from;
            if (face == from || are_apart(overlay, edges, from, face)) continue;
            if (!ct_array_grow(&overlay->met, &overlay->met_capacity, overlay->n_met + 1)) return false;
            overlay->met[overlay->n_met++] = around->faces[at];
        }
    }
    if (overlay->n_met <= MANY && (ct_sheet_is_folded(faces, 0) || ct_sheet_is_folded(faces, 1))) sort_met(overlay);
    return true;
}

/* ---- pairs of faces ---- */

/* Cuts an outline in two along the edge of a half-plane. Corners on the edge belong to both parts, as in clip. */
static void divide(const ct_sheet_outline *o, const struct half_plane *h, ct_sheet_outline *in, ct_sheet_outline *out) {
    double side[CT_SHEET_CORNERS];
    for (uint32_t i = 0; i < o->n; i++) side[i] = side_of(h, o->at[i]);
    in->n = out->n = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        const uint32_t j = i + 1 < o->n ? i + 1 : 0;
        if (side[i] >= 0) memcpy(in->at[in->n++], o->at[i], sizeof o->at[i]);
        if (side[i] <= 0) memcpy(out->at[out->n++], o->at[i], sizeof o->at[i]);
        if ((side[i] >= 0) == (side[j] >= 0) && (side[i] <= 0) == (side[j] <= 0)) continue;
        const double t = side[i] / (side[i] - side[j]);
        double at[2];
        for (int k = 0; k < 2; k++) at[k] = o->at[i][k] + t * (o->at[j][k] - o->at[i][k]);
        if ((side[i] >= 0) != (side[j] >= 0)) memcpy(in->at[in->n++], at, sizeof at);
        if ((side[i] <= 0) != (side[j] <= 0)) memcpy(out->at[out->n++], at, sizeof at);
    }
}

/* Takes from piece i what the half-planes have in common; what is left of it becomes pieces. */
static bool cut_out(ct_sheet_overlay *overlay, size_t i, const struct half_plane *h, int n) {
    ct_sheet_outline whole, rest[2], part;
    const ct_sheet_outline *left = &whole;
    const size_t last = overlay->n - 1;
    copy(&overlay->pieces[i], &whole);
    if (i != last) copy(&overlay->pieces[last], &overlay->pieces[i]);
    overlay->n = last;
    for (int k = 0; k < n; left = &rest[k % 2], k++) {
        divide(left, &h[k], &rest[k % 2], &part);
        if (!add_piece(overlay, &part)) return false;
    }
    if (!is_nothing(overlay, left)) return true;
    /* It was rounding: all is as before. */
    if (i != last) copy(&overlay->pieces[i], &overlay->pieces[last]);
    copy(&whole, &overlay->pieces[i]);
    overlay->n = last + 1;
    return true;
}

/* Takes from all pieces where the face is between the two others. */
static bool hide_behind(ct_sheet_overlay *overlay, const ct_sheet_face *face) {
    const double by = CLOSE * overlay->faces->size;
    const struct half_plane h[5] = {edge_of(face, 0), edge_of(face, 1), edge_of(face, 2),
                                    higher(face, overlay->lower, by), higher(overlay->upper, face, by)};
    /* Pieces that a cut adds lie behind those that it was made of: they have nothing in common with the face. */
    for (size_t i = overlay->n; i-- > 0;) {
        const ct_sheet_outline *piece = &overlay->pieces[i];
        bool is_beside = false; /* as most are: one half-plane says so */
        for (int k = 0; k < 5 && !is_beside; k++)
            is_beside = misses(overlay, &h[k], (const double(*)[2])piece->at, piece->n);
        if (!is_beside && !cut_out(overlay, i, h, 5)) return false;
    }
    return true;
}

/* Of the pieces that there are, up to the higher of both faces. */
static ct_column_box box_of(const ct_sheet_outline *o, const ct_sheet_face *lower, const ct_sheet_face *upper) {
    ct_column_box box = {.lo = {INFINITY, INFINITY, INFINITY}, .hi = {-INFINITY, -INFINITY, -INFINITY}};
    for (uint32_t i = 0; i < o->n; i++) {
        const double at[2][3] = {{o->at[i][0], o->at[i][1], ct_sheet_height(lower, o->at[i])},
                                 {o->at[i][0], o->at[i][1], ct_sheet_height(upper, o->at[i])}};
        for (int k = 0; k < 3; k++) {
            if (at[0][k] < box.lo[k]) box.lo[k] = at[0][k];
            if (at[1][k] > box.hi[k]) box.hi[k] = at[1][k];
        }
    }
    return box;
}

static bool do_meet(const ct_column_box *a, const ct_column_box *b) {
    for (int k = 0; k < 3; k++)
        if (a->lo[k] > b->hi[k] || a->hi[k] < b->lo[k]) return false;
    return true;
}

/* Takes what a face hides that meets the box of the pieces. False: out of memory, or cancelled. */
static bool hide(ct_sheet_overlay *overlay, size_t i, const ct_column_box *box) {
    const ct_sheet_face *face = &overlay->faces->all[i];
    if (face == overlay->lower || face == overlay->upper || !do_meet(&overlay->faces->boxes[i], box)) return true;
    overlay->work += overlay->n + 1;
    return hide_behind(overlay, face) && !is_cancelled(overlay);
}

static bool hide_by_tree(ct_sheet_overlay *overlay, int side, const ct_column_box *box) {
    ct_column_search search = ct_column_tree_find(&overlay->faces->tree[side], box);
    for (uint32_t i; overlay->n > 0 && ct_column_search_next(&search, &i);)
        if (!hide(overlay, overlay->faces->first[side] + i, box)) return false;
    overlay->work += search.visits / 16;
    return true;
}

/* Takes what faces between the two hide. */
static bool hide_all(ct_sheet_overlay *overlay, const ct_column_box *box) {
    bool is_folded[2];
    for (int side = 0; side < 2; side++) {
        is_folded[side] = ct_sheet_is_folded(overlay->faces, side);
        if (is_folded[side] && overlay->n_met > MANY && !hide_by_tree(overlay, side, box)) return false;
    }
    if (overlay->n_met > MANY || (!is_folded[0] && !is_folded[1])) return true;
    for (size_t n = 0; n < overlay->n_met && overlay->n > 0; n++)
        if (is_folded[overlay->faces->all[overlay->met[n]].side] && !hide(overlay, overlay->met[n], box)) return false;
    return true;
}

bool ct_sheet_overlay_pair(ct_sheet_overlay *overlay, const ct_sheet_face *to) {
    const ct_sheet_face *from = overlay->from, *lower = from->looks_up ? to : from, *upper = from->looks_up ? from : to;
    const double *lo = overlay->faces->lo, *hi = overlay->faces->hi, pad = ROUNDED * overlay->faces->size;
    /* A face of which only some corners take part may reach out of the window, where other faces were not gathered. */
    const struct half_plane h[] = {
        higher(upper, lower, 0),   edge_of(to, 0), edge_of(to, 1), edge_of(to, 2), above(lower, lo[2] - pad),
        below(upper, hi[2] + pad), {1, 0, -lo[0]}, {-1, 0, hi[0]}, {0, 1, -lo[1]}, {0, -1, hi[1]}};
    const int n_planes = overlay->is_amid ? 6 : 10;
    ct_sheet_outline whole = {.n = 3}, room[2];
    overlay->lower = lower;
    overlay->upper = upper;
    overlay->n = 0;
    overlay->work++;
    memcpy(whole.at, from->at, sizeof from->at);
    const ct_sheet_outline *common = clip_all(&whole, h, n_planes, room);
    if (!add_piece(overlay, common)) return false;
    if (overlay->n > 0) {
        const ct_column_box box = box_of(common, lower, upper);
        if (!hide_all(overlay, &box)) return false;
    }
    return !is_cancelled(overlay);
}

void ct_sheet_overlay_open(ct_sheet_overlay *overlay, const ct_sheet_faces *faces) {
    overlay->faces = faces;
    overlay->around.box = (ct_column_box){.lo = {1, 1, 1}, .hi = {-1, -1, -1}};
}

void ct_sheet_overlay_free(ct_sheet_overlay *overlay) {
    free(overlay->around.faces);
    free(overlay->around.boxes);
    free(overlay->met);
    free(overlay->pieces);
    memset(overlay, 0, sizeof *overlay);
}
