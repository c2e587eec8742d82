/* fleet.h - what a fleet remembers, and its errors. */
#ifndef CONTACTD_FLEET_H
#define CONTACTD_FLEET_H

#include "client_c/base.h"

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

static inline contactd_code ctc_fleet_no_memory(contactd_fleet *fleet) {
    return ctc_fill_error(&fleet->error, CONTACTD_OUT_OF_MEMORY, "fleet", "", "out of memory in this process");
}
/* With the client's error. */
static inline contactd_code ctc_fleet_fail_as(contactd_fleet *fleet, const contactd_client *client) {
    fleet->error = client->error;
    return client->error.code;
}
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

#endif
