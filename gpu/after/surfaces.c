/* surfaces.c - fetches the positions of bodies after a step, and refits trees over their triangles. */
#include "gpu/after/surfaces.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/simd.h"
#include "gpu/mesh/mesh.h"
#include "gpu/method/backend.h"
#include "gpu/method/engine.h"

/* Refitted between polls. */
enum { CLUSTERS = 256 };

bool ct_surfaces_open(ct_surfaces *surfaces, const ct_scene *scene) {
    surfaces->scene = scene;
    surfaces->of = calloc((size_t)scene->n_bodies + 1, sizeof *surfaces->of);
    return surfaces->of;
}

static void free_clusters(ct_surface *surface) {
    for (uint32_t i = 0; surface->clusters && i < surface->clusters->n; i++) free(surface->own_clusters[i]);
    free(surface->own_clusters);
}

void ct_surfaces_close(ct_surfaces *surfaces) {
    for (uint32_t i = 0; surfaces->of && i < surfaces->scene->n_bodies; i++) {
        free(surfaces->of[i].own_positions);
        free(surfaces->of[i].own_low);
        free(surfaces->of[i].own_boxes);
        free_clusters(&surfaces->of[i]);
    }
    free(surfaces->of);
    surfaces->of = NULL;
}

uint32_t ct_scene_index_of(const ct_scene *scene, uint32_t id) {
    uint32_t lo = 0, hi = scene->n_bodies;
    while (lo < hi) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (scene->bodies[middle]->id < id)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

ct_status ct_surfaces_get(ct_surfaces *surfaces, uint32_t index, const char *field, ct_surface **out, ct_error *error) {
    const ct_scene *scene = surfaces->scene;
    ct_surface *surface = *out = &surfaces->of[index];
    if (surface->body) return CT_OK;
    const ct_body *body = scene->bodies[index];
    if (body->kind == CT_BODY_RIGID) {
        surface->positions = body->mesh->positions;
        surface->low = body->mesh->low;
        surface->body = body;
        return CT_OK;
    }
    const size_t bytes = (size_t)body->mesh->n_vertices * 12;
    if (!surface->own_positions) surface->own_positions = malloc(bytes);
    if (body->low_reach > 0 && !surface->own_low) surface->own_low = malloc(bytes);
    if (!surface->own_positions || (body->low_reach > 0 && !surface->own_low))
        return ct_fail(error, CT_OUT_OF_MEMORY, field, "no memory for positions of body %u", body->id);
    const ct_status status = scene->engine->backend->body_positions(scene->engine->devices[scene->device].device, body,
                                                                    surface->own_positions, surface->own_low, error);
    if (status) return status;
    surface->positions = surface->own_positions;
    surface->low = surface->own_low;
    surface->body = body;
    return CT_OK;
}

ct_status ct_surfaces_tree(ct_surfaces *surfaces, uint32_t index, const char *field, ct_surface **out,
                           ct_error *error) {
    const ct_status status = ct_surfaces_get(surfaces, index, field, out, error);
    ct_surface *surface = *out;
    if (status || surface->clusters) return status;
    const ct_clusters *clusters = ct_mesh_clusters(surface->body->mesh, error);
    if (!clusters) return CT_OUT_OF_MEMORY;
    if (!surface->own_clusters) surface->own_clusters = calloc(clusters->n, sizeof *surface->own_clusters);
    if (!surface->own_clusters)
        return ct_fail(error, CT_OUT_OF_MEMORY, field, "no memory for the clusters of body %u", surface->body->id);
    surface->boxes = clusters->rest;
    if (surface->own_positions) {
        surface->own_boxes = malloc(clusters->n_nodes * sizeof *surface->own_boxes);
        if (!surface->own_boxes)
            return ct_fail(error, CT_OUT_OF_MEMORY, field, "no memory for the boxes of body %u", surface->body->id);
        for (uint32_t first = 0; first < clusters->n; first += CLUSTERS) {
            const uint32_t end = clusters->n - first < CLUSTERS ? clusters->n : first + CLUSTERS;
            if (ct_is_cancelled()) return ct_fail_cancelled(error);
            ct_clusters_refit(clusters, surface->positions, first, end, surface->own_boxes);
            if (surface->low) ct_clusters_widen(first, end, surface->own_boxes);
        }
        ct_clusters_refit_tree(clusters, surface->own_boxes);
        surface->boxes = surface->own_boxes;
    }
    surface->clusters = clusters;
    return CT_OK;
}

/* Of what a lower part adds to a coordinate, at most. */
static float widened(float x, float sign, bool has_low) {
    return has_low ? x + sign * (fabsf(x) * 0x1p-23f + 0x1p-149f) : x;
}

static ct_v4f chosen(ct_v4i mask, ct_v4f a, ct_v4f b) {
    return (ct_v4f)(((ct_v4i)a & mask) | ((ct_v4i)b & ~mask));
}

static void make_part(const ct_surface *surface, uint32_t first, uint32_t n, uint32_t to, ct_surface_cluster *cluster) {
    const uint32_t *corners = surface->body->mesh->triangles + 3 * (size_t)first;
    ct_v4f lo = {INFINITY, INFINITY, INFINITY, INFINITY}, hi = -lo;
    for (uint32_t i = 0; i < 3 * n; i++) {
        const float *p = surface->positions + 3 * (size_t)corners[i];
        const ct_v4f at = {p[0], p[1], p[2], p[2]};
        lo = chosen(at < lo, at, lo);
        hi = chosen(at > hi, at, hi);
        for (int k = 0; k < 3; k++) cluster->corner[i % 3][k][to + i / 3] = p[k];
    }
    ct_cluster_box *box = &cluster->part[to / CT_PART_OF_CLUSTER];
    for (int k = 0; k < 3; k++) {
        box->lo[k] = widened(lo[k], -1, surface->low);
        box->hi[k] = widened(hi[k], 1, surface->low);
    }
}

static ct_surface_cluster *make_cluster(const ct_surface *surface, uint32_t index) {
    ct_surface_cluster *cluster = aligned_alloc(_Alignof(ct_v4f), sizeof *cluster);
    const uint32_t end = surface->body->mesh->n_triangles, from = index * CT_CLUSTER_TRIANGLES;
    for (uint32_t to = 0; cluster && to < CT_CLUSTER_TRIANGLES; to += CT_PART_OF_CLUSTER) {
        const uint32_t first = from + to, left = first < end ? end - first : 0;
        make_part(surface, first, left < CT_PART_OF_CLUSTER ? left : CT_PART_OF_CLUSTER, to, cluster);
    }
    return cluster;
}

const ct_surface_cluster *ct_surface_cluster_of(ct_surface *surface, uint32_t index) {
    ct_surface_cluster **at = &surface->own_clusters[index], *there = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (there) return there;
    ct_surface_cluster *made = make_cluster(surface, index);
    if (!made || __atomic_compare_exchange_n(at, &there, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return made;
    free(made); /* another thread was faster */
    return there;
}

ct_status ct_surfaces_fetch(ct_surfaces *surfaces, const ct_result *result, const char *field, ct_error *error) {
    ct_status status = CT_OK;
    for (size_t i = 0; i < result->n_contacts && !status; i++) {
        const ct_contact *contact = &result->contacts[i];
        if (CT_POLL_EVERY(i, 256) && ct_is_cancelled()) return ct_fail_cancelled(error);
        for (int k = 0; k < 2 && contact->area > 0 && !contact->n_cells && !status; k++) {
            const uint32_t index = ct_scene_index_of(surfaces->scene, contact->body[k]);
            ct_surface *surface;
            status = surfaces->scene->bodies[index]->is_half_space
                         ? ct_surfaces_get(surfaces, index, field, &surface, error)
                         : ct_surfaces_tree(surfaces, index, field, &surface, error);
        }
    }
    return status;
}
