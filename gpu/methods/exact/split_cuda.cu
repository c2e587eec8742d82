/* split_cuda.cu - patches of the method `exact`: copies to the host what the search for pieces needs
 * (exact/pieces_k.h), and to the device the pairs that it splits. Between the two the batch waits for the host,
 * which no batch without patches does. */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/methods/exact/drive_cuda.cuh"

namespace {

/* A batch whose pairs are split. */
struct splitter {
    ct_device *device;
    ct_workspace *workspace;
    ct_gpu_exact_scratch *scratch;
    ct_exact_tables *b;
    ct_gpu_need *need;
    ct_gpu_counts counts; /* as the pairs were found */
    ct_found_batch found;
    ct_split split;
    uint64_t pair; /* that is searched */
};

enum : uint64_t { FEW_HITS = 4096 };

/* ---- copies ---- */

bool wait(const splitter *s, const char *what) {
    return ct_gpu_wait(s->device, s->workspace, what);
}

bool copy_out(const splitter *s, void *to, const void *from, uint64_t bytes) {
    return ct_gpu_copy_out(s->device, s->workspace, to, from, bytes, "copying what patches need");
}

bool copy_in(const splitter *s, void *to, const void *from, uint64_t bytes) {
    return ct_gpu_copy_in(s->device, s->workspace, to, from, bytes, "copying pieces");
}

bool reserve(const splitter *s, ct_gpu_buffer *buffer, uint64_t bytes, const char *what) {
    s->need->what = what;
    s->need->bytes = bytes;
    return ct_gpu_reserve(s->device, s->workspace, buffer, bytes);
}

bool reserve_pinned(const splitter *s, ct_gpu_pinned *pinned, uint64_t bytes, const char *what) {
    s->need->what = what;
    s->need->bytes = bytes;
    return ct_gpu_reserve_pinned(s->device, s->workspace, pinned, bytes);
}

bool read_counts(splitter *s) {
    return reserve_pinned(s, &s->scratch->ray_hits_host, sizeof s->counts + FEW_HITS * sizeof(ct_met_triangle),
                          "counts on the host") &&
           copy_out(s, s->scratch->ray_hits_host.host, s->b->counts, sizeof s->counts) &&
           wait(s, "finding crossings") && (memcpy(&s->counts, s->scratch->ray_hits_host.host, sizeof s->counts), true);
}

/* ---- what was found ---- */

/* Where tables lie in one block of memory; the device's and the host's are alike. */
struct found_layout {
    uint64_t pairs, crossed, crossings, points, windings, end;
};

found_layout lay_out_found(const ct_gpu_counts *n) {
    found_layout at;
    at.points = 0; /* rows of 32 bytes */
    at.pairs = at.points + n->windings / 2 * sizeof(double[4]);
    at.crossed = at.pairs + n->pairs * sizeof(ct_found_pair);
    at.crossings = at.crossed + n->crossed * sizeof(ct_found_crossed);
    at.windings = at.crossings + n->crossings * sizeof(ct_found_crossing);
    at.end = at.windings + n->windings * sizeof(int32_t);
    return at;
}

/* Lists the units inside. Their number is known afterwards only. */
bool describe_units(splitter *s) {
    ct_exact_tables *b = s->b;
    for (;;) {
        b->pieces.units = (ct_found_unit *)s->scratch->found_units.data;
        b->pieces.facings = (ct_piece_facing(*)[CT_PIECE_FACINGS])s->scratch->found_facings.data;
        s->device->launches += ct_cuda_describe_units(b, s->workspace->grid, s->workspace->stream);
        if (!read_counts(s)) return false;
        if (s->counts.found_units <= b->capacity.found_units && s->counts.found_facings <= b->capacity.found_facings)
            return true;
        const uint64_t units = s->counts.found_units + s->counts.found_units / 8 + 16,
                       facings = s->counts.found_facings + s->counts.found_facings / 8 + 16;
        if (!reserve(s, &s->scratch->found_units, units * sizeof(ct_found_unit), "units inside") ||
            !reserve(s, &s->scratch->found_facings, facings * sizeof(ct_piece_facing[CT_PIECE_FACINGS]),
                     "units inside"))
            return false;
        b->capacity.found_units = units;
        b->capacity.found_facings = facings;
        if (!ct_gpu_ok(s->device,
                       cudaMemsetAsync(&b->counts->found_units, 0, 2 * sizeof(uint64_t), s->workspace->stream),
                       "clearing counts"))
            return false;
    }
}

bool copy_found(splitter *s) {
    ct_workspace *workspace = s->workspace;
    ct_exact_tables *b = s->b;
    const found_layout at = lay_out_found(&s->counts);
    if (!reserve(s, &s->scratch->found, at.windings, "what patches need")) return false;
    char *on_device = (char *)s->scratch->found.data;
    b->pieces.points = (double(*)[4])(on_device + at.points);
    b->pieces.pairs = (ct_found_pair *)(on_device + at.pairs);
    b->pieces.crossed = (ct_found_crossed *)(on_device + at.crossed);
    b->pieces.crossings = (ct_found_crossing *)(on_device + at.crossings);
    s->device->launches += ct_cuda_describe_pairs(b, workspace->grid, workspace->stream);
    if (!describe_units(s)) return false;
    const uint64_t units = (at.end + 7) / 8 * 8, facings = units + s->counts.found_units * sizeof(ct_found_unit),
                   end = facings + s->counts.found_facings * sizeof(ct_piece_facing[CT_PIECE_FACINGS]);
    if (!reserve_pinned(s, &s->scratch->found_host, end, "what patches need, on the host")) return false;
    char *host = (char *)s->scratch->found_host.host;
    if (!copy_out(s, host, on_device, at.windings) ||
        !copy_out(s, host + at.windings, b->windings, at.end - at.windings) ||
        !copy_out(s, host + units, b->pieces.units, facings - units) ||
        !copy_out(s, host + facings, b->pieces.facings, end - facings) || !wait(s, "copying what patches need"))
        return false;
    s->found.pairs = (const ct_found_pair *)(host + at.pairs);
    s->found.crossings = (const ct_found_crossing *)(host + at.crossings);
    s->found.points = (double(*)[4])(host + at.points);
    s->found.windings = (int32_t *)(host + at.windings);
    s->found.units = (ct_found_unit *)(host + units);
    s->found.facings = (const ct_piece_facing(*)[CT_PIECE_FACINGS])(host + facings);
    s->found.n_pairs = s->counts.pairs;
    s->found.n_units = s->counts.found_units;
    /* Crossed clusters of pairs without patches are not described. */
    ct_found_crossed *crossed = (ct_found_crossed *)(host + at.crossed);
    for (uint64_t i = 0; i < s->counts.crossed; i++)
        if (crossed[i].side != CT_GPU_NONE) crossed[s->found.n_crossed++] = crossed[i];
    s->found.crossed = crossed;
    return true;
}

/* ---- rays ---- */

/* As ct_find_hits_fn: the device looks at all clusters of a body. Few pairs have cavities or ties. */
bool find_hits(void *argument, int k, const double p[3], double far,
               double (*report)(void *to, const ct_met_triangle *hit), void *to) {
    (void)far; /* all hits are there at once */
    splitter *s = (splitter *)argument;
    ct_workspace *workspace = s->workspace;
    ct_exact_tables *b = s->b;
    if (ct_is_cancelled()) return false;
    b->pieces.ray_side = 2 * s->pair + (uint64_t)k;
    memcpy(b->pieces.ray_from, p, sizeof b->pieces.ray_from);
    for (;;) {
        b->pieces.hits = (ct_met_triangle *)s->scratch->ray_hits.data;
        char *host = (char *)s->scratch->ray_hits_host.host;
        const uint64_t n = b->capacity.ray_hits;
        if (!ct_gpu_ok(s->device, cudaMemsetAsync(&b->counts->ray_hits, 0, sizeof(uint64_t), workspace->stream),
                       "clearing counts"))
            return false;
        s->device->launches += ct_cuda_find_hits(b, workspace->grid, workspace->stream);
        if (!copy_out(s, host, &b->counts->ray_hits, sizeof(uint64_t)) || !wait(s, "following a ray")) return false;
        uint64_t n_hits;
        memcpy(&n_hits, host, sizeof n_hits);
        if (n_hits <= n) {
            const ct_met_triangle *hits = (const ct_met_triangle *)host;
            if (!copy_out(s, host, b->pieces.hits, n_hits * sizeof *hits) || !wait(s, "copying what a ray meets"))
                return false;
            for (uint64_t i = 0; i < n_hits; i++) report(to, &hits[i]);
            return true;
        }
        const uint64_t more = n_hits > FEW_HITS ? n_hits : (uint64_t)FEW_HITS;
        if (!reserve(s, &s->scratch->ray_hits, more * sizeof(ct_met_triangle), "what a ray meets") ||
            !reserve_pinned(s, &s->scratch->ray_hits_host, more * sizeof(ct_met_triangle),
                            "what a ray meets, on the host"))
            return false;
        b->capacity.ray_hits = more;
    }
}

/* ---- splitting ---- */

bool split_all(splitter *s) {
    ct_step **steps = (ct_step **)s->workspace->members.data;
    const ct_gpu_step *sent = (const ct_gpu_step *)s->workspace->steps.data;
    s->need->what = "pieces, on the host";
    s->need->bytes = s->scratch->found_host.bytes;
    ct_sort_found(&s->found);
    for (s->pair = 0; s->pair < s->found.n_pairs; s->pair++) {
        const ct_found_pair *pair = &s->found.pairs[s->pair];
        ct_mesh *meshes[2];
        for (int k = 0; k < 2; k++)
            meshes[k] = steps[pair->step]->scene->bodies[pair->body[k] - sent[pair->step].first_body]->mesh;
        if (!ct_split_found(&s->split, &s->found, s->pair, meshes, find_hits, s)) return false;
    }
    return true;
}

/* An eighth more than there is, as the next step may have more. */
uint64_t with_room(uint64_t n) {
    return n + n / 8 + 1;
}

/* Whether the tables have room for the pieces behind what was found. If not, the device is told of how much there is,
 * so that they grow. */
bool has_room(splitter *s, bool *ok) {
    ct_gpu_counts wanted = s->counts;
    const ct_gpu_capacity *capacity = &s->b->capacity;
    wanted.pairs = wanted.exact_pairs = s->counts.pairs + s->split.pairs.n + 1;
    wanted.candidates = s->split.pairs.n;
    wanted.slots = s->counts.slots + s->split.slots.n;
    wanted.crossings = s->counts.crossings + s->split.keys.n;
    wanted.crossed = s->counts.crossed + s->split.crossed.n;
    wanted.windings = s->counts.windings + s->split.windings.n;
    if (!ct_exact_cross_shortage(&wanted, capacity)) return true;
    for (uint64_t *n : {&wanted.pairs, &wanted.exact_pairs, &wanted.candidates, &wanted.slots, &wanted.crossings,
                        &wanted.crossed, &wanted.windings})
        *n = with_room(*n);
    memcpy(s->scratch->ray_hits_host.host, &wanted, sizeof wanted);
    *ok = copy_in(s, s->b->counts, s->scratch->ray_hits_host.host, sizeof wanted) && wait(s, "copying counts");
    return false;
}

/* A list to be copied: to a table of the batch, or into the buffer of splits. */
struct part_of_split {
    const ct_split_list *list;
    uint64_t size;
    void *to; /* NULL: the buffer, in order */
};

/* Sends the lists, and the rows of split pairs. */
bool send_split(splitter *s) {
    ct_exact_tables *b = s->b;
    const ct_split *split = &s->split;
    const part_of_split parts[] = {{&split->pairs, sizeof(ct_split_pair), NULL},
                                   {&split->slots, sizeof(ct_split_slot), NULL},
                                   {&split->crossed, sizeof(ct_split_crossed), NULL},
                                   {&split->keys, sizeof(uint64_t), b->crossing_keys + s->counts.crossings},
                                   {&split->index, sizeof(uint32_t), b->crossing_index + s->counts.crossings},
                                   {&split->windings, sizeof(int32_t), b->windings + s->counts.windings}};
    const uint64_t row_bytes = ((uint64_t)b->n_bodies + 1) * sizeof(uint64_t);
    uint64_t bytes = row_bytes, in_buffer = row_bytes;
    for (const part_of_split &part : parts) {
        bytes += (part.list->n * part.size + 7) / 8 * 8;
        if (!part.to) in_buffer += part.list->n * part.size;
    }
    if (!reserve_pinned(s, &s->scratch->splits_staging, bytes, "pieces, on the host") ||
        !reserve(s, &s->scratch->splits, in_buffer, "pieces"))
        return false;
    uint64_t *rows = (uint64_t *)s->scratch->splits_staging.host;
    memset(rows, 0, row_bytes);
    const ct_split_pair *pairs = (const ct_split_pair *)split->pairs.data;
    for (size_t i = 0; i < split->pairs.n; i++) rows[s->found.pairs[pairs[i].pair].body[0] + 1]++;
    for (uint32_t i = 0; i < b->n_bodies; i++) rows[i + 1] += rows[i];
    char *from = (char *)rows + row_bytes, *to = (char *)s->scratch->splits.data + row_bytes;
    bool ok = copy_in(s, s->scratch->splits.data, rows, row_bytes);
    for (const part_of_split &part : parts) {
        const uint64_t n = part.list->n * part.size;
        if (n) memcpy(from, part.list->data, n);
        ok = ok && copy_in(s, part.to ? part.to : to, from, n);
        from += (n + 7) / 8 * 8;
        if (!part.to) to += n;
    }
    return ok;
}

/* From here on the batch's pairs are the split ones. */
void use_split(splitter *s) {
    ct_exact_tables *b = s->b;
    ct_piece_tables *pieces = &b->pieces;
    pieces->n_split_pairs = s->split.pairs.n;
    pieces->n_split_slots = s->split.slots.n;
    pieces->n_split_crossed = s->split.crossed.n;
    b->row_offset = (uint64_t *)s->scratch->splits.data;
    pieces->split_pairs = (const ct_split_pair *)(b->row_offset + b->n_bodies + 1);
    pieces->split_slots = (const ct_split_slot *)(pieces->split_pairs + pieces->n_split_pairs);
    pieces->split_crossed = (const ct_split_crossed *)(pieces->split_slots + pieces->n_split_slots);
    pieces->n_pairs = s->counts.pairs;
    pieces->n_slots = s->counts.slots;
    pieces->n_crossed = s->counts.crossed;
    pieces->n_crossings = s->counts.crossings;
    pieces->n_windings = s->counts.windings;
    pieces->plans = b->exact;
    pieces->component_offset = b->component_offset;
    b->pairs += s->counts.pairs;
    b->exact += s->counts.pairs;
    b->component_offset += 2 * s->counts.pairs;
    s->device->launches += ct_cuda_split_pairs(b, s->workspace->grid, s->workspace->stream);
    s->device->launches += ct_cuda_total_parts(b, s->workspace->grid, s->workspace->stream);
}

} // namespace

bool ct_gpu_split_pairs(ct_device *device, ct_workspace *workspace, ct_exact_tables *tables, ct_gpu_need *need) {
    const ct_trace_range range("patches");
    splitter s = {};
    s.device = device;
    s.workspace = workspace;
    s.scratch = ct_gpu_exact(workspace);
    s.b = tables;
    s.need = need;
    bool ok = read_counts(&s);
    if (!ok || ct_exact_cross_shortage(&s.counts, &tables->capacity)) return ok;
    ok = copy_found(&s) && split_all(&s);
    if (ok && has_room(&s, &ok)) {
        ok = send_split(&s);
        if (ok) use_split(&s);
    }
    ct_split_free(&s.split);
    return ok;
}
