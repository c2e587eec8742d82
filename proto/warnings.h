/* warnings.h - the one list of a step's warnings: wire, HTTP, C and Python agree by construction.
 *
 * X(name, number, text). Numbers are never reused; the enum WarningCode of contactd.fbs has the same names and numbers
 * (codec.cpp checks it at compile time), and so has the engine's own list (the server checks it). A peer that does not
 * know a code gives its number.
 */
#ifndef CONTACTD_WARNINGS_H
#define CONTACTD_WARNINGS_H

#define CONTACTD_WARNING_MAP(X)                                                                                        \
    X(BODY_INVERTED, 1, "the body is inside out: its signed volume is negative")                                       \
    X(BODY_COLLAPSED, 2, "the body is flat: it encloses almost no volume")                                             \
    X(NO_VELOCITIES, 3, "the body's contact has friction or dissipation, and the step no velocities: neither acts")    \
    X(NESTED, 4, "the body is wholly inside another, and its volume has no gradient; move it back the way it came")    \
    X(UNPLACED, 5, "a pair of the body is left out: the two are too far apart in size or place for the coordinates")

typedef enum contactd_warning_code {
    CONTACTD_WARNING_NONE = 0,
#define CONTACTD_WARNING_ENUM(name, number, text) CONTACTD_WARNING_##name = number,
    CONTACTD_WARNING_MAP(CONTACTD_WARNING_ENUM)
#undef CONTACTD_WARNING_ENUM
} contactd_warning_code;

#endif
