/* test_winding.c - how a ray's initial winding number is found, from the two boxes of a pair. */
#include "tests/unit/unit.h"

#include "gpu/view/winding_k.h"

static ct_box along_x(double lo, double hi) {
    return (ct_box){{lo, 0, 0}, {hi, 1, 1}};
}

static void test_ends_of_boxes(void **state) {
    (void)state;
    static const struct {
        double body[2], other[2];
        ct_initial_winding expected;
    } cases[] = {
        {{0, 2}, {1, 3}, CT_INITIAL_FROM_BALANCE}, /* begins in front, ends in the window */
        {{1, 3}, {0, 2}, CT_INITIAL_ZERO},         /* begins in the window, ends behind it */
        {{0, 3}, {1, 2}, CT_INITIAL_COUNTED},      /* reaches beyond both ends */
        {{1, 2}, {0, 3}, CT_INITIAL_ZERO},         /* lies in the window */
        {{0, 2}, {0, 2}, CT_INITIAL_ZERO},         /* both at once */
        {{0, 2}, {1, 2}, CT_INITIAL_FROM_BALANCE}, /* the same end */
        {{0, 2}, {0, 1}, CT_INITIAL_ZERO},         /* the same beginning */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ct_box body = along_x(cases[i].body[0], cases[i].body[1]),
                     other = along_x(cases[i].other[0], cases[i].other[1]);
        assert_int_equal(ct_find_initial_winding(&body, &other, 0), cases[i].expected);
        for (int w = 1; w < 3; w++) assert_int_equal(ct_find_initial_winding(&body, &other, w), CT_INITIAL_ZERO);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ends_of_boxes)};
    return cmocka_run_group_tests_name("winding", tests, NULL, NULL);
}
