/* service.h - the parts of a running server, as stream and HTTP get them, and the one view of its state. */
#ifndef SERVER_SERVICE_H
#define SERVER_SERVICE_H

#include "server/base/config.h"
#include "server/base/systemd.h"
#include "server/core/workers.h"
#include "server/guard/guard.h"
#include "server/metrics/metrics.h"
#include "server/registry/registry.h"
#include "server/schedule/schedule.h"
#include "server/state/state.h"

#define SERVER_NAME "contactd " CONTACTD_VERSION

typedef struct service { /* nothing is owned; set up and torn down by main.c */
    const config *config;
    ct_engine *engine;
    metrics *metrics;
    registry *registry;
    scheduler *scheduler;
    guard *guard;
    workers *workers;
    struct history *history;
    state *state;                  /* NULL: nothing outlives the server */
    const passed_sockets *sockets; /* replace --stream and --http */
    uint64_t epoch;                /* random, not 0; differs after every start */
    uint64_t started_ns;           /* of clock_ns() */
    /* At most so many connections, by the number of files that the process may open. */
    uint32_t stream_connections, http_connections;
    /* When the stream's I/O thread last went round its loop, which it does several times a second; 0: not yet. */
    _Atomic uint64_t *io_seen_ns;
    _Atomic bool *is_drain_asked; /* by service_drain */
    /* Addresses between commas that clients go to when the server drains or is gone. Set at the start, and again when
     * it drains; a text stays until the end. NULL: none. */
    const char *_Atomic *successors;
} service;

/* An I/O thread that is silent for longer hangs: it waits for nothing but a few small steps. */
#define SERVICE_IO_SILENCE_S 30
double service_io_silence(const service *service); /* in s; 0 before the thread runs */

typedef struct service_status {
    ct_engine_facts devices[CT_MAX_DEVICES];
    size_t n_devices;
    uint64_t scratch_bytes, scratch_peak; /* of all devices */
    registry_totals totals;
    scheduler_facts queue;
    bool ready;
    char ready_reason[256]; /* why not; empty when ready */
    double uptime_s;
    uint64_t steps, contacts; /* since start */
} service_status;

/* As SIGTERM, once: ends the server, which answers what it has and refuses the rest. False: *error says that the role
 * may not. Logs who asked. On any thread, and returns at once. */
bool service_drain(const service *service, const identity *who, server_error *error);
/* Before somebody other than its client configures a scene: a place for its settings, so that they outlive the server.
 * Waits for the disk. False: *error says why they could not be stored. */
bool service_take_place(const service *service, state_place *out, server_error *error);
/* After it: stores them. Waits for the disk. */
void service_keep_settings(const service *service, state_place *place, const scene_record *scene);
void service_leave_place(const service *service, state_place *place); /* it was not configured; of none: harmless */
void service_get_status(const service *service, service_status *out);
/* Sets the gauges and makes the Prometheus text. The caller frees it with free(); NULL: out of memory. */
char *service_metrics_text(const service *service, size_t *size);

#endif
