/* piece_ray.c - the intersection's boundary along a ray, to find out which boundaries belong together. In doubles:
 * which of two triangles a ray meets at their edge does not matter, as both belong to one boundary. */
#include "gpu/exact/piece_nodes.h"

struct ray {
    ct_piece_search *search;
    int pass, body; /* the surface that it looks for */
    const double *p;
    double least_x;
    const uint32_t *root;
    uint32_t own;
    ct_boundary_hit nearest;
};

/* Where the ray's line meets a triangle, in its barycentric coordinates. */
static bool meets_triangle(const struct ray *ray, const double *const q[3], double at[2], double *x) {
    double e[3], area = 0;
    for (int k = 0; k < 3; k++) {
        const double *a = q[k], *b = q[(k + 1) % 3], *p = ray->p;
        e[k] = (a[1] - p[1]) * (b[2] - p[2]) - (a[2] - p[2]) * (b[1] - p[1]);
        area += e[k];
    }
    if (area == 0) return false; /* seen edge-on: its neighbours are met */
    for (int k = 0; k < 3; k++)
        if (!(e[k] / area >= -1e-12)) return false;
    at[0] = fmax(0, e[2] / area);
    at[1] = fmax(0, e[0] / area);
    *x = q[0][0] + at[0] * (q[1][0] - q[0][0]) + at[1] * (q[2][0] - q[0][0]);
    return true;
}

uint32_t ct_node_at(ct_piece_search *search, int pass, int b, uint32_t triangle, const double at[2]) {
    const ct_piece_surface *surface = &search->surface[pass][b];
    const uint32_t first = ct_first_crossing_from(surface, triangle, 0);
    uint32_t end = first;
    if (first < surface->n_crossings && surface->crossings[first].triangle == triangle)
        end = ct_end_of_crossings(surface, first);
    if (first == end) /* most triangles */
        return ct_winding_at(search, pass, b, triangle, 0) ? ct_corner_node(search, pass, b, triangle, 0)
                                                           : (uint32_t)CT_NO_NODE;
    ct_triangle_map map = ct_link_stretches(search, pass, b, triangle, first, end);
    ct_place_stretches(search, &map);
    const ct_region region = ct_find_region(search, &map, at);
    return region.winding ? region.node : (uint32_t)CT_NO_NODE;
}

static void look_at_cluster(void *argument, uint32_t cluster) {
    struct ray *ray = argument;
    ct_piece_search *search = ray->search;
    const ct_placed_cluster *c = search->place(search->argument, ray->body, cluster);
    if (!c) search->has_failed = true;
    for (uint32_t t = 0; c && t < c->n_triangles; t++) {
        const double *q[3];
        double at[2], x;
        for (int k = 0; k < 3; k++) q[k] = c->points[c->corners[t][k]];
        if (!meets_triangle(ray, q, at, &x) || x < ray->least_x || x >= ray->nearest.x) continue;
        const uint32_t node = ct_node_at(search, ray->pass, ray->body, cluster * CT_CLUSTER_TRIANGLES + t, at);
        if (node == CT_NO_NODE || ray->root[node] == ray->own) continue;
        ray->nearest = (ct_boundary_hit){x, node};
    }
}

ct_boundary_hit ct_find_next_boundary(ct_piece_search *search, int pass, const double *p, double least_x,
                                      const uint32_t *root, uint32_t own) {
    struct ray ray = {.search = search,
                      .pass = pass,
                      .p = p,
                      .least_x = least_x,
                      .root = root,
                      .own = own,
                      .nearest = {INFINITY, CT_NO_NODE}};
    for (ray.body = 0; ray.body < 2 && !search->has_failed; ray.body++)
        ct_find_clusters_on_ray(search->body[ray.body], p, look_at_cluster, &ray);
    return ray.nearest;
}
