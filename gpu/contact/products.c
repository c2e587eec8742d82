/* products.c - stiffness products of many contacts and vectors at once. */
#include <string.h>

#include "gpu/base/fail.h"
#include "gpu/include/contact.h"

/* Vectors that one pass over a contact's entries serves. */
enum { TOGETHER = 8 };

/* The body's vectors. NULL: it is not listed. */
static const ct_body_vectors *find_body(const ct_body_vectors *bodies, size_t n, uint32_t body) {
    size_t lo = 0, hi = n;
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (bodies[middle].body < body)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < n && bodies[lo].body == body ? &bodies[lo] : NULL;
}

static ct_status check(const ct_result *r, const ct_body_vectors *bodies, size_t n_bodies, ct_error *error) {
    if (!r->gradient && r->n_contacts)
        return ct_fail(error, CT_INVALID_ARGUMENT, "want", "the result has no gradient: ask for it in the step's want");
    for (size_t b = 1; b < n_bodies; b++)
        if (bodies[b - 1].body >= bodies[b].body)
            return ct_fail(error, CT_INVALID_ARGUMENT, "bodies",
                           "body %u comes after body %u: bodies are listed once, in rising order", bodies[b].body,
                           bodies[b - 1].body);
    for (size_t i = 0; i < r->n_contacts; i++)
        if (!ct_contact_has_gradient(r, i))
            return ct_fail(error, CT_UNSUPPORTED, "method",
                           "method \"%s\" gave the contact of bodies %u and %u no gradient of vertices, of which the "
                           "product is made: set refine, or choose method \"exact\"",
                           ct_method_name(r->method), r->contacts[i].body[0], r->contacts[i].body[1]);
    for (size_t i = 0; i < r->n_contacts; i++)
        for (int part = 0; part < 2; part++) {
            const ct_contact *c = &r->contacts[i];
            const ct_body_vectors *body = find_body(bodies, n_bodies, c->body[part]);
            if (!body || !c->count[part]) continue;
            const uint32_t last = r->vertices[c->first[part] + c->count[part] - 1]; /* they rise */
            if (last >= body->vertices)
                return ct_fail(error, CT_WRONG_LENGTH, "vertices", "body %u: vectors of %llu vertices, but it has more",
                               body->body, (unsigned long long)body->vertices);
        }
    return CT_OK;
}

/* along[v] = g . in[v] over both parts, for vectors first .. first + n - 1. */
static void multiply(const ct_result *r, const ct_contact *c, const ct_body_vectors *const body[2], size_t first,
                     size_t n, double along[TOGETHER]) {
    memset(along, 0, TOGETHER * sizeof *along);
    for (int part = 0; part < 2; part++) {
        if (!body[part] || !body[part]->in) continue;
        const uint64_t stride = 3 * body[part]->vertices;
        for (uint64_t e = c->first[part]; e < c->first[part] + c->count[part]; e++) {
            const double *g = r->gradient + 3 * e;
            const double *in = body[part]->in + first * stride + 3 * (uint64_t)r->vertices[e];
            for (size_t v = 0; v < n; v++, in += stride)
                for (int k = 0; k < 3; k++) along[v] += g[k] * in[k];
        }
    }
}

static void add_products(const ct_result *r, const ct_contact *c, const ct_body_vectors *const body[2], size_t first,
                         size_t n, const double factor[TOGETHER]) {
    for (int part = 0; part < 2; part++) {
        if (!body[part] || !body[part]->out) continue;
        const uint64_t stride = 3 * body[part]->vertices;
        for (uint64_t e = c->first[part]; e < c->first[part] + c->count[part]; e++) {
            const double *g = r->gradient + 3 * e;
            double *out = body[part]->out + first * stride + 3 * (uint64_t)r->vertices[e];
            for (size_t v = 0; v < n; v++, out += stride)
                for (int k = 0; k < 3; k++) out[k] -= factor[v] * g[k];
        }
    }
}

bool ct_contact_has_gradient(const ct_result *result, size_t contact) {
    const ct_contact *c = &result->contacts[contact];
    return result->gradient && (result->method != CT_METHOD_VOXTREE || c->count[0] + c->count[1] > 0);
}

ct_status ct_result_stiffness_products(const ct_result *r, double stiffness, const ct_body_vectors *bodies,
                                       size_t n_bodies, size_t n_vectors, ct_error *error) {
    const ct_status status = check(r, bodies, n_bodies, error);
    if (status) return status;
    for (size_t i = 0; i < r->n_contacts; i++) {
        const ct_contact *c = &r->contacts[i];
        const ct_body_vectors *const body[2] = {find_body(bodies, n_bodies, c->body[0]),
                                                find_body(bodies, n_bodies, c->body[1])};
        for (size_t first = 0; first < n_vectors; first += TOGETHER) {
            const size_t left = n_vectors - first, n = left < TOGETHER ? left : TOGETHER;
            double along[TOGETHER];
            multiply(r, c, body, first, n, along);
            for (size_t v = 0; v < n; v++) along[v] *= stiffness;
            add_products(r, c, body, first, n, along);
        }
    }
    return CT_OK;
}
