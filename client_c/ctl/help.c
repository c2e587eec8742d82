/* help.c - the texts that are made of the tables of commands and options. */
#include "client_c/ctl/help.h"

#include <string.h>

#include "proto/setting_rows.h"

const char ctl_exit_codes[] = "0 ok, 2 usage, 3 refused input, 4 server unreachable, 5 server error, 6 a replay's "
                              "answers differ, 7 judge finds more than --limit";

static const char first_examples[] = "doctor --server tcp://lab:5555\n"
                                     "contact nut.stl bolt.stl --scale 0.001\n"
                                     "scene list --json\n"
                                     "help scene set\n";

static bool is_for_papers(int option) {
    return option >= OPT_SETTING && ct_setting_rows[option - OPT_SETTING].is_paper;
}

enum { LINE = 100 }; /* columns */

/* The length of the words of `text` that fit in so many columns, at least one. */
static int fitting(const char *text, int most) {
    int n = (int)strcspn(text, " ");
    for (const char *end; text[n] == ' '; n = (int)(end - text)) {
        end = text + n + 1 + strcspn(text + n + 1, " ");
        if (end - text > most) break;
    }
    return n;
}

/* A row of two columns: the second is broken into lines, and begins below the first where that is wider. */
static void print_row(FILE *to, int width, const char *left, const char *text) {
    const int indent = width + 3;
    fprintf(to, "  %-*s", width, left);
    for (bool is_below = strlen(left) > (size_t)width; *text; is_below = true) {
        const int n = fitting(text, LINE - indent);
        fprintf(to, "%s%*s%.*s", is_below ? "\n" : "", is_below ? indent : 1, "", n, text);
        text += n + (text[n] == ' ');
    }
    fputc('\n', to);
}

static void print_those(FILE *to, ctl_set which, bool for_papers) {
    for (int o = 0; o < OPT_COUNT; o++) {
        if (!(which & CTL_BIT(o)) || is_for_papers(o) != for_papers) continue;
        char left[80];
        snprintf(left, sizeof left, "%s %s", ctl_options[o].name, ctl_options[o].value ? ctl_options[o].value : "");
        print_row(to, 36, left, ctl_options[o].text);
    }
}

static void print_options(FILE *to, ctl_set which) {
    print_those(to, which, false);
    bool has_more = false;
    for (int o = 0; o < OPT_COUNT; o++) has_more = has_more || ((which & CTL_BIT(o)) && is_for_papers(o));
    if (has_more) fputs("\nto repeat the papers' experiments:\n", to);
    print_those(to, which, true);
}

/* "scene list ARGS"; "status" */
static const char *command_line(const ctl_command *c, char *out, size_t size) {
    snprintf(out, size, "%s%s%s%s%s", c->noun, c->verb ? " " : "", c->verb ? c->verb : "", *c->args ? " " : "",
             c->args);
    return out;
}

static void print_examples(FILE *to, const char *examples) {
    for (const char *at = examples; *at;) {
        const int n = (int)strcspn(at, "\n");
        fprintf(to, "  contactctl %.*s\n", n, at);
        at += n + 1;
    }
}

void ctl_print_help_of(FILE *to, const ctl_command *command) {
    char line[96];
    fprintf(to, "usage: contactctl %s [options]\n\n%s\n\nexamples:\n", command_line(command, line, sizeof line),
            command->text);
    print_examples(to, command->examples);
    fputs("\noptions, anywhere on the line:\n", to);
    print_options(to, ctl_options_of(command));
    fprintf(to, "\nexit codes: %s\n", ctl_exit_codes);
}

void ctl_print_help(FILE *to, const char *noun) {
    fprintf(to, "usage: contactctl [--server ADDRESS] [-o json|table] COMMAND ...\n\n");
    for (int i = 0; i < ctl_command_count; i++) {
        const ctl_command *c = &ctl_commands[i];
        char line[96];
        if (noun && strcmp(noun, c->noun) != 0) continue;
        print_row(to, 20, command_line(c, line, sizeof line), c->text);
    }
    fputs("\nexamples:\n", to);
    if (!noun) print_examples(to, first_examples);
    for (int i = 0; noun && i < ctl_command_count; i++)
        if (strcmp(noun, ctl_commands[i].noun) == 0) print_examples(to, ctl_commands[i].examples);
    fputs("\noptions of every command, anywhere on the line; COMMAND --help tells the others:\n", to);
    print_options(to, CTL_BIT(OPT_LAST_COMMON + 1) - 1);
    fprintf(to, "\nexit codes: %s\n", ctl_exit_codes);
}
