/* fleet_look.h - which servers a fleet has, and how its connections are spread over them. */
#ifndef CONTACTD_FLEET_LOOK_H
#define CONTACTD_FLEET_LOOK_H

#include "client_c/fleet.h"

/* Of a client that asks the server at the address something, and is closed again. */
contactd_options ctc_fleet_probe_options(const contactd_fleet *fleet, const char *address);

void ctc_fleet_servers_free(ctc_fleet_servers *servers);
/* Asks the sources for addresses and each server whether it is there. UNREACHABLE: none is; CONFLICT: two addresses
 * are one server. */
contactd_code ctc_fleet_find(contactd_fleet *fleet, ctc_fleet_servers *out);
/* Index of the server that the connection is at; CTC_NOWHERE: one that is not listed. */
uint32_t ctc_fleet_where(const ctc_fleet_servers *servers, const contactd_client *client);
/* Seed of the order in which connection `number` ranks servers: the same in all fleets. */
uint64_t ctc_fleet_seed(uint32_t number);
/* Gives each of n connections a server that is up, where[i], moving as few as can be from where they are. At least one
 * server is up. OUT_OF_MEMORY. */
contactd_code ctc_fleet_spread(contactd_fleet *fleet, uint32_t *where, uint32_t n);
contactd_code ctc_fleet_look(contactd_fleet *fleet, uint32_t *moved);

#endif
