// client.cpp SERVER - contactd.hpp against a real server; each check that fails is a line, and the exit code 1.
#include <cmath>
#include <contactd.hpp>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <vector>

static int failed;
#define CHECK(what) ((what) ? (void)0 : (void)(failed++, std::printf("line %d: %s\n", __LINE__, #what)))

// Handles are types: none converts to a number or to another, and owners are not copied.
static_assert(!std::is_convertible_v<contactd::Mesh, contactd::Body> &&
              !std::is_convertible_v<contactd::Body, uint32_t>);
static_assert(!std::is_convertible_v<uint32_t, contactd::Body> && !std::is_convertible_v<uint32_t, contactd::Mesh>);
static_assert(!std::is_copy_constructible_v<contactd::Scene> && !std::is_copy_constructible_v<contactd::Result>);
static_assert(std::is_nothrow_move_constructible_v<contactd::Scene> &&
              std::is_nothrow_move_assignable_v<contactd::Result>);

static const std::vector<double> box = {0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1};
static const std::vector<uint32_t> faces = {0, 2, 3, 0, 3, 1, 4, 5, 7, 4, 7, 6, 0, 1, 5, 0, 5, 4,
                                            2, 6, 7, 2, 7, 3, 0, 4, 6, 0, 6, 2, 1, 3, 7, 1, 7, 5};
static contactd::Pose shifted(double x) {
    return {1, 0, 0, x, 0, 1, 0, 0, 0, 0, 1, 0};
}
static bool is_near(double a, double b) {
    return std::abs(a - b) < 1e-6;
}

template <class Call> static std::string error_of(Call call) {
    try {
        call();
    } catch (const contactd::Error &error) {
        return error.what();
    }
    return "no error";
}
static bool tells(const std::string &text, const char *part) {
    const bool does = text.find(part) != std::string::npos;
    if (!does) std::printf("\"%s\" does not tell \"%s\"\n", text.c_str(), part);
    return does;
}

static void results_stay_and_outlive_their_client(const char *address) {
    std::vector<contactd::Result> kept;
    {
        contactd::Client client(address);
        contactd::Scene scene = client.open_scene();
        const contactd::Mesh mesh = client.register_mesh(box, faces);
        scene.add_body(mesh);
        const contactd::Body b = scene.add_body(mesh);
        for (int i = 0; i < 4; i++) kept.push_back(scene.step({b.at(shifted(0.2 * i + 0.1))}));
        CHECK(scene.info().bodies == 2 && mesh.info().triangles == 12);
        contactd::Scene moved = std::move(scene);
        CHECK(moved.handle() && !scene.handle());
        moved.close();
        CHECK(tells(error_of([&] { moved.info(); }), "scene"));
    }
    for (size_t i = 0; i < kept.size(); i++) {
        CHECK(kept[i].size() == 1 && is_near(kept[i][0].volume, 0.9 - 0.2 * static_cast<double>(i)));
        CHECK(is_near(kept[i].volumes()[0], kept[i][0].volume));
    }
    std::swap(kept[0], kept[3]);
    CHECK(is_near(kept[0][0].volume, 0.3));
}

static void columns_and_spans(const char *address) {
    contactd::Client client(address);
    contactd::Scene scene = client.open_scene();
    const contactd::Mesh mesh = client.register_mesh(box, faces);
    std::vector<contactd::Body> bodies;
    std::vector<contactd_update> updates;
    bodies.push_back(scene.add_body(mesh));
    const std::array<double, 12> origin = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
    for (const contactd::Body body : scene.add_bodies({&mesh}, {origin, origin})) bodies.push_back(body);
    for (const contactd::Body body : scene.add_bodies({&mesh, &mesh}, {origin, origin})) bodies.push_back(body);
    CHECK(scene.add_bodies({}, {}).empty() && bodies.size() == 5);
    CHECK(tells(error_of([&] { scene.add_bodies({&mesh, &mesh, &mesh}, {origin, origin}); }), "3 meshes for 2 bodies"));
    for (int i = 0; i < 5; i++) updates.push_back(bodies[static_cast<size_t>(i)].at(shifted(0.75 * i)));
    const contactd::Result result = scene.step(updates);
    CHECK(result.size() == 4 && result.volumes().size() == 4 && !result.empty());
    const auto volumes = result.volumes();
    CHECK(is_near(std::accumulate(volumes.begin(), volumes.end(), 0.0), 1.0));
    size_t i = 0;
    for (const contactd::Contact &c : result) {
        CHECK(result.body_pairs()[i][1] == c.bodies[1] && result.normals()[i][0] == c.normal[0]);
        CHECK(&result.generalized_gradients()[i][1][0] == &c.generalized_gradient[1][0]);
        i++;
    }
    CHECK(i == 4 && volumes.end() - volumes.begin() == 4 && volumes.c().stride == sizeof(contactd::Contact));
    CHECK(tells(error_of([&] { result.wrenches(); }), "NOT_FOUND: result: the step did not ask"));
    const contactd::Result none = scene.step({bodies[1].at(shifted(50)), bodies[3].at(shifted(70))});
    CHECK(none.empty() && none.wrenches().empty());
    contactd::StepOptions options;
    options.want = CONTACTD_WANT_INERTIA;
    const contactd::Result framed = scene.step(updates, options);
    CHECK(framed.inertias().size() == 4 && framed.normals().size() == 4);
    CHECK(framed.begin()->side_center[0][0] == result.begin()->side_center[0][0]);
    options.want = CONTACTD_WANT_GRADIENT;
    const contactd::Result other = scene.step(updates, options);
    CHECK(other.volumes().size() == 4 && tells(error_of([&] { other.normals(); }), "NOT_FOUND"));
}

static void steps_in_flight(const char *address) {
    contactd::Client client(address);
    std::vector<contactd::Scene> scenes;
    std::vector<contactd::Step> steps;
    for (int i = 0; i < 3; i++) scenes.push_back(client.open_scene());
    for (auto &scene : scenes) steps.push_back(scene.submit({}));
    CHECK(client.fd() >= 0);
    client.process();
    CHECK(client.wait_any() != 0);
    std::optional<contactd::Result> first;
    while (!first) first = steps[1].try_wait();
    CHECK(first->empty() && steps[0].wait().empty() && steps[2].wait().empty() && client.wait_any() == 0);
    CHECK(tells(error_of([&] { steps[0].wait(); }), "NOT_FOUND"));
}

static void many_scenes(const char *address) {
    std::vector<contactd::ManyResult> kept;
    {
        contactd::Client client(address);
        const contactd::Mesh mesh = client.register_mesh(box, faces);
        std::vector<contactd::Scene> scenes;
        contactd::Motion motion;
        for (int k = 0; k < 4; k++) {
            scenes.push_back(client.open_scene());
            scenes.back().add_body(mesh);
            motion.posed = {scenes.back().add_body(mesh)};
        }
        std::vector<contactd::Pose> poses;
        for (int k = 0; k < 4; k++) poses.push_back(shifted(0.2 * k + 0.1));
        motion.poses = poses;
        kept.push_back(client.step_many(scenes, motion));
        CHECK(kept[0].errors().empty() && kept[0].scene_indices()[2] == 2 && kept[0].offsets().size() == 5);
        CHECK(kept[0].body_pairs()[1][1] == motion.posed[0].handle() && kept[0].normals()[0][0] != 0);
        CHECK(tells(error_of([&] { kept[0].wrenches(); }), "NOT_FOUND: result: the step did not ask"));
        poses[1][0] = 3;
        CHECK(tells(error_of([&] { client.step_many(scenes, motion); }), "OUT_OF_RANGE"));
        motion.return_errors = true;
        CHECK(client.step_many(scenes, motion).errors()[0].scene == 1);
        scenes.erase(scenes.begin() + 1, scenes.end());
        for (contactd::Scene &copy : scenes[0].copies(3)) scenes.push_back(std::move(copy));
        client.reset(scenes);
        motion.posed.clear();
        motion.poses = {};
        const contactd::ManyResult copied = client.step_many(scenes, motion);
        CHECK(is_near(copied.volumes()[0], 1) &&
              is_near(copied.volumes()[3], 0.9)); /* where the first was when it was copied */
        motion.posed = {contactd::Body(2)};
        poses.pop_back();
        motion.poses = poses;
        CHECK(tells(error_of([&] { client.step_many(scenes, motion); }), "expected a pose for each body"));
        CHECK(client.step_many({}).empty());
    }
    kept.push_back(std::move(kept[0]));
    for (size_t k = 0; k < 4; k++) CHECK(is_near(kept[1].volumes()[k], 0.9 - 0.2 * static_cast<double>(k)));
}

static void errors_are_thrown(const char *address) {
    contactd::Options options(address);
    contactd::Client client(options);
    CHECK(client.ping_us() > 0);
    contactd::Client other(address);
    const contactd::Mesh mine = client.register_mesh(box, faces), theirs = other.register_mesh(box, faces);
    std::vector<contactd::Scene> scenes;
    scenes.push_back(other.open_scene());
    CHECK(mine.handle() == theirs.handle()); /* so that only the client tells them apart */
    CHECK(tells(error_of([&] { scenes[0].add_body(mine); }), "INVALID_ARGUMENT: mesh: mesh: it is another client's"));
    CHECK(tells(error_of([&] { scenes[0].add_bodies({&mine}, {shifted(0)}); }), "mesh: it is another client's"));
    CHECK(tells(error_of([&] { client.overlap(mine, theirs); }), "mesh: it is another client's"));
    CHECK(tells(error_of([&] { client.reset(scenes); }), "scene: it is another client's"));
    CHECK(tells(error_of([&] { client.step_many(scenes); }), "scene: it is another client's"));
    CHECK(tells(error_of([&] { client.load("/nowhere/at/all.stl"); }), "path"));
    CHECK(tells(error_of([&] { client.register_mesh(std::vector<float>(7), faces); }), "multiple of 3"));
    CHECK(tells(error_of([&] { client.register_mesh(box, std::vector<uint32_t>{0, 1, 2}); }), "INVALID_MESH"));
    contactd::Settings settings;
    settings.method = CT_METHOD_EXACT;
    settings.resolution[0] = settings.resolution[1] = settings.resolution[2] = 32;
    CHECK(tells(error_of([&] { client.open_scene(settings); }), "INVALID_ARGUMENT"));
    contactd::Mesh mesh = client.register_mesh(box, faces, "box");
    const contactd::Overlap overlap = client.overlap(mesh, shifted(0), mesh, shifted(0.75));
    CHECK(is_near(overlap.volume, 0.25) && is_near(client.overlap(mesh, mesh).volume, 1));
    contactd::Scene scene = client.open_scene();
    CHECK(scene.add_half_space({0, 0, 1}, 0.25));
    contactd_shape ball = {};
    ball.kind = CONTACTD_SPHERE;
    ball.size[0] = 0.5;
    const contactd::Body body = scene.add_shape(ball, contactd::Rigid(shifted(3)));
    CHECK(scene.step({}).size() == 1 && body != contactd::Body());
    try {
        scene.remove_body(contactd::Body(99));
        CHECK(!"an error");
    } catch (const contactd::Error &error) {
        CHECK(error.code() == CONTACTD_NOT_FOUND && std::strstr(error.object(), "body 99") && !error.may_retry());
    }
}

int main(int argc, char **argv) {
    const char *address = argv[argc - 1];
    results_stay_and_outlive_their_client(address);
    columns_and_spans(address);
    steps_in_flight(address);
    many_scenes(address);
    errors_are_thrown(address);
    std::puts(failed ? "failed" : "ok");
    return failed != 0;
}
