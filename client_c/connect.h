/* connect.h - clients: made, freed, and told to close their scenes. */
#ifndef CONTACTD_CONNECT_H
#define CONTACTD_CONNECT_H

#include "client_c/client.h"
#include "client_c/servers.h"

contactd_code ctc_options_check(const contactd_options *options, contactd_error *error);
/* A client that connects, but has not said Hello. start may be NULL: the client chooses. *out is NULL after an error.
 */
contactd_code ctc_client_new(const contactd_options *options, const ctc_start *start, contactd_client **out,
                             contactd_error *error);
void ctc_client_free(contactd_client *client);
/* Closes its scenes on the server, which is not waited for long. The client is then to be freed, or lost. */
void ctc_say_goodbye(contactd_client *client);

#endif
