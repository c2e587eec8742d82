/* What a process may use: limits of control groups, version 1 and 2, as files under a folder that stands for the root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/base/machine.h"

static char root[64];

static int make_root(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/contactd-machine-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

static void write_file(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *c = path + strlen(root) + 1; *c; c++) {
        if (*c != '/') continue;
        *c = 0;
        mkdir(path, 0755);
        *c = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static machine found(void) {
    machine machine;
    machine_find(&machine, root);
    return machine;
}

static void test_resource_limits(void **state) {
    (void)state;
    const uint64_t mib = 1 << 20;
    assert_int_equal(machine_usable_of_limit(1024 * mib, 8 * mib, 8), (1024 - 64 - 32 * 8) * mib);
    assert_int_equal(machine_usable_of_limit(200 * mib, 8 * mib, 8), 50 * mib); /* a quarter at least */
    assert_int_equal(machine_usable_of_limit(0, 8 * mib, 8), 0);
#if !defined __SANITIZE_THREAD__ && !defined __SANITIZE_ADDRESS__ /* these need far more addresses */
    static const int limits[] = {RLIMIT_AS, RLIMIT_DATA};
    for (size_t i = 0; i < 2; i++) {
        struct rlimit before, now;
        assert_int_equal(getrlimit((__rlimit_resource_t)limits[i], &before), 0);
        now = before;
        now.rlim_cur = 2048 * mib;
        assert_int_equal(setrlimit((__rlimit_resource_t)limits[i], &now), 0);
        machine machine = found();
        assert_int_equal(setrlimit((__rlimit_resource_t)limits[i], &before), 0);
        assert_true(machine.has_few_addresses);
        assert_in_range(machine.memory_bytes, 512 * mib, 2048 * mib - 1);
    }
#endif
}

static void test_no_groups(void **state) {
    (void)state;
    machine machine = found();
    assert_int_equal(machine.memory_bytes, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    assert_true(machine.processors >= 1);
}

static void test_version_2(void **state) {
    (void)state;
    write_file("/proc/self/cgroup", "0::/system.slice/contactd.service\n");
    write_file("/sys/fs/cgroup/system.slice/contactd.service/memory.max", "max\n");
    write_file("/sys/fs/cgroup/system.slice/contactd.service/cpu.max", "max 100000\n");
    assert_true(found().memory_bytes > 100 << 20);
    write_file("/sys/fs/cgroup/system.slice/memory.max", "104857600\n"); /* an ancestor's holds too */
    assert_int_equal(found().memory_bytes, 100 << 20);
    write_file("/sys/fs/cgroup/system.slice/contactd.service/memory.max", "52428800\n");
    write_file("/sys/fs/cgroup/system.slice/contactd.service/cpu.max", "50000 100000\n");
    assert_int_equal(found().memory_bytes, 50 << 20);
    assert_int_equal(found().processors, 1);
}

static void test_version_1(void **state) {
    (void)state;
    write_file("/proc/self/cgroup", "9:name=systemd:/\n4:memory:/a/b\n2:cpu,cpuacct:/a\n1:cpuset:/\n0::/\n");
    write_file("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    write_file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
    write_file("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
    machine before = found();
    assert_true(before.memory_bytes > 100 << 20);
    write_file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "104857600\n");
    write_file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "10000\n");
    assert_int_equal(found().memory_bytes, 100 << 20);
    assert_int_equal(found().processors, 1);
}

/* In a container whose group's path is the host's, the mount is the group. */
static void test_path_of_the_host(void **state) {
    (void)state;
    write_file("/proc/self/cgroup", "4:memory:/docker/0123456789\n0::/docker/0123456789\n");
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n");
    assert_int_equal(found().memory_bytes, 100 << 20);
    write_file("/sys/fs/cgroup/memory.max", "73400320\n");
    assert_int_equal(found().memory_bytes, 70 << 20);
}

static void test_garbage(void **state) {
    (void)state;
    machine before = found();
    write_file("/proc/self/cgroup", "garbage\n:\n::\n4:memory\n0::/x\n5:memory,cpu:/y\n");
    write_file("/sys/fs/cgroup/x/memory.max", "99999999999999999999999\n");
    write_file("/sys/fs/cgroup/x/cpu.max", "5\n");
    write_file("/sys/fs/cgroup/memory/y/memory.limit_in_bytes", "");
    write_file("/sys/fs/cgroup/cpu/y/cpu.cfs_quota_us", "0\n");
    assert_int_equal(found().memory_bytes, before.memory_bytes);
    assert_int_equal(found().processors, before.processors);
}

#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_ROOT(test_resource_limits), WITH_ROOT(test_no_groups),        WITH_ROOT(test_version_2),
        WITH_ROOT(test_version_1),       WITH_ROOT(test_path_of_the_host), WITH_ROOT(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
