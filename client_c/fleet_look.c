/* fleet_look.c - membership of a fleet: which servers there are and answer, how its connections are spread evenly over
 * them, and the moves of those that must go elsewhere. */
#include "client_c/fleet_look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client_c/connect.h"
#include "client_c/servers.h"
#include "client_c/session.h"
#include "client_c/socket.h"
#include "client_c/steps.h"

enum { PROBE_LEASE_MS = 1000 }; /* a probe's session ends soon: with every look there is another one */

void ctc_fleet_servers_free(ctc_fleet_servers *servers) {
    for (uint32_t i = 0; i < servers->n; i++) free(servers->list[i].address);
    free(servers->list);
    *servers = (ctc_fleet_servers){0};
}

static uint32_t find(const ctc_fleet_servers *servers, const char *address) {
    for (uint32_t i = 0; i < servers->n; i++)
        if (strcmp(servers->list[i].address, address) == 0) return i;
    return CTC_NOWHERE;
}

static bool add(ctc_fleet_servers *servers, const char *address, bool is_successor) {
    if (find(servers, address) != CTC_NOWHERE) return true;
    if (!ctc_grow32(&servers->list, servers->n, &servers->cap, sizeof *servers->list)) return false;
    ctc_fleet_server *to = &servers->list[servers->n];
    *to = (ctc_fleet_server){.address = ctc_strdup(address), .is_successor = is_successor};
    return to->address && ++servers->n;
}

uint32_t ctc_fleet_where(const ctc_fleet_servers *servers, const contactd_client *client) {
    return find(servers, client->address);
}

uint64_t ctc_fleet_seed(uint32_t number) {
    return (number + 1) * 0x9e3779b97f4a7c15u;
}

/* ---- which there are ---- */

/* The sources' addresses; those of before too where a source cannot be asked now; and successors: where connections
 * went, or were before and are not listed. */
static contactd_code list_addresses(contactd_fleet *fleet, ctc_fleet_servers *out, char *why, size_t size) {
    ctc_servers asked = {.sources = (char *)(uintptr_t)fleet->options.server};
    contactd_code code = ctc_servers_ask(&asked, why, size);
    bool good = code != CONTACTD_OUT_OF_MEMORY;
    for (uint32_t i = 0; good && i < asked.n; i++) good = add(out, asked.list[i].address, false);
    bool keeps_all = code != CONTACTD_OK || !asked.n;
    for (uint32_t i = 0; good && i < fleet->servers.n; i++) {
        const ctc_fleet_server *old = &fleet->servers.list[i];
        if (keeps_all || old->is_successor) good = add(out, old->address, old->is_successor);
    }
    for (uint32_t i = 0; good && i < fleet->n_connections; i++) {
        const char *address = fleet->connections[i]->address;
        if (find(&fleet->servers, address) == CTC_NOWHERE) good = add(out, address, true);
    }
    asked.sources = NULL;
    ctc_servers_close(&asked);
    if (!good) return ctc_fleet_no_memory(fleet);
    bool is_first = !fleet->n_connections; /* then a source that cannot be asked is a mistake */
    if (out->n && (code == CONTACTD_OK || !is_first)) return CONTACTD_OK;
    if (!*why) snprintf(why, size, "there is no address in %s", fleet->options.server);
    return ctc_fill_error(&fleet->error, code != CONTACTD_OK ? code : CONTACTD_UNREACHABLE, "fleet", "server", "%s",
                          why);
}

/* Waits until each probe is connected, or is not going to be. */
static void await_connections(contactd_client **probes, uint32_t n, uint64_t end) {
    for (;;) {
        bool is_waiting = false;
        for (uint32_t i = 0; i < n; i++) {
            contactd_client *probe = probes[i];
            if (!probe || probe->connected || probe->unauthenticated) continue;
            if (probe->retries >= CTC_RETRIES && !probe->greeting.socket) continue;
            ctc_pump(probe, 0, ctc_now()); /* reads the socket's monitor, without waiting */
            is_waiting = true;
        }
        if (!is_waiting || ctc_now() >= end) return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

contactd_options ctc_fleet_probe_options(const contactd_fleet *fleet, const char *address) {
    contactd_options options = fleet->options;
    if (options.timeout_ms > fleet->probe_ms) options.timeout_ms = fleet->probe_ms;
    options.lease_ms = PROBE_LEASE_MS;
    options.server = address;
    return options;
}

/* Connects to all servers at the same time to see which are up. *why: the error of the first server that is down. */
static contactd_code probe(contactd_fleet *fleet, ctc_fleet_servers *servers, contactd_error *why) {
    contactd_options options = ctc_fleet_probe_options(fleet, "");
    uint64_t end = ctc_now() + (uint64_t)options.timeout_ms * 1000000u;
    contactd_client **probes = calloc(servers->n, sizeof *probes);
    contactd_code code = probes ? CONTACTD_OK : ctc_fleet_no_memory(fleet);
    for (uint32_t i = 0; i < servers->n && code == CONTACTD_OK; i++) {
        options.server = servers->list[i].address;
        code = ctc_client_new(&options, NULL, &probes[i], &fleet->error);
    }
    if (code == CONTACTD_OK) await_connections(probes, servers->n, end);
    for (uint32_t i = 0; i < servers->n && code == CONTACTD_OK; i++) {
        contactd_client *client = probes[i];
        ctc_fleet_server *server = &servers->list[i];
        if (client->connected) ctc_begin(client); /* others may have been waited for until now */
        contactd_code answer = client->connected ? ctc_hello(client) : ctc_timed_out(client, "server", "a connection");
        server->is_up = answer == CONTACTD_OK;
        if (server->is_up)
            server->epoch = client->epoch;
        else if (why->code == CONTACTD_OK)
            *why = client->error;
        if (answer == CONTACTD_OUT_OF_MEMORY) code = ctc_fleet_no_memory(fleet);
    }
    for (uint32_t i = 0; probes && i < servers->n; i++) contactd_close(&probes[i]);
    free(probes);
    return code;
}

/* Two names of one server would take two shares of it. Only a successor's second name is no mistake of the caller's. */
static contactd_code check_twins(contactd_fleet *fleet, ctc_fleet_servers *servers) {
    for (uint32_t i = 0; i < servers->n; i++)
        for (uint32_t k = 0; k < i; k++) {
            ctc_fleet_server *a = &servers->list[k], *b = &servers->list[i];
            if (!a->is_up || !b->is_up || a->epoch != b->epoch) continue;
            if (!b->is_successor)
                return ctc_fill_error(&fleet->error, CONTACTD_CONFLICT, "fleet", "server",
                                      "%s and %s are one server: give each server one address", a->address, b->address);
            b->is_up = false; /* its connections go to the first name, which is listed */
        }
    return CONTACTD_OK;
}

contactd_code ctc_fleet_find(contactd_fleet *fleet, ctc_fleet_servers *out) {
    char source_trouble[256];
    contactd_error why = {.code = CONTACTD_OK};
    contactd_code code = list_addresses(fleet, out, source_trouble, sizeof source_trouble);
    if (code == CONTACTD_OK) code = probe(fleet, out, &why);
    if (code == CONTACTD_OK) code = check_twins(fleet, out);
    if (code != CONTACTD_OK) return code;
    for (uint32_t i = 0; i < out->n; i++)
        if (out->list[i].is_up) return CONTACTD_OK;
    /* To wait helps only where a server may come yet. */
    return ctc_fill_error(&fleet->error, why.retry ? CONTACTD_UNREACHABLE : why.code, "fleet", "server",
                          "none of %u servers answers: %s", out->n, why.message);
}

/* ---- spreading ---- */

static uint64_t rank(uint32_t connection, const ctc_fleet_server *server) {
    return ctc_servers_rank(ctc_fleet_seed(connection), server->address);
}

/* Of the servers that are up, the least occupied; of these, the one that ranks highest for the connection. */
static uint32_t best_server(const ctc_fleet_servers *servers, const uint32_t *counts, uint32_t connection) {
    uint32_t best = CTC_NOWHERE;
    for (uint32_t s = 0; s < servers->n; s++) {
        if (!servers->list[s].is_up) continue;
        bool is_better =
            best == CTC_NOWHERE || counts[s] < counts[best] ||
            (counts[s] == counts[best] && rank(connection, &servers->list[s]) > rank(connection, &servers->list[best]));
        if (is_better) best = s;
    }
    return best;
}

/* Takes one from a fullest server for the least occupied, if that makes them more even: the one that ranks it highest.
 * False: they are even. */
static bool even_out(const ctc_fleet_servers *servers, uint32_t *counts, uint32_t *where, uint32_t n) {
    uint32_t most = 0, least = CTC_NOWHERE, taken = CTC_NOWHERE;
    for (uint32_t s = 0; s < servers->n; s++) {
        if (!servers->list[s].is_up) continue;
        if (counts[s] > most) most = counts[s];
        if (least == CTC_NOWHERE || counts[s] < counts[least]) least = s;
    }
    if (most < counts[least] + 2) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (counts[where[i]] != most) continue;
        if (taken == CTC_NOWHERE || rank(i, &servers->list[least]) > rank(taken, &servers->list[least])) taken = i;
    }
    counts[where[taken]]--;
    counts[least]++;
    where[taken] = least;
    return true;
}

contactd_code ctc_fleet_spread(contactd_fleet *fleet, uint32_t *where, uint32_t n) {
    const ctc_fleet_servers *servers = &fleet->servers;
    uint32_t *counts = calloc(servers->n + 1, sizeof *counts);
    if (!counts) return ctc_fleet_no_memory(fleet);
    for (uint32_t i = 0; i < n; i++) {
        if (where[i] != CTC_NOWHERE && !servers->list[where[i]].is_up) where[i] = CTC_NOWHERE;
        if (where[i] != CTC_NOWHERE) counts[where[i]]++;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (where[i] != CTC_NOWHERE) continue;
        where[i] = best_server(servers, counts, i);
        counts[where[i]]++;
    }
    while (even_out(servers, counts, where, n)) {
    }
    free(counts);
    return CONTACTD_OK;
}

/* ---- moving ---- */

/* Leaves nothing in flight and no scene behind at a server that is there; the rest is the client's recovery. */
static contactd_code move(contactd_fleet *fleet, contactd_client *client, const char *to, bool is_server_up) {
    ctc_begin(client);
    if (is_server_up && client->connected && !client->lost && ctc_flush(client, 0, 1) == CONTACTD_OK && !client->lost) {
        ctc_say_goodbye(client);
        client->recovering = false;
        client->is_end_announced = true; /* it goes on without this client */
    }
    bool went = strcmp(client->address, to) == 0 || ctc_servers_go(client, to);
    client->lost = true; /* the scenes are closed there, or were the old server's */
    ctc_begin(client);
    return went ? CONTACTD_OK : ctc_fleet_no_memory(fleet);
}

contactd_code ctc_fleet_look(contactd_fleet *fleet, uint32_t *moved) {
    ctc_fleet_servers found = {0}, old = fleet->servers;
    uint32_t *where = malloc(fleet->n_connections * sizeof *where);
    contactd_code code = where ? ctc_fleet_find(fleet, &found) : ctc_fleet_no_memory(fleet);
    if (code == CONTACTD_OK) {
        fleet->servers = found;
        for (uint32_t i = 0; i < fleet->n_connections; i++) where[i] = ctc_fleet_where(&found, fleet->connections[i]);
        code = ctc_fleet_spread(fleet, where, fleet->n_connections);
        if (code != CONTACTD_OK) fleet->servers = old;
    }
    if (code != CONTACTD_OK) {
        ctc_fleet_servers_free(&found);
        free(where);
        return code;
    }
    for (uint32_t i = 0; i < fleet->n_connections && code == CONTACTD_OK; i++) {
        contactd_client *client = fleet->connections[i];
        for (uint32_t k = 0; k < old.n; k++)
            if (find(&found, old.list[k].address) == CTC_NOWHERE)
                ctc_servers_drop(&client->servers, old.list[k].address);
        const char *to = found.list[where[i]].address;
        if (strcmp(client->address, to) == 0) continue;
        uint32_t at = ctc_fleet_where(&found, client);
        code = move(fleet, client, to, at == CTC_NOWHERE || found.list[at].is_up);
        if (code == CONTACTD_OK) ++*moved;
    }
    ctc_fleet_servers_free(&old);
    free(where);
    return code;
}
