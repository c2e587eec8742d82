// overlap.cpp - the same as overlap.c with C++'s owners: what was made is freed on every way out.
//
//     c++ -std=c++17 overlap.cpp $(pkg-config --cflags --libs contact) -o overlap
#include <contact/contact.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

void check(ct_status status, const ct_error &error) {
    if (status != CT_OK) throw std::runtime_error(std::string(ct_status_name(status)) + ": " + error.message);
}

// An object of the engine that frees itself.
template <class T, void (*free)(T **)> struct Free {
    void operator()(T *object) const {
        free(&object);
    }
};
using Engine = std::unique_ptr<ct_engine, Free<ct_engine, ct_engine_destroy>>;
using Mesh = std::unique_ptr<ct_mesh, Free<ct_mesh, ct_mesh_release>>;
using Scene = std::unique_ptr<ct_scene, Free<ct_scene, ct_scene_destroy>>;
using Result = std::unique_ptr<ct_result, Free<ct_result, ct_result_free>>;

Engine make_engine() {
    ct_engine_options options;
    ct_error error = {};
    ct_engine *engine = nullptr;
    ct_engine_options_init(&options);
    check(ct_engine_create(&options, &engine, &error), error);
    return Engine(engine);
}

Mesh make_box() {
    const float corners[8][3] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0},
                                 {0, 0, 1}, {1, 0, 1}, {1, 1, 1}, {0, 1, 1}};
    const uint32_t triangles[12][3] = {{0, 2, 1}, {0, 3, 2}, {4, 5, 6}, {4, 6, 7}, {0, 1, 5}, {0, 5, 4},
                                       {1, 2, 6}, {1, 6, 5}, {2, 3, 7}, {2, 7, 6}, {3, 0, 4}, {3, 4, 7}};
    ct_error error = {};
    ct_mesh *mesh = nullptr;
    check(ct_mesh_create(corners, CT_F32, 8, triangles, 12, nullptr, &mesh, &error), error);
    return Mesh(mesh);
}

Scene make_scene(ct_engine *engine) {
    ct_scene_settings settings;
    ct_error error = {};
    ct_scene *scene = nullptr;
    ct_scene_settings_init(&settings);
    settings.method = CT_METHOD_EXACT;
    check(ct_scene_create(engine, &settings, &scene, &error), error);
    return Scene(scene);
}

uint32_t add_rigid(ct_scene *scene, ct_mesh *mesh) {
    ct_body_options options;
    ct_error error = {};
    uint32_t body = 0;
    ct_body_options_init(&options);
    options.kind = CT_BODY_RIGID;
    check(ct_scene_add_body(scene, mesh, &options, &body, &error), error);
    return body;
}

Result step(ct_engine *engine, ct_scene *scene, uint32_t body, const std::array<double, 12> &pose) {
    ct_update move = {};
    move.body = body;
    move.kind = CT_UPDATE_POSE;
    std::copy(pose.begin(), pose.end(), move.pose);
    ct_step step = {};
    step.scene = scene;
    step.updates = &move;
    step.n_updates = 1;
    step.want = CT_WANT_FRAME | CT_WANT_GRADIENT;
    ct_engine_run(engine, &step, 1);
    check(step.error.status, step.error);
    return Result(step.result);
}

} // namespace

int main() try {
    const Engine engine = make_engine();
    const Mesh box = make_box();
    const Scene scene = make_scene(engine.get());
    add_rigid(scene.get(), box.get());
    const uint32_t moving = add_rigid(scene.get(), box.get());
    for (int i = 0; i < 3; i++) {
        const Result result =
            step(engine.get(), scene.get(), moving, {1, 0, 0, 0.25 * (i + 1), 0, 1, 0, 0.5, 0, 0, 1, 0.75});
        const ct_contact &contact = result->contacts[0];
        std::printf("volume %.17g m^3, within %.1g; force on the second body along %.3f %.3f %.3f\n", contact.volume,
                    contact.error_bound, -contact.normal[0], -contact.normal[1], -contact.normal[2]);
    }
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
