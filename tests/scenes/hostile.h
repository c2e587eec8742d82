/* hostile.h - meshes that make steps long: valid ones, small for what they cost, to show that every step ends. For
 * fuzzing, benches and tests of time limits.
 *
 * Each kind takes how many triangles it may have at most, and comes in two variants that are meant to be put into one
 * place. ct_mesh_create accepts all of them. The caller frees each with shape_free.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include "tests/scenes/shapes.h"

/* kind, name. All fit into a box of a few metres about the origin. */
#define HOSTILE_MAP(X)                                                                                                 \
    /* Parallel, along (1,1,1): all boxes overlap, nothing touches. The other lies between them. */                    \
    X(NEEDLES, "needles")                                                                                              \
    /* Spikes that share the vertex at the origin; the other is mirrored. */                                           \
    X(STAR, "star")                                                                                                    \
    /* A double cone: all triangles are at one of the ends of its axis; the other is turned by half a triangle. */     \
    X(FAN, "fan")                                                                                                      \
    /* Thin tetrahedra along x, along y for the other: n x n patches. */                                               \
    X(COMB, "comb")                                                                                                    \
    /* The same of boxes of many sizes, which are what the Cantor set leaves out. */                                   \
    X(CANTOR, "cantor")                                                                                                \
    /* Bristles along z; the other is one box that all of them pierce. */                                              \
    X(BRUSH, "brush")                                                                                                  \
    /* Cubes that meet along edges; the other's are half a cube higher. */                                             \
    X(CHECKERBOARD, "checkerboard")                                                                                    \
    /* Boxes in one place, in the other too. */                                                                        \
    X(LAYERS, "layers")                                                                                                \
    /* Boxes in boxes, every third one inside out; the other is a little aside. */                                     \
    X(SHELLS, "shells")                                                                                                \
    /* Menger's sponge; the other is half of its smallest hole aside. */                                               \
    X(SPONGE, "sponge")                                                                                                \
    /* Permutohedra that fill space, so that all faces coincide; the other is half a cell aside. */                    \
    X(PERMUTOHEDRA, "permutohedra")                                                                                    \
    /* A ball whose vertices are thrown about in a cube: each triangle crosses most others. */                         \
    X(CRUMPLED, "crumpled")                                                                                            \
    /* Tetrahedra whose edges of thousands of vertices are joined by slivers in four planes. */                        \
    X(SLIVERS, "slivers")                                                                                              \
    /* A ribbon of many turns; the other lies between them. */                                                         \
    X(SPIRAL, "spiral")                                                                                                \
    /* A tube around a torus knot, so thick that it overlaps itself; the other is turned. */                           \
    X(KNOT, "knot")                                                                                                    \
    /* A box with small cubes in and around it, half of which are inside out. */                                       \
    X(INSIDE_OUT, "inside_out")                                                                                        \
    /* Cubes scattered in a slab; the other is the slab. */                                                            \
    X(CLOUD, "cloud")                                                                                                  \
    /* A wavy sheet whose two sides coincide but for one vertex. */                                                    \
    X(SHEET, "sheet")                                                                                                  \
    /* Cubes far smaller than a step of the lattice, in one place, and a box that makes the lattice coarse. */         \
    X(SPECKS, "specks")                                                                                                \
    /* Saw teeth along x, along y for the other: connected, and n x n patches. */                                      \
    X(SAW, "saw")                                                                                                      \
    /* Nothing special, but that two of them in one place coincide. */                                                 \
    X(BALL, "ball")                                                                                                    \
    /* Some of the above, at random. */                                                                                \
    X(MIXTURE, "mixture")

typedef enum hostile_kind {
#define HOSTILE_ENUM(kind, name) HOSTILE_##kind,
    HOSTILE_MAP(HOSTILE_ENUM)
#undef HOSTILE_ENUM
        HOSTILE_KINDS
} hostile_kind;

const char *hostile_name(hostile_kind kind);
hostile_kind hostile_find(const char *name); /* HOSTILE_KINDS: there is none of that name */

/* A shape of at most so many triangles, or the smallest of its kind. `triangles` below 2^24. Some kinds have few sizes,
 * or a box as their second variant.
 * variant: 0 or 1. seed: of what is random in it. */
struct shape hostile_shape(hostile_kind kind, uint32_t triangles, int variant, uint64_t seed);

/* Of its positions and triangles as they are sent to a server. */
uint64_t hostile_bytes(const struct shape *shape);

#endif
