/* peers_watch.c - what clients have sent and the I/O thread has not received: incomplete messages, and complete ones
 * that wait. Looks at all connections in turn. */
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "server/base/clock.h"
#include "server/base/memory.h"
#include "server/stream/peers_internal.h"

enum { UNFINISHED_MESSAGES = 4 }; /* unfinished bytes of all connections, in --max-message */
/* Interval of checks of the process's memory. A sender on the same machine moves about 2 GB/s, so up to 40 MB arrive
 * between two checks. */
#define LOOK_EVERY_NS (20 * MILLISECOND_NS)
/* Interval of scans of all connections while the process has not grown by GROWTH_BYTES. A scan costs 1 us a connection.
 */
#define SCAN_EVERY_NS (250 * MILLISECOND_NS)
#define GROWTH_BYTES  (UINT64_C(8) << 20)
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

/* ---- unfinished messages ---- */

void peer_count_frame(peer *peer, size_t bytes) {
    if (peer->is_tcp && peer->peers->limits.is_encrypted) bytes += CURVE_BYTES;
    peer->received += bytes + (bytes > 255 ? 9 : 2); /* ZMTP: a flag, and a length of 8 bytes or of 1 */
    peer->frames++;
}

uint64_t peers_unfinished_bytes(const peers *peers) {
    return peers->unfinished;
}

/* Bytes of all connections together. */
static uint64_t unfinished_limit(const peers *peers) {
    return UNFINISHED_MESSAGES * peers->limits.max_message;
}

/* Bytes in the kernel's socket buffer, which libzmq has not read. */
static uint64_t waiting_bytes(const peer *peer) {
    int waiting = 0;
    if (ioctl(peer->fd, SIOCINQ, &waiting) != 0 || waiting < 0) waiting = 0;
    return (uint64_t)waiting;
}

/* Bytes that libzmq buffers: all that it has read, less the complete messages that it has handed over. */
static uint64_t unfinished_bytes(const peer *peer, const struct tcp_info *info, uint64_t now) {
    uint64_t age_s = (now - peer->accepted_ns) / (1000 * MILLISECOND_NS);
    uint64_t other = HANDSHAKE_BYTES + HEARTBEAT_BYTES_PER_S * age_s;
    uint64_t known = peer->received + other;
    if (info->tcpi_bytes_received <= known) return 0;
    uint64_t bytes = info->tcpi_bytes_received - known, waiting = waiting_bytes(peer);
    return bytes > waiting ? bytes - waiting : 0;
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
    uint64_t limit = unfinished_limit(peers);
    if (!largest || peers->unfinished <= limit) return;
    cut(peers, largest, METRICS_CUT_UNFINISHED,
        "%" PRIu64 " bytes of messages without their ends were sent, at most %" PRIu64
        " (%d times --max-message) are taken; most of them, %" PRIu64 ", came from here",
        peers->unfinished, limit, UNFINISHED_MESSAGES, largest->unfinished);
}

/* Whether it has sent bytes of a message, as far as that shows, since it last completed one. Of an ipc:// connection it
 * shows if a scan finds some in the kernel's buffer, as those of a long message do. */
static bool has_begun_message(const peers *peers, const peer *peer) {
    if (peer->is_tcp) return peer->unfinished >= unfinished_limit(peers) / QUEUED_BYTES * LEAST_WIRE_BYTES;
    return (peer->has_begun && is_stuck(peer)) || waiting_bytes(peer) > HEARTBEAT_BYTES_PER_S;
}

/* Where the bytes say too little, the process's growth since the message began is used instead: the kernel does not
 * count those of ipc:// connections, and over TCP they may be frames without content, which take far more memory than
 * bytes. */
static void cut_if_silent(peers *peers, peer *peer, uint64_t resident) {
    if (!peer->has_begun || resident - peer->resident_then <= unfinished_limit(peers)) return;
    cut(peers, peer, METRICS_CUT_UNFINISHED,
        "a message that it sends has not ended while this process grew by %" PRIu64
        " bytes: it may be without end (at most %" PRIu64 ", %d times --max-message, are taken)",
        resident - peer->resident_then, unfinished_limit(peers), UNFINISHED_MESSAGES);
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
    if (!peer->has_begun || !is_stuck(peer) || resident < peer->resident_then) peer->resident_then = resident;
    peer->has_begun = has_begun_message(peers, peer);
    peers->unfinished += peer->unfinished;
    peers->waiting += peer->waiting;
    note_reading(peer, now, info.tcpi_bytes_acked);
}

static void scan(peers *peers, uint64_t now, uint64_t resident, bool is_drained) {
    peer *most_unread = NULL, *most_unfinished = NULL, *most_waiting = NULL;
    peers->unfinished = peers->waiting = 0;
    for (size_t fd = 0; fd < peers->n_fd; fd++) {
        peer *peer = peers->by_fd[fd].peer;
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
        peer *peer = peers->by_fd[fd].peer;
        if (peer) peer->received_at_scan = peer->received;
    }
}

uint64_t peers_watch(peers *peers, uint64_t now, bool is_drained) {
    if (is_drained) peers->drained_ns = now;
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

void peers_excuse_silence(peers *peers, uint64_t ns, uint64_t now) {
    for (size_t fd = 0; fd < peers->n_fd; fd++) {
        peer *peer = peers->by_fd[fd].peer;
        if (!peer) continue;
        peer->progress_ns = clock_later(peer->progress_ns, ns, now);
        atomic_store_explicit(&peer->read_ns, clock_later(atomic_load(&peer->read_ns), ns, now), memory_order_relaxed);
    }
}
