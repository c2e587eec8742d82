/* successors.c - see successors.h. */
#include "server/core/successors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/endpoint.h"

typedef struct address_list {
    char *text; /* [SUCCESSORS_MAX_BYTES] */
    size_t size;
} address_list;

static const char file_prefix[] = "file:";

/* tcp://HOST:PORT or ipc://PATH, without what would end it in a list. */
static bool is_address(const char *text) {
    if (strpbrk(text, ", \t\r\n")) return false;
    if (strncmp(text, "ipc://", 6) == 0) return text[6] != 0;
    return strncmp(text, "tcp://", 6) == 0 && text[6] != ':' && endpoint_has_port(text, 1);
}

static bool fail_address(server_error *error, const char *object, const char *text) {
    return server_fail(error, CONTACTD_INVALID_ARGUMENT, object, "successor",
                       "\"%.200s\" is not an address; expected tcp://HOST:PORT or ipc://PATH", text);
}

bool successors_check(const config_list *list, server_error *error) {
    for (size_t i = 0; i < list->n; i++) {
        const char *item = list->items[i];
        bool is_file = strncmp(item, file_prefix, strlen(file_prefix)) == 0;
        if (is_file ? !item[strlen(file_prefix)] : !is_address(item)) return fail_address(error, "--successor", item);
    }
    return true;
}

static bool has(const address_list *list, const char *address) {
    size_t n = strlen(address);
    for (const char *at = list->text; *at; at += strcspn(at, ","), at += *at == ',') {
        if (strcspn(at, ",") == n && memcmp(at, address, n) == 0) return true;
    }
    return false;
}

static bool add(address_list *list, const char *address, server_error *error) {
    if (has(list, address)) return true;
    size_t n = strlen(address) + (list->size > 0);
    if (list->size + n >= SUCCESSORS_MAX_BYTES) {
        return server_fail(error, CONTACTD_TOO_LARGE, "--successor", "successor",
                           "the addresses have more than %d bytes together: name fewer", SUCCESSORS_MAX_BYTES - 1);
    }
    snprintf(list->text + list->size, SUCCESSORS_MAX_BYTES - list->size, "%s%s", list->size ? "," : "", address);
    list->size += n;
    return true;
}

static bool add_lines(address_list *list, FILE *file, const char *path, server_error *error) {
    char line[512];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "#\r\n")] = 0;
        char *begin = line + strspn(line, " \t");
        begin[strcspn(begin, " \t")] = 0;
        if (!*begin) continue;
        if (!is_address(begin)) return fail_address(error, path, begin);
        if (!add(list, begin, error)) return false;
    }
    return true;
}

static bool add_file(address_list *list, const char *path, server_error *error) {
    FILE *file = fopen(path, "re");
    if (!file && errno == ENOENT) return true;
    if (!file)
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, path, "successor", "it cannot be read: %s",
                           strerror(errno));
    bool good = add_lines(list, file, path, error);
    fclose(file);
    return good;
}

char *successors_read(const config_list *given, server_error *error) {
    address_list list = {.text = calloc(1, SUCCESSORS_MAX_BYTES)};
    if (!list.text) {
        server_fail(error, CONTACTD_OUT_OF_MEMORY, "--successor", "successor", "no memory for the addresses");
        return NULL;
    }
    for (size_t i = 0; i < given->n; i++) {
        const char *item = given->items[i];
        bool is_file = strncmp(item, file_prefix, strlen(file_prefix)) == 0;
        if (is_file ? add_file(&list, item + strlen(file_prefix), error) : add(&list, item, error)) continue;
        free(list.text);
        return NULL;
    }
    return list.text;
}
