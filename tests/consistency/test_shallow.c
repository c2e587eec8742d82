/* test_shallow.c - contacts that are shallow: a ball on a slab in nine orientations against its closed form, a pixel
 * lattice that gives the same sums whether its window was narrowed or not, and error estimates that hold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"
#include "tests/scenes/clip.h"

/* A ball on a slab of 6 x 6 x 1, turned together, and how deep its lowest vertex lies in the slab. */
struct resting {
    struct shape ball, slab;
    double pose[2][12];
    struct corner top; /* the slab's, as seen by the ball */
};

static struct resting rest(int level, double depth, int orientation) {
    struct resting r = {.ball = shape_icosphere(1, level), .slab = shape_box(6, 6, 1), .top = {.n = 1}};
    uint64_t rng = (uint64_t)orientation;
    double low = 0;
    for (uint32_t v = 0; v < r.ball.n_vertices; v++) low = fmin(low, (double)r.ball.positions[3 * v + 2]);
    shape_pose_random(&rng, 0, r.pose[0]);
    if (orientation == 0) shape_pose_identity(r.pose[0]);
    if (orientation == 1) shape_pose_axis((double[]){1, 0, 0}, 1.0 / 12, (double[]){0, 0, 0}, r.pose[0]);
    memcpy(r.pose[1], r.pose[0], sizeof r.pose[1]);
    for (int k = 0; k < 3; k++) {
        const double up = r.pose[0][4 * k + 2];
        r.pose[1][4 * k + 3] = up * (low + depth - 0.5);
        r.top.apex[k] = up * (low + depth);
        r.top.normal[0][k] = up;
    }
    return r;
}

static void free_resting(struct resting *r) {
    shape_free(&r->ball);
    shape_free(&r->slab);
}

static ct_result *step_resting(const struct resting *r, const ct_scene_settings *settings, uint32_t want) {
    const struct placed bodies[2] = {{&r->ball, r->pose[0], 0}, {&r->slab, r->pose[1], 0}};
    return stage_once(engine, settings, bodies, 2, want);
}

/* The relative errors of a contact's volume, and of its force. */
struct errors {
    double volume, force;
};

static struct errors errors_of(const ct_result *result, const struct clipped *truth) {
    assert_int_equal(result->n_contacts, 1);
    const ct_contact *c = result->contacts;
    double off = 0, force = 0;
    for (int k = 0; k < 3; k++) {
        off += pow(c->generalized_gradient[0][k] - truth->wrench[k], 2);
        force += pow(truth->wrench[k], 2);
    }
    return (struct errors){fabs(c->volume / truth->volume - 1), sqrt(off / force)};
}

static void test_ball_on_slab(void **state) {
    (void)state;
    static const double depths[] = {1e-2, 1e-3, 1e-4, 1e-5};
    const ct_scene_settings settings = stage_resolution(64);
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
        struct errors worst = {0, 0};
        for (int orientation = 0; orientation < 9; orientation++) {
            struct resting r = rest(5, depths[d], orientation);
            struct clipped truth = clip(&r.ball, r.pose[0], &r.top, (double[]){0, 0, 0});
            ct_result *result = step_resting(&r, &settings, CT_WANT_ALL);
            const struct errors e = errors_of(result, &truth);
            worst.volume = fmax(worst.volume, e.volume);
            worst.force = fmax(worst.force, e.force);
            ct_result_free(&result);
            free(truth.gradient);
            free_resting(&r);
        }
        print_message("%g deep: volume within %.2f %%, force within %.2f %%\n", depths[d], 100 * worst.volume,
                      100 * worst.force);
        assert_true(worst.volume <= 0.01 && worst.force <= 0.02);
    }
}

/* Two of three views see nothing of a contact that is thinner than a pixel. */
static void test_thinner_than_a_pixel(void **state) {
    (void)state;
    const ct_scene_settings settings = stage_pixel(0.01);
    struct resting r = rest(5, 1e-3, 0);
    struct clipped truth = clip(&r.ball, r.pose[0], &r.top, (double[]){0, 0, 0});
    ct_result *result = step_resting(&r, &settings, CT_WANT_ALL);
    const struct errors e = errors_of(result, &truth);
    assert_true(e.volume <= 0.02 && e.force <= 0.02);
    ct_result_free(&result);
    free(truth.gradient);
    free_resting(&r);
}

/* ---- the same samples ---- */

/* Adds small tetrahedra at these places. */
static void add_tetrahedra(struct shape *shape, const double pose[12], const double (*at)[3], uint32_t n) {
    struct shape tetrahedron = shape_tetrahedron(0.02);
    const uint32_t first = shape->n_vertices, first_triangle = shape->n_triangles;
    shape->n_vertices += n * tetrahedron.n_vertices;
    shape->n_triangles += n * tetrahedron.n_triangles;
    shape->positions = realloc(shape->positions, shape->n_vertices * 3 * sizeof *shape->positions);
    shape->triangles = realloc(shape->triangles, shape->n_triangles * 3 * sizeof *shape->triangles);
    assert_true(shape->positions && shape->triangles);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t v = 0; v < tetrahedron.n_vertices; v++)
            for (uint32_t k = 0; k < 3; k++) { /* in the shape's frame: turned back */
                double x = (double)tetrahedron.positions[3 * v + k];
                for (uint32_t j = 0; j < 3; j++) x += pose[4 * j + k] * (at[i][j] - pose[4 * j + 3]);
                shape->positions[3 * (first + i * tetrahedron.n_vertices + v) + k] = (float)x;
            }
        for (uint32_t t = 0; t < 3 * tetrahedron.n_triangles; t++)
            shape->triangles[3 * (first_triangle + i * tetrahedron.n_triangles) + t] =
                tetrahedron.triangles[t] + first + i * tetrahedron.n_vertices;
    }
    shape_free(&tetrahedron);
}

/* With tetrahedra far from the contact both bodies reach through the whole overlap of their boxes, so that the window
 * cannot shrink; they touch nothing. On a pixel lattice the window that does shrink only drops empty samples. */
static void test_pixel_lattice_keeps_its_samples(void **state) {
    (void)state;
    /* Turns z to (1, 1, 1): above the slab all coordinates sum to more than -1.74. */
    const double axis[3] = {-0.70710678118654752, 0.70710678118654752, 0}, turns = 0.152043361992;
    /* Of the ball; then of the slab, outside the ball. */
    const double far[2][4][3] = {{{-0.9, 0.8, 0.8}, {0.8, -0.9, 0.8}, {0.8, 0.8, -0.9}, {0.9, 0.9, 0.9}},
                                 {{-0.93, 0.7, 0.7}, {0.7, -0.93, 0.7}, {0.7, 0.7, -0.93}, {0.93, 0.7, 0.93}}};
    static const double pitches[] = {0x1p-8, 0.004, 0.0021};
    for (size_t i = 0; i < sizeof pitches / sizeof *pitches; i++) {
        struct resting narrow = rest(4, 4e-3, 0), wide = rest(4, 4e-3, 0);
        for (int b = 0; b < 2; b++) {
            double turn[12], to[12];
            shape_pose_axis(axis, turns, (double[]){0, 0, 0}, turn);
            for (int j = 0; j < 12; j++) {
                to[j] = 0;
                for (int k = 0; k < 3; k++) to[j] += turn[j / 4 * 4 + k] * narrow.pose[b][4 * k + j % 4];
            }
            memcpy(narrow.pose[b], to, sizeof to);
            memcpy(wide.pose[b], to, sizeof to);
        }
        add_tetrahedra(&wide.ball, wide.pose[0], far[0], 4);
        add_tetrahedra(&wide.slab, wide.pose[1], far[1], 4);
        const ct_scene_settings settings = stage_pixel(pitches[i]);
        ct_result *a = step_resting(&narrow, &settings, CT_WANT_ALL), *b = step_resting(&wide, &settings, CT_WANT_ALL);
        assert_true(a->n_contacts == 1 && b->n_contacts == 1);
        assert_true(20 * a->rays < b->rays);
        const ct_contact *c = a->contacts, *d = b->contacts;
        assert_memory_equal(c->volumes, d->volumes, sizeof c->volumes);
        assert_memory_equal(c->count, d->count, sizeof c->count);
        assert_true(a->n_entries > 20);
        assert_memory_equal(a->vertices, b->vertices, a->n_entries * sizeof *a->vertices);
        assert_memory_equal(a->gradient, b->gradient, a->n_entries * 3 * sizeof *a->gradient);
        for (int k = 0; k < 3; k++) assert_true(c->generalized_gradient[0][k] == d->generalized_gradient[0][k]);
        ct_result_free(&a);
        ct_result_free(&b);
        free_resting(&narrow);
        free_resting(&wide);
    }
}

/* ---- error estimates ---- */

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Places a cube of side 12 so that a face, an edge or a corner of it lies `depth` deep in the shape; its position, and
 * what of it the shape can meet. */
static struct corner press(const struct shape *shape, const double pose[12], int planes, double depth,
                           double cube[12]) {
    struct corner corner = {.n = planes};
    double inward[3] = {0, 0, 0}, lowest[3] = {0, 0, 0}, least = INFINITY;
    for (int j = 0; j < planes; j++)
        for (int k = 0; k < 3; k++) inward[k] += cube[4 * k + j] / sqrt(planes);
    for (uint32_t v = 0; v < shape->n_vertices; v++) {
        double p[3], along = 0;
        for (int k = 0; k < 3; k++) {
            p[k] = pose[4 * k + 3];
            for (int j = 0; j < 3; j++) p[k] += pose[4 * k + j] * (double)shape->positions[3 * v + (uint32_t)j];
            along += p[k] * inward[k];
        }
        if (along < least) {
            least = along;
            memcpy(lowest, p, sizeof lowest);
        }
    }
    for (int k = 0; k < 3; k++) {
        corner.apex[k] = cube[4 * k + 3] = lowest[k] + depth * inward[k];
        for (int j = 0; j < planes; j++) {
            corner.normal[j][k] = cube[4 * k + j];
            cube[4 * k + 3] -= 6 * cube[4 * k + j];
        }
    }
    return corner;
}

static void test_estimates(void **state) {
    (void)state;
    enum { N = 400 };
    struct shape shapes[] = {
        shape_icosphere(1, 3), shape_blob(1, 3, 0.4, 3), shape_torus(0.8, 0.3, 32, 16),        shape_cube(1.6, 3),
        shape_l_prism(1.6, 1), shape_tetrahedron(1.5),   shape_bolt(0.8, 0.15, 0.3, 4, 24, 12)};
    struct shape cube = shape_box(12, 12, 12);
    uint64_t rng = 11;
    double ratio[N];
    int n = 0, held = 0;
    for (int round = 0; round < N; round++) {
        const struct shape *shape = &shapes[shape_random(&rng) % (sizeof shapes / sizeof *shapes)];
        double pose[12], at[12];
        shape_pose_random(&rng, 0.3, pose);
        shape_pose_random(&rng, 0, at);
        if (round % 3 == 0) shape_pose_identity(at);
        const double depth = ldexp(1, -(int)(shape_random(&rng) % 11)) * shape_uniform(&rng, 0.7, 1.3);
        const struct corner corner = press(shape, pose, 1 + round % 3, depth, at);
        struct clipped truth = clip(shape, pose, &corner, (double[]){0, 0, 0});
        free(truth.gradient);
        const uint32_t resolution = 8u << shape_random(&rng) % 5;
        const ct_scene_settings settings =
            round % 2 ? stage_resolution(resolution) : stage_pixel(fmax(8 * cbrt(truth.volume) / resolution, 1e-3));
        ct_result *result = stage_once(engine, &settings, (struct placed[]){{shape, pose, 0}, {&cube, at, 0}}, 2, 0);
        if (result->n_contacts) {
            const ct_contact *c = result->contacts;
            const double error = fabs(c->volume - truth.volume);
            assert_true(c->error_estimate > 0);
            held += c->error_estimate >= error;
            ratio[n++] = c->error_estimate / error;
        }
        ct_result_free(&result);
    }
    qsort(ratio, (size_t)n, sizeof *ratio, compare_doubles);
    print_message("%d estimates: %.1f %% hold, median %.1f times the error\n", n, 100.0 * held / n, ratio[n / 2]);
    assert_true(n > N * 9 / 10 && held >= 0.94 * n && ratio[n / 2] <= 6);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) shape_free(&shapes[i]);
    shape_free(&cube);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ball_on_slab),
        cmocka_unit_test(test_thinner_than_a_pixel),
        cmocka_unit_test(test_pixel_lattice_keeps_its_samples),
        cmocka_unit_test(test_estimates),
    };
    return cmocka_run_group_tests_name("shallow", tests, setup, teardown);
}
