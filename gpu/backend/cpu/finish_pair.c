/* finish.c - one pair on the CPU, the end: sums to volumes, entries and the contact's frame. */
#include <stdlib.h>
#include <string.h>

#include "gpu/backend/cpu/pair_context.h"

static bool keep_spans(ct_pair_context *run) {
    const ct_span_scratch *span = &run->workspace->workers[run->driver].span;
    ct_pair_task *job = run->job;
    job->contact.n_spans = span->n_spans;
    size_t bytes = span->n_spans * sizeof(ct_raw_span);
    if (!bytes) return true;
    job->raw_spans = malloc(bytes);
    if (job->raw_spans) memcpy(job->raw_spans, span->spans.data, bytes);
    return job->raw_spans;
}

void ct_cpu_clear_pair(ct_pair_task *job) {
    ct_entry_arrays_free(&job->entries);
    free(job->raw_spans);
    job->raw_spans = NULL;
}

/* ---- chunks of vertices ---- */

struct chunk {
    int body;
    size_t first, end; /* vertices, whole CT_VERTEX_BLOCK */
    ct_sum_parts summed;
};

static struct chunk chunk_of(const ct_pair_context *run, uint32_t i) {
    const int b = i >= run->vertex_chunks[0];
    const size_t first = (size_t)(b ? i - run->vertex_chunks[0] : i) * CT_PAIR_VERTEX_CHUNK,
                 end = first + CT_PAIR_VERTEX_CHUNK;
    const size_t room = ct_padded_vertices(run, b);
    return (struct chunk){
        b, first, end < room ? end : room,
        (ct_sum_parts){run->parts, run->n_parts, b, run->workspace->workers[run->driver].coords[b].data}};
}

static void clear(void *context, uint32_t i, uint32_t worker) {
    (void)worker;
    const ct_pair_context *run = context;
    const struct chunk c = chunk_of(run, i);
    for (uint32_t p = 0; p < run->n_parts; p++) {
        const ct_contact_sums *sums = run->parts[p];
        uint8_t *touched = sums->touched[c.body];
        for (size_t v = c.first; v < c.end; v += CT_VERTEX_GROUP)
            for (int w = 0; touched[v / CT_VERTEX_GROUP] && w < 3; w++)
                memset(sums->gradient[c.body][w] + v, 0, CT_VERTEX_GROUP * sizeof(int64_t));
        memset(touched + c.first / CT_VERTEX_GROUP, 0, (c.end - c.first) / CT_VERTEX_GROUP);
    }
}

static void sum_parts(void *context, uint32_t i, uint32_t worker) {
    (void)worker;
    const ct_pair_context *run = context;
    const struct chunk c = chunk_of(run, i);
    ct_compacted_chunk *to = &run->gathered[i];
    memset(to, 0, sizeof *to);
    to->count = run->device->kernels->gather->sum_parts(&c.summed, c.first, c.end, &to->moments);
}

/* With the contact's normal known and the arrays made. */
static void write_entries(void *context, uint32_t i, uint32_t worker) {
    (void)worker;
    const ct_pair_context *run = context;
    const ct_pair_task *job = run->job;
    const struct chunk c = chunk_of(run, i);
    const ct_entry_scaling how = {.units = ct_frame_units(&job->window),
                                  .contact = &job->contact,
                                  .has_normal = run->has_normal,
                                  .scale = ct_barycentre_scale(&job->window),
                                  .pressure = -job->stiffness * job->contact.volume};
    run->device->kernels->gather->write_entries(&c.summed, c.first, c.end, &how, &run->gathered[i].barycentre,
                                                &job->entries, run->gathered[i].first, run->gathered[i].count);
}

/* ---- the answer ---- */

static uint32_t chunks_before(const ct_pair_context *run, int body) {
    return body ? run->vertex_chunks[0] : 0;
}

/* How many entries there are, and the forces. */
static void sum_and_count(ct_pair_context *run) {
    ct_pair_task *job = run->job;
    const ct_weight_units units = ct_frame_units(&job->window);
    size_t entries = 0;
    ct_pair_parallel_for(run, run->vertex_chunks[0] + run->vertex_chunks[1], sum_parts);
    for (int b = 0; b < 2; b++) {
        const ct_body *body = job->body[b];
        ct_compacted_chunk *part = run->gathered + chunks_before(run, b), *end = part + run->vertex_chunks[b];
        double origin[3] = {0, 0, 0};
        if (body->kind == CT_BODY_RIGID)
            for (int k = 0; k < 3; k++) origin[k] = body->pose[4 * k + 3];
        ct_moments sum;
        memset(&sum, 0, sizeof sum);
        job->contact.count[b] = 0;
        for (; part < end; part++) {
            part->first = entries;
            entries += part->count;
            job->contact.count[b] += part->count;
            ct_moments_join(&sum, &part->moments);
        }
        ct_moments_finish(&sum, &job->window, &units, origin, job->contact.generalized_gradient[b]);
    }
    run->has_normal = ct_frame_normal(&job->contact, job->contact.generalized_gradient[0]);
}

static void make_answer(ct_pair_context *run) {
    ct_pair_task *job = run->job;
    sum_and_count(run);
    if (!ct_entry_arrays_new(&job->entries, job->want, job->contact.count[0] + job->contact.count[1])) {
        run->failed = true;
        ct_pair_parallel_for(run, run->vertex_chunks[0] + run->vertex_chunks[1], clear);
        return;
    }
    ct_pair_parallel_for(run, run->vertex_chunks[0] + run->vertex_chunks[1], write_entries);
    ct_barycentre side[2];
    memset(side, 0, sizeof side);
    for (int b = 0; b < 2; b++) {
        const ct_compacted_chunk *part = run->gathered + chunks_before(run, b), *end = part + run->vertex_chunks[b];
        for (; part < end; part++) ct_barycentre_join(&side[b], &part->barycentre);
    }
    ct_frame_finish(&job->window, side, run->has_normal, ct_barycentre_scale(&job->window), &job->contact);
}

void ct_pair_finish(ct_pair_context *run) {
    ct_pair_task *job = run->job;
    int64_t length[3] = {0, 0, 0};
    run->n_parts = 0;
    for (uint32_t w = run->first_worker; w < run->end_worker; w++) {
        ct_thread_scratch *worker = &run->workspace->workers[w];
        if (worker->sums_job != job->number) continue;
        worker->sums_job = 0;
        run->parts[run->n_parts++] = &worker->sums;
        for (int k = 0; k < 3; k++) length[k] += worker->sums.length[k];
        job->rays += worker->rays_cast;
        job->fragments += worker->fragments;
        job->seconds[CT_PHASE_RASTER] += worker->raster_seconds;
        job->seconds[CT_PHASE_SPAN] += worker->span_seconds;
    }
    job->found = !run->failed && ct_frame_volumes(&job->window, length, &job->contact);
    if (job->found && job->want & (CT_WANT_FRAME | CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES))
        make_answer(run);
    else if (run->n_parts)
        ct_pair_parallel_for(run, run->vertex_chunks[0] + run->vertex_chunks[1], clear);
    if (job->found && (job->want & CT_WANT_SPANS) && !keep_spans(run)) run->failed = true;
}
