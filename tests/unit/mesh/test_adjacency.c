/* test_adjacency.c - what a mesh keeps in its slots, and the first of them: edge adjacency and area vectors, by hand
 * for a tetrahedron, by their laws for every shape; made once however many threads ask; bytes counted; no memory. */
#include "gpu/mesh/adjacency.h"
#include "gpu/mesh/mesh.h"

#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "gpu/base/fail.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

static uint32_t end_of(const ct_mesh *mesh, uint32_t half_edge, int which) {
    uint32_t t = ct_half_edge_triangle(half_edge), c = (ct_half_edge_corner(half_edge) + (uint32_t)which) % 3;
    return mesh->triangles[3 * (size_t)t + c];
}

static uint64_t bytes_of(const ct_mesh *mesh) {
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    return info.bytes;
}

/* Frees the shape. Opposites are mutual and run backwards; area vectors add up to 0, their lengths to the area, and
 * with the corners' positions to the volume. */
static void check(struct shape shape) {
    ct_mesh *mesh = shape_to_mesh(&shape, NULL);
    assert_non_null(mesh);
    const uint64_t before = bytes_of(mesh);
    ct_error error = {0};
    const ct_adjacency *a = ct_mesh_adjacency(mesh, &error);
    assert_non_null(a);
    assert_ptr_equal(ct_mesh_adjacency(mesh, &error), a);
    assert_true(bytes_of(mesh) >= before + 36 * (uint64_t)mesh->n_triangles);
    assert_true(bytes_of(mesh) <= before + 36 * (uint64_t)mesh->n_triangles + 128);
    double sum[3] = {0, 0, 0}, area = 0, volume = 0;
    for (uint32_t h = 0; h < 3 * mesh->n_triangles; h++) {
        const uint32_t opposite = ct_half_edge_opposite(a, h);
        assert_true(opposite < 3 * mesh->n_triangles);
        assert_int_not_equal(ct_half_edge_triangle(opposite), ct_half_edge_triangle(h));
        assert_int_equal(ct_half_edge_opposite(a, opposite), h);
        assert_int_equal(end_of(mesh, h, 0), end_of(mesh, opposite, 1));
        assert_int_equal(end_of(mesh, h, 1), end_of(mesh, opposite, 0));
    }
    for (uint32_t t = 0; t < mesh->n_triangles; t++) {
        const double *n = a->area_vector[t];
        const float *p = mesh->positions + 3 * (size_t)mesh->triangles[3 * (size_t)t];
        for (int k = 0; k < 3; k++) {
            sum[k] += n[k];
            volume += n[k] * (double)p[k] / 3;
        }
        area += sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    }
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_true(fabs(area - info.area) <= 1e-12 * area);
    for (int k = 0; k < 3; k++) assert_true(fabs(sum[k]) <= 1e-12 * area);
    double reach = 0;
    for (int k = 0; k < 3; k++) reach += fabs(info.lo[k]) + fabs(info.hi[k]);
    assert_true(fabs(volume - info.volume) <= 1e-12 * area * reach);
    ct_mesh_release(&mesh);
    shape_free(&shape);
}

static void test_shapes(void **state) {
    (void)state;
    check(shape_box(1, 2, 3));
    check(shape_cube(2, 1));
    check(shape_cube(2, 5));
    check(shape_l_prism(2, 3));
    check(shape_tetrahedron(2));
    for (int level = 0; level <= 5; level++) check(shape_icosphere(1, level));
    check(shape_torus(1, 0.25, 60, 30));
    check(shape_torus(1, 0.25, 3, 3));
    check(shape_cylinder(1, 2, 3));
    check(shape_cylinder(1, 2, 5000)); /* all around one vertex */
    check(shape_blob(1, 5, 0.5, 1));
    check(shape_bolt(1, 0.2, 0.3, 4, 48, 24));
    check(shape_nut(1, 0.2, 0.3, 3, 48, 24, 0.02, 3));
    uint64_t rng = 5;
    struct shape shuffled = shape_blob(2, 4, 0.3, 9);
    shape_shuffle(&shuffled, &rng);
    check(shuffled);
    struct shape far = shape_cube(1e-3, 3);
    shape_translate(&far, 0.5, -0.25, 8);
    check(far);
}

/* Corners 0 and 1 along each axis. Every two of the four faces share one edge. */
static void test_tetrahedron(void **state) {
    (void)state;
    struct shape shape = shape_tetrahedron(1);
    ct_mesh *mesh = shape_to_mesh(&shape, NULL);
    const ct_adjacency *a = ct_mesh_adjacency(mesh, NULL);
    assert_non_null(a);
    for (uint32_t t = 0; t < 4; t++) {
        unsigned neighbours = 0, corners = 0;
        for (uint32_t c = 0; c < 3; c++) {
            neighbours |= 1u << ct_half_edge_triangle(a->opposite[t][c]);
            corners |= 1u << mesh->triangles[3 * t + c];
        }
        assert_int_equal(neighbours, 15u & ~(1u << t));
        /* Without vertex 0: the slanted face. Without vertex k: the face in the plane across axis k - 1. */
        unsigned missing = 0;
        while (corners >> missing & 1) missing++;
        for (unsigned k = 0; k < 3; k++)
            assert_true(a->area_vector[t][k] == (missing == 0 ? 0.5 : missing == k + 1 ? -0.5 : 0));
    }
    ct_mesh_release(&mesh);
    shape_free(&shape);
}

/* Two tetrahedra that share one vertex; and a third that shares the positions of an edge with one of them, but not its
 * vertices. */
static void test_touching_pieces(void **state) {
    (void)state;
    static const float positions[] = {0, 0, 0, 1,  0, 0, 0, 1, 0, 0, 0, 1, -1, 0, 0,  0, -1,
                                      0, 0, 0, -1, 0, 0, 0, 1, 0, 0, 0, 0, -1, 0, -1, 0};
    static const uint32_t triangles[] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2,  3, 0, 4, 5,  0, 6,  4,
                                         0, 5, 6, 4, 6, 5, 7, 8, 9, 7, 10, 8, 7, 9, 10, 8, 10, 9};
    ct_mesh *mesh = NULL;
    ct_error error = {0};
    if (ct_mesh_create(positions, CT_F32, 11, triangles, 12, NULL, &mesh, &error)) fail_msg("%s", error.message);
    const ct_adjacency *a = ct_mesh_adjacency(mesh, NULL);
    for (uint32_t h = 0; h < 36; h++) {
        const uint32_t opposite = ct_half_edge_opposite(a, h);
        assert_int_equal(end_of(mesh, h, 0), end_of(mesh, opposite, 1));
        assert_int_equal(end_of(mesh, h, 1), end_of(mesh, opposite, 0));
    }
    ct_mesh_release(&mesh);
}

/* Lengths whose squares neither float32 nor a product of float32 numbers holds. */
static void test_extremes(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        const float s = i ? 1e-30f : 1e30f;
        const float positions[] = {0, 0, 0, s, 0, 0, 0, s, 0, 0, 0, s};
        const uint32_t triangles[] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};
        ct_mesh *mesh = NULL;
        assert_int_equal(ct_mesh_create(positions, CT_F32, 4, triangles, 4, NULL, &mesh, NULL), CT_OK);
        const ct_adjacency *a = ct_mesh_adjacency(mesh, NULL);
        for (int t = 0; t < 4; t++)
            for (int k = 0; k < 3; k++) {
                double n = fabs(a->area_vector[t][k]);
                assert_true(n == 0 || n == 0.5 * (double)s * (double)s);
            }
        ct_mesh_release(&mesh);
    }
}

/* ---- slots ---- */

static atomic_int made, destroyed, fails;

static void *make_inner(ct_mesh *mesh, uint64_t *bytes, ct_error *error) {
    if (atomic_load(&fails)) {
        ct_fail(error, CT_OUT_OF_MEMORY, "mesh", "no memory for the inner thing of %u triangles", mesh->n_triangles);
        return NULL;
    }
    atomic_fetch_add(&made, 1);
    *bytes = 1000;
    return malloc(1);
}

static void destroy(void *content) {
    atomic_fetch_add(&destroyed, 1);
    free(content);
}

static const ct_mesh_slot_kind inner = {"inner thing", make_inner, destroy};

/* Needs the inner one and the adjacency, as a tree over patches might. */
static void *make_outer(ct_mesh *mesh, uint64_t *bytes, ct_error *error) {
    if (!ct_mesh_slot_get(mesh, &inner, error) || !ct_mesh_adjacency(mesh, error)) return NULL;
    atomic_fetch_add(&made, 1);
    *bytes = 500;
    return malloc(1);
}

static const ct_mesh_slot_kind outer = {"outer thing", make_outer, destroy};

static void test_nested_and_failing(void **state) {
    (void)state;
    struct shape shape = shape_cube(1, 2);
    ct_mesh *mesh = shape_to_mesh(&shape, NULL);
    const uint64_t before = bytes_of(mesh);
    atomic_store(&made, 0), atomic_store(&destroyed, 0), atomic_store(&fails, 1);
    for (int i = 0; i < 2; i++) {
        ct_error error = {0};
        assert_null(ct_mesh_slot_get(mesh, &outer, &error));
        assert_int_equal(error.status, CT_OUT_OF_MEMORY);
        assert_non_null(strstr(error.message, "inner thing of 48 triangles"));
        assert_int_equal(bytes_of(mesh), before);
    }
    atomic_store(&fails, 0);
    const void *content = ct_mesh_slot_get(mesh, &outer, NULL);
    assert_non_null(content);
    assert_int_equal(atomic_load(&made), 2);
    const uint64_t with_outer = bytes_of(mesh);
    assert_true(with_outer >= before + 1500 + 36 * 48);
    assert_ptr_not_equal(ct_mesh_slot_get(mesh, &inner, NULL), content);
    assert_ptr_equal(ct_mesh_slot_get(mesh, &outer, NULL), content);
    ct_mesh_adjacency(mesh, NULL);
    assert_int_equal(bytes_of(mesh), with_outer);
    assert_int_equal(atomic_load(&made), 2);
    assert_int_equal(atomic_load(&destroyed), 0);
    ct_mesh_release(&mesh);
    assert_int_equal(atomic_load(&destroyed), 2);
    shape_free(&shape);
}

/* The last that drops content frees it, and its memory counts no more; it can be made again. */
static void test_holders(void **state) {
    (void)state;
    struct shape shape = shape_cube(1, 2);
    ct_mesh *mesh = shape_to_mesh(&shape, NULL);
    atomic_store(&made, 0), atomic_store(&destroyed, 0), atomic_store(&fails, 1);
    assert_null(ct_mesh_slot_hold(mesh, &inner, NULL));
    atomic_store(&fails, 0);
    const uint64_t before = bytes_of(mesh);
    for (int round = 1; round <= 2; round++) {
        const void *content = ct_mesh_slot_hold(mesh, &inner, NULL);
        assert_ptr_equal(ct_mesh_slot_hold(mesh, &inner, NULL), content);
        assert_true(bytes_of(mesh) >= before + 1000);
        ct_mesh_slot_drop(mesh, &inner);
        assert_ptr_equal(ct_mesh_slot_get(mesh, &inner, NULL), content);
        assert_int_equal(atomic_load(&made), round);
        ct_mesh_slot_drop(mesh, &inner);
        assert_int_equal(atomic_load(&destroyed), round);
        assert_in_range(bytes_of(mesh), before, before + 100);
    }
    assert_non_null(ct_mesh_slot_hold(mesh, &inner, NULL));
    ct_mesh_release(&mesh); /* frees what is held, too */
    assert_int_equal(atomic_load(&destroyed), 3);
    shape_free(&shape);
}

enum { THREADS = 8, ROUNDS = 40 };
static pthread_barrier_t barrier;

static void *ask(void *argument) {
    ct_mesh *mesh = argument;
    pthread_barrier_wait(&barrier);
    const ct_adjacency *a = ct_mesh_adjacency(mesh, NULL);
    const void *content = ct_mesh_slot_get(mesh, &outer, NULL);
    if (!content || ct_mesh_adjacency(mesh, NULL) != a || bytes_of(mesh) < 1000) return NULL;
    uint32_t mutual = 0;
    for (uint32_t h = 0; h < 3 * mesh->n_triangles; h++)
        mutual += ct_half_edge_opposite(a, ct_half_edge_opposite(a, h)) == h;
    return mutual == 3 * mesh->n_triangles ? (void *)(uintptr_t)a : NULL;
}

static void test_threads(void **state) {
    (void)state;
    struct shape shape = shape_icosphere(1, 4);
    atomic_store(&made, 0), atomic_store(&destroyed, 0), atomic_store(&fails, 0);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int round = 0; round < ROUNDS; round++) {
        ct_mesh *mesh = shape_to_mesh(&shape, NULL);
        pthread_t threads[THREADS];
        void *found[THREADS];
        for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask, mesh), 0);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], &found[i]);
        for (int i = 0; i < THREADS; i++) {
            assert_non_null(found[i]);
            assert_ptr_equal(found[i], found[0]);
        }
        ct_mesh_release(&mesh);
    }
    assert_int_equal(atomic_load(&made), 2 * ROUNDS);
    assert_int_equal(atomic_load(&destroyed), 2 * ROUNDS);
    pthread_barrier_destroy(&barrier);
    shape_free(&shape);
}

/* ---- memory ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMITS_WORK = 0 }; /* the sanitizers' own memory counts too */
#else
enum { LIMITS_WORK = 1 };
#endif

/* With no address space left beyond what is mapped, a mesh of 81,920 triangles has no memory for 3 MB more. */
static void test_no_memory(void **state) {
    (void)state;
    if (!LIMITS_WORK) skip();
    struct shape shape = shape_icosphere(1, 6);
    ct_mesh *mesh = shape_to_mesh(&shape, NULL);
    const uint64_t before = bytes_of(mesh);
    struct rlimit old, none;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    none = old;
    none.rlim_cur = 1 << 20;
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    ct_error error = {0};
    const ct_adjacency *a = ct_mesh_adjacency(mesh, &error);
    void *const more = mmap(NULL, 1 << 24, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    setrlimit(RLIMIT_AS, &old);
    if (more != MAP_FAILED) skip(); /* emulators of a processor keep no such limit */
    assert_null(a);
    assert_int_equal(error.status, CT_OUT_OF_MEMORY);
    assert_string_equal(error.field, "mesh");
    assert_non_null(strstr(error.message, "edge adjacency of 81920 triangles: it takes 29491"));
    assert_int_equal(bytes_of(mesh), before);
    assert_non_null(ct_mesh_adjacency(mesh, NULL)); /* and later there is some */
    ct_mesh_release(&mesh);
    shape_free(&shape);
}

int main(void) {
    /* For test_no_memory: malloc gives large blocks back to the system, and has no arenas reserved to fall back to. */
    mallopt(M_MMAP_THRESHOLD, 1 << 16);
    mallopt(M_ARENA_MAX, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tetrahedron),
                                       cmocka_unit_test(test_shapes),
                                       cmocka_unit_test(test_touching_pieces),
                                       cmocka_unit_test(test_extremes),
                                       cmocka_unit_test(test_nested_and_failing),
                                       cmocka_unit_test(test_holders),
                                       cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests_name("adjacency", tests, NULL, NULL);
}
