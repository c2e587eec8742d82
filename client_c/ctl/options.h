/* options.h - every option of contactctl, once. */
#ifndef CONTACTCTL_OPTIONS_H
#define CONTACTCTL_OPTIONS_H

#include "client_c/ctl/ctl.h"

/* A set of options. */
typedef unsigned __int128 ctl_set;
#define CTL_BIT(option) ((ctl_set)1 << (option))

typedef struct ctl_option_row {
    const char *name, *value, *text; /* value NULL: a flag */
} ctl_option_row;
extern const ctl_option_row ctl_options[OPT_COUNT];
const char *ctl_option_name(ctl_option option);

#endif
