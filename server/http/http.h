/* http.h - the HTTP side of contactd: control API, metrics, health, the web page. Started and stopped by main.c.
 *
 * Threads: a few of libmicrohttpd's own do the socket work and answer what is answered from memory; a bounded set of
 * workers does what may take long (reading a mesh, a step), so neither waits for the other. The registry, scheduler and
 * metrics must outlive the server.
 */
#ifndef CONTACTD_HTTP_H
#define CONTACTD_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct registry;
struct scheduler;
struct metrics;

typedef struct http_server http_server;

typedef struct http_options {
    const char *address;     /* "127.0.0.1:8080", "[::1]:8080", "localhost:0"; port 0: any free one */
    uint64_t max_body_bytes; /* a request body larger than this is answered 413 */
    struct registry *registry;
    struct scheduler *scheduler;
    struct metrics *metrics;
} http_options;

/* Binds and starts answering. False: nothing runs and error says why, naming the address (a port in use, an address
 * that does not parse or is not this machine's) and the remedy. */
bool http_server_start(const http_options *options, http_server **out, char *error, size_t error_size);

const char *http_server_address(const http_server *server); /* as bound, with the port chosen: "127.0.0.1:41873" */

/* Refuses new requests, finishes those that run, closes all connections, frees and nulls. The scheduler must still be
 * answering: a request that waits for its step is waited for. NULL inside is allowed. */
void http_server_stop(http_server **server);

#endif
