/* sort_order.h - a stable sort that can be cancelled, of whatever has a number. */
#ifndef CT_SORT_ORDER_H
#define CT_SORT_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* Fills order [n] with 0 .. n - 1, sorted; of equal ones the lower first. scratch: [n]. is_before: whether x comes
 * before y, and y does not come before x. False: cancelled. */
bool ct_sort_order(uint32_t *order, uint32_t *scratch, uint32_t n,
                   bool (*is_before)(const void *argument, uint32_t x, uint32_t y), const void *argument);

#endif
