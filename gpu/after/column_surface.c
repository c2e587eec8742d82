/* column_surface.c - finds the clusters over a contact by a tree of boxes, and places their triangles. */
#include "gpu/after/column_surface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/mesh.h"

/* ---- the tree ---- */

static float above(double x) {
    return -ct_column_below(-x);
}

ct_column_node ct_column_node_of_none(void) {
    static const ct_v4f infinite = {INFINITY, INFINITY, INFINITY, INFINITY};
    ct_column_node node;
    for (int k = 0; k < 3; k++) {
        node.lo[k] = infinite;
        node.hi[k] = -infinite;
    }
    return node;
}

void ct_column_node_set(ct_column_node *node, uint32_t lane, const ct_column_box *box) {
    for (int k = 0; k < 3; k++) {
        node->lo[k][lane] = ct_column_below(box->lo[k]);
        node->hi[k][lane] = above(box->hi[k]);
    }
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
        box.lo[k] = INFINITY;
        box.hi[k] = -INFINITY;
        for (int lane = 0; lane < CT_COLUMN_FAN; lane++) {
            box.lo[k] = fmin(box.lo[k], (double)node->lo[k][lane]);
            box.hi[k] = fmax(box.hi[k], (double)node->hi[k][lane]);
        }
    }
    return box;
}

/* Box number `child` of those below is one of a node of the level that begins here. */
static void set_child(ct_column_node *nodes, uint32_t child, const ct_column_box *box) {
    ct_column_node_set(&nodes[child / CT_COLUMN_FAN], child % CT_COLUMN_FAN, box);
}

bool ct_column_tree_make(ct_column_tree *tree, const ct_column_box *boxes, size_t n_boxes) {
    if (n_boxes > UINT32_MAX / 2) return false;
    const uint32_t n = (uint32_t)n_boxes;
    if (n == 0) return true;
    for (uint32_t in_level = n; tree->n_levels == 0 || in_level > 1; tree->n_levels++) {
        in_level = parents_of(in_level);
        tree->level[tree->n_levels + 1] = tree->level[tree->n_levels] + in_level;
    }
    const uint32_t n_nodes = tree->level[tree->n_levels];
    tree->nodes = aligned_alloc(_Alignof(ct_column_node), n_nodes * sizeof *tree->nodes);
    if (!tree->nodes) return false;
    for (uint32_t i = 0; i < n_nodes; i++) tree->nodes[i] = ct_column_node_of_none();
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

/* What the box of a cluster may be off by, of its coordinates: far above the rounding of its sums. */
static const double ROUNDED = 1e-12;

void ct_column_place(const ct_column_placing *placing, const float p[3], double out[3]) {
    const double q[3] = {(double)p[0], (double)p[1], (double)p[2]};
    for (int k = 0; k < 3; k++) {
        const double *turn = placing->turn[k];
        out[k] = turn[0] * q[0] + turn[1] * q[1] + turn[2] * q[2] + placing->shift[k];
    }
}

bool ct_column_surface_open(ct_column_surface *s, const ct_surface *surface, const ct_column_placing *placing) {
    s->surface = surface;
    s->placing = *placing;
    s->listed = calloc(surface->body->mesh->n_vertices / 64 + 1, sizeof *s->listed);
    s->places = malloc((surface->body->mesh->n_vertices + 1) * sizeof *s->places);
    return s->listed && s->places;
}

void ct_column_surface_close(ct_column_surface *s) {
    for (size_t i = 0; i < s->n; i++) free(s->clusters[i].block);
    free(s->clusters);
    free(s->boxes);
    free(s->listed);
    free(s->places);
    ct_column_tree_free(&s->tree);
    memset(s, 0, sizeof *s);
}

/* ---- clusters ---- */

static ct_column_box place_box(const ct_column_placing *placing, const ct_cluster_box *box) {
    ct_column_box placed;
    for (int k = 0; k < 3; k++) {
        double middle = placing->shift[k], half = 0, size = fabs(middle);
        for (int i = 0; i < 3; i++) {
            const double at = placing->turn[k][i] * 0.5 * ((double)box->lo[i] + (double)box->hi[i]);
            middle += at;
            size += fabs(at);
            half += fabs(placing->turn[k][i]) * 0.5 * ((double)box->hi[i] - (double)box->lo[i]);
        }
        half += ROUNDED * (size + half);
        placed.lo[k] = middle - half;
        placed.hi[k] = middle + half;
    }
    return placed;
}

static bool reaches_window(const ct_column_surface *s, const ct_column_box *box, double rounding) {
    for (int k = 0; k < 2; k++)
        if (box->hi[k] + rounding < s->lo[k] || box->lo[k] - rounding > s->hi[k]) return false;
    return true;
}

static uint32_t count_triangles(const ct_column_surface *s, uint32_t cluster) {
    const uint32_t left = s->surface->body->mesh->n_triangles - cluster * CT_CLUSTER_TRIANGLES;
    return left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES;
}

static bool add_cluster(ct_column_surface *s, uint32_t index, const ct_column_box *box) {
    if (s->n == s->capacity) {
        const size_t more = s->capacity ? 2 * s->capacity : 16;
        void *clusters = realloc(s->clusters, more * sizeof *s->clusters);
        if (!clusters) return false;
        s->clusters = clusters;
        void *boxes = realloc(s->boxes, more * sizeof *s->boxes);
        if (!boxes) return false;
        s->boxes = boxes;
        s->capacity = more;
    }
    s->boxes[s->n] = *box;
    s->clusters[s->n++] = (ct_column_cluster){index, NULL};
    s->n_triangles += count_triangles(s, index);
    return true;
}

static bool add_node(ct_column_surface *s, double rounding, uint32_t level, uint32_t node) {
    const ct_clusters *clusters = s->surface->clusters;
    const ct_column_box box = place_box(&s->placing, &s->surface->boxes[node]);
    if (!reaches_window(s, &box, rounding)) return true;
    if (level == 0) return add_cluster(s, node, &box);
    if (ct_is_cancelled()) return false;
    const uint32_t first = clusters->level[level - 1] + (node - clusters->level[level]) * CT_CLUSTER_FAN;
    for (uint32_t n = first; n < first + CT_CLUSTER_FAN && n < clusters->level[level]; n++)
        if (!add_node(s, rounding, level - 1, n)) return false;
    return true;
}

bool ct_column_surface_fill(ct_column_surface *s, const double lo[2], const double hi[2], double rounding) {
    memcpy(s->lo, lo, sizeof s->lo);
    memcpy(s->hi, hi, sizeof s->hi);
    const ct_clusters *clusters = s->surface->clusters;
    return add_node(s, rounding, clusters->n_levels - 1, clusters->n_nodes - 1) &&
           ct_column_tree_make(&s->tree, s->boxes, s->n);
}

/* ---- triangles ---- */

static bool is_listed(const ct_column_surface *s, uint32_t vertex) {
    return s->listed[vertex / 64] >> (vertex % 64) & 1;
}

/* A vertex of a cluster: u, v, w, rounded downwards and upwards. */
struct rounded {
    ct_v4f lo, hi;
    bool is_listed;
};

static void place_vertices(const ct_column_surface *s, const uint32_t *vertices, uint32_t n, double (*placed)[3],
                           struct rounded *rounded) {
    for (uint32_t i = 0; i < n; i++) {
        ct_column_place(&s->placing, s->surface->positions + 3 * (size_t)vertices[i], placed[i]);
        for (int k = 0; k < 3; k++) {
            rounded[i].lo[k] = ct_column_below(placed[i][k]);
            rounded[i].hi[k] = -ct_column_below(-placed[i][k]);
        }
        rounded[i].lo[3] = rounded[i].hi[3] = 0;
        rounded[i].is_listed = is_listed(s, vertices[i]);
        s->places[vertices[i]] = i;
    }
}

static ct_v4f lesser(ct_v4f a, ct_v4f b) {
    const ct_v4i is_less = a < b;
    return (ct_v4f)(((ct_v4i)a & is_less) | ((ct_v4i)b & ~is_less));
}

static void add_triangle(const ct_column_surface *s, const uint32_t corners[3], const struct rounded *rounded,
                         const ct_column_node *window, ct_column_block *block) {
    const uint32_t place[3] = {s->places[corners[0]], s->places[corners[1]], s->places[corners[2]]};
    const struct rounded *a = &rounded[place[0]], *b = &rounded[place[1]], *c = &rounded[place[2]];
    const ct_v4f lo = lesser(lesser(a->lo, b->lo), c->lo), hi = -lesser(lesser(-a->hi, -b->hi), -c->hi);
    for (int k = 0; k < 2; k++)
        if (lo[k] > window->hi[k][0] || hi[k] < window->lo[k][0]) return;
    ct_column_triangle *triangle = &block->triangles[block->n];
    for (int k = 0; k < 3; k++) triangle->p[k] = block->vertices[place[k]];
    triangle->is_listed = a->is_listed || b->is_listed || c->is_listed;
    ct_column_node *node = &block->boxes[block->n / CT_COLUMN_FAN];
    for (int k = 0; k < 3; k++) {
        node->lo[k][block->n % CT_COLUMN_FAN] = lo[k];
        node->hi[k][block->n % CT_COLUMN_FAN] = hi[k];
    }
    block->n++;
}

static void join_parts(ct_column_block *block) {
    for (uint32_t part = 0; part < CT_COLUMN_PARTS; part++) {
        ct_column_node *node = &block->parts[part / CT_COLUMN_FAN];
        if (part % CT_COLUMN_FAN == 0) *node = ct_column_node_of_none();
        for (uint32_t i = part * CT_COLUMN_PART; i < (part + 1) * CT_COLUMN_PART && i < block->n; i++) {
            const ct_column_node *of = &block->boxes[i / CT_COLUMN_FAN];
            for (int k = 0; k < 3; k++) {
                const float lo = of->lo[k][i % CT_COLUMN_FAN], hi = of->hi[k][i % CT_COLUMN_FAN];
                if (lo < node->lo[k][part % CT_COLUMN_FAN]) node->lo[k][part % CT_COLUMN_FAN] = lo;
                if (hi > node->hi[k][part % CT_COLUMN_FAN]) node->hi[k][part % CT_COLUMN_FAN] = hi;
            }
        }
    }
}

static ct_column_block *make_block(uint32_t n, uint32_t n_vertices) {
    const size_t alignment = _Alignof(ct_column_block);
    const size_t bytes = sizeof(ct_column_block) + n * sizeof(ct_column_triangle) + n_vertices * sizeof(double[3]);
    ct_column_block *block = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!block) return NULL;
    block->n = 0;
    block->vertices = (double(*)[3])(void *)(block->triangles + n);
    for (uint32_t i = 0; i < CT_COLUMN_GROUPS; i++) block->boxes[i] = ct_column_node_of_none();
    return block;
}

const ct_column_block *ct_column_surface_block(ct_column_surface *s, uint32_t cluster) {
    struct rounded rounded[3 * CT_CLUSTER_TRIANGLES];
    ct_column_cluster *of = &s->clusters[cluster];
    if (of->block) return of->block;
    if (ct_is_cancelled()) return NULL;
    const ct_clusters *clusters = s->surface->clusters;
    const uint32_t n = count_triangles(s, of->index), first = clusters->first_vertex[of->index];
    const uint32_t n_vertices = clusters->first_vertex[of->index + 1] - first;
    of->block = make_block(n, n_vertices);
    if (!of->block) return NULL;
    place_vertices(s, clusters->vertices + first, n_vertices, of->block->vertices, rounded);
    const ct_column_box box = {{s->lo[0], s->lo[1], 0}, {s->hi[0], s->hi[1], 0}};
    const ct_column_node window = ct_column_node_of(&box);
    const uint32_t *corners = s->surface->body->mesh->triangles + 3 * (size_t)of->index * CT_CLUSTER_TRIANGLES;
    for (uint32_t t = 0; t < n; t++) add_triangle(s, corners + 3 * (size_t)t, rounded, &window, of->block);
    join_parts(of->block);
    return of->block;
}
