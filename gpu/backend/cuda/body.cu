/* body.cu - what is resident: meshes, one copy for all bodies that have it, each body's own state, and the tables of
 * scenes. */
#include "gpu/backend/cuda/device.cuh"

static void drop(ct_device *device, ct_mesh_copy **link) {
    ct_mesh_copy *copy = *link;
    *link = copy->next;
    device->mesh_bytes -= copy->bytes;
    ct_gpu_free(device, copy->memory, copy->bytes);
    free(copy);
}

bool ct_gpu_evict_meshes(ct_device *device) {
    ct_guard guard(device);
    bool any = false;
    for (ct_mesh_copy **link = &device->meshes; *link;) {
        if ((*link)->users) {
            link = &(*link)->next;
        } else {
            drop(device, link);
            any = true;
        }
    }
    return any;
}

void ct_gpu_mesh_forget(ct_device *device, const ct_mesh *mesh) {
    ct_guard guard(device);
    ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device");
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    for (ct_mesh_copy **link = &device->meshes; *link; link = &(*link)->next)
        if (!(*link)->users && !strcmp((*link)->hash, info.hash)) {
            drop(device, link);
            return;
        }
}

uint64_t ct_gpu_mesh_bytes(ct_device *device, const char *hash) {
    ct_guard guard(device);
    for (const ct_mesh_copy *copy = device->meshes; copy; copy = copy->next)
        if (!strcmp(copy->hash, hash)) return copy->bytes;
    return 0;
}

void ct_gpu_free_meshes(ct_device *device) {
    ct_guard guard(device);
    while (device->meshes) drop(device, &device->meshes);
}

static bool copy_in(ct_device *device, void *to, const void *from, uint64_t bytes) {
    device->uploaded += bytes;
    return ct_gpu_ok(device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, device->setup), "copying a mesh");
}

static bool wait(ct_device *device) {
    return ct_gpu_ok(device, cudaStreamSynchronize(device->setup), "copying a mesh");
}

static ct_status no_memory(const ct_device *device, const ct_body *body, const char *what, uint64_t bytes,
                           ct_error *error) {
    if (device->lost) return ct_gpu_lost(device, error);
    ct_mesh_info info;
    ct_mesh_get_info(body->mesh, &info);
    return ct_fail(error, CT_OUT_OF_MEMORY, "body",
                   "%s of a body of %llu vertices and %llu triangles needs %llu bytes of device memory, but %llu of a "
                   "budget of %llu are in use: remove bodies, close scenes or raise the budget",
                   what, (unsigned long long)info.vertices, (unsigned long long)info.triangles,
                   (unsigned long long)bytes, (unsigned long long)device->used, (unsigned long long)device->limit);
}

/* The mesh's copy, with one user more. */
static ct_mesh_copy *find_or_copy(ct_device *device, const ct_body *body, ct_error *error) {
    ct_guard guard(device);
    ct_mesh_info info;
    ct_mesh_get_info(body->mesh, &info);
    for (ct_mesh_copy *copy = device->meshes; copy; copy = copy->next)
        if (!strcmp(copy->hash, info.hash)) {
            copy->users++;
            return copy;
        }
    const uint64_t position_bytes = (info.vertices * 12 + 15) / 16 * 16,
                   bytes = ct_gpu_rounded(position_bytes + info.triangles * 12);
    ct_mesh_copy *copy = (ct_mesh_copy *)calloc(1, sizeof *copy);
    if (!copy) {
        ct_fail(error, CT_OUT_OF_MEMORY, "mesh", "no memory for a mesh");
        return NULL;
    }
    copy->memory = ct_gpu_alloc(device, bytes, NULL);
    if (!copy->memory) {
        no_memory(device, body, "the mesh", bytes, error);
        free(copy);
        return NULL;
    }
    copy->triangles = (uint32_t *)((char *)copy->memory + position_bytes);
    if (!copy_in(device, copy->memory, ct_mesh_positions(body->mesh), info.vertices * 12) ||
        !copy_in(device, copy->triangles, ct_mesh_triangles(body->mesh), info.triangles * 12) || !wait(device)) {
        ct_gpu_free(device, copy->memory, bytes);
        free(copy);
        ct_gpu_lost(device, error);
        return NULL;
    }
    memcpy(copy->hash, info.hash, sizeof copy->hash);
    copy->bytes = bytes;
    copy->users = 1;
    copy->next = device->meshes;
    device->meshes = copy;
    device->mesh_bytes += bytes;
    return copy;
}

static ct_box box_of(const ct_body *body, const float *positions, uint64_t n) {
    ct_box box;
    for (int k = 0; k < 3; k++) {
        box.lo[k] = INFINITY;
        box.hi[k] = -INFINITY;
    }
    for (uint64_t v = 0; v < n; v++)
        for (int k = 0; k < 3; k++) {
            const float *p = positions + 3 * v;
            const double x =
                body->kind == CT_BODY_RIGID ? ct_pose_coord(body->pose + 4 * k, p[0], p[1], p[2]) : (double)p[k];
            box.lo[k] = fmin(box.lo[k], x + 0.0);
            box.hi[k] = fmax(box.hi[k], x + 0.0);
        }
    return box;
}

static ct_gpu_body state_of(const ct_body *body, const ct_mesh_copy *copy, float *own, const ct_mesh_info *info) {
    ct_gpu_body state;
    memset(&state, 0, sizeof state);
    state.rigid = body->kind == CT_BODY_RIGID;
    state.positions = state.rigid ? (float *)copy->memory : own;
    state.triangles = copy->triangles;
    state.n_vertices = (uint32_t)info->vertices;
    state.n_triangles = (uint32_t)info->triangles;
    state.group = body->group;
    state.mask = body->mask;
    memcpy(state.pose, body->pose, sizeof state.pose);
    for (int k = 0; k < 3; k++) {
        state.box[k] = ct_order_key(body->box.lo[k]);
        state.box[3 + k] = ct_order_key(body->box.hi[k]);
    }
    return state;
}

static void give_up(ct_device *device, ct_resident *resident) {
    ct_guard guard(device);
    if (resident->mesh) resident->mesh->users--;
    ct_gpu_free(device, resident->body, resident->bytes);
    free(resident);
}

ct_status ct_gpu_body_create(ct_device *device, ct_body *body, ct_error *error) {
    if (device->lost) return ct_gpu_lost(device, error);
    if (!ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device")) return ct_gpu_lost(device, error);
    ct_resident *resident = (ct_resident *)calloc(1, sizeof *resident);
    if (!resident) return ct_fail(error, CT_OUT_OF_MEMORY, "body", "no memory for a body");
    ct_error why = {};
    resident->mesh = find_or_copy(device, body, &why);
    if (!resident->mesh) {
        free(resident);
        if (error) *error = why;
        return why.status;
    }
    ct_mesh_info info;
    ct_mesh_get_info(body->mesh, &info);
    const uint64_t own = body->kind == CT_BODY_RIGID ? 0 : info.vertices * 12;
    resident->bytes = ct_gpu_rounded(sizeof(ct_gpu_body) + own);
    resident->body = (ct_gpu_body *)ct_gpu_alloc(device, resident->bytes, NULL);
    if (!resident->body) {
        ct_status status = no_memory(device, body, "the state", resident->bytes, error);
        give_up(device, resident);
        return status;
    }
    body->box = box_of(body, ct_mesh_positions(body->mesh), info.vertices);
    float *positions = (float *)(resident->body + 1);
    const ct_gpu_body state = state_of(body, resident->mesh, positions, &info);
    ct_guard guard(device); /* of the set-up stream */
    if (!copy_in(device, resident->body, &state, sizeof state) ||
        (own && !copy_in(device, positions, ct_mesh_positions(body->mesh), own)) || !wait(device)) {
        give_up(device, resident);
        return ct_gpu_lost(device, error);
    }
    device->body_bytes += resident->bytes;
    body->device_bytes = resident->bytes;
    body->resident = resident;
    return CT_OK;
}

void ct_gpu_body_destroy(ct_device *device, ct_body *body) {
    if (!body->resident) return;
    ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device");
    device->body_bytes -= body->resident->bytes;
    give_up(device, body->resident);
    body->resident = NULL;
}

/* ---- scenes ---- */

static void free_table(ct_device *device, ct_scene *scene) {
    ct_scene_table *table = scene->table;
    device->body_bytes -= table->bytes;
    ct_gpu_free(device, table->memory, table->bytes);
    memset(table, 0, sizeof *table);
    scene->table_bytes = 0;
}

bool ct_gpu_reserve_table(ct_device *device, ct_scene *scene) {
    if (!scene->table) scene->table = (ct_scene_table *)calloc(1, sizeof *scene->table);
    ct_scene_table *table = scene->table;
    if (!table) return false;
    const uint64_t need = 8 * (scene->n_bodies + (uint64_t)scene->n_ignored);
    if (need <= table->bytes) return true;
    free_table(device, scene);
    const uint64_t bytes = ct_gpu_rounded(need + need / 4);
    table->memory = (ct_gpu_body **)ct_gpu_alloc(device, bytes, NULL);
    if (!table->memory) return false;
    device->body_bytes += bytes;
    scene->table_bytes = table->bytes = bytes;
    return true;
}

void ct_gpu_scene_forget(ct_device *device, ct_scene *scene) {
    if (!scene->table) return;
    ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device");
    free_table(device, scene);
    free(scene->table);
    scene->table = NULL;
}

ct_status ct_gpu_body_positions(ct_device *device, const ct_body *body, float *out, ct_error *error) {
    if (device->lost) return ct_gpu_lost(device, error);
    ct_mesh_info info;
    ct_mesh_get_info(body->mesh, &info);
    const uint64_t bytes = info.vertices * 12;
    ct_guard guard(device); /* of the set-up stream */
    device->downloaded += bytes;
    const bool ok =
        ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device") &&
        ct_gpu_ok(device, cudaMemcpyAsync(out, body->resident->body + 1, bytes, cudaMemcpyDeviceToHost, device->setup),
                  "reading positions") &&
        wait(device);
    return ok ? CT_OK : ct_gpu_lost(device, error);
}
