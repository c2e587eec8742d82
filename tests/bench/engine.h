/* engine.h - what the scenes of bench_engine share: its options, engines, mesh files, totals of a run, and the JSON
 * line that a run prints. */
#ifndef TESTS_BENCH_ENGINE_H
#define TESTS_BENCH_ENGINE_H

#include <stdbool.h>

#include "gpu/include/contact.h"
#include "tests/bench/samples.h"

/* The command line's options. */
extern const char *meshes_dir, *backend, *only;
extern double seconds_per_run;
extern unsigned max_threads;
void read_options(int argc, char **argv); /* ends the program where they are none */

enum { NO_BACKEND = 3 }; /* exit code */

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

bool is_wanted(const char *scene); /* --only does not exclude it */
extern bool was_wanted;            /* some scene */

ct_mesh *read_mesh_file(const char *name); /* of meshes_dir; NULL if there is no such file */

/* What runs a scene. */
typedef struct runner {
    const char *backend, *simd;
    unsigned threads;
    const char *rasterizer; /* NULL: the usual one */
} runner;

ct_engine *make_engine(const runner *runner); /* ends the program if there is no such backend */

/* ---- the outcome of a run ---- */

typedef struct run_totals { /* zero it first */
    bench_samples ms;       /* one per step */
    double phases[CT_PHASES];
    uint64_t rays, fragments, contacts, cells, entries;
    double volume;
    uint64_t hash;          /* of the results passed to hash_result */
    ct_engine_facts before; /* at the first counted step; a zeroed one counts from the engine's start */
} run_totals;

void add_result(run_totals *totals, const ct_result *result);
void hash_result(run_totals *totals, const ct_result *result);

typedef struct run_label {
    const char *scene;
    const char *bodies[2]; /* two kinds of bodies, and how many triangles each kind has in a scene */
    uint64_t triangles[2];
    size_t n_scenes;
    uint32_t resolution[3];
    ct_method method; /* NONE: LDI */
} run_label;

/* Prints means per step, and quantiles of the times. `more` is appended to the line's object: "" or ",\"name\":value".
 */
void print_run(const run_label *label, ct_engine *engine, run_totals *totals, const char *more);

#endif
