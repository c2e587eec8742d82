/* reports.c - see reports.h. */
#include "server/core/reports.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/build.h"

void report_session(json_out *out, const service *service, const session_record *session) {
    char name[IDENTITY_NAME];
    guard_name(service->guard, session->principal, name);
    json_out_object(out, NULL);
    json_out_integer(out, "id", session->number);
    json_out_string(out, "client", session->client);
    json_out_string(out, "principal", name);
    json_out_number(out, "lease_s", session->lease_ms * 1e-3);
    json_out_number(out, "idle_s", session->idle_s);
    json_out_bool(out, "connected", session->is_connected);
    json_out_integer(out, "scenes", session->scenes);
    json_out_integer(out, "in_flight", session->in_flight);
    json_out_object_end(out);
}

bool report_shows_session(const session_record *session, const identity *who) {
    return role_operates(who->role) || session->principal == who->principal;
}

void report_body(json_out *out, uint64_t scene, const body_record *body) {
    json_out_object(out, NULL);
    json_out_integer(out, "id", body->body);
    json_out_integer(out, "scene", scene);
    static const char *const kinds[] = {
        [CT_BODY_DEFORMABLE] = "deformable", [CT_BODY_RIGID] = "rigid", [CT_BODY_HALF_SPACE] = "half_space"};
    json_out_string(out, "kind", kinds[body->kind]);
    if (body->kind == CT_BODY_HALF_SPACE) {
        json_out_number(out, "mesh", NAN); /* null: it has none */
    } else {
        json_out_integer(out, "mesh", body->mesh);
        json_out_string(out, "mesh_hash", body->mesh_hash);
    }
    json_out_integer(out, "vertices", body->vertices);
    if (body->kind != CT_BODY_DEFORMABLE) json_out_numbers(out, "pose", body->pose, 12);
    json_out_bool(out, "self_contact", body->self_contact);
    json_out_number(out, "modulus", body->material.modulus); /* null: not given */
    json_out_number(out, "friction", body->material.friction);
    json_out_number(out, "dissipation", body->material.dissipation);
    json_out_number(out, "static_friction", body->material.static_friction);
    json_out_numbers(out, "lo", body->lo, 3);
    json_out_numbers(out, "hi", body->hi, 3);
    json_out_object_end(out);
}

void report_bodies(json_out *out, uint64_t scene, const body_record *bodies, size_t n) {
    json_out_object(out, NULL);
    json_out_array(out, "bodies");
    for (size_t i = 0; i < n; i++) report_body(out, scene, &bodies[i]);
    json_out_array_end(out);
    json_out_object_end(out);
}

static void device(json_out *out, size_t index, const ct_engine_facts *facts) {
    json_out_object(out, NULL);
    json_out_integer(out, "index", index);
    json_out_string(out, "device", facts->device);
    json_out_string(out, "backend", facts->backend);
    json_out_string(out, "rasterizer", facts->rasterizer);
    json_out_string(out, "simd", facts->simd);
    json_out_array(out, "simd_available");
    char names[sizeof facts->simd_available], *rest = names;
    memcpy(names, facts->simd_available, sizeof names);
    for (char *name; (name = strsep(&rest, " "));)
        if (*name) json_out_string(out, NULL, name);
    json_out_array_end(out);
    json_out_integer(out, "threads", facts->threads);
    json_out_integer(out, "scratch_bytes", facts->scratch_bytes);
    json_out_integer(out, "scratch_peak_bytes", facts->scratch_peak);
    json_out_integer(out, "memory_budget_bytes", facts->memory_budget);
    json_out_integer(out, "memory_used_bytes", facts->memory_used);
    json_out_integer(out, "memory_mesh_bytes", facts->memory_meshes);
    json_out_integer(out, "memory_body_bytes", facts->memory_bodies);
    json_out_integer(out, "uploaded_bytes", facts->uploaded);
    json_out_integer(out, "downloaded_bytes", facts->downloaded);
    json_out_integer(out, "launches", facts->launches);
    json_out_integer(out, "scenes", facts->scenes);
    json_out_integer(out, "triangles", facts->triangles);
    json_out_bool(out, "lost", facts->lost);
    json_out_string(out, "lost_reason", facts->lost_reason);
    json_out_object_end(out);
}

static void devices(json_out *out, const service_status *status) {
    json_out_array(out, "devices");
    for (size_t i = 0; i < status->n_devices; i++) device(out, i, &status->devices[i]);
    json_out_array_end(out);
}

static void latencies(json_out *out, const metrics *metrics, bool large) {
    metrics_latencies latencies;
    metrics_get_latencies(metrics, large, &latencies);
    json_out_object(out, "latency_us");
    json_out_integer(out, "steps", latencies.steps);
    json_out_number(out, "sum", latencies.sum_s * 1e6);
    json_out_array(out, "bounds");
    for (unsigned i = 0; i < METRICS_BOUNDS; i++) json_out_number(out, NULL, latencies.bounds_s[i] * 1e6);
    json_out_array_end(out);
    json_out_array(out, "counts");
    for (unsigned i = 0; i <= METRICS_BOUNDS; i++) json_out_integer(out, NULL, latencies.counts[i]);
    json_out_array_end(out);
    json_out_object_end(out);
}

static void lane(json_out *out, const char *name, const service *service, const service_status *status,
                 schedule_lane which) {
    const lane_facts *lane = &status->queue.lanes[which];
    json_out_object(out, name);
    json_out_integer(out, "depth", lane->depth);
    json_out_integer(out, "running", lane->busy);
    json_out_integer(out, "batches", lane->batches);
    json_out_integer(out, "steps", lane->steps);
    latencies(out, service->metrics, which == SCHEDULE_LARGE);
    json_out_object_end(out);
}

/* What runs for less is not worth a line: it has ended before anybody reads it. */
#define SHOWN_SECONDS 0.1

static void running_row(json_out *out, uint64_t scene, const char *name, const char *principal, const char *client,
                        const char *command, const char *phase, double seconds) {
    json_out_object(out, NULL);
    json_out_integer(out, "scene", scene);
    json_out_string(out, "name", name);
    json_out_string(out, "principal", principal);
    json_out_string(out, "client", client);
    json_out_string(out, "command", command);
    json_out_string(out, "phase", phase);
    json_out_number(out, "seconds", seconds);
    json_out_object_end(out);
}

/* Commands of scenes, then meshes and pictures. */
static void running(json_out *out, const service *service, const identity *who) {
    running_command *items;
    running_work works[WORKERS_RUNNING];
    size_t n, n_works;
    if (!scheduler_list_running(service->scheduler, SHOWN_SECONDS, &items, &n)) {
        out->state = JSON_OUT_NO_MEMORY;
        return;
    }
    workers_list_running(service->workers, SHOWN_SECONDS, works, &n_works);
    json_out_array(out, "running");
    for (size_t i = 0; i < n; i++) {
        const running_command *c = &items[i];
        if (role_operates(who->role) || c->principal == who->principal)
            running_row(out, c->scene, c->name, c->asked_by, c->client, command_name(c->kind), c->phase, c->seconds);
    }
    for (size_t i = 0; i < n_works; i++) {
        const running_work *w = &works[i];
        if (role_operates(who->role) || w->principal == who->principal)
            running_row(out, 0, w->name, w->asked_by, "", work_name(w->kind), w->phase, w->seconds);
    }
    json_out_array_end(out);
    free(items);
}

void report_status(json_out *out, const service *service, const service_status *status, const identity *who) {
    char epoch[24];
    snprintf(epoch, sizeof epoch, "%" PRIu64, service->epoch);
    json_out_object(out, NULL);
    json_out_string(out, "server", SERVER_NAME);
    json_out_string(out, "build", build_id());
    json_out_string(out, "backend", status->devices[0].backend);
    json_out_string(out, "rasterizer", status->devices[0].rasterizer);
    json_out_string(out, "device", status->devices[0].device);
    json_out_string(out, "simd", status->devices[0].simd);
    json_out_integer(out, "threads", status->devices[0].threads);
    json_out_bool(out, "ready", status->ready);
    json_out_string(out, "ready_reason", status->ready_reason);
    json_out_string(out, "epoch", epoch);
    json_out_number(out, "uptime_s", status->uptime_s);
    json_out_integer(out, "sessions", status->totals.sessions);
    json_out_integer(out, "scenes", status->totals.scenes);
    json_out_integer(out, "meshes", status->totals.meshes);
    json_out_integer(out, "bodies", status->totals.bodies);
    json_out_integer(out, "mesh_bytes", status->totals.mesh_bytes);
    json_out_integer(out, "mesh_bytes_limit", status->totals.mesh_bytes_limit);
    json_out_integer(out, "scene_bytes", status->totals.scene_bytes);
    json_out_integer(out, "scratch_bytes", status->scratch_bytes);
    json_out_integer(out, "queue_depth", status->queue.queue_depth);
    json_out_integer(out, "queue_capacity", status->queue.queue_capacity);
    json_out_object(out, "lanes");
    lane(out, "small", service, status, SCHEDULE_SMALL);
    lane(out, "large", service, status, SCHEDULE_LARGE);
    json_out_object_end(out);
    running(out, service, who);
    json_out_bool(out, "draining", status->queue.draining);
    json_out_integer(out, "steps", status->steps);
    json_out_integer(out, "contacts", status->contacts);
    json_out_integer(out, "max_resolution", CT_MAX_RESOLUTION);
    json_out_integer(out, "max_message_bytes", service->config->max_message);
    ct_method methods[CT_MAX_METHODS];
    size_t n_methods = ct_engine_methods(service->engine, methods);
    json_out_array(out, "methods");
    for (size_t i = 0; i < n_methods; i++) json_out_string(out, NULL, ct_method_name(methods[i]));
    json_out_array_end(out);
    json_out_string(out, "auto_method", ct_method_name(ct_engine_auto_method(service->engine)));
    json_out_bool(out, "insecure", service->config->insecure);
    devices(out, status);
    json_out_object_end(out);
}

void report_devices(json_out *out, const service_status *status) {
    json_out_object(out, NULL);
    devices(out, status);
    json_out_object_end(out);
}
