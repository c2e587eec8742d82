/* sha256.h - SHA-256 (FIPS 180-4) for the content hash of meshes. Clients share meshes by this hash, so it must be
 * collision-resistant.
 *
 * libsodium, which the server and contactctl link, has it too. The engine does not take it from there: libcontact needs
 * nothing but a compiler (EGL aside), so it builds on bare machines with a GPU, and a simulator that loads it gets no
 * library of cryptography with it. Nor is libsodium 1.0.18 faster: 0.46 GB/s, where this has 0.45 (clang 14 -O2) to
 * 0.49 GB/s (gcc 12 -O2) on the same core; neither uses the processor's SHA instructions. */
#ifndef CT_SHA256_H
#define CT_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct ct_sha256 {
    uint32_t state[8];
    uint64_t length;   /* bytes hashed so far */
    uint8_t block[64]; /* the last length % 64 bytes, not compressed yet */
} ct_sha256;

void ct_sha256_init(ct_sha256 *sha);
void ct_sha256_update(ct_sha256 *sha, const void *bytes, size_t size);
void ct_sha256_final(ct_sha256 *sha, uint8_t digest[32]);

#endif
