/* unit.h - what cmocka wants included before it, for every unit test. */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Bits of doubles and of structures without padding. */
#define assert_same_bytes(a, b, size) assert_memory_equal((const void *)(a), (const void *)(b), size)

#endif
