/* bench_ground.c - times the round trip of a scene of many bodies: 256 tori on a slab of 399,420 triangles, whose poses
 * a client sends at every step.
 *
 *   bench_ground ENDPOINT SECONDS
 *
 * Prints one JSON object a line, for bench.py.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/ground.h"
#include "tests/bench/samples.h"
#include "tests/bench/session.h"

enum { TORI = 256, WARM_UP = 1, MIN_SAMPLES = 5 };

int main(int argc, char **argv) {
    if (argc != 3) die("usage: bench_ground ENDPOINT SECONDS");
    double seconds = strtod(argv[2], NULL);
    connect_to(argv[1], "ground", UINT32_MAX);
    contactd_settings settings;
    contactd_settings_init(&settings);
    for (int axis = 0; axis < 3; axis++) settings.resolution[axis] = 32;
    contactd_scene scene;
    contactd_body slab, tori[TORI];
    must(contactd_open_scene(client, "ground", &settings, &scene), "open scene");
    contactd_mesh torus_mesh = register_shape(ground_torus(), "torus");
    contactd_body_options options;
    contactd_body_options_init(&options);
    options.rigid = true;
    must(contactd_add_body(client, scene, register_shape(ground_slab(GROUND_FINE), "slab"), &options, &slab),
         "add slab");
    double start[TORI][12];
    for (unsigned i = 0; i < TORI; i++) {
        ground_torus_pose(i, TORI, start[i]);
        must(contactd_add_body(client, scene, torus_mesh, &options, &tori[i]), "add torus");
    }
    contactd_step_options step_options;
    contactd_step_options_init(&step_options);
    step_options.want = CONTACTD_WANT_GRADIENT;
    bench_samples us = {0};
    double end = bench_now() + seconds;
    for (unsigned k = 0; k < WARM_UP + MIN_SAMPLES || bench_now() < end; k++) {
        contactd_update updates[TORI];
        for (unsigned i = 0; i < TORI; i++) {
            updates[i] = contactd_move(tori[i], start[i]);
            for (int axis = 0; axis < 3; axis++)
                updates[i].pose[4 * axis + 3] += ground_reach * sin((1 + 0.1 * axis) * (k + i));
        }
        const contactd_result *result;
        double began = bench_now();
        must(contactd_step(client, scene, updates, TORI, &step_options, &result), "step");
        double took = bench_now() - began;
        if (result->n_contacts != TORI) die("expected %d contacts, found %zu", TORI, (size_t)result->n_contacts);
        if (k >= WARM_UP) bench_add(&us, 1e6 * took);
    }
    printf("{\"scene\":\"ground_256_round_trip\",\"samples\":%zu,\"us\":{\"p10\":%.6g,\"p50\":%.6g,\"p90\":%.6g}}\n",
           us.count, bench_quantile(&us, 0.1), bench_quantile(&us, 0.5), bench_quantile(&us, 0.9));
    bench_free(&us);
    contactd_close(&client);
    return 0;
}
