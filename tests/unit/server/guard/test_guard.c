/* Principals: what a list may say, who is found in it, and what becomes of failed attempts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/guard/guard.h"

#define KEY   "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"
#define OTHER "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
/* SHA-256 of "hello", by sha256sum. */
#define HELLO "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

static char path[64];

static void write_list(const char *text) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    fclose(file);
}

static int make_path(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/contactd-principals-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int drop_path(void **state) {
    (void)state;
    return unlink(path) != 0 && errno != ENOENT ? -1 : 0;
}

static guard *open_list(const char *text) {
    guard *guard;
    server_error error = {0};
    write_list(text);
    if (!guard_open(&guard, path, &error)) fail_msg("%s: %s", error.object, error.message);
    return guard;
}

static void finds_who_is_listed(void **state) {
    (void)state;
    guard *guard = open_list("# name role credential\n\n  lab-7 simulator key=" KEY "\r\nlab-7\tsimulator\tuid=01000\n"
                             "alice admin token=sha256:" HELLO "\nbob operator uid=0");
    identity who;
    assert_true(guard_has_keys(guard) && guard_has_uids(guard) && guard_has_tokens(guard));
    assert_true(guard_find(guard, "key=" KEY, &who));
    assert_string_equal(who.name, "lab-7");
    assert_int_equal(who.role, ROLE_SIMULATOR);
    uint32_t lab = who.principal;
    assert_true(lab != PRINCIPAL_NONE);
    assert_true(guard_find(guard, "uid=1000", &who));
    assert_int_equal(who.principal, lab);
    assert_true(guard_find(guard, "uid=0", &who));
    assert_int_equal(who.role, ROLE_OPERATOR);
    assert_true(who.principal != lab);
    assert_false(guard_find(guard, "key=" OTHER, &who));
    assert_false(guard_find(guard, "uid=10", &who));
    assert_false(guard_find(guard, "", &who)); /* as a token's text is */
    assert_true(guard_find_token(guard, "hello", 5, &who));
    assert_string_equal(who.name, "alice");
    assert_int_equal(who.role, ROLE_ADMIN);
    assert_false(guard_find_token(guard, "hello", 4, &who));
    assert_false(guard_find_token(guard, "hello\n", 6, &who));
    assert_false(guard_find_token(guard, "", 0, &who));
    assert_false(
        guard_find_token(guard, HELLO, strlen(HELLO), &who)); /* a hash is not accepted in place of its token */
    guard_close(&guard);
    assert_null(guard);
}

static void refused(const char *text, const char *part) {
    guard *guard;
    server_error error = {0};
    write_list(text);
    assert_false(guard_open(&guard, path, &error));
    assert_null(guard);
    assert_int_equal(error.code, CONTACTD_INVALID_ARGUMENT);
    assert_string_equal(error.field, "principals");
    if (!strstr(error.message, part) && !strstr(error.object, part)) fail_msg("%s: %s", error.object, error.message);
    assert_null(strstr(error.message, "secret"));
}

static void refuses_broken_lists(void **state) {
    (void)state;
    refused("a simulator key=" KEY "\nb", ":2");
    refused("a", "no role");
    refused("a root key=" KEY, "unknown role");
    refused("a unrestricted key=" KEY, "unknown role");
    refused("a admin", "no credential");
    refused("a admin secret", "cannot be read");
    refused("a admin key=secret", "40 characters");
    refused("a admin key=secret", "64 hexadecimal digits");
    refused("a admin uid=-1", "uid=");
    refused("a admin uid=4294967296", "uid=");
    refused("a admin uid=", "uid=");
    refused("a admin token=secret", "sha256");
    refused("a admin token=sha256:12", "sha256");
    refused("a admin key=" KEY " # comment", "more stands after");
    refused("a admin key=" KEY " weight=0", "1 to 1000");
    refused("a admin key=" KEY " weight=1001", "1 to 1000");
    refused("a admin key=" KEY " weight=", "1 to 1000");
    refused("a admin key=" KEY " weight=2x", "1 to 1000");
    refused("a admin key=" KEY " weight=2 weight=2", "more stands after");
    refused("a admin key=" KEY " weight=2\na admin key=" OTHER " weight=3", "one weight");
    refused("a/b admin key=" KEY, "name");
    refused("a admin key=" KEY "\nb admin key=" KEY, "same credential");
    refused("a admin token=sha256:" HELLO "\nb admin token=sha256:" HELLO, "same credential");
    refused("a admin key=" KEY "\na operator key=" OTHER, "one role");
    write_list("");
    assert_int_equal(chmod(path, 0666), 0);
    refused("a admin key=" KEY, "chmod");
    assert_int_equal(unlink(path), 0);
    guard *guard;
    server_error error = {0};
    assert_false(guard_open(&guard, path, &error));
    assert_non_null(strstr(error.message, "No such file"));
    error = (server_error){0};
    assert_false(guard_open(&guard, "/tmp", &error));
    assert_non_null(strstr(error.message, "not a file"));
}

static void weights_are_of_principals(void **state) {
    (void)state;
    guard *guard = open_list("a simulator key=" KEY "\na simulator uid=1 weight=5\nb admin uid=2 weight=2\n"
                             "c simulator uid=3\nd operator uid=4 weight=7\n");
    identity who;
    assert_true(guard_find(guard, "key=" KEY, &who)); /* the weight stands on another line */
    assert_int_equal(who.weight, 5);
    assert_int_equal(who.others_weight, 3);
    assert_true(guard_find(guard, "uid=2", &who));
    assert_int_equal(who.weight, 2);
    assert_int_equal(who.others_weight, 6);
    assert_true(guard_find(guard, "uid=3", &who));
    assert_int_equal(who.weight, 1);
    assert_true(guard_find(guard, "uid=4", &who)); /* an operator has no meshes and scenes to share for */
    assert_int_equal(who.others_weight, 8);
    guard_close(&guard);
}

static void limits_are_of_principals(void **state) {
    (void)state;
    guard *guard = open_list("a simulator key=" KEY "\na simulator uid=1 max_step_time=30s weight=5\nb admin uid=2\n"
                             "c simulator uid=3 weight=2 max_step_time=0.5\n");
    identity who;
    assert_true(guard_find(guard, "key=" KEY, &who)); /* the limit stands on another line */
    assert_int_equal(who.max_step_ms, 30000);
    assert_int_equal(who.weight, 5);
    assert_true(guard_find(guard, "uid=2", &who));
    assert_int_equal(who.max_step_ms, 0);
    assert_true(guard_find(guard, "uid=3", &who));
    assert_int_equal(who.max_step_ms, 500);
    assert_int_equal(who.weight, 2);
    guard_close(&guard);
    refused("a admin uid=1 max_step_time=0", "max_step_time");
    refused("a admin uid=1 max_step_time=", "max_step_time");
    refused("a admin uid=1 max_step_time=-1s", "max_step_time");
    refused("a admin uid=1 max_step_time=nan", "max_step_time");
    refused("a admin uid=1 max_step_time=1s max_step_time=1s", "more stands after");
    refused("a admin uid=1 max_step_time=1s\na admin uid=2 max_step_time=2s", "2000 ms here and 1000 ms above");
}

static void an_empty_path_is_an_empty_list(void **state) {
    (void)state;
    guard *guard;
    server_error error = {0};
    identity who;
    assert_true(guard_open(&guard, "", &error));
    assert_false(guard_has_keys(guard) || guard_has_uids(guard) || guard_has_tokens(guard));
    assert_false(guard_find(guard, "key=" KEY, &who) || guard_find_token(guard, "hello", 5, &who));
    assert_true(guard_reload(guard, &error));
    guard_close(&guard);
}

static void reads_the_list_again(void **state) {
    (void)state;
    guard *guard = open_list("a admin token=sha256:" HELLO "\nb simulator key=" KEY "\n");
    identity before, who;
    server_error error = {0};
    uint32_t generation = guard_generation(guard);
    assert_true(guard_find(guard, "key=" KEY, &before));
    write_list("c operator key=" OTHER "\nb operator key=" KEY);
    assert_true(guard_reload(guard, &error));
    assert_true(guard_generation(guard) != generation);
    assert_true(guard_find(guard, "key=" KEY, &who));
    assert_int_equal(who.principal, before.principal); /* what b owns stays b's */
    assert_int_equal(who.role, ROLE_OPERATOR);
    assert_true(guard_find(guard, "key=" OTHER, &who));
    assert_true(who.principal != before.principal);
    assert_false(guard_find_token(guard, "hello", 5, &who));
    assert_true(guard_has_tokens(guard)); /* tokens are asked for still */
    generation = guard_generation(guard);
    write_list("b nonsense");
    assert_false(guard_reload(guard, &error)); /* and the list stays */
    assert_int_equal(guard_generation(guard), generation);
    assert_true(guard_find(guard, "key=" KEY, &who));
    guard_close(&guard);
}

static void failures_are_limited(void **state) {
    (void)state;
    guard *guard = open_list("a admin token=sha256:" HELLO "\nb admin uid=1\n");
    identity a, b;
    uint64_t now = UINT64_C(1000000000000), step = GUARD_FAILURE_MS * UINT64_C(1000000);
    assert_true(guard_find_token(guard, "hello", 5, &a) && guard_find(guard, "uid=1", &b));
    assert_int_equal(guard_judge(guard, "192.0.2.1", &a, GUARD_TOLD, now, NULL), GUARD_ADMITTED);
    for (int i = 0; i < GUARD_FAILURES; i++)
        assert_int_equal(guard_judge(guard, "192.0.2.1", NULL, GUARD_TOLD, now, NULL), GUARD_UNKNOWN);
    assert_int_equal(guard_judge(guard, "192.0.2.1", NULL, GUARD_TOLD, now, NULL), GUARD_LIMITED);
    assert_int_equal(guard_judge(guard, "192.0.2.1", &b, GUARD_TOLD, now, NULL),
                     GUARD_LIMITED); /* a guess, for all we know */
    assert_int_equal(guard_judge(guard, "192.0.2.1", &a, GUARD_TOLD, now, NULL), GUARD_ADMITTED); /* was here before */
    assert_int_equal(guard_judge(guard, "192.0.2.1", NULL, GUARD_PROVEN, now, NULL), GUARD_LIMITED);
    uint32_t wait_ms;
    assert_int_equal(guard_judge(guard, "192.0.2.1", NULL, GUARD_TOLD, now + 1000000, &wait_ms), GUARD_LIMITED);
    assert_int_equal(wait_ms, GUARD_FAILURE_MS - 1);
    assert_int_equal(guard_judge(guard, "192.0.2.2", NULL, GUARD_TOLD, now, NULL), GUARD_UNKNOWN);
    assert_int_equal(guard_judge(guard, "192.0.2.2", &b, GUARD_TOLD, now, NULL), GUARD_ADMITTED);
    now += step;
    assert_int_equal(guard_judge(guard, "192.0.2.1", NULL, GUARD_TOLD, now, NULL), GUARD_UNKNOWN);
    assert_int_equal(guard_judge(guard, "192.0.2.1", NULL, GUARD_TOLD, now, NULL), GUARD_LIMITED);
    for (int i = 0; i <= GUARD_FAILURES; i++) guard_judge(guard, "192.0.2.3", NULL, GUARD_TOLD, now, NULL);
    assert_int_equal(guard_judge(guard, "192.0.2.3", &b, GUARD_TOLD, now, NULL), GUARD_LIMITED);
    assert_int_equal(guard_judge(guard, "192.0.2.3", &b, GUARD_PROVEN, now, NULL), GUARD_ADMITTED); /* no guess */
    assert_int_equal(guard_take_unseen(guard), 7);
    assert_int_equal(guard_take_unseen(guard), 0);
    now += GUARD_FAILURES * step;
    assert_int_equal(guard_judge(guard, "192.0.2.1", &b, GUARD_TOLD, now, NULL), GUARD_ADMITTED);
    guard_close(&guard);
}

static void an_ipv6_network_is_one_address(void **state) {
    (void)state;
    guard *guard = open_list("a admin uid=1\n");
    char address[64];
    int limited = 0;
    for (int i = 0; i < 2 * GUARD_FAILURES; i++) {
        snprintf(address, sizeof address, "2001:db8:1:2::%x", i);
        limited += guard_judge(guard, address, NULL, GUARD_TOLD, 1, NULL) == GUARD_LIMITED;
    }
    assert_int_equal(limited, GUARD_FAILURES);
    assert_int_equal(guard_judge(guard, "2001:db8:1:3::1", NULL, GUARD_TOLD, 1, NULL), GUARD_UNKNOWN);
    guard_close(&guard);
}

/* A million addresses take no more memory than the first, and the one that fails on stays limited. */
static void strangers_do_not_push_out_an_attacker(void **state) {
    (void)state;
    guard *guard = open_list("a admin uid=1\n");
    for (int i = 0; i <= GUARD_FAILURES; i++) guard_judge(guard, "203.0.113.9", NULL, GUARD_TOLD, 1, NULL);
    for (uint32_t i = 0; i < 1000000; i++) {
        char address[32];
        snprintf(address, sizeof address, "10.%u.%u.%u", i >> 16 & 255, i >> 8 & 255, i & 255);
        guard_judge(guard, address, NULL, GUARD_TOLD, 1, NULL);
    }
    assert_int_equal(guard_judge(guard, "203.0.113.9", NULL, GUARD_TOLD, 1, NULL), GUARD_LIMITED);
    guard_close(&guard);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_who_is_listed, make_path, drop_path),
        cmocka_unit_test_setup_teardown(refuses_broken_lists, make_path, drop_path),
        cmocka_unit_test(weights_are_of_principals),
        cmocka_unit_test(limits_are_of_principals),
        cmocka_unit_test(an_empty_path_is_an_empty_list),
        cmocka_unit_test_setup_teardown(reads_the_list_again, make_path, drop_path),
        cmocka_unit_test_setup_teardown(failures_are_limited, make_path, drop_path),
        cmocka_unit_test_setup_teardown(an_ipv6_network_is_one_address, make_path, drop_path),
        cmocka_unit_test_setup_teardown(strangers_do_not_push_out_an_attacker, make_path, drop_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
