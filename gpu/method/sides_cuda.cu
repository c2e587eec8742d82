/* sides_cuda.cu - bodies with themselves: brings their sums to the host, which finds the two sides of each
 * (contact/sides.h), and has the device move the sums of part 1. Between the two the batch waits for the host, which no
 * batch without such bodies does. */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/method/device_cuda.cuh"

extern "C" {
#include "gpu/contact/sides.h"
}

namespace {

/* A batch whose sums are split. */
struct splitter {
    ct_device *device;
    ct_workspace *workspace;
    const ct_answer_tables *b;
    const ct_side_source *source;
    ct_gpu_need *need;
    ct_gpu_counts counts;
    ct_side_tables sides;   /* on the device */
    const ct_body **bodies; /* [sides.n] */
};

bool wait(const splitter *s, const char *what) {
    return ct_gpu_wait(s->device, s->workspace, what);
}

bool copy_out(const splitter *s, void *to, const void *from, uint64_t bytes) {
    return ct_gpu_copy_out(s->device, s->workspace, to, from, bytes, "copying bodies with themselves");
}

bool copy_in(const splitter *s, void *to, const void *from, uint64_t bytes) {
    return ct_gpu_copy_in(s->device, s->workspace, to, from, bytes, "copying sides");
}

/* The pinned memory is not kept when it grows. */
char *reserve_host(const splitter *s, uint64_t bytes) {
    s->need->what = "bodies with themselves, on the host";
    s->need->bytes = bytes;
    return ct_gpu_reserve_pinned(s->device, s->workspace, &s->workspace->sides_host, bytes)
               ? (char *)s->workspace->sides_host.host
               : NULL;
}

bool read_counts(splitter *s) {
    char *host = reserve_host(s, sizeof s->counts);
    if (!host || !copy_out(s, host, s->b->counts, sizeof s->counts) || !wait(s, "finding spans")) return false;
    memcpy(&s->counts, host, sizeof s->counts);
    return true;
}

const ct_body *body_of(const splitter *s, const ct_gpu_pair *pair) {
    ct_step **steps = (ct_step **)s->workspace->members.data;
    const ct_gpu_step *sent = (const ct_gpu_step *)s->workspace->steps.data + pair->step;
    return steps[pair->step]->scene->bodies[pair->body[0] - sent->first_body];
}

/* Whether the pair is divided. */
bool is_divided(const splitter *s, const ct_gpu_pair *pair) {
    if (pair->body[0] != pair->body[1]) return false;
    return !s->source->needs || ((ct_step **)s->workspace->members.data)[pair->step]->want & s->source->needs;
}

/* Fills `list` with the bodies with themselves that have a candidate. False: no memory, or the device is lost. */
bool list_selves(splitter *s, ct_gpu_self **list) {
    const uint64_t n = s->counts.pairs, candidates = (n * sizeof(ct_gpu_pair) + 7) / 8 * 8, each = s->source->per_pair;
    char *host = reserve_host(s, candidates + (each * n + 1) * sizeof(uint64_t));
    if (!host || !copy_out(s, host, s->b->pairs, n * sizeof(ct_gpu_pair)) ||
        !copy_out(s, host + candidates, s->source->offset, (each * n + 1) * sizeof(uint64_t)) ||
        !wait(s, "copying pairs"))
        return false;
    const ct_gpu_pair *pairs = (const ct_gpu_pair *)host;
    const uint64_t *offset = (const uint64_t *)(host + candidates);
    *list = (ct_gpu_self *)malloc((n + 1) * sizeof **list);
    s->bodies = (const ct_body **)malloc((n + 1) * sizeof *s->bodies);
    if (!*list || !s->bodies) return false;
    for (uint64_t p = 0; p < n; p++) {
        if (!is_divided(s, &pairs[p]) || offset[each * p] == offset[each * (p + 1)]) continue;
        const uint64_t i = s->sides.n++;
        const uint64_t candidate = each == 1 ? offset[p] : p;
        const ct_gpu_self self = {s->sides.n_rows, (uint32_t)candidate, (uint32_t)p};
        (*list)[i] = self;
        s->bodies[i] = body_of(s, &pairs[p]);
        s->sides.n_rows += s->bodies[i]->resident->n_vertices;
    }
    return true;
}

bool find_part_1(const splitter *s, const ct_body *body, const void *facts, const int64_t (*sums)[3],
                 uint8_t *is_part_1) {
    ct_weight_units units;
    ct_side_rows rows = {ct_mesh_triangles(body->mesh), body->resident->n_triangles, body->resident->n_vertices, sums,
                         0};
    s->source->read_facts(facts, &units, &rows.rounding);
    return ct_find_part_1(&rows, &units, is_part_1);
}

/* Brings the sums to the host and finds the sides: the host's memory then has first the list, then a row for each
 * vertex, from `facts` on the facts of each body, and from `is_part_1` on a byte for each vertex. Behind the list the
 * device's is alike. */
bool find_sides(splitter *s, const ct_gpu_self *list) {
    s->sides.facts = s->source->facts;
    s->sides.fact_words = s->source->fact_bytes / sizeof(uint32_t);
    s->sides.fact_stride = s->source->fact_stride;
    const uint64_t fact_step = ct_own_fact_words(&s->sides) * sizeof(uint32_t);
    const uint64_t n = s->sides.n, rows = s->sides.n_rows, list_bytes = n * sizeof *list,
                   facts = list_bytes + rows * sizeof(int64_t[3]), is_part_1 = facts + n * fact_step;
    ct_workspace *workspace = s->workspace;
    char *host = reserve_host(s, is_part_1 + rows);
    if (!host) return false;
    s->need->what = "bodies with themselves";
    s->need->bytes = is_part_1 + rows;
    if (!ct_gpu_reserve(s->device, workspace, &workspace->side_list, list_bytes) ||
        !ct_gpu_reserve(s->device, workspace, &workspace->side_sums, is_part_1 + rows - list_bytes))
        return false;
    s->sides.list = (const ct_gpu_self *)workspace->side_list.data;
    s->sides.sums = (int64_t *)workspace->side_sums.data;
    s->sides.own_facts = (uint32_t *)(s->sides.sums + 3 * rows);
    s->sides.is_part_1 = (uint8_t *)(s->sides.own_facts + n * ct_own_fact_words(&s->sides));
    memcpy(host, list, list_bytes);
    if (!copy_in(s, workspace->side_list.data, host, list_bytes)) return false;
    s->device->launches += ct_cuda_gather_sides(s->b, &s->sides, ct_gpu_grid_of(s->device, rows), workspace->stream);
    if (!copy_out(s, host + list_bytes, s->sides.sums, is_part_1 - list_bytes) ||
        !wait(s, "copying sums of bodies with themselves"))
        return false;
    bool ok = true;
    for (uint64_t i = 0; i < n && ok; i++)
        ok = find_part_1(s, s->bodies[i], host + facts + i * fact_step,
                         (const int64_t(*)[3])(host + list_bytes) + list[i].first_row,
                         (uint8_t *)(host + is_part_1) + list[i].first_row);
    return ok && copy_in(s, s->sides.is_part_1, host + is_part_1, rows);
}

} // namespace

bool ct_gpu_split_sides(ct_device *device, ct_workspace *workspace, const ct_answer_tables *b,
                        const ct_side_source *source, ct_side_tables *sides, ct_gpu_need *need) {
    const ct_trace_range range("sides");
    splitter s = {};
    s.device = device;
    s.workspace = workspace;
    s.b = b;
    s.source = source;
    s.need = need;
    if (!read_counts(&s)) return false;
    if (source->has_shortage(&s.counts, &b->capacity)) return true;
    ct_gpu_self *list = NULL;
    const bool ok = list_selves(&s, &list) && (!s.sides.n || find_sides(&s, list));
    if (ok && s.sides.n) device->launches += ct_cuda_split_sides(b, &s.sides, workspace->grid, workspace->stream);
    *sides = s.sides;
    free(list);
    free(s.bodies);
    return ok;
}
