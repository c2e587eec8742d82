/* peers_unread.c - answers that clients have not read: how many more may be queued, and who is cut for them. */
#include "server/base/clock.h"
#include "server/stream/peers_internal.h"

enum {
    OVERFULL = 2,         /* times its limit that a client's unread answers may reach when they were underestimated */
    OVERFULL_READING = 8, /* the same for a client that reads */
};
/* A client counts as reading if it reads READ_BYTES within PATIENCE_NS. */
#define READ_BYTES           65536
#define PATIENCE_NS          (10000 * MILLISECOND_NS)
#define PATIENCE_AT_LIMIT_NS (1000 * MILLISECOND_NS)
/* Per queued answer: ZeroMQ's message and content, and the frame owner. */
#define OVERHEAD_BYTES 512
/* Answers up to this size may always be queued, so that an error can say why others are refused. */
#define SMALL_ANSWER 65536

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

void peer_note_refusal(peer *peer) {
    peer->is_refused = true;
}

void peers_cut_full(peers *peers, peer *peer) {
    if (peer_may_be_former(peer)) return;
    cut(peers, peer, METRICS_CUT_UNREAD,
        "it has not read as many answers as may wait for one client, %" PRIu64 " bytes: it must read, or ask for less",
        peer_unread_bytes(peer));
}

void note_reading(peer *peer, uint64_t now, uint64_t acked) {
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

void cut_if_unread(peers *peers, peer *peer, uint64_t now) {
    if (!peer->is_refused || now - peer->read_ns < PATIENCE_NS) return;
    cut(peers, peer, METRICS_CUT_UNREAD,
        "%" PRIu64 " bytes of its answers are unread (at most %" PRIu64
        ", --unread-per-client), and it has read next to nothing for %d s",
        peer_unread_bytes(peer), peers->limits.unread_per_client, (int)(PATIENCE_NS / (1000 * MILLISECOND_NS)));
}

void cut_largest_unread(peers *peers, peer *largest, uint64_t now) {
    uint64_t unread = peers_unread_bytes(peers), limit = peers->limits.unread;
    if (!largest || unread <= limit) return;
    if (unread <= 2 * limit && now - largest->read_ns < PATIENCE_AT_LIMIT_NS) return;
    cut(peers, largest, METRICS_CUT_UNREAD,
        "%" PRIu64 " bytes of answers are unread, more than %" PRIu64 " (--unread-memory); most of them, %" PRIu64
        ", are this client's",
        unread, limit, peer_unread_bytes(largest));
}
