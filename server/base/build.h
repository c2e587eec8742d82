/* build.h - which build of the server this is. */
#ifndef SERVER_BUILD_H
#define SERVER_BUILD_H

/* The linker's build id in hexadecimal: the same source, compiler and flags give the same. Empty: it was linked without
 * one. Valid for as long as the process runs. On any thread. */
const char *build_id(void);

#endif
