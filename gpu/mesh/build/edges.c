/* edges.c - puts edges into buckets by their smaller vertex and sorts each bucket, so that the faces of an edge stand
 * side by side. Shells are the sets of a union-find over triangles, which edges of two faces unite. Linear for meshes
 * with bounded vertex degrees, O(n log n) for any input. */
#include "gpu/mesh/build/edges.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/edge_pairs.h"

static void sift_down(uint64_t *heap, size_t root, size_t n) {
    uint64_t value = heap[root];
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && heap[child + 1] > heap[child]) child++;
        if (heap[child] <= value) break;
        heap[root] = heap[child];
    }
    heap[root] = value;
}

/* False: cancelled. */
static bool sort(uint64_t *values, size_t n) {
    if (n <= 32) {
        for (size_t i = 1; i < n; i++) {
            uint64_t value = values[i];
            size_t k = i;
            for (; k > 0 && values[k - 1] > value; k--) values[k] = values[k - 1];
            values[k] = value;
        }
        return true;
    }
    for (size_t i = n / 2; i-- > 0;) {
        if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled()) return false;
        sift_down(values, i, n);
    }
    for (size_t end = n; end-- > 1;) {
        if (CT_POLL_EVERY(end, 1024) && ct_is_cancelled()) return false;
        uint64_t largest = values[0];
        values[0] = values[end];
        values[end] = largest;
        sift_down(values, 0, end);
    }
    return true;
}

static void add_defect(ct_edge_defects *defects, uint32_t low, uint32_t high, size_t faces) {
    if (defects->count < CT_EDGE_EXAMPLES) {
        defects->first[defects->count].vertex[0] = low;
        defects->first[defects->count].vertex[1] = high;
        defects->first[defects->count].faces = (uint32_t)faces;
    }
    defects->count++;
}

/* ---- shells ---- */

/* Triangles that are connected have one root, the lowest of them. A path may be as long as the mesh: *steps is polled. */
static uint32_t root_of(uint32_t *parent, uint32_t t, size_t *steps) {
    for (; parent[t] != t; t = parent[t] = parent[parent[t]])
        if (CT_POLL_EVERY(++*steps, 4096) && ct_is_cancelled()) break;
    return t;
}

static void unite(uint32_t *parent, uint32_t a, uint32_t b, size_t *steps) {
    a = root_of(parent, a, steps);
    b = root_of(parent, b, steps);
    if (a != b) parent[a > b ? a : b] = a > b ? b : a;
}

static bool begin_shells(uint32_t *parent, size_t n) {
    for (size_t t = 0; t < n; t++) {
        if (CT_POLL_EVERY(t, 1 << 14) && ct_is_cancelled()) return false;
        parent[t] = (uint32_t)t;
    }
    return true;
}

/* Roots become numbers, by the shells' first triangles. */
static bool number_shells(uint32_t *parent, size_t n, uint32_t *n_shells) {
    *n_shells = 0;
    for (size_t t = 0; t < n; t++) { /* what a triangle's parent points to has its number already */
        if (CT_POLL_EVERY(t, 1 << 14) && ct_is_cancelled()) return false;
        parent[t] = parent[t] == t ? (*n_shells)++ : parent[parent[t]];
    }
    return true;
}

/* ---- edges ---- */

enum { TRIANGLE_BITS = 32 };

/* Of an edge's larger vertex, and 1 if the face runs from there to the smaller one. */
static uint32_t end_of(uint64_t entry) {
    return (uint32_t)(entry >> TRIANGLE_BITS);
}

struct check {
    const float *positions;
    const uint32_t *triangles;
    ct_edge_report *report;
    uint32_t *parent;
    size_t steps;
};

/* The faces of an edge that has more than two. False: out of memory, or cancelled. */
static bool check_crowd(struct check *c, uint32_t low, uint32_t high, const uint64_t *entries, size_t n) {
    ct_edge_face *faces = malloc(n * sizeof *faces);
    ct_edge_pairing end = CT_EDGE_FAILED;
    for (size_t i = 0; i < n && faces; i++) {
        const uint32_t t = (uint32_t)entries[i], *corner = c->triangles + 3 * (size_t)t;
        const int apex = corner[0] != low && corner[0] != high ? 0 : corner[1] != low && corner[1] != high ? 1 : 2;
        faces[i] = (ct_edge_face){.id = t, .apex = corner[apex], .runs_up = !(end_of(entries[i]) & 1)};
    }
    if (faces) end = ct_pair_edge_faces(c->positions, low, high, faces, n);
    for (size_t i = 0; i < n && end == CT_EDGE_PAIRED; i += 2)
        unite(c->parent, faces[i].id, faces[i + 1].id, &c->steps);
    free(faces);
    if (end == CT_EDGE_PAIRED)
        c->report->n_shared++;
    else
        add_defect(&c->report->crowded, low, high, n);
    return end != CT_EDGE_FAILED;
}

/* A bucket's entries are (2 * larger vertex + (1 if the face runs from the larger to the smaller vertex)) and the face.
 * False: out of memory, or cancelled. */
static bool check_bucket(struct check *c, uint32_t vertex, uint64_t *entries, size_t n) {
    if (!sort(entries, n)) return false;
    for (size_t i = 0; i < n;) {
        const uint32_t high = end_of(entries[i]) >> 1;
        size_t end = i, backward = 0;
        for (; end < n && end_of(entries[end]) >> 1 == high; end++) {
            if (CT_POLL_EVERY(end + 1, 1 << 14) && ct_is_cancelled()) return false;
            backward += end_of(entries[end]) & 1;
        }
        size_t faces = end - i;
        if (faces == 1)
            add_defect(&c->report->open, vertex, high, faces);
        else if (faces == 2 && backward != 1)
            add_defect(&c->report->turned, vertex, high, faces);
        if (faces == 2) unite(c->parent, (uint32_t)entries[i], (uint32_t)entries[i + 1], &c->steps);
        if (faces > 2 && !check_crowd(c, vertex, high, entries + i, faces)) return false;
        i = end;
    }
    return true;
}

static bool names_vertex_twice(const uint32_t *corner) {
    return corner[0] == corner[1] || corner[1] == corner[2] || corner[2] == corner[0];
}

/* Counts each vertex's entries in starts[vertex + 1], and repeating triangles. False: cancelled. */
static bool count_entries(const uint32_t *triangles, size_t n_triangles, size_t *starts, ct_edge_report *report) {
    for (size_t t = 0; t < n_triangles; t++) {
        const uint32_t *corner = triangles + 3 * t;
        if (CT_POLL_EVERY(t, 4096) && ct_is_cancelled()) return false;
        if (names_vertex_twice(corner)) {
            if (!report->n_repeating++) {
                report->repeating = t;
                report->repeated_vertex = corner[0] == corner[1] ? corner[0] : corner[2];
            }
            continue;
        }
        for (int c = 0; c < 3; c++) {
            uint32_t from = corner[c], to = corner[c < 2 ? c + 1 : 0];
            starts[(from < to ? from : to) + 1]++;
        }
    }
    return true;
}

/* Moves each bucket's start to its end, which is where the next bucket starts. False: cancelled. */
static bool fill_buckets(const uint32_t *triangles, size_t n_triangles, size_t *starts, uint64_t *entries) {
    for (size_t t = 0; t < n_triangles; t++) {
        const uint32_t *corner = triangles + 3 * t;
        if (CT_POLL_EVERY(t, 4096) && ct_is_cancelled()) return false;
        if (names_vertex_twice(corner)) continue;
        for (int c = 0; c < 3; c++) {
            uint32_t from = corner[c], to = corner[c < 2 ? c + 1 : 0];
            if (from < to)
                entries[starts[from]++] = (uint64_t)(to << 1) << TRIANGLE_BITS | t;
            else
                entries[starts[to]++] = (uint64_t)(from << 1 | 1) << TRIANGLE_BITS | t;
        }
    }
    return true;
}

static bool add_up(size_t *starts, size_t n_vertices) {
    for (size_t v = 0; v < n_vertices; v++) {
        if (CT_POLL_EVERY(v, 1 << 14) && ct_is_cancelled()) return false;
        starts[v + 1] += starts[v];
    }
    return true;
}

static bool check_buckets(struct check *c, const size_t *starts, size_t n_vertices, uint64_t *entries) {
    for (size_t v = 0; v < n_vertices; v++) {
        const size_t begin = v ? starts[v - 1] : 0;
        if (CT_POLL_EVERY(v, 256) && ct_is_cancelled()) return false;
        if (!check_bucket(c, (uint32_t)v, entries + begin, starts[v] - begin)) return false;
    }
    return true;
}

ct_status ct_check_edges(const ct_soup *soup, ct_edge_report *report, uint32_t *shell, uint32_t *n_shells,
                         ct_error *error) {
    const size_t n = soup->n_triangles;
    memset(report, 0, sizeof *report);
    size_t *starts = calloc(soup->n_vertices + 1, sizeof *starts);
    uint64_t *entries = malloc(3 * n * sizeof *entries);
    struct check check = {soup->positions, soup->triangles, report, shell, 0};
    const bool is_checked =
        starts && entries && begin_shells(shell, n) && count_entries(soup->triangles, n, starts, report) &&
        add_up(starts, soup->n_vertices) && fill_buckets(soup->triangles, n, starts, entries) &&
        check_buckets(&check, starts, soup->n_vertices, entries) && number_shells(shell, n, n_shells);
    free(starts);
    free(entries);
    if (is_checked) return CT_OK;
    return ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory to check the edges of %zu triangles", n);
}
