/* reply_step.c - the answers of steps, for handle.c. Those that take long to encode are encoded where they were
 * computed, so that the I/O thread has nothing to do but send them and small steps of others are not held up. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/stream/internal.h"

/* An answer with so many is encoded on the thread that computed it: about 150 us of work. Gradients and forces are sent
 * without a copy. */
enum { MANY_CONTACTS = 512, MANY_SPANS = 1 << 16, MANY_WARNINGS = 4096 };

unsigned reply_groups_of(const ct_result *result) {
    return (result->want & CT_WANT_INERTIA ? CT_CONTACT_INERTIA : 0u) |
           (result->want & CT_WANT_FRAME ? CT_CONTACT_FRAME : 0u) | (result->has_slip ? CT_CONTACT_SLIP : 0u) |
           (result->has_wrenches ? CT_CONTACT_LAW : 0u) | (result->want & CT_WANT_IDS ? CT_CONTACT_IDS : 0u);
}

static void copy_products(const ct_result *result, wire_step_result *out) {
    const uint64_t n = result->n_products, k = result->n_directions;
    out->directions = result->n_directions;
    out->product_vertices = (wire_array){WIRE_U32, n, result->product_vertices};
    out->products = (wire_array){WIRE_F64, 3 * n * k, result->products};
    out->generalized_products = (wire_array){WIRE_F64, 12 * result->n_contacts * k, result->generalized_product};
}

/* ---- rows as the wire has them ---- */

static void copy_points(const ct_result *result, double *points, uint64_t *ids, uint32_t *groups) {
    for (size_t i = 0; i < result->n_points; i++) {
        const ct_point *from = &result->points[i];
        double *to = points + WIRE_POINT * i;
        memcpy(to, from->position, sizeof from->position);
        memcpy(to + 3, from->normal, sizeof from->normal);
        to[6] = from->depth;
        to[7] = from->weight;
        ids[i] = from->id;
        memcpy(groups + 2 * i, from->group, sizeof from->group);
    }
}

static void copy_separations(const ct_result *result, double *to) {
    for (size_t i = 0; i < result->n_separations; i++, to += WIRE_SEPARATION) {
        const ct_separation *from = &result->separations[i];
        for (int b = 0; b < 2; b++) to[b] = from->body[b];
        to[2] = from->distance;
        memcpy(to + 3, from->normal, sizeof from->normal);
        memcpy(to + 6, from->point, sizeof from->point);
    }
}

static void copy_progress(const ct_result *result, uint32_t *to) {
    for (size_t i = 0; i < result->n_progress; i++) {
        const ct_pair_progress *from = &result->progress[i];
        const uint32_t row[WIRE_PROGRESS] = {from->body[0],  from->body[1],  from->is_examined + from->is_refined,
                                             from->level[0], from->level[1], from->ended};
        memcpy(to + WIRE_PROGRESS * i, row, sizeof row);
    }
}

/* The wire has end points and axes apart. */
static void copy_spans(const ct_result *result, float *ends, uint8_t *axes) {
    for (size_t i = 0; i < result->n_spans; i++) {
        memcpy(ends + 6 * i, result->spans[i].lower, 3 * sizeof(float));
        memcpy(ends + 6 * i + 3, result->spans[i].upper, 3 * sizeof(float));
        axes[i] = (uint8_t)result->spans[i].axis;
    }
}

/* Points and their groups, separations, progress and spans. *block, which the caller frees, holds them. */
static bool copy_rows(const ct_result *result, wire_step_result *out, void **block) {
    const size_t n = result->n_points, s = result->n_separations, q = result->n_progress, r = result->n_spans;
    if (n + s + q + r == 0) return true;
    double *points = malloc((WIRE_POINT * n + WIRE_SEPARATION * s) * sizeof(double) + n * sizeof(uint64_t) +
                            (2 * n + WIRE_PROGRESS * q) * sizeof(uint32_t) + r * (6 * sizeof(float) + 1));
    if (!points) return false;
    double *separations = points + WIRE_POINT * n;
    uint64_t *ids = (uint64_t *)(separations + WIRE_SEPARATION * s);
    uint32_t *groups = (uint32_t *)(ids + n), *progress = groups + 2 * n;
    float *ends = (float *)(progress + WIRE_PROGRESS * q);
    uint8_t *axes = (uint8_t *)(ends + 6 * r);
    copy_points(result, points, ids, groups);
    copy_separations(result, separations);
    copy_progress(result, progress);
    copy_spans(result, ends, axes);
    if (n) out->points = (wire_array){WIRE_F64, WIRE_POINT * n, points};
    if (n) out->point_groups = (wire_array){WIRE_U32, 2 * n, groups};
    if (n && result->want & CT_WANT_IDS) out->point_ids = (wire_array){WIRE_U64, n, ids};
    if (s) out->separations = (wire_array){WIRE_F64, WIRE_SEPARATION * s, separations};
    if (q) out->progress = (wire_array){WIRE_U32, WIRE_PROGRESS * q, progress};
    if (r) out->spans = (wire_array){WIRE_F32, 6 * r, ends};
    if (r) out->span_axes = (wire_array){WIRE_U8, r, axes};
    *block = points;
    return true;
}

static void copy_warnings(wire_warning *to, const ct_result *result) {
    for (size_t i = 0; i < result->n_warnings; i++) {
        to[i] = (wire_warning){.code = (contactd_warning_code)result->warnings[i].code,
                               .body = result->warnings[i].body,
                               .value = result->warnings[i].value};
    }
}

/* Polygons and their vertices are rows of doubles, as the wire has them. */
static void copy_surface(const ct_result *result, wire_step_result *out) {
    static_assert(sizeof(ct_surface_polygon) == WIRE_POLYGON * sizeof(double) &&
                      sizeof(ct_surface_vertex) == WIRE_POLYGON_VERTEX * sizeof(double),
                  "rows of the wire");
    out->surface_polygons = (wire_array){WIRE_F64, WIRE_POLYGON * result->n_polygons, result->polygons};
    out->surface_offsets = (wire_array){WIRE_U32, result->n_polygons + 1, result->polygon_first};
    out->surface_vertices =
        (wire_array){WIRE_F64, WIRE_POLYGON_VERTEX * result->n_polygon_vertices, result->polygon_vertices};
}

/* *block is allocated here, and the caller frees it. */
static bool encode_step(request *request, wire_encoder *encoder, void **block, wire_encoded *encoded) {
    const step_answer *answer = request->command.out.step.answer;
    wire_message filled, *message = &filled;
    const ct_result *result = step_answer_result(answer);
    uint64_t n = result->n_entries;
    *message = (wire_message){.u.step_result = {
                                  .scene = request->message.u.step.scene,
                                  .sequence = request->message.u.step.sequence,
                                  .contacts = result->contacts,
                                  .n_contacts = (uint32_t)result->n_contacts,
                                  .cells = result->cells,
                                  .n_cells = (uint32_t)result->n_cells,
                                  .groups = reply_groups_of(result),
                                  .method = result->method,
                                  .backend = request->stream->engine.backend,
                                  .pairs = result->pairs,
                                  .rays = result->rays,
                                  .fragments = result->fragments,
                                  .ended = (wire_ended)result->ended,
                                  .passes = result->passes,
                                  .quality = result->quality,
                                  .cached = request->command.out.step.cached,
                              }};
    wire_step_result *out = &message->u.step_result;
    out->settings = reply_settings(step_answer_settings(answer, &out->revision));
    if (result->vertices && (result->gradient || result->weights || result->forces)) {
        out->vertices = (wire_array){WIRE_U32, n, result->vertices};
    }
    if (result->gradient) out->gradient = (wire_array){WIRE_F64, 3 * n, result->gradient};
    if (result->weights) out->weights = (wire_array){WIRE_F64, n, result->weights};
    if (result->forces) out->forces = (wire_array){WIRE_F64, 3 * n, result->forces};
    if (result->friction_forces) out->friction_forces = (wire_array){WIRE_F64, 3 * n, result->friction_forces};
    if (result->n_directions) copy_products(result, out);
    if (result->polygons) copy_surface(result, out);
    if (result->ended_ids) out->ended_ids = (wire_array){WIRE_U64, result->n_ended_ids, result->ended_ids};
    out->has_wall = true;
    out->timings_us[0] = out->wall_us[0] = step_answer_queue_seconds(answer) * 1e6;
    for (int p = 0; p < CT_PHASES; p++) {
        out->timings_us[1 + p] = result->seconds[p] * 1e6;
        out->wall_us[1 + p] = result->wall_seconds[p] * 1e6;
    }

    if (!copy_rows(result, out, block)) return false;
    wire_warning *warnings = NULL;
    if (result->n_warnings) {
        warnings = malloc(result->n_warnings * sizeof *warnings);
        if (!warnings) return false;
        copy_warnings(warnings, result);
    }
    out->warnings = warnings;
    out->n_warnings = (uint32_t)result->n_warnings;
    bool ok = encode_with(encoder, request, WIRE_STEP_RESULT, message, encoded);
    free(warnings);
    return ok;
}

static bool is_slow_to_encode(const ct_result *result) {
    return result->n_contacts + result->n_cells >= MANY_CONTACTS || result->n_spans >= MANY_SPANS ||
           result->n_warnings >= MANY_WARNINGS;
}

void reply_encode_step(request *request) {
    const command *command = &request->command;
    const step_answer *answer = command->superseded ? NULL : command->out.step.answer;
    const ct_result *result = answer ? step_answer_result(answer) : NULL;
    if (!result || !is_slow_to_encode(result)) return;
    request->is_overfull = peer_is_overfull(request->peer, step_answer_bytes(answer));
    if (request->is_overfull) return;
    frame_owner *owner = frame_owner_new(request, 0);
    if (!owner) return;
    owner->answer = step_answer_retain(command->out.step.answer);
    owner->encoder = wire_encoder_new();
    if (owner->encoder && encode_step(request, owner->encoder, &owner->block, &request->encoded)) {
        frame_owner_charge(owner, &request->encoded);
        request->encoded_owner = owner;
    } else {
        frame_owner_release(owner); /* the I/O thread tries again, and answers with an error if it fails too */
    }
}

void reply_step(stream *stream, request *request) {
    if (request->is_overfull) {
        peers_cut_full(stream->peers, request->peer);
        metrics_add(stream->service->metrics, METRICS_REPLIES_SLOW, 1);
        return;
    }
    if (request->encoded_owner) {
        send_encoded(stream, request, &request->encoded, request->encoded_owner);
        request->encoded_owner = NULL;
        return;
    }
    void *spans = NULL;
    wire_encoded encoded;
    if (!encode_step(request, stream->encoder, &spans, &encoded)) {
        free(spans);
        reply_no_memory(stream, request);
        return;
    }
    frame_owner *owner = frame_owner_new(request, encoded.frames[0].size);
    if (!owner) {
        free(spans);
        reply_no_memory(stream, request);
        return;
    }
    if (encoded.n_frames > 1) owner->answer = step_answer_retain(request->command.out.step.answer);
    owner->block = spans;
    send_encoded(stream, request, &encoded, owner);
}

void reply_drop_encoded(request *request) {
    frame_owner_release(request->encoded_owner);
    request->encoded_owner = NULL;
}
