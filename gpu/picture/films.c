/* films.c - films over the parts of two surfaces that bound their intersection: triangles that the step gives a
 * gradient are divided until each part lies inside the other body or outside; what the border cuts is clipped. Winding
 * numbers come from a table of the other body's triangles by their place across x. Double precision: for pictures.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/mesh.h"
#include "gpu/picture/picture.h"

/* Longest edges in pixels: of parts that are looked at by their corners only, and of those that are clipped. */
static const double COARSE = 16, FINE = 6;
/* No part is smaller than this fraction of the other body's box, so that a picture taken from nearby stays small. */
static const double SMALLEST = 1.0 / 128;
static const uint8_t OPACITY = 115; /* of 255 */

static const char REMEDY[] = "show one contact, or gradients instead of contacts";

typedef struct vec {
    double x[3];
} vec;

/* ---- inside or outside ---- */

/* One body's triangles by cells of a grid across x. */
typedef struct table {
    const ct_snapshot_body *body;
    vec *corners; /* [vertices], world */
    double lo[3], hi[3], moved[2];
    double scale[3]; /* cells in a metre, along y and z */
    uint32_t n;      /* cells along y and z */
    uint32_t *first; /* [n * n + 1], of a cell in `list` */
    uint32_t *list;  /* triangles */
} table;

static void free_table(table *t) {
    free(t->corners);
    free(t->first);
    free(t->list);
}

static uint32_t cell_of(const table *t, int k, double x) {
    const double at = (x - t->lo[k]) * t->scale[k];
    return at > 0 ? (at < t->n ? (uint32_t)at : t->n - 1) : 0;
}

/* The cells from range[0] to range[1] along y, range[2] to range[3] along z that a triangle may lie over. */
static void find_cells(const table *t, const uint32_t corners[3], uint32_t range[4]) {
    for (int k = 1; k < 3; k++) {
        const double a = t->corners[corners[0]].x[k], b = t->corners[corners[1]].x[k], c = t->corners[corners[2]].x[k];
        range[2 * k - 2] = cell_of(t, k, fmin(a, fmin(b, c)));
        range[2 * k - 1] = cell_of(t, k, fmax(a, fmax(b, c)));
    }
}

static uint64_t count_entries(const table *t) {
    const uint32_t *triangles = ct_mesh_triangles(t->body->mesh);
    uint64_t n = 0;
    uint32_t range[4];
    for (uint32_t i = 0; i < t->body->mesh->n_triangles; i++) {
        if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled()) break;
        find_cells(t, triangles + 3 * (size_t)i, range);
        n += (uint64_t)(range[1] - range[0] + 1) * (range[3] - range[2] + 1);
    }
    return n;
}

/* Adds each triangle to its cells, or counts them only (list NULL). */
static void fill_cells(const table *t, uint32_t *at, uint32_t *list) {
    const uint32_t *triangles = ct_mesh_triangles(t->body->mesh);
    uint32_t range[4];
    for (uint32_t i = 0; i < t->body->mesh->n_triangles; i++) {
        if (CT_POLL_EVERY(i, 256) && ct_is_cancelled()) return;
        find_cells(t, triangles + 3 * (size_t)i, range);
        for (uint32_t z = range[2]; z <= range[3]; z++)
            for (uint32_t y = range[0]; y <= range[1]; y++) {
                uint32_t *of = &at[(size_t)z * t->n + y];
                if (list) list[*of] = i;
                ++*of;
            }
    }
}

/* Makes the grid n x n. False: too many cells have the same triangles, as these are long. */
static bool choose_cells(table *t, uint32_t n, uint64_t *n_entries) {
    t->n = n;
    for (int k = 1; k < 3; k++) t->scale[k] = t->hi[k] > t->lo[k] ? n / (t->hi[k] - t->lo[k]) : 0;
    *n_entries = count_entries(t);
    return n == 1 || *n_entries <= 8 * (uint64_t)t->body->mesh->n_triangles + 1024;
}

static bool make_cells(table *t) {
    uint64_t n_entries;
    uint32_t n = (uint32_t)fmin(fmax(sqrt(t->body->mesh->n_triangles), 1), 1024);
    while (!choose_cells(t, n, &n_entries)) n /= 2;
    const size_t n_cells = (size_t)n * n;
    uint32_t *at = calloc(n_cells, sizeof *at);
    t->first = calloc(n_cells + 1, sizeof *t->first);
    t->list = malloc((n_entries ? n_entries : 1) * sizeof *t->list);
    const bool is_ok = at && t->first && t->list && !ct_is_cancelled();
    if (is_ok) {
        fill_cells(t, t->first + 1, NULL);
        for (size_t i = 0; i < n_cells && !(CT_POLL_EVERY(i, 8192) && ct_is_cancelled()); i++)
            t->first[i + 1] += t->first[i];
        memcpy(at, t->first, n_cells * sizeof *at);
        if (!ct_is_cancelled()) fill_cells(t, at, t->list);
    }
    free(at);
    return is_ok && !ct_is_cancelled();
}

/* False: out of memory, or cancelled. A half-space needs no table. */
static bool make_table(table *t, const ct_snapshot_body *body) {
    *t = (table){.body = body};
    const size_t n = body->mesh->n_vertices;
    t->corners = malloc(n * sizeof *t->corners);
    if (!t->corners) return false;
    for (size_t v = 0; v < n; v++) {
        if (CT_POLL_EVERY(v, 1024) && ct_is_cancelled()) return false;
        ct_snapshot_vertex(body, v, t->corners[v].x);
        for (int k = 0; k < 3; k++) {
            t->lo[k] = v ? fmin(t->lo[k], t->corners[v].x[k]) : t->corners[v].x[k];
            t->hi[k] = v ? fmax(t->hi[k], t->corners[v].x[k]) : t->corners[v].x[k];
        }
    }
    /* Points are looked at from a bit beside them, so that no ray meets edges that run along an axis. */
    t->moved[0] = 3.1e-8 * (t->hi[1] - t->lo[1]);
    t->moved[1] = 1.7e-8 * (t->hi[2] - t->lo[2]);
    return body->is_half_space || make_cells(t);
}

/* Winding number of the body at a point: signed crossings of the ray along x from there. */
static int winding_at(const table *t, const double p[3]) {
    const ct_snapshot_body *body = t->body;
    if (body->is_half_space) {
        const double *n = body->plane;
        return n[0] * p[0] + n[1] * p[1] + n[2] * p[2] <= n[3];
    }
    const double y = p[1] + t->moved[0], z = p[2] + t->moved[1];
    if (!(p[0] <= t->hi[0] && y >= t->lo[1] && y <= t->hi[1] && z >= t->lo[2] && z <= t->hi[2])) return 0;
    const uint32_t *triangles = ct_mesh_triangles(body->mesh);
    const size_t cell = (size_t)cell_of(t, 2, z) * t->n + cell_of(t, 1, y);
    int winding = 0;
    for (uint32_t i = t->first[cell]; i < t->first[cell + 1]; i++) {
        const uint32_t *corner = triangles + 3 * (size_t)t->list[i];
        if (CT_POLL_EVERY(i + 1, 1024) && ct_is_cancelled()) break; /* the picture is not kept */
        double edge[3], x = 0, sum = 0;
        int below = 0;
        for (int k = 0; k < 3; k++) { /* areas of the point with each edge, seen along x */
            const double *a = t->corners[corner[k]].x, *b = t->corners[corner[(k + 1) % 3]].x;
            edge[k] = (a[1] - y) * (b[2] - z) - (b[1] - y) * (a[2] - z);
            below += edge[k] < 0;
            sum += edge[k];
        }
        if ((below != 0 && below != 3) || sum == 0) continue;
        for (int k = 0; k < 3; k++) x += edge[(k + 1) % 3] / sum * t->corners[corner[k]].x[0];
        if (x > p[0]) winding += below ? -1 : 1;
    }
    return winding;
}

/* ---- the patches of a pair ---- */

struct vertex_patch;

typedef struct films {
    ct_snapshot *snapshot;
    const ct_result *result;
    const ct_contact *patches; /* [n] */
    size_t n;
    uint32_t color;           /* of the first patch */
    const table *other;       /* the body that this surface may be inside of */
    int least_winding;        /* there, inside */
    double coarse, fine;      /* m, edges */
    double inward[3];         /* m, of the triangle: points are looked at from a bit below it */
    const size_t *candidates; /* [n_candidates] patches that the triangle may bound */
    size_t n_candidates;
    struct vertex_patch *of_vertices; /* [n_of_vertices] of the part, by vertex */
    size_t n_of_vertices;
    ct_error *error;
} films;

/* A vertex of a surface and a patch that it has a gradient in. */
struct vertex_patch {
    uint32_t vertex, patch;
};

static int by_vertex(const void *a, const void *b) {
    const struct vertex_patch *x = a, *y = b;
    if (x->vertex != y->vertex) return x->vertex < y->vertex ? -1 : 1;
    return x->patch < y->patch ? -1 : x->patch > y->patch;
}

/* Lists the patches of a part's vertices. False: out of memory, or cancelled. */
static bool list_patches(films *f, int part) {
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) n += f->patches[i].count[part];
    free(f->of_vertices);
    f->n_of_vertices = 0;
    f->of_vertices = malloc((n + 1) * sizeof *f->of_vertices);
    for (size_t i = 0; i < f->n && f->of_vertices; i++)
        for (uint64_t k = 0; k < f->patches[i].count[part]; k++) {
            if (CT_POLL_EVERY(f->n_of_vertices, 1024) && ct_is_cancelled()) return false;
            f->of_vertices[f->n_of_vertices++] =
                (struct vertex_patch){f->result->vertices[f->patches[i].first[part] + k], (uint32_t)i};
        }
    return f->of_vertices && ct_sort_large(f->of_vertices, n, sizeof *f->of_vertices, by_vertex);
}

/* The patches of a vertex: from where on, and how many. */
static size_t patches_of(const films *f, uint32_t vertex, size_t *n) {
    size_t low = 0, high = f->n_of_vertices;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (f->of_vertices[middle].vertex < vertex)
            low = middle + 1;
        else
            high = middle;
    }
    for (*n = 0; low + *n < f->n_of_vertices && f->of_vertices[low + *n].vertex == vertex;) ++*n;
    return low;
}

/* The patches that have most of a triangle's corners, rising. Returns how many. */
static size_t find_candidates(const films *f, const uint32_t corners[3], size_t *out) {
    size_t at[3], left[3], n = 0;
    int most = 1;
    for (int k = 0; k < 3; k++) at[k] = patches_of(f, corners[k], &left[k]);
    while (left[0] || left[1] || left[2]) {
        uint32_t least = UINT32_MAX;
        int has = 0;
        if (CT_POLL_EVERY(left[0] + left[1] + left[2], 1024) && ct_is_cancelled()) break;
        for (int k = 0; k < 3; k++)
            if (left[k] && f->of_vertices[at[k]].patch < least) least = f->of_vertices[at[k]].patch;
        for (int k = 0; k < 3; k++) {
            if (!left[k] || f->of_vertices[at[k]].patch != least) continue;
            has++, at[k]++, left[k]--;
        }
        if (has < most) continue;
        if (has > most) n = 0;
        most = has;
        out[n++] = least;
    }
    return n;
}

static uint32_t color_at(const films *f, const double p[3]) {
    size_t best = f->candidates[0];
    double least = INFINITY;
    for (size_t i = 0; f->n_candidates > 1 && i < f->n_candidates; i++) {
        const double *center = f->patches[f->candidates[i]].center;
        double square = 0;
        for (int k = 0; k < 3; k++) square += (center[k] - p[k]) * (center[k] - p[k]);
        if (square < least) best = f->candidates[i];
        least = fmin(least, square);
    }
    return f->color + (uint32_t)best;
}

static ct_status add_film(films *f, const vec corner[3]) {
    double middle[3];
    for (int k = 0; k < 3; k++) middle[k] = (corner[0].x[k] + corner[1].x[k] + corner[2].x[k]) / 3;
    uint8_t color[4] = {0, 0, 0, OPACITY};
    memcpy(color, ct_contact_color[color_at(f, middle) % CT_CONTACT_COLORS], 3);
    return ct_marks_add(f->snapshot, CT_MARK_FILM, &corner->x, color, 0, "the films of contacts", REMEDY, f->error);
}

static bool is_inside(const films *f, const vec *p) {
    const double at[3] = {p->x[0] + f->inward[0], p->x[1] + f->inward[1], p->x[2] + f->inward[2]};
    return winding_at(f->other, at) >= f->least_winding;
}

static vec between(const vec *a, const vec *b, double part) {
    vec p;
    for (int k = 0; k < 3; k++) p.x[k] = a->x[k] + part * (b->x[k] - a->x[k]);
    return p;
}

/* Where the border crosses an edge from inside to outside. */
static vec cross_border(const films *f, const vec *inside, const vec *outside) {
    double low = 0, high = 1;
    for (int i = 0; i < 10; i++) {
        const double middle = (low + high) / 2;
        const vec p = between(inside, outside, middle);
        *(is_inside(f, &p) ? &low : &high) = middle;
    }
    return between(inside, outside, low);
}

/* Of a small triangle with corners on both sides. */
static ct_status add_clipped(films *f, const vec corner[3], const bool inside[3]) {
    vec polygon[4];
    int n = 0;
    for (int k = 0; k < 3; k++) {
        const int next = (k + 1) % 3;
        if (inside[k]) polygon[n++] = corner[k];
        if (inside[k] != inside[next])
            polygon[n++] = cross_border(f, &corner[inside[k] ? k : next], &corner[inside[k] ? next : k]);
    }
    ct_status status = CT_OK;
    for (int k = 2; !status && k < n; k++) status = add_film(f, (const vec[3]){polygon[0], polygon[k - 1], polygon[k]});
    return status;
}

static bool is_beside(const films *f, const vec corner[3]) {
    const table *other = f->other;
    for (int k = 0; k < 3 && !other->body->is_half_space; k++)
        if (fmin(corner[0].x[k], fmin(corner[1].x[k], corner[2].x[k])) > other->hi[k] ||
            fmax(corner[0].x[k], fmax(corner[1].x[k], corner[2].x[k])) < other->lo[k])
            return true;
    return false;
}

/* Adds the part of a triangle that is inside. Halves it at its longest edge while that is long. */
static ct_status add_part(films *f, const vec corner[3], const bool inside[3]) {
    if (is_beside(f, corner)) return CT_OK;
    int longest = 0;
    double edge[3];
    for (int k = 0; k < 3; k++) {
        const double *a = corner[k].x, *b = corner[(k + 1) % 3].x;
        edge[k] = ct_length(b[0] - a[0], b[1] - a[1], b[2] - a[2]);
        if (edge[k] > edge[longest]) longest = k;
    }
    const bool is_mixed = inside[0] != inside[1] || inside[0] != inside[2];
    if (edge[longest] <= (is_mixed ? f->fine : f->coarse)) {
        if (is_mixed) return add_clipped(f, corner, inside);
        return inside[0] ? add_film(f, corner) : CT_OK;
    }
    const int next = (longest + 1) % 3, last = (longest + 2) % 3;
    const vec middle = between(&corner[longest], &corner[next], 0.5);
    const bool is_middle = is_inside(f, &middle);
    const ct_status status = add_part(f, (const vec[3]){corner[longest], middle, corner[last]},
                                      (const bool[3]){inside[longest], is_middle, inside[last]});
    if (status) return status;
    return add_part(f, (const vec[3]){middle, corner[next], corner[last]},
                    (const bool[3]){is_middle, inside[next], inside[last]});
}

/* Looks at points from a bit below the surface of this normal, so that one that coincides with the other body's is
 * inside it if it is on the same side. */
static void set_inward(films *f, const double n[3]) {
    const double length = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    double size = 0;
    for (int k = 0; k < 3; k++) size = fmax(size, f->other->hi[k] - f->other->lo[k]);
    for (int k = 0; k < 3; k++) f->inward[k] = length > 0 ? -1e-6 * size * n[k] / length : 0;
}

static void set_inward_of_triangle(films *f, const vec corner[3]) {
    double n[3];
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        n[k] = (corner[1].x[i] - corner[0].x[i]) * (corner[2].x[j] - corner[0].x[j]) -
               (corner[1].x[j] - corner[0].x[j]) * (corner[2].x[i] - corner[0].x[i]);
    }
    set_inward(f, n);
}

/* What is known of a vertex. */
enum { MARKED = 1, KNOWN = 2, INSIDE = 4 };

/* Whether a vertex is inside, looked up once for all its triangles. */
static bool is_vertex_inside(films *f, const table *own, const float *normals, uint8_t *known, uint32_t vertex) {
    if (!(known[vertex] & KNOWN)) {
        const double *m = own->body->pose;
        const float *of = normals + 3 * (size_t)vertex;
        double n[3];
        for (int k = 0; k < 3; k++)
            n[k] = m[4 * k] * (double)of[0] + m[4 * k + 1] * (double)of[1] + m[4 * k + 2] * (double)of[2];
        set_inward(f, n);
        known[vertex] |= is_inside(f, &own->corners[vertex]) ? KNOWN | INSIDE : KNOWN;
    }
    return known[vertex] & INSIDE;
}

/* ---- a pair ---- */

/* Marks the vertices with a gradient. Of a half-space, which has no entries, those that lie in its plane. */
static void mark_vertices(const films *f, const ct_snapshot_body *body, int part, uint8_t *known) {
    for (uint32_t v = 0; v < body->mesh->n_vertices; v++)
        known[v] = body->is_half_space && body->mesh->positions[3 * (size_t)v + 2] >= 0 ? MARKED : 0;
    for (size_t i = 0; i < f->n; i++) {
        const ct_contact *contact = &f->patches[i];
        for (int p = 0; p < 2; p++) /* both are the body's where it meets itself */
            for (uint64_t k = 0; k < contact->count[p] && (p == part || f->least_winding == 2); k++)
                known[f->result->vertices[contact->first[p] + k]] = MARKED;
    }
}

static ct_status add_surface(films *f, const table *own, const float *normals, uint8_t *known, size_t *candidates) {
    const ct_snapshot_body *body = own->body;
    const uint32_t *triangles = ct_mesh_triangles(body->mesh);
    ct_status status = CT_OK;
    f->candidates = candidates;
    for (uint32_t i = 0; !status && i < body->mesh->n_triangles; i++) {
        const uint32_t *vertex = triangles + 3 * (size_t)i;
        const int n_marked = (known[vertex[0]] & MARKED) + (known[vertex[1]] & MARKED) + (known[vertex[2]] & MARKED);
        if (n_marked < (body->is_half_space ? 3 : 1)) continue;
        if (CT_POLL_EVERY(i, 64) && ct_is_cancelled()) return ct_fail_cancelled(f->error);
        f->n_candidates = f->n > 1 ? find_candidates(f, vertex, candidates) : 0;
        for (; !f->n_candidates; f->n_candidates = f->n) /* of a half-space, or the only one */
            for (size_t k = 0; k < f->n; k++) candidates[k] = k;
        const vec corner[3] = {own->corners[vertex[0]], own->corners[vertex[1]], own->corners[vertex[2]]};
        bool inside[3];
        for (int k = 0; k < 3; k++) inside[k] = is_vertex_inside(f, own, normals, known, vertex[k]);
        set_inward_of_triangle(f, corner);
        status = add_part(f, corner, inside);
    }
    return status;
}

ct_status ct_mark_films(ct_snapshot *snapshot, const ct_result *result, size_t first, size_t n, uint32_t color,
                        ct_error *error) {
    const ct_contact *patches = &result->contacts[first];
    const bool is_self = patches->body[0] == patches->body[1];
    table tables[2] = {{0}};
    size_t *candidates = malloc(n * sizeof *candidates);
    ct_status status = CT_OK;
    for (int part = 0; part < 2; part++) {
        const size_t place = ct_snapshot_find_body(snapshot, patches->body[part]);
        if (!candidates || !make_table(&tables[part], &snapshot->bodies[place])) status = CT_OUT_OF_MEMORY;
    }
    if (status) status = ct_fail(error, status, "snapshot", "no memory for the films of contacts");
    films f = {.snapshot = snapshot,
               .result = result,
               .patches = patches,
               .n = n,
               .color = color,
               .least_winding = is_self ? 2 : 1,
               .error = error};
    /* Both parts of a body with itself are one surface. */
    for (int part = 0; !status && part < (is_self ? 1 : 2); part++) {
        const ct_snapshot_body *body = tables[part].body;
        const size_t n_vertices = body->mesh->n_vertices;
        uint8_t *known = malloc(n_vertices);
        float *normals = malloc(n_vertices * 3 * sizeof *normals);
        if (!known || !normals || (n > 1 && !list_patches(&f, part))) {
            free(known);
            free(normals);
            status = ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for the films of contacts");
            break;
        }
        mark_vertices(&f, body, part, known);
        ct_vertex_normals(ct_snapshot_body_positions(body), ct_mesh_triangles(body->mesh), n_vertices,
                          body->mesh->n_triangles, normals);
        f.other = &tables[1 - part];
        double box = 0;
        for (int k = 0; k < 3; k++) box = fmax(box, f.other->hi[k] - f.other->lo[k]);
        f.coarse = fmax(COARSE * snapshot->camera.pixel, SMALLEST * box);
        f.fine = fmax(FINE * snapshot->camera.pixel, 0.25 * SMALLEST * box);
        status = add_surface(&f, &tables[part], normals, known, candidates);
        free(known);
        free(normals);
    }
    free(candidates);
    free(f.of_vertices);
    for (int part = 0; part < 2; part++) free_table(&tables[part]);
    return status;
}
