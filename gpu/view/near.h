/* near.h - the part of a body that can matter to a pair: the clusters that lie in its window, found in the body's
 * cluster tree; and the box of a posed body, from the same tree. */
#ifndef CT_NEAR_H
#define CT_NEAR_H

#include <stdbool.h>

#include "gpu/base/box.h"
#include "gpu/mesh/clusters.h"
#include "gpu/view/view_k.h"

/* Consecutive triangles [first, end). */
typedef struct ct_triangle_run {
    uint32_t first, end;
} ct_triangle_run;

/* A body as the tree sees it. */
typedef struct ct_near_body {
    const ct_clusters *clusters;
    const ct_cluster_box *boxes; /* [n_nodes], current */
    const double *pose;          /* row-major 3x4; NULL: the boxes are in the world's frame */
    uint8_t initial[3];          /* ct_initial_winding of the view along each axis */
    uint32_t n_triangles;
} ct_near_body;

typedef struct ct_near {
    uint32_t n_runs, n_clusters;
    uint64_t n_triangles, n_vertices; /* vertices are counted once per cluster */
} ct_near;

/* Finds the clusters that may hold a triangle which matters in some view: one that is not beside the window, not behind
 * its depths, and not in front of them where the initial winding number follows from the balance. Every triangle that
 * the raster stage would keep is in one of them, so leaving the others out changes no bit. Writes them as runs in
 * rising order, [clusters->n] at most, none longer than max_run triangles (a multiple of CT_CLUSTER_TRIANGLES); runs
 * may be NULL. */
ct_near ct_find_near(const ct_near_body *body, const ct_window *window, uint32_t max_run, ct_triangle_run *runs);

/* At least n clusters may lie in front of the window of the view along axis `view`, before its samples: those
 * that ct_find_near lists for counting winding numbers alone. */
bool ct_has_in_front(const ct_near_body *body, const ct_window *window, int view, uint32_t n);

/* An upper estimate of the triangles that ct_find_near lists without going down to the clusters. */
uint64_t ct_estimate_near(const ct_near_body *body, const ct_window *window);

/* Finds the clusters that may hold a triangle which straddles the begin of the depths of the view along axis
 * `view`, and lies beyond a sample along u, or v. As ct_find_near otherwise. */
ct_near ct_find_straddling(const ct_near_body *body, const ct_window *window, int view, bool along_u,
                           ct_triangle_run *runs);

/* Calls visit for consecutive triangles [first, end) that may meet one of the boxes, m, world. */
typedef void (*ct_visit_triangles)(void *context, uint32_t first, uint32_t end);
void ct_visit_near_boxes(const ct_near_body *body, const ct_box *boxes, uint32_t n_boxes, ct_visit_triangles visit,
                         void *context);

/* The smallest box around a posed body: the same bits as ct_snap_cpu.box over all its vertices. positions: rest
 * positions, [vertices][3]; clusters->has_all_vertices is set. */
void ct_posed_box(const ct_clusters *clusters, const float *positions, const double pose[12], ct_box *box);

#endif
