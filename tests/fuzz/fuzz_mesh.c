/* fuzz_mesh.c - libFuzzer target: the mesh readers, validation, repair and hull on any bytes; the first byte chooses
 * the format and what is done. */
#include <stdlib.h>

#include "gpu/include/contact.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    enum { FORMATS = CT_FORMAT_GLTF + 1, PLAIN = 0, REPAIR, HULL, OPEN, WAYS };
    const int way = data[0] / FORMATS % WAYS;
    ct_mesh_limits limits = {1 << 16, 1 << 16};
    ct_mesh_options options;
    ct_mesh_options_init(&options);
    options.limits = limits;
    options.repair = way == REPAIR;
    if (way == HULL) options.closing = CT_CLOSING_HULL;
    if (way == OPEN) options.open_direction[2] = -1;
    ct_mesh *mesh = NULL;
    ct_error error = {0};
    const ct_mesh_format format = (ct_mesh_format)(data[0] % FORMATS);
    ct_status status = ct_mesh_read_with(data + 1, size - 1, format, &options, &mesh, NULL, &error);
    if ((status == CT_OK) != (mesh != NULL) || status != error.status) abort();
    if (status != CT_OK && !error.message[0]) abort();
    if (mesh) {
        ct_mesh_info info;
        ct_mesh_get_info(mesh, &info);
        if (!(info.volume > 0) || info.vertices > limits.max_vertices || info.triangles > limits.max_triangles) abort();
    }
    ct_mesh_release(&mesh);
    return 0;
}
