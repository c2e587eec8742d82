/* counts_cuda.cuh - how much of everything a batch has, how much fits into the memory of its tables, and what does not.
 *
 * No kernel's grid depends on what an earlier kernel found. Each kernel reads its counts from device memory, so the
 * host waits once, at the end of a batch. Nothing is written beyond the end of a table: what is missing is still
 * counted, the kernels after it do nothing, and the host grows the table and runs the batch again.
 */
#ifndef CT_CUDA_COUNTS_CUH
#define CT_CUDA_COUNTS_CUH

#include "gpu/base/kernel.h"
#include "gpu/device/cuda/cuda.cuh"

#define CT_GPU_NONE UINT32_MAX

/* Kernels whose last block does more than the others; each counts its finished blocks. */
enum {
    CT_LAST_OF_BVH,
    CT_LAST_OF_COUNT_PAIRS,
    CT_LAST_OF_PLAN,
    CT_LAST_OF_RASTER, /* of the large triangles, or of the quads for OpenGL */
    CT_LAST_OF_COUNT_ENTRIES,
    CT_LAST_OF_PLAN_EXACT,
    CT_LAST_OF_CROSS,
    CT_LAST_OF_SPLIT,
    CT_LAST_OF_FINISH,
    CT_LAST_OF_KERNELS
};

struct ct_gpu_counts {
    uint64_t pairs, heavy_rows, candidates, rays, pages;
    uint64_t clusters, near_clusters;           /* of all sides; those of them that can matter */
    uint64_t vertex_chunks, ray_chunks, chunks; /* chunks: both of these */
    uint64_t fragments;                         /* CT_SHARDS times the count of the fullest shard */
    uint64_t large_triangles; /* count << CT_LARGE_SQUARE_BITS | all their squares: one addition counts both */
    uint64_t contacts, entries, spans;
    uint64_t cell_spans;                            /* of contacts with cells */
    uint64_t first_array, first_span, answer_bytes; /* the answer's layout, see answer_cuda.cuh */
    uint64_t quads, samples;                        /* for OpenGL to draw, and the samples of all their rectangles */
    /* Of the method `exact`, see exact_cuda.cuh: */
    uint64_t exact_pairs, exact_chunks; /* as pairs and vertex_chunks; 0 with other methods */
    uint64_t slots, side_clusters, units, components, cluster_tiles, cluster_pairs, triangle_pairs, crossings, crossed,
        windings;
    uint64_t own_numbers, own_components;          /* 0 unless some body has a contact with itself */
    uint64_t recrossings, second_sums;             /* 0 unless some step wants second derivatives or moments */
    uint64_t found_units, found_facings, ray_hits; /* 0 unless some step wants patches */
    uint64_t inconsistent; /* pairs of triangles, and crossed triangles, whose predicates contradict each other: 0 */
    uint32_t finished_blocks[CT_LAST_OF_KERNELS];
};

enum { CT_LARGE_SQUARE_BITS = 34 };
CT_FN uint64_t ct_large_triangle_count(uint64_t packed) {
    return packed >> CT_LARGE_SQUARE_BITS;
}
CT_FN uint64_t ct_large_square_count(uint64_t packed) {
    return packed & (((uint64_t)1 << CT_LARGE_SQUARE_BITS) - 1);
}

/* Elements that fit into each table. */
struct ct_gpu_capacity {
    uint64_t pairs, candidates, chunks, near_clusters, rays, pages, vertex_chunks, fragments, large_triangles, entries,
        spans, cell_spans, answer_bytes, quads;
    uint64_t exact_pairs, slots, side_clusters, units, components, cluster_pairs, triangle_pairs, crossings, crossed,
        windings, own_numbers, exact_chunks, recrossings, second_sums;
    uint64_t found_units, found_facings, ray_hits; /* split_cuda.cu grows these */
};

constexpr uint32_t CT_SHORT_PAIRS = 1, CT_SHORT_RAYS = 2, CT_SHORT_PAGES = 4, CT_SHORT_CHUNKS = 8,
                   CT_SHORT_FRAGMENTS = 16, CT_SHORT_LARGE = 32, CT_SHORT_ANSWER = 64, CT_SHORT_ENTRIES = 128,
                   CT_SHORT_SPANS = 256, CT_SHORT_QUADS = 512, CT_SHORT_CANDIDATES = 1024,
                   CT_SHORT_VERTEX_CHUNKS = 2048, CT_SHORT_CLUSTERS = 4096, CT_SHORT_EXACT_PAIRS = 1 << 13,
                   CT_SHORT_SLOTS = 1 << 14, CT_SHORT_SIDES = 1 << 15, CT_SHORT_CLUSTER_PAIRS = 1 << 16,
                   CT_SHORT_CROSSINGS = 1 << 17, CT_SHORT_CROSSED = 1 << 18, CT_SHORT_TRIANGLE_PAIRS = 1 << 19,
                   CT_SHORT_SECOND = 1 << 20, CT_SHORT_CELL_SPANS = 1 << 21;

/* Which tables are too short, as CT_SHORT_* flags, after the windows are planned, after the near clusters are listed,
 * after rasterising, after the spans are found, and at the end. A count is 0 until its stage has run. */
CT_FN uint32_t ct_gpu_plan_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *capacity) {
    return (n->pairs > capacity->pairs ? CT_SHORT_PAIRS : 0u) | (n->rays > capacity->rays ? CT_SHORT_RAYS : 0u) |
           (n->candidates > capacity->candidates ? CT_SHORT_CANDIDATES : 0u) |
           (n->chunks > capacity->chunks ? CT_SHORT_CHUNKS : 0u) |
           (n->vertex_chunks > capacity->vertex_chunks ? CT_SHORT_VERTEX_CHUNKS : 0u);
}
CT_FN uint32_t ct_gpu_cluster_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *capacity) {
    return ct_gpu_plan_shortage(n, capacity) | (n->near_clusters > capacity->near_clusters ? CT_SHORT_CLUSTERS : 0u);
}
CT_FN uint32_t ct_gpu_raster_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *capacity) {
    return ct_gpu_cluster_shortage(n, capacity) | (n->fragments > capacity->fragments ? CT_SHORT_FRAGMENTS : 0u) |
           (n->pages > capacity->pages ? CT_SHORT_PAGES : 0u) |
           (ct_large_triangle_count(n->large_triangles) > capacity->large_triangles ? CT_SHORT_LARGE : 0u) |
           (n->quads > capacity->quads || n->samples > UINT32_MAX ? CT_SHORT_QUADS : 0u);
}

CT_FN uint32_t ct_gpu_span_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *capacity) {
    return ct_gpu_raster_shortage(n, capacity) | (n->spans > capacity->spans ? CT_SHORT_SPANS : 0u) |
           (n->cell_spans > capacity->cell_spans ? CT_SHORT_CELL_SPANS : 0u);
}

/* The same with the method `exact`: after each pair's near clusters are listed, after pairs of clusters are found,
 * after pairs of triangles are, and after these are crossed. */
CT_FN uint32_t ct_exact_plan_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *capacity) {
    return (n->pairs > capacity->pairs ? CT_SHORT_PAIRS : 0u) |
           (n->exact_pairs > capacity->exact_pairs ? CT_SHORT_EXACT_PAIRS : 0u) |
           (n->candidates > capacity->candidates ? CT_SHORT_CANDIDATES : 0u) |
           (n->slots > capacity->slots ? CT_SHORT_SLOTS : 0u) |
           (n->vertex_chunks > capacity->vertex_chunks || n->exact_chunks > capacity->exact_chunks
                ? CT_SHORT_VERTEX_CHUNKS
                : 0u) |
           (n->side_clusters > capacity->side_clusters || n->units > capacity->units ||
                    n->components > capacity->components || n->own_numbers > capacity->own_numbers
                ? CT_SHORT_SIDES
                : 0u);
}
CT_FN uint32_t ct_exact_pair_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *capacity) {
    return ct_exact_plan_shortage(n, capacity) |
           (n->cluster_pairs > capacity->cluster_pairs ? CT_SHORT_CLUSTER_PAIRS : 0u);
}
CT_FN uint32_t ct_exact_triangle_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *capacity) {
    return ct_exact_pair_shortage(n, capacity) |
           (n->triangle_pairs > capacity->triangle_pairs ? CT_SHORT_TRIANGLE_PAIRS : 0u);
}
CT_FN uint32_t ct_exact_cross_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *capacity) {
    return ct_exact_triangle_shortage(n, capacity) | (n->crossings > capacity->crossings ? CT_SHORT_CROSSINGS : 0u) |
           (n->crossed > capacity->crossed || n->windings > capacity->windings ? CT_SHORT_CROSSED : 0u);
}
CT_FN uint32_t ct_exact_second_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *capacity) {
    return ct_exact_cross_shortage(n, capacity) | (n->pages > capacity->pages ? CT_SHORT_PAGES : 0u) |
           (n->recrossings > capacity->recrossings || n->second_sums > capacity->second_sums ? CT_SHORT_SECOND : 0u);
}

CT_FN uint32_t ct_gpu_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *capacity) {
    return ct_gpu_span_shortage(n, capacity) | ct_exact_second_shortage(n, capacity) |
           (n->answer_bytes > capacity->answer_bytes ? CT_SHORT_ANSWER : 0u) |
           (n->entries > capacity->entries ? CT_SHORT_ENTRIES : 0u);
}

#endif
