/* fleet_meshes.h - the meshes of a fleet. */
#ifndef CONTACTD_FLEET_MESHES_H
#define CONTACTD_FLEET_MESHES_H

#include "client_c/fleet.h"

void ctc_fleet_mesh_free(ctc_fleet_mesh *mesh); /* NULL is allowed */

#endif
