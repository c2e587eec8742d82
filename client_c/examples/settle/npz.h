/* npz.h - writes arrays as numpy's .npz reads them (a zip archive, not compressed), for the pictures of the examples.
 */
#ifndef SETTLE_NPZ_H
#define SETTLE_NPZ_H

#include <stdbool.h>
#include <stddef.h>

typedef struct npz npz;

npz *npz_open(const char *path); /* NULL: errno says why */
/* type: numpy's, e.g. "<f4"; shape: e.g. "(8, 3)". Errors are kept until npz_close. */
void npz_add(npz *file, const char *name, const char *type, const char *shape, const void *data, size_t bytes);
bool npz_close(npz **file); /* nulls; false: something could not be written */

#endif
