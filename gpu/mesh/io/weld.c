/* weld.c - merges bitwise equal positions with a keyed hash table. */
#include "gpu/mesh/io/weld.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"

static inline uint64_t rotate(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

enum { FLOAT_WORDS = 3, DOUBLE_WORDS = 6 };

static inline void mix(uint64_t v[4]) {
    v[0] += v[1], v[1] = rotate(v[1], 13), v[1] ^= v[0], v[0] = rotate(v[0], 32);
    v[2] += v[3], v[3] = rotate(v[3], 16), v[3] ^= v[2];
    v[0] += v[3], v[3] = rotate(v[3], 21), v[3] ^= v[0];
    v[2] += v[1], v[1] = rotate(v[1], 17), v[1] ^= v[2], v[2] = rotate(v[2], 32);
}

static inline void take_block(uint64_t v[4], uint64_t block) {
    v[3] ^= block;
    mix(v);
    v[0] ^= block;
}

/* SipHash-1-3 (Aumasson, Bernstein 2012) of three or six words. Without the key a client cannot choose positions that
 * collide, so no mesh file can make the table slow. */
__attribute__((always_inline)) static inline uint64_t hash(const uint64_t key[2], const uint32_t *word, int n_words) {
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                     key[1] ^ 0x7465646279746573};
    take_block(v, word[0] | (uint64_t)word[1] << 32);
    if (n_words == FLOAT_WORDS) {
        take_block(v, word[2] | (uint64_t)12 << 56);
    } else {
        take_block(v, word[2] | (uint64_t)word[3] << 32);
        take_block(v, word[4] | (uint64_t)word[5] << 32);
        take_block(v, (uint64_t)24 << 56);
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

typedef struct vertex_table {
    uint32_t *slots; /* vertex + 1; 0: free */
    size_t mask;
    uint64_t key[2];
} vertex_table;

__attribute__((always_inline)) static inline const void *stored_position(const ct_soup *soup, size_t v, int n_words) {
    return n_words == FLOAT_WORDS ? (const void *)(soup->positions + 3 * v) : soup->wide + 3 * v;
}

/* False: out of memory, or cancelled. */
static bool grow_table(vertex_table *table, const ct_soup *soup, int n_words) {
    size_t size = table->slots ? 2 * (table->mask + 1) : 256;
    uint32_t *slots = calloc(size, sizeof *slots);
    if (!slots) return false;
    free(table->slots);
    table->slots = slots;
    table->mask = size - 1;
    for (size_t v = 0; v < soup->n_vertices; v++) {
        if (CT_POLL_EVERY(v, 1024) && ct_is_cancelled()) return false;
        uint32_t word[DOUBLE_WORDS];
        memcpy(word, stored_position(soup, v, n_words), (size_t)n_words * sizeof *word);
        size_t slot = hash(table->key, word, n_words) & table->mask;
        while (slots[slot]) slot = (slot + 1) & table->mask;
        slots[slot] = (uint32_t)v + 1;
    }
    return true;
}

__attribute__((always_inline)) static inline ct_status find_or_add(vertex_table *table, ct_soup *soup,
                                                                   const ct_soup_point *point, int n_words,
                                                                   uint32_t *vertex, ct_error *error) {
    if (!table->slots || soup->n_vertices > table->mask / 2)
        if (!grow_table(table, soup, n_words))
            return ct_fail(error, CT_OUT_OF_MEMORY, "bytes", "no memory to weld more than %zu vertices",
                           soup->n_vertices);
    uint32_t word[DOUBLE_WORDS];
    memcpy(word, n_words == FLOAT_WORDS ? (const void *)point->rounded : point->wide, (size_t)n_words * sizeof *word);
    size_t slot = hash(table->key, word, n_words) & table->mask;
    for (; table->slots[slot]; slot = (slot + 1) & table->mask) {
        *vertex = table->slots[slot] - 1;
        if (memcmp(stored_position(soup, *vertex, n_words), word, (size_t)n_words * sizeof *word) == 0) return CT_OK;
    }
    *vertex = (uint32_t)soup->n_vertices;
    table->slots[slot] = *vertex + 1;
    return ct_soup_add_point(soup, point, error);
}

#define NONE UINT32_MAX

/* Inlined once for each number of words. found: [n_points] of `points`, the vertices of those that were looked up;
 * NULL: all corners are. */
__attribute__((always_inline)) static inline ct_status weld(vertex_table *table, const void *corners, size_t n,
                                                            ct_read_corner_fn *read_corner, const uint32_t *points,
                                                            uint32_t *found, int n_words, ct_soup *soup,
                                                            ct_error *error) {
    ct_status status = CT_OK;
    for (size_t t = 0; t < n && status == CT_OK; t++) {
        uint32_t corner[3];
        if (CT_POLL_EVERY(t, 256) && ct_is_cancelled()) return ct_fail_cancelled(error);
        for (size_t c = 0; c < 3 && status == CT_OK; c++) {
            ct_soup_point point;
            if (found && found[points[3 * t + c]] != NONE) {
                corner[c] = found[points[3 * t + c]];
                continue;
            }
            read_corner(corners, 3 * t + c, n_words == FLOAT_WORDS ? (void *)point.rounded : point.wide);
            for (int k = 0; k < 3; k++) { /* -0 becomes 0 */
                if (n_words == FLOAT_WORDS && point.rounded[k] == 0) point.rounded[k] = 0;
                if (n_words == DOUBLE_WORDS && point.wide[k] == 0) point.wide[k] = 0;
            }
            status = find_or_add(table, soup, &point, n_words, &corner[c], error);
            if (found) found[points[3 * t + c]] = corner[c];
        }
        if (status == CT_OK) status = ct_soup_add_triangle(soup, corner[0], corner[1], corner[2], error);
    }
    return status;
}

static ct_status weld_all(const void *corners, size_t n_corners, ct_read_corner_fn *read_corner, const uint32_t *points,
                          uint32_t *found, ct_soup *soup, ct_error *error) {
    vertex_table table = {NULL, 0, {0, 0}};
    if (getentropy(table.key, sizeof table.key) != 0)
        return ct_fail(error, CT_UNSUPPORTED, "bytes",
                       "the system has no random numbers (getentropy failed), which welding vertices needs");
    const size_t n = n_corners / 3;
    ct_status status = ct_soup_reserve_triangles(soup, n, error);
    if (status == CT_OK)
        status = soup->digits.is_wide ? weld(&table, corners, n, read_corner, points, found, DOUBLE_WORDS, soup, error)
                                      : weld(&table, corners, n, read_corner, points, found, FLOAT_WORDS, soup, error);
    free(table.slots);
    return status;
}

ct_status ct_weld(const void *corners, size_t n_corners, ct_read_corner_fn *read_corner, ct_soup *soup,
                  ct_error *error) {
    return weld_all(corners, n_corners, read_corner, NULL, NULL, soup, error);
}

ct_status ct_weld_points(const void *corners, size_t n_corners, ct_read_corner_fn *read_corner, const uint32_t *points,
                         size_t n_points, ct_soup *soup, ct_error *error) {
    uint32_t *found = malloc(n_points * sizeof *found + 1);
    ct_status status = found && ct_fill_large(found, 0xff, n_points * sizeof *found)
                           ? weld_all(corners, n_corners, read_corner, points, found, soup, error)
                           : ct_fail(error, CT_OUT_OF_MEMORY, "bytes", "no memory to weld %zu vertices", n_points);
    free(found);
    return status;
}
