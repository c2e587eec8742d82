/* bind.c - the addresses that the stream listens on: those of --stream, or sockets that the service manager passed. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/endpoint.h"
#include "server/base/log.h"
#include "server/stream/internal.h"

static bool is_loopback(const char *endpoint) {
    static const char *const local[] = {"tcp://127.", "tcp://localhost:", "tcp://[::1]:", "tcp://lo:", "ipc://"};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        if (strncmp(endpoint, local[i], strlen(local[i])) == 0) return true;
    }
    return false;
}

/* For the next endpoint. Over TCP there is no mark: libzmq 4.3 ends the process when it reads on after a mark had
 * stopped a connection's input, if the client has reset the connection meanwhile and a PING is among what is left to
 * read. There peers.h bounds what waits instead. It cannot over ipc, where the kernel does not count bytes. */
static bool set_input_mark(stream *stream, bool ipc) {
    int mark = ipc ? stream_high_water_mark(stream) : 0;
    return zmq_setsockopt(stream->socket, ZMQ_RCVHWM, &mark, sizeof mark) == 0;
}

/* For the next endpoint: over tcp the client's key is asked for, over ipc its user, where the list has any. */
static bool set_mechanism(stream *stream, bool ipc) {
    void *socket = stream->socket;
    const guard *guard = stream->service->guard;
    bool curve = !ipc && stream->has_key;
    const char *domain = curve ? ZAP_DOMAIN_KEY : ipc && guard_has_uids(guard) ? ZAP_DOMAIN_UID : ZAP_DOMAIN_OPEN;
    if (zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &(int){curve}, sizeof(int)) != 0) return false;
    if (curve && zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, stream->secret_key, KEYFILE_KEY + 1) != 0) return false;
    return !stream->zap || zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, domain, strlen(domain)) == 0;
}

/* 0, or the cause. Only the server's own user may connect to an ipc socket, unless the list of principals names users:
 * then the file lets everyone ask, and the list decides. No other thread makes files yet. */
static int bind_socket(stream *stream, const char *endpoint, bool ipc) {
    mode_t before = ipc ? umask(guard_has_uids(stream->service->guard) ? 0111 : 0177) : 0;
    int cause = zmq_bind(stream->socket, endpoint) != 0 ? zmq_errno() : 0;
    if (ipc) umask(before);
    return cause;
}

/* Before anything is bound. */
static bool check_exposure(const stream *stream, const char *endpoint, server_error *error) {
    const service *service = stream->service;
    if (is_loopback(endpoint) || service->config->insecure || stream->has_key) return true;
    return server_fail(
        error, CONTACTD_FORBIDDEN, endpoint, "insecure",
        "other machines can reach this address, and nothing asks who they are: give --stream-key (made by "
        "contactctl keys new) and --principals with the clients' keys, listen on 127.0.0.1, or say "
        "--insecure if you trust the network");
}

/* What must be set, or refused, before a socket is bound to an endpoint. */
static bool prepare(stream *stream, const char *endpoint, bool ipc, server_error *error) {
    if (!check_exposure(stream, endpoint, error)) return false;
    int ipv6 = strchr(endpoint, '[') != NULL; /* else IPv4 addresses would be shown mapped into IPv6 */
    zmq_setsockopt(stream->socket, ZMQ_IPV6, &ipv6, sizeof ipv6);
    if (!set_mechanism(stream, ipc))
        return server_fail(error, CONTACTD_INTERNAL, endpoint, "stream-key", "CURVE cannot be set up: %s",
                           zmq_strerror(zmq_errno()));
    if (set_input_mark(stream, ipc)) return true;
    return server_fail(error, CONTACTD_INTERNAL, endpoint, "stream", "the socket cannot be set up: %s",
                       zmq_strerror(zmq_errno()));
}

static void note_bound(stream *stream, const char *endpoint) {
    char *bound = stream->endpoints[stream->n_endpoints++];
    size_t size = sizeof stream->endpoints[0];
    if (zmq_getsockopt(stream->socket, ZMQ_LAST_ENDPOINT, bound, &size) != 0) snprintf(bound, size, "%s", endpoint);
    if (!is_loopback(endpoint) && !stream->has_key) {
        log_warn("stream", "--insecure: %s can be reached from other machines, and whoever reaches it may use it",
                 bound);
    }
}

static bool bind_one(stream *stream, const char *endpoint, server_error *error) {
    bool ipc = strncmp(endpoint, "ipc://", 6) == 0;
    if (!ipc && strncmp(endpoint, "tcp://", 6) != 0) {
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, endpoint, "stream",
                           "an endpoint is tcp://HOST:PORT or ipc://PATH");
    }
    if (!endpoint_can_listen(endpoint)) {
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, endpoint, "stream",
                           "an endpoint has a port from 1 to 65535, or 0 for a free one: tcp://HOST:PORT");
    }
    if (!prepare(stream, endpoint, ipc, error)) return false;
    int cause = endpoint_is_served(endpoint) ? EADDRINUSE : bind_socket(stream, endpoint, ipc);
    if (cause) {
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, endpoint, "stream", "cannot listen here: %s%s",
                           zmq_strerror(cause),
                           cause == EADDRINUSE ? "; is another server running? choose another --stream" : "");
    }
    note_bound(stream, endpoint);
    return true;
}

/* "tcp://127.0.0.1:5555", "ipc:///run/contactd/stream" of a bound socket. False: it is neither. */
static bool name_endpoint(int fd, char *endpoint, size_t size) {
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    char host[64], port[8];
    if (getsockname(fd, (struct sockaddr *)&bound, &length) != 0) return false;
    if (bound.ss_family == AF_UNIX) {
        const char *path = ((const struct sockaddr_un *)&bound)->sun_path;
        return path[0] && snprintf(endpoint, size, "ipc://%s", path) < (int)size;
    }
    if (getnameinfo((struct sockaddr *)&bound, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    return snprintf(endpoint, size, bound.ss_family == AF_INET6 ? "tcp://[%s]:%s" : "tcp://%s:%s", host, port) <
           (int)size;
}

/* The mode of a socket's file is the service manager's business (SocketMode=). */
static bool take_over(stream *stream, int fd, server_error *error) {
    char endpoint[256];
    if (!name_endpoint(fd, endpoint, sizeof endpoint)) {
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, "passed socket", "stream",
                           "it has neither a TCP address nor the path of a socket file");
    }
    if (!prepare(stream, endpoint, strncmp(endpoint, "ipc://", 6) == 0, error)) return false;
    int none = -1;
    bool good =
        zmq_setsockopt(stream->socket, ZMQ_USE_FD, &fd, sizeof fd) == 0 && zmq_bind(stream->socket, endpoint) == 0;
    int cause = zmq_errno();
    zmq_setsockopt(stream->socket, ZMQ_USE_FD, &none, sizeof none);
    if (!good) {
        return server_fail(error, CONTACTD_INVALID_ARGUMENT, endpoint, "stream",
                           "cannot take over the passed socket: %s", zmq_strerror(cause));
    }
    note_bound(stream, endpoint);
    return true;
}

bool stream_bind(stream *stream, server_error *error) {
    const passed_sockets *passed = stream->service->sockets;
    if (passed && passed->n_stream) {
        for (uint32_t i = 0; i < passed->n_stream; i++) {
            if (!take_over(stream, passed->stream[i], error)) return false;
        }
        return true;
    }
    const config_list *list = &stream->service->config->stream;
    for (size_t i = 0; i < list->n; i++) {
        if (!bind_one(stream, list->items[i], error)) return false;
    }
    return true;
}
