/* meshes.c - the resident meshes: content-addressed, counted, bounded in memory. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/base/clock.h"
#include "server/registry/internal.h"

enum { MIN_HASH_DIGITS = 8 };

struct mesh_entry { /* guarded by the registry's lock; stays in place while bodies use it */
    uint64_t handle;
    char name[REGISTRY_NAME];
    ct_mesh *mesh;
    ct_mesh_info info;
    uint32_t bodies;
    uint64_t used_ns; /* when it was last asked for */
    uint32_t *owners; /* [n_owners] principals that registered it; its bytes count for the first */
    uint32_t n_owners;
    state_owner *names; /* [n_names] of its owners, also of those who registered it with an earlier server */
    uint32_t n_names;
    bool has_new_names; /* since the list was stored */
    bool is_evicted;    /* it is being taken out to make room */
    uint64_t reserved;  /* bytes granted to what is being derived from it */
};

/* The principal for whose share the mesh counts. */
static uint32_t payer_of(const mesh_entry *entry) {
    return entry->n_owners ? entry->owners[0] : PRINCIPAL_NONE;
}

static void count(registry *registry, const mesh_entry *entry) {
    shares_take(&registry->mesh_bytes, payer_of(entry), entry->info.bytes);
}

static void uncount(registry *registry, const mesh_entry *entry) {
    shares_give(&registry->mesh_bytes, payer_of(entry), entry->info.bytes);
}

/* Brings the entry's bytes, and the sum, up to date: a mesh grows when a method derives something from it, and shrinks
 * when no body needs it any more. With the lock held. */
static void refresh_bytes(registry *registry, mesh_entry *entry) {
    ct_mesh_info now;
    ct_mesh_get_info(entry->mesh, &now);
    uncount(registry, entry);
    entry->info.bytes = now.bytes + entry->reserved;
    count(registry, entry);
}

void registry_refresh_mesh_bytes(registry *registry) {
    uint32_t at = 0;
    for (mesh_entry *entry; (entry = slots_next(&registry->meshes, &at));) refresh_bytes(registry, entry);
}

static void fill_record(registry *registry, mesh_entry *entry, mesh_record *out) {
    refresh_bytes(registry, entry);
    out->handle = entry->handle;
    memcpy(out->name, entry->name, sizeof out->name);
    out->info = entry->info;
    out->bodies = entry->bodies;
    out->existed = false;
}

static void mesh_object(const mesh_entry *entry, char object[96]) {
    if (entry->name[0]) {
        snprintf(object, 96, "mesh %" PRIu64 " \"%s\"", entry->handle, entry->name);
    } else {
        snprintf(object, 96, "mesh %" PRIu64, entry->handle);
    }
}

/* Takes the entry out of the table; the caller frees it outside the lock. */
static void take_out(registry *registry, mesh_entry *entry) {
    slots_remove(&registry->meshes, entry->handle);
    uncount(registry, entry);
}

/* Of an entry that was resident: devices may have copies of its mesh. Without the lock. */
static void free_resident(registry *registry, mesh_entry *entry) {
    if (registry->engine) ct_engine_forget_mesh(registry->engine, entry->mesh);
    ct_mesh_release(&entry->mesh);
    free(entry->owners);
    free(entry->names);
    free(entry);
}

static mesh_entry *entry_of_content(const registry *registry, const char *hash) {
    uint32_t at = 0;
    for (mesh_entry *entry; (entry = slots_next(&registry->meshes, &at));) {
        if (strcmp(entry->info.hash, hash) == 0) return entry;
    }
    return NULL;
}

/* Of the meshes that no body uses: its own, and those of principals that have more than what is kept for them. NULL:
 * there is none. */
static mesh_entry *least_recently_used(const registry *registry, const identity *who) {
    mesh_entry *oldest = NULL;
    uint32_t at = 0;
    for (mesh_entry *entry; (entry = slots_next(&registry->meshes, &at));) {
        uint32_t payer = payer_of(entry);
        bool may_go = payer == who->principal || shares_exceeds_kept(&registry->mesh_bytes, payer);
        if (may_go && entry->bodies == 0 && !entry->is_evicted && (!oldest || entry->used_ns < oldest->used_ns))
            oldest = entry;
    }
    return oldest;
}

static bool fail_room(const registry *registry, const char *what, uint64_t need, const identity *who,
                      const char *object, server_error *error) {
    const shares *shares = &registry->mesh_bytes;
    uint64_t in_use = 0;
    uint32_t at = 0;
    for (mesh_entry *entry; (entry = slots_next(&registry->meshes, &at));) {
        if (entry->bodies) in_use += entry->info.bytes;
    }
    bool is_full = need > shares->limit || in_use > shares->limit - need;
    if (is_full || !identity_has_others(who)) {
        server_fail(error, CONTACTD_LIMIT_EXCEEDED, object, "mesh-memory",
                    "%s needs %" PRIu64 " bytes; meshes with bodies hold %" PRIu64 " of the %" PRIu64
                    " that --mesh-memory allows: close scenes, or start the server with more",
                    what, need, in_use, shares->limit);
    } else {
        server_fail(error, CONTACTD_LIMIT_EXCEEDED, object, "mesh-memory",
                    "%s needs %" PRIu64 " bytes; meshes of %s hold %" PRIu64
                    ", and its share of --mesh-memory is %" PRIu64 " bytes and up to %" PRIu64
                    " while others leave them: remove meshes, close scenes, or give it more "
                    "weight in --principals",
                    what, need, who->name, shares_used(shares, who->principal), shares_kept(shares, who),
                    shares_most(shares, who));
    }
    if (error && need <= shares_most(shares, who)) error->retry_after_ms = RETRY_AFTER_MS;
    return false;
}

/* Ends an eviction: of all entries that were chosen, or of none. */
static void end_eviction(registry *registry, bool evict) {
    uint32_t at = 0;
    for (mesh_entry *entry; (entry = slots_next(&registry->meshes, &at));) {
        if (!entry->is_evicted) continue;
        count(registry, entry);
        entry->is_evicted = false;
        if (!evict) continue;
        take_out(registry, entry);
        metrics_add(registry->metrics, METRICS_MESHES_EVICTED, 1);
    }
}

/* Makes room for `need` bytes of the principal; *evicted lists the entries that the caller frees. Fails without
 * evicting anything where that would not do. */
static bool make_room(registry *registry, const char *what, uint64_t need, const identity *who, slots *evicted,
                      const char *object, server_error *error) {
    shares *shares = &registry->mesh_bytes;
    registry_refresh_mesh_bytes(registry);
    bool good = true;
    while (good && !shares_allow_held(shares, who, need)) {
        mesh_entry *entry = need <= shares->limit ? least_recently_used(registry, who) : NULL;
        if (!entry) {
            good = false;
        } else if (!slots_add(evicted, entry)) {
            good = server_fail(error, CONTACTD_OUT_OF_MEMORY, object, "", "no memory to make room for %s", what);
        } else {
            entry->is_evicted = true;
            uncount(registry, entry);
        }
    }
    end_eviction(registry, good);
    if (good) return true;
    slots_free(evicted);
    *evicted = (slots){0};
    return fail_room(registry, what, need, who, object, error);
}

static void free_evicted(registry *registry, slots *evicted) {
    uint32_t at = 0;
    for (mesh_entry *gone; (gone = slots_next(evicted, &at));) free_resident(registry, gone);
    slots_free(evicted);
}

/* ---- what methods derive from a mesh: see ct_mesh_room ---- */

/* NULL: the mesh is not resident any more. */
static mesh_entry *entry_of_mesh(const registry *registry, const ct_mesh *mesh) {
    uint32_t at = 0;
    for (mesh_entry *entry; (entry = slots_next(&registry->meshes, &at));) {
        if (entry->mesh == mesh) return entry;
    }
    return NULL;
}

static identity identity_of_payer(const registry *registry, const mesh_entry *entry) {
    identity who = shares_identity(&registry->mesh_bytes, payer_of(entry));
    if (entry->n_names) snprintf(who.name, sizeof who.name, "%s", entry->names[0]);
    return who;
}

/* It counts for whoever pays for the mesh, whoever's body needs it. */
static bool ask_room(void *context, const ct_mesh *mesh, uint64_t bytes, ct_error *error) {
    registry *registry = context;
    server_error why = {0};
    slots evicted = {0};
    bool good = true;
    pthread_mutex_lock(&registry->lock);
    mesh_entry *entry = entry_of_mesh(registry, mesh);
    if (entry) {
        char object[96];
        const identity who = identity_of_payer(registry, entry);
        mesh_object(entry, object);
        entry->bodies++; /* it does not make room for itself */
        good = make_room(registry, "it", bytes, &who, &evicted, object, &why);
        entry->bodies--;
        if (good) entry->reserved += bytes;
        refresh_bytes(registry, entry);
    }
    pthread_mutex_unlock(&registry->lock);
    free_evicted(registry, &evicted);
    if (good) return true;
    error->status = why.code == CONTACTD_OUT_OF_MEMORY ? CT_OUT_OF_MEMORY : CT_LIMIT_EXCEEDED;
    snprintf(error->field, sizeof error->field, "%s", why.field);
    snprintf(error->message, sizeof error->message, "%.*s", (int)sizeof error->message - 1, why.message);
    return false;
}

static void settle_room(void *context, const ct_mesh *mesh, uint64_t bytes) {
    registry *registry = context;
    pthread_mutex_lock(&registry->lock);
    mesh_entry *entry = entry_of_mesh(registry, mesh);
    if (entry) {
        entry->reserved -= bytes < entry->reserved ? bytes : entry->reserved; /* the entry may be a later one */
        refresh_bytes(registry, entry);
    }
    pthread_mutex_unlock(&registry->lock);
}

/* ---- making meshes resident ---- */

/* As errors call a mesh that has no number yet. */
static void name_object(char *object, size_t size, const char *name) {
    if (name && name[0]) {
        snprintf(object, size, "mesh \"%.60s\"", name);
    } else {
        snprintf(object, size, "the mesh");
    }
}

/* The owner's place in the list; n_owners: it is none. With the lock held. */
static uint32_t owner_place(const mesh_entry *entry, uint32_t principal) {
    uint32_t i = 0;
    while (i < entry->n_owners && entry->owners[i] != principal) i++;
    return i;
}

static uint32_t name_place(const state_owner *names, uint32_t n, const char *name) {
    uint32_t i = 0;
    while (i < n && strcmp(names[i], name) != 0) i++;
    return i;
}

static bool add_name(mesh_entry *entry, const identity *who) {
    if (!who->name[0] || name_place(entry->names, entry->n_names, who->name) < entry->n_names) return true;
    state_owner *grown = realloc(entry->names, (entry->n_names + 1) * sizeof *grown);
    if (!grown) return false;
    entry->names = grown;
    memcpy(entry->names[entry->n_names++], who->name, sizeof *grown);
    entry->has_new_names = true;
    return true;
}

/* With the lock held; shares_know(mesh_bytes) of the principal has gone well. */
static bool add_owner(registry *registry, mesh_entry *entry, const identity *who, server_error *error) {
    if (who->principal == PRINCIPAL_NONE || owner_place(entry, who->principal) < entry->n_owners) return true;
    uint32_t *grown = realloc(entry->owners, (entry->n_owners + 1) * sizeof *grown);
    if (grown) entry->owners = grown; /* before payer_of reads it again */
    if (!grown || !add_name(entry, who))
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "mesh", "", "no memory for its owner");
    uncount(registry, entry);
    entry->owners[entry->n_owners++] = who->principal;
    count(registry, entry);
    return true;
}

/* What an earlier server stored of a mesh; owners are taken over by a new entry, which leaves NULL. */
typedef struct stored_owners {
    state_owner *names;
    size_t n;
} stored_owners;

/* Makes a parsed mesh resident, and the principal's; takes the reference over in any case. stored may be NULL. */
static bool insert(registry *registry, ct_mesh *mesh, const char *name, const identity *who, stored_owners *stored,
                   mesh_record *out, server_error *error) {
    char object[96];
    name_object(object, sizeof object, name);
    mesh_entry *fresh = calloc(1, sizeof *fresh);
    if (!fresh) {
        ct_mesh_release(&mesh);
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, object, "", "no memory for the mesh's entry");
    }
    ct_mesh_get_info(mesh, &fresh->info);
    fresh->mesh = mesh;
    ct_mesh_set_room(mesh, &(ct_mesh_room){ask_room, settle_room, registry});
    registry_copy_name(fresh->name, name);

    slots evicted = {0};
    bool good = true, existed = false;
    pthread_mutex_lock(&registry->lock);
    mesh_entry *entry = entry_of_content(registry, fresh->info.hash);
    if (!shares_know(&registry->mesh_bytes, who)) {
        good = server_fail(error, CONTACTD_OUT_OF_MEMORY, object, "", "no memory to count the mesh");
    } else if (entry) {
        existed = true;
    } else {
        good = make_room(registry, "the mesh", fresh->info.bytes, who, &evicted, object, error);
        if (good && !(fresh->handle = slots_add(&registry->meshes, fresh))) {
            good = server_fail(error, CONTACTD_OUT_OF_MEMORY, object, "", "no room in the table of meshes");
        }
        if (good) {
            count(registry, fresh);
            if (stored) {
                fresh->names = stored->names;
                fresh->n_names = (uint32_t)stored->n;
                stored->names = NULL;
            }
            entry = fresh;
            fresh = NULL;
            metrics_add(registry->metrics, METRICS_MESHES_REGISTERED, 1);
        }
    }
    if (good) good = add_owner(registry, entry, who, error);
    if (good) {
        entry->used_ns = clock_ns();
        fill_record(registry, entry, out);
        out->existed = existed;
    }
    pthread_mutex_unlock(&registry->lock);

    if (fresh) ct_mesh_release(&fresh->mesh);
    free(fresh);
    free_evicted(registry, &evicted);
    return good;
}

/* ---- what outlives the server; without the lock ---- */

static void store_names(registry *registry, const char *hash) {
    if (!registry->state) return;
    pthread_mutex_lock(&registry->lock);
    mesh_entry *entry = entry_of_content(registry, hash);
    uint32_t n = entry && entry->has_new_names ? entry->n_names : 0;
    state_owner *copy = n ? malloc(n * sizeof *copy) : NULL;
    if (copy) {
        memcpy(copy, entry->names, n * sizeof *copy);
        entry->has_new_names = false;
    }
    pthread_mutex_unlock(&registry->lock);
    if (copy) state_put_owners(registry->state, hash, copy, n);
    free(copy);
}

static void store(registry *registry, const char *hash, const state_source *source) {
    if (!registry->state) return;
    state_put_mesh(registry->state, hash, source);
    store_names(registry, hash);
}

/* Makes a mesh resident and stores what it was made of, or, of one that was changed, what became of it. Takes the
 * reference over. */
static bool insert_and_store(registry *registry, ct_mesh *mesh, const ct_mesh_options *options,
                             const ct_mesh_changes *changes, state_source source, const identity *who, mesh_record *out,
                             server_error *error) {
    double *wide = NULL;
    ct_mesh_retain(mesh);
    const bool good = insert(registry, mesh, source.name, who, NULL, out, error);
    if (changes->is_changed) {
        ct_mesh_info info;
        ct_mesh_get_info(mesh, &info);
        if (info.dtype == CT_F64 && registry->state) wide = malloc(info.vertices * 3 * sizeof *wide);
        if (wide) ct_mesh_positions_f64(mesh, wide);
        source = (state_source){.name = source.name,
                                .positions = wide ? (const void *)wide : ct_mesh_positions(mesh),
                                .dtype = wide ? CT_F64 : CT_F32,
                                .n_vertices = info.vertices,
                                .triangles = ct_mesh_triangles(mesh),
                                .n_triangles = info.triangles,
                                .closing = info.closing,
                                .deviation = info.deviation};
    } else {
        memcpy(source.open_direction, options->open_direction, sizeof source.open_direction);
    }
    if (good && (wide || !changes->is_changed || out->info.dtype == CT_F32)) store(registry, out->info.hash, &source);
    free(wide);
    ct_mesh_release(&mesh);
    return good;
}

static bool fail_mesh(const char *name, const ct_error *cause, server_error *error) {
    char object[96];
    name_object(object, sizeof object, name);
    return server_fail_work(error, object, cause);
}

/* Where a repair is asked for: what it leaves is checked for what it cannot mend. Drops the mesh where that fails. */
static ct_status measure_repaired(ct_mesh **mesh, const ct_mesh_options *options, ct_mesh_changes *changes,
                                  ct_error *error) {
    if (!options->repair) return CT_OK;
    const ct_status status = ct_mesh_measure_overlap(*mesh, &changes->self_overlap, error);
    if (status != CT_OK) ct_mesh_release(mesh);
    return status;
}

bool registry_register_file(registry *registry, const void *bytes, size_t size, ct_mesh_format format, const char *name,
                            const ct_mesh_options *options, const identity *who, mesh_record *out,
                            ct_mesh_changes *changes, server_error *error) {
    ct_mesh_options defaults;
    ct_mesh_changes ignored;
    ct_error cause = {0};
    ct_mesh *mesh = NULL;
    ct_mesh_options_init(&defaults);
    if (!changes) changes = &ignored;
    if (!options) options = &defaults;
    if (ct_mesh_read_with(bytes, size, format, options, &mesh, changes, &cause) != CT_OK ||
        measure_repaired(&mesh, options, changes, &cause) != CT_OK)
        return fail_mesh(name, &cause, error);
    return insert_and_store(registry, mesh, options, changes,
                            (state_source){.name = name, .file = bytes, .size = size, .format = format}, who, out,
                            error);
}

bool registry_register_arrays(registry *registry, const void *positions, ct_dtype dtype, size_t n_vertices,
                              const void *triangles_u32, size_t n_triangles, const char *name,
                              const ct_mesh_options *options, const identity *who, mesh_record *out,
                              ct_mesh_changes *changes, server_error *error) {
    ct_mesh_options defaults;
    ct_mesh_changes ignored;
    ct_error cause = {0};
    ct_mesh *mesh = NULL;
    ct_mesh_options_init(&defaults);
    if (!changes) changes = &ignored;
    if (!options) options = &defaults;
    if (ct_mesh_create_with(positions, dtype, n_vertices, triangles_u32, n_triangles, options, &mesh, changes,
                            &cause) != CT_OK ||
        measure_repaired(&mesh, options, changes, &cause) != CT_OK)
        return fail_mesh(name, &cause, error);
    const state_source source = {.name = name,
                                 .positions = positions,
                                 .dtype = dtype,
                                 .n_vertices = n_vertices,
                                 .triangles = triangles_u32,
                                 .n_triangles = n_triangles};
    return insert_and_store(registry, mesh, options, changes, source, who, out, error);
}

static bool is_used(void *context, const char *hash) {
    registry *registry = context;
    pthread_mutex_lock(&registry->lock);
    const mesh_entry *entry = entry_of_content(registry, hash);
    bool used = entry && entry->bodies;
    pthread_mutex_unlock(&registry->lock);
    return used;
}

void registry_set_state(registry *registry, state *state) {
    registry->state = state;
    state_set_users(state, is_used, registry);
}

state *registry_state(registry *registry) {
    return registry->state;
}

bool registry_is_stored(registry *registry, const char *hash) {
    if (!registry->state || !hash || strlen(hash) != STATE_HASH - 1) return false;
    pthread_mutex_lock(&registry->lock);
    bool is_resident = entry_of_content(registry, hash) != NULL;
    pthread_mutex_unlock(&registry->lock);
    return !is_resident && state_has_mesh(registry->state, hash);
}

static bool fail_hash(const char *object, server_error *error) {
    return server_fail(error, CONTACTD_NOT_FOUND, object, "hash",
                       "no mesh of this hash is resident: it was never registered, was deleted, made room for others, "
                       "or is another principal's: register it");
}

bool registry_restore_mesh(registry *registry, const char *hash, const identity *who, mesh_record *out,
                           server_error *error) {
    ct_mesh *mesh;
    char name[STATE_NAME];
    stored_owners stored;
    static const identity no_principal = {.principal = PRINCIPAL_NONE};
    state_get_owners(registry->state, hash, &stored.names, &stored.n);
    bool is_owner = name_place(stored.names, (uint32_t)stored.n, who->name) < stored.n;
    if (!role_operates(who->role) && !is_owner) {
        char object[96];
        free(stored.names);
        snprintf(object, sizeof object, "mesh %.40s", hash);
        return fail_hash(object, error);
    }
    if (!state_get_mesh(registry->state, hash, &mesh, name, error)) {
        free(stored.names);
        return false;
    }
    /* Its bytes count for the owner who asks first. */
    bool good = insert(registry, mesh, name, is_owner ? who : &no_principal, &stored, out, error);
    free(stored.names);
    return good;
}

/* With the lock held. who: NULL may use all. */
static bool may_use(const mesh_entry *entry, const identity *who) {
    return !who || role_operates(who->role) || owner_place(entry, who->principal) < entry->n_owners ||
           (who->name[0] && name_place(entry->names, entry->n_names, who->name) < entry->n_names);
}

static mesh_entry *find_by_hash(const registry *registry, const char *hash, const identity *who, server_error *error) {
    size_t n = hash ? strlen(hash) : 0;
    char object[96];
    snprintf(object, sizeof object, "mesh %.40s", hash ? hash : "");
    for (size_t i = 0; i < n; i++) {
        if (!isxdigit((unsigned char)hash[i])) n = 0;
    }
    if (n < MIN_HASH_DIGITS || n > 32) {
        server_fail(error, CONTACTD_INVALID_ARGUMENT, object, "hash",
                    "a mesh is named by its handle or by %d to 32 hexadecimal digits of its hash", MIN_HASH_DIGITS);
        return NULL;
    }
    mesh_entry *found = NULL;
    uint32_t at = 0;
    for (mesh_entry *entry; (entry = slots_next(&registry->meshes, &at));) {
        if (strncasecmp(entry->info.hash, hash, n) != 0 || !may_use(entry, who)) continue;
        if (found) {
            server_fail(error, CONTACTD_CONFLICT, object, "hash",
                        "several meshes begin with these digits, %s and %s among them: give more", found->info.hash,
                        entry->info.hash);
            return NULL;
        }
        found = entry;
    }
    if (!found) fail_hash(object, error);
    return found;
}

/* With the lock held. */
static mesh_entry *find(const registry *registry, uint64_t handle, const char *hash, const identity *who,
                        server_error *error) {
    if (!handle) return find_by_hash(registry, hash, who, error);
    bool stale;
    mesh_entry *entry = slots_get(&registry->meshes, handle, &stale);
    if (entry && may_use(entry, who)) return entry;
    char object[96];
    snprintf(object, sizeof object, "mesh %" PRIu64, handle);
    if (stale) {
        server_fail(error, CONTACTD_STALE_HANDLE, object, "mesh",
                    "the mesh was deleted, or made room for others while no body used it: register it again");
    } else {
        server_fail(error, CONTACTD_NOT_FOUND, object, "mesh",
                    "there is no mesh of this handle, or it is another principal's: register it");
    }
    return NULL;
}

bool registry_find_mesh(registry *registry, uint64_t handle, const char *hash, const identity *who, mesh_record *out,
                        ct_mesh **mesh, server_error *error) {
    pthread_mutex_lock(&registry->lock);
    mesh_entry *entry = find(registry, handle, hash, who, error);
    if (entry) {
        entry->used_ns = clock_ns();
        if (out) fill_record(registry, entry, out);
        if (mesh) *mesh = ct_mesh_retain(entry->mesh);
    }
    pthread_mutex_unlock(&registry->lock);
    return entry != NULL;
}

bool registry_remove_mesh(registry *registry, uint64_t handle, const char *hash, server_error *error) {
    pthread_mutex_lock(&registry->lock);
    mesh_entry *entry = find(registry, handle, hash, NULL, error);
    if (entry && entry->bodies) {
        char object[96];
        mesh_object(entry, object);
        server_fail(error, CONTACTD_CONFLICT, object, "mesh",
                    "%" PRIu32 " bodies use the mesh: remove them or close their scenes first", entry->bodies);
        entry = NULL;
    }
    if (entry) take_out(registry, entry);
    pthread_mutex_unlock(&registry->lock);
    if (entry && registry->state) state_drop_mesh(registry->state, entry->info.hash);
    if (entry) free_resident(registry, entry);
    return entry != NULL;
}

bool registry_may_use_mesh(registry *registry, uint64_t handle, const identity *who) {
    if (role_operates(who->role)) return true;
    pthread_mutex_lock(&registry->lock);
    bool may = find(registry, handle, NULL, who, NULL) != NULL;
    pthread_mutex_unlock(&registry->lock);
    return may;
}

void registry_disown_mesh(registry *registry, uint64_t handle, const identity *who, bool *others) {
    char hash[STATE_HASH] = "";
    pthread_mutex_lock(&registry->lock);
    mesh_entry *entry = find(registry, handle, NULL, NULL, NULL);
    *others = entry && (entry->n_owners > 1 || entry->n_names > 1);
    if (*others) {
        uint32_t place = owner_place(entry, who->principal),
                 named = name_place(entry->names, entry->n_names, who->name);
        if (named < entry->n_names) {
            memmove(entry->names[named], entry->names[--entry->n_names], sizeof *entry->names);
            entry->has_new_names = true;
        }
        memcpy(hash, entry->info.hash, sizeof hash);
        uncount(registry, entry);
        if (place < entry->n_owners) entry->owners[place] = entry->owners[--entry->n_owners];
        count(registry, entry);
    }
    pthread_mutex_unlock(&registry->lock);
    if (*others) store_names(registry, hash);
}

static int by_handle(const void *a, const void *b) {
    const mesh_record *x = a, *y = b;
    return (x->handle > y->handle) - (x->handle < y->handle);
}

bool registry_list_meshes(registry *registry, mesh_record **out, size_t *n, server_error *error) {
    *out = NULL;
    *n = 0;
    pthread_mutex_lock(&registry->lock);
    uint32_t count = registry->meshes.used;
    mesh_record *records = count ? malloc(count * sizeof *records) : NULL;
    if (records) {
        uint32_t at = 0;
        for (mesh_entry *entry; (entry = slots_next(&registry->meshes, &at));)
            fill_record(registry, entry, &records[(*n)++]);
    }
    pthread_mutex_unlock(&registry->lock);
    if (count && !records) {
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "meshes", "", "no memory for a list of %" PRIu32, count);
    }
    if (records) qsort(records, *n, sizeof *records, by_handle);
    *out = records;
    return true;
}

mesh_entry *mesh_use(registry *registry, uint64_t handle, const identity *who, ct_mesh **mesh, server_error *error) {
    pthread_mutex_lock(&registry->lock);
    mesh_entry *entry = find(registry, handle, NULL, who, error);
    if (entry) {
        entry->bodies++;
        entry->used_ns = clock_ns();
        *mesh = entry->mesh;
    }
    pthread_mutex_unlock(&registry->lock);
    return entry;
}

void mesh_unuse(registry *registry, mesh_entry *entry) {
    if (!entry) return;
    pthread_mutex_lock(&registry->lock);
    entry->bodies--;
    entry->used_ns = clock_ns();
    pthread_mutex_unlock(&registry->lock);
}

uint64_t mesh_handle(const mesh_entry *entry) {
    return entry ? entry->handle : 0;
}

void registry_free_meshes(registry *registry) {
    uint32_t at = 0;
    for (mesh_entry *entry; (entry = slots_next(&registry->meshes, &at));) free_resident(registry, entry);
    slots_free(&registry->meshes);
}
