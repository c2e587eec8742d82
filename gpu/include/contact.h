/* contact.h - the engine's public interface: meshes, scenes of bodies, and steps that compute contacts.
 *
 * Make an engine and some meshes, open a scene, add bodies to it, then step: each step moves bodies and returns, for
 * every pair of bodies that overlap, the volume of their intersection, its gradient with respect to every vertex, and
 * quantities that follow from the two (contact frame, friction weights, penalty forces). The method (ct_method) decides
 * how the volume is computed. The engine knows nothing of sockets or servers.
 *
 * Each noun has a header; this one includes them all:
 *
 *     contact_status.h    status codes, errors
 *     contact_cancel.h    ends calls early
 *     contact_mesh.h      meshes, repairs, open surfaces
 *     contact_engine.h    methods; engines and their devices
 *     contact_scene.h     settings; scenes; bodies
 *     contact_step.h      updates, directions, velocities; ct_engine_run
 *     contact_pair.h      contacts, spans, tiles, cells, points, separations
 *     contact_result.h    results, warnings, progress; products with the stiffness and the second derivative
 *     contact_hook.h      for adapters: callbacks of other libraries
 *
 * Units are SI: lengths in m, volumes in m^3, gradients dV/dx in m^2, forces in N. Vectors are in world axes. A mesh is
 * a closed surface whose triangles are counter-clockwise seen from outside. A pose is [R|t]: p_world = R p + t.
 *
 * Ownership: the caller owns an object returned in `out` and frees it with the function named there.
 * Arrays passed in are read during the call and not kept.
 *
 * Errors: a function that can fail returns a ct_status. Where a ct_error is passed (NULL is allowed), it names the
 * object and the field at fault, what was expected, what was found, and the remedy. A failed call changes nothing,
 * unless its comment says otherwise. Option and settings structs carry a cookie that their _init function sets: one
 * that was not initialised, or comes from another version, is INVALID_ARGUMENT.
 *
 * Threads: any number of threads may call ct_engine_run at a time, with different scenes; of more than
 * CT_MAX_CONCURRENT_BATCHES on a device the others wait. One thread at a time may use a scene. Any number of threads
 * may share a mesh.
 *
 * Determinism: the same step gives the same bits with any number of threads, any instruction set, any backend and any
 * order of triangles, vertices or bodies. One exception: where two shells of a mesh coincide exactly, the order of
 * triangles decides which of the two gets the gradient.
 *
 * Papers: Faure et al. 2008, "Image-based collision detection and response between arbitrary volume objects" (volume,
 * gradient, penalty forces); Allard et al. 2010, "Volume contact constraints at arbitrary resolution" (contact frames,
 * friction weights, the world-anchored lattice); Wang, Faure and Pai 2012, "Adaptive image-based intersection volume"
 * (EBPI); Dingliana and O'Sullivan 2005, "A voxel-based approach to approximate collision handling" (VOXTREE).
 */
#ifndef CONTACT_H
#define CONTACT_H

#include "gpu/include/contact_cancel.h"
#include "gpu/include/contact_engine.h"
#include "gpu/include/contact_hook.h"
#include "gpu/include/contact_mesh.h"
#include "gpu/include/contact_pair.h"
#include "gpu/include/contact_result.h"
#include "gpu/include/contact_scene.h"
#include "gpu/include/contact_status.h"
#include "gpu/include/contact_step.h"

#endif
