/* servers.c - a client's servers, where it was given several: each client has those in an order of its own, and goes to
 * the next one when its server is gone or drains. There it builds everything again, as after a restart (restore.c). */
#include "client_c/servers.h"

#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client_c/base.h"
#include "client_c/greeting.h"
#include "client_c/silence.h"
#include "proto/endpoint.h"

enum {
    REACH_MS = 250,    /* without a connection where nothing listens, before another server is tried */
    SILENCE_MS = 2000, /* where no attempt to connect failed; a fleet sets its own */
    AVOID_MS = 8000,   /* a server that was left is the last choice for so long */
};

/* A copy, where it is HOST:PORT with tcp:// before it. NULL: no memory. */
static char *copy_address(const char *text) {
    char *out = NULL;
    return asprintf(&out, "%s%s", endpoint_scheme_of(text), text) < 0 ? NULL : out;
}

static bool add(ctc_servers *s, const char *text) {
    char *address = copy_address(text);
    bool is_known = false;
    for (uint32_t i = 0; address && i < s->n; i++) is_known |= strcmp(s->list[i].address, address) == 0;
    if (!address || is_known || !ctc_grow32(&s->list, s->n, &s->cap, sizeof *s->list)) {
        free(address);
        return is_known;
    }
    s->list[s->n++] = (ctc_server){.address = address};
    return true;
}

/* The addresses of a file's lines; # begins a comment. False: errno says why. */
static bool add_file(ctc_servers *s, const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) return false;
    char line[512];
    bool good = true, have_ports = true;
    while (good && fgets(line, sizeof line, file)) {
        line[strcspn(line, "#\r\n")] = 0;
        char *begin = line + strspn(line, " \t"), *end = begin + strcspn(begin, " \t");
        *end = 0;
        if (!endpoint_has_port(begin, 1))
            have_ports = false;
        else if (*begin)
            good = add(s, begin);
    }
    fclose(file);
    if (good && !have_ports) errno = EINVAL;
    return good && have_ports;
}

/* A name that begins with a dot, or has a suffix that is no number, is a file that is being written. */
static bool is_finished(const char *name) {
    const char *suffix = strrchr(name, '.');
    return name[0] != '.' && (!suffix || strspn(suffix + 1, "0123456789") == strlen(suffix + 1));
}

static bool add_folder(ctc_servers *s, const char *path) {
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort);
    if (n < 0) return errno == ENOTDIR ? add_file(s, path) : false;
    bool good = true;
    for (int i = 0; i < n; i++) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);
        errno = 0;
        /* A file that was removed meanwhile is no error. */
        if (good && is_finished(names[i]->d_name) && !add_file(s, inner)) good = errno != ENOMEM;
        free(names[i]);
    }
    free(names);
    if (!good) errno = ENOMEM;
    return good;
}

static bool add_name(ctc_servers *s, const char *name) { /* "HOST:PORT" */
    char host[256];
    const char *colon = strrchr(name, ':');
    if (!colon || (size_t)(colon - name) >= sizeof host) return false;
    snprintf(host, sizeof host, "%.*s", (int)(colon - name), name);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0) return false;
    bool good = true;
    for (const struct addrinfo *at = found; good && at; at = at->ai_next) {
        char number[NI_MAXHOST], address[NI_MAXHOST + 32];
        if (getnameinfo(at->ai_addr, at->ai_addrlen, number, sizeof number, NULL, 0, NI_NUMERICHOST) != 0) continue;
        snprintf(address, sizeof address, strchr(number, ':') ? "tcp://[%s]:%s" : "tcp://%s:%s", number, colon + 1);
        good = add(s, address);
    }
    freeaddrinfo(found);
    if (!good) errno = ENOMEM;
    return good;
}

contactd_code ctc_servers_ask(ctc_servers *s, char *why, size_t size) {
    char *copy = ctc_strdup(s->sources), *rest = copy;
    contactd_code code = copy ? CONTACTD_OK : CONTACTD_OUT_OF_MEMORY;
    *why = 0;
    for (char *item; copy && (item = strsep(&rest, ","));) {
        item += strspn(item, " ");
        item[strcspn(item, " ")] = 0;
        errno = 0;
        bool good = strncmp(item, "file:", 5) == 0    ? add_folder(s, item + 5)
                    : strncmp(item, "dns://", 6) == 0 ? add_name(s, item + 6)
                                                      : *item && endpoint_has_port(item, 1) && add(s, item);
        if (good) continue;
        if (errno == ENOMEM)
            code = CONTACTD_OUT_OF_MEMORY;
        else if (code == CONTACTD_OK)
            code = CONTACTD_INVALID_ARGUMENT;
        if (!*why) snprintf(why, size, "%s: %s", item, errno ? strerror(errno) : "not an address, or not known");
    }
    free(copy);
    return code;
}

uint64_t ctc_servers_rank(uint64_t seed, const char *address) {
    uint64_t h = 0xcbf29ce484222325u ^ seed;
    for (const char *c = address; *c; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
    return h ^ (h >> 31);
}

/* The one that ranks highest of those not left lately; of these, the one left longest ago. */
static ctc_server *choose(contactd_client *client) {
    ctc_servers *s = &client->servers;
    uint64_t now = ctc_now();
    ctc_server *best = NULL;
    for (uint32_t i = 0; i < s->n; i++) {
        ctc_server *server = &s->list[i];
        bool is_avoided = server->left_ns && now < server->left_ns + (uint64_t)AVOID_MS * 1000000u;
        if (!is_avoided) server->left_ns = 0;
        bool is_better = !best || server->left_ns < best->left_ns ||
                         (server->left_ns == best->left_ns &&
                          ctc_servers_rank(s->seed, server->address) > ctc_servers_rank(s->seed, best->address));
        if (is_better) best = server;
    }
    return best;
}

static bool are_several(const char *text) {
    return strchr(text, ',') || strncmp(text, "file:", 5) == 0 || strncmp(text, "dns://", 6) == 0;
}

contactd_code ctc_servers_open(contactd_client *client, const char *text, const ctc_start *start) {
    ctc_servers *s = &client->servers;
    char why[256];
    s->silence_ms = start ? start->silence_ms : SILENCE_MS;
    if (!are_several(text)) {
        client->address = copy_address(text);
        return client->address ? CONTACTD_OK : ctc_no_memory(client, "client");
    }
    s->sources = ctc_strdup(text);
    s->seed = start ? start->seed : client->random;
    if (!s->sources || (start && !add(s, start->address))) return ctc_no_memory(client, "client");
    contactd_code code = ctc_servers_ask(s, why, sizeof why);
    if (code == CONTACTD_OUT_OF_MEMORY) return ctc_no_memory(client, "client");
    if (code != CONTACTD_OK && !start) return ctc_fail(client, code, "client", "server", "%s", why);
    if (!s->n) return ctc_fail(client, CONTACTD_UNREACHABLE, "client", "server", "there is no address in %s", text);
    client->address = ctc_strdup(start ? start->address : choose(client)->address);
    return client->address ? CONTACTD_OK : ctc_no_memory(client, "client");
}

void ctc_servers_learn(contactd_client *client, const char *successors) {
    ctc_servers *s = &client->servers;
    char *copy = ctc_strdup(successors), *rest = copy;
    if (!s->sources) {
        /* From now on there are several: the one that it has, and these. */
        if (add(s, client->address)) s->sources = ctc_strdup("");
        s->seed = client->random;
        if (!s->sources) rest = NULL;
    }
    for (char *item; rest && (item = strsep(&rest, ","));) {
        bool is_address = strncmp(item, "tcp://", 6) == 0 || strncmp(item, "ipc://", 6) == 0;
        if (is_address && endpoint_has_port(item, 1) && !add(s, item)) break;
    }
    if (strchr(successors, '[')) zmq_setsockopt(client->socket, ZMQ_IPV6, &(int){1}, sizeof(int));
    free(copy); /* where there is no memory for all of them, the server's next word names them again */
}

void ctc_servers_close(ctc_servers *s) {
    for (uint32_t i = 0; i < s->n; i++) free(s->list[i].address);
    free(s->list);
    free(s->sources);
}

bool ctc_servers_go(contactd_client *client, const char *to) {
    char *address = ctc_strdup(to);
    if (!address) return false;
    if (strchr(address, '[')) zmq_setsockopt(client->socket, ZMQ_IPV6, &(int){1}, sizeof(int));
    zmq_disconnect(client->socket, client->address);
    ctc_silence_prepare(client, address);
    zmq_connect(client->socket, address);
    client->reconnect_ns = 0;
    client->is_throttled = false;
    free(client->left_address);
    client->left_address = client->address;
    client->address = address;
    client->connected = client->is_heard = client->greeting.is_asked = false;
    ctc_greeting_close(&client->greeting);
    client->awaits_handshake = true;
    client->retries = 0;
    client->servers.down_ns = 0;
    client->breaks++;
    return true;
}

void ctc_servers_drop(ctc_servers *s, const char *address) {
    for (uint32_t i = 0; i < s->n; i++) {
        if (strcmp(s->list[i].address, address) != 0) continue;
        free(s->list[i].address);
        s->list[i] = s->list[--s->n];
        return;
    }
}

bool ctc_servers_leave(contactd_client *client) {
    ctc_servers *s = &client->servers;
    char why[256];
    if (!s->sources) return false;
    for (uint32_t i = 0; i < s->n; i++)
        if (strcmp(s->list[i].address, client->address) == 0) s->list[i].left_ns = ctc_now();
    ctc_servers_ask(s, why, sizeof why); /* what cannot be asked now adds nothing */
    s->down_ns = 0;
    if (!s->n) return false;
    const char *address = choose(client)->address;
    return strcmp(address, client->address) != 0 && ctc_servers_go(client, address);
}

void ctc_servers_tend(contactd_client *client) {
    ctc_servers *s = &client->servers;
    if (!s->sources) return;
    uint64_t now = ctc_now();
    /* Who listens and has not answered may only be busy: to leave it would cost the scenes' state. */
    bool is_refused = client->retries >= CTC_RETRIES || client->refused;
    uint64_t patience_ms = is_refused || s->silence_ms < REACH_MS ? REACH_MS : s->silence_ms;
    if (client->connected)
        s->down_ns = 0;
    else if (!s->down_ns)
        s->down_ns = now;
    else if (now > s->down_ns + patience_ms * 1000000u)
        ctc_servers_leave(client);
}
