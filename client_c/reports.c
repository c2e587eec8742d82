/* reports.c - what operators ask of a server: its reports, and that it drains. */
#include <assert.h>
#include <stdio.h>

#include "client_c/base.h"
#include "client_c/records.h"
#include "client_c/session.h"

static_assert((int)CONTACTD_REPORT_SESSIONS == (int)WIRE_REPORT_SESSIONS &&
                  (int)CONTACTD_REPORT_CONTACTS == (int)WIRE_REPORT_CONTACTS,
              "reports");

contactd_code contactd_get_report(contactd_client *client, contactd_report kind, uint64_t scene, const char **json,
                                  size_t *size) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "report", json);
    CTC_REQUIRE(client, "report", size);
    *json = NULL;
    *size = 0;
    char object[CTC_OBJECT] = "report";
    if (kind == CONTACTD_REPORT_BODIES || kind == CONTACTD_REPORT_CONTACTS)
        snprintf(object, sizeof object, "scene %llu", (unsigned long long)scene);
    contactd_code code;
    do {
        wire_message m = {.type = WIRE_GET_REPORT, .u.get_report = {(wire_report_kind)kind, scene}};
        code = ctc_exchange(client, &m, WIRE_REPORT, object);
    } while (code == CTC_AGAIN);
    if (code != CONTACTD_OK) return code;
    *json = client->message.u.report.json.data;
    *size = (size_t)client->message.u.report.json.count;
    return CONTACTD_OK;
}

contactd_code contactd_drain(contactd_client *client) {
    CTC_BEGIN(client);
    contactd_code code;
    do {
        wire_message m = {.type = WIRE_DRAIN};
        code = ctc_exchange(client, &m, WIRE_DONE, "server");
    } while (code == CTC_AGAIN);
    return code;
}
