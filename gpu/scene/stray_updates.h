/* stray_updates.h - a step's updates as the backends apply them: those of deformable bodies with vertices that no triangle
 * uses are replaced by others, which move such vertices with their anchor (mesh/strays.h) wherever the caller puts them.
 */
#ifndef CT_STRAY_UPDATES_H
#define CT_STRAY_UPDATES_H

#include "gpu/include/contact.h"

/* A scene's memory for it, zeroed at first. */
typedef struct ct_stray_updates {
    const ct_update *given; /* the step's updates while others replace them; NULL: they are its own */
    ct_update *updates;     /* [update_capacity] */
    char *numbers;          /* [number_bytes] their positions and indices */
    size_t update_capacity, number_bytes;
} ct_stray_updates;

/* Replaces step->updates, which have been checked, where some body needs it. NON_FINITE, OUT_OF_MEMORY. */
ct_status ct_replace_stray_updates(ct_step *step, ct_error *error);

/* Gives the step its own updates back. */
void ct_restore_stray_updates(ct_step *step);

void ct_stray_updates_free(ct_stray_updates *strays);

#endif
