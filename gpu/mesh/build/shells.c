/* shells.c - which shells of a surface face the wrong way, by rays that count what lies around them, and turning
 * them. */
#include "gpu/mesh/build/shells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/base/vec.h"

/* Where shells lie in each other so often that rays cross more triangles than this, some ten seconds' work, directions
 * are not told. */
#define MOST_CROSSINGS ((uint64_t)1 << 28)

enum { POLL = 256 }; /* triangles or boxes between polls, some 20 us */

static void corners_of(const ct_soup *soup, size_t t, const double from[3], double p[3][3]) {
    for (int c = 0; c < 3; c++)
        for (int k = 0; k < 3; k++)
            p[c][k] = (double)soup->positions[3 * (size_t)soup->triangles[3 * t + (size_t)c] + (size_t)k] - from[k];
}

/* ---- volumes ---- */

/* Relative errors: of a sum of volumes in double, and of a coordinate in float32. */
static const double SUM_ERROR = 1e-12, FLOAT_ERROR = 0x1p-24;

/* How much the volume changes by, at most, as a triangle's corners are rounded. p: the corners, counted from `from`. */
static double rounding_of(const double p[3][3], const double from[3]) {
    double a[3], b[3], normal[3], most = 0;
    ct_sub3(p[1], p[0], a);
    ct_sub3(p[2], p[0], b);
    ct_cross3(a, b, normal);
    for (int k = 0; k < 3; k++) {
        const double far = fmax(fmax(fabs(p[0][k] + from[k]), fabs(p[1][k] + from[k])), fabs(p[2][k] + from[k]));
        most += fabs(normal[k]) / 2 * FLOAT_ERROR * far;
    }
    return most;
}

/* flat: [n_shells] the largest volume, m^3, that rounding alone can make. A shell with no more is flat, and has no
 * direction. False: cancelled. */
static bool measure_shells(const ct_soup *soup, const uint32_t *shell, ct_shell *shells, size_t n_shells,
                           double *flat) {
    static const double origin[3] = {0, 0, 0};
    memset(shells, 0, n_shells * sizeof *shells);
    for (size_t t = 0; t < soup->n_triangles; t++) {
        double p[3][3], from[3], normal[3];
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        ct_shell *of = &shells[shell[t]];
        if (!of->n_triangles++) of->first = (uint32_t)t;
        corners_of(soup, of->first, origin, p);
        memcpy(from, p[0], sizeof from); /* near the shell, so that a small one far away loses no digits */
        corners_of(soup, t, from, p);
        ct_cross3(p[1], p[2], normal);
        of->volume += ct_dot3(p[0], normal) / 6;
        for (int k = 0; k < 3; k++) flat[shell[t]] += SUM_ERROR * fabs(p[0][k] * normal[k]) / 6;
        flat[shell[t]] += rounding_of((const double(*)[3])p, from);
    }
    return true;
}

/* ---- a tree over the triangles ---- */

struct box {
    float lo[3], hi[3];
};

/* Triangles along a space-filling curve, by the middles of their boxes; each FAN nodes of a level have one parent,
 * whose box bounds theirs. */
enum { FAN = 8, MOST_LEVELS = 12, AXIS_BITS = 10 };

struct placed {
    uint32_t key, triangle;
};

struct tree {
    const ct_soup *soup;
    struct placed *order; /* [n] */
    struct box *nodes;    /* of the triangles in order, then level by level up to the root */
    uint32_t level[MOST_LEVELS + 1], n_levels;
};

static void extend(struct box *box, const struct box *by) {
    for (int k = 0; k < 3; k++) box->lo[k] = fminf(box->lo[k], by->lo[k]), box->hi[k] = fmaxf(box->hi[k], by->hi[k]);
}

static struct box box_of(const ct_soup *soup, size_t t) {
    struct box box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    for (size_t c = 0; c < 3; c++) {
        struct box corner;
        memcpy(corner.lo, soup->positions + 3 * (size_t)soup->triangles[3 * t + c], sizeof corner.lo);
        memcpy(corner.hi, corner.lo, sizeof corner.hi);
        extend(&box, &corner);
    }
    return box;
}

static uint32_t key_of(const struct box *box, const struct box *all) {
    uint32_t key = 0;
    for (int k = 0; k < 3; k++) {
        const double side = (double)all->hi[k] - (double)all->lo[k],
                     middle = 0.5 * ((double)box->lo[k] + (double)box->hi[k]);
        const double at = side > 0 ? (middle - (double)all->lo[k]) / side * (1 << AXIS_BITS) : 0;
        const uint32_t cell = at > 0 ? (at < (1 << AXIS_BITS) ? (uint32_t)at : (1 << AXIS_BITS) - 1) : 0;
        for (int bit = 0; bit < AXIS_BITS; bit++) key |= (cell >> bit & 1) << (3 * bit + k);
    }
    return key;
}

static int by_key(const void *a, const void *b) {
    const struct placed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->triangle < y->triangle ? -1 : x->triangle > y->triangle;
}

static bool order_triangles(struct tree *tree) {
    const size_t n = tree->soup->n_triangles;
    struct box all = box_of(tree->soup, 0);
    for (size_t t = 0; t < n; t++) {
        const struct box box = box_of(tree->soup, t);
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        extend(&all, &box);
    }
    for (size_t t = 0; t < n; t++) {
        const struct box box = box_of(tree->soup, t);
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        tree->order[t] = (struct placed){key_of(&box, &all), (uint32_t)t};
    }
    return ct_sort_large(tree->order, n, sizeof *tree->order, by_key);
}

static bool make_nodes(struct tree *tree) {
    uint32_t begin = 0, end = (uint32_t)tree->soup->n_triangles;
    for (uint32_t i = 0; i < end; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return false;
        tree->nodes[i] = box_of(tree->soup, tree->order[i].triangle);
    }
    tree->level[tree->n_levels++] = 0;
    while (end - begin > 1) {
        tree->level[tree->n_levels++] = end;
        uint32_t to = end;
        for (uint32_t i = begin; i < end; i++) {
            if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return false;
            if ((i - begin) % FAN == 0)
                tree->nodes[to++] = tree->nodes[i];
            else
                extend(&tree->nodes[to - 1], &tree->nodes[i]);
        }
        begin = end;
        end = to;
    }
    tree->level[tree->n_levels] = end;
    return true;
}

/* False: out of memory, or cancelled. */
static bool make_tree(struct tree *tree, const ct_soup *soup) {
    const size_t n = soup->n_triangles;
    *tree = (struct tree){.soup = soup, .order = malloc((n + 1) * sizeof *tree->order)};
    tree->nodes = malloc((n + n / (FAN - 1) + MOST_LEVELS + 1) * sizeof *tree->nodes);
    return tree->order && tree->nodes && order_triangles(tree) && make_nodes(tree);
}

static void free_tree(struct tree *tree) {
    free(tree->order);
    free(tree->nodes);
}

/* ---- rays ---- */

struct ray {
    double at[3], direction[3], inverse[3];
};

static bool may_cross(const struct ray *ray, const struct box *box) {
    double from = 0, to = INFINITY;
    for (int k = 0; k < 3; k++) {
        const double a = ((double)box->lo[k] - ray->at[k]) * ray->inverse[k],
                     b = ((double)box->hi[k] - ray->at[k]) * ray->inverse[k];
        from = fmax(from, fmin(a, b) - 1e-12 * fabs(fmin(a, b)));
        to = fmin(to, fmax(a, b) + 1e-12 * fabs(fmax(a, b)));
    }
    return from <= to;
}

/* 1: the ray leaves through the triangle's outer side, -1: it enters, 0: it passes by. *is_close: too close to an edge,
 * or to its start, to tell. */
static int crossing(const struct ray *ray, double p[3][3], bool *is_close) {
    double side[3], size[3], normal[3], u[3], v[3];
    for (int c = 0; c < 3; c++) { /* on which side of the ray each edge runs */
        double turned[3];
        ct_cross3(p[c], p[(c + 1) % 3], turned);
        side[c] = ct_dot3(turned, ray->direction);
        size[c] = 1e-12 * sqrt(ct_dot3(p[c], p[c]) * ct_dot3(p[(c + 1) % 3], p[(c + 1) % 3]));
    }
    const bool is_left = side[0] > -size[0] && side[1] > -size[1] && side[2] > -size[2],
               is_right = side[0] < size[0] && side[1] < size[1] && side[2] < size[2];
    if (!is_left && !is_right) return 0;
    ct_sub3(p[1], p[0], u);
    ct_sub3(p[2], p[0], v);
    ct_cross3(u, v, normal);
    const double height = ct_dot3(normal, p[0]), along = ct_dot3(normal, ray->direction),
                 level = 1e-9 * sqrt(ct_dot3(normal, normal) * ct_dot3(p[0], p[0]));
    if ((height > level && along < 0) || (height < -level && along > 0)) return 0; /* it lies behind */
    *is_close = *is_close || (is_left && is_right) || fabs(side[0]) < size[0] || fabs(side[1]) < size[1] ||
                fabs(side[2]) < size[2] || fabs(height) <= level;
    return along > 0 ? 1 : -1;
}

/* What lies around a point: for each shell whose triangles a ray from there crosses how often it leaves less how
 * often it enters, which is its winding number there. */
struct around {
    int32_t *winding; /* [n_shells] 0 but for those listed */
    uint32_t *list;   /* [n] shells */
    uint32_t n;
};

static void forget(struct around *around) {
    for (uint32_t i = 0; i < around->n; i++) around->winding[around->list[i]] = 0;
    around->n = 0;
}

struct judge {
    struct tree tree;
    uint32_t *members, *first_member; /* [n_triangles] triangles by shell; [n_shells + 1] */
    const uint32_t *shell;
    ct_shell *shells;
    const double *flat;
    size_t n_shells;
    struct around around;
    uint8_t *was_crossed; /* [n_shells] it is in around.list */
    uint64_t n_crossings;
};

static void note_crossing(struct judge *j, uint32_t shell, int side) {
    struct around *around = &j->around;
    if (!j->was_crossed[shell]) around->list[around->n++] = shell;
    j->was_crossed[shell] = 1;
    around->winding[shell] += side;
    j->n_crossings++;
}

/* Whether the ray tells: it comes too close to no edge. Shell `own` does not count. */
static bool cast(struct judge *j, const struct ray *ray, uint32_t own) {
    const struct tree *tree = &j->tree;
    uint32_t stack[MOST_LEVELS * FAN], n = 1;
    uint64_t steps = 0;
    bool is_close = false;
    stack[0] = tree->level[tree->n_levels] - 1;
    while (n && !is_close) {
        const uint32_t node = stack[--n];
        if (CT_POLL_EVERY(++steps, POLL) && ct_is_cancelled()) break;
        if (!may_cross(ray, &tree->nodes[node])) continue;
        if (node >= tree->soup->n_triangles) {
            uint32_t l = 1;
            while (node >= tree->level[l + 1]) l++;
            const uint32_t first = tree->level[l - 1] + (node - tree->level[l]) * FAN, end = tree->level[l];
            for (uint32_t i = first; i < end && i < first + FAN; i++) stack[n++] = i;
            continue;
        }
        const uint32_t t = tree->order[node].triangle;
        if (j->shell[t] == own) continue;
        double p[3][3];
        corners_of(tree->soup, t, ray->at, p);
        const int side = crossing(ray, p, &is_close);
        if (side) note_crossing(j, j->shell[t], side);
    }
    for (uint32_t i = 0; i < j->around.n; i++) j->was_crossed[j->around.list[i]] = 0;
    return !is_close;
}

/* Directions that no edge of a modelled body is likely to have. */
static const double DIRECTIONS[][3] = {{0.5377, 0.7213, 0.4367},  {-0.3181, 0.6099, 0.7258},
                                       {0.7411, -0.2903, 0.6053}, {-0.6367, -0.5179, 0.5713},
                                       {0.2671, 0.4591, -0.8473}, {-0.8101, 0.3769, -0.4489}};
enum { RAYS = sizeof DIRECTIONS / sizeof *DIRECTIONS };

/* Places of a shell that are looked at: shells may cross, and then not all of it lies in the same others. */
enum { PLACES = 7 };

/* Looks around from the middle of one of the shell's triangles, by place; from others, and in other directions, while
 * that comes too close to an edge or another shell. Where all do, the last one counts. */
static void look_around(struct judge *j, uint32_t s, uint32_t place) {
    static const double origin[3] = {0, 0, 0};
    const uint32_t n = j->shells[s].n_triangles, *members = j->members + j->first_member[s];
    uint32_t i = (uint32_t)((uint64_t)place * n / PLACES);
    for (int r = 0; r < RAYS; r++) {
        struct ray ray;
        double p[3][3];
        corners_of(j->tree.soup, members[i], origin, p);
        for (int k = 0; k < 3; k++) {
            ray.at[k] = (p[0][k] + p[1][k] + p[2][k]) / 3;
            ray.direction[k] = DIRECTIONS[r][k];
            ray.inverse[k] = 1 / DIRECTIONS[r][k];
        }
        forget(&j->around);
        if (cast(j, &ray, s) || ct_is_cancelled()) return;
        i = (i + n / RAYS + 1) % n; /* on to another of its triangles */
    }
}

/* False: out of memory, or cancelled. */
static bool list_members(struct judge *j, const ct_soup *soup) {
    j->members = malloc((soup->n_triangles + 1) * sizeof *j->members);
    j->first_member = calloc(j->n_shells + 2, sizeof *j->first_member);
    if (!j->members || !j->first_member) return false;
    uint32_t *const next = j->first_member + 1; /* moves each shell's entry to its end, which is the next one's begin */
    for (size_t s = 1; s < j->n_shells; s++) next[s] = next[s - 1] + j->shells[s - 1].n_triangles;
    for (size_t t = 0; t < soup->n_triangles; t++) {
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        j->members[next[j->shell[t]]++] = (uint32_t)t;
    }
    return true;
}

/* ---- judging ---- */

struct candidate {
    uint32_t shell, depth; /* in the most others, of all places */
    bool is_odd;           /* it lies in an odd number of others, at all places */
};

static int by_depth(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->depth != y->depth) return x->depth < y->depth ? -1 : 1;
    return x->shell < y->shell ? -1 : x->shell > y->shell;
}

static uint32_t depth_now(const struct judge *j) {
    uint32_t depth = 0;
    for (uint32_t i = 0; i < j->around.n; i++) depth += j->around.winding[j->around.list[i]] != 0;
    return depth;
}

/* With those around it turned that face the wrong way. */
static int64_t winding_now(const struct judge *j) {
    int64_t winding = 0;
    for (uint32_t i = 0; i < j->around.n; i++) {
        const uint32_t shell = j->around.list[i];
        winding += j->shells[shell].is_wrong ? -j->around.winding[shell] : j->around.winding[shell];
    }
    return winding;
}

static bool is_flat(const struct judge *j, uint32_t s) {
    return !(fabs(j->shells[s].volume) > j->flat[s]);
}

static ct_status judge_one(struct judge *j, const struct candidate *c, bool was_mixed, ct_error *error) {
    const bool is_inward = j->shells[c->shell].volume < 0;
    if (ct_is_cancelled()) return ct_fail_cancelled(error);
    if (c->depth == 0) {
        j->shells[c->shell].is_wrong = is_inward;
    } else if (was_mixed) {
        j->shells[c->shell].is_wrong = is_inward != c->is_odd;
    } else {
        bool is_wrong = false;
        for (uint32_t place = 0; place < PLACES && !is_wrong; place++) {
            look_around(j, c->shell, place);
            is_wrong = winding_now(j) < 1;
        }
        j->shells[c->shell].is_wrong = is_wrong;
    }
    return CT_OK;
}

static void measure_depth(struct judge *j, struct candidate *c) {
    c->is_odd = true;
    for (uint32_t place = 0; place < PLACES; place++) {
        look_around(j, c->shell, place);
        const uint32_t depth = depth_now(j);
        if (depth > c->depth) c->depth = depth;
        c->is_odd = c->is_odd && depth % 2 == 1;
    }
}

static ct_status fail_crowded(const struct judge *j, ct_error *error) {
    return ct_fail(
        error, CT_INVALID_MESH, "triangles",
        "the directions of the %zu shells of %zu triangles cannot be told in reasonable time, as they lie in "
        "too many others: turn those that face inwards by hand",
        j->n_shells, j->tree.soup->n_triangles);
}

static ct_status fail_no_memory(size_t n_shells, ct_error *error) {
    return ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory for %zu shells", n_shells);
}

static ct_status judge_all(struct judge *j, struct candidate *candidates, size_t n, const bool *was_mixed,
                           ct_error *error) {
    for (size_t i = 0; i < n; i++) {
        if (ct_is_cancelled()) return ct_fail_cancelled(error);
        measure_depth(j, &candidates[i]);
        if (j->n_crossings > MOST_CROSSINGS) return fail_crowded(j, error);
    }
    if (!ct_sort_large(candidates, n, sizeof *candidates, by_depth)) return fail_no_memory(j->n_shells, error);
    ct_status status = CT_OK;
    for (size_t i = 0; i < n && !status; i++)
        status = judge_one(j, &candidates[i], was_mixed && was_mixed[candidates[i].shell], error);
    return status == CT_OK && ct_is_cancelled() ? ct_fail_cancelled(error) : status;
}

/* ---- bodies that were mirrored as a whole ---- */

#define NO_ROOT UINT32_MAX

/* A root is a shell that nothing contains and that faces inwards. */
struct mirrored {
    uint32_t *root_of; /* [n_shells] what each lies in, a root itself; NO_ROOT: in none */
    bool *is_whole;    /* [n_shells] of roots: all that lies in it was mirrored with it */
};

/* Finds the root that s lies in, and whether turning all shells there turns s the right way: inwards where the winding number
 * around it is 1, outwards where it is 0, at all of its places. */
static void find_root(struct judge *j, const struct mirrored *m, uint32_t s, bool was_mixed) {
    const int64_t wanted = j->shells[s].volume > 0 ? 1 : 0;
    uint32_t root = NO_ROOT;
    bool is_right = !was_mixed;
    for (uint32_t place = 0; place < PLACES; place++) {
        uint32_t found = NO_ROOT;
        int64_t winding = 0;
        look_around(j, s, place);
        for (uint32_t i = 0; i < j->around.n; i++) {
            const uint32_t shell = j->around.list[i];
            winding -= j->around.winding[shell];
            if (!j->around.winding[shell] || m->root_of[shell] != shell) continue;
            if (found != NO_ROOT) m->is_whole[found] = m->is_whole[shell] = false; /* s lies in both */
            found = shell;
        }
        if (place && found != root) { /* s crosses one */
            if (found != NO_ROOT) m->is_whole[found] = false;
            is_right = false;
        }
        if (root == NO_ROOT) root = found;
        is_right = is_right && winding == wanted;
    }
    m->root_of[s] = root;
    if (root != NO_ROOT && !is_right) m->is_whole[root] = false;
}

static ct_status find_mirrored(struct judge *j, const struct mirrored *m, const bool *was_mixed, ct_error *error) {
    for (uint32_t s = 0; s < j->n_shells; s++) {
        const bool is_mixed = was_mixed && was_mixed[s];
        if (ct_is_cancelled()) return ct_fail_cancelled(error);
        if (m->root_of[s] == s)
            m->is_whole[s] = m->is_whole[s] && !is_mixed;
        else if (j->shells[s].n_triangles && !is_flat(j, s))
            find_root(j, m, s, is_mixed);
        if (j->n_crossings > MOST_CROSSINGS) return fail_crowded(j, error);
    }
    for (uint32_t s = 0; s < j->n_shells; s++)
        if (m->root_of[s] != NO_ROOT && m->is_whole[m->root_of[s]]) j->shells[s].is_wrong = true;
    return CT_OK;
}

/* Marks the shells in roots that were mirrored with them. candidates: [n], judged. */
static ct_status judge_mirrored(struct judge *j, const struct candidate *candidates, size_t n, const bool *was_mixed,
                                ct_error *error) {
    struct mirrored m = {malloc(j->n_shells * sizeof *m.root_of), malloc(j->n_shells * sizeof *m.is_whole)};
    size_t n_roots = 0;
    ct_status status = m.root_of && m.is_whole ? CT_OK : fail_no_memory(j->n_shells, error);
    for (size_t s = 0; s < j->n_shells && status == CT_OK; s++) m.root_of[s] = NO_ROOT, m.is_whole[s] = true;
    for (size_t i = 0; i < n && status == CT_OK; i++) {
        const uint32_t s = candidates[i].shell;
        if (candidates[i].depth || !j->shells[s].is_wrong) continue;
        m.root_of[s] = s;
        n_roots++;
    }
    if (n_roots && n_roots < j->n_shells && status == CT_OK) status = find_mirrored(j, &m, was_mixed, error);
    free(m.root_of), free(m.is_whole);
    return status;
}

ct_status ct_judge_shells(const ct_soup *soup, const uint32_t *shell, size_t n_shells, const bool *was_mixed,
                          ct_shell *shells, ct_error *error) {
    double *flat = calloc(n_shells + 1, sizeof *flat);
    struct candidate *candidates = malloc((n_shells + 1) * sizeof *candidates);
    struct judge j = {.shell = shell, .shells = shells, .flat = flat, .n_shells = n_shells};
    size_t n = 0;
    ct_status status = CT_OK;
    bool has_memory = flat && candidates && measure_shells(soup, shell, shells, n_shells, flat);
    for (uint32_t s = 0; s < n_shells && has_memory; s++)
        if (shells[s].n_triangles && !is_flat(&j, s) && (shells[s].volume < 0 || (was_mixed && was_mixed[s])))
            candidates[n++] = (struct candidate){.shell = s};
    if (n && n_shells == 1) { /* which nothing contains */
        shells[0].is_wrong = shells[0].volume < 0;
    } else if (n && has_memory) {
        j.around.winding = calloc(n_shells, sizeof *j.around.winding);
        j.around.list = malloc(n_shells * sizeof *j.around.list);
        j.was_crossed = calloc(n_shells, 1);
        has_memory =
            j.around.winding && j.around.list && j.was_crossed && list_members(&j, soup) && make_tree(&j.tree, soup);
        if (has_memory) status = judge_all(&j, candidates, n, was_mixed, error);
        if (has_memory && status == CT_OK) status = judge_mirrored(&j, candidates, n, was_mixed, error);
    }
    if (!has_memory) status = fail_no_memory(n_shells, error);
    free_tree(&j.tree);
    free(j.around.winding), free(j.around.list), free(j.was_crossed);
    free(j.members), free(j.first_member);
    free(candidates);
    free(flat);
    return status;
}

ct_status ct_turn_shells(ct_soup *soup, const uint32_t *shell, size_t n_shells, const bool *was_mixed,
                         ct_error *error) {
    ct_shell *shells = malloc((n_shells + 1) * sizeof *shells);
    ct_status status =
        shells ? ct_judge_shells(soup, shell, n_shells, was_mixed, shells, error) : fail_no_memory(n_shells, error);
    for (size_t t = 0; t < soup->n_triangles && status == CT_OK; t++) {
        uint32_t *corner = soup->triangles + 3 * t, second = corner[1];
        if (CT_POLL_EVERY(t, 4 * POLL) && ct_is_cancelled()) status = ct_fail_cancelled(error);
        if (!shells[shell[t]].is_wrong) continue;
        corner[1] = corner[2];
        corner[2] = second;
    }
    free(shells);
    return status;
}
