/* snapshot.c - contactctl snapshot: a picture of a scene, to a file that is there whole or not at all. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client_c/ctl/options.h"
#include "client_c/ctl/progress.h"

typedef struct arguments {
    contactd_snapshot_options options;
    double up[3], eye[3], target[3], background[4];
} arguments;

/* ---- options ---- */

static bool whole(const ctl *ctl, ctl_option option, uint32_t *out, int n, const char *what) {
    double numbers[2];
    if (!ctl->options[option]) return true;
    if (!ctl_numbers(ctl, option, numbers, n, what)) return false;
    for (int i = 0; i < n; i++) {
        if (!(numbers[i] >= 1 && numbers[i] <= UINT32_MAX && numbers[i] == floor(numbers[i]))) {
            ctl_mistake("%s is \"%s\", expected %s", ctl_option_name(option), ctl->options[option], what);
            return false;
        }
        out[i] = (uint32_t)numbers[i];
    }
    return true;
}

static bool point(const ctl *ctl, ctl_option option, double at[3], const double **out) {
    if (ctl->options[option]) *out = at;
    return ctl_numbers(ctl, option, at, 3, "three numbers");
}

static bool show(const ctl *ctl, uint32_t *out) {
    static const struct {
        const char *word;
        uint32_t bits;
    } words[] = {{"bodies", CONTACTD_SHOW_BODIES},       {"samples", CONTACTD_SHOW_SAMPLES},
                 {"axes", CONTACTD_SHOW_AXES},           {"contacts", CONTACTD_SHOW_CONTACTS},
                 {"gradients", CONTACTD_SHOW_GRADIENTS}, {"rays", CONTACTD_SHOW_RAYS},
                 {"rays_x", CONTACTD_SHOW_RAYS_X},       {"rays_y", CONTACTD_SHOW_RAYS_Y},
                 {"rays_z", CONTACTD_SHOW_RAYS_Z},       {"nodes", CONTACTD_SHOW_NODES},
                 {"normals", CONTACTD_SHOW_NORMALS},     {"surface", CONTACTD_SHOW_SURFACE}};
    const size_t n = sizeof words / sizeof *words;
    const char *text = ctl->options[OPT_SHOW];
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        size_t length = strcspn(at, ","), i = 0;
        while (i < n && (strlen(words[i].word) != length || strncmp(at, words[i].word, length) != 0)) i++;
        if (i == n) {
            ctl_mistake("--show is \"%s\", expected some of "
                        "bodies,samples,axes,contacts,gradients,rays,rays_x,rays_y,rays_z,nodes,normals,surface",
                        text);
            return false;
        }
        *out |= words[i].bits;
        at += length;
    }
    return true;
}

static bool background(const ctl *ctl, arguments *a) {
    const char *text = ctl->options[OPT_BACKGROUND];
    if (!text) return true;
    size_t n = strlen(text);
    if ((n != 6 && n != 8) || strspn(text, "0123456789abcdefABCDEF") != n) {
        ctl_mistake("--background is \"%s\", expected RRGGBB or RRGGBBAA in hexadecimal", text);
        return false;
    }
    a->background[3] = 1;
    for (size_t i = 0; i < n / 2; i++) {
        const char digits[3] = {text[2 * i], text[2 * i + 1], 0};
        a->background[i] = (double)strtoul(digits, NULL, 16) / 255;
    }
    a->options.background = a->background;
    return true;
}

/* An eye stands in place of what else says where the camera is. */
static bool has_one_camera(const ctl *ctl) {
    static const struct {
        int option;
        const char *name;
    } others[] = {{OPT_AZIMUTH, "azimuth"}, {OPT_ELEVATION, "elevation"}, {OPT_ZOOM, "zoom"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (ctl->options[OPT_EYE] && ctl->options[others[i].option]) {
            ctl_mistake("--eye and --%s exclude each other: give one", others[i].name);
            return false;
        }
    return true;
}

static bool take(const ctl *ctl, arguments *a) {
    contactd_snapshot_options *o = &a->options;
    contactd_snapshot_options_init(o);
    return has_one_camera(ctl) && whole(ctl, OPT_WIDTH, &o->width, 1, "a number of pixels") &&
           whole(ctl, OPT_HEIGHT, &o->height, 1, "a number of pixels") &&
           whole(ctl, OPT_CONTACT, o->contact, 2, "the numbers of two bodies") &&
           whole(ctl, OPT_RESOLUTION, &o->resolution, 1, "a whole number") && show(ctl, &o->show) &&
           ctl_number(ctl, OPT_AZIMUTH, &o->azimuth) && ctl_number(ctl, OPT_ELEVATION, &o->elevation) &&
           ctl_number(ctl, OPT_ZOOM, &o->zoom) && ctl_number(ctl, OPT_FIELD_OF_VIEW, &o->field_of_view) &&
           ctl_number(ctl, OPT_OPACITY, &o->opacity) && point(ctl, OPT_UP, a->up, &o->up) &&
           point(ctl, OPT_EYE, a->eye, &o->eye) && point(ctl, OPT_TARGET, a->target, &o->target) && background(ctl, a);
}

/* ---- output ---- */

static int cannot(const char *path) {
    return ctl_cannot_write(path, errno);
}

/* Beside the file, then in its place: who looks at it sees the old picture or the new one. */
static int write_file(const char *path, const void *bytes, size_t size) {
    struct stat there;
    char *beside = malloc(strlen(path) + 8);
    if (!beside) return ctl_mistake("out of memory");
    bool special = stat(path, &there) == 0 && !S_ISREG(there.st_mode); /* a pipe, a device: written to as it is */
    sprintf(beside, special ? "%s" : "%s.XXXXXX", path);
    int fd = special ? -1 : mkstemp(beside);
    FILE *file = special ? fopen(path, "wb") : fd >= 0 ? fdopen(fd, "wb") : NULL;
    bool good = file && fwrite(bytes, 1, size, file) == size;
    if (file && fclose(file) != 0) good = false;
    if (good && !special) {
        mode_t mask = umask(0);
        umask(mask);
        good = chmod(beside, 0666 & ~mask) == 0 && rename(beside, path) == 0;
    }
    int code = good ? EXIT_OK : cannot(path);
    if (!good && fd >= 0) unlink(beside);
    free(beside);
    return code;
}

int ctl_snapshot(ctl *ctl) {
    const char *path = ctl->options[OPT_OUTPUT];
    uint64_t scene;
    arguments a = {0};
    if (!ctl_scene_id(ctl, &scene) || !take(ctl, &a)) return EXIT_USAGE;
    bool standard = !path || strcmp(path, "-") == 0;
    if (!path && isatty(STDOUT_FILENO)) return ctl_mistake("name the picture's file: -o FILE");
    if (standard && isatty(STDOUT_FILENO))
        return ctl_mistake("a PNG file is nothing for a terminal: name a file, -o FILE, or redirect the output");
    int code = ctl_connect(ctl);
    if (code != EXIT_OK) return code;
    const void *png;
    size_t size;
    progress_begin(PROGRESS_WAITS, 0, "drawing scene %s", ctl->args[0]);
    if (contactd_snapshot_by_id(ctl->client, scene, &a.options, &png, &size)) return ctl_error(ctl, "snapshot");
    progress_end();
    if (!standard) return write_file(path, png, size);
    fwrite(png, 1, size, stdout); /* main tells whether it worked */
    return EXIT_OK;
}
