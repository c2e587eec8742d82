/* report.c - see report.h. */
#include "client_c/ctl/report.h"

int ctl_get_report(ctl *ctl, contactd_report kind, uint64_t scene, const char *what, json_t **out) {
    const char *json;
    size_t size;
    json_error_t error;
    *out = NULL;
    if (contactd_get_report(ctl->client, kind, scene, &json, &size)) return ctl_error(ctl, what);
    *out = json_loadb(json, size, 0, &error);
    if (*out) return EXIT_OK;
    fprintf(stderr, "contactctl: %s: the server's answer could not be understood: %s\n", what, error.text);
    return EXIT_SERVER;
}

void ctl_put_report(const json_t *report) {
    json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    putchar('\n');
}

const char *ctl_text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

uint64_t ctl_count_of(const json_t *object, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(object, key));
}
