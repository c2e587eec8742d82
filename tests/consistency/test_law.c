/* test_law.c - the contact law "pressure" against closed forms: Winkler's foundation under flat faces, tilted, lifted and
 * on patches; Coulomb friction and its torque; dissipation. Wrenches that balance, whatever the triangles, bodies' order
 * and threads; forces on vertices that amount to them; bad input. */
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

static ct_scene_settings pressure(void) {
    ct_scene_settings settings = stage_exact();
    settings.law = CT_LAW_PRESSURE;
    return settings;
}

/* A scene of bodies of one material each; shape NULL: the half-space z <= 0. */
struct built {
    ct_scene *scene;
    uint32_t body[4];
};

struct part {
    const struct shape *shape;
    const double *pose;
    ct_material material;
    ct_body_kind kind;
};

static struct built build(ct_engine *of, const struct part *parts, int n) {
    struct built b;
    ct_error error;
    const ct_scene_settings settings = pressure();
    if (ct_scene_create(of, &settings, &b.scene, &error)) fail_msg("%s", error.message);
    for (int i = 0; i < n; i++) {
        ct_body_options options;
        ct_body_options_init(&options);
        options.kind = parts[i].kind ? parts[i].kind : parts[i].shape ? CT_BODY_RIGID : CT_BODY_HALF_SPACE;
        options.material = parts[i].material;
        if (parts[i].pose) memcpy(options.pose, parts[i].pose, sizeof options.pose);
        ct_mesh *mesh = parts[i].shape ? shape_to_mesh(parts[i].shape, &error) : NULL;
        if (ct_scene_add_body(b.scene, mesh, &options, &b.body[i], &error)) fail_msg("%s", error.message);
        ct_mesh_release(&mesh);
    }
    return b;
}

static ct_result *run(const struct built *b, const ct_velocity *velocities, size_t n, uint32_t want) {
    ct_step step = {.scene = b->scene, .want = want, .velocities = velocities, .n_velocities = n};
    if (ct_engine_run(engine, &step, 1)) fail_msg("%s: %s", step.error.field, step.error.message);
    assert_true(step.result->has_wrenches);
    return step.result;
}

/* Torques of both wrenches about the world's origin: they are given about the origins of the poses, which may be NULL. */
static void check_balance(const ct_contact *c, const double *const pose[2], double tolerance) {
    double torque[3] = {0, 0, 0};
    for (int s = 0; s < 2; s++) {
        double at[3] = {0, 0, 0}, moved[3];
        for (int i = 0; i < 3 && pose[s]; i++) at[i] = pose[s][4 * i + 3];
        ct_cross3(at, c->wrench[s], moved);
        for (int i = 0; i < 3; i++) torque[i] += c->wrench[s][3 + i] + moved[i];
    }
    for (int i = 0; i < 3; i++) {
        near(c->wrench[0][i] + c->wrench[1][i], 0, tolerance);
        near(torque[i], 0, tolerance);
    }
}

/* A cube held in a floor, level, tilted within its depth, and with an edge in the air: k V along the floor's normal
 * through the centre of the volume is Winkler's foundation. On a half-space and a slab, coarse and fine. */
static void test_tilted_cube(void **state) {
    (void)state;
    const double tilts[] = {0, 0.002, 0.01, 0.03, 0.2}, axis[3] = {0.6, 0.8, 0}, by[3] = {0.3, -0.2, 0.049}, k = 1e7;
    double down[12];
    shape_pose_identity(down);
    down[11] = -0.25;
    struct shape slab = shape_box(3, 3, 0.5);
    for (int fine = 0; fine < 2; fine++) {
        struct shape cube = fine ? shape_cube(0.1, 7) : shape_box(0.1, 0.1, 0.1);
        for (int on_mesh = 0; on_mesh < 2; on_mesh++)
            for (int t = 0; t < 5; t++) {
                double pose[12];
                shape_pose_axis(axis, tilts[t] / (2 * M_PI), by, pose);
                const struct part parts[] = {{on_mesh ? &slab : NULL, on_mesh ? down : NULL, CT_MATERIAL_NONE, 0},
                                             {&cube, pose, {k, NAN, NAN}, 0}};
                struct built b = build(engine, parts, 2);
                ct_result *r = run(&b, NULL, 0, CT_WANT_FRAME);
                assert_int_equal(r->n_contacts, 1);
                const ct_contact *c = r->contacts;
                const double up[3] = {0, 0, k * c->volume};
                double arm[3], torque[3];
                ct_sub3(c->center, by, arm);
                ct_cross3(arm, up, torque);
                for (int i = 0; i < 3; i++) {
                    near(c->wrench[1][i], up[i], 1e-8 * up[2]);
                    near(c->wrench[1][3 + i], torque[i], 1e-8 * up[2]);
                }
                check_balance(c, (const double *const[2]){on_mesh ? down : NULL, pose}, 1e-9 * up[2]);
                if (t == 0) {
                    near(c->wrench[1][2], k * 0.001 * 0.01, 1e-4);
                    for (int a = 0; a < 2; a++) near(c->extents[a], 0.05, 1e-6);
                }
                ct_result_free(&r);
                ct_scene_destroy(&b.scene);
            }
        shape_free(&cube);
    }
    shape_free(&slab);
}

/* A table with feet of different heights: one contact of four pieces, or four; the same force and torque. */
static void test_table(void **state) {
    (void)state;
    struct shape table = {0}, foot[4];
    for (int i = 0; i < 4; i++) {
        foot[i] = shape_box(0.05, 0.05, 0.5 + 0.001 * i);
        shape_translate(&foot[i], i % 2 ? 0.3 : -0.3, i / 2 ? 0.4 : -0.4, 0.25);
    }
    struct shape two[2] = {shape_merge(&foot[0], &foot[1]), shape_merge(&foot[2], &foot[3])};
    table = shape_merge(&two[0], &two[1]);
    double pose[12];
    shape_pose_identity(pose);
    pose[11] = -0.002; /* the feet's lower ends are 0, 0.5, 1 and 1.5 mm below 0 */
    const struct part parts[] = {{&table, pose, {1e8, NAN, NAN, NAN}, 0}, {NULL, NULL, CT_MATERIAL_NONE, 0}};
    double expected[6] = {0};
    for (int i = 0; i < 4; i++) {
        const double f = 1e8 * 0.0025 * (0.002 + 0.0005 * i);
        expected[2] += f;
        expected[3] += (i / 2 ? 0.4 : -0.4) * f;
        expected[4] -= (i % 2 ? 0.3 : -0.3) * f;
    }
    for (int patches = 0; patches < 2; patches++) {
        struct built b = build(engine, parts, 2);
        ct_scene_settings settings = pressure();
        settings.patches = patches;
        assert_int_equal(ct_scene_configure(b.scene, &settings, NULL), CT_OK);
        ct_result *r = run(&b, NULL, 0, CT_WANT_FRAME);
        assert_int_equal(r->n_contacts, patches ? 4 : 1);
        double sum[6] = {0};
        for (size_t i = 0; i < r->n_contacts; i++)
            for (int j = 0; j < 6; j++) sum[j] += r->contacts[i].wrench[0][j];
        for (int j = 0; j < 6; j++) near(sum[j], expected[j], 0.02);
        ct_result_free(&r);
        ct_scene_destroy(&b.scene);
    }
    for (int i = 0; i < 4; i++) shape_free(&foot[i]);
    shape_free(&two[0]);
    shape_free(&two[1]);
    shape_free(&table);
}

/* Coulomb: a block that slides has mu N against its velocity at the contact; one that creeps has less; a drum that turns
 * has mu N 2/3 R. */
static void test_friction(void **state) {
    (void)state;
    struct shape block = shape_box(0.4, 0.4, 0.2), drum = shape_cylinder(0.2, 0.2, 256);
    const double mu = 0.3, k = 1e6;
    for (int turns = 0; turns < 2; turns++) {
        double pose[12];
        shape_pose_identity(pose);
        pose[11] = 0.1 - 0.001;
        const struct part parts[] = {{NULL, NULL, {NAN, 0.9, NAN, NAN}, 0},
                                     {turns ? &drum : &block, pose, {k, 0.1, NAN, NAN}, 0}};
        struct built b = build(engine, parts, 2);
        ct_velocity velocity = {.body = b.body[1], .twist = {turns ? 0 : 3, turns ? 0 : 4, 0, 0, 0, turns ? 50 : 0}};
        ct_result *r = run(&b, &velocity, 1, CT_WANT_FRAME);
        const ct_contact *c = r->contacts;
        const double normal = k * c->volume;
        near(c->wrench[1][2], normal, 1e-6 * normal);
        if (turns) {
            near(c->wrench[1][5], -mu * normal * 0.2 * 2 / 3, 0.005 * mu * normal * 0.2);
            for (int i = 0; i < 2; i++) near(c->wrench[1][i], 0, 1e-9 * normal);
        } else {
            near(c->wrench[1][0], -0.6 * mu * normal, 1e-6 * normal);
            near(c->wrench[1][1], -0.8 * mu * normal, 1e-6 * normal);
            near(c->friction[1][0], c->wrench[1][0], 1e-9 * normal);
        }
        check_balance(c, (const double *const[2]){NULL, pose}, 1e-9 * normal);
        ct_result_free(&r);
        if (!turns) { /* at the stiction speed: 0.71 of the limit */
            velocity.twist[0] = 1e-3;
            velocity.twist[1] = 0;
            r = run(&b, &velocity, 1, CT_WANT_FRAME);
            near(r->contacts[0].wrench[1][0], -mu * normal * sqrt(0.5), 1e-6 * normal);
            ct_result_free(&r);
        }
        ct_scene_destroy(&b.scene);
    }
    shape_free(&block);
    shape_free(&drum);
}

/* Hunt and Crossley: k h (1 + d v), never a pull; a body that tilts while it rests is damped. */
static void test_dissipation(void **state) {
    (void)state;
    struct shape block = shape_box(0.4, 0.4, 0.2);
    const double k = 1e6, d = 2;
    double pose[12];
    shape_pose_identity(pose);
    pose[11] = 0.1 - 0.001;
    const struct part parts[] = {{NULL, NULL, CT_MATERIAL_NONE, 0}, {&block, pose, {k, NAN, d, NAN}, 0}};
    struct built b = build(engine, parts, 2);
    const double speeds[] = {-0.25, 0.25, 1};
    for (int i = 0; i < 3; i++) {
        const ct_velocity velocity = {.body = b.body[1], .twist = {0, 0, speeds[i]}};
        ct_result *r = run(&b, &velocity, 1, CT_WANT_FRAME);
        near(r->contacts[0].wrench[1][2], k * r->contacts[0].volume * fmax(1 - d * speeds[i], 0), 1e-4);
        ct_result_free(&r);
    }
    const ct_velocity turning = {.body = b.body[1], .twist = {0, 0, 0, 0.1, 0, 0}};
    ct_result *r = run(&b, &turning, 1, CT_WANT_FRAME);
    const double area_moment = pow(0.4, 4) / 12; /* the torque is -k h d w I */
    near(r->contacts[0].wrench[1][3], -k * 0.001 * d * 0.1 * area_moment, 1e-5);
    ct_result_free(&r);
    ct_scene_destroy(&b.scene);
    shape_free(&block);
}

/* What dissipation adds to the wrenches of hollow, bent and crossing bodies takes energy, too, whatever their normals. */
static void test_dissipation_takes_energy(void **state) {
    (void)state;
    struct shape shapes[] = {shape_torus(0.5, 0.2, 24, 12), shape_l_prism(1, 0.4), shape_cylinder(0.4, 0.9, 24),
                             shape_box(1, 1, 0.1)};
    uint64_t rng = 8;
    int contacts = 0;
    for (int round = 0; round < 300; round++) {
        const struct shape *pair[2] = {&shapes[round % 4], &shapes[round / 4 % 4]};
        double pose[2][12], wrench[2][12] = {{0}}, power = 0, size = 0;
        for (int i = 0; i < 2; i++) shape_pose_random(&rng, 0.3, pose[i]);
        ct_velocity velocities[2] = {{.body = 0}, {.body = 0}};
        for (int i = 0; i < 12; i++) velocities[i / 6].twist[i % 6] = shape_uniform(&rng, -1, 1);
        for (int with = 0; with < 2; with++) {
            const struct part parts[] = {{pair[0], pose[0], {1e6, NAN, 0.5 * with, NAN}, 0},
                                         {pair[1], pose[1], {1e6, NAN, 0.5 * with, NAN}, 0}};
            struct built b = build(engine, parts, 2);
            for (int i = 0; i < 2; i++) velocities[i].body = b.body[i];
            ct_result *r = run(&b, velocities, 2, CT_WANT_FRAME);
            if (r->n_contacts && r->contacts[0].area > 1e-3)
                memcpy(wrench[with], r->contacts[0].wrench, sizeof wrench[with]);
            ct_result_free(&r);
            ct_scene_destroy(&b.scene);
        }
        for (int i = 0; i < 12; i++) {
            power += (wrench[1][i] - wrench[0][i]) * velocities[i / 6].twist[i % 6];
            size += fabs(wrench[1][i]);
        }
        contacts += size > 0;
        if (!(power <= 1e-9 * size)) fail_msg("round %d: %g W of %g", round, power, size);
    }
    assert_true(contacts > 150);
    for (int i = 0; i < 4; i++) shape_free(&shapes[i]);
}

/* Random pairs: wrenches balance; friction and dissipation take energy; bits are the same in any order of bodies,
 * vertices and threads; a fine mesh of the same body has the same wrench. */
static void test_random_pairs(void **state) {
    (void)state;
    uint64_t rng = 5;
    int contacts = 0;
    for (int round = 0; round < 30; round++) {
        struct shape a = round % 2 ? shape_box(1, 0.8, 1.2) : shape_blob(0.7, 3, 0.3, (uint64_t)round),
                     coarse = shape_box(1.1, 1.1, 1.1), fine = shape_cube(1.1, 5);
        double pose[2][12], wrench[2][12] = {{0}};
        for (int i = 0; i < 2; i++) shape_pose_random(&rng, 0.5, pose[i]);
        ct_velocity velocities[2] = {{.body = 0}, {.body = 0}};
        for (int i = 0; i < 12; i++) velocities[i / 6].twist[i % 6] = shape_uniform(&rng, -1, 1);
        for (int of = 0; of < 2; of++) {
            const struct part parts[] = {{&a, pose[0], {1e6, 0.4, 0.5, NAN}, 0},
                                         {of ? &fine : &coarse, pose[1], {3e6, 0.2, 0.1, NAN}, 0}};
            struct built b = build(engine, parts, 2);
            for (int i = 0; i < 2; i++) velocities[i].body = b.body[i];
            ct_result *r = run(&b, velocities, 2, CT_WANT_FRAME);
            if (r->n_contacts && r->contacts[0].area > 1e-3) {
                const ct_contact *c = r->contacts;
                double size = 0, power = 0;
                for (int i = 0; i < 12; i++) size += fabs(c->wrench[i / 6][i % 6]);
                check_balance(c, (const double *const[2]){pose[0], pose[1]}, 1e-11 * size);
                for (int i = 0; i < 12; i++) power += c->friction[i / 6][i % 6] * velocities[i / 6].twist[i % 6];
                assert_true(power <= 1e-12 * size);
                memcpy(wrench[of], c->wrench, sizeof wrench[of]);
                contacts++;
            }
            ct_result_free(&r);
            ct_scene_destroy(&b.scene);
        }
        double size = 0;
        for (int i = 0; i < 12; i++) size += fabs(wrench[0][i]);
        for (int i = 0; i < 12; i++) near(wrench[1][i], wrench[0][i], 1e-6 * size);
        shape_free(&a);
        shape_free(&coarse);
        shape_free(&fine);
    }
    assert_true(contacts > 40);
}

/* A ball in a ring that it fills, off its middle and through it: areas as seen along the normal cancel there, and nothing
 * may be divided by what is left of them. The force on either is at most twice that of the whole volume's pressure. */
static void test_wrapped(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(0.52, 4), ring = shape_torus(1, 0.5, 64, 32);
    double identity[12], pose[12];
    int contacts = 0;
    shape_pose_identity(identity);
    for (int round = 0; round < 60; round++) {
        shape_pose_identity(pose);
        pose[3] = 0.002 * (round % 10);
        pose[7] = 1e-9 * round;
        pose[11] = 0.01 * (round / 10) * (round % 2 ? 1 : -1);
        const struct part parts[] = {{&ring, identity, {1e6, 0.4, 0, NAN}, 0}, {&ball, pose, {NAN, 0.4, 0, NAN}, 0}};
        struct built b = build(engine, parts, 2);
        const ct_velocity velocity = {.body = b.body[1], .twist = {0, 0, 0, 0, 0, 5}};
        ct_result *r = run(&b, &velocity, 1, CT_WANT_FRAME);
        for (size_t i = 0; i < r->n_contacts; i++) {
            const ct_contact *c = &r->contacts[i];
            const double whole = 1e6 * c->volume, *w = c->wrench[1], *rub = c->friction[1];
            const double push[3] = {w[0] - rub[0], w[1] - rub[1], w[2] - rub[2]};
            assert_true(sqrt(ct_dot3(push, push)) <= 2 * whole);
            assert_true(sqrt(ct_dot3(rub, rub)) <= 0.4 * whole * (1 + 1e-9));
            assert_true(sqrt(ct_dot3(w + 3, w + 3)) <= 4 * whole); /* m: about the ball's middle, reaches are below 1 */
            assert_true(c->extents[0] <= 1 && c->extents[1] <= c->extents[0] + 1e-9);
            check_balance(c, (const double *const[2]){identity, pose}, 1e-9 * whole);
            contacts += c->area > 0;
        }
        ct_result_free(&r);
        ct_scene_destroy(&b.scene);
    }
    assert_true(contacts > 40);
    shape_free(&ball);
    shape_free(&ring);
}

static void test_same_bits(void **state) {
    (void)state;
    struct shape a = shape_blob(0.7, 3, 0.3, 3), b = shape_blob(0.6, 3, 0.3, 4);
    double pose[2][12];
    uint64_t rng = 9;
    for (int i = 0; i < 2; i++) shape_pose_random(&rng, 0.3, pose[i]);
    double first[12] = {0};
    for (int round = 0; round < 3; round++) {
        ct_engine *other = stage_engine(round == 1 ? 3 : 1, round == 2 ? "base" : NULL);
        if (round == 1) shape_shuffle(&a, &rng);
        const struct part parts[] = {{&a, pose[0], {1e6, 0.4, 0.5, NAN}, 0}, {&b, pose[1], {3e6, 0.2, 0.1, NAN}, 0}};
        struct built built = build(other, parts, 2);
        const ct_velocity velocity = {.body = built.body[0], .twist = {1, 2, 3, -1, 0.5, 2}};
        ct_step step = {.scene = built.scene, .want = CT_WANT_FRAME, .velocities = &velocity, .n_velocities = 1};
        assert_int_equal(ct_engine_run(other, &step, 1), CT_OK);
        assert_int_equal(step.result->n_contacts, 1);
        if (!round) memcpy(first, step.result->contacts[0].wrench, sizeof first);
        assert_memory_equal(step.result->contacts[0].wrench, first, sizeof first);
        ct_result_free(&step.result);
        ct_scene_destroy(&built.scene);
        ct_engine_destroy(&other);
    }
    shape_free(&a);
    shape_free(&b);
}

/* Forces on the vertices amount to the wrenches: of rigid bodies, and of a deformable one that moves as a rigid one. */
static void test_vertex_forces(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(0.5, 3), block = shape_cube(0.8, 6);
    double pose[12], turned[12];
    uint64_t rng = 3;
    shape_pose_identity(pose);
    shape_pose_random(&rng, 0, turned);
    turned[3] = 0.7;
    for (int soft = 0; soft < 2; soft++) {
        const struct part parts[] = {{&ball, pose, {1e6, 0.4, 0.5, NAN}, soft ? CT_BODY_DEFORMABLE : 0},
                                     {&block, turned, {3e6, 0.4, 0.5, NAN}, 0}};
        struct built b = build(engine, parts, 2);
        const double twist[6] = {1, 0.5, -0.2, 0.3, 2, -1};
        double *values = malloc(3 * ball.n_vertices * sizeof *values);
        assert_non_null(values);
        for (uint32_t v = 0; v < ball.n_vertices; v++) {
            const double p[3] = {(double)ball.positions[3 * v], (double)ball.positions[3 * v + 1],
                                 (double)ball.positions[3 * v + 2]};
            ct_cross3(twist + 3, p, values + 3 * v);
            for (int i = 0; i < 3; i++) values[3 * v + (uint32_t)i] += twist[i];
        }
        ct_velocity velocity = {.body = b.body[0]};
        if (soft) {
            velocity.values = values;
            velocity.dtype = CT_F64;
            velocity.count = ball.n_vertices;
        } else {
            memcpy(velocity.twist, twist, sizeof twist);
        }
        ct_result *r = run(&b, &velocity, 1, CT_WANT_FORCES);
        const ct_contact *c = r->contacts;
        assert_int_equal(r->n_contacts, 1);
        for (int s = 0; s < 2; s++) {
            double sum[6] = {0}, size = 0;
            for (int i = 0; i < 3; i++) size += fabs(c->wrench[s][i]);
            for (uint64_t e = c->first[s]; e < c->first[s] + c->count[s]; e++) {
                const struct shape *shape = s ? &block : &ball;
                double f[3], rest[3], arm[3], torque[3];
                for (int i = 0; i < 3; i++) {
                    f[i] = r->forces[3 * e + (uint64_t)i] + r->friction_forces[3 * e + (uint64_t)i];
                    rest[i] = (double)shape->positions[3 * r->vertices[e] + (uint32_t)i];
                }
                for (int i = 0; i < 3; i++)
                    arm[i] = s ? turned[4 * i] * rest[0] + turned[4 * i + 1] * rest[1] + turned[4 * i + 2] * rest[2]
                               : rest[i];
                ct_cross3(arm, f, torque);
                for (int i = 0; i < 3; i++) {
                    sum[i] += f[i];
                    sum[3 + i] += torque[i];
                }
            }
            for (int i = 0; i < 6; i++) near(sum[i], c->wrench[s][i], 1e-9 * size);
        }
        assert_true(c->wrench[0][0] < 0); /* the ball is pushed away from the block at x = 0.7 */
        ct_result_free(&r);
        ct_scene_destroy(&b.scene);
        free(values);
    }
    shape_free(&ball);
    shape_free(&block);
}

/* A cube in a box, wherever both are turned, whichever is first, coarse or fine, rigid or deformable: the shortest way out
 * is through the wall that is nearest to its middle. The force is k V, the more the deeper it is, and less on the way out.
 * Both wrenches balance, and forces on vertices amount to the cube's. */
static void test_wholly_inside(void **state) {
    (void)state;
    struct shape outer = shape_box(1, 1.2, 1.4), cubes[2] = {shape_box(0.2, 0.2, 0.2), shape_cube(0.2, 5)};
    uint64_t rng = 9;
    for (int round = 0; round < 24; round++) {
        const int axis = round % 3, first = round / 3 % 2, soft = round / 6 % 2;
        const double k = 1e6, speed = 0.3, sign = round % 4 < 2 ? 1 : -1, half[3] = {0.5, 0.6, 0.7};
        double pose[12], middle[3] = {0.02, -0.03, 0.01}, world[3], pose_in[12];
        shape_pose_random(&rng, 0.5, pose);
        middle[axis] = sign * (half[axis] - 0.101 - 0.05 * (round % 5));
        memcpy(pose_in, pose, sizeof pose_in);
        for (int i = 0; i < 3; i++) world[i] = pose_in[4 * i + 3] = ct_dot3(pose + 4 * i, middle) + pose[4 * i + 3];
        struct shape *cube = &cubes[round % 2], placed = shape_copy(cube);
        for (uint32_t v = 0; v < placed.n_vertices && soft; v++) {
            const double p[3] = {(double)cube->positions[3 * v], (double)cube->positions[3 * v + 1],
                                 (double)cube->positions[3 * v + 2]};
            for (uint32_t i = 0; i < 3; i++) placed.positions[3 * v + i] = (float)(ct_dot3(pose + 4 * i, p) + world[i]);
        }
        const struct part box = {&outer, pose, CT_MATERIAL_NONE, 0},
                          small = {&placed, soft ? NULL : pose_in, {k, NAN, 2, NAN}, soft ? CT_BODY_DEFORMABLE : 0};
        struct built b = build(engine, first ? (struct part[]){small, box} : (struct part[]){box, small}, 2);
        const int in = !first;
        ct_velocity moving = {.body = b.body[1 - in]}; /* the box moves, away from the cube or after it */
        for (int i = 0; i < 3; i++) moving.twist[i] = (round % 2 ? speed : -speed) * sign * pose[4 * i + axis];
        ct_result *r = run(&b, &moving, 1, CT_WANT_FRAME | CT_WANT_FORCES);
        assert_int_equal(r->n_contacts, 1);
        const ct_contact *c = r->contacts;
        assert_true(c->is_nested);
        assert_int_equal(r->n_warnings, 1); /* the way may be the wrong one */
        const double *at = soft ? NULL : pose_in, *const poses[2] = {first ? at : pose, first ? pose : at};
        /* A deformable cube's extent is that of its box in the world's axes. */
        double extent = 0.2, sum[6] = {0}, turned[3];
        for (int i = 0; i < 3 && soft; i++)
            extent = (i ? extent : 0) + fabs(pose[4 * i + axis]) *
                                            (fabs(pose[4 * i]) + fabs(pose[4 * i + 1]) + fabs(pose[4 * i + 2])) * 0.2;
        const double deeper = fmax(half[axis] - fabs(middle[axis]) - extent / 2, 0),
                     force = sign * k * 0.008 * (1 + (round % 2 ? 2 : -2) * speed) * (1 + deeper / extent);
        check_balance(c, poses, 1e-7 * fabs(force));
        for (uint64_t e = c->first[in]; e < c->first[in] + c->count[in]; e++) {
            const double *f = r->forces + 3 * e;
            double p[3], torque[3];
            for (uint32_t i = 0; i < 3; i++) p[i] = (double)placed.positions[3 * r->vertices[e] + i];
            for (int i = 0; i < 3; i++) turned[i] = soft ? p[i] : ct_dot3(pose + 4 * i, p);
            ct_cross3(turned, f, torque);
            for (int i = 0; i < 3; i++) sum[i] += f[i], sum[3 + i] += torque[i];
        }
        for (int i = 0; i < 3; i++) near(c->wrench[in][i], force * pose[4 * i + axis], 1e-5 * fabs(force));
        for (int i = 0; i < 6; i++) near(sum[i], c->wrench[in][i], 1e-6 * fabs(force));
        ct_result_free(&r);
        ct_scene_destroy(&b.scene);
        shape_free(&placed);
    }
    for (int i = 0; i < 2; i++) shape_free(&cubes[i]);
    shape_free(&outer);
}

static void test_materials(void **state) {
    (void)state;
    const ct_material none = CT_MATERIAL_NONE, soft = {1e5, 0.2, 1, 0.2}, hard = {3e5, 0.8, 3, 1.25};
    ct_material m = ct_material_of_pair(&none, &none);
    near(m.modulus, CT_DEFAULT_MODULUS, 0);
    assert_true(m.friction == 0 && m.dissipation == 0);
    m = ct_material_of_pair(&none, &soft);
    assert_memory_equal(&m, &soft, sizeof m);
    m = ct_material_of_pair(&soft, &hard);
    near(m.modulus, 7.5e4, 1e-9);
    near(m.friction, 0.4, 1e-15);
    near(m.static_friction, 0.5, 1e-15);
    near(m.dissipation, 0.75 * 1 + 0.25 * 3, 1e-15);
    const ct_material again = ct_material_of_pair(&hard, &soft);
    assert_memory_equal(&m, &again, sizeof m);
}

/* What a pair is given counts in place of its bodies' materials, in either order, until it is taken back. */
static void test_pairs(void **state) {
    (void)state;
    struct shape block = shape_box(0.4, 0.4, 0.2);
    double pose[12];
    shape_pose_identity(pose);
    pose[11] = 0.1 - 0.001;
    const double k = 1e6;
    const struct part parts[] = {{NULL, NULL, {NAN, 0.2, NAN, 0.5}, 0}, {&block, pose, {k, 0.2, NAN, 0.5}, 0}};
    struct built b = build(engine, parts, 2);
    const struct {
        bool is_set, is_turned;
        ct_material pair;
        double modulus, friction, static_friction;
    } cases[] = {{false, false, CT_MATERIAL_NONE, k, 0.2, 0.5},
                 {true, false, {NAN, 0.3, NAN, NAN}, k, 0.3, 0.3},
                 {true, true, {2 * k, NAN, NAN, 0.6}, 2 * k, 0.2, 0.6},
                 {true, false, {NAN, 0.7, NAN, 0.9}, k, 0.7, 0.9},
                 {true, true, CT_MATERIAL_NONE, k, 0.2, 0.5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_error error;
        const bool turned = cases[i].is_turned;
        if (cases[i].is_set)
            assert_int_equal(ct_scene_set_material(b.scene, b.body[turned], b.body[!turned], &cases[i].pair, &error),
                             CT_OK);
        for (int fast = 0; fast < 2; fast++) { /* at 5 stiction speeds, and at 5,000 */
            const double v = fast ? 5 : 5e-3, fourth = pow(v / (CT_STRIBECK * 1e-3), 4);
            const ct_velocity velocity = {.body = b.body[1], .twist = {v}};
            ct_result *r = run(&b, &velocity, 1, CT_WANT_FRAME);
            const double normal = cases[i].modulus * r->contacts[0].volume;
            const double mu = cases[i].friction + (cases[i].static_friction - cases[i].friction) / (1 + fourth);
            near(r->contacts[0].wrench[1][2], normal, 1e-6 * normal);
            near(r->contacts[0].wrench[1][0], -mu * normal * v / hypot(v, 1e-3), 1e-6 * normal);
            ct_result_free(&r);
        }
    }
    ct_error error = {0};
    const ct_material weak = {NAN, 0.5, NAN, 0.4}, fine = {k, 0.1, NAN, NAN};
    assert_int_equal(ct_scene_set_material(b.scene, b.body[0], 0, &weak, &error), CT_INVALID_ARGUMENT);
    assert_string_equal(error.field, "static_friction");
    assert_int_equal(ct_scene_set_material(b.scene, b.body[0], 77, &fine, NULL), CT_NOT_FOUND);
    assert_int_equal(ct_scene_set_material(b.scene, b.body[0], b.body[1], &fine, &error), CT_OK);
    assert_int_equal(ct_scene_remove_body(b.scene, b.body[0], &error), CT_OK);
    assert_int_equal(b.scene->n_pair_materials, 0);
    ct_scene_destroy(&b.scene);
    shape_free(&block);
}

static void test_bad_input(void **state) {
    (void)state;
    ct_scene_settings settings = pressure();
    ct_error error;
    ct_scene *scene;
    const ct_method others[] = {CT_METHOD_LDI, CT_METHOD_EBPI, CT_METHOD_VOXTREE};
    for (int i = 0; i < 3; i++) {
        settings.method = others[i];
        if (others[i] == CT_METHOD_EBPI) settings.tolerance_rel = 0.1;
        error.status = CT_OK;
        assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_INVALID_ARGUMENT);
        assert_string_equal(error.field, "law");
        settings.tolerance_rel = 0;
    }
    settings.method = CT_METHOD_AUTO;
    assert_int_equal(ct_scene_create(engine, &settings, &scene, &error), CT_OK);
    ct_scene_settings running;
    ct_scene_get_running(scene, &running);
    assert_int_equal(running.method, CT_METHOD_EXACT);
    struct shape box = shape_box(1, 1, 1);
    ct_mesh *mesh = shape_to_mesh(&box, &error);
    const struct {
        ct_material material;
        const char *field;
    } bad[] = {{{0, NAN, NAN, NAN}, "modulus"},         {{-1, NAN, NAN, NAN}, "modulus"},
               {{INFINITY, NAN, NAN, NAN}, "modulus"},  {{NAN, -0.1, NAN, NAN}, "friction"},
               {{NAN, INFINITY, NAN, NAN}, "friction"}, {{NAN, NAN, -1, NAN}, "dissipation"},
               {{NAN, NAN, 1e9, NAN}, "dissipation"},   {{NAN, NAN, NAN, -1}, "static_friction"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ct_body_options options;
        uint32_t body;
        ct_body_options_init(&options);
        options.material = bad[i].material;
        error.status = CT_OK;
        assert_int_equal(ct_scene_add_body(scene, mesh, &options, &body, &error), CT_OUT_OF_RANGE);
        if (strcmp(error.field, bad[i].field) != 0) fail_msg("%s: %s", error.field, error.message);
    }
    uint32_t body;
    assert_int_equal(ct_scene_add_body(scene, mesh, &(ct_body_options){0}, &body, &error), CT_INVALID_ARGUMENT);
    ct_body_options options;
    ct_body_options_init(&options);
    options.kind = CT_BODY_RIGID;
    assert_int_equal(ct_scene_add_body(scene, mesh, &options, &body, &error), CT_OK);
    const ct_velocity velocity = {.body = body};
    ct_step step = {.scene = scene, .velocities = &velocity, .n_velocities = 1, .viscosity = 1};
    assert_int_equal(ct_engine_run(engine, &step, 1), CT_INVALID_ARGUMENT);
    assert_string_equal(step.error.field, "viscosity");
    ct_mesh_release(&mesh);
    shape_free(&box);
    ct_scene_destroy(&scene);
}

int main(void) {
    engine = stage_engine(2, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tilted_cube),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_friction),
        cmocka_unit_test(test_dissipation),
        cmocka_unit_test(test_random_pairs),
        cmocka_unit_test(test_wrapped),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_vertex_forces),
        cmocka_unit_test(test_materials),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_wholly_inside),
        cmocka_unit_test(test_dissipation_takes_energy),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ct_engine_destroy(&engine);
    return failed;
}
