/* answer.cu - makes the results of a batch from what its kernels wrote into pinned memory. */
#include "gpu/backend/cuda/device.cuh"
#include "gpu/backend/cuda/trace.cuh"

/* Sorts spans by contact, view, ray and depth. */
static int compare_spans(const void *a, const void *b) {
    const ct_gpu_span *x = (const ct_gpu_span *)a, *y = (const ct_gpu_span *)b;
    if (x->body[0] != y->body[0]) return x->body[0] < y->body[0] ? -1 : 1;
    if (x->body[1] != y->body[1]) return x->body[1] < y->body[1] ? -1 : 1;
    if (x->view != y->view) return x->view < y->view ? -1 : 1;
    if (x->ray != y->ray) return x->ray < y->ray ? -1 : 1;
    return (x->lower > y->lower) - (x->lower < y->lower);
}

/* The error of a step with a pair that has no window. The host plans the window again, for its message. */
static void refuse_step(ct_step *step, const ct_gpu_step *sent, const ct_gpu_step_totals *totals) {
    const ct_scene *scene = step->scene;
    const ct_body *bodies[2] = {scene->bodies[totals->body[0] - sent->first_body],
                                scene->bodies[totals->body[1] - sent->first_body]};
    ct_window window;
    ct_error why = {};
    if (ct_view_plan(&bodies[0]->box, &bodies[1]->box, &scene->settings, &window, &why))
        ct_fail(&step->error, why.status, why.field, "bodies %u and %u: %s", bodies[0]->id, bodies[1]->id, why.message);
    else
        ct_fail(&step->error, CT_DEVICE_ERROR, "device", "bodies %u and %u: the device refused a window that fits",
                bodies[0]->id, bodies[1]->id);
}

/* The spans that belong to no contact yet. */
struct span_cursor {
    const ct_gpu_span *at, *end;
};

/* The spans of a contact, which are the next ones. */
static uint64_t count_spans(const span_cursor *s, const ct_gpu_contact *found) {
    const ct_gpu_span *p = s->at;
    while (p < s->end && p->body[0] == found->body[0] && p->body[1] == found->body[1]) p++;
    return (uint64_t)(p - s->at);
}

static void answer_step(ct_workspace *workspace, ct_step *step, const ct_gpu_step *sent,
                        const ct_gpu_step_totals *totals, span_cursor *cursor) {
    if (totals->refused != CT_GPU_NONE) {
        refuse_step(step, sent, totals);
        return;
    }
    step->scene->broad.box_tests = totals->box_tests;
    ct_gpu_contact *contacts = (ct_gpu_contact *)workspace->contacts.host + totals->first_contact;
    const int64_t(*sums)[3] = (const int64_t(*)[3])workspace->out_entries.host;
    const uint32_t *vertices = (const uint32_t *)(sums + workspace->capacity.entries);
    uint64_t n_entries = 0, n_spans = 0, entry = 0, span = 0;
    for (uint64_t i = 0; i < totals->n_contacts; i++) {
        n_entries += contacts[i].contact.count[0] + contacts[i].contact.count[1];
        if (!(step->want & CT_WANT_SPANS)) continue;
        const span_cursor rest = {cursor->at + n_spans, cursor->end};
        n_spans += contacts[i].contact.n_spans = count_spans(&rest, &contacts[i]);
    }
    ct_result *r = ct_result_new(step->want, totals->n_contacts, n_entries, n_spans, NULL, &step->error);
    if (!r) {
        cursor->at += n_spans;
        return;
    }
    r->method = step->scene->settings.method;
    r->pairs = totals->pairs;
    r->rays = totals->rays;
    r->fragments = totals->fragments;
    for (uint64_t i = 0; i < totals->n_contacts; i++) {
        for (int k = 0; k < 2; k++)
            contacts[i].contact.body[k] = step->scene->bodies[contacts[i].body[k] - sent->first_body]->id;
        const ct_contact *c = ct_result_add(r, &contacts[i].contact, &entry, &span);
        if (r->vertices)
            ct_result_entries(r, c, &contacts[i].units, step->scene->settings.stiffness,
                              vertices + contacts[i].first_entry, sums + contacts[i].first_entry);
        for (uint64_t k = 0; r->spans && k < c->n_spans; k++) r->spans[c->first_span + k] = cursor->at++->span;
    }
    step->result = r;
}

static void share_times(ct_device *device, ct_workspace *workspace, double download) {
    ct_step **steps = (ct_step **)workspace->members.data;
    double seconds[CT_PHASES];
    for (int p = 0; p + 1 < CT_PHASES; p++) {
        float ms = 0;
        if (!ct_gpu_ok(device, cudaEventElapsedTime(&ms, workspace->events[p], workspace->events[p + 1]),
                       "reading the time"))
            return;
        seconds[p] = 1e-3 * ms;
    }
    seconds[CT_PHASE_DOWNLOAD] = download;
    for (uint64_t i = 0; i < workspace->members.n; i++)
        for (int p = 0; p < CT_PHASES && steps[i]->result; p++)
            steps[i]->result->seconds[p] = seconds[p] / (double)workspace->members.n;
}

void ct_gpu_answer(ct_device *device, ct_workspace *workspace, const ct_batch *batch) {
    const ct_trace_range range("results");
    const double start = ct_gpu_now();
    ct_step **steps = (ct_step **)workspace->members.data;
    const ct_gpu_counts *counts = (const ct_gpu_counts *)workspace->head.host;
    const ct_gpu_step_totals *totals = (const ct_gpu_step_totals *)(counts + 1);
    const ct_gpu_step *sent = (const ct_gpu_step *)workspace->steps.data;
    ct_gpu_span *spans_host = (ct_gpu_span *)workspace->spans.host;
    span_cursor cursor = {spans_host, spans_host + counts->spans};
    if (counts->spans > 1) qsort(spans_host, counts->spans, sizeof *spans_host, compare_spans);
    uint64_t entries = 0;
    for (uint64_t i = 0; i < workspace->members.n; i++) {
        answer_step(workspace, steps[i], &sent[i], &totals[i], &cursor);
        if (steps[i]->result) entries += steps[i]->result->n_entries;
    }
    device->downloaded += sizeof *counts + batch->n_steps * sizeof *totals + counts->contacts * sizeof(ct_gpu_contact) +
                          entries * (sizeof(int64_t[3]) + sizeof(uint32_t)) + counts->spans * sizeof(ct_gpu_span);
    share_times(device, workspace, ct_gpu_now() - start);
}
