/* overlap.c - the intersection of two meshes in one call, by a scene of its own. */
#include <string.h>

#include "client_c/base.h"

static contactd_code compute(contactd_client *client, contactd_scene scene, const contactd_mesh meshes[2],
                             const double *const poses[2], contactd_overlap *out) {
    contactd_body body;
    contactd_code code = CONTACTD_OK;
    const contactd_result *result;
    for (int i = 0; i < 2 && code == CONTACTD_OK; i++) {
        contactd_body_options options;
        contactd_body_options_init(&options);
        options.rigid = true;
        if (poses[i]) memcpy(options.pose, poses[i], sizeof options.pose);
        code = contactd_add_body(client, scene, meshes[i], &options, &body);
    }
    contactd_step_options step;
    contactd_step_options_init(&step);
    step.want = CONTACTD_WANT_FRAME;
    if (code == CONTACTD_OK) code = contactd_step(client, scene, NULL, 0, &step, &result);
    if (code != CONTACTD_OK) return code;
    *out = (contactd_overlap){.method = result->method};
    if (!result->n_contacts) return CONTACTD_OK;
    const contactd_contact *c = &result->contacts[0];
    out->volume = c->volume;
    out->error_bound = c->error_bound;
    out->error_estimate = c->error_estimate;
    out->area = c->area;
    out->depth = c->depth;
    memcpy(out->center, c->center, sizeof out->center);
    memcpy(out->normal, c->normal, sizeof out->normal);
    memcpy(out->generalized_gradient, c->generalized_gradient, sizeof out->generalized_gradient);
    return CONTACTD_OK;
}

contactd_code contactd_find_overlap(contactd_client *client, contactd_mesh a, const double pose_a[12], contactd_mesh b,
                                    const double pose_b[12], const contactd_settings *settings, contactd_overlap *out) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "overlap", out);
    *out = (contactd_overlap){.method = ""};
    contactd_scene scene;
    contactd_code code = contactd_open_scene(client, "overlap", settings, &scene);
    if (code != CONTACTD_OK) return code;
    code = compute(client, scene, (const contactd_mesh[2]){a, b}, (const double *const[2]){pose_a, pose_b}, out);
    const contactd_error error = client->error;
    const contactd_code closed = contactd_close_scene(client, scene);
    /* Its handle was never given to anyone, so that it can be given out again. */
    if (closed == CONTACTD_OK && scene == client->n_scenes) client->n_scenes--;
    if (code == CONTACTD_OK) return closed;
    client->error = error;
    return code;
}
