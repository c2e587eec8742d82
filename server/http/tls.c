/* tls.c - see tls.h. GnuTLS asks for the certificate at each handshake. */
#include "server/http/tls.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHAIN = 16 }; /* certificates */

/* A certificate chain and its key. Handshakes use it without counting, so it is kept until the end. */
typedef struct pair {
    struct pair *older;
    gnutls_pcert_st chain[MAX_CHAIN];
    unsigned n;
    gnutls_privkey_t key;
} pair;

struct tls {
    char *cert_path, *key_path;
    _Atomic(pair *) current;
};

const char tls_priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:"
                              "-CIPHER-ALL:+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-GCM:-MAC-ALL:+AEAD";

/* GnuTLS gives its callback no context of ours. */
static _Atomic(tls *) the_tls;

static void free_pair(pair *pair) {
    for (unsigned i = 0; i < pair->n; i++) gnutls_pcert_deinit(&pair->chain[i]);
    if (pair->key) gnutls_privkey_deinit(pair->key);
    free(pair);
}

static bool read_chain(pair *pair, const char *path, server_error *error) {
    gnutls_datum_t bytes;
    int code = gnutls_load_file(path, &bytes);
    if (code < 0)
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, path, "http-cert", "the certificate cannot be read: %s",
                           strerror(errno));
    pair->n = MAX_CHAIN;
    code = gnutls_pcert_list_import_x509_raw(pair->chain, &pair->n, &bytes, GNUTLS_X509_FMT_PEM,
                                             GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
    gnutls_free(bytes.data);
    if (code >= 0 && pair->n > 0) return true;
    pair->n = 0;
    return server_fail(error, CONTACTD_INVALID_ARGUMENT, path, "http-cert",
                       "this is no certificate chain in PEM, the server's own first: %s", gnutls_strerror(code));
}

static bool read_key(pair *pair, const char *path, server_error *error) {
    gnutls_datum_t bytes;
    if (gnutls_load_file(path, &bytes) < 0)
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, path, "http-key", "the private key cannot be read: %s",
                           strerror(errno));
    int code = gnutls_privkey_init(&pair->key);
    if (code >= 0) code = gnutls_privkey_import_x509_raw(pair->key, &bytes, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_memset(bytes.data, 0, bytes.size);
    gnutls_free(bytes.data);
    if (code >= 0) return true;
    return server_fail(error, CONTACTD_INVALID_ARGUMENT, path, "http-key",
                       "this is no private key in PEM without a passphrase: %s", gnutls_strerror(code));
}

static bool public_id(gnutls_pubkey_t key, unsigned char id[64], size_t *size) {
    *size = 64;
    return gnutls_pubkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, id, size) >= 0;
}

/* Whether the private key is the certificate's. */
static bool belong_together(const pair *pair) {
    unsigned char a[64], b[64];
    size_t n_a = 0, n_b = 0;
    gnutls_pubkey_t key = NULL;
    bool good = gnutls_pubkey_init(&key) >= 0 && gnutls_pubkey_import_privkey(key, pair->key, 0, 0) >= 0 &&
                public_id(key, a, &n_a) && public_id(pair->chain[0].pubkey, b, &n_b) && n_a == n_b &&
                memcmp(a, b, n_a) == 0;
    if (key) gnutls_pubkey_deinit(key);
    return good;
}

bool tls_reload(tls *tls, server_error *error) {
    pair *fresh = calloc(1, sizeof *fresh);
    if (!fresh) return server_fail(error, CONTACTD_OUT_OF_MEMORY, "http", "http-cert", "no memory for a certificate");
    bool good = read_chain(fresh, tls->cert_path, error) && read_key(fresh, tls->key_path, error);
    if (good && !belong_together(fresh))
        good = server_fail(error, CONTACTD_INVALID_ARGUMENT, tls->key_path, "http-key",
                           "this private key is not that of the certificate in %s", tls->cert_path);
    if (!good) {
        free_pair(fresh);
        return false;
    }
    fresh->older = atomic_load(&tls->current);
    atomic_store(&tls->current, fresh);
    return true;
}

bool tls_open(tls **out, const char *cert_path, const char *key_path, server_error *error) {
    *out = NULL;
    tls *tls = calloc(1, sizeof *tls);
    if (tls) {
        tls->cert_path = strdup(cert_path);
        tls->key_path = strdup(key_path);
    }
    if (!tls || !tls->cert_path || !tls->key_path) {
        tls_close(&tls);
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "http", "http-cert", "no memory for a certificate");
    }
    if (!tls_reload(tls, error)) {
        tls_close(&tls);
        return false;
    }
    atomic_store(&the_tls, tls);
    *out = tls;
    return true;
}

void tls_close(tls **where) {
    tls *tls = *where;
    if (!tls) return;
    atomic_store(&the_tls, NULL);
    for (pair *pair = atomic_load(&tls->current), *older; pair; pair = older) {
        older = pair->older;
        free_pair(pair);
    }
    free(tls->cert_path);
    free(tls->key_path);
    free(tls);
    *where = NULL;
}

static int certificate(gnutls_session_t session, const gnutls_datum_t *issuers, int n_issuers,
                       const gnutls_pk_algorithm_t *algorithms, int n_algorithms, gnutls_pcert_st **chain,
                       unsigned *n_chain, gnutls_privkey_t *key) {
    (void)session, (void)issuers, (void)n_issuers, (void)algorithms, (void)n_algorithms;
    tls *tls = atomic_load(&the_tls);
    pair *pair = tls ? atomic_load(&tls->current) : NULL;
    if (!pair) return -1;
    *chain = pair->chain;
    *n_chain = pair->n;
    *key = pair->key;
    return 0;
}

void *tls_certificate_callback(void) {
    return (void *)(uintptr_t)certificate;
}

void tls_send(void *session, const char *bytes, size_t size) {
    gnutls_record_send(session, bytes, size); /* if the socket is full, the client does not read anyway */
}
