/* candidates.cu - for test_candidates_cuda.c: runs the stages from the plan to the answer on tables filled by hand,
 * with several contact candidates per pair and a pair of a body with itself. No method has either yet, so the span
 * stage gives all spans to a pair's first candidate; a kernel of this test moves sums from there to another candidate.
 */
#include "gpu/methods/ldi/ldi_cuda.cuh"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace {

enum : unsigned { GRID = 5, N_BODIES = 3, N_PAIRS = 2, MAX_CANDIDATES = 3, RESOLUTION = 12 };
enum : uint64_t { MEMORY = 8 << 20, MAX_ENTRIES = 256 };

/* Cube k has its lower corner at k / 2 on each axis, and side 1. */
enum { CUBE_VERTICES = 8, CUBE_TRIANGLES = 12 };
const uint32_t cube_triangles[CUBE_TRIANGLES][3] = {{0, 2, 1}, {1, 2, 3}, {4, 5, 6}, {5, 7, 6}, {0, 1, 4}, {1, 5, 4},
                                                    {2, 6, 3}, {3, 6, 7}, {0, 4, 2}, {2, 4, 6}, {1, 3, 5}, {3, 7, 5}};

/* Bodies 0 and 1 are cubes 0 and 1, body 2 is both of them in one mesh. Pair 0 is of bodies 0 and 1, pair 1 of body 2
 * with itself. */
const uint32_t pairs[N_PAIRS][2] = {{0, 1}, {2, 2}};

/* What to do with the sums that the span stage leaves: of each pair's n_candidates the first gives one `divisor`-th of
 * all its sums to number `to`. */
struct move_sums {
    uint32_t n_candidates, to, divisor;
};

struct answer {
    ct_gpu_counts counts;
    ct_gpu_step_totals totals;
    ct_gpu_contact contacts[N_PAIRS * MAX_CANDIDATES];
    uint32_t vertices[MAX_ENTRIES];
    double gradient[MAX_ENTRIES][3], weights[MAX_ENTRIES], forces[MAX_ENTRIES][3];
    bool is_clean;   /* rays, sums and page table are zero again */
    bool is_claimed; /* every page of a first candidate is claimed in the others as well */
};

CT_KERNEL move_to_candidate(const ct_answer_tables b, move_sums how, bool *is_claimed) {
    CT_THREADS(t) {
        if (t > 0 || CT_BLOCK_INDEX > 0) continue;
        for (uint64_t p = 0; p < N_PAIRS; p++) {
            const uint64_t from = b.candidate_offset[p], to = from + how.to;
            for (uint64_t w = 0; w < 3; w++) {
                const int64_t moved = b.span_length[3 * from + w] / how.divisor;
                b.span_length[3 * from + w] -= moved;
                b.span_length[3 * to + w] += moved;
                b.span_count[3 * to + w] = b.span_count[3 * from + w];
            }
            for (uint64_t k = 0; k < 2; k++)
                for (uint32_t v = 0; v < b.bodies[b.pairs[p].body[k]]->n_vertices; v++) {
                    const uint32_t page = *ct_page_slot(b, 2 * from + k, v);
                    for (uint64_t c = from; c < from + how.n_candidates; c++)
                        *is_claimed =
                            *is_claimed && (page == CT_NO_PAGE) == (*ct_page_slot(b, 2 * c + k, v) == CT_NO_PAGE);
                    if (page == CT_NO_PAGE || !*is_claimed) continue;
                    int64_t *x = ct_vertex_sums(b, page, v);
                    int64_t *y = ct_vertex_sums(b, *ct_page_slot(b, 2 * to + k, v), v);
                    for (int i = 0; i < 3; i++) {
                        const int64_t moved = x[i] / how.divisor;
                        x[i] -= moved;
                        y[i] += moved;
                    }
                }
        }
    }
}

/* ---- tables in memory that host and device share ---- */

struct arena {
    char *host, *device;
    uint64_t used;
};

/* n zeroed elements: *on_host and the returned address on the device are the same memory. */
template <class T> T *take(arena *a, uint64_t n, T **on_host = nullptr) {
    const uint64_t first = (a->used + 63) / 64 * 64;
    a->used = first + n * sizeof(T);
    if (a->used > MEMORY) abort();
    if (on_host) *on_host = (T *)(a->host + first);
    return (T *)(a->device + first);
}

void fill_body(arena *a, ct_gpu_body *body, int first_cube, int n_cubes) {
    float *positions;
    uint32_t *triangles;
    memset(body, 0, sizeof *body);
    body->n_vertices = (uint32_t)(n_cubes * CUBE_VERTICES);
    body->n_triangles = (uint32_t)(n_cubes * CUBE_TRIANGLES);
    body->positions = take(a, 3 * body->n_vertices, &positions);
    body->triangles = take(a, 3 * body->n_triangles, &triangles);
    for (int c = 0; c < n_cubes; c++) {
        for (int v = 0; v < CUBE_VERTICES; v++)
            for (int k = 0; k < 3; k++)
                positions[3 * (c * CUBE_VERTICES + v) + k] = (float)(0.5 * (first_cube + c) + (v >> k & 1));
        for (int t = 0; t < CUBE_TRIANGLES; t++)
            for (int k = 0; k < 3; k++)
                triangles[3 * (c * CUBE_TRIANGLES + t) + k] = (uint32_t)(c * CUBE_VERTICES) + cube_triangles[t][k];
    }
    for (int k = 0; k < 3; k++) {
        body->box[k] = ct_order_key(0.5 * first_cube);
        body->box[3 + k] = ct_order_key(0.5 * (first_cube + n_cubes - 1) + 1);
    }
}

void fill_scene(arena *a, ct_span_tables *b, uint32_t n_candidates) {
    ct_gpu_step *step;
    ct_gpu_body *bodies, **list;
    ct_gpu_pair *pair;
    uint64_t *row_offset;
    ct_gpu_body *const on_device = take(a, N_BODIES, &bodies);
    b->steps = take(a, 1, &step);
    b->bodies = take(a, N_BODIES, &list);
    b->pairs = take(a, N_PAIRS, &pair);
    b->row_offset = take(a, N_BODIES + 1, &row_offset);
    b->n_steps = 1;
    b->n_bodies = N_BODIES;
    fill_body(a, &bodies[0], 0, 1);
    fill_body(a, &bodies[1], 1, 1);
    fill_body(a, &bodies[2], 0, 2);
    for (unsigned i = 0; i < N_BODIES; i++) list[i] = on_device + i;
    step->bodies = b->bodies;
    step->n_bodies = N_BODIES;
    step->want = CT_WANT_ALL | CT_WANT_SPANS;
    step->n_candidates = n_candidates;
    step->stiffness = 1000;
    for (int k = 0; k < 3; k++) step->resolution[k] = RESOLUTION;
    for (unsigned p = 0; p < N_PAIRS; p++)
        for (int k = 0; k < 2; k++) pair[p].body[k] = pairs[p][k];
    for (unsigned i = 0; i <= N_BODIES; i++) row_offset[i] = i == 0 ? 0 : i < N_BODIES ? 1 : 2;
}

/* Room for more than any case needs. */
void fill_tables(arena *a, ct_span_tables *b) {
    enum : uint64_t { CANDIDATES = N_PAIRS * MAX_CANDIDATES, CHUNKS = 256, FRAGMENTS = 16384, ANSWER = 1 << 20 };
    ct_gpu_capacity capacity = {};
    capacity.pairs = N_PAIRS;
    capacity.candidates = CANDIDATES;
    capacity.chunks = capacity.vertex_chunks = capacity.near_clusters = CHUNKS;
    capacity.rays = 3 * N_PAIRS * RESOLUTION * RESOLUTION;
    capacity.pages = 64;
    capacity.fragments = capacity.spans = FRAGMENTS;
    capacity.large_triangles = 256;
    capacity.entries = MAX_ENTRIES;
    capacity.answer_bytes = ANSWER;
    ct_gpu_counts *counts;
    b->capacity = capacity;
    b->counts = take(a, 1, &counts);
    counts->pairs = N_PAIRS;
    b->plans = take<ct_gpu_plan>(a, N_PAIRS);
    b->candidate_offset = take<uint64_t>(a, N_PAIRS + 1);
    b->cluster_offset = take<uint64_t>(a, 2 * N_PAIRS + 1);
    b->pair_vertex_chunk_offset = take<uint64_t>(a, N_PAIRS + 1);
    b->ray_chunk_offset = take<uint64_t>(a, 3 * N_PAIRS + 1);
    b->ray_offset = take<uint64_t>(a, 3 * N_PAIRS + 1);
    b->candidate_pair = take<uint32_t>(a, CANDIDATES);
    b->vertex_chunk_offset = take<uint64_t>(a, 2 * CANDIDATES + 1);
    b->span_length = take<int64_t>(a, 3 * CANDIDATES);
    b->span_count = take<int64_t>(a, 3 * CANDIDATES);
    b->inverted_length = take<int64_t>(a, 3 * CANDIDATES);
    b->chunks = take<ct_gpu_chunk>(a, CHUNKS);
    b->near_clusters = take<ct_gpu_near_cluster>(a, CHUNKS);
    b->step_refused = take<uint32_t>(a, 1);
    b->step_box_tests = take<uint64_t>(a, 1);
    b->page_table = take<uint32_t>(a, CT_CHUNK_PAGES * CHUNKS);
    b->page_sums = take<int64_t>(a, 3 * CT_PAGE * capacity.pages);
    b->rays = take<ct_gpu_ray>(a, capacity.rays);
    b->shards = take<ct_gpu_shard>(a, CT_SHARDS);
    b->fragments = take<ct_gpu_fragment>(a, FRAGMENTS);
    b->next = take<uint32_t>(a, FRAGMENTS);
    b->large_triangles = take<ct_gpu_large_triangle>(a, capacity.large_triangles);
    b->step_fragments = take<uint64_t>(a, 1);
    b->spans = take<ct_gpu_span>(a, FRAGMENTS);
    b->part_sums = take<ct_gpu_part_sums>(a, 2 * CANDIDATES);
    b->contact_offset = take<uint64_t>(a, CANDIDATES + 1);
    b->entry_count = take<uint32_t>(a, CHUNKS);
    b->entry_offset = take<uint64_t>(a, CHUNKS + 1);
    b->entry_vertices = take<uint32_t>(a, MAX_ENTRIES);
    b->entry_sums = take<int64_t>(a, 3 * MAX_ENTRIES);
    b->step_entries = take<ct_gpu_step_entries>(a, 1);
    b->answer = take<char>(a, ANSWER);
    b->out_steps = (ct_gpu_step_totals *)(b->answer + sizeof(ct_gpu_counts));
    b->out_contacts = (ct_gpu_contact *)(b->out_steps + 1);
}

/* ---- a run ---- */

#define TRY(call)                                                                                                      \
    if (cudaError_t error_ = (call)) return fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_)), false

template <class T> const T *on_host(const arena *a, const T *on_device) {
    return (const T *)(a->host + ((const char *)on_device - a->device));
}

bool is_zero(const void *memory, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i++)
        if (((const char *)memory)[i]) return false;
    return true;
}

bool read_answer(const arena *a, const ct_span_tables *b, answer *to) {
    const char *first = on_host(a, b->answer);
    const ct_gpu_step_totals *totals = on_host(a, b->out_steps);
    memcpy(&to->counts, first, sizeof to->counts);
    to->totals = *totals;
    if (ct_gpu_shortage(&to->counts, &b->capacity)) return fprintf(stderr, "a table is too short\n"), false;
    const uint64_t n = totals->n_entries;
    const ct_gpu_array_layout at = ct_gpu_lay_out_arrays(CT_WANT_ALL, n);
    memcpy(to->contacts, on_host(a, b->out_contacts), totals->n_contacts * sizeof *to->contacts);
    memcpy(to->gradient, first + totals->arrays + at.gradient, n * sizeof *to->gradient);
    memcpy(to->forces, first + totals->arrays + at.forces, n * sizeof *to->forces);
    memcpy(to->weights, first + totals->arrays + at.weights, n * sizeof *to->weights);
    memcpy(to->vertices, first + totals->arrays + at.vertices, n * sizeof *to->vertices);
    to->is_clean = is_zero(on_host(a, b->rays), b->capacity.rays * sizeof *b->rays) &&
                   is_zero(on_host(a, b->page_table), CT_CHUNK_PAGES * b->capacity.vertex_chunks * sizeof(uint32_t)) &&
                   is_zero(on_host(a, b->page_sums), 3 * CT_PAGE * b->capacity.pages * sizeof(int64_t));
    return true;
}

bool run(move_sums how, answer *to) {
    arena a = {nullptr, nullptr, 0};
    cudaStream_t stream;
    TRY(cudaSetDevice(0));
    TRY(cudaHostAlloc(&a.host, MEMORY, cudaHostAllocMapped));
    TRY(cudaHostGetDevicePointer(&a.device, a.host, 0));
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    memset(a.host, 0, MEMORY);
    memset(to, 0, sizeof *to);
    ct_span_tables b = {};
    bool *is_claimed;
    bool *const is_claimed_on_device = take(&a, 1, &is_claimed);
    *is_claimed = true;
    fill_scene(&a, &b, how.n_candidates);
    fill_tables(&a, &b);
    unsigned n = ct_cuda_plan(&b, GRID, stream);
    n += ct_cuda_raster(&b, GRID, stream);
    n += ct_cuda_spans(&b, GRID, stream);
    n += CT_LAUNCH(move_to_candidate, GRID, stream, b, how, is_claimed_on_device);
    n += ct_cuda_answer(&b, GRID, stream);
    TRY(cudaGetLastError());
    TRY(cudaStreamSynchronize(stream));
    const bool ok = n == 11 && read_answer(&a, &b, to);
    to->is_claimed = *is_claimed;
    TRY(cudaStreamDestroy(stream));
    TRY(cudaFreeHost(a.host));
    return ok;
}

/* ---- what must come of it ---- */

bool check(bool is_true, const char *what) {
    if (!is_true) fprintf(stderr, "wrong: %s\n", what);
    return is_true;
}
#define CHECK(condition) check(condition, #condition)

bool is_near(double x, double y, double most) {
    return fabs(x - y) <= most;
}

/* Adds the entries of a contact that begin at number `first` to `sum` per part and vertex; returns where they end. */
uint64_t add_entries(const answer *a, const ct_gpu_contact *found, uint64_t first, double sum[2][16][3]) {
    for (int k = 0; k < 2; k++)
        for (uint64_t i = 0; i < found->contact.count[k]; i++, first++)
            for (int j = 0; j < 3; j++) sum[k][a->vertices[first]][j] += a->gradient[first][j];
    return first;
}

/* Newton's third law. */
bool is_balanced(const double sum[2][16][3]) {
    double all[3] = {0, 0, 0};
    for (int k = 0; k < 2; k++)
        for (int v = 0; v < 16; v++)
            for (int j = 0; j < 3; j++) all[j] += sum[k][v][j];
    return is_near(all[0], 0, 1e-8) && is_near(all[1], 0, 1e-8) && is_near(all[2], 0, 1e-8);
}

/* The sum of the gradient over the vertices of a cube, which moves into the other along all axes: each view sees a
 * square of side 1/2 of it. */
bool is_force_of_cube(const double gradient[CUBE_VERTICES][3], double sign) {
    double sum[3] = {0, 0, 0};
    for (int v = 0; v < CUBE_VERTICES; v++)
        for (int j = 0; j < 3; j++) sum[j] += sign * gradient[v][j];
    return is_near(sum[0], 0.25, 1e-8) && is_near(sum[1], 0.25, 1e-8) && is_near(sum[2], 0.25, 1e-8);
}

/* One candidate a pair. The cubes share a cube of side 1/2, on whose faces no sample lies. */
bool is_right_alone(const answer *a) {
    bool ok = CHECK(a->totals.n_contacts == N_PAIRS) && CHECK(a->counts.candidates == N_PAIRS) && CHECK(a->is_clean);
    uint64_t entry = 0;
    for (unsigned p = 0; p < N_PAIRS && ok; p++) {
        const ct_gpu_contact *found = &a->contacts[p];
        double sum[2][16][3] = {};
        entry = add_entries(a, found, entry, sum);
        ok = CHECK(found->candidate == p) && CHECK(found->body[0] == pairs[p][0]) &&
             CHECK(found->body[1] == pairs[p][1]) && CHECK(found->contact.index == 0) &&
             CHECK(is_near(found->contact.volume, 0.125, 1e-6)) && CHECK(is_balanced(sum)) &&
             CHECK(is_force_of_cube(sum[0], 1)) &&
             CHECK(is_force_of_cube(p == 0 ? sum[1] : sum[0] + CUBE_VERTICES, -1));
    }
    return ok && CHECK(entry == a->totals.n_entries) && CHECK(a->contacts[1].contact.count[1] == 0);
}

/* All sums were moved: the other candidate is the pair's only contact, and all its bits are those of `alone`. */
bool is_right_moved(const answer *a, move_sums how, const answer *alone) {
    const uint64_t n = alone->totals.n_entries;
    bool ok = CHECK(a->is_claimed) && CHECK(a->is_clean) && CHECK(a->totals.n_contacts == N_PAIRS) &&
              CHECK(a->counts.candidates == N_PAIRS * how.n_candidates) && CHECK(a->totals.n_entries == n) &&
              CHECK(!memcmp(a->vertices, alone->vertices, n * sizeof *a->vertices)) &&
              CHECK(!memcmp(a->gradient, alone->gradient, n * sizeof *a->gradient)) &&
              CHECK(!memcmp(a->weights, alone->weights, n * sizeof *a->weights)) &&
              CHECK(!memcmp(a->forces, alone->forces, n * sizeof *a->forces));
    for (unsigned p = 0; p < N_PAIRS && ok; p++)
        ok = CHECK(a->contacts[p].candidate == p * how.n_candidates + how.to) &&
             CHECK(!memcmp(a->contacts[p].body, alone->contacts[p].body, sizeof a->contacts[p].body)) &&
             CHECK(!memcmp(&a->contacts[p].contact, &alone->contacts[p].contact, sizeof a->contacts[p].contact));
    return ok;
}

/* A part of the sums was moved: two contacts a pair, which sum to the pair's. */
bool is_right_divided(const answer *a, move_sums how, const answer *alone) {
    bool ok = CHECK(a->is_claimed) && CHECK(a->is_clean) && CHECK(a->totals.n_contacts == 2 * N_PAIRS) &&
              CHECK(a->totals.pairs == N_PAIRS) && CHECK(a->totals.fragments == alone->totals.fragments);
    uint64_t entry = 0, entry_alone = 0;
    for (unsigned p = 0; p < N_PAIRS && ok; p++) {
        const ct_gpu_contact *found = &a->contacts[2 * p], *whole = &alone->contacts[p];
        double sum[2][16][3] = {}, expected[2][16][3] = {};
        entry_alone = add_entries(alone, whole, entry_alone, expected);
        for (unsigned i = 0; i < 2 && ok; i++) {
            double part[2][16][3] = {};
            const uint64_t first = entry;
            entry = add_entries(a, &found[i], first, part);
            add_entries(a, &found[i], first, sum);
            ok = CHECK(found[i].candidate == p * how.n_candidates + i * how.to) && CHECK(found[i].contact.index == i) &&
                 CHECK(found[i].body[0] == pairs[p][0]) && CHECK(found[i].body[1] == pairs[p][1]) &&
                 CHECK(is_near(found[i].contact.volume * (i ? how.divisor : how.divisor / (how.divisor - 1.0)),
                               whole->contact.volume, 1e-8)) &&
                 CHECK(is_balanced(part)) && CHECK(found[i].contact.area > 0 || p == 1);
        }
        for (int k = 0; k < 2; k++)
            for (int v = 0; v < 16; v++)
                for (int j = 0; j < 3; j++) ok = ok && CHECK(is_near(sum[k][v][j], expected[k][v][j], 1e-12));
    }
    return ok && CHECK(entry == a->totals.n_entries);
}

answer alone, other; /* large */

} // namespace

extern "C" bool candidates_found_device(void) {
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess && n > 0;
}

extern "C" bool candidates_are_right(void) {
    const move_sums moved[] = {{2, 1, 1}, {3, 1, 1}, {3, 2, 1}}, divided[] = {{2, 1, 3}, {3, 2, 4}};
    if (!run({1, 0, 1}, &alone) || !is_right_alone(&alone)) return false;
    for (const move_sums &how : moved)
        if (!run(how, &other) || !is_right_moved(&other, how, &alone)) return false;
    for (const move_sums &how : divided)
        if (!run(how, &other) || !is_right_divided(&other, how, &alone)) return false;
    return true;
}
