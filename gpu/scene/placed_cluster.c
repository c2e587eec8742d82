/* placed_cluster.c - places a cluster's vertices, and lists the features of its triangles. */
#include "gpu/scene/placed_cluster.h"

#include <math.h>
#include <string.h>

#include "gpu/mesh/mesh.h"

static const ct_box none = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};

static void add_point(ct_box *box, const double p[3]) {
    for (int i = 0; i < 3; i++) {
        box->lo[i] = p[i] < box->lo[i] ? p[i] : box->lo[i];
        box->hi[i] = p[i] > box->hi[i] ? p[i] : box->hi[i];
    }
}

static void add_box(ct_box *box, const ct_box *other) {
    for (int i = 0; i < 3; i++) {
        box->lo[i] = other->lo[i] < box->lo[i] ? other->lo[i] : box->lo[i];
        box->hi[i] = other->hi[i] > box->hi[i] ? other->hi[i] : box->hi[i];
    }
}

/* The place of a vertex in the cluster's rising list of them. */
static uint16_t place_of(const uint32_t *vertices, uint32_t n, uint32_t vertex) {
    if (vertices[n - 1] - vertices[0] == n - 1) return (uint16_t)(vertex - vertices[0]); /* none is left out */
    uint32_t lo = 0, hi = n;
    while (hi - lo > 1) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (vertices[middle] <= vertex)
            lo = middle;
        else
            hi = middle;
    }
    return (uint16_t)lo;
}

void ct_cluster_place(ct_placed_cluster *placed, const ct_surface *surface, uint32_t cluster) {
    if (placed->surface == surface && placed->cluster == cluster) return;
    const ct_mesh *mesh = surface->body->mesh;
    const ct_clusters *clusters = surface->clusters;
    const uint32_t first = cluster * CT_CLUSTER_TRIANGLES, left = mesh->n_triangles - first;
    const uint32_t *vertices = clusters->vertices + clusters->first_vertex[cluster];
    /* Many bodies share a mesh: only places differ then. */
    const bool has_corners = placed->surface && placed->surface->clusters == clusters && placed->cluster == cluster;
    placed->surface = surface;
    placed->cluster = cluster;
    placed->axes = 0;
    placed->n = left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES;
    placed->n_vertices = clusters->first_vertex[cluster + 1] - clusters->first_vertex[cluster];
    for (uint32_t v = 0; v < placed->n_vertices; v++)
        ct_surface_place(surface, surface->positions + 3 * (size_t)vertices[v], placed->world[v]);
    for (uint32_t t = 0; t < placed->n && !has_corners; t++) {
        const uint32_t *corners = mesh->triangles + 3 * (size_t)(first + t);
        placed->owned[t] = 0;
        for (uint32_t k = 0; k < 3; k++) {
            placed->corner[t][k] = place_of(vertices, placed->n_vertices, corners[k]);
            /* The surface is closed: the triangle beyond the edge has it in the other direction. */
            placed->owned[t] |= (uint8_t)((corners[k] < corners[(k + 1) % 3]) << k);
        }
    }
}

void ct_cluster_turn(ct_placed_cluster *placed, const ct_search_axes *axes) {
    if (placed->axes == axes->number) return;
    placed->axes = axes->number;
    for (uint32_t v = 0; v < placed->n_vertices; v++) ct_search_turn(axes, placed->world[v], placed->turned[v]);
    for (uint32_t i = 1; i < CT_PLACED_PARTS; i++) placed->parts[i] = none;
    for (uint32_t t = 0; t < placed->n; t++) {
        ct_box *box = &placed->triangles[t];
        *box = none;
        for (int k = 0; k < 3; k++) add_point(box, placed->turned[placed->corner[t][k]]);
        add_box(&placed->parts[CT_PLACED_LEAVES + t / CT_PART_TRIANGLES], box);
    }
    for (uint32_t i = CT_PLACED_LEAVES - 1; i >= ct_placed_root(placed); i--) {
        add_box(&placed->parts[i], &placed->parts[2 * i]);
        add_box(&placed->parts[i], &placed->parts[2 * i + 1]);
    }
}

/* ---- features ---- */

/* What to list, and where. */
struct listing {
    const ct_placed_cluster *placed;
    const ct_box *box;
    double squared, error; /* from the box, m^2; of it, m */
    ct_closest_part *features;
};

static bool is_near(const struct listing *l, const ct_box *box) {
    return !(ct_squared_gap(box, l->box, l->error) > l->squared);
}

static void list_corner(const struct listing *l, uint32_t corner) {
    const double *at = l->placed->turned[corner];
    const ct_box box = {{at[0], at[1], at[2]}, {at[0], at[1], at[2]}};
    if (!is_near(l, &box)) return;
    l->features->corner_boxes[l->features->n_corners] = box;
    l->features->corners[l->features->n_corners++] = l->placed->world[corner];
}

static void list_edge(const struct listing *l, uint32_t p, uint32_t q) {
    ct_box box = none;
    add_point(&box, l->placed->turned[p]);
    add_point(&box, l->placed->turned[q]);
    if (!is_near(l, &box)) return;
    l->features->edge_boxes[l->features->n_edges] = box;
    l->features->edges[l->features->n_edges++] = ct_closest_edge_of(l->placed->world[p], l->placed->world[q]);
}

static void list_face(const struct listing *l, uint32_t t) {
    const uint16_t *corner = l->placed->corner[t];
    const double(*world)[3] = l->placed->world;
    add_box(&l->features->box, &l->placed->triangles[t]);
    l->features->face_boxes[l->features->n_faces] = l->placed->triangles[t];
    l->features->faces[l->features->n_faces++] =
        ct_closest_face_of(world[corner[0]], world[corner[1]], world[corner[2]]);
}

bool ct_cluster_list_near(const ct_placed_cluster *placed, uint32_t part, const ct_box *box, double squared,
                          double error, ct_closest_part *features) {
    const struct listing l = {placed, box, squared, error, features};
    const uint32_t first = (part - CT_PLACED_LEAVES) * CT_PART_TRIANGLES;
    const uint32_t end = first + CT_PART_TRIANGLES < placed->n ? first + CT_PART_TRIANGLES : placed->n;
    uint64_t looked_at[CT_PLACED_VERTICES / 64] = {0};
    features->n_corners = features->n_edges = features->n_faces = 0;
    features->box = none;
    for (uint32_t t = first; t < end; t++) {
        if (!is_near(&l, &placed->triangles[t])) continue;
        const uint16_t *corner = placed->corner[t];
        list_face(&l, t);
        for (uint32_t k = 0; k < 3; k++) {
            const uint64_t bit = (uint64_t)1 << corner[k] % 64;
            if (!(looked_at[corner[k] / 64] & bit)) list_corner(&l, corner[k]);
            looked_at[corner[k] / 64] |= bit;
            if (placed->owned[t] >> k & 1) list_edge(&l, corner[k], corner[(k + 1) % 3]);
        }
    }
    return features->n_faces > 0;
}
