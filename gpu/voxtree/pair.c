/* pair.c - what a pair of voxel trees is before and between levels. */
#include "gpu/voxtree/pair.h"

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

void ct_voxel_pair_free(ct_voxel_pair *pair, ct_budget *budget) {
    ct_buffer *buffers[] = {&pair->answer.primitives, &pair->next.primitives, &pair->answer.open, &pair->answer.groups,
                            &pair->next.open,         &pair->next.groups,     &pair->slots};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) ct_buffer_free(buffers[i], budget);
    *pair = (ct_voxel_pair){0};
}
