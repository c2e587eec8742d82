/* answer_cuda.cu - makes the results of a batch from the copy of its answer (gpu/contact/answer_cuda.cuh). */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/method/device_cuda.cuh"

#include <algorithm>

extern "C" {
#include "gpu/methods/exact/pieces_k.h"
}

static void refuse_pair(ct_step *step, const ct_body *const bodies[2], const ct_error *why) {
    ct_fail(&step->error, why->status, why->field, "bodies %u and %u: %s", bodies[0]->id, bodies[1]->id, why->message);
}

/* Finds the pairs of a step that leaves some out, for its warnings: the device has told the first of them. Fails the step by
 * another pair that the method refuses, as that may be one that the device has not told. */
static bool find_left_out(ct_step *step) {
    ct_scene *scene = step->scene;
    ct_scene_find_pairs(scene, &step->error);
    for (size_t p = 0; p < scene->broad.n_pairs && !step->error.status; p++) {
        const ct_body *bodies[2] = {scene->bodies[scene->broad.pairs[p].a], scene->bodies[scene->broad.pairs[p].b]};
        ct_error why = {};
        if (!ct_method_leaves_out(step, bodies) && ct_method_check_pair(step, bodies, &why))
            refuse_pair(step, bodies, &why);
    }
    return !step->error.status;
}

/* Whether a step with a pair that has no window, or no lattice, goes on without it. Else it has an error. */
static bool goes_on(ct_step *step, const ct_gpu_step *sent, const ct_gpu_step_totals *totals) {
    const ct_scene *scene = step->scene;
    const ct_body *bodies[2] = {scene->bodies[totals->body[0] - sent->first_body],
                                scene->bodies[totals->body[1] - sent->first_body]};
    ct_error why = {};
    if (ct_method_leaves_out(step, bodies)) return find_left_out(step);
    if (ct_method_check_pair(step, bodies, &why))
        refuse_pair(step, bodies, &why);
    else
        ct_fail(&step->error, CT_DEVICE_ERROR, "device", "bodies %u and %u: the device refused a pair that fits",
                bodies[0]->id, bodies[1]->id);
    return false;
}

/* ---- spans ---- */

/* Where a span belongs, and where it is in the answer: a quarter of its bytes, so that sorting moves less. */
struct span_place {
    uint64_t ray; /* candidate, view and ray, a view having at most 2^24 */
    int32_t lower;
    uint32_t index; /* a batch has fewer than 2^32 */
};

static uint32_t candidate_of(const span_place *span) {
    return (uint32_t)(span->ray >> 26);
}

struct span_range {
    const span_place *at, *end;
};

static const ct_gpu_span *spans_of(const ct_workspace *workspace, const ct_gpu_counts *counts) {
    return (const ct_gpu_span *)((const char *)workspace->answer_host.host + counts->first_span);
}

/* The places of a batch's n spans by candidate, view, ray and depth. The caller frees them. NULL: no memory. */
static span_place *sort_spans(const ct_gpu_span *spans, uint64_t n) {
    span_place *places = (span_place *)malloc(n * sizeof *places);
    if (!places) return NULL;
    for (uint64_t i = 0; i < n; i++) {
        places[i].ray = (uint64_t)spans[i].candidate << 26 | (uint64_t)spans[i].view << 24 | spans[i].ray;
        places[i].lower = spans[i].lower;
        places[i].index = (uint32_t)i;
    }
    std::sort(places, places + n, [](const span_place &a, const span_place &b) {
        return a.ray != b.ray ? a.ray < b.ray : a.lower < b.lower;
    });
    return places;
}

/* Takes the spans of a contact from the sorted spans that are left. Spans before them are of steps that were refused.
 */
static span_range take_spans(span_range *rest, const ct_gpu_contact *found) {
    while (rest->at < rest->end && candidate_of(rest->at) < found->candidate) rest->at++;
    span_range of = {rest->at, rest->at};
    while (of.end < rest->end && candidate_of(of.end) == found->candidate) of.end++;
    rest->at = of.end;
    return of;
}

/* ---- patches ---- */

/* A contact, and where its entries are among those of its step in the answer. */
struct patch {
    ct_gpu_contact found;
    uint64_t entry;
};

static int compare_patches(const void *a, const void *b) {
    return ct_compare_patches(&((const patch *)a)->found.contact, &((const patch *)b)->found.contact);
}

static uint64_t count_entries(const ct_gpu_contact *found) {
    return found->contact.count[0] + found->contact.count[1];
}

/* Sorts each pair's contacts, which follow each other. The caller frees them. NULL: no memory. */
static patch *sort_patches(ct_gpu_contact *contacts, uint64_t n) {
    patch *patches = (patch *)malloc((n ? n : 1) * sizeof *patches);
    uint64_t entry = 0;
    for (uint64_t i = 0; i < n && patches; i++) {
        patches[i].found = contacts[i];
        patches[i].entry = entry;
        entry += count_entries(&contacts[i]);
    }
    for (uint64_t first = 0, end; first < n && patches; first = end) {
        const uint32_t *body = contacts[first].body;
        for (end = first; end < n && contacts[end].body[0] == body[0] && contacts[end].body[1] == body[1];) end++;
        qsort(patches + first, end - first, sizeof *patches, compare_patches);
        for (uint64_t i = first; i < end; i++) patches[i].found.contact.index = (uint32_t)(i - first);
    }
    for (uint64_t i = 0; i < n && patches; i++) contacts[i] = patches[i].found;
    return patches;
}

/* ---- entries ---- */

/* Copies n entries of a step's arrays, of which the answer has n_all. */
static void copy_entries(ct_result *r, const char *first, uint64_t n_all, uint64_t to, uint64_t from, uint64_t n) {
    const ct_gpu_array_layout at = ct_gpu_lay_out_arrays(r->want, n_all);
    const uint32_t *vertices = (const uint32_t *)(first + at.vertices) + from;
    const double *gradient = (const double *)(first + at.gradient) + 3 * from,
                 *weights = (const double *)(first + at.weights) + from,
                 *forces = (const double *)(first + at.forces) + 3 * from;
    if (!n) return;
    memcpy(r->vertices + to, vertices, n * sizeof *vertices);
    if (r->gradient) memcpy(r->gradient + 3 * to, gradient, 3 * n * sizeof *gradient);
    if (r->weights) memcpy(r->weights + to, weights, n * sizeof *weights);
    if (r->forces) memcpy(r->forces + 3 * to, forces, 3 * n * sizeof *forces);
}

/* patches: NULL, or the order of the contacts. Behind a contact's entries are those of its cells, which the answer does
 * not have. */
static void copy_arrays(ct_result *r, const char *first, uint64_t n_all, const patch *patches) {
    uint64_t from = 0;
    if (!r->vertices) return;
    if (!patches && !r->n_cells) {
        copy_entries(r, first, n_all, 0, 0, n_all);
        return;
    }
    for (size_t i = 0; i < r->n_contacts; i++) {
        const ct_contact *c = &r->contacts[i];
        const uint64_t n = c->count[0] + c->count[1];
        copy_entries(r, first, n_all, c->first[0], patches ? patches[i].entry : from, n);
        from += n;
    }
}

/* ---- steps ---- */

static void answer_step(const ct_device *device, ct_workspace *workspace, const ct_gpu_counts *counts, uint64_t index,
                        const ct_gpu_step_totals *totals, ct_gpu_contact *contacts, span_range *spans) {
    const ct_gpu_method *method = workspace->method;
    ct_step *step = ((ct_step **)workspace->members.data)[index];
    const ct_gpu_step *sent = (const ct_gpu_step *)workspace->steps.data + index;
    const ct_gpu_span *all_spans = spans_of(workspace, counts);
    const bool has_cells = sent->cell_size > 0;
    span_range again = *spans;
    if (step->error.status) return;
    if (method->refuses_step && method->refuses_step(device, workspace, step, index, totals->refused)) return;
    step->scene->broad.n_pairs = 0;
    if (totals->refused != CT_GPU_NONE && !goes_on(step, sent, totals)) return;
    step->scene->broad.box_tests = totals->box_tests;
    uint64_t n_spans = 0, n_cells = 0, n_entries = totals->n_entries, entry = 0, span = 0;
    for (uint64_t i = 0; i < totals->n_contacts && (step->want & CT_WANT_SPANS); i++) {
        const span_range of = take_spans(spans, &contacts[i]);
        n_spans += contacts[i].contact.n_spans = (uint64_t)(of.end - of.at);
    }
    for (uint64_t i = 0; i < totals->n_contacts && has_cells; i++)
        method->count_cells(workspace, &contacts[i], &n_cells, &n_entries);
    ct_result *r = ct_result_new(step->want, totals->n_contacts, n_entries, n_spans, NULL, &step->error);
    if (!r) return;
    if (n_cells && !ct_result_add_cells(r, n_cells, &step->error)) {
        ct_result_free(&r);
        return;
    }
    patch *patches = sent->wants_patches ? sort_patches(contacts, totals->n_contacts) : NULL;
    if (sent->wants_patches && !patches) {
        ct_fail(&step->error, CT_OUT_OF_MEMORY, "result", "no memory to sort %llu patches",
                (unsigned long long)totals->n_contacts);
        ct_result_free(&r);
        return;
    }
    r->method = ct_method_of_step(step);
    r->pairs = totals->pairs;
    r->rays = totals->rays;
    r->fragments = totals->fragments;
    for (uint64_t i = 0; i < totals->n_contacts; i++) {
        for (int k = 0; k < 2; k++)
            contacts[i].contact.body[k] = step->scene->bodies[contacts[i].body[k] - sent->first_body]->id;
        const ct_contact *c = ct_result_add(r, &contacts[i].contact, &entry, &span);
        if (has_cells) method->add_cells(workspace, step, sent, &contacts[i], r, &entry);
        if (!r->spans) continue;
        const span_range of = take_spans(&again, &contacts[i]);
        for (uint64_t k = 0; k < c->n_spans; k++) r->spans[c->first_span + k] = all_spans[of.at[k].index].span;
    }
    copy_arrays(r, (const char *)workspace->answer_host.host + totals->arrays, totals->n_entries, patches);
    free(patches);
    if (method->finish_result && !method->finish_result(workspace, counts, step, index, sent, contacts, r))
        ct_result_free(&r);
    step->result = r;
}

/* on_host: s, of making the results. */
static void share_times(ct_device *device, ct_workspace *workspace, double on_host) {
    ct_step **steps = (ct_step **)workspace->members.data;
    double seconds[CT_PHASES];
    for (int p = 0; p < CT_PHASES; p++) {
        float ms = 0;
        if (!ct_gpu_ok(device, cudaEventElapsedTime(&ms, workspace->events[p], workspace->events[p + 1]),
                       "reading the time"))
            return;
        seconds[p] = 1e-3 * ms;
    }
    seconds[CT_PHASE_DOWNLOAD] += on_host;
    for (uint64_t i = 0; i < workspace->members.n; i++)
        for (int p = 0; p < CT_PHASES && steps[i]->result; p++)
            steps[i]->result->seconds[p] = steps[i]->result->wall_seconds[p] =
                seconds[p] / (double)workspace->members.n;
}

void ct_gpu_answer(ct_device *device, ct_workspace *workspace, const ct_batch *batch) {
    const ct_trace_range range("results");
    const double start = ct_gpu_now();
    char *host = (char *)workspace->answer_host.host;
    const ct_gpu_counts *counts = (const ct_gpu_counts *)host;
    const ct_gpu_step_totals *totals = (const ct_gpu_step_totals *)(counts + 1);
    ct_gpu_contact *contacts = (ct_gpu_contact *)(host + ((const char *)batch->out_contacts - batch->answer));
    span_place *places = counts->spans ? sort_spans(spans_of(workspace, counts), counts->spans) : NULL;
    span_range spans = {places, places ? places + counts->spans : NULL};
    for (uint64_t i = 0; i < workspace->members.n; i++) {
        ct_step *step = ((ct_step **)workspace->members.data)[i];
        if (counts->spans && !places && !step->error.status)
            ct_fail(&step->error, CT_OUT_OF_MEMORY, "result", "no memory to sort %llu spans",
                    (unsigned long long)counts->spans);
        answer_step(device, workspace, counts, i, &totals[i], contacts + totals[i].first_contact, &spans);
    }
    free(places);
    share_times(device, workspace, ct_gpu_now() - start);
}
