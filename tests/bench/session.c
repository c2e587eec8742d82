/* session.c - the benches' client of a running contactd. */
#include "tests/bench/session.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

contactd_client *client;

void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void must(contactd_code code, const char *what) {
    if (code) die("%s: %s: %s", what, contactd_code_name(code), client ? contactd_last_error(client)->message : "");
}

void connect_to(const char *endpoint, const char *name, uint32_t spin_us) {
    contactd_options options;
    contactd_error error = {0};
    contactd_options_init(&options);
    options.server = endpoint;
    options.name = name;
    options.keep_meshes = false;
    if (spin_us != UINT32_MAX) options.spin_us = spin_us;
    if (contactd_connect(&options, &client, &error)) die("%s: %s", endpoint, error.message);
}

contactd_mesh register_shape(struct shape shape, const char *name) {
    contactd_mesh mesh;
    must(contactd_register_mesh(client, name, shape.positions, shape.n_vertices, shape.triangles, shape.n_triangles,
                                &mesh),
         name);
    shape_free(&shape);
    return mesh;
}

couple open_couple(contactd_mesh mesh, const uint32_t resolution[3], double angle, const double shift[3]) {
    couple c;
    contactd_settings settings;
    contactd_settings_init(&settings);
    memcpy(settings.resolution, resolution, sizeof settings.resolution);
    must(contactd_open_scene(client, NULL, &settings, &c.scene), "open scene");
    for (int i = 0; i < 2; i++) {
        contactd_body_options options;
        contactd_body_options_init(&options);
        options.rigid = true;
        contactd_body body;
        must(contactd_add_body(client, c.scene, mesh, &options, &body), "add body");
        double pose[12];
        shape_pose_axis((double[3]){1, 2, 3}, i * angle, (double[3]){i * shift[0], i * shift[1], i * shift[2]}, pose);
        c.updates[i] = contactd_move(body, pose);
    }
    c.start = shift[0];
    return c;
}

couple open_boxes(void) {
    return open_couple(register_shape(shape_box(1, 1, 1), "box"), (uint32_t[3]){32, 32, 32}, 0.3,
                       (double[3]){0.6, 0.2, 0.1});
}

void move(couple *c, unsigned k) {
    c->updates[1].pose[3] = c->start * (1 + 0.08 * sin(0.1 * k));
}
