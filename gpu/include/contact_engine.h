/* contact_engine.h - methods, and engines that run them: options, devices, facts.
 * Part of contact.h, which says what holds of all: units, ownership, errors, threads. */
#ifndef CONTACT_ENGINE_H
#define CONTACT_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/include/contact_mesh.h"
#include "proto/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- methods ---- */

/* How contacts are computed. gpu/run/methods.c is the table of methods, and of the backends that have them. */
enum { CT_MAX_METHODS = 8 };

/* "ldi"; "auto"; "unknown" for a number that is no method of this build */
const char *ct_method_name(ct_method method);
ct_method ct_method_at(size_t i); /* the i-th method of this build, from 0; NONE: there are no more. Never AUTO */

/* ---- engines ---- */

typedef struct ct_engine ct_engine;

typedef struct ct_engine_options {
    uint32_t cookie;            /* set by ct_engine_options_init */
    const char *backend;        /* "cpu", "cuda", or "auto": cuda where a device ran a kernel, else cpu */
    const char *rasterizer;     /* "native", "egl", or "auto": native */
    const char *devices;        /* CUDA: "all", or device numbers such as "0,2"; at most CT_MAX_DEVICES */
    uint64_t max_device_bytes;  /* memory to use on each device; 0: most of what is free at the start */
    uint32_t threads;           /* CPU threads; 0: as many as the machine has */
    const char *simd;           /* "auto", or a name from ct_engine_facts.simd_available to force that code path */
    uint64_t max_scratch_bytes; /* a step that needs more scratch memory fails with OUT_OF_MEMORY; 0: no limit */
    uint32_t max_cells; /* of one contact; a step that needs more fails with LIMIT_EXCEEDED. At most CT_MAX_CELLS, and 0
                           is CT_DEFAULT_CELLS */
} ct_engine_options;

void ct_engine_options_init(ct_engine_options *options);
/* A backend asked for by name that cannot run is an error; "auto" goes on to the next one. UNSUPPORTED,
 * INVALID_ARGUMENT, OUT_OF_RANGE, OUT_OF_MEMORY, DEVICE_ERROR. Destroy it after its scenes. */
ct_status ct_engine_create(const ct_engine_options *options, ct_engine **out, ct_error *error);
void ct_engine_destroy(ct_engine **engine); /* nulls; NULL is allowed */

/* Batches that may run at a time on each device; a further ct_engine_run waits. On the CPU a batch that starts while
 * others run shares the processor with them: its caller's thread computes, and the pool's threads help the batch that
 * the fewest help. So a small step does not wait for a large one, nor a large one for a very long one. */
enum { CT_MAX_CONCURRENT_BATCHES = 5 };

enum { CT_MAX_DEVICES = 64 };
size_t ct_engine_device_count(const ct_engine *engine); /* at least 1 */

/* Why this backend was chosen: "asked for", or why "auto" rejected the ones before it. For logs. */
const char *ct_engine_reason(const ct_engine *engine);

/* The methods that this engine's backend has; returns how many. The same on all of its devices. */
size_t ct_engine_methods(const ct_engine *engine, ct_method out[CT_MAX_METHODS]);
/* The method that AUTO runs on this engine in scenes that name no sampling: EXACT if the backend has it, else LDI. */
ct_method ct_engine_auto_method(const ct_engine *engine);

typedef struct ct_engine_facts { /* of one device; each device has its own */
    char backend[16];            /* "cpu", "cuda" */
    char rasterizer[16];         /* "native", "egl" */
    char device[96];             /* e.g. the processor's name */
    char simd[16];               /* e.g. "avx2"; empty for a backend without SIMD paths */
    char simd_available[64];     /* separated by spaces */
    uint32_t threads;
    uint64_t scratch_bytes; /* held now */
    uint64_t scratch_peak;  /* high-water mark */

    /* Of a device with memory of its own, else 0: */
    uint64_t memory_budget;                /* bytes that the engine may use */
    uint64_t memory_used;                  /* bytes: meshes, bodies and scratch */
    uint64_t memory_meshes, memory_bodies; /* bytes, of memory_used */
    uint64_t uploaded, downloaded;         /* bytes copied since the start */
    uint64_t launches;                     /* kernels launched since the start */
    uint64_t reruns; /* batches computed again because a buffer was too small; stops rising once buffers have grown */
    uint64_t clusters, near_clusters; /* since the start: runs of 128 triangles of the bodies of all pairs, and those of
                                         them that were looked at because they can matter to the pair */

    uint64_t scenes, triangles; /* scenes opened on this device; triangles of all their bodies */
    bool lost;                  /* the device failed for good: every further step on it fails with DEVICE_ERROR */
    char lost_reason[128];
} ct_engine_facts;

void ct_engine_get_facts(const ct_engine *engine, size_t device, ct_engine_facts *facts); /* device < count */

/* Frees the devices' copies of a mesh that no body uses. Without this call they are freed when memory runs short. */
void ct_engine_forget_mesh(ct_engine *engine, const ct_mesh *mesh);

/* Bytes of the devices' own memory that hold the mesh of this hash, summed over the devices. */
uint64_t ct_engine_mesh_bytes(ct_engine *engine, const char *hash);

/* Frees the working memory that no step has used for so many seconds (0: since the last one ended). Steps keep it for
 * those that follow; the next large one allocates it anew. Beside steps that run, on any thread. Returns the bytes
 * freed. */
uint64_t ct_engine_release_scratch(ct_engine *engine, double seconds);

#ifdef __cplusplus
}
#endif
#endif
