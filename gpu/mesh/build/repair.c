/* repair.c - drops, welds, turns and fills: the order of a repair, and its simple parts. */
#include "gpu/mesh/build/repair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/build/edges.h"
#include "gpu/mesh/build/opposed.h"
#include "gpu/mesh/build/shells.h"
#include "gpu/mesh/build/validate.h"
#include "gpu/mesh/edge_pairs.h"

/* Larger ones are more likely openings that are meant. */
enum { MOST_HOLE_EDGES = 1024 };

enum { POLL = 1024 }; /* triangles, edges or vertices between polls */

#define NONE UINT32_MAX

/* Notes one change, and where, as long as there is room. */
static void note_change(ct_mesh_changes *changes, ct_change_kind kind, uint64_t index, const double at[3],
                        uint32_t edges) {
    ct_mesh_change *change = &changes->of[kind];
    if (change->count++ >= CT_CHANGE_EXAMPLES) return;
    struct ct_change_example *to = &change->first[change->count - 1];
    to->index = index;
    to->edges = edges;
    for (int k = 0; k < 3; k++) to->at[k] = at[k];
}

static void note_vertex(const ct_soup *soup, ct_mesh_changes *changes, ct_change_kind kind, uint64_t index,
                        uint32_t vertex) {
    const float *p = soup->positions + 3 * (size_t)vertex;
    note_change(changes, kind, index, (double[]){(double)p[0], (double)p[1], (double)p[2]}, 0);
}

static ct_status no_memory(const ct_soup *soup, ct_error *error) {
    return ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory to repair %zu triangles", soup->n_triangles);
}

/* ---- edges ---- */

static bool names_vertex_twice(const uint32_t *corner) {
    return corner[0] == corner[1] || corner[1] == corner[2] || corner[2] == corner[0];
}

static int by_key(const void *a, const void *b) {
    const ct_half_edge *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->triangle < y->triangle ? -1 : x->triangle > y->triangle;
}

ct_half_edge *ct_half_edges(const uint32_t *triangles, size_t n_triangles, size_t *n) {
    ct_half_edge *edges = malloc((3 * n_triangles + 1) * sizeof *edges);
    *n = 0;
    bool is_sorted = edges;
    for (size_t t = 0; is_sorted && t < n_triangles; t++) {
        const uint32_t *corner = triangles + 3 * t;
        if (CT_POLL_EVERY(t, POLL)) is_sorted = !ct_is_cancelled();
        for (size_t c = 0; c < 3 && !names_vertex_twice(corner); c++) {
            const uint32_t from = corner[c], to = corner[c < 2 ? c + 1 : 0];
            edges[(*n)++] = (ct_half_edge){ct_edge_key(from, to), (uint32_t)t, from, to};
        }
    }
    if (is_sorted && ct_sort_large(edges, *n, sizeof *edges, by_key)) return edges;
    free(edges);
    return NULL;
}

static size_t end_of_edge(const ct_half_edge *edges, size_t n, size_t i) {
    size_t end = i + 1;
    while (end < n && edges[end].key == edges[i].key) end++;
    return end;
}

/* ---- welding ---- */

struct welded {
    float at[3];
    uint32_t vertex;
};

static int by_position(const void *a, const void *b) {
    const struct welded *x = a, *y = b;
    for (int k = 0; k < 3; k++)
        if (x->at[k] != y->at[k]) return x->at[k] < y->at[k] ? -1 : 1;
    return x->vertex < y->vertex ? -1 : x->vertex > y->vertex;
}

/* The ends of open edges, by position. False: out of memory, or cancelled. */
static bool find_open_ends(const ct_soup *soup, const ct_half_edge *edges, size_t n_edges, struct welded *open,
                           size_t *n) {
    *n = 0;
    for (size_t i = 0, k = 0, end; i < n_edges; i = end, k++) {
        if (CT_POLL_EVERY(k, POLL) && ct_is_cancelled()) return false;
        end = end_of_edge(edges, n_edges, i);
        if (end - i > 1) continue;
        const uint32_t ends[2] = {edges[i].from, edges[i].to};
        for (int e = 0; e < 2; e++) {
            open[*n].vertex = ends[e];
            memcpy(open[(*n)++].at, soup->positions + 3 * (size_t)ends[e], 12);
        }
    }
    return ct_sort_large(open, *n, sizeof *open, by_position);
}

/* Vertices at one position that lie on open edges become one, the first: elsewhere surfaces may touch on purpose.
 * *is_open: there are open edges. */
static ct_status weld_open_edges(ct_soup *soup, ct_mesh_changes *changes, bool *is_open, ct_error *error) {
    size_t n_edges, n = 0;
    ct_half_edge *edges = ct_half_edges(soup->triangles, soup->n_triangles, &n_edges);
    uint32_t *kept = malloc((soup->n_vertices + 1) * sizeof *kept);
    struct welded *open = edges ? malloc((2 * n_edges + 1) * sizeof *open) : NULL;
    if (!edges || !kept || !open || !find_open_ends(soup, edges, n_edges, open, &n)) {
        free(edges), free(kept), free(open);
        return no_memory(soup, error);
    }
    bool is_late = false;
    *is_open = n > 0;
    for (size_t v = 0; v < soup->n_vertices && !is_late; v++) {
        if (CT_POLL_EVERY(v, 8 * POLL)) is_late = ct_is_cancelled();
        kept[v] = (uint32_t)v;
    }
    for (size_t i = 1, first = 0; i < n && !is_late; i++) {
        if (CT_POLL_EVERY(i, POLL)) is_late = ct_is_cancelled();
        const float *p = open[i].at, *q = open[first].at;
        if (p[0] != q[0] || p[1] != q[1] || p[2] != q[2]) {
            first = i;
            continue;
        }
        const uint32_t vertex = open[i].vertex;
        if (kept[vertex] != vertex || vertex == open[first].vertex) continue;
        kept[vertex] = open[first].vertex;
        note_vertex(soup, changes, CT_CHANGE_WELDED, vertex, vertex);
    }
    for (size_t i = 0; i < 3 * soup->n_triangles && !is_late; i++) {
        if (CT_POLL_EVERY(i, POLL)) is_late = ct_is_cancelled();
        soup->triangles[i] = kept[soup->triangles[i]];
    }
    free(edges), free(kept), free(open);
    return is_late ? ct_fail_cancelled(error) : CT_OK;
}

/* Vertices on open edges in cubes as large as the distance within which they are welded. */
struct cell {
    int64_t at[3];
    uint32_t vertex, place; /* place: in the order of vertices */
};

static int by_cell(const void *a, const void *b) {
    const struct cell *x = a, *y = b;
    for (int k = 0; k < 3; k++)
        if (x->at[k] != y->at[k]) return x->at[k] < y->at[k] ? -1 : 1;
    return x->vertex < y->vertex ? -1 : x->vertex > y->vertex;
}

static int by_vertex(const void *a, const void *b) {
    const struct welded *x = a, *y = b;
    return x->vertex < y->vertex ? -1 : x->vertex > y->vertex;
}

/* The first cell that is not before this one. */
static size_t first_cell(const struct cell *cells, size_t n, const int64_t at[3]) {
    const struct cell key = {{at[0], at[1], at[2]}, 0, 0};
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (by_cell(&cells[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static double distance_of(const float p[3], const float q[3]) {
    double square = 0;
    for (int k = 0; k < 3; k++) square += ((double)p[k] - (double)q[k]) * ((double)p[k] - (double)q[k]);
    return sqrt(square);
}

/* Gives the vertices within `distance` of open[i], none of which was welded before, its number. kept: by place. */
static bool weld_to(const struct welded *open, size_t i, const struct cell *cells, size_t n, const struct cell *own,
                    double distance, uint32_t *kept, ct_mesh_changes *changes) {
    for (int column = 0; column < 9; column++) {
        const int64_t at[3] = {own->at[0] + column / 3 - 1, own->at[1] + column % 3 - 1, own->at[2] - 1};
        for (size_t c = first_cell(cells, n, at);
             c < n && cells[c].at[0] == at[0] && cells[c].at[1] == at[1] && cells[c].at[2] <= own->at[2] + 1; c++) {
            const uint32_t place = cells[c].place;
            if (CT_POLL_EVERY(c, POLL) && ct_is_cancelled()) return false;
            if (place <= i || kept[place] != open[place].vertex) continue;
            const double away = distance_of(open[i].at, open[place].at);
            if (!(away <= distance)) continue;
            kept[place] = open[i].vertex;
            changes->moved = fmax(changes->moved, away);
        }
    }
    return true;
}

/* Those left on open edges that are within a distance of one with a lower number become that one: CAD systems write
 * corners that should coincide with other last digits. */
static ct_status weld_near(ct_soup *soup, double distance, ct_mesh_changes *changes, ct_error *error) {
    size_t n_edges, n = 0, m = 0;
    ct_half_edge *edges = ct_half_edges(soup->triangles, soup->n_triangles, &n_edges);
    struct welded *open = edges ? malloc((2 * n_edges + 1) * sizeof *open) : NULL;
    bool is_done =
        open && find_open_ends(soup, edges, n_edges, open, &n) && ct_sort_large(open, n, sizeof *open, by_vertex);
    free(edges);
    for (size_t i = 0; i < n && is_done; i++)
        if (!m || open[i].vertex != open[m - 1].vertex) open[m++] = open[i];
    struct cell *cells = is_done ? malloc((m + 1) * sizeof *cells) : NULL,
                *own = is_done ? malloc((m + 1) * sizeof *own) : NULL;
    uint32_t *kept = malloc((m + 1) * sizeof *kept), *to = malloc((soup->n_vertices + 1) * sizeof *to);
    is_done = is_done && cells && own && kept && to;
    for (size_t i = 0; i < m && is_done; i++) {
        if (CT_POLL_EVERY(i, POLL)) is_done = !ct_is_cancelled();
        for (int k = 0; k < 3; k++) /* far coordinates have no neighbours in cells so small */
            own[i].at[k] = (int64_t)fmax(fmin(floor((double)open[i].at[k] / distance), 0x1p62), -0x1p62);
        own[i].vertex = kept[i] = open[i].vertex;
        own[i].place = (uint32_t)i;
        cells[i] = own[i];
    }
    is_done = is_done && ct_sort_large(cells, m, sizeof *cells, by_cell);
    for (size_t i = 0; i < m && is_done; i++)
        if (kept[i] == open[i].vertex) is_done = weld_to(open, i, cells, m, &own[i], distance, kept, changes);
    for (size_t v = 0; v < soup->n_vertices && is_done; v++) {
        if (CT_POLL_EVERY(v, 8 * POLL)) is_done = !ct_is_cancelled();
        to[v] = (uint32_t)v;
    }
    for (size_t i = 0; i < m && is_done; i++) {
        if (kept[i] == open[i].vertex) continue;
        to[open[i].vertex] = kept[i];
        note_vertex(soup, changes, CT_CHANGE_WELDED, open[i].vertex, open[i].vertex);
    }
    for (size_t i = 0; i < 3 * soup->n_triangles && is_done; i++) {
        if (CT_POLL_EVERY(i, POLL)) is_done = !ct_is_cancelled();
        soup->triangles[i] = to[soup->triangles[i]];
    }
    free(open), free(cells), free(own), free(kept), free(to);
    return is_done ? CT_OK : no_memory(soup, error);
}

/* ---- dropping ---- */

struct face {
    uint32_t vertex[3]; /* rising */
    uint32_t triangle;
    bool is_even; /* the triangle runs through them in this order */
};

static int by_vertices(const void *a, const void *b) {
    const struct face *x = a, *y = b;
    for (int k = 0; k < 3; k++)
        if (x->vertex[k] != y->vertex[k]) return x->vertex[k] < y->vertex[k] ? -1 : 1;
    return x->triangle < y->triangle ? -1 : x->triangle > y->triangle;
}

static struct face face_of(const uint32_t *corner, size_t t) {
    struct face f = {{corner[0], corner[1], corner[2]}, (uint32_t)t, true};
    for (int k = 0; k < 3; k++) {
        const int i = k == 1; /* compare 0 1, 1 2, 0 1 */
        if (f.vertex[i] <= f.vertex[i + 1]) continue;
        const uint32_t swapped = f.vertex[i];
        f.vertex[i] = f.vertex[i + 1];
        f.vertex[i + 1] = swapped;
        f.is_even = !f.is_even;
    }
    return f;
}

/* Marks triangles that name a vertex twice, and of those between the same three vertices all but one; where as many face
 * one way as the other, whether one stays is for opposed.h. given: [n_triangles] number of each triangle as it was uploaded;
 * is_opposed: by that number, whether it was found to face both ways, also before. dropping: [n_triangles] of ct_dropping,
 * all 0. False: out of memory, or cancelled. */
static bool find_dropped(const ct_soup *soup, bool is_open, const uint32_t *given, bool *is_opposed, struct face *faces,
                         uint8_t *dropping) {
    const size_t n = soup->n_triangles;
    bool has_opposed = false;
    for (size_t t = 0; t < n; t++) {
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        faces[t] = face_of(soup->triangles + 3 * t, t);
        dropping[t] = names_vertex_twice(soup->triangles + 3 * t) ? CT_DROP_DEGENERATE : CT_KEEP;
    }
    if (!ct_sort_large(faces, n, sizeof *faces, by_vertices)) return false;
    for (size_t i = 0, end; i < n; i = end) {
        int64_t balance = 0;
        for (end = i; end < n && memcmp(faces[end].vertex, faces[i].vertex, sizeof faces->vertex) == 0; end++) {
            if (CT_POLL_EVERY(end, POLL) && ct_is_cancelled()) return false;
            balance += is_opposed[given[faces[end].triangle]] ? 0 : faces[end].is_even ? 1 : -1;
        }
        if ((end - i == 1 && balance != 0) || dropping[faces[i].triangle]) continue;
        bool is_kept = false;
        for (size_t k = i; k < end; k++) {
            const bool may_stay = !is_kept && (balance == 0 || faces[k].is_even == (balance > 0));
            if (CT_POLL_EVERY(k, POLL) && ct_is_cancelled()) return false;
            is_kept = is_kept || may_stay;
            dropping[faces[k].triangle] = !may_stay ? CT_DROP_DUPLICATE : balance == 0 ? CT_OPPOSED : CT_KEEP;
            is_opposed[given[faces[k].triangle]] = balance == 0;
        }
        has_opposed = has_opposed || balance == 0;
    }
    return !has_opposed || ct_settle_opposed(soup, is_open, dropping);
}

/* dropping: [n_triangles] of ct_dropping. given: [n_triangles] number of each triangle as it was uploaded, kept in step.
 * False: cancelled. */
static bool drop_marked(ct_soup *soup, const uint8_t *dropping, uint32_t *given, ct_mesh_changes *changes) {
    size_t left = 0;
    for (size_t t = 0; t < soup->n_triangles; t++) {
        const uint32_t *corner = soup->triangles + 3 * t;
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        if (dropping[t])
            note_vertex(soup, changes, dropping[t] == CT_DROP_DUPLICATE ? CT_CHANGE_DUPLICATE : CT_CHANGE_DEGENERATE,
                        given[t], corner[0]);
        if (dropping[t]) continue;
        memmove(soup->triangles + 3 * left, corner, 12);
        given[left++] = given[t];
    }
    soup->n_triangles = left;
    return true;
}

/* Drops triangles that have no area or are there already. is_open: sheets stay. */
static ct_status drop_triangles(ct_soup *soup, bool is_open, uint32_t *given, bool *is_opposed,
                                ct_mesh_changes *changes, ct_error *error) {
    const size_t n = soup->n_triangles;
    struct face *faces = malloc((n + 1) * sizeof *faces);
    uint8_t *dropping = calloc(n + 1, 1);
    const bool is_done = faces && dropping && find_dropped(soup, is_open, given, is_opposed, faces, dropping) &&
                         drop_marked(soup, dropping, given, changes);
    free(faces), free(dropping);
    if (!is_done) return no_memory(soup, error);
    return soup->n_triangles
               ? CT_OK
               : ct_fail(error, CT_INVALID_MESH, "triangles",
                         "the repair leaves no triangle: they have no area, or are there once for each side of "
                         "a sheet that is open; a solid body is needed; closing (hull or wrap) takes any "
                         "surface");
}

/* ---- needles ---- */

/* A triangle of three vertices on a line. */
static bool is_needle(const ct_soup *soup, const uint32_t *corner) {
    double e[2][3];
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < 3; k++)
            e[i][k] = (double)soup->positions[3 * (size_t)corner[i + 1] + k] -
                      (double)soup->positions[3 * (size_t)corner[0] + k];
    for (int k = 0; k < 3; k++)
        if (e[0][k] * e[1][(k + 1) % 3] != e[0][(k + 1) % 3] * e[1][k]) return false;
    return true;
}

/* Where the half edges of an edge begin among all, which are sorted. */
static size_t find_edge(const ct_half_edge *edges, size_t n, uint64_t key) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (edges[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Marks needles whose edges all have an odd number of triangles, which is even without them. Others are needed: they
 * fill the place between an edge and the halves that it has on its other side. is_odd: [n_edges], of each edge's first
 * half edge. False: cancelled. */
static bool mark_needles(const ct_soup *soup, const ct_half_edge *edges, size_t n_edges, uint8_t *is_odd,
                         uint8_t *is_dropped) {
    for (size_t i = 0, k = 0, end; i < n_edges; i = end, k++) {
        if (CT_POLL_EVERY(k, POLL) && ct_is_cancelled()) return false;
        end = end_of_edge(edges, n_edges, i);
        is_odd[i] = (end - i) % 2;
    }
    for (size_t t = 0; t < soup->n_triangles; t++) {
        const uint32_t *corner = soup->triangles + 3 * t;
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        if (!is_needle(soup, corner)) continue;
        size_t at[3];
        for (int c = 0; c < 3; c++) at[c] = find_edge(edges, n_edges, ct_edge_key(corner[c], corner[(c + 1) % 3]));
        if (!is_odd[at[0]] || !is_odd[at[1]] || !is_odd[at[2]]) continue;
        for (int c = 0; c < 3; c++) is_odd[at[c]] = 0;
        is_dropped[t] = 1;
    }
    return true;
}

static ct_status drop_needles(ct_soup *soup, uint32_t *given, ct_mesh_changes *changes, ct_error *error) {
    bool has_needle = false;
    for (size_t t = 0; t < soup->n_triangles && !has_needle; t++) {
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return ct_fail_cancelled(error);
        has_needle = is_needle(soup, soup->triangles + 3 * t);
    }
    if (!has_needle) return CT_OK;
    size_t n_edges = 0;
    ct_half_edge *edges = ct_half_edges(soup->triangles, soup->n_triangles, &n_edges);
    uint8_t *is_odd = edges ? calloc(n_edges + 1, 1) : NULL, *is_dropped = calloc(soup->n_triangles + 1, 1);
    const bool is_done = is_odd && is_dropped && mark_needles(soup, edges, n_edges, is_odd, is_dropped) &&
                         drop_marked(soup, is_dropped, given, changes);
    free(edges), free(is_odd), free(is_dropped);
    return is_done ? CT_OK : no_memory(soup, error);
}

/* Drops shells that lie where another does. */
static ct_status drop_twins(ct_soup *soup, uint32_t *given, ct_mesh_changes *changes, ct_error *error) {
    const size_t n = soup->n_triangles;
    uint32_t *shell = malloc((n + 1) * sizeof *shell), *twin_of = NULL, n_shells = 0;
    uint8_t *is_dropped = calloc(n + 1, 1);
    ct_edge_report ignored;
    ct_status status =
        shell && is_dropped ? ct_check_edges(soup, &ignored, shell, &n_shells, error) : no_memory(soup, error);
    if (status == CT_OK && n_shells > 1) {
        twin_of = malloc(n_shells * sizeof *twin_of);
        status = twin_of ? ct_find_twins(soup, shell, n_shells, twin_of, error) : no_memory(soup, error);
        for (size_t t = 0; t < n && status == CT_OK; t++)
            is_dropped[t] = twin_of[shell[t]] != shell[t] ? CT_DROP_DUPLICATE : CT_KEEP;
        if (status == CT_OK && !drop_marked(soup, is_dropped, given, changes)) status = ct_fail_cancelled(error);
    }
    free(shell), free(is_dropped), free(twin_of);
    return status;
}

/* ---- directions ---- */

struct surface {
    ct_soup *soup;
    ct_half_edge *edges;
    size_t n_edges;
    uint32_t *shell;       /* [triangles] */
    uint32_t *partner;     /* [n_edges] the half edge on the other side, NONE where there is no one such */
    uint32_t *first;       /* [triangles + 1] into by_triangle */
    uint32_t *by_triangle; /* [n_edges] half edges by triangle */
    uint32_t *queue;
    bool *was_mixed;       /* [n_shells] */
    size_t shell_capacity; /* of shell, which grows as holes are filled */
    size_t n_shells;
};

static void swap_corners(uint32_t *corner) {
    const uint32_t second = corner[1];
    corner[1] = corner[2];
    corner[2] = second;
}

/* Whether the triangle of half edge e runs through it from its smaller vertex to the larger. */
static bool runs_up(const struct surface *s, uint32_t e) {
    const uint32_t *corner = s->soup->triangles + 3 * (size_t)s->edges[e].triangle;
    const uint32_t low = (uint32_t)(s->edges[e].key >> 32), high = (uint32_t)s->edges[e].key;
    for (int c = 0; c < 3; c++)
        if (corner[c] == low) return corner[(c + 1) % 3] == high;
    return false;
}

/* Spreads the first triangle's direction over its shell, across edges of two triangles. */
static ct_status direct_shell(struct surface *s, uint32_t start, uint32_t number, ct_error *error) {
    size_t n = 0;
    s->queue[n++] = start;
    s->shell[start] = number;
    for (size_t done = 0; done < n; done++) {
        const uint32_t t = s->queue[done];
        if (CT_POLL_EVERY(done + 1, POLL) && ct_is_cancelled()) return ct_fail_cancelled(error);
        for (uint32_t k = s->first[t]; k < s->first[t + 1]; k++) {
            const uint32_t e = s->by_triangle[k], other = s->partner[e];
            if (other == NONE) continue;
            const uint32_t u = s->edges[other].triangle;
            const bool agrees = runs_up(s, e) != runs_up(s, other);
            if (s->shell[u] == NONE) {
                s->shell[u] = number;
                s->queue[n++] = u;
                if (agrees) continue;
                swap_corners(s->soup->triangles + 3 * (size_t)u);
                s->was_mixed[number] = true;
            } else if (!agrees) {
                const uint32_t a = (uint32_t)(s->edges[e].key >> 32), b = (uint32_t)s->edges[e].key;
                const float *p = s->soup->positions + 3 * (size_t)a;
                return ct_fail(error, CT_INVALID_MESH, "triangles",
                               "the repair cannot direct the surface: it has one side only, like a Moebius strip; "
                               "following it around comes back to edge %u-%u at (%g, %g, %g) turned over",
                               a, b, (double)p[0], (double)p[1], (double)p[2]);
            }
        }
    }
    return CT_OK;
}

static void free_surface(struct surface *s) {
    free(s->edges), free(s->shell), free(s->partner), free(s->first), free(s->by_triangle), free(s->queue);
    free(s->was_mixed);
}

static bool allocate_surface(struct surface *s, ct_soup *soup) {
    const size_t n = soup->n_triangles;
    *s = (struct surface){.soup = soup};
    s->edges = ct_half_edges(soup->triangles, n, &s->n_edges);
    s->shell_capacity = n + 1;
    s->shell = malloc(s->shell_capacity * sizeof *s->shell);
    s->partner = malloc((3 * n + 1) * sizeof *s->partner);
    s->first = calloc(n + 2, sizeof *s->first);
    s->by_triangle = malloc((3 * n + 1) * sizeof *s->by_triangle);
    s->queue = malloc((n + 1) * sizeof *s->queue);
    s->was_mixed = calloc(n + 1, sizeof *s->was_mixed);
    return s->edges && s->shell && s->partner && s->first && s->by_triangle && s->queue && s->was_mixed;
}

/* Partners at an edge of more than two triangles, half edges i to end - 1: none, where some have no partner of the other
 * direction or are there twice. False: out of memory, or cancelled. */
static bool pair_crowd(struct surface *s, size_t i, size_t end) {
    const size_t n = end - i;
    const uint32_t low = (uint32_t)(s->edges[i].key >> 32), high = (uint32_t)s->edges[i].key;
    ct_edge_face *faces = malloc(n * sizeof *faces);
    for (size_t k = 0; k < n && faces; k++) {
        const ct_half_edge *e = &s->edges[i + k];
        const uint32_t *corner = s->soup->triangles + 3 * (size_t)e->triangle;
        const int apex = corner[0] != low && corner[0] != high ? 0 : corner[1] != low && corner[1] != high ? 1 : 2;
        faces[k] = (ct_edge_face){.id = (uint32_t)(i + k), .apex = corner[apex], .runs_up = e->from == low};
    }
    const ct_edge_pairing found = faces ? ct_pair_edge_faces(s->soup->positions, low, high, faces, n) : CT_EDGE_FAILED;
    for (size_t k = 0; k < n && faces; k++) s->partner[faces[k].id] = found == CT_EDGE_PAIRED ? faces[k ^ 1].id : NONE;
    free(faces);
    return found != CT_EDGE_FAILED;
}

/* Finds partners and each triangle's half edges. False: out of memory, or cancelled. */
static bool connect_triangles(struct surface *s) {
    const size_t n = s->soup->n_triangles;
    for (size_t i = 0, m = 0, end; i < s->n_edges; i = end, m++) {
        if (CT_POLL_EVERY(m, POLL) && ct_is_cancelled()) return false;
        end = end_of_edge(s->edges, s->n_edges, i);
        if (end - i > 2 && !pair_crowd(s, i, end)) return false;
        for (size_t k = i; k < end && end - i <= 2; k++)
            s->partner[k] = end - i == 2 ? (uint32_t)(2 * i + 1 - k) : NONE;
    }
    for (size_t e = 0; e < s->n_edges; e++) {
        if (CT_POLL_EVERY(e, POLL) && ct_is_cancelled()) return false;
        s->first[s->edges[e].triangle + 2]++;
    }
    for (size_t t = 0; t < n; t++) {
        if (CT_POLL_EVERY(t, 8 * POLL) && ct_is_cancelled()) return false;
        s->first[t + 2] += s->first[t + 1];
    }
    for (size_t e = 0; e < s->n_edges; e++) {
        if (CT_POLL_EVERY(e, POLL) && ct_is_cancelled()) return false;
        s->by_triangle[s->first[s->edges[e].triangle + 1]++] = (uint32_t)e;
    }
    return true;
}

/* Gives each shell one direction. */
static ct_status direct_shells(struct surface *s, ct_error *error) {
    const size_t n = s->soup->n_triangles;
    if (!connect_triangles(s) || !ct_fill_large(s->shell, 0xff, n * sizeof *s->shell)) return no_memory(s->soup, error);
    ct_status status = CT_OK;
    for (size_t t = 0; t < n && status == CT_OK; t++) {
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return ct_fail_cancelled(error);
        if (s->shell[t] == NONE) status = direct_shell(s, (uint32_t)t, (uint32_t)s->n_shells++, error);
    }
    return status;
}

/* ---- holes ---- */

/* An open edge against its triangle's direction. Those of one shell and start are used one after the other. */
struct open_edge {
    uint32_t shell, from, to;
    uint32_t n_used; /* of the first of a shell and start: how many of these are used */
};

static int by_start(const void *a, const void *b) {
    const struct open_edge *x = a, *y = b;
    if (x->shell != y->shell) return x->shell < y->shell ? -1 : 1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static size_t first_of_start(const struct open_edge *open, size_t n, uint32_t shell, uint32_t from) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (open[middle].shell < shell || (open[middle].shell == shell && open[middle].from < from))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Uses the next open edge of the shell from there on. NULL: there is none. */
static const struct open_edge *use_next(struct open_edge *open, size_t n, uint32_t shell, uint32_t from) {
    const size_t first = first_of_start(open, n, shell, from);
    if (first == n || open[first].shell != shell || open[first].from != from) return NULL;
    const size_t next = first + open[first].n_used;
    if (next == n || open[next].shell != shell || open[next].from != from) return NULL;
    open[first].n_used++;
    return &open[next];
}

struct filling {
    struct surface *surface;
    struct open_edge *open;
    size_t n_open;
    uint32_t *path;  /* [n_open + 1] */
    uint32_t *place; /* [vertices] in the path, else NONE */
    double max_hole;
    uint64_t n_tests; /* as ct_fill_hole counts them */
    ct_mesh_changes *changes;
};

static ct_status fill_loop(struct filling *f, const ct_loop *loop, uint32_t shell, ct_error *error) {
    ct_soup *soup = f->surface->soup;
    double middle[3];
    const double size = ct_measure_loop(soup, loop, middle);
    /* What lies on a line is no opening, however long it is. */
    if (loop->n > MOST_HOLE_EDGES || (size > f->max_hole && !ct_is_on_line(soup, loop)))
        return ct_fail(error, CT_INVALID_MESH, "triangles",
                       "the hole of %zu edges around (%g, %g, %g) is %g m wide; the repair fills holes of up to %g m "
                       "and %d edges: close it by hand, or give a larger max_hole",
                       loop->n, middle[0], middle[1], middle[2], size, f->max_hole, MOST_HOLE_EDGES);
    const size_t before = soup->n_triangles;
    const ct_status status = ct_fill_hole(soup, loop, f->surface->edges, f->surface->n_edges, &f->n_tests, error);
    if (status != CT_OK) return status;
    if (!ct_array_grow(&f->surface->shell, &f->surface->shell_capacity, soup->n_triangles))
        return no_memory(soup, error);
    for (size_t t = before; t < soup->n_triangles; t++) f->surface->shell[t] = shell;
    f->changes->fill_triangles += soup->n_triangles - before;
    note_change(f->changes, CT_CHANGE_FILLED, loop->vertices[0], middle, (uint32_t)loop->n);
    return CT_OK;
}

/* Follows open edges from one of them, and fills the loops that its path makes. */
static ct_status follow(struct filling *f, const struct open_edge *start, ct_error *error) {
    ct_status status = CT_OK;
    size_t n = 0, steps = 0;
    f->place[start->from] = 0;
    f->path[n++] = start->from;
    for (const struct open_edge *at = start; at && status == CT_OK;) {
        const uint32_t begin = f->place[at->to];
        if (CT_POLL_EVERY(++steps, 256) && ct_is_cancelled()) return ct_fail_cancelled(error);
        if (begin == NONE) {
            f->place[at->to] = (uint32_t)n;
            f->path[n++] = at->to;
        } else {
            const ct_loop loop = {f->path + begin, n - begin};
            status = fill_loop(f, &loop, start->shell, error);
            for (; n > begin + 1; n--) f->place[f->path[n - 1]] = NONE;
        }
        at = use_next(f->open, f->n_open, start->shell, f->path[n - 1]);
    }
    for (; n > 0; n--) f->place[f->path[n - 1]] = NONE;
    return status;
}

/* Lists open edges by shell and start. False: out of memory, or cancelled. */
static bool list_open_edges(struct filling *f) {
    const struct surface *s = f->surface;
    for (size_t i = 0, k = 0, end; i < s->n_edges; i = end, k++) {
        if (CT_POLL_EVERY(k, POLL) && ct_is_cancelled()) return false;
        end = end_of_edge(s->edges, s->n_edges, i);
        if (end - i > 1) continue;
        const uint32_t low = (uint32_t)(s->edges[i].key >> 32), high = (uint32_t)s->edges[i].key;
        const bool is_up = runs_up(s, (uint32_t)i);
        f->open[f->n_open++] =
            (struct open_edge){s->shell[s->edges[i].triangle], is_up ? high : low, is_up ? low : high, 0};
    }
    return ct_sort_large(f->open, f->n_open, sizeof *f->open, by_start);
}

static ct_status fill_holes(struct surface *s, double max_hole, ct_mesh_changes *changes, ct_error *error) {
    struct filling f = {.surface = s, .max_hole = max_hole, .changes = changes};
    f.open = malloc((s->n_edges + 1) * sizeof *f.open);
    f.path = malloc((s->n_edges + 2) * sizeof *f.path);
    f.place = malloc((s->soup->n_vertices + 1) * sizeof *f.place);
    ct_status status = f.open && f.path && f.place &&
                               ct_fill_large(f.place, 0xff, s->soup->n_vertices * sizeof *f.place) &&
                               list_open_edges(&f)
                           ? CT_OK
                           : no_memory(s->soup, error);
    for (size_t i = 0; i < f.n_open && status == CT_OK; i++) {
        const size_t first = first_of_start(f.open, f.n_open, f.open[i].shell, f.open[i].from);
        if (CT_POLL_EVERY(i, 256) && ct_is_cancelled()) status = ct_fail_cancelled(error);
        if (status != CT_OK || i < first + f.open[first].n_used) continue;
        status = follow(&f, use_next(f.open, f.n_open, f.open[i].shell, f.open[i].from), error);
    }
    free(f.open), free(f.path), free(f.place);
    return status;
}

/* ---- the whole ---- */

/* m, of the box of what triangles use. */
static double diagonal_of(const ct_soup *soup) {
    double squares = 0;
    for (size_t k = 0; k < 3; k++) {
        double lo = INFINITY, hi = -INFINITY;
        for (size_t i = 0; i < 3 * soup->n_triangles; i++) {        /* not all vertices: no triangle may use some */
            if (CT_POLL_EVERY(i, POLL) && ct_is_cancelled()) break; /* what follows finds it */
            const double x = (double)soup->positions[3 * (size_t)soup->triangles[i] + k];
            lo = fmin(lo, x);
            hi = fmax(hi, x);
        }
        squares += (hi - lo) * (hi - lo);
    }
    return sqrt(squares);
}

/* before: the triangles before any was turned; number: of each as it was uploaded. False: cancelled. */
static bool note_turned(const ct_soup *soup, const uint32_t *before, const uint32_t *number, size_t n,
                        ct_mesh_changes *changes) {
    for (size_t t = 0; t < n; t++) {
        if (CT_POLL_EVERY(t, POLL) && ct_is_cancelled()) return false;
        if (memcmp(soup->triangles + 3 * t, before + 3 * t, 12) != 0)
            note_vertex(soup, changes, CT_CHANGE_TURNED, number[t], before[3 * t]);
    }
    return true;
}

/* Turns the shells of an open surface that face along its direction more than against it. False: no memory, or
 * cancelled. */
static bool turn_along(const struct surface *s, const double direction[3]) {
    const ct_soup *soup = s->soup;
    double *facing = calloc(s->n_shells + 1, sizeof *facing); /* m^2, by shell: twice the area as seen along it */
    bool is_done = facing;
    for (size_t t = 0; t < soup->n_triangles && is_done; t++) {
        const uint32_t *corner = soup->triangles + 3 * t;
        double u[3], v[3], normal[3];
        if (CT_POLL_EVERY(t, POLL)) is_done = !ct_is_cancelled();
        for (size_t k = 0; k < 3; k++) {
            const double at = (double)soup->positions[3 * (size_t)corner[0] + k];
            u[k] = (double)soup->positions[3 * (size_t)corner[1] + k] - at;
            v[k] = (double)soup->positions[3 * (size_t)corner[2] + k] - at;
        }
        ct_cross3(u, v, normal);
        facing[s->shell[t]] += ct_dot3(normal, direction);
    }
    for (size_t t = 0; t < soup->n_triangles && is_done; t++) {
        if (CT_POLL_EVERY(t, POLL)) is_done = !ct_is_cancelled();
        if (facing[s->shell[t]] > 0) swap_corners(soup->triangles + 3 * t);
    }
    free(facing);
    return is_done;
}

/* direction: of an open surface, whose holes stay; NULL: the surface is closed. */
static ct_status repair_directed(ct_soup *soup, double max_hole, const double *direction, const uint32_t *number,
                                 ct_mesh_changes *changes, ct_error *error) {
    struct surface surface;
    const size_t n = soup->n_triangles;
    uint32_t *as_given = malloc(12 * n + 1);
    ct_status status = allocate_surface(&surface, soup) && as_given ? CT_OK : no_memory(soup, error);
    if (status == CT_OK) {
        if (!ct_copy_large(as_given, soup->triangles, 12 * n)) status = ct_fail_cancelled(error);
        if (status == CT_OK) status = direct_shells(&surface, error);
        if (status == CT_OK && direction && !turn_along(&surface, direction)) status = no_memory(soup, error);
        if (status == CT_OK && !direction) status = fill_holes(&surface, max_hole, changes, error);
        if (status == CT_OK && !direction)
            status = ct_turn_shells(soup, surface.shell, surface.n_shells, surface.was_mixed, error);
        if (status == CT_OK && !note_turned(soup, as_given, number, n, changes)) status = ct_fail_cancelled(error);
    }
    free(as_given);
    free_surface(&surface);
    return status;
}

ct_status ct_repair(ct_soup *soup, const ct_mesh_options *options, const double *direction, ct_mesh_changes *changes,
                    ct_error *error) {
    ct_status status =
        ct_validate_elements(soup->positions, soup->n_vertices, soup->triangles, soup->n_triangles, error);
    if (status != CT_OK) return status;
    const size_t n_given = soup->n_triangles;
    uint32_t *number = malloc(n_given * sizeof *number);
    bool *is_opposed = calloc(n_given, sizeof *is_opposed);
    if (!number || !is_opposed) {
        free(number), free(is_opposed);
        return no_memory(soup, error);
    }
    for (size_t t = 0; t < n_given && !(CT_POLL_EVERY(t, 8 * POLL) && ct_is_cancelled()); t++) number[t] = (uint32_t)t;
    bool is_open = false;
    const double diagonal = diagonal_of(soup),
                 hole = options->max_hole > 0 ? options->max_hole : CT_DEFAULT_HOLE * diagonal,
                 near = options->weld > 0 ? options->weld : CT_DEFAULT_WELD * diagonal;
    /* Before vertices are welded, faces that are there once for each side may be sheets, each with vertices of its own. */
    status = drop_triangles(soup, true, number, is_opposed, changes, error);
    if (status == CT_OK) status = weld_open_edges(soup, changes, &is_open, error);
    if (status == CT_OK && is_open && near > 0) status = weld_near(soup, near, changes, error);
    if (status == CT_OK && (changes->of[CT_CHANGE_WELDED].count || changes->of[CT_CHANGE_DUPLICATE].count))
        status = drop_triangles(soup, direction, number, is_opposed, changes, error);
    if (status == CT_OK) status = drop_needles(soup, number, changes, error);
    if (status == CT_OK) status = drop_twins(soup, number, changes, error);
    if (status == CT_OK) status = repair_directed(soup, hole, direction, number, changes, error);
    free(number), free(is_opposed);
    for (int k = 0; k < CT_CHANGE_KINDS; k++) changes->is_changed = changes->is_changed || changes->of[k].count;
    return status;
}
