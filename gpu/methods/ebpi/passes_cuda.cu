/* passes_cuda.cu - the passes of pairs that are refined side by side. What refine.h decides on the host and what the device
 * does with faces and tiles (ebpi_cuda.cuh) take turns, and between the two the batch waits for the host: what several
 * pairs need next is one launch and one wait. */
#include "gpu/methods/ebpi/passes_cuda.cuh"

#include "gpu/device/cuda/trace.cuh"

namespace {

/* Tiles are measured in batches that need no more memory than this, or one by one. */
enum : uint64_t { MEASURE_BYTES = (uint64_t)1 << 28 };

/* The tiles that pairs may be cut into side by side. One by one they may be more. */
enum : uint64_t { GROUP_TILES = (uint64_t)1 << 23 };

/* ---- faces over pixels ---- */

uint64_t count_pixels(const ct_ebpi_view *view) {
    return (uint64_t)view->columns * (uint64_t)view->rows;
}

/* Where each pixel's faces begin, from their counts, which become where the next of each body goes. Returns the view's
 * faces. */
uint64_t place_faces(ct_ebpi_view *view, uint32_t *first_counts, uint32_t *second_counts) {
    const uint64_t pixels = count_pixels(view);
    uint64_t n = 0;
    for (uint64_t p = 0; p < pixels; p++) {
        const uint32_t counts[2] = {first_counts[p], second_counts[p]};
        view->first[p] = first_counts[p] = (uint32_t)n;
        n += counts[0];
        view->next[0][p] = second_counts[p] = (uint32_t)n;
        n += counts[1];
    }
    view->first[pixels] = (uint32_t)n;
    return n;
}

/* m^3, of what snapping changes, from the sums of both bodies' lower and upper halves. */
double find_moved(const ct_window *window, const uint64_t moved[4]) {
    double sum[2];
    for (int k = 0; k < 2; k++) sum[k] = (double)((__int128)moved[2 * k] + ((__int128)moved[2 * k + 1] << 32));
    const double unit[3] = {window->axis[0].unit, window->axis[1].unit, window->axis[2].unit};
    return sum[0] * unit[0] * unit[1] * unit[2] + sum[1] * unit[0] * unit[1] * unit[2];
}

/* The pairs that are listed, where each begins, in rows that the device reads. */
struct list_layout {
    uint64_t n_chunks, n_counts;
    uint64_t listed, moved, counts, end;
};

list_layout lay_out_lists(const ct_ebpi_run *run) {
    list_layout to = {};
    for (uint64_t i = 0; i < run->n_chosen; i++) {
        const ct_ebpi_view *view = run->chosen[i]->refinement.view;
        to.n_chunks += (run->chosen[i]->n_triangles() + CT_BLOCK - 1) / CT_BLOCK;
        to.n_counts += 2 * (count_pixels(&view[0]) + count_pixels(&view[1]) + count_pixels(&view[2]));
    }
    ct_ebpi_layout at = {0};
    to.listed = at.add(run->n_chosen * sizeof(ct_ebpi_listed));
    to.moved = at.add(run->n_chosen * sizeof(uint64_t[4]));
    to.counts = at.add(to.n_counts * sizeof(uint32_t));
    to.end = at.end;
    return to;
}

/* Memory for where the faces over each pixel begin, on the host. */
bool begin_views(ct_ebpi_refined *pair) {
    for (ct_ebpi_view &view : pair->refinement.view) {
        const uint64_t pixels = count_pixels(&view);
        view.parts[0] = 1; /* as ct_ebpi_is_under_both reads the places */
        view.first = (uint32_t *)ct_ebpi_memory_alloc(pair->memory, (pixels + 1) * sizeof(uint32_t));
        view.next[0] = (uint32_t *)ct_ebpi_memory_alloc(pair->memory, pixels * sizeof(uint32_t));
        if (!view.first || !view.next[0]) return false;
    }
    return true;
}

bool begin_lists(const ct_ebpi_run *run, ct_ebpi_listed *listed) {
    uint64_t chunk = 0, count = 0;
    for (uint64_t i = 0; i < run->n_chosen; i++) {
        ct_ebpi_refined *pair = run->chosen[i];
        run->need->what = "faces over pixels, on the host";
        if (!begin_views(pair)) return false;
        listed[i] = {};
        listed[i].pair = pair->number;
        listed[i].first_chunk = chunk;
        listed[i].first_count = count;
        for (int w = 0; w < 3; w++) {
            listed[i].first_pixel[w] = listed[i].n_pixels;
            listed[i].n_pixels += count_pixels(&pair->refinement.view[w]);
        }
        chunk += (pair->n_triangles() + CT_BLOCK - 1) / CT_BLOCK;
        count += 2 * listed[i].n_pixels;
    }
    return true;
}

/* Where each pixel's faces go, once they are counted. n: faces, of all pairs. */
bool place_lists(const ct_ebpi_run *run, const list_layout *at, char *host, uint64_t *n) {
    *n = 0;
    for (uint64_t i = 0; i < run->n_chosen; i++) {
        ct_ebpi_listed *listed = (ct_ebpi_listed *)(host + at->listed) + i;
        ct_ebpi_refinement *of = &run->chosen[i]->refinement;
        of->moved = find_moved(of->window, (const uint64_t *)(host + at->moved) + 4 * i);
        for (int w = 0; w < 3; w++) {
            uint32_t *counts = (uint32_t *)(host + at->counts) + listed->first_count + listed->first_pixel[w];
            const uint64_t n_view = place_faces(&of->view[w], counts, counts + listed->n_pixels);
            listed->first_face[w] = *n;
            *n += n_view;
            if (n_view <= UINT32_MAX) continue;
            run->need->what = "faces over pixels";
            run->need->bytes = n_view * sizeof(uint32_t);
            return false;
        }
    }
    return true;
}

/* CT_EBPI_LIST */
bool list_faces(ct_ebpi_run *run) {
    const ct_trace_range range("ebpi lists");
    ct_workspace *workspace = run->workspace;
    const list_layout at = lay_out_lists(run);
    char *host = run->reserve_host(at.end);
    if (!host || !run->reserve(&run->scratch->counts, at.end, "pixels")) return false;
    char *device = (char *)run->scratch->counts.data;
    ct_ebpi_list_tables tables = {};
    tables.pairs = (const ct_ebpi_pair *)run->scratch->pair_tables.data;
    tables.listed = (const ct_ebpi_listed *)(device + at.listed);
    tables.n = run->n_chosen;
    tables.n_chunks = at.n_chunks;
    tables.moved = (uint64_t(*)[2][2])(device + at.moved);
    tables.count = (uint32_t *)(device + at.counts);
    const unsigned grid = ct_gpu_grid_of(run->device, at.n_chunks * CT_BLOCK);
    if (!begin_lists(run, (ct_ebpi_listed *)(host + at.listed)) || !run->copy_in(device, host, at.moved) ||
        !run->clear(tables.moved, at.end - at.moved))
        return false;
    run->device->launches += ct_cuda_count_faces(&tables, grid, workspace->stream);
    uint64_t n;
    if (!run->copy_out(host + at.moved, tables.moved, at.end - at.moved) || !run->wait("counting faces") ||
        !place_lists(run, &at, host, &n))
        return false;
    run->current = 0;
    if (!run->reserve(&run->scratch->faces[0], n * sizeof(uint32_t), "faces over pixels")) return false;
    tables.faces = (uint32_t *)run->scratch->faces[0].data;
    for (uint64_t i = 0; i < run->n_chosen; i++)
        for (int w = 0; w < 3; w++)
            run->chosen[i]->refinement.view[w].faces =
                tables.faces + ((const ct_ebpi_listed *)(host + at.listed))[i].first_face[w];
    if (!run->copy_in(device, host, at.end)) return false;
    run->device->launches += ct_cuda_write_faces(&tables, grid, workspace->stream);
    return run->wait("listing faces");
}

/* ---- tiles of several pairs ---- */

struct tile_of {
    ct_ebpi_tile *tile;
    const ct_ebpi_refined *pair;
};

/* The tiles of the chosen pairs for which is_wanted holds, in scratch->listed. False: no memory. */
template <class Wanted> bool list_tiles(const ct_ebpi_run *run, Wanted is_wanted) {
    ct_host_list *listed = &run->scratch->listed;
    run->need->what = "a list of tiles, on the host";
    listed->n = 0;
    for (uint64_t i = 0; i < run->n_chosen; i++) {
        const ct_ebpi_refinement *of = &run->chosen[i]->refinement;
        for (uint32_t t = 0; t < of->n; t++) {
            const tile_of found = {&of->tiles[t], run->chosen[i]};
            run->need->bytes = (listed->n + 1) * sizeof found;
            if (is_wanted(found.tile) && !ct_host_add(listed, found)) return false;
        }
    }
    return true;
}

/* ---- measuring ---- */

/* Measures tiles in one launch. polynomials: NULL, or where they go. */
bool measure_batch(const ct_ebpi_run *run, const tile_of *tiles, uint64_t n, ct_ebpi_polynomial *polynomials) {
    ct_workspace *workspace = run->workspace;
    ct_ebpi_layout at = {0};
    uint64_t scratch = 0;
    const uint64_t tiles_at = at.add(n * sizeof(ct_ebpi_tile)), measured_at = at.add(n * sizeof(ct_ebpi_measured));
    const uint64_t polynomials_at = at.add(polynomials ? n * sizeof *polynomials : 0);
    char *host = run->reserve_host(at.end);
    if (!host || !run->reserve(&run->scratch->tables, at.end, "tiles")) return false;
    for (uint64_t i = 0; i < n; i++) {
        const ct_ebpi_refined *pair = tiles[i].pair;
        ((ct_ebpi_tile *)(host + tiles_at))[i] = *tiles[i].tile;
        ((ct_ebpi_measured *)(host + measured_at))[i] = {scratch, pair->number, pair->refinement.is_strict};
        scratch += ct_ebpi_measure_bytes(tiles[i].tile->n_faces);
    }
    if (!run->reserve(&run->scratch->scratch, scratch, "faces over tiles")) return false;
    char *device = (char *)run->scratch->tables.data;
    ct_ebpi_measure_tables tables = {};
    tables.pairs = (const ct_ebpi_pair *)run->scratch->pair_tables.data;
    tables.tiles = (ct_ebpi_tile *)(device + tiles_at);
    tables.measured = (const ct_ebpi_measured *)(device + measured_at);
    tables.n = n;
    tables.memory = (char *)run->scratch->scratch.data;
    tables.polynomials = polynomials ? (ct_ebpi_polynomial *)(device + polynomials_at) : NULL;
    if (!run->copy_in(device, host, polynomials_at)) return false;
    run->device->launches +=
        ct_cuda_measure_tiles(&tables, ct_gpu_grid_of(run->device, CT_EBPI_LANES * tables.n), workspace->stream);
    if (!run->copy_out(host + tiles_at, tables.tiles, n * sizeof(ct_ebpi_tile)) ||
        (polynomials && !run->copy_out(host + polynomials_at, tables.polynomials, n * sizeof *polynomials)) ||
        !run->wait("measuring tiles"))
        return false;
    for (uint64_t i = 0; i < n; i++) *tiles[i].tile = ((const ct_ebpi_tile *)(host + tiles_at))[i];
    if (polynomials) memcpy(polynomials, host + polynomials_at, n * sizeof *polynomials);
    return true;
}

/* Measures the listed tiles; polynomials: NULL, or where they go. */
bool measure_listed(const ct_ebpi_run *run, ct_ebpi_polynomial *polynomials) {
    const tile_of *tiles = (const tile_of *)run->scratch->listed.data;
    const uint64_t n = run->scratch->listed.n;
    for (uint64_t first = 0, end; first < n; first = end) {
        uint64_t bytes = 0;
        for (end = first; end < n; end++) {
            bytes += ct_ebpi_measure_bytes(tiles[end].tile->n_faces);
            if (bytes > MEASURE_BYTES && end > first) break;
        }
        if (!measure_batch(run, tiles + first, end - first, polynomials ? polynomials + first : NULL)) return false;
    }
    return true;
}

/* CT_EBPI_MEASURE */
bool measure(ct_ebpi_run *run) {
    const ct_trace_range range("ebpi measure");
    return list_tiles(run, [](const ct_ebpi_tile *tile) { return tile->bound == CT_EBPI_UNMEASURED; }) &&
           measure_listed(run, NULL);
}

/* CT_EBPI_CUT_EQUALLY: only a tile with a bound has a polynomial to read. */
bool cut_equally(ct_ebpi_run *run) {
    const ct_trace_range range("ebpi measure");
    if (!list_tiles(run, [](const ct_ebpi_tile *tile) { return tile->bound > 0; })) return false;
    const tile_of *listed = (const tile_of *)run->scratch->listed.data;
    const uint64_t n = run->scratch->listed.n;
    ct_ebpi_polynomial *polynomials = (ct_ebpi_polynomial *)malloc((n + 1) * sizeof *polynomials);
    const bool ok = polynomials && measure_listed(run, polynomials);
    uint64_t next = 0;
    for (uint64_t p = 0; p < run->n_chosen && ok; p++) {
        ct_ebpi_refinement *of = &run->chosen[p]->refinement;
        for (uint32_t i = 0; i < of->n; i++) {
            const ct_ebpi_tile *tile = &of->tiles[i];
            const ct_ebpi_polynomial none = {};
            const ct_ebpi_polynomial *polynomial = next < n && listed[next].tile == tile ? &polynomials[next++] : &none;
            of->cut[i] = ct_ebpi_equal_cut(&of->view[tile->view], &of->share[tile->view], tile, polynomial);
        }
    }
    free(polynomials);
    return ok;
}

/* ---- cuts ---- */

/* Where all lies that a cut needs, on the host and on the device. */
struct cut_layout {
    uint64_t n, n_parts, n_bits;
    uint64_t tiles, pair_of, cut, first_part, first_face, sent, count, faces, second, end;
};

cut_layout lay_out_cut(const ct_ebpi_run *run) {
    cut_layout to = {};
    for (uint64_t p = 0; p < run->n_chosen; p++) {
        const ct_ebpi_refinement *of = &run->chosen[p]->refinement;
        to.n += of->n;
        to.n_parts += of->n_parts;
        for (uint32_t i = 0; i < of->n; i++) to.n_bits += of->tiles[i].n_faces;
    }
    ct_ebpi_layout at = {0};
    to.tiles = at.add(to.n * sizeof(ct_ebpi_tile));
    to.pair_of = at.add(to.n * sizeof(uint32_t));
    to.cut = at.add(to.n * sizeof(ct_ebpi_cut));
    to.first_part = at.add(to.n * sizeof(uint64_t));
    to.first_face = at.add(to.n * sizeof(uint64_t));
    to.sent = at.end;
    to.count = at.add(to.n_parts * sizeof(uint32_t[2]));
    to.faces = at.add(to.n_parts * sizeof(uint32_t *));
    to.second = at.add(to.n_parts * sizeof(uint32_t));
    to.end = at.end;
    return to;
}

/* Makes the parts, and the tables that the first launch reads. */
void make_parts(const ct_ebpi_run *run, const cut_layout *at, char *host) {
    uint64_t tile = 0, part = 0, face = 0;
    for (uint64_t p = 0; p < run->n_chosen; p++) {
        const ct_ebpi_refinement *of = &run->chosen[p]->refinement;
        ct_ebpi_tile *to = of->parts;
        for (uint32_t i = 0; i < of->n; i++, tile++) {
            const ct_ebpi_cut cut = ct_ebpi_cut_at_once(of->cut[i]);
            const uint32_t n_parts = ct_ebpi_count_parts(cut);
            ((ct_ebpi_tile *)(host + at->tiles))[tile] = of->tiles[i];
            ((uint32_t *)(host + at->pair_of))[tile] = run->chosen[p]->number;
            ((ct_ebpi_cut *)(host + at->cut))[tile] = cut;
            ((uint64_t *)(host + at->first_part))[tile] = part;
            ((uint64_t *)(host + at->first_face))[tile] = face;
            if (n_parts == 1)
                *to = of->tiles[i];
            else
                ct_ebpi_make_parts(&of->tiles[i], of->cut[i], to);
            to += n_parts;
            part += n_parts;
            face += of->tiles[i].n_faces;
        }
    }
}

/* Gives each part its place among the faces, by their counts, and fills the tables by which the device writes them. */
void place_parts(const ct_ebpi_run *run, const cut_layout *at, char *host, uint32_t *faces) {
    const uint32_t(*count)[2] = (const uint32_t(*)[2])(host + at->count);
    uint64_t part = 0;
    for (uint64_t p = 0; p < run->n_chosen; p++) {
        const ct_ebpi_refinement *of = &run->chosen[p]->refinement;
        for (uint32_t i = 0; i < of->n_parts; i++, part++) {
            of->parts[i].faces = ((uint32_t **)(host + at->faces))[part] = faces;
            of->parts[i].n_faces = count[part][0] + count[part][1];
            ((uint32_t *)(host + at->second))[part] = count[part][0];
            faces += of->parts[i].n_faces;
        }
    }
}

/* CT_EBPI_CUT: faces go to the other buffer, also those of tiles that stay as they are. */
bool cut(ct_ebpi_run *run) {
    const ct_trace_range range("ebpi cut");
    ct_workspace *workspace = run->workspace;
    const cut_layout at = lay_out_cut(run);
    char *host = run->reserve_host(at.end);
    if (!host || !run->reserve(&run->scratch->tables, at.end, "tiles") ||
        !run->reserve(&run->scratch->scratch, at.n_bits * sizeof(uint16_t), "faces over tiles"))
        return false;
    make_parts(run, &at, host);
    char *device = (char *)run->scratch->tables.data;
    ct_ebpi_cut_tables tables = {};
    tables.pairs = (const ct_ebpi_pair *)run->scratch->pair_tables.data;
    tables.tiles = (const ct_ebpi_tile *)(device + at.tiles);
    tables.pair_of = (const uint32_t *)(device + at.pair_of);
    tables.cut = (const ct_ebpi_cut *)(device + at.cut);
    tables.first_part = (const uint64_t *)(device + at.first_part);
    tables.first_face = (const uint64_t *)(device + at.first_face);
    tables.n = at.n;
    tables.covered = (uint16_t *)run->scratch->scratch.data;
    tables.count = (uint32_t(*)[2])(device + at.count);
    tables.faces = (uint32_t **)(device + at.faces);
    tables.second = (uint32_t *)(device + at.second);
    if (!run->copy_in(device, host, at.sent) || !run->clear(tables.count, at.n_parts * sizeof(uint32_t[2])))
        return false;
    const unsigned grid = ct_gpu_grid_of(run->device, CT_EBPI_LANES * at.n);
    run->device->launches += ct_cuda_count_parts(&tables, grid, workspace->stream);
    const uint32_t(*count)[2] = (const uint32_t(*)[2])(host + at.count);
    if (!run->copy_out(host + at.count, tables.count, at.n_parts * sizeof(uint32_t[2])) || !run->wait("counting faces"))
        return false;
    uint64_t n = 0;
    for (uint64_t p = 0; p < at.n_parts; p++) n += count[p][0] + (uint64_t)count[p][1];
    ct_gpu_buffer *next = &run->scratch->faces[1 - run->current];
    if (!run->reserve(next, n * sizeof(uint32_t), "faces over tiles")) return false;
    place_parts(run, &at, host, (uint32_t *)next->data);
    if (!run->copy_in(device + at.faces, host + at.faces, at.end - at.faces) ||
        !run->clear(tables.count, at.n_parts * sizeof(uint32_t[2])))
        return false;
    run->device->launches += ct_cuda_write_parts(&tables, grid, workspace->stream);
    run->current = 1 - run->current;
    return run->wait("sharing faces");
}

/* ---- spans ---- */

/* CT_EBPI_DONE: adds the spans of the last tiles to the candidates' sums, of all pairs or, without memory, of none. */
bool add_spans(ct_ebpi_run *run) {
    const ct_trace_range range("ebpi spans");
    if (!list_tiles(run, [](const ct_ebpi_tile *tile) { return tile->length != 0; })) return false;
    const tile_of *of = (const tile_of *)run->scratch->listed.data;
    const uint64_t n = run->scratch->listed.n;
    uint64_t crossings = 0;
    ct_ebpi_layout at = {0};
    const uint64_t tiles = at.add(n * sizeof(ct_ebpi_tile)), pair_of = at.add(n * sizeof(uint32_t));
    const uint64_t first = at.add((n + 1) * sizeof(uint64_t));
    char *host = run->reserve_host(at.end);
    if (!host || !run->reserve(&run->scratch->tables, at.end, "tiles")) return false;
    for (uint64_t i = 0; i < n; i++) {
        ((ct_ebpi_tile *)(host + tiles))[i] = *of[i].tile;
        ((uint32_t *)(host + pair_of))[i] = of[i].pair->number;
        ((uint64_t *)(host + first))[i] = crossings;
        crossings += of[i].tile->n_crossed[0] + (uint64_t)of[i].tile->n_crossed[1];
    }
    ((uint64_t *)(host + first))[n] = crossings;
    if (!run->reserve(&run->scratch->scratch, crossings * sizeof(ct_gpu_fragment), "ray crossings")) return false;
    char *device = (char *)run->scratch->tables.data;
    ct_ebpi_span_tables tables = {};
    (ct_answer_tables &)tables = *run->batch;
    tables.of = (const ct_ebpi_pair *)run->scratch->pair_tables.data;
    tables.tiles = (const ct_ebpi_tile *)(device + tiles);
    tables.pair_of = (const uint32_t *)(device + pair_of);
    tables.n_tiles = n;
    tables.first_fragment = (const uint64_t *)(device + first);
    tables.crossings = (ct_gpu_fragment *)run->scratch->scratch.data;
    if (!run->copy_in(device, host, at.end)) return false;
    if (n) run->device->launches += ct_cuda_span_tiles(&tables, ct_gpu_grid_of(run->device, n), run->workspace->stream);
    for (uint64_t i = 0; i < run->n_chosen; i++) run->chosen[i]->is_finished = true;
    return run->wait("adding spans");
}

/* ---- pairs side by side ---- */

/* What some pairs need is done in this order. A cut moves the faces of all tiles from one buffer to the other, so it waits
 * until all pairs ask for one that have not had their spans added. Lists, which a pair may ask for anew, take their place, so
 * they wait until no pair has tiles. */
const struct {
    ct_ebpi_operation asked;
    bool (*carry_out)(ct_ebpi_run *run);
} OPERATIONS[] = {{CT_EBPI_MEASURE, measure},
                  {CT_EBPI_CUT_EQUALLY, cut_equally},
                  {CT_EBPI_DONE, add_spans},
                  {CT_EBPI_CUT, cut},
                  {CT_EBPI_LIST, list_faces}};

/* Chooses the pairs that ask for this. */
void choose(ct_ebpi_run *run, ct_ebpi_operation asked) {
    run->n_chosen = 0;
    for (uint64_t i = 0; i < run->n; i++)
        if (!run->pairs[i].is_finished && run->pairs[i].refinement.asked == asked)
            run->chosen[run->n_chosen++] = &run->pairs[i];
}

/* What the chosen pairs need next. False: one has failed, or a group's are cut into too many tiles. */
bool go_on(const ct_ebpi_run *run) {
    bool ok = true;
    uint64_t n_tiles = 0;
    run->need->what = "tiles, on the host";
    for (uint64_t i = 0; i < run->n_chosen && ok; i++) {
        ct_ebpi_refined *pair = run->chosen[i];
        const ct_working before = ct_work_for(pair->step->cancel, pair->body[0]->id, pair->body[1]->id);
        ct_enter_phase("casting rays");
        ok = !ct_is_cancelled() && ct_ebpi_next(&pair->refinement) != CT_EBPI_FAILED;
        ct_work_back(before);
        n_tiles += pair->refinement.asked == CT_EBPI_CUT ? pair->refinement.n_parts : 0;
        ok = ok && (n_tiles <= GROUP_TILES || run->n == 1);
    }
    return ok;
}

} // namespace

bool ct_ebpi_refine_side_by_side(ct_ebpi_run *run) {
    choose(run, CT_EBPI_BEGIN);
    if (!go_on(run)) return false;
    for (size_t i = 0; i < sizeof OPERATIONS / sizeof *OPERATIONS;) {
        choose(run, OPERATIONS[i].asked);
        if (!run->n_chosen) {
            i++;
            continue;
        }
        if (!OPERATIONS[i].carry_out(run)) return false;
        if (OPERATIONS[i].asked != CT_EBPI_DONE && !go_on(run)) return false;
        i = 0;
    }
    return true;
}
