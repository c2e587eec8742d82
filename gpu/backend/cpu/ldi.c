/* ldi.c - the method LDI on the CPU: three uniform views per pair, one contact (Faure 2008). */
#include "gpu/backend/cpu/cpu.h"
#include "gpu/backend/cpu/device.h"
#include "gpu/mesh/mesh.h"
#include "gpu/span/cells.h"

/* A bin's fragments should fit a core's L2 cache: 16,384 rays of a few layers of 20 bytes are about a megabyte. */
enum { BIN_SAMPLES = 16384 };

/* Wider tiles are cut across as well, else a bin would be a strip of few rows that every large triangle crosses. */
enum { BIN_COLUMNS = 1024 };

/* Where OpenGL draws, a bin is also the rectangle that a large triangle is drawn as: the lower it is, the fewer samples
 * beside the triangle are tested. */
enum { DRAWN_BIN_SAMPLES = 2048 };

/* Meshes so small that the estimate need not know how much of them is near. */
enum { FEW_TRIANGLES = 4096 };

/* Estimate in ns. Only the choice between one thread and several depends on it. */
static double cost_of(const ct_pair_task *pair) {
    double triangles = 0, samples = 0;
    for (int b = 0; b < (ct_is_self_task(pair) ? 1 : 2); b++) {
        const uint32_t all = pair->body[b]->mesh->n_triangles;
        triangles += all < FEW_TRIANGLES ? all : (double)ct_cpu_count_near(pair, b);
    }
    for (int w = 0; w < 3; w++) samples += (double)pair->tiles[w].tile.n_u * pair->tiles[w].tile.n_v;
    return 2000 + 12 * triangles + 12 * samples;
}

static ct_status plan_pair(const ct_device *device, const ct_scene_settings *settings, ct_pair_task *pair,
                           ct_error *error) {
    pair->part = ct_cpu_find_part(pair);
    ct_status status =
        ct_view_plan_part(&pair->body[0]->box, &pair->body[1]->box, &pair->part, settings, &pair->window, error);
    if (!status && pair->cell_size > 0) status = ct_plan_cell_axes(&pair->window, pair->cell_size, pair->cells, error);
    if (status) return status;
    pair->plan = ct_bin_plan_uniform(&pair->window, device->draw ? DRAWN_BIN_SAMPLES : BIN_SAMPLES,
                                     device->draw ? CT_MAX_RESOLUTION : BIN_COLUMNS, pair->tiles);
    pair->rule = ct_is_self_task(pair) ? CT_SPAN_OF_SELF : CT_SPAN_OF_PAIR;
    pair->n_contacts = 1;
    pair->cost = cost_of(pair);
    return CT_OK;
}

void ct_cpu_run_ldi(ct_device *device, ct_step *steps, size_t n_steps) {
    static const ct_pair_method method = CT_RAY_METHOD(plan_pair);
    ct_cpu_run_pairs(device, steps, n_steps, &method);
}
