/* settings.h - the settings of a scene, and the enumerations in them: for the engine, the wire and the C client.
 * Generated from proto/catalogue/settings.toml and methods.toml by `make catalogue`. */
#ifndef CT_SETTINGS_H
#define CT_SETTINGS_H

#include <stdint.h>

/* clang-format off */

/* ---- limits ---- */

#define CT_MAX_RESOLUTION  4096
#define CT_MAX_RAY_BUDGET  268435456
#define CT_MIN_VOXEL_LEVEL 3
#define CT_MAX_VOXEL_LEVEL 8
#define CT_MAX_POINTS      4096

/* ---- choices ---- */

/* How contacts are computed. AUTO is a setting, not a method: no result has it. */
typedef enum ct_method {
    CT_METHOD_NONE = 0,
    CT_METHOD_AUTO = 3, /* exact, but ldi with a sampling, and ebpi with a tolerance */
    CT_METHOD_LDI = 1, /* layered depth images: rays along x, y and z (Faure 2008; Allard 2010) */
    CT_METHOD_EXACT = 2, /* closed form, with a proven bound */
    CT_METHOD_EBPI = 4, /* rays refined to a requested precision (Wang 2012) */
    CT_METHOD_VOXTREE = 5, /* voxel trees, interruptible (Dingliana 2005) */
} ct_method;

/* What forces follow from: the volume of each contact, or a pressure that bodies' materials give (modulus, friction, dissipation). */
typedef enum ct_law {
    CT_LAW_VOLUME = 0, /* forces are -k V dV/dx, of the energy E = k V^2 / 2 (Faure 2008), with the setting stiffness */
    /* an elastic foundation: a pressure of modulus times depth on the contact's area, Coulomb friction, and dissipation
       (Hunt and Crossley 1975) */
    CT_LAW_PRESSURE = 1,
} ct_law;

/* Which parts of the views get more rays. */
typedef enum ct_allocation {
    /* the fewest rays for a sum of bounds within the tolerance: one multiplier for all tiles */
    CT_ALLOCATION_OPTIMAL = 0,
    /* an equal part of the tolerance for each pixel, tiles of one size in it, and pixels gathered where they need no
       rays of their own (Wang 2012, section 4.3) */
    CT_ALLOCATION_PUBLISHED = 1,
    CT_ALLOCATION_PER_PIXEL = 2, /* the same without gathering */
} ct_allocation;

/* ---- the settings ---- */

/* ct_scene_settings_init makes them complete, with their defaults. Of a method in capitals: other methods refuse
 * what is not 0 (INVALID_ARGUMENT). */
typedef struct ct_scene_settings {
    uint32_t cookie; /* set by ct_scene_settings_init */
    /* one of the server's methods, or auto: exact, but ldi together with a resolution or a pixel size, and ebpi
       together with a tolerance. A change of the method drops the settings that the new one does not take, but is
       refused beside patches, which stay */
    ct_method method;
    /* LDI: ray samples across a contact's window along x, y, z (Faure 2008); 0: not named; ldi takes 64 */
    uint32_t resolution[3];
    /* m, LDI: pitch of a lattice of rays that is fixed in the world (Allard 2010), instead of a resolution; 0: none */
    double pixel_size;
    /* N/m^5: factor k of the penalty energy E = k V^2 / 2; scales forces; 0: no forces */
    double stiffness;
    /* EXACT: what forces follow from: the volume of each contact, or a pressure that bodies' materials give (modulus,
       friction, dissipation). With the law pressure auto runs exact, and steps have wrenches */
    ct_law law;
    /* m/s, EXACT: law pressure: the sliding speed at which friction reaches 0.71 of its limit; below it surfaces stick,
       but for a creep of some of it; 0: 0.001 */
    double stiction_speed;
    /* EXACT: each connected piece of a pair's intersection is a contact, the largest first; they add up to the pair's.
       With patches auto runs exact; a sampling and patches exclude each other */
    int8_t patches;
    /* m^3, EBPI: bound of the error of each contact's volume to reach; a step may name its own; 0: none */
    double tolerance;
    /* EBPI: the same as a fraction of the volume; of both the larger counts; 0: none */
    double tolerance_rel;
    /* EBPI: whether the bound is proven, or else the published one, which a contact is computed by unless its views
       refute it */
    int8_t strict;
    /* EBPI: each pair's views lie along axes that few of its faces are parallel to (Wang 2012, section 4.4), instead of
       the world's. volumes and error_bounds are then of those views; all else is in world axes. The axes are found from
       the faces in each step anew, so answers do not depend on earlier steps */
    int8_t optimize_directions;
    /* EBPI: which parts of the views get more rays */
    ct_allocation allocation;
    /* EBPI: rays that a pair may cast, those of refined tiles included; 0: the default, 1048576. A ray takes some 200
       bytes of working memory, and 4 more for each face over its tile */
    uint64_t ray_budget;
    /* m, LDI: contacts are also given in cells: cubes of this size, fixed in the world, one of whose corners is the
       origin (Allard 2010, section 5); 0: none. With a cell size auto runs ldi */
    double cell_size;
    /* m: pairs of bodies without a contact that are closer than this are listed with their distance, as separations; 0:
       none */
    double margin;
    /* LDI, EXACT, EBPI: pairs of bodies that are too far apart in size or place for the method's coordinates are left
       out, with a warning for each body, instead of failing the step */
    int8_t skip_unplaced;
    /* s: a step that takes longer is cancelled with TIME_LIMIT, and has changed nothing; lowered to the server's limit
       where it is above it; 0: the server's limit */
    double max_step_time;
    /* VOXTREE: finest level of the meshes' voxel trees, which are made when a body is added; 0: one that suits each
       mesh: cubes about as large as its triangles, 5 to 7. Level l divides the cube around a mesh into 2^l cubes along
       each axis */
    uint32_t voxel_level;
    /* VOXTREE: no tree is followed below this level, which is at most voxel_level; 0: all levels */
    uint32_t level;
    /* VOXTREE: pairs of a cube and the cubes that it may meet which a step may compare, shared by its pairs of bodies,
       the deepest overlaps first; 0: no limit */
    uint64_t pair_budget;
    /* points of each contact, by every method: the ones that matter most; 0: none, of voxtree 8. With points a step
       wants the frame and friction weights as well */
    uint32_t max_points;
    /* VOXTREE: points' normals along the line of the cubes' centres (Dingliana 2005, section 3.2), instead of from the
       gradients of occupancies */
    int8_t center_normals;
    /* VOXTREE: points are plain means (Dingliana 2005, equations 7 and 8), instead of weighted with probabilities */
    int8_t plain_average;
    /* VOXTREE: after the trees, pairs in contact are computed by exact, the largest volumes first: all of them, or with
       a time budget those expected to fit the time left */
    int8_t refine;
} ct_scene_settings;

/* The rows of ct_setting_rows (setting_rows.h), in their order. */
typedef enum ct_setting {
    CT_SETTING_METHOD,
    CT_SETTING_RESOLUTION,
    CT_SETTING_PIXEL_SIZE,
    CT_SETTING_STIFFNESS,
    CT_SETTING_LAW,
    CT_SETTING_STICTION_SPEED,
    CT_SETTING_PATCHES,
    CT_SETTING_TOLERANCE,
    CT_SETTING_TOLERANCE_REL,
    CT_SETTING_STRICT,
    CT_SETTING_OPTIMIZE_DIRECTIONS,
    CT_SETTING_ALLOCATION,
    CT_SETTING_RAY_BUDGET,
    CT_SETTING_CELL_SIZE,
    CT_SETTING_MARGIN,
    CT_SETTING_SKIP_UNPLACED,
    CT_SETTING_MAX_STEP_TIME,
    CT_SETTING_VOXEL_LEVEL,
    CT_SETTING_LEVEL,
    CT_SETTING_PAIR_BUDGET,
    CT_SETTING_MAX_POINTS,
    CT_SETTING_CENTER_NORMALS,
    CT_SETTING_PLAIN_AVERAGE,
    CT_SETTING_REFINE,
    CT_SETTINGS,
} ct_setting;

/* Settings of a request: those whose bit, 1 << CT_SETTING_..., is in `given`; the others are 0. */
typedef struct ct_settings_change {
    uint64_t given;
    ct_scene_settings to;
} ct_settings_change;

/* clang-format on */

#endif
