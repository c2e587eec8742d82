/* test_real_meshes.c - scanned and designed meshes against independently computed counts, volumes and areas. The meshes
 * are in ../shared/meshes or $CONTACTD_MESHES; without them the tests are skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/include/contact.h"

static const char *folder(void) {
    const char *set = getenv("CONTACTD_MESHES");
    return set && *set ? set : "../shared/meshes";
}

static void *load(const char *name, size_t *size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder(), name);
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("meshes.json: no number %s", key);
    return json_number_value(value);
}

static void test_against_the_list(void **state) {
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s/meshes.json", folder());
    json_error_t error;
    json_t *list = json_load_file(path, 0, &error);
    if (!list) {
        print_message("SKIPPED: %s is not there; set CONTACTD_MESHES\n", path);
        skip();
    }
    const char *name;
    json_t *expected;
    int read = 0;
    json_object_foreach(list, name, expected) {
        size_t size;
        void *bytes = load(json_string_value(json_object_get(expected, "file")), &size);
        if (!bytes) {
            print_message("%s: no file, passed over\n", name);
            continue;
        }
        ct_mesh *mesh;
        ct_error refusal = {0};
        ct_mesh_info info;
        if (ct_mesh_read(bytes, size, CT_FORMAT_AUTO, NULL, &mesh, &refusal) != CT_OK)
            fail_msg("%s: %s", name, refusal.message);
        ct_mesh_get_info(mesh, &info);
        assert_int_equal(info.vertices, (uint64_t)number(expected, "verts"));
        assert_int_equal(info.triangles, (uint64_t)number(expected, "tris"));
        assert_int_equal(info.components, (uint64_t)number(expected, "components"));
        assert_float_equal(info.volume, number(expected, "volume"), 1e-11 * info.volume);
        assert_float_equal(info.area, number(expected, "area"), 1e-11 * info.area);
        for (size_t k = 0; k < 3; k++) {
            assert_true(info.lo[k] == json_number_value(json_array_get(json_object_get(expected, "bboxMin"), k)));
            assert_true(info.hi[k] == json_number_value(json_array_get(json_object_get(expected, "bboxMax"), k)));
        }
        assert_true(info.bytes <= 25 * info.triangles + 512);
        ct_mesh_release(&mesh);
        free(bytes);
        read++;
    }
    json_decref(list);
    print_message("%d meshes read\n", read);
    assert_true(read > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_the_list)};
    return cmocka_run_group_tests_name("real meshes", tests, NULL, NULL);
}
