/* top.c - contactctl top: what the server does now, or each of several. All rates and latencies are of the interval
 * between two reports. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "client_c/ctl/keyboard.h"
#include "client_c/ctl/several.h"
#include "client_c/ctl/top_view.h"

enum { HEAD_ROWS = 8, HEAD_ROWS_OF_SEVERAL = 4, DEFAULT_ROWS = 20 };

/* ---- showing ---- */

/* The fields of one server, in an object that is open. */
static void put_fields(const view *v, const rates *r) {
    json_text("server", ctl_text_of(v->status, "server"));
    json_number("uptime_s", json_number_value(json_object_get(v->status, "uptime_s")));
    json_bool("ready", json_is_true(json_object_get(v->status, "ready")));
    json_bool("draining", json_is_true(json_object_get(v->status, "draining")));
    json_number("interval_s", r->seconds);
    json_count("sessions", ctl_count_of(v->status, "sessions"));
    json_count("scenes", ctl_count_of(v->status, "scenes"));
    json_count("bodies", ctl_count_of(v->status, "bodies"));
    json_count("queue_depth", ctl_count_of(v->status, "queue_depth"));
    json_count("queue_capacity", ctl_count_of(v->status, "queue_capacity"));
    json_number("steps_per_s", r->steps);
    json_number("contacts_per_s", r->contacts);
    json_open("lanes", '{');
    for (int i = 0; i < LANES; i++) {
        json_open(top_lane_names[i], '{');
        json_count("depth", v->lanes[i].depth);
        json_count("running", v->lanes[i].running);
        json_number("steps_per_s", r->lanes[i].steps);
        json_number("steps_per_batch", r->lanes[i].per_batch);
        json_open("latency_us", '{');
        json_count("steps", r->lanes[i].answered);
        json_number("mean", r->lanes[i].mean);
        json_number("p50", r->lanes[i].p50);
        json_number("p90", r->lanes[i].p90);
        json_number("p99", r->lanes[i].p99);
        json_close('}');
        json_close('}');
    }
    json_close('}');
    json_open("busiest", '[');
    for (size_t i = 0; i < v->n && i < DEFAULT_ROWS; i++) {
        const scene_row *s = &v->scenes[i];
        json_open(NULL, '{');
        json_count("id", s->id);
        json_text("name", s->name);
        json_text("owner", s->owner);
        json_text("running_method", s->method);
        json_count("bodies", s->bodies);
        json_count("contacts", s->contacts);
        json_count("steps", s->steps);
        json_number("steps_per_s", s->rate);
        json_close('}');
    }
    json_close(']');
    json_open("running", '[');
    const json_t *running = json_object_get(v->status, "running"); /* an older server does not say */
    for (size_t i = 0; i < json_array_size(running); i++) {
        const json_t *row = json_array_get(running, i);
        json_open(NULL, '{');
        json_count("scene", ctl_count_of(row, "scene"));
        json_text("name", ctl_text_of(row, "name"));
        json_text("principal", ctl_text_of(row, "principal"));
        json_text("client", ctl_text_of(row, "client"));
        json_text("command", ctl_text_of(row, "command"));
        json_text("phase", ctl_text_of(row, "phase"));
        json_number("seconds", json_number_value(json_object_get(row, "seconds")));
        json_close('}');
    }
    json_close(']');
}

/* A number of microseconds in eight columns, "-" where there is none. */
static void put_us(double us) {
    if (isnan(us))
        printf(" %8s", "-");
    else
        printf(" %8.0f", us);
}

static size_t rows_for_scenes(bool is_live, size_t head_rows) {
    struct winsize size;
    if (!is_live || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row <= head_rows + 2) return DEFAULT_ROWS;
    return (size_t)size.ws_row - head_rows - 2; /* "and N more", and what put_keys says */
}

static size_t count_running(const view *v) {
    return json_array_size(json_object_get(v->status, "running"));
}

/* What takes long, the longest first, as the server orders it. address: NULL: of one server alone. */
static void put_running(const view *v, const char *address) {
    const json_t *running = json_object_get(v->status, "running");
    for (size_t i = 0; i < json_array_size(running); i++) {
        const json_t *row = json_array_get(running, i);
        if (address) printf("%-28s ", address);
        char scene[24] = "-"; /* a mesh that is read, or a picture that is drawn */
        if (ctl_count_of(row, "scene")) snprintf(scene, sizeof scene, "%" PRIu64, ctl_count_of(row, "scene"));
        printf("%-18s %-16.16s %-16.16s %-24.24s %-13.13s %-24.24s %9.1f\n", scene, ctl_text_of(row, "name"),
               ctl_text_of(row, "principal"), ctl_text_of(row, "client"), ctl_text_of(row, "command"),
               ctl_text_of(row, "phase"), json_number_value(json_object_get(row, "seconds")));
    }
}

static void put_running_head(bool is_several) {
    if (is_several) printf("\n%-28s", "ADDRESS");
    printf("%s%-18s %-16s %-16s %-24s %-13s %-24s %9s\n", is_several ? " " : "\n", "RUNS IN SCENE", "NAME", "PRINCIPAL",
           "CLIENT", "COMMAND", "PHASE", "SECONDS");
}

/* In the order given. */
static void put_scenes(const scene_row *scenes, size_t n, size_t rows, bool is_several) {
    if (is_several) printf("\n%-28s", "ADDRESS");
    printf("%s%-18s %-16s %-24s %-8s %7s %9s %10s\n", is_several ? " " : "\n", "SCENE", "NAME", "OWNER", "METHOD",
           "BODIES", "CONTACTS", "STEPS/s");
    for (size_t i = 0; i < n && i < rows; i++) {
        const scene_row *s = &scenes[i];
        if (is_several) printf("%-28s ", s->address);
        printf("%-18" PRIu64 " %-16.16s %-24.24s %-8s %7u %9u %10.1f\n", s->id, s->name, s->owner, s->method, s->bodies,
               s->contacts, s->rate);
    }
    if (n > rows) printf("and %zu more\n", n - rows);
}

static void put_table(const char *address, const view *v, const rates *r, bool is_live) {
    printf("%s at %s, up %.0f s%s%s\n", ctl_text_of(v->status, "server"), address,
           json_number_value(json_object_get(v->status, "uptime_s")),
           json_is_true(json_object_get(v->status, "ready")) ? "" : ", NOT READY",
           json_is_true(json_object_get(v->status, "draining")) ? ", DRAINING" : "");
    printf("%" PRIu64 " sessions, %" PRIu64 " scenes, %" PRIu64 " bodies; queue %" PRIu64 " of %" PRIu64
           "; %.0f steps/s, %.0f contacts/s\n\n",
           ctl_count_of(v->status, "sessions"), ctl_count_of(v->status, "scenes"), ctl_count_of(v->status, "bodies"),
           ctl_count_of(v->status, "queue_depth"), ctl_count_of(v->status, "queue_capacity"), r->steps, r->contacts);
    printf("%-8s %6s %8s %10s %8s %8s %8s %8s %8s\n", "LANE", "DEPTH", "RUNNING", "STEPS/s", "/BATCH", "MEAN us",
           "P50 us", "P90 us", "P99 us");
    for (int i = 0; i < LANES; i++) {
        printf("%-8s %6" PRIu64 " %8" PRIu64 " %10.0f", top_lane_names[i], v->lanes[i].depth, v->lanes[i].running,
               r->lanes[i].steps);
        if (isnan(r->lanes[i].per_batch))
            printf(" %8s", "-");
        else
            printf(" %8.1f", r->lanes[i].per_batch);
        put_us(r->lanes[i].mean);
        put_us(r->lanes[i].p50);
        put_us(r->lanes[i].p90);
        put_us(r->lanes[i].p99);
        putchar('\n');
    }
    const size_t n_running = count_running(v);
    if (n_running) {
        put_running_head(false);
        put_running(v, NULL);
    }
    put_scenes(v->scenes, v->n, rows_for_scenes(is_live, HEAD_ROWS + (n_running ? n_running + 2 : 0)), false);
}

/* ---- watching ---- */

typedef struct watched { /* a server */
    char *address;
    view last;   /* its scenes are sorted by id; nothing where it did not answer */
    view shown;  /* of this turn: points into last, and its own scenes, sorted by rate */
    rates rates; /* since the turn before */
    bool has_rates;
    bool is_there; /* it is listed, this turn */
} watched;

typedef struct top {
    ctl *ctl;
    ctl_servers servers;
    watched *watched;
    size_t n;
    bool is_live;
    bool has_keys, is_paused, shows_keys, is_over;
    top_order order;
    double looked_s;
} top;

/* NULL: out of memory. */
static watched *watch(top *t, const char *address) {
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->watched[i].address, address) == 0) return &t->watched[i];
    watched *grown = realloc(t->watched, (t->n + 1) * sizeof *grown);
    char *copy = strdup(address);
    if (grown) t->watched = grown;
    if (!grown || !copy) {
        free(copy);
        return NULL;
    }
    t->watched[t->n] = (watched){.address = copy};
    return &t->watched[t->n++];
}

/* One server's next view. An exit code. */
static int look_at(watched *w, ctl_server *server, top_order order) {
    view now;
    int code = top_take_view(&server->ctl, &now);
    free(w->shown.scenes);
    w->shown = (view){0};
    w->has_rates = code == EXIT_OK && w->last.status && top_is_same_server(&w->last, &now);
    if (w->has_rates) {
        w->rates = top_rates_of(&w->last, &now);
        top_rate_scenes(&w->last, &now, w->rates.seconds);
    }
    top_free_view(&w->last);
    w->last = now;
    if (code != EXIT_OK) top_free_view(&w->last);
    if (code != EXIT_OK) return code;
    w->shown = now;
    w->shown.scenes = malloc((now.n + 1) * sizeof *now.scenes);
    if (!w->shown.scenes) return ctl_mistake("out of memory");
    memcpy(w->shown.scenes, now.scenes, now.n * sizeof *now.scenes);
    top_sort(w->shown.scenes, now.n, order);
    for (size_t i = 0; i < now.n; i++) w->shown.scenes[i].address = w->address;
    return EXIT_OK;
}

/* All servers' next views. Of several, one that does not answer is shown as such. */
static int look_at_all(top *t) {
    const bool is_several = t->servers.fleet != NULL;
    for (size_t i = 0; i < t->n; i++) t->watched[i].is_there = t->watched[i].has_rates = false;
    for (size_t i = 0; i < t->servers.n; i++) {
        ctl_server *server = &t->servers.list[i];
        watched *w = watch(t, server->address);
        if (!w) return ctl_mistake("out of memory");
        w->is_there = true;
        /* One that ended just now is not waited for. */
        if (is_several && server->is_up && ctl_reach_address(server->address) == REACH_REFUSED) server->is_up = false;
        int code = server->is_up ? look_at(w, server, t->order) : EXIT_OK;
        if (code != EXIT_OK && !is_several) return code;
        if (code != EXIT_OK) server->is_up = false;
        if (server->is_up) continue;
        contactd_close(&server->ctl.client);
        top_free_view(&w->last);
        free(w->shown.scenes);
        w->shown = (view){0};
    }
    return EXIT_OK;
}

static void put_one_json(const top *t) {
    const watched *w = &t->watched[0];
    json_open(NULL, '{');
    put_fields(&w->shown, &w->rates);
    json_close('}');
}

static void put_all_json(const top *t) {
    json_open(NULL, '{');
    json_open("servers", '[');
    for (size_t i = 0; i < t->n; i++) {
        const watched *w = &t->watched[i];
        if (!w->is_there) continue;
        json_open(NULL, '{');
        json_text("address", w->address);
        json_bool("up", w->shown.status != NULL);
        if (w->has_rates) put_fields(&w->shown, &w->rates);
        json_close('}');
    }
    json_close(']');
    json_close('}');
}

static void put_server_row(const watched *w) {
    const json_t *status = w->shown.status;
    const char *state = !status                                             ? "DOWN"
                        : json_is_true(json_object_get(status, "draining")) ? "DRAINING"
                        : json_is_true(json_object_get(status, "ready"))    ? "ready"
                                                                            : "NOT READY";
    printf("%-28s %-9s", w->address, state);
    if (status)
        printf(" %8.0f %8" PRIu64 " %7" PRIu64 " %7" PRIu64 " %7" PRIu64,
               json_number_value(json_object_get(status, "uptime_s")), ctl_count_of(status, "sessions"),
               ctl_count_of(status, "scenes"), ctl_count_of(status, "bodies"), ctl_count_of(status, "queue_depth"));
    if (w->has_rates) {
        printf(" %9.0f %10.0f", w->rates.steps, w->rates.contacts);
        put_us(w->rates.p50);
        put_us(w->rates.p99);
    }
    putchar('\n');
}

static int put_all_tables(const top *t) {
    size_t n_scenes = 0, n_running = 0, n_rows = HEAD_ROWS_OF_SEVERAL;
    printf("%-28s %-9s %8s %8s %7s %7s %7s %9s %10s %8s %8s\n", "ADDRESS", "STATE", "UP s", "SESSIONS", "SCENES",
           "BODIES", "QUEUE", "STEPS/s", "CONTACTS/s", "P50 us", "P99 us");
    for (size_t i = 0; i < t->n; i++) {
        if (!t->watched[i].is_there) continue;
        put_server_row(&t->watched[i]);
        n_scenes += t->watched[i].shown.n;
        n_running += count_running(&t->watched[i].shown);
        n_rows++;
    }
    if (n_running) {
        put_running_head(true);
        for (size_t i = 0; i < t->n; i++)
            if (t->watched[i].is_there) put_running(&t->watched[i].shown, t->watched[i].address);
        n_rows += n_running + 2;
    }
    scene_row *scenes = malloc((n_scenes + 1) * sizeof *scenes);
    if (!scenes) return ctl_mistake("out of memory");
    n_scenes = 0;
    for (size_t i = 0; i < t->n; i++) {
        const view *v = &t->watched[i].shown;
        if (t->watched[i].is_there && v->n) memcpy(scenes + n_scenes, v->scenes, v->n * sizeof *scenes);
        if (t->watched[i].is_there) n_scenes += v->n;
    }
    top_sort(scenes, n_scenes, t->order);
    put_scenes(scenes, n_scenes, rows_for_scenes(t->is_live, n_rows), true);
    free(scenes);
    return EXIT_OK;
}

static int show(const top *t) {
    int code = EXIT_OK;
    const bool is_several = t->servers.fleet != NULL;
    if (!is_several && !t->watched[0].has_rates) return EXIT_OK; /* it started anew */
    if (t->is_live) fputs("\033[H\033[J", stdout);               /* home, clear */
    if (is_several && t->ctl->json)
        put_all_json(t);
    else if (is_several)
        code = put_all_tables(t);
    else if (t->ctl->json)
        put_one_json(t);
    else
        put_table(t->ctl->server, &t->watched[0].shown, &t->watched[0].rates, t->is_live);
    fflush(stdout);
    return code;
}

static int next_look(top *t) {
    int code = EXIT_OK;
    if (top_now_s() >= t->looked_s + 1) { /* who joined, left or came back */
        code = ctl_servers_look(t->ctl, &t->servers);
        t->looked_s = top_now_s();
    }
    return code == EXIT_OK ? look_at_all(t) : code;
}

/* ---- keys ---- */

static const char keys_text[] =
    "q ends, p pauses, s sorts by rate, bodies, contacts or name, r looks at once, h or ? shows this";

/* In the last line, which tables leave free: what sorts, and whether it stands still. */
static void put_keys(const top *t) {
    static const char *const orders[] = {"rate", "bodies", "contacts", "name"};
    if (t->shows_keys)
        printf("%s\n", keys_text);
    else if (t->is_paused)
        puts("paused: p goes on");
    else if (t->order != TOP_BY_RATE)
        printf("sorted by %s\n", orders[t->order]);
    fflush(stdout);
}

/* Whether the view is to be made anew at once. */
static bool take_key(top *t, int key) {
    switch (key) {
    case 'q':
    case 'Q':
    case 4: /* Ctrl-D */
    case -1:
        t->is_over = true;
        return true;
    case 'p':
    case ' ':
        t->is_paused = !t->is_paused;
        if (t->is_paused) put_keys(t);
        return !t->is_paused;
    case 's':
        t->order = (top_order)((t->order + 1) % (TOP_BY_NAME + 1));
        return !t->is_paused;
    case 'r':
        return true;
    case 'h':
    case '?':
        t->shows_keys = !t->shows_keys;
        if (t->shows_keys) put_keys(t);
        return false;
    default:
        return false;
    }
}

/* Until the next view is due. */
static void wait_for_next(top *t, double seconds) {
    const double until = top_now_s() + seconds;
    if (!t->has_keys) {
        nanosleep(&(struct timespec){(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)}, NULL);
        return;
    }
    for (;;) {
        const double left = until - top_now_s();
        if (left <= 0 && !t->is_paused) return;
        const int key = keyboard_wait(t->is_paused ? -1 : (int)ceil(left * 1000));
        if (key && take_key(t, key)) return;
    }
}

int ctl_top(ctl *ctl) {
    double seconds = 1;
    if (!ctl_number(ctl, OPT_INTERVAL, &seconds)) return EXIT_USAGE;
    if (!(seconds >= 0.01 && seconds <= 3600))
        return ctl_mistake("--interval is %g, expected 0.01 to 3600 seconds", seconds);
    top t = {.ctl = ctl, .is_live = !ctl->json && !ctl->options[OPT_ONCE] && isatty(STDOUT_FILENO)};
    int code = ctl_servers_open(ctl, &t.servers);
    t.looked_s = top_now_s();
    if (code == EXIT_OK) code = look_at_all(&t);
    t.has_keys = code == EXIT_OK && t.is_live && keyboard_open();
    while (code == EXIT_OK && !ferror(stdout)) {
        wait_for_next(&t, seconds);
        if (t.is_over) break;
        code = next_look(&t);
        if (code == EXIT_OK) code = show(&t);
        if (code == EXIT_OK && t.has_keys) put_keys(&t);
        if (ctl->options[OPT_ONCE]) break;
    }
    keyboard_close();
    for (size_t i = 0; i < t.n; i++) {
        free(t.watched[i].address);
        free(t.watched[i].shown.scenes);
        top_free_view(&t.watched[i].last);
    }
    free(t.watched);
    ctl_servers_close(&t.servers);
    return code;
}
