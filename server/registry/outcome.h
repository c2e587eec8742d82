/* outcome.h - what a step of a scene came to, for whoever sends it and for the scene that keeps it for repeats. */
#ifndef SERVER_OUTCOME_H
#define SERVER_OUTCOME_H

#include "gpu/include/contact.h"
#include "server/base/error.h"

/* A step's outcome: immutable and reference-counted, as the scene keeps it for repeats while it is being sent. */
typedef struct step_answer step_answer;

const ct_result *step_answer_result(const step_answer *answer); /* NULL: the step failed */
uint64_t step_answer_bytes(const step_answer *answer);          /* of memory */
/* Steps of the scene that had a result, when this one ended: as scene_record.steps was then. */
uint64_t step_answer_steps(const step_answer *answer);
double step_answer_queue_seconds(const step_answer *answer);
/* That the step ran with, as asked for, and their revision (scene_record). */
const ct_scene_settings *step_answer_settings(const step_answer *answer, uint64_t *revision);
step_answer *step_answer_retain(step_answer *answer);
void step_answer_release(step_answer **answer); /* nulls; NULL is allowed */

#endif
