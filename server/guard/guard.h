/* guard.h - who may come in: the list of principals with their roles and credentials, and the limit on failed attempts.
 * For stream and HTTP. All functions may be called from any thread.
 *
 * The list is a file (--principals) with a line for each credential:
 *
 *     # name     role       credential
 *     lab-7      simulator  key=rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7      a client's public CURVE key
 *     lab-7      simulator  uid=1000                                          a user of this machine, over ipc://
 *     alice      admin      token=sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e...  the hash of a bearer token, for HTTP
 *
 *     farm       simulator  uid=1001   weight=3                               three times the share of the others
 *
 * A principal may have several lines, all with the same role. weight=1 to 1000, on any of them, is for its shares of
 * the server (shares.h); 1 by default. max_step_time=30s is what its steps may run for instead of --max-step-time
 * (duration.h). Lines that are empty or begin with # are skipped.
 */
#ifndef SERVER_GUARD_GUARD_H
#define SERVER_GUARD_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/error.h"
#include "server/guard/identity.h"

typedef struct guard guard;

/* path empty: an empty list. False: *error names the file, the line and what is wrong with it. */
bool guard_open(guard **out, const char *path, server_error *error);
/* Reads the file again. False: *error says why, and the list stays as it was. */
bool guard_reload(guard *guard, server_error *error);
void guard_close(guard **guard); /* NULL inside is allowed */

/* Which credentials the list had when it was opened. A list that is read again changes none of these, so that a file
 * that became empty opens no door. */
bool guard_has_keys(const guard *guard);
bool guard_has_uids(const guard *guard);
bool guard_has_tokens(const guard *guard);
/* Incremented each time the list is read. A peer that was admitted under an older number must be looked up again. */
uint32_t guard_generation(const guard *guard);

/* Empty for PRINCIPAL_NONE. */
void guard_name(guard *guard, uint32_t principal, char name[IDENTITY_NAME]);

/* A credential as the list writes it: "key=" and 40 characters, or "uid=" and a number. False: it is not listed. */
bool guard_find(guard *guard, const char *credential, identity *out);
/* Compares hashes, in a time that does not depend on the token or on which of the list it is. */
bool guard_find_token(guard *guard, const char *token, size_t size, identity *out);

typedef enum guard_verdict {
    GUARD_ADMITTED,
    GUARD_UNKNOWN, /* the credential is not listed */
    GUARD_LIMITED, /* too many failed attempts came from the address; the credential was not looked at */
} guard_verdict;

enum { GUARD_FAILURES = 10, GUARD_FAILURE_MS = 3000 };

typedef enum guard_proof {
    GUARD_TOLD,   /* whoever asks has sent a secret, which may be a guess */
    GUARD_PROVEN, /* it was proven whose the credential is: by a CURVE handshake, or by the kernel */
} guard_proof;

/* What becomes of an attempt from an address ("192.0.2.7", "2001:db8::1", "" for ipc): found is the credential's owner,
 * or NULL. After GUARD_FAILURES failures only one attempt every GUARD_FAILURE_MS is looked at; *wait_ms (may be NULL)
 * is when the next one is, for GUARD_LIMITED. Principals that the address has had before, and those that have proven
 * who they are, are always admitted, so that a stranger behind the same address cannot lock them out. An IPv6 address
 * stands for its /64. now_ns: of clock_ns(). */
guard_verdict guard_judge(guard *guard, const char *address, const identity *found, guard_proof proof, uint64_t now_ns,
                          uint32_t *wait_ms);

/* A number that stands for an address, as identity.origin: not 0, and not to be guessed. An IPv6 address stands for its
 * /64. */
uint32_t guard_origin(guard *guard, const char *address);

/* How many attempts were GUARD_LIMITED since the last call: for the next line of the log about one that was not. */
uint64_t guard_take_unseen(guard *guard);
/* The same as text for that line's end; empty if there are none. Returns out. */
enum { GUARD_UNSEEN_TEXT = 96 };
const char *guard_unseen_text(guard *guard, char out[GUARD_UNSEEN_TEXT]);

#endif
