/* many_result.h - the answer to steps of many scenes as the caller sees it. */
#ifndef CONTACTD_MANY_RESULT_H
#define CONTACTD_MANY_RESULT_H

#include "client_c/client.h"

/* Of client->message, which it takes over; *result as for contactd_step_many. False: out of memory, and *result is as it
 * was. */
bool ctc_make_many(contactd_client *client, ctc_scene *const *scenes, contactd_many_result **result);

#endif
