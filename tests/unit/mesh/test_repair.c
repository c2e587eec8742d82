/* test_repair.c - ct_mesh_options.repair: damaged shapes get their volume back, the report says what was done and
 * where, and what cannot be repaired is refused with the reason. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/include/contact.h"
#include "gpu/mesh/build/repair.h"
#include "tests/scenes/shapes.h"

static ct_status repair(const struct shape *s, double max_hole, ct_mesh **out, ct_mesh_changes *changes,
                        ct_error *error) {
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    options.repair = true;
    options.max_hole = max_hole;
    memset(error, 0, sizeof *error);
    return ct_mesh_create_with(s->positions, CT_F32, s->n_vertices, s->triangles, s->n_triangles, &options, out,
                               changes, error);
}

static ct_mesh_info must_repair(const struct shape *s, double max_hole, double volume, ct_mesh_changes *changes) {
    ct_mesh *mesh;
    ct_error error;
    ct_mesh_info info;
    if (repair(s, max_hole, &mesh, changes, &error) != CT_OK) fail_msg("%s: %s", error.field, error.message);
    ct_mesh_get_info(mesh, &info);
    assert_float_equal(info.volume, volume, 1e-6 * fabs(volume));
    assert_int_equal(info.vertices, s->n_vertices);
    assert_memory_equal(ct_mesh_positions(mesh), s->positions, 12 * (size_t)s->n_vertices);
    /* What comes out is valid as it is, and the same mesh. */
    ct_mesh *again = NULL;
    ct_mesh_info other;
    assert_int_equal(ct_mesh_create(ct_mesh_positions(mesh), CT_F32, info.vertices, ct_mesh_triangles(mesh),
                                    info.triangles, NULL, &again, &error),
                     CT_OK);
    ct_mesh_get_info(again, &other);
    if (changes->is_changed) assert_string_equal(info.hash, other.hash);
    /* A repaired mesh needs no repair. */
    ct_mesh_changes none;
    const struct shape repaired = {.positions = s->positions,
                                   .triangles = (uint32_t *)(uintptr_t)ct_mesh_triangles(mesh),
                                   .n_vertices = s->n_vertices,
                                   .n_triangles = (uint32_t)info.triangles};
    ct_mesh *same;
    assert_int_equal(repair(&repaired, 0, &same, &none, &error), CT_OK);
    assert_false(none.is_changed);
    ct_mesh_release(&mesh), ct_mesh_release(&again), ct_mesh_release(&same);
    return info;
}

static void must_refuse(const struct shape *s, double max_hole, const char *why) {
    ct_mesh *mesh;
    ct_mesh_changes changes;
    ct_error error;
    assert_int_equal(repair(s, max_hole, &mesh, &changes, &error), CT_INVALID_MESH);
    if (!strstr(error.message, why)) fail_msg("\"%s\" is not in: %s", why, error.message);
    assert_null(mesh);
}

static void flip(struct shape *s, uint32_t t) {
    uint32_t *k = s->triangles + 3 * (size_t)t, first = k[0];
    k[0] = k[1], k[1] = first;
}

static void drop(struct shape *s, uint32_t t) {
    memmove(s->triangles + 3 * (size_t)t, s->triangles + 3 * (size_t)(--s->n_triangles), 12);
}

static void add(struct shape *s, uint32_t a, uint32_t b, uint32_t c) {
    s->triangles = realloc(s->triangles, 12 * ((size_t)s->n_triangles + 1));
    assert_non_null(s->triangles);
    memcpy(s->triangles + 3 * (size_t)s->n_triangles++, (uint32_t[]){a, b, c}, 12);
}

static void assert_counts(const ct_mesh_changes *changes, uint64_t degenerate, uint64_t duplicate, uint64_t welded,
                          uint64_t turned, uint64_t filled) {
    const uint64_t expected[] = {degenerate, duplicate, welded, turned, filled};
    for (int k = 0; k < CT_CHANGE_KINDS; k++) assert_int_equal(changes->of[k].count, expected[k]);
}

static void test_sound_meshes_are_the_same(void **state) {
    (void)state;
    struct shape shapes[] = {shape_box(1, 2, 3), shape_torus(1, 0.3, 12, 8), shape_bolt(0.9, 0.2, 0.4, 2, 24, 8)};
    for (int i = 0; i < 3; i++) {
        ct_mesh *mesh = shape_to_mesh(&shapes[i], NULL);
        ct_mesh_info as_given, repaired;
        ct_mesh_changes changes;
        ct_mesh_get_info(mesh, &as_given);
        repaired = must_repair(&shapes[i], 0, as_given.volume, &changes);
        assert_false(changes.is_changed);
        assert_string_equal(as_given.hash, repaired.hash);
        ct_mesh_release(&mesh);
        shape_free(&shapes[i]);
    }
}

/* Any triangles may be missing and any turned: the sphere is nearly itself again, and the box exactly. */
static void test_random_damage(void **state) {
    (void)state;
    uint64_t rng = 9;
    for (int round = 0; round < 60; round++) {
        struct shape s = round % 2 ? shape_cube(2, 6) : shape_icosphere(1, 3);
        const double volume = shape_volume(&s);
        const uint32_t missing = round % 5 == 4 ? 0 : 1 + (uint32_t)(shape_random(&rng) % 4);
        for (uint32_t i = 0; i < missing; i++) drop(&s, (uint32_t)(shape_random(&rng) % s.n_triangles));
        uint32_t n_turned = 0;
        for (uint32_t t = 0; t < s.n_triangles; t++)
            if (round % 3 && shape_random(&rng) % 3 == 0) flip(&s, t), n_turned++;
        ct_mesh *mesh;
        ct_mesh_changes changes;
        ct_error error;
        if (repair(&s, 1, &mesh, &changes, &error) != CT_OK) fail_msg("round %d: %s", round, error.message);
        ct_mesh_info info;
        ct_mesh_get_info(mesh, &info);
        assert_float_equal(info.volume, volume, 0.02 * volume);
        assert_int_equal(changes.fill_triangles, missing);
        assert_int_equal(changes.of[CT_CHANGE_TURNED].count, n_turned);
        assert_true(changes.of[CT_CHANGE_FILLED].count <= missing);
        ct_mesh_release(&mesh);
        shape_free(&s);
    }
}

static void test_holes(void **state) {
    (void)state;
    struct shape cube = shape_cube(1, 4);
    /* All triangles around one vertex inside a face: a square hole of eight edges or six. */
    uint32_t inner = 0;
    for (uint32_t v = 0; v < cube.n_vertices; v++)
        if (cube.positions[3 * v] == 0 && cube.positions[3 * v + 1] == 0 && cube.positions[3 * v + 2] > 0) inner = v;
    for (uint32_t t = cube.n_triangles; t-- > 0;)
        for (int c = 0; c < 3; c++)
            if (cube.triangles[3 * t + (uint32_t)c] == inner) {
                drop(&cube, t);
                break;
            }
    ct_mesh_changes changes;
    must_repair(&cube, 0.6, 1, &changes);
    assert_counts(&changes, 0, 0, 0, 0, 1);
    const struct ct_change_example *hole = &changes.of[CT_CHANGE_FILLED].first[0];
    assert_true(hole->edges == 6 || hole->edges == 8);
    assert_int_equal(changes.fill_triangles, hole->edges - 2);
    assert_float_equal(hole->at[0], 0, 1e-9);
    assert_float_equal(hole->at[2], 0.5, 1e-9);
    must_refuse(&cube, 0.4, "is 0.5 m wide; the repair fills holes of up to 0.4 m");
    must_refuse(&cube, 0, "the repair fills holes of up to 0.173"); /* a tenth of the diagonal */
    shape_free(&cube);

    /* An L-shaped hole, which is not convex: the whole top of a prism. */
    struct shape prism = shape_l_prism(2, 1);
    const double volume = shape_volume(&prism);
    float top = -1;
    for (uint32_t v = 0; v < prism.n_vertices; v++) top = fmaxf(top, prism.positions[3 * v + 2]);
    uint32_t dropped = 0;
    for (uint32_t t = prism.n_triangles; t-- > 0;) {
        const uint32_t *k = prism.triangles + 3 * (size_t)t;
        if (prism.positions[3 * k[0] + 2] != top || prism.positions[3 * k[1] + 2] != top ||
            prism.positions[3 * k[2] + 2] != top)
            continue;
        drop(&prism, t);
        dropped++;
    }
    must_repair(&prism, 5, volume, &changes);
    assert_int_equal(changes.fill_triangles, dropped);
    shape_free(&prism);

    /* Two holes that meet at a vertex are two. */
    struct shape ball = shape_icosphere(1, 2);
    const double whole = shape_volume(&ball);
    for (uint32_t t = 1; t < ball.n_triangles; t++) {
        uint32_t shared = 0;
        for (int a = 0; a < 9; a++) shared += ball.triangles[a / 3] == ball.triangles[3 * t + (uint32_t)a % 3];
        if (shared != 1) continue;
        drop(&ball, t), drop(&ball, 0);
        break;
    }
    must_repair(&ball, 1, whole, &changes);
    assert_counts(&changes, 0, 0, 0, 0, 2);
    shape_free(&ball);
}

static void test_drop_and_weld(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    ct_mesh_changes changes;
    add(&box, 0, 0, 1);
    add(&box, box.triangles[0], box.triangles[1], box.triangles[2]); /* a copy */
    add(&box, box.triangles[4], box.triangles[3], box.triangles[5]); /* another's back */
    must_repair(&box, 0, 1, &changes);
    assert_counts(&changes, 1, 2, 0, 0, 0);
    assert_int_equal(changes.of[CT_CHANGE_DEGENERATE].first[0].index, 12);
    shape_free(&box);

    /* Every triangle with corners of its own. */
    struct shape whole = shape_cube(1, 3), soup = {0};
    soup.n_triangles = whole.n_triangles;
    soup.n_vertices = 3 * whole.n_triangles;
    soup.positions = malloc(12 * (size_t)soup.n_vertices);
    soup.triangles = malloc(12 * (size_t)soup.n_triangles);
    assert_true(soup.positions && soup.triangles);
    for (uint32_t i = 0; i < soup.n_vertices; i++) {
        soup.triangles[i] = i;
        memcpy(soup.positions + 3 * (size_t)i, whole.positions + 3 * (size_t)whole.triangles[i], 12);
        for (int k = 0; k < 3; k++)
            if (i % 2 && soup.positions[3 * i + (uint32_t)k] == 0) soup.positions[3 * i + (uint32_t)k] = -0.0F;
    }
    must_repair(&soup, 0, 1, &changes);
    assert_counts(&changes, 0, 0, soup.n_vertices - whole.n_vertices, 0, 0);
    shape_free(&whole), shape_free(&soup);
}

/* Both sides of triangles first to end - 1. */
static void add_backs(struct shape *s, uint32_t first, uint32_t end) {
    for (uint32_t t = first; t < end; t++) {
        const uint32_t *k = s->triangles + 3 * (size_t)t;
        add(s, k[1], k[0], k[2]);
    }
}

static void add_vertex(struct shape *s, float x, float y, float z) {
    s->positions = realloc(s->positions, 12 * ((size_t)s->n_vertices + 1));
    assert_non_null(s->positions);
    memcpy(s->positions + 3 * (size_t)s->n_vertices++, (float[]){x, y, z}, 12);
}

/* Faces that were written for both sides, as some programs do: of a body one side stays, of what has no thickness none. */
static void test_faces_for_both_sides(void **state) {
    (void)state;
    ct_mesh_changes changes;
    for (uint32_t n = 1; n <= 12; n++) { /* some of the faces, and all */
        struct shape box = shape_box(1, 2, 3);
        add_backs(&box, 12 - n, 12);
        must_repair(&box, 0, 6, &changes);
        assert_counts(&changes, 0, n, 0, 0, 0);
        add_backs(&box, 0, n < 12 ? 12 - n : 0); /* now all, those of some of them three times */
        add_backs(&box, 12, 12 + n);
        must_repair(&box, 0, 6, &changes);
        shape_free(&box);
    }

    /* Each triangle with corners of its own, which two sides share: a sheet until these are welded. */
    struct shape whole = shape_box(1, 2, 3), soup = {0};
    for (uint32_t t = 0; t < 12; t++) {
        for (uint32_t c = 0; c < 3; c++) {
            const float *p = whole.positions + 3 * (size_t)whole.triangles[3 * t + c];
            add_vertex(&soup, p[0], p[1], p[2]);
        }
        add(&soup, 3 * t, 3 * t + 1, 3 * t + 2);
        add(&soup, 3 * t, 3 * t + 2, 3 * t + 1);
    }
    must_repair(&soup, 0, 6, &changes);
    assert_counts(&changes, 0, 12, 28, 0, 0);
    add_vertex(&soup, 9, 9, 9), add_vertex(&soup, 9, 8, 9), add_vertex(&soup, 8, 9, 9); /* and one beside it */
    add(&soup, 36, 37, 38), add(&soup, 36, 38, 37);
    must_repair(&soup, 0, 6, &changes);
    assert_counts(&changes, 0, 14, 28, 0, 0);
    shape_free(&soup);

    add_vertex(&whole, 9, 9, 9); /* a fin on an edge, and a wall across */
    add(&whole, whole.triangles[0], whole.triangles[1], 8), add(&whole, whole.triangles[1], whole.triangles[0], 8);
    must_repair(&whole, 0, 6, &changes);
    assert_counts(&changes, 0, 2, 0, 0, 0);
    shape_free(&whole);

    struct shape sheet = shape_box(1, 1, 1);
    drop(&sheet, 0);
    add_backs(&sheet, 0, 11);
    must_refuse(&sheet, 0, "once for each side");
    shape_free(&sheet);
}

/* Boxes that touch along an edge keep their own vertices. */
static void test_touching_shells_stay_apart(void **state) {
    (void)state;
    struct shape a = shape_box(1, 1, 1), b = shape_box(1, 1, 1);
    shape_translate(&b, 1, 1, 0);
    struct shape both = shape_merge(&a, &b);
    flip(&both, 3);
    ct_mesh_changes changes;
    must_repair(&both, 0, 2, &changes);
    assert_counts(&changes, 0, 0, 0, 1, 0);
    assert_int_equal(changes.of[CT_CHANGE_TURNED].first[0].index, 3);
    shape_free(&a), shape_free(&b), shape_free(&both);
}

static void test_directions_of_shells(void **state) {
    (void)state;
    ct_mesh_changes changes;
    for (int kind = 0; kind < 5; kind++) {
        struct shape outer = shape_box(4, 4, 4), inner = shape_box(1, 1, 1), far = shape_box(1, 1, 1);
        shape_translate(&far, 9, 0, 0);
        for (uint32_t t = 0; t < 12; t++) {
            if (kind == 0 || kind == 3) flip(&outer, t); /* inside out */
            if (kind == 1 || kind == 2) flip(&inner, t); /* a cavity */
            if (kind == 2) flip(&far, t);
        }
        if (kind == 4) flip(&inner, 5); /* mixed: becomes a cavity */
        struct shape two = shape_merge(&outer, &inner), all = shape_merge(&two, &far);
        must_repair(&all, 0, 64 - 1 + 1, &changes);
        const uint64_t turned[] = {24, 0, 12, 24,
                                   11}; /* 24: an outward cavity in an inward shell, mirrored as a whole */
        assert_counts(&changes, 0, 0, 0, turned[kind], 0);
        shape_free(&outer), shape_free(&inner), shape_free(&far), shape_free(&two), shape_free(&all);
    }
}

/* A large shell, wholly or partly inside out, of which a small part lies in another one that it crosses, wherever that
 * is: it is no cavity. */
static void test_crossing_shells(void **state) {
    (void)state;
    for (uint32_t t = 0; t < 48; t += 5)
        for (int is_mixed = 0; is_mixed < 2; is_mixed++) {
            struct shape large = shape_cube(2, 2), small = shape_box(0.2, 0.2, 0.2);
            const uint32_t *c = large.triangles + 3 * (size_t)t;
            double middle[3] = {0, 0, 0};
            for (int i = 0; i < 9; i++) middle[i % 3] += (double)large.positions[3 * (size_t)c[i / 3] + i % 3] / 3;
            shape_translate(&small, middle[0], middle[1], middle[2]);
            for (uint32_t k = 0; k < (is_mixed ? 20 : large.n_triangles); k++) flip(&large, k);
            struct shape both = shape_merge(&large, &small);
            ct_mesh *mesh;
            ct_error error = {0};
            ct_mesh_changes changes;
            assert_null(shape_to_mesh(&both, &error));
            assert_int_equal(error.status, CT_INVALID_MESH);
            must_repair(&both, 0, 8.008, &changes);
            error.status = CT_OK;
            assert_int_equal(repair(&both, 0, &mesh, &changes, &error), CT_OK);
            double overlap;
            assert_int_equal(ct_mesh_measure_overlap(mesh, &overlap, &error), CT_OK);
            assert_float_equal(overlap, 0.004, 1e-6); /* half of the small one */
            ct_mesh_release(&mesh);
            shape_free(&large), shape_free(&small), shape_free(&both);
        }
}

/* Shells at every depth, outward or inward: which of them are refused, and what a repair makes of them. Boxes of sides
 * 8, 4, 2 and 1 around one another, and one beside them; the bits of `inward` say which face inwards. */
static void test_nested_directions(void **state) {
    (void)state;
    enum { N = 5 };
    for (unsigned inward = 0; inward < 1u << N; inward++) {
        struct shape all = {0};
        bool is_wrong[N];
        double right = 0;
        for (unsigned s = 0; s < N; s++) {
            const double side = s < 4 ? 8 / (double)(1 << s) : 3, volume = side * side * side;
            struct shape box = shape_box(side, side, side), more;
            if (s == 4) shape_translate(&box, 9, 0, 0);
            for (uint32_t t = 0; t < 12 && inward >> s & 1; t++) flip(&box, t);
            int around = 0; /* the winding number around it, once those around it are right */
            for (unsigned o = 0; s < 4 && o < s; o++) around += (inward >> o & 1) && !is_wrong[o] ? -1 : 1;
            is_wrong[s] = (inward >> s & 1) && around < 1;
            right += (inward >> s & 1) && !is_wrong[s] ? -volume : volume;
            if (s == 3 && (inward & 15) == 5) { /* the four were mirrored as a whole */
                for (int o = 0; o < 4; o++) is_wrong[o] = true;
                right = 512 - 64 + 8 - 1;
            }
            more = s ? shape_merge(&all, &box) : box;
            if (s) shape_free(&box), shape_free(&all);
            all = more;
        }
        uint64_t n_wrong = 0;
        for (int s = 0; s < N; s++) n_wrong += is_wrong[s];
        ct_mesh_changes changes;
        must_repair(&all, 0, right, &changes);
        assert_counts(&changes, 0, 0, 0, 12 * n_wrong, 0);
        ct_mesh *mesh = NULL;
        ct_error error = {0};
        const ct_status status =
            ct_mesh_create(all.positions, CT_F32, all.n_vertices, all.triangles, all.n_triangles, NULL, &mesh, &error);
        if (n_wrong ? status != CT_INVALID_MESH : status != CT_OK) fail_msg("%x: %d %s", inward, status, error.message);
        if (n_wrong && n_wrong < N) assert_non_null(strstr(error.message, "a part of the surface is inside out"));
        if (n_wrong == N) assert_non_null(strstr(error.message, "the surface is inside out: its signed volume is"));
        if (mesh) {
            ct_mesh_info info;
            ct_mesh_get_info(mesh, &info);
            assert_true(info.shells == N && info.components == N && info.doubled_shells == 0);
        }
        ct_mesh_release(&mesh);
        shape_free(&all);
    }
}

/* A shell of a body with thousands of cavities is found, wherever it is; so is one that touches others in a vertex. */
static void test_one_of_many_shells(void **state) {
    (void)state;
    enum { ALONG = 12, N = ALONG * ALONG * ALONG };
    struct shape all = shape_box(2 * ALONG, 2 * ALONG, 2 * ALONG), box = shape_box(1, 1, 1);
    const uint32_t of_box = box.n_vertices;
    all.positions = realloc(all.positions, 12 * (size_t)(all.n_vertices + N * of_box));
    all.triangles = realloc(all.triangles, 12 * (size_t)(all.n_triangles + N * box.n_triangles));
    assert_true(all.positions && all.triangles);
    for (int i = 0; i < N; i++) {
        const int at[3] = {i % ALONG, i / ALONG % ALONG, i / (ALONG * ALONG)};
        for (uint32_t v = 0; v < of_box; v++)
            for (uint32_t k = 0; k < 3; k++)
                all.positions[3 * (size_t)(all.n_vertices + v) + k] =
                    box.positions[3 * (size_t)v + k] + (float)(2 * at[k] - ALONG + 1);
        for (uint32_t t = 0; t < box.n_triangles; t++) { /* inwards */
            const uint32_t *from = box.triangles + 3 * (size_t)t;
            uint32_t *to = all.triangles + 3 * (size_t)(all.n_triangles + t);
            to[0] = from[0] + all.n_vertices, to[1] = from[2] + all.n_vertices, to[2] = from[1] + all.n_vertices;
        }
        all.n_vertices += of_box;
        all.n_triangles += box.n_triangles;
    }
    ct_mesh *mesh = NULL;
    ct_mesh_info info;
    ct_error error = {0};
    if (ct_mesh_create(all.positions, CT_F32, all.n_vertices, all.triangles, all.n_triangles, NULL, &mesh, &error))
        fail_msg("%s", error.message);
    ct_mesh_get_info(mesh, &info);
    assert_int_equal(info.shells, N + 1);
    assert_float_equal(info.volume, 7.0 * N, 1e-3);
    ct_mesh_release(&mesh);
    /* One cavity more, in a cavity: it faces inwards where nothing is. */
    const uint32_t last = all.n_vertices - of_box;
    for (uint32_t v = 0; v < of_box; v++)
        for (uint32_t k = 0; k < 3; k++) {
            const float middle = (float)(-ALONG + 1), x = all.positions[3 * (size_t)(of_box + v) + k];
            all.positions[3 * (size_t)(last + v) + k] = middle + (x - middle) / 2;
        }
    assert_int_equal(
        ct_mesh_create(all.positions, CT_F32, all.n_vertices, all.triangles, all.n_triangles, NULL, &mesh, &error),
        CT_INVALID_MESH);
    assert_non_null(strstr(error.message, "shell 1729 of 1729"));
    shape_free(&all), shape_free(&box);
}

static void test_shells_that_share_a_vertex(void **state) {
    (void)state;
    struct shape a = shape_box(2, 2, 2), b = shape_box(1, 1, 1);
    shape_translate(&b, 1.5, 1.5, 1.5); /* its lowest corner is a's highest */
    for (uint32_t t = 0; t < 12; t++) flip(&b, t);
    struct shape both = shape_merge(&a, &b);
    uint32_t high = 0, low = a.n_vertices;
    for (uint32_t v = 0; v < a.n_vertices; v++)
        if (both.positions[3 * v] > 0 && both.positions[3 * v + 1] > 0 && both.positions[3 * v + 2] > 0) high = v;
    for (uint32_t v = a.n_vertices; v < both.n_vertices; v++)
        if (both.positions[3 * v] < 1.5f && both.positions[3 * v + 1] < 1.5f && both.positions[3 * v + 2] < 1.5f)
            low = v;
    for (uint32_t i = 0; i < 3 * both.n_triangles; i++)
        if (both.triangles[i] == low) both.triangles[i] = high;
    ct_mesh_changes changes;
    must_repair(&both, 0, 9, &changes);
    assert_counts(&changes, 0, 0, 0, 12, 0);
    ct_mesh *mesh = NULL;
    ct_error error = {0};
    assert_int_equal(
        ct_mesh_create(both.positions, CT_F32, both.n_vertices, both.triangles, both.n_triangles, NULL, &mesh, &error),
        CT_INVALID_MESH);
    assert_non_null(strstr(error.message, "shell 2 of 2"));
    for (uint32_t t = 0; t < 12; t++) flip(&both, 12 + t);
    assert_int_equal(
        ct_mesh_create(both.positions, CT_F32, both.n_vertices, both.triangles, both.n_triangles, NULL, &mesh, NULL),
        CT_OK);
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    assert_true(info.shells == 2 && info.components == 1);
    ct_mesh_release(&mesh);
    shape_free(&a), shape_free(&b), shape_free(&both);
}

/* A shell that is there twice or three times counts so, which is told; a repair drops it, whichever way it faces and in
 * whatever order its triangles come. One that lies elsewhere, or that differs in a vertex, stays. */
static void test_twins(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        struct shape a = shape_box(1, 1, 1), b = shape_box(1, 1, 1), c = shape_box(1, 1, 1);
        for (uint32_t t = 0; t < 6; t++) /* another order, other first corners */
            for (int k = 0; k < 3; k++) {
                const uint32_t swapped = b.triangles[3 * t + (uint32_t)k];
                b.triangles[3 * t + (uint32_t)k] = b.triangles[3 * (11 - t) + (uint32_t)((k + 1) % 3)];
                b.triangles[3 * (11 - t) + (uint32_t)((k + 1) % 3)] = swapped;
            }
        for (uint32_t t = 0; t < 12 && kind == 1; t++) flip(&b, t);
        if (kind == 2) shape_translate(&b, 1e-3, 0, 0);
        if (kind == 3) b.positions[0] -= 0.25f, c.positions[0] -= 0.25f;
        shape_translate(&c, kind == 3 ? 0 : 5, 0, 0);
        struct shape two = shape_merge(&a, &b), all = shape_merge(&two, &c);
        const uint64_t doubled = kind != 2;
        ct_mesh_changes changes;
        const double given = 3, repaired = kind == 2 ? 3 : 2;
        ct_mesh *mesh = NULL;
        ct_mesh_info info;
        if (kind != 1) {
            assert_int_equal(ct_mesh_create(all.positions, CT_F32, all.n_vertices, all.triangles, all.n_triangles, NULL,
                                            &mesh, NULL),
                             CT_OK);
            ct_mesh_get_info(mesh, &info);
            assert_int_equal(info.doubled_shells, doubled);
            assert_int_equal(info.shells, 3);
            if (kind != 3) assert_float_equal(info.volume, given, 1e-5);
            ct_mesh_release(&mesh);
        }
        if (kind != 3) must_repair(&all, 0, repaired, &changes);
        if (kind != 3) assert_counts(&changes, 0, 12 * doubled, 0, 0, 0);
        shape_free(&a), shape_free(&b), shape_free(&c), shape_free(&two), shape_free(&all);
    }
}

/* A ball of torn triangles, each corner of which is off by less than half of what is welded: it becomes whole, moved
 * by no more; torn by more, it is refused. Of the diagonal, 2 sqrt(3) here. */
static void test_slits(void **state) {
    (void)state;
    const double diagonal = 2 * sqrt(3.0);
    const struct {
        double off, weld; /* of the diagonal; 0: the default */
        bool is_closed;
    } cases[] = {{1e-7, 0, true}, {2e-5, 0, true}, {3e-3, 0, false}, {3e-3, 1e-2, true}, {2e-5, 1e-6, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t rng = 7 + i;
        struct shape ball = shape_icosphere(1, 2),
                     torn = {.n_vertices = 3 * ball.n_triangles, .n_triangles = ball.n_triangles};
        const double volume = shape_volume(&ball), off = cases[i].off * diagonal;
        torn.positions = malloc(12 * (size_t)torn.n_vertices);
        torn.triangles = malloc(12 * (size_t)torn.n_triangles);
        assert_true(torn.positions && torn.triangles);
        for (uint32_t v = 0; v < torn.n_vertices; v++) {
            torn.triangles[v] = v;
            for (uint32_t k = 0; k < 3; k++)
                torn.positions[3 * v + k] = ball.positions[3 * (size_t)ball.triangles[v] + k] +
                                            (float)shape_uniform(&rng, -off / 4, off / 4); /* 0.87 off, between two */
        }
        ct_mesh_options options;
        ct_mesh_changes changes;
        ct_mesh *mesh = NULL;
        ct_error error = {0};
        ct_mesh_options_init(&options);
        options.repair = true;
        options.weld = cases[i].weld * diagonal;
        const ct_status status = ct_mesh_create_with(torn.positions, CT_F32, torn.n_vertices, torn.triangles,
                                                     torn.n_triangles, &options, &mesh, &changes, &error);
        if (!cases[i].is_closed) {
            assert_int_equal(status, CT_INVALID_MESH);
        } else {
            if (status) fail_msg("case %zu: %s", i, error.message);
            ct_mesh_info info;
            ct_mesh_get_info(mesh, &info);
            assert_true(fabs(info.volume - volume) < 13 * off);
            assert_true(changes.moved > 0 && changes.moved <= off);
            assert_int_equal(changes.of[CT_CHANGE_WELDED].count, torn.n_vertices - ball.n_vertices);
            assert_int_equal(info.triangles, ball.n_triangles);
        }
        ct_mesh_release(&mesh);
        shape_free(&ball), shape_free(&torn);
    }
}

static void test_refused(void **state) {
    (void)state;
    /* A Moebius strip of n squares. */
    enum { N = 12 };
    struct shape strip = {.n_vertices = 2 * N, .n_triangles = 2 * N};
    strip.positions = malloc(12 * (size_t)strip.n_vertices);
    strip.triangles = malloc(12 * (size_t)strip.n_triangles);
    assert_true(strip.positions && strip.triangles);
    for (uint32_t i = 0; i < N; i++) {
        const double a = 2 * M_PI * i / N;
        for (uint32_t k = 0; k < 2; k++) {
            const double r = 1 + (k ? 0.3 : -0.3) * cos(a / 2), z = (k ? 0.3 : -0.3) * sin(a / 2);
            float *p = strip.positions + 3 * (size_t)(2 * i + k);
            p[0] = (float)(r * cos(a)), p[1] = (float)(r * sin(a)), p[2] = (float)z;
        }
        const uint32_t at = 2 * i, next = i + 1 < N ? at + 2 : 0, twist = i + 1 == N;
        memcpy(strip.triangles + 6 * (size_t)i,
               (uint32_t[]){at, next + twist, at + 1, at + 1, next + twist, next + !twist}, 24);
    }
    must_refuse(&strip, 10, "one side only");
    shape_free(&strip);

    struct shape box = shape_box(1, 1, 1);
    add(&box, 0, 1, 7); /* a fin: edges of three triangles, or a sheet of its own */
    must_refuse(&box, 10, "has 3 faces, expected 2");
    shape_free(&box);

    struct shape sheet = shape_box(1, 1, 1);
    sheet.n_triangles = 1;
    must_refuse(&sheet, 10, "encloses no volume");
    shape_free(&sheet);
}

static void test_options(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    ct_mesh_options options;
    ct_mesh *mesh;
    ct_error error;
    const struct {
        bool repair;
        double max_hole;
        ct_status status;
    } cases[] = {
        {false, 0, CT_OK},           {true, 0, CT_OK},          {true, 3, CT_OK}, {false, 1, CT_INVALID_ARGUMENT},
        {true, -1, CT_OUT_OF_RANGE}, {true, NAN, CT_NON_FINITE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_mesh_options_init(&options);
        options.repair = cases[i].repair;
        options.max_hole = cases[i].max_hole;
        memset(&error, 0, sizeof error);
        ct_mesh_changes changes;
        assert_int_equal(ct_mesh_create_with(box.positions, CT_F32, box.n_vertices, box.triangles, box.n_triangles,
                                             &options, &mesh, &changes, &error),
                         cases[i].status);
        if (cases[i].status != CT_OK) assert_string_equal(error.field, "max_hole");
        ct_mesh_release(&mesh);
    }
    memset(&options, 0, sizeof options);
    assert_int_equal(ct_mesh_create_with(box.positions, CT_F32, box.n_vertices, box.triangles, box.n_triangles,
                                         &options, &mesh, NULL, &error),
                     CT_INVALID_ARGUMENT);
    /* Unasked, nothing is repaired. */
    drop(&box, 0);
    assert_null(shape_to_mesh(&box, NULL));
    shape_free(&box);
}

/* Tests of points and boxes that filling a hole of n edges takes: along a circle, or a star whose tips are far out. */
static uint64_t count_tests(uint32_t n, double inner) {
    ct_soup soup;
    ct_error error = {0};
    uint64_t n_tests = 0;
    uint32_t *loop = malloc(n * sizeof *loop);
    ct_soup_init(&soup, NULL);
    for (uint32_t i = 0; i < n; i++) {
        const double a = 2 * M_PI * i / n, r = i % 2 ? inner : 1;
        loop[i] = i;
        assert_int_equal(ct_soup_add_vertex(&soup, (float[]){(float)(r * cos(a)), (float)(r * sin(a)), 0}, &error),
                         CT_OK);
    }
    const ct_status status = ct_fill_hole(&soup, &(ct_loop){loop, n}, NULL, 0, &n_tests, &error);
    if (status != CT_OK) fail_msg("%s", error.message);
    assert_int_equal(soup.n_triangles, n - 2);
    ct_soup_free(&soup);
    free(loop);
    return n_tests;
}

/* Four times the edges: some five times the tests, not sixteen. */
static void test_large_holes_are_quick(void **state) {
    (void)state;
    static const double inner[] = {1, 0.5, 0.95};
    for (int i = 0; i < 3; i++) assert_true(count_tests(1000, inner[i]) < 8 * count_tests(250, inner[i]));
}

/* Shells beside each other are turned however many there are. */
static void test_many_shells(void **state) {
    (void)state;
    enum { N = 20000 };
    struct shape s = {.n_vertices = 4 * N, .n_triangles = 4 * N};
    s.positions = malloc(12 * (size_t)s.n_vertices);
    s.triangles = malloc(12 * (size_t)s.n_triangles);
    static const uint32_t inward[4][3] = {{0, 1, 2}, {0, 3, 1}, {0, 2, 3}, {1, 3, 2}};
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t c = 0; c < 4; c++)
            for (uint32_t k = 0; k < 3; k++) {
                const uint32_t place = k == 0 ? i % 32 : k == 1 ? i / 32 % 32 : i / 1024;
                s.positions[3 * (4 * i + c) + k] = (float)(2 * place + (c == k + 1));
                s.triangles[3 * (4 * i + c) + k] = 4 * i + inward[c][k];
            }
    ct_mesh_changes changes;
    must_repair(&s, 0, N / 6.0, &changes);
    assert_counts(&changes, 0, 0, 0, 4 * N, 0);
    shape_free(&s);
}

/* Needles: one that lies on an edge, or anywhere, is dropped; one that closes an edge with its halves on the other side
 * stays. */
static void test_needles(void **state) {
    (void)state;
    for (int way = 0; way < 2; way++)
        for (int kind = 0; kind < 3; kind++) {
            struct shape box = shape_box(2, 2, 2);
            box.positions = realloc(box.positions, 12 * (size_t)(box.n_vertices + 3));
            box.triangles = realloc(box.triangles, 12 * (size_t)(box.n_triangles + 2));
            uint32_t *to = box.triangles + 3 * (size_t)box.n_triangles, *corner = box.triangles;
            const uint32_t n = box.n_vertices, a = corner[0], b = corner[1], c = corner[2];
            for (uint32_t i = 0; i < 3; i++) /* the middle of the first triangle's first edge; three on a line */
                for (uint32_t k = 0; k < 3; k++)
                    box.positions[3 * (n + i) + k] =
                        kind == 1 ? (float)i * (k == 0) : 0.5f * (box.positions[3 * a + k] + box.positions[3 * b + k]);
            box.n_vertices += kind == 1 ? 3 : 1;
            uint32_t needle[3] = {a, n, b};
            if (kind == 1) needle[0] = n, needle[1] = n + 1, needle[2] = n + 2;
            if (kind == 2) { /* the first triangle in two halves, and the needle between them and the next one */
                memcpy(corner, ((uint32_t[]){a, n, c}), 12);
                memcpy(to, ((uint32_t[]){n, b, c}), 12);
                to += 3;
                box.n_triangles++;
                needle[0] = b, needle[2] = a; /* against the halves */
            }
            memcpy(to, needle, 12);
            if (way && kind != 2) to[0] = needle[2], to[2] = needle[0];
            box.n_triangles++;
            ct_mesh_options options;
            ct_mesh_options_init(&options);
            options.repair = true;
            ct_mesh *mesh = NULL;
            ct_mesh_changes changes;
            ct_error error = {0};
            if (ct_mesh_create_with(box.positions, CT_F32, box.n_vertices, box.triangles, box.n_triangles, &options,
                                    &mesh, &changes, &error))
                fail_msg("%s", error.message);
            ct_mesh_info info;
            ct_mesh_get_info(mesh, &info);
            assert_true(fabs(info.volume - 8) < 1e-12);
            assert_int_equal(info.triangles, kind == 2 ? 14 : 12);
            assert_int_equal(changes.of[CT_CHANGE_DEGENERATE].count, kind == 2 ? 0 : 1);
            if (kind != 2) assert_int_equal(changes.of[CT_CHANGE_DEGENERATE].first[0].index, 12);
            assert_int_equal(changes.is_changed, kind != 2);
            ct_mesh_release(&mesh);
            shape_free(&box);
        }
}

/* Edges that are split on one side alone, in any number of parts and direction, close without area. */
static void test_split_edges(void **state) {
    (void)state;
    uint64_t rng = 9;
    for (int round = 0; round < 200; round++) {
        const uint32_t n_parts = (uint32_t)(shape_random(&rng) % 7 + 2);
        struct shape box = shape_box(2, 1, 3);
        double pose[12];
        shape_pose_random(&rng, 5, pose);
        if (round % 2) shape_transform(&box, pose);
        box.positions = realloc(box.positions, 12 * (size_t)(box.n_vertices + n_parts));
        box.triangles = realloc(box.triangles, 12 * (size_t)(box.n_triangles + n_parts));
        const uint32_t t = (uint32_t)(shape_random(&rng) % box.n_triangles), n = box.n_vertices;
        uint32_t *corner = box.triangles + 3 * t;
        const uint32_t a = corner[0], b = corner[1], c = corner[2];
        for (uint32_t i = 1; i < n_parts; i++)
            for (uint32_t k = 0; k < 3; k++) {
                const double p = (double)box.positions[3 * a + k], q = (double)box.positions[3 * b + k];
                box.positions[3 * (n + i - 1) + k] = (float)(p + (q - p) * i / n_parts);
            }
        box.n_vertices += n_parts - 1;
        for (uint32_t i = 0; i < n_parts; i++) {
            const uint32_t part[3] = {i ? n + i - 1 : a, i + 1 < n_parts ? n + i : b, c};
            memcpy(i ? box.triangles + 3 * box.n_triangles++ : corner, part, sizeof part);
        }
        ct_mesh_options options;
        ct_mesh_options_init(&options);
        options.repair = true;
        ct_mesh *mesh = NULL;
        ct_mesh_changes changes;
        ct_error error = {0};
        if (ct_mesh_create_with(box.positions, CT_F32, box.n_vertices, box.triangles, box.n_triangles, &options, &mesh,
                                &changes, &error))
            fail_msg("%s", error.message);
        ct_mesh_info info;
        ct_mesh_get_info(mesh, &info);
        assert_true(fabs(info.volume - 6) < 1e-5);
        assert_int_equal(changes.of[CT_CHANGE_FILLED].count, 1);
        assert_int_equal(changes.of[CT_CHANGE_FILLED].first[0].edges, n_parts + 1);
        assert_int_equal(changes.fill_triangles, n_parts - 1);
        ct_mesh_release(&mesh);
        shape_free(&box);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_needles),
        cmocka_unit_test(test_split_edges),
        cmocka_unit_test(test_large_holes_are_quick),
        cmocka_unit_test(test_many_shells),
        cmocka_unit_test(test_sound_meshes_are_the_same),
        cmocka_unit_test(test_random_damage),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_drop_and_weld),
        cmocka_unit_test(test_faces_for_both_sides),
        cmocka_unit_test(test_touching_shells_stay_apart),
        cmocka_unit_test(test_directions_of_shells),
        cmocka_unit_test(test_nested_directions),
        cmocka_unit_test(test_crossing_shells),
        cmocka_unit_test(test_one_of_many_shells),
        cmocka_unit_test(test_shells_that_share_a_vertex),
        cmocka_unit_test(test_twins),
        cmocka_unit_test(test_slits),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests_name("repair", tests, NULL, NULL);
}
