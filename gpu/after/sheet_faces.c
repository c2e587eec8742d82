/* sheet_faces.c - gathers the triangles of both bodies over a contact. */
#include "gpu/after/sheet_faces.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/mesh.h"

/* Of the window's size, and of a cluster's coordinates: rounding of places. */
static const double ROUNDED = 1e-12;

/* Vertices between polls. */
enum { POLL = 4096 };

static void find_axes(ct_sheet_faces *f, const ct_contact *contact) {
    memcpy(f->center, contact->center, sizeof f->center);
    memcpy(f->axis[0], contact->tangents[0], sizeof f->axis[0]);
    memcpy(f->axis[2], contact->normal, sizeof f->axis[2]);
    ct_cross3(f->axis[2], f->axis[0], f->axis[1]);
}

static void find_placing(ct_sheet_faces *f, const double pose[12]) {
    const double from[3] = {pose[3] - f->center[0], pose[7] - f->center[1], pose[11] - f->center[2]};
    for (int k = 0; k < 3; k++) {
        for (int j = 0; j < 3; j++)
            f->mesh.turn[k][j] = f->axis[k][0] * pose[j] + f->axis[k][1] * pose[4 + j] + f->axis[k][2] * pose[8 + j];
        f->mesh.shift[k] = ct_dot3(f->axis[k], from);
    }
}

static void place(const ct_sheet_faces *f, const ct_surface *surface, uint32_t vertex, double out[3]) {
    double p[3];
    for (size_t i = 0, at = 3 * (size_t)vertex; i < 3; i++, at++)
        p[i] = (double)surface->positions[at] + (surface->low ? (double)surface->low[at] : 0);
    for (int k = 0; k < 3; k++) out[k] = ct_dot3(f->mesh.turn[k], p) + f->mesh.shift[k];
}

/* ---- the window ---- */

/* Both sides' vertices with an entry bound the contact along u and v; either side's ends are somewhere between all of
 * them along w. A half-space has none, and bounds nothing. */
static bool find_window(ct_sheet_faces *f, ct_surface *const surface[2], const ct_result *result,
                        const ct_contact *contact) {
    for (int k = 0; k < 3; k++) {
        f->lo[k] = k < 2 ? -INFINITY : INFINITY;
        f->hi[k] = -f->lo[k];
    }
    f->size = 0;
    for (int s = 0; s < 2; s++) {
        ct_box box = ct_box_none();
        if (surface[s]->body->is_half_space) continue;
        find_placing(f, surface[s]->body->pose);
        for (uint64_t i = 0; i < contact->count[s]; i++) {
            double at[3];
            if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return false;
            place(f, surface[s], result->vertices[contact->first[s] + i], at);
            ct_box_add_point(&box, at);
        }
        for (int k = 0; k < 2; k++) {
            f->lo[k] = fmax(f->lo[k], box.lo[k]);
            f->hi[k] = fmin(f->hi[k], box.hi[k]);
        }
        f->lo[2] = fmin(f->lo[2], box.lo[2]);
        f->hi[2] = fmax(f->hi[2], box.hi[2]);
        for (int k = 0; k < 3; k++) f->size = fmax(f->size, box.hi[k] - box.lo[k]);
    }
    return true;
}

static bool is_beside(const ct_sheet_faces *f, const ct_column_box *box) {
    const double rounding = ROUNDED * f->size;
    for (int k = 0; k < 3; k++)
        if (box->hi[k] + rounding < f->lo[k] || box->lo[k] - rounding > f->hi[k]) return true;
    return false;
}

/* ---- faces ---- */

/* A face with its corners at p, unless it is beside the window or seen edge-on. False: out of memory. */
static bool add_face(ct_sheet_faces *f, const double *const p[3], int side, bool is_listed) {
    ct_column_box box;
    for (int k = 0; k < 3; k++) {
        const double a = p[0][k], b = p[1][k], c = p[2][k], least = a < b ? a : b, most = a < b ? b : a;
        box.lo[k] = c < least ? c : least;
        box.hi[k] = c > most ? c : most;
    }
    if (is_beside(f, &box)) return true;
    const double e[2][3] = {{p[1][0] - p[0][0], p[1][1] - p[0][1], p[1][2] - p[0][2]},
                            {p[2][0] - p[0][0], p[2][1] - p[0][1], p[2][2] - p[0][2]}};
    const double area = e[0][0] * e[1][1] - e[0][1] * e[1][0];
    const double length = fabs(e[0][0]) + fabs(e[0][1]) + fabs(e[1][0]) + fabs(e[1][1]);
    if (!(fabs(area) > ROUNDED * f->size * length)) return true;
    if (!ct_array_grow(&f->all, &f->capacity, f->n + 1) || !ct_array_grow(&f->boxes, &f->box_capacity, f->n + 1))
        return false;
    f->looks[side][area > 0] = true;
    f->boxes[f->n] = box;
    ct_sheet_face *face = &f->all[f->n++];
    *face = (ct_sheet_face){
        .slope = {(e[0][2] * e[1][1] - e[1][2] * e[0][1]) / area, (e[1][2] * e[0][0] - e[0][2] * e[1][0]) / area},
        .side = (uint8_t)side,
        .looks_up = area > 0,
        .is_listed = is_listed};
    memcpy(face->origin, p[0], sizeof face->origin);
    for (int c = 0; c < 3; c++) memcpy(face->at[area > 0 ? c : 2 - c], p[c], sizeof face->at[c]);
    return true;
}

static bool add_cluster(ct_sheet_faces *f, int side, const ct_surface *surface, uint32_t cluster) {
    const ct_clusters *clusters = surface->clusters;
    const ct_mesh *mesh = surface->body->mesh;
    const uint32_t first = cluster * CT_CLUSTER_TRIANGLES, left = mesh->n_triangles - first,
                   end = first + (left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES);
    if (ct_is_cancelled()) return false;
    for (uint32_t i = clusters->first_vertex[cluster], to = 0; i < clusters->first_vertex[cluster + 1]; i++, to++) {
        const uint32_t vertex = clusters->vertices[i];
        place(f, surface, vertex, f->placed[to]);
        f->is_listed[to] = f->mesh.listed[vertex / 64] >> (vertex % 64) & 1;
        f->mesh.places[vertex] = to;
    }
    for (const uint32_t *corner = mesh->triangles + 3 * (size_t)first; corner < mesh->triangles + 3 * (size_t)end;
         corner += 3) {
        const uint32_t at[3] = {f->mesh.places[corner[0]], f->mesh.places[corner[1]], f->mesh.places[corner[2]]};
        const double *const p[3] = {f->placed[at[0]], f->placed[at[1]], f->placed[at[2]]};
        if (!add_face(f, p, side, f->is_listed[at[0]] || f->is_listed[at[1]] || f->is_listed[at[2]])) return false;
    }
    return true;
}

static ct_column_box place_box(const ct_sheet_mesh *mesh, const ct_cluster_box *box) {
    ct_column_box placed;
    for (int k = 0; k < 3; k++) {
        double middle = mesh->shift[k], half = 0, size = fabs(middle);
        for (int i = 0; i < 3; i++) {
            const double at = mesh->turn[k][i] * 0.5 * ((double)box->lo[i] + (double)box->hi[i]);
            middle += at;
            size += fabs(at);
            half += fabs(mesh->turn[k][i]) * 0.5 * ((double)box->hi[i] - (double)box->lo[i]);
        }
        half += ROUNDED * (size + half);
        placed.lo[k] = middle - half;
        placed.hi[k] = middle + half;
    }
    return placed;
}

static bool add_node(ct_sheet_faces *f, int side, const ct_surface *surface, uint32_t level, uint32_t node) {
    const ct_clusters *clusters = surface->clusters;
    const ct_column_box box = place_box(&f->mesh, &surface->boxes[node]);
    if (is_beside(f, &box)) return true;
    if (level == 0) return add_cluster(f, side, surface, node);
    if (ct_is_cancelled()) return false;
    const uint32_t first = clusters->level[level - 1] + (node - clusters->level[level]) * CT_CLUSTER_FAN;
    for (uint32_t n = first; n < first + CT_CLUSTER_FAN && n < clusters->level[level]; n++)
        if (!add_node(f, side, surface, level - 1, n)) return false;
    return true;
}

/* A triangle of the plane that covers the window. Its contact's normal is the plane's, so that it is level. */
static bool add_plane(ct_sheet_faces *f, int side, const double pose[12]) {
    const double normal[3] = {pose[2], pose[6], pose[10]}, up = ct_dot3(normal, f->axis[2]);
    const double from[3] = {pose[3] - f->center[0], pose[7] - f->center[1], pose[11] - f->center[2]};
    const double middle[2] = {(f->lo[0] + f->hi[0]) / 2, (f->lo[1] + f->hi[1]) / 2},
                 reach = 2 * (f->hi[0] - f->lo[0] + f->hi[1] - f->lo[1]) + 4 * ROUNDED * f->size;
    const double corners[3][2] = {{-2, -1}, {2, -1}, {0, 2}};
    double p[3][3];
    if (!(fabs(up) > 0.5)) return true;
    for (int c = 0; c < 3; c++) {
        for (int k = 0; k < 2; k++) p[c][k] = middle[k] + reach * corners[c][k];
        p[c][2] =
            (ct_dot3(normal, from) - ct_dot3(normal, f->axis[0]) * p[c][0] - ct_dot3(normal, f->axis[1]) * p[c][1]) /
            up;
    }
    const double *const seen[3] = {p[0], p[up > 0 ? 1 : 2], p[up > 0 ? 2 : 1]};
    return add_face(f, seen, side, true);
}

/* Room for a mesh; no vertex of it is listed. */
static bool reserve(ct_sheet_mesh *mesh, size_t n_vertices) {
    const size_t n_words = n_vertices / 64 + 1;
    if (n_words > mesh->n_listed) {
        free(mesh->listed);
        mesh->listed = calloc(2 * n_words, sizeof *mesh->listed);
        mesh->n_listed = mesh->listed ? 2 * n_words : 0;
    }
    if (n_vertices > mesh->n_places) {
        free(mesh->places);
        mesh->places = malloc(2 * n_vertices * sizeof *mesh->places);
        mesh->n_places = mesh->places ? 2 * n_vertices : 0;
    }
    return mesh->listed && mesh->places;
}

static bool add_side(ct_sheet_faces *f, int side, const ct_surface *surface, const ct_result *result,
                     const ct_contact *contact) {
    const uint32_t *vertices = result->vertices + contact->first[side];
    if (surface->body->is_half_space) return add_plane(f, side, surface->body->pose);
    if (!reserve(&f->mesh, surface->body->mesh->n_vertices)) return false;
    find_placing(f, surface->body->pose);
    for (uint64_t i = 0; i < contact->count[side]; i++)
        f->mesh.listed[vertices[i] / 64] |= (uint64_t)1 << (vertices[i] % 64);
    const bool is_ok = add_node(f, side, surface, surface->clusters->n_levels - 1, surface->clusters->n_nodes - 1);
    for (uint64_t i = 0; i < contact->count[side]; i++) f->mesh.listed[vertices[i] / 64] = 0;
    return is_ok;
}

static bool find_faces(ct_sheet_faces *f, ct_surface *const surface[2], const ct_result *result,
                       const ct_contact *contact) {
    enum { MOST = 3 * CT_CLUSTER_TRIANGLES };
    if (!f->placed) f->placed = malloc(MOST * sizeof *f->placed);
    if (!f->is_listed) f->is_listed = malloc(MOST * sizeof *f->is_listed);
    if (!f->placed || !f->is_listed || !find_window(f, surface, result, contact)) return false;
    f->n = 0;
    memset(f->looks, 0, sizeof f->looks);
    for (int s = 0; s < 2; s++) {
        f->first[s] = f->n;
        if (!add_side(f, s, surface[s], result, contact) ||
            !ct_column_tree_make(&f->tree[s], f->boxes + f->first[s], f->n - f->first[s]))
            return false;
    }
    return true;
}

ct_status ct_sheet_faces_find(ct_sheet_faces *f, ct_surfaces *surfaces, const ct_result *result,
                              const ct_contact *contact, ct_error *error) {
    ct_surface *surface[2];
    find_axes(f, contact);
    for (int s = 0; s < 2; s++) {
        const uint32_t index = ct_scene_index_of(surfaces->scene, contact->body[s]);
        const bool is_half_space = surfaces->scene->bodies[index]->is_half_space;
        const ct_status status = is_half_space ? ct_surfaces_get(surfaces, index, "want", &surface[s], error)
                                               : ct_surfaces_tree(surfaces, index, "want", &surface[s], error);
        if (status) return status;
    }
    if (find_faces(f, surface, result, contact)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_MEMORY, "want", "no memory for the contact surface of bodies %u and %u",
                   contact->body[0], contact->body[1]);
}

void ct_sheet_faces_free(ct_sheet_faces *f) {
    for (int s = 0; s < 2; s++) ct_column_tree_free(&f->tree[s]);
    free(f->all);
    free(f->boxes);
    free(f->mesh.listed);
    free(f->mesh.places);
    free(f->placed);
    free(f->is_listed);
    memset(f, 0, sizeof *f);
}
