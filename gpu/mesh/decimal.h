/* decimal.h - decimal text to float32, correctly rounded, in any locale, without reading past the end; for the readers.
 */
#ifndef CT_DECIMAL_H
#define CT_DECIMAL_H

/* Parses the longest number at `at` ("-1.5e-3", ".5", "inf", "nan"); gives where it ends, or NULL if none starts there.
 */
const char *ct_parse_float(const char *at, const char *end, float *value);

#endif
