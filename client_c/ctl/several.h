/* several.h - the servers that --server names, each by itself, for the commands that show all of them. */
#ifndef CONTACTCTL_SEVERAL_H
#define CONTACTCTL_SEVERAL_H

#include "client_c/ctl/ctl.h"

typedef struct ctl_server {
    char *address;
    bool is_up; /* then ctl.client is connected to it */
    ctl ctl;    /* the command line, for this server */
} ctl_server;

typedef struct ctl_servers {
    contactd_fleet *fleet; /* finds out who is there; NULL: --server is one address, and there is one server */
    ctl_server *list;
    size_t n;
} ctl_servers;

/* Connects to all that answer. An exit code: EXIT_OK where one does. */
int ctl_servers_open(const ctl *ctl, ctl_servers *out);
/* Reads the addresses again, and asks all servers: some join, leave, or come back. Does nothing for one address. */
int ctl_servers_look(const ctl *ctl, ctl_servers *servers);
void ctl_servers_close(ctl_servers *servers);

#endif
