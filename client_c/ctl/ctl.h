/* ctl.h - what contactctl's commands share: the parsed command line, the connection, errors, and output. */
#ifndef CONTACTCTL_H
#define CONTACTCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client_c/contactd.h"

enum {
    EXIT_OK = 0,
    EXIT_USAGE = 2,
    EXIT_REFUSED = 3,
    EXIT_UNREACHABLE = 4,
    EXIT_SERVER = 5,
    EXIT_DIFFERENT = 6,
    EXIT_TOO_DEEP = 7
};

typedef enum ctl_option {
    OPT_SERVER,
    OPT_SERVER_KEY,
    OPT_CLIENT_KEY,
    OPT_OUTPUT,
    OPT_JSON,
    OPT_TIMEOUT,
    OPT_HELP,
    OPT_VERSION,
    OPT_LAST_COMMON = OPT_VERSION, /* those of every command end here */
    OPT_POSE_A,
    OPT_POSE_B,
    OPT_TWIST_A,
    OPT_TWIST_B,
    OPT_VISCOSITY,
    OPT_MODULUS,
    OPT_FRICTION,
    OPT_STATIC_FRICTION,
    OPT_DISSIPATION,
    OPT_BUDGET,
    OPT_INERTIA,
    OPT_SURFACE,
    OPT_HALF_SPACE,
    OPT_NO_PATCHES,
    OPT_NAME,
    OPT_ROLE,
    OPT_DAYS,
    OPT_SECONDS,
    OPT_SPIN,
    OPT_WIDTH,
    OPT_HEIGHT,
    OPT_CONTACT,
    OPT_SHOW,
    OPT_AZIMUTH,
    OPT_ELEVATION,
    OPT_UP,
    OPT_EYE,
    OPT_TARGET,
    OPT_ZOOM,
    OPT_FIELD_OF_VIEW,
    OPT_OPACITY,
    OPT_BACKGROUND,
    OPT_SELF,
    OPT_LISTEN,
    OPT_ONCE,
    OPT_INTERVAL,
    OPT_SORT,
    OPT_BODY,
    OPT_WATCH,
    OPT_ANY_BUILD,
    OPT_LIMIT,
    OPT_IGNORE,
    OPT_REPAIR,
    OPT_MAX_HOLE,
    OPT_WELD,
    OPT_SCALE,
    OPT_UNIT,
    OPT_OPEN_DIRECTION,
    OPT_CLOSING,
    OPT_WRAP_RESOLUTION,
    OPT_SETTING, /* and those after it: the options of settings, in the order of ct_setting */
    OPT_RESOLUTION = OPT_SETTING + CT_SETTING_RESOLUTION,
    OPT_PATCHES = OPT_SETTING + CT_SETTING_PATCHES,
    OPT_COUNT = OPT_SETTING + CT_SETTINGS
} ctl_option;

typedef struct ctl {
    const char *options[OPT_COUNT]; /* as given; flags: ""; NULL: not given */
    const char *args[256];          /* what follows the verb */
    int n_args;
    const char *server;
    uint32_t timeout_ms;
    uint32_t spin_us; /* see contactd.h */
    bool json;
    contactd_client *client; /* after ctl_connect */
} ctl;

/* ---- options: on a mistake a message and false, and the command ends with EXIT_USAGE ---- */

bool ctl_number(const ctl *ctl, ctl_option option, double *out); /* unchanged where not given */
bool ctl_numbers(const ctl *ctl, ctl_option option, double *out, int n, const char *what); /* exactly n */
bool ctl_pose(const ctl *ctl, ctl_option option, double pose[12]);
bool ctl_settings(const ctl *ctl, contactd_settings *out); /* the options of settings, and --no-patches */
/* A whole number from 1 to most; -1 where not given. */
bool ctl_count(const ctl *ctl, ctl_option option, double most, double *out);

bool ctl_is_one_address(const ctl *ctl);          /* --server: not several, and no source of addresses */
bool ctl_is_several(const ctl *ctl);              /* --server: a list, or a source of addresses */
bool ctl_scene_id(const ctl *ctl, uint64_t *out); /* the first argument */

/* ---- server: an exit code; EXIT_OK is 0 ---- */

/* As the command line asks for. */
void ctl_connect_options(const ctl *ctl, contactd_options *out);
int ctl_connect(ctl *ctl);
int ctl_check_refused(const ctl *ctl);                                  /* nothing listens at --server */
int ctl_report_connection(const ctl *ctl, const contactd_error *error); /* that could not be made */
int ctl_error(const ctl *ctl, const char *what);                        /* reports the client's last error */
int ctl_report(const contactd_error *error, const char *what);
/* A line on stderr, below what progress.h shows. */
void ctl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
int ctl_mistake(const char *format, ...) __attribute__((format(printf, 1, 2))); /* says it; EXIT_USAGE */
int ctl_cannot_write(const char *path, int why); /* says so, and of errno EEXIST what to do; EXIT_USAGE */

/* ---- reach.c: is there anything at an address, asked of the system and not of ZeroMQ, which only tries again ---- */

typedef enum ctl_reach {
    REACH_UNKNOWN, /* not an address of one server, or it does not say */
    REACH_OPEN,    /* something listens there */
    REACH_REFUSED, /* nothing does */
    REACH_NO_HOST, /* the host's name does not resolve */
} ctl_reach;
/* With tcp:// before HOST:PORT; of one --server. */
const char *ctl_whole_address(const char *server);
ctl_reach ctl_reach_address(const char *address); /* HOST:PORT, tcp://HOST:PORT or ipc://PATH; waits a second at most */
const char *ctl_reach_text(ctl_reach reach);      /* NULL for REACH_UNKNOWN */
/* Whether connections to all addresses that --server gives are refused, or their names do not resolve: `seen` says so.
 */
bool ctl_is_refused(const char *server, char *seen, size_t size);

/* A file's content; the caller frees it. False: a message was written. */
bool ctl_read_file(const char *path, unsigned char **bytes, size_t *size);
/* The same of a mesh file; of a .gltf file with the files beside it that it names in it. */
bool ctl_read_mesh(const char *path, unsigned char **bytes, size_t *size);

/* Registers a mesh file's content, and shows how far that is. */
contactd_code ctl_register_file(ctl *ctl, const char *name, const void *bytes, size_t size,
                                const contactd_mesh_options *options, contactd_mesh *out);

/* The box from lo to hi as a mesh: 8 vertices, 12 triangles. */
int ctl_register_box(ctl *ctl, const char *name, const double lo[3], const double hi[3], contactd_mesh *out);

/* ---- commands ---- */

int ctl_contact(ctl *ctl);
/* How meshes are made, from the command line. False: an option is wrong, which is said. */
bool ctl_mesh_options(ctl *ctl, contactd_mesh_options *out);
int ctl_mesh_add(ctl *ctl);
int ctl_mesh_list(ctl *ctl);
int ctl_mesh_rm(ctl *ctl);
int ctl_scene_list(ctl *ctl);
int ctl_scene_show(ctl *ctl);
int ctl_scene_set(ctl *ctl);
int ctl_snapshot(ctl *ctl);
int ctl_status(ctl *ctl);
int ctl_doctor(ctl *ctl);
int ctl_keys_new(ctl *ctl);
int ctl_keys_cert(ctl *ctl);
int ctl_tokens_new(ctl *ctl);
int ctl_bench(ctl *ctl);
int ctl_sessions(ctl *ctl);
int ctl_contacts(ctl *ctl);
int ctl_bodies(ctl *ctl);
int ctl_scene_close(ctl *ctl);
int ctl_drain(ctl *ctl);
int ctl_record(ctl *ctl);
int ctl_replay(ctl *ctl);
int ctl_judge(ctl *ctl);
int ctl_top(ctl *ctl);
int ctl_help(ctl *ctl);
int ctl_completion(ctl *ctl);
int ctl_man_page(ctl *ctl);

/* ---- JSON on stdout: two spaces a level, numbers that read back to the same bits, NaN and infinity as null ---- */

void json_open(const char *key, char bracket); /* '{' or '['; key NULL in lists and at the top */
void json_close(char bracket);
void json_text(const char *key, const char *value);
void json_number(const char *key, double value);
void json_count(const char *key, uint64_t value);
void json_bool(const char *key, bool value);
void json_numbers(const char *key, const double *values, size_t n); /* on one line */

#endif
