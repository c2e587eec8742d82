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
/* In builds with jansson (CT_HAVE_JANSSON). Memory: some 150 bytes for each byte of JSON at most, up to
 * CT_GLTF_MAX_VALUES. */
ct_status ct_read_gltf(const char *bytes, size_t size, ct_soup *soup, ct_error *error);

/* The length of a word without the digits at its end: "OFF490" is OFF's header and a count. */
size_t ct_off_word_length(const char *word, size_t length);

/* The size without line ends, spaces, zeros and the ^Z of DOS at its end: of text that ends there. */
size_t ct_text_size(const char *bytes, size_t size);

/* True if the size equals the one that follows from the triangle count in a binary STL's header. */
bool ct_is_binary_stl(const char *bytes, size_t size);

/* The size that follows from that count; 0: there is no header. */
uint64_t ct_binary_stl_size(const char *bytes, size_t size);

/* True if all triangles that a binary STL's header claims are there, and at least one; other bytes may follow. No text
 * is that, as a count of four letters is larger than any file. */
bool ct_has_binary_stl(const char *bytes, size_t size);

#endif
