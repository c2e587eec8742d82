/* session.h - a client's session with a server.
 *
 * A request that the server can repeat without harm is sent again when the connection broke; a step always, since the
 * server knows it by its sequence number. What must not happen twice (opening a scene, adding a body) is not: when its
 * answer may be lost the client starts a session anew and rebuilds its scenes there (restore.c), the old session's
 * scenes ending with their lease.
 *
 * A server may end over what it is asked. What two servers were at work on when they ended is not sent to a third: the
 * oldest step of each scene (ctc_note_ends), and the request other than a step that a call waits for. An end that the
 * server announced does not count.
 */
#ifndef CONTACTD_SESSION_H
#define CONTACTD_SESSION_H

#include "client_c/client.h"

contactd_code ctc_hello(contactd_client *client);
/* Sends a request and waits for its answer of the type expected, which is then in client->message. CTC_AGAIN: the
 * session is new. Any other error is in client->error. */
contactd_code ctc_exchange(contactd_client *client, wire_message *m, wire_type expected, const char *object);
/* Starts a session anew, until the deadline; meshes and scenes follow when they are next needed. */
contactd_code ctc_recover(contactd_client *client);

#endif
