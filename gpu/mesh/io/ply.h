/* ply.h - parses the header of a PLY file, which declares elements with typed properties; for the PLY reader. */
#ifndef CT_PLY_H
#define CT_PLY_H

#include "gpu/mesh/io/cursor.h"

typedef enum ct_ply_type {
    CT_PLY_I8,
    CT_PLY_U8,
    CT_PLY_I16,
    CT_PLY_U16,
    CT_PLY_I32,
    CT_PLY_U32,
    CT_PLY_F32,
    CT_PLY_F64,
    CT_PLY_TYPES
} ct_ply_type;

typedef enum ct_ply_encoding { CT_PLY_ASCII, CT_PLY_LITTLE, CT_PLY_BIG } ct_ply_encoding;

/* How the reader uses a property. */
typedef enum ct_ply_role { CT_PLY_SKIP, CT_PLY_X, CT_PLY_Y, CT_PLY_Z, CT_PLY_CORNERS } ct_ply_role;

typedef struct ct_ply_property {
    ct_ply_type type;        /* of the scalar, or of the list's items */
    ct_ply_type length_type; /* of the list's length */
    bool is_list;
    ct_ply_role role;
} ct_ply_property;

typedef struct ct_ply_element {
    char name[16]; /* truncated, for messages */
    bool is_vertex, is_face;
    uint64_t count;
    size_t first_property, n_properties;
} ct_ply_element;

typedef struct ct_ply_header {
    ct_ply_encoding encoding;
    ct_ply_element *elements;
    ct_ply_property *properties;
    size_t n_elements, n_properties;
} ct_ply_header;

/* Parses up to and including "end_header". The header owns its arrays, also after a failure. */
ct_status ct_ply_read_header(ct_cursor *cursor, ct_ply_header *header, ct_error *error);
void ct_ply_free_header(ct_ply_header *header);

size_t ct_ply_type_size(ct_ply_type type); /* bytes, in the binary encodings */

#endif
