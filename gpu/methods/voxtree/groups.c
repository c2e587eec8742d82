/* groups.c - grows groups over neighbouring boundary nodes, the flattest seeds first. */
#include "gpu/methods/voxtree/tree.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/base/cancel.h"

enum { NO_GROUP = CT_MAX_VOXEL_GROUPS };

struct grower {
    ct_voxel_level *level;
    const double *sizes; /* [n_nodes] */
    uint32_t *queue;     /* [n_nodes] */
    double cosine;       /* least, of the angle to the seed's direction */
};

/* Returns the area vector's length. */
static double find_direction(const ct_voxel *node, double out[3]) {
    double length = 0;
    for (int k = 0; k < 3; k++) length += (double)node->area[k] * (double)node->area[k];
    length = sqrt(length);
    for (int k = 0; k < 3; k++) out[k] = length > 0 ? (double)node->area[k] / length : 0;
    return length;
}

/* Takes the node's neighbours that face as the seed does into the group. Returns the end of the queue. */
static uint32_t visit_neighbours(struct grower *g, const ct_voxel *node, const double seed[3], uint16_t group,
                                 uint32_t end) {
    ct_voxel_level *level = g->level;
    uint32_t lo[3], hi[3];
    for (int k = 0; k < 3; k++) {
        lo[k] = node->at[k] ? node->at[k] - 1u : 0;
        hi[k] = node->at[k] + 1u < level->n ? node->at[k] + 1u : node->at[k];
    }
    for (uint32_t z = lo[2]; z <= hi[2]; z++)
        for (uint32_t y = lo[1]; y <= hi[1]; y++)
            for (uint32_t x = lo[0]; x <= hi[0]; x++) {
                bool is_full;
                const ct_voxel *next = ct_voxel_find(level, x, y, z, &is_full);
                if (!next || next->group != NO_GROUP) continue;
                double d[3];
                if (find_direction(next, d) > 0 && d[0] * seed[0] + d[1] * seed[1] + d[2] * seed[2] < g->cosine)
                    continue;
                const uint32_t index = (uint32_t)(next - level->nodes);
                level->nodes[index].group = group;
                g->queue[end++] = index;
            }
    return end;
}

/* False: too many groups. */
static bool grow_groups(struct grower *g, uint32_t *n_groups) {
    ct_voxel_level *level = g->level;
    for (uint32_t i = 0; i < level->n_nodes; i++) level->nodes[i].group = NO_GROUP;
    *n_groups = 0;
    /* Nodes at an edge of the surface face between its sides and would make groups of their own, so flat ones come
     * first. */
    static const double flatness[] = {0.98, 0.8, -1};
    for (int pass = 0; pass < 3; pass++)
        for (uint32_t i = 0; i < level->n_nodes; i++) {
            if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled()) return true; /* whoever asks polls too */
            if (level->nodes[i].group != NO_GROUP) continue;
            double seed[3];
            const double length = find_direction(&level->nodes[i], seed);
            const bool is_oriented = length > 0;
            if (length <= flatness[pass] * g->sizes[i] && pass < 2) continue;
            if (*n_groups == CT_MAX_VOXEL_GROUPS) return false;
            const uint16_t group = (uint16_t)(*n_groups)++;
            level->nodes[i].group = group;
            g->queue[0] = i;
            uint32_t end = 1;
            for (uint32_t q = 0; q < end && is_oriented && !(CT_POLL_EVERY(q + 1, 256) && ct_is_cancelled()); q++)
                end = visit_neighbours(g, &level->nodes[g->queue[q]], seed, group, end);
        }
    return true;
}

/* Gives a level's nodes the groups of their children. */
static bool inherit_groups(ct_voxel_level *level, const ct_voxel_level *finer) {
    for (uint32_t i = 0; i < level->n_nodes; i++) {
        if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled()) return false;
        ct_voxel *node = &level->nodes[i];
        double most = -1;
        for (uint32_t c = 0; c < 8; c++) {
            bool is_full;
            const ct_voxel *child = ct_voxel_find(finer, 2u * node->at[0] + (c & 1), 2u * node->at[1] + (c >> 1 & 1),
                                                  2u * node->at[2] + (c >> 2), &is_full);
            double area = 0;
            for (int k = 0; child && k < 3; k++) area += (double)child->area[k] * (double)child->area[k];
            if (!child || area <= most) continue;
            most = area;
            node->group = child->group;
        }
    }
    return true;
}

bool ct_voxel_grow_groups(ct_voxel_tree *tree, const double *sizes) {
    static const double cosines[] = {0.55, 0, -2};
    ct_voxel_level *finest = &tree->level[tree->finest];
    struct grower grower = {
        .level = finest, .sizes = sizes, .queue = malloc((finest->n_nodes + 1) * sizeof *grower.queue)};
    if (!grower.queue) return false;
    bool fits = false;
    for (size_t i = 0; i < sizeof cosines / sizeof *cosines && !fits; i++) {
        grower.cosine = cosines[i];
        fits = grow_groups(&grower, &tree->n_groups);
    }
    free(grower.queue);
    /* Even connectivity may leave too many, of nodes that face nowhere. Their group is the last. */
    for (uint32_t i = 0; i < finest->n_nodes && !fits && !(CT_POLL_EVERY(i, 8192) && ct_is_cancelled()); i++)
        if (finest->nodes[i].group == NO_GROUP) finest->nodes[i].group = NO_GROUP - 1;
    return !ct_is_cancelled();
}

bool ct_voxel_inherit_groups(ct_voxel_tree *tree) {
    bool is_done = true;
    for (uint32_t l = tree->finest; l-- > 0 && is_done;) is_done = inherit_groups(&tree->level[l], &tree->level[l + 1]);
    return is_done;
}
