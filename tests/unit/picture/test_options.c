/* test_options.c - the bounds of every snapshot option, and the error of each. */
#include <math.h>
#include <string.h>

#include "gpu/picture/picture.h"
#include "tests/unit/unit.h"

static void defaults_are_valid(void **state) {
    (void)state;
    ct_snapshot_options o;
    ct_error error = {0};
    ct_snapshot_options_init(&o);
    assert_int_equal(ct_snapshot_options_check(&o, &error), CT_OK);
    assert_int_equal(error.status, CT_OK);
    o.cookie = 0;
    assert_int_equal(ct_snapshot_options_check(&o, &error), CT_INVALID_ARGUMENT);
    assert_string_equal(error.field, "options");
    assert_int_equal(ct_snapshot_options_check(&o, NULL), CT_INVALID_ARGUMENT);
}

#define REFUSED(field_, status, change)                                                                                \
    do {                                                                                                               \
        ct_snapshot_options o;                                                                                         \
        ct_error error = {0};                                                                                          \
        ct_snapshot_options_init(&o);                                                                                  \
        change;                                                                                                        \
        assert_int_equal(ct_snapshot_options_check(&o, &error), status);                                               \
        assert_string_equal(error.field, field_);                                                                      \
        assert_true(strstr(error.message, field_) && strlen(error.message) > 20);                                      \
    } while (0)
#define TAKEN(change)                                                                                                  \
    do {                                                                                                               \
        ct_snapshot_options o;                                                                                         \
        ct_snapshot_options_init(&o);                                                                                  \
        change;                                                                                                        \
        assert_int_equal(ct_snapshot_options_check(&o, NULL), CT_OK);                                                  \
    } while (0)

static void bounds(void **state) {
    (void)state;
    TAKEN(o.width = 16; o.height = 4096);
    REFUSED("width", CT_OUT_OF_RANGE, o.width = 15);
    REFUSED("height", CT_OUT_OF_RANGE, o.height = 4097);
    REFUSED("width", CT_OUT_OF_RANGE, o.width = UINT32_MAX);
    TAKEN(o.azimuth = -3600; o.elevation = 90);
    REFUSED("azimuth", CT_NON_FINITE, o.azimuth = NAN);
    REFUSED("azimuth", CT_OUT_OF_RANGE, o.azimuth = 1e9);
    REFUSED("elevation", CT_OUT_OF_RANGE, o.elevation = -90.5);
    REFUSED("up", CT_INVALID_ARGUMENT, o.up[2] = 0);
    REFUSED("up", CT_NON_FINITE, o.up[0] = INFINITY);
    REFUSED("zoom", CT_OUT_OF_RANGE, o.zoom = 0);
    REFUSED("zoom", CT_NON_FINITE, o.zoom = -NAN);
    REFUSED("field_of_view", CT_OUT_OF_RANGE, o.field_of_view = 151);
    TAKEN(o.opacity = 0);
    REFUSED("opacity", CT_OUT_OF_RANGE, o.opacity = 1.01);
    REFUSED("background", CT_OUT_OF_RANGE, o.background[3] = -0.1);
    TAKEN(o.resolution = CT_MAX_RESOLUTION);
    REFUSED("resolution", CT_OUT_OF_RANGE, o.resolution = CT_MAX_RESOLUTION + 1);
    REFUSED("show", CT_INVALID_ARGUMENT, o.show = 0);
    TAKEN(o.show = CT_SHOW_ALL);
    REFUSED("show", CT_INVALID_ARGUMENT, o.show = CT_SHOW_ALL + 1);
}

static void eye_target_and_contact(void **state) {
    (void)state;
    TAKEN(o.eye[0] = NAN); /* not given */
    REFUSED("eye", CT_NON_FINITE, (o.has_eye = true, o.eye[1] = NAN));
    REFUSED("target", CT_OUT_OF_RANGE, (o.has_target = true, o.target[2] = 1e31));
    REFUSED("eye", CT_INVALID_ARGUMENT, o.has_eye = o.has_target = true);
    TAKEN(o.has_eye = true);
    TAKEN(o.contact[0] = 2; o.contact[1] = 1);
    REFUSED("contact", CT_INVALID_ARGUMENT, o.contact[0] = 1);
    REFUSED("contact", CT_INVALID_ARGUMENT, o.contact[1] = 1);
    REFUSED("contact", CT_INVALID_ARGUMENT, o.contact[0] = o.contact[1] = 7);
}

/* Every word names bits of its own, but "rays", which is those of three others; together they name all. */
static void words(void **state) {
    (void)state;
    uint32_t all = 0, n = 0;
    for (const char *at = CT_SHOW_WORDS; *at; n++) {
        const size_t length = strcspn(at, ",");
        const uint32_t bits = ct_show_find(at, length);
        if (length == 4 && !memcmp(at, "rays", 4))
            assert_int_equal(bits, CT_SHOW_RAYS);
        else
            assert_true(bits && !(bits & all));
        if (bits != CT_SHOW_RAYS) all |= bits;
        at += length + (at[length] == ',');
    }
    assert_int_equal(all, CT_SHOW_ALL);
    assert_true(n >= 5);
    assert_int_equal(ct_show_find("contact", 7), 0);
    assert_int_equal(ct_show_find("contactsx", 9), 0);
    assert_int_equal(ct_show_find("", 0), 0);
    char text[96];
    assert_string_equal(ct_show_names(CT_SHOW_GRADIENTS | CT_SHOW_BODIES, text, sizeof text), "bodies,gradients");
    assert_string_equal(ct_show_names(CT_SHOW_RAYS | CT_SHOW_AXES, text, sizeof text), "axes,rays");
    assert_string_equal(ct_show_names(CT_SHOW_RAYS_X | CT_SHOW_RAYS_Z, text, sizeof text), "rays_x,rays_z");
    assert_string_equal(ct_show_names(0, text, sizeof text), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(defaults_are_valid), cmocka_unit_test(bounds),
                                       cmocka_unit_test(words), cmocka_unit_test(eye_target_and_contact)};
    return cmocka_run_group_tests_name("snapshot options", tests, NULL, NULL);
}
