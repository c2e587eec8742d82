/* many.c - environments of reinforcement learning: balls that roll on a floor in as many scenes, all in one call a step.
 *
 *   cc $(pkg-config --cflags contactd) many.c $(pkg-config --libs contactd) -o many && ./many tcp://127.0.0.1:5555 64 100
 */
#include <contactd.h>
#include <stdio.h>
#include <stdlib.h>

static _Noreturn void die(contactd_client *client, const char *what) {
    const contactd_error *e = contactd_last_error(client);
    fprintf(stderr, "%s: %s: %s %s: %s\n", what, contactd_code_name(e->code), e->object, e->field, e->message);
    exit(1);
}

/* A floor and a ball, of which the other scenes are copies, with the same handles. */
static contactd_body build(contactd_client *client, contactd_scene *scene) {
    const contactd_shape ball = {.kind = CONTACTD_SPHERE, .size = {0.5}};
    contactd_settings settings;
    contactd_body_options options;
    contactd_body floor, body;
    contactd_settings_init(&settings);
    contactd_body_options_init(&options);
    settings.law = CT_LAW_PRESSURE;
    options.rigid = true;
    options.material.modulus = 1e6;
    if (contactd_open_scene(client, NULL, &settings, scene) ||
        contactd_add_half_space(client, *scene, (const double[3]){0, 0, 1}, 0, NULL, &floor) ||
        contactd_add_shape(client, *scene, &ball, &options, &body))
        die(client, "building a scene");
    return body;
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: %s SERVER SCENES STEPS\n", argv[0]), 2;
    const size_t n = strtoul(argv[2], NULL, 10);
    const long n_steps = atol(argv[3]);
    const double dt = 1e-3, mass = 100;
    contactd_client *client;
    contactd_options options;
    contactd_error error;
    contactd_options_init(&options);
    options.server = argv[1];
    options.timeout_ms = 120000;
    if (contactd_connect(&options, &client, &error)) return fprintf(stderr, "%s: %s\n", argv[1], error.message), 1;

    contactd_scene *scenes = calloc(n + 1, sizeof *scenes);
    double(*poses)[12] = calloc(n + 1, sizeof *poses), (*twists)[6] = calloc(n + 1, sizeof *twists);
    if (!scenes || !poses || !twists) return fprintf(stderr, "no memory for %zu scenes\n", n), 1;
    const contactd_body ball = build(client, &scenes[n]);
    if (contactd_copy_scene(client, scenes[n], n, scenes)) die(client, "copying the scene");
    for (size_t k = 0; k < n; k++) {
        poses[k][0] = poses[k][5] = poses[k][10] = 1;
        poses[k][11] = 0.5 + 1e-3 * (double)k; /* each falls from another height */
    }

    contactd_many many;
    contactd_many_init(&many);
    many.scenes = scenes;
    many.n_scenes = n;
    many.posed = many.moving = &ball;
    many.n_posed = many.n_moving = 1;
    many.poses = poses[0];
    many.twists = twists[0];
    contactd_many_result *result = NULL; /* its memory serves all steps */
    size_t n_contacts = 0;
    for (long step = 0; step < n_steps; step++) {
        if (contactd_step_many(client, &many, &result)) die(client, "stepping");
        if (result->n_errors) {
            const contactd_many_error *e = &result->errors[0];
            fprintf(stderr, "scene %zu: %s: %s\n", e->scene, contactd_code_name(e->error.code), e->error.message);
            return 1;
        }
        for (size_t k = 0; k < n; k++) twists[k][2] -= 9.81 * dt;
        contactd_column wrench, bodies;
        contactd_many_column(result, CONTACTD_COLUMN_WRENCH, &wrench);
        contactd_many_column(result, CONTACTD_COLUMN_BODIES, &bodies);
        for (size_t i = 0; i < wrench.n; i++) {
            const double *both = (const void *)((const char *)wrench.data + i * wrench.stride); /* [2][6] */
            const contactd_body *pair = (const void *)((const char *)bodies.data + i * bodies.stride);
            twists[result->scene_index[i]][2] += both[6 * (pair[1] == ball) + 2] / mass * dt;
        }
        for (size_t k = 0; k < n; k++) poses[k][11] += twists[k][2] * dt;
        n_contacts += result->n_contacts;
    }
    printf("%ld steps of %zu scenes, %zu contacts; the first ball is at %.3f m\n", n_steps, n, n_contacts,
           n ? poses[0][11] : 0);
    contactd_many_result_free(&result);
    contactd_close(&client);
    free(scenes);
    free(poses);
    free(twists);
    return 0;
}
