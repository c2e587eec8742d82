/* corner_search.c - measures corners, and searches a k-d tree of them. */
#include "gpu/after/corner_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/large.h"

/* Seen along a normal that leans, flat sides of the contact make a slope around its outline, steeper than what bounds
 * it above and below. It is as wide as this part of the depth for sides that lean by 1 in 4; at most this part of the
 * window. */
static const double SLOPE = 0.25, WINDOW_PART = 0x1p-5;
/* Corners from beyond which columns are longer by this much are on a slope. */
static const double ON_SLOPE = 1.5;
/* Of so many corners and fewer each is measured, rather than bounded together. */
enum { LEAF_CORNERS = 4 };
/* Of a bound: above the rounding of keys, whose largest value in a box is at one of its corners but for that. */
static const double ROUNDED = 1e-12;

struct ct_corner_node {
    uint32_t first, n; /* corners */
    uint32_t child;    /* the first of two; 0: none yet */
    bool is_bounded, is_leaf;
    double lo[2], hi[2]; /* m: of its corners */
    double most;         /* m: no corner is deeper; the parent's until is_bounded */
    double most_beyond;  /* m: no column that is `slope` beside a corner is longer; the parent's likewise */
};

struct ct_corner_entry {
    float bound; /* rounded, so that the order in which corners of triangles come does not matter */
    uint32_t node;
};

/* The directions in which columns are beside a corner. They are along no edge that meshes are likely to have. */
enum { AROUND = 8 };
static const double around[AROUND][2] = {{0.934, 0.357},   {0.408, 0.913},   {-0.357, 0.934}, {-0.913, 0.408},
                                         {-0.934, -0.357}, {-0.408, -0.913}, {0.357, -0.934}, {0.913, -0.408}};

/* ---- depths ---- */

/* The columns around a corner. */
struct surrounding {
    ct_column_span longest;
    double at[2]; /* where it is */
};

/* until_any: only until a column is in the contact. False: out of memory. */
static bool cast_around(ct_columns *columns, const double at[2], bool until_any, struct surrounding *out) {
    *out = (struct surrounding){{0, 0}, {at[0], at[1]}};
    if (!ct_columns_gather(columns, at, columns->step)) return false;
    for (int k = 0; k < AROUND; k++) {
        const double place[2] = {at[0] + columns->step * around[k][0], at[1] + columns->step * around[k][1]};
        ct_column_span span;
        if (!ct_columns_cast(columns, place, &span)) return false;
        if (span.hi - span.lo > out->longest.hi - out->longest.lo)
            *out = (struct surrounding){span, {place[0], place[1]}};
        if (until_any && span.hi > span.lo) break;
    }
    return true;
}

static double length_of(const ct_column_span *span) {
    return span->hi - span->lo;
}

/* The longest of the columns just beside a corner; where that is on a slope, of those beyond it, on any side, which are
 * at most so long. */
static bool measure(const ct_corner_search *s, double most_beyond, ct_corner *corner) {
    struct surrounding beside;
    double of[2] = {0, 0}; /* where `beyond` is */
    if (corner->state == CT_CORNER_MEASURED) return true;
    if (!cast_around(s->columns, corner->at, false, &beside)) return false;
    ct_column_span beyond = {0, 0};
    for (int k = 0; k < AROUND && most_beyond > ON_SLOPE * length_of(&beside.longest); k++) {
        const double place[2] = {corner->at[0] + s->slope * around[k][0], corner->at[1] + s->slope * around[k][1]};
        ct_column_span next;
        if (!ct_columns_gather(s->columns, place, 0) || !ct_columns_cast(s->columns, place, &next)) return false;
        if (length_of(&next) > length_of(&beyond)) beyond = next, memcpy(of, place, sizeof of);
    }
    if (length_of(&beyond) > ON_SLOPE * length_of(&beside.longest)) {
        beside.longest = beyond;
        memcpy(beside.at, of, sizeof of);
    }
    corner->depth = length_of(&beside.longest);
    corner->w = 0.5 * (beside.longest.lo + beside.longest.hi);
    memcpy(corner->of, beside.at, sizeof corner->of);
    corner->state = CT_CORNER_MEASURED;
    return true;
}

/* Finds whether the corner's depth is above 0. */
static bool probe(const ct_corner_search *s, double most_beyond, ct_corner *corner) {
    struct surrounding beside;
    if (corner->state != CT_CORNER_UNKNOWN) return true;
    if (!cast_around(s->columns, corner->at, true, &beside)) return false;
    if (!(length_of(&beside.longest) > 0)) return measure(s, most_beyond, corner);
    corner->state = CT_CORNER_HAS_DEPTH;
    return true;
}

static bool has_depth(const ct_corner *corner) {
    return corner->state == CT_CORNER_HAS_DEPTH || (corner->state == CT_CORNER_MEASURED && corner->depth > 0);
}

/* ---- nodes ---- */

static void find_box(const ct_corner_search *s, struct ct_corner_node *node) {
    for (int k = 0; k < 2; k++) {
        node->lo[k] = INFINITY;
        node->hi[k] = -INFINITY;
        for (uint32_t i = node->first; i < node->first + node->n; i++) {
            const double at = s->all[i].at[k];
            node->lo[k] = at < node->lo[k] ? at : node->lo[k];
            node->hi[k] = at > node->hi[k] ? at : node->hi[k];
        }
    }
    const bool is_place = node->lo[0] == node->hi[0] && node->lo[1] == node->hi[1];
    if (is_place) node->n = 1; /* the others are the same corner */
    node->is_leaf = node->n <= LEAF_CORNERS;
}

static bool add_node(ct_corner_search *s, uint32_t first, uint32_t n, double most, double most_beyond) {
    void *nodes = ct_column_grow(s->nodes, &s->node_capacity, s->n_nodes, sizeof *s->nodes, _Alignof(double));
    if (!nodes) return false;
    s->nodes = nodes;
    struct ct_corner_node *node = &s->nodes[s->n_nodes++];
    *node = (struct ct_corner_node){.first = first, .n = n, .most = most, .most_beyond = most_beyond};
    find_box(s, node);
    return true;
}

/* In halves of its box. */
static bool split(ct_corner_search *s, uint32_t index) {
    const struct ct_corner_node node = s->nodes[index];
    const int k = node.hi[1] - node.lo[1] > node.hi[0] - node.lo[0] ? 1 : 0;
    double middle = 0.5 * (node.lo[k] + node.hi[k]);
    if (middle >= node.hi[k]) middle = node.lo[k];
    uint32_t from = node.first, to = node.first + node.n;
    while (from < to) {
        if (s->all[from].at[k] <= middle) {
            from++;
            continue;
        }
        const ct_corner moved = s->all[--to];
        s->all[to] = s->all[from];
        s->all[from] = moved;
    }
    s->nodes[index].child = (uint32_t)s->n_nodes;
    s->columns->visits += node.n;
    return add_node(s, node.first, from - node.first, node.most, node.most_beyond) &&
           add_node(s, from, node.first + node.n - from, node.most, node.most_beyond);
}

/* How long the columns beyond the slope at the node's corners are at most: of a node that is small beside the slope, in
 * each direction; of a larger one, all of them at once. */
static bool bound_beyond(const ct_corner_search *s, const struct ct_corner_node *node, double *most) {
    const bool is_small = fmax(node->hi[0] - node->lo[0], node->hi[1] - node->lo[1]) < s->slope;
    *most = 0;
    for (int i = 0; i < (is_small ? AROUND : 1); i++) {
        ct_column_bounds bounds;
        double lo[2], hi[2];
        for (int k = 0; k < 2; k++) {
            lo[k] = node->lo[k] + s->slope * (is_small ? around[i][k] : -1);
            hi[k] = node->hi[k] + s->slope * (is_small ? around[i][k] : 1);
        }
        if (!ct_columns_bound(s->columns, lo, hi, &bounds)) return false;
        *most = fmax(*most, bounds.most);
    }
    return true;
}

static bool bound_node(ct_corner_search *s, struct ct_corner_node *node) {
    ct_column_bounds beside;
    double beyond;
    if (!ct_columns_bound(s->columns, node->lo, node->hi, &beside)) return false;
    if (node->most_beyond > ON_SLOPE * beside.least && node->most_beyond > beside.most) {
        if (!bound_beyond(s, node, &beyond)) return false;
        node->most_beyond = fmin(node->most_beyond, beyond);
    }
    const bool may_be_slope = node->most_beyond > ON_SLOPE * beside.least;
    node->most = fmin(node->most, may_be_slope ? fmax(beside.most, node->most_beyond) : beside.most);
    node->is_bounded = true;
    return true;
}

/* ---- the heap ---- */

static bool is_above(const struct ct_corner_entry *a, const struct ct_corner_entry *b) {
    return a->bound != b->bound ? a->bound > b->bound : a->node < b->node;
}

/* A float that is not below x. */
static float above(double x) {
    const float f = (float)x;
    return isinf(f) ? f : f + fabsf(f) * 0x1p-22f;
}

static bool push(ct_corner_search *s, struct ct_corner_entry entry) {
    void *heap = ct_column_grow(s->heap, &s->heap_capacity, s->n_heap, sizeof *s->heap, _Alignof(double));
    if (!heap) return false;
    s->heap = heap;
    size_t at = s->n_heap++;
    for (; at > 0 && is_above(&entry, &s->heap[(at - 1) / 2]); at = (at - 1) / 2) s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = entry;
    return true;
}

static struct ct_corner_entry pop(ct_corner_search *s) {
    const struct ct_corner_entry top = s->heap[0], last = s->heap[--s->n_heap];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < s->n_heap; at = child) {
        child += child + 1 < s->n_heap && is_above(&s->heap[child + 1], &s->heap[child]);
        if (!is_above(&s->heap[child], &last)) break;
        s->heap[at] = s->heap[child];
    }
    s->heap[at] = last;
    return top;
}

/* ---- queries ---- */

/* The best so far. */
struct lead {
    const ct_corner_query *query;
    ct_corner corner;
    double value;
    bool is_found;
};

static double value_of(const ct_corner_query *q, double key, double depth) {
    return q->per_depth > 0 ? key * (depth * q->per_depth) : key;
}

static bool may_beat(const struct lead *lead, double bound) {
    if (!lead->is_found) return bound > lead->query->beat;
    const double slack = lead->query->slack;
    return slack > 0 ? bound > lead->value * (1 + slack) : bound >= lead->value;
}

/* Or only whether there is one. */
static bool needs_depth(const ct_corner_query *q) {
    return q->per_depth > 0 || q->least_depth > 0 || q->leaves_out;
}

/* -INFINITY: none of the node's corners counts. */
static double bound_value(const ct_corner_query *q, const struct ct_corner_node *node) {
    const double places[4][2] = {
        {node->lo[0], node->lo[1]}, {node->hi[0], node->lo[1]}, {node->hi[0], node->hi[1]}, {node->lo[0], node->hi[1]}};
    double key = -INFINITY;
    if (!(node->most > 0) || node->most < q->least_depth) return -INFINITY;
    for (int i = 0; i < 4; i++) key = fmax(key, q->key(q->of, places[i]));
    if (q->leaves_out && q->leaves_out(q->of, node->most, places, 4)) return -INFINITY;
    return value_of(q, key + ROUNDED * fabs(key), node->most);
}

static bool is_before(const ct_corner *a, const ct_corner *b) {
    return a->at[0] != b->at[0] ? a->at[0] < b->at[0] : a->at[1] < b->at[1];
}

/* A corner whose depth is known as far as the query asks for. */
static void offer(struct lead *lead, const ct_corner *corner) {
    const ct_corner_query *q = lead->query;
    const bool is_measured = corner->state == CT_CORNER_MEASURED;
    if (!has_depth(corner) || (is_measured && corner->depth < q->least_depth)) return;
    const double value = value_of(q, q->key(q->of, corner->at), corner->depth);
    if (lead->is_found ? value < lead->value : !(value > q->beat)) return;
    if (lead->is_found && value == lead->value && !is_before(corner, &lead->corner)) return;
    if (q->leaves_out && q->leaves_out(q->of, corner->depth, &corner->at, 1)) return;
    lead->corner = *corner;
    lead->value = value;
    lead->is_found = true;
}

/* Which corners are measured does not depend on their order. */
static bool look_at_corners(ct_corner_search *s, struct ct_corner_node *node, struct lead *lead) {
    const ct_corner_query *q = lead->query;
    const uint32_t end = node->first + node->n;
    double most = 0;
    bool is_measured = true;
    for (uint32_t i = node->first; i < end; i++) {
        ct_corner *corner = &s->all[i];
        const double bound = value_of(q, q->key(q->of, corner->at), node->most);
        if (corner->state != CT_CORNER_MEASURED && may_beat(lead, bound) &&
            !(needs_depth(q) ? measure : probe)(s, node->most_beyond, corner))
            return false;
        is_measured = is_measured && corner->state == CT_CORNER_MEASURED;
        most = fmax(most, corner->depth);
    }
    if (is_measured) node->most = most;
    for (uint32_t i = node->first; i < end; i++)
        if (s->all[i].state == CT_CORNER_MEASURED || !needs_depth(q)) offer(lead, &s->all[i]);
    return true;
}

/* Of a node that may have the best: bounds it, looks at its corners, or goes on to its children. False: out of memory.
 */
static bool visit(ct_corner_search *s, uint32_t index, struct lead *lead) {
    struct ct_corner_node *node = &s->nodes[index];
    if (!node->is_bounded && needs_depth(lead->query)) {
        if (!bound_node(s, node)) return false;
        return push(s, (struct ct_corner_entry){above(bound_value(lead->query, node)), index});
    }
    if (node->is_leaf) return look_at_corners(s, node, lead);
    if (!node->child && !split(s, index)) return false;
    for (uint32_t child = s->nodes[index].child, k = 0; k < 2; k++) {
        const double bound = bound_value(lead->query, &s->nodes[child + k]);
        if (may_beat(lead, bound) && !push(s, (struct ct_corner_entry){above(bound), child + k})) return false;
    }
    return true;
}

static bool is_ended(const ct_corner_search *s) {
    return ct_is_cancelled_at("points", s->columns->n_points);
}

ct_corner_found ct_corner_search_best(ct_corner_search *s, const ct_corner_query *query, ct_corner *best) {
    struct lead lead = {.query = query};
    for (size_t i = 0; i < s->n && s->is_partial; i++) {
        if (CT_POLL_EVERY(i, 64) && is_ended(s)) return CT_CORNER_NO_MEMORY;
        if (s->all[i].state == CT_CORNER_MEASURED) offer(&lead, &s->all[i]);
    }
    s->n_heap = 0;
    if (s->n_nodes > 0 && !s->is_partial && !push(s, (struct ct_corner_entry){INFINITY, 0})) return CT_CORNER_NO_MEMORY;
    while (s->n_heap > 0) {
        const struct ct_corner_entry entry = pop(s);
        if (!may_beat(&lead, (double)entry.bound)) break;
        if (is_ended(s)) return CT_CORNER_NO_MEMORY;
        if (ct_columns_are_spent(s->columns)) return CT_CORNER_SPENT;
        if (!visit(s, entry.node, &lead)) return CT_CORNER_NO_MEMORY;
    }
    *best = lead.corner;
    return lead.is_found ? CT_CORNER_FOUND : CT_CORNER_NONE;
}

/* ---- opening, and searching with less ---- */

bool ct_corner_search_open(ct_corner_search *s, ct_columns *columns, double contact_depth) {
    const double window = fmax(columns->hi[0] - columns->lo[0], columns->hi[1] - columns->lo[1]);
    memset(s, 0, sizeof *s);
    s->columns = columns;
    s->slope = fmax(columns->step, fmin(SLOPE * contact_depth, WINDOW_PART * window));
    s->n = columns->n_corners;
    if (s->n > UINT32_MAX / 2) return false;
    s->all = malloc((s->n + 1) * sizeof *s->all);
    if (!s->all) return false;
    for (size_t i = 0; i < s->n; i++) s->all[i] = (ct_corner){.at = {columns->corners[i][0], columns->corners[i][1]}};
    return s->n == 0 || add_node(s, 0, (uint32_t)s->n, INFINITY, INFINITY);
}

void ct_corner_search_close(ct_corner_search *s) {
    free(s->all);
    free(s->nodes);
    free(s->heap);
    memset(s, 0, sizeof *s);
}

static int by_place(const void *a, const void *b) {
    const ct_corner *p = a, *q = b;
    return is_before(p, q) ? -1 : is_before(q, p);
}

bool ct_corner_search_measure_some(ct_corner_search *s) {
    s->is_partial = true;
    if (!ct_sort_large(s->all, s->n, sizeof *s->all, by_place)) return false;
    ct_columns_renew(s->columns);
    for (size_t k = 0; k < ct_spread_end(s->n) && !ct_columns_are_spent(s->columns); k++) {
        const size_t i = ct_spread(k, s->n);
        if (is_ended(s)) return false;
        if (i < s->n && !measure(s, INFINITY, &s->all[i])) return false;
    }
    return true;
}
