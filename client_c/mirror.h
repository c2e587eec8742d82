/* mirror.h - the updates of a step, and the state of the bodies that follows from them. */
#ifndef CONTACTD_MIRROR_H
#define CONTACTD_MIRROR_H

#include "client_c/client.h"

/* Checks the updates and the options' directions against the bodies, and copies them with their arrays into the step.
 */
contactd_code ctc_take_updates(contactd_client *client, ctc_scene *scene, ctc_step *step,
                               const contactd_update *updates, size_t n, const contactd_step_options *options);
void ctc_mirror_step(ctc_scene *scene, const ctc_step *step); /* it was answered: its updates are the state */

#endif
