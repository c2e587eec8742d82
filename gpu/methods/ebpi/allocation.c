/* allocation.c - chooses the tiles that a pass refines. */
#include "gpu/methods/ebpi/allocation.h"

#include <math.h>
#include <string.h>

int64_t ct_ebpi_area(const ct_ebpi_view *view, const ct_ebpi_tile *tile) {
    return (int64_t)1 << (tile->shift_u - view->pitch_shift[0] + tile->shift_v - view->pitch_shift[1]);
}

double ct_ebpi_bound_of(const ct_ebpi_view *view, const ct_ebpi_tile *tile, double unit) {
    return (double)tile->bound * (double)ct_ebpi_area(view, tile) * (1.0 / (1 << CT_EBPI_DEPTH_BITS)) * unit;
}

static uint8_t lesser(int a, int b) {
    return (uint8_t)(a < b ? a : b);
}

/* How often a tile's sides can be halved, to single pitches, at most `most` times each. */
static ct_ebpi_cut most_cut(const ct_ebpi_view *view, const ct_ebpi_tile *tile, uint8_t most) {
    return (ct_ebpi_cut){lesser(tile->shift_u - view->pitch_shift[0], most),
                         lesser(tile->shift_v - view->pitch_shift[1], most)};
}

static uint64_t tiles_of(ct_ebpi_cut cut) {
    return (uint64_t)1 << (cut.u + cut.v);
}

/* ---- optimal ---- */

void ct_ebpi_plan_cuts(const ct_ebpi_view *view, const ct_ebpi_polynomial *polynomial, ct_ebpi_tile *tile) {
    ct_ebpi_plan_parts(polynomial, most_cut(view, tile, 2), tile->cut, tile->left);
}

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 46; /* sign, exponent and 6 bits: rises with x >= 0 */
}

static uint32_t level_of(uint64_t largest, double gain) {
    const uint64_t below = largest - bits_of(gain);
    return below < CT_EBPI_LEVELS ? (uint32_t)below : CT_EBPI_LEVELS - 1;
}

/* A view whose bound is more than this many targets is cut for two passes at once (section 5: 4 x 4), others for one,
 * which needs fewer rays. Measured from 1 to 4 on spheres and on large meshes. */
static const double FAR_OFF = 1.4;

/* A pass takes off no more than this part of what cutting all tiles would: the last ones take off next to nothing. */
static const double MOST_OF_GAIN = 0.7;

/* What the cut of a tile takes off the bound, m^3; 0: it is none of the view's or cannot be cut. */
static double gain_of(const ct_ebpi_pass *pass, const ct_ebpi_tile *tile, int k) {
    if (tile->view != pass->view->axis || tile->bound <= 0 || tiles_of(tile->cut[k]) == 1) return 0;
    return ct_ebpi_bound_of(pass->view, tile, pass->unit) * (1 - (double)tile->left[k]);
}

void ct_ebpi_choose_optimal(ct_ebpi_pass *pass, ct_ebpi_level *level) {
    const int k = pass->bound > FAR_OFF * pass->target;
    double largest = 0, all = 0, left = pass->bound;
    for (uint32_t i = 0; i < pass->n; i++) {
        const ct_ebpi_tile *tile = &pass->tiles[i];
        largest = fmax(largest, gain_of(pass, tile, k) / (double)tiles_of(tile->cut[k]));
    }
    const uint64_t top = bits_of(largest);
    memset(level, 0, CT_EBPI_LEVELS * sizeof *level);
    for (uint32_t i = 0; i < pass->n; i++) {
        const ct_ebpi_tile *tile = &pass->tiles[i];
        const double gain = gain_of(pass, tile, k);
        if (gain <= 0) continue;
        struct ct_ebpi_level *of = &level[level_of(top, gain / (double)tiles_of(tile->cut[k]))];
        of->gain += gain;
        all += gain;
        of->rays += tiles_of(tile->cut[k]);
    }
    const double goal = fmax(pass->target, left - MOST_OF_GAIN * all);
    uint32_t n_whole = 0; /* levels that are refined as a whole */
    pass->n_new = 0;
    pass->is_short = false;
    for (; n_whole < CT_EBPI_LEVELS; n_whole++) {
        const double after = left - level[n_whole].gain;
        if (after <= goal || pass->n_new + level[n_whole].rays > pass->most) break;
        left = after;
        pass->n_new += level[n_whole].rays;
    }
    bool goes_on = true; /* in the next level */
    for (uint32_t i = 0; i < pass->n; i++) {
        const ct_ebpi_tile *tile = &pass->tiles[i];
        if (tile->view != pass->view->axis) continue;
        const double gain = gain_of(pass, tile, k);
        const uint64_t rays = tiles_of(tile->cut[k]);
        pass->cut[i] = (ct_ebpi_cut){0, 0};
        if (gain <= 0) continue;
        const uint32_t of = level_of(top, gain / (double)rays);
        if (of < n_whole) pass->cut[i] = tile->cut[k];
        if (of != n_whole || !goes_on) continue;
        if (left <= goal) {
            goes_on = false;
        } else if (pass->n_new + rays > pass->most) {
            pass->is_short = true;
            goes_on = false;
        } else {
            pass->n_new += rays;
            pass->cut[i] = tile->cut[k];
            left -= gain;
        }
    }
}

/* ---- equal ---- */

size_t ct_ebpi_pixel_of(const ct_ebpi_view *view, const ct_ebpi_share *share, const ct_ebpi_tile *tile) {
    const int32_t column = tile->u >> (share->pixel_shift + view->pitch_shift[0]);
    const int32_t row = tile->v >> (share->pixel_shift + view->pitch_shift[1]);
    return (size_t)row * (size_t)share->columns + (size_t)column;
}

static bool is_gathered(const ct_ebpi_view *view, const ct_ebpi_share *share, const ct_ebpi_tile *tile) {
    return tile->shift_u - view->pitch_shift[0] > share->pixel_shift;
}

void ct_ebpi_add_to_pixel(const ct_ebpi_view *view, const ct_ebpi_share *share, const ct_ebpi_tile *tile) {
    if (is_gathered(view, share, tile)) return;
    ct_ebpi_pixel *pixel = &share->pixel[ct_ebpi_pixel_of(view, share, tile)];
    pixel->bound += ct_ebpi_bound_of(view, tile, share->unit);
    pixel->n++;
}

ct_ebpi_cut ct_ebpi_equal_cut(const ct_ebpi_view *view, const ct_ebpi_share *share, const ct_ebpi_tile *tile,
                              const ct_ebpi_polynomial *polynomial) {
    const double bound = ct_ebpi_bound_of(view, tile, share->unit);
    if (is_gathered(view, share, tile))
        return bound > share->of_pitch * (double)ct_ebpi_area(view, tile) ? (ct_ebpi_cut){1, 1} : (ct_ebpi_cut){0, 0};
    const ct_ebpi_pixel *pixel = &share->pixel[ct_ebpi_pixel_of(view, share, tile)];
    const double allowed = share->of_pitch * (double)((int64_t)1 << 2 * share->pixel_shift); /* m^3 */
    if (pixel->bound <= allowed || bound * pixel->n <= allowed) return (ct_ebpi_cut){0, 0};
    const ct_ebpi_cut by_4 = most_cut(view, tile, 2);
    if (pixel->n > 1 || !(allowed > 0)) return by_4;
    const ct_ebpi_cut cut =
        ct_ebpi_cut_to(polynomial, (double)tile->bound * allowed / bound, most_cut(view, tile, UINT8_MAX));
    return cut.u || cut.v ? cut : by_4;
}
