/* The large-triangle path against the raster and span stages one after the other: every sum, length and count. */
#include "tests/unit/raster/cast.h"

#include "gpu/methods/ldi/span_cpu.h"

static const ct_span_cpu *const spans[] = {&ct_span_cpu_base,
#ifdef __x86_64__
                                           &ct_span_cpu_avx2
#endif
};

enum { VERTICES = 512 };

struct outcome {
    int64_t gradient[2][3][VERTICES], length[3];
    uint8_t touched[2][VERTICES / CT_VERTEX_GROUP + 8];
    uint64_t fragments, large, bins;
};

static int32_t between(uint64_t *rng, int64_t lo, int64_t hi) {
    return (int32_t)(lo + (int64_t)(shape_random(rng) % (uint64_t)(hi - lo + 1)));
}

/* All bins; with `large` by the large-triangle path where it applies. With `crossings` it does not apply to bins that
 * small triangles cover. */
static void run(int set, const ct_window *window, struct cast_body bodies[2], uint32_t first, bool large,
                bool crossings, struct outcome *out) {
    memset(out, 0, sizeof *out);
    ct_budget budget = {.limit = 0};
    ct_binned_tile tiles[3];
    const ct_bin_plan plan = ct_bin_plan_views(window, 4096, first ? 32 : 8192, tiles);
    ct_snapped_body snapped[2];
    ct_binned_chunk chunks[2];
    ct_bin_scratch binning;
    memset(chunks, 0, sizeof chunks);
    memset(&binning, 0, sizeof binning);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t b = first ? 1 - i : i;
        const struct shape *s = &bodies[b].shape;
        cast_fill_cells(window, &bodies[b]);
        snapped[b] = (ct_snapped_body){.coords = (const ct_coords *)bodies[b].coords,
                                       .cells = bodies[b].cells,
                                       .triangles = s->triangles,
                                       .n_triangles = s->n_triangles,
                                       .body = b};
        for (int w = 0; w < 3; w++) snapped[b].initial[w] = (uint8_t)cast_initial(&bodies[b], w);
        assert_true(cast_sets[set].bin->cull(&binning, &budget, &snapped[b], &(ct_triangle_run){0, s->n_triangles}, 1));
        assert_true(cast_sets[set].bin->bin(&chunks[i], &binning, &budget, &snapped[b], window, &plan, crossings));
    }
    const ct_span_options options = {.triangles = {bodies[0].shape.triangles, bodies[1].shape.triangles}};
    double rastered_at;
    ct_contact_sums sums = {.touched = {out->touched[0], out->touched[1]}};
    for (int b = 0; b < 2; b++)
        for (int w = 0; w < 3; w++) sums.gradient[b][w] = out->gradient[b][w];
    ct_ray_lists rays;
    ct_span_scratch scratch;
    memset(&rays, 0, sizeof rays);
    memset(&scratch, 0, sizeof scratch);
    for (uint32_t bin = 0; bin < plan.n_bins; bin++) {
        ct_large_status done = CT_LARGE_NOT_APPLICABLE;
        if (large)
            done = spans[set]->large_triangles(&rays, window, &plan, bin, chunks, 2, &options, &sums, &scratch, &budget,
                                               &rastered_at);
        assert_true(done != CT_LARGE_FAILED);
        if (done == CT_LARGE_NOT_APPLICABLE) {
            assert_true(cast_sets[set].raster->raster(&rays, &budget, window, &plan, bin, chunks, 2));
            assert_true(spans[set]->span(&rays, &options, &sums, &scratch, &budget));
        }
        out->large += done == CT_LARGE_DONE;
        out->bins++;
        out->fragments += rays.n_fragments;
    }
    memcpy(out->length, sums.length, sizeof out->length);
    for (int i = 0; i < 2; i++) ct_binned_chunk_free(&chunks[i], &budget);
    ct_bin_scratch_free(&binning, &budget);
    ct_buffer_free(&rays.head_memory, &budget);
    ct_buffer_free(&rays.winding_memory, &budget);
    ct_buffer_free(&rays.fragment_memory, &budget);
    ct_buffer_free(&scratch.ray, &budget);
    ct_buffer_free(&scratch.covers, &budget);
    assert_int_equal(budget.used, 0);
}

static struct shape any_shape(uint64_t *rng) {
    switch (shape_random(rng) % 5) {
    case 0:
        return shape_tetrahedron(1);
    case 1:
        return shape_cube(1, 1 + between(rng, 0, 1));
    case 2:
        return shape_torus(1, 0.3, 3 + between(rng, 0, 1), 3);
    case 3:
        return shape_icosphere(1, 0);
    default:
        return shape_l_prism(1, 1);
    }
}

/* Vertices where ties are likely, anywhere in the window, far beyond it; or the shape as it is, turned by half a window
 * at most. */
static void scatter(uint64_t *rng, const ct_window *window, struct cast_body *body, int kind) {
    double shift[3], size = 0.2 + 0.6 * shape_uniform(rng, 0, 1);
    for (int k = 0; k < 3; k++) shift[k] = shape_uniform(rng, 0.2, 0.8);
    for (uint32_t v = 0; v < body->shape.n_vertices; v++)
        for (int k = 0; k < 3; k++) {
            const ct_lattice *a = &window->axis[k];
            int64_t half = 1 << (a->shift - 1), n = a->n, q;
            if (kind == 0)
                q = half * between(rng, -1, 2 * n + 1);
            else if (kind == 1)
                q = between(rng, 0, 2 * n * half);
            else if (kind == 2)
                q = between(rng, -(1 << 28), 1 << 28);
            else
                q = (int64_t)((shift[k] + size * (double)body->shape.positions[3 * v + (uint32_t)k]) * 2 *
                              (double)(n * half));
            if (q > 1 << 28) q = 1 << 28;
            if (q < -(1 << 28)) q = -(1 << 28);
            body->coords[v][k] = (int32_t)q;
        }
}

/* Sets the window's depths to the overlap of both bodies, as ct_view_plan does. False: they do not overlap on some
 * axis. */
static bool meet(ct_window *window, const struct cast_body bodies[2]) {
    for (int k = 0; k < 3; k++) {
        int32_t lo[2], hi[2];
        for (int b = 0; b < 2; b++) {
            lo[b] = hi[b] = bodies[b].coords[0][k];
            for (uint32_t v = 1; v < bodies[b].shape.n_vertices; v++) {
                int32_t q = bodies[b].coords[v][k];
                if (q < lo[b]) lo[b] = q;
                if (q > hi[b]) hi[b] = q;
            }
        }
        window->axis[k].lo = lo[0] > lo[1] ? lo[0] : lo[1];
        window->axis[k].hi = hi[0] < hi[1] ? hi[0] : hi[1];
        if (window->axis[k].lo > window->axis[k].hi) return false;
    }
    return true;
}

/* Every instruction set's large bins against the stages. Returns what came of the last. */
static const struct outcome *compare(const ct_window *window, struct cast_body bodies[2], uint32_t first) {
    static struct outcome expected, got;
    run(0, window, bodies, first, false, true, &expected);
    for (int how = 0; how < 2 * cast_n_sets(); how++) {
        run(how / 2, window, bodies, first, true, how % 2 == 0, &got);
        assert_memory_equal(got.gradient, expected.gradient, sizeof got.gradient);
        assert_memory_equal(got.length, expected.length, sizeof got.length);
        assert_int_equal(got.fragments, expected.fragments);
        for (int b = 0; b < 2; b++) /* vertices with a sum are marked, so that their sums are cleared later */
            for (int w = 0; w < 3; w++)
                for (uint32_t v = 0; v < VERTICES; v++)
                    if (got.gradient[b][w][v]) assert_int_equal(got.touched[b][v / CT_VERTEX_GROUP], 1);
    }
    return &got;
}

static void test_same_as_stages(void **state) {
    (void)state;
    uint64_t rng = 31, large = 0, bins = 0, fragments = 0;
    int64_t length = 0;
    for (int round = 0; round < 600; round++) {
        int32_t n[3], shift[3];
        for (int k = 0; k < 3; k++) {
            n[k] = between(&rng, 6, round % 4 ? 40 : 200);
            shift[k] = between(&rng, 1, 22);
        }
        ct_window window = cast_window(n, shift);
        struct cast_body bodies[2] = {cast_body_of(any_shape(&rng)), cast_body_of(any_shape(&rng))};
        for (int b = 0; b < 2; b++) {
            assert_true(bodies[b].shape.n_vertices <= VERTICES);
            scatter(&rng, &window, &bodies[b], round % 7 < 4 ? 3 : round % 3);
        }
        if (!meet(&window, bodies)) {
            for (int b = 0; b < 2; b++) cast_body_free(&bodies[b]);
            continue;
        }
        const struct outcome *got = compare(&window, bodies, (uint32_t)round % 2);
        large += got->large;
        bins += got->bins;
        fragments += got->fragments;
        for (int k = 0; k < 3; k++) length += got->length[k] > 0;
        for (int b = 0; b < 2; b++) cast_body_free(&bodies[b]);
    }
    print_message("%llu of %llu bins large, %llu fragments\n", (unsigned long long)large, (unsigned long long)bins,
                  (unsigned long long)fragments);
    assert_true(large > bins / 5 && large < bins);
    assert_true(fragments > 100000 && length > 600);
}

/* ---- boxes ---- */

/* A body's middle, and from there to the middle of three faces. */
struct box {
    int32_t middle[3], half[3][3];
};

static void put_box(struct cast_body *body, const struct box *box) {
    for (uint32_t v = 0; v < body->shape.n_vertices; v++)
        for (int k = 0; k < 3; k++) {
            int32_t q = box->middle[k];
            for (int i = 0; i < 3; i++)
                q += body->shape.positions[3 * v + (uint32_t)i] < 0 ? -box->half[i][k] : box->half[i][k];
            body->coords[v][k] = q;
        }
}

/* Compares the path with the stages on two boxes, in a window of `samples` samples along each axis, 2^shift units
 * apart, to whose bins the path applies. If `clips`, the window ends where the boxes do. Returns the length of their
 * spans. */
static int64_t compare_boxes(const struct box boxes[2], int32_t samples, int32_t shift, bool clips, uint32_t first) {
    const int32_t n[3] = {samples, samples, samples}, shifts[3] = {shift, shift, shift};
    ct_window window = cast_window(n, shifts);
    struct cast_body bodies[2];
    for (int b = 0; b < 2; b++) {
        bodies[b] = cast_body_of(shape_box(2, 2, 2));
        put_box(&bodies[b], &boxes[b]);
    }
    int64_t length = 0;
    if (!clips || meet(&window, bodies)) {
        const struct outcome *got = compare(&window, bodies, first);
        assert_true(got->large == got->bins || clips); /* else there may be what has to be counted before it */
        length = got->length[0] + got->length[1] + got->length[2];
    }
    for (int b = 0; b < 2; b++) cast_body_free(&bodies[b]);
    return length;
}

/* Faces in one plane, or some units apart, or that cross at so small an angle that their order is lost in rounding. */
static void test_close_faces(void **state) {
    (void)state;
    uint64_t rng = 33;
    int64_t length = 0;
    for (int round = 0; round < 300; round++) {
        struct box boxes[2] = {{{16 << 10, 16 << 10, 16 << 10}, {{10 << 10, 0, 0}, {0, 9 << 10, 0}, {0, 0, 8 << 10}}}};
        if (round % 3 == 0) /* in a plane that is none of the lattice's */
            for (int i = 0; i < 3; i++)
                for (int k = 0; k < 3; k++) boxes[0].half[i][k] += between(&rng, -2000, 2000);
        boxes[1] = boxes[0];
        for (int k = 0; k < 3; k++) {
            boxes[1].middle[k] += between(&rng, -4, 4);
            if (round % 4 == 1) boxes[1].middle[k] = boxes[0].middle[k] + between(&rng, -1, 1);
            if (round % 2 == 0)
                for (int i = 0; i < 3; i++) boxes[1].half[i][k] += between(&rng, -6, 6);
        }
        length += compare_boxes(boxes, 32, 10, false, (uint32_t)round % 2);
    }
    assert_true(length > INT64_C(300) * 3 * 16 * 16 * (12 << 10));
}

/* Upright boxes of several sizes, as in a stack: faces of both in one plane, from one side or from both, which then
 * share the bound. */
static void test_stacked_boxes(void **state) {
    (void)state;
    uint64_t rng = 36;
    int64_t length = 0;
    for (int round = 0; round < 200; round++) {
        struct box boxes[2];
        memset(boxes, 0, sizeof boxes);
        for (int k = 0; k < 3; k++) {
            const int kind = between(&rng, 0, 3); /* both faces in one plane, the lower, the upper, neither */
            for (int b = 0; b < 2; b++) {
                boxes[b].half[k][k] = between(&rng, 4 << 10, 8 << 10);
                if (b && kind == 0) boxes[1].half[k][k] = boxes[0].half[k][k];
                boxes[b].middle[k] = kind == 0   ? 16 << 10
                                     : kind == 1 ? (8 << 10) + boxes[b].half[k][k]
                                     : kind == 2 ? (24 << 10) - boxes[b].half[k][k]
                                                 : between(&rng, 14 << 10, 18 << 10);
            }
        }
        length += compare_boxes(boxes, 32, 10, round % 2, (uint32_t)round / 2 % 2) > 0;
    }
    assert_int_equal(length, 200);
    for (int round = 0; round < 12; round++) { /* all but in one plane: they meet at the first sample of each row */
        const int32_t tilt = round % 3 - 1;
        const struct box upright = {{12 << 10, 12 << 10, 16 << 10},
                                    {{12 << 10, 0, 0}, {0, 12 << 10, 0}, {0, 0, 8 << 10}}};
        struct box tilted = {{512 + (8 << 10), 12 << 10, tilt}, {{8 << 10, 0, tilt}, {0, 8 << 10, 0}, {0, 0, 4 << 10}}};
        tilted.middle[2] += round % 2 ? 12 << 10 : 20 << 10; /* its lower or upper faces */
        const struct box boxes[2] = {round / 6 ? tilted : upright, round / 6 ? upright : tilted};
        assert_true(compare_boxes(boxes, 32, 10, false, (uint32_t)round / 3 % 2) > 0);
    }
}

/* Rows along which the bounds change their order, bodies part, and the window cuts off what comes before it. */
static void test_crossing_boxes(void **state) {
    (void)state;
    uint64_t rng = 34;
    int64_t length = 0;
    for (int round = 0; round < 300; round++) {
        struct box boxes[2];
        int32_t shift = between(&rng, 6, 22), unit = 1 << shift, samples = between(&rng, 24, 45);
        for (int b = 0; b < 2; b++)
            for (int k = 0; k < 3; k++) {
                boxes[b].middle[k] = between(&rng, 10 * unit, 20 * unit);
                for (int i = 0; i < 3; i++)
                    boxes[b].half[i][k] =
                        i == k ? between(&rng, 3 * unit, 8 * unit) : between(&rng, -3 * unit, 3 * unit);
            }
        length += compare_boxes(boxes, samples, shift, round % 3 > 0, (uint32_t)round % 2) > 0;
    }
    assert_true(length > 150);
}

/* Faces that are all but edge-on, a few units wide around samples: where one lies in depth is not known in advance. */
static void test_steep_faces(void **state) {
    (void)state;
    uint64_t rng = 35;
    int64_t length = 0;
    for (int round = 0; round < 300; round++) {
        struct box boxes[2];
        int32_t shift = round % 2 ? 22 : 12, half = 1 << (shift - 1), wide = round % 4 < 2 ? 2 : 40;
        for (int b = 0; b < 2; b++)
            for (int k = 0; k < 3; k++) {
                boxes[b].middle[k] = half * between(&rng, 24, 40);
                for (int i = 0; i < 3; i++)
                    boxes[b].half[i][k] = i == k ? half * between(&rng, 8, 18) : between(&rng, -wide, wide);
            }
        length += compare_boxes(boxes, 32, shift, false, (uint32_t)round % 2) > 0;
    }
    assert_true(length > 200);
}

/* A fine mesh is left to the other stages, and so is one that has to be counted before the window. */
static void test_does_not_apply(void **state) {
    (void)state;
    const int32_t n[3] = {32, 32, 32}, shift[3] = {10, 10, 10};
    ct_window window = cast_window(n, shift);
    uint64_t rng = 32;
    static struct outcome out;
    struct cast_body fine[2] = {cast_body_of(shape_icosphere(1, 2)), cast_body_of(shape_cube(1, 1))};
    for (int b = 0; b < 2; b++) scatter(&rng, &window, &fine[b], 3);
    run(0, &window, fine, 0, true, false, &out);
    assert_int_equal(out.large, 0);
    struct cast_body long_one[2] = {cast_body_of(shape_cube(1, 1)), cast_body_of(shape_cube(1, 1))};
    for (int b = 0; b < 2; b++) scatter(&rng, &window, &long_one[b], 3);
    run(0, &window, long_one, 0, true, false, &out);
    assert_int_equal(out.large, 3);
    for (uint32_t v = 0; v < long_one[0].shape.n_vertices; v++) /* from before the window to behind it, along x */
        long_one[0].coords[v][0] = long_one[0].shape.positions[3 * v] < 0 ? -5000 : 40000;
    window.axis[0].lo = 0;
    window.axis[0].hi = 32 << 10;
    run(0, &window, long_one, 0, true, false, &out);
    assert_int_equal(out.large, 2);
    const struct box huge = {{0, 0, 0}, {{1 << 27, 0, 1 << 26}, {0, 1 << 27, 0}, {1 << 26, 0, 1 << 27}}};
    const int32_t fine_shift[3] = {1, 1, 1}; /* edge functions too large to be stepped exactly in double */
    window = cast_window(n, fine_shift);
    for (int b = 0; b < 2; b++) put_box(&long_one[b], &huge);
    run(0, &window, long_one, 0, true, false, &out);
    assert_int_equal(out.large, 0);
    compare(&window, long_one, 0);
    for (int b = 0; b < 2; b++) {
        cast_body_free(&fine[b]);
        cast_body_free(&long_one[b]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_as_stages), cmocka_unit_test(test_close_faces),
                                       cmocka_unit_test(test_stacked_boxes),  cmocka_unit_test(test_crossing_boxes),
                                       cmocka_unit_test(test_steep_faces),    cmocka_unit_test(test_does_not_apply)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
