/* Warnings of steps on the server: each counted, each change of a body's condition logged once, and never many lines.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "tests/unit/server/schedule/world.h"

static char path[64];

static void open_log(void) {
    char message[256];
    snprintf(path, sizeof path, "/tmp/contactd-warn-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    if (!log_open("text", "info", path, message, sizeof message)) fail_msg("%s", message);
}

static const char *close_log(void) {
    static char text[1 << 16];
    log_close();
    FILE *file = fopen(path, "r");
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    fclose(file);
    unlink(path);
    return text;
}

static int count(const char *text, const char *word) {
    int n = 0;
    for (; (text = strstr(text, word)); text++) n++;
    return n;
}

static int setup(void **state) {
    world *world = world_new();
    world_start(world, 8, 8, 0);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world_free(*state);
    return 0;
}

static void note(world *world, scene *scene, ct_warning *warnings, size_t n) {
    ct_result result = {.warnings = warnings, .n_warnings = n};
    scheduler_note_warnings(world->scheduler, scene, &result);
}

static void test_each_change_once(void **state) {
    world *world = *state;
    scene scene = {.handle = 17};
    ct_warning both[] = {{CT_WARNING_BODY_INVERTED, 2, -0.125}, {CT_WARNING_BODY_COLLAPSED, 5, 0}};
    open_log();
    note(world, &scene, NULL, 0);
    for (int i = 0; i < 3; i++) note(world, &scene, &both[1], 1);
    for (int i = 0; i < 3; i++) note(world, &scene, both, 2);
    both[1].code = CT_WARNING_BODY_INVERTED;
    for (int i = 0; i < 3; i++) note(world, &scene, both, 2);
    both[0].value = -7; /* no change of the condition */
    note(world, &scene, both, 2);
    note(world, &scene, both, 1);
    note(world, &scene, NULL, 0);
    const char *text = close_log();
    assert_int_equal(count(text, "\n"), 5);
    assert_int_equal(count(text, "scene 17: body 5: BODY_COLLAPSED: the body is flat"), 1);
    assert_int_equal(count(text, "scene 17: body 2: BODY_INVERTED: the body is inside out"), 1);
    assert_int_equal(count(text, "(-0.125 m^3)"), 1);
    assert_int_equal(count(text, "scene 17: body 5: BODY_INVERTED: "), 1);
    assert_int_equal(count(text, "scene 17: body 5: BODY_INVERTED is over"), 1);
    assert_int_equal(count(text, "scene 17: body 2: BODY_INVERTED is over"), 1);
    free(scene.warnings);
    size_t size;
    char *metrics = metrics_text(world->metrics, NULL, 0, &size);
    assert_int_equal(count(metrics, "contactd_step_warnings_total{code=\"BODY_COLLAPSED\"} 6\n"), 1);
    assert_int_equal(count(metrics, "contactd_step_warnings_total{code=\"BODY_INVERTED\"} 12\n"), 1);
    free(metrics);
}

static void test_no_flood(void **state) {
    world *world = *state;
    scene scene = {.handle = 1};
    enum { N = 100 };
    ct_warning many[N];
    for (uint32_t i = 0; i < N; i++) many[i] = (ct_warning){CT_WARNING_BODY_INVERTED, i + 1, -1};
    open_log();
    atomic_store(&world->scheduler->warning_log.begin_ns, clock_ns() + UINT64_C(3600000000000)); /* no second window */
    for (int i = 0; i < 50; i++) note(world, &scene, many, i % 2 ? 0 : N);
    const char *text = close_log();
    assert_int_equal(count(text, "\n"), 20);
    /* When the time is over, how many there were is said once. */
    open_log();
    atomic_store(&world->scheduler->warning_log.begin_ns, 1);
    note(world, &scene, many, 1);
    text = close_log();
    assert_int_equal(count(text, "\n"), 2);
    assert_int_equal(count(text, " 4980 changes of bodies' conditions were not logged"), 1);
    free(scene.warnings);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_each_change_once, setup, teardown),
                                       cmocka_unit_test_setup_teardown(test_no_flood, setup, teardown)};
    return cmocka_run_group_tests_name("warn", tests, NULL, NULL);
}
