/* answers.h - the records of the registry and the results of steps as JSON; reports.h has the rest. Field names are
 * those of contactctl's JSON and of contactd.fbs; proto/openapi.json describes them. */
#ifndef CONTACTD_HTTP_ANSWERS_H
#define CONTACTD_HTTP_ANSWERS_H

#include "server/base/json_out.h"
#include "server/core/service.h"

/* changes: of a registration, with what the repair did if it was asked for; NULL: it is none. closing, deviation: how
 * it was closed. */
void answer_mesh(json_out *out, const mesh_record *mesh, uint64_t device_bytes, const ct_mesh_changes *changes,
                 bool was_repaired, ct_closing closing, double deviation);
void answer_scene(json_out *out, const scene_record *scene);
/* latencies: of the last n steps, in s; sorted by this. */
void answer_stats(json_out *out, const scene_record *scene, float *latencies, size_t n);
/* Their fields, into an object that is begun. */
void answer_settings(json_out *out, const ct_scene_settings *settings, uint64_t revision);
/* Of a step of a scene of two bodies: their contact, of bodies 1 and 2. */
void answer_overlap(json_out *out, const step_answer *answer, const char *backend);
void answer_step(json_out *out, uint64_t scene, const step_answer *answer, const char *backend);

#endif
