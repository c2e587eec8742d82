/* point_column.c - walks a body's tree once for a contact's window, and places triangles four at a time, in floats. */
#include "gpu/after/point_column.h"

#include "gpu/after/point_lines.h"
#include "gpu/mesh/mesh.h"

struct fill {
    ct_point_column *column;
    struct ct_line_body *body;
    float beside; /* m */
    ct_v4f lo[2], hi[2];
    uint64_t *visits;
};

/* Adds those of four triangles that are over the window. False: there are too many. */
static bool add_four(struct fill *fill, const ct_surface_cluster *cluster, uint32_t at, uint32_t n, uint32_t first) {
    ct_v4f least[3], most[3];
    ct_point_column *column = fill->column;
    for (int k = 0; k < 3; k++) {
        const double *turn = fill->body->turn[k];
        for (int c = 0; c < 3; c++) {
            const ct_v4f *x = (const void *)&cluster->corner[c][0][at], *y = (const void *)&cluster->corner[c][1][at],
                         *z = (const void *)&cluster->corner[c][2][at];
            const ct_v4f to = ct_v4f_of(turn[0]) * *x + ct_v4f_of(turn[1]) * *y + ct_v4f_of(turn[2]) * *z +
                              ct_v4f_of(fill->body->shift[k]);
            least[k] = c ? ct_v4f_min(least[k], to) : to;
            most[k] = c ? ct_v4f_max(most[k], to) : to;
        }
        least[k] -= ct_v4f_of(fill->beside);
        most[k] += ct_v4f_of(fill->beside);
    }
    const ct_v4i is_apart =
        (most[0] < fill->lo[0]) | (least[0] > fill->hi[0]) | (most[1] < fill->lo[1]) | (least[1] > fill->hi[1]);
    for (uint32_t lanes = ~ct_v4i_signs(is_apart) & 15; lanes; lanes &= lanes - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctz(lanes), to = column->n;
        if (lane >= n) break;
        if (to == CT_COLUMN_TRIANGLES) return false;
        column->triangle[column->n++] = first + at + lane;
        for (int k = 0; k < 3; k++) {
            column->least[k][to / 4][to % 4] = least[k][lane];
            column->most[k][to / 4][to % 4] = most[k][lane];
        }
    }
    *fill->visits += 4;
    return true;
}

/* Whether a box of the body is over the window. */
static bool is_over(const struct fill *fill, const ct_cluster_box *box) {
    const double beside = (double)fill->beside;
    for (int k = 0; k < 2; k++) {
        double range[2];
        ct_point_lines_range(fill->body, box, k, range);
        if (range[1] + beside < fill->column->lo[k] || range[0] - beside > fill->column->hi[k]) return false;
    }
    return true;
}

/* What a walk ends with. */
typedef enum walk { ALL_ADDED, TOO_MANY, HAS_FAILED } walk;

static walk add_cluster(struct fill *fill, uint32_t index) {
    const uint32_t n = fill->body->surface->body->mesh->n_triangles, first = index * CT_CLUSTER_TRIANGLES;
    const ct_surface_cluster *cluster = ct_surface_cluster_of(fill->body->surface, index);
    if (!cluster) return HAS_FAILED;
    for (uint32_t at = 0; at < CT_CLUSTER_TRIANGLES && first + at < n; at += 4) {
        if (at % CT_PART_OF_CLUSTER == 0 && !is_over(fill, &cluster->part[at / CT_PART_OF_CLUSTER]))
            at += CT_PART_OF_CLUSTER - 4;
        else if (!add_four(fill, cluster, at, n - first - at, first))
            return TOO_MANY;
    }
    *fill->visits += CT_PARTS_OF_CLUSTER;
    return ALL_ADDED;
}

static walk add_node(struct fill *fill, uint32_t level, uint32_t node) {
    const ct_surface *surface = fill->body->surface;
    const ct_clusters *clusters = surface->clusters;
    walk done = ALL_ADDED;
    ++*fill->visits;
    if (!is_over(fill, &surface->boxes[node])) return ALL_ADDED;
    if (level == 0) return add_cluster(fill, node);
    const uint32_t first = clusters->level[level - 1] + (node - clusters->level[level]) * CT_CLUSTER_FAN;
    for (uint32_t n = first; n < first + CT_CLUSTER_FAN && n < clusters->level[level] && !done; n++)
        done = add_node(fill, level - 1, n);
    return done;
}

bool ct_point_column_fill(ct_point_column *column, struct ct_line_body *body, const double lo[2], const double hi[2],
                          double beside, uint64_t *visits) {
    const ct_clusters *clusters = body->surface->clusters;
    struct fill fill = {.column = column, .body = body, .beside = (float)beside, .visits = visits};
    column->is_whole = false;
    column->n = 0;
    for (int k = 0; k < 2; k++) {
        column->lo[k] = lo[k];
        column->hi[k] = hi[k];
        fill.lo[k] = ct_v4f_of(lo[k]);
        fill.hi[k] = ct_v4f_of(hi[k]);
    }
    const walk done = add_node(&fill, clusters->n_levels - 1, clusters->n_nodes - 1);
    column->is_whole = done == ALL_ADDED;
    return done != HAS_FAILED;
}

bool ct_point_column_covers(const ct_point_column *column, const double lo[3], const double hi[3]) {
    return column->is_whole && lo[0] >= column->lo[0] && hi[0] <= column->hi[0] && lo[1] >= column->lo[1] &&
           hi[1] <= column->hi[1];
}

uint32_t ct_point_column_meets(const ct_point_column *column, uint32_t at, const ct_v4f lo[3], const ct_v4f hi[3]) {
    ct_v4i is_apart = {0, 0, 0, 0};
    for (int k = 0; k < 3; k++) is_apart |= (column->most[k][at / 4] < lo[k]) | (column->least[k][at / 4] > hi[k]);
    const uint32_t left = column->n - at;
    return ~ct_v4i_signs(is_apart) & (left < 4 ? (1u << left) - 1 : 15);
}
