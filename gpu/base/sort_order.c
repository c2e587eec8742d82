/* sort_order.c - merge sort. */
#include "gpu/base/sort_order.h"

#include <string.h>

#include "gpu/base/cancel.h"

bool ct_sort_order(uint32_t *order, uint32_t *scratch, uint32_t n,
                   bool (*is_before)(const void *argument, uint32_t x, uint32_t y), const void *argument) {
    uint32_t *from = order, *to = scratch;
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    for (uint64_t width = 1; width < n; width *= 2) {
        for (uint64_t first = 0; first < n; first += 2 * width) {
            const uint64_t middle = first + width < n ? first + width : n,
                           end = first + 2 * width < n ? first + 2 * width : n;
            uint64_t a = first, b = middle;
            for (uint64_t i = first; i < end; i++) {
                if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled()) return false;
                to[i] = b == end || (a < middle && !is_before(argument, from[b], from[a])) ? from[a++] : from[b++];
            }
        }
        uint32_t *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != order) memcpy(order, from, n * sizeof *order);
    return true;
}
