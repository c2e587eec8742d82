/* keys.c - contactctl keys new and tokens new: makes a secret, writes it to a file that only its owner reads, and
 * prints the line for the server's list of principals, in which it does not stand. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "client_c/ctl/ctl.h"

enum { KEY = 41, TOKEN_BYTES = 32 };

static bool is_name(const char *name) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t n = strlen(name);
    if (n >= 1 && n <= 47 && strspn(name, letters) == n && name[0] != '.' && name[0] != '-') return true;
    ctl_mistake("\"%s\" is no name: expected up to 47 letters, digits, dots, dashes and underscores", name);
    return false;
}

static const char *role_of(const ctl *ctl) {
    static const char *const roles[] = {"simulator", "operator", "admin"};
    const char *given = ctl->options[OPT_ROLE] ? ctl->options[OPT_ROLE] : roles[0];
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(given, roles[i]) == 0) return given;
    ctl_mistake("--role is \"%s\", expected simulator, operator or admin", given);
    return NULL;
}

/* Never over a file that exists: a lost key cannot be made again. */
static int write_secret(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int why = errno;
    if (fd >= 0 && close(fd) != 0) good = false;
    if (good) return EXIT_OK;
    if (fd >= 0) unlink(path);
    return ctl_cannot_write(path, why);
}

/* What the line is for, and where the secret is, go to stderr: stdout is the line alone, for >> into the list. */
static int print_line(const ctl *ctl, const char *role, const char *credential, const char *path) {
    if (ctl->json) {
        json_open(NULL, '{');
        json_text("name", ctl->args[0]);
        json_text("role", role);
        json_text("credential", credential);
        json_text("file", path);
        json_close('}');
        return EXIT_OK;
    }
    printf("%s %s %s\n", ctl->args[0], role, credential);
    ctl_say("wrote %s; the line above goes into the server's list of principals", path);
    return EXIT_OK;
}

int ctl_keys_new(ctl *ctl) {
    const char *name = ctl->args[0], *role = role_of(ctl);
    char public[KEY], secret[KEY], hex[65], path[64], text[400], credential[64];
    unsigned char bytes[32];
    if (!role || !is_name(name)) return EXIT_USAGE;
    if (zmq_curve_keypair(public, secret) != 0)
        return ctl_mistake("this build of ZeroMQ makes no keys: %s", zmq_strerror(zmq_errno()));
    zmq_z85_decode(bytes, public);
    sodium_bin2hex(hex, sizeof hex, bytes, sizeof bytes);
    snprintf(path, sizeof path, "%s.key", name);
    snprintf(text, sizeof text,
             "# contactd key pair \"%s\". The secret stays on this machine.\n"
             "# The public key where quotes are in the way: %s\npublic = %s\nsecret = %s\n",
             name, hex, public, secret);
    int code = write_secret(path, text);
    sodium_memzero(text, sizeof text);
    sodium_memzero(secret, sizeof secret);
    if (code != EXIT_OK) return code;
    snprintf(credential, sizeof credential, "key=%s", public);
    return print_line(ctl, role, credential, path);
}

int ctl_tokens_new(ctl *ctl) {
    const char *name = ctl->args[0], *role = role_of(ctl);
    unsigned char bytes[TOKEN_BYTES], hash[crypto_hash_sha256_BYTES];
    char token[2 * TOKEN_BYTES + 2], path[64], digits[2 * sizeof hash + 1], credential[16 + sizeof digits];
    if (!role || !is_name(name)) return EXIT_USAGE;
    if (sodium_init() < 0) return ctl_mistake("the system gives no random numbers");
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2hex(token, sizeof token, bytes, sizeof bytes);
    crypto_hash_sha256(hash, (const unsigned char *)token, strlen(token));
    sodium_bin2hex(digits, sizeof digits, hash, sizeof hash);
    token[2 * TOKEN_BYTES] = '\n';
    token[2 * TOKEN_BYTES + 1] = 0;
    snprintf(path, sizeof path, "%s.token", name);
    int code = write_secret(path, token);
    sodium_memzero(token, sizeof token);
    sodium_memzero(bytes, sizeof bytes);
    if (code != EXIT_OK) return code;
    snprintf(credential, sizeof credential, "token=sha256:%s", digits);
    return print_line(ctl, role, credential, path);
}
