/* passes_cuda.cuh - pairs that are refined side by side: what the host knows of them, and what their passes run in. */
#ifndef CT_EBPI_PASSES_CUDA_CUH
#define CT_EBPI_PASSES_CUDA_CUH

#include "gpu/method/device_cuda.cuh"
#include "gpu/methods/ebpi/ebpi_cuda.cuh"

/* A pair that is refined. */
struct ct_ebpi_refined {
    ct_ebpi_refinement refinement;
    ct_step *step;
    const ct_body *body[2];
    const ct_gpu_plan *plan;
    const ct_turned_views *turned; /* on the host; NULL: no views of the batch are turned */
    ct_ebpi_memory *memory;
    ct_ebpi_pair on_device;
    uint32_t number;  /* among those that the device has */
    bool is_finished; /* its spans are added */

    uint64_t n_triangles() const { /* of both bodies */
        return (uint64_t)body[0]->resident->n_triangles + body[1]->resident->n_triangles;
    }
};

/* What the method has in a workspace. */
struct ct_ebpi_scratch {
    ct_host_list memories;     /* ct_ebpi_memory *, of the pairs of a group */
    ct_host_list totals;       /* step_totals of each step */
    ct_host_list tiles;        /* ct_ray_tile: those of each candidate whose step wants them, */
    ct_host_list first_tile;   /* and where they begin, uint64_t: one more than there are candidates */
    ct_host_list turned_views; /* ct_turned_views of each candidate; none: no views are turned */
    ct_host_list pairs;        /* ct_ebpi_refined, of a group */
    ct_host_list chosen;       /* ct_ebpi_refined *, of those that need the same */
    ct_host_list listed;       /* tile_of */
    ct_gpu_buffer pair_tables, coords, counts, faces[2], tables, scratch, errors, turned;
    ct_gpu_pinned host;
};

/* What pairs are refined with. */
struct ct_ebpi_run {
    ct_device *device;
    ct_workspace *workspace;
    ct_ebpi_scratch *scratch;
    ct_gpu_need *need;
    const ct_batch *batch;
    const ct_turned_views *turned; /* of all candidates, on the host; NULL: no views are turned */
    ct_ebpi_refined *pairs;        /* [n]: those that are refined side by side */
    uint64_t n;
    ct_ebpi_refined **chosen; /* [n_chosen]: those of them that need the same */
    uint64_t n_chosen;
    int current; /* which of scratch->faces has the tiles' faces */

    /* As ct_gpu_reserve and the like; what there is no memory for is told by *need. */
    bool reserve(ct_gpu_buffer *buffer, uint64_t bytes, const char *what) const {
        need->what = what;
        need->bytes = bytes;
        return ct_gpu_reserve(device, workspace, buffer, bytes);
    }

    /* Its content is lost if it grows. */
    char *reserve_host(uint64_t bytes) const {
        need->what = "tiles, on the host";
        need->bytes = bytes;
        return ct_gpu_reserve_pinned(device, workspace, &scratch->host, bytes) ? (char *)scratch->host.host : NULL;
    }

    bool copy_in(void *to, const void *from, uint64_t bytes) const {
        return !bytes || ct_gpu_copy_in(device, workspace, to, from, bytes, "copying tiles");
    }

    bool copy_out(void *to, const void *from, uint64_t bytes) const {
        return !bytes || ct_gpu_copy_out(device, workspace, to, from, bytes, "copying tiles");
    }

    bool clear(void *memory, uint64_t bytes) const {
        return !bytes || ct_gpu_ok(device, cudaMemsetAsync(memory, 0, bytes, workspace->stream), "clearing tiles");
    }

    bool wait(const char *what) const {
        return ct_gpu_wait(device, workspace, what);
    }
};

/* Lays tables out one after the other, each at a multiple of 16 bytes. */
struct ct_ebpi_layout {
    uint64_t end;
    uint64_t add(uint64_t bytes) {
        const uint64_t first = end;
        end += (bytes + 15) / 16 * 16;
        return first;
    }
};

/* Refines run->pairs, which the device has, until each is done, and adds the spans of their last tiles to the candidates'
 * sums. False: no memory, one was cancelled, or the device is lost: those that are not finished have added nothing. Of many
 * pairs also where their tiles are too many. */
bool ct_ebpi_refine_side_by_side(ct_ebpi_run *run);

#endif
