/* strays.h - vertices that no triangle uses. A mesh keeps them, as callers number positions and entries with them; but its
 * own positions, and those of its deformable bodies (scene/stray_updates.h), have them where some vertex of a triangle
 * is. So no box, lattice or tolerance depends on them, and nothing else has to know of them. Included from C and C++. */
#ifndef CT_STRAYS_H
#define CT_STRAYS_H

#include "gpu/include/contact.h"

/* [vertices][3] rest positions, with strays where their anchor is. What ct_mesh_positions gives has them where the
 * caller had put them. */
const float *ct_mesh_rest(const ct_mesh *mesh);

/* Moves the strays of a mesh that is being made to their anchor. False: out of memory, or cancelled. */
bool ct_set_strays_aside(ct_mesh *mesh);

bool ct_is_stray(const ct_mesh *mesh, uint32_t vertex);

#endif
