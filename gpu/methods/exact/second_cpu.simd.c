/* second_cpu.simd.c - the sums for products with the second derivative, several directions at once, compiled once per
 * instruction set. The arithmetic of each lane is that of second_k.h, operation by operation. */
#include "gpu/methods/exact/exact_cpu.h"

#include "gpu/base/simd.h"

/* Of as many directions as the processor has lanes: gcc 12 keeps wider vectors on the stack. */
#ifdef __AVX2__
enum { LANES = 4 };
#else
enum { LANES = 2 };
#endif
typedef double lanes __attribute__((vector_size(8 * LANES)));
/* Loads are not by memcpy, which gcc 12 takes by way of the stack where it knows no alignment. */
typedef double unaligned_lanes __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

/* Along x, y and z. */
struct group {
    lanes of[3];
};

static inline struct group load(const ct_directed *from, uint32_t at) {
    const double(*of)[CT_MAX_DIRECTIONS] = from->of;
    return (struct group){{*(const unaligned_lanes *)&of[0][at], *(const unaligned_lanes *)&of[1][at],
                           *(const unaligned_lanes *)&of[2][at]}};
}

static inline void store(ct_directed *to, uint32_t at, struct group of) {
    *(unaligned_lanes *)&to->of[0][at] = of.of[0];
    *(unaligned_lanes *)&to->of[1][at] = of.of[1];
    *(unaligned_lanes *)&to->of[2][at] = of.of[2];
}

static inline struct group minus(struct group a, struct group b) {
    for (int j = 0; j < 3; j++) a.of[j] -= b.of[j];
    return a;
}

static inline struct group all(const double v[3]) {
    const lanes zero = {0};
    return (struct group){{v[0] - zero, v[1] - zero, v[2] - zero}};
}

/* As ct_cross_product. */
static inline struct group cross_product(struct group a, struct group b) {
    struct group out;
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        out.of[k] = a.of[i] * b.of[j] - a.of[j] * b.of[i];
    }
    return out;
}

static void move(const ct_directed twist[2], const double from_origin[3], uint32_t quads, ct_directed *motion) {
    for (uint32_t at = 0; at < 4 * quads; at += LANES) {
        const struct group shift = load(&twist[0], at);
        struct group turned = cross_product(load(&twist[1], at), all(from_origin));
        for (int j = 0; j < 3; j++) turned.of[j] += shift.of[j];
        store(motion, at, turned);
    }
}

static void turn(const double u[3], const double v[3], const double part[3], const ct_directed *const motions[3],
                 uint32_t quads, ct_directed *const products[3]) {
    for (uint32_t at = 0; at < 4 * quads; at += LANES) {
        const struct group origin = load(motions[0], at), du = minus(load(motions[1], at), origin),
                           dv = minus(load(motions[2], at), origin);
        const struct group a = cross_product(du, all(v)), b = cross_product(all(u), dv);
        struct group turned;
        for (int j = 0; j < 3; j++) turned.of[j] = a.of[j] + b.of[j];
        for (int i = 0; i < 3; i++) {
            struct group sum = load(products[i], at);
            for (int j = 0; j < 3; j++) sum.of[j] += turned.of[j] * part[i];
            store(products[i], at, sum);
        }
    }
}

static inline lanes weigh(const double weight[3], const struct group of[3], int axis) {
    return weight[0] * of[0].of[axis] + weight[1] * of[1].of[axis] + weight[2] * of[2].of[axis];
}

static void cut(const ct_recrossing *seen, const ct_directed *const own[3], const ct_directed *const other[3],
                uint32_t quads, ct_directed *const products[3]) {
    double lambda[2][3], mu[2][3];
    for (int s = 0; s < 2; s++) {
        ct_find_weights(seen->own[s], lambda[s]);
        ct_find_weights(seen->other[s], mu[s]);
    }
    for (uint32_t at = 0; at < 4 * quads; at += LANES) {
        struct group p[3], o[3];
        lanes motion[2];
        for (int i = 0; i < 3; i++) {
            p[i] = load(own[i], at);
            o[i] = load(other[i], at);
        }
        for (int s = 0; s < 2; s++) {
            motion[s] = (lanes){0};
            for (int k = 0; k < 3; k++)
                motion[s] += seen->normal_other[k] * (weigh(mu[s], o, k) - weigh(lambda[s], p, k));
        }
        for (int c = 0; c < 3; c++) {
            const lanes integral =
                (lambda[0][c] * (2 * motion[0] + motion[1]) + lambda[1][c] * (motion[0] + 2 * motion[1])) / 6;
            struct group sum = load(products[c], at);
            for (int k = 0; k < 3; k++) sum.of[k] += seen->normal_own[k] * (integral * seen->spread);
            store(products[c], at, sum);
        }
    }
}

static void push(const double point[3], const double gradient[3], const ct_exact_lattice *lattice,
                 const ct_directed *origin, const ct_directed *motion, const ct_directed *product, uint32_t quads,
                 ct_directed force[2]) {
    for (uint32_t at = 0; at < 4 * quads; at += LANES) {
        const struct group of = load(product, at);
        struct group arm = minus(load(motion, at), load(origin, at)), sum = load(&force[0], at),
                     torque = load(&force[1], at);
        for (int j = 0; j < 3; j++) arm.of[j] *= lattice->inverse;
        const struct group turned = cross_product(all(point), of), carried = cross_product(arm, all(gradient));
        for (int j = 0; j < 3; j++) {
            sum.of[j] += of.of[j];
            torque.of[j] += turned.of[j] + carried.of[j] * lattice->unit;
        }
        store(&force[0], at, sum);
        store(&force[1], at, torque);
    }
}

/* x, y, z of one direction after the other. */
static inline void interleave(struct group of, double *to) {
    const lanes x = of.of[0], y = of.of[1], z = of.of[2];
    unaligned_lanes *out = (unaligned_lanes *)to;
#ifdef __AVX2__
    const lanes xy = __builtin_shufflevector(x, y, 0, 4, 2, 6), zx = __builtin_shufflevector(z, x, 0, 5, 2, 7),
                yz = __builtin_shufflevector(y, z, 1, 5, 3, 7);
    out[0] = __builtin_shufflevector(xy, zx, 0, 1, 4, 5);
    out[1] = __builtin_shufflevector(yz, xy, 0, 1, 6, 7);
    out[2] = __builtin_shufflevector(zx, yz, 2, 3, 6, 7);
#else
    out[0] = __builtin_shufflevector(x, y, 0, 2);
    out[1] = __builtin_shufflevector(z, x, 0, 3);
    out[2] = __builtin_shufflevector(y, z, 1, 3);
#endif
}

static void write(const ct_directed *from, uint32_t n, uint32_t n_directions, double *to) {
    const uint32_t whole = n_directions / LANES * LANES;
    for (uint32_t v = 0; v < n; v++, to += 3 * n_directions) {
        for (uint32_t at = 0; at < whole; at += LANES) interleave(load(&from[v], at), to + 3 * at);
        for (uint32_t k = whole; k < n_directions; k++)
            for (uint32_t j = 0; j < 3; j++) to[3 * k + j] = from[v].of[j][k];
    }
}

const ct_second_cpu CT_VARIANT(ct_second_cpu) = {move, turn, cut, push, write};
