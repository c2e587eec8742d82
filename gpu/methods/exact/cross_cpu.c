/* cross_cpu.c - the crossings of the method `exact` on the CPU: crosses pairs of clusters, sorts the crossings, and goes
 * from a cluster's crossings to the integrals of its crossed triangles and to the winding numbers of its vertices
 * relative to each other. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/methods/exact/pair_cpu.h"

/* ---- of one cluster ---- */

/* Makes a list of n elements larger. */
static bool grow_list(ct_crossing_lists *lists, ct_buffer *list, ct_budget *budget, size_t n, size_t size) {
    const size_t needed = (n + 1) * size;
    if (ct_buffer_reserve(list, budget, needed + needed / 2 + 64 * size, n * size, false)) return true;
    lists->is_full = true;
    return false;
}

bool ct_grow_crossings(ct_crossing_lists *lists, ct_budget *budget, int body) {
    return grow_list(lists, &lists->of_body[body], budget, lists->n[body], sizeof(ct_crossing));
}

bool ct_grow_segments(ct_crossing_lists *lists, ct_budget *budget) {
    return grow_list(lists, &lists->segments, budget, lists->n_segments, sizeof(ct_crossing_segment));
}

/* Up to so many crossings a list is sorted by keys of 64 bits. */
enum { SHORT_LIST = 255 };

/* Rises with the triangle, then with the other one, then with the place in the list, which are its lowest eight bits.
 */
static inline uint64_t pack_key(const ct_crossing *c, uint32_t first_triangle, size_t at) {
    return (uint64_t)(c->triangle - first_triangle) << 40 | (uint64_t)c->other << 8 | at;
}

/* So few are sorted by insertion alone. */
enum { FEW_KEYS = 16 };

/* Puts key i where it belongs among those before it. */
static inline void insert_key(uint64_t *sorted, size_t i, uint64_t key) {
    size_t at = i;
    for (; at > 0 && sorted[at - 1] > key; at--) sorted[at] = sorted[at - 1];
    sorted[at] = key;
}

/* By counting triangles, of which there are 128. Within one, where few are, by insertion. */
static void sort_keys(const uint64_t *keys, size_t n, uint64_t *sorted) {
    if (n <= FEW_KEYS) {
        for (size_t i = 0; i < n; i++) insert_key(sorted, i, keys[i]);
        return;
    }
    uint8_t end[CT_CLUSTER_TRIANGLES] = {0}, sum = 0;
    uint64_t has_some[CT_CLUSTER_TRIANGLES / 64] = {0};
    for (size_t i = 0; i < n; i++) {
        const uint32_t t = (uint32_t)(keys[i] >> 40);
        end[t]++;
        has_some[t / 64] |= 1ull << t % 64;
    }
    for (uint32_t w = 0; w < CT_CLUSTER_TRIANGLES / 64; w++)
        for (uint64_t left = has_some[w]; left; left &= left - 1) {
            const uint32_t t = 64 * w + (uint32_t)__builtin_ctzll(left);
            const uint8_t count = end[t];
            end[t] = sum;
            sum = (uint8_t)(sum + count);
        }
    for (size_t i = 0; i < n; i++) sorted[end[keys[i] >> 40]++] = keys[i];
    for (size_t i = 1; i < n; i++) insert_key(sorted, i, sorted[i]);
}

static void sort_short_list(uint32_t first_triangle, ct_crossing **list, size_t n) {
    uint64_t keys[SHORT_LIST], sorted[SHORT_LIST];
    ct_crossing *unsorted[SHORT_LIST];
    for (size_t i = 0; i < n; i++) {
        unsorted[i] = list[i];
        keys[i] = pack_key(list[i], first_triangle, i);
    }
    sort_keys(keys, n, sorted);
    for (size_t i = 0; i < n; i++) list[i] = unsorted[sorted[i] & 255];
}

/* Crossings between two polls: some 50 us, where they are not in the cache. */
enum { CROSSING_POLL = 2048 };

/* Moves those whose other triangle is `last` or before it to the front. Returns their number. */
static size_t split_list(ct_crossing **list, size_t n, uint32_t last) {
    size_t front = 0;
    for (size_t i = 0; i < n; i++) {
        ct_crossing *c = list[i];
        if (c->other > last) continue;
        list[i] = list[front];
        list[front++] = c;
    }
    return front;
}

/* Of crossings of one triangle, by halving the range of the others' numbers: at most 32 times. False: cancelled. */
static bool sort_others(uint32_t first_triangle, ct_crossing **list, size_t n) {
    while (n > SHORT_LIST) {
        uint32_t least = UINT32_MAX, most = 0;
        for (size_t i = 0; i < n; i++) {
            if (CT_POLL_EVERY(i, CROSSING_POLL) && ct_is_cancelled_at("crossings", n)) return false;
            least = list[i]->other < least ? list[i]->other : least;
            most = list[i]->other > most ? list[i]->other : most;
        }
        if (least == most) return true;
        size_t front = 0;
        const uint32_t middle = least + (most - least) / 2;
        for (size_t at = 0; at < n; at += CROSSING_POLL) {
            if (ct_is_cancelled_at("crossings", n)) return false;
            const size_t left = n - at < CROSSING_POLL ? n - at : CROSSING_POLL;
            const size_t found = split_list(list + at, left, middle);
            for (size_t i = 0; i < found; i++) { /* to the front of all, past which only later ones are */
                ct_crossing *c = list[at + i];
                list[at + i] = list[front];
                list[front++] = c;
            }
        }
        if (!sort_others(first_triangle, list, front)) return false;
        list += front;
        n -= front;
    }
    if (n > 1) sort_short_list(first_triangle, list, n);
    return true;
}

/* By counting triangles, in place; then each triangle's by the others. False: cancelled. */
static bool sort_long_list(uint32_t first_triangle, ct_crossing **list, size_t n) {
    size_t at[CT_CLUSTER_TRIANGLES] = {0}, end[CT_CLUSTER_TRIANGLES], sum = 0, n_moved = 0;
    for (size_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i, CROSSING_POLL) && ct_is_cancelled_at("crossings", n)) return false;
        at[list[i]->triangle - first_triangle]++;
    }
    for (uint32_t t = 0; t < CT_CLUSTER_TRIANGLES; t++) {
        const size_t count = at[t];
        at[t] = sum;
        end[t] = sum += count;
    }
    for (uint32_t t = 0; t < CT_CLUSTER_TRIANGLES; t++)
        while (at[t] < end[t]) {
            ct_crossing *c = list[at[t]];
            const uint32_t to = c->triangle - first_triangle;
            if (CT_POLL_EVERY(++n_moved, CROSSING_POLL) && ct_is_cancelled_at("crossings", n)) return false;
            list[at[t]] = list[at[to]];
            list[at[to]++] = c;
        }
    for (uint32_t t = 0; t < CT_CLUSTER_TRIANGLES; t++) {
        const size_t first = t ? end[t - 1] : 0;
        if (!sort_others(first_triangle, list + first, end[t] - first)) return false;
    }
    return true;
}

/* By triangle, then by the other one. False: cancelled. */
static bool sort_crossings(uint32_t cluster, ct_crossing **list, size_t n) {
    const uint32_t first_triangle = cluster * CT_CLUSTER_TRIANGLES;
    if (n > SHORT_LIST) return sort_long_list(first_triangle, list, n);
    sort_short_list(first_triangle, list, n);
    return true;
}

/* As doubles side by side: integrals, near_area and rounding of a share and of a sum. */
enum { SHARE_DOUBLES = CT_INTEGRALS + 2 };
_Static_assert(offsetof(ct_triangle_share, rounding) == (SHARE_DOUBLES - 1) * sizeof(double), "doubles come first");
_Static_assert(offsetof(ct_crossed_triangle, rounding) == (SHARE_DOUBLES - 1) * sizeof(double), "doubles come first");

typedef int64_t double_bits __attribute__((vector_size(16)));
typedef double doubles2 __attribute__((vector_size(16)));

/* Adds to a sum, or begins one. Which of these is hard to guess, so no branch depends on it. */
static void add_crossing(ct_crossed_triangle *sum, const ct_crossing *crossing, bool begins) {
    const ct_triangle_share *share = &crossing->share;
    const double_bits kept = {begins ? 0 : -1, begins ? 0 : -1};
    double *to = sum->integrals.of;
    const double *from = share->integrals.of;
    for (int i = 0; i < SHARE_DOUBLES; i += 2) {
        doubles2 a, b;
        memcpy(&a, to + i, sizeof a);
        memcpy(&b, from + i, sizeof b);
        a = (doubles2)((double_bits)a & kept) + b;
        memcpy(to + i, &a, sizeof a);
    }
    for (int k = 0; k < 3; k++) sum->jump[k] = (sum->jump[k] & (int32_t)kept[0]) + share->jump[k];
    for (int k = 0; k < 3; k++) sum->turn[k] = (sum->turn[k] & (int32_t)kept[0]) + crossing->turn[k];
}

/* Along a step of a walk: from one corner to another of a triangle that is not crossed, or of a crossed one. */
enum { STEPS = 16 }; /* 4 from + to, as in ct_walk_step */

/* w at the end of each step less w at its start, for the triangles of crossed->number: first those that are not
 * crossed. */
static void list_jumps(const ct_crossed_cluster *crossed, int32_t (*jumps)[STEPS]) {
    memset(jumps[0], 0, sizeof jumps[0]);
    for (uint32_t i = 0; i < crossed->n; i++) {
        const int32_t *jump = crossed->triangles[i].jump;
        int32_t *of = jumps[i + 1];
        of[0] = of[5] = of[10] = 0;
        of[1] = jump[0]; /* from corner 0 to 1 */
        of[6] = jump[1];
        of[8] = jump[2];
        of[4] = -jump[0];
        of[9] = -jump[1];
        of[2] = -jump[2];
    }
}

static void walk(const ct_topology *topology, uint32_t cluster, ct_crossed_cluster *crossed) {
    const uint32_t first = topology->clusters->first_vertex[cluster],
                   end = topology->clusters->first_vertex[cluster + 1];
    const uint16_t(*const corners)[3] = topology->corners + (size_t)cluster * CT_CLUSTER_TRIANGLES;
    const ct_walk_step *const walk = topology->walk;
    int32_t *const winding = crossed->winding;
    int32_t jumps[CT_CLUSTER_TRIANGLES + 1][STEPS];
    list_jumps(crossed, jumps);
    for (uint32_t i = first; i < end; i++) {
        const uint32_t t = ct_walk_triangle(walk[i]), from = ct_walk_from(walk[i]), to = ct_walk_to(walk[i]);
        const int32_t start = from == to ? 0 : winding[corners[t][from]];
        winding[corners[t][to]] = start + jumps[crossed->number[t]][walk[i] % STEPS];
    }
}

/* Around every crossed triangle the jumps sum to 0, and along its edges they are the differences of the walk's numbers,
 * which other triangles may have determined. */
static bool is_consistent(const ct_topology *topology, uint32_t cluster, const ct_crossed_cluster *crossed) {
    const uint16_t(*corners)[3] = topology->corners + (size_t)cluster * CT_CLUSTER_TRIANGLES;
    for (uint32_t i = 0; i < crossed->n; i++) {
        const uint32_t t = crossed->triangles[i].triangle;
        const int32_t *jump = crossed->triangles[i].jump;
        for (int k = 0; k < 3; k++)
            if (crossed->winding[corners[t][(k + 1) % 3]] - crossed->winding[corners[t][k]] != jump[k]) return false;
    }
    return true;
}

void ct_sum_crossings(uint32_t cluster, ct_crossing **crossings, size_t n, ct_crossed_cluster *crossed) {
    const uint32_t first_triangle = cluster * CT_CLUSTER_TRIANGLES;
    uint32_t n_crossed = 0;
    crossed->n = 0;
    memset(crossed->number, 0, sizeof crossed->number);
    if (!sort_crossings(cluster, crossings, n)) return;
    uint32_t before = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        if (CT_POLL_EVERY(i + 1, CROSSING_POLL) && ct_is_cancelled_at("crossings", i)) {
            memset(crossed->number, 0, sizeof crossed->number); /* of n triangles, which are none */
            return;
        }
        const uint32_t triangle = crossings[i]->triangle - first_triangle;
        const bool begins = triangle != before;
        n_crossed += begins;
        add_crossing(&crossed->triangles[n_crossed - 1], crossings[i], begins);
        crossed->triangles[n_crossed - 1].triangle = before = triangle;
        crossed->number[triangle] = (uint8_t)n_crossed;
    }
    crossed->n = n_crossed;
}

bool ct_total_crossings(const ct_topology *topology, uint32_t cluster, ct_crossing **crossings, size_t n,
                        ct_crossed_cluster *crossed) {
    ct_sum_crossings(cluster, crossings, n, crossed);
    walk(topology, cluster, crossed);
    return is_consistent(topology, cluster, crossed);
}

/* ---- of all pairs of clusters ---- */

/* Floats of clusters without pairs left, of a pair that one thread computes: the next clusters get them, so that few
 * are in use at a time and stay in the processor's cache. */
struct ct_free_floats {
    struct ct_free_floats *next;
};

/* Gives a cluster floats, and places it. */
static void take_floats(ct_exact_pair *exact, const ct_exact_body *body, ct_placed_cluster *c) {
    if (c->floats) return;
    struct ct_free_floats *free_floats = exact->free_floats;
    if (free_floats) exact->free_floats = free_floats->next;
    c->floats = free_floats ? (void *)free_floats : ct_exact_allocate(exact, sizeof *c->floats);
    if (c->floats) ct_exact_kernels_of(exact)->place(c, body);
}

/* After one of a cluster's pairs was crossed. */
static void release_floats(ct_exact_pair *exact, ct_placed_cluster *c) {
    if (--c->n_pairs_left) return;
    struct ct_free_floats *free_floats = (void *)c->floats;
    free_floats->next = exact->free_floats;
    exact->free_floats = free_floats;
    c->floats = NULL;
}

/* Pairs of clusters that one task crosses: about 20 us. */
enum { CROSS_CHUNK = 32 };

static void cross_chunk(void *argument, uint32_t i, uint32_t worker) {
    ct_exact_pair *exact = argument;
    const size_t first = (size_t)i * CROSS_CHUNK, left = exact->n_cluster_pairs - first;
    ct_crossing_lists *lists = &ct_exact_scratch_of(exact->workspace, worker)->lists;
    if (exact->has_failed || ct_exact_is_cancelled(exact, "pairs of triangles", lists->n_looked_at)) return;
    const ct_exact_body *a = &exact->part[0].body, *b = &exact->part[exact->is_self ? 0 : 1].body;
    for (size_t p = first; p < first + (left < CROSS_CHUNK ? left : CROSS_CHUNK); p++) {
        ct_placed_cluster *ca = &a->placed[a->placed_as[exact->cluster_pairs[p].a] - 1],
                          *cb = &b->placed[b->placed_as[exact->cluster_pairs[p].b] - 1];
        if (!exact->is_spread) {
            take_floats(exact, a, ca);
            take_floats(exact, b, cb);
            if (exact->has_failed) return;
        }
        if (lists->is_full) break;
        if (exact->is_self)
            ct_exact_cross_own(exact, &exact->cluster_pairs[p], lists);
        else
            ct_exact_kernels_of(exact)->cross(ca, cb, ct_exact_moved_in(0), &exact->device->budget, lists);
        if (!exact->is_spread) {
            release_floats(exact, ca);
            release_floats(exact, cb);
        }
    }
    if (lists->is_full) exact->has_failed = true;
}

/* Fills the threads' lists with the crossings of all passes. */
static void cross_clusters(ct_exact_pair *exact) {
    for (uint32_t w = exact->first_worker; w < exact->end_worker; w++) {
        ct_crossing_lists *lists = &ct_exact_scratch_of(exact->workspace, w)->lists;
        lists->n[0] = lists->n[1] = lists->n_segments = 0;
        lists->worker = (uint16_t)w;
        lists->keeps_segments = ct_exact_wants_second(exact);
        lists->n_looked_at = 0;
        lists->has_ties = lists->is_full = false;
        lists->n_inconsistent = 0;
        lists->left_out[0] = lists->left_out[1] = (ct_left_out){0};
        lists->is_self = exact->is_self;
        lists->is_twin = exact->is_twin;
        lists->has_both = true;
    }
    ct_exact_for_each(exact, (uint32_t)((exact->n_cluster_pairs + CROSS_CHUNK - 1) / CROSS_CHUNK), cross_chunk);
}

/* ---- by cluster ---- */

/* A list of crossings, of which those of a pass are taken: all passes' are found at once. */
struct taken_list {
    ct_crossing *list;
    size_t n;
    uint8_t pass;        /* the bit in ct_crossing.passes */
    bool drops_diagonal; /* of a triangle and itself: a twin's mirror image of it is in the other list */
};

static struct taken_list list_taken(const ct_exact_pair *exact, uint32_t worker, int b, int of) {
    const ct_crossing_lists *lists = &ct_exact_scratch_of(exact->workspace, worker)->lists;
    const bool is_mirrored = exact->is_twin && of != b;
    return (struct taken_list){.list = lists->of_body[of].data,
                               .n = lists->n[of],
                               .pass = (uint8_t)(1u << (is_mirrored ? 1 - exact->pass : exact->pass)),
                               .drops_diagonal = is_mirrored};
}

static inline bool is_taken(const struct taken_list *from, const ct_crossing *crossing) {
    return (crossing->passes & from->pass) && !(from->drops_diagonal && crossing->triangle == crossing->other);
}

/* Crossings between two polls, some 50 us. */
enum { GATHER_POLL = 4096 };

/* The last of the threads' lists with crossings of body b: those of a body with itself, or its twin, are in both. */
static int last_list_of(const ct_exact_pair *exact, int b) {
    return exact->is_self || exact->is_twin ? 1 : b;
}

/* Counts body b's crossings by cluster. Returns how many there are. */
static size_t count_crossings(ct_exact_pair *exact, int b, uint32_t *count, uint64_t *is_crossed) {
    size_t n = 0;
    for (uint32_t w = exact->first_worker; w < exact->end_worker; w++)
        for (int of = b; of <= last_list_of(exact, b); of++) {
            const struct taken_list from = list_taken(exact, w, b, of);
            for (size_t i = 0; i < from.n; i++) {
                if (CT_POLL_EVERY(i, GATHER_POLL) && ct_exact_is_cancelled(exact, "crossings", i)) return n;
                const uint32_t cluster = from.list[i].triangle / CT_CLUSTER_TRIANGLES;
                const uint64_t counts = is_taken(&from, &from.list[i]);
                count[cluster] += (uint32_t)counts;
                is_crossed[cluster / 64] |= counts << cluster % 64;
                n += counts;
            }
        }
    return n;
}

/* Lists body b's crossed clusters, and where each one's crossings begin. */
static void list_crossed(ct_exact_pair *exact, int b, const uint32_t *count, const uint64_t *is_crossed, size_t n) {
    ct_exact_surface *surface = &exact->part[b].surface[exact->pass];
    const uint32_t n_clusters = exact->part[b].body.topology->clusters->n;
    surface->n_crossed = ct_count_set(is_crossed, n_clusters);
    surface->crossings = ct_exact_allocate(exact, n * sizeof *surface->crossings);
    surface->crossed_as = ct_exact_allocate_zeroed(exact, n_clusters * sizeof *surface->crossed_as);
    surface->first_crossing = ct_exact_allocate(exact, (surface->n_crossed + 1) * sizeof *surface->first_crossing);
    surface->crossed_clusters = ct_exact_allocate(exact, surface->n_crossed * sizeof *surface->crossed_clusters);
    surface->crossed = ct_exact_allocate(exact, surface->n_crossed * sizeof *surface->crossed);
    if (exact->has_failed) return;
    ct_list_set(is_crossed, n_clusters, surface->crossed_clusters);
    size_t first = 0;
    for (uint32_t i = 0; i < surface->n_crossed; i++) {
        const uint32_t cluster = surface->crossed_clusters[i];
        surface->first_crossing[i] = first;
        surface->crossed_as[cluster] = i + 1;
        first += count[cluster];
    }
    surface->first_crossing[surface->n_crossed] = first;
}

/* Lists the crossings of each of body b's crossed clusters. */
static void sort_by_cluster(ct_exact_pair *exact, int b) {
    ct_exact_surface *surface = &exact->part[b].surface[exact->pass];
    size_t *at = ct_exact_allocate(exact, surface->n_crossed * sizeof *at);
    if (exact->has_failed) return;
    for (uint32_t i = 0; i < surface->n_crossed; i++) at[i] = surface->first_crossing[i];
    ct_crossing **const to = surface->crossings;
    const uint32_t *const crossed_as = surface->crossed_as;
    for (uint32_t w = exact->first_worker; w < exact->end_worker; w++)
        for (int of = b; of <= last_list_of(exact, b); of++) {
            const struct taken_list from = list_taken(exact, w, b, of);
            for (size_t i = 0; i < from.n; i++) {
                if (CT_POLL_EVERY(i, GATHER_POLL) && ct_exact_is_cancelled(exact, "crossings", i)) return;
                if (is_taken(&from, &from.list[i]))
                    to[at[crossed_as[from.list[i].triangle / CT_CLUSTER_TRIANGLES] - 1]++] = &from.list[i];
            }
        }
}

/* What a body's crossings are totalled into. */
static void allocate_totals(ct_exact_pair *exact, int b) {
    const ct_clusters *clusters = exact->part[b].body.topology->clusters;
    ct_exact_surface *surface = &exact->part[b].surface[exact->pass];
    for (uint32_t i = 0; i < surface->n_crossed && !exact->has_failed; i++) {
        const size_t n = surface->first_crossing[i + 1] - surface->first_crossing[i];
        const size_t most = n < CT_CLUSTER_TRIANGLES ? n : CT_CLUSTER_TRIANGLES;
        const uint32_t *first_vertex = &clusters->first_vertex[surface->crossed_clusters[i]];
        if (CT_POLL_EVERY(i, CT_CLUSTER_POLL) && ct_exact_is_cancelled(exact, "crossings", i)) return;
        surface->crossed[i].triangles = ct_exact_allocate(exact, most * sizeof *surface->crossed[i].triangles);
        surface->crossed[i].winding = ct_exact_allocate(exact, (first_vertex[1] - first_vertex[0]) * sizeof(int32_t));
    }
}

/* Sorts the threads' crossings of a body by cluster. */
static void gather_crossings(ct_exact_pair *exact, int b) {
    const uint32_t n_clusters = exact->part[b].body.topology->clusters->n;
    uint32_t *count = ct_exact_allocate_zeroed(exact, n_clusters * sizeof *count);
    uint64_t *is_crossed = ct_exact_allocate_zeroed(exact, ct_count_set_words(n_clusters) * sizeof *is_crossed);
    if (exact->has_failed) return;
    const size_t n = count_crossings(exact, b, count, is_crossed);
    if (b == 0 && !exact->is_self) exact->pair->fragments += n;
    if (!exact->has_failed) list_crossed(exact, b, count, is_crossed, n);
    if (!exact->has_failed) sort_by_cluster(exact, b);
    if (!exact->has_failed) allocate_totals(exact, b);
}

/* ---- both bodies ---- */

enum { TOTAL_CHUNK = 16 };

static void total_chunk(void *argument, uint32_t i, uint32_t worker) {
    (void)worker;
    ct_exact_pair *exact = argument;
    const uint32_t n[2] = {exact->part[0].surface[exact->pass].n_crossed,
                           exact->part[1].surface[exact->pass].n_crossed};
    const ct_exact_chunk chunk = ct_exact_chunk_at(i, n, TOTAL_CHUNK);
    ct_exact_surface *surface = &exact->part[chunk.part].surface[exact->pass];
    const ct_topology *topology = exact->part[chunk.part].body.topology;
    for (uint32_t c = chunk.first; c < chunk.end; c++) {
        if (exact->has_failed || ct_exact_is_cancelled(exact, "crossings", surface->first_crossing[c])) return;
        const size_t first = surface->first_crossing[c], n_crossings = surface->first_crossing[c + 1] - first;
        const uint32_t cluster = surface->crossed_clusters[c];
        if (exact->is_self) { /* it has winding numbers of triangles instead */
            const uint32_t *first_vertex = topology->clusters->first_vertex + cluster;
            ct_sum_crossings(cluster, surface->crossings + first, n_crossings, &surface->crossed[c]);
            memset(surface->crossed[c].winding, 0, (first_vertex[1] - first_vertex[0]) * sizeof(int32_t));
            continue;
        }
        const bool is_consistent =
            ct_total_crossings(topology, cluster, surface->crossings + first, n_crossings, &surface->crossed[c]);
        assert(is_consistent || ct_is_cancelled()); /* what is cancelled is not summed up */
        (void)is_consistent;
    }
}

/* Adds up what the threads' lists have besides crossings. */
static void note_lists(ct_exact_pair *exact) {
    uint64_t n_inconsistent = 0;
    for (uint32_t w = exact->first_worker; w < exact->end_worker; w++) {
        const ct_crossing_lists *lists = &ct_exact_scratch_of(exact->workspace, w)->lists;
        exact->has_ties |= lists->has_ties;
        n_inconsistent += lists->n_inconsistent;
        ct_add_left_out(&exact->left_out[exact->pass], &lists->left_out[exact->pass]);
        if (exact->is_self) exact->pair->fragments += lists->n[0];
    }
    assert(n_inconsistent == 0);
    (void)n_inconsistent;
}

void ct_exact_cross(ct_exact_pair *exact) {
    if (exact->has_failed) return;
    ct_enter_phase("crossing triangles");
    if (exact->pass == 0) cross_clusters(exact);
    note_lists(exact);
    ct_enter_phase("summing crossings");
    for (int b = 0; b < ct_exact_count_surfaces(exact) && !exact->has_failed; b++) gather_crossings(exact, b);
    const uint32_t n[2] = {exact->part[0].surface[exact->pass].n_crossed,
                           exact->part[1].surface[exact->pass].n_crossed};
    ct_exact_for_each(exact, ct_exact_count_chunks(n, TOTAL_CHUNK), total_chunk);
}
