/* weld.c - merges bitwise equal positions with a keyed hash table. */
#include "gpu/mesh/io/weld.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"

static inline uint64_t rotate(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

/* SipHash-1-3 (Aumasson, Bernstein 2012) of three words. Without the key a client cannot choose positions that collide,
 * so no mesh file can make the table slow. */
static uint64_t hash(const uint64_t key[2], const uint32_t word[3]) {
    uint64_t v0 = key[0] ^ 0x736f6d6570736575, v1 = key[1] ^ 0x646f72616e646f6d;
    uint64_t v2 = key[0] ^ 0x6c7967656e657261, v3 = key[1] ^ 0x7465646279746573;
    const uint64_t message[2] = {word[0] | (uint64_t)word[1] << 32, word[2] | (uint64_t)12 << 56};
    for (int round = 0; round < 5; round++) {
        if (round < 2) v3 ^= message[round];
        if (round == 2) v2 ^= 0xff;
        v0 += v1, v1 = rotate(v1, 13), v1 ^= v0, v0 = rotate(v0, 32);
        v2 += v3, v3 = rotate(v3, 16), v3 ^= v2;
        v0 += v3, v3 = rotate(v3, 21), v3 ^= v0;
        v2 += v1, v1 = rotate(v1, 17), v1 ^= v2, v2 = rotate(v2, 32);
        if (round < 2) v0 ^= message[round];
    }
    return v0 ^ v1 ^ v2 ^ v3;
}

typedef struct vertex_table {
    uint32_t *slots; /* vertex + 1; 0: free */
    size_t mask;
    uint64_t key[2];
} vertex_table;

/* False: out of memory, or cancelled. */
static bool grow_table(vertex_table *table, const ct_soup *soup) {
    size_t size = table->slots ? 2 * (table->mask + 1) : 256;
    uint32_t *slots = calloc(size, sizeof *slots);
    if (!slots) return false;
    free(table->slots);
    table->slots = slots;
    table->mask = size - 1;
    for (size_t v = 0; v < soup->n_vertices; v++) {
        if (CT_POLL_EVERY(v, 1024) && ct_is_cancelled()) return false;
        uint32_t word[3];
        memcpy(word, soup->positions + 3 * v, sizeof word);
        size_t slot = hash(table->key, word) & table->mask;
        while (slots[slot]) slot = (slot + 1) & table->mask;
        slots[slot] = (uint32_t)v + 1;
    }
    return true;
}

static ct_status find_or_add(vertex_table *table, ct_soup *soup, const float position[3], uint32_t *vertex,
                             ct_error *error) {
    if (!table->slots || soup->n_vertices > table->mask / 2)
        if (!grow_table(table, soup))
            return ct_fail(error, CT_OUT_OF_MEMORY, "bytes", "no memory to weld more than %zu vertices",
                           soup->n_vertices);
    uint32_t word[3];
    memcpy(word, position, sizeof word);
    size_t slot = hash(table->key, word) & table->mask;
    for (; table->slots[slot]; slot = (slot + 1) & table->mask) {
        *vertex = table->slots[slot] - 1;
        if (memcmp(soup->positions + 3 * (size_t)*vertex, word, sizeof word) == 0) return CT_OK;
    }
    *vertex = (uint32_t)soup->n_vertices;
    table->slots[slot] = *vertex + 1;
    return ct_soup_add_vertex(soup, position, error);
}

ct_status ct_weld(const void *corners, size_t n_corners, ct_read_corner_fn *read_corner, ct_soup *soup,
                  ct_error *error) {
    vertex_table table = {NULL, 0, {0, 0}};
    if (getentropy(table.key, sizeof table.key) != 0)
        return ct_fail(error, CT_UNSUPPORTED, "bytes",
                       "the system has no random numbers (getentropy failed), which welding vertices needs");
    ct_status status = ct_soup_reserve_triangles(soup, n_corners / 3, error);
    for (size_t t = 0; t < n_corners / 3 && status == CT_OK; t++) {
        uint32_t corner[3];
        if (CT_POLL_EVERY(t, 256) && ct_is_cancelled()) {
            status = ct_fail_cancelled(error);
            break;
        }
        for (size_t c = 0; c < 3 && status == CT_OK; c++) {
            float position[3];
            read_corner(corners, 3 * t + c, position);
            for (int k = 0; k < 3; k++)
                if (position[k] == 0) position[k] = 0; /* -0 becomes 0 */
            status = find_or_add(&table, soup, position, &corner[c], error);
        }
        if (status == CT_OK) status = ct_soup_add_triangle(soup, corner[0], corner[1], corner[2], error);
    }
    free(table.slots);
    return status;
}
