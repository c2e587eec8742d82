/* finish_cells_cpu.c - the CPU's contact stage for cells: sorts the cells that the threads met, and turns each cell's
 * records into a contact of its own.
 *
 *     a cell's records, of all threads ─ sum ─▶ sums per vertex ─ gather ─▶ compact planes
 *
 * The compact planes have the touched vertices alone, in rising order, so the kernels of the contact stage
 * (gpu/contact/compact_cpu.h) give a cell's entries and moments as they do for a whole pair. */
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/contact/result.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/ldi/pair_cpu.h"

/* ---- the grid ---- */

bool ct_pair_place_walls(ct_pair_context *context) {
    const ct_pair_task *pair = context->pair;
    ct_buffer *memory = &ct_pair_driver(context)->walls;
    size_t n = 0;
    for (int k = 0; k < 3; k++) n += (size_t)context->plan->cells[k].n + 1 + CT_COLUMN_LANES;
    if (!ct_buffer_reserve(memory, &context->device->budget, n * sizeof(int32_t), 0, false)) return false;
    int32_t *walls = memory->data;
    for (int k = 0; k < 3; k++) {
        context->grid.axis[k] = context->plan->cells[k];
        ct_write_walls(&pair->window.axis[k], pair->settings->cell_size, &context->grid.axis[k], walls);
        walls += context->plan->cells[k].n + 1;
        for (int i = 0; i < CT_COLUMN_LANES; i++) *walls++ = INT32_MAX; /* read, but never below a span's end */
    }
    context->grid.max_cells = context->device->max_cells;
    context->options.grid = &context->grid;
    return true;
}

/* ---- parts of a body with itself ---- */

static size_t words_of(size_t bits) {
    return (bits + 63) / 64;
}

bool ct_pair_keep_parts(ct_pair_context *context) {
    const ct_contact_sums *sums = context->partial_sums[0];
    ct_buffer *memory = &ct_pair_driver(context)->parts;
    const size_t n = context->vertices[0], bytes = words_of(n) * sizeof(uint64_t);
    if (!ct_buffer_reserve(memory, &context->device->budget, bytes, 0, false)) return false;
    uint64_t *parts = memory->data;
    memset(parts, 0, bytes);
    for (size_t v = 0; v < n; v++)
        if (sums->touched[1][v / CT_VERTEX_GROUP] &&
            (sums->gradient[1][0][v] | sums->gradient[1][1][v] | sums->gradient[1][2][v]))
            parts[v / 64] |= (uint64_t)1 << v % 64;
    context->parts = parts;
    return true;
}

/* ---- sorting ---- */

/* A cell as one thread met it. */
struct met_cell {
    uint64_t key;
    uint32_t thread, index; /* in the thread's list */
};

static int by_key(const void *a, const void *b) {
    const uint64_t x = ((const struct met_cell *)a)->key, y = ((const struct met_cell *)b)->key;
    return (x > y) - (x < y);
}

struct cell_sort {
    ct_pair_context *context;
    ct_ldi_scratch *const *threads;
    uint32_t n_threads, n_met, n_cells;
    struct met_cell *met; /* [n_met] in the order of keys */
    uint32_t *first_met;  /* [n_cells + 1] of these, where each cell's begin */
    ct_pair_cell *cells;  /* [n_cells] */
    double weight[3];     /* the pair's, of its views */
};

/* Cuts the driver's memory into the arrays of the sort. False: out of memory. */
static bool reserve_sort(struct cell_sort *sort) {
    for (uint32_t t = 0; t < sort->n_threads; t++) sort->n_met += sort->threads[t]->span.cells.n_cells;
    const size_t bytes = sort->n_met * sizeof *sort->met + (sort->n_met + (size_t)1) * sizeof *sort->first_met;
    ct_buffer *memory = &ct_pair_driver(sort->context)->cell_order;
    if (!ct_buffer_reserve(memory, &sort->context->device->budget, bytes, 0, false)) return false;
    sort->met = memory->data;
    sort->first_met = (uint32_t *)(sort->met + sort->n_met);
    return true;
}

/* Sorts the cells of all threads by their keys. */
static void sort_cells(struct cell_sort *sort) {
    uint32_t n = 0;
    for (uint32_t t = 0; t < sort->n_threads; t++) {
        const ct_cell_scratch *cells = &sort->threads[t]->span.cells;
        for (uint32_t i = 0; i < cells->n_cells; i++)
            sort->met[n++] = (struct met_cell){((const ct_cell_spans *)cells->cells.data)[i].key, t, i};
    }
    qsort(sort->met, n, sizeof *sort->met, by_key);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || sort->met[i].key != sort->met[i - 1].key) sort->first_met[sort->n_cells++] = i;
    sort->first_met[sort->n_cells] = n;
}

static const ct_cell_spans *spans_of(const struct cell_sort *sort, const struct met_cell *met) {
    return (const ct_cell_spans *)sort->threads[met->thread]->span.cells.cells.data + met->index;
}

/* Adds up the cells' spans. False: out of memory. */
static bool make_cells(struct cell_sort *sort) {
    const ct_pair_context *context = sort->context;
    const ct_pair_task *pair = context->pair;
    const size_t bytes = sort->n_cells * sizeof *sort->cells;
    sort->cells = ct_pair_allocate(context, bytes);
    if (!sort->cells) return false;
    memset(sort->cells, 0, bytes);
    for (uint32_t c = 0; c < sort->n_cells; c++) {
        const struct met_cell *first = sort->met + sort->first_met[c], *end = sort->met + sort->first_met[c + 1];
        int64_t length[3] = {0, 0, 0}, spans[3] = {0, 0, 0};
        for (const struct met_cell *met = first; met < end; met++)
            for (int w = 0; w < 3; w++) {
                length[w] += spans_of(sort, met)->length[w];
                spans[w] += spans_of(sort, met)->spans[w];
            }
        ct_contact *cell = &sort->cells[c].contact;
        for (int b = 0; b < 2; b++) cell->body[b] = pair->body[b]->id;
        ct_cell_numbers(&context->grid, first->key, cell->cell);
        ct_frame_weighted_volumes(&pair->window, length, spans, sort->weight, cell);
    }
    return true;
}

/* ---- one cell ---- */

/* The vertices of one part with sums, compacted. */
struct compact {
    ct_contact_sums sums; /* planes of the part alone */
    ct_coords *coords;
    uint32_t *vertices;
    size_t n, capacity; /* capacity: whole CT_VERTEX_BLOCKs */
};

static bool reserve_sums(const ct_pair_context *context, ct_cell_sums *sums) {
    ct_budget *budget = &context->device->budget;
    for (int b = 0; b < 2; b++) {
        const size_t n = context->vertices[b], words = words_of(n);
        if (!ct_buffer_reserve(&sums->sums[b], budget, n * sizeof(int64_t[CT_CELL_SUM]), 0, true) ||
            !ct_buffer_reserve(&sums->touched[b], budget, (words + words_of(words)) * sizeof(uint64_t), 0, true))
            return false;
    }
    return true;
}

/* The sums of one part. */
struct part_sums {
    int64_t (*sums)[CT_CELL_SUM]; /* [vertices] */
    uint64_t *touched, *words;    /* as in ct_cell_sums */
};

static inline void add_to_vertex(struct part_sums to, uint32_t v, uint32_t view, int64_t value) {
    uint64_t *touched = &to.touched[v / 64];
    const uint64_t before = *touched;
    to.sums[v][view] += value;
    *touched = before | (uint64_t)1 << v % 64;
    if (!before) to.words[v / 4096] |= (uint64_t)1 << (v / 64) % 64;
}

static inline void prefetch_chunk(const ct_cell_record *records, uint32_t chunk) {
    enum { BYTES = 256 };
    for (size_t i = 0; i < BYTES && chunk != CT_NO_CHUNK; i += 64)
        __builtin_prefetch((const char *)(records + chunk) + i);
}

/* Adds records to the sums of their corners. parts: of a body with itself; else NULL. */
static inline __attribute__((always_inline)) void sum_chunk(const struct part_sums to[2], const uint64_t *parts,
                                                            const ct_cell_record *records, size_t n) {
    enum { NEAR = 8 }; /* records until their corners' sums have come from memory */
    for (size_t i = 0; i < n; i++) {
        const ct_cell_record *r = &records[i], *near = &records[i + NEAR < n ? i + NEAR : i];
        const struct part_sums of_body = to[r->of >> 2];
        int64_t(*sums)[CT_CELL_SUM] = to[near->of >> 2].sums;
        for (int k = 0; k < 3; k++) __builtin_prefetch(sums[near->corner[k]], 1);
        for (int k = 0; k < 3; k++) {
            const uint32_t v = r->corner[k];
            add_to_vertex(parts ? to[parts[v / 64] >> v % 64 & 1] : of_body, v, r->of & 3, r->weight[k]);
        }
    }
}

/* Adds the records of a cell that one thread collected. Returns their number. */
static size_t sum_records(const ct_pair_context *context, const ct_cell_sums *sums, const ct_cell_scratch *cells,
                          const ct_cell_spans *of) {
    struct part_sums to[2];
    for (int b = 0; b < 2; b++) {
        uint64_t *touched = sums->touched[b].data;
        to[b] = (struct part_sums){sums->sums[b].data, touched, touched + words_of(context->vertices[b])};
    }
    const ct_cell_record *records = cells->records.data;
    size_t n = 0;
    for (uint32_t chunk = of->chunk, end = of->next; chunk != CT_NO_CHUNK;) {
        const uint32_t before = records[chunk].corner[0];
        prefetch_chunk(records, before);
        if (context->parts)
            sum_chunk(to, context->parts, records + chunk + 1, end - chunk - 1);
        else
            sum_chunk(to, NULL, records + chunk + 1, end - chunk - 1);
        n += end - chunk - 1;
        end = records[chunk].corner[1];
        chunk = before;
    }
    return n;
}

static size_t whole_blocks(size_t n) {
    return (n + CT_VERTEX_BLOCK - 1) / CT_VERTEX_BLOCK * CT_VERTEX_BLOCK;
}

/* Moves the sums of the touched vertices to the compact planes, but for those that came to zero. */
static void gather(const ct_pair_context *context, ct_cell_sums *from, int part, struct compact *to) {
    const size_t n_words = words_of(context->vertices[part]);
    uint64_t *touched = from->touched[part].data, *words = touched + n_words;
    const ct_coords *coords = ct_pair_driver(context)->coords[ct_is_self_task(context->pair) ? 0 : part].data;
    int64_t(*const sums)[CT_CELL_SUM] = from->sums[part].data;
    int64_t *const *plane = to->sums.gradient[part], *const x = plane[0], *const y = plane[1], *const z = plane[2];
    size_t n = 0;
    for (size_t i = 0; i < words_of(n_words); i++) {
        for (uint64_t left = words[i]; left; left &= left - 1) {
            const size_t word = 64 * i + (size_t)__builtin_ctzll(left);
            for (uint64_t bits = touched[word]; bits; bits &= bits - 1) {
                const size_t v = 64 * word + (size_t)__builtin_ctzll(bits);
                const int64_t of_vertex[3] = {sums[v][0], sums[v][1], sums[v][2]};
                memset(sums[v], 0, sizeof sums[v]);
                x[n] = of_vertex[0];
                y[n] = of_vertex[1];
                z[n] = of_vertex[2];
                memcpy(to->coords[n], coords[v], sizeof coords[v]);
                to->vertices[n] = (uint32_t)v;
                n += (of_vertex[0] | of_vertex[1] | of_vertex[2]) != 0;
            }
            touched[word] = 0;
        }
        words[i] = 0;
    }
    to->n = n;
    to->capacity = whole_blocks(n);
}

/* Cuts the thread's compact memory into arrays of both parts for the vertices of n_records. False: out of memory. */
static bool reserve_compact(const ct_pair_context *context, ct_cell_sums *sums, size_t n_records,
                            struct compact parts[2]) {
    enum { VERTEX_BYTES = 3 * sizeof(int64_t) + sizeof(ct_coords) + sizeof(uint32_t) };
    size_t bytes = 0;
    for (int b = 0; b < 2; b++) {
        const size_t n = context->vertices[b];
        parts[b].capacity = whole_blocks(3 * n_records < n ? 3 * n_records : n);
        bytes += parts[b].capacity * VERTEX_BYTES + parts[b].capacity / CT_VERTEX_GROUP;
    }
    if (!ct_buffer_reserve(&sums->compact, &context->device->budget, bytes + 1, 0, false)) return false;
    char *at = sums->compact.data;
    for (int b = 0; b < 2; b++) {
        struct compact *part = &parts[b];
        for (int w = 0; w < 3; w++) {
            part->sums.gradient[b][w] = (int64_t *)(void *)at;
            at += part->capacity * sizeof(int64_t);
        }
        part->coords = (ct_coords *)(void *)at;
        at += part->capacity * sizeof(ct_coords);
        part->vertices = (uint32_t *)(void *)at;
        at += part->capacity * sizeof(uint32_t);
    }
    for (int b = 0; b < 2; b++) { /* bytes, behind what is aligned */
        parts[b].sums.touched[b] = (uint8_t *)at;
        at += parts[b].capacity / CT_VERTEX_GROUP;
    }
    return true;
}

/* Groups beyond the part's last vertex are not looked at, but its last group is looked at whole. */
static void pad(struct compact *part, int b) {
    const size_t groups = (part->n + CT_VERTEX_GROUP - 1) / CT_VERTEX_GROUP, end = groups * CT_VERTEX_GROUP;
    for (int w = 0; w < 3; w++) memset(part->sums.gradient[b][w] + part->n, 0, (end - part->n) * sizeof(int64_t));
    memset(part->coords + part->n, 0, (end - part->n) * sizeof *part->coords);
    memset(part->sums.touched[b], 1, groups);
    memset(part->sums.touched[b] + groups, 0, part->capacity / CT_VERTEX_GROUP - groups);
}

/* Writes the entries and frame of a cell whose volume is set, from its compacted sums. False: out of memory. */
static bool write_cell(const ct_pair_context *context, ct_arena *answers, struct compact parts[2], ct_pair_cell *cell) {
    const ct_pair_task *pair = context->pair;
    const ct_window *window = &pair->window;
    const ct_compact_cpu *kernels = context->device->kernels->compact;
    ct_contact *contact = &cell->contact;
    ct_entry_scaling scaling = {.units = ct_frame_units(window),
                                .contact = contact,
                                .barycentre_scale = ct_barycentre_scale(window),
                                .pressure = -pair->settings->stiffness * contact->volume};
    ct_barycentre side[2];
    memset(side, 0, sizeof side);
    ct_contact_sums *const of_part[2] = {&parts[0].sums, &parts[1].sums};
    for (int b = 0; b < 2; b++) {
        const ct_partial_sums partial = {&of_part[b], 1, b, parts[b].coords};
        ct_moments moments;
        double origin[3];
        memset(&moments, 0, sizeof moments);
        contact->count[b] = kernels->reduce_sums(&partial, 0, parts[b].capacity, &moments);
        ct_body_origin(pair->body[b], origin);
        ct_moments_finish(&moments, window, &scaling.units, origin, contact->generalized_gradient[b]);
    }
    scaling.has_normal = ct_frame_normal(contact, contact->generalized_gradient[0], 0);
    if (!ct_entry_arrays_in(answers, &context->device->answers, &cell->entries, pair->step->want,
                            contact->count[0] + contact->count[1]))
        return false;
    for (int b = 0; b < 2; b++) {
        const ct_partial_sums partial = {&of_part[b], 1, b, parts[b].coords};
        kernels->write_entries(&partial, 0, parts[b].capacity, &scaling, &side[b], &cell->entries,
                               b ? contact->count[0] : 0, contact->count[b]);
        if (cell->entries.vertices && parts[b].n)
            memcpy(cell->entries.vertices + (b ? contact->count[0] : 0), parts[b].vertices,
                   parts[b].n * sizeof *parts[b].vertices);
    }
    ct_frame_finish(window, side, contact);
    return true;
}

static void prefetch_cell(const struct cell_sort *sort, uint32_t c) {
    for (uint32_t i = sort->first_met[c]; c < sort->n_cells && i < sort->first_met[c + 1]; i++) {
        const struct met_cell *met = &sort->met[i];
        prefetch_chunk(sort->threads[met->thread]->span.cells.records.data, spans_of(sort, met)->chunk);
    }
}

/* False: out of memory. */
static bool finish_cell(const ct_pair_context *context, const struct cell_sort *sort, uint32_t c, ct_cell_sums *sums,
                        ct_arena *answers) {
    struct compact parts[2];
    size_t n = 0;
    for (uint32_t i = sort->first_met[c]; i < sort->first_met[c + 1]; i++)
        n += sum_records(context, sums, &sort->threads[sort->met[i].thread]->span.cells, spans_of(sort, &sort->met[i]));
    prefetch_cell(sort, c + 1);
    if (!reserve_compact(context, sums, n, parts)) return false;
    for (int b = 0; b < 2; b++) {
        gather(context, sums, b, &parts[b]);
        pad(&parts[b], b);
    }
    return write_cell(context, answers, parts, &sort->cells[c]);
}

/* ---- all cells ---- */

/* Cells that one task finishes: fewer would cost more to hand out. */
enum { CELL_CHUNK = 16 };

static void finish_chunk(void *argument, uint32_t i, uint32_t index) {
    ct_pair_context *context = argument;
    const struct cell_sort *sort = context->cell_sort;
    ct_cell_sums *sums = &ct_ldi_scratch_of(context->workspace, index)->cell_sums;
    ct_enter_phase("finishing cells");
    if (context->has_failed || ct_is_cancelled_at("cells", (uint64_t)i * CELL_CHUNK) || !reserve_sums(context, sums)) {
        context->has_failed = true;
        return;
    }
    for (uint32_t c = i * CELL_CHUNK; c < sort->n_cells && c < (i + 1) * CELL_CHUNK; c++)
        if (!finish_cell(context, sort, c, sums, &context->workspace->workers[index].answers)) {
            /* The sums of this cell are not zero: let none of them be used again. */
            for (int b = 0; b < 2; b++) {
                ct_buffer_free(&sums->sums[b], &context->device->budget);
                ct_buffer_free(&sums->touched[b], &context->device->budget);
            }
            context->has_failed = true;
            return;
        }
}

void ct_pair_finish_cells(ct_pair_context *context, ct_ldi_scratch *const *contributors, uint32_t n) {
    struct cell_sort sort = {.context = context, .threads = contributors, .n_threads = n};
    if (!reserve_sort(&sort)) {
        context->has_failed = true;
        return;
    }
    sort_cells(&sort);
    if (sort.n_cells > context->grid.max_cells) {
        context->pair->cells_needed = sort.n_cells;
        context->status = CT_LIMIT_EXCEEDED;
        context->has_failed = true;
        return;
    }
    ct_view_weights(&context->pair->window, context->spans, sort.weight);
    if (!make_cells(&sort)) {
        context->has_failed = true;
        return;
    }
    if (context->options.has_cell_gradient) {
        context->cell_sort = &sort;
        ct_pair_parallel_for(context, (sort.n_cells + CELL_CHUNK - 1) / CELL_CHUNK, finish_chunk);
        context->cell_sort = NULL;
    }
    context->contact->cells = sort.cells;
    context->contact->n_cells = sort.n_cells;
}
