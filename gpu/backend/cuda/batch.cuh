/* batch.cuh - what a batch is on the device: the tables that kernels read and write, for the stages' *_cuda.cu files
 * and for the host code that sets them up.
 *
 * One set of launches computes a batch, however many scenes, pairs and views it has. No kernel's size depends on what
 * an earlier one found: each spreads over a grid of fixed size and reads its counts from device memory, so the host
 * waits once, at the end. In the order of their launches:
 *
 *    1 apply    positions and poses sent          (left out, with 2, where nothing was)
 *    2 boxes    of the bodies that moved
 *    3 sort     a crowd's bodies along a curve    (left out, with 4 and 5, where all scenes have few bodies)
 *    4 merge    what was sorted in parts
 *    5 hull     boxes around neighbours, and around these
 *    6 count    pairs of each body; then sums them up
 *    7 fill     the list of pairs
 *    8 plan     windows, in rising order of pairs; then offsets of all that a pair needs
 *    9 raster   triangles; those that cover many samples are set aside
 *   10 tiles    of these
 *               (with OpenGL: patches of the triangles, which it draws; then what it drew is taken)
 *   11 spans    rays in order, spans, sums
 *   12 sift     counts vertices with a sum; then offsets of entries and contacts
 *   13 gather   entries, forces, torques
 *   14 weigh    friction weights and their barycentres
 *   15 finish   contacts, and each step's share
 *
 * Where a list turns out longer than its memory nothing is written beyond it, the need is counted all the same, and
 * what comes after does nothing: the host makes room and starts again at 3.
 */
#ifndef CT_BATCH_CUH
#define CT_BATCH_CUH

#include "gpu/backend/cuda/cuda.cuh"
#include "gpu/contact/frame_k.h"
#include "gpu/raster/patch_k.h"
#include "gpu/raster/raster_k.h"
#include "gpu/span/span_k.h"
#include "gpu/view/view_k.h"

/* ---- resident ---- */

struct ct_gpu_body {
    float *positions; /* [n_vertices][3]: a deformable body's own, or the rest positions of a rigid one's mesh */
    const uint32_t *triangles;
    uint32_t n_vertices, n_triangles;
    uint32_t group, mask;
    uint32_t rigid, unused;
    double pose[12];
    uint64_t box[6]; /* world, lo then hi, as ct_order_key */
};

/* Numbers whose unsigned order is that of the doubles: minima and maxima of them need no lock. */
CT_FN uint64_t ct_order_key(double x) {
    union {
        double d;
        uint64_t u;
    } bits;
    bits.d = x + 0.0; /* there is but one zero */
    return bits.u >> 63 ? ~bits.u : bits.u | (uint64_t)1 << 63;
}

CT_FN double ct_order_value(uint64_t key) {
    union {
        double d;
        uint64_t u;
    } bits;
    bits.u = key >> 63 ? key & ~((uint64_t)1 << 63) : ~key;
    return bits.d;
}

CT_FN ct_box ct_gpu_box(const ct_gpu_body *body) {
    ct_box box;
    for (int k = 0; k < 3; k++) {
        box.lo[k] = ct_order_value(body->box[k]);
        box.hi[k] = ct_order_value(body->box[3 + k]);
    }
    return box;
}

/* ---- sent with a batch ---- */

struct ct_gpu_step {
    ct_gpu_body *const *bodies;    /* resident with the scene: [n_bodies], and what ct_gpu_ignored finds after them */
    uint32_t first_body, n_bodies; /* among the batch's */
    uint32_t n_ignored, want;
    uint32_t resolution[3], unused;
    double pixel_size;
};

/* [n_ignored] ct_pair_key of the scene's bodies, sorted. */
CT_FN const uint64_t *ct_gpu_ignored(const ct_gpu_step *step) {
    return (const uint64_t *)(step->bodies + step->n_bodies);
}

/* In a scene of few bodies each is tried against all others. In a crowd they are sorted along a curve through space, so
 * that neighbours in the list are neighbours in space; every CT_FAN of them have a box, every CT_FAN of these boxes
 * have one, and so on up to level `top`; a body is tried against what lies in boxes that it meets. */
enum { CT_FEW_BODIES = 128, CT_FAN_BITS = 2, CT_FAN = 1 << CT_FAN_BITS, CT_LEVELS = 9, CT_MOST_PARTS = 32 };
enum { CT_RUN_LEVELS = 2, CT_RUN = 512 }; /* bodies that one block sorts, and levels that it puts above them */
static_assert(CT_RUN % (1 << CT_FAN_BITS * CT_RUN_LEVELS) == 0, "a run ends where a box does");
struct ct_gpu_crowd {
    uint32_t step, top;
    uint32_t first_run, first_chunk, first_key; /* among the batch's; a chunk is a part and CT_BLOCK bodies to try */
    uint32_t level[CT_LEVELS];                  /* first node of each, 0: the bodies */
};

CT_FN int ct_gpu_is_crowd(const ct_gpu_step *step) {
    return step->n_bodies > CT_FEW_BODIES;
}
/* Nodes of a level that stand for n bodies. */
CT_FN uint64_t ct_gpu_level_size(uint64_t n, uint32_t level) {
    const uint32_t bits = CT_FAN_BITS * level;
    return (n + ((uint64_t)1 << bits) - 1) >> bits;
}

/* Rows [first_row, of the next write) of the positions sent go to `to`: to vertices from first_vertex on, or to those
 * that `indices` names from first_index on. No vertex is written twice. */
struct ct_gpu_write {
    float *to;
    uint64_t first_row;
    uint32_t first_vertex, first_index; /* CT_GPU_NONE: none */
};
#define CT_GPU_NONE UINT32_MAX

struct ct_gpu_pose {
    ct_gpu_body *body;
    double pose[12];
};

/* A body whose box is to be made anew; its vertices are taken in chunks of CT_BOX_CHUNK. */
struct ct_gpu_boxed {
    ct_gpu_body *body;
    uint64_t first_chunk;
};
enum { CT_BOX_CHUNK = 2048, CT_VERTEX_CHUNK = 1024 };

/* Sums of vertices have memory only where a triangle was met: a page for so many vertices in a row. */
enum { CT_PAGE = 64, CT_CHUNK_PAGES = CT_VERTEX_CHUNK / CT_PAGE };
enum { CT_NO_PAGE = 0, CT_CLAIMING_PAGE = 1, CT_FIRST_PAGE = 2 };

/* ---- found on the way ---- */

struct ct_gpu_counts {
    uint64_t pairs, rays, pages, triangle_chunks, vertex_chunks, ray_chunks;
    uint64_t fragments; /* CT_SHARDS times the most that a shard has */
    uint64_t large;     /* triangles set aside << CT_SAMPLE_BLOCK_BITS | tiles of theirs: one addition gives both */
    uint64_t contacts, entries, spans;
    uint64_t patches, samples; /* that OpenGL is to draw, and of all their rectangles */
    uint32_t done[5];          /* blocks that have finished counting */
    uint32_t unused;
};
enum { CT_SAMPLE_BLOCK_BITS = 34, CT_SAMPLE_BLOCK = 32 };

/* Fragments are counted in shards, a part of the list each, by the number of the block that finds them: one counter for
 * all would be the busiest word of the whole batch. */
enum { CT_SHARDS = 16 };
struct ct_gpu_shard {
    uint64_t n, unused[15]; /* alone in its cache line */
};

/* How much of each there is room for. */
struct ct_gpu_capacity {
    uint64_t pairs, rays, pages, vertex_chunks, fragments, large, contacts, entries, spans, patches;
};

constexpr uint32_t CT_SHORT_PAIRS = 1, CT_SHORT_RAYS = 2, CT_SHORT_PAGES = 4, CT_SHORT_CHUNKS = 8,
                   CT_SHORT_FRAGMENTS = 16, CT_SHORT_LARGE = 32, CT_SHORT_CONTACTS = 64, CT_SHORT_ENTRIES = 128,
                   CT_SHORT_SPANS = 256, CT_SHORT_PATCHES = 512;

/* What lists turned out too short. Before the stage that counts them, lists are empty. */
CT_FN uint32_t ct_gpu_plan_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *room) {
    return (n->pairs > room->pairs ? CT_SHORT_PAIRS : 0u) | (n->rays > room->rays ? CT_SHORT_RAYS : 0u) |
           (n->vertex_chunks > room->vertex_chunks ? CT_SHORT_CHUNKS : 0u);
}
CT_FN uint32_t ct_gpu_raster_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *room) {
    return ct_gpu_plan_shortage(n, room) | (n->fragments > room->fragments ? CT_SHORT_FRAGMENTS : 0u) |
           (n->pages > room->pages ? CT_SHORT_PAGES : 0u) |
           (n->large >> CT_SAMPLE_BLOCK_BITS > room->large ? CT_SHORT_LARGE : 0u) |
           (n->patches > room->patches || n->samples > UINT32_MAX ? CT_SHORT_PATCHES : 0u);
}
CT_FN uint32_t ct_gpu_shortage(const ct_gpu_counts *n, const ct_gpu_capacity *room) {
    return ct_gpu_raster_shortage(n, room) | (n->contacts > room->contacts ? CT_SHORT_CONTACTS : 0u) |
           (n->entries > room->entries ? CT_SHORT_ENTRIES : 0u) | (n->spans > room->spans ? CT_SHORT_SPANS : 0u);
}

/* A body, or several: the box around them, and all their groups and masks. */
struct ct_gpu_node {
    double lo[3], hi[3];
    uint32_t group, mask; /* group 0: meets nothing */
    uint32_t body;        /* among the batch's, of one alone */
    uint32_t unused;
};

/* A crowd's pairs are found in no order: they are written down here, each in its first body's row. */
struct ct_gpu_draft {
    uint32_t body[2];
};

struct ct_gpu_pair {
    uint32_t step;
    uint32_t body[2]; /* among the batch's */
    uint32_t plan;    /* ct_plan_status */
    ct_window window;
    int64_t length[3]; /* per view, sum of span lengths */
};

/* Wide sums as two words each, so that they can be added to without a lock: high * 2^32 + low. First those of
 * ct_moments, then those of ct_barycentre. */
enum { CT_MOMENTS = 12, CT_BARYCENTRE = 8, CT_WIDES = CT_MOMENTS + CT_BARYCENTRE };

/* One body of a pair: 2 * pair + 0 or 1. */
struct ct_gpu_side {
    int64_t high[CT_WIDES], low[CT_WIDES];
};

CT_FN ct_wide ct_gpu_wide(const ct_gpu_side *side, int k) {
    return (ct_wide)side->high[k] * ((int64_t)1 << 32) + side->low[k];
}

struct ct_gpu_ray {
    uint32_t head; /* 1 + the index of its first fragment, or 0 */
    int32_t winding[2];
    uint32_t unused;
};

/* A triangle that covers many samples of a view, in tiles of CT_SAMPLE_BLOCK x CT_SAMPLE_BLOCK samples. */
struct ct_gpu_large {
    uint64_t first_tile;
    uint32_t side, triangle, view, unused;
};

/* ---- answers, in memory that the host reads ---- */

struct ct_gpu_share {
    uint64_t pairs, box_tests, rays, fragments, first_contact, n_contacts;
    uint32_t refused; /* the first pair without a window, or CT_GPU_NONE */
    uint32_t body[2]; /* its bodies, among the batch's */
};

struct ct_gpu_found {
    uint32_t body[2]; /* among the batch's */
    uint64_t first_entry;
    ct_weight_units units;
    ct_contact contact; /* all but body[], first[], first_span */
};

struct ct_gpu_span {
    uint32_t body[2], view; /* among the batch's */
    uint64_t ray;
    int32_t lower, upper; /* depths */
    ct_span span;
};

struct ct_batch {
    /* Sent: */
    const ct_gpu_step *steps;
    const ct_gpu_crowd *crowds;
    const ct_gpu_boxed *boxed;
    const ct_gpu_pose *poses;
    const ct_gpu_write *writes;
    const uint32_t *indices;
    const float *rows; /* [n_rows][3] */
    uint64_t n_rows, n_box_chunks;
    uint32_t n_steps, n_bodies, n_boxed, n_poses, n_writes;
    uint32_t n_crowds, n_runs, n_keys, n_chunks, n_nodes; /* of all crowds */

    /* Scratch: */
    ct_gpu_capacity room;
    ct_gpu_counts *counts;
    ct_gpu_shard *shards;     /* [CT_SHARDS] */
    ct_gpu_body **bodies;     /* [n_bodies], step after step */
    uint64_t *keys;           /* [n_keys] place on the curve << 32 | body of the step; sorted by runs */
    ct_gpu_node *nodes;       /* [n_nodes] */
    uint32_t *row_count;      /* [n_bodies] pairs of which it is the first body */
    uint64_t *row_first;      /* [n_bodies + 1] */
    uint32_t *step_refused;   /* [n_steps], inverted: the first pair without a window; 0: none */
    uint64_t *step_fragments; /* [n_steps] */
    uint64_t *step_tests;     /* [n_steps] boxes of a crowd tried against each other */
    ct_gpu_draft *drafts;     /* [room.pairs] */
    ct_gpu_pair *pairs;       /* [room.pairs] */
    ct_gpu_side *sides;       /* [2 room.pairs] */
    uint64_t *triangle_chunk; /* [2 room.pairs + 1] first of the side's, in chunks of CT_BLOCK triangles */
    uint64_t *vertex_chunk;   /* [2 room.pairs + 1] in chunks of CT_VERTEX_CHUNK vertices */
    uint64_t *ray_chunk;      /* [3 room.pairs + 1] per view, in chunks of CT_BLOCK rays */
    uint64_t *ray;            /* [3 room.pairs + 1] per view, first ray */
    uint64_t *contact;        /* [room.pairs + 1] contacts before it */
    ct_gpu_ray *rays;         /* [room.rays], all zero between batches */
    uint32_t *page;           /* [CT_CHUNK_PAGES room.vertex_chunks] CT_FIRST_PAGE + which; all zero between batches */
    int64_t *sums_of;         /* [room.pages][CT_PAGE][3], sums of a vertex; all zero between batches */
    uint32_t *chunk_count;    /* [room.vertex_chunks] */
    uint64_t *chunk_first;    /* [room.vertex_chunks + 1] entries before the chunk's */
    ct_fragment *fragments;   /* [room.fragments] */
    uint32_t *next;           /* [room.fragments], as ct_gpu_ray.head */
    ct_gpu_large *large;      /* [room.large] */
    uint32_t *vertices;       /* [room.entries] */
    int64_t *sums;            /* [room.entries][3] */

    /* Buffers of OpenGL's, where that rasterises and while CUDA has them: */
    ct_patch *patches;         /* [room.patches] */
    ct_draw_region *tiles;     /* [3 room.pairs] */
    ct_draw_command *commands; /* [n_commands], for room.patches */
    uint32_t *heads;           /* [room.rays], all CT_END between batches */
    int32_t (*windings)[2];    /* [room.rays], all zero between batches */
    ct_linked_fragment *drawn; /* [room.fragments] */
    uint32_t *n_drawn;         /* also those for which there was no room */
    uint32_t n_commands;

    /* Answers: */
    ct_gpu_counts *out_counts;
    ct_gpu_share *out_shares; /* [n_steps] */
    ct_box *out_boxes;        /* [n_boxed] */
    ct_gpu_found *out_found;  /* [room.contacts] */
    uint32_t *out_vertices;   /* [room.entries], those of steps that asked for them */
    int64_t *out_sums;        /* [room.entries][3] */
    ct_gpu_span *out_spans;   /* [room.spans], in no order */
};

/* ---- the stages' launches; each returns how many ---- */

unsigned ct_cuda_apply(const ct_batch *batch, unsigned grid, cudaStream_t stream);      /* 1, 2 */
unsigned ct_cuda_crowds(const ct_batch *batch, unsigned grid, cudaStream_t stream);     /* 3, 4, 5 */
unsigned ct_cuda_pairs(const ct_batch *batch, unsigned grid, cudaStream_t stream);      /* 6, 7, 8 */
unsigned ct_cuda_raster(const ct_batch *batch, unsigned grid, cudaStream_t stream);     /* 9, 10 */
unsigned ct_cuda_patches(const ct_batch *batch, unsigned grid, cudaStream_t stream);    /* 9, for OpenGL */
unsigned ct_cuda_read_drawn(const ct_batch *batch, unsigned grid, cudaStream_t stream); /* 10, of OpenGL */
unsigned ct_cuda_spans(const ct_batch *batch, unsigned grid, cudaStream_t stream);      /* 11 */
unsigned ct_cuda_answer(const ct_batch *batch, unsigned grid, cudaStream_t stream);     /* 12 to 15 */

#endif
