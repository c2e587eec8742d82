/* contact_hook.h - a callback that another library makes for all of its objects, passed on for some of them.
 * Part of contact.h, which says what holds of all: units, ownership, errors, threads.
 *
 * For adapters in other languages: MuJoCo has one control callback for all models of a process, and where it is written
 * in Python also calls it while it compiles a model that Python does not know yet, which fails. */
#ifndef CONTACT_HOOK_H
#define CONTACT_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CT_HOOKS = 2, CT_HOOK_OBJECTS = 1024 };

typedef void (*ct_hook_call)(const void *object, void *data);

/* What the other library is to call, of hook 0 or 1; NULL: there is no such hook. It holds nothing while it passes a
 * call on, so that the call may end with longjmp. */
ct_hook_call ct_hook(uint32_t hook);
/* From now on the hook passes calls with one of `objects` [n] on to `call`, and no others; n of 0: none. By one thread
 * at a time, while any number may be in the hook: they miss no object that was there before, where those that stay keep
 * their order and new ones are the last. False: n is above CT_HOOK_OBJECTS, or there is no such hook, and nothing was
 * changed. */
bool ct_hook_set(uint32_t hook, ct_hook_call call, const void *const *objects, size_t n);

#ifdef __cplusplus
}
#endif
#endif
