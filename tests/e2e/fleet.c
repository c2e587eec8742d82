/* fleet.c - a program for test_fleet.py: scenes of a fleet whose every step depends on all before, three in flight
 * each.
 *
 *     fleet ADDRESSES PLACEMENT CONNECTIONS SCENES STEPS PAUSE...
 *
 * Before each step named PAUSE, and at the end, it prints the servers and takes orders: "look", "list", "close" (all
 * scenes), "remove" (all meshes), "go". It prints each step's volume exactly. Any error ends it with status 1 and the
 * error's code, object, field and message. */
#include <contactd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 3, MAX_SCENES = 64 };

static const float box[24] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1, 1, 1};
static const uint32_t faces[36] = {0, 2, 3, 0, 3, 1, 4, 5, 7, 4, 7, 6, 0, 1, 5, 0, 5, 4,
                                   2, 6, 7, 2, 7, 3, 0, 4, 6, 0, 6, 2, 1, 3, 7, 1, 7, 5};
static const double wedge[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
static const uint32_t sides[12] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3};

typedef struct load {
    contactd_client *client;
    contactd_scene scene;
    contactd_body soft, rigid;
    contactd_ticket tickets[DEPTH];
} load;

typedef struct run {
    contactd_fleet *fleet;
    contactd_fleet_mesh meshes[2];
    load loads[MAX_SCENES];
    int scenes;
} run;

static void check(contactd_code code, const contactd_error *e) {
    if (!code) return;
    printf("error %s | %s | %s | %s\n", contactd_code_name(code), e->object, e->field, e->message);
    exit(1);
}

static void list(contactd_fleet *fleet) {
    const contactd_fleet_server *servers;
    size_t n;
    check(contactd_fleet_list_servers(fleet, &servers, &n), contactd_fleet_last_error(fleet));
    for (size_t i = 0; i < n; i++)
        printf("server %s %d %u %u\n", servers[i].address, servers[i].is_up, servers[i].connections, servers[i].scenes);
    printf("listed\n");
    fflush(stdout);
}

static contactd_code close_all(run *r) {
    for (int i = 0; i < r->scenes; i++)
        check(contactd_close_scene(r->loads[i].client, r->loads[i].scene), contactd_last_error(r->loads[i].client));
    r->scenes = 0;
    return CONTACTD_OK;
}

static contactd_code remove_all(run *r) {
    contactd_code code = contactd_fleet_remove_mesh(r->fleet, r->meshes[0]);
    return code ? code : contactd_fleet_remove_mesh(r->fleet, r->meshes[1]);
}

static void take_orders(run *r) {
    char order[16];
    printf("pause\n");
    list(r->fleet);
    while (scanf("%15s", order) == 1 && strcmp(order, "go") != 0) {
        uint32_t moved = 0;
        contactd_code code = strcmp(order, "look") == 0     ? contactd_fleet_look(r->fleet, &moved)
                             : strcmp(order, "close") == 0  ? close_all(r)
                             : strcmp(order, "remove") == 0 ? remove_all(r)
                                                            : CONTACTD_OK;
        printf("moved %u %s %s\n", moved, contactd_code_name(code), contactd_fleet_last_error(r->fleet)->message);
        list(r->fleet);
    }
}

static void wait_for(load *l, int scene, int step) {
    const contactd_result *result;
    check(contactd_step_wait(l->client, l->tickets[step % DEPTH], &result), contactd_last_error(l->client));
    double volume = 0;
    for (uint32_t i = 0; i < result->n_contacts; i++) volume += result->contacts[i].volume;
    printf("step %d %d %a\n", scene, step, volume);
}

static void submit(load *l, int scene, int step) {
    const int k = (step * 5 + scene) % 8;
    const uint32_t vertex = (uint32_t)k;
    const double at = 0.3 + 0.01 * ((step + scene) % 9), pose[12] = {1, 0, 0, at, 0, 1, 0, at, 0, 0, 1, at};
    float moved[3];
    for (int c = 0; c < 3; c++) moved[c] = box[3 * k + c] * (1 + 0.01f * (float)((step * 7 + scene * 3 + c) % 11));
    contactd_update updates[2] = {
        {.body = l->soft, .kind = CONTACTD_INDEXED, .positions = moved, .count = 1, .indices = &vertex, .n_indices = 1},
        contactd_move(l->rigid, pose)};
    check(contactd_step_submit(l->client, l->scene, updates, step % 4 ? 1 : 2, NULL, &l->tickets[step % DEPTH]),
          contactd_last_error(l->client));
}

static void open_load(run *r, int number) {
    char name[16];
    contactd_mesh soft, hard;
    contactd_body_options rigid;
    load *l = &r->loads[number];
    contactd_body_options_init(&rigid);
    rigid.rigid = true;
    snprintf(name, sizeof name, "s%d", number);
    check(contactd_fleet_open_scene(r->fleet, name, NULL, &l->client, &l->scene), contactd_fleet_last_error(r->fleet));
    check(contactd_fleet_get_mesh(r->fleet, r->meshes[0], l->client, &soft), contactd_fleet_last_error(r->fleet));
    check(contactd_fleet_get_mesh(r->fleet, r->meshes[1], l->client, &hard), contactd_fleet_last_error(r->fleet));
    check(contactd_add_body(l->client, l->scene, soft, NULL, &l->soft), contactd_last_error(l->client));
    check(contactd_add_body(l->client, l->scene, hard, &rigid, &l->rigid), contactd_last_error(l->client));
}

int main(int argc, char **argv) {
    static run r;
    contactd_fleet_options options;
    contactd_error error;
    if (argc < 6) return 2;
    contactd_fleet_options_init(&options);
    options.client.server = argv[1];
    options.client.timeout_ms = (uint32_t)atoi(getenv("FLEET_TIMEOUT_MS"));
    options.probe_ms = (uint32_t)atoi(getenv("FLEET_PROBE_MS"));
    options.placement = (contactd_placement)atoi(argv[2]);
    options.connections = (uint32_t)atoi(argv[3]);
    const int steps = atoi(argv[5]);
    r.scenes = atoi(argv[4]);
    check(contactd_fleet_open(&options, &r.fleet, &error), &error);
    check(contactd_fleet_register_mesh(r.fleet, "box", box, 8, faces, 12, NULL, &r.meshes[0]),
          contactd_fleet_last_error(r.fleet));
    check(contactd_fleet_register_mesh_f64(r.fleet, "wedge", wedge, 4, sides, 4, NULL, &r.meshes[1]),
          contactd_fleet_last_error(r.fleet));
    for (int i = 0; i < r.scenes; i++) open_load(&r, i);
    for (int step = 0; step < steps; step++) {
        for (int p = 6; p < argc; p++)
            if (atoi(argv[p]) == step) take_orders(&r);
        for (int i = 0; i < r.scenes; i++) {
            if (step >= DEPTH) wait_for(&r.loads[i], i, step - DEPTH);
            submit(&r.loads[i], i, step);
        }
    }
    for (int step = steps > DEPTH ? steps - DEPTH : 0; step < steps; step++)
        for (int i = 0; i < r.scenes; i++) wait_for(&r.loads[i], i, step);
    take_orders(&r);
    contactd_fleet_close(&r.fleet);
    return 0;
}
