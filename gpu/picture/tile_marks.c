/* tile_marks.c - the tiles of EBPI's views as marks, coloured by the density of their rays. */
#include <math.h>

#include "gpu/picture/picture.h"

/* Tiles of more pixels than this along their shorter side have a gap around them, as the ends of spans do; this is its
 * part of each side. */
static const double LARGE = 5, GAP = 0.05;

static double length_of(const float v[3]) {
    return sqrt((double)v[0] * v[0] + (double)v[1] * v[1] + (double)v[2] * v[2]);
}

static double area_of(const ct_ray_tile *tile) {
    return length_of(tile->u) * length_of(tile->v);
}

void ct_color_scale(double part, uint8_t color[4]) {
    static const double stops[5][3] = {
        {205, 222, 240}, {130, 185, 225}, {250, 220, 110}, {235, 110, 40}, {130, 10, 35}};
    const double at = fmin(fmax(part, 0), 1) * 4;
    const int i = at < 3 ? (int)at : 3;
    for (int k = 0; k < 3; k++) color[k] = (uint8_t)lrint(stops[i][k] + (at - i) * (stops[i + 1][k] - stops[i][k]));
    color[3] = 255;
}

static bool is_shown(const ct_snapshot *snapshot, const ct_ray_tile *tile) {
    return snapshot->options.show & (uint32_t)CT_SHOW_RAYS_X << tile->axis;
}

static ct_status add_tile(ct_snapshot *snapshot, const ct_ray_tile *tile, double part, ct_error *error) {
    const double pixel = snapshot->camera.pixel, *back = snapshot->camera.back;
    const double u = length_of(tile->u), v = length_of(tile->v), gap = fmin(u, v) > LARGE * pixel ? GAP : 0;
    double toward = 0, at[3][3];
    for (int k = 0; k < 3; k++) toward += back[k] * (double)tile->along[k];
    for (int k = 0; k < 3; k++) {
        const double corner = (double)tile->corner[k] + (toward < 0 ? (double)tile->along[k] : 0);
        at[0][k] = corner + gap * ((double)tile->u[k] + (double)tile->v[k]);
        at[1][k] = at[0][k] + (1 - 2 * gap) * (double)tile->u[k];
        at[2][k] = at[0][k] + (1 - 2 * gap) * (double)tile->v[k];
    }
    uint8_t color[4];
    ct_color_scale(part, color);
    return ct_marks_add(snapshot, CT_MARK_TILE, (const double(*)[3])at, color, 0, "the tiles of rays",
                        "show one contact, one of rays_x, rays_y and rays_z, or a larger tolerance", error);
}

static ct_status mark_view(ct_snapshot *snapshot, const ct_result *result, const ct_contact *contact, uint32_t axis,
                           ct_error *error) {
    const ct_ray_tile *tiles = result->tiles + contact->first_tile;
    double smallest = INFINITY, largest = 0;
    for (uint64_t i = 0; i < contact->n_tiles; i++) {
        if (tiles[i].axis != axis) continue;
        smallest = fmin(smallest, area_of(&tiles[i]));
        largest = fmax(largest, area_of(&tiles[i]));
    }
    ct_status status = CT_OK;
    for (uint64_t i = 0; !status && i < contact->n_tiles; i++) {
        if (tiles[i].axis != axis || !is_shown(snapshot, &tiles[i])) continue;
        const double part = largest > smallest * 1.01 ? log(largest / area_of(&tiles[i])) / log(largest / smallest) : 0;
        status = add_tile(snapshot, &tiles[i], part, error);
    }
    return status;
}

ct_status ct_mark_tiles(ct_snapshot *snapshot, const ct_result *result, ct_error *error) {
    ct_status status = CT_OK;
    for (size_t i = 0; i < result->n_contacts; i++) {
        if (!ct_snapshot_shows(&snapshot->options, result->contacts[i].body)) continue;
        for (uint32_t axis = 0; !status && axis < 3; axis++)
            status = mark_view(snapshot, result, &result->contacts[i], axis, error);
    }
    return status;
}
