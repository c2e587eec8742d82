/* result.c - makes results. */
#include "gpu/contact/result.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/base/fail.h"

static bool allocate(ct_result *r, size_t n_contacts, uint64_t n, uint64_t n_spans) {
    r->contacts = malloc((n_contacts ? n_contacts : 1) * sizeof *r->contacts);
    bool ok = r->contacts;
    if (r->want & (CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES)) {
        size_t rows = n ? n : 1; /* so that an empty answer is not taken for a failure */
        ok = ok && (r->vertices = malloc(rows * sizeof *r->vertices));
        if (r->want & CT_WANT_GRADIENT) ok = ok && (r->gradient = malloc(rows * 3 * sizeof *r->gradient));
        if (r->want & CT_WANT_FRICTION) ok = ok && (r->weights = malloc(rows * sizeof *r->weights));
        if (r->want & CT_WANT_FORCES) ok = ok && (r->forces = malloc(rows * 3 * sizeof *r->forces));
        r->n_entries = n;
    }
    if (r->want & CT_WANT_SPANS) {
        ok = ok && (r->spans = malloc((n_spans ? n_spans : 1) * sizeof *r->spans));
        r->n_spans = n_spans;
    }
    return ok;
}

ct_result *ct_result_new(uint32_t want, size_t n_contacts, uint64_t n_entries, uint64_t n_spans, ct_error *error) {
    ct_result *r = calloc(1, sizeof *r);
    if (r) r->want = want;
    if (!r || !allocate(r, n_contacts, n_entries, n_spans)) {
        ct_result_free(&r);
        ct_fail(error, CT_OUT_OF_MEMORY, "result", "no memory for an answer of %llu entries and %llu spans",
                (unsigned long long)n_entries, (unsigned long long)n_spans);
    }
    return r;
}

ct_contact *ct_result_add(ct_result *r, const ct_contact *contact, uint64_t *entry, uint64_t *span) {
    ct_contact *c = &r->contacts[r->n_contacts++];
    *c = *contact;
    if (r->vertices) {
        c->first[0] = *entry;
        c->first[1] = *entry + c->count[0];
        *entry += c->count[0] + c->count[1];
    } else {
        c->count[0] = c->count[1] = 0;
    }
    if (r->spans) {
        c->first_span = *span;
        *span += c->n_spans;
    }
    return c;
}

void ct_result_entries(ct_result *r, const ct_contact *contact, const ct_weight_units *units, double stiffness,
                       const uint32_t *vertices, const int64_t (*sums)[3]) {
    const uint64_t first = contact->first[0], n = contact->count[0] + contact->count[1];
    if (n == 0) return;
    memcpy(r->vertices + first, vertices, n * sizeof *r->vertices);
    const double pressure = -stiffness * contact->volume;
    for (uint64_t i = 0; i < n; i++) {
        double g[3];
        ct_frame_gradient(units, sums[i], g);
        if (r->gradient) memcpy(r->gradient + 3 * (first + i), g, sizeof g);
        if (r->weights) r->weights[first + i] = ct_frame_friction(contact, g);
        if (r->forces)
            for (int k = 0; k < 3; k++) r->forces[3 * (first + i) + k] = pressure * g[k];
    }
}
