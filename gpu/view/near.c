/* near.c - walks cluster trees. */
#include "gpu/view/near.h"

#include <math.h>

#include "gpu/base/cancel.h"

#include "gpu/view/near_k.h"

/* A node's children and where they end. */
struct children {
    uint32_t first, end;
};

static struct children children_of(const ct_clusters *c, uint32_t level, uint32_t node) {
    const uint32_t first = c->level[level - 1] + (node - c->level[level]) * CT_CLUSTER_FAN;
    const uint32_t end = first + CT_CLUSTER_FAN;
    return (struct children){first, end < c->level[level] ? end : c->level[level]};
}

/* ---- the window ---- */

struct query {
    const ct_near_body *body;
    bool (*is_wanted)(const struct query *q, const double lo[3], const double hi[3]);
    int view;     /* for queries about one */
    bool along_u; /* see ct_find_straddling */
    ct_axis_limits axis[3];
    double slack[3]; /* bounds the rounding of posed coordinates */
    ct_triangle_run *runs;
    ct_near near;
    uint32_t max_run, last_first, last_end; /* the last run */
    uint32_t max_clusters;                  /* the search ends when it has found as many */
    /* See ct_visit_near_boxes: */
    const ct_box *boxes;
    uint32_t n_boxes;
    ct_visit_triangles visit; /* NULL for other queries */
    void *context;
};

/* World box of a node, rounded outwards. */
static void world_box(const struct query *q, const ct_cluster_box *box, double lo[3], double hi[3]) {
    const double *pose = q->body->pose;
    for (int k = 0; k < 3; k++) {
        if (pose) {
            ct_find_posed_extent(pose + 4 * k, q->slack[k], box, &lo[k], &hi[k]);
        } else {
            lo[k] = (double)box->lo[k];
            hi[k] = (double)box->hi[k];
        }
    }
}

static bool may_matter(const struct query *q, const double lo[3], const double hi[3]) {
    return ct_find_near_views(q->axis, q->body->initial, lo, hi);
}

/* Some of the node may be. */
static bool may_be_in_front(const struct query *q, const double lo[3], const double hi[3]) {
    const int u = ct_view_u(q->view), v = ct_view_v(q->view);
    return lo[q->view] < q->axis[q->view].lo && !ct_is_beside(&q->axis[u], lo[u], hi[u]) &&
           !ct_is_beside(&q->axis[v], lo[v], hi[v]);
}

static bool may_straddle(const struct query *q, const double lo[3], const double hi[3]) {
    return ct_may_straddle(q->axis, q->view, q->along_u, lo, hi);
}

static bool meets_a_box(const struct query *q, const double lo[3], const double hi[3]) {
    for (uint32_t i = 0; i < q->n_boxes; i++) {
        const ct_box *box = &q->boxes[i];
        bool meets = true;
        for (int k = 0; k < 3; k++) meets = meets && lo[k] <= box->hi[k] && hi[k] >= box->lo[k];
        if (meets) return true;
    }
    return false;
}

static void add_cluster(struct query *q, uint32_t cluster) {
    const ct_clusters *c = q->body->clusters;
    const uint32_t first = cluster * CT_CLUSTER_TRIANGLES, all = q->body->n_triangles;
    const uint32_t end = all - first < CT_CLUSTER_TRIANGLES ? all : first + CT_CLUSTER_TRIANGLES;
    const bool continues = q->near.n_runs && q->last_end == first && end - q->last_first <= q->max_run;
    if (q->visit) q->visit(q->context, first, end);
    if (q->visit && CT_POLL_EVERY(q->near.n_clusters + 1, 32) && ct_is_cancelled()) q->max_clusters = 0;
    q->near.n_clusters++;
    q->near.n_triangles += end - first;
    q->near.n_vertices += c->first_vertex[cluster + 1] - c->first_vertex[cluster];
    q->last_end = end;
    if (!continues) {
        q->near.n_runs++;
        q->last_first = first;
    }
    if (!q->runs) return;
    if (!continues) q->runs[q->near.n_runs - 1].first = first;
    q->runs[q->near.n_runs - 1].end = end;
}

static void visit(struct query *q, uint32_t level, uint32_t node) {
    double lo[3], hi[3];
    world_box(q, &q->body->boxes[node], lo, hi);
    if (q->near.n_clusters >= q->max_clusters || !q->is_wanted(q, lo, hi)) return;
    if (level == 0) {
        add_cluster(q, node);
        return;
    }
    const struct children children = children_of(q->body->clusters, level, node);
    for (uint32_t i = children.first; i < children.end; i++) visit(q, level - 1, i);
}

static struct query begin_query_of_body(const ct_near_body *body) {
    struct query q = {.body = body, .max_run = UINT32_MAX, .max_clusters = UINT32_MAX};
    for (int k = 0; k < 3 && body->pose; k++)
        q.slack[k] = ct_bound_pose_rounding(body->pose + 4 * k, &body->boxes[body->clusters->n_nodes - 1]);
    return q;
}

static struct query begin_query(const ct_near_body *body, const ct_window *window) {
    struct query q = begin_query_of_body(body);
    for (int k = 0; k < 3; k++) q.axis[k] = ct_find_axis_limits(&window->axis[k]);
    return q;
}

static ct_near run_query(struct query *q) {
    const ct_clusters *c = q->body->clusters;
    visit(q, c->n_levels - 1, c->n_nodes - 1);
    return q->near;
}

ct_near ct_find_near(const ct_near_body *body, const ct_window *window, uint32_t max_run, ct_triangle_run *runs) {
    struct query q = begin_query(body, window);
    q.is_wanted = may_matter;
    q.max_run = max_run;
    q.runs = runs;
    return run_query(&q);
}

bool ct_has_in_front(const ct_near_body *body, const ct_window *window, int view, uint32_t n) {
    struct query q = begin_query(body, window);
    q.is_wanted = may_be_in_front;
    q.view = view;
    q.max_clusters = n;
    return run_query(&q).n_clusters >= n;
}

uint64_t ct_estimate_near(const ct_near_body *body, const ct_window *window) {
    /* One level above the clusters, if there is one. */
    const ct_clusters *c = body->clusters;
    struct query q = begin_query(body, window);
    uint64_t n = 0;
    for (uint32_t i = c->level[c->n_levels > 1]; i < c->level[(c->n_levels > 1) + 1]; i++) {
        double lo[3], hi[3];
        world_box(&q, &body->boxes[i], lo, hi);
        n += may_matter(&q, lo, hi);
    }
    n *= CT_CLUSTER_TRIANGLES * (c->n_levels > 1 ? CT_CLUSTER_FAN : 1);
    return n < body->n_triangles ? n : body->n_triangles;
}

ct_near ct_find_straddling(const ct_near_body *body, const ct_window *window, int view, bool along_u,
                           ct_triangle_run *runs) {
    struct query q = begin_query(body, window);
    q.is_wanted = may_straddle;
    q.view = view;
    q.along_u = along_u;
    q.runs = runs;
    return run_query(&q);
}

void ct_visit_near_boxes(const ct_near_body *body, const ct_box *boxes, uint32_t n_boxes, ct_visit_triangles visit,
                         void *context) {
    struct query q = begin_query_of_body(body);
    q.is_wanted = meets_a_box;
    q.boxes = boxes;
    q.n_boxes = n_boxes;
    q.visit = visit;
    q.context = context;
    run_query(&q);
}

/* ---- the box of a posed body ---- */

/* Searches the largest value of sign * (row . p + t) over all vertices, where row is one of a pose's. */
struct extreme {
    const ct_clusters *clusters;
    const float *positions;
    const double *row;
    double sign, slack, best;
};

/* An upper bound of the value over a node. */
static double bound_of(const struct extreme *e, const ct_cluster_box *box) {
    double sum = e->sign * e->row[3];
    for (int j = 0; j < 3; j++) {
        const double r = e->sign * e->row[j];
        sum += r > 0 ? r * (double)box->hi[j] : r * (double)box->lo[j];
    }
    return sum + e->slack;
}

static void search_cluster(struct extreme *e, uint32_t cluster) {
    const ct_clusters *c = e->clusters;
    for (uint32_t i = c->first_vertex[cluster]; i < c->first_vertex[cluster + 1]; i++) {
        const float *p = e->positions + 3 * (size_t)c->vertices[i];
        const double value = e->sign * ct_pose_coord(e->row, p[0], p[1], p[2]);
        if (value > e->best) e->best = value;
    }
}

/* Children with the largest bounds come first, so that the others are rarely searched. */
static void search(struct extreme *e, uint32_t level, uint32_t node) {
    if (level == 0) {
        search_cluster(e, node);
        return;
    }
    const struct children children = children_of(e->clusters, level, node);
    double bound[CT_CLUSTER_FAN];
    uint32_t order[CT_CLUSTER_FAN], n = 0;
    for (uint32_t i = children.first; i < children.end; i++, n++) {
        const double b = bound_of(e, &e->clusters->rest[i]);
        uint32_t at = n;
        for (; at > 0 && bound[at - 1] < b; at--) {
            bound[at] = bound[at - 1];
            order[at] = order[at - 1];
        }
        bound[at] = b;
        order[at] = i;
    }
    for (uint32_t i = 0; i < n && bound[i] >= e->best; i++) search(e, level - 1, order[i]);
}

void ct_posed_box(const ct_clusters *clusters, const float *positions, const double pose[12], ct_box *box) {
    const uint32_t root = clusters->n_nodes - 1;
    const ct_cluster_box *all = &clusters->rest[root];
    for (int k = 0; k < 3; k++) {
        struct extreme e = {.clusters = clusters, .positions = positions, .row = pose + 4 * k, .sign = 1};
        e.slack = ct_bound_pose_rounding(e.row, all);
        for (int side = 0; side < 2; side++) {
            e.sign = side ? 1 : -1;
            e.best = -INFINITY;
            search(&e, clusters->n_levels - 1, root);
            *(side ? &box->hi[k] : &box->lo[k]) = e.sign * e.best;
        }
    }
}
