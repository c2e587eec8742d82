/* exact_twin.c - the method `exact` on the CPU, for twins: two bodies of one mesh in one place, as a mesh that is added
 * twice without a pose is.
 *
 * All of their triangles touch, but half of the work is that of the other half, mirrored. Let A and B be the bodies. In
 * pass 0 B moves by an infinitesimal d against A, in pass 1 A by d against B. So what triangle t of A is to u of B in
 * pass 0, t of B is to u of A in pass 1: B's surface of one pass is A's of the other one, bit for bit, and the
 * gradient, the sum of both, is the same for both. Only A's is computed. And what u of B is to t of A in a pass, u of A
 * is to t of B in the other one, so that each two triangles are crossed once (ct_crossing_lists.is_twin). */
#include "gpu/backend/cpu/exact_pair.h"
#include "gpu/mesh/mesh.h"

/* ---- who is a twin ---- */

/* Whether memory is the same. Cancelled: false. */
static bool is_same(const void *a, const void *b, size_t bytes) {
    enum { AT_ONCE = 1 << 18 };
    for (size_t at = 0; at < bytes; at += AT_ONCE) {
        const size_t left = bytes - at < AT_ONCE ? bytes - at : AT_ONCE;
        if (ct_is_cancelled() || memcmp((const char *)a + at, (const char *)b + at, left) != 0) return false;
    }
    return true;
}

/* Patches and second derivatives have parts of their own for either body. */
bool ct_exact_are_twins(ct_exact_pair *exact) {
    const ct_body *a = exact->pair->body[0], *b = exact->pair->body[1];
    if (exact->is_self || exact->pair->wants_patches || ct_exact_wants_second(exact)) return false;
    if (a->is_half_space || b->is_half_space || a->kind != b->kind) return false;
    if (memcmp(a->pose, b->pose, sizeof a->pose) != 0 || memcmp(&a->box, &b->box, sizeof a->box) != 0) return false;
    const bool is_one_mesh = a->mesh == b->mesh || (a->mesh->n_triangles == b->mesh->n_triangles &&
                                                    !memcmp(a->mesh->hash, b->mesh->hash, sizeof a->mesh->hash));
    if (!is_one_mesh || a->kind == CT_BODY_RIGID) return is_one_mesh;
    return is_same(a->resident->positions, b->resident->positions, a->mesh->n_vertices * sizeof(float[3]));
}

/* ---- crossings ---- */

void ct_exact_halve_pairs(ct_exact_pair *exact) {
    ct_cluster_pair *pairs = exact->cluster_pairs;
    size_t n = 0;
    for (size_t i = 0; i < exact->n_cluster_pairs; i++) {
        if (CT_POLL_EVERY(i, 8192) && ct_exact_is_cancelled(exact, "pairs of clusters", i)) return;
        if (pairs[i].a <= pairs[i].b) pairs[n++] = pairs[i];
    }
    exact->n_cluster_pairs = n;
}

/* ---- what is the same ---- */

void ct_exact_mirror_surfaces(ct_exact_pair *exact) {
    /* With one pass there are no ties, and both perturbations are alike. */
    for (int pass = 0; pass < exact->n_passes; pass++)
        exact->part[1].surface[pass] = exact->part[0].surface[exact->n_passes - 1 - pass];
}

/* Groups of 4,096 vertices that one task copies. */
enum { MIRROR_CHUNK = 2 };

static void copy_vertex(const ct_exact_gradient *from, const ct_exact_gradient *to, size_t vertex) {
    memcpy(to->of[vertex], from->of[vertex], sizeof *to->of);
}

static void mirror_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    const ct_exact_gradient *from = &exact->part[0].gradient, *to = &exact->part[1].gradient;
    const uint32_t n_vertices = exact->pair->body[0]->mesh->n_vertices;
    const size_t n_words = ct_touched_words(n_vertices), n_groups = ct_touched_groups(n_vertices);
    const size_t first = (size_t)i * MIRROR_CHUNK,
                 end = first + MIRROR_CHUNK < n_groups ? first + MIRROR_CHUNK : n_groups;
    if (ct_exact_should_end(exact)) return;
    if (from->marks) {
        for (size_t v = first * 4096; v < end * 4096 && v < n_words * 64; v++) {
            to->marks[v] = from->marks[v];
            if (from->marks[v]) copy_vertex(from, to, v);
        }
        return;
    }
    for (size_t group = first; group < end; group++) {
        to->groups[group] = from->groups[group];
        for (uint64_t words = from->groups[group]; words; words &= words - 1) {
            const size_t word = group * 64 + (size_t)__builtin_ctzll(words);
            to->touched[word] = from->touched[word];
            for (uint64_t left = from->touched[word]; left; left &= left - 1)
                copy_vertex(from, to, word * 64 + (size_t)__builtin_ctzll(left));
        }
    }
}

void ct_exact_mirror_gradient(ct_exact_pair *exact) {
    const size_t n_groups = ct_touched_groups(exact->pair->body[0]->mesh->n_vertices);
    ct_exact_for_each(exact, (uint32_t)((n_groups + MIRROR_CHUNK - 1) / MIRROR_CHUNK), mirror_chunk);
}
