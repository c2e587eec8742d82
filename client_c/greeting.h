/* greeting.h - which security mechanism a server wants. */
#ifndef CONTACTD_GREETING_H
#define CONTACTD_GREETING_H

#include "client_c/client.h"

/* Begins to ask the server for its security mechanism, once in a call. Over tcp:// only. */
void ctc_greeting_ask(contactd_client *client);
/* Takes what has come in answer. True: the server wants another mechanism than this client offers. */
bool ctc_greeting_names_other(contactd_client *client);
void ctc_greeting_close(ctc_greeting *greeting);

#endif
