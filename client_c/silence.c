/* silence.c - see silence.h. The kernel counts the bytes that came, and those that the other side has taken. */
#include "client_c/silence.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define LOOK_NS   SECOND_NS       /* between two looks; whoever looks less often has not been watching */
#define SILENT_NS (5 * SECOND_NS) /* libzmq asks for a sign of life every second */
/* That were taken: fewer may be questions for a sign of life, which the kernel of a server that hangs takes, too. */
#define MOVED_BYTES 4096
/* At least, of what was sent and is on its way behind the other side's kernel, as in a tunnel. */
#define BYTES_PER_S 65536

enum { HEARTBEAT_MS = 1000, HEARTBEAT_TIMEOUT_MS = 5000 };

/* False: it has ended, it is none over TCP, or the system does not count. */
static bool get_info(int fd, struct tcp_info *info) {
    socklen_t size = sizeof *info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &size) == 0 &&
           size >= offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info->tcpi_bytes_received;
}

static uint64_t cookie_of(int fd) {
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

static bool can_be_told(void) {
    struct tcp_info info;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool can = fd >= 0 && get_info(fd, &info) && cookie_of(fd);
    if (fd >= 0) close(fd);
    return can;
}

void ctc_silence_prepare(contactd_client *client, const char *address) {
    const bool watches = strncmp(address, "tcp://", 6) == 0 && can_be_told();
    const int every = HEARTBEAT_MS, timeout = watches ? 0 : HEARTBEAT_TIMEOUT_MS;
    zmq_setsockopt(client->socket, ZMQ_HEARTBEAT_IVL, &every, sizeof every);
    zmq_setsockopt(client->socket, ZMQ_HEARTBEAT_TIMEOUT, &timeout, sizeof timeout);
}

void ctc_silence_note(contactd_client *client, int fd) {
    client->silence = (ctc_silence){.fd = fd, .cookie = fd >= 0 ? cookie_of(fd) : 0};
}

/* libzmq then sees the end of the connection. It may have closed the descriptor meanwhile, which may be another's. */
static void end(const ctc_silence *silence) {
    const int copy = dup(silence->fd); /* so that it cannot be reused during the comparison */
    if (copy < 0) return;
    if (silence->cookie && cookie_of(copy) == silence->cookie) shutdown(copy, SHUT_RDWR);
    close(copy);
}

void ctc_silence_look(contactd_client *client, uint64_t now) {
    ctc_silence *s = &client->silence;
    struct tcp_info info;
    if (!client->connected || s->fd < 0 || now - s->looked_ns < LOOK_NS || !get_info(s->fd, &info)) return;
    if (info.tcpi_bytes_received != s->received || now - s->looked_ns > 3 * LOOK_NS) {
        s->moved_ns = now;
        s->taken = s->taken_then = info.tcpi_bytes_acked;
    } else if (info.tcpi_bytes_acked - s->taken >= MOVED_BYTES) {
        s->moved_ns = now;
        s->taken = info.tcpi_bytes_acked;
    }
    s->looked_ns = now;
    s->received = info.tcpi_bytes_received;
    const uint64_t on_its_way = info.tcpi_unacked ? 0 : s->taken - s->taken_then;
    if (now - s->moved_ns < SILENT_NS + on_its_way / BYTES_PER_S * SECOND_NS) return;
    end(s);
    ctc_silence_note(client, -1);
}
