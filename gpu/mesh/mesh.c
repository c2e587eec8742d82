/* mesh.c - the life of meshes: their references, facts, and slots. build/build.c makes them. */
#include "gpu/mesh/mesh.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/split.h"

struct ct_mesh_slot {
    const ct_mesh_slot_kind *kind;
    _Atomic(void *) content; /* NULL: not made, or freed again */
    uint64_t bytes;
    uint32_t holders; /* guarded by the mesh's lock */
    ct_mesh_slot *next;
};

/* ---- slots ---- */

static ct_mesh_slot *find_slot(ct_mesh *mesh, const ct_mesh_slot_kind *kind) {
    ct_mesh_slot *slot = atomic_load_explicit(&mesh->slots, memory_order_acquire);
    while (slot && slot->kind != kind) slot = slot->next;
    return slot;
}

static const void *find_content(ct_mesh *mesh, const ct_mesh_slot_kind *kind) {
    ct_mesh_slot *slot = find_slot(mesh, kind);
    return slot ? atomic_load_explicit(&slot->content, memory_order_acquire) : NULL;
}

/* A slot that is being made, on its maker's stack. */
struct ct_mesh_making {
    const ct_mesh_slot_kind *kind;
    pthread_t maker;
    uint64_t asked; /* bytes of room that are not settled yet */
    struct ct_mesh_making *next;
};

/* With the lock held. Content that was freed leaves a slot, which is used again. False: out of memory. */
static bool publish(ct_mesh *mesh, const ct_mesh_slot_kind *kind, void *content, uint64_t bytes) {
    ct_mesh_slot *slot = find_slot(mesh, kind);
    const bool is_new = !slot;
    if (is_new) slot = calloc(1, sizeof *slot);
    if (!slot) return false;
    if (is_new) slot->kind = kind; /* others may be reading one that is there */
    slot->bytes = bytes;
    atomic_fetch_add_explicit(&mesh->slot_bytes, bytes + (is_new ? sizeof *slot : 0), memory_order_relaxed);
    atomic_store_explicit(&slot->content, content, memory_order_release);
    if (is_new) {
        slot->next = atomic_load_explicit(&mesh->slots, memory_order_relaxed);
        atomic_store_explicit(&mesh->slots, slot, memory_order_release);
    }
    return true;
}

/* With the lock held. */
static struct ct_mesh_making *find_making(ct_mesh *mesh, const ct_mesh_slot_kind *kind) {
    struct ct_mesh_making *making = mesh->making;
    while (making && making->kind != kind) making = making->next;
    return making;
}

/* Waits for `made`, at most 1 ms where the thread's work may be cancelled. With the lock held. False: it was. */
static bool wait_made(ct_mesh *mesh) {
    if (!ct_thread_working.cancel) {
        pthread_cond_wait(&mesh->made, &mesh->lock);
        return true;
    }
    if (ct_is_cancelled()) return false;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&mesh->made, &mesh->lock, &until);
    return true;
}

static void end_making(ct_mesh *mesh, struct ct_mesh_making *making) {
    struct ct_mesh_making **at = &mesh->making;
    while (*at != making) at = &(*at)->next;
    *at = making->next;
    pthread_cond_broadcast(&mesh->made);
}

/* Called with the lock held, and without it while the content is made. */
static const void *make_content(ct_mesh *mesh, const ct_mesh_slot_kind *kind, ct_error *error) {
    struct ct_mesh_making making = {.kind = kind, .maker = pthread_self(), .next = mesh->making};
    mesh->making = &making;
    pthread_mutex_unlock(&mesh->lock);
    uint64_t bytes = 0;
    ct_error why = {0};
    const char *phase = ct_thread_working.phase;
    void *content = kind->make(mesh, &bytes, &why);
    ct_enter_phase(phase);
    if (content && ct_is_cancelled()) { /* it may be incomplete */
        kind->destroy(content);
        content = NULL;
        ct_fail_cancelled(&why);
    }
    pthread_mutex_lock(&mesh->lock);
    if (content && !publish(mesh, kind, content, bytes)) {
        kind->destroy(content);
        content = NULL;
        ct_fail(&why, CT_OUT_OF_MEMORY, "mesh", "no memory for the mesh's %s", kind->name);
    }
    end_making(mesh, &making);
    pthread_mutex_unlock(&mesh->lock);
    if (making.asked) mesh->room.settle(mesh->room.context, mesh, making.asked);
    pthread_mutex_lock(&mesh->lock);
    if (!content) ct_fail(error, why.status, why.field, "%s", why.message);
    return content;
}

const void *ct_mesh_slot_get(ct_mesh *mesh, const ct_mesh_slot_kind *kind, ct_error *error) {
    const void *content = find_content(mesh, kind);
    if (content) return content;
    bool is_waiting = true;
    pthread_mutex_lock(&mesh->lock);
    while (!(content = find_content(mesh, kind)) && is_waiting && find_making(mesh, kind)) is_waiting = wait_made(mesh);
    if (!content && is_waiting) content = make_content(mesh, kind, error);
    pthread_mutex_unlock(&mesh->lock);
    if (!is_waiting && !content) ct_fail_cancelled(error);
    return content;
}

const void *ct_mesh_slot_hold(ct_mesh *mesh, const ct_mesh_slot_kind *kind, ct_error *error) {
    while (ct_mesh_slot_get(mesh, kind, error)) {
        ct_mesh_slot *slot = find_slot(mesh, kind);
        pthread_mutex_lock(&mesh->lock);
        const void *content = atomic_load_explicit(&slot->content, memory_order_acquire);
        if (content) slot->holders++;
        pthread_mutex_unlock(&mesh->lock);
        if (content) return content; /* else another thread dropped it in between */
    }
    return NULL;
}

void ct_mesh_slot_drop(ct_mesh *mesh, const ct_mesh_slot_kind *kind) {
    ct_mesh_slot *slot = find_slot(mesh, kind);
    void *content = NULL;
    pthread_mutex_lock(&mesh->lock);
    if (--slot->holders == 0) {
        content = atomic_exchange_explicit(&slot->content, NULL, memory_order_acq_rel);
        atomic_fetch_sub_explicit(&mesh->slot_bytes, slot->bytes, memory_order_relaxed);
    }
    pthread_mutex_unlock(&mesh->lock);
    if (content) kind->destroy(content);
}

void ct_mesh_set_room(ct_mesh *mesh, const ct_mesh_room *room) {
    mesh->room = *room;
}

bool ct_mesh_ask_room(ct_mesh *mesh, uint64_t bytes, ct_error *error) {
    if (!mesh->room.ask || !bytes) return true;
    if (!mesh->room.ask(mesh->room.context, mesh, bytes, error)) return false;
    pthread_mutex_lock(&mesh->lock);
    struct ct_mesh_making *making = mesh->making; /* the latest of this thread is what it makes now */
    while (!pthread_equal(making->maker, pthread_self())) making = making->next;
    making->asked = bytes;
    pthread_mutex_unlock(&mesh->lock);
    return true;
}

static void free_slots(ct_mesh *mesh) {
    ct_mesh_slot *slot = atomic_load_explicit(&mesh->slots, memory_order_relaxed);
    while (slot) {
        ct_mesh_slot *next = slot->next;
        void *content = atomic_load_explicit(&slot->content, memory_order_relaxed);
        if (content) slot->kind->destroy(content);
        free(slot);
        slot = next;
    }
}

/* ---- life and facts ---- */

ct_mesh *ct_mesh_retain(ct_mesh *mesh) {
    atomic_fetch_add_explicit(&mesh->references, 1, memory_order_relaxed);
    return mesh;
}

void ct_mesh_release(ct_mesh **mesh) {
    ct_mesh *released = *mesh;
    *mesh = NULL;
    if (!released || atomic_fetch_sub_explicit(&released->references, 1, memory_order_acq_rel) != 1) return;
    free_slots(released);
    pthread_cond_destroy(&released->made);
    pthread_mutex_destroy(&released->lock);
    free(released->positions);
    free(released->low);
    free(released->triangles);
    free(released->rim);
    free(released->strays);
    free(released->as_given);
    free(released);
}

void ct_mesh_get_info(const ct_mesh *mesh, ct_mesh_info *info) {
    static const char digits[] = "0123456789abcdef";
    info->vertices = mesh->n_vertices;
    info->triangles = mesh->n_triangles;
    info->closing_vertices = mesh->n_closing;
    info->bytes = sizeof *mesh + 12 * ((uint64_t)mesh->n_vertices + mesh->n_triangles) + 4 * (uint64_t)mesh->n_closing +
                  (mesh->low ? 12 * (uint64_t)mesh->n_vertices : 0) +
                  (mesh->as_given ? 12 * (uint64_t)mesh->n_vertices + 4 * (uint64_t)mesh->n_strays : 0) +
                  atomic_load_explicit(&mesh->slot_bytes, memory_order_relaxed);
    info->components = mesh->components;
    for (int k = 0; k < 3; k++) {
        info->origin[k] = mesh->origin[k];
        info->center_of_mass[k] = mesh->origin[k] + mesh->center_of_mass[k];
        info->lo[k] = mesh->origin[k] + mesh->lo[k];
        info->hi[k] = mesh->origin[k] + mesh->hi[k];
    }
    info->closing = mesh->closing;
    info->deviation = mesh->deviation;
    info->dtype = mesh->low ? CT_F64 : CT_F32;
    memcpy(info->inertia, mesh->inertia, sizeof info->inertia);
    info->shells = mesh->n_shells;
    info->doubled_shells = mesh->n_doubled;
    info->volume = mesh->volume;
    info->area = mesh->area;
    for (int i = 0; i < 16; i++) {
        info->hash[2 * i] = digits[mesh->hash[i] >> 4];
        info->hash[2 * i + 1] = digits[mesh->hash[i] & 15];
    }
    info->hash[32] = 0;
}

void ct_mesh_set_closing(ct_mesh *mesh, ct_closing closing, double deviation) {
    mesh->closing = closing;
    mesh->deviation = deviation;
}

const float *ct_mesh_positions(const ct_mesh *mesh) {
    return mesh->as_given ? mesh->as_given : mesh->positions;
}

const double *ct_mesh_origin(const ct_mesh *mesh) {
    return mesh->origin;
}

void ct_mesh_positions_f64(const ct_mesh *mesh, double *out) {
    const float *high = ct_mesh_positions(mesh);
    for (size_t i = 0; i < 3 * (size_t)mesh->n_vertices; i++)
        out[i] = mesh->origin[i % 3] + ((double)high[i] + (mesh->low ? (double)mesh->low[i] : 0));
}

const uint32_t *ct_mesh_rim(const ct_mesh *mesh) {
    return mesh->rim;
}

const uint32_t *ct_mesh_triangles(const ct_mesh *mesh) {
    return mesh->triangles;
}
