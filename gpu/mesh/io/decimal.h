/* decimal.h - converts decimal text to float32, correctly rounded and independent of the locale; for the mesh readers.
 */
#ifndef CT_DECIMAL_H
#define CT_DECIMAL_H

/* Parses the longest number that starts at `at` ("-1.5e-3", ".5", "1D3", "inf", "nan",
 * "-1.#IND" of Windows) and returns a pointer to its end, or
 * NULL if no number starts there. Reads nothing at or beyond `end`. */
const char *ct_parse_float(const char *at, const char *end, float *value);

#endif
