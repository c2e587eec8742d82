/* record.c - contactctl record: stands between simulators and their server, passes every message on unchanged, and
 * keeps a copy in a file. It needs nothing of the simulators but another address, so it serves clients in any language.
 *
 * Each client has a connection to the server of its own, as the server knows clients by their connections. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "client_c/ctl/record_meshes.h"
#include "client_c/ctl/recording.h"
#include "client_c/ctl/sockets.h"
#include "proto/endpoint.h"

enum {
    CLIENTS = 128,  /* at once; the one silent for longest makes room */
    POLL_MS = 100,  /* how soon a signal, or the command's end, is seen */
    IDENTITY = 255, /* bytes at most */
};

typedef struct client {
    unsigned char identity[IDENTITY];
    size_t n_identity;
    void *socket; /* to the server */
    uint32_t number;
    uint64_t heard_us;
} client;

typedef struct recorder {
    ctl *ctl;
    void *context, *door; /* where clients connect */
    char endpoint[256];
    client clients[CLIENTS];
    size_t n;
    uint32_t last_number;
    record_meshes meshes;
    FILE *file;
    const char *path;
    uint64_t began_us, messages;
    int code;
    pid_t child; /* the command; 0: none */
    int status;  /* of the command that ended */
} recorder;

static volatile sig_atomic_t is_ended;

static void on_signal(int which) {
    is_ended = which;
}

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- clients ---- */

static client *find_client(recorder *r, const zmq_msg_t *identity) {
    const size_t n = zmq_msg_size(identity);
    const void *bytes = zmq_msg_data((zmq_msg_t *)(uintptr_t)identity);
    client *oldest = &r->clients[0];
    for (size_t i = 0; i < r->n; i++) {
        client *c = &r->clients[i];
        if (c->n_identity == n && memcmp(c->identity, bytes, n) == 0) return c;
        if (c->heard_us < oldest->heard_us) oldest = c;
    }
    client *c = r->n < CLIENTS ? &r->clients[r->n] : oldest;
    if (n > IDENTITY) return NULL;
    void *socket = ctl_socket(r->ctl, r->context);
    if (!socket) return NULL;
    if (c->socket) zmq_close(c->socket);
    *c = (client){.n_identity = n, .socket = socket, .number = ++r->last_number};
    memcpy(c->identity, bytes, n);
    if (c == &r->clients[r->n]) r->n++;
    return c;
}

/* ---- messages ---- */

static void write_message(recorder *r, direction direction, uint32_t client, const ctl_frames *frames) {
    if (!r->file) return;
    recorded m = {.direction = direction, .client = client, .at_us = now_us() - r->began_us};
    m.n_frames = ctl_view_frames(frames, m.frames);
    errno = 0;
    if (recording_add(r->file, &m)) {
        r->messages++;
        return;
    }
    /* The simulation goes on; only the recording ends. */
    r->code = ctl_mistake("cannot write %s: %s; the recording ends after %llu messages", r->path, strerror(errno),
                          (unsigned long long)r->messages);
    fclose(r->file);
    r->file = NULL;
}

/* With the mesh that it is about, if the recording does not have it yet. */
static void keep(recorder *r, direction direction, const client *client, const ctl_frames *frames) {
    ctl_frames mesh;
    if (r->file && record_meshes_fetch(&r->meshes, direction, client->number, frames, &mesh)) {
        write_message(r, TO_CLIENT, RECORDER, &mesh);
        ctl_close_frames(&mesh);
    }
    write_message(r, direction, client->number, frames);
}

/* From a client to the server. False: there is none. */
static bool pass_request(recorder *r) {
    zmq_msg_t identity;
    ctl_frames frames;
    zmq_msg_init(&identity);
    bool came = zmq_msg_recv(&identity, r->door, ZMQ_DONTWAIT) >= 0;
    bool good = came && zmq_msg_more(&identity) && ctl_receive(r->door, &frames);
    client *c = good ? find_client(r, &identity) : NULL;
    if (c) {
        c->heard_us = now_us();
        keep(r, TO_SERVER, c, &frames);
        ctl_send(c->socket, NULL, &frames);
    }
    if (good) ctl_close_frames(&frames);
    zmq_msg_close(&identity);
    return came;
}

static bool pass_answer(recorder *r, client *c) {
    ctl_frames frames;
    if (!ctl_receive(c->socket, &frames)) return false;
    zmq_msg_t identity;
    keep(r, TO_CLIENT, c, &frames);
    if (zmq_msg_init_size(&identity, c->n_identity) == 0) {
        memcpy(zmq_msg_data(&identity), c->identity, c->n_identity);
        ctl_send(r->door, &identity, &frames);
    }
    ctl_close_frames(&frames);
    return true;
}

/* All that waits. False: nothing did. */
static bool pass_all(recorder *r) {
    bool any = false;
    while (pass_request(r)) any = true;
    for (size_t i = 0; i < r->n; i++)
        while (pass_answer(r, &r->clients[i])) any = true;
    return any;
}

/* ---- the command ---- */

/* In the child. Returns, with errno, where the command cannot be run. */
static void become_command(const recorder *r) {
    char *words[256] = {0};
    for (int i = 1; i < r->ctl->n_args; i++) words[i - 1] = (char *)(uintptr_t)r->ctl->args[i];
    setenv("CONTACTD_SERVER", r->endpoint, 1);
    unsetenv("CONTACTD_SERVER_KEY"); /* the recorder speaks for it */
    unsetenv("CONTACTD_CLIENT_KEY");
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    execvp(words[0], words);
}

/* A pipe that closes as the command begins says why it did not. */
static bool start_command(recorder *r) {
    int ends[2], cause = 0;
    if (r->ctl->n_args < 2) return true;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        r->code = ctl_mistake("cannot run %s: %s", r->ctl->args[1], strerror(errno));
        return false;
    }
    r->child = fork();
    if (r->child == 0) {
        become_command(r);
        _exit(write(ends[1], &errno, sizeof errno) == (ssize_t)sizeof errno ? 127 : 126);
    }
    if (r->child < 0) cause = errno;
    close(ends[1]);
    if (r->child > 0 && read(ends[0], &cause, sizeof cause) != (ssize_t)sizeof cause) cause = 0;
    close(ends[0]);
    if (!cause) return true;
    if (r->child > 0) waitpid(r->child, NULL, 0);
    r->code = ctl_mistake("cannot run %s: %s", r->ctl->args[1], strerror(cause));
    unlink(r->path); /* nothing is in it, and it would be in the way of the next try */
    return false;
}

static bool has_ended(recorder *r) {
    if (r->child > 0 && waitpid(r->child, &r->status, WNOHANG) == r->child) {
        r->child = -1;
        return true;
    }
    return is_ended != 0;
}

static void end_command(recorder *r) {
    if (r->child > 0) {
        kill(r->child, SIGTERM);
        waitpid(r->child, &r->status, 0);
        r->child = -1;
    }
    if (r->child == 0 || (WIFEXITED(r->status) && WEXITSTATUS(r->status) == 0)) return;
    if (WIFEXITED(r->status))
        ctl_say("%s ended with exit code %d", r->ctl->args[1], WEXITSTATUS(r->status));
    else
        ctl_say("%s was ended by signal %d", r->ctl->args[1], WTERMSIG(r->status));
}

/* ---- all of it ---- */

static bool open_door(recorder *r) {
    const char *listen = r->ctl->options[OPT_LISTEN] ? r->ctl->options[OPT_LISTEN] : "tcp://127.0.0.1:*";
    size_t size = sizeof r->endpoint;
    r->context = zmq_ctx_new();
    r->door = r->context ? zmq_socket(r->context, ZMQ_ROUTER) : NULL;
    if (!r->door) {
        ctl_mistake("no socket: %s", zmq_strerror(zmq_errno()));
        return false;
    }
    if (!record_meshes_open(&r->meshes, r->ctl, r->context)) {
        ctl_mistake("out of memory");
        return false;
    }
    ctl_set_common(r->door);
    if (strchr(listen, '[')) zmq_setsockopt(r->door, ZMQ_IPV6, &(int){1}, sizeof(int));
    const bool is_taken = endpoint_is_served(listen), has_port = endpoint_can_listen(listen);
    if (has_port && !is_taken && zmq_bind(r->door, listen) == 0 &&
        zmq_getsockopt(r->door, ZMQ_LAST_ENDPOINT, r->endpoint, &size) == 0)
        return true;
    ctl_mistake("--listen: cannot listen on %s: %s", listen,
                has_port ? zmq_strerror(is_taken ? EADDRINUSE : zmq_errno()) : "expected a port from 1 to 65535, or *");
    return false;
}

static void serve(recorder *r) {
    zmq_pollitem_t items[1 + CLIENTS];
    while (!has_ended(r)) {
        items[0] = (zmq_pollitem_t){.socket = r->door, .events = ZMQ_POLLIN};
        for (size_t i = 0; i < r->n; i++)
            items[1 + i] = (zmq_pollitem_t){.socket = r->clients[i].socket, .events = ZMQ_POLLIN};
        zmq_poll(items, 1 + (int)r->n, POLL_MS);
        if (!pass_all(r) && r->file) fflush(r->file);
    }
    end_command(r);
    pass_all(r);
}

static void put_begin(const recorder *r) {
    if (r->ctl->json) {
        json_open(NULL, '{');
        json_text("listen", r->endpoint);
        json_text("server", r->ctl->server);
        json_text("file", r->path);
        json_close('}');
    } else {
        printf("recording into %s: simulators connect to %s instead of %s; Ctrl-C ends it\n", r->path, r->endpoint,
               r->ctl->server);
    }
    fflush(stdout);
}

int ctl_record(ctl *ctl) {
    static recorder r;
    json_t *header = NULL;
    r = (recorder){.ctl = ctl, .path = ctl->args[0]};
    if (!ctl_is_one_address(ctl))
        return ctl_mistake("record stands before one server: --server is \"%s\"", ctl->server);
    r.code = recording_describe(ctl, "record", &header);
    if (r.code == EXIT_OK && !open_door(&r)) r.code = EXIT_USAGE;
    if (r.code == EXIT_OK && !(r.file = recording_begin(r.path, header))) r.code = EXIT_USAGE;
    if (r.code == EXIT_OK) {
        const struct sigaction act = {.sa_handler = on_signal};
        sigaction(SIGINT, &act, NULL);
        sigaction(SIGTERM, &act, NULL);
        r.began_us = now_us();
        put_begin(&r);
        if (start_command(&r)) serve(&r);
    }
    if (r.file && fclose(r.file) != 0) r.code = ctl_mistake("cannot write %s: %s", r.path, strerror(errno));
    if (r.code == EXIT_OK)
        ctl_say("%s has %llu messages of %u clients", r.path, (unsigned long long)r.messages, r.last_number);
    json_decref(header);
    for (size_t i = 0; i < r.n; i++) zmq_close(r.clients[i].socket);
    record_meshes_close(&r.meshes);
    if (r.door) zmq_close(r.door);
    if (r.context) zmq_ctx_term(r.context);
    return r.code;
}
