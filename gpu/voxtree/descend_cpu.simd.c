/* descend_cpu.simd.c - compares two voxel trees on one level. */
#include <math.h>
#include <string.h>

#include "gpu/base/clock.h"
#include "gpu/base/simd.h"
#include "gpu/voxtree/descend_cpu.h"

/* Cubes between two looks at the clock: a few microseconds. */
enum { CLOCK_PERIOD = 64 };

/* Of a settled cube: errors of occupancies, its own and those of up to eight full cubes around it. */
static const double SETTLED_ERROR = 10 * CT_VOXEL_ERROR;

/* A level of a pair while it is computed. */
struct descent {
    ct_voxel_pair *pair;
    ct_budget *budget;
    const ct_voxel_level *a, *b; /* the driver's, the other's */
    double step[3][3];           /* step[k]: along the driver's axis k by a cube, in the other's cubes */
    double corner[3];            /* the driver's root corner there */
    double reach[3];             /* half of the box of a cube of the driver there */
    double volume, face;         /* m^3, m^2 of a cube of the driver */
    double radii, scale;         /* (R_a + R_b) and 2 min(R_a, R_b), in the other's cubes */
    uint32_t last_level;         /* of the driver's tree */
    bool has_failed;
};

/* ---- the other body's cubes ---- */

/* floor, for numbers whose floor fits an int. */
static int floor_of(double x) {
    const int i = (int)x;
    return i - (x < i);
}

typedef enum status { EMPTY, FULL, OPEN } status;

/* Bits of a brick from lo to hi along each axis. */
static uint64_t bits_between(const int lo[3], const int hi[3]) {
    const uint64_t x = (0xfu >> (3 - hi[0])) & (0xfu << lo[0]);
    const uint64_t y = (0xffffu >> 4 * (3 - hi[1])) & (0xffffu << 4 * lo[1]);
    const uint64_t z = (~(uint64_t)0 >> 16 * (3 - hi[2])) & (~(uint64_t)0 << 16 * lo[2]);
    return x * 0x1111111111111111u & y * 0x0001000100010001u & z;
}

/* What the other's cubes are that the box around u reaches. */
static status classify(const struct descent *d, const double u[3]) {
    const ct_voxel_level *level = d->b;
    const int last = (int)level->n - 1;
    int lo[3], hi[3];
    bool is_outside = false;
    for (int k = 0; k < 3; k++) {
        if (!(u[k] + d->reach[k] >= 0 && u[k] - d->reach[k] <= level->n)) return EMPTY;
        lo[k] = floor_of(u[k] - d->reach[k]);
        hi[k] = floor_of(u[k] + d->reach[k]);
        if (lo[k] < 0 || hi[k] > last) is_outside = true;
        if (lo[k] < 0) lo[k] = 0;
        if (lo[k] > last) lo[k] = last;
        if (hi[k] > last) hi[k] = last;
    }
    bool has_full = false, has_empty = is_outside;
    for (int z = lo[2] >> 2; z <= hi[2] >> 2; z++)
        for (int y = lo[1] >> 2; y <= hi[1] >> 2; y++)
            for (int x = lo[0] >> 2; x <= hi[0] >> 2; x++) {
                const int brick[3] = {x, y, z};
                int from[3], to[3];
                for (int k = 0; k < 3; k++) {
                    from[k] = lo[k] - 4 * brick[k] > 0 ? lo[k] - 4 * brick[k] : 0;
                    to[k] = hi[k] - 4 * brick[k] < 3 ? hi[k] - 4 * brick[k] : 3;
                }
                const ct_voxel_brick *at =
                    &level->bricks[((size_t)z * level->n_bricks + (size_t)y) * level->n_bricks + (size_t)x];
                const uint64_t bits = bits_between(from, to), full = at->full & bits;
                if (at->boundary & ~at->full & bits) return OPEN;
                has_full = has_full || full;
                has_empty = has_empty || full != bits;
                if (has_full && has_empty) return OPEN;
            }
    return has_full ? FULL : EMPTY;
}

/* The other's cubes whose centres surround u. Bit 0 of an index is along x, bit 1 along y, bit 2 along z. */
struct around {
    int base[3];         /* the first cube */
    double from[3];      /* u from its centre, 0..1 */
    double occupancy[8]; /* 0 of empty cubes */
    const ct_voxel *node[8];
    uint32_t present, boundary; /* bits of those that are not empty, that have a node */
};

/* The eight cubes of a brick that lie together, from the lowest bit on. */
static const uint64_t OCTANT = 0x330033;

static void add_cube(const ct_voxel_level *level, const ct_voxel_brick *brick, uint32_t bit, int i,
                     struct around *out) {
    if (brick->boundary >> bit & 1) {
        out->node[i] = ct_voxel_node(level, brick, bit);
        out->occupancy[i] = (double)out->node[i]->occupancy;
        out->boundary |= 1u << i;
    } else if (brick->full >> bit & 1) {
        out->occupancy[i] = 1;
    } else {
        return;
    }
    out->present |= 1u << i;
}

/* Finds the cubes around u. False: they are those that *out has; only `from` is new. */
static void look_around(const struct descent *d, const double u[3], struct around *out, bool is_first) {
    const ct_voxel_level *level = d->b;
    int base[3];
    bool is_known = !is_first;
    for (int k = 0; k < 3; k++) {
        base[k] = floor_of(u[k] - 0.5);
        out->from[k] = u[k] - 0.5 - base[k];
        is_known = is_known && base[k] == out->base[k];
    }
    if (is_known) return;
    out->present = out->boundary = 0;
    for (int k = 0; k < 3; k++) out->base[k] = base[k];
    for (int i = 0; i < 8; i++) {
        out->occupancy[i] = 0;
        out->node[i] = NULL;
    }
    const uint32_t x = (uint32_t)base[0], y = (uint32_t)base[1], z = (uint32_t)base[2], last = level->n - 1;
    if (x < last && y < last && z < last && (x & 3) < 3 && (y & 3) < 3 && (z & 3) < 3) { /* all in one brick */
        const ct_voxel_brick *brick = ct_voxel_brick_at(level, x, y, z);
        const uint32_t bit = ct_voxel_bit(x, y, z);
        for (uint64_t bits = (brick->full | brick->boundary) & OCTANT << bit; bits; bits &= bits - 1) {
            const uint32_t at = (uint32_t)__builtin_ctzll(bits), off = at - bit;
            add_cube(level, brick, at, (int)(off >> 4 << 2 | (off >> 1 & 2) | (off & 1)), out);
        }
        return;
    }
    for (int i = 0; i < 8; i++) {
        const uint32_t p = x + (i & 1), q = y + (i >> 1 & 1), r = z + (uint32_t)(i >> 2);
        if (p >= level->n || q >= level->n || r >= level->n) continue;
        add_cube(level, ct_voxel_brick_at(level, p, q, r), ct_voxel_bit(p, q, r), i, out);
    }
}

/* Trilinear interpolation between the cubes' centres. */
static double interpolate(const struct around *around) {
    const double x = around->from[0], y = around->from[1], z = around->from[2];
    const ct_v4d across = {(1 - x) * (1 - y), x * (1 - y), (1 - x) * y, x * y};
    ct_v4d low, high;
    memcpy(&low, around->occupancy, sizeof low);
    memcpy(&high, around->occupancy + 4, sizeof high);
    const ct_v4d sum = across * low * (1 - z) + across * high * z;
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* ---- contact primitives ---- */

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

/* The sums of a pair of groups. NULL: out of memory. */
static ct_voxel_group_sums *sums_of(struct descent *d, uint32_t a, uint32_t b) {
    ct_voxel_pair *pair = d->pair;
    ct_voxel_answer *next = &pair->next;
    if (4 * (next->n_groups + 1) > 3 * pair->n_slots && !grow_slots(d)) return NULL;
    uint32_t *slots = pair->slots.data;
    uint32_t at = hash_of(a, b) & (pair->n_slots - 1);
    for (; slots[at]; at = (at + 1) & (pair->n_slots - 1)) {
        ct_voxel_group_sums *sums = (ct_voxel_group_sums *)next->groups.data + (slots[at] - 1);
        if (sums->group[0] == a && sums->group[1] == b) return sums;
    }
    const size_t size = sizeof(ct_voxel_group_sums), n = next->n_groups;
    if ((n + 1) * size > next->groups.capacity &&
        !ct_buffer_reserve(&next->groups, d->budget, 2 * (n + 8) * size, n * size, false))
        return NULL;
    ct_voxel_group_sums *sums = (ct_voxel_group_sums *)next->groups.data + next->n_groups++;
    *sums = (ct_voxel_group_sums){.group = {a, b}};
    slots[at] = next->n_groups;
    return sums;
}

/* A vector at any address of a double. */
typedef double unaligned_v4d __attribute__((vector_size(32), aligned(8), may_alias));

/* False: out of memory. */
static bool keep_primitive(struct descent *d, const ct_v4d *normal, const ct_v4d *point, double probability,
                           const uint32_t group[2]) {
    ct_voxel_answer *next = &d->pair->next;
    const size_t size = sizeof(ct_voxel_primitive), n = next->n_primitives;
    if ((n + 1) * size > next->primitives.capacity &&
        !ct_buffer_reserve(&next->primitives, d->budget, 2 * (n + 32) * size, n * size, false))
        return false;
    ct_voxel_primitive *to = (ct_voxel_primitive *)next->primitives.data + next->n_primitives++;
    *to = (ct_voxel_primitive){.depth = (*point)[3], .probability = probability, .group = {group[0], group[1]}};
    for (int k = 0; k < 3; k++) {
        to->normal[k] = (*normal)[k];
        to->point[k] = (*point)[k];
    }
    return true;
}

/* Primitives of an open cube; node: NULL if it is full. */
static void add_primitives(struct descent *d, const ct_voxel *node, double occupancy, const struct around *around) {
    const double *turn = d->pair->turn;
    const double side = d->b->size, ratio = d->a->size / d->b->size, along = ratio / (1 + ratio);
    const bool has_center_normals = d->pair->options.center_normals;
    ct_v4d facing = {0}; /* the driver's area vector, in faces of the other's cubes */
    for (int k = 0; node && k < 3; k++)
        for (int j = 0; j < 3; j++) facing[k] += turn[3 * k + j] * (double)node->area[j] * ratio * ratio;
    ct_v4d u = {0}; /* the cube's centre */
    for (int k = 0; k < 3; k++) u[k] = around->base[k] + 0.5 + around->from[k];
    uint32_t last_group = UINT32_MAX;
    ct_voxel_group_sums *sums = NULL;
    for (uint32_t left = node ? around->present : around->boundary; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        const ct_voxel *other = around->node[i];
        /* From the other's centre to the driver's. */
        const ct_v4d line = {around->from[0] - (i & 1), around->from[1] - (i >> 1 & 1), around->from[2] - (i >> 2), 0};
        const double square = line[0] * line[0] + line[1] * line[1] + line[2] * line[2];
        if (!(square < d->radii * d->radii)) continue;
        const double distance = sqrt(square), overlap = d->radii - distance; /* d_K, equation 4 */
        const double kappa = overlap < d->scale ? overlap / d->scale : 1;    /* equation 5 */
        const double probability = kappa * occupancy * around->occupancy[i]; /* equation 1 */
        ct_v4d normal = line;
        double length = distance;
        if (!has_center_normals || !(distance > 0)) { /* two centres in one place have no line */
            normal = -facing;
            for (int k = 0; other && k < 3; k++) normal[k] += (double)other->area[k];
            length = sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2]);
        }
        if (!(probability > 0) || !(length > 0)) continue;
        const uint32_t group = other ? other->group : CT_VOXEL_INSIDE;
        if (group != last_group) sums = sums_of(d, node ? node->group : CT_VOXEL_INSIDE, group);
        last_group = group;
        if (!sums) {
            d->has_failed = true;
            return;
        }
        normal = normal * (1 / length);
        normal[3] = 1;
        ct_v4d point = (u - line * along) * side;
        point[3] = overlap * side;
        if (d->pair->options.keeps_primitives &&
            !keep_primitive(d, &normal, &point, probability, (const uint32_t[2]){sums->group[0], sums->group[1]})) {
            d->has_failed = true;
            return;
        }
        unaligned_v4d *rows = (unaligned_v4d *)(void *)sums->weighted_normal;
        rows[0] += normal * probability;
        rows[1] += point * probability;
        rows[2] += normal;
        rows[3] += point;
    }
}

/* ---- sums ---- */

/* Position of a point of a cube, in cubes of the driver, and there in the other's. */
static void place(const struct descent *d, const double at[3], double u[3]) {
    for (int k = 0; k < 3; k++)
        u[k] = d->corner[k] + at[0] * d->step[0][k] + at[1] * d->step[1][k] + at[2] * d->step[2][k];
}

static void add_volume(const struct descent *d, double volume, const double at[3], ct_voxel_sums *sums) {
    sums->estimate += volume;
    for (int k = 0; k < 3; k++) sums->center[k] += volume * (d->pair->tree[0]->origin[k] + at[k] * d->a->size);
}

static void find_surface_center(const ct_voxel *node, double at[3]) {
    for (int k = 0; k < 3; k++) at[k] = node->at[k] + (node->center[k] + 0.5) / 256;
}

static void add_surface(const struct descent *d, const ct_voxel *node, const double at[3], double weight,
                        ct_voxel_sums *sums) {
    double g[3], p[3];
    for (int k = 0; k < 3; k++) {
        g[k] = weight * d->face * (double)node->area[k];
        p[k] = d->pair->tree[0]->origin[k] + at[k] * d->a->size;
        sums->gradient[k] += g[k];
    }
    sums->moment[0] += p[1] * g[2] - p[2] * g[1];
    sums->moment[1] += p[2] * g[0] - p[0] * g[2];
    sums->moment[2] += p[0] * g[1] - p[1] * g[0];
}

/* The whole cube counts. */
static void add_settled(const struct descent *d, const ct_voxel *node, const double center[3]) {
    ct_voxel_sums *sums = &d->pair->next.settled;
    const double occupancy = node ? (double)node->occupancy : 1;
    const bool is_doubtful = node && d->pair->tree[0]->overlaps_itself;
    sums->lower += is_doubtful ? 0 : (occupancy - SETTLED_ERROR) * d->volume;
    sums->upper += is_doubtful ? d->volume : (occupancy + SETTLED_ERROR) * d->volume;
    add_volume(d, occupancy * d->volume, center, sums);
    if (!node) return;
    double at[3];
    find_surface_center(node, at);
    add_surface(d, node, at, 1, sums);
}

static void add_open(struct descent *d, const ct_voxel *node, const double center[3], const double u[3]) {
    ct_voxel_pair *pair = d->pair;
    ct_voxel_sums *sums = &pair->next.all; /* of open cubes only, until the level is complete */
    const double occupancy = node ? (double)node->occupancy : 1;
    sums->upper += (node && pair->tree[0]->overlaps_itself ? 1 : occupancy + CT_VOXEL_ERROR) * d->volume;
    /* A cube larger than the other's root covers it. */
    const double part = fmin(1, 1 / (d->a->size / d->b->size));
    if (!pair->options.every_level && pair->next.level[0] < d->last_level) return;
    struct around around;
    look_around(d, u, &around, true);
    add_volume(d, interpolate(&around) * part * part * part * occupancy * d->volume, center, sums);
    if (pair->options.wants_points) add_primitives(d, node, occupancy, &around);
    if (!node) return;
    double at[3], v[3];
    find_surface_center(node, at);
    place(d, at, v);
    look_around(d, v, &around, false);
    add_surface(d, node, at, interpolate(&around), sums);
}

/* ---- levels ---- */

static bool keep_open(struct descent *d, const uint8_t at[3], bool is_boundary) {
    ct_voxel_answer *next = &d->pair->next;
    const size_t size = sizeof(ct_voxel_open), n = next->n_open;
    if ((n + 1) * size > next->open.capacity &&
        !ct_buffer_reserve(&next->open, d->budget, 2 * (n + 32) * size, n * size, false))
        return false;
    ((ct_voxel_open *)next->open.data)[next->n_open++] =
        (ct_voxel_open){.at = {at[0], at[1], at[2]}, .is_boundary = is_boundary};
    if (next->level[0] == d->pair->tree[0]->finest) return true;
    if (!is_boundary) {
        next->n_children += 8;
        return true;
    }
    const ct_voxel_level *finer = d->a + 1;
    const ct_voxel_brick *brick = ct_voxel_brick_at(finer, 2u * at[0], 2u * at[1], 2u * at[2]);
    const uint32_t bit = ct_voxel_bit(2u * at[0], 2u * at[1], 2u * at[2]);
    next->n_children += (uint32_t)__builtin_popcountll((brick->full | brick->boundary) >> bit & OCTANT);
    return true;
}

/* A cube of the driver; node: NULL if it is full and no boundary node. */
static void test_cube(struct descent *d, const uint8_t at[3], const ct_voxel *node) {
    const double center[3] = {at[0] + 0.5, at[1] + 0.5, at[2] + 0.5};
    double u[3];
    place(d, center, u);
    switch (classify(d, u)) {
    case EMPTY:
        return;
    case FULL:
        add_settled(d, node, center);
        return;
    case OPEN:
        if (!keep_open(d, at, node != NULL)) d->has_failed = true;
        add_open(d, node, center, u);
    }
}

static void test_children(struct descent *d, const ct_voxel_open *parent) {
    const uint32_t base[3] = {2u * parent->at[0], 2u * parent->at[1], 2u * parent->at[2]};
    const ct_voxel_brick *brick = ct_voxel_brick_at(d->a, base[0], base[1], base[2]);
    const uint32_t first = ct_voxel_bit(base[0], base[1], base[2]);
    uint64_t bits = OCTANT << first;
    if (parent->is_boundary) bits &= brick->full | brick->boundary;
    for (; bits; bits &= bits - 1) {
        const uint32_t bit = (uint32_t)__builtin_ctzll(bits);
        const uint8_t at[3] = {(uint8_t)((base[0] & ~3u) | (bit & 3)), (uint8_t)((base[1] & ~3u) | (bit >> 2 & 3)),
                               (uint8_t)((base[2] & ~3u) | bit >> 4)};
        test_cube(d, at, brick->boundary >> bit & 1 ? ct_voxel_node(d->a, brick, bit) : NULL);
    }
}

static void begin_level(struct descent *d, ct_voxel_pair *pair, uint32_t level) {
    const ct_voxel_tree *a = pair->tree[0], *b = pair->tree[1];
    ct_voxel_answer *next = &pair->next;
    uint32_t other = 0;
    while (other < ct_voxel_stop_level(pair, 1) && b->level[other + 1].size >= a->level[level].size * (1 - 1e-9))
        other++;
    d->a = &a->level[level];
    d->b = &b->level[other];
    const double ratio = d->a->size / d->b->size;
    for (int k = 0; k < 3; k++) {
        double corner = pair->shift[k] - b->origin[k], reach = 0;
        for (int j = 0; j < 3; j++) {
            corner += pair->turn[3 * k + j] * a->origin[j];
            d->step[j][k] = pair->turn[3 * k + j] * ratio;
            reach += fabs(d->step[j][k]);
        }
        d->corner[k] = corner / d->b->size;
        d->reach[k] = 0.5 * reach * (1 + 1e-9) + 1e-9; /* and rounding */
    }
    d->volume = d->a->size * d->a->size * d->a->size;
    d->face = d->a->size * d->a->size;
    d->radii = 0.5 * (ratio + 1);
    d->scale = fmin(ratio, 1);
    d->last_level = ct_voxel_stop_level(pair, 0);
    const ct_buffer open = next->open, groups = next->groups, primitives = next->primitives;
    *next = (ct_voxel_answer){.is_examined = true,
                              .settled = pair->answer.settled,
                              .level = {level, other},
                              .cube = {d->a->size, d->b->size},
                              .open = open,
                              .groups = groups,
                              .primitives = primitives};
    if (pair->n_slots) memset(pair->slots.data, 0, pair->n_slots * sizeof(uint32_t));
}

static double total_volume(const ct_voxel_tree *tree) {
    const ct_voxel_level *root = &tree->level[0];
    const double occupancy = tree->overlaps_itself || !root->n_nodes ? 1 : (double)root->nodes[0].occupancy;
    return (occupancy + CT_VOXEL_ERROR) * tree->side * tree->side * tree->side;
}

/* Makes the level's answer from its settled and open cubes, and lets it take the place of the one before. */
static void complete_level(ct_voxel_pair *pair) {
    ct_voxel_sums *all = &pair->next.all;
    const ct_voxel_sums *settled = &pair->next.settled;
    const double most =
        fmin(total_volume(pair->tree[0]), total_volume(pair->tree[1]) * pair->scale[1] / pair->scale[0]);
    all->lower = fmax(settled->lower, 0);
    all->upper = fmin(all->upper + settled->upper, most);
    all->upper = fmax(all->upper, all->lower);
    all->estimate += settled->estimate;
    for (int k = 0; k < 3; k++) {
        all->gradient[k] += settled->gradient[k];
        all->moment[k] += settled->moment[k];
        all->center[k] += settled->center[k];
    }
    /* An interval found once holds. */
    if (pair->answer.is_examined) {
        all->lower = fmax(all->lower, pair->answer.all.lower);
        all->upper = fmin(all->upper, pair->answer.all.upper);
    }
    const ct_voxel_answer before = pair->answer;
    pair->answer = pair->next;
    pair->next = before;
}

static ct_voxel_descent descend(ct_voxel_pair *pair, double deadline, ct_budget *budget) {
    struct descent d = {.pair = pair, .budget = budget};
    const bool is_first = !pair->answer.is_examined;
    begin_level(&d, pair, is_first ? 0 : pair->answer.level[0] + 1);
    if (is_first) {
        bool is_full;
        test_cube(&d, (const uint8_t[3]){0}, ct_voxel_find(d.a, 0, 0, 0, &is_full));
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
    pair->n_tests += pair->answer.n_children;
    complete_level(pair);
    return CT_VOXEL_DONE;
}

const ct_voxel_cpu CT_VARIANT(ct_voxel_cpu) = {descend};
