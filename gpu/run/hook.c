/* hook.c - see contact_hook.h. */
#include <stdatomic.h>

#include "gpu/include/contact_hook.h"

static struct {
    _Atomic(ct_hook_call) call;
    _Atomic(const void *) objects[CT_HOOK_OBJECTS];
    atomic_size_t n;
} hooks[CT_HOOKS];

/* From the last object to the first, as ct_hook_set writes from the first to the last: one that it moves towards the
 * first is met before or after. */
static void pass_on(uint32_t hook, const void *object, void *data) {
    for (size_t i = atomic_load(&hooks[hook].n); i-- > 0;) {
        if (atomic_load(&hooks[hook].objects[i]) != object) continue;
        const ct_hook_call call = atomic_load(&hooks[hook].call);
        if (call) call(object, data);
        return;
    }
}

static void pass_on_0(const void *object, void *data) {
    pass_on(0, object, data);
}
static void pass_on_1(const void *object, void *data) {
    pass_on(1, object, data);
}

ct_hook_call ct_hook(uint32_t hook) {
    static const ct_hook_call functions[CT_HOOKS] = {pass_on_0, pass_on_1};
    return hook < CT_HOOKS ? functions[hook] : NULL;
}

bool ct_hook_set(uint32_t hook, ct_hook_call call, const void *const *objects, size_t n) {
    if (hook >= CT_HOOKS || n > CT_HOOK_OBJECTS) return false;
    atomic_store(&hooks[hook].call, call);
    for (size_t i = 0; i < n; i++) atomic_store(&hooks[hook].objects[i], objects[i]);
    atomic_store(&hooks[hook].n, n);
    return true;
}
