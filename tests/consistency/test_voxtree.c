/* test_voxtree.c - the method VOXTREE against `exact` and closed forms, on any threads and instruction sets, and under
 * budgets.
 *
 *   test_voxtree [PAIRS]
 *
 * PAIRS: how many random pairs have their intervals checked, 100 unless given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"
#include "tests/scenes/build.h"

enum { N_SHAPES = 6, FINEST = 6 };

static struct shape shapes[N_SHAPES];
static int n_pairs = 100;

static int setup_all(void **state) {
    shapes[0] = shape_box(1, 1, 1);
    shapes[1] = shape_box(0.3, 1.7, 0.9);
    shapes[2] = shape_icosphere(0.6, 4);
    shapes[3] = shape_torus(0.6, 0.2, 48, 24);
    shapes[4] = shape_l_prism(1.2, 0.5);
    shapes[5] = shape_blob(0.6, 4, 0.3, 5);
    return setup(state);
}

static int teardown_all(void **state) {
    for (int i = 0; i < N_SHAPES; i++) shape_free(&shapes[i]);
    return teardown(state);
}

static double dot(const double *a, const double *b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static double degrees(const double *a, const double *b) {
    return acos(fmin(1, dot(a, b))) * 180 / acos(-1.0);
}

/* Everything that an answer says of itself fits together. */
static void check_answer(const ct_result *r, const ct_scene_settings *settings) {
    assert_int_equal(r->method, CT_METHOD_VOXTREE);
    assert_int_equal(r->n_progress, r->pairs);
    assert_true(r->quality >= 0 && r->quality <= 1);
    uint64_t n_points = 0;
    for (size_t i = 0; i < r->n_contacts; i++) {
        const ct_contact *c = &r->contacts[i];
        assert_true(c->volume_lower >= 0 && c->volume_lower <= c->volume && c->volume <= c->volume_upper);
        assert_true(c->volume_upper > 0);
        assert_true(c->error_bound >= c->volume_upper - c->volume && c->error_bound >= c->volume - c->volume_lower);
        assert_true(c->error_estimate <= c->error_bound);
        assert_true(c->count[0] == 0 && c->count[1] == 0);
        for (int k = 0; k < 3; k++) assert_true(c->generalized_gradient[0][k] == -c->generalized_gradient[1][k]);
        assert_int_equal(c->first_point, n_points);
        assert_true(c->n_points <= (settings->max_points ? settings->max_points : CT_DEFAULT_MAX_POINTS));
        n_points += c->n_points;
        double weights = 0;
        for (uint64_t p = c->first_point; p < c->first_point + c->n_points; p++) {
            const ct_point *point = &r->points[p];
            weights += point->weight;
            assert_true(point->depth >= 0);
            if (p > c->first_point) assert_true(point->weight <= point[-1].weight);
            const double length = dot(point->normal, point->normal);
            assert_true(length == 0 || fabs(length - 1) < 1e-12);
        }
        if (c->n_points) assert_float_equal(weights, 1, 1e-12);
    }
    assert_int_equal(r->n_points, n_points);
}

/* Random pairs: the interval holds at every level, closes in, and the estimates become those of `exact`. */
static void test_against_exact(void **state) {
    (void)state;
    uint64_t rng = 11;
    double angle = 0, error = 0, spread = 0;
    int n = 0;
    for (int round = 0; round < 60; round++) {
        double pose[2][12];
        const double origin = round % 5 == 4 ? 1e4 : 0, reach = shape_uniform(&rng, 0.05, 1);
        struct placed bodies[2];
        for (int b = 0; b < 2; b++) {
            shape_pose_random(&rng, b ? reach : 0, pose[b]);
            for (int k = 0; k < 3; k++) pose[b][4 * k + 3] += origin;
            bodies[b] = (struct placed){&shapes[shape_random(&rng) % N_SHAPES], pose[b], 0};
        }
        ct_scene_settings settings = stage_exact();
        ct_result *exact = stage_once(engine, &settings, bodies, 2, CT_WANT_FRAME);
        const ct_contact *x = exact->n_contacts ? exact->contacts : NULL;
        const double volume = x ? x->volume : 0, slack = x ? x->error_bound : 1e-9;
        double lower = 0, upper = INFINITY;
        for (uint32_t level = 1; level <= FINEST; level++) {
            settings = stage_voxtree(FINEST, level);
            ct_result *r = stage_once(engine, &settings, bodies, 2, CT_WANT_FRAME);
            check_answer(r, &settings);
            if (r->pairs) {
                const ct_pair_progress *p = r->progress;
                assert_true(p->is_examined && p->level[0] <= level && p->level[1] <= level);
                assert_true(p->ended == CT_ENDED_COMPLETED || (p->ended == CT_ENDED_LEVEL && level < FINEST));
            }
            const ct_contact *c = r->n_contacts ? r->contacts : NULL;
            if (!c) assert_true(volume <= slack);
            const double now[2] = {c ? c->volume_lower : 0, c ? c->volume_upper : 0};
            assert_true(volume >= now[0] - slack && volume <= now[1] + slack);
            assert_true(now[0] >= lower && now[1] <= upper);
            lower = now[0], upper = now[1];
            const double *force = x ? x->generalized_gradient[0] : NULL;
            if (level == FINEST && x && volume > 0.02 && sqrt(dot(force, force)) > 0.4 * x->area) {
                n++;
                angle = fmax(angle, degrees(x->normal, c->normal));
                error = fmax(error, fabs(c->volume - volume) / volume);
                spread += (upper - lower) / volume;
                for (int b = 0; b < 2; b++)
                    for (int k = 3; k < 6 && !origin; k++)
                        assert_float_equal(c->generalized_gradient[b][k], x->generalized_gradient[b][k], 0.1 * x->area);
                for (int k = 0; k < 3; k++) assert_float_equal(c->center[k], x->center[k], 0.1);
            }
            ct_result_free(&r);
        }
        ct_result_free(&exact);
    }
    assert_true(n > 15);
    if (angle > 6 || error > 0.06 || spread / n > 1.5)
        fail_msg("%d pairs: %g degrees, %g, %g", n, angle, error, spread / n);
}

enum { ON_FACES, IN_EACH_OTHER, THIN, N_CLASSES, ESTIMATED_FROM = 3, ESTIMATED_TO = 6 };

/* Poses of two bodies of a class that overlap. */
static void place_class(uint64_t *rng, int class, struct shape both[2], double pose[2][12]) {
    const double radius = shape_uniform(rng, 0.2, 0.7);
    both[0] = class == IN_EACH_OTHER ? shape_icosphere(1, 4) : shape_box(1.8, 1, 1.4);
    both[1] = class == THIN ? shape_box(shape_uniform(rng, 0.3, 1.5), shape_uniform(rng, 0.004, 0.1), 0.8)
                            : shape_icosphere(radius, 4);
    shape_pose_random(rng, 0, pose[0]);
    shape_pose_random(rng, 0, pose[1]);
    double at[3] = {shape_uniform(rng, -0.3, 0.3), shape_uniform(rng, -0.2, 0.2),
                    0.7 + 0.2 * shape_uniform(rng, -1, 1)};
    if (class == ON_FACES) at[2] = 0.7 + radius * (1 - shape_uniform(rng, 0.03, 0.4));
    if (class == IN_EACH_OTHER) at[2] = 1 + radius * (1 - shape_uniform(rng, 0.02, 0.5));
    for (int k = 0; k < 3; k++) {
        pose[1][4 * k + 3] = 0;
        for (int j = 0; j < 3; j++) pose[1][4 * k + 3] += pose[0][4 * k + j] * at[j];
    }
}

/* error_estimate is above 95 of 100 errors: of balls on a box's face and balls in each other, of which a small part of
 * both is shared, and of thin bodies in a box. */
static void test_estimates(void **state) {
    (void)state;
    enum { PAIRS = 12 };
    uint64_t rng = 95;
    for (int class = 0; class < N_CLASSES; class ++) {
        int n = 0, n_within = 0;
        for (int pair = 0; pair < PAIRS; pair++) {
            struct shape both[2];
            double pose[2][12];
            place_class(&rng, class, both, pose);
            const struct placed bodies[2] = {{&both[0], pose[0], 0}, {&both[1], pose[1], 0}};
            ct_scene_settings settings = stage_exact();
            ct_result *exact = stage_once(engine, &settings, bodies, 2, CT_WANT_FRAME);
            const double volume = exact->n_contacts ? exact->contacts->volume : 0;
            for (uint32_t level = ESTIMATED_FROM; level <= ESTIMATED_TO; level++) {
                settings = stage_voxtree(ESTIMATED_TO, level);
                ct_result *r = stage_once(engine, &settings, bodies, 2, CT_WANT_FRAME);
                for (size_t c = 0; c < r->n_contacts; c++, n++)
                    n_within += fabs(r->contacts[c].volume - volume) <= r->contacts[c].error_estimate;
                ct_result_free(&r);
            }
            ct_result_free(&exact);
            for (int b = 0; b < 2; b++) shape_free(&both[b]);
        }
        assert_true(n > PAIRS);
        if (n_within < 0.95 * n) fail_msg("class %d: %d of %d errors are below their estimates", class, n_within, n);
    }
}

/* A random body, of a tenth to the whole of its size, and thin ones. */
static struct shape random_shape(uint64_t *rng) {
    const double size = shape_uniform(rng, 0.1, 1), thin = shape_uniform(rng, 0.001, 0.1);
    switch (shape_random(rng) % 8) {
    case 0:
        return shape_box(size, shape_uniform(rng, 0.1, 1), shape_uniform(rng, 0.1, 1));
    case 1:
        return shape_box(size, thin, shape_uniform(rng, 0.1, 1));
    case 2:
        return shape_box(size, thin, thin);
    case 3:
        return shape_icosphere(size, (int)(shape_random(rng) % 5));
    case 4:
        return shape_torus(size, size * shape_uniform(rng, 0.05, 0.7), 40, 20);
    case 5:
        return shape_l_prism(size, shape_uniform(rng, 0.1, 1));
    case 6:
        return shape_bolt(size, 0.2 * size, 0.3 * size, 3, 32, 12);
    default:
        return shape_blob(size, 3, 0.4, shape_random(rng));
    }
}

/* m, of the cube around its tree. */
static double root_side(const struct shape *shape) {
    double side = 0;
    for (uint32_t k = 0; k < 3; k++) {
        double low = INFINITY, high = -INFINITY;
        for (uint32_t v = 0; v < shape->n_vertices; v++) {
            low = fmin(low, (double)shape->positions[3 * v + k]);
            high = fmax(high, (double)shape->positions[3 * v + k]);
        }
        side = fmax(side, high - low);
    }
    return side;
}

/* No interval of any level is violated, and each lies within that of the level before. A step with a finer level may
 * settle larger cubes at once, as it may look at smaller ones of the other body: intervals then differ by what
 * occupancies of these cubes are allowed to be off, up to 10^-5 of a cube. */
static void test_intervals(void **state) {
    (void)state;
    uint64_t rng = 5000;
    int n_contacts = 0, n_intervals = 0;
    for (int pair = 0; pair < n_pairs; pair++) {
        struct shape both[2] = {random_shape(&rng), random_shape(&rng)};
        double pose[2][12];
        const double reach = shape_uniform(&rng, 0.01, 0.8);
        const uint32_t finest = 3 + shape_random(&rng) % 4;
        for (int b = 0; b < 2; b++) shape_pose_random(&rng, b ? reach : 0, pose[b]);
        const struct placed bodies[2] = {{&both[0], pose[0], 0}, {&both[1], pose[1], 0}};
        ct_scene_settings settings = stage_exact();
        ct_result *exact = stage_once(engine, &settings, bodies, 2, CT_WANT_FRAME);
        const ct_contact *x = exact->n_contacts ? exact->contacts : NULL;
        const double volume = x ? x->volume : 0, slack = x ? x->error_bound : 1e-12;
        const double rounding = 1.1e-5 * pow(fmin(root_side(&both[0]), root_side(&both[1])), 3);
        double lower = 0, upper = INFINITY;
        n_contacts += x != NULL;
        for (uint32_t level = 1; level <= finest; level++) {
            settings = stage_voxtree(finest, level);
            ct_result *r = stage_once(engine, &settings, bodies, 2, CT_WANT_FRAME);
            check_answer(r, &settings);
            const ct_contact *c = r->n_contacts ? r->contacts : NULL;
            const double now[2] = {c ? c->volume_lower : 0, c ? c->volume_upper : 0};
            if (!(volume >= now[0] - slack && volume <= now[1] + slack))
                fail_msg("pair %d, level %u of %u: %.17g is not in %.17g to %.17g", pair, level, finest, volume, now[0],
                         now[1]);
            if (!(now[0] >= lower - rounding && now[1] <= upper + rounding))
                fail_msg("pair %d, level %u of %u: %.17g to %.17g after %.17g to %.17g", pair, level, finest, now[0],
                         now[1], lower, upper);
            lower = now[0], upper = now[1];
            n_intervals += c != NULL;
            for (uint64_t p = 0; p < r->n_points; p++) { /* equation 4 */
                const uint32_t *at = r->progress->level;
                const double radii = ldexp(root_side(&both[0]), -(int)at[0]) + ldexp(root_side(&both[1]), -(int)at[1]);
                assert_true(r->points[p].depth <= radii / 2 * (1 + 1e-6));
            }
            ct_result_free(&r);
        }
        ct_result_free(&exact);
        for (int b = 0; b < 2; b++) shape_free(&both[b]);
    }
    print_message("%d pairs, of them %d in contact: %d intervals hold\n", n_pairs, n_contacts, n_intervals);
    assert_true(n_contacts > n_pairs / 4);
}

/* Boxes aligned with each other's cubes: exact volume, interval and force. */
static void test_aligned(void **state) {
    (void)state;
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.5, pose[7] = 0.25, pose[11] = 0.75;
    const struct placed bodies[2] = {{&shapes[0], NULL, 0}, {&shapes[0], pose, 0}};
    const ct_scene_settings settings = stage_voxtree(5, 0);
    ct_result *r = stage_once(engine, &settings, bodies, 2, CT_WANT_FRAME);
    check_answer(r, &settings);
    assert_int_equal(r->n_contacts, 1);
    const ct_contact *c = r->contacts;
    const double volume = 0.5 * 0.75 * 0.25;
    assert_true(c->volume_lower <= volume && c->volume_upper >= volume);
    assert_float_equal(c->volume, volume, 0.15 * volume);
    for (int k = 0; k < 3; k++) assert_true(c->normal[k] < 0); /* out of B */
    assert_true(c->normal[2] < c->normal[0] && c->normal[0] < c->normal[1]);
    ct_result_free(&r);
}

/* Balls: the points lie on the line of centres and push along it. */
static void test_balls(void **state) {
    (void)state;
    uint64_t rng = 3;
    for (int round = 0; round < 30; round++) {
        double pose[2][12], line[3], length = 0;
        for (int b = 0; b < 2; b++) shape_pose_random(&rng, b ? 0.6 : 0, pose[b]);
        for (int k = 0; k < 3; k++) line[k] = pose[0][4 * k + 3] - pose[1][4 * k + 3];
        length = sqrt(dot(line, line));
        if (length < 0.6 || length > 1.1) continue;
        for (int k = 0; k < 3; k++) line[k] /= length;
        const struct placed bodies[2] = {{&shapes[2], pose[0], 0}, {&shapes[2], pose[1], 0}};
        for (int variant = 0; variant < 4; variant++) {
            ct_scene_settings settings = stage_voxtree(6, 0);
            settings.center_normals = variant & 1;
            settings.plain_average = variant >> 1;
            settings.max_points = CT_MAX_POINTS;
            ct_result *r = stage_once(engine, &settings, bodies, 2, CT_WANT_FRAME);
            check_answer(r, &settings);
            const ct_contact *c = r->contacts;
            assert_int_equal(r->n_contacts, 1);
            assert_true(degrees(c->normal, line) < 3);
            assert_true(c->n_points >= 1);
            double normal[3] = {0}, center[3] = {0};
            for (uint64_t p = 0; p < c->n_points; p++)
                for (int k = 0; k < 3; k++) {
                    normal[k] += r->points[p].weight * r->points[p].normal[k];
                    center[k] += r->points[p].weight * r->points[p].position[k];
                }
            const double size = sqrt(dot(normal, normal));
            for (int k = 0; k < 3; k++) normal[k] /= size;
            /* Lines of centres say little where balls overlap by many cubes. */
            if (!settings.center_normals || length > 1)
                assert_true(degrees(normal, line) < (settings.center_normals ? 45 : 25));
            for (int k = 0; k < 3; k++)
                assert_float_equal(center[k], 0.5 * (pose[0][4 * k + 3] + pose[1][4 * k + 3]), 0.15);
            ct_result_free(&r);
        }
    }
}

/* A scene of many bodies; the first is large. */
enum { PILE = 24 };

static struct stage open_pile(ct_engine *of, const ct_scene_settings *settings) {
    static double pose[PILE][12];
    struct placed bodies[PILE];
    uint64_t rng = 17;
    for (int i = 0; i < PILE; i++) {
        shape_pose_random(&rng, 1, pose[i]);
        bodies[i] = (struct placed){&shapes[i % N_SHAPES], pose[i], 0};
    }
    return stage_open(of, settings, bodies, PILE);
}

static void test_bits(void **state) {
    (void)state;
    for (int variant = 0; variant < 3; variant++) {
        char first[33] = "";
        for (int way = 0; way < 4; way++) {
            ct_engine *other = stage_engine(way == 1 ? 1 : 3, way == 2 ? "base" : NULL);
            ct_scene_settings settings = stage_voxtree(5, variant == 1 ? 3 : 0);
            if (variant == 2) settings.pair_budget = 20000;
            struct stage stage = open_pile(other, &settings);
            ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
            if (way == 3) { /* a second step finds everything as it was */
                ct_result_free(&r);
                r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
            }
            check_answer(r, &settings);
            assert_int_equal(r->ended, variant == 2   ? CT_ENDED_PAIRS
                                       : variant == 1 ? CT_ENDED_LEVEL
                                                      : CT_ENDED_COMPLETED);
            char hash[33];
            stage_hash(r, hash);
            if (way == 0) memcpy(first, hash, sizeof first);
            assert_string_equal(hash, first);
            ct_result_free(&r);
            stage_close(&stage);
            ct_engine_destroy(&other);
        }
    }
}

/* Bodies of one size, in either order: one of them drives the descent, and must not be the first for being first. */
static void test_order_of_equals(void **state) {
    (void)state;
    uint64_t rng = 21;
    struct shape shapes[] = {shape_box(1, 1, 1), shape_torus(0.35, 0.15, 20, 10), shape_box(1, 0.3, 0.6)};
    int contacts = 0;
    for (int round = 0; round < 30; round++) {
        double poses[2][12], found[2][9] = {{0}};
        for (int i = 0; i < 2; i++) shape_pose_random(&rng, 0.3, poses[i]);
        const int of[2] = {round % 3, round / 3 % 3};
        for (int order = 0; order < 2; order++) {
            const struct placed bodies[] = {{&shapes[of[order]], poses[order], 0, 0},
                                            {&shapes[of[1 - order]], poses[1 - order], 0, 0}};
            const ct_scene_settings settings = stage_voxtree(5, 0);
            ct_result *r = stage_once(engine, &settings, bodies, 2, CT_WANT_FRAME);
            if (r->n_contacts) {
                const ct_contact *c = r->contacts;
                const double numbers[3] = {c->volume, c->volume_lower, c->volume_upper};
                memcpy(found[order], numbers, sizeof numbers);
                memcpy(found[order] + 3, c->generalized_gradient[order], 6 * sizeof(double));
                contacts++;
            }
            ct_result_free(&r);
        }
        assert_memory_equal(found[0], found[1], sizeof found[0]);
    }
    assert_true(contacts > 30);
    for (int i = 0; i < 3; i++) shape_free(&shapes[i]);
}

/* Bodies have the boxes of their trees in steps of VOXTREE, and those of their vertices in steps of other methods,
 * which are as if the scene had never been another's. */
static void test_boxes(void **state) {
    (void)state;
    ct_scene_settings voxtree = stage_voxtree(5, 0), exact = stage_exact();
    struct stage stage = open_pile(engine, &voxtree), other = open_pile(engine, &exact);
    char hash[33], expected[33];
    for (int turn = 0; turn < 2; turn++) {
        ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_FRAME), *truth = stage_step(&other, NULL, 0, CT_WANT_FRAME);
        ct_body_info of_tree, of_mesh;
        for (size_t i = 0; i < PILE; i++) {
            assert_int_equal(ct_scene_body_at(stage.scene, i, &of_tree), CT_OK);
            assert_int_equal(ct_scene_body_at(other.scene, i, &of_mesh), CT_OK);
            for (int k = 0; k < 3; k++)
                assert_true(of_tree.lo[k] < of_mesh.lo[k] && of_tree.hi[k] > of_mesh.hi[k] &&
                            of_tree.hi[k] - of_tree.lo[k] < 1.25 * (of_mesh.hi[k] - of_mesh.lo[k]) + 0.25);
        }
        assert_true(r->pairs >= truth->pairs);
        stage_hash(truth, expected);
        ct_result_free(&r);
        ct_result_free(&truth);
        ct_error error = {0};
        assert_int_equal(ct_scene_configure(stage.scene, &exact, &error), CT_OK);
        r = stage_step(&stage, NULL, 0, CT_WANT_FRAME);
        stage_hash(r, hash);
        assert_string_equal(hash, expected);
        ct_result_free(&r);
        assert_int_equal(ct_scene_configure(stage.scene, &voxtree, &error), CT_OK);
    }
    stage_close(&stage);
    stage_close(&other);
}

/* Pairs that are refined have the contacts of EXACT; which are refined, and how far the trees were followed, is told.
 */
static void test_refined(void **state) {
    (void)state;
    ct_scene_settings settings = stage_exact();
    struct stage stage = open_pile(engine, &settings);
    ct_result *truth = stage_step(&stage, NULL, 0, CT_WANT_ALL);
    stage_close(&stage);
    assert_true(truth->n_contacts > 8);
    for (int way = 0; way < 5; way++) {
        settings = stage_voxtree(5, way == 1 ? 2 : 0);
        settings.refine = true;
        if (way == 2) settings.pair_budget = 20000;
        ct_engine *other = stage_engine(way == 3 ? 1 : 3, way == 3 ? "base" : NULL);
        stage = open_pile(other, &settings);
        ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL, .time_budget = way == 4 ? 1e6 : 0};
        assert_int_equal(ct_engine_run(other, &step, 1), CT_OK);
        const ct_result *r = step.result;
        size_t c = 0;
        for (uint64_t p = 0; p < r->n_progress; p++) {
            if (way != 2) assert_true(r->progress[p].is_examined);
            if (r->progress[p].is_refined) assert_int_equal(r->progress[p].ended, CT_ENDED_COMPLETED);
        }
        for (size_t i = 0; i < r->n_contacts; i++) {
            const ct_contact *mine = &r->contacts[i];
            while (c < truth->n_contacts &&
                   (truth->contacts[c].body[0] != mine->body[0] || truth->contacts[c].body[1] != mine->body[1]))
                c++;
            assert_true(c < truth->n_contacts);
            const ct_contact *exact = &truth->contacts[c];
            assert_true(mine->volume == exact->volume && mine->error_bound == exact->error_bound);
            assert_memory_equal(mine->generalized_gradient, exact->generalized_gradient,
                                sizeof mine->generalized_gradient);
            assert_memory_equal(mine->normal, exact->normal, sizeof mine->normal);
            assert_true(mine->volume_lower <= exact->volume && exact->volume <= mine->volume_upper &&
                        mine->volume_upper - mine->volume_lower <= 2 * exact->error_bound + 1e-12 * exact->volume);
            for (int b = 0; b < 2; b++) {
                assert_int_equal(mine->count[b], exact->count[b]);
                assert_memory_equal(r->gradient + 3 * mine->first[b], truth->gradient + 3 * exact->first[b],
                                    3 * sizeof(double) * mine->count[b]);
            }
        }
        assert_true(r->n_points >= r->n_contacts);
        if (way != 2) assert_int_equal(r->n_contacts, truth->n_contacts);
        if (way != 2) assert_int_equal(r->ended, CT_ENDED_COMPLETED);
        ct_result_free(&step.result);
        if (way == 4) { /* no time for anything */
            step.time_budget = 1e-9;
            assert_int_equal(ct_engine_run(other, &step, 1), CT_OK);
            for (uint64_t p = 0; p < step.result->n_progress; p++) assert_false(step.result->progress[p].is_refined);
            assert_int_equal(step.result->ended, CT_ENDED_TIME);
            ct_result_free(&step.result);
        }
        stage_close(&stage);
        ct_engine_destroy(&other);
    }
    ct_result_free(&truth);
}

/* A budget of pairs is kept, deepest overlaps go deepest, and a pair that it does not reach is said to be unknown. */
static void test_pair_budget(void **state) {
    (void)state;
    ct_scene_settings settings = stage_voxtree(5, 0);
    struct stage stage = open_pile(engine, &settings);
    ct_result *all = stage_step(&stage, NULL, 0, CT_WANT_FRAME);
    const uint64_t pairs = all->pairs;
    assert_true(pairs > 40 && all->fragments > 100 * pairs);
    double before = 0;
    for (uint64_t budget = 1; budget < 2 * all->fragments; budget *= 4) {
        settings.pair_budget = budget;
        assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
        ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_FRAME);
        check_answer(r, &settings);
        assert_true(r->fragments <= budget);
        assert_true(r->quality >= before);
        before = r->quality;
        uint64_t n_examined = 0;
        for (uint64_t i = 0; i < r->n_progress; i++) n_examined += r->progress[i].is_examined;
        assert_int_equal(n_examined, budget < pairs ? budget : pairs);
        for (size_t i = 0; i < r->n_contacts; i++) { /* none of a pair that was not examined */
            bool is_examined = false;
            for (uint64_t p = 0; p < r->n_progress; p++)
                if (r->progress[p].body[0] == r->contacts[i].body[0] &&
                    r->progress[p].body[1] == r->contacts[i].body[1])
                    is_examined = r->progress[p].is_examined;
            assert_true(is_examined);
        }
        if (budget >= all->fragments) assert_int_equal(r->ended, CT_ENDED_COMPLETED);
        if (budget < pairs) assert_int_equal(r->ended, CT_ENDED_PAIRS);
        ct_result_free(&r);
    }
    ct_result_free(&all);
    stage_close(&stage);
}

/* A time budget that is over at once leaves all pairs unexamined; one that is never over changes no bit. */
static void test_time_budget(void **state) {
    (void)state;
    ct_scene_settings settings = stage_voxtree(5, 0);
    struct stage stage = open_pile(engine, &settings);
    char hash[2][33];
    for (int i = 0; i < 3; i++) {
        ct_step step = {.scene = stage.scene, .want = CT_WANT_FRAME, .time_budget = (const double[]){0, 1e6, 1e-9}[i]};
        assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
        check_answer(step.result, &settings);
        if (i < 2) {
            assert_int_equal(step.result->ended, CT_ENDED_COMPLETED);
            assert_true(step.result->quality == 1);
            stage_hash(step.result, hash[i]);
        } else {
            assert_int_equal(step.result->ended, CT_ENDED_TIME);
            assert_string_equal(ct_ended_name(step.result->ended), "time");
            assert_true(step.result->quality < 1e-9);
            assert_int_equal(step.result->n_contacts, 0);
            for (uint64_t p = 0; p < step.result->n_progress; p++) assert_false(step.result->progress[p].is_examined);
        }
        ct_result_free(&step.result);
    }
    assert_string_equal(hash[0], hash[1]);
    stage_close(&stage);
}

/* Each refusal names its field and what is possible. */
static void test_refusals(void **state) {
    (void)state;
    const struct {
        ct_method method;
        uint32_t voxel_level, level, max_points, resolution;
        ct_status status;
        const char *field, *words;
    } cases[] = {
        {CT_METHOD_VOXTREE, 2, 0, 0, 0, CT_OUT_OF_RANGE, "voxel_level", "expected 3 to 8"},
        {CT_METHOD_VOXTREE, 9, 0, 0, 0, CT_OUT_OF_RANGE, "voxel_level", "expected 3 to 8"},
        {CT_METHOD_VOXTREE, 5, 6, 0, 0, CT_OUT_OF_RANGE, "level", "expected 1 to 5"},
        {CT_METHOD_VOXTREE, 0, 9, 0, 0, CT_OUT_OF_RANGE, "level", "expected 1 to 8"},
        {CT_METHOD_VOXTREE, 0, 0, 4097, 0, CT_OUT_OF_RANGE, "max_points", "expected 1 to 4096"},
        {CT_METHOD_VOXTREE, 0, 0, 0, 8, CT_INVALID_ARGUMENT, "resolution", "takes no resolution"},
        {CT_METHOD_EXACT, 5, 0, 0, 0, CT_INVALID_ARGUMENT, "voxel_level", "choose method \"voxtree\""},
        {CT_METHOD_LDI, 0, 3, 0, 0, CT_INVALID_ARGUMENT, "level", "choose method \"voxtree\""},
        {CT_METHOD_AUTO, 0, 3, 0, 0, CT_INVALID_ARGUMENT, "level", "choose method \"voxtree\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_scene_settings settings = stage_voxtree(cases[i].voxel_level, cases[i].level);
        settings.method = cases[i].method;
        settings.max_points = cases[i].max_points;
        for (int k = 0; k < 3; k++) settings.resolution[k] = cases[i].resolution;
        ct_error error = {0};
        assert_int_equal(ct_scene_settings_check(&settings, &error), cases[i].status);
        assert_string_equal(error.field, cases[i].field);
        if (!strstr(error.message, cases[i].words)) fail_msg("%s", error.message);
    }
    /* Deformable bodies, on both ways into a scene. */
    ct_scene_settings settings = stage_voxtree(0, 0);
    struct stage stage = stage_open(engine, &settings, (struct placed[]){{&shapes[0], NULL, 0}}, 1);
    ct_mesh *mesh = shape_to_mesh(&shapes[0], NULL);
    ct_body_options options;
    ct_body_options_init(&options);
    uint32_t body;
    ct_error error = {0};
    assert_int_equal(ct_scene_add_body(stage.scene, mesh, &options, &body, &error), CT_UNSUPPORTED);
    assert_string_equal(error.field, "kind");
    assert_non_null(strstr(error.message, "no deformable bodies"));
    settings = stage_exact();
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    assert_int_equal(ct_scene_add_body(stage.scene, mesh, &options, &body, NULL), CT_OK);
    settings = stage_voxtree(0, 0);
    error = (ct_error){0};
    assert_int_equal(ct_scene_configure(stage.scene, &settings, &error), CT_UNSUPPORTED);
    assert_int_equal(ct_scene_remove_body(stage.scene, body, NULL), CT_OK);
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    options.kind = CT_BODY_RIGID;
    options.self_contact = true;
    assert_int_equal(ct_scene_add_body(stage.scene, mesh, &options, &body, NULL), CT_UNSUPPORTED);
    assert_int_equal(ct_scene_add_half_space(stage.scene, (const double[]){0, 0, 1}, 0, NULL, &body, NULL),
                     CT_UNSUPPORTED);
    const struct {
        double time_budget, tolerance;
        uint32_t want;
        ct_status status;
        const char *field;
    } steps[] = {{-1, 0, 0, CT_OUT_OF_RANGE, "time_budget"},
                 {NAN, 0, 0, CT_NON_FINITE, "time_budget"},
                 {0, 1, 0, CT_INVALID_ARGUMENT, "tolerance"},
                 {0, 0, CT_WANT_SPANS, CT_INVALID_ARGUMENT, "want"},
                 {0, 0, CT_WANT_INERTIA, CT_INVALID_ARGUMENT, "want"}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        ct_step step = {.scene = stage.scene,
                        .want = steps[i].want,
                        .time_budget = steps[i].time_budget,
                        .tolerance = steps[i].tolerance};
        assert_int_equal(ct_engine_run(engine, &step, 1), steps[i].status);
        assert_string_equal(step.error.field, steps[i].field);
    }
    ct_mesh_release(&mesh);
    stage_close(&stage);
}

/* The pair that finds no memory fails its step and names itself; the next step has an answer again. */
static void test_no_memory(void **state) {
    (void)state;
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = "cpu";
    options.threads = 2;
    options.max_scratch_bytes = 40000;
    ct_engine *small = NULL;
    assert_int_equal(ct_engine_create(&options, &small, NULL), CT_OK);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.1;
    struct placed bodies[2] = {{&shapes[5], NULL, 0}, {&shapes[5], pose, 0}};
    ct_scene_settings settings = stage_voxtree(6, 0);
    struct stage stage = stage_open(small, &settings, bodies, 2);
    ct_step step = {.scene = stage.scene, .want = CT_WANT_FRAME};
    assert_int_equal(ct_engine_run(small, &step, 1), CT_OUT_OF_MEMORY);
    assert_non_null(strstr(step.error.message, "bodies 1 and 2"));
    settings.level = 3;
    assert_int_equal(ct_scene_configure(stage.scene, &settings, NULL), CT_OK);
    assert_int_equal(ct_engine_run(small, &step, 1), CT_OK);
    assert_int_equal(step.result->n_contacts, 1);
    ct_result_free(&step.result);
    stage_close(&stage);
    ct_engine_destroy(&small);
}

int main(int argc, char **argv) {
    if (argc > 1) n_pairs = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_exact),   cmocka_unit_test(test_estimates),   cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_aligned),         cmocka_unit_test(test_balls),       cmocka_unit_test(test_bits),
        cmocka_unit_test(test_order_of_equals), cmocka_unit_test(test_boxes),       cmocka_unit_test(test_refined),
        cmocka_unit_test(test_pair_budget),     cmocka_unit_test(test_time_budget), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
