/* mirror.h - the updates of a step, and the state of the bodies that follows from them. */
#ifndef CONTACTD_MIRROR_H
#define CONTACTD_MIRROR_H

#include "client_c/client.h"

/* Checks the updates and the options' directions against the bodies, and copies them with their arrays into the step.
 */
contactd_code ctc_take_updates(contactd_client *client, ctc_scene *scene, ctc_step *step,
                               const contactd_update *updates, size_t n, const contactd_step_options *options);
/* Whether a step may have the update; its body then has what ctc_keep_update needs. */
contactd_code ctc_check_update(contactd_client *client, ctc_scene *scene, const contactd_update *update);
void ctc_keep_update(ctc_scene *scene, const contactd_update *update); /* it is the body's state */
void ctc_mirror_step(ctc_scene *scene, const ctc_step *step);          /* it was answered: its updates are the state */

#endif
