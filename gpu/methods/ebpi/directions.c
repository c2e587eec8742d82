/* directions.c - the energy of a view's axes and its minimum. */
#include "gpu/methods/ebpi/directions.h"

#include <math.h>
#include <string.h>

#include "gpu/base/vec.h"
#include "gpu/view/view_k.h"

/* Exponents of x, y, z, and how often the product is in (x + y + z)^4. */
static const struct {
    int x, y, z;
    double times;
} TERMS[CT_GAUSSIAN_MOMENTS] = {{4, 0, 0, 1}, {0, 4, 0, 1}, {0, 0, 4, 1},  {3, 1, 0, 4},  {3, 0, 1, 4},
                                {1, 3, 0, 4}, {0, 3, 1, 4}, {1, 0, 3, 4},  {0, 1, 3, 4},  {2, 2, 0, 6},
                                {2, 0, 2, 6}, {0, 2, 2, 6}, {2, 1, 1, 12}, {1, 2, 1, 12}, {1, 1, 2, 12}};

/* ---- image ---- */

void ct_gaussian_image_begin(ct_gaussian_image *image, double extent) {
    memset(image, 0, sizeof *image);
    /* A face has less than extent^2 / 2, which is 2^61 units at most; 2^32 of them fit. */
    image->scale = ldexp(1.0, 62 - ilogb(extent * extent) - 1);
}

static void fill_powers(double x, double to[5]) {
    to[0] = 1;
    for (int n = 1; n < 5; n++) to[n] = to[n - 1] * x;
}

static bool is_before(const double a[3], const double b[3]) {
    for (int k = 0; k < 3; k++)
        if (a[k] != b[k]) return a[k] < b[k];
    return false;
}

static void swap_corners(double a[3], double b[3]) {
    double kept[3];
    memcpy(kept, a, sizeof kept);
    memcpy(a, b, sizeof kept);
    memcpy(b, kept, sizeof kept);
}

/* By position, so that a face's first corner changes no bit of its normal but the sign, which the image does not see.
 */
static void order_corners(double p[3][3]) {
    if (is_before(p[1], p[0])) swap_corners(p[0], p[1]);
    if (is_before(p[2], p[1])) swap_corners(p[1], p[2]);
    if (is_before(p[1], p[0])) swap_corners(p[0], p[1]);
}

void ct_gaussian_image_add(ct_gaussian_image *image, const float *positions, const uint32_t *triangles,
                           uint32_t n_triangles, const double *pose, const ct_box *box) {
    for (uint32_t t = 0; t < n_triangles; t++) {
        double p[3][3];
        bool is_beside = false;
        for (int c = 0; c < 3; c++) {
            const float *q = positions + 3 * (size_t)triangles[3 * (size_t)t + (size_t)c];
            for (int k = 0; k < 3; k++) p[c][k] = pose ? ct_pose_coord(pose + 4 * k, q[0], q[1], q[2]) : q[k];
        }
        for (int k = 0; k < 3; k++)
            is_beside = is_beside || fmax(fmax(p[0][k], p[1][k]), p[2][k]) < box->lo[k] ||
                        fmin(fmin(p[0][k], p[1][k]), p[2][k]) > box->hi[k];
        if (is_beside) continue;
        order_corners(p);
        double e[2][3], n[3], powers[3][5];
        for (int k = 0; k < 3; k++) {
            e[0][k] = p[1][k] - p[0][k];
            e[1][k] = p[2][k] - p[0][k];
        }
        for (int k = 0; k < 3; k++) {
            const int i = (k + 1) % 3, j = (k + 2) % 3;
            n[k] = e[0][i] * e[1][j] - e[0][j] * e[1][i];
        }
        const double size = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
        if (!(size > 0)) continue;
        for (int k = 0; k < 3; k++) fill_powers(n[k] / size, powers[k]);
        const double area = 0.5 * size * image->scale;
        for (int m = 0; m < CT_GAUSSIAN_MOMENTS; m++)
            image->moment[m] += llrint(area * powers[0][TERMS[m].x] * powers[1][TERMS[m].y] * powers[2][TERMS[m].z]);
    }
}

/* ---- energy ---- */

/* The moments over the area. */
struct quartic {
    double of[CT_GAUSSIAN_MOMENTS];
};

/* False: there are no faces. */
static bool normalise(const ct_gaussian_image *image, struct quartic *quartic) {
    /* (x^2 + y^2 + z^2)^2 is 1 for unit normals, so these six add up to the area. */
    const double area = (double)image->moment[0] + (double)image->moment[1] + (double)image->moment[2] +
                        2 * ((double)image->moment[9] + (double)image->moment[10] + (double)image->moment[11]);
    if (!(area > 0)) return false;
    for (int m = 0; m < CT_GAUSSIAN_MOMENTS; m++) quartic->of[m] = (double)image->moment[m] / area;
    return true;
}

/* Sum of (n . a)^4, and its gradient by a. */
static double evaluate(const struct quartic *quartic, const double a[3], double gradient[3]) {
    double x[5], y[5], z[5], sum = 0;
    fill_powers(a[0], x);
    fill_powers(a[1], y);
    fill_powers(a[2], z);
    gradient[0] = gradient[1] = gradient[2] = 0;
    for (int m = 0; m < CT_GAUSSIAN_MOMENTS; m++) {
        const int i = TERMS[m].x, j = TERMS[m].y, k = TERMS[m].z;
        const double times = TERMS[m].times * quartic->of[m];
        sum += times * x[i] * y[j] * z[k];
        if (i) gradient[0] += times * i * x[i - 1] * y[j] * z[k];
        if (j) gradient[1] += times * j * x[i] * y[j - 1] * z[k];
        if (k) gradient[2] += times * k * x[i] * y[j] * z[k - 1];
    }
    return sum;
}

/* Energy of the axes; *slope: its derivative by a rotation of them about the world's axes. */
static double energy_of(const struct quartic *quartic, const double axes[3][3], double slope[3]) {
    double sum = 0;
    slope[0] = slope[1] = slope[2] = 0;
    for (int j = 0; j < 3; j++) {
        double g[3];
        const double *a = axes[j];
        sum += evaluate(quartic, a, g);
        for (int k = 0; k < 3; k++) slope[k] += a[(k + 1) % 3] * g[(k + 2) % 3] - a[(k + 2) % 3] * g[(k + 1) % 3];
    }
    return sum;
}

/* ---- quaternions: w, x, y, z ---- */

static void normalise_quaternion(double q[4]) {
    const double size = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int k = 0; k < 4; k++) q[k] /= size;
}

/* to = q turned further by the rotation whose vector is about t * d: (1, t d / 2), normalised. No sine, whose last bit
 * differs from library to library. */
static void turn(const double q[4], const double d[3], double t, double to[4]) {
    const double x = 0.5 * t * d[0], y = 0.5 * t * d[1], z = 0.5 * t * d[2];
    to[0] = q[0] - x * q[1] - y * q[2] - z * q[3];
    to[1] = q[1] + x * q[0] + y * q[3] - z * q[2];
    to[2] = q[2] - x * q[3] + y * q[0] + z * q[1];
    to[3] = q[3] + x * q[2] - y * q[1] + z * q[0];
    normalise_quaternion(to);
}

/* The world's axes turned by q, as rows. */
static void axes_of(const double q[4], double axes[3][3]) {
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    const double of[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)},
                             {2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)},
                             {2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)}};
    memcpy(axes, of, sizeof of);
}

static double energy_at(const struct quartic *quartic, const double q[4], double slope[3]) {
    double axes[3][3];
    axes_of(q, axes);
    return energy_of(quartic, axes, slope);
}

/* ---- minimum ---- */

enum { MOST_TURNS = 40, MOST_HALVINGS = 20 };

/* Moves q along d while the energy falls enough. False: it does not. */
static bool descend(const struct quartic *quartic, const double d[3], double down, double q[4], double *energy,
                    double slope[3]) {
    double t = fmin(1, 0.5 / sqrt(ct_dot3(d, d))); /* half a radian at most */
    for (int i = 0; i < MOST_HALVINGS; i++) {
        double to[4], at[3];
        turn(q, d, t, to);
        const double found = energy_at(quartic, to, at);
        if (found > *energy + 1e-4 * t * down) {
            t *= 0.5;
            continue;
        }
        *energy = found;
        memcpy(q, to, sizeof to);
        memcpy(slope, at, sizeof at);
        return true;
    }
    return false;
}

/* Fletcher-Reeves from q, which becomes a local minimum. Directions are restarted every third turn, as there are three
 * degrees of freedom, and where they do not descend. */
static double minimise(const struct quartic *quartic, double q[4]) {
    double slope[3], d[3] = {0, 0, 0}, before = 0;
    double energy = energy_at(quartic, q, slope);
    for (int i = 0; i < MOST_TURNS; i++) {
        const double square = ct_dot3(slope, slope);
        if (square < 1e-16) break;
        const double beta = i % 3 ? square / before : 0;
        for (int k = 0; k < 3; k++) d[k] = beta * d[k] - slope[k];
        if (ct_dot3(d, slope) > -0.1 * square)
            for (int k = 0; k < 3; k++) d[k] = -slope[k];
        before = square;
        if (!descend(quartic, d, ct_dot3(d, slope), q, &energy, slope)) break;
    }
    return energy;
}

/* Where the search starts: about the world's axes, which are often a saddle, and turns of the cube of axes that cover
 * its 24 symmetries' fundamental region. */
static const double STARTS[][4] = {{1, 0.05, 0.03, -0.02}, {1, 0.4, 0, 0},        {1, 0, 0.4, 0},
                                   {1, 0, 0, 0.4},         {1, 0.3, 0.3, 0.05},   {1, 0.3, -0.05, -0.3},
                                   {1, 0.05, -0.3, 0.3},   {1, 0.25, 0.25, 0.25}, {1, -0.25, 0.25, 0.25},
                                   {1, 0.25, -0.25, 0.25}, {1, 0.25, 0.25, -0.25}};

bool ct_optimize_axes(const ct_gaussian_image *image, double axes[3][3]) {
    const double straight[4] = {1, 0, 0, 0};
    struct quartic quartic;
    double best[4], slope[3];
    axes_of(straight, axes);
    if (!normalise(image, &quartic)) return false;
    double least = INFINITY;
    for (size_t i = 0; i < sizeof STARTS / sizeof *STARTS; i++) {
        double q[4];
        memcpy(q, STARTS[i], sizeof q);
        normalise_quaternion(q);
        const double energy = minimise(&quartic, q);
        if (energy >= least - 1e-9) continue; /* the first of equal ones */
        least = energy;
        memcpy(best, q, sizeof q);
    }
    if (least > CT_WORTH_TURNING * energy_at(&quartic, straight, slope)) return false;
    axes_of(best, axes);
    return true;
}
