/* test_points.c - the points of contacts against closed forms: corners of boxes, one point of a ball, two of a
 * cylinder; areas that sum to the contact's; half-spaces, patches, cells, bodies with themselves; equal bits whatever
 * the order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/after/points.h"
#include "tests/scenes/stage.h"

static ct_engine *engine;

static void near(double a, double b, double tolerance) {
    if (!(fabs(a - b) <= tolerance)) fail_msg("%.17g is not %.17g", a, b);
}

static ct_scene_settings exact_with(uint32_t max_points) {
    ct_scene_settings settings = stage_exact();
    settings.max_points = max_points;
    return settings;
}

/* Shares sum to 1, depths are positive, normals are the contact's, and one point for each place. */
static void check_points(const ct_result *r, const ct_contact *c, uint32_t most) {
    double sum = 0;
    assert_true(c->n_points > 0 && c->n_points <= most);
    assert_true(c->first_point + c->n_points <= r->n_points);
    for (uint64_t i = 0; i < c->n_points; i++) {
        const ct_point *p = &r->points[c->first_point + i];
        assert_true(p->depth > 0 && p->weight >= 0);
        assert_int_equal(p->group[0], c->index);
        sum += p->weight;
        for (uint64_t k = 0; k < i; k++)
            assert_true(memcmp(p->position, r->points[c->first_point + k].position, sizeof p->position) != 0);
    }
    near(sum, 1, 1e-12);
}

/* Whether a point of the contact is at (x, y, z), with this depth and share. */
static void expect_point(const ct_result *r, const ct_contact *c, double x, double y, double z, double depth,
                         double weight, double tolerance) {
    for (uint64_t i = c->first_point; i < c->first_point + c->n_points; i++) {
        const ct_point *p = &r->points[i];
        const double off = fabs(p->position[0] - x) + fabs(p->position[1] - y) + fabs(p->position[2] - z);
        if (off > tolerance) continue;
        near(p->depth, depth, tolerance);
        near(p->weight, weight, 10 * tolerance);
        for (int k = 0; k < 3; k++) near(p->normal[k], c->normal[k], 1e-12);
        return;
    }
    fail_msg("no point at %g %g %g", x, y, z);
}

/* A box on a floor, which is a mesh, or a half-space: its four lower corners, each with a quarter of the area. */
static void test_box_on_plane(void **state) {
    (void)state;
    struct shape floor = shape_box(4, 4, 1), box = shape_cube(0.5, 6), coarse = shape_box(0.5, 0.75, 0.5);
    double low[12], high[12], plane[12];
    shape_pose_identity(low);
    shape_pose_identity(high);
    shape_pose_identity(plane);
    low[11] = -0.5;
    high[3] = 0.125;
    high[11] = 0.25 - 0.0625;
    for (int how = 0; how < 5; how++) { /* exact on a mesh and on a half-space, ldi, deformable, many squares */
        const struct shape *above = how == 4 ? &box : &coarse;
        const struct placed bodies[] = {{how == 1 ? NULL : &floor, how == 1 ? plane : low, 0, 0},
                                        {above, high, how == 3 ? CT_BODY_DEFORMABLE : 0, 0}};
        ct_scene_settings settings = how == 2 ? stage_pixel(1.0 / 64) : exact_with(8);
        settings.max_points = 8;
        ct_result *r = stage_once(engine, &settings, bodies, 2, 0);
        assert_int_equal(r->n_contacts, 1);
        const ct_contact *c = &r->contacts[0];
        check_points(r, c, 8);
        assert_int_equal(c->n_points, 4);
        const double half = how == 4 ? 0.25 : 0.375;
        for (int i = 0; i < 4; i++)
            expect_point(r, c, 0.125 + (i & 1 ? 0.25 : -0.25), i & 2 ? half : -half, -0.03125, 0.0625, 0.25, 2e-5);
        ct_result_free(&r);
    }
    shape_free(&floor);
    shape_free(&box);
    shape_free(&coarse);
}

/* As many as are asked for, the deepest first: a box that dips deeper on one side. */
static void test_tilted_box(void **state) {
    (void)state;
    struct shape floor = shape_box(4, 4, 1), box = shape_box(1, 1, 1);
    double low[12], high[12];
    shape_pose_identity(low);
    low[11] = -0.5;
    const double turns = 0.01, up[3] = {0, 0, 0.44};
    shape_pose_axis((double[]){0, 1, 0}, turns, up, high); /* x = 0.5 goes down */
    const struct placed bodies[] = {{&floor, low, 0, 0}, {&box, high, 0, 0}};
    const double slope = sin(2 * M_PI * turns), level = cos(2 * M_PI * turns);
    for (uint32_t most = 1; most <= 6; most++) {
        const ct_scene_settings settings = exact_with(most);
        ct_result *r = stage_once(engine, &settings, bodies, 2, 0);
        const ct_contact *c = &r->contacts[0];
        check_points(r, c, most);
        assert_int_equal(c->n_points, most < 4 ? most : 4);
        const ct_point *p = &r->points[c->first_point];
        for (uint64_t i = 1; i < c->n_points; i++) assert_true(p[i].depth <= p->depth * (1 + 1e-3));
        assert_true(fabs(p->position[0] - 0.5) < 0.05 && fabs(fabs(p->position[1]) - 0.5) < 1e-3);
        /* The corner at x = 0.5 is this far below the floor, along a normal between both surfaces'. */
        near(p->depth, 0.5 * slope + 0.5 * level - 0.44, 2e-3);
        if (most > 1) /* the other end of the deep edge: nearer than the corner across, but three times as deep */
            assert_true(p[1].position[0] > 0.4 && p[1].position[1] * p[0].position[1] < 0);
        if (most >= 4) { /* areas balance about the middle, though depths differ */
            double moment[2] = {0, 0};
            for (uint64_t i = 0; i < 4; i++)
                for (int k = 0; k < 2; k++) moment[k] += p[i].weight * p[i].position[k];
            for (int k = 0; k < 2; k++) near(moment[k], 0.5 * (c->side_center[0][k] + c->side_center[1][k]), 2e-3);
        }
        ct_result_free(&r);
    }
    shape_free(&floor);
    shape_free(&box);
}

/* Two boxes, one of which is moved along both: the corners of the rectangle that they share, none of which is a vertex
 * but two. */
static void test_stacked_boxes(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    double low[12], high[12];
    shape_pose_identity(low);
    const double offsets[][2] = {{0.25, 0.375}, {0, 0.5}, {0, 0}, {-0.125, 0}};
    for (int i = 0; i < 4; i++) {
        shape_pose_identity(high);
        high[3] = offsets[i][0];
        high[7] = offsets[i][1];
        high[11] = 0.9375;
        const struct placed bodies[] = {{&box, low, 0, 0}, {&box, high, 0, 0}};
        for (int m = 0; m < 2; m++) {
            ct_scene_settings settings = m ? stage_pixel(1.0 / 64) : stage_exact();
            settings.max_points = 16;
            ct_result *r = stage_once(engine, &settings, bodies, 2, 0);
            const ct_contact *c = &r->contacts[0];
            check_points(r, c, 16);
            assert_int_equal(c->n_points, 4);
            const double lo[2] = {fmax(offsets[i][0], 0) - 0.5, fmax(offsets[i][1], 0) - 0.5};
            const double hi[2] = {fmin(offsets[i][0], 0) + 0.5, fmin(offsets[i][1], 0) + 0.5};
            for (int k = 0; k < 4; k++) /* normals of a corner's contact are not quite upright */
                if (fabs(c->normal[2]) > 1 - 1e-9)
                    expect_point(r, c, k & 1 ? hi[0] : lo[0], k & 2 ? hi[1] : lo[1], 0.46875, 0.0625, 0.25, 1e-4);
            ct_result_free(&r);
        }
    }
    shape_free(&box);
}

/* A ball has one point, at its lowest place; a cylinder on its side has one at either end. */
static void test_ball_and_cylinder(void **state) {
    (void)state;
    struct shape floor = shape_box(4, 4, 1), ball = shape_icosphere(0.5, 5), roller = shape_cylinder(0.5, 1, 128);
    double low[12], at[12];
    shape_pose_identity(low);
    low[11] = -0.5;
    uint64_t rng = 5;
    for (int i = 0; i < 8; i++) {
        shape_pose_random(&rng, 0, at);
        at[3] = 0.3;
        at[11] = 0.5 - 0.03;
        const struct placed bodies[] = {{&floor, low, 0, 0}, {&ball, at, 0, 0}};
        for (int m = 0; m < 2; m++) {
            ct_scene_settings settings = m ? stage_resolution(64) : stage_exact();
            settings.max_points = 8;
            ct_result *r = stage_once(engine, &settings, bodies, 2, 0);
            check_points(r, &r->contacts[0], 8);
            assert_int_equal(r->contacts[0].n_points, 1);
            near(r->points[0].depth, 0.03, 1e-3);
            near(r->points[0].position[0], 0.3, 0.02);
            near(r->points[0].position[1], 0, 0.02);
            assert_true(r->points[0].weight == 1);
            ct_result_free(&r);
        }
    }
    shape_pose_axis((double[]){1, 0, 0}, 0.25, (double[]){0, 0, 0.5 - 0.03}, at);
    const struct placed bodies[] = {{&floor, low, 0, 0}, {&roller, at, 0, 0}};
    const ct_scene_settings settings = exact_with(8);
    ct_result *r = stage_once(engine, &settings, bodies, 2, 0);
    check_points(r, &r->contacts[0], 8);
    assert_int_equal(r->contacts[0].n_points, 2);
    for (int end = -1; end <= 1; end += 2) {
        bool is_found = false;
        for (uint64_t i = 0; i < r->n_points; i++)
            is_found = is_found || (fabs(r->points[i].position[1] - 0.5 * end) < 1e-3 && r->points[i].depth > 0.028);
        assert_true(is_found);
    }
    ct_result_free(&r);
    shape_free(&floor);
    shape_free(&ball);
    shape_free(&roller);
}

/* Two balls of radius 0.5: no point outside of their lens, and none deeper than it. */
static void test_two_balls(void **state) {
    (void)state;
    uint64_t rng = 11;
    for (int level = 2; level <= 4; level++) {
        struct shape ball = shape_icosphere(0.5, level);
        for (int i = 0; i < 40; i++) {
            double still[12], moved[12];
            shape_pose_identity(still);
            shape_pose_random(&rng, 0.5, moved);
            const double *t = (const double[]){moved[3], moved[7], moved[11]};
            const double apart = sqrt(t[0] * t[0] + t[1] * t[1] + t[2] * t[2]);
            if (apart < 0.5) continue;
            const struct placed bodies[] = {{&ball, still, 0, 0}, {&ball, moved, 0, 0}};
            for (int m = 0; m < 2; m++) {
                ct_scene_settings settings = m ? stage_resolution(64) : stage_exact();
                settings.max_points = 4;
                ct_result *r = stage_once(engine, &settings, bodies, 2, 0);
                for (uint64_t k = 0; k < r->n_points; k++) {
                    const double *p = r->points[k].position;
                    const double q[3] = {p[0] - t[0], p[1] - t[1], p[2] - t[2]};
                    assert_true(sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]) < 0.51);
                    assert_true(sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2]) < 0.51);
                    assert_true(r->points[k].depth < 1 - apart + 0.01);
                }
                ct_result_free(&r);
            }
        }
        shape_free(&ball);
    }
}

/* A table with two feet: each patch has its own four points. With cells, each point is a cell. */
static void test_patches_and_cells(void **state) {
    (void)state;
    struct shape floor = shape_box(4, 4, 1), left = shape_box(0.25, 0.25, 0.5), right = shape_box(0.5, 0.25, 0.5);
    shape_translate(&left, -0.75, 0, 0);
    shape_translate(&right, 0.75, 0, 0);
    struct shape feet = shape_merge(&left, &right);
    double low[12], high[12];
    shape_pose_identity(low);
    shape_pose_identity(high);
    low[11] = -0.5;
    high[11] = 0.25 - 0.0625;
    const struct placed bodies[] = {{&floor, low, 0, 0}, {&feet, high, 0, 0}};
    ct_scene_settings settings = exact_with(4);
    settings.patches = true;
    ct_result *r = stage_once(engine, &settings, bodies, 2, 0);
    assert_int_equal(r->n_contacts, 2);
    assert_int_equal(r->n_points, 8);
    for (int i = 0; i < 2; i++) {
        const ct_contact *c = &r->contacts[i];
        const double half = i ? 0.125 : 0.25, middle = i ? -0.75 : 0.75; /* the larger is first */
        check_points(r, c, 4);
        assert_int_equal(c->n_points, 4);
        for (int k = 0; k < 4; k++)
            expect_point(r, c, middle + (k & 1 ? half : -half), k & 2 ? 0.125 : -0.125, -0.03125, 0.0625, 0.25, 1e-4);
    }
    ct_result_free(&r);

    settings = stage_pixel(1.0 / 64);
    settings.cell_size = 0.25;
    for (uint32_t most = 4; most <= 64; most *= 4) {
        settings.max_points = most;
        r = stage_once(engine, &settings, bodies, 2, 0);
        const ct_contact *c = &r->contacts[0];
        check_points(r, c, most);
        assert_int_equal(c->n_points, c->n_cells < most ? c->n_cells : most);
        double last = INFINITY;
        for (uint64_t i = 0; i < c->n_points; i++) {
            const ct_point *p = &r->points[i];
            const ct_contact *cell = &r->cells[p->group[1]];
            assert_int_equal(cell->index, p->group[1]);
            assert_true(cell->volume <= last && p->depth <= cell->depth && p->depth <= 0.25 * 1.7321);
            for (int k = 0; k < 3; k++) {
                assert_true(p->position[k] >= 0.25 * cell->cell[k] && p->position[k] <= 0.25 * (cell->cell[k] + 1));
            }
            near(p->position[2], -0.03125, 1e-6); /* the middle of what is inside both */
            last = cell->volume;
        }
        ct_result_free(&r);
    }
    shape_free(&floor);
    shape_free(&left);
    shape_free(&right);
    shape_free(&feet);
}

/* Two shells in one mesh, which overlap as the pair does: the same corners. */
static void test_self_contact(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1), other = shape_box(0.5, 0.75, 1);
    shape_translate(&other, 0.125, 0, 0.9375);
    struct shape both = shape_merge(&box, &other);
    const struct placed bodies[] = {{&both, NULL, 0, 1}};
    ct_scene_settings settings = stage_pixel(1.0 / 64);
    settings.max_points = 8;
    ct_result *r = stage_once(engine, &settings, bodies, 1, 0);
    assert_int_equal(r->n_contacts, 1);
    check_points(r, &r->contacts[0], 8);
    assert_int_equal(r->n_points, 4);
    for (int k = 0; k < 4; k++)
        expect_point(r, &r->contacts[0], 0.125 + (k & 1 ? 0.25 : -0.25), k & 2 ? 0.375 : -0.375, 0.46875, 0.0625, 0.25,
                     1e-4);
    ct_result_free(&r);
    shape_free(&box);
    shape_free(&other);
    shape_free(&both);
}

/* NULL: this build or machine has no CUDA. */
static ct_engine *cuda_engine(void) {
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = "cuda";
    ct_engine *cuda = NULL;
    ct_error error = {0};
    if (ct_engine_create(&options, &cuda, &error)) print_message("without CUDA: %s\n", error.message);
    return cuda;
}

/* Random pairs: the same bits by any number of threads, on CUDA, and with vertices and triangles in another order;
 * depths are no longer than the intersection; a contact without points wanted has none. */
static void test_random_pairs(void **state) {
    (void)state;
    ct_engine *other = stage_engine(3, "base"), *cuda = cuda_engine();
    struct shape a = shape_blob(0.5, 4, 0.3, 3), b = shape_blob(0.4, 3, 0.4, 9), shuffled = shape_copy(&b);
    uint64_t rng = 77;
    shape_shuffle(&shuffled, &rng);
    for (int i = 0; i < 12; i++) {
        double pose[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.35, pose[k]);
        const struct placed bodies[] = {{&a, pose[0], 0, 0}, {&b, pose[1], 0, 0}};
        const struct placed again[] = {{&a, pose[0], 0, 0}, {&shuffled, pose[1], 0, 0}};
        for (int m = 0; m < 2; m++) {
            ct_scene_settings settings = m ? stage_resolution(32) : stage_exact();
            settings.max_points = 6;
            ct_result *r[4] = {stage_once(engine, &settings, bodies, 2, 0), stage_once(other, &settings, bodies, 2, 0),
                               stage_once(engine, &settings, again, 2, 0),
                               stage_once(cuda ? cuda : engine, &settings, bodies, 2, 0)};
            for (int k = 0; k < 4; k++) {
                assert_int_equal(r[k]->n_points, r[0]->n_points);
                if (!r[0]->n_points) continue;
                assert_memory_equal(r[k]->points, r[0]->points, r[0]->n_points * sizeof *r[0]->points);
                check_points(r[k], &r[k]->contacts[0], 6);
            }
            settings.max_points = 0;
            ct_result *without = stage_once(engine, &settings, bodies, 2, 0);
            assert_int_equal(without->n_contacts, r[0]->n_contacts);
            assert_int_equal(without->n_points, 0);
            assert_null(without->points);
            assert_null(without->weights);
            ct_result_free(&without);
            for (int k = 0; k < 4; k++) ct_result_free(&r[k]);
        }
    }
    shape_free(&a);
    shape_free(&b);
    shape_free(&shuffled);
    ct_engine_destroy(&other);
    ct_engine_destroy(&cuda);
}

/* ---- points on lines of their own, against all triangles one by one ---- */

/* A surface in world axes. */
struct placed_shape {
    double (*corner)[3][3]; /* [n] */
    uint32_t n;
};

static struct placed_shape place_shape(const struct shape *shape, const double pose[12]) {
    struct placed_shape out = {malloc(shape->n_triangles * sizeof *out.corner), (uint32_t)shape->n_triangles};
    for (uint64_t t = 0; t < shape->n_triangles; t++)
        for (int c = 0; c < 3; c++) {
            const float *p = shape->positions + 3 * (size_t)shape->triangles[3 * t + (uint64_t)c];
            for (int i = 0; i < 3; i++)
                out.corner[t][c][i] = pose[4 * i] * (double)p[0] + pose[4 * i + 1] * (double)p[1] +
                                      pose[4 * i + 2] * (double)p[2] + pose[4 * i + 3];
        }
    return out;
}

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double a[3], const double b[3], double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

/* Where the line from a point along its normal, with the point at 0, comes through a surface. */
struct hit {
    double at, leans; /* leans: the cosine between the line and the surface's normal: it leaves the body where > 0 */
    int side;
};

struct hits {
    struct hit *all;
    uint32_t n;
    bool is_clear; /* the line passes no edge closely */
};

static int by_place(const void *a, const void *b) {
    const struct hit *p = a, *q = b;
    return (p->at > q->at) - (p->at < q->at);
}

static void add_hits(const struct placed_shape *of, int side, const double at[3], const double along[3],
                     struct hits *hits) {
    for (uint32_t t = 0; t < of->n; t++) {
        double edge[2][3], normal[3], part[3], to[3][3];
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 3; i++) to[c][i] = of->corner[t][c][i] - at[i];
        for (int i = 0; i < 3; i++) {
            edge[0][i] = to[1][i] - to[0][i];
            edge[1][i] = to[2][i] - to[0][i];
        }
        cross(edge[0], edge[1], normal);
        const double leans = dot(normal, along), size = sqrt(dot(normal, normal));
        int n_positive = 0, n_near = 0;
        bool is_beside = false;
        for (int c = 0; c < 3; c++) {
            double of_edge[3];
            cross(to[(c + 1) % 3], to[(c + 2) % 3], of_edge);
            part[c] = dot(of_edge, along);
            n_positive += part[c] > 0;
            n_near += fabs(part[c]) < 1e-9 * size;
            is_beside = is_beside || part[c] / leans < -1e-6;
        }
        if (n_near && !is_beside) hits->is_clear = false;
        if (n_positive != 0 && n_positive != 3) continue;
        hits->all[hits->n++] = (struct hit){dot(normal, to[0]) / leans, leans / size, side};
    }
}

/* The first hit in one direction that ends what is inside both. */
static const struct hit *find_end(const struct hits *hits, const int from[2], bool up) {
    int winding[2] = {from[0], from[1]};
    for (uint32_t k = 0; k < hits->n; k++) {
        const struct hit *hit = &hits->all[up ? k : hits->n - 1 - k];
        if (up ? hit->at <= 0 : hit->at > 0) continue;
        winding[hit->side] += (hit->leans > 0) == up ? -1 : 1;
        if (winding[0] < 1 || winding[1] < 1) return hit;
    }
    fail_msg("a line of a point has no end");
    return NULL;
}

/* The point is inside both bodies, in the middle of the stretch that its line along its normal has in them around it, whose
 * length is its depth; the surfaces there face along the normal. False: the line is too near to an edge to tell. */
static bool check_line(const struct placed_shape bodies[2], const ct_point *p) {
    struct hits hits = {malloc((bodies[0].n + bodies[1].n) * sizeof *hits.all), 0, true};
    int winding[2] = {0, 0};
    for (int s = 0; s < 2; s++) add_hits(&bodies[s], s, p->position, p->normal, &hits);
    qsort(hits.all, hits.n, sizeof *hits.all, by_place);
    for (uint32_t k = 0; k < hits.n; k++)
        if (hits.all[k].at > 0) winding[hits.all[k].side] += hits.all[k].leans > 0 ? 1 : -1;
    if (hits.is_clear) {
        assert_true(winding[0] > 0 && winding[1] > 0);
        const struct hit *lo = find_end(&hits, winding, false), *hi = find_end(&hits, winding, true);
        near(hi->at - lo->at, p->depth, 1e-6 * p->depth + 1e-12);
        near(hi->at + lo->at, 0, 1e-6 * p->depth + 1e-12);
        assert_true(hi->leans > 0 && lo->leans < 0);
    }
    free(hits.all);
    return hits.is_clear;
}

/* How many are checked. */
static int check_lines(const struct placed_shape bodies[2], const ct_result *r) {
    int checked = 0;
    for (uint64_t i = 0; i < r->n_points; i++) {
        near(dot(r->points[i].normal, r->points[i].normal), 1, 1e-9);
        assert_true(dot(r->points[i].normal, r->contacts[0].normal) > 0);
        checked += check_line(bodies, &r->points[i]);
    }
    return checked;
}

/* Boxes, balls, tori, cylinders and blobs in any pose. In the other order of bodies points are the same bits, and normals
 * opposite. */
static void test_lines(void **state) {
    (void)state;
    struct shape shapes[] = {shape_box(1, 1, 1),         shape_icosphere(0.5, 2),    shape_torus(0.4, 0.15, 24, 12),
                             shape_cylinder(0.3, 1, 24), shape_blob(0.5, 3, 0.4, 3), shape_cube(0.8, 5)};
    enum { SHAPES = sizeof shapes / sizeof *shapes, ROUNDS = 360 };
    uint64_t rng = 2024;
    int checked = 0, n_own = 0, n_points = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const struct shape *of[2] = {&shapes[i % SHAPES], &shapes[(i / SHAPES) % SHAPES]};
        double pose[2][12];
        for (int k = 0; k < 2; k++) shape_pose_random(&rng, 0.45, pose[k]);
        const struct placed bodies[] = {{of[0], pose[0], 0, 0}, {of[1], pose[1], 0, 0}};
        const struct placed swapped[] = {{of[1], pose[1], 0, 0}, {of[0], pose[0], 0, 0}};
        ct_scene_settings settings = i % 4 == 3 ? stage_resolution(32) : exact_with(0);
        settings.max_points = 1 + (uint32_t)i % 12;
        ct_result *r = stage_once(engine, &settings, bodies, 2, 0),
                  *other = stage_once(engine, &settings, swapped, 2, 0);
        const struct placed_shape surfaces[] = {place_shape(of[0], pose[0]), place_shape(of[1], pose[1])};
        checked += check_lines(surfaces, r);
        if (settings.method == CT_METHOD_EXACT) {
            assert_int_equal(r->n_points, other->n_points);
            for (uint64_t p = 0; p < r->n_points; p++) {
                const ct_point *a = &r->points[p], *b = &other->points[p];
                assert_memory_equal(a->position, b->position, sizeof a->position);
                for (int k = 0; k < 3; k++) assert_true(a->normal[k] == -b->normal[k]);
                assert_true(a->depth == b->depth && a->weight == b->weight);
            }
        }
        for (uint64_t p = 0; p < r->n_points; p++, n_points++)
            n_own += dot(r->points[p].normal, r->contacts[0].normal) < 0.999;
        for (int k = 0; k < 2; k++) free(surfaces[k].corner);
        ct_result_free(&r);
        ct_result_free(&other);
    }
    print_message("%d points, %d on clear lines, %d whose normal is not the contact's\n", n_points, checked, n_own);
    assert_true(checked > n_points * 9 / 10 && n_own > n_points / 4);
    for (int k = 0; k < SHAPES; k++) shape_free(&shapes[k]);
}

/* A nut that is pressed along a bolt: points lie all around, each on its flank, and push away from the axis as well. */
static void test_thread(void **state) {
    (void)state;
    struct shape bolt = shape_bolt(0.8, 0.15, 0.4, 4, 48, 12), nut = shape_nut(0.8, 0.15, 0.4, 2, 48, 12, 0.03, 2.2);
    double low[12], high[12];
    shape_pose_identity(low);
    shape_pose_identity(high);
    high[11] = 0.06;
    const struct placed bodies[] = {{&bolt, low, 0, 0}, {&nut, high, 0, 0}};
    const ct_scene_settings settings = exact_with(4);
    ct_result *r = stage_once(engine, &settings, bodies, 2, 0);
    const struct placed_shape surfaces[] = {place_shape(&bolt, low), place_shape(&nut, high)};
    assert_true(r->n_points >= 3);
    assert_true(check_lines(surfaces, r) >= 3);
    for (uint64_t i = 0; i < r->n_points; i++) { /* the bolt is pushed down and, by its flanks, to its axis */
        const ct_point *p = &r->points[i];
        assert_true(fabs(p->normal[2]) > 0.3 && fabs(p->normal[2]) < 0.99);
        assert_true(p->normal[0] * p->position[0] + p->normal[1] * p->position[1] < 0);
    }
    for (int k = 0; k < 2; k++) free(surfaces[k].corner);
    ct_result_free(&r);
    shape_free(&bolt);
    shape_free(&nut);
}

/* A ball whose vertices lie anywhere in a plate, so that each triangle covers many others, in a block: as true as ever, by
 * a number of lines that does not grow with that of the triangles. */
static void press_flat(int level) {
    struct shape ball = shape_icosphere(0.5, level), shapes[2] = {shape_box(2, 2, 1), shape_copy(&ball)};
    double identity[12];
    shape_pose_identity(identity);
    shape_translate(&shapes[0], 0, 0, -0.5);
    uint64_t rng = 5, visits = 0;
    for (uint64_t i = 0; i < 3 * shapes[1].n_vertices; i++) {
        float *x = &shapes[1].positions[i];
        *x = i % 3 == 2 ? *x * 1e-3f : (float)shape_uniform(&rng, -0.5, 0.5);
    }
    const struct placed placed[] = {{&shapes[0], NULL, 0, 0}, {&ball, NULL, CT_BODY_DEFORMABLE, 0}};
    ct_scene_settings settings = stage_resolution(8);
    struct stage stage = stage_open(engine, &settings, placed, 2);
    const ct_update update = {.body = stage.body[1],
                              .kind = CT_UPDATE_POSITIONS,
                              .positions = shapes[1].positions,
                              .dtype = CT_F32,
                              .count = ball.n_vertices};
    ct_result *r = stage_step(&stage, &update, 1, CT_WANT_FRAME | CT_WANT_FRICTION);
    assert_int_equal(r->n_contacts, 1);
    ct_error error = {0};
    stage.scene->settings.max_points = 8;
    assert_int_equal(ct_result_add_points(stage.scene, stage.scene->settings.max_points, r, &visits, &error), CT_OK);
    assert_true(r->n_points > 0);
    const struct placed_shape surfaces[] = {place_shape(&shapes[0], identity), place_shape(&shapes[1], identity)};
    assert_true(check_lines(surfaces, r) > 0);
    assert_in_range(visits, 1, 1024 * 24 * (shapes[0].n_triangles + shapes[1].n_triangles));
    for (int k = 0; k < 2; k++) free(surfaces[k].corner);
    ct_result_free(&r);
    stage_close(&stage);
    shape_free(&ball);
    for (int k = 0; k < 2; k++) shape_free(&shapes[k]);
}

static void test_flat_bodies(void **state) {
    (void)state;
    for (int level = 2; level <= 5; level += 3) press_flat(level);
}

/* A row of blobs, each in the next: contacts of threads that work side by side have their points in order, the same as on
 * one thread. */
static void test_many_contacts(void **state) {
    (void)state;
    enum { N = STAGE_MAX < 20 ? STAGE_MAX : 20 };
    struct shape blob = shape_blob(0.7, 3, 0.3, 3);
    struct placed bodies[N];
    double pose[N][12];
    uint64_t rng = 8;
    ct_result *one = NULL;
    const ct_scene_settings settings = exact_with(4);
    for (int i = 0; i < N; i++) {
        shape_pose_random(&rng, 0.1, pose[i]);
        pose[i][3] += i;
        bodies[i] = (struct placed){&blob, pose[i], CT_BODY_RIGID, 0};
    }
    for (int threads = 1; threads <= 4; threads += 3) {
        ct_engine *other = stage_engine((uint32_t)threads, NULL);
        ct_result *r = stage_once(other, &settings, bodies, N, 0);
        uint64_t n = 0;
        assert_true(r->n_contacts >= N - 1);
        for (size_t i = 0; i < r->n_contacts; i++) {
            assert_int_equal(r->contacts[i].first_point, n);
            n += r->contacts[i].n_points;
        }
        assert_int_equal(r->n_points, n);
        assert_true(n >= r->n_contacts);
        if (one) {
            assert_int_equal(one->n_points, n);
            assert_memory_equal(one->points, r->points, n * sizeof *r->points);
        }
        ct_result_free(&one);
        one = r;
        ct_engine_destroy(&other);
    }
    ct_result_free(&one);
    shape_free(&blob);
}

/* No direction pushes a body out that is wholly inside another: there are no points. */
static void test_nested(void **state) {
    (void)state;
    struct shape outer = shape_box(1, 1, 1), inner = shape_box(0.5, 0.5, 0.5);
    const struct placed bodies[] = {{&outer, NULL, 0, 0}, {&inner, NULL, 0, 0}};
    const ct_scene_settings settings = exact_with(4);
    ct_result *r = stage_once(engine, &settings, bodies, 2, 0);
    assert_int_equal(r->n_contacts, 1);
    assert_int_equal(r->n_points, 0);
    ct_result_free(&r);
    shape_free(&outer);
    shape_free(&inner);
}

/* A step that is cancelled while points are chosen says so, and the next one gives the same bits as ever. */
static void test_cancelled(void **state) {
    (void)state;
    struct shape a = shape_blob(0.5, 4, 0.4, 3), b = shape_torus(0.4, 0.15, 48, 24);
    double aside[12];
    shape_pose_axis((const double[]){1, 2, 3}, 0.2, (const double[]){0.2, 0.1, 0}, aside);
    const struct placed bodies[] = {{&a, NULL, 0, 0}, {&b, aside, CT_BODY_DEFORMABLE, 0}};
    ct_scene_settings settings[2] = {stage_exact(), stage_pixel(0.02)};
    settings[0].max_points = settings[1].max_points = 8;
    for (int i = 0; i < 2; i++) {
        struct stage stage = stage_open(engine, &settings[i], bodies, 2);
        char expected[33], hex[33];
        ct_result *r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
        stage_hash(r, expected);
        assert_true(r->n_points > 2);
        ct_result_free(&r);
        int n_choosing = 0;
        for (uint64_t poll = 1;; poll += 1 + poll / 4) {
            ct_cancel cancel;
            ct_cancel_init(&cancel, 0);
            cancel.at_poll = poll;
            ct_step step = {.scene = stage.scene, .want = CT_WANT_ALL, .cancel = &cancel};
            const ct_status status = ct_engine_run(engine, &step, 1);
            if (!status) {
                ct_result_free(&step.result);
                break;
            }
            assert_int_equal(status, CT_CANCELLED);
            const ct_cancel_point at = ct_cancel_where(&cancel);
            n_choosing += !strcmp(at.phase, "choosing points");
            r = stage_step(&stage, NULL, 0, CT_WANT_ALL);
            stage_hash(r, hex);
            assert_string_equal(hex, expected);
            ct_result_free(&r);
        }
        assert_true(n_choosing >= 2);
        stage_close(&stage);
    }
    shape_free(&a);
    shape_free(&b);
}

static void test_refusals(void **state) {
    (void)state;
    ct_scene_settings settings = exact_with(CT_MAX_POINTS + 1);
    ct_error error = {0};
    ct_scene *scene;
    assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_OUT_OF_RANGE);
    assert_string_equal(error.field, "max_points");
    assert_non_null(strstr(error.message, "expected 1 to 4096, or 0 for none"));
}

static int open_engine(void **state) {
    (void)state;
    engine = stage_engine(2, NULL);
    return 0;
}

static int close_engine(void **state) {
    (void)state;
    ct_engine_destroy(&engine);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_box_on_plane),  cmocka_unit_test(test_tilted_box),
        cmocka_unit_test(test_stacked_boxes), cmocka_unit_test(test_ball_and_cylinder),
        cmocka_unit_test(test_two_balls),     cmocka_unit_test(test_patches_and_cells),
        cmocka_unit_test(test_self_contact),  cmocka_unit_test(test_random_pairs),
        cmocka_unit_test(test_lines),         cmocka_unit_test(test_flat_bodies),
        cmocka_unit_test(test_thread),        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_many_contacts), cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
