/* golden.h - generated scenes and the hashes of their answers, the same for any number of threads, instruction set,
 * compiler and backend. For the golden test, the backends' tests and the check on a machine with a GPU.
 */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "gpu/include/contact.h"

const char *golden_name(size_t scene); /* NULL: there are no more */
const char *golden_hash(size_t scene);

struct golden_answer {
    char hash[33];
    uint64_t contacts, fragments; /* fragments are no promise across backends, only within one */
};
/* Runs the scene; what fails prints the engine's message and aborts. */
struct golden_answer golden_run(ct_engine *engine, size_t scene);

#endif
