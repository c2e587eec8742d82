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

#include "gpu/ebpi/tile_size_k.h"

/* The mean over the pixel for tiles whose sides are the parts p and q of the pixel's; at least 0. */
double ct_ebpi_evaluate(const ct_ebpi_polynomial *polynomial, double p, double q);

/* Equations 10 and 11: the parts of the pixel's sides that its tiles have, at most 1, so that the polynomial there is
 * at most `tolerance`, which is > 0. */
void ct_ebpi_tile_size(const ct_ebpi_polynomial *polynomial, double tolerance, double *p, double *q);

/* The cut to tiles of equation 10, and no coarser one beside it, within the tolerance; at most `most`. */
ct_ebpi_cut ct_ebpi_cut_to(const ct_ebpi_polynomial *polynomial, double tolerance, ct_ebpi_cut most);

#endif
