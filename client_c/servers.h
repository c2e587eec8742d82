/* servers.h - a client's servers, and going from one to another. */
#ifndef CONTACTD_SERVERS_H
#define CONTACTD_SERVERS_H

#include "client_c/client.h"

/* So many failed attempts to connect: nothing listens there. The first may only be that a connection was lost. */
#define CTC_RETRIES 2

typedef struct ctc_start { /* where a fleet's connection begins, its order of the servers, and its patience with them */
    const char *address;
    uint64_t seed;
    uint32_t silence_ms;
} ctc_start;

/* Notes the servers, and where to connect first: client->address. start may be NULL; with it, a source that cannot be
 * asked now is no error. */
contactd_code ctc_servers_open(contactd_client *client, const char *text, const ctc_start *start);
void ctc_servers_close(ctc_servers *servers);
/* Adds the addresses of all sources. A source that cannot be asked adds nothing: INVALID_ARGUMENT (or OUT_OF_MEMORY),
 * and `why` names the first. */
contactd_code ctc_servers_ask(ctc_servers *servers, char *why, size_t size);
uint64_t ctc_servers_rank(uint64_t seed, const char *address); /* of rendezvous hashing: the highest is first */
/* Goes to another server, which will answer STATE_LOST. False: there is none. */
bool ctc_servers_leave(contactd_client *client);
bool ctc_servers_go(contactd_client *client, const char *to);     /* the same, to this one. False: out of memory */
void ctc_servers_drop(ctc_servers *servers, const char *address); /* it is listed no more */
/* Addresses between commas that a server which drains sent: the client may go there too from now on. */
void ctc_servers_learn(contactd_client *client, const char *successors);
void ctc_servers_tend(contactd_client *client); /* while waiting: leaves a server that is gone for too long */

#endif
