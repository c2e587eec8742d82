/* refine_cuda.cu - the method EBPI: plans the pairs of a batch and refines them, a group side by side (passes_cuda.cuh). Their
 * gradients' sums stay on the device for the answer's stage, which is that of LDI. */
#include "gpu/device/cuda/trace.cuh"
#include "gpu/methods/ebpi/passes_cuda.cuh"

extern "C" {
#include "gpu/contact/turned.h"
#include "gpu/mesh/adjacency.h"
#include "gpu/mesh/strays.h"
#include "gpu/methods/ebpi/turned_views.h"
}

namespace {

/* Pairs are refined together, as a group, that come to no more than this, or else one by one: the host keeps some 200 bytes
 * of tiles for each triangle, the device some 50 of coordinates and lists. */
enum : uint64_t { GROUP_PAIRS = 1024, GROUP_TRIANGLES = (uint64_t)1 << 20 };

/* How a step ended. */
struct step_totals {
    uint64_t rays;
    uint32_t passes, n_pairs, n_met;
    ct_ended ended;
};

ct_ebpi_scratch *scratch_of(const ct_workspace *workspace) {
    return (ct_ebpi_scratch *)workspace->room[CT_METHOD_EBPI].scratch;
}

/* ---- adjacency ---- */

/* The opposite half-edges of a body's mesh, on the device. NULL: no memory, or the device is lost. */
const uint32_t (*find_opposite(const ct_ebpi_run *run, const ct_body *body))[3] {
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

/* ---- a group ---- */

/* Plans the refinement of a pair. False: the step has an error. */
bool plan_pair(ct_ebpi_refined *pair) {
    const ct_step *step = pair->step;
    const ct_scene_settings *settings = &step->scene->settings;
    ct_ebpi_refinement *of = &pair->refinement;
    of->window = &pair->plan->window;
    of->tolerance = step->tolerance != 0 ? step->tolerance : settings->tolerance;
    of->tolerance_rel = settings->tolerance_rel;
    of->allocation = settings->allocation;
    of->ray_budget = settings->ray_budget ? settings->ray_budget : CT_DEFAULT_RAY_BUDGET;
    of->is_strict = settings->strict;
    ct_error why = {};
    if (!ct_ebpi_check_tolerance(of->tolerance, of->tolerance_rel, of->window, &why)) return true;
    ct_fail(&pair->step->error, why.status, why.field, "bodies %u and %u: %s", pair->body[0]->id, pair->body[1]->id,
            why.message);
    return false;
}

/* Memory for n pairs on the host. False: there is none. */
bool reserve_memories(ct_ebpi_scratch *scratch, uint64_t n) {
    while (scratch->memories.n < n) {
        ct_ebpi_memory *memory = ct_ebpi_memory_new();
        if (memory && ct_host_add(&scratch->memories, memory)) continue;
        ct_ebpi_memory_free(&memory);
        return false;
    }
    return true;
}

/* Plans a pair's views, and what the device has of it, but for coords. */
bool begin_pair(const ct_ebpi_run *run, ct_ebpi_refined *pair) {
    ct_ebpi_refinement *of = &pair->refinement;
    ct_ebpi_pair *to = &pair->on_device;
    run->need->what = "tiles, on the host";
    ct_ebpi_memory_use(pair->memory, of);
    if (!ct_ebpi_plan_views(of, (double)pair->n_triangles())) return false;
    to->window = pair->plan->window;
    for (int k = 0; k < 2; k++) {
        const ct_resident *resident = pair->body[k]->resident;
        to->body[k] = resident->body;
        to->triangles[k] = resident->mesh->triangles;
        to->n_vertices[k] = resident->n_vertices;
        to->n_triangles[k] = resident->n_triangles;
        to->opposite[k] = find_opposite(run, pair->body[k]);
        if (!to->opposite[k]) return false;
        for (int w = 0; w < 3; w++) of->view[w].initial[k] = pair->plan->initial_winding[k][w];
    }
    for (int w = 0; w < 3; w++) to->view[w] = of->view[w];
    return true;
}

/* Sends the pairs to the device, and snaps their vertices. */
bool send_pairs(ct_ebpi_run *run) {
    ct_ebpi_snap_tables tables = {};
    for (uint64_t i = 0; i < run->n; i++) {
        ct_ebpi_pair *pair = &run->pairs[i].on_device;
        pair->first_vertex = tables.n_vertices;
        tables.n_vertices += (uint64_t)pair->n_vertices[0] + pair->n_vertices[1];
    }
    tables.n_pairs = run->n;
    const uint64_t bytes = run->n * sizeof(ct_ebpi_pair);
    char *host = run->reserve_host(bytes);
    if (!host || !run->reserve(&run->scratch->pair_tables, bytes, "pairs") ||
        !run->reserve(&run->scratch->coords, tables.n_vertices * sizeof(int32_t[4]), "vertices"))
        return false;
    for (uint64_t i = 0; i < run->n; i++) {
        ct_ebpi_pair *pair = &run->pairs[i].on_device;
        pair->coords[0] = (int32_t(*)[4])run->scratch->coords.data + pair->first_vertex;
        pair->coords[1] = pair->coords[0] + pair->n_vertices[0];
        run->pairs[i].number = (uint32_t)i;
        memcpy(host + i * sizeof *pair, pair, sizeof *pair);
    }
    tables.pairs = (const ct_ebpi_pair *)run->scratch->pair_tables.data;
    if (!run->copy_in(run->scratch->pair_tables.data, host, bytes)) return false;
    run->device->launches +=
        ct_cuda_snap_ebpi(&tables, ct_gpu_grid_of(run->device, tables.n_vertices), run->workspace->stream);
    return run->wait("snapping vertices");
}

/* Refines pairs that are planned. */
bool refine(ct_ebpi_run *run, ct_ebpi_refined *pairs, uint64_t n) {
    run->pairs = pairs;
    run->n = n;
    for (uint64_t i = 0; i < n; i++)
        if (!begin_pair(run, &pairs[i])) return false;
    return !n || (send_pairs(run) && ct_ebpi_refine_side_by_side(run));
}

/* Refines the pairs of a group one by one, for which there was too little memory together: those whose spans are not added
 * yet, and from the start. */
bool refine_one_by_one(ct_ebpi_run *run, ct_ebpi_refined *pairs, uint64_t n) {
    ct_ebpi_scratch *scratch = run->scratch;
    if (!run->wait("refining tiles")) return false;
    for (ct_gpu_buffer *buffer : {&scratch->pair_tables, &scratch->coords, &scratch->counts, &scratch->faces[0],
                                  &scratch->faces[1], &scratch->tables, &scratch->scratch})
        ct_gpu_free_buffer(run->device, buffer);
    ct_gpu_free_pinned(run->device, &scratch->host);
    for (uint64_t i = 0; i < n; i++) {
        if (pairs[i].is_finished) continue;
        pairs[i].refinement = {};
        if (!plan_pair(&pairs[i]) || !refine(run, &pairs[i], 1)) return false;
    }
    return true;
}

void add_totals(const ct_ebpi_refinement *of, step_totals *to) {
    to->n_pairs++;
    to->n_met += of->ended == CT_ENDED_COMPLETED;
    to->rays += of->rays;
    if (of->passes > to->passes) to->passes = of->passes;
    if (of->ended > to->ended) to->ended = of->ended;
}

/* Keeps the tiles for the step that wants them. */
bool keep_tiles(const ct_ebpi_run *run, const ct_ebpi_refined *pair) {
    const ct_ebpi_refinement *of = &pair->refinement;
    run->need->what = "tiles for pictures, on the host";
    run->need->bytes = of->n * sizeof(ct_ray_tile);
    ct_ray_tile *to = (ct_ray_tile *)ct_host_append(&run->scratch->tiles, of->n, sizeof *to);
    if (!to) return false;
    for (uint32_t i = 0; i < of->n; i++) {
        double part[4][3];
        ct_ebpi_describe_tile(of, &of->tiles[i], &to[i], part);
        for (int k = 0; k < 4 && pair->turned; k++) ct_turn_out_of_views(pair->turned, part[k]);
        ct_ebpi_set_parts(&to[i], part);
    }
    return true;
}

/* Says for all candidates up to this one that their tiles begin after those that there are; so those that were not refined
 * have none. */
bool begin_tiles(ct_ebpi_scratch *scratch, uint64_t candidate) {
    while (scratch->first_tile.n <= candidate)
        if (!ct_host_add(&scratch->first_tile, scratch->tiles.n)) return false;
    return true;
}

/* What the answer's stage and the result need of a group's pairs, which are in the candidates' order. */
bool keep_group(const ct_ebpi_run *run, ct_view_error (*errors)[3], step_totals *totals) {
    const ct_ebpi_refined *pairs = (const ct_ebpi_refined *)run->scratch->pairs.data;
    for (uint64_t i = 0; i < run->scratch->pairs.n; i++) {
        const ct_ebpi_refined *pair = &pairs[i];
        ct_view_error *to = errors[pair->on_device.candidate];
        double bound[3], deviation[3];
        ct_ebpi_view_errors(&pair->refinement, bound, deviation);
        for (int w = 0; w < 3; w++) {
            to[w].bound = bound[w];
            to[w].deviation = deviation[w];
        }
        add_totals(&pair->refinement, &totals[pair->on_device.step]);
        if (!begin_tiles(run->scratch, pair->on_device.candidate) ||
            (pair->step->want & CT_WANT_TILES && !keep_tiles(run, pair)))
            return false;
    }
    return true;
}

/* Whether what failed did so for want of memory. */
bool is_short_of_memory(const ct_ebpi_run *run, const ct_ebpi_refined *pairs, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        const ct_working before = ct_work_for(pairs[i].step->cancel, 0, 0);
        const bool is_cancelled = ct_is_cancelled();
        ct_work_back(before);
        if (is_cancelled) return false;
    }
    return !run->device->lost && !run->workspace->lacks_launch;
}

/* Refines the pairs in scratch->pairs. */
bool refine_group(ct_ebpi_run *run) {
    ct_ebpi_refined *pairs = (ct_ebpi_refined *)run->scratch->pairs.data;
    const uint64_t n = run->scratch->pairs.n;
    run->need->what = "pairs, on the host";
    run->need->bytes = n * sizeof *run->chosen;
    run->scratch->chosen.n = 0;
    run->chosen = (ct_ebpi_refined **)ct_host_append(&run->scratch->chosen, n, sizeof *run->chosen);
    if (!run->chosen || !reserve_memories(run->scratch, n)) return false;
    for (uint64_t i = 0; i < n; i++) pairs[i].memory = ((ct_ebpi_memory **)run->scratch->memories.data)[i];
    return refine(run, pairs, n) || (n > 1 && is_short_of_memory(run, pairs, n) && refine_one_by_one(run, pairs, n));
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
bool read_plans(const ct_ebpi_run *run, const ct_batch *b, planned *to, bool *is_short) {
    ct_gpu_counts counts;
    char *host = run->reserve_host(sizeof counts);
    if (!host || !run->copy_out(host, b->counts, sizeof counts) || !run->wait("planning windows")) return false;
    memcpy(&counts, host, sizeof counts);
    *is_short = ct_gpu_raster_shortage(&counts, &b->capacity) != 0;
    const uint64_t n = to->n = *is_short ? 0 : counts.pairs;
    ct_ebpi_layout at = {0};
    const uint64_t pairs = at.add(n * sizeof *to->pairs), plans = at.add(n * sizeof *to->plans);
    host = run->reserve_host(at.end);
    to->pairs = (ct_gpu_pair *)malloc(n * sizeof *to->pairs + 1);
    to->plans = (ct_gpu_plan *)malloc(n * sizeof *to->plans + 1);
    to->errors = (ct_view_error(*)[3])calloc(n + 1, sizeof *to->errors);
    if (!host || !to->pairs || !to->plans || !to->errors ||
        !run->copy_out(host + pairs, b->pairs, n * sizeof *to->pairs) ||
        !run->copy_out(host + plans, b->plans, n * sizeof *to->plans) || !run->wait("copying plans"))
        return false;
    memcpy((void *)to->pairs, host + pairs, n * sizeof *to->pairs);
    memcpy((void *)to->plans, host + plans, n * sizeof *to->plans);
    return true;
}

/* ---- turned views ---- */

/* Reads the bodies as they are on the device; the positions of deformable ones to the host's tables. */
bool read_bodies(const ct_ebpi_run *run, const ct_body *const bodies[2], ct_turned_body to[2], double pose[2][12]) {
    ct_gpu_body state[2];
    char *host = run->reserve_host(sizeof state);
    for (uint64_t k = 0; k < 2; k++)
        if (!host || !run->copy_out(host + k * sizeof *state, bodies[k]->resident->body, sizeof *state)) return false;
    if (!run->wait("copying bodies")) return false;
    memcpy((void *)state, host, sizeof state);
    ct_ebpi_layout at = {0};
    uint64_t positions_at[2];
    for (int k = 0; k < 2; k++) positions_at[k] = at.add(state[k].rigid ? 0 : state[k].n_vertices * sizeof(float[3]));
    host = run->reserve_host(at.end + 1);
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
            !run->copy_out(host + positions_at[k], body->positions, body->n_vertices * sizeof(float[3])))
            return false;
    }
    return run->wait("copying positions");
}

/* Turns the views of a pair, and plans its window anew, where that pays. */
bool turn_pair(const ct_ebpi_run *run, const ct_body *const bodies[2], ct_gpu_plan *plan, ct_turned_views *views) {
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
bool send_turned(const ct_ebpi_run *run, ct_batch *b, const planned *of) {
    ct_ebpi_layout at = {0};
    const uint64_t bytes = of->n * sizeof *run->turned, plan_bytes = of->n * sizeof *of->plans;
    const uint64_t turned = at.add(bytes), plans = at.add(plan_bytes);
    char *host = run->reserve_host(at.end);
    if (!host || !run->reserve(&run->scratch->turned, bytes, "turned views")) return false;
    memcpy(host + turned, run->turned, bytes);
    memcpy(host + plans, (const void *)of->plans, plan_bytes);
    b->turned = (const ct_turned_views *)run->scratch->turned.data;
    return run->copy_in(run->scratch->turned.data, host + turned, bytes) &&
           run->copy_in(b->plans, host + plans, plan_bytes) && run->wait("turning views");
}

/* Turns the views of those pairs whose scene asks for it. */
bool turn_planned(ct_ebpi_run *run, ct_batch *b, const planned *of) {
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

/* The pair of a plan that has a window. */
ct_ebpi_refined pair_of(const ct_ebpi_run *run, const planned *of, uint64_t p, uint64_t candidate) {
    const uint32_t step = of->pairs[p].step;
    const ct_gpu_step *sent = (const ct_gpu_step *)run->workspace->steps.data + step;
    ct_ebpi_refined pair = {};
    pair.step = ((ct_step **)run->workspace->members.data)[step];
    pair.plan = &of->plans[p];
    for (int k = 0; k < 2; k++) pair.body[k] = pair.step->scene->bodies[of->pairs[p].body[k] - sent->first_body];
    pair.on_device.candidate = candidate;
    pair.on_device.step = step;
    if (!run->turned) return pair;
    pair.turned = run->turned + candidate;
    pair.on_device.turned = pair.turned->is_turned ? run->batch->turned + candidate : NULL;
    return pair;
}

/* Refines the pairs that have a window, a group at a time. */
bool refine_planned(ct_ebpi_run *run, const planned *of, step_totals *totals) {
    ct_host_list *group = &run->scratch->pairs;
    uint64_t candidate = 0, triangles = 0;
    group->n = 0;
    for (uint64_t p = 0; p < of->n; p++) {
        if (of->plans[p].status) continue;                              /* it has no candidate */
        for (int w = 0; w < 3; w++) of->errors[candidate][w].bound = 1; /* where it is not refined: no volume */
        ct_ebpi_refined pair = pair_of(run, of, p, candidate++);
        if (pair.step->error.status || !plan_pair(&pair)) continue;
        if (group->n == GROUP_PAIRS || (group->n && triangles + pair.n_triangles() > GROUP_TRIANGLES)) {
            if (!refine_group(run) || !keep_group(run, of->errors, totals)) return false;
            group->n = triangles = 0;
        }
        run->need->what = "pairs, on the host";
        run->need->bytes = sizeof pair;
        if (!ct_host_add(group, pair)) return false;
        triangles += pair.n_triangles();
    }
    return refine_group(run) && keep_group(run, of->errors, totals) && begin_tiles(run->scratch, candidate);
}

/* The error bounds of the pairs' views, for the answer's stage. */
bool send_errors(const ct_ebpi_run *run, const planned *of) {
    const uint64_t bytes = (of->n + 1) * sizeof *of->errors;
    char *host = run->reserve_host(bytes);
    if (!host || !run->reserve(&run->scratch->errors, bytes, "pairs")) return false;
    memcpy(host, of->errors, bytes);
    return run->copy_in(run->scratch->errors.data, host, bytes);
}

/* Once the windows are planned: waits for them, refines the tiles of each pair, launches what adds the spans of their
 * rays, and sets b->view_errors and b->turned. After a shortage it does nothing. A step with a pair that cannot be
 * refined gets its error. False: no memory for what *need says, or the device is lost. */
bool refine_pairs(ct_device *device, ct_workspace *workspace, ct_batch *b, ct_gpu_need *need) {
    ct_ebpi_run run = {};
    run.device = device;
    run.workspace = workspace;
    run.scratch = scratch_of(workspace);
    run.need = need;
    run.batch = b;
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
        (is_short || (turn_planned(&run, b, &of) && refine_planned(&run, &of, totals) && send_errors(&run, &of)));
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
bool add_tiles(const ct_ebpi_scratch *scratch, const ct_gpu_contact *contacts, ct_result *r) {
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
void turn_back(const ct_ebpi_scratch *scratch, const ct_gpu_contact *contacts, ct_result *r) {
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
    const ct_ebpi_scratch *scratch = scratch_of(workspace);
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

void free_memories(ct_ebpi_scratch *scratch) {
    ct_host_list *memories = &scratch->memories;
    for (; memories->n; memories->n--) ct_ebpi_memory_free(&((ct_ebpi_memory **)memories->data)[memories->n - 1]);
}

void release(ct_device *, ct_workspace *workspace) {
    free_memories(scratch_of(workspace));
}

void destroy_scratch(void *scratch) {
    free_memories((ct_ebpi_scratch *)scratch);
    ct_gpu_destroy_scratch<ct_ebpi_scratch>(scratch);
}

const ct_kernel_entry *const KERNELS[] = {ct_ebpi_list_kernels, ct_ebpi_tile_kernels, ct_ebpi_span_kernels, NULL};

ct_gpu_method describe(void) {
    ct_gpu_method method = {};
    method.method = CT_METHOD_EBPI;
    method.kernels = KERNELS;
    method.scratch_bytes = sizeof(ct_ebpi_scratch);
    method.destroy_scratch = destroy_scratch;
    method.release = release;
    method.casts_tiles = true;
    method.remedy = "use a lower ray_budget or a larger tolerance";
    method.fill_step = fill_step;
    method.launch = launch;
    method.finish_result = finish_result;
    return method;
}

} // namespace

extern const ct_gpu_method ct_gpu_ebpi_method = describe();
