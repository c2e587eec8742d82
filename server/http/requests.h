/* requests.h - the JSON bodies of requests as plain structs: parsed, checked and bounded, before anything acts on them.
 *
 * Each parser is pure: bytes in, struct or problem out. Where a parser returns true, the matching _free must be called.
 */
#ifndef CONTACTD_HTTP_REQUESTS_H
#define CONTACTD_HTTP_REQUESTS_H

#include "proto/setting_rows.h"
#include "server/http/problem.h"
#include "server/schedule/schedule.h"

typedef struct mesh_request { /* {"name", "vertices": [[x,y,z],...], "triangles": [[i,j,k],...]} */
    char name[REGISTRY_NAME];
    double *positions; /* [n_vertices][3] */
    size_t n_vertices;
    uint32_t *triangles; /* [n_triangles][3] */
    size_t n_triangles;
} mesh_request;

bool request_mesh(const char *bytes, size_t size, mesh_request *out, problem *p);
void request_mesh_free(mesh_request *request);

typedef struct scene_request { /* {"name", "ttl_s", and the settings: docs/settings.md} */
    char name[REGISTRY_NAME];
    ct_settings_change settings;
    bool has_ttl;
    uint32_t ttl_s; /* 0: none */
} scene_request;

bool request_scene(const char *bytes, size_t size, scene_request *out, problem *p);
bool request_settings(const char *bytes, size_t size, ct_settings_change *out,
                      problem *p); /* the same without a name */

typedef struct body_request { /* {"mesh", "kind", "pose", "group", "mask", "ignore", "self_contact",
                                 "modulus", "friction", "dissipation", "static_friction"},
                                 or for kind half_space "normal" and "offset" in place of "mesh" */
    uint64_t mesh;            /* 0: mesh_hash */
    char mesh_hash[33];       /* the hash or its first 8 digits or more */
    ct_body_options options;  /* options.ignore is owned */
} body_request;

bool request_body(const char *bytes, size_t size, body_request *out, problem *p);

typedef struct
    body_patch { /* {"mesh", "material": {"other", "modulus", "friction", "dissipation", "static_friction"}} */
    bool has_mesh, has_material; /* one of them at least */
    uint64_t mesh;               /* 0: mesh_hash */
    char mesh_hash[33];
    uint32_t other; /* 0: the body's own material */
    ct_material material;
} body_patch;

bool request_body_patch(const char *bytes, size_t size, body_patch *out, problem *p); /* nothing to free */
void request_body_free(body_request *request);

typedef struct step_request { /* {"updates": [{"body", "positions", "ranges", "indices", "pose"}], "want",
                                 "deadline_us", "time_budget_us", "tolerance",
                                 "directions": [{"body", "index", "values", "twist"}]} */
    uint32_t want;
    uint64_t deadline_us;  /* 0: none */
    double time_budget_us; /* 0: none was given */
    double tolerance;      /* m^3; 0: none */
    ct_update *updates;    /* their arrays are owned */
    size_t n_updates;
    ct_direction *directions; /* their arrays are owned */
    size_t n_directions;
    ct_velocity *velocities; /* as directions */
    size_t n_velocities;
    double viscosity; /* N s/m^3 */
} step_request;

bool request_step(const char *bytes, size_t size, step_request *out, problem *p);
void request_step_free(step_request *request);

typedef struct overlap_request { /* {"a": {"mesh", "pose"}, "b": {"mesh", "pose"}, "method", "resolution", "pixel_size",
                                   "max_step_time"}
                                  */
    body_request body[2];        /* rigid */
    ct_settings_change settings;
} overlap_request;

bool request_overlap(const char *bytes, size_t size, overlap_request *out, problem *p);

/* Query parameters by name, each as text; the last has no name. */
typedef struct query_field {
    const char *name;
    char text[64]; /* "": not given */
} query_field;
/* known: their names between blanks, for the message about others. */
bool request_fields(const char *query, query_field *fields, const char *known, problem *p);
/* Of ?name=N: a whole number from least to most; what *out has, where it is not given. */
bool request_whole(const query_field *field, uint64_t least, uint64_t most, uint64_t *out, problem *p);
/* Of ?name=true: "true" or "false". */
bool request_flag(const query_field *field, bool *out, problem *p);

/* ?limit=N&after=ID of a list: at most N of the items beyond that id. limit 0: all. */
typedef struct page_request {
    uint64_t after;
    uint32_t limit;
} page_request;

#define REQUEST_MAX_PAGE 1000
bool request_page(const char *query, page_request *out, problem *p);

/* ?limit=N&after=ID&find=TEXT of scenes. */
typedef struct scene_list_request {
    page_request page;
    char find[sizeof((query_field *)0)->text]; /* "": all */
} scene_list_request;

bool request_scene_list(const char *query, scene_list_request *out, problem *p);

/* The query of GET .../snapshot.png, as received: within the options' bounds, what it does not name at its default. */
bool request_snapshot(const char *query, ct_snapshot_options *out, problem *p);

/* "3f2a..." of 8 to 32 hexadecimal digits. */
bool request_is_hash(const char *text);

#endif
