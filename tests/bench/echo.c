/* echo.c - a DEALER here, a ROUTER in a forked process, over TCP loopback. */
#include "tests/bench/echo.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "proto/spin.h"
#include "tests/bench/samples.h"

enum { MOST_BYTES = 1 << 22, PATIENCE_MS = 5000 };

struct bench_echo {
    pid_t server;
    void *context, *socket;
    wire_spin spin;
    char bytes[MOST_BYTES];
};

/* The ZeroMQ thread has the policy SCHED_BATCH, as in contactd's client and server (proto/zmq_thread.h), but always. */
static void *context_new(void) {
    void *context = zmq_ctx_new();
    zmq_ctx_set(context, ZMQ_THREAD_SCHED_POLICY, SCHED_BATCH);
    return context;
}

/* As client and server of contactd wait. False: nothing came for PATIENCE_MS. */
static bool wait_for_message(void *socket, wire_spin *spin) {
    double began = bench_now(), until = began + 1e-9 * (double)wire_spin_begin(spin);
    for (int events = 0;;) {
        size_t size = sizeof events;
        zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size);
        if (events & ZMQ_POLLIN) break;
        if (bench_now() < until) {
            wire_spin_pause();
            continue;
        }
        zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
        if (zmq_poll(&item, 1, PATIENCE_MS) == 0) return false;
    }
    wire_spin_end(spin, (uint64_t)(1e9 * (bench_now() - began)));
    return true;
}

/* Each request begins with the size of the answer that it wants. */
static void serve(void *socket, wire_spin *spin) {
    static char bytes[MOST_BYTES];
    for (;;) {
        if (!wait_for_message(socket, spin)) continue;
        char who[256];
        uint32_t answer;
        int n = zmq_recv(socket, who, sizeof who, 0);
        zmq_recv(socket, bytes, sizeof bytes, 0);
        memcpy(&answer, bytes, sizeof answer);
        zmq_send(socket, who, (size_t)n, ZMQ_SNDMORE);
        zmq_send(socket, bytes, answer, 0);
    }
}

static void run_server(int to_parent, uint32_t spin_us) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    void *context = context_new(), *socket = zmq_socket(context, ZMQ_ROUTER);
    char endpoint[64] = "";
    size_t size = sizeof endpoint;
    wire_spin spin;
    wire_spin_init(&spin, spin_us);
    if (zmq_bind(socket, "tcp://127.0.0.1:*") || zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size) ||
        write(to_parent, endpoint, sizeof endpoint) != sizeof endpoint)
        _exit(1);
    serve(socket, &spin);
}

bench_echo *bench_echo_start(uint32_t client_spin_us, uint32_t server_spin_us) {
    bench_echo *echo = calloc(1, sizeof *echo);
    int ends[2];
    if (!echo || pipe(ends)) {
        perror("echo");
        free(echo);
        return NULL;
    }
    echo->server = fork();
    if (echo->server == 0) {
        close(ends[0]);
        run_server(ends[1], server_spin_us);
    }
    close(ends[1]);
    char endpoint[64];
    bool heard = echo->server > 0 && read(ends[0], endpoint, sizeof endpoint) == sizeof endpoint;
    close(ends[0]);
    if (heard) {
        echo->context = context_new();
        echo->socket = zmq_socket(echo->context, ZMQ_DEALER);
        zmq_setsockopt(echo->socket, ZMQ_LINGER, &(int){0}, sizeof(int));
        wire_spin_init(&echo->spin, client_spin_us);
        if (zmq_connect(echo->socket, endpoint) == 0) return echo;
    }
    fputs("echo: the other process cannot be reached\n", stderr);
    bench_echo_stop(&echo);
    return NULL;
}

void bench_echo_stop(bench_echo **echo) {
    bench_echo *ending = *echo;
    if (!ending) return;
    if (ending->socket) zmq_close(ending->socket);
    if (ending->context) zmq_ctx_term(ending->context);
    if (ending->server > 0) {
        kill(ending->server, SIGKILL);
        waitpid(ending->server, NULL, 0);
    }
    free(ending);
    *echo = NULL;
}

double bench_echo_once(bench_echo *echo, size_t request, size_t answer) {
    uint32_t wanted = (uint32_t)answer;
    memcpy(echo->bytes, &wanted, sizeof wanted);
    double began = bench_now();
    zmq_send(echo->socket, echo->bytes, request, 0);
    if (!wait_for_message(echo->socket, &echo->spin)) return -1;
    if (zmq_recv(echo->socket, echo->bytes, sizeof echo->bytes, 0) != (int)answer) return -1;
    return bench_now() - began;
}
