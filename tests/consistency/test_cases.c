/* test_cases.c - real pairs with exact answers (closed forms and exact-arithmetic booleans) from ../shared/meshes or
 * $CONTACTD_MESHES; without them these tests are skipped.
 *
 * Tolerances: a surface of area A covers A / p^2 rays of pitch p. The error of each is about its area times one pitch
 * of depth, p^3, and the errors are independent: p^2 sqrt(A) together. A gradient has errors only along the contact's
 * edges; edges of length L meet L / p rays of area p^2: p^1.5 sqrt(L), with L = 4 sqrt(A), a square's circumference.
 * The gradient's tolerance is three times that. If bodies are aligned (the degenerate cases) errors are not
 * independent, and only the rigorous bound holds: (p F_u + q F_v) / 2 <= p A for each view (see test_sampling.c).
 *
 * The method `exact` has no such errors; what is compared then is the 10 or more digits of the answers that are known.
 * The method `ebpi` is asked for a hundredth of the volume, and has to keep its own bound.
 *
 * Every case is computed as it is and turned as a whole in eight ways. Turned bodies that touch meet in their
 * coordinates' rounding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/stage.h"

enum { RESOLUTION = 256, TURNED_RESOLUTION = 128, ORIENTATIONS = 9 };

static char path[4096];

static const char *in_folder(const char *name) {
    const char *set = getenv("CONTACTD_MESHES");
    snprintf(path, sizeof path, "%s/%s", set && *set ? set : "../shared/meshes", name);
    return path;
}

static ct_mesh *load(const char *name) {
    FILE *file = fopen(in_folder(name), "rb");
    if (!file) return NULL;
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, size, file), size);
    fclose(file);
    ct_mesh *mesh;
    ct_error error = {0};
    if (ct_mesh_read(bytes, size, CT_FORMAT_PLY, NULL, &mesh, &error) != CT_OK) fail_msg("%s: %s", name, error.message);
    free(bytes);
    return mesh;
}

static bool numbers(const json_t *object, const char *key, double *out, size_t n) {
    const json_t *array = json_object_get(object, key);
    if (json_array_size(array) != n) return false;
    for (size_t i = 0; i < n; i++) out[i] = json_number_value(json_array_get(array, i));
    return true;
}

/* The rotation number i, as a pose. */
static void orientation(int i, double turn[12]) {
    uint64_t rng = (uint64_t)i;
    shape_pose_random(&rng, 0, turn);
    if (i == 0) shape_pose_identity(turn);
}

static void turn_point(const double turn[12], const double p[3], double weight, double out[3]) {
    for (int k = 0; k < 3; k++)
        out[k] = turn[4 * k] * p[0] + turn[4 * k + 1] * p[1] + turn[4 * k + 2] * p[2] + weight * turn[4 * k + 3];
}

static void move_pose(const double turn[12], const double pose[12], double out[12]) {
    for (int j = 0; j < 4; j++) {
        double column[3] = {pose[j], pose[4 + j], pose[8 + j]}, turned[3];
        turn_point(turn, column, j == 3, turned);
        for (int k = 0; k < 3; k++) out[4 * k + j] = turned[k];
    }
}

/* A case in motion: the scene of its two bodies, turned together, after a step. */
struct run {
    const char *name;
    double volume;                /* the true one, m^3 */
    double turn[12], pose[2][12]; /* of the whole; of each body then */
    ct_scene *scene;
    ct_result *result;
};

/* turn: NULL for none. False: a mesh is not there. */
static bool run_case(ct_engine *engine, const json_t *item, const ct_scene_settings *settings, const double *turn,
                     struct run *run) {
    *run = (struct run){.name = json_string_value(json_object_get(item, "name")),
                        .volume = json_number_value(json_object_get(item, "volume"))};
    double in_case[2][12];
    assert_true(numbers(item, "T_A", in_case[0], 12) && numbers(item, "T_B", in_case[1], 12));
    shape_pose_identity(run->turn);
    if (turn) memcpy(run->turn, turn, sizeof run->turn);
    assert_int_equal(ct_scene_create(engine, settings, &run->scene, NULL), CT_OK);
    for (int i = 0; i < 2; i++) {
        ct_mesh *mesh = load(json_string_value(json_object_get(json_object_get(item, "meshes"), i ? "B" : "A")));
        if (!mesh) {
            print_message("%s: a mesh is not there, passed over\n", run->name);
            ct_scene_destroy(&run->scene);
            return false;
        }
        move_pose(run->turn, in_case[i], run->pose[i]);
        ct_body_options options;
        uint32_t body;
        ct_body_options_init(&options);
        options.kind = CT_BODY_RIGID;
        memcpy(options.pose, run->pose[i], sizeof options.pose);
        assert_int_equal(ct_scene_add_body(run->scene, mesh, &options, &body, NULL), CT_OK);
        ct_mesh_release(&mesh);
    }
    ct_step step = {.scene = run->scene, .want = CT_WANT_ALL};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
    run->result = step.result;
    return true;
}

static void end_case(struct run *run) {
    ct_result_free(&run->result);
    ct_scene_destroy(&run->scene);
}

typedef void (*check_fn)(ct_engine *engine, const json_t *item, void *argument);

static void for_all_cases(check_fn check, void *argument) {
    json_error_t error;
    json_t *list = json_load_file(in_folder("cases.json"), 0, &error);
    if (!list) {
        print_message("SKIPPED: %s is not there; set CONTACTD_MESHES\n", path);
        skip();
    }
    ct_engine *engine = stage_engine(2, NULL);
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(list, "cases"), i, item) check(engine, item, argument);
    assert_true(i > 0);
    ct_engine_destroy(&engine);
    json_decref(list);
}

/* ---- the method LDI ---- */

/* The 6-vector of body 0, turned back. */
static void turn_back(const double turn[12], const double turned[6], double to[6]) {
    for (int i = 0; i < 6; i++) {
        to[i] = 0;
        for (int k = 0; k < 3; k++) to[i] += turn[4 * k + i % 3] * turned[i / 3 * 3 + k];
    }
}

static void check_gradient(const char *name, const json_t *expected, const ct_contact *c, const double turn[12],
                           const double pose[12], double tolerance) {
    double t[3], r[3], about[3], moved[3];
    if (!numbers(expected, "T_analytic_cgal", t, 3)) return; /* a degenerate placement has none */
    assert_true(numbers(expected, "R_analytic_cgal", r, 3) && numbers(expected, "about", about, 3));
    double worst = 0, g[6];
    turn_back(turn, c->generalized_gradient[0], g);
    for (int k = 0; k < 3; k++) {
        int i = (k + 1) % 3, j = (k + 2) % 3;
        moved[k] = g[3 + k] + (pose[4 * i + 3] - about[i]) * g[j] - (pose[4 * j + 3] - about[j]) * g[i];
        worst = fmax(worst, fmax(fabs(g[k] - t[k]), fabs(moved[k] - r[k])));
        assert_true(c->generalized_gradient[0][k] == -c->generalized_gradient[1][k]);
    }
    print_message("%-24s gradient off by %.1e, tolerance %.1e\n", name, worst, tolerance);
    assert_true(worst <= tolerance);
}

static void check_turned(ct_engine *engine, const json_t *item, int number) {
    const double area = json_number_value(json_object_get(item, "area"));
    const uint32_t resolution = number ? TURNED_RESOLUTION : RESOLUTION;
    const ct_scene_settings settings = stage_resolution(resolution);
    double turn[12];
    orientation(number, turn);
    struct run run;
    if (!run_case(engine, item, &settings, turn, &run)) return;
    if (run.volume == 0) {
        assert_true(run.result->n_contacts == 0 || (number && run.result->contacts[0].volume < 1e-6 * (1 + area)));
        print_message("%-24s no contact, as it should\n", run.name);
    } else {
        assert_int_equal(run.result->n_contacts, 1);
        const ct_contact *c = run.result->contacts;
        ct_body_info info[2];
        double pitch = 0, in_case[12];
        for (size_t i = 0; i < 2; i++) assert_int_equal(ct_scene_body_at(run.scene, i, &info[i]), CT_OK);
        for (int k = 0; k < 3; k++)
            pitch = fmax(pitch, (fmin(info[0].hi[k], info[1].hi[k]) - fmax(info[0].lo[k], info[1].lo[k])) / resolution);
        double tolerance = pitch * pitch * sqrt(area);
        if (json_is_true(json_object_get(item, "degenerate"))) tolerance = pitch * area;
        print_message("%-24s volume %.9g, off by %.1e (%.1e of it), tolerance %.1e\n", run.name, c->volume,
                      c->volume - run.volume, fabs(c->volume / run.volume - 1), tolerance);
        assert_true(fabs(c->volume - run.volume) <= tolerance);
        assert_true(numbers(item, "T_A", in_case, 12));
        check_gradient(run.name, json_object_get(item, "gradient"), c, turn, in_case,
                       3 * pow(pitch, 1.5) * sqrt(4 * sqrt(area)));
    }
    end_case(&run);
}

static void check_case(ct_engine *engine, const json_t *item, void *argument) {
    (void)argument;
    for (int k = 0; k < ORIENTATIONS; k++) check_turned(engine, item, k);
}

static void test_cases(void **state) {
    (void)state;
    for_all_cases(check_case, NULL);
}

/* ---- the method exact ---- */

/* Returns the gradient's largest error relative to its size, or -1 where none is known. */
static double gradient_error(const json_t *expected, const ct_contact *c, const double turn[12],
                             const double pose[12]) {
    double in_case[3][3], t[3], r[3], about[3];
    if (!numbers(expected, "T_analytic_cgal", in_case[0], 3)) return -1;
    assert_true(numbers(expected, "R_analytic_cgal", in_case[1], 3) && numbers(expected, "about", in_case[2], 3));
    turn_point(turn, in_case[0], 0, t);
    turn_point(turn, in_case[1], 0, r);
    turn_point(turn, in_case[2], 1, about);
    const double *g = c->generalized_gradient[0];
    double worst[2] = {0, 0}, size[2] = {0, 0};
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        const double moved = g[3 + k] + (pose[4 * i + 3] - about[i]) * g[j] - (pose[4 * j + 3] - about[j]) * g[i];
        worst[0] = fmax(worst[0], fabs(g[k] - t[k]));
        worst[1] = fmax(worst[1], fabs(moved - r[k]));
        size[0] = fmax(size[0], fabs(t[k]));
        size[1] = fmax(size[1], fabs(r[k]));
    }
    /* Nested bodies have none at all. */
    return size[0] > 1e-6 ? fmax(worst[0] / size[0], worst[1] / fmax(size[0], size[1])) : fmax(worst[0], worst[1]);
}

static void check_exact_turned(ct_engine *engine, const json_t *item, const double *turn) {
    const ct_scene_settings settings = stage_exact();
    struct run run;
    if (!run_case(engine, item, &settings, turn, &run)) return;
    assert_int_equal(run.result->n_contacts, run.volume > 0);
    if (run.volume > 0) {
        const ct_contact *c = run.result->contacts;
        const double error = fabs(c->volume - run.volume);
        const double gradient = gradient_error(json_object_get(item, "gradient"), c, run.turn, run.pose[0]);
        if (!turn) {
            print_message("%-24s volume off by %.1e of it, bound %.1e", run.name, error / run.volume,
                          c->error_bound / run.volume);
            if (gradient >= 0) print_message("; gradient off by %.1e", gradient);
            print_message("\n");
        }
        /* What the case file gives is known to 14 digits or so, and the turned poses are rounded. */
        assert_true(error <= c->error_bound + 1e-11 * run.volume);
        assert_true(error <= 1e-7 * run.volume && gradient <= 1e-7);
    }
    end_case(&run);
}

static void check_exact_case(ct_engine *engine, const json_t *item, void *rng) {
    check_exact_turned(engine, item, NULL);
    for (int k = 0; k < 2; k++) {
        double turn[12];
        shape_pose_random(rng, 3, turn);
        check_exact_turned(engine, item, turn);
    }
}

static void test_exact_cases(void **state) {
    (void)state;
    uint64_t rng = 1;
    for_all_cases(check_exact_case, &rng);
}

/* ---- the method EBPI ---- */

/* Of the volume; where there is none, of a cubic metre. The meshes are about 2 m long. */
static const double TOLERANCE = 1e-2, TOLERANCE_OF_NOTHING = 1e-3;

static const char *const ended_names[] = {"completed", "ray_budget", "pass_limit", "precision"};

struct ebpi_tally {
    int checked, completed, violated;
};

struct ebpi_tallies {
    uint64_t rng;
    struct ebpi_tally strict, published;
};

/* The error is within the bound, and the bound within the tolerance unless the step ended for another reason. */
static void check_ebpi_turned(ct_engine *engine, const json_t *item, const double *turn, bool strict,
                              struct ebpi_tally *tally) {
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EBPI;
    settings.strict = strict;
    if (json_number_value(json_object_get(item, "volume")) > 0)
        settings.tolerance_rel = TOLERANCE;
    else
        settings.tolerance = TOLERANCE_OF_NOTHING;
    struct run run;
    if (!run_case(engine, item, &settings, turn, &run)) return;
    const ct_result *r = run.result;
    const double volume = run.volume;
    const double found = r->n_contacts ? r->contacts[0].volume : 0, error = fabs(found - volume);
    const double bound = r->n_contacts ? r->contacts[0].error_bound : settings.tolerance;
    const double tolerance = fmax(settings.tolerance, TOLERANCE * found), scale = volume > 0 ? volume : 1;
    print_message("%-24s %-9s %s: error %.1e, bound %.1e of %.3g m^3, %llu rays, %s\n", run.name,
                  strict ? "strict" : "published", turn ? "turned" : "      ", error / scale, bound / scale, volume,
                  (unsigned long long)r->rays, ended_names[r->ended]);
    tally->checked++;
    tally->completed += r->ended == CT_ENDED_COMPLETED;
    tally->violated += error > bound + 1e-11 * volume; /* the case file has 14 digits or so, turned poses are rounded */
    assert_int_equal(r->n_contacts > 0 || volume <= tolerance, 1);
    if (r->ended == CT_ENDED_COMPLETED) {
        assert_true(bound <= tolerance);
    } else {
        assert_true(r->ended == CT_ENDED_RAY_BUDGET ? r->rays > CT_DEFAULT_RAY_BUDGET - 16
                                                    : r->ended <= CT_ENDED_PRECISION);
        assert_true(bound > TOLERANCE * (volume - bound));
    }
    end_case(&run);
}

static void check_ebpi_case(ct_engine *engine, const json_t *item, void *argument) {
    struct ebpi_tallies *all = argument;
    double turn[12];
    shape_pose_random(&all->rng, 3, turn);
    check_ebpi_turned(engine, item, NULL, true, &all->strict);
    check_ebpi_turned(engine, item, turn, true, &all->strict);
    check_ebpi_turned(engine, item, NULL, false, &all->published);
}

static void test_ebpi_cases(void **state) {
    (void)state;
    struct ebpi_tallies all = {.rng = 1};
    for_all_cases(check_ebpi_case, &all);
    print_message("strict: %d of %d completed; published: %d of %d, %d violated\n", all.strict.completed,
                  all.strict.checked, all.published.completed, all.published.checked, all.published.violated);
    assert_int_equal(all.strict.violated, 0);
    assert_int_equal(all.published.violated, 0);
    assert_true(2 * all.strict.completed > all.strict.checked);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_exact_cases),
                                       cmocka_unit_test(test_ebpi_cases)};
    return cmocka_run_group_tests_name("cases", tests, NULL, NULL);
}
