/* tree.c - builds a mesh's voxel tree: the finest level from the pieces of its triangles, then each coarser one. */
#include "gpu/methods/voxtree/tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/voxtree/cut.h"

/* Of the finest level. Coarser levels add at most half as many. */
enum { MAX_FINEST_NODES = CT_MAX_VOXEL_BYTES / 2 / sizeof(ct_voxel) };

struct builder {
    ct_voxel_tree *tree;
    double *sizes, *finer_sizes; /* areas of this level's nodes and the finer one's, in faces */
};

uint32_t ct_voxel_default_level(const ct_mesh *mesh) {
    /* A closed surface takes some 6 n^2 / 2 cubes of n^3: the nearest of 5, 6 and 7 to half the logarithm of a third of
     * the triangles. */
    enum { LEVEL_6 = 3 << 11, LEVEL_7 = 3 << 13 };
    return 5u + (mesh->n_triangles >= LEVEL_6) + (mesh->n_triangles > LEVEL_7);
}

/* ---- levels ---- */

static bool begin_level(ct_voxel_level *level, uint32_t l, double side) {
    level->n = 1u << l;
    level->n_bricks = (level->n + 3) / 4;
    level->size = ldexp(side, -(int)l);
    level->bricks = calloc((size_t)level->n_bricks * level->n_bricks * level->n_bricks, sizeof *level->bricks);
    return level->bricks;
}

static ct_voxel_brick *brick_of(ct_voxel_level *level, uint32_t x, uint32_t y, uint32_t z) {
    return level->bricks + (ct_voxel_brick_at(level, x, y, z) - level->bricks);
}

static void mark(ct_voxel_level *level, uint32_t x, uint32_t y, uint32_t z, bool is_boundary, bool is_full) {
    ct_voxel_brick *brick = brick_of(level, x, y, z);
    const uint32_t bit = ct_voxel_bit(x, y, z);
    brick->boundary |= (uint64_t)is_boundary << bit;
    brick->full |= (uint64_t)is_full << bit;
}

static size_t index_size(const ct_voxel_level *level, uint64_t n_nodes) {
    const size_t side = level->n + 2 * CT_VOXEL_BORDER;
    return level->n > CT_MAX_VOXEL_INDEX || n_nodes + CT_VOXEL_PLAIN > UINT16_MAX ? 0 : side * side * side;
}

/* Of a level whose nodes are marked. */
static uint64_t bytes_of_level(const ct_voxel_level *level) {
    const size_t n = (size_t)level->n_bricks * level->n_bricks * level->n_bricks;
    uint64_t n_nodes = 0;
    for (size_t i = 0; i < n; i++) n_nodes += (uint64_t)__builtin_popcountll(level->bricks[i].boundary);
    return n * sizeof *level->bricks + (CT_VOXEL_PLAIN + n_nodes) * sizeof *level->nodes +
           index_size(level, n_nodes) * sizeof *level->index;
}

/* Numbers the boundary nodes that are marked, and makes room for them. False: out of memory, or cancelled. */
static bool number_nodes(struct builder *b, ct_voxel_level *level) {
    const size_t n = (size_t)level->n_bricks * level->n_bricks * level->n_bricks;
    for (size_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, 8192) && ct_is_cancelled()) return false;
        level->bricks[i].first = level->n_nodes;
        level->n_nodes += (uint32_t)__builtin_popcountll(level->bricks[i].boundary);
        level->n_full += (uint64_t)__builtin_popcountll(level->bricks[i].full);
        b->tree->n_nodes += (uint64_t)__builtin_popcountll(level->bricks[i].boundary | level->bricks[i].full);
    }
    ct_voxel *nodes = calloc(CT_VOXEL_PLAIN + (size_t)level->n_nodes, sizeof *level->nodes);
    if (nodes) level->nodes = nodes + CT_VOXEL_PLAIN;
    for (uint32_t i = 0; nodes && i < CT_VOXEL_PLAIN; i++)
        nodes[i] = (ct_voxel){.occupancy = (float)i, .group = CT_VOXEL_INSIDE};
    free(b->finer_sizes);
    b->finer_sizes = b->sizes;
    b->sizes = calloc(level->n_nodes + 1, sizeof *b->sizes);
    return level->nodes && b->sizes;
}

static ct_voxel *node_of(ct_voxel_level *level, uint32_t x, uint32_t y, uint32_t z) {
    bool is_full;
    return level->nodes + (ct_voxel_find(level, x, y, z, &is_full) - level->nodes);
}

static uint8_t part_of_256(double fraction) {
    return (uint8_t)fmin(fmax(floor(fraction * 256), 0), 255);
}

/* ---- the finest level ---- */

/* A cube of a column. */
struct column_cube {
    ct_cut_cube *sums;
    uint32_t z;
};

/* Lists a column's cubes from the top down. Returns how many. */
static uint32_t list_column(const ct_cut *cut, uint32_t x, uint32_t y, struct column_cube *out) {
    uint32_t n = 0;
    for (uint32_t run = cut->n_runs; run-- > 0;) {
        const uint32_t *place = ct_cut_run(cut, x, y, run);
        for (uint32_t i = CT_CUT_RUN; place && i-- > 0;)
            if (place[i]) out[n++] = (struct column_cube){&cut->cubes[place[i] - 1], run * CT_CUT_RUN + i};
    }
    return n;
}

/* Cubes of a column from the top down. `below` of each becomes its occupancy; full cubes between are marked. */
static void fill_column(ct_voxel_tree *tree, ct_voxel_level *level, const ct_cut *cut, uint32_t x, uint32_t y) {
    static const double one = (double)((int64_t)1 << CT_CUT_BITS);
    struct column_cube listed[1 << CT_MAX_VOXEL_LEVEL];
    const uint32_t n = list_column(cut, x, y, listed);
    int64_t above = 0; /* area vectors' z of the cubes so far: the winding number of a cube without triangles */
    for (uint32_t i = 0; i < n; i++) {
        ct_cut_cube *cube = listed[i].sums;
        const uint32_t at = listed[i].z;
        cube->below += above;
        above += cube->area[2];
        const double occupancy = (double)cube->below / one, winding = (double)above / one;
        if (occupancy < -CT_VOXEL_ERROR || occupancy > 1 + CT_VOXEL_ERROR) tree->overlaps_itself = true;
        mark(level, x, y, at, true, occupancy >= 1 - 0.5 * CT_VOXEL_ERROR);
        const uint32_t end = i + 1 < n ? listed[i + 1].z + 1 : 0;
        if (end < at && (winding < -0.5 || winding > 1.5)) tree->overlaps_itself = true;
        if (winding > 0.5)
            for (uint32_t z = at; z-- > end;) mark(level, x, y, z, false, true);
    }
}

static void fill_finest_node(struct builder *b, ct_voxel_level *level, const ct_cut_cube *cube, uint32_t x, uint32_t y,
                             uint32_t z) {
    static const double one = (double)((int64_t)1 << CT_CUT_BITS);
    ct_voxel *node = node_of(level, x, y, z);
    node->occupancy = (float)fmin(fmax((double)cube->below / one, 0), 1);
    node->at[0] = (uint8_t)x;
    node->at[1] = (uint8_t)y;
    node->at[2] = (uint8_t)z;
    for (int k = 0; k < 3; k++) {
        node->area[k] = (float)((double)cube->area[k] / one);
        node->center[k] = cube->size ? part_of_256((double)cube->moment[k] / (double)cube->size) : 128;
    }
    b->sizes[node - level->nodes] = (double)cube->size / one;
}

/* Whether the work is cancelled; asked at least once in some 10,000 cubes, 0.1 ms. */
static bool is_late(const ct_voxel_tree *tree) {
    return ct_is_cancelled_at("voxels", tree->n_nodes);
}

/* False: cancelled, as in all functions below where nothing else is said. */
static bool mark_finest(ct_voxel_tree *tree, const ct_cut *cut) {
    ct_voxel_level *level = &tree->level[tree->finest];
    for (uint32_t y = 0; y < level->n; y++)
        for (uint32_t x = 0; x < level->n; x++) {
            if (CT_POLL_EVERY(x, 32) && is_late(tree)) return false;
            fill_column(tree, level, cut, x, y);
        }
    return true;
}

/* False: out of memory, or cancelled. */
static bool build_finest(struct builder *b, const ct_cut *cut) {
    ct_voxel_level *level = &b->tree->level[b->tree->finest];
    if (!number_nodes(b, level)) return false;
    struct column_cube listed[1 << CT_MAX_VOXEL_LEVEL];
    for (uint32_t y = 0; y < level->n; y++)
        for (uint32_t x = 0; x < level->n; x++) {
            if (CT_POLL_EVERY(x, 32) && is_late(b->tree)) return false;
            const uint32_t n = list_column(cut, x, y, listed);
            for (uint32_t i = 0; i < n; i++) fill_finest_node(b, level, listed[i].sums, x, y, listed[i].z);
        }
    return true;
}

/* ---- coarser levels ---- */

static bool mark_parents(const ct_voxel_tree *tree, ct_voxel_level *level, const ct_voxel_level *finer) {
    for (uint32_t z = 0; z < level->n; z++)
        for (uint32_t y = 0; y < level->n; y++) {
            if (CT_POLL_EVERY(y, 32) && is_late(tree)) return false;
            for (uint32_t x = 0; x < level->n; x++) {
                const ct_voxel_brick *brick = ct_voxel_brick_at(finer, 2 * x, 2 * y, 2 * z);
                const uint32_t bit = ct_voxel_bit(2 * x, 2 * y, 2 * z);
                const uint64_t full = brick->full >> bit & CT_VOXEL_OCTANT;
                const uint64_t boundary = brick->boundary >> bit & CT_VOXEL_OCTANT;
                if (full | boundary) mark(level, x, y, z, boundary || full != CT_VOXEL_OCTANT, full == CT_VOXEL_OCTANT);
            }
        }
    return true;
}

static void fill_parent(const struct builder *b, ct_voxel_level *level, const ct_voxel_level *finer, ct_voxel *node) {
    double occupancy = 0, area[3] = {0}, moment[3] = {0}, size = 0;
    for (uint32_t c = 0; c < 8; c++) {
        const uint32_t of[3] = {c & 1, c >> 1 & 1, c >> 2};
        bool is_full;
        const ct_voxel *child = ct_voxel_find(finer, 2u * node->at[0] + of[0], 2u * node->at[1] + of[1],
                                              2u * node->at[2] + of[2], &is_full);
        occupancy += child ? (double)child->occupancy : is_full;
        if (!child) continue;
        const double child_size = b->finer_sizes[child - finer->nodes];
        size += child_size;
        for (int k = 0; k < 3; k++) {
            area[k] += (double)child->area[k];
            moment[k] += child_size * (0.5 * of[k] + (child->center[k] + 0.5) / 512);
        }
    }
    node->occupancy = (float)(occupancy / 8);
    for (int k = 0; k < 3; k++) {
        node->area[k] = (float)(area[k] / 4);
        node->center[k] = size > 0 ? part_of_256(moment[k] / size) : 128;
    }
    b->sizes[node - level->nodes] = size / 4;
}

/* False: out of memory, or cancelled. */
static bool build_coarser(struct builder *b, uint32_t l) {
    ct_voxel_level *level = &b->tree->level[l];
    const ct_voxel_level *finer = level + 1;
    if (!number_nodes(b, level)) return false;
    for (uint32_t z = 0; z < level->n; z++)
        for (uint32_t y = 0; y < level->n; y++) {
            if (CT_POLL_EVERY(y, 8) && is_late(b->tree)) return false;
            for (uint32_t x = 0; x < level->n; x++) {
                bool is_full;
                if (!ct_voxel_find(level, x, y, z, &is_full)) continue;
                ct_voxel *node = node_of(level, x, y, z);
                node->at[0] = (uint8_t)x;
                node->at[1] = (uint8_t)y;
                node->at[2] = (uint8_t)z;
                fill_parent(b, level, finer, node);
            }
        }
    return true;
}

static bool find_most_area(ct_voxel_level *level) {
    float most = 1;
    for (uint32_t i = 0; i < level->n_nodes; i++) {
        if (CT_POLL_EVERY(i, 4096) && ct_is_cancelled()) return false;
        for (int k = 0; k < 3; k++)
            while (fabsf(level->nodes[i].area[k]) > most) most *= 2;
    }
    level->most_area = most;
    return true;
}

/* False: out of memory, or cancelled. */
static bool build_index(ct_voxel_level *level) {
    const size_t side = level->n + 2 * CT_VOXEL_BORDER, n = index_size(level, level->n_nodes);
    if (!n) return true;
    level->index = calloc(n, sizeof *level->index);
    if (!level->index) return false;
    for (uint32_t z = 0; z < level->n && !ct_is_cancelled(); z++)
        for (uint32_t y = 0; y < level->n; y++)
            for (uint32_t x = 0; x < level->n; x++) {
                bool is_full;
                const ct_voxel *node = ct_voxel_find(level, x, y, z, &is_full);
                level->index[((z + CT_VOXEL_BORDER) * side + y + CT_VOXEL_BORDER) * side + x + CT_VOXEL_BORDER] =
                    node ? (uint16_t)(node - level->nodes + CT_VOXEL_PLAIN) : is_full;
            }
    return true;
}

/* ---- the tree ---- */

static void destroy(void *content) {
    ct_voxel_tree *tree = content;
    if (!tree) return;
    for (uint32_t l = 0; l <= CT_MAX_VOXEL_LEVEL; l++) {
        free(tree->level[l].bricks);
        if (tree->level[l].nodes) free(tree->level[l].nodes - CT_VOXEL_PLAIN);
        free(tree->level[l].index);
    }
    free(tree->hull.corners);
    free(tree);
}

static uint32_t lower_level(const ct_voxel_tree *tree) {
    return tree->finest > CT_MIN_VOXEL_LEVEL ? tree->finest - 1 : CT_MIN_VOXEL_LEVEL;
}

/* bytes: 0 where they are not counted to the end. */
static ct_status fail_bytes(const ct_voxel_tree *tree, uint64_t bytes, ct_error *error) {
    char need[48] = "";
    if (bytes) snprintf(need, sizeof need, "%llu bytes, ", (unsigned long long)bytes);
    return ct_fail(error, CT_LIMIT_EXCEEDED, "voxel_level",
                   "the mesh's voxel tree of level %u takes %smore than %llu bytes: use a voxel_level of %d to %u",
                   tree->finest, need, (unsigned long long)CT_MAX_VOXEL_BYTES, CT_MIN_VOXEL_LEVEL, lower_level(tree));
}

/* Before anything is made. */
static ct_status check_pieces(const ct_voxel_tree *tree, const ct_mesh *mesh, ct_error *error) {
    const double n_pieces = ct_count_pieces(mesh, ldexp(tree->side, -(int)tree->finest));
    if (n_pieces <= (double)CT_MAX_VOXEL_PIECES) return CT_OK;
    return ct_fail(
        error, CT_LIMIT_EXCEEDED, "voxel_level",
        "the mesh's voxel tree of level %u needs its %u triangles cut into some %.0f million pieces, at most "
        "%llu million are: use a voxel_level of %d to %u, or a mesh with fewer triangles",
        tree->finest, mesh->n_triangles, 1e-6 * n_pieces, (unsigned long long)(CT_MAX_VOXEL_PIECES / 1000000),
        CT_MIN_VOXEL_LEVEL, lower_level(tree));
}

/* Asks for all that the tree will take, beside its hull's few corners. */
static ct_status ask_room(ct_voxel_tree *tree, ct_mesh *mesh, ct_error *error) {
    tree->bytes = sizeof *tree;
    for (uint32_t l = 0; l <= tree->finest; l++) tree->bytes += bytes_of_level(&tree->level[l]);
    if (tree->bytes > CT_MAX_VOXEL_BYTES) return fail_bytes(tree, tree->bytes, error);
    ct_error why = {0};
    if (ct_mesh_ask_room(mesh, tree->bytes, &why)) return CT_OK;
    return ct_fail(error, why.status, why.field,
                   "no room for the mesh's voxel tree of level %u, of "
                   "which a voxel_level lower by one needs about a fourth: %s",
                   tree->finest, why.message);
}

/* Marks the cubes of all levels, from which follows how many nodes there are. */
static ct_status mark_levels(ct_voxel_tree *tree, const ct_mesh *mesh, ct_cut *cut, ct_error *error) {
    for (uint32_t l = 0; l <= tree->finest; l++)
        if (!begin_level(&tree->level[l], l, tree->side)) return CT_OUT_OF_MEMORY;
    const ct_voxel_level *finest = &tree->level[tree->finest];
    const ct_status status = ct_cut_mesh(mesh, tree->origin, finest->size, finest->n, MAX_FINEST_NODES, cut);
    if (status == CT_LIMIT_EXCEEDED) return fail_bytes(tree, 0, error);
    if (status) return status;
    bool is_marked = mark_finest(tree, cut);
    for (uint32_t l = tree->finest; l-- > 0 && is_marked;)
        is_marked = mark_parents(tree, &tree->level[l], &tree->level[l + 1]);
    return is_marked ? CT_OK : CT_CANCELLED;
}

/* Sets *error where something else than the tree itself refuses it. */
static ct_status build(ct_voxel_tree *tree, ct_mesh *mesh, ct_error *error) {
    struct builder b = {.tree = tree};
    ct_cut cut = {0};
    for (int k = 0; k < 3; k++) {
        tree->origin[k] = mesh->lo[k];
        tree->side = fmax(tree->side, mesh->hi[k] - mesh->lo[k]);
    }
    ct_status status = check_pieces(tree, mesh, error);
    if (!status) status = mark_levels(tree, mesh, &cut, error);
    if (!status) status = ask_room(tree, mesh, error);
    if (!status && !build_finest(&b, &cut)) status = CT_OUT_OF_MEMORY;
    ct_cut_free(&cut);
    if (!status && !ct_voxel_grow_groups(tree, b.sizes)) status = CT_OUT_OF_MEMORY;
    for (uint32_t l = tree->finest; l-- > 0 && !status;)
        if (!build_coarser(&b, l)) status = CT_OUT_OF_MEMORY;
    for (uint32_t l = 0; l <= tree->finest && !status; l++) {
        if (!find_most_area(&tree->level[l]) || !build_index(&tree->level[l])) status = CT_OUT_OF_MEMORY;
    }
    if (!status && !ct_voxel_inherit_groups(tree)) status = CT_CANCELLED;
    if (!status && !ct_voxel_find_hull(tree)) status = CT_OUT_OF_MEMORY;
    free(b.sizes);
    free(b.finer_sizes);
    return status;
}

static void *make(ct_mesh *mesh, uint32_t finest, uint64_t *bytes, ct_error *error) {
    ct_voxel_tree *tree = calloc(1, sizeof *tree);
    if (tree) tree->finest = finest;
    ct_enter_phase("making a voxel tree");
    ct_error refused = {0};
    const ct_status status = tree ? build(tree, mesh, &refused) : CT_OUT_OF_MEMORY;
    if (!status) {
        *bytes = tree->bytes;
        return tree;
    }
    destroy(tree);
    if (refused.status)
        ct_fail(error, refused.status, refused.field, "%s", refused.message);
    else
        ct_fail(error, CT_OUT_OF_MEMORY, "mesh", "no memory for a voxel tree of level %u: use a lower voxel_level",
                finest);
    return NULL;
}

/* A slot per level: scenes may differ in voxel_level. */
#define MAKE(l)                                                                                                        \
    static void *make_##l(ct_mesh *mesh, uint64_t *bytes, ct_error *error) {                                           \
        return make(mesh, l, bytes, error);                                                                            \
    }
/* clang-format off */
MAKE(3)
MAKE(4)
MAKE(5)
MAKE(6)
MAKE(7)
MAKE(8)
/* clang-format on */
#undef MAKE

static const ct_mesh_slot_kind kinds[] = {
    {"voxel tree of level 3", make_3, destroy}, {"voxel tree of level 4", make_4, destroy},
    {"voxel tree of level 5", make_5, destroy}, {"voxel tree of level 6", make_6, destroy},
    {"voxel tree of level 7", make_7, destroy}, {"voxel tree of level 8", make_8, destroy},
};

const ct_voxel_tree *ct_voxel_tree_of(ct_mesh *mesh, uint32_t finest, ct_error *error) {
    return ct_mesh_slot_get(mesh, &kinds[finest - CT_MIN_VOXEL_LEVEL], error);
}

bool ct_voxel_tree_hold(ct_mesh *mesh, uint32_t finest, ct_error *error) {
    return ct_mesh_slot_hold(mesh, &kinds[finest - CT_MIN_VOXEL_LEVEL], error);
}

void ct_voxel_tree_drop(ct_mesh *mesh, uint32_t finest) {
    ct_mesh_slot_drop(mesh, &kinds[finest - CT_MIN_VOXEL_LEVEL]);
}

uint32_t ct_voxel_level_for(const ct_mesh *mesh, const ct_scene_settings *settings) {
    const uint32_t level = settings->voxel_level ? settings->voxel_level : ct_voxel_default_level(mesh);
    return level < settings->level ? settings->level : level;
}

const ct_voxel_tree *ct_voxel_tree_for(ct_mesh *mesh, const ct_scene_settings *settings, ct_error *error) {
    return ct_voxel_tree_of(mesh, ct_voxel_level_for(mesh, settings), error);
}
