/* descend_cpu.simd.c - compares two voxel trees on one level. */
#include <string.h>

#include "gpu/base/clock.h"
#include "gpu/base/simd.h"
#include "gpu/voxtree/descend_cpu.h"

/* Four primitives at a time. */
#define CT_VOXEL_LANES
typedef ct_v4d ct_lanes;

static inline ct_lanes ct_lanes_sqrt(ct_lanes x) {
    return ct_v4d_sqrt(x);
}
static inline ct_lanes ct_lanes_max(ct_lanes x, ct_lanes y) {
    return ct_v4d_choose(x > y, x, y);
}
static inline ct_lanes ct_lanes_min(ct_lanes x, ct_lanes y) {
    return ct_v4d_choose(x < y, x, y);
}
static inline ct_lanes ct_lanes_where_positive(ct_lanes x, ct_lanes a, ct_lanes b) {
    return ct_v4d_choose(x > 0, a, b);
}
#include "gpu/voxtree/meet_k.h"

/* Cubes between two looks at the clock: a few microseconds. */
enum { CLOCK_PERIOD = 64 };

/* Eight quantities of up to eight primitives of one pair of groups, which are added up lane by lane. */
struct group_lanes {
    ct_v4l sums[8]; /* in the order of ct_voxel_group_sums */
    uint32_t n, group;
};

/* A level of a pair while it is computed. */
struct descent {
    ct_voxel_geometry g;
    ct_voxel_pair *pair;
    ct_budget *budget;
    bool has_failed;
};

/* ---- sums of groups ---- */

static uint32_t hash_of(uint32_t a, uint32_t b) {
    return (a * 0x9e3779b1u ^ b * 0x85ebca6bu) * 0xc2b2ae35u >> 7;
}

/* Slots hold 1 + index of a group's sums, or 0. */
static bool grow_slots(struct descent *d) {
    ct_voxel_pair *pair = d->pair;
    const uint32_t n = pair->n_slots ? 2 * pair->n_slots : 64;
    if (!ct_buffer_reserve(&pair->slots, d->budget, n * sizeof(uint32_t), 0, false)) return false;
    pair->n_slots = n;
    uint32_t *slots = pair->slots.data;
    memset(slots, 0, n * sizeof *slots);
    const ct_voxel_group_sums *groups = pair->next.groups.data;
    for (uint32_t g = 0; g < pair->next.n_groups; g++) {
        uint32_t at = hash_of(groups[g].group[0], groups[g].group[1]) & (n - 1);
        while (slots[at]) at = (at + 1) & (n - 1);
        slots[at] = g + 1;
    }
    return true;
}

/* Room for one more at the end of a buffer of n. NULL: out of memory. */
static ct_voxel_group_sums *append_sums(struct descent *d, ct_buffer *buffer, size_t n) {
    const size_t size = sizeof(ct_voxel_group_sums);
    if ((n + 1) * size > buffer->capacity && !ct_buffer_reserve(buffer, d->budget, 2 * (n + 8) * size, n * size, false))
        return NULL;
    return (ct_voxel_group_sums *)buffer->data + n;
}

/* Gives a pair of groups sums of 0. NULL: out of memory. */
static ct_voxel_group_sums *add_sums(struct descent *d, uint32_t a, uint32_t b) {
    ct_voxel_pair *pair = d->pair;
    ct_voxel_answer *next = &pair->next;
    if (4 * (next->n_groups + 1) > 3 * pair->n_slots && !grow_slots(d)) return NULL;
    uint32_t *slots = pair->slots.data, at = hash_of(a, b) & (pair->n_slots - 1);
    while (slots[at]) at = (at + 1) & (pair->n_slots - 1);
    ct_voxel_group_sums *sums = append_sums(d, &next->groups, next->n_groups);
    if (!sums) return NULL;
    *sums = (ct_voxel_group_sums){.group = {a, b}};
    slots[at] = ++next->n_groups;
    return sums;
}

/* The sums of a pair of groups. NULL: out of memory. */
static inline ct_voxel_group_sums *sums_of(struct descent *d, uint32_t a, uint32_t b) {
    const ct_voxel_pair *pair = d->pair;
    const uint32_t *slots = pair->slots.data, mask = pair->n_slots - 1;
    ct_voxel_group_sums *groups = pair->next.groups.data;
    for (uint32_t at = hash_of(a, b) & mask; pair->n_slots && slots[at]; at = (at + 1) & mask) {
        ct_voxel_group_sums *sums = groups + (slots[at] - 1);
        if (sums->group[0] == a && sums->group[1] == b) return sums;
    }
    return add_sums(d, a, b);
}

/* A vector at any address of an integer. */
typedef int64_t unaligned_v4l __attribute__((vector_size(32), aligned(8), may_alias));

static void add_rows(ct_voxel_group_sums *to, const ct_v4l sums[8], uint32_t n) {
    unaligned_v4l *rows = (unaligned_v4l *)(void *)to->normal;
    rows[0] += ct_v4l_sum_rows(sums);
    rows[1] += ct_v4l_sum_rows(sums + 4);
    to->n += n;
}

static void flush_lanes(struct descent *d, uint32_t group, struct group_lanes *lanes) {
    if (!lanes->n) return;
    ct_voxel_group_sums *sums = sums_of(d, group, lanes->group);
    if (sums)
        add_rows(sums, lanes->sums, lanes->n);
    else
        d->has_failed = true;
    lanes->n = 0;
}

/* ---- contact primitives ---- */

/* Occupancy and area vector of four cubes, one in each lane. */
static void load_nodes(const ct_voxel *const node[4], ct_v4d *occupancy, ct_v4d area[3]) {
    ct_v4f row[4];
    for (int i = 0; i < 4; i++) memcpy(&row[i], &node[i]->occupancy, sizeof row[i]); /* area follows it */
    const ct_v4f a = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5),
                 b = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5),
                 c = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7),
                 e = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
    *occupancy = ct_v4d_of_v4f(__builtin_shufflevector(a, b, 0, 1, 4, 5));
    area[0] = ct_v4d_of_v4f(__builtin_shufflevector(a, b, 2, 3, 6, 7));
    area[1] = ct_v4d_of_v4f(__builtin_shufflevector(c, e, 0, 1, 4, 5));
    area[2] = ct_v4d_of_v4f(__builtin_shufflevector(c, e, 2, 3, 6, 7));
}

/* Integers in the lower halves of lanes; the upper halves are of no use. */
static ct_v4l round_low(ct_v4d x) {
    return (ct_v4l)(x + CT_ROUND_MAGIC);
}

static ct_v4l bits_to_lanes(uint32_t bits) {
    const ct_v4l bit = {1, 2, 4, 8};
    return ((int64_t)bits & bit) != 0;
}

/* Products of four primitives: those with weight w count; the probabilities are in the lower halves. */
static void weigh(const ct_voxel_met *met, ct_v4l w, ct_v4l probability, ct_v4l product[8]) {
    const ct_v4l one = {1, 1, 1, 1};
    for (int k = 0; k < 3; k++) {
        product[k] = ct_v4l_multiply_low(round_low(met->normal[k]), w);
        product[4 + k] = ct_v4l_multiply_low(round_low(met->point[k]), w);
    }
    product[3] = ct_v4l_multiply_low(probability, one);
    product[7] = ct_v4l_multiply_low(round_low(met->depth), probability);
}

static bool keep_primitives(struct descent *d, uint32_t group, const ct_voxel *const node[4], uint32_t bits,
                            const ct_v4l product[8]) {
    ct_voxel_answer *next = &d->pair->next;
    for (; bits; bits &= bits - 1) {
        const ct_v4l lane = bits_to_lanes(bits & -bits);
        ct_voxel_group_sums *to = append_sums(d, &next->primitives, next->n_primitives);
        if (!to) return false;
        next->n_primitives++;
        *to = (ct_voxel_group_sums){.group = {group, node[ct_voxel_lowest_bit(bits)]->group}};
        ct_v4l only[8];
        for (int k = 0; k < 8; k++) only[k] = product[k] & lane;
        add_rows(to, only, 1);
    }
    return true;
}

/* Bits of the lanes that are not 0, and all bits where they are. */
static uint32_t lanes_to_bits(ct_v4l mask) {
#ifdef __AVX2__
    return (uint32_t)_mm256_movemask_pd((__m256d)mask);
#else
    return (uint32_t)((mask[0] & 1) | (mask[1] & 2) | (mask[2] & 4) | (mask[3] & 8));
#endif
}

static void add_to_groups(struct descent *d, uint32_t group, const ct_voxel *const node[4], uint32_t bits,
                          const ct_v4l product[8], struct group_lanes *lanes) {
    while (bits) {
        const uint32_t other = node[ct_voxel_lowest_bit(bits)]->group;
        const ct_v4l groups = {node[0]->group, node[1]->group, node[2]->group, node[3]->group};
        const ct_v4l same = (groups == other) & bits_to_lanes(bits);
        const uint32_t mine = lanes_to_bits(same);
        bits &= ~mine;
        if (lanes->n && lanes->group == other) {
            for (int k = 0; k < 8; k++) lanes->sums[k] += product[k] & same;
        } else {
            flush_lanes(d, group, lanes);
            for (int k = 0; k < 8; k++) lanes->sums[k] = product[k] & same;
        }
        lanes->group = other;
        lanes->n += ct_voxel_count_bits(mine);
    }
}

/* Primitives of an open cube; node: NULL if it is full. */
static void add_primitives(struct descent *d, const ct_voxel *node, const ct_voxel_around *around) {
    const ct_v4d offset_x = {0, 1, 0, 1}, offset_y = {0, 0, 1, 1}, zero = {0};
    const ct_v4l one = {1 << CT_VOXEL_WEIGHT_BITS, 1 << CT_VOXEL_WEIGHT_BITS, 1 << CT_VOXEL_WEIGHT_BITS,
                        1 << CT_VOXEL_WEIGHT_BITS};
    const uint32_t group = node ? node->group : CT_VOXEL_INSIDE;
    const double occupancy = node ? (double)node->occupancy : 1;
    double facing[3];
    ct_voxel_find_facing(&d->g, node, facing);
    struct group_lanes lanes;
    lanes.n = 0;
    for (uint32_t half = 0; half < 8; half += 4) {
        const ct_voxel *const *others = around->node + half;
        const ct_v4d offset[3] = {offset_x, offset_y, half ? zero + 1 : zero};
        ct_v4d other_occupancy, other_area[3];
        load_nodes(others, &other_occupancy, other_area);
        ct_voxel_met met;
        ct_voxel_meet(&d->g, around, occupancy, facing, offset, other_occupancy, other_area, &met);
        const ct_v4l probability = round_low(met.probability) & 0xffffffff;
        uint32_t bits = lanes_to_bits(probability != 0);
        for (uint32_t i = 0; i < 4 && group == CT_VOXEL_INSIDE; i++)
            if (others[i]->group == CT_VOXEL_INSIDE) bits &= ~(1u << i); /* neither has a surface */
        if (!bits) continue;
        ct_v4l product[8];
        weigh(&met, d->g.has_plain_average ? one : probability, probability, product);
        if (d->pair->options.keeps_primitives && !keep_primitives(d, group, others, bits, product)) {
            d->has_failed = true;
            return;
        }
        add_to_groups(d, group, others, bits, product, &lanes);
    }
    flush_lanes(d, group, &lanes);
}

/* ---- levels ---- */

static bool keep_open(struct descent *d, const uint8_t at[3], bool is_boundary) {
    ct_voxel_answer *next = &d->pair->next;
    const size_t size = sizeof(ct_voxel_open), n = next->n_open;
    if ((n + 1) * size > next->open.capacity &&
        !ct_buffer_reserve(&next->open, d->budget, 2 * (n + 32) * size, n * size, false))
        return false;
    ct_voxel_open *to = (ct_voxel_open *)next->open.data + next->n_open++;
    *to = (ct_voxel_open){.at = {at[0], at[1], at[2]}, .is_boundary = is_boundary};
    d->pair->open.n_children += ct_voxel_count_children(&d->g, to);
    return true;
}

/* A cube of the driver; node: NULL if it is full and no boundary node. */
static void test_cube(struct descent *d, const uint8_t at[3], const ct_voxel *node) {
    const double center[3] = {at[0] + 0.5, at[1] + 0.5, at[2] + 0.5};
    double u[4];
    ct_voxel_place(&d->g, center, u);
    ct_voxel_around around;
    switch (ct_voxel_test(&d->g, u, &around)) {
    case CT_VOXEL_IS_EMPTY:
        return;
    case CT_VOXEL_IS_FULL:
        ct_voxel_add_settled(&d->g, node, center, &d->pair->settled);
        return;
    case CT_VOXEL_IS_OPEN:
        if (!keep_open(d, at, node != NULL)) d->has_failed = true;
        ct_voxel_add_open(&d->g, node, center, &around, &d->pair->open);
        if (d->g.finds_points && d->g.finds_estimates) add_primitives(d, node, &around);
    }
}

static void test_children(struct descent *d, const ct_voxel_open *parent) {
    const ct_voxel_brick *brick;
    for (uint64_t bits = ct_voxel_children(&d->g.a, parent, &brick); bits; bits &= bits - 1) {
        const uint32_t bit = ct_voxel_lowest_bit(bits);
        uint8_t at[3];
        ct_voxel_child_at(parent, bit, at);
        test_cube(d, at, brick->boundary >> bit & 1 ? ct_voxel_node(&d->g.a, brick, bit) : NULL);
    }
}

static ct_voxel_descent descend(ct_voxel_pair *pair, double deadline, ct_budget *budget) {
    struct descent d = {.pair = pair, .budget = budget};
    ct_voxel_begin_level(pair, &d.g);
    if (!pair->answer.is_examined) {
        bool is_full;
        test_cube(&d, (const uint8_t[3]){0}, ct_voxel_find(&d.g.a, 0, 0, 0, &is_full));
    }
    const ct_voxel_open *open = pair->answer.open.data;
    uint32_t tests = 0;
    for (uint32_t i = 0; i < pair->answer.n_open && !d.has_failed; i++) {
        test_children(&d, &open[i]);
        tests += 8;
        if (deadline <= 0 || tests < CLOCK_PERIOD) continue;
        tests = 0;
        if (ct_now() > deadline) return CT_VOXEL_LATE;
    }
    if (d.has_failed) return CT_VOXEL_NO_MEMORY;
    ct_voxel_complete_level(pair, &d.g);
    return CT_VOXEL_DONE;
}

const ct_voxel_cpu CT_VARIANT(ct_voxel_cpu) = {descend};
