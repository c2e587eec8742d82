/* crowd_cuda.cuh - device functions that the broad phase's kernels share: which step a body belongs to, the test of two
 * boxes, and the traversal of a crowd's BVH. */
#ifndef CT_CROWD_CUDA_CUH
#define CT_CROWD_CUDA_CUH

#include "gpu/device/cuda/collective.cuh"
#include "gpu/scene/pair_cuda.cuh"

/* Empty steps begin at the same body as the step after them; the last of these is the owner. */
CT_DEVICE uint64_t ct_step_of_body(const ct_pair_tables &b, uint64_t body) {
    return ct_find_owner(b.n_steps, body, [&](uint64_t i) { return (uint64_t)b.steps[i].first_body; });
}

/* The node of a body of the step; `index` is the body's among the batch's. */
CT_DEVICE ct_gpu_node ct_node_of_body(const ct_gpu_step *step, uint64_t index) {
    const ct_gpu_body *body = step->bodies[index - step->first_body];
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
    node.body = (uint32_t)index;
    node.unused = 0;
    return node;
}

CT_DEVICE bool ct_nodes_meet(const ct_gpu_node *a, const ct_gpu_node *b) {
    if (!(a->group & b->mask) || !(b->group & a->mask)) return false;
    for (int k = 0; k < 3; k++)
        if (!(a->lo[k] < b->hi[k] && b->lo[k] < a->hi[k])) return false;
    return true;
}

CT_DEVICE bool ct_is_listed_as_ignored(const ct_gpu_step *step, uint64_t i, uint64_t j) {
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

/* i < j: bodies of the step. True: they have no contact, whether or not their boxes meet. */
CT_DEVICE bool ct_is_ignored(const ct_gpu_step *step, uint64_t i, uint64_t j) {
    if (step->n_ignored && ct_is_listed_as_ignored(step, i, j)) return true;
    if (!step->n_half_spaces) return false;
    const uint32_t n = step->bodies[i]->is_half_space + step->bodies[j]->is_half_space;
    return step->takes_half_spaces ? n == 2 : n > 0;
}

/* Tests the body at position `index` of a crowd's sorted list against the bodies under one root that come after it, and
 * calls found(body) for each that it meets. The traversal is depth first, without a stack: after a subtree the next
 * node is the next sibling, or the parent's where there is none. Returns the number of boxes tested. */
template <class Found>
CT_DEVICE uint32_t ct_traverse_crowd(const ct_pair_tables &b, const ct_gpu_crowd *crowd, uint64_t index, uint64_t root,
                                     Found found) {
    const uint64_t n = b.steps[crowd->step].n_bodies, first = root << CT_BVH_FANOUT_BITS * crowd->root_level;
    const uint64_t end = (root + 1) << CT_BVH_FANOUT_BITS * crowd->root_level, last = end < n ? end : n;
    const ct_gpu_node self = b.nodes[crowd->first_node[0] + index];
    uint32_t tests = 0, level = crowd->root_level;
    uint64_t at = root; /* node of that level */
    if (!self.group) return 0;
    if (index >= first) { /* begin behind the body itself */
        level = 0;
        at = index + 1;
        for (; at % CT_BVH_FANOUT == 0 && level < crowd->root_level; level++) at /= CT_BVH_FANOUT;
    }
    while (at << CT_BVH_FANOUT_BITS * level < last) {
        const ct_gpu_node *node = &b.nodes[crowd->first_node[level] + at];
        tests++;
        if (ct_nodes_meet(&self, node)) {
            if (level > 0) {
                level--;
                at *= CT_BVH_FANOUT;
                continue;
            }
            found(node->body);
        }
        for (at++; at % CT_BVH_FANOUT == 0 && level < crowd->root_level; level++) at /= CT_BVH_FANOUT;
    }
    return tests;
}

#endif
