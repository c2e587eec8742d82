/* products.c - stiffness products of many contacts and vectors at once. */
#include <string.h>

#include "client_c/base.h"
#include "client_c/result.h"

/* Vectors that one pass over a contact's entries serves. */
enum { TOGETHER = 8 };

/* The body's vectors. NULL: it is not listed. */
static const contactd_body_vectors *find_body(const contactd_body_vectors *bodies, size_t n, contactd_body body) {
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

static contactd_code check(contactd_client *client, const contactd_result *r, const contactd_body_vectors *bodies,
                           size_t n_bodies) {
    for (size_t b = 1; b < n_bodies; b++)
        if (bodies[b - 1].body >= bodies[b].body)
            return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "result", "bodies",
                            "body %u comes after body %u: bodies are listed once, in rising order", bodies[b].body,
                            bodies[b - 1].body);
    const bool is_of_trees = r->method && strcmp(r->method, "voxtree") == 0;
    for (uint32_t i = 0; i < r->n_contacts && is_of_trees; i++)
        if (ctc_lacks_gradient(&r->contacts[i]))
            return ctc_fail(client, CONTACTD_UNSUPPORTED, "result", "method",
                            "method \"voxtree\" gave the contact of bodies %u and %u no gradient of vertices, of which "
                            "the product is made: set refine, or choose method \"exact\"",
                            r->contacts[i].bodies[0], r->contacts[i].bodies[1]);
    for (uint32_t i = 0; i < r->n_contacts; i++)
        for (int part = 0; part < 2; part++) {
            const contactd_sparse *s = &r->contacts[i].sparse[part];
            const contactd_body_vectors *body = find_body(bodies, n_bodies, r->contacts[i].bodies[part]);
            if (!s->gradient)
                return ctc_fail(client, CONTACTD_INVALID_ARGUMENT, "result", "want",
                                "the result has no gradient: ask for it in the step's want");
            if (body && s->n && s->vertices[s->n - 1] >= body->vertices)
                return ctc_fail(client, CONTACTD_WRONG_LENGTH, "result", "vertices",
                                "body %u: vectors of %llu vertices, but it has more", body->body,
                                (unsigned long long)body->vertices);
        }
    return CONTACTD_OK;
}

/* along[v] = g . in[v] over both parts, for vectors first .. first + n - 1. */
static void multiply(const contactd_contact *c, const contactd_body_vectors *const body[2], size_t first, size_t n,
                     double along[TOGETHER]) {
    memset(along, 0, TOGETHER * sizeof *along);
    for (int part = 0; part < 2; part++) {
        const contactd_sparse *s = &c->sparse[part];
        if (!body[part] || !body[part]->in) continue;
        const uint64_t stride = 3 * body[part]->vertices;
        for (uint64_t e = 0; e < s->n; e++) {
            const double *g = s->gradient + 3 * e, *in = body[part]->in + first * stride + 3 * (uint64_t)s->vertices[e];
            for (size_t v = 0; v < n; v++, in += stride)
                for (int k = 0; k < 3; k++) along[v] += g[k] * in[k];
        }
    }
}

static void add_products(const contactd_contact *c, const contactd_body_vectors *const body[2], size_t first, size_t n,
                         const double factor[TOGETHER]) {
    for (int part = 0; part < 2; part++) {
        const contactd_sparse *s = &c->sparse[part];
        if (!body[part] || !body[part]->out) continue;
        const uint64_t stride = 3 * body[part]->vertices;
        for (uint64_t e = 0; e < s->n; e++) {
            const double *g = s->gradient + 3 * e;
            double *out = body[part]->out + first * stride + 3 * (uint64_t)s->vertices[e];
            for (size_t v = 0; v < n; v++, out += stride)
                for (int k = 0; k < 3; k++) out[k] -= factor[v] * g[k];
        }
    }
}

contactd_code contactd_stiffness_products(contactd_client *client, const contactd_result *result, double stiffness,
                                          const contactd_body_vectors *bodies, size_t n_bodies, size_t n_vectors) {
    CTC_BEGIN(client);
    CTC_REQUIRE(client, "result", result);
    if (n_bodies) CTC_REQUIRE(client, "result", bodies);
    const contactd_code code = check(client, result, bodies, n_bodies);
    if (code != CONTACTD_OK) return code;
    for (uint32_t i = 0; i < result->n_contacts; i++) {
        const contactd_contact *c = &result->contacts[i];
        const contactd_body_vectors *const body[2] = {find_body(bodies, n_bodies, c->bodies[0]),
                                                      find_body(bodies, n_bodies, c->bodies[1])};
        for (size_t first = 0; first < n_vectors; first += TOGETHER) {
            const size_t left = n_vectors - first, n = left < TOGETHER ? left : TOGETHER;
            double along[TOGETHER];
            multiply(c, body, first, n, along);
            for (size_t v = 0; v < n; v++) along[v] *= stiffness;
            add_products(c, body, first, n, along);
        }
    }
    return CONTACTD_OK;
}
