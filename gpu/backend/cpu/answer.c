/* answer.c - a step's result, of the answers of its pairs. */
#include "gpu/backend/cpu/device.h"
#include "gpu/base/fail.h"
#include "gpu/contact/result.h"
#include "gpu/span/span_world_k.h"

static void fill_spans(ct_result *r, const ct_pair_task *job, uint64_t first) {
    const ct_raw_span *raw = job->raw_spans;
    for (uint64_t i = 0; i < job->contact.n_spans; i++)
        ct_span_to_world(&job->window, raw[i].view, raw[i].column, raw[i].row, raw[i].lower, raw[i].upper,
                         raw[i].lower_body, &r->spans[first + i]);
}

static ct_status job_error(ct_device *device, const ct_pair_task *job, ct_error *error) {
    if (job->status == CT_DEVICE_ERROR) {
        pthread_mutex_lock(&device->mutex);
        ct_error lost = device->lost;
        pthread_mutex_unlock(&device->mutex);
        return ct_fail(error, job->status, lost.field, "bodies %u and %u: %.380s", job->body[0]->id, job->body[1]->id,
                       lost.message);
    }
    return ct_fail(error, job->status, "scratch",
                   "bodies %u and %u need more working memory than there is (%zu bytes are in use%s): use a lower "
                   "resolution or a larger pixel_size, or raise the limit",
                   job->body[0]->id, job->body[1]->id, atomic_load(&device->budget.used),
                   device->budget.limit ? ", with a limit set" : "");
}

void ct_cpu_answer(ct_device *device, ct_step *step, ct_pair_task *jobs, size_t n_jobs) {
    size_t n_contacts = 0;
    ct_entry_arrays *one = NULL; /* of the only contact: they are the result's as they are */
    uint64_t n = 0, n_spans = 0;
    for (size_t i = 0; i < n_jobs; i++) {
        if (jobs[i].status) {
            job_error(device, &jobs[i], &step->error);
            return;
        }
        if (!jobs[i].found) continue;
        one = n_contacts++ ? NULL : &jobs[i].entries;
        n += jobs[i].contact.count[0] + jobs[i].contact.count[1];
        n_spans += jobs[i].contact.n_spans;
    }
    ct_result *r = ct_result_new(step->want, n_contacts, n, n_spans, one, &step->error);
    if (!r) return;
    r->method = step->scene->settings.method;
    r->pairs = n_jobs;
    uint64_t first = 0, first_span = 0;
    for (size_t i = 0; i < n_jobs; i++) {
        const ct_pair_task *job = &jobs[i];
        r->rays += job->rays;
        r->fragments += job->fragments;
        for (int p = 0; p < CT_PHASES; p++) r->seconds[p] += job->seconds[p];
        if (!job->found) continue;
        const ct_contact *c = ct_result_add(r, &job->contact, &first, &first_span);
        if (r->vertices && !one) ct_result_copy(r, c, &job->entries);
        if (r->spans) fill_spans(r, job, c->first_span);
    }
    step->result = r;
}
