/* base.h - what every part of the C client uses: errors, the time, random numbers, arrays that grow. */
#ifndef CONTACTD_BASE_H
#define CONTACTD_BASE_H

#include "client_c/client.h"

/* Beside the codes of errors.h: the session is new, so the request must be built again with the new handles. */
#define CTC_AGAIN ((contactd_code)0x10000)

/* A request during which so many servers have ended, one after the other, is not sent to a third: it may be what ends
 * them. */
enum { CTC_MOST_ENDS = 2 };
/* The text of SERVER_ENDED: what the servers did, and what the caller may do beside looking into their log. */
#define CTC_ENDED_TEXT                                                                                                 \
    "the server ended twice while it %s, which is not sent again: look into its log for what was running%s"

/* Fills the client's error and returns the code. */
__attribute__((format(printf, 5, 6))) contactd_code
ctc_fail(contactd_client *client, contactd_code code, const char *object, const char *field, const char *format, ...);
/* The same for an error that no client has; error may be NULL. */
__attribute__((format(printf, 5, 6))) contactd_code ctc_fill_error(contactd_error *error, contactd_code code,
                                                                   const char *object, const char *field,
                                                                   const char *format, ...);
contactd_code ctc_no_memory(contactd_client *client, const char *object);
/* Fails because an argument that must point somewhere is NULL. */
contactd_code ctc_fail_null(contactd_client *client, const char *object, const char *argument);
void ctc_answer_error(const wire_error *from, const char *object, contactd_error *to); /* object "": as it says */

void ctc_begin(contactd_client *client); /* of a call: no error yet, and its deadline */
/* The first lines of every public function: a NULL is an error, not a crash. */
#define CTC_BEGIN(client)                                                                                              \
    do {                                                                                                               \
        if (!(client)) return CONTACTD_INVALID_ARGUMENT;                                                               \
        ctc_begin(client);                                                                                             \
    } while (0)
#define CTC_REQUIRE(client, object, argument)                                                                          \
    do {                                                                                                               \
        if (!(argument)) return ctc_fail_null(client, object, #argument);                                              \
    } while (0)

uint64_t ctc_now(void);                     /* ns, monotonic */
double ctc_random(contactd_client *client); /* [0, 1) */
char *ctc_strdup(const char *text);         /* of NULL: of "" */
/* Makes room for one more element. False: out of memory. */
bool ctc_grow(void *array, size_t n, size_t *cap, size_t element);
bool ctc_grow32(void *array, uint32_t n, uint32_t *cap, size_t element);
void ctc_received_close(ctc_received *received);

#endif
