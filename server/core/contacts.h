/* contacts.h - contacts as JSON, for HTTP's answers and live view, and for reports over the stream. */
#ifndef SERVER_CONTACTS_H
#define SERVER_CONTACTS_H

#include "server/base/json_out.h"
#include "server/registry/outcome.h"
#include "server/registry/registry.h"

/* What contacts and cells both have, into an object that is begun. groups: CT_CONTACT_... beside those that the result
 * says that it has. */
void report_contact_fields(json_out *out, const ct_result *result, const ct_contact *contact, unsigned groups);
/* "points", of a step that gives them. */
void report_contact_points(json_out *out, const ct_result *result, const ct_contact *contact);

typedef enum contact_order { CONTACTS_BY_PLACE, CONTACTS_BY_VOLUME, CONTACTS_BY_DEPTH, CONTACTS_BY_ID } contact_order;

/* Which of a scene's contacts, and in what order: the largest volume or depth first, or the least id, or as they stand. */
typedef struct contact_page {
    uint64_t offset, limit;
    uint64_t body; /* only those of this one; 0: all */
    contact_order order;
} contact_page;

/* The contacts of the last step as one document: GET /v1/scenes/{scene}/contacts. last: its answer; NULL: it is not kept.
 * False: *error says why there are none. */
bool report_contacts(json_out *out, const scene_record *scene, const step_answer *last, const contact_page *page,
                     server_error *error);

#endif
