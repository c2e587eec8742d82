/* fuzz_mesh.c - libFuzzer target: the mesh readers and validation on any bytes; the first byte chooses the format. */
#include <stdlib.h>

#include "gpu/include/contact.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    ct_mesh_limits limits = {1 << 16, 1 << 16};
    ct_mesh *mesh = NULL;
    ct_error error = {0};
    ct_status status = ct_mesh_read(data + 1, size - 1, (ct_mesh_format)(data[0] % 5), &limits, &mesh, &error);
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
