/* crowd_cuda.cuh - what the broad phase's kernels share: which step a body is of, boxes that may touch, and how one
 * body of a crowd is tried against the others. */
#ifndef CT_CROWD_CUDA_CUH
#define CT_CROWD_CUDA_CUH

#include "gpu/backend/cuda/collective.cuh"

/* Of several steps that begin at one body all but the last are empty. */
CT_DEVICE uint64_t ct_step_of(const ct_batch &b, uint64_t body) {
    return ct_find(b.n_steps, body, [&](uint64_t i) { return (uint64_t)b.steps[i].first_body; });
}

/* Body `row` of the batch, which is one of the step's. */
CT_DEVICE ct_gpu_node ct_node_of(const ct_gpu_step *step, uint64_t row) {
    const ct_gpu_body *body = step->bodies[row - step->first_body];
    const ct_box box = ct_gpu_box(body);
    ct_gpu_node node;
    bool is_empty = false;
    for (int k = 0; k < 3; k++) {
        node.lo[k] = box.lo[k];
        node.hi[k] = box.hi[k];
        is_empty = is_empty || !(box.lo[k] < box.hi[k]);
    }
    node.group = is_empty ? 0 : body->group;
    node.mask = body->mask;
    node.body = (uint32_t)row;
    node.unused = 0;
    return node;
}

CT_DEVICE bool ct_may_touch(const ct_gpu_node *a, const ct_gpu_node *b) {
    if (!(a->group & b->mask) || !(b->group & a->mask)) return false;
    for (int k = 0; k < 3; k++)
        if (!(a->lo[k] < b->hi[k] && b->lo[k] < a->hi[k])) return false;
    return true;
}

/* Bodies i < j of the step. */
CT_DEVICE bool ct_is_ignored(const ct_gpu_step *step, uint64_t i, uint64_t j) {
    const uint64_t key = i << 32 | j, *keys = ct_gpu_ignored(step);
    uint64_t lo = 0, hi = step->n_ignored;
    while (lo < hi) {
        uint64_t middle = lo + (hi - lo) / 2;
        if (keys[middle] < key)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo < step->n_ignored && keys[lo] == key;
}

/* Tries the body at `place` of a crowd's list against those of one part that come after it, and calls found(body) for
 * each that it may touch. Returns how many boxes it was tried against. */
template <class Found>
CT_DEVICE uint32_t ct_crowd_try(const ct_batch &b, const ct_gpu_crowd *crowd, uint64_t place, uint64_t part,
                                Found found) {
    const uint64_t n = b.steps[crowd->step].n_bodies, first = part << CT_FAN_BITS * crowd->top;
    const uint64_t end = (part + 1) << CT_FAN_BITS * crowd->top, last = end < n ? end : n;
    const ct_gpu_node mine = b.nodes[crowd->level[0] + place];
    uint32_t tests = 0, level = crowd->top;
    uint64_t at = part; /* node of that level */
    if (!mine.group) return 0;
    if (place >= first) {
        level = 0;
        at = place + 1;
        for (; at % CT_FAN == 0 && level < crowd->top; level++) at /= CT_FAN;
    }
    while (at << CT_FAN_BITS * level < last) {
        const ct_gpu_node *node = &b.nodes[crowd->level[level] + at];
        tests++;
        if (ct_may_touch(&mine, node)) {
            if (level > 0) {
                level--;
                at *= CT_FAN;
                continue;
            }
            found(node->body);
        }
        for (at++; at % CT_FAN == 0 && level < crowd->top; level++) at /= CT_FAN;
    }
    return tests;
}

#endif
