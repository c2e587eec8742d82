/* found_pieces.c - finds the pieces of pairs whose crossings a device has found, and splits the pairs. */
#include "gpu/methods/exact/pieces_k.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/exact/pieces.h"

enum { NONE = UINT32_MAX };

/* ---- lists ---- */

/* Appends n elements of `size` bytes, all zero. NULL: out of memory. */
static void *append(ct_split_list *list, size_t n, size_t size) {
    if (list->n + n > list->capacity) {
        const size_t capacity = 2 * list->capacity > list->n + n ? 2 * list->capacity : list->n + n + 64;
        void *data = realloc(list->data, capacity * size);
        if (!data) return NULL;
        list->data = data;
        list->capacity = capacity;
    }
    void *first = (char *)list->data + list->n * size;
    memset(first, 0, n * size);
    list->n += n;
    return first;
}

void ct_split_free(ct_split *split) {
    ct_split_list *lists[] = {&split->pairs, &split->slots, &split->crossed,
                              &split->keys,  &split->index, &split->windings};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free(lists[i]->data);
    memset(split, 0, sizeof *split);
}

static int compare_crossed(const void *a, const void *b) {
    const ct_found_crossed *x = a, *y = b;
    if (x->side != y->side) return x->side < y->side ? -1 : 1;
    return (x->cluster > y->cluster) - (x->cluster < y->cluster);
}

static int compare_units(const void *a, const void *b) {
    const ct_found_unit *x = a, *y = b;
    if (x->side != y->side) return x->side < y->side ? -1 : 1;
    if (x->pass != y->pass) return x->pass < y->pass ? -1 : 1;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

void ct_sort_found(ct_found_batch *found) {
    if (found->n_crossed) qsort(found->crossed, found->n_crossed, sizeof *found->crossed, compare_crossed);
    if (found->n_units) qsort(found->units, found->n_units, sizeof *found->units, compare_units);
}

/* ---- one pair ---- */

/* What was found of one body. */
struct side {
    const ct_found_crossed *crossed;
    const ct_found_unit *units;
    size_t n_crossed, n_units;
    ct_exact_body body;
    uint32_t *slot_of;      /* [clusters] of crossed clusters and those with units inside */
    uint32_t *found_as;     /* [clusters] 1 + index into crossed, or 0 */
    size_t *first_crossing; /* [n_crossed] where a cluster's crossings begin among those of the side */
    uint32_t *number[2];    /* by pass: [crossings] of a crossing of the surface its number among those of the side */
};

struct search {
    const ct_found_batch *found;
    ct_arena arena;
    ct_budget budget;
    struct side sides[2];
    ct_piece_search pieces;
    ct_unit_summary summary; /* what was asked for last */
    ct_find_hits_fn find_hits;
    void *argument;
    bool has_failed;
};

static void *allocate(struct search *search, size_t bytes) {
    void *memory = ct_arena_alloc(&search->arena, &search->budget, bytes ? bytes : 1);
    if (!memory)
        search->has_failed = true;
    else
        memset(memory, 0, bytes);
    return memory;
}

/* The crossed clusters and units of a side. */
static void find_ranges(const ct_found_batch *found, uint32_t side_number, struct side *side) {
    size_t first = 0, end = found->n_crossed;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (found->crossed[middle].side < side_number)
            first = middle + 1;
        else
            end = middle;
    }
    side->crossed = found->crossed + first;
    while (end < found->n_crossed && found->crossed[end].side == side_number) end++;
    side->n_crossed = end - first;
    for (first = 0, end = found->n_units; first < end;) {
        const size_t middle = first + (end - first) / 2;
        if (found->units[middle].side < side_number)
            first = middle + 1;
        else
            end = middle;
    }
    side->units = found->units + first;
    while (end < found->n_units && found->units[end].side == side_number) end++;
    side->n_units = end - first;
}

/* Lists a cluster with its points, if it has been found with any. */
static void list_cluster(struct side *side, uint32_t cluster, double (*points)[4]) {
    ct_exact_body *body = &side->body;
    const ct_clusters *clusters = body->topology->clusters;
    const uint32_t first = clusters->first_vertex[cluster], left = body->n_triangles - cluster * CT_CLUSTER_TRIANGLES;
    if (body->placed_as[cluster]) return;
    body->placed[body->n_placed] =
        (ct_placed_cluster){.cluster = cluster,
                            .first_vertex = first,
                            .n_triangles = left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES,
                            .n_vertices = clusters->first_vertex[cluster + 1] - first,
                            .vertices = clusters->vertices + first,
                            .corners = body->topology->corners + (size_t)cluster * CT_CLUSTER_TRIANGLES,
                            .points = points};
    body->placed_as[cluster] = ++body->n_placed;
}

static void begin_side(struct search *search, struct side *side, ct_mesh *mesh) {
    const ct_topology *topology = ct_mesh_topology(mesh, NULL); /* made when the body was added */
    const uint32_t n_clusters = topology->clusters->n;
    size_t n_crossings = 0;
    side->body = (ct_exact_body){
        .topology = topology,
        .n_triangles = mesh->n_triangles,
        .placed = allocate(search, (side->n_crossed + side->n_units) * sizeof(ct_placed_cluster)),
        .placed_as = allocate(search, n_clusters * sizeof(uint32_t)),
    };
    side->slot_of = allocate(search, n_clusters * sizeof *side->slot_of);
    side->found_as = allocate(search, n_clusters * sizeof *side->found_as);
    side->first_crossing = allocate(search, side->n_crossed * sizeof *side->first_crossing);
    if (search->has_failed) return;
    for (size_t i = 0; i < side->n_crossed; i++) {
        const ct_found_crossed *crossed = &side->crossed[i];
        side->first_crossing[i] = n_crossings;
        n_crossings += crossed->n_crossings;
        side->slot_of[crossed->cluster] = crossed->slot;
        side->found_as[crossed->cluster] = (uint32_t)i + 1;
        list_cluster(side, crossed->cluster, search->found->points + crossed->first_winding / 2);
    }
    for (size_t i = 0; i < side->n_units; i++) {
        const uint32_t cluster = topology->cluster_of_unit[side->units[i].unit];
        side->slot_of[cluster] = side->units[i].slot;
        list_cluster(side, cluster, NULL);
    }
    for (int pass = 0; pass < 2; pass++)
        side->number[pass] = allocate(search, n_crossings * sizeof *side->number[pass]);
}

static ct_crossing crossing_of(const ct_found_crossed *crossed, const ct_found_crossing *from) {
    ct_crossing to = {
        .triangle = crossed->cluster * CT_CLUSTER_TRIANGLES + from->triangle, .other = from->other, .crosses = true};
    for (int k = 0; k < 3; k++) to.share.jump[k] = from->jump[k];
    for (int k = 0; k < CT_INTEGRALS; k++) to.share.integrals.of[k] = from->of[k];
    to.share.near_area = from->of[CT_INTEGRALS];
    to.share.rounding = from->of[CT_INTEGRALS + 1];
    return to;
}

/* Makes a surface of what one pass found of a body. */
static ct_piece_surface make_surface(struct search *search, struct side *side, int pass) {
    const ct_topology *topology = side->body.topology;
    const uint32_t n_clusters = topology->clusters->n;
    size_t n_crossings = 0;
    uint32_t n_crossed = 0, n_added = 0, n = 0;
    for (size_t i = 0; i < side->n_crossed; i++) n_crossings += side->crossed[i].n_crossings;
    uint32_t *crossed_clusters = allocate(search, side->n_crossed * sizeof *crossed_clusters);
    uint32_t *crossed_as = allocate(search, n_clusters * sizeof *crossed_as);
    ct_crossed_cluster *crossed = allocate(search, side->n_crossed * sizeof *crossed);
    int32_t *of_unit = allocate(search, topology->n_units * sizeof *of_unit);
    uint8_t *is_added = allocate(search, n_clusters);
    uint32_t *added = allocate(search, (side->n_crossed + side->n_units) * sizeof *added);
    ct_crossing *crossings = allocate(search, n_crossings * sizeof *crossings);
    if (search->has_failed) return (ct_piece_surface){0};
    for (size_t i = 0; i < side->n_crossed; i++) {
        const ct_found_crossed *of = &side->crossed[i];
        const uint32_t n_vertices =
            topology->clusters->first_vertex[of->cluster + 1] - topology->clusters->first_vertex[of->cluster];
        for (uint32_t k = 0; k < of->n_crossings; k++) {
            const ct_found_crossing *from = &search->found->crossings[of->first + k];
            if (CT_POLL_EVERY(k, 1024) && ct_is_cancelled_at("crossings", n)) search->has_failed = true;
            if (!(from->passes >> pass & 1 && from->crosses)) continue;
            side->number[pass][n] = (uint32_t)(side->first_crossing[i] + k);
            crossings[n++] = crossing_of(of, from);
        }
        if (!of->n_in_pass[pass]) continue;
        crossed[n_crossed].winding = search->found->windings + of->first_winding + (size_t)pass * n_vertices;
        crossed_clusters[n_crossed] = of->cluster;
        crossed_as[of->cluster] = ++n_crossed;
        is_added[of->cluster] = 1;
    }
    for (size_t i = 0; i < side->n_units; i++) {
        if (side->units[i].pass != (uint32_t)pass) continue;
        of_unit[side->units[i].unit] = side->units[i].winding;
        is_added[topology->cluster_of_unit[side->units[i].unit]] = 1;
    }
    for (uint32_t c = 0; c < n_clusters; c++)
        if (is_added[c]) added[n_added++] = c;
    return (ct_piece_surface){.crossed_clusters = crossed_clusters,
                              .crossed_as = crossed_as,
                              .crossed = crossed,
                              .n_crossed = n_crossed,
                              .of_unit = of_unit,
                              .added = added,
                              .n_added = n_added,
                              .crossings = crossings,
                              .n_crossings = n};
}

static const ct_unit_summary *summarize_unit(void *argument, int pass, int b, uint32_t unit) {
    struct search *search = argument;
    const struct side *side = &search->sides[b];
    const ct_found_unit key = {.side = side->n_units ? side->units->side : 0, .pass = (uint32_t)pass, .unit = unit};
    const ct_found_unit *of = bsearch(&key, side->units, side->n_units, sizeof key, compare_units);
    ct_begin_unit(&search->summary);
    search->summary.volume = of->volume; /* the search asks for units with a winding number alone */
    search->summary.slack = of->slack;
    search->summary.moment = of->moment;
    memcpy(search->summary.extreme, of->extreme, sizeof of->extreme);
    if (of->facings)
        memcpy(search->summary.facings, search->found->facings[of->facings - 1], sizeof search->summary.facings);
    return &search->summary;
}

static bool find_hits(void *argument, int b, const double p[3], double far, ct_report_hit_fn report, void *to) {
    struct search *search = argument;
    return search->find_hits(search->argument, b, p, far, report, to);
}

static bool run_search(struct search *search, const ct_found_pair *pair, uint32_t p, ct_mesh *const meshes[2]) {
    ct_piece_search *pieces = &search->pieces;
    *pieces = (ct_piece_search){.n_passes = pair->has_ties ? 2 : 1,
                                .arena = &search->arena,
                                .budget = &search->budget,
                                .source = {summarize_unit, find_hits, search}};
    for (int b = 0; b < 2 && !search->has_failed; b++) {
        struct side *side = &search->sides[b];
        find_ranges(search->found, 2 * p + (uint32_t)b, side);
        begin_side(search, side, meshes[b]);
        pieces->body[b] = &side->body;
        pieces->adjacency[b] = ct_mesh_adjacency(meshes[b], NULL);
        for (int pass = 0; pass < pieces->n_passes && !search->has_failed; pass++) {
            pieces->moved[pass] = pass ? -1 : 1;
            pieces->surface[pass][b] = make_surface(search, side, pass);
        }
    }
    return !search->has_failed && ct_find_pieces(pieces);
}

/* ---- bounds ---- */

/* The sum over a cluster's crossed triangles of each one's sum. */
static double near_area_of(const ct_found_batch *found, const ct_found_crossed *crossed, int pass, double area) {
    const ct_found_crossing *list = found->crossings + crossed->first;
    for (uint32_t k = 0, end; k < crossed->n_crossings; k = end) {
        double of_triangle = 0;
        for (end = k; end < crossed->n_crossings && list[end].triangle == list[k].triangle; end++)
            if (list[end].passes >> pass & 1) of_triangle += list[end].of[CT_INTEGRALS];
        area += of_triangle;
    }
    return area;
}

/* As near_volume of pieces_cpu.c. */
static double near_volume(const struct search *search, const ct_found_pair *pair) {
    double volume = 0;
    for (int b = 0; b < 2; b++) {
        const struct side *side = &search->sides[b];
        double area = 0, residual = 0;
        for (int pass = 0; pass < search->pieces.n_passes; pass++)
            for (size_t i = 0; i < side->n_crossed; i++) {
                const ct_found_crossed *crossed = &side->crossed[i];
                if (!crossed->n_in_pass[pass]) continue;
                area = near_area_of(search->found, crossed, pass, area);
                residual = fmax(residual, crossed->residual);
            }
        for (size_t i = 0; i < side->n_units; i++) residual = fmax(residual, side->units[i].residual);
        volume += (residual + pair->rounding[b]) * area;
    }
    return volume;
}

/* ---- splitting ---- */

static bool append_whole(ct_split *split, size_t p) {
    ct_split_pair *pair = append(&split->pairs, 1, sizeof *pair);
    if (pair) pair->pair = (uint32_t)p;
    return pair;
}

/* The crossings of a cluster that belong to a piece, in the passes in which they do. Returns how many; NONE: out of
 * memory. */
static uint32_t append_crossings(ct_split *split, const struct search *search, const ct_piece_part *const of[2]) {
    const ct_piece_part *any = of[0] ? of[0] : of[1];
    const struct side *side = &search->sides[any->body];
    const uint32_t as = side->found_as[any->cluster] - 1;
    const ct_found_crossing *list = search->found->crossings + side->crossed[as].first;
    uint32_t n = 0, at[2] = {0, 0};
    for (;; n++) {
        uint32_t number[2] = {NONE, NONE}; /* of the next one of either pass */
        for (int pass = 0; pass < 2; pass++)
            if (of[pass] && at[pass] < of[pass]->crossings.n)
                number[pass] = side->number[pass][search->pieces.crossings[of[pass]->crossings.first + at[pass]]];
        const uint32_t next = number[0] < number[1] ? number[0] : number[1];
        if (next == NONE) return n;
        uint32_t passes = 0;
        for (int pass = 0; pass < 2; pass++) {
            if (number[pass] != next) continue;
            passes |= 1u << pass;
            at[pass]++;
        }
        const ct_found_crossing *from = &list[next - side->first_crossing[as]];
        uint64_t *key = append(&split->keys, 1, sizeof *key);
        uint32_t *index = append(&split->index, 1, sizeof *index);
        if (!key || !index) return NONE;
        *key = (uint64_t)from->triangle << 34 | (uint64_t)from->other << 2 | passes;
        *index = from->index;
    }
}

/* A cluster's part of a piece; of[pass]: NULL where it has none. */
static bool append_slot(ct_split *split, struct search *search, const ct_piece_part *const of[2]) {
    const ct_piece_part *any = of[0] ? of[0] : of[1];
    const int b = any->body;
    const uint32_t cluster = any->cluster;
    const struct side *side = &search->sides[b];
    const ct_topology *topology = side->body.topology;
    const uint32_t n_units = topology->first_unit[cluster + 1] - topology->first_unit[cluster];
    const uint32_t n_vertices =
        topology->clusters->first_vertex[cluster + 1] - topology->clusters->first_vertex[cluster];
    const size_t units = split->windings.n;
    uint32_t passes = 0;
    for (int pass = 0; pass < 2; pass++)
        if (of[pass] && search->pieces.surface[pass][b].crossed_as[cluster]) passes |= 1u << pass;
    int32_t *windings = append(&split->windings, 2 * ((size_t)n_units + (passes ? n_vertices : 0)), sizeof *windings);
    ct_split_slot *slot = append(&split->slots, 1, sizeof *slot);
    if (!windings || !slot) return false;
    *slot = (ct_split_slot){
        .slot = side->slot_of[cluster], .side = 2 * ((uint32_t)split->pairs.n - 1) + (uint32_t)b, .units = units};
    for (int pass = 0; pass < 2; pass++)
        if (of[pass])
            ct_set_piece_winding(&search->pieces, of[pass], windings + (size_t)pass * n_units,
                                 windings + 2 * (size_t)n_units + (size_t)pass * n_vertices);
    if (!passes) return true;
    ct_split_crossed *crossed = append(&split->crossed, 1, sizeof *crossed);
    if (!crossed) return false;
    *crossed = (ct_split_crossed){.slot = (uint32_t)split->slots.n - 1,
                                  .passes = passes,
                                  .first = split->keys.n,
                                  .first_winding = units + 2 * (size_t)n_units};
    slot->crossed = (uint32_t)split->crossed.n;
    slot->n_crossings = append_crossings(split, search, of);
    return slot->n_crossings != NONE;
}

/* The slots of body b of a piece with the parts first .. end - 1. */
static bool append_slots(ct_split *split, struct search *search, size_t first, size_t end, int b) {
    const ct_piece_part *parts = search->pieces.parts;
    size_t at[2], last[2]; /* by pass */
    for (int pass = 0; pass < 2; pass++) {
        for (at[pass] = first; at[pass] < end && (parts[at[pass]].pass != pass || parts[at[pass]].body != b);)
            at[pass]++;
        for (last[pass] = at[pass]; last[pass] < end && parts[last[pass]].pass == pass && parts[last[pass]].body == b;)
            last[pass]++;
    }
    while (at[0] < last[0] || at[1] < last[1]) {
        const ct_piece_part *of[2] = {NULL, NULL};
        for (int pass = 0; pass < 2; pass++)
            if (at[pass] < last[pass]) of[pass] = &parts[at[pass]];
        if (of[0] && of[1] && of[0]->cluster != of[1]->cluster) of[of[0]->cluster < of[1]->cluster] = NULL;
        for (int pass = 0; pass < 2; pass++) at[pass] += of[pass] != NULL;
        if (!append_slot(split, search, of)) return false;
    }
    return true;
}

static bool append_pieces(ct_split *split, struct search *search, size_t p) {
    const ct_piece_search *pieces = &search->pieces;
    const double moved_volume = near_volume(search, &search->found->pairs[p]);
    for (size_t first = 0, end; first < pieces->n_parts; first = end) {
        for (end = first; end < pieces->n_parts && pieces->parts[end].piece == pieces->parts[first].piece;) end++;
        if (ct_is_cancelled_at("patches", pieces->parts[first].piece) || !append_whole(split, p)) return false;
        ct_split_pair of = {.pair = (uint32_t)p, .is_piece = 1, .is_first = first == 0, .moved_volume = moved_volume};
        for (int b = 0; b < 2; b++) {
            of.first_slot[b] = split->slots.n;
            if (!append_slots(split, search, first, end, b)) return false;
            of.n_slots[b] = (uint32_t)(split->slots.n - of.first_slot[b]);
        }
        ((ct_split_pair *)split->pairs.data)[split->pairs.n - 1] = of;
    }
    return true;
}

bool ct_split_found(ct_split *split, const ct_found_batch *found, size_t p, ct_mesh *const meshes[2],
                    ct_find_hits_fn find, void *argument) {
    const ct_found_pair *pair = &found->pairs[p];
    if (!pair->wants_patches || pair->is_skipped) return append_whole(split, p);
    struct search search = {.found = found, .find_hits = find, .argument = argument};
    bool ok = run_search(&search, pair, (uint32_t)p, meshes);
    if (ok) ok = search.pieces.n_pieces > 1 ? append_pieces(split, &search, p) : append_whole(split, p);
    ct_arena_free(&search.arena, &search.budget);
    return ok;
}

/* ---- order ---- */

int ct_compare_patches(const ct_contact *x, const ct_contact *y) {
    if (x->volume != y->volume) return x->volume > y->volume ? -1 : 1;
    for (int k = 0; k < 3; k++)
        if (x->center[k] != y->center[k]) return x->center[k] < y->center[k] ? -1 : 1;
    return (x->error_bound > y->error_bound) - (x->error_bound < y->error_bound);
}
