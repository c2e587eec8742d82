/* many.c SERVER - contactd_step_many against contactd_step: in scenes that are moved alike, all columns have the same bits. */
#include <contactd.h>
#include <stdio.h>
#include <string.h>

#define ASK(call)                                                                                                      \
    do {                                                                                                               \
        if (call) {                                                                                                    \
            const contactd_error *e = contactd_last_error(client);                                                     \
            printf("line %d: %s %s: %s\n", __LINE__, e->object, e->field, e->message);                                 \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

enum { N = 7, BODIES = 3, VERTICES = 8 };
static const float box[VERTICES][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0},
                                       {0, 0, 1}, {1, 0, 1}, {0, 1, 1}, {1, 1, 1}};
static const uint32_t faces[12][3] = {{0, 2, 3}, {0, 3, 1}, {4, 5, 7}, {4, 7, 6}, {0, 1, 5}, {0, 5, 4},
                                      {2, 6, 7}, {2, 7, 3}, {0, 4, 6}, {0, 6, 2}, {1, 3, 7}, {1, 7, 5}};

static int build(contactd_client *client, contactd_mesh mesh, contactd_scene *scene, contactd_body bodies[BODIES]) {
    contactd_settings settings;
    contactd_body_options options;
    contactd_settings_init(&settings);
    contactd_body_options_init(&options);
    settings.law = CT_LAW_PRESSURE;
    options.material.modulus = 1e6;
    options.material.friction = 0.4;
    ASK(contactd_open_scene(client, NULL, &settings, scene));
    ASK(contactd_add_half_space(client, *scene, (const double[3]){0, 0, 1}, 0.25, &options, &bodies[0]));
    ASK(contactd_add_body(client, *scene, mesh, &options, &bodies[2]));
    options.rigid = true;
    ASK(contactd_add_body(client, *scene, mesh, &options, &bodies[1]));
    return 0;
}

static long compare(const contactd_many_result *many, size_t k, const contactd_result *single) {
    static const contactd_column_id ids[] = {
        CONTACTD_COLUMN_BODIES,      CONTACTD_COLUMN_INDEX,      CONTACTD_COLUMN_VOLUME,
        CONTACTD_COLUMN_VOLUMES,     CONTACTD_COLUMN_AREA,       CONTACTD_COLUMN_DEPTH,
        CONTACTD_COLUMN_NORMAL,      CONTACTD_COLUMN_TANGENTS,   CONTACTD_COLUMN_CENTER,
        CONTACTD_COLUMN_SIDE_CENTER, CONTACTD_COLUMN_INERTIA,    CONTACTD_COLUMN_GENERALIZED_GRADIENT,
        CONTACTD_COLUMN_IS_NESTED,   CONTACTD_COLUMN_SPIN,       CONTACTD_COLUMN_RELATIVE_VELOCITY,
        CONTACTD_COLUMN_FRICTION,    CONTACTD_COLUMN_WRENCH,     CONTACTD_COLUMN_EXTENTS,
        CONTACTD_COLUMN_AXES,        CONTACTD_COLUMN_MAX_WINDING};
    long differences = many->offsets[k + 1] - many->offsets[k] != single->n_contacts;
    for (size_t c = 0; c < sizeof ids / sizeof *ids && !differences; c++) {
        contactd_column of_many, of_single;
        if (contactd_many_column(many, ids[c], &of_many) || contactd_result_column(single, ids[c], &of_single)) {
            printf("column %d is missing\n", (int)ids[c]);
            return 1;
        }
        const size_t numbers = (size_t)of_many.rows * of_many.columns;
        const size_t bytes = numbers * (of_many.type == CONTACTD_TYPE_F64    ? 8
                                        : of_many.type == CONTACTD_TYPE_FLAG ? 1
                                                                             : 4);
        for (size_t i = 0; i < of_single.n; i++)
            differences += memcmp((const char *)of_many.data + (many->offsets[k] + i) * of_many.stride,
                                  (const char *)of_single.data + i * of_single.stride, bytes) != 0;
        if (differences || strcmp(of_many.name, of_single.name) != 0 || strcmp(of_many.unit, of_single.unit) != 0)
            printf("%s differs in scene %zu\n", of_many.name, k);
    }
    return differences;
}

int main(int argc, char **argv) {
    contactd_client *client;
    contactd_options options;
    contactd_options_init(&options);
    options.server = argv[argc - 1];
    options.timeout_ms = 240000;
    if (contactd_connect(&options, &client, NULL)) return printf("no connection\n"), 1;
    contactd_mesh mesh;
    contactd_scene together[N], alone[N];
    contactd_body bodies[BODIES];
    ASK(contactd_register_mesh(client, "box", box[0], VERTICES, faces[0], 12, &mesh));
    for (int k = 0; k < N; k++)
        if (build(client, mesh, &together[k], bodies) || build(client, mesh, &alone[k], bodies)) return 1;

    static double poses[N][12], twists[N][6], points[N][VERTICES][3];
    for (int k = 0; k < N; k++) {
        const double turn[12] = {0.8, -0.6, 0, 0.1 * k, 0.6, 0.8, 0, 0.05, 0, 0, 1, 0.9};
        memcpy(poses[k], turn, sizeof turn);
        twists[k][0] = k - 2;
        twists[k][5] = 0.5;
        for (int v = 0; v < VERTICES; v++)
            for (int c = 0; c < 3; c++) points[k][v][c] = (double)box[v][c] * (1 + 0.01 * k * (c + v % 2));
    }
    contactd_many many;
    contactd_many_init(&many);
    many.scenes = together;
    many.n_scenes = N;
    many.posed = many.moving = &bodies[1];
    many.n_posed = many.n_moving = 1;
    many.poses = poses[0];
    many.twists = twists[0];
    many.soft = &bodies[2];
    many.n_soft = 1;
    many.positions = points;
    many.n_positions = (size_t)N * VERTICES;
    many.float64 = true;
    many.want = CONTACTD_WANT_FRAME | CONTACTD_WANT_INERTIA | CONTACTD_WANT_IDS;
    contactd_many_result *result = NULL;
    ASK(contactd_step_many(client, &many, &result));
    if (result->n_errors || result->n_contacts < 2 * N) return printf("%zu contacts\n", result->n_contacts), 1;

    long differences = 0;
    for (size_t k = 0; k < N; k++) {
        contactd_update updates[2] = {contactd_move(bodies[1], poses[k]),
                                      {.body = bodies[2],
                                       .kind = CONTACTD_POSITIONS,
                                       .positions = points[k],
                                       .float64 = true,
                                       .count = VERTICES}};
        contactd_velocity velocity = {.body = bodies[1]};
        memcpy(velocity.twist, twists[k], sizeof velocity.twist);
        contactd_step_options step;
        contactd_step_options_init(&step);
        step.want = many.want;
        step.velocities = &velocity;
        step.n_velocities = 1;
        const contactd_result *single;
        ASK(contactd_step(client, alone[k], updates, 2, &step, &single));
        differences += compare(result, k, single);
    }

    poses[3][0] = 7; /* no rotation: this scene fails, alone */
    ASK(contactd_step_many(client, &many, &result));
    if (result->n_errors != 1 || result->errors[0].scene != 3 || result->offsets[3] != result->offsets[4])
        return printf("%zu errors\n", result->n_errors), 1;
    printf("%ld differences; %s\n", differences, contactd_code_name(result->errors[0].error.code));
    contactd_many_result_free(&result);
    contactd_close(&client);
    return 0;
}
