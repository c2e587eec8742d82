/* column_tree.c - makes the tree level by level, and searches it depth first. */
#include "gpu/after/column_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float above(double x) {
    return -ct_column_below(-x);
}

static ct_column_node node_of_none(void) {
    static const ct_v4f infinite = {INFINITY, INFINITY, INFINITY, INFINITY};
    ct_column_node node;
    for (int k = 0; k < 3; k++) {
        node.lo[k] = infinite;
        node.hi[k] = -infinite;
    }
    return node;
}

ct_column_node ct_column_node_of(const ct_column_box *box) {
    ct_column_node node;
    for (int k = 0; k < 3; k++) {
        const float lo = ct_column_below(box->lo[k]), hi = above(box->hi[k]);
        node.lo[k] = (ct_v4f){lo, lo, lo, lo};
        node.hi[k] = (ct_v4f){hi, hi, hi, hi};
    }
    return node;
}

static uint32_t parents_of(uint32_t n) {
    return n / CT_COLUMN_FAN + (n % CT_COLUMN_FAN > 0);
}

static ct_column_box box_of_node(const ct_column_node *node) {
    ct_column_box box;
    for (int k = 0; k < 3; k++) {
        float lo = INFINITY, hi = -INFINITY;
        for (int lane = 0; lane < CT_COLUMN_FAN; lane++) { /* fmin in double here ends gcc 12 for aarch64 */
            lo = node->lo[k][lane] < lo ? node->lo[k][lane] : lo;
            hi = node->hi[k][lane] > hi ? node->hi[k][lane] : hi;
        }
        box.lo[k] = lo;
        box.hi[k] = hi;
    }
    return box;
}

/* Box number `child` of those below is one of a node of the level that begins here. */
static void set_child(ct_column_node *nodes, uint32_t child, const ct_column_box *box) {
    ct_column_node *node = &nodes[child / CT_COLUMN_FAN];
    for (int k = 0; k < 3; k++) {
        node->lo[k][child % CT_COLUMN_FAN] = ct_column_below(box->lo[k]);
        node->hi[k][child % CT_COLUMN_FAN] = above(box->hi[k]);
    }
}

static bool grow(ct_column_tree *tree, size_t n) {
    free(tree->nodes);
    tree->capacity = 2 * n;
    tree->nodes = aligned_alloc(_Alignof(ct_column_node), tree->capacity * sizeof *tree->nodes);
    if (!tree->nodes) tree->capacity = 0;
    return tree->nodes;
}

bool ct_column_tree_make(ct_column_tree *tree, const ct_column_box *boxes, size_t n_boxes) {
    if (n_boxes > UINT32_MAX / 2) return false;
    const uint32_t n = (uint32_t)n_boxes;
    tree->n_levels = 0;
    if (n == 0) return true;
    for (uint32_t in_level = n; tree->n_levels == 0 || in_level > 1; tree->n_levels++) {
        in_level = parents_of(in_level);
        tree->level[tree->n_levels + 1] = tree->level[tree->n_levels] + in_level;
    }
    const uint32_t n_nodes = tree->level[tree->n_levels];
    if (n_nodes > tree->capacity && !grow(tree, n_nodes)) return false;
    for (uint32_t i = 0; i < n_nodes; i++) tree->nodes[i] = node_of_none();
    for (uint32_t i = 0; i < n; i++) set_child(tree->nodes, i, &boxes[i]);
    for (uint32_t level = 1; level < tree->n_levels; level++)
        for (uint32_t i = tree->level[level - 1]; i < tree->level[level]; i++) {
            const ct_column_box box = box_of_node(&tree->nodes[i]);
            set_child(tree->nodes + tree->level[level], i - tree->level[level - 1], &box);
        }
    return true;
}

void ct_column_tree_free(ct_column_tree *tree) {
    free(tree->nodes);
    memset(tree, 0, sizeof *tree);
}

/* ---- searching ---- */

static void open_node(ct_column_search *s, uint32_t level, uint32_t node) {
    s->stack[s->depth].level = level;
    s->stack[s->depth].first = node * CT_COLUMN_FAN;
    s->stack[s->depth].lanes = ct_column_nodes_meet(&s->tree->nodes[s->tree->level[level] + node], &s->box);
    s->depth += s->stack[s->depth].lanes != 0;
    s->visits += CT_COLUMN_FAN;
}

ct_column_search ct_column_tree_find(const ct_column_tree *tree, const ct_column_box *box) {
    ct_column_search search;
    search.tree = tree;
    search.box = ct_column_node_of(box);
    search.depth = 0;
    search.visits = 0;
    if (tree->n_levels > 0) open_node(&search, tree->n_levels - 1, 0);
    return search;
}

bool ct_column_search_next(ct_column_search *s, uint32_t *index) {
    while (s->depth > 0) {
        const uint32_t top = s->depth - 1, level = s->stack[top].level;
        const uint32_t child = s->stack[top].first + (uint32_t)__builtin_ctz(s->stack[top].lanes);
        s->stack[top].lanes &= s->stack[top].lanes - 1;
        s->depth -= s->stack[top].lanes == 0;
        if (level == 0) {
            *index = child;
            return true;
        }
        open_node(s, level - 1, child);
    }
    return false;
}
