/* self_overlap.c - the volume in which a mesh overlaps itself: a step of EXACT with one body, on the caller's thread. */
#include "gpu/base/fail.h"
#include "gpu/include/contact.h"
#include "gpu/mesh/mesh.h"

/* Runs the step and sums up its contacts. */
static ct_status run_step(ct_engine *engine, ct_scene *scene, double *volume, ct_error *error) {
    ct_step step = {.scene = scene};
    const ct_status status = ct_engine_run(engine, &step, 1);
    if (status != CT_OK) return ct_fail(error, status, step.error.field, "%s", step.error.message);
    *volume = 0;
    for (uint64_t i = 0; i < step.result->n_contacts; i++) {
        const ct_contact *contact = &step.result->contacts[i];
        if (contact->volume > contact->error_bound) *volume += contact->volume;
    }
    ct_steps_free_results(&step, 1);
    return CT_OK;
}

ct_status ct_mesh_measure_overlap(ct_mesh *mesh, double *volume, ct_error *error) {
    *volume = -1;
    if (mesh->has_shared_edges) return CT_OK;
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = "cpu"; /* with memory and threads of its own, so that scenes' steps do not wait for it */
    options.threads = 1;
    ct_scene_settings settings;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EXACT;
    ct_body_options body;
    ct_body_options_init(&body);
    body.kind = CT_BODY_RIGID;
    body.self_contact = true;
    ct_engine *engine = NULL;
    ct_scene *scene = NULL;
    uint32_t handle;
    ct_status status = ct_engine_create(&options, &engine, error);
    if (status == CT_OK) status = ct_scene_create(engine, &settings, &scene, error);
    if (status == CT_OK) status = ct_scene_add_body(scene, mesh, &body, &handle, error);
    if (status == CT_OK) status = run_step(engine, scene, volume, error);
    ct_scene_destroy(&scene);
    ct_engine_destroy(&engine);
    return status;
}
