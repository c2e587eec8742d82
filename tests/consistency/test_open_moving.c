/* test_open_moving.c - deformable bodies of open surfaces, on every backend: moving slopes and stretched borders
 * against closed forms, gradients and products against differences, and the CPU's bits by all kinds of updates. */
#include "tests/consistency/twin.h"

#include <float.h>

#include "tests/consistency/open_surfaces.h"

static const double down[3] = {0, 0, -1};
static const uint32_t everything = CT_WANT_ALL;

/* A deformable body of an open surface and one of a shape. */
struct scenery {
    struct shape field, moved;
    uint64_t n_closing;
    struct twin twin; /* body[0]: the surface */
};

static double level(double x, double y) {
    (void)x, (void)y;
    return 0;
}
static double waves(double x, double y) {
    return shape_slab_top(4, 0.2, 3, x, y);
}

static bool has_exact(void) {
    ct_method methods[CT_MAX_METHODS];
    const size_t n = ct_engine_methods(engines[1], methods);
    for (size_t i = 0; i < n; i++)
        if (methods[i] == CT_METHOD_EXACT) return true;
    return false;
}

static uint32_t add(struct stage *stage, ct_mesh *mesh, ct_body_kind kind, const double *pose) {
    ct_body_options options;
    ct_error error = {0};
    uint32_t id;
    ct_body_options_init(&options);
    options.kind = kind;
    if (pose) memcpy(options.pose, pose, sizeof options.pose);
    if (ct_scene_add_body(stage->scene, mesh, &options, &id, &error)) fail_msg("%s", error.message);
    stage->body[stage->n++] = id;
    return id;
}

static struct scenery open_scenery(const ct_scene_settings *settings, height_fn *height, double side, uint32_t n,
                                   const struct shape *other, const double *pose) {
    struct scenery s = {.field = heightfield(height, side, n)};
    ct_mesh *open, *closed = shape_to_mesh(other, NULL);
    ct_error error;
    if (make_open(&s.field, down, &open, &error)) fail_msg("%s", error.message);
    ct_mesh_info info;
    ct_mesh_get_info(open, &info);
    s.n_closing = info.closing_vertices;
    s.moved = shape_copy(&s.field);
    for (int e = 0; e < 2; e++) {
        s.twin.of[e].engine = engines[e];
        assert_int_equal(ct_scene_create(engines[e], settings, &s.twin.of[e].scene, NULL), CT_OK);
        add(&s.twin.of[e], open, CT_BODY_DEFORMABLE, NULL);
        add(&s.twin.of[e], closed, CT_BODY_RIGID, pose);
    }
    ct_mesh_release(&open);
    ct_mesh_release(&closed);
    return s;
}

static void close_scenery(struct scenery *s) {
    twin_close(&s->twin);
    shape_free(&s->field);
    shape_free(&s->moved);
}

static ct_update all_positions(const struct scenery *s) {
    return (ct_update){.kind = CT_UPDATE_POSITIONS,
                       .body = s->twin.of[0].body[0],
                       .positions = s->moved.positions,
                       .count = s->moved.n_vertices,
                       .dtype = CT_F32};
}

/* Moves the surface to s->moved, holds both engines to the same bits, and returns the answer of the second. */
static ct_result *step_scenery(struct scenery *s, uint32_t want) {
    const ct_update update = all_positions(s), *updates = &update;
    const size_t n = 1;
    compare("surface", &s->twin, &updates, &n, 1, want);
    return stage_step(&s->twin.of[1], NULL, 0, want);
}

static double volume_of(ct_result *result) {
    const double volume = result->n_contacts ? result->contacts->volume : 0;
    ct_result_free(&result);
    return volume;
}

static double volume_of_cap(double r, double height) { /* of the plane over the ball's centre */
    const double h = fmin(fmax(r + height, 0), 2 * r);
    return M_PI * h * h * (r - h / 3);
}

/* A plane that tilts, rises and slides sideways under a ball: the part of the ball under the plane. */
static void test_moving_slope(void **state) {
    (void)state;
    const struct shape ball = shape_icosphere(1, 5);
    for (int m = 0; m < 2; m++) {
        if (m == 0 && !has_exact()) continue;
        const ct_scene_settings settings = m ? stage_pixel(0.02) : stage_exact();
        struct scenery s = open_scenery(&settings, level, 6, 8, &ball, NULL);
        for (int step = 0; step < 6; step++) {
            const double slope = 0.15 * step - 0.3, rise = 0.2 * step - 0.6, aside = 0.1 * step;
            for (uint32_t v = 0; v < s.field.n_vertices; v++) {
                float *p = s.moved.positions + 3 * (size_t)v;
                const double x = (double)s.field.positions[3 * (size_t)v] + aside;
                p[0] = (float)x;
                p[2] = (float)(rise + slope * x);
            }
            const double truth = volume_of_cap(1, rise / sqrt(1 + slope * slope));
            /* The ball is smaller by its facets. */
            assert_float_equal(volume_of(step_scenery(&s, CT_WANT_FRAME)), truth, 0.004 * truth + (m ? 2e-3 : 1e-3));
        }
        close_scenery(&s);
    }
    shape_free(&(struct shape[]){ball}[0]);
}

/* A border that moves: the square is stretched and turned about the vertical, and a box hangs over its edge. */
static void test_moving_border(void **state) {
    (void)state;
    const struct shape box = shape_box(2, 2, 1);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 2.5; /* x from 1.5 to 3.5, z from -0.5 */
    const ct_scene_settings settings = has_exact() ? stage_exact() : stage_pixel(0.02);
    struct scenery s = open_scenery(&settings, level, 4, 4, &box, pose);
    const double stretch[] = {0.5, 0.8, 1, 1.3, 2, 4};
    for (int i = 0; i < 6; i++) {
        for (uint32_t v = 0; v < s.field.n_vertices; v++) {
            const float *from = s.field.positions + 3 * (size_t)v;
            float *p = s.moved.positions + 3 * (size_t)v;
            /* By a quarter turn, so that each part of the border comes elsewhere. */
            p[0] = (float)(-stretch[i] * (double)from[1]);
            p[1] = (float)(stretch[i] * (double)from[0]);
            p[2] = (float)(-0.1 * i);
        }
        const double reach = fmin(fmax(2 * stretch[i] - 1.5, 0), 2), half = fmin(2 * stretch[i], 1);
        const double truth = reach * 2 * half * (0.5 - 0.1 * i);
        assert_float_equal(volume_of(step_scenery(&s, CT_WANT_ALL)), truth, has_exact() ? 1e-5 : 0.02);
    }
    close_scenery(&s);
    shape_free(&(struct shape[]){box}[0]);
}

/* dV along random displacements of the given vertices, of the rim and of others: the gradient's, by differences of V;
 * and those of gradients, by the products. A box reaches over the border, so that walls count. */
static void test_differences(void **state) {
    (void)state;
    if (!has_exact()) skip();
    const struct shape box = shape_box(1.5, 1.4, 1.2);
    double pose[12];
    shape_pose_axis((const double[]){1, 2, 3}, 0.06, (const double[]){1.8, 0.3, -0.1}, pose);
    const ct_scene_settings settings = stage_exact();
    struct scenery s = open_scenery(&settings, waves, 4, 6, &box, pose);
    const uint32_t n = s.field.n_vertices;
    double *along = calloc(3 * (size_t)n, sizeof *along), *gradient[3];
    assert_non_null(along);
    for (int i = 0; i < 3; i++) assert_non_null(gradient[i] = calloc(3 * (size_t)n, sizeof *gradient[i]));
    uint64_t rng = 7;
    for (int round = 0; round < 6; round++) {
        double change = 0, size = 0, worst = 0;
        const double h = 1e-3, volume[3] = {0};
        double v[3] = {volume[0]};
        for (uint32_t i = 0; i < 3 * n; i++) along[i] = shape_uniform(&rng, -1, 1);
        /* A step of float32 is too coarse to add h along: it is what became of it that counts. */
        for (int side = 0; side < 3; side++) {
            for (uint32_t i = 0; i < 3 * n; i++)
                s.moved.positions[i] = (float)((double)s.field.positions[i] + (side - 1) * h * along[i]);
            ct_result *r = step_scenery(&s, CT_WANT_ALL);
            assert_int_equal(r->n_contacts, 1);
            v[side] = r->contacts->volume;
            memset(gradient[side], 0, 3 * (size_t)n * sizeof *along);
            for (uint64_t k = 0; k < r->contacts->count[0]; k++) {
                assert_true(r->vertices[r->contacts->first[0] + k] < n);
                memcpy(gradient[side] + 3 * (size_t)r->vertices[r->contacts->first[0] + k],
                       r->gradient + 3 * (r->contacts->first[0] + k), 3 * sizeof(double));
            }
            ct_result_free(&r);
        }
        for (uint32_t i = 0; i < 3 * n; i++) {
            change += gradient[1][i] * 2 * h * along[i];
            size += fabs(gradient[1][i] * 2 * h * along[i]);
        }
        assert_true(size > 1e-4);
        assert_float_equal(v[2] - v[0], change, 3e-4 * size);

        /* At the middle again: products along the same displacements. */
        memcpy(s.moved.positions, s.field.positions, 12 * (size_t)n);
        const ct_update update = all_positions(&s);
        ct_step steps[2];
        const ct_direction direction = {.body = s.twin.of[0].body[0], .values = along, .count = n, .dtype = CT_F64};
        for (int e = 0; e < 2; e++) {
            steps[e] = (ct_step){.scene = s.twin.of[e].scene,
                                 .updates = &update,
                                 .n_updates = 1,
                                 .want = CT_WANT_GRADIENT,
                                 .directions = &direction,
                                 .n_directions = 1};
            if (ct_engine_run(engines[e], &steps[e], 1)) fail_msg("%s", steps[e].error.message);
        }
        const ct_result *a = steps[0].result, *b = steps[1].result;
        assert_int_equal(a->n_products, b->n_products);
        assert_memory_equal(a->product_vertices, b->product_vertices, 4 * a->n_products);
        assert_memory_equal(a->products, b->products, 24 * a->n_products);
        const ct_contact *c = b->contacts;
        size = 0;
        for (uint32_t i = 0; i < 3 * n; i++) gradient[1][i] = 0;
        for (uint64_t k = c->first_product[0]; k < c->first_product[0] + c->count_product[0]; k++)
            for (uint64_t i = 0; i < 3; i++)
                gradient[1][3 * (size_t)b->product_vertices[k] + i] = b->products[3 * k + i];
        for (uint32_t i = 0; i < 3 * n; i++) {
            size = fmax(size, fabs(gradient[1][i]));
            worst = fmax(worst, fabs((gradient[2][i] - gradient[0][i]) / (2 * h) - gradient[1][i]));
        }
        assert_true(size > 0.01);
        if (worst > 0.02 * size) fail_msg("products are off by %g of %g", worst, size);
        for (int e = 0; e < 2; e++) ct_result_free(&steps[e].result);
    }
    for (int i = 0; i < 3; i++) free(gradient[i]);
    free(along);
    close_scenery(&s);
    shape_free(&(struct shape[]){box}[0]);
}

/* At rest it has the answers and the box of a rigid body. */
static void test_at_rest(void **state) {
    (void)state;
    const struct shape ball = shape_icosphere(0.7, 3);
    double pose[12];
    shape_pose_identity(pose);
    pose[3] = 1.6, pose[7] = 0.1, pose[11] = 0.2;
    for (int m = 0; m < 2; m++) {
        if (m == 0 && !has_exact()) continue;
        const ct_scene_settings settings = m ? stage_pixel(0.03) : stage_exact();
        struct scenery s = open_scenery(&settings, waves, 4, 12, &ball, pose);
        struct stage rigid = {.engine = engines[1]};
        assert_int_equal(ct_scene_create(engines[1], &settings, &rigid.scene, NULL), CT_OK);
        ct_mesh *open, *closed = shape_to_mesh(&ball, NULL);
        ct_error error;
        if (make_open(&s.field, down, &open, &error)) fail_msg("%s", error.message);
        add(&rigid, open, CT_BODY_RIGID, NULL);
        add(&rigid, closed, CT_BODY_RIGID, pose);
        ct_result *r[] = {step_scenery(&s, everything), stage_step(&rigid, NULL, 0, everything)};
        assert_true(r[0]->n_contacts == 1 && r[1]->n_contacts == 1);
        const ct_contact *c = r[0]->contacts, *d = r[1]->contacts;
        assert_float_equal(c->volume, d->volume, 1e-10);
        assert_true(c->count[0] == d->count[0] && c->count[1] == d->count[1]);
        for (uint64_t k = 0; k < r[0]->n_entries; k++) {
            assert_int_equal(r[0]->vertices[k], r[1]->vertices[k]);
            for (uint64_t i = 3 * k; i < 3 * k + 3; i++) assert_float_equal(r[0]->gradient[i], r[1]->gradient[i], 1e-9);
        }
        ct_body_info info[2];
        assert_int_equal(ct_scene_body_info(rigid.scene, rigid.body[0], &info[0], NULL), CT_OK);
        assert_int_equal(ct_scene_body_info(s.twin.of[1].scene, s.twin.of[1].body[0], &info[1], NULL), CT_OK);
        assert_int_equal(info[0].vertices, s.field.n_vertices);
        assert_int_equal(info[1].vertices, s.field.n_vertices);
        assert_memory_equal(info[0].lo, info[1].lo, sizeof info[0].lo);
        assert_memory_equal(info[0].hi, info[1].hi, sizeof info[0].hi);
        for (int k = 0; k < 2; k++) ct_result_free(&r[k]);
        stage_close(&rigid);
        ct_mesh_release(&open);
        ct_mesh_release(&closed);
        close_scenery(&s);
    }
    shape_free(&(struct shape[]){ball}[0]);
}

/* Parts of the positions: listed vertices, ranges, the same vertex twice, two updates; float64; velocities. Each step
 * has the bits of one that sends all positions. */
static void test_updates(void **state) {
    (void)state;
    enum { SCENES = 2, STEPS = 12 };
    const struct shape box = shape_box(1.2, 1.1, 1);
    double pose[12];
    shape_pose_axis((const double[]){0, 1, 1}, 0.1, (const double[]){1.7, 1.6, 0}, pose);
    uint64_t rng = 3, contacts = 0;
    struct scenery of[SCENES], whole[SCENES];
    struct twin twins[2 * SCENES];
    for (int i = 0; i < SCENES; i++) {
        const ct_scene_settings settings = i || !has_exact() ? stage_pixel(0.04) : stage_exact();
        of[i] = open_scenery(&settings, waves, 4, 9, &box, pose);
        whole[i] = open_scenery(&settings, waves, 4, 9, &box, pose);
        twins[i] = of[i].twin;
        twins[SCENES + i] = whole[i].twin;
    }
    const uint32_t n = of[0].field.n_vertices;
    float *rows = malloc(12 * (size_t)n * 2), *now = of[0].moved.positions;
    uint32_t *indices = malloc(4 * (size_t)n * 2);
    double *velocities = malloc(24 * (size_t)n);
    assert_true(rows && indices && velocities);
    for (int step = 0; step < STEPS; step++) {
        uint32_t n_rows = 0, n_indices = 0;
        const int kind = step % 4; /* listed in order, listed twice, ranges, two updates */
        for (uint32_t v = 0; v < n; v++) {
            if (shape_uniform(&rng, 0, 1) > 0.6) continue;
            for (int twice = 0; twice <= (kind == 1 && v % 3 == 0); twice++) {
                for (int k = 0; k < 3; k++)
                    rows[3 * n_rows + (uint32_t)k] =
                        of[0].field.positions[3 * v + (uint32_t)k] + (float)shape_uniform(&rng, -0.05, 0.05);
                memcpy(now + 3 * (size_t)v, rows + 3 * (size_t)n_rows, 12);
                n_rows++;
                indices[n_indices++] = v;
                if (kind == 2) indices[n_indices++] = 1;
            }
        }
        ct_update updates[SCENES][2], all[SCENES];
        const ct_update *of_scene[2 * SCENES];
        size_t n_updates[2 * SCENES];
        for (int i = 0; i < SCENES; i++) {
            updates[i][0] = (ct_update){.kind = kind == 2 ? CT_UPDATE_RANGES : CT_UPDATE_INDEXED,
                                        .body = of[i].twin.of[0].body[0],
                                        .positions = rows,
                                        .count = n_rows,
                                        .dtype = CT_F32,
                                        .indices = indices,
                                        .n_indices = n_indices};
            updates[i][1] = updates[i][0];
            memcpy(whole[i].moved.positions, now, 12 * (size_t)n);
            all[i] = all_positions(&whole[i]);
            of_scene[i] = updates[i];
            of_scene[SCENES + i] = &all[i];
            n_updates[i] = kind == 3 ? 2 : 1;
            n_updates[SCENES + i] = 1;
        }
        contacts += compare("updates", twins, of_scene, n_updates, 2 * SCENES, everything);
        for (uint32_t k = 0; k < 3 * n; k++) velocities[k] = shape_uniform(&rng, -1, 1);
        for (int i = 0; i < SCENES; i++) {
            ct_result *r[2];
            char hex[2][33];
            for (int k = 0; k < 2; k++) {
                struct stage *stage = &(k ? whole : of)[i].twin.of[1];
                const ct_velocity velocity = {
                    .body = stage->body[0], .values = velocities, .count = n, .dtype = CT_F64};
                ct_step moving = {.scene = stage->scene,
                                  .want = everything,
                                  .velocities = &velocity,
                                  .n_velocities = 1,
                                  .viscosity = 3};
                if (ct_engine_run(engines[1], &moving, 1)) fail_msg("%s", moving.error.message);
                r[k] = moving.result;
                stage_hash(r[k], hex[k]);
            }
            assert_string_equal(hex[0], hex[1]);
            assert_same_slip("updates", r[0], r[1]);
            for (uint64_t k = 0; k < r[0]->contacts->count[0]; k++)
                assert_true(r[0]->vertices[r[0]->contacts->first[0] + k] < n);
            for (int k = 0; k < 2; k++) ct_result_free(&r[k]);
        }
    }
    assert_int_equal(contacts, 2 * SCENES * STEPS);
    free(rows), free(indices), free(velocities);
    for (int i = 0; i < SCENES; i++) close_scenery(&of[i]), close_scenery(&whole[i]);
    shape_free(&(struct shape[]){box}[0]);
}

/* Closing vertices cannot be given; a mesh of another size takes the place of a surface; positions that are not finite,
 * or at the end of float32, are refused, or bounded, and leave nothing behind. */
static void test_refused(void **state) {
    (void)state;
    const struct shape box = shape_box(1, 1, 1);
    const ct_scene_settings settings = stage_pixel(0.1);
    struct scenery s = open_scenery(&settings, level, 2, 4, &box, NULL);
    const uint64_t n = s.field.n_vertices;
    float *rows = calloc(n + s.n_closing, 12);
    double *values = calloc(n + s.n_closing, 24);
    assert_true(rows && values && s.n_closing == 16);
    memcpy(rows, s.field.positions, 12 * n);
    ct_update update = all_positions(&s);
    update.positions = rows;
    update.count = n + s.n_closing;
    ct_velocity velocity = {.body = update.body, .values = values, .count = n + s.n_closing, .dtype = CT_F64};
    const uint32_t past = (uint32_t)n;
    ct_update listed = {.kind = CT_UPDATE_INDEXED,
                        .body = update.body,
                        .positions = rows,
                        .count = 1,
                        .dtype = CT_F32,
                        .indices = &past,
                        .n_indices = 1};
    for (int e = 0; e < 2; e++) {
        ct_step step = {.scene = s.twin.of[e].scene, .updates = &update, .n_updates = 1};
        update.count = n + s.n_closing;
        assert_int_equal(ct_engine_run(engines[e], &step, 1), CT_WRONG_LENGTH);
        assert_string_equal(step.error.field, "positions");
        step = (ct_step){.scene = s.twin.of[e].scene, .velocities = &velocity, .n_velocities = 1};
        assert_int_equal(ct_engine_run(engines[e], &step, 1), CT_WRONG_LENGTH);
        step = (ct_step){.scene = s.twin.of[e].scene, .updates = &listed, .n_updates = 1};
        assert_int_equal(ct_engine_run(engines[e], &step, 1), CT_OUT_OF_RANGE);
        update.count = n;
        rows[3 * n - 1] = NAN;
        step = (ct_step){.scene = s.twin.of[e].scene, .updates = &update, .n_updates = 1};
        assert_int_equal(ct_engine_run(engines[e], &step, 1), CT_NON_FINITE);
        rows[3 * n - 1] = 0;
    }
    assert_float_equal(volume_of(step_scenery(&s, 0)), 0.5, 0.05);
    for (uint64_t v = 0; v < n; v++) s.moved.positions[3 * v + 2] = -FLT_MAX;
    ct_result *r = step_scenery(&s, 0);
    ct_result_free(&r);
    ct_body_info info;
    assert_int_equal(ct_scene_body_info(s.twin.of[1].scene, s.twin.of[1].body[0], &info, NULL), CT_OK);
    assert_true(isfinite(info.lo[2]) && isfinite(info.hi[2]));
    ct_mesh *mesh = shape_to_mesh(&box, NULL);
    for (int e = 0; e < 2; e++)
        assert_int_equal(ct_scene_replace_mesh(s.twin.of[e].scene, update.body, mesh, NULL), CT_OK);
    ct_mesh_release(&mesh);
    assert_int_equal(ct_scene_body_info(s.twin.of[1].scene, update.body, &info, NULL), CT_OK);
    assert_int_equal(info.vertices, box.n_vertices);
    free(rows), free(values);
    close_scenery(&s);
    shape_free(&(struct shape[]){box}[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moving_slope), cmocka_unit_test(test_moving_border), cmocka_unit_test(test_differences),
        cmocka_unit_test(test_at_rest),      cmocka_unit_test(test_updates),       cmocka_unit_test(test_refused),
    };
    static const char *const rasterizers[] = {"native"};
    return twin_run_on_backends(tests, sizeof tests / sizeof *tests, rasterizers, 1);
}
