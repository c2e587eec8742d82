/* framing.h - whether a request's header leaves no doubt about where the request begins and ends, and which host it is
 * for (RFC 9112). A proxy that reads such a header differently would hand us one request inside another. For server.c.
 * Pure: it looks at the header as libmicrohttpd parsed it.
 *
 * libmicrohttpd before 1.0 takes lines that end in a bare LF, cuts values at a NUL, and appends continued lines to the
 * field's name. It parses in place: it overwrites the colon and the end of each line by zeros, and its names and values
 * are views into the buffer. So the bytes between one value and the next name tell what it hides. Version 1.0 refuses
 * these requests by itself, and its buffer is not looked at.
 */
#ifndef CONTACTD_HTTP_FRAMING_H
#define CONTACTD_HTTP_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/http/problem.h"

enum { FRAMING_SINGLE = 10 }; /* fields that must not stand twice, see framing.c */

typedef struct framing {
    bool looks_between;   /* the header was parsed in place, as described above */
    const char *line_end; /* of the line before */
    unsigned n[FRAMING_SINGLE];
    const char *host, *length, *coding; /* values; NULL: absent */
    problem *problem;
} framing;

/* uri, version: of the request line, where `looks_between` as libmicrohttpd's views. False: *p says what is wrong, and
 * the connection must be closed after the answer. */
bool framing_begin(framing *framing, const char *uri, const char *version, bool looks_between, problem *p);
/* Each field of the header, in its order. */
bool framing_take(framing *framing, const char *name, size_t name_size, const char *value, size_t value_size);
/* The header is at its end. version: as above. authority: of a URI in absolute form; NULL: the URI is a path. */
bool framing_end(framing *framing, const char *version, const char *authority);

/* The size of the chunk whose data begin at `data`, from the line before it. That line lies in the buffer unless it was
 * received alone: then 0. */
uint64_t framing_chunk_size(const char *data);

/* "http://host:80/path" -> the path, which is in uri, and the authority. A URI without scheme is its own path. False:
 * *authority is too small. */
bool framing_split_uri(const char *uri, const char **path, char *authority, size_t size);

#endif
