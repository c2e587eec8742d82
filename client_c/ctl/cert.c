/* cert.c - contactctl keys cert: a certificate that signs itself, and its private key, for HTTPS without an
 * authority. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client_c/ctl/ctl.h"

enum { DAY_S = 86400, DEFAULT_DAYS = 365, MOST_DAYS = 3650, PEM_BYTES = 8192, MOST_NAMES = 32 };

typedef struct certificate {
    gnutls_x509_crt_t crt;
    gnutls_x509_privkey_t key;
} certificate;

static int fail(const char *what, int rc) {
    ctl_say("keys cert: %s: %s", what, gnutls_strerror(rc));
    return EXIT_SERVER;
}

/* An address or a host's name that clients say, which the certificate then holds for. */
static int add_name(gnutls_x509_crt_t crt, const char *name) {
    unsigned char address[16];
    if (inet_pton(AF_INET, name, address) == 1)
        return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, address, 4, GNUTLS_FSAN_APPEND);
    if (inet_pton(AF_INET6, name, address) == 1)
        return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, address, 16, GNUTLS_FSAN_APPEND);
    return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, name, (unsigned)strlen(name),
                                                GNUTLS_FSAN_APPEND);
}

static bool is_host(const char *name) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-:*";
    const size_t n = strlen(name);
    if (n >= 1 && n <= 253 && strspn(name, letters) == n) return true;
    ctl_mistake("\"%s\" is no name of a host and no address", name);
    return false;
}

/* Version 3, for this key, from a minute ago on: clocks differ. */
static int fill(const certificate *c, const char *const *names, int n, double days) {
    unsigned char serial[16];
    const time_t now = time(NULL);
    int rc = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof serial);
    serial[0] &= 0x7f; /* a positive number */
    if (rc >= 0) rc = gnutls_x509_crt_set_version(c->crt, 3);
    if (rc >= 0) rc = gnutls_x509_crt_set_serial(c->crt, serial, sizeof serial);
    if (rc >= 0)
        rc = gnutls_x509_crt_set_dn_by_oid(c->crt, GNUTLS_OID_X520_COMMON_NAME, 0, names[0],
                                           (unsigned)strnlen(names[0], 64)); /* as much as the field takes */
    for (int i = 0; i < n && rc >= 0; i++) rc = add_name(c->crt, names[i]);
    if (rc >= 0) rc = gnutls_x509_crt_set_activation_time(c->crt, now - 60);
    if (rc >= 0) rc = gnutls_x509_crt_set_expiration_time(c->crt, now + (time_t)(days * DAY_S));
    if (rc >= 0) rc = gnutls_x509_crt_set_basic_constraints(c->crt, 0, -1);
    if (rc >= 0) rc = gnutls_x509_crt_set_key_usage(c->crt, GNUTLS_KEY_DIGITAL_SIGNATURE);
    if (rc >= 0) rc = gnutls_x509_crt_set_key_purpose_oid(c->crt, GNUTLS_KP_TLS_WWW_SERVER, 0);
    if (rc >= 0) rc = gnutls_x509_crt_set_key(c->crt, c->key);
    if (rc >= 0) rc = gnutls_x509_crt_sign2(c->crt, c->crt, c->key, GNUTLS_DIG_SHA256, 0);
    return rc;
}

/* Never over a file that exists. */
static int write_file(const char *path, const char *text, size_t size, mode_t mode) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    bool good = fd >= 0 && write(fd, text, size) == (ssize_t)size;
    const int why = errno;
    if (fd >= 0 && close(fd) != 0) good = false;
    if (good) return EXIT_OK;
    if (fd >= 0) unlink(path);
    return ctl_cannot_write(path, why);
}

static int write_both(const certificate *c, const char *crt_path, const char *key_path) {
    char crt[PEM_BYTES], key[PEM_BYTES];
    size_t crt_size = sizeof crt, key_size = sizeof key;
    int rc = gnutls_x509_crt_export(c->crt, GNUTLS_X509_FMT_PEM, crt, &crt_size);
    if (rc >= 0)
        rc = gnutls_x509_privkey_export_pkcs8(c->key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, key, &key_size);
    if (rc < 0) return fail("writing the certificate", rc);
    int code = write_file(key_path, key, key_size, 0600);
    gnutls_memset(key, 0, sizeof key);
    if (code != EXIT_OK) return code;
    code = write_file(crt_path, crt, crt_size, 0644);
    if (code != EXIT_OK) unlink(key_path); /* a pair, or nothing */
    return code;
}

static int make(const char *const *names, int n, double days, const char *crt_path, const char *key_path) {
    certificate c = {NULL, NULL};
    int code = EXIT_OK, rc = gnutls_x509_privkey_init(&c.key);
    if (rc >= 0) rc = gnutls_x509_crt_init(&c.crt);
    if (rc >= 0)
        rc = gnutls_x509_privkey_generate(c.key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    if (rc >= 0) rc = fill(&c, names, n, days);
    code = rc < 0 ? fail("making a certificate", rc) : write_both(&c, crt_path, key_path);
    if (c.crt) gnutls_x509_crt_deinit(c.crt);
    if (c.key) gnutls_x509_privkey_deinit(c.key);
    return code;
}

/* Returns how many names there are then. */
static int add_once(const char **names, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcasecmp(names[i], name)) return n;
    names[n] = name;
    return n + 1;
}

int ctl_keys_cert(ctl *ctl) {
    static const char *const local[] = {"localhost", "127.0.0.1", "::1"};
    const char *names[MOST_NAMES + 3];
    char crt_path[300], key_path[300];
    double days = DEFAULT_DAYS;
    int n = 0;
    if (!ctl_number(ctl, OPT_DAYS, &days)) return EXIT_USAGE;
    if (!(days >= 1 && days <= MOST_DAYS))
        return ctl_mistake("--days is \"%s\", expected 1 to %d", ctl->options[OPT_DAYS], MOST_DAYS);
    if (strchr(ctl->args[0], '/') || strlen(ctl->args[0]) > 200)
        return ctl_mistake("\"%s\" is no name: expected the first part of two files' names in this folder",
                           ctl->args[0]);
    for (int i = 1; i < ctl->n_args; i++) {
        if (!is_host(ctl->args[i])) return EXIT_USAGE;
        n = add_once(names, n, ctl->args[i]);
    }
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) n = add_once(names, n, local[i]);
    snprintf(crt_path, sizeof crt_path, "%s.pem", ctl->args[0]);
    snprintf(key_path, sizeof key_path, "%s-key.pem", ctl->args[0]);
    const int code = make(names, n, days, crt_path, key_path);
    if (code != EXIT_OK) return code;
    if (ctl->json) {
        json_open(NULL, '{');
        json_text("certificate", crt_path);
        json_text("key", key_path);
        json_close('}');
        return EXIT_OK;
    }
    printf("contactd --http-cert %s --http-key %s\n", crt_path, key_path);
    ctl_say("wrote %s and %s, for %.0f days; clients trust it by curl --cacert %s", crt_path, key_path, days, crt_path);
    return EXIT_OK;
}
