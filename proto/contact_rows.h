/* contact_rows.h - the fields of a contact that are shown, for those who write JSON: a loop over rows.
 * Generated from proto/catalogue/results.toml by `make catalogue`. */
#ifndef CT_CONTACT_ROWS_H
#define CT_CONTACT_ROWS_H

#include <stddef.h>

#include "proto/contact_fields.h"

/* clang-format off */

typedef enum ct_contact_type { CT_CONTACT_IS_F64, CT_CONTACT_IS_U32, CT_CONTACT_IS_I32, CT_CONTACT_IS_FLAG, CT_CONTACT_IS_U64 } ct_contact_type;

typedef struct ct_contact_row {
    const char *name; /* in JSON */
    ct_contact_type type;
    size_t offset; /* in ct_contact, and in contactd_contact */
    int rows, columns; /* 0: a number; rows 1: a list */
    unsigned group; /* CT_CONTACT_...; 0: always */
    int id;           /* on the wire, and of its column in contactd.h */
    const char *unit; /* "": none */
} ct_contact_row;

static const ct_contact_row ct_contact_rows[] = {
    {"index", CT_CONTACT_IS_U32, offsetof(ct_contact, index), 0, 0, 0, 19, ""},
    {"volume", CT_CONTACT_IS_F64, offsetof(ct_contact, volume), 0, 0, 0, 2, "m^3"},
    {"volumes", CT_CONTACT_IS_F64, offsetof(ct_contact, volumes), 1, 3, 0, 3, "m^3"},
    {"error_bound", CT_CONTACT_IS_F64, offsetof(ct_contact, error_bound), 0, 0, 0, 4, "m^3"},
    {"error_bounds", CT_CONTACT_IS_F64, offsetof(ct_contact, error_bounds), 1, 3, CT_CONTACT_BOUNDS, 39, "m^3"},
    {"error_estimate", CT_CONTACT_IS_F64, offsetof(ct_contact, error_estimate), 0, 0, 0, 5, "m^3"},
    {"max_winding", CT_CONTACT_IS_U32, offsetof(ct_contact, max_winding), 0, 0, 0, 20, ""},
    {"inverted_triangles", CT_CONTACT_IS_U32, offsetof(ct_contact, inverted_triangles), 0, 0, 0, 31, ""},
    {"inverted_volume", CT_CONTACT_IS_F64, offsetof(ct_contact, inverted_volume), 0, 0, 0, 40, "m^3"},
    {"volume_lower", CT_CONTACT_IS_F64, offsetof(ct_contact, volume_lower), 0, 0, CT_CONTACT_INTERVAL, 35, "m^3"},
    {"volume_upper", CT_CONTACT_IS_F64, offsetof(ct_contact, volume_upper), 0, 0, CT_CONTACT_INTERVAL, 36, "m^3"},
    {"area", CT_CONTACT_IS_F64, offsetof(ct_contact, area), 0, 0, CT_CONTACT_FRAME, 6, "m^2"},
    {"depth", CT_CONTACT_IS_F64, offsetof(ct_contact, depth), 0, 0, CT_CONTACT_FRAME, 7, "m"},
    {"normal", CT_CONTACT_IS_F64, offsetof(ct_contact, normal), 1, 3, CT_CONTACT_FRAME, 8, ""},
    {"tangents", CT_CONTACT_IS_F64, offsetof(ct_contact, tangents), 2, 3, CT_CONTACT_FRAME, 9, ""},
    {"center", CT_CONTACT_IS_F64, offsetof(ct_contact, center), 1, 3, CT_CONTACT_FRAME, 10, "m"},
    {"side_centers", CT_CONTACT_IS_F64, offsetof(ct_contact, side_center), 2, 3, CT_CONTACT_FRAME, 26, "m"},
    {"generalized_gradient", CT_CONTACT_IS_F64, offsetof(ct_contact, generalized_gradient), 2, 6, CT_CONTACT_FRAME, 11, "m^2, m^3"},
    {"is_nested", CT_CONTACT_IS_FLAG, offsetof(ct_contact, is_nested), 0, 0, CT_CONTACT_FRAME, 45, ""},
    {"id", CT_CONTACT_IS_U64, offsetof(ct_contact, id), 0, 0, CT_CONTACT_IDS, 48, ""},
    {"is_new", CT_CONTACT_IS_FLAG, offsetof(ct_contact, is_new), 0, 0, CT_CONTACT_IDS, 49, ""},
    {"inertia", CT_CONTACT_IS_F64, offsetof(ct_contact, inertia), 3, 3, CT_CONTACT_INERTIA, 21, "m^5"},
    {"relative_velocity", CT_CONTACT_IS_F64, offsetof(ct_contact, relative_velocity), 1, 3, CT_CONTACT_SLIP, 27, "m/s"},
    {"spin", CT_CONTACT_IS_F64, offsetof(ct_contact, spin), 0, 0, CT_CONTACT_SLIP, 28, "rad/s"},
    {"friction", CT_CONTACT_IS_F64, offsetof(ct_contact, friction), 2, 6, CT_CONTACT_SLIP, 29, "N, N m"},
    {"wrench", CT_CONTACT_IS_F64, offsetof(ct_contact, wrench), 2, 6, CT_CONTACT_LAW, 41, "N, N m"},
    {"extents", CT_CONTACT_IS_F64, offsetof(ct_contact, extents), 1, 2, CT_CONTACT_LAW, 43, "m"},
    {"axes", CT_CONTACT_IS_F64, offsetof(ct_contact, axes), 2, 3, CT_CONTACT_LAW, 44, ""},
    {"cell", CT_CONTACT_IS_I32, offsetof(ct_contact, cell), 1, 3, CT_CONTACT_CELL, 34, ""},
};
enum { CT_CONTACT_ROWS = sizeof ct_contact_rows / sizeof *ct_contact_rows };

/* clang-format on */

#endif
