/* test_results.c - results that the caller keeps stay as they were through later steps; columns are the contacts' fields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client_c/contactd.h"
#include "proto/contact_rows.h"
#include "tests/unit/client_c/fake_server.h"

static const float positions[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
static const uint32_t triangles[12] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};

static fake_server *server;
static contactd_client *client;
static contactd_scene scene;
static contactd_body bodies[2];

static int set_up(void **state) {
    (void)state;
    server = fake_start();
    contactd_options options;
    contactd_mesh mesh;
    contactd_options_init(&options);
    options.server = server->endpoint;
    options.timeout_ms = 60000;
    return contactd_connect(&options, &client, NULL) ||
           contactd_register_mesh(client, "tetra", positions, 4, triangles, 4, &mesh) ||
           contactd_open_scene(client, NULL, NULL, &scene) ||
           contactd_add_body(client, scene, mesh, NULL, &bodies[0]) ||
           contactd_add_body(client, scene, mesh, NULL, &bodies[1]);
}

static int tear_down(void **state) {
    (void)state;
    contactd_close(&client);
    fake_stop(server);
    return 0;
}

/* The fake server's volume is the sum of what the bodies' positions are. */
static const contactd_result *step_to(float x) {
    const float moved[12] = {x};
    const contactd_update update = contactd_deform(bodies[0], moved, 4);
    contactd_step_options options;
    const contactd_result *result;
    contactd_step_options_init(&options);
    options.want = CONTACTD_WANT_GRADIENT | CONTACTD_WANT_INERTIA;
    assert_int_equal(contactd_step(client, scene, &update, 1, &options, &result), CONTACTD_OK);
    return result;
}

static void refused(contactd_code code, const char *part) {
    assert_int_equal(code, CONTACTD_NOT_FOUND);
    assert_non_null(strstr(contactd_last_error(client)->message, part));
}

static void kept_results_stay(void **state) {
    (void)state;
    enum { N = 5 };
    const contactd_result *kept[N], *none = NULL;
    double volumes[N], gradients[N];
    for (int i = 0; i < N; i++) {
        kept[i] = step_to((float)i);
        assert_int_equal(contactd_result_keep(client, kept[i]), CONTACTD_OK);
        volumes[i] = kept[i]->contacts[0].volume;
        gradients[i] = kept[i]->contacts[0].sparse[1].gradient[2];
    }
    step_to(77);
    for (int i = 0; i < N; i++) {
        assert_true(kept[i]->contacts[0].volume == volumes[i] && (!i || volumes[i] != volumes[i - 1]));
        assert_true(kept[i]->contacts[0].sparse[1].gradient[2] == gradients[i]);
        assert_string_equal(kept[i]->backend, "fake");
    }
    /* In any order; the rest goes with the client. */
    for (int i = 1; i < N; i += 2) {
        const contactd_result *released = kept[i];
        assert_int_equal(contactd_result_release(client, &kept[i]), CONTACTD_OK);
        assert_null(kept[i]);
        refused(contactd_result_release(client, &released), "released already");
    }
    assert_int_equal(contactd_close_scene(client, scene), CONTACTD_OK);
    assert_true(kept[2]->contacts[0].volume == volumes[2]);
    assert_int_equal(contactd_result_release(client, &none), CONTACTD_OK);
}

static void only_the_last_result_is_kept_and_once(void **state) {
    (void)state;
    const contactd_result *last = step_to(1), other = {0}, *no_result = &other;
    refused(contactd_result_keep(client, &other), "last wait");
    refused(contactd_result_release(client, &no_result), "no such result");
    assert_int_equal(contactd_result_keep(client, last), CONTACTD_OK);
    refused(contactd_result_keep(client, last), "kept already");
    assert_int_equal(contactd_result_keep(client, NULL), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_result_release(client, NULL), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_result_keep(NULL, last), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_result_release(NULL, &last), CONTACTD_INVALID_ARGUMENT);
}

static const double *number_of(const contactd_column *column, size_t i) {
    return (const double *)(const void *)((const char *)column->data + i * column->stride);
}

static void columns_are_the_contacts_fields(void **state) {
    (void)state;
    const contactd_result *result = step_to(3);
    contactd_column column;
    assert_int_equal(result->n_contacts, 1);
    assert_int_equal(contactd_result_column(result, CONTACTD_COLUMN_VOLUME, &column), CONTACTD_OK);
    assert_true(*number_of(&column, 0) == result->contacts[0].volume && column.n == 1);
    assert_true(column.rows == 1 && column.columns == 1 && column.type == CONTACTD_TYPE_F64);
    assert_string_equal(column.name, "volume");
    assert_string_equal(column.unit, "m^3");
    assert_int_equal(contactd_result_column(result, CONTACTD_COLUMN_INERTIA, &column), CONTACTD_OK);
    assert_true(column.rows == 3 && column.columns == 3 && number_of(&column, 0)[5] == 5);
    assert_int_equal(contactd_result_column(result, CONTACTD_COLUMN_BODIES, &column), CONTACTD_OK);
    assert_true(column.type == CONTACTD_TYPE_U32 && column.columns == 2 && column.data == result->contacts[0].bodies);
    assert_int_equal(contactd_result_column(result, CONTACTD_COLUMN_ERROR_BOUNDS, &column), CONTACTD_OK);
    assert_true(number_of(&column, 0)[2] != number_of(&column, 0)[2]); /* NaN: this method has none */
}

/* Every row of the catalogue has a column where its group is given, and none where not. */
static void columns_follow_the_catalogue(void **state) {
    (void)state;
    contactd_result result = *step_to(3);
    contactd_column column;
    for (int k = 0; k < CT_CONTACT_ROWS; k++) {
        const ct_contact_row *row = &ct_contact_rows[k];
        result.groups = row->group;
        assert_int_equal(contactd_result_column(&result, (contactd_column_id)row->id, &column), CONTACTD_OK);
        assert_string_equal(column.name, row->name);
        assert_ptr_equal(column.data, (const char *)result.contacts + row->offset);
        const bool is_nan = row->group & (CT_CONTACT_BOUNDS | CT_CONTACT_INTERVAL);
        result.groups = ~row->group;
        assert_int_equal(contactd_result_column(&result, (contactd_column_id)row->id, &column),
                         row->group && !is_nan ? CONTACTD_NOT_FOUND : CONTACTD_OK);
        assert_true(!column.data == (row->group && !is_nan));
    }
    result.n_contacts = 0;
    assert_int_equal(contactd_result_column(&result, CONTACTD_COLUMN_WRENCH, &column), CONTACTD_OK);
    assert_true(!column.data && column.n == 0 && column.rows == 2 && column.columns == 6);
    assert_int_equal(contactd_result_column(&result, (contactd_column_id)9999, &column), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_result_column(&result, (contactd_column_id)-1, &column), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_result_column(NULL, CONTACTD_COLUMN_VOLUME, &column), CONTACTD_INVALID_ARGUMENT);
    assert_int_equal(contactd_result_column(&result, CONTACTD_COLUMN_VOLUME, NULL), CONTACTD_INVALID_ARGUMENT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(kept_results_stay),
        TEST(only_the_last_result_is_kept_and_once),
        TEST(columns_are_the_contacts_fields),
        TEST(columns_follow_the_catalogue),
    };
    return cmocka_run_group_tests_name("results", tests, NULL, NULL);
}
