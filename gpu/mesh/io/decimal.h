/* decimal.h - converts decimal text to float32, correctly rounded and independent of the locale; for the mesh readers.
 */
#ifndef CT_DECIMAL_H
#define CT_DECIMAL_H

#include "gpu/mesh/digits.h"

/* Parses the longest number that starts at `at` ("-1.5e-3", ".5", "1D3", "inf", "nan",
 * "-1.#IND" of Windows) and returns a pointer to its end, or
 * NULL if no number starts there. Reads nothing at or beyond `end`. */
const char *ct_parse_float(const char *at, const char *end, float *value);

/* The same, and notes in *digits whether float32 holds the number. */
const char *ct_parse_coordinate(const char *at, const char *end, ct_digits *digits, float *value);

/* The same as a double: the nearest one but for 2^-10 of its last place. Beyond float32's range infinite, or 0. */
const char *ct_parse_double(const char *at, const char *end, double *value);

#endif
