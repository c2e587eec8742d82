/* finish_exact.c - turns the sums of the method `exact` into a contact: volume, bound, entries, frame. */
#include <math.h>
#include <string.h>

#include "gpu/backend/cpu/exact_pair.h"
#include "gpu/contact/entry_arrays.h"
#include "gpu/mesh/mesh.h"

enum { NEEDS_ENTRIES = CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES };

/* ---- touched vertices ---- */

/* A body's touched vertices, in rising order. */
struct cursor {
    const ct_exact_gradient *gradient;
    uint32_t n_groups, group, word;
    uint64_t left, words_left; /* bits of the word, and of the group */
};

static struct cursor first_touched_vertex(const ct_exact_pair *exact, int b) {
    return (struct cursor){.gradient = &exact->part[b].gradient,
                           .n_groups = (uint32_t)ct_touched_groups(exact->pair->body[b]->mesh->n_vertices)};
}

/* False: there are no more. */
static inline bool next_touched_vertex(struct cursor *c, uint32_t *vertex) {
    while (!c->left) {
        while (!c->words_left) {
            if (c->group == c->n_groups) return false;
            c->words_left = c->gradient->groups[c->group++];
        }
        c->word = (c->group - 1) * 64 + (uint32_t)__builtin_ctzll(c->words_left);
        c->words_left &= c->words_left - 1;
        c->left = c->gradient->touched[c->word];
    }
    *vertex = c->word * 64 + (uint32_t)__builtin_ctzll(c->left);
    c->left &= c->left - 1;
    return true;
}

static void clear_gradient(ct_exact_pair *exact, int b) {
    ct_exact_gradient *g = &exact->part[b].gradient;
    uint32_t v;
    for (struct cursor c = first_touched_vertex(exact, b); next_touched_vertex(&c, &v);) {
        memset(g->of[v], 0, sizeof g->of[v]);
        if (!c.left) g->touched[c.word] = 0;
    }
    memset(g->groups, 0, ct_touched_groups(exact->pair->body[b]->mesh->n_vertices) * sizeof(uint64_t));
}

static void place_vertex(const ct_exact_body *body, uint32_t vertex, double at[3]) {
    const float *p = body->positions + 3 * (size_t)vertex;
    for (int k = 0; k < 3; k++) {
        const double *row = body->pose.row[k];
        at[k] = ct_round_to_lattice(row[0] * (double)p[0] + row[1] * (double)p[1] + row[2] * (double)p[2] + row[3]);
    }
}

/* ---- Newton's third law ---- */

/* An entry of the gradient along one axis. */
struct candidate {
    int body;
    uint32_t vertex;
    int64_t size;
    double at[3];
    bool is_placed;
};

static void place_candidate(const ct_exact_pair *exact, struct candidate *c) {
    if (!c->is_placed) place_vertex(&exact->part[c->body].body, c->vertex, c->at);
    c->is_placed = true;
}

/* By size, then by coordinates, so that the choice does not depend on the order of bodies or vertices. */
static bool is_better(const ct_exact_pair *exact, struct candidate *a, struct candidate *b) {
    if (a->size != b->size) return a->size > b->size;
    place_candidate(exact, a);
    place_candidate(exact, b);
    for (int k = 0; k < 3; k++)
        if (a->at[k] != b->at[k]) return a->at[k] < b->at[k];
    return false;
}

/* The gradient over both bodies sums to 0. Rounding leaves a few steps of the fixed point over, which go to the largest
 * entry along each axis, so that forces balance to the last bit. */
static void balance_gradient(ct_exact_pair *exact) {
    ct_exact_totals *totals = &exact->totals;
    struct candidate best[3];
    memset(best, 0, sizeof best);
    for (int b = 0; b < 2; b++) {
        uint32_t v;
        for (struct cursor c = first_touched_vertex(exact, b); next_touched_vertex(&c, &v);)
            for (int k = 0; k < 3; k++) {
                const int64_t g = exact->part[b].gradient.of[v][k], size = g < 0 ? -g : g;
                totals->force[b][k] += g;
                if (size < best[k].size || size == 0) continue;
                struct candidate one = {.body = b, .vertex = v, .size = size};
                if (is_better(exact, &one, &best[k])) best[k] = one;
            }
    }
    for (int k = 0; k < 3; k++) {
        const int64_t excess = (int64_t)(totals->force[0][k] + totals->force[1][k]);
        if (!excess || !best[k].size) continue;
        const int b = best[k].body;
        place_candidate(exact, &best[k]);
        exact->part[b].gradient.of[best[k].vertex][k] -= excess;
        totals->force[b][k] -= excess;
    }
}

/* ---- the contact ---- */

/* m^2 per step of the fixed point; the mean over the passes. */
static double step_of(const ct_exact_pair *exact) {
    return ldexp(exact->lattice.unit * exact->lattice.unit, exact->exponent - (exact->n_passes - 1));
}

/* Volume and bound. False: there is no contact, or none that could be told from rounding.
 *
 * The bound is the sum of what can be wrong: (1) coordinates were moved to the lattice, by `residual` at most along
 * each axis, which changes the volume by no more than that times the area (in the 1-norm) of both surfaces inside each
 * other, at any time while they move: their present area, and what lies within two units of the other surface; (2) the
 * integrals over crossed triangles were rounded; (3) so were products and sums. Coordinates count from the origin of
 * the lattice, in the middle of the contact. */
static bool find_volume(const ct_exact_pair *exact, ct_contact *contact) {
    const ct_exact_totals *totals = &exact->totals;
    const double unit = exact->lattice.unit, passes = exact->n_passes;
    double trace[2] = {0, 0}, reach = 0;
    for (int i = 0; i < 3; i++) {
        const ct_box *a = &exact->pair->body[0]->box, *b = &exact->pair->body[1]->box;
        for (int p = 0; p < 2; p++) trace[p] += totals->moment[p][i][i];
        reach += (fmin(a->hi[i], b->hi[i]) - fmax(a->lo[i], b->lo[i])) / unit / 2 + 4;
    }
    contact->volume = (trace[0] + trace[1]) / 3 / passes * (unit * unit * unit);
    const double wrong = totals->moved_volume + totals->rounding * reach / 3 + totals->arithmetic;
    contact->error_bound = wrong / passes * (1 + 0x1p-10) * (unit * unit * unit) + fabs(contact->volume) * 0x1p-50;
    contact->error_estimate = contact->error_bound;
    for (int k = 0; k < 3; k++) contact->volumes[k] = contact->volume;
    return contact->volume > contact->error_bound;
}

static void find_forces(const ct_exact_pair *exact, ct_contact *contact) {
    const double step = step_of(exact), unit = exact->lattice.unit;
    for (int b = 0; b < 2; b++) {
        const ct_body *body = exact->pair->body[b];
        double force[3], arm[3], moment[3][3], *out = contact->generalized_gradient[b];
        for (int i = 0; i < 3; i++) {
            force[i] = ct_int128_to_double(exact->totals.force[b][i]) * step;
            arm[i] = exact->lattice.origin[i] - (body->kind == CT_BODY_RIGID ? body->pose[4 * i + 3] : 0);
            for (int j = 0; j < 3; j++)
                moment[i][j] = exact->totals.moment[b][i][j] / exact->n_passes * (unit * unit * unit);
        }
        for (int i = 0; i < 3; i++) {
            const int j = (i + 1) % 3, k = (i + 2) % 3;
            out[i] = force[i];
            out[3 + i] = (moment[j][k] - moment[k][j]) + (arm[j] * force[k] - arm[k] * force[j]);
        }
    }
}

/* The centre of gravity of the intersection, which lies in both bodies' boxes. */
static void find_center(const ct_exact_pair *exact, ct_contact *contact) {
    const double unit = exact->lattice.unit;
    for (int i = 0; i < 3; i++) {
        const ct_box *a = &exact->pair->body[0]->box, *b = &exact->pair->body[1]->box;
        const double moment = exact->totals.first_moment[i] / exact->n_passes * unit * unit * unit * unit;
        const double center = exact->lattice.origin[i] + moment / contact->volume;
        contact->center[i] = fmin(fmax(center, fmax(a->lo[i], b->lo[i])), fmin(a->hi[i], b->hi[i]));
    }
}

static uint64_t count_entries(const ct_exact_pair *exact, int b) {
    uint64_t n = 0;
    uint32_t v;
    for (struct cursor c = first_touched_vertex(exact, b); next_touched_vertex(&c, &v);) {
        const int64_t *g = exact->part[b].gradient.of[v];
        n += (g[0] | g[1] | g[2]) != 0;
    }
    return n;
}

/* Writes the entries of a body from index `at` on, and adds up the sizes of their friction weights in 1 / scale m^2. */
static void write_entries(const ct_exact_pair *exact, int b, uint64_t at, const ct_pair_contact *out, double scale,
                          ct_int128 *weights) {
    const ct_entry_arrays *arrays = &out->entries;
    const double step = step_of(exact), pressure = -exact->pair->stiffness * out->contact.volume;
    uint32_t v;
    for (struct cursor c = first_touched_vertex(exact, b); next_touched_vertex(&c, &v);) {
        const int64_t *sums = exact->part[b].gradient.of[v];
        if (!(sums[0] | sums[1] | sums[2])) continue;
        double g[3];
        for (int k = 0; k < 3; k++) g[k] = (double)sums[k] * step;
        const double weight = ct_frame_friction(&out->contact, g);
        *weights += llrint(fabs(weight) * scale);
        if (!arrays->vertices) continue;
        arrays->vertices[at] = v;
        if (arrays->gradient) memcpy(arrays->gradient + 3 * at, g, sizeof g);
        if (arrays->weights) arrays->weights[at] = weight;
        for (int k = 0; k < 3 && arrays->forces; k++) arrays->forces[3 * at + (uint64_t)k] = pressure * g[k];
        at++;
    }
}

static bool make_entries(ct_exact_pair *exact, ct_pair_contact *out) {
    ct_contact *contact = &out->contact;
    const ct_pair_task *pair = exact->pair;
    for (int b = 0; b < 2; b++) contact->count[b] = count_entries(exact, b);
    const uint64_t n = contact->count[0] + contact->count[1];
    ct_arena *answers = &exact->workspace->workers[exact->driver].answers;
    if (pair->is_alone ? !ct_entry_arrays_new(&out->entries, pair->want, n)
                       : !ct_entry_arrays_in(answers, &exact->device->answers, &out->entries, pair->want, n))
        return false;
    /* A vertex's gradient is below 2^61 steps, its weight below twice that. */
    const double scale = ldexp(1 / step_of(exact), -1);
    ct_int128 weights = 0;
    for (int b = 0; b < 2; b++) write_entries(exact, b, b ? contact->count[0] : 0, out, scale, &weights);
    contact->area = ct_int128_to_double(weights) / (2 * scale);
    contact->depth = contact->area > 0 ? contact->volume / contact->area : 0;
    return true;
}

void ct_exact_finish(ct_exact_pair *exact) {
    ct_pair_task *pair = exact->pair;
    ct_exact_scratch *driver = &exact->workspace->workers[exact->driver].exact;
    (void)driver;
    if (!exact->has_failed) {
        pair->contacts = ct_arena_alloc(&exact->workspace->workers[exact->driver].answers, &exact->device->answers,
                                        sizeof *pair->contacts);
        if (!pair->contacts) exact->has_failed = true;
    }
    if (!exact->has_failed) {
        ct_pair_contact *out = pair->contacts;
        *out = (ct_pair_contact){.contact.body = {pair->body[0]->id, pair->body[1]->id}};
        balance_gradient(exact);
        out->is_found = find_volume(exact, &out->contact);
        out->contact.max_winding = exact->totals.max_winding;
        if (out->is_found && pair->want & NEEDS_ENTRIES) {
            find_forces(exact, &out->contact);
            ct_frame_normal(&out->contact, out->contact.generalized_gradient[0]);
            find_center(exact, &out->contact);
            if (!make_entries(exact, out)) exact->has_failed = true;
        }
    }
    for (int b = 0; b < 2; b++)
        if (exact->part[b].gradient.of) clear_gradient(exact, b);
}
