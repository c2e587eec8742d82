/* box.h - an axis-aligned box in world coordinates, for the broad phase and the views. */
#ifndef CT_BOX_H
#define CT_BOX_H

typedef struct ct_box {
    double lo[3], hi[3]; /* m, world */
} ct_box;

#endif
