/* shells.c - which shells of a repaired surface face the wrong way, and turning them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/mesh/build/repair.h"

struct shell {
    double volume; /* m^3, signed, by the direction of its triangles */
    double lo[3], hi[3];
    uint32_t first; /* one of its triangles */
    bool has_triangle, is_turned;
};

/* Where shells lie in each other so often that more solid angles than this, some ten seconds' work, tell their
 * directions, these are not computed. */
#define MOST_SOLID_ANGLES ((uint64_t)1 << 28)

enum { POLL = 256 }; /* triangles or boxes between polls, some 20 us */

static void corners_of(const ct_soup *soup, size_t t, const double from[3], double p[3][3]) {
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 3; k++)
            p[c][k] = (double)soup->positions[3 * (size_t)soup->triangles[3 * t + (size_t)c] + (size_t)k] - from[k];
}

static double determinant(double p[3][3]) {
    return p[0][0] * (p[1][1] * p[2][2] - p[1][2] * p[2][1]) + p[0][1] * (p[1][2] * p[2][0] - p[1][0] * p[2][2]) +
           p[0][2] * (p[1][0] * p[2][1] - p[1][1] * p[2][0]);
}

/* The solid angle of a triangle seen from the origin, over 2 (Van Oosterom and Strackee 1983). */
static double half_solid_angle(double p[3][3]) {
    double size[3], dot[3];
    for (int c = 0; c < 3; c++) {
        const double *a = p[c], *b = p[(c + 1) % 3];
        size[c] = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
        dot[c] = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    }
    return atan2(determinant(p), size[0] * size[1] * size[2] + dot[0] * size[2] + dot[1] * size[0] + dot[2] * size[1]);
}

/* False: cancelled. */
static bool measure_shells(const ct_soup *soup, const uint32_t *shell, struct shell *shells, size_t n_shells) {
    static const double origin[3] = {0, 0, 0};
    double p[3][3], from[3];
    for (size_t s = 0; s < n_shells; s++)
        for (int k = 0; k < 3; k++) shells[s].lo[k] = INFINITY, shells[s].hi[k] = -INFINITY;
    for (size_t t = 0; t < soup->n_triangles; t++) {
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        struct shell *of = &shells[shell[t]];
        if (!of->has_triangle) of->first = (uint32_t)t;
        of->has_triangle = true;
        corners_of(soup, of->first, origin, p);
        memcpy(from, p[0], sizeof from); /* near the shell, so that a small one far away loses no digits */
        corners_of(soup, t, from, p);
        of->volume += determinant(p) / 6;
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < 3; k++) {
                of->lo[k] = fmin(of->lo[k], p[c][k] + from[k]);
                of->hi[k] = fmax(of->hi[k], p[c][k] + from[k]);
            }
    }
    return true;
}

static bool box_holds(const struct shell *outer, const struct shell *inner) {
    for (int k = 0; k < 3; k++)
        if (inner->lo[k] < outer->lo[k] || inner->hi[k] > outer->hi[k]) return false;
    return true;
}

/* ---- which shells lie in others ---- */

/* Shells ordered along a space-filling curve by the middles of their boxes, and a tree over them: each FAN nodes of a
 * level have one parent, whose box bounds theirs. */
enum { FAN = 8, MOST_LEVELS = 12, AXIS_BITS = 10 };

struct placed_shell {
    uint32_t key, shell;
};

struct nest {
    const ct_soup *soup;
    struct shell *shells;
    struct placed_shell *order; /* [n] shells that have triangles */
    struct shell *nodes;        /* boxes: of the shells in order, then level by level up to the root */
    uint32_t level[MOST_LEVELS + 1], n_levels, n;
    uint32_t *first, *list; /* the triangles of shell s are list[first[s]] to list[first[s + 1] - 1], rising */
};

static int by_key(const void *a, const void *b) {
    const struct placed_shell *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->shell < y->shell ? -1 : x->shell > y->shell;
}

static uint32_t key_of(const struct shell *s, const struct shell *all) {
    uint32_t key = 0;
    for (int k = 0; k < 3; k++) {
        const double side = all->hi[k] - all->lo[k];
        const double at = side > 0 ? (0.5 * (s->lo[k] + s->hi[k]) - all->lo[k]) / side * (1 << AXIS_BITS) : 0;
        const uint32_t cell = at > 0 ? (at < (1 << AXIS_BITS) ? (uint32_t)at : (1 << AXIS_BITS) - 1) : 0;
        for (int bit = 0; bit < AXIS_BITS; bit++) key |= (cell >> bit & 1) << (3 * bit + k);
    }
    return key;
}

static void extend(struct shell *box, const struct shell *by) {
    for (int k = 0; k < 3; k++) box->lo[k] = fmin(box->lo[k], by->lo[k]), box->hi[k] = fmax(box->hi[k], by->hi[k]);
}

/* False: out of memory, or cancelled. */
static bool order_shells(struct nest *nest, size_t n_shells) {
    struct shell all = {.lo = {INFINITY, INFINITY, INFINITY}, .hi = {-INFINITY, -INFINITY, -INFINITY}};
    for (size_t s = 0; s < n_shells; s++) {
        if (CT_POLL_EVERY(s, POLL) && ct_is_cancelled()) return false;
        if (nest->shells[s].has_triangle) extend(&all, &nest->shells[s]);
    }
    for (size_t s = 0; s < n_shells; s++) {
        if (CT_POLL_EVERY(s, POLL) && ct_is_cancelled()) return false;
        if (nest->shells[s].has_triangle)
            nest->order[nest->n++] = (struct placed_shell){key_of(&nest->shells[s], &all), (uint32_t)s};
    }
    return ct_sort_large(nest->order, nest->n, sizeof *nest->order, by_key);
}

static bool make_nodes(struct nest *nest) {
    for (uint32_t i = 0; i < nest->n; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return false;
        nest->nodes[i] = nest->shells[nest->order[i].shell];
    }
    uint32_t begin = 0, end = nest->n;
    nest->level[nest->n_levels++] = 0;
    while (end - begin > 1) {
        nest->level[nest->n_levels++] = end;
        uint32_t to = end;
        for (uint32_t i = begin; i < end; i++) {
            if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return false;
            if ((i - begin) % FAN == 0)
                nest->nodes[to++] = nest->nodes[i];
            else
                extend(&nest->nodes[to - 1], &nest->nodes[i]);
        }
        begin = end;
        end = to;
    }
    nest->level[nest->n_levels] = end;
    return true;
}

static bool list_triangles(struct nest *nest, const uint32_t *shell, size_t n_shells) {
    const size_t n = nest->soup->n_triangles;
    for (size_t t = 0; t < n; t++) {
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        nest->first[shell[t] + 2]++;
    }
    for (size_t s = 0; s < n_shells; s++) {
        if (CT_POLL_EVERY(s, POLL) && ct_is_cancelled()) return false;
        nest->first[s + 2] += nest->first[s + 1];
    }
    for (size_t t = 0; t < n; t++) {
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        nest->list[nest->first[shell[t] + 1]++] = (uint32_t)t;
    }
    return true;
}

/* False: out of memory, or cancelled. */
static bool make_nest(struct nest *nest, const uint32_t *shell, size_t n_shells) {
    nest->order = malloc((n_shells + 1) * sizeof *nest->order);
    nest->nodes = malloc((n_shells + n_shells / (FAN - 1) + MOST_LEVELS + 1) * sizeof *nest->nodes);
    nest->first = calloc(n_shells + 2, sizeof *nest->first);
    nest->list = malloc((nest->soup->n_triangles + 1) * sizeof *nest->list);
    return nest->order && nest->nodes && nest->first && nest->list && order_shells(nest, n_shells) &&
           make_nodes(nest) && list_triangles(nest, shell, n_shells);
}

static void free_nest(struct nest *nest) {
    free(nest->order);
    free(nest->nodes);
    free(nest->first);
    free(nest->list);
}

/* The shells around a shell: those whose box holds its own, one after the other. */
struct around {
    const struct nest *nest;
    size_t shell;
    uint32_t stack[MOST_LEVELS * FAN], n;
    uint64_t n_visited;
};

static void begin_around(struct around *a, const struct nest *nest, size_t shell) {
    *a = (struct around){.nest = nest, .shell = shell, .n = nest->n > 0};
    a->stack[0] = nest->level[nest->n_levels] - 1;
}

/* False: there is no other, or cancelled. */
static bool next_around(struct around *a, size_t *found) {
    const struct nest *nest = a->nest;
    while (a->n) {
        const uint32_t node = a->stack[--a->n];
        if (CT_POLL_EVERY(++a->n_visited, POLL) && ct_is_cancelled()) return false;
        if (!box_holds(&nest->nodes[node], &nest->shells[a->shell])) continue;
        if (node < nest->n) {
            *found = nest->order[node].shell;
            if (*found != a->shell) return true;
            continue;
        }
        uint32_t l = 1;
        while (node >= nest->level[l + 1]) l++;
        const uint32_t first = nest->level[l - 1] + (node - nest->level[l]) * FAN, end = nest->level[l];
        for (uint32_t i = first; i < end && i < first + FAN; i++) a->stack[a->n++] = i;
    }
    return false;
}

static bool may_be_wrong(const struct shell *shell, bool was_mixed) {
    return shell->has_triangle && !(shell->volume > 0 && !was_mixed);
}

/* How much work the depths of all shells are that may face the wrong way: solid angles, and boxes looked at. Ends above
 * the most that is done. */
static uint64_t count_angles(const struct nest *nest, size_t n_shells, const bool *was_mixed) {
    uint64_t angles = 0;
    for (size_t s = 0; s < n_shells && angles <= MOST_SOLID_ANGLES; s++) {
        struct around around;
        if (CT_POLL_EVERY(s, POLL) && ct_is_cancelled()) break;
        if (!may_be_wrong(&nest->shells[s], was_mixed[s])) continue;
        begin_around(&around, nest, s);
        for (size_t i; next_around(&around, &i) && angles <= MOST_SOLID_ANGLES;)
            angles += nest->first[i + 1] - nest->first[i];
        angles += around.n_visited;
    }
    return angles;
}

/* The winding number of a shell around a point. */
static double winding_of(const struct nest *nest, size_t shell, const double at[3]) {
    double p[3][3], winding = 0;
    for (uint32_t i = nest->first[shell]; i < nest->first[shell + 1]; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) break;
        corners_of(nest->soup, nest->list[i], at, p);
        winding += half_solid_angle(p) / (2 * M_PI);
    }
    return winding;
}

/* In how many other shells the middle of a shell's first triangle lies. */
static uint32_t depth_of(const struct nest *nest, size_t s) {
    static const double origin[3] = {0, 0, 0};
    double p[3][3], at[3];
    corners_of(nest->soup, nest->shells[s].first, origin, p);
    for (int k = 0; k < 3; k++) at[k] = (p[0][k] + p[1][k] + p[2][k]) / 3;
    uint32_t depth = 0;
    struct around around;
    begin_around(&around, nest, s);
    for (size_t i; next_around(&around, &i);) depth += fabs(winding_of(nest, i, at)) > 0.5;
    return depth;
}

/* Finds which shells are turned. */
static ct_status find_turned(const struct nest *nest, size_t n_shells, const bool *was_mixed, ct_error *error) {
    if (count_angles(nest, n_shells, was_mixed) > MOST_SOLID_ANGLES)
        return ct_fail(error, CT_INVALID_MESH, "triangles",
                       "the repair cannot find the direction of the %zu shells of %zu triangles in reasonable "
                       "time, as they lie in too many others: turn those that face inwards by hand",
                       n_shells, nest->soup->n_triangles);
    for (size_t s = 0; s < n_shells; s++) {
        if (ct_is_cancelled()) return ct_fail_cancelled(error);
        if (!may_be_wrong(&nest->shells[s], was_mixed[s])) continue;
        const uint32_t depth = depth_of(nest, s);
        const bool is_inward = nest->shells[s].volume < 0;
        /* A consistent shell inside others is kept: a cavity faces inwards. */
        nest->shells[s].is_turned = depth == 0 ? is_inward : was_mixed[s] && is_inward != (depth % 2 == 1);
    }
    return CT_OK;
}

ct_status ct_turn_shells(ct_soup *soup, const uint32_t *shell, size_t n_shells, const bool *was_mixed,
                         ct_error *error) {
    struct nest nest = {.soup = soup, .shells = calloc(n_shells + 1, sizeof *nest.shells)};
    ct_status status = CT_OK;
    if (!nest.shells || !measure_shells(soup, shell, nest.shells, n_shells) || !make_nest(&nest, shell, n_shells))
        status = ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory for %zu shells", n_shells);
    if (status == CT_OK) status = find_turned(&nest, n_shells, was_mixed, error);
    for (size_t t = 0; t < soup->n_triangles && status == CT_OK; t++) {
        uint32_t *corner = soup->triangles + 3 * t, second = corner[1];
        if (CT_POLL_EVERY(t, 4 * POLL) && ct_is_cancelled()) status = ct_fail_cancelled(error);
        if (!nest.shells[shell[t]].is_turned) continue;
        corner[1] = corner[2];
        corner[2] = second;
    }
    free_nest(&nest);
    free(nest.shells);
    return status;
}
