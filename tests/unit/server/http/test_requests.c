/* Units of server/http/requests.h: every JSON body, taken and refused by the name of its field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/requests.h"

static void takes_a_mesh(void **state) {
    (void)state;
    static const char text[] = "{\"name\":\"t\xc3\xa9t\",\"vertices\":[[0,0,0],[1,0,0],[0,1,0],[0,0,1e-3]],"
                               "\"triangles\":[[0,2,1],[0,1,3],[0,3,2],[1,2,3]]}";
    problem p = {0};
    mesh_request mesh;
    assert_true(request_mesh(text, sizeof text - 1, &mesh, &p));
    assert_string_equal(mesh.name, "t\xc3\xa9t");
    assert_int_equal(mesh.n_vertices, 4);
    assert_int_equal(mesh.n_triangles, 4);
    assert_true(mesh.positions[11] == 1e-3);
    assert_int_equal(mesh.triangles[11], 3);
    request_mesh_free(&mesh);
}

static void takes_a_scene(void **state) {
    (void)state;
    problem p = {0};
    scene_request scene;
    static const char all[] =
        "{\"name\":\"s\",\"method\":\"ldi\",\"resolution\":[16,32,4096],\"pixel_size\":0,"
        "\"stiffness\":2.5,\"patches\":true,\"cell_size\":0.5,\"margin\":0.25,\"max_step_time\":1.5}";
    assert_true(request_scene(all, sizeof all - 1, &scene, &p));
    assert_true((scene.settings.given & CT_GIVEN(CT_SETTING_METHOD)) &&
                (scene.settings.given & CT_GIVEN(CT_SETTING_RESOLUTION)) &&
                (scene.settings.given & CT_GIVEN(CT_SETTING_PIXEL_SIZE)) &&
                (scene.settings.given & CT_GIVEN(CT_SETTING_STIFFNESS)) &&
                (scene.settings.given & CT_GIVEN(CT_SETTING_PATCHES)) && scene.settings.to.patches);
    assert_true(scene.settings.to.resolution[0] == 16 && scene.settings.to.resolution[2] == 4096);
    assert_true((scene.settings.given & CT_GIVEN(CT_SETTING_CELL_SIZE)) && scene.settings.to.cell_size == 0.5);
    assert_true((scene.settings.given & CT_GIVEN(CT_SETTING_MARGIN)) && scene.settings.to.margin == 0.25);
    assert_true((scene.settings.given & CT_GIVEN(CT_SETTING_MAX_STEP_TIME)) && scene.settings.to.max_step_time == 1.5);
    assert_true(scene.settings.to.pixel_size == 0 && scene.settings.to.stiffness == 2.5);
    assert_true(scene.settings.to.method == CT_METHOD_LDI);
    assert_true(request_scene("{\"method\":\"auto\"}", 17, &scene, &p));
    assert_true(scene.settings.to.method == CT_METHOD_AUTO &&
                !(scene.settings.given & CT_GIVEN(CT_SETTING_RESOLUTION)));
    assert_true(request_scene("{}", 2, &scene, &p));
    assert_false((scene.settings.given & CT_GIVEN(CT_SETTING_METHOD)) ||
                 (scene.settings.given & CT_GIVEN(CT_SETTING_RESOLUTION)) ||
                 (scene.settings.given & CT_GIVEN(CT_SETTING_PIXEL_SIZE)) ||
                 (scene.settings.given & CT_GIVEN(CT_SETTING_STIFFNESS)) ||
                 (scene.settings.given & CT_GIVEN(CT_SETTING_PATCHES)) ||
                 (scene.settings.given & CT_GIVEN(CT_SETTING_CELL_SIZE)) ||
                 (scene.settings.given & CT_GIVEN(CT_SETTING_MARGIN)));
    static const char bounded[] = "{\"method\":\"ebpi\",\"tolerance\":1e-6,\"tolerance_rel\":0.5,\"strict\":true,"
                                  "\"optimize_directions\":true,\"allocation\":\"per_pixel\","
                                  "\"ray_budget\":1000}";
    assert_true(request_scene(bounded, sizeof bounded - 1, &scene, &p));
    assert_true(scene.settings.to.method == CT_METHOD_EBPI && (scene.settings.given & CT_GIVEN(CT_SETTING_TOLERANCE)) &&
                (scene.settings.given & CT_GIVEN(CT_SETTING_TOLERANCE_REL)) &&
                (scene.settings.given & CT_GIVEN(CT_SETTING_STRICT)) &&
                (scene.settings.given & CT_GIVEN(CT_SETTING_RAY_BUDGET)));
    assert_true(scene.settings.to.tolerance == 1e-6 && scene.settings.to.tolerance_rel == 0.5 &&
                scene.settings.to.strict && (scene.settings.given & CT_GIVEN(CT_SETTING_OPTIMIZE_DIRECTIONS)) &&
                scene.settings.to.optimize_directions && (scene.settings.given & CT_GIVEN(CT_SETTING_ALLOCATION)) &&
                scene.settings.to.allocation == CT_ALLOCATION_PER_PIXEL && scene.settings.to.ray_budget == 1000);
    ct_settings_change patch;
    assert_true(request_settings("{\"strict\":false}", 16, &patch, &p));
    assert_true((patch.given & CT_GIVEN(CT_SETTING_STRICT)) && !patch.to.strict &&
                !(patch.given & CT_GIVEN(CT_SETTING_TOLERANCE)) && !(patch.given & CT_GIVEN(CT_SETTING_RAY_BUDGET)));
    assert_true(request_settings("{\"resolution\":128}", 18, &patch, &p));
    assert_true(patch.to.resolution[0] == 128 && patch.to.resolution[1] == 128 && patch.to.resolution[2] == 128);
}

static void takes_a_body(void **state) {
    (void)state;
    problem p = {0};
    body_request body;
    static const char plain[] = "{\"mesh\":17}";
    assert_true(request_body(plain, sizeof plain - 1, &body, &p));
    assert_true(body.mesh == 17 && body.options.kind == CT_BODY_DEFORMABLE && body.options.n_ignore == 0);
    assert_true(body.options.group == 1 && body.options.mask == UINT32_MAX);
    request_body_free(&body);
    static const char rigid[] = "{\"mesh\":\"0badcafe\",\"pose\":[1,0,0,0,0,1,0,0,0,0,1,5],\"group\":0,\"mask\":6,"
                                "\"ignore\":[3,4]}";
    assert_true(request_body(rigid, sizeof rigid - 1, &body, &p));
    assert_true(body.mesh == 0 && body.options.kind == CT_BODY_RIGID && body.options.pose[11] == 5);
    assert_string_equal(body.mesh_hash, "0badcafe");
    assert_true(body.options.group == 0 && body.options.mask == 6);
    assert_true(body.options.n_ignore == 2 && body.options.ignore[1] == 4);
    request_body_free(&body);
}

static void takes_a_step(void **state) {
    (void)state;
    problem p = {0};
    step_request step;
    assert_true(request_step("{}", 2, &step, &p));
    assert_true(step.want == CT_WANT_FRAME && step.n_updates == 0 && step.deadline_us == 0);
    assert_true(step.time_budget_us == 0 && step.tolerance == 0);
    request_step_free(&step);
    static const char text[] = "{\"want\":[\"gradient\",\"spans\"],\"deadline_us\":500,\"time_budget_us\":2500,"
                               "\"tolerance\":1e-9,\"updates\":["
                               "{\"body\":1,\"positions\":[[1,2,3],[4,5,6]]},"
                               "{\"body\":2,\"positions\":[[1,2,3],[4,5,6]],\"ranges\":[[0,1],[7,1]]},"
                               "{\"body\":3,\"positions\":[[1,2,3]],\"indices\":[9]},"
                               "{\"body\":4,\"pose\":[[1,0,0,2],[0,1,0,3],[0,0,1,4]]}]}";
    assert_true(request_step(text, sizeof text - 1, &step, &p));
    assert_true(step.want == (CT_WANT_GRADIENT | CT_WANT_SPANS) && step.deadline_us == 500 && step.n_updates == 4);
    assert_true(step.time_budget_us == 2500 && step.tolerance == 1e-9);
    static const ct_update_kind kinds[] = {CT_UPDATE_POSITIONS, CT_UPDATE_RANGES, CT_UPDATE_INDEXED, CT_UPDATE_POSE};
    for (uint32_t i = 0; i < 4; i++) assert_true(step.updates[i].kind == kinds[i] && step.updates[i].body == i + 1);
    assert_true(step.updates[0].count == 2 && step.updates[0].n_indices == 0 && step.updates[0].dtype == CT_F64);
    assert_true(step.updates[1].n_indices == 4 && ((const uint32_t *)step.updates[1].indices)[2] == 7);
    assert_true(step.updates[2].n_indices == 1 && step.updates[2].count == 1);
    assert_true(step.updates[3].pose[7] == 3);
    request_step_free(&step);
}

enum { MESH, SCENE, PATCH, BODY, STEP };

static problem refused(int kind, const char *text) {
    problem p = {0};
    mesh_request mesh;
    scene_request scene;
    ct_settings_change patch;
    body_request body;
    step_request step;
    size_t n = strlen(text);
    bool ok = kind == MESH    ? request_mesh(text, n, &mesh, &p)
              : kind == SCENE ? request_scene(text, n, &scene, &p)
              : kind == PATCH ? request_settings(text, n, &patch, &p)
              : kind == BODY  ? request_body(text, n, &body, &p)
                              : request_step(text, n, &step, &p);
    if (ok) fail_msg("taken: %s", text);
    return p;
}

static void refuses_by_name(void **state) {
    (void)state;
    static const struct {
        int kind;
        const char *text;
        contactd_code code;
        const char *field;
    } cases[] = {
        {MESH, "{\"triangles\":[]}", CONTACTD_INVALID_ARGUMENT, "vertices"},
        {MESH, "{\"vertices\":[]}", CONTACTD_INVALID_ARGUMENT, "triangles"},
        {MESH, "{\"vertices\":[[0,0]],\"triangles\":[]}", CONTACTD_WRONG_LENGTH, "vertices[0]"},
        {MESH, "{\"vertices\":[],\"triangles\":[[0,1,-1]]}", CONTACTD_INVALID_ARGUMENT, "triangles[0][2]"},
        {MESH, "{\"vertices\":[],\"triangles\":[],\"normals\":[]}", CONTACTD_INVALID_ARGUMENT, "normals"},
        {MESH, "{\"vertices\":[[0,0,1e999]],\"triangles\":[]}", CONTACTD_OUT_OF_RANGE, "vertices[0][2]"},
        {SCENE, "{\"resolutoin\":3}", CONTACTD_INVALID_ARGUMENT, "resolutoin"},
        {SCENE, "{\"resolution\":0}", CONTACTD_OUT_OF_RANGE, "resolution"},
        {SCENE, "{\"resolution\":-5}", CONTACTD_OUT_OF_RANGE, "resolution"},
        {SCENE, "{\"resolution\":1000000}", CONTACTD_OUT_OF_RANGE, "resolution"},
        {SCENE, "{\"resolution\":64.0}", CONTACTD_INVALID_ARGUMENT, "resolution"},
        {SCENE, "{\"resolution\":[64,64]}", CONTACTD_WRONG_LENGTH, "resolution"},
        {SCENE, "{\"resolution\":[64,64,4097]}", CONTACTD_OUT_OF_RANGE, "resolution[2]"},
        {SCENE, "{\"pixel_size\":-1}", CONTACTD_OUT_OF_RANGE, "pixel_size"},
        {SCENE, "{\"stiffness\":\"high\"}", CONTACTD_INVALID_ARGUMENT, "stiffness"},
        {SCENE, "{\"cell_size\":-1}", CONTACTD_OUT_OF_RANGE, "cell_size"},
        {SCENE, "{\"margin\":-1}", CONTACTD_OUT_OF_RANGE, "margin"},
        {SCENE, "{\"max_step_time\":0}", CONTACTD_OUT_OF_RANGE, "max_step_time"},
        {SCENE, "{\"max_step_time\":-1}", CONTACTD_OUT_OF_RANGE, "max_step_time"},
        {PATCH, "{\"max_step_time\":0.0}", CONTACTD_OUT_OF_RANGE, "max_step_time"},
        {SCENE, "{\"max_step_time\":1e999}", CONTACTD_OUT_OF_RANGE, "max_step_time"},
        {SCENE, "{\"max_step_time\":\"1\"}", CONTACTD_INVALID_ARGUMENT, "max_step_time"},
        {SCENE, "{\"patches\":1}", CONTACTD_INVALID_ARGUMENT, "patches"},
        {SCENE, "{\"method\":\"fem\"}", CONTACTD_INVALID_ARGUMENT, "method"},
        {SCENE, "{\"name\":\"0123456789012345678901234567890123456789012345678901234567890123\"}",
         CONTACTD_OUT_OF_RANGE, "name"},
        {PATCH, "{\"name\":\"x\"}", CONTACTD_INVALID_ARGUMENT, "name"},
        {SCENE, "{\"tolerance\":-1}", CONTACTD_OUT_OF_RANGE, "tolerance"},
        {SCENE, "{\"tolerance_rel\":1.5}", CONTACTD_OUT_OF_RANGE, "tolerance_rel"},
        {SCENE, "{\"strict\":1}", CONTACTD_INVALID_ARGUMENT, "strict"},
        {PATCH, "{\"ray_budget\":-1}", CONTACTD_OUT_OF_RANGE, "ray_budget"},
        {PATCH, "{\"ray_budget\":1e3}", CONTACTD_INVALID_ARGUMENT, "ray_budget"},
        {BODY, "{}", CONTACTD_INVALID_ARGUMENT, "mesh"},
        {BODY, "{\"mesh\":0}", CONTACTD_OUT_OF_RANGE, "mesh"},
        {BODY, "{\"mesh\":\"bunny\"}", CONTACTD_INVALID_ARGUMENT, "mesh"},
        {BODY, "{\"mesh\":\"0badca\"}", CONTACTD_INVALID_ARGUMENT, "mesh"},
        {BODY, "{\"mesh\":1,\"kind\":\"soft\"}", CONTACTD_INVALID_ARGUMENT, "kind"},
        {BODY, "{\"mesh\":1,\"kind\":\"deformable\",\"pose\":[1,0,0,0,0,1,0,0,0,0,1,5]}", CONTACTD_INVALID_ARGUMENT,
         "pose"},
        {BODY, "{\"mesh\":1,\"group\":4294967296}", CONTACTD_OUT_OF_RANGE, "group"},
        {BODY, "{\"mesh\":1,\"ignore\":[1,\"2\"]}", CONTACTD_INVALID_ARGUMENT, "ignore[1]"},
        {STEP, "{\"updates\":{}}", CONTACTD_INVALID_ARGUMENT, "updates"},
        {STEP, "{\"updates\":[7]}", CONTACTD_INVALID_ARGUMENT, "updates[0]"},
        {STEP, "{\"updates\":[{\"positions\":[]}]}", CONTACTD_INVALID_ARGUMENT, "updates[0].body"},
        {STEP, "{\"updates\":[{\"body\":1}]}", CONTACTD_INVALID_ARGUMENT, "updates[0]"},
        {STEP, "{\"updates\":[{\"body\":1,\"positions\":[[0,0,0],[0,0,\"x\"]]}]}", CONTACTD_INVALID_ARGUMENT,
         "updates[0].positions[1][2]"},
        {STEP, "{\"updates\":[{\"body\":1,\"positions\":[],\"ranges\":[],\"indices\":[]}]}", CONTACTD_INVALID_ARGUMENT,
         "updates[0].indices"},
        {STEP, "{\"updates\":[{\"body\":1,\"positions\":[],\"pose\":[1,0,0,0,0,1,0,0,0,0,1,5]}]}",
         CONTACTD_INVALID_ARGUMENT, "updates[0]"},
        {STEP, "{\"updates\":[{\"body\":1,\"indices\":[0],\"pose\":[1,0,0,0,0,1,0,0,0,0,1,5]}]}",
         CONTACTD_INVALID_ARGUMENT, "updates[0].indices"},
        {STEP, "{\"updates\":[{\"body\":1,\"speed\":3}]}", CONTACTD_INVALID_ARGUMENT, "updates[0].speed"},
        {STEP, "{\"want\":\"all\"}", CONTACTD_INVALID_ARGUMENT, "want"},
        {STEP, "{\"want\":[\"frame\",\"al\\u006c\"]}", CONTACTD_INVALID_ARGUMENT, "want[1]"},
        {STEP, "{\"deadline_us\":-1}", CONTACTD_OUT_OF_RANGE, "deadline_us"},
        {STEP, "{\"time_budget_us\":-1}", CONTACTD_OUT_OF_RANGE, "time_budget_us"},
        {STEP, "{\"time_budget_us\":0}", CONTACTD_OUT_OF_RANGE, "time_budget_us"},
        {STEP, "{\"time_budget_us\":0.5}", CONTACTD_INVALID_ARGUMENT, "time_budget_us"},
        {STEP, "{\"tolerance\":-1e-9}", CONTACTD_OUT_OF_RANGE, "tolerance"},
        {STEP, "{\"tolerance\":\"small\"}", CONTACTD_INVALID_ARGUMENT, "tolerance"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        problem p = refused(cases[i].kind, cases[i].text);
        if (p.code != cases[i].code || strcmp(p.field, cases[i].field) != 0 || !p.detail[0])
            fail_msg("%s: code %d, field \"%s\": %s", cases[i].text, p.code, p.field, p.detail);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_a_mesh), cmocka_unit_test(takes_a_scene),   cmocka_unit_test(takes_a_body),
        cmocka_unit_test(takes_a_step), cmocka_unit_test(refuses_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
