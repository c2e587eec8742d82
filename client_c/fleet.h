/* fleet.h - what the two parts of a fleet share: fleet.c, its calls, and fleet_look.c, which server has what. */
#ifndef CONTACTD_FLEET_H
#define CONTACTD_FLEET_H

#include "client_c/client.h"

typedef struct ctc_fleet_mesh {
    char *name;
    char hash[33];
    uint64_t vertices;
    void *positions, *triangles, *file; /* the only copy: the clients' sources point here */
    wire_register_mesh source;
    contactd_repair repair;
    contactd_mesh *handles; /* [n_connections] of each client; 0: not asked for yet */
} ctc_fleet_mesh;

typedef struct ctc_fleet_server {
    char *address;
    bool is_up;
    bool is_successor; /* named by a server that drained, not by the sources */
    uint64_t epoch;    /* 0: it never answered */
} ctc_fleet_server;
typedef struct ctc_fleet_servers {
    ctc_fleet_server *list;
    uint32_t n, cap;
} ctc_fleet_servers;

struct contactd_fleet {
    contactd_error error;
    contactd_options options; /* its strings are the fleet's */
    contactd_placement placement;
    uint32_t probe_ms;
    ctc_fleet_servers servers;     /* as of the last look */
    contactd_client **connections; /* [n_connections] */
    uint32_t n_connections;
    ctc_fleet_mesh **meshes; /* [n_meshes] by handle - 1 */
    uint32_t n_meshes, cap_meshes;
    contactd_fleet_server *list; /* answer of the last listing */
};

#define CTC_NOWHERE UINT32_MAX

contactd_code ctc_fleet_no_memory(contactd_fleet *fleet);

/* ---- fleet_look.c ---- */

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
