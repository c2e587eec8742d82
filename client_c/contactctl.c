/* contactctl.c - the command line client: what is said on the line, and which command that is.
 *
 * Data goes to stdout, messages to stderr. Exit codes: 0 ok, 2 usage, 3 refused input, 4 server unreachable, 5 server
 * error.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/ctl/ctl.h"

#define BIT(option) (1ull << (option))
#define SETTINGS                                                                                                       \
    (BIT(OPT_METHOD) | BIT(OPT_RESOLUTION) | BIT(OPT_PIXEL_SIZE) | BIT(OPT_STIFFNESS) | BIT(OPT_PATCHES) |             \
     BIT(OPT_CELL_SIZE) | BIT(OPT_TOLERANCE) | BIT(OPT_TOLERANCE_REL) | BIT(OPT_STRICT) | BIT(OPT_RAY_BUDGET) |        \
     BIT(OPT_LEVEL) | BIT(OPT_VOXEL_LEVEL) | BIT(OPT_PAIR_BUDGET) | BIT(OPT_MAX_POINTS) | BIT(OPT_REFINE))

#define PICTURE                                                                                                        \
    (BIT(OPT_WIDTH) | BIT(OPT_HEIGHT) | BIT(OPT_CONTACT) | BIT(OPT_SHOW) | BIT(OPT_RESOLUTION) | BIT(OPT_AZIMUTH) |    \
     BIT(OPT_ELEVATION) | BIT(OPT_UP) | BIT(OPT_EYE) | BIT(OPT_TARGET) | BIT(OPT_ZOOM) | BIT(OPT_FIELD_OF_VIEW) |      \
     BIT(OPT_OPACITY) | BIT(OPT_BACKGROUND))

static const struct option {
    const char *name, *value, *text;
} options[OPT_COUNT] = {
    [OPT_SERVER] = {"--server", "ADDRESS",
                    "several between commas, also dns://HOST:PORT and file:PATH, are tried in turn; default: "
                    "CONTACTD_SERVER, else tcp://127.0.0.1:5555"},
    [OPT_SERVER_KEY] = {"--server-key", "KEY|FILE", "the server's public key; default: CONTACTD_SERVER_KEY"},
    [OPT_CLIENT_KEY] = {"--client-key", "FILE", "your key pair; default: CONTACTD_CLIENT_KEY, a file or a secret key"},
    [OPT_OUTPUT] = {"--output", "json|table", "also -o; default: table. Of snapshot: the picture's file"},
    [OPT_TIMEOUT] = {"--timeout", "SECONDS", "of each request; default: 10"},
    [OPT_HELP] = {"--help", NULL, "this text"},
    [OPT_VERSION] = {"--version", NULL, "the version"},
    [OPT_POSE_A] = {"--pose-a", "\"12 NUMBERS\"", "pose of A: row-major 3x4 [R|t]; default: identity"},
    [OPT_POSE_B] = {"--pose-b", "\"12 NUMBERS\"", "pose of B"},
    [OPT_METHOD] = {"--method", "NAME",
                    "exact, ldi, ebpi, voxtree or auto; default: auto, or what takes the options below"},
    [OPT_RESOLUTION] = {"--resolution", "N", "ray samples of ldi across the window, or \"X Y Z\""},
    [OPT_PIXEL_SIZE] = {"--pixel-size", "M", "sample pitch in m, anchored in the world; 0: back to --resolution"},
    [OPT_TOLERANCE] = {"--tolerance", "M3", "bound of the volume's error that ebpi is to reach, in m^3"},
    [OPT_TOLERANCE_REL] = {"--tolerance-rel", "X", "the same as a fraction of the volume; of both the larger counts"},
    [OPT_STRICT] = {"--strict", NULL, "ebpi: a bound that is proven; default: the published one"},
    [OPT_RAY_BUDGET] = {"--ray-budget", "N", "ebpi: rays that a pair may cast; default: 1048576"},
    [OPT_LEVEL] = {"--level", "L", "voxtree: no tree is followed below this level; default: to its finest"},
    [OPT_VOXEL_LEVEL] = {"--voxel-level", "L",
                         "voxtree: finest level of the trees, 3 to 8; default: as the meshes need"},
    [OPT_PAIR_BUDGET] = {"--pair-budget", "N", "voxtree: cubes that a step may compare; default: no limit"},
    [OPT_MAX_POINTS] = {"--max-points", "N", "voxtree: of each contact, up to 4096; default: 8"},
    [OPT_REFINE] = {"--refine", NULL, "voxtree: pairs in contact are computed by exact in the time left"},
    [OPT_BUDGET] = {"--budget-us", "N", "voxtree: microseconds in which to answer; default: no limit"},
    [OPT_INERTIA] = {"--inertia", NULL, "also the inertia of the intersection, by exact only"},
    [OPT_STIFFNESS] = {"--stiffness", "K", "k of E = k V^2 / 2 in N/m^5"},
    [OPT_HALF_SPACE] = {"--half-space", "NX,NY,NZ,OFFSET",
                        "in place of B: all points p with n . p <= OFFSET, n the normal NX,NY,NZ scaled to length 1"},
    [OPT_CELL_SIZE] = {"--cell-size", "M", "divides contacts into cubes of this size, in m; method ldi"},
    [OPT_PATCHES] = {"--patches", NULL, "a contact for each connected piece of the intersection; method exact"},
    [OPT_NO_PATCHES] = {"--no-patches", NULL, "one contact for each pair of bodies"},
    [OPT_NAME] = {"--name", "NAME", "of the mesh; default: the file's"},
    [OPT_ROLE] = {"--role", "ROLE", "simulator, operator or admin; default: simulator"},
    [OPT_SECONDS] = {"--seconds", "S", "how long to measure; default: 2"},
    [OPT_WIDTH] = {"--width", "PIXELS", "of the picture; default: 960"},
    [OPT_HEIGHT] = {"--height", "PIXELS", "of the picture; default: 720"},
    [OPT_CONTACT] = {"--contact", "\"BODY BODY\"", "show these two bodies alone, and where they touch"},
    [OPT_SHOW] = {"--show", "WHAT", "some of bodies,samples,axes,contacts,gradients; default: the first three"},
    [OPT_AZIMUTH] = {"--azimuth", "DEGREES", "about up, from where the camera looks; default: -60"},
    [OPT_ELEVATION] = {"--elevation", "DEGREES", "above the plane across up; default: 20"},
    [OPT_UP] = {"--up", "\"X Y Z\"", "what is up in the picture; default: 0 0 1"},
    [OPT_EYE] = {"--eye", "\"X Y Z\"", "where the camera is, in m, instead of azimuth, elevation and zoom"},
    [OPT_TARGET] = {"--target", "\"X Y Z\"", "where it looks, in m; default: the middle of what is shown"},
    [OPT_ZOOM] = {"--zoom", "FACTOR", "default: 1, all that is shown fits"},
    [OPT_FIELD_OF_VIEW] = {"--field-of-view", "DEGREES", "from the lower to the upper edge; default: 30"},
    [OPT_OPACITY] = {"--opacity", "0..1", "of bodies seen face on; default: 0.3"},
    [OPT_BACKGROUND] = {"--background", "RRGGBB[AA]", "hexadecimal; default: ffffff"},
    [OPT_SELF] = {"--self", NULL, "also where a body overlaps itself; B may then be left out"},
    [OPT_SPIN] = {"--spin-us", "N",
                  "microseconds to look for an answer before sleeping; 0: sleep at once; default: 2000"},
};

static const struct verb {
    const char *noun, *verb, *args, *text;
    int least, most; /* arguments */
    uint64_t allowed;
    int (*run)(ctl *ctl);
} verbs[] = {
    {"contact", NULL, "A [B]", "intersection of two mesh files, or of one and a half-space: volume, gradient, frame", 1,
     2,
     SETTINGS | BIT(OPT_HALF_SPACE) | BIT(OPT_POSE_A) | BIT(OPT_POSE_B) | BIT(OPT_BUDGET) | BIT(OPT_INERTIA) |
         BIT(OPT_SELF),
     ctl_contact},
    {"mesh", "add", "FILE...", "register OBJ, OFF, PLY or STL files", 1, 256, BIT(OPT_NAME), ctl_mesh_add},
    {"mesh", "list", "", "the server's meshes", 0, 0, 0, ctl_mesh_list},
    {"mesh", "rm", "HASH...", "remove meshes, by their hash or its first 8 digits or more", 1, 256, 0, ctl_mesh_rm},
    {"scene", "list", "", "the server's scenes", 0, 0, 0, ctl_scene_list},
    {"scene", "show", "ID", "one scene", 1, 1, 0, ctl_scene_show},
    {"scene", "set", "ID", "change a scene's settings, from its next step on", 1, 1, SETTINGS | BIT(OPT_NO_PATCHES),
     ctl_scene_set},
    {"snapshot", NULL, "SCENE", "a picture of a scene or a contact, as PNG: -o FILE, or -o - for standard output", 1, 1,
     PICTURE, ctl_snapshot},
    {"status", NULL, "", "what the server is and does", 0, 0, 0, ctl_status},
    {"keys", "new", "NAME", "a key pair for server or client in NAME.key; prints its line for --principals", 1, 1,
     BIT(OPT_ROLE), ctl_keys_new},
    {"tokens", "new", "NAME", "a token for HTTP in NAME.token; prints its line for --principals", 1, 1, BIT(OPT_ROLE),
     ctl_tokens_new},
    {"doctor", NULL, "", "check connection, versions, readiness and a real step, and say what to do", 0, 0, 0,
     ctl_doctor},
    {"bench", NULL, "", "latency and rate of steps with two boxes", 0, 0,
     BIT(OPT_SECONDS) | BIT(OPT_RESOLUTION) | BIT(OPT_SPIN), ctl_bench},
};
enum { VERBS = sizeof verbs / sizeof *verbs, EVERY_COMMAND = OPT_VERSION + 1 };
static_assert((int)OPT_COUNT <= 64, "verb.allowed has a bit per option");

/* ---- help ---- */

static void print_options(FILE *to, uint64_t which) {
    for (int o = 0; o < OPT_COUNT; o++) {
        if (!(which & BIT(o))) continue;
        char left[64];
        snprintf(left, sizeof left, "%s %s", options[o].name, options[o].value ? options[o].value : "");
        fprintf(to, "  %-36s %s\n", left, options[o].text);
    }
}

static void usage_of(FILE *to, const struct verb *v) {
    fprintf(to, "usage: contactctl %s%s%s %s [options]\n\n%s\n\noptions, anywhere on the line:\n", v->noun,
            v->verb ? " " : "", v->verb ? v->verb : "", v->args, v->text);
    print_options(to, v->allowed | (BIT(EVERY_COMMAND) - 1));
    fputs("\nexit codes: 0 ok, 2 usage, 3 refused input, 4 server unreachable, 5 server error\n", to);
}

static void usage(FILE *to, const char *noun) {
    fprintf(to, "usage: contactctl [--server ADDRESS] [-o json|table] COMMAND ...\n\n");
    for (int i = 0; i < VERBS; i++) {
        if (noun && strcmp(noun, verbs[i].noun) != 0) continue;
        char left[64];
        snprintf(left, sizeof left, "%s%s%s %s", verbs[i].noun, verbs[i].verb ? " " : "",
                 verbs[i].verb ? verbs[i].verb : "", verbs[i].args);
        fprintf(to, "  %-20s %s\n", left, verbs[i].text);
    }
    fputs("\noptions of every command, anywhere on the line; COMMAND --help tells the others:\n", to);
    print_options(to, BIT(EVERY_COMMAND) - 1);
    fputs("\nexit codes: 0 ok, 2 usage, 3 refused input, 4 server unreachable, 5 server error\n", to);
}

/* ---- the line ---- */

static int find_option(const char *arg, size_t length) {
    if (length == 2 && strncmp(arg, "-o", 2) == 0) return OPT_OUTPUT;
    if (length == 2 && strncmp(arg, "-h", 2) == 0) return OPT_HELP;
    for (int o = 0; o < OPT_COUNT; o++)
        if (strlen(options[o].name) == length && strncmp(arg, options[o].name, length) == 0) return o;
    return -1;
}

/* Splits the line into options and words. EXIT_OK, or EXIT_USAGE after a message. */
static int parse(ctl *ctl, int argc, char **argv, const char **words, int *n_words) {
    bool only_words = false;
    *n_words = 0;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *equals = strchr(arg, '=');
        if (only_words || arg[0] != '-' || arg[1] == 0) {
            if (*n_words == (int)(sizeof ctl->args / sizeof *ctl->args)) return ctl_mistake("too many arguments");
            words[(*n_words)++] = arg;
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            only_words = true;
            continue;
        }
        int o = find_option(arg, equals ? (size_t)(equals - arg) : strlen(arg));
        if (o < 0) return ctl_mistake("unknown option %s; contactctl --help lists them", arg);
        if (ctl->options[o]) return ctl_mistake("%s is given twice", options[o].name);
        if (!options[o].value) {
            if (equals) return ctl_mistake("%s takes no value", options[o].name);
            ctl->options[o] = "";
        } else if (equals) {
            ctl->options[o] = equals + 1;
        } else if (i + 1 < argc) {
            ctl->options[o] = argv[++i];
        } else {
            return ctl_mistake("%s lacks its value: %s %s", options[o].name, options[o].name, options[o].value);
        }
    }
    return EXIT_OK;
}

static int common_options(ctl *ctl, bool to_file) {
    const char *output = ctl->options[OPT_OUTPUT];
    double seconds = 10;
    contactd_options defaults;
    contactd_options_init(&defaults);
    if (!to_file && output && strcmp(output, "json") != 0 && strcmp(output, "table") != 0)
        return ctl_mistake("--output is \"%s\", expected json or table", output);
    ctl->json = !to_file && output && strcmp(output, "json") == 0;
    ctl->server = ctl->options[OPT_SERVER] ? ctl->options[OPT_SERVER] : defaults.server;
    if (!ctl_number(ctl, OPT_TIMEOUT, &seconds)) return EXIT_USAGE;
    if (!(seconds > 0 && seconds <= 86400))
        return ctl_mistake("--timeout is %g, expected > 0 and at most 86400", seconds);
    ctl->timeout_ms = (uint32_t)ceil(seconds * 1000);
    return EXIT_OK;
}

static const struct verb *find_verb(const char **words, int n) {
    for (int i = 0; i < VERBS; i++)
        if (n > 0 && strcmp(words[0], verbs[i].noun) == 0 &&
            (!verbs[i].verb || (n > 1 && strcmp(words[1], verbs[i].verb) == 0)))
            return &verbs[i];
    return NULL;
}

static bool is_noun(const char *word) {
    for (int i = 0; i < VERBS; i++)
        if (strcmp(word, verbs[i].noun) == 0) return true;
    return false;
}

static int run(ctl *ctl, const char **words, int n_words) {
    const struct verb *v = find_verb(words, n_words);
    if (ctl->options[OPT_VERSION]) {
        puts("contactctl " CONTACTD_VERSION);
        return EXIT_OK;
    }
    if (ctl->options[OPT_HELP]) {
        if (v)
            usage_of(stdout, v);
        else
            usage(stdout, n_words && is_noun(words[0]) ? words[0] : NULL);
        return EXIT_OK;
    }
    if (n_words == 0) {
        usage(stderr, NULL);
        return EXIT_USAGE;
    }
    if (!v) {
        if (!is_noun(words[0])) return ctl_mistake("there is no command %s; contactctl --help lists them", words[0]);
        usage(stderr, words[0]);
        return EXIT_USAGE;
    }
    int before = v->verb ? 2 : 1;
    ctl->n_args = n_words - before;
    memcpy(ctl->args, words + before, (size_t)ctl->n_args * sizeof *words);
    if (ctl->n_args < v->least || ctl->n_args > v->most) {
        ctl_mistake("%s%s%s takes %s%s, but %d arguments are given", v->noun, v->verb ? " " : "",
                    v->verb ? v->verb : "", v->most ? "" : "no arguments", v->args, ctl->n_args);
        return EXIT_USAGE;
    }
    for (int o = EVERY_COMMAND; o < OPT_COUNT; o++)
        if (ctl->options[o] && !(v->allowed & BIT(o)))
            return ctl_mistake("%s is not an option of %s%s%s", options[o].name, v->noun, v->verb ? " " : "",
                               v->verb ? v->verb : "");
    int code = common_options(ctl, v->run == ctl_snapshot);
    return code == EXIT_OK ? v->run(ctl) : code;
}

int main(int argc, char **argv) {
    static ctl ctl;
    const char *words[sizeof ctl.args / sizeof *ctl.args];
    int n_words, code = parse(&ctl, argc, argv, words, &n_words);
    if (code == EXIT_OK) code = run(&ctl, words, n_words);
    contactd_close(&ctl.client);
    if (fflush(stdout) || ferror(stdout)) {
        fputs("contactctl: the output could not be written\n", stderr);
        if (code == EXIT_OK) code = EXIT_SERVER;
    }
    return code;
}
