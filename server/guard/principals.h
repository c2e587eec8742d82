/* principals.h - the list of principals as read from its file. For guard.c and its test. */
#ifndef SERVER_GUARD_PRINCIPALS_H
#define SERVER_GUARD_PRINCIPALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "server/base/error.h"
#include "server/guard/identity.h"

enum { TOKEN_HASH_BYTES = 32, CREDENTIAL_BYTES = 48, MAX_WEIGHT = 1000 };

typedef enum credential_kind { CREDENTIAL_KEY, CREDENTIAL_UID, CREDENTIAL_TOKEN, CREDENTIAL_KINDS } credential_kind;

typedef struct credential {
    credential_kind kind;
    char name[IDENTITY_NAME];
    role role;
    char text[CREDENTIAL_BYTES];          /* "key=...", "uid=..."; empty for a token */
    unsigned char hash[TOKEN_HASH_BYTES]; /* of a token */
    uint32_t weight;                      /* 0: not given on this line */
    uint64_t max_step_ms;                 /* the same */
    uint32_t principal;                   /* set by the guard */
} credential;

typedef struct principals {
    credential *items;
    size_t n;
} principals;

/* Weights and limits are filled in: all lines of a principal have those that any of them gives, or 1 and none. False:
 * *error says which line is wrong, and *out is empty. */
bool principals_read(principals *out, const char *path, server_error *error);
void principals_free(principals *list);

#endif
