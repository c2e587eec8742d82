/* Metrics: counting from many threads, and an exposition that a Prometheus scraper accepts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "server/metrics/metrics.h"

static const ct_engine_facts devices[2] = {
    {.backend = "cuda", .rasterizer = "native", .device = "a \"card\" \\ one", .memory_budget = 1000, .uploaded = 77},
    {.backend = "cuda", .rasterizer = "native", .device = "b", .lost = true, .scenes = 3, .launches = 9},
};

static void *count(void *argument) {
    metrics_steps steps = {0};
    for (int i = 0; i < 10000; i++) {
        metrics_add(argument, METRICS_STEPS, 2);
        metrics_observe(&steps.phases[METRICS_PHASE_QUEUE], 1e-3);
        metrics_add_steps(argument, false, &steps); /* which zeroes it */
    }
    return NULL;
}

static void test_many_threads(void **state) {
    (void)state;
    metrics *metrics = metrics_new();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, count, metrics);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(metrics_counter_value(metrics, METRICS_STEPS), 80000);
    size_t size;
    char *text = metrics_text(metrics, devices, 2, &size);
    assert_non_null(strstr(text, "\ncontactd_phase_seconds_count{phase=\"queue\"} 40000\n"));
    assert_non_null(strstr(text, "\ncontactd_phase_seconds_sum{phase=\"queue\"} 40.000000000\n"));
    free(text);
    metrics_free(&metrics);
    assert_null(metrics);
}

static void test_warnings(void **state) {
    (void)state;
    metrics *metrics = metrics_new();
    metrics_count_warning(metrics, CT_WARNING_BODY_INVERTED);
    metrics_count_warning(metrics, CT_WARNING_BODY_INVERTED);
    metrics_count_warning(metrics, (ct_warning_code)-1);
    size_t size;
    char *text = metrics_text(metrics, devices, 2, &size);
    assert_non_null(strstr(text, "\ncontactd_step_warnings_total{code=\"BODY_INVERTED\"} 2\n"));
    assert_non_null(strstr(text, "\ncontactd_step_warnings_total{code=\"BODY_COLLAPSED\"} 0\n"));
    free(text);
    metrics_free(&metrics);
}

static void test_buckets_are_cumulative(void **state) {
    (void)state;
    metrics *metrics = metrics_new();
    const double raster[] = {3e-5, 0.2, 100}, wall[] = {2e-5, 0.1, 50};
    metrics_steps steps = {.rays = 7};
    for (int i = 0; i < 3; i++) {
        metrics_observe(&steps.phases[METRICS_PHASE_ENGINE + 2], raster[i]);
        metrics_observe(&steps.wall[METRICS_PHASE_ENGINE + 2], wall[i]);
    }
    metrics_add_steps(metrics, false, &steps);
    metrics_add_steps(metrics, false, &steps); /* of which nothing is left */
    assert_int_equal(metrics_counter_value(metrics, METRICS_RAYS), 7);
    size_t size;
    char *text = metrics_text(metrics, devices, 2, &size);
    assert_int_equal(strlen(text), size);
    assert_non_null(strstr(text, "_bucket{phase=\"raster\",le=\"2.5e-05\"} 0\n"));
    assert_non_null(strstr(text, "_bucket{phase=\"raster\",le=\"5e-05\"} 1\n"));
    assert_non_null(strstr(text, "_bucket{phase=\"raster\",le=\"0.25\"} 2\n"));
    assert_non_null(strstr(text, "_bucket{phase=\"raster\",le=\"10\"} 2\n"));
    assert_non_null(strstr(text, "_bucket{phase=\"raster\",le=\"+Inf\"} 3\n"));
    assert_non_null(strstr(text, "_count{phase=\"raster\"} 3\n"));
    assert_non_null(strstr(text, "\ncontactd_phase_seconds_sum{phase=\"raster\"} 100.200030000\n"));
    assert_non_null(strstr(text, "\ncontactd_phase_wall_seconds_sum{phase=\"raster\"} 50.100020000\n"));
    free(text);
    metrics_free(&metrics);
}

static void test_values_and_labels(void **state) {
    (void)state;
    metrics *metrics = metrics_new();
    metrics_count_error(metrics, CONTACTD_NOT_FOUND);
    metrics_count_error(metrics, CONTACTD_OK);
    metrics_add(metrics, METRICS_HTTP_IN, 17);
    metrics_set(metrics, METRICS_GAUGE_MESH_BYTES, 123456789012.0);
    size_t size;
    char *text = metrics_text(metrics, devices, 2, &size);
    assert_non_null(strstr(text, "\ncontactd_errors_total{code=\"NOT_FOUND\"} 1\n"));
    assert_null(strstr(text, "code=\"OK\""));
    assert_non_null(strstr(text, "\ncontactd_received_bytes_total{protocol=\"http\"} 17\n"));
    assert_non_null(strstr(text, "\ncontactd_mesh_bytes 123456789012\n"));
    free(text);
    metrics_free(&metrics);
}

static void test_devices(void **state) {
    (void)state;
    metrics *metrics = metrics_new();
    size_t size;
    char *text = metrics_text(metrics, devices, 2, &size);
    assert_non_null(strstr(text, "\ncontactd_device_info{device=\"0\",backend=\"cuda\",rasterizer=\"native\","
                                 "name=\"a \\\"card\\\" \\\\ one\"} 1\n"));
    assert_non_null(strstr(text, "\ncontactd_device_memory_budget_bytes{device=\"0\"} 1000\n"));
    assert_non_null(strstr(text, "\ncontactd_device_uploaded_bytes_total{device=\"0\"} 77\n"));
    assert_non_null(strstr(text, "\ncontactd_device_lost{device=\"0\"} 0\ncontactd_device_lost{device=\"1\"} 1\n"));
    assert_non_null(strstr(text, "\ncontactd_device_scenes{device=\"1\"} 3\n"));
    assert_non_null(strstr(text, "\ncontactd_device_launches_total{device=\"1\"} 9\n"));
    free(text);
    metrics_free(&metrics);
}

static void test_batches(void **state) {
    (void)state;
    metrics *metrics = metrics_new();
    const uint64_t sizes[] = {1, 1, 3, 512};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) metrics_count_batch(metrics, false, sizes[i]);
    metrics_count_batch(metrics, true, 2);
    size_t size;
    char *text = metrics_text(metrics, devices, 2, &size);
    const char *const lines[] = {
        "\ncontactd_batch_steps_bucket{lane=\"small\",le=\"1\"} 2\n",
        "\ncontactd_batch_steps_bucket{lane=\"small\",le=\"2\"} 2\n",
        "\ncontactd_batch_steps_bucket{lane=\"small\",le=\"4\"} 3\n",
        "\ncontactd_batch_steps_bucket{lane=\"small\",le=\"256\"} 3\n",
        "\ncontactd_batch_steps_bucket{lane=\"small\",le=\"512\"} 4\n",
        "\ncontactd_batch_steps_bucket{lane=\"small\",le=\"+Inf\"} 4\n",
        "\ncontactd_batch_steps_sum{lane=\"small\"} 517\n",
        "\ncontactd_batch_steps_count{lane=\"large\"} 1\n",
        "\ncontactd_lane_steps_total{lane=\"small\"} 517\n",
        "\ncontactd_lane_steps_total{lane=\"large\"} 2\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i])) fail_msg("there is no line%s", lines[i]);
    free(text);
    metrics_free(&metrics);
}

static void test_latencies_and_routes(void **state) {
    (void)state;
    static const char *const routes[] = {"/", "/v1/scenes/{scene}"};
    metrics *metrics = metrics_new();
    metrics_count_http(metrics, 0, 200); /* nothing is named yet: not counted */
    metrics_name_routes(metrics, routes, 2);
    metrics_count_http(metrics, 1, 404);
    metrics_count_http(metrics, 1, 404);
    metrics_count_http(metrics, 0, 299);
    metrics_count_http(metrics, 2, 200); /* no route */
    metrics_steps steps = {0};
    metrics_observe(&steps.latencies, 3);
    metrics_add_steps(metrics, true, &steps);
    size_t size;
    char *text = metrics_text(metrics, devices, 2, &size);
    const char *const lines[] = {
        "\ncontactd_http_requests_total{route=\"/v1/scenes/{scene}\",status=\"404\"} 2\n",
        "\ncontactd_http_requests_total{route=\"/\",status=\"other\"} 1\n",
        "\ncontactd_step_latency_seconds_bucket{lane=\"large\",le=\"2.5\"} 0\n",
        "\ncontactd_step_latency_seconds_bucket{lane=\"large\",le=\"10\"} 1\n",
        "\ncontactd_step_latency_seconds_count{lane=\"small\"} 0\n",
        "\nprocess_open_fds ",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i])) fail_msg("there is no line%s", lines[i]);
    assert_null(strstr(text, "status=\"200\""));
    free(text);
    metrics_free(&metrics);
}

/* Every metric has one HELP and one TYPE, before its samples, and no metric's samples are scattered. */
static void test_exposition_is_well_formed(void **state) {
    (void)state;
    metrics *metrics = metrics_new();
    size_t size;
    char *text = metrics_text(metrics, devices, 2, &size), *save, current[128] = "", seen[8192] = "";
    assert_int_equal(text[size - 1], '\n');
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char name[128], kind[32];
        double value;
        if (sscanf(line, "# HELP %127s", name) == 1) {
            char marked[140];
            snprintf(marked, sizeof marked, " %s ", name);
            assert_null(strstr(seen, marked));
            strcat(seen, marked);
            snprintf(current, sizeof current, "%s", name);
            bool ours = strncmp(name, "contactd_", 9) == 0, common = strncmp(name, "process_", 8) == 0;
            assert_true(ours || common);
        } else if (sscanf(line, "# TYPE %127s %31s", name, kind) == 2) {
            assert_string_equal(name, current);
            bool total = strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0;
            assert_int_equal(total, strcmp(kind, "counter") == 0);
        } else {
            assert_memory_equal(line, current, strlen(current));
            assert_int_equal(sscanf(strrchr(line, ' '), "%lf", &value), 1);
        }
    }
    free(text);
    metrics_free(&metrics);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_buckets_are_cumulative),
        cmocka_unit_test(test_values_and_labels),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_latencies_and_routes),
        cmocka_unit_test(test_exposition_is_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
