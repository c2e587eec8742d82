/* service.c - the server's state in one view, for status answers and metrics. */
#include "server/core/service.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/log.h"

void service_get_status(const service *service, service_status *out) {
    memset(out, 0, sizeof *out);
    out->n_devices = ct_engine_device_count(service->engine);
    for (size_t i = 0; i < out->n_devices; i++) {
        ct_engine_get_facts(service->engine, i, &out->devices[i]);
        out->scratch_bytes += out->devices[i].scratch_bytes;
        out->scratch_peak += out->devices[i].scratch_peak;
    }
    registry_get_totals(service->registry, &out->totals);
    scheduler_get_facts(service->scheduler, &out->queue);
    out->ready = scheduler_ready(service->scheduler, out->ready_reason, sizeof out->ready_reason);
    out->uptime_s = (double)(clock_ns() - service->started_ns) * 1e-9;
    out->steps = metrics_counter_value(service->metrics, METRICS_STEPS);
    out->contacts = metrics_counter_value(service->metrics, METRICS_CONTACTS);
}

bool service_take_place(const service *service, state_place *out, server_error *error) {
    out->fd = -1;
    return !service->state || state_take_place(service->state, out, error);
}

void service_leave_place(const service *service, state_place *place) {
    if (service->state) state_leave_place(service->state, place);
}

void service_keep_settings(const service *service, state_place *place, const scene_record *scene) {
    char name[IDENTITY_NAME];
    if (!service->state) return;
    if (!scene->key) { /* nobody can ask for them later */
        state_leave_place(service->state, place);
        return;
    }
    guard_name(service->guard, scene->principal, name);
    state_put_settings(service->state, place, scene->key, name, &scene->settings, scene->revision);
}

bool service_drain(const service *service, const identity *who, server_error *error) {
    if (!role_operates(who->role))
        return server_fail(error, CONTACTD_FORBIDDEN, "principal", "role",
                           "%s has the role %s; draining the server takes the role operator or admin", who->name,
                           role_name(who->role));
    /* A second SIGTERM would end the server at once. */
    if (atomic_exchange(service->is_drain_asked, true)) return true;
    if (who->principal)
        log_audit("%s (%s) drains the server", who->name, role_name(who->role));
    else
        log_info("main", "a client drains the server");
    kill(getpid(), SIGTERM);
    return true;
}

double service_io_silence(const service *service) {
    uint64_t seen = service->io_seen_ns ? atomic_load(service->io_seen_ns) : 0, now = clock_ns();
    return seen && now > seen ? (double)(now - seen) * 1e-9 : 0;
}

char *service_metrics_text(const service *service, size_t *size) {
    metrics *metrics = service->metrics;
    service_status status;
    service_get_status(service, &status);
    metrics_set_counter(metrics, METRICS_LOG_LOST, log_lost_lines());
    metrics_set(metrics, METRICS_GAUGE_READY, status.ready);
    metrics_set(metrics, METRICS_GAUGE_UPTIME, status.uptime_s);
    metrics_set(metrics, METRICS_GAUGE_SESSIONS, status.totals.sessions);
    metrics_set(metrics, METRICS_GAUGE_SCENES, status.totals.scenes);
    metrics_set(metrics, METRICS_GAUGE_BODIES, status.totals.bodies);
    metrics_set(metrics, METRICS_GAUGE_MESHES, status.totals.meshes);
    metrics_set(metrics, METRICS_GAUGE_MESH_BYTES, (double)status.totals.mesh_bytes);
    metrics_set(metrics, METRICS_GAUGE_MESH_BYTES_LIMIT, (double)status.totals.mesh_bytes_limit);
    metrics_set(metrics, METRICS_GAUGE_SCENE_BYTES, (double)status.totals.scene_bytes);
    metrics_set(metrics, METRICS_GAUGE_SCRATCH_BYTES, (double)status.scratch_bytes);
    metrics_set(metrics, METRICS_GAUGE_SCRATCH_PEAK, (double)status.scratch_peak);
    metrics_set(metrics, METRICS_GAUGE_QUEUE_DEPTH, status.queue.queue_depth);
    metrics_set(metrics, METRICS_GAUGE_LARGE_DEPTH, status.queue.lanes[SCHEDULE_LARGE].depth);
    metrics_set(metrics, METRICS_GAUGE_SMALL_DEPTH, status.queue.lanes[SCHEDULE_SMALL].depth);
    metrics_set(metrics, METRICS_GAUGE_CONNECTIONS_LIMIT, service->stream_connections);
    metrics_set(metrics, METRICS_GAUGE_UNREAD_BYTES_LIMIT, (double)service->config->unread_memory);
    metrics_set(metrics, METRICS_GAUGE_SESSIONS_LIMIT, (double)service->config->max_sessions);
    metrics_set(metrics, METRICS_GAUGE_SCENES_LIMIT, (double)service->config->max_scenes);
    metrics_set(metrics, METRICS_GAUGE_SCENE_BYTES_LIMIT, (double)service->config->scene_memory);
    metrics_set(metrics, METRICS_GAUGE_SCRATCH_BYTES_LIMIT, (double)service->config->scratch_memory);
    metrics_set(metrics, METRICS_GAUGE_INSECURE, service->config->insecure);
    metrics_set(metrics, METRICS_GAUGE_IO_SILENCE, service_io_silence(service));
    metrics_set(metrics, METRICS_GAUGE_QUEUE_CAPACITY, status.queue.queue_capacity);
    metrics_set(metrics, METRICS_GAUGE_LONGEST_RUNNING, scheduler_longest_running(service->scheduler));
    if (service->state) {
        state_facts facts;
        state_get_facts(service->state, &facts);
        metrics_set(metrics, METRICS_GAUGE_STATE_MESHES, (double)facts.meshes);
        metrics_set(metrics, METRICS_GAUGE_STATE_BYTES, (double)facts.bytes);
        metrics_set(metrics, METRICS_GAUGE_STATE_BYTES_LIMIT, (double)facts.max_bytes);
    }
    return metrics_text(metrics, status.devices, status.n_devices, size);
}
