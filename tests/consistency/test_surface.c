/* test_surface.c - the contact surface against closed forms: faces that meet flat and tilted, a ball on a plane, equal
 * balls; areas and volumes that no tessellation changes; forces that sum to the law's wrench, whatever the pair; the same
 * bits on any threads; bad input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/vec.h"
#include "gpu/scene/scene.h"
#include "tests/scenes/stage.h"

static ct_engine *engine;

static void near(double a, double b, double tolerance) {
    if (!(fabs(a - b) <= tolerance)) fail_msg("%.17g is not %.17g", a, b);
}

struct part {
    const struct shape *shape; /* NULL: the half-space z <= 0 */
    const double *pose;
    ct_material material;
};

struct built {
    ct_scene *scene;
    uint32_t body[2];
};

static struct built build(ct_engine *of, const ct_scene_settings *settings, const struct part parts[2]) {
    struct built b;
    ct_error error;
    if (ct_scene_create(of, settings, &b.scene, &error)) fail_msg("%s", error.message);
    for (int i = 0; i < 2; i++) {
        ct_body_options options;
        ct_body_options_init(&options);
        options.kind = parts[i].shape ? CT_BODY_RIGID : CT_BODY_HALF_SPACE;
        options.material = parts[i].material;
        if (parts[i].pose) memcpy(options.pose, parts[i].pose, sizeof options.pose);
        ct_mesh *mesh = parts[i].shape ? shape_to_mesh(parts[i].shape, &error) : NULL;
        if (ct_scene_add_body(b.scene, mesh, &options, &b.body[i], &error)) fail_msg("%s", error.message);
        ct_mesh_release(&mesh);
    }
    return b;
}

static ct_scene_settings pressure(void) {
    ct_scene_settings settings = stage_exact();
    settings.law = CT_LAW_PRESSURE;
    return settings;
}

/* The surface of a scene's step; twists: NULL, or [2][6]. */
static ct_result *run(struct built *b, const double (*twists)[6]) {
    ct_velocity velocities[2];
    for (int i = 0; i < 2 && twists; i++) {
        velocities[i] = (ct_velocity){.body = b->body[i]};
        memcpy(velocities[i].twist, twists[i], sizeof velocities[i].twist);
    }
    ct_step step = {
        .scene = b->scene, .want = CT_WANT_SURFACE, .velocities = velocities, .n_velocities = twists ? 2 : 0};
    if (ct_engine_run(engine, &step, 1)) fail_msg("%s: %s", step.error.field, step.error.message);
    assert_non_null(step.result->polygons);
    return step.result;
}

static ct_result *once(const ct_scene_settings *settings, const struct part parts[2], const double (*twists)[6]) {
    struct built b = build(engine, settings, parts);
    ct_result *r = run(&b, twists);
    ct_scene_destroy(&b.scene);
    return r;
}

/* ---- sums ---- */

struct sums {
    double area, volume, force[3], torque[3]; /* torque: about the world's origin */
};

/* volume: of depth times area as seen along the contact's normal, counted negative where part 1 is above. */
static struct sums sums_of(const ct_result *r, const ct_contact *c) {
    struct sums sums = {.area = 0};
    for (uint64_t p = c->first_polygon; p < c->first_polygon + c->n_polygons; p++) {
        const ct_surface_polygon *of = &r->polygons[p];
        const uint32_t first = r->polygon_first[p], n = r->polygon_first[p + 1] - first;
        const ct_surface_vertex *v = r->polygon_vertices + first;
        double arm[3];
        ct_cross3(of->center, of->force, arm);
        sums.area += of->area;
        for (int i = 0; i < 3; i++) {
            sums.force[i] += of->force[i];
            sums.torque[i] += of->torque[i] + arm[i];
        }
        for (uint32_t k = 2; k < n; k++) {
            double e[2][3], cross[3];
            ct_sub3(v[k - 1].position, v[0].position, e[0]);
            ct_sub3(v[k].position, v[0].position, e[1]);
            ct_cross3(e[0], e[1], cross);
            assert_true(ct_dot3(cross, of->normal) >= -1e-12 * c->area);
            sums.volume += ct_dot3(cross, c->normal) / 2 * (v[0].depth + v[k - 1].depth + v[k].depth) / 3;
        }
    }
    return sums;
}

/* Forces on part 0 sum to its wrench, given about the origin of its pose, which may be NULL. */
static void check_wrench(const ct_result *r, const ct_contact *c, const double *pose) {
    const struct sums sums = sums_of(r, c);
    double shift[3], size = 0, at[3] = {0, 0, 0}, length = 1;
    for (int i = 0; i < 3 && pose; i++) at[i] = pose[4 * i + 3];
    ct_cross3(at, c->wrench[0], shift);
    for (int i = 0; i < 3; i++) size += fabs(c->wrench[0][i]);
    for (int i = 0; i < 3; i++) length += fabs(c->center[i]);
    for (int i = 0; i < 3; i++) {
        near(sums.force[i], c->wrench[0][i], 1e-12 * size);
        near(sums.torque[i], c->wrench[0][3 + i] + shift[i], 1e-12 * size * length);
    }
}

/* ---- closed forms ---- */

/* Where a line along z enters a cube of this half side. */
static double lower_end(const double pose[12], double half, const double at[3]) {
    double z = -INFINITY;
    for (int face = 0; face < 6; face++) { /* of points p with n . (p - center) = half */
        const double sign = face % 2 ? 1 : -1, *n = pose + face / 2,
                     across = n[0] * (at[0] - pose[3]) + n[4] * (at[1] - pose[7]);
        if (sign * n[8] < 0) z = fmax(z, pose[11] + (sign * half - across) / n[8]);
    }
    return z;
}

/* A box in a floor, level, tilted within its depth, and with an edge in the air: the surface is in the floor's plane, as
 * deep as the box's lower face is below it, and presses along the floor's normal, place by place. */
static void test_box_on_floor(void **state) {
    (void)state;
    const double tilts[] = {0, 0.002, 0.01, 0.03}, axis[3] = {0.6, 0.8, 0}, by[3] = {0.3, -0.2, 0.049}, k = 1e7;
    double down[12];
    shape_pose_identity(down);
    down[11] = -0.25;
    struct shape slab = shape_box(3, 3, 0.5), cube = shape_box(0.1, 0.1, 0.1);
    for (int t = 0; t < 8; t++) {
        double pose[12];
        const bool on_mesh = t % 2;
        shape_pose_axis(axis, tilts[t / 2] / (2 * M_PI), by, pose);
        const struct part parts[2] = {{on_mesh ? &slab : NULL, on_mesh ? down : NULL, CT_MATERIAL_NONE},
                                      {&cube, pose, {k, NAN, NAN, NAN}}};
        const ct_scene_settings settings = pressure();
        ct_result *r = once(&settings, parts, NULL);
        assert_int_equal(r->n_contacts, 1);
        const ct_contact *c = r->contacts;
        const struct sums sums = sums_of(r, c);
        near(sums.area, c->area, 1e-9 * c->area);
        near(sums.volume, c->volume,
             tilts[t / 2] * 0.05 * c->volume + 1e-8 * c->volume); /* less what is below its own side */
        check_wrench(r, c, on_mesh ? down : NULL);
        for (uint64_t p = 0; p < r->n_polygons; p++) {
            const ct_surface_polygon *of = &r->polygons[p];
            near(of->normal[2], -1, 1e-12); /* part 0 is below */
            for (uint32_t v = r->polygon_first[p]; v < r->polygon_first[p + 1]; v++) {
                const ct_surface_vertex *at = &r->polygon_vertices[v];
                near(at->position[2], 0, 1e-9);
                near(at->depth, fmax(-lower_end(pose, (double)0.05f, at->position), 0), 1e-8);
                near(at->pressure, k * at->depth, 1e-9 * k * 1e-3);
            }
            for (int i = 0; i < 2; i++) near(of->force[i], 0, 1e-8 * fabs(c->wrench[0][2]));
            near(ct_dot3(of->slip, of->slip), 0, 0);
        }
        if (t < 2) near(sums.area, 0.01, 1e-8);
        ct_result_free(&r);
    }
    shape_free(&slab);
    shape_free(&cube);
}

/* A ball on a plane: a disc; pressure k (d - (R - sqrt(R^2 - r^2))) at the distance r of its middle. */
static void test_ball_on_plane(void **state) {
    (void)state;
    const double R = 1, d = 0.05, k = 1e6, pi = 3.14159265358979;
    struct shape ball = shape_icosphere(R, 5);
    double pose[12];
    shape_pose_identity(pose);
    pose[11] = R - d;
    const struct part parts[2] = {{NULL, NULL, CT_MATERIAL_NONE}, {&ball, pose, {k, NAN, NAN, NAN}}};
    const ct_scene_settings settings = pressure();
    ct_result *r = once(&settings, parts, NULL);
    const ct_contact *c = r->contacts;
    const struct sums sums = sums_of(r, c);
    near(sums.area, pi * d * (2 * R - d), 0.02 * sums.area);
    near(sums.area, c->area, 1e-8 * c->area);
    near(sums.volume, c->volume, 1e-8 * c->volume);
    check_wrench(r, c, NULL);
    for (uint64_t v = 0; v < r->n_polygon_vertices; v++) {
        const ct_surface_vertex *at = &r->polygon_vertices[v];
        const double rr = at->position[0] * at->position[0] + at->position[1] * at->position[1];
        near(at->pressure, k * (d - (R - sqrt(R * R - rr))), 1e-3 * k);
        near(at->position[2], 0, 1e-9);
    }
    near(-sums.force[2], k * c->volume, 1e-8 * k * c->volume);
    ct_result_free(&r);
    shape_free(&ball);
}

/* Equal balls: half-way between, in the plane of symmetry. */
static void test_two_balls(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 4);
    double pose[2][12];
    for (int i = 0; i < 2; i++) shape_pose_identity(pose[i]);
    pose[1][11] = 1.9;
    ct_scene_settings settings = stage_exact(); /* no law */
    const struct part parts[2] = {{&ball, pose[0], CT_MATERIAL_NONE}, {&ball, pose[1], CT_MATERIAL_NONE}};
    ct_result *r = once(&settings, parts, NULL);
    const struct sums sums = sums_of(r, r->contacts);
    near(sums.area, r->contacts->area, 1e-6);
    near(sums.volume, r->contacts->volume, 1e-8);
    for (uint64_t v = 0; v < r->n_polygon_vertices; v++) {
        near(r->polygon_vertices[v].position[2], 0.95, 5e-3);
        assert_true(r->polygon_vertices[v].pressure == 0 && r->polygon_vertices[v].depth <= 0.1 + 1e-9);
    }
    for (int i = 0; i < 3; i++) assert_true(sums.force[i] == 0 && sums.torque[i] == 0);
    ct_result_free(&r);
    shape_free(&ball);
}

/* ---- beside lines through all triangles ---- */

struct hit {
    double w;
    int side, enters;
};

static int by_height(const void *a, const void *b) {
    const double x = ((const struct hit *)a)->w, y = ((const struct hit *)b)->w;
    return (x > y) - (x < y);
}

/* Appends the hits of a body's triangles by the line through p along n. False: it passes close by an edge. */
static bool hit_body(const struct shape *shape, const double pose[12], const double n[3], const double t[2][3],
                     const double p[3], int side, struct hit *hits, size_t *count) {
    for (uint32_t k = 0; k < shape->n_triangles; k++) {
        double at[3][3], area[3], whole = 0;
        for (int c = 0; c < 3; c++) {
            const float *rest = shape->positions + 3 * shape->triangles[3 * k + (uint32_t)c];
            const ct_vec3 local = ct_vec3_make((double)rest[0], (double)rest[1], (double)rest[2]),
                          x = ct_vec3_add(ct_pose_turn(pose, local), ct_pose_origin(pose));
            const double d[3] = {x.x - p[0], x.y - p[1], x.z - p[2]};
            for (int i = 0; i < 3; i++) at[c][i] = ct_dot3(d, i < 2 ? t[i] : n);
        }
        for (int c = 0; c < 3; c++) {
            const double *a = at[(c + 1) % 3], *b = at[(c + 2) % 3];
            whole += area[c] = a[0] * b[1] - a[1] * b[0];
            if (fabs(area[c]) < 1e-5) return false;
        }
        if ((area[0] > 0) != (area[1] > 0) || (area[0] > 0) != (area[2] > 0)) continue;
        hits[(*count)++] = (struct hit){(area[0] * at[0][2] + area[1] * at[1][2] + area[2] * at[2][2]) / whole, side,
                                        whole < 0 ? 1 : -1};
    }
    return true;
}

/* The polygon of the contact that the line runs through, from `from` on: its depth and height there. False: none. */
static bool next_polygon(const ct_result *r, const ct_contact *c, const double p[3], uint64_t *from, double *depth,
                         double *height) {
    for (; *from < c->first_polygon + c->n_polygons; ++*from) {
        const ct_surface_polygon *of = &r->polygons[*from];
        const uint32_t first = r->polygon_first[*from], n = r->polygon_first[*from + 1] - first;
        const double up = ct_dot3(of->normal, c->normal) > 0 ? 1 : -1;
        for (uint32_t k = 2; k < n; k++) { /* triangles of a fan: at most one has the line */
            const ct_surface_vertex *v[3] = {&r->polygon_vertices[first], &r->polygon_vertices[first + k - 1],
                                             &r->polygon_vertices[first + k]};
            double d[3][3], area[3], cross[3], whole = 0;
            for (int i = 0; i < 3; i++) ct_sub3(v[i]->position, p, d[i]);
            for (int i = 0; i < 3; i++) {
                ct_cross3(d[(i + 1) % 3], d[(i + 2) % 3], cross);
                whole += area[i] = up * ct_dot3(cross, c->normal);
            }
            if (!(area[0] >= 0 && area[1] >= 0 && area[2] >= 0 && whole > 0)) continue;
            *depth = *height = 0;
            for (int i = 0; i < 3; i++) {
                *depth += area[i] / whole * v[i]->depth;
                *height += area[i] / whole * ct_dot3(d[i], c->normal);
            }
            ++*from;
            return true;
        }
    }
    return false;
}

/* Along a line every stretch inside both bodies that begins on one and ends on the other has a polygon as deep, within it,
 * and there are no others. */
static bool check_line(const ct_result *r, const ct_contact *c, const struct shape *const shapes[2],
                       const double (*pose)[12], const double p[3]) {
    struct hit *hits = malloc((shapes[0]->n_triangles + shapes[1]->n_triangles) * sizeof *hits);
    size_t n = 0, spans = 0;
    bool is_clear = true;
    for (int s = 0; s < 2 && is_clear; s++)
        is_clear = hit_body(shapes[s], pose[s], c->normal, c->tangents, p, s, hits, &n);
    qsort(hits, n, sizeof *hits, by_height);
    int inside[2] = {0, 0};
    for (size_t i = 0; i + 1 < n && is_clear; i++) {
        inside[hits[i].side] += hits[i].enters;
        if (!(inside[0] && inside[1]) || hits[i].side == hits[i + 1].side) continue;
        uint64_t from = c->first_polygon;
        double depth, height;
        bool is_found = false;
        while (!is_found && next_polygon(r, c, p, &from, &depth, &height))
            is_found = fabs(depth - (hits[i + 1].w - hits[i].w)) < 1e-7 && height > hits[i].w - 1e-7 &&
                       height < hits[i + 1].w + 1e-7;
        if (!is_found) fail_msg("no polygon from %g to %g", hits[i].w, hits[i + 1].w);
        spans++;
    }
    uint64_t from = c->first_polygon;
    size_t polygons = 0;
    for (double depth, height; is_clear && next_polygon(r, c, p, &from, &depth, &height);) polygons++;
    if (is_clear) assert_int_equal(polygons, spans);
    free(hits);
    return is_clear && spans > 0;
}

/* Of random pairs, the polygons' forces sum to the wrench, and lines along the normal meet a polygon exactly where they run
 * through both bodies. One of the shapes has parts above one another. */
static void test_random(void **state) {
    (void)state;
    uint64_t rng = 5;
    int contacts = 0, lines = 0;
    for (int round = 0; round < 40; round++) {
        struct shape a = round % 4 == 0   ? shape_blob(0.7, 2, 0.3, (uint64_t)round)
                         : round % 4 == 1 ? shape_box(1, 0.8, 1.2)
                         : round % 4 == 2 ? shape_torus(0.6, 0.15, 12, 8)
                                          : shape_l_prism(1.2, 0.3),
                     b = round % 8 < 4 ? shape_cube(1.1, 2) : shape_torus(0.5, 0.2, 12, 8);
        double pose[2][12], twists[2][6];
        for (int i = 0; i < 2; i++) shape_pose_random(&rng, 0.3, pose[i]);
        for (int i = 0; i < 12; i++) twists[i / 6][i % 6] = shape_uniform(&rng, -1, 1);
        const struct part parts[2] = {{&a, pose[0], {1e6, 0.4, 0.5, NAN}}, {&b, pose[1], {3e6, 0.2, 0.1, NAN}}};
        ct_scene_settings settings = pressure();
        settings.patches = round % 3 == 0;
        ct_result *r = once(&settings, parts, twists);
        for (size_t i = 0; i < r->n_contacts; i++) {
            const ct_contact *c = &r->contacts[i];
            if (!(c->area > 1e-3)) continue;
            check_wrench(r, c, pose[0]);
            contacts++;
            for (int line = 0; line < 20 && r->n_contacts == 1; line++) {
                double p[3];
                for (int k = 0; k < 3; k++) p[k] = c->center[k] + shape_uniform(&rng, -0.5, 0.5);
                lines += check_line(r, c, (const struct shape *const[2]){&a, &b}, (const double(*)[12])pose, p);
            }
        }
        ct_result_free(&r);
        shape_free(&a);
        shape_free(&b);
    }
    assert_true(contacts > 30 && lines > 100);
}

/* Faces divided into more triangles: the same area, depth and wrench. */
static void test_tessellation(void **state) {
    (void)state;
    struct shape cubes[2] = {shape_box(1, 1, 1), shape_cube(1, 7)}, tool = shape_box(0.7, 0.4, 0.5);
    double down[12], pose[12];
    struct sums sums[2];
    shape_pose_identity(down);
    down[3] = down[7] = down[11] = -0.5; /* shape_box begins or is centred there: either does */
    shape_pose_axis((const double[3]){0.48, 0.64, 0.6}, 0.03, (const double[3]){0.31, -0.12, 0.35}, pose);
    for (int fine = 0; fine < 2; fine++) {
        const struct part parts[2] = {{&cubes[fine], NULL, CT_MATERIAL_NONE}, {&tool, pose, {1e6, NAN, NAN, NAN}}};
        const ct_scene_settings settings = pressure();
        ct_result *r = once(&settings, parts, NULL);
        assert_int_equal(r->n_contacts, 1);
        sums[fine] = sums_of(r, r->contacts);
        ct_result_free(&r);
    }
    near(sums[1].area, sums[0].area, 1e-6 * sums[0].area);
    near(sums[1].volume, sums[0].volume, 1e-6 * sums[0].volume);
    assert_true(sums[0].area > 0.01);
    for (int i = 0; i < 2; i++) shape_free(&cubes[i]);
    shape_free(&tool);
}

static void assert_same(const ct_result *a, const ct_result *b) {
    assert_int_equal(a->n_polygons, b->n_polygons);
    assert_int_equal(a->n_polygon_vertices, b->n_polygon_vertices);
    assert_memory_equal(a->polygons, b->polygons, a->n_polygons * sizeof *a->polygons);
    assert_memory_equal(a->polygon_first, b->polygon_first, (a->n_polygons + 1) * sizeof *a->polygon_first);
    assert_memory_equal(a->polygon_vertices, b->polygon_vertices, a->n_polygon_vertices * sizeof *a->polygon_vertices);
}

static void test_same_bits(void **state) {
    (void)state;
    struct shape a = shape_blob(0.7, 3, 0.3, 3), b = shape_blob(0.6, 3, 0.3, 4);
    double pose[2][12];
    uint64_t rng = 9;
    ct_result *first = NULL;
    for (int i = 0; i < 2; i++) shape_pose_random(&rng, 0.3, pose[i]);
    for (int round = 0; round < 3; round++) {
        ct_engine *other = stage_engine(round == 1 ? 3 : 1, round == 2 ? "base" : NULL), *mine = engine;
        const struct part parts[2] = {{&a, pose[0], {1e6, 0.4, 0.5, NAN}}, {&b, pose[1], {3e6, 0.2, 0.1, NAN}}};
        const ct_scene_settings settings = pressure();
        struct built built = build(other, &settings, parts);
        engine = other;
        ct_result *r = run(&built, (const double[2][6]){{1, 2, 3, -1, 0.5, 2}, {0}});
        engine = mine;
        if (first) {
            assert_same(r, first);
            ct_result_free(&r);
        } else {
            first = r;
            assert_true(r->n_polygons > 50);
        }
        ct_scene_destroy(&built.scene);
        ct_engine_destroy(&other);
    }
    ct_result_free(&first);
    shape_free(&a);
    shape_free(&b);
}

/* A row of blobs, each overlapping the next, on one thread and on four: the same bits, polygons in the order of the
 * contacts, and each contact's forces sum to its wrench. */
static void test_many_contacts(void **state) {
    (void)state;
    enum { N = 24 };
    struct shape blob = shape_blob(0.7, 2, 0.3, 3);
    double pose[N][12];
    uint32_t body[N];
    uint64_t rng = 4;
    ct_result *one = NULL;
    for (int threads = 1; threads <= 4; threads += 3) {
        ct_engine *other = stage_engine((uint32_t)threads, NULL), *mine = engine;
        const ct_scene_settings settings = pressure();
        const struct part parts[2] = {{&blob, pose[0], CT_MATERIAL_NONE}, {&blob, pose[1], CT_MATERIAL_NONE}};
        for (int i = 0; i < N && threads == 1; i++) {
            shape_pose_random(&rng, 0.1, pose[i]);
            pose[i][3] += i;
        }
        struct built b = build(other, &settings, parts);
        memcpy(body, b.body, sizeof b.body);
        for (int i = 2; i < N; i++) {
            ct_error error;
            ct_body_options options;
            ct_mesh *mesh = shape_to_mesh(&blob, &error);
            ct_body_options_init(&options);
            options.kind = CT_BODY_RIGID;
            memcpy(options.pose, pose[i], sizeof options.pose);
            if (ct_scene_add_body(b.scene, mesh, &options, &body[i], &error)) fail_msg("%s", error.message);
            ct_mesh_release(&mesh);
        }
        engine = other;
        ct_result *r = run(&b, NULL);
        engine = mine;
        size_t first = 0;
        assert_true(r->n_contacts >= N - 1);
        for (size_t i = 0; i < r->n_contacts; i++) {
            assert_int_equal(r->contacts[i].first_polygon, first);
            assert_true(r->contacts[i].n_polygons > 0);
            int of = 0;
            while (body[of] != r->contacts[i].body[0]) of++;
            check_wrench(r, &r->contacts[i], pose[of]);
            first += r->contacts[i].n_polygons;
        }
        assert_int_equal(r->n_polygons, first);
        if (one) assert_same(r, one);
        ct_result_free(&one);
        one = r;
        ct_scene_destroy(&b.scene);
        ct_engine_destroy(&other);
    }
    ct_result_free(&one);
    shape_free(&blob);
}

/* A deformable body slides as its vertices do; a body inside another has no normal, and no polygons. */
static void test_other_bodies(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1), small = shape_box(0.2, 0.2, 0.2);
    double pose[12];
    ct_error error;
    shape_pose_identity(pose);
    ct_scene_settings settings = stage_exact();
    const struct part nested[2] = {{&box, NULL, CT_MATERIAL_NONE}, {&small, pose, CT_MATERIAL_NONE}};
    ct_result *r = once(&settings, nested, NULL);
    assert_true(r->n_contacts == 1 && r->contacts[0].n_polygons == 0 && r->n_polygons == 0);
    ct_result_free(&r);

    struct built b;
    shape_translate(&small, 0, 0, 0.55);
    assert_int_equal(ct_scene_create(engine, &settings, &b.scene, &error), CT_OK);
    for (int i = 0; i < 2; i++) {
        ct_body_options options;
        ct_body_options_init(&options);
        options.kind = i ? CT_BODY_DEFORMABLE : CT_BODY_RIGID;
        ct_mesh *mesh = shape_to_mesh(i ? &small : &box, &error);
        assert_int_equal(ct_scene_add_body(b.scene, mesh, &options, &b.body[i], &error), CT_OK);
        ct_mesh_release(&mesh);
    }
    double moving[8][3];
    for (int i = 0; i < 8; i++) memcpy(moving[i], (const double[3]){0.5, -0.25, 2}, sizeof moving[i]);
    const ct_update update = {
        .body = b.body[1], .kind = CT_UPDATE_POSITIONS, .positions = small.positions, .dtype = CT_F32, .count = 8};
    const ct_velocity velocity = {.body = b.body[1], .values = moving, .dtype = CT_F64, .count = 8};
    ct_step step = {.scene = b.scene,
                    .updates = &update,
                    .n_updates = 1,
                    .want = CT_WANT_SURFACE,
                    .velocities = &velocity,
                    .n_velocities = 1};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
    r = step.result;
    assert_true(r->n_polygons > 0);
    for (uint64_t p = 0; p < r->n_polygons; p++) {
        near(r->polygons[p].slip[0], 0.5, 1e-6);
        near(r->polygons[p].slip[1], -0.25, 1e-6);
        near(r->polygons[p].slip[2], 0, 1e-6);
    }
    ct_result_free(&r);
    step = (ct_step){.scene = b.scene, .want = CT_WANT_FRAME}; /* not wanted */
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_OK);
    assert_null(step.result->polygons);
    ct_result_free(&step.result);
    ct_scene_destroy(&b.scene);
    shape_free(&box);
    shape_free(&small);
}

static void test_bad_input(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    ct_error error;
    for (int round = 0; round < 2; round++) {
        const ct_scene_settings settings = round ? stage_exact() : stage_resolution(16);
        ct_scene *scene;
        uint32_t body;
        ct_body_options options;
        assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_OK);
        ct_body_options_init(&options);
        options.self_contact = round == 1;
        ct_mesh *mesh = shape_to_mesh(&box, &error);
        assert_int_equal(ct_scene_add_body(scene, mesh, &options, &body, &error), CT_OK);
        ct_mesh_release(&mesh);
        ct_step step = {.scene = scene, .want = CT_WANT_SURFACE};
        assert_int_equal(ct_engine_run(engine, &step, 1), round ? CT_UNSUPPORTED : CT_INVALID_ARGUMENT);
        assert_string_equal(step.error.field, "want");
        assert_non_null(strstr(step.error.message, round ? "self_contact" : "exact"));
        ct_scene_destroy(&scene);
    }
    shape_free(&box);
}

int main(void) {
    engine = stage_engine(2, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_box_on_floor),  cmocka_unit_test(test_ball_on_plane), cmocka_unit_test(test_two_balls),
        cmocka_unit_test(test_random),        cmocka_unit_test(test_tessellation),  cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_many_contacts), cmocka_unit_test(test_other_bodies),  cmocka_unit_test(test_bad_input),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ct_engine_destroy(&engine);
    return failed;
}
