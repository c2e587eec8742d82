/* wrap_march.c - marching tetrahedra over the field of a wrap's grid.
 *
 * Each cube is cut into the six tetrahedra that have its diagonal from node 0 to node 7, each a way along three edges from
 * one to the other (Kuhn 1960). Neighbouring cubes cut their common face alike, so the surface is closed; and as the field
 * is linear in a tetrahedron, it goes through each once at most. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/mesh/build/wrap_surface.h"

#define NEAREST_NODE 0.01 /* of an edge: how near to a node it may be cut, so that triangles keep an area */

enum { SPAN = CT_WRAP_SIDE + 1, DIRECTIONS = 8 };

/* Vertices are on edges, which are known by their lower node and a direction, of three bits. */
typedef struct edge_table {
    uint64_t *keys; /* key + 1; 0: free */
    uint32_t *vertices;
    size_t mask, n;
} edge_table;

typedef struct march {
    const ct_wrap_grid *grid;
    ct_wrap_surface *surface;
    edge_table table;
    int64_t first[3];                /* the block's first node */
    float field[SPAN * SPAN * SPAN]; /* of the block, and of the nodes after it */
} march;

static size_t slot_of(const edge_table *table, uint64_t key) {
    uint64_t x = key * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(x ^ x >> 32) & table->mask;
    while (table->keys[slot] && table->keys[slot] != key + 1) slot = (slot + 1) & table->mask;
    return slot;
}

static bool grow_table(edge_table *table) {
    const edge_table old = *table;
    const size_t size = old.keys ? 2 * (old.mask + 1) : 4096;
    edge_table next = {calloc(size, sizeof *next.keys), malloc(size * sizeof *next.vertices), size - 1, old.n};
    if (!next.keys || !next.vertices) {
        free(next.keys), free(next.vertices);
        return false;
    }
    for (size_t i = 0; old.keys && i <= old.mask; i++) {
        if (CT_POLL_EVERY(i, 1 << 14) && ct_is_cancelled()) break; /* the march ends at its next poll */
        if (!old.keys[i]) continue;
        const size_t slot = slot_of(&next, old.keys[i] - 1);
        next.keys[slot] = old.keys[i];
        next.vertices[slot] = old.vertices[i];
    }
    free(old.keys), free(old.vertices);
    *table = next;
    return true;
}

static float field_at(const march *m, const int local[3]) {
    return m->field[(local[0] * SPAN + local[1]) * SPAN + local[2]];
}

/* The vertex on the edge from one corner of a cube to another above it; corners are sets of axes. False: out of memory. */
static bool find_vertex(march *m, const int cube[3], int a, int b, uint32_t *vertex) {
    const int low = a < b ? a : b, high = a < b ? b : a;
    uint64_t key = 0;
    int from[3], to[3];
    for (int k = 0; k < 3; k++) {
        from[k] = cube[k] + (low >> k & 1), to[k] = cube[k] + (high >> k & 1);
        key = key * (uint64_t)(CT_WRAP_SIDE * m->grid->n_blocks[k] + 1) + (uint64_t)(m->first[k] + from[k]);
    }
    key = key * DIRECTIONS + (uint64_t)(high - low);
    if (2 * m->table.n >= m->table.mask && !grow_table(&m->table)) return false;
    const size_t slot = slot_of(&m->table, key);
    if (m->table.keys[slot]) {
        *vertex = m->table.vertices[slot];
        return true;
    }
    ct_wrap_surface *s = m->surface;
    if (s->n_points >= UINT32_MAX || !ct_array_grow(&s->points, &s->cap_points, s->n_points + 1)) return false;
    const double u = (double)field_at(m, from), v = (double)field_at(m, to);
    const double t = fmin(fmax(u / (u - v), NEAREST_NODE), 1 - NEAREST_NODE);
    for (int k = 0; k < 3; k++) s->points[s->n_points][k] = (double)(m->first[k] + from[k]) + t * (to[k] - from[k]);
    *vertex = m->table.vertices[slot] = (uint32_t)s->n_points++;
    m->table.keys[slot] = key + 1;
    m->table.n++;
    return true;
}

static bool add_triangle(ct_wrap_surface *s, uint32_t a, uint32_t b, uint32_t c, bool turned) {
    if (!ct_array_grow(&s->triangles, &s->cap_triangles, s->n_triangles + 1)) return false;
    uint32_t *to = s->triangles[s->n_triangles++];
    to[0] = a, to[1] = turned ? c : b, to[2] = turned ? b : c;
    return true;
}

/* corner: of a tetrahedron; is_even: corner 3 is in front of the triangle 0 1 2 seen counter-clockwise from behind it. */
static bool march_tetrahedron(march *m, const int cube[3], const int corner[4], const bool inside[4], bool is_even) {
    int in[4], out[4], n_in = 0, n_out = 0, order[4];
    uint32_t v[4];
    for (int i = 0; i < 4; i++)
        if (inside[i])
            in[n_in++] = i;
        else
            out[n_out++] = i;
    if (!n_in || !n_out) return true;
    memcpy(order, in, sizeof(int) * (size_t)n_in);
    memcpy(order + n_in, out, sizeof(int) * (size_t)n_out);
    bool is_odd = !is_even; /* whether corners in this order are a mirror image */
    for (int i = 0; i < 4; i++)
        for (int j = i + 1; j < 4; j++) is_odd ^= order[i] > order[j];
    int c[4];
    for (int i = 0; i < 4; i++) c[i] = corner[order[i]];
    if (n_in == 2) {
        if (!find_vertex(m, cube, c[0], c[2], &v[0]) || !find_vertex(m, cube, c[0], c[3], &v[1]) ||
            !find_vertex(m, cube, c[1], c[3], &v[2]) || !find_vertex(m, cube, c[1], c[2], &v[3]))
            return false;
        return add_triangle(m->surface, v[0], v[1], v[2], is_odd) && add_triangle(m->surface, v[0], v[2], v[3], is_odd);
    }
    const int tip = n_in == 1 ? 0 : 3;
    for (int i = 0, k = 0; i < 4; i++)
        if (i != tip && !find_vertex(m, cube, c[tip], c[i], &v[k++])) return false;
    /* Seen from the tip, 1 2 3 behind 0 turn the other way than 0 1 2 behind 3, and the surface faces away from the tip
     * where that is inside, else to it. */
    return add_triangle(m->surface, v[0], v[1], v[2], is_odd);
}

static bool march_cube(march *m, const int cube[3]) {
    static const int order[6][2] = {{0, 1}, {1, 2}, {2, 0}, {1, 0}, {2, 1}, {0, 2}}; /* the first three are even */
    bool inside[8];
    int n = 0;
    for (int c = 0; c < 8; c++) {
        const int local[3] = {cube[0] + (c & 1), cube[1] + (c >> 1 & 1), cube[2] + (c >> 2)};
        n += inside[c] = field_at(m, local) < 0;
    }
    if (n == 0 || n == 8) return true;
    for (int t = 0; t < 6; t++) {
        const int first = 1 << order[t][0], second = first | 1 << order[t][1], corner[4] = {0, first, second, 7};
        const bool in[4] = {inside[0], inside[first], inside[second], inside[7]};
        if (!march_tetrahedron(m, cube, corner, in, t < 3)) return false;
    }
    return true;
}

/* The field of the block at `entry` and of the nodes after it. False: it has one sign. */
static bool load_field(march *m, size_t entry) {
    const ct_wrap_grid *grid = m->grid;
    const int64_t y = grid->n_blocks[1], z = grid->n_blocks[2], e = (int64_t)entry;
    const int64_t b[3] = {e / (y * z), e / z % y, e % z};
    bool has_inside = false, has_outside = false, has_nodes = false;
    for (int c = 0; c < 8; c++) { /* most blocks, and those after them, are far from all triangles */
        int64_t node[3];
        for (int k = 0; k < 3; k++) node[k] = CT_WRAP_SIDE * (b[k] + (c >> k & 1));
        const uint32_t at = ct_wrap_has(grid, node) ? ct_wrap_entry(grid, node) : CT_WRAP_OUTSIDE;
        has_nodes = has_nodes || at < CT_WRAP_INSIDE;
        has_inside = has_inside || at == CT_WRAP_INSIDE;
        has_outside = has_outside || at == CT_WRAP_OUTSIDE;
    }
    if (!has_nodes && !(has_inside && has_outside)) return false;
    has_inside = has_outside = false;
    int i[3];
    for (int k = 0; k < 3; k++) m->first[k] = CT_WRAP_SIDE * b[k];
    for (i[0] = 0; i[0] < SPAN; i[0]++)
        for (i[1] = 0; i[1] < SPAN; i[1]++)
            for (i[2] = 0; i[2] < SPAN; i[2]++) {
                const int64_t node[3] = {m->first[0] + i[0], m->first[1] + i[1], m->first[2] + i[2]};
                const uint32_t at = ct_wrap_has(grid, node) ? ct_wrap_entry(grid, node) : CT_WRAP_OUTSIDE;
                const float value = at == CT_WRAP_OUTSIDE  ? CT_WRAP_BAND
                                    : at == CT_WRAP_INSIDE ? -CT_WRAP_BAND
                                                           : grid->blocks[at].field[ct_wrap_local(node)];
                m->field[(i[0] * SPAN + i[1]) * SPAN + i[2]] = value;
                has_inside = has_inside || value < 0;
                has_outside = has_outside || value >= 0;
            }
    return has_inside && has_outside;
}

bool ct_march_wrap(const ct_wrap_grid *grid, ct_wrap_surface *surface) {
    march *m = calloc(1, sizeof *m);
    const size_t n = (size_t)(grid->n_blocks[0] * grid->n_blocks[1] * grid->n_blocks[2]);
    bool is_right = m;
    if (m) m->grid = grid, m->surface = surface;
    if (m) is_right = grow_table(&m->table);
    for (size_t b = 0; b < n && is_right; b++) {
        if (CT_POLL_EVERY(b, 16) && ct_is_cancelled()) is_right = false;
        if (!is_right || !load_field(m, b)) continue;
        int cube[3];
        for (cube[0] = 0; cube[0] < CT_WRAP_SIDE && is_right; cube[0]++)
            for (cube[1] = 0; cube[1] < CT_WRAP_SIDE && is_right; cube[1]++)
                for (cube[2] = 0; cube[2] < CT_WRAP_SIDE && is_right; cube[2]++) is_right = march_cube(m, cube);
    }
    if (m) free(m->table.keys), free(m->table.vertices);
    free(m);
    return is_right;
}

void ct_free_wrap_surface(ct_wrap_surface *surface) {
    free(surface->points);
    free(surface->triangles);
    memset(surface, 0, sizeof *surface);
}
