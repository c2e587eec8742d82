/* sockets.c - see sockets.h. */
#include "client_c/ctl/sockets.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/keyfile.h"

void ctl_set_common(void *socket) {
    static const struct {
        int option, value;
    } all[] = {
        {ZMQ_LINGER, 0},
        {ZMQ_SNDHWM, 1024},
        {ZMQ_RCVHWM, 0}, /* as in socket.c */
        /* As the server does: the kernel's probes find connections whose other end is gone. ZeroMQ's heartbeats would end
         * those of a simulator that a debugger has stopped, and of one whose message takes long to come. */
        {ZMQ_TCP_KEEPALIVE, 1},
        {ZMQ_TCP_KEEPALIVE_IDLE, 15},
        {ZMQ_TCP_KEEPALIVE_INTVL, 15},
        {ZMQ_TCP_KEEPALIVE_CNT, 3},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        zmq_setsockopt(socket, all[i].option, &all[i].value, sizeof(int));
}

/* A key, or the key file's line of that name. */
static bool read_key(const char *given, const char *line, char key[KEYFILE_KEY + 1]) {
    char message[400];
    if (access(given, F_OK) != 0) return keyfile_parse(given, key);
    return keyfile_read(given, line, key, message, sizeof message);
}

/* The client library has checked the same keys before. */
static bool set_keys(const ctl *ctl, void *socket) {
    contactd_options o;
    char server[KEYFILE_KEY + 1], public[KEYFILE_KEY + 1], secret[KEYFILE_KEY + 1];
    ctl_connect_options(ctl, &o);
    if (!o.server_key || !*o.server_key) return true;
    bool good = read_key(o.server_key, "public", server) && read_key(o.client_key, "secret", secret) &&
                zmq_curve_public(public, secret) == 0 &&
                zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, sizeof server) == 0 &&
                zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public, sizeof public) == 0 &&
                zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, sizeof secret) == 0;
    memset(secret, 0, sizeof secret);
    return good;
}

void *ctl_socket(const ctl *ctl, void *context) {
    void *socket = zmq_socket(context, ZMQ_DEALER);
    if (socket) ctl_set_common(socket);
    if (socket && strchr(ctl->server, '[')) zmq_setsockopt(socket, ZMQ_IPV6, &(int){1}, sizeof(int));
    if (socket && set_keys(ctl, socket) && zmq_connect(socket, ctl->server) == 0) return socket;
    ctl_mistake("no connection to %s: %s", ctl->server, zmq_strerror(zmq_errno()));
    if (socket) zmq_close(socket);
    return NULL;
}

bool ctl_receive(void *socket, ctl_frames *out) {
    bool fits = true;
    out->n = 0;
    for (bool more = true; more;) {
        zmq_msg_t extra, *frame = out->n < 1 + WIRE_MAX_FRAMES ? &out->frames[out->n] : &extra;
        zmq_msg_init(frame);
        if (zmq_msg_recv(frame, socket, ZMQ_DONTWAIT) < 0) { /* only before the first: a message comes whole */
            zmq_msg_close(frame);
            return false;
        }
        more = zmq_msg_more(frame);
        if (frame == &extra) {
            zmq_msg_close(frame);
            fits = false;
        } else {
            out->n++;
        }
    }
    if (!fits) ctl_close_frames(out);
    return fits;
}

void ctl_send(void *socket, zmq_msg_t *identity, ctl_frames *frames) {
    bool good = true;
    if (identity && zmq_msg_send(identity, socket, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(identity);
        good = false;
    }
    for (size_t i = 0; good && i < frames->n; i++)
        good = zmq_msg_send(&frames->frames[i], socket, ZMQ_DONTWAIT | (i + 1 < frames->n ? ZMQ_SNDMORE : 0)) >= 0;
}

void ctl_close_frames(ctl_frames *frames) {
    for (size_t i = 0; i < frames->n; i++) zmq_msg_close(&frames->frames[i]);
    frames->n = 0;
}

size_t ctl_view_frames(const ctl_frames *frames, wire_frame *out) {
    for (size_t i = 0; i < frames->n; i++) {
        zmq_msg_t *frame = (zmq_msg_t *)(uintptr_t)&frames->frames[i];
        out[i] = (wire_frame){zmq_msg_data(frame), zmq_msg_size(frame)};
    }
    return frames->n;
}
