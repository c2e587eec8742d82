/* socket.h - a client's socket: connecting, sending, receiving. */
#ifndef CONTACTD_SOCKET_H
#define CONTACTD_SOCKET_H

#include "client_c/client.h"

contactd_code ctc_socket_open(contactd_client *client, const contactd_options *options);
void ctc_socket_close(contactd_client *client);
/* Sends m with the session's numbers and a new request number, waiting for a connection until the deadline, but not at
 * all where `wait` is false: then BUSY means that nothing was sent. */
contactd_code ctc_send(contactd_client *client, wire_message *m, ctc_step *step, bool wait);
/* Waits for one message until until_ns at most, or 20 ms, after which it reads the socket monitor. A step's answer goes
 * to the step; the answer to `request` is left in client->message. */
typedef enum ctc_event { CTC_NOTHING, CTC_ANSWER, CTC_OTHER } ctc_event;
ctc_event ctc_pump(contactd_client *client, uint64_t request, uint64_t until_ns);
void ctc_drain_monitor(contactd_client *client); /* reads the events: connections made, lost, refused */
/* The deadline has passed while something was waited for. */
contactd_code ctc_timed_out(contactd_client *client, const char *object, const char *waiting_for);

#endif
