/* array.c - see array.h. */
#include "gpu/base/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool ct_array_reserve(void *items, size_t *capacity, size_t n, size_t size) {
    if (n <= *capacity) return true;
    size_t more = *capacity < 8 ? 8 : *capacity <= SIZE_MAX / 2 ? 2 * *capacity : SIZE_MAX;
    if (more < n) more = n;
    if (more > SIZE_MAX / size) return false;
    void *data;
    memcpy(&data, items, sizeof data); /* a pointer to another type is no alias of a void * */
    data = realloc(data, more * size);
    if (!data) return false;
    memcpy(items, &data, sizeof data);
    *capacity = more;
    return true;
}
