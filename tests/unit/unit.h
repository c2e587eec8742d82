/* unit.h - what cmocka wants included before it, for every unit test. */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Built to look for races, which takes minutes where others take seconds: tests that cannot have any are left out. */
#ifdef __SANITIZE_THREAD__
enum { UNIT_RACES_ONLY = 1 };
#else
enum { UNIT_RACES_ONLY = 0 };
#endif

static inline void unit_left_out(void **state) {
    (void)state;
    skip();
}

/* Bits of doubles and of structures without padding. */
#define assert_same_bytes(a, b, size) assert_memory_equal((const void *)(a), (const void *)(b), size)

#endif
