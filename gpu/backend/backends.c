/* backends.c - the backends compiled in, in the order in which "auto" tries them. */
#include <string.h>

#include "gpu/backend/backend.h"
#include "gpu/backend/cpu/cpu.h"
#include "gpu/base/fail.h"

static const ct_backend *const backends[] = {&ct_backend_cpu};

const ct_backend *ct_backend_find(const char *name, ct_error *error) {
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (!name || !strcmp(name, "auto") || !strcmp(name, backends[i]->name)) return backends[i];
    ct_fail(error, CT_UNSUPPORTED, "backend", "backend \"%s\" is not in this build, which has: cpu", name);
    return NULL;
}
