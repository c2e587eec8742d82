/* read_ply.c - reads PLY: text and binary of either byte order, properties of any type in any order. Elements other
 * than vertex and face are skipped. */
#include <math.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/io/ply.h"
#include "gpu/mesh/io/read.h"

typedef struct reader {
    ct_cursor cursor;
    ct_ply_header header;
    ct_soup *soup;
    ct_error *error;
} reader;

static uint64_t load_bits(const char *at, size_t size, bool big_endian) {
    uint64_t bits = 0;
    for (size_t i = 0; i < size; i++) bits |= (uint64_t)(uint8_t)at[i] << 8 * (big_endian ? size - 1 - i : i);
    return bits;
}

static double decode(const char *at, ct_ply_type type, bool big_endian) {
    uint64_t bits = load_bits(at, ct_ply_type_size(type), big_endian);
    uint32_t low_bits = (uint32_t)bits;
    float single_value;
    double double_value;
    switch (type) {
    case CT_PLY_I8:
        return (int8_t)bits;
    case CT_PLY_I16:
        return (int16_t)bits;
    case CT_PLY_I32:
        return (int32_t)bits;
    case CT_PLY_F32:
        memcpy(&single_value, &low_bits, sizeof single_value);
        return (double)single_value;
    case CT_PLY_F64:
        memcpy(&double_value, &bits, sizeof double_value);
        return double_value;
    default:
        return (double)bits;
    }
}

static ct_status fail_truncated(const reader *r, const ct_ply_element *element, uint64_t row) {
    return ct_fail(r->error, CT_PARSE_ERROR, "bytes",
                   "the file ends inside element '%s' number %llu of %llu: it is truncated or its header is wrong",
                   element->name, (unsigned long long)row, (unsigned long long)element->count);
}

/* Reads the next scalar. Text coordinates are rounded once, from decimal to float32. */
static ct_status read_scalar(reader *r, ct_ply_type type, const ct_ply_element *element, uint64_t row, double *value) {
    if (r->header.encoding == CT_PLY_ASCII) {
        float x;
        int64_t n;
        ct_status status;
        ct_skip_space(&r->cursor);
        const char *after = ct_parse_integer(r->cursor.at, r->cursor.end, &n); /* a float has only 24 bits */
        if (after && (after == r->cursor.end || ct_is_blank(*after) || ct_is_eol(*after)) && n > -(1ll << 53) &&
            n < 1ll << 53 && type < CT_PLY_F32) {
            r->cursor.at = after;
            *value = (double)n;
            return CT_OK;
        }
        status = ct_read_float(&r->cursor, &x, "a number", r->error);
        *value = (double)x;
        return status;
    }
    size_t size = ct_ply_type_size(type);
    if (ct_remaining(&r->cursor) < size) return fail_truncated(r, element, row);
    *value = decode(r->cursor.at, type, r->header.encoding == CT_PLY_BIG);
    r->cursor.at += size;
    return CT_OK;
}

static ct_status read_position(reader *r, const ct_ply_element *element, const ct_ply_property *property, uint64_t row,
                               ct_soup_point *point) {
    const int k = (int)property->role - CT_PLY_X;
    if (r->header.encoding == CT_PLY_ASCII) return ct_read_coordinate(&r->cursor, r->soup, k, point, r->error);
    double value = 0;
    ct_status status = read_scalar(r, property->type, element, row, &value);
    point->rounded[k] = (float)value;
    point->wide[k] = value;
    ct_digits *digits = &r->soup->digits;
    if (!digits->is_wide && value != (double)(float)value && !isnan(value)) digits->loses_many = true;
    return status;
}

static ct_status read_corners(reader *r, const ct_ply_element *element, const ct_ply_property *property, uint64_t row,
                              uint64_t n) {
    uint32_t first = 0, previous = 0;
    if (n < 1)
        return ct_fail(r->error, CT_PARSE_ERROR, "bytes", "face %llu has %llu corners, expected at least 3",
                       (unsigned long long)row, (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        double corner;
        if (CT_POLL_EVERY(i + 1, 1024) && ct_is_cancelled()) return CT_CANCELLED;
        ct_status status = read_scalar(r, property->type, element, row, &corner);
        if (status != CT_OK) return status;
        if (!(corner >= 0 && corner <= (double)UINT32_MAX && corner == (double)(uint32_t)corner))
            return ct_fail(r->error, CT_PARSE_ERROR, "bytes", "face %llu names vertex %g, expected an integer from 0",
                           (unsigned long long)row, corner);
        if (i >= 2) status = ct_soup_add_triangle(r->soup, first, previous, (uint32_t)corner, r->error);
        if (status != CT_OK) return status;
        if (i == 0) first = (uint32_t)corner;
        previous = (uint32_t)corner;
    }
    if (n > 3) return ct_soup_add_polygon(r->soup, (uint32_t)n, r->error);
    /* A face of one or two corners has no area, as a triangle that names a vertex twice. */
    return n == 3 ? CT_OK : ct_soup_add_triangle(r->soup, first, previous, previous, r->error);
}

static ct_status read_list(reader *r, const ct_ply_element *element, const ct_ply_property *property, uint64_t row) {
    double n;
    ct_status status = read_scalar(r, property->length_type, element, row, &n);
    if (status != CT_OK) return status;
    bool text = r->header.encoding == CT_PLY_ASCII;
    size_t min_item_bytes = text ? 1 : ct_ply_type_size(property->type);
    size_t max_items = ct_remaining(&r->cursor) / min_item_bytes;
    if (!(n >= 0 && n <= (double)max_items))
        return ct_fail(r->error, CT_PARSE_ERROR, "bytes",
                       "element '%s' number %llu has a list of %g items, but %zu bytes follow", element->name,
                       (unsigned long long)row, n, ct_remaining(&r->cursor));
    if (property->role == CT_PLY_CORNERS) return read_corners(r, element, property, row, (uint64_t)n);
    if (!text) {
        r->cursor.at += (size_t)n * min_item_bytes;
        return CT_OK;
    }
    for (uint64_t i = 0; i < (uint64_t)n && status == CT_OK; i++) {
        double ignored;
        status = read_scalar(r, property->type, element, row, &ignored);
    }
    return status;
}

static ct_status read_rows(reader *r, const ct_ply_element *element, uint64_t begin) {
    const ct_ply_property *properties = r->header.properties + element->first_property;
    for (uint64_t row = begin; row < element->count; row++) {
        ct_soup_point point = {{0, 0, 0}, {0, 0, 0}};
        if (CT_POLL_EVERY(row, 256) && ct_is_cancelled()) return CT_CANCELLED;
        for (size_t i = 0; i < element->n_properties; i++) {
            ct_ply_role role = properties[i].role;
            if (CT_POLL_EVERY(i + 1, 1024) && ct_is_cancelled()) return CT_CANCELLED;
            double value = 0;
            const bool is_coordinate = role >= CT_PLY_X && role <= CT_PLY_Z;
            ct_status status = is_coordinate           ? read_position(r, element, &properties[i], row, &point)
                               : properties[i].is_list ? read_list(r, element, &properties[i], row)
                                                       : read_scalar(r, properties[i].type, element, row, &value);
            if (status != CT_OK) return status;
        }
        ct_status status = element->is_vertex ? ct_soup_add_point(r->soup, &point, r->error) : CT_OK;
        if (status != CT_OK) return status;
    }
    return CT_OK;
}

/* Fast path for the most common layout: little-endian rows of scalars with float32 coordinates. False: another layout,
 * nothing read. */
static bool read_vertices_fast(reader *r, const ct_ply_element *element, size_t row_size, ct_status *status) {
    if (r->soup->digits.is_wide) return false;
    const ct_ply_property *properties = r->header.properties + element->first_property;
    size_t offset[3] = {0, 0, 0}, at = 0;
    for (size_t i = 0; i < element->n_properties; i++) {
        ct_ply_role role = properties[i].role;
        if (role != CT_PLY_SKIP && properties[i].type != CT_PLY_F32) return false;
        if (role != CT_PLY_SKIP) offset[role - CT_PLY_X] = at;
        at += ct_ply_type_size(properties[i].type);
    }
    *status = CT_OK;
    for (uint64_t row = 0; row < element->count && *status == CT_OK; row++) {
        float position[3];
        if (CT_POLL_EVERY(row, 4096) && ct_is_cancelled()) {
            *status = CT_CANCELLED;
            break;
        }
        for (int k = 0; k < 3; k++) memcpy(&position[k], r->cursor.at + offset[k], 4);
        r->cursor.at += row_size;
        *status = ct_soup_add_vertex(r->soup, position, r->error);
    }
    return true;
}

/* Fast path for the most common layout: little-endian rows of a one-byte length and 4-byte indices. Stops before the
 * first row that is not a complete triangle; returns the number of rows read. */
static uint64_t read_triangles_fast(reader *r, const ct_ply_element *element, ct_status *status) {
    const ct_ply_property *list = r->header.properties + element->first_property;
    *status = CT_OK;
    if (r->header.encoding != CT_PLY_LITTLE || element->n_properties != 1 || list->role != CT_PLY_CORNERS ||
        ct_ply_type_size(list->length_type) != 1 || (list->type != CT_PLY_I32 && list->type != CT_PLY_U32))
        return 0;
    uint64_t row = 0;
    for (; row < element->count && ct_remaining(&r->cursor) >= 13 && *r->cursor.at == 3; row++) {
        uint32_t corner[3];
        if (CT_POLL_EVERY(row, 4096) && ct_is_cancelled()) {
            *status = CT_CANCELLED;
            break;
        }
        memcpy(corner, r->cursor.at + 1, 12);
        if (list->type == CT_PLY_I32 && (corner[0] | corner[1] | corner[2]) >> 31) break; /* negative */
        *status = ct_soup_add_triangle(r->soup, corner[0], corner[1], corner[2], r->error);
        if (*status != CT_OK) break;
        r->cursor.at += 13;
    }
    return row;
}

static ct_status read_element(reader *r, const ct_ply_element *element) {
    const ct_ply_property *properties = r->header.properties + element->first_property;
    bool text = r->header.encoding == CT_PLY_ASCII, has_fixed_rows = true;
    uint64_t min_row_bytes = 0; /* in text: a digit and a space for each number; the last needs no space */
    for (size_t i = 0; i < element->n_properties; i++) {
        min_row_bytes +=
            text ? 2 : ct_ply_type_size(properties[i].is_list ? properties[i].length_type : properties[i].type);
        if (properties[i].role == CT_PLY_CORNERS) min_row_bytes += text ? 2 : ct_ply_type_size(properties[i].type);
        has_fixed_rows &= !properties[i].is_list;
    }
    if (!min_row_bytes) return CT_OK; /* an element without properties */
    if (element->count > (ct_remaining(&r->cursor) + text) / min_row_bytes)
        return ct_fail(
            r->error, CT_PARSE_ERROR, "bytes",
            "the header claims %llu of element '%s', at least %llu bytes each, but only %zu bytes follow: the "
            "file is truncated or its header is wrong",
            (unsigned long long)element->count, element->name, (unsigned long long)min_row_bytes,
            ct_remaining(&r->cursor));
    ct_status status = CT_OK;
    if (element->is_vertex) status = ct_soup_reserve_vertices(r->soup, element->count, r->error);
    if (element->is_face) status = ct_soup_reserve_triangles(r->soup, element->count, r->error);
    if (status != CT_OK) return status;
    if (has_fixed_rows && !text && !element->is_vertex) {
        r->cursor.at += element->count * min_row_bytes;
        return CT_OK;
    }
    if (has_fixed_rows && element->is_vertex && r->header.encoding == CT_PLY_LITTLE &&
        read_vertices_fast(r, element, (size_t)min_row_bytes, &status))
        return status;
    uint64_t n_read = element->is_face ? read_triangles_fast(r, element, &status) : 0;
    return status == CT_OK ? read_rows(r, element, n_read) : status;
}

ct_status ct_read_ply(const char *bytes, size_t size, ct_soup *soup, ct_error *error) {
    reader r = {{bytes, bytes, bytes + size, 0, NULL}, {0}, soup, error};
    ct_status status = ct_ply_read_header(&r.cursor, &r.header, error);
    for (size_t i = 0; i < r.header.n_elements && status == CT_OK; i++)
        status = read_element(&r, &r.header.elements[i]);
    ct_ply_free_header(&r.header);
    return status;
}
