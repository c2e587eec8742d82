/* report.c - see report.h. */
#include "client_c/ctl/report.h"

#include <inttypes.h>

int ctl_get_report(ctl *ctl, contactd_report kind, uint64_t scene, const char *what, json_t **out) {
    const char *json;
    size_t size;
    json_error_t error;
    *out = NULL;
    if (contactd_get_report(ctl->client, kind, scene, &json, &size)) return ctl_error(ctl, what);
    *out = json_loadb(json, size, 0, &error);
    if (*out) return EXIT_OK;
    ctl_say("%s: the server's answer could not be understood: %s", what, error.text);
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

static void put_box(const json_t *body) {
    const json_t *lo = json_object_get(body, "lo"), *hi = json_object_get(body, "hi");
    for (size_t c = 0; c < 3; c++)
        printf("%s%.6g..%.6g", c ? " x " : "", json_number_value(json_array_get(lo, c)),
               json_number_value(json_array_get(hi, c)));
    putchar('\n');
}

void ctl_put_bodies(const json_t *report) {
    const json_t *body;
    size_t i;
    printf("%-8s %-11s %-32s %10s %-5s %s\n", "ID", "KIND", "MESH", "VERTICES", "SELF", "BOX m");
    json_array_foreach(json_object_get(report, "bodies"), i, body) {
        const char *hash = ctl_text_of(body, "mesh_hash");
        printf("%-8" PRIu64 " %-11s %-32s %10" PRIu64 " %-5s ", ctl_count_of(body, "id"), ctl_text_of(body, "kind"),
               *hash ? hash : "-", ctl_count_of(body, "vertices"),
               json_is_true(json_object_get(body, "self_contact")) ? "yes" : "no");
        put_box(body);
    }
}
