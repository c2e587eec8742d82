/* metrics.h - counters, gauges, histograms of phases and batches, and their Prometheus text.
 *
 * Recording is a relaxed atomic add and may be done from any thread. Gauges are set just before the text is made (see
 * service_metrics_text in server/core/service.h, which is what HTTP serves), and devices are asked then.
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/include/contact.h"
#include "proto/errors.h"

/* X(identifier, metric's name, label or "", help). Rows of one metric stand together. */
#define METRICS_COUNTERS(X)                                                                                            \
    X(STEPS, "contactd_steps_total", "", "Steps computed")                                                             \
    X(STEPS_CACHED, "contactd_steps_cached_total", "", "Repeated steps answered from the kept answers")                \
    X(CONTACTS, "contactd_contacts_total", "", "Contacts found")                                                       \
    X(RAYS, "contactd_rays_total", "", "Ray samples cast")                                                             \
    X(FRAGMENTS, "contactd_fragments_total", "", "Ray-triangle crossings found")                                       \
    X(LARGE_STEPS, "contactd_lane_steps_total", "lane=\"large\"", "Steps that ran, failed ones too, by lane")          \
    X(SMALL_STEPS, "contactd_lane_steps_total", "lane=\"small\"", "Steps that ran, failed ones too, by lane")          \
    X(SNAPSHOTS, "contactd_snapshots_total", "", "Pictures drawn")                                                     \
    X(BUSY, "contactd_busy_total", "", "Commands refused because a queue was full, or answers unread")                 \
    X(DEADLINES, "contactd_deadlines_exceeded_total", "", "Commands ended because their deadline had passed")          \
    X(CANCELLED_LIMIT, "contactd_steps_cancelled_total", "reason=\"limit\"", "Steps and other commands ended early")   \
    X(CANCELLED_DEADLINE, "contactd_steps_cancelled_total", "reason=\"deadline\"",                                     \
      "Steps and other commands ended early")                                                                          \
    X(CANCELLED_CLOSED, "contactd_steps_cancelled_total", "reason=\"closed\"", "Steps and other commands ended early") \
    X(CANCELLED_CLIENT, "contactd_steps_cancelled_total", "reason=\"client\"", "Steps and other commands ended early") \
    X(CANCELLED_SHUTDOWN, "contactd_steps_cancelled_total", "reason=\"shutdown\"",                                     \
      "Steps and other commands ended early")                                                                          \
    X(PREEMPTED, "contactd_steps_preempted_total", "", "Steps and other commands moved to the large lane")             \
    X(STREAM_IN, "contactd_received_bytes_total", "protocol=\"stream\"", "Bytes received")                             \
    X(HTTP_IN, "contactd_received_bytes_total", "protocol=\"http\"", "Bytes received")                                 \
    X(STREAM_OUT, "contactd_sent_bytes_total", "protocol=\"stream\"", "Bytes sent")                                    \
    X(HTTP_OUT, "contactd_sent_bytes_total", "protocol=\"http\"", "Bytes sent")                                        \
    X(STREAM_REQUESTS, "contactd_requests_total", "protocol=\"stream\"", "Requests received")                          \
    X(HTTP_REQUESTS, "contactd_requests_total", "protocol=\"http\"", "Requests received")                              \
    X(REPLIES_GONE, "contactd_replies_dropped_total", "reason=\"gone\"", "Answers that could not be sent")             \
    X(REPLIES_NO_MEMORY, "contactd_replies_dropped_total", "reason=\"memory\"", "Answers that could not be sent")      \
    X(REPLIES_SLOW, "contactd_replies_dropped_total", "reason=\"slow\"", "Answers that could not be sent")             \
    X(CUT_UNREAD, "contactd_connections_cut_total", "reason=\"unread\"", "Stream connections ended by the server")     \
    X(CUT_UNFINISHED, "contactd_connections_cut_total", "reason=\"unfinished\"",                                       \
      "Stream connections ended by the server")                                                                        \
    X(CUT_FLOOD, "contactd_connections_cut_total", "reason=\"flood\"", "Stream connections ended by the server")       \
    X(CUT_LIMIT, "contactd_connections_cut_total", "reason=\"limit\"", "Stream connections ended by the server")       \
    X(CUT_UNLISTED, "contactd_connections_cut_total", "reason=\"unlisted\"", "Stream connections ended by the server") \
    X(STREAM_UNAUTHENTICATED, "contactd_authentication_failures_total", "protocol=\"stream\"",                         \
      "Attempts with no credential that is listed, or too many of them")                                               \
    X(HTTP_UNAUTHENTICATED, "contactd_authentication_failures_total", "protocol=\"http\"",                             \
      "Attempts with no credential that is listed, or too many of them")                                               \
    X(SESSIONS_OPENED, "contactd_sessions_opened_total", "", "Sessions opened")                                        \
    X(SESSIONS_REAPED, "contactd_sessions_reaped_total", "", "Sessions closed: silent for their lease, or left")       \
    X(MESHES_REGISTERED, "contactd_meshes_registered_total", "", "Meshes that became resident")                        \
    X(LOG_LOST, "contactd_log_lines_lost_total", "", "Lines of the log that could not be written")                     \
    X(MESHES_EVICTED, "contactd_meshes_evicted_total", "", "Unused meshes dropped to make room")                       \
    X(STATE_RESTORED, "contactd_state_restored_total", "", "Meshes read from the state folder")                        \
    X(STATE_EVICTED, "contactd_state_evicted_total", "", "Stored meshes that made room in the state folder")           \
    X(STATE_DAMAGED, "contactd_state_damaged_total", "", "Files of the state folder found damaged and set aside")      \
    X(STATE_FAILURES, "contactd_state_failures_total", "", "What could not be kept in the state folder")

#define METRICS_GAUGES(X)                                                                                              \
    X(READY, "contactd_ready", "", "1 if a real step ran on the requested backend")                                    \
    X(UPTIME, "contactd_uptime_seconds", "", "Time since start")                                                       \
    X(CONNECTIONS, "contactd_connections", "", "Stream connections now")                                               \
    X(CONNECTIONS_LIMIT, "contactd_connections_limit", "", "Stream connections that there may be")                     \
    X(UNREAD_BYTES, "contactd_unread_bytes", "", "Answers that clients have not read yet")                             \
    X(UNREAD_BYTES_LIMIT, "contactd_unread_bytes_limit", "", "Answers that clients may leave unread")                  \
    X(SESSIONS, "contactd_sessions", "", "Sessions now")                                                               \
    X(SESSIONS_LIMIT, "contactd_sessions_limit", "", "Sessions that there may be")                                     \
    X(SCENES, "contactd_scenes", "", "Scenes open now")                                                                \
    X(SCENES_LIMIT, "contactd_scenes_limit", "", "Scenes that may be open")                                            \
    X(BODIES, "contactd_bodies", "", "Bodies in scenes now")                                                           \
    X(MESHES, "contactd_meshes", "", "Meshes resident now")                                                            \
    X(MESH_BYTES, "contactd_mesh_bytes", "", "Memory held by meshes")                                                  \
    X(MESH_BYTES_LIMIT, "contactd_mesh_bytes_limit", "", "Memory that meshes may hold")                                \
    X(SCENE_BYTES, "contactd_scene_bytes", "", "Memory held by scenes and kept answers, without meshes")               \
    X(SCENE_BYTES_LIMIT, "contactd_scene_bytes_limit", "", "Memory that scenes and kept answers may hold")             \
    X(SCRATCH_BYTES_LIMIT, "contactd_scratch_bytes_limit", "", "Scratch memory that the engine may hold; 0: any")      \
    X(INSECURE, "contactd_insecure", "", "1 if started with --insecure")                                               \
    X(IO_SILENCE, "contactd_io_silence_seconds", "", "Time since the stream's I/O thread last went round its loop")    \
    X(SCRATCH_BYTES, "contactd_scratch_bytes", "", "Scratch memory held by the engine")                                \
    X(SCRATCH_PEAK, "contactd_scratch_peak_bytes", "", "Most scratch memory held by the engine so far")                \
    X(STATE_MESHES, "contactd_state_meshes", "", "Meshes in the state folder")                                         \
    X(STATE_BYTES, "contactd_state_bytes", "", "Bytes of meshes in the state folder")                                  \
    X(STATE_BYTES_LIMIT, "contactd_state_bytes_limit", "", "Bytes that meshes may have there; 0: no state folder")     \
    X(QUEUE_DEPTH, "contactd_queue_depth", "", "Commands waiting or running")                                          \
    X(LARGE_DEPTH, "contactd_lane_depth", "lane=\"large\"", "Commands waiting or running, by lane")                    \
    X(SMALL_DEPTH, "contactd_lane_depth", "lane=\"small\"", "Commands waiting or running, by lane")                    \
    X(QUEUE_CAPACITY, "contactd_queue_capacity", "", "Commands that may wait")                                         \
    X(LONGEST_RUNNING, "contactd_longest_running_step_seconds", "", "Time that the longest step of now has run")

typedef enum metrics_counter {
#define METRICS_ENUM(id, ...) METRICS_##id,
    METRICS_COUNTERS(METRICS_ENUM) METRICS_N_COUNTERS
} metrics_counter;
typedef enum metrics_gauge {
#define METRICS_GAUGE_ENUM(id, ...) METRICS_GAUGE_##id,
    METRICS_GAUGES(METRICS_GAUGE_ENUM) METRICS_N_GAUGES
#undef METRICS_GAUGE_ENUM
#undef METRICS_ENUM
} metrics_gauge;

/* The phases of contactd_phase_seconds and contactd_phase_wall_seconds: the time in the queue, then the engine's own
 * phases in ct_phase's order. */
enum { METRICS_PHASE_QUEUE = 0, METRICS_PHASE_ENGINE = 1, METRICS_PHASES = 7 };

typedef struct metrics metrics;

metrics *metrics_new(void); /* NULL: out of memory */
void metrics_free(metrics **metrics);

void metrics_add(metrics *metrics, metrics_counter counter, uint64_t amount);
void metrics_count_error(metrics *metrics,
                         contactd_code code); /* contactd_errors_total{code="..."}; OK is not counted */
void metrics_count_warning(metrics *metrics, ct_warning_code code); /* contactd_step_warnings_total{code="..."} */
void metrics_set(metrics *metrics, metrics_gauge gauge, double value);
/* A batch that ran so many steps, 1 or more, in the lane of large steps or of small ones. */
void metrics_count_batch(metrics *metrics, bool large, uint64_t steps);
enum { METRICS_BOUNDS = 19 };
/* What one thread observes of a batch's steps, added at once. All zero: nothing. */
typedef struct metrics_tally {
    uint64_t buckets[METRICS_BOUNDS + 1], sum_ns;
} metrics_tally;
typedef struct metrics_steps {
    metrics_tally phases[METRICS_PHASES], wall[METRICS_PHASES]; /* summed over threads, and by the clock (ct_result) */
    metrics_tally latencies;                                    /* from a step's message to its result */
    uint64_t steps, contacts, rays, fragments;
} metrics_steps;
void metrics_observe(metrics_tally *tally, double seconds);
/* Of a batch in the lane of large steps or of small ones. Zeroes *steps. */
void metrics_add_steps(metrics *metrics, bool large, metrics_steps *steps);
/* What was observed of a lane since the start. */
typedef struct metrics_latencies {
    const double *bounds_s;              /* [METRICS_BOUNDS], rising */
    uint64_t counts[METRICS_BOUNDS + 1]; /* steps above the bound before and at most this one; the last: above all */
    uint64_t steps;
    double sum_s;
} metrics_latencies;
void metrics_get_latencies(const metrics *metrics, bool large, metrics_latencies *out);
/* s: of a phase of all steps since the start, summed over threads. */
double metrics_phase_seconds(const metrics *metrics, unsigned phase);
/* Steps of a principal (0: of none) ended. The first of them are counted each, and the last place has the rest. */
enum { METRICS_PRINCIPALS = 32 };
void metrics_count_principal(metrics *metrics, uint32_t principal, uint64_t steps);
/* Who they are, and their steps since the start; either may be NULL. Returns how many there are, METRICS_PRINCIPALS where
 * there is a rest. */
int metrics_get_principals(const metrics *metrics, uint32_t principals[METRICS_PRINCIPALS],
                           uint64_t steps[METRICS_PRINCIPALS]);
/* Answers over HTTP, by the number of a route and the status: contactd_http_requests_total. The names ([n], with
 * labels' characters only) are set once, before anything is counted, and stay the caller's. */
enum { METRICS_MAX_ROUTES = 32 };
void metrics_name_routes(metrics *metrics, const char *const *names, unsigned n);
void metrics_count_http(metrics *metrics, unsigned route, unsigned status);
/* Of what is counted elsewhere: the counter's value from now on. */
void metrics_set_counter(metrics *metrics, metrics_counter counter, uint64_t value);
uint64_t metrics_counter_value(const metrics *metrics, metrics_counter counter);

/* X(member of ct_engine_facts, metric's name, type, help), a row for each device with the label device="0". */
#define METRICS_DEVICES(X)                                                                                             \
    X(lost, "contactd_device_lost", "gauge", "1 if the device failed for good")                                        \
    X(scenes, "contactd_device_scenes", "gauge", "Scenes open on the device")                                          \
    X(triangles, "contactd_device_triangles", "gauge", "Triangles of the bodies on the device")                        \
    X(memory_budget, "contactd_device_memory_budget_bytes", "gauge", "Memory of its own that may be used; 0: none")    \
    X(memory_used, "contactd_device_memory_used_bytes", "gauge", "Memory of its own in use")                           \
    X(memory_meshes, "contactd_device_memory_mesh_bytes", "gauge", "Memory of its own that meshes hold")               \
    X(memory_bodies, "contactd_device_memory_body_bytes", "gauge", "Memory of its own that scenes and bodies hold")    \
    X(scratch_bytes, "contactd_device_scratch_bytes", "gauge", "Scratch memory held")                                  \
    X(scratch_peak, "contactd_device_scratch_peak_bytes", "gauge", "Most scratch memory held so far")                  \
    X(uploaded, "contactd_device_uploaded_bytes_total", "counter", "Bytes brought to the device")                      \
    X(downloaded, "contactd_device_downloaded_bytes_total", "counter", "Bytes brought from the device")                \
    X(launches, "contactd_device_launches_total", "counter", "Kernels started on the device")

/* The whole exposition, version 0.0.4. The caller frees it with free(); NULL: out of memory. */
char *metrics_text(const metrics *metrics, const ct_engine_facts *devices, size_t n_devices, size_t *size);
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

#endif
