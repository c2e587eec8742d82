/* second.c - adds up the second derivatives and the moments of clusters. */
#include "gpu/exact/second.h"

#include <stdbool.h>

#include "gpu/base/cancel.h"

/* Clusters, and vertices, between two polls: some 100 us with 12 directions. */
enum { CLUSTER_POLL = 8, VERTEX_POLL = 2048 };

void ct_second_inertia(const ct_second_pair *pair, double inertia[3][3]) {
    double total[CT_MOMENTS] = {0};
    for (int pass = 0; pass < pair->n_passes; pass++) {
        double sum[2][CT_MOMENTS] = {{0}};
        for (int b = 0; b < 2; b++)
            for (uint32_t k = 0; k < pair->n_clusters[b][pass]; k++)
                for (int m = 0; m < CT_MOMENTS; m++) sum[b][m] += pair->clusters[b][pass][k].moments[m];
        for (int m = 0; m < CT_MOMENTS; m++) total[m] += sum[0][m] + sum[1][m];
    }
    const double unit = pair->unit, scale = unit * unit * unit * unit * unit / pair->n_passes;
    const double trace = total[0] + total[1] + total[2];
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3;
        inertia[i][i] = (trace - total[i]) * scale;
        inertia[i][j] = inertia[j][i] = -total[3 + i] * scale;
    }
}

uint32_t ct_second_number_rows(const ct_second_pair *pair, int b, uint32_t n_vertices, uint32_t *row_of) {
    for (int pass = 0; pass < pair->n_passes; pass++)
        for (uint32_t k = 0; k < pair->n_clusters[b][pass]; k++) {
            const ct_second_cluster *c = &pair->clusters[b][pass][k];
            for (uint32_t v = 0; v < c->n_vertices; v++) row_of[c->vertices[v]] = 1;
        }
    uint32_t n = 0;
    for (uint32_t v = 0; v < n_vertices; v++)
        if (row_of[v]) row_of[v] = ++n;
    return n;
}

uint32_t ct_second_merge(const ct_second_pair *pair, int b, uint32_t n_vertices, const uint32_t *row_of,
                         double *const sums[2], uint32_t *vertices) {
    const size_t row = 3 * (size_t)pair->n_directions;
    for (int pass = 0; pass < pair->n_passes; pass++)
        for (uint32_t k = 0; k < pair->n_clusters[b][pass]; k++) {
            const ct_second_cluster *c = &pair->clusters[b][pass][k];
            if (CT_POLL_EVERY(k, CLUSTER_POLL) && ct_is_cancelled()) return 0;
            for (uint32_t v = 0; v < c->n_vertices; v++) {
                double *to = sums[pass] + (row_of[c->vertices[v]] - 1) * row;
                for (size_t i = 0; i < row; i++) to[i] += c->products[v * row + i];
            }
        }
    const double scale = pair->unit / pair->n_passes;
    uint32_t n = 0;
    for (uint32_t v = 0; v < n_vertices; v++) {
        if (CT_POLL_EVERY(v, VERTEX_POLL) && ct_is_cancelled()) return 0;
        if (!row_of[v]) continue;
        const double *from[2] = {sums[0] + (row_of[v] - 1) * row, NULL};
        if (pair->n_passes == 2) from[1] = sums[1] + (row_of[v] - 1) * row;
        double *to = sums[0] + n * row; /* at from[0] or before it */
        bool is_zero = true;
        for (size_t i = 0; i < row; i++) {
            const double sum = from[1] ? from[0][i] + from[1][i] : from[0][i];
            is_zero = is_zero && sum == 0;
            to[i] = sum * scale;
        }
        if (!is_zero) vertices[n++] = v;
    }
    return n;
}

void ct_second_generalized(const ct_second_pair *pair, int b, uint32_t k, double out[6]) {
    double total[2][3] = {{0}};
    for (int pass = 0; pass < pair->n_passes; pass++) {
        double sum[2][3] = {{0}};
        for (uint32_t c = 0; c < pair->n_clusters[b][pass]; c++)
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 3; j++) sum[i][j] += pair->clusters[b][pass][c].forces[k][i][j];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 3; j++) total[i][j] += sum[i][j];
    }
    const double unit = pair->unit, scale = unit / pair->n_passes;
    double force[3];
    for (int j = 0; j < 3; j++) force[j] = total[0][j] * scale;
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, l = (i + 2) % 3;
        const double torque = pair->arm[b][j] * force[l] - pair->arm[b][l] * force[j];
        out[i] = force[i];
        out[3 + i] = torque + total[1][i] * scale * unit;
    }
}
