/* twins.c - shells whose triangles lie at the same places, as a duplicate that was made by accident does. */
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/mesh/build/shells.h"

enum { POLL = 1024 }; /* triangles between polls */

/* A triangle's corners in rising order, whichever way it faces. */
struct place {
    float at[9];
};

static int compare_corners(const float *p, const float *q) {
    for (int k = 0; k < 3; k++)
        if (p[k] != q[k]) return p[k] < q[k] ? -1 : 1;
    return 0;
}

static struct place place_of(const ct_soup *soup, size_t t) {
    struct place place;
    for (size_t c = 0; c < 3; c++)
        for (size_t k = 0; k < 3; k++) /* + 0: -0 lies where 0 does */
            place.at[3 * c + k] = soup->positions[3 * (size_t)soup->triangles[3 * t + c] + k] + 0.0f;
    for (int k = 0; k < 3; k++) {
        float *p = place.at + 3 * (k == 1), swapped[3]; /* compare 0 1, 1 2, 0 1 */
        if (compare_corners(p, p + 3) <= 0) continue;
        memcpy(swapped, p, sizeof swapped);
        memcpy(p, p + 3, sizeof swapped);
        memcpy(p + 3, swapped, sizeof swapped);
    }
    return place;
}

static int by_place(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    for (int k = 0; k < 9; k++)
        if (x->at[k] != y->at[k]) return x->at[k] < y->at[k] ? -1 : 1;
    return 0;
}

/* ---- what twins have in common ---- */

struct sum {
    uint64_t places; /* of hashes of the triangles' places, in any order */
    uint32_t n, shell;
};

static uint64_t hash_of(const struct place *place) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (int k = 0; k < 9; k++) {
        uint32_t bits;
        memcpy(&bits, &place->at[k], sizeof bits);
        hash = (hash ^ bits) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

static int by_sum(const void *a, const void *b) {
    const struct sum *x = a, *y = b;
    if (x->places != y->places) return x->places < y->places ? -1 : 1;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return x->shell < y->shell ? -1 : x->shell > y->shell;
}

/* ---- and whether they are ---- */

/* The triangles of shell s, by place. NULL: out of memory, or cancelled. */
static struct place *places_of(const ct_soup *soup, const uint32_t *list, size_t n) {
    struct place *places = malloc(n * sizeof *places);
    bool is_made = places;
    for (size_t i = 0; i < n && is_made; i++) {
        if (CT_POLL_EVERY(i, POLL)) is_made = !ct_is_cancelled();
        places[i] = place_of(soup, list[i]);
    }
    if (is_made && ct_sort_large(places, n, sizeof *places, by_place)) return places;
    free(places);
    return NULL;
}

/* Shells with equal sums, the first of which is sums[0]: those that are its twins. False: out of memory, or cancelled. */
static bool compare_equals(const ct_soup *soup, const uint32_t *list, const size_t *first, const struct sum *sums,
                           size_t n, uint32_t *twin_of) {
    const size_t size = sums[0].n;
    struct place *of_first = places_of(soup, list + first[sums[0].shell], size);
    bool is_done = of_first;
    for (size_t i = 1; i < n && is_done; i++) {
        struct place *of = places_of(soup, list + first[sums[i].shell], size);
        is_done = of;
        if (of && memcmp(of, of_first, size * sizeof *of) == 0) twin_of[sums[i].shell] = sums[0].shell;
        free(of);
    }
    free(of_first);
    return is_done;
}

static bool find_twins(const ct_soup *soup, const uint32_t *shell, size_t n_shells, struct sum *sums, size_t *first,
                       uint32_t *list, uint32_t *twin_of) {
    for (size_t s = 0; s < n_shells; s++) {
        sums[s].shell = (uint32_t)s;
        twin_of[s] = (uint32_t)s;
    }
    for (size_t t = 0; t < soup->n_triangles; t++) {
        const struct place place = place_of(soup, t);
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        sums[shell[t]].places += hash_of(&place);
        sums[shell[t]].n++;
    }
    for (size_t s = 0; s < n_shells; s++) first[s + 1] = first[s] + sums[s].n;
    for (size_t t = soup->n_triangles; t-- > 0;) { /* backwards, so that first[] ends where it begins */
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        list[--first[shell[t] + 1]] = (uint32_t)t;
    }
    if (!ct_sort_large(sums, n_shells, sizeof *sums, by_sum)) return false;
    for (size_t i = 0, end; i < n_shells; i = end) {
        for (end = i + 1; end < n_shells && sums[end].places == sums[i].places && sums[end].n == sums[i].n;) end++;
        if (end - i > 1 && sums[i].n && !compare_equals(soup, list, first + 1, sums + i, end - i, twin_of))
            return false;
    }
    return true;
}

ct_status ct_find_twins(const ct_soup *soup, const uint32_t *shell, size_t n_shells, uint32_t *twin_of,
                        ct_error *error) {
    struct sum *sums = calloc(n_shells + 1, sizeof *sums);
    size_t *first = calloc(n_shells + 2, sizeof *first);
    uint32_t *list = malloc((soup->n_triangles + 1) * sizeof *list);
    const bool is_found = sums && first && list && find_twins(soup, shell, n_shells, sums, first, list, twin_of);
    free(sums), free(first), free(list);
    return is_found ? CT_OK : ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory for %zu shells", n_shells);
}
