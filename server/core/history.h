/* history.h - what the server did in each of the last 15 minutes' seconds, for the page's graphs: a ring of samples that a
 * thread takes, of fixed size. */
#ifndef SERVER_HISTORY_H
#define SERVER_HISTORY_H

#include "server/base/json_out.h"
#include "server/guard/guard.h"
#include "server/metrics/metrics.h"
#include "server/schedule/schedule.h"

enum { HISTORY_SECONDS = 900 };

typedef struct history history;

history *history_start(const metrics *metrics, registry *registry, scheduler *scheduler, ct_engine *engine,
                       guard *guard); /* NULL: out of memory or threads. What it is given outlives it */
void history_stop(history **history);

/* The last `seconds` as one JSON document: proto/openapi.json describes it. Who does not operate the server sees of all
 * principals only itself. */
void history_write(history *history, json_out *out, uint32_t seconds, const identity *who);

#endif
