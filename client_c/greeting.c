/* greeting.c - asks a server which security mechanism it wants.
 *
 * Where the two sides want different mechanisms, the one that notices first closes the connection. A busy server may
 * read the client's whole greeting at once and close before it has sent its own, and the client then sees only the end
 * of the connection. So the client connects once more and sends the first 11 bytes of a greeting: a server answers them
 * with its whole greeting, which names its mechanism (ZMTP 3.0, RFC 23, "Greeting"):
 *
 *     signature 10 | version 2 | mechanism 20 | as-server 1 | filler 31
 */
#include "client_c/greeting.h"

#include <string.h>

enum { QUESTION = 11, MECHANISM_AT = 12, MECHANISM_BYTES = 20 };

void ctc_greeting_ask(contactd_client *client) {
    ctc_greeting *g = &client->greeting;
    if (g->socket || g->is_asked || strncmp(client->address, "tcp://", 6) != 0)
        return; /* ZMQ_STREAM connects to no other */
    g->socket = zmq_socket(client->context, ZMQ_STREAM);
    if (!g->socket) return; /* the call then ends with its timeout */
    g->is_asked = true;
    g->n = 0;
    zmq_setsockopt(g->socket, ZMQ_LINGER, &(int){0}, sizeof(int));
    if (strchr(client->address, '[')) zmq_setsockopt(g->socket, ZMQ_IPV6, &(int){1}, sizeof(int));
    if (zmq_connect(g->socket, client->address)) ctc_greeting_close(g);
}

void ctc_greeting_close(ctc_greeting *g) {
    if (g->socket) zmq_close(g->socket);
    g->socket = NULL;
}

/* Receives one message of ZMQ_STREAM: the connection's routing id, then its bytes. It has no bytes when the connection
 * begins, and when it ends. False: there is no message. */
static bool receive(ctc_greeting *g) {
    static const unsigned char question[QUESTION] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3};
    unsigned char id[256], bytes[256];
    const int id_size = zmq_recv(g->socket, id, sizeof id, ZMQ_DONTWAIT);
    if (id_size < 0) return false;
    int size = zmq_recv(g->socket, bytes, sizeof bytes, 0);
    if (size < 0) return false;
    if (size > (int)sizeof bytes) size = sizeof bytes; /* of which zmq_recv kept as many */
    if (size == 0 && g->n == 0) {
        if (zmq_send(g->socket, id, (size_t)id_size, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
            zmq_send(g->socket, question, sizeof question, ZMQ_DONTWAIT);
        return true;
    }
    const size_t left = sizeof g->bytes - g->n, more = (size_t)size < left ? (size_t)size : left;
    memcpy(g->bytes + g->n, bytes, more);
    g->n += more;
    return true;
}

bool ctc_greeting_names_other(contactd_client *client) {
    static const char null[MECHANISM_BYTES] = "NULL", curve[MECHANISM_BYTES] = "CURVE";
    ctc_greeting *g = &client->greeting;
    bool is_other = false;
    while (g->socket && receive(g)) {
        if (g->n < MECHANISM_AT + MECHANISM_BYTES) continue;
        const bool is_greeting = g->bytes[0] == 0xff && g->bytes[9] == 0x7f && g->bytes[10] >= 3;
        is_other =
            is_greeting && memcmp(g->bytes + MECHANISM_AT, client->has_keys ? curve : null, MECHANISM_BYTES) != 0;
        ctc_greeting_close(g);
    }
    return is_other;
}
