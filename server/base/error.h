/* error.h - the one shape of an error inside the server, for everything that answers a client: stream, HTTP, scheduler.
 *
 * Codes and their HTTP status, retry hint and text come from proto/errors.h. The first failure wins: a filled error is
 * left alone.
 */
#ifndef SERVER_ERROR_H
#define SERVER_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/include/contact.h"
#include "proto/errors.h"

typedef struct server_error {
    contactd_code code; /* CONTACTD_OK: no error, and the texts have no meaning */
    /* When a retry is likely to succeed; 0: no hint. With LIMIT_EXCEEDED: what others hold now is in the way, and may
     * be gone by then. Without it, the request alone exceeds the limit. */
    uint32_t retry_after_ms;
    char object[96];   /* "scene 17", "mesh 3 \"bunny\"", "body 4"; may be empty */
    char field[48];    /* "positions"; may be empty */
    char message[512]; /* expected, actual, remedy */
} server_error;

/* Makes it none. Most are none, so their texts are neither cleared nor copied. */
static inline void server_clear(server_error *error) {
    error->code = CONTACTD_OK;
    error->retry_after_ms = 0;
}
static inline void server_copy(server_error *to, const server_error *from) {
    if (from->code == CONTACTD_OK)
        server_clear(to);
    else
        *to = *from;
}

/* Fills *error (may be NULL) and returns false, so that a failing function can `return server_fail(...)`. */
__attribute__((format(printf, 5, 6))) bool server_fail(server_error *error, contactd_code code, const char *object,
                                                       const char *field, const char *format, ...);

/* Takes over what the engine said about `object`; returns false. */
bool server_fail_engine(server_error *error, const char *object, const ct_error *cause);
/* The same for work that is no step, such as making a mesh or a picture. TIME_LIMIT: it ran into the server's limit, which
 * the message names. SHUTTING_DOWN: the server ended it (CT_CANCEL_CALLER, see workers.h). */
bool server_fail_work(server_error *error, const char *object, const ct_error *cause);

/* Facts of a code; a number that is no code reads as INTERNAL's. */
const char *server_code_name(contactd_code code); /* "NOT_FOUND" */
const char *server_code_text(contactd_code code);
int server_code_http(contactd_code code);
bool server_code_retry(contactd_code code);
/* Whether the same request may succeed later: by its code, or because retry_after_ms says when. */
bool server_error_may_retry(const server_error *error);

#endif
