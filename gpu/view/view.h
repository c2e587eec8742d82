/* view.h - plans the window of a pair: the box in which rays are cast, and their pitch. */
#ifndef CT_VIEW_H
#define CT_VIEW_H

#include "gpu/base/box.h"
#include "gpu/include/contact.h"
#include "gpu/view/view_k.h"

/* The window is the intersection of the two boxes, which must overlap. With `resolution` it has that many samples along
 * each axis (Faure 2008, section 4). With `pixel_size` samples are the centres of a grid with that pitch that is fixed
 * in the world (Allard 2010), so samples do not move with the bodies. The pitch is at least 2^-27 of the bodies' reach
 * along the axis, which is finer than the float32 positions; a window too thin for `resolution` at that pitch has fewer
 * samples. LIMIT_EXCEEDED: pixel_size needs too many samples; OUT_OF_RANGE: pixel_size is below the smallest pitch. */
ct_status ct_view_plan(const ct_box *a, const ct_box *b, const ct_scene_settings *settings, ct_window *window,
                       ct_error *error);

/* The window that spans only part of the intersection, the region that both bodies reach into (region_k.h). With
 * `pixel_size` it has the samples that ct_view_plan gives it there. */
ct_status ct_view_plan_part(const ct_box *a, const ct_box *b, const ct_box *part, const ct_scene_settings *settings,
                            ct_window *window, ct_error *error);

#endif
