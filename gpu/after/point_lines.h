/* point_lines.h - lines through both bodies of a contact: how long they are inside both, and which surfaces end that. For
 * the points of contacts.
 *
 *        u, v: across the normal          w: along it
 *
 *      ____|____________                  A line crosses surfaces of both bodies. A stretch of it is inside both, or twice
 *     |    |   A        |                 inside a body that overlaps itself. Triangles that share an edge agree about
 *     |____|____________|   } stretch     which of them a line crosses, so that none slips through.
 *   -------|----------------  top of B
 */
#ifndef CT_POINT_LINES_H
#define CT_POINT_LINES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/after/point_column.h"
#include "gpu/after/surfaces.h"
#include "gpu/base/simd.h"

/* A line in a body's axes, seen along that of its direction's largest component, z; x, y, z are in a right-handed order. */
typedef struct ct_body_line {
    double from[3], along[3];
    int x, y, z;
    double slope[2];    /* of x and y by z */
    double reach[2];    /* z of its ends, from `from`, the lower one first */
    double least, most; /* of t */
    double beside;      /* m: how far rounding may put it beside what it crosses */
    /* The same in floats, in all lanes: x, y, z of `from`, the slopes, and what floats may be off by beside that. */
    ct_v4f near_from[3], near_slope[2], near_beside;
} ct_body_line;

/* One side's body, between its own axes and u, v, w. */
typedef struct ct_line_body {
    ct_surface *surface;
    bool is_half_space;
    double turn[3][3], shift[3];  /* of the body's positions to u, v, w */
    double back[3][3], origin[3]; /* and back */
    double plane[4];              /* of a half-space: inside where plane . (u, v, w, 1) <= 0 */
    double size;                  /* m: the largest coordinates of its positions, summed */
    const uint32_t *entries;      /* [n_entries] its vertices in the contact, in rising order */
    uint64_t n_entries;
    ct_body_line upright; /* the line along w at u, v = 0 */
} ct_line_body;

/* Where a line crosses a surface. */
typedef struct ct_line_hit {
    double t;   /* along the line, in lengths of its direction */
    int enters; /* 1, or -1: leaves */
    uint32_t side;
    uint32_t triangle; /* of the mesh; of a half-space, of no meaning */
} ct_line_hit;

typedef struct ct_stretch {
    double lo, hi;       /* m: where it begins and ends on its line; equal: there is none */
    double normal[2][3]; /* u, v, w: unit, of the surfaces that it begins and ends at, out of their bodies */
    int winding[2];      /* how many times its middle is in either body */
} ct_stretch;

/* Of a contact, and memory for further ones. Zero-initialise; free with ct_point_lines_free. The axes are the same for
 * either order of the bodies. */
typedef struct ct_point_lines {
    double center[3], axis[3][3]; /* m, world: the origin of u, v, w, and their unit vectors */
    int sense;                    /* axis[2] is the contact's normal times this: 1 or -1 */
    double lo[3], hi[3];          /* m: the contact lies within */
    double rounding;              /* m: far above rounding, far below what matters in a contact */
    bool is_self;                 /* stretches are where the first body's winding number is 2 or more */
    bool is_divided; /* the pair has other contacts: stretches count if both ends are on this one's triangles */
    ct_line_body body[2];
    ct_point_column column[2]; /* of each body but half-spaces; of a body with itself the first one's alone */
    double (*vertices)[3];     /* [n_vertices[0] + n_vertices[1]] u, v, w of both sides' entries */
    size_t n_vertices[2], vertex_capacity;
    ct_line_hit *hits; /* [n_hits] of the last line */
    size_t n_hits, hit_capacity;
    uint64_t visits, next_poll; /* of triangles and boxes */
    uint64_t n_points;          /* that the step has so far, for the error of a search that is cancelled */
} ct_point_lines;

/* Prepares lines of a contact that has a normal, while `surfaces` and `result` are there. is_divided: the pair has other
 * contacts. OUT_OF_MEMORY, DEVICE_ERROR. */
ct_status ct_point_lines_open(ct_point_lines *lines, ct_surfaces *surfaces, const ct_result *result,
                              const ct_contact *contact, bool is_divided, ct_error *error);
void ct_point_lines_free(ct_point_lines *lines);

/* A place on the surface of a side's body. */
typedef struct ct_line_start {
    int side;
    double w; /* m */
} ct_line_start;

/* The longest stretch of the line along w at u, v; its ends are w, m. None where `start` is not NULL and not inside the
 * other side's body. False: out of memory, or cancelled. */
bool ct_point_lines_cast(ct_point_lines *lines, const double at[2], const ct_line_start *start, ct_stretch *stretch);

/* The stretch around a place inside both bodies, of this winding, of the line in a unit direction; its ends are distances
 * from there, within [least, most]. It has no length if it does not end there. False: as above. */
bool ct_point_lines_reach(ct_point_lines *lines, const double from[3], const double along[3], const int winding[2],
                          double least, double most, ct_stretch *stretch);

/* The hits of the segment from p to q on a side's surface, with t from 0 to 1, unsorted: into lines->hits. False: as
 * above. */
bool ct_point_lines_cross(ct_point_lines *lines, int side, const double p[3], const double q[3]);

/* Whether the work is to end; polls every few thousand visits. */
bool ct_point_lines_are_cancelled(ct_point_lines *lines);

/* Between which u (k = 0), v or w a box of the body lies. */
static inline void ct_point_lines_range(const ct_line_body *body, const ct_cluster_box *box, int k, double range[2]) {
    double at = body->shift[k], reach = 0;
    for (int i = 0; i < 3; i++) {
        at += body->turn[k][i] * (0.5 * ((double)box->lo[i] + (double)box->hi[i]));
        reach += fabs(body->turn[k][i]) * (0.5 * ((double)box->hi[i] - (double)box->lo[i]));
    }
    range[0] = at - reach;
    range[1] = at + reach;
}

/* Position number `vertex` of a body's mesh in u, v, w. */
void ct_point_lines_vertex(const ct_line_body *body, uint32_t vertex, double out[3]);
/* Whether a triangle of the body has a vertex in the contact. */
bool ct_point_lines_are_listed(const ct_line_body *body, uint32_t triangle);

/* From u, v, w to the world. */
void ct_point_lines_place(const ct_point_lines *lines, const double uvw[3], double out[3]);

#endif
