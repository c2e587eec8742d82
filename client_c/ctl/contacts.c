/* contacts.c - contactctl contacts: the contacts of a scene's last step, once or again and again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "client_c/ctl/report.h"

enum { HEAD_ROWS = 3 };

typedef struct contacts {
    ctl *ctl;
    uint64_t scene;
    const char *sort; /* a field; NULL: as they stand */
    uint64_t body;    /* 0: of all */
    double interval;
} contacts;

static bool take_options(ctl *ctl, contacts *c) {
    double body = 0;
    *c = (contacts){.ctl = ctl, .sort = ctl->options[OPT_SORT], .interval = 1};
    if (c->sort && strcmp(c->sort, "volume") != 0 && strcmp(c->sort, "depth") != 0 && strcmp(c->sort, "id") != 0) {
        ctl_mistake("--sort is \"%s\", expected volume, depth or id", c->sort);
        return false;
    }
    if (!ctl_number(ctl, OPT_BODY, &body) || !ctl_number(ctl, OPT_INTERVAL, &c->interval)) return false;
    if (ctl->options[OPT_BODY] && !(body >= 1 && body <= UINT32_MAX && body == floor(body))) {
        ctl_mistake("--body is \"%s\", expected the number of a body", ctl->options[OPT_BODY]);
        return false;
    }
    if (!(c->interval > 0 && c->interval <= 86400)) {
        ctl_mistake("--interval is \"%s\", expected more than 0 seconds, 86400 at most", ctl->options[OPT_INTERVAL]);
        return false;
    }
    if (ctl->options[OPT_INTERVAL] && !ctl->options[OPT_WATCH]) {
        ctl_mistake("--interval is given, but no --watch");
        return false;
    }
    c->body = (uint64_t)body;
    return ctl_scene_id(ctl, &c->scene);
}

/* ---- which, and in what order ---- */

static bool is_of(const json_t *contact, uint64_t body) {
    const json_t *bodies = json_object_get(contact, "bodies");
    return !body || (uint64_t)json_integer_value(json_array_get(bodies, 0)) == body ||
           (uint64_t)json_integer_value(json_array_get(bodies, 1)) == body;
}

/* Takes the contacts of other bodies out. */
static void keep_body(json_t *list, uint64_t body) {
    for (size_t i = json_array_size(list); i-- > 0;)
        if (!is_of(json_array_get(list, i), body)) json_array_remove(list, i);
}

typedef struct place {
    double key; /* the largest first */
    size_t index;
    json_t *contact;
} place;

static int compare(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static void sort_by(json_t *list, const char *field) {
    const size_t n = json_array_size(list);
    place *places = malloc((n + 1) * sizeof *places);
    if (!places) return;
    for (size_t i = 0; i < n; i++) {
        json_t *contact = json_array_get(list, i);
        const double value = json_number_value(json_object_get(contact, field));
        places[i] = (place){strcmp(field, "id") == 0 ? -value : value, i, json_incref(contact)};
    }
    qsort(places, n, sizeof *places, compare);
    for (size_t i = 0; i < n; i++) json_array_set_new(list, i, places[i].contact);
    free(places);
}

/* ---- showing ---- */

static size_t most_rows(bool is_live) {
    struct winsize size;
    if (!is_live || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row <= HEAD_ROWS + 2) return SIZE_MAX;
    return (size_t)size.ws_row - HEAD_ROWS - 1;
}

static int show(const contacts *c, bool is_live) {
    json_t *report;
    const int code = ctl_get_report(c->ctl, CONTACTD_REPORT_CONTACTS, c->scene, "contacts", &report);
    if (code != EXIT_OK) return code;
    json_t *list = json_object_get(report, "contacts");
    keep_body(list, c->body);
    if (c->sort) sort_by(list, c->sort);
    json_object_set_new(report, "total", json_integer((json_int_t)json_array_size(list)));
    if (is_live) fputs("\033[H\033[2J", stdout);
    if (c->ctl->json)
        ctl_put_report(report);
    else
        ctl_put_contacts(report, most_rows(is_live));
    json_decref(report);
    return fflush(stdout) == 0 ? EXIT_OK : EXIT_SERVER;
}

int ctl_contacts(ctl *ctl) {
    contacts c;
    if (!take_options(ctl, &c)) return EXIT_USAGE;
    int code = ctl_connect(ctl);
    const bool watches = ctl->options[OPT_WATCH], is_live = watches && !ctl->json && isatty(STDOUT_FILENO);
    const struct timespec wait = {(time_t)c.interval, (long)(1e9 * (c.interval - floor(c.interval)))};
    while (code == EXIT_OK) {
        code = show(&c, is_live);
        if (!watches || code != EXIT_OK) break;
        nanosleep(&wait, NULL);
    }
    return code;
}
