/* material.h - what a body is made of, for the contact law "pressure": the same for the engine, the wire and clients. */
#ifndef CT_MATERIAL_H
#define CT_MATERIAL_H

/* A field that is not given is NaN. The materials of two bodies in contact are combined:
 *     modulus      in series, 1 / (1 / k0 + 1 / k1); not given: that body is rigid, and the other's counts alone; of
 *                  neither: CT_DEFAULT_MODULUS
 *     friction     sqrt(m0 m1); not given: the other's counts; of neither: 0
 *     static_friction  as friction; of a body that has none its friction; of a pair never below the pair's friction
 *     dissipation  (k1 d0 + k0 d1) / (k0 + k1), the softer body's counting most; not given: the other's counts; of
 *                  neither: 0 */
typedef struct ct_material {
    double modulus;     /* N/m^3, above 0: pressure by depth, of a foundation beneath the surface */
    double friction;    /* 0 or more: Coulomb's coefficient, of surfaces that slide */
    double dissipation; /* s/m, 0 or more: pressure grows by this times the approach speed (Hunt and Crossley 1975) */
    double static_friction; /* friction or more: of surfaces that stick, see CT_STRIBECK */
} ct_material;

/* Needs math.h. */
#define CT_MATERIAL_NONE ((ct_material){NAN, NAN, NAN, NAN})

#define CT_DEFAULT_MODULUS 1e7

/* Friction falls from the static to the sliding coefficient around so many times the scene's stiction_speed: at the
 * speed v, r = v / (CT_STRIBECK stiction_speed), it is friction + (static_friction - friction) / (1 + r^4). Surfaces
 * that creep at a few times the stiction_speed still have all but 2 % of the static one. */
#define CT_STRIBECK 20.0

/* Largest values that are taken; the least modulus. */
#define CT_MAX_MODULUS     1e18
#define CT_MIN_MODULUS     1e-6
#define CT_MAX_FRICTION    1e3
#define CT_MAX_DISSIPATION 1e6

#endif
