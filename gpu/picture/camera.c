/* camera.c - where a snapshot's camera stands: the nearest place from which all that is to be framed is seen.
 *
 * In the camera's axes (x right, y up, depth d forward) a point is in the picture if |x - ex| <= t (d - ed), t being
 * the tangent of half the field of view and e the eye: two half-planes of (ex, ed) for each point, of which only the
 * outermost matter. Where they meet the eye is as near as it can be.
 */
#include <math.h>
#include <string.h>

#include "gpu/picture/picture.h"

static const double MARGIN = 1.06; /* what is framed leaves so much of the picture's edge free */

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double a[3], const double b[3], double out[3]) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

static double normalize(double a[3]) {
    double length = hypot(hypot(a[0], a[1]), a[2]);
    for (int i = 0; i < 3 && length > 0; i++) a[i] /= length;
    return length;
}

/* The two directions from which azimuth counts: `first` is x where up is z or y, y where up is x. */
static void ground(const double up[3], double first[3], double second[3]) {
    int along = fabs(up[0]) > 0.9 ? 1 : 0;
    for (int i = 0; i < 3; i++) first[i] = (i == along) - up[along] * up[i];
    normalize(first);
    cross(up, first, second);
}

/* right and up for a camera that looks along -back; any where it looks along `up`. */
static void orient(ct_camera *camera, const double up[3]) {
    cross(up, camera->back, camera->right);
    if (normalize(camera->right) < 1e-9) {
        double other[3];
        ground(up, camera->right, other);
    }
    cross(camera->back, camera->right, camera->up);
    normalize(camera->up);
}

void ct_fit_begin(ct_fit *fit, const ct_snapshot_options *o) {
    memset(fit, 0, sizeof *fit);
    fit->options = o;
    ct_camera *camera = &fit->camera;
    double up[3] = {o->up[0], o->up[1], o->up[2]}, first[3], second[3];
    normalize(up);
    ground(up, first, second);
    double degree = acos(-1) / 180, a = o->azimuth * degree, e = o->elevation * degree;
    for (int i = 0; i < 3; i++) camera->back[i] = cos(e) * (cos(a) * first[i] + sin(a) * second[i]) + sin(e) * up[i];
    if (o->has_eye && o->has_target) {
        for (int i = 0; i < 3; i++) camera->back[i] = o->eye[i] - o->target[i];
        normalize(camera->back);
    }
    orient(camera, up);
    camera->tangent[1] = tan(o->field_of_view * degree / 2);
    camera->tangent[0] = camera->tangent[1] * o->width / o->height;
    for (int i = 0; i < 2; i++) fit->low[i] = -INFINITY, fit->high[i] = INFINITY;
    for (int i = 0; i < 3; i++) {
        fit->lo[i] = fit->all_lo[i] = INFINITY;
        fit->hi[i] = fit->all_hi[i] = -INFINITY;
    }
}

void ct_fit_draw(ct_fit *fit, const double p[3]) {
    const ct_camera *camera = &fit->camera;
    const double at[3] = {dot(p, camera->right), dot(p, camera->up), dot(p, camera->back)};
    for (int i = 0; i < 3; i++) {
        fit->all_lo[i] = fmin(fit->all_lo[i], at[i]);
        fit->all_hi[i] = fmax(fit->all_hi[i], at[i]);
    }
}

void ct_fit_frame(ct_fit *fit, const double p[3]) {
    const ct_camera *camera = &fit->camera;
    double at[3] = {dot(p, camera->right), dot(p, camera->up), dot(p, camera->back)};
    for (int i = 0; i < 2; i++) {
        double t = camera->tangent[i] / MARGIN; /* ex + t ez >= x + t z and ex - t ez <= x - t z, z = -d */
        fit->low[i] = fmax(fit->low[i], at[i] + t * at[2]);
        fit->high[i] = fmin(fit->high[i], at[i] - t * at[2]);
    }
    for (int i = 0; i < 3; i++) {
        fit->lo[i] = fmin(fit->lo[i], at[i]);
        fit->hi[i] = fmax(fit->hi[i], at[i]);
    }
    ct_fit_draw(fit, p);
}

static void to_world(const ct_camera *camera, const double at[3], double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = at[0] * camera->right[i] + at[1] * camera->up[i] + at[2] * camera->back[i];
}

/* An eye that was given looks at the target, or at the middle of what is framed. */
static void place_given(ct_fit *fit, const double at[3], const double middle[3]) {
    const ct_snapshot_options *o = fit->options;
    ct_camera *camera = &fit->camera;
    memcpy(camera->eye, o->eye, sizeof camera->eye);
    if (o->has_target) return;
    /* The points were measured along another direction: they all lie in a sphere around the middle. */
    double radius = 0, to_middle[3];
    for (int i = 0; i < 3; i++) {
        radius = hypot(radius, fmax(fit->all_hi[i] - at[i], at[i] - fit->all_lo[i]));
        to_middle[i] = o->eye[i] - middle[i];
    }
    if (normalize(to_middle) > 0) memcpy(camera->back, to_middle, sizeof to_middle);
    double up[3] = {o->up[0], o->up[1], o->up[2]};
    normalize(up);
    orient(camera, up);
    fit->all_hi[2] = dot(middle, camera->back) + radius;
    fit->all_lo[2] = dot(middle, camera->back) - radius;
}

/* As near as what is framed allows, then zoomed about its middle. */
static void place_automatic(ct_fit *fit, const double at[3]) {
    const ct_snapshot_options *o = fit->options;
    ct_camera *camera = &fit->camera;
    double eye[3], z = -INFINITY;
    for (int i = 0; i < 2; i++) {
        double t = camera->tangent[i] / MARGIN;
        eye[i] = (fit->low[i] + fit->high[i]) / 2;
        if (o->has_target) { /* the eye is straight behind it */
            eye[i] = at[i];
            z = fmax(z, fmax(fit->low[i] - eye[i], eye[i] - fit->high[i]) / t);
        } else {
            z = fmax(z, (fit->low[i] - fit->high[i]) / (2 * t));
        }
    }
    /* What is framed stays in front of the eye, a single point too. */
    double size = 1e-6 * (1 + fabs(at[2]));
    for (int i = 0; i < 3; i++) size = fmax(size, fit->hi[i] - fit->lo[i]);
    double distance = fmax(z - at[2], fit->hi[2] - at[2] + 0.02 * size) / o->zoom;
    eye[2] = at[2] + distance;
    to_world(camera, eye, camera->eye);
}

ct_camera ct_fit_end(ct_fit *fit) {
    static const double corners[2][3] = {{-0.5, -0.5, -0.5}, {0.5, 0.5, 0.5}};
    ct_camera *camera = &fit->camera;
    if (fit->lo[0] > fit->hi[0]) /* nothing is shown: a metre around the origin would be */
        for (int i = 0; i < 2; i++) ct_fit_frame(fit, corners[i]);
    double at[3], middle[3];
    for (int i = 0; i < 3; i++) at[i] = (fit->lo[i] + fit->hi[i]) / 2;
    if (fit->options->has_target) {
        memcpy(middle, fit->options->target, sizeof middle);
        const double *axes[3] = {camera->right, camera->up, camera->back};
        for (int i = 0; i < 3; i++) at[i] = dot(middle, axes[i]);
    } else {
        to_world(camera, at, middle);
    }
    if (fit->options->has_eye)
        place_given(fit, at, middle);
    else
        place_automatic(fit, at);
    for (int i = 0; i < 3; i++) camera->origin[i] = (float)middle[i];

    double depth = dot(camera->eye, camera->back);
    double nearest = fit->all_hi[2], farthest = fit->all_lo[2];
    double slack = 1e-4 * (nearest - farthest) + 1e-9 * (1 + fabs(depth));
    camera->far = fmax(depth - farthest + slack, slack);
    camera->near = fmax(depth - nearest - slack, camera->far * 1e-4);
    double distance = depth - dot(middle, camera->back);
    if (!(distance > camera->near)) distance = camera->near;
    camera->pixel = 2 * distance * camera->tangent[1] / fit->options->height;
    return *camera;
}

void ct_camera_matrix(const ct_camera *camera, const uint32_t size[2], const uint32_t part[4], float matrix[16]) {
    /* view: rows right, up, back; then the perspective with z in -1..1; then the part's window over -1..1. */
    double from[3], view[3][4];
    const double *axes[3] = {camera->right, camera->up, camera->back};
    for (int i = 0; i < 3; i++) from[i] = camera->origin[i] - camera->eye[i];
    for (int r = 0; r < 3; r++) {
        for (int c = 0; c < 3; c++) view[r][c] = axes[r][c];
        view[r][3] = dot(axes[r], from);
    }
    double n = camera->near, f = camera->far, rows[4][4];
    double x0 = 2.0 * part[0] / size[0] - 1, x1 = 2.0 * part[2] / size[0] - 1;
    double y1 = 1 - 2.0 * part[1] / size[1], y0 = 1 - 2.0 * part[3] / size[1];
    double sx = 2 / (x1 - x0), sy = 2 / (y1 - y0);
    for (int c = 0; c < 4; c++) {
        double w = -view[2][c];
        rows[0][c] = sx * (view[0][c] / camera->tangent[0]) - sx * (x0 + x1) / 2 * w;
        rows[1][c] = sy * (view[1][c] / camera->tangent[1]) - sy * (y0 + y1) / 2 * w;
        rows[2][c] = -(f + n) / (f - n) * view[2][c] - (c == 3 ? 2 * f * n / (f - n) : 0);
        rows[3][c] = w;
    }
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) matrix[4 * c + r] = (float)rows[r][c];
}
