/* internal.h - the stream itself, for its own files: stream.c (socket and loop), handle.c (what each request does),
 * reply.c and reply_step.c (sending answers). All of it belongs to the I/O thread except where a field says
 * otherwise. */
#ifndef SERVER_STREAM_INTERNAL_H
#define SERVER_STREAM_INTERNAL_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <zmq.h>

#include "proto/codec.h"
#include "proto/keyfile.h"
#include "proto/spin.h"
#include "proto/trace.h"
#include "proto/zmq_thread.h"
#include "server/base/json_out.h"
#include "server/base/memory.h"
#include "server/core/picture.h"
#include "server/core/service.h"
#include "server/guard/shares.h"
#include "server/stream/peers.h"
#include "server/stream/stream.h"
#include "server/stream/zap.h"

/* Owns what the frames of an answer lie in, until ZeroMQ has let go of the last of them. Its bytes count as unread by
 * the client for as long. */
typedef struct frame_owner {
    atomic_uint references;
    peer *peer;
    uint64_t charged_bytes; /* 0: not yet */
    step_answer *answer;
    ct_mesh *mesh;
    void *block;                 /* spans, or a picture */
    wire_encoder *encoder;       /* the header lies in it; NULL: in `header` */
    wire_zmq_thread *zmq_thread; /* registered when it sends; NULL: not */
    unsigned char header[];      /* a copy of what the stream's encoder made */
} frame_owner;

typedef struct many_steps many_steps; /* many.c */
typedef struct each_scene each_scene; /* each.c */

/* One received message, its command and its answer. The frames live until it is answered, as the engine reads positions
 * from them without a copy. */
typedef struct request {
    work work; /* first, so that a work is its request */
    stream *stream;
    zmq_msg_t client; /* the routing id */
    peer *peer;       /* the connection that it came from */
    identity who;
    uint64_t scene;           /* it concerns; 0: none */
    contactd_code code;       /* of its answer */
    char trace[TRACE_ID + 1]; /* empty: none */
    zmq_msg_t frames[1 + WIRE_MAX_FRAMES];
    wire_frame views[1 + WIRE_MAX_FRAMES];
    size_t n_frames;
    bool has_place; /* Configure by another than the scene's client: `place` was taken */
    state_place place;
    size_t bytes;         /* of its frames and of what they were decoded to */
    uint64_t received_ns; /* of clock_ns() */
    wire_scratch *scratch;
    wire_message message;
    command command;
    ct_update *updates;
    size_t room_updates;
    ct_direction *directions;
    size_t room_directions;
    ct_velocity *velocities;
    size_t room_velocities;
    many_steps *many;           /* StepMany; else NULL */
    each_scene *each;           /* ResetScenes, CloseScenes, CopyScene, AddBodies; else NULL */
    mesh_record mesh;           /* RegisterMesh */
    ct_mesh_changes *changes;   /* RegisterMesh: what was done to make it */
    picture picture;            /* GetSnapshot */
    json_out report;            /* GetReport */
    server_error error;         /* RegisterMesh, RemoveMesh, GetSnapshot, GetReport: code OK if it succeeded */
    frame_owner *encoded_owner; /* Step: of `encoded`, if a worker encoded the answer, else NULL */
    wire_encoded encoded;
    bool is_overfull;        /* Step: not encoded, as the client has far too many unread answers */
    uint64_t expected_bytes; /* Step: of its answer, counted at the peer */
    ct_cancel left;          /* Step, StepMany: requested by a Cancel */
    struct request *next;
    struct request *older, *newer; /* Step, StepMany: among the stream's that are under way */
    bool is_under_way;
} request;

struct stream {
    const service *service;
    ct_engine_facts engine;
    void *context, *socket;
    char endpoints[CONFIG_MAX_LIST][256];
    uint32_t n_endpoints;
    pthread_t thread;
    atomic_bool ending;
    uint32_t linger_ms;
    int wake_fd; /* eventfd: another thread finished a request while the I/O thread slept, or ends it */
    wire_spin spin;
    wire_zmq_thread zmq_thread;
    bool shares_cores; /* the engine computes on this machine's processor, and spinning would slow it down */
    peers *peers;
    bool has_key; /* tcp endpoints speak CURVE */
    char secret_key[KEYFILE_KEY + 1];
    zap *zap;                  /* NULL: clients are not authenticated */
    uint32_t guard_generation; /* of the list by which the connections were last identified */
    memory_trimmer trimmer;
    work trim;
    uint64_t released_ns;        /* of clock_ns(): when idle scratch was looked for */
    atomic_bool is_trimming;     /* `trim` waits or runs */
    atomic_bool announces_drain; /* to all clients, once */
    bool is_drained;             /* the socket had no message left at the last look */
    uint64_t noted_ns;           /* when the connections that came and ended were last noted */

    pthread_mutex_t lock;
    request *first_finished, *last_finished; /* [lock] waiting for their answer to be sent */
    bool asleep;                             /* [lock] or about to be: a thread that finishes a request wakes it */

    request *spare; /* requests to use again */
    unsigned n_spare;
    uint64_t spare_bytes;   /* allocated by them */
    unsigned n_outstanding; /* requests that the scheduler or the workers have */
    request *newest;        /* of Steps and StepManys that are under way */
    shares in_hand;         /* bytes of all requests not yet answered, decoded or not, by principal */
    wire_encoder *encoder;
};

/* Requests not yet answered may take so many times --max-message of memory; more are BUSY. */
#define UNANSWERED_MESSAGES 4

/* stream.c */
void stream_finish(request *request);       /* from any thread: its answer can be sent */
void stream_free_request(request *request); /* its frames are dropped */
void stream_note_begin(request *request);   /* a Step or StepMany is under way: Cancel finds it */
bool stream_is_draining(const stream *stream);
const char *stream_successors(const stream *stream);        /* NULL: none are known */
void stream_charge_request(request *request, size_t bytes); /* adds bytes, until it is answered */

/* bind.c: listens on all endpoints and notes them. False: *error names the one that cannot be had, and why. */
bool stream_bind(stream *stream, server_error *error);
/* Of the messages that libzmq may queue for one client, or from it. */
int stream_high_water_mark(const stream *stream);

/* handle.c: decodes and carries out. Answers at once, or later through stream_finish. */
void stream_handle(stream *stream, request *request);
/* Sends the answer of a finished request. */
void stream_answer(stream *stream, request *request);

/* report.c: GetReport */
bool report_needs_command(const request *request); /* its scene's thread must list what it tells */
/* Answers at once, or fails. */
bool report_at_once(stream *stream, request *request, server_error *error);
/* Queues the making of a scene's report, from what its command has listed; then stream_finish. On any thread. */
void report_hand_over(request *request);

/* reply.c */
void reply(stream *stream, request *request, wire_type type,
           wire_message *message); /* fills in request, session, epoch */
void reply_error(stream *stream, request *request, uint64_t number, const server_error *error, bool retry);
/* takes_doubles: as in wire_get_mesh. */
void reply_geometry(stream *stream, request *request, const mesh_record *record, ct_mesh *mesh, bool takes_doubles);
/* changes: of a registration; NULL: it is none. */
void reply_mesh(stream *stream, request *request, const mesh_record *record, const ct_mesh_changes *changes);
void reply_meshes(stream *stream, request *request, const mesh_record *records, size_t n);
void reply_scene(stream *stream, request *request, const scene_record *record);
wire_settings reply_settings(const ct_scene_settings *settings); /* complete */
void reply_scenes(stream *stream, request *request, const scene_record *records, size_t n);
void reply_picture(stream *stream, request *request);                  /* the picture is the answer's from now on */
void reply_report(stream *stream, request *request, json_out *report); /* the same for the report */
void reply_status(stream *stream, request *request);
void reply_welcome(stream *stream, request *request, const session_record *session);
void reply_no_memory(stream *stream, request *request);
/* Encodes with any encoder, on any thread. */
bool encode_with(wire_encoder *encoder, const request *request, wire_type type, wire_message *message,
                 wire_encoded *encoded);
/* Hands the frames to ZeroMQ without waiting; cuts the connection if it is overfull. Releases the owner. */
void send_encoded(stream *stream, request *request, const wire_encoded *encoded, frame_owner *owner);
/* One reference. header_size: of a header that send_encoded copies into it; 0 where an encoder of its own will hold it.
 * NULL: no memory. */
frame_owner *frame_owner_new(request *request, size_t header_size);
/* Counts the answer as unread from now on. On any thread. */
void frame_owner_charge(frame_owner *owner, const wire_encoded *encoded);
void frame_owner_release(frame_owner *owner); /* NULL is allowed */

/* reply_step.c */
unsigned reply_groups_of(const ct_result *result); /* what fields of contacts the step gives */
void reply_encode_step(
    request *request); /* on the thread that computed it: encodes answers that would delay the I/O thread */
void reply_step(stream *stream, request *request);
void reply_drop_encoded(request *request); /* frees an answer that will not be sent */

static_assert((int)CT_ENDED_PRECISION == (int)WIRE_PRECISION && (int)CT_ENDED_TIME == (int)WIRE_ENDED_TIME, "ended");

#endif
