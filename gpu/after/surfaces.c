/* surfaces.c - fetches the positions of bodies after a step, and refits trees over their triangles. */
#include "gpu/after/surfaces.h"

#include <stdlib.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
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

void ct_surfaces_close(ct_surfaces *surfaces) {
    for (uint32_t i = 0; surfaces->of && i < surfaces->scene->n_bodies; i++) {
        free(surfaces->of[i].own_positions);
        free(surfaces->of[i].own_low);
        free(surfaces->of[i].own_boxes);
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
