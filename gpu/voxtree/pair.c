/* pair.c - what a pair of voxel trees is before and between levels. */
#include "gpu/voxtree/pair.h"

#include <math.h>
#include <string.h>

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

void ct_voxel_pair_begin(ct_voxel_pair *pair, const ct_voxel_tree *const trees[2], const double *const poses[2],
                         const ct_voxel_options *options) {
    double finest[2];
    for (int b = 0; b < 2; b++) {
        const uint32_t level = options->level < trees[b]->finest ? options->level : trees[b]->finest;
        finest[b] = trees[b]->level[level].size;
    }
    pair->driver = finest[1] < finest[0];
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
    const ct_buffer open = pair->answer.open, groups = pair->answer.groups, primitives = pair->answer.primitives;
    pair->answer = (ct_voxel_answer){.open = open, .groups = groups, .primitives = primitives, .n_children = 1};
}

uint32_t ct_voxel_stop_level(const ct_voxel_pair *pair, int side) {
    const uint32_t finest = pair->tree[side]->finest;
    return pair->options.level < finest ? pair->options.level : finest;
}

bool ct_voxel_pair_can_descend(const ct_voxel_pair *pair) {
    if (!pair->answer.is_examined) return true;
    return pair->answer.n_open && pair->answer.level[0] < ct_voxel_stop_level(pair, 0);
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
    *g = (ct_voxel_geometry){.a = a->level[level],
                             .b = b->level[other],
                             .has_finer = level < a->finest,
                             .finds_estimates = pair->options.every_level || level == ct_voxel_stop_level(pair, 0),
                             .finds_points = pair->options.wants_points,
                             .has_center_normals = pair->options.center_normals,
                             .has_plain_average = pair->options.plain_average};
    if (g->has_finer) g->finer = a->level[level + 1];
    const double ratio = g->a.size / g->b.size, covered = fmin(1, 1 / ratio);
    for (int k = 0; k < 3; k++) {
        double corner = pair->shift[k] - b->origin[k], reach = 0;
        for (int j = 0; j < 3; j++) {
            corner += pair->turn[3 * k + j] * a->origin[j];
            g->step[j][k] = pair->turn[3 * k + j] * ratio;
            g->facing[3 * k + j] = pair->turn[3 * k + j] * ratio * ratio;
            reach += fabs(g->step[j][k]);
        }
        g->corner[k] = corner / g->b.size;
        g->reach[k] = 0.5 * reach * (1 + 1e-9) + 1e-9; /* and rounding */
    }
    g->cube = 1.0 / g->a.n;
    g->other_cube = 1.0 / g->b.n;
    g->part = covered * covered * covered;
    g->inverse_area = 1 / (double)g->a.most_area;
    g->radii = 0.5 * (ratio + 1);
    g->inverse_scale = 1 / fmin(ratio, 1);
    g->along = ratio / (1 + ratio);
}

void ct_voxel_begin_level(ct_voxel_pair *pair, ct_voxel_geometry *geometry) {
    const ct_voxel_tree *a = pair->tree[0], *b = pair->tree[1];
    ct_voxel_answer *next = &pair->next;
    const uint32_t level = pair->answer.is_examined ? pair->answer.level[0] + 1 : 0;
    uint32_t other = 0;
    while (other < ct_voxel_stop_level(pair, 1) && b->level[other + 1].size >= a->level[level].size * (1 - 1e-9))
        other++;
    find_geometry(pair, level, other, geometry);
    const ct_buffer open = next->open, groups = next->groups, primitives = next->primitives;
    *next = (ct_voxel_answer){.is_examined = true,
                              .settled = pair->answer.settled,
                              .level = {level, other},
                              .cube = {geometry->a.size, geometry->b.size},
                              .open = open,
                              .groups = groups,
                              .primitives = primitives};
    pair->settled = pair->open = (ct_voxel_cube_sums){0};
    if (pair->n_slots) memset(pair->slots.data, 0, pair->n_slots * sizeof(uint32_t));
}

/* Adds sums of a level to those of all levels, but for lower and upper. */
static void add_sums(const ct_voxel_pair *pair, const ct_voxel_geometry *g, const ct_voxel_cube_sums *from,
                     ct_voxel_sums *to) {
    const double *origin = pair->tree[0]->origin, side = pair->tree[0]->side;
    const double step = ldexp(1, -CT_VOXEL_SUM_BITS), volume = step * g->a.size * g->a.size * g->a.size;
    const double area = step * g->a.size * g->a.size * (double)g->a.most_area;
    double force[3];
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

void ct_voxel_complete_level(ct_voxel_pair *pair, const ct_voxel_geometry *geometry) {
    ct_voxel_answer *next = &pair->next;
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
}

void ct_voxel_pair_free(ct_voxel_pair *pair, ct_budget *budget) {
    ct_buffer *buffers[] = {&pair->answer.primitives, &pair->next.primitives, &pair->answer.open, &pair->answer.groups,
                            &pair->next.open,         &pair->next.groups,     &pair->slots};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) ct_buffer_free(buffers[i], budget);
    *pair = (ct_voxel_pair){0};
}
