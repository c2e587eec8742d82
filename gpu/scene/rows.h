/* rows.h - reads an update's positions and indices, which need not be aligned. For the backends that apply updates. */
#ifndef CT_ROWS_H
#define CT_ROWS_H

#include <string.h>

#include "gpu/include/contact.h"

/* Position k, rounded to float32. */
static inline void ct_update_row(const ct_update *u, uint64_t k, float out[3]) {
    const char *row = (const char *)u->positions + k * (u->dtype == CT_F64 ? 24 : 12);
    if (u->dtype == CT_F32) {
        memcpy(out, row, 12);
    } else {
        double p[3];
        memcpy(p, row, 24);
        for (int i = 0; i < 3; i++) out[i] = (float)p[i];
    }
}

/* Position k as it was given. */
static inline void ct_update_row_f64(const ct_update *u, uint64_t k, double out[3]) {
    const char *row = (const char *)u->positions + k * (u->dtype == CT_F64 ? 24 : 12);
    float p[3];
    if (u->dtype == CT_F64) {
        memcpy(out, row, 24);
        return;
    }
    memcpy(p, row, 12);
    for (int i = 0; i < 3; i++) out[i] = (double)p[i];
}

static inline uint32_t ct_update_index(const ct_update *u, uint64_t i) {
    uint32_t value;
    memcpy(&value, (const char *)u->indices + 4 * i, 4);
    return value;
}

/* NON_FINITE, naming the first position that is not finite as float32. OK: all are. */
ct_status ct_update_name_offender(const ct_update *u, ct_error *error);

#endif
