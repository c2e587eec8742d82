/* base.c - what every part of the C client uses: errors, the time, random numbers, arrays that grow. */
#include "client_c/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t ctc_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double ctc_random(contactd_client *client) {
    uint64_t z = client->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

char *ctc_strdup(const char *text) {
    return strdup(text ? text : "");
}

bool ctc_grow(void *array, size_t n, size_t *cap, size_t element) {
    if (n < *cap) return true;
    size_t more = *cap ? 2 * *cap : 8;
    while (more <= n) more *= 2;
    void *old, *grown;
    memcpy(&old, array, sizeof old);
    grown = realloc(old, more * element);
    if (!grown) return false;
    memcpy(array, &grown, sizeof grown);
    *cap = more;
    return true;
}
bool ctc_grow32(void *array, uint32_t n, uint32_t *cap, size_t element) {
    size_t wide = *cap;
    if (!ctc_grow(array, n, &wide, element)) return false;
    *cap = (uint32_t)wide;
    return true;
}

static contactd_code set_error(contactd_error *error, contactd_code code, const char *object, const char *field,
                               const char *format, va_list args) {
    *error = (contactd_error){.code = code, .retry = wire_code_retry((int)code)};
    snprintf(error->object, sizeof error->object, "%s", object);
    snprintf(error->field, sizeof error->field, "%s", field);
    vsnprintf(error->message, sizeof error->message, format, args);
    return code;
}

contactd_code ctc_fail(contactd_client *client, contactd_code code, const char *object, const char *field,
                       const char *format, ...) {
    va_list args;
    va_start(args, format);
    set_error(&client->error, code, object, field, format, args);
    va_end(args);
    return code;
}

contactd_code ctc_fill_error(contactd_error *error, contactd_code code, const char *object, const char *field,
                             const char *format, ...) {
    if (!error) return code;
    va_list args;
    va_start(args, format);
    set_error(error, code, object, field, format, args);
    va_end(args);
    return code;
}

void ctc_answer_error(const wire_error *from, const char *object, contactd_error *to) {
    *to = (contactd_error){.code = from->code, .retry = from->retry, .retry_after_ms = from->retry_after_ms};
    /* The server's numbers are not the caller's handles, so what the request was about goes by the caller's name. */
    snprintf(to->object, sizeof to->object, "%s", *object ? object : from->object);
    snprintf(to->field, sizeof to->field, "%s", from->field);
    snprintf(to->message, sizeof to->message, "%s", *from->message ? from->message : wire_code_text((int)from->code));
}

contactd_code ctc_fail_null(contactd_client *client, const char *object, const char *argument) {
    return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, object, argument, "%s is NULL", argument);
}

contactd_code ctc_no_memory(contactd_client *client, const char *object) {
    return ctc_fail(client, CONTACTD_OUT_OF_MEMORY, object, "", "%s: out of memory in this process", object);
}

void ctc_begin(contactd_client *client) {
    client->error = (contactd_error){.code = CONTACTD_OK};
    client->deadline_ns = ctc_now() + (uint64_t)client->timeout_ms * 1000000u;
    client->strangers = 0;
    client->refused = 0;
    client->greeting.is_asked = false;
    client->unauthenticated = false;
    client->waiting_ns = 0;
    client->work_epoch = 0;
    client->call_ends = 0;
    client->work_ends = &client->call_ends;
}

void ctc_received_close(ctc_received *received) {
    for (size_t i = 0; i < received->n; i++) zmq_msg_close(&received->frames[i]);
    received->n = 0;
}
