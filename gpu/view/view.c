/* view.c - plans windows with view_k.h and reports windows that cannot be planned. */
#include "gpu/view/view.h"

#include "gpu/base/fail.h"

static ct_status fail_plan(ct_plan_status plan, char axis, double pitch, const ct_plan_need *need, ct_error *error) {
    if (plan == CT_PLAN_TOO_FINE)
        return ct_fail(error, CT_OUT_OF_RANGE, "pixel_size",
                       "pixel_size %g m is finer than the resolution of positions along %c, where the bodies reach "
                       "over %g m: at least %g m is needed",
                       pitch, axis, need->reach, need->finest);
    return ct_fail(error, CT_LIMIT_EXCEEDED, "pixel_size",
                   "pixel_size %g m needs %.0f samples along %c, where the boxes overlap over %g m: at most %d "
                   "are allowed, so use at least %g m",
                   pitch, need->samples, axis, need->hi - need->lo, CT_MAX_RESOLUTION,
                   (need->hi - need->lo) / (CT_MAX_RESOLUTION - 1));
}

static ct_status plan_part(const ct_box *a, const ct_box *b, const ct_box *part, const ct_scene_settings *settings,
                           ct_window *window, ct_error *error) {
    for (int i = 0; i < 3; i++) {
        ct_plan_need need;
        ct_plan_status plan = ct_plan_axis(a, b, part, i, settings->pixel_size, settings->resolution[i],
                                           CT_MAX_RESOLUTION, &window->axis[i], &need);
        if (plan) return fail_plan(plan, "xyz"[i], settings -> pixel_size, &need, error);
    }
    return CT_OK;
}

ct_status ct_view_plan(const ct_box *a, const ct_box *b, const ct_scene_settings *settings, ct_window *window,
                       ct_error *error) {
    const ct_box overlap = ct_overlap(a, b);
    return plan_part(a, b, &overlap, settings, window, error);
}

ct_status ct_view_plan_part(const ct_box *a, const ct_box *b, const ct_box *part, const ct_scene_settings *settings,
                            ct_window *window, ct_error *error) {
    /* All backends report what the whole overlap needs. */
    return plan_part(a, b, part, settings, window, NULL) ? ct_view_plan(a, b, settings, window, error) : CT_OK;
}
