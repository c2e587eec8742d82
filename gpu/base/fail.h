/* fail.h - how every part of the engine reports a failure: first error wins and carries its context. */
#ifndef CT_FAIL_H
#define CT_FAIL_H

#include "gpu/include/contact.h"

/* Fills *error (may be NULL; left alone if it holds a failure already) and returns status. */
__attribute__((format(printf, 4, 5))) ct_status ct_fail(ct_error *error, ct_status status, const char *field,
                                                        const char *format, ...);

#endif
