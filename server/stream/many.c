/* many.c - steps of many scenes at once. Each is a command of its own, so that the scheduler does with it what it does
 * with every step; together they are one group, and the last that ends makes the answer, where it was computed. */
#include "server/stream/many.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/contact_columns.h"

struct many_steps {
    request *request;
    command_group group;
    atomic_uint waiting; /* steps not done, and one while they are submitted */
    uint32_t n;
    ct_update *updates;        /* [n][posed + soft] */
    ct_velocity *velocities;   /* [n][moving] */
    const ct_result **results; /* [n] of the steps that are done; NULL: it has none */
    uint32_t *counts;          /* [n] of contacts; in the memory of results, as is */
    uint8_t *ended;            /* [n] */
    server_error error;        /* of all of it; code OK: none */
    bool is_superseded;        /* a repeat of the message is answered instead */
    frame_owner *owner;        /* of `encoded`; NULL: no memory, or an error */
    wire_encoded encoded;
    command steps[]; /* [n] */
};

void many_free(many_steps **many) {
    many_steps *gone = *many;
    *many = NULL;
    if (!gone) return;
    free(gone->updates);
    free(gone->velocities);
    free(gone->results);
    free(gone);
}

/* ---- the steps ---- */

static int compare_ids(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Scenes opened one after the other have rising ids, so most lists need no copy. */
bool many_check_ids(const uint64_t *scenes, uint32_t n, server_error *error) {
    uint32_t i = 1;
    while (i < n && scenes[i - 1] < scenes[i]) i++;
    if (i >= n) return true;
    uint64_t *ids = malloc(n * sizeof *ids), twice = 0;
    if (!ids)
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "message", "scenes", "no memory for %" PRIu32 " ids", n);
    memcpy(ids, scenes, n * sizeof *ids);
    qsort(ids, n, sizeof *ids, compare_ids);
    for (i = 1; i < n && !twice; i++) twice = ids[i - 1] == ids[i] ? ids[i] : 0;
    free(ids);
    if (!twice) return true;
    return server_fail(error, CONTACTD_INVALID_ARGUMENT, "message", "scenes",
                       "scene %" PRIu64 " is listed twice: a message does one thing with a scene", twice);
}

static bool check(const wire_step_many *in, server_error *error) {
    const uint32_t known = CT_WANT_FRAME | CT_WANT_INERTIA | CT_WANT_IDS;
    if (in->want & ~known) {
        return server_fail(error, CONTACTD_UNSUPPORTED, "message", "want",
                           "want asks for 0x%" PRIx32 ", of which answers of many scenes have 0x%" PRIx32
                           ": step a scene for the rest",
                           in->want, known);
    }
    return many_check_ids(in->scenes, in->n, error);
}

static uint32_t body_of(const wire_bodies *bodies, uint32_t scene, uint32_t i) {
    return bodies->bodies[(bodies->by_scene ? (size_t)scene * bodies->n : 0) + i];
}

/* Positions stay in the message; poses are copied, as they may lie at any address. */
static void fill_updates(const wire_step_many *in, uint32_t scene, ct_update *to) {
    const unsigned char *pose = (const unsigned char *)in->poses.data + 96 * (size_t)in->posed.n * scene;
    for (uint32_t i = 0; i < in->posed.n; i++, to++, pose += 96) {
        *to = (ct_update){.body = body_of(&in->posed, scene, i), .kind = CT_UPDATE_POSE};
        memcpy(to->pose, pose, sizeof to->pose);
    }
    if (!in->soft.n) return;
    const size_t each = 3 * wire_dtype_size(in->positions.dtype);
    const unsigned char *positions =
        (const unsigned char *)in->positions.data + each * (in->positions.count / 3 / in->n) * scene;
    for (uint32_t i = 0; i < in->soft.n; i++, to++) {
        *to = (ct_update){.body = body_of(&in->soft, scene, i),
                          .kind = CT_UPDATE_POSITIONS,
                          .positions = positions,
                          .dtype = in->positions.dtype == WIRE_F64 ? CT_F64 : CT_F32,
                          .count = in->vertices[i]};
        positions += each * in->vertices[i];
    }
}

static void fill_velocities(const wire_step_many *in, uint32_t scene, ct_velocity *to) {
    const unsigned char *twist = (const unsigned char *)in->twists.data + 48 * (size_t)in->moving.n * scene;
    for (uint32_t i = 0; i < in->moving.n; i++, to++, twist += 48) {
        *to = (ct_velocity){.body = body_of(&in->moving, scene, i)};
        memcpy(to->twist, twist, sizeof to->twist);
    }
}

static void step_done(command *command);

static void fill_step(many_steps *many, const wire_step_many *in, uint32_t i) {
    const request *request = many->request;
    const size_t n_updates = in->posed.n + in->soft.n, n_velocities = in->moving.n;
    command *command = &many->steps[i];
    command_clear(command);
    command->kind = COMMAND_STEP;
    command->session = request->message.session;
    command->who = request->who;
    command->scene = in->scenes[i];
    command->received_ns = request->received_ns;
    if (in->deadline_us) command->deadline_ns = request->received_ns + in->deadline_us * UINT64_C(1000);
    command->in.step.sequence = in->sequences[i];
    command->in.step.want = in->want;
    command->in.step.updates = n_updates ? many->updates + i * n_updates : NULL;
    command->in.step.n_updates = n_updates;
    command->in.step.velocities = n_velocities ? many->velocities + i * n_velocities : NULL;
    command->in.step.n_velocities = n_velocities;
    command->group = &many->group;
    command->left = &many->request->left;
    command->done = step_done;
    command->context = many;
    if (n_updates) fill_updates(in, i, many->updates + i * n_updates);
    if (n_velocities) fill_velocities(in, i, many->velocities + i * n_velocities);
}

static many_steps *new_many(request *request, const wire_step_many *in, server_error *error) {
    const size_t n = in->n, n_updates = n * (in->posed.n + in->soft.n), n_velocities = n * in->moving.n;
    const size_t bytes = sizeof(many_steps) + n * sizeof(command);
    const size_t result_bytes = n * (sizeof(ct_result *) + sizeof(uint32_t) + 1);
    many_steps *many = malloc(bytes);
    ct_update *updates = n_updates ? malloc(n_updates * sizeof *updates) : NULL;
    ct_velocity *velocities = n_velocities ? malloc(n_velocities * sizeof *velocities) : NULL;
    const ct_result **results = n ? malloc(result_bytes) : NULL;
    if (!many || (n_updates && !updates) || (n_velocities && !velocities) || (n && !results)) {
        free(many);
        free(updates);
        free(velocities);
        free(results);
        server_fail(error, CONTACTD_OUT_OF_MEMORY, "message", "scenes", "no memory for steps of %" PRIu32 " scenes",
                    in->n);
        return NULL;
    }
    uint32_t *counts = (uint32_t *)(results + n);
    *many = (many_steps){.request = request,
                         .n = in->n,
                         .updates = updates,
                         .velocities = velocities,
                         .results = results,
                         .counts = counts,
                         .ended = (uint8_t *)(counts + n)};
    stream_charge_request(request,
                          bytes + n_updates * sizeof *updates + n_velocities * sizeof *velocities + result_bytes);
    for (uint32_t i = 0; i < in->n; i++) fill_step(many, in, i);
    return many;
}

/* ---- the answer ---- */

static void finish(many_steps *many);

static void step_done(command *command) {
    many_steps *many = command->context;
    if (atomic_fetch_sub_explicit(&many->waiting, 1, memory_order_acq_rel) == 1) finish(many);
}

static const ct_result *result_of(const command *step) {
    const step_answer *answer = step->superseded ? NULL : step->out.step.answer;
    return answer ? step_answer_result(answer) : NULL;
}

/* What is refused so for a while is sent again as a whole. */
static bool comes_again(const command *step) {
    return !step->out.step.answer && !step->superseded && server_error_may_retry(&step->error);
}

static wire_dtype dtype_of(ct_contact_type type) {
    return type == CT_CONTACT_IS_F64    ? WIRE_F64
           : type == CT_CONTACT_IS_FLAG ? WIRE_U8
           : type == CT_CONTACT_IS_U64  ? WIRE_U64
                                        : WIRE_U32;
}

/* The columns that the steps' results have; returns the bytes of data. */
static uint64_t lay_out(unsigned groups, uint64_t contacts, wire_column *columns, uint32_t *n) {
    uint64_t bytes = 0;
    *n = 0;
    for (size_t c = 0; c < CT_CONTACT_COLUMNS; c++) {
        const ct_contact_column *row = &ct_contact_columns[c];
        if (row->group && !(groups & row->group)) continue;
        const wire_dtype dtype = dtype_of(row->type);
        columns[(*n)++] = (wire_column){row->field, dtype, row->width, bytes};
        bytes += (contacts * row->width * wire_dtype_size(dtype) + 7) / 8 * 8;
    }
    return bytes;
}

static void copy_symmetric(const double m[3][3], void *to) {
    const double parts[6] = {m[0][0], m[1][1], m[2][2], m[0][1], m[1][2], m[2][0]};
    memcpy(to, parts, sizeof parts);
}

/* Where the next number of a column goes. */
typedef struct column_end {
    const ct_contact_column *row;
    size_t bytes; /* of a contact */
    unsigned char *at;
} column_end;

static void add_contact(const ct_contact *contact, column_end *ends, uint32_t n) {
    for (uint32_t c = 0; c < n; c++) {
        const unsigned char *from = (const unsigned char *)contact + ends[c].row->offset;
        unsigned char *to = ends[c].at;
        if (ends[c].row->is_symmetric)
            copy_symmetric((const void *)from, to);
        else if (ends[c].bytes % 8) /* most columns have few whole words, for which a call would take longer */
            memcpy(to, from, ends[c].bytes);
        else
            for (size_t i = 0; i < ends[c].bytes; i += 8) memcpy(to + i, from + i, 8);
        ends[c].at += ends[c].bytes;
    }
}

/* Contact by contact, as all of them are far larger than the processor's caches. What fills a column up to a multiple of
 * 8 bytes is sent, too. */
static void fill_columns(const many_steps *many, const wire_column *columns, uint32_t n, uint64_t bytes,
                         unsigned char *data) {
    column_end ends[CT_CONTACT_COLUMNS];
    for (uint32_t c = 0, r = 0; c < n; c++, r++) {
        while (ct_contact_columns[r].field != columns[c].field) r++;
        const ct_contact_column *row = &ct_contact_columns[r];
        ends[c] = (column_end){row, row->width * wire_dtype_size(columns[c].dtype), data + columns[c].offset};
        memset(data + (c + 1 < n ? columns[c + 1].offset : bytes) - 8, 0, 8);
    }
    for (uint32_t i = 0; i < many->n; i++)
        for (uint32_t k = 0; k < many->counts[i]; k++) add_contact(&many->results[i]->contacts[k], ends, n);
}

static void fail_superseded(server_error *error) {
    server_clear(error);
    server_fail(error, CONTACTD_CONFLICT, "step", "sequence",
                "a later message asked for this step again, and has its answer");
}

static uint32_t list_errors(many_steps *many, wire_many_error *errors) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < many->n; i++) {
        command *step = &many->steps[i];
        if (many->results[i]) continue;
        if (step->superseded) fail_superseded(&step->error);
        const server_error *e = &step->error;
        const bool is_answer = step->out.step.answer != NULL;
        errors[n++] = (wire_many_error){
            .index = i,
            .is_answer = is_answer,
            .error = {.code = e->code,
                      .object = e->object,
                      .field = e->field,
                      .message = e->message,
                      .retry = !is_answer && server_error_may_retry(e),
                      .retry_after_ms = e->retry_after_ms},
        };
    }
    return n;
}

typedef struct shape {
    uint64_t contacts;
    unsigned groups;
    uint32_t n_failed, n_superseded;
    const command *again; /* a step that makes all be sent again */
} shape;

/* At the steps, once for all. */
static shape look(many_steps *many) {
    shape shape = {0};
    for (uint32_t i = 0; i < many->n; i++) {
        const command *step = &many->steps[i];
        const ct_result *result = many->results[i] = result_of(step);
        many->counts[i] = result ? (uint32_t)result->n_contacts : 0;
        many->ended[i] = result ? (uint8_t)result->ended : 0;
        if (result) {
            shape.contacts += result->n_contacts;
            if (result->n_contacts) shape.groups |= CT_CONTACT_BOUNDS | CT_CONTACT_INTERVAL | reply_groups_of(result);
            continue;
        }
        shape.n_failed++;
        shape.n_superseded += step->superseded;
        if (comes_again(step)) shape.again = step;
    }
    return shape;
}

/* *block, which the owner frees, has the data, then errors, which the encoder copies. */
static bool encode(many_steps *many, const shape *shape, wire_encoder *encoder, void **block) {
    const request *request = many->request;
    wire_column columns[CT_CONTACT_COLUMNS];
    wire_message message = {.u.many_result = {.n = many->n, .columns = columns, .n_columns = 0}};
    wire_many_result *out = &message.u.many_result;
    const uint64_t bytes = shape->contacts ? lay_out(shape->groups, shape->contacts, columns, &out->n_columns) : 0;
    const uint64_t most = request->stream->service->config->max_message;
    if (bytes > most) {
        server_fail(
            &many->error, CONTACTD_TOO_LARGE, "answer", "data",
            "the answer has %" PRIu64 " contacts in %" PRIu64 " bytes, and a message has at most %" PRIu64
            " (--max-message). The steps were computed, and repeats of them, fewer scenes in a message, have their "
            "answers",
            shape->contacts, bytes, most);
        return false;
    }
    unsigned char *data = malloc(bytes + shape->n_failed * sizeof(wire_many_error) + 1);
    if (!data) return false;
    *block = data;
    wire_many_error *errors = (wire_many_error *)(void *)(data + bytes);
    fill_columns(many, columns, out->n_columns, bytes, data);
    out->counts = many->counts;
    out->ended = many->ended;
    out->errors = errors;
    out->n_errors = list_errors(many, errors);
    if (bytes) out->data = (wire_array){WIRE_U8, bytes, data};
    return encode_with(encoder, request, WIRE_MANY_RESULT, &message, &many->encoded);
}

/* On the thread that computed the last step. */
static void finish(many_steps *many) {
    request *request = many->request;
    const shape shape = look(many);
    many->is_superseded = many->n && shape.n_superseded == many->n;
    if (shape.again) {
        many->error = shape.again->error;
    } else if (!many->is_superseded) {
        frame_owner *owner = frame_owner_new(request, 0);
        if (owner) owner->encoder = wire_encoder_new();
        if (owner && owner->encoder && encode(many, &shape, owner->encoder, &owner->block)) {
            many->owner = owner;
        } else {
            frame_owner_release(owner); /* many_reply tells why */
        }
    }
    for (uint32_t i = 0; i < many->n; i++) step_answer_release(&many->steps[i].out.step.answer);
    stream_finish(request);
}

void many_reply(stream *stream, request *request) {
    many_steps *many = request->many;
    if (many->is_superseded) return;
    if (many->owner) {
        send_encoded(stream, request, &many->encoded, many->owner);
        many->owner = NULL;
    } else if (many->error.code != CONTACTD_OK) {
        reply_error(stream, request, request->message.request, &many->error, server_error_may_retry(&many->error));
    } else {
        reply_no_memory(stream, request);
    }
}

bool many_submit(request *request, server_error *error) {
    const wire_step_many *in = &request->message.u.step_many;
    stream *stream = request->stream;
    if (!check(in, error)) return false;
    many_steps *many = new_many(request, in, error);
    if (!many) return false;
    request->many = many;
    const uint64_t room = peer_answer_room(request->peer);
    many->group.answer_room = room ? room : 1;
    atomic_init(&many->waiting, in->n + 1);
    stream->n_outstanding++;
    stream_note_begin(request);
    if (in->n && !scheduler_submit_group(stream->service->scheduler, &many->group, many->steps, in->n, error)) {
        stream->n_outstanding--;
        if (error->code == CONTACTD_BUSY) peer_note_refusal(request->peer);
        return false;
    }
    request->expected_bytes = many->group.expected_bytes; /* this thread answers it, and takes the count back */
    peer_expect(request->peer, request->expected_bytes);
    step_done(&(command){.context = many}); /* it may be finished from now on */
    return true;
}
