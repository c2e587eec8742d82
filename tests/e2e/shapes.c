/* shapes.c - test_shapes.py: registers shapes through the C client and prints the hash of each; then bodies and errors.
 *
 *     shapes ADDRESS */
#include <contactd.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static contactd_client *client;

static void check(contactd_code code) {
    if (!code) return;
    const contactd_error *e = contactd_last_error(client);
    printf("error %s %s: %s\n", e->object, e->field, e->message);
}

static void print_hash(contactd_mesh mesh) {
    contactd_mesh_info info;
    if (contactd_get_mesh_info(client, mesh, &info) == CONTACTD_OK) printf("%s\n", info.hash);
}

static contactd_mesh add(contactd_shape shape) {
    contactd_mesh mesh = 0;
    check(contactd_register_shape(client, &shape, &mesh));
    return mesh;
}

int main(int argc, char **argv) {
    static const contactd_shape SHAPES[] = {
        {CONTACTD_SPHERE, {0.05}, 0},
        {CONTACTD_SPHERE, {0.123}, 1e-5},
        {CONTACTD_ELLIPSOID, {0.3, 0.2, 0.1}, 0},
        {CONTACTD_CAPSULE, {0.1, 0.5}, 3e-4},
        {CONTACTD_CYLINDER, {0.2, 0.7}, 1e-4},
        {CONTACTD_BOX, {0.1, 0.2, 0.3}, 0},
        {CONTACTD_SPHERE, {1}, 1},
    };
    static const contactd_shape WRONG[] = {
        {0, {1}, 0},
        {CONTACTD_SPHERE, {0}, 0},
        {CONTACTD_SPHERE, {1, 1}, 0},
        {CONTACTD_CAPSULE, {1, NAN}, 0},
        {CONTACTD_SPHERE, {0.1}, 9e-8},
        {CONTACTD_SPHERE, {0.1}, -1},
    };
    contactd_options options;
    contactd_options_init(&options);
    if (argc > 1) options.server = argv[1];
    contactd_error error;
    if (contactd_connect(&options, &client, &error)) return fprintf(stderr, "%s\n", error.message), 1;
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) print_hash(add(SHAPES[i]));
    double heights[12];
    for (int i = 0; i < 12; i++) heights[i] = 0.1 * (i % 5);
    contactd_mesh mesh = 0, again;
    check(contactd_register_height_field(client, heights, 3, 4, (double[]){0.5, 0.25}, &mesh));
    print_hash(mesh);
    check(contactd_register_height_field(client, heights, 1, 4, (double[]){0.5, 0.25}, &mesh));
    check(contactd_register_height_field(client, heights, 3, 4, (double[]){0.5, -1}, &mesh));
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) add(WRONG[i]);

    mesh = add(SHAPES[0]), again = add(SHAPES[0]);
    printf("%s\n", mesh == again ? "once" : "twice");
    check(contactd_forget_mesh(client, mesh));
    again = add(SHAPES[0]);
    printf("%s\n", mesh == again ? "once" : "anew");

    contactd_scene scene;
    contactd_body floor, ball;
    contactd_body_options at;
    contactd_body_options_init(&at);
    at.pose[11] = 0.04;
    const contactd_result *result;
    check(contactd_open_scene(client, "", NULL, &scene));
    check(contactd_add_half_space(client, scene, (double[]){0, 0, 1}, 0, NULL, &floor));
    check(contactd_add_shape(client, scene, &SHAPES[0], &at, &ball));
    check(contactd_step(client, scene, NULL, 0, NULL, &result));
    for (size_t i = 0; i < result->n_contacts; i++) printf("%.17g\n", result->contacts[i].volume);
    contactd_close(&client);
    return 0;
}
