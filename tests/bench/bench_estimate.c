/* bench_estimate.c - how accurate LDI's answers are, and how well their error estimates tell: random pairs against
 * exact volumes, and the gradient of single vertices beside that of a whole body. Prints a line of JSON for each.
 *
 *   bench_estimate [PAIRS] [MESHES]
 *
 * A pair is a shape or a scanned mesh from the folder MESHES, pressed by 10^-3.5 to 1.3 against the face, edge or
 * corner of a large cube, whose intersection has a closed form; or two of them, against LDI at 768^2. A third of the
 * cubes are aligned with the axes. Half of the pairs are sampled at 8^2 to 128^2, the others with pixels about as fine.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/mesh/mesh.h"
#include "tests/bench/samples.h"
#include "tests/scenes/clip.h"
#include "tests/scenes/stage.h"

enum { MAX_SHAPES = 20, TRUE_RESOLUTION = 768 };

static struct shape shapes[MAX_SHAPES];
static uint32_t n_shapes;

/* ---- scanned meshes ---- */

static ct_mesh *read_mesh(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    const size_t size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(size);
    ct_mesh *mesh = NULL;
    if (!bytes || fread(bytes, 1, size, file) != size || ct_mesh_read(bytes, size, CT_FORMAT_PLY, NULL, &mesh, NULL))
        mesh = NULL;
    free(bytes);
    fclose(file);
    return mesh;
}

/* Adds a mesh, centred and 2 m long, if the file is there. */
static void add_mesh(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ct_mesh *mesh = read_mesh(path);
    if (!mesh) return;
    const size_t positions = 3 * (size_t)mesh->n_vertices, corners = 3 * (size_t)mesh->n_triangles;
    struct shape s = {malloc(positions * sizeof(float)), mesh->n_vertices, malloc(corners * sizeof(uint32_t)),
                      mesh->n_triangles};
    float lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY}, size = 0;
    if (!s.positions || !s.triangles) abort();
    for (size_t i = 0; i < positions; i++) {
        lo[i % 3] = fminf(lo[i % 3], mesh->positions[i]);
        hi[i % 3] = fmaxf(hi[i % 3], mesh->positions[i]);
    }
    for (int k = 0; k < 3; k++) size = fmaxf(size, hi[k] - lo[k]);
    for (size_t i = 0; i < positions; i++)
        s.positions[i] = (mesh->positions[i] - (lo[i % 3] + hi[i % 3]) / 2) * 2 / size;
    memcpy(s.triangles, mesh->triangles, corners * sizeof *s.triangles);
    ct_mesh_release(&mesh);
    shapes[n_shapes++] = s;
}

static void make_shapes(const char *folder) {
    static const char *const names[] = {"bunny_7k.ply",    "spot_6k.ply",      "knight_1k.ply",
                                        "fandisk_13k.ply", "gear_med_35k.ply", "hand_16k.ply"};
    const struct shape made[] = {shape_icosphere(1, 2),    shape_icosphere(1, 4),
                                 shape_icosphere(1, 5),    shape_blob(1, 3, 0.4, 3),
                                 shape_blob(1, 5, 0.3, 7), shape_torus(0.8, 0.3, 48, 24),
                                 shape_cube(1.6, 3),       shape_l_prism(1.6, 1),
                                 shape_tetrahedron(1.5),   shape_bolt(0.8, 0.15, 0.3, 5, 36, 12),
                                 shape_box(1, 0.5, 1.5)};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) shapes[n_shapes++] = made[i];
    for (size_t i = 0; i < sizeof names / sizeof *names && folder; i++) add_mesh(folder, names[i]);
}

/* ---- pairs ---- */

struct pair {
    struct placed bodies[2];
    double pose[2][12];
    double volume; /* the true one */
};

/* The position of the vertex that is furthest along a direction. */
static void furthest(const struct shape *shape, const double pose[12], const double along[3], double at[3]) {
    double most = -INFINITY;
    for (uint32_t v = 0; v < shape->n_vertices; v++) {
        double p[3], value = 0;
        for (int k = 0; k < 3; k++) {
            p[k] = pose[4 * k + 3];
            for (int j = 0; j < 3; j++) p[k] += pose[4 * k + j] * (double)shape->positions[3 * v + (uint32_t)j];
            value += p[k] * along[k];
        }
        if (value > most) {
            most = value;
            memcpy(at, p, sizeof p);
        }
    }
}

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Moves the cube so that its corner, or the middle of an edge or face, lies `depth` deep. */
static void press_cube(struct pair *pair, int planes, double depth) {
    struct corner corner = {.n = planes};
    const struct shape *shape = pair->bodies[0].shape;
    double outward[3] = {0, 0, 0}, lowest[3], *cube = pair->pose[1];
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < planes; j++) outward[k] -= cube[4 * k + j] / sqrt(planes);
    furthest(shape, pair->pose[0], outward, lowest);
    for (int k = 0; k < 3; k++) {
        corner.apex[k] = cube[4 * k + 3] = lowest[k] - depth * outward[k];
        for (int j = 0; j < planes; j++) {
            corner.normal[j][k] = cube[4 * k + j];
            cube[4 * k + 3] -= 6 * cube[4 * k + j];
        }
    }
    struct clipped truth = clip(shape, pair->pose[0], &corner, (double[]){0, 0, 0});
    free(truth.gradient);
    pair->volume = truth.volume;
}

static void press_shape(ct_engine *engine, struct pair *pair, const double toward[3], double depth) {
    double mine[3], other[3], back[3];
    const ct_scene_settings settings = stage_resolution(TRUE_RESOLUTION);
    for (int k = 0; k < 3; k++) back[k] = -toward[k];
    furthest(pair->bodies[0].shape, pair->pose[0], toward, mine);
    furthest(pair->bodies[1].shape, pair->pose[1], back, other);
    const double by = dot(mine, toward) - dot(other, toward) - depth;
    for (int k = 0; k < 3; k++) pair->pose[1][4 * k + 3] += by * toward[k];
    ct_result *result = stage_once(engine, &settings, pair->bodies, 2, 0);
    pair->volume = result->n_contacts ? result->contacts[0].volume : 0;
    ct_result_free(&result);
}

static void make_pair(ct_engine *engine, const struct shape *cube, uint64_t *rng, struct pair *pair) {
    const int kind = (int)(shape_random(rng) % 5);
    const struct shape *first = &shapes[shape_random(rng) % n_shapes], *second = &shapes[shape_random(rng) % n_shapes];
    pair->bodies[0] = (struct placed){first, pair->pose[0], CT_BODY_RIGID};
    pair->bodies[1] = (struct placed){kind < 3 ? cube : second, pair->pose[1], CT_BODY_RIGID};
    shape_pose_random(rng, 0.3, pair->pose[0]);
    shape_pose_random(rng, 0, pair->pose[1]);
    if (shape_random(rng) % 3 == 0) shape_pose_identity(pair->pose[1]);
    const double depth = pow(10, shape_uniform(rng, -3.5, 0.1));
    if (kind < 3) {
        press_cube(pair, kind + 1, depth);
    } else {
        double toward[12];
        shape_pose_random(rng, 0, toward);
        press_shape(engine, pair, toward, depth);
    }
}

static void compare_estimates(ct_engine *engine, int n_pairs) {
    struct shape cube = shape_box(12, 12, 12);
    uint64_t rng = 1;
    bench_samples ratios = {0}, errors = {0};
    int n = 0, missed = 0, held = 0, spread_held = 0;
    for (int i = 0; i < n_pairs; i++) {
        struct pair pair;
        make_pair(engine, &cube, &rng, &pair);
        const uint32_t resolution = 8u << shape_random(&rng) % 5;
        const double pixel = fmax(8 * cbrt(pair.volume) / resolution, 1e-3);
        const ct_scene_settings settings = i % 2 ? stage_pixel(pixel) : stage_resolution(resolution);
        if (pair.volume <= 0) continue;
        ct_result *result = stage_once(engine, &settings, pair.bodies, 2, 0);
        const ct_contact *c = result->contacts;
        n++;
        if (result->n_contacts) {
            const double *v = c->volumes, error = fabs(c->volume - pair.volume);
            const double spread = fmax(fmax(v[0], v[1]), v[2]) - fmin(fmin(v[0], v[1]), v[2]);
            held += c->error_estimate >= error;
            spread_held += spread / 2 >= error;
            bench_add(&ratios, c->error_estimate / error);
            bench_add(&errors, error / pair.volume);
        } else {
            missed++;
        }
        ct_result_free(&result);
    }
    printf("{\"what\":\"estimates\",\"pairs\":%d,\"missed\":%d,\"held\":%.4f,\"held_by_half_spread\":%.4f,"
           "\"ratio\":{\"p5\":%.3g,\"median\":%.3g,\"p95\":%.3g},\"relative_error\":{\"median\":%.3g,\"p95\":%.3g}}\n",
           n, missed, (double)held / (n - missed), (double)spread_held / (n - missed), bench_quantile(&ratios, 0.05),
           bench_quantile(&ratios, 0.5), bench_quantile(&ratios, 0.95), bench_quantile(&errors, 0.5),
           bench_quantile(&errors, 0.95));
    bench_free(&ratios);
    bench_free(&errors);
    shape_free(&cube);
}

/* ---- vertices and bodies ---- */

/* The relative L2 error of the vertices' gradients of a ball cut by a plane, and of their sum. */
static void compare_vertices(ct_engine *engine, int level, uint32_t resolution) {
    enum { ROUNDS = 8 };
    struct shape ball = shape_icosphere(1, level), cube = shape_box(12, 12, 12);
    double off = 0, all = 0, force_off = 0, force = 0;
    uint64_t rng = 5;
    for (int round = 0; round < ROUNDS; round++) {
        double pose[2][12];
        struct corner corner = {.n = 1};
        shape_pose_random(&rng, 0.1, pose[0]);
        shape_pose_random(&rng, 0.1, pose[1]);
        for (int k = 0; k < 3; k++) {
            corner.apex[k] = pose[1][4 * k + 3];
            corner.normal[0][k] = pose[1][4 * k];
            pose[1][4 * k + 3] -= 6 * pose[1][4 * k];
        }
        struct clipped truth = clip(&ball, pose[0], &corner, (double[]){0, 0, 0});
        const ct_scene_settings settings = stage_resolution(resolution);
        ct_result *result =
            stage_once(engine, &settings, (struct placed[]){{&ball, pose[0], 0}, {&cube, pose[1], 0}}, 2, CT_WANT_ALL);
        const ct_contact *c = result->contacts;
        for (size_t i = 0; i < 3 * (size_t)ball.n_vertices; i++) all += truth.gradient[i] * truth.gradient[i];
        for (uint64_t e = c->first[0]; e < c->first[0] + c->count[0]; e++)
            for (int k = 0; k < 3; k++) {
                double *g = &truth.gradient[3 * (size_t)result->vertices[e] + (size_t)k];
                off += pow(result->gradient[3 * e + (uint64_t)k] - *g, 2);
                *g = 0;
            }
        for (size_t i = 0; i < 3 * (size_t)ball.n_vertices; i++) off += truth.gradient[i] * truth.gradient[i];
        for (int k = 0; k < 3; k++) {
            force_off += pow(c->generalized_gradient[0][k] - truth.wrench[k], 2);
            force += pow(truth.wrench[k], 2);
        }
        free(truth.gradient);
        ct_result_free(&result);
    }
    printf("{\"what\":\"vertices\",\"triangles\":%u,\"resolution\":%u,\"vertex_error\":%.3g,\"force_error\":%.3g}\n",
           ball.n_triangles, resolution, sqrt(off / all), sqrt(force_off / force));
    shape_free(&ball);
    shape_free(&cube);
}

int main(int argc, char **argv) {
    const int n_pairs = argc > 1 ? atoi(argv[1]) : 1500;
    if (argc > 3 || n_pairs <= 0) {
        fputs("usage: bench_estimate [PAIRS [MESHES]]\n", stderr);
        return 2;
    }
    ct_engine *engine = stage_engine(2, NULL);
    make_shapes(argc > 2 ? argv[2] : NULL);
    compare_estimates(engine, n_pairs);
    for (uint32_t resolution = 16; resolution <= 256; resolution *= 4)
        for (int level = 4; level <= 6; level++) compare_vertices(engine, level, resolution);
    for (uint32_t i = 0; i < n_shapes; i++) shape_free(&shapes[i]);
    ct_engine_destroy(&engine);
    return 0;
}
