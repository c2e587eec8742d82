/* keys.c - the keys that a client connects with, given as text or as files. */
#include "client_c/keys.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client_c/base.h"
#include "proto/keyfile.h"

/* A file of that name, else a key. line: of a key file that the key stands on. */
static contactd_code read_key(contactd_client *client, const char *given, const char *option, const char *line,
                              char key[KEYFILE_KEY + 1]) {
    char message[400];
    if (access(given, F_OK) == 0) {
        if (keyfile_read(given, line, key, message, sizeof message)) return CONTACTD_OK;
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "client", option, "%s: %s", option, message);
    }
    if (!keyfile_parse(given, key)) /* not shown: it may be a secret that was copied wrongly */
        return ctc_fail(
            client, CONTACTD_INVALID_ARGUMENT, "client", option,
            "%s is neither a key of %d characters, or 64 hexadecimal digits, nor a file that exists; contactctl keys "
            "new makes both",
            option, KEYFILE_KEY);
    return CONTACTD_OK;
}

contactd_code ctc_keys_set(contactd_client *client, const char *server_key, const char *client_key) {
    char server[KEYFILE_KEY + 1], public[KEYFILE_KEY + 1], secret[KEYFILE_KEY + 1];
    bool has_server = server_key && *server_key, has_client = client_key && *client_key;
    if (!has_server && !has_client) return CONTACTD_OK;
    if (has_server != has_client)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "client", has_server ? "client_key" : "server_key",
                        "%s is given without %s; an encrypted connection takes both",
                        has_server ? "server_key" : "client_key", has_server ? "client_key" : "server_key");
    contactd_code code = read_key(client, server_key, "server_key", "public", server);
    if (code == CONTACTD_OK) code = read_key(client, client_key, "client_key", "secret", secret);
    if (code != CONTACTD_OK) return code;
    bool good = zmq_curve_public(public, secret) == 0 &&
                zmq_setsockopt(client->socket, ZMQ_CURVE_SERVERKEY, server, sizeof server) == 0 &&
                zmq_setsockopt(client->socket, ZMQ_CURVE_PUBLICKEY, public, sizeof public) == 0 &&
                zmq_setsockopt(client->socket, ZMQ_CURVE_SECRETKEY, secret, sizeof secret) == 0;
    memset(secret, 0, sizeof secret);
    if (!good)
        return ctc_fail(client, CONTACTD_UNSUPPORTED, "client", "client_key", "CURVE cannot be set up: %s",
                        zmq_strerror(zmq_errno()));
    client->has_keys = true;
    return CONTACTD_OK;
}
