/* failures.c - see failures.h. Each address has a leaky bucket: a failure pours in GUARD_FAILURE_MS of time, and the
 * bucket holds GUARD_FAILURES of them. Addresses are hashed with a random key, so that no one can choose to share
 * another's place. */
#include "server/guard/failures.h"

#include <arpa/inet.h>
#include <assert.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/guard/guard.h"

enum { PLACES = 4096, WAYS = 4 }; /* an address may stand in WAYS neighbouring places */
#define FAILURE_NS (GUARD_FAILURE_MS * UINT64_C(1000000))

typedef struct bucket {
    uint64_t address;  /* its hash; 0: free */
    uint64_t empty_ns; /* of clock_ns(): when it will have run dry */
} bucket;

struct failures {
    unsigned char key[crypto_shorthash_KEYBYTES];
    pthread_mutex_t lock;
    bucket buckets[PLACES];
    uint64_t known[PLACES]; /* hashes of address and principal */
};

failures *failures_new(void) {
    failures *failures = calloc(1, sizeof *failures);
    if (!failures) return NULL;
    randombytes_buf(failures->key, sizeof failures->key);
    pthread_mutex_init(&failures->lock, NULL);
    return failures;
}

void failures_free(failures **where) {
    if (!*where) return;
    pthread_mutex_destroy(&(*where)->lock);
    free(*where);
    *where = NULL;
}

/* An IPv6 address stands for its /64, which is what one customer gets. Other text stands for itself. */
static uint64_t hash_of(const failures *failures, const char *address, uint32_t principal) {
    unsigned char bytes[80] = {0};
    struct in6_addr v6;
    if (inet_pton(AF_INET6, address, &v6) == 1)
        memcpy(bytes, &v6, IN6_IS_ADDR_V4MAPPED(&v6) ? 16 : 8);
    else
        strncpy((char *)bytes, address, sizeof bytes - 8);
    memcpy(bytes + sizeof bytes - sizeof principal, &principal, sizeof principal);
    uint64_t hash = 0;
    static_assert(sizeof hash == crypto_shorthash_BYTES, "a hash is one word");
    crypto_shorthash((unsigned char *)&hash, bytes, sizeof bytes, failures->key);
    return hash ? hash : 1;
}

/* The address's bucket, or where there is none the one that is empty first. With the lock held. */
static bucket *find(failures *failures, uint64_t address) {
    bucket *first = NULL;
    for (unsigned i = 0; i < WAYS; i++) {
        bucket *bucket = &failures->buckets[(address + i) % PLACES];
        if (bucket->address == address) return bucket;
        if (!first || bucket->empty_ns < first->empty_ns) first = bucket;
    }
    return first;
}

uint64_t failures_wait_ns(failures *failures, const char *address, uint64_t now_ns) {
    uint64_t hash = hash_of(failures, address, 0);
    pthread_mutex_lock(&failures->lock);
    const bucket *bucket = find(failures, hash);
    const uint64_t full_ns = now_ns + (GUARD_FAILURES - 1) * FAILURE_NS;
    uint64_t wait_ns = bucket->address == hash && bucket->empty_ns > full_ns ? bucket->empty_ns - full_ns : 0;
    pthread_mutex_unlock(&failures->lock);
    return wait_ns;
}

void failures_note(failures *failures, const char *address, uint64_t now_ns) {
    uint64_t hash = hash_of(failures, address, 0);
    pthread_mutex_lock(&failures->lock);
    bucket *bucket = find(failures, hash);
    if (bucket->address != hash) *bucket = (struct bucket){hash, 0};
    if (bucket->empty_ns < now_ns) bucket->empty_ns = now_ns;
    bucket->empty_ns += FAILURE_NS;
    pthread_mutex_unlock(&failures->lock);
}

void failures_note_success(failures *failures, const char *address, uint32_t principal) {
    uint64_t hash = hash_of(failures, address, principal);
    pthread_mutex_lock(&failures->lock);
    failures->known[hash % PLACES] = hash;
    pthread_mutex_unlock(&failures->lock);
}

bool failures_knows(failures *failures, const char *address, uint32_t principal) {
    uint64_t hash = hash_of(failures, address, principal);
    pthread_mutex_lock(&failures->lock);
    bool is_known = failures->known[hash % PLACES] == hash;
    pthread_mutex_unlock(&failures->lock);
    return is_known;
}

uint32_t failures_origin(const failures *failures, const char *address) {
    uint32_t origin = (uint32_t)hash_of(failures, address, UINT32_MAX); /* of no principal */
    return origin ? origin : 1;
}
