/* divide_cuda.cu - the host's part of contacts that are divided into cells. It plans the cells of each pair (cells.h),
 * launches the kernels that cut spans at the walls between cells (cells_cuda.cuh), and makes the result's cells
 * from what these kernels list. A batch with cells waits for the host between its spans and its answer; others do not.
 */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/methods/ldi/drive_cuda.cuh"

#include <algorithm>

extern "C" {
#include "gpu/methods/ldi/cells.h"
}

namespace {

/* A batch whose contacts are divided. */
struct finder {
    ct_device *device;
    ct_workspace *workspace;
    ct_gpu_ldi_scratch *scratch;
    const ct_span_tables *b;
    ct_gpu_need *need;
    ct_gpu_counts counts;
    ct_gpu_found_cells *found;
    ct_cell_tables tables; /* on the device */
};

/* Slots of the smallest hash tables, and how much larger one gets that was too small. A table of which less than one
 * slot in 8 was used is half as large in the next batch: the memory stays, but clearing and listing take time by its
 * slots. One that grew because it was more than half full is above that, so equal batches do not make it grow again. */
enum { LEAST_BITS = 12, MORE_BITS = 2, SPARE_BITS = 3 };

bool wait(const finder *f, const char *what) {
    return ct_gpu_wait(f->device, f->workspace, what);
}

bool copy_out(const finder *f, void *to, const void *from, uint64_t bytes) {
    return ct_gpu_copy_out(f->device, f->workspace, to, from, bytes, "copying cells");
}

bool reserve(const finder *f, ct_gpu_buffer *buffer, uint64_t bytes, const char *what) {
    f->need->what = what;
    f->need->bytes = bytes;
    return ct_gpu_reserve(f->device, f->workspace, buffer, bytes);
}

/* The pinned memory is not kept when it grows. NULL: no memory. */
char *reserve_host(const finder *f, ct_gpu_pinned *pinned, uint64_t bytes) {
    f->need->what = "cells, on the host";
    f->need->bytes = bytes;
    return ct_gpu_reserve_pinned(f->device, f->workspace, pinned, bytes) ? (char *)pinned->host : NULL;
}

bool clear(const finder *f, void *memory, uint64_t bytes) {
    return ct_gpu_ok(f->device, cudaMemsetAsync(memory, 0, bytes, f->workspace->stream), "clearing cells");
}

template <class T> T *carve(char **at, uint64_t n) {
    T *first = (T *)*at;
    *at += (n * sizeof(T) + 7) / 8 * 8;
    return first;
}

/* ---- pairs ---- */

bool read_counts(finder *f) {
    char *host = reserve_host(f, &f->scratch->cell_pairs_host, sizeof f->counts);
    if (!host || !copy_out(f, host, f->b->counts, sizeof f->counts) || !wait(f, "finding spans")) return false;
    memcpy(&f->counts, host, sizeof f->counts);
    return true;
}

/* Brings pairs, their plans and their candidates' sums of spans to the host. */
bool copy_pairs(finder *f) {
    const uint64_t pairs = f->counts.pairs, n = f->counts.candidates;
    char *at = reserve_host(f, &f->scratch->cell_pairs_host,
                            pairs * (sizeof(ct_gpu_pair) + sizeof(ct_gpu_plan)) +
                                n * (sizeof(uint32_t) + 2 * sizeof(int64_t[3])) + 4 * sizeof(uint64_t));
    if (!at) return false;
    ct_gpu_plan *plans = carve<ct_gpu_plan>(&at, pairs);
    int64_t(*length)[3] = carve<int64_t[3]>(&at, n), (*spans)[3] = carve<int64_t[3]>(&at, n);
    ct_gpu_pair *of = carve<ct_gpu_pair>(&at, pairs);
    uint32_t *candidate_pair = carve<uint32_t>(&at, n);
    f->found->plans = plans;
    f->found->length = length;
    f->found->spans = spans;
    f->found->pairs = of;
    f->found->candidate_pair = candidate_pair;
    f->found->n_candidates = n;
    return copy_out(f, plans, f->b->plans, pairs * sizeof *plans) &&
           copy_out(f, length, f->b->span_length, n * sizeof *length) &&
           copy_out(f, spans, f->b->span_count, n * sizeof *spans) &&
           copy_out(f, of, f->b->pairs, pairs * sizeof *of) &&
           copy_out(f, candidate_pair, f->b->candidate_pair, n * sizeof *candidate_pair) && wait(f, "copying pairs");
}

/* ---- grids ---- */

const ct_gpu_step *step_of(const finder *f, uint64_t candidate) {
    return (const ct_gpu_step *)f->workspace->steps.data + f->found->pairs[f->found->candidate_pair[candidate]].step;
}

/* The number of walls along the axes of a grid. */
uint64_t count_walls(const ct_cell_grid *grid) {
    uint64_t n = 0;
    for (int k = 0; k < 3 && grid->axis[0].n; k++) n += (uint64_t)grid->axis[k].n + 1;
    return n;
}

/* Plans the grid of a candidate. One that has none, or cannot have one, gets axis[0].n == 0, and of the latter its
 * step's record keeps the first. */
void plan_grid(const finder *f, uint64_t candidate, ct_cell_grid *grid) {
    const ct_gpu_step *step = step_of(f, candidate);
    const uint32_t p = f->found->candidate_pair[candidate];
    ct_gpu_cell_step *record = &((ct_gpu_cell_step *)f->scratch->cell_steps.data)[f->found->pairs[p].step];
    memset(grid, 0, sizeof *grid);
    grid->max_cells = f->device->max_cells;
    if (!(step->cell_size > 0) || !ct_plan_cell_axes(&f->found->plans[p].window, step->cell_size, grid->axis, NULL))
        return;
    grid->axis[0].n = 0;
    if (record->unplanned == CT_GPU_NONE) record->unplanned = p;
}

/* Plans all grids and sends them with their walls: in one block, whose copy on the host keeps the grids. */
bool send_grids(finder *f) {
    ct_workspace *workspace = f->workspace;
    const uint64_t n = f->found->n_candidates;
    ct_cell_grid *grids = (ct_cell_grid *)malloc((n + 1) * sizeof *grids);
    f->need->what = "cells, on the host";
    f->need->bytes = n * sizeof *grids;
    if (!grids) return false;
    uint64_t walls = 0;
    for (uint64_t i = 0; i < n; i++) {
        plan_grid(f, i, &grids[i]);
        walls += count_walls(&grids[i]);
    }
    const uint64_t first_wall = sizeof(ct_gpu_cell_counts) + n * (sizeof *grids + sizeof(uint64_t)),
                   bytes = first_wall + walls * sizeof(int32_t);
    char *host = reserve_host(f, &f->scratch->cell_grids_host, bytes);
    if (!host || !reserve(f, &f->scratch->cell_grids, bytes, "cells")) {
        free(grids);
        return false;
    }
    char *device = (char *)f->scratch->cell_grids.data;
    memset(host, 0, first_wall);
    uint64_t at = first_wall;
    for (uint64_t i = 0; i < n; i++) {
        const ct_lattice *lattice = f->found->plans[f->found->candidate_pair[i]].window.axis;
        for (int k = 0; k < 3 && grids[i].axis[0].n; k++) {
            ct_write_walls(&lattice[k], step_of(f, i)->cell_size, &grids[i].axis[k], (int32_t *)(host + at));
            grids[i].axis[k].walls = (const int32_t *)(device + at);
            at += ((uint64_t)grids[i].axis[k].n + 1) * sizeof(int32_t);
        }
    }
    char *of_host = host, *of_device = device;
    carve<ct_gpu_cell_counts>(&of_host, 1);
    f->tables.counts = carve<ct_gpu_cell_counts>(&of_device, 1);
    f->tables.grids = carve<ct_cell_grid>(&of_device, n);
    f->tables.met = carve<uint64_t>(&of_device, n);
    if (n) memcpy(of_host, grids, n * sizeof *grids);
    f->found->grids = (const ct_cell_grid *)of_host;
    free(grids);
    return ct_gpu_copy_in(f->device, workspace, device, host, bytes, "copying cells");
}

/* ---- cells and their vertices ---- */

/* Launches `launch` until its hash table, of 2^*bits slots of `size` bytes, is large enough. *counts: afterwards, with
 * the used slots in counts->*used. before(): clears what it adds to beside the table. table_bits: of the table in this
 * and the next batch. */
template <class Launch, class Before>
bool fill_table(finder *f, ct_gpu_buffer *table, uint32_t *table_bits, uint64_t size, uint32_t *bits, const char *what,
                ct_gpu_cell_counts *counts, uint64_t ct_gpu_cell_counts::*used, Before before, Launch launch) {
    char *host = reserve_host(f, &f->scratch->cell_counts_host, sizeof *counts);
    if (!host) return false;
    for (*bits = LEAST_BITS; *bits < *table_bits && (size << (*bits + 1)) <= table->bytes;) ++*bits;
    for (;; *bits += MORE_BITS) {
        if (!reserve(f, table, size << *bits, what) || !before() || !clear(f, table->data, size << *bits)) return false;
        f->device->launches += launch();
        if (!copy_out(f, host, f->tables.counts, sizeof *counts) || !wait(f, "dividing contacts into cells"))
            return false;
        memcpy(counts, host, sizeof *counts);
        if (counts->is_full) continue;
        *table_bits = *bits - (counts->*used >> (*bits - SPARE_BITS) == 0);
        return true;
    }
}

/* The device's numbers of cells of each candidate. */
const uint64_t *copy_met(finder *f) {
    const uint64_t n = f->found->n_candidates;
    char *host = (char *)f->scratch->cell_grids_host.host + sizeof(ct_gpu_cell_counts) + n * sizeof(ct_cell_grid);
    return copy_out(f, host, f->tables.met, n * sizeof(uint64_t)) && wait(f, "copying numbers of cells")
               ? (const uint64_t *)host
               : NULL;
}

bool find_cells(finder *f, ct_gpu_cell_counts *counts) {
    const ct_span_tables *b = f->b;
    ct_workspace *workspace = f->workspace;
    return fill_table(
        f, &f->scratch->cell_slots, &f->scratch->cell_bits, sizeof(ct_gpu_cell), &f->tables.cell_bits, "cells", counts,
        &ct_gpu_cell_counts::cells,
        [&] {
            f->tables.cells = (ct_gpu_cell *)f->scratch->cell_slots.data;
            return clear(f, f->tables.counts, sizeof *counts) &&
                   clear(f, f->tables.met, f->found->n_candidates * sizeof(uint64_t));
        },
        [&] { return ct_cuda_meet_cells(b, &f->tables, workspace->grid, workspace->stream); });
}

bool sum_cells(finder *f, ct_gpu_cell_counts *counts) {
    const ct_span_tables *b = f->b;
    ct_workspace *workspace = f->workspace;
    const uint64_t first = offsetof(ct_gpu_cell_counts, vertices);
    return fill_table(
        f, &f->scratch->cell_vertices, &f->scratch->vertex_bits, sizeof(ct_gpu_cell_vertex), &f->tables.vertex_bits,
        "vertices of cells", counts, &ct_gpu_cell_counts::vertices,
        [&] {
            f->tables.vertices = (ct_gpu_cell_vertex *)f->scratch->cell_vertices.data;
            return clear(f, (char *)f->tables.counts + first, sizeof *counts - first);
        },
        [&] { return ct_cuda_sum_cells(b, &f->tables, workspace->grid, workspace->stream); });
}

/* Lists cells and their vertices on the device, and copies both lists to the host. */
bool list_all(finder *f) {
    ct_workspace *workspace = f->workspace;
    ct_gpu_cell_counts counts;
    if (!find_cells(f, &counts)) return false;
    f->found->met = copy_met(f);
    if (!f->found->met) return false;
    const uint64_t n_cells = counts.cells;
    if (n_cells >> CT_CELL_INDEX_BITS) {
        f->need->what = "more than 2^29 cells";
        f->need->bytes = n_cells * sizeof(ct_gpu_cell);
        return false;
    }
    if (!reserve(f, &f->scratch->cell_list, n_cells * sizeof(ct_gpu_cell), "cells")) return false;
    f->tables.list = (ct_gpu_cell *)f->scratch->cell_list.data;
    f->device->launches += ct_cuda_list_cells(&f->tables, ct_gpu_grid_of(f->device, (uint64_t)1 << f->tables.cell_bits),
                                              workspace->stream);
    if (!sum_cells(f, &counts)) return false;
    const uint64_t cells = n_cells * sizeof(ct_gpu_cell), vertices = counts.vertices;
    if (!reserve(f, &f->scratch->cell_entries, vertices * sizeof(ct_gpu_cell_entry), "the sparse gradient of cells"))
        return false;
    f->tables.entries = (ct_gpu_cell_entry *)f->scratch->cell_entries.data;
    f->device->launches += ct_cuda_list_cell_entries(
        f->b, &f->tables, ct_gpu_grid_of(f->device, (uint64_t)1 << f->tables.vertex_bits), workspace->stream);
    char *host = reserve_host(f, &f->scratch->cells_host, cells + vertices * sizeof(ct_gpu_cell_entry));
    char *of_counts = (char *)f->scratch->cell_counts_host.host;
    if (!host || !copy_out(f, host, f->tables.list, cells) ||
        !copy_out(f, host + cells, f->tables.entries, vertices * sizeof(ct_gpu_cell_entry)) ||
        !copy_out(f, of_counts, f->tables.counts, sizeof counts) || !wait(f, "copying cells"))
        return false;
    memcpy(&counts, of_counts, sizeof counts);
    f->found->cells = (const ct_gpu_cell *)host;
    f->found->n_cells = n_cells;
    f->found->entries = (const ct_gpu_cell_entry *)(host + cells);
    f->found->n_entries = counts.entries; /* vertices whose sums are zero are no entries */
    return true;
}

/* ---- order ---- */

/* A list of n elements of this type, or NULL: no memory. */
template <class T> T *resize(const finder *f, ct_host_list *list, uint64_t n) {
    f->need->what = "cells, on the host";
    f->need->bytes = n * sizeof(T);
    list->n = 0;
    return (T *)ct_host_append(list, n, sizeof(T));
}

/* Sorts the cells by candidate and place, and the entries by cell, part and vertex. False: no memory. */
bool sort_all(finder *f) {
    ct_gpu_found_cells *found = f->found;
    const uint64_t n = found->n_cells, n_entries = found->n_entries;
    uint64_t *order = resize<uint64_t>(f, &f->scratch->cell_order, n);
    uint64_t *first_cell = resize<uint64_t>(f, &f->scratch->first_cells, found->n_candidates + 1);
    uint64_t *rank = resize<uint64_t>(f, &f->scratch->cell_ranks, n);
    uint64_t *first_entry = resize<uint64_t>(f, &f->scratch->first_cell_entries, n + 2);
    uint64_t *entry_order = resize<uint64_t>(f, &f->scratch->cell_entry_order, n_entries);
    if (!order || !first_cell || !rank || !first_entry || !entry_order) return false;
    const ct_gpu_cell *cells = found->cells;
    const ct_gpu_cell_entry *entries = found->entries;
    for (uint64_t i = 0; i < n; i++) order[i] = i;
    std::sort(order, order + n, [&](uint64_t x, uint64_t y) { return cells[x].key < cells[y].key; });
    uint64_t candidate = 0;
    first_cell[0] = 0;
    for (uint64_t i = 0; i < n; i++) {
        rank[cells[order[i]].index] = i;
        for (const uint64_t of = ct_gpu_cell_candidate(cells[order[i]].key); candidate < of;)
            first_cell[++candidate] = i;
    }
    while (candidate < found->n_candidates) first_cell[++candidate] = n;
    memset(first_entry, 0, (n + 2) * sizeof *first_entry);
    for (uint64_t i = 0; i < n_entries; i++) first_entry[rank[ct_gpu_vertex_cell(entries[i].key)] + 2]++;
    for (uint64_t i = 0; i < n; i++) first_entry[i + 2] += first_entry[i + 1];
    for (uint64_t i = 0; i < n_entries; i++)
        entry_order[first_entry[rank[ct_gpu_vertex_cell(entries[i].key)] + 1]++] = i;
    for (uint64_t i = 0; i < n; i++) /* keys of one cell are in the order of parts and vertices */
        std::sort(entry_order + first_entry[i], entry_order + first_entry[i + 1],
                  [&](uint64_t x, uint64_t y) { return entries[x].key < entries[y].key; });
    found->order = order;
    found->first_cell = first_cell;
    found->first_entry = first_entry;
    found->entry_order = entry_order;
    return true;
}

/* Finds the first candidate of each step that is a contact of too many cells. */
void check_limits(const finder *f) {
    const ct_gpu_found_cells *found = f->found;
    for (uint64_t i = 0; i < found->n_candidates; i++) {
        const uint32_t p = found->candidate_pair[i];
        ct_gpu_cell_step *record = &((ct_gpu_cell_step *)f->scratch->cell_steps.data)[found->pairs[p].step];
        ct_contact contact;
        if (found->met[i] > f->device->max_cells && record->crowded == CT_GPU_NONE &&
            ct_frame_volumes(&found->plans[p].window, found->length[i], found->spans[i], &contact))
            record->crowded = (uint32_t)i;
    }
}

} // namespace

bool ct_gpu_find_cells(ct_device *device, ct_workspace *workspace, const ct_span_tables *batch, ct_gpu_need *need) {
    const ct_trace_range range("cells");
    finder f = {};
    f.device = device;
    f.workspace = workspace;
    f.scratch = ct_gpu_ldi(workspace);
    f.b = batch;
    f.need = need;
    f.found = &f.scratch->found_cells;
    memset(f.found, 0, sizeof *f.found);
    ct_gpu_cell_step *steps = resize<ct_gpu_cell_step>(&f, &f.scratch->cell_steps, batch->n_steps);
    if (!steps) return false;
    for (uint32_t i = 0; i < batch->n_steps; i++) steps[i].unplanned = steps[i].crowded = CT_GPU_NONE;
    bool ok = read_counts(&f);
    if (!ok || ct_gpu_span_shortage(&f.counts, &batch->capacity)) return ok;
    if (f.counts.candidates >> (64 - CT_CELL_KEY_BITS - 1)) {
        need->what = "more than 2^27 pairs in cells";
        need->bytes = f.counts.candidates * sizeof(ct_cell_grid);
        return false;
    }
    if (!copy_pairs(&f) || !send_grids(&f) || !list_all(&f) || !sort_all(&f)) return false;
    check_limits(&f);
    return true;
}

/* ---- results ---- */

namespace {

const ct_body *body_of(const ct_step *step, const ct_gpu_step *sent, const ct_gpu_pair *pair, int k) {
    return step->scene->bodies[pair->body[k] - sent->first_body];
}

/* A cell that is finished, and its entries. */
struct finished_cell {
    const ct_gpu_found_cells *found;
    const ct_window *window;
    uint64_t first[3]; /* of both parts in entry_order, and their end */
    ct_contact contact;
    int has_normal;
    double pressure;
};

const ct_gpu_cell_entry *entry_of(const finished_cell *cell, uint64_t i) {
    return &cell->found->entries[cell->found->entry_order[i]];
}

/* The 6-vectors and the normal. */
void measure_gradient(finished_cell *cell, const ct_body *const bodies[2]) {
    const ct_weight_units units = ct_frame_units(cell->window);
    for (int k = 0; k < 2; k++) {
        ct_moments moments;
        double origin[3] = {0, 0, 0};
        memset(&moments, 0, sizeof moments);
        for (uint64_t i = cell->first[k]; i < cell->first[k + 1]; i++)
            ct_moments_add(&moments, entry_of(cell, i)->coords, entry_of(cell, i)->sums);
        ct_body_origin(bodies[k], origin);
        ct_moments_finish(&moments, cell->window, &units, origin, cell->contact.generalized_gradient[k]);
        cell->contact.count[k] = cell->first[k + 1] - cell->first[k];
    }
    cell->has_normal = ct_frame_normal(&cell->contact, cell->contact.generalized_gradient[0], 0);
}

/* Area, depth and centres. */
void finish_frame(finished_cell *cell) {
    const ct_weight_units units = ct_frame_units(cell->window);
    const double scale = ct_barycentre_scale(cell->window);
    ct_barycentre sides[2];
    memset(sides, 0, sizeof sides);
    for (int k = 0; k < 2; k++)
        for (uint64_t i = cell->first[k]; i < cell->first[k + 1]; i++)
            ct_barycentre_add(&sides[k], &cell->contact, cell->has_normal, scale, &units, entry_of(cell, i)->coords,
                              entry_of(cell, i)->sums);
    ct_frame_finish(cell->window, sides, &cell->contact);
}

/* Writes the entries from number `to` of the result on. */
void write_entries(const finished_cell *cell, ct_result *r, uint64_t to) {
    const ct_weight_units units = ct_frame_units(cell->window);
    for (uint64_t i = cell->first[0]; i < cell->first[2]; i++, to++) {
        const ct_gpu_cell_entry *entry = entry_of(cell, i);
        double g[3];
        ct_frame_gradient(&units, entry->sums, g);
        r->vertices[to] = ct_gpu_vertex_number(entry->key);
        if (r->gradient) memcpy(r->gradient + 3 * to, g, sizeof g);
        if (r->weights) r->weights[to] = ct_frame_friction(&cell->contact, g);
        for (int k = 0; k < 3 && r->forces; k++) r->forces[3 * to + (uint64_t)k] = cell->pressure * g[k];
    }
}

/* Finishes cell number i in order, of a contact whose views have these weights. */
finished_cell finish_cell(const ct_gpu_found_cells *found, const ct_step *step, const ct_gpu_step *sent, uint64_t i,
                          const double weight[3]) {
    const ct_gpu_cell *from = &found->cells[found->order[i]];
    const uint64_t candidate = ct_gpu_cell_candidate(from->key);
    const uint32_t p = found->candidate_pair[candidate];
    const ct_body *bodies[2] = {body_of(step, sent, &found->pairs[p], 0), body_of(step, sent, &found->pairs[p], 1)};
    finished_cell cell = {};
    cell.found = found;
    cell.window = &found->plans[p].window;
    cell.first[0] = cell.first[1] = found->first_entry[i];
    cell.first[2] = found->first_entry[i + 1];
    while (cell.first[1] < cell.first[2] && !ct_gpu_vertex_part(entry_of(&cell, cell.first[1])->key)) cell.first[1]++;
    for (int k = 0; k < 2; k++) cell.contact.body[k] = bodies[k]->id;
    ct_cell_numbers(&found->grids[candidate], ct_gpu_cell_place(from->key), cell.contact.cell);
    ct_frame_weighted_volumes(cell.window, from->length, from->spans, weight, &cell.contact);
    cell.pressure = -sent->stiffness * cell.contact.volume;
    if (step->want & CT_WANT_ENTRIES) {
        measure_gradient(&cell, bodies);
        finish_frame(&cell);
    }
    return cell;
}

} // namespace

bool ct_gpu_refuse_cells(const ct_device *device, const ct_workspace *workspace, ct_step *step, uint64_t index,
                         uint32_t refused) {
    const ct_gpu_found_cells *found = &ct_gpu_ldi(workspace)->found_cells;
    const ct_gpu_step *sent = (const ct_gpu_step *)workspace->steps.data + index;
    const ct_gpu_cell_step *record = (const ct_gpu_cell_step *)ct_gpu_ldi(workspace)->cell_steps.data + index;
    const bool is_unplanned = record->unplanned < refused; /* the first pair that cannot be planned is named */
    if (!is_unplanned && (refused != CT_GPU_NONE || record->crowded == CT_GPU_NONE)) return false;
    const uint32_t p = is_unplanned ? record->unplanned : found->candidate_pair[record->crowded];
    char name[64];
    snprintf(name, sizeof name, "bodies %u and %u", body_of(step, sent, &found->pairs[p], 0)->id,
             body_of(step, sent, &found->pairs[p], 1)->id);
    if (is_unplanned) {
        ct_cell_axis axes[3];
        ct_error why = {};
        ct_plan_cell_axes(&found->plans[p].window, sent->cell_size, axes, &why);
        ct_fail(&step->error, why.status, why.field, "%s: %s", name, why.message);
    } else {
        ct_fail_cells(name, sent->cell_size, found->met[record->crowded], device->max_cells, &step->error);
    }
    return true;
}

void ct_gpu_count_cells(const ct_workspace *workspace, const ct_gpu_contact *found_contact, uint64_t *cells,
                        uint64_t *entries) {
    const ct_gpu_found_cells *found = &ct_gpu_ldi(workspace)->found_cells;
    const uint64_t first = found->first_cell[found_contact->candidate],
                   end = found->first_cell[found_contact->candidate + 1];
    *cells += end - first;
    *entries += found->first_entry[end] - found->first_entry[first];
}

void ct_gpu_add_cells(const ct_workspace *workspace, const ct_step *step, const ct_gpu_step *sent,
                      const ct_gpu_contact *found_contact, ct_result *r, uint64_t *entry) {
    const ct_gpu_found_cells *found = &ct_gpu_ldi(workspace)->found_cells;
    const uint64_t candidate = found_contact->candidate;
    double weight[3];
    ct_view_weights(&found->plans[found->candidate_pair[candidate]].window, found->spans[candidate], weight);
    for (uint64_t i = found->first_cell[candidate]; i < found->first_cell[candidate + 1]; i++) {
        const finished_cell cell = finish_cell(found, step, sent, i, weight);
        const ct_contact *added = ct_result_add_cell(r, &cell.contact, entry);
        if (r->vertices) write_entries(&cell, r, added->first[0]);
    }
}
