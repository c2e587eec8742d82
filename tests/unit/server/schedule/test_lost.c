/* A scheduler over two devices, one of which fails: placing, readiness, who is told and how often, the other goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/method/backend_cpu.h"
#include "gpu/method/engine.h"
#include "server/schedule/internal.h"

enum { QUEUE = 24, IN_FLIGHT = 8 };

static ct_engine *two_sites;
static ct_backend two;        /* the CPU's, but for what follows */
static atomic_int fails = -1; /* the index of the device that does */

static size_t index_of(const ct_device *device) {
    return device == two_sites->devices[1].device;
}
static void two_facts(const ct_device *device, ct_engine_facts *facts) {
    ct_backend_cpu.facts(device, facts);
    facts->lost = (int)index_of(device) == atomic_load(&fails);
    if (facts->lost) snprintf(facts->lost_reason, sizeof facts->lost_reason, "the test pulled it out");
}
static void two_run(ct_device *device, ct_step *steps, size_t n) {
    if ((int)index_of(device) != atomic_load(&fails)) {
        ct_cpu_run_ldi(device, steps, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        steps[i].error.status = CT_DEVICE_ERROR;
        snprintf(steps[i].error.message, sizeof steps[i].error.message, "the device was pulled out");
    }
}

static void count_loss(void *context) {
    atomic_fetch_add((atomic_int *)context, 1);
}

static void test_lost_device(void **state) {
    (void)state;
    ct_engine_options engine;
    ct_engine_options_init(&engine);
    engine.threads = 1;
    two = ct_backend_cpu;
    two.facts = two_facts;
    ct_engine both = {.backend = &two, .n_devices = 2, .run = {two_run}};
    two_sites = &both;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ct_backend_cpu.create(&engine, 0, &both.devices[i].device, NULL), CT_OK);
    }
    metrics *metrics = metrics_new();
    registry_limits limits = {1 << 20, 1 << 24, 8, 8, IN_FLIGHT, 60000};
    registry *registry = registry_new(&limits, &both, metrics);
    atomic_int losses = 0;
    scheduler_options options = {&both, "auto", QUEUE, IN_FLIGHT, 0, count_loss, &losses};
    server_error error = {0};
    scheduler *scheduler = scheduler_start(&options, registry, metrics, &error);
    assert_non_null(scheduler);
    char reason[256];
    assert_true(scheduler_ready(scheduler, reason, sizeof reason));

    command opened[2], steps[2];
    for (int i = 0; i < 2; i++) {
        opened[i] = (command){.kind = COMMAND_OPEN};
        assert_true(scheduler_execute(scheduler, &opened[i]));
        steps[i] = (command){.kind = COMMAND_STEP, .scene = opened[i].out.scene.handle};
        assert_true(scheduler_execute(scheduler, &steps[i]));
        step_answer_release(&steps[i].out.step.answer);
    }
    /* The scenes went to different devices, the least loaded each. */
    assert_int_equal(atomic_load(&both.devices[0].scenes), 1);
    assert_int_equal(atomic_load(&both.devices[1].scenes), 1);

    /* The loss of one is told once, with its number; the other goes on. */
    atomic_store(&fails, 1);
    for (int again = 0; again < 2; again++) {
        assert_false(scheduler_execute(scheduler, &steps[1]));
        assert_int_equal(steps[1].error.code, CONTACTD_DEVICE_ERROR);
        assert_non_null(strstr(steps[1].error.message, "pulled out"));
        step_answer_release(&steps[1].out.step.answer);
        assert_int_equal(atomic_load(&losses), 1);
    }
    assert_false(scheduler_ready(scheduler, reason, sizeof reason));
    assert_non_null(strstr(reason, "device 1"));
    assert_non_null(strstr(reason, "the test pulled it out"));
    assert_true(scheduler_execute(scheduler, &steps[0]));
    step_answer_release(&steps[0].out.step.answer);

    scheduler_stop(&scheduler);
    registry_free(&registry);
    metrics_free(&metrics);
    atomic_store(&fails, -1);
    for (size_t i = 0; i < 2; i++) ct_backend_cpu.destroy(&both.devices[i].device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lost_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
