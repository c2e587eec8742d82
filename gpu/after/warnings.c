/* warnings.c - turns the signed volumes of deformable bodies into warnings. */
#include "gpu/after/warnings.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"

static const struct {
    ct_warning_code code;
    const char *name, *text;
} rows[] = {
#define ROW(name, number, text) {CT_WARNING_##name, #name, text},
    CT_WARNING_MAP(ROW)
#undef ROW
};

const char *ct_warning_name(ct_warning_code code) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == code) return rows[i].name;
    return "unknown";
}

const char *ct_warning_text(ct_warning_code code) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].code == code) return rows[i].text;
    return "unknown";
}

static ct_warning_code condition_of(const ct_body *body) {
    const double flat = CT_COLLAPSED_FRACTION * body->mesh->volume;
    if (body->kind == CT_BODY_RIGID || body->volume > flat) return CT_WARNING_NONE;
    return body->volume < -flat ? CT_WARNING_BODY_INVERTED : CT_WARNING_BODY_COLLAPSED;
}

void ct_scene_note_conditions(ct_scene *scene, const ct_update *updates, size_t n_updates) {
    for (size_t i = 0; i < n_updates; i++) {
        ct_body *body = updates[i].kind == CT_UPDATE_POSE ? NULL : ct_scene_find(scene, updates[i].body, NULL);
        if (!body) continue;
        const ct_warning_code now = condition_of(body);
        scene->n_warnings += (now != CT_WARNING_NONE) - (body->condition != CT_WARNING_NONE);
        body->condition = now;
    }
}

ct_status ct_scene_list_warnings(const ct_scene *scene, ct_result *result, ct_error *error) {
    if (scene->n_warnings == 0) return CT_OK;
    ct_warning *warnings = malloc(scene->n_warnings * sizeof *warnings);
    if (!warnings)
        return ct_fail(error, CT_OUT_OF_MEMORY, "result", "no memory for an answer of %u warnings", scene->n_warnings);
    size_t n = 0;
    for (uint32_t b = 0; b < scene->n_bodies; b++) {
        const ct_body *body = scene->bodies[b];
        if (body->condition != CT_WARNING_NONE)
            warnings[n++] = (ct_warning){.code = body->condition, .body = body->id, .value = body->volume};
    }
    result->warnings = warnings;
    result->n_warnings = n;
    return CT_OK;
}
