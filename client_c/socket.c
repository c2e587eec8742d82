/* socket.c - the client's socket: connecting, sending, receiving, and requests with their answers. */
#include "client_c/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/flight.h"
#include "client_c/greeting.h"
#include "client_c/keys.h"
#include "client_c/servers.h"
#include "client_c/silence.h"
#include "proto/endpoint.h"

#define HANDSHAKE_FAILED                                                                                               \
    (ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)

/* The status code of ZAP by which the server says that it looks at no attempt from this address now, and for how long
 * it does so. */
enum { ZAP_THROTTLED = 500 };
#define THROTTLED_NS UINT64_C(3000000000)

enum { SLICE_MS = 20 }; /* how often the socket monitor is read while no message comes */

static void set_int(void *socket, int option, int value) {
    zmq_setsockopt(socket, option, &value, sizeof value);
}

contactd_code ctc_socket_open(contactd_client *client, const contactd_options *options) {
    client->context = zmq_ctx_new();
    if (client->context) {
        client->socket = zmq_socket(client->context, ZMQ_DEALER);
        client->monitor = zmq_socket(client->context, ZMQ_PAIR);
    }
    if (!client->context || !client->socket || !client->monitor)
        return ctc_fail(client, CONTACTD_OUT_OF_MEMORY, "client", "", "no socket: %s", zmq_strerror(zmq_errno()));
    set_int(client->socket, ZMQ_LINGER, 0);
    set_int(client->monitor, ZMQ_LINGER, 0);
    /* Only for such an address: with it, a name that has addresses of both kinds is looked up as IPv6 first. */
    if (strchr(client->servers.sources ? client->servers.sources : client->address, '['))
        set_int(client->socket, ZMQ_IPV6, 1);
    set_int(client->socket, ZMQ_IMMEDIATE, 1); /* nothing queues for a server that is not there */
    set_int(client->socket, ZMQ_SNDHWM, 256);
    /* No high-water mark: what a client has in flight bounds its answers. Where a mark stops the input while the
     * simulator computes, ZeroMQ does not see its heartbeats answered, and libzmq 4.3 may end the process over that. */
    set_int(client->socket, ZMQ_RCVHWM, 0);
    ctc_silence_note(client, -1);
    ctc_silence_prepare(client, client->address);
    set_int(client->socket, ZMQ_RECONNECT_IVL, 20 + (int)(60 * ctc_random(client))); /* ZeroMQ adds its own jitter */
    set_int(client->socket, ZMQ_RECONNECT_IVL_MAX, 1000);
    set_int(client->socket, ZMQ_RCVTIMEO, SLICE_MS);
    if (zmq_socket_monitor(client->socket, "inproc://monitor",
                           ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                               ZMQ_EVENT_CONNECT_RETRIED | HANDSHAKE_FAILED) ||
        zmq_connect(client->monitor, "inproc://monitor"))
        return ctc_fail(client, CONTACTD_INTERNAL, "client", "", "no socket monitor: %s", zmq_strerror(zmq_errno()));
    contactd_code code = ctc_keys_set(client, options->server_key, options->client_key);
    if (code != CONTACTD_OK) return code;
    const bool has_port = endpoint_has_port(client->address, 1);
    if (!has_port || zmq_connect(client->socket, client->address))
        return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "client", "server",
                        "%s is not an address to connect to (%s); expected HOST:PORT, tcp://HOST:PORT or ipc://PATH",
                        client->address, has_port ? zmq_strerror(zmq_errno()) : "its port is none of 1 to 65535");
    return CONTACTD_OK;
}

void ctc_socket_close(contactd_client *client) {
    if (client->incoming) ctc_received_close(client->incoming);
    ctc_greeting_close(&client->greeting);
    if (client->socket) zmq_socket_monitor(client->socket, NULL, 0);
    if (client->monitor) zmq_close(client->monitor);
    if (client->socket) zmq_close(client->socket);
    while (client->context && zmq_ctx_term(client->context) && zmq_errno() == EINTR) {
    }
    free(client->welcome_text);
}

/* ZeroMQ gives up a connection that was refused for a reason. It is made again for the next call, as the server's list
 * may be another one by then. */
static void note_failed_handshake(contactd_client *client, uint16_t kind, uint32_t value) {
    client->refused++;
    client->is_throttled = kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH && value == ZAP_THROTTLED;
    if (kind == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) {
        ctc_greeting_ask(client);
        return;
    }
    if (client->is_throttled) {
        client->breaks++; /* what was sent is lost with the connection, and sent again on the next */
        client->reconnect_ns = ctc_now() + THROTTLED_NS;
        zmq_disconnect(client->socket, client->address);
        return;
    }
    client->unauthenticated =
        kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH || value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH;
    client->asks_other = kind == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
    if (client->servers.sources) return;
    zmq_disconnect(client->socket, client->address);
    zmq_connect(client->socket, client->address);
}

static void reconnect(contactd_client *client) {
    client->reconnect_ns = 0;
    zmq_connect(client->socket, client->address);
}

static contactd_code fail_unauthenticated(contactd_client *client) {
    const char *why = !client->asks_other
                          ? "it does not know this client's key: the public key belongs into the list of "
                            "principals that it was started with (--principals)"
                      : client->has_keys ? "it does not encrypt: leave out server_key and client_key, or start it with "
                                           "--stream-key"
                                         : "it asks for a key: give server_key and client_key";
    return ctc_fail(client, CONTACTD_UNAUTHENTICATED, "client", client->has_keys ? "client_key" : "server_key",
                    "%s refuses the connection: %s", client->address, why);
}

/* An event of the connection that was left may be read after the client went elsewhere. */
static bool is_of_left_server(const contactd_client *client, zmq_msg_t *address) {
    size_t size = zmq_msg_size(address);
    return client->left_address && strcmp(client->left_address, client->address) != 0 &&
           strlen(client->left_address) == size && memcmp(zmq_msg_data(address), client->left_address, size) == 0;
}

/* Reads the socket monitor's events: connections made, lost, refused. */
void ctc_drain_monitor(contactd_client *client) {
    if (client->reconnect_ns && ctc_now() >= client->reconnect_ns) reconnect(client);
    if (ctc_greeting_names_other(client) && !client->connected) client->unauthenticated = client->asks_other = true;
    for (;;) {
        zmq_msg_t event, address;
        zmq_msg_init(&event);
        if (zmq_msg_recv(&event, client->monitor, ZMQ_DONTWAIT) < 2) {
            zmq_msg_close(&event);
            return;
        }
        uint16_t kind;
        uint32_t value = 0;
        memcpy(&kind, zmq_msg_data(&event), sizeof kind);
        if (zmq_msg_size(&event) >= 6) memcpy(&value, (const char *)zmq_msg_data(&event) + 2, sizeof value);
        bool more = zmq_msg_more(&event);
        zmq_msg_close(&event);
        bool is_late = false;
        if (more) {
            zmq_msg_init(&address);
            is_late = zmq_msg_recv(&address, client->monitor, ZMQ_DONTWAIT) >= 0 && is_of_left_server(client, &address);
            zmq_msg_close(&address);
        }
        if (is_late) continue;
        if (kind == ZMQ_EVENT_CONNECTED) {
            ctc_silence_note(client, (int)value);
            client->is_heard = true;
            continue;
        }
        if (kind == ZMQ_EVENT_CONNECT_RETRIED) { /* nothing listens there, or the connection ended */
            client->retries++;
            client->is_heard = false;
            continue;
        }
        if (kind & HANDSHAKE_FAILED) {
            note_failed_handshake(client, kind, value);
            continue;
        }
        client->connected = kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
        client->retries = 0;
        client->servers.down_ns = 0;
        if (client->connected && client->awaits_handshake) {
            /* ZeroMQ ends the old connection in its own thread, before it makes the new one, but the socket learns of
             * that only when it looks at its commands, as here. */
            int events;
            size_t size = sizeof events;
            zmq_getsockopt(client->socket, ZMQ_EVENTS, &events, &size);
            client->awaits_handshake = false;
        }
        if (client->connected) {
            client->unauthenticated = client->is_throttled = client->greeting.is_asked = false;
            continue;
        }
        client->breaks++;
        ctc_silence_note(client, -1);
        /* ZeroMQ says so before it takes the connection's pipe away, which would swallow a message that nothing then
         * takes for lost: the break was known when it was sent. */
        if (client->greeted) client->awaits_handshake = true;
    }
}

contactd_code ctc_timed_out(contactd_client *client, const char *object, const char *waiting_for) {
    if (client->unauthenticated) return fail_unauthenticated(client);
    if (!client->connected && client->is_throttled)
        return ctc_fail(client, CONTACTD_UNREACHABLE, object, "timeout_ms",
                        "%s: too many attempts from this address failed: it asks to wait 3 s, which is more than the "
                        "call had left; try again then",
                        client->address);
    if (!client->connected && client->refused && client->has_keys)
        return ctc_fail(
            client, CONTACTD_UNREACHABLE, object, "timeout_ms",
            "%s ends the encrypted handshake: check server_key, the server's public key, and that a contactd "
            "listens there",
            client->address);
    if (!client->connected && client->refused && !client->greeted)
        return ctc_fail(client, CONTACTD_UNREACHABLE, object, "timeout_ms",
                        "what listens at %s ends connections before it greets as ZeroMQ does: it is the HTTP port, or "
                        "passes them on to a server that is down",
                        client->address);
    if (!client->connected && client->is_heard && !client->greeted)
        return ctc_fail(
            client, CONTACTD_UNREACHABLE, object, "timeout_ms",
            "what listens at %s did not greet as ZeroMQ does within %u ms: it is the HTTP port, or a server that hangs",
            client->address, client->timeout_ms);
    if (!client->connected)
        return ctc_fail(client, CONTACTD_UNREACHABLE, object, "timeout_ms",
                        "no contactd answers at %s: %s after %u ms; check that the server runs and listens there",
                        client->address, client->greeted ? "connection lost, not back" : "no connection",
                        client->timeout_ms);
    if (client->strangers)
        return ctc_fail(client, CONTACTD_UNREACHABLE, object, "timeout_ms",
                        "%s answers, but not in contactd's protocol (%llu such messages)", client->address,
                        (unsigned long long)client->strangers);
    return ctc_fail(client, CONTACTD_DEADLINE_EXCEEDED, object, "timeout_ms", "%s did not come from %s within %u ms",
                    waiting_for, client->address, client->timeout_ms);
}

/* ---- sending ---- */

static void hello_sent(void *data, void *hint) { /* on the ZeroMQ thread */
    contactd_client *client = hint;
    wire_zmq_thread_register(&client->zmq_thread);
    free(data);
}

/* A frame that the ZeroMQ thread frees, which registers that thread. */
static bool make_hello(contactd_client *client, zmq_msg_t *to, const wire_frame *from) {
    void *data = malloc(from->size);
    if (!data) return false;
    memcpy(data, from->data, from->size);
    if (zmq_msg_init_data(to, data, from->size, hello_sent, client) == 0) return true;
    free(data);
    return false;
}

/* The frame's content: shared where a step holds it in a message, copied otherwise. */
static bool make_frame(zmq_msg_t *to, const wire_frame *from, ctc_step *step) {
    for (size_t i = 0; step && i < step->n_large; i++)
        if (zmq_msg_data(&step->large[i]) == from->data) {
            zmq_msg_init(to);
            return zmq_msg_copy(to, &step->large[i]) == 0;
        }
    if (zmq_msg_init_size(to, from->size)) return false;
    if (from->size) memcpy(zmq_msg_data(to), from->data, from->size);
    return true;
}

/* All frames of a message. None is sent before all are made: what is sent next would be taken for the rest of half a
 * message. */
typedef struct outgoing {
    zmq_msg_t frames[1 + WIRE_MAX_FRAMES];
    size_t n, sent;
} outgoing;

/* What was sent is ZeroMQ's. */
static void close_rest(outgoing *o) {
    for (; o->sent < o->n; o->sent++) zmq_msg_close(&o->frames[o->sent]);
}

static bool make_frames(contactd_client *client, outgoing *o, const wire_encoded *encoded, bool is_hello,
                        ctc_step *step) {
    for (o->n = o->sent = 0; o->n < encoded->n_frames; o->n++) {
        zmq_msg_t *to = &o->frames[o->n];
        const wire_frame *from = &encoded->frames[o->n];
        if (is_hello ? make_hello(client, to, from) : make_frame(to, from, step)) continue;
        close_rest(o);
        return false;
    }
    return true;
}

/* Waits a moment for the connection, or for room in it. OK: to be tried again. */
static contactd_code wait_for_room(contactd_client *client, bool is_held) {
    uint64_t now = ctc_now();
    ctc_drain_monitor(client);
    ctc_servers_tend(client);
    if (client->unauthenticated) return fail_unauthenticated(client);
    if (now >= client->deadline_ns) return ctc_timed_out(client, "server", "room to send");
    uint64_t left = (client->deadline_ns - now) / 1000000u + 1;
    zmq_pollitem_t item = {.socket = is_held ? client->monitor : client->socket,
                           .events = is_held ? ZMQ_POLLIN : ZMQ_POLLOUT};
    zmq_poll(&item, 1, left < SLICE_MS ? (long)left : SLICE_MS);
    return CONTACTD_OK;
}

static contactd_code send_frames(contactd_client *client, outgoing *o, bool wait) {
    while (o->sent < o->n) {
        int flags = (o->sent + 1 < o->n ? ZMQ_SNDMORE : 0) | (o->sent == 0 ? ZMQ_DONTWAIT : 0);
        bool is_held = client->awaits_handshake && o->sent == 0;
        if (!is_held && zmq_msg_send(&o->frames[o->sent], client->socket, flags) >= 0) {
            o->sent++;
            continue;
        }
        int why = is_held ? EAGAIN : zmq_errno();
        if (why == EINTR) continue;
        if (why != EAGAIN)
            return ctc_fail(client, CONTACTD_INTERNAL, "client", "", "sending failed: %s", zmq_strerror(why));
        if (!wait) return CONTACTD_BUSY;
        contactd_code code = wait_for_room(client, is_held);
        if (code != CONTACTD_OK) return code;
    }
    return CONTACTD_OK;
}

static uint64_t bytes_of(const wire_encoded *encoded) {
    uint64_t total = 0;
    for (size_t i = 0; i < encoded->n_frames; i++)
        if (__builtin_add_overflow(total, encoded->frames[i].size, &total)) return UINT64_MAX;
    return total;
}

contactd_code ctc_send(contactd_client *client, wire_message *m, ctc_step *step, bool wait) {
    m->request = step && step->request ? step->request : ++client->request;
    m->session = client->session;
    m->epoch = client->epoch;
    m->traceparent = client->traceparent[0] ? client->traceparent : NULL;
    if (m->type == WIRE_HELLO) m->session = m->epoch = 0;
    wire_encoded encoded;
    outgoing o;
    if (!wire_encode(client->encoder, m, WIRE_INLINE_BYTES, &encoded)) return ctc_no_memory(client, "the request");
    const uint64_t total = bytes_of(&encoded), most = client->greeted ? client->welcome.max_message_bytes : 0;
    if (most && total > most)
        return ctc_fail(client, CONTACTD_TOO_LARGE, wire_type_name(m->type), "",
                        "the message has %llu bytes; this server accepts %llu (its option --max-message)",
                        (unsigned long long)total, (unsigned long long)most);
    if (!make_frames(client, &o, &encoded, m->type == WIRE_HELLO, step)) return ctc_no_memory(client, "the request");
    contactd_code code = send_frames(client, &o, wait);
    close_rest(&o);
    return code;
}

/* ---- receiving ---- */

/* There is no memory to decode an answer. Steps are sent again, as the server keeps their answers: their number is not
 * used twice. Any other request ends with an error, in ctc_exchange. True: client->message is that error. */
static bool note_lost_answer(contactd_client *client, uint64_t request) {
    bool is_step = ctc_step_of_request(client, request) != NULL;
    ctc_resend_steps(client, is_step ? request : 0);
    if (is_step) return false;
    client->has_lost_answer = true;
    client->message = (wire_message){.request = request, .type = WIRE_ERROR};
    client->message.u.error = (wire_error){.code = CONTACTD_OUT_OF_MEMORY,
                                           .object = "client",
                                           .field = "answer",
                                           .message = "no memory to decode the server's answer",
                                           .successors = ""};
    return request != 0;
}

/* One whole message into client->incoming, decoded into client->message. False: nothing came, or nothing of use. */
static bool receive(contactd_client *client, int flags) {
    ctc_received *r = client->incoming;
    ctc_received_close(r);
    for (;;) {
        zmq_msg_t extra, *frame = r->n < 1 + WIRE_MAX_FRAMES ? &r->frames[r->n] : &extra;
        zmq_msg_init(frame);
        if (zmq_msg_recv(frame, client->socket, r->n ? 0 : flags) < 0) {
            zmq_msg_close(frame);
            return false;
        }
        bool more = zmq_msg_more(frame);
        if (frame == &extra)
            zmq_msg_close(frame);
        else
            r->n++;
        if (!more) break;
    }
    wire_frame frames[1 + WIRE_MAX_FRAMES];
    for (size_t i = 0; i < r->n; i++)
        frames[i] = (wire_frame){zmq_msg_data(&r->frames[i]), zmq_msg_size(&r->frames[i])};
    wire_fault fault;
    if (wire_decode(frames, r->n, client->scratch, &client->message, &fault)) return true;
    if (fault.code == CONTACTD_OUT_OF_MEMORY) return note_lost_answer(client, fault.request);
    client->strangers++;
    if (fault.request == 0) return false;
    /* A request waits for this answer: end it at once with an error. */
    client->message = (wire_message){.request = fault.request, .type = WIRE_ERROR};
    client->message.u.error = (wire_error){.code = CONTACTD_INTERNAL,
                                           .object = "server",
                                           .field = "answer",
                                           .message = "the server's answer could not be understood",
                                           .successors = ""};
    return true;
}

/* Busy-polls for a message while this wait may spin. False: none came. */
static bool spin(contactd_client *client, uint64_t now, uint64_t until_ns) {
    if (!client->waiting_ns) {
        client->waiting_ns = now;
        client->spin_ns = now + wire_spin_begin(&client->spin);
        if (client->spin.spins) wire_zmq_thread_set_batch(&client->zmq_thread, true);
    }
    if (until_ns > client->spin_ns) until_ns = client->spin_ns;
    for (; now < until_ns; now = ctc_now()) {
        if (receive(client, ZMQ_DONTWAIT)) return true;
        wire_spin_pause();
    }
    return false;
}

static bool sleep_for_message(contactd_client *client, uint64_t until_ns) {
    uint64_t now = ctc_now();
    wire_zmq_thread_set_batch(&client->zmq_thread, false);
    bool brief = until_ns < now + SLICE_MS * 1000000u;
    if (brief) set_int(client->socket, ZMQ_RCVTIMEO, until_ns > now ? (int)((until_ns - now) / 1000000u) + 1 : 0);
    bool got = receive(client, 0);
    if (brief) set_int(client->socket, ZMQ_RCVTIMEO, SLICE_MS);
    return got;
}

ctc_event ctc_pump(contactd_client *client, uint64_t request, uint64_t until_ns) {
    bool got = spin(client, ctc_now(), until_ns) || sleep_for_message(client, until_ns);
    if (got && client->waiting_ns) {
        wire_spin_end(&client->spin, ctc_now() - client->waiting_ns);
        client->waiting_ns = 0;
    }
    if (!got) {
        ctc_drain_monitor(client);
        ctc_silence_look(client, ctc_now());
        ctc_servers_tend(client);
        return CTC_NOTHING;
    }
    if (!client->connected) ctc_drain_monitor(client);
    if (client->message.type == WIRE_ERROR && *client->message.u.error.successors)
        ctc_servers_learn(client, client->message.u.error.successors);
    if (client->message.type == WIRE_ERROR && client->message.u.error.code == CONTACTD_SHUTTING_DOWN)
        client->is_end_announced = true;
    if (request && client->message.request == request) return CTC_ANSWER;
    ctc_step *step = ctc_step_of_request(client, client->message.request);
    if (step) ctc_step_answered(client, step);
    return CTC_OTHER;
}
