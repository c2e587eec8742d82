/* wrap_grid.c - distances of nodes near triangles, what is outside, and the field whose zero is the wrap.
 *
 * Nodes are in blocks; those near triangles have numbers, of the others the directory says whether they are outside. What
 * is outside is flooded twice, from a corner of the grid along its edges: through nodes further from triangles than half
 * a gap, which leaves gaps alone; then from there a few nodes on, up to the walls. So a gap is closed by a surface that
 * sags into it.
 *
 * Near a triangle it matters what is behind it. Some steps beyond the nearest point of the triangle, seen from a node,
 * there is an inside, or there is not:
 *
 *       outside | inside               outside | outside
 *     the field is the signed        the field is the distance less an offset, so that
 *     distance: the wrap is          the wrap runs around the triangle, a sheet, on
 *     on the triangle                both of its sides
 */
#include "gpu/mesh/build/wrap_grid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/large.h"
#include "gpu/base/triangle.h"
#include "gpu/mesh/build/order.h"

#define MOST_BYTES      ((uint64_t)512 << 20) /* of a grid */
#define LEAST_ULPS      1000                  /* of the largest coordinate in a cube's side */
#define MOST_RESOLUTION 1e30                  /* m: nodes are numbers of float32 */

static const float *position(const ct_soup *soup, uint32_t v) {
    return soup->positions + 3 * (size_t)v;
}

/* ---- distances ---- */

double ct_wrap_square(const ct_wrap_grid *grid, uint32_t triangle, const double p[3], double *out) {
    const uint32_t *v = grid->triangles + 3 * (size_t)triangle;
    const double *const corner[3] = {grid->points + 3 * (size_t)v[0], grid->points + 3 * (size_t)v[1],
                                     grid->points + 3 * (size_t)v[2]};
    return ct_nearest_of_triangle(corner, p, out);
}

/* The nodes whose distance to a triangle may be within the band. */
static void find_nodes(const ct_wrap_grid *grid, uint32_t triangle, int64_t first[3], int64_t last[3]) {
    const uint32_t *v = grid->triangles + 3 * (size_t)triangle;
    for (int k = 0; k < 3; k++) {
        const double *p = grid->points + k;
        const double a = p[3 * (size_t)v[0]], b = p[3 * (size_t)v[1]], c = p[3 * (size_t)v[2]];
        first[k] = (int64_t)ceil(fmin(fmin(a, b), c) - (double)CT_WRAP_BAND);
        last[k] = (int64_t)floor(fmax(fmax(a, b), c) + (double)CT_WRAP_BAND);
    }
}

/* Calls `use` for each block with nodes that may be in the triangle's band; false where it says so, or cancelled. */
typedef bool use_block_fn(ct_wrap_grid *grid, uint32_t triangle, const int64_t block[3], uint32_t *entry);
static bool for_blocks(ct_wrap_grid *grid, uint32_t triangle, use_block_fn *use) {
    int64_t first[3], last[3], b[3];
    find_nodes(grid, triangle, first, last);
    for (int k = 0; k < 3; k++) first[k] /= CT_WRAP_SIDE, last[k] /= CT_WRAP_SIDE;
    const bool is_small = last[0] - first[0] < 2 && last[1] - first[1] < 2 && last[2] - first[2] < 2;
    const double half = 0.5 * (CT_WRAP_SIDE - 1), reach = (double)CT_WRAP_BAND + half * sqrt(3.0);
    for (b[0] = first[0]; b[0] <= last[0]; b[0]++)
        for (b[1] = first[1]; b[1] <= last[1]; b[1]++) {
            if (ct_is_cancelled()) return false;
            for (b[2] = first[2]; b[2] <= last[2]; b[2]++) {
                double middle[3];
                for (int k = 0; k < 3; k++) middle[k] = (double)(CT_WRAP_SIDE * b[k]) + half;
                if (!is_small && ct_wrap_square(grid, triangle, middle, NULL) > reach * reach) continue;
                const int64_t at = (b[0] * grid->n_blocks[1] + b[1]) * grid->n_blocks[2] + b[2];
                if (!use(grid, triangle, b, &grid->directory[at])) return false;
            }
        }
    return true;
}

static bool number_block(ct_wrap_grid *grid, uint32_t triangle, const int64_t block[3], uint32_t *entry) {
    (void)triangle, (void)block;
    if (*entry == CT_WRAP_UNKNOWN) *entry = grid->n++;
    return true;
}

static bool measure_block(ct_wrap_grid *grid, uint32_t triangle, const int64_t block[3], uint32_t *entry) {
    ct_wrap_block *to = &grid->blocks[*entry];
    int64_t first[3], last[3], n[3];
    find_nodes(grid, triangle, first, last);
    for (int k = 0; k < 3; k++) {
        const int64_t begin = CT_WRAP_SIDE * block[k], end = begin + CT_WRAP_SIDE - 1;
        first[k] = first[k] > begin ? first[k] : begin;
        last[k] = last[k] < end ? last[k] : end;
    }
    for (n[0] = first[0]; n[0] <= last[0]; n[0]++)
        for (n[1] = first[1]; n[1] <= last[1]; n[1]++)
            for (n[2] = first[2]; n[2] <= last[2]; n[2]++) {
                const double p[3] = {(double)n[0], (double)n[1], (double)n[2]};
                const int i = ct_wrap_local(n);
                const double square = ct_wrap_square(grid, triangle, p, NULL);
                if (square >= (double)to->distance[i] * (double)to->distance[i]) continue;
                to->distance[i] = (float)sqrt(square);
                to->nearest[i] = triangle;
            }
    return true;
}

/* ---- the grid ---- */

static ct_status fail_memory(const ct_wrap_grid *grid, uint64_t bytes, ct_error *error) {
    return ct_fail(
        error, CT_LIMIT_EXCEEDED, "resolution",
        "a wrap with a resolution of %g m takes %llu MiB, at most %llu are allowed: give a larger resolution",
        grid->side, (unsigned long long)(bytes >> 20), (unsigned long long)(MOST_BYTES >> 20));
}

/* Sets origin, side and n_blocks. */
static ct_status place_grid(const ct_soup *soup, double resolution, ct_wrap_grid *grid, ct_error *error) {
    double lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY}, square = 0, away = 0;
    for (size_t i = 0; i < 3 * soup->n_triangles; i++) {
        const float *p = position(soup, soup->triangles[i]);
        if (CT_POLL_EVERY(i, 1 << 14) && ct_is_cancelled()) return ct_fail_cancelled(error);
        for (int k = 0; k < 3; k++) lo[k] = fmin(lo[k], (double)p[k]), hi[k] = fmax(hi[k], (double)p[k]);
    }
    for (int k = 0; k < 3; k++) {
        square += (hi[k] - lo[k]) * (hi[k] - lo[k]);
        away = fmax(away, fmax(fabs(lo[k]), fabs(hi[k])));
    }
    if (!(square > 0))
        return ct_fail(error, CT_INVALID_MESH, "positions",
                       "all vertices that triangles use lie at one point: there is nothing to wrap");
    if (resolution > MOST_RESOLUTION)
        return ct_fail(error, CT_OUT_OF_RANGE, "resolution", "a wrap's resolution is %g m, expected at most %g",
                       resolution, MOST_RESOLUTION);
    grid->side = resolution > 0 ? resolution : CT_DEFAULT_WRAP * sqrt(square);
    if (!(grid->side >= LEAST_ULPS * 0x1p-24 * away))
        return ct_fail(
            error, CT_OUT_OF_RANGE, "resolution",
            "a wrap's resolution of %g m is too fine for float32 at %g m from the origin, expected at least %g "
            "m: move the mesh to the origin, or give a larger resolution",
            grid->side, away, LEAST_ULPS * 0x1p-24 * away);
    double n = 1;
    for (int k = 0; k < 3; k++) {
        /* 0.37: nodes are not on the faces of boxes whose sides are multiples of the resolution */
        grid->origin[k] = lo[k] - (CT_WRAP_PAD + 0.37) * grid->side;
        grid->n_blocks[k] = 0;
        const double nodes = fmin((hi[k] - lo[k]) / grid->side, 1e9) + 2 * CT_WRAP_PAD + 2;
        grid->n_blocks[k] = (int64_t)(nodes / CT_WRAP_SIDE) + 1;
        n *= (double)grid->n_blocks[k];
    }
    const uint64_t most = MOST_BYTES / sizeof *grid->directory;
    if (n > (double)most) return fail_memory(grid, (uint64_t)fmin(n * sizeof *grid->directory, 0x1p63), error);
    return CT_OK;
}

/* Points in the grid's lengths, and triangles in an order that does not depend on the one given. */
static bool take_triangles(const ct_soup *soup, ct_wrap_grid *grid) {
    const size_t n = soup->n_triangles;
    double lo[3], hi[3];
    grid->points = malloc((soup->n_vertices + 1) * 3 * sizeof *grid->points);
    grid->triangles = malloc(12 * n);
    if (!grid->points || !grid->triangles || !ct_copy_large(grid->triangles, soup->triangles, 12 * n)) return false;
    for (int k = 0; k < 3; k++) {
        lo[k] = grid->origin[k];
        hi[k] = lo[k] + CT_WRAP_SIDE * (double)grid->n_blocks[k] * grid->side;
    }
    if (!ct_order_triangles(soup->positions, lo, hi, grid->triangles, n, NULL)) return false;
    grid->n_triangles = n;
    for (size_t i = 0; i < 3 * soup->n_vertices; i++) {
        if (CT_POLL_EVERY(i, 1 << 14) && ct_is_cancelled()) return false;
        grid->points[i] = ((double)soup->positions[i] - grid->origin[i % 3]) / grid->side;
    }
    return true;
}

static size_t count_entries(const ct_wrap_grid *grid) {
    return (size_t)(grid->n_blocks[0] * grid->n_blocks[1] * grid->n_blocks[2]);
}

static bool fill_blocks(ct_wrap_grid *grid) {
    for (uint32_t b = 0; b < grid->n; b++) {
        ct_wrap_block *block = &grid->blocks[b];
        if (CT_POLL_EVERY(b, 64) && ct_is_cancelled()) return false;
        memset(block, 0, sizeof *block);
        for (int i = 0; i < CT_WRAP_NODES; i++) block->distance[i] = CT_WRAP_BAND, block->nearest[i] = UINT32_MAX;
    }
    for (uint32_t t = 0; t < grid->n_triangles; t++)
        if (!for_blocks(grid, t, measure_block)) return false;
    return true;
}

static ct_status make_blocks(ct_wrap_grid *grid, ct_error *error) {
    const size_t n = count_entries(grid);
    grid->directory = malloc(n * sizeof *grid->directory);
    if (!grid->directory || !ct_fill_large(grid->directory, 0xff, n * sizeof *grid->directory))
        return ct_fail(error, CT_OUT_OF_MEMORY, "resolution", "no memory for a grid of %zu blocks", n);
    for (uint32_t t = 0; t < grid->n_triangles; t++)
        if (!for_blocks(grid, t, number_block)) return ct_fail_cancelled(error);
    const uint64_t bytes = (uint64_t)grid->n * sizeof *grid->blocks + n * sizeof *grid->directory;
    if (bytes > MOST_BYTES) return fail_memory(grid, bytes, error);
    grid->blocks = malloc((grid->n + 1) * sizeof *grid->blocks);
    if (!grid->blocks || !fill_blocks(grid))
        return ct_fail(error, CT_OUT_OF_MEMORY, "resolution", "no memory for %u blocks of a grid", grid->n);
    return CT_OK;
}

/* ---- what is outside ---- */

typedef struct node_stack {
    int64_t (*nodes)[3];
    size_t n, capacity;
} node_stack;

static bool push(node_stack *stack, const int64_t node[3]) {
    if (!ct_array_grow(&stack->nodes, &stack->capacity, stack->n + 1)) return false;
    memcpy(stack->nodes[stack->n++], node, sizeof stack->nodes[0]);
    return true;
}

static bool is_further(const ct_wrap_block *block, int i) {
    return block->distance[i] > CT_WRAP_GAP;
}

static bool is_not_inside(const ct_wrap_block *block, int i) {
    return block->field[i] >= 0;
}

static bool is_no_wall(const ct_wrap_block *block, int i) {
    return block->distance[i] > CT_WRAP_WALL;
}

typedef bool may_pass_fn(const ct_wrap_block *block, int i);

/* Marks a node, or the block of it that has none near triangles, unless it is marked. False: out of memory. */
static bool reach(ct_wrap_grid *grid, node_stack *stack, const int64_t node[3], may_pass_fn *may_pass) {
    if (!ct_wrap_has(grid, node)) return true;
    const uint32_t entry = ct_wrap_entry(grid, node);
    if (entry == CT_WRAP_OUTSIDE || entry == CT_WRAP_INSIDE) return true;
    if (entry != CT_WRAP_UNKNOWN) {
        ct_wrap_block *block = &grid->blocks[entry];
        const int i = ct_wrap_local(node);
        if (block->is_outside[i] || !may_pass(block, i)) return true;
        block->is_outside[i] = 1;
        return push(stack, node);
    }
    int64_t b[3], at = 0;
    for (int k = 0; k < 3; k++) b[k] = node[k] / CT_WRAP_SIDE, at = at * grid->n_blocks[k] + b[k];
    grid->directory[at] = CT_WRAP_OUTSIDE;
    for (int k = 0; k < 3; k++) b[k] *= CT_WRAP_SIDE;
    return push(stack, b); /* for the whole block */
}

/* Goes on from a block without nodes of its own, to those beside its faces. */
static bool leave_block(ct_wrap_grid *grid, node_stack *stack, const int64_t first[3], may_pass_fn *may_pass) {
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 2 * CT_WRAP_SIDE * CT_WRAP_SIDE; i++) {
            int64_t node[3];
            memcpy(node, first, sizeof node);
            node[k] += i % 2 ? CT_WRAP_SIDE : -1;
            node[(k + 1) % 3] += i / 2 % CT_WRAP_SIDE;
            node[(k + 2) % 3] += i / 2 / CT_WRAP_SIDE;
            if (!reach(grid, stack, node, may_pass)) return false;
        }
    return true;
}

static bool leave_node(ct_wrap_grid *grid, node_stack *stack, const int64_t node[3], may_pass_fn *may_pass) {
    for (int i = 0; i < 6; i++) {
        int64_t next[3];
        memcpy(next, node, sizeof next);
        next[i / 2] += i % 2 ? 1 : -1;
        if (!reach(grid, stack, next, may_pass)) return false;
    }
    return true;
}

/* Marks what is connected to a corner of the grid. The other blocks without nodes of their own are inside. False: out of
 * memory, or cancelled. */
static bool flood(ct_wrap_grid *grid, may_pass_fn *may_pass) {
    static const int64_t corner[3] = {0, 0, 0};
    node_stack stack = {NULL, 0, 0};
    bool is_right = reach(grid, &stack, corner, may_pass);
    for (uint64_t i = 0; stack.n && is_right; i++) {
        int64_t node[3];
        memcpy(node, stack.nodes[--stack.n], sizeof node);
        if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled())
            is_right = false;
        else if (ct_wrap_entry(grid, node) == CT_WRAP_OUTSIDE)
            is_right = leave_block(grid, &stack, node, may_pass);
        else
            is_right = leave_node(grid, &stack, node, may_pass);
    }
    free(stack.nodes);
    const size_t n = count_entries(grid);
    for (size_t b = 0; b < n && is_right; b++) {
        if (CT_POLL_EVERY(b, 1 << 14) && ct_is_cancelled()) is_right = false;
        if (grid->directory[b] == CT_WRAP_UNKNOWN) grid->directory[b] = CT_WRAP_INSIDE;
    }
    return is_right;
}

/* The position of a node in its grid. */
static void place_node(const ct_wrap_grid *grid, size_t entry, int i, int64_t node[3]) {
    const int64_t y = grid->n_blocks[1], z = grid->n_blocks[2], e = (int64_t)entry;
    const int64_t b[3] = {e / (y * z), e / z % y, e % z};
    const int local[3] = {i / CT_WRAP_SIDE / CT_WRAP_SIDE, i / CT_WRAP_SIDE % CT_WRAP_SIDE, i % CT_WRAP_SIDE};
    for (int k = 0; k < 3; k++) node[k] = CT_WRAP_SIDE * b[k] + local[k];
}

/* Spreads what is outside by steps along edges, up to the walls: as far as the nodes that the flood left out lie from it. */
static bool spread_outside(ct_wrap_grid *grid) {
    const int n_steps = (int)ceil((double)CT_WRAP_GAP * sqrt(3.0));
    node_stack now = {NULL, 0, 0}, next = {NULL, 0, 0};
    const size_t n = count_entries(grid);
    bool is_right = true;
    for (size_t b = 0; b < n && is_right; b++) {
        if (CT_POLL_EVERY(b, 64) && ct_is_cancelled()) is_right = false;
        if (grid->directory[b] >= CT_WRAP_INSIDE) continue;
        for (int i = 0; i < CT_WRAP_NODES && is_right; i++) {
            int64_t node[3];
            place_node(grid, b, i, node);
            const ct_wrap_block *block = &grid->blocks[grid->directory[b]];
            /* the neighbours of nodes at the band's end lie where the flood came anyway */
            if (block->is_outside[i] && block->distance[i] < CT_WRAP_BAND) is_right = push(&now, node);
        }
    }
    for (int step = 0; step < n_steps && is_right; step++) {
        next.n = 0;
        for (size_t i = 0; i < now.n && is_right; i++) {
            if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled()) is_right = false;
            is_right = is_right && leave_node(grid, &next, now.nodes[i], is_no_wall);
        }
        const node_stack swap = now;
        now = next, next = swap;
    }
    free(now.nodes), free(next.nodes);
    return is_right;
}

/* ---- the field ---- */

enum { UNCERTAIN, OUTSIDE, INSIDE };

/* What there is at a point: what the node next to it says, if that is no wall. */
static int find_side(const ct_wrap_grid *grid, const double point[3]) {
    int64_t node[3];
    for (int k = 0; k < 3; k++) node[k] = (int64_t)rint(point[k]);
    if (!ct_wrap_has(grid, node)) return OUTSIDE;
    const uint32_t entry = ct_wrap_entry(grid, node);
    if (entry >= CT_WRAP_INSIDE) return entry == CT_WRAP_OUTSIDE ? OUTSIDE : INSIDE;
    const int i = ct_wrap_local(node);
    if (grid->blocks[entry].is_outside[i]) return OUTSIDE;
    return grid->blocks[entry].distance[i] > CT_WRAP_WALL ? INSIDE : UNCERTAIN;
}

/* Whether a node behind a triangle is inside, near a point of it and within 72 degrees of straight behind it: beside an
 * edge, straight behind leads along another triangle. */
static bool is_inside_behind(const ct_wrap_grid *grid, const double from[3], const double direction[3]) {
    enum { ACROSS = 5 };
    const double reach = 2.5, cosine = 0.3;
    for (int i = 0; i < ACROSS * ACROSS * ACROSS; i++) {
        double p[3], way[3];
        for (int k = 0, rest = i; k < 3; k++, rest /= ACROSS) {
            const int step = rest % ACROSS - ACROSS / 2;
            p[k] = rint(from[k]) + step;
            way[k] = p[k] - from[k];
        }
        const double size = sqrt(ct_dot3(way, way));
        if (size <= reach && ct_dot3(way, direction) <= -cosine * size && find_side(grid, p) == INSIDE) return true;
    }
    return false;
}

/* In front of a triangle. */
static int look_ahead(const ct_wrap_grid *grid, const double from[3], const double direction[3]) {
    static const double steps[] = {1, 1.5, 2, 2.5};
    int side = UNCERTAIN;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && side == UNCERTAIN; i++) {
        double p[3];
        for (int k = 0; k < 3; k++) p[k] = from[k] + steps[i] * direction[k];
        side = find_side(grid, p);
    }
    return side;
}

/* From the triangle to the node; along the triangle's normal where the node is on it. */
static void find_direction(const ct_wrap_grid *grid, uint32_t triangle, const double closest[3], const double p[3],
                           double out[3]) {
    double size = 0;
    for (int k = 0; k < 3; k++) out[k] = p[k] - closest[k];
    size = sqrt(ct_dot3(out, out));
    if (!(size > 1e-6)) {
        const uint32_t *v = grid->triangles + 3 * (size_t)triangle;
        const double *a = grid->points + 3 * (size_t)v[0], *b = grid->points + 3 * (size_t)v[1],
                     *c = grid->points + 3 * (size_t)v[2];
        for (int k = 0; k < 3; k++) {
            const int i = (k + 1) % 3, j = (k + 2) % 3;
            out[k] = (b[i] - a[i]) * (c[j] - a[j]) - (b[j] - a[j]) * (c[i] - a[i]);
        }
        size = sqrt(ct_dot3(out, out));
    }
    for (int k = 0; k < 3; k++) out[k] = size > 0 ? out[k] / size : k == 0;
}

static float find_value(const ct_wrap_grid *grid, const ct_wrap_block *block, int i, const int64_t node[3]) {
    const float d = block->distance[i];
    const bool is_outside = block->is_outside[i], is_wall = !is_outside && d <= CT_WRAP_WALL;
    if (block->nearest[i] == UINT32_MAX || (!is_outside && !is_wall)) return is_outside ? d : -d;
    const double p[3] = {(double)node[0], (double)node[1], (double)node[2]};
    double closest[3], direction[3];
    ct_wrap_square(grid, block->nearest[i], p, closest);
    find_direction(grid, block->nearest[i], closest, p, direction);
    const int here = is_outside ? OUTSIDE : look_ahead(grid, closest, direction);
    if (here == OUTSIDE && is_inside_behind(grid, closest, direction)) return d;
    if (here == INSIDE && !is_inside_behind(grid, closest, direction)) return -d;
    return (float)((double)d - CT_WRAP_OFFSET);
}

/* False: cancelled. */
static bool set_field(ct_wrap_grid *grid) {
    const size_t n = count_entries(grid);
    for (size_t b = 0; b < n; b++) {
        if (CT_POLL_EVERY(b, 16) && ct_is_cancelled()) return false;
        if (grid->directory[b] >= CT_WRAP_INSIDE) continue;
        ct_wrap_block *block = &grid->blocks[grid->directory[b]];
        for (int i = 0; i < CT_WRAP_NODES; i++) {
            int64_t node[3];
            place_node(grid, b, i, node);
            block->field[i] = find_value(grid, block, i, node);
        }
    }
    return true;
}

/* What the field would have outside but cannot be reached, such as pockets between sheets, becomes inside. */
static bool close_pockets(ct_wrap_grid *grid) {
    const size_t n = count_entries(grid);
    for (size_t b = 0; b < n; b++)
        if (grid->directory[b] == CT_WRAP_OUTSIDE) grid->directory[b] = CT_WRAP_UNKNOWN;
    for (uint32_t b = 0; b < grid->n; b++) memset(grid->blocks[b].is_outside, 0, sizeof grid->blocks[b].is_outside);
    if (!flood(grid, is_not_inside)) return false;
    for (uint32_t b = 0; b < grid->n; b++) {
        if (CT_POLL_EVERY(b, 64) && ct_is_cancelled()) return false;
        for (int i = 0; i < CT_WRAP_NODES; i++)
            if (!grid->blocks[b].is_outside[i] && grid->blocks[b].field[i] >= 0) grid->blocks[b].field[i] = -0.1f;
    }
    return !ct_is_cancelled();
}

ct_status ct_make_wrap_grid(const ct_soup *soup, double resolution, ct_wrap_grid *grid, ct_error *error) {
    memset(grid, 0, sizeof *grid);
    ct_status status = place_grid(soup, resolution, grid, error);
    if (status == CT_OK && (!take_triangles(soup, grid) || !ct_make_wrap_tree(grid)))
        status = ct_fail(error, CT_OUT_OF_MEMORY, "resolution", "no memory to wrap %zu triangles", soup->n_triangles);
    if (status == CT_OK) status = make_blocks(grid, error);
    if (status != CT_OK) return status;
    if (!flood(grid, is_further) || !spread_outside(grid) || !set_field(grid) || !close_pockets(grid))
        return ct_fail(error, CT_OUT_OF_MEMORY, "resolution", "no memory to flood a grid of %u blocks", grid->n);
    return CT_OK;
}

void ct_free_wrap_grid(ct_wrap_grid *grid) {
    free(grid->directory);
    free(grid->blocks);
    free(grid->points);
    free(grid->triangles);
    free(grid->tree);
    memset(grid, 0, sizeof *grid);
}
