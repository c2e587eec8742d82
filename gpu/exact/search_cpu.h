/* search_cpu.h - the CPU's search of two cluster trees for pairs of clusters that may meet, one set per instruction
 * set. It decides as ct_boxes_may_meet (box_k.h), eight children of a node at a time. */
#ifndef CT_EXACT_SEARCH_CPU_H
#define CT_EXACT_SEARCH_CPU_H

#include "gpu/exact/body.h"

typedef struct ct_search_cpu {
    /* Finds all pairs of clusters of two bodies whose boxes may meet. pairs: ct_cluster_pair, grows. False: out of
     * memory. */
    bool (*find_pairs)(const ct_exact_body *a, const ct_exact_body *b, ct_buffer *pairs, size_t *n_pairs,
                       ct_budget *budget);
    /* The same for the clusters of one body: each two once, a <= b, and each with itself. */
    bool (*find_own_pairs)(const ct_exact_body *body, ct_buffer *pairs, size_t *n_pairs, ct_budget *budget);
} ct_search_cpu;

extern const ct_search_cpu ct_search_cpu_base;
#ifdef __x86_64__
extern const ct_search_cpu ct_search_cpu_avx2;
#endif

#endif
