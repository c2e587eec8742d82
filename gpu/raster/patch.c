/* patch.c - the rectangles of samples in which binned triangles are drawn. */
#include "gpu/raster/patch.h"

#include <assert.h>
#include <stddef.h>

#include "gpu/view/view_k.h"

static_assert(sizeof(ct_patch) == 64 && offsetof(ct_patch, inverse) == 40, "the shader's layout");
static_assert(sizeof(ct_tile) == 32, "the shader's layout");
static_assert(sizeof(ct_linked_fragment) == 20, "the shader's layout");

struct range {
    double lo, hi;
};

static void widen(struct range *r, double x) {
    if (x < r->lo) r->lo = x;
    if (x > r->hi) r->hi = x;
}

/* Along axis u, the extent of what lies between v0 and v1 of the triangle q. */
static struct range between(const int32_t *const q[3], int u, int v, int32_t v0, int32_t v1) {
    struct range r = {1e300, -1e300};
    for (int k = 0; k < 3; k++) {
        const int32_t *a = q[k], *b = q[(k + 1) % 3];
        if (a[v] >= v0 && a[v] <= v1) widen(&r, a[u]);
        const int32_t limit[2] = {v0, v1};
        for (int i = 0; i < 2; i++)
            if ((a[v] < limit[i]) != (b[v] < limit[i]))
                widen(&r, a[u] + ((double)limit[i] - a[v]) / ((double)b[v] - a[v]) * ((double)b[u] - a[u]));
    }
    return r;
}

/* Below so many samples it costs less to try them all than to know better. */
enum { FEW = 16 };

/* The columns of a rectangle whose rows are known. May be none. */
static void fit_columns(ct_patch *p, const int32_t *const q[3], const ct_lattice *lu, const ct_lattice *lv, int u,
                        int v) {
    if ((p->u1 - p->u0) * (p->v1 - p->v0) <= FEW) return;
    struct range r = between(q, u, v, ct_sample_coord(p->v0, lv->shift), ct_sample_coord(p->v1 - 1, lv->shift));
    if (r.lo > r.hi) {
        p->u1 = p->u0;
        return;
    }
    /* The quotient is off by far less than a unit. */
    p->u0 = (uint16_t)ct_cell((int32_t)r.lo - 2, lu->shift, lu->n);
    p->u1 = (uint16_t)ct_cell((int32_t)r.hi + 2, lu->shift, lu->n);
}

static bool make_patch(ct_patch *p, const ct_window *window, int w, bool counted, const int32_t *const q[3],
                       int32_t first_row, int32_t end_row) {
    const int u = ct_view_u(w), v = ct_view_v(w);
    const ct_lattice *lu = &window->axis[u], *lv = &window->axis[v];
    int32_t v0 = ct_cell(ct_min3(q[0][v], q[1][v], q[2][v]), lv->shift, lv->n);
    int32_t v1 = ct_cell(ct_max3(q[0][v], q[1][v], q[2][v]), lv->shift, lv->n);
    p->u0 = (uint16_t)ct_cell(ct_min3(q[0][u], q[1][u], q[2][u]), lu->shift, lu->n);
    p->u1 = (uint16_t)ct_cell(ct_max3(q[0][u], q[1][u], q[2][u]), lu->shift, lu->n);
    if (v0 < first_row) v0 = first_row;
    if (v1 > end_row) v1 = end_row;
    if (v0 >= v1 || p->u0 >= p->u1) return false;
    p->v0 = (uint16_t)v0;
    p->v1 = (uint16_t)v1;
    fit_columns(p, q, lu, lv, u, v);
    if (p->u0 >= p->u1) return false;

    /* With steps of one unit they are the coordinates of the corners. */
    ct_setup s;
    if (!ct_make_setup(&s, q[0], q[1], q[2], u, v, w, 0, 0, 0, 0)) return false;
    p->xb = (int32_t)s.step_v[2];
    p->yb = (int32_t)-s.step_u[2];
    p->xc = (int32_t)-s.step_v[1];
    p->yc = (int32_t)s.step_u[1];
    p->x0 = q[0][u];
    p->y0 = q[0][v];
    p->z0 = s.z0;
    p->dz1 = (int32_t)s.dz1;
    p->dz2 = (int32_t)s.dz2;
    p->inverse = s.inverse;
    p->flags = s.ccw < 0 ? CT_PATCH_CLOCKWISE : 0;
    for (int k = 0; k < 3; k++)
        if (ct_edge_inside(&s, k)) p->flags |= 1u << k;
    if (counted && ct_max3(q[0][w], q[1][w], q[2][w]) < window->axis[w].lo) p->flags |= CT_PATCH_BEFORE;
    return true;
}

bool ct_patches_add(ct_patches *patches, ct_budget *budget, const ct_window *window, const ct_bands *bands,
                    const ct_bin *bin, int w, uint32_t first, uint32_t end, uint32_t tile) {
    const ct_placed *placed = bin->placed;
    const bool counted = placed->entry[w] == CT_ENTRY_COUNTED;
    size_t room = patches->n + (bin->offset[2 * end] - bin->offset[2 * first]);
    if (room * sizeof(ct_patch) > patches->memory.capacity &&
        !ct_buffer_reserve(&patches->memory, budget, room * sizeof(ct_patch), patches->n * sizeof(ct_patch), false))
        return false;
    ct_patch *p = (ct_patch *)patches->memory.data + patches->n;
    for (uint32_t band = first; band < end; band++) {
        int32_t row = (int32_t)(band - bands->first[w]) << bands->shift[w];
        for (uint32_t i = bin->offset[2 * band]; i < bin->offset[2 * band + 2]; i++) {
            const uint32_t *k = placed->triangles + 3 * (size_t)bin->entries[i];
            const int32_t *const q[3] = {placed->coords[k[0]], placed->coords[k[1]], placed->coords[k[2]]};
            if (!make_patch(p, window, w, counted, q, row, row + (1 << bands->shift[w]))) continue;
            p->tag = placed->body << 31 | bin->entries[i];
            p->tile = tile;
            patches->samples += (uint64_t)(p->u1 - p->u0) * (uint64_t)(p->v1 - p->v0);
            p++;
        }
    }
    patches->n = (size_t)(p - (ct_patch *)patches->memory.data);
    return true;
}
