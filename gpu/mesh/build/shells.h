/* shells.h - the shells of a surface, which are its triangles as far as edges connect them: which face the wrong way,
 * and which are there twice. For validation and repair. */
#ifndef CT_SHELLS_H
#define CT_SHELLS_H

#include "gpu/mesh/soup.h"

typedef struct ct_shell {
    double volume;  /* m^3, signed, by the direction of its triangles */
    uint32_t first; /* its first triangle */
    uint32_t n_triangles;
    bool is_wrong; /* it faces the wrong way: see ct_judge_shells */
} ct_shell;

/* Fills shells[], [n_shells]. shell: [n_triangles], numbers below n_shells, each shell closed and consistent in
 * itself.
 *
 * The winding number must not be negative inside a shell: one that faces inwards needs others around it whose
 * directions add up to 1 at least, as a cavity has, at each of several places, as shells may cross. Those around it
 * are judged first. A shell of was_mixed ([n_shells]; NULL: none is), whose triangles were not consistent as given,
 * is to face inwards where it lies in an odd number of others at all of these places, and outwards else. A shell
 * whose volume may be the rounding of its corners to float32 alone is flat, and not judged.
 *
 * A body that was mirrored as a whole has outward cavities in an inward shell: where a shell that nothing contains faces
 * inwards, and turning it with all that lies in it leaves winding numbers 0 and 1 alone, all of these are wrong.
 * INVALID_MESH: shells lie in too many others to tell. OUT_OF_MEMORY. */
ct_status ct_judge_shells(const ct_soup *soup, const uint32_t *shell, size_t n_shells, const bool *was_mixed,
                          ct_shell *shells, ct_error *error);

/* Turns the shells that face the wrong way. Fails as ct_judge_shells does. */
ct_status ct_turn_shells(ct_soup *soup, const uint32_t *shell, size_t n_shells, const bool *was_mixed, ct_error *error);

/* For each shell the first whose triangles lie at the same places, whichever way they face: itself, where no other does
 * before it. twin_of: [n_shells]. OUT_OF_MEMORY. */
ct_status ct_find_twins(const ct_soup *soup, const uint32_t *shell, size_t n_shells, uint32_t *twin_of,
                        ct_error *error);

#endif
