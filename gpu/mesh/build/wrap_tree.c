/* wrap_tree.c - boxes around runs of a wrap's triangles, which lie near each other, and around those boxes in pairs. */
#include <math.h>
#include <stdlib.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/build/wrap_grid.h"

enum { LEAF = 4, MOST_DEPTH = 40 }; /* LEAF: triangles of a run */

struct ct_wrap_box {
    double lo[3], hi[3];
};

static void extend(struct ct_wrap_box *box, const double *lo, const double *hi) {
    for (int k = 0; k < 3; k++) {
        box->lo[k] = fmin(box->lo[k], lo[k]);
        box->hi[k] = fmax(box->hi[k], hi[k]);
    }
}

bool ct_make_wrap_tree(ct_wrap_grid *grid) {
    static const struct ct_wrap_box nothing = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
    grid->n_leaves = 1;
    while (grid->n_leaves * LEAF < grid->n_triangles) grid->n_leaves *= 2;
    grid->tree = malloc(2 * grid->n_leaves * sizeof *grid->tree); /* the children of i are 2 i and 2 i + 1 */
    if (!grid->tree) return false;
    for (size_t i = 2 * grid->n_leaves - 1; i > 0; i--) {
        struct ct_wrap_box *box = &grid->tree[i];
        if (CT_POLL_EVERY(i, 4096) && ct_is_cancelled()) return false;
        *box = nothing;
        if (i < grid->n_leaves) {
            for (size_t c = 2 * i; c < 2 * i + 2; c++) extend(box, grid->tree[c].lo, grid->tree[c].hi);
            continue;
        }
        for (size_t c = 3 * LEAF * (i - grid->n_leaves); c < 3 * LEAF * (i - grid->n_leaves + 1); c++)
            if (c < 3 * grid->n_triangles) {
                const double *p = grid->points + 3 * (size_t)grid->triangles[c];
                extend(box, p, p);
            }
    }
    return true;
}

static double square_to_box(const struct ct_wrap_box *box, const double p[3]) {
    double sum = 0;
    for (int k = 0; k < 3; k++) {
        const double off = fmax(fmax(box->lo[k] - p[k], p[k] - box->hi[k]), 0);
        sum += off * off;
    }
    return sum;
}

double ct_wrap_distance(const ct_wrap_grid *grid, const double p[3], uint32_t *nearest) {
    struct {
        size_t node;
        double square;
    } stack[MOST_DEPTH] = {{1, 0}};
    int n = 1;
    double least = INFINITY;
    *nearest = 0;
    for (uint32_t i = 1; n; i++) {
        if (CT_POLL_EVERY(i, 4096) && ct_is_cancelled()) break; /* as the caller will */
        const size_t node = stack[--n].node;
        if (!(stack[n].square < least)) continue;
        if (node < grid->n_leaves) { /* the nearer one is looked at first */
            double square[2];
            for (size_t c = 0; c < 2; c++) square[c] = square_to_box(&grid->tree[2 * node + c], p);
            const size_t far = square[1] > square[0];
            stack[n].node = 2 * node + far, stack[n++].square = square[far];
            stack[n].node = 2 * node + !far, stack[n++].square = square[!far];
            continue;
        }
        const size_t first = LEAF * (node - grid->n_leaves);
        for (size_t t = first; t < first + LEAF && t < grid->n_triangles; t++) {
            const double square = ct_wrap_square(grid, (uint32_t)t, p, NULL);
            if (!(square < least)) continue;
            least = square;
            *nearest = (uint32_t)t;
        }
    }
    return sqrt(least);
}
