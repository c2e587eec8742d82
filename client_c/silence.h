/* silence.h - tells a connection whose bytes still move, however slowly, from one that is silent, over TCP. For socket.c.
 *
 * libzmq's own timeout of heartbeats knows whole frames alone: one that takes longer to come, of a large answer over a
 * slow network, would end the connection again and again. */
#ifndef CLIENT_C_SILENCE_H
#define CLIENT_C_SILENCE_H

#include "client_c/client.h"

/* Before connecting to `address`: how libzmq is to watch the connection. */
void ctc_silence_prepare(contactd_client *client, const char *address);
/* There is a connection, of this descriptor, over whatever transport; -1: there is none any more. */
void ctc_silence_note(contactd_client *client, int fd);
/* Ends the connection if nothing has moved for so long that the server must be gone, or hang. While an answer is waited
 * for; looks once a second. */
void ctc_silence_look(contactd_client *client, uint64_t now_ns);

#endif
