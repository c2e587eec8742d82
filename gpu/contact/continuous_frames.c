/* continuous_frames.c - tangents that follow those of the step before. */
#include <math.h>

#include "gpu/include/contact.h"

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static int compare(const ct_contact *a, const ct_contact *b) {
    if (a->body[0] != b->body[0]) return a->body[0] < b->body[0] ? -1 : 1;
    if (a->body[1] != b->body[1]) return a->body[1] < b->body[1] ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* The part of v across n, scaled to length 1. False: little of v is across n. */
static bool project(const double v[3], const double n[3], double out[3]) {
    const double along = dot(v, n);
    for (int i = 0; i < 3; i++) out[i] = v[i] - along * n[i];
    const double size = sqrt(dot(out, out));
    for (int i = 0; i < 3 && size > 0; i++) out[i] /= size;
    return size > 0.5;
}

static void cross(const double a[3], const double b[3], double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3];
}

void ct_result_continue_frames(const ct_result *previous, ct_result *result) {
    size_t at = 0;
    for (size_t i = 0; i < result->n_contacts; i++) {
        ct_contact *c = &result->contacts[i];
        while (at < previous->n_contacts && compare(&previous->contacts[at], c) < 0) at++;
        if (at == previous->n_contacts) return;
        const ct_contact *before = &previous->contacts[at];
        if (compare(before, c) != 0 || dot(c->normal, c->normal) == 0 || dot(before->normal, before->normal) == 0)
            continue;
        double *const t = c->tangents[0], *const u = c->tangents[1];
        if (project(before->tangents[0], c->normal, t)) {
            cross(c->normal, t, u);
        } else { /* the normal has turned to the first tangent: then the second is across it */
            project(before->tangents[1], c->normal, u);
            cross(u, c->normal, t);
        }
    }
}
