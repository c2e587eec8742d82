/* read.h - the mesh readers, one file per format: bytes to soup, for ct_mesh_read.
 *
 * Each reader accepts arbitrary bytes and either fills the soup or fails with PARSE_ERROR, LIMIT_EXCEEDED or
 * OUT_OF_MEMORY. Memory is bounded by a multiple of `size`, regardless of the counts that a header claims. Readers do
 * not check indices against the number of vertices; validation does, for all formats.
 */
#ifndef CT_READ_H
#define CT_READ_H

#include "gpu/mesh/soup.h"

ct_status ct_read_obj(const char *bytes, size_t size, ct_soup *soup, ct_error *error);
ct_status ct_read_off(const char *bytes, size_t size, ct_soup *soup, ct_error *error);
ct_status ct_read_ply(const char *bytes, size_t size, ct_soup *soup, ct_error *error);
ct_status ct_read_stl(const char *bytes, size_t size, ct_soup *soup, ct_error *error);

/* True if the size equals the one that follows from the triangle count in a binary STL's header. */
bool ct_is_binary_stl(const char *bytes, size_t size);

#endif
