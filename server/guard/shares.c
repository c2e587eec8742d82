/* shares.c - see shares.h. */
#include "server/guard/shares.h"

#include <stdlib.h>
#include <string.h>

void shares_free(shares *shares) {
    free(shares->items);
    shares->items = NULL;
    shares->n = 0;
}

bool shares_know(shares *shares, const identity *who) {
    uint32_t n = who->principal + 1;
    if (who->principal == PRINCIPAL_NONE) return true;
    if (n > shares->n) {
        share *grown = realloc(shares->items, n * sizeof *grown);
        if (!grown) return false;
        memset(grown + shares->n, 0, (n - shares->n) * sizeof *grown);
        shares->items = grown;
        shares->n = n;
    }
    share *share = &shares->items[who->principal];
    if (share->used) shares->busy_weight += identity_weight(who) - (uint64_t)share->weight;
    share->weight = identity_weight(who);
    share->others_weight = who->others_weight;
    return true;
}

identity shares_identity(const shares *shares, uint32_t principal) {
    identity who = {.principal = principal};
    if (principal == PRINCIPAL_NONE || principal >= shares->n) return who;
    who.weight = shares->items[principal].weight;
    who.others_weight = shares->items[principal].others_weight;
    return who;
}

void shares_take(shares *shares, uint32_t principal, uint64_t amount) {
    shares->used += amount;
    if (principal == PRINCIPAL_NONE || amount == 0) return;
    share *share = &shares->items[principal];
    if (share->used == 0) {
        shares->n_busy++;
        shares->busy_weight += share->weight;
    }
    share->used += amount;
}

void shares_give(shares *shares, uint32_t principal, uint64_t amount) {
    shares->used -= amount;
    if (principal == PRINCIPAL_NONE || amount == 0) return;
    share *share = &shares->items[principal];
    share->used -= amount;
    if (share->used) return;
    shares->n_busy--;
    shares->busy_weight -= share->weight;
}

uint64_t shares_used(const shares *shares, uint32_t principal) {
    return principal != PRINCIPAL_NONE && principal < shares->n ? shares->items[principal].used : 0;
}

/* limit * part / whole, without overflow. */
static uint64_t fraction(uint64_t limit, uint64_t part, uint64_t whole) {
    return limit / whole * part + (uint64_t)((double)(limit % whole) * (double)part / (double)whole);
}

uint64_t shares_part(const shares *shares, const identity *who) {
    if (who->principal == PRINCIPAL_NONE) return shares->limit;
    uint64_t weight = identity_weight(who), whole = shares->busy_weight;
    if (!shares_used(shares, who->principal)) whole += weight;
    if (whole == weight) { /* alone: as much again is left for one that may come */
        if (!identity_has_others(who)) return shares->limit;
        whole = 2 * weight;
    }
    return fraction(shares->limit, weight, whole);
}

bool shares_allow(const shares *shares, const identity *who, uint64_t amount) {
    if (amount > shares->limit || shares->used > shares->limit - amount) return false;
    uint64_t used = shares_used(shares, who->principal);
    if (who->principal == PRINCIPAL_NONE || used == 0 || shares->used + amount <= shares->limit / 2) return true;
    return used + amount <= shares_part(shares, who);
}

static uint64_t kept_of(const shares *shares, uint64_t weight, uint64_t others) {
    return others ? fraction(shares->limit / 2, weight, weight + others) : shares->limit;
}

uint64_t shares_kept(const shares *shares, const identity *who) {
    if (who->principal == PRINCIPAL_NONE) return 0;
    return kept_of(shares, identity_weight(who), who->others_weight);
}

uint64_t shares_most(const shares *shares, const identity *who) {
    uint64_t kept = shares_kept(shares, who), rest = shares->limit - shares->limit / 2;
    return who->principal == PRINCIPAL_NONE || !identity_has_others(who) ? shares->limit : kept + rest;
}

bool shares_exceeds_kept(const shares *shares, uint32_t principal) {
    if (principal == PRINCIPAL_NONE || principal >= shares->n) return true;
    const share *share = &shares->items[principal];
    return share->used > kept_of(shares, share->weight, share->others_weight);
}

/* Used of the half that is first come, first served: what exceeds the kept parts, and what has no principal. */
static uint64_t used_of_rest(const shares *shares) {
    uint64_t within = 0;
    for (uint32_t i = 1; i < shares->n; i++) {
        const share *share = &shares->items[i];
        uint64_t kept = kept_of(shares, share->weight, share->others_weight);
        within += share->used < kept ? share->used : kept;
    }
    return shares->used - within;
}

bool shares_allow_held(const shares *shares, const identity *who, uint64_t amount) {
    if (amount > shares->limit || shares->used > shares->limit - amount) return false;
    if (!identity_has_others(who)) return true;
    uint64_t used = shares_used(shares, who->principal), kept = shares_kept(shares, who);
    if (used + amount <= kept) return true;
    uint64_t more = used > kept ? amount : used + amount - kept;
    return used_of_rest(shares) + more <= shares->limit - shares->limit / 2;
}
