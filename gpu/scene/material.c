/* material.c - what the materials of two bodies come to, and pairs with materials of their own. */
#include "gpu/scene/material.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/scene/scene.h"

/* ---- checks ---- */

/* NaN: not given. */
static ct_status check_number(double value, double least, double most, const char *field, const char *unit,
                              ct_error *error) {
    if (isnan(value) || (value >= least && value <= most)) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, field, "%s is %g, expected %g to %g%s", field, value, least, most, unit);
}

ct_status ct_material_check(const ct_material *m, ct_error *error) {
    ct_status status = check_number(m->modulus, CT_MIN_MODULUS, CT_MAX_MODULUS, "modulus", " N/m^3", error);
    if (!status) status = check_number(m->friction, 0, CT_MAX_FRICTION, "friction", "", error);
    if (!status) status = check_number(m->dissipation, 0, CT_MAX_DISSIPATION, "dissipation", " s/m", error);
    if (!status) status = check_number(m->static_friction, 0, CT_MAX_FRICTION, "static_friction", "", error);
    if (!status && m->static_friction < m->friction)
        status = ct_fail(error, CT_INVALID_ARGUMENT, "static_friction",
                         "static_friction is %g, below friction, which is %g: what sticks holds at least as well as "
                         "what slides",
                         m->static_friction, m->friction);
    return status;
}

/* ---- of two bodies ---- */

static double given_or(double of, double other) {
    return isnan(of) ? other : of;
}

static double mean_friction(double a, double b) {
    return sqrt(given_or(given_or(a, b), 0) * given_or(given_or(b, a), 0));
}

ct_material ct_material_of_pair(const ct_material *a, const ct_material *b) {
    const double ka = given_or(a->modulus, INFINITY), kb = given_or(b->modulus, INFINITY);
    const double da = given_or(given_or(a->dissipation, b->dissipation), 0),
                 db = given_or(given_or(b->dissipation, a->dissipation), 0);
    ct_material pair = {.friction = mean_friction(a->friction, b->friction),
                        .static_friction = mean_friction(given_or(a->static_friction, a->friction),
                                                         given_or(b->static_friction, b->friction))};
    pair.static_friction = fmax(pair.static_friction, pair.friction);
    if (isinf(ka) && isinf(kb)) {
        pair.modulus = CT_DEFAULT_MODULUS;
        pair.dissipation = (da + db) / 2;
    } else if (isinf(ka) || isinf(kb)) {
        pair.modulus = isinf(ka) ? kb : ka;
        pair.dissipation = isinf(ka) ? db : da;
    } else {
        pair.modulus = ka * kb / (ka + kb);
        pair.dissipation = (kb * da + ka * db) / (ka + kb);
    }
    return pair;
}

/* ---- of pairs ---- */

/* Where the key is, or would be. */
static size_t find_place(const ct_scene *scene, uint64_t key) {
    size_t lo = 0, hi = scene->n_pair_materials;
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (scene->pair_materials[middle].key < key)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

static bool is_at(const ct_scene *scene, size_t place, uint64_t key) {
    return place < scene->n_pair_materials && scene->pair_materials[place].key == key;
}

ct_material ct_scene_material_of(const ct_scene *scene, const uint32_t id[2], const ct_material *a,
                                 const ct_material *b) {
    ct_material pair = ct_material_of_pair(a, b);
    if (!scene->n_pair_materials) return pair;
    const uint64_t key = ct_pair_key(id[0], id[1]);
    const size_t place = find_place(scene, key);
    if (!is_at(scene, place, key)) return pair;
    const ct_material *own = &scene->pair_materials[place].material;
    pair.modulus = given_or(own->modulus, pair.modulus);
    pair.friction = given_or(own->friction, pair.friction);
    pair.dissipation = given_or(own->dissipation, pair.dissipation);
    /* A pair with a friction of its own sticks by that, and not by what its bodies are made of. */
    pair.static_friction = given_or(own->static_friction, given_or(own->friction, pair.static_friction));
    pair.static_friction = fmax(pair.static_friction, pair.friction);
    return pair;
}

static bool is_none(const ct_material *m) {
    return isnan(m->modulus) && isnan(m->friction) && isnan(m->dissipation) && isnan(m->static_friction);
}

static void drop_pair(ct_scene *scene, size_t place) {
    ct_pair_material *at = scene->pair_materials + place;
    memmove(at, at + 1, (--scene->n_pair_materials - place) * sizeof *at);
}

static ct_status set_pair(ct_scene *scene, uint64_t key, const ct_material *material, ct_error *error) {
    const size_t place = find_place(scene, key);
    const bool is_known = is_at(scene, place, key);
    if (is_none(material)) {
        if (is_known) drop_pair(scene, place);
        return CT_OK;
    }
    if (!is_known) {
        if (scene->n_pair_materials == scene->pair_material_capacity) {
            const size_t capacity = scene->pair_material_capacity ? 2 * scene->pair_material_capacity : 8;
            ct_pair_material *larger = realloc(scene->pair_materials, capacity * sizeof *larger);
            if (!larger)
                return ct_fail(error, CT_OUT_OF_MEMORY, "material", "no memory for the materials of %zu pairs",
                               scene->n_pair_materials + 1);
            scene->pair_materials = larger;
            scene->pair_material_capacity = capacity;
        }
        ct_pair_material *at = scene->pair_materials + place;
        memmove(at + 1, at, (scene->n_pair_materials++ - place) * sizeof *at);
        at->key = key;
    }
    scene->pair_materials[place].material = *material;
    return CT_OK;
}

ct_status ct_scene_set_material(ct_scene *scene, uint32_t id, uint32_t other, const ct_material *material,
                                ct_error *error) {
    ct_body *body = ct_scene_find(scene, id, error);
    if (!body || (other && !ct_scene_find(scene, other, error))) return CT_NOT_FOUND;
    const ct_status status = ct_material_check(material, error);
    if (status) return status;
    if (other) return set_pair(scene, ct_pair_key(id, other), material, error);
    body->material = *material;
    return CT_OK;
}

void ct_scene_forget_materials(ct_scene *scene, uint32_t id) {
    size_t kept = 0;
    for (size_t i = 0; i < scene->n_pair_materials; i++) {
        const uint64_t key = scene->pair_materials[i].key;
        if ((uint32_t)key != id && (uint32_t)(key >> 32) != id)
            scene->pair_materials[kept++] = scene->pair_materials[i];
    }
    scene->n_pair_materials = kept;
}
