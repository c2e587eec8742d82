/* kernels_cpu.c - lists the methods of the CPU backend, and the kernels of this build, one set per instruction set, and
 * chooses one that this CPU supports. */
#include <stdio.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/method/backend_cpu.h"
#include "gpu/method/device_cpu.h"

const ct_cpu_method *const ct_cpu_methods[CT_CPU_SLOTS] = {[CT_METHOD_LDI] = &ct_cpu_ldi_method,
                                                           [CT_METHOD_EXACT] = &ct_cpu_exact_method,
                                                           [CT_METHOD_EBPI] = &ct_cpu_ebpi_method,
                                                           [CT_METHOD_VOXTREE] = &ct_cpu_voxtree_method};

/* Fastest first. */
static const ct_kernels kernel_sets[] = {
#ifdef __x86_64__
    {"avx2", CT_SIMD_AVX2, &ct_snap_cpu_avx2, &ct_compact_cpu_avx2, &ct_volume_cpu_avx2},
#endif
    {"base", CT_SIMD_BASE, &ct_snap_cpu_base, &ct_compact_cpu_base, &ct_volume_cpu_base},
};
enum { N_SETS = sizeof kernel_sets / sizeof *kernel_sets };

static bool is_supported(const char *name) {
#ifdef __x86_64__
    if (!strcmp(name, "avx2"))
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#endif
    return !strcmp(name, "base");
}

void ct_kernels_list(char *names, size_t size) {
    size_t used = 0;
    names[0] = 0;
    for (int i = 0; i < N_SETS; i++)
        if (is_supported(kernel_sets[i].name))
            used += (size_t)snprintf(names + used, size - used, "%s%s", used ? " " : "", kernel_sets[i].name);
}

const ct_kernels *ct_kernels_find(const char *name, ct_error *error) {
    bool is_any = !name || !strcmp(name, "auto");
    for (int i = 0; i < N_SETS; i++)
        if ((is_any || !strcmp(name, kernel_sets[i].name)) && is_supported(kernel_sets[i].name)) return &kernel_sets[i];
    char names[64];
    ct_kernels_list(names, sizeof names);
    ct_fail(error, CT_UNSUPPORTED, "simd", "simd \"%s\" is not available: this processor and build support: %s", name,
            names);
    return NULL;
}
