/* tls.h - the certificate of the HTTP side, which can be read again while connections go on. For server.c. */
#ifndef CONTACTD_HTTP_TLS_H
#define CONTACTD_HTTP_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "server/base/error.h"

typedef struct tls tls;

/* Certificate chain and private key, PEM. False: *error names the file and why. */
bool tls_open(tls **out, const char *cert_path, const char *key_path, server_error *error);
/* Reads both files again; handshakes from now on get the new ones. False: *error says why, and the old ones stay. */
bool tls_reload(tls *tls, server_error *error);
void tls_close(tls **tls); /* after the last connection; NULL inside is allowed */

/* For libmicrohttpd's MHD_OPTION_HTTPS_CERT_CALLBACK: its certificate is that of the last tls opened, as the callback
 * gets no context. */
void *tls_certificate_callback(void);
/* TLS 1.3, and of TLS 1.2 what has forward secrecy and authenticated encryption. */
extern const char tls_priorities[];

/* A few bytes on a connection of libmicrohttpd's (its MHD_CONNECTION_INFO_GNUTLS_SESSION), without waiting. */
void tls_send(void *session, const char *bytes, size_t size);

#endif
