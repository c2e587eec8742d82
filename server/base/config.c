/* config.c - reads options from flags, environment and file into one struct, by the table in config.h. */
#include "server/base/config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/keyfile.h"
#include "server/base/duration.h"

typedef enum option_kind {
    KIND_TEXT,
    KIND_CHOICE,
    KIND_COUNT,
    KIND_SIZE,
    KIND_TIME,
    KIND_DURATION,
    KIND_LIST,
    KIND_SWITCH
} option_kind;

typedef struct option {
    option_kind kind;
    const char *name; /* "max-message"; made from the field's name by flag_name */
    size_t offset;
    const char *fallback;
    const char *shape; /* what a value looks like: "HOST:PORT", "a|b|c" */
    int64_t low, high;
    const char *help;
} option;

static const option options[] = {
#define ROW_TEXT(field, fallback, shape, help)                                                                         \
    {KIND_TEXT, #field, offsetof(config, field), fallback, shape, 0, 0, help},
#define ROW_CHOICE(field, fallback, words, help)                                                                       \
    {KIND_CHOICE, #field, offsetof(config, field), fallback, words, 0, 0, help},
#define ROW_COUNT(field, fallback, low, high, help)                                                                    \
    {KIND_COUNT, #field, offsetof(config, field), fallback, "N", low, high, help},
#define ROW_SIZE(field, fallback, low, high, help)                                                                     \
    {KIND_SIZE, #field, offsetof(config, field), fallback, "BYTES", low, high, help},
#define ROW_TIME(field, fallback, low, high, help)                                                                     \
    {KIND_TIME, #field, offsetof(config, field), fallback, "TIME", low, high, help},
#define ROW_DURATION(field, fallback, help)                                                                            \
    {KIND_DURATION, #field, offsetof(config, field), fallback, "TIME", 1, DURATION_MOST_MS, help},
#define ROW_LIST(field, fallback, shape, help)                                                                         \
    {KIND_LIST, #field, offsetof(config, field), fallback, shape, 0, 0, help},
#define ROW_SWITCH(field, help) {KIND_SWITCH, #field, offsetof(config, field), "no", "yes|no", 0, 0, help},
    CONFIG_MAP(ROW_TEXT, ROW_CHOICE, ROW_COUNT, ROW_SIZE, ROW_TIME, ROW_DURATION, ROW_LIST, ROW_SWITCH)};

enum { N_OPTIONS = sizeof options / sizeof options[0], NAME_BYTES = 64 };

/* Where a value came from decides who wins: a later, higher source replaces; a list grows only within one source. */
typedef enum source { FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_FLAG } source;

typedef struct loader {
    config *config;
    source sources[N_OPTIONS];
    char *message;
    size_t size;
} loader;

__attribute__((format(printf, 2, 3))) static bool refuse(loader *loader, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(loader->message, loader->size, format, arguments);
    va_end(arguments);
    return false;
}

static void flag_name(const option *option, char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, "%s", option->name);
    for (char *c = name; *c; c++) {
        if (*c == '_') *c = '-';
    }
}

static void environment_name(const option *option, char name[NAME_BYTES]) {
    snprintf(name, NAME_BYTES, "CONTACTD_%s", option->name);
    for (char *c = name; *c; c++) *c = (char)toupper((unsigned char)*c);
}

static const option *option_named(const char *name, size_t length) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        char flag[NAME_BYTES];
        flag_name(&options[i], flag);
        if (strlen(flag) == length && memcmp(flag, name, length) == 0) return &options[i];
    }
    return NULL;
}

static void *field_of(config *config, const option *option) {
    return (char *)config + option->offset;
}

static bool is_word_of(const char *words, const char *value) {
    size_t n = strlen(value);
    for (const char *word = words; n && word;) {
        const char *end = strchr(word, '|');
        size_t length = end ? (size_t)(end - word) : strlen(word);
        if (length == n && memcmp(word, value, n) == 0) return true;
        word = end ? end + 1 : NULL;
    }
    return false;
}

typedef struct unit {
    const char *name;
    uint64_t factor;
} unit;
static const unit size_units[] = {{"", 1},           {"B", 1},           {"K", 1u << 10},   {"M", 1u << 20},
                                  {"G", 1u << 30},   {"T", 1ull << 40},  {"KiB", 1u << 10}, {"MiB", 1u << 20},
                                  {"GiB", 1u << 30}, {"TiB", 1ull << 40}};
static const unit time_units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
static const unit count_units[] = {{"", 1}};

static bool number_of(const option *option, const char *value, uint64_t *out) {
    const unit *units = option->kind == KIND_SIZE ? size_units : option->kind == KIND_TIME ? time_units : count_units;
    size_t n_units = option->kind == KIND_SIZE   ? sizeof size_units / sizeof *units
                     : option->kind == KIND_TIME ? sizeof time_units / sizeof *units
                                                 : 1;
    if (!isdigit((unsigned char)value[0])) return false;
    char *end;
    errno = 0;
    uint64_t number = strtoull(value, &end, 10);
    if (errno) return false;
    if (option->kind == KIND_TIME && number == 0 && !*end) end = (char *)(uintptr_t) "ms"; /* "0" needs no unit */
    for (size_t i = 0; i < n_units; i++) {
        if (strcmp(end, units[i].name) == 0) {
            *out = number * units[i].factor;
            return number <= INT64_MAX / units[i].factor;
        }
    }
    return false;
}

static const char *number_shape(const option *option) {
    return option->kind == KIND_SIZE   ? "a number of bytes such as 65536, 64K, 16M or 2G"
           : option->kind == KIND_TIME ? "a time such as 250ms, 30s or 2m"
                                       : "a whole number";
}

static void range_text(const option *option, char *text, size_t size) {
    const char *unit = option->kind == KIND_SIZE                                    ? " bytes"
                       : option->kind == KIND_TIME || option->kind == KIND_DURATION ? " ms"
                                                                                    : "";
    if (option->high == INT64_MAX) {
        snprintf(text, size, "%" PRId64 "%s or more", option->low, unit);
    } else {
        snprintf(text, size, "%" PRId64 " to %" PRId64 "%s", option->low, option->high, unit);
    }
}

static bool add_item(loader *loader, config_list *list, const char *item, size_t length, const char *where) {
    while (length && isspace((unsigned char)item[0])) item++, length--;
    while (length && isspace((unsigned char)item[length - 1])) length--;
    if (!length) return refuse(loader, "%s: an item is empty", where);
    if (list->n == CONFIG_MAX_LIST) return refuse(loader, "%s: more than %d items", where, CONFIG_MAX_LIST);
    char *copy = strndup(item, length);
    if (!copy) return refuse(loader, "out of memory");
    list->items[list->n++] = copy;
    return true;
}

/* Whether a key was given in the place of its file: it must not come into logs and --print-config. */
static bool is_secret(const option *option, const char *value) {
    char key[KEYFILE_KEY + 1];
    return strcmp(option->name, "stream_key") == 0 && keyfile_parse(value, key) && access(value, F_OK) != 0;
}

/* Sets an option from one source; where names the option as the user wrote it, for messages. */
static bool set(loader *loader, const option *option, source from, const char *value, const char *where) {
    size_t index = (size_t)(option - options);
    if (is_secret(option, value))
        return refuse(
            loader,
            "%s: the value is a key, or a file that is not there, and so is not shown: give the name of the key's file",
            where);
    if (from < loader->sources[index]) return true;
    bool first = from > loader->sources[index] || from == FROM_DEFAULT;
    loader->sources[index] = from;
    void *field = field_of(loader->config, option);
    switch (option->kind) {
    case KIND_SWITCH:
        if (!is_word_of(option->shape, value)) {
            return refuse(loader, "%s: \"%s\" is not one of %s", where, value, option->shape);
        }
        *(bool *)field = strcmp(value, "yes") == 0;
        return true;
    case KIND_CHOICE:
        if (!is_word_of(option->shape, value)) {
            return refuse(loader, "%s: \"%s\" is not one of %s", where, value, option->shape);
        }
        /* fall through */
    case KIND_TEXT: {
        char *copy = strdup(value);
        if (!copy) return refuse(loader, "out of memory");
        free(*(char **)field);
        *(char **)field = copy;
        return true;
    }
    case KIND_LIST: {
        config_list *list = field;
        if (first) {
            for (size_t i = 0; i < list->n; i++) free(list->items[i]);
            list->n = 0;
        }
        if (!*value && !option->fallback[0]) return true; /* an empty list */
        while (value) {
            const char *comma = strchr(value, ',');
            if (!add_item(loader, list, value, comma ? (size_t)(comma - value) : strlen(value), where)) return false;
            value = comma ? comma + 1 : NULL;
        }
        return true;
    }
    case KIND_COUNT:
    case KIND_SIZE:
    case KIND_TIME: {
        uint64_t number;
        if (!number_of(option, value, &number)) {
            return refuse(loader, "%s: \"%s\" is not %s", where, value, number_shape(option));
        }
        if ((int64_t)number < option->low || (int64_t)number > option->high) {
            char range[80];
            range_text(option, range, sizeof range);
            return refuse(loader, "%s: %s is outside its range, %s", where, value, range);
        }
        *(uint64_t *)field = number;
        return true;
    }
    case KIND_DURATION:
        if (duration_read(value, field)) return true;
        return refuse(loader, "%s: \"%s\" is not %s", where, value, DURATION_SHAPE);
    }
    return false;
}

static char *trim(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) end--;
    *end = 0;
    return text;
}

static bool has_comment(const char *value) {
    for (const char *hash = strchr(value, '#'); hash; hash = strchr(hash + 1, '#')) {
        if (hash == value || isspace((unsigned char)hash[-1])) return true;
    }
    return false;
}

static bool read_file(loader *loader, const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) return refuse(loader, "config file %s: %s", path, strerror(errno));
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    for (unsigned number = 1; good && getline(&line, &room, file) >= 0; number++) {
        const bool is_marked = number == 1 && strncmp(line, "\xEF\xBB\xBF", 3) == 0; /* as some editors mark UTF-8 */
        char *text = trim(line + 3 * is_marked);
        if (!*text || *text == '#') continue;
        char *equals = strchr(text, '=');
        char where[256];
        snprintf(where, sizeof where, "%s:%u", path, number);
        if (!equals) {
            good = refuse(loader, "%s: expected `key = value`, found \"%.60s\"", where, text);
            break;
        }
        *equals = 0;
        const char *key = trim(text), *value = trim(equals + 1);
        if (has_comment(value)) {
            good =
                refuse(loader, "%s: %.60s: a comment stands behind the value; give it a line of its own", where, key);
            break;
        }
        const option *option = option_named(key, strlen(key));
        if (!option) {
            good = refuse(loader, "%s: there is no option \"%.60s\"; see contactd --help", where, key);
            break;
        }
        size_t n = strlen(where);
        snprintf(where + n, sizeof where - n, ": %s", key);
        if (option->kind != KIND_LIST && loader->sources[option - options] == FROM_FILE) {
            good = refuse(loader, "%s: given twice; an option that may be repeated is a list", where);
            break;
        }
        good = set(loader, option, FROM_FILE, value, where);
    }
    if (good && ferror(file)) good = refuse(loader, "config file %s: %s", path, strerror(errno));
    free(line);
    fclose(file);
    return good;
}

/* How many letters have to be put in, left out or changed to make b of a, ignoring case and _; many for long names. */
static unsigned distance(const char *a, const char *b) {
    unsigned row[NAME_BYTES + 1];
    size_t n = strlen(b);
    if (n >= NAME_BYTES) return NAME_BYTES;
    for (size_t k = 0; k <= n; k++) row[k] = (unsigned)k;
    for (size_t i = 0; a[i]; i++) {
        unsigned diagonal = row[0]++;
        for (size_t k = 0; k < n; k++) {
            unsigned changed = diagonal + (toupper((unsigned char)a[i]) != toupper((unsigned char)b[k]));
            unsigned shorter = (row[k] < row[k + 1] ? row[k] : row[k + 1]) + 1;
            diagonal = row[k + 1];
            row[k + 1] = changed < shorter ? changed : shorter;
        }
    }
    return row[n];
}

/* The option whose variable looks most like the name; NULL: none looks like it. */
static const option *option_like(const char *name) {
    const option *nearest = NULL;
    unsigned least = 4;
    for (size_t i = 0; i < N_OPTIONS; i++) {
        char other[NAME_BYTES];
        environment_name(&options[i], other);
        unsigned n = distance(name, other);
        if (n < least) {
            least = n;
            nearest = &options[i];
        }
    }
    return nearest;
}

/* Of clients and tests, and what Kubernetes gives to every container beside a service called contactd. */
static bool is_for_others(const char *name) {
    static const char *const names[] = {"CONTACTD_CONFIG",     "CONTACTD_SERVER", "CONTACTD_SERVER_KEY",
                                        "CONTACTD_CLIENT_KEY", "CONTACTD_MESHES", "CONTACTD_PROGRAM",
                                        "CONTACTD_LIBRARY"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) return true;
    }
    return strncmp(name, "CONTACTD_SERVICE_", 17) == 0 || strncmp(name, "CONTACTD_PORT", 13) == 0;
}

static bool check_variable(loader *loader, const char *entry) {
    char name[NAME_BYTES], other[NAME_BYTES];
    size_t n = strcspn(entry, "=");
    if (strncmp(entry, "CONTACTD_", 9) != 0 || !entry[n]) return true;
    snprintf(name, sizeof name, "%.*s", (int)n, entry);
    if (is_for_others(name)) return true;
    for (size_t i = 0; i < N_OPTIONS; i++) {
        environment_name(&options[i], other);
        if (strcmp(other, name) == 0) return true;
    }
    const option *like = option_like(name);
    if (like) environment_name(like, other);
    return refuse(loader, "the variable %s is no option%s%s; see contactd --help", name, like ? ": did you mean " : "",
                  like ? other : "");
}

static bool read_environment(loader *loader, char *const envp[]) {
    for (char *const *entry = envp; entry && *entry; entry++) {
        if (!check_variable(loader, *entry)) return false;
    }
    for (size_t i = 0; i < N_OPTIONS; i++) {
        char name[NAME_BYTES];
        environment_name(&options[i], name);
        size_t n = strlen(name);
        for (char *const *entry = envp; entry && *entry; entry++) {
            if (strncmp(*entry, name, n) == 0 && (*entry)[n] == '=') {
                if (!set(loader, &options[i], FROM_ENVIRONMENT, *entry + n + 1, name)) return false;
            }
        }
    }
    return true;
}

static const char *environment_value(char *const envp[], const char *name) {
    size_t n = strlen(name);
    for (char *const *entry = envp; entry && *entry; entry++) {
        if (strncmp(*entry, name, n) == 0 && (*entry)[n] == '=') return *entry + n + 1;
    }
    return NULL;
}

/* Reads the flags. Values are set only in the second pass, because --config may stand after what it must not win over;
 * the first pass finds --config and the flags that end the run. */
static config_outcome read_flags(loader *loader, int argc, char *const argv[], bool apply, const char **path) {
    config_outcome outcome = CONFIG_RUN;
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i];
        if (strcmp(flag, "--help") == 0 || strcmp(flag, "-h") == 0) return CONFIG_HELP;
        if (strcmp(flag, "--version") == 0) return CONFIG_VERSION;
        if (strcmp(flag, "--print-config") == 0) {
            outcome = CONFIG_PRINT;
            continue;
        }
        if (strncmp(flag, "--", 2) != 0 || !flag[2]) {
            refuse(loader, "unexpected argument \"%s\"; see contactd --help", flag);
            return CONFIG_INVALID;
        }
        const char *name = flag + 2, *equals = strchr(name, '=');
        size_t length = equals ? (size_t)(equals - name) : strlen(name);
        bool is_config = length == 6 && memcmp(name, "config", 6) == 0;
        const option *option = is_config ? NULL : option_named(name, length);
        if (!is_config && !option) {
            refuse(loader, "there is no option --%.*s; see contactd --help", (int)length, name);
            return CONFIG_INVALID;
        }
        if (!equals && option && option->kind == KIND_SWITCH) {
            if (apply && !set(loader, option, FROM_FLAG, "yes", flag)) return CONFIG_INVALID;
            continue;
        }
        if (!equals && i + 1 >= argc) {
            refuse(loader, "--%.*s needs a value: %s", (int)length, name, is_config ? "FILE" : option->shape);
            return CONFIG_INVALID;
        }
        const char *value = equals ? equals + 1 : argv[++i];
        char where[NAME_BYTES + 2];
        snprintf(where, sizeof where, "--%.*s", (int)length, name);
        if (is_config) {
            *path = value;
        } else if (apply && !set(loader, option, FROM_FLAG, value, where)) {
            return CONFIG_INVALID;
        }
    }
    return outcome;
}

/* Lowers a default to a part of the memory that there is. */
static void fit(loader *loader, const uint64_t *field, uint64_t most) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        uint64_t *value = field_of(loader->config, &options[i]);
        if (value != field || loader->sources[i] != FROM_DEFAULT) continue;
        if (most < (uint64_t)options[i].low) most = (uint64_t)options[i].low;
        if (*value > most) *value = most;
    }
}

config_outcome config_load(config *out, int argc, char *const argv[], char *const envp[], uint64_t memory_bytes,
                           char *message, size_t size) {
    memset(out, 0, sizeof *out);
    loader loader = {out, {FROM_DEFAULT}, message, size};
    const char *path = environment_value(envp, "CONTACTD_CONFIG");
    config_outcome outcome = read_flags(&loader, argc, argv, false, &path);
    if (outcome != CONFIG_RUN && outcome != CONFIG_PRINT) return outcome;

    bool good = true;
    for (size_t i = 0; good && i < N_OPTIONS; i++) {
        good = set(&loader, &options[i], FROM_DEFAULT, options[i].fallback, options[i].name);
    }
    good = good && (!path || !*path || read_file(&loader, path));
    good = good && read_environment(&loader, envp);
    good = good && read_flags(&loader, argc, argv, true, &path) != CONFIG_INVALID;
    if (!good) {
        config_free(out);
        return CONFIG_INVALID;
    }
#define FIT(field, part) fit(&loader, &out->field, memory_bytes / (part));
    CONFIG_PARTS_MAP(FIT)
#undef FIT
    return outcome;
}

void config_free(config *config) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        void *field = field_of(config, &options[i]);
        if (options[i].kind == KIND_TEXT || options[i].kind == KIND_CHOICE) {
            free(*(char **)field);
        } else if (options[i].kind == KIND_LIST) {
            config_list *list = field;
            for (size_t k = 0; k < list->n; k++) free(list->items[k]);
        }
    }
    memset(config, 0, sizeof *config);
}

/* Of the memory that its default may be; 0: any. */
static unsigned part_of(const option *option) {
#define PART(field, part)                                                                                              \
    if (option->offset == offsetof(config, field)) return part;
    CONFIG_PARTS_MAP(PART)
#undef PART
    return 0;
}

static bool has_range(const option *option) {
    return option->kind == KIND_COUNT || option->kind == KIND_SIZE || option->kind == KIND_TIME ||
           option->kind == KIND_DURATION;
}

void config_help(FILE *to) {
    fputs(
        "contactd " CONTACTD_VERSION " - contact computation for simulators\n"
        "usage: contactd [option...]\n\n"
        "Every option can be a flag (--max-message 64M), an environment variable (CONTACTD_MAX_MESSAGE=64M) or a line\n"
        "of a file (max-message = 64M); the flag wins over the environment, that over the file.\n\n",
        to);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const option *option = &options[i];
        unsigned part = part_of(option);
        char flag[NAME_BYTES], range[80] = "";
        flag_name(option, flag);
        if (has_range(option)) {
            range_text(option, range, sizeof range);
        }
        const char *shape = option->kind == KIND_SWITCH ? "" : option->shape;
        fprintf(to, "  --%s%s%s\n        %s", flag, *shape ? " " : "", shape, option->help);
        if (range[0]) fprintf(to, " (%s)", range);
        if (option->fallback[0]) fprintf(to, " [%s]", option->fallback);
        if (part) fprintf(to, ", at most 1/%u of the memory", part);
        fputc('\n', to);
    }
    fputs("  --config FILE        read options from FILE (also CONTACTD_CONFIG)\n"
          "  --print-config       print the options in force, in the file's format, and exit\n"
          "  --version            print the version and exit\n"
          "  --help               print this and exit\n\n"
          "exit codes: 0 asked to end (SIGTERM, SIGINT) or nothing to serve; 2 an option is wrong; 3 an address is in "
          "use\n"
          "or cannot be bound; 4 the engine cannot run as asked; 5 the log cannot be written; 6 a device failed while\n"
          "serving: start the server again, its clients register with it by themselves; 7 ended before its work was "
          "done\n"
          "(a second SIGTERM or SIGINT, or work that outlasted --drain by 3 s); 8 the state folder cannot be used; 1\n"
          "anything else\n"
          "SIGHUP opens the log file anew, and reads the list of principals, the certificate and its key again\n",
          to);
}

void config_print(const config *config, FILE *to) {
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const option *option = &options[i];
        const void *field = (const char *)config + option->offset;
        char flag[NAME_BYTES];
        flag_name(option, flag);
        fprintf(to, "%s = ", flag);
        switch (option->kind) {
        case KIND_TEXT:
        case KIND_CHOICE:
            fputs(*(char *const *)field, to);
            break;
        case KIND_COUNT:
        case KIND_SIZE:
            fprintf(to, "%" PRIu64, *(const uint64_t *)field);
            break;
        case KIND_TIME:
        case KIND_DURATION:
            fprintf(to, "%" PRIu64 "ms", *(const uint64_t *)field);
            break;
        case KIND_SWITCH:
            fputs(*(const bool *)field ? "yes" : "no", to);
            break;
        case KIND_LIST: {
            const config_list *list = field;
            for (size_t k = 0; k < list->n; k++) fprintf(to, "%s%s", k ? "," : "", list->items[k]);
            break;
        }
        }
        fputc('\n', to);
    }
}
