/* fail.h - reports a failure: the first error of a call is kept, with its context. For every part of the engine. */
#ifndef CT_FAIL_H
#define CT_FAIL_H

#include "gpu/include/contact.h"

/* Fills *error unless it is NULL or holds a failure already; returns status. OUT_OF_MEMORY becomes CANCELLED where the
 * thread's work was cancelled (cancel.h). */
__attribute__((format(printf, 4, 5))) ct_status ct_fail(ct_error *error, ct_status status, const char *field,
                                                        const char *format, ...);

/* Copies the failure of a part of the work, if it is one, to *error, unless that holds an earlier one. */
void ct_hand_on(ct_error *error, const ct_error *cause);

#endif
