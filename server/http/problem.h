/* problem.h - what the HTTP side says when it refuses: one struct, filled by the first failure, sent as an
 * application/problem+json document (RFC 9457) with the codes of proto/errors.h. */
#ifndef CONTACTD_HTTP_PROBLEM_H
#define CONTACTD_HTTP_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/error.h"

typedef struct problem {
    contactd_code code;      /* OK: nothing went wrong yet */
    int status;              /* HTTP; 0: the code's own */
    char title[64];          /* empty: the code's text */
    char object[96];         /* "scene 17"; may be empty */
    char field[96];          /* "updates[2].positions"; may be empty */
    char detail[640];        /* expected, actual, remedy */
    uint32_t retry_after_ms; /* 0: none */
    bool accepts_identity;   /* 415: Accept-Encoding is sent, RFC 9110, 15.5.16 */
    bool asks_token;         /* 401: WWW-Authenticate is sent */
    uint32_t allow;          /* 405: the methods there are, see router.h */
} problem;

/* Fills *p unless it holds a failure already; returns false, so that a check can end with it. field may be NULL. */
__attribute__((format(printf, 4, 5))) bool problem_set(problem *p, contactd_code code, const char *field,
                                                       const char *format, ...);

/* The same with an HTTP status and a title of its own, for what is wrong with the request and not with an object. */
__attribute__((format(printf, 6, 7))) bool problem_set_http(problem *p, contactd_code code, int status,
                                                            const char *title, const char *field, const char *format,
                                                            ...);

bool problem_take(problem *p, const server_error *error); /* what the rest of the server said; returns false */

int problem_status(const problem *p);

/* Whole seconds for a Retry-After header, at least 1 where the code says that a retry can help; 0: no header. */
uint32_t problem_retry_after(const problem *p);

/* The document; malloc'd, of *size bytes. Text that is not UTF-8 is shown with replacement characters. NULL: no memory.
 */
char *problem_document(const problem *p, size_t *size);

#endif
