/* finish.c - makes contacts and points. */
#include "gpu/methods/voxtree/finish.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/base/cancel.h"
#include "gpu/base/vec.h"
#include "gpu/contact/frame_k.h"
#include "gpu/methods/voxtree/pair.h"

/* Of the bound, the part that the error is below in 95 of 100 contacts of thin bodies, balls and boxes at each level
 * from 3 to 7 (docs/voxtree.md). A bound that no settled cube has lowered is of little more than the cubes that may be shared,
 * and says less of the error; on the first levels they are larger than most contacts. */
static double estimated_part(const ct_voxel_answer *answer) {
    if (answer->level[0] < 2 || answer->level[1] < 2) return 1;
    return answer->all.lower > 0 ? 0.25 : 0.5;
}

static void rotate(const double pose[12], const double v[3], double out[3]) {
    for (int k = 0; k < 3; k++) out[k] = pose[4 * k] * v[0] + pose[4 * k + 1] * v[1] + pose[4 * k + 2] * v[2];
}

static void find_forces(const ct_voxel_pair *pair, const double *const poses[2], ct_contact *contact) {
    const ct_voxel_sums *all = &pair->answer.all;
    const double *pose = poses[pair->driver], *other = poses[1 - pair->driver];
    double force[3], torque[3], arm[3], moved[3];
    rotate(pose, all->gradient, force);
    rotate(pose, all->moment, torque);
    for (int k = 0; k < 3; k++) arm[k] = pose[4 * k + 3] - other[4 * k + 3];
    ct_cross3(arm, force, moved);
    for (int k = 0; k < 3; k++) {
        double *of_driver = contact->generalized_gradient[pair->driver];
        double *of_other = contact->generalized_gradient[1 - pair->driver];
        of_driver[k] = force[k];
        of_driver[3 + k] = torque[k];
        of_other[k] = -force[k];
        of_other[3 + k] = -(torque[k] + moved[k]);
    }
}

bool ct_voxel_finish_contact(const ct_voxel_pair *pair, const double *const poses[2], ct_contact *contact) {
    const ct_voxel_answer *answer = &pair->answer;
    const double scale = pair->scale[0];
    const ct_voxel_sums *all = &answer->all;
    if (!(all->upper > 0)) return false;
    contact->volume_lower = scale * all->lower;
    contact->volume_upper = scale * all->upper;
    contact->volume = fmin(fmax(scale * all->estimate, contact->volume_lower), contact->volume_upper);
    contact->error_bound = fmax(contact->volume_upper - contact->volume, contact->volume - contact->volume_lower);
    contact->error_estimate = estimated_part(answer) * contact->error_bound;
    contact->inverted_volume = NAN;
    for (int w = 0; w < 3; w++) contact->error_bounds[w] = contact->error_bound;
    for (int k = 0; k < 3; k++) {
        contact->volumes[k] = contact->volume;
        contact->pitch[k] = answer->cube[0];
    }
    find_forces(pair, poses, contact);
    ct_frame_normal(contact, contact->generalized_gradient[0], all->gradient_error);
    ct_frame_area(contact);
    /* Where nothing is known of the volume but that it may exist, the middle of the root. */
    double center[3];
    for (int k = 0; k < 3; k++)
        center[k] =
            all->estimate > 0 ? all->center[k] / all->estimate : pair->tree[0]->origin[k] + 0.5 * pair->tree[0]->side;
    rotate(poses[pair->driver], center, contact->center);
    for (int k = 0; k < 3; k++) contact->center[k] += poses[pair->driver][4 * k + 3];
    return true;
}

/* Weight of a point: how much of the volume's gradient it stands for, or its number of primitives. 0: none. */
static double weight_of(const ct_voxel_pair *pair, const ct_voxel_group_sums *sums) {
    if (pair->options.plain_average) return (double)sums->n;
    double square = 0;
    for (int k = 0; k < 3; k++) square += (double)sums->normal[k] * (double)sums->normal[k];
    return sums->probability ? sqrt(square) : 0;
}

/* Does not set its weight. */
static void finish_point(const ct_voxel_pair *pair, const double pose[12], const ct_voxel_group_sums *sums,
                         ct_point *point) {
    const double step = ldexp(1, -CT_VOXEL_VECTOR_BITS), side = pair->tree[1]->side;
    const double radii = 0.5 * (pair->answer.cube[0] + pair->answer.cube[1]);
    const double weight =
        pair->options.plain_average ? ldexp((double)sums->n, CT_VOXEL_WEIGHT_BITS) : (double)sums->probability;
    double n[3], p[3], length = 0;
    for (int k = 0; k < 3; k++) {
        n[k] = (double)(pair->driver ? -sums->normal[k] : sums->normal[k]);
        length += n[k] * n[k];
        p[k] = pair->tree[1]->origin[k] + side * step * ((double)sums->point[k] / weight);
    }
    length = sqrt(length);
    for (int k = 0; k < 3; k++) n[k] = length > 0 ? n[k] / length : 0;
    rotate(pose, n, point->normal);
    rotate(pose, p, point->position);
    for (int k = 0; k < 3; k++) point->position[k] += pose[4 * k + 3];
    point->depth = radii * step * ((double)sums->depth / (double)sums->probability);
    point->group[pair->driver] = sums->group[0];
    point->group[1 - pair->driver] = sums->group[1];
    point->id = 0;
}

/* The points that the primitives stand for, [answer.n_primitives], as they are before reduction: weight is P of
 * equation 1. Of a pair with keeps_primitives. */
static void finish_primitives(const ct_voxel_pair *pair, const double *const poses[2], ct_point *points) {
    const ct_voxel_group_sums *primitives = pair->answer.primitives.data;
    for (uint32_t i = 0; i < pair->answer.n_primitives; i++) {
        finish_point(pair, poses[1 - pair->driver], &primitives[i], &points[i]);
        points[i].weight = ldexp((double)primitives[i].probability, -CT_VOXEL_WEIGHT_BITS);
    }
}

bool ct_voxel_list_primitives(const ct_voxel_tree *const trees[2], const double *const poses[2],
                              const ct_scene_settings *settings, const uint32_t level[2], ct_point **points,
                              uint32_t *n) {
    const ct_voxel_options options = {.level = settings->level ? settings->level : CT_MAX_VOXEL_LEVEL,
                                      .center_normals = settings->center_normals,
                                      .plain_average = true, /* normals of equation 6 */
                                      .wants_points = true,
                                      .keeps_primitives = true,
                                      .every_level = true};
    ct_voxel_pair pair = {0};
    ct_budget budget = {0};
    ct_voxel_pair_begin(&pair, trees, poses, &options);
    bool is_done = true;
    while (is_done && ct_voxel_pair_can_descend(&pair) &&
           (!pair.answer.is_examined || pair.answer.level[0] < level[pair.driver]))
        is_done = ct_voxel_cpu_base.descend(&pair, 0, &budget) == CT_VOXEL_DONE;
    *n = pair.answer.n_primitives;
    *points = is_done ? malloc((*n ? *n : 1) * sizeof **points) : NULL;
    if (*points) finish_primitives(&pair, poses, *points);
    ct_voxel_pair_free(&pair, &budget);
    return *points;
}

/* Whether a comes before b: the order does not depend on how groups were met. */
static bool is_before(const ct_point *a, const ct_point *b) {
    if (a->weight != b->weight) return a->weight > b->weight;
    return a->group[0] != b->group[0] ? a->group[0] < b->group[0] : a->group[1] < b->group[1];
}

/* Moves the first of n points in a heap, whose first is the last of all in their order, to where it belongs. */
static void sift_down(ct_point *points, uint32_t n, uint32_t at) {
    const ct_point moved = points[at];
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_before(&points[child], &points[child + 1])) child++;
        if (!is_before(&moved, &points[child])) break;
        points[at] = points[child];
    }
    points[at] = moved;
}

/* Chooses at most n pairs of groups with a weight, in the order of their points. Of their points it sets the weight
 * and the groups, and position[0] to the index of their sums. */
static uint32_t choose_points(const ct_voxel_pair *pair, uint32_t n, ct_point *points) {
    const ct_voxel_group_sums *groups = pair->answer.groups.sums.data;
    uint32_t kept = 0;
    for (uint32_t g = 0; n && g < pair->answer.groups.n; g++) {
        ct_point point = {.position = {g}, .weight = weight_of(pair, &groups[g])};
        if (CT_POLL_EVERY(g + 1, 1024) && ct_is_cancelled()) break;
        if (point.weight == 0 || (kept == n && point.weight < points[0].weight)) continue;
        point.group[pair->driver] = groups[g].group[0];
        point.group[1 - pair->driver] = groups[g].group[1];
        if (kept < n) {
            points[kept++] = point;
            if (kept == n)
                for (uint32_t i = n / 2; i-- > 0;) sift_down(points, n, i);
        } else if (is_before(&point, &points[0])) {
            points[0] = point;
            sift_down(points, n, 0);
        }
    }
    if (kept < n)
        for (uint32_t i = kept / 2; i-- > 0;) sift_down(points, kept, i);
    for (uint32_t end = kept; end-- > 1;) {
        const ct_point last = points[0];
        points[0] = points[end];
        points[end] = last;
        sift_down(points, end, 0);
    }
    return kept;
}

uint32_t ct_voxel_finish_points(const ct_voxel_pair *pair, const double *const poses[2], uint32_t n, ct_point *points) {
    const ct_voxel_group_sums *groups = pair->answer.groups.sums.data;
    const uint32_t kept = choose_points(pair, n, points);
    double total = 0;
    for (uint32_t i = 0; i < kept; i++) total += points[i].weight;
    for (uint32_t i = 0; i < kept; i++) {
        finish_point(pair, poses[1 - pair->driver], &groups[(uint32_t)points[i].position[0]], &points[i]);
        points[i].weight /= total;
    }
    return kept;
}
