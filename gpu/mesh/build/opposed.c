/* opposed.c - triangles that face both ways: patches of them, and where these end. */
#include "gpu/mesh/build/opposed.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/build/repair.h"

enum { POLL = 256 };

struct opposed {
    uint32_t *triangles; /* [n][3] those that are kept or to be settled */
    uint32_t *number;    /* [n] of each in the soup */
    uint32_t *parent;    /* [n] towards the root of its patch */
    bool *is_settled;    /* [n] it is kept */
    bool *is_misplaced;  /* [n] of roots: the patch ends where it should not */
    ct_half_edge *edges;
    size_t n, n_edges;
};

static bool collect(struct opposed *o, const ct_soup *soup, const uint8_t *dropping) {
    const size_t n = soup->n_triangles;
    o->triangles = malloc(12 * n + 1);
    o->number = malloc((n + 1) * sizeof *o->number);
    o->parent = malloc((n + 1) * sizeof *o->parent);
    o->is_settled = malloc(n + 1);
    o->is_misplaced = calloc(n + 1, 1);
    if (!o->triangles || !o->number || !o->parent || !o->is_settled || !o->is_misplaced) return false;
    for (size_t t = 0; t < n; t++) {
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        if (dropping[t] != CT_KEEP && dropping[t] != CT_OPPOSED) continue;
        memcpy(o->triangles + 3 * o->n, soup->triangles + 3 * t, 12);
        o->number[o->n] = (uint32_t)t;
        o->parent[o->n] = (uint32_t)o->n;
        o->is_settled[o->n++] = dropping[t] == CT_KEEP;
    }
    o->edges = ct_half_edges(o->triangles, o->n, &o->n_edges);
    return o->edges;
}

static uint32_t root_of(uint32_t *parent, uint32_t t) {
    for (; parent[t] != t; t = parent[t] = parent[parent[t]]) continue;
    return t;
}

/* The half edges of one edge: begin to end. */
struct edge {
    size_t begin, end, n_kept, n_opposed;
};

static struct edge edge_at(const struct opposed *o, size_t i) {
    struct edge e = {i, i, 0, 0};
    for (; e.end < o->n_edges && o->edges[e.end].key == o->edges[i].key; e.end++) {
        const bool is_kept = o->is_settled[o->edges[e.end].triangle];
        e.n_kept += is_kept;
        e.n_opposed += !is_kept;
    }
    return e;
}

/* Whether an edge is inside a patch: it stays closed with all of it and without. */
static bool is_inside(const struct edge *e) {
    return e->n_kept == 0 && e->n_opposed % 2 == 0;
}

static bool connect(struct opposed *o) {
    struct edge e;
    for (size_t i = 0; i < o->n_edges; i = e.end) {
        e = edge_at(o, i);
        if (CT_POLL_EVERY(e.end, POLL) && ct_is_cancelled()) return false;
        for (size_t k = i + 1; k < e.end && is_inside(&e); k++) {
            const uint32_t a = root_of(o->parent, o->edges[i].triangle), b = root_of(o->parent, o->edges[k].triangle);
            o->parent[a > b ? a : b] = a > b ? b : a;
        }
    }
    return true;
}

static bool judge_ends(struct opposed *o, bool is_open) {
    struct edge e;
    for (size_t i = 0; i < o->n_edges; i = e.end) {
        e = edge_at(o, i);
        if (CT_POLL_EVERY(e.end, POLL) && ct_is_cancelled()) return false;
        const bool is_filling = e.n_opposed == 1 && (e.n_kept % 2 == 1 || (is_open && !e.n_kept));
        if (is_inside(&e) || is_filling) continue;
        for (size_t k = i; k < e.end; k++) o->is_misplaced[root_of(o->parent, o->edges[k].triangle)] = true;
    }
    return true;
}

bool ct_settle_opposed(const ct_soup *soup, bool is_open, uint8_t *dropping) {
    struct opposed o = {.n = 0};
    const bool is_done = collect(&o, soup, dropping) && connect(&o) && judge_ends(&o, is_open);
    for (size_t i = 0; i < o.n && is_done; i++)
        if (!o.is_settled[i])
            dropping[o.number[i]] = o.is_misplaced[root_of(o.parent, (uint32_t)i)] ? CT_DROP_DUPLICATE : CT_KEEP;
    free(o.triangles), free(o.number), free(o.parent), free(o.is_settled), free(o.is_misplaced), free(o.edges);
    return is_done;
}
