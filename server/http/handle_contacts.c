/* handle_contacts.c - the contacts of a scene's last step. */
#include <stdlib.h>
#include <string.h>

#include "server/core/contacts.h"
#include "server/http/handlers.h"

enum { DEFAULT_LIMIT = 100 };

static bool take_order(const query_field *field, contact_order *out, problem *p) {
    static const char *const words[] = {
        [CONTACTS_BY_VOLUME] = "volume", [CONTACTS_BY_DEPTH] = "depth", [CONTACTS_BY_ID] = "id"};
    *out = CONTACTS_BY_PLACE;
    if (!field->text[0]) return true;
    for (contact_order o = CONTACTS_BY_VOLUME; o <= CONTACTS_BY_ID; o++)
        if (strcmp(field->text, words[o]) == 0) *out = o;
    return *out != CONTACTS_BY_PLACE || problem_set(p, CONTACTD_INVALID_ARGUMENT, field->name,
                                                    "the query parameter sort is none of volume, depth and id");
}

/* ?offset=N&limit=N&sort=WORD&body=ID */
static bool parse(const char *query, contact_page *out, problem *p) {
    query_field field[] = {{.name = "offset"}, {.name = "limit"}, {.name = "sort"}, {.name = "body"}, {.name = NULL}};
    *out = (contact_page){.limit = DEFAULT_LIMIT};
    return request_fields(query, field, HTTP_QUERY_CONTACTS, p) &&
           request_whole(&field[0], 0, UINT32_MAX, &out->offset, p) &&
           request_whole(&field[1], 1, REQUEST_MAX_PAGE, &out->limit, p) && take_order(&field[2], &out->order, p) &&
           request_whole(&field[3], 1, UINT32_MAX, &out->body, p);
}

bool handle_contacts(const service *service, const http_request *request, http_answer *answer, problem *p) {
    contact_page page;
    scene_record scene;
    server_error error = {0};
    json_out out;
    command command = {
        .kind = COMMAND_LIST_BODIES, .session = SESSION_NONE, .who = request->who, .left = request->left};
    command.in.list_bodies.with_answer = true;
    if (!route_scene(&request->match, &command.scene, p) || !parse(request->query, &page, p)) return false;
    if (!scheduler_execute(service->scheduler, &command)) return problem_take(p, &command.error);
    free(command.out.bodies.items);
    json_out_init(&out, SIZE_MAX);
    const bool good = registry_scene(service->registry, command.scene, &scene, &error) &&
                      report_contacts(&out, &scene, command.out.bodies.answer, &page, &error);
    step_answer_release(&command.out.bodies.answer);
    if (good) return handler_finish(&out, 200, answer, p);
    json_out_free(&out);
    return problem_take(p, &error);
}
