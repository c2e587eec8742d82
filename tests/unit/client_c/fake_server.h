/* fake_server.h - a server in a thread that speaks the protocol but computes only a sum, and misbehaves on demand: for
 * the tests of the C client, which must see through lost answers, lost state, restarts and nonsense.
 *
 * A step's one contact has as volume the sum of all coordinates of all bodies of the scene (pose entries for rigid
 * ones), so that a test can tell whether the client restored the state, and as error_estimate the number of steps that
 * were really computed.
 */
#ifndef TESTS_FAKE_SERVER_H
#define TESTS_FAKE_SERVER_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/codec.h"

enum { FAKE_SCENES = 16, FAKE_BODIES = 16, FAKE_MESHES = 16, FAKE_KEPT = 8, FAKE_MAX_IN_FLIGHT = 4 };

#define FAKE_DEADLY 666.0 /* x of a pose: the server ends over such a step */
#define FAKE_LONG   777.0 /* the step takes too long: TIME_LIMIT */

typedef struct fake_body {
    bool live, rigid;
    uint64_t vertices;
    double *positions;
    double pose[12], start[12];
} fake_body;
typedef struct fake_scene {
    bool live;
    uint64_t session, sequence, received;
    wire_settings settings;
    uint64_t key, revision;
    fake_body bodies[FAKE_BODIES];
    uint32_t n_bodies;
    double kept[FAKE_KEPT];
    uint64_t kept_sequence[FAKE_KEPT];
} fake_scene;

typedef struct fake_server {
    pthread_t thread;
    char endpoint[64];
    void *context;

    /* Orders from the test. */
    atomic_bool quit;
    atomic_bool restart;        /* close the port, forget all, come back with another epoch */
    atomic_int away_ms;         /* how long restart takes */
    atomic_bool forget_session; /* only the sessions and scenes are lost */
    atomic_bool forget_meshes;
    atomic_bool silent;      /* never answer */
    atomic_bool garbage;     /* answer with noise */
    atomic_int drop;         /* do this many requests, but lose their answers */
    atomic_int busy;         /* refuse this many steps */
    atomic_int slow_ms;      /* before each answer */
    atomic_bool held;        /* no answer until this is taken back */
    atomic_bool skip_number; /* once: expect another sequence number than the client */
    atomic_bool is_old;      /* knows nothing of self-contact and of revisions */
    atomic_bool configure;   /* before the next step: an operator changes the resolution to 7, 8, 9 */
    atomic_int ends_over; /* a wire_type: it restarts instead of an answer to it, of AddBody to one with the group 7 */
    atomic_int ends_over_all; /* the same, for each message of this type */
    atomic_int ends_left;     /* so often; also over steps with the pose FAKE_DEADLY */
    atomic_bool announces;    /* it only says that it will; the test then ends it */
    atomic_bool warn;         /* warn of body 2, and of body 1 by an unknown code */

    /* For the test to look at. */
    atomic_int self_added;       /* bodies with self-contact */
    atomic_int ended;            /* over something */
    atomic_int awaited;          /* answers of its scene, by the client of the last step, that one included */
    atomic_int resets, closings; /* of many scenes */
    atomic_int computed, hellos, registered, opened, repeated, refused, bodies_added, configured, materials;
    pthread_mutex_t material_lock;
    wire_set_material material; /* [material_lock] the last one set: see fake_material */
    atomic_uint most_in_flight;
    _Atomic uint64_t last_key; /* of the newest scene */

    void *socket;
    uint64_t epoch, next_session, first_session;
    fake_scene scenes[FAKE_SCENES];
    uint32_t n_scenes;
    struct fake_mesh {
        uint64_t vertices;
        char hash[33];
        bool live;
    } meshes[FAKE_MESHES];
    uint32_t n_meshes;
    wire_encoder *encoder;
    wire_scratch *scratch;
    zmq_msg_t who;
} fake_server;

static inline void fake_reply(fake_server *f, wire_message *m, uint64_t request) {
    m->request = request;
    wire_encoded e;
    bool encoded = wire_encode(f->encoder, m, 0, &e); /* all arrays in frames, so unaligned ones come up */
    assert(encoded);
    (void)encoded;
    if (atomic_load(&f->slow_ms)) {
        struct timespec t = {0, (long)atomic_load(&f->slow_ms) * 1000000};
        nanosleep(&t, NULL);
    }
    while (atomic_load(&f->held) && !atomic_load(&f->quit)) nanosleep(&(struct timespec){0, 50000}, NULL);
    zmq_send(f->socket, zmq_msg_data(&f->who), zmq_msg_size(&f->who), ZMQ_SNDMORE);
    if (atomic_load(&f->garbage)) {
        zmq_send(f->socket, "\xde\xad\xbe\xef not a header", 16, 0);
        return;
    }
    for (size_t i = 0; i < e.n_frames; i++)
        zmq_send(f->socket, e.frames[i].data, e.frames[i].size, i + 1 < e.n_frames ? ZMQ_SNDMORE : 0);
}

static inline void fake_error(fake_server *f, uint64_t request, contactd_code code, const char *object,
                              const char *message) {
    wire_message m = {
        .type = WIRE_ERROR,
        .u.error = {code, object, "", message, wire_code_retry((int)code), code == CONTACTD_BUSY ? 5 : 0, ""}};
    atomic_fetch_add(&f->refused, 1);
    fake_reply(f, &m, request);
}

static inline void fake_forget_scenes(fake_server *f) {
    for (uint32_t s = 0; s < f->n_scenes; s++)
        for (uint32_t b = 0; b < f->scenes[s].n_bodies; b++) free(f->scenes[s].bodies[b].positions);
    memset(f->scenes, 0, sizeof f->scenes);
    f->n_scenes = 0;
    f->first_session = f->next_session;
}
static inline void fake_forget_meshes(fake_server *f) {
    memset(f->meshes, 0, sizeof f->meshes);
    f->n_meshes = 0;
}

static inline fake_scene *fake_find(fake_server *f, const wire_message *m, uint64_t id) {
    uint64_t index = id - 100;
    if (id < 100 || index >= f->n_scenes || !f->scenes[index].live || f->scenes[index].session != m->session) {
        fake_error(f, m->request, CONTACTD_NOT_FOUND, "scene", "no such scene");
        return NULL;
    }
    return &f->scenes[index];
}

static inline void fake_apply(fake_body *b, const wire_update *u) {
    if (u->kind == WIRE_UPDATE_POSE) {
        memcpy(b->pose, u->pose, sizeof b->pose);
        return;
    }
    for (uint64_t k = 0, from = 0; k < (u->kind == WIRE_UPDATE_POSITIONS ? 1 : u->indices.count);) {
        uint32_t first = 0, n = (uint32_t)b->vertices;
        const char *indices = u->indices.data;
        if (u->kind == WIRE_UPDATE_INDEXED) {
            memcpy(&first, indices + 4 * k, 4);
            n = 1;
        } else if (u->kind == WIRE_UPDATE_RANGES) {
            memcpy(&first, indices + 4 * k, 4);
            memcpy(&n, indices + 4 * k + 4, 4);
        }
        for (uint64_t c = 0; c < 3ull * n; c++, from++) {
            double d;
            float x;
            if (u->positions.dtype == WIRE_F64) {
                memcpy(&d, (const char *)u->positions.data + 8 * from, 8);
            } else {
                memcpy(&x, (const char *)u->positions.data + 4 * from, 4);
                d = (double)x;
            }
            b->positions[3 * first + c] = d;
        }
        k += u->kind == WIRE_UPDATE_RANGES ? 2 : 1;
    }
}

static inline ct_method fake_running_method(const wire_settings *settings) {
    return settings->to.method == CT_METHOD_AUTO ? CT_METHOD_EXACT : settings->to.method;
}

static inline void fake_result(fake_server *f, const wire_message *m, fake_scene *s, double sum, bool cached) {
    static const uint32_t vertices[3] = {0, 2, 1};
    static const double gradient[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, weights[3] = {0.5, 0.25, 0.125};
    ct_contact c = {.body = {(1u << 20) + 1, (1u << 20) + 2},
                    .volume = sum,
                    .error_bound = __builtin_nan(""),
                    .error_bounds = {__builtin_nan(""), __builtin_nan(""), __builtin_nan("")},
                    .error_estimate = atomic_load(&f->computed),
                    .index = 4,
                    .max_winding = 3,
                    .first = {0, 2},
                    .count = {2, 1}};
    wire_message r = {.type = WIRE_STEP_RESULT,
                      .u.step_result = {.scene = m->u.step.scene,
                                        .sequence = m->u.step.sequence,
                                        .contacts = &c,
                                        .n_contacts = s->n_bodies > 1,
                                        .method = CT_METHOD_LDI,
                                        .backend = "fake",
                                        .cached = cached,
                                        .settings = s->settings,
                                        .revision = atomic_load(&f->is_old) ? 0 : s->revision,
                                        .timings_us = {1, 2, 3, 4, 5, 6, 7}}};
    wire_warning warnings[2] = {{.body = (1u << 20) + 1, .value = 0.5},
                                {CONTACTD_WARNING_BODY_INVERTED, (1u << 20) + 2, -0.25}};
    memcpy(&warnings[0].code, &(unsigned){77}, sizeof warnings[0].code);
    if (atomic_load(&f->warn)) {
        r.u.step_result.warnings = warnings;
        r.u.step_result.n_warnings = 2;
    }
    /* Of each of the two bodies one vertex, 2 or 1, whose products are the direction's values there or its translation;
     * the 6-vectors are the twists. */
    static const uint32_t product_vertices[2] = {2, 1};
    double products[2][12][3] = {{{0}}}, generalized[12][2][6] = {{{0}}};
    uint32_t n_directions = 0;
    for (uint32_t i = 0; i < m->u.step.n_directions; i++)
        if (m->u.step.directions[i].index >= n_directions) n_directions = m->u.step.directions[i].index + 1;
    for (uint32_t i = 0; i < m->u.step.n_directions; i++) {
        const wire_direction *d = &m->u.step.directions[i];
        const uint32_t b = d->body - (1u << 20) - 1;
        double *to = (double *)products + 3 * (b * n_directions + d->index);
        if (d->has_twist)
            memcpy(to, d->twist, 3 * sizeof *to);
        else
            memcpy(to, (const char *)d->values.data + 24 * (size_t)product_vertices[b], 3 * sizeof *to);
        memcpy(generalized[d->index][b], d->twist, sizeof d->twist);
    }
    if (n_directions) {
        r.u.step_result.directions = n_directions;
        r.u.step_result.product_vertices = (wire_array){WIRE_U32, 2, product_vertices};
        r.u.step_result.products = (wire_array){WIRE_F64, 6 * n_directions, products};
        r.u.step_result.generalized_products = (wire_array){WIRE_F64, 12 * n_directions, generalized};
        c.first_product[1] = c.count_product[0] = c.count_product[1] = 1;
    }
    const double inertia[3][3] = {{1, 4, 6}, {4, 2, 5}, {6, 5, 3}};
    memcpy(c.inertia, inertia, sizeof inertia);
    if (m->u.step.want & 32) r.u.step_result.groups = CT_CONTACT_INERTIA;
    if (m->u.step.want & 2) {
        r.u.step_result.vertices = (wire_array){WIRE_U32, 3, vertices};
        r.u.step_result.gradient = (wire_array){WIRE_F64, 9, gradient};
        r.u.step_result.weights = (wire_array){WIRE_F64, 3, weights};
    } else {
        memset(c.first, 0, sizeof c.first);
        memset(c.count, 0, sizeof c.count);
    }
    fake_reply(f, &r, m->request);
}

static inline bool fake_has_pose(const wire_message *m, double x) {
    for (uint32_t i = 0; i < m->u.step.n_updates; i++)
        if (m->u.step.updates[i].kind == WIRE_UPDATE_POSE && m->u.step.updates[i].pose[3] == x) return true;
    return false;
}

/* True: the server ends over this message, without an answer. */
static inline bool fake_ends_over(fake_server *f, const wire_message *m) {
    bool is_deadly = (int)m->type == atomic_load(&f->ends_over_all) || (int)m->type == atomic_load(&f->ends_over);
    if (m->type == WIRE_ADD_BODY && !atomic_load(&f->ends_over_all)) is_deadly &= m->u.add_body.group == 7;
    if (m->type == WIRE_STEP) is_deadly = fake_has_pose(m, FAKE_DEADLY);
    if (!is_deadly || atomic_load(&f->ends_left) == 0) return false;
    atomic_fetch_sub(&f->ends_left, 1);
    atomic_fetch_add(&f->ended, 1);
    if (atomic_load(&f->announces))
        fake_error(f, 0, CONTACTD_SHUTTING_DOWN, "server", "the server is shutting down");
    else
        atomic_store(&f->restart, true);
    return true;
}

static inline double fake_sum(const fake_scene *s) {
    double sum = 0;
    for (uint32_t b = 0; b < s->n_bodies; b++) {
        if (!s->bodies[b].live) continue;
        for (int c = 0; s->bodies[b].rigid && c < 12; c++) sum += s->bodies[b].pose[c] * (c + 1);
        for (uint64_t c = 0; !s->bodies[b].rigid && c < 3 * s->bodies[b].vertices; c++)
            sum += s->bodies[b].positions[c] * (double)(c + 1);
    }
    return sum;
}

static inline void fake_step(fake_server *f, const wire_message *m) {
    fake_scene *s = fake_find(f, m, m->u.step.scene);
    if (!s) return;
    uint64_t n = m->u.step.sequence;
    if (atomic_exchange(&f->configure, false)) {
        memcpy(s->settings.to.resolution, (uint32_t[3]){7, 8, 9}, sizeof s->settings.to.resolution);
        s->settings.given |= CT_GIVEN(CT_SETTING_RESOLUTION);
        s->settings.to.method = CT_METHOD_LDI;
        s->revision++;
    }
    if (atomic_exchange(&f->skip_number, false)) s->sequence += 5;
    if (m->u.step.received > s->received) s->received = m->u.step.received;
    if (n <= s->sequence && n + FAKE_KEPT > s->sequence && s->kept_sequence[n % FAKE_KEPT] == n && n > s->received) {
        atomic_fetch_add(&f->repeated, 1);
        fake_result(f, m, s, s->kept[n % FAKE_KEPT], true);
        return;
    }
    atomic_store(&f->awaited, (int)(n - m->u.step.received));
    if (n != s->sequence + 1) {
        fake_error(f, m->request, atomic_load(&f->busy) > 0 ? CONTACTD_BUSY : CONTACTD_CONFLICT, "scene", "sequence");
        return;
    }
    if (atomic_load(&f->busy) > 0) {
        atomic_fetch_sub(&f->busy, 1);
        fake_error(f, m->request, CONTACTD_BUSY, "queue", "full");
        return;
    }
    if (fake_has_pose(m, FAKE_LONG)) {
        s->sequence = n;
        fake_error(
            f, m->request, CONTACTD_TIME_LIMIT, "scene",
            "cancelled while finding patches of bodies 1048578 and 1048577, after 2 of body 1048577 and 1048578 of "
            "body 99");
        return;
    }
    for (uint32_t i = 0; i < m->u.step.n_updates; i++) {
        uint32_t b = m->u.step.updates[i].body - (1u << 20) - 1;
        if (b >= s->n_bodies || !s->bodies[b].live) {
            fake_error(f, m->request, CONTACTD_NOT_FOUND, "body", "no such body");
            return;
        }
        fake_apply(&s->bodies[b], &m->u.step.updates[i]);
    }
    atomic_fetch_add(&f->computed, 1);
    const double sum = fake_sum(s);
    s->sequence = n;
    s->kept[n % FAKE_KEPT] = sum;
    s->kept_sequence[n % FAKE_KEPT] = n;
    fake_result(f, m, s, sum, false);
}

/* One scene's step: its volume is the same sum, its error the number of steps computed. */
static inline bool fake_step_of_many(fake_server *f, const wire_message *m, uint32_t k, double *volume,
                                     wire_many_error *error) {
    const wire_step_many *in = &m->u.step_many;
    const uint64_t n = in->sequences[k];
    fake_scene *s = &f->scenes[in->scenes[k] - 100];
    *error =
        (wire_many_error){.index = k, .error = {CONTACTD_CONFLICT, "scene", "sequence", "expected another", 0, 0, ""}};
    if (atomic_exchange(&f->skip_number, false)) s->sequence += 5;
    if (n <= s->sequence && n + FAKE_KEPT > s->sequence && s->kept_sequence[n % FAKE_KEPT] == n) {
        atomic_fetch_add(&f->repeated, 1);
        *volume = s->kept[n % FAKE_KEPT];
        return true;
    }
    if (n != s->sequence + 1) return false;
    s->sequence = n;
    for (uint32_t i = 0; i < in->posed.n; i++) {
        wire_update u = {.kind = WIRE_UPDATE_POSE};
        memcpy(u.pose, (const char *)in->poses.data + 96 * ((size_t)k * in->posed.n + i), sizeof u.pose);
        if (u.pose[3] == FAKE_LONG) {
            error->error = (wire_error){CONTACTD_TIME_LIMIT, "body 1048577", "", "it took too long", 0, 0, ""};
            error->is_answer = true;
            return false;
        }
        fake_apply(&s->bodies[in->posed.bodies[(in->posed.by_scene ? k * in->posed.n : 0) + i] - (1u << 20) - 1], &u);
    }
    size_t first = 0;
    for (uint32_t i = 0; i < in->soft.n; i++) {
        const size_t bytes = 3 * wire_dtype_size(in->positions.dtype);
        const size_t each = (size_t)in->positions.count / 3 / in->n;
        const wire_update u = {.kind = WIRE_UPDATE_POSITIONS,
                               .positions = {in->positions.dtype, 3 * in->vertices[i],
                                             (const char *)in->positions.data + bytes * (k * each + first)}};
        fake_apply(&s->bodies[in->soft.bodies[(in->soft.by_scene ? k * in->soft.n : 0) + i] - (1u << 20) - 1], &u);
        first += (size_t)in->vertices[i];
    }
    atomic_fetch_add(&f->computed, 1);
    s->kept[n % FAKE_KEPT] = *volume = fake_sum(s);
    s->kept_sequence[n % FAKE_KEPT] = n;
    return true;
}

/* Of each scene a contact, of its bodies 1 and 2, with a volume, its number in `index`, inertia and two parts. */
static inline void fake_step_many(fake_server *f, const wire_message *m) {
    const wire_step_many *in = &m->u.step_many;
    enum { N = FAKE_SCENES };
    wire_many_error errors[N];
    uint32_t counts[N] = {0}, n_errors = 0, n = 0;
    uint8_t ended[N] = {0};
    static struct {
        double volume[N], gradient[2][N][6], inertia[N][6];
        uint64_t bodies[2][N / 2], unknown[N / 2];
    } data;
    assert(in->n <= N);
    if (atomic_load(&f->busy) > 0) {
        atomic_fetch_sub(&f->busy, 1);
        fake_error(f, m->request, CONTACTD_BUSY, "queue", "full");
        return;
    }
    for (uint32_t k = 0; k < in->n; k++) {
        if (!fake_step_of_many(f, m, k, &data.volume[n], &errors[n_errors])) {
            n_errors++;
            continue;
        }
        for (uint32_t side = 0; side < 2; side++) {
            const uint32_t body = (1u << 20) + 1 + side;
            memcpy((char *)data.bodies[side] + 4 * n, &body, sizeof body);
            for (int c = 0; c < 6; c++) data.gradient[side][n][c] = in->want & 1 ? 100 * side + 10 * k + c : 0;
        }
        for (int c = 0; c < 6; c++) data.inertia[n][c] = c + 1;
        counts[k] = 1;
        n++;
    }
    const char *base = (const char *)&data;
#define AT(member) (uint64_t)((const char *)(member)-base)
    const wire_column columns[] = {{0, WIRE_U32, 1, AT(data.bodies[0])},    {1, WIRE_U32, 1, AT(data.bodies[1])},
                                   {2, WIRE_F64, 1, AT(data.volume)},       {11, WIRE_F64, 6, AT(data.gradient[0])},
                                   {12, WIRE_F64, 6, AT(data.gradient[1])}, {21, WIRE_F64, 6, AT(data.inertia)},
                                   {60000, WIRE_U32, 1, AT(data.unknown)}};
#undef AT
    wire_message r = {.type = WIRE_MANY_RESULT,
                      .u.many_result = {.counts = counts,
                                        .n = in->n,
                                        .columns = columns,
                                        .n_columns = n ? sizeof columns / sizeof *columns : 0,
                                        .errors = errors,
                                        .n_errors = n_errors,
                                        .ended = ended}};
    if (n) r.u.many_result.data = (wire_array){WIRE_U8, sizeof data, &data};
    fake_reply(f, &r, m->request);
}

static inline struct fake_mesh *fake_mesh_of(fake_server *f, uint64_t id, const char *hash) {
    for (uint32_t i = 0; i < f->n_meshes; i++)
        if (f->meshes[i].live && (id ? id == i + 1 : strcmp(hash, f->meshes[i].hash) == 0)) return &f->meshes[i];
    return NULL;
}

static inline wire_mesh_info fake_mesh_info(fake_server *f, const struct fake_mesh *mesh) {
    return (wire_mesh_info){.mesh = (uint64_t)(mesh - f->meshes) + 1, .hash = mesh->hash, .vertices = mesh->vertices};
}

static inline void fake_register(fake_server *f, const wire_message *m, wire_message *r) {
    const wire_register_mesh *in = &m->u.register_mesh;
    char hash[33];
    uint64_t h = 1469598103934665603u, size = in->vertices.count * wire_dtype_size(in->vertices.dtype);
    const unsigned char *bytes = in->file.count ? in->file.data : in->vertices.data;
    for (uint64_t i = 0; i < (in->file.count ? in->file.count : size); i++) h = (h ^ bytes[i]) * 1099511628211u;
    snprintf(hash, sizeof hash, "%016llx%016llx", (unsigned long long)h, (unsigned long long)~h);
    struct fake_mesh *mesh = fake_mesh_of(f, 0, hash);
    if (!mesh) {
        mesh = &f->meshes[f->n_meshes++];
        mesh->live = true;
        mesh->vertices = in->file.count ? in->file.count : in->vertices.count / 3;
        memcpy(mesh->hash, hash, sizeof hash);
    }
    atomic_fetch_add(&f->registered, 1);
    r->type = WIRE_MESH_INFO;
    r->u.mesh_info = fake_mesh_info(f, mesh);
}

static inline void fake_add_body(fake_server *f, const wire_message *m, wire_message *r) {
    fake_scene *s = fake_find(f, m, m->u.add_body.scene);
    if (!s) return;
    struct fake_mesh *mesh = fake_mesh_of(f, m->u.add_body.mesh, "");
    if (!mesh) {
        fake_error(f, m->request, CONTACTD_STALE_HANDLE, "mesh", "no such mesh");
        return;
    }
    fake_body *b = &s->bodies[s->n_bodies++];
    *b = (fake_body){.live = true, .rigid = m->u.add_body.kind == WIRE_BODY_RIGID, .vertices = mesh->vertices};
    memcpy(b->pose, m->u.add_body.pose, sizeof b->pose);
    memcpy(b->start, m->u.add_body.start, sizeof b->start);
    b->positions = calloc((size_t)b->vertices * 3 + 1, sizeof *b->positions);
    for (uint64_t c = 0; c < 3 * b->vertices; c++) b->positions[c] = 0.5; /* as if at rest */
    atomic_fetch_add(&f->bodies_added, 1);
    r->type = WIRE_BODY_ADDED;
    f->self_added += m->u.add_body.self_contact;
    r->u.body_added =
        (wire_body_added){m->u.add_body.scene, (1u << 20) + s->n_bodies, m->u.add_body.self_contact && !f->is_old};
}

static inline void fake_reset(fake_body *b) {
    memcpy(b->pose, b->start, sizeof b->pose);
    for (uint64_t c = 0; c < 3 * b->vertices; c++) b->positions[c] = 0.5;
}

static inline void fake_add_bodies(fake_server *f, const wire_message *m, wire_message *r) {
    static uint32_t ids[FAKE_BODIES];
    const wire_add_bodies *in = &m->u.add_bodies;
    for (uint32_t i = 0; i < in->n; i++) {
        wire_message one = {.request = m->request,
                            .session = m->session,
                            .u.add_body = {.scene = in->scene,
                                           .mesh = in->meshes[in->n_meshes > 1 ? i : 0],
                                           .kind = WIRE_BODY_RIGID,
                                           .self_contact = in->self_contact}};
        memcpy(one.u.add_body.pose, in->poses + 12 * (size_t)i, sizeof one.u.add_body.pose);
        memcpy(one.u.add_body.start, one.u.add_body.pose, sizeof one.u.add_body.start);
        r->type = WIRE_NO_BODY;
        fake_add_body(f, &one, r);
        if (r->type != WIRE_BODY_ADDED) return;
        ids[i] = r->u.body_added.body;
    }
    r->type = WIRE_BODIES_ADDED;
    r->u.bodies_added = (wire_bodies_added){in->scene, ids, in->n};
}

static inline void fake_copy(fake_server *f, const wire_message *m, wire_message *r) {
    static uint64_t ids[FAKE_SCENES];
    const fake_scene *from = fake_find(f, m, m->u.copy_scene.scene);
    if (!from) return;
    for (uint32_t k = 0; k < m->u.copy_scene.n; k++) {
        fake_scene *s = &f->scenes[f->n_scenes++];
        *s = *from;
        s->sequence = s->received = 0;
        memset(s->kept_sequence, 0, sizeof s->kept_sequence);
        s->key = m->u.copy_scene.keys[k];
        for (uint32_t i = 0; i < s->n_bodies; i++) {
            fake_body *b = &s->bodies[i];
            memcpy(b->start, b->pose, sizeof b->start);
            b->positions = calloc((size_t)b->vertices * 3 + 1, sizeof *b->positions);
            fake_reset(b);
        }
        ids[k] = 99 + f->n_scenes;
    }
    r->type = WIRE_SCENES_OPENED;
    r->u.scenes_opened = (wire_scenes_opened){ids, m->u.copy_scene.n, from->settings, 1, CT_METHOD_EXACT};
}

static inline void fake_replace_mesh(fake_server *f, const wire_message *m, wire_message *r) {
    fake_scene *s = fake_find(f, m, m->u.replace_mesh.scene);
    if (!s) return;
    struct fake_mesh *mesh = fake_mesh_of(f, m->u.replace_mesh.mesh, "");
    if (!mesh) {
        fake_error(f, m->request, CONTACTD_STALE_HANDLE, "mesh", "no such mesh");
        return;
    }
    fake_body *b = &s->bodies[m->u.replace_mesh.body - (1u << 20) - 1];
    free(b->positions);
    b->vertices = mesh->vertices;
    b->positions = calloc((size_t)b->vertices * 3 + 1, sizeof *b->positions);
    for (uint64_t c = 0; c < 3 * b->vertices; c++) b->positions[c] = 0.5;
    r->type = WIRE_DONE;
}

static inline wire_set_material fake_material(fake_server *f) {
    pthread_mutex_lock(&f->material_lock);
    const wire_set_material material = f->material;
    pthread_mutex_unlock(&f->material_lock);
    return material;
}

static inline void fake_handle(fake_server *f, const wire_message *m) {
    wire_message r = {.type = WIRE_NO_BODY};
    fake_scene *s;
    if (m->type == WIRE_HELLO) {
        atomic_fetch_add(&f->hellos, 1);
        r.type = WIRE_WELCOME;
        r.u.welcome = (wire_welcome){.version = 1,
                                     .epoch = f->epoch,
                                     .session = ++f->next_session,
                                     .server = "fake",
                                     .backend = "fake",
                                     .max_message_bytes = 1u << 20,
                                     .max_in_flight = FAKE_MAX_IN_FLIGHT,
                                     .last_message = atomic_load(&f->is_old) ? 0 : WIRE_TYPE_END - 1,
                                     .methods = {"ldi"},
                                     .n_methods = 1};
        fake_reply(f, &r, m->request);
        return;
    }
    if (m->epoch != f->epoch || m->session <= f->first_session || m->session > f->next_session) {
        fake_error(f, m->request, CONTACTD_STATE_LOST, "session", "unknown");
        return;
    }
    if (fake_ends_over(f, m)) return;
    switch (m->type) {
    case WIRE_PING:
        r.type = WIRE_PONG;
        r.u.pong = m->u.ping;
        break;
    case WIRE_REGISTER_MESH:
        fake_register(f, m, &r);
        break;
    case WIRE_GET_MESH: {
        struct fake_mesh *mesh = fake_mesh_of(f, m->u.get_mesh.mesh, m->u.get_mesh.hash);
        if (!mesh) {
            fake_error(f, m->request, CONTACTD_NOT_FOUND, "mesh", "no such mesh");
            return;
        }
        r.type = m->u.get_mesh.with_geometry ? WIRE_MESH_GEOMETRY : WIRE_MESH_INFO;
        if (m->u.get_mesh.with_geometry) {
            static const char block[36] = {0, 0, 0, 0, 0, 0, 0, 0x40}; /* y of vertex 0 is 2 */
            r.u.mesh_geometry =
                (wire_mesh_geometry){fake_mesh_info(f, mesh), {WIRE_F32, 9, block}, {WIRE_U32, 3, block}};
        } else {
            r.u.mesh_info = fake_mesh_info(f, mesh);
        }
        break;
    }
    case WIRE_REMOVE_MESH: {
        struct fake_mesh *mesh = fake_mesh_of(f, m->u.remove_mesh.mesh, m->u.remove_mesh.hash);
        if (!mesh) {
            fake_error(f, m->request, CONTACTD_NOT_FOUND, "mesh", "no such mesh");
            return;
        }
        mesh->live = false;
        r.type = WIRE_DONE;
        break;
    }
    case WIRE_OPEN_SCENE:
        s = &f->scenes[f->n_scenes++];
        *s = (fake_scene){.live = true,
                          .session = m->session,
                          .settings = m->u.open_scene.settings,
                          .key = m->u.open_scene.key,
                          .revision = m->u.open_scene.revision ? m->u.open_scene.revision : 1};
        atomic_store(&f->last_key, s->key);
        if (!(s->settings.given & CT_GIVEN(CT_SETTING_METHOD)))
            s->settings.to.method =
                s->settings.given & CT_GIVEN(CT_SETTING_RESOLUTION) ? CT_METHOD_LDI : CT_METHOD_AUTO;
        s->settings.given |= CT_GIVEN(CT_SETTING_METHOD);
        atomic_fetch_add(&f->opened, 1);
        r.type = WIRE_SCENE_INFO;
        r.u.scene_info = (wire_scene_info){.scene = 99 + f->n_scenes,
                                           .settings = s->settings,
                                           .revision = atomic_load(&f->is_old) ? 0 : s->revision,
                                           .mine = true,
                                           .running_method = fake_running_method(&s->settings)};
        break;
    case WIRE_GET_SCENE:
    case WIRE_CONFIGURE:
        s = fake_find(f, m, m->u.configure.scene);
        if (!s) return;
        if (m->type == WIRE_CONFIGURE && m->u.configure.settings.given & CT_GIVEN(CT_SETTING_RESOLUTION)) {
            memcpy(s->settings.to.resolution, m->u.configure.settings.to.resolution, sizeof s->settings.to.resolution);
            s->settings.given |= CT_GIVEN(CT_SETTING_RESOLUTION);
            s->settings.to.method = CT_METHOD_LDI;
            s->revision++;
            atomic_fetch_add(&f->configured, 1);
        }
        r.type = WIRE_SCENE_INFO;
        r.u.scene_info = (wire_scene_info){.scene = m->u.configure.scene,
                                           .settings = s->settings,
                                           .revision = atomic_load(&f->is_old) ? 0 : s->revision,
                                           .mine = true,
                                           .bodies = s->n_bodies,
                                           .running_method = fake_running_method(&s->settings)};
        break;
    case WIRE_CLOSE_SCENE:
        s = fake_find(f, m, m->u.close_scene.scene);
        if (!s) return;
        s->live = false;
        r.type = WIRE_DONE;
        break;
    case WIRE_ADD_BODY:
        fake_add_body(f, m, &r);
        break;
    case WIRE_REMOVE_BODY:
        s = fake_find(f, m, m->u.remove_body.scene);
        if (!s) return;
        s->bodies[m->u.remove_body.body - (1u << 20) - 1].live = false;
        r.type = WIRE_DONE;
        break;
    case WIRE_REPLACE_MESH:
        fake_replace_mesh(f, m, &r);
        break;
    case WIRE_SET_MATERIAL:
        s = fake_find(f, m, m->u.set_material.scene);
        if (!s) return;
        pthread_mutex_lock(&f->material_lock);
        f->material = m->u.set_material;
        pthread_mutex_unlock(&f->material_lock);
        atomic_fetch_add(&f->materials, 1);
        r.type = WIRE_DONE;
        break;
    case WIRE_GET_SNAPSHOT: /* the picture is what was asked for */
        if (!fake_find(f, m, m->u.get_snapshot.scene)) return;
        r.type = WIRE_SNAPSHOT;
        r.u.snapshot =
            (wire_snapshot){m->u.get_snapshot.scene, 1, 1, {WIRE_U8, sizeof m->u.get_snapshot, &m->u.get_snapshot}};
        break;
    case WIRE_LIST_MESHES: {
        wire_mesh_info infos[FAKE_MESHES];
        uint32_t n = 0;
        for (uint32_t i = 0; i < f->n_meshes; i++)
            if (f->meshes[i].live) infos[n++] = fake_mesh_info(f, &f->meshes[i]);
        r.type = WIRE_MESH_LIST;
        r.u.mesh_list = (wire_mesh_list){infos, n};
        fake_reply(f, &r, m->request);
        return;
    }
    case WIRE_LIST_SCENES: {
        wire_scene_info infos[FAKE_SCENES];
        uint32_t n = 0;
        for (uint32_t i = 0; i < f->n_scenes; i++)
            if (f->scenes[i].live)
                infos[n++] = (wire_scene_info){.scene = 100 + i, .settings = f->scenes[i].settings, .mine = true};
        r.type = WIRE_SCENE_LIST;
        r.u.scene_list = (wire_scene_list){infos, n};
        fake_reply(f, &r, m->request);
        return;
    }
    case WIRE_GET_STATUS: {
        static const wire_device device = {.device = "fake", .lost_reason = ""};
        r.type = WIRE_STATUS;
        r.u.status =
            (wire_status){.server = "fake", .backend = "fake", .ready = true, .devices = &device, .n_devices = 1};
        break;
    }
    case WIRE_STEP:
        fake_step(f, m);
        return;
    case WIRE_RESET_SCENES:
        for (uint32_t k = 0; k < m->u.reset_scenes.n; k++) {
            if (!(s = fake_find(f, m, m->u.reset_scenes.scenes[k]))) return;
            for (uint32_t i = 0; i < s->n_bodies; i++) fake_reset(&s->bodies[i]);
        }
        atomic_fetch_add(&f->resets, 1);
        r.type = WIRE_DONE;
        break;
    case WIRE_CLOSE_SCENES:
        for (uint32_t k = 0; k < m->u.close_scenes.n; k++)
            if (m->u.close_scenes.scenes[k] - 100 < f->n_scenes)
                f->scenes[m->u.close_scenes.scenes[k] - 100].live = false;
        atomic_fetch_add(&f->closings, 1);
        r.type = WIRE_DONE;
        break;
    case WIRE_COPY_SCENE:
        fake_copy(f, m, &r);
        break;
    case WIRE_ADD_BODIES:
        fake_add_bodies(f, m, &r);
        break;
    case WIRE_STEP_MANY:
        for (uint32_t k = 0; k < m->u.step_many.n; k++)
            if (!fake_find(f, m, m->u.step_many.scenes[k])) return;
        fake_step_many(f, m);
        return;
    case WIRE_GET_REPORT: /* the report is what was asked for */
        r.type = WIRE_REPORT;
        r.u.report.json = (wire_array){WIRE_U8, sizeof m->u.get_report, &m->u.get_report};
        break;
    case WIRE_DRAIN:
        r.type = WIRE_DONE;
        break;
    default:
        fake_error(f, m->request, CONTACTD_UNSUPPORTED, "message", "not in the fake");
        return;
    }
    if (r.type != WIRE_NO_BODY) fake_reply(f, &r, m->request);
}

static inline void fake_bind(fake_server *f) {
    f->socket = zmq_socket(f->context, ZMQ_ROUTER);
    int zero = 0, slice = 5;
    zmq_setsockopt(f->socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(f->socket, ZMQ_RCVTIMEO, &slice, sizeof slice);
    size_t size = sizeof f->endpoint;
    /* Not a port that the system gives to whoever connects somewhere: it must be free again after a restart. */
    bool first = !*f->endpoint;
    for (int tries = 0;; tries++) {
        if (first)
            snprintf(f->endpoint, sizeof f->endpoint, "tcp://127.0.0.1:%d",
                     10000 + (getpid() * 37 + tries * 11) % 20000);
        if (zmq_bind(f->socket, f->endpoint) == 0) break;
        struct timespec t = {0, 10000000};
        nanosleep(&t, NULL);
        if (tries > 6000) abort();
    }
    zmq_getsockopt(f->socket, ZMQ_LAST_ENDPOINT, f->endpoint, &size);
}

static inline void fake_receive(fake_server *f) {
    zmq_msg_t frames[1 + WIRE_MAX_FRAMES];
    wire_frame raw[1 + WIRE_MAX_FRAMES];
    size_t n = 0;
    zmq_msg_init(&f->who);
    bool more = zmq_msg_recv(&f->who, f->socket, 0) >= 0 && zmq_msg_more(&f->who);
    while (more) {
        zmq_msg_init(&frames[n]);
        zmq_msg_recv(&frames[n], f->socket, 0);
        more = zmq_msg_more(&frames[n]);
        raw[n] = (wire_frame){zmq_msg_data(&frames[n]), zmq_msg_size(&frames[n])};
        n++;
    }
    wire_message m;
    wire_fault fault;
    if (n && !atomic_load(&f->silent)) {
        if (!wire_decode(raw, n, f->scratch, &m, &fault)) {
            fprintf(stderr, "fake server: %s: %s\n", fault.field, fault.message);
            abort();
        }
        if (atomic_load(&f->drop) > 0) {
            /* Done, but the answer goes astray: the connection breaks with it on its way. */
            atomic_fetch_sub(&f->drop, 1);
            void *keep = f->socket, *nowhere = zmq_socket(f->context, ZMQ_PUSH);
            f->socket = nowhere;
            int zero = 0;
            zmq_setsockopt(nowhere, ZMQ_LINGER, &zero, sizeof zero);
            zmq_setsockopt(nowhere, ZMQ_SNDTIMEO, &zero, sizeof zero);
            fake_handle(f, &m);
            zmq_close(nowhere);
            zmq_close(keep);
            fake_bind(f);
        } else {
            fake_handle(f, &m);
        }
    }
    for (size_t i = 0; i < n; i++) zmq_msg_close(&frames[i]);
    zmq_msg_close(&f->who);
}

static inline void *fake_run(void *arg) {
    fake_server *f = arg;
    while (!atomic_load(&f->quit)) {
        if (atomic_exchange(&f->restart, false)) {
            zmq_close(f->socket);
            struct timespec t = {0, (long)atomic_load(&f->away_ms) * 1000000};
            nanosleep(&t, NULL);
            fake_forget_scenes(f);
            fake_forget_meshes(f);
            f->next_session = f->first_session = 0;
            f->epoch++;
            fake_bind(f);
        }
        if (atomic_exchange(&f->forget_session, false)) fake_forget_scenes(f);
        if (atomic_exchange(&f->forget_meshes, false)) fake_forget_meshes(f);
        fake_receive(f);
    }
    return NULL;
}

static inline fake_server *fake_start(void) {
    fake_server *f = calloc(1, sizeof *f);
    if (!f) abort();
    f->context = zmq_ctx_new();
    f->encoder = wire_encoder_new();
    f->scratch = wire_scratch_new();
    f->epoch = 7;
    fake_bind(f);
    pthread_mutex_init(&f->material_lock, NULL);
    if (pthread_create(&f->thread, NULL, fake_run, f)) abort();
    return f;
}

static inline void fake_stop(fake_server *f) {
    atomic_store(&f->quit, true);
    pthread_join(f->thread, NULL);
    fake_forget_scenes(f);
    zmq_close(f->socket);
    zmq_ctx_term(f->context);
    wire_encoder_free(&f->encoder);
    wire_scratch_free(&f->scratch);
    free(f);
}

#endif
