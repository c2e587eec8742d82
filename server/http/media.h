/* media.h - which bodies a resource takes, by Content-Type. Pure. */
#ifndef CONTACTD_HTTP_MEDIA_H
#define CONTACTD_HTTP_MEDIA_H

#include "gpu/include/contact.h"
#include "server/http/problem.h"
#include "server/http/router.h"

typedef enum media_kind {
    MEDIA_ANY,  /* not said: told from the content */
    MEDIA_JSON, /* application/json */
    MEDIA_MESH, /* a mesh file */
} media_kind;

typedef struct media {
    media_kind kind;
    ct_mesh_format format; /* of MEDIA_MESH and MEDIA_ANY */
} media;

/* type: the header Content-Type, NULL: absent, and the form type that tools send by default counts as absent too.
 * meshes: mesh files are taken beside JSON. False: *p says 415. */
bool media_find(const char *type, bool meshes, media *out, problem *p);

/* Whether a body without a type is JSON of ours: it begins with a brace, and its first field is none of a glTF file. */
bool media_looks_like_json(const char *bytes, size_t size);

#endif
