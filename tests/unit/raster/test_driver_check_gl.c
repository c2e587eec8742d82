/* test_driver_check_gl.c - the check that a driver computes the CPU's bits: it accepts a correct drawing and rejects
 * one with a single wrong bit, fragment or winding number. A software drawer replaces OpenGL here.
 */
#include "tests/unit/raster/software.h"

static ct_status draw(ct_raster_gl *gl, ct_budget *budget, ct_drawing *d, ct_error *error);
static void release(ct_raster_gl *gl, ct_budget *budget);

#define ct_raster_gl_check_driver check_driver
#define ct_raster_gl_draw         draw
#define ct_raster_gl_release      release
#include "gpu/methods/ldi/driver_check_gl.c" /* calls the functions above. NOLINT(bugprone-suspicious-include) */

enum defect { NONE, KEY, L1, L2, TAG, MISSING, EXTRA, TWICE, WINDING, FAILS, DEFECTS };
static enum defect defect;
static struct software memory;

static ct_status draw(ct_raster_gl *gl, ct_budget *budget, ct_drawing *d, ct_error *error) {
    (void)gl, (void)budget;
    if (defect == FAILS) return ct_fail(error, CT_DEVICE_ERROR, "rasterizer", "the test makes it fail");
    software_draw(&memory, d);
    assert_true(d->n_fragments > 1000);
    ct_linked_fragment *f = &d->fragments[d->n_fragments / 2], *last = &d->fragments[d->n_fragments - 1];
    uint32_t ray = 0;
    switch (defect) {
    case KEY:
        f->f.key += 2; /* one unit of depth */
        break;
    case L1:
        f->f.l1++;
        break;
    case L2:
        f->f.l2--;
        break;
    case TAG:
        f->f.tag ^= 0x80000000;
        break;
    case MISSING:
        while (d->head[ray] == CT_END) ray++;
        d->head[ray] = d->fragments[d->head[ray]].next;
        d->n_fragments--;
        if (d->head[ray] == d->n_fragments) d->head[ray] = CT_END;
        break;
    case EXTRA: /* counted and in no list */
        d->n_fragments++;
        break;
    case TWICE: /* one fragment replaced by a copy of another */
        if (last->next != CT_END)
            *last = d->fragments[last->next];
        else
            last->f = f->f;
        break;
    case WINDING:
        d->winding[RAYS / 2][1]++;
        break;
    default:
        break;
    }
    return CT_OK;
}

static void release(ct_raster_gl *gl, ct_budget *budget) {
    (void)gl, (void)budget;
}

static void test_driver_check(void **state) {
    (void)state;
    for (defect = NONE; defect < DEFECTS; defect++) {
        ct_error error = {0};
        ct_status status = check_driver(NULL, "a driver", &error);
        if (defect == NONE) {
            assert_int_equal(status, CT_OK);
        } else if (defect == FAILS) {
            assert_int_equal(status, CT_DEVICE_ERROR);
        } else {
            if (status != CT_UNSUPPORTED) fail_msg("defect %d was not found", (int)defect);
            assert_string_equal(error.field, "rasterizer");
            assert_non_null(strstr(error.message, "a driver does not compute exactly"));
        }
    }
    software_free(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_driver_check)};
    return cmocka_run_group_tests_name("driver check", tests, NULL, NULL);
}
