/* backs.c - finds polygons with the same corners by a hash that does not depend on their order. */
#include "gpu/mesh/build/backs.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"

enum { POLL = 256, TRIED_STARTS = 4 /* a polygon may come by its first corner's position more often */ };

struct hashed {
    uint64_t hash;
    uint32_t n, polygon;
};

static int by_hash(const void *a, const void *b) {
    const struct hashed *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return x->polygon < y->polygon ? -1 : x->polygon > y->polygon;
}

/* Corner i of a fan. */
static uint32_t corner_of(const uint32_t *fan, uint32_t i) {
    return i < 2 ? fan[i] : fan[3 * (size_t)(i - 2) + 2];
}

static const float *position_of(const ct_soup *soup, const uint32_t *fan, uint32_t i) {
    return soup->positions + 3 * (size_t)corner_of(fan, i);
}

static bool is_same(const float *p, const float *q) {
    return p[0] == q[0] && p[1] == q[1] && p[2] == q[2];
}

/* False: a corner is out of range, or cancelled. */
static bool hash_polygon(const ct_soup *soup, const ct_polygon *polygon, uint64_t *sum) {
    const uint32_t *fan = soup->triangles + 3 * (size_t)polygon->first;
    *sum = 0;
    for (uint32_t i = 0; i < polygon->n; i++) {
        uint64_t hash = 0x9e3779b97f4a7c15u;
        if (CT_POLL_EVERY(i + 1, POLL) && ct_is_cancelled()) return false;
        if (corner_of(fan, i) >= soup->n_vertices) return false;
        for (int k = 0; k < 3; k++) {
            const float x = position_of(soup, fan, i)[k] + 0.0f; /* -0 lies where 0 does */
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            hash = (hash ^ bits) * 0xff51afd7ed558ccdu;
            hash ^= hash >> 32;
        }
        *sum += hash;
    }
    return true;
}

/* Whether b's corners are a's from b's corner `start` on, forwards or backwards. */
static bool matches(const ct_soup *soup, const uint32_t *a, const uint32_t *b, uint32_t n, uint32_t start,
                    bool backwards) {
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t j = (uint32_t)((start + (uint64_t)(backwards ? n - i : i)) % n);
        if (CT_POLL_EVERY(i + 1, POLL) && ct_is_cancelled()) return false;
        if (!is_same(position_of(soup, a, i), position_of(soup, b, j))) return false;
    }
    return true;
}

/* Where b's fan has to begin to begin where a's does. n: b has other corners. */
static uint32_t find_start(const ct_soup *soup, const uint32_t *a, const uint32_t *b, uint32_t n) {
    int tried = 0;
    for (uint32_t s = 0; s < n && tried < TRIED_STARTS; s++) {
        if (CT_POLL_EVERY(s + 1, POLL) && ct_is_cancelled()) break;
        if (!is_same(position_of(soup, a, 0), position_of(soup, b, s))) continue;
        if (matches(soup, a, b, n, s, false) || matches(soup, a, b, n, s, true)) return s;
        tried++;
    }
    return n;
}

/* corners: [n] scratch. */
static void restart_fan(uint32_t *fan, uint32_t n, uint32_t start, uint32_t *corners) {
    for (uint32_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i + 1, POLL) && ct_is_cancelled()) return;
        corners[i] = corner_of(fan, (uint32_t)((start + (uint64_t)i) % n));
    }
    for (uint32_t t = 0; t + 2 < n; t++) {
        if (CT_POLL_EVERY(t + 1, POLL) && ct_is_cancelled()) return;
        memcpy(fan + 3 * (size_t)t, (uint32_t[]){corners[0], corners[t + 1], corners[t + 2]}, 12);
    }
}

static bool align(ct_soup *soup, struct hashed *hashed, uint32_t *corners) {
    size_t n = 0;
    for (size_t i = 0; i < soup->n_polygons; i++) {
        const ct_polygon *polygon = &soup->polygons[i];
        struct hashed row = {.n = polygon->n, .polygon = (uint32_t)i};
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return false;
        if (hash_polygon(soup, polygon, &row.hash)) hashed[n++] = row;
    }
    if (!ct_sort_large(hashed, n, sizeof *hashed, by_hash)) return false;
    for (size_t i = 1, first = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return false;
        if (hashed[i].hash != hashed[first].hash || hashed[i].n != hashed[first].n) {
            first = i;
            continue;
        }
        const uint32_t *a = soup->triangles + 3 * (size_t)soup->polygons[hashed[first].polygon].first;
        uint32_t *b = soup->triangles + 3 * (size_t)soup->polygons[hashed[i].polygon].first;
        const uint32_t start = find_start(soup, a, b, hashed[i].n);
        if (start && start < hashed[i].n) restart_fan(b, hashed[i].n, start, corners);
    }
    return !ct_is_cancelled();
}

ct_status ct_align_backs(ct_soup *soup, ct_error *error) {
    uint32_t most = 0;
    for (size_t i = 0; i < soup->n_polygons; i++) most = soup->polygons[i].n > most ? soup->polygons[i].n : most;
    struct hashed *hashed = malloc((soup->n_polygons + 1) * sizeof *hashed);
    uint32_t *corners = malloc((most + (size_t)1) * sizeof *corners);
    const bool is_done = hashed && corners && align(soup, hashed, corners);
    free(hashed), free(corners);
    return is_done ? CT_OK : ct_fail(error, CT_OUT_OF_MEMORY, "bytes", "no memory for %zu faces", soup->n_polygons);
}
