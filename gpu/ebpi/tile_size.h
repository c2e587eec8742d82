/* tile_size.h - how finely a pixel of a view, or a tile, is cut, from its error bound polynomial (Wang 2012, sections
 * 4.2 and 4.3). The polynomial predicts; what holds is the bound that ct_ebpi_cpu.measure finds for each tile.
 *
 *     Delta(w, h) = sum over the pixel's edges of the tiles crossed, l_u / w + l_v / h, times the error in each (8, 9)
 *
 * Of the sizes with Delta <= tolerance the one with the largest area needs the fewest rays (10). With the ratio w / h
 * of the edges' weighted lengths (11) it is the root of one variable. Sides are halved, so that tiles are whole
 * pitches: counts of tiles are the next powers of 2.
 */
#ifndef CT_EBPI_TILE_SIZE_H
#define CT_EBPI_TILE_SIZE_H

#include "gpu/ebpi/edge_k.h"

/* Of a pixel or tile. Integers, so that no order of edges changes a bit: mean depths in 2^-CT_EBPI_DEPTH_BITS lattice
 * units of the view's axis. */
typedef struct ct_ebpi_polynomial {
    int64_t term[CT_EBPI_TERMS];
    int64_t along_u, along_v; /* equation 11: sums of l_u / w and l_v / h, weighted */
} ct_ebpi_polynomial;

/* Adds an edge that runs the parts x and y of the sides: its terms (ct_ebpi_spread_terms) of depths in lattice units.
 * In equation 11 the paper weighs it by the slopes of both faces; here its error in each tile that it crosses is the
 * weight, so that an edge between two faces of nearly one slope counts little. */
void ct_ebpi_add_terms(ct_ebpi_polynomial *polynomial, const double term[CT_EBPI_TERMS], double x, double y);

/* The mean over the pixel for tiles whose sides are the parts p and q of the pixel's; at least 0. */
double ct_ebpi_evaluate(const ct_ebpi_polynomial *polynomial, double p, double q);

/* Equations 10 and 11: the parts of the pixel's sides that its tiles have, at most 1, so that the polynomial there is
 * at most `tolerance`, which is > 0. */
void ct_ebpi_tile_size(const ct_ebpi_polynomial *polynomial, double tolerance, double *p, double *q);

/* How often the sides of a tile are halved. */
typedef struct ct_ebpi_cut {
    uint8_t u, v;
} ct_ebpi_cut;

/* The cut to tiles of equation 10, and no coarser one beside it, within the tolerance; at most `most`. */
ct_ebpi_cut ct_ebpi_cut_to(const ct_ebpi_polynomial *polynomial, double tolerance, ct_ebpi_cut most);

/* The mean over the pixel for tiles of a cut; at least 0. */
double ct_ebpi_evaluate_cut(const ct_ebpi_polynomial *polynomial, ct_ebpi_cut cut);

/* Of a tile that is cut already: the same in two along u or v, or in four, whichever takes most off its error for each
 * ray. *error: ct_ebpi_evaluate_cut of `cut`, then of what is returned. Sides are halved once more where `may` is not
 * 0, which is so of one at least. */
ct_ebpi_cut ct_ebpi_cut_more(const ct_ebpi_polynomial *polynomial, ct_ebpi_cut cut, ct_ebpi_cut may, double *error);

#endif
