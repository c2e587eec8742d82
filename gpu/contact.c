/* contact.c - the door: engines, batches and what needs no device. */
#include "gpu/include/contact.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/engine.h"

enum { ENGINE_COOKIE = 0xe9913001 };

const char *ct_phase_name(ct_phase phase) {
    static const char *const names[CT_PHASES] = {"upload", "broadphase", "raster", "span", "contact", "download"};
    return (unsigned)phase < CT_PHASES ? names[phase] : "unknown";
}

void ct_engine_options_init(ct_engine_options *options) {
    *options = (ct_engine_options){.cookie = ENGINE_COOKIE, .backend = "auto", .simd = "auto"};
}

ct_status ct_engine_create(const ct_engine_options *options, ct_engine **out, ct_error *error) {
    *out = NULL;
    if (options->cookie != ENGINE_COOKIE)
        return ct_fail(error, CT_INVALID_ARGUMENT, "options", "options were not filled by ct_engine_options_init");
    const ct_backend *backend = ct_backend_find(options->backend, error);
    if (!backend) return CT_UNSUPPORTED;
    ct_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory for an engine");
    engine->backend = backend;
    ct_status status = backend->create(options, &engine->device, error);
    if (status) {
        free(engine);
        return status;
    }
    *out = engine;
    return CT_OK;
}

void ct_engine_destroy(ct_engine **handle) {
    ct_engine *engine = *handle;
    if (!engine) return;
    engine->backend->destroy(&engine->device);
    free(engine);
    *handle = NULL;
}

void ct_engine_get_facts(const ct_engine *engine, ct_engine_facts *facts) {
    memset(facts, 0, sizeof *facts);
    engine->backend->facts(engine->device, facts);
}

ct_status ct_engine_run(ct_engine *engine, ct_step *steps, size_t n_steps) {
    for (size_t i = 0; i < n_steps; i++) {
        ct_step *s = &steps[i];
        s->result = NULL;
        s->error.status = CT_OK;
        s->error.message[0] = s->error.field[0] = 0;
        for (size_t u = 0; u < s->n_updates && s->error.status == CT_OK; u++)
            ct_update_check(s->scene, &s->updates[u], &s->error);
    }
    engine->backend->run(engine->device, steps, n_steps);
    for (size_t i = 0; i < n_steps; i++)
        if (steps[i].error.status) return steps[i].error.status;
    return CT_OK;
}

void ct_result_free(ct_result **handle) {
    ct_result *result = *handle;
    if (!result) return;
    free(result->contacts);
    free(result->vertices);
    free(result->gradient);
    free(result->weights);
    free(result->forces);
    free(result->spans);
    free(result);
    *handle = NULL;
}

void ct_contact_stiffness_product(const ct_result *result, size_t contact, double stiffness, const double *const in[2],
                                  double *const out[2]) {
    const ct_contact *c = &result->contacts[contact];
    double along = 0; /* g . d */
    for (int b = 0; b < 2; b++)
        for (uint64_t i = c->first[b]; i < c->first[b] + c->count[b]; i++)
            for (int k = 0; k < 3; k++)
                along += result->gradient[3 * i + k] * in[b][3 * (size_t)result->vertices[i] + k];
    for (int b = 0; b < 2; b++)
        for (uint64_t i = c->first[b]; i < c->first[b] + c->count[b]; i++)
            for (int k = 0; k < 3; k++)
                out[b][3 * (size_t)result->vertices[i] + k] -= stiffness * along * result->gradient[3 * i + k];
}
