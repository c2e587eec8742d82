/* man.c - contactctl man-page: the manual page, as roff, of the tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "client_c/ctl/help.h"

/* Text as roff shows it: a backslash and a minus sign are escaped, and so is what would begin a request. */
static void put(const char *text) {
    if (*text == '.' || *text == '\'') fputs("\\&", stdout);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
    }
}

static void put_option(ctl_option option) {
    const ctl_option_row *row = &ctl_options[option];
    fputs(".TP\n.B ", stdout);
    put(row->name);
    if (option == OPT_OUTPUT) fputs(", \\-o", stdout);
    if (option == OPT_HELP) fputs(", \\-h", stdout);
    if (row->value) {
        fputs(" \\fI", stdout);
        put(row->value);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put(row->text);
    putchar('\n');
}

static void put_options(ctl_set which) {
    for (int o = 0; o < OPT_COUNT; o++)
        if (which & CTL_BIT(o)) put_option((ctl_option)o);
}

static void put_examples(const char *at) {
    char line[160];
    fputs(".RS\n.nf\n", stdout);
    while (*at) {
        const size_t n = strcspn(at, "\n");
        snprintf(line, sizeof line, "contactctl %.*s", (int)n, at);
        put(line);
        putchar('\n');
        at += n + 1;
    }
    fputs(".fi\n.RE\n", stdout);
}

static void put_command(const ctl_command *c) {
    fputs(".SS ", stdout);
    put(c->noun);
    if (c->verb) {
        putchar(' ');
        put(c->verb);
    }
    if (*c->args) {
        putchar(' ');
        put(c->args);
    }
    putchar('\n');
    put(c->text);
    fputs(".\n", stdout);
    put_examples(c->examples);
    put_options(c->allowed);
}

int ctl_man_page(ctl *ctl) {
    (void)ctl;
    puts(".TH CONTACTCTL 1 \"\" \"contactd " CONTACTD_VERSION "\" \"User commands\"\n.SH NAME\n"
         "contactctl \\- the command line of contactd\n.SH SYNOPSIS\n.B contactctl\n"
         "[\\fIOPTION\\fR]... \\fICOMMAND\\fR [\\fIARGUMENT\\fR]...\n.SH DESCRIPTION\n"
         "Asks a contactd server, over the stream that simulators use. Options may stand anywhere on the line. "
         "Data goes to standard output, messages to standard error.\n.SH COMMANDS");
    for (int i = 0; i < ctl_command_count; i++) put_command(&ctl_commands[i]);
    puts(".SH OPTIONS\nOf every command:");
    put_options(CTL_BIT(OPT_LAST_COMMON + 1) - 1);
    puts(".SH EXIT STATUS");
    put(ctl_exit_codes);
    puts("\n.SH ENVIRONMENT\n"
         ".TP\n.B CONTACTD_SERVER\nThe server's address, as \\-\\-server.\n"
         ".TP\n.B CONTACTD_SERVER_KEY\nThe server's public key, as \\-\\-server\\-key.\n"
         ".TP\n.B CONTACTD_CLIENT_KEY\nThe own key pair, as \\-\\-client\\-key.\n"
         ".SH SEE ALSO\n.BR contactd (1)");
    return EXIT_OK;
}
