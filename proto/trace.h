/* trace.h - the trace context that a request carries (W3C Trace Context, "traceparent"), for server and clients. */
#ifndef CONTACTD_TRACE_H
#define CONTACTD_TRACE_H

#include <stdbool.h>
#include <string.h>

enum { TRACE_PARENT = 55, TRACE_ID = 32 }; /* characters of "00-TRACE_ID-PARENT_ID-FLAGS", and of its trace id */

static inline bool trace_is_parent(const char *text) {
    static const char hex[] = "0123456789abcdef";
    return text && strlen(text) == TRACE_PARENT && strspn(text, hex) == 2 && memcmp(text, "ff", 2) != 0 &&
           text[2] == '-' && strspn(text + 3, hex) == TRACE_ID && strspn(text + 3, "0") < TRACE_ID && text[35] == '-' &&
           strspn(text + 36, hex) == 16 && strspn(text + 36, "0") < 16 && text[52] == '-' &&
           strspn(text + 53, hex) == 2;
}

/* The trace id of a traceparent; empty where it is none, which is then ignored, as the standard says. */
static inline void trace_id(const char *parent, char id[TRACE_ID + 1]) {
    bool good = trace_is_parent(parent);
    if (good) memcpy(id, parent + 3, TRACE_ID);
    id[good ? TRACE_ID : 0] = 0;
}

#endif
