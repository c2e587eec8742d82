/* mirror.c - the updates of a step: checked, copied until they are answered, and then kept as the state of the bodies.
 */
#include "client_c/mirror.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/records.h"

contactd_update contactd_move(contactd_body body, const double pose[12]) {
    contactd_update update = {.body = body, .kind = CONTACTD_POSE};
    if (pose)
        memcpy(update.pose, pose, sizeof update.pose);
    else
        update.pose[0] = NAN; /* the step is refused and names the pose */
    return update;
}

contactd_update contactd_deform(contactd_body body, const float *positions, size_t n_vertices) {
    return (contactd_update){.body = body, .kind = CONTACTD_POSITIONS, .positions = positions, .count = n_vertices};
}

/* ---- checking ---- */

typedef unsigned long long ull;

static contactd_code check_ranges(contactd_client *client, const contactd_update *u, const ctc_body *body,
                                  const char *object) {
    uint64_t total = 0;
    if (u->n_indices % 2)
        return ctc_fail(client, CONTACTD_WRONG_LENGTH, object, "indices",
                        "indices has %llu numbers, expected (first, count) pairs", (ull)u->n_indices);
    for (uint64_t i = 0; i < u->n_indices; i += 2) {
        uint64_t end = (uint64_t)u->indices[i] + u->indices[i + 1];
        if (end > body->vertices)
            return ctc_fail(client, CONTACTD_OUT_OF_RANGE, object, "indices",
                            "range %llu ends at vertex %llu, but the body has %llu", (ull)(i / 2), (ull)end,
                            (ull)body->vertices);
        total += u->indices[i + 1];
    }
    if (total != u->count)
        return ctc_fail(client, CONTACTD_WRONG_LENGTH, object, "positions",
                        "%llu positions are given, but the ranges hold %llu vertices", (ull)u->count, (ull)total);
    return CONTACTD_OK;
}

static contactd_code check_indexed(contactd_client *client, const contactd_update *u, const ctc_body *body,
                                   const char *object) {
    if (u->n_indices != u->count)
        return ctc_fail(client, CONTACTD_WRONG_LENGTH, object, "indices",
                        "indices has %llu numbers, expected one for each of %llu positions", (ull)u->n_indices,
                        (ull)u->count);
    for (uint64_t i = 0; i < u->n_indices; i++)
        if (u->indices[i] >= body->vertices)
            return ctc_fail(client, CONTACTD_OUT_OF_RANGE, object, "indices",
                            "index %llu is vertex %u, but the body has %llu", (ull)i, u->indices[i],
                            (ull)body->vertices);
    return CONTACTD_OK;
}

/* What could never succeed is refused here, so that it takes no sequence number and leaves the mirror alone. */
static contactd_code check(contactd_client *client, ctc_scene *scene, const contactd_update *u) {
    const ctc_body *body = ctc_find_body(client, scene, u->body);
    if (!body) return client->error.code;
    if (u->kind == CONTACTD_POSE && body->rigid) return CONTACTD_OK;
    if (u->kind == CONTACTD_POSITIONS && !body->rigid && u->positions && u->count == body->vertices)
        return CONTACTD_OK; /* these are most steps', and need no name for an error */
    char object[CTC_OBJECT];
    snprintf(object, sizeof object, "body %u", u->body);
    if (u->kind < CONTACTD_POSITIONS || u->kind > CONTACTD_POSE)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, object, "kind", "kind %d is none of contactd_update_kind",
                        (int)u->kind);
    if (body->rigid != (u->kind == CONTACTD_POSE))
        return ctc_fail(client, CONTACTD_CONFLICT, object, u->kind == CONTACTD_POSE ? "pose" : "positions",
                        body->rigid ? "body %u is rigid: it takes a pose, not positions"
                                    : "body %u is deformable: it takes positions, not a pose",
                        u->body);
    if (u->count > UINT32_MAX || u->n_indices > UINT32_MAX)
        return ctc_fail(client, CONTACTD_OUT_OF_RANGE, object, u->count > UINT32_MAX ? "count" : "n_indices",
                        "%llu positions and %llu indices are given, expected at most %u of each", (ull)u->count,
                        (ull)u->n_indices, UINT32_MAX);
    bool indexed = u->kind != CONTACTD_POSITIONS;
    if ((u->count && !u->positions) || (indexed && u->n_indices && !u->indices))
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, object, u->positions ? "indices" : "positions", "%s is NULL",
                        u->positions ? "indices" : "positions");
    if (!indexed && u->count != body->vertices)
        return ctc_fail(client, CONTACTD_WRONG_LENGTH, object, "positions",
                        "%llu positions are given, but the body has %llu vertices", (ull)u->count, (ull)body->vertices);
    if (u->kind == CONTACTD_RANGES) return check_ranges(client, u, body, object);
    return indexed ? check_indexed(client, u, body, object) : CONTACTD_OK;
}

/* ---- copying ---- */

enum { LARGE = 1024 }; /* bytes from which an array is worth a message of its own, which sending then shares */

static size_t aligned_size(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}
static size_t position_bytes(const contactd_update *u) {
    return u->kind == CONTACTD_POSE ? 0 : (size_t)u->count * (u->float64 ? 24 : 12);
}
static size_t index_bytes(const contactd_update *u) {
    return u->kind == CONTACTD_RANGES || u->kind == CONTACTD_INDEXED ? (size_t)u->n_indices * 4 : 0;
}

static bool copy_array(ctc_step *step, const void **array, size_t bytes, size_t *used) {
    if (bytes >= LARGE) {
        zmq_msg_t *to = &step->large[step->n_large];
        if (zmq_msg_init_size(to, bytes)) return false;
        step->n_large++;
        memcpy(zmq_msg_data(to), *array, bytes);
        *array = zmq_msg_data(to);
    } else if (bytes) {
        memcpy(step->storage + *used, *array, bytes);
        *array = step->storage + *used;
        *used += aligned_size(bytes);
    }
    return true;
}

/* A mirror of floats becomes one of doubles as soon as a double is given, and stays one. */
static bool widen_mirror(ctc_body *body) {
    const size_t n = 3 * (size_t)body->vertices;
    const float *from = body->positions;
    double *to = malloc((n ? n : 1) * sizeof *to);
    if (!to) return false;
    for (size_t i = 0; i < n; i++) to[i] = (double)from[i];
    free(body->positions);
    body->positions = to;
    body->float64 = true;
    return true;
}

static bool make_mirror(ctc_body *body, bool float64) {
    if (body->rigid) return true;
    if (body->positions) return body->float64 || !float64 || widen_mirror(body);
    size_t n = body->vertices ? (size_t)body->vertices : 1;
    body->float64 = float64;
    body->positions = calloc(n, float64 ? 24 : 12);
    body->known = calloc(n, 1);
    if (body->positions && body->known) return true;
    free(body->positions);
    free(body->known);
    body->positions = NULL;
    body->known = NULL;
    return false;
}

contactd_code ctc_check_update(contactd_client *client, ctc_scene *scene, const contactd_update *update) {
    const contactd_code code = check(client, scene, update);
    if (code != CONTACTD_OK) return code;
    return make_mirror(scene->bodies[update->body - 1], update->float64) ? code : ctc_no_memory(client, "step");
}

/* Where the server would refuse a direction, it is refused here. */
static contactd_code check_direction(contactd_client *client, ctc_scene *scene, const contactd_direction *d,
                                     const char *field) {
    const ctc_body *body = ctc_find_body(client, scene, d->body);
    char object[CTC_OBJECT];
    if (!body) return client->error.code;
    snprintf(object, sizeof object, "body %u", d->body);
    if (d->index >= CONTACTD_MAX_DIRECTIONS)
        return ctc_fail(client, CONTACTD_OUT_OF_RANGE, object, "directions",
                        "a part of direction %u is given, but a step has at most %d directions", d->index,
                        CONTACTD_MAX_DIRECTIONS);
    if (body->rigid != (d->values == NULL))
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, object, field,
                        body->rigid ? "body %u is rigid: it takes a twist, and values must be NULL"
                                    : "body %u is deformable: it takes values, which are NULL",
                        d->body);
    return CONTACTD_OK;
}

static contactd_code check_directions(contactd_client *client, ctc_scene *scene, const contactd_step_options *options) {
    const size_t n = options->n_directions, most = (size_t)scene->n_bodies * CONTACTD_MAX_DIRECTIONS;
    if (n && !options->directions)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "step", "directions", "directions is NULL");
    if (n > most)
        return ctc_fail(client, CONTACTD_OUT_OF_RANGE, "step", "n_directions",
                        "%zu parts of directions are given, but the scene's bodies have at most %zu", n, most);
    for (size_t i = 0; i < n; i++) {
        contactd_code code = check_direction(client, scene, &options->directions[i], "directions");
        if (code != CONTACTD_OK) return code;
    }
    return CONTACTD_OK;
}

static contactd_direction motion_of(const contactd_velocity *velocity) {
    contactd_direction motion = {.body = velocity->body, .values = velocity->values};
    memcpy(motion.twist, velocity->twist, sizeof motion.twist);
    return motion;
}

static contactd_code check_velocities(contactd_client *client, ctc_scene *scene, const contactd_step_options *options) {
    const size_t n = options->n_velocities;
    if (n && !options->velocities)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "step", "velocities", "velocities is NULL");
    if (n > scene->n_bodies)
        return ctc_fail(client, CONTACTD_OUT_OF_RANGE, "step", "n_velocities",
                        "%zu velocities are given, but the scene has had %u bodies, each of which takes one", n,
                        scene->n_bodies);
    for (size_t i = 0; i < n; i++) {
        const contactd_direction motion = motion_of(&options->velocities[i]);
        contactd_code code = check_direction(client, scene, &motion, "velocities");
        if (code != CONTACTD_OK) return code;
    }
    return CONTACTD_OK;
}

static size_t value_bytes(const ctc_scene *scene, const contactd_direction *d) {
    return d->values ? (size_t)scene->bodies[d->body - 1]->vertices * 24 : 0;
}

/* Adds what an array takes, in storage or in a message of its own. */
static void count_array(size_t bytes, size_t *small, size_t *large) {
    if (bytes >= LARGE)
        ++*large;
    else
        *small += aligned_size(bytes);
}

contactd_code ctc_take_updates(contactd_client *client, ctc_scene *scene, ctc_step *step,
                               const contactd_update *updates, size_t n, const contactd_step_options *options) {
    const size_t n_directions = options->n_directions;
    size_t small = 0, large = 0;
    if (n && !updates) return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "step", "updates", "updates is NULL");
    if (n > scene->n_bodies)
        return ctc_fail(client, CONTACTD_OUT_OF_RANGE, "step", "n_updates",
                        "%zu updates are given, but the scene has had %u bodies, each of which takes one", n,
                        scene->n_bodies);
    for (size_t i = 0; i < n; i++) {
        contactd_code code = check(client, scene, &updates[i]);
        if (code != CONTACTD_OK) return code;
        count_array(position_bytes(&updates[i]), &small, &large);
        count_array(index_bytes(&updates[i]), &small, &large);
    }
    const size_t n_motions = n_directions + options->n_velocities;
    contactd_code code = check_directions(client, scene, options);
    if (code == CONTACTD_OK) code = check_velocities(client, scene, options);
    if (code != CONTACTD_OK) return code;
    if (n_motions && !ctc_grow(&step->directions, n_motions - 1, &step->cap_directions, sizeof *step->directions))
        return ctc_no_memory(client, "step");
    for (size_t i = 0; i < n_motions; i++) {
        step->directions[i] =
            i < n_directions ? options->directions[i] : motion_of(&options->velocities[i - n_directions]);
        count_array(value_bytes(scene, &step->directions[i]), &small, &large);
    }
    /* None of the large messages may move once it holds something. */
    if ((n && !ctc_grow(&step->updates, n - 1, &step->cap_updates, sizeof *step->updates)) ||
        (small && !ctc_grow(&step->storage, small - 1, &step->cap_storage, 1)) ||
        (large && !ctc_grow(&step->large, large - 1, &step->cap_large, sizeof *step->large)))
        return ctc_no_memory(client, "step");
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        contactd_update *u = &step->updates[i];
        *u = updates[i];
        const void *indices = u->indices;
        if (!make_mirror(scene->bodies[u->body - 1], u->float64) ||
            !copy_array(step, &u->positions, position_bytes(u), &used) ||
            !copy_array(step, &indices, index_bytes(u), &used))
            return ctc_no_memory(client, "step");
        u->indices = indices;
    }
    for (size_t i = 0; i < n_motions; i++) {
        contactd_direction *d = &step->directions[i];
        const void *values = d->values;
        if (!copy_array(step, &values, value_bytes(scene, d), &used)) return ctc_no_memory(client, "step");
        d->values = values;
    }
    step->n_updates = n;
    step->n_directions = n_directions;
    step->n_velocities = options->n_velocities;
    step->viscosity = options->viscosity;
    return CONTACTD_OK;
}

/* ---- keeping ---- */

static void keep_vertices(ctc_body *body, const contactd_update *u, uint64_t from, uint64_t first, uint64_t n) {
    const size_t size = body->float64 ? 24 : 12; /* a mirror of floats is given floats alone */
    if (body->float64 && !u->float64) {
        const float *p = (const float *)u->positions + 3 * from;
        double *to = (double *)body->positions + 3 * first;
        for (uint64_t i = 0; i < 3 * n; i++) to[i] = (double)p[i];
    } else {
        memcpy((char *)body->positions + size * first, (const char *)u->positions + size * from, size * n);
    }
    if (body->n_known == body->vertices) return;
    for (uint64_t v = first; v < first + n; v++) {
        body->n_known += !body->known[v];
        body->known[v] = 1;
    }
}

void ctc_keep_update(ctc_scene *scene, const contactd_update *u) {
    ctc_body *body = scene->bodies[u->body - 1];
    uint64_t from = 0;
    switch (u->kind) {
    case CONTACTD_POSE:
        memcpy(body->pose, u->pose, sizeof body->pose);
        break;
    case CONTACTD_POSITIONS:
        keep_vertices(body, u, 0, 0, u->count);
        break;
    case CONTACTD_RANGES:
        for (uint64_t k = 0; k < u->n_indices; k += 2) {
            keep_vertices(body, u, from, u->indices[k], u->indices[k + 1]);
            from += u->indices[k + 1];
        }
        break;
    case CONTACTD_INDEXED:
        for (uint64_t k = 0; k < u->n_indices; k++) keep_vertices(body, u, k, u->indices[k], 1);
        break;
    }
}

void ctc_mirror_step(ctc_scene *scene, const ctc_step *step) {
    const wire_step_result *answer = &step->answer.u.step_result;
    if (answer->revision) ctc_adopt_settings(scene, &answer->settings, answer->revision);
    for (size_t i = 0; i < step->n_updates; i++) ctc_keep_update(scene, &step->updates[i]);
}
