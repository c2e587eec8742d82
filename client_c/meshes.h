/* meshes.h - registering meshes. */
#ifndef CONTACTD_MESHES_H
#define CONTACTD_MESHES_H

#include "client_c/client.h"

/* As contactd_register_mesh_with, but positions may also be doubles. A public function's whole work. */
contactd_code ctc_register_arrays(contactd_client *client, const char *name, const void *positions, wire_dtype dtype,
                                  size_t n_vertices, const uint32_t *triangles, size_t n_triangles,
                                  const contactd_mesh_options *options, contactd_mesh *out);

#endif
