/* result.h - the answer to a step as the caller sees it. */
#ifndef CONTACTD_RESULT_H
#define CONTACTD_RESULT_H

#include "client_c/client.h"

bool ctc_make_result(contactd_client *client, ctc_step *step); /* of an answer; false: out of memory */
/* Whether the method gives the contact no gradient of vertices: voxtree, where it did not refine the pair. */
bool ctc_lacks_gradient(const contactd_contact *contact);

#endif
