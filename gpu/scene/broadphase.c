/* broadphase.c - sweep and prune in a grid of columns.
 *
 *      +-----+-----+-----+     A column is a cell of the grid, infinite along the sweep axis. Each
 *      |     |  bbbbbbb  |     box is listed in all columns that it touches, sorted by its lower
 *      +-----+--b--+--b--+     end along the sweep axis; each column is swept separately.
 *      |  aaaaaaaaa|  b  |
 *      |  a  |* bbabbbb  |     Two boxes can share several columns, but only the owner (*) reports
 *      +--a--+----a+-----+     the pair: on each grid axis the larger of the boxes' first columns.
 *      |  aaaaaaaaa|     |
 *      +-----+-----+-----+
 *
 * Column numbers are integers that grow with the coordinate, so overlapping boxes are both listed in their owner,
 * however the coordinates were rounded.
 */
#include "gpu/scene/broadphase.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"

enum { SORT, BOXES, STARTS, COLUMNS, PAIRS, PAIRS_TMP }; /* indices of ct_broadphase.memory */
enum {
    SAMPLES = 64,   /* boxes that plan_grid looks at */
    MAX_SIDE = 512, /* columns along an axis: 2^18 columns at most */
    POLL = 4096,    /* boxes, tests of two of them, or pairs between polls */
};

/* A box with its axes permuted so that [0] is the sweep axis and [1], [2] are the axes of the grid. */
typedef struct permuted_box {
    double lo[3], hi[3];
    uint32_t body;
    uint16_t first[2], last[2]; /* columns touched */
} permuted_box;

typedef struct sort_entry {
    double key;
    uint32_t body;
} sort_entry;

typedef struct column_grid {
    int axis[3];           /* permuted axis -> world axis */
    double origin[2];      /* m */
    double inv_pitch[2];   /* columns per m */
    uint32_t n_columns[2]; /* along each axis */
} column_grid;

static void *reserve(ct_broadphase *broad, int slot, size_t count, size_t size) {
    if (count > SIZE_MAX / 2 / size) return NULL;
    size_t need = count * size;
    if (need <= broad->capacity[slot] && broad->memory[slot]) return broad->memory[slot];
    size_t capacity = need + need / 2 + 256;
    void *grown = realloc(broad->memory[slot], capacity);
    if (!grown) return NULL;
    broad->bytes += capacity - broad->capacity[slot];
    broad->memory[slot] = grown;
    broad->capacity[slot] = capacity;
    return grown;
}

void ct_broadphase_free(ct_broadphase *broad) {
    for (size_t i = 0; i < sizeof broad->memory / sizeof *broad->memory; i++) free(broad->memory[i]);
    memset(broad, 0, sizeof *broad);
}

static bool is_ended(const ct_broadphase *broad) {
    return ct_is_cancelled_at("pairs of bodies", broad->n_pairs);
}

/* Stable bottom-up merge sort by key. Entries start in order of bodies, so the result is sorted by (key, body). Returns
 * the array that holds the result. */
static sort_entry *sort_entries(sort_entry *from, sort_entry *to, size_t n) {
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start < n; start += 2 * width) {
            size_t mid = start + width < n ? start + width : n, end = mid + width < n ? mid + width : n;
            size_t left = start, right = mid;
            for (size_t k = start; k < end; k++) {
                if (CT_POLL_EVERY(k, POLL) && ct_is_cancelled()) return from;
                bool is_left = left < mid && (right >= end || from[left].key <= from[right].key);
                to[k] = is_left ? from[left++] : from[right++];
            }
        }
        sort_entry *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static void sort_doubles(double *values, size_t n) {
    for (size_t i = 1; i < n; i++) {
        double value = values[i];
        size_t k = i;
        for (; k > 0 && values[k - 1] > value; k--) values[k] = values[k - 1];
        values[k] = value;
    }
}

static bool is_empty(const ct_box *box) {
    return !(box->lo[0] < box->hi[0] && box->lo[1] < box->hi[1] && box->lo[2] < box->hi[2]);
}

/* Sweeps along the axis on which the scene's extent is the largest multiple of a box's extent, and plans columns about
 * two boxes wide on the other two. Uses a sample of the boxes: their median extent, and the extent of their centres
 * without the outermost sixteenth at each end, so that a few outliers do not matter. */
static void plan_grid(column_grid *grid, const ct_broad_body *bodies, const sort_entry *live, size_t n) {
    double low[3], span[3], width[3], spread[3];
    size_t n_samples = n < SAMPLES ? n : SAMPLES;
    for (int axis = 0; axis < 3; axis++) {
        double centers[SAMPLES], extents[SAMPLES];
        for (size_t s = 0; s < n_samples; s++) {
            const ct_box *box = &bodies[live[s * n / n_samples].body].box;
            centers[s] = 0.5 * box->lo[axis] + 0.5 * box->hi[axis];
            extents[s] = box->hi[axis] - box->lo[axis];
        }
        sort_doubles(centers, n_samples);
        sort_doubles(extents, n_samples);
        size_t margin = n_samples / 16;
        low[axis] = centers[margin];
        span[axis] = centers[n_samples - 1 - margin] - centers[margin];
        width[axis] = extents[n_samples / 2];
        spread[axis] = span[axis] / width[axis];
    }
    int sweep = 0;
    for (int axis = 1; axis < 3; axis++)
        if (spread[axis] > spread[sweep]) sweep = axis;
    grid->axis[0] = sweep;
    grid->axis[1] = (sweep + 1) % 3;
    grid->axis[2] = (sweep + 2) % 3;
    for (int i = 0; i < 2; i++) {
        int axis = grid->axis[i + 1];
        double wanted = span[axis] / (2 * width[axis]);
        grid->n_columns[i] = wanted >= MAX_SIDE ? MAX_SIDE : wanted >= 1 ? (uint32_t)wanted : 1;
        grid->origin[i] = low[axis];
        grid->inv_pitch[i] = grid->n_columns[i] > 1 ? grid->n_columns[i] / span[axis] : 0;
    }
    while ((size_t)grid->n_columns[0] * grid->n_columns[1] > 2 * n) {
        int i = grid->n_columns[0] >= grid->n_columns[1] ? 0 : 1;
        grid->n_columns[i] = (grid->n_columns[i] + 1) / 2;
        grid->inv_pitch[i] /= 2;
    }
}

static uint16_t find_column(const column_grid *grid, int i, double x) {
    double c = (x - grid->origin[i]) * grid->inv_pitch[i];
    uint32_t last = grid->n_columns[i] - 1;
    return (uint16_t)(c >= last ? last : c > 0 ? (uint32_t)c : 0);
}

/* Computes the columns that every box touches. Returns the total length of the columns' lists. */
static size_t assign_columns(const column_grid *grid, permuted_box *boxes, size_t n) {
    size_t total = 0;
    for (size_t k = 0; k < n; k++) {
        size_t count = 1;
        if (CT_POLL_EVERY(k, POLL) && ct_is_cancelled()) return 0;
        for (int i = 0; i < 2; i++) {
            boxes[k].first[i] = find_column(grid, i, boxes[k].lo[i + 1]);
            boxes[k].last[i] = find_column(grid, i, boxes[k].hi[i + 1]);
            count *= boxes[k].last[i] - boxes[k].first[i] + 1u;
        }
        total += count;
    }
    return total;
}

static bool is_ignored(const uint64_t *keys, size_t n, uint64_t key) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (keys[mid] < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && keys[low] == key;
}

typedef struct sweep {
    ct_broadphase *broad;
    bool has_most; /* there are more pairs than the most that are wanted */
    const ct_broad_body *bodies;
    const uint64_t *ignored;
    size_t n_ignored;
    const permuted_box *boxes;
} sweep;

static bool append_pair(sweep *s, uint32_t i, uint32_t j) {
    s->has_most = s->broad->most_pairs && s->broad->n_pairs == s->broad->most_pairs;
    if (s->has_most) return false;
    ct_pair *pairs = reserve(s->broad, PAIRS, s->broad->n_pairs + 1, sizeof *pairs);
    if (!pairs) return false;
    pairs[s->broad->n_pairs++] = (ct_pair){i < j ? i : j, i < j ? j : i};
    return true;
}

static bool report_pair(sweep *s, uint32_t i, uint32_t j) {
    const ct_broad_body *a = &s->bodies[i], *b = &s->bodies[j];
    if (!(a->group & b->mask) || !(b->group & a->mask)) return true;
    if (s->n_ignored && is_ignored(s->ignored, s->n_ignored, ct_pair_key(i, j))) return true;
    return append_pair(s, i, j);
}

/* Reports the pairs that a column owns. Its list is sorted by lo[0]. */
static bool sweep_column(sweep *s, const uint32_t *list, size_t n, uint32_t column0, uint32_t column1) {
    uint64_t tests = s->broad->box_tests;
    bool ok = true;
    for (size_t k = 0; k + 1 < n && ok; k++) {
        const permuted_box *a = &s->boxes[list[k]];
        for (size_t m = k + 1; m < n && ok; m++) {
            const permuted_box *b = &s->boxes[list[m]];
            if (b->lo[0] >= a->hi[0]) break;
            if (CT_POLL_EVERY(++tests, POLL) && is_ended(s->broad)) return false;
            if (a->lo[1] >= b->hi[1] || b->lo[1] >= a->hi[1] || a->lo[2] >= b->hi[2] || b->lo[2] >= a->hi[2]) continue;
            uint32_t owner0 = a->first[0] > b->first[0] ? a->first[0] : b->first[0];
            uint32_t owner1 = a->first[1] > b->first[1] ? a->first[1] : b->first[1];
            if (owner0 == column0 && owner1 == column1) ok = report_pair(s, a->body, b->body);
        }
    }
    s->broad->box_tests = tests;
    return ok;
}

/* Radix sort: a counting sort by b, then a stable one by a. */
static bool sort_pairs(ct_broadphase *broad, size_t n_bodies) {
    size_t n = broad->n_pairs;
    ct_pair *pairs = broad->memory[PAIRS];
    if (n > 1) {
        ct_pair *tmp = reserve(broad, PAIRS_TMP, n, sizeof *tmp);
        size_t *starts = reserve(broad, STARTS, n_bodies + 1, sizeof *starts);
        if (!tmp || !starts) return false;
        for (int pass = 0; pass < 2; pass++) {
            const ct_pair *from = pass ? tmp : pairs;
            ct_pair *to = pass ? pairs : tmp;
            memset(starts, 0, (n_bodies + 1) * sizeof *starts);
            for (size_t k = 0; k < n; k++) {
                if (CT_POLL_EVERY(k, POLL) && is_ended(broad)) return false;
                starts[(pass ? from[k].a : from[k].b) + 1]++;
            }
            for (size_t k = 0; k < n_bodies; k++) starts[k + 1] += starts[k];
            for (size_t k = 0; k < n; k++) {
                if (CT_POLL_EVERY(k, POLL) && is_ended(broad)) return false;
                to[starts[pass ? from[k].a : from[k].b]++] = from[k];
            }
        }
    }
    broad->pairs = pairs;
    return true;
}

static bool find_pairs(sweep *s, size_t n_bodies) {
    ct_broadphase *broad = s->broad;
    sort_entry *live = reserve(broad, SORT, 2 * n_bodies, sizeof *live);
    if (!live) return false;
    size_t n = 0;
    for (size_t i = 0; i < n_bodies; i++) {
        if (CT_POLL_EVERY(i, POLL) && is_ended(broad)) return false;
        if (is_empty(&s->bodies[i].box)) continue;
        live[n++] = (sort_entry){0, (uint32_t)i};
        if (s->bodies[i].meets_itself && !append_pair(s, (uint32_t)i, (uint32_t)i)) return false;
    }
    if (n < 2) return true;

    column_grid grid;
    plan_grid(&grid, s->bodies, live, n);
    for (size_t k = 0; k < n; k++) live[k].key = s->bodies[live[k].body].box.lo[grid.axis[0]];
    live = sort_entries(live, live + n, n);
    if (is_ended(broad)) return false;

    permuted_box *boxes = reserve(broad, BOXES, n, sizeof *boxes);
    if (!boxes) return false;
    for (size_t k = 0; k < n; k++) {
        const ct_box *box = &s->bodies[live[k].body].box;
        for (int i = 0; i < 3; i++) {
            boxes[k].lo[i] = box->lo[grid.axis[i]];
            boxes[k].hi[i] = box->hi[grid.axis[i]];
        }
        boxes[k].body = live[k].body;
    }
    s->boxes = boxes;

    /* Large boxes among small ones touch many columns. Coarsen the grid until a box is in 6 columns on average. */
    size_t total;
    while ((total = assign_columns(&grid, boxes, n)) > 6 * n) {
        int i = grid.n_columns[0] >= grid.n_columns[1] ? 0 : 1;
        grid.n_columns[i] = (grid.n_columns[i] + 1) / 2;
        grid.inv_pitch[i] /= 2;
    }
    if (is_ended(broad)) return false;

    size_t total_columns = (size_t)grid.n_columns[0] * grid.n_columns[1];
    size_t *starts = reserve(broad, STARTS, total_columns + 1, sizeof *starts);
    uint32_t *lists = reserve(broad, COLUMNS, total, sizeof *lists);
    if (!starts || !lists) return false;
    memset(starts, 0, (total_columns + 1) * sizeof *starts);
    for (int pass = 0; pass < 2; pass++) { /* count, then fill; afterwards starts[c] is the end of list c */
        for (size_t k = 0; k < n; k++) {
            if (CT_POLL_EVERY(k, POLL / 8) && is_ended(broad)) return false;
            for (size_t c0 = boxes[k].first[0]; c0 <= boxes[k].last[0]; c0++)
                for (size_t c1 = boxes[k].first[1]; c1 <= boxes[k].last[1]; c1++) {
                    size_t c = c0 * grid.n_columns[1] + c1;
                    if (pass)
                        lists[starts[c]++] = (uint32_t)k;
                    else
                        starts[c + 1]++;
                }
        }
        if (!pass)
            for (size_t c = 0; c < total_columns; c++) starts[c + 1] += starts[c];
    }
    for (size_t c = 0; c < total_columns; c++) {
        size_t begin = c ? starts[c - 1] : 0;
        if (CT_POLL_EVERY(c, POLL) && is_ended(broad)) return false;
        if (!sweep_column(s, lists + begin, starts[c] - begin, (uint32_t)(c / grid.n_columns[1]),
                          (uint32_t)(c % grid.n_columns[1])))
            return false;
    }
    return true;
}

ct_status ct_broadphase_run(ct_broadphase *broad, const ct_broad_body *bodies, size_t n_bodies, const uint64_t *ignored,
                            size_t n_ignored, ct_error *error) {
    broad->pairs = NULL;
    broad->n_pairs = 0;
    broad->box_tests = 0;
    if (n_bodies > UINT32_MAX)
        return ct_fail(error, CT_LIMIT_EXCEEDED, "bodies", "%zu bodies in one scene, at most %u are possible", n_bodies,
                       UINT32_MAX);
    sweep s = {.broad = broad, .bodies = bodies, .ignored = ignored, .n_ignored = n_ignored};
    if (!find_pairs(&s, n_bodies) || !sort_pairs(broad, n_bodies)) {
        size_t found = broad->n_pairs;
        broad->pairs = NULL;
        broad->n_pairs = 0;
        if (s.has_most)
            return ct_fail(error, CT_LIMIT_EXCEEDED, "bodies", "more than %zu pairs of %zu bodies", broad->most_pairs,
                           n_bodies);
        return ct_fail(error, CT_OUT_OF_MEMORY, "bodies", "no memory to pair %zu bodies (%zu pairs found so far)",
                       n_bodies, found);
    }
    return CT_OK;
}
