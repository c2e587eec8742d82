/* engine.h - the one engine, of two threads on the CPU, that a consistency test's cases share: its group's set-up and
 * tear-down. */
#ifndef CONSISTENCY_ENGINE_H
#define CONSISTENCY_ENGINE_H

#include "tests/scenes/stage.h"

static ct_engine *engine;

static int setup(void **state) {
    (void)state;
    engine = stage_engine(2, NULL);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ct_engine_destroy(&engine);
    return 0;
}

#endif
