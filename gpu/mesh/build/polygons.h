/* polygons.h - cuts the polygons of a mesh file into triangles, once all vertices are known. */
#ifndef CT_POLYGONS_H
#define CT_POLYGONS_H

#include "gpu/mesh/soup.h"

/* Cuts anew, in place, those of the soup's polygons whose fan folds over or is not the least of a polygon that is not
 * flat: by clipping ears seen along the polygon's normal, or so that the area is least. Notes in *changes how many are
 * not flat. A fan that is flat and folds nowhere stays. Polygons with vertices that are out of range or not finite are
 * left for the validation to refuse. A polygon that crosses itself stays as it is with
 * keeps_crossing; else INVALID_MESH. OUT_OF_MEMORY, CANCELLED. */
ct_status ct_cut_polygons(ct_soup *soup, bool keeps_crossing, ct_mesh_changes *changes, ct_error *error);

#endif
