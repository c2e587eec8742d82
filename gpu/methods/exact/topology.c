/* topology.c - orders the triangles of a mesh's clusters into blocks, finds the units of its clusters, the walks over
 * their vertices and which units touch; copies what rigid bodies need into the order of clusters; and makes spanning
 * forests. */
#include "gpu/methods/exact/topology.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/scratch.h"
#include "gpu/mesh/mesh.h"

/* ---- blocks: the leaves of a k-d tree over the triangles' centroids ---- */

struct item {
    float center[3]; /* three times the centroid */
    uint8_t triangle;
};

static int longest_axis(const struct item *items, uint32_t n) {
    float size[3];
    for (int k = 0; k < 3; k++) {
        float lo = INFINITY, hi = -INFINITY;
        for (uint32_t i = 0; i < n; i++) {
            lo = items[i].center[k] < lo ? items[i].center[k] : lo;
            hi = items[i].center[k] > hi ? items[i].center[k] : hi;
        }
        size[k] = hi - lo;
    }
    const int of_two = size[1] > size[0];
    return size[2] > size[of_two] ? 2 : of_two;
}

/* Moves the `left` first items along an axis to the front (quickselect). */
static void select_first(struct item *items, uint32_t n, uint32_t left, int axis) {
    for (int64_t first = 0, last = (int64_t)n - 1; first < last;) {
        const float pivot = items[(first + last) / 2].center[axis];
        int64_t i = first, j = last;
        while (i <= j) {
            while (items[i].center[axis] < pivot) i++;
            while (items[j].center[axis] > pivot) j--;
            if (i > j) break;
            const struct item moved = items[i];
            items[i++] = items[j];
            items[j--] = moved;
        }
        /* [first, j] are not after the pivot, [i, last] not before it, and what is between equals it. */
        if (left <= j)
            last = j;
        else if (left > i)
            first = i;
        else
            return;
    }
}

static void split_items(struct item *items, uint32_t n) {
    if (n <= CT_EXACT_BLOCK) return;
    const uint32_t left = (n / 2 + CT_EXACT_BLOCK - 1) / CT_EXACT_BLOCK * CT_EXACT_BLOCK;
    select_first(items, n, left, longest_axis(items, n));
    split_items(items, left);
    split_items(items + left, n - left);
}

/* Lists n triangles, at most CT_CLUSTER_TRIANGLES, block by block: block i are order[8 i .. 8 i + 7]. triangles:
 * [n][3], vertices in positions. Splits by the triangles' centroids, as order.h does. */
static void order_blocks(const float *positions, const uint32_t *triangles, uint32_t n, uint8_t *order) {
    struct item items[CT_CLUSTER_TRIANGLES];
    for (uint32_t t = 0; t < n; t++) {
        const float *p = positions + 3 * (size_t)triangles[3 * t], *q = positions + 3 * (size_t)triangles[3 * t + 1],
                    *r = positions + 3 * (size_t)triangles[3 * t + 2];
        for (int k = 0; k < 3; k++) items[t].center[k] = p[k] + q[k] + r[k];
        items[t].triangle = (uint8_t)t;
    }
    split_items(items, n);
    for (uint32_t t = 0; t < n; t++) order[t] = items[t].triangle;
}

/* ---- the slot of the topology ---- */

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

/* ---- all of it ---- */

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
        order_blocks(mesh->positions, mesh->triangles + 3 * (size_t)first,
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

/* ---- clusters of rigid bodies ---- */

struct owned_clusters {
    ct_rigid_clusters clusters;
    float (*positions)[3];
    ct_rigid_blocks *blocks;
};

static void destroy_rigid(void *content) {
    struct owned_clusters *owned = content;
    free(owned->positions);
    free(owned->blocks);
    free(owned);
}

/* False: cancelled. */
static bool copy_positions(const ct_mesh *mesh, const ct_clusters *clusters, float (*to)[3]) {
    for (uint32_t i = 0; i < clusters->first_vertex[clusters->n]; i++) {
        if (CT_POLL_EVERY(i, 8192) && ct_is_cancelled()) return false;
        memcpy(to[i], mesh->positions + 3 * (size_t)clusters->vertices[i], sizeof to[i]);
    }
    return true;
}

/* Of the triangles first + order[0 .. n - 1]. */
static ct_cluster_box box_triangles(const ct_mesh *mesh, uint32_t first, const uint8_t *order, uint32_t n) {
    ct_cluster_box box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    for (uint32_t i = 0; i < 3 * n; i++) {
        const float *p = mesh->positions + 3 * (size_t)mesh->triangles[3 * ((size_t)first + order[i / 3]) + i % 3];
        for (int k = 0; k < 3; k++) {
            box.lo[k] = fminf(box.lo[k], p[k]);
            box.hi[k] = fmaxf(box.hi[k], p[k]);
        }
    }
    if (mesh->low) ct_clusters_widen(0, 1, &box);
    return box;
}

/* Whole steps in a distance. A step of rounding is kept back: what remains is rounded by less. */
static uint8_t count_steps(double distance, double step) {
    if (!(step > 0)) return 0;
    return (uint8_t)fmin(254, fmax(0, floor(distance / step * (1 - 0x1p-40))));
}

static void find_blocks(const ct_mesh *mesh, const ct_topology *topology, uint32_t cluster, ct_rigid_blocks *to) {
    const ct_cluster_box *whole = &topology->clusters->rest[cluster];
    const uint32_t first_triangle = cluster * CT_CLUSTER_TRIANGLES, n_triangles = mesh->n_triangles - first_triangle;
    for (uint32_t i = 0; i < CT_EXACT_BLOCKS; i++) {
        const uint32_t first = i * CT_EXACT_BLOCK, left = n_triangles - first;
        for (int k = 0; k < 6; k++) to->inset[k][i] = 255;
        if (first >= n_triangles) continue;
        const ct_cluster_box box = box_triangles(mesh, first_triangle, topology->block_order + first_triangle + first,
                                                 left < CT_EXACT_BLOCK ? left : CT_EXACT_BLOCK);
        for (int k = 0; k < 3; k++) {
            const double step = ct_block_step(whole, k);
            to->inset[k][i] = count_steps((double)box.lo[k] - (double)whole->lo[k], step);
            to->inset[3 + k][i] = count_steps((double)whole->hi[k] - (double)box.hi[k], step);
        }
    }
}

static void *make_rigid(ct_mesh *mesh, uint64_t *bytes, ct_error *error) {
    const ct_topology *topology = ct_mesh_topology(mesh, error);
    if (!topology) return NULL;
    const ct_clusters *clusters = topology->clusters;
    const size_t n_vertices = clusters->first_vertex[clusters->n];
    const bool copies_positions = n_vertices <= mesh->n_triangles && !mesh->low;
    ct_enter_phase("making a mesh's clusters");
    struct owned_clusters *owned = calloc(1, sizeof *owned);
    if (owned) {
        owned->blocks = malloc(clusters->n * sizeof *owned->blocks);
        if (copies_positions) owned->positions = ct_scratch_new(n_vertices * sizeof *owned->positions);
    }
    if (!owned || !owned->blocks || (copies_positions && !owned->positions)) {
        if (owned) destroy_rigid(owned);
        ct_fail(error, CT_OUT_OF_MEMORY, "mesh",
                "no memory for the positions of %u triangles in the order of clusters, about %llu bytes",
                mesh->n_triangles, 10ull * mesh->n_triangles);
        return NULL;
    }
    bool ok = true;
    for (uint32_t c = 0; ok && c < clusters->n; c++) {
        find_blocks(mesh, topology, c, &owned->blocks[c]);
        ok = !CT_POLL_EVERY(c, 16) || !ct_is_cancelled();
    }
    if (!ok || (copies_positions && !copy_positions(mesh, clusters, owned->positions))) {
        destroy_rigid(owned);
        ct_fail_cancelled(error);
        return NULL;
    }
    owned->clusters.positions = (const float(*)[3])owned->positions;
    owned->clusters.blocks = owned->blocks;
    *bytes = sizeof *owned + clusters->n * sizeof *owned->blocks +
             (copies_positions ? n_vertices * sizeof *owned->positions : 0);
    return owned; /* whose first member is the content */
}

static const ct_mesh_slot_kind rigid_kind = {"rigid clusters", make_rigid, destroy_rigid};

bool ct_has_rigid_clusters(const ct_mesh *mesh) {
    return mesh->n_triangles >= CT_CLUSTERED_TRIANGLES;
}

const ct_rigid_clusters *ct_mesh_rigid_clusters(ct_mesh *mesh, ct_error *error) {
    return ct_mesh_slot_get(mesh, &rigid_kind, error);
}

/* ---- spanning forests ---- */

bool ct_make_unit_tree(const ct_topology *topology, ct_unit_link *links) {
    const uint32_t n = topology->n_units;
    uint32_t *next_neighbour = malloc(((size_t)n + 1) * sizeof *next_neighbour);
    bool *is_reached = calloc((size_t)n + 1, sizeof *is_reached);
    bool ok = next_neighbour && is_reached;
    uint32_t placed = 0, n_steps = 0;
    for (uint32_t c = 0; ok && c < topology->n_components; c++) {
        const uint32_t root = topology->first_of_component[c];
        links[root] = (ct_unit_link){.parent = CT_NO_PARENT, .first = placed++};
        next_neighbour[root] = topology->first_neighbour[root];
        is_reached[root] = true;
        for (uint32_t unit = root; ok && unit != CT_NO_PARENT;) {
            if (CT_POLL_EVERY(++n_steps, 8192) && ct_is_cancelled()) ok = false;
            if (next_neighbour[unit] == topology->first_neighbour[unit + 1]) {
                links[unit].end = placed;
                unit = links[unit].parent;
                continue;
            }
            const ct_unit_neighbour found = topology->neighbours[next_neighbour[unit]++];
            if (is_reached[found.unit]) continue;
            is_reached[found.unit] = true;
            links[found.unit] = (ct_unit_link){
                .parent = unit, .own_vertex = found.its_vertex, .its_vertex = found.own_vertex, .first = placed++};
            unit = found.unit;
            next_neighbour[unit] = topology->first_neighbour[unit];
        }
    }
    free(next_neighbour);
    free(is_reached);
    return ok;
}

/* What the walk knows of a triangle. */
struct tree_walk {
    uint8_t *next_edge; /* [n_triangles] whose other side is looked at next */
    bool *is_reached;   /* [n_triangles] */
    uint32_t placed;    /* triangles that have a place */
    uint32_t n_steps;
};

static void reach(struct tree_walk *walk, ct_triangle_link *links, uint32_t triangle, uint32_t parent_edge) {
    links[triangle] = (ct_triangle_link){.parent_edge = parent_edge, .first = walk->placed++};
    walk->is_reached[triangle] = true;
}

/* False: cancelled. */
static bool walk_component(struct tree_walk *walk, const ct_adjacency *adjacency, uint32_t root,
                           ct_triangle_link *links) {
    reach(walk, links, root, CT_NO_PARENT_EDGE);
    for (uint32_t triangle = root;;) {
        if (CT_POLL_EVERY(++walk->n_steps, 8192) && ct_is_cancelled()) return false;
        if (walk->next_edge[triangle] == 3) {
            const uint32_t up = links[triangle].parent_edge;
            links[triangle].end = walk->placed;
            if (up == CT_NO_PARENT_EDGE) return true;
            triangle = ct_half_edge_triangle(ct_half_edge_opposite(adjacency, 3 * triangle + up));
            continue;
        }
        const uint32_t half_edge = ct_half_edge_opposite(adjacency, 3 * triangle + walk->next_edge[triangle]++);
        const uint32_t next = ct_half_edge_triangle(half_edge);
        if (walk->is_reached[next]) continue;
        reach(walk, links, next, ct_half_edge_corner(half_edge));
        triangle = next;
    }
}

bool ct_make_triangle_tree(const ct_adjacency *adjacency, uint32_t n_triangles, ct_triangle_link *links,
                           uint32_t *roots, uint32_t *n_roots) {
    struct tree_walk walk = {.next_edge = calloc((size_t)n_triangles + 1, sizeof *walk.next_edge),
                             .is_reached = calloc((size_t)n_triangles + 1, sizeof *walk.is_reached)};
    bool ok = walk.next_edge && walk.is_reached;
    *n_roots = 0;
    for (uint32_t t = 0; ok && t < n_triangles; t++) {
        if (walk.is_reached[t]) continue;
        roots[(*n_roots)++] = t;
        ok = walk_component(&walk, adjacency, t, links);
    }
    free(walk.next_edge);
    free(walk.is_reached);
    return ok;
}
