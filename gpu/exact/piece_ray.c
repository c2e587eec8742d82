/* piece_ray.c - the intersection's boundary along a ray, to find out which boundaries belong together. */
#include <string.h>

#include "gpu/exact/piece_nodes.h"

uint32_t ct_node_at(ct_piece_search *search, int pass, int b, uint32_t triangle, const double at[2],
                    bool *is_at_curve) {
    const ct_crossing_range range = ct_crossings_of(search, pass, b, triangle);
    ct_triangle_map map;
    *is_at_curve = false;
    if (range.first == range.end) /* most triangles */
        return ct_winding_at(search, pass, b, triangle, 0) ? ct_corner_node(search, pass, b, triangle, 0)
                                                           : (uint32_t)CT_NO_NODE;
    if (!ct_map_triangle(search, pass, b, range.first, &map)) return CT_NO_NODE;
    const ct_region region = ct_find_region(search, &map, at);
    *is_at_curve = region.is_at_curve;
    return region.winding ? region.node : (uint32_t)CT_NO_NODE;
}

struct ray {
    ct_piece_search *search;
    int pass;
    double least_x;
    const uint32_t *root;
    uint32_t own;
    ct_met_triangle nearest;
    uint32_t node; /* of the nearest hit; CT_NO_NODE: there is none yet */
    double far;    /* where it is; INFINITY: there is none yet */
};

/* By x, so that the nearest hit does not depend on the order in which hits are reported. */
static bool is_nearer(const ct_met_triangle *hit, const ct_met_triangle *than) {
    if (hit->x != than->x) return hit->x < than->x;
    return hit->body != than->body ? hit->body < than->body : hit->triangle < than->triangle;
}

static double look_at_hit(void *argument, const ct_met_triangle *hit) {
    struct ray *ray = argument;
    bool is_at_curve;
    if (hit->x < ray->least_x || (ray->node != CT_NO_NODE && !is_nearer(hit, &ray->nearest))) return ray->far;
    const uint32_t node = ct_node_at(ray->search, ray->pass, hit->body, hit->triangle, hit->at, &is_at_curve);
    if (node == CT_NO_NODE || ray->root[node] == ray->own) return ray->far;
    ray->nearest = *hit;
    ray->node = node;
    return ray->far = hit->x;
}

ct_boundary_hit ct_find_next_boundary(ct_piece_search *search, int pass, const double *p, double least_x,
                                      const uint32_t *root, uint32_t own) {
    struct ray ray = {.search = search,
                      .pass = pass,
                      .least_x = least_x,
                      .root = root,
                      .own = own,
                      .node = CT_NO_NODE,
                      .far = INFINITY};
    const ct_piece_source *source = &search->source;
    for (int b = 0; b < 2 && !search->has_failed; b++)
        if (!source->find_hits(source->argument, b, p, ray.far, look_at_hit, &ray)) search->has_failed = true;
    return (ct_boundary_hit){ray.nearest.x, ray.node};
}

/* ---- all hits ---- */

struct hit_list {
    ct_piece_search *search;
    ct_ray_hits *hits;
    int body;
    uint32_t triangle;
    double far; /* the triangle's largest x; INFINITY: it has not been met yet */
};

static double list_hit(void *argument, const ct_met_triangle *hit) {
    struct hit_list *list = argument;
    ct_ray_hits *hits = list->hits;
    if (hits->n == hits->capacity && !list->search->has_failed) {
        const uint32_t larger = 2 * hits->capacity + 16;
        ct_met_triangle *of = ct_piece_allocate(list->search, larger * sizeof *of);
        if (!of) return list->far;
        if (hits->n) memcpy(of, hits->of, hits->n * sizeof *of);
        hits->of = of;
        hits->capacity = larger;
    }
    if (!list->search->has_failed) hits->of[hits->n++] = *hit;
    if (hit->body == list->body && hit->triangle == list->triangle)
        list->far = fmax(hit->corner[0][0], fmax(hit->corner[1][0], hit->corner[2][0]));
    return list->far;
}

void ct_list_hits(ct_piece_search *search, const double p[3], int b, uint32_t triangle, ct_ray_hits *hits) {
    struct hit_list list = {.search = search, .hits = hits, .body = b, .triangle = triangle, .far = INFINITY};
    const ct_piece_source *source = &search->source;
    hits->n = 0;
    for (int i = 0; i < 2 && !search->has_failed; i++) { /* first that body: it tells how far */
        if (!source->find_hits(source->argument, i ? 1 - b : b, p, list.far, list_hit, &list))
            search->has_failed = true;
    }
}
