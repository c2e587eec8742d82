/* fleet.h - what the parts of a fleet share: fleet.c, its calls, fleet_meshes.c, its meshes, and fleet_look.c, which
 * server has what. */
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
    ctc_fleet_mesh **meshes; /* [n_meshes] by handle - 1; NULL: removed */
    uint32_t n_meshes, cap_meshes;
    contactd_fleet_server *list; /* answer of the last listing */
};

#define CTC_NOWHERE UINT32_MAX

contactd_code ctc_fleet_no_memory(contactd_fleet *fleet);
contactd_code ctc_fleet_fail_as(contactd_fleet *fleet, const contactd_client *client); /* with the client's error */
/* The first lines of every public function. */
#define FLEET_BEGIN(fleet)                                                                                             \
    do {                                                                                                               \
        if (!(fleet)) return CONTACTD_INVALID_ARGUMENT;                                                                \
        (fleet)->error = (contactd_error){.code = CONTACTD_OK};                                                        \
    } while (0)
#define FLEET_REQUIRE(fleet, argument)                                                                                 \
    do {                                                                                                               \
        if (!(argument))                                                                                               \
            return ctc_fill_error(&(fleet)->error, CONTACTD_INVALID_ARGUMENT, "fleet", #argument,                      \
                                  #argument " is NULL");                                                               \
    } while (0)

/* ---- fleet_meshes.c ---- */

void ctc_fleet_mesh_free(ctc_fleet_mesh *mesh); /* NULL is allowed */

/* ---- fleet_look.c ---- */

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
