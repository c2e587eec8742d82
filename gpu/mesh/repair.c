/* repair.c - drops, welds, turns and fills: the order of a repair, and its simple parts. */
#include "gpu/mesh/repair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/validate.h"

/* Clipping ears takes time as the square of a loop's edges. */
enum { MOST_HOLE_EDGES = 1024 };

#define NONE UINT32_MAX

void ct_note_change(ct_mesh_changes *changes, ct_change_kind kind, uint64_t index, const double at[3], uint32_t edges) {
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
    ct_note_change(changes, kind, index, (double[]){(double)p[0], (double)p[1], (double)p[2]}, 0);
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
    for (size_t t = 0; edges && t < n_triangles; t++) {
        const uint32_t *corner = triangles + 3 * t;
        for (size_t c = 0; c < 3 && !names_vertex_twice(corner); c++) {
            const uint32_t from = corner[c], to = corner[c < 2 ? c + 1 : 0];
            edges[(*n)++] = (ct_half_edge){ct_edge_key(from, to), (uint32_t)t, from, to};
        }
    }
    if (edges) qsort(edges, *n, sizeof *edges, by_key);
    return edges;
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

/* Vertices at one position that lie on open edges become one, the first: elsewhere surfaces may touch on purpose. */
static ct_status weld_open_edges(ct_soup *soup, ct_mesh_changes *changes, ct_error *error) {
    size_t n_edges, n = 0;
    ct_half_edge *edges = ct_half_edges(soup->triangles, soup->n_triangles, &n_edges);
    uint32_t *kept = malloc((soup->n_vertices + 1) * sizeof *kept);
    struct welded *open = edges ? malloc((2 * n_edges + 1) * sizeof *open) : NULL;
    if (!edges || !kept || !open) {
        free(edges), free(kept), free(open);
        return no_memory(soup, error);
    }
    for (size_t i = 0, end; i < n_edges; i = end) {
        end = end_of_edge(edges, n_edges, i);
        if (end - i > 1) continue;
        const uint32_t ends[2] = {edges[i].from, edges[i].to};
        for (int k = 0; k < 2; k++) {
            open[n].vertex = ends[k];
            memcpy(open[n++].at, soup->positions + 3 * (size_t)ends[k], 12);
        }
    }
    qsort(open, n, sizeof *open, by_position);
    for (size_t v = 0; v < soup->n_vertices; v++) kept[v] = (uint32_t)v;
    for (size_t i = 1, first = 0; i < n; i++) {
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
    for (size_t i = 0; i < 3 * soup->n_triangles; i++) soup->triangles[i] = kept[soup->triangles[i]];
    free(edges), free(kept), free(open);
    return CT_OK;
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

/* Drops triangles that name a vertex twice, and of those between the same three vertices all but one, or all if as many
 * face one way as the other. given: [n_triangles] number of each triangle as it was uploaded, kept in step. */
static ct_status drop_triangles(ct_soup *soup, uint32_t *given, ct_mesh_changes *changes, ct_error *error) {
    const size_t n = soup->n_triangles;
    struct face *faces = malloc((n + 1) * sizeof *faces);
    uint8_t *is_dropped = calloc(n + 1, 1);
    if (!faces || !is_dropped) {
        free(faces), free(is_dropped);
        return no_memory(soup, error);
    }
    for (size_t t = 0; t < n; t++) {
        faces[t] = face_of(soup->triangles + 3 * t, t);
        is_dropped[t] = names_vertex_twice(soup->triangles + 3 * t);
    }
    qsort(faces, n, sizeof *faces, by_vertices);
    for (size_t i = 0, end; i < n; i = end) {
        int64_t balance = 0;
        for (end = i; end < n && memcmp(faces[end].vertex, faces[i].vertex, sizeof faces->vertex) == 0; end++)
            balance += faces[end].is_even ? 1 : -1;
        if (end - i == 1 || is_dropped[faces[i].triangle]) continue;
        bool is_kept = false;
        for (size_t k = i; k < end; k++) {
            const bool may_stay = !is_kept && balance != 0 && faces[k].is_even == (balance > 0);
            is_kept = is_kept || may_stay;
            is_dropped[faces[k].triangle] = may_stay ? 0 : 2;
        }
    }
    size_t left = 0;
    for (size_t t = 0; t < n; t++) {
        const uint32_t *corner = soup->triangles + 3 * t;
        if (is_dropped[t])
            note_vertex(soup, changes, is_dropped[t] == 2 ? CT_CHANGE_DUPLICATE : CT_CHANGE_DEGENERATE, given[t],
                        corner[0]);
        if (is_dropped[t]) continue;
        memmove(soup->triangles + 3 * left, corner, 12);
        given[left++] = given[t];
    }
    soup->n_triangles = left;
    free(faces), free(is_dropped);
    return CT_OK;
}

/* ---- directions ---- */

struct surface {
    ct_soup *soup;
    ct_half_edge *edges;
    size_t n_edges;
    uint32_t *shell;       /* [triangles] */
    uint32_t *partner;     /* [n_edges] the other half edge of an edge of two triangles, else NONE */
    uint32_t *first;       /* [triangles + 1] into by_triangle */
    uint32_t *by_triangle; /* [n_edges] half edges by triangle */
    uint32_t *queue;
    bool *was_mixed; /* [n_shells] */
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
    s->shell = malloc((n + 1) * sizeof *s->shell);
    s->partner = malloc((3 * n + 1) * sizeof *s->partner);
    s->first = calloc(n + 2, sizeof *s->first);
    s->by_triangle = malloc((3 * n + 1) * sizeof *s->by_triangle);
    s->queue = malloc((n + 1) * sizeof *s->queue);
    s->was_mixed = calloc(n + 1, sizeof *s->was_mixed);
    return s->edges && s->shell && s->partner && s->first && s->by_triangle && s->queue && s->was_mixed;
}

/* Gives each shell one direction. */
static ct_status direct_shells(struct surface *s, ct_error *error) {
    const size_t n = s->soup->n_triangles;
    for (size_t i = 0, end; i < s->n_edges; i = end) {
        end = end_of_edge(s->edges, s->n_edges, i);
        for (size_t k = i; k < end; k++) s->partner[k] = end - i == 2 ? (uint32_t)(2 * i + 1 - k) : NONE;
    }
    for (size_t e = 0; e < s->n_edges; e++) s->first[s->edges[e].triangle + 2]++;
    for (size_t t = 0; t < n; t++) s->first[t + 2] += s->first[t + 1];
    for (size_t e = 0; e < s->n_edges; e++) s->by_triangle[s->first[s->edges[e].triangle + 1]++] = (uint32_t)e;
    memset(s->shell, 0xff, n * sizeof *s->shell);
    ct_status status = CT_OK;
    for (size_t t = 0; t < n && status == CT_OK; t++)
        if (s->shell[t] == NONE) status = direct_shell(s, (uint32_t)t, (uint32_t)s->n_shells++, error);
    return status;
}

/* ---- holes ---- */

/* An open edge against its triangle's direction. */
struct open_edge {
    uint32_t shell, from, to;
    bool is_used;
};

static int by_start(const void *a, const void *b) {
    const struct open_edge *x = a, *y = b;
    if (x->shell != y->shell) return x->shell < y->shell ? -1 : 1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static struct open_edge *find_next(struct open_edge *open, size_t n, uint32_t shell, uint32_t from) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (open[middle].shell < shell || (open[middle].shell == shell && open[middle].from < from))
            low = middle + 1;
        else
            high = middle;
    }
    while (low < n && open[low].shell == shell && open[low].from == from && open[low].is_used) low++;
    return low < n && open[low].shell == shell && open[low].from == from ? &open[low] : NULL;
}

struct filling {
    struct surface *surface;
    struct open_edge *open;
    size_t n_open;
    uint32_t *path;  /* [n_open + 1] */
    uint32_t *place; /* [vertices] in the path, else NONE */
    double max_hole;
    ct_mesh_changes *changes;
};

static ct_status fill_loop(struct filling *f, const ct_loop *loop, uint32_t shell, ct_error *error) {
    ct_soup *soup = f->surface->soup;
    double middle[3];
    const double size = ct_measure_loop(soup, loop, middle);
    if (loop->n > MOST_HOLE_EDGES || size > f->max_hole)
        return ct_fail(error, CT_INVALID_MESH, "triangles",
                       "the hole of %zu edges around (%g, %g, %g) is %g m wide; the repair fills holes of up to %g m "
                       "and %d edges: close it by hand, or give a larger max_hole",
                       loop->n, middle[0], middle[1], middle[2], size, f->max_hole, MOST_HOLE_EDGES);
    const size_t before = soup->n_triangles;
    const ct_status status = ct_fill_hole(soup, loop, f->surface->edges, f->surface->n_edges, error);
    if (status != CT_OK) return status;
    uint32_t *grown = realloc(f->surface->shell, (soup->n_triangles + 1) * sizeof *grown);
    if (!grown) return no_memory(soup, error);
    f->surface->shell = grown;
    for (size_t t = before; t < soup->n_triangles; t++) grown[t] = shell;
    f->changes->fill_triangles += soup->n_triangles - before;
    ct_note_change(f->changes, CT_CHANGE_FILLED, loop->vertices[0], middle, (uint32_t)loop->n);
    return CT_OK;
}

/* Follows open edges from one of them, and fills the loops that its path makes. */
static ct_status follow(struct filling *f, struct open_edge *start, ct_error *error) {
    ct_status status = CT_OK;
    size_t n = 0;
    f->place[start->from] = 0;
    f->path[n++] = start->from;
    for (struct open_edge *at = start; at && status == CT_OK;) {
        at->is_used = true;
        const uint32_t begin = f->place[at->to];
        if (begin == NONE) {
            f->place[at->to] = (uint32_t)n;
            f->path[n++] = at->to;
        } else {
            const ct_loop loop = {f->path + begin, n - begin};
            status = fill_loop(f, &loop, start->shell, error);
            for (; n > begin + 1; n--) f->place[f->path[n - 1]] = NONE;
        }
        at = find_next(f->open, f->n_open, start->shell, f->path[n - 1]);
    }
    for (; n > 0; n--) f->place[f->path[n - 1]] = NONE;
    return status;
}

static ct_status fill_holes(struct surface *s, double max_hole, ct_mesh_changes *changes, ct_error *error) {
    struct filling f = {.surface = s, .max_hole = max_hole, .changes = changes};
    f.open = malloc((s->n_edges + 1) * sizeof *f.open);
    f.path = malloc((s->n_edges + 2) * sizeof *f.path);
    f.place = malloc((s->soup->n_vertices + 1) * sizeof *f.place);
    ct_status status = f.open && f.path && f.place ? CT_OK : no_memory(s->soup, error);
    if (status == CT_OK) {
        memset(f.place, 0xff, s->soup->n_vertices * sizeof *f.place);
        for (size_t i = 0, end; i < s->n_edges; i = end) {
            end = end_of_edge(s->edges, s->n_edges, i);
            if (end - i > 1) continue;
            const uint32_t low = (uint32_t)(s->edges[i].key >> 32), high = (uint32_t)s->edges[i].key;
            const bool is_up = runs_up(s, (uint32_t)i);
            f.open[f.n_open++] =
                (struct open_edge){s->shell[s->edges[i].triangle], is_up ? high : low, is_up ? low : high, false};
        }
        qsort(f.open, f.n_open, sizeof *f.open, by_start);
        for (size_t i = 0; i < f.n_open && status == CT_OK; i++)
            if (!f.open[i].is_used) status = follow(&f, &f.open[i], error);
    }
    free(f.open), free(f.path), free(f.place);
    return status;
}

/* ---- the whole ---- */

static double default_hole(const ct_soup *soup) {
    double squares = 0;
    for (size_t k = 0; k < 3; k++) {
        double lo = INFINITY, hi = -INFINITY;
        for (size_t v = 0; v < soup->n_vertices; v++) {
            lo = fmin(lo, (double)soup->positions[3 * v + k]);
            hi = fmax(hi, (double)soup->positions[3 * v + k]);
        }
        squares += (hi - lo) * (hi - lo);
    }
    return CT_DEFAULT_HOLE * sqrt(squares);
}

/* before: the triangles before any was turned; number: of each as it was uploaded. */
static void note_turned(const ct_soup *soup, const uint32_t *before, const uint32_t *number, size_t n,
                        ct_mesh_changes *changes) {
    for (size_t t = 0; t < n; t++)
        if (memcmp(soup->triangles + 3 * t, before + 3 * t, 12) != 0)
            note_vertex(soup, changes, CT_CHANGE_TURNED, number[t], before[3 * t]);
}

static ct_status repair_directed(ct_soup *soup, double max_hole, const uint32_t *number, ct_mesh_changes *changes,
                                 ct_error *error) {
    struct surface surface;
    const size_t n = soup->n_triangles;
    uint32_t *as_given = malloc(12 * n + 1);
    ct_status status = allocate_surface(&surface, soup) && as_given ? CT_OK : no_memory(soup, error);
    if (status == CT_OK) {
        memcpy(as_given, soup->triangles, 12 * n);
        status = direct_shells(&surface, error);
        if (status == CT_OK) status = fill_holes(&surface, max_hole, changes, error);
        if (status == CT_OK) status = ct_turn_shells(soup, surface.shell, surface.n_shells, surface.was_mixed, error);
        if (status == CT_OK) note_turned(soup, as_given, number, n, changes);
    }
    free(as_given);
    free_surface(&surface);
    return status;
}

ct_status ct_repair(ct_soup *soup, double max_hole, ct_mesh_changes *changes, ct_error *error) {
    ct_status status =
        ct_validate_elements(soup->positions, soup->n_vertices, soup->triangles, soup->n_triangles, error);
    if (status != CT_OK) return status;
    uint32_t *number = malloc(soup->n_triangles * sizeof *number);
    if (!number) return no_memory(soup, error);
    for (size_t t = 0; t < soup->n_triangles; t++) number[t] = (uint32_t)t;
    status = drop_triangles(soup, number, changes, error);
    if (status == CT_OK) status = weld_open_edges(soup, changes, error);
    if (status == CT_OK && changes->of[CT_CHANGE_WELDED].count) status = drop_triangles(soup, number, changes, error);
    if (status == CT_OK)
        status = repair_directed(soup, max_hole > 0 ? max_hole : default_hole(soup), number, changes, error);
    free(number);
    for (int k = 0; k < CT_CHANGE_KINDS; k++) changes->is_changed = changes->is_changed || changes->of[k].count;
    return status;
}
