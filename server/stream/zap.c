/* zap.c - see zap.h. */
#include "server/stream/zap.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "server/base/clock.h"
#include "server/base/log.h"

/* A request's parts. */
enum { VERSION, REQUEST_ID, DOMAIN, ADDRESS, ROUTING_ID, MECHANISM, CREDENTIAL, MOST_PARTS, PART_BYTES = 255 };
enum { KEY_BYTES = 32 };

struct zap {
    void *socket;
    guard *guard;
    metrics *metrics;
    pthread_t thread;
};

typedef struct question {
    char parts[MOST_PARTS][PART_BYTES + 1]; /* NUL-terminated; a key has KEY_BYTES of any value */
    size_t sizes[MOST_PARTS];
    size_t n;
} question;

/* False: the context ends. */
static bool receive(void *socket, question *question) {
    memset(question, 0, sizeof *question);
    for (int more = 1; more;) {
        char part[PART_BYTES];
        int size = zmq_recv(socket, part, sizeof part, 0);
        if (size < 0 && zmq_errno() == EINTR) continue;
        if (size < 0) return false;
        if (question->n < MOST_PARTS) {
            size_t n = (size_t)size < sizeof part ? (size_t)size : sizeof part;
            memcpy(question->parts[question->n], part, n);
            question->sizes[question->n++] = n;
        }
        size_t room = sizeof more;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &room) != 0) return false;
    }
    return true;
}

/* What the client has shown, as guard_find takes it. False: nothing that is asked for here. */
static bool credential_of(const question *question, char text[64]) {
    bool asks_key = strcmp(question->parts[DOMAIN], ZAP_DOMAIN_KEY) == 0;
    if (asks_key && strcmp(question->parts[MECHANISM], "CURVE") == 0 && question->sizes[CREDENTIAL] == KEY_BYTES) {
        memcpy(text, "key=", 4);
        return zmq_z85_encode(text + 4, (const uint8_t *)question->parts[CREDENTIAL], KEY_BYTES) != NULL;
    }
    /* libzmq writes an ipc peer's address as "...:UID:GID:PID", of the kernel's SO_PEERCRED. */
    uint64_t uid, gid, pid;
    const char *pair = strchr(question->parts[ADDRESS], ':');
    if (asks_key || !pair || sscanf(pair, ":%" SCNu64 ":%" SCNu64 ":%" SCNu64, &uid, &gid, &pid) != 3) return false;
    snprintf(text, 64, "uid=%" PRIu64, uid);
    return true;
}

static void say_refused(zap *zap, const question *question, guard_verdict verdict) {
    const char *where = question->parts[ADDRESS];
    char more[GUARD_UNSEEN_TEXT];
    if (verdict == GUARD_LIMITED)
        log_debug("stream", "refused a connection from %s: too many attempts failed there", where);
    else if (strcmp(question->parts[DOMAIN], ZAP_DOMAIN_KEY) == 0)
        log_audit("a client at %s was refused: its key is not in --principals%s", where,
                  guard_unseen_text(zap->guard, more));
    else
        log_audit("a client over ipc (%s) was refused: its user is not in --principals%s", where,
                  guard_unseen_text(zap->guard, more));
}

static guard_verdict judge(zap *zap, const question *question, char credential[64]) {
    identity who;
    if (strcmp(question->parts[DOMAIN], ZAP_DOMAIN_OPEN) == 0) return GUARD_ADMITTED;
    bool shown = question->n >= MECHANISM && credential_of(question, credential);
    bool found = shown && guard_find(zap->guard, credential, &who);
    /* Of an ipc peer's address only the user counts, not its process. */
    bool local = strcmp(question->parts[DOMAIN], ZAP_DOMAIN_UID) == 0;
    guard_verdict verdict = guard_judge(zap->guard, local ? credential : question->parts[ADDRESS], found ? &who : NULL,
                                        GUARD_PROVEN, clock_ns(), NULL);
    if (verdict == GUARD_ADMITTED) return verdict;
    metrics_add(zap->metrics, METRICS_STREAM_UNAUTHENTICATED, 1);
    say_refused(zap, question, verdict);
    return verdict;
}

/* libzmq sends the client the status code alone. Of the codes that there are, 300 (try again) closes the connection
 * without a word; so a client that is to wait is told 500, and takes it for that. */
static bool answer(zap *zap, const question *question, guard_verdict verdict, const char *credential) {
    static const char *const codes[] = {[GUARD_ADMITTED] = "200", [GUARD_UNKNOWN] = "400", [GUARD_LIMITED] = "500"};
    static const char *const texts[] = {[GUARD_ADMITTED] = "admitted",
                                        [GUARD_UNKNOWN] = "not in the list of principals",
                                        [GUARD_LIMITED] = "too many attempts from this address failed, wait 3 s"};
    static_assert(GUARD_FAILURE_MS == 3000, "the text, and the clients, say so");
    bool good = verdict == GUARD_ADMITTED;
    const char *parts[] = {"1.0",          question->parts[REQUEST_ID], codes[verdict],
                           texts[verdict], good ? credential : "",      ""};
    enum { PARTS = sizeof parts / sizeof parts[0] };
    for (int i = 0; i < PARTS; i++) {
        size_t size = i == REQUEST_ID ? question->sizes[REQUEST_ID] : strlen(parts[i]);
        if (zmq_send(zap->socket, parts[i], size, i + 1 < PARTS ? ZMQ_SNDMORE : 0) < 0) return false;
    }
    return true;
}

static void *run(void *argument) {
    zap *zap = argument;
    question question;
    while (receive(zap->socket, &question)) {
        char credential[64] = "";
        guard_verdict verdict = judge(zap, &question, credential);
        if (!answer(zap, &question, verdict, credential)) break;
    }
    zmq_close(zap->socket);
    return NULL;
}

zap *zap_start(void *context, guard *guard, metrics *metrics) {
    zap *zap = calloc(1, sizeof *zap);
    if (!zap) return NULL;
    zap->guard = guard;
    zap->metrics = metrics;
    zap->socket = zmq_socket(context, ZMQ_REP);
    int failed = !zap->socket || zmq_setsockopt(zap->socket, ZMQ_LINGER, &(int){0}, sizeof(int)) != 0 ||
                 zmq_bind(zap->socket, "inproc://zeromq.zap.01") != 0;
    if (!failed && pthread_create(&zap->thread, NULL, run, zap) == 0) return zap;
    int saved = errno;
    if (zap->socket) zmq_close(zap->socket);
    free(zap);
    errno = saved;
    return NULL;
}

void zap_stop(zap **where) {
    if (!*where) return;
    pthread_join((*where)->thread, NULL);
    free(*where);
    *where = NULL;
}
