/* sheet_faces.c - gathers the triangles of both bodies over a contact. */
#include "gpu/after/sheet_faces.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/mesh.h"

/* Of the window's size: rounding of places. */
static const double ROUNDED = 1e-12;

/* Faces between polls. */
enum { POLL = 4096 };

void ct_sheet_place(const ct_sheet_faces *f, const double uvw[3], double out[3]) {
    for (int i = 0; i < 3; i++)
        out[i] = f->center[i] + uvw[0] * f->axis[0][i] + uvw[1] * f->axis[1][i] + uvw[2] * f->axis[2][i];
}

static void find_axes(ct_sheet_faces *f, const ct_contact *contact) {
    memcpy(f->center, contact->center, sizeof f->center);
    memcpy(f->axis[0], contact->tangents[0], sizeof f->axis[0]);
    memcpy(f->axis[2], contact->normal, sizeof f->axis[2]);
    ct_cross3(f->axis[2], f->axis[0], f->axis[1]);
}

static ct_column_placing placing_of(const ct_sheet_faces *f, const double pose[12]) {
    ct_column_placing placing;
    const double from[3] = {pose[3] - f->center[0], pose[7] - f->center[1], pose[11] - f->center[2]};
    for (int k = 0; k < 3; k++) {
        for (int j = 0; j < 3; j++)
            placing.turn[k][j] = f->axis[k][0] * pose[j] + f->axis[k][1] * pose[4 + j] + f->axis[k][2] * pose[8 + j];
        placing.shift[k] = ct_dot3(f->axis[k], from);
    }
    return placing;
}

/* ---- the window ---- */

/* Both sides' vertices with an entry bound the contact along u and v; either side's ends are somewhere between all of
 * them along w. A half-space has none, and bounds nothing. */
static bool find_window(ct_sheet_faces *f, ct_surface *const surface[2], const ct_column_placing placing[2],
                        const ct_result *result, const ct_contact *contact) {
    for (int k = 0; k < 3; k++) {
        f->lo[k] = k < 2 ? -INFINITY : INFINITY;
        f->hi[k] = -f->lo[k];
    }
    for (int s = 0; s < 2; s++) {
        ct_box box = ct_box_none();
        if (surface[s]->body->is_half_space) continue;
        for (uint64_t i = 0; i < contact->count[s]; i++) {
            double at[3];
            if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) return false;
            ct_column_place(&placing[s], surface[s]->positions + 3 * (size_t)result->vertices[contact->first[s] + i],
                            at);
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

/* ---- faces ---- */

/* A face with its corners at p, unless it is seen edge-on. False: out of memory. */
static bool add_face(ct_sheet_faces *f, const double *const p[3], int side, bool is_listed) {
    const double e[2][3] = {{p[1][0] - p[0][0], p[1][1] - p[0][1], p[1][2] - p[0][2]},
                            {p[2][0] - p[0][0], p[2][1] - p[0][1], p[2][2] - p[0][2]}};
    const double area = e[0][0] * e[1][1] - e[0][1] * e[1][0];
    const double least = fmin(p[0][2], fmin(p[1][2], p[2][2])), most = fmax(p[0][2], fmax(p[1][2], p[2][2]));
    const double length = fabs(e[0][0]) + fabs(e[0][1]) + fabs(e[1][0]) + fabs(e[1][1]);
    if (!(fabs(area) > ROUNDED * f->size * length) || most < f->lo[2] || least > f->hi[2]) return true;
    if (!ct_array_grow(&f->all, &f->capacity, f->n + 1)) return false;
    ct_sheet_face *face = &f->all[f->n++];
    *face = (ct_sheet_face){
        .slope = {(e[0][2] * e[1][1] - e[1][2] * e[0][1]) / area, (e[1][2] * e[0][0] - e[0][2] * e[1][0]) / area},
        .least = least,
        .most = most,
        .side = (uint8_t)side,
        .looks_up = area > 0,
        .is_listed = is_listed};
    memcpy(face->origin, p[0], sizeof face->origin);
    for (int c = 0; c < 3; c++) memcpy(face->at[area > 0 ? c : 2 - c], p[c], sizeof face->at[c]);
    return true;
}

static bool add_triangles(ct_sheet_faces *f, int side) {
    ct_column_surface *of = &f->surface[side];
    for (uint32_t c = 0; c < of->n; c++) {
        if (of->boxes[c].lo[2] > f->hi[2] || of->boxes[c].hi[2] < f->lo[2]) continue;
        const ct_column_block *block = ct_column_surface_block(of, c);
        if (!block) return false;
        for (uint32_t t = 0; t < block->n; t++)
            if (!add_face(f, block->triangles[t].p, side, block->triangles[t].is_listed)) return false;
    }
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

static bool fill_side(ct_sheet_faces *f, int side, const ct_surface *surface, const ct_column_placing *placing,
                      const ct_result *result, const ct_contact *contact) {
    ct_column_surface *of = &f->surface[side];
    if (surface->body->is_half_space) return add_plane(f, side, surface->body->pose);
    if (!ct_column_surface_open(of, surface, placing)) return false;
    for (uint64_t i = 0; i < contact->count[side]; i++) {
        const uint32_t vertex = result->vertices[contact->first[side] + i];
        of->listed[vertex / 64] |= (uint64_t)1 << (vertex % 64);
    }
    return ct_column_surface_fill(of, f->lo, f->hi, ROUNDED * f->size) && add_triangles(f, side);
}

static bool make_tree(ct_sheet_faces *f) {
    ct_column_box *boxes = malloc((f->n + 1) * sizeof *boxes);
    for (size_t i = 0; boxes && i < f->n; i++) {
        const ct_sheet_face *face = &f->all[i];
        boxes[i] = (ct_column_box){.lo = {[2] = face->least}, .hi = {[2] = face->most}};
        for (int k = 0; k < 2; k++) {
            boxes[i].lo[k] = fmin(face->at[0][k], fmin(face->at[1][k], face->at[2][k]));
            boxes[i].hi[k] = fmax(face->at[0][k], fmax(face->at[1][k], face->at[2][k]));
        }
    }
    const bool is_ok = boxes && ct_column_tree_make(&f->tree, boxes, f->n);
    free(boxes);
    return is_ok;
}

ct_status ct_sheet_faces_open(ct_sheet_faces *f, ct_surfaces *surfaces, const ct_result *result,
                              const ct_contact *contact, ct_error *error) {
    ct_surface *surface[2];
    ct_column_placing placing[2];
    memset(f, 0, sizeof *f);
    find_axes(f, contact);
    for (int s = 0; s < 2; s++) {
        const uint32_t index = ct_scene_index_of(surfaces->scene, contact->body[s]);
        const ct_body *body = surfaces->scene->bodies[index];
        const ct_status status = body->is_half_space ? ct_surfaces_get(surfaces, index, "want", &surface[s], error)
                                                     : ct_surfaces_tree(surfaces, index, "want", &surface[s], error);
        if (status) return status;
        placing[s] = placing_of(f, body->pose);
    }
    bool is_ok = find_window(f, surface, placing, result, contact);
    for (int s = 0; s < 2 && is_ok; s++) is_ok = fill_side(f, s, surface[s], &placing[s], result, contact);
    if (is_ok && make_tree(f)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_MEMORY, "want", "no memory for the contact surface of bodies %u and %u",
                   contact->body[0], contact->body[1]);
}

void ct_sheet_faces_close(ct_sheet_faces *f) {
    for (int s = 0; s < 2; s++) ct_column_surface_close(&f->surface[s]);
    ct_column_tree_free(&f->tree);
    free(f->all);
    memset(f, 0, sizeof *f);
}
