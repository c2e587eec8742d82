/* topology_cuda.cu - the topology of a mesh's clusters on the device, for the method `exact`. It is sent once, when a scene
 * with that method first has a body of the mesh, and kept with the mesh. So is the forest of its triangles, when such a
 * body first meets itself. */
#include "gpu/methods/exact/drive_cuda.cuh"

/* What the method keeps of a mesh: a ct_gpu_topology, and a ct_gpu_own_surface of one that meets itself. */
enum { TOPOLOGY, OWN_SURFACE };

static ct_mesh_part *part_of(ct_mesh_copy *copy, int which) {
    return &copy->part[CT_METHOD_EXACT][which];
}

/* What is sent, as it lies on the host before it is copied, and where it lies on the device. */
struct image {
    char *host, *device;
    uint64_t at;
};

/* Appends n elements at the next multiple of 16 bytes; without a host's memory it only counts. Returns where they lie
 * on the device. */
template <class T> static const T *put(image *to, const T *from, uint64_t n) {
    const uint64_t first = (to->at + 15) / 16 * 16;
    to->at = first + n * sizeof(T);
    if (!to->host) return NULL;
    memcpy(to->host + first, from, n * sizeof(T));
    return (const T *)(to->device + first);
}

static void put_all(image *to, const ct_mesh_info *mesh, const ct_topology *from, const ct_unit_link *links) {
    const ct_clusters *clusters = from->clusters;
    const uint64_t n_vertices = clusters->first_vertex[clusters->n];
    ct_gpu_topology topology;
    memset(&topology, 0, sizeof topology);
    topology.n_clusters = clusters->n;
    topology.n_units = from->n_units;
    topology.n_components = from->n_components;
    topology.root = clusters->rest[clusters->n_nodes - 1];
    for (int k = 0; k < 3; k++) topology.reach = fmax(topology.reach, fmax(fabs(mesh->lo[k]), fabs(mesh->hi[k])));
    to->at = sizeof topology;
    topology.rest = put(to, clusters->rest, clusters->n);
    topology.links = put(to, links, from->n_units);
    topology.first_vertex = put(to, clusters->first_vertex, clusters->n + 1);
    topology.vertices = put(to, clusters->vertices, n_vertices);
    topology.first_unit = put(to, from->first_unit, clusters->n + 1);
    topology.component_of_unit = put(to, from->component_of_unit, from->n_units);
    topology.first_of_component = put(to, from->first_of_component, from->n_components);
    topology.cluster_of_unit = put(to, from->cluster_of_unit, from->n_units);
    topology.corners = (const uint16_t(*)[3])put(to, (const uint16_t *)from->corners, 3 * mesh->triangles);
    topology.walk = put(to, from->walk, n_vertices);
    topology.unit_in_cluster = put(to, from->unit_in_cluster, mesh->triangles);
    if (to->host) memcpy(to->host, &topology, sizeof topology);
}

static bool copy_in(ct_device *device, void *to, const void *from, uint64_t bytes) {
    device->uploaded += bytes;
    return ct_gpu_ok(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, device->setup),
                     "copying a topology");
}

static bool wait(ct_device *device) {
    return ct_gpu_ok(device, cudaStreamSynchronize(device->setup), "copying a topology");
}

/* Memory for an image of so many bytes: on the device, and on the host, where the caller fills and frees it. False: no
 * memory. */
static bool reserve_image(ct_device *device, ct_workspace *workspace, const char *what, uint64_t bytes, image *to,
                          ct_gpu_need *need) {
    to->at = 0;
    to->host = (char *)malloc(bytes);
    if (!to->host) return false;
    need->what = what;
    to->device = (char *)ct_gpu_alloc(device, bytes, CT_MEMORY_MESHES, workspace);
    return to->device;
}

/* Copies a filled image to the device. NULL: the device is lost. */
static void *send_image(ct_device *device, const image *from) {
    if (copy_in(device, from->device, from->host, from->at) && wait(device)) return from->device;
    ct_gpu_free(device, from->device, from->at, CT_MEMORY_MESHES);
    return NULL;
}

/* Under the mutex. */
static bool upload_topology(ct_device *device, ct_workspace *workspace, ct_mesh *mesh, ct_mesh_copy *copy,
                            ct_gpu_need *need) {
    need->what = "the topology of a mesh, on the host";
    const ct_topology *topology = ct_mesh_topology(mesh, NULL);
    if (!topology) return false;
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    image image = {NULL, NULL, 0};
    put_all(&image, &info, topology, NULL);
    const uint64_t bytes = need->bytes = image.at;
    ct_unit_link *links = (ct_unit_link *)malloc(((uint64_t)topology->n_units + 1) * sizeof *links);
    if (links && ct_make_unit_tree(topology, links) &&
        reserve_image(device, workspace, "the topology of a mesh", bytes, &image, need)) {
        put_all(&image, &info, topology, links);
        part_of(copy, TOPOLOGY)->data = send_image(device, &image);
        part_of(copy, TOPOLOGY)->bytes = bytes;
    }
    free(links);
    free(image.host);
    return part_of(copy, TOPOLOGY)->data;
}

static void put_own_surface(image *to, const ct_adjacency *adjacency, uint32_t n_triangles,
                            const ct_triangle_link *links, const uint32_t *roots, uint32_t n_roots) {
    ct_gpu_own_surface surface;
    memset(&surface, 0, sizeof surface);
    surface.n_components = n_roots;
    to->at = sizeof surface;
    surface.opposite = (const uint32_t(*)[3])put(to, (const uint32_t *)adjacency->opposite, 3 * (uint64_t)n_triangles);
    surface.links = put(to, links, n_triangles);
    surface.roots = put(to, roots, n_roots);
    if (to->host) memcpy(to->host, &surface, sizeof surface);
}

/* Under the mutex. */
static bool upload_own_surface(ct_device *device, ct_workspace *workspace, ct_mesh *mesh, ct_mesh_copy *copy,
                               uint32_t n_triangles, ct_gpu_need *need) {
    need->what = "the edges of a mesh, on the host";
    need->bytes = n_triangles * (uint64_t)(sizeof(uint32_t[3]) + sizeof(ct_triangle_link));
    const ct_adjacency *adjacency = ct_mesh_adjacency(mesh, NULL);
    ct_triangle_link *links = (ct_triangle_link *)malloc(((uint64_t)n_triangles + 1) * sizeof *links);
    uint32_t *roots = (uint32_t *)malloc(((uint64_t)n_triangles + 1) * sizeof *roots), n_roots = 0;
    image image = {NULL, NULL, 0};
    if (adjacency && links && roots && ct_make_triangle_tree(adjacency, n_triangles, links, roots, &n_roots)) {
        put_own_surface(&image, adjacency, n_triangles, links, roots, n_roots);
        const uint64_t bytes = need->bytes = image.at;
        if (reserve_image(device, workspace, "the edges of a mesh", bytes, &image, need)) {
            put_own_surface(&image, adjacency, n_triangles, links, roots, n_roots);
            part_of(copy, OWN_SURFACE)->data = send_image(device, &image);
            part_of(copy, OWN_SURFACE)->bytes = bytes;
        }
    }
    free(links);
    free(roots);
    free(image.host);
    return part_of(copy, OWN_SURFACE)->data;
}

/* Its body on the device gets pointers to what its mesh has. The copies are not waited for. */
static bool prepare_body(ct_device *device, ct_workspace *workspace, ct_body *body, ct_gpu_need *need) {
    ct_resident *resident = body->resident;
    ct_mesh_copy *copy = resident->mesh;
    ct_guard guard(device);
    ct_mesh_part *topology = part_of(copy, TOPOLOGY), *own = part_of(copy, OWN_SURFACE);
    if (!topology->data && !upload_topology(device, workspace, body->mesh, copy, need)) return false;
    if (body->self_contact && !own->data &&
        !upload_own_surface(device, workspace, body->mesh, copy, resident->n_triangles, need))
        return false;
    return copy_in(device, &resident->body->topology, &topology->data, sizeof topology->data) &&
           (!body->self_contact || copy_in(device, &resident->body->own_surface, &own->data, sizeof own->data));
}

/* Bodies without topology: prepares them, or, once these copies are done, notes that they have it. */
template <class Do> static bool for_each_new(ct_step *const *steps, size_t n_steps, Do call) {
    for (size_t i = 0; i < n_steps; i++) {
        const ct_scene *scene = steps[i]->scene;
        for (uint32_t k = 0; k < scene->n_bodies; k++)
            if (!scene->bodies[k]->resident->has_topology && !call(scene->bodies[k])) return false;
    }
    return true;
}

bool ct_gpu_prepare_exact(ct_device *device, ct_workspace *workspace, ct_step *const *steps, size_t n_steps,
                          ct_gpu_need *need) {
    bool any = false;
    const bool ok = for_each_new(steps, n_steps, [&](ct_body *body) {
        any = true;
        return prepare_body(device, workspace, body, need);
    });
    if (any && (!wait(device) || !ok)) return false;
    return !any || for_each_new(steps, n_steps, [](ct_body *body) { return body->resident->has_topology = true; });
}
