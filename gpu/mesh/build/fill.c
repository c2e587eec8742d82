/* fill.c - fills a hole, or cuts a polygon, by clipping ears of its loop of vertices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/vec.h"
#include "gpu/mesh/build/repair.h"

double ct_measure_loop(const ct_soup *soup, const ct_loop *loop, double middle[3]) {
    double longest = 0;
    for (int k = 0; k < 3; k++) {
        double lo = INFINITY, hi = -INFINITY;
        for (size_t i = 0; i < loop->n; i++) {
            if (CT_POLL_EVERY(i + 1, 4096) && ct_is_cancelled()) break; /* whoever asks polls too */
            const double x = (double)soup->positions[3 * (size_t)loop->vertices[i] + (size_t)k];
            lo = fmin(lo, x), hi = fmax(hi, x);
        }
        middle[k] = (lo + hi) / 2;
        longest = fmax(longest, hi - lo);
    }
    return longest;
}

struct point {
    double u, v;
};

static double turn(struct point a, struct point b, struct point c) {
    return (b.u - a.u) * (c.v - a.v) - (b.v - a.v) * (c.u - a.u);
}

/* The loop as seen along its normal (Newell), so that it runs counter-clockwise. False: it encloses no area. */
static bool flatten(const ct_soup *soup, const ct_loop *loop, struct point *flat) {
    double middle[3], normal[3] = {0, 0, 0};
    ct_measure_loop(soup, loop, middle);
    for (size_t i = 0; i < loop->n; i++) {
        const float *p = soup->positions + 3 * (size_t)loop->vertices[i],
                    *q = soup->positions + 3 * (size_t)loop->vertices[(i + 1) % loop->n];
        for (int k = 0; k < 3; k++) {
            const int a = (k + 1) % 3, b = (k + 2) % 3;
            normal[k] += ((double)p[a] - middle[a]) * ((double)q[b] - middle[b]) -
                         ((double)p[b] - middle[b]) * ((double)q[a] - middle[a]);
        }
    }
    const double size = sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]);
    if (!(size > 0)) return false;
    int least = 0;
    for (int k = 1; k < 3; k++)
        if (fabs(normal[k]) < fabs(normal[least])) least = k;
    double axis[3] = {0, 0, 0}, u[3], v[3], length = 0;
    axis[least] = 1;
    for (int k = 0; k < 3; k++) normal[k] /= size;
    for (int k = 0; k < 3; k++) {
        const int a = (k + 1) % 3, b = (k + 2) % 3;
        u[k] = axis[a] * normal[b] - axis[b] * normal[a];
        length += u[k] * u[k];
    }
    for (int k = 0; k < 3; k++) u[k] /= sqrt(length);
    for (int k = 0; k < 3; k++) {
        const int a = (k + 1) % 3, b = (k + 2) % 3;
        v[k] = normal[a] * u[b] - normal[b] * u[a];
    }
    for (size_t i = 0; i < loop->n; i++) {
        flat[i] = (struct point){0, 0};
        for (int k = 0; k < 3; k++) {
            const double x = (double)soup->positions[3 * (size_t)loop->vertices[i] + (size_t)k] - middle[k];
            flat[i].u += x * u[k];
            flat[i].v += x * v[k];
        }
    }
    return true;
}

static bool has_edge(const ct_half_edge *edges, size_t n, uint32_t a, uint32_t b) {
    const uint64_t key = ct_edge_key(a, b);
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (edges[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && edges[low].key == key;
}

/* ---- points ---- */

/* Points that can be removed, in a tree of boxes: node i has the children 2 i + 1 and 2 i + 2, and a leaf has up to
 * LEAF points. Asked for one in a triangle, it looks along the triangle's sides only: what lies wholly inside ends the
 * search, what lies wholly outside is left out. */
enum { LEAF = 8 };

struct box_of_points {
    struct point lo, hi;
    uint32_t first, n; /* in `order`; of a leaf, else 0 */
    uint32_t left;     /* points below that are not removed */
};

struct points {
    const struct point *flat;
    uint32_t *order;   /* the points' numbers, leaf after leaf */
    uint32_t *leaf_of; /* node of each point */
    bool *is_removed;
    bool skips_equal; /* points at a corner's position are in no triangle */
    struct box_of_points *boxes;
    uint64_t *n_tests;
};

/* Moves the `left` first points along an axis to the front. Points are few, so the pivot is the middle one's. */
static void split_points(const struct points *p, uint32_t *order, uint32_t n, uint32_t left, bool is_v) {
    uint32_t first = 0, end = n;
    while (end - first > 1) {
        const struct point *pivot = &p->flat[order[first + (end - first) / 2]];
        const double at = is_v ? pivot->v : pivot->u;
        uint32_t low = first, high = end, i = first;
        while (i < high) {
            const struct point *x = &p->flat[order[i]];
            const double d = (is_v ? x->v : x->u) - at;
            const uint32_t moved = order[i];
            if (d < 0) {
                order[i++] = order[low];
                order[low++] = moved;
            } else if (d > 0) {
                order[i] = order[--high];
                order[high] = moved;
            } else {
                i++;
            }
        }
        if (left < low)
            end = low;
        else if (left >= high)
            first = high;
        else
            return;
    }
}

/* Recursion is as deep as the logarithm of the points. */
static void make_boxes(struct points *p, uint32_t node, uint32_t first, uint32_t n) {
    struct box_of_points *box = &p->boxes[node];
    *box = (struct box_of_points){{INFINITY, INFINITY}, {-INFINITY, -INFINITY}, first, n, n};
    for (uint32_t i = first; i < first + n; i++) {
        const struct point x = p->flat[p->order[i]];
        box->lo = (struct point){fmin(box->lo.u, x.u), fmin(box->lo.v, x.v)};
        box->hi = (struct point){fmax(box->hi.u, x.u), fmax(box->hi.v, x.v)};
        p->leaf_of[p->order[i]] = node;
    }
    if (n <= LEAF) return;
    split_points(p, p->order + first, n, n / 2, box->hi.v - box->lo.v > box->hi.u - box->lo.u);
    box->n = 0;
    make_boxes(p, 2 * node + 1, first, n / 2);
    make_boxes(p, 2 * node + 2, first + n / 2, n - n / 2);
}

static void remove_point(struct points *p, uint32_t point) {
    p->is_removed[point] = true;
    for (uint32_t node = p->leaf_of[point];; node = (node - 1) / 2) {
        p->boxes[node].left--;
        if (!node) break;
    }
}

/* The greatest turn that any point of the box gives, to the bit: rounding keeps the order of what it rounds. */
static double most_turn(struct point a, struct point b, const struct box_of_points *box) {
    const struct point x = {b.v - a.v >= 0 ? box->lo.u : box->hi.u, b.u - a.u >= 0 ? box->hi.v : box->lo.v};
    return turn(a, b, x);
}

/* The triangle's box, with all points that rounding may find in the triangle: those further away than the margin are on
 * the outer side of some side by more than turns are rounded by, 4e-16 of the square of the points' extent. */
static struct box_of_points reach_of(const struct points *p, struct point a, struct point b, struct point c) {
    const struct box_of_points *all = &p->boxes[0];
    const double u = all->hi.u - all->lo.u, v = all->hi.v - all->lo.v;
    struct box_of_points reach = {.lo = {fmin(a.u, fmin(b.u, c.u)), fmin(a.v, fmin(b.v, c.v))},
                                  .hi = {fmax(a.u, fmax(b.u, c.u)), fmax(a.v, fmax(b.v, c.v))}};
    const double longest = reach.hi.u - reach.lo.u + reach.hi.v - reach.lo.v;
    const double margin = 1e-14 * (u * u + v * v) * longest / turn(a, b, c);
    reach.lo.u -= margin, reach.lo.v -= margin;
    reach.hi.u += margin, reach.hi.v += margin;
    return reach;
}

static bool are_apart(const struct box_of_points *a, const struct box_of_points *b) {
    return a->lo.u > b->hi.u || a->hi.u < b->lo.u || a->lo.v > b->hi.v || a->hi.v < b->lo.v;
}

static bool are_equal(struct point a, struct point b) {
    return a.u == b.u && a.v == b.v;
}

/* A point that is not removed and lies in the triangle or on its sides, but for its corners; UINT32_MAX: none. */
static uint32_t find_inside(const struct points *p, const uint32_t corner[3]) {
    const struct point a = p->flat[corner[0]], b = p->flat[corner[1]], c = p->flat[corner[2]];
    const struct box_of_points reach = reach_of(p, a, b, c);
    uint32_t stack[64], n = 1; /* two for each level of the tree */
    stack[0] = 0;
    while (n) {
        const uint32_t node = stack[--n];
        const struct box_of_points *box = &p->boxes[node];
        ++*p->n_tests;
        if (!box->left || are_apart(box, &reach)) continue;
        if (most_turn(a, b, box) < 0 || most_turn(b, c, box) < 0 || most_turn(c, a, box) < 0) continue;
        for (uint32_t i = box->first; i < box->first + box->n; i++) {
            const uint32_t other = p->order[i];
            if (p->is_removed[other] || other == corner[0] || other == corner[1] || other == corner[2]) continue;
            const struct point x = p->flat[other];
            ++*p->n_tests;
            if (p->skips_equal && (are_equal(x, a) || are_equal(x, b) || are_equal(x, c))) continue;
            if (turn(a, b, x) >= 0 && turn(b, c, x) >= 0 && turn(c, a, x) >= 0) return other;
        }
        if (box->n) continue;
        stack[n++] = 2 * node + 1;
        stack[n++] = 2 * node + 2;
    }
    return UINT32_MAX;
}

/* ---- clipping ---- */

struct clipping {
    const ct_loop *loop;
    struct points points;
    uint32_t *before, *after; /* [loop->n] the neighbours of each place that is left */
    double *quality;          /* [loop->n] as quality_of_ear, or of a time when more places were left */
    uint32_t *blocker;        /* [loop->n] a place that lay in the ear when it was measured, or UINT32_MAX */
    uint32_t *heap, *at;      /* [loop->n] places, the best first, and where each is in the heap */
    size_t n_left, n_heap;
    const ct_half_edge *edges;
    size_t n_edges;
};

/* How good an ear the place is: the sine of its smallest angle, or below 0: it is none. */
static double quality_of_ear(struct clipping *c, uint32_t place) {
    const uint32_t corner[3] = {c->before[place], place, c->after[place]};
    const struct point p = c->points.flat[corner[0]], q = c->points.flat[corner[1]], r = c->points.flat[corner[2]];
    const double area = turn(p, q, r);
    c->blocker[place] = UINT32_MAX;
    if (!(area > 0)) return -1;
    const uint32_t *vertices = c->loop->vertices;
    if (c->n_left > 3 && has_edge(c->edges, c->n_edges, vertices[corner[0]], vertices[corner[2]])) return -1;
    c->blocker[place] = find_inside(&c->points, corner);
    if (c->blocker[place] != UINT32_MAX) return -1;
    const double a = ct_length(q.u - p.u, q.v - p.v, 0), b = ct_length(r.u - q.u, r.v - q.v, 0),
                 d = ct_length(p.u - r.u, p.v - r.v, 0);
    return fmin(area / (a * b), fmin(area / (b * d), area / (d * a)));
}

/* Of two ears that are as good the first in the loop is clipped first. */
static bool is_better(const struct clipping *c, uint32_t x, uint32_t y) {
    return c->quality[x] != c->quality[y] ? c->quality[x] > c->quality[y] : x < y;
}

static void put(struct clipping *c, size_t i, uint32_t place) {
    c->heap[i] = place;
    c->at[place] = (uint32_t)i;
}

/* Moves the i-th place of the heap to where its quality belongs. */
static void sift(struct clipping *c, size_t i) {
    const uint32_t place = c->heap[i];
    for (; i > 0 && is_better(c, place, c->heap[(i - 1) / 2]); i = (i - 1) / 2) put(c, i, c->heap[(i - 1) / 2]);
    for (size_t child; (child = 2 * i + 1) < c->n_heap; i = child) {
        if (child + 1 < c->n_heap && is_better(c, c->heap[child + 1], c->heap[child])) child++;
        if (!is_better(c, c->heap[child], place)) break;
        put(c, i, c->heap[child]);
    }
    put(c, i, place);
}

static void measure(struct clipping *c, uint32_t place) {
    c->quality[place] = quality_of_ear(c, place);
    sift(c, c->at[place]);
}

/* What was no ear may have become one: where what lay in it is clipped, or only three places are left. False:
 * cancelled. */
static bool measure_again(struct clipping *c) {
    for (size_t i = 0; i < c->loop->n; i++) {
        if (CT_POLL_EVERY(i, 64) && ct_is_cancelled()) return false;
        if (c->points.is_removed[i] || c->quality[i] >= 0) continue;
        const uint32_t blocker = c->blocker[i];
        if (c->n_left <= 3 || (blocker != UINT32_MAX && c->points.is_removed[blocker])) measure(c, (uint32_t)i);
    }
    return true;
}

/* Moves a place that makes no turn to the top of the heap, as an ear. Such an ear has no area. False: there is none, or
 * cancelled. */
static bool take_flat(struct clipping *c) {
    const struct box_of_points *all = &c->points.boxes[0];
    const double u = all->hi.u - all->lo.u, v = all->hi.v - all->lo.v, none = 1e-13 * (u * u + v * v);
    for (uint32_t i = 0; i < c->loop->n; i++) {
        if (CT_POLL_EVERY(i + 1, 1024) && ct_is_cancelled()) return false;
        if (c->points.is_removed[i]) continue;
        const struct point *flat = c->points.flat;
        if (fabs(turn(flat[c->before[i]], flat[i], flat[c->after[i]])) > none) continue;
        c->quality[i] = INFINITY;
        sift(c, c->at[i]);
        return true;
    }
    return false;
}

/* Clips the best ear. An ear stays one when others are clipped, but for its neighbours. False: there is none, or
 * *status says what failed. */
static bool clip_ear(ct_soup *soup, struct clipping *c, ct_status *status, ct_error *error) {
    if (c->quality[c->heap[0]] < 0 && !measure_again(c)) *status = ct_fail_cancelled(error);
    if (*status == CT_OK && c->quality[c->heap[0]] < 0 && c->points.skips_equal && !take_flat(c) && ct_is_cancelled())
        *status = ct_fail_cancelled(error);
    const uint32_t best = c->heap[0], before = c->before[best], after = c->after[best];
    if (*status != CT_OK || c->quality[best] < 0) return false;
    const uint32_t *vertices = c->loop->vertices;
    *status = ct_soup_add_triangle(soup, vertices[before], vertices[best], vertices[after], error);
    if (*status != CT_OK) return false;
    c->n_left--;
    remove_point(&c->points, best);
    c->after[before] = after;
    c->before[after] = before;
    const uint32_t last = c->heap[--c->n_heap];
    if (last != best) {
        put(c, 0, last);
        sift(c, 0);
    }
    measure(c, before);
    measure(c, after);
    return true;
}

static void begin_clipping(struct clipping *c) {
    const uint32_t n = (uint32_t)c->loop->n;
    for (uint32_t i = 0; i < n; i++) {
        c->points.order[i] = i;
        c->before[i] = i ? i - 1 : n - 1;
        c->after[i] = i + 1 < n ? i + 1 : 0;
        c->quality[i] = -1;
        put(c, i, i);
    }
    make_boxes(&c->points, 0, 0, n);
}

/* One block for all arrays of a loop. NULL: out of memory. */
static void *allocate(struct clipping *c, struct point **flat) {
    const size_t n = c->loop->n;
    size_t n_boxes = 1; /* of a full tree */
    for (size_t m = n; m > LEAF; m = (m + 1) / 2) n_boxes = 2 * n_boxes + 1;
    char *block = calloc(1, n * (sizeof **flat + sizeof *c->quality + 7 * sizeof(uint32_t) + sizeof(bool)) +
                                n_boxes * sizeof *c->points.boxes);
    if (!block) return NULL;
    *flat = (struct point *)(void *)block;
    c->quality = (double *)(*flat + n);
    c->points.boxes = (struct box_of_points *)(c->quality + n);
    uint32_t **arrays[] = {&c->points.order, &c->points.leaf_of, &c->before, &c->after, &c->blocker, &c->heap, &c->at};
    uint32_t *next = (uint32_t *)(c->points.boxes + n_boxes);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++, next += n) *arrays[i] = next;
    c->points.is_removed = (bool *)next;
    c->points.flat = *flat;
    return block;
}

/* Clips ears while there are some. Below 3 places left, all is cut. */
static ct_status clip_ears(ct_soup *soup, struct clipping *c, ct_error *error) {
    struct point *flat = NULL;
    void *block = allocate(c, &flat);
    ct_status status = CT_OK;
    if (!block)
        status = ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory to fill a hole of %zu edges", c->loop->n);
    if (status == CT_OK && c->loop->n >= 3 && flatten(soup, c->loop, flat)) {
        begin_clipping(c);
        for (uint32_t i = 0; i < c->loop->n && status == CT_OK; i++) {
            if (CT_POLL_EVERY(i, 64) && ct_is_cancelled()) status = ct_fail_cancelled(error);
            measure(c, i);
        }
        for (size_t n = 0; status == CT_OK && c->n_left >= 3 && clip_ear(soup, c, &status, error); n++)
            if (CT_POLL_EVERY(n, 64) && ct_is_cancelled()) status = ct_fail_cancelled(error);
    }
    free(block);
    return status;
}

/* ---- loops on a line ---- */

static void vector_to(const ct_soup *soup, uint32_t from, uint32_t to, double out[3]) {
    for (size_t k = 0; k < 3; k++)
        out[k] = (double)soup->positions[3 * (size_t)to + k] - (double)soup->positions[3 * (size_t)from + k];
}

bool ct_is_on_line(const ct_soup *soup, const ct_loop *loop) {
    double axis[3] = {0, 0, 0}, v[3], longest = 0, largest = 0;
    for (size_t i = 0; i < loop->n; i++) {
        vector_to(soup, loop->vertices[0], loop->vertices[i], v);
        const double square = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
        for (size_t k = 0; k < 3; k++)
            largest = fmax(largest, fabs((double)soup->positions[3 * (size_t)loop->vertices[i] + k]));
        if (square <= longest) continue;
        longest = square;
        memcpy(axis, v, sizeof axis);
    }
    const double width = 0x1p-22 * largest; /* two roundings to float32 */
    for (size_t i = 0; i < loop->n; i++) {
        vector_to(soup, loop->vertices[0], loop->vertices[i], v);
        double square = 0;
        for (int k = 0; k < 3; k++) {
            const double x = v[k] * axis[(k + 1) % 3] - v[(k + 1) % 3] * axis[k];
            square += x * x;
        }
        if (square > width * width * longest) return false;
    }
    return true;
}

/* Cuts off corner after corner whose neighbours have no edge yet, with triangles that have no area. */
static ct_status fill_line(ct_soup *soup, const ct_loop *loop, const ct_half_edge *edges, size_t n_edges,
                           bool *is_filled, ct_error *error) {
    uint32_t *left = malloc(loop->n * sizeof *left);
    if (!left) return ct_fail(error, CT_OUT_OF_MEMORY, "triangles", "no memory to fill a hole of %zu edges", loop->n);
    memcpy(left, loop->vertices, loop->n * sizeof *left);
    ct_status status = CT_OK;
    size_t n = loop->n, i = 0, n_passed = 0;
    while (n >= 3 && n_passed < n && status == CT_OK) {
        const uint32_t before = left[(i + n - 1) % n], corner = left[i], after = left[(i + 1) % n];
        if (CT_POLL_EVERY(i, 64) && ct_is_cancelled()) status = ct_fail_cancelled(error);
        if (n > 3 && has_edge(edges, n_edges, before, after)) {
            n_passed++;
            i = (i + 1) % n;
            continue;
        }
        if (status == CT_OK) status = ct_soup_add_triangle(soup, before, corner, after, error);
        memmove(left + i, left + i + 1, (--n - i) * sizeof *left);
        i = i < n ? i : 0;
        n_passed = 0;
    }
    free(left);
    *is_filled = status == CT_OK && n < 3;
    return status;
}

ct_status ct_fill_hole(ct_soup *soup, const ct_loop *loop, const ct_half_edge *edges, size_t n_edges, uint64_t *n_tests,
                       ct_error *error) {
    struct clipping c = {.loop = loop,
                         .points = {.n_tests = n_tests},
                         .n_left = loop->n,
                         .n_heap = loop->n,
                         .edges = edges,
                         .n_edges = n_edges};
    bool is_filled = false;
    ct_status status;
    if (loop->n >= 3 && ct_is_on_line(soup, loop)) {
        status = fill_line(soup, loop, edges, n_edges, &is_filled, error);
    } else {
        status = clip_ears(soup, &c, error);
        is_filled = c.n_left < 3;
    }
    if (status != CT_OK || is_filled) return status;
    double middle[3];
    ct_measure_loop(soup, loop, middle);
    return ct_fail(error, CT_INVALID_MESH, "triangles",
                   "the hole of %zu edges around (%g, %g, %g) cannot be filled by the repair: seen along its "
                   "normal its boundary crosses itself or has no width; close it by hand",
                   loop->n, middle[0], middle[1], middle[2]);
}

ct_status ct_clip_polygon(ct_soup *soup, const ct_loop *loop, bool *is_cut, ct_error *error) {
    uint64_t n_tests = 0;
    struct clipping c = {
        .loop = loop, .points = {.n_tests = &n_tests, .skips_equal = true}, .n_left = loop->n, .n_heap = loop->n};
    const ct_status status = clip_ears(soup, &c, error);
    *is_cut = status == CT_OK && c.n_left < 3;
    return status;
}
