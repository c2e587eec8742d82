/* scratch.h - steps with little working memory: with too little they fail and say so, with enough they have the same
 * bits as with any amount. For tests of methods and backends. */
#ifndef CONSISTENCY_SCRATCH_H
#define CONSISTENCY_SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/scenes/stage.h"

struct scratch_limits {
    uint64_t first; /* bytes */
    uint64_t more;  /* bytes that each limit has more than the last; 0: a part of the last */
    uint64_t part;
    int n_steps; /* with each limit */
};

/* Steps on engines like this one with one limit after the other, the first of which is too low, until a limit is
 * enough. Failures must have `words` in their message, other results the hash `expected`. */
static inline void check_scratch_limits(const ct_engine *like, const struct scratch_limits *limits, const char *words,
                                        const ct_scene_settings *settings, const struct placed *bodies, int n_bodies,
                                        uint32_t want, const char expected[33]) {
    ct_engine_facts facts;
    ct_engine_get_facts(like, 0, &facts);
    ct_engine_options options;
    ct_engine_options_init(&options);
    options.backend = facts.backend;
    options.threads = 2;
    options.max_scratch_bytes = limits->first;
    bool failed = false, passed = false;
    while (!passed) {
        ct_engine *small = NULL;
        assert_int_equal(ct_engine_create(&options, &small, NULL), CT_OK);
        struct stage stage = stage_open(small, settings, bodies, n_bodies);
        for (int i = 0; i < limits->n_steps; i++) {
            ct_step step = {.scene = stage.scene, .want = want};
            const ct_status status = ct_engine_run(small, &step, 1);
            if (status) {
                failed = true;
                assert_int_equal(status, CT_OUT_OF_MEMORY);
                assert_non_null(strstr(step.error.message, words));
            } else {
                char hash[33];
                passed = true;
                stage_hash(step.result, hash);
                assert_string_equal(hash, expected);
            }
            ct_result_free(&step.result);
        }
        stage_close(&stage);
        ct_engine_destroy(&small);
        options.max_scratch_bytes += limits->more ? limits->more : options.max_scratch_bytes / limits->part;
    }
    assert_true(failed);
}

#endif
