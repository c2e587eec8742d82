/* material.h - materials of bodies and of pairs of them, for the contact law "pressure". */
#ifndef CT_SCENE_MATERIAL_H
#define CT_SCENE_MATERIAL_H

#include "gpu/include/contact.h"
#include "proto/material.h"

/* What is given here counts for these two bodies in place of what their own materials come to. */
typedef struct ct_pair_material {
    uint64_t key; /* ct_pair_key of two ids */
    ct_material material;
} ct_pair_material;

/* OUT_OF_RANGE: a field that is given; INVALID_ARGUMENT: static_friction is below friction. */
ct_status ct_material_check(const ct_material *material, ct_error *error);

/* What the materials of two bodies come to: every field is given. */
ct_material ct_material_of_pair(const ct_material *a, const ct_material *b);
/* The same with what the scene has for the pair itself. Handles and materials of two of its bodies. */
ct_material ct_scene_material_of(const ct_scene *scene, const uint32_t id[2], const ct_material *a,
                                 const ct_material *b);

/* What the scene has for pairs with the body, forgotten. */
void ct_scene_forget_materials(ct_scene *scene, uint32_t id);

#endif
