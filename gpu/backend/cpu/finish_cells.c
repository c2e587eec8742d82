/* finish_cells.c - the CPU's contact stage for cells: sorts what the threads collected by cell, and turns each cell's
 * sums into a contact of its own.
 *
 *     records of all threads ─ sort by cell ─▶ one cell's records ─ sum ─▶ sums per vertex ─ gather ─▶ compact planes
 *
 * The compact planes have the touched vertices alone, in rising order, so the kernels of the contact stage
 * (gpu/contact/compact_cpu.h) give a cell's entries and moments as they do for a whole pair. */
#include <stdlib.h>
#include <string.h>

#include "gpu/backend/cpu/pair_context.h"
#include "gpu/contact/entry_arrays.h"
#include "gpu/mesh/mesh.h"

/* ---- the grid ---- */

bool ct_pair_place_walls(ct_pair_context *context) {
    const ct_pair_task *pair = context->pair;
    ct_buffer *memory = &ct_pair_driver(context)->walls;
    size_t n = 0;
    for (int k = 0; k < 3; k++) n += (size_t)pair->cells[k].n + 1;
    if (!ct_buffer_reserve(memory, &context->device->budget, n * sizeof(int32_t), 0, false)) return false;
    int32_t *walls = memory->data;
    for (int k = 0; k < 3; k++) {
        context->grid.axis[k] = pair->cells[k];
        ct_write_walls(&pair->window.axis[k], pair->cell_size, &context->grid.axis[k], walls);
        walls += pair->cells[k].n + 1;
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
    ct_thread_scratch *const *threads;
    uint32_t n_threads, n_met, n_cells;
    size_t n_records;
    struct met_cell *met;    /* [n_met] in the order of keys */
    uint32_t *number;        /* [n_met], threads' lists one after the other: of each cell among all */
    uint32_t *first_number;  /* [n_threads] of these, where each thread's begin */
    size_t *first_record;    /* [n_cells + 1], into records */
    ct_cell_record *records; /* [n_records] in the order of cells */
    ct_pair_cell *cells;     /* [n_cells] */
    double weight[3];        /* the pair's, of its views */
};

static size_t rounded(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* Cuts the driver's memory into the arrays of the sort. False: out of memory. */
static bool reserve_sort(struct cell_sort *sort) {
    for (uint32_t t = 0; t < sort->n_threads; t++) {
        sort->n_met += sort->threads[t]->span.cells.n_cells;
        sort->n_records += sort->threads[t]->span.cells.n_records;
    }
    const size_t bytes[] = {sort->n_met * sizeof *sort->met, sort->n_met * sizeof *sort->number,
                            sort->n_threads * sizeof *sort->first_number,
                            (sort->n_met + (size_t)1) * sizeof *sort->first_record,
                            sort->n_records * sizeof *sort->records};
    enum { ARRAYS = sizeof bytes / sizeof *bytes };
    size_t all = 0;
    for (int i = 0; i < ARRAYS; i++) all += rounded(bytes[i]);
    ct_buffer *memory = &ct_pair_driver(sort->context)->cell_order;
    if (!ct_buffer_reserve(memory, &sort->context->device->budget, all, 0, false)) return false;
    char *at[ARRAYS], *next = memory->data;
    for (int i = 0; i < ARRAYS; i++) {
        at[i] = next;
        next += rounded(bytes[i]);
    }
    sort->met = (struct met_cell *)(void *)at[0];
    sort->number = (uint32_t *)(void *)at[1];
    sort->first_number = (uint32_t *)(void *)at[2];
    sort->first_record = (size_t *)(void *)at[3];
    sort->records = (ct_cell_record *)(void *)at[4];
    return true;
}

/* Numbers the cells of all threads in the order of their keys. */
static void number_cells(struct cell_sort *sort) {
    uint32_t n = 0;
    for (uint32_t t = 0; t < sort->n_threads; t++) {
        const ct_cell_scratch *cells = &sort->threads[t]->span.cells;
        sort->first_number[t] = n;
        for (uint32_t i = 0; i < cells->n_cells; i++)
            sort->met[n++] = (struct met_cell){((const ct_cell_spans *)cells->cells.data)[i].key, t, i};
    }
    qsort(sort->met, n, sizeof *sort->met, by_key);
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && sort->met[i].key != sort->met[i - 1].key) sort->n_cells++;
        sort->number[sort->first_number[sort->met[i].thread] + sort->met[i].index] = sort->n_cells;
    }
    sort->n_cells += n > 0;
}

/* Adds up the cells' spans. False: out of memory. */
static bool make_cells(struct cell_sort *sort) {
    const ct_pair_context *context = sort->context;
    const ct_pair_task *pair = context->pair;
    const ct_window *window = &pair->window;
    const size_t bytes = sort->n_cells * sizeof *sort->cells;
    sort->cells = ct_arena_alloc(&ct_pair_driver(context)->answers, &context->device->answers, bytes);
    if (!sort->cells) return false;
    memset(sort->cells, 0, bytes);
    for (uint32_t i = 0, end; i < sort->n_met; i = end) {
        const struct met_cell *met = sort->met;
        int64_t length[3] = {0, 0, 0}, spans[3] = {0, 0, 0};
        for (end = i; end < sort->n_met && met[end].key == met[i].key; end++) {
            const ct_cell_spans *of = sort->threads[met[end].thread]->span.cells.cells.data;
            for (int w = 0; w < 3; w++) {
                length[w] += of[met[end].index].length[w];
                spans[w] += of[met[end].index].spans[w];
            }
        }
        ct_contact *cell = &sort->cells[sort->number[sort->first_number[met[i].thread] + met[i].index]].contact;
        for (int b = 0; b < 2; b++) cell->body[b] = pair->body[b]->id;
        ct_cell_numbers(&context->grid, met[i].key, cell->cell);
        ct_frame_weighted_volumes(window, length, spans, sort->weight, cell);
    }
    return true;
}

static void sort_records(struct cell_sort *sort) {
    size_t *first = sort->first_record;
    memset(first, 0, (sort->n_cells + (size_t)1) * sizeof *first);
    for (uint32_t t = 0; t < sort->n_threads; t++) {
        const ct_cell_scratch *cells = &sort->threads[t]->span.cells;
        const ct_cell_record *records = cells->records.data;
        const uint32_t *number = sort->number + sort->first_number[t];
        for (size_t i = 0; i < cells->n_records; i++) first[number[records[i].cell >> 2] + 1]++;
    }
    for (uint32_t c = 0; c < sort->n_cells; c++) first[c + 1] += first[c];
    for (uint32_t t = 0; t < sort->n_threads; t++) {
        const ct_cell_scratch *cells = &sort->threads[t]->span.cells;
        const ct_cell_record *records = cells->records.data;
        const uint32_t *number = sort->number + sort->first_number[t];
        for (size_t i = 0; i < cells->n_records; i++) sort->records[first[number[records[i].cell >> 2]]++] = records[i];
    }
    /* Each cell's first index has become the next one's. */
    memmove(first + 1, first, sort->n_cells * sizeof *first);
    first[0] = 0;
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
        if (!ct_buffer_reserve(&sums->sums[b], budget, n * 3 * sizeof(int64_t), 0, true) ||
            !ct_buffer_reserve(&sums->touched[b], budget, (words + words_of(words)) * sizeof(uint64_t), 0, true))
            return false;
    }
    return true;
}

/* The sums of one part. */
struct part_sums {
    int64_t *sums;             /* [vertices][3] */
    uint64_t *touched, *words; /* as in ct_cell_sums */
};

static inline void add_to_vertex(const struct part_sums *to, uint32_t v, uint32_t view, int64_t value) {
    to->sums[3 * (size_t)v + view] += value;
    uint64_t *touched = &to->touched[v / 64];
    if (!*touched) to->words[v / 4096] |= (uint64_t)1 << (v / 64) % 64;
    *touched |= (uint64_t)1 << v % 64;
}

static void sum_records(const ct_pair_context *context, const ct_cell_sums *sums, const ct_cell_record *records,
                        size_t n) {
    struct part_sums to[2];
    for (int b = 0; b < 2; b++) {
        uint64_t *touched = sums->touched[b].data;
        to[b] = (struct part_sums){sums->sums[b].data, touched, touched + words_of(context->vertices[b])};
    }
    const uint64_t *parts = context->parts;
    enum { FAR = 16, NEAR = 8 }; /* records: until their corners have come from memory, then the corners' sums */
    for (size_t i = 0; i < n; i++) {
        const ct_cell_record *r = &records[i], *far = &records[i + FAR < n ? i + FAR : i],
                             *near = &records[i + NEAR < n ? i + NEAR : i];
        __builtin_prefetch(context->options.triangles[far->tag >> 31] + 3 * (size_t)(far->tag & INT32_MAX));
        const uint32_t *next = context->options.triangles[near->tag >> 31] + 3 * (size_t)(near->tag & INT32_MAX);
        for (int k = 0; k < 3; k++) __builtin_prefetch(to[near->tag >> 31].sums + 3 * (size_t)next[k], 1);
        const uint32_t body = r->tag >> 31, view = r->cell & 3;
        const uint32_t *corner = context->options.triangles[body] + 3 * (size_t)(r->tag & INT32_MAX);
        const int64_t value[3] = {r->whole - r->l1 - r->l2, r->l1, r->l2};
        for (int k = 0; k < 3; k++) {
            const uint32_t v = corner[k];
            add_to_vertex(&to[parts ? parts[v / 64] >> v % 64 & 1 : body], v, view, value[k]);
        }
    }
}

static size_t count_touched(const ct_pair_context *context, const ct_cell_sums *sums, int part) {
    const size_t n_words = words_of(context->vertices[part]);
    const uint64_t *touched = sums->touched[part].data, *words = touched + n_words;
    size_t n = 0;
    for (size_t i = 0; i < words_of(n_words); i++)
        for (uint64_t left = words[i]; left; left &= left - 1)
            n += (size_t)__builtin_popcountll(touched[64 * i + (size_t)__builtin_ctzll(left)]);
    return n;
}

/* Moves the sums of the touched vertices to the compact planes, but for those that came to zero. */
static void gather(const ct_pair_context *context, ct_cell_sums *from, int part, struct compact *to) {
    const size_t n_words = words_of(context->vertices[part]);
    uint64_t *touched = from->touched[part].data, *words = touched + n_words;
    const ct_coords *coords = ct_pair_driver(context)->coords[ct_is_self_task(context->pair) ? 0 : part].data;
    int64_t *const sums = from->sums[part].data, *const x = to->sums.gradient[part][0],
                   *const y = to->sums.gradient[part][1], *const z = to->sums.gradient[part][2];
    size_t n = 0;
    for (size_t i = 0; i < words_of(n_words); i++) {
        for (uint64_t left = words[i]; left; left &= left - 1) {
            const size_t word = 64 * i + (size_t)__builtin_ctzll(left);
            for (uint64_t bits = touched[word]; bits; bits &= bits - 1) {
                const size_t v = 64 * word + (size_t)__builtin_ctzll(bits);
                x[n] = sums[3 * v];
                y[n] = sums[3 * v + 1];
                z[n] = sums[3 * v + 2];
                sums[3 * v] = sums[3 * v + 1] = sums[3 * v + 2] = 0;
                memcpy(to->coords[n], coords[v], sizeof coords[v]);
                to->vertices[n] = (uint32_t)v;
                n += (x[n] | y[n] | z[n]) != 0;
            }
            touched[word] = 0;
        }
        words[i] = 0;
    }
    to->n = n;
}

/* Cuts the thread's compact memory into the arrays of both parts. False: out of memory; the sums are cleared. */
static bool reserve_compact(const ct_pair_context *context, ct_cell_sums *sums, struct compact parts[2]) {
    enum { VERTEX_BYTES = 3 * sizeof(int64_t) + sizeof(ct_coords) + sizeof(uint32_t) };
    size_t bytes = 0;
    for (int b = 0; b < 2; b++) {
        const size_t n = count_touched(context, sums, b);
        parts[b].capacity = (n + CT_VERTEX_BLOCK - 1) / CT_VERTEX_BLOCK * CT_VERTEX_BLOCK;
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
static bool write_cell(const ct_pair_context *context, ct_thread_scratch *worker, struct compact parts[2],
                       ct_pair_cell *cell) {
    const ct_pair_task *pair = context->pair;
    const ct_window *window = &pair->window;
    const ct_compact_cpu *kernels = context->device->kernels->compact;
    ct_contact *contact = &cell->contact;
    ct_entry_scaling scaling = {.units = ct_frame_units(window),
                                .contact = contact,
                                .barycentre_scale = ct_barycentre_scale(window),
                                .pressure = -pair->stiffness * contact->volume};
    ct_barycentre side[2];
    memset(side, 0, sizeof side);
    ct_contact_sums *const of_part[2] = {&parts[0].sums, &parts[1].sums};
    for (int b = 0; b < 2; b++) {
        const ct_partial_sums partial = {&of_part[b], 1, b, parts[b].coords};
        ct_moments moments;
        double origin[3];
        memset(&moments, 0, sizeof moments);
        contact->count[b] = kernels->reduce_sums(&partial, 0, parts[b].capacity, &moments);
        ct_pair_origin(pair->body[b], origin);
        ct_moments_finish(&moments, window, &scaling.units, origin, contact->generalized_gradient[b]);
    }
    scaling.has_normal = ct_frame_normal(contact, contact->generalized_gradient[0]);
    if (!ct_entry_arrays_in(&worker->answers, &context->device->answers, &cell->entries, pair->want,
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
    ct_frame_finish(window, side, scaling.has_normal, scaling.barycentre_scale, contact);
    return true;
}

/* False: out of memory. */
static bool finish_cell(const ct_pair_context *context, const struct cell_sort *sort, uint32_t c,
                        ct_thread_scratch *worker) {
    ct_cell_sums *sums = &worker->cell_sums;
    struct compact parts[2];
    sum_records(context, sums, sort->records + sort->first_record[c],
                sort->first_record[c + 1] - sort->first_record[c]);
    if (!reserve_compact(context, sums, parts)) return false;
    for (int b = 0; b < 2; b++) {
        gather(context, sums, b, &parts[b]);
        pad(&parts[b], b);
    }
    return write_cell(context, worker, parts, &sort->cells[c]);
}

/* ---- all cells ---- */

/* Cells that one task finishes: fewer would cost more to hand out. */
enum { CELL_CHUNK = 16 };

static void finish_chunk(void *argument, uint32_t i, uint32_t index) {
    ct_pair_context *context = argument;
    const struct cell_sort *sort = context->cell_sort;
    ct_thread_scratch *worker = &context->workspace->workers[index];
    if (context->has_failed || !reserve_sums(context, &worker->cell_sums)) {
        context->has_failed = true;
        return;
    }
    for (uint32_t c = i * CELL_CHUNK; c < sort->n_cells && c < (i + 1) * CELL_CHUNK; c++)
        if (!finish_cell(context, sort, c, worker)) {
            /* The sums of this cell are not zero: let none of them be used again. */
            for (int b = 0; b < 2; b++) {
                ct_buffer_free(&worker->cell_sums.sums[b], &context->device->budget);
                ct_buffer_free(&worker->cell_sums.touched[b], &context->device->budget);
            }
            context->has_failed = true;
            return;
        }
}

void ct_pair_finish_cells(ct_pair_context *context, ct_thread_scratch *const *contributors, uint32_t n) {
    struct cell_sort sort = {.context = context, .threads = contributors, .n_threads = n};
    if (!reserve_sort(&sort)) {
        context->has_failed = true;
        return;
    }
    number_cells(&sort);
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
        sort_records(&sort);
        context->cell_sort = &sort;
        ct_pair_parallel_for(context, (sort.n_cells + CELL_CHUNK - 1) / CELL_CHUNK, finish_chunk);
        context->cell_sort = NULL;
    }
    context->contact->cells = sort.cells;
    context->contact->n_cells = sort.n_cells;
}
