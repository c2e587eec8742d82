/* entries_cuda.cuh - what the contact stages of all methods share on a device: wide sums of a part, the layout of the
 * answer, and a step's arrays of entries in it. */
#ifndef CT_ENTRIES_CUDA_CUH
#define CT_ENTRIES_CUDA_CUH

#include "gpu/contact/answer_cuda.cuh"
#include "gpu/device/cuda/collective.cuh"

/* Wishes that return arrays made of the sparse gradient. */
enum { CT_WANT_ARRAYS = CT_WANT_GRADIENT | CT_WANT_FRICTION | CT_WANT_FORCES };

/* Adds the sum of x of all threads to a part's wide sum number k. One number at a time: reducing whole structs of them
 * would take more than half of the registers that a thread may have. */
CT_DEVICE void ct_add_wide_sum(ct_wide x, ct_gpu_part_sums *part, int k) {
    x = ct_block_sum(x);
    CT_THREADS(t) {
        if (t > 0 || x == 0) continue;
        ct_atomic_sum(&part->high[k], (int64_t)(x >> 32));
        ct_atomic_sum(&part->low[k], (int64_t)(x & 0xffffffff));
    }
}

/* Lays the answer out, in one block, once entries and contacts are counted. entries_of_step(i): the entries of step i,
 * whose arrays are not placed yet. */
template <class EntriesOfStep>
CT_DEVICE void ct_lay_out_answer(const ct_answer_tables &b, uint64_t contacts, EntriesOfStep entries_of_step) {
    const uint64_t first_array =
        (uint64_t)((const char *)b.out_contacts - b.answer) + contacts * sizeof(ct_gpu_contact);
    const uint64_t array_bytes = ct_scan<uint64_t>(
        b.n_steps, [&](uint64_t i) { return ct_gpu_lay_out_arrays(b.steps[i].want, entries_of_step(i).n).end; },
        [&](uint64_t i, uint64_t before) {
            b.step_entries[i] = entries_of_step(i);
            b.step_entries[i].arrays = first_array + before;
        });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.counts->contacts = contacts;
        b.counts->first_array = first_array;
        b.counts->first_span = first_array + array_bytes;
        b.counts->answer_bytes = b.counts->first_span + b.counts->spans * sizeof(ct_gpu_span);
    }
}

/* A step's arrays in the answer. Those that it does not want are NULL. */
struct ct_entry_pointers {
    double *gradient, *forces, *weights;
    uint32_t *vertices;
};

CT_DEVICE ct_entry_pointers ct_arrays_of_step(const ct_answer_tables &b, const ct_gpu_step *step,
                                              const ct_gpu_step_entries *entries) {
    const ct_gpu_array_layout at = ct_gpu_lay_out_arrays(step->want, entries->n);
    char *first = b.answer + entries->arrays;
    ct_entry_pointers to = {NULL, NULL, NULL, NULL};
    if (step->want & CT_WANT_GRADIENT) to.gradient = (double *)(first + at.gradient);
    if (step->want & CT_WANT_FORCES) to.forces = (double *)(first + at.forces);
    if (step->want & CT_WANT_FRICTION) to.weights = (double *)(first + at.weights);
    if (step->want & CT_WANT_ARRAYS) to.vertices = (uint32_t *)(first + at.vertices);
    return to;
}

/* Writes an entry's numbers. i: index among the step's entries; g: m^2, its dV/dx; pressure: N / m^2. */
CT_DEVICE void ct_write_entry(const ct_entry_pointers *to, uint64_t i, uint32_t vertex, const double g[3],
                              double weight, double pressure) {
    if (!to->vertices) return;
    to->vertices[i] = vertex;
    if (to->weights) to->weights[i] = weight;
    for (int k = 0; k < 3 && to->gradient; k++) to->gradient[3 * i + (uint64_t)k] = g[k];
    for (int k = 0; k < 3 && to->forces; k++) to->forces[3 * i + (uint64_t)k] = pressure * g[k];
}

#endif
