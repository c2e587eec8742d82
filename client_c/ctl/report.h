/* report.h - the server's reports as jansson's values, for the commands that show them. */
#ifndef CONTACTCTL_REPORT_H
#define CONTACTCTL_REPORT_H

#include <jansson.h>

#include "client_c/ctl/ctl.h"

/* An exit code; after EXIT_OK the caller frees *out with json_decref. what: the command, for messages. */
int ctl_get_report(ctl *ctl, contactd_report kind, uint64_t scene, const char *what, json_t **out);
/* The same, but EXIT_OK with *out NULL where the server is older than this kind of report. */
int ctl_get_newer_report(ctl *ctl, contactd_report kind, uint64_t scene, const char *what, json_t **out);
void ctl_put_report(const json_t *report); /* on stdout */
void ctl_put_bodies(const json_t *report); /* CONTACTD_REPORT_BODIES as a table */
void ctl_put_contacts(const json_t *report,
                      size_t most); /* CONTACTD_REPORT_CONTACTS as a table of so many rows at most */
/* What is absent is "" and 0. */
const char *ctl_text_of(const json_t *object, const char *key);
uint64_t ctl_count_of(const json_t *object, const char *key);

#endif
