/* descend_cpu.simd.c - compares two voxel trees on one level. */
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/clock.h"
#include "gpu/base/simd.h"
#include "gpu/methods/voxtree/meet_lanes.h"
#include "gpu/methods/voxtree/pair.h"
#include "gpu/methods/voxtree/test_lanes.h"

/* Cubes between two looks at the clock, a few microseconds, and the most that are listed then. */
enum { CLOCK_PERIOD = 56, MAX_CUBES = CLOCK_PERIOD + 8 };

/* Cubes of the driver that are compared together, so that each step of the work is a loop over them. */
struct cubes {
    uint32_t n, n_full, n_open;
    ct_v4d center[MAX_CUBES + 1];        /* among the other's cubes */
    const ct_voxel *node[MAX_CUBES + 1]; /* of boundary nodes */
    ct_voxel_open cube[MAX_CUBES + 1];
    uint8_t full[MAX_CUBES + 1], open[MAX_CUBES + 1]; /* which of them lie in full cubes, and which are open */
};

/* A level of a pair while it is computed. */
struct descent {
    ct_voxel_geometry g;
    ct_voxel_pair *pair;
    ct_budget *budget;
    bool has_failed;
};

/* ---- sums of groups ---- */

/* A vector at any address of an integer. */
typedef int64_t unaligned_v4l __attribute__((vector_size(32), aligned(8), may_alias));

static void add_rows(ct_voxel_group_sums *to, const ct_v4l rows[2]) {
    unaligned_v4l *sums = (unaligned_v4l *)(void *)to->normal;
    sums[0] += rows[0];
    sums[1] += rows[1];
    to->n++;
}

/* ---- contact primitives ---- */

/* With keeps_primitives, keeps one by itself. False: out of memory. */
static bool keep_primitive(struct descent *d, uint32_t group, uint32_t other, const ct_v4l rows[2]) {
    ct_voxel_answer *next = &d->pair->next;
    if (!d->pair->options.keeps_primitives) return true;
    ct_voxel_group_sums *to = ct_voxel_append_sums(&next->primitives, d->budget, next->n_primitives);
    if (!to) return false;
    next->n_primitives++;
    *to = (ct_voxel_group_sums){.group = {group, other}};
    add_rows(to, rows);
    return true;
}

/* Four primitives, of which n count. */
static void add_primitives(struct descent *d, const struct side *sides, const struct meeting meetings[4], uint32_t n) {
    struct met_lanes met;
    meet_four(&d->g, sides, meetings, &met);
    for (uint32_t i = 0; i < n; i++) {
        if (!met.probability[i]) continue;
        const uint32_t group = sides[meetings[i].side].group, other = (uint32_t)met.group[i];
        ct_voxel_group_sums *to = ct_voxel_group(&d->pair->next.groups, d->budget, group, other);
        if (!to || !keep_primitive(d, group, other, met.row[i])) {
            d->has_failed = true;
            return;
        }
        add_rows(to, met.row[i]);
    }
}

/* Of a settled boundary node; u: its centre. */
static void add_settled_primitive(struct descent *d, const ct_voxel *node, const double u[4]) {
    ct_voxel_group_sums *to = ct_voxel_group(&d->pair->settled_groups, d->budget, node->group, CT_VOXEL_INSIDE);
    if (!to) {
        d->has_failed = true;
        return;
    }
    ct_voxel_group_sums sums;
    ct_voxel_settle_primitive(&d->g, node, u, &sums);
    ct_voxel_add_sums(to, &sums);
}

/* ---- cubes ---- */

static void add_settled(struct descent *d, const struct cubes *cubes) {
    for (uint32_t j = 0; j < cubes->n_full; j++) {
        const uint32_t i = cubes->full[j];
        const ct_voxel_open *cube = &cubes->cube[i];
        const ct_voxel *node = cube->is_boundary ? cubes->node[i] : NULL;
        const double center[3] = {cube->at[0] + 0.5, cube->at[1] + 0.5, cube->at[2] + 0.5};
        ct_voxel_add_settled(&d->g, node, center, &d->pair->settled);
        if (node && d->g.settles_points) add_settled_primitive(d, node, (const double *)&cubes->center[i]);
    }
}

/* Appends the open cubes to the next front, and returns where. NULL: out of memory, if there are some. */
static const ct_voxel_open *keep_open(struct descent *d, const struct cubes *cubes) {
    ct_voxel_answer *next = &d->pair->next;
    const size_t size = sizeof(ct_voxel_open), n = next->n_open;
    if ((n + cubes->n_open) * size > next->open.capacity &&
        !ct_buffer_reserve(&next->open, d->budget, 2 * (n + MAX_CUBES) * size, n * size, false))
        return NULL;
    ct_voxel_open *open = (ct_voxel_open *)next->open.data + n;
    for (uint32_t j = 0; j < cubes->n_open; j++) {
        open[j] = cubes->cube[cubes->open[j]];
        d->pair->open.n_children += ct_voxel_count_children(&d->g, &open[j]);
    }
    next->n_open += cubes->n_open;
    return open;
}

/* Primitives of open cubes, with NULL for the node of a full one. */
static void meet_open(struct descent *d, const ct_voxel *const *nodes, const ct_voxel_around *arounds, uint32_t n) {
    struct side sides[MAX_CUBES];
    struct meeting meetings[8 * MAX_CUBES + 4];
    uint32_t n_met = 0;
    for (uint32_t j = 0; j < n; j++) find_side(&d->g, nodes[j], &arounds[j], &sides[j]);
    for (uint32_t j = 0; j < n; j++) {
        const uint32_t met = find_met(&d->g, &sides[j]);
        for (uint8_t k = 0; k < 8; k++) {
            meetings[n_met] = (struct meeting){(uint8_t)j, k};
            n_met += met >> k & 1;
        }
    }
    memset(&meetings[n_met], 0, 4 * sizeof *meetings); /* the last four may be fewer */
    for (uint32_t m = 0; m < n_met && !d->has_failed; m += 4)
        add_primitives(d, sides, meetings + m, n_met - m < 4 ? n_met - m : 4);
}

static void add_open(struct descent *d, const struct cubes *cubes) {
    ct_voxel_cube_sums *sums = &d->pair->open;
    const uint32_t n = cubes->n_open;
    const ct_voxel_open *open = keep_open(d, cubes);
    if (!open) {
        d->has_failed |= n > 0;
        return;
    }
    const ct_voxel *nodes[MAX_CUBES], *boundary[MAX_CUBES];
    double occupancy[MAX_CUBES];
    uint32_t n_boundary = 0;
    for (uint32_t j = 0; j < n; j++) {
        nodes[j] = open[j].is_boundary ? cubes->node[cubes->open[j]] : NULL;
        boundary[n_boundary] = nodes[j];
        n_boundary += nodes[j] != NULL;
        occupancy[j] = ct_voxel_count(nodes[j], sums);
    }
    if (!d->g.finds_estimates) return;
    ct_voxel_around arounds[MAX_CUBES];
    for (uint32_t j = 0; j < n; j++) {
        ct_voxel_look((const double *)&cubes->center[cubes->open[j]], &arounds[j]);
        ct_voxel_find_around(&d->g.b, &arounds[j]);
    }
    for (uint32_t j = 0; j < n; j++) {
        const double center[3] = {open[j].at[0] + 0.5, open[j].at[1] + 0.5, open[j].at[2] + 0.5};
        ct_voxel_add_shared(&d->g, occupancy[j], center, &arounds[j], sums);
    }
    for (uint32_t j = 0; j < n_boundary; j++) ct_voxel_add_open_surface(&d->g, boundary[j], sums);
    if (d->g.finds_points) meet_open(d, nodes, arounds, n);
}

/* What the cubes are, and what each adds. */
static void compare_cubes(struct descent *d, struct cubes *cubes) {
    cubes->n_full = cubes->n_open = 0;
    const ct_v4d reach = load_row(d->g.reach);
    for (uint32_t i = 0; i < cubes->n; i++) {
        const ct_voxel_status status = test_box(&d->g, cubes->center[i], reach);
        cubes->full[cubes->n_full] = cubes->open[cubes->n_open] = (uint8_t)i;
        cubes->n_full += status == CT_VOXEL_IS_FULL;
        cubes->n_open += status == CT_VOXEL_IS_OPEN;
    }
    add_settled(d, cubes);
    add_open(d, cubes);
    cubes->n = 0;
}

static void list_root(const struct descent *d, struct cubes *cubes) {
    bool is_full;
    cubes->node[0] = ct_voxel_find(&d->g.a, 0, 0, 0, &is_full);
    cubes->cube[0] = (ct_voxel_open){.is_boundary = cubes->node[0] != NULL};
    ct_voxel_place(&d->g, (const double[3]){0.5, 0.5, 0.5}, (double *)&cubes->center[0]);
    cubes->n = 1;
}

/* Appends a parent's children: all are written, but those that do not exist are overwritten. */
static void list_children(const struct descent *d, const ct_voxel_open *parent, struct cubes *cubes) {
    const ct_voxel_geometry *g = &d->g;
    const ct_voxel_brick *brick;
    const uint32_t x = 2u * parent->at[0], y = 2u * parent->at[1], z = 2u * parent->at[2];
    const uint32_t first = ct_voxel_bit(x, y, z);
    const uint64_t exists = ct_voxel_children(&g->a, parent, &brick) >> first;
    ct_v4d on_x[2], on_xy[4];
    for (int i = 0; i < 2; i++) on_x[i] = load_row(g->corner) + (x + i + 0.5) * load_row(g->step[0]);
    for (int i = 0; i < 4; i++) on_xy[i] = on_x[i & 1] + (y + (i >> 1) + 0.5) * load_row(g->step[1]);
    uint32_t n = cubes->n;
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t bit = (i & 1) + ((i >> 1 & 1) << 2) + ((i >> 2) << 4);
        const bool is_boundary = brick->boundary >> (first + bit) & 1;
        cubes->center[n] = on_xy[i & 3] + (z + (i >> 2) + 0.5) * load_row(g->step[2]);
        cubes->node[n] = ct_voxel_node(&g->a, brick, first + bit);
        cubes->cube[n] =
            (ct_voxel_open){.at = {(uint8_t)(x + (i & 1)), (uint8_t)(y + (i >> 1 & 1)), (uint8_t)(z + (i >> 2))},
                            .is_boundary = is_boundary};
        n += exists >> bit & 1;
    }
    cubes->n = n;
}

/* ---- levels ---- */

static ct_voxel_descent descend(ct_voxel_pair *pair, double deadline, ct_budget *budget) {
    struct descent d;
    struct cubes cubes;
    d.pair = pair;
    d.budget = budget;
    d.has_failed = false;
    cubes.n = 0;
    ct_voxel_begin_level(pair, &d.g);
    if (!pair->answer.is_examined) list_root(&d, &cubes);
    const ct_voxel_open *open = pair->answer.open.data;
    for (uint32_t i = 0; i < pair->answer.n_open && !d.has_failed; i++) {
        list_children(&d, &open[i], &cubes);
        if (cubes.n < CLOCK_PERIOD) continue;
        compare_cubes(&d, &cubes);
        if (deadline > 0 && ct_now() > deadline) return CT_VOXEL_LATE;
        if (ct_is_cancelled_at("voxels", pair->n_tests)) return CT_VOXEL_NO_MEMORY;
    }
    compare_cubes(&d, &cubes);
    if (d.has_failed || !ct_voxel_complete_level(pair, &d.g, budget)) return CT_VOXEL_NO_MEMORY;
    return CT_VOXEL_DONE;
}

const ct_voxel_cpu CT_VARIANT(ct_voxel_cpu) = {descend};
