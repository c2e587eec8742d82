/* test_golden.c - determinism: hashes of whole answers of generated scenes, for several numbers of threads and every
 * instruction set of this CPU, against those in tests/scenes/golden.c. They do not depend on the compiler, its
 * optimisation level or the processor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/scenes/golden.h"
#include "tests/scenes/stage.h"

/* Gives the number of fragments, which must not depend on threads or instruction sets either. */
static uint64_t check(uint32_t threads, const char *simd, size_t scene) {
    ct_engine *engine = stage_engine(threads, simd);
    struct golden_answer answer = golden_run(engine, scene);
    ct_engine_destroy(&engine);
    assert_true(answer.contacts > 0);
    if (strcmp(answer.hash, golden_hash(scene)) != 0)
        fail_msg("%s, %u threads, %s: the answers' hash is %s, expected %s", golden_name(scene), threads, simd,
                 answer.hash, golden_hash(scene));
    return answer.fragments;
}

static void test_same_bits(void **state) {
    (void)state;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__ /* is there for what many threads do, and slow */
    static const uint32_t threads[] = {7};
    const bool is_short = true; /* the fastest instruction set alone */
#else
    static const uint32_t threads[] = {1, 2, 7};
    const bool is_short = false;
#endif
    ct_engine *engine = stage_engine(1, NULL);
    ct_engine_facts facts;
    ct_engine_get_facts(engine, 0, &facts);
    ct_engine_destroy(&engine);
    print_message("instruction sets: %s\n", facts.simd_available);
    for (size_t scene = 0; golden_name(scene); scene++) {
        uint64_t fragments = 0;
        char names[sizeof facts.simd_available];
        memcpy(names, facts.simd_available, sizeof names);
        for (char *rest = names, *name; (name = strtok_r(rest, " ", &rest)) && !(is_short && fragments);)
            for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
                uint64_t n = check(threads[t], name, scene);
                if (!fragments) fragments = n;
                assert_true(n == fragments);
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
