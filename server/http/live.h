/* live.h - scenes as they move, for viewers: bodies' poses and the contacts of the last step as server-sent events.
 *
 * A thread of its own looks at each watched scene at the rate that its viewers ask for. Where steps have ended since, it
 * queues the command that lists bodies and makes one frame for all viewers of the scene. A step waits for that command's
 * copy of poses and positions at most, never for a viewer, and a scene that nobody watches costs nothing. A viewer that
 * does not keep up misses frames: of those that wait, only the newest is kept. */
#ifndef CONTACTD_HTTP_LIVE_H
#define CONTACTD_HTTP_LIVE_H

#include "server/http/handlers.h"

struct live *live_start(const service *service); /* NULL: out of memory or threads */
/* Tells all viewers that it ends, and takes no more. */
void live_end(struct live *live);
void live_stop(struct live **live); /* after the last viewer's source was closed */

#endif
