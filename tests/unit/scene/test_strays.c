/* test_strays.c - vertices that no triangle uses: wherever they are, and wherever updates put them, a mesh has the
 * facts and a scene the answers, to the bit, of the same shape without them, but for the numbers of its vertices. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/stage.h"
#include "tests/unit/unit.h"

enum { N = 8, WITH = N + 4 };

static ct_engine *engine;
static struct shape box, stray_box;

/* Where the box's vertices are among those of stray_box: strays are 0, 4, 5 and 11. */
static const uint32_t place_of[N] = {1, 2, 3, 6, 7, 8, 9, 10};

static void make_shapes(double far) {
    box = shape_box(1, 1, 1);
    shape_translate(&box, 0.5, 0.5, 0.5);
    stray_box = shape_copy(&box);
    stray_box.positions = realloc(stray_box.positions, WITH * 12);
    stray_box.n_vertices = WITH;
    for (size_t i = 0; i < 3 * (size_t)WITH; i++) stray_box.positions[i] = (float)(i % 2 ? -far : far);
    for (size_t v = 0; v < N; v++) memcpy(stray_box.positions + 3 * place_of[v], box.positions + 3 * v, 12);
    for (size_t i = 0; i < 3 * (size_t)box.n_triangles; i++) stray_box.triangles[i] = place_of[box.triangles[i]];
}

static void free_shapes(void) {
    shape_free(&box);
    shape_free(&stray_box);
}

static void test_facts(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        make_shapes((double[]){2, 1e9, 3e38}[i]);
        ct_error error = {0};
        ct_mesh *mesh = shape_to_mesh(&stray_box, &error);
        if (!mesh) fail_msg("%s", error.message);
        ct_mesh_info info;
        ct_mesh_get_info(mesh, &info);
        assert_int_equal(info.vertices, WITH);
        assert_int_equal(info.components, 1);
        assert_true(info.volume == 1 && info.area == 6);
        for (int k = 0; k < 3; k++) assert_true(info.lo[k] == 0 && info.hi[k] == 1);
        assert_memory_equal(ct_mesh_positions(mesh), stray_box.positions, WITH * 12); /* as they were given */
        ct_mesh *again = NULL; /* with the hash of what was given */
        ct_mesh_info same;
        assert_int_equal(
            ct_mesh_create(stray_box.positions, CT_F32, WITH, stray_box.triangles, 12, NULL, &again, &error), CT_OK);
        ct_mesh_get_info(again, &same);
        assert_string_equal(same.hash, info.hash);
        ct_mesh_release(&mesh);
        ct_mesh_release(&again);
        free_shapes();
    }
}

static void test_repair(void **state) { /* a hole is as wide, for its size, as without the stray */
    (void)state;
    make_shapes(1e9);
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    options.repair = true;
    ct_mesh *mesh = NULL;
    ct_error error = {0};
    assert_int_equal(
        ct_mesh_create_with(stray_box.positions, CT_F32, WITH, stray_box.triangles, 10, &options, &mesh, NULL, &error),
        CT_INVALID_MESH);
    assert_non_null(strstr(error.message, "1 m wide"));
    free_shapes();
}

static void test_open(void **state) { /* the walls of an open surface are as long as without the strays */
    (void)state;
    make_shapes(1e9);
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    ct_mesh_info info[2];
    for (int s = 0; s < 2; s++) {
        const struct shape *shape = s ? &stray_box : &box;
        uint32_t triangles[30], n = 0; /* without the two at the bottom */
        for (uint32_t t = 0; t < shape->n_triangles; t++) {
            const uint32_t *corner = shape->triangles + 3 * t;
            const float *z = shape->positions + 2;
            if (z[3 * corner[0]] + z[3 * corner[1]] + z[3 * corner[2]] > 0) memcpy(triangles + 3 * n++, corner, 12);
        }
        assert_int_equal(n, 10);
        options.open_direction[2] = -1;
        ct_mesh *mesh = NULL;
        ct_error error = {0};
        if (ct_mesh_create_with(shape->positions, CT_F32, shape->n_vertices, triangles, n, &options, &mesh, NULL,
                                &error))
            fail_msg("%s", error.message);
        ct_mesh_get_info(mesh, &info[s]);
        ct_mesh_release(&mesh);
    }
    assert_true(info[0].volume == info[1].volume && info[0].lo[2] == info[1].lo[2]);
    free_shapes();
}

/* Two scenes, whose first bodies differ by strays alone. */
struct twins {
    struct stage stage[2];
};

static struct twins open_twins(const ct_scene_settings *settings, ct_body_kind kind) {
    static double pose[12];
    shape_pose_identity(pose);
    pose[3] = 0.5, pose[7] = 0.25, pose[11] = 0.125;
    struct twins twins;
    for (int s = 0; s < 2; s++) {
        const struct placed bodies[] = {{s ? &stray_box : &box, NULL, kind}, {&box, pose, CT_BODY_RIGID}};
        twins.stage[s] = stage_open(engine, settings, bodies, 2);
    }
    return twins;
}

static void assert_same(const ct_result *plain, const ct_result *stray) {
    assert_int_equal(plain->n_contacts, stray->n_contacts);
    for (size_t i = 0; i < plain->n_contacts; i++) {
        const ct_contact *p = &plain->contacts[i], *s = &stray->contacts[i];
        assert_true(p->volume == s->volume && p->area == s->area);
        assert_memory_equal(p->normal, s->normal, sizeof p->normal);
        for (int b = 0; b < 2; b++) {
            assert_int_equal(p->count[b], s->count[b]);
            for (uint64_t k = 0; k < p->count[b] && plain->vertices; k++) {
                const uint32_t v = plain->vertices[p->first[b] + k];
                assert_int_equal(stray->vertices[s->first[b] + k], b ? v : place_of[v]);
                assert_memory_equal(stray->gradient + 3 * (s->first[b] + k), plain->gradient + 3 * (p->first[b] + k),
                                    3 * sizeof(double));
            }
        }
    }
}

static void step_twins(struct twins *twins, const ct_update updates[2], size_t n, double volume) {
    ct_result *result[2];
    for (int s = 0; s < 2; s++) {
        ct_update own = {0};
        if (n) own = updates[s], own.body = twins->stage[s].body[0];
        result[s] = stage_step(&twins->stage[s], &own, n, CT_WANT_ALL);
    }
    assert_same(result[0], result[1]);
    assert_int_equal(result[1]->n_contacts, 1);
    if (volume > 0) assert_true(fabs(result[1]->contacts[0].volume - volume) < 1e-9);
    for (int s = 0; s < 2; s++) ct_result_free(&result[s]);
}

static void close_twins(struct twins *twins) {
    for (int s = 0; s < 2; s++) stage_close(&twins->stage[s]);
}

enum { METHODS = 4 };

static ct_scene_settings settings_of(int method) {
    ct_scene_settings settings = method == 0   ? stage_exact()
                                 : method == 1 ? stage_resolution(16)
                                 : method == 2 ? stage_voxtree(0, 0)
                                               : stage_resolution(16);
    if (method == 3) {
        ct_scene_settings_init(&settings);
        settings.method = CT_METHOD_EBPI;
        settings.tolerance_rel = 1e-3;
    }
    return settings;
}

static void test_rigid(void **state) {
    (void)state;
    make_shapes(1e9);
    for (int method = 0; method < METHODS; method++) {
        const ct_scene_settings settings = settings_of(method);
        struct twins twins = open_twins(&settings, CT_BODY_RIGID);
        step_twins(&twins, NULL, 0, method == 0 ? 0.5 * 0.75 * 0.875 : 0);
        ct_update updates[2] = {{.kind = CT_UPDATE_POSE}};
        shape_pose_identity(updates[0].pose);
        updates[0].pose[3] = 0.25;
        updates[1] = updates[0];
        step_twins(&twins, updates, 1, method == 0 ? 0.75 * 0.75 * 0.875 : 0);
        close_twins(&twins);
    }
    free_shapes();
}

/* Moves the given vertices of the box by `dx` along x, in both scenes; what is given for strays is far away. */
static void test_deformable(void **state) {
    (void)state;
    make_shapes(1e9);
    for (int method = 0; method < METHODS; method++) {
        if (method == 2) continue; /* voxtree takes rigid bodies alone */
        const ct_scene_settings settings = settings_of(method);
        struct twins twins = open_twins(&settings, CT_BODY_DEFORMABLE);
        step_twins(&twins, NULL, 0, method == 0 ? 0.5 * 0.75 * 0.875 : 0);
        for (int kind = CT_UPDATE_POSITIONS; kind <= CT_UPDATE_INDEXED; kind++)
            for (int is_double = 0; is_double < 2; is_double++) {
                const double dx = 0.0625 * (2 * kind + is_double);
                double rows[2][WITH][3];
                float singles[2][WITH][3];
                uint32_t indices[2][WITH];
                const uint32_t ranges[2][4] = {{0, 3, 3, 5}, {0, 4, 4, 8}};
                for (int s = 0; s < 2; s++) {
                    const struct shape *shape = s ? &stray_box : &box;
                    const uint32_t n = shape->n_vertices;
                    for (uint32_t i = 0; i < n; i++) {
                        const uint32_t v = kind == CT_UPDATE_INDEXED ? n - 1 - i : i; /* in any order */
                        indices[s][i] = v;
                        for (uint32_t k = 0; k < 3; k++) {
                            rows[s][i][k] = (double)shape->positions[3 * v + k] * 0.5;
                            if (fabs(rows[s][i][k]) < 1e6) rows[s][i][k] = 2 * rows[s][i][k] + (k == 0) * dx;
                            singles[s][i][k] = (float)rows[s][i][k];
                        }
                    }
                }
                ct_update updates[2];
                for (int s = 0; s < 2; s++) {
                    const uint32_t n = s ? WITH : N;
                    updates[s] = (ct_update){.kind = (ct_update_kind)kind,
                                             .positions = is_double ? (void *)rows[s] : (void *)singles[s],
                                             .dtype = is_double ? CT_F64 : CT_F32,
                                             .count = n};
                    if (kind == CT_UPDATE_RANGES) updates[s].indices = ranges[s], updates[s].n_indices = 4;
                    if (kind == CT_UPDATE_INDEXED) updates[s].indices = indices[s], updates[s].n_indices = n;
                }
                step_twins(&twins, updates, 1, method == 0 ? (0.5 + dx) * 0.75 * 0.875 : 0);
            }
        close_twins(&twins);
    }
    free_shapes();
}

static void test_refused(void **state) { /* by the number that the caller gave, and nothing has moved */
    (void)state;
    make_shapes(1e9);
    const ct_scene_settings settings = stage_exact();
    struct twins twins = open_twins(&settings, CT_BODY_DEFORMABLE);
    float rows[2][3] = {{0, 0, 0}, {0, NAN, 0}};
    const uint32_t indices[2] = {0, 1};
    const ct_update update = {.body = twins.stage[1].body[0],
                              .kind = CT_UPDATE_INDEXED,
                              .positions = rows,
                              .dtype = CT_F32,
                              .count = 2,
                              .indices = indices,
                              .n_indices = 2};
    ct_step step = {.scene = twins.stage[1].scene, .updates = &update, .n_updates = 1};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_NON_FINITE);
    assert_non_null(strstr(step.error.message, "position 1 has y = nan"));
    assert_ptr_equal(step.updates, &update);
    step_twins(&twins, NULL, 0, 0.5 * 0.75 * 0.875);
    /* a step that fails late is undone */
    rows[1][1] = 0.5f;
    step = (ct_step){.scene = twins.stage[1].scene, .updates = &update, .n_updates = 1, .want = CT_WANT_ALL};
    ct_cancel cancel;
    ct_cancel_init(&cancel, 0);
    ct_cancel_request(&cancel, 1);
    step.cancel = &cancel;
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_CANCELLED);
    assert_ptr_equal(step.updates, &update);
    step_twins(&twins, NULL, 0, 0.5 * 0.75 * 0.875);
    close_twins(&twins);
    free_shapes();
}

static int open_engine(const char *backend) {
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = backend;
    options.threads = 2;
    ct_error error = {0};
    if (ct_engine_create(&options, &engine, &error) == CT_OK) return 0;
    fprintf(stderr, "no backend \"%s\" here: %s\n", backend, error.message);
    return 1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts), cmocka_unit_test(test_repair),     cmocka_unit_test(test_open),
        cmocka_unit_test(test_rigid), cmocka_unit_test(test_deformable), cmocka_unit_test(test_refused),
    };
    if (open_engine("cpu")) return 1;
    int failed = cmocka_run_group_tests_name("strays", tests, NULL, NULL);
    ct_engine_destroy(&engine);
    if (open_engine("cuda")) return failed; /* a build without it, or a machine without a device */
    failed += cmocka_run_group_tests_name("strays on a device", tests, NULL, NULL);
    ct_engine_destroy(&engine);
    return failed;
}
