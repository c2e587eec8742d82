/* problem.c - see problem.h. */
#include "server/http/problem.h"

#include <stdarg.h>
#include <stdio.h>

#include "server/base/json_out.h"

__attribute__((format(printf, 6, 0))) static bool fill(problem *p, contactd_code code, int status, const char *title,
                                                       const char *field, const char *format, va_list arguments) {
    if (p->code != CONTACTD_OK) return false;
    p->code = code;
    p->status = status;
    snprintf(p->title, sizeof p->title, "%s", title ? title : "");
    snprintf(p->field, sizeof p->field, "%s", field ? field : "");
    vsnprintf(p->detail, sizeof p->detail, format, arguments);
    return false;
}

bool problem_set(problem *p, contactd_code code, const char *field, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill(p, code, 0, NULL, field, format, arguments);
    va_end(arguments);
    return false;
}

bool problem_set_http(problem *p, contactd_code code, int status, const char *title, const char *field,
                      const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fill(p, code, status, title, field, format, arguments);
    va_end(arguments);
    return false;
}

bool problem_take(problem *p, const server_error *error) {
    if (p->code != CONTACTD_OK) return false;
    problem_set(p, error->code, error->field, "%s", error->message);
    snprintf(p->object, sizeof p->object, "%s", error->object);
    p->retry_after_ms = error->retry_after_ms;
    return false;
}

int problem_status(const problem *p) {
    /* A limit that what others hold now exceeds: the same request may succeed later. */
    if (!p->status && p->code == CONTACTD_LIMIT_EXCEEDED && p->retry_after_ms) return 503;
    return p->status ? p->status : server_code_http(p->code);
}

uint32_t problem_retry_after(const problem *p) {
    if (p->retry_after_ms) return (p->retry_after_ms - 1) / 1000 + 1;
    return server_code_retry(p->code) ? 1 : 0;
}

char *problem_document(const problem *p, size_t *size) {
    char type[64];
    snprintf(type, sizeof type, "urn:contactd:error:%s", server_code_name(p->code));
    json_out out;
    json_out_init(&out, 1 << 16);
    json_out_object(&out, NULL);
    json_out_string(&out, "type", type);
    json_out_string(&out, "title", p->title[0] ? p->title : server_code_text(p->code));
    json_out_integer(&out, "status", (uint64_t)problem_status(p));
    json_out_string(&out, "detail", p->detail);
    json_out_string(&out, "code", server_code_name(p->code));
    if (p->object[0]) json_out_string(&out, "object", p->object);
    if (p->field[0]) json_out_string(&out, "field", p->field);
    if (problem_retry_after(p)) json_out_integer(&out, "retry_after", problem_retry_after(p));
    json_out_object_end(&out);
    if (out.state != JSON_OUT_OK) json_out_free(&out);
    *size = out.size;
    return out.data;
}
