/* contact_result.h - the result of a step, and what can be computed from it.
 * Part of contact.h, which says what holds of all: units, ownership, errors, threads. */
#ifndef CONTACT_RESULT_H
#define CONTACT_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/include/contact_engine.h"
#include "gpu/include/contact_pair.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- how a step went ---- */

typedef enum ct_phase {
    CT_PHASE_UPLOAD,     /* applying updates */
    CT_PHASE_BROADPHASE, /* boxes, pairs */
    CT_PHASE_RASTER,     /* rays against triangles */
    CT_PHASE_SPAN,       /* sorting crossings, winding numbers, spans, sums */
    CT_PHASE_CONTACT,    /* compaction, frames, forces; points, slip and separations */
    CT_PHASE_DOWNLOAD,   /* copying the answer to the host */
    CT_PHASES
} ct_phase;

const char *ct_phase_name(ct_phase phase); /* "upload" */

enum { CT_MAX_PASSES = 24 };

/* Why a method stopped working on a step: the last of these that holds of any of its pairs. */
typedef enum ct_ended {
    CT_ENDED_COMPLETED = 0,  /* everything asked for was computed; EBPI: every pair's bound is within the tolerance */
    CT_ENDED_RAY_BUDGET = 1, /* EBPI: a pair would have needed more rays than its budget */
    CT_ENDED_PASS_LIMIT = 2, /* EBPI: a pair was not done after CT_MAX_PASSES passes */
    CT_ENDED_PRECISION = 3,  /* EBPI: the lattice's precision or finest tile does not carry a pair's tolerance */
    CT_ENDED_LEVEL = 4,      /* VOXTREE: the trees go on below ct_scene_settings.level */
    CT_ENDED_PAIRS = 5,      /* VOXTREE: the next level did not fit ct_scene_settings.pair_budget */
    CT_ENDED_TIME = 6,       /* VOXTREE: the time budget was over */
} ct_ended;

const char *ct_ended_name(ct_ended ended); /* "ray_budget"; "unknown" for a number that is none */

/* How far a method that can be interrupted came with a pair of bodies. */
typedef struct ct_pair_progress {
    uint32_t body[2];  /* handles; body[0] < body[1] */
    bool is_examined;  /* false: no level was completed, so whether the bodies touch is not known: the pair is neither a
                          contact nor a separation. level is then 0 */
    bool is_refined;   /* the pair's contact is that of EXACT, with its error_bound, and with a sparse gradient if the
                          step wants one; if it has none, the bodies do not touch. Points are still the trees' */
    uint32_t level[2]; /* of the trees that the answer is from */
    ct_ended ended;    /* of a pair that is refined: COMPLETED */
} ct_pair_progress;

/* ---- warnings ---- */

/* A condition under which a body's contacts mean nothing or less than they seem to. Of several of one body a result has
 * that with the least number.
 *
 * A deformable body's signed volume is the volume that its surface encloses, counted negative where the surface is
 * inside out. A mesh has a positive one when it is created, but positions sent later may mirror the body, turn part of
 * it inside out or flatten it. An inverted body has no contacts, and a collapsed one hardly any. A body that is partly
 * inverted, but whose signed volume is above CT_COLLAPSED_FRACTION of its rest volume, gives no warning. Nor do rigid
 * bodies: their poses are rotations.
 *
 * Bodies of up to 16,384 triangles are looked at after every step that sends positions of theirs, larger ones after
 * every eighth, so that their warnings may begin and end up to seven such steps late. EXACT, whose contacts depend on
 * whether a body is inverted, looks at all of them.
 *
 * NO_VELOCITIES is about a step: with the law "pressure" a contact's material has friction or dissipation, which need
 * the step's velocities, and there are none. It names part 0 of the first such contact, and its volume. NESTED is about
 * contacts, too: it names the inner body of one that is_nested, and its volume, where the step wants a frame. The law
 * "pressure" pushes it out of a half-space, of which it does not warn, and the shortest way out of a rigid body, which may
 * be the wrong one. UNPLACED is about a pair that a scene with skip_unplaced leaves out: it names both bodies.
 *
 * Both conditions of volumes leave a margin around 0, so that the rounding of a flat body's positions to float32 does
 * not decide between the two.
 *
 * name, number, text. Numbers are never reused. */
#define CT_WARNING_MAP(X)                                                                                              \
    X(BODY_INVERTED, 1, "the body is inside out: its signed volume is negative")                                       \
    X(BODY_COLLAPSED, 2, "the body is flat: it encloses almost no volume")                                             \
    X(NO_VELOCITIES, 3, "the body's contact has friction or dissipation, and the step no velocities: neither acts")    \
    X(NESTED, 4, "the body is wholly inside another, and its volume has no gradient; move it back the way it came")    \
    X(UNPLACED, 5, "a pair of the body is left out: the two are too far apart in size or place for the coordinates")

typedef enum ct_warning_code {
    CT_WARNING_NONE = 0,
#define CT_WARNING_ENUM(name, number, text) CT_WARNING_##name = number,
    CT_WARNING_MAP(CT_WARNING_ENUM)
#undef CT_WARNING_ENUM
} ct_warning_code;

/* 1, of the rest volume (ct_mesh_info.volume): BODY_INVERTED is a signed volume below minus this fraction, and
 * BODY_COLLAPSED one that lies from minus this fraction to this fraction. */
#define CT_COLLAPSED_FRACTION 1e-6

const char *ct_warning_name(ct_warning_code code); /* "BODY_INVERTED"; "unknown" for a number that is none */
const char *ct_warning_text(ct_warning_code code);

/* Given by every step's result while the condition lasts. */
typedef struct ct_warning {
    ct_warning_code code;
    uint32_t body; /* handle */
    double value;  /* m^3: the body's signed volume, exact but for the rounding of each triangle's share to double; of
                      NO_VELOCITIES and NESTED the contact's; of UNPLACED NaN */
} ct_warning;

/* ---- results ---- */

typedef struct ct_result {
    size_t n_contacts;
    ct_contact *contacts; /* in rising order of (body[0], body[1], index) */
    uint64_t n_cells;
    ct_contact *cells;  /* [n_cells], or NULL: of all contacts, each's in rising order of cell[0], cell[1], cell[2]. The
                           functions below take contacts, not cells */
    uint64_t n_entries; /* length of the sparse arrays, which the contacts and cells of the step share: */
    uint32_t *vertices; /* [n_entries], or NULL where none of the following is wanted */
    double *gradient;   /* [n_entries][3], m^2, or NULL */
    double *weights;    /* [n_entries], m^2, or NULL */
    double *forces;     /* [n_entries][3], N, without friction, or NULL */
    double *friction_forces; /* [n_entries][3], N; NULL: the step has no velocities, no viscosity or, by the law
                                "pressure", no forces */
    bool has_slip;           /* the step had velocities */
    bool has_wrenches;       /* the scene has the law "pressure" */
    uint64_t n_spans;
    ct_span *spans; /* [n_spans], or NULL */
    uint64_t n_tiles;
    ct_ray_tile *tiles; /* [n_tiles], or NULL */
    uint64_t n_points;
    ct_point *points; /* [n_points], or NULL */
    size_t n_ended_ids;
    uint64_t
        *ended_ids; /* [n_ended_ids] in rising order, of a step that wants ids: of the contacts that the step before
                            it which wanted them had, and this one has not; NULL: none */
    uint64_t n_polygons, n_polygon_vertices;
    ct_surface_polygon *polygons; /* [n_polygons], or NULL: the step does not want a surface */
    uint32_t *polygon_first; /* [n_polygons + 1]: polygon i has the vertices from polygon_first[i] to [i + 1] - 1 */
    ct_surface_vertex *polygon_vertices; /* [n_polygon_vertices], each polygon's counter-clockwise about its normal */
    size_t n_separations;
    ct_separation
        *separations; /* [n_separations], in rising order of (body[0], body[1]); NULL: none within the margin */
    uint64_t n_progress;
    ct_pair_progress *progress; /* [n_progress] all pairs of bodies whose boxes overlap, those without a contact too;
                                   NULL (all methods but VOXTREE) */
    /* Of a step with directions d_0, d_1, ...: the exact second derivative H of the volume with respect to all vertices
     * of both bodies, times each of them. A direction moves a rigid body's vertices by its twist. Where surfaces
     * coincide H is the mean of those of both bodies moved apart by infinitesimal amounts either way, as the gradient
     * is; it does not count the jump that the gradient has there. H d is 0 for a common translation of all bodies. */
    uint32_t n_directions;       /* 1 + the largest index of the step's directions; 0: it has none */
    uint64_t n_products;         /* vertices in product_vertices, in rising order in each contact's part */
    uint32_t *product_vertices;  /* [n_products], or NULL */
    double *products;            /* [n_products][n_directions][3], m^2: d(gradient of the vertex) along the direction */
    double *generalized_product; /* [n_contacts][n_directions][2][6]: the derivative of generalized_gradient along the
                                    direction, whose arms start at the moving origin of a rigid body. For rigid bodies
                                    it is the Jacobian of force and torque that Newton's method needs: symmetric but
                                    for the rotation's own part, half of (rotation x torque) */
    uint32_t want;               /* the step's CT_WANT_* bits */
    ct_method method;
    ct_ended ended;
    double quality;  /* 0..1: how much of its work the method did; 1 if it completed */
    uint64_t pairs;  /* pairs whose boxes overlap and that no filter excludes; bodies with self_contact add one each */
    uint32_t passes; /* EBPI: passes over the tiles, of the pair that took most; else 0 */
    uint64_t rays;   /* ray samples cast; EBPI: also those of tiles that were then refined */
    uint64_t fragments; /* a measure of work. LDI: ray-triangle crossings kept, which are those that can bound a span;
                           exact: pairs of triangles that cross or nearly touch; VOXTREE: cubes compared with the
                           other body's */
    double seconds[CT_PHASES]; /* this step's part of the batch's time by phase, summed over threads */
    /* The same by the clock. What a batch's threads do side by side is shared out among its steps and phases in
     * proportion to `seconds`, so the sum over phases and over all steps of a batch is at most the time that the batch
     * took. */
    double wall_seconds[CT_PHASES];
    size_t n_warnings;
    ct_warning *warnings; /* [n_warnings], in rising order of body, at most one of each body; NULL if there is none */
} ct_result;

void ct_result_free(ct_result **result); /* nulls; NULL is allowed */

/* ---- products and frames ---- */

/* Whether the contact has a gradient of vertices: the step wanted it, and the method gives one. VOXTREE gives one of
 * pairs that it refined alone. */
bool ct_contact_has_gradient(const ct_result *result, size_t contact);

/* out -= k g (g . in) with g = dV/dx: the stiffness product K d of implicit integration (Faure 2008 equation 2),
 * without assembling K. in[i] and out[i] are dense [vertices of body[i]][3], or NULL: that body's part is left out; out is
 * added to, so contacts accumulate.
 * UNSUPPORTED, with nothing added: the contact has no gradient of vertices (above). For a contact of a body with itself
 * pass that body's arrays twice: in[0] == in[1], out[0] == out[1]. */
ct_status ct_contact_stiffness_product(const ct_result *result, size_t contact, double stiffness,
                                       const double *const in[2], double *const out[2]);

/* One body's part of vectors with three components for each vertex of each body. */
typedef struct ct_body_vectors {
    uint32_t body;     /* handle */
    uint64_t vertices; /* of the body */
    const double *in;  /* [n_vectors][vertices][3]; NULL: all 0 */
    double *out;       /* [n_vectors][vertices][3], added to; NULL: not wanted. It may not overlap any `in` */
} ct_body_vectors;

/* out += K d for n_vectors vectors d at once, over all contacts of a result: the sum of ct_contact_stiffness_product.
 * Bodies are in rising order of handle; one that is left out does not move. Each product has the same bits whatever
 * other vectors come with it. INVALID_ARGUMENT: the step did not want GRADIENT, or the bodies' order; UNSUPPORTED: a
 * contact has no gradient of vertices; WRONG_LENGTH: a contact has a vertex that `vertices` does not. A call that fails
 * has added nothing. */
ct_status ct_result_stiffness_products(const ct_result *result, double stiffness, const ct_body_vectors *bodies,
                                       size_t n_bodies, size_t n_vectors, ct_error *error);

/* out += H d for direction `direction` of the step, from ct_result.products: dense, as above. The exact
 * derivative of the penalty force -k V g along d is -k (V H d + g (g . d)); its second term is the product above. */
void ct_contact_hessian_product(const ct_result *result, size_t contact, uint32_t direction, double *const out[2]);

/* Makes the frames of a result follow those of the scene's step before, so that tangents do not jump: the tangents of
 * each contact that `previous` has too (the same bodies and index, both with a normal) become those there, projected
 * across the new normal and scaled. Without it tangents depend on the normal alone, continuously but at one direction;
 * with it, also on the results passed here before. Nothing else changes. For results that have frames. */
void ct_result_continue_frames(const ct_result *previous, ct_result *result);

/* The volume that a position solver leaves in the contact for its surfaces to overlap by `depth` (Allard 2010, the
 * target of equations 18 and 19): depth x area, m^3. */
double ct_contact_target_volume(const ct_contact *contact, double depth);

#ifdef __cplusplus
}
#endif
#endif
