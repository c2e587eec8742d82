/* body_cuda.cu - what stays on the device between steps: meshes, one copy for all bodies that share it; each body's own
 * state; and the tables of scenes. */
#include "gpu/method/device_cuda.cuh"
#include "gpu/scene/half_space_k.h"

extern "C" {
#include "gpu/mesh/strays.h"
}

/* Under the mutex. NULL: the device has no copy. */
static ct_mesh_copy *find_copy(const ct_device *device, const char *hash) {
    for (ct_mesh_copy *copy = device->meshes; copy; copy = copy->next)
        if (!strcmp(copy->hash, hash)) return copy;
    return NULL;
}

static void free_mesh(ct_device *device, ct_mesh_copy **link) {
    ct_mesh_copy *copy = *link;
    *link = copy->next;
    ct_gpu_free(device, copy->memory, copy->bytes, CT_MEMORY_MESHES);
    for (auto &parts : copy->part)
        for (ct_mesh_part &part : parts) {
            ct_gpu_free(device, part.data, part.bytes, CT_MEMORY_MESHES);
            free(part.host);
        }
    free(copy);
}

bool ct_gpu_evict_meshes(ct_device *device) {
    ct_guard guard(device);
    bool any = false;
    for (ct_mesh_copy **link = &device->meshes; *link;) {
        if ((*link)->users) {
            link = &(*link)->next;
        } else {
            free_mesh(device, link);
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
            free_mesh(device, link);
            return;
        }
}

uint64_t ct_gpu_mesh_bytes(ct_device *device, const char *hash) {
    ct_guard guard(device);
    const ct_mesh_copy *copy = find_copy(device, hash);
    uint64_t bytes = copy ? copy->bytes : 0;
    for (int i = 0; i < CT_GPU_ROOMS * CT_MESH_PARTS && copy; i++)
        bytes += copy->part[i / CT_MESH_PARTS][i % CT_MESH_PARTS].data
                     ? copy->part[i / CT_MESH_PARTS][i % CT_MESH_PARTS].bytes
                     : 0;
    return bytes;
}

void ct_gpu_free_meshes(ct_device *device) {
    ct_guard guard(device);
    while (device->meshes) free_mesh(device, &device->meshes);
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

/* Under the mutex: waits until another thread has uploaded the mesh. False: it could not. */
static bool wait_for_upload(ct_device *device, ct_mesh_copy *copy) {
    copy->users++;
    while (copy->state == CT_MESH_UPLOADING) pthread_cond_wait(&device->mesh_ready, &device->mutex);
    if (copy->state == CT_MESH_READY) return true;
    if (--copy->users == 0) free(copy); /* it is in no list */
    return false;
}

/* NULL: the mesh has too few triangles to cull. Other meshes have their clusters since they were made. */
static const ct_clusters *clusters_of(const ct_body *body, const ct_mesh_info *info) {
    return info->triangles < CT_CLUSTERED_TRIANGLES ? NULL : ct_mesh_clusters(body->mesh, NULL);
}

static uint64_t cluster_bytes(const ct_clusters *clusters) {
    return clusters ? clusters->n * sizeof(ct_cluster_box) : 0;
}

/* Where the parts of a mesh's copy lie, in bytes; positions come first. */
struct mesh_layout {
    uint64_t triangles, cluster_boxes, end;
};

static mesh_layout lay_out_mesh(const ct_mesh_info *info, const ct_clusters *clusters) {
    mesh_layout at;
    at.triangles = (info->vertices * 12 + 15) / 16 * 16;
    at.cluster_boxes = (at.triangles + info->triangles * 12 + 15) / 16 * 16;
    at.end = at.cluster_boxes + cluster_bytes(clusters);
    return at;
}

/* Allocates and uploads without the mutex, so that steps and other uploads go on meanwhile. */
static bool upload_mesh(ct_device *device, const ct_body *body, const ct_mesh_info *info, ct_mesh_copy *copy) {
    const ct_clusters *clusters = clusters_of(body, info);
    const mesh_layout at = lay_out_mesh(info, clusters);
    copy->memory = ct_gpu_alloc(device, copy->bytes, CT_MEMORY_MESHES, NULL);
    if (!copy->memory) return false;
    copy->triangles = (uint32_t *)((char *)copy->memory + at.triangles);
    copy->cluster_boxes = clusters ? (ct_cluster_box *)((char *)copy->memory + at.cluster_boxes) : NULL;
    if (copy_in(device, copy->memory, ct_mesh_rest(body->mesh), info->vertices * 12) &&
        copy_in(device, copy->triangles, ct_mesh_triangles(body->mesh), info->triangles * 12) &&
        (!clusters || copy_in(device, copy->cluster_boxes, clusters->rest, cluster_bytes(clusters))) && wait(device))
        return true;
    ct_gpu_free(device, copy->memory, copy->bytes, CT_MEMORY_MESHES);
    return false;
}

/* Tells the threads that wait for this upload how it ended. A failed copy leaves the list. */
static void finish_upload(ct_device *device, ct_mesh_copy *copy, bool ok) {
    ct_guard guard(device);
    copy->state = ok ? CT_MESH_READY : CT_MESH_FAILED;
    pthread_cond_broadcast(&device->mesh_ready);
    if (ok) return;
    ct_mesh_copy **link = &device->meshes;
    while (*link != copy) link = &(*link)->next;
    *link = copy->next;
    if (--copy->users == 0) free(copy);
}

/* The mesh's copy, with one more user. */
static ct_mesh_copy *find_or_upload(ct_device *device, const ct_body *body, const ct_mesh_info *info, ct_error *error) {
    const uint64_t bytes = ct_gpu_rounded(lay_out_mesh(info, clusters_of(body, info)).end);
    ct_mesh_copy *copy;
    {
        ct_guard guard(device);
        copy = find_copy(device, info->hash);
        if (copy) {
            if (wait_for_upload(device, copy)) return copy;
            no_memory(device, body, "the mesh", bytes, error);
            return NULL;
        }
        copy = (ct_mesh_copy *)calloc(1, sizeof *copy);
        if (!copy) {
            ct_fail(error, CT_OUT_OF_MEMORY, "mesh", "no memory for a mesh");
            return NULL;
        }
        memcpy(copy->hash, info->hash, sizeof copy->hash);
        copy->state = CT_MESH_UPLOADING;
        copy->bytes = bytes;
        copy->users = 1;
        copy->next = device->meshes;
        device->meshes = copy;
    }
    const bool ok = upload_mesh(device, body, info, copy);
    finish_upload(device, copy, ok);
    if (ok) return copy;
    no_memory(device, body, "the mesh", bytes, error);
    return NULL;
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

/* own: the memory of a deformable body's positions and clusters' boxes, on the device. */
static ct_gpu_body state_of(const ct_body *body, const ct_mesh_copy *copy, float *own, const ct_mesh_info *info) {
    ct_gpu_body state;
    memset(&state, 0, sizeof state);
    state.rigid = body->kind == CT_BODY_RIGID;
    state.positions = state.rigid ? (float *)copy->memory : own;
    state.triangles = copy->triangles;
    state.cluster_boxes =
        state.rigid || !copy->cluster_boxes ? copy->cluster_boxes : (ct_cluster_box *)(own + 3 * info->vertices);
    state.n_vertices = (uint32_t)info->vertices;
    state.n_triangles = (uint32_t)info->triangles;
    state.group = body->group;
    state.mask = body->mask;
    state.is_half_space = body->is_half_space;
    state.meets_itself = body->self_contact;
    state.is_inverted = !state.rigid && body->volume < 0;
    memcpy(state.pose, body->pose, sizeof state.pose);
    ct_body_origin(body, state.about);
    state.is_rounded = info->dtype == CT_F64;
    for (int k = 0; k < 3; k++) {
        state.box[k] = ct_order_key(body->box.lo[k]);
        state.box[3 + k] = ct_order_key(body->box.hi[k]);
    }
    return state;
}

static void free_resident(ct_device *device, ct_resident *resident) {
    ct_gpu_free(device, resident->body, resident->bytes, CT_MEMORY_BODIES);
    ct_guard guard(device);
    resident->mesh->users--;
    free(resident);
}

/* What a deformable body begins with, in world axes: float32 of its rest positions, and its clusters' boxes around
 * them. */
struct world_rest {
    float *positions;
    ct_cluster_box *boxes;
};

static void free_rest(world_rest *rest) {
    free(rest->positions);
    free(rest->boxes);
}

/* False: out of memory. */
static bool find_rest(const ct_body *body, const ct_mesh_info *info, const ct_clusters *clusters, world_rest *rest) {
    const float *from = ct_mesh_rest(body->mesh);
    *rest = {(float *)malloc(info->vertices * 12), (ct_cluster_box *)malloc(cluster_bytes(clusters) + 1)};
    if (!rest->positions || !rest->boxes) return false;
    for (uint64_t i = 0; i < 3 * info->vertices; i++)
        rest->positions[i] = (float)((double)from[i] + info->origin[i % 3]);
    for (uint32_t i = 0; clusters && i < clusters->n; i++)
        for (int k = 0; k < 3; k++) { /* rounding keeps order */
            rest->boxes[i].lo[k] = (float)((double)clusters->rest[i].lo[k] + info->origin[k]);
            rest->boxes[i].hi[k] = (float)((double)clusters->rest[i].hi[k] + info->origin[k]);
        }
    return true;
}

/* Allocates and uploads a body's own state. */
static ct_status upload_body(ct_device *device, ct_body *body, const ct_mesh_info *info, ct_resident *resident,
                             ct_error *error) {
    const ct_clusters *clusters = clusters_of(body, info);
    const bool is_rigid = body->kind == CT_BODY_RIGID;
    const uint64_t positions_and_boxes = (info->vertices * 12 + cluster_bytes(clusters) + 3) / 4 * 4;
    const uint64_t own = is_rigid ? 0 : positions_and_boxes + info->vertices * 12;
    resident->n_vertices = (uint32_t)info->vertices;
    resident->n_triangles = (uint32_t)info->triangles;
    resident->bytes = ct_gpu_rounded(sizeof(ct_gpu_body) + own);
    resident->body = (ct_gpu_body *)ct_gpu_alloc(device, resident->bytes, CT_MEMORY_BODIES, NULL);
    if (!resident->body) return no_memory(device, body, "the state", resident->bytes, error);
    world_rest rest = {NULL, NULL};
    if (!is_rigid) {
        static const double nowhere[3] = {0, 0, 0};
        ct_body_place(body, body->given, nowhere);
        if (!find_rest(body, info, clusters, &rest)) {
            free_rest(&rest);
            return ct_fail(error, CT_OUT_OF_MEMORY, "body", "no memory on the host for %llu positions",
                           (unsigned long long)info->vertices);
        }
    }
    if (body->is_half_space)
        ct_half_space_box(body->pose, &body->box);
    else
        body->box = box_of(body, is_rigid ? ct_mesh_rest(body->mesh) : rest.positions, info->vertices);
    ct_gpu_note_rounding(body, info->dtype == CT_F64);
    float *positions = (float *)(resident->body + 1);
    resident->before = is_rigid ? NULL : (float *)((char *)positions + positions_and_boxes);
    ct_gpu_body state = state_of(body, resident->mesh, positions, info);
    state.searches_box = is_rigid && clusters && clusters->has_all_vertices && clusters->n >= CT_SEARCHED_CLUSTERS;
    resident->n_box_chunks = ct_gpu_box_chunks(info->vertices, (uint32_t)info->triangles, state.searches_box);
    bool ok = copy_in(device, resident->body, &state, sizeof state);
    if (!is_rigid)
        ok = ok && copy_in(device, positions, rest.positions, info->vertices * 12) &&
             (!clusters || copy_in(device, state.cluster_boxes, rest.boxes, cluster_bytes(clusters)));
    ok = wait(device) && ok; /* also for what goes out of scope here */
    free_rest(&rest);
    return ok ? CT_OK : ct_gpu_lost(device, error);
}

ct_status ct_gpu_body_create(ct_device *device, ct_body *body, ct_error *error) {
    if (device->lost) return ct_gpu_lost(device, error);
    if (!ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device")) return ct_gpu_lost(device, error);
    ct_resident *resident = (ct_resident *)calloc(1, sizeof *resident);
    if (!resident) return ct_fail(error, CT_OUT_OF_MEMORY, "body", "no memory for a body");
    ct_mesh_info info;
    ct_error why = {};
    ct_mesh_get_info(body->mesh, &info);
    resident->mesh = find_or_upload(device, body, &info, &why);
    if (!resident->mesh) {
        free(resident);
    } else if (upload_body(device, body, &info, resident, &why)) {
        free_resident(device, resident);
    } else {
        body->device_bytes = resident->bytes;
        body->resident = resident;
        return CT_OK;
    }
    if (error) *error = why;
    return why.status;
}

void ct_gpu_body_destroy(ct_device *device, ct_body *body) {
    if (!body->resident) return;
    ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device");
    free_resident(device, body->resident);
    body->resident = NULL;
}

/* ---- scenes ---- */

static void free_table(ct_device *device, ct_scene *scene) {
    ct_scene_table *table = scene->table;
    ct_gpu_free(device, table->memory, table->bytes, CT_MEMORY_BODIES);
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
    table->memory = (ct_gpu_body **)ct_gpu_alloc(device, bytes, CT_MEMORY_BODIES, NULL);
    if (!table->memory) return false;
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

void ct_gpu_note_rounding(ct_body *body, bool is_rounded) {
    double reach = 0;
    for (int k = 0; k < 3; k++) reach = fmax(reach, fmax(fabs(body->box.lo[k]), fabs(body->box.hi[k])));
    body->low_reach = is_rounded ? CT_HIGH_ROUNDING * reach : 0;
}

/* What float32 leaves is not kept here. */
ct_status ct_gpu_body_positions(ct_device *device, const ct_body *body, float *out, float *low, ct_error *error) {
    if (device->lost) return ct_gpu_lost(device, error);
    const uint64_t bytes = (uint64_t)body->resident->n_vertices * 12;
    device->downloaded += bytes;
    if (low) memset(low, 0, bytes);
    const bool ok =
        ct_gpu_ok(device, cudaSetDevice(device->ordinal), "choosing the device") &&
        ct_gpu_ok(device, cudaMemcpyAsync(out, body->resident->body + 1, bytes, cudaMemcpyDeviceToHost, device->setup),
                  "reading positions") &&
        wait(device);
    return ok ? CT_OK : ct_gpu_lost(device, error);
}
