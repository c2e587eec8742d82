/* mesh_files.h - shapes as files of each format that the engine reads, and shapes with defects that it repairs. */
#ifndef MESH_FILES_H
#define MESH_FILES_H

#include "tests/scenes/shapes.h"

typedef enum mesh_file_kind {
    MESH_FILE_OBJ,
    MESH_FILE_OFF,
    MESH_FILE_PLY_ASCII,
    MESH_FILE_PLY_BINARY,
    MESH_FILE_STL_ASCII,
    MESH_FILE_STL_BINARY,
    MESH_FILE_KINDS
} mesh_file_kind;

const char *mesh_file_name(mesh_file_kind kind);                                     /* "read obj" */
void *mesh_file_write(const struct shape *shape, mesh_file_kind kind, size_t *size); /* the caller frees it */

typedef enum mesh_defect_kind {
    MESH_DEFECT_NONE,
    MESH_DEFECT_SOUP,      /* each triangle has vertices of its own */
    MESH_DEFECT_TURNED,    /* every third triangle is turned over */
    MESH_DEFECT_HOLES,     /* every tenth triangle is missing */
    MESH_DEFECT_HALF,      /* the second half of the triangles is missing */
    MESH_DEFECT_DUPLICATE, /* every triangle is there twice */
    MESH_DEFECT_POINT,     /* the same soup, with all vertices in one place but four */
    MESH_DEFECTS
} mesh_defect_kind;

const char *mesh_defect_name(mesh_defect_kind kind); /* "repair holes" */
struct shape mesh_defect(const struct shape *shape, mesh_defect_kind kind);

#endif
