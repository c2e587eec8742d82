/* engine.h - set-up and tear-down of the engine that the cases of a consistency test share: CPU, two threads. */
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
