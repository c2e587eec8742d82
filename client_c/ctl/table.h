/* table.h - every command and option of contactctl, once. */
#ifndef CONTACTCTL_TABLE_H
#define CONTACTCTL_TABLE_H

#include "client_c/ctl/ctl.h"

/* A set of options. */
typedef unsigned __int128 ctl_set;
#define CTL_BIT(option) ((ctl_set)1 << (option))

typedef struct ctl_option_row {
    const char *name, *value, *text; /* value NULL: a flag */
} ctl_option_row;
extern const ctl_option_row ctl_options[OPT_COUNT];

typedef struct ctl_command {
    const char *noun, *verb, *args, *text; /* verb NULL: the noun is the command */
    int least, most;                       /* arguments */
    ctl_set allowed;                       /* options beside those of every command, as CTL_BITs */
    int (*run)(ctl *ctl);
} ctl_command;
extern const ctl_command ctl_commands[];
extern const int ctl_command_count;

ctl_set ctl_options_of(const ctl_command *command); /* with those of every command */

/* ---- help.c: all made of the tables ---- */

extern const char ctl_exit_codes[];
void ctl_print_help(FILE *to, const char *noun); /* of all commands, or of a noun's; noun NULL: all */
void ctl_print_help_of(FILE *to, const ctl_command *command);

#endif
