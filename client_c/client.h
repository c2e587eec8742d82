/* client.h - the insides of contactd_client, for the library's own files.
 *
 * A request that the server can repeat without harm is sent again when the connection broke; a step always, since the
 * server knows it by its sequence number. What must not happen twice (opening a scene, adding a body) is not: when its
 * answer may be lost the client starts a session anew and rebuilds its scenes there (recover.c), the old session's
 * scenes ending with their lease.
 *
 * A server may end over what it is asked. What two servers were at work on when they ended is not sent to a third: the
 * oldest step of each scene (ctc_note_ends), and the request other than a step that a call waits for. An end that the
 * server announced does not count.
 */
#ifndef CONTACTD_CLIENT_H
#define CONTACTD_CLIENT_H

#include <zmq.h>

#include "client_c/contactd.h"
#include "proto/codec.h"
#include "proto/spin.h"
#include "proto/trace.h"
#include "proto/zmq_thread.h"

/* Beside the codes of errors.h: the session is new, so the request must be built again with the new handles. */
#define CTC_AGAIN ((contactd_code)0x10000)

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

typedef struct ctc_body {
    uint32_t handle, server;
    contactd_mesh mesh;
    bool rigid;
    double pose[12]; /* as of the last answered step */
    uint32_t group, mask;
    bool self_contact;
    ct_material material;
    contactd_body *ignore;
    size_t n_ignore;
    uint64_t vertices;
    float *positions; /* [vertices][3] of which known[] were ever given; NULL: none */
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
    struct ctc_step *next; /* of the spare ones */
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
    void *aligned[14]; /* copies of arrays that came unaligned */
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

typedef struct ctc_start { /* where a fleet's connection begins, its order of the servers, and its patience with them */
    const char *address;
    uint64_t seed;
    uint32_t silence_ms;
} ctc_start;

typedef struct ctc_greeting { /* what a server says of its security mechanism, see greeting.c */
    void *socket;             /* NULL: nothing is asked now */
    bool is_asked;            /* since the call began, or the client went to this server */
    unsigned char bytes[32];  /* the greeting, up to the mechanism's name */
    size_t n;                 /* of bytes */
} ctc_greeting;

/* So many failed attempts to connect: nothing listens there. The first may only be that a connection was lost. */
#define CTC_RETRIES 2

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
    uint64_t reconnect_ns;   /* when to connect again, as the server asks to wait; 0: not */
    bool is_throttled;       /* the last handshake failed because too many others from this address had */
    bool unauthenticated;    /* the last one because it does not know the key, or asks for one and got none */
    bool connected, greeted; /* greeted: a Welcome came at least once */
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
    ctc_scene **scenes;
    uint32_t n_scenes, cap_scenes;
    ctc_step **steps; /* submitted and not yet waited for, in that order */
    size_t n_steps, cap_steps;
    ctc_step *current; /* whose result the caller reads */
    ctc_step *spare;
    contactd_ticket ticket;
    wire_update *updates; /* of a step being sent */
    size_t cap_updates;
    wire_direction *directions; /* the same */
    size_t cap_directions;
    void *list; /* answer of the last listing */
};

/* ---- contactd.c ---- */

/* Fills the client's error and returns the code. */
__attribute__((format(printf, 5, 6))) contactd_code
ctc_fail(contactd_client *client, contactd_code code, const char *object, const char *field, const char *format, ...);
/* The same for an error that no client has; error may be NULL. */
__attribute__((format(printf, 5, 6))) contactd_code ctc_fill_error(contactd_error *error, contactd_code code,
                                                                   const char *object, const char *field,
                                                                   const char *format, ...);
contactd_code ctc_options_check(const contactd_options *options, contactd_error *error);
/* A client that connects, but has not said Hello. start may be NULL: the client chooses. *out is NULL after an error.
 */
contactd_code ctc_client_new(const contactd_options *options, const ctc_start *start, contactd_client **out,
                             contactd_error *error);
void ctc_client_free(contactd_client *client);
/* Closes its scenes on the server, which is not waited for long. The client is then to be freed, or lost. */
void ctc_say_goodbye(contactd_client *client);
void ctc_begin(contactd_client *client); /* of a call: no error yet, and its deadline */
/* Fails because an argument that must point somewhere is NULL. */
contactd_code ctc_fail_null(contactd_client *client, const char *object, const char *argument);
/* The first lines of every public function: a NULL is an error, not a crash. */
#define CTC_BEGIN(client)                                                                                              \
    do {                                                                                                               \
        if (!(client)) return CONTACTD_INVALID_ARGUMENT;                                                               \
        ctc_begin(client);                                                                                             \
    } while (0)
#define CTC_REQUIRE(client, object, argument)                                                                          \
    do {                                                                                                               \
        if (!(argument)) return ctc_fail_null(client, object, #argument);                                              \
    } while (0)
uint64_t ctc_now(void);                     /* ns, monotonic */
double ctc_random(contactd_client *client); /* [0, 1) */
char *ctc_strdup(const char *text);         /* of NULL: of "" */
/* Makes room for one more element. False: out of memory. */
bool ctc_grow(void *array, size_t n, size_t *cap, size_t element);
bool ctc_grow32(void *array, uint32_t n, uint32_t *cap, size_t element);
contactd_code ctc_no_memory(contactd_client *client, const char *object);

/* ---- greeting.c ---- */

/* Begins to ask the server for its security mechanism, once in a call. Over tcp:// only. */
void ctc_greeting_ask(contactd_client *client);
/* Takes what has come in answer. True: the server wants another mechanism than this client offers. */
bool ctc_greeting_names_other(contactd_client *client);
void ctc_greeting_close(ctc_greeting *greeting);

/* ---- link.c: the socket ---- */

/* Both may be NULL or empty: no encryption. A key, or a key file (proto/keyfile.h). Before the socket connects. */
contactd_code ctc_keys_set(contactd_client *client, const char *server_key, const char *client_key);
contactd_code ctc_link_open(contactd_client *client, const contactd_options *options);
void ctc_link_close(contactd_client *client);
/* Sends m with the session's numbers and a new request number, waiting for a connection until the deadline, but not at
 * all where `wait` is false: then BUSY means that nothing was sent. */
contactd_code ctc_send(contactd_client *client, wire_message *m, ctc_step *step, bool wait);
/* Waits for one message until until_ns at most, or 20 ms, after which it reads the socket monitor. A step's answer goes
 * to the step; the answer to `request` is left in client->message. */
typedef enum ctc_event { CTC_NOTHING, CTC_ANSWER, CTC_OTHER } ctc_event;
ctc_event ctc_pump(contactd_client *client, uint64_t request, uint64_t until_ns);
/* Sends a request and waits for its answer of the type expected, which is then in client->message. CTC_AGAIN: the
 * session is new. Any other error is in client->error. */
contactd_code ctc_exchange(contactd_client *client, wire_message *m, wire_type expected, const char *object);
contactd_code ctc_hello(contactd_client *client);
/* The deadline has passed while something was waited for. */
contactd_code ctc_timed_out(contactd_client *client, const char *object, const char *waiting_for);
void ctc_answer_error(const wire_error *from, const char *object, contactd_error *to); /* object "": as it says */
void ctc_received_close(ctc_received *received);

/* ---- servers.c ---- */

bool ctc_servers_are_several(const char *text);
/* Notes the servers, and where to connect first: client->address. start may be NULL; with it, a source that cannot be
 * asked now is no error. */
contactd_code ctc_servers_open(contactd_client *client, const char *text, const ctc_start *start);
void ctc_servers_close(ctc_servers *servers);
/* Adds the addresses of all sources. A source that cannot be asked adds nothing: INVALID_ARGUMENT (or OUT_OF_MEMORY),
 * and `why` names the first. */
contactd_code ctc_servers_ask(ctc_servers *servers, char *why, size_t size);
uint64_t ctc_servers_rank(uint64_t seed, const char *address); /* of rendezvous hashing: the highest is first */
/* Goes to another server, which will answer STATE_LOST. False: there is none. */
bool ctc_servers_leave(contactd_client *client);
bool ctc_servers_go(contactd_client *client, const char *to);     /* the same, to this one. False: out of memory */
void ctc_servers_drop(ctc_servers *servers, const char *address); /* it is listed no more */
/* Addresses between commas that a server which drains sent: the client may go there too from now on. */
void ctc_servers_learn(contactd_client *client, const char *successors);
void ctc_servers_tend(contactd_client *client); /* while waiting: leaves a server that is gone for too long */

/* ---- recover.c ---- */

enum { CTC_MOST_ENDS = 2 }; /* of servers, after which what they were at work on is not sent again */
/* The text of SERVER_ENDED: what the servers did, and what the caller may do beside looking into their log. */
#define CTC_ENDED_TEXT                                                                                                 \
    "the server ended twice while it %s, which is not sent again: look into its log for what was running%s"
/* Starts a session anew, until the deadline; meshes and scenes follow when they are next needed. */
contactd_code ctc_recover(contactd_client *client);
/* Makes sure that the server has the mesh; the scene with its bodies in their last state. CTC_AGAIN as in
 * ctc_exchange. */
contactd_code ctc_ensure_mesh(contactd_client *client, ctc_mesh *mesh);
contactd_code ctc_ensure_scene(contactd_client *client, ctc_scene *scene);
void ctc_rebuild_scene(contactd_client *client, ctc_scene *scene); /* when it is next needed */

/* ---- meshes.c, scenes.c, settings.c ---- */

enum { CTC_OBJECT = 96 };
ctc_mesh *ctc_find_mesh(contactd_client *client, contactd_mesh mesh); /* NULL: the error says why */
ctc_scene *ctc_find_scene(contactd_client *client, contactd_scene scene);
ctc_body *ctc_find_body(contactd_client *client, ctc_scene *scene, contactd_body body);
void ctc_mesh_free(ctc_mesh **mesh);
void ctc_scene_free(ctc_scene **scene);
const char *ctc_mesh_object(const contactd_client *client, const ctc_mesh *mesh, char buffer[CTC_OBJECT]);
const char *ctc_scene_object(const ctc_scene *scene, char buffer[CTC_OBJECT]);
/* As contactd_register_mesh_with, but positions may also be doubles. A public function's whole work. */
contactd_code ctc_register_arrays(contactd_client *client, const char *name, const void *positions, wire_dtype dtype,
                                  size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                  const contactd_mesh_options *options, contactd_mesh *out);
contactd_code ctc_send_register(contactd_client *client, ctc_mesh *mesh, const wire_register_mesh *source);
contactd_code ctc_send_open(contactd_client *client, ctc_scene *scene, const wire_settings *settings);
contactd_code ctc_send_pairs(contactd_client *client, ctc_scene *scene); /* their materials */
contactd_code ctc_send_add_body(contactd_client *client, ctc_scene *scene, ctc_body *body);
uint32_t ctc_body_of(ctc_scene *scene, uint32_t server_body); /* 0: none */
/* What is absent is 0. */
/* Whether the method gives the contact no gradient of vertices: voxtree, where it did not refine the pair. */
bool ctc_lacks_gradient(const contactd_contact *contact);
contactd_code ctc_settings_of(contactd_client *client, const contactd_settings *from, const char *object,
                              wire_settings *to);
void ctc_scene_info_of(const wire_scene_info *from, contactd_scene_info *to);
/* Remembers settings that a server told, unless newer ones are known. */
void ctc_adopt_settings(ctc_scene *scene, const wire_settings *settings, uint64_t revision);

/* ---- steps.c, mirror.c ---- */

/* Sends what is unsent and may be sent now, in order, and again what may have been lost. Recovers a lost session. */
contactd_code ctc_serve_steps(contactd_client *client);
void ctc_step_answered(contactd_client *client, ctc_step *step); /* client->message is its answer */
/* The server of this epoch ended without a word, and the steps have not been sent to another. */
void ctc_note_ends(contactd_client *client, uint64_t epoch);
/* Waits until none of the scene's steps is without an answer; scene 0: fewer than `below` of all. */
contactd_code ctc_flush(contactd_client *client, uint32_t scene, size_t below);
/* Sends steps again, with their numbers, as the answer was lost: that of the request, or of all that are sent where it
 * is 0. */
void ctc_resend_steps(contactd_client *client, uint64_t request);
void ctc_unsend_steps(contactd_client *client, uint32_t scene); /* numbers are void; scene 0: of all */
void ctc_drop_steps(contactd_client *client, uint32_t scene);
void ctc_steps_free(contactd_client *client);
ctc_step *ctc_step_of_request(contactd_client *client, uint64_t request);
void ctc_step_clear(contactd_client *client, ctc_step *step); /* what it holds of caller and server */

/* Checks the updates and the options' directions against the bodies, and copies them with their arrays into the step.
 */
contactd_code ctc_take_updates(contactd_client *client, ctc_scene *scene, ctc_step *step,
                               const contactd_update *updates, size_t n, const contactd_step_options *options);
void ctc_mirror_step(ctc_scene *scene, const ctc_step *step);  /* it was answered: its updates are the state */
bool ctc_make_result(contactd_client *client, ctc_step *step); /* of an answer; false: out of memory */

/* ---- frames.c ---- */

/* Tangents follow those before, if the scene asks for that. False: out of memory. */
bool ctc_continue_frames(ctc_scene *scene, contactd_contact *contacts, uint32_t n);

#endif
