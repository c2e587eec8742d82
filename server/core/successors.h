/* successors.h - where clients go when this server drains: --successor, and files that it names. */
#ifndef SERVER_SUCCESSORS_H
#define SERVER_SUCCESSORS_H

#include <stdbool.h>

#include "server/base/config.h"
#include "server/base/error.h"

/* More are an error: every client gets the whole list. */
enum { SUCCESSORS_MAX_BYTES = 4096 };

/* Whether each is tcp://HOST:PORT, ipc://PATH or file:PATH. False: *error names the one that is not. */
bool successors_check(const config_list *list, server_error *error);

/* The addresses between commas, each once, those of files as the files are now: an address a line, # begins a comment.
 * A file that is not there has none. malloc'd; "" where there is none. NULL: *error names the file that cannot be read,
 * the line that is no address, or what there are too many of. */
char *successors_read(const config_list *list, server_error *error);

#endif
