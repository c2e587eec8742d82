/* digits.h - what float32 holds of the numbers in a mesh file, and whether the file is read in double precision; for the
 * readers.
 *
 * float32 holds a number where it is within one unit of the number's last digit that is not 0. A file is read in double
 * precision
 *   - where float32 does not hold a number of more than CT_FLOAT_DIGITS digits: so many tell any float32 apart, so
 *     whoever writes more means a double;
 *   - where it does not hold any other number, and the mesh is more than CT_FAR of its own extents away from the origin:
 *     float32 would bend it.
 * Any other file gives the float32 next to each of its numbers. */
#ifndef CT_DIGITS_H
#define CT_DIGITS_H

#include <stdbool.h>
#include <stdint.h>

#define CT_FLOAT_DIGITS 9
#define CT_FAR          4

/* Up to here float32 holds all digits, read as one integer; up to there it may not, but they are no more than
 * CT_FLOAT_DIGITS. */
#define CT_SURELY_HELD UINT64_C(9999999)
#define CT_FEW_DIGITS  UINT64_C(999999999)

typedef struct ct_digits {
    bool is_wide;     /* the file is being read in double precision; nothing below is looked at */
    bool loses_some;  /* a number that float32 does not hold, of few digits */
    bool loses_many;  /* of many digits, or a double of a binary file */
    uint64_t watched; /* numbers whose digits, read as one integer, are above this are looked at */
} ct_digits;

#endif
