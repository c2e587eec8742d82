/* near_ray.h - the clusters of a body along a ray, nearer ones first: for searches that end at the first hit. */
#ifndef CT_EXACT_NEAR_RAY_H
#define CT_EXACT_NEAR_RAY_H

#include "gpu/exact/body.h"

/* Calls visit(argument, cluster) for each cluster whose box meets the ray from p along +x up to x = *far, which visit
 * may lower. A node's children come in the order in which they begin along the ray, so a ray that ends at the first hit
 * visits few clusters beyond it. */
void ct_visit_clusters_on_ray(const ct_exact_body *body, const double p[3], const double *far,
                              void (*visit)(void *argument, uint32_t cluster), void *argument);

#endif
