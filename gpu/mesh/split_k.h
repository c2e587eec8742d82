/* split_k.h - what the parts of a coordinate leave of it at most (split.h), of itself. */
#ifndef CT_SPLIT_K_H
#define CT_SPLIT_K_H

#define CT_HIGH_ROUNDING  0x1p-24
#define CT_SPLIT_ROUNDING 0x1p-48

#endif
