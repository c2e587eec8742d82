/* backs.h - polygons that a file has for both sides of a face, for the repair. */
#ifndef CT_BACKS_H
#define CT_BACKS_H

#include "gpu/mesh/soup.h"

/* Of polygons with the same corners in the same or the opposite order, however they are numbered, begins the fans at the
 * same corner, so that all are cut alike: then their triangles are duplicates of each other. For fans as they were read.
 * OUT_OF_MEMORY, CANCELLED. */
ct_status ct_align_backs(ct_soup *soup, ct_error *error);

#endif
