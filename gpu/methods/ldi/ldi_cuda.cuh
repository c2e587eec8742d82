/* ldi_cuda.cuh - the method LDI on a device: rays and their fragments, large triangles, spans of contacts with cells,
 * and what CUDA and OpenGL hand to each other where OpenGL rasterises. */
#ifndef CT_LDI_CUDA_CUH
#define CT_LDI_CUDA_CUH

#include "gpu/contact/answer_cuda.cuh"
#include "gpu/methods/ldi/quad_k.h"
#include "gpu/view/raster_k.h"

/* Rays and fragments are aligned to their 16 bytes, so that one instruction loads or stores each. */
struct alignas(16) ct_gpu_ray {
    uint32_t head;      /* 1 + the index of its first fragment, or 0 */
    int32_t winding[2]; /* initial winding numbers that are CT_INITIAL_COUNTED; others are 0 */
    uint32_t unused;
};

struct alignas(16) ct_gpu_fragment : ct_fragment {};
static_assert(sizeof(ct_gpu_ray) == 16 && sizeof(ct_gpu_fragment) == 16, "one vector load each");

/* Fragments are appended to CT_SHARDS parts of their table, chosen by the block that finds them: a single counter would
 * be the most contended word of the batch. */
enum { CT_SHARDS = 16 };
struct ct_gpu_shard {
    uint64_t n_fragments, unused[15]; /* alone in its cache line */
};

/* A triangle that covers many samples of a view, in squares of CT_LARGE_SQUARE x CT_LARGE_SQUARE samples; or whose edge
 * in the loops in front of the view lies beyond many. */
enum { CT_LARGE_SQUARE = 32 };
struct ct_gpu_large_triangle {
    uint64_t first_square;
    uint32_t side, triangle, view;
    bool is_front_edge;
};

struct ct_raster_tables : ct_answer_tables {
    ct_gpu_ray *rays;           /* [capacity.rays], all zero between batches */
    ct_gpu_shard *shards;       /* [CT_SHARDS] */
    ct_gpu_fragment *fragments; /* [capacity.fragments] */
    uint32_t *next;             /* [capacity.fragments] as ct_gpu_ray.head: a ray's fragments are a linked list */
    ct_gpu_large_triangle *large_triangles; /* [capacity.large_triangles] */
};

/* A span of a contact with cells (gpu/methods/ldi/cells_cuda.cuh), for the kernels that cut it at their walls. */
struct ct_gpu_cell_span {
    uint32_t candidate, view;
    uint32_t ray;                /* of the view */
    uint32_t lower[2], upper[2]; /* the fragments that bound it, per body; CT_GPU_NONE: none of that body's */
};

struct ct_span_tables : ct_raster_tables {
    ct_gpu_cell_span *cell_spans; /* [capacity.cell_spans], in no order */
};

/* OpenGL's buffers, while they are mapped for CUDA. */
struct ct_draw_tables : ct_raster_tables {
    ct_quad *quads;                      /* [capacity.quads] */
    ct_draw_region *draw_regions;        /* [3 capacity.pairs] per view */
    ct_draw_command *draw_commands;      /* [n_draw_commands], for capacity.quads */
    uint32_t *drawn_heads;               /* [capacity.rays], all CT_END between batches */
    int32_t (*drawn_windings)[2];        /* [capacity.rays], all zero between batches */
    ct_linked_fragment *drawn_fragments; /* [capacity.fragments] */
    uint32_t *n_drawn;                   /* counts fragments beyond the capacity too */
    uint32_t n_draw_commands;
};

unsigned ct_cuda_raster(const ct_raster_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_spans(const ct_span_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_make_quads(const ct_draw_tables *tables, unsigned grid, cudaStream_t stream);
unsigned ct_cuda_read_drawn(const ct_draw_tables *tables, unsigned grid, cudaStream_t stream);

extern const ct_kernel_entry ct_raster_kernels[], ct_draw_kernels[], ct_span_kernels[];

#endif
