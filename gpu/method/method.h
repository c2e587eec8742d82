/* method.h - the table of methods: each method's name, the limits it takes, and the backends that have it. For the
 * engine. */
#ifndef CT_METHODS_H
#define CT_METHODS_H

#include "gpu/method/backend.h"

/* Runs the steps whose status is OK (their updates have passed ct_update_check) and leaves the others alone: applies
 * the updates, computes the contacts, fills result and error. Every step's scene is on this device and has a method
 * that this function runs. Up to CT_MAX_CONCURRENT_BATCHES calls run at a time, with different scenes.
 *
 * A method that takes no limits always completes, so ct_engine_run fills ended and quality of its results. */
typedef void ct_method_run(ct_device *device, ct_step *steps, size_t n_steps);

/* What a mesh is used for in a scene. */
typedef struct ct_mesh_use {
    const ct_scene_settings *settings; /* as they run */
    ct_body_kind kind;                 /* of the body */
    bool meets_itself;                 /* the body's self_contact */
    bool on_cpu;                       /* the engine's backend is the CPU */
} ct_mesh_use;

typedef struct ct_method_row {
    ct_method method;
    /* What the rows of settings (proto/setting_rows.h) do not say: checks of several settings together. NULL: none. */
    ct_status (*check_settings)(const ct_scene_settings *settings, ct_error *error);
    bool takes_time_budget, takes_tolerance; /* fields of ct_step */
    bool gives_spans;                        /* false: a step that wants SPANS is refused */
    bool gives_tiles;                        /* false: a step that wants TILES is refused */
    bool takes_half_spaces;                  /* false: scenes with half-spaces are refused */
    const char *self_on[2];                  /* the backends that find contacts of a body with itself, or NULL */
    bool is_rigid_only;                      /* deformable bodies are refused */
    bool gives_no_gradient; /* of vertices: a step with velocities is refused, and one that wants forces */
    bool gives_second;      /* INERTIA and products with the second derivative; false: such steps are refused */
    /* Refuses a pair of bodies, or a body with itself, that the method's coordinates cannot hold. OUT_OF_RANGE,
     * LIMIT_EXCEEDED. NULL: there is none. */
    ct_status (*check_pair)(const ct_scene_settings *settings, const ct_body *const body[2], ct_error *error);
    /* Makes what the method derives from a mesh, the mesh's slots, so that no step has to wait for it, and holds those
     * that only live as long as they are held. OUT_OF_MEMORY, LIMIT_EXCEEDED. NULL: nothing. */
    ct_status (*prepare_mesh)(const ct_mesh_use *use, ct_mesh *mesh, ct_error *error);
    /* Drops what it held. NULL: nothing. */
    void (*unprepare_mesh)(const ct_scene_settings *settings, ct_mesh *mesh);
    ct_method_run *cpu, *cuda; /* NULL: the backend does not have the method */
} ct_method_row;

/* The row of a method. NULL with *error (UNSUPPORTED, listing this build's methods): there is no such row. */
const ct_method_row *ct_method_row_of(ct_method method, ct_error *error);

/* The method's function on the backend of this name. NULL: the backend does not have the method. */
ct_method_run *ct_method_run_on(const ct_method_row *row, const char *backend);

/* Checks the method, AUTO included, and the sampling, as the method reads it. UNSUPPORTED, INVALID_ARGUMENT,
 * OUT_OF_RANGE. */
ct_status ct_method_check_settings(const ct_scene_settings *settings, ct_error *error);

/* The method that a scene with these settings runs: theirs, or the one that AUTO stands for. */
ct_method ct_method_to_run(const ct_engine *engine, const ct_scene_settings *settings);

/* The method that a step runs: its scene's, but EBPI where the scene has AUTO without a sampling and the step names a
 * tolerance, if the backend has it. */
ct_method ct_method_of_step(const ct_step *step);

/* Refuses a pair of a step's scene that the step's method cannot place; see ct_method_row.check_pair. */
ct_status ct_method_check_pair(const ct_step *step, const ct_body *const body[2], ct_error *error);

/* The scene goes on without this pair: the coordinates cannot hold it. What is refused for its number of samples is not left
 * out, as a batch may need fewer of them than this check finds (LIMIT_EXCEEDED). */
bool ct_method_leaves_out(const ct_step *step, const ct_body *const body[2]);

/* Fills engine->run[] with the functions of engine->backend. */
void ct_engine_find_methods(ct_engine *engine);

/* The engine's function for a method. NULL: its backend does not have the method. */
ct_method_run *ct_engine_run_of(const ct_engine *engine, const ct_method_row *row);

/* UNSUPPORTED: the engine's backend does not have the method; the message lists the methods that it has. */
ct_status ct_method_check_engine(const ct_engine *engine, const ct_method_row *row, ct_error *error);

/* Makes what the method that these settings run derives from a mesh: when a body joins a scene, and when the scene's
 * settings change. OUT_OF_MEMORY, LIMIT_EXCEEDED. */
ct_status ct_method_prepare_mesh(const ct_mesh_use *use, ct_mesh *mesh, ct_error *error);

/* Drops it: once for each time that it was made with these settings. */
void ct_method_unprepare_mesh(const ct_scene_settings *running, ct_mesh *mesh);

/* UNSUPPORTED: what these settings run finds no contacts of a body with itself on the engine's backend. */
ct_status ct_method_check_self(const ct_engine *engine, const ct_scene_settings *running, ct_error *error);

/* UNSUPPORTED: the method takes no half-spaces. field: what is to blame. */
ct_status ct_method_check_half_spaces(const ct_method_row *row, const char *field, ct_error *error);

/* UNSUPPORTED: a scene with these settings takes no bodies of this kind. */
ct_status ct_method_check_kind(const ct_scene_settings *running, ct_body_kind kind, ct_error *error);

/* Checks the limits and wishes of a step: INVALID_ARGUMENT (the method does not take the limit, or gives no spans),
 * NON_FINITE, OUT_OF_RANGE; UNSUPPORTED or INVALID_ARGUMENT: the step's tolerance chose a method that does not take the
 * scene. */
ct_status ct_method_check_step(const ct_method_row *row, const ct_step *step, ct_error *error);

#endif
