/* mesh_files.c - shapes as files, and with defects. */
#include "tests/scenes/mesh_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/build.h"

const char *mesh_file_name(mesh_file_kind kind) {
    static const char *const names[] = {"read obj",         "read off",        "read ply, ascii",
                                        "read ply, binary", "read stl, ascii", "read stl, binary"};
    return names[kind];
}

static void write_positions(FILE *to, const struct shape *shape, const char *format) {
    for (uint32_t v = 0; v < shape->n_vertices; v++) {
        const float *p = shape->positions + 3 * (size_t)v;
        fprintf(to, format, (double)p[0], (double)p[1], (double)p[2]);
    }
}

static void write_triangles(FILE *to, const struct shape *shape, const char *format, uint32_t first) {
    for (uint32_t t = 0; t < shape->n_triangles; t++) {
        const uint32_t *c = shape->triangles + 3 * (size_t)t;
        fprintf(to, format, c[0] + first, c[1] + first, c[2] + first);
    }
}

static void write_ply(FILE *to, const struct shape *shape, bool is_binary) {
    fprintf(to,
            "ply\nformat %s 1.0\nelement vertex %u\nproperty float x\nproperty float y\nproperty float z\n"
            "element face %u\nproperty list uchar uint vertex_indices\nend_header\n",
            is_binary ? "binary_little_endian" : "ascii", shape->n_vertices, shape->n_triangles);
    if (!is_binary) {
        write_positions(to, shape, "%.9g %.9g %.9g\n");
        write_triangles(to, shape, "3 %u %u %u\n", 0);
        return;
    }
    fwrite(shape->positions, 12, shape->n_vertices, to);
    for (uint32_t t = 0; t < shape->n_triangles; t++) {
        fputc(3, to);
        fwrite(shape->triangles + 3 * (size_t)t, 12, 1, to);
    }
}

static void write_stl(FILE *to, const struct shape *shape, bool is_binary) {
    static const char head[80] = "binary";
    const float none[3] = {0};
    if (is_binary)
        fwrite(head, sizeof head, 1, to), fwrite(&shape->n_triangles, 4, 1, to);
    else
        fprintf(to, "solid shape\n");
    for (uint32_t t = 0; t < shape->n_triangles; t++) {
        if (is_binary)
            fwrite(none, sizeof none, 1, to);
        else
            fprintf(to, "facet normal 0 0 0\nouter loop\n");
        for (int c = 0; c < 3; c++) {
            const float *p = shape->positions + 3 * (size_t)shape->triangles[3 * (size_t)t + (size_t)c];
            if (is_binary)
                fwrite(p, 12, 1, to);
            else
                fprintf(to, "vertex %.9g %.9g %.9g\n", (double)p[0], (double)p[1], (double)p[2]);
        }
        if (is_binary)
            fwrite("\0", 1, 2, to);
        else
            fprintf(to, "endloop\nendfacet\n");
    }
    if (!is_binary) fprintf(to, "endsolid shape\n");
}

void *mesh_file_write(const struct shape *shape, mesh_file_kind kind, size_t *size) {
    char *bytes = NULL;
    FILE *to = open_memstream(&bytes, size);
    if (!to) abort();
    switch (kind) {
    case MESH_FILE_OBJ:
        write_positions(to, shape, "v %.9g %.9g %.9g\n");
        write_triangles(to, shape, "f %u %u %u\n", 1);
        break;
    case MESH_FILE_OFF:
        fprintf(to, "OFF\n%u %u 0\n", shape->n_vertices, shape->n_triangles);
        write_positions(to, shape, "%.9g %.9g %.9g\n");
        write_triangles(to, shape, "3 %u %u %u\n", 0);
        break;
    case MESH_FILE_PLY_ASCII:
    case MESH_FILE_PLY_BINARY:
        write_ply(to, shape, kind == MESH_FILE_PLY_BINARY);
        break;
    default:
        write_stl(to, shape, kind == MESH_FILE_STL_BINARY);
    }
    if (fclose(to) || !bytes) abort();
    return bytes;
}

/* ---- defects ---- */

const char *mesh_defect_name(mesh_defect_kind kind) {
    static const char *const names[] = {"repair nothing", "repair a soup",     "repair turned",        "repair holes",
                                        "repair a half",  "repair duplicates", "repair a point's soup"};
    return names[kind];
}

static struct shape make_soup(const struct shape *shape) {
    struct shape soup = shape_begin(3 * (uint64_t)shape->n_triangles, shape->n_triangles);
    for (size_t i = 0; i < 3 * (size_t)shape->n_triangles; i++) {
        memcpy(soup.positions + 3 * i, shape->positions + 3 * (size_t)shape->triangles[i], 12);
        soup.triangles[i] = (uint32_t)i;
    }
    soup.n_vertices = 3 * shape->n_triangles;
    soup.n_triangles = shape->n_triangles;
    return soup;
}

struct shape mesh_defect(const struct shape *shape, mesh_defect_kind kind) {
    if (kind == MESH_DEFECT_SOUP || kind == MESH_DEFECT_POINT) {
        struct shape soup = make_soup(shape);
        for (size_t i = 12; i < 3 * (size_t)soup.n_vertices && kind == MESH_DEFECT_POINT; i++) soup.positions[i] = 0;
        return soup;
    }
    struct shape damaged = shape_copy(shape);
    uint32_t n = 0;
    for (uint32_t t = 0; t < shape->n_triangles; t++) {
        if (kind == MESH_DEFECT_HOLES && t % 10 == 9) continue;
        if (kind == MESH_DEFECT_HALF && t >= (shape->n_triangles + 1) / 2) break;
        const uint32_t *c = shape->triangles + 3 * (size_t)t;
        const bool is_turned = kind == MESH_DEFECT_TURNED && t % 3 == 2;
        const uint32_t corners[3] = {c[0], c[is_turned ? 2 : 1], c[is_turned ? 1 : 2]};
        memcpy(damaged.triangles + 3 * (size_t)n++, corners, sizeof corners);
    }
    damaged.n_triangles = n;
    if (kind != MESH_DEFECT_DUPLICATE) return damaged;
    const uint32_t n_vertices = damaged.n_vertices;
    struct shape twice = shape_merge(&damaged, &damaged);
    for (size_t i = 3 * (size_t)n; i < 6 * (size_t)n; i++) twice.triangles[i] -= n_vertices;
    shape_free(&damaged);
    return twice;
}
