/* keys.h - the keys that a client connects with. */
#ifndef CONTACTD_KEYS_H
#define CONTACTD_KEYS_H

#include "client_c/client.h"

/* Both may be NULL or empty: no encryption. A key, or a key file (proto/keyfile.h). Before the socket connects. */
contactd_code ctc_keys_set(contactd_client *client, const char *server_key, const char *client_key);

#endif
