/* sheet_overlay.h - lays the faces of two bodies over one another, as seen along a contact's normal: for the contact
 * surface (sheet.c). */
#ifndef CT_SHEET_OVERLAY_H
#define CT_SHEET_OVERLAY_H

#include "gpu/after/sheet_faces.h"

/* Corners of a polygon at most; one that would have more is divided. */
enum { CT_SHEET_CORNERS = 24 };

typedef struct ct_sheet_outline { /* convex, counter-clockwise */
    uint32_t n;
    double at[CT_SHEET_CORNERS][2]; /* m: u, v */
} ct_sheet_outline;

/* The faces that meet a box: found by the trees once for faces after one another, which are neighbours. */
typedef struct ct_sheet_around {
    ct_column_box box;     /* m; with lo > hi: of nothing */
    int side;              /* of the faces that it was listed for: those of the other one */
    size_t *faces;         /* [n] */
    ct_column_node *boxes; /* of four of them each */
    size_t n, capacity, box_capacity;
} ct_sheet_around;

/* For one face after the other; {0} but for `faces` before the first. */
typedef struct ct_sheet_overlay {
    const ct_sheet_faces *faces;
    ct_sheet_around around;
    const ct_sheet_face *from;
    bool is_amid; /* `from` does not reach out of the window */
    size_t *met;  /* [n_met] the faces that a line from this one may meet: upwards if it looks down, else downwards */
    size_t n_met, met_capacity;
    const ct_sheet_face *lower, *upper; /* of the pair that was asked for last */
    ct_sheet_outline *pieces;           /* [n] of this pair */
    size_t n, capacity;
    uint64_t work, next_poll;
} ct_sheet_overlay;

/* Begins with the faces of another contact. */
void ct_sheet_overlay_open(ct_sheet_overlay *overlay, const ct_sheet_faces *faces);
/* Begins with a face: finds what a line from it may meet. False: out of memory, or cancelled. */
bool ct_sheet_overlay_begin(ct_sheet_overlay *overlay, const ct_sheet_face *from);
/* The pieces in which a column runs between this face and one that it meets, which looks the other way, and crosses nothing
 * between. False: out of memory, or cancelled. */
bool ct_sheet_overlay_pair(ct_sheet_overlay *overlay, const ct_sheet_face *to);
void ct_sheet_overlay_free(ct_sheet_overlay *overlay);

#endif
