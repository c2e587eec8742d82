/* flight.h - steps in flight: submitted, and not yet waited for. */
#ifndef CONTACTD_FLIGHT_H
#define CONTACTD_FLIGHT_H

#include "client_c/client.h"

static inline bool ctc_is_in_flight(const ctc_step *step) {
    return step->state == STEP_UNSENT || step->state == STEP_SENT;
}
ctc_step *ctc_take_spare_step(contactd_client *client); /* NULL: out of memory */
void ctc_put_spare_step(contactd_client *client, ctc_step *step);
void ctc_remove_step(contactd_client *client, ctc_step *step); /* from those in flight */
void ctc_steps_free(contactd_client *client);
ctc_step *ctc_step_of_request(contactd_client *client, uint64_t request);
void ctc_step_answered(contactd_client *client, ctc_step *step); /* client->message is its answer */
/* The error of a step, by the caller's names of scene and body. */
void ctc_fill_step_error(ctc_scene *scene, const wire_error *from, contactd_error *to);
void ctc_end_step(contactd_client *client, ctc_step *step); /* with its answer or error; abandoned: forgotten */
/* Sends steps again, with their numbers, as the answer was lost: that of the request, or of all that are sent where it
 * is 0. */
void ctc_resend_steps(contactd_client *client, uint64_t request);
void ctc_unsend_steps(contactd_client *client, uint32_t scene); /* numbers are void; scene 0: of all */
void ctc_drop_steps(contactd_client *client, uint32_t scene);
void ctc_forget_scene(contactd_client *client, contactd_scene handle); /* with its steps: it is closed */
void ctc_rebuild_scene(contactd_client *client, ctc_scene *scene);     /* when it is next needed */
/* The server of this epoch ended without a word, and the steps have not been sent to another. */
void ctc_note_ends(contactd_client *client, uint64_t epoch);

#endif
