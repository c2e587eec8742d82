/* contactctl.c - the command line client: what is said on the line, and which command that is.
 *
 * Data goes to stdout, messages to stderr. Exit codes are in ctl.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/ctl/guess.h"
#include "client_c/ctl/help.h"
#include "client_c/ctl/progress.h"

/* ---- the line ---- */

static int find_option(const char *arg, size_t length) {
    if (length == 2 && strncmp(arg, "-o", 2) == 0) return OPT_OUTPUT;
    if (length == 2 && strncmp(arg, "-h", 2) == 0) return OPT_HELP;
    for (int o = 0; o < OPT_COUNT; o++)
        if (strlen(ctl_options[o].name) == length && strncmp(arg, ctl_options[o].name, length) == 0) return o;
    return -1;
}

static int unknown_option(const char *arg, size_t length) {
    ctl_guess guess = {.given = arg, .length = length};
    for (int o = 0; o < OPT_COUNT; o++) ctl_guess_from(&guess, ctl_options[o].name);
    const char *meant = ctl_guess_end(&guess);
    return meant ? ctl_mistake("unknown option %.*s; did you mean %s?", (int)length, arg, meant)
                 : ctl_mistake("unknown option %.*s; contactctl --help lists them", (int)length, arg);
}

/* True once the words are "record FILE COMMAND": options that follow belong to COMMAND. */
static bool begins_command(const char **words, int n) {
    return n == 3 && strcmp(words[0], "record") == 0;
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
            only_words = only_words || begins_command(words, *n_words);
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            only_words = true;
            continue;
        }
        const size_t length = equals ? (size_t)(equals - arg) : strlen(arg);
        int o = find_option(arg, length);
        if (o < 0) return unknown_option(arg, length);
        if (ctl->options[o]) return ctl_mistake("%s is given twice", ctl_options[o].name);
        if (!ctl_options[o].value) {
            if (equals) return ctl_mistake("%s takes no value", ctl_options[o].name);
            ctl->options[o] = "";
        } else if (equals) {
            ctl->options[o] = equals + 1;
        } else if (i + 1 < argc) {
            ctl->options[o] = argv[++i];
        } else {
            return ctl_mistake("%s lacks its value: %s %s", ctl_options[o].name, ctl_options[o].name,
                               ctl_options[o].value);
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
    if (ctl->options[OPT_JSON] && (to_file || (output && strcmp(output, "json") != 0)))
        return ctl_mistake(to_file ? "--json is not an option of snapshot, which writes a picture"
                                   : "--json and --output table exclude each other: give one");
    ctl->json = !to_file && (ctl->options[OPT_JSON] || (output && strcmp(output, "json") == 0));
    ctl->server = ctl_whole_address(ctl->options[OPT_SERVER] ? ctl->options[OPT_SERVER] : defaults.server);
    if (!ctl_number(ctl, OPT_TIMEOUT, &seconds)) return EXIT_USAGE;
    if (!(seconds > 0 && seconds <= 86400))
        return ctl_mistake("--timeout is %g, expected > 0 and at most 86400", seconds);
    ctl->timeout_ms = (uint32_t)ceil(seconds * 1000);
    return EXIT_OK;
}

static const ctl_command *find_verb(const char **words, int n) {
    for (int i = 0; i < ctl_command_count; i++)
        if (n > 0 && strcmp(words[0], ctl_commands[i].noun) == 0 &&
            (!ctl_commands[i].verb || (n > 1 && strcmp(words[1], ctl_commands[i].verb) == 0)))
            return &ctl_commands[i];
    return NULL;
}

static bool is_noun(const char *word) {
    for (int i = 0; i < ctl_command_count; i++)
        if (strcmp(word, ctl_commands[i].noun) == 0) return true;
    return false;
}

static int unknown_command(const char *word, const char *list) {
    ctl_guess guess = {.given = word, .length = strlen(word)};
    for (int i = 0; i < ctl_command_count; i++) ctl_guess_from(&guess, ctl_commands[i].noun);
    const char *meant = ctl_guess_end(&guess);
    return meant ? ctl_mistake("there is no command %s; did you mean %s?", word, meant)
                 : ctl_mistake("there is no command %s; %s lists them", word, list);
}

static int unknown_verb(const char *noun, const char *word) {
    ctl_guess guess = {.given = word, .length = strlen(word)};
    for (int i = 0; i < ctl_command_count; i++)
        if (strcmp(ctl_commands[i].noun, noun) == 0 && ctl_commands[i].verb)
            ctl_guess_from(&guess, ctl_commands[i].verb);
    const char *meant = ctl_guess_end(&guess);
    return meant ? ctl_mistake("there is no command %s %s; did you mean %s %s?", noun, word, noun, meant)
                 : ctl_mistake("there is no command %s %s; contactctl help %s tells more", noun, word, noun);
}

/* `help scene set` prints what `scene set --help` prints. */
int ctl_help(ctl *ctl) {
    const ctl_command *command = find_verb(ctl->args, ctl->n_args);
    const char *noun = ctl->n_args ? ctl->args[0] : NULL;
    if (noun && !is_noun(noun)) return unknown_command(noun, "contactctl help");
    if (ctl->n_args == 2 && !(command && command->verb)) return unknown_verb(noun, ctl->args[1]);
    if (command)
        ctl_print_help_of(stdout, command);
    else
        ctl_print_help(stdout, noun);
    return EXIT_OK;
}

static int run(ctl *ctl, const char **words, int n_words) {
    const ctl_command *v = find_verb(words, n_words);
    if (ctl->options[OPT_VERSION]) {
        puts("contactctl " CONTACTD_VERSION);
        return EXIT_OK;
    }
    if (ctl->options[OPT_HELP]) {
        if (v)
            ctl_print_help_of(stdout, v);
        else
            ctl_print_help(stdout, n_words && is_noun(words[0]) ? words[0] : NULL);
        return EXIT_OK;
    }
    if (n_words == 0) {
        ctl_print_help(stderr, NULL);
        return EXIT_USAGE;
    }
    if (!v) {
        if (!is_noun(words[0])) return unknown_command(words[0], "contactctl --help");
        if (n_words > 1) return unknown_verb(words[0], words[1]);
        ctl_print_help(stderr, words[0]);
        return EXIT_USAGE;
    }
    int before = v->verb ? 2 : 1;
    ctl->n_args = n_words - before;
    memcpy(ctl->args, words + before, (size_t)ctl->n_args * sizeof *words);
    if (ctl->n_args < v->least || ctl->n_args > v->most) {
        ctl_mistake("%s%s%s takes %s%s, but %d argument%s given", v->noun, v->verb ? " " : "", v->verb ? v->verb : "",
                    v->most ? "" : "no arguments", v->args, ctl->n_args, ctl->n_args == 1 ? " is" : "s are");
        return EXIT_USAGE;
    }
    for (int o = OPT_LAST_COMMON + 1; o < OPT_COUNT; o++)
        if (ctl->options[o] && !(v->allowed & CTL_BIT(o)))
            return ctl_mistake("%s is not an option of %s%s%s", ctl_options[o].name, v->noun, v->verb ? " " : "",
                               v->verb ? v->verb : "");
    int code = common_options(ctl, v->run == ctl_snapshot);
    return code == EXIT_OK ? v->run(ctl) : code;
}

int main(int argc, char **argv) {
    static ctl ctl;
    const char *words[sizeof ctl.args / sizeof *ctl.args];
    int n_words, code = parse(&ctl, argc, argv, words, &n_words);
    if (code == EXIT_OK) code = run(&ctl, words, n_words);
    progress_end();
    contactd_close(&ctl.client);
    if (fflush(stdout) || ferror(stdout)) {
        ctl_say("the output could not be written");
        if (code == EXIT_OK) code = EXIT_SERVER;
    }
    return code;
}
