/* simple.cpp - simple.c in C++17: two meshes, a scene, two steps; prints volumes, and what both steps' columns say.
 *
 *     c++ -std=c++17 simple.cpp $(pkg-config --cflags --libs contactd) -o simple && ./simple tcp://127.0.0.1:5555
 */
#include <contactd.hpp>
#include <cstdio>
#include <vector>

static void run(const contactd::Options &options) {
    const std::vector<float> box = {0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1};
    const std::vector<uint32_t> faces = {0, 2, 3, 0, 3, 1, 4, 5, 7, 4, 7, 6, 0, 1, 5, 0, 5, 4,
                                         2, 6, 7, 2, 7, 3, 0, 4, 6, 0, 6, 2, 1, 3, 7, 1, 7, 5};
    contactd::Client client(options);
    const contactd::Mesh mesh = client.register_mesh(box, faces);
    contactd::Scene scene = client.open_scene();
    const contactd::Body a = scene.add_body(mesh), b = scene.add_body(mesh);

    const contactd::Result near =
        scene.step({a.at({1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}), b.at({1, 0, 0, 0.5, 0, 1, 0, 0, 0, 0, 1, 0})});
    const contactd::Result far = scene.step({b.at({1, 0, 0, 0.75, 0, 1, 0, 0, 0, 0, 1, 0})});

    for (const contactd::Result *result : {&near, &far}) /* both are here still */
        for (const contactd::Contact &c : *result)
            std::printf("volume %.9g m^3, normal %.3f %.3f %.3f\n", c.volume, c.normal[0], c.normal[1], c.normal[2]);
    const auto gradients = far.generalized_gradients(); /* of each contact, [2][6] */
    for (size_t i = 0; i < gradients.size(); i++)
        std::printf("moving body %u along x changes it by %.6g %s\n", far.body_pairs()[i][1], gradients[i][1][0],
                    gradients.c().unit);
}

int main(int argc, char **argv) {
    contactd::Options options;
    if (argc > 1) options.server = argv[1];
    try {
        run(options);
    } catch (const contactd::Error &error) {
        std::fprintf(stderr, "simple: %s\n", error.what());
        return 1;
    }
}
