/* test_edge_pairs.c - the faces of an edge in pairs: wedges around an edge in any order, number, direction of the edge and
 * of space; overlapping ones as brackets; coincident faces; what is refused. */
#include "gpu/mesh/adjacency.h"
#include "gpu/mesh/edge_pairs.h"
#include "gpu/mesh/mesh.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

enum { MOST = 64 };

struct fan {
    float positions[MOST + 2][3]; /* of the ends of the edge, low and high, and of the faces' third vertices */
    ct_edge_face faces[MOST];
    size_t n;
    bool is_turned; /* the edge runs from vertex 1 to vertex 0 */
};

/* At an angle in turns. `wedge` is what a face and its partner have in common. */
static void add_face(struct fan *fan, const double pose[12], double turns, bool closes, uint32_t wedge) {
    const double p[3] = {cos(2 * M_PI * turns), sin(2 * M_PI * turns), 0.25};
    for (int k = 0; k < 3; k++)
        fan->positions[2 + fan->n][k] =
            (float)(pose[4 * k] * p[0] + pose[4 * k + 1] * p[1] + pose[4 * k + 2] * p[2] + pose[4 * k + 3]);
    fan->faces[fan->n] =
        (ct_edge_face){.id = wedge, .apex = (uint32_t)(2 + fan->n), .runs_up = closes != fan->is_turned};
    fan->n++;
}

static struct fan begin(const double pose[12], bool is_turned) {
    struct fan fan = {.is_turned = is_turned};
    for (int e = 0; e < 2; e++) /* along z, from 0 to 1, or the other way around */
        for (int k = 0; k < 3; k++) fan.positions[e][k] = (float)((e != is_turned) * pose[4 * k + 2] + pose[4 * k + 3]);
    return fan;
}

static void shuffle(struct fan *fan, uint64_t *rng) {
    for (size_t i = fan->n; i > 1; i--) {
        const size_t k = shape_random(rng) % i;
        const ct_edge_face face = fan->faces[k];
        fan->faces[k] = fan->faces[i - 1];
        fan->faces[i - 1] = face;
    }
}

static ct_edge_pairing pair(struct fan *fan) {
    return ct_pair_edge_faces(&fan->positions[0][0], 0, 1, fan->faces, fan->n);
}

static void assert_paired(struct fan *fan) {
    assert_int_equal(pair(fan), CT_EDGE_PAIRED);
    for (size_t i = 0; i < fan->n; i += 2) {
        assert_int_equal(fan->faces[i].id, fan->faces[i + 1].id);
        assert_int_not_equal(fan->faces[i].runs_up, fan->faces[i + 1].runs_up);
    }
}

static void test_wedges(void **state) {
    (void)state;
    uint64_t rng = 5;
    for (int round = 0; round < 2000; round++) {
        double pose[12];
        shape_pose_random(&rng, round % 2 ? 100 : 1, pose);
        struct fan fan = begin(pose, round / 2 % 2);
        const uint32_t n = (uint32_t)(shape_random(&rng) % 12 + 1);
        const double start = shape_uniform(&rng, 0, 1);
        for (uint32_t w = 0; w < n; w++) { /* from w to w + 0.6 n-ths of a turn; one of them may be alone */
            add_face(&fan, pose, start + (double)w / n, false, w);
            add_face(&fan, pose, start + (w + 0.6) / n, true, w);
        }
        shuffle(&fan, &rng);
        assert_paired(&fan);
    }
}

static void test_overlaps(void **state) { /* a wedge in a wedge in a wedge, and one beside them */
    (void)state;
    uint64_t rng = 7;
    for (int round = 0; round < 500; round++) {
        double pose[12];
        shape_pose_random(&rng, 1, pose);
        struct fan fan = begin(pose, round % 2);
        const double start = shape_uniform(&rng, 0, 1);
        for (uint32_t w = 0; w < 3; w++) {
            add_face(&fan, pose, start + 0.05 * w, false, w);
            add_face(&fan, pose, start + 0.5 - 0.05 * w, true, w);
        }
        add_face(&fan, pose, start + 0.6, false, 3);
        add_face(&fan, pose, start + 0.9, true, 3);
        shuffle(&fan, &rng);
        assert_paired(&fan);
    }
}

/* Quarters of a turn that touch in faces, whose third vertices lie at one place, or are one. */
static void test_coincident(void **state) {
    (void)state;
    uint64_t rng = 11;
    for (int round = 0; round < 400; round++) {
        double pose[12];
        shape_pose_identity(pose);
        struct fan fan = begin(pose, round % 2);
        const uint32_t n = round / 2 % 2 ? 4 : 3; /* all around, or not */
        for (uint32_t w = 0; w < n; w++) {
            add_face(&fan, pose, 0.25 * w, false, w);
            add_face(&fan, pose, 0.25 * ((w + 1) % 4), true, w);
        }
        for (size_t i = 0; i < fan.n && round / 4 % 2; i++) /* the same vertex for both */
            for (size_t k = 0; k < i; k++)
                if (memcmp(fan.positions[fan.faces[i].apex], fan.positions[fan.faces[k].apex], 12) == 0)
                    fan.faces[i].apex = fan.faces[k].apex;
        shuffle(&fan, &rng);
        assert_paired(&fan);
    }
}

static void test_refused(void **state) {
    (void)state;
    double pose[12];
    shape_pose_identity(pose);
    struct fan fan = begin(pose, false);
    add_face(&fan, pose, 0, false, 0);
    add_face(&fan, pose, 0.25, true, 0);
    add_face(&fan, pose, 0.5, true, 1);
    assert_int_equal(pair(&fan), CT_EDGE_UNBALANCED);
    add_face(&fan, pose, 0.75, true, 1);
    assert_int_equal(pair(&fan), CT_EDGE_UNBALANCED);
    fan.n = 2;
    add_face(&fan, pose, 0.5, false, 1);
    add_face(&fan, pose, 0.25, true, 1);
    fan.faces[3].apex = fan.faces[1].apex;
    for (size_t i = 0; i < 4; i++) fan.faces[i].id = 0;
    assert_int_equal(pair(&fan), CT_EDGE_DOUBLED);
}

/* A box and its copies that share edges or faces with it: each half-edge's opposite is of the same box. */
static void test_adjacency(void **state) {
    (void)state;
    static const double offsets[2][3] = {{1, 1, 0}, {1, 0, 0}};
    for (int i = 0; i < 2; i++) {
        struct shape boxes[2] = {shape_box(1, 1, 1), shape_box(1, 1, 1)};
        shape_translate(&boxes[1], offsets[i][0], offsets[i][1], offsets[i][2]);
        struct shape both = shape_merge(&boxes[0], &boxes[1]);
        for (uint32_t k = 0; k < 3 * both.n_triangles; k++) /* welded */
            for (uint32_t v = 0; v < both.triangles[k]; v++)
                if (memcmp(both.positions + 3 * v, both.positions + 3 * both.triangles[k], 12) == 0)
                    both.triangles[k] = v;
        ct_error error = {0};
        ct_mesh *mesh = shape_to_mesh(&both, &error);
        if (!mesh) fail_msg("%s", error.message);
        ct_mesh_info info;
        ct_mesh_get_info(mesh, &info);
        assert_true(fabs(info.volume - 2) < 1e-14);
        assert_int_equal(info.shells, 2);
        const ct_adjacency *a = ct_mesh_adjacency(mesh, &error);
        assert_non_null(a);
        for (uint32_t h = 0; h < 3 * mesh->n_triangles; h++) {
            const uint32_t opposite = ct_half_edge_opposite(a, h);
            assert_int_equal(ct_half_edge_opposite(a, opposite), h);
            double middle[2] = {0, 0}; /* of the triangles along x: in one box or the other */
            for (int s = 0; s < 2; s++)
                for (uint32_t c = 0; c < 3; c++)
                    middle[s] += (double)mesh->positions[3 * mesh->triangles[(s ? opposite : h) / 3 * 3 + c]] / 3;
            if (fabs(middle[0] - 0.5) > 1e-6 && fabs(middle[1] - 0.5) > 1e-6)
                assert_int_equal(middle[0] > 0.5, middle[1] > 0.5);
        }
        ct_mesh_release(&mesh);
        for (int b = 0; b < 2; b++) shape_free(&boxes[b]);
        shape_free(&both);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wedges),  cmocka_unit_test(test_overlaps),  cmocka_unit_test(test_coincident),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_adjacency),
    };
    return cmocka_run_group_tests_name("edge pairs", tests, NULL, NULL);
}
