/* finish_cpu.c - turns the sums of the method `exact` into a contact: volume, bound, entries, frame. */
#include <math.h>
#include <string.h>

#include "gpu/contact/result.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/exact/pair_cpu.h"

enum { NEEDS_ENTRIES = CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES | CT_WANT_INERTIA };

/* Vertices between two polls: some 50 us, where they lie scattered. */
enum { VERTEX_POLL = 4096 };

/* ---- chunks of vertices ---- */

/* Groups of 4,096 vertices that one task looks at. */
enum { CHUNK_GROUPS = 2 };

/* An entry of the gradient along one axis. */
struct candidate {
    int body;
    uint32_t vertex;
    int64_t size;
    double at[3];
    bool is_placed;
};

struct ct_entry_chunk {
    int body;
    uint32_t first_group, end_group;
    uint32_t *touched, n_touched; /* vertices whose gradient was added to, rising */
    uint64_t first, count;        /* entries */
    ct_int128 force[3];
    struct candidate best[3];
};

/* A pair that one thread computes has one chunk for each body: most chunks of a large mesh would be empty. */
static uint32_t count_chunks(const ct_exact_pair *exact, int b) {
    if (!exact->is_spread) return 1;
    return (uint32_t)(ct_touched_groups(exact->pair->body[b]->mesh->n_vertices) + CHUNK_GROUPS - 1) / CHUNK_GROUPS;
}

static uint32_t count_all_chunks(const ct_exact_pair *exact) {
    return count_chunks(exact, 0) + count_chunks(exact, 1);
}

static struct ct_entry_chunk chunk_at(const ct_exact_pair *exact, uint32_t i) {
    const uint32_t of_first = count_chunks(exact, 0);
    const int b = i >= of_first;
    if (exact->pieces) return (struct ct_entry_chunk){b, exact->groups[b].first, exact->groups[b].end};
    const uint32_t groups = (uint32_t)ct_touched_groups(exact->pair->body[b]->mesh->n_vertices);
    const uint32_t first = (b ? i - of_first : i) * CHUNK_GROUPS, end = first + CHUNK_GROUPS;
    return (struct ct_entry_chunk){
        .body = b, .first_group = first, .end_group = exact->is_spread && end < groups ? end : groups};
}

/* A bit for each of 64 bytes that are 0 or 1. */
static uint64_t gather_bits(const uint8_t *bytes) {
    uint64_t bits = 0;
    for (int i = 0; i < 64; i += 8) {
        uint64_t eight;
        memcpy(&eight, bytes + i, sizeof eight);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        eight = __builtin_bswap64(eight);
#endif
        bits |= eight * 0x0102040810204080 >> 56 << i; /* byte k's bit goes to bit 56 + k of the product */
    }
    return bits;
}

/* Replaces the marks of a chunk's vertices by bits. */
static void gather_marks(const ct_exact_pair *exact, const struct ct_entry_chunk *chunk) {
    const ct_exact_gradient *g = &exact->part[chunk->body].gradient;
    const uint32_t n_words = (uint32_t)ct_touched_words(exact->pair->body[chunk->body]->mesh->n_vertices);
    const uint32_t first = chunk->first_group * 64,
                   end = chunk->end_group * 64 < n_words ? chunk->end_group * 64 : n_words;
    if (!g->marks) return;
    for (uint32_t word = first; word < end; word++) {
        g->touched[word] |= gather_bits(g->marks + (size_t)word * 64);
        if (g->touched[word]) g->groups[word / 64] |= 1ull << word % 64;
    }
    memset(g->marks + (size_t)first * 64, 0, (size_t)(end - first) * 64);
}

/* Clears the bits of a chunk's vertices, and their gradient unless writing entries did. */
static void clear_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    const struct ct_entry_chunk chunk = chunk_at(exact, i);
    const ct_exact_gradient *g = &exact->part[chunk.body].gradient;
    gather_marks(exact, &chunk);
    for (uint32_t group = chunk.first_group; group < chunk.end_group; group++) {
        if (ct_exact_should_end(exact)) return;
        for (uint64_t words = g->groups[group]; words; words &= words - 1) {
            const uint32_t word = group * 64 + (uint32_t)__builtin_ctzll(words);
            for (uint64_t left = exact->is_gradient_clear ? 0 : g->touched[word]; left; left &= left - 1)
                memset(g->of[word * 64 + (uint32_t)__builtin_ctzll(left)], 0, sizeof *g->of);
            g->touched[word] = 0;
        }
    }
    memset(g->groups + chunk.first_group, 0, (chunk.end_group - chunk.first_group) * sizeof(uint64_t));
}

static void gather_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    if (ct_exact_should_end(exact)) return;
    const struct ct_entry_chunk chunk = chunk_at(exact, i);
    gather_marks(exact, &chunk);
}

/* Counts a chunk's touched vertices. */
static void count_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    if (ct_exact_should_end(exact)) return;
    struct ct_entry_chunk chunk = chunk_at(exact, i);
    const ct_exact_gradient *g = &exact->part[chunk.body].gradient;
    gather_marks(exact, &chunk);
    for (uint32_t group = chunk.first_group; group < chunk.end_group; group++)
        for (uint64_t words = g->groups[group]; words; words &= words - 1)
            chunk.n_touched +=
                (uint32_t)__builtin_popcountll(g->touched[group * 64 + (uint32_t)__builtin_ctzll(words)]);
    exact->chunks[i] = chunk;
}

/* Vertices that list_touched writes at a time, whether there are as many or not: how many a word has is hard to guess
 * for a branch. */
enum { LISTED_AT_ONCE = 8 };

/* Lists a word's bits, of which there are some. Returns the end of the list; writes up to LISTED_AT_ONCE - 1 behind it.
 */
static uint32_t *list_bits(uint64_t left, uint32_t first, uint32_t *to) {
    uint32_t *const end = to + __builtin_popcountll(left);
    for (; to < end; to += LISTED_AT_ONCE)
        for (int i = 0; i < LISTED_AT_ONCE; i++, left &= left - 1)
            to[i] = first + (uint32_t)__builtin_ctzll(left | 1ull << 63);
    return end;
}

/* False: cancelled. */
static bool list_touched(ct_exact_pair *exact, struct ct_entry_chunk *chunk) {
    const ct_exact_gradient *gradient = &exact->part[chunk->body].gradient;
    uint32_t *to = chunk->touched;
    for (uint32_t group = chunk->first_group; group < chunk->end_group; group++) {
        if (CT_POLL_EVERY(group, 16) && ct_exact_should_end(exact)) return false;
        for (uint64_t words = gradient->groups[group]; words; words &= words - 1) {
            const uint32_t word = group * 64 + (uint32_t)__builtin_ctzll(words);
            to = list_bits(gradient->touched[word], word * 64, to);
        }
    }
    return true;
}

/* ---- Newton's third law ---- */

static void place_candidate(const ct_exact_pair *exact, struct candidate *c) {
    if (c->is_placed) return;
    const ct_exact_body *body = &exact->part[c->body].body;
    ct_exact_place_vertex(body, c->vertex, c->at);
    c->is_placed = true;
}

/* By size, then by coordinates, so that the choice does not depend on the order of bodies or vertices. */
static bool is_better(const ct_exact_pair *exact, struct candidate *a, struct candidate *b) {
    if (a->size != b->size) return a->size > b->size;
    if (!a->size) return false;
    place_candidate(exact, a);
    place_candidate(exact, b);
    for (int k = 0; k < 3; k++)
        if (a->at[k] != b->at[k]) return a->at[k] < b->at[k];
    return false;
}

/* Vertices: they lie scattered, and since they were added to, other data may have taken their places in the caches. */
enum { AHEAD = 24 };

/* An entry that is at least as large as the best one, and not 0. */
static void offer_candidate(const ct_exact_pair *exact, struct ct_entry_chunk *chunk, int axis, uint32_t vertex,
                            int64_t size) {
    struct candidate one = {.body = chunk->body, .vertex = vertex, .size = size};
    if (is_better(exact, &one, &chunk->best[axis])) chunk->best[axis] = one;
}

static inline int64_t size_of(int64_t x) {
    return x < 0 ? -x : x;
}

/* Lists a chunk's touched vertices, adds up their gradient, counts entries and finds the largest. */
static void measure_chunk(void *argument, uint32_t i_chunk, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    struct ct_entry_chunk *chunk = &exact->chunks[i_chunk];
    int64_t(*const of)[3] = exact->part[chunk->body].gradient.of;
    const uint32_t *const list = chunk->touched, n = chunk->n_touched;
    uint64_t force[3] = {0, 0, 0}, count = 0; /* a sum of sizes is below 2^63: see ct_fixed_point_exponent */
    int64_t least[3] = {1, 1, 1};             /* that may be the best */
    if (!list_touched(exact, chunk)) return;
    for (uint32_t i = 0; i < n && i < AHEAD; i++) __builtin_prefetch(of[list[i]], 1);
    for (uint32_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, VERTEX_POLL) && ct_exact_is_cancelled(exact, NULL, 0)) return;
        __builtin_prefetch(of[list[i + AHEAD < n ? i + AHEAD : n - 1]], 1);
        const int64_t *g = of[list[i]];
        const int64_t size[3] = {size_of(g[0]), size_of(g[1]), size_of(g[2])};
        count += (g[0] | g[1] | g[2]) != 0;
        force[0] += (uint64_t)g[0];
        force[1] += (uint64_t)g[1];
        force[2] += (uint64_t)g[2];
        if (__builtin_expect((size[0] < least[0]) & (size[1] < least[1]) & (size[2] < least[2]), 1)) continue;
        for (int k = 0; k < 3; k++) {
            if (size[k] < least[k]) continue;
            offer_candidate(exact, chunk, k, list[i], size[k]);
            least[k] = size[k];
        }
    }
    chunk->count = count;
    for (int k = 0; k < 3; k++) chunk->force[k] = (int64_t)force[k];
}

static void measure_gradient(ct_exact_pair *exact) {
    const uint32_t n_chunks = count_all_chunks(exact);
    uint32_t n = 0;
    ct_exact_for_each(exact, n_chunks, count_chunk);
    for (uint32_t i = 0; i < n_chunks; i++) n += exact->chunks[i].n_touched + LISTED_AT_ONCE;
    uint32_t *list = ct_exact_allocate(exact, n * sizeof *list);
    for (uint32_t i = 0; i < n_chunks && list; i++) { /* chunks are listed at the same time: each has room behind it */
        exact->chunks[i].touched = list;
        list += exact->chunks[i].n_touched + LISTED_AT_ONCE;
    }
    ct_exact_for_each(exact, n_chunks, measure_chunk);
}

/* The gradient over both bodies sums to 0. Rounding leaves a few steps of the fixed point over, which go to the largest
 * entry along each axis, so that forces balance to the last bit. */
static void balance_gradient(ct_exact_pair *exact) {
    ct_exact_totals *totals = &exact->totals;
    const uint32_t n = count_all_chunks(exact);
    for (int k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < n; i++) totals->force[exact->chunks[i].body][k] += exact->chunks[i].force[k];
        const int64_t excess = (int64_t)(totals->force[0][k] + totals->force[1][k]);
        totals->excess[k] = excess ? ldexp((double)excess, exact->exponent) : 0;
        if (!excess) continue;
        struct candidate best = {0};
        uint32_t of_chunk = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (!is_better(exact, &exact->chunks[i].best[k], &best)) continue;
            best = exact->chunks[i].best[k];
            of_chunk = i;
        }
        if (!best.size) continue;
        int64_t *g = exact->part[best.body].gradient.of[best.vertex];
        g[k] -= excess;
        totals->force[best.body][k] -= excess;
        if (!(g[0] | g[1] | g[2])) exact->chunks[of_chunk].count--;
    }
}

/* ---- the reference point ---- */

/* Calls add(argument, triangle, rounding) for each crossed triangle of a body in a pass, in their order. */
static void for_each_crossed(ct_exact_pair *exact, int b, int pass,
                             void (*add)(void *argument, const double *const p[3], double rounding), void *argument) {
    const ct_exact_body *body = &exact->part[b].body;
    const ct_exact_surface *surface = &exact->part[b].surface[pass];
    for (uint32_t k = 0; k < surface->n_crossed; k++) {
        if (CT_POLL_EVERY(k, 16) && ct_exact_should_end(exact)) return;
        const ct_placed_cluster *c = &body->placed[body->placed_as[surface->crossed_clusters[k]] - 1];
        const ct_crossed_cluster *crossed = &surface->crossed[k];
        for (uint32_t i = 0; i < crossed->n; i++) {
            const uint32_t t = crossed->triangles[i].triangle;
            const double *const p[3] = {c->points[c->corners[t][0]], c->points[c->corners[t][1]],
                                        c->points[c->corners[t][2]]};
            add(argument, p, crossed->triangles[i].rounding);
        }
    }
}

static void fit_plane(void *argument, const double *const p[3], double rounding) {
    ct_fit_plane(argument, p, rounding);
}

struct rounding_about {
    const double *about;
    double sum;
};

static void add_rounding(void *argument, const double *const p[3], double rounding) {
    struct rounding_about *r = argument;
    r->sum += ct_volume_rounding_about(p, rounding, r->about);
}

/* Moves the point from which the volume counts to where triangles' rounding matters least, if it matters most of all in
 * the bound. Not for pieces of an intersection, of which a triangle has several. */
static void move_reference(ct_exact_pair *exact) {
    ct_plane_fit fit = {{0}, {0}};
    double about[3], rounding = 0;
    if (exact->pieces || !ct_should_move_reference(&exact->totals)) return;
    for (int pass = 0; pass < exact->n_passes; pass++) {
        ct_plane_fit of[2] = {{{0}, {0}}, {{0}, {0}}};
        for (int b = 0; b < 2; b++) for_each_crossed(exact, b, pass, fit_plane, &of[b]);
        ct_add_fit(&fit, &of[0], &of[1]);
    }
    if (!ct_find_reference(&fit, about)) return;
    for (int pass = 0; pass < exact->n_passes; pass++) {
        struct rounding_about of[2] = {{about, 0}, {about, 0}};
        for (int b = 0; b < 2; b++) for_each_crossed(exact, b, pass, add_rounding, &of[b]);
        rounding += of[0].sum + of[1].sum;
    }
    ct_move_reference(&exact->totals, exact->exponent, about, rounding);
}

/* ---- the contact ---- */

static double step_of(const ct_exact_pair *exact) {
    return ct_exact_step(&exact->lattice, exact->exponent, exact->n_passes);
}

/* Of two bodies that are inside out the product of winding numbers is positive again. */
static bool has_inverted_body(const ct_pair_task *pair) {
    for (int b = 0; b < 2; b++)
        if (pair->body[b]->kind == CT_BODY_DEFORMABLE && pair->body[b]->volume < 0) return true;
    return false;
}

/* False: there is no contact, or none that could be told from rounding. */
static bool find_volume(const ct_exact_pair *exact, ct_contact *contact) {
    return ct_exact_volume(&exact->totals, &exact->lattice, exact->n_passes, contact) &&
           !has_inverted_body(exact->pair);
}

static void find_forces(const ct_exact_pair *exact, ct_contact *contact) {
    for (int b = 0; b < 2; b++) {
        const ct_body *body = exact->pair->body[b];
        double center[3];
        ct_body_origin(body, center);
        ct_exact_force(&exact->totals, &exact->lattice, exact->n_passes, step_of(exact), b, center,
                       contact->generalized_gradient[b]);
    }
}

static void find_center(const ct_exact_pair *exact, ct_contact *contact) {
    const ct_box boxes[2] = {exact->pair->body[0]->box, exact->pair->body[1]->box};
    ct_exact_center(&exact->totals, &exact->lattice, exact->n_passes, boxes, contact);
}

/* Writes a chunk's entries, and clears the gradient, which nothing reads any more. */
static void write_chunk(void *argument, uint32_t i_chunk, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    struct ct_entry_chunk *chunk = &exact->chunks[i_chunk];
    int64_t(*const of)[3] = exact->part[chunk->body].gradient.of;
    const ct_contact contact = exact->contact->contact;
    const ct_entry_arrays arrays = exact->contact->entries;
    const double step = step_of(exact), pressure = -exact->pair->settings->stiffness * contact.volume;
    const bool is_hidden = exact->pair->body[chunk->body]->is_half_space; /* it has no vertices for its users */
    const bool has_entries = arrays.vertices && !is_hidden;
    const uint32_t *const list = chunk->touched, n = chunk->n_touched;
    uint64_t at = chunk->first;
    for (uint32_t i = 0; i < n;) {
        const uint32_t end = n - i > VERTEX_POLL ? i + VERTEX_POLL : n;
        if (ct_exact_should_end(exact)) return;
        for (; i < end; i++) {
            const uint32_t v = list[i];
            const int64_t x = of[v][0], y = of[v][1], z = of[v][2];
            if (!(x | y | z)) continue;
            of[v][0] = of[v][1] = of[v][2] = 0;
            if (!has_entries) continue;
            const double g[3] = {(double)x * step, (double)y * step, (double)z * step};
            arrays.vertices[at] = v;
            if (arrays.gradient) memcpy(arrays.gradient + 3 * at, g, sizeof g);
            if (arrays.weights) arrays.weights[at] = ct_frame_friction(&contact, g);
            for (int k = 0; k < 3 && arrays.forces; k++) arrays.forces[3 * at + (uint64_t)k] = pressure * g[k];
            at++;
        }
    }
}

static bool make_entries(ct_exact_pair *exact) {
    ct_pair_contact *out = exact->contact;
    ct_contact *contact = &out->contact;
    const ct_pair_task *pair = exact->pair;
    const uint32_t n_chunks = count_all_chunks(exact);
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_chunks; i++) {
        if (pair->body[exact->chunks[i].body]->is_half_space) exact->chunks[i].count = 0;
        exact->chunks[i].first = n;
        n += exact->chunks[i].count;
        contact->count[exact->chunks[i].body] += exact->chunks[i].count;
    }
    ct_arena *answers = &exact->workspace->workers[exact->driver].answers;
    if (pair->is_alone ? !ct_entry_arrays_new(&out->entries, pair->step->want, n)
                       : !ct_entry_arrays_in(answers, &exact->device->answers, &out->entries, pair->step->want, n))
        return false;
    ct_exact_for_each(exact, n_chunks, write_chunk);
    if (exact->has_failed) return false;
    exact->is_gradient_clear = true;
    return true;
}

static bool make_contact(ct_exact_pair *exact, ct_pair_contact *made) {
    ct_pair_task *pair = exact->pair;
    if (!exact->chunks) exact->chunks = ct_exact_allocate(exact, count_all_chunks(exact) * sizeof *exact->chunks);
    if (!exact->chunks) return false;
    if (exact->is_self && pair->step->want & NEEDS_ENTRIES) {
        ct_exact_for_each(exact, count_all_chunks(exact), gather_chunk);
        ct_exact_split_sides(exact);
    }
    measure_gradient(exact);
    if (exact->has_failed) return false;
    balance_gradient(exact);
    move_reference(exact);
    exact->contact = made;
    *exact->contact = (ct_pair_contact){.contact.body = {pair->body[0]->id, pair->body[1]->id},
                                        .contact.max_winding = exact->totals.max_winding,
                                        .contact.inverted_triangles = exact->totals.inverted};
    exact->contact->is_found = find_volume(exact, &exact->contact->contact);
    if (!exact->contact->is_found) return true;
    if (!(pair->step->want & NEEDS_ENTRIES) && !pair->n_directions) return true;
    find_forces(exact, &exact->contact->contact);
    ct_frame_normal(&exact->contact->contact, exact->contact->contact.generalized_gradient[0],
                    ct_exact_force_rounding(&exact->totals, &exact->lattice, exact->n_passes));
    ct_frame_area(&exact->contact->contact);
    find_center(exact, &exact->contact->contact);
    ct_exact_side_centers(&exact->totals, &exact->lattice, exact->n_passes, step_of(exact), &exact->contact->contact);
    ct_exact_check_side_centers(&exact->totals, &exact->lattice, exact->n_passes, &exact->contact->contact);
    ct_exact_find_nested(&exact->totals, &exact->contact->contact);
    if (ct_exact_wants_second(exact)) ct_exact_find_second(exact);
    return !exact->has_failed && make_entries(exact);
}

/* Gives back the memory of gradients that are not 0, which takes less time than to clear it. */
static void drop_gradients(ct_exact_pair *exact) {
    ct_exact_scratch *scratch = ct_exact_scratch_of(exact->workspace, exact->driver);
    for (int b = 0; b < 2; b++) {
        ct_buffer_free(&scratch->gradient[b], &exact->device->budget);
        ct_buffer_free(&scratch->touched[b], &exact->device->budget);
        exact->part[b].gradient = (ct_exact_gradient){.of = NULL};
    }
}

void ct_exact_finish(ct_exact_pair *exact, ct_pair_contact *contact) {
    ct_enter_phase("finishing contacts");
    if (!exact->has_failed && !make_contact(exact, contact)) exact->has_failed = true;
    ct_exact_for_each(exact, count_all_chunks(exact), clear_chunk);
    exact->is_gradient_clear = false;
    if (exact->has_failed) drop_gradients(exact);
}
