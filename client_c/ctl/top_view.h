/* top_view.h - what a server said of itself at a time, and the rates between two such views, for contactctl top. */
#ifndef CONTACTCTL_TOP_VIEW_H
#define CONTACTCTL_TOP_VIEW_H

#include "client_c/ctl/report.h"

enum { LANES = 2, MAX_BOUNDS = 64, TEXT = 64 };

typedef struct latencies { /* counts since the server's start, or their differences */
    double bounds[MAX_BOUNDS], sum;
    uint64_t counts[MAX_BOUNDS + 1], steps;
    size_t n;
} latencies;

typedef struct lane {
    uint64_t depth, running, batches, steps;
    latencies latency;
} lane;

typedef struct scene_row {
    uint64_t id, steps;
    uint32_t bodies, contacts;
    char name[TEXT], owner[TEXT], method[16];
    const char *address; /* of its server */
    double rate;         /* steps per second */
} scene_row;

typedef struct view { /* what the server said at a time */
    json_t *status;
    double at_s;
    lane lanes[LANES];
    uint64_t steps, contacts;
    scene_row *scenes; /* [n], in rising order of id */
    size_t n;
} view;

typedef struct rates {
    double seconds, steps, contacts; /* per second */
    double p50, p99;                 /* us, of the steps of all lanes */
    struct {
        double steps, per_batch, mean, p50, p90, p99;
        uint64_t answered;
    } lanes[LANES];
} rates;

extern const char *const top_lane_names[LANES];

double top_now_s(void);
/* Asks the server. An exit code; the caller frees the view, also after an error. */
int top_take_view(ctl *ctl, view *v);
void top_free_view(view *v);
bool top_is_same_server(const view *a, const view *b); /* the same process */
rates top_rates_of(const view *before, const view *now);
/* Both lists of scenes are in rising order of id. */
void top_rate_scenes(const view *before, view *now, double seconds);
/* Orders of scene_row, for qsort: the busiest first, most bodies, most contacts, by name. */
typedef enum top_order { TOP_BY_RATE, TOP_BY_BODIES, TOP_BY_CONTACTS, TOP_BY_NAME } top_order;
void top_sort(scene_row *scenes, size_t n, top_order order);

#endif
