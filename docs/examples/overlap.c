/* overlap.c - two boxes and the volume in which they overlap, by the engine in this process: no server.
 *
 *     cc overlap.c $(pkg-config --cflags --libs contact) -o overlap */
#include <contact/contact.h>

#include <stdio.h>

static const float corners[8][3] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0},
                                    {0, 0, 1}, {1, 0, 1}, {1, 1, 1}, {0, 1, 1}};
static const uint32_t triangles[12][3] = {{0, 2, 1}, {0, 3, 2}, {4, 5, 6}, {4, 6, 7}, {0, 1, 5}, {0, 5, 4},
                                          {1, 2, 6}, {1, 6, 5}, {2, 3, 7}, {2, 7, 6}, {3, 0, 4}, {3, 4, 7}};

int main(void) {
    ct_engine_options engine_options;
    ct_scene_settings settings;
    ct_body_options rigid;
    ct_engine *engine = NULL;
    ct_mesh *box = NULL;
    ct_scene *scene = NULL;
    uint32_t bodies[2];
    ct_error error = {0};
    int rc = 1;

    ct_engine_options_init(&engine_options);
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EXACT;
    ct_body_options_init(&rigid);
    rigid.kind = CT_BODY_RIGID;
    if (ct_engine_create(&engine_options, &engine, &error) != CT_OK ||
        ct_mesh_create(corners, CT_F32, 8, triangles, 12, NULL, &box, &error) != CT_OK ||
        ct_scene_create(engine, &settings, &scene, &error) != CT_OK ||
        ct_scene_add_body(scene, box, &rigid, &bodies[0], &error) != CT_OK ||
        ct_scene_add_body(scene, box, &rigid, &bodies[1], &error) != CT_OK) {
        fprintf(stderr, "%s: %s\n", ct_status_name(error.status), error.message);
        goto end;
    }
    for (int i = 0; i < 3; i++) {
        const ct_update move = {
            .body = bodies[1], .kind = CT_UPDATE_POSE, .pose = {1, 0, 0, 0.25 * (i + 1), 0, 1, 0, 0.5, 0, 0, 1, 0.75}};
        ct_step step = {.scene = scene, .updates = &move, .n_updates = 1, .want = CT_WANT_FRAME | CT_WANT_GRADIENT};
        if (ct_engine_run(engine, &step, 1) != CT_OK) {
            fprintf(stderr, "%s: %s\n", ct_status_name(step.error.status), step.error.message);
            goto end;
        }
        const ct_contact *contact = &step.result->contacts[0];
        printf("volume %.17g m^3, within %.1g; force on the second body along %.3f %.3f %.3f\n", contact->volume,
               contact->error_bound, -contact->normal[0], -contact->normal[1], -contact->normal[2]);
        ct_result_free(&step.result);
    }
    rc = 0;
end:
    ct_scene_destroy(&scene);
    ct_mesh_release(&box);
    ct_engine_destroy(&engine);
    return rc;
}
