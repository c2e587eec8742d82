/* fuzz_time.c - libFuzzer target: steps of scenes that are made to take long (tests/scenes/hostile.h) end when they are
 * told to, within their memory, and have changed nothing. Input: how the step is ended, a number for that, and a scene
 * (hostile_scene_of). */
#include <stdio.h>
#include <stdlib.h>

#include "tests/scenes/hostile_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BY_TIME, BY_THREAD, BY_POLL, BEFORE, ENDS };

/* Small scenes run to their end too. */
enum { LARGE = 20000, LARGE_CROWD = 1000, SMALL = 200, SMALL_CROWD = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) return 0;
    const uint32_t number = (uint32_t)data[1] << 8 | data[2];
    hostile_end end = {0};
    switch (data[0] % ENDS) {
    case BY_TIME:
        end.seconds = 0.05;
        break;
    case BY_THREAD:
        end.seconds = 0.2;
        end.request = 1e-6 * number;
        break;
    case BY_POLL:
        end.at_poll = number + 1;
        break;
    default:
        end.is_requested = true;
    }
    const bool is_small = data[0] % ENDS >= BY_POLL;
    hostile_scene scene =
        hostile_scene_of(data + 3, size - 3, is_small ? SMALL : LARGE, is_small ? SMALL_CROWD : LARGE_CROWD);
    if (is_small) hostile_scene_shrink(&scene);
    ct_status status;
    const char *complaint = hostile_check(&scene, &end, is_small, &status);
    if (complaint) {
        char words[1024];
        hostile_scene_print(&scene, words, sizeof words);
        fprintf(stderr, "fuzz_time: %s\nscene: %s\n", complaint, words);
        abort();
    }
    return 0;
}
