/* doctor.c - contactctl doctor: is there a server, does it speak our protocol, is it ready, does it compute right - and
 * if not, what to do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/ctl/ctl.h"

static void begin(const ctl *ctl) {
    if (ctl->json) {
        json_open(NULL, '{');
        json_text("server", ctl->server);
        json_open("checks", '[');
    }
}

/* One finding: what was looked at, whether it is well, what was seen, and what to do where it is not. */
static void finding(const ctl *ctl, const char *check, bool ok, const char *seen, const char *remedy) {
    if (ctl->json) {
        json_open(NULL, '{');
        json_text("check", check);
        json_bool("ok", ok);
        json_text("seen", seen);
        json_text("remedy", ok ? "" : remedy);
        json_close('}');
        return;
    }
    printf("%-6s %-12s %s\n", ok ? "ok" : "FAILED", check, seen);
    if (!ok && *remedy) printf("       %-12s -> %s\n", "", remedy);
}

static int end(const ctl *ctl, int code) {
    if (ctl->json) {
        json_close(']');
        json_bool("ok", code == EXIT_OK);
        json_close('}');
    } else {
        puts(code == EXIT_OK ? "all is well" : "not well: see above");
    }
    return code;
}

static const char start_it[] =
    "start contactd, or give its address with --server or CONTACTD_SERVER; a server on another machine listens there "
    "only if started with --stream tcp://0.0.0.0:5555";

static int check_reach(ctl *ctl) {
    char seen[700];
    contactd_options options;
    ctl_connect_options(ctl, &options);
    options.name = "contactctl doctor";
    contactd_error error;
    if (ctl_is_refused(ctl->server, seen, sizeof seen)) {
        finding(ctl, "connection", false, seen, start_it);
        return EXIT_UNREACHABLE;
    }
    contactd_code code = contactd_connect(&options, &ctl->client, &error);
    if (code == CONTACTD_OK) {
        contactd_server server;
        contactd_get_server(ctl->client, &server);
        snprintf(seen, sizeof seen, "%s at %s", server.server, ctl->server);
        finding(ctl, "connection", true, seen, "");
        snprintf(seen, sizeof seen, "protocol %u; server %s, this program %s", server.protocol, server.server,
                 CONTACTD_VERSION);
        finding(ctl, "version", true, seen, "");
        return EXIT_OK;
    }
    if (code == CONTACTD_VERSION_MISMATCH) {
        finding(ctl, "version", false, error.message, "install the same release of contactd on both sides");
        return EXIT_SERVER;
    }
    if (code == CONTACTD_UNAUTHENTICATED) {
        finding(
            ctl, "connection", false, error.message,
            "give --server-key and --client-key, and add the key's line (contactctl keys new) to the server's list of "
            "principals");
        return EXIT_REFUSED;
    }
    const char *how = code == CONTACTD_UNREACHABLE ? ctl_reach_text(ctl_reach_address(ctl->server)) : NULL;
    snprintf(seen, sizeof seen, "%s%s%s", error.message, how ? "; " : "", how ? how : "");
    finding(ctl, "connection", false, seen,
            how && strncmp(how, "something", 9) == 0
                ? "give the stream port (contactd --stream), not the HTTP port, with --server"
                : start_it);
    return code == CONTACTD_INVALID_ARGUMENT ? EXIT_USAGE : EXIT_UNREACHABLE;
}

static int check_ready(ctl *ctl) {
    char seen[512];
    contactd_status s;
    if (contactd_get_status(ctl->client, &s)) {
        finding(ctl, "readiness", false, contactd_last_error(ctl->client)->message, "look into the server's log");
        return EXIT_SERVER;
    }
    snprintf(seen, sizeof seen, "%s%s",
             s.ready ? "ready on backend " : "not ready: ", s.ready ? s.backend : s.ready_reason);
    finding(ctl, "readiness", s.ready, seen,
            "the requested backend does not run there: look into the server's log, or start it with --backend auto");
    bool room = s.mesh_bytes < s.mesh_bytes_limit - s.mesh_bytes_limit / 10;
    snprintf(seen, sizeof seen, "meshes take %llu of %llu MiB", (unsigned long long)(s.mesh_bytes >> 20),
             (unsigned long long)(s.mesh_bytes_limit >> 20));
    finding(ctl, "memory", room, seen,
            "remove meshes that no one uses (contactctl mesh list, mesh rm), or raise the limit");
    bool queue = s.queue_depth < s.queue_capacity;
    snprintf(seen, sizeof seen, "%u of %u places taken", s.queue_depth, s.queue_capacity);
    finding(ctl, "queue", queue, seen, "the server has more work than it can do: fewer clients, or another server");
    return s.ready && room && queue ? EXIT_OK : EXIT_SERVER;
}

/* Two unit boxes whose intersection is known exactly. */
static int check_step(ctl *ctl) {
    const double pose[12] = {1, 0, 0, 0.5, 0, 1, 0, 0.25, 0, 0, 1, 0.125}, expected = 0.5 * 0.75 * 0.875;
    char seen[256];
    contactd_mesh box;
    contactd_scene scene;
    contactd_body a, b;
    contactd_body_options rigid;
    const contactd_result *result;
    if (ctl_register_box(ctl, "doctor box", (const double[]){0, 0, 0}, (const double[]){1, 1, 1}, &box))
        return EXIT_SERVER;
    contactd_body_options_init(&rigid);
    rigid.rigid = true;
    contactd_code code = contactd_open_scene(ctl->client, "contactctl doctor", NULL, &scene);
    if (code == CONTACTD_OK) code = contactd_add_body(ctl->client, scene, box, &rigid, &a);
    memcpy(rigid.pose, pose, sizeof pose);
    if (code == CONTACTD_OK) code = contactd_add_body(ctl->client, scene, box, &rigid, &b);
    if (code == CONTACTD_OK) code = contactd_step(ctl->client, scene, NULL, 0, NULL, &result);
    if (code != CONTACTD_OK) {
        finding(ctl, "step", false, contactd_last_error(ctl->client)->message, "look into the server's log");
        return EXIT_SERVER;
    }
    double volume = result->n_contacts == 1 ? result->contacts[0].volume : NAN;
    bool right = fabs(volume - expected) < 1e-6 * expected;
    snprintf(seen, sizeof seen, "two boxes share %.9g m^3, expected %.9g, in %.0f us", volume, expected,
             result->latency_us);
    finding(ctl, "step", right, seen,
            "the backend computes wrongly: start the server with --backend cpu, and report this");
    return right ? EXIT_OK : EXIT_SERVER;
}

int ctl_doctor(ctl *ctl) {
    begin(ctl);
    int code = check_reach(ctl);
    if (code != EXIT_OK) return end(ctl, code);
    int ready = check_ready(ctl), step = check_step(ctl);
    return end(ctl, ready != EXIT_OK ? ready : step);
}
