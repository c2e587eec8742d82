/* refine_cuda.cu - the method EBPI: the host drives the passes of each pair (refine.h), the device does what goes over
 * faces and tiles (ebpi_cuda.cuh). Between the two the batch waits for the host. Pairs follow each other; their
 * gradients' sums stay on the device for the answer's stage, which is that of LDI. */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/method/device_cuda.cuh"
#include "gpu/methods/ebpi/ebpi_cuda.cuh"

extern "C" {
#include "gpu/contact/turned.h"
#include "gpu/mesh/adjacency.h"
#include "gpu/mesh/strays.h"
#include "gpu/methods/ebpi/turned_views.h"
}

namespace {

/* Tiles are measured in batches that need no more memory than this, or one by one. */
enum : uint64_t { MEASURE_BYTES = (uint64_t)1 << 28 };

/* How a step ended. */
struct step_totals {
    uint64_t rays;
    uint32_t passes, n_pairs, n_met;
    ct_ended ended;
};

/* What the method has in a workspace. */
struct ebpi_scratch {
    ct_ebpi_memory *memory;
    ct_host_list totals;       /* step_totals of each step */
    ct_host_list tiles;        /* ct_ray_tile: those of each candidate whose step wants them, */
    ct_host_list first_tile;   /* and where they begin, uint64_t: one more than there are candidates */
    ct_host_list turned_views; /* ct_turned_views of each candidate; none: no views are turned */
    ct_gpu_buffer coords, counts, faces[2], tables, scratch, errors, turned;
    ct_gpu_pinned host;
};

ebpi_scratch *scratch_of(const ct_workspace *workspace) {
    return (ebpi_scratch *)workspace->room[CT_METHOD_EBPI].scratch;
}

/* A pair that is refined. */
struct ebpi_run {
    ct_ebpi_refinement refinement; /* the first: operations get it */
    ct_device *device;
    ct_workspace *workspace;
    ebpi_scratch *scratch;
    ct_gpu_need *need;
    ct_ebpi_pair_tables pair;
    const ct_turned_views *turned; /* of the pair, on the host; NULL: no views of the batch are turned */
    int current;                   /* which of run->scratch->faces has the tiles' faces */
};

/* ---- memory ---- */

bool reserve(const ebpi_run *run, ct_gpu_buffer *buffer, uint64_t bytes, const char *what) {
    run->need->what = what;
    run->need->bytes = bytes;
    return ct_gpu_reserve(run->device, run->workspace, buffer, bytes);
}

/* Its content is lost if it grows. */
char *reserve_host(const ebpi_run *run, uint64_t bytes) {
    run->need->what = "tiles, on the host";
    run->need->bytes = bytes;
    return ct_gpu_reserve_pinned(run->device, run->workspace, &run->scratch->host, bytes)
               ? (char *)run->scratch->host.host
               : NULL;
}

bool copy_in(const ebpi_run *run, void *to, const void *from, uint64_t bytes) {
    return !bytes || ct_gpu_copy_in(run->device, run->workspace, to, from, bytes, "copying tiles");
}

bool copy_out(const ebpi_run *run, void *to, const void *from, uint64_t bytes) {
    return !bytes || ct_gpu_copy_out(run->device, run->workspace, to, from, bytes, "copying tiles");
}

bool clear(const ebpi_run *run, void *memory, uint64_t bytes) {
    return !bytes ||
           ct_gpu_ok(run->device, cudaMemsetAsync(memory, 0, bytes, run->workspace->stream), "clearing tiles");
}

bool wait(const ebpi_run *run, const char *what) {
    return ct_gpu_wait(run->device, run->workspace, what);
}

/* Lays tables out one after the other, each at a multiple of 16 bytes. */
struct layout {
    uint64_t end;
    uint64_t add(uint64_t bytes) {
        const uint64_t first = end;
        end += (bytes + 15) / 16 * 16;
        return first;
    }
};

/* ---- adjacency ---- */

/* The opposite half-edges of a body's mesh, on the device. NULL: no memory, or the device is lost. */
const uint32_t (*find_opposite(const ebpi_run *run, const ct_body *body))[3] {
    ct_device *device = run->device;
    ct_guard guard(device);
    ct_mesh_part *part = &body->resident->mesh->part[CT_METHOD_EBPI][0];
    if (part->data) return (const uint32_t(*)[3])part->data;
    run->need->what = "the adjacency of a mesh";
    run->need->bytes = body->resident->n_triangles * sizeof(uint32_t[3]);
    const ct_adjacency *adjacency = ct_mesh_adjacency(body->mesh, NULL);
    if (!adjacency) return NULL;
    void *memory = ct_gpu_alloc(device, run->need->bytes, CT_MEMORY_MESHES, run->workspace);
    if (!memory) return NULL;
    device->uploaded += run->need->bytes;
    if (!ct_gpu_ok(
            device,
            cudaMemcpyAsync(memory, adjacency->opposite, run->need->bytes, cudaMemcpyHostToDevice, device->setup),
            "copying an adjacency") ||
        !ct_gpu_ok(device, cudaStreamSynchronize(device->setup), "copying an adjacency")) {
        ct_gpu_free(device, memory, run->need->bytes, CT_MEMORY_MESHES);
        return NULL;
    }
    part->data = memory;
    part->bytes = run->need->bytes;
    return (const uint32_t(*)[3])memory;
}

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

/* ct_ebpi_operations.list */
bool list_faces(ct_ebpi_refinement *of) {
    const ct_trace_range range("ebpi lists");
    ebpi_run *run = (ebpi_run *)of;
    ct_workspace *workspace = run->workspace;
    ct_ebpi_list_tables tables = {};
    for (int w = 0; w < 3; w++) {
        const uint64_t pixels = count_pixels(&of->view[w]);
        tables.first_pixel[w] = tables.n_pixels;
        tables.n_pixels += pixels;
        of->view[w].parts[0] = 1; /* as ct_ebpi_is_under_both reads the places */
        of->view[w].first = (uint32_t *)ct_ebpi_memory_alloc(run->scratch->memory, (pixels + 1) * sizeof(uint32_t));
        of->view[w].next[0] = (uint32_t *)ct_ebpi_memory_alloc(run->scratch->memory, pixels * sizeof(uint32_t));
        if (!of->view[w].first || !of->view[w].next[0]) return false;
        run->pair.view[w] = of->view[w];
    }
    const uint64_t moved_bytes = 4 * sizeof(uint64_t), bytes = moved_bytes + 2 * tables.n_pixels * sizeof(uint32_t);
    const uint64_t vertices = (uint64_t)run->pair.n_vertices[0] + run->pair.n_vertices[1];
    char *host = reserve_host(run, bytes);
    if (!host || !reserve(run, &run->scratch->coords, vertices * sizeof(int32_t[4]), "vertices") ||
        !reserve(run, &run->scratch->counts, bytes, "pixels"))
        return false;
    run->pair.coords[0] = (int32_t(*)[4])run->scratch->coords.data;
    run->pair.coords[1] = run->pair.coords[0] + run->pair.n_vertices[0];
    (ct_ebpi_pair_tables &)tables = run->pair;
    tables.moved = (uint64_t *)run->scratch->counts.data;
    tables.count = (uint32_t *)(tables.moved + 4);
    if (!clear(run, run->scratch->counts.data, bytes)) return false;
    run->device->launches += ct_cuda_snap_ebpi(
        &tables, ct_gpu_grid_of(run->device, (uint64_t)tables.n_vertices[0] + tables.n_vertices[1]), workspace->stream);
    run->device->launches += ct_cuda_count_faces(
        &tables, ct_gpu_grid_of(run->device, (uint64_t)tables.n_triangles[0] + tables.n_triangles[1]),
        workspace->stream);
    if (!copy_out(run, host, run->scratch->counts.data, bytes) || !wait(run, "counting faces")) return false;
    of->moved = find_moved(of->window, (const uint64_t *)host);
    uint32_t *counts = (uint32_t *)(host + moved_bytes);
    uint64_t n = 0, first[3];
    for (int w = 0; w < 3; w++) {
        first[w] = n;
        uint32_t *of_view = counts + tables.first_pixel[w];
        const uint64_t n_view = place_faces(&of->view[w], of_view, of_view + tables.n_pixels);
        if (n_view > UINT32_MAX) {
            run->need->what = "faces over pixels";
            run->need->bytes = n_view * sizeof(uint32_t);
            return false;
        }
        n += n_view;
    }
    run->current = 0;
    if (!reserve(run, &run->scratch->faces[0], n * sizeof(uint32_t), "faces over pixels")) return false;
    for (int w = 0; w < 3; w++)
        of->view[w].faces = tables.faces[w] = (uint32_t *)run->scratch->faces[0].data + first[w];
    if (!copy_in(run, tables.count, counts, 2 * tables.n_pixels * sizeof(uint32_t))) return false;
    run->device->launches += ct_cuda_write_faces(
        &tables, ct_gpu_grid_of(run->device, (uint64_t)tables.n_triangles[0] + tables.n_triangles[1]),
        workspace->stream);
    return wait(run, "listing faces");
}

/* ---- measuring ---- */

/* Measures tiles in one launch; memory_of: of each. polynomials: NULL, or where they go. */
bool measure_batch(ebpi_run *run, ct_ebpi_tile *const *tiles, uint64_t n, ct_ebpi_polynomial *polynomials) {
    ct_workspace *workspace = run->workspace;
    layout at = {0};
    uint64_t scratch = 0;
    const uint64_t tiles_at = at.add(n * sizeof(ct_ebpi_tile)), memory_at = at.add(n * sizeof(uint64_t));
    const uint64_t polynomials_at = at.add(polynomials ? n * sizeof *polynomials : 0);
    char *host = reserve_host(run, at.end);
    if (!host || !reserve(run, &run->scratch->tables, at.end, "tiles")) return false;
    for (uint64_t i = 0; i < n; i++) {
        ((ct_ebpi_tile *)(host + tiles_at))[i] = *tiles[i];
        ((uint64_t *)(host + memory_at))[i] = scratch;
        scratch += ct_ebpi_measure_bytes(tiles[i]->n_faces);
    }
    if (!reserve(run, &run->scratch->scratch, scratch, "faces over tiles")) return false;
    char *device = (char *)run->scratch->tables.data;
    ct_ebpi_measure_tables tables = {};
    (ct_ebpi_pair_tables &)tables = run->pair;
    tables.tiles = (ct_ebpi_tile *)(device + tiles_at);
    tables.n = n;
    tables.memory = (char *)run->scratch->scratch.data;
    tables.memory_of = (const uint64_t *)(device + memory_at);
    tables.polynomials = polynomials ? (ct_ebpi_polynomial *)(device + polynomials_at) : NULL;
    tables.is_strict = run->refinement.is_strict;
    if (!copy_in(run, device, host, polynomials_at)) return false;
    run->device->launches +=
        ct_cuda_measure_tiles(&tables, ct_gpu_grid_of(run->device, CT_EBPI_LANES * tables.n), workspace->stream);
    if (!copy_out(run, host + tiles_at, tables.tiles, n * sizeof(ct_ebpi_tile)) ||
        (polynomials && !copy_out(run, host + polynomials_at, tables.polynomials, n * sizeof *polynomials)) ||
        !wait(run, "measuring tiles"))
        return false;
    for (uint64_t i = 0; i < n; i++) *tiles[i] = ((const ct_ebpi_tile *)(host + tiles_at))[i];
    if (polynomials) memcpy(polynomials, host + polynomials_at, n * sizeof *polynomials);
    return true;
}

/* Measures tiles; polynomials: NULL, or where they go. */
bool measure_listed(ebpi_run *run, ct_ebpi_tile *const *tiles, uint64_t n, ct_ebpi_polynomial *polynomials) {
    for (uint64_t first = 0, end; first < n; first = end) {
        uint64_t bytes = 0;
        for (end = first; end < n; end++) {
            bytes += ct_ebpi_measure_bytes(tiles[end]->n_faces);
            if (bytes > MEASURE_BYTES && end > first) break;
        }
        if (!measure_batch(run, tiles + first, end - first, polynomials ? polynomials + first : NULL)) return false;
    }
    return true;
}

/* The tiles for which is_wanted holds. NULL: no memory. The caller frees them. */
template <class Wanted> ct_ebpi_tile **list_tiles(ebpi_run *run, Wanted is_wanted, uint64_t *n) {
    ct_ebpi_refinement *of = &run->refinement;
    run->need->what = "a list of tiles, on the host";
    run->need->bytes = (of->n + (uint64_t)1) * sizeof(ct_ebpi_tile *);
    ct_ebpi_tile **tiles = (ct_ebpi_tile **)malloc(run->need->bytes);
    *n = 0;
    for (uint32_t i = 0; i < of->n && tiles; i++)
        if (is_wanted(&of->tiles[i])) tiles[(*n)++] = &of->tiles[i];
    return tiles;
}

bool measure(ct_ebpi_refinement *of) {
    const ct_trace_range range("ebpi measure");
    ebpi_run *run = (ebpi_run *)of;
    uint64_t n;
    ct_ebpi_tile **tiles = list_tiles(
        run, [](const ct_ebpi_tile *tile) { return tile->bound == CT_EBPI_UNMEASURED; }, &n);
    const bool ok = tiles && measure_listed(run, tiles, n, NULL);
    free(tiles);
    return ok;
}

/* Only a tile with a bound has a polynomial to read. */
bool cut_equally(ct_ebpi_refinement *of) {
    const ct_trace_range range("ebpi measure");
    ebpi_run *run = (ebpi_run *)of;
    uint64_t n, next = 0;
    ct_ebpi_tile **tiles = list_tiles(
        run, [](const ct_ebpi_tile *tile) { return tile->bound > 0; }, &n);
    ct_ebpi_polynomial *polynomials = (ct_ebpi_polynomial *)malloc((n + 1) * sizeof *polynomials);
    const bool ok = tiles && polynomials && measure_listed(run, tiles, n, polynomials);
    for (uint32_t i = 0; i < of->n && ok; i++) {
        const ct_ebpi_tile *tile = &of->tiles[i];
        const ct_ebpi_polynomial none = {};
        const ct_ebpi_polynomial *polynomial = next < n && tiles[next] == tile ? &polynomials[next++] : &none;
        of->cut[i] = ct_ebpi_equal_cut(&of->view[tile->view], &of->share[tile->view], tile, polynomial);
    }
    free(tiles);
    free(polynomials);
    return ok;
}

/* ---- cuts ---- */

/* Where all lies that a cut needs, on the host and on the device. */
struct cut_layout {
    uint64_t n_parts, n_bits;
    uint64_t tiles, cut, first_part, first_face, sent, count, faces, second, end;
};

cut_layout lay_out_cut(const ct_ebpi_refinement *of) {
    cut_layout to = {};
    for (uint32_t i = 0; i < of->n; i++) {
        to.n_parts += ct_ebpi_count_parts(ct_ebpi_cut_at_once(of->cut[i]));
        to.n_bits += of->tiles[i].n_faces;
    }
    layout at = {0};
    to.tiles = at.add(of->n * sizeof(ct_ebpi_tile));
    to.cut = at.add(of->n * sizeof(ct_ebpi_cut));
    to.first_part = at.add(of->n * sizeof(uint64_t));
    to.first_face = at.add(of->n * sizeof(uint64_t));
    to.sent = at.end;
    to.count = at.add(to.n_parts * sizeof(uint32_t[2]));
    to.faces = at.add(to.n_parts * sizeof(uint32_t *));
    to.second = at.add(to.n_parts * sizeof(uint32_t));
    to.end = at.end;
    return to;
}

/* Makes the parts, and the tables that the first launch reads. */
void make_parts(const ct_ebpi_refinement *of, const cut_layout *at, char *host, ct_ebpi_tile *to) {
    uint64_t part = 0, face = 0;
    for (uint32_t i = 0; i < of->n; i++) {
        const ct_ebpi_cut cut = ct_ebpi_cut_at_once(of->cut[i]);
        ((ct_ebpi_tile *)(host + at->tiles))[i] = of->tiles[i];
        ((ct_ebpi_cut *)(host + at->cut))[i] = cut;
        ((uint64_t *)(host + at->first_part))[i] = part;
        ((uint64_t *)(host + at->first_face))[i] = face;
        if (ct_ebpi_count_parts(cut) == 1)
            to[part] = of->tiles[i];
        else
            ct_ebpi_make_parts(&of->tiles[i], of->cut[i], to + part);
        part += ct_ebpi_count_parts(cut);
        face += of->tiles[i].n_faces;
    }
}

/* ct_ebpi_operations.cut: faces go to the other buffer, also those of tiles that stay as they are. */
bool cut(ct_ebpi_refinement *of, ct_ebpi_tile *to) {
    const ct_trace_range range("ebpi cut");
    ebpi_run *run = (ebpi_run *)of;
    ct_workspace *workspace = run->workspace;
    const cut_layout at = lay_out_cut(of);
    char *host = reserve_host(run, at.end);
    if (!host || !reserve(run, &run->scratch->tables, at.end, "tiles") ||
        !reserve(run, &run->scratch->scratch, at.n_bits * sizeof(uint16_t), "faces over tiles"))
        return false;
    make_parts(of, &at, host, to);
    char *device = (char *)run->scratch->tables.data;
    ct_ebpi_cut_tables tables = {};
    (ct_ebpi_pair_tables &)tables = run->pair;
    tables.tiles = (const ct_ebpi_tile *)(device + at.tiles);
    tables.cut = (const ct_ebpi_cut *)(device + at.cut);
    tables.first_part = (const uint64_t *)(device + at.first_part);
    tables.first_face = (const uint64_t *)(device + at.first_face);
    tables.n = of->n;
    tables.covered = (uint16_t *)run->scratch->scratch.data;
    tables.count = (uint32_t(*)[2])(device + at.count);
    tables.faces = (uint32_t **)(device + at.faces);
    tables.second = (uint32_t *)(device + at.second);
    if (!copy_in(run, device, host, at.sent) || !clear(run, tables.count, at.n_parts * sizeof(uint32_t[2])))
        return false;
    run->device->launches +=
        ct_cuda_count_parts(&tables, ct_gpu_grid_of(run->device, CT_EBPI_LANES * tables.n), workspace->stream);
    const uint32_t(*count)[2] = (const uint32_t(*)[2])(host + at.count);
    if (!copy_out(run, host + at.count, tables.count, at.n_parts * sizeof(uint32_t[2])) || !wait(run, "counting faces"))
        return false;
    uint64_t n = 0;
    for (uint64_t p = 0; p < at.n_parts; p++) n += count[p][0] + (uint64_t)count[p][1];
    ct_gpu_buffer *next = &run->scratch->faces[1 - run->current];
    if (!reserve(run, next, n * sizeof(uint32_t), "faces over tiles")) return false;
    uint32_t *faces = (uint32_t *)next->data;
    for (uint64_t p = 0; p < at.n_parts; p++) {
        to[p].faces = ((uint32_t **)(host + at.faces))[p] = faces;
        to[p].n_faces = count[p][0] + count[p][1];
        ((uint32_t *)(host + at.second))[p] = count[p][0];
        faces += to[p].n_faces;
    }
    if (!copy_in(run, device + at.faces, host + at.faces, at.end - at.faces) ||
        !clear(run, tables.count, at.n_parts * sizeof(uint32_t[2])))
        return false;
    run->device->launches +=
        ct_cuda_write_parts(&tables, ct_gpu_grid_of(run->device, CT_EBPI_LANES * tables.n), workspace->stream);
    run->current = 1 - run->current;
    return wait(run, "sharing faces");
}

/* ---- spans ---- */

/* Adds the spans of the last tiles to the candidate's sums. */
bool add_spans(ebpi_run *run, const ct_batch *b, uint64_t candidate, uint64_t step) {
    const ct_trace_range range("ebpi spans");
    ct_workspace *workspace = run->workspace;
    uint64_t n, crossings = 0;
    ct_ebpi_tile **tiles = list_tiles(
        run, [](const ct_ebpi_tile *tile) { return tile->length != 0; }, &n);
    layout at = {0};
    const uint64_t tiles_at = at.add(n * sizeof(ct_ebpi_tile)), first_at = at.add((n + 1) * sizeof(uint64_t));
    char *host = tiles && n ? reserve_host(run, at.end) : NULL;
    bool ok = host;
    for (uint64_t i = 0; i < n && ok; i++) {
        ((ct_ebpi_tile *)(host + tiles_at))[i] = *tiles[i];
        ((uint64_t *)(host + first_at))[i] = crossings;
        crossings += tiles[i]->n_crossed[0] + (uint64_t)tiles[i]->n_crossed[1];
    }
    if (ok) ((uint64_t *)(host + first_at))[n] = crossings;
    const bool has_none = tiles && !n;
    free(tiles);
    if (has_none) return true;
    if (!ok || !reserve(run, &run->scratch->tables, at.end, "tiles") ||
        !reserve(run, &run->scratch->scratch, crossings * sizeof(ct_gpu_fragment), "ray crossings"))
        return false;
    char *device = (char *)run->scratch->tables.data;
    ct_ebpi_span_tables tables = {};
    (ct_answer_tables &)tables = *b;
    tables.of = run->pair;
    tables.tiles = (const ct_ebpi_tile *)(device + tiles_at);
    tables.n_tiles = n;
    tables.first_fragment = (const uint64_t *)(device + first_at);
    tables.crossings = (ct_gpu_fragment *)run->scratch->scratch.data;
    tables.candidate = candidate;
    tables.step = step;
    if (!copy_in(run, device, host, at.end)) return false;
    run->device->launches +=
        ct_cuda_span_tiles(&tables, ct_gpu_grid_of(run->device, tables.n_tiles), workspace->stream);
    return wait(run, "adding spans");
}

/* ---- a pair ---- */

/* Plans the refinement of a pair. False: the step has an error. */
bool plan_run(ebpi_run *run, ct_step *step, const ct_body *const bodies[2], const ct_gpu_plan *plan) {
    static const ct_ebpi_operations operations = {list_faces, measure, cut, cut_equally};
    const ct_scene_settings *settings = &step->scene->settings;
    ct_ebpi_refinement *of = &run->refinement;
    of->operations = &operations;
    of->window = &plan->window;
    of->tolerance = step->tolerance != 0 ? step->tolerance : settings->tolerance;
    of->tolerance_rel = settings->tolerance_rel;
    of->allocation = settings->allocation;
    of->ray_budget = settings->ray_budget ? settings->ray_budget : CT_DEFAULT_RAY_BUDGET;
    of->is_strict = settings->strict;
    ct_error why = {};
    if (!ct_ebpi_check_tolerance(of->tolerance, of->tolerance_rel, of->window, &why)) return true;
    ct_fail(&step->error, why.status, why.field, "bodies %u and %u: %s", bodies[0]->id, bodies[1]->id, why.message);
    return false;
}

bool refine(ebpi_run *run, const ct_body *const bodies[2], const ct_gpu_plan *plan) {
    ct_ebpi_refinement *of = &run->refinement;
    if (!run->scratch->memory) run->scratch->memory = ct_ebpi_memory_new();
    run->need->what = "tiles, on the host";
    if (!run->scratch->memory) return false;
    ct_ebpi_memory_use(run->scratch->memory, of);
    run->pair.window = plan->window;
    for (int k = 0; k < 2; k++) {
        run->pair.body[k] = bodies[k]->resident->body;
        run->pair.triangles[k] = bodies[k]->resident->mesh->triangles;
        run->pair.n_vertices[k] = bodies[k]->resident->n_vertices;
        run->pair.n_triangles[k] = bodies[k]->resident->n_triangles;
        run->pair.opposite[k] = find_opposite(run, bodies[k]);
        if (!run->pair.opposite[k]) return false;
    }
    if (!ct_ebpi_plan_views(of, (double)run->pair.n_triangles[0] + run->pair.n_triangles[1])) return false;
    for (int w = 0; w < 3; w++)
        for (int k = 0; k < 2; k++) of->view[w].initial[k] = plan->initial_winding[k][w];
    return ct_ebpi_refine(of);
}

void add_totals(const ct_ebpi_refinement *of, step_totals *to) {
    to->n_pairs++;
    to->n_met += of->ended == CT_ENDED_COMPLETED;
    to->rays += of->rays;
    if (of->passes > to->passes) to->passes = of->passes;
    if (of->ended > to->ended) to->ended = of->ended;
}

/* Keeps the tiles for the step that wants them. */
bool keep_tiles(const ebpi_run *run) {
    const ct_ebpi_refinement *of = &run->refinement;
    run->need->what = "tiles for pictures, on the host";
    run->need->bytes = of->n * sizeof(ct_ray_tile);
    ct_ray_tile *to = (ct_ray_tile *)ct_host_append(&run->scratch->tiles, of->n, sizeof *to);
    if (!to) return false;
    for (uint32_t i = 0; i < of->n; i++) {
        double part[4][3];
        ct_ebpi_describe_tile(of, &of->tiles[i], &to[i], part);
        for (int k = 0; k < 4 && run->turned; k++) ct_turn_out_of_views(run->turned, part[k]);
        ct_ebpi_set_parts(&to[i], part);
    }
    return true;
}

/* Where the tiles of the next candidate begin. */
bool begin_tiles(ebpi_scratch *scratch) {
    return ct_host_add(&scratch->first_tile, scratch->tiles.n);
}

/* ---- a batch ---- */

/* The batch's pairs and their plans, on the host. */
struct planned {
    uint64_t n;
    ct_gpu_pair *pairs;
    ct_gpu_plan *plans;
    ct_view_error (*errors)[3];
};

/* Waits for the plans and reads them. *is_short: there was no memory for them; the batch runs again. */
bool read_plans(const ebpi_run *run, const ct_batch *b, planned *to, bool *is_short) {
    ct_gpu_counts counts;
    char *host = reserve_host(run, sizeof counts);
    if (!host || !copy_out(run, host, b->counts, sizeof counts) || !wait(run, "planning windows")) return false;
    memcpy(&counts, host, sizeof counts);
    *is_short = ct_gpu_raster_shortage(&counts, &b->capacity) != 0;
    const uint64_t n = to->n = *is_short ? 0 : counts.pairs;
    layout at = {0};
    const uint64_t pairs = at.add(n * sizeof *to->pairs), plans = at.add(n * sizeof *to->plans);
    host = reserve_host(run, at.end);
    to->pairs = (ct_gpu_pair *)malloc(n * sizeof *to->pairs + 1);
    to->plans = (ct_gpu_plan *)malloc(n * sizeof *to->plans + 1);
    to->errors = (ct_view_error(*)[3])calloc(n + 1, sizeof *to->errors);
    if (!host || !to->pairs || !to->plans || !to->errors ||
        !copy_out(run, host + pairs, b->pairs, n * sizeof *to->pairs) ||
        !copy_out(run, host + plans, b->plans, n * sizeof *to->plans) || !wait(run, "copying plans"))
        return false;
    memcpy((void *)to->pairs, host + pairs, n * sizeof *to->pairs);
    memcpy((void *)to->plans, host + plans, n * sizeof *to->plans);
    return true;
}

/* ---- turned views ---- */

/* Reads the bodies as they are on the device; the positions of deformable ones to the host's tables. */
bool read_bodies(const ebpi_run *run, const ct_body *const bodies[2], ct_turned_body to[2], double pose[2][12]) {
    ct_gpu_body state[2];
    char *host = reserve_host(run, sizeof state);
    for (uint64_t k = 0; k < 2; k++)
        if (!host || !copy_out(run, host + k * sizeof *state, bodies[k]->resident->body, sizeof *state)) return false;
    if (!wait(run, "copying bodies")) return false;
    memcpy((void *)state, host, sizeof state);
    layout at = {0};
    uint64_t positions_at[2];
    for (int k = 0; k < 2; k++) positions_at[k] = at.add(state[k].rigid ? 0 : state[k].n_vertices * sizeof(float[3]));
    host = reserve_host(run, at.end + 1);
    if (!host) return false;
    for (int k = 0; k < 2; k++) {
        const ct_gpu_body *body = &state[k];
        memcpy(pose[k], body->pose, sizeof body->pose);
        to[k].positions = body->rigid ? ct_mesh_rest(bodies[k]->mesh) : (const float *)(host + positions_at[k]);
        to[k].pose = body->rigid ? pose[k] : NULL;
        to[k].triangles = ct_mesh_triangles(bodies[k]->mesh);
        to[k].n_vertices = body->n_vertices;
        to[k].n_triangles = body->n_triangles;
        to[k].box = ct_gpu_box(body);
        if (!body->rigid &&
            !copy_out(run, host + positions_at[k], body->positions, body->n_vertices * sizeof(float[3])))
            return false;
    }
    return wait(run, "copying positions");
}

/* Turns the views of a pair, and plans its window anew, where that pays. */
bool turn_pair(const ebpi_run *run, const ct_body *const bodies[2], ct_gpu_plan *plan, ct_turned_views *views) {
    ct_turned_body of[2];
    double pose[2][12];
    if (!read_bodies(run, bodies, of, pose)) return false;
    ct_turn_views(of, &ct_snap_cpu_base, &plan->part, &plan->window, views);
    for (int k = 0; k < 2 && views->is_turned; k++)
        for (int w = 0; w < 3; w++)
            plan->initial_winding[k][w] = (uint8_t)ct_find_initial_winding(&views->box[k], &views->box[1 - k], w);
    return true;
}

/* The new plans, and the axes, for the device. */
bool send_turned(const ebpi_run *run, ct_batch *b, const planned *of) {
    layout at = {0};
    const uint64_t bytes = of->n * sizeof *run->turned, plan_bytes = of->n * sizeof *of->plans;
    const uint64_t turned = at.add(bytes), plans = at.add(plan_bytes);
    char *host = reserve_host(run, at.end);
    if (!host || !reserve(run, &run->scratch->turned, bytes, "turned views")) return false;
    memcpy(host + turned, run->turned, bytes);
    memcpy(host + plans, (const void *)of->plans, plan_bytes);
    b->turned = (const ct_turned_views *)run->scratch->turned.data;
    return copy_in(run, run->scratch->turned.data, host + turned, bytes) &&
           copy_in(run, b->plans, host + plans, plan_bytes) && wait(run, "turning views");
}

/* Turns the views of those pairs whose scene asks for it. */
bool turn_planned(ebpi_run *run, ct_batch *b, const planned *of) {
    const ct_trace_range range("ebpi axes");
    ct_step **steps = (ct_step **)run->workspace->members.data;
    const ct_gpu_step *sent = (const ct_gpu_step *)run->workspace->steps.data;
    bool is_asked = false;
    for (uint64_t i = 0; i < b->n_steps; i++) is_asked = is_asked || steps[i]->scene->settings.optimize_directions;
    if (!is_asked || !of->n) return true;
    run->need->what = "turned views, on the host";
    run->need->bytes = of->n * sizeof(ct_turned_views);
    ct_turned_views *turned =
        (ct_turned_views *)ct_host_append(&run->scratch->turned_views, of->n, sizeof(ct_turned_views));
    if (!turned) return false;
    memset((void *)turned, 0, of->n * sizeof *turned);
    run->turned = turned;
    for (uint64_t p = 0, c = 0; p < of->n; p++) {
        if (of->plans[p].status) continue; /* it has no candidate */
        const ct_step *step = steps[of->pairs[p].step];
        ct_turned_views *views = &turned[c++];
        if (step->error.status || !step->scene->settings.optimize_directions) continue;
        const ct_body *bodies[2];
        for (int k = 0; k < 2; k++)
            bodies[k] = step->scene->bodies[of->pairs[p].body[k] - sent[of->pairs[p].step].first_body];
        if (!turn_pair(run, bodies, &of->plans[p], views)) return false;
    }
    return send_turned(run, b, of);
}

/* Refines the pairs that have a window. */
bool refine_planned(const ebpi_run *like, const ct_batch *b, const planned *of, step_totals *totals) {
    ct_step **steps = (ct_step **)like->workspace->members.data;
    const ct_gpu_step *sent = (const ct_gpu_step *)like->workspace->steps.data;
    uint64_t candidate = 0;
    for (uint64_t p = 0; p < of->n; p++) {
        if (of->plans[p].status) continue; /* it has no candidate */
        const uint64_t c = candidate++;
        if (!begin_tiles(like->scratch)) return false;
        const uint32_t s = of->pairs[p].step;
        ct_step *step = steps[s];
        const ct_body *bodies[2];
        for (int k = 0; k < 2; k++) bodies[k] = step->scene->bodies[of->pairs[p].body[k] - sent[s].first_body];
        for (int w = 0; w < 3; w++) of->errors[c][w].bound = 1; /* where it is not refined: no volume */
        ebpi_run run = *like;
        if (like->turned) {
            run.turned = like->turned + c;
            run.pair.turned = run.turned->is_turned ? b->turned + c : NULL;
        }
        if (step->error.status || !plan_run(&run, step, bodies, &of->plans[p])) continue;
        const ct_working before = ct_work_for(step->cancel, bodies[0]->id, bodies[1]->id);
        ct_enter_phase("casting rays");
        const bool ok = !ct_is_cancelled() && refine(&run, bodies, &of->plans[p]) && add_spans(&run, b, c, s);
        ct_work_back(before);
        if (!ok) return false;
        double bound[3], deviation[3];
        ct_ebpi_view_errors(&run.refinement, bound, deviation);
        for (int w = 0; w < 3; w++) {
            of->errors[c][w].bound = bound[w];
            of->errors[c][w].deviation = deviation[w];
        }
        add_totals(&run.refinement, &totals[s]);
        if (step->want & CT_WANT_TILES && !keep_tiles(&run)) return false;
    }
    return begin_tiles(like->scratch);
}

/* The error bounds of the pairs' views, for the answer's stage. */
bool send_errors(const ebpi_run *run, const planned *of) {
    const uint64_t bytes = (of->n + 1) * sizeof *of->errors;
    char *host = reserve_host(run, bytes);
    if (!host || !reserve(run, &run->scratch->errors, bytes, "pairs")) return false;
    memcpy(host, of->errors, bytes);
    return copy_in(run, run->scratch->errors.data, host, bytes);
}

/* Once the windows are planned: waits for them, refines the tiles of each pair, launches what adds the spans of their
 * rays, and sets b->view_errors and b->turned. After a shortage it does nothing. A step with a pair that cannot be
 * refined gets its error. False: no memory for what *need says, or the device is lost. */
bool refine_pairs(ct_device *device, ct_workspace *workspace, ct_batch *b, ct_gpu_need *need) {
    ebpi_run run = {};
    run.device = device;
    run.workspace = workspace;
    run.scratch = scratch_of(workspace);
    run.need = need;
    run.scratch->totals.n = run.scratch->tiles.n = run.scratch->first_tile.n = 0;
    run.scratch->turned_views.n = 0;
    step_totals *totals = (step_totals *)ct_host_append(&run.scratch->totals, b->n_steps, sizeof *totals);
    need->what = "pairs, on the host";
    if (!totals) return false;
    memset(totals, 0, b->n_steps * sizeof *totals);
    planned of = {};
    bool is_short = false;
    const bool ok =
        read_plans(&run, b, &of, &is_short) &&
        (is_short || (turn_planned(&run, b, &of) && refine_planned(&run, b, &of, totals) && send_errors(&run, &of)));
    if (ok && !is_short) b->view_errors = (const ct_view_error *)run.scratch->errors.data;
    free(of.pairs);
    free(of.plans);
    free(of.errors);
    return ok;
}

/* ---- the method ---- */

bool fill_step(ct_workspace *, const ct_step *, ct_gpu_step *to) {
    for (uint32_t &n : to->resolution) n = CT_EBPI_PITCHES;
    to->pixel_size = 0; /* a scene that chooses for itself may have one for its other methods */
    return true;
}

/* Where it lacks memory the answer is launched all the same, and of no use. */
bool launch(ct_device *device, ct_workspace *workspace, ct_batch *b, ct_gpu_need *need) {
    const ct_trace_range range("ebpi");
    if (!ct_gpu_launch_windows(device, workspace, b)) return false;
    b->lacks_memory = !refine_pairs(device, workspace, b, need);
    return !device->lost && ct_gpu_end_phase(device, workspace, CT_PHASE_RASTER) &&
           ct_gpu_end_phase(device, workspace, CT_PHASE_SPAN) && ct_gpu_launch_answer(device, workspace, b);
}

/* ---- results ---- */

/* Copies the tiles of a step's contacts. False: no memory. */
bool add_tiles(const ebpi_scratch *scratch, const ct_gpu_contact *contacts, ct_result *r) {
    const uint64_t *first = (const uint64_t *)scratch->first_tile.data;
    const ct_ray_tile *tiles = (const ct_ray_tile *)scratch->tiles.data;
    uint64_t n = 0;
    for (size_t i = 0; i < r->n_contacts; i++) {
        const uint64_t *of = &first[contacts[i].candidate];
        r->contacts[i].first_tile = n;
        n += r->contacts[i].n_tiles = of[1] - of[0];
    }
    r->tiles = n ? (ct_ray_tile *)malloc(n * sizeof *r->tiles) : NULL;
    if (n && !r->tiles) return false;
    for (size_t i = 0; i < r->n_contacts && n; i++)
        memcpy(r->tiles + r->contacts[i].first_tile, tiles + first[contacts[i].candidate],
               r->contacts[i].n_tiles * sizeof *tiles);
    r->n_tiles = n;
    return true;
}

/* Turns the contacts whose views are turned back to the world's axes. */
void turn_back(const ebpi_scratch *scratch, const ct_gpu_contact *contacts, ct_result *r) {
    const ct_turned_views *turned = (const ct_turned_views *)scratch->turned_views.data;
    for (size_t i = 0; i < r->n_contacts && scratch->turned_views.n && r->want & CT_WANT_ENTRIES; i++) {
        ct_contact *c = &r->contacts[i];
        if (turned[contacts[i].candidate].is_turned)
            ct_turn_back_contact(&turned[contacts[i].candidate], c, r->gradient ? r->gradient + 3 * c->first[0] : NULL,
                                 r->forces ? r->forces + 3 * c->first[0] : NULL);
    }
}

bool finish_result(const ct_workspace *workspace, const ct_gpu_counts *, ct_step *step, uint64_t index,
                   const ct_gpu_step *, ct_gpu_contact *contacts, ct_result *r) {
    const ebpi_scratch *scratch = scratch_of(workspace);
    const step_totals *totals = (const step_totals *)scratch->totals.data + index;
    r->rays = totals->rays;
    r->passes = totals->passes;
    r->ended = totals->ended;
    r->quality = totals->n_pairs ? (double)totals->n_met / totals->n_pairs : 1;
    if (step->want & CT_WANT_TILES && !add_tiles(scratch, contacts, r)) {
        ct_fail(&step->error, CT_OUT_OF_MEMORY, "result", "no memory for the tiles of %zu contacts", r->n_contacts);
        return false;
    }
    turn_back(scratch, contacts, r);
    return true;
}

void destroy_scratch(void *scratch) {
    ct_ebpi_memory_free(&((ebpi_scratch *)scratch)->memory);
    ct_gpu_destroy_scratch<ebpi_scratch>(scratch);
}

const ct_kernel_entry *const KERNELS[] = {ct_ebpi_list_kernels, ct_ebpi_tile_kernels, ct_ebpi_span_kernels, NULL};

ct_gpu_method describe(void) {
    ct_gpu_method method = {};
    method.method = CT_METHOD_EBPI;
    method.kernels = KERNELS;
    method.scratch_bytes = sizeof(ebpi_scratch);
    method.destroy_scratch = destroy_scratch;
    method.casts_tiles = true;
    method.remedy = "use a lower ray_budget or a larger tolerance";
    method.fill_step = fill_step;
    method.launch = launch;
    method.finish_result = finish_result;
    return method;
}

} // namespace

extern const ct_gpu_method ct_gpu_ebpi_method = describe();
