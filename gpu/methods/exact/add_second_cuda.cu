/* add_second_cuda.cu - what a contact of the method `exact` has on request, from the sums of clusters that the device made
 * (exact/second_cuda.cu): copies them to the host, merges them (exact/second_k.h), and adds them to results. */
#include "gpu/methods/exact/drive_cuda.cuh"

extern "C" {
#include "gpu/mesh/closing.h"
#include "gpu/methods/exact/second_k.h"
#include "gpu/methods/exact/topology.h"
}

/* ---- directions ---- */

/* How a body moves along direction k of its step. */
static bool add_direction(ct_workspace *workspace, const ct_step *step, const ct_body *body, uint32_t k) {
    ct_gpu_direction direction;
    memset(&direction, 0, sizeof direction);
    const ct_direction *from = body->direction[k] ? &step->directions[body->direction[k] - 1] : NULL;
    if (from && body->kind == CT_BODY_RIGID) {
        direction.kind = CT_GPU_MOVES_BY_TWIST;
        memcpy(direction.twist, from->twist, sizeof direction.twist);
    } else if (from) {
        direction.kind = CT_GPU_MOVES_BY_VALUES;
        direction.first_value = workspace->direction_values.n;
        const uint32_t n_closing = ct_closing_count(body->mesh), *rim = ct_mesh_rim(body->mesh);
        double *to = (double *)ct_host_append(&workspace->direction_values, 3 * (from->count + n_closing), sizeof *to);
        if (!to) return false;
        for (uint64_t i = 0; i < from->count; i++) ct_direction_row(from, i, to + 3 * i);
        for (uint32_t i = 0; i < n_closing; i++) ct_direction_row(from, rim[i], to + 3 * (from->count + i));
    }
    return ct_host_add(&workspace->directions, direction);
}

bool ct_gpu_send_directions(ct_workspace *workspace, const ct_step *step, ct_gpu_step *s) {
    const ct_scene *scene = step->scene;
    s->n_directions = ct_directions_count(step->directions, step->n_directions);
    s->wants_second = s->n_directions || step->want & CT_WANT_INERTIA;
    s->first_direction = workspace->directions.n;
    if (s->wants_second) s->want |= CT_WANT_FRAME;
    for (uint32_t i = 0; i < scene->n_bodies; i++)
        for (uint32_t k = 0; k < s->n_directions; k++)
            if (!add_direction(workspace, step, scene->bodies[i], k)) return false;
    return true;
}

/* ---- the copy ---- */

/* Where the tables lie in the copy, in bytes. */
struct second_layout {
    uint64_t slots, sums, end;
};

static second_layout lay_out_second(const ct_gpu_counts *counts) {
    second_layout at;
    at.slots = counts->pairs * sizeof(ct_second_of_pair);
    at.sums = at.slots + counts->slots * sizeof(ct_second_of_slot);
    at.end = at.sums + counts->second_sums * sizeof(double);
    return at;
}

bool ct_gpu_copy_second(ct_device *device, ct_workspace *workspace, const ct_batch *b, const ct_gpu_counts *counts,
                        ct_gpu_need *need) {
    if (!b->finds_second) return true;
    ct_gpu_pinned *host = &ct_gpu_exact(workspace)->second_host;
    const ct_exact_tables *tables = &ct_gpu_exact(workspace)->tables;
    const second_layout at = lay_out_second(counts);
    const char *what = "copying second derivatives";
    if (!ct_gpu_reserve_pinned_for(device, workspace, host, at.end, "second derivatives on the host", need))
        return false;
    char *to = (char *)host->host;
    return ct_gpu_copy_out(device, workspace, to, tables->second_pairs, at.slots, what) &&
           ct_gpu_copy_out(device, workspace, to + at.slots, tables->second_slots, at.sums - at.slots, what) &&
           ct_gpu_copy_out(device, workspace, to + at.sums, tables->second_sums, at.end - at.sums, what) &&
           ct_gpu_wait(device, workspace, what);
}

/* ---- a contact ---- */

/* The sums of a body's clusters in both passes; lists: [n_slots] for each. */
static void list_clusters(const ct_second_of_pair *pair, const ct_second_of_slot *slots, double *sums, ct_body *body,
                          int k, ct_second_cluster *const lists[2], ct_second_pair *out) {
    const ct_clusters *clusters = ct_mesh_topology(body->mesh, NULL)->clusters; /* it has one since it was sent */
    const uint64_t n_directions = out->n_directions;
    for (int pass = 0; pass < 2; pass++) {
        out->clusters[k][pass] = lists[pass];
        out->n_clusters[k][pass] = 0;
    }
    for (uint64_t i = pair->first_slot[k]; i < pair->first_slot[k] + pair->n_slots[k]; i++) {
        double *at = sums + slots[i].first;
        for (uint32_t pass = 0; pass < 2; pass++) {
            if (!(slots[i].passes >> pass & 1)) continue;
            const uint32_t first = clusters->first_vertex[slots[i].cluster];
            ct_second_cluster *to = &lists[pass][out->n_clusters[k][pass]++];
            to->vertices = clusters->vertices + first;
            to->n_vertices = clusters->first_vertex[slots[i].cluster + 1] - first;
            to->products = at;
            to->forces = (double(*)[2][3])(at + 3 * to->n_vertices * n_directions);
            to->moments = at + (3 * to->n_vertices + 6) * n_directions;
            at = to->moments + CT_MOMENTS;
        }
    }
}

/* The products of a step's contacts, in their order. */
struct product_lists {
    ct_host_list vertices, values, generalized;
};

/* Appends body k's products. False: no memory. */
static bool merge_body(const ct_second_pair *pair, const ct_body *body, int k, product_lists *lists, uint64_t *count) {
    *count = 0;
    if (body->is_half_space) return true; /* it has no vertices for its users */
    const uint32_t n_vertices = body->resident->n_vertices;
    const uint64_t row = 3 * (uint64_t)pair->n_directions;
    uint32_t *row_of = (uint32_t *)calloc((uint64_t)n_vertices + 1, sizeof *row_of);
    const uint64_t n = row_of ? ct_second_number_rows(pair, k, n_vertices, row_of) : 0;
    double *sums[2] = {NULL, NULL};
    bool ok = row_of;
    for (int pass = 0; pass < pair->n_passes && pass < 2 && ok; pass++) {
        sums[pass] = (double *)calloc(n * row + 1, sizeof(double));
        ok = sums[pass];
    }
    uint32_t *vertices = (uint32_t *)malloc((n + 1) * sizeof *vertices);
    ok = ok && vertices;
    if (ok) {
        *count = ct_second_merge(pair, k, n_vertices, row_of, sums, vertices, sums[0]);
        uint32_t *to_vertices = (uint32_t *)ct_host_append(&lists->vertices, *count, sizeof *to_vertices);
        double *to_values = (double *)ct_host_append(&lists->values, *count * row, sizeof *to_values);
        ok = to_vertices && to_values;
        if (ok && *count) {
            memcpy(to_vertices, vertices, *count * sizeof *vertices);
            memcpy(to_values, sums[0], *count * row * sizeof(double));
        }
    }
    free(vertices);
    free(sums[0]);
    free(sums[1]);
    free(row_of);
    return ok;
}

/* Adds to a contact what its step wants of it, and its products to the lists. False: no memory. */
static bool add_contact(const ct_workspace *workspace, const ct_gpu_counts *counts, const ct_step *step,
                        const ct_gpu_step *sent, ct_gpu_contact *found, product_lists *lists) {
    const second_layout at = lay_out_second(counts);
    char *host = (char *)ct_gpu_exact(workspace)->second_host.host;
    const ct_second_of_pair *from = (const ct_second_of_pair *)host + found->candidate;
    ct_second_pair pair = {};
    pair.n_passes = (int)from->n_passes;
    pair.n_directions = sent->n_directions;
    pair.unit = from->unit;
    ct_second_cluster *clusters[2][2];
    bool ok = true;
    for (int i = 0; i < 4; i++) {
        clusters[i / 2][i % 2] =
            (ct_second_cluster *)malloc(((uint64_t)from->n_slots[i / 2] + 1) * sizeof **clusters[0]);
        ok = ok && clusters[i / 2][i % 2];
    }
    ct_body *bodies[2];
    for (int k = 0; k < 2; k++) {
        bodies[k] = step->scene->bodies[found->body[k] - sent->first_body];
        for (int j = 0; j < 3; j++) pair.arm[k][j] = from->origin[j] - bodies[k]->given[4 * j + 3];
        if (ok)
            list_clusters(from, (const ct_second_of_slot *)(host + at.slots), (double *)(host + at.sums), bodies[k], k,
                          clusters[k], &pair);
    }
    if (ok && step->want & CT_WANT_INERTIA) ct_second_moments(&pair, &found->contact);
    for (int k = 0; k < 2 && ok && pair.n_directions; k++)
        ok = merge_body(&pair, bodies[k], k, lists, &found->contact.count_product[k]);
    double *generalized = (double *)ct_host_append(&lists->generalized, 12 * pair.n_directions, sizeof *generalized);
    ok = ok && generalized;
    for (uint32_t i = 0; i < 2 * pair.n_directions && ok; i++)
        ct_second_generalized(&pair, (int)(i % 2), i / 2, generalized + 6 * i);
    for (int i = 0; i < 4; i++) free(clusters[i / 2][i % 2]);
    return ok;
}

static void copy_products(const product_lists *lists, ct_result *r) {
    if (lists->vertices.n) memcpy(r->product_vertices, lists->vertices.data, lists->vertices.n * sizeof(uint32_t));
    if (lists->values.n) memcpy(r->products, lists->values.data, lists->values.n * sizeof(double));
    if (lists->generalized.n)
        memcpy(r->generalized_product, lists->generalized.data, lists->generalized.n * sizeof(double));
    uint64_t first = 0;
    for (size_t i = 0; i < r->n_contacts; i++)
        for (int k = 0; k < 2; k++) {
            r->contacts[i].first_product[k] = first;
            first += r->contacts[i].count_product[k];
        }
}

bool ct_gpu_add_second(const ct_workspace *workspace, const ct_gpu_counts *counts, ct_step *step, uint64_t,
                       const ct_gpu_step *sent, ct_gpu_contact *contacts, ct_result *r) {
    if (!sent->wants_second) return true;
    product_lists lists = {};
    bool ok = true;
    for (size_t i = 0; i < r->n_contacts && ok; i++) {
        ok = add_contact(workspace, counts, step, sent, &contacts[i], &lists);
        const ct_contact *from = &contacts[i].contact;
        memcpy(r->contacts[i].inertia, from->inertia, sizeof from->inertia);
        memcpy(r->contacts[i].linear_pressure, from->linear_pressure, sizeof from->linear_pressure);
        memcpy(r->contacts[i].plane_moments, from->plane_moments, sizeof from->plane_moments);
        for (int k = 0; k < 2; k++) r->contacts[i].count_product[k] = contacts[i].contact.count_product[k];
    }
    if (!ok) ct_fail(&step->error, CT_OUT_OF_MEMORY, "result", "no memory to add up second derivatives");
    if (ok && sent->n_directions) {
        ok = ct_result_add_products(r, r->n_contacts, lists.vertices.n, sent->n_directions, &step->error);
        if (ok) copy_products(&lists, r);
    }
    return ok;
}
