/* sha256.c - SHA-256 (FIPS 180-4) in plain C. */
#include "gpu/mesh/build/sha256.h"

#include <string.h>

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotate(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static inline uint32_t read_big_endian(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* One round on the state of eight words from round i of 16, s[(8 - i) % 8] being the standard's a. Names rotate in
 * place of values, so once the loop over i is unrolled no word is copied. */
static inline void run_round(uint32_t s[8], int i, uint32_t constant, uint32_t word) {
    const uint32_t a = s[(8 - i) & 7], b = s[(9 - i) & 7], c = s[(10 - i) & 7], e = s[(12 - i) & 7],
                   f = s[(13 - i) & 7], g = s[(14 - i) & 7];
    const uint32_t t =
        s[(15 - i) & 7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) + constant + word;
    s[(11 - i) & 7] += t;
    s[(15 - i) & 7] = t + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));
}

/* The next word of the schedule, in the place of the word 16 rounds before. */
static inline uint32_t extend(uint32_t w[16], int i) {
    const uint32_t w1 = w[(i + 1) & 15], w14 = w[(i + 14) & 15];
    return w[i] += (rotate(w1, 7) ^ rotate(w1, 18) ^ w1 >> 3) + w[(i + 9) & 15] +
                   (rotate(w14, 17) ^ rotate(w14, 19) ^ w14 >> 10);
}

static void compress(uint32_t state[8], const uint8_t *block) {
    uint32_t w[16], s[8];
    memcpy(s, state, sizeof s);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) run_round(s, i, round_constants[i], w[i] = read_big_endian(block + 4 * i));
    for (int at = 16; at < 64; at += 16) {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) run_round(s, i, round_constants[at + i], extend(w, i));
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

void ct_sha256_init(ct_sha256 *sha) {
    static const uint32_t initial_state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, initial_state, sizeof initial_state);
    sha->length = 0;
}

void ct_sha256_update(ct_sha256 *sha, const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    size_t n_buffered = sha->length % 64;
    sha->length += size;
    if (n_buffered) {
        size_t n_copied = 64 - n_buffered < size ? 64 - n_buffered : size;
        memcpy(sha->block + n_buffered, at, n_copied);
        at += n_copied, size -= n_copied, n_buffered += n_copied;
        if (n_buffered < 64) return;
        compress(sha->state, sha->block);
    }
    for (; size >= 64; at += 64, size -= 64) compress(sha->state, at);
    if (size) memcpy(sha->block, at, size);
}

void ct_sha256_final(ct_sha256 *sha, uint8_t digest[32]) {
    uint64_t bits = sha->length * 8;
    static const uint8_t padding[64] = {0x80};
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    size_t n_buffered = sha->length % 64;
    ct_sha256_update(sha, padding, n_buffered < 56 ? 56 - n_buffered : 120 - n_buffered);
    ct_sha256_update(sha, length, 8);
    for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}
