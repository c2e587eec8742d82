/* judge.c - contactctl judge: how deep the bodies of a trajectory are inside each other, by exact intersection volumes.
 *
 * What it says of a trajectory is what contactd.judge of the Python client says (client_py/contactd/_judge.py). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/ctl/progress.h"
#include "client_c/ctl/trajectory.h"

enum { MOST_BODIES = 255, AHEAD = 16 }; /* AHEAD: frames that the server computes together */

typedef struct measure {  /* of a pair of bodies in a frame */
    double volume, depth; /* m^3; m, of the deepest patch */
    uint32_t patches;
    bool is_nested;
} measure;

typedef struct pair_summary {
    measure most; /* the largest of each, over all frames */
    double deepest_time;
    size_t frames; /* in contact */
    size_t a, b;
} pair_summary;

typedef struct worst {
    measure measure;
    size_t frame, a, b;
    bool is_there;
} worst;

typedef struct mesh_file {
    char name[96];
    const char *path;
    unsigned char *bytes;
    size_t size;
} mesh_file;

typedef struct judge {
    ctl *ctl;
    double limit; /* m; NaN: none */
    mesh_file files[MOST_BODIES];
    const char *names[MOST_BODIES]; /* [n] of files */
    size_t n;
    bool is_ignored[MOST_BODIES][MOST_BODIES];
    ctl_trajectory track;
    contactd_scene scenes[AHEAD]; /* [n_scenes], alike; a frame in flight has one of its own */
    size_t n_scenes;
    contactd_update *updates; /* [n] */
    pair_summary *pairs;      /* [n][n] */
    worst worst;
} judge;

static int no_memory(void) {
    ctl_say("out of memory");
    return EXIT_SERVER;
}

/* ---- the command line ---- */

/* NAME=FILE, or FILE, whose name is then the file's without its suffix. */
static int take_mesh(judge *j, const char *word) {
    mesh_file *file = &j->files[j->n];
    const char *equals = strchr(word, '='), *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;
    size_t length = strcspn(name, ".");
    if (length == 0) length = strlen(name);
    if (equals) name = word, length = (size_t)(equals - word);
    if (length == 0 || length >= sizeof file->name)
        return ctl_mistake("\"%s\" names no body: expected NAME=FILE, with a name of up to %zu bytes", word,
                           sizeof file->name - 1);
    memcpy(file->name, name, length);
    file->path = equals ? equals + 1 : word;
    for (size_t k = 0; k < j->n; k++)
        if (strcmp(j->names[k], file->name) == 0)
            return ctl_mistake("two bodies are named %s: give each a name, NAME=FILE", file->name);
    j->names[j->n++] = file->name;
    return ctl_read_mesh(file->path, &file->bytes, &file->size) ? EXIT_OK : EXIT_USAGE;
}

static int find_body(const judge *j, const char *name, size_t length) {
    for (size_t k = 0; k < j->n; k++)
        if (strlen(j->names[k]) == length && memcmp(j->names[k], name, length) == 0) return (int)k;
    ctl_mistake("--ignore: there is no body \"%.*s\"", (int)length, name);
    return -1;
}

/* Pairs "A,B C,D". */
static int take_ignored(judge *j) {
    const char *at = j->ctl->options[OPT_IGNORE];
    while (at && *(at += strspn(at, " "))) {
        const size_t length = strcspn(at, " ");
        const char *comma = memchr(at, ',', length);
        if (!comma || memchr(comma + 1, ',', length - (size_t)(comma + 1 - at)))
            return ctl_mistake("--ignore is \"%s\", expected pairs of names: \"A,B\" or \"A,B C,D\"",
                               j->ctl->options[OPT_IGNORE]);
        const int a = find_body(j, at, (size_t)(comma - at));
        const int b = a < 0 ? -1 : find_body(j, comma + 1, length - (size_t)(comma + 1 - at));
        if (b < 0) return EXIT_USAGE;
        j->is_ignored[a][b] = j->is_ignored[b][a] = true;
        at += length;
    }
    return EXIT_OK;
}

static int take_line(judge *j) {
    j->limit = NAN;
    if (!ctl_number(j->ctl, OPT_LIMIT, &j->limit)) return EXIT_USAGE;
    if (j->limit < 0) return ctl_mistake("--limit is %g, expected a depth >= 0 in m", j->limit);
    for (int k = 1; k < j->ctl->n_args; k++) {
        const int code = take_mesh(j, j->ctl->args[k]);
        if (code != EXIT_OK) return code;
    }
    const int code = take_ignored(j);
    return code == EXIT_OK ? ctl_read_trajectory(j->ctl->args[0], j->names, j->n, &j->track) : code;
}

/* ---- scenes ---- */

static int add_bodies(judge *j, contactd_scene scene, const contactd_mesh_options *making) {
    contactd_body bodies[MOST_BODIES], ignore[MOST_BODIES];
    for (size_t k = 0; k < j->n; k++) {
        const mesh_file *file = &j->files[k];
        contactd_mesh mesh;
        contactd_body_options options;
        contactd_body_options_init(&options);
        options.rigid = true;
        options.ignore = ignore;
        for (size_t i = 0; i < k; i++)
            if (j->is_ignored[k][i]) ignore[options.n_ignore++] = bodies[i];
        if (ctl_register_file(j->ctl, file->name, file->bytes, file->size, making, &mesh) ||
            contactd_add_body(j->ctl->client, scene, mesh, &options, &bodies[k]))
            return ctl_error(j->ctl, file->name);
        j->updates[k] = (contactd_update){.body = bodies[k], .kind = CONTACTD_POSE};
    }
    return EXIT_OK;
}

static int open_scenes(judge *j) {
    contactd_client *client = j->ctl->client;
    contactd_mesh_options making;
    contactd_settings settings;
    contactd_server server;
    contactd_settings_init(&settings);
    settings.method = CT_METHOD_EXACT;
    settings.patches = 1;
    if (!ctl_mesh_options(j->ctl, &making)) return EXIT_USAGE;
    if (contactd_get_server(client, &server) || contactd_open_scene(client, "judge", &settings, &j->scenes[0]))
        return ctl_error(j->ctl, "judge");
    const int code = add_bodies(j, j->scenes[0], &making);
    if (code != EXIT_OK) return code;
    j->n_scenes = server.max_in_flight < AHEAD ? server.max_in_flight : AHEAD;
    if (j->n_scenes == 0) j->n_scenes = 1; /* servers that do not say */
    if (j->n_scenes > j->track.n_frames) j->n_scenes = j->track.n_frames;
    if (j->n_scenes > 1 && contactd_copy_scene(client, j->scenes[0], j->n_scenes - 1, j->scenes + 1))
        return ctl_error(j->ctl, "judge");
    return EXIT_OK;
}

/* ---- measuring ---- */

/* m. Where a contact wraps around the other body, as a thread does, areas as seen along its normal cancel. So the
 * area is that of the surface inside, the mean of both sides; where one is wholly inside the other, that of the one. */
static double depth_of(const contactd_contact *c) {
    double area = 0;
    for (int side = 0; side < 2; side++)
        for (uint64_t i = 0; i < c->sparse[side].n; i++) {
            const double *g = c->sparse[side].gradient + 3 * i;
            area += sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2]);
        }
    if (c->sparse[0].n && c->sparse[1].n) area /= 2;
    return c->volume / fmax(area, fmax(c->area, 1e-300));
}

static bool is_worse(const measure *a, const measure *b) {
    if (a->is_nested != b->is_nested) return a->is_nested;
    if (!a->is_nested && a->depth != b->depth) return a->depth > b->depth;
    return a->volume > b->volume;
}

static void take_pair(judge *j, size_t frame, size_t a, size_t b, const measure *m) {
    pair_summary *pair = &j->pairs[a * j->n + b];
    if (pair->frames == 0 || m->depth > pair->most.depth) {
        pair->most.depth = m->depth;
        pair->deepest_time = j->track.times[frame];
    }
    pair->most.volume = fmax(pair->most.volume, m->volume);
    if (m->patches > pair->most.patches) pair->most.patches = m->patches;
    pair->most.is_nested = pair->most.is_nested || m->is_nested;
    pair->frames++;
    pair->a = a;
    pair->b = b;
    if (!j->worst.is_there || is_worse(m, &j->worst.measure)) j->worst = (worst){*m, frame, a, b, true};
}

static size_t place_of(const judge *j, contactd_body body) {
    size_t k = 0;
    while (j->updates[k].body != body) k++;
    return k;
}

/* Patches of a pair follow each other. */
static void take_frame(judge *j, size_t frame, const contactd_result *result) {
    for (uint32_t i = 0, end; i < result->n_contacts; i = end) {
        const contactd_contact *first = &result->contacts[i];
        measure m = {0};
        for (end = i; end < result->n_contacts; end++) {
            const contactd_contact *c = &result->contacts[end];
            if (c->bodies[0] != first->bodies[0] || c->bodies[1] != first->bodies[1]) break;
            m.volume += c->volume;
            m.depth = fmax(m.depth, depth_of(c));
            m.patches++;
            m.is_nested = m.is_nested || c->is_nested;
        }
        take_pair(j, frame, place_of(j, first->bodies[0]), place_of(j, first->bodies[1]), &m);
    }
}

static int measure_all(judge *j) {
    contactd_step_options options;
    contactd_step_options_init(&options);
    options.want = CONTACTD_WANT_FRAME | CONTACTD_WANT_GRADIENT;
    contactd_ticket tickets[AHEAD];
    progress_begin(PROGRESS_COUNTS, j->track.n_frames, "judging frames");
    for (size_t sent = 0, answered = 0; answered < j->track.n_frames;) {
        if (sent < j->track.n_frames && sent - answered < j->n_scenes) {
            for (size_t k = 0; k < j->n; k++)
                memcpy(j->updates[k].pose, j->track.poses + 12 * (sent * j->n + k), sizeof(double[12]));
            if (contactd_step_submit(j->ctl->client, j->scenes[sent % j->n_scenes], j->updates, j->n, &options,
                                     &tickets[sent % AHEAD]))
                return ctl_error(j->ctl, "step");
            sent++;
            continue;
        }
        const contactd_result *result;
        if (contactd_step_wait(j->ctl->client, tickets[answered % AHEAD], &result)) return ctl_error(j->ctl, "step");
        take_frame(j, answered++, result);
        progress_reach(answered);
    }
    progress_end();
    return EXIT_OK;
}

/* ---- what it says ---- */

static const char *length_text(double m, char out[32]) {
    static const struct {
        double size;
        const char *name;
    } units[] = {{1, "m"}, {1e-3, "mm"}, {1e-6, "µm"}, {1e-9, "nm"}};
    for (int i = 0; i < 4; i++)
        if (m >= 0.9995 * units[i].size) { /* three digits */
            snprintf(out, 32, "%.3g %s", m / units[i].size, units[i].name);
            return out;
        }
    snprintf(out, 32, "%.3g m", m);
    return out;
}

static void worst_text(const judge *j, char *out, size_t size) {
    const worst *w = &j->worst;
    char depth[32];
    if (!w->is_there)
        snprintf(out, size, "nothing overlaps");
    else if (w->measure.is_nested)
        snprintf(out, size, "worst penetration: one of %s and %s wholly inside the other, %.3g m³, at %.4g s",
                 j->names[w->a], j->names[w->b], w->measure.volume, j->track.times[w->frame]);
    else
        snprintf(out, size, "worst penetration %s at %.4g s between %s and %s", length_text(w->measure.depth, depth),
                 j->track.times[w->frame], j->names[w->a], j->names[w->b]);
}

static void bodies_json(const judge *j, size_t a, size_t b) {
    json_open("bodies", '[');
    json_text(NULL, j->names[a]);
    json_text(NULL, j->names[b]);
    json_close(']');
}

static void worst_json(const judge *j) {
    const worst *w = &j->worst;
    char text[512];
    if (!w->is_there) {
        json_number("worst", NAN); /* null */
        return;
    }
    worst_text(j, text, sizeof text);
    json_open("worst", '{');
    json_number("depth", w->measure.depth);
    json_number("volume", w->measure.volume);
    json_number("time", j->track.times[w->frame]);
    json_count("frame", w->frame);
    bodies_json(j, w->a, w->b);
    json_bool("nested", w->measure.is_nested);
    json_text("text", text);
    json_close('}');
}

static void print_json(const judge *j, const pair_summary *pairs, size_t n) {
    json_open(NULL, '{');
    json_count("frames", j->track.n_frames);
    worst_json(j);
    json_open("pairs", '[');
    for (size_t i = 0; i < n; i++) {
        json_open(NULL, '{');
        bodies_json(j, pairs[i].a, pairs[i].b);
        json_number("depth", pairs[i].most.depth);
        json_number("volume", pairs[i].most.volume);
        json_count("patches", pairs[i].most.patches);
        json_count("frames", pairs[i].frames);
        json_bool("nested", pairs[i].most.is_nested);
        json_close('}');
    }
    json_close(']');
    json_close('}');
}

static int deepest_first(const void *a, const void *b) {
    const pair_summary *p = a, *q = b;
    return p->most.depth > q->most.depth ? -1 : p->most.depth < q->most.depth;
}

static void print_table(const judge *j, pair_summary *pairs, size_t n) {
    char text[512];
    worst_text(j, text, sizeof text);
    puts(text);
    if (n == 0) return;
    qsort(pairs, n, sizeof *pairs, deepest_first);
    printf("\n%12s  %8s  %12s  %7s  %6s  %6s  %s\n", "DEPTH M", "AT S", "VOLUME M3", "PATCHES", "FRAMES", "NESTED",
           "BODIES");
    for (size_t i = 0; i < n; i++)
        printf("%12.4g  %8.4g  %12.4g  %7u  %6zu  %6s  %s, %s\n", pairs[i].most.depth, pairs[i].deepest_time,
               pairs[i].most.volume, pairs[i].most.patches, pairs[i].frames, pairs[i].most.is_nested ? "yes" : "",
               j->names[pairs[i].a], j->names[pairs[i].b]);
}

static int print(judge *j) {
    size_t n = 0;
    for (size_t i = 0; i < j->n * j->n; i++)
        if (j->pairs[i].frames) j->pairs[n++] = j->pairs[i];
    if (j->ctl->json)
        print_json(j, j->pairs, n);
    else
        print_table(j, j->pairs, n);
    const worst *w = &j->worst;
    return w->is_there && (w->measure.is_nested ? !isnan(j->limit) : w->measure.depth > j->limit) ? EXIT_TOO_DEEP
                                                                                                  : EXIT_OK;
}

static int run(judge *j) {
    int code = take_line(j);
    if (code == EXIT_OK) code = ctl_connect(j->ctl);
    j->updates = calloc(j->n, sizeof *j->updates);
    j->pairs = calloc(j->n * j->n, sizeof *j->pairs);
    if (code == EXIT_OK && (!j->updates || !j->pairs)) code = no_memory();
    if (code == EXIT_OK) code = open_scenes(j);
    if (code == EXIT_OK) code = measure_all(j);
    return code == EXIT_OK ? print(j) : code;
}

int ctl_judge(ctl *ctl) {
    judge *j = calloc(1, sizeof *j);
    if (!j) return no_memory();
    j->ctl = ctl;
    const int code = run(j);
    for (size_t k = 0; k < j->n; k++) free(j->files[k].bytes);
    ctl_trajectory_free(&j->track);
    free(j->updates);
    free(j->pairs);
    free(j);
    return code;
}
