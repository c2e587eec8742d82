/* cell_bodies.h - bodies made of unit cubes of a lattice, with walls between some of them, and the pieces of the
 * intersection of two such bodies by a flood fill: for tests of patches where parts of one body touch each other.
 *
 *      ___ ___            A wall is two faces that coincide, one of either cube. Without a wall two cubes that share a
 *     |   ||  |           face are one solid. Cubes that share an edge or a corner alone touch there and are not
 *     |___||__|  wall     connected: each has vertices of its own.
 *     |       |
 *     |_______|           Pieces: half cubes inside both bodies, connected through faces that are no face of either.
 */
#ifndef CONSISTENCY_CELL_BODIES_H
#define CONSISTENCY_CELL_BODIES_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/build.h"

enum { SIDE = 3, CELLS = SIDE * SIDE * SIDE, POINTS = 2 * SIDE + 1 };

struct cell_body {
    bool is_solid[SIDE][SIDE][SIDE];
    bool has_wall[3][SIDE][SIDE][SIDE]; /* by axis: between a cell and the next one */
};

static inline bool is_solid_at(const struct cell_body *body, const int at[3]) {
    for (int k = 0; k < 3; k++)
        if (at[k] < 0 || at[k] >= SIDE) return false;
    return body->is_solid[at[0]][at[1]][at[2]];
}

/* True: no face of the body lies between the cell and the next one along the axis, and both are solid. */
static inline bool is_open_after(const struct cell_body *body, const int at[3], int axis) {
    int next[3] = {at[0], at[1], at[2]};
    next[axis]++;
    return is_solid_at(body, at) && is_solid_at(body, next) && !body->has_wall[axis][at[0]][at[1]][at[2]];
}

/* density, walls: of 16 cells, and of 16 faces between two, how many there are on average. Hollow: without the middle
 * cell; else with it. */
static inline struct cell_body random_cells(uint64_t *rng, int density, int walls, bool is_hollow) {
    struct cell_body body = {0};
    for (int i = 0; i < CELLS; i++) {
        const int x = i % SIDE, y = i / SIDE % SIDE, z = i / SIDE / SIDE;
        body.is_solid[x][y][z] = (int)(shape_random(rng) % 16) < density;
        for (int k = 0; k < 3; k++) body.has_wall[k][x][y][z] = (int)(shape_random(rng) % 16) < walls;
    }
    body.is_solid[SIDE / 2][SIDE / 2][SIDE / 2] = !is_hollow;
    return body;
}

/* ---- blocks ---- */

/* Boxes of cells, with walls between them. */
struct cell_blocks {
    int n, lo[CELLS][3], hi[CELLS][3];
};

/* Cuts a box into 2^cuts blocks at most, some of which are left out, but not the first. */
static inline void cut_blocks(struct cell_blocks *blocks, const int lo[3], const int hi[3], int cuts, uint64_t *rng) {
    const int k = (int)(shape_random(rng) % 3);
    if (cuts == 0 || hi[k] - lo[k] < 2) {
        if (blocks->n && shape_random(rng) % 6 == 0) return;
        memcpy(blocks->lo[blocks->n], lo, sizeof blocks->lo[0]);
        memcpy(blocks->hi[blocks->n++], hi, sizeof blocks->hi[0]);
        return;
    }
    int middle[3] = {hi[0], hi[1], hi[2]};
    middle[k] = lo[k] + 1 + (int)(shape_random(rng) % (uint64_t)(hi[k] - lo[k] - 1));
    cut_blocks(blocks, lo, middle, cuts - 1, rng);
    for (int i = 0, at = middle[k]; i < 3; i++) middle[i] = i == k ? at : lo[i];
    cut_blocks(blocks, middle, hi, cuts - 1, rng);
}

static inline struct cell_blocks random_blocks(uint64_t *rng, int cuts) {
    struct cell_blocks blocks = {0};
    cut_blocks(&blocks, (const int[]){0, 0, 0}, (const int[]){SIDE, SIDE, SIDE}, cuts, rng);
    return blocks;
}

static inline struct cell_body cells_of_blocks(const struct cell_blocks *blocks) {
    struct cell_body body = {0};
    int block_of[SIDE][SIDE][SIDE] = {{{0}}};
    for (int i = 0; i < blocks->n; i++)
        for (int x = blocks->lo[i][0]; x < blocks->hi[i][0]; x++)
            for (int y = blocks->lo[i][1]; y < blocks->hi[i][1]; y++)
                for (int z = blocks->lo[i][2]; z < blocks->hi[i][2]; z++) {
                    block_of[x][y][z] = i + 1;
                    body.is_solid[x][y][z] = true;
                }
    for (int i = 0; i < CELLS; i++) {
        const int x = i % SIDE, y = i / SIDE % SIDE, z = i / SIDE / SIDE;
        for (int k = 0; k < 3; k++) {
            const int next[3] = {x + (k == 0), y + (k == 1), z + (k == 2)};
            body.has_wall[k][x][y][z] =
                !is_solid_at(&body, next) || block_of[next[0]][next[1]][next[2]] != block_of[x][y][z];
        }
    }
    return body;
}

/* ---- surface ---- */

/* Points are numbered in half cells. A point's copies: one for each set of cells around it that faces connect. */
struct point_copies {
    uint32_t of[POINTS][POINTS][POINTS][8]; /* 1 + vertex, by the lowest cell of the set */
};

static inline bool touches(const int cell[3], const int point[3]) {
    for (int k = 0; k < 3; k++)
        if (point[k] < 2 * cell[k] || point[k] > 2 * cell[k] + 2) return false;
    return true;
}

/* The lowest of the cells around a point that faces around it connect with this one: 4 x + 2 y + z of it, counted from
 * the lowest corner of the cells around. */
static inline int set_of(const struct cell_body *body, const int cell[3], const int point[3]) {
    int set[8], base[3];
    for (int k = 0; k < 3; k++) base[k] = (point[k] - 1) >> 1; /* rounds down */
    for (int i = 0; i < 8; i++) set[i] = i;
    for (int round = 0; round < 8; round++)
        for (int i = 0; i < 8; i++)
            for (int k = 0; k < 3; k++) {
                const int bit = 4 >> k, at[3] = {base[0] + (i >> 2), base[1] + (i >> 1 & 1), base[2] + (i & 1)};
                int next[3] = {at[0], at[1], at[2]};
                next[k]++;
                if (i & bit || !touches(at, point) || !touches(next, point) || !is_open_after(body, at, k)) continue;
                const int least = set[i] < set[i | bit] ? set[i] : set[i | bit];
                set[i] = set[i | bit] = least;
            }
    return set[4 * (cell[0] - base[0]) + 2 * (cell[1] - base[1]) + (cell[2] - base[2])];
}

/* A linear map of the lattice, so that faces need not be level: rows of small integers. */
struct cell_map {
    int row[3][3];
};

static inline double determinant_of(const struct cell_map *map) {
    const int(*m)[3] = map->row;
    return m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
           m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
}

/* at: in half cells. */
static inline void map_point(const struct cell_map *map, const double at[3], double out[3]) {
    for (int i = 0; i < 3; i++)
        out[i] = 0.5 * (map->row[i][0] * at[0] + map->row[i][1] * at[1] + map->row[i][2] * at[2]);
}

static inline uint32_t vertex_at(struct shape *shape, struct point_copies *copies, const struct cell_body *body,
                                 const int cell[3], const int point[3], const int shift[3],
                                 const struct cell_map *map) {
    uint32_t *vertex = &copies->of[point[0]][point[1]][point[2]][set_of(body, cell, point)];
    if (!*vertex) {
        const double at[3] = {point[0] + shift[0], point[1] + shift[1], point[2] + shift[2]};
        double out[3];
        map_point(map, at, out);
        *vertex = shape_add_vertex(shape, out[0], out[1], out[2]) + 1;
    }
    return *vertex - 1;
}

/* Eight triangles around the middle of a cell's face on one side along an axis. */
static inline void add_face(struct shape *shape, struct point_copies *copies, const struct cell_body *body,
                            const int cell[3], int axis, int side, const int shift[3], const struct cell_map *map) {
    static const int ring[8][2] = {{0, 0}, {1, 0}, {2, 0}, {2, 1}, {2, 2}, {1, 2}, {0, 2}, {0, 1}};
    const int u = (axis + 1) % 3, v = (axis + 2) % 3;
    uint32_t around[8];
    int middle[3] = {2 * cell[0] + 1, 2 * cell[1] + 1, 2 * cell[2] + 1};
    middle[axis] += side;
    for (int i = 0; i < 8; i++) {
        int point[3];
        point[axis] = middle[axis];
        point[u] = 2 * cell[u] + ring[i][side > 0 ? 0 : 1];
        point[v] = 2 * cell[v] + ring[i][side > 0 ? 1 : 0];
        around[i] = vertex_at(shape, copies, body, cell, point, shift, map);
    }
    const uint32_t center = vertex_at(shape, copies, body, cell, middle, shift, map);
    for (int i = 0; i < 8; i++) shape_add_triangle(shape, center, around[i], around[(i + 1) % 8]);
}

/* The body's surface, moved by `shift` half cells and mapped; the map keeps the orientation. */
static inline struct shape shape_of_cells(const struct cell_body *body, const int shift[3],
                                          const struct cell_map *map) {
    struct shape shape = shape_begin(CELLS * 26, CELLS * 48);
    struct point_copies *copies = shape_alloc(1, sizeof *copies);
    for (int i = 0; i < CELLS; i++) {
        const int cell[3] = {i % SIDE, i / SIDE % SIDE, i / SIDE / SIDE};
        if (!is_solid_at(body, cell)) continue;
        for (int k = 0; k < 3; k++) {
            int before[3] = {cell[0], cell[1], cell[2]};
            before[k]--;
            if (!is_open_after(body, before, k)) add_face(&shape, copies, body, cell, k, -1, shift, map);
            if (!is_open_after(body, cell, k)) add_face(&shape, copies, body, cell, k, 1, shift, map);
        }
    }
    free(copies);
    return shape;
}

/* The surfaces of the blocks, of two triangles for each face, moved and mapped as those of cells. */
static inline struct shape shape_of_blocks(const struct cell_blocks *blocks, const int shift[3],
                                           const struct cell_map *map) {
    static const int faces[6][4] = {{0, 4, 6, 2}, {1, 3, 7, 5}, {0, 1, 5, 4}, {2, 6, 7, 3}, {0, 2, 3, 1}, {4, 5, 7, 6}};
    struct shape shape = shape_begin(8 * (uint64_t)blocks->n, 12 * (uint64_t)blocks->n);
    for (int i = 0; i < blocks->n; i++) {
        uint32_t v[8];
        for (int c = 0; c < 8; c++) {
            double at[3], out[3];
            for (int k = 0; k < 3; k++) at[k] = 2 * (c >> k & 1 ? blocks->hi[i][k] : blocks->lo[i][k]) + shift[k];
            map_point(map, at, out);
            v[c] = shape_add_vertex(&shape, out[0], out[1], out[2]);
        }
        for (int f = 0; f < 6; f++) { /* either diagonal */
            const int *q = faces[f], turn = (i + f) % 2;
            shape_add_quad(&shape, v[q[turn]], v[q[1 + turn]], v[q[2 + turn]], v[q[(3 + turn) % 4]]);
        }
    }
    return shape;
}

/* ---- pieces ---- */

/* Along each axis, a half cell of a's lattice is slice 2 i + 1, and slice 2 i is the infinitesimal gap at plane i that
 * a perturbation opens where faces of both bodies coincide: one that moves b towards + leaves it to a's upper and b's
 * lower side.
 *
 *     slice   0 | 1 | 2 | 3 | 4 ...
 *     plane     0       1       2
 */
enum { HALVES = 2 * SIDE, SLICES = 2 * HALVES + 1, BLOCKS = SLICES * SLICES * SLICES };

struct cell_piece {
    double volume, center[3];
    double gradient[3]; /* dV/d(translation of b): where faces of both coincide, the mean of both one-sided ones */
    bool is_taken;      /* for those who look pieces up */
};

struct cell_pieces {
    uint32_t n;
    struct cell_piece of[HALVES * HALVES * HALVES];
};

/* The sign of a lattice coordinate of the perturbation (e, e^2, e^3): of the first number in a row of the inverse. */
static inline int perturbed_sign(const struct cell_map *map, int axis) {
    const int(*m)[3] = map->row, u = (axis + 1) % 3, v = (axis + 2) % 3;
    for (int j = 0; j < 3; j++) {
        const int p = (j + 1) % 3, q = (j + 2) % 3, cofactor = m[p][u] * m[q][v] - m[p][v] * m[q][u];
        if (cofactor) return cofactor > 0 ? 1 : -1;
    }
    return 0;
}

static inline int floor_half(int x) {
    return x >= 0 ? x / 2 : -((1 - x) / 2);
}

/* Two bodies, b moved by half cells and perturbed along each axis. */
struct cell_pair {
    const struct cell_body *body[2];
    int shift[3], sign[3];
};

static inline void block_at(int i, int at[3]) {
    at[0] = i % SLICES;
    at[1] = i / SLICES % SLICES;
    at[2] = i / SLICES / SLICES;
}

/* The cell of body i that a block lies in. */
static inline void cell_of_block(const struct cell_pair *pair, int i, const int at[3], int cell[3]) {
    for (int k = 0; k < 3; k++) {
        const bool is_upper = at[k] % 2 != 0 || (pair->sign[k] > 0) == (i == 0);
        cell[k] = floor_half(floor_half(at[k]) - !is_upper - (i ? pair->shift[k] : 0));
    }
}

static inline bool block_is_inside(const struct cell_pair *pair, const int at[3]) {
    bool is_inside = true;
    for (int i = 0; i < 2; i++) {
        int cell[3];
        cell_of_block(pair, i, at, cell);
        is_inside = is_inside && is_solid_at(pair->body[i], cell);
    }
    return is_inside;
}

/* True: a face of body i bounds the block, which is inside it, on this side along the axis. */
static inline bool is_bounded(const struct cell_pair *pair, int i, const int at[3], int axis, int side) {
    int lower[3] = {at[0], at[1], at[2]}, upper[3] = {at[0], at[1], at[2]}, cell[2][3];
    if (side > 0)
        upper[axis]++;
    else
        lower[axis]--;
    cell_of_block(pair, i, lower, cell[0]);
    cell_of_block(pair, i, upper, cell[1]);
    return cell[0][axis] != cell[1][axis] && !is_open_after(pair->body[i], cell[0], axis);
}

static inline int set_root(int *parent, int i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
}

static inline void unite_sets(int *parent, int i, int j) {
    i = set_root(parent, i);
    j = set_root(parent, j);
    parent[i > j ? i : j] = i < j ? i : j;
}

/* Unites the blocks first .. of one perturbation that no face parts. */
static inline void flood(const struct cell_pair *pair, int *parent, int first) {
    for (int i = 0; i < BLOCKS; i++) {
        int at[3];
        block_at(i, at);
        if (!block_is_inside(pair, at)) continue;
        for (int k = 0, step = 1; k < 3; k++, step *= SLICES) {
            int next[3] = {at[0], at[1], at[2]};
            if (++next[k] < SLICES && block_is_inside(pair, next) && !is_bounded(pair, 0, at, k, 1) &&
                !is_bounded(pair, 1, at, k, 1))
                unite_sets(parent, first + i, first + i + step);
        }
    }
}

/* Half of what a block adds: two perturbations find it. */
static inline void add_block(const struct cell_pair *pair, const struct cell_map *map, const int at[3],
                             struct cell_piece *piece) {
    double middle[3], out[3], volume = determinant_of(map) / 8;
    for (int k = 0; k < 3; k++) {
        middle[k] = at[k] / 2 + 0.5;
        if (at[k] % 2 == 0) volume = 0;
    }
    map_point(map, middle, out);
    piece->volume += volume / 2;
    for (int k = 0; k < 3; k++) piece->center[k] += volume / 2 * out[k];
    for (int k = 0; k < 3; k++) {
        const int u = (k + 1) % 3, v = (k + 2) % 3;
        if (at[u] % 2 == 0 || at[v] % 2 == 0) continue;
        for (int side = -1; side < 2; side += 2) {
            if (!is_bounded(pair, 1, at, k, side)) continue;
            for (int j = 0; j < 3; j++) { /* the cross product of the map's columns u and v, of half length */
                const int p = (j + 1) % 3, q = (j + 2) % 3;
                piece->gradient[j] += side / 8.0 * (map->row[p][u] * map->row[q][v] - map->row[q][u] * map->row[p][v]);
            }
        }
    }
}

/* The pieces of a's intersection with b, which is moved by `shift` half cells. Pieces that either perturbation connects
 * are one. */
static inline struct cell_pieces find_cell_pieces(const struct cell_body *a, const struct cell_body *b,
                                                  const int shift[3], const struct cell_map *map) {
    struct cell_pair pair[2];
    struct cell_pieces pieces = {0};
    int *parent = shape_alloc(2 * BLOCKS, sizeof *parent), *number = shape_alloc(2 * BLOCKS, sizeof *number), at[3];
    for (int i = 0; i < 2 * BLOCKS; i++) parent[i] = i;
    for (int pass = 0; pass < 2; pass++) {
        pair[pass] = (struct cell_pair){.body = {a, b}};
        for (int k = 0; k < 3; k++) {
            pair[pass].shift[k] = shift[k];
            pair[pass].sign[k] = (pass ? -1 : 1) * perturbed_sign(map, k);
        }
        flood(&pair[pass], parent, pass * BLOCKS);
    }
    for (int i = 0; i < BLOCKS; i++) { /* where nothing is infinitesimal, both have the same blocks */
        block_at(i, at);
        if (at[0] % 2 && at[1] % 2 && at[2] % 2) unite_sets(parent, i, BLOCKS + i);
    }
    for (int i = 0; i < 2 * BLOCKS; i++) { /* number those with a volume */
        const struct cell_pair *of = &pair[i / BLOCKS];
        block_at(i % BLOCKS, at);
        int *of_root = &number[set_root(parent, i)];
        if (at[0] % 2 && at[1] % 2 && at[2] % 2 && block_is_inside(of, at) && !*of_root) *of_root = (int)++pieces.n;
    }
    for (int i = 0; i < 2 * BLOCKS; i++) {
        const struct cell_pair *of = &pair[i / BLOCKS];
        const int piece = number[set_root(parent, i)];
        block_at(i % BLOCKS, at);
        if (piece && block_is_inside(of, at)) add_block(of, map, at, &pieces.of[piece - 1]);
    }
    for (uint32_t i = 0; i < pieces.n; i++)
        for (int k = 0; k < 3; k++) pieces.of[i].center[k] /= pieces.of[i].volume;
    free(parent);
    free(number);
    return pieces;
}

#endif
