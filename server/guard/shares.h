/* shares.h - how much of one limited resource each principal may have, so that one principal cannot take it from the
 * others. Used by the scheduler (places in the queue), the stream and HTTP (bytes in hand) and the registry (scenes,
 * and bytes of scenes and meshes). Not locked: the owner of the resource guards it.
 *
 * Weights come from the list of principals (weight=N, 1 by default). What is used without a principal counts, but has
 * no share: where principals are listed, such requests come from this machine alone.
 *
 * There are two rules:
 *   - Resources that come back by themselves within a short time (queue, bytes in hand). Up to half of the limit is
 *     first come, first served. From there on a principal gets no more than its part of the limit, divided by weight
 *     among the principals that use any of it now; one that comes is counted too, as is one other principal where
 *     several are listed. So a single one fills half at most, and the other half is there when a second one comes.
 *   - Resources that are held for as long as the client likes (scenes, meshes). Half of the limit is divided by weight
 *     among all listed principals, and is kept free for them. The other half is first come, first served.
 */
#ifndef SERVER_GUARD_SHARES_H
#define SERVER_GUARD_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/guard/identity.h"

typedef struct share { /* of one principal */
    uint64_t used;
    uint32_t weight, others_weight; /* as of its last request */
} share;

typedef struct shares {
    uint64_t limit;
    uint64_t used;        /* by all, with and without principal */
    uint64_t busy_weight; /* of the principals that use any */
    uint32_t n_busy;
    share *items; /* [n] by principal; items[0] is not used */
    uint32_t n;
} shares;

static inline void shares_init(shares *shares, uint64_t limit) {
    *shares = (struct shares){.limit = limit};
}
void shares_free(shares *shares);
/* Makes an entry for the principal, and notes its weight. False: no memory. Before the first shares_take of it. */
bool shares_know(shares *shares, const identity *who);

/* The principal, with its weight as of its last request, without name and role. */
identity shares_identity(const shares *shares, uint32_t principal);

/* amount more are used, or less. Of any principal, also PRINCIPAL_NONE. */
void shares_take(shares *shares, uint32_t principal, uint64_t amount);
void shares_give(shares *shares, uint32_t principal, uint64_t amount);
uint64_t shares_used(const shares *shares, uint32_t principal);

/* The first rule: what the principal may use from half of the limit on. The limit for PRINCIPAL_NONE. */
uint64_t shares_part(const shares *shares, const identity *who);
/* Whether `amount` more are within the limit and the first rule. A principal that uses nothing may have any amount up
 * to the limit. */
bool shares_allow(const shares *shares, const identity *who, uint64_t amount);

/* The second rule: what is kept free for the principal. 0 for PRINCIPAL_NONE. */
uint64_t shares_kept(const shares *shares, const identity *who);
/* The most that the principal can ever have. */
uint64_t shares_most(const shares *shares, const identity *who);
/* Whether the principal uses more than is kept for it. */
bool shares_exceeds_kept(const shares *shares, uint32_t principal);
/* Whether `amount` more are within the limit and the second rule. */
bool shares_allow_held(const shares *shares, const identity *who, uint64_t amount);

#endif
