/* pairs.c - runs the method `exact` on pairs of posed meshes from standard input, for test_manifold.py, or the method
 * `ebpi` for test_rays.py.
 *
 * In, in the machine's byte order, until the end: n_vertices and n_triangles of body 0, then of body 1 (uint32); for
 * each body positions [n_vertices][3] (float32) and triangles [n_triangles][3] (uint32); both poses [12] (double).
 * Out, for each pair: n_contacts and max_winding (uint32); volume and bound (double); dV/dx of all vertices of body 0,
 * then of body 1 (double). A pair without contact has zeros.
 *
 * `pairs patches` runs with patches. Out, for each pair: n_contacts (uint32); volume and bound (double) of each.
 *
 * `pairs tiles` runs the method `ebpi` to 2 % of the volume, with the strict bound. Out, for each pair: n_tiles
 * (uint32, 0 without contact) and the tiles (ct_ray_tile).
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenes/build.h"
#include "tests/scenes/stage.h"

static void demand(int ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "pairs: %s\n", what);
    exit(1);
}

static void read_all(void *to, size_t size, size_t n) {
    demand(fread(to, size, n, stdin) == n, "the input ends within a pair");
}

static void write_all(const void *from, size_t size, size_t n) {
    demand(fwrite(from, size, n, stdout) == n, "the output cannot be written");
}

static void write_gradient(const ct_result *result, int part, uint32_t n_vertices) {
    double *dense = shape_alloc(n_vertices, 3 * sizeof *dense);
    if (result->n_contacts) {
        const ct_contact *c = result->contacts;
        for (uint64_t e = c->first[part]; e < c->first[part] + c->count[part]; e++)
            memcpy(dense + 3 * (size_t)result->vertices[e], result->gradient + 3 * e, 3 * sizeof *dense);
    }
    write_all(dense, 3 * sizeof *dense, n_vertices);
    free(dense);
}

static void write_contact(const ct_result *result, const struct shape shapes[2]) {
    const ct_contact none = {.volume = 0}, *c = result->n_contacts ? result->contacts : &none;
    const uint32_t numbers[2] = {(uint32_t)result->n_contacts, c->max_winding};
    const double volumes[2] = {c->volume, c->error_bound};
    write_all(numbers, sizeof numbers, 1);
    write_all(volumes, sizeof volumes, 1);
    for (int i = 0; i < 2; i++) write_gradient(result, i, shapes[i].n_vertices);
}

static void write_patches(const ct_result *result) {
    const uint32_t n = (uint32_t)result->n_contacts;
    write_all(&n, sizeof n, 1);
    for (uint32_t i = 0; i < n; i++) {
        const double volumes[2] = {result->contacts[i].volume, result->contacts[i].error_bound};
        write_all(volumes, sizeof volumes, 1);
    }
}

static void write_tiles(const ct_result *result) {
    const uint32_t n = (uint32_t)result->n_tiles;
    write_all(&n, sizeof n, 1);
    if (n) write_all(result->tiles, sizeof *result->tiles, n);
}

static ct_scene_settings settings_of(const char *what) {
    ct_scene_settings settings = stage_exact();
    settings.patches = !strcmp(what, "patches");
    if (strcmp(what, "tiles") != 0) return settings;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EBPI;
    settings.tolerance_rel = 0.02;
    settings.strict = true;
    return settings;
}

int main(int argc, char **argv) {
    ct_engine *engine = stage_engine(1, NULL);
    const ct_scene_settings settings = settings_of(argc > 1 ? argv[1] : "");
    const bool wants_tiles = settings.method == CT_METHOD_EBPI;
    uint32_t counts[4];
    while (fread(counts, sizeof counts, 1, stdin) == 1) {
        struct shape shapes[2];
        struct placed bodies[2];
        double poses[2][12];
        for (int i = 0; i < 2; i++) {
            shapes[i] = shape_begin(counts[2 * i], counts[2 * i + 1]);
            shapes[i].n_vertices = counts[2 * i];
            shapes[i].n_triangles = counts[2 * i + 1];
            read_all(shapes[i].positions, 12, shapes[i].n_vertices);
            read_all(shapes[i].triangles, 12, shapes[i].n_triangles);
            bodies[i] = (struct placed){&shapes[i], poses[i], CT_BODY_RIGID};
        }
        read_all(poses, sizeof poses, 1);
        ct_result *result = stage_once(engine, &settings, bodies, 2, wants_tiles ? CT_WANT_TILES : CT_WANT_GRADIENT);
        if (wants_tiles)
            write_tiles(result);
        else if (settings.patches)
            write_patches(result);
        else
            write_contact(result, shapes);
        ct_result_free(&result);
        for (int i = 0; i < 2; i++) shape_free(&shapes[i]);
    }
    ct_engine_destroy(&engine);
    return 0;
}
