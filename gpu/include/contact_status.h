/* contact_status.h - how a function of the engine fails.
 * Part of contact.h, which says what holds of all: units, ownership, errors, threads. */
#ifndef CONTACT_STATUS_H
#define CONTACT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* name, text */
#define CT_STATUS_MAP(X)                                                                                               \
    X(OK, "ok")                                                                                                        \
    X(INVALID_ARGUMENT, "invalid argument")                                                                            \
    X(NOT_FOUND, "no such object")                                                                                     \
    X(PARSE_ERROR, "the bytes are not a mesh in that format")                                                          \
    X(INVALID_MESH, "the mesh is not a closed, consistently oriented surface around a volume")                         \
    X(WRONG_LENGTH, "an array has the wrong length")                                                                   \
    X(NON_FINITE, "a number is NaN or infinite")                                                                       \
    X(OUT_OF_RANGE, "a number is outside its range")                                                                   \
    X(LIMIT_EXCEEDED, "a configured limit would be exceeded")                                                          \
    X(OUT_OF_MEMORY, "not enough memory")                                                                              \
    X(UNSUPPORTED, "not supported by this build or machine")                                                           \
    X(DEVICE_ERROR, "the compute device failed")                                                                       \
    X(CANCELLED, "the call was ended before it was done")

typedef enum ct_status {
#define CT_STATUS_ENUM(name, text) CT_##name,
    CT_STATUS_MAP(CT_STATUS_ENUM)
#undef CT_STATUS_ENUM
} ct_status;

const char *ct_status_name(ct_status status); /* "INVALID_MESH" */
const char *ct_status_text(ct_status status);

/* Zero it before the call. The first failure fills it; a later failure and success leave it unchanged. */
typedef struct ct_error {
    ct_status status;
    char field[48];    /* the argument at fault, e.g. "positions"; may be empty */
    char message[464]; /* object, expected, actual, remedy: one or two sentences */
} ct_error;

#ifdef __cplusplus
}
#endif
#endif
