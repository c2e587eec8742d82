/* table.h - every command of contactctl, once. */
#ifndef CONTACTCTL_TABLE_H
#define CONTACTCTL_TABLE_H

#include "client_c/ctl/options.h"

typedef struct ctl_command {
    const char *noun, *verb, *args, *text; /* verb NULL: the noun is the command */
    int least, most;                       /* arguments */
    ctl_set allowed;                       /* options beside those of every command, as CTL_BITs */
    int (*run)(ctl *ctl);
    const char *examples; /* lines of a shell, without contactctl, that a server and files may be given to */
} ctl_command;
extern const ctl_command ctl_commands[];
extern const int ctl_command_count;

/* With those of every command. */
static inline ctl_set ctl_options_of(const ctl_command *command) {
    return command->allowed | (CTL_BIT(OPT_LAST_COMMON + 1) - 1);
}

#endif
