/* loop.c - two clients in one event loop: steps are on their way on both, and the loop sleeps until something comes.
 *
 *   cc $(pkg-config --cflags contactd) loop.c $(pkg-config --libs contactd) -o loop && ./loop tcp://127.0.0.1:5555 1000
 */
#include <contactd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

typedef struct session {
    contactd_client *client;
    contactd_scene scene;
    contactd_body box;
    contactd_ticket ticket; /* 0: none in flight */
    long steps;
    double height;
} session;

static void die(contactd_client *client, const char *what) {
    const contactd_error *e = contactd_last_error(client);
    fprintf(stderr, "%s: %s %s: %s\n", what, contactd_code_name(e->code), e->field, e->message);
    exit(1);
}

static void open_session(session *s, const char *server) {
    static const float corners[8][3] = {{-.5f, -.5f, -.5f}, {.5f, -.5f, -.5f}, {-.5f, .5f, -.5f}, {.5f, .5f, -.5f},
                                        {-.5f, -.5f, .5f},  {.5f, -.5f, .5f},  {-.5f, .5f, .5f},  {.5f, .5f, .5f}};
    static const uint32_t faces[12][3] = {{0, 3, 1}, {0, 2, 3}, {4, 5, 7}, {4, 7, 6}, {0, 1, 5}, {0, 5, 4},
                                          {2, 7, 3}, {2, 6, 7}, {0, 4, 6}, {0, 6, 2}, {1, 3, 7}, {1, 7, 5}};
    contactd_options options;
    contactd_options_init(&options);
    options.server = server;
    options.timeout_ms = 120000;
    contactd_error error;
    if (contactd_connect(&options, &s->client, &error)) {
        fprintf(stderr, "%s: %s\n", server, error.message);
        exit(1);
    }
    contactd_mesh mesh;
    contactd_body floor;
    contactd_body_options body;
    contactd_body_options_init(&body);
    body.rigid = true;
    if (contactd_open_scene(s->client, "loop", NULL, &s->scene) ||
        contactd_register_mesh(s->client, "box", corners[0], 8, faces[0], 12, &mesh) ||
        contactd_add_half_space(s->client, s->scene, (const double[3]){0, 0, 1}, 0, NULL, &floor) ||
        contactd_add_body(s->client, s->scene, mesh, &body, &s->box))
        die(s->client, "opening");
}

static void submit(session *s) {
    contactd_update update = {.body = s->box, .kind = CONTACTD_POSE, .pose = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}};
    update.pose[11] = s->height = 0.499 - 1e-4 * (double)(s->steps % 1000);
    if (contactd_step_submit(s->client, s->scene, &update, 1, NULL, &s->ticket)) die(s->client, "submitting");
}

/* Takes in what has come. Returns how long epoll may sleep, in milliseconds; -1: for ever. */
static int serve(session *s, long n_steps) {
    const contactd_result *result;
    int wait_ms = -1;
    while (s->ticket) {
        if (contactd_step_try_wait(s->client, s->ticket, &result)) die(s->client, "waiting");
        if (!result) break;
        const double expected = 0.5 - s->height;
        if (result->n_contacts != 1 || result->contacts[0].volume < 0.99 * expected ||
            result->contacts[0].volume > 1.01 * expected) {
            fprintf(stderr, "%u contacts, expected one of %g m^3\n", result->n_contacts, expected);
            exit(1);
        }
        s->ticket = 0;
        if (++s->steps < n_steps) submit(s);
    }
    if (contactd_process(s->client, &wait_ms)) die(s->client, "processing");
    return wait_ms;
}

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: %s SERVER STEPS\n", argv[0]), 2;
    session sessions[2] = {{.client = NULL}};
    const long n_steps = atol(argv[2]);
    const int loop = epoll_create1(0);
    for (int i = 0; i < 2; i++) {
        struct epoll_event readable = {.events = EPOLLIN};
        open_session(&sessions[i], argv[1]);
        epoll_ctl(loop, EPOLL_CTL_ADD, contactd_fd(sessions[i].client), &readable);
        if (n_steps) submit(&sessions[i]);
    }
    while (sessions[0].steps + sessions[1].steps < 2 * n_steps) {
        int wait_ms = -1;
        for (int i = 0; i < 2; i++) {
            const int own = serve(&sessions[i], n_steps);
            if (own >= 0 && (wait_ms < 0 || own < wait_ms)) wait_ms = own;
        }
        struct epoll_event ready[2];
        if (wait_ms >= 0) epoll_wait(loop, ready, 2, wait_ms);
    }
    printf("%ld and %ld steps\n", sessions[0].steps, sessions[1].steps);
    for (int i = 0; i < 2; i++) contactd_close(&sessions[i].client);
    close(loop);
    return 0;
}
