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

#include "gpu/after/column_surface.h"

typedef struct ct_sheet_face {
    double at[3][2];          /* m: u, v of the corners, counter-clockwise */
    double origin[3];         /* m: u, v, w of a place on it */
    double slope[2];          /* dw/du, dw/dv */
    double least, most;       /* m, of w */
    uint8_t side;             /* whose: 0 or 1 */
    bool looks_up, is_listed; /* is_listed: it takes part in the contact */
} ct_sheet_face;

typedef struct ct_sheet_faces {
    double center[3], axis[3][3]; /* m, world: the origin of u, v, w, and their unit vectors; axis[2] is the normal */
    double lo[3], hi[3];          /* m: the contact lies within */
    double size;                  /* m: of what takes part in the contact */
    ct_sheet_face *all;
    size_t n, capacity;
    ct_column_tree tree; /* of the faces' boxes */
    ct_column_surface surface[2];
} ct_sheet_faces;

/* Finds the faces of a contact with a normal, between two bodies. To be closed in any case. OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_sheet_faces_open(ct_sheet_faces *faces, ct_surfaces *surfaces, const ct_result *result,
                              const ct_contact *contact, ct_error *error);
void ct_sheet_faces_close(ct_sheet_faces *faces);

/* m: of the face's plane. */
static inline double ct_sheet_height(const ct_sheet_face *face, const double at[2]) {
    return face->origin[2] + face->slope[0] * (at[0] - face->origin[0]) + face->slope[1] * (at[1] - face->origin[1]);
}

/* From u, v, w to the world. */
void ct_sheet_place(const ct_sheet_faces *faces, const double uvw[3], double out[3]);

#endif
