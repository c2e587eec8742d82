/* units.h - the units of length that mesh files may be in, in m: for the server's HTTP interface and the C client. The
 * Python client has the same. */
#ifndef CONTACTD_UNITS_H
#define CONTACTD_UNITS_H

#include <string.h>

// clang-format off
#define CONTACTD_UNIT_MAP(X) \
    X("m", 1.0) X("dm", 0.1) X("cm", 0.01) X("mm", 1e-3) X("um", 1e-6) X("in", 0.0254) X("ft", 0.3048)
// clang-format on

#define CONTACTD_UNIT_NAMES "m, dm, cm, mm, um, in or ft"

/* m; 0: there is no such unit. */
static inline double contactd_unit_of(const char *name, size_t length) {
    static const struct {
        const char *name;
        double m;
    } units[] = {
#define CONTACTD_UNIT_ROW(name, m) {name, m},
        CONTACTD_UNIT_MAP(CONTACTD_UNIT_ROW)
#undef CONTACTD_UNIT_ROW
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i].name) == length && memcmp(units[i].name, name, length) == 0) return units[i].m;
    return 0;
}

#endif
