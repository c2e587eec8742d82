/* pair.c - what a pair of voxel trees is before and between levels, and its table of groups. */
#include "gpu/methods/voxtree/pair.h"

#include <math.h>
#include <string.h>

#include "gpu/base/cancel.h"

/* ---- the table of groups ---- */

enum { FIRST_SLOTS = 64 };

/* Keeps the memory. */
static void clear_groups(ct_voxel_group_table *table) {
    table->n = 0;
    if (table->n_slots) memset(table->slots.data, 0, table->n_slots * sizeof(uint32_t));
}

static void free_groups(ct_voxel_group_table *table, ct_budget *budget) {
    ct_buffer_free(&table->sums, budget);
    ct_buffer_free(&table->slots, budget);
    table->n = table->n_slots = 0;
}

ct_voxel_group_sums *ct_voxel_append_sums(ct_buffer *buffer, ct_budget *budget, size_t n) {
    const size_t size = sizeof(ct_voxel_group_sums);
    if ((n + 1) * size > buffer->capacity && !ct_buffer_reserve(buffer, budget, 2 * (n + 8) * size, n * size, false))
        return NULL;
    return (ct_voxel_group_sums *)buffer->data + n;
}

static void enter(ct_voxel_group_table *table, uint32_t index) {
    const ct_voxel_group_sums *sums = (const ct_voxel_group_sums *)table->sums.data + index;
    uint32_t *slots = table->slots.data, mask = table->n_slots - 1;
    uint32_t at = ct_voxel_hash_groups(sums->group[0], sums->group[1]) & mask;
    while (slots[at]) at = (at + 1) & mask;
    slots[at] = index + 1;
}

static bool grow_slots(ct_voxel_group_table *table, ct_budget *budget) {
    const uint32_t n = table->n_slots ? 2 * table->n_slots : FIRST_SLOTS;
    if (!ct_buffer_reserve(&table->slots, budget, n * sizeof(uint32_t), 0, false)) return false;
    table->n_slots = n;
    memset(table->slots.data, 0, n * sizeof(uint32_t));
    for (uint32_t i = 0; i < table->n; i++) {
        if (CT_POLL_EVERY(i + 1, 4096) && ct_is_cancelled()) return false; /* the pair ends with it */
        enter(table, i);
    }
    return true;
}

ct_voxel_group_sums *ct_voxel_add_group(ct_voxel_group_table *table, ct_budget *budget, uint32_t a, uint32_t b) {
    if (4 * (table->n + 1) > table->n_slots && !grow_slots(table, budget)) return NULL;
    ct_voxel_group_sums *sums = ct_voxel_append_sums(&table->sums, budget, table->n);
    if (!sums) return NULL;
    *sums = (ct_voxel_group_sums){.group = {a, b}};
    enter(table, table->n++);
    return sums;
}

/* ---- a pair ---- */

/* Of a settled cube: errors of occupancies, its own and those of up to eight full cubes around it. */
static const double SETTLED_ERROR = 10 * CT_VOXEL_ERROR;

/* The inverse of a pose's rotation, which is one to 1e-3 only. Returns its determinant. */
static double invert(const double pose[12], double out[9]) {
    double det = 0;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            const int a = (i + 1) % 3, b = (i + 2) % 3, c = (k + 1) % 3, d = (k + 2) % 3;
            out[3 * i + k] = pose[4 * c + a] * pose[4 * d + b] - pose[4 * c + b] * pose[4 * d + a];
        }
    for (int k = 0; k < 3; k++) det += pose[4 * k] * out[k];
    for (int i = 0; i < 9; i++) out[i] /= det;
    return det;
}

/* Keeps its memory. */
static void clear_answer(ct_voxel_answer *answer) {
    const ct_buffer open = answer->open, primitives = answer->primitives;
    const ct_voxel_group_table groups = answer->groups;
    *answer = (ct_voxel_answer){.open = open, .groups = groups, .primitives = primitives};
    clear_groups(&answer->groups);
}

/* Which of two bodies with equally fine cubes drives: by their trees, then by where they are, so that their order does
 * not matter. */
static int driver_of_equals(const ct_voxel_tree *const trees[2], const double *const poses[2]) {
    double of[2][18];
    for (int b = 0; b < 2; b++) {
        const ct_voxel_tree *tree = trees[b];
        const double shape[6] = {(double)tree->n_nodes, tree->side,      tree->origin[0],
                                 tree->origin[1],       tree->origin[2], tree->n_groups};
        memcpy(of[b], shape, sizeof shape);
        memcpy(of[b] + 6, poses[b], 12 * sizeof(double));
    }
    for (int i = 0; i < 18; i++)
        if (of[0][i] != of[1][i]) return of[1][i] < of[0][i];
    return 0;
}

void ct_voxel_pair_begin(ct_voxel_pair *pair, const ct_voxel_tree *const trees[2], const double *const poses[2],
                         const ct_voxel_options *options) {
    double finest[2];
    for (int b = 0; b < 2; b++) {
        const uint32_t level = options->level < trees[b]->finest ? options->level : trees[b]->finest;
        finest[b] = trees[b]->level[level].size;
    }
    pair->driver = finest[0] == finest[1] ? driver_of_equals(trees, poses) : finest[1] < finest[0];
    const double *p = poses[pair->driver], *q = poses[1 - pair->driver];
    pair->tree[0] = trees[pair->driver];
    pair->tree[1] = trees[1 - pair->driver];
    double inverse[9];
    pair->scale[0] = invert(p, inverse);
    pair->scale[1] = invert(q, inverse);
    for (int i = 0; i < 3; i++) {
        pair->shift[i] = 0;
        for (int k = 0; k < 3; k++) pair->shift[i] += inverse[3 * i + k] * (p[4 * k + 3] - q[4 * k + 3]);
        for (int j = 0; j < 3; j++) {
            pair->turn[3 * i + j] = 0;
            for (int k = 0; k < 3; k++) pair->turn[3 * i + j] += inverse[3 * i + k] * p[4 * k + j];
        }
    }
    pair->options = *options;
    pair->n_tests = 0;
    pair->most_area = 1;
    for (int b = 0; b < 2; b++)
        for (uint32_t l = 0; l <= trees[b]->finest; l++)
            pair->most_area = fmax(pair->most_area, (double)trees[b]->level[l].most_area);
    clear_answer(&pair->answer);
    pair->answer.n_children = 1;
    clear_groups(&pair->settled_groups);
}

/* The finest level that a side (0: the driver) is followed to. */
static uint32_t stop_level(const ct_voxel_pair *pair, int side) {
    const uint32_t finest = pair->tree[side]->finest;
    return pair->options.level < finest ? pair->options.level : finest;
}

bool ct_voxel_pair_can_descend(const ct_voxel_pair *pair) {
    if (!pair->answer.is_examined) return true;
    return pair->answer.n_open && pair->answer.level[0] < stop_level(pair, 0);
}

bool ct_voxel_pair_is_limited(const ct_voxel_pair *pair) {
    return pair->answer.is_examined && pair->answer.n_open && pair->answer.level[0] < pair->tree[0]->finest &&
           pair->answer.level[0] == pair->options.level;
}

uint64_t ct_voxel_pair_next_tests(const ct_voxel_pair *pair) {
    return pair->answer.n_children;
}

/* ---- levels ---- */

static void find_geometry(const ct_voxel_pair *pair, uint32_t level, uint32_t other, ct_voxel_geometry *g) {
    const ct_voxel_tree *a = pair->tree[0], *b = pair->tree[1];
    const bool is_plain = pair->options.plain_average;
    *g = (ct_voxel_geometry){.a = a->level[level],
                             .b = b->level[other],
                             .has_finer = level < a->finest,
                             .finds_estimates = pair->options.every_level || level == stop_level(pair, 0),
                             .finds_points = pair->options.wants_points,
                             .settles_points = pair->options.wants_points && !is_plain,
                             .has_center_normals = pair->options.center_normals,
                             .has_plain_average = pair->options.plain_average};
    if (g->has_finer) g->finer = a->level[level + 1];
    const double ratio = g->a.size / g->b.size, covered = fmin(1, 1 / ratio);
    for (int k = 0; k < 3; k++) {
        double corner = pair->shift[k] - b->origin[k], reach = 0;
        for (int j = 0; j < 3; j++) {
            corner += pair->turn[3 * k + j] * a->origin[j];
            g->step[j][k] = pair->turn[3 * k + j] * ratio;
            g->facing[3 * k + j] = pair->turn[3 * k + j] * (is_plain ? ratio * ratio : 1);
            reach += fabs(g->step[j][k]);
        }
        g->corner[k] = corner / g->b.size;
        g->reach[k] = 0.5 * reach * (1 + 1e-9) + 1e-9; /* and rounding */
    }
    g->other_facing = is_plain ? 1 : ratio;
    g->normal_steps = is_plain ? ldexp(1, CT_VOXEL_VECTOR_BITS) : ldexp(1, CT_VOXEL_NORMAL_BITS) / pair->most_area;
    g->cube = 1.0 / g->a.n;
    g->other_cube = 1.0 / g->b.n;
    g->part = covered * covered * covered;
    g->inverse_area = 1 / (double)g->a.most_area;
    g->radii = 0.5 * (ratio + 1);
    g->inverse_scale = 1 / fmin(ratio, 1);
    g->along = ratio / (1 + ratio);
}

/* A cube has eight on the next level, and a face four. */
static void refine_settled_groups(ct_voxel_pair *pair) {
    ct_voxel_group_sums *sums = pair->settled_groups.sums.data;
    for (uint32_t i = 0; i < pair->settled_groups.n; i++) {
        for (int k = 0; k < 3; k++) {
            sums[i].normal[k] *= 4;
            sums[i].point[k] *= 8;
        }
        sums[i].probability *= 8;
    }
}

void ct_voxel_begin_level(ct_voxel_pair *pair, ct_voxel_geometry *geometry) {
    const ct_voxel_tree *a = pair->tree[0], *b = pair->tree[1];
    ct_voxel_answer *next = &pair->next;
    const uint32_t level = pair->answer.is_examined ? pair->answer.level[0] + 1 : 0;
    uint32_t other = 0;
    while (other < stop_level(pair, 1) && b->level[other + 1].size >= a->level[level].size * (1 - 1e-9)) other++;
    find_geometry(pair, level, other, geometry);
    clear_answer(next);
    next->is_examined = true;
    next->settled = pair->answer.settled;
    next->level[0] = level;
    next->level[1] = other;
    next->cube[0] = geometry->a.size;
    next->cube[1] = geometry->b.size;
    pair->settled = pair->open = (ct_voxel_cube_sums){0};
    if (level > 0) refine_settled_groups(pair);
}

/* A settled boundary node meets full cubes, whose kappa with it add up to this on average: the integral of equation 5
 * over all places of a cube, in the other's cubes. */
static double mean_kappa(const ct_voxel_geometry *g) {
    static const double SIXTH_OF_PI = 0.52359877559829887;
    const double ratio = g->a.size / g->b.size;
    return SIXTH_OF_PI * (1 + ratio * ratio);
}

/* Adds the primitives of settled cubes to the level's. */
static bool add_settled_groups(ct_voxel_pair *pair, const ct_voxel_geometry *g, ct_budget *budget) {
    const ct_voxel_group_sums *settled = pair->settled_groups.sums.data;
    const double kappa = mean_kappa(g), depth = g->a.size / (0.5 * (g->a.size + g->b.size));
    for (uint32_t i = 0; i < pair->settled_groups.n; i++) {
        const ct_voxel_group_sums *from = &settled[i];
        ct_voxel_group_sums *to = ct_voxel_group(&pair->next.groups, budget, from->group[0], CT_VOXEL_INSIDE);
        if (!to) return false;
        for (int k = 0; k < 3; k++) {
            to->normal[k] += (int64_t)(kappa * (double)from->normal[k]);
            to->point[k] += (int64_t)(kappa * (double)from->point[k]);
        }
        to->probability += (int64_t)(kappa * (double)from->probability);
        to->depth += (int64_t)(kappa * depth * ldexp((double)from->probability, CT_VOXEL_VECTOR_BITS));
        to->n += from->n;
    }
    return true;
}

/* Adds sums of a level to those of all levels, but for lower and upper. */
static void add_sums(const ct_voxel_pair *pair, const ct_voxel_geometry *g, const ct_voxel_cube_sums *from,
                     ct_voxel_sums *to) {
    const double *origin = pair->tree[0]->origin, side = pair->tree[0]->side;
    const double step = ldexp(1, -CT_VOXEL_SUM_BITS), volume = step * g->a.size * g->a.size * g->a.size;
    const double area = step * g->a.size * g->a.size * (double)g->a.most_area;
    double force[3];
    /* sqrt(3) for all components together; the rest for their sums. */
    to->gradient_error += 2 * CT_VOXEL_ERROR * g->a.size * g->a.size * (double)g->a.most_area * (double)from->n_nodes;
    to->estimate += volume * (double)from->volume[0];
    for (int k = 0; k < 3; k++) {
        force[k] = area * (double)from->gradient[k];
        to->gradient[k] += force[k];
        to->center[k] += volume * (origin[k] * (double)from->volume[0] + side * (double)from->volume[1 + k]);
    }
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        to->moment[k] += side * area * (double)from->moment[k] + (origin[i] * force[j] - origin[j] * force[i]);
    }
}

/* Of all cubes, how much a cube may hold: an occupancy of a body that overlaps itself says nothing. */
static void add_interval(const ct_voxel_pair *pair, const ct_voxel_geometry *g, ct_voxel_answer *next) {
    const bool is_doubtful = pair->tree[0]->overlaps_itself;
    const double cube = g->a.size * g->a.size * g->a.size, step = ldexp(1, -CT_VOXEL_SUM_BITS);
    const ct_voxel_cube_sums *settled = &pair->settled, *open = &pair->open;
    const double error = SETTLED_ERROR * ((double)settled->n_full + (double)settled->n_nodes);
    const double full = (double)settled->n_full, nodes = step * (double)settled->gradient[3];
    next->settled.lower += cube * (is_doubtful ? full - error : full + nodes - error);
    next->settled.upper += cube * (full + (is_doubtful ? (double)settled->n_nodes : nodes) + error);
    const double most = is_doubtful ? (double)open->n_nodes : step * (double)open->gradient[3];
    next->all.upper = next->settled.upper + cube * ((double)open->n_full + most +
                                                    CT_VOXEL_ERROR * ((double)open->n_full + (double)open->n_nodes));
    next->all.lower = fmax(next->settled.lower, 0);
}

static double total_volume(const ct_voxel_tree *tree) {
    const ct_voxel_level *root = &tree->level[0];
    const double occupancy = tree->overlaps_itself || !root->n_nodes ? 1 : (double)root->nodes[0].occupancy;
    return (occupancy + CT_VOXEL_ERROR) * tree->side * tree->side * tree->side;
}

bool ct_voxel_complete_level(ct_voxel_pair *pair, const ct_voxel_geometry *geometry, ct_budget *budget) {
    ct_voxel_answer *next = &pair->next;
    if (geometry->settles_points && geometry->finds_estimates && !add_settled_groups(pair, geometry, budget))
        return false;
    next->n_open = (uint32_t)(pair->open.n_full + pair->open.n_nodes);
    next->n_children = (uint32_t)pair->open.n_children;
    add_sums(pair, geometry, &pair->settled, &next->settled);
    next->all = next->settled;
    add_sums(pair, geometry, &pair->open, &next->all);
    add_interval(pair, geometry, next);
    const double most =
        fmin(total_volume(pair->tree[0]), total_volume(pair->tree[1]) * pair->scale[1] / pair->scale[0]);
    next->all.upper = fmax(fmin(next->all.upper, most), next->all.lower);
    /* An interval found once holds. */
    if (pair->answer.is_examined) {
        next->all.lower = fmax(next->all.lower, pair->answer.all.lower);
        next->all.upper = fmin(next->all.upper, pair->answer.all.upper);
    }
    pair->n_tests += pair->answer.n_children;
    const ct_voxel_answer before = pair->answer;
    pair->answer = pair->next;
    pair->next = before;
    return true;
}

void ct_voxel_pair_free(ct_voxel_pair *pair, ct_budget *budget) {
    ct_buffer *buffers[] = {&pair->answer.primitives, &pair->next.primitives, &pair->answer.open, &pair->next.open};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) ct_buffer_free(buffers[i], budget);
    ct_voxel_group_table *tables[] = {&pair->answer.groups, &pair->next.groups, &pair->settled_groups};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) free_groups(tables[i], budget);
    *pair = (ct_voxel_pair){0};
}
