/* simple.c - the least a simulator needs: two meshes, a scene, a step; prints volume and gradient.
 *
 *     cc simple.c $(pkg-config --cflags --libs contactd) -o simple && ./simple tcp://127.0.0.1:5555
 */
#include <contactd.h>
#include <stdio.h>

static int failed(const contactd_error *e) {
    fprintf(stderr, "simple: %s %s: %s\n", contactd_code_name(e->code), e->object, e->message);
    return 1;
}

int main(int argc, char **argv) {
    static const float box[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1};
    static const uint32_t faces[] = {0, 2, 3, 0, 3, 1, 4, 5, 7, 4, 7, 6, 0, 1, 5, 0, 5, 4,
                                     2, 6, 7, 2, 7, 3, 0, 4, 6, 0, 6, 2, 1, 3, 7, 1, 7, 5};
    static const float wedge[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
    static const uint32_t sides[] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};
    contactd_options options;
    contactd_options_init(&options);
    if (argc > 1) options.server = argv[1];

    contactd_client *client;
    contactd_error error;
    if (contactd_connect(&options, &client, &error)) return failed(&error);

    contactd_mesh meshes[2];
    contactd_scene scene;
    contactd_body a, b;
    contactd_body_options rigid;
    contactd_body_options_init(&rigid);
    rigid.rigid = true;
    if (contactd_register_mesh(client, "box", box, 8, faces, 12, &meshes[0]) ||
        contactd_register_mesh(client, "wedge", wedge, 4, sides, 4, &meshes[1]) ||
        contactd_open_scene(client, "simple", NULL, &scene) ||
        contactd_add_body(client, scene, meshes[0], &rigid, &a) ||
        contactd_add_body(client, scene, meshes[1], &rigid, &b))
        return failed(contactd_last_error(client));

    const double pose[12] = {1, 0, 0, 0.75, 0, 1, 0, 0.75, 0, 0, 1, 0.75}; /* the wedge, moved into the box's corner */
    contactd_update update = contactd_move(b, pose);
    const contactd_result *result;
    if (contactd_step(client, scene, &update, 1, NULL, &result)) return failed(contactd_last_error(client));

    for (uint32_t i = 0; i < result->n_contacts; i++) {
        const contactd_contact *c = &result->contacts[i];
        const double *g = c->generalized_gradient[1];
        printf("volume %.9g m^3, normal %.3f %.3f %.3f\n", c->volume, c->normal[0], c->normal[1], c->normal[2]);
        printf("moving body %u changes it by %.6g %.6g %.6g m^2\n", c->bodies[1], g[0], g[1], g[2]);
        for (uint64_t k = 0; k < c->sparse[1].n; k++)
            printf("vertex %u: %.6g %.6g %.6g m^2\n", c->sparse[1].vertices[k], c->sparse[1].gradient[3 * k],
                   c->sparse[1].gradient[3 * k + 1], c->sparse[1].gradient[3 * k + 2]);
    }
    contactd_close(&client);
    return 0;
}
