/* replay_compare.h - whether two answers to a request have the same bits, but for what is not the answer's: times,
 * handles, and which backend gave it. */
#ifndef CONTACTCTL_REPLAY_COMPARE_H
#define CONTACTCTL_REPLAY_COMPARE_H

#include "proto/codec.h"

/* False: `what` names the first difference. Changes both messages where they need not agree. */
bool replay_agree(wire_message *recorded, wire_message *now, char *what, size_t size);

#endif
