/* probe.c - readiness: two boxes whose intersection is known go through the engine for real. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/schedule/internal.h"

static const float corners[8][3] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0},
                                    {0, 0, 1}, {1, 0, 1}, {1, 1, 1}, {0, 1, 1}};
static const uint32_t faces[12][3] = {{0, 2, 1}, {0, 3, 2}, {4, 5, 6}, {4, 6, 7}, {0, 1, 5}, {0, 5, 4},
                                      {1, 2, 6}, {1, 6, 5}, {2, 3, 7}, {2, 7, 6}, {3, 0, 4}, {3, 4, 7}};

static bool run_step(ct_engine *engine, ct_scene *scene, ct_mesh *mesh, char *reason, size_t size, ct_error *error) {
    const double shift = 0.5, expected = shift * shift * shift;
    ct_body_options options;
    uint32_t body;
    ct_body_options_init(&options);
    options.kind = CT_BODY_RIGID;
    if (ct_scene_add_body(scene, mesh, &options, &body, error) != CT_OK) return false;
    options.pose[3] = options.pose[7] = options.pose[11] = shift;
    if (ct_scene_add_body(scene, mesh, &options, &body, error) != CT_OK) return false;
    ct_step step = {.scene = scene, .want = CT_WANT_FRAME};
    if (ct_engine_run(engine, &step, 1) != CT_OK) {
        *error = step.error;
        return false;
    }
    double volume = step.result->n_contacts == 1 ? step.result->contacts[0].volume : 0;
    ct_result_free(&step.result);
    if (fabs(volume - expected) <= 1e-5 * expected) return true;
    snprintf(reason, size, "a trial step gave a volume of %.9g where %.9g is right", volume, expected);
    return false;
}

bool probe_lost(ct_engine *engine, size_t device, char *reason, size_t size) {
    ct_engine_facts facts;
    ct_engine_get_facts(engine, device, &facts);
    if (facts.lost) snprintf(reason, size, "device %zu (%s) is lost: %s", device, facts.device, facts.lost_reason);
    return facts.lost;
}

bool probe_run(ct_engine *engine, size_t device, const char *requested, char *reason, size_t size) {
    ct_engine_facts facts;
    ct_engine_get_facts(engine, device, &facts);
    reason[0] = 0;
    if (strcmp(requested, "auto") != 0 && strcmp(requested, facts.backend) != 0) {
        snprintf(reason, size, "the backend %s was asked for, but %s is running", requested, facts.backend);
        return false;
    }
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.resolution[0] = settings.resolution[1] = settings.resolution[2] = 8;
    ct_mesh *mesh = NULL;
    ct_scene *scene = NULL;
    ct_error error = {0};
    bool good = ct_mesh_create(corners, CT_F32, 8, faces, 12, NULL, &mesh, &error) == CT_OK &&
                ct_scene_create_on(engine, device, &settings, &scene, &error) == CT_OK &&
                run_step(engine, scene, mesh, reason, size, &error);
    if (!good && !probe_lost(engine, device, reason, size) && !reason[0])
        snprintf(reason, size, "a trial step on device %zu failed: %s", device, error.message);
    ct_scene_destroy(&scene);
    ct_mesh_release(&mesh);
    return good;
}
