/* camera.c - computes a snapshot's camera: the nearest eye that sees all framed points.
 *
 *         \  p       /       In the camera's axes (x right, y up, z back) the eye e sees the point p if
 *          \  .     /            |px - ex| <= t (ez - pz),    t: tangent of half the field of view,
 *           \      /         that is, if
 *   -z       \    /              ex + t ez >= px + t pz   and   ex - t ez <= px - t pz.
 *    |        \  /           Only the largest right side of the first condition over all points (`low`) matters, and
 *    +-- x     e             the smallest of the second (`high`). Both hold with equality at the nearest eye:
 *                                ex = (low + high) / 2,   ez = (low - high) / (2 t).
 *
 * The same holds for y; the larger of the two ez counts.
 */
#include <math.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/vec.h"
#include "gpu/picture/picture.h"

static const double MARGIN = 1.06; /* the field of view is wider than the framed points by this factor */

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double a[3], const double b[3], double out[3]) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

static double normalize(double a[3]) {
    double length = ct_length(a[0], a[1], a[2]);
    for (int i = 0; i < 3 && length > 0; i++) a[i] /= length;
    return length;
}

/* Computes the directions of azimuth 0 (`first`) and 90 degrees (`second`), perpendicular to up. `first` is x if up is
 * z or y, and y if up is x. */
static void make_ground_axes(const double up[3], double first[3], double second[3]) {
    int along = fabs(up[0]) > 0.9 ? 1 : 0;
    for (int i = 0; i < 3; i++) first[i] = (i == along) - up[along] * up[i];
    normalize(first);
    cross(up, first, second);
}

/* Computes camera->right and camera->up from camera->back. If back is parallel to up, right is the azimuth's 0. */
static void orient_camera(ct_camera *camera, const double up[3]) {
    cross(up, camera->back, camera->right);
    if (normalize(camera->right) < 1e-9) {
        double other[3];
        make_ground_axes(up, camera->right, other);
    }
    cross(camera->back, camera->right, camera->up);
    normalize(camera->up);
}

void ct_camera_fit_begin(ct_camera_fit *fit, const ct_snapshot_options *o) {
    memset(fit, 0, sizeof *fit);
    fit->options = o;
    ct_camera *camera = &fit->camera;
    double up[3] = {o->up[0], o->up[1], o->up[2]}, first[3], second[3];
    normalize(up);
    make_ground_axes(up, first, second);
    double degree = acos(-1) / 180, a = o->azimuth * degree, e = o->elevation * degree;
    for (int i = 0; i < 3; i++) camera->back[i] = cos(e) * (cos(a) * first[i] + sin(a) * second[i]) + sin(e) * up[i];
    if (o->has_eye && o->has_target) {
        for (int i = 0; i < 3; i++) camera->back[i] = o->eye[i] - o->target[i];
        normalize(camera->back);
    }
    orient_camera(camera, up);
    camera->tangent[1] = tan(o->field_of_view * degree / 2);
    camera->tangent[0] = camera->tangent[1] * o->width / o->height;
    for (int i = 0; i < 2; i++) fit->low[i] = -INFINITY, fit->high[i] = INFINITY;
    for (int i = 0; i < 3; i++) {
        fit->framed_lo[i] = fit->drawn_lo[i] = INFINITY;
        fit->framed_hi[i] = fit->drawn_hi[i] = -INFINITY;
    }
}

void ct_camera_fit_add_drawn(ct_camera_fit *fit, const double p[3]) {
    const ct_camera *camera = &fit->camera;
    const double at[3] = {dot(p, camera->right), dot(p, camera->up), dot(p, camera->back)};
    for (int i = 0; i < 3; i++) {
        fit->drawn_lo[i] = fmin(fit->drawn_lo[i], at[i]);
        fit->drawn_hi[i] = fmax(fit->drawn_hi[i], at[i]);
    }
}

void ct_camera_fit_add_framed(ct_camera_fit *fit, const double p[3]) {
    const ct_camera *camera = &fit->camera;
    double at[3] = {dot(p, camera->right), dot(p, camera->up), dot(p, camera->back)};
    for (int i = 0; i < 2; i++) {
        double t = camera->tangent[i] / MARGIN;
        fit->low[i] = fmax(fit->low[i], at[i] + t * at[2]);
        fit->high[i] = fmin(fit->high[i], at[i] - t * at[2]);
    }
    for (int i = 0; i < 3; i++) {
        fit->framed_lo[i] = fmin(fit->framed_lo[i], at[i]);
        fit->framed_hi[i] = fmax(fit->framed_hi[i], at[i]);
    }
    ct_camera_fit_add_drawn(fit, p);
}

static void to_world(const ct_camera *camera, const double at[3], double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = at[0] * camera->right[i] + at[1] * camera->up[i] + at[2] * camera->back[i];
}

/* The caller set the eye. Without a target it looks at the middle of the framed points. */
static void use_given_eye(ct_camera_fit *fit, const double at[3], const double middle[3]) {
    const ct_snapshot_options *o = fit->options;
    ct_camera *camera = &fit->camera;
    memcpy(camera->eye, o->eye, sizeof camera->eye);
    if (o->has_target) return;
    /* The points' bounds are along the axes of another orientation. A sphere that holds all points bounds their depths
     * along the new one. */
    double radius = 0, to_middle[3];
    for (int i = 0; i < 3; i++) {
        radius = ct_length(radius, fmax(fit->drawn_hi[i] - at[i], at[i] - fit->drawn_lo[i]), 0);
        to_middle[i] = o->eye[i] - middle[i];
    }
    if (normalize(to_middle) > 0) memcpy(camera->back, to_middle, sizeof to_middle);
    double up[3] = {o->up[0], o->up[1], o->up[2]};
    normalize(up);
    orient_camera(camera, up);
    fit->drawn_hi[2] = dot(middle, camera->back) + radius;
    fit->drawn_lo[2] = dot(middle, camera->back) - radius;
}

/* Moves the eye as near as the framed points allow, then divides its distance to their middle by the zoom. */
static void compute_eye(ct_camera_fit *fit, const double at[3]) {
    const ct_snapshot_options *o = fit->options;
    ct_camera *camera = &fit->camera;
    double eye[3], z = -INFINITY;
    for (int i = 0; i < 2; i++) {
        double t = camera->tangent[i] / MARGIN;
        eye[i] = (fit->low[i] + fit->high[i]) / 2;
        if (o->has_target) { /* the target is in the picture's centre: ex and ey are given, only ez is free */
            eye[i] = at[i];
            z = fmax(z, fmax(fit->low[i] - eye[i], eye[i] - fit->high[i]) / t);
        } else {
            z = fmax(z, (fit->low[i] - fit->high[i]) / (2 * t));
        }
    }
    /* All framed points stay in front of the eye, also if they are a single point. */
    double size = 0;
    for (int i = 0; i < 3; i++) size = fmax(size, fmax(1e-9 * fabs(at[i]), fit->framed_hi[i] - fit->framed_lo[i]));
    if (size == 0) size = 1e-6;
    double distance = fmax(z - at[2], fit->framed_hi[2] - at[2] + 0.02 * size) / o->zoom;
    eye[2] = at[2] + distance;
    to_world(camera, eye, camera->eye);
}

/* By how much planes are off what they must not cut, m. */
static double slack_of(double nearest, double farthest, double depth) {
    const double slack = 1e-4 * (nearest - farthest) + 1e-9 * fmax(fabs(depth), fmax(fabs(nearest), fabs(farthest)));
    return slack > 0 ? slack : 1e-9;
}

ct_camera ct_camera_fit_end(ct_camera_fit *fit) {
    static const double corners[2][3] = {{-0.5, -0.5, -0.5}, {0.5, 0.5, 0.5}};
    ct_camera *camera = &fit->camera;
    if (fit->framed_lo[0] > fit->framed_hi[0]) /* no points: frame a cube of 1 m around the origin */
        for (int i = 0; i < 2; i++) ct_camera_fit_add_framed(fit, corners[i]);
    double at[3], middle[3];
    for (int i = 0; i < 3; i++) at[i] = (fit->framed_lo[i] + fit->framed_hi[i]) / 2;
    if (fit->options->has_target) {
        memcpy(middle, fit->options->target, sizeof middle);
        const double *axes[3] = {camera->right, camera->up, camera->back};
        for (int i = 0; i < 3; i++) at[i] = dot(middle, axes[i]);
    } else {
        to_world(camera, at, middle);
    }
    if (fit->options->has_eye)
        use_given_eye(fit, at, middle);
    else
        compute_eye(fit, at);
    for (int i = 0; i < 3; i++) camera->origin[i] = (float)middle[i];

    double depth = dot(camera->eye, camera->back);
    double nearest = fit->drawn_hi[2], farthest = fit->drawn_lo[2];
    double slack = slack_of(nearest, farthest, depth);
    camera->far = fmax(depth - farthest + slack, slack);
    /* Depths are told apart, but framed points before the eye are not cut off, however far a half-space is. */
    double least = camera->far * 1e-4;
    const double framed = depth - fit->framed_hi[2] - slack_of(fit->framed_hi[2], fit->framed_lo[2], depth);
    if (!fit->options->has_eye && framed > 0) least = fmin(least, framed);
    camera->near = fmax(depth - nearest - slack, least);
    double distance = depth - dot(middle, camera->back);
    if (!(distance > camera->near)) distance = camera->near;
    camera->pixel = 2 * distance * camera->tangent[1] / fit->options->height;
    return *camera;
}

void ct_camera_matrix(const ct_camera *camera, const uint32_t size[2], const uint32_t part[4], float matrix[16]) {
    /* The product of three matrices: the view (rows right, up, back), the perspective with z in -1..1, and the scaling
     * of the part to -1..1. */
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

/* ---- normals of vertices, for shading ---- */

float ct_per_size(const float *positions, size_t n_vertices) {
    float most = 0;
    for (size_t i = 0; i < 3 * n_vertices; i++) most = fmaxf(most, fabsf(positions[i]));
    int exponent;
    frexpf(most, &exponent);
    return ldexpf(1, exponent < -126 ? 126 : -exponent);
}

void ct_vertex_normals(const float *positions, const uint32_t *triangles, size_t n_vertices, size_t n_triangles,
                       float *normals) {
    const float per_size = ct_per_size(positions, n_vertices);
    memset(normals, 0, n_vertices * 3 * sizeof *normals);
    for (size_t t = 0; t < n_triangles; t++) {
        if (CT_POLL_EVERY(t, 1024) && ct_is_cancelled()) return; /* whoever asks polls too */
        const uint32_t *v = triangles + 3 * t;
        float a[3], b[3]; /* edges; their cross product is the face's normal times twice its area */
        for (int i = 0; i < 3; i++) {
            a[i] = per_size * (positions[3 * (size_t)v[1] + i] - positions[3 * (size_t)v[0] + i]);
            b[i] = per_size * (positions[3 * (size_t)v[2] + i] - positions[3 * (size_t)v[0] + i]);
        }
        const float n[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 3; i++) normals[3 * (size_t)v[c] + i] += n[i];
    }
    for (size_t v = 0; v < n_vertices; v++) {
        if (CT_POLL_EVERY(v, 1024) && ct_is_cancelled()) return;
        float *n = normals + 3 * v;
        float length = sqrtf(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
        for (int i = 0; i < 3; i++) n[i] = length > 0 ? n[i] / length : 0;
    }
}
