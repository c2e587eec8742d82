/* topology.c - finds the units of a mesh's clusters, the walks over their vertices, and which units touch. */
#include "gpu/exact/topology.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/scratch.h"
#include "gpu/exact/block_order.h"
#include "gpu/mesh/mesh.h"

/* Vertices, units or triangles between two polls, some 50 us, and clusters: some 100 us. */
enum { ITEM_POLL = 8192, CLUSTER_POLL = 16 };

struct owned_topology {
    ct_topology topology;
    void *per_triangle; /* what steps read: of one piece, so that large meshes have it in huge pages */
    uint16_t (*corners)[3];
    ct_walk_step *walk;
    uint8_t *unit_in_cluster, *block_order;
    uint64_t *in_several_runs;
    uint32_t *first_unit, *cluster_of_unit, *first_neighbour, *component_of_unit, *first_of_component;
    ct_unit_neighbour *neighbours;
};

static void destroy(void *content) {
    struct owned_topology *owned = content;
    free(owned->per_triangle);
    free(owned->in_several_runs);
    free(owned->first_unit);
    free(owned->cluster_of_unit);
    free(owned->first_neighbour);
    free(owned->component_of_unit);
    free(owned->first_of_component);
    free(owned->neighbours);
    free(owned);
}

/* ---- units of a cluster ---- */

enum { MAX_CORNERS = 3 * CT_CLUSTER_TRIANGLES };

struct cluster {
    uint32_t n_triangles, n_vertices;
    const uint16_t (*corners)[3];
    uint16_t first_use[MAX_CORNERS + 1]; /* vertex v is used by uses[first_use[v]] .. */
    uint16_t uses[MAX_CORNERS];          /* 3 * triangle + corner */
};

static void list_uses(struct cluster *c) {
    uint16_t at[MAX_CORNERS + 1] = {0};
    for (uint32_t t = 0; t < c->n_triangles; t++)
        for (int k = 0; k < 3; k++) at[c->corners[t][k]]++;
    uint16_t sum = 0;
    for (uint32_t v = 0; v < c->n_vertices; v++) {
        const uint16_t count = at[v];
        c->first_use[v] = at[v] = sum;
        sum = (uint16_t)(sum + count);
    }
    c->first_use[c->n_vertices] = sum;
    for (uint32_t t = 0; t < c->n_triangles; t++)
        for (uint32_t k = 0; k < 3; k++) c->uses[at[c->corners[t][k]]++] = (uint16_t)(3 * t + k);
}

/* Walks over the cluster unit by unit, breadth first. Writes n_vertices steps and each triangle's unit; returns the
 * number of units. */
static uint32_t walk_cluster(struct cluster *c, ct_walk_step *walk, uint8_t *unit_in_cluster) {
    uint8_t is_reached[MAX_CORNERS] = {0};
    uint16_t queue[MAX_CORNERS];
    uint32_t n_units = 0, n_steps = 0;
    list_uses(c);
    for (uint32_t root = 0; root < c->n_vertices; root++) {
        if (is_reached[root]) continue;
        uint32_t head = 0, tail = 0;
        const uint16_t use = c->uses[c->first_use[root]];
        walk[n_steps++] = (ct_walk_step)((use / 3u) << 4 | (use % 3u) << 2 | use % 3u);
        is_reached[root] = 1;
        queue[tail++] = (uint16_t)root;
        while (head < tail) {
            const uint16_t v = queue[head++];
            for (uint32_t i = c->first_use[v]; i < c->first_use[v + 1]; i++) {
                const uint32_t t = c->uses[i] / 3u, from = c->uses[i] % 3u;
                unit_in_cluster[t] = (uint8_t)n_units;
                for (uint32_t to = 0; to < 3; to++) {
                    const uint16_t next = c->corners[t][to];
                    if (is_reached[next]) continue;
                    is_reached[next] = 1;
                    queue[tail++] = next;
                    walk[n_steps++] = (ct_walk_step)(t << 4 | from << 2 | to);
                }
            }
        }
        n_units++;
    }
    return n_units;
}

static uint32_t count_triangles(const ct_mesh *mesh, uint32_t cluster) {
    const uint32_t left = mesh->n_triangles - cluster * CT_CLUSTER_TRIANGLES;
    return left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES;
}

/* Fills corners, walk, unit_in_cluster and first_unit. local: [mesh vertices] scratch. False: cancelled. */
static bool find_units(const ct_mesh *mesh, struct owned_topology *owned, uint16_t *local) {
    const ct_clusters *clusters = owned->topology.clusters;
    uint32_t n_units = 0;
    for (uint32_t i = 0; i < clusters->n; i++) {
        if (CT_POLL_EVERY(i, CLUSTER_POLL) && ct_is_cancelled()) return false;
        const size_t first = (size_t)i * CT_CLUSTER_TRIANGLES;
        const uint32_t *vertices = clusters->vertices + clusters->first_vertex[i];
        struct cluster c = {.n_triangles = count_triangles(mesh, i),
                            .n_vertices = clusters->first_vertex[i + 1] - clusters->first_vertex[i],
                            .corners = owned->corners + first};
        for (uint32_t v = 0; v < c.n_vertices; v++) local[vertices[v]] = (uint16_t)v;
        for (size_t t = first; t < first + c.n_triangles; t++)
            for (int k = 0; k < 3; k++) owned->corners[t][k] = local[mesh->triangles[3 * t + (size_t)k]];
        owned->first_unit[i] = n_units;
        n_units += walk_cluster(&c, owned->walk + clusters->first_vertex[i], owned->unit_in_cluster + first);
    }
    owned->first_unit[clusters->n] = n_units;
    owned->topology.n_units = n_units;
    return true;
}

/* ---- runs of clusters ---- */

static size_t count_words(const ct_clusters *clusters) {
    return ((size_t)clusters->first_vertex[clusters->n] + 63) / 64;
}

/* run_of: [mesh vertices] scratch. False: cancelled. */
static bool find_runs(const ct_mesh *mesh, struct owned_topology *owned, uint32_t *run_of) {
    enum { NO_RUN = 0xFFFFFFFE, SEVERAL = 0xFFFFFFFF };
    const ct_clusters *clusters = owned->topology.clusters;
    for (uint32_t v = 0; v < mesh->n_vertices; v++) {
        if (CT_POLL_EVERY(v, ITEM_POLL) && ct_is_cancelled()) return false;
        run_of[v] = NO_RUN;
    }
    for (uint32_t c = 0; c < clusters->n; c++) {
        if (CT_POLL_EVERY(c, CLUSTER_POLL) && ct_is_cancelled()) return false;
        for (uint32_t i = clusters->first_vertex[c]; i < clusters->first_vertex[c + 1]; i++) {
            uint32_t *run = &run_of[clusters->vertices[i]];
            if (*run == NO_RUN)
                *run = c / CT_RUN_CLUSTERS;
            else if (*run != c / CT_RUN_CLUSTERS)
                *run = SEVERAL;
        }
    }
    for (uint32_t i = 0; i < clusters->first_vertex[clusters->n]; i++) {
        if (CT_POLL_EVERY(i, ITEM_POLL) && ct_is_cancelled()) return false;
        if (run_of[clusters->vertices[i]] == SEVERAL) owned->in_several_runs[i / 64] |= 1ull << i % 64;
    }
    return true;
}

/* False: out of memory, or cancelled. */
static bool mark_shared_vertices(const ct_mesh *mesh, struct owned_topology *owned) {
    uint32_t *run_of = malloc((size_t)mesh->n_vertices * sizeof *run_of);
    owned->in_several_runs = calloc(count_words(owned->topology.clusters), sizeof *owned->in_several_runs);
    const bool ok = run_of && owned->in_several_runs && find_runs(mesh, owned, run_of);
    free(run_of);
    return ok;
}

/* ---- neighbours ---- */

/* A vertex in a unit. */
struct membership {
    uint32_t unit;
    uint16_t vertex; /* in the cluster's list */
};

struct memberships {
    uint32_t *first; /* [mesh vertices + 1] */
    struct membership *list;
};

/* A vertex of a unit, in the order of the walks: rising units. */
struct member {
    uint32_t cluster, step, unit;
    uint32_t global; /* vertex of the mesh */
    uint16_t vertex; /* in the cluster's list */
    bool begins_unit;
};

static struct member before_first(void) {
    return (struct member){.unit = UINT32_MAX};
}

/* False: there are no more. */
static bool next_member(const struct owned_topology *owned, struct member *m) {
    const ct_clusters *clusters = owned->topology.clusters;
    if (m->step == clusters->first_vertex[clusters->n]) return false;
    while (m->step == clusters->first_vertex[m->cluster + 1]) m->cluster++;
    const ct_walk_step step = owned->walk[m->step++];
    const size_t triangle = (size_t)m->cluster * CT_CLUSTER_TRIANGLES + ct_walk_triangle(step);
    m->begins_unit = ct_walk_from(step) == ct_walk_to(step);
    m->unit += m->begins_unit;
    m->vertex = owned->corners[triangle][ct_walk_to(step)];
    m->global = clusters->vertices[clusters->first_vertex[m->cluster] + m->vertex];
    return true;
}

static bool list_memberships(const ct_mesh *mesh, const struct owned_topology *owned, struct memberships *m) {
    const ct_clusters *clusters = owned->topology.clusters;
    m->first = calloc((size_t)mesh->n_vertices + 2, sizeof *m->first);
    m->list = malloc((clusters->first_vertex[clusters->n] + 1) * sizeof *m->list);
    if (!m->first || !m->list) return false;
    uint32_t *at = m->first + 1; /* becomes each vertex's end, which is the next one's start */
    for (uint32_t i = 0; i < clusters->first_vertex[clusters->n]; i++) {
        if (CT_POLL_EVERY(i, ITEM_POLL) && ct_is_cancelled()) return false;
        at[clusters->vertices[i] + 1]++;
    }
    for (uint32_t v = 0; v < mesh->n_vertices; v++) {
        if (CT_POLL_EVERY(v, ITEM_POLL) && ct_is_cancelled()) return false;
        at[v + 1] += at[v];
    }
    for (struct member member = before_first(); next_member(owned, &member);) {
        if (CT_POLL_EVERY(member.step, ITEM_POLL) && ct_is_cancelled()) return false;
        m->list[at[member.global]++] = (struct membership){member.unit, member.vertex};
    }
    return true;
}

/* Lists the neighbours of all units; with to NULL it only counts them. False: cancelled, or more than can be numbered,
 * where very many clusters share a vertex. */
static bool list_neighbours(struct owned_topology *owned, const struct memberships *m, uint32_t *last_seen,
                            ct_unit_neighbour *to, uint32_t *count) {
    uint32_t n = 0, n_looked_at = 0;
    memset(last_seen, -1, owned->topology.n_units * sizeof *last_seen);
    for (struct member member = before_first(); next_member(owned, &member);) {
        if (member.begins_unit) owned->first_neighbour[member.unit] = n;
        last_seen[member.unit] = member.unit;
        for (uint32_t i = m->first[member.global]; i < m->first[member.global + 1]; i++) {
            const struct membership other = m->list[i];
            if (CT_POLL_EVERY(++n_looked_at, ITEM_POLL) && (ct_is_cancelled() || n > UINT32_MAX - ITEM_POLL))
                return false;
            if (last_seen[other.unit] == member.unit) continue;
            last_seen[other.unit] = member.unit;
            if (to) to[n] = (ct_unit_neighbour){other.unit, member.vertex, other.vertex};
            n++;
        }
    }
    owned->first_neighbour[owned->topology.n_units] = n;
    *count = n;
    return true;
}

/* queue: [n_units] scratch. False: cancelled. */
static bool find_components(struct owned_topology *owned, uint32_t *queue) {
    const uint32_t n_units = owned->topology.n_units;
    memset(owned->component_of_unit, -1, n_units * sizeof *owned->component_of_unit);
    uint32_t n = 0, n_looked_at = 0;
    for (uint32_t root = 0; root < n_units; root++) {
        if (owned->component_of_unit[root] != UINT32_MAX) continue;
        uint32_t head = 0, tail = 0;
        owned->component_of_unit[root] = n;
        owned->first_of_component[n] = root;
        queue[tail++] = root;
        while (head < tail) {
            const uint32_t unit = queue[head++];
            for (uint32_t i = owned->first_neighbour[unit]; i < owned->first_neighbour[unit + 1]; i++) {
                const uint32_t next = owned->neighbours[i].unit;
                if (CT_POLL_EVERY(++n_looked_at, ITEM_POLL) && ct_is_cancelled()) return false;
                if (owned->component_of_unit[next] != UINT32_MAX) continue;
                owned->component_of_unit[next] = n;
                queue[tail++] = next;
            }
        }
        n++;
    }
    owned->topology.n_components = n;
    return true;
}

/* False: out of memory, or cancelled. */
static bool connect_units(const ct_mesh *mesh, struct owned_topology *owned) {
    const uint32_t n_units = owned->topology.n_units;
    struct memberships m = {0};
    uint32_t *scratch = malloc(((size_t)n_units + 1) * sizeof *scratch);
    owned->cluster_of_unit = malloc(((size_t)n_units + 1) * sizeof *owned->cluster_of_unit);
    owned->first_neighbour = malloc(((size_t)n_units + 1) * sizeof *owned->first_neighbour);
    owned->component_of_unit = malloc(((size_t)n_units + 1) * sizeof *owned->component_of_unit);
    owned->first_of_component = malloc(((size_t)n_units + 1) * sizeof *owned->first_of_component);
    bool ok = scratch && owned->cluster_of_unit && owned->first_neighbour && owned->component_of_unit &&
              owned->first_of_component && list_memberships(mesh, owned, &m);
    uint32_t n = 0;
    ok = ok && list_neighbours(owned, &m, scratch, NULL, &n);
    if (ok) {
        owned->neighbours = malloc(((size_t)n + 1) * sizeof *owned->neighbours);
        ok = owned->neighbours && list_neighbours(owned, &m, scratch, owned->neighbours, &n);
    }
    if (ok) {
        for (uint32_t c = 0; c < owned->topology.clusters->n; c++)
            for (uint32_t u = owned->first_unit[c]; u < owned->first_unit[c + 1]; u++) owned->cluster_of_unit[u] = c;
        ok = find_components(owned, scratch);
    }
    free(m.first);
    free(m.list);
    free(scratch);
    return ok;
}

/* ---- the slot ---- */

/* False: out of memory. */
static bool allocate_per_triangle(const ct_mesh *mesh, struct owned_topology *owned) {
    const ct_clusters *clusters = owned->topology.clusters;
    const size_t n = mesh->n_triangles, n_steps = clusters->first_vertex[clusters->n];
    char *memory = ct_scratch_new(n * (sizeof *owned->corners + 2) + n_steps * sizeof *owned->walk);
    if (!memory) return false;
    owned->per_triangle = memory;
    owned->corners = (uint16_t(*)[3])memory;
    owned->walk = (ct_walk_step *)(owned->corners + n);
    owned->unit_in_cluster = (uint8_t *)(owned->walk + n_steps);
    owned->block_order = owned->unit_in_cluster + n;
    return true;
}

static bool make_arrays(const ct_mesh *mesh, struct owned_topology *owned) {
    const ct_clusters *clusters = owned->topology.clusters;
    owned->first_unit = malloc(((size_t)clusters->n + 1) * sizeof *owned->first_unit);
    uint16_t *local = malloc((size_t)mesh->n_vertices * sizeof *local);
    bool ok = allocate_per_triangle(mesh, owned) && owned->first_unit && local;
    ok = ok && find_units(mesh, owned, local);
    for (uint32_t c = 0; ok && c < clusters->n; c++) {
        if (CT_POLL_EVERY(c, CLUSTER_POLL) && ct_is_cancelled()) ok = false;
        const uint32_t first = c * CT_CLUSTER_TRIANGLES, left = mesh->n_triangles - first;
        ct_order_blocks(mesh->positions, mesh->triangles + 3 * (size_t)first,
                        left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES, owned->block_order + first);
    }
    free(local);
    return ok && mark_shared_vertices(mesh, owned) && connect_units(mesh, owned);
}

static uint64_t bytes_of(const ct_mesh *mesh, const struct owned_topology *owned) {
    const ct_topology *t = &owned->topology;
    return sizeof *owned + (uint64_t)mesh->n_triangles * (sizeof *t->corners + 2) +
           (uint64_t)t->clusters->first_vertex[t->clusters->n] * sizeof *t->walk +
           count_words(t->clusters) * sizeof *t->in_several_runs +
           (uint64_t)(t->clusters->n + 1) * sizeof *t->first_unit +
           (uint64_t)t->n_units * 4 * sizeof *t->first_neighbour +
           (uint64_t)t->first_neighbour[t->n_units] * sizeof *t->neighbours;
}

static void *make(ct_mesh *mesh, uint64_t *bytes, ct_error *error) {
    const ct_clusters *clusters = ct_mesh_clusters(mesh, error);
    if (!clusters) return NULL;
    ct_enter_phase("making a mesh's topology");
    struct owned_topology *owned = calloc(1, sizeof *owned);
    if (owned) owned->topology.clusters = clusters;
    if (!owned || !make_arrays(mesh, owned)) {
        if (owned) destroy(owned);
        ct_fail(error, CT_OUT_OF_MEMORY, "mesh", "no memory for the cluster topology of %u triangles, about %llu bytes",
                mesh->n_triangles, 10ull * mesh->n_triangles);
        return NULL;
    }
    ct_topology *t = &owned->topology;
    t->corners = (const uint16_t(*)[3])owned->corners;
    t->walk = owned->walk;
    t->in_several_runs = owned->in_several_runs;
    t->unit_in_cluster = owned->unit_in_cluster;
    t->block_order = owned->block_order;
    t->first_unit = owned->first_unit;
    t->cluster_of_unit = owned->cluster_of_unit;
    t->first_neighbour = owned->first_neighbour;
    t->neighbours = owned->neighbours;
    t->component_of_unit = owned->component_of_unit;
    t->first_of_component = owned->first_of_component;
    *bytes = bytes_of(mesh, owned);
    return t; /* the first member of *owned */
}

static const ct_mesh_slot_kind kind = {"cluster topology", make, destroy};

const ct_topology *ct_mesh_topology(ct_mesh *mesh, ct_error *error) {
    return ct_mesh_slot_get(mesh, &kind, error);
}
