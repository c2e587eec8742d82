/* entry_arrays.h - arrays of entries allocated from an arena, for backends that build results on the host. */
#ifndef CT_ENTRY_ARRAYS_H
#define CT_ENTRY_ARRAYS_H

#include "gpu/base/arena.h"
#include "gpu/contact/result.h"

/* As ct_entry_arrays_new, but allocated from an arena: reset or free the arena to free them. */
bool ct_entry_arrays_in(ct_arena *arena, ct_budget *budget, ct_entry_arrays *arrays, uint32_t want, uint64_t n);

#endif
