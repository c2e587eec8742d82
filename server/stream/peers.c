/* peers.c - see peers.h. */
#include "server/stream/peers.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "server/clock.h"
#include "server/log.h"
#include "server/memory.h"

enum {
    UNFINISHED_MESSAGES = 4, /* unfinished bytes of all connections, in --max-message */
    LOG_LINES_PER_S = 10,
    OVERFULL = 2,         /* times its limit that a client's unread answers may reach when they were underestimated */
    OVERFULL_READING = 8, /* the same for a client that reads */
};
#define MILLISECOND_NS UINT64_C(1000000)
/* Interval of checks of the process's memory. A sender on the same machine moves about 2 GB/s, so up to 40 MB arrive
 * between two checks. */
#define LOOK_EVERY_NS (20 * MILLISECOND_NS)
/* Interval of scans of all connections while the process has not grown by GROWTH_BYTES. A scan costs 1 us a connection.
 */
#define SCAN_EVERY_NS (250 * MILLISECOND_NS)
#define GROWTH_BYTES  (UINT64_C(8) << 20)
/* A client counts as reading if it reads READ_BYTES within PATIENCE_NS. */
#define READ_BYTES           65536
#define PATIENCE_NS          (10000 * MILLISECOND_NS)
#define PATIENCE_AT_LIMIT_NS (1000 * MILLISECOND_NS)
/* Per queued answer: ZeroMQ's message and content, and the frame owner. */
#define OVERHEAD_BYTES 512
/* Answers up to this size may always be queued, so that an error can say why others are refused. */
#define SMALL_ANSWER 65536
/* Bytes that a connection sends outside of messages: the handshake, then heartbeats. */
#define HANDSHAKE_BYTES       4096
#define HEARTBEAT_BYTES_PER_S 128 /* encrypted ones too */
/* A frame without content has 2 bytes on the wire, and this many in libzmq's queue. */
#define LEAST_WIRE_BYTES 2
#define QUEUED_BYTES     64
/* Frames that may wait in libzmq for the I/O thread: of one connection, and of all together. A client within its
 * in-flight limit has some hundreds. */
#define WAITING_FRAMES     (UINT64_C(1) << 18)
#define WAITING_FRAMES_ALL (4 * WAITING_FRAMES)
/* Frames that are averaged for a connection's frame size. */
#define SIZED_FRAMES 16
/* The I/O thread takes a message of each connection in turn. One that has completed none for so long is not merely
 * waiting for its turn. */
#define TURN_NS (1000 * MILLISECOND_NS)
/* CURVE adds to each frame: the command's name (8), a nonce (8), the frame's flags (1) and an authenticator (16). */
#define CURVE_BYTES 33

/* Answers of all connections of one principal. */
typedef struct account {
    struct account *next;
    identity who;
    atomic_uint_fast64_t unread; /* bytes */
    uint64_t expected;           /* bytes */
} account;

struct peer {
    atomic_uint references;
    struct peers *peers; /* outlives it: see peers_free */
    int fd;
    bool is_tcp;
    bool is_attached; /* in peers->by_fd */
    bool is_cut;
    uint64_t session; /* the last that used it; 0: none has */
    bool is_identified;
    uint32_t generation; /* of the guard's list, when it was identified */
    identity who;
    account *account; /* of its principal; NULL: it has none. Set once, before the first answer */
    char credential[64];
    bool is_refused; /* it got BUSY since it had last read everything */
    uint64_t cookie;
    uint64_t id_hash;      /* of the routing id; 0: no message has come yet */
    unsigned char id[255]; /* the routing id */
    uint8_t id_size;
    uint64_t accepted_ns;
    atomic_uint_fast64_t unread; /* bytes */
    uint64_t received;           /* wire bytes of complete messages */
    uint64_t received_at_scan;
    uint64_t progress_ns;           /* when a scan last saw that it had completed a message */
    uint64_t frames;                /* of complete messages */
    uint64_t sized_at, sized_bytes; /* `frames` and `received` when frame_bytes was last measured */
    double frame_bytes;             /* wire bytes of a frame, on average; 0: not known */
    uint64_t waiting;               /* frames in libzmq, estimated at the last scan */
    bool is_flooding;               /* too many were waiting at the last scan */
    uint64_t unanswered_bytes;      /* of its requests that are not answered */
    uint64_t unfinished;            /* bytes, at the last scan */
    uint64_t resident_then; /* bytes of the process when the connection last completed a message; 0: not yet known */
    uint64_t expected;      /* bytes of answers to steps that are queued or running */
    atomic_uint_fast64_t read_ns; /* when it had last read READ_BYTES, or had nothing left to read */
    uint64_t acked_then, unread_then;
};

struct peers {
    atomic_uint references; /* its owner's and each peer's */
    peers_limits limits;
    metrics *metrics;
    void *monitor;
    atomic_uint_fast64_t unread; /* bytes, of all peers */
    uint64_t expected;           /* bytes, of all peers */
    account *accounts;
    void (*tell_end)(void *context, uint64_t session); /* NULL: nobody asked */
    void *tell_context;
    peer **by_fd;
    size_t n_fd; /* of by_fd */
    uint32_t n_attached, n_cut;
    uint64_t looked_ns, scanned_ns;
    uint64_t resident_at_scan;
    uint64_t unfinished;
    uint64_t waiting; /* frames, of all peers */
    bool is_flooded;  /* too many were waiting at the last scan */
    uint64_t log_second, log_lines;
};

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

__attribute__((format(printf, 4, 5))) static void cut(peers *peers, peer *peer, metrics_counter reason,
                                                      const char *format, ...) {
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

static void detach(peers *peers, int fd) {
    peer *peer = peers->by_fd[fd];
    peers->by_fd[fd] = NULL;
    peer->is_attached = false;
    peers->n_attached--;
    peers->n_cut -= peer->is_cut;
    if (peer->session && peers->tell_end) peers->tell_end(peers->tell_context, peer->session);
    peer_release(&peer);
}

void peers_free(peers **peers) {
    struct peers *gone = *peers;
    if (!gone) return;
    gone->tell_end = NULL;
    for (size_t fd = 0; fd < gone->n_fd; fd++) {
        if (gone->by_fd[fd]) detach(gone, (int)fd);
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
    peer **grown = realloc(peers->by_fd, n * sizeof(peer *));
    if (!grown) return false;
    memset(grown + peers->n_fd, 0, (n - peers->n_fd) * sizeof(peer *));
    peers->by_fd = grown;
    peers->n_fd = n;
    return true;
}

/* Cuts the connection that has been without a session the longest, else the newest. */
static void make_room(peers *peers, peer *newest) {
    peer *victim = newest;
    for (size_t fd = 0; fd < peers->n_fd; fd++) {
        peer *peer = peers->by_fd[fd];
        if (peer && !peer->is_cut && !peer->session && peer->accepted_ns < victim->accepted_ns) victim = peer;
    }
    cut(peers, victim, METRICS_CUT_LIMIT,
        "%" PRIu32 " connections are open, which is the limit (--max-sessions, ulimit -n)", peers->limits.connections);
}

static void attach(peers *peers, int fd) {
    if (fd < 0 || !has_entry_for(peers, fd)) return;
    if (peers->by_fd[fd]) detach(peers, fd);
    peer *peer = peer_new(peers, fd);
    if (!peer) return;
    peer->is_attached = true;
    peers->by_fd[fd] = peer;
    peers->n_attached++;
    if (peers_count(peers) > peers->limits.connections) make_room(peers, peer);
}

/* An event is two parts: its number in 16 bits and the descriptor in 32, then the endpoint. */
void peers_note_changes(peers *peers) {
    unsigned char event[6];
    while (zmq_recv(peers->monitor, event, sizeof event, ZMQ_DONTWAIT) == (int)sizeof event) {
        char endpoint[256];
        uint16_t what;
        int32_t fd;
        memcpy(&what, event, sizeof what);
        memcpy(&fd, event + 2, sizeof fd);
        zmq_recv(peers->monitor, endpoint, sizeof endpoint, 0);
        if (what == ZMQ_EVENT_ACCEPTED) {
            attach(peers, fd);
        } else if (fd >= 0 && (size_t)fd < peers->n_fd && peers->by_fd[fd]) {
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

peer *peers_find(peers *peers, int fd, const void *routing_id, size_t id_size) {
    uint64_t hash = hash_of(routing_id, id_size);
    peer *peer = fd >= 0 && (size_t)fd < peers->n_fd ? peers->by_fd[fd] : NULL;
    if (!peer || (peer->id_hash && peer->id_hash != hash)) {
        peers_note_changes(peers); /* a new connection is announced before its first message */
        peer = fd >= 0 && (size_t)fd < peers->n_fd ? peers->by_fd[fd] : NULL;
    }
    if (!peer || (peer->id_hash && peer->id_hash != hash))
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
        const peer *peer = peers->by_fd[fd];
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
        peer *peer = peers->by_fd[fd];
        if (peer && peer->is_identified && !peer->is_cut) peer_identify(peer, guard, NULL);
    }
}

void peer_count_frame(peer *peer, size_t bytes) {
    if (peer->is_tcp && peer->peers->limits.is_encrypted) bytes += CURVE_BYTES;
    peer->received += bytes + (bytes > 255 ? 9 : 2); /* ZMTP: a flag, and a length of 8 bytes or of 1 */
    peer->frames++;
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
    return peer->is_attached;
}

void peers_tell_ends(peers *peers, void (*tell)(void *context, uint64_t session), void *context) {
    peers->tell_end = tell;
    peers->tell_context = context;
}

/* ---- unread answers ---- */

uint64_t peer_unread_bytes(const peer *peer) {
    return atomic_load_explicit(&peer->unread, memory_order_relaxed);
}

uint64_t peers_unread_bytes(const peers *peers) {
    return atomic_load_explicit(&peers->unread, memory_order_relaxed);
}

static uint64_t bytes_of_account(const account *account) {
    return atomic_load_explicit(&account->unread, memory_order_relaxed) + account->expected;
}

/* From half of the limit on a principal gets no more than its share of it (guard/shares.h), however many connections it
 * has. */
static bool exceeds_share(const peers *peers, const account *account, uint64_t all) {
    if (!account || !identity_has_others(&account->who) || all <= peers->limits.unread / 2) return false;
    uint64_t weight = identity_weight(&account->who), whole = weight;
    for (const struct account *other = peers->accounts; other; other = other->next) {
        if (other != account && bytes_of_account(other)) whole += identity_weight(&other->who);
    }
    if (whole == weight) whole = 2 * weight; /* as much again is left for one that may come */
    return bytes_of_account(account) > peers->limits.unread / whole * weight;
}

uint64_t peer_answer_room(const peer *peer) {
    const peers_limits *limits = &peer->peers->limits;
    uint64_t bytes = peer_unread_bytes(peer) + peer->expected;
    uint64_t all = peers_unread_bytes(peer->peers) + peer->peers->expected;
    bool is_over_share = exceeds_share(peer->peers, peer->account, all);
    if (bytes == 0) return all > limits->unread || is_over_share ? SMALL_ANSWER : UINT64_MAX;
    if (is_over_share) return 0;
    /* A client that reads keeps little unread, and must not be refused for those that do not read. */
    if (all > limits->unread && bytes > limits->unread / 64) return 0;
    return bytes < limits->unread_per_client ? limits->unread_per_client - bytes : 0;
}

void peer_expect(peer *peer, uint64_t bytes) {
    peer->expected += bytes;
    if (peer->account) peer->account->expected += bytes;
    peer->peers->expected += bytes;
}

void peer_unexpect(peer *peer, uint64_t bytes) {
    peer->expected -= bytes;
    if (peer->account) peer->account->expected -= bytes;
    peer->peers->expected -= bytes;
}

bool peer_is_overfull(const peer *peer, uint64_t bytes) {
    uint64_t unread = peer_unread_bytes(peer), limit = peer->peers->limits.unread_per_client;
    uint64_t read_ns = atomic_load_explicit(&peer->read_ns, memory_order_relaxed), now = clock_ns();
    bool reads = now < read_ns + PATIENCE_AT_LIMIT_NS;
    return unread > 0 && unread + bytes > (reads ? OVERFULL_READING : OVERFULL) * limit;
}

void peer_charge(peer *peer, uint64_t bytes) {
    atomic_fetch_add_explicit(&peer->unread, bytes + OVERHEAD_BYTES, memory_order_relaxed);
    atomic_fetch_add_explicit(&peer->peers->unread, bytes + OVERHEAD_BYTES, memory_order_relaxed);
    if (peer->account) atomic_fetch_add_explicit(&peer->account->unread, bytes + OVERHEAD_BYTES, memory_order_relaxed);
}

void peer_discharge(peer *peer, uint64_t bytes) {
    atomic_fetch_sub_explicit(&peer->unread, bytes + OVERHEAD_BYTES, memory_order_relaxed);
    atomic_fetch_sub_explicit(&peer->peers->unread, bytes + OVERHEAD_BYTES, memory_order_relaxed);
    if (peer->account) atomic_fetch_sub_explicit(&peer->account->unread, bytes + OVERHEAD_BYTES, memory_order_relaxed);
}

uint64_t peers_unfinished_bytes(const peers *peers) {
    return peers->unfinished;
}

void peer_note_refusal(peer *peer) {
    peer->is_refused = true;
}

void peers_cut_full(peers *peers, peer *peer) {
    cut(peers, peer, METRICS_CUT_UNREAD,
        "it has not read as many answers as may wait for one client, %" PRIu64 " bytes: it must read, or ask for less",
        peer_unread_bytes(peer));
}

static void note_reading(peer *peer, uint64_t now, uint64_t acked) {
    uint64_t unread = peer_unread_bytes(peer);
    bool has_read = peer->is_tcp ? acked - peer->acked_then >= READ_BYTES : unread + READ_BYTES <= peer->unread_then;
    if (unread == 0 || has_read) {
        peer->read_ns = now;
        peer->acked_then = acked;
        peer->unread_then = unread;
    }
    if (unread > peer->unread_then) peer->unread_then = unread;
    if (unread == 0 && peer->expected == 0) peer->is_refused = false;
}

static void cut_if_unread(peers *peers, peer *peer, uint64_t now) {
    if (!peer->is_refused || now - peer->read_ns < PATIENCE_NS) return;
    cut(peers, peer, METRICS_CUT_UNREAD,
        "%" PRIu64 " bytes of its answers are unread (at most %" PRIu64
        ", --unread-per-client), and it has read next to nothing for %d s",
        peer_unread_bytes(peer), peers->limits.unread_per_client, (int)(PATIENCE_NS / (1000 * MILLISECOND_NS)));
}

static void cut_largest_unread(peers *peers, peer *largest, uint64_t now) {
    uint64_t unread = peers_unread_bytes(peers), limit = peers->limits.unread;
    if (!largest || unread <= limit) return;
    if (unread <= 2 * limit && now - largest->read_ns < PATIENCE_AT_LIMIT_NS) return;
    cut(peers, largest, METRICS_CUT_UNREAD,
        "%" PRIu64 " bytes of answers are unread, more than %" PRIu64 " (--unread-memory); most of them, %" PRIu64
        ", are this client's",
        unread, limit, peer_unread_bytes(largest));
}

/* ---- unfinished messages ---- */

/* Bytes that libzmq buffers: all that it has read, less the complete messages that it has handed over. */
static uint64_t unfinished_bytes(const peer *peer, const struct tcp_info *info, uint64_t now) {
    uint64_t age_s = (now - peer->accepted_ns) / (1000 * MILLISECOND_NS);
    uint64_t other = HANDSHAKE_BYTES + HEARTBEAT_BYTES_PER_S * age_s;
    uint64_t known = peer->received + other;
    if (info->tcpi_bytes_received <= known) return 0;
    uint64_t bytes = info->tcpi_bytes_received - known;
    int waiting = 0; /* in the kernel's socket buffer */
    if (ioctl(peer->fd, SIOCINQ, &waiting) != 0 || waiting < 0) waiting = 0;
    return bytes > (uint64_t)waiting ? bytes - (uint64_t)waiting : 0;
}

/* Only of a connection that has completed no message since the last scan: the bytes of one that does may be of complete
 * messages that the I/O thread has not received yet. */
static bool is_stuck(const peer *peer) {
    return peer->received == peer->received_at_scan;
}

/* Whether the unfinished bytes belong to an incomplete message. */
static bool is_incomplete(const peer *peer, uint64_t now, bool is_drained) {
    return is_stuck(peer) && (is_drained || now - peer->progress_ns >= TURN_NS);
}

static void cut_if_unfinished(peers *peers, peer *peer) {
    uint64_t limit = 2 * peers->limits.max_message;
    if (peer->unfinished <= limit) return;
    cut(peers, peer, METRICS_CUT_UNFINISHED,
        "it has sent %" PRIu64 " bytes of a message without its end; at most %" PRIu64 " are taken (--max-message)",
        peer->unfinished, peers->limits.max_message);
}

static void cut_largest_unfinished(peers *peers, peer *largest) {
    uint64_t limit = UNFINISHED_MESSAGES * peers->limits.max_message;
    if (!largest || peers->unfinished <= limit) return;
    cut(peers, largest, METRICS_CUT_UNFINISHED,
        "%" PRIu64 " bytes of messages without their ends were sent, at most %" PRIu64
        " (%d times --max-message) are taken; most of them, %" PRIu64 ", came from here",
        peers->unfinished, limit, UNFINISHED_MESSAGES, largest->unfinished);
}

/* Where the bytes say too little, the process's growth is used instead: the kernel does not count those of ipc://
 * connections, and over TCP they may be frames without content, which take far more memory than bytes. */
static void cut_if_silent(peers *peers, peer *peer, uint64_t resident) {
    uint64_t limit = UNFINISHED_MESSAGES * peers->limits.max_message;
    if (peer->is_tcp && peer->unfinished < limit / QUEUED_BYTES * LEAST_WIRE_BYTES) return;
    if (resident - peer->resident_then <= limit) return;
    cut(peers, peer, METRICS_CUT_UNFINISHED,
        "it has completed no message while this process grew by %" PRIu64
        " bytes: it may be sending one without end (at most %" PRIu64 ", %d times --max-message, are taken)",
        resident - peer->resident_then, limit, UNFINISHED_MESSAGES);
}

/* ---- messages that wait ---- */

/* libzmq queues frames in the order in which they came, so those that wait are taken to be as large as the last ones
 * received. */
static uint64_t waiting_frames(peer *peer) {
    uint64_t frames = peer->frames - peer->sized_at;
    if (frames >= SIZED_FRAMES) {
        peer->frame_bytes = (double)(peer->received - peer->sized_bytes) / (double)frames;
        peer->sized_at = peer->frames;
        peer->sized_bytes = peer->received;
    }
    if (is_stuck(peer) || peer->frame_bytes == 0) return 0; /* it may be one message, which is not complete yet */
    return (uint64_t)((double)peer->unfinished / peer->frame_bytes);
}

/* Two scans in a row must see it: between them, what waited at the first was received, if it was that little. */
static void cut_if_flooding(peers *peers, peer *peer, bool is_drained) {
    bool was_flooding = peer->is_flooding;
    peer->is_flooding = !is_drained && peer->waiting > WAITING_FRAMES;
    if (!was_flooding || !peer->is_flooding) return;
    cut(peers, peer, METRICS_CUT_FLOOD,
        "some %" PRIu64 " frames of its messages wait to be received, at most %" PRIu64
        " may: it must wait for answers",
        peer->waiting, WAITING_FRAMES);
}

static void cut_largest_flood(peers *peers, peer *largest, bool is_drained) {
    bool was_flooded = peers->is_flooded;
    peers->is_flooded = !is_drained && peers->waiting > WAITING_FRAMES_ALL;
    if (!was_flooded || !peers->is_flooded || !largest) return;
    cut(peers, largest, METRICS_CUT_FLOOD,
        "some %" PRIu64 " frames of messages wait to be received, at most %" PRIu64 " may; most of them, %" PRIu64
        ", came from here",
        peers->waiting, WAITING_FRAMES_ALL, largest->waiting);
}

/* ---- watching ---- */

static void scan_one(peers *peers, peer *peer, uint64_t now, uint64_t resident) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (peer->is_tcp && getsockopt(peer->fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
    peer->unfinished = peer->is_tcp ? unfinished_bytes(peer, &info, now) : 0;
    peer->waiting = peer->is_cut ? 0 : waiting_frames(peer);
    if (!is_stuck(peer)) peer->progress_ns = now;
    if (peer->resident_then == 0 || resident < peer->resident_then || !is_stuck(peer)) peer->resident_then = resident;
    peers->unfinished += peer->unfinished;
    peers->waiting += peer->waiting;
    note_reading(peer, now, info.tcpi_bytes_acked);
}

static void scan(peers *peers, uint64_t now, uint64_t resident, bool is_drained) {
    peer *most_unread = NULL, *most_unfinished = NULL, *most_waiting = NULL;
    peers->unfinished = peers->waiting = 0;
    for (size_t fd = 0; fd < peers->n_fd; fd++) {
        peer *peer = peers->by_fd[fd];
        if (!peer) continue;
        scan_one(peers, peer, now, resident);
        if (peer->is_cut) continue;
        cut_if_unread(peers, peer, now);
        cut_if_flooding(peers, peer, is_drained);
        if (!most_unread || peer_unread_bytes(peer) > peer_unread_bytes(most_unread)) most_unread = peer;
        if (!most_waiting || peer->waiting > most_waiting->waiting) most_waiting = peer;
        if (!is_incomplete(peer, now, is_drained)) continue;
        if (!most_unfinished || peer->unfinished > most_unfinished->unfinished) most_unfinished = peer;
        cut_if_unfinished(peers, peer);
        cut_if_silent(peers, peer, resident);
    }
    cut_largest_unread(peers, most_unread, now);
    cut_largest_flood(peers, most_waiting, is_drained);
    cut_largest_unfinished(peers, most_unfinished);
    for (size_t fd = 0; fd < peers->n_fd; fd++) {
        if (peers->by_fd[fd]) peers->by_fd[fd]->received_at_scan = peers->by_fd[fd]->received;
    }
}

uint64_t peers_watch(peers *peers, uint64_t now, bool is_drained) {
    if (peers->n_attached == 0) return UINT64_MAX;
    if (now < peers->looked_ns + LOOK_EVERY_NS) return peers->looked_ns + LOOK_EVERY_NS;
    peers->looked_ns = now;
    uint64_t resident = memory_resident_bytes();
    if (resident < peers->resident_at_scan) peers->resident_at_scan = resident;
    if (now >= peers->scanned_ns + SCAN_EVERY_NS || resident > peers->resident_at_scan + GROWTH_BYTES) {
        scan(peers, now, resident, is_drained);
        peers->scanned_ns = now;
        peers->resident_at_scan = resident;
    }
    return now + LOOK_EVERY_NS;
}
