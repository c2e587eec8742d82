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

typedef struct ct_sheet_overlay {
    const ct_sheet_faces *faces;
    ct_sheet_outline *pieces; /* of the pair of faces that ct_sheet_overlay_pair was last called for */
    size_t n, capacity;
    uint64_t work, next_poll;
} ct_sheet_overlay;

/* The pieces of both faces in which a column runs from the lower one, which looks down, to the upper one, which looks up, and
 * crosses nothing between. False: out of memory, or cancelled. */
bool ct_sheet_overlay_pair(ct_sheet_overlay *overlay, const ct_sheet_face *lower, const ct_sheet_face *upper);
void ct_sheet_overlay_close(ct_sheet_overlay *overlay);

#endif
