/* fuzz_http.c - everything of the HTTP side that reads what strangers send: the router, access checks, media types,
 * query strings, and every JSON body. The first byte chooses; the rest is the text. */
#include <stdlib.h>
#include <string.h>

#include "server/http/access.h"
#include "server/http/json_in.h"
#include "server/http/media.h"
#include "server/http/requests.h"
#include "server/http/router.h"
#include "server/http/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
    if (!ok) abort();
}

/* A refusal says why, its document is UTF-8, and its status is one. */
static void check_outcome(bool ok, const problem *p) {
    check(ok == (p->code == CONTACTD_OK));
    if (ok) return;
    size_t n = 0;
    char *document = problem_document(p, &n);
    check(document && text_is_utf8(document, n) && problem_status(p) >= 400 && problem_status(p) < 600);
    free(document);
}

static void bodies(uint8_t which, const char *text, size_t size) {
    problem p = {0};
    union {
        mesh_request mesh;
        scene_request scene;
        ct_settings_change patch;
        body_request body;
        step_request step;
    } u;
    bool ok = false;
    switch (which % 5) {
    case 0:
        ok = request_mesh(text, size, &u.mesh, &p);
        for (size_t i = 0; ok && i < 3 * u.mesh.n_triangles; i++) check(u.mesh.triangles[i] <= UINT32_MAX);
        if (ok) request_mesh_free(&u.mesh);
        break;
    case 1:
        ok = request_scene(text, size, &u.scene, &p);
        check(!ok || text_is_utf8(u.scene.name, strlen(u.scene.name)));
        break;
    case 2:
        ok = request_settings(text, size, &u.patch, &p);
        break;
    case 3:
        ok = request_body(text, size, &u.body, &p);
        check(!ok || u.body.mesh || request_is_hash(u.body.mesh_hash));
        if (ok) request_body_free(&u.body);
        break;
    case 4:
        ok = request_step(text, size, &u.step, &p);
        if (ok) request_step_free(&u.step);
        break;
    }
    check_outcome(ok, &p);
    char where[96];
    json_in_where(text, size, size, where, sizeof where);
    check(text_is_utf8(where, strlen(where)));
}

static void line(uint8_t which, const char *text) {
    static const char *const methods[] = {"GET", "HEAD", "POST", "PATCH", "DELETE", "PUT"};
    problem p = {0};
    route_match match;
    uint64_t number;
    uint32_t body;
    bool ok = route_find(methods[which % 6], text, &match, &p);
    check_outcome(ok, &p);
    if (ok && strstr(route_path(match.route), "{scene}")) check_outcome(route_scene(&match, &number, &p), &p);
    if (ok && p.code == CONTACTD_OK && match.route == ROUTE_BODY) check_outcome(route_body(&match, &body, &p), &p);
    text_view name, value;
    for (const char *query = text; text_next_parameter(&query, &name, &value);) {
        char decoded[64];
        if (text_unescape(value.data, value.size, true, decoded, sizeof decoded)) check(strlen(decoded) <= value.size);
    }
    problem refused = {0};
    ct_snapshot_options options;
    ok = request_snapshot(text, &options, &refused);
    check_outcome(ok, &refused);
    check(!ok || ct_snapshot_options_check(&options, NULL) == CT_OK);
    problem denied = {0};
    size_t token_size;
    access_request access = {.host = text,
                             .origin = which & 1 ? text : NULL,
                             .sec_fetch_site = which & 2 ? text : NULL,
                             .changes = which & 4,
                             .computes = which & 16,
                             .loopback = which & 8};
    const char *token = access_token(text, &token_size);
    check(!token || (token_size > 0 && token + token_size == text + strlen(text)));
    check_outcome(access_check(&access, &denied), &denied);
    problem other = {0};
    media media;
    check_outcome(media_find(text, which & 1, &media, &other), &other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    char *text = malloc(size); /* exactly as large as it may be read */
    check(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (data[0] & 0x80)
        line(data[0] & 0x7f, text);
    else
        bodies(data[0], text, size - 1);
    free(text);
    return 0;
}
