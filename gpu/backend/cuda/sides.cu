/* sides.cu - bodies with themselves: brings their sums to the host, which finds the two sides of each
 * (contact/sides.h), and has the device move the sums of part 1. Between the two the batch waits for the host, which no
 * batch without such bodies does. */
#include "gpu/backend/cuda/device.cuh"
#include "gpu/backend/cuda/trace.cuh"
#include "gpu/contact/sides_cuda.cuh"

extern "C" {
#include "gpu/contact/sides.h"
}

namespace {

/* A batch whose sums are split. */
struct splitter {
    ct_device *device;
    ct_workspace *workspace;
    const ct_batch *b;
    ct_gpu_need *need;
    ct_gpu_counts counts;
    ct_side_tables sides;   /* on the device */
    const ct_body **bodies; /* [sides.n] */
};

bool wait(const splitter *s, const char *what) {
    return ct_gpu_ok(s->device, cudaStreamSynchronize(s->workspace->stream), what);
}

bool copy_out(const splitter *s, void *to, const void *from, uint64_t bytes) {
    s->device->downloaded += bytes;
    return !bytes ||
           ct_gpu_ok(s->device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s->workspace->stream),
                     "copying bodies with themselves");
}

bool copy_in(const splitter *s, void *to, const void *from, uint64_t bytes) {
    s->device->uploaded += bytes;
    return !bytes ||
           ct_gpu_ok(s->device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, s->workspace->stream),
                     "copying sides");
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

/* Fills `list` with the bodies with themselves that have a candidate, and `of` with their pairs. False: no memory, or
 * the device is lost. */
bool list_selves(splitter *s, ct_gpu_self **list, uint64_t **of) {
    const uint64_t n = s->counts.pairs, candidates = (n * sizeof(ct_gpu_pair) + 7) / 8 * 8;
    char *host = reserve_host(s, candidates + (n + 1) * sizeof(uint64_t));
    if (!host || !copy_out(s, host, s->b->pairs, n * sizeof(ct_gpu_pair)) ||
        !copy_out(s, host + candidates, s->b->candidate_offset, (n + 1) * sizeof(uint64_t)) ||
        !wait(s, "copying pairs"))
        return false;
    const ct_gpu_pair *pairs = (const ct_gpu_pair *)host;
    const uint64_t *candidate = (const uint64_t *)(host + candidates);
    *list = (ct_gpu_self *)malloc((n + 1) * sizeof **list);
    *of = (uint64_t *)malloc((n + 1) * sizeof **of);
    s->bodies = (const ct_body **)malloc((n + 1) * sizeof *s->bodies);
    if (!*list || !*of || !s->bodies) return false;
    for (uint64_t p = 0; p < n; p++) {
        if (pairs[p].body[0] != pairs[p].body[1] || candidate[p] == candidate[p + 1]) continue;
        const uint64_t i = s->sides.n++;
        const ct_gpu_self self = {s->sides.n_rows, (uint32_t)candidate[p], 0};
        (*list)[i] = self;
        (*of)[i] = p;
        s->bodies[i] = body_of(s, &pairs[p]);
        s->sides.n_rows += s->bodies[i]->resident->n_vertices;
    }
    return true;
}

/* Brings the sums to the host and finds the sides: the host's memory then has, from `plans` on, a plan for each body,
 * from `sums` on a row for each vertex, and from `is_part_1` on a byte for each. */
bool find_sides(splitter *s, const ct_gpu_self *list, const uint64_t *of) {
    const uint64_t n = s->sides.n, rows = s->sides.n_rows, list_bytes = n * sizeof *list,
                   plans = list_bytes + rows * sizeof(int64_t[3]), is_part_1 = plans + n * sizeof(ct_gpu_plan);
    ct_workspace *workspace = s->workspace;
    char *host = reserve_host(s, is_part_1 + rows);
    if (!host) return false;
    s->need->what = "bodies with themselves";
    s->need->bytes = list_bytes + rows * (sizeof(int64_t[3]) + 1);
    if (!ct_gpu_reserve(s->device, workspace, &workspace->side_list, list_bytes) ||
        !ct_gpu_reserve(s->device, workspace, &workspace->side_sums, rows * (sizeof(int64_t[3]) + 1)))
        return false;
    s->sides.list = (const ct_gpu_self *)workspace->side_list.data;
    s->sides.sums = (int64_t *)workspace->side_sums.data;
    s->sides.is_part_1 = (uint8_t *)(s->sides.sums + 3 * rows);
    memcpy(host, list, list_bytes);
    if (!copy_in(s, workspace->side_list.data, host, list_bytes)) return false;
    s->device->launches += ct_cuda_gather_sides(s->b, &s->sides, s->device->grid, workspace->stream);
    bool ok = copy_out(s, host + list_bytes, s->sides.sums, rows * sizeof(int64_t[3]));
    for (uint64_t i = 0; i < n; i++)
        ok = ok && copy_out(s, host + plans + i * sizeof(ct_gpu_plan), &s->b->plans[of[i]], sizeof(ct_gpu_plan));
    if (!ok || !wait(s, "copying sums of bodies with themselves")) return false;
    for (uint64_t i = 0; i < n && ok; i++) {
        const ct_resident *body = s->bodies[i]->resident;
        const ct_weight_units units = ct_frame_units(&((const ct_gpu_plan *)(host + plans))[i].window);
        const ct_side_rows of_body = {ct_mesh_triangles(s->bodies[i]->mesh), body->n_triangles, body->n_vertices,
                                      (const int64_t(*)[3])(host + list_bytes) + list[i].first_row};
        ok = ct_find_part_1(&of_body, &units, (uint8_t *)(host + is_part_1) + list[i].first_row);
    }
    return ok && copy_in(s, s->sides.is_part_1, host + is_part_1, rows);
}

} // namespace

bool ct_gpu_split_sides(ct_device *device, ct_workspace *workspace, const ct_batch *batch, ct_gpu_need *need) {
    const ct_trace_range range("sides");
    splitter s = {};
    s.device = device;
    s.workspace = workspace;
    s.b = batch;
    s.need = need;
    bool ok = read_counts(&s);
    if (!ok || ct_gpu_raster_shortage(&s.counts, &batch->capacity)) return ok;
    ct_gpu_self *list = NULL;
    uint64_t *of = NULL;
    ok = list_selves(&s, &list, &of) && (!s.sides.n || find_sides(&s, list, of));
    if (ok && s.sides.n) device->launches += ct_cuda_split_sides(batch, &s.sides, device->grid, workspace->stream);
    free(list);
    free(of);
    free(s.bodies);
    return ok;
}
