/* options.c - defaults and bounds of snapshot options. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/base/vec.h"
#include "gpu/picture/picture.h"

enum { COOKIE = 0x51c70001 };

void ct_snapshot_options_init(ct_snapshot_options *options) {
    *options = (ct_snapshot_options){.cookie = COOKIE,
                                     .width = 960,
                                     .height = 720,
                                     .show = CT_SHOW_DEFAULT,
                                     .azimuth = -60,
                                     .elevation = 20,
                                     .up = {0, 0, 1},
                                     .zoom = 1,
                                     .field_of_view = 30,
                                     .opacity = 0.3,
                                     .background = {1, 1, 1, 1}};
}

static const struct {
    const char *name;
    uint32_t bits;
} words[] = {
    {"bodies", CT_SHOW_BODIES},     {"samples", CT_SHOW_SAMPLES},     {"axes", CT_SHOW_AXES},
    {"contacts", CT_SHOW_CONTACTS}, {"gradients", CT_SHOW_GRADIENTS}, {"rays", CT_SHOW_RAYS},
    {"rays_x", CT_SHOW_RAYS_X},     {"rays_y", CT_SHOW_RAYS_Y},       {"rays_z", CT_SHOW_RAYS_Z},
    {"nodes", CT_SHOW_NODES},       {"normals", CT_SHOW_NORMALS},     {"surface", CT_SHOW_SURFACE},
};

uint32_t ct_show_find(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == length && memcmp(words[i].name, name, length) == 0) return words[i].bits;
    return 0;
}

const char *ct_show_names(uint32_t bits, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!words[i].bits || (words[i].bits & ~bits) || used + strlen(words[i].name) + 2 > size) continue;
        bits &= ~words[i].bits;
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "," : "", words[i].name);
    }
    return text;
}

static ct_status check_number(const char *field, double value, double low, double high, ct_error *error) {
    if (!isfinite(value))
        return ct_fail(error, CT_NON_FINITE, field, "snapshot: %s is %g, expected a number", field, value);
    if (value < low || value > high)
        return ct_fail(error, CT_OUT_OF_RANGE, field, "snapshot: %s is %g, expected %g to %g", field, value, low, high);
    return CT_OK;
}

static ct_status check_size(const char *field, uint32_t value, ct_error *error) {
    if (value >= CT_SNAPSHOT_MIN_SIDE && value <= CT_SNAPSHOT_MAX_SIDE) return CT_OK;
    return ct_fail(error, CT_OUT_OF_RANGE, field, "snapshot: %s is %u pixels, expected %d to %d", field, value,
                   CT_SNAPSHOT_MIN_SIDE, CT_SNAPSHOT_MAX_SIDE);
}

ct_status ct_snapshot_options_check(const ct_snapshot_options *o, ct_error *error) {
    if (o->cookie != COOKIE)
        return ct_fail(error, CT_INVALID_ARGUMENT, "options", "options were not filled by ct_snapshot_options_init");
    static const double limit = 1e30; /* m; products of such numbers do not overflow */
    const struct {
        const char *field;
        double value, low, high;
    } numbers[] = {
        {"azimuth", o->azimuth, -3600, 3600},
        {"elevation", o->elevation, -90, 90},
        {"up", o->up[0], -limit, limit},
        {"up", o->up[1], -limit, limit},
        {"up", o->up[2], -limit, limit},
        {"eye", o->has_eye ? o->eye[0] : 0, -limit, limit},
        {"eye", o->has_eye ? o->eye[1] : 0, -limit, limit},
        {"eye", o->has_eye ? o->eye[2] : 0, -limit, limit},
        {"target", o->has_target ? o->target[0] : 0, -limit, limit},
        {"target", o->has_target ? o->target[1] : 0, -limit, limit},
        {"target", o->has_target ? o->target[2] : 0, -limit, limit},
        {"zoom", o->zoom, 0.01, 100},
        {"field_of_view", o->field_of_view, 1, 150},
        {"opacity", o->opacity, 0, 1},
        {"background", o->background[0], 0, 1},
        {"background", o->background[1], 0, 1},
        {"background", o->background[2], 0, 1},
        {"background", o->background[3], 0, 1},
    };
    ct_status status = check_size("width", o->width, error);
    if (!status) status = check_size("height", o->height, error);
    for (size_t i = 0; !status && i < sizeof numbers / sizeof *numbers; i++)
        status = check_number(numbers[i].field, numbers[i].value, numbers[i].low, numbers[i].high, error);
    if (status) return status;
    if (!o->show || o->show & ~(uint32_t)CT_SHOW_ALL)
        return ct_fail(error, CT_INVALID_ARGUMENT, "show", "snapshot: show is 0x%x, expected some of 0x%x", o->show,
                       CT_SHOW_ALL);
    if (o->resolution > CT_MAX_RESOLUTION)
        return ct_fail(error, CT_OUT_OF_RANGE, "resolution", "snapshot: resolution %u, expected at most %d",
                       o->resolution, CT_MAX_RESOLUTION);
    if (!(ct_length(o->up[0], o->up[1], o->up[2]) > 1e-30))
        return ct_fail(error, CT_INVALID_ARGUMENT, "up", "snapshot: up is 0 0 0, expected a direction");
    if (o->has_eye && o->has_target && o->eye[0] == o->target[0] && o->eye[1] == o->target[1] &&
        o->eye[2] == o->target[2])
        return ct_fail(error, CT_INVALID_ARGUMENT, "eye", "snapshot: eye and target are the same point");
    if (!o->contact[0] != !o->contact[1] || (o->contact[0] && o->contact[0] == o->contact[1]))
        return ct_fail(error, CT_INVALID_ARGUMENT, "contact", "snapshot: contact names bodies %u and %u, expected two",
                       o->contact[0], o->contact[1]);
    return CT_OK;
}
