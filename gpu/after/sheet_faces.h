/* sheet_faces.h - what of both bodies' surfaces a contact's columns may cross, seen along the contact's normal: for the
 * contact surface (sheet.c).
 *
 *          w = normal                       A face is a triangle, or a half-space's plane over the window. Above a face that
 *       up |    ___________                 looks down its body begins; above one that looks up it ends.
 *          |   |  part 0   |
 *          |   |___________|  down
 *       -------------------------  up
 *                 part 1            u, v
 */
#ifndef CT_SHEET_FACES_H
#define CT_SHEET_FACES_H

#include "gpu/after/column_tree.h"
#include "gpu/after/surfaces.h"

typedef struct ct_sheet_face {
    double at[3][2];          /* m: u, v of the corners, counter-clockwise */
    double origin[3];         /* m: u, v, w of a place on it */
    double slope[2];          /* dw/du, dw/dv */
    uint8_t side;             /* whose: 0 or 1 */
    bool looks_up, is_listed; /* is_listed: it takes part in the contact */
} ct_sheet_face;

/* What of a body's mesh is being looked at. */
typedef struct ct_sheet_mesh {
    double turn[3][3], shift[3]; /* take positions of the body to u, v, w */
    uint64_t *listed;            /* a bit for each vertex, set where it has an entry in the contact */
    uint32_t *places;            /* of vertices, in `placed` */
    size_t n_listed, n_places;   /* capacities */
} ct_sheet_mesh;

/* Of one contact after the other; {0} before the first, ct_sheet_faces_free after the last. */
typedef struct ct_sheet_faces {
    double center[3], axis[3][3]; /* m, world: the origin of u, v, w, and their unit vectors; axis[2] is the normal */
    double lo[3], hi[3];          /* m: the contact lies within */
    double size;                  /* m: of what takes part in the contact */
    ct_sheet_face *all;           /* [n] of side 0 and then of side 1 */
    ct_column_box *boxes;         /* [n] */
    size_t n, first[2];           /* of each side */
    bool looks[2][2];             /* [side][up]: some face of the side does */
    ct_column_tree tree[2];       /* of each side's boxes */
    size_t capacity, box_capacity;
    ct_sheet_mesh mesh;
    double (*placed)[3]; /* m: the vertices of a cluster */
    bool *is_listed;     /* of these */
} ct_sheet_faces;

/* Finds the faces of a contact with a normal, between two bodies. OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_sheet_faces_find(ct_sheet_faces *faces, ct_surfaces *surfaces, const ct_result *result,
                              const ct_contact *contact, ct_error *error);
void ct_sheet_faces_free(ct_sheet_faces *faces);

/* Whether a line along the normal may cross the side's faces more than once: crossings of a closed surface look up and down
 * in turns. */
static inline bool ct_sheet_is_folded(const ct_sheet_faces *faces, int side) {
    return faces->looks[side][0] && faces->looks[side][1];
}

/* m: of the face's plane. */
static inline double ct_sheet_height(const ct_sheet_face *face, const double at[2]) {
    return face->origin[2] + face->slope[0] * (at[0] - face->origin[0]) + face->slope[1] * (at[1] - face->origin[1]);
}

#endif
