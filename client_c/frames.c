/* frames.c - contact frames that are continuous in time: a scene's tangents as of the last step that was waited for. */
#include "client_c/frames.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/records.h"

/* The tangents of one contact. */
struct ctc_frame {
    contactd_body bodies[2];
    uint32_t index;
    double tangents[2][3];
};

contactd_code contactd_set_continuous_frames(contactd_client *client, contactd_scene handle, bool on) {
    CTC_BEGIN(client);
    ctc_scene *scene = ctc_find_scene(client, handle);
    if (!scene) return client->error.code;
    scene->has_continuous_frames = on;
    scene->n_frames = 0;
    return CONTACTD_OK;
}

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double a[3], const double b[3], double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

/* The part of v across n, scaled to length 1. False: little of v is across n. */
static bool project(const double v[3], const double n[3], double out[3]) {
    const double along = dot(v, n);
    for (int i = 0; i < 3; i++) out[i] = v[i] - along * n[i];
    const double size = sqrt(dot(out, out));
    for (int i = 0; i < 3 && size > 0; i++) out[i] /= size;
    return size > 0.5;
}

static int compare(const void *a, const void *b) {
    const struct ctc_frame *x = a, *y = b;
    const uint32_t left[3] = {x->bodies[0], x->bodies[1], x->index}, right[3] = {y->bodies[0], y->bodies[1], y->index};
    for (int i = 0; i < 3; i++)
        if (left[i] != right[i]) return left[i] < right[i] ? -1 : 1;
    return 0;
}

static struct ctc_frame frame_of(const contactd_contact *contact) {
    struct ctc_frame frame = {.bodies = {contact->bodies[0], contact->bodies[1]}, .index = contact->index};
    memcpy(frame.tangents, contact->tangents, sizeof frame.tangents);
    return frame;
}

bool ctc_continue_frames(ctc_scene *scene, contactd_contact *contacts, uint32_t n) {
    if (!scene->has_continuous_frames) return true;
    for (uint32_t i = 0; i < n; i++) {
        contactd_contact *c = &contacts[i];
        const struct ctc_frame key = frame_of(c);
        const struct ctc_frame *before =
            scene->n_frames ? bsearch(&key, scene->frames, scene->n_frames, sizeof key, compare) : NULL;
        if (!before || dot(c->normal, c->normal) == 0) continue;
        double *const t = c->tangents[0], *const u = c->tangents[1];
        if (project(before->tangents[0], c->normal, t)) {
            cross(c->normal, t, u);
        } else { /* the normal has turned to the first tangent: then the second is across it */
            project(before->tangents[1], c->normal, u);
            cross(u, c->normal, t);
        }
    }
    scene->n_frames = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (dot(contacts[i].normal, contacts[i].normal) == 0) continue;
        if (!ctc_grow32(&scene->frames, scene->n_frames, &scene->cap_frames, sizeof *scene->frames)) return false;
        scene->frames[scene->n_frames++] = frame_of(&contacts[i]);
    }
    if (scene->n_frames) qsort(scene->frames, scene->n_frames, sizeof *scene->frames, compare);
    return true;
}
