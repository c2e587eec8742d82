/* warnings.c - what a step warns of: signed volumes of deformable bodies, bodies that are wholly inside others, velocities that
 * are missing, and pairs that are left out. */
#include "gpu/after/warnings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/method/method.h"

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

/* The first contact whose friction or dissipation wants velocities that the step does not have; NULL: none. */
static const ct_contact *first_without_velocities(const ct_step *step, const ct_result *result) {
    const ct_scene *scene = step->scene;
    if (scene->settings.law != CT_LAW_PRESSURE || step->n_velocities) return NULL;
    for (size_t i = 0; i < result->n_contacts; i++) {
        const ct_contact *contact = &result->contacts[i];
        const ct_body *a = ct_scene_find(scene, contact->body[0], NULL),
                      *b = ct_scene_find(scene, contact->body[1], NULL);
        if (!a || !b) continue;
        const ct_material material = ct_scene_material_of(scene, contact->body, &a->material, &b->material);
        if (material.static_friction > 0 || material.dissipation > 0) return contact;
    }
    return NULL;
}

/* With the law a half-space's normal says the right way out; the shortest way out of a body may be the wrong one. */
static bool is_stuck(const ct_scene *scene, const ct_contact *contact) {
    if (!contact->is_nested || scene->settings.law != CT_LAW_PRESSURE) return contact->is_nested;
    const ct_body *outer = ct_scene_find(scene, contact->body[1 - contact->inner_part], NULL);
    return outer && !outer->is_half_space;
}

static size_t count_stuck(const ct_scene *scene, const ct_result *result) {
    size_t n = 0;
    for (size_t i = 0; i < result->n_contacts; i++) n += is_stuck(scene, &result->contacts[i]);
    return n;
}

/* A pair of the step's scene that the step has left out. bodies: of the pair. */
static bool is_left_out(const ct_step *step, size_t pair, const ct_body *bodies[2]) {
    const ct_scene *scene = step->scene;
    bodies[0] = scene->bodies[scene->broad.pairs[pair].a];
    bodies[1] = scene->bodies[scene->broad.pairs[pair].b];
    return ct_method_leaves_out(step, bodies);
}

static size_t count_left_out(const ct_step *step) {
    const ct_body *bodies[2];
    size_t n = 0;
    for (size_t p = 0; step->scene->settings.skip_unplaced && p < step->scene->broad.n_pairs; p++)
        n += is_left_out(step, p, bodies);
    return n;
}

static int by_body(const void *a, const void *b) {
    const ct_warning *p = a, *q = b;
    if (p->body != q->body) return p->body < q->body ? -1 : 1;
    if (p->code != q->code) return p->code < q->code ? -1 : 1;
    return (p->value < q->value) - (p->value > q->value);
}

/* In order of bodies; of a body's warnings the gravest alone, of the largest contact. */
static size_t sort_warnings(ct_warning *warnings, size_t n) {
    size_t kept = 0;
    qsort(warnings, n, sizeof *warnings, by_body);
    for (size_t i = 0; i < n; i++)
        if (!kept || warnings[kept - 1].body != warnings[i].body) warnings[kept++] = warnings[i];
    return kept;
}

ct_status ct_step_list_warnings(const ct_step *step, ct_result *result, ct_error *error) {
    const ct_scene *scene = step->scene;
    const ct_contact *still = first_without_velocities(step, result);
    const size_t n_stuck = count_stuck(scene, result), n_left_out = count_left_out(step),
                 room = (size_t)scene->n_warnings + n_stuck + 2 * n_left_out + (still ? 1 : 0);
    if (room == 0) return CT_OK;
    ct_warning *warnings = malloc(room * sizeof *warnings);
    if (!warnings) return ct_fail(error, CT_OUT_OF_MEMORY, "result", "no memory for an answer of %zu warnings", room);
    size_t n = 0;
    for (uint32_t b = 0; b < scene->n_bodies; b++) {
        const ct_body *body = scene->bodies[b];
        if (body->condition != CT_WARNING_NONE)
            warnings[n++] = (ct_warning){.code = body->condition, .body = body->id, .value = body->volume};
    }
    if (still)
        warnings[n++] = (ct_warning){.code = CT_WARNING_NO_VELOCITIES, .body = still->body[0], .value = still->volume};
    for (size_t i = 0; i < result->n_contacts && n_stuck; i++) {
        const ct_contact *contact = &result->contacts[i];
        if (is_stuck(scene, contact))
            warnings[n++] = (ct_warning){
                .code = CT_WARNING_NESTED, .body = contact->body[contact->inner_part], .value = contact->volume};
    }
    for (size_t p = 0; n_left_out && p < scene->broad.n_pairs; p++) {
        const ct_body *bodies[2];
        if (!is_left_out(step, p, bodies)) continue;
        for (int b = 0; b < 2; b++)
            warnings[n++] = (ct_warning){.code = CT_WARNING_UNPLACED, .body = bodies[b]->id, .value = NAN};
    }
    result->warnings = warnings;
    result->n_warnings = sort_warnings(warnings, n);
    return CT_OK;
}
