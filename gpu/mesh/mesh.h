/* mesh.h - a mesh inside the engine: flat arrays that never change, and slots for what methods derive from them. */
#ifndef CT_MESH_H
#define CT_MESH_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/include/contact.h"

/* Something that a method derives from a mesh and keeps with it: edge adjacency, a tree. Each kind is one static
 * struct, whose address is the slot's key. What all users of a mesh are likely to need lives as long as the mesh
 * (ct_mesh_slot_get); what is large and depends on a scene's settings is held by the bodies that need it. */
typedef struct ct_mesh_slot_kind {
    const char *name; /* "edge adjacency" */
    /* Makes the content and sets *bytes to the host memory that it holds. NULL with *error: OUT_OF_MEMORY, naming what
     * the memory was for; LIMIT_EXCEEDED: ct_mesh_ask_room; CANCELLED. May ask for slots of other kinds of the same
     * mesh, without a cycle. Called by one thread at a time for each mesh and kind. What it makes while the thread's
     * work is cancelled is destroyed, so loops that return nothing may just end early. */
    void *(*make)(ct_mesh *mesh, uint64_t *bytes, ct_error *error);
    void (*destroy)(void *content);
} ct_mesh_slot_kind;

typedef struct ct_mesh_slot ct_mesh_slot;

struct ct_mesh {
    atomic_uint references;
    uint32_t n_vertices;
    uint32_t n_triangles;
    uint32_t components, n_shells, n_doubled; /* see ct_mesh_info */
    ct_closing closing;
    double deviation;
    double center_of_mass[3], inertia[3][3];
    float *positions;      /* [n_vertices][3], m, from `origin` */
    double origin[3];      /* m, in the coordinates given; 0 but for doubles that float32 would round (split.h) */
    float *low;            /* [n_vertices][3] what float32 leaves of these positions; NULL: nothing */
    uint32_t *triangles;   /* [n_triangles][3], in the order of order.h. Each is rotated so that the corner with the
                            lexicographically smallest rest position comes first: results then do not depend on the
                            order in the file */
    uint32_t n_closing;    /* the last of the vertices: copies of the rim of a surface that was given open */
    uint32_t *rim;         /* [n_closing] the vertices that they are copies of */
    bool has_shared_edges; /* edges of more than two triangles, where parts touch; edge_pairs.h */
    uint32_t n_strays;     /* vertices that no triangle uses. `positions` has them where the vertex `anchor` is, which a
                            triangle uses, so that they count nowhere; strays.h */
    uint32_t *strays;      /* [n_strays], rising */
    uint32_t anchor;
    float *as_given;                   /* [n_vertices][3] with strays where they were given; NULL: there are none */
    double volume, area, lo[3], hi[3]; /* as center_of_mass from the origin */
    uint8_t hash[16];                  /* of counts, positions and triangles as given, before ordering and rotation */

    _Atomic(ct_mesh_slot *) slots;   /* linked list; slots are only ever added at its head, and freed with the mesh.
                                        Their content may be freed before */
    atomic_uint_fast64_t slot_bytes; /* host memory that the slots hold */
    pthread_mutex_t lock;            /* guards `making`, the slots' holders, and content that comes and goes; held for
                                        moments only */
    pthread_cond_t made;             /* some slot was made, or could not be */
    struct ct_mesh_making *making;   /* the slots that threads make now, the latest first */
    ct_mesh_room room;
};

/* The vertices that callers know: positions, velocities and directions of a body have those alone. */
static inline uint32_t ct_mesh_given(const ct_mesh *mesh) {
    return mesh->n_vertices - mesh->n_closing;
}

/* The given vertex that a vertex moves with: itself, or that of the rim which it is a copy of. */
static inline uint32_t ct_mesh_moves_with(const ct_mesh *mesh, uint32_t vertex) {
    const uint32_t given = ct_mesh_given(mesh);
    return vertex < given ? vertex : mesh->rim[vertex - given];
}

/* m, the largest |coordinate| of a position, from the origin. */
static inline double ct_mesh_reach(const ct_mesh *mesh) {
    double reach = 0;
    for (int k = 0; k < 3; k++) {
        const double lo = mesh->lo[k] < 0 ? -mesh->lo[k] : mesh->lo[k],
                     hi = mesh->hi[k] < 0 ? -mesh->hi[k] : mesh->hi[k];
        if (lo > reach) reach = lo;
        if (hi > reach) reach = hi;
    }
    return reach;
}

/* Returns the mesh's content of this kind, which lives as long as the mesh, or as long as somebody holds it. The first
 * caller makes it while other callers of this kind wait, each for as long as its own work is not cancelled; later it is
 * found without a lock. Different kinds are made side by side. NULL with *error: it could not be made, or the caller's
 * work was cancelled; the next call, or one that waits, tries again. On any thread. */
const void *ct_mesh_slot_get(ct_mesh *mesh, const ct_mesh_slot_kind *kind, ct_error *error);

/* As ct_mesh_slot_get, and keeps the content until ct_mesh_slot_drop. The last that drops it frees it. */
const void *ct_mesh_slot_hold(ct_mesh *mesh, const ct_mesh_slot_kind *kind, ct_error *error);
void ct_mesh_slot_drop(ct_mesh *mesh, const ct_mesh_slot_kind *kind);

/* For a kind's `make`, on its thread, before it allocates what it returns, at most once: false with *error where
 * whoever bounds the memory of meshes (ct_mesh_set_room) refuses so many bytes. */
bool ct_mesh_ask_room(ct_mesh *mesh, uint64_t bytes, ct_error *error);

/* The default options with these limits; NULL: the default ones. */
ct_mesh_options ct_mesh_options_of(const ct_mesh_limits *limits);
/* INVALID_ARGUMENT, NON_FINITE, OUT_OF_RANGE. */
ct_status ct_mesh_options_check(const ct_mesh_options *options, ct_error *error);

#endif
