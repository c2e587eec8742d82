/* finish_exact_cuda.cu - sums to contacts with the method `exact`: which pairs are in contact, the sparse gradient's
 * entries, forces and torques, friction weights. What finish_cpu.c does on the CPU. It leaves the sums and their page
 * table zero for the next batch. */
#include "gpu/contact/entries_cuda.cuh"
#include "gpu/contact/sums_cuda.cuh"
#include "gpu/methods/exact/slot_cuda.cuh"

#include <string.h>

enum { THREAD_VERTICES = CT_VERTEX_CHUNK / (int)CT_BLOCK }; /* consecutive vertices of a thread */

/* A part's wide sums: of the gradient along x, y, z, in steps of the fixed point. */
enum { SUM_FORCE = 0 };

/* ---- sums over clusters ---- */

/* Clusters whose sums are in shared memory at a time. */
enum { STAGED_SLOTS = 64 };

/* Adds up the sums of one side's clusters in one pass, in their order, a thread for each number. */
CT_DEVICE void sum_side(const ct_exact_tables &b, uint64_t side, uint32_t pass) {
    CT_SHARED ct_exact_sums staged[STAGED_SLOTS];
    CT_SHARED uint32_t max_winding, inverted;
    const ct_exact_plan *plan = &b.exact[side / 2];
    const uint64_t first = plan->first_slot[side & 1];
    const uint32_t n = plan->n_slots[side & 1];
    double sum = 0, residual = 0;
    CT_THREADS(t) {
        if (t == 0) max_winding = inverted = 0;
    }
    for (uint32_t base = 0; base < n; base += STAGED_SLOTS) {
        const uint32_t n_staged = n - base < STAGED_SLOTS ? n - base : (uint32_t)STAGED_SLOTS;
        CT_BARRIER();
        CT_THREADS(t) {
            for (uint32_t i = t; i < n_staged * CT_SLOT_SUMS; i += CT_BLOCK)
                staged[i / CT_SLOT_SUMS].of[i % CT_SLOT_SUMS] =
                    b.slot_sums[2 * (first + base + i / CT_SLOT_SUMS) + pass].of[i % CT_SLOT_SUMS];
            for (uint32_t i = t; i < n_staged; i += CT_BLOCK) {
                const ct_exact_slot *slot = &b.slots[first + base + i];
                staged[i].max_winding = b.slot_sums[2 * (first + base + i) + pass].max_winding;
                atomicMax(&max_winding, staged[i].max_winding);
                atomicAdd(&inverted, b.slot_sums[2 * (first + base + i) + pass].inverted);
                if (slot->is_added >> pass & 1) residual = fmax(residual, slot->residual);
            }
        }
        CT_BARRIER();
        CT_THREADS(t) {
            if (t >= CT_SLOT_SUMS) continue;
            for (uint32_t i = 0; i < n_staged; i++) {
                sum += t == CT_SUM_MOVED ? ct_bound_layers(staged[i].of[t], staged[i].max_winding) : staged[i].of[t];
                if (t == CT_SUM_NEAR) sum += staged[i].of[CT_SUM_MOVED];
            }
        }
    }
    residual = ct_block_reduce(residual, [](double x, double y) { return fmax(x, y); });
    ct_exact_side_sums *to = &b.side_sums[2 * side + pass];
    CT_THREADS(t) {
        if (t < CT_SLOT_SUMS) to->of[t] = sum;
        if (t == 0) {
            to->residual = residual;
            to->max_winding = max_winding;
            to->inverted = inverted;
        }
    }
    CT_BARRIER();
}

/* ---- chunks of vertices ---- */

struct vertex_range {
    uint64_t part, first, last; /* vertices [first, last) */
    const ct_gpu_step *step;
    const ct_gpu_body *body;
    uint32_t *page_slots; /* of the body's first vertices */
};

CT_DEVICE vertex_range range_of_chunk(const ct_exact_tables &b, uint64_t chunk) {
    vertex_range at;
    at.part = ct_find_owner(2 * b.counts->pairs, chunk, [&](uint64_t i) { return b.vertex_chunk_offset[i]; });
    at.step = &b.steps[b.pairs[at.part / 2].step];
    at.body = ct_body_of_side(b, at.part);
    at.first = (chunk - b.vertex_chunk_offset[at.part]) * CT_VERTEX_CHUNK;
    at.last = at.first + CT_VERTEX_CHUNK < at.body->n_vertices ? at.first + CT_VERTEX_CHUNK : at.body->n_vertices;
    at.page_slots = ct_page_slot(b, at.part, 0);
    return at;
}

/* A vertex's sums, or NULL where all of them are zero. */
CT_DEVICE int64_t *nonzero_sums(const ct_exact_tables &b, const uint32_t *page_slots, uint64_t vertex) {
    const uint32_t page = page_slots[vertex / CT_PAGE];
    if (page == CT_NO_PAGE) return NULL;
    int64_t *sums = ct_vertex_sums(b, page, vertex);
    return sums[0] | sums[1] | sums[2] ? sums : NULL;
}

/* ---- Newton's third law ---- */

/* By size, then by coordinates, so that the choice depends on no order; of vertices in the same place the first. */
CT_DEVICE bool is_better(const ct_exact_best &x, const ct_exact_best &y) {
    if (x.size != y.size) return x.size > y.size;
    if (!x.size) return false;
    for (int k = 0; k < 3; k++)
        if (x.at[k] != y.at[k]) return x.at[k] < y.at[k];
    return x.part != y.part ? x.part < y.part : x.vertex < y.vertex;
}

CT_DEVICE ct_exact_best better_of(const ct_exact_best &x, const ct_exact_best &y) {
    return is_better(y, x) ? y : x;
}

CT_DEVICE ct_exact_best no_entry(void) {
    const ct_exact_best none = {0, {0, 0, 0}, 0, 0};
    return none;
}

/* Of each chunk: counts entries, adds up the gradient, finds the largest entries. */
CT_DEVICE void measure_chunk(const ct_exact_tables &b, uint64_t chunk) {
    const vertex_range at = range_of_chunk(b, chunk);
    const ct_exact_plan *plan = &b.exact[at.part / 2];
    uint32_t n = 0;
    ct_wide force[3] = {0, 0, 0};
    ct_exact_best best[3] = {no_entry(), no_entry(), no_entry()};
    CT_THREADS(t) {
        for (uint64_t v = at.first + t; v < at.last; v += CT_BLOCK) {
            const int64_t *sums = nonzero_sums(b, at.page_slots, v);
            if (!sums) continue;
            ct_exact_best one = {0, {0, 0, 0}, (uint32_t)(at.part & 1), (uint32_t)v};
            ct_place_vertex(plan, at.body, at.part & 1, (uint32_t)v, one.at);
            for (int k = 0; k < 3; k++) {
                one.size = sums[k] < 0 ? -sums[k] : sums[k];
                best[k] = better_of(best[k], one);
                force[k] += sums[k];
            }
            n++;
        }
    }
    n = ct_block_sum(n);
    for (int k = 0; k < 3; k++) {
        ct_add_wide_sum(force[k], &b.part_sums[at.part], SUM_FORCE + k);
        best[k] =
            ct_block_reduce(best[k], [](const ct_exact_best &x, const ct_exact_best &y) { return better_of(x, y); });
    }
    CT_THREADS(t) {
        if (t > 0) continue;
        b.entry_count[chunk] = n;
        for (int k = 0; k < 3; k++) b.chunk_best[3 * chunk + (uint64_t)k] = best[k];
    }
}

/* A block for each chunk of vertices, and then for each side and pass. */
CT_KERNEL measure_gradient(const ct_exact_tables b) {
    if (ct_exact_cross_shortage(b.counts, &b.capacity) || b.counts->pages > b.capacity.pages) return;
    const uint64_t n_chunks = b.counts->vertex_chunks;
    CT_EACH_BLOCK(i, n_chunks + 4 * b.counts->pairs) {
        if (i < n_chunks) {
            measure_chunk(b, i);
        } else {
            const uint64_t side = (i - n_chunks) / 2;
            const uint32_t pass = (uint32_t)((i - n_chunks) % 2);
            if (pass < ct_pass_count(&b.exact[side / 2])) sum_side(b, side, pass);
        }
    }
}

/* The gradient over both bodies sums to 0. Rounding leaves a few steps of the fixed point over, which go to the largest
 * entry along each axis, so that forces balance to the last bit. */
CT_DEVICE void balance_axis(const ct_exact_tables &b, uint64_t p, int k, const ct_exact_best &best,
                            ct_exact_totals *totals) {
    const int64_t excess = (int64_t)(totals->force[0][k] + totals->force[1][k]);
    totals->excess[k] = ldexp((double)excess, b.exact[p].exponent);
    if (!excess || !best.size) return;
    const uint64_t part = 2 * p + best.part;
    int64_t *sums = ct_vertex_sums(b, *ct_page_slot(b, part, best.vertex), best.vertex);
    sums[k] -= excess;
    totals->force[best.part][k] -= excess;
    if (!(sums[0] | sums[1] | sums[2])) b.entry_count[b.vertex_chunk_offset[part] + best.vertex / CT_VERTEX_CHUNK]--;
}

/* ---- a pair's contact ---- */

/* Adds a pass's sums to the totals. */
CT_DEVICE void total_pass(const ct_exact_plan *plan, uint32_t pass, const ct_exact_side_sums *const sums[2],
                          ct_exact_totals *totals) {
    double rounding[2], arithmetic[2], moved_volume[2], excess = 0, slack = 0;
    ct_left_out left_out = plan->left_out[pass];
    left_out.residual = ct_order_value(plan->left_out_moved[pass]);
    for (int k = 0; k < 2; k++) {
        const ct_exact_side_sums *s = sums[k];
        for (int i = 0; i < 9; i++) totals->moment[k][i / 3][i % 3] += s->of[CT_SUM_MOMENT + i];
        rounding[k] = s->of[CT_SUM_ROUNDING];
        arithmetic[k] = s->of[CT_SUM_ARITHMETIC];
        const double residual = s->residual + plan->pose[k].rounding;
        moved_volume[k] = ct_bound_moved_volume(residual, s->of[CT_SUM_AREA], s->of[CT_SUM_NEAR]);
        excess += residual * s->of[CT_SUM_MOVED];
        slack += residual * s->of[CT_SUM_AREA] * CT_BOUND_SLACK;
        if (s->max_winding > totals->max_winding) totals->max_winding = s->max_winding;
    }
    const uint32_t inverted = sums[0]->inverted + sums[1]->inverted;
    if (inverted > totals->inverted) totals->inverted = inverted;
    for (int i = 0; i < 3; i++)
        totals->first_moment[i] += sums[0]->of[CT_SUM_FIRST_MOMENT + i] + sums[1]->of[CT_SUM_FIRST_MOMENT + i];
    totals->rounding += rounding[0] + rounding[1];
    totals->arithmetic += arithmetic[0] + arithmetic[1];
    totals->moved_volume += moved_volume[0] + moved_volume[1];
    totals->moved_volume += ct_bound_left_out(&left_out, plan->pose[0].rounding, plan->pose[1].rounding, excess, slack);
    totals->area += sums[0]->of[CT_SUM_AREA] + sums[1]->of[CT_SUM_AREA];
}

/* Adds what floods and the sides of a body with itself have to the totals of all passes. */
CT_DEVICE void total_own(const ct_own_plan *own, ct_exact_totals *totals) {
    if (own->max_winding > totals->max_winding) totals->max_winding = own->max_winding;
    for (int pass = 0; pass < 2; pass++)
        if (own->inverted[pass] > totals->inverted) totals->inverted = own->inverted[pass];
    for (int i = 0; i < 9; i++) {
        totals->moment[1][i / 3][i % 3] += own->part_1[i];
        totals->moment[0][i / 3][i % 3] -= own->part_1[i];
    }
}

/* ---- the reference point ---- */

/* Numbers of a triangle that are added up. */
enum { FIT_NUMBERS = sizeof(ct_plane_fit) / sizeof(double) };
static_assert(sizeof(ct_plane_fit) == FIT_NUMBERS * sizeof(double), "a fit is an array of doubles");

/* For a kernel that adds numbers of the crossed triangles up: of the triangles of a cluster; and which of CT_BLOCK
 * clusters are crossed. */
struct crossed_numbers {
    double of[CT_CLUSTER_TRIANGLES][FIT_NUMBERS];
    bool is_crossed[CT_BLOCK];
};

/* Adds up the N numbers that measure(triangle, rounding, to) makes of each crossed triangle of a side in a pass, in
 * their order: all threads measure, and thread k < N adds number k to *sum. The other threads' *sum stays. */
template <int N, class Measure>
CT_DEVICE void sum_crossed(const ct_exact_tables &b, uint64_t side, uint32_t pass, crossed_numbers *shared, double *sum,
                           Measure measure) {
    const ct_exact_plan *plan = &b.exact[side / 2];
    const uint32_t n_slots = plan->n_slots[side & 1];
    const ct_exact_slot *slots = &b.slots[plan->first_slot[side & 1]];
    for (uint32_t base = 0; base < n_slots; base += CT_BLOCK) {
        const uint32_t n = n_slots - base < CT_BLOCK ? n_slots - base : CT_BLOCK;
        CT_THREADS(t) {
            if (t < n) shared->is_crossed[t] = slots[base + t].crossed != 0;
        }
        CT_BARRIER();
        for (uint32_t i = 0; i < n; i++) {
            if (!shared->is_crossed[i]) continue;
            const ct_slot_view v = ct_view_slot(b, &slots[base + i]);
            CT_THREADS(t) {
                for (uint32_t j = t; j < v.n_triangles; j += CT_BLOCK) {
                    const ct_exact_total *total = ct_total_of(b, v, j, pass);
                    double corner[3][3];
                    const double *const p[3] = {corner[0], corner[1], corner[2]};
                    for (int k = 0; k < N; k++) shared->of[j][k] = 0; /* adding it changes no bit */
                    if (!total) continue;
                    ct_place_corners(v, j, corner);
                    measure(p, total->of[CT_INTEGRALS + 1], shared->of[j]);
                }
            }
            CT_BARRIER();
            CT_THREADS(t) {
                for (uint32_t j = 0; j < v.n_triangles && t < N; j++) *sum += shared->of[j][t];
            }
            CT_BARRIER();
        }
        CT_BARRIER();
    }
}

CT_DEVICE bool is_piece(const ct_exact_tables &b, const ct_exact_plan *plan) {
    for (uint32_t k = 0; k < 2; k++)
        if (plan->n_slots[k]) return b.slots[plan->first_slot[k]].is_part;
    return false;
}

/* The clusters that are inside or crossed, in each pass. On thread 0. */
CT_DEVICE uint32_t count_added(const ct_exact_tables &b, const ct_exact_plan *plan) {
    uint32_t n = 0;
    CT_THREADS(t) {
        for (int k = 0; k < 2; k++)
            for (uint32_t i = t; i < plan->n_slots[k]; i += CT_BLOCK)
                n += (uint32_t)__popc(b.slots[plan->first_slot[k] + i].is_added);
    }
    return ct_block_sum(n);
}

/* As move_reference of finish_cpu.c, of pairs that need it. *totals are shared by the block. */
CT_DEVICE void move_reference(const ct_exact_tables &b, uint64_t p, ct_exact_totals *totals) {
    CT_SHARED crossed_numbers shared;
    CT_SHARED double fit[FIT_NUMBERS], about[3];
    CT_SHARED bool is_found;
    const ct_exact_plan *plan = &b.exact[p];
    double fitted = 0, rounding = 0;
    const uint32_t n_added = count_added(b, plan);
    for (uint32_t pass = 0; pass < ct_pass_count(plan); pass++) {
        double of[2] = {0, 0};
        for (uint64_t k = 0; k < 2; k++)
            sum_crossed<FIT_NUMBERS>(b, 2 * p + k, pass, &shared, &of[k],
                                     [](const double *const *q, double r, double *to) {
                                         ct_plane_fit one;
                                         memset(&one, 0, sizeof one);
                                         ct_fit_plane(&one, q, r);
                                         memcpy(to, &one, sizeof one);
                                     });
        fitted += of[0] + of[1];
    }
    CT_THREADS(t) {
        if (t < FIT_NUMBERS) fit[t] = fitted;
    }
    CT_BARRIER();
    CT_THREADS(t) {
        if (t > 0) continue;
        ct_plane_fit of;
        memcpy(&of, fit, sizeof of);
        is_found = ct_find_reference(&of, about);
    }
    CT_BARRIER();
    if (!is_found) return;
    for (uint32_t pass = 0; pass < ct_pass_count(plan); pass++) {
        double of[2] = {0, 0};
        for (uint64_t k = 0; k < 2; k++)
            sum_crossed<1>(b, 2 * p + k, pass, &shared, &of[k], [](const double *const *q, double r, double *to) {
                *to = ct_volume_rounding_about(q, r, about);
            });
        rounding += of[0] + of[1];
    }
    CT_THREADS(t) {
        if (t > 0) continue;
        totals->n_clusters = n_added;
        ct_move_reference(totals, plan->exponent, about, rounding);
    }
    CT_BARRIER();
}

CT_DEVICE void make_contact(const ct_exact_tables &b, uint64_t p, const ct_exact_totals *totals) {
    ct_exact_plan *plan = &b.exact[p];
    const ct_gpu_pair *pair = &b.pairs[p];
    const ct_gpu_body *bodies[2] = {b.bodies[pair->body[0]], b.bodies[pair->body[1]]};
    const ct_box boxes[2] = {ct_gpu_box(bodies[0]), ct_gpu_box(bodies[1])};
    const int n_passes = (int)ct_pass_count(plan);
    ct_contact *contact = &plan->contact;
    memset(contact, 0, sizeof *contact);
    contact->max_winding = totals->max_winding;
    contact->inverted_triangles = totals->inverted;
    plan->step = ct_exact_step(&plan->lattice, plan->exponent, n_passes);
    plan->is_contact = ct_exact_volume(totals, &plan->lattice, n_passes, contact) && !bodies[0]->is_inverted &&
                       !bodies[1]->is_inverted;
    if (!plan->is_contact || !(b.steps[pair->step].want & CT_WANT_ENTRIES)) return;
    for (int k = 0; k < 2; k++) {
        double center[3] = {0, 0, 0};
        for (int i = 0; i < 3; i++) center[i] = bodies[k]->about[i];
        ct_exact_force(totals, &plan->lattice, n_passes, plan->step, k, center, contact->generalized_gradient[k]);
    }
    ct_frame_normal(contact, contact->generalized_gradient[0],
                    ct_exact_force_rounding(totals, &plan->lattice, n_passes));
    ct_frame_area(contact);
    ct_exact_center(totals, &plan->lattice, n_passes, boxes, contact);
    ct_exact_side_centers(totals, &plan->lattice, n_passes, plan->step, contact);
    ct_exact_check_side_centers(totals, &plan->lattice, n_passes, contact);
    ct_exact_find_nested(totals, contact);
}

/* Entries of the chunk, if its pair is a contact and its step wants them. A half-space has no vertices for its users.
 */
CT_DEVICE uint64_t wanted_entries(const ct_exact_tables &b, uint64_t chunk) {
    if (!b.entry_count[chunk]) return 0;
    const uint64_t part =
        ct_find_owner(2 * b.counts->pairs, chunk, [&](uint64_t i) { return b.vertex_chunk_offset[i]; });
    const bool is_wanted = b.exact[part / 2].is_contact && (b.steps[b.pairs[part / 2].step].want & CT_WANT_ENTRIES);
    return is_wanted && !ct_body_of_side(b, part)->is_half_space ? b.entry_count[chunk] : 0;
}

/* Entries before the pairs of body `row` of the batch. */
CT_DEVICE uint64_t entries_before_row(const ct_exact_tables &b, uint64_t row) {
    return b.entry_offset[b.vertex_chunk_offset[2 * b.row_offset[row]]];
}

CT_DEVICE ct_gpu_step_entries entries_of_step(const ct_exact_tables &b, uint64_t i) {
    const ct_gpu_step *step = &b.steps[i];
    ct_gpu_step_entries entries;
    entries.first = entries_before_row(b, step->first_body);
    entries.n = entries_before_row(b, step->first_body + step->n_bodies) - entries.first;
    entries.arrays = 0;
    return entries;
}

CT_KERNEL finish_pairs(const ct_exact_tables b) {
    CT_SHARED ct_exact_totals totals;
    if (ct_exact_cross_shortage(b.counts, &b.capacity) || b.counts->pages > b.capacity.pages) return;
    const uint64_t n_pairs = b.counts->pairs;
    CT_EACH_BLOCK(p, n_pairs) {
        const ct_exact_plan *plan = &b.exact[p];
        if (plan->is_skipped) continue;
        ct_exact_best best[3] = {no_entry(), no_entry(), no_entry()};
        CT_THREADS(t) {
            for (uint64_t c = b.vertex_chunk_offset[2 * p] + t; c < b.vertex_chunk_offset[2 * p + 2]; c += CT_BLOCK)
                for (int k = 0; k < 3; k++) best[k] = better_of(best[k], b.chunk_best[3 * c + (uint64_t)k]);
        }
        for (int k = 0; k < 3; k++)
            best[k] = ct_block_reduce(best[k],
                                      [](const ct_exact_best &x, const ct_exact_best &y) { return better_of(x, y); });
        CT_THREADS(t) {
            if (t > 0) continue;
            memset(&totals, 0, sizeof totals);
            totals.moved_volume = plan->moved_volume;
            for (int part = 0; part < 2; part++)
                for (int k = 0; k < 3; k++)
                    totals.force[part][k] = ct_gpu_wide_sum(&b.part_sums[2 * p + (uint64_t)part], SUM_FORCE + k);
            for (int k = 0; k < 3; k++) balance_axis(b, p, k, best[k], &totals);
            for (uint32_t pass = 0; pass < ct_pass_count(plan); pass++) {
                const ct_exact_side_sums *sums[2] = {&b.side_sums[4 * p + pass], &b.side_sums[4 * p + 2 + pass]};
                total_pass(plan, pass, sums, &totals);
            }
            if (ct_is_self_pair(&b.pairs[p])) total_own(&plan->own, &totals);
        }
        CT_BARRIER();
        if (ct_should_move_reference(&totals) && !is_piece(b, plan)) move_reference(b, p, &totals);
        CT_THREADS(t) {
            if (t > 0) continue;
            make_contact(b, p, &totals);
            ct_atomic_add(&b.step_fragments[b.pairs[p].step], plan->found[0] + (plan->has_ties ? plan->found[1] : 0));
        }
        CT_BARRIER();
    }
    if (!ct_is_last_block(&b.counts->finished_blocks[CT_LAST_OF_FINISH])) return;
    const uint64_t n_chunks = b.counts->vertex_chunks;
    const uint64_t entries = ct_scan<uint64_t>(
        n_chunks, [&](uint64_t i) { return wanted_entries(b, i); },
        [&](uint64_t i, uint64_t before) { b.entry_offset[i] = before; });
    const uint64_t contacts = ct_scan<uint64_t>(
        n_pairs, [&](uint64_t p) { return (uint64_t)b.exact[p].is_contact; },
        [&](uint64_t p, uint64_t before) { b.contact_offset[p] = before; });
    CT_THREADS(t) {
        if (t > 0) continue;
        b.entry_offset[n_chunks] = entries;
        b.contact_offset[n_pairs] = contacts;
    }
    CT_BARRIER();
    ct_lay_out_answer(b, contacts, [&](uint64_t i) { return entries_of_step(b, i); });
}

/* ---- the answer ---- */

/* Writes the entries of each chunk in rising order of vertices, and clears the sums and their pages. */
CT_KERNEL write_entries(const ct_exact_tables b) {
    if (ct_gpu_shortage(b.counts, &b.capacity)) return;
    CT_EACH_BLOCK(chunk, b.counts->vertex_chunks) {
        const vertex_range at = range_of_chunk(b, chunk);
        const ct_exact_plan *plan = &b.exact[at.part / 2];
        const bool any = b.entry_offset[chunk] < b.entry_offset[chunk + 1];
        const ct_gpu_step_entries *step_entries = &b.step_entries[at.step - b.steps];
        const ct_entry_pointers to = ct_arrays_of_step(b, at.step, step_entries);
        const double pressure = -at.step->stiffness * plan->contact.volume;
        uint32_t n_before = 0, total;
        CT_THREADS(t) {
            for (uint64_t v = at.first + t * THREAD_VERTICES; v < at.first + (t + 1) * THREAD_VERTICES && v < at.last;
                 v++)
                n_before += any && nonzero_sums(b, at.page_slots, v);
        }
        if (any) n_before = ct_block_prefix_sum(n_before, &total);
        CT_THREADS(t) {
            uint64_t entry = b.entry_offset[chunk] + n_before - step_entries->first;
            for (uint64_t v = at.first + t * THREAD_VERTICES; v < at.first + (t + 1) * THREAD_VERTICES && v < at.last;
                 v++) {
                int64_t *sums = nonzero_sums(b, at.page_slots, v);
                if (!sums) continue;
                if (any) {
                    double g[3];
                    for (int k = 0; k < 3; k++) g[k] = (double)sums[k] * plan->step;
                    ct_write_entry(&to, entry++, (uint32_t)v, g, ct_frame_friction(&plan->contact, g), pressure);
                }
                sums[0] = sums[1] = sums[2] = 0;
            }
        }
        CT_BARRIER();
        CT_THREADS(t) {
            if (at.first + t * CT_PAGE < at.last) at.page_slots[at.first / CT_PAGE + t] = CT_NO_PAGE;
        }
    }
}

CT_DEVICE void write_contact(const ct_exact_tables &b, uint64_t p) {
    const ct_exact_plan *plan = &b.exact[p];
    if (!plan->is_contact) return;
    ct_gpu_contact out;
    memset(&out, 0, sizeof out);
    out.contact = plan->contact;
    out.candidate = (uint32_t)p;
    for (uint64_t k = 0; k < 2; k++) {
        const uint64_t part = 2 * p + k;
        out.body[k] = b.pairs[p].body[k];
        out.contact.count[k] =
            b.entry_offset[b.vertex_chunk_offset[part + 1]] - b.entry_offset[b.vertex_chunk_offset[part]];
    }
    b.out_contacts[b.contact_offset[p]] = out;
}

CT_DEVICE void write_step_totals(const ct_exact_tables &b, uint64_t i) {
    const ct_gpu_step *step = &b.steps[i];
    ct_gpu_step_totals totals;
    memset(&totals, 0, sizeof totals);
    const uint64_t first = b.row_offset[step->first_body], last = b.row_offset[step->first_body + step->n_bodies];
    totals.pairs = b.found_row_offset[step->first_body + step->n_bodies] - b.found_row_offset[step->first_body];
    totals.box_tests =
        ct_gpu_is_crowd(step) ? b.step_box_tests[i] : step->n_bodies * (uint64_t)(step->n_bodies - 1) / 2;
    totals.rays = b.step_rays[i];
    totals.fragments = b.step_fragments[i];
    totals.first_contact = b.contact_offset[first];
    totals.n_contacts = b.contact_offset[last] - totals.first_contact;
    totals.n_entries = b.step_entries[i].n;
    totals.arrays = b.step_entries[i].arrays;
    totals.refused = ~b.step_refused[i];
    if (totals.refused != CT_GPU_NONE)
        for (int k = 0; k < 2; k++) totals.body[k] = b.found_pairs[totals.refused].body[k];
    b.out_steps[i] = totals;
}

CT_KERNEL write_exact_contacts(const ct_exact_tables b) {
    CT_THREADS(t) {
        if (t == 0 && CT_BLOCK_INDEX == 0) *(ct_gpu_counts *)b.answer = *b.counts;
    }
    if (ct_gpu_shortage(b.counts, &b.capacity)) return;
    CT_FOR(p, b.counts->pairs) write_contact(b, p);
    CT_FOR(i, b.n_steps) write_step_totals(b, i);
}

const ct_kernel_entry ct_finish_exact_kernels[] = {CT_KERNEL_ENTRY(measure_gradient), CT_KERNEL_ENTRY(finish_pairs),
                                                   CT_KERNEL_ENTRY(write_entries),
                                                   CT_KERNEL_ENTRY(write_exact_contacts), CT_KERNELS_END};

unsigned ct_cuda_finish_exact(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(measure_gradient, grid, stream, *tables);
    n += CT_LAUNCH(finish_pairs, grid, stream, *tables);
    if (tables->finds_second) n += ct_cuda_find_second(tables, grid, stream);
    n += CT_LAUNCH(write_entries, grid, stream, *tables);
    n += CT_LAUNCH(write_exact_contacts, grid, stream, *tables);
    return n;
}
