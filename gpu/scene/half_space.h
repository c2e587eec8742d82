/* half_space.h - half-spaces as the engine keeps them: rigid bodies with a small mesh that stands for what is below
 * their plane, and which a method places wherever it needs it (gpu/scene/half_space_k.h). */
#ifndef CT_HALF_SPACE_H
#define CT_HALF_SPACE_H

#include "gpu/scene/half_space_k.h"
#include "gpu/scene/scene.h"

/* The box from (-1, -1, -1) to (1, 1, 0). The caller owns a reference. NULL: out of memory. */
ct_mesh *ct_half_space_mesh(ct_error *error);

#endif
