/* report.c - see report.h. */
#include "client_c/ctl/report.h"

#include <inttypes.h>
#include <string.h>

int ctl_get_report(ctl *ctl, contactd_report kind, uint64_t scene, const char *what, json_t **out) {
    int code = ctl_get_newer_report(ctl, kind, scene, what, out);
    return code == EXIT_OK && !*out ? ctl_error(ctl, what) : code;
}

int ctl_get_newer_report(ctl *ctl, contactd_report kind, uint64_t scene, const char *what, json_t **out) {
    const char *json;
    size_t size;
    json_error_t error;
    *out = NULL;
    if (contactd_get_report(ctl->client, kind, scene, &json, &size)) {
        const bool is_unknown = strcmp(contactd_last_error(ctl->client)->field, "kind") == 0;
        return is_unknown ? EXIT_OK : ctl_error(ctl, what);
    }
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

/* In a column of this width, "-" where the step did not want it. */
static void put_number(const json_t *contact, const char *key, int width) {
    const json_t *value = json_object_get(contact, key);
    if (json_is_number(value))
        printf(" %*.*g", width, 6, json_number_value(value));
    else
        printf(" %*s", width, "-");
}

static void put_vector(const json_t *contact, const char *key) {
    const json_t *value = json_object_get(contact, key);
    if (json_array_size(value) != 3) {
        printf("  %-28s", "-");
        return;
    }
    char text[96];
    snprintf(text, sizeof text, "%.4g %.4g %.4g", json_number_value(json_array_get(value, 0)),
             json_number_value(json_array_get(value, 1)), json_number_value(json_array_get(value, 2)));
    printf("  %-28s", text);
}

void ctl_put_contacts(const json_t *report, size_t most) {
    const json_t *contact, *list = json_object_get(report, "contacts");
    size_t i;
    printf("scene %" PRIu64 ", step %" PRIu64 ": %zu contacts\n\n", ctl_count_of(report, "scene"),
           ctl_count_of(report, "step"), json_array_size(list));
    printf("%-8s %-15s %12s %12s %12s  %-28s  %s\n", "ID", "BODIES", "VOLUME m^3", "DEPTH m", "AREA m^2", "NORMAL",
           "CENTER m");
    json_array_foreach(list, i, contact) {
        if (i == most) break;
        const json_t *bodies = json_object_get(contact, "bodies"), *id = json_object_get(contact, "id");
        char pair[32], number[24] = "-";
        snprintf(pair, sizeof pair, "%" PRIu64 " %" PRIu64, (uint64_t)json_integer_value(json_array_get(bodies, 0)),
                 (uint64_t)json_integer_value(json_array_get(bodies, 1)));
        if (id) snprintf(number, sizeof number, "%" PRIu64, (uint64_t)json_integer_value(id));
        printf("%-8s %-15s", number, pair);
        put_number(contact, "volume", 12);
        put_number(contact, "depth", 12);
        put_number(contact, "area", 12);
        put_vector(contact, "normal");
        put_vector(contact, "center");
        putchar('\n');
    }
    if (json_array_size(list) > most) printf("and %zu more\n", json_array_size(list) - most);
}
