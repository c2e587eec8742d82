/* voxel_marks.c - voxel trees' cubes, and the normals of their contacts before and after reduction, as marks. */
#include <math.h>
#include <stdlib.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/picture/picture.h"
#include "gpu/voxtree/finish.h"

/* Pixels. */
static const double EDGE_WIDTH = 1, RAW_WIDTH = 1, REDUCED_WIDTH = 4;
/* Of the picture's shorter side: of the most probable primitive, and of points. */
static const double RAW_LENGTH = 0.06, REDUCED_LENGTH = 0.16;
static const uint8_t RAW_COLOR[4] = {215, 30, 30, 255}, REDUCED_COLOR[4] = {10, 130, 40, 255};

static const char REMEDY[] = "show one contact, or set a lower level";

/* ---- cubes ---- */

/* The level that a step came to in a body's tree: the finest of its pairs', or else that it may come to. */
static uint32_t level_of(const ct_snapshot *snapshot, const ct_scene_settings *settings, const ct_result *result,
                         uint32_t body, uint32_t finest) {
    uint32_t level = 0;
    bool is_found = false;
    for (uint64_t i = 0; i < result->n_progress; i++) {
        const ct_pair_progress *pair = &result->progress[i];
        for (int b = 0; b < 2; b++) {
            if (pair->body[b] != body || !pair->is_examined || !ct_snapshot_shows(&snapshot->options, pair->body))
                continue;
            is_found = true;
            if (pair->level[b] > level) level = pair->level[b];
        }
    }
    if (is_found) return level;
    return settings->level && settings->level < finest ? settings->level : finest;
}

/* A box in the world, of all bodies that are shown if two are not selected. */
typedef struct bounds {
    double lo[3], hi[3];
} bounds;

static void cut_to_body(bounds *box, const ct_snapshot_body *body) {
    double lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (uint32_t v = 0; v < body->mesh->n_vertices; v++) {
        double at[3];
        if (CT_POLL_EVERY(v, 1024) && ct_is_cancelled()) return; /* marking polls too */
        ct_snapshot_vertex(body, v, at);
        for (int k = 0; k < 3; k++) {
            lo[k] = fmin(lo[k], at[k]);
            hi[k] = fmax(hi[k], at[k]);
        }
    }
    for (int k = 0; k < 3; k++) {
        box->lo[k] = fmax(box->lo[k], lo[k]);
        box->hi[k] = fmin(box->hi[k], hi[k]);
    }
}

/* World positions of a cube's lowest corner and of the three beside it. False: it does not reach into the box. */
static bool place_cube(const ct_voxel_tree *tree, double size, const uint8_t index[3], const double pose[12],
                       const bounds *box, double at[4][3]) {
    bool reaches = true;
    for (int row = 0; row < 3; row++) {
        const double *m = pose + 4 * row;
        double low = m[3];
        for (int k = 0; k < 3; k++) low += m[k] * (tree->origin[k] + index[k] * size);
        double least = low, most = low;
        at[0][row] = low;
        for (int k = 0; k < 3; k++) {
            at[1 + k][row] = low + m[k] * size;
            least += fmin(m[k] * size, 0);
            most += fmax(m[k] * size, 0);
        }
        reaches = reaches && most >= box->lo[row] && least <= box->hi[row];
    }
    return reaches;
}

static ct_status mark_tree(ct_snapshot *snapshot, const ct_snapshot_body *body, const ct_voxel_tree *tree,
                           uint32_t level, const bounds *box, ct_error *error) {
    const ct_voxel_level *of = &tree->level[level];
    ct_status status = CT_OK;
    for (uint32_t i = 0; !status && i < of->n_nodes; i++) {
        double at[4][3];
        if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled()) return ct_fail_cancelled(error);
        if (!place_cube(tree, of->size, of->nodes[i].at, body->pose, box, at)) continue;
        uint8_t color[4];
        ct_color_scale(0.2 + 0.8 * (double)of->nodes[i].occupancy, color); /* the palest is hardly seen in a line */
        status = ct_marks_add(snapshot, CT_MARK_CUBE, (const double(*)[3])at, color, EDGE_WIDTH, "the cubes of trees",
                              REMEDY, error);
    }
    return status;
}

static ct_status mark_nodes(ct_snapshot *snapshot, const ct_scene_settings *settings, const ct_result *result,
                            ct_error *error) {
    bounds box = {{-INFINITY, -INFINITY, -INFINITY}, {INFINITY, INFINITY, INFINITY}};
    for (size_t i = 0; i < snapshot->n_bodies && snapshot->options.contact[0]; i++)
        cut_to_body(&box, &snapshot->bodies[i]);
    ct_status status = CT_OK;
    for (size_t i = 0; !status && i < snapshot->n_bodies; i++) {
        const ct_snapshot_body *body = &snapshot->bodies[i];
        const ct_voxel_tree *tree = ct_voxel_tree_for(body->mesh, settings, error);
        if (!tree) return ct_failure();
        const uint32_t level = level_of(snapshot, settings, result, body->id, tree->finest);
        status = mark_tree(snapshot, body, tree, level, &box, error);
    }
    return status;
}

/* ---- normals ---- */

static ct_status add_normal(ct_snapshot *snapshot, ct_mark_kind kind, const ct_point *point, double length,
                            const uint8_t color[4], double width, ct_error *error) {
    double at[2][3];
    for (int k = 0; k < 3; k++) {
        at[0][k] = point->position[k];
        at[1][k] = point->position[k] + length * point->normal[k];
    }
    return ct_marks_add(snapshot, kind, (const double(*)[3])at, color, width, "the normals of cubes", REMEDY, error);
}

/* Of one pair of bodies: all its primitives, as lines. */
static ct_status mark_primitives(ct_snapshot *snapshot, const ct_scene_settings *settings, const ct_pair_progress *pair,
                                 ct_error *error) {
    const ct_voxel_tree *trees[2];
    const double *poses[2];
    for (int b = 0; b < 2; b++) {
        const ct_snapshot_body *body = &snapshot->bodies[ct_snapshot_find_body(snapshot, pair->body[b])];
        trees[b] = ct_voxel_tree_for(body->mesh, settings, error);
        if (!trees[b]) return ct_failure();
        poses[b] = body->pose;
    }
    ct_point *points;
    uint32_t n;
    if (!ct_voxel_list_primitives(trees, poses, settings, pair->level, &points, &n))
        return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for the normals of bodies %u and %u",
                       pair->body[0], pair->body[1]);
    ct_status status = CT_OK;
    for (uint32_t i = 0; !status && i < n; i++)
        status =
            add_normal(snapshot, CT_MARK_LINE, &points[i],
                       points[i].weight * RAW_LENGTH * ct_snapshot_shorter_side(snapshot), RAW_COLOR, RAW_WIDTH, error);
    free(points);
    return status;
}

static ct_status mark_normals(ct_snapshot *snapshot, const ct_scene_settings *settings, const ct_result *result,
                              ct_error *error) {
    ct_status status = CT_OK;
    for (uint64_t i = 0; !status && i < result->n_progress; i++)
        if (result->progress[i].is_examined && ct_snapshot_shows(&snapshot->options, result->progress[i].body))
            status = mark_primitives(snapshot, settings, &result->progress[i], error);
    for (size_t i = 0; i < result->n_contacts; i++) {
        const ct_contact *contact = &result->contacts[i];
        if (!ct_snapshot_shows(&snapshot->options, contact->body)) continue;
        for (uint64_t k = 0; !status && k < contact->n_points; k++)
            status =
                add_normal(snapshot, CT_MARK_ARROW, &result->points[contact->first_point + k],
                           REDUCED_LENGTH * ct_snapshot_shorter_side(snapshot), REDUCED_COLOR, REDUCED_WIDTH, error);
    }
    return status;
}

ct_status ct_mark_voxels(ct_snapshot *snapshot, const ct_scene_settings *settings, const ct_result *result,
                         ct_error *error) {
    const uint32_t show = snapshot->options.show;
    ct_status status = CT_OK;
    if (show & CT_SHOW_NODES) status = mark_nodes(snapshot, settings, result, error);
    if (!status && show & CT_SHOW_NORMALS) status = mark_normals(snapshot, settings, result, error);
    return status;
}
