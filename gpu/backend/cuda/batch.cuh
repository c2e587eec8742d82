/* batch.cuh - the tables of a whole batch, for the host code that allocates them and launches the stages. A stage's
 * kernels include the header of their stage instead.
 *
 * One set of launches computes a batch, however many scenes, pairs and views it has:
 *
 *    update     1 write_positions_and_poses, 2 compute_boxes              (only where a step sends something)
 *               measure_deformed_bodies                                   (only where a deformable body moved)
 *    crowds     3 sort_runs, 4 merge_runs, 5 build_bvh                    (only where a scene is a crowd)
 *    pairs      6 count_pairs, 7 write_pairs, 8 sort_rows                 (8 only where a scene is a crowd)
 *    plan       9 narrow_regions, 10 plan_windows, 11 list_chunks
 *    raster    12 raster_triangles, 13 raster_large                       (or, with OpenGL, make_patches, read_drawn)
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
 * (voxtree.cu, gpu/voxtree/descend_cuda.cuh).
 *
 * The method `ebpi` has stages 1 to 11 and the answer, and between them those of gpu/ebpi/ebpi_cuda.cuh, for which the
 * host waits (ebpi.cu).
 *
 * After a shortage (counts.cuh) the host grows the table and launches again from 3 on.
 */
#ifndef CT_BATCH_CUH
#define CT_BATCH_CUH

#include "gpu/exact/exact_cuda.cuh"

struct ct_batch : ct_exact_tables {
    bool splits_sides; /* a step wants entries or spans of bodies with themselves */
    bool finds_cells;  /* a step has cells */
    bool lacks_memory; /* splitting into patches, sides or cells found no memory: the batch's answer must not be used */
};

#endif
