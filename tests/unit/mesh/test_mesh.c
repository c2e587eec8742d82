/* test_mesh.c - meshes from arrays: every error with its message, and the contents of an accepted mesh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/include/contact.h"
#include "tests/scenes/shapes.h"

static ct_mesh *accept(const struct shape *shape) {
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(shape, &error);
    if (!mesh) fail_msg("refused: %s: %s", error.field, error.message);
    return mesh;
}

/* Frees the shape. The message must hold every one of the words given, up to a NULL. */
static void refuse(struct shape shape, ct_status status, const char *field, ...) {
    ct_error error = {0};
    ct_mesh *mesh = shape_to_mesh(&shape, &error);
    shape_free(&shape);
    assert_null(mesh);
    assert_string_equal(ct_status_name(error.status), ct_status_name(status));
    assert_string_equal(error.field, field);
    va_list words;
    va_start(words, field);
    for (const char *word; (word = va_arg(words, const char *));)
        if (!strstr(error.message, word)) fail_msg("\"%s\" is missing in: %s", word, error.message);
    va_end(words);
}

static void drop_triangle(struct shape *shape, uint32_t t) {
    memmove(shape->triangles + 3 * t, shape->triangles + 3 * (t + 1), 12 * (size_t)(shape->n_triangles - t - 1));
    shape->n_triangles--;
}

static void flip(struct shape *shape, uint32_t t) {
    uint32_t swap = shape->triangles[3 * t];
    shape->triangles[3 * t] = shape->triangles[3 * t + 1];
    shape->triangles[3 * t + 1] = swap;
}

/* One shape holding both. */
static struct shape join(struct shape a, struct shape b) {
    struct shape both = {malloc(12 * (a.n_vertices + b.n_vertices)), a.n_vertices + b.n_vertices,
                         malloc(12 * (a.n_triangles + b.n_triangles)), a.n_triangles + b.n_triangles};
    assert_non_null(both.positions);
    assert_non_null(both.triangles);
    memcpy(both.positions, a.positions, 12 * a.n_vertices);
    memcpy(both.positions + 3 * a.n_vertices, b.positions, 12 * b.n_vertices);
    memcpy(both.triangles, a.triangles, 12 * a.n_triangles);
    for (uint32_t i = 0; i < 3 * b.n_triangles; i++)
        both.triangles[3 * a.n_triangles + i] = b.triangles[i] + a.n_vertices;
    shape_free(&a);
    shape_free(&b);
    return both;
}

static void test_facts(void **state) {
    (void)state;
    struct shape box = shape_box(1, 2, 3);
    shape_translate(&box, 10, 20, -30);
    ct_mesh *mesh = accept(&box);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.vertices, 8);
    assert_int_equal(info.triangles, 12);
    assert_int_equal(info.components, 1);
    assert_true(info.bytes <= 8 * 12 + 12 * 12 + 480);
    assert_float_equal(info.volume, 6, 1e-12);
    assert_float_equal(info.area, 22, 1e-12);
    const double lo[3] = {9.5, 19, -31.5}, hi[3] = {10.5, 21, -28.5};
    assert_memory_equal(info.lo, lo, sizeof lo);
    assert_memory_equal(info.hi, hi, sizeof hi);
    assert_memory_equal(ct_mesh_positions(mesh), box.positions, 12 * 8);
    ct_mesh_release(&mesh);
    shape_free(&box);
}

/* Two boxes and a cavity in the larger, far from the origin: the parallel axis theorem. */
static void test_mass_properties(void **state) {
    (void)state;
    enum { N = 3 };
    const double side[N][3] = {{2, 3, 4}, {1, 1.5, 0.5}, {1, 0.5, 2}}, density[N] = {1, 1, -1},
                 at[N][3] = {{1000, -500, 250}, {1004, -501, 247}, {1000.25, -500.5, 250.5}};
    struct shape all = {0};
    double volume = 0, center[3] = {0}, expected[3][3] = {{0}};
    for (int b = 0; b < N; b++) {
        const double v = density[b] * side[b][0] * side[b][1] * side[b][2];
        struct shape box = shape_box(side[b][0], side[b][1], side[b][2]), both;
        shape_translate(&box, at[b][0], at[b][1], at[b][2]);
        for (uint32_t t = 0; t < box.n_triangles && density[b] < 0; t++) {
            const uint32_t second = box.triangles[3 * t + 1];
            box.triangles[3 * t + 1] = box.triangles[3 * t + 2];
            box.triangles[3 * t + 2] = second;
        }
        both = b ? shape_merge(&all, &box) : box;
        if (b) shape_free(&all), shape_free(&box);
        all = both;
        volume += v;
        for (int k = 0; k < 3; k++) center[k] += v * at[b][k];
    }
    for (int k = 0; k < 3; k++) center[k] /= volume;
    for (int b = 0; b < N; b++) {
        const double v = density[b] * side[b][0] * side[b][1] * side[b][2];
        double d[3], square = 0, sides = 0;
        for (int k = 0; k < 3; k++) {
            d[k] = at[b][k] - center[k];
            square += d[k] * d[k];
            sides += side[b][k] * side[b][k];
        }
        for (int k = 0; k < 3; k++)
            for (int l = 0; l < 3; l++)
                expected[k][l] += v * ((k == l ? square + (sides - side[b][k] * side[b][k]) / 12 : 0) - d[k] * d[l]);
    }
    ct_mesh *mesh = shape_to_mesh(&all, NULL);
    ct_mesh_info info;
    assert_non_null(mesh);
    ct_mesh_get_info(mesh, &info);
    assert_true(fabs(info.volume - volume) < 1e-10);
    assert_int_equal(info.shells, N);
    for (int k = 0; k < 3; k++) {
        assert_true(fabs(info.center_of_mass[k] - center[k]) < 1e-10);
        for (int l = 0; l < 3; l++) assert_true(fabs(info.inertia[k][l] - expected[k][l]) < 1e-9);
    }
    ct_mesh_release(&mesh);
    shape_free(&all);
}

static void test_far_from_origin(void **state) {
    (void)state;
    struct shape box = shape_box(2, 2, 2);
    shape_translate(&box, 1e6, -1e6, 1e6); /* still exact in float32 */
    ct_mesh *mesh = accept(&box);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_true(info.volume == 8 && info.area == 24);
    ct_mesh_release(&mesh);
    shape_free(&box);
}

/* A box in millimetres, which float32 does not hold: its volume and moments are those of the doubles given. */
static void test_doubles_are_measured(void **state) {
    (void)state;
    const double sides[3] = {1e-3, 2e-3, 3e-3}, at = 0.7;
    struct shape box = shape_box(2, 2, 2); /* -1 to 1 */
    double *positions = malloc(3 * box.n_vertices * sizeof *positions);
    assert_non_null(positions);
    for (size_t i = 0; i < 3 * box.n_vertices; i++) positions[i] = at + 0.5 * (double)box.positions[i] * sides[i % 3];
    ct_mesh *mesh = NULL;
    ct_error error = {0};
    assert_int_equal(
        ct_mesh_create(positions, CT_F64, box.n_vertices, box.triangles, box.n_triangles, NULL, &mesh, &error), CT_OK);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    const double volume = sides[0] * sides[1] * sides[2];
    assert_true(fabs(info.volume - volume) < 1e-12 * volume);
    assert_true(fabs(info.area - 22e-6) < 1e-12 * 22e-6);
    for (int k = 0; k < 3; k++) {
        const double b = sides[(k + 1) % 3], c = sides[(k + 2) % 3], expected = volume * (b * b + c * c) / 12;
        assert_true(fabs(info.center_of_mass[k] - at) < 1e-15);
        assert_true(fabs(info.inertia[k][k] - expected) < 1e-12 * expected);
    }
    ct_mesh_release(&mesh);
    free(positions);
    shape_free(&box);
}

static void test_memory_per_triangle(void **state) {
    (void)state;
    struct shape torus = shape_torus(1, 0.3, 100, 50);
    ct_mesh *mesh = accept(&torus);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_true(info.bytes <= 22 * info.triangles + 256);
    ct_mesh_release(&mesh);
    shape_free(&torus);
}

static void test_corners_are_canonical(void **state) {
    (void)state;
    uint64_t rng = 3;
    struct shape blob = shape_blob(1, 3, 0.4, 11);
    ct_mesh *mesh = accept(&blob);
    const float *p = ct_mesh_positions(mesh);
    const uint32_t *t = ct_mesh_triangles(mesh);
    bool *met = calloc(blob.n_triangles, sizeof *met);
    for (uint32_t i = 0; i < blob.n_triangles; i++) {
        for (int c = 0; c < 3; c++)
            assert_true(memcmp(&t[3 * i], &t[3 * i + c], 4) == 0 || p[3 * t[3 * i]] <= p[3 * t[3 * i + c]]);
        bool found = false; /* each once, reordered and rotated but never flipped */
        for (uint32_t j = 0; j < blob.n_triangles && !found; j++)
            for (uint32_t turn = 0; turn < 3 && !met[j] && !found; turn++) {
                const uint32_t *given = &blob.triangles[3 * j];
                for (uint32_t c = 0; c < 3; c++) {
                    found = t[3 * i + c] == given[(turn + c) % 3];
                    if (!found) break;
                }
                if (found) met[j] = true;
            }
        assert_true(found);
    }
    free(met);
    /* In any order of the file each triangle is the same three positions in the same order. */
    struct shape shuffled = shape_copy(&blob);
    shape_shuffle(&shuffled, &rng);
    ct_mesh *other = accept(&shuffled);
    const float *q = ct_mesh_positions(other);
    const uint32_t *u = ct_mesh_triangles(other);
    uint64_t sums[2] = {0, 0}; /* of hashes of the triangles' positions */
    for (int which = 0; which < 2; which++)
        for (uint32_t i = 0; i < blob.n_triangles; i++) {
            uint64_t hash = 1;
            for (int c = 0; c < 9; c++) {
                uint32_t bits;
                memcpy(&bits, which ? &q[3 * u[3 * i + c / 3] + c % 3] : &p[3 * t[3 * i + c / 3] + c % 3], 4);
                hash ^= bits;
                hash = shape_random(&hash);
            }
            sums[which] += hash;
        }
    assert_true(sums[0] == sums[1]);
    ct_mesh_release(&mesh);
    ct_mesh_release(&other);
    shape_free(&blob);
    shape_free(&shuffled);
}

static void test_hash(void **state) {
    (void)state;
    struct shape a = shape_torus(1, 0.3, 20, 10), b = shape_copy(&a), c = shape_copy(&a), d = shape_copy(&a);
    b.positions[77] = nextafterf(b.positions[77], 10);
    for (int k = 0; k < 3; k++) { /* same surface, other order */
        uint32_t swap = c.triangles[k];
        c.triangles[k] = c.triangles[3 + k];
        c.triangles[3 + k] = swap;
    }
    ct_mesh *meshes[4] = {accept(&a), accept(&b), accept(&c), accept(&d)};
    ct_mesh_info info[4];
    for (int i = 0; i < 4; i++) ct_mesh_get_info(meshes[i], &info[i]);
    assert_int_equal(strlen(info[0].hash), 32);
    assert_string_not_equal(info[0].hash, info[1].hash);
    assert_string_not_equal(info[0].hash, info[2].hash);
    assert_string_equal(info[0].hash, info[3].hash);
    for (int i = 0; i < 4; i++) ct_mesh_release(&meshes[i]);
    shape_free(&a);
    shape_free(&b);
    shape_free(&c);
    shape_free(&d);
}

static void test_double_and_unaligned(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    unsigned char positions[8 * 24 + 1], triangles[12 * 12 + 1];
    for (int i = 0; i < 24; i++) {
        double x = (double)box.positions[i] * (1 + 1e-12);
        memcpy(positions + 1 + 8 * i, &x, 8);
    }
    memcpy(triangles + 1, box.triangles, 12 * 12);
    ct_mesh *mesh;
    assert_int_equal(ct_mesh_create(positions + 1, CT_F64, 8, triangles + 1, 12, NULL, &mesh, NULL), CT_OK);
    assert_memory_equal(ct_mesh_positions(mesh), box.positions, 12 * 8);
    ct_mesh_release(&mesh);

    ct_error error = {0};
    const double huge = 1e300;
    memcpy(positions + 1 + 8 * 4, &huge, 8);
    assert_int_equal(ct_mesh_create(positions + 1, CT_F64, 8, triangles + 1, 12, NULL, &mesh, &error), CT_NON_FINITE);
    assert_non_null(strstr(error.message, "vertex 1 "));
    assert_non_null(strstr(error.message, ", inf, "));
    assert_int_equal(ct_mesh_create(positions + 1, (ct_dtype)7, 8, triangles + 1, 12, NULL, &mesh, NULL),
                     CT_INVALID_ARGUMENT);
    assert_int_equal(ct_mesh_create(NULL, CT_F32, 8, triangles + 1, 12, NULL, &mesh, NULL), CT_INVALID_ARGUMENT);
    shape_free(&box);
}

static void test_open(void **state) {
    (void)state;
    struct shape torus = shape_torus(1, 0.3, 10, 10);
    uint32_t *t = torus.triangles + 3 * 17;
    char edge[32];
    uint32_t low = t[0] < t[1] ? t[0] : t[1], high = t[0] < t[1] ? t[1] : t[0];
    snprintf(edge, sizeof edge, "%u-%u", low, high);
    drop_triangle(&torus, 17);
    refuse(torus, CT_INVALID_MESH, "triangles", edge, "has 1 face, expected 2", "and 2 more", "close the holes", NULL);
}

static void test_first_open_edge_is_named(void **state) {
    (void)state;
    struct shape cube = shape_cube(1, 4);
    for (int i = 0; i < 5; i++) drop_triangle(&cube, 40);
    refuse(cube, CT_INVALID_MESH, "triangles", "edge ", "has 1 face, expected 2 (and ", ", ...)", NULL);
}

/* Two tetrahedra that share the edge 0-3: four faces there. */
static struct shape join_at_edge(void) {
    struct shape a = shape_tetrahedron(1), b = shape_tetrahedron(1);
    for (int i = 0; i < 4; i++) b.positions[3 * i] *= -1, b.positions[3 * i + 1] *= -1; /* turned about z: shares 0-3 */
    struct shape both = join(a, b);
    for (uint32_t i = 12; i < 24; i++)
        both.triangles[i] = both.triangles[i] == 4 ? 0 : both.triangles[i] == 7 ? 3 : both.triangles[i];
    return both;
}

static void test_shared_edges(void **state) {
    (void)state;
    struct shape both = join_at_edge();
    ct_mesh *mesh = accept(&both);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.components, 1);
    assert_int_equal(info.shells, 2);
    assert_float_equal(info.volume, 1.0 / 3, 1e-12);
    ct_mesh_release(&mesh);
    shape_free(&both);

    both = join_at_edge(); /* one of them inside out */
    for (uint32_t t = 4; t < 8; t++) flip(&both, t);
    refuse(both, CT_INVALID_MESH, "triangles", "inside out: shell 2 of 2", "(repair)", NULL);
    both = join_at_edge(); /* and of half the other's size, so that the sum is positive */
    for (uint32_t v = 5; v < 7; v++)
        for (uint32_t k = 0; k < 3; k++) both.positions[3 * v + k] *= 0.5f;
    for (uint32_t t = 4; t < 8; t++) flip(&both, t);
    refuse(both, CT_INVALID_MESH, "triangles", "inside out: shell 2 of 2", "(repair)", NULL);

    both = join_at_edge(); /* a face twice; a fifth face */
    struct shape twice = join_at_edge();
    memcpy(twice.triangles + 12, twice.triangles, 12 * sizeof *twice.triangles);
    refuse(twice, CT_INVALID_MESH, "triangles", "has 4 faces, expected 2, or as many each way and none twice",
           "separate", "(repair)", NULL);
    both.triangles = realloc(both.triangles, 27 * sizeof *both.triangles);
    both.n_triangles = 9;
    memcpy(both.triangles + 24, ((uint32_t[]){0, 3, 5}), 12);
    refuse(both, CT_INVALID_MESH, "triangles", "edge 0-3 at (0, 0, 0) has 5 faces, expected 2", "separate", NULL);
}

static void test_turned(void **state) {
    (void)state;
    struct shape cube = shape_cube(1, 3);
    flip(&cube, 20);
    refuse(cube, CT_INVALID_MESH, "triangles", "in the same direction by both its faces", "and 2 more",
           "counter-clockwise", NULL);
}

static void test_everything_wrong_is_named(void **state) {
    (void)state;
    struct shape a = shape_torus(1, 0.3, 20, 20), b = shape_torus(1, 0.3, 20, 20);
    drop_triangle(&a, 100);
    flip(&a, 300);
    a.triangles[3 * 500 + 1] = a.triangles[3 * 500];
    struct shape both = join(a, b);
    uint32_t *const fins = realloc(both.triangles, 12 * (both.n_triangles + 1));
    memcpy(fins + 3 * (size_t)both.n_triangles++, (uint32_t[]){fins[3], fins[4], 790}, 12);
    both.triangles = fins;
    refuse(both, CT_INVALID_MESH, "triangles", "triangle 500 names vertex", "twice",
           "edge 0-790 at (1.3, 0, 0) has 1 face",
           "(open_direction). edges with more than 2 faces: 1. edges traversed in the same direction by both their "
           "faces: 3; "
           "closing (hull or wrap) takes any surface",
           NULL);
}

static void test_inside_out(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 2);
    for (uint32_t t = 0; t < ball.n_triangles; t++) flip(&ball, t);
    refuse(ball, CT_INVALID_MESH, "triangles", "inside out", "-4.04", "flip", NULL);
}

static void test_no_volume(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 2);
    for (uint32_t v = 0; v < ball.n_vertices; v++) /* pressed flat onto a slanted plane */
        ball.positions[3 * v + 2] = 0.25f * ball.positions[3 * v] + 0.5f * ball.positions[3 * v + 1];
    refuse(ball, CT_INVALID_MESH, "positions", "no volume", NULL);
    struct shape point = shape_icosphere(1, 1);
    for (uint32_t i = 0; i < 3 * point.n_vertices; i++) point.positions[i] = 7;
    refuse(point, CT_INVALID_MESH, "positions", "no volume", NULL);
}

static void test_bad_numbers(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    box.positions[3 * 5 + 1] = NAN;
    box.positions[3 * 6] = INFINITY;
    refuse(box, CT_NON_FINITE, "positions", "vertex 5 is (", "nan", "2 of 8", NULL);
    box = shape_box(1, 1, 1);
    box.triangles[3 * 7 + 1] = 8;
    box.triangles[3 * 9] = UINT32_MAX;
    refuse(box, CT_INVALID_MESH, "triangles", "triangle 7 names vertex 8", "8 vertices", "2 of 36", "4294967295", NULL);
}

static void test_empty(void **state) {
    (void)state;
    ct_mesh *mesh;
    ct_error error = {0};
    assert_int_equal(ct_mesh_create(NULL, CT_F32, 0, NULL, 0, NULL, &mesh, &error), CT_INVALID_MESH);
    assert_non_null(strstr(error.message, "empty"));
}

static void test_allowed(void **state) {
    (void)state;
    ct_mesh_info info;
    /* A cavity, a separate piece, a vertex of no triangle. */
    struct shape hole = shape_icosphere(0.5, 2), far = shape_box(1, 1, 1);
    for (uint32_t t = 0; t < hole.n_triangles; t++) flip(&hole, t);
    shape_translate(&far, 5, 0, 0);
    double cavity = -shape_volume(&hole);
    struct shape both = join(join(shape_box(2, 2, 2), hole), far);
    both.positions = realloc(both.positions, 12 * (size_t)(both.n_vertices + 1));
    assert_non_null(both.positions);
    memset(both.positions + 3 * both.n_vertices++, 0, 12);
    ct_mesh *mesh = accept(&both);
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.components, 3);
    assert_float_equal(info.volume, 9 - cavity, 1e-9);
    ct_mesh_release(&mesh);
    shape_free(&both);

    /* Two tetrahedra that touch in a vertex, and triangles without area whose corners are distinct vertices. */
    struct shape a = shape_tetrahedron(1), b = shape_tetrahedron(1);
    for (int i = 0; i < 4; i++) b.positions[3 * i] *= -1, b.positions[3 * i + 1] *= -1;
    both = join(a, b);
    for (uint32_t i = 12; i < 24; i++) both.triangles[i] = both.triangles[i] == 4 ? 0 : both.triangles[i];
    mesh = accept(&both);
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.components, 1);
    ct_mesh_release(&mesh);
    shape_free(&both);

    struct shape cube = shape_cube(1, 4);
    for (uint32_t v = 0; v < cube.n_vertices; v++)
        if (cube.positions[3 * v] == 0.25f) cube.positions[3 * v] = 0.5f; /* a layer of squares folded onto a line */
    mesh = accept(&cube);
    ct_mesh_release(&mesh);
    shape_free(&cube);
}

static void test_limits(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    ct_mesh *mesh;
    ct_error error = {0};
    ct_mesh_limits limits = {7, 100};
    assert_int_equal(ct_mesh_create(box.positions, CT_F32, 8, box.triangles, 12, &limits, &mesh, &error),
                     CT_LIMIT_EXCEEDED);
    assert_string_equal(error.field, "positions");
    limits = (ct_mesh_limits){8, 11};
    error = (ct_error){0};
    assert_int_equal(ct_mesh_create(box.positions, CT_F32, 8, box.triangles, 12, &limits, &mesh, &error),
                     CT_LIMIT_EXCEEDED);
    assert_string_equal(error.field, "triangles");
    assert_non_null(strstr(error.message, "12"));
    assert_non_null(strstr(error.message, "11"));
    limits.max_triangles = 12;
    assert_int_equal(ct_mesh_create(box.positions, CT_F32, 8, box.triangles, 12, &limits, &mesh, NULL), CT_OK);
    ct_mesh_release(&mesh);
    shape_free(&box);
}

/* A vertex of very many edges must not make the check quadratic: this would take minutes. */
static void test_star_is_quick(void **state) {
    (void)state;
    const uint32_t n = 400000;
    struct shape cone = shape_cylinder(1, 1, (int)n);
    uint64_t rng = 5;
    shape_shuffle(&cone, &rng);
    ct_mesh *mesh = accept(&cone);
    ct_mesh_release(&mesh);
    shape_free(&cone);
}

static void *retain_and_release(void *mesh) {
    for (int i = 0; i < 20000; i++) {
        ct_mesh *mine = ct_mesh_retain(mesh);
        ct_mesh_release(&mine);
    }
    return NULL;
}

static void test_references(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    ct_mesh *mesh = accept(&box), *second = ct_mesh_retain(mesh), *none = NULL;
    assert_ptr_equal(mesh, second);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, retain_and_release, mesh), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    ct_mesh_release(&mesh);
    assert_null(mesh);
    assert_memory_equal(ct_mesh_positions(second), box.positions, 12 * 8);
    ct_mesh_release(&second);
    ct_mesh_release(&none);
    shape_free(&box);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_mass_properties),
        cmocka_unit_test(test_far_from_origin),
        cmocka_unit_test(test_doubles_are_measured),
        cmocka_unit_test(test_memory_per_triangle),
        cmocka_unit_test(test_corners_are_canonical),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_double_and_unaligned),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_first_open_edge_is_named),
        cmocka_unit_test(test_shared_edges),
        cmocka_unit_test(test_turned),
        cmocka_unit_test(test_everything_wrong_is_named),
        cmocka_unit_test(test_inside_out),
        cmocka_unit_test(test_no_volume),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_star_is_quick),
        cmocka_unit_test(test_references),
    };
    return cmocka_run_group_tests_name("mesh", tests, NULL, NULL);
}
