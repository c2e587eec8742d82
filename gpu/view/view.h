/* view.h - plans the window of a pair: where rays are cast. */
#ifndef CT_VIEW_H
#define CT_VIEW_H

#include "gpu/base/box.h"
#include "gpu/include/contact.h"
#include "gpu/view/view_k.h"

/* The window is the intersection of the two boxes, which must overlap. With `resolution`, that many samples span it
 * (Faure 2008 section 4); with `pixel_size`, samples lie at the centres of a world-anchored grid of that pitch (Allard
 * 2010), so they stay where they are while bodies move. A pitch is never finer than 2^-27 of the bodies' reach along
 * the axis, which is finer than float32 positions are: a thinner window has fewer samples along that axis.
 * LIMIT_EXCEEDED, OUT_OF_RANGE: pixel_size asks for too many samples, or for a pitch below that limit. */
ct_status ct_view_plan(const ct_box *a, const ct_box *b, const ct_scene_settings *settings, ct_window *window,
                       ct_error *error);

#endif
