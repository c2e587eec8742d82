/* peers.h - the connections to the stream's socket: the bytes of answers that each has not read, the bytes of
 * incomplete messages that each has sent, the messages of each that wait, and how one is cut.
 *
 * libzmq queues answers by number, whatever their size, and queues the parts of an incomplete message without any
 * bound. So bytes are counted here:
 *   - unread: bytes of answers handed to libzmq that it still holds. It drops them when they are in the kernel's socket
 *     buffer.
 *   - unfinished: bytes that libzmq has read from the connection, less those of the complete messages received from it.
 *     The kernel counts the former for TCP. For ipc:// it does not: see peers_watch.
 *   - waiting: frames that libzmq has read and the I/O thread has not received, estimated from the bytes in between and
 *     the size of the frames received last. Over TCP no high-water mark bounds them (see bind.c).
 *
 * libzmq cannot close one connection of a socket either. A connection is cut by shutdown(2) on its descriptor, which
 * libzmq sees as the end of the stream. The socket's cookie, a number that Linux never reuses, makes sure that the
 * descriptor is still the same connection's.
 *
 * All functions are for the I/O thread unless stated otherwise.
 */
#ifndef SERVER_PEERS_H
#define SERVER_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/guard/guard.h"
#include "server/metrics/metrics.h"

typedef struct peers peers;
typedef struct peer peer; /* one connection; reference-counted, as answers outlive it */

typedef struct peers_limits {
    uint64_t unread_per_client; /* bytes; one answer of any size may always be queued */
    uint64_t unread;            /* bytes of all together */
    uint64_t max_message; /* a connection may have twice this unfinished, all together UNFINISHED_MESSAGES times */
    uint32_t connections;
    bool is_encrypted; /* over TCP, by CURVE */
} peers_limits;

/* context and socket are ZeroMQ's; the socket has no connection yet. NULL: ZeroMQ's or the system's error is in errno.
 */
peers *peers_new(const peers_limits *limits, void *context, void *socket, metrics *metrics);
void peers_free(peers **peers); /* before the context ends; NULL inside is allowed */

/* The ZeroMQ socket that becomes readable when a client connects or disconnects; then peers_note_changes is due. */
void *peers_monitor(const peers *peers);
void peers_note_changes(peers *peers);
uint32_t peers_count(const peers *peers); /* connections that are open, as far as was noted */

/* The connection that a message came from, by the descriptor in the first part after the routing id. A message of one
 * that has ended, whose descriptor another may have by now, counts for none, as far as routing ids tell. A new
 * reference. NULL: out of memory. */
peer *peers_find(peers *peers, int fd, const void *routing_id, size_t id_size);
void peer_release(peer **peer); /* any thread; NULL inside is allowed */
peer *peer_retain(peer *peer);  /* any thread */

/* Who the connection belongs to. credential: as guard_find takes it; NULL or empty: none is asked for there. Looked up
 * when the first message comes, and again when the guard's list was read anew. NULL: it is not listed any more, and the
 * connection is cut. */
const identity *peer_identify(peer *peer, guard *guard, const char *credential);
/* Cuts the connections of those that the list, read anew, does not name any more. */
void peers_identify_again(peers *peers, guard *guard);

/* Calls visit for each connection that sent a message and is not cut, with its routing id. */
void peers_visit(const peers *peers, void (*visit)(void *context, const void *routing_id, size_t id_size),
                 void *context);

/* A frame of a complete message was received. */
void peer_count_frame(peer *peer, size_t bytes);
/* The bytes of its requests that are not answered grow, or shrink. */
void peer_add_unanswered(peer *peer, uint64_t bytes);
void peer_subtract_unanswered(peer *peer, uint64_t bytes);
uint64_t peer_unanswered_bytes(const peer *peer);
/* A session uses it: connections without one are cut first when they become too many. False: the connection has ended,
 * and the session has no other. */
bool peer_note_session(peer *peer, uint64_t session);
/* Calls tell for the last session of each connection that ends, unless another connection has it too. */
void peers_tell_ends(peers *peers, void (*tell)(void *context, uint64_t session), void *context);

/* Bytes that the answer to a new request may have, as unread answers and those expected leave room, of the connection
 * and of its principal's share (guard/shares.h). UINT64_MAX where the connection has none and all together do not
 * exceed their limit: one answer of any size may wait. */
uint64_t peer_answer_room(const peer *peer);
/* An answer of so many bytes is expected, or no longer. */
void peer_expect(peer *peer, uint64_t bytes);
void peer_unexpect(peer *peer, uint64_t bytes);
/* Whether so many bytes more would be far beyond the connection's limit: twice it, or 8 times while the client reads.
 * What is computed cannot be refused any more then, and the connection must be cut. Any thread. */
bool peer_is_overfull(const peer *peer, uint64_t bytes);
/* An answer of so many bytes is about to be handed to libzmq; it has let go of one. Any thread. */
void peer_charge(peer *peer, uint64_t bytes);
void peer_discharge(peer *peer, uint64_t bytes);
uint64_t peer_unread_bytes(const peer *peer);        /* any thread */
uint64_t peers_unread_bytes(const peers *peers);     /* any thread */
uint64_t peers_unfinished_bytes(const peers *peers); /* at the last look */

/* It was answered BUSY because of unread answers. */
void peer_note_refusal(peer *peer);

/* libzmq's queue of answers to the connection is full. Cuts it, unless the messages answered may be of the connection
 * that had its descriptor before: then the answer is merely dropped. */
void peers_cut_full(peers *peers, peer *peer);

/* Looks at all connections when it is due, and cuts those
 *   - that have got BUSY because of unread answers, and have then read next to nothing for 10 s;
 *   - that have read next to nothing for 1 s while the unread answers of all exceed `unread`, the largest first, and
 *     where they are twice that, without waiting;
 *   - whose unfinished message exceeds twice max_message, and the largest where all unfinished ones exceed the total.
 *     An ipc:// connection, whose bytes are not counted, is cut if the process grows by that total while a message
 *     comes that it does not complete; so is one over TCP whose bytes could be as many frames without content;
 *   - from which far more messages wait than a client may have in flight, and the largest of all together.
 * Clients connect again by themselves. is_drained: the socket has no complete message left.
 * Returns when it is due next, of clock_ns(); UINT64_MAX: not before a connection comes. */
uint64_t peers_watch(peers *peers, uint64_t now_ns, bool is_drained);
/* For so long until now nothing was received, nor could be read: it counts for no connection's patience. */
void peers_excuse_silence(peers *peers, uint64_t ns, uint64_t now_ns);

#endif
