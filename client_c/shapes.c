/* shapes.c - meshes of shapes, and bodies of them. client_py/contactd/shapes.py makes the same vertices and triangles in
 * the same order, so that both clients share one mesh on a server, and has the reasons. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/meshes.h"

#define DEVIATION 0.85 /* how far a sphere of radius 1 is from its mesh of 8 f^2 triangles, at most, times f^2 */
#define ROUNDING  0x1p-23
static const double PI = 3.14159265358979323846;

/* ---- triangles ---- */

typedef struct ctc_surface {
    double *positions;   /* [n_vertices][3] */
    uint32_t *triangles; /* [n_triangles][3] */
    size_t n_vertices, n_triangles;
} ctc_surface;

static bool make_room(ctc_surface *surface, size_t n_vertices, size_t n_triangles) {
    *surface = (ctc_surface){.n_vertices = n_vertices, .n_triangles = n_triangles};
    surface->positions = malloc(3 * n_vertices * sizeof *surface->positions);
    surface->triangles = malloc(3 * n_triangles * sizeof *surface->triangles);
    return surface->positions && surface->triangles;
}

static void free_surface(ctc_surface *surface) {
    free(surface->positions);
    free(surface->triangles);
}

static uint32_t *put_triangle(uint32_t *to, size_t a, size_t b, size_t c) {
    to[0] = (uint32_t)a, to[1] = (uint32_t)b, to[2] = (uint32_t)c;
    return to + 3;
}

static size_t hemisphere_vertices(size_t f) {
    return 1 + 2 * f * (f + 1);
}

/* Vertices of an octahedron's upper half, each edge in f parts, on the unit sphere: a pole, then rings of 4, 8, ... 4 f. */
static void put_hemisphere(size_t f, double *to) {
    const double step = PI / (double)(2 * f);
    to[0] = to[1] = 0, to[2] = 1;
    to += 3;
    for (size_t ring = 1; ring <= f; ring++) {
        const double up = sin((double)(f - ring) * step);
        for (size_t j = 0; j < ring; j++) {
            const double along = ring - j == f ? 1 : sin((double)(ring - j) * step), across = sin((double)j * step);
            const double size = sqrt(along * along + across * across + up * up);
            const double x = along / size, y = across / size, z = up / size;
            const double quarters[4][2] = {{x, y}, {-y, x}, {-x, -y}, {y, -x}};
            for (size_t q = 0; q < 4; q++) {
                double *p = to + 3 * (q * ring + j);
                p[0] = quarters[q][0] + 0.0, p[1] = quarters[q][1] + 0.0, p[2] = z; /* no -0 */
            }
        }
        to += 12 * ring;
    }
}

static size_t ring_vertex(size_t ring, size_t k) {
    return ring ? 2 * ring * (ring - 1) + 1 + k % (4 * ring) : 0;
}

/* 4 f^2 of them, between each ring and the next. */
static uint32_t *put_hemisphere_triangles(size_t f, uint32_t *to) {
    for (size_t i = 0; i < f; i++)
        for (size_t q = 0; q < 4; q++) {
            const size_t inner = q * i, outer = q * (i + 1);
            for (size_t j = 0; j <= i; j++)
                to = put_triangle(to, ring_vertex(i, inner + j), ring_vertex(i + 1, outer + j),
                                  ring_vertex(i + 1, outer + j + 1));
            for (size_t j = 0; j < i; j++)
                to = put_triangle(to, ring_vertex(i, inner + j), ring_vertex(i + 1, outer + j + 1),
                                  ring_vertex(i, inner + j + 1));
        }
    return to;
}

static bool make_sphere(size_t f, const double radii[3], ctc_surface *out) {
    const size_t half = hemisphere_vertices(f), inner = half - 4 * f, faces = 4 * f * f;
    if (!make_room(out, half + inner, 2 * faces)) return false;
    put_hemisphere(f, out->positions);
    for (size_t v = 0; v < inner; v++) {
        const double *p = out->positions + 3 * v;
        double *mirrored = out->positions + 3 * (half + v);
        mirrored[0] = p[0], mirrored[1] = p[1], mirrored[2] = -p[2];
    }
    for (size_t i = 0; i < 3 * out->n_vertices; i++) out->positions[i] *= radii[i % 3];
    uint32_t *below = put_hemisphere_triangles(f, out->triangles);
    for (size_t t = 0; t < faces; t++)
        for (size_t c = 0; c < 3; c++) { /* both halves have the last ring */
            const uint32_t v = out->triangles[3 * t + 2 - c];
            below[3 * t + c] = v < inner ? v + (uint32_t)half : v;
        }
    return true;
}

/* The surface has one end so far, of n vertices and `faces` faces, whose last `ring` vertices are its rim. Adds the mirror
 * image as the other end, moves the ends apart by `length` along z, and joins the two rims by a strip of triangles. */
static void join_ends(ctc_surface *out, size_t n, size_t faces, size_t ring, double length) {
    for (size_t v = 0; v < n; v++) {
        double *p = out->positions + 3 * v, *mirrored = p + 3 * n;
        mirrored[0] = p[0], mirrored[1] = p[1], mirrored[2] = -p[2] - length / 2;
        p[2] += length / 2;
    }
    uint32_t *to = out->triangles + 3 * faces;
    for (size_t t = 0; t < faces; t++) {
        const uint32_t *corner = out->triangles + 3 * t;
        to = put_triangle(to, corner[2] + n, corner[1] + n, corner[0] + n);
    }
    for (size_t k = 0; k < ring; k++) {
        const size_t here = n - ring + k, beside = n - ring + (k + 1) % ring;
        to = put_triangle(to, here, here + n, beside);
    }
    for (size_t k = 0; k < ring; k++) {
        const size_t here = n - ring + k, beside = n - ring + (k + 1) % ring;
        to = put_triangle(to, beside, here + n, beside + n);
    }
}

static bool make_capsule(size_t f, double radius, double length, ctc_surface *out) {
    const size_t half = hemisphere_vertices(f), faces = 4 * f * f;
    if (!make_room(out, 2 * half, 2 * faces + 8 * f)) return false;
    put_hemisphere(f, out->positions);
    for (size_t i = 0; i < 3 * half; i++) out->positions[i] *= radius;
    put_hemisphere_triangles(f, out->triangles);
    join_ends(out, half, faces, 4 * f, length);
    return true;
}

static bool make_cylinder(size_t f, double radius, double height, ctc_surface *out) {
    const size_t ring = 4 * f, before = hemisphere_vertices(f) - ring;
    if (!make_room(out, 2 * (1 + ring), 4 * ring)) return false;
    double *hemisphere = malloc(3 * (before + ring) * sizeof *hemisphere);
    if (!hemisphere) return false;
    put_hemisphere(f, hemisphere);
    memset(out->positions, 0, 3 * (1 + ring) * sizeof *out->positions);
    for (size_t k = 0; k < ring; k++)
        for (size_t a = 0; a < 2; a++) out->positions[3 * (1 + k) + a] = hemisphere[3 * (before + k) + a] * radius;
    free(hemisphere);
    uint32_t *to = out->triangles;
    for (size_t k = 0; k < ring; k++) to = put_triangle(to, 0, 1 + k, 1 + (k + 1) % ring);
    join_ends(out, 1 + ring, ring, ring, height);
    return true;
}

/* Corner k is on the upper side of axis a where bit a of k is set. */
static bool make_box(const double extents[3], ctc_surface *out) {
    static const uint32_t FACES[6][4] = {{0, 4, 6, 2}, {1, 3, 7, 5}, {0, 1, 5, 4},
                                         {2, 6, 7, 3}, {0, 2, 3, 1}, {4, 5, 7, 6}};
    if (!make_room(out, 8, 12)) return false;
    for (size_t i = 0; i < 24; i++) out->positions[i] = ((i / 3 >> i % 3 & 1) ? 0.5 : -0.5) * extents[i % 3];
    uint32_t *to = out->triangles;
    for (int f = 0; f < 6; f++) {
        const uint32_t *c = FACES[f];
        to = put_triangle(to, c[0], c[1], c[2]);
        to = put_triangle(to, c[0], c[2], c[3]);
    }
    return true;
}

/* ---- what callers give ---- */

static const struct {
    const char *name;
    size_t n; /* of its size[] */
} KINDS[] = {{NULL, 0},
             [CONTACTD_SPHERE] = {"sphere", 1},
             [CONTACTD_ELLIPSOID] = {"ellipsoid", 3},
             [CONTACTD_CAPSULE] = {"capsule", 2},
             [CONTACTD_CYLINDER] = {"cylinder", 2},
             [CONTACTD_BOX] = {"box", 3}};

static contactd_code check_length(contactd_client *client, const char *object, const char *field, double length) {
    if (!isfinite(length))
        return ctc_fail(client, CONTACTD_NON_FINITE, object, field, "expected a finite number of m, got %g", length);
    if (!(length > 0))
        return ctc_fail(client, CONTACTD_OUT_OF_RANGE, object, field, "expected more than 0 m, got %g", length);
    return CONTACTD_OK;
}

static contactd_code check_shape(contactd_client *client, const contactd_shape *shape) {
    const size_t kinds = sizeof KINDS / sizeof *KINDS, kind = (size_t)shape->kind;
    if (kind == 0 || kind >= kinds)
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "shape", "kind", "kind %d is none of contactd_shape_kind",
                        (int)shape->kind);
    char field[16];
    for (size_t k = 0; k < 3; k++) {
        snprintf(field, sizeof field, "size[%zu]", k);
        if (k >= KINDS[kind].n && shape->size[k] != 0)
            return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, KINDS[kind].name, field,
                            "expected 0, as a %s has %zu of them, got %g", KINDS[kind].name, KINDS[kind].n,
                            shape->size[k]);
        contactd_code code =
            k < KINDS[kind].n ? check_length(client, KINDS[kind].name, field, shape->size[k]) : CONTACTD_OK;
        if (code != CONTACTD_OK) return code;
    }
    return shape->tolerance == 0 ? CONTACTD_OK : check_length(client, KINDS[kind].name, "tolerance", shape->tolerance);
}

/* The radius that tolerances are parts of, and the largest half-extent. */
static void measure(const contactd_shape *shape, double *radius, double *half_extent) {
    const double *s = shape->size;
    *radius = *half_extent = shape->kind == CONTACTD_ELLIPSOID ? fmax(s[0], fmax(s[1], s[2])) : s[0];
    if (shape->kind == CONTACTD_CAPSULE) *half_extent = s[0] + s[1] / 2;
    if (shape->kind == CONTACTD_CYLINDER) *half_extent = fmax(s[0], s[1] / 2);
}

/* In how many parts the edges of an octahedron, or the quarters of a circle, are cut. */
static contactd_code find_parts(contactd_client *client, const contactd_shape *shape, size_t *parts) {
    double radius, half_extent;
    measure(shape, &radius, &half_extent);
    const double least = CONTACTD_LEAST_TOLERANCE * half_extent;
    const double given = shape->tolerance == 0 ? fmax(CONTACTD_DEFAULT_TOLERANCE * radius, least) : shape->tolerance;
    if (given < least)
        return ctc_fail(client, CONTACTD_OUT_OF_RANGE, KINDS[shape->kind].name, "tolerance",
                        "expected %g m or more, %g of the largest half-extent, got %g m", least,
                        CONTACTD_LEAST_TOLERANCE, given);
    const double allowed = (given - ROUNDING * half_extent) / radius;
    const double n =
        shape->kind == CONTACTD_CYLINDER ? PI / 4 / acos(fmax(1 - allowed, 0.5)) : sqrt(DEVIATION / allowed);
    *parts = (size_t)fmax(1, ceil(n));
    return CONTACTD_OK;
}

static bool make_surface(const contactd_shape *shape, size_t parts, ctc_surface *out) {
    const double *s = shape->size;
    *out = (ctc_surface){0};
    switch (shape->kind) {
    case CONTACTD_SPHERE:
        return make_sphere(parts, (double[3]){s[0], s[0], s[0]}, out);
    case CONTACTD_ELLIPSOID:
        return make_sphere(parts, s, out);
    case CONTACTD_CAPSULE:
        return make_capsule(parts, s[0], s[1], out);
    case CONTACTD_CYLINDER:
        return make_cylinder(parts, s[0], s[1], out);
    case CONTACTD_BOX:
        return make_box(s, out);
    }
    return false;
}

/* Boxes go as doubles, which are exact; what is rounded to a tolerance goes as floats. */
static contactd_code register_surface(contactd_client *client, const contactd_shape *shape, ctc_surface *surface,
                                      contactd_mesh *out) {
    wire_dtype dtype = WIRE_F64;
    if (shape->kind != CONTACTD_BOX) {
        float *rounded =
            (float *)(void *)surface->positions; /* in place: a float is written where it or one before was read */
        for (size_t i = 0; i < 3 * surface->n_vertices; i++) {
            const float x = (float)surface->positions[i];
            memcpy(rounded + i, &x, sizeof x);
        }
        dtype = WIRE_F32;
    }
    return ctc_register_arrays(client, KINDS[shape->kind].name, surface->positions, dtype, surface->n_vertices,
                               surface->triangles, surface->n_triangles, NULL, out);
}

static const ctc_shape *find_made(const contactd_client *client, const contactd_shape *shape, size_t parts) {
    for (uint32_t i = 0; i < client->n_shapes; i++) {
        const ctc_shape *made = &client->shapes[i];
        if (made->shape.kind == shape->kind && made->parts == parts &&
            memcmp(made->shape.size, shape->size, sizeof shape->size) == 0 && client->meshes[made->mesh - 1])
            return made;
    }
    return NULL;
}

/* ---- public ---- */

contactd_code contactd_register_shape(contactd_client *client, const contactd_shape *shape, contactd_mesh *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "mesh", out);
    CTC_REQUIRE(client, "mesh", shape);
    *out = 0;
    size_t parts = 1;
    contactd_code code = check_shape(client, shape);
    if (code == CONTACTD_OK && shape->kind != CONTACTD_BOX) code = find_parts(client, shape, &parts);
    if (code != CONTACTD_OK) return code;
    const ctc_shape *made = find_made(client, shape, parts);
    if (made) {
        *out = made->mesh;
        return CONTACTD_OK;
    }
    ctc_surface surface;
    if (make_surface(shape, parts, &surface) &&
        ctc_grow32(&client->shapes, client->n_shapes, &client->cap_shapes, sizeof *client->shapes))
        code = register_surface(client, shape, &surface, out);
    else
        code = ctc_no_memory(client, KINDS[shape->kind].name);
    free_surface(&surface);
    if (code == CONTACTD_OK) client->shapes[client->n_shapes++] = (ctc_shape){*shape, parts, *out};
    return code;
}

contactd_code contactd_register_height_field(contactd_client *client, const double *heights, size_t n, size_t m,
                                             const double spacing[2], contactd_mesh *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "mesh", out);
    *out = 0;
    CTC_REQUIRE(client, "height field", heights);
    CTC_REQUIRE(client, "height field", spacing);
    if (n < 2 || m < 2 || n > UINT32_MAX / m)
        return ctc_fail(client, CONTACTD_WRONG_LENGTH, "height field", "heights",
                        "expected 2 or more samples along x and y, and less than 2^32 together, got %zu and %zu", n, m);
    for (int a = 0; a < 2; a++) {
        contactd_code code = check_length(client, "height field", a ? "spacing[1]" : "spacing[0]", spacing[a]);
        if (code != CONTACTD_OK) return code;
    }
    ctc_surface surface;
    contactd_code code = CONTACTD_OK;
    if (!make_room(&surface, n * m, 2 * (n - 1) * (m - 1))) code = ctc_no_memory(client, "height field");
    uint32_t *to = surface.triangles;
    for (size_t i = 0; code == CONTACTD_OK && i < n * m; i++) {
        double *p = surface.positions + 3 * i;
        const size_t row = i / m, column = i % m;
        p[0] = (double)row * spacing[0], p[1] = (double)column * spacing[1], p[2] = heights[i];
        if (row + 1 == n || column + 1 == m) continue; /* no cell begins at the last ones */
        to = put_triangle(to, i, i + m, i + m + 1);
        to = put_triangle(to, i, i + m + 1, i + 1);
    }
    contactd_mesh_options options;
    contactd_mesh_options_init(&options);
    options.open_direction[2] = -1;
    if (code == CONTACTD_OK)
        code = ctc_register_arrays(client, "height field", surface.positions, WIRE_F64, surface.n_vertices,
                                   surface.triangles, surface.n_triangles, &options, out);
    free_surface(&surface);
    return code;
}

contactd_code contactd_add_shape(contactd_client *client, contactd_scene scene, const contactd_shape *shape,
                                 const contactd_body_options *options, contactd_body *out) {
    if (!client) return CONTACTD_INVALID_ARGUMENT;
    contactd_mesh mesh;
    contactd_body_options rigid;
    contactd_body_options_init(&rigid);
    if (options) rigid = *options;
    rigid.rigid = true;
    contactd_code code = contactd_register_shape(client, shape, &mesh);
    return code == CONTACTD_OK ? contactd_add_body(client, scene, mesh, &rigid, out) : code;
}
