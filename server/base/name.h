/* name.h - which characters names of clients, scenes and meshes may have: those that a reader of a log or a list sees,
 * each in its place. For stream, HTTP and registry. */
#ifndef SERVER_NAME_H
#define SERVER_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/error.h"

/* Not control characters, format characters (Unicode's categories Cc and Cf: directions of writing, zero widths, soft
 * hyphens, tags), separators of lines and paragraphs, other code points that are shown as nothing
 * (Default_Ignorable_Code_Point), noncharacters, and planes in which no character is. */
bool name_may_have(uint32_t code_point);

/* The code point of the UTF-8 character of n bytes at text, as wire_utf8_length tells. */
uint32_t name_code_point(const char *text, size_t n);

/* name: NULL is empty. False: *error says which character of `object`'s name is refused. */
bool name_check(const char *name, const char *object, server_error *error);

#endif
