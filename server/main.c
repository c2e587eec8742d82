/* main.c - contactd: puts the parts together, waits for a signal, takes them apart. Exit codes: see config_help. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/base/pauses.h"
#include "server/base/systemd.h"
#include "server/core/history.h"
#include "server/core/service.h"
#include "server/core/successors.h"
#include "server/http/http.h"
#include "server/stream/stream.h"

enum {
    EXIT_OK = 0,
    EXIT_OTHER = 1,
    EXIT_USAGE = 2,
    EXIT_ADDRESS = 3,
    EXIT_ENGINE = 4,
    EXIT_LOG = 5,
    EXIT_DEVICE = 6,
    EXIT_UNFINISHED = 7,
    EXIT_STATE = 8
};
/* A message is in memory as ZeroMQ receives it, as what it is decoded to, and as the mesh that is made of it. */
enum { MESSAGE_PART = 4 };
enum { LEAST_STACK_BYTES = 1 << 20 };
enum {
    MAX_LINGER_MS = 2000,
    LEAST_LINGER_MS = 500,  /* even if the drain time is over */
    LAST_ANSWERS_MS = 3000, /* after --drain, for answers to go out; then the process ends whatever runs */
};
enum {
    MORE_CONNECTIONS = 64,  /* than --max-sessions: of clients that have no session yet, or reconnect */
    HTTP_CONNECTIONS = 256, /* at most */
    OTHER_FILES = 192,      /* open at once beside connections: what the engine and the log need */
    LEAST_FILES = 32,       /* without which the sockets' library ends the process */
};

extern char **environ;

typedef struct parts {
    machine machine;
    config config;
    ct_engine *engine;
    metrics *metrics;
    guard *guard;
    state *state;
    registry *registry;
    scheduler *scheduler;
    workers *workers;
    history *history;
    stream *stream;
    http_server *http;
    service service;
    _Atomic uint64_t io_seen_ns;
    _Atomic bool is_drain_asked;
    const char *_Atomic successors; /* NULL: none are known */
    char *successor_texts[2];       /* that it pointed to */
    passed_sockets sockets;
    pthread_t main;
    atomic_bool lost;          /* a device failed for good */
    sigset_t signals;          /* that the process waits for */
    _Atomic uint64_t asked_ns; /* when it was first asked to end; 0: it was not */
    atomic_bool has_stopped;   /* all parts are gone, and nothing needs to be guarded any more */
} parts;

/* code, unless what keeps the server from starting is an option about who may reach it. */
static int give_up(int code, const char *part, const server_error *error) {
    static const char *const fields[] = {"principals", "stream-key", "http-cert", "http-key", "insecure"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(error->field, fields[i]) == 0) code = EXIT_USAGE;
    }
    log_error(part, "%s: %s", error->object[0] ? error->object : part, error->message);
    return code;
}

static uint32_t default_threads(const machine *machine) {
    const uint32_t most = 256; /* that the engine takes */
    return machine->processors < most ? machine->processors : most;
}

static bool computes_on_cpu(const ct_engine *engine) {
    ct_engine_facts facts;
    ct_engine_get_facts(engine, 0, &facts);
    return facts.memory_budget == 0;
}

static bool start_engine(parts *parts, server_error *error) {
    const config *config = &parts->config;
    ct_engine_options options;
    ct_error cause = {0};
    ct_engine_options_init(&options);
    options.backend = config->backend;
    options.rasterizer = config->raster;
    options.devices = config->devices;
    options.max_device_bytes = config->gpu_memory;
    options.threads = (uint32_t)(config->threads ? config->threads : default_threads(&parts->machine));
    options.simd = config->simd;
    options.max_scratch_bytes = config->scratch_memory;
    options.max_cells = (uint32_t)config->max_cells;
    if (ct_engine_create(&options, &parts->engine, &cause) != CT_OK) return server_fail_engine(error, "engine", &cause);
    if (config->scratch_memory || !computes_on_cpu(parts->engine)) return true;
    /* A GPU's scratch is its own memory, which --gpu-memory bounds. The CPU's is the process's. */
    parts->config.scratch_memory = parts->machine.memory_bytes / CONFIG_SCRATCH_PART;
    options.max_scratch_bytes = parts->config.scratch_memory;
    ct_engine_destroy(&parts->engine);
    if (ct_engine_create(&options, &parts->engine, &cause) == CT_OK) return true;
    return server_fail_engine(error, "engine", &cause);
}

/* Wakes main, which ends the process: a device that failed does not come back within it. */
static void on_lost(void *context) {
    parts *parts = context;
    atomic_store(&parts->lost, true);
    pthread_kill(parts->main, SIGUSR1);
}

static bool start_middle(parts *parts, server_error *error) {
    const config *config = &parts->config;
    registry_limits limits = {
        .mesh_bytes = config->mesh_memory,
        .scene_bytes = config->scene_memory,
        .max_sessions = (uint32_t)config->max_sessions,
        .max_scenes = (uint32_t)config->max_scenes,
        .max_in_flight = (uint32_t)config->max_in_flight,
        .lease_ms = (uint32_t)config->lease,
    };
    parts->registry = registry_new(&limits, parts->engine, parts->metrics);
    if (!parts->registry) return server_fail(error, CONTACTD_OUT_OF_MEMORY, "server", "", "no memory to start");
    if (parts->state) registry_set_state(parts->registry, parts->state);
    scheduler_options options = {
        .engine = parts->engine,
        .backend = config->backend,
        .queue = (uint32_t)config->queue,
        .max_in_flight = (uint32_t)config->max_in_flight,
        .batch_window_us = config->batch_window_us,
        .scratch_bytes = config->scratch_memory,
        .max_step_ms = config->max_step_time,
        .on_lost = on_lost,
        .context = parts,
    };
    parts->scheduler = scheduler_start(&options, parts->registry, parts->metrics, error);
    if (!parts->scheduler) return false;
    parts->workers = workers_start(1e-3 * (double)config->max_step_time);
    if (!parts->workers)
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "server", "", "its threads cannot be started");
    parts->history = history_start(parts->metrics, parts->registry, parts->scheduler, parts->engine, parts->guard);
    if (!parts->history)
        return server_fail(error, CONTACTD_OUT_OF_MEMORY, "server", "", "its threads cannot be started");
    service *service = &parts->service;
    service->history = parts->history;
    service->config = config;
    service->engine = parts->engine;
    service->metrics = parts->metrics;
    service->registry = parts->registry;
    service->scheduler = parts->scheduler;
    service->guard = parts->guard;
    service->workers = parts->workers;
    service->state = parts->state;
    service->io_seen_ns = &parts->io_seen_ns;
    service->is_drain_asked = &parts->is_drain_asked;
    service->successors = &parts->successors;
    service->sockets = &parts->sockets;
    service->started_ns = clock_ns();
    while (parts->service.epoch == 0) {
        if (getrandom(&parts->service.epoch, sizeof parts->service.epoch, 0) < 0) {
            return server_fail(error, CONTACTD_INTERNAL, "server", "", "the system gives no random numbers");
        }
    }
    return true;
}

/* Many systems start programs with fewer files than --max-sessions clients need, but let them ask for more. Both sides
 * get their own number of connections, so that neither can take the other's. */
static void share_files(parts *parts) {
    const config *config = &parts->config;
    const rlim_t clients = (rlim_t)config->max_sessions + MORE_CONNECTIONS;
    const rlim_t need = clients + HTTP_CONNECTIONS + OTHER_FILES;
    struct rlimit limit = {need, need};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < need) {
        limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) getrlimit(RLIMIT_NOFILE, &limit);
    }
    bool is_short = limit.rlim_cur < need;
    rlim_t files = is_short ? limit.rlim_cur : need;
    rlim_t http = is_short && files / 4 < HTTP_CONNECTIONS ? files / 4 : HTTP_CONNECTIONS;
    rlim_t other = is_short && files / 2 < OTHER_FILES ? files / 2 : OTHER_FILES;
    parts->service.http_connections = (uint32_t)http;
    parts->service.stream_connections = (uint32_t)(files - http - other < clients ? files - http - other : clients);
    if (!is_short) return;
    log_warn("main",
             "%" PRIu64 " files may be open at once (ulimit -n), but --max-sessions %" PRIu64 " needs %" PRIu64
             ": raise the one or lower the other; %" PRIu32 " clients can connect",
             (uint64_t)limit.rlim_cur, config->max_sessions, (uint64_t)need, parts->service.stream_connections);
}

/* What computes, and why: before anything is served. */
static void say_engine(const parts *parts) {
    ct_engine_facts facts;
    ct_engine_get_facts(parts->engine, 0, &facts);
    log_info("main", "contactd " CONTACTD_VERSION " computes on %s (%s); rasteriser %s (--raster %s)", facts.backend,
             ct_engine_reason(parts->engine), facts.rasterizer, parts->config.raster);
    for (size_t i = 0; i < ct_engine_device_count(parts->engine); i++) {
        ct_engine_get_facts(parts->engine, i, &facts);
        if (facts.memory_budget) {
            log_info("main", "device %zu: %s, may use %" PRIu64 " MiB", i, facts.device, facts.memory_budget >> 20);
        } else {
            log_info("main", "device %zu: %s, %s, %" PRIu32 " threads", i, facts.device, facts.simd, facts.threads);
        }
    }
}

static void say_limits(const parts *parts) {
    const config *config = &parts->config;
    log_info("main",
             "memory: %" PRIu64 " MiB may be used%s; meshes %" PRIu64 ", scenes %" PRIu64 ", scratch %" PRIu64
             ", unread answers %" PRIu64 ", messages 12 times %" PRIu64,
             parts->machine.memory_bytes >> 20,
             parts->machine.has_few_addresses ? " (of ulimit -v or -d, without threads' stacks)" : "",
             config->mesh_memory >> 20, config->scene_memory >> 20, config->scratch_memory >> 20,
             config->unread_memory >> 20, config->max_message >> 20);
    if (parts->machine.has_few_addresses && config->max_message > parts->machine.memory_bytes / MESSAGE_PART)
        log_warn("main",
                 "--max-message %" PRIu64
                 " MiB is more than a quarter of the memory that ulimit -v or -d leaves: ZeroMQ "
                 "cuts the connection of a message for which it gets none",
                 config->max_message >> 20);
}

static void say_started(const parts *parts) {
    for (uint32_t i = 0; i < stream_endpoint_count(parts->stream); i++) {
        log_info("main", "simulators connect to %s", stream_endpoint(parts->stream, i));
    }
    const char *scheme = parts->config.http_cert[0] ? "https" : "http";
    if (parts->http) log_info("main", "HTTP on %s://%s/", scheme, http_server_address(parts->http));
    if (parts->sockets.n_stream || parts->sockets.http >= 0) {
        log_info("main", "sockets that the service manager passed replace --stream (%" PRIu32 ") and --http (%d)",
                 parts->sockets.n_stream, parts->sockets.http >= 0);
    }
    char status[300];
    snprintf(status, sizeof status, "serving on %s", stream_endpoint(parts->stream, 0));
    systemd_say_ready(status);
}

static bool start_state(parts *parts, server_error *error) {
    const config *config = &parts->config;
    if (!config->state_dir[0]) return true;
    if (!state_open(&parts->state, config->state_dir, config->state_size, parts->metrics, error)) return false;
    state_facts facts;
    state_get_facts(parts->state, &facts);
    log_info("state", "%s: %" PRIu64 " meshes of %" PRIu64 " MiB (at most %" PRIu64 "), settings of %" PRIu64 " scenes",
             config->state_dir, facts.meshes, facts.bytes >> 20, facts.max_bytes >> 20, facts.scenes);
    return true;
}

/* False: *error says why there are none. Called at most twice, as the texts that clients were given before must stay.
 */
static bool read_successors(parts *parts, server_error *error) {
    char *text = successors_read(&parts->config.successor, error);
    if (!text) return false;
    parts->successor_texts[atomic_load(&parts->successors) ? 1 : 0] = text;
    atomic_store(&parts->successors, text);
    return true;
}

static int start(parts *parts) {
    server_error error = {0};
    parts->metrics = metrics_new();
    if (!parts->metrics) {
        server_fail(&error, CONTACTD_OUT_OF_MEMORY, "server", "", "no memory to start");
        return give_up(EXIT_OTHER, "main", &error);
    }
    if (!successors_check(&parts->config.successor, &error) || !read_successors(parts, &error))
        return give_up(EXIT_USAGE, "main", &error);
    if (!guard_open(&parts->guard, parts->config.principals, &error)) return give_up(EXIT_OTHER, "main", &error);
    if (!systemd_open(&error)) return give_up(EXIT_OTHER, "main", &error);
    if (!systemd_take_sockets(&parts->sockets, &error)) return give_up(EXIT_ADDRESS, "main", &error);
    if (!start_state(parts, &error)) return give_up(EXIT_STATE, "state", &error);
    if (!start_engine(parts, &error)) return give_up(EXIT_ENGINE, "engine", &error);
    say_engine(parts);
    say_limits(parts);
    if (!start_middle(parts, &error)) return give_up(EXIT_OTHER, "main", &error);
    parts->stream = stream_start(&parts->service, &error);
    if (!parts->stream) return give_up(EXIT_ADDRESS, "stream", &error);
    if (!http_server_start(&parts->service, &parts->http, &error)) return give_up(EXIT_ADDRESS, "http", &error);
    say_started(parts);
    return EXIT_OK;
}

/* Clients learn where to go before anything of theirs is refused. */
static void announce_drain(parts *parts) {
    server_error error = {0};
    if (!parts->stream || !parts->config.successor.n) return;
    if (!read_successors(parts, &error))
        log_error("main", "%s: %s; clients are not told where to go", error.object, error.message);
    const char *successors = atomic_load(&parts->successors);
    if (!successors[0]) return;
    log_info("main", "clients are told to go to %s", successors);
    stream_announce_drain(parts->stream);
}

/* For clients to take their answers: what is left of the drain time. */
static uint32_t linger_ms(const parts *parts, uint64_t begun_ns) {
    const uint64_t spent_ms = (clock_ns() - begun_ns) / 1000000, drain = parts->config.drain;
    const uint64_t left_ms = spent_ms < drain ? drain - spent_ms : 0;
    if (left_ms > MAX_LINGER_MS) return MAX_LINGER_MS;
    return left_ms > LEAST_LINGER_MS || drain < LEAST_LINGER_MS ? (uint32_t)left_ms : LEAST_LINGER_MS;
}

/* In the order in which one needs the other. */
static void stop(parts *parts) {
    uint64_t drain = parts->config.drain;
    const uint64_t begun_ns = clock_ns();
    announce_drain(parts);
    if (parts->scheduler && !scheduler_drain(parts->scheduler, drain)) {
        log_warn("main", "what was still queued after %" PRIu64 " ms was refused", drain);
    }
    const uint64_t spent_ms = (clock_ns() - begun_ns) / 1000000;
    if (parts->workers) workers_drain_within(parts->workers, spent_ms < drain ? drain - spent_ms : 0);
    http_server_stop(&parts->http);
    stream_stop(&parts->stream, linger_ms(parts, begun_ns));
    workers_stop(&parts->workers);
    history_stop(&parts->history);
    scheduler_stop(&parts->scheduler);
    registry_free(&parts->registry);
    state_close(&parts->state);
    guard_close(&parts->guard);
    if (parts->metrics) metrics_free(&parts->metrics);
    ct_engine_destroy(&parts->engine);
    for (int i = 0; i < 2; i++) free(parts->successor_texts[i]);
}

static void reopen_log(void) {
    char message[512];
    if (log_reopen(message, sizeof message)) {
        log_info("main", "SIGHUP: the log was opened anew");
    } else {
        log_error("main", "SIGHUP: %s; the log goes on in the old file", message);
    }
}

static void reload_principals(parts *parts) {
    server_error error = {0};
    if (!parts->config.principals[0]) return;
    if (guard_reload(parts->guard, &error)) {
        log_audit("SIGHUP: the list of principals was read again");
    } else {
        log_error("main", "SIGHUP: %s: %s; the list stays as it was", error.object, error.message);
    }
}

static void reload_certificate(parts *parts) {
    server_error error = {0};
    if (!parts->config.http_cert[0]) return;
    if (http_server_reload(parts->http, &error)) {
        log_audit("SIGHUP: the certificate and its key were read again");
    } else {
        log_error("main", "SIGHUP: %s: %s; the old certificate stays", error.object, error.message);
    }
}

static int next_signal(const parts *parts) {
    const struct timespec until_look = {.tv_nsec = (long)PAUSES_LOOK_NS};
    int which;
    do pauses_look(clock_ns());
    while ((which = sigtimedwait(&parts->signals, NULL, &until_look)) < 0);
    pauses_rest();
    return which;
}

/* Until SIGTERM, SIGINT or the loss of a device. */
static int wait_for_end(parts *parts) {
    for (;;) {
        const int which = next_signal(parts);
        if (which != SIGHUP) atomic_store(&parts->asked_ns, clock_ns());
        if (atomic_load(&parts->lost)) {
            log_error("main", "a device failed: answering what is queued, then ending with exit code %d", EXIT_DEVICE);
            return EXIT_DEVICE;
        }
        if (which == SIGTERM || which == SIGINT) {
            log_info("main", "%s: finishing what is queued", strsignal(which));
            return EXIT_OK;
        }
        if (which == SIGHUP) {
            reopen_log();
            reload_principals(parts);
            reload_certificate(parts);
        }
    }
}

/* Of timeout(1), and where a terminal tells a program and its server of Ctrl-C and the program passes it on, two signals
 * come at once and mean one. */
static bool is_same_signal(const parts *parts) {
    return clock_ns() - atomic_load(&parts->asked_ns) < UINT64_C(250000000);
}

/* While the rest stops: ends the process at a second signal, or when a device does not come back from its work. Its
 * threads cannot be ended, so nothing is freed. */
static void *guard_end(void *argument) {
    const parts *parts = argument;
    const uint64_t limit_ms = parts->config.drain + LAST_ANSWERS_MS;
    const uint64_t end_ns = clock_ns() + limit_ms * UINT64_C(1000000);
    for (uint64_t now; (now = clock_ns()) < end_ns;) {
        uint64_t left = end_ns - now;
        struct timespec wait = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
        int which = sigtimedwait(&parts->signals, NULL, &wait);
        if (which == SIGUSR1 && atomic_load(&parts->has_stopped)) return NULL;
        if (which == SIGHUP) reopen_log();
        if ((which == SIGTERM || which == SIGINT) && !is_same_signal(parts)) {
            log_warn("main", "%s again: ending at once, whatever runs", strsignal(which));
            _exit(EXIT_UNFINISHED);
        }
    }
    log_error("main", "work did not end within %" PRIu64 " ms (--drain and %d ms): ending without it", limit_ms,
              LAST_ANSWERS_MS);
    _exit(EXIT_UNFINISHED);
}

static void stop_guarded(parts *parts) {
    systemd_say_stopping(parts->config.drain + LAST_ANSWERS_MS + 1000);
    pthread_t guard;
    bool is_guarded = pthread_create(&guard, NULL, guard_end, parts) == 0;
    stop(parts);
    if (!is_guarded) return;
    atomic_store(&parts->has_stopped, true);
    pthread_kill(guard, SIGUSR1);
    pthread_join(guard, NULL);
}

/* --until-stdin-ends: whoever holds the other end has ended, or asks for the end. */
static void *watch_stdin(void *argument) {
    const parts *parts = argument;
    char ignored[256];
    ssize_t n;
    do {
        n = read(STDIN_FILENO, ignored, sizeof ignored);
    } while (n > 0 || (n < 0 && errno == EINTR));
    log_info("main", "standard input ended");
    if (!atomic_load(&parts->asked_ns)) kill(getpid(), SIGTERM); /* else no second signal: who asked has ended, too */
    return NULL;
}

static bool start_watching_stdin(parts *parts) {
    pthread_t watch;
    return pthread_create(&watch, NULL, watch_stdin, parts) == 0 && pthread_detach(watch) == 0;
}

/* With the folders that are empty then. */
static void remove_sockets(const config_list *endpoints) {
    for (size_t i = 0; i < endpoints->n; i++) {
        char *path = endpoints->items[i] + strlen("ipc://");
        if (strncmp(endpoints->items[i], "ipc:///", 7) != 0) continue;
        unlink(path);
        *strrchr(path, '/') = 0;
        if (path[0]) rmdir(path);
    }
}

static int serve(parts *parts) {
    /* Blocked before any thread exists, so that all inherit it and only those that wait for signals see them. */
    sigemptyset(&parts->signals);
    sigaddset(&parts->signals, SIGTERM);
    sigaddset(&parts->signals, SIGINT);
    sigaddset(&parts->signals, SIGHUP);
    sigaddset(&parts->signals, SIGUSR1); /* from on_lost to main, from main to the thread that guards its end */
    pthread_sigmask(SIG_BLOCK, &parts->signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* of ulimit -f, LimitFSIZE=: a file that may not grow is an error, not the end */

    parts->main = pthread_self();
    share_files(parts);
    int code = start(parts);
    if (code == EXIT_OK && parts->config.until_stdin_ends && !start_watching_stdin(parts)) {
        log_error("main", "there is no thread to watch standard input");
        code = EXIT_OTHER;
    }
    if (code == EXIT_OK) code = wait_for_end(parts);
    stop_guarded(parts);
    if (parts->config.until_stdin_ends) remove_sockets(&parts->config.stream);
    systemd_close();
    if (code == EXIT_OK) log_info("main", "ended");
    return code;
}

/* Threads have stacks of the size that ulimit -s says when the process starts. */
static bool has_stack(char *message, size_t size) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= LEAST_STACK_BYTES) return true;
    snprintf(message, size,
             "a stack may have %" PRIu64 " KiB (ulimit -s, LimitSTACK=), and the server's threads need %d KiB: raise "
             "the limit, 8192 is usual",
             (uint64_t)limit.rlim_cur >> 10, LEAST_STACK_BYTES >> 10);
    return false;
}

static bool has_files(char *message, size_t size) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max >= LEAST_FILES) return true;
    snprintf(message, size,
             "%" PRIu64
             " files may be open at once (ulimit -n, LimitNOFILE=), and the server needs %d and one for each "
             "client: raise the limit, 1024 is usual",
             (uint64_t)limit.rlim_max, LEAST_FILES);
    return false;
}

/* Each thread's arena reserves 64 MiB of addresses, used or not. Where these are few, all share one. */
static void save_addresses(const machine *machine) {
    if (machine->has_few_addresses) mallopt(M_ARENA_MAX, 1);
}

int main(int argc, char **argv) {
    parts parts = {0};
    char message[512];
    machine_find(&parts.machine, "");
    save_addresses(&parts.machine);
    switch (config_load(&parts.config, argc, argv, environ, parts.machine.memory_bytes, message, sizeof message)) {
    case CONFIG_HELP:
        config_help(stdout);
        return EXIT_OK;
    case CONFIG_VERSION:
        puts(SERVER_NAME);
        return EXIT_OK;
    case CONFIG_PRINT:
        config_print(&parts.config, stdout);
        config_free(&parts.config);
        return EXIT_OK;
    case CONFIG_INVALID:
        fprintf(stderr, "contactd: %s\n", message);
        return EXIT_USAGE;
    case CONFIG_RUN:
        break;
    }
    if (!has_stack(message, sizeof message) || !has_files(message, sizeof message)) {
        fprintf(stderr, "contactd: %s\n", message);
        config_free(&parts.config);
        return EXIT_OTHER;
    }
    int code = EXIT_LOG;
    const config *config = &parts.config;
    if (log_open(config->log_format, config->log_level, config->log_file, message, sizeof message)) {
        code = serve(&parts);
    } else {
        fprintf(stderr, "contactd: %s\n", message);
    }
    log_close();
    config_free(&parts.config);
    return code;
}
