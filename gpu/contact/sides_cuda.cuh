/* sides_cuda.cuh - divides the sums of bodies with themselves between the two parts of their contacts, which the host
 * finds (sides_k.h, gpu/method/sides_cuda.cu): its pieces are few and joined by a union-find, which is no work for a
 * device. */
#ifndef CT_SIDES_CUDA_CUH
#define CT_SIDES_CUDA_CUH

#include "gpu/contact/answer_cuda.cuh"

/* A body with itself. Rows are those of its vertices, one body's after the other's. */
struct ct_gpu_self {
    uint64_t first_row;
    uint32_t candidate, pair;
};

struct ct_side_tables {
    const ct_gpu_self *list; /* [n] */
    uint64_t n, n_rows;
    const void *facts;                /* of each pair, in steps of fact_stride bytes */
    uint64_t fact_words, fact_stride; /* words: of 4 bytes */
    int64_t *sums;                    /* [n_rows][3] */
    uint32_t *own_facts;              /* [n] in steps of ct_own_fact_words */
    uint8_t *is_part_1;               /* [n_rows] */
};

/* Words from the facts of one body to those of the next one: an even number. */
CT_FN uint64_t ct_own_fact_words(const ct_side_tables *sides) {
    return (sides->fact_words + 1) / 2 * 2;
}

/* Copies the sums of part 0 to sides->sums, and the facts to sides->own_facts. */
unsigned ct_cuda_gather_sides(const ct_answer_tables *tables, const ct_side_tables *sides, unsigned grid,
                              cudaStream_t stream);
/* Moves the sums of the vertices of part 1 there, and gives kept spans the side of their lower end. */
unsigned ct_cuda_split_sides(const ct_answer_tables *tables, const ct_side_tables *sides, unsigned grid,
                             cudaStream_t stream);

extern const ct_kernel_entry ct_side_kernels[];

#endif
