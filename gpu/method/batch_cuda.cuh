/* batch_cuda.cuh - the tables of a whole batch, for the host code that allocates them and launches the stages. A stage's
 * kernels include the header of their stage instead.
 *
 * One set of launches computes a batch, however many scenes, pairs and views it has:
 *
 *    update     1 write_positions_and_poses, 2 compute_boxes              (only where a step sends something)
 *               measure_deformed_bodies                                   (only where a deformable body moved)
 *    crowds     3 sort_runs, 4 merge_runs, 5 build_bvh                    (only where a scene is a crowd)
 *    pairs      6 count_pairs, 7 write_pairs, 8 sort_rows                 (8 only where a scene is a crowd)
 *    plan       9 narrow_regions, 10 plan_windows, 11 list_chunks
 *    raster    12 raster_triangles, 13 raster_large                       (or, with OpenGL, make_quads, read_drawn)
 *    spans     14 find_spans                                             (then gather_sides, split_sides and
 *               find_lower_sides, where a body may touch itself; and meet_cells, list_cells, sum_cells and
 *               list_entries, where a step has cells)
 *    answer    15 count_entries, 16 compact_gradient, 17 finish_entries, 18 write_contacts
 *
 * The method `exact` has the same first stages, and then
 *
 *    plan       9 plan_exact, 10 pair_clusters
 *    cross     11 find_triangle_pairs, 12 cross_triangles, 13 scatter_crossings, 14 total_crossings
 *    inside    15 find_windings, 16 mark_inside, 17 plan_fixed_point, 18 add_surface
 *    answer    19 measure_gradient, 20 finish_pairs, 21 write_entries, 22 write_exact_contacts
 *               describe_pairs, describe_units, find_hits, split_pairs, make_parts, total_parts
 *                                                                          (before 16, where a step wants patches)
 *               plan_second, recross_triangles, sum_products, sum_moments  (before 21, where a step wants their sums)
 *
 * and where a body may touch itself cross_own_triangles (before 12), find_own_folds, find_own_jumps, sum_own_jumps,
 * write_own_numbers (after 15), gather_sides, split_sides, find_lower_sides, sum_part_1 (before 19).
 *
 * The method `voxtree` has none of these: for each level it launches compare_cubes and list_groups, and waits
 * (gpu/methods/voxtree/descend_cuda.cuh).
 *
 * The method `ebpi` has stages 1 to 11 and the answer, and between them those of gpu/methods/ebpi/ebpi_cuda.cuh, for which the
 * host waits.
 *
 * After a shortage (counts_cuda.cuh) the host grows the table and launches again from 3 on.
 */
#ifndef CT_BATCH_CUH
#define CT_BATCH_CUH

#include <stdlib.h>

#include "gpu/contact/sides_cuda.cuh"

struct ct_device;
struct ct_workspace;
struct ct_gpu_method;

/* What all methods have. A method copies it into the tables of its own, which begin with these. */
struct ct_batch : ct_answer_tables {
    bool splits_sides; /* a step wants entries or spans of bodies with themselves */
    bool finds_own;    /* some body has a contact with itself */
    bool finds_cells;  /* a step has cells */
    bool finds_second; /* a step wants second derivatives or moments */
    bool finds_pieces; /* a step wants patches */
    bool lacks_memory; /* splitting into patches, sides or cells found no memory: the batch's answer must not be used */
};

/* ---- memory ---- */

/* Device memory, counted against the budget. Once it was reserved its workspace knows it, and frees it with its other
 * scratch. */
struct ct_gpu_buffer {
    void *data;
    uint64_t bytes;
    bool is_listed;
    ct_gpu_buffer *next; /* of the same workspace */
};

/* Host memory that the device reads and writes. */
struct ct_gpu_pinned {
    void *host, *device;
    uint64_t bytes;
    bool is_listed; /* as above */
    ct_gpu_pinned *next;
};

/* A growing array on the host. Its memory is kept for the next batch. */
struct ct_host_list {
    void *data;
    uint64_t n, capacity; /* elements */
    ~ct_host_list() {
        free(data);
    }
};

/* The table that could not grow, for an error message. */
struct ct_gpu_need {
    const char *what;
    uint64_t bytes;
    uint64_t most; /* 0, or the largest size of such a table whatever the memory */
    char text[64]; /* for `what` */
};

/* ---- tables as rows ---- */

/* An array of a table: `each` elements for each of the table's, and `more` behind all of them. */
struct ct_gpu_column {
    uint64_t size; /* bytes of an element; 0: no column */
    uint64_t each, more;
    void (*point)(void *tables, void *first); /* sets the member of the tables that points to it */
};

enum { CT_MAX_COLUMNS = 8 };
enum ct_table_kind {
    CT_PLAIN,
    CT_INDEXED,             /* its indices have 32 bits, of which one value is none */
    CT_ZERO_BETWEEN_BATCHES /* a finished batch leaves it zero */
};

using ct_capacity_member = uint64_t ct_gpu_capacity::*; /* (named, as nvcc writes it with parentheses that gcc minds) */

/* A buffer whose arrays grow together, in the order of the columns: from the largest alignment to the smallest. */
struct ct_gpu_table {
    const char *what; /* for errors */
    ct_table_kind kind;
    uint32_t shortage;                         /* CT_SHORT_*: it grows */
    ct_capacity_member capacity;               /* elements that fit; the least of tables that share it */
    uint64_t (*count)(const ct_gpu_counts *c); /* elements that it grows to */
    ct_gpu_column column[CT_MAX_COLUMNS];
};

template <class Tables, auto Member> void ct_point_column(void *tables, void *first) {
    ((Tables *)tables)->*Member = (decltype(((Tables *)tables)->*Member))first;
}

/* Rows: CT_TABLE(capacity, count of c, shortage, kind, what, columns). `row_tables` is the type of the tables. */
#define CT_TABLE(capacity, count, shortage, kind, what, ...)                                                           \
    {                                                                                                                  \
        what, kind, shortage, &ct_gpu_capacity::capacity, [](const ct_gpu_counts *c) -> uint64_t { return count; }, {  \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define CT_COLUMNS(member, each, more)                                                                                 \
    { sizeof *((row_tables *)NULL)->member, each, more, ct_point_column<row_tables, &row_tables::member> }
#define CT_COLUMN(member, each)  CT_COLUMNS(member, each, 0)
#define CT_OFFSETS(member, each) CT_COLUMNS(member, each, 1)

/* Tables with their buffers, in a workspace. */
struct ct_gpu_table_set {
    const ct_gpu_table *rows;
    size_t n;
    ct_gpu_buffer *buffers; /* [n] */
    bool is_clean;          /* those that are CT_ZERO_BETWEEN_BATCHES are zero */
};

#endif
