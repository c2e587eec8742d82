/* second.h - from the sums of clusters to what a contact of the method `exact` has on request: products with the second
 * derivative (hessian_k.h), merged at vertices, and the inertia of the intersection (inertia_k.h). For every backend:
 * sums are added in the order of clusters, so the bits are the same wherever the clusters were summed.
 */
#ifndef CT_EXACT_SECOND_H
#define CT_EXACT_SECOND_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/exact/inertia_k.h"

/* The sums of a cluster that is inside the other body, or crossed, in one pass; K directions. */
typedef struct ct_second_cluster {
    const uint32_t *vertices; /* [n_vertices] the mesh's */
    uint32_t n_vertices;
    double *products;       /* [n_vertices][K][3], units * m */
    double (*forces)[2][3]; /* [K] the sum of its products; and of arm x product + motion x gradient, units^2 * m */
    double *moments;        /* [CT_MOMENTS] units^5, about the contact's centre */
} ct_second_cluster;

typedef struct ct_second_pair {
    const ct_second_cluster *clusters[2][2]; /* by body and pass, in rising order of clusters */
    uint32_t n_clusters[2][2];
    int n_passes;
    uint32_t n_directions;
    double unit;      /* m */
    double arm[2][3]; /* m: from a body's origin to the lattice's */
} ct_second_pair;

/* m^5, as in ct_contact. */
void ct_second_inertia(const ct_second_pair *pair, double inertia[3][3]);

/* Numbers the vertices of body b's clusters from 1 on, in rising order; row_of: [n_vertices], zero before, and where a
 * vertex is in no cluster. Returns how many there are. */
uint32_t ct_second_number_rows(const ct_second_pair *pair, int b, uint32_t n_vertices, uint32_t *row_of);

/* Adds up body b's clusters at their vertices, and drops vertices whose products are all 0. sums: [rows][K][3] for each
 * pass, zero before. Afterwards sums[0] has the products of the vertices that are left, m^2, and vertices[] lists them,
 * in rising order. Returns how many there are. */
uint32_t ct_second_merge(const ct_second_pair *pair, int b, uint32_t n_vertices, const uint32_t *row_of,
                         double *const sums[2], uint32_t *vertices);

/* The derivative of body b's generalized gradient along direction k. */
void ct_second_generalized(const ct_second_pair *pair, int b, uint32_t k, double out[6]);

#endif
