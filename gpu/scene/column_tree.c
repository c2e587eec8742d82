/* column_tree.c - an implicit tree of boxes over the triangles of a contact. */
#include "gpu/scene/column_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double least(double a, double b) {
    return a < b ? a : b;
}

static double most(double a, double b) {
    return a > b ? a : b;
}

ct_column_box ct_column_box_of(const ct_column_triangle *t) {
    ct_column_box box;
    for (int k = 0; k < 3; k++) {
        box.lo[k] = least(t->p[0][k], least(t->p[1][k], t->p[2][k]));
        box.hi[k] = most(t->p[0][k], most(t->p[1][k], t->p[2][k]));
    }
    return box;
}

static bool meet(const ct_column_box *a, const ct_column_box *b) {
    return a->lo[0] <= b->hi[0] && b->lo[0] <= a->hi[0] && a->lo[1] <= b->hi[1] && b->lo[1] <= a->hi[1] &&
           a->lo[2] <= b->hi[2] && b->lo[2] <= a->hi[2];
}

/* ---- order ---- */

static int by_position(const double *p, const double *q) {
    for (int k = 0; k < 3; k++)
        if (p[k] != q[k]) return p[k] < q[k] ? -1 : 1;
    return 0;
}

static void sort_corners(const ct_column_triangle *t, const double *corners[3]) {
    for (int k = 0; k < 3; k++) {
        int at = k;
        for (; at > 0 && by_position(t->p[k], corners[at - 1]) < 0; at--) corners[at] = corners[at - 1];
        corners[at] = t->p[k];
    }
}

/* Along the curve; at the same place of it by their corners, so that the order of a mesh does not matter. */
static int by_place(const void *a, const void *b) {
    const ct_column_triangle *s = a, *t = b;
    const double *p[3], *q[3];
    if (s->place != t->place) return s->place < t->place ? -1 : 1;
    sort_corners(s, p);
    sort_corners(t, q);
    for (int k = 0; k < 3; k++) {
        const int order = by_position(p[k], q[k]);
        if (order) return order;
    }
    return 0;
}

/* The bits of a number of 2^26 and less, each followed by a zero. */
static uint64_t spaced(uint64_t x) {
    x = (x | x << 16) & 0x0000ffff0000ffff;
    x = (x | x << 8) & 0x00ff00ff00ff00ff;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0f;
    x = (x | x << 2) & 0x3333333333333333;
    return (x | x << 1) & 0x5555555555555555;
}

/* Sorts triangles by the places of their middles on a Morton curve over u and v. */
static void sort_triangles(ct_column_tree *tree) {
    double lo[2] = {INFINITY, INFINITY}, hi[2] = {-INFINITY, -INFINITY};
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < tree->n_triangles; i++) {
            const ct_column_box box = ct_column_box_of(&tree->triangles[i]);
            if (pass) tree->triangles[i].place = 0;
            for (int k = 0; k < 2; k++) {
                const double middle = 0.5 * (box.lo[k] + box.hi[k]), extent = hi[k] - lo[k];
                lo[k] = least(lo[k], middle);
                hi[k] = most(hi[k], middle);
                if (pass && extent > 0)
                    tree->triangles[i].place |= spaced((uint64_t)((middle - lo[k]) / extent * 0x1p26)) << k;
            }
        }
    qsort(tree->triangles, tree->n_triangles, sizeof *tree->triangles, by_place);
}

/* ---- making ---- */

static uint32_t parents_of(uint32_t n) {
    return n / CT_COLUMN_FAN + (n % CT_COLUMN_FAN > 0);
}

/* The largest float that is not above x. */
static float below(double x) {
    const float f = (float)x;
    return (double)f > x ? nextafterf(f, -INFINITY) : f;
}

static float above(double x) {
    return -below(-x);
}

/* The triangles' boxes, or the nodes', are children of the nodes of a level. */
static void set_child(ct_column_node *nodes, uint32_t child, const ct_column_box *box) {
    ct_column_node *node = &nodes[child / CT_COLUMN_FAN];
    for (int k = 0; k < 3; k++) {
        node->lo[k][child % CT_COLUMN_FAN] = below(box->lo[k]);
        node->hi[k][child % CT_COLUMN_FAN] = above(box->hi[k]);
    }
}

static ct_column_box box_of_node(const ct_column_node *node) {
    ct_column_box box;
    for (int k = 0; k < 3; k++) {
        box.lo[k] = INFINITY;
        box.hi[k] = -INFINITY;
        for (int lane = 0; lane < CT_COLUMN_FAN; lane++) {
            box.lo[k] = least(box.lo[k], (double)node->lo[k][lane]);
            box.hi[k] = most(box.hi[k], (double)node->hi[k][lane]);
        }
    }
    return box;
}

bool ct_column_tree_make(ct_column_tree *tree) {
    static const ct_v4f infinite = {INFINITY, INFINITY, INFINITY, INFINITY};
    if (tree->n_triangles > UINT32_MAX / 2) return false;
    const uint32_t n = (uint32_t)tree->n_triangles;
    if (n == 0) return true;
    sort_triangles(tree);
    for (uint32_t in_level = n; tree->n_levels == 0 || in_level > 1; tree->n_levels++) {
        in_level = parents_of(in_level);
        tree->level[tree->n_levels + 1] = tree->level[tree->n_levels] + in_level;
    }
    const uint32_t n_nodes = tree->level[tree->n_levels];
    tree->boxes = malloc(n * sizeof *tree->boxes);
    tree->nodes = aligned_alloc(_Alignof(ct_column_node), n_nodes * sizeof *tree->nodes);
    if (!tree->boxes || !tree->nodes) return false;
    for (uint32_t i = 0; i < n_nodes; i++)
        for (int k = 0; k < 3; k++) {
            tree->nodes[i].lo[k] = infinite;
            tree->nodes[i].hi[k] = -infinite;
        }
    for (uint32_t i = 0; i < n; i++) {
        tree->boxes[i] = ct_column_box_of(&tree->triangles[i]);
        set_child(tree->nodes, i, &tree->boxes[i]);
    }
    for (uint32_t level = 1; level < tree->n_levels; level++)
        for (uint32_t i = tree->level[level - 1]; i < tree->level[level]; i++) {
            const ct_column_box box = box_of_node(&tree->nodes[i]);
            set_child(tree->nodes + tree->level[level], i - tree->level[level - 1], &box);
        }
    return true;
}

void ct_column_tree_free(ct_column_tree *tree) {
    free(tree->triangles);
    free(tree->boxes);
    free(tree->nodes);
    memset(tree, 0, sizeof *tree);
}

/* ---- searching ---- */

/* A bit for each child whose box meets the search's. */
static uint32_t meeting(const ct_column_node *node, const ct_column_search *s) {
    return ct_v4i_signs((node->lo[0] <= s->hi[0]) & (node->hi[0] >= s->lo[0]) & (node->lo[1] <= s->hi[1]) &
                        (node->hi[1] >= s->lo[1]) & (node->lo[2] <= s->hi[2]) & (node->hi[2] >= s->lo[2]));
}

static void open_node(ct_column_search *s, uint32_t level, uint32_t node) {
    s->stack[s->depth].level = level;
    s->stack[s->depth].first = node * CT_COLUMN_FAN;
    s->stack[s->depth].lanes = meeting(&s->tree->nodes[s->tree->level[level] + node], s);
    s->depth += s->stack[s->depth].lanes != 0;
    s->visits += CT_COLUMN_FAN;
}

ct_column_search ct_column_tree_find(const ct_column_tree *tree, const ct_column_box *box) {
    ct_column_search search = {.tree = tree, .box = *box};
    for (int k = 0; k < 3; k++) {
        const float lo = below(box->lo[k]), hi = above(box->hi[k]);
        search.lo[k] = (ct_v4f){lo, lo, lo, lo};
        search.hi[k] = (ct_v4f){hi, hi, hi, hi};
    }
    if (tree->n_levels > 0) open_node(&search, tree->n_levels - 1, 0);
    return search;
}

const ct_column_triangle *ct_column_search_next(ct_column_search *s) {
    while (s->depth > 0) {
        const uint32_t top = s->depth - 1, level = s->stack[top].level;
        const uint32_t child = s->stack[top].first + (uint32_t)__builtin_ctz(s->stack[top].lanes);
        s->stack[top].lanes &= s->stack[top].lanes - 1;
        s->depth -= s->stack[top].lanes == 0;
        if (level > 0)
            open_node(s, level - 1, child);
        else if (meet(&s->box, &s->tree->boxes[child]))
            return &s->tree->triangles[child];
    }
    return NULL;
}
