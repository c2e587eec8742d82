/* hostile.c - meshes that make steps long. */
#include "tests/scenes/hostile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/build.h"
#include "tests/scenes/hostile_parts.h"

const char *hostile_name(hostile_kind kind) {
    static const char *const names[] = {
#define NAME(kind, name) name,
        HOSTILE_MAP(NAME)
#undef NAME
    };
    return (size_t)kind < HOSTILE_KINDS ? names[kind] : "unknown";
}

hostile_kind hostile_find(const char *name) {
    hostile_kind kind = 0;
    while (kind < HOSTILE_KINDS && strcmp(hostile_name(kind), name) != 0) kind++;
    return kind;
}

uint64_t hostile_bytes(const struct shape *shape) {
    return 12 * ((uint64_t)shape->n_vertices + shape->n_triangles);
}

/* How many parts of so many triangles there may be. */
static uint32_t parts(uint32_t triangles, uint32_t each) {
    return triangles < each ? 1 : triangles / each;
}

/* The largest n >= 1 with n^power <= count. */
static uint32_t root_of(uint32_t count, int power) {
    uint32_t n = 1;
    for (;; n++) {
        uint64_t product = 1;
        for (int i = 0; i < power; i++) product *= n + 1;
        if (product > count) return n;
    }
}

/* ---- many tetrahedra ---- */

static const double diagonal[3] = {0.57735026918962573, 0.57735026918962573, 0.57735026918962573};

/* A spike from a tip along `along` (of any length) to a triangle of radius r around its end. */
static void spike_corners(const double tip[3], const double along[3], double r, double corners[4][3]) {
    double u[3], w[3];
    vectors_across(along, u, w);
    for (int k = 0; k < 3; k++) {
        const double end = tip[k] + along[k];
        corners[0][k] = tip[k];
        corners[1][k] = end + r * u[k];
        corners[2][k] = end - r * 0.5 * u[k] + r * 0.8 * w[k];
        corners[3][k] = end - r * 0.5 * u[k] - r * 0.8 * w[k];
    }
}

static struct shape make_needles(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    const uint32_t n = parts(triangles, 4), side = root_of(n, 2);
    struct shape shape = shape_begin(4 * (uint64_t)n, 4 * (uint64_t)n);
    double u[3], w[3];
    vectors_across(diagonal, u, w);
    const double gap = 0.2 / side;
    for (uint32_t i = 0; i < n; i++) {
        double tip[3], corners[4][3];
        for (int k = 0; k < 3; k++)
            tip[k] = gap * (i % side + 0.5 * variant - side / 2.0) * u[k] +
                     gap * (i / side + 0.5 * variant - side / 2.0) * w[k] - diagonal[k] / 2;
        spike_corners(tip, diagonal, 0.2 * gap, corners);
        add_tetrahedron(&shape, corners);
    }
    return shape;
}

static void random_direction(uint64_t *seed, double direction[3]) {
    double length;
    do {
        length = 0;
        for (int k = 0; k < 3; k++) {
            direction[k] = shape_uniform(seed, -1, 1);
            length += direction[k] * direction[k];
        }
    } while (length > 1 || length < 0.01);
    for (int k = 0; k < 3; k++) direction[k] /= sqrt(length);
}

static struct shape make_star(uint32_t triangles, int variant, uint64_t seed) {
    const uint32_t n = parts(triangles, 4);
    struct shape shape = shape_begin(3 * (uint64_t)n + 1, 4 * (uint64_t)n);
    const uint32_t middle = shape_add_vertex(&shape, 0, 0, 0);
    for (uint32_t i = 0; i < n; i++) {
        double along[3], corners[4][3];
        random_direction(&seed, along);
        if (variant) along[1] = -along[1];
        spike_corners((const double[3]){0, 0, 0}, along, 0.02, corners);
        uint32_t v[4] = {middle};
        for (int c = 1; c < 4; c++) v[c] = shape_add_vertex(&shape, corners[c][0], corners[c][1], corners[c][2]);
        add_tetrahedron_of(&shape, v);
    }
    return shape;
}

static struct shape make_comb(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    const uint32_t n = parts(triangles, 4);
    struct shape shape = shape_begin(4 * (uint64_t)n, 4 * (uint64_t)n);
    const int axis = variant, other = 1 - variant;
    for (uint32_t i = 0; i < n; i++) {
        double corners[4][3] = {{0}};
        for (int c = 0; c < 4; c++) {
            corners[c][axis] = c < 3 ? -0.6 : 0.6;
            corners[c][other] = (i + 0.5) / n - 0.5;
            corners[c][2] = 0.01 * variant;
        }
        corners[0][other] += 0.3 / n, corners[1][other] -= 0.3 / n;
        corners[0][2] -= 0.02, corners[1][2] -= 0.02, corners[2][2] += 0.04, corners[3][2] += 0.001;
        add_tetrahedron(&shape, corners);
    }
    return shape;
}

static struct shape make_brush(uint32_t triangles, int variant, uint64_t seed) {
    if (variant) {
        struct shape plate = shape_begin(8, 12);
        add_box(&plate, (const double[3]){-1, -1, -0.1}, (const double[3]){1, 1, 0.1}, false);
        return plate;
    }
    const uint32_t n = parts(triangles, 4), side = root_of(n, 2);
    struct shape shape = shape_begin(4 * (uint64_t)n, 4 * (uint64_t)n);
    const double gap = 1.0 / side;
    for (uint32_t i = 0; i < n; i++) {
        const double tip[3] = {gap * (i % side) - 0.5, gap * (i / side) - 0.5, -0.5};
        const double along[3] = {gap * shape_uniform(&seed, -0.2, 0.2), gap * shape_uniform(&seed, -0.2, 0.2), 1};
        double corners[4][3];
        spike_corners(tip, along, 0.2 * gap, corners);
        add_tetrahedron(&shape, corners);
    }
    return shape;
}

/* ---- many boxes ---- */

/* The middle thirds that the Cantor set leaves out, the largest first. */
static struct shape make_cantor(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    const uint32_t n = parts(triangles, 12);
    struct shape shape = shape_begin(8 * (uint64_t)n, 12 * (uint64_t)n);
    double width = 1.0 / 3;
    for (uint32_t level = 0, made = 0; made < n; level++) {
        for (uint32_t i = 0; i < 1u << level && made < n; i++, made++) {
            double at = 0, step = 1.0 / 3;
            for (uint32_t bit = level; bit > 0; bit--) {
                if (i >> (bit - 1) & 1) at += 2 * step;
                step /= 3;
            }
            double lo[3] = {-0.6, -0.6, -0.05 + 0.01 * variant}, hi[3] = {0.6, 0.6, 0.05 + 0.02 * variant};
            lo[!variant] = at + width - 0.5, hi[!variant] = at + 2 * width - 0.5;
            add_box(&shape, lo, hi, false);
        }
        width /= 3;
    }
    return shape;
}

static struct shape make_checkerboard(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    const uint32_t n = parts(triangles, 12), side = root_of(n, 2);
    struct shape shape = shape_begin(8 * (uint64_t)side * side, 12 * (uint64_t)side * side);
    for (uint32_t y = 0; y < side; y++)
        for (uint32_t i = 0; i < side; i++) {
            const double x = 2.0 * i + y % 2, z = 0.5 * variant, cell = 1.0 / side;
            add_box(&shape, (const double[3]){cell * x - 1, cell * y - 0.5, cell * z},
                    (const double[3]){cell * (x + 1) - 1, cell * (y + 1) - 0.5, cell * (z + 1)}, false);
        }
    return shape;
}

static struct shape make_layers(uint32_t triangles, int variant, uint64_t seed) {
    (void)variant, (void)seed;
    const uint32_t n = parts(triangles, 12);
    struct shape shape = shape_begin(8 * (uint64_t)n, 12 * (uint64_t)n);
    for (uint32_t i = 0; i < n; i++) add_box(&shape, (const double[3]){0, 0, 0}, (const double[3]){1, 1, 0.125}, false);
    return shape;
}

static struct shape make_shells(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    const uint32_t n = parts(triangles, 12);
    struct shape shape = shape_begin(8 * (uint64_t)n, 12 * (uint64_t)n);
    for (uint32_t i = 0; i < n; i++) {
        const double half = 0.5 - 0.45 * i / n, x = 0.3 * variant / n;
        add_box(&shape, (const double[3]){x - half, x - half, -half}, (const double[3]){x + half, x + half, half},
                i % 3 == 2);
    }
    return shape;
}

static void random_cube(struct shape *shape, double reach, double height, double side, bool is_inverted,
                        uint64_t *seed) {
    double lo[3], hi[3];
    for (int k = 0; k < 3; k++) {
        const double far = k < 2 ? reach : height;
        lo[k] = shape_uniform(seed, -far, far), hi[k] = lo[k] + side;
    }
    add_box(shape, lo, hi, is_inverted);
}

static struct shape make_inside_out(uint32_t triangles, int variant, uint64_t seed) {
    const uint32_t n = parts(triangles, 12);
    struct shape shape = shape_begin(8 * (uint64_t)n, 12 * (uint64_t)n);
    seed += (uint64_t)variant;
    add_box(&shape, (const double[3]){-0.5, -0.5, -0.5}, (const double[3]){0.5, 0.5, 0.5}, false);
    /* Cavities apart from each other, one in a cell of the large box, and solids anywhere, in cavities too. */
    const uint32_t along = root_of(n, 3) + 1;
    const double cell = 1.0 / along, side = 0.5 * cell;
    for (uint32_t i = 1; i < n; i++) {
        if (i % 2 == 0) {
            random_cube(&shape, 0.7, 0.7, side, false, &seed);
            continue;
        }
        double lo[3], hi[3];
        const uint32_t at[3] = {i / 2 % along, i / 2 / along % along, i / 2 / along / along};
        for (int k = 0; k < 3; k++) {
            lo[k] = cell * at[k] - 0.5 + shape_uniform(&seed, 0.01 * cell, 0.49 * cell);
            hi[k] = lo[k] + side;
        }
        add_box(&shape, lo, hi, true);
    }
    return shape;
}

static struct shape make_cloud(uint32_t triangles, int variant, uint64_t seed) {
    const uint32_t n = variant ? 1 : parts(triangles, 12);
    struct shape shape = shape_begin(8 * (uint64_t)n, 12 * (uint64_t)n);
    if (variant) add_box(&shape, (const double[3]){-1, -1, -0.1}, (const double[3]){1, 1, 0.1}, false);
    const double side = 0.5 / root_of(n, 2);
    for (uint32_t i = 0; i < n && !variant; i++) random_cube(&shape, 0.9, 0.15, side, false, &seed);
    return shape;
}

static struct shape make_specks(uint32_t triangles, int variant, uint64_t seed) {
    const uint32_t n = parts(triangles, 12);
    struct shape shape = shape_begin(8 * (uint64_t)n, 12 * (uint64_t)n);
    seed += (uint64_t)variant;
    add_box(&shape, (const double[3]){-1, -1, -1}, (const double[3]){-0.5, 1, 1}, false);
    for (uint32_t i = 1; i < n; i++) random_cube(&shape, 0x1p-22, 0x1p-22, 0x1p-23, false, &seed);
    return shape;
}

static struct shape make_permutohedra(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    /* Half as many again would still fit where not all cells of the lattice are taken. */
    const uint32_t n = parts(triangles, PERMUTOHEDRON_TRIANGLES), side = root_of((n + 1) / 2, 3);
    const uint64_t most = 2 * (uint64_t)side * side * side;
    struct shape shape = shape_begin(PERMUTOHEDRON_VERTICES * most, PERMUTOHEDRON_TRIANGLES * most);
    const double cell = 1.0 / side;
    uint32_t made = 0;
    for (uint32_t i = 0; i < side * side * side; i++)
        for (int half = 0; half < 2 && made < n; half++, made++) {
            const double aside = 0.5 * half + 0.25 * variant - 0.5 * side;
            add_permutohedron(&shape,
                              (const double[3]){cell * (i % side + aside), cell * (i / side % side + aside),
                                                cell * (i / side / side + aside)},
                              cell);
        }
    return shape;
}

/* ---- connected surfaces ---- */

static struct shape make_fan(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    const uint32_t n = triangles < 6 ? 3 : triangles / 2;
    struct shape shape = shape_begin((uint64_t)n + 2, 2 * (uint64_t)n);
    for (int end = -1; end <= 1; end += 2) shape_add_vertex(&shape, 0, 0, 0.5 * end);
    for (uint32_t i = 0; i < n; i++) {
        double c, s;
        shape_turn((i + 0.5 * variant) / n, &c, &s);
        shape_add_vertex(&shape, 0.5 * c, 0.5 * s, 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t a = 2 + i, b = 2 + (i + 1) % n;
        shape_add_triangle(&shape, 1, a, b);
        shape_add_triangle(&shape, 0, b, a);
    }
    return shape;
}

static int level_of_ball(uint32_t triangles) {
    int level = 0;
    while (level < 8 && 20u << (2 * (level + 1)) <= triangles) level++;
    return level;
}

static struct shape make_crumpled(uint32_t triangles, int variant, uint64_t seed) {
    struct shape shape = shape_icosphere(1, level_of_ball(triangles));
    seed += (uint64_t)variant;
    for (size_t i = 0; i < 3 * (size_t)shape.n_vertices; i++)
        shape.positions[i] = (float)shape_uniform(&seed, -0.5, 0.5);
    if (shape_volume(&shape) < 0) turn_inside_out(&shape);
    return shape;
}

static struct shape make_ball(uint32_t triangles, int variant, uint64_t seed) {
    (void)variant;
    return shape_blob(0.5, level_of_ball(triangles), 0.3, seed);
}

/* Edges AB and CD of a tetrahedron have n vertices each; its four faces are fans. */
static struct shape make_slivers(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    const uint32_t n = triangles < 8 ? 1 : triangles / 4;
    struct shape shape = shape_begin(2 * ((uint64_t)n + 1), 4 * (uint64_t)n);
    for (int edge = 0; edge < 2; edge++)
        for (uint32_t i = 0; i <= n; i++) {
            const double along = 1.0 * i / n - 0.5, at = edge ? 0.5 : -0.5;
            if (edge != variant)
                shape_add_vertex(&shape, along, 0, at);
            else
                shape_add_vertex(&shape, 0, along, at);
        }
    const uint32_t first[2] = {0, n + 1};
    for (int edge = 0; edge < 2; edge++)
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t a = first[edge] + i, c = first[!edge], d = c + n;
            shape_add_triangle(&shape, a, a + 1, c);
            shape_add_triangle(&shape, a + 1, a, d);
        }
    if (shape_volume(&shape) < 0) turn_inside_out(&shape);
    return shape;
}

static struct shape make_spiral(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    const uint32_t n = triangles < 40 ? 4 : (triangles - 4) / 8 + 1;
    const double turns = n < 64 ? 1 : n / 32.0;
    struct shape shape = shape_begin(4 * (uint64_t)n, 8 * (uint64_t)n + 4);
    for (uint32_t i = 0; i < n; i++) {
        const double turn = turns * i / (n - 1), gap = 0.4 / turns, radius = 0.1 + gap * (turn + 0.5 * variant);
        double c, s;
        shape_turn(turn - floor(turn), &c, &s);
        for (int corner = 0; corner < 4; corner++) {
            const double r = radius + gap * (corner == 1 || corner == 2 ? 0.15 : -0.15);
            shape_add_vertex(&shape, r * c, r * s, corner < 2 ? -0.5 : 0.5);
        }
    }
    close_tube(&shape, n, 4, false);
    if (shape_volume(&shape) < 0) turn_inside_out(&shape);
    return shape;
}

static struct shape make_knot(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    enum { AROUND = 6 };
    const uint32_t n = triangles < 2 * AROUND * 8 ? 8 : triangles / (2 * AROUND), windings = 2 + root_of(n, 2) / 4;
    struct shape shape = shape_begin(AROUND * (uint64_t)n, 2 * AROUND * (uint64_t)n);
    for (uint32_t i = 0; i < n; i++) {
        double c, s, c2, s2;
        const double turn = 1.0 * windings * i / n, other = (windings + 1.0) * i / n + 0.25 * variant;
        shape_turn(turn - floor(turn), &c, &s);
        shape_turn(other - floor(other), &c2, &s2);
        for (int j = 0; j < AROUND; j++) {
            double ca, sa;
            shape_turn(1.0 * j / AROUND, &ca, &sa);
            const double r = 0.5 + 0.2 * c2 + 0.05 * ca;
            shape_add_vertex(&shape, r * c, r * s, 0.2 * s2 + 0.05 * sa);
        }
    }
    close_tube(&shape, n, AROUND, true);
    if (shape_volume(&shape) < 0) turn_inside_out(&shape);
    return shape;
}

static struct shape make_sheet(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    const uint32_t side = root_of(parts(triangles, 4), 2) < 4 ? 4 : root_of(parts(triangles, 4), 2);
    struct shape shape = shape_slab(1, 0.2, 0.1, 3 + variant, (int)side - 2);
    const uint32_t half = shape.n_vertices / 2; /* the top's, then the bottom's in the same order */
    for (uint32_t v = 0; v < half; v++) {
        const float *top = shape.positions + 3 * (size_t)v;
        float *bottom = shape.positions + 3 * (size_t)(v + half);
        memcpy(bottom, top, 3 * sizeof *top);
        if (v == half / 2) bottom[2] -= 0.25F;
    }
    return shape;
}

/* Each tooth is a prism's part: two upper faces, a lower one, and the ends. */
static struct shape make_saw(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    const uint32_t n = triangles < 20 ? 1 : (triangles - 4) / 16, columns = 2 * n + 1;
    struct shape shape = shape_begin(4 * (uint64_t)columns, 16 * (uint64_t)n + 4);
    const int along = variant, across = 1 - variant;
    for (uint32_t i = 0; i < columns; i++)
        for (int corner = 0; corner < 4; corner++) { /* around: two below, two above */
            double p[3];
            p[along] = corner == 1 || corner == 2 ? 0.6 : -0.6;
            p[across] = 1.0 * i / (columns - 1) - 0.5;
            p[2] = corner < 2 ? -0.2 : i % 2 ? 0.1 : -0.1;
            if (variant) p[2] = -p[2];
            shape_add_vertex(&shape, p[0], p[1], p[2]);
        }
    close_tube(&shape, columns, 4, false);
    if (shape_volume(&shape) < 0) turn_inside_out(&shape);
    return shape;
}

static struct shape make_sponge(uint32_t triangles, int variant, uint64_t seed) {
    (void)seed;
    int level = 1;
    while (level < 4 && sponge_triangles(level + 1) <= triangles) level++;
    struct shape shape = make_menger_sponge(level);
    double hole = 0.5;
    for (int i = 0; i < level; i++) hole /= 3;
    if (variant) shape_translate(&shape, hole, hole, hole);
    return shape;
}

static struct shape make_mixture(uint32_t triangles, int variant, uint64_t seed) {
    enum { PARTS = 4 };
    struct shape shape = {0};
    seed += (uint64_t)variant << 32;
    for (int i = 0; i < PARTS; i++) {
        const hostile_kind kind = (hostile_kind)(shape_random(&seed) % HOSTILE_MIXTURE);
        struct shape part = hostile_shape(kind, triangles / PARTS, (int)(shape_random(&seed) % 2), seed);
        double pose[12];
        shape_pose_random(&seed, 0.2, pose);
        if (shape_random(&seed) % 2) shape_transform(&part, pose);
        if (i == 0) {
            shape = part;
            continue;
        }
        struct shape both = shape_merge(&shape, &part);
        shape_free(&shape), shape_free(&part);
        shape = both;
    }
    return shape;
}

struct shape hostile_shape(hostile_kind kind, uint32_t triangles, int variant, uint64_t seed) {
    static struct shape (*const makers[])(uint32_t, int, uint64_t) = {
        [HOSTILE_NEEDLES] = make_needles,
        [HOSTILE_STAR] = make_star,
        [HOSTILE_FAN] = make_fan,
        [HOSTILE_COMB] = make_comb,
        [HOSTILE_CANTOR] = make_cantor,
        [HOSTILE_BRUSH] = make_brush,
        [HOSTILE_CHECKERBOARD] = make_checkerboard,
        [HOSTILE_LAYERS] = make_layers,
        [HOSTILE_SHELLS] = make_shells,
        [HOSTILE_SPONGE] = make_sponge,
        [HOSTILE_PERMUTOHEDRA] = make_permutohedra,
        [HOSTILE_CRUMPLED] = make_crumpled,
        [HOSTILE_SLIVERS] = make_slivers,
        [HOSTILE_SPIRAL] = make_spiral,
        [HOSTILE_KNOT] = make_knot,
        [HOSTILE_INSIDE_OUT] = make_inside_out,
        [HOSTILE_CLOUD] = make_cloud,
        [HOSTILE_SHEET] = make_sheet,
        [HOSTILE_SPECKS] = make_specks,
        [HOSTILE_SAW] = make_saw,
        [HOSTILE_BALL] = make_ball,
        [HOSTILE_MIXTURE] = make_mixture,
    };
    return makers[kind](triangles, variant, seed);
}
