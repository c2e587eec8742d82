/* big.h - determinants of integer points in arithmetic of any length that is needed here, for tests of predicates. It
 * shares nothing with the engine: numbers are a sign and 32-bit limbs, and determinants are those of the points'
 * homogeneous coordinates, without differences. */
#ifndef UNIT_EXACT_BIG_H
#define UNIT_EXACT_BIG_H

#include <stdint.h>
#include <string.h>

enum { BIG_LIMBS = 8 };

struct big {
    int sign; /* -1, 0, 1 */
    uint32_t limb[BIG_LIMBS];
};

static inline struct big big_of(int64_t x) {
    const uint64_t size = x < 0 ? -(uint64_t)x : (uint64_t)x;
    return (struct big){(x > 0) - (x < 0), {(uint32_t)size, (uint32_t)(size >> 32)}};
}

static inline int big_compare_size(const struct big *a, const struct big *b) {
    for (int i = BIG_LIMBS - 1; i >= 0; i--)
        if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

static inline struct big big_multiply(struct big a, struct big b) {
    struct big product = {a.sign * b.sign, {0}};
    for (int i = 0; i < BIG_LIMBS; i++) {
        uint64_t carry = 0;
        for (int j = 0; i + j < BIG_LIMBS; j++) {
            carry += (uint64_t)a.limb[i] * b.limb[j] + product.limb[i + j];
            product.limb[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    return product;
}

static inline struct big big_add(struct big a, struct big b) {
    if (!a.sign) return b;
    if (!b.sign) return a;
    const int order = big_compare_size(&a, &b);
    if (a.sign != b.sign && order == 0) return big_of(0);
    const struct big *larger = order >= 0 ? &a : &b, *smaller = order >= 0 ? &b : &a;
    struct big sum = {larger->sign, {0}};
    int64_t carry = 0;
    for (int i = 0; i < BIG_LIMBS; i++) {
        carry += (int64_t)larger->limb[i] + (a.sign == b.sign ? 1 : -1) * (int64_t)smaller->limb[i];
        sum.limb[i] = (uint32_t)carry;
        carry >>= 32; /* rounds down, so a borrow is -1 */
    }
    return sum;
}

static inline struct big big_negate(struct big a) {
    a.sign = -a.sign;
    return a;
}

static inline long double big_to_real(struct big a) {
    long double value = 0, weight = 1;
    for (int i = 0; i < BIG_LIMBS; i++, weight *= 4294967296.0L) value += weight * a.limb[i];
    return a.sign * value;
}

static inline struct big big_determinant3(const int64_t *a, const int64_t *b, const int64_t *c) {
    static const int order[6][4] = {{0, 1, 2, 1},  {1, 2, 0, 1},  {2, 0, 1, 1},
                                    {0, 2, 1, -1}, {2, 1, 0, -1}, {1, 0, 2, -1}};
    struct big sum = big_of(0);
    for (int i = 0; i < 6; i++) {
        struct big term =
            big_multiply(big_multiply(big_of(a[order[i][0]]), big_of(b[order[i][1]])), big_of(c[order[i][2]]));
        sum = big_add(sum, order[i][3] < 0 ? big_negate(term) : term);
    }
    return sum;
}

/* det(b - a, c - a, d - a), from the determinant of the rows (point, 1). */
static inline struct big big_orientation(const int64_t *a, const int64_t *b, const int64_t *c, const int64_t *d) {
    struct big sum = big_determinant3(b, c, d);
    sum = big_add(sum, big_negate(big_determinant3(a, c, d)));
    sum = big_add(sum, big_determinant3(a, b, d));
    return big_add(sum, big_negate(big_determinant3(a, b, c)));
}

#endif
