/* answer.c - a step's result, of the answers of its pairs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend/cpu/device.h"
#include "gpu/base/fail.h"

static bool allocate(ct_result *r, size_t n_contacts, uint64_t n, uint64_t n_spans, uint32_t want) {
    r->contacts = malloc((n_contacts ? n_contacts : 1) * sizeof *r->contacts);
    bool ok = r->contacts;
    if (want & (CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES)) {
        size_t rows = n ? n : 1; /* so that an empty answer is not taken for a failure */
        ok = ok && (r->vertices = malloc(rows * sizeof *r->vertices));
        if (want & CT_WANT_GRADIENT) ok = ok && (r->gradient = malloc(rows * 3 * sizeof *r->gradient));
        if (want & CT_WANT_FRICTION) ok = ok && (r->weights = malloc(rows * sizeof *r->weights));
        if (want & CT_WANT_FORCES) ok = ok && (r->forces = malloc(rows * 3 * sizeof *r->forces));
        r->n_entries = n;
    }
    if (want & CT_WANT_SPANS) {
        ok = ok && (r->spans = malloc((n_spans ? n_spans : 1) * sizeof *r->spans));
        r->n_spans = n_spans;
    }
    return ok;
}

static void fill_entries(ct_result *r, const ct_job *job, uint64_t first, double stiffness) {
    uint64_t n = job->contact.count[0] + job->contact.count[1];
    if (n == 0) return;
    const int64_t(*sums)[3] = job->answer;
    memcpy(r->vertices + first, sums + n, n * sizeof *r->vertices);
    const ct_weight_units units = ct_frame_units(&job->window);
    double pressure = -stiffness * job->contact.volume;
    for (uint64_t i = 0; i < n; i++) {
        double g[3];
        ct_frame_gradient(&units, sums[i], g);
        if (r->gradient) memcpy(r->gradient + 3 * (first + i), g, sizeof g);
        if (r->weights) r->weights[first + i] = ct_frame_friction(&job->contact, g);
        if (r->forces)
            for (int k = 0; k < 3; k++) r->forces[3 * (first + i) + k] = pressure * g[k];
    }
}

static void fill_spans(ct_result *r, const ct_job *job, uint64_t first) {
    const ct_raw_span *raw = job->raw_spans;
    for (uint64_t i = 0; i < job->contact.n_spans; i++) {
        int w = raw[i].view, u = ct_view_u(w), v = ct_view_v(w);
        const ct_lattice *a = job->window.axis;
        ct_span *s = &r->spans[first + i];
        s->lower[u] = s->upper[u] = (float)(a[u].origin + (raw[i].column + 0.5) * a[u].pitch);
        s->lower[v] = s->upper[v] = (float)(a[v].origin + (raw[i].row + 0.5) * a[v].pitch);
        s->lower[w] = (float)(a[w].origin + raw[i].lower * a[w].unit);
        s->upper[w] = (float)(a[w].origin + raw[i].upper * a[w].unit);
        s->axis = (uint32_t)w;
        s->lower_body = (uint32_t)raw[i].lower_body;
    }
}

static ct_status job_error(ct_device *device, const ct_job *job, ct_error *error) {
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

void ct_cpu_answer(ct_device *device, ct_step *step, const ct_job *jobs, size_t n_jobs) {
    size_t n_contacts = 0;
    uint64_t n = 0, n_spans = 0;
    for (size_t i = 0; i < n_jobs; i++) {
        if (jobs[i].status) {
            job_error(device, &jobs[i], &step->error);
            return;
        }
        if (!jobs[i].found) continue;
        n_contacts++;
        n += jobs[i].contact.count[0] + jobs[i].contact.count[1];
        n_spans += jobs[i].contact.n_spans;
    }
    ct_result *r = calloc(1, sizeof *r);
    if (!r || !allocate(r, n_contacts, n, n_spans, step->want)) {
        ct_result_free(&r);
        ct_fail(&step->error, CT_OUT_OF_MEMORY, "result", "no memory for an answer of %llu entries and %llu spans",
                (unsigned long long)n, (unsigned long long)n_spans);
        return;
    }
    r->want = step->want;
    r->method = step->scene->settings.method;
    r->pairs = n_jobs;
    uint64_t first = 0, first_span = 0;
    for (size_t i = 0; i < n_jobs; i++) {
        const ct_job *job = &jobs[i];
        r->rays += job->rays;
        r->fragments += job->fragments;
        for (int p = 0; p < CT_PHASES; p++) r->seconds[p] += job->seconds[p];
        if (!job->found) continue;
        ct_contact *c = &r->contacts[r->n_contacts++];
        *c = job->contact;
        if (r->vertices) {
            c->first[0] = first;
            c->first[1] = first + c->count[0];
            fill_entries(r, job, first, step->scene->settings.stiffness);
            first += c->count[0] + c->count[1];
        } else {
            c->count[0] = c->count[1] = 0;
        }
        if (r->spans) {
            c->first_span = first_span;
            fill_spans(r, job, first_span);
            first_span += c->n_spans;
        }
    }
    step->result = r;
}
