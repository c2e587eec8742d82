/* drive_cuda.cuh - the host side of the method LDI on CUDA: what it has in a workspace, OpenGL as its rasteriser on the
 * same GPU, and contacts that are divided into cells.
 *
 * Kernels write quads into OpenGL's buffers and read the fragments that it drew; nothing of a drawing passes through
 * the host. Mapping and unmapping the buffers makes CUDA's stream and OpenGL wait for each other; the host waits for
 * neither. Without CT_HAVE_EGL no workspace has a `gl`, and these functions do nothing.
 */
#ifndef CT_LDI_DRIVE_CUDA_CUH
#define CT_LDI_DRIVE_CUDA_CUH

#include "gpu/method/device_cuda.cuh"
#include "gpu/methods/ldi/cells_cuda.cuh"

extern "C" {
#include "gpu/methods/ldi/shared_gl.h"
}

/* An OpenGL buffer that is registered with CUDA. */
struct ct_gpu_shared {
    cudaGraphicsResource_t resource;
    uint64_t bytes;
};

/* Why a step's contacts have no cells: pairs and candidates of its batch, or CT_GPU_NONE. */
struct ct_gpu_cell_step {
    uint32_t unplanned; /* the first pair whose cells cannot be planned */
    uint32_t crowded;   /* the first candidate that is a contact of too many cells */
};

/* The cells of a batch, on the host, in memory of its workspace (divide_cuda.cu). */
struct ct_gpu_found_cells {
    uint64_t n_candidates, n_cells, n_entries;
    const ct_gpu_pair *pairs;         /* [all pairs of the batch] */
    const ct_gpu_plan *plans;         /* the same */
    const uint32_t *candidate_pair;   /* [n_candidates] */
    const int64_t (*length)[3];       /* [n_candidates] sums over the views' spans */
    const int64_t (*spans)[3];        /* [n_candidates] */
    const ct_cell_grid *grids;        /* [n_candidates]; their walls are on the device */
    const uint64_t *met;              /* [n_candidates] as in ct_cell_tables */
    const ct_gpu_cell *cells;         /* [n_cells] in no order */
    const ct_gpu_cell_entry *entries; /* [n_entries] in no order */
    const uint64_t *order;            /* [n_cells] of these by candidate and place */
    const uint64_t *first_cell;       /* [n_candidates + 1] in this order */
    const uint64_t *first_entry;      /* [n_cells + 1] in entry_order, of cells in order */
    const uint64_t *entry_order;      /* [n_entries] by cell, part and vertex */
};

struct ct_gpu_ldi_scratch {
    ct_span_tables tables;
    ct_gpu_buffer shards;
    ct_raster_gl *gl; /* NULL: CUDA rasterises */
    bool gl_is_clean; /* OpenGL's lists of fragments are empty */
    ct_gpu_shared shared[CT_GL_BUFFERS];
    /* Of cells: a ct_gpu_cell_step for each step; the others are what found_cells points to, and a rank for each cell.
     */
    ct_host_list cell_steps, cell_order, first_cells, cell_ranks, first_cell_entries, cell_entry_order;
    ct_gpu_found_cells found_cells;
    ct_gpu_buffer cell_grids, cell_slots, cell_list, cell_vertices, cell_entries;
    uint32_t cell_bits, vertex_bits; /* log2 of the slots of cell_slots and cell_vertices that the next batch uses */
    ct_gpu_pinned cell_pairs_host, cell_grids_host, cell_counts_host, cells_host;
};

inline ct_gpu_ldi_scratch *ct_gpu_ldi(const ct_workspace *workspace) {
    return (ct_gpu_ldi_scratch *)workspace->room[CT_METHOD_LDI].scratch;
}

/* ---- interop_cuda.cu ---- */

/* Makes a context on the device's GPU and tests that it draws exactly and that OpenGL and CUDA see the same memory.
 * UNSUPPORTED: the message says what was found. */
ct_status ct_gpu_gl_open(ct_device *device, ct_error *error);
void ct_gpu_gl_close(ct_device *device); /* harmless after a failed open; workspaces have been freed */

/* For workspaces with a `gl`: */

/* Makes every buffer at least a few KiB. False: no memory, or the device is lost. */
bool ct_gpu_gl_reserve(ct_device *device, ct_workspace *workspace);
/* Grows the buffers that CT_SHORT_* flags name. False: no memory for what *need says, or the device is lost. */
bool ct_gpu_gl_grow(ct_device *device, ct_workspace *workspace, const ct_gpu_counts *counts, uint32_t shortage,
                    ct_gpu_need *need);
/* Lowers *capacity to what OpenGL's buffers have. */
void ct_gpu_gl_limit(const ct_workspace *workspace, ct_gpu_capacity *capacity);

/* Rasterises the batch instead of ct_cuda_raster and adds its launches to *launches. False: the device is lost. */
bool ct_gpu_gl_draw(ct_device *device, ct_workspace *workspace, const ct_raster_tables *batch, unsigned *launches);

/* Frees the buffers of a workspace, if it has any; then its rasteriser. */
void ct_gpu_gl_free(ct_device *device, ct_workspace *workspace);
void ct_gpu_gl_destroy(ct_gpu_ldi_scratch *scratch);

/* ---- divide_cuda.cu ---- */

/* Between sides and answer: waits for what has been launched, and divides the contacts of steps with cells. After a
 * shortage it does nothing. False: no memory for what *need says, or the device is lost. */
bool ct_gpu_find_cells(ct_device *device, ct_workspace *workspace, const ct_span_tables *tables, ct_gpu_need *need);

/* As in ct_gpu_method, of batches with cells. */
bool ct_gpu_refuse_cells(const ct_device *device, const ct_workspace *workspace, ct_step *step, uint64_t index,
                         uint32_t refused);
void ct_gpu_count_cells(const ct_workspace *workspace, const ct_gpu_contact *contact, uint64_t *cells,
                        uint64_t *entries);
void ct_gpu_add_cells(const ct_workspace *workspace, const ct_step *step, const ct_gpu_step *sent,
                      const ct_gpu_contact *contact, ct_result *result, uint64_t *entry);

#endif
