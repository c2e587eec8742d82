/* fail.c - names of statuses, and error reports. */
#include "gpu/base/fail.h"

#include <stdarg.h>
#include <stdio.h>

#include "gpu/base/cancel.h"

static const char *const names[] = {
#define NAME(name, text) #name,
    CT_STATUS_MAP(NAME)
#undef NAME
};
static const char *const texts[] = {
#define TEXT(name, text) text,
    CT_STATUS_MAP(TEXT)
#undef TEXT
};

const char *ct_status_name(ct_status status) {
    return (size_t)status < sizeof names / sizeof *names ? names[status] : "UNKNOWN";
}

const char *ct_status_text(ct_status status) {
    return (size_t)status < sizeof texts / sizeof *texts ? texts[status] : "unknown status";
}

ct_status ct_fail(ct_error *error, ct_status status, const char *field, const char *format, ...) {
    if (status == CT_OUT_OF_MEMORY && ct_is_cancelled()) return ct_fail_cancelled(error);
    if (!error || error->status != CT_OK) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    snprintf(error->field, sizeof error->field, "%s", field ? field : "");
    error->status = status;
    return status;
}

void ct_hand_on(ct_error *error, const ct_error *cause) {
    if (error && !error->status && cause->status) *error = *cause;
}
