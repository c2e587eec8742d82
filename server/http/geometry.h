/* geometry.h - a mesh as glTF 2.0 binary (GLB), read piece by piece out of the mesh itself: viewers share its memory. */
#ifndef CONTACTD_HTTP_GEOMETRY_H
#define CONTACTD_HTTP_GEOMETRY_H

#include "gpu/include/contact_mesh.h"

typedef struct geometry geometry;

/* Keeps a reference to the mesh. *size: of the file. NULL: out of memory, or larger than the format's 4 GiB. */
geometry *geometry_open(ct_mesh *mesh, uint64_t *size);
/* Copies bytes from `at` on, `most` at most; returns how many, 0 at the end. For one reader at a time. */
size_t geometry_read(void *geometry, uint64_t at, char *to, size_t most);
void geometry_close(void *geometry);

#endif
