/* read.h - the mesh readers, one file per format: bytes to soup, for ct_mesh_read.
 *
 * Each takes any bytes whatever and either fills the soup or fails with PARSE_ERROR, LIMIT_EXCEEDED or OUT_OF_MEMORY.
 * What they allocate is at most proportional to the bytes given, whatever those claim. Indices are not checked against
 * the number of vertices: validation does that for all formats alike.
 */
#ifndef CT_READ_H
#define CT_READ_H

#include "gpu/mesh/soup.h"

ct_status ct_read_obj(const char *bytes, size_t size, ct_soup *soup, ct_error *error);
ct_status ct_read_off(const char *bytes, size_t size, ct_soup *soup, ct_error *error);
ct_status ct_read_ply(const char *bytes, size_t size, ct_soup *soup, ct_error *error);
ct_status ct_read_stl(const char *bytes, size_t size, ct_soup *soup, ct_error *error);

bool ct_is_binary_stl(const char *bytes, size_t size); /* its size fits the count in its header */

#endif
