/* peers_internal.h - the state of the connections, shared by peers.c (table, identities, cutting), peers_unread.c
 * (answers that clients have not read) and peers_watch.c (messages that have not been received whole, or not yet). Only
 * the I/O thread uses it, except for the atomic fields. */
#ifndef SERVER_PEERS_INTERNAL_H
#define SERVER_PEERS_INTERNAL_H

#include <inttypes.h>
#include <stdatomic.h>

#include "server/stream/peers.h"

#define MILLISECOND_NS UINT64_C(1000000)

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
    uint64_t former_end_ns; /* when the end of the connection that had its descriptor before was noted; 0: none had */
    bool has_former_number; /* that one's routing id was libzmq's own, and had this number */
    uint32_t former_number;
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
    bool has_begun;                 /* a message that it has not completed, as the last scan saw */
    uint64_t resident_then;         /* bytes of the process when a scan first saw that message */
    uint64_t expected;              /* bytes of answers to steps that are queued or running */
    atomic_uint_fast64_t read_ns;   /* when it had last read READ_BYTES, or had nothing left to read */
    uint64_t acked_then, unread_then;
};

/* A descriptor, the connection that has it, and the one that had it before, whose messages may still wait. */
typedef struct descriptor {
    peer *peer; /* NULL: none */
    uint64_t former_end_ns;
    bool has_former_number;
    uint32_t former_number;
} descriptor;

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
    descriptor *by_fd;
    size_t n_fd;         /* of by_fd */
    int accepted_fd;     /* of a connection for whose entry there was no memory; -1: none */
    uint64_t drained_ns; /* when the socket had last no complete message left */
    uint32_t n_attached, n_cut;
    uint64_t looked_ns, scanned_ns;
    uint64_t resident_at_scan;
    uint64_t unfinished;
    uint64_t waiting; /* frames, of all peers */
    bool is_flooded;  /* too many were waiting at the last scan */
    uint64_t log_second, log_lines;
};

/* Ends the connection, counts it under `reason` and logs why. */
__attribute__((format(printf, 4, 5))) void cut(peers *peers, peer *peer, metrics_counter reason, const char *format,
                                               ...);

/* Whether messages that count for the connection may be of the one that had its descriptor before. What that one left
 * waiting was received when the socket was empty once, a while after its end was noted. */
bool peer_may_be_former(const peer *peer);

/* What a scan does about unread answers: notes whether the client reads, and cuts it if not; cuts the largest of all
 * where they exceed their limit. */
void note_reading(peer *peer, uint64_t now_ns, uint64_t acked_bytes);
void cut_if_unread(peers *peers, peer *peer, uint64_t now_ns);
void cut_largest_unread(peers *peers, peer *largest, uint64_t now_ns);

#endif
