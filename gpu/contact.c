/* contact.c - the door: engines, batches and what needs no device. */
#include "gpu/include/contact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/engine.h"
#include "gpu/picture/picture.h"

enum { ENGINE_COOKIE = 0xe9913001 };

const char *ct_phase_name(ct_phase phase) {
    static const char *const names[CT_PHASES] = {"upload", "broadphase", "raster", "span", "contact", "download"};
    return (unsigned)phase < CT_PHASES ? names[phase] : "unknown";
}

void ct_engine_options_init(ct_engine_options *options) {
    *options = (ct_engine_options){
        .cookie = ENGINE_COOKIE, .backend = "auto", .rasterizer = "auto", .devices = "all", .simd = "auto"};
}

/* All devices of one backend, or none. */
static ct_status open_sites(ct_engine *engine, const ct_backend *backend, const ct_engine_options *options,
                            ct_error *error) {
    size_t n = backend->count(options, error);
    if (n == 0) return CT_UNSUPPORTED;
    engine->backend = backend;
    for (engine->n_devices = 0; engine->n_devices < n; engine->n_devices++) {
        ct_status status =
            backend->create(options, engine->n_devices, &engine->devices[engine->n_devices].device, error);
        if (!status) continue;
        while (engine->n_devices > 0) backend->destroy(&engine->devices[--engine->n_devices].device);
        return status;
    }
    return CT_OK;
}

static ct_status unknown_backend(const char *name, ct_error *error) {
    char names[64] = "";
    const ct_backend *backend;
    for (size_t i = 0, used = 0; (backend = ct_backend_at(i)) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? " " : "", backend->name);
    return ct_fail(error, CT_UNSUPPORTED, "backend", "backend \"%s\" is not in this build, which has: %s", name, names);
}

ct_status ct_engine_create(const ct_engine_options *options, ct_engine **out, ct_error *error) {
    *out = NULL;
    if (options->cookie != ENGINE_COOKIE)
        return ct_fail(error, CT_INVALID_ARGUMENT, "options", "options were not filled by ct_engine_options_init");
    ct_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory for an engine");
    bool any = !options->backend || !strcmp(options->backend, "auto");
    size_t used = (size_t)snprintf(engine->reason, sizeof engine->reason, any ? "the best that works" : "asked for");
    ct_error why = {0};
    const ct_backend *backend;
    for (size_t i = 0; (backend = ct_backend_at(i)); i++) {
        if (!any && strcmp(options->backend, backend->name) != 0) continue;
        why.status = CT_OK;
        if (open_sites(engine, backend, options, &why) == CT_OK) {
            pthread_mutex_init(&engine->painting, NULL);
            *out = engine;
            return CT_OK;
        }
        if (used < sizeof engine->reason)
            used += (size_t)snprintf(engine->reason + used, sizeof engine->reason - used, "; not %s: %s", backend->name,
                                     why.message);
    }
    free(engine);
    if (why.status == CT_OK) return unknown_backend(options->backend, error);
    if (error) *error = why;
    return why.status;
}

void ct_engine_destroy(ct_engine **handle) {
    ct_engine *engine = *handle;
    if (!engine) return;
    ct_painter_destroy(&engine->painter);
    pthread_mutex_destroy(&engine->painting);
    for (size_t i = 0; i < engine->n_devices; i++) engine->backend->destroy(&engine->devices[i].device);
    free(engine);
    *handle = NULL;
}

const char *ct_engine_reason(const ct_engine *engine) {
    return engine->reason;
}

size_t ct_engine_device_count(const ct_engine *engine) {
    return engine->n_devices;
}

void ct_engine_get_facts(const ct_engine *engine, size_t device, ct_engine_facts *facts) {
    const ct_engine_device *at = &engine->devices[device];
    memset(facts, 0, sizeof *facts);
    engine->backend->facts(at->device, facts);
    facts->scenes = atomic_load(&at->scenes);
    facts->triangles = atomic_load(&at->triangles);
}

void ct_engine_forget_mesh(ct_engine *engine, const ct_mesh *mesh) {
    if (!engine->backend->mesh_forget) return;
    for (size_t i = 0; i < engine->n_devices; i++) engine->backend->mesh_forget(engine->devices[i].device, mesh);
}

uint64_t ct_engine_mesh_bytes(ct_engine *engine, const char *hash) {
    uint64_t bytes = 0;
    for (size_t i = 0; engine->backend->mesh_bytes && i < engine->n_devices; i++)
        bytes += engine->backend->mesh_bytes(engine->devices[i].device, hash);
    return bytes;
}

/* Steps of a batch that spans devices: one device after the other. Whoever has several runs a batch for each. */
static void run_sites(ct_engine *engine, ct_step *steps, size_t n_steps) {
    ct_step *part = malloc(n_steps * sizeof *part);
    size_t *of = malloc(n_steps * sizeof *of);
    for (size_t d = 0; part && of && d < engine->n_devices; d++) {
        size_t n = 0;
        for (size_t i = 0; i < n_steps; i++)
            if (ct_scene_device(steps[i].scene) == d) {
                of[n] = i;
                part[n++] = steps[i];
            }
        if (n) engine->backend->run(engine->devices[d].device, part, n);
        for (size_t k = 0; k < n; k++) steps[of[k]] = part[k];
    }
    for (size_t i = 0; (!part || !of) && i < n_steps; i++)
        if (!steps[i].error.status) ct_fail(&steps[i].error, CT_OUT_OF_MEMORY, "", "no memory for a batch");
    free(part);
    free(of);
}

ct_status ct_engine_run(ct_engine *engine, ct_step *steps, size_t n_steps) {
    size_t first = n_steps ? ct_scene_device(steps[0].scene) : 0;
    bool several = false;
    for (size_t i = 0; i < n_steps; i++) {
        ct_step *s = &steps[i];
        s->result = NULL;
        s->error.status = CT_OK;
        s->error.message[0] = s->error.field[0] = 0;
        for (size_t u = 0; u < s->n_updates && s->error.status == CT_OK; u++)
            ct_update_check(s->scene, &s->updates[u], &s->error);
        if (ct_scene_device(s->scene) != first) several = true;
    }
    if (several)
        run_sites(engine, steps, n_steps);
    else if (n_steps)
        engine->backend->run(engine->devices[first].device, steps, n_steps);
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
