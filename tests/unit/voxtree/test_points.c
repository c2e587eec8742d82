/* test_points.c - points of voxel trees against their definition: all cubes one by one, in doubles, without hash
 * tables, bricks' bits, vectors or fixed point. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/methods/voxtree/tree.h"
#include "tests/scenes/build.h"
#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

enum { MAX_POINTS = 4096, FINEST = 5 };

/* Of a pair of groups. */
typedef struct point_sums {
    uint32_t group[2];
    double normal[3], point[3], probability, depth; /* point: in the other's cubes, from its root */
} point_sums;

/* The driver, a, and the other body, b, which lies as its mesh does. */
typedef struct reference {
    const ct_voxel_tree *a, *b;
    const double *pose; /* of a */
    uint32_t level;     /* of a; neither is followed below it */
    bool has_center_normals;
    point_sums sums[MAX_POINTS];
    int n;
} reference;

/* A level of a, and how it lies among the cubes of b. */
typedef struct placement {
    const ct_voxel_level *a, *b;
    double ratio, turn[9];
} placement;

static placement place(const reference *r, uint32_t level) {
    placement p = {.a = &r->a->level[level], .b = &r->b->level[0]};
    while (p.b < &r->b->level[r->level] && p.b[1].size >= p.a->size * (1 - 1e-9)) p.b++;
    p.ratio = p.a->size / p.b->size;
    for (int k = 0; k < 9; k++) p.turn[k] = r->pose[4 * (k / 3) + k % 3];
    return p;
}

/* In cubes of b, of a point in cubes of a. */
static void find_in_other(const reference *r, const placement *p, const double at[3], double u[3]) {
    for (int k = 0; k < 3; k++) {
        u[k] = r->pose[4 * k + 3] - r->b->origin[k];
        for (int j = 0; j < 3; j++) u[k] += p->turn[3 * k + j] * (r->a->origin[j] + at[j] * p->a->size);
        u[k] /= p->b->size;
    }
}

static double length_of(const double v[3]) {
    return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

/* Equation 5, of two cubes whose centres are so far apart, in cubes of b. */
static double kappa(const placement *p, const double line[3]) {
    return fmin(fmax(0.5 * (1 + p->ratio) - length_of(line), 0) / p->ratio, 1);
}

/* Occupancy, area vector and centre of the surface of a cube, all zeros outside. */
typedef struct cube {
    double occupancy, area[3], arm[3];
    uint32_t group;
    bool is_full;
} cube;

static cube cube_at(const ct_voxel_level *level, const int at[3]) {
    cube c = {.group = CT_VOXEL_INSIDE};
    for (int k = 0; k < 3; k++)
        if (at[k] < 0 || at[k] >= (int)level->n) return c;
    const ct_voxel *node = ct_voxel_find(level, (uint32_t)at[0], (uint32_t)at[1], (uint32_t)at[2], &c.is_full);
    c.occupancy = node ? (double)node->occupancy : c.is_full;
    for (int k = 0; node && k < 3; k++) {
        c.area[k] = (double)node->area[k];
        c.arm[k] = (node->center[k] + 0.5) / 256 - 0.5;
    }
    if (node) c.group = node->group;
    return c;
}

static void turn(const placement *p, const double v[3], double out[3]) {
    for (int k = 0; k < 3; k++) out[k] = p->turn[3 * k] * v[0] + p->turn[3 * k + 1] * v[1] + p->turn[3 * k + 2] * v[2];
}

static point_sums *sums_of(reference *r, uint32_t a, uint32_t b) {
    int i = 0;
    while (i < r->n && (r->sums[i].group[0] != a || r->sums[i].group[1] != b)) i++;
    assert_true(i < MAX_POINTS);
    if (i == r->n) r->sums[r->n++] = (point_sums){.group = {a, b}};
    return &r->sums[i];
}

/* Of a with each cube of b around its centre, at u. */
static void add_primitives(reference *r, const placement *p, const cube *a, const double u[3]) {
    double facing[3], arm[3];
    turn(p, a->area, facing);
    turn(p, a->arm, arm);
    for (int i = 0; i < 8; i++) {
        int at[3];
        double line[3], to_a[3], to_b[3];
        for (int k = 0; k < 3; k++) at[k] = (int)floor(u[k] - 0.5) + (i >> k & 1);
        const cube b = cube_at(p->b, at);
        if (a->group == CT_VOXEL_INSIDE && b.group == CT_VOXEL_INSIDE) continue;
        for (int k = 0; k < 3; k++) {
            line[k] = u[k] - (at[k] + 0.5);
            to_a[k] = line[k] + p->ratio * arm[k];
            to_b[k] = line[k] - b.arm[k];
        }
        const double probability = kappa(p, line) * a->occupancy * b.occupancy;
        if (probability < ldexp(0.5, -17)) continue;
        point_sums *to = sums_of(r, a->group, b.group);
        for (int k = 0; k < 3; k++) {
            const double gradient =
                kappa(p, to_b) * a->occupancy * p->ratio * b.area[k] - kappa(p, to_a) * b.occupancy * facing[k];
            to->normal[k] += r->has_center_normals ? probability * line[k] / length_of(line) : gradient;
            to->point[k] += probability * (u[k] - line[k] * p->ratio / (1 + p->ratio));
        }
        to->probability += probability;
        to->depth += probability * p->b->size * fmax(0.5 * (1 + p->ratio) - length_of(line), 0);
    }
}

/* A cube in full cubes of b, on a level above the reference's by `above`. */
static void add_settled(reference *r, const placement *p, const cube *a, const double u[3], uint32_t above) {
    const placement last = place(r, r->level);
    const double mean = acos(-1.0) / 6 * (1 + last.ratio * last.ratio);
    const double cubes = mean * pow(8, above) * a->occupancy, faces = mean * pow(4, above);
    double facing[3];
    turn(p, a->area, facing);
    point_sums *to = sums_of(r, a->group, CT_VOXEL_INSIDE);
    for (int k = 0; k < 3; k++) {
        to->normal[k] -= faces * facing[k];
        to->point[k] += cubes * u[k] * p->b->size / last.b->size;
    }
    to->probability += cubes;
    to->depth += cubes * last.a->size;
}

static void visit(reference *r, uint32_t level, const int at[3]) {
    const placement p = place(r, level);
    const cube a = cube_at(p.a, at);
    if (a.occupancy == 0 && a.group == CT_VOXEL_INSIDE) return;
    double u[3];
    find_in_other(r, &p, (const double[]){at[0] + 0.5, at[1] + 0.5, at[2] + 0.5}, u);
    int lo[3], hi[3];
    for (int k = 0; k < 3; k++) {
        double reach = 0;
        for (int j = 0; j < 3; j++) reach += 0.5 * p.ratio * fabs(p.turn[3 * k + j]);
        lo[k] = (int)floor(u[k] - reach), hi[k] = (int)floor(u[k] + reach);
    }
    bool is_full = true, is_empty = true;
    for (int z = lo[2]; z <= hi[2]; z++)
        for (int y = lo[1]; y <= hi[1]; y++)
            for (int x = lo[0]; x <= hi[0]; x++) {
                const cube b = cube_at(p.b, (const int[]){x, y, z});
                is_full = is_full && b.is_full;
                is_empty = is_empty && b.occupancy == 0 && b.group == CT_VOXEL_INSIDE;
            }
    if (is_empty) return;
    if (is_full && a.group != CT_VOXEL_INSIDE) add_settled(r, &p, &a, u, r->level - level);
    if (is_full) return;
    if (level == r->level) add_primitives(r, &p, &a, u);
    for (int i = 0; i < 8 && level < r->level; i++)
        visit(r, level + 1, (const int[]){2 * at[0] + (i & 1), 2 * at[1] + (i >> 1 & 1), 2 * at[2] + (i >> 2)});
}

static int by_groups(const void *a, const void *b) {
    const ct_point *x = a, *y = b;
    if (x->group[0] != y->group[0]) return x->group[0] < y->group[0] ? -1 : 1;
    return (x->group[1] > y->group[1]) - (x->group[1] < y->group[1]);
}

/* first: which body of the result is a. */
static void compare(const reference *r, ct_result *result, int first) {
    const placement last = place(r, r->level);
    double total = 0;
    for (int i = 0; i < r->n; i++) total += length_of(r->sums[i].normal);
    qsort(result->points, result->n_points, sizeof *result->points, by_groups);
    assert_true(total > 0);
    for (int i = 0; i < r->n; i++) {
        const point_sums *s = &r->sums[i];
        const double length = length_of(s->normal), weight = length / total;
        if (weight < 1e-4 || s->probability < 0.01) continue; /* rounding decides */
        ct_point key = {0};
        key.group[first] = s->group[0], key.group[1 - first] = s->group[1];
        const ct_point *point = bsearch(&key, result->points, result->n_points, sizeof key, by_groups);
        assert_non_null(point);
        assert_float_equal(point->weight, weight, 1e-5);
        const double rounding = last.b->size * (1e-4 + 1e-4 / s->probability);
        assert_float_equal(point->depth, s->depth / s->probability, rounding);
        for (int k = 0; k < 3; k++) {
            const double normal = (first ? -1 : 1) * s->normal[k] / length;
            assert_float_equal(point->normal[k], normal, 1e-3);
            assert_float_equal(point->position[k], r->b->origin[k] + last.b->size * s->point[k] / s->probability,
                               rounding);
        }
    }
    double listed = 0;
    for (uint64_t p = 0; p < result->n_points; p++) {
        bool is_known = false;
        for (int i = 0; i < r->n && !is_known; i++)
            is_known = r->sums[i].group[0] == result->points[p].group[first] &&
                       r->sums[i].group[1] == result->points[p].group[1 - first];
        assert_true(is_known);
        listed += result->points[p].weight;
    }
    assert_float_equal(listed, 1, 1e-9);
}

static reference r;

/* Bodies of unlike size and form, deep enough that cubes are settled on several levels. */
static void points_are_weighted(void **state) {
    (void)state;
    struct shape shapes[] = {shape_blob(0.5, 4, 0.4, 5), shape_torus(0.7, 0.35, 48, 24), shape_l_prism(0.9, 0.6)};
    ct_mesh *meshes[3];
    for (int i = 0; i < 3; i++) meshes[i] = shape_to_mesh(&shapes[i], NULL);
    ct_engine *engine = stage_engine(1, NULL);
    uint64_t rng = 9, n_settled = 0, n_points = 0, n_compared = 0;
    for (int round = 0; round < 24; round++) {
        const int i = round % 3, j = (round + 1 + round / 3 % 2) % 3;
        const uint32_t level = 2 + (uint32_t)round % 4;
        double pose[12];
        shape_pose_random(&rng, 0.4, pose);
        ct_scene_settings settings = stage_voxtree(FINEST, level);
        settings.max_points = MAX_POINTS;
        settings.center_normals = round >= 12;
        const ct_voxel_tree *trees[2] = {ct_voxel_tree_of(meshes[i], FINEST, NULL),
                                         ct_voxel_tree_of(meshes[j], FINEST, NULL)};
        const int first = trees[1]->side < trees[0]->side;
        /* The other body, which does not drive, lies as its mesh does. */
        const struct placed bodies[2] = {{&shapes[i], first ? NULL : pose, 0}, {&shapes[j], first ? pose : NULL, 0}};
        ct_result *result = stage_once(engine, &settings, bodies, 2, CT_WANT_FRAME);
        r.n = 0;
        r.a = trees[first], r.b = trees[1 - first];
        r.pose = pose;
        r.level = level;
        r.has_center_normals = settings.center_normals;
        visit(&r, 0, (const int[]){0, 0, 0});
        assert_int_equal(result->n_contacts, 1);
        if (result->progress[0].level[first] == level) {
            compare(&r, result, first);
            n_compared++;
        }
        for (int k = 0; k < r.n; k++) n_settled += r.sums[k].group[1] == CT_VOXEL_INSIDE;
        n_points += result->n_points;
        ct_result_free(&result);
    }
    assert_true(n_compared > 20 && n_points > 300 && n_settled > 50);
    ct_engine_destroy(&engine);
    for (int i = 0; i < 3; i++) ct_mesh_release(&meshes[i]), shape_free(&shapes[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(points_are_weighted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
