/* surfaces.h - the surfaces of a scene's bodies as they are after a step, for what is computed from finished results:
 * slip, contact points, separations. */
#ifndef CT_SURFACES_H
#define CT_SURFACES_H

#include "gpu/mesh/clusters.h"
#include "gpu/scene/scene.h"

typedef struct ct_surface {
    const ct_body *body;
    const float *positions;      /* [vertices][3], m, in the axes of the body's pose; of a half-space, of no use */
    const ct_clusters *clusters; /* NULL until ct_surfaces_tree */
    const ct_cluster_box *boxes; /* [clusters->n_nodes] of these positions */
    const float *low;            /* [vertices][3] what float32 leaves of the positions (mesh/split.h); NULL: nothing */
    float *own_positions, *own_low; /* freed with the surfaces */
    ct_cluster_box *own_boxes;
    struct ct_surface_cluster **own_clusters; /* [clusters->n] with the tree; NULL where none was asked for yet */
} ct_surface;

/* A cluster for searches by many lines that each cross few of its triangles. */
enum { CT_PART_OF_CLUSTER = 16, CT_PARTS_OF_CLUSTER = CT_CLUSTER_TRIANGLES / CT_PART_OF_CLUSTER };

typedef struct ct_surface_cluster {
    ct_cluster_box part[CT_PARTS_OF_CLUSTER]; /* of CT_PART_OF_CLUSTER consecutive triangles each; of none: lo > hi */
    float corner[3][3]
                [CT_CLUSTER_TRIANGLES]; /* [corner][axis][triangle] m, without what `low` adds; of none: anything */
} ct_surface_cluster;

/* Positions and trees are fetched when they are first asked for. */
typedef struct ct_surfaces {
    const ct_scene *scene;
    ct_surface *of; /* [bodies of the scene] */
} ct_surfaces;

/* With no step of the scene running until ct_surfaces_close. False: out of memory. */
bool ct_surfaces_open(ct_surfaces *surfaces, const ct_scene *scene);
void ct_surfaces_close(ct_surfaces *surfaces);

/* The body's index in scene->bodies, from its handle. */
uint32_t ct_scene_index_of(const ct_scene *scene, uint32_t id);

/* The surface of the body at this index, with its positions. OUT_OF_MEMORY, DEVICE_ERROR; the error names `field`. */
ct_status ct_surfaces_get(ct_surfaces *surfaces, uint32_t index, const char *field, ct_surface **out, ct_error *error);

/* The same, with its tree; not of a half-space. */
ct_status ct_surfaces_tree(ct_surfaces *surfaces, uint32_t index, const char *field, ct_surface **out, ct_error *error);

/* Fetches the surfaces of all contacts with an area and without cells, with their trees, so that threads may ask for them
 * and for their clusters side by side. OUT_OF_MEMORY, DEVICE_ERROR, CANCELLED; the error names `field`. */
ct_status ct_surfaces_fetch(ct_surfaces *surfaces, const ct_result *result, const char *field, ct_error *error);

/* A cluster of a surface with a tree: made when it is first asked for. NULL: out of memory. */
const ct_surface_cluster *ct_surface_cluster_of(ct_surface *surface, uint32_t cluster);

#endif
