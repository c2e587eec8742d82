/* help.h - the texts that are made of the tables of commands and options. */
#ifndef CONTACTCTL_HELP_H
#define CONTACTCTL_HELP_H

#include "client_c/ctl/table.h"

extern const char ctl_exit_codes[];
void ctl_print_help(FILE *to, const char *noun); /* of all commands, or of a noun's; noun NULL: all */
void ctl_print_help_of(FILE *to, const ctl_command *command);

#endif
