/* lanes.h - the workers that carry out what may take long: a few threads for meshes, a few for scenes and one for
 * pictures, so that reading large meshes or drawing holds up no step. A lane's queue is bounded by the number of
 * connections, each of which has one request. */
#ifndef CONTACTD_HTTP_LANES_H
#define CONTACTD_HTTP_LANES_H

#include <stdbool.h>

#include "server/http/handlers.h"

typedef struct lanes lanes;

typedef struct lane_job { /* embedded in what is worked on */
    struct lane_job *next;
    void (*run)(struct lane_job *job); /* on a worker; the job may be gone when it returns */
} lane_job;

lanes *lanes_start(void); /* NULL: out of memory or threads */

/* False: the lanes are stopping, and run will not be called. */
bool lanes_push(lanes *lanes, http_lane lane, lane_job *job);

/* Takes no more jobs, and waits for those there are. */
void lanes_drain(lanes *lanes);
void lanes_stop(lanes **lanes); /* drains, ends the workers, frees */

#endif
