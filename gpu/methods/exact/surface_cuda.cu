/* surface_cuda.cu - adds up the parts of both surfaces that lie inside the other body: the gradient at every vertex, in
 * fixed point, and each cluster's sums, in the order of its triangles as on the CPU (exact_cpu.simd.c). */
#include "gpu/contact/sums_cuda.cuh"
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/exact/slot_cuda.cuh"

CT_DEVICE uint32_t size_of(int32_t winding) {
    return (uint32_t)(winding < 0 ? -winding : winding);
}

/* ---- what is inside ---- */

/* What a pass finds of a cluster. */
struct inside {
    uint32_t any, most; /* whether a unit's number is not 0; the largest number of a vertex */
    double share, residual;
};

CT_DEVICE inside join_inside(inside x, const inside &y) {
    x.any |= y.any;
    if (y.most > x.most) x.most = y.most;
    x.share = fmax(x.share, y.share);
    x.residual = fmax(x.residual, y.residual);
    return x;
}

/* Finds which clusters are inside or crossed, bounds their triangles' shares of the gradient, and claims the pages of
 * their vertices' sums. */
CT_KERNEL mark_inside(const ct_exact_tables b) {
    CT_SHARED uint32_t added;
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    CT_EACH_BLOCK(s, b.counts->slots) {
        ct_exact_slot *slot = &b.slots[s];
        if (slot->is_split) continue;
        const ct_slot_view v = ct_view_slot(b, slot);
        CT_THREADS(t) {
            if (t == 0) added = 0;
        }
        CT_BARRIER();
        for (uint32_t pass = 0; pass < ct_pass_count(v.plan); pass++) {
            const bool is_crossed = v.crossed && v.crossed->n_in_pass[pass];
            inside found = {is_crossed, 0, 0, 0};
            CT_THREADS(t) {
                for (uint32_t u = t; u < v.n_units; u += CT_BLOCK) {
                    const int32_t number = ct_winding_of_unit_in(b, v, u, pass);
                    if (number) found.any = 1;
                    if (!is_crossed && size_of(number) > found.most) found.most = size_of(number);
                }
                for (uint32_t i = t; is_crossed && i < v.n_triangles; i += CT_BLOCK) {
                    for (int k = 0; k < 3; k++) {
                        const uint32_t size = size_of(ct_winding_at(b, v, i, k, pass));
                        if (size > found.most) found.most = size;
                    }
                    const ct_exact_total *total = ct_total_of(b, v, i, pass);
                    if (!total) continue;
                    double corner[3][3];
                    ct_integrals rest;
                    ct_place_corners(v, i, corner);
                    const double *const p[3] = {corner[0], corner[1], corner[2]};
                    for (int k = 0; k < CT_INTEGRALS; k++) rest.of[k] = total->of[k];
                    found.share = fmax(found.share, ct_crossed_share(p, ct_winding_at(b, v, i, 1, pass), &rest));
                }
            }
            /* Most clusters are not crossed and have one unit, which thread 0 looks at. */
            if (is_crossed || v.n_units > 1)
                found = ct_block_reduce(found, [](const inside &x, const inside &y) { return join_inside(x, y); });
            CT_THREADS(t) {
                if (t > 0 || !found.any) continue;
                /* Between its corners a triangle may be deeper inside: see ct_crossed_share. */
                const double most = (double)found.most + (is_crossed ? 2 : 0);
                const double face = ct_cut_to_window(&slot->box, &v.plan->window[1 - (v.side & 1)]).face;
                slot->share[pass] = fmax(face * (1 + most), found.share);
                added |= 1u << pass;
            }
            CT_BARRIER();
        }
        if (added) {
            double residual = 0;
            CT_THREADS(t) {
                for (uint32_t i = t; i < v.n_vertices; i += CT_BLOCK) {
                    double point[3];
                    const uint32_t vertex = v.vertices[i];
                    residual = fmax(residual, ct_place_point(&v.plan->pose[v.side & 1],
                                                             v.body->positions + 3 * (uint64_t)vertex, NULL, point));
                    ct_claim_page(b, ct_page_slot(b, v.side, vertex));
                    /* Its sums are divided between both parts. */
                    if (v.is_self) ct_claim_page(b, ct_page_slot(b, v.side + 1, vertex));
                }
            }
            residual = ct_block_reduce(residual, [](double x, double y) { return fmax(x, y); });
            CT_THREADS(t) {
                if (t > 0) continue;
                slot->residual = residual;
                slot->is_added = added;
                if (v.is_self) atomicAdd(&b.exact[v.side / 2].own.n_added, (uint32_t)__popc(added));
            }
        }
        CT_BARRIER();
    }
}

/* ---- the fixed point ---- */

/* Of each pair: from the shares of its clusters, added up in their order. */
CT_KERNEL plan_fixed_point(const ct_exact_tables b) {
    CT_SHARED double shares[2][CT_BLOCK];
    if (ct_exact_cross_shortage(b.counts, &b.capacity)) return;
    CT_EACH_BLOCK(p, b.counts->pairs) {
        ct_exact_plan *plan = &b.exact[p];
        double sum = 0, most = 0;
        const uint32_t n_most = plan->n_slots[0] > plan->n_slots[1] ? plan->n_slots[0] : plan->n_slots[1];
        for (uint32_t pass = 0; pass < ct_pass_count(plan); pass++) {
            double of_part = 0; /* of side t / 32, on the first threads of two warps */
            for (uint32_t base = 0; base < n_most; base += CT_BLOCK) {
                CT_THREADS(t) {
                    for (int k = 0; k < 2; k++) {
                        const bool is_slot = base + t < plan->n_slots[k];
                        shares[k][t] = is_slot ? b.slots[plan->first_slot[k] + base + t].share[pass] : 0;
                        most = fmax(most, shares[k][t]);
                    }
                }
                CT_BARRIER();
                CT_THREADS(t) {
                    if (t % 32 || t >= 64) continue;
                    for (uint32_t i = 0; i < CT_BLOCK && base + i < plan->n_slots[t / 32]; i++)
                        of_part += shares[t / 32][i] * CT_CLUSTER_TRIANGLES;
                }
                CT_BARRIER();
            }
            CT_THREADS(t) {
                if (t == 32) shares[1][0] = of_part;
            }
            CT_BARRIER();
            CT_THREADS(t) {
                if (t == 0) sum += of_part + shares[1][0];
            }
            CT_BARRIER();
        }
        most = ct_block_reduce(most, [](double x, double y) { return fmax(x, y); });
        CT_THREADS(t) {
            if (t == 0) plan->exponent = ct_fixed_point_exponent(most, sum);
        }
    }
}

/* ---- adding ---- */

/* A triangle's part of the sums over its cluster; areas are added up per axis. */
enum { TRIANGLE_AREA = CT_SUM_AREA, TRIANGLE_NEAR = TRIANGLE_AREA + 3, TRIANGLE_ROUNDING, TRIANGLE_SUMS };

struct triangle_sums {
    double of[TRIANGLE_SUMS];
};

/* The largest |coordinates|. */
struct reach {
    double of[3];
};

struct larger_reach {
    __device__ reach operator()(reach a, const reach &b) const {
        CT_UNROLL
        for (int j = 0; j < 3; j++) a.of[j] = ct_larger()(a.of[j], b.of[j]);
        return a;
    }
};

/* A cluster's part of the surface in one pass. */
struct surface {
    double point[CT_CLUSTER_CORNERS][3];
    int64_t gradient[CT_CLUSTER_CORNERS][3]; /* per vertex, steps of the fixed point */
    triangle_sums sums[CT_CLUSTER_TRIANGLES];
    double total[TRIANGLE_SUMS];
    reach most; /* of triangles that are inside or crossed */
    uint32_t max_winding, inverted;
};

CT_DEVICE void cross_product(const double u[3], const double v[3], double out[3]) {
    out[0] = u[1] * v[2] - u[2] * v[1];
    out[1] = u[2] * v[0] - u[0] * v[2];
    out[2] = u[0] * v[1] - u[1] * v[0];
}

CT_DEVICE void add_to_vertex(surface *s, uint32_t vertex, int axis, double steps) {
    ct_atomic_sum(&s->gradient[vertex][axis], (int64_t)ct_round_to_lattice(steps));
}

/* A triangle that is not crossed: its corners get equal parts. */
CT_DEVICE void add_whole(surface *s, const uint16_t corner[3], int32_t winding, double scale, triangle_sums *to) {
    const double *p = s->point[corner[0]], *q = s->point[corner[1]], *r = s->point[corner[2]];
    double u[3], v[3], n[3];
    for (int k = 0; k < 3; k++) {
        u[k] = q[k] - p[k];
        v[k] = r[k] - p[k];
    }
    cross_product(u, v, n);
    for (int j = 0; j < 3; j++) {
        n[j] = n[j] * (double)winding;
        const double third = n[j] * (1.0 / 6), sum = p[j] + q[j] + r[j];
        for (int k = 0; k < 3; k++) add_to_vertex(s, corner[k], j, third * scale);
        for (int i = 0; i < 3; i++) to->of[CT_SUM_MOMENT + 3 * i + j] = (p[i] + q[i] + r[i]) * third;
        /* The integral of x^2 over the barycentric domain: ((p + q + r)^2 + p^2 + q^2 + r^2) / 24. */
        to->of[CT_SUM_FIRST_MOMENT + j] = n[j] * (sum * sum + p[j] * p[j] + q[j] * q[j] + r[j] * r[j]) * (1.0 / 24);
        to->of[TRIANGLE_AREA + j] = fabs(n[j]) / 2;
    }
    to->of[TRIANGLE_NEAR] = to->of[TRIANGLE_ROUNDING] = 0;
}

CT_DEVICE void add_crossed(surface *s, const uint16_t corner[3], const double w[CT_INTEGRALS], double scale,
                           triangle_sums *to) {
    const double *p = s->point[corner[0]], *q = s->point[corner[1]], *r = s->point[corner[2]];
    const double part[3] = {w[0] - w[1] - w[2], w[1], w[2]};
    double u[3], v[3], n[3];
    for (int k = 0; k < 3; k++) {
        u[k] = q[k] - p[k];
        v[k] = r[k] - p[k];
    }
    cross_product(u, v, n);
    for (int j = 0; j < 3; j++) {
        for (int k = 0; k < 3; k++) add_to_vertex(s, corner[k], j, n[j] * part[k] * scale);
        for (int i = 0; i < 3; i++)
            to->of[CT_SUM_MOMENT + 3 * i + j] = (p[i] * w[0] + u[i] * w[1] + v[i] * w[2]) * n[j];
        to->of[CT_SUM_FIRST_MOMENT + j] = n[j] * (p[j] * p[j] * w[0] + 2 * p[j] * (u[j] * w[1] + v[j] * w[2]) +
                                                  u[j] * u[j] * w[3] + 2 * u[j] * v[j] * w[4] + v[j] * v[j] * w[5]);
        to->of[TRIANGLE_AREA + j] = fabs(n[j]) * fabs(w[0]);
    }
}

/* The largest |winding number| on a crossed triangle. */
CT_DEVICE uint32_t deepest_on(const ct_exact_tables &b, const ct_slot_view &v, uint32_t t, uint32_t pass,
                              double integral) {
    uint32_t most = integral != 0; /* inside between its corners alone, maybe */
    for (int k = 0; k < 3; k++) {
        const uint32_t size = size_of(ct_winding_at(b, v, t, k, pass));
        if (size > most) most = size;
    }
    return most;
}

/* Triangle t of the cluster; all of its sums are 0 where it is outside. most: the thread's own. */
CT_DEVICE void add_triangle(const ct_exact_tables &b, const ct_slot_view &v, uint32_t t, uint32_t pass, double scale,
                            surface *s, reach *most) {
    triangle_sums *to = &s->sums[t];
    const ct_exact_total *total = ct_total_of(b, v, t, pass);
    const int32_t winding = ct_winding_at(b, v, t, 1, pass);
    const uint16_t *corner = v.corners[t];
    if (!total && !winding) {
        for (int i = 0; i < TRIANGLE_SUMS; i++) to->of[i] = 0;
        return;
    }
    uint32_t deepest = size_of(winding);
    if (total) {
        ct_integrals integrals = ct_whole_integrals(winding);
        for (int i = 0; i < CT_INTEGRALS; i++) integrals.of[i] += total->of[i];
        to->of[TRIANGLE_NEAR] = total->of[CT_INTEGRALS];
        const double *const p[3] = {s->point[corner[0]], s->point[corner[1]], s->point[corner[2]]};
        to->of[TRIANGLE_ROUNDING] = ct_volume_rounding(p, total->of[CT_INTEGRALS + 1]);
        deepest = deepest_on(b, v, t, pass, integrals.of[0]);
        add_crossed(s, corner, integrals.of, scale, to);
    } else {
        add_whole(s, corner, winding, scale, to);
    }
    atomicMax(&s->max_winding, deepest);
    bool is_inverted = winding < 0;
    for (int k = 0; k < 3 && total; k++) is_inverted = is_inverted || ct_winding_at(b, v, t, k, pass) < 0;
    if (is_inverted) atomicAdd(&s->inverted, 1u);
    for (int k = 0; k < 3; k++)
        for (int j = 0; j < 3; j++) most->of[j] = ct_larger()(most->of[j], fabs(s->point[corner[k]][j]));
}

CT_DEVICE void add_to_body(const ct_exact_tables &b, const ct_slot_view &v, const surface *s) {
    CT_THREADS(t) {
        for (uint32_t i = t; i < v.n_vertices; i += CT_BLOCK) {
            const int64_t *g = s->gradient[i];
            if (!(g[0] | g[1] | g[2])) continue;
            int64_t *sums = ct_vertex_sums(b, *ct_page_slot(b, v.side, v.vertices[i]), v.vertices[i]);
            for (int k = 0; k < 3; k++) ct_atomic_sum(&sums[k], g[k]);
        }
    }
}

CT_DEVICE void write_sums(const ct_slot_view &v, const ct_exact_slot *slot, const surface *s, ct_exact_sums *out) {
    for (int k = 0; k < 9; k++) out->of[CT_SUM_MOMENT + k] = s->total[CT_SUM_MOMENT + k];
    for (int k = 0; k < 3; k++) out->of[CT_SUM_FIRST_MOMENT + k] = s->total[CT_SUM_FIRST_MOMENT + k] / 2;
    const double area = s->total[TRIANGLE_AREA] + s->total[TRIANGLE_AREA + 1] + s->total[TRIANGLE_AREA + 2];
    out->of[CT_SUM_AREA] = area;
    out->of[CT_SUM_NEAR] = s->total[TRIANGLE_NEAR];
    out->of[CT_SUM_ROUNDING] = s->total[TRIANGLE_ROUNDING];
    out->of[CT_SUM_MOVED] = ct_bound_moved_area(ct_cut_to_window(&slot->box, &v.plan->window[1 - (v.side & 1)]).sides);
    out->of[CT_SUM_ARITHMETIC] = ct_bound_arithmetic(s->most.of[0] + s->most.of[1] + s->most.of[2], area);
    out->max_winding = s->max_winding;
    out->inverted = s->inverted;
}

/* Adds the gradient of each cluster, and its sums. A block for each cluster that is inside or crossed. */
CT_KERNEL add_surface(const ct_exact_tables b) {
    CT_SHARED surface s;
    if (ct_exact_cross_shortage(b.counts, &b.capacity) || b.counts->pages > b.capacity.pages) return;
    CT_EACH_BLOCK(i, b.counts->slots) {
        const ct_exact_slot *slot = &b.slots[i];
        ct_exact_sums *out = &b.slot_sums[2 * i];
        CT_THREADS(t) {
            for (uint32_t k = t; k < 2 * CT_SLOT_SUMS; k += CT_BLOCK) out[k / CT_SLOT_SUMS].of[k % CT_SLOT_SUMS] = 0;
            if (t < 2) out[t].max_winding = out[t].inverted = 0;
        }
        if (!slot->is_added) continue;
        const ct_slot_view v = ct_view_slot(b, slot);
        const double scale = ldexp(1.0, -v.plan->exponent);
        for (uint32_t pass = 0; pass < ct_pass_count(v.plan); pass++) {
            if (!(slot->is_added >> pass & 1)) continue;
            CT_BARRIER();
            CT_THREADS(t) {
                for (uint32_t k = t; k < v.n_vertices; k += CT_BLOCK) {
                    ct_place_vertex(v.plan, v.body, v.side & 1, v.vertices[k], s.point[k]);
                    for (int j = 0; j < 3; j++) s.gradient[k][j] = 0;
                }
                if (t == 0) s.max_winding = s.inverted = 0;
            }
            CT_BARRIER();
            reach most = {{0, 0, 0}};
            CT_THREADS(t) {
                for (uint32_t k = t; k < v.n_triangles; k += CT_BLOCK) add_triangle(b, v, k, pass, scale, &s, &most);
            }
            most = ct_block_reduce(most, larger_reach());
            CT_THREADS(t) {
                if (t == 0) s.most = most;
            }
            CT_BARRIER();
            CT_THREADS(t) {
                if (t < TRIANGLE_SUMS) {
                    double sum = 0;
                    for (uint32_t k = 0; k < v.n_triangles; k++) sum += s.sums[k].of[t];
                    s.total[t] = sum;
                }
            }
            add_to_body(b, v, &s);
            CT_BARRIER();
            CT_THREADS(t) {
                if (t == 0) write_sums(v, slot, &s, &out[pass]);
            }
        }
    }
}

const ct_kernel_entry ct_surface_kernels[] = {CT_KERNEL_ENTRY(mark_inside), CT_KERNEL_ENTRY(plan_fixed_point),
                                              CT_KERNEL_ENTRY(add_surface), CT_KERNELS_END};

unsigned ct_cuda_add_surface(const ct_exact_tables *tables, unsigned grid, cudaStream_t stream) {
    unsigned n = CT_LAUNCH(mark_inside, grid, stream, *tables);
    n += CT_LAUNCH(plan_fixed_point, grid, stream, *tables);
    n += CT_LAUNCH(add_surface, grid, stream, *tables);
    return n;
}
