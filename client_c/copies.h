/* copies.h - many scenes in one request. */
#ifndef CONTACTD_COPIES_H
#define CONTACTD_COPIES_H

#include "client_c/client.h"

/* Closes scenes on the server, which they are numbers of: 65,536 at most. CTC_AGAIN as in ctc_exchange. */
contactd_code ctc_send_close(contactd_client *client, const uint64_t *ids, size_t n);

#endif
