/* broadphase.c - sweep and prune in a grid of columns; see broadphase.h.
 *
 * Every box goes into the columns it touches, in rising order of its lower end along the sweep axis; each column is
 * swept by itself. A pair is reported by the one column that holds the larger of the two boxes' first columns, on both
 * axes: column numbers are integers that rise with the coordinate, so this is exact whatever the rounding was.
 */
#include "gpu/broadphase/broadphase.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"

enum { SORT, ITEMS, STARTS, COLUMNS, PAIRS, PAIRS_TMP };
enum { SAMPLES = 64, MAX_SIDE = 512 };

/* A box with its axes permuted so that [0] is the sweep axis and [1], [2] span the grid of columns. */
typedef struct item {
    double lo[3], hi[3];
    uint32_t body;
    uint16_t first[2], last[2]; /* columns touched */
} item;

typedef struct entry {
    double key;
    uint32_t body;
} entry;

typedef struct column_grid {
    int axis[3];      /* item axis -> world axis */
    double origin[2]; /* of the columns */
    double inverse[2];
    uint32_t side[2]; /* number of columns along each axis */
} column_grid;

static void *reserve(ct_broadphase *broad, int slot, size_t count, size_t size) {
    if (count > SIZE_MAX / 2 / size) return NULL;
    size_t need = count * size;
    if (need <= broad->capacity[slot] && broad->memory[slot]) return broad->memory[slot];
    size_t want = need + need / 2 + 256;
    void *grown = realloc(broad->memory[slot], want);
    if (!grown) return NULL;
    broad->bytes += want - broad->capacity[slot];
    broad->memory[slot] = grown;
    broad->capacity[slot] = want;
    return grown;
}

void ct_broadphase_free(ct_broadphase *broad) {
    for (size_t i = 0; i < sizeof broad->memory / sizeof *broad->memory; i++) free(broad->memory[i]);
    memset(broad, 0, sizeof *broad);
}

/* Stable bottom-up merge sort by (key, body); the result lies in one of the two arrays. */
static entry *sort_entries(entry *from, entry *to, size_t n) {
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start < n; start += 2 * width) {
            size_t mid = start + width < n ? start + width : n, end = mid + width < n ? mid + width : n;
            size_t left = start, right = mid;
            for (size_t k = start; k < end; k++) {
                bool take_left = left < mid && (right >= end || from[left].key <= from[right].key);
                to[k] = take_left ? from[left++] : from[right++];
            }
        }
        entry *swap = from;
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

/* Chooses the sweep axis (most box widths between the outer bodies, judged from a sample so that a few outliers do not
 * matter) and, on the other two, columns about two boxes wide. */
static void plan_grid(column_grid *grid, const ct_broad_body *bodies, const entry *live, size_t n) {
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
        grid->side[i] = wanted >= MAX_SIDE ? MAX_SIDE : wanted >= 1 ? (uint32_t)wanted : 1;
        grid->origin[i] = low[axis];
        grid->inverse[i] = grid->side[i] > 1 ? grid->side[i] / span[axis] : 0;
    }
    while ((size_t)grid->side[0] * grid->side[1] > 2 * n) {
        int i = grid->side[0] >= grid->side[1] ? 0 : 1;
        grid->side[i] = (grid->side[i] + 1) / 2;
        grid->inverse[i] /= 2;
    }
}

static uint16_t column(const column_grid *grid, int i, double x) {
    double c = (x - grid->origin[i]) * grid->inverse[i];
    uint32_t last = grid->side[i] - 1;
    return (uint16_t)(c >= last ? last : c > 0 ? (uint32_t)c : 0);
}

/* Numbers the columns that every item touches; gives how many (item, column) entries that makes. */
static size_t assign_columns(const column_grid *grid, item *items, size_t n) {
    size_t total = 0;
    for (size_t k = 0; k < n; k++) {
        size_t count = 1;
        for (int i = 0; i < 2; i++) {
            items[k].first[i] = column(grid, i, items[k].lo[i + 1]);
            items[k].last[i] = column(grid, i, items[k].hi[i + 1]);
            count *= items[k].last[i] - items[k].first[i] + 1u;
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
    const ct_broad_body *bodies;
    const uint64_t *ignored;
    size_t n_ignored;
    const item *items;
} sweep;

static bool report(sweep *s, uint32_t i, uint32_t j) {
    const ct_broad_body *a = &s->bodies[i], *b = &s->bodies[j];
    if (!(a->group & b->mask) || !(b->group & a->mask)) return true;
    if (s->n_ignored && is_ignored(s->ignored, s->n_ignored, ct_pair_key(i, j))) return true;
    ct_pair *pairs = reserve(s->broad, PAIRS, s->broad->n_pairs + 1, sizeof *pairs);
    if (!pairs) return false;
    pairs[s->broad->n_pairs++] = (ct_pair){i < j ? i : j, i < j ? j : i};
    return true;
}

/* One column: its items in rising order of lo[0]. */
static bool sweep_column(sweep *s, const uint32_t *list, size_t n, uint32_t column0, uint32_t column1) {
    uint64_t tests = 0;
    bool ok = true;
    for (size_t k = 0; k + 1 < n && ok; k++) {
        const item *a = &s->items[list[k]];
        for (size_t m = k + 1; m < n && ok; m++) {
            const item *b = &s->items[list[m]];
            if (b->lo[0] >= a->hi[0]) break;
            tests++;
            if (a->lo[1] >= b->hi[1] || b->lo[1] >= a->hi[1] || a->lo[2] >= b->hi[2] || b->lo[2] >= a->hi[2]) continue;
            uint32_t home0 = a->first[0] > b->first[0] ? a->first[0] : b->first[0];
            uint32_t home1 = a->first[1] > b->first[1] ? a->first[1] : b->first[1];
            if (home0 == column0 && home1 == column1) ok = report(s, a->body, b->body);
        }
    }
    s->broad->box_tests += tests;
    return ok;
}

/* Counting sort by b, then stably by a. */
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
            for (size_t k = 0; k < n; k++) starts[(pass ? from[k].a : from[k].b) + 1]++;
            for (size_t k = 0; k < n_bodies; k++) starts[k + 1] += starts[k];
            for (size_t k = 0; k < n; k++) to[starts[pass ? from[k].a : from[k].b]++] = from[k];
        }
    }
    broad->pairs = pairs;
    return true;
}

static bool run(sweep *s, size_t n_bodies) {
    ct_broadphase *broad = s->broad;
    entry *live = reserve(broad, SORT, 2 * n_bodies, sizeof *live);
    if (!live) return false;
    size_t n = 0;
    for (size_t i = 0; i < n_bodies; i++)
        if (!is_empty(&s->bodies[i].box)) live[n++] = (entry){0, (uint32_t)i};
    if (n < 2) return true;

    column_grid grid;
    plan_grid(&grid, s->bodies, live, n);
    for (size_t k = 0; k < n; k++) live[k].key = s->bodies[live[k].body].box.lo[grid.axis[0]];
    live = sort_entries(live, live + n, n);

    item *items = reserve(broad, ITEMS, n, sizeof *items);
    if (!items) return false;
    for (size_t k = 0; k < n; k++) {
        const ct_box *box = &s->bodies[live[k].body].box;
        for (int i = 0; i < 3; i++) {
            items[k].lo[i] = box->lo[grid.axis[i]];
            items[k].hi[i] = box->hi[grid.axis[i]];
        }
        items[k].body = live[k].body;
    }
    s->items = items;

    /* Boxes of many sizes may touch too many columns: coarsen until the lists are a small multiple of the boxes. */
    size_t total;
    while ((total = assign_columns(&grid, items, n)) > 6 * n) {
        int i = grid.side[0] >= grid.side[1] ? 0 : 1;
        grid.side[i] = (grid.side[i] + 1) / 2;
        grid.inverse[i] /= 2;
    }

    size_t n_columns = (size_t)grid.side[0] * grid.side[1];
    size_t *starts = reserve(broad, STARTS, n_columns + 1, sizeof *starts);
    uint32_t *lists = reserve(broad, COLUMNS, total, sizeof *lists);
    if (!starts || !lists) return false;
    memset(starts, 0, (n_columns + 1) * sizeof *starts);
    for (int pass = 0; pass < 2; pass++) { /* count, then fill; filling leaves starts[c] at the end of list c */
        for (size_t k = 0; k < n; k++)
            for (size_t c0 = items[k].first[0]; c0 <= items[k].last[0]; c0++)
                for (size_t c1 = items[k].first[1]; c1 <= items[k].last[1]; c1++) {
                    size_t c = c0 * grid.side[1] + c1;
                    if (pass)
                        lists[starts[c]++] = (uint32_t)k;
                    else
                        starts[c + 1]++;
                }
        if (!pass)
            for (size_t c = 0; c < n_columns; c++) starts[c + 1] += starts[c];
    }
    for (size_t c = 0; c < n_columns; c++) {
        size_t begin = c ? starts[c - 1] : 0;
        if (!sweep_column(s, lists + begin, starts[c] - begin, (uint32_t)(c / grid.side[1]),
                          (uint32_t)(c % grid.side[1])))
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
    sweep s = {broad, bodies, ignored, n_ignored, NULL};
    if (!run(&s, n_bodies) || !sort_pairs(broad, n_bodies)) {
        size_t found = broad->n_pairs;
        broad->pairs = NULL;
        broad->n_pairs = 0;
        return ct_fail(error, CT_OUT_OF_MEMORY, "bodies", "no memory to pair %zu bodies (%zu pairs found so far)",
                       n_bodies, found);
    }
    return CT_OK;
}
