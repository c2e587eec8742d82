/* guard.c - see guard.h. */
#include "server/guard/guard.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/guard/failures.h"
#include "server/guard/principals.h"

struct guard {
    char *path; /* NULL: there is no file */
    bool has[CREDENTIAL_KINDS];
    failures *failures;
    atomic_uint generation;
    atomic_uint_fast64_t unseen; /* attempts that were GUARD_LIMITED, of which no line of the log tells yet */
    pthread_rwlock_t lock;       /* guards all that follows */
    principals list;
    uint32_t weight;              /* of all listed principals that have meshes and scenes */
    char (*names)[IDENTITY_NAME]; /* [n_names] of all principals there ever were; principal k has names[k - 1] */
    uint32_t n_names;
};

/* The principal's number; 0: no memory. */
static uint32_t number_of(guard *guard, const char *name) {
    for (uint32_t i = 0; i < guard->n_names; i++) {
        if (strcmp(guard->names[i], name) == 0) return i + 1;
    }
    void *grown = realloc(guard->names, (guard->n_names + 1) * sizeof *guard->names);
    if (!grown) return 0;
    guard->names = grown;
    memcpy(guard->names[guard->n_names], name, IDENTITY_NAME);
    return ++guard->n_names;
}

static uint32_t weight_of_all(const principals *list) {
    uint32_t weight = 0;
    for (size_t i = 0; i < list->n; i++) {
        const credential *item = &list->items[i];
        bool is_first = role_simulates(item->role);
        for (size_t k = 0; k < i && is_first; k++) is_first = list->items[k].principal != item->principal;
        if (is_first) weight += item->weight;
    }
    return weight;
}

static bool number_all(guard *guard, principals *list, server_error *error) {
    for (size_t i = 0; i < list->n; i++) {
        list->items[i].principal = number_of(guard, list->items[i].name);
        if (!list->items[i].principal)
            return server_fail(error, CONTACTD_OUT_OF_MEMORY, "principals", "principals", "no memory for the list");
    }
    return true;
}

bool guard_open(guard **out, const char *path, server_error *error) {
    *out = NULL;
    guard *guard = calloc(1, sizeof *guard);
    if (!guard || sodium_init() < 0 || !(guard->failures = failures_new())) {
        free(guard);
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "guard", "", "no memory, or no random numbers, to start");
    }
    pthread_rwlock_init(&guard->lock, NULL);
    guard->path = path[0] ? strdup(path) : NULL;
    bool good = !path[0] || guard->path;
    if (!good) server_fail(error, CONTACTD_OUT_OF_MEMORY, "guard", "", "no memory to start");
    if (good && guard->path) good = guard_reload(guard, error);
    if (!good) {
        guard_close(&guard);
        return false;
    }
    for (size_t i = 0; i < guard->list.n; i++) guard->has[guard->list.items[i].kind] = true;
    *out = guard;
    return true;
}

bool guard_reload(guard *guard, server_error *error) {
    principals list;
    if (!guard->path) return true;
    if (!principals_read(&list, guard->path, error)) return false;
    pthread_rwlock_wrlock(&guard->lock);
    bool good = number_all(guard, &list, error);
    if (good) {
        principals old = guard->list;
        guard->list = list;
        guard->weight = weight_of_all(&list);
        list = old;
        atomic_fetch_add(&guard->generation, 1);
    }
    pthread_rwlock_unlock(&guard->lock);
    principals_free(&list);
    return good;
}

void guard_close(guard **where) {
    guard *guard = *where;
    if (!guard) return;
    principals_free(&guard->list);
    failures_free(&guard->failures);
    free(guard->names);
    free(guard->path);
    pthread_rwlock_destroy(&guard->lock);
    free(guard);
    *where = NULL;
}

bool guard_has_keys(const guard *guard) {
    return guard->has[CREDENTIAL_KEY];
}

bool guard_has_uids(const guard *guard) {
    return guard->has[CREDENTIAL_UID];
}

bool guard_has_tokens(const guard *guard) {
    return guard->has[CREDENTIAL_TOKEN];
}

uint32_t guard_generation(const guard *guard) {
    return atomic_load_explicit(&guard->generation, memory_order_acquire);
}

void guard_name(guard *guard, uint32_t principal, char name[IDENTITY_NAME]) {
    name[0] = 0;
    if (!principal) return;
    pthread_rwlock_rdlock(&guard->lock);
    if (principal <= guard->n_names) memcpy(name, guard->names[principal - 1], IDENTITY_NAME);
    pthread_rwlock_unlock(&guard->lock);
}

static void identify(const guard *guard, const credential *found, identity *out) {
    uint32_t own = role_simulates(found->role) ? found->weight : 0;
    *out = (identity){.principal = found->principal,
                      .role = found->role,
                      .weight = found->weight,
                      .others_weight = guard->weight - own,
                      .max_step_ms = found->max_step_ms};
    memcpy(out->name, found->name, sizeof out->name);
}

bool guard_find(guard *guard, const char *text, identity *out) {
    bool found = false;
    pthread_rwlock_rdlock(&guard->lock);
    for (size_t i = 0; i < guard->list.n && !found; i++) {
        const credential *item = &guard->list.items[i];
        found = item->kind != CREDENTIAL_TOKEN && strcmp(item->text, text) == 0;
        if (found) identify(guard, item, out);
    }
    pthread_rwlock_unlock(&guard->lock);
    return found;
}

bool guard_find_token(guard *guard, const char *token, size_t size, identity *out) {
    unsigned char hash[TOKEN_HASH_BYTES];
    static_assert(sizeof hash == crypto_hash_sha256_BYTES, "a token is hashed by SHA-256");
    crypto_hash_sha256(hash, (const unsigned char *)token, size);
    const credential *found = NULL;
    pthread_rwlock_rdlock(&guard->lock);
    for (size_t i = 0; i < guard->list.n; i++) { /* to the end, whatever is found */
        const credential *item = &guard->list.items[i];
        bool is_equal = sodium_memcmp(item->hash, hash, sizeof hash) == 0;
        if (is_equal && item->kind == CREDENTIAL_TOKEN) found = item;
    }
    if (found) identify(guard, found, out);
    pthread_rwlock_unlock(&guard->lock);
    sodium_memzero(hash, sizeof hash);
    return found != NULL;
}

guard_verdict guard_judge(guard *guard, const char *address, const identity *found, guard_proof proof, uint64_t now_ns,
                          uint32_t *wait_ms) {
    const uint64_t wait_ns = failures_wait_ns(guard->failures, address, now_ns);
    if (wait_ms) *wait_ms = (uint32_t)((wait_ns + 999999) / 1000000);
    bool is_limited = false;
    if (found) {
        bool is_trusted = proof == GUARD_PROVEN || failures_knows(guard->failures, address, found->principal);
        is_limited = wait_ns && !is_trusted;
        if (!is_limited) failures_note_success(guard->failures, address, found->principal);
    } else {
        is_limited = wait_ns > 0;
        if (!is_limited) failures_note(guard->failures, address, now_ns);
    }
    if (is_limited) atomic_fetch_add(&guard->unseen, 1);
    return is_limited ? GUARD_LIMITED : found ? GUARD_ADMITTED : GUARD_UNKNOWN;
}

uint32_t guard_origin(guard *guard, const char *address) {
    return failures_origin(guard->failures, address);
}

uint64_t guard_take_unseen(guard *guard) {
    return atomic_exchange(&guard->unseen, 0);
}

const char *guard_unseen_text(guard *guard, char out[GUARD_UNSEEN_TEXT]) {
    uint64_t n = guard_take_unseen(guard);
    out[0] = 0;
    if (n)
        snprintf(out, GUARD_UNSEEN_TEXT, "; %" PRIu64 " more attempts, of any address, were refused unseen before", n);
    return out;
}
