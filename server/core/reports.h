/* reports.h - what the server holds and does, as JSON: what HTTP answers and contactctl shows, made in one place so
 * that both have the same fields. proto/openapi.json describes them. */
#ifndef SERVER_REPORTS_H
#define SERVER_REPORTS_H

#include "server/base/json_out.h"
#include "server/core/service.h"

void report_session(json_out *out, const service *service, const session_record *session);
/* Whether who may see it: its own principal's, and operators and admins all. */
bool report_shows_session(const session_record *session, const identity *who);
void report_body(json_out *out, uint64_t scene, const body_record *body);
void report_bodies(json_out *out, uint64_t scene, const body_record *bodies, size_t n); /* a document */
/* who: that asks. Of what runs it is told of its own scenes, and operators and admins of all. */
void report_status(json_out *out, const service *service, const service_status *status, const identity *who);
void report_devices(json_out *out, const service_status *status);

#endif
