/* answer_cpu.c - makes a step's result from the contacts of its pairs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/contact/result.h"
#include "gpu/method/device_cpu.h"
#include "gpu/method/method.h"
#include "gpu/methods/ldi/cells.h"
#include "gpu/methods/ldi/span_k.h"
#include "gpu/run/kept_cpu.h"

static void fill_spans(ct_result *r, const ct_window *window, const ct_pair_contact *contact, uint64_t first) {
    const ct_raw_span *raw = contact->spans;
    for (uint64_t i = 0; i < contact->contact.n_spans; i++)
        ct_span_to_world(window, raw[i].view, raw[i].u, raw[i].v, raw[i].lower, raw[i].upper, raw[i].lower_body,
                         &r->spans[first + i]);
}

const char *ct_name_pair(const ct_pair_task *pair, char name[CT_PAIR_NAME]) {
    snprintf(name, CT_PAIR_NAME, "bodies %u and %u", pair->body[0]->id, pair->body[1]->id);
    return name;
}

static ct_status pair_error(ct_device *device, const ct_cpu_method *method, const ct_pair_task *pair, ct_error *error) {
    char name[CT_PAIR_NAME];
    if (pair->status == CT_CANCELLED) return ct_fail_cancelled(error);
    ct_name_pair(pair, name);
    if (pair->status == CT_DEVICE_ERROR) {
        pthread_mutex_lock(&device->mutex);
        ct_error lost = device->lost;
        pthread_mutex_unlock(&device->mutex);
        return ct_fail(error, pair->status, lost.field, "%s: %.380s", name, lost.message);
    }
    if (pair->status == CT_LIMIT_EXCEEDED)
        return ct_fail_cells(name, pair->settings->cell_size, pair->cells_needed, device->max_cells, error);
    const char *remedy = method->remedy ? method->remedy : "lower resolution or a larger pixel_size";
    return ct_fail(error, pair->status, "scratch",
                   "%s need more working memory than there is (%zu bytes are in use%s): use a %s, or raise the limit",
                   name, atomic_load(&device->budget.used), device->budget.limit ? ", with a limit set" : "", remedy);
}

/* Totals over the contacts of a step. */
struct totals {
    size_t contacts;
    uint64_t entries, spans, products, cells, points, tiles;
    ct_entry_arrays *only; /* of the only contact of the only pair: the result takes them over without a copy */
};

static struct totals count_contacts(ct_pair_task *pairs, size_t n_pairs) {
    struct totals t = {0};
    for (size_t i = 0; i < n_pairs; i++)
        for (uint32_t c = 0; pairs[i].contacts && c < pairs[i].n_contacts; c++) {
            ct_pair_contact *contact = &pairs[i].contacts[c];
            if (!contact->is_found) continue;
            t.only = t.contacts++ == 0 && pairs[i].is_alone && contact->entries.vertices ? &contact->entries : NULL;
            t.entries += contact->contact.count[0] + contact->contact.count[1];
            t.spans += contact->contact.n_spans;
            t.cells += contact->n_cells;
            for (uint32_t k = 0; k < contact->n_cells; k++)
                t.entries += contact->cells[k].contact.count[0] + contact->cells[k].contact.count[1];
            t.products += contact->contact.count_product[0] + contact->contact.count_product[1];
            t.points += contact->contact.n_points;
            t.tiles += contact->contact.n_tiles;
        }
    return t;
}

/* Copies a contact's products, which begin at row *first; it is the last that the result has. */
static void copy_products(ct_result *r, ct_contact *c, const ct_pair_contact *contact, uint64_t *first) {
    const uint64_t n = c->count_product[0] + c->count_product[1], row = 3 * r->n_directions,
                   pair = 12 * r->n_directions;
    c->first_product[0] = *first;
    c->first_product[1] = *first + c->count_product[0];
    memcpy(r->generalized_product + (r->n_contacts - 1) * pair, contact->generalized_product, pair * sizeof(double));
    if (n) {
        memcpy(r->product_vertices + *first, contact->product_vertices, n * sizeof *r->product_vertices);
        memcpy(r->products + *first * row, contact->products, n * row * sizeof *r->products);
    }
    *first += n;
}

/* Room for points, tiles and progress. False: out of memory. */
static bool add_arrays(ct_result *r, const struct totals *totals, bool has_progress, size_t n_pairs, ct_error *error) {
    if (totals->points) r->points = malloc(totals->points * sizeof *r->points);
    if (has_progress && n_pairs) r->progress = malloc(n_pairs * sizeof *r->progress);
    if (totals->tiles) r->tiles = malloc(totals->tiles * sizeof *r->tiles);
    if ((r->points || !totals->points) && (r->tiles || !totals->tiles) && (r->progress || !has_progress || !n_pairs))
        return true;
    ct_fail(error, CT_OUT_OF_MEMORY, "result", "no memory for %llu points and %llu tiles of %zu pairs",
            (unsigned long long)totals->points, (unsigned long long)totals->tiles, n_pairs);
    return false;
}

static void copy_points(ct_result *r, ct_contact *c, const ct_pair_contact *contact) {
    c->first_point = r->n_points;
    if (c->n_points) memcpy(r->points + r->n_points, contact->points, c->n_points * sizeof *r->points);
    r->n_points += c->n_points;
}

static void copy_tiles(ct_result *r, ct_contact *c, const ct_pair_contact *contact) {
    c->first_tile = r->n_tiles;
    if (c->n_tiles) memcpy(r->tiles + r->n_tiles, contact->tiles, c->n_tiles * sizeof *r->tiles);
    r->n_tiles += c->n_tiles;
}

/* The step ends as the pair did that came least far. */
static void add_progress(ct_result *r, const ct_pair_task *pair) {
    r->progress[r->n_progress++] = pair->progress;
    if (pair->progress.ended > r->ended) r->ended = pair->progress.ended;
    r->quality += pair->quality;
}

/* Where the next rows of the result's arrays begin. */
struct ends {
    uint64_t entry, span, product;
};

/* Adds contact k of a pair, which was found. only: the result has taken its entries over. */
static void add_contact(ct_result *r, const ct_pair_task *pair, uint32_t k, bool only, struct ends *ends) {
    const ct_pair_contact *contact = &pair->contacts[k];
    ct_contact *c = ct_result_add(r, &contact->contact, &ends->entry, &ends->span);
    if (r->vertices && !only) ct_result_copy(r, c, &contact->entries);
    if (r->n_directions) copy_products(r, c, contact, &ends->product);
    copy_points(r, c, contact);
    copy_tiles(r, c, contact);
    if (r->spans) fill_spans(r, &pair->window, contact, c->first_span);
    for (uint32_t n = 0; n < contact->n_cells; n++) {
        const ct_contact *cell = ct_result_add_cell(r, &contact->cells[n].contact, &ends->entry);
        if (r->vertices) ct_result_copy(r, cell, &contact->cells[n].entries);
    }
}

/* False: cancelled. */
static bool add_pair(ct_result *r, const ct_pair_task *pair, bool only, struct ends *ends) {
    r->rays += pair->rays;
    if (pair->passes > r->passes) r->passes = pair->passes;
    if (pair->ended > r->ended) r->ended = pair->ended;
    r->fragments += pair->fragments;
    for (int p = 0; p < CT_PHASES; p++) r->seconds[p] += pair->seconds[p];
    for (uint32_t k = 0; pair->contacts && k < pair->n_contacts; k++) {
        if (!pair->contacts[k].is_found) continue;
        if (CT_POLL_EVERY(r->n_contacts + 1, 16) && ct_is_cancelled_at("contacts", r->n_contacts)) return false;
        add_contact(r, pair, k, only, ends);
    }
    return true;
}

void ct_cpu_answer(ct_device *device, ct_step *step, const ct_cpu_method *method, ct_pair_task *pairs, size_t n_pairs) {
    const bool has_progress = method->gives_progress;
    for (size_t i = 0; i < n_pairs; i++)
        if (pairs[i].status) {
            pair_error(device, method, &pairs[i], &step->error);
            return;
        }
    ct_kept_update(step, method, pairs, n_pairs);
    const struct totals totals = count_contacts(pairs, n_pairs);
    ct_result *r = ct_result_new(step->want, totals.contacts, totals.entries, totals.spans, totals.only, &step->error);
    if (!r) return;
    const uint32_t n_directions = ct_directions_count(step->directions, step->n_directions);
    if (n_directions && !ct_result_add_products(r, totals.contacts, totals.products, n_directions, &step->error)) {
        ct_result_free(&r);
        return;
    }
    if (totals.cells && !ct_result_add_cells(r, totals.cells, &step->error)) {
        ct_result_free(&r);
        return;
    }
    if (!add_arrays(r, &totals, has_progress, n_pairs, &step->error)) {
        ct_result_free(&r);
        return;
    }
    r->method = ct_method_of_step(step);
    r->pairs = n_pairs;
    size_t n_met = 0;
    struct ends ends = {0, 0, 0};
    for (size_t i = 0; i < n_pairs; i++) {
        n_met += pairs[i].ended == CT_ENDED_COMPLETED;
        if (has_progress) add_progress(r, &pairs[i]);
        if (add_pair(r, &pairs[i], totals.only, &ends)) continue;
        ct_fail_cancelled(&step->error);
        ct_result_free(&r);
        return;
    }
    if (!has_progress)
        r->quality = n_pairs ? (double)n_met / (double)n_pairs : 1;
    else
        r->quality = n_pairs ? r->quality / (double)n_pairs : 1;
    step->result = r;
}
