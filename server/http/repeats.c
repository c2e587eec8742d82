/* repeats.c - see repeats.h. A ring of the newest keys; looked through one by one, as they are few. */
#include "server/http/repeats.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef enum entry_state { ENTRY_NONE, ENTRY_RUNNING, ENTRY_ANSWERED } entry_state;

typedef struct entry {
    entry_state state;
    uint64_t scene, body_hash;
    uint32_t principal;
    char key[REPEATS_KEY + 1];
    char *answer; /* NULL: not kept */
    size_t size;
} entry;

struct repeats {
    pthread_mutex_t lock; /* guards all that follows */
    uint64_t bytes;       /* of all kept answers */
    uint32_t next;        /* place of the next key, which is the oldest one's */
    entry entries[REPEATS_MOST];
};

repeats *repeats_new(void) {
    repeats *repeats = calloc(1, sizeof *repeats);
    if (repeats) pthread_mutex_init(&repeats->lock, NULL);
    return repeats;
}

static void drop_answer(repeats *repeats, entry *entry) {
    if (entry->answer) repeats->bytes -= entry->size;
    free(entry->answer);
    entry->answer = NULL;
}

void repeats_free(repeats **where) {
    repeats *repeats = *where;
    if (!repeats) return;
    for (size_t i = 0; i < REPEATS_MOST; i++) free(repeats->entries[i].answer);
    pthread_mutex_destroy(&repeats->lock);
    free(repeats);
    *where = NULL;
}

static uint64_t hash_of(const void *bytes, size_t size) {
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a: only the client itself gains from a collision, nothing */
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return hash ^ size;
}

static bool check_key(const char *key, problem *p) {
    size_t n = strlen(key);
    bool good = n >= 1 && n <= REPEATS_KEY;
    for (size_t i = 0; good && i < n; i++) good = key[i] > 0x20 && key[i] < 0x7f;
    return good || problem_set(p, CONTACTD_INVALID_ARGUMENT, "Idempotency-Key",
                               "the header Idempotency-Key has %zu bytes; expected 1 to %d visible characters without "
                               "blanks",
                               n, REPEATS_KEY);
}

/* With the lock held. NULL: the key is new. */
static entry *find(repeats *repeats, const repeat_request *request) {
    for (uint32_t i = 0; i < REPEATS_MOST; i++) {
        entry *entry = &repeats->entries[i];
        if (entry->state != ENTRY_NONE && entry->scene == request->scene && entry->principal == request->principal &&
            strcmp(entry->key, request->key) == 0)
            return entry;
    }
    return NULL;
}

/* The oldest place that no running request holds; NULL: all run, which takes more requests than there are
 * connections. */
static entry *take_place(repeats *repeats) {
    for (uint32_t tries = 0; tries < REPEATS_MOST; tries++) {
        entry *entry = &repeats->entries[repeats->next];
        repeats->next = (repeats->next + 1) % REPEATS_MOST;
        if (entry->state != ENTRY_RUNNING) return entry;
    }
    return NULL;
}

static repeat_outcome judge(const entry *entry, uint64_t body_hash, char **answer, size_t *size, problem *p) {
    const char *field = "Idempotency-Key";
    if (entry->body_hash != body_hash) {
        problem_set_http(p, CONTACTD_CONFLICT, 422, "the key was used for another request", field,
                         "this key came with another body before; a key stands for one request");
    } else if (entry->state == ENTRY_RUNNING) {
        problem_set(p, CONTACTD_CONFLICT, field, "the request with this key is being carried out: ask again later");
        p->retry_after_ms = 1000;
    } else if (!entry->answer) {
        problem_set(p, CONTACTD_CONFLICT, field,
                    "the request with this key was carried out, and its answer is no longer kept");
    } else if (!(*answer = malloc(entry->size + 1))) {
        problem_set(p, CONTACTD_OUT_OF_MEMORY, field, "no memory for an answer of %zu bytes", entry->size);
    } else {
        memcpy(*answer, entry->answer, entry->size);
        *size = entry->size;
        return REPEAT_ANSWERED;
    }
    return REPEAT_REFUSED;
}

repeat_outcome repeats_begin(repeats *repeats, const repeat_request *request, char **answer, size_t *size, problem *p) {
    if (!check_key(request->key, p)) return REPEAT_REFUSED;
    uint64_t body_hash = hash_of(request->body, request->size);
    repeat_outcome outcome = REPEAT_FIRST;
    pthread_mutex_lock(&repeats->lock);
    entry *entry = find(repeats, request);
    if (entry) {
        outcome = judge(entry, body_hash, answer, size, p);
    } else if ((entry = take_place(repeats))) {
        drop_answer(repeats, entry);
        *entry = (struct entry){
            .state = ENTRY_RUNNING, .scene = request->scene, .body_hash = body_hash, .principal = request->principal};
        memcpy(entry->key, request->key, strlen(request->key) + 1);
    } else {
        problem_set(p, CONTACTD_BUSY, "Idempotency-Key", "%d requests with keys are being carried out", REPEATS_MOST);
        outcome = REPEAT_REFUSED;
    }
    pthread_mutex_unlock(&repeats->lock);
    return outcome;
}

/* Of the oldest answers, until the rest fits. With the lock held. */
static void make_room(repeats *repeats, size_t size) {
    for (uint32_t i = 0; i < REPEATS_MOST && repeats->bytes + size > REPEATS_BYTES; i++)
        drop_answer(repeats, &repeats->entries[(repeats->next + i) % REPEATS_MOST]);
}

void repeats_end(repeats *repeats, const repeat_request *request, const char *answer, size_t size) {
    char *copy = answer && size <= REPEATS_BYTES / 4 ? malloc(size + 1) : NULL;
    if (copy) memcpy(copy, answer, size);
    pthread_mutex_lock(&repeats->lock);
    entry *entry = find(repeats, request); /* a running one stays in its place */
    if (copy) make_room(repeats, size);
    entry->state = answer ? ENTRY_ANSWERED : ENTRY_NONE;
    entry->answer = copy;
    entry->size = size;
    if (copy) repeats->bytes += size;
    pthread_mutex_unlock(&repeats->lock);
}
