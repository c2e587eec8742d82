/* identity.h - which contact, and which contact point, of a step is which of the step before, by numbers that they keep.
 * For the engine: CT_WANT_IDS. A scene remembers the contacts of its last step that wanted ids; other steps do no work,
 * and change nothing.
 *
 * A contact is known by its two bodies and by where its centre lies in the axes of either body: a place on the body is
 * given by the coordinates that it moves with (a rigid body's pose; of a deformable body, the world's about the middle of
 * its box). How far a contact went is the smaller of its ways in the two bodies: a foot that slides stays where it is on
 * its own body. Of a pair's contacts those that are nearest to each other are the same, until none are left that went less
 * than
 *
 *     2 (r_before + r_now) + the ways of the middles of both bodies' boxes,   r = max(sqrt(area), cbrt(volume)).
 *
 * The only contact that a pair had is the only one that it has, however far it went. What is left began, or ended. Points
 * of a contact that persists are matched in the same way; those of one that began are new. Results depend on neither
 * threads nor the order in which methods find contacts.
 *
 * A step that fails, or that an interruptible method ended before it looked at a pair, has no contact there: it ends. */
#ifndef CT_IDENTITY_H
#define CT_IDENTITY_H

#include "gpu/scene/scene.h"

/* What a step has to want beside ids: where contacts lie. */
uint32_t ct_identity_wants(const ct_step *step);

/* Sets id and is_new of the result's contacts, id of their points, and ended_ids. OUT_OF_MEMORY, CANCELLED: the scene
 * remembers what it did. */
ct_status ct_result_add_ids(ct_scene *scene, ct_result *result, ct_error *error);

/* The step has ended. Where it went well, its contacts are what the next one is compared with. */
void ct_identity_end_step(ct_scene *scene, bool is_good);

/* The next step's contacts are all new, with numbers that were not given before, and ended_ids has none. */
void ct_identity_forget(ct_scene *scene);

void ct_identity_free(struct ct_identity **identity);
uint64_t ct_identity_bytes(const struct ct_identity *identity);

#endif
