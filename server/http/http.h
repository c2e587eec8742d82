/* http.h - the HTTP side of contactd: control API, metrics, health, the web page. Started and stopped by main.c.
 *
 * Threads: a few of libmicrohttpd's own do the socket work and answer what is answered from memory; the
 * service's workers (server/core/workers.h) do what may take long (reading a mesh, a step), so neither waits for the other.
 * A picture holds no thread while the scheduler takes its snapshot.
 */
#ifndef CONTACTD_HTTP_H
#define CONTACTD_HTTP_H

#include <stdbool.h>

struct service;
struct server_error;

typedef struct http_server http_server;

/* Binds service->config->http ("127.0.0.1:8080", "[::1]:8080", "localhost:0"; port 0: any free one) and starts
 * answering, or takes over service->sockets' own. "off" without a passed socket: true, and *out is NULL. The service
 * must outlive the server. False: nothing runs and *error says why, naming the address (a port in use, an address that
 * does not parse or is not this machine's; one that other machines reach, without certificate and tokens) and the
 * remedy. */
bool http_server_start(const struct service *service, http_server **out, struct server_error *error);

const char *http_server_address(const http_server *server); /* as bound, with the port chosen: "127.0.0.1:41873" */

/* Reads the certificate and its key again, for connections from now on. True where there is none. False: *error says
 * why, and the old ones stay. */
bool http_server_reload(http_server *server, struct server_error *error);

/* Takes no new connections and requests, answers those that run, closes the rest, frees and nulls. The scheduler must
 * still be answering (after scheduler_drain, before scheduler_stop): a request that waits for its step is waited for.
 * NULL inside is allowed. */
void http_server_stop(http_server **server);

#endif
