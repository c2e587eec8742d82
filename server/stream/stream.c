/* stream.c - the ROUTER socket and the I/O thread's loop. */
#include "server/stream/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/stream/each.h"
#include "server/stream/internal.h"
#include "server/stream/many.h"

enum {
    RECEIVE_AT_ONCE = 64, /* messages received before their commands run and are answered */
    REAP_EVERY_MS = 250,
    UNHEARD_MS = 4 * REAP_EVERY_MS, /* between two rounds of the loop: clients could not be heard */
    NOTE_EVERY_MS = 20,             /* that connections come and end */
    LAST_WORDS_MS = 100,
    /* The kernel's probes find connections whose other end is gone. ZeroMQ's own heartbeats are off: libzmq 4.3 ends
     * the process when one is due on a connection that has ended while as many of its messages were waiting as may
     * (ZMQ_RCVHWM). Clients' heartbeats are answered all the same. */
    PROBE_AFTER_S = 15,
    PROBE_EVERY_S = 15,
    PROBES = 3,
    UNACKNOWLEDGED_MS = 60000,
    BACKLOG = 1024,
    KEEP_SPARE = 256,
    KEEP_SPARE_BYTES = 32 << 20, /* allocated by all spare requests together */
};

/* ---- requests ---- */

static size_t allocated_bytes(const request *request) {
    return sizeof *request + wire_scratch_bytes(request->scratch) + request->room_updates * sizeof *request->updates +
           request->room_directions * sizeof *request->directions +
           request->room_velocities * sizeof *request->velocities;
}

static request *new_request(stream *stream) {
    request *request = stream->spare;
    if (request) {
        stream->spare = request->next;
        stream->n_spare--;
        stream->spare_bytes -= allocated_bytes(request);
    } else {
        request = calloc(1, sizeof *request);
        if (!request) return NULL;
        request->scratch = wire_scratch_new();
        if (!request->scratch) {
            free(request);
            return NULL;
        }
        request->stream = stream;
    }
    zmq_msg_init(&request->client);
    request->work = (work){0};
    request->peer = NULL;
    request->who = (identity){0};
    request->is_overfull = false;
    request->scene = 0;
    request->code = CONTACTD_OK;
    request->trace[0] = 0;
    ct_cancel_init(&request->left, 0);
    request->expected_bytes = 0;
    request->n_frames = 0;
    request->bytes = 0;
    request->next = NULL;
    return request;
}

static void destroy_request(request *request) {
    wire_scratch_free(&request->scratch);
    free(request->updates);
    free(request->directions);
    free(request->velocities);
    free(request);
}

/* Of one that is not under way: harmless. */
static void note_end(request *request) {
    if (!request->is_under_way) return;
    request->is_under_way = false;
    if (request->older) request->older->newer = request->newer;
    *(request->newer ? &request->newer->older : &request->stream->newest) = request->older;
}

void stream_free_request(request *request) {
    stream *stream = request->stream;
    size_t allocated = allocated_bytes(request);
    for (size_t i = 0; i < request->n_frames; i++) zmq_msg_close(&request->frames[i]);
    zmq_msg_close(&request->client);
    note_end(request);
    free(request->changes);
    request->changes = NULL;
    many_free(&request->many);
    each_free(&request->each);
    if (request->expected_bytes) peer_unexpect(request->peer, request->expected_bytes);
    if (request->peer) peer_subtract_unanswered(request->peer, request->bytes);
    peer_release(&request->peer);
    shares_give(&stream->in_hand, request->who.principal, request->bytes);
    if (stream->n_spare >= KEEP_SPARE || stream->spare_bytes + allocated > KEEP_SPARE_BYTES) {
        destroy_request(request);
        return;
    }
    stream->spare_bytes += allocated;
    request->next = stream->spare;
    stream->spare = request;
    stream->n_spare++;
}

void stream_note_begin(request *request) {
    stream *stream = request->stream;
    request->older = stream->newest;
    request->newer = NULL;
    if (stream->newest) stream->newest->newer = request;
    stream->newest = request;
    request->is_under_way = true;
}

void stream_charge_request(request *request, size_t bytes) {
    request->bytes += bytes;
    shares_take(&request->stream->in_hand, request->who.principal, bytes);
    if (request->peer) peer_add_unanswered(request->peer, bytes);
}

bool stream_is_draining(const stream *stream) {
    scheduler_facts facts;
    scheduler_get_facts(stream->service->scheduler, &facts);
    return facts.draining;
}

const char *stream_successors(const stream *stream) {
    const char *successors = stream->service->successors ? atomic_load(stream->service->successors) : NULL;
    return successors && successors[0] ? successors : NULL;
}

/* ---- finished requests ---- */

static void wake_stream(stream *stream) {
    uint64_t one = 1;
    if (write(stream->wake_fd, &one, sizeof one) < 0) log_error("stream", "eventfd: %s", strerror(errno));
}

void stream_finish(request *request) {
    stream *stream = request->stream;
    request->next = NULL;
    pthread_mutex_lock(&stream->lock);
    if (stream->first_finished) {
        stream->last_finished->next = request;
    } else {
        stream->first_finished = request;
    }
    stream->last_finished = request;
    bool wake = stream->asleep;
    stream->asleep = false;
    pthread_mutex_unlock(&stream->lock);
    if (wake) wake_stream(stream);
}

/* True: there was something to answer. */
static bool answer_finished(stream *stream) {
    for (bool any = false;; any = true) {
        pthread_mutex_lock(&stream->lock);
        request *first = stream->first_finished;
        stream->first_finished = stream->last_finished = NULL;
        pthread_mutex_unlock(&stream->lock);
        if (!first) return any;
        for (request *request = first, *next; request; request = next) {
            next = request->next;
            stream->n_outstanding--;
            stream_answer(stream, request);
            stream_free_request(request);
        }
    }
}

/* ---- receiving ---- */

static bool more(stream *stream) {
    int more = 0;
    size_t size = sizeof more;
    return zmq_getsockopt(stream->socket, ZMQ_RCVMORE, &more, &size) == 0 && more;
}

static void refuse_size(stream *stream, request *request, size_t frames, size_t bytes) {
    /* The number of the request is in its header, if that was kept: decoding that alone finds it. */
    wire_fault fault = {0};
    uint64_t number = 0;
    if (request->n_frames) {
        number = wire_decode(request->views, 1, request->scratch, &request->message, &fault) ? request->message.request
                                                                                             : fault.request;
    }
    server_error error = {0};
    server_fail(&error, CONTACTD_TOO_LARGE, "message", frames > 1 + WIRE_MAX_FRAMES ? "frames" : "size",
                "the message has %zu bytes in %zu frames; at most %" PRIu64
                " bytes (--max-message) in %d frames are taken",
                bytes, frames, stream->service->config->max_message, 1 + WIRE_MAX_FRAMES);
    reply_error(stream, request, number, &error, false);
}

static peer *find_peer(stream *stream, request *request, zmq_msg_t *part) {
    int fd = zmq_msg_get(part, ZMQ_SRCFD);
    return peers_find(stream->peers, fd, zmq_msg_data(&request->client), zmq_msg_size(&request->client));
}

/* By the message's first part. False: the request is not answered. */
static bool identify(stream *stream, request *request, zmq_msg_t *part) {
    request->peer = find_peer(stream, request, part);
    if (!request->peer) return false;
    const char *credential = stream->zap ? zmq_msg_gets(part, "User-Id") : NULL;
    const identity *who = peer_identify(request->peer, stream->service->guard, credential);
    if (!who || !shares_know(&stream->in_hand, who)) return false;
    request->who = *who;
    return true;
}

/* Receives one message whole. False: there is none. */
static bool receive(stream *stream) {
    const config *config = stream->service->config;
    request *request = new_request(stream);
    if (!request) return false; /* out of memory: it stays in the socket */
    if (zmq_msg_recv(&request->client, stream->socket, ZMQ_DONTWAIT) < 0) {
        stream_free_request(request);
        return false;
    }
    request->received_ns = clock_ns();
    size_t frames = 0, bytes = 0;
    bool too_large = false, is_known = false;
    while (more(stream)) {
        zmq_msg_t part;
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, stream->socket, 0) < 0) { /* ZeroMQ hands over whole messages: this does not wait */
            zmq_msg_close(&part);
            break;
        }
        if (frames == 0) is_known = identify(stream, request, &part);
        frames++;
        bytes += zmq_msg_size(&part);
        if (request->peer) peer_count_frame(request->peer, zmq_msg_size(&part));
        too_large = too_large || frames > 1 + WIRE_MAX_FRAMES || bytes > config->max_message;
        if (too_large) {
            zmq_msg_close(&part);
            continue;
        }
        zmq_msg_t *kept = &request->frames[request->n_frames];
        zmq_msg_init(kept);
        zmq_msg_move(kept, &part);
        zmq_msg_close(&part);
        request->views[request->n_frames++] = (wire_frame){zmq_msg_data(kept), zmq_msg_size(kept)};
    }
    stream_charge_request(request, bytes);
    metrics_add(stream->service->metrics, METRICS_STREAM_IN, bytes);
    metrics_add(stream->service->metrics, METRICS_STREAM_REQUESTS, 1);
    if (!is_known) { /* no memory, a routing id alone, or its key is no longer listed */
        stream_free_request(request);
    } else if (too_large) {
        refuse_size(stream, request, frames, bytes);
        stream_free_request(request);
    } else {
        stream_handle(stream, request);
    }
    return true;
}

/* ---- the loop ---- */

static void run_trim(work *work) { /* on a worker */
    stream *stream = (struct stream *)((char *)work - offsetof(struct stream, trim));
    memory_trim();
    atomic_store(&stream->is_trimming, false);
}

static void run_release(work *work) { /* on a worker */
    stream *stream = (struct stream *)((char *)work - offsetof(struct stream, trim));
    const service *service = stream->service;
    const uint64_t freed = ct_engine_release_scratch(service->engine, 1e-3 * (double)service->config->scratch_idle);
    if (freed > 0) log_debug("stream", "%" PRIu64 " MiB of working memory were given back", freed >> 20);
    if (memory_is_worth_trimming(freed)) memory_trim();
    atomic_store(&stream->is_trimming, false);
}

static void queue_trim(stream *stream, void (*run)(work *work)) {
    if (atomic_exchange(&stream->is_trimming, true)) return;
    stream->trim.run = run;
    if (workers_add(stream->service->workers, WORK_SCENES, &(identity){0}, &stream->trim) != WORKERS_QUEUED)
        atomic_store(&stream->is_trimming, false);
}

/* Returns memory to the system after clients' bytes were freed, and looks now and then for what steps need no more. */
static void trim_memory(stream *stream, uint64_t now) {
    registry_totals totals;
    registry_get_totals(stream->service->registry, &totals);
    uint64_t in_use = stream->in_hand.used + peers_unread_bytes(stream->peers) + peers_unfinished_bytes(stream->peers) +
                      totals.scene_bytes + totals.mesh_bytes;
    if (memory_should_trim(&stream->trimmer, in_use, now)) queue_trim(stream, run_trim);
    const uint64_t period = stream->service->config->scratch_idle * UINT64_C(1000000) / 4;
    if (now - stream->released_ns < period) return;
    stream->released_ns = now;
    queue_trim(stream, run_release);
}

/* Work that is due a few times a second. Returns when it is due next, of clock_ns(). */
static uint64_t run_periodic_work(stream *stream, uint64_t now, uint64_t *reap_at) {
    systemd_say_alive(now);
    if (now >= *reap_at) {
        scheduler_reap(stream->service->scheduler, now);
        workers_log_long(stream->service->workers);
        trim_memory(stream, now);
        metrics_set(stream->service->metrics, METRICS_GAUGE_UNREAD_BYTES, (double)peers_unread_bytes(stream->peers));
        *reap_at = now + REAP_EVERY_MS * UINT64_C(1000000);
    }
    uint32_t generation = guard_generation(stream->service->guard);
    if (generation != stream->guard_generation) {
        stream->guard_generation = generation;
        peers_identify_again(stream->peers, stream->service->guard);
    }
    if (now >= stream->noted_ns + NOTE_EVERY_MS * UINT64_C(1000000)) { /* while the thread is busy it does not sleep */
        peers_note_changes(stream->peers);
        stream->noted_ns = now;
    }
    uint64_t watch_at = peers_watch(stream->peers, now, stream->is_drained);
    return watch_at < *reap_at ? watch_at : *reap_at;
}

/* Sends the client an Error in answer to no request: it goes elsewhere as soon as it has its answers. */
static void tell_successors(void *context, const void *routing_id, size_t id_size) {
    stream *stream = context;
    wire_encoded encoded;
    wire_message message = {
        .type = WIRE_ERROR,
        .epoch = stream->service->epoch,
        .u.error = {.code = CONTACTD_SHUTTING_DOWN,
                    .object = "server",
                    .message = "the server drains: go to one of its successors",
                    .retry = true,
                    .successors = stream_successors(stream)},
    };
    if (!wire_encode(stream->encoder, &message, WIRE_INLINE_BYTES, &encoded)) return; /* its next request is told */
    if (zmq_send(stream->socket, routing_id, id_size, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) return; /* it is gone, or full */
    if (zmq_send(stream->socket, encoded.frames[0].data, encoded.frames[0].size, ZMQ_DONTWAIT) >= 0)
        metrics_add(stream->service->metrics, METRICS_STREAM_OUT, encoded.frames[0].size);
}

static void announce_drain(stream *stream) {
    if (!atomic_exchange(&stream->announces_drain, false) || !stream_successors(stream)) return;
    peers_note_changes(stream->peers);
    peers_visit(stream->peers, tell_successors, stream);
}

void stream_announce_drain(stream *stream) {
    atomic_store(&stream->announces_drain, true);
    wake_stream(stream);
}

static void sleep_for_events(stream *stream, uint64_t until_ns) {
    pthread_mutex_lock(&stream->lock);
    stream->asleep = !stream->first_finished;
    bool asleep = stream->asleep;
    pthread_mutex_unlock(&stream->lock);
    if (!asleep) return;
    zmq_pollitem_t items[] = {{.socket = stream->socket, .events = ZMQ_POLLIN},
                              {.fd = stream->wake_fd, .events = ZMQ_POLLIN},
                              {.socket = peers_monitor(stream->peers), .events = ZMQ_POLLIN}};
    uint64_t now = clock_ns();
    long ms = until_ns > now ? (long)((until_ns - now + 999999) / 1000000) : 0;
    int events = zmq_poll(items, 3, ms < REAP_EVERY_MS ? ms : REAP_EVERY_MS);
    pthread_mutex_lock(&stream->lock);
    stream->asleep = false;
    pthread_mutex_unlock(&stream->lock);
    if (events > 0 && items[2].revents) peers_note_changes(stream->peers);
    if (events > 0 && items[1].revents) {
        uint64_t count;
        if (read(stream->wake_fd, &count, sizeof count) < 0 && errno != EAGAIN) {
            log_error("stream", "eventfd: %s", strerror(errno));
        }
    }
}

/* Whether the thread is to end. Where clients were told of successors it stays until they have gone there, though for
 * no longer than it may linger: when a connection ends, a client's ZeroMQ drops what the client has not read. */
static bool is_over(const stream *stream, uint64_t now, uint64_t *ended_ns) {
    if (!atomic_load_explicit(&stream->ending, memory_order_acquire)) return false;
    if (!*ended_ns) *ended_ns = now;
    if (!stream_successors(stream) || !peers_count(stream->peers)) return true;
    return now >= *ended_ns + stream->linger_ms * UINT64_C(1000000);
}

/* Where the process was stopped, as a debugger, a container's pause or a machine that is moved do it, or where this thread
 * had no processor for long, what clients sent meanwhile is received only now: they were not silent. */
static void excuse_silence(stream *stream, uint64_t since, uint64_t now) {
    const uint64_t ns = now - since;
    if (ns < UNHEARD_MS * UINT64_C(1000000)) return;
    scheduler_excuse_silence(stream->service->scheduler, ns, now);
    peers_excuse_silence(stream->peers, ns, now);
}

static void *io_thread(void *argument) {
    stream *stream = argument;
    uint64_t now = clock_ns(), reap_at = now;
    uint64_t quiet_ns = 0, spin_ns = 0; /* since when nothing was to do, 0: something was; until when to spin */
    uint64_t ended_ns = 0;              /* when stream_stop was seen */
    while (!is_over(stream, now, &ended_ns)) {
        int received = 0;
        while (received < RECEIVE_AT_ONCE && receive(stream)) received++;
        stream->is_drained = received < RECEIVE_AT_ONCE;
        if (received && quiet_ns) {
            wire_spin_end(&stream->spin, clock_ns() - quiet_ns);
            quiet_ns = 0;
        }
        announce_drain(stream);
        if (received) scheduler_run_inline(stream->service->scheduler);
        bool answered = answer_finished(stream);
        const uint64_t before = now;
        now = clock_ns();
        excuse_silence(stream, before, now);
        if (stream->service->io_seen_ns) atomic_store_explicit(stream->service->io_seen_ns, now, memory_order_relaxed);
        uint64_t due_ns = run_periodic_work(stream, now, &reap_at);
        if (received || answered) {
            if (quiet_ns) wire_spin_end(&stream->spin, now - quiet_ns);
            quiet_ns = 0;
            continue;
        }
        if (!quiet_ns) {
            quiet_ns = now;
            spin_ns = now + wire_spin_begin(&stream->spin);
        }
        const bool spins = now < spin_ns && !(stream->n_outstanding && stream->shares_cores);
        wire_zmq_thread_set_batch(&stream->zmq_thread, spins);
        if (spins) {
            wire_spin_pause();
        } else {
            sleep_for_events(stream, due_ns);
        }
    }
    const uint64_t stayed_ms = (now - ended_ns) / UINT64_C(1000000);
    announce_drain(stream);
    /* Nothing more is received; outstanding requests are answered. */
    while (answer_finished(stream), stream->n_outstanding) {
        sleep_for_events(stream, UINT64_MAX);
        systemd_say_alive(clock_ns());
    }
    /* When a connection ends, the client's ZeroMQ drops answers that the client has not read: give it time to read
     * them. */
    uint32_t last_words_ms = stream->linger_ms < LAST_WORDS_MS ? stream->linger_ms : LAST_WORDS_MS;
    uint64_t left_ms = stayed_ms < stream->linger_ms ? stream->linger_ms - stayed_ms : 0;
    poll(NULL, 0, (int)last_words_ms);
    zmq_setsockopt(stream->socket, ZMQ_LINGER, &(int){(int)(left_ms > last_words_ms ? left_ms : last_words_ms)},
                   sizeof(int));
    zmq_close(stream->socket);
    peers_free(&stream->peers);
    return NULL;
}

/* ---- start and stop ---- */

int stream_high_water_mark(const stream *stream) {
    return (int)(4 * stream->service->config->max_in_flight + 64);
}

static bool set_options(stream *stream) {
    const config *config = stream->service->config;
    /* The high-water mark counts whole answers of one client. A client within its in-flight limit never reaches it; the
     * connection of one that does not read is cut (peers.h). */
    int hwm = stream_high_water_mark(stream);
    /* A single frame beyond this ends the connection, as it may never fit in memory; between --max-message and this the
     * sender gets TOO_LARGE. */
    int64_t frame_limit = (int64_t)config->max_message * 2;
    const struct {
        int option, value;
    } options[] = {
        {ZMQ_LINGER, 0},
        {ZMQ_ROUTER_MANDATORY, 1},
        {ZMQ_SNDHWM, hwm},
        {ZMQ_BACKLOG, BACKLOG},
        {ZMQ_TCP_KEEPALIVE, 1},
        {ZMQ_TCP_KEEPALIVE_IDLE, PROBE_AFTER_S},
        {ZMQ_TCP_KEEPALIVE_INTVL, PROBE_EVERY_S},
        {ZMQ_TCP_KEEPALIVE_CNT, PROBES},
        {ZMQ_TCP_MAXRT, UNACKNOWLEDGED_MS},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (zmq_setsockopt(stream->socket, options[i].option, &options[i].value, sizeof(int)) != 0) return false;
    }
    return zmq_setsockopt(stream->socket, ZMQ_MAXMSGSIZE, &frame_limit, sizeof frame_limit) == 0;
}

static void free_stream(stream *stream) {
    while (stream->spare) {
        request *next = stream->spare->next;
        destroy_request(stream->spare);
        stream->spare = next;
    }
    if (stream->context && stream->zap) zmq_ctx_shutdown(stream->context);
    zap_stop(&stream->zap);
    if (stream->context) zmq_ctx_term(stream->context); /* ends when all is sent, or linger has passed */
    wire_encoder_free(&stream->encoder);
    shares_free(&stream->in_hand);
    if (stream->wake_fd >= 0) close(stream->wake_fd);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static void leave_session(void *scheduler, uint64_t session) {
    scheduler_leave_session(scheduler, session);
}

static bool start_peers(stream *stream) {
    const service *service = stream->service;
    peers_limits limits = {
        .unread_per_client = service->config->unread_per_client,
        .unread = service->config->unread_memory,
        .max_message = service->config->max_message,
        .connections = service->stream_connections,
    };
    limits.is_encrypted = stream->has_key;
    stream->peers = peers_new(&limits, stream->context, stream->socket, service->metrics);
    if (stream->peers) peers_tell_ends(stream->peers, leave_session, service->scheduler);
    return stream->peers != NULL;
}

/* The server's own key, and the thread that looks clients up. */
static bool start_zap(stream *stream, server_error *error) {
    const service *service = stream->service;
    const char *path = service->config->stream_key;
    char message[480];
    if (path[0] && !keyfile_read(path, "secret", stream->secret_key, message, sizeof message))
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, "--stream-key", "stream-key", "%s", message);
    stream->has_key = path[0] != 0;
    if (stream->has_key && !guard_has_keys(service->guard))
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, "--stream-key", "stream-key",
                           "no client could connect: --principals names no client's key (NAME ROLE key=PUBLIC_KEY)");
    if (stream->has_key && !zmq_has("curve"))
        return server_fail(error, CONTACTD_UNSUPPORTED, "--stream-key", "stream-key",
                           "this build of ZeroMQ has no CURVE: install one that was built with libsodium");
    if (!stream->has_key && !guard_has_uids(service->guard)) return true;
    stream->zap = zap_start(stream->context, service->guard, service->metrics);
    if (stream->zap) return true;
    return server_fail(error, CONTACTD_INTERNAL, "stream", "", "its thread that admits clients cannot be started: %s",
                       zmq_strerror(zmq_errno()));
}

stream *stream_start(const service *service, server_error *error) {
    stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        server_fail(error, CONTACTD_OUT_OF_MEMORY, "stream", "", "no memory for the stream");
        return NULL;
    }
    stream->service = service;
    shares_init(&stream->in_hand, UNANSWERED_MESSAGES * service->config->max_message);
    wire_spin_init(&stream->spin, (uint32_t)service->config->spin_us);
    ct_engine_get_facts(service->engine, 0, &stream->engine);
    stream->shares_cores = strcmp(stream->engine.backend, "cpu") == 0;
    pthread_mutex_init(&stream->lock, NULL);
    stream->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    stream->encoder = wire_encoder_new();
    stream->context = zmq_ctx_new();
    stream->socket = stream->context ? zmq_socket(stream->context, ZMQ_ROUTER) : NULL;
    bool good = stream->wake_fd >= 0 && stream->encoder && stream->socket && set_options(stream);
    if (good && !start_zap(stream, error)) good = false;
    if (good) good = start_peers(stream);
    if (!good) { /* keeps what start_zap said */
        server_fail(error, CONTACTD_INTERNAL, "stream", "", "the socket cannot be set up: %s", zmq_strerror(errno));
    }
    good = good && stream_bind(stream, error);
    if (good) {
        good = pthread_create(&stream->thread, NULL, io_thread, stream) == 0;
        if (!good) server_fail(error, CONTACTD_OUT_OF_MEMORY, "stream", "", "its thread cannot be started");
    }
    if (!good) {
        if (stream->socket) zmq_close(stream->socket);
        peers_free(&stream->peers);
        free_stream(stream);
        return NULL;
    }
    return stream;
}

uint32_t stream_endpoint_count(const stream *stream) {
    return stream->n_endpoints;
}

const char *stream_endpoint(const stream *stream, size_t index) {
    return stream->endpoints[index];
}

void stream_stop(stream **stream, uint32_t linger_ms) {
    struct stream *ending = *stream;
    if (!ending) return;
    ending->linger_ms = linger_ms;
    atomic_store_explicit(&ending->ending, true, memory_order_release);
    wake_stream(ending);
    pthread_join(ending->thread, NULL);
    while (atomic_load(&ending->is_trimming)) poll(NULL, 0, 1);
    free_stream(ending);
    *stream = NULL;
}
