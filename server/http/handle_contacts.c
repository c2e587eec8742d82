/* handle_contacts.c - the contacts of a scene's last step, a page of them, in an order that is asked for. */
#include <stdlib.h>
#include <string.h>

#include "server/http/answers.h"
#include "server/http/handlers.h"

enum { DEFAULT_LIMIT = 100 };

typedef enum order { BY_PLACE, BY_VOLUME, BY_DEPTH, BY_ID } order;

/* ?offset=N&limit=N&sort=WORD&body=ID */
typedef struct wanted {
    uint64_t offset, limit, body;
    order order;
} wanted;

static bool take_order(const query_field *field, order *out, problem *p) {
    static const char *const words[] = {[BY_VOLUME] = "volume", [BY_DEPTH] = "depth", [BY_ID] = "id"};
    *out = BY_PLACE;
    if (!field->text[0]) return true;
    for (order o = BY_VOLUME; o <= BY_ID; o++)
        if (strcmp(field->text, words[o]) == 0) *out = o;
    return *out != BY_PLACE || problem_set(p, CONTACTD_INVALID_ARGUMENT, field->name,
                                           "the query parameter sort is none of volume, depth and id");
}

static bool parse(const char *query, wanted *out, problem *p) {
    query_field field[] = {{.name = "offset"}, {.name = "limit"}, {.name = "sort"}, {.name = "body"}, {.name = NULL}};
    *out = (wanted){.limit = DEFAULT_LIMIT};
    return request_fields(query, field, HTTP_QUERY_CONTACTS, p) &&
           request_whole(&field[0], 0, UINT32_MAX, &out->offset, p) &&
           request_whole(&field[1], 1, REQUEST_MAX_PAGE, &out->limit, p) && take_order(&field[2], &out->order, p) &&
           request_whole(&field[3], 1, UINT32_MAX, &out->body, p);
}

/* ---- the order ---- */

typedef struct place {
    double key; /* the largest first */
    const ct_contact *contact;
} place;

static int compare(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return (x->contact > y->contact) - (x->contact < y->contact);
}

static double key_of(const ct_contact *contact, order order) {
    return order == BY_VOLUME  ? contact->volume
           : order == BY_DEPTH ? contact->depth
           : order == BY_ID    ? -(double)contact->id
                               : 0;
}

/* The contacts that are wanted, on whatever page; *n of them. NULL: out of memory. */
static place *list(const ct_result *result, const wanted *wanted, size_t *n) {
    place *places = malloc((result->n_contacts + 1) * sizeof *places);
    *n = 0;
    for (size_t i = 0; places && i < result->n_contacts; i++) {
        const ct_contact *contact = &result->contacts[i];
        if (wanted->body && contact->body[0] != wanted->body && contact->body[1] != wanted->body) continue;
        places[(*n)++] = (place){key_of(contact, wanted->order), contact};
    }
    if (places && wanted->order != BY_PLACE) qsort(places, *n, sizeof *places, compare);
    return places;
}

/* ---- the answer ---- */

static bool write(const ct_result *result, const scene_record *scene, const wanted *wanted, http_answer *answer,
                  problem *p) {
    size_t n = 0;
    place *places = result ? list(result, wanted, &n) : NULL;
    json_out out;
    if (result && !places) return problem_set(p, CONTACTD_OUT_OF_MEMORY, NULL, "no memory for a list of contacts");
    json_out_init(&out, SIZE_MAX);
    json_out_object(&out, NULL);
    json_out_integer(&out, "scene", scene->handle);
    json_out_integer(&out, "step", scene->steps);
    json_out_integer(&out, "total", n);
    json_out_integer(&out, "offset", wanted->offset);
    json_out_array(&out, "contacts");
    for (uint64_t i = wanted->offset; i < n && i - wanted->offset < wanted->limit; i++) {
        json_out_object(&out, NULL);
        answer_contact(&out, result, places[i].contact, true);
        json_out_object_end(&out);
    }
    json_out_array_end(&out);
    json_out_object_end(&out);
    free(places);
    return handler_finish(&out, 200, answer, p);
}

static bool no_answer(const scene_record *scene, const step_answer *last, problem *p) {
    if (last) return problem_set(p, CONTACTD_CONFLICT, "scene", "the last step failed, so there are no contacts of it");
    return problem_set(p, CONTACTD_CONFLICT, "scene",
                       "the contacts of step %llu are not kept any more: answers had to make room for others "
                       "(--scene-memory). Those of the next step will be there",
                       (unsigned long long)scene->steps);
}

bool handle_contacts(const service *service, const http_request *request, http_answer *answer, problem *p) {
    wanted wanted;
    scene_record scene;
    server_error error = {0};
    command command = {
        .kind = COMMAND_LIST_BODIES, .session = SESSION_NONE, .who = request->who, .left = request->left};
    command.in.list_bodies.with_answer = true;
    if (!route_scene(&request->match, &command.scene, p) || !parse(request->query, &wanted, p)) return false;
    if (!scheduler_execute(service->scheduler, &command)) return problem_take(p, &command.error);
    free(command.out.bodies.items);
    step_answer *last = command.out.bodies.answer;
    const ct_result *result = last ? step_answer_result(last) : NULL;
    bool good = registry_scene(service->registry, command.scene, &scene, &error) || problem_take(p, &error);
    if (good && !result && scene.steps) good = no_answer(&scene, last, p);
    good = good && write(result, &scene, &wanted, answer, p);
    step_answer_release(&last);
    return good;
}
