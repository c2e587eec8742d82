/* axes.c - the legend of a picture: arrows along x, y and z in the colours of the rays. The CPU draws them over the
 * finished pixels, so that nothing hides them. */
#include <math.h>

#include "gpu/base/vec.h"
#include "gpu/picture/picture.h"

const float ct_axis_color[3][3] = {{0.87f, 0.16f, 0.14f}, {0.13f, 0.60f, 0.16f}, {0.15f, 0.32f, 0.90f}};

typedef struct canvas {
    uint8_t *pixels;
    uint32_t width, height;
} canvas;

static double clamp01(double x) {
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* Porter and Duff's "over" for colours that are not premultiplied; cover is the alpha of `color`. */
static void blend_over(uint8_t pixel[4], const float color[3], double cover) {
    double below = pixel[3] / 255.0 * (1 - cover), alpha = cover + below;
    if (!(alpha > 0)) return;
    for (int i = 0; i < 3; i++)
        pixel[i] = (uint8_t)lrint(clamp01((color[i] * cover + pixel[i] / 255.0 * below) / alpha) * 255);
    pixel[3] = (uint8_t)lrint(alpha * 255);
}

/* Draws a line with round ends, anti-aliased by distance. y points down. */
static void draw_line(const canvas *c, const double a[2], const double b[2], double thickness, const float color[3]) {
    double half = thickness / 2, d[2] = {b[0] - a[0], b[1] - a[1]}, length2 = d[0] * d[0] + d[1] * d[1];
    double lo[2], hi[2];
    for (int i = 0; i < 2; i++) {
        double size = i ? c->height : c->width;
        lo[i] = fmax(floor(fmin(a[i], b[i]) - half - 1), 0);
        hi[i] = fmin(ceil(fmax(a[i], b[i]) + half + 1), size);
    }
    for (uint32_t y = (uint32_t)lo[1]; y < hi[1]; y++)
        for (uint32_t x = (uint32_t)lo[0]; x < hi[0]; x++) {
            double p[2] = {x + 0.5 - a[0], y + 0.5 - a[1]};
            double t = length2 > 0 ? clamp01((p[0] * d[0] + p[1] * d[1]) / length2) : 0;
            double cover = clamp01(half + 0.5 - ct_length(p[0] - t * d[0], p[1] - t * d[1], 0));
            if (cover > 0) blend_over(c->pixels + 4 * ((size_t)y * c->width + x), color, cover);
        }
}

/* Strokes {x0, y0, x1, y1} of the letters X, Y and Z in -1..1; y points down. */
static const double letter_strokes[3][3][4] = {
    {{-0.7, -1, 0.7, 1}, {0.7, -1, -0.7, 1}, {0, 0, 0, 0}},
    {{-0.7, -1, 0, 0}, {0.7, -1, 0, 0}, {0, 0, 0, 1}},
    {{-0.7, -1, 0.7, -1}, {0.7, -1, -0.7, 1}, {-0.7, 1, 0.7, 1}},
};

static void draw_letter(const canvas *c, int axis, const double at[2], double size) {
    for (int s = 0; s < 3; s++) {
        const double *k = letter_strokes[axis][s];
        const double a[2] = {at[0] + k[0] * size, at[1] + k[1] * size};
        const double b[2] = {at[0] + k[2] * size, at[1] + k[3] * size};
        draw_line(c, a, b, fmax(size / 2.5, 1), ct_axis_color[axis]);
    }
}

void ct_axes_draw(const ct_camera *camera, uint32_t width, uint32_t height, uint8_t *pixels) {
    const canvas c = {pixels, width, height};
    double shorter = fmin(width, height), arm = fmin(fmax(0.07 * shorter, 10), 80), size = arm / 8;
    const double root[2] = {floor(arm + 3 * size) + 0.5, floor(height - arm - 3 * size) + 0.5};
    int order[3] = {0, 1, 2}; /* back to front: the arrow that points farthest away first */
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2 - i; k++)
            if (camera->back[order[k]] > camera->back[order[k + 1]]) {
                int swap = order[k];
                order[k] = order[k + 1];
                order[k + 1] = swap;
            }
    for (int k = 0; k < 3; k++) {
        int axis = order[k];
        const double along[2] = {camera->right[axis], -camera->up[axis]};
        const double tip[2] = {root[0] + arm * along[0], root[1] + arm * along[1]};
        draw_line(&c, root, tip, fmax(arm / 14, 2), ct_axis_color[axis]);
        double length = ct_length(along[0], along[1], 0), letter_distance = arm * length + 2 * size;
        if (length < 0.1) continue; /* the arrow points at the viewer and has no direction in the picture */
        const double at[2] = {root[0] + letter_distance * along[0] / length,
                              root[1] + letter_distance * along[1] / length};
        draw_letter(&c, axis, at, size);
    }
}
