/* finish_cpu.c - the CPU's contact stage for a pair: turns its sums into contacts with volumes, entries and frames. */
#include <stdlib.h>
#include <string.h>

#include "gpu/contact/result.h"
#include "gpu/contact/turned.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/ldi/pair_cpu.h"

/* ---- chunks of vertices ---- */

struct chunk {
    int body;
    size_t first, end; /* vertices, whole CT_VERTEX_BLOCKs */
    ct_partial_sums partial;
};

static struct chunk chunk_of(const ct_pair_context *context, uint32_t i) {
    const int b = i >= context->vertex_chunks[0];
    const size_t first = (size_t)(b ? i - context->vertex_chunks[0] : i) * CT_PAIR_VERTEX_CHUNK;
    const size_t end = first + CT_PAIR_VERTEX_CHUNK, padded = ct_padded_vertices(context, b);
    const int snapped = ct_is_self_task(context->pair) ? 0 : b;
    const ct_partial_sums partial = {context->partial_sums, context->n_partial_sums, b,
                                     ct_pair_driver(context)->coords[snapped].data};
    return (struct chunk){b, first, end < padded ? end : padded, partial};
}

static void clear_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    const ct_pair_context *context = argument;
    const struct chunk c = chunk_of(context, i);
    for (uint32_t p = 0; p < context->n_partial_sums; p++) {
        const ct_contact_sums *sums = context->partial_sums[p];
        uint8_t *touched = sums->touched[c.body];
        for (size_t v = c.first; v < c.end; v += CT_VERTEX_GROUP)
            for (int w = 0; touched[v / CT_VERTEX_GROUP] && w < 3; w++)
                memset(sums->gradient[c.body][w] + v, 0, CT_VERTEX_GROUP * sizeof(int64_t));
        memset(touched + c.first / CT_VERTEX_GROUP, 0, (c.end - c.first) / CT_VERTEX_GROUP);
    }
}

static void reduce_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    const ct_pair_context *context = argument;
    const struct chunk c = chunk_of(context, i);
    ct_compacted_chunk *to = &context->compacted[i];
    memset(to, 0, sizeof *to);
    to->count = context->device->kernels->compact->reduce_sums(&c.partial, c.first, c.end, &to->moments);
}

/* Needs the contact's normal and its arrays of entries. */
static void write_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    const ct_pair_context *context = argument;
    const ct_pair_task *pair = context->pair;
    const struct chunk c = chunk_of(context, i);
    const ct_entry_scaling scaling = {.units = ct_frame_units(&pair->window),
                                      .contact = &context->contact->contact,
                                      .has_normal = context->has_normal,
                                      .barycentre_scale = ct_barycentre_scale(&pair->window),
                                      .pressure = -pair->settings->stiffness * context->contact->contact.volume};
    context->device->kernels->compact->write_entries(&c.partial, c.first, c.end, &scaling,
                                                     &context->compacted[i].barycentre, &context->contact->entries,
                                                     context->compacted[i].first, context->compacted[i].count);
}

/* ---- a contact ---- */

static uint32_t first_chunk_of(const ct_pair_context *context, int body) {
    return body ? context->vertex_chunks[0] : 0;
}

/* Divides the sums of a body with itself between its two parts, and its kept spans' lower ends. */
static void split_sides(ct_pair_context *context) {
    const ct_pair_task *pair = context->pair;
    ct_ldi_scratch *driver = ct_pair_driver(context);
    const ct_weight_units units = ct_frame_units(&pair->window);
    const ct_mesh *mesh = pair->body[0]->mesh;
    const ct_triangle_run all = {0, mesh->n_triangles};
    const ct_self_surface surface = {mesh->n_vertices, mesh->triangles, &all, 1, 0};
    ct_contact_sums *sums = context->partial_sums[0];
    ct_pair_parallel_for(context, context->vertex_chunks[0], reduce_chunk); /* all threads' sums become the first's */
    if (!ct_split_sides(&surface, &units, sums, &context->workspace->workers[context->driver].sides,
                        &context->device->budget)) {
        context->has_failed = true;
        return;
    }
    ct_raw_span *spans = driver->span.spans.data;
    for (size_t i = 0; i < driver->span.n_spans; i++)
        spans[i].lower_body = ct_side_of_triangle(surface.triangles + 3 * (size_t)(uint32_t)spans[i].lower_body, sums);
}

/* Adds up the threads' sums, counts the entries, and computes the 6-vectors and the normal. */
static void reduce_sums(ct_pair_context *context) {
    const ct_pair_task *pair = context->pair;
    ct_contact *contact = &context->contact->contact;
    const ct_weight_units units = ct_frame_units(&pair->window);
    size_t entries = 0;
    ct_pair_parallel_for(context, ct_all_vertex_chunks(context), reduce_chunk);
    for (int b = 0; b < 2; b++) {
        const ct_body *body = pair->body[b];
        ct_compacted_chunk *part = context->compacted + first_chunk_of(context, b);
        const ct_compacted_chunk *end = part + context->vertex_chunks[b];
        double origin[3];
        ct_body_origin(body, origin);
        ct_turn_into_views(&context->plan->turned, origin);
        ct_moments sum;
        memset(&sum, 0, sizeof sum);
        contact->count[b] = 0;
        for (; part < end; part++) {
            part->first = entries;
            entries += part->count;
            contact->count[b] += part->count;
            ct_moments_join(&sum, &part->moments);
        }
        ct_moments_finish(&sum, &pair->window, &units, origin, contact->generalized_gradient[b]);
    }
    context->has_normal = ct_frame_normal(contact, contact->generalized_gradient[0], 0);
}

static void clear_sums(ct_pair_context *context) {
    ct_pair_parallel_for(context, ct_all_vertex_chunks(context), clear_chunk);
}

static bool make_entry_arrays(ct_pair_context *context) {
    const ct_pair_task *pair = context->pair;
    const uint64_t n = context->contact->contact.count[0] + context->contact->contact.count[1];
    if (pair->is_alone) return ct_entry_arrays_new(&context->contact->entries, pair->step->want, n);
    return ct_entry_arrays_in(&context->workspace->workers[context->driver].answers, &context->device->answers,
                              &context->contact->entries, pair->step->want, n);
}

static void make_entries_and_frame(ct_pair_context *context) {
    const ct_window *window = &context->pair->window;
    reduce_sums(context);
    if (!make_entry_arrays(context)) {
        context->has_failed = true;
        clear_sums(context);
        return;
    }
    ct_pair_parallel_for(context, ct_all_vertex_chunks(context), write_chunk);
    ct_barycentre side[2];
    memset(side, 0, sizeof side);
    for (int b = 0; b < 2; b++) {
        const ct_compacted_chunk *part = context->compacted + first_chunk_of(context, b);
        const ct_compacted_chunk *end = part + context->vertex_chunks[b];
        for (; part < end; part++) ct_barycentre_join(&side[b], &part->barycentre);
    }
    ct_frame_finish(window, side, &context->contact->contact);
    if (context->plan->turned.is_turned)
        ct_turn_back_contact(&context->plan->turned, &context->contact->contact, context->contact->entries.gradient,
                             context->contact->entries.forces);
}

/* Copies the spans that the driver thread kept. It has all of them, because a pair that keeps spans is not spread, and
 * they all belong to contact 0. */
static bool keep_spans(ct_pair_context *context) {
    const ct_span_scratch *kept = &ct_pair_driver(context)->span;
    context->contact->contact.n_spans = kept->n_spans;
    const size_t bytes = kept->n_spans * sizeof(ct_raw_span);
    if (!bytes) return true;
    ct_raw_span *spans = ct_pair_allocate(context, bytes);
    if (!spans) return false;
    memcpy(spans, kept->spans.data, bytes);
    context->contact->spans = spans;
    return true;
}

/* Turns context->partial_sums into contact number c. */
static void finish_contact(ct_pair_context *context, uint32_t c) {
    ct_pair_task *pair = context->pair;
    int64_t length[3] = {0, 0, 0}, inverted[3] = {0, 0, 0}, *spans = context->spans;
    memset(context->spans, 0, sizeof context->spans);
    for (uint32_t p = 0; p < context->n_partial_sums; p++)
        for (int k = 0; k < 3; k++) {
            length[k] += context->partial_sums[p]->length[k];
            spans[k] += context->partial_sums[p]->spans[k];
            inverted[k] += context->partial_sums[p]->inverted[k];
        }
    context->contact = &pair->contacts[c];
    *context->contact = (ct_pair_contact){.contact.body = {pair->body[0]->id, pair->body[1]->id}};
    context->contact->is_found = ct_frame_volumes(&pair->window, length, spans, &context->contact->contact);
    context->contact->contact.inverted_volume = ct_frame_inverted_volume(&pair->window, inverted, spans);
    if (context->plan->has_view_errors)
        context->contact->is_found = ct_frame_bounded_volume(context->plan->view_error, &context->contact->contact);
    if (context->contact->is_found && ct_is_self_task(pair) && pair->step->want & (CT_WANT_ENTRIES | CT_WANT_SPANS))
        split_sides(context);
    if (context->contact->is_found && ct_is_self_task(pair) && context->options.grid && !context->has_failed &&
        !ct_pair_keep_parts(context))
        context->has_failed = true;
    if (context->contact->is_found && pair->step->want & CT_WANT_ENTRIES && !context->has_failed)
        make_entries_and_frame(context);
    else
        clear_sums(context);
    if (context->contact->is_found && (pair->step->want & CT_WANT_SPANS) && !keep_spans(context))
        context->has_failed = true;
}

/* ---- a pair ---- */

/* Finds the threads that hold sums of the pair, adds their counters to the pair's, and frees them for the next pair.
 * Returns their number. */
static uint32_t collect_contributors(ct_pair_context *context, ct_ldi_scratch **contributors) {
    ct_pair_task *pair = context->pair;
    uint32_t n = 0;
    for (uint32_t w = context->first_worker; w < context->end_worker; w++) {
        ct_ldi_scratch *worker = ct_ldi_scratch_of(context->workspace, w);
        if (worker->sums_pair != pair->number) continue;
        worker->sums_pair = 0;
        contributors[n++] = worker;
        pair->rays += worker->rays_cast;
        pair->fragments += worker->fragments;
        pair->seconds[CT_PHASE_RASTER] += worker->raster_seconds;
        pair->seconds[CT_PHASE_SPAN] += worker->span_seconds;
    }
    return n;
}

void ct_pair_finish(ct_pair_context *context) {
    ct_pair_task *pair = context->pair;
    ct_ldi_scratch *contributors[CT_MAX_THREADS];
    const uint32_t n = collect_contributors(context, contributors);
    context->n_partial_sums = n;
    if (!context->has_failed && n) {
        pair->contacts = ct_pair_allocate(context, pair->n_contacts * sizeof *pair->contacts);
        if (pair->contacts)
            memset(pair->contacts, 0, pair->n_contacts * sizeof *pair->contacts);
        else
            context->has_failed = true;
    }
    for (uint32_t c = 0; c < pair->n_contacts && n; c++) {
        for (uint32_t p = 0; p < n; p++) context->partial_sums[p] = &contributors[p]->sums[c];
        if (context->has_failed)
            clear_sums(context);
        else
            finish_contact(context, c);
    }
    if (context->options.grid && n && !context->has_failed && context->contact->is_found)
        ct_pair_finish_cells(context, contributors, n);
}
