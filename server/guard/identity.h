/* identity.h - who asks: a principal and its role. Made by the guard, carried by sessions, scenes and commands. */
#ifndef SERVER_GUARD_IDENTITY_H
#define SERVER_GUARD_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

enum { IDENTITY_NAME = 48 }; /* bytes of a principal's name with its NUL */

/* Principals are numbered from 1 for as long as the process runs; a name keeps its number. */
#define PRINCIPAL_NONE 0 /* no credentials are asked for where this one came from */

typedef enum role {
    ROLE_UNRESTRICTED, /* no credentials are asked for: everything is allowed */
    ROLE_SIMULATOR,    /* its own meshes and scenes */
    ROLE_OPERATOR,     /* look at everything, configure scenes, take pictures, drain the server */
    ROLE_ADMIN,        /* everything */
} role;

typedef struct identity {
    uint32_t principal;
    role role;
    char name[IDENTITY_NAME]; /* empty for PRINCIPAL_NONE */
    uint32_t weight;          /* of its shares (shares.h); 0 counts as 1 */
    uint32_t origin;          /* of PRINCIPAL_NONE: stands for the address that it came from over HTTP; 0: not known */
    uint32_t others_weight;   /* of all other listed principals that have meshes and scenes together */
    uint64_t max_step_ms;     /* that a step of it may run for, instead of --max-step-time; 0: none is listed */
} identity;

static inline uint32_t identity_weight(const identity *who) {
    return who->weight ? who->weight : 1;
}

/* Whether other principals are listed that must get their shares. */
static inline bool identity_has_others(const identity *who) {
    return who->principal != PRINCIPAL_NONE && who->others_weight > 0;
}

const char *role_name(role role); /* "simulator"; "unrestricted" */

/* Register meshes, open scenes, add and remove bodies, step, close. */
static inline bool role_simulates(role role) {
    return role != ROLE_OPERATOR;
}

/* Sees the meshes and scenes of all principals, may configure the scenes, and may drain the server. */
static inline bool role_operates(role role) {
    return role != ROLE_SIMULATOR;
}

/* May remove and close what belongs to others. */
static inline bool role_administers(role role) {
    return role == ROLE_ADMIN || role == ROLE_UNRESTRICTED;
}

#endif
