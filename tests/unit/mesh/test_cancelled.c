/* test_cancelled.c - what is made of meshes, cancelled at any moment: it fails as cancelled or is whole, nothing half
 * made is kept, and the next call makes the same. And threads that wait for what others make. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/base/cancel.h"
#include "gpu/base/clock.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/adjacency.h"
#include "gpu/mesh/clusters.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/exact/topology.h"
#include "gpu/methods/voxtree/tree.h"
#include "tests/scenes/shapes.h"
#include "tests/unit/unit.h"

/* ---- at any moment ---- */

struct late_request {
    ct_cancel *cancel;
    double after; /* s */
};

static void sleep_for(double seconds) {
    nanosleep(&(struct timespec){(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))}, NULL);
}

static void *request_late(void *argument) {
    const struct late_request *request = argument;
    sleep_for(request->after);
    ct_cancel_request(request->cancel, CT_CANCEL_CALLER);
    return NULL;
}

/* Makes something and compares it with what it was before; CT_CANCELLED, or CT_OK. */
typedef ct_status make_fn(void *context, ct_error *error);

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* slow */
enum { ROUNDS = 8 };
#else
enum { ROUNDS = 24 };
#endif

/* Cancels at once, at random moments of the time that it takes, and by a time that has passed. */
static void cancel_often(make_fn *make, void *context, uint64_t *rng) {
    ct_error error = {0};
    const double start = ct_now();
    if (make(context, &error) != CT_OK) fail_msg("%s", error.message);
    const double took = ct_now() - start;
    for (int round = 0; round < ROUNDS; round++) {
        ct_cancel cancel;
        ct_cancel_init(&cancel, 0);
        struct late_request late = {&cancel, took * (double)(shape_random(rng) % 1000) / 1000};
        pthread_t thread;
        const bool is_at_once = round < 2;
        if (round == 0) cancel.until = ct_now() - 1;
        if (round == 1) ct_cancel_request(&cancel, CT_CANCEL_CALLER);
        if (!is_at_once) pthread_create(&thread, NULL, request_late, &late);
        ct_cancel *before = ct_cancel_scope(&cancel);
        memset(&error, 0, sizeof error);
        const ct_status status = make(context, &error);
        ct_cancel_scope(before);
        if (!is_at_once) pthread_join(thread, NULL);
        if (is_at_once) assert_int_equal(status, CT_CANCELLED);
        if (status != CT_OK) {
            if (status != CT_CANCELLED) fail_msg("%s: %s", ct_status_name(status), error.message);
            assert_int_equal(error.status, CT_CANCELLED);
            assert_non_null(strstr(error.message, "cancelled while "));
            if (strstr(error.message, " wrap")) assert_non_null(strstr(error.message, "a coarser resolution"));
            assert_int_not_equal(ct_cancel_reason(&cancel), CT_CANCEL_NONE);
        }
        memset(&error, 0, sizeof error);
        if (make(context, &error) != CT_OK) fail_msg("after round %d: %s", round, error.message);
    }
}

/* ---- making meshes ---- */

struct input {
    const struct shape *shape;
    const char *bytes; /* of a file; NULL: the shape's arrays */
    size_t size;
    ct_mesh_options options;
    char hash[33]; /* of what was made first */
};

static ct_status make_mesh(void *context, ct_error *error) {
    struct input *in = context;
    ct_mesh *mesh = NULL;
    ct_mesh_changes changes;
    const ct_status status =
        in->bytes ? ct_mesh_read_with(in->bytes, in->size, CT_FORMAT_AUTO, &in->options, &mesh, &changes, error)
                  : ct_mesh_create_with(in->shape->positions, CT_F32, in->shape->n_vertices, in->shape->triangles,
                                        in->shape->n_triangles, &in->options, &mesh, &changes, error);
    assert_true((status == CT_OK) == (mesh != NULL));
    if (!mesh) return status;
    ct_mesh_info info;
    ct_mesh_get_info(mesh, &info);
    if (!in->hash[0]) memcpy(in->hash, info.hash, sizeof in->hash);
    assert_string_equal(info.hash, in->hash);
    ct_mesh_release(&mesh);
    return CT_OK;
}

static void write_file(const struct shape *s, int format, FILE *to) {
    if (format == 0) {
        for (uint32_t v = 0; v < s->n_vertices; v++)
            fprintf(to, "v %.9g %.9g %.9g\n", (double)s->positions[3 * v], (double)s->positions[3 * v + 1],
                    (double)s->positions[3 * v + 2]);
        for (uint32_t t = 0; t < s->n_triangles; t++)
            fprintf(to, "f %u %u %u\n", s->triangles[3 * t] + 1, s->triangles[3 * t + 1] + 1,
                    s->triangles[3 * t + 2] + 1);
    } else if (format == 1) {
        fprintf(to, "OFF\n%u %u 0\n", s->n_vertices, s->n_triangles);
        for (uint32_t v = 0; v < s->n_vertices; v++)
            fprintf(to, "%.9g %.9g %.9g\n", (double)s->positions[3 * v], (double)s->positions[3 * v + 1],
                    (double)s->positions[3 * v + 2]);
        for (uint32_t t = 0; t < s->n_triangles; t++)
            fprintf(to, "3 %u %u %u\n", s->triangles[3 * t], s->triangles[3 * t + 1], s->triangles[3 * t + 2]);
    } else if (format == 2) {
        fprintf(to,
                "ply\nformat binary_little_endian 1.0\nelement vertex %u\nproperty float x\nproperty float y\n"
                "property float z\nelement face %u\nproperty list uchar int vertex_indices\nend_header\n",
                s->n_vertices, s->n_triangles);
        fwrite(s->positions, 12, s->n_vertices, to);
        for (uint32_t t = 0; t < s->n_triangles; t++) {
            fputc(3, to);
            fwrite(s->triangles + 3 * (size_t)t, 12, 1, to);
        }
    } else {
        const char header[80] = "binary";
        const float normal[3] = {0, 0, 0};
        fwrite(header, 80, 1, to);
        fwrite(&s->n_triangles, 4, 1, to);
        for (uint32_t t = 0; t < s->n_triangles; t++) {
            fwrite(normal, 12, 1, to);
            for (int c = 0; c < 3; c++) fwrite(s->positions + 3 * (size_t)s->triangles[3 * (size_t)t + c], 12, 1, to);
            fwrite("\0", 2, 1, to);
        }
    }
}

static void meshes(void **state) {
    (void)state;
    uint64_t rng = 5;
    struct shape ball = shape_icosphere(1, 5);
    for (int format = -1; format < 4; format++) {
        struct input in = {.shape = &ball};
        char *bytes = NULL;
        ct_mesh_options_init(&in.options);
        if (format >= 0) {
            FILE *to = open_memstream(&bytes, &in.size);
            write_file(&ball, format, to);
            fclose(to);
            in.bytes = bytes;
        }
        cancel_often(make_mesh, &in, &rng);
        free(bytes);
    }
    shape_free(&ball);
}

/* Asked on the thread of the call alone. */
struct questions {
    uint64_t asked_on;
    int count;
    bool answer;
};

static bool note_question(void *context) {
    struct questions *questions = context;
    questions->asked_on = (uint64_t)pthread_self();
    questions->count++;
    return questions->answer;
}

static void asks(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 5);
    struct input in = {.shape = &ball};
    ct_mesh_options_init(&in.options);
    for (int k = 0; k < 3; k++) { /* told to go on, told to end, and not asked, as the call is another thread's */
        struct questions questions = {.answer = k > 0};
        ct_cancel cancel;
        ct_cancel_init(&cancel, 0);
        cancel.ask = note_question, cancel.context = &questions;
        cancel.asked = k < 2 ? (uint64_t)pthread_self() : 0;
        ct_cancel *before = ct_cancel_scope(&cancel);
        ct_error error = {0};
        const ct_status status = make_mesh(&in, &error);
        ct_cancel_scope(before);
        assert_int_equal(status, k == 1 ? CT_CANCELLED : CT_OK);
        assert_int_equal(ct_cancel_reason(&cancel), k == 1 ? CT_CANCEL_CALLER : CT_CANCEL_NONE);
        assert_true(k < 2 ? questions.count > 0 && questions.asked_on == cancel.asked : questions.count == 0);
    }
    shape_free(&ball);
}

static void repairs(void **state) {
    (void)state;
    uint64_t rng = 6;
    struct shape torus = shape_torus(1, 0.4, 200, 100);
    for (uint32_t i = 0; i < 300; i++) { /* holes, and triangles that face the wrong way */
        uint32_t *last = torus.triangles + 3 * (size_t)(torus.n_triangles - 1);
        memcpy(torus.triangles + 3 * (size_t)(97 * i % torus.n_triangles), last, 12);
        torus.n_triangles--;
        uint32_t *turned = torus.triangles + 3 * (size_t)(61 * i % torus.n_triangles), first = turned[0];
        turned[0] = turned[1], turned[1] = first;
    }
    struct input in = {.shape = &torus};
    ct_mesh_options_init(&in.options);
    in.options.repair = true;
    in.options.max_hole = 4;
    cancel_often(make_mesh, &in, &rng);
    shape_free(&torus);
}

static void wraps(void **state) {
    (void)state;
    uint64_t rng = 9;
    struct shape torus = shape_torus(1, 0.4, 60, 30);
    torus.n_triangles -= 200;
    struct input in = {.shape = &torus};
    ct_mesh_options_init(&in.options);
    in.options.closing = CT_CLOSING_WRAP;
    in.options.resolution = 0.15;
    cancel_often(make_mesh, &in, &rng);
    shape_free(&torus);
}

static void open_surfaces(void **state) {
    (void)state;
    enum { SIDE = 100 };
    uint64_t rng = 7;
    float positions[SIDE * SIDE][3];
    uint32_t triangles[2 * (SIDE - 1) * (SIDE - 1)][3], n = 0;
    for (int i = 0; i < SIDE * SIDE; i++)
        for (int k = 0; k < 3; k++) positions[i][k] = k == 0 ? (float)(i % SIDE) : k == 1 ? (float)(i / SIDE) : 0;
    for (uint32_t y = 0; y + 1 < SIDE; y++)
        for (uint32_t x = 0; x + 1 < SIDE; x++) {
            const uint32_t a = y * SIDE + x;
            memcpy(triangles[n++], (uint32_t[]){a, a + 1, a + SIDE + 1}, 12);
            memcpy(triangles[n++], (uint32_t[]){a, a + SIDE + 1, a + SIDE}, 12);
        }
    const struct shape field = {
        .positions = positions[0], .triangles = triangles[0], .n_vertices = SIDE * SIDE, .n_triangles = n};
    struct input in = {.shape = &field};
    ct_mesh_options_init(&in.options);
    in.options.open_direction[2] = -1;
    cancel_often(make_mesh, &in, &rng);
}

/* ---- what methods derive ---- */

struct derived {
    struct shape shape;
    int what;
    uint64_t hash; /* of what was made first */
};

static void add_bytes(uint64_t *hash, const void *bytes, size_t n) {
    const uint8_t *at = bytes;
    for (size_t i = 0; i < n; i++) *hash = (*hash ^ at[i]) * 1099511628211u;
}

static bool hash_derived(ct_mesh *mesh, int what, uint64_t *hash, ct_error *error) {
    if (what == 0) {
        const ct_adjacency *a = ct_mesh_adjacency(mesh, error);
        if (a) add_bytes(hash, a->opposite, 12 * (size_t)mesh->n_triangles);
        if (a) add_bytes(hash, a->area_vector, 24 * (size_t)mesh->n_triangles);
        return a;
    }
    if (what == 1) return ct_mesh_topology(mesh, error);
    const ct_voxel_tree *tree = ct_voxel_tree_of(mesh, 6, error);
    for (uint32_t l = 0; tree && l <= 6; l++)
        add_bytes(hash, tree->level[l].nodes, tree->level[l].n_nodes * sizeof(ct_voxel));
    return tree;
}

static ct_status derive(void *context, ct_error *error) {
    struct derived *d = context;
    ct_cancel *scope = ct_cancel_scope(NULL); /* the mesh itself is made whole */
    ct_mesh *mesh = shape_to_mesh(&d->shape, NULL);
    ct_cancel_scope(scope);
    ct_mesh_info before, after;
    ct_mesh_get_info(mesh, &before);
    uint64_t hash = 14695981039346656037u, again = hash;
    const bool is_made = hash_derived(mesh, d->what, &hash, error);
    if (!is_made) { /* nothing of it is kept but what it needed itself, and the next call on the mesh makes it */
        const ct_status status = error->status;
        ct_mesh_get_info(mesh, &after);
        if (d->what != 1) assert_int_equal(after.bytes, before.bytes);
        ct_cancel_scope(NULL);
        assert_true(hash_derived(mesh, d->what, &again, NULL));
        ct_cancel_scope(scope);
        assert_int_equal(again, d->hash);
        ct_mesh_release(&mesh);
        return status;
    }
    if (!d->hash) d->hash = hash;
    assert_int_equal(hash, d->hash);
    ct_mesh_release(&mesh);
    return CT_OK;
}

static void derived_data(void **state) {
    (void)state;
    uint64_t rng = 8;
    for (int what = 0; what < 3; what++) {
        struct derived d = {.shape = shape_icosphere(1, 5), .what = what};
        cancel_often(derive, &d, &rng);
        shape_free(&d.shape);
    }
}

/* ---- slots that others make ---- */

static atomic_bool is_begun, may_end;
static atomic_int n_made, n_destroyed;

static void *make_slowly(ct_mesh *mesh, uint64_t *bytes, ct_error *error) {
    (void)mesh;
    atomic_store(&is_begun, true);
    while (!atomic_load(&may_end) && !ct_is_cancelled()) sleep_for(1e-4);
    if (!atomic_load(&may_end)) {
        ct_fail(error, CT_OUT_OF_MEMORY, "mesh", "no memory");
        return NULL;
    }
    atomic_fetch_add(&n_made, 1);
    *bytes = 4;
    return malloc(4);
}

/* Does not look whether it is cancelled. */
static void *make_blindly(ct_mesh *mesh, uint64_t *bytes, ct_error *error) {
    (void)mesh, (void)error;
    atomic_fetch_add(&n_made, 1);
    *bytes = 4;
    return malloc(4);
}

static void count_and_free(void *content) {
    atomic_fetch_add(&n_destroyed, 1);
    free(content);
}

static const ct_mesh_slot_kind slow = {"slow thing", make_slowly, free},
                               blind = {"blind thing", make_blindly, count_and_free};

struct user {
    ct_mesh *mesh;
    const ct_mesh_slot_kind *kind;
    ct_cancel cancel;
    ct_error error;
    const void *content;
    pthread_t thread;
};

static void *use(void *argument) {
    struct user *user = argument;
    ct_cancel_scope(&user->cancel);
    user->content = ct_mesh_slot_get(user->mesh, user->kind, &user->error);
    ct_cancel_scope(NULL);
    return NULL;
}

static void begin_use(struct user *user, ct_mesh *mesh, const ct_mesh_slot_kind *kind) {
    *user = (struct user){.mesh = mesh, .kind = kind};
    ct_cancel_init(&user->cancel, 0);
    pthread_create(&user->thread, NULL, use, user);
}

static void wait_begun(void) {
    while (!atomic_load(&is_begun)) sleep_for(1e-4);
}

static void others_wait_only_for_what_they_need(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    ct_mesh *mesh = shape_to_mesh(&box, NULL);
    atomic_store(&is_begun, false), atomic_store(&may_end, false), atomic_store(&n_made, 0);
    struct user maker, waiter, late;
    begin_use(&maker, mesh, &slow);
    wait_begun();
    assert_non_null(ct_mesh_adjacency(mesh, NULL)); /* another kind, while the slow one is made */
    /* One that waits sees its own cancellation, whatever the maker does. */
    begin_use(&waiter, mesh, &slow);
    ct_cancel_request(&waiter.cancel, CT_CANCEL_CALLER);
    pthread_join(waiter.thread, NULL);
    assert_null(waiter.content);
    assert_int_equal(waiter.error.status, CT_CANCELLED);
    /* The maker is cancelled: one that waits makes it itself. */
    begin_use(&late, mesh, &slow);
    ct_cancel_request(&maker.cancel, CT_CANCEL_CALLER);
    pthread_join(maker.thread, NULL);
    assert_null(maker.content);
    assert_int_equal(maker.error.status, CT_CANCELLED);
    atomic_store(&may_end, true);
    pthread_join(late.thread, NULL);
    assert_non_null(late.content);
    assert_int_equal(atomic_load(&n_made), 1);
    assert_ptr_equal(ct_mesh_slot_get(mesh, &slow, NULL), late.content);
    ct_mesh_release(&mesh);
    shape_free(&box);
}

static void what_is_made_while_cancelled_is_not_kept(void **state) {
    (void)state;
    struct shape box = shape_box(1, 1, 1);
    ct_mesh *mesh = shape_to_mesh(&box, NULL);
    atomic_store(&n_made, 0), atomic_store(&n_destroyed, 0);
    struct user user;
    begin_use(&user, mesh, &blind);
    pthread_join(user.thread, NULL);
    assert_non_null(user.content);
    ct_mesh_slot_hold(mesh, &blind, NULL);
    ct_mesh_slot_drop(mesh, &blind);
    assert_int_equal(atomic_load(&n_destroyed), 1);
    ct_cancel cancel;
    ct_error error = {0};
    ct_cancel_init(&cancel, 0);
    ct_cancel_request(&cancel, CT_CANCEL_CALLER);
    ct_cancel *before = ct_cancel_scope(&cancel);
    assert_null(ct_mesh_slot_get(mesh, &blind, &error));
    ct_cancel_scope(before);
    assert_int_equal(error.status, CT_CANCELLED);
    assert_int_equal(atomic_load(&n_destroyed), 2);
    assert_non_null(ct_mesh_slot_get(mesh, &blind, NULL));
    ct_mesh_release(&mesh);
    assert_int_equal(atomic_load(&n_made), atomic_load(&n_destroyed));
    shape_free(&box);
}

/* Rooms of trees that are made side by side are settled each. */
static atomic_uint_fast64_t reserved;

static bool ask(void *context, const ct_mesh *mesh, uint64_t bytes, ct_error *error) {
    (void)context, (void)mesh, (void)error;
    atomic_fetch_add(&reserved, bytes);
    return true;
}

static void settle(void *context, const ct_mesh *mesh, uint64_t bytes) {
    (void)context, (void)mesh;
    assert_true(atomic_fetch_sub(&reserved, bytes) >= bytes);
}

static void *make_tree(void *argument) {
    struct user *user = argument;
    ct_cancel_scope(&user->cancel);
    user->content = ct_voxel_tree_of(user->mesh, 3 + (uint32_t)(user->cancel.until > 0), &user->error);
    ct_cancel_scope(NULL);
    return NULL;
}

static void rooms_are_settled(void **state) {
    (void)state;
    struct shape ball = shape_icosphere(1, 4);
    for (int round = 0; round < 20; round++) {
        ct_mesh *mesh = shape_to_mesh(&ball, NULL);
        ct_mesh_set_room(mesh, &(ct_mesh_room){ask, settle, NULL});
        struct user users[2] = {{.mesh = mesh}, {.mesh = mesh}};
        ct_cancel_init(&users[0].cancel, 0);
        ct_cancel_init(&users[1].cancel, 1000);
        for (int i = 0; i < 2; i++) pthread_create(&users[i].thread, NULL, make_tree, &users[i]);
        if (round % 2) ct_cancel_request(&users[0].cancel, CT_CANCEL_CALLER);
        for (int i = 0; i < 2; i++) pthread_join(users[i].thread, NULL);
        assert_non_null(users[1].content);
        assert_int_equal(atomic_load(&reserved), 0);
        ct_mesh_release(&mesh);
    }
    shape_free(&ball);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meshes),
        cmocka_unit_test(asks),
        cmocka_unit_test(repairs),
        cmocka_unit_test(wraps),
        cmocka_unit_test(open_surfaces),
        cmocka_unit_test(derived_data),
        cmocka_unit_test(others_wait_only_for_what_they_need),
        cmocka_unit_test(what_is_made_while_cancelled_is_not_kept),
        cmocka_unit_test(rooms_are_settled),
    };
    return cmocka_run_group_tests_name("cancelled meshes", tests, NULL, NULL);
}
