/* kernels.c - which instruction sets' kernels this build has, and which of them this processor runs. */
#include <stdio.h>
#include <string.h>

#include "gpu/backend/cpu/device.h"
#include "gpu/base/fail.h"

static const ct_kernels sets[] = {
#ifdef __x86_64__
    {"avx2", &ct_snap_cpu_avx2, &ct_bin_cpu_avx2, &ct_raster_cpu_avx2, &ct_span_cpu_avx2, &ct_compact_cpu_avx2},
#endif
    {"base", &ct_snap_cpu_base, &ct_bin_cpu_base, &ct_raster_cpu_base, &ct_span_cpu_base, &ct_compact_cpu_base},
};
enum { N_SETS = sizeof sets / sizeof *sets };

static bool runs(const char *name) {
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
        if (runs(sets[i].name))
            used += (size_t)snprintf(names + used, size - used, "%s%s", used ? " " : "", sets[i].name);
}

const ct_kernels *ct_kernels_find(const char *name, ct_error *error) {
    bool any = !name || !strcmp(name, "auto");
    for (int i = 0; i < N_SETS; i++)
        if ((any || !strcmp(name, sets[i].name)) && runs(sets[i].name)) return &sets[i];
    char names[64];
    ct_kernels_list(names, sizeof names);
    ct_fail(error, CT_UNSUPPORTED, "simd", "simd \"%s\" does not run here: this processor and build have: %s", name,
            names);
    return NULL;
}
