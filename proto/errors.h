/* errors.h - the one list of error codes: wire, HTTP, C and Python agree by construction.
 *
 * X(name, number, HTTP status, can a retry of the same request help, text). Numbers are never reused; the enum
 * ErrorCode of contactd.fbs has the same names and numbers (codec.cpp checks it at compile time).
 */
#ifndef CONTACTD_ERRORS_H
#define CONTACTD_ERRORS_H

#define CONTACTD_ERROR_MAP(X)                                                                                          \
    X(OK, 0, 200, 0, "ok")                                                                                             \
    X(MALFORMED, 1, 400, 0, "the message could not be understood")                                                     \
    X(INVALID_ARGUMENT, 2, 400, 0, "an argument is invalid")                                                           \
    X(NOT_FOUND, 3, 404, 0, "no such object")                                                                          \
    X(STALE_HANDLE, 4, 404, 0, "the object was closed or deleted")                                                     \
    X(FORBIDDEN, 5, 403, 0, "the object belongs to another client")                                                    \
    X(CONFLICT, 6, 409, 0, "the request conflicts with the object's state")                                            \
    X(PARSE_ERROR, 7, 400, 0, "the bytes are not a mesh in that format")                                               \
    X(INVALID_MESH, 8, 422, 0, "the mesh is not a closed, consistently oriented surface around a volume")              \
    X(WRONG_LENGTH, 9, 422, 0, "an array has the wrong length")                                                        \
    X(NON_FINITE, 10, 422, 0, "a number is NaN or infinite")                                                           \
    X(OUT_OF_RANGE, 11, 422, 0, "a number is outside its range")                                                       \
    X(TOO_LARGE, 12, 413, 0, "the request is larger than the server accepts")                                          \
    X(LIMIT_EXCEEDED, 13, 422, 0, "a configured limit would be exceeded")                                              \
    X(OUT_OF_MEMORY, 14, 503, 1, "not enough memory")                                                                  \
    X(BUSY, 15, 429, 1, "the queue is full")                                                                           \
    X(STATE_LOST, 16, 409, 0, "the server has no state of this session: register again and resend")                    \
    X(DEADLINE_EXCEEDED, 17, 504, 1, "the deadline passed before the answer")                                          \
    X(UNSUPPORTED, 18, 501, 0, "not supported by this server")                                                         \
    X(VERSION_MISMATCH, 19, 400, 0, "the protocol versions do not overlap")                                            \
    X(SHUTTING_DOWN, 20, 503, 1, "the server is shutting down")                                                        \
    X(DEVICE_ERROR, 21, 503, 1, "the compute device failed")                                                           \
    X(INTERNAL, 22, 500, 0, "internal error")                                                                          \
    X(METHOD_NOT_ALLOWED, 23, 405, 0, "this resource has no such method")                                              \
    X(UNREACHABLE, 24, 503, 1, "no server answers") /* clients only */                                                 \
    X(UNAUTHENTICATED, 25, 401, 0, "the server does not know who asks")                                                \
    X(TIME_LIMIT, 26, 504, 0, "the work took longer than its time limit")                                              \
    X(SERVER_ENDED, 27, 503, 0, "the server ended while it worked on this, twice") /* clients only */                  \
    X(CANCELLED, 28, 409, 0, "its client took the request back")                   /* by Cancel, over the stream */

typedef enum contactd_code {
#define CONTACTD_ERROR_ENUM(name, number, http, retry, text) CONTACTD_##name = number,
    CONTACTD_ERROR_MAP(CONTACTD_ERROR_ENUM)
#undef CONTACTD_ERROR_ENUM
} contactd_code;

#endif
