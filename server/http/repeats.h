/* repeats.h - answers to steps that a client may ask for again: a request with a header Idempotency-Key that was
 * answered gets the same answer, without computing. So a client that lost an answer with its connection sends the step
 * again and moves no body twice. For handlers.h; any thread. */
#ifndef CONTACTD_HTTP_REPEATS_H
#define CONTACTD_HTTP_REPEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/problem.h"

typedef struct repeats repeats;

enum {
    REPEATS_MOST = 1024,      /* keys; older ones are forgotten */
    REPEATS_BYTES = 64 << 20, /* answers kept; of older ones only the key is */
    REPEATS_KEY = 128,        /* characters of a key */
};

repeats *repeats_new(void);           /* NULL: out of memory */
void repeats_free(repeats **repeats); /* NULL inside is allowed */

typedef struct repeat_request {
    uint64_t scene;
    uint32_t principal; /* a key is its principal's own */
    const char *key;    /* as received */
    const void *body;   /* [size] a key stands for one body */
    size_t size;
} repeat_request;

typedef enum repeat_outcome {
    REPEAT_FIRST,    /* carry it out, then call repeats_end */
    REPEAT_ANSWERED, /* *answer is the answer (malloc'd, the caller's) */
    REPEAT_REFUSED,  /* *p says why: INVALID_ARGUMENT, CONFLICT (in progress, another body, answer no longer kept) */
} repeat_outcome;

repeat_outcome repeats_begin(repeats *repeats, const repeat_request *request, char **answer, size_t *size, problem *p);
/* answer NULL: it failed, has changed nothing, and may be tried again with the same key. Else it is copied. */
void repeats_end(repeats *repeats, const repeat_request *request, const char *answer, size_t size);

#endif
