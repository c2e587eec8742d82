/* contact_columns.h - the columns that answers of many scenes have: fields of ct_contact by their ids in the wire's table
 * Contact. Generated from proto/catalogue/results.toml by `make catalogue`. */
#ifndef CT_CONTACT_COLUMNS_H
#define CT_CONTACT_COLUMNS_H

#include "proto/contact_rows.h"

/* clang-format off */

typedef struct ct_contact_column {
    uint16_t field; /* its id */
    ct_contact_type type;
    uint32_t width; /* numbers; a symmetric matrix has 6 of its 9: xx, yy, zz, xy, yz, zx */
    size_t offset; /* in ct_contact */
    unsigned group; /* CT_CONTACT_...; 0: always */
    uint32_t is_symmetric;
} ct_contact_column;

static const ct_contact_column ct_contact_columns[] = {
    {0, CT_CONTACT_IS_U32, 1, offsetof(ct_contact, body[0]), 0, 0},
    {1, CT_CONTACT_IS_U32, 1, offsetof(ct_contact, body[1]), 0, 0},
    {2, CT_CONTACT_IS_F64, 1, offsetof(ct_contact, volume), 0, 0},
    {3, CT_CONTACT_IS_F64, 3, offsetof(ct_contact, volumes), 0, 0},
    {4, CT_CONTACT_IS_F64, 1, offsetof(ct_contact, error_bound), 0, 0},
    {5, CT_CONTACT_IS_F64, 1, offsetof(ct_contact, error_estimate), 0, 0},
    {6, CT_CONTACT_IS_F64, 1, offsetof(ct_contact, area), CT_CONTACT_FRAME, 0},
    {7, CT_CONTACT_IS_F64, 1, offsetof(ct_contact, depth), CT_CONTACT_FRAME, 0},
    {8, CT_CONTACT_IS_F64, 3, offsetof(ct_contact, normal), CT_CONTACT_FRAME, 0},
    {9, CT_CONTACT_IS_F64, 6, offsetof(ct_contact, tangents), CT_CONTACT_FRAME, 0},
    {10, CT_CONTACT_IS_F64, 3, offsetof(ct_contact, center), CT_CONTACT_FRAME, 0},
    {11, CT_CONTACT_IS_F64, 6, offsetof(ct_contact, generalized_gradient[0]), CT_CONTACT_FRAME, 0},
    {12, CT_CONTACT_IS_F64, 6, offsetof(ct_contact, generalized_gradient[1]), CT_CONTACT_FRAME, 0},
    {19, CT_CONTACT_IS_U32, 1, offsetof(ct_contact, index), 0, 0},
    {20, CT_CONTACT_IS_U32, 1, offsetof(ct_contact, max_winding), 0, 0},
    {21, CT_CONTACT_IS_F64, 6, offsetof(ct_contact, inertia), CT_CONTACT_INERTIA, 1},
    {26, CT_CONTACT_IS_F64, 6, offsetof(ct_contact, side_center), CT_CONTACT_FRAME, 0},
    {27, CT_CONTACT_IS_F64, 3, offsetof(ct_contact, relative_velocity), CT_CONTACT_SLIP, 0},
    {28, CT_CONTACT_IS_F64, 1, offsetof(ct_contact, spin), CT_CONTACT_SLIP, 0},
    {29, CT_CONTACT_IS_F64, 6, offsetof(ct_contact, friction[0]), CT_CONTACT_SLIP, 0},
    {30, CT_CONTACT_IS_F64, 6, offsetof(ct_contact, friction[1]), CT_CONTACT_SLIP, 0},
    {31, CT_CONTACT_IS_U32, 1, offsetof(ct_contact, inverted_triangles), 0, 0},
    {35, CT_CONTACT_IS_F64, 1, offsetof(ct_contact, volume_lower), CT_CONTACT_INTERVAL, 0},
    {36, CT_CONTACT_IS_F64, 1, offsetof(ct_contact, volume_upper), CT_CONTACT_INTERVAL, 0},
    {39, CT_CONTACT_IS_F64, 3, offsetof(ct_contact, error_bounds), CT_CONTACT_BOUNDS, 0},
    {40, CT_CONTACT_IS_F64, 1, offsetof(ct_contact, inverted_volume), 0, 0},
    {41, CT_CONTACT_IS_F64, 6, offsetof(ct_contact, wrench[0]), CT_CONTACT_LAW, 0},
    {42, CT_CONTACT_IS_F64, 6, offsetof(ct_contact, wrench[1]), CT_CONTACT_LAW, 0},
    {43, CT_CONTACT_IS_F64, 2, offsetof(ct_contact, extents), CT_CONTACT_LAW, 0},
    {44, CT_CONTACT_IS_F64, 6, offsetof(ct_contact, axes), CT_CONTACT_LAW, 0},
    {45, CT_CONTACT_IS_FLAG, 1, offsetof(ct_contact, is_nested), CT_CONTACT_FRAME, 0},
    {48, CT_CONTACT_IS_U64, 1, offsetof(ct_contact, id), CT_CONTACT_IDS, 0},
    {49, CT_CONTACT_IS_FLAG, 1, offsetof(ct_contact, is_new), CT_CONTACT_IDS, 0},
};
enum { CT_CONTACT_COLUMNS = sizeof ct_contact_columns / sizeof *ct_contact_columns };

/* clang-format on */

#endif
