/* client.h - what a client remembers, for the library's own files; contactd.h has the public types. */
#ifndef CONTACTD_CLIENT_H
#define CONTACTD_CLIENT_H

#include <zmq.h>

#include "client_c/contactd.h"
#include "proto/codec.h"
#include "proto/spin.h"
#include "proto/trace.h"
#include "proto/zmq_thread.h"

typedef struct ctc_received { /* one message as it came; never moved, since small frames live in zmq_msg_t itself */
    zmq_msg_t frames[1 + WIRE_MAX_FRAMES];
    size_t n;
} ctc_received;

typedef struct ctc_mesh {
    char *name;
    char hash[33];
    uint64_t server;   /* its handle in this session; 0: must be found or registered again */
    uint64_t vertices; /* as registered: without those that close an open surface */
    uint32_t bodies;   /* of this client */
    /* What was registered, if it is kept: arrays, or a file. */
    bool kept;
    void *positions, *triangles, *file;
    wire_register_mesh source; /* points to the above */
    contactd_repair repair;    /* of the first registration */
} ctc_mesh;

/* A mesh that was made of a shape, to be found again. */
typedef struct ctc_shape {
    contactd_shape shape;
    size_t parts;       /* that its tolerance comes to */
    contactd_mesh mesh; /* may have been removed */
} ctc_shape;

typedef struct ctc_body {
    uint32_t handle, server;
    contactd_mesh mesh;
    bool rigid;
    double pose[12];  /* as of the last answered step */
    double start[12]; /* that it was added with */
    uint32_t group, mask;
    bool self_contact;
    ct_material material;
    contactd_body *ignore;
    size_t n_ignore;
    uint64_t vertices;
    void *positions; /* [vertices][3] of which known[] were ever given; NULL: none */
    bool float64;    /* they are double, as some were given so; else float */
    uint8_t *known;
    uint64_t n_known;
} ctc_body;

/* What counts between two bodies in place of what their materials come to. */
typedef struct ctc_pair {
    contactd_body body[2]; /* in rising order */
    ct_material material;
} ctc_pair;

typedef struct ctc_scene {
    uint32_t handle;
    char *name;
    uint64_t server;        /* 0: must be opened again */
    uint64_t orphan;        /* what it was on the server before, to be closed there; 0: none */
    uint64_t sequence;      /* the last one given to a step */
    wire_settings settings; /* complete, as the server last said */
    uint64_t key, revision; /* the scene's name for all servers; of the settings */
    ctc_body **bodies;      /* by handle - 1; NULL: removed */
    uint32_t n_bodies, cap_bodies, live;
    ctc_pair *pairs;
    uint32_t n_pairs, cap_pairs;
    struct ctc_body_id {
        uint32_t server, handle;
    } * ids; /* in rising order of server; n_ids 0: to be made */
    uint32_t n_ids, cap_ids;
    bool rebuilt;          /* once for the step that is in conflict */
    uint32_t ends;         /* of servers that were at work on restoring it */
    uint64_t barred_epoch; /* of the server that is not asked to restore it, as two ended over it; 0: none */
    uint64_t many_call;    /* the last one of contactd_step_many that listed it */
    bool has_continuous_frames;
    struct ctc_frame *frames; /* [n_frames] of the last step waited for, by bodies and index; see frames.c */
    uint32_t n_frames, cap_frames;
} ctc_scene;

typedef enum ctc_step_state {
    STEP_FREE = 0,
    STEP_UNSENT,
    STEP_SENT,
    STEP_ANSWERED,
} ctc_step_state;

typedef struct ctc_step {
    struct ctc_step *next; /* of the spare or of the kept ones */
    ctc_step_state state;
    contactd_ticket ticket;
    uint32_t scene;
    uint64_t request, sequence; /* 0: not numbered in this session yet */
    uint32_t want, deadline_us, time_budget_us;
    double tolerance;
    contactd_update *updates; /* the caller's, pointing into storage or frames */
    size_t n_updates, cap_updates;
    contactd_direction *directions; /* as updates */
    size_t n_directions, cap_directions;
    size_t n_velocities; /* they follow the directions, as directions of index 0 */
    double viscosity;
    unsigned char *storage; /* small arrays */
    size_t cap_storage;
    zmq_msg_t *large; /* large arrays, shared with what was sent */
    size_t n_large, cap_large;
    uint64_t submitted_ns, sent_ns, retry_ns, answered_ns; /* retry_ns: not to be sent before */
    uint64_t breaks;                                       /* of the connection, when it was sent */
    uint64_t epoch;       /* of the server that it was sent to; 0: none, or one that refused it */
    uint32_t ends;        /* of servers that were at work on it */
    bool abandoned;       /* no call waits for it, but it may still change the state */
    contactd_error error; /* its answer, or why it was refused last */
    /* The answer: */
    ctc_received *received;
    wire_scratch *scratch;
    wire_message answer;
    contactd_contact *contacts; /* then cells */
    uint32_t cap_contacts;
    contactd_warning *warnings;
    uint32_t cap_warnings;
    contactd_pair_progress *progress;
    uint32_t cap_progress;
    contactd_separation *separations;
    uint32_t cap_separations;
    void *aligned[19]; /* copies of arrays that came unaligned */
    contactd_result result;
} ctc_step;

typedef struct ctc_server {
    char *address;
    uint64_t left_ns; /* when it was gone or drained, lately; 0: not */
} ctc_server;
typedef struct ctc_servers { /* where several were given */
    char *sources; /* as given; NULL: one address, which is never left. "": one, whose successors are listed */
    ctc_server *list;
    uint32_t n, cap;
    uint64_t seed;       /* this client's order of them */
    uint64_t down_ns;    /* since when a connection is waited for; 0: there is one, or nobody has waited since */
    uint32_t silence_ms; /* without a connection to a server that may listen, before another is tried */
} ctc_servers;

typedef struct ctc_greeting { /* what a server says of its security mechanism, see greeting.c */
    void *socket;             /* NULL: nothing is asked now */
    bool is_asked;            /* since the call began, or the client went to this server */
    unsigned char bytes[32];  /* the greeting, up to the mechanism's name */
    size_t n;                 /* of bytes */
} ctc_greeting;

typedef struct ctc_silence { /* whether bytes of the connection move, see silence.c */
    int fd;                  /* -1: there is none */
    uint64_t cookie;         /* its number, which the system never reuses */
    uint64_t looked_ns, moved_ns;
    uint64_t received, taken; /* bytes, when they were last seen to have moved */
    uint64_t taken_then;      /* when some last came */
} ctc_silence;

struct contactd_client {
    void *context, *socket, *monitor;
    ctc_servers servers;
    char *address, *name;
    char *left_address;                 /* where it was before it moved; NULL: it did not move */
    char traceparent[TRACE_PARENT + 1]; /* empty: none */
    uint32_t timeout_ms, resend_ms, lease_ms;
    bool keep_meshes;
    uint64_t deadline_ns; /* of the call that runs */
    wire_spin spin;
    wire_zmq_thread zmq_thread;
    uint64_t waiting_ns, spin_ns; /* when the wait for a message began, 0: none runs; until when it may spin */
    uint64_t left_ns;             /* when the last submit or wait returned */
    contactd_error error;
    uint64_t random;

    bool has_keys;    /* the connection is encrypted */
    uint32_t refused; /* handshakes that the server ended since the call began */
    bool asks_other;  /* it wants another mechanism than the client offers */
    ctc_greeting greeting;
    ctc_silence silence;
    uint64_t reconnect_ns;   /* when to connect again, as the server asks to wait; 0: not */
    bool is_throttled;       /* the last handshake failed because too many others from this address had */
    bool unauthenticated;    /* the last one because it does not know the key, or asks for one and got none */
    bool connected, greeted; /* greeted: a Welcome came at least once */
    bool is_heard;           /* something listens at the address; whether it speaks ZeroMQ shows with the handshake */
    bool awaits_handshake;   /* a message would go into the connection that was left or lost, until the next is made */
    uint64_t breaks;         /* connections lost so far */
    uint64_t retries;        /* attempts to connect that failed since there was a connection, and its loss */
    uint64_t strangers;      /* messages that are not of the protocol */
    bool has_lost_answer;    /* there was no memory to decode an answer, not of a step */
    uint64_t session, epoch, request;
    bool is_end_announced; /* the server said that it shuts down, or was left in order */
    uint64_t work_epoch;   /* of the server that works on a request other than a step in flight; 0: none does */
    uint32_t call_ends;    /* of servers that worked on what the call asks for */
    uint32_t *work_ends; /* where the ends of servers are counted now: call_ends, or those of a scene being restored */
    uint32_t recoveries;
    uint64_t recovered_ns;
    bool lost, recovering; /* the server has no state of this session; being restored */
    wire_welcome welcome;
    char *welcome_text;

    wire_encoder *encoder;
    wire_scratch *scratch; /* behind `message`, as is `incoming` */
    ctc_received *incoming;
    wire_message message;

    ctc_mesh **meshes; /* by handle - 1; NULL: removed */
    uint32_t n_meshes, cap_meshes;
    ctc_shape *shapes;
    uint32_t n_shapes, cap_shapes;
    ctc_scene **scenes;
    uint32_t n_scenes, cap_scenes;
    ctc_step **steps; /* submitted and not yet waited for, in that order */
    size_t n_steps, cap_steps;
    ctc_step *current; /* whose result the caller reads */
    ctc_step *kept;    /* whose results the caller keeps */
    ctc_step *spare;
    contactd_ticket ticket;
    uint64_t many_calls;  /* of contactd_step_many */
    wire_update *updates; /* of a step being sent */
    size_t cap_updates;
    wire_direction *directions; /* the same */
    size_t cap_directions;
    void *list; /* answer of the last listing */
};

#endif
