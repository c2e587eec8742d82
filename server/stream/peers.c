/* peers.c - see peers.h. The table of connections, who they belong to, and how one is cut. */
#include "server/stream/peers.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/stream/peers_internal.h"

enum { LOG_LINES_PER_S = 10 };
/* How long after a connection's end was noted libzmq has surely handed over its last messages. */
#define SETTLED_NS (100 * MILLISECOND_NS)

/* ---- one connection ---- */

static uint64_t socket_cookie(int fd) {
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

static bool is_tcp_socket(int fd) {
    int family = 0;
    socklen_t size = sizeof family;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family != AF_UNIX;
}

static peer *peer_new(peers *peers, int fd) {
    peer *peer = calloc(1, sizeof *peer);
    if (!peer) return NULL;
    atomic_init(&peer->references, 1);
    atomic_fetch_add_explicit(&peers->references, 1, memory_order_relaxed);
    peer->peers = peers;
    peer->fd = fd;
    peer->cookie = socket_cookie(fd);
    peer->is_tcp = is_tcp_socket(fd);
    peer->accepted_ns = peer->progress_ns = clock_ns();
    atomic_init(&peer->read_ns, peer->accepted_ns);
    return peer;
}

static void peers_release(peers *peers) {
    if (atomic_fetch_sub_explicit(&peers->references, 1, memory_order_acq_rel) != 1) return;
    for (account *account = peers->accounts, *next; account; account = next) {
        next = account->next;
        free(account);
    }
    free(peers->by_fd);
    free(peers);
}

peer *peer_retain(peer *peer) {
    atomic_fetch_add_explicit(&peer->references, 1, memory_order_relaxed);
    return peer;
}

void peer_release(peer **peer) {
    struct peer *gone = *peer;
    *peer = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) != 1) return;
    peers_release(gone->peers);
    free(gone);
}

/* False: the connection is gone. */
static bool shut_down(const peer *peer) {
    int copy = dup(peer->fd); /* so that the descriptor cannot be reused during the comparison */
    if (copy < 0) return false;
    bool is_same = peer->cookie && socket_cookie(copy) == peer->cookie;
    if (is_same) shutdown(copy, SHUT_RDWR);
    close(copy);
    return is_same;
}

static void address_of(const peer *peer, char text[64]) {
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    snprintf(text, 64, "%s", "ipc://");
    if (!peer->is_tcp || getpeername(peer->fd, (struct sockaddr *)&address, &size) != 0) return;
    if (address.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
        const uint8_t *a = (const uint8_t *)&v4->sin_addr;
        snprintf(text, 64, "%d.%d.%d.%d:%d", a[0], a[1], a[2], a[3], ntohs(v4->sin_port));
    } else {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
        size_t n = 0;
        for (int i = 0; i < 16; i += 2) {
            n += (size_t)snprintf(text + n, 64 - n, "%s%x", i ? ":" : "[",
                                  v6->sin6_addr.s6_addr[i] << 8 | v6->sin6_addr.s6_addr[i + 1]);
        }
        snprintf(text + n, 64 - n, "]:%d", ntohs(v6->sin6_port));
    }
}

/* Thousands of connections may be cut at once; the metric counts all of them. */
static bool may_log(peers *peers) {
    uint64_t second = clock_ns() / (1000 * MILLISECOND_NS);
    if (second != peers->log_second) peers->log_second = second, peers->log_lines = 0;
    return peers->log_lines++ < LOG_LINES_PER_S;
}

void cut(peers *peers, peer *peer, metrics_counter reason, const char *format, ...) {
    if (peer->is_cut || !peer->is_attached) return;
    char why[256], address[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    address_of(peer, address);
    if (!shut_down(peer)) return;
    peer->is_cut = true;
    peers->n_cut++;
    metrics_add(peers->metrics, reason, 1);
    if (may_log(peers)) log_warn("stream", "cut the connection from %s: %s", address, why);
}

/* ---- the table ---- */

peers *peers_new(const peers_limits *limits, void *context, void *socket, metrics *metrics) {
    static const char endpoint[] = "inproc://connections";
    peers *peers = calloc(1, sizeof *peers);
    if (!peers) return NULL;
    atomic_init(&peers->references, 1);
    peers->limits = *limits;
    peers->metrics = metrics;
    peers->accepted_fd = -1;
    peers->monitor = zmq_socket(context, ZMQ_PAIR);
    /* Without a high-water mark: libzmq's thread would otherwise wait for this one when the mark is reached. */
    if (peers->monitor && zmq_setsockopt(peers->monitor, ZMQ_RCVHWM, &(int){0}, sizeof(int)) == 0 &&
        zmq_socket_monitor(socket, endpoint, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) == 0 &&
        zmq_connect(peers->monitor, endpoint) == 0)
        return peers;
    int saved = errno;
    peers_free(&peers);
    errno = saved;
    return NULL;
}

/* False: the client named its routing id. libzmq's own are a 0 and a number, counted up by connection in the order in
 * which their handshakes ended. */
static bool own_number(const unsigned char *id, size_t size, uint32_t *number) {
    if (size != 5 || id[0] != 0) return false;
    *number = (uint32_t)id[1] << 24 | (uint32_t)id[2] << 16 | (uint32_t)id[3] << 8 | id[4];
    return true;
}

/* A client that connects again may be there before the end of its old connection is noted. */
static bool has_connection(const peers *peers, uint64_t session) {
    for (size_t fd = 0; fd < peers->n_fd; fd++) {
        const peer *peer = peers->by_fd[fd].peer;
        if (peer && peer->session == session && !peer->is_cut) return true;
    }
    return false;
}

static void detach(peers *peers, int fd) {
    descriptor *descriptor = &peers->by_fd[fd];
    peer *peer = descriptor->peer;
    descriptor->peer = NULL;
    descriptor->former_end_ns = clock_ns();
    uint32_t number;
    if (own_number(peer->id, peer->id_size, &number)) {
        descriptor->has_former_number = true;
        descriptor->former_number = number;
    }
    peer->is_attached = false;
    peers->n_attached--;
    peers->n_cut -= peer->is_cut;
    if (peer->session && peers->tell_end && !has_connection(peers, peer->session))
        peers->tell_end(peers->tell_context, peer->session);
    peer_release(&peer);
}

void peers_free(peers **peers) {
    struct peers *gone = *peers;
    if (!gone) return;
    gone->tell_end = NULL;
    for (size_t fd = 0; fd < gone->n_fd; fd++) {
        if (gone->by_fd[fd].peer) detach(gone, (int)fd);
    }
    if (gone->monitor) zmq_close(gone->monitor);
    peers_release(gone);
    *peers = NULL;
}

void *peers_monitor(const peers *peers) {
    return peers->monitor;
}

uint32_t peers_count(const peers *peers) {
    return peers->n_attached - peers->n_cut;
}

static bool has_entry_for(peers *peers, int fd) {
    if ((size_t)fd < peers->n_fd) return true;
    size_t n = peers->n_fd ? peers->n_fd : 64;
    while (n <= (size_t)fd) n *= 2;
    descriptor *grown = realloc(peers->by_fd, n * sizeof *grown);
    if (!grown) return false;
    memset(grown + peers->n_fd, 0, (n - peers->n_fd) * sizeof *grown);
    peers->by_fd = grown;
    peers->n_fd = n;
    return true;
}

/* Cuts the connection that has been without a session the longest, else the newest. */
static void make_room(peers *peers, peer *newest) {
    peer *victim = newest;
    for (size_t fd = 0; fd < peers->n_fd; fd++) {
        peer *peer = peers->by_fd[fd].peer;
        if (peer && !peer->is_cut && !peer->session && peer->accepted_ns < victim->accepted_ns) victim = peer;
    }
    cut(peers, victim, METRICS_CUT_LIMIT,
        "%" PRIu32 " connections are open, which is the limit (--max-sessions, ulimit -n)", peers->limits.connections);
}

/* False: no memory. */
static bool attach(peers *peers, int fd) {
    if (!has_entry_for(peers, fd)) return false;
    descriptor *descriptor = &peers->by_fd[fd];
    if (descriptor->peer) detach(peers, fd);
    peer *peer = peer_new(peers, fd);
    if (!peer) return false;
    peer->is_attached = true;
    peer->former_end_ns = descriptor->former_end_ns;
    peer->has_former_number = descriptor->has_former_number;
    peer->former_number = descriptor->former_number;
    descriptor->peer = peer;
    peers->n_attached++;
    if (peers_count(peers) > peers->limits.connections) make_room(peers, peer);
    return true;
}

static peer *peer_at(const peers *peers, int fd) {
    return fd >= 0 && (size_t)fd < peers->n_fd ? peers->by_fd[fd].peer : NULL;
}

/* Whether there is none left for which there was no memory. The events after it wait for it: they may be of the same
 * descriptor. */
static bool attach_accepted(peers *peers) {
    if (peers->accepted_fd >= 0 && attach(peers, peers->accepted_fd)) peers->accepted_fd = -1;
    return peers->accepted_fd < 0;
}

/* An event is two parts: its number in 16 bits and the descriptor in 32, then the endpoint. */
void peers_note_changes(peers *peers) {
    unsigned char event[6];
    while (attach_accepted(peers) && zmq_recv(peers->monitor, event, sizeof event, ZMQ_DONTWAIT) == (int)sizeof event) {
        char endpoint[256];
        uint16_t what;
        int32_t fd;
        memcpy(&what, event, sizeof what);
        memcpy(&fd, event + 2, sizeof fd);
        zmq_recv(peers->monitor, endpoint, sizeof endpoint, 0);
        if (what == ZMQ_EVENT_ACCEPTED) {
            peers->accepted_fd = fd;
        } else if (peer_at(peers, fd)) {
            detach(peers, fd);
        }
    }
    metrics_set(peers->metrics, METRICS_GAUGE_CONNECTIONS, peers_count(peers));
}

static uint64_t hash_of(const unsigned char *bytes, size_t size) {
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash ? hash : 1;
}

/* Whether the routing id is not this connection's. A descriptor passes from one connection to the next while messages
 * of the former may still wait. */
static bool is_anothers(const peer *peer, uint64_t hash, const void *id, size_t size) {
    if (peer->id_hash) return peer->id_hash != hash;
    uint32_t number;
    return peer->has_former_number && own_number(id, size, &number) && peer_may_be_former(peer) &&
           (int32_t)(number - peer->former_number) <= 0;
}

/* Whether another's routing id is the connection's own after all, and what counted for it so far was its former's. */
static bool was_formers(const peer *peer, const void *id, size_t size) {
    uint32_t number, counted;
    if (!peer->id_hash || peer->is_cut) return false;
    if (!peer_may_be_former(peer)) return true;
    return own_number(id, size, &number) && own_number(peer->id, peer->id_size, &counted) &&
           (int32_t)(number - counted) > 0;
}

bool peer_may_be_former(const peer *peer) {
    return peer->former_end_ns && peer->peers->drained_ns < peer->former_end_ns + SETTLED_NS;
}

peer *peers_find(peers *peers, int fd, const void *routing_id, size_t id_size) {
    uint64_t hash = hash_of(routing_id, id_size);
    peer *peer = peer_at(peers, fd);
    if (!peer || is_anothers(peer, hash, routing_id, id_size)) {
        peers_note_changes(peers);                /* a new connection is announced before its first message */
        if (peers->accepted_fd >= 0) return NULL; /* it may be of that connection, or of one after it */
        peer = peer_at(peers, fd);
    }
    if (peer && is_anothers(peer, hash, routing_id, id_size) && was_formers(peer, routing_id, id_size)) {
        peers->accepted_fd = fd;
        if (!attach_accepted(peers)) return NULL;
        peer = peer_at(peers, fd);
    }
    if (!peer || is_anothers(peer, hash, routing_id, id_size))
        return peer_new(peers, -1); /* a late message of a closed connection */
    if (!peer->id_hash && id_size <= sizeof peer->id) {
        memcpy(peer->id, routing_id, id_size);
        peer->id_size = (uint8_t)id_size;
    }
    peer->id_hash = hash;
    return peer_retain(peer);
}

void peers_visit(const peers *peers, void (*visit)(void *context, const void *routing_id, size_t id_size),
                 void *context) {
    for (size_t fd = 0; fd < peers->n_fd; fd++) {
        const peer *peer = peers->by_fd[fd].peer;
        if (peer && peer->id_size && !peer->is_cut) visit(context, peer->id, peer->id_size);
    }
}

/* NULL: no memory; then its answers count for the connection alone. */
static account *account_of(peers *peers, const identity *who) {
    account *account = peers->accounts;
    while (account && account->who.principal != who->principal) account = account->next;
    if (!account && (account = calloc(1, sizeof *account))) {
        account->next = peers->accounts;
        peers->accounts = account;
    }
    if (account) account->who = *who; /* its weight may have changed */
    return account;
}

const identity *peer_identify(peer *peer, guard *guard, const char *credential) {
    uint32_t generation = guard_generation(guard);
    if (peer->is_identified && peer->generation == generation) return &peer->who;
    if (!peer->is_identified) snprintf(peer->credential, sizeof peer->credential, "%s", credential ? credential : "");
    peer->is_identified = true;
    peer->generation = generation;
    if (!peer->credential[0]) {
        peer->who = (identity){.role = ROLE_UNRESTRICTED};
        return &peer->who;
    }
    if (guard_find(guard, peer->credential, &peer->who)) {
        account *account = account_of(peer->peers, &peer->who);
        if (!peer->account) peer->account = account;
        return &peer->who;
    }
    peer->is_identified = false;
    cut(peer->peers, peer, METRICS_CUT_UNLISTED, "its credential is no longer in --principals");
    return NULL;
}

void peers_identify_again(peers *peers, guard *guard) {
    for (size_t fd = 0; fd < peers->n_fd; fd++) {
        peer *peer = peers->by_fd[fd].peer;
        if (peer && peer->is_identified && !peer->is_cut) peer_identify(peer, guard, NULL);
    }
}

void peer_add_unanswered(peer *peer, uint64_t bytes) {
    peer->unanswered_bytes += bytes;
}

void peer_subtract_unanswered(peer *peer, uint64_t bytes) {
    peer->unanswered_bytes -= bytes;
}

uint64_t peer_unanswered_bytes(const peer *peer) {
    return peer->unanswered_bytes;
}

bool peer_note_session(peer *peer, uint64_t session) {
    peer->session = session;
    return peer->is_attached || has_connection(peer->peers, session);
}

void peers_tell_ends(peers *peers, void (*tell)(void *context, uint64_t session), void *context) {
    peers->tell_end = tell;
    peers->tell_context = context;
}
