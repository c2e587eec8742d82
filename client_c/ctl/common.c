/* common.c - option values, the connection, errors and files, for contactctl's commands. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/ctl/options.h"
#include "client_c/ctl/progress.h"
#include "proto/quaternion.h"
#include "proto/setting_rows.h"

static void say(const char *format, va_list args) {
    progress_end();
    fputs("contactctl: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void ctl_say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

int ctl_mistake(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return EXIT_USAGE;
}

int ctl_cannot_write(const char *path, int why) {
    return ctl_mistake("cannot write %s: %s%s", path, strerror(why),
                       why == EEXIST ? ", and stays as it is: name another file, or remove this one" : "");
}

/* ---- option values ---- */

static bool is_separator(char c) {
    return c == ' ' || c == ',' || c == '\t' || c == '\n';
}

/* Numbers separated by blanks or commas; their count, or -1 if something else is there or there are more than most. */
static int numbers_of(const char *text, double *out, int most) {
    int n = 0;
    for (;;) {
        while (is_separator(*text)) text++;
        if (!*text) return n;
        char *end;
        double value = strtod(text, &end);
        if (end == text || (*end && !is_separator(*end)) || n == most) return -1;
        out[n++] = value;
        text = end;
    }
}

bool ctl_number(const ctl *ctl, ctl_option option, double *out) {
    const char *text = ctl->options[option];
    if (!text || numbers_of(text, out, 1) == 1) return true;
    ctl_mistake("%s is \"%s\", expected a number", ctl_option_name(option), text);
    return false;
}

bool ctl_numbers(const ctl *ctl, ctl_option option, double *out, int n, const char *what) {
    const char *text = ctl->options[option];
    double numbers[12];
    if (!text) return true;
    if (numbers_of(text, numbers, n) != n) {
        ctl_mistake("%s is \"%s\", expected %s", ctl_option_name(option), text, what);
        return false;
    }
    for (int i = 0; i < n; i++)
        if (!isfinite(numbers[i])) {
            ctl_mistake("%s is \"%s\", expected %s; number %d is %g, which is not finite", ctl_option_name(option),
                        text, what, i + 1, numbers[i]);
            return false;
        }
    memcpy(out, numbers, (size_t)n * sizeof *out);
    return true;
}

bool ctl_pose(const ctl *ctl, ctl_option option, double pose[12]) {
    static const char what[] = "12 numbers: a row-major 3x4 [R|t]; or 7: a translation and a quaternion x y z w";
    double numbers[12], length;
    if (!ctl->options[option] || numbers_of(ctl->options[option], numbers, 12) != WIRE_QUATERNION_POSE)
        return ctl_numbers(ctl, option, pose, 12, what);
    if (!ctl_numbers(ctl, option, numbers, WIRE_QUATERNION_POSE, what)) return false;
    if (wire_pose_of_quaternion(numbers, pose, &length)) return true;
    ctl_mistake("%s is \"%s\", expected a quaternion of length 1, got one of %g", ctl_option_name(option),
                ctl->options[option], length);
    return false;
}

bool ctl_is_one_address(const ctl *ctl) {
    bool is_address = strncmp(ctl->server, "tcp://", 6) == 0 || strncmp(ctl->server, "ipc://", 6) == 0;
    return is_address && !strchr(ctl->server, ',');
}

bool ctl_is_several(const ctl *ctl) {
    return strchr(ctl->server, ',') || strncmp(ctl->server, "file:", 5) == 0 || strncmp(ctl->server, "dns://", 6) == 0;
}

bool ctl_scene_id(const ctl *ctl, uint64_t *out) {
    char *end;
    *out = strtoull(ctl->args[0], &end, 10);
    if (!*end && end != ctl->args[0] && ctl->args[0][0] != '-') return true;
    ctl_mistake("\"%s\" is no scene: expected the number in the first column of contactctl scene list", ctl->args[0]);
    return false;
}

/* A whole number > 0, or -1 where the option is not given. */
bool ctl_count(const ctl *ctl, ctl_option option, double most, double *out) {
    *out = -1;
    if (!ctl->options[option]) return true;
    if (!ctl_number(ctl, option, out)) return false;
    if (*out >= 1 && *out <= most && *out == floor(*out)) return true;
    ctl_mistake("%s is \"%s\", expected a whole number from 1 to %.15g", ctl_option_name(option), ctl->options[option],
                most);
    return false;
}

static bool refuse(const ct_setting_row *row, ctl_option option, const char *text) {
    char expected[400];
    ct_setting_expected(row, true, expected, sizeof expected);
    ctl_mistake("%s is \"%s\", expected %s", ctl_option_name(option), text, expected);
    return false;
}

/* A whole number in digits, up to what the wire takes: more of them than a double has. False: it is something else. */
static bool whole_number_of(const char *text, int64_t *out) {
    char *end;
    if (*text < '0' || *text > '9') return false;
    const unsigned long long value = strtoull(text, &end, 10); /* ULLONG_MAX where it is larger */
    if (*end || value > INT64_MAX) return false;
    *out = (int64_t)value;
    return true;
}

/* What the server would refuse anyway, it may; here it is only told from what is no such value at all, and from -1,
 * which would say that nothing is given. */
static bool take_setting(const ctl *ctl, int setting, contactd_settings *out) {
    const ct_setting_row *row = &ct_setting_rows[setting];
    const ctl_option option = (ctl_option)(OPT_SETTING + setting);
    const char *text = ctl->options[option];
    if (row->type == CT_SETTING_IS_FLAG) {
        ct_setting_set_integer(row, out, 0, 1);
        return true;
    }
    if (row->type == CT_SETTING_IS_CHOICE) {
        int64_t number;
        if (!ct_setting_choice_find(row, text, &number)) return refuse(row, option, text);
        ct_setting_set_integer(row, out, 0, number);
        return true;
    }
    int64_t whole;
    if (row->type == CT_SETTING_IS_U64 && whole_number_of(text, &whole)) {
        ct_setting_set_integer(row, out, 0, whole);
        return true;
    }
    double numbers[3];
    const bool is_three = row->type == CT_SETTING_IS_U32X3;
    const int n = numbers_of(text, numbers, is_three ? 3 : 1);
    if (n != 1 && !(is_three && n == 3)) return refuse(row, option, text);
    for (int i = 0; i < (is_three ? 3 : 1); i++) {
        const double value = numbers[n == 3 ? i : 0];
        const bool is_refused_zero = value == 0 && row->is_zero_left_out && row->type == CT_SETTING_IS_F64;
        if (!(value >= 0 && value <= DBL_MAX) || is_refused_zero) return refuse(row, option, text);
        if (row->type == CT_SETTING_IS_F64) {
            ct_setting_set_number(row, out, value);
            continue;
        }
        if (value != floor(value) || value > (row->type == CT_SETTING_IS_U64 ? 1e15 : INT32_MAX))
            return refuse(row, option, text);
        ct_setting_set_integer(row, out, i, (int64_t)value);
    }
    return true;
}

bool ctl_settings(const ctl *ctl, contactd_settings *out) {
    contactd_settings_init(out);
    if (ctl->options[OPT_RESOLUTION] && ctl->options[OPT_SETTING + CT_SETTING_PIXEL_SIZE]) {
        ctl_mistake("--resolution and --pixel-size exclude each other: give one");
        return false;
    }
    if (ctl->options[OPT_PATCHES] && ctl->options[OPT_NO_PATCHES]) {
        ctl_mistake("--patches and --no-patches exclude each other: give one");
        return false;
    }
    if (ctl->options[OPT_NO_PATCHES]) out->patches = 0;
    for (int s = 0; s < CT_SETTINGS; s++)
        if (ctl->options[OPT_SETTING + s] && !take_setting(ctl, s, out)) return false;
    return true;
}

/* ---- server ---- */

static int exit_code_of(const contactd_error *error) {
    switch (error->code) {
    case CONTACTD_OK:
        return EXIT_OK;
    case CONTACTD_UNREACHABLE:
        return EXIT_UNREACHABLE;
    case CONTACTD_DEADLINE_EXCEEDED:
        return strcmp(error->field, "timeout_ms") == 0 ? EXIT_UNREACHABLE : EXIT_SERVER;
    case CONTACTD_INVALID_ARGUMENT:
    case CONTACTD_NOT_FOUND:
    case CONTACTD_STALE_HANDLE:
    case CONTACTD_FORBIDDEN:
    case CONTACTD_UNAUTHENTICATED:
    case CONTACTD_CONFLICT:
    case CONTACTD_PARSE_ERROR:
    case CONTACTD_INVALID_MESH:
    case CONTACTD_WRONG_LENGTH:
    case CONTACTD_NON_FINITE:
    case CONTACTD_OUT_OF_RANGE:
    case CONTACTD_TOO_LARGE:
    case CONTACTD_LIMIT_EXCEEDED:
    case CONTACTD_UNSUPPORTED:
    case CONTACTD_METHOD_NOT_ALLOWED:
    case CONTACTD_TIME_LIMIT:
        return EXIT_REFUSED;
    default:
        return EXIT_SERVER;
    }
}

int ctl_report(const contactd_error *error, const char *what) {
    const bool is_of_field = *error->field && strcmp(error->field, "timeout_ms") != 0;
    ctl_say("%s: %s: %s%s%s%s", what, contactd_code_name(error->code), error->message, is_of_field ? " [" : "",
            is_of_field ? error->field : "", is_of_field ? "]" : "");
    return exit_code_of(error);
}

int ctl_error(const ctl *ctl, const char *what) {
    return ctl_report(contactd_last_error(ctl->client), what);
}

void ctl_connect_options(const ctl *ctl, contactd_options *out) {
    contactd_options_init(out);
    out->server = ctl->server;
    out->name = "contactctl";
    out->timeout_ms = ctl->timeout_ms;
    out->lease_ms = ctl->timeout_ms + 2000; /* a script's many short sessions are not to pile up on the server */
    if (ctl->options[OPT_SERVER_KEY]) out->server_key = ctl->options[OPT_SERVER_KEY];
    if (ctl->options[OPT_CLIENT_KEY]) out->client_key = ctl->options[OPT_CLIENT_KEY];
}

int ctl_check_refused(const ctl *ctl) {
    char refused[512];
    if (!ctl_is_refused(ctl->server, refused, sizeof refused)) return EXIT_OK;
    ctl_say("%s: %s", contactd_code_name(CONTACTD_UNREACHABLE), refused);
    return EXIT_UNREACHABLE;
}

int ctl_report_connection(const ctl *ctl, const contactd_error *error) {
    bool is_key = strcmp(error->field, "server_key") == 0 || strcmp(error->field, "client_key") == 0;
    if (error->code == CONTACTD_INVALID_ARGUMENT)
        return ctl_mistake("%s%s", is_key ? "" : "--server: ", error->message);
    return ctl_report(error, ctl->server);
}

int ctl_connect(ctl *ctl) {
    contactd_options options;
    ctl_connect_options(ctl, &options);
    options.keep_meshes = false;
    options.spin_us = ctl->spin_us;
    contactd_error error;
    int code = ctl_check_refused(ctl);
    if (code != EXIT_OK) return code;
    progress_begin(PROGRESS_WAITS, 0, "connecting to %s", ctl->server);
    const contactd_code connected = contactd_connect(&options, &ctl->client, &error);
    progress_end();
    if (connected == CONTACTD_OK) return EXIT_OK;
    return ctl_report_connection(ctl, &error);
}

bool ctl_read_file(const char *path, unsigned char **bytes, size_t *size) {
    FILE *file = fopen(path, "rb");
    size_t cap = 1u << 16;
    *size = 0;
    *bytes = file ? malloc(cap) : NULL;
    int why = !file ? errno : *bytes ? 0 : ENOMEM;
    while (!why) {
        size_t n = fread(*bytes + *size, 1, cap - *size, file);
        *size += n;
        if (n == 0) {
            if (ferror(file)) why = errno ? errno : EIO;
            break;
        }
        if (*size < cap) continue;
        unsigned char *grown = realloc(*bytes, 2 * cap);
        if (!grown) why = ENOMEM;
        if (grown) *bytes = grown, cap *= 2;
    }
    if (file) fclose(file);
    if (!why) return true;
    ctl_mistake("cannot read %s: %s", path, strerror(why));
    free(*bytes);
    *bytes = NULL;
    return false;
}

contactd_code ctl_register_file(ctl *ctl, const char *name, const void *bytes, size_t size,
                                const contactd_mesh_options *options, contactd_mesh *out) {
    progress_begin(PROGRESS_SENDS, size, "%s", name);
    const contactd_code code =
        contactd_register_mesh_bytes_with(ctl->client, name, bytes, size, CONTACTD_FORMAT_AUTO, options, out);
    progress_end();
    return code;
}

int ctl_register_box(ctl *ctl, const char *name, const double lo[3], const double hi[3], contactd_mesh *out) {
    static const uint32_t triangles[36] = {0, 2, 3, 0, 3, 1, 4, 5, 7, 4, 7, 6, 0, 1, 5, 0, 5, 4,
                                           2, 6, 7, 2, 7, 3, 0, 4, 6, 0, 6, 2, 1, 3, 7, 1, 7, 5};
    double positions[24];
    for (int v = 0; v < 8; v++)
        for (int c = 0; c < 3; c++) positions[3 * v + c] = v >> c & 1 ? hi[c] : lo[c];
    contactd_code code = contactd_register_mesh_f64(ctl->client, name, positions, 8, triangles, 12, out);
    return code == CONTACTD_OK ? EXIT_OK : ctl_error(ctl, name);
}
