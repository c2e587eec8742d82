/* test_exact_second.c - products with the exact second derivative against differences of the gradient, against closed
 * forms and against themselves (symmetry, common translations, order, threads, instruction sets); and the inertia of
 * the intersection against closed forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/consistency/engine.h"
#include "tests/scenes/build.h"

/* ---- two bodies that move ---- */

struct pair {
    struct shape shape[2];
    ct_body_kind kind[2];
    double *positions[2]; /* deformable: [n_vertices][3] */
    double pose[2][12];   /* rigid */
};

/* A direction of both bodies: displacements of all vertices, or a twist. */
struct direction {
    double *values[2];
    double twist[2][6];
};

static void free_pair(struct pair *pair) {
    for (int b = 0; b < 2; b++) {
        shape_free(&pair->shape[b]);
        free(pair->positions[b]);
    }
}

static void free_direction(struct direction *d) {
    free(d->values[0]);
    free(d->values[1]);
}

/* To a multiple of 2^-10, so that positions and small displacements of them are exact in float32. */
static double coarse(double x) {
    return nearbyint(x * 1024) / 1024;
}

static struct pair make_pair(struct shape a, struct shape b, const double pose_a[12], const double pose_b[12],
                             ct_body_kind kind_a, ct_body_kind kind_b) {
    struct pair pair = {.shape = {a, b}, .kind = {kind_a, kind_b}};
    memcpy(pair.pose[0], pose_a, sizeof pair.pose[0]);
    memcpy(pair.pose[1], pose_b, sizeof pair.pose[1]);
    for (int i = 0; i < 2; i++) {
        const struct shape *shape = &pair.shape[i];
        pair.positions[i] = shape_alloc(shape->n_vertices, 3 * sizeof(double));
        for (uint32_t v = 0; v < shape->n_vertices; v++)
            for (int k = 0; k < 3; k++) {
                const float *p = shape->positions + 3 * (size_t)v;
                const double *row = pair.pose[i] + 4 * k;
                pair.positions[i][3 * (size_t)v + (size_t)k] =
                    coarse(row[0] * (double)p[0] + row[1] * (double)p[1] + row[2] * (double)p[2] + row[3]);
            }
    }
    return pair;
}

/* In [-1, 1], multiples of 1/8. */
static double random_eighth(uint64_t *rng) {
    return nearbyint(shape_uniform(rng, -8, 8)) / 8;
}

static struct direction random_direction(const struct pair *pair, uint64_t *rng) {
    struct direction d;
    for (int b = 0; b < 2; b++) {
        const uint32_t n = pair->shape[b].n_vertices;
        d.values[b] = shape_alloc(n, 3 * sizeof(double));
        for (uint32_t i = 0; i < 3 * n; i++) d.values[b][i] = random_eighth(rng);
        for (int i = 0; i < 6; i++) d.twist[b][i] = random_eighth(rng);
    }
    return d;
}

/* A pose moved along h times a twist about its origin. */
static void move_pose(const double pose[12], const double twist[6], double h, double out[12]) {
    const double *w = twist + 3, angle = h * sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]);
    const double a = angle != 0 ? sin(angle) / angle * h : h, half = sin(angle / 2),
                 b = angle != 0 ? 2 * half * half / (angle * angle) * h * h : h * h / 2;
    const double cross[3][3] = {{0, -w[2], w[1]}, {w[2], 0, -w[0]}, {-w[1], w[0], 0}};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            double sum = 0;
            for (int k = 0; k < 3; k++) {
                double square = 0;
                for (int l = 0; l < 3; l++) square += cross[i][l] * cross[l][k];
                sum += ((i == k) + a * cross[i][k] + b * square) * pose[4 * k + j];
            }
            out[4 * i + j] = sum;
        }
        out[4 * i + 3] = pose[4 * i + 3] + h * twist[i];
    }
}

struct run {
    ct_engine *engine;
    struct stage stage;
};

static struct run open_pair(ct_engine *on, const struct pair *pair) {
    const ct_scene_settings settings = stage_exact();
    const struct placed placed[2] = {{&pair->shape[0], NULL, pair->kind[0]}, {&pair->shape[1], NULL, pair->kind[1]}};
    return (struct run){on, stage_open(on, &settings, placed, 2)};
}

/* The pair, moved by h along a direction; with products along n directions. */
static ct_result *step_pair(struct run *run, const struct pair *pair, const struct direction *move, double h,
                            const struct direction *directions, uint32_t n, uint32_t want) {
    ct_update updates[2];
    ct_direction parts[2 * CT_MAX_DIRECTIONS];
    double *moved[2] = {NULL, NULL};
    size_t n_parts = 0;
    memset(updates, 0, sizeof updates);
    memset(parts, 0, sizeof parts);
    for (int b = 0; b < 2; b++) {
        const uint32_t vertices = pair->shape[b].n_vertices;
        updates[b].body = run->stage.body[b];
        updates[b].kind = pair->kind[b] == CT_BODY_RIGID ? CT_UPDATE_POSE : CT_UPDATE_POSITIONS;
        memcpy(updates[b].pose, pair->pose[b], sizeof updates[b].pose);
        if (move) move_pose(pair->pose[b], move->twist[b], h, updates[b].pose);
        moved[b] = shape_alloc(vertices, 3 * sizeof(double));
        for (size_t i = 0; i < 3 * (size_t)vertices; i++)
            moved[b][i] = pair->positions[b][i] + (move ? h * move->values[b][i] : 0);
        updates[b].positions = moved[b];
        updates[b].dtype = CT_F64;
        updates[b].count = vertices;
        for (uint32_t k = 0; k < n; k++) {
            ct_direction *part = &parts[n_parts++];
            *part = (ct_direction){.body = run->stage.body[b], .index = k};
            if (pair->kind[b] == CT_BODY_RIGID) {
                memcpy(part->twist, directions[k].twist[b], sizeof part->twist);
            } else {
                part->values = directions[k].values[b];
                part->dtype = CT_F64;
                part->count = vertices;
            }
        }
    }
    ct_step step = {.scene = run->stage.scene,
                    .updates = updates,
                    .n_updates = 2,
                    .want = want,
                    .directions = parts,
                    .n_directions = n_parts};
    if (ct_engine_run(run->engine, &step, 1)) fail_msg("%s: %s", step.error.field, step.error.message);
    free(moved[0]);
    free(moved[1]);
    return step.result;
}

/* The gradient, [vertices of a, then of b][3]. */
static double *dense_gradient(const struct pair *pair, const ct_result *r) {
    double *g = shape_alloc(pair->shape[0].n_vertices + (uint64_t)pair->shape[1].n_vertices, 3 * sizeof *g);
    assert_int_equal(r->n_contacts, 1);
    for (int b = 0; b < 2; b++)
        for (uint64_t i = r->contacts->first[b]; i < r->contacts->first[b] + r->contacts->count[b]; i++)
            memcpy(g + 3 * ((size_t)r->vertices[i] + (b ? pair->shape[0].n_vertices : 0)), r->gradient + 3 * i,
                   3 * sizeof *g);
    return g;
}

static double *dense_product(const struct pair *pair, const ct_result *r, uint32_t k) {
    double *out = shape_alloc(pair->shape[0].n_vertices + (uint64_t)pair->shape[1].n_vertices, 3 * sizeof *out);
    assert_int_equal(r->n_contacts, 1);
    ct_contact_hessian_product(r, 0, k, (double *const[2]){out, NULL}); /* one body's part, and then the other's */
    ct_contact_hessian_product(r, 0, k, (double *const[2]){NULL, out + 3 * (size_t)pair->shape[0].n_vertices});
    for (int b = 0; b < 2; b++)
        for (uint64_t i = r->contacts->first_product[b];
             i < r->contacts->first_product[b] + r->contacts->count_product[b]; i++) {
            assert_true(r->product_vertices[i] < pair->shape[b].n_vertices);
            if (i > r->contacts->first_product[b]) assert_true(r->product_vertices[i] > r->product_vertices[i - 1]);
        }
    return out;
}

/* The vertices' motion along a direction, as dense_gradient. */
static double *dense_motion(const struct pair *pair, const struct direction *d) {
    double *out = shape_alloc(pair->shape[0].n_vertices + (uint64_t)pair->shape[1].n_vertices, 3 * sizeof *out),
           *to = out;
    for (int b = 0; b < 2; b++)
        for (uint32_t v = 0; v < pair->shape[b].n_vertices; v++, to += 3) {
            const double *w = d->twist[b] + 3, *pose = pair->pose[b];
            const float *p = pair->shape[b].positions + 3 * (size_t)v;
            double arm[3];
            for (int k = 0; k < 3; k++)
                arm[k] = pose[4 * k] * (double)p[0] + pose[4 * k + 1] * (double)p[1] + pose[4 * k + 2] * (double)p[2];
            for (int k = 0; k < 3; k++)
                to[k] = pair->kind[b] == CT_BODY_RIGID
                            ? d->twist[b][k] + w[(k + 1) % 3] * arm[(k + 2) % 3] - w[(k + 2) % 3] * arm[(k + 1) % 3]
                            : d->values[b][3 * (size_t)v + (size_t)k];
        }
    return out;
}

static size_t dense_size(const struct pair *pair) {
    return 3 * ((size_t)pair->shape[0].n_vertices + pair->shape[1].n_vertices);
}

static double norm(const double *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

static double distance(const double *x, const double *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
    return sqrt(sum);
}

static double dot(const double *x, const double *y, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* ---- shapes in contact ---- */

enum { KINDS = 6 };

static struct shape shape_of_kind(int kind, uint64_t *rng) {
    switch (kind) {
    case 0:
        return shape_box(shape_uniform(rng, 0.6, 1.5), shape_uniform(rng, 0.6, 1.5), shape_uniform(rng, 0.6, 1.5));
    case 1:
        return shape_tetrahedron(shape_uniform(rng, 0.9, 1.5));
    case 2:
        return shape_icosphere(0.6, 2);
    case 3:
        return shape_torus(0.6, 0.25, 16, 10);
    case 4:
        return shape_blob(0.7, 3, 0.5, shape_random(rng));
    default:
        return shape_cube(0.9, 4);
    }
}

static struct pair random_pair(int i, uint64_t *rng) {
    double pose[2][12];
    struct shape a = shape_of_kind(i % KINDS, rng), b = shape_of_kind(i / KINDS % KINDS, rng);
    shape_pose_random(rng, 0.3, pose[0]);
    shape_pose_random(rng, 0.3, pose[1]);
    return make_pair(a, b, pose[0], pose[1], i / 2 % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE,
                     i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE);
}

/* ---- differences ---- */

/* Of the gradient and of the 6-vectors. */
static void test_products_are_differences(void **state) {
    (void)state;
    uint64_t rng = 5;
    double worst = 0, worst_generalized = 0;
    int compared = 0;
    for (int i = 0; i < 72; i++) {
        const double h = 0x1p-17;
        struct pair pair = random_pair(i, &rng);
        struct run run = open_pair(engine, &pair);
        struct direction d = random_direction(&pair, &rng);
        ct_result *here = step_pair(&run, &pair, NULL, 0, &d, 1, CT_WANT_GRADIENT);
        if (here->n_contacts) {
            ct_result *ahead = step_pair(&run, &pair, &d, h, NULL, 0, CT_WANT_GRADIENT | CT_WANT_FRAME);
            ct_result *behind = step_pair(&run, &pair, &d, -h, NULL, 0, CT_WANT_GRADIENT | CT_WANT_FRAME);
            double *product = dense_product(&pair, here, 0),
                   *g[2] = {dense_gradient(&pair, ahead), dense_gradient(&pair, behind)};
            const size_t n = dense_size(&pair);
            for (size_t k = 0; k < n; k++) g[0][k] = (g[0][k] - g[1][k]) / (2 * h);
            worst = fmax(worst, distance(g[0], product, n) / norm(product, n));
            double six[12];
            for (int k = 0; k < 12; k++)
                six[k] = (ahead->contacts->generalized_gradient[k / 6][k % 6] -
                          behind->contacts->generalized_gradient[k / 6][k % 6]) /
                         (2 * h);
            worst_generalized =
                fmax(worst_generalized, distance(six, here->generalized_product, 12) / norm(product, n));
            compared++;
            free(product);
            free(g[0]);
            free(g[1]);
            ct_result_free(&ahead);
            ct_result_free(&behind);
        }
        ct_result_free(&here);
        stage_close(&run.stage);
        free_direction(&d);
        free_pair(&pair);
    }
    print_message("%d pairs: products differ from differences by %.1e, 6-vectors by %.1e\n", compared, worst,
                  worst_generalized);
    assert_true(compared > 55);
    assert_true(worst < 1e-5);
    assert_true(worst_generalized < 1e-5);
}

/* ---- symmetry ---- */

static void test_products_are_symmetric(void **state) {
    (void)state;
    uint64_t rng = 8;
    for (int i = 0; i < 36; i++) {
        struct pair pair = random_pair(i, &rng);
        struct run run = open_pair(engine, &pair);
        struct direction d[2] = {random_direction(&pair, &rng), random_direction(&pair, &rng)};
        ct_result *r = step_pair(&run, &pair, NULL, 0, d, 2, 0);
        if (r->n_contacts) {
            const size_t n = dense_size(&pair);
            double *product[2] = {dense_product(&pair, r, 0), dense_product(&pair, r, 1)};
            double *motion[2] = {dense_motion(&pair, &d[0]), dense_motion(&pair, &d[1])};
            const double size = norm(product[0], n) * norm(motion[1], n) + norm(product[1], n) * norm(motion[0], n);
            const double one = dot(product[0], motion[1], n), other = dot(product[1], motion[0], n);
            if (fabs(one - other) > 1e-11 * size) fail_msg("%.17g and %.17g, of %g", one, other, size);
            for (int k = 0; k < 2; k++) {
                free(product[k]);
                free(motion[k]);
            }
        }
        ct_result_free(&r);
        stage_close(&run.stage);
        free_direction(&d[0]);
        free_direction(&d[1]);
        free_pair(&pair);
    }
}

/* A translation of both bodies changes no gradient, and a rotation of both about the origin turns it. */
static void test_common_motions(void **state) {
    (void)state;
    uint64_t rng = 3;
    for (int i = 0; i < 36; i++) {
        struct pair pair = random_pair(i, &rng);
        struct run run = open_pair(engine, &pair);
        struct direction d[3] = {random_direction(&pair, &rng), random_direction(&pair, &rng),
                                 random_direction(&pair, &rng)};
        const double shift[3] = {0.5, -1, 0.25}, turn[3] = {0.5, 0.25, -1};
        for (int b = 0; b < 2; b++) {
            const double *t = pair.pose[b];
            const double carried[3] = {turn[1] * t[11] - turn[2] * t[7], turn[2] * t[3] - turn[0] * t[11],
                                       turn[0] * t[7] - turn[1] * t[3]};
            for (int k = 0; k < 3; k++) {
                d[0].twist[b][k] = shift[k];
                d[0].twist[b][3 + k] = 0;
                d[1].twist[b][k] = carried[k];
                d[1].twist[b][3 + k] = turn[k];
            }
            for (size_t v = 0; v < pair.shape[b].n_vertices; v++) {
                const double *x = pair.positions[b] + 3 * v;
                for (size_t k = 0; k < 3; k++) {
                    d[0].values[b][3 * v + k] = shift[k];
                    d[1].values[b][3 * v + k] = turn[(k + 1) % 3] * x[(k + 2) % 3] - turn[(k + 2) % 3] * x[(k + 1) % 3];
                }
            }
        }
        ct_result *r = step_pair(&run, &pair, NULL, 0, d, 3, CT_WANT_GRADIENT);
        if (r->n_contacts) {
            const size_t n = dense_size(&pair);
            double *zero = dense_product(&pair, r, 0), *turned = dense_product(&pair, r, 1),
                   *other = dense_product(&pair, r, 2), *g = dense_gradient(&pair, r);
            assert_true(norm(zero, n) < 1e-11 * norm(other, n));
            for (int k = 0; k < 12; k++) { /* a deformable body's torque is about the world's origin */
                const double *force = r->contacts->generalized_gradient[k / 6];
                const int i1 = (k + 1) % 3, i2 = (k + 2) % 3;
                const bool is_carried = k % 6 >= 3 && pair.kind[k / 6] != CT_BODY_RIGID;
                const double expected = is_carried ? shift[i1] * force[i2] - shift[i2] * force[i1] : 0;
                assert_true(fabs(r->generalized_product[k] - expected) < 1e-10 * norm(other, n));
            }
            double *expected = shape_alloc(n, sizeof *expected);
            for (size_t v = 0; v < n; v += 3)
                for (size_t k = 0; k < 3; k++)
                    expected[v + k] = turn[(k + 1) % 3] * g[v + (k + 2) % 3] - turn[(k + 2) % 3] * g[v + (k + 1) % 3];
            assert_true(distance(turned, expected, n) < 1e-9 * norm(other, n));
            free(zero);
            free(turned);
            free(other);
            free(expected);
            free(g);
        }
        ct_result_free(&r);
        stage_close(&run.stage);
        for (int k = 0; k < 3; k++) free_direction(&d[k]);
        free_pair(&pair);
    }
}

/* ---- closed forms ---- */

static void shift_pose(double pose[12], double x, double y, double z) {
    shape_pose_identity(pose);
    pose[3] = x, pose[7] = y, pose[11] = z;
}

/* V = (1 - x)(1 - y)(1 - z) of two unit boxes moved by x, y, z. */
static void test_boxes(void **state) {
    (void)state;
    double pose[2][12];
    shift_pose(pose[0], 0, 0, 0);
    shift_pose(pose[1], 0.5, 0.25, 0.125);
    struct pair pair =
        make_pair(shape_box(1, 1, 1), shape_box(1, 1, 1), pose[0], pose[1], CT_BODY_RIGID, CT_BODY_RIGID);
    struct run run = open_pair(engine, &pair);
    struct direction d[3];
    memset(d, 0, sizeof d);
    for (int k = 0; k < 3; k++) d[k].twist[1][k] = 1;
    ct_result *r = step_pair(&run, &pair, NULL, 0, d, 3, 0);
    const double side[3] = {0.5, 0.75, 0.875};
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < 3; j++) {
            const double expected = j == k ? 0 : side[3 - j - k]; /* d2V/dxdy = 1 - z */
            assert_true(fabs(r->generalized_product[12 * k + 6 + j] - expected) < 1e-12);
            assert_true(fabs(r->generalized_product[12 * k + j] + expected) < 1e-12);
        }
    ct_result_free(&r);
    stage_close(&run.stage);
    free_pair(&pair);
}

/* ---- ties ---- */

/* Boxes with faces in common: the product is the mean of those a little to either side. */
static void test_ties_give_the_mean(void **state) {
    (void)state;
    static const double shifts[][3] = {{0, 0, 0.75}, {0.25, 0, 0.5}, {0, 0, 0}, {0.5, 0, 0}};
    uint64_t rng = 4;
    for (size_t s = 0; s < sizeof shifts / sizeof *shifts; s++) {
        double pose[2][12];
        shift_pose(pose[0], 0, 0, 0);
        shift_pose(pose[1], shifts[s][0], shifts[s][1], shifts[s][2]);
        struct pair pair =
            make_pair(shape_cube(1, 2), shape_box(1, 1, 1), pose[0], pose[1], CT_BODY_RIGID, CT_BODY_RIGID);
        struct run run = open_pair(engine, &pair);
        struct direction d = random_direction(&pair, &rng), along = random_direction(&pair, &rng);
        memset(along.twist, 0, sizeof along.twist);
        for (int k = 0; k < 3; k++) along.twist[1][k] = (double[]){0x1p-20, 0x1p-26, 0x1p-32}[k];
        ct_result *tie = step_pair(&run, &pair, NULL, 0, &d, 1, CT_WANT_GRADIENT);
        ct_result *side[2] = {step_pair(&run, &pair, &along, 1, &d, 1, CT_WANT_GRADIENT),
                              step_pair(&run, &pair, &along, -1, &d, 1, CT_WANT_GRADIENT)};
        const size_t n = dense_size(&pair);
        double *product = dense_product(&pair, tie, 0),
               *of_side[2] = {dense_product(&pair, side[0], 0), dense_product(&pair, side[1], 0)};
        for (size_t k = 0; k < n; k++) of_side[0][k] = (of_side[0][k] + of_side[1][k]) / 2;
        const double off = distance(product, of_side[0], n), size = norm(product, n);
        if (!(off < 1e-4 * size)) fail_msg("shift %zu: off by %g of %g", s, off, size);
        for (int k = 0; k < 2; k++) {
            free(of_side[k]);
            ct_result_free(&side[k]);
        }
        free(product);
        ct_result_free(&tie);
        stage_close(&run.stage);
        free_direction(&d);
        free_direction(&along);
        free_pair(&pair);
    }
}

/* ---- the same bits ---- */

static void assert_same_bits(const ct_result *a, const ct_result *b) {
    assert_int_equal(a->n_contacts, b->n_contacts);
    assert_int_equal(a->n_products, b->n_products);
    const size_t row = 3 * (size_t)a->n_directions;
    assert_memory_equal(a->product_vertices, b->product_vertices, a->n_products * sizeof *a->product_vertices);
    assert_memory_equal(a->products, b->products, a->n_products * row * sizeof *a->products);
    assert_memory_equal(a->generalized_product, b->generalized_product, a->n_contacts * 4 * row * sizeof(double));
    for (size_t i = 0; i < a->n_contacts; i++)
        assert_memory_equal(a->contacts[i].inertia, b->contacts[i].inertia, sizeof a->contacts[i].inertia);
}

/* Threads and instruction sets; and bodies the other way round, whose parts change places. */
static void test_bits_do_not_change(void **state) {
    (void)state;
    ct_engine *engines[] = {stage_engine(1, "base"), stage_engine(7, NULL), stage_engine(2, NULL)};
    uint64_t rng = 21;
    for (int i = 0; i < 10; i++) {
        double pose[2][12];
        shape_pose_random(&rng, 0.2, pose[0]);
        shape_pose_random(&rng, 0.2, pose[1]);
        if (i % 3 == 0) shape_pose_identity(pose[0]);
        if (i % 3 == 0) shift_pose(pose[1], 0.25, 0, 0);
        const int level = i % 2 ? 5 : 3;
        struct pair pair = make_pair(i % 3 ? shape_blob(0.8, level, 0.5, (uint64_t)i) : shape_cube(1, 8),
                                     i % 3 ? shape_icosphere(0.7, level) : shape_cube(1, 4), pose[0], pose[1],
                                     i % 2 ? CT_BODY_RIGID : CT_BODY_DEFORMABLE, CT_BODY_RIGID);
        struct pair swapped = {.shape = {pair.shape[1], pair.shape[0]},
                               .kind = {pair.kind[1], pair.kind[0]},
                               .positions = {pair.positions[1], pair.positions[0]}};
        memcpy(swapped.pose[0], pair.pose[1], sizeof pair.pose[1]);
        memcpy(swapped.pose[1], pair.pose[0], sizeof pair.pose[0]);
        struct direction d[2] = {random_direction(&pair, &rng), random_direction(&pair, &rng)}, other[2];
        for (int k = 0; k < 2; k++) {
            other[k] = (struct direction){.values = {d[k].values[1], d[k].values[0]}};
            memcpy(other[k].twist[0], d[k].twist[1], sizeof d[k].twist[1]);
            memcpy(other[k].twist[1], d[k].twist[0], sizeof d[k].twist[0]);
        }
        struct run run = open_pair(engine, &pair);
        ct_result *r = step_pair(&run, &pair, NULL, 0, d, 2, CT_WANT_INERTIA);
        assert_true(r->n_products > 0);
        for (size_t e = 0; e < sizeof engines / sizeof *engines; e++) {
            struct run elsewhere = open_pair(engines[e], &pair), turned = open_pair(engines[e], &swapped);
            ct_result *same = step_pair(&elsewhere, &pair, NULL, 0, d, 2, CT_WANT_INERTIA);
            assert_same_bits(r, same);
            ct_result *back = step_pair(&turned, &swapped, NULL, 0, other, 2, CT_WANT_INERTIA);
            assert_int_equal(back->n_products, r->n_products);
            assert_memory_equal(back->contacts->inertia, r->contacts->inertia, sizeof r->contacts->inertia);
            for (int b = 0; b < 2; b++) {
                const uint64_t first = r->contacts->first_product[b], theirs = back->contacts->first_product[1 - b],
                               n = r->contacts->count_product[b];
                assert_int_equal(back->contacts->count_product[1 - b], n);
                assert_memory_equal(back->product_vertices + theirs, r->product_vertices + first,
                                    n * sizeof *r->product_vertices);
                for (uint64_t k = 0; k < n * 6; k++) /* 0 and -0 are equal */
                    assert_true(back->products[theirs * 6 + k] == r->products[first * 6 + k]);
                for (int k = 0; k < 2; k++)
                    for (int j = 0; j < 6; j++)
                        assert_true(back->generalized_product[12 * k + 6 * (1 - b) + j] ==
                                    r->generalized_product[12 * k + 6 * b + j]);
            }
            ct_result_free(&same);
            ct_result_free(&back);
            stage_close(&elsewhere.stage);
            stage_close(&turned.stage);
        }
        ct_result_free(&r);
        stage_close(&run.stage);
        free_direction(&d[0]);
        free_direction(&d[1]);
        free_pair(&pair);
    }
    for (size_t e = 0; e < sizeof engines / sizeof *engines; e++) ct_engine_destroy(&engines[e]);
}

/* What a step without directions and inertia answers is not changed by them. */
static void test_the_rest_is_the_same(void **state) {
    (void)state;
    uint64_t rng = 31;
    struct pair pair = random_pair(14, &rng);
    struct run run = open_pair(engine, &pair);
    struct direction d = random_direction(&pair, &rng);
    ct_result *with = step_pair(&run, &pair, NULL, 0, &d, 1, CT_WANT_ALL),
              *without = step_pair(&run, &pair, NULL, 0, NULL, 0, CT_WANT_ALL);
    char hash[2][33];
    stage_hash(with, hash[0]);
    stage_hash(without, hash[1]);
    assert_string_equal(hash[0], hash[1]);
    assert_int_equal(without->n_products, 0);
    assert_null(without->products);
    ct_result_free(&with);
    ct_result_free(&without);
    stage_close(&run.stage);
    free_direction(&d);
    free_pair(&pair);
}

/* ---- memory ---- */

static ct_engine *limited_engine(uint64_t bytes) {
    ct_engine_options options;
    ct_engine *out;
    ct_error error = {0};
    ct_engine_options_init(&options);
    options.backend = "cpu";
    options.threads = 1; /* so that the peak is always the same */
    options.max_scratch_bytes = bytes;
    if (ct_engine_create(&options, &out, &error)) fail_msg("%s", error.message);
    return out;
}

/* Products that do not fit the scratch memory fail the step, and nothing else. */
static void test_memory_is_bounded(void **state) {
    (void)state;
    uint64_t rng = 17;
    double pose[2][12];
    shape_pose_random(&rng, 0.1, pose[0]);
    shape_pose_random(&rng, 0.1, pose[1]);
    struct pair pair = make_pair(shape_blob(0.7, 5, 0.5, 3), shape_blob(0.7, 5, 0.5, 4), pose[0], pose[1],
                                 CT_BODY_DEFORMABLE, CT_BODY_RIGID);
    struct direction d[CT_MAX_DIRECTIONS];
    for (int k = 0; k < CT_MAX_DIRECTIONS; k++) d[k] = random_direction(&pair, &rng);
    ct_engine *free_engine = limited_engine(0);
    struct run run = open_pair(free_engine, &pair);
    ct_result *plain = step_pair(&run, &pair, NULL, 0, NULL, 0, CT_WANT_ALL);
    char hash[2][33];
    ct_engine_facts facts;
    stage_hash(plain, hash[0]);
    ct_engine_get_facts(free_engine, 0, &facts);
    ct_result_free(&plain);
    stage_close(&run.stage);
    ct_engine_destroy(&free_engine);

    ct_engine *tight = limited_engine(facts.scratch_peak + facts.scratch_peak / 4);
    run = open_pair(tight, &pair);
    ct_direction parts[CT_MAX_DIRECTIONS];
    for (uint32_t k = 0; k < CT_MAX_DIRECTIONS; k++)
        parts[k] = (ct_direction){.body = run.stage.body[0],
                                  .index = k,
                                  .values = d[k].values[0],
                                  .dtype = CT_F64,
                                  .count = pair.shape[0].n_vertices};
    for (int round = 0; round < 2; round++) {
        plain = step_pair(&run, &pair, NULL, 0, NULL, 0, CT_WANT_ALL);
        stage_hash(plain, hash[1]);
        assert_string_equal(hash[0], hash[1]);
        ct_result_free(&plain);
        ct_step step = {.scene = run.stage.scene, .directions = parts, .n_directions = CT_MAX_DIRECTIONS};
        assert_int_equal(ct_engine_run(tight, &step, 1), CT_OUT_OF_MEMORY);
        assert_null(step.result);
    }
    stage_close(&run.stage);
    ct_engine_destroy(&tight);
    for (int k = 0; k < CT_MAX_DIRECTIONS; k++) free_direction(&d[k]);
    free_pair(&pair);
}

/* ---- bad directions ---- */

static ct_status try_directions(struct run *run, const ct_direction *parts, size_t n, uint32_t want, ct_error *error) {
    ct_step step = {.scene = run->stage.scene, .directions = parts, .n_directions = n, .want = want};
    const ct_status status = ct_engine_run(run->engine, &step, 1);
    if (error) *error = step.error;
    ct_result_free(&step.result);
    return status;
}

static void test_bad_directions(void **state) {
    (void)state;
    uint64_t rng = 1;
    double pose[2][12];
    shape_pose_random(&rng, 0.1, pose[0]);
    shape_pose_random(&rng, 0.1, pose[1]);
    struct pair pair =
        make_pair(shape_box(1, 1, 1), shape_box(1, 1, 1), pose[0], pose[1], CT_BODY_DEFORMABLE, CT_BODY_RIGID);
    struct run run = open_pair(engine, &pair);
    double values[24] = {0};
    const ct_direction soft = {.body = run.stage.body[0], .values = values, .dtype = CT_F64, .count = 8};
    const ct_direction rigid = {.body = run.stage.body[1], .twist = {1}};
    ct_error error;
    ct_direction both[2] = {soft, rigid}, bad;
    assert_int_equal(try_directions(&run, both, 2, 0, &error), CT_OK);
    bad = soft, bad.body = 77;
    assert_int_equal(try_directions(&run, &bad, 1, 0, &error), CT_NOT_FOUND);
    bad = soft, bad.count = 7;
    assert_int_equal(try_directions(&run, &bad, 1, 0, &error), CT_WRONG_LENGTH);
    assert_string_equal(error.field, "directions");
    bad = soft, bad.values = NULL;
    assert_int_equal(try_directions(&run, &bad, 1, 0, &error), CT_INVALID_ARGUMENT);
    bad = soft, bad.dtype = 0;
    assert_int_equal(try_directions(&run, &bad, 1, 0, &error), CT_INVALID_ARGUMENT);
    bad = soft, bad.index = CT_MAX_DIRECTIONS;
    assert_int_equal(try_directions(&run, &bad, 1, 0, &error), CT_OUT_OF_RANGE);
    bad = rigid, bad.values = values, bad.dtype = CT_F64, bad.count = 8;
    assert_int_equal(try_directions(&run, &bad, 1, 0, &error), CT_INVALID_ARGUMENT);
    bad = rigid, bad.twist[4] = NAN;
    assert_int_equal(try_directions(&run, &bad, 1, 0, &error), CT_NON_FINITE);
    bad = rigid, bad.twist[4] = -1e300; /* a product with it would not be finite */
    assert_int_equal(try_directions(&run, &bad, 1, 0, &error), CT_OUT_OF_RANGE);
    both[1] = soft;
    assert_int_equal(try_directions(&run, both, 2, 0, &error), CT_INVALID_ARGUMENT);
    values[5] = 1e300;
    assert_int_equal(try_directions(&run, both, 1, 0, &error), CT_OUT_OF_RANGE);
    values[5] = INFINITY;
    assert_int_equal(try_directions(&run, both, 1, 0, &error), CT_NON_FINITE);
    stage_close(&run.stage);

    const ct_scene_settings settings = stage_resolution(16);
    const struct placed placed[2] = {{&pair.shape[0], NULL, CT_BODY_RIGID}, {&pair.shape[1], NULL, CT_BODY_RIGID}};
    run.stage = stage_open(engine, &settings, placed, 2);
    assert_int_equal(try_directions(&run, &rigid, 1, 0, &error), CT_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "exact"));
    assert_int_equal(try_directions(&run, NULL, 0, CT_WANT_INERTIA, &error), CT_INVALID_ARGUMENT);
    stage_close(&run.stage);
    free_pair(&pair);
}

/* ---- inertia ---- */

/* R I R^T of a diagonal I. */
static void turn_inertia(const double pose[12], const double diagonal[3], double out[3][3]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            out[i][j] = 0;
            for (int k = 0; k < 3; k++) out[i][j] += pose[4 * i + k] * diagonal[k] * pose[4 * j + k];
        }
}

static void assert_inertia(const ct_contact *c, double expected[3][3], double tolerance) {
    const double size = norm(expected[0], 9);
    if (distance(c->inertia[0], expected[0], 9) > tolerance * size)
        fail_msg("inertia off by %g of %g", distance(c->inertia[0], expected[0], 9), size);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) assert_true(c->inertia[i][j] == c->inertia[j][i]);
}

/* Two boxes, turned together, far from the origin too: their intersection is a box. */
static void test_inertia_of_boxes(void **state) {
    (void)state;
    uint64_t rng = 12;
    const ct_scene_settings settings = stage_exact();
    for (int i = 0; i < 20; i++) {
        const double length[3] = {1.0 / 4, 3.0 / 8, i % 2 ? 1.0 / 2 : 1.0 / 256};
        double pose[2][12], diagonal[3], expected[3][3];
        shape_pose_random(&rng, 0.5, pose[0]);
        if (i % 5 == 0) shape_pose_identity(pose[0]);
        memcpy(pose[1], pose[0], sizeof pose[0]);
        for (int k = 0; k < 3; k++) {
            if (i % 3 == 0) pose[0][4 * k + 3] += 64, pose[1][4 * k + 3] += 64;
            for (int j = 0; j < 3; j++) pose[1][4 * k + 3] += pose[0][4 * k + j] * (1 - length[j]);
            diagonal[k] = length[0] * length[1] * length[2] *
                          (length[(k + 1) % 3] * length[(k + 1) % 3] + length[(k + 2) % 3] * length[(k + 2) % 3]) / 12;
        }
        turn_inertia(pose[0], diagonal, expected);
        struct shape a = shape_box(1, 1, 1), b = shape_cube(1, 3);
        ct_result *r =
            stage_once(engine, &settings, (struct placed[]){{&a, pose[0], CT_BODY_RIGID}, {&b, pose[1], CT_BODY_RIGID}},
                       2, CT_WANT_INERTIA);
        assert_int_equal(r->n_contacts, 1);
        assert_inertia(r->contacts, expected, i % 5 ? 1e-6 : 1e-12);
        ct_result_free(&r);
        shape_free(&a);
        shape_free(&b);
    }
}

/* A tetrahedron with corners 0 and s along the axes has moments V s^2 3/80 and -1/80 about its centre of gravity. It
 * lies inside a box, or is cut off it by one: then it is the corner of a larger one. */
static void test_inertia_of_tetrahedra(void **state) {
    (void)state;
    const ct_scene_settings settings = stage_exact();
    for (int i = 0; i < 2; i++) {
        const double s = i ? 0.25 : 1;
        struct shape tetrahedron = shape_tetrahedron(1), box = shape_box(3, 3, 3);
        double pose[2][12], expected[3][3];
        shift_pose(pose[0], 0, 0, 0);
        shift_pose(pose[1], 0, 0, i ? 0.75 + 1.5 : 0);
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) {
                const double moment = s * s * s / 6 * s * s * (j == k ? 2 * 3.0 / 80 : 1.0 / 80);
                expected[j][k] = moment;
            }
        ct_result *r =
            stage_once(engine, &settings,
                       (struct placed[]){{&tetrahedron, pose[0], CT_BODY_RIGID}, {&box, pose[1], CT_BODY_RIGID}}, 2,
                       CT_WANT_INERTIA | CT_WANT_FRAME);
        assert_int_equal(r->n_contacts, 1);
        assert_inertia(r->contacts, expected, 1e-10);
        ct_result_free(&r);
        shape_free(&tetrahedron);
        shape_free(&box);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_are_differences), cmocka_unit_test(test_products_are_symmetric),
        cmocka_unit_test(test_common_motions),           cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_ties_give_the_mean),       cmocka_unit_test(test_bits_do_not_change),
        cmocka_unit_test(test_the_rest_is_the_same),     cmocka_unit_test(test_bad_directions),
        cmocka_unit_test(test_memory_is_bounded),        cmocka_unit_test(test_inertia_of_boxes),
        cmocka_unit_test(test_inertia_of_tetrahedra),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
