/* near_ray.c - follows a ray through a body's cluster tree. */
#include "gpu/exact/near_ray.h"

#include <math.h>

/* Units. Hits are computed in doubles, and may lie so far outside of their cluster's box. */
static const double HIT_ROUNDING = 16;

struct near_search {
    const ct_exact_body *body;
    const double *p, *far;
    void (*visit)(void *argument, uint32_t cluster);
    void *argument;
};

static bool is_on_ray(const struct near_search *search, const ct_node_box *box) {
    const double *p = search->p;
    return box->hi[0] >= p[0] && box->lo[0] <= *search->far + HIT_ROUNDING && box->lo[1] <= p[1] &&
           box->hi[1] >= p[1] && box->lo[2] <= p[2] && box->hi[2] >= p[2];
}

static void visit_node(struct near_search *search, uint32_t level, uint32_t index) {
    const ct_clusters *c = search->body->topology->clusters;
    struct {
        double lo;
        uint32_t index;
    } children[CT_CLUSTER_FAN];
    uint32_t n = 0;
    if (level == 0) {
        search->visit(search->argument, index);
        return;
    }
    const uint32_t first = c->level[level - 1] + (index - c->level[level]) * CT_CLUSTER_FAN,
                   end = first + CT_CLUSTER_FAN < c->level[level] ? first + CT_CLUSTER_FAN : c->level[level];
    for (uint32_t i = first; i < end; i++) {
        const ct_node_box box = ct_exact_node_box(search->body, i);
        if (!is_on_ray(search, &box)) continue;
        uint32_t at = n++;
        for (; at > 0 && children[at - 1].lo > box.lo[0]; at--) children[at] = children[at - 1];
        children[at].lo = box.lo[0];
        children[at].index = i;
    }
    for (uint32_t i = 0; i < n; i++)
        if (children[i].lo <= *search->far + HIT_ROUNDING) visit_node(search, level - 1, children[i].index);
}

void ct_visit_clusters_on_ray(const ct_exact_body *body, const double p[3], const double *far,
                              void (*visit)(void *argument, uint32_t cluster), void *argument) {
    const ct_clusters *c = body->topology->clusters;
    struct near_search search = {.body = body, .p = p, .far = far, .visit = visit, .argument = argument};
    const ct_node_box box = ct_exact_node_box(body, c->n_nodes - 1);
    if (is_on_ray(&search, &box)) visit_node(&search, c->n_levels - 1, c->n_nodes - 1);
}
