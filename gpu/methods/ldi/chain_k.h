/* chain_k.h - sorts a ray's linked list of fragments in place, for backends that keep rays as lists. A link is 1 + the
 * index of a fragment; 0 ends the list. */
#ifndef CT_CHAIN_K_H
#define CT_CHAIN_K_H

#include "gpu/methods/ldi/span_k.h"

/* Bottom-up merge sort by ct_fragment_before: each pass merges pairs of sorted runs of 1, 2, 4, ... fragments, until
 * one run is left. Needs no memory but the links. Returns the new first link. */
CT_FN uint32_t ct_chain_sort(const ct_fragment *fragments, uint32_t *next, uint32_t head) {
    for (uint64_t run = 1;; run *= 2) {
        uint32_t left = head, tail = 0, merges = 0;
        head = 0;
        while (left) {
            uint32_t right = left;
            uint64_t n_left = 0, n_right = run;
            merges++;
            while (n_left < run && right) {
                right = next[right - 1];
                n_left++;
            }
            while (n_left || (n_right && right)) {
                uint32_t link;
                if (n_left &&
                    (!n_right || !right || !ct_fragment_before(&fragments[right - 1], &fragments[left - 1]))) {
                    link = left;
                    left = next[left - 1];
                    n_left--;
                } else {
                    link = right;
                    right = next[right - 1];
                    n_right--;
                }
                if (tail)
                    next[tail - 1] = link;
                else
                    head = link;
                tail = link;
            }
            left = right;
        }
        if (!tail) return 0;
        next[tail - 1] = 0;
        if (merges <= 1) return head;
    }
}

#endif
