/* principals.c - see principals.h. */
#include "server/guard/principals.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/keyfile.h"
#include "server/base/duration.h"

static const char *const role_names[] = {"unrestricted", "simulator", "operator", "admin"};

const char *role_name(role role) {
    return role_names[role];
}

void principals_free(principals *list) {
    free(list->items);
    *list = (principals){0};
}

static bool read_name(const char *text, char name[IDENTITY_NAME]) {
    size_t n = strlen(text);
    if (n == 0 || n >= IDENTITY_NAME) return false;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i])) return false;
    }
    memcpy(name, text, n + 1);
    return true;
}

static bool read_role(const char *text, role *out) {
    for (role role = ROLE_SIMULATOR; role <= ROLE_ADMIN; role++) {
        if (strcmp(text, role_names[role]) != 0) continue;
        *out = role;
        return true;
    }
    return false;
}

static bool read_hash(const char *text, unsigned char hash[TOKEN_HASH_BYTES]) {
    if (strlen(text) != 2 * TOKEN_HASH_BYTES || strspn(text, "0123456789abcdefABCDEF") != 2 * TOKEN_HASH_BYTES)
        return false;
    for (size_t i = 0; i < TOKEN_HASH_BYTES; i++) {
        const char digits[3] = {text[2 * i], text[2 * i + 1], 0};
        hash[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return true;
}

/* False: *expected says what the credential should look like. */
static bool read_credential(const char *text, credential *out, const char **expected) {
    if (strncmp(text, "key=", 4) == 0) {
        out->kind = CREDENTIAL_KEY;
        char key[KEYFILE_KEY + 1];
        *expected =
            "key= and a public key of 40 characters, as contactctl keys new prints it, or of 64 hexadecimal digits";
        if (!keyfile_parse(text + 4, key)) return false;
        snprintf(out->text, sizeof out->text, "key=%s", key);
        return true;
    }
    if (strncmp(text, "uid=", 4) == 0) {
        out->kind = CREDENTIAL_UID;
        *expected = "uid= and the number of a user, as id -u prints it";
        size_t n = strlen(text + 4);
        if (n == 0 || n > 10 || strspn(text + 4, "0123456789") != n) return false;
        uint64_t uid = strtoull(text + 4, NULL, 10);
        snprintf(out->text, sizeof out->text, "uid=%" PRIu64, uid);
        return uid <= UINT32_MAX;
    }
    out->kind = CREDENTIAL_TOKEN;
    *expected = "key=PUBLIC_KEY, uid=NUMBER or token=sha256:64_HEXADECIMAL_DIGITS";
    return strncmp(text, "token=sha256:", 13) == 0 && read_hash(text + 13, out->hash);
}

static bool read_weight(const char *text, uint32_t *out) {
    if (strncmp(text, "weight=", 7) != 0 || !isdigit((unsigned char)text[7])) return false;
    char *end;
    unsigned long weight = strtoul(text + 7, &end, 10);
    *out = (uint32_t)weight;
    return *end == 0 && weight >= 1 && weight <= MAX_WEIGHT;
}

static bool is_same(const credential *a, const credential *b) {
    if (a->kind != b->kind) return false;
    return a->kind == CREDENTIAL_TOKEN ? memcmp(a->hash, b->hash, sizeof a->hash) == 0 : strcmp(a->text, b->text) == 0;
}

/* Appends it, unless it contradicts what stands above. */
static bool add(principals *list, const credential *fresh, const char *where, server_error *error) {
    for (size_t i = 0; i < list->n; i++) {
        const credential *other = &list->items[i];
        if (strcmp(other->name, fresh->name) == 0 && other->role != fresh->role)
            return server_fail(error, CONTACTD_INVALID_ARGUMENT, where, "principals",
                               "%s is %s here and %s above; a principal has one role", fresh->name,
                               role_name(fresh->role), role_name(other->role));
        if (strcmp(other->name, fresh->name) == 0 && fresh->weight && other->weight && other->weight != fresh->weight)
            return server_fail(error, CONTACTD_INVALID_ARGUMENT, where, "principals",
                               "%s has weight %" PRIu32 " here and %" PRIu32 " above; a principal has one weight",
                               fresh->name, fresh->weight, other->weight);
        if (strcmp(other->name, fresh->name) == 0 && fresh->max_step_ms && other->max_step_ms &&
            other->max_step_ms != fresh->max_step_ms)
            return server_fail(error, CONTACTD_INVALID_ARGUMENT, where, "principals",
                               "%s has a max_step_time of %" PRIu64 " ms here and %" PRIu64
                               " ms above; a principal has one",
                               fresh->name, fresh->max_step_ms, other->max_step_ms);
        if (is_same(other, fresh))
            return server_fail(error, CONTACTD_INVALID_ARGUMENT, where, "principals",
                               "the same credential stands above, for %s", other->name);
    }
    credential *grown = realloc(list->items, (list->n + 1) * sizeof *grown);
    if (!grown) return server_fail(error, CONTACTD_OUT_OF_MEMORY, where, "principals", "no memory for the list");
    list->items = grown;
    list->items[list->n++] = *fresh;
    return true;
}

/* What may stand behind a credential, each at most once. */
static bool read_property(const char *word, credential *out, const char *where, server_error *error) {
    if (!out->weight && strncmp(word, "weight=", 7) == 0)
        return read_weight(word, &out->weight) ||
               server_fail(error, CONTACTD_INVALID_ARGUMENT, where, "principals",
                           "the weight of %s cannot be read; expected weight= and a number from 1 to %d", out->name,
                           MAX_WEIGHT);
    if (!out->max_step_ms && strncmp(word, "max_step_time=", 14) == 0)
        return duration_read(word + 14, &out->max_step_ms) ||
               server_fail(error, CONTACTD_INVALID_ARGUMENT, where, "principals",
                           "the max_step_time of %s cannot be read; expected max_step_time= and " DURATION_SHAPE,
                           out->name);
    return server_fail(
        error, CONTACTD_INVALID_ARGUMENT, where, "principals",
        "more stands after the credential of %s; expected weight=N and max_step_time=TIME at most, and a "
        "line of its own for each credential",
        out->name);
}

/* Messages repeat the name and the role, never the credential: the log is read by more people than this file. */
static bool read_line(principals *list, char *line, const char *where, server_error *error) {
    static const char blank[] = " \t\r\n";
    char *rest = NULL, *name = strtok_r(line, blank, &rest);
    if (!name || name[0] == '#') return true;
    const char *role = strtok_r(NULL, blank, &rest), *text = strtok_r(NULL, blank, &rest);
    credential fresh = {0};
    const char *expected;
    if (!read_name(name, fresh.name))
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, where, "principals",
                           "a name has 1 to %d letters, digits, dots, dashes and underscores", IDENTITY_NAME - 1);
    if (!role || !read_role(role, &fresh.role))
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, where, "principals",
                           "%s has %s; expected simulator, operator or admin after the name", fresh.name,
                           role ? "an unknown role" : "no role");
    if (!text)
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, where, "principals",
                           "%s has no credential; expected key=PUBLIC_KEY, uid=NUMBER or token=sha256:DIGITS",
                           fresh.name);
    if (!read_credential(text, &fresh, &expected))
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, where, "principals",
                           "the credential of %s cannot be read; expected %s", fresh.name, expected);
    for (const char *word; (word = strtok_r(NULL, blank, &rest)) != NULL;) {
        if (!read_property(word, &fresh, where, error)) return false;
    }
    return add(list, &fresh, where, error);
}

static void fill_properties(principals *list) {
    for (size_t i = 0; i < list->n; i++) {
        credential *item = &list->items[i];
        for (size_t k = 0; k < list->n; k++) {
            if (strcmp(list->items[k].name, item->name) != 0) continue;
            if (!item->weight) item->weight = list->items[k].weight;
            if (!item->max_step_ms) item->max_step_ms = list->items[k].max_step_ms;
        }
        if (!item->weight) item->weight = 1;
    }
}

bool principals_read(principals *out, const char *path, server_error *error) {
    *out = (principals){0};
    FILE *file = fopen(path, "re");
    struct stat facts;
    if (!file || fstat(fileno(file), &facts) != 0 || !S_ISREG(facts.st_mode)) {
        const char *why = file ? "it is not a file" : strerror(errno);
        if (file) fclose(file);
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, path, "principals",
                           "the list of principals cannot be read: %s", why);
    }
    if (facts.st_mode & 022) {
        fclose(file);
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, path, "principals",
                           "other users may write the list of principals: chmod go-w it");
    }
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    for (unsigned number = 1; good && getline(&line, &room, file) >= 0; number++) {
        char where[96];
        snprintf(where, sizeof where, "%.80s:%u", path, number);
        good = read_line(out, line, where, error);
    }
    if (good && ferror(file))
        good = server_fail(error, CONTACTD_INVALID_ARGUMENT, path, "principals",
                           "the list of principals cannot be read: %s", strerror(errno));
    free(line);
    fclose(file);
    if (good) fill_properties(out);
    if (!good) principals_free(out);
    return good;
}
