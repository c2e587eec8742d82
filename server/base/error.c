/* error.c - filling errors and looking up what a code means. */
#include "server/base/error.h"

#include <stdarg.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct code_facts {
    const char *name;
    int http;
    bool retry;
    const char *text;
} code_facts;

static const code_facts codes[] = {
#define ROW(name, number, http, retry, text) [number] = {#name, http, retry, text},
    CONTACTD_ERROR_MAP(ROW)
#undef ROW
};

static const code_facts *facts_of(contactd_code code) {
    return (unsigned)code < COUNT(codes) && codes[code].name ? &codes[code] : &codes[CONTACTD_INTERNAL];
}

const char *server_code_name(contactd_code code) {
    return facts_of(code)->name;
}

const char *server_code_text(contactd_code code) {
    return facts_of(code)->text;
}

int server_code_http(contactd_code code) {
    return facts_of(code)->http;
}

bool server_code_retry(contactd_code code) {
    return facts_of(code)->retry;
}

bool server_error_may_retry(const server_error *error) {
    return server_code_retry(error->code) || error->retry_after_ms > 0;
}

bool server_fail(server_error *error, contactd_code code, const char *object, const char *field, const char *format,
                 ...) {
    if (!error || error->code != CONTACTD_OK) return false;
    error->code = code;
    error->retry_after_ms = 0;
    snprintf(error->object, sizeof error->object, "%s", object ? object : "");
    snprintf(error->field, sizeof error->field, "%s", field ? field : "");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return false;
}

/* The one place where the engine's statuses become codes. */
static contactd_code code_of(ct_status status) {
    switch (status) {
    case CT_OK:
        return CONTACTD_OK;
    case CT_INVALID_ARGUMENT:
        return CONTACTD_INVALID_ARGUMENT;
    case CT_NOT_FOUND:
        return CONTACTD_NOT_FOUND;
    case CT_PARSE_ERROR:
        return CONTACTD_PARSE_ERROR;
    case CT_INVALID_MESH:
        return CONTACTD_INVALID_MESH;
    case CT_WRONG_LENGTH:
        return CONTACTD_WRONG_LENGTH;
    case CT_NON_FINITE:
        return CONTACTD_NON_FINITE;
    case CT_OUT_OF_RANGE:
        return CONTACTD_OUT_OF_RANGE;
    case CT_LIMIT_EXCEEDED:
        return CONTACTD_LIMIT_EXCEEDED;
    case CT_OUT_OF_MEMORY:
        return CONTACTD_OUT_OF_MEMORY;
    case CT_UNSUPPORTED:
        return CONTACTD_UNSUPPORTED;
    case CT_DEVICE_ERROR:
        return CONTACTD_DEVICE_ERROR;
    case CT_CANCELLED:
        return CONTACTD_TIME_LIMIT;
    }
    return CONTACTD_INTERNAL;
}

bool server_fail_engine(server_error *error, const char *object, const ct_error *cause) {
    if (cause->status == CT_OK) {
        return server_fail(error, CONTACTD_INTERNAL, object, "", "the engine failed without saying why");
    }
    return server_fail(error, code_of(cause->status), object, cause->field, "%s",
                       cause->message[0] ? cause->message : ct_status_text(cause->status));
}

bool server_fail_work(server_error *error, const char *object, const ct_error *cause) {
    if (cause->status != CT_CANCELLED) return server_fail_engine(error, object, cause);
    ct_cancel *own = ct_cancel_scope(NULL);
    ct_cancel_scope(own);
    if (own && ct_cancel_reason(own) == CT_CANCEL_CALLER)
        return server_fail(error, CONTACTD_SHUTTING_DOWN, "server", "",
                           "the server ended while this ran: nothing was changed");
    return server_fail(error, CONTACTD_TIME_LIMIT, object, cause->field,
                       "%s (the server's limit is its --max-step-time)",
                       cause->message[0] ? cause->message : ct_status_text(cause->status));
}
