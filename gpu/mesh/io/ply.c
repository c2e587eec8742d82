/* ply.c - parses PLY headers. */
#include "gpu/mesh/io/ply.h"

#include <stdlib.h>

size_t ct_ply_type_size(ct_ply_type type) {
    static const size_t sizes[CT_PLY_TYPES] = {1, 1, 2, 2, 4, 4, 4, 8};
    return sizes[type];
}

static ct_status read_type(ct_cursor *cursor, ct_ply_type *type, ct_error *error) {
    static const char *const names[2][CT_PLY_TYPES] = {
        {"char", "uchar", "short", "ushort", "int", "uint", "float", "double"},
        {"int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64"},
    };
    ct_skip_blanks(cursor);
    for (int i = 0; i < 2 * CT_PLY_TYPES; i++)
        if (ct_read_word(cursor, names[i / CT_PLY_TYPES][i % CT_PLY_TYPES])) {
            *type = (ct_ply_type)(i % CT_PLY_TYPES);
            return CT_OK;
        }
    return ct_fail_unexpected(cursor, "a type (char to double, or int8 to float64)", error);
}

/* Returns the array with capacity for row n; capacities are 2, 4, 8 ..., so it is full when n is 0 or a power of two
 * above
 * 1. NULL: out of memory. */
static void *grow_rows(void *rows, size_t n, size_t size, ct_error *error) {
    if (n & (n - 1) || n == 1) return rows;
    void *grown = realloc(rows, (n ? 2 * n : 2) * size);
    if (!grown) ct_fail(error, CT_OUT_OF_MEMORY, "bytes", "no memory for a header of %zu entries", n);
    return grown;
}

static ct_status read_format(ct_cursor *cursor, ct_ply_header *header, ct_error *error) {
    ct_skip_blanks(cursor);
    if (ct_read_word(cursor, "ascii"))
        header->encoding = CT_PLY_ASCII;
    else if (ct_read_word(cursor, "binary_little_endian"))
        header->encoding = CT_PLY_LITTLE;
    else if (ct_read_word(cursor, "binary_big_endian"))
        header->encoding = CT_PLY_BIG;
    else
        return ct_fail_unexpected(cursor, "ascii, binary_little_endian or binary_big_endian", error);
    return CT_OK;
}

static ct_status read_element(ct_cursor *cursor, ct_ply_header *header, ct_error *error) {
    const char *name;
    size_t length;
    if (!ct_next_word(cursor, &name, &length)) return ct_fail_unexpected(cursor, "an element's name", error);
    if (ct_at_line_end(cursor)) return ct_fail_unexpected(cursor, "an element's count", error);
    int64_t count;
    ct_status status = ct_read_integer(cursor, &count, "an element's count", error);
    if (status != CT_OK) return status;
    ct_ply_element element = {0};
    memcpy(element.name, name, length < sizeof element.name ? length : sizeof element.name - 1);
    element.is_vertex = ct_word_is(name, length, "vertex");
    element.is_face = ct_word_is(name, length, "face");
    element.count = (uint64_t)count;
    element.first_property = header->n_properties;
    if (count < 0)
        return ct_fail(error, CT_PARSE_ERROR, "bytes", "line %zu: the number of elements '%s' is %lld",
                       ct_line_number(cursor), element.name, (long long)count);
    bool is_used = element.is_vertex || element.is_face;
    for (size_t i = 0; is_used && i < header->n_elements; i++)
        if ((element.is_vertex && header->elements[i].is_vertex) || (element.is_face && header->elements[i].is_face))
            return ct_fail(error, CT_PARSE_ERROR, "bytes", "line %zu: element '%s' is declared twice",
                           ct_line_number(cursor), element.name);
    void *rows = grow_rows(header->elements, header->n_elements, sizeof element, error);
    if (!rows) return CT_OUT_OF_MEMORY;
    header->elements = rows;
    header->elements[header->n_elements++] = element;
    return CT_OK;
}

static ct_ply_role find_role(const ct_ply_element *element, const char *name, size_t length, bool is_list) {
    if (element->is_vertex && !is_list && length == 1 && *name >= 'x' && *name <= 'z')
        return (ct_ply_role)(CT_PLY_X + (*name - 'x'));
    if (element->is_face && is_list &&
        (ct_word_is(name, length, "vertex_indices") || ct_word_is(name, length, "vertex_index")))
        return CT_PLY_CORNERS;
    return CT_PLY_SKIP;
}

static ct_status read_property(ct_cursor *cursor, ct_ply_header *header, ct_error *error) {
    if (!header->n_elements) return ct_fail_unexpected(cursor, "an element before its properties", error);
    ct_ply_element *element = &header->elements[header->n_elements - 1];
    ct_ply_property property = {0};
    ct_skip_blanks(cursor);
    property.is_list = ct_read_word(cursor, "list");
    ct_status status = property.is_list ? read_type(cursor, &property.length_type, error) : CT_OK;
    if (status == CT_OK) status = read_type(cursor, &property.type, error);
    if (status != CT_OK) return status;
    if (property.is_list && property.length_type >= CT_PLY_F32)
        return ct_fail(error, CT_PARSE_ERROR, "bytes", "line %zu: a list's length must be an integer type",
                       ct_line_number(cursor));
    const char *name;
    size_t length;
    if (!ct_next_word(cursor, &name, &length)) return ct_fail_unexpected(cursor, "a property's name", error);
    property.role = find_role(element, name, length, property.is_list);
    for (size_t i = element->first_property; property.role != CT_PLY_SKIP && i < header->n_properties; i++)
        if (header->properties[i].role == property.role)
            return ct_fail(error, CT_PARSE_ERROR, "bytes", "line %zu: property '%.*s' is declared twice",
                           ct_line_number(cursor), (int)(length < 20 ? length : 20), name);
    void *rows = grow_rows(header->properties, header->n_properties, sizeof property, error);
    if (!rows) return CT_OUT_OF_MEMORY;
    header->properties = rows;
    header->properties[header->n_properties++] = property;
    element->n_properties++;
    return CT_OK;
}

/* Consumes exactly one line end, because binary data may follow. */
static ct_status consume_line_end(ct_cursor *cursor, ct_error *error) {
    if (!ct_at_line_end(cursor)) return ct_fail_unexpected(cursor, "the end of the line", error);
    if (cursor->at < cursor->end && *cursor->at == '\r' && cursor->at + 1 < cursor->end && cursor->at[1] == '\n')
        cursor->at++;
    if (cursor->at < cursor->end) cursor->at++;
    return CT_OK;
}

static ct_status check_roles(const ct_ply_header *header, ct_error *error) {
    unsigned found = 0;
    bool has_faces = false;
    for (size_t i = 0; i < header->n_elements; i++) has_faces = has_faces || header->elements[i].is_face;
    for (size_t i = 0; i < header->n_properties; i++) found |= 1u << header->properties[i].role;
    static const struct {
        ct_ply_role role;
        const char *missing;
    } required[] = {{CT_PLY_X, "element vertex has no property x"},
                    {CT_PLY_Y, "element vertex has no property y"},
                    {CT_PLY_Z, "element vertex has no property z"},
                    {CT_PLY_CORNERS, "element face has no list property vertex_indices"}};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (required[i].role == CT_PLY_CORNERS && !has_faces)
            return ct_fail(error, CT_PARSE_ERROR, "bytes",
                           "PLY header: there is no element face: if the file is a point cloud, reconstruct a surface "
                           "first; triangle strips are to be saved as faces");
        else if (!(found & 1u << required[i].role))
            return ct_fail(error, CT_PARSE_ERROR, "bytes", "PLY header: %s", required[i].missing);
    return CT_OK;
}

ct_status ct_ply_read_header(ct_cursor *cursor, ct_ply_header *header, ct_error *error) {
    memset(header, 0, sizeof *header);
    if (!ct_read_word(cursor, "ply")) return ct_fail_unexpected(cursor, "\"ply\"", error);
    ct_status status = consume_line_end(cursor, error);
    bool has_format = false;
    while (status == CT_OK) {
        ct_skip_space(cursor);
        if (ct_read_word(cursor, "end_header")) {
            if (!has_format) return ct_fail(error, CT_PARSE_ERROR, "bytes", "PLY header: no \"format\" line");
            status = consume_line_end(cursor, error);
            return status == CT_OK ? check_roles(header, error) : status;
        }
        if (ct_read_word(cursor, "format")) {
            has_format = true;
            status = read_format(cursor, header, error);
        } else if (ct_read_word(cursor, "element")) {
            status = read_element(cursor, header, error);
        } else if (ct_read_word(cursor, "property")) {
            status = read_property(cursor, header, error);
        } else if (!ct_read_word(cursor, "comment") && !ct_read_word(cursor, "obj_info")) {
            status = ct_fail_unexpected(cursor, "\"element\", \"property\", \"comment\" or \"end_header\"", error);
        }
        ct_skip_line(cursor);
    }
    return status;
}

void ct_ply_free_header(ct_ply_header *header) {
    free(header->elements);
    free(header->properties);
    memset(header, 0, sizeof *header);
}
