/* read_ply.c - PLY: text, binary little and big endian; any types and order of properties, other elements skipped. */
#include "gpu/mesh/ply.h"
#include "gpu/mesh/read.h"

typedef struct reader {
    ct_cursor cursor;
    ct_ply_header header;
    ct_soup *soup;
    ct_error *error;
} reader;

static uint64_t load(const char *at, size_t size, bool big_endian) {
    uint64_t bits = 0;
    for (size_t i = 0; i < size; i++) bits |= (uint64_t)(uint8_t)at[i] << 8 * (big_endian ? size - 1 - i : i);
    return bits;
}

static double decode(const char *at, ct_ply_type type, bool big_endian) {
    uint64_t bits = load(at, ct_ply_size(type), big_endian);
    uint32_t half = (uint32_t)bits;
    float single;
    double full;
    switch (type) {
    case CT_PLY_I8:
        return (int8_t)bits;
    case CT_PLY_I16:
        return (int16_t)bits;
    case CT_PLY_I32:
        return (int32_t)bits;
    case CT_PLY_F32:
        memcpy(&single, &half, sizeof single);
        return (double)single;
    case CT_PLY_F64:
        memcpy(&full, &bits, sizeof full);
        return full;
    default:
        return (double)bits;
    }
}

static ct_status cut_short(const reader *r, const ct_ply_element *element, uint64_t row) {
    return ct_fail(r->error, CT_PARSE_ERROR, "bytes",
                   "the file ends inside element '%s' number %llu of %llu: it is cut short or its header is wrong",
                   element->name, (unsigned long long)row, (unsigned long long)element->count);
}

/* The next scalar. float32 coordinates of text are rounded once, from the text. */
static ct_status take(reader *r, ct_ply_type type, const ct_ply_element *element, uint64_t row, double *value) {
    if (r->header.encoding == CT_PLY_ASCII) {
        float x;
        int64_t n;
        ct_status status;
        ct_skip_space(&r->cursor);
        const char *after = ct_parse_integer(r->cursor.at, r->cursor.end, &n); /* exact beyond float32's 24 bits */
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
    size_t size = ct_ply_size(type);
    if (ct_remaining(&r->cursor) < size) return cut_short(r, element, row);
    *value = decode(r->cursor.at, type, r->header.encoding == CT_PLY_BIG);
    r->cursor.at += size;
    return CT_OK;
}

static ct_status read_corners(reader *r, const ct_ply_element *element, const ct_ply_property *property, uint64_t row,
                              uint64_t n) {
    uint32_t first = 0, previous = 0;
    if (n < 3)
        return ct_fail(r->error, CT_PARSE_ERROR, "bytes", "face %llu has %llu corners, expected at least 3",
                       (unsigned long long)row, (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        double corner;
        ct_status status = take(r, property->type, element, row, &corner);
        if (status != CT_OK) return status;
        if (!(corner >= 0 && corner <= (double)UINT32_MAX && corner == (double)(uint32_t)corner))
            return ct_fail(r->error, CT_PARSE_ERROR, "bytes", "face %llu names vertex %g, expected an integer from 0",
                           (unsigned long long)row, corner);
        if (i >= 2) status = ct_soup_triangle(r->soup, first, previous, (uint32_t)corner, r->error);
        if (status != CT_OK) return status;
        if (i == 0) first = (uint32_t)corner;
        previous = (uint32_t)corner;
    }
    return CT_OK;
}

static ct_status read_list(reader *r, const ct_ply_element *element, const ct_ply_property *property, uint64_t row) {
    double n;
    ct_status status = take(r, property->count, element, row, &n);
    if (status != CT_OK) return status;
    bool text = r->header.encoding == CT_PLY_ASCII;
    size_t least = text ? 1 : ct_ply_size(property->type); /* bytes of an item */
    size_t most = ct_remaining(&r->cursor) / least;
    if (!(n >= 0 && n <= (double)most))
        return ct_fail(r->error, CT_PARSE_ERROR, "bytes",
                       "element '%s' number %llu has a list of %g items, but %zu bytes follow", element->name,
                       (unsigned long long)row, n, ct_remaining(&r->cursor));
    if (property->role == CT_PLY_CORNERS) return read_corners(r, element, property, row, (uint64_t)n);
    if (!text) {
        r->cursor.at += (size_t)n * least;
        return CT_OK;
    }
    for (uint64_t i = 0; i < (uint64_t)n && status == CT_OK; i++) {
        double ignored;
        status = take(r, property->type, element, row, &ignored);
    }
    return status;
}

static ct_status read_rows(reader *r, const ct_ply_element *element, uint64_t begin) {
    const ct_ply_property *properties = r->header.properties + element->first;
    for (uint64_t row = begin; row < element->count; row++) {
        float position[3] = {0, 0, 0};
        for (size_t i = 0; i < element->n; i++) {
            ct_ply_role role = properties[i].role;
            double value = 0;
            ct_status status = properties[i].is_list ? read_list(r, element, &properties[i], row)
                                                     : take(r, properties[i].type, element, row, &value);
            if (status != CT_OK) return status;
            if (role >= CT_PLY_X && role <= CT_PLY_Z) position[role - CT_PLY_X] = (float)value;
        }
        ct_status status = element->is_vertex ? ct_soup_vertex(r->soup, position, r->error) : CT_OK;
        if (status != CT_OK) return status;
    }
    return CT_OK;
}

/* The common file: little-endian rows of scalars with three float32 coordinates. */
static bool read_vertices_fast(reader *r, const ct_ply_element *element, size_t row_size, ct_status *status) {
    const ct_ply_property *properties = r->header.properties + element->first;
    size_t offset[3] = {0, 0, 0}, at = 0;
    for (size_t i = 0; i < element->n; i++) {
        ct_ply_role role = properties[i].role;
        if (role != CT_PLY_SKIP && properties[i].type != CT_PLY_F32) return false;
        if (role != CT_PLY_SKIP) offset[role - CT_PLY_X] = at;
        at += ct_ply_size(properties[i].type);
    }
    *status = CT_OK;
    for (uint64_t row = 0; row < element->count && *status == CT_OK; row++) {
        float position[3];
        for (int k = 0; k < 3; k++) memcpy(&position[k], r->cursor.at + offset[k], 4);
        r->cursor.at += row_size;
        *status = ct_soup_vertex(r->soup, position, r->error);
    }
    return true;
}

/* The common file: rows of a one-byte length and that many 4-byte indices. Stops before a row that is anything else
 * than a whole triangle; gives how many rows it took. */
static uint64_t read_triangles_fast(reader *r, const ct_ply_element *element, ct_status *status) {
    const ct_ply_property *list = r->header.properties + element->first;
    *status = CT_OK;
    if (r->header.encoding != CT_PLY_LITTLE || element->n != 1 || list->role != CT_PLY_CORNERS ||
        ct_ply_size(list->count) != 1 || (list->type != CT_PLY_I32 && list->type != CT_PLY_U32))
        return 0;
    uint64_t row = 0;
    for (; row < element->count && ct_remaining(&r->cursor) >= 13 && *r->cursor.at == 3; row++) {
        uint32_t corner[3];
        memcpy(corner, r->cursor.at + 1, 12);
        if (list->type == CT_PLY_I32 && (corner[0] | corner[1] | corner[2]) >> 31) break; /* negative */
        *status = ct_soup_triangle(r->soup, corner[0], corner[1], corner[2], r->error);
        if (*status != CT_OK) break;
        r->cursor.at += 13;
    }
    return row;
}

static ct_status read_element(reader *r, const ct_ply_element *element) {
    const ct_ply_property *properties = r->header.properties + element->first;
    bool text = r->header.encoding == CT_PLY_ASCII, fixed = true;
    uint64_t least = 0; /* bytes of a row: in text, a digit and a space for each number but the last */
    for (size_t i = 0; i < element->n; i++) {
        least += text ? 2 : ct_ply_size(properties[i].is_list ? properties[i].count : properties[i].type);
        if (properties[i].role == CT_PLY_CORNERS) least += text ? 6 : 3 * ct_ply_size(properties[i].type);
        fixed &= !properties[i].is_list;
    }
    if (!least) return CT_OK; /* rows of nothing */
    if (element->count > (ct_remaining(&r->cursor) + text) / least)
        return ct_fail(
            r->error, CT_PARSE_ERROR, "bytes",
            "the header claims %llu of element '%s', at least %llu bytes each, but only %zu bytes follow: the "
            "file is cut short or its header is wrong",
            (unsigned long long)element->count, element->name, (unsigned long long)least, ct_remaining(&r->cursor));
    ct_status status = CT_OK;
    if (element->is_vertex) status = ct_soup_reserve_vertices(r->soup, element->count, r->error);
    if (element->is_face) status = ct_soup_reserve_triangles(r->soup, element->count, r->error);
    if (status != CT_OK) return status;
    if (fixed && !text && !element->is_vertex) {
        r->cursor.at += element->count * least;
        return CT_OK;
    }
    if (fixed && element->is_vertex && r->header.encoding == CT_PLY_LITTLE &&
        read_vertices_fast(r, element, (size_t)least, &status))
        return status;
    uint64_t taken = element->is_face ? read_triangles_fast(r, element, &status) : 0;
    return status == CT_OK ? read_rows(r, element, taken) : status;
}

ct_status ct_read_ply(const char *bytes, size_t size, ct_soup *soup, ct_error *error) {
    reader r = {{bytes, bytes, bytes + size, 0}, {0}, soup, error};
    ct_status status = ct_ply_read_header(&r.cursor, &r.header, error);
    for (size_t i = 0; i < r.header.n_elements && status == CT_OK; i++)
        status = read_element(&r, &r.header.elements[i]);
    ct_ply_free_header(&r.header);
    return status;
}
