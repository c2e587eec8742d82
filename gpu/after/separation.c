/* separation.c - lists the pairs of bodies within the margin: pairs whose boxes are that close, searched by all threads
 * of the device, a block of pairs at a time, and gathered in their order. */
#include "gpu/after/separation.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/after/pair_distance.h"
#include "gpu/after/spread.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"

/* Of a margin: what rounding may have added to it. */
static const double ROUNDED = 1e-9;

enum {
    BLOCK_PAIRS = 1 << 14, /* searched before their answers are gathered */
    TASK_PAIRS = 16,       /* searched by a thread before it takes others */
    TASKS_OF_THREAD = 8,   /* at least, where there are pairs enough */
};

/* The row of the pair in rows of `size` bytes that begin with both bodies' handles, in rising order. NULL: it has none.
 * A pair with several rows gets one of them. */
static const void *find_row(const void *rows, size_t n, size_t size, const ct_scene *scene, const ct_pair *pair) {
    const uint64_t key = ct_pair_key(scene->bodies[pair->a]->id, scene->bodies[pair->b]->id);
    size_t lo = 0, hi = n;
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        const uint32_t *body = (const uint32_t *)((const char *)rows + middle * size);
        const uint64_t found = ct_pair_key(body[0], body[1]);
        if (found == key) return body;
        if (found < key)
            lo = middle + 1;
        else
            hi = middle;
    }
    return NULL;
}

static_assert(offsetof(ct_contact, body) == 0 && offsetof(ct_pair_progress, body) == 0, "rows begin with their bodies");

/* Whether the method found that the pair has no contact. Of a pair that it did not come to, nothing is known: its
 * bodies may overlap. */
static bool is_without_contact(const ct_result *result, const ct_scene *scene, const ct_pair *pair) {
    if (find_row(result->contacts, result->n_contacts, sizeof *result->contacts, scene, pair)) return false;
    const ct_pair_progress *progress =
        find_row(result->progress, (size_t)result->n_progress, sizeof *result->progress, scene, pair);
    return !progress || progress->is_examined;
}

/* ---- a block of pairs ---- */

enum { SKIPPED, TO_SEARCH, FAR, NEAR };

struct block {
    ct_surfaces *surfaces;
    ct_pair_distance *searches; /* of each thread */
    const ct_pair *pairs;
    uint8_t *state; /* of each pair */
    ct_separation *found;
    uint32_t n, in_task;
    double margin;
    ct_working working;
    bool has_failed; /* written by any thread, read when all are done */
};

/* Fetches the surfaces of the pairs without a contact: threads only read them. */
static ct_status prepare(struct block *b, const ct_result *result, ct_error *error) {
    const ct_scene *scene = b->surfaces->scene;
    for (uint32_t i = 0; i < b->n; i++) {
        const ct_pair *pair = &b->pairs[i];
        const uint32_t index[2] = {pair->a, pair->b};
        const bool is_plane[2] = {scene->bodies[pair->a]->is_half_space, scene->bodies[pair->b]->is_half_space};
        if (CT_POLL_EVERY(i, 256) && ct_is_cancelled_at("separations", result->n_separations))
            return ct_fail_cancelled(error);
        b->state[i] = SKIPPED;
        if ((is_plane[0] && is_plane[1]) || !is_without_contact(result, scene, pair)) continue;
        b->state[i] = TO_SEARCH;
        for (int k = 0; k < 2; k++) {
            ct_surface *surface;
            if (is_plane[k] || b->surfaces->of[index[k]].clusters) continue;
            const ct_status status = ct_surfaces_tree(b->surfaces, index[k], "margin", &surface, error);
            if (status) return status;
        }
    }
    return CT_OK;
}

static bool search_pair(struct block *b, ct_pair_distance *search, uint32_t i) {
    const ct_pair *pair = &b->pairs[i];
    const ct_surface *of_a = &b->surfaces->of[pair->a], *of_b = &b->surfaces->of[pair->b];
    const ct_body *body_a = b->surfaces->scene->bodies[pair->a], *body_b = b->surfaces->scene->bodies[pair->b];
    ct_separation *out = &b->found[i];
    bool is_near, ok;
    out->body[0] = body_a->id;
    out->body[1] = body_b->id;
    if (body_a->is_half_space)
        ok = ct_pair_distance_above(search, of_b, body_a, 0, b->margin, out, &is_near);
    else if (body_b->is_half_space)
        ok = ct_pair_distance_above(search, of_a, body_b, 1, b->margin, out, &is_near);
    else
        ok = ct_pair_distance_find(search, of_a, of_b, b->margin, out, &is_near);
    b->state[i] = ok && is_near ? NEAR : FAR;
    return ok;
}

static void search_pairs(void *context, uint32_t task, uint32_t worker) {
    struct block *b = context;
    const uint32_t first = task * b->in_task, end = b->n - first < b->in_task ? b->n : first + b->in_task;
    const ct_working before = ct_work_for(b->working.cancel, 0, 0);
    ct_enter_phase("finding separations");
    for (uint32_t i = first; i < end && !__atomic_load_n(&b->has_failed, __ATOMIC_RELAXED); i++) {
        if (b->state[i] != TO_SEARCH) continue;
        ct_thread_working.body[0] = b->surfaces->scene->bodies[b->pairs[i].a]->id;
        ct_thread_working.body[1] = b->surfaces->scene->bodies[b->pairs[i].b]->id;
        if (!search_pair(b, &b->searches[worker], i)) __atomic_store_n(&b->has_failed, true, __ATOMIC_RELAXED);
    }
    ct_work_back(before);
}

static ct_status search_block(struct block *b, ct_result *result, uint32_t n_threads, ct_error *error) {
    ct_status status = prepare(b, result, error);
    if (status) return status;
    b->in_task = b->n / (TASKS_OF_THREAD * n_threads);
    b->in_task = b->in_task < 1 ? 1 : b->in_task < TASK_PAIRS ? b->in_task : TASK_PAIRS;
    b->has_failed = false;
    for (uint32_t t = 0; t < n_threads; t++) b->searches[t].found = result->n_separations;
    const uint32_t n_tasks = (b->n + b->in_task - 1) / b->in_task;
    ct_spread(b->surfaces->scene, n_tasks, search_pairs, b);
    if (b->has_failed) status = ct_fail(error, CT_OUT_OF_MEMORY, "margin", "no memory for the boxes of two bodies");
    return status;
}

/* ---- all pairs ---- */

static ct_status fail_many(size_t n, ct_error *error) {
    return ct_fail(error, CT_LIMIT_EXCEEDED, "margin",
                   "at least %zu pairs of bodies without a contact are within the margin, but a step lists at most %u: "
                   "use a smaller margin",
                   n, CT_MAX_SEPARATIONS);
}

static ct_status gather(const struct block *b, ct_result *result, size_t *capacity, ct_error *error) {
    size_t n = result->n_separations;
    for (uint32_t i = 0; i < b->n; i++) n += b->state[i] == NEAR;
    if (n > CT_MAX_SEPARATIONS) return fail_many(n, error);
    if (n > *capacity) {
        *capacity = n + n / 2 + 16;
        ct_separation *more = realloc(result->separations, *capacity * sizeof *more);
        if (!more) return ct_fail(error, CT_OUT_OF_MEMORY, "margin", "no memory for %zu separations", *capacity);
        result->separations = more;
    }
    for (uint32_t i = 0; i < b->n; i++)
        if (b->state[i] == NEAR) result->separations[result->n_separations++] = b->found[i];
    return CT_OK;
}

/* Whether all points of two boxes are within the margin of each other. */
static bool are_surely_near(const ct_box *a, const ct_box *b, double margin) {
    double squared = 0;
    for (int i = 0; i < 3; i++) {
        const double most = fmax(a->hi[i] - b->lo[i], b->hi[i] - a->lo[i]);
        squared += most * most;
    }
    return squared < margin * margin * (1 - ROUNDED);
}

/* Refuses at once what would be refused after a long search. */
static ct_status check_count(const ct_scene *scene, const ct_broadphase *broad, const ct_result *result,
                             ct_error *error) {
    size_t n = 0;
    for (size_t i = 0; i < broad->n_pairs && broad->n_pairs > CT_MAX_SEPARATIONS; i++) {
        const ct_pair *pair = &broad->pairs[i];
        if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled_at("pairs of bodies", i)) return ct_fail_cancelled(error);
        if (are_surely_near(&scene->bodies[pair->a]->box, &scene->bodies[pair->b]->box, scene->settings.margin))
            n += is_without_contact(result, scene, pair);
    }
    return n > CT_MAX_SEPARATIONS ? fail_many(n, error) : CT_OK;
}

static ct_status search_blocks(struct block *b, const ct_broadphase *broad, uint32_t n_threads, ct_result *result,
                               ct_error *error) {
    size_t capacity = 0;
    ct_status status = CT_OK;
    for (size_t first = 0; first < broad->n_pairs && !status; first += b->n) {
        b->pairs = broad->pairs + first;
        b->n = broad->n_pairs - first < BLOCK_PAIRS ? (uint32_t)(broad->n_pairs - first) : BLOCK_PAIRS;
        status = search_block(b, result, n_threads, error);
        if (!status) status = gather(b, result, &capacity, error);
    }
    return status;
}

static ct_status add_pairs(ct_scene *scene, const ct_broadphase *broad, ct_result *result, uint64_t *compared,
                           ct_error *error) {
    const uint32_t n_threads = ct_spread_threads(scene);
    const size_t n = broad->n_pairs < BLOCK_PAIRS ? broad->n_pairs : BLOCK_PAIRS;
    ct_surfaces surfaces;
    struct block block = {.surfaces = &surfaces, .margin = scene->settings.margin, .working = ct_thread_working};
    bool ok = ct_surfaces_open(&surfaces, scene);
    block.state = malloc(n + 1);
    block.found = malloc((n + 1) * sizeof *block.found);
    block.searches = calloc(n_threads, sizeof *block.searches);
    ok = ok && block.state && block.found && block.searches;
    for (uint32_t t = 0; ok && t < n_threads; t++) ok = ct_pair_distance_open(&block.searches[t]);
    ct_status status = ok ? check_count(scene, broad, result, error)
                          : ct_fail(error, CT_OUT_OF_MEMORY, "margin", "no memory for %u surfaces", scene->n_bodies);
    if (!status) status = search_blocks(&block, broad, n_threads, result, error);
    for (uint32_t t = 0; block.searches && t < n_threads; t++) {
        *compared += block.searches[t].closest.compared;
        ct_pair_distance_free(&block.searches[t]);
    }
    free(block.searches);
    free(block.found);
    free(block.state);
    ct_surfaces_close(&surfaces);
    return status;
}

/* Pairs of bodies whose boxes are within the margin. */
static ct_status find_near(ct_scene *scene, const ct_result *result, ct_broadphase *broad, ct_error *error) {
    ct_broad_body *bodies = malloc((scene->n_bodies + 1) * sizeof *bodies);
    if (!bodies) return ct_fail(error, CT_OUT_OF_MEMORY, "margin", "no memory for pairs of %u bodies", scene->n_bodies);
    for (uint32_t i = 0; i < scene->n_bodies; i++) {
        const ct_body *body = scene->bodies[i];
        bodies[i] = (ct_broad_body){.box = body->box, .group = body->group, .mask = body->mask};
        /* Both by half of the margin, and a little more: boxes that touch do not overlap. */
        for (int k = 0; k < 3; k++) {
            const double more = 0.5 * scene->settings.margin * (1 + ROUNDED) + 1e-12 * fabs(body->box.lo[k]);
            bodies[i].box.lo[k] -= more;
            bodies[i].box.hi[k] += more + 1e-12 * fabs(body->box.hi[k]);
        }
    }
    ct_scene_refresh(scene);
    broad->most_pairs = CT_MAX_NEAR_PAIRS + result->n_contacts;
    ct_status status = ct_broadphase_run(broad, bodies, scene->n_bodies, scene->ignored, scene->n_ignored, NULL);
    free(bodies);
    if (status == CT_LIMIT_EXCEEDED)
        return ct_fail(error, status, "margin",
                       "more than %u pairs of bodies without a contact have boxes within the margin, which a step "
                       "looks at: use a smaller margin",
                       CT_MAX_NEAR_PAIRS);
    if (status) return ct_fail(error, CT_OUT_OF_MEMORY, "margin", "no memory for pairs of %u bodies", scene->n_bodies);
    return CT_OK;
}

ct_status ct_result_add_separations(ct_scene *scene, ct_result *result, uint64_t *compared, ct_error *error) {
    ct_broadphase broad = {0};
    uint64_t all_compared = 0;
    ct_enter_phase("finding separations");
    ct_status status = find_near(scene, result, &broad, error);
    if (!status) status = add_pairs(scene, &broad, result, &all_compared, error);
    if (compared) *compared = all_compared;
    ct_broadphase_free(&broad);
    return status;
}
