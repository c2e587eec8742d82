/* test_history.c - a scene that lived through other steps, settings and meshes answers as a fresh one in its state. */
#include "tests/consistency/twin.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* slow on the shim */
enum { RANDOM_SCENES = 1, IS_SLOW = 1 };
#else
enum { RANDOM_SCENES = 3, IS_SLOW = 0 };
#endif

static struct stage open_on(int e, const ct_scene_settings *settings, const struct placed *bodies, int n) {
    return stage_open(engines[e], settings, bodies, n);
}

static void configure(struct stage *stage, const ct_scene_settings *settings) {
    ct_error error = {0};
    if (ct_scene_configure(stage->scene, settings, &error)) fail_msg("%s: %s", error.field, error.message);
}

static void assert_same_boxes(const ct_scene *scene, const ct_scene *fresh) {
    for (size_t i = 0; i < ct_scene_body_count(scene); i++) {
        ct_body_info info, expected;
        assert_int_equal(ct_scene_body_at(scene, i, &info), CT_OK);
        assert_int_equal(ct_scene_body_at(fresh, i, &expected), CT_OK);
        assert_memory_equal(info.lo, expected.lo, sizeof info.lo);
        assert_memory_equal(info.hi, expected.hi, sizeof info.hi);
    }
}

/* Boxes of voxel trees, and so the pairs that a step looks at, are those of the trees that the scene uses now. Bodies
 * do not move between the steps. */
static void test_tree_levels(void **state) {
    (void)state;
    static const uint32_t levels[][2] = {{3, 0}, {5, 0}, {3, 0}, {0, 0},
                                         {4, 2}, {0, 6}, {3, 0}}; /* voxel_level, level */
    struct shape ball = shape_icosphere(0.5, 2);
    /* Apart by less than a cube of level 3, and by more than one of level 5, along a diagonal of the cubes. */
    double pose[2][12];
    for (int b = 0; b < 2; b++)
        shape_pose_axis((const double[3]){0, 0, 1}, 0.125, (const double[3]){1.06 * b, 0, 0}, pose[b]);
    const struct placed balls[] = {{&ball, pose[0], CT_BODY_RIGID, 0}, {&ball, pose[1], CT_BODY_RIGID, 0}};
    ct_scene_settings settings = stage_voxtree(5, 0);
    struct stage old = open_on(1, &settings, balls, 2);
    bool saw_pairs[2] = {false, false};
    for (size_t i = 0; i < 2 * sizeof levels / sizeof *levels; i++) {
        const uint32_t *level = levels[i / 2];
        settings = i % 2 ? stage_exact() : stage_voxtree(level[0], level[1]);
        if (i >= sizeof levels / sizeof *levels && i % 2) continue; /* some steps follow one of another method */
        configure(&old, &settings);
        struct stage fresh = open_on(0, &settings, balls, 2);
        ct_result *r = stage_step(&old, NULL, 0, 0), *expected = stage_step(&fresh, NULL, 0, 0);
        assert_int_equal(r->pairs, expected->pairs);
        assert_int_equal(r->n_contacts, expected->n_contacts);
        assert_same_boxes(old.scene, fresh.scene);
        saw_pairs[expected->pairs > 0] = true;
        ct_result_free(&r);
        ct_result_free(&expected);
        stage_close(&fresh);
    }
    assert_true(saw_pairs[0] && saw_pairs[1]);
    stage_close(&old);
    shape_free(&ball);
}

/* Sends a body's rest positions moved by x, mirrored or not. */
static void place(struct stage *stage, int i, const struct shape *shape, double x, bool is_mirrored) {
    float *positions = malloc(12 * (size_t)shape->n_vertices);
    assert_non_null(positions);
    memcpy(positions, shape->positions, 12 * (size_t)shape->n_vertices);
    for (uint32_t v = 0; v < shape->n_vertices; v++)
        positions[3 * v] = (float)((is_mirrored ? -1 : 1) * (double)positions[3 * v] + x);
    const ct_update update = {.body = stage->body[i],
                              .kind = CT_UPDATE_POSITIONS,
                              .positions = positions,
                              .dtype = CT_F32,
                              .count = shape->n_vertices};
    ct_result *r = stage_step(stage, &update, 1, 0);
    ct_result_free(&r);
    free(positions);
}

static double volume_of_step(struct stage *stage) {
    ct_result *r = stage_step(stage, NULL, 0, 0);
    const double volume = r->n_contacts ? r->contacts->volume : 0;
    ct_result_free(&r);
    return volume;
}

/* EXACT gives no contact of a body that is inside out, and one of a body that no longer is, however large the body and
 * whatever moved it before. Cubes of 17,328 triangles, whose volumes other methods do not measure in every step. */
static void test_large_bodies_inside_out(void **state) {
    (void)state;
    ct_engine_facts facts;
    ct_engine_get_facts(engines[1], 0, &facts);
    if (IS_SLOW && strcmp(facts.backend, "cpu") != 0) skip(); /* minutes */
    struct shape cube = shape_cube(1, 38);
    const struct placed cubes[] = {{&cube, NULL, CT_BODY_DEFORMABLE, 0}, {&cube, NULL, CT_BODY_DEFORMABLE, 0}};
    const ct_scene_settings exact = stage_exact(), rays = stage_resolution(4);
    for (int between = 0; between < 2; between++) { /* moved by EXACT itself, or by LDI */
        struct stage stage = open_on(1, &exact, cubes, 2);
        const struct {
            bool is_mirrored[2];
            double volume;
        } rounds[] = {{{0, 0}, 0.5}, {{1, 1}, 0}, {{1, 0}, 0}, {{0, 0}, 0.5}};
        for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
            if (between) configure(&stage, &rays);
            for (int b = 0; b < 2; b++) place(&stage, b, &cube, 0.5 * b, rounds[i].is_mirrored[b]);
            configure(&stage, &exact);
            assert_float_equal(volume_of_step(&stage), rounds[i].volume, 1e-6);
        }
        stage_close(&stage);
    }
    shape_free(&cube);
}

/* ---- random operations ---- */

enum { MEMBERS = 7, KINDS_OF_SHAPES = 4, MOST_VERTICES = 200 };

/* A body as its scene should have it. */
struct member {
    uint32_t id;
    int shape; /* -1: a half-space */
    ct_body_kind kind;
    double pose[12];
    float positions[3 * MOST_VERTICES]; /* of a deformable body */
};

struct history {
    struct stage stage;
    ct_scene_settings settings;
    struct member of[MEMBERS];
    int n;
    uint32_t moves_in; /* a body moves in about one of so many steps; in some others it is sent where it is already */
    uint64_t rng;
};

static struct shape shapes[KINDS_OF_SHAPES];

static uint32_t below(struct history *h, uint32_t n) {
    return (uint32_t)(shape_random(&h->rng) % n);
}

static ct_scene_settings random_settings(struct history *h) {
    ct_scene_settings s = stage_exact();
    switch (below(h, 8)) {
    case 0:
        s = stage_resolution(4 + below(h, 8));
        break;
    case 1:
        s = stage_pixel(0.125);
        s.method = CT_METHOD_LDI;
        s.cell_size = below(h, 2) ? 0.5 : 0;
        break;
    case 2:
    case 3:
        s = stage_voxtree(below(h, 2) ? 0 : 3 + below(h, 3), 0);
        s.refine = below(h, 2);
        break;
    case 4:
        s.method = CT_METHOD_EBPI;
        s.tolerance = 0.02;
        s.ray_budget = 300;
        s.strict = below(h, 2);
        break;
    default:
        s.patches = below(h, 2);
    }
    s.margin = below(h, 2) ? 0 : 0.4;
    s.max_points = below(h, 2) ? 0 : 3;
    return s;
}

static void start_at_rest(struct member *m) {
    if (m->shape >= 0) memcpy(m->positions, shapes[m->shape].positions, 12 * (size_t)shapes[m->shape].n_vertices);
}

static uint32_t add_member(ct_scene *scene, const struct member *m) {
    ct_body_options options;
    ct_body_options_init(&options);
    options.kind = m->kind;
    memcpy(options.pose, m->pose, sizeof options.pose);
    ct_mesh *mesh = m->shape < 0 ? NULL : shape_to_mesh(&shapes[m->shape], NULL);
    uint32_t id = 0;
    ct_scene_add_body(scene, mesh, &options, &id, NULL); /* some methods refuse some kinds: 0 */
    ct_mesh_release(&mesh);
    return id;
}

static void add_random(struct history *h) {
    if (h->n == MEMBERS) return;
    struct member m = {.shape = (int)below(h, KINDS_OF_SHAPES)};
    m.kind = below(h, 3) ? CT_BODY_RIGID : below(h, 2) ? CT_BODY_DEFORMABLE : CT_BODY_HALF_SPACE;
    if (m.kind == CT_BODY_HALF_SPACE) m.shape = -1;
    shape_pose_random(&h->rng, 0.6, m.pose);
    start_at_rest(&m);
    if (!(m.id = add_member(h->stage.scene, &m))) return;
    int at = h->n++;
    for (; at > 0 && h->of[at - 1].id > m.id; at--) h->of[at] = h->of[at - 1];
    h->of[at] = m;
}

static void remove_random(struct history *h) {
    if (h->n == 0) return;
    const int i = (int)below(h, (uint32_t)h->n);
    assert_int_equal(ct_scene_remove_body(h->stage.scene, h->of[i].id, NULL), CT_OK);
    memmove(&h->of[i], &h->of[i + 1], (size_t)(--h->n - i) * sizeof h->of[0]);
}

static void replace_random(struct history *h) {
    struct member *m = &h->of[below(h, MEMBERS)];
    if (m >= h->of + h->n || m->shape < 0) return;
    m->shape = (int)below(h, KINDS_OF_SHAPES);
    ct_mesh *mesh = shape_to_mesh(&shapes[m->shape], NULL);
    assert_int_equal(ct_scene_replace_mesh(h->stage.scene, m->id, mesh, NULL), CT_OK);
    ct_mesh_release(&mesh);
    start_at_rest(m);
}

/* A pose, all positions, or some of them; refused at times for its last number. */
static ct_update random_update(struct history *h, struct member *m, float *rows, uint32_t *indices) {
    ct_update u = {.body = m->id, .kind = CT_UPDATE_POSE, .positions = rows, .dtype = CT_F32, .indices = indices};
    double pose[12];
    shape_pose_random(&h->rng, 0.6, pose);
    memcpy(u.pose, pose, sizeof u.pose);
    if (m->kind != CT_BODY_DEFORMABLE) return u;
    const struct shape *shape = &shapes[m->shape];
    const bool is_whole = below(h, 2), is_mirrored = below(h, 6) == 0;
    u.kind = is_whole ? CT_UPDATE_POSITIONS : CT_UPDATE_INDEXED;
    u.count = is_whole ? shape->n_vertices : 1 + below(h, 20);
    u.n_indices = is_whole ? 0 : u.count;
    for (uint64_t i = 0; i < u.count; i++) {
        const uint32_t v = is_whole ? (uint32_t)i : below(h, shape->n_vertices);
        indices[i] = v;
        for (uint32_t k = 0; k < 3; k++) {
            const float *p = shape->positions + 3 * (size_t)v;
            const double moved = pose[4 * k] * (double)p[0] * (is_mirrored ? -1 : 1) + pose[4 * k + 1] * (double)p[1] +
                                 pose[4 * k + 2] * (double)p[2] + pose[4 * k + 3];
            rows[3 * i + k] =
                is_whole ? (float)moved : m->positions[3 * v + k] + (float)shape_uniform(&h->rng, -0.1, 0.1);
        }
    }
    return u;
}

/* Where the body is already. */
static ct_update same_update(struct member *m, uint32_t *indices) {
    ct_update u = {.body = m->id, .kind = CT_UPDATE_POSE};
    memcpy(u.pose, m->pose, sizeof u.pose);
    if (m->kind != CT_BODY_DEFORMABLE) return u;
    u = (ct_update){.body = m->id,
                    .kind = CT_UPDATE_POSITIONS,
                    .positions = m->positions,
                    .dtype = CT_F32,
                    .indices = indices,
                    .count = shapes[m->shape].n_vertices};
    for (uint32_t i = 0; i < u.count; i++) indices[i] = i;
    return u;
}

static void apply(struct member *m, const ct_update *u) {
    if (u->kind == CT_UPDATE_POSE) memcpy(m->pose, u->pose, sizeof m->pose);
    const float *rows = u->positions;
    if (rows == m->positions) return;
    for (uint64_t i = 0; i < u->count; i++)
        memcpy(m->positions + 3 * (size_t)((const uint32_t *)u->indices)[i], rows + 3 * i, 12);
}

/* Bodies by their place among the scene's, for scenes whose handles differ. */
static void number_bodies(const struct stage *stage, int n, uint32_t body[2]) {
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < n; i++)
            if (stage->body[i] == body[k]) {
                body[k] = (uint32_t)i;
                break;
            }
}

static void number_all(const struct stage *stage, int n, ct_result *r) {
    for (size_t i = 0; i < r->n_contacts; i++) number_bodies(stage, n, r->contacts[i].body);
    for (size_t i = 0; i < r->n_cells; i++) number_bodies(stage, n, r->cells[i].body);
    for (size_t i = 0; i < r->n_separations; i++) number_bodies(stage, n, r->separations[i].body);
    for (size_t i = 0; i < r->n_progress; i++) number_bodies(stage, n, r->progress[i].body);
}

/* The same answer as that of a fresh scene, on the CPU, of the same settings and bodies. */
static void compare_with_fresh(struct history *h, ct_result *r, uint32_t want) {
    struct stage fresh = open_on(0, &h->settings, NULL, 0);
    ct_update placed[MEMBERS];
    size_t n_placed = 0;
    for (int i = 0; i < h->n; i++) {
        const struct member *m = &h->of[i];
        fresh.body[i] = add_member(fresh.scene, m);
        h->stage.body[i] = m->id;
        assert_int_not_equal(fresh.body[i], 0);
        if (m->kind == CT_BODY_DEFORMABLE)
            placed[n_placed++] = (ct_update){.body = fresh.body[i],
                                             .kind = CT_UPDATE_POSITIONS,
                                             .positions = m->positions,
                                             .dtype = CT_F32,
                                             .count = shapes[m->shape].n_vertices};
    }
    ct_result *expected = stage_step(&fresh, placed, n_placed, want);
    number_all(&h->stage, h->n, r);
    number_all(&fresh, h->n, expected);
    char hex[2][33];
    stage_hash(r, hex[0]);
    stage_hash(expected, hex[1]);
    assert_string_equal(hex[0], hex[1]);
    assert_same_separations("history", r, expected);
    assert_same_slip("history", r, expected);
    assert_int_equal(r->n_points, expected->n_points);
    for (uint64_t i = 0; i < r->n_points; i++)
        assert_memory_equal(&r->points[i], &expected->points[i], sizeof *r->points);
    assert_int_equal(r->n_warnings, expected->n_warnings);
    if (r->method == CT_METHOD_EBPI) assert_same_bounds("history", r, expected);
    if (r->method == CT_METHOD_VOXTREE) assert_same_progress("history", r, expected);
    assert_same_boxes(h->stage.scene, fresh.scene);
    ct_result_free(&expected);
    stage_close(&fresh);
}

static size_t step_random(struct history *h) {
    float rows[MEMBERS][3 * MOST_VERTICES];
    uint32_t indices[MEMBERS][MOST_VERTICES];
    ct_update updates[MEMBERS];
    struct member *moved[MEMBERS];
    size_t n = 0;
    for (int i = 0; i < h->n; i++)
        if (below(h, h->moves_in) == 0) {
            moved[n] = &h->of[i];
            updates[n] = random_update(h, moved[n], rows[n], indices[n]);
            n++;
        } else if (below(h, 4) == 0) {
            moved[n] = &h->of[i];
            updates[n] = same_update(moved[n], indices[n]);
            n++;
        }
    if (n && below(h, 6) == 0) { /* refused: nothing changes */
        ct_update *last = &updates[n - 1];
        if (last->kind == CT_UPDATE_POSE)
            last->pose[3] = NAN;
        else
            last->positions = memcpy(rows[n - 1], last->positions, 12 * last->count),
            rows[n - 1][3 * last->count - 1] = INFINITY;
        ct_step step = {.scene = h->stage.scene, .updates = updates, .n_updates = n};
        assert_int_equal(ct_engine_run(h->stage.engine, &step, 1), CT_NON_FINITE);
        n = 0;
    }
    uint32_t want = below(h, 2) ? CT_WANT_ALL : below(h, 16);
    if (want != CT_WANT_ALL && h->settings.method == CT_METHOD_VOXTREE) want &= ~(uint32_t)CT_WANT_FORCES; /* refused */
    ct_result *r = stage_step(&h->stage, updates, n, want);
    for (size_t i = 0; i < n; i++) apply(moved[i], &updates[i]);
    compare_with_fresh(h, r, want);
    const size_t contacts = r->n_contacts;
    ct_result_free(&r);
    return contacts;
}

static void make_shapes(void) {
    shapes[0] = shape_cube(1, 3);
    shapes[1] = shape_icosphere(0.6, 2);
    shapes[2] = shape_torus(0.6, 0.25, 12, 8);
    shapes[3] = shape_l_prism(1, 0.5);
}

static void free_shapes(void) {
    for (int i = 0; i < KINDS_OF_SHAPES; i++) shape_free(&shapes[i]);
}

/* Bodies come, go, move and get other meshes, settings change, steps are refused: each answer is a fresh scene's. */
static void test_random_operations(void **state) {
    (void)state;
    enum { OPERATIONS = 30 };
    make_shapes();
    size_t contacts = 0;
    for (uint64_t seed = 0; seed < RANDOM_SCENES; seed++) {
        struct history *h = calloc(1, sizeof *h);
        assert_non_null(h);
        h->rng = seed;
        h->moves_in = 2;
        h->settings = stage_exact();
        h->stage = open_on(1, &h->settings, NULL, 0);
        for (int i = 0; i < 3; i++) add_random(h);
        for (int i = 0; i < OPERATIONS; i++) {
            const uint32_t operation = below(h, 10);
            const ct_scene_settings next = random_settings(h);
            if (operation == 0) add_random(h);
            if (operation == 1) remove_random(h);
            if (operation == 2) replace_random(h);
            if (operation == 3 || operation == 4) /* refused where a body does not suit the method */
                if (ct_scene_configure(h->stage.scene, &next, NULL) == CT_OK) h->settings = next;
            if (operation > 4) contacts += step_random(h);
        }
        stage_close(&h->stage);
        free(h);
    }
    assert_true(contacts > RANDOM_SCENES);
    free_shapes();
}

/* Most bodies move in few steps, or are sent where they are already. */
static void test_bodies_at_rest(void **state) {
    (void)state;
    enum { STEPS = 20 };
    make_shapes();
    size_t contacts = 0;
    for (uint64_t seed = 0; seed < 4 * RANDOM_SCENES; seed++) {
        struct history *h = calloc(1, sizeof *h);
        assert_non_null(h);
        h->rng = 1000 + seed;
        h->moves_in = 8;
        h->settings = seed % 2 ? stage_resolution(8) : stage_exact();
        h->settings.patches = seed % 4 == 2; /* of exact */
        h->stage = open_on(1, &h->settings, NULL, 0);
        for (int i = 0; i < MEMBERS; i++) add_random(h);
        for (int i = 0; i < STEPS; i++) contacts += step_random(h);
        stage_close(&h->stage);
        free(h);
    }
    assert_true(contacts > STEPS);
    free_shapes();
}

static void step_and_forget(struct stage *stage, const ct_update *update) {
    ct_result *r = stage_step(stage, update, update != NULL, CT_WANT_ALL);
    ct_result_free(&r);
}

/* Answers are kept of a pair that has come to rest, in memory that the scene tells, and dropped when a body moves. */
static void test_answers_are_kept(void **state) {
    (void)state;
    ct_engine_facts facts;
    ct_engine_get_facts(engines[1], 0, &facts);
    if (strcmp(facts.backend, "cpu") != 0) skip(); /* it computes all pairs in each step */
    struct shape ball = shape_icosphere(0.5, 3);
    double pose[2][12];
    for (int b = 0; b < 2; b++)
        shape_pose_axis((const double[3]){0, 0, 1}, 0.1, (const double[3]){0.7 * b, 0, 0}, pose[b]);
    const struct placed balls[] = {{&ball, pose[0], CT_BODY_RIGID, 0}, {&ball, pose[1], CT_BODY_RIGID, 0}};
    for (int method = 0; method < 2; method++) {
        const ct_scene_settings settings = method ? stage_resolution(8) : stage_exact();
        struct stage stage = open_on(1, &settings, balls, 2);
        ct_update update = {.body = stage.body[1], .kind = CT_UPDATE_POSE};
        memcpy(update.pose, pose[1], sizeof update.pose);
        step_and_forget(&stage, NULL);
        const uint64_t first = ct_scene_bytes(stage.scene);
        step_and_forget(&stage, &update); /* not moved, as it is where it was */
        assert_true(ct_scene_bytes(stage.scene) > first + 1000);
        update.pose[3] += 1e-9;
        step_and_forget(&stage, &update);
        assert_int_equal(ct_scene_bytes(stage.scene), first);
        stage_close(&stage);
    }
    shape_free(&ball);
}

/* So they are where all positions of a deformable body are sent as they are: floats, doubles that floats hold, and
 * doubles that they do not hold, far from the world's origin too. */
static void test_answers_are_kept_of_deformable_bodies(void **state) {
    (void)state;
    ct_engine_facts facts;
    ct_engine_get_facts(engines[1], 0, &facts);
    if (strcmp(facts.backend, "cpu") != 0) skip(); /* it computes all pairs in each step */
    struct shape ball = shape_icosphere(0.5, 3);
    const struct placed balls[] = {{&ball, NULL, CT_BODY_DEFORMABLE, 0}, {&ball, NULL, CT_BODY_DEFORMABLE, 0}};
    const uint64_t count = ball.n_vertices;
    double *wide = malloc(24 * count);
    float *narrow = malloc(12 * count);
    for (int kind = 0; kind < 4; kind++) {
        const ct_scene_settings settings = kind % 2 ? stage_resolution(8) : stage_exact();
        struct stage stage = open_on(1, &settings, balls, 2);
        ct_update updates[2];
        for (int b = 0; b < 2; b++)
            updates[b] = (ct_update){stage.body[b], CT_UPDATE_POSITIONS, wide, CT_F64, count, NULL, 0, {0}};
        for (uint64_t i = 0; i < 3 * count; i++) {
            narrow[i] = ball.positions[i];
            wide[i] = kind == 1 ? (double)ball.positions[i] : 1.1 * (double)ball.positions[i] + (kind == 3 ? 1000 : 0);
        }
        if (kind == 0)
            for (int b = 0; b < 2; b++) updates[b].positions = narrow, updates[b].dtype = CT_F32;
        ct_result *r = stage_step(&stage, updates, 2, CT_WANT_ALL);
        ct_result_free(&r);
        const uint64_t first = ct_scene_bytes(stage.scene);
        r = stage_step(&stage, updates, 2, CT_WANT_ALL);
        ct_result_free(&r);
        assert_true(ct_scene_bytes(stage.scene) > first + 1000);
        narrow[3 * count - 1] = nextafterf(narrow[3 * count - 1], INFINITY);
        wide[3 * count - 1] = kind == 1 ? (double)narrow[3 * count - 1] : wide[3 * count - 1] + 1e-9;
        r = stage_step(&stage, updates, 2, CT_WANT_ALL);
        ct_result_free(&r);
        assert_int_equal(ct_scene_bytes(stage.scene), first);
        stage_close(&stage);
    }
    free(wide);
    free(narrow);
    shape_free(&ball);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_levels),       cmocka_unit_test(test_large_bodies_inside_out),
        cmocka_unit_test(test_random_operations), cmocka_unit_test(test_bodies_at_rest),
        cmocka_unit_test(test_answers_are_kept),  cmocka_unit_test(test_answers_are_kept_of_deformable_bodies),
    };
    static const char *const rasterizers[] = {"native"};
    return twin_run_on_backends(tests, sizeof tests / sizeof *tests, rasterizers, 1);
}
