/* place.inl - places the vertices and triangles of a cluster, and the boxes of its blocks, on the lattice. A part of
 * exact_cpu.simd.c. */
#ifndef CT_EXACT_PLACE_INL
#define CT_EXACT_PLACE_INL

#include "gpu/methods/exact/lanes.inl"

/* Around a triangle's box: two units, so that triangles closer than that are looked at, and as many for rounding. */
static const float BOX_MARGIN = 4;

/* Rounding a coordinate to float moves it by 2^-24 of itself at most. */
static const float FLOAT_ROUNDING = 0x1p-23f;

static inline uint32_t count_blocks(const ct_placed_cluster *c) {
    return (c->n_triangles + CT_EXACT_BLOCK - 1) / CT_EXACT_BLOCK;
}

static inline uint32_t count_in_block(const ct_placed_cluster *c, uint32_t first) {
    return c->n_triangles - first < CT_EXACT_BLOCK ? c->n_triangles - first : CT_EXACT_BLOCK;
}

/* ---- planes ---- */

/* Four planes, and the shortest normals, from the corners in double: a normal in float is good to 2^-23, also of a
 * needle. Where a normal is mostly rounding the plane is 0, which leaves out nothing. */
static inline void find_planes(ct_triangle_floats *to, uint32_t first, const struct triangles4 *triangles,
                               ct_v4d *shortest) {
    const struct normal4 n = normals_of(triangles->corner);
    const ct_v4d length = root4(n.n.of[0] * n.n.of[0] + n.n.of[1] * n.n.of[1] + n.n.of[2] * n.n.of[2]);
    *shortest = smaller(*shortest, length);
    const ct_v4l is_sure = length > (n.size.of[0] + n.size.of[1] + n.size.of[2]) * 0x1p-26;
    const ct_v4d scale = (ct_v4d)(is_sure & (ct_v4l)(1 / length));
    ct_v4d distance = {0, 0, 0, 0};
    for (int k = 0; k < 3; k++) {
        const ct_v4f unit = to_floats(n.n.of[k] * scale);
        store4(to->plane[k] + first, unit);
        distance += ct_v4d_of_v4f(unit) * triangles->corner[0].of[k];
    }
    const ct_v4f d = to_floats(distance);
    store4(to->plane[3] + first, d);
}

/* Fills corners and planes of these blocks. */
static void fill_planes(const ct_placed_cluster *c, uint32_t blocks) {
    ct_triangle_floats *to = c->floats;
    ct_v4d shortest = (ct_v4d){0, 0, 0, 0} + to->shortest;
    to->has_planes |= blocks;
    for (; blocks; blocks &= blocks - 1) {
        const uint32_t first = CT_EXACT_BLOCK * (uint32_t)__builtin_ctz(blocks), n = count_in_block(c, first);
        const uint8_t *order = c->block_order + first;
        struct triangles4 triangles[2];
        for (uint32_t half = 0; half < 2; half++) {
            uint32_t t[4];
            for (uint32_t i = 0; i < 4; i++) t[i] = order[4 * half + i < n ? 4 * half + i : 0];
            load_triangles4(c, t, &triangles[half]);
            find_planes(to, first + 4 * half, &triangles[half], &shortest);
        }
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 3; k++)
                store8(to->corner[3 * i + k] + first,
                       join4(to_floats(triangles[0].corner[i].of[k]), to_floats(triangles[1].corner[i].of[k])));
    }
    to->shortest = fmin(fmin(shortest[0], shortest[1]), fmin(shortest[2], shortest[3]));
}

/* False: none of the triangles with planes may double its area as its corners are moved (CT_MOST_GROWTH). Where growth
 * is 0.96 |normal|_1 or more, that is below 4.3 times the sides of the triangle's box, and 7. */
static inline bool may_have_narrow(const ct_placed_cluster *c) {
    const float sides = (c->hi[0] - c->lo[0]) + (c->hi[1] - c->lo[1]) + (c->hi[2] - c->lo[2]);
    return c->floats->shortest < 5 * (double)sides;
}

/* ---- boxes ---- */

static inline void transpose_floats(const ct_v4f v[4], ct_v4f to[3]) {
    const ct_v4f xy[2] = {__builtin_shufflevector(v[0], v[1], 0, 4, 1, 5),
                          __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5)};
    to[0] = __builtin_shufflevector(xy[0], xy[1], 0, 1, 4, 5);
    to[1] = __builtin_shufflevector(xy[0], xy[1], 2, 3, 6, 7);
    to[2] = __builtin_shufflevector(__builtin_shufflevector(v[0], v[1], 2, 6, 2, 6),
                                    __builtin_shufflevector(v[2], v[3], 2, 6, 2, 6), 0, 1, 4, 5);
}

/* Eight points, as vectors along the axes. */
static inline void transpose_points8(const ct_v4f points[8], v8f to[3]) {
    ct_v4f half[2][3];
    for (int i = 0; i < 2; i++) transpose_floats(points + 4 * i, half[i]);
    for (int k = 0; k < 3; k++) to[k] = join4(half[0][k], half[1][k]);
}

/* The least and the largest coordinates of a block's triangles. */
static inline void bound_triangles(const ct_placed_cluster *c, uint32_t first, uint32_t n, v8f lo[3], v8f hi[3]) {
    ct_v4f least[CT_EXACT_BLOCK], most[CT_EXACT_BLOCK];
    for (uint32_t i = 0; i < CT_EXACT_BLOCK; i++) {
        const uint16_t *corner = c->corners[c->block_order[first + (i < n ? i : 0)]];
        const ct_v4f p = to_floats(load_point(c->points[corner[0]])), q = to_floats(load_point(c->points[corner[1]])),
                     r = to_floats(load_point(c->points[corner[2]]));
        least[i] = ct_v4f_min(ct_v4f_min(p, q), r);
        most[i] = ct_v4f_max(ct_v4f_max(p, q), r);
    }
    transpose_points8(least, lo);
    transpose_points8(most, hi);
}

/* The same, where the corners are filled. */
static inline void bound_corners(const ct_triangle_floats *f, uint32_t first, v8f lo[3], v8f hi[3]) {
    for (int k = 0; k < 3; k++) {
        const v8f p = load8(f->corner[k] + first), q = load8(f->corner[3 + k] + first),
                  r = load8(f->corner[6 + k] + first);
        lo[k] = smaller8(smaller8(p, q), r);
        hi[k] = larger8(larger8(p, q), r);
    }
}

/* The boxes of a block's triangles, block_order[first .. first + 7]; n of them exist, and of others boxes are empty. */
static inline void fill_boxes(const ct_placed_cluster *c, uint32_t first, uint32_t n, v8f lo[3], v8f hi[3]) {
    if (c->is_shared)
        bound_corners(c->floats, first, lo, hi);
    else
        bound_triangles(c, first, n, lo, hi);
    for (int k = 0; k < 3; k++) {
        lo[k] -= absolute8(lo[k]) * FLOAT_ROUNDING + BOX_MARGIN;
        hi[k] += absolute8(hi[k]) * FLOAT_ROUNDING + BOX_MARGIN;
        for (uint32_t i = n; i < CT_EXACT_BLOCK; i++) {
            lo[k][i] = INFINITY;
            hi[k][i] = -INFINITY;
        }
        store8(c->floats->box[k] + first, lo[k]);
        store8(c->floats->box[3 + k] + first, hi[k]);
    }
}

static void fill_floats(ct_placed_cluster *c) {
    ct_triangle_floats *to = c->floats;
    ct_v4f lo_all = (ct_v4f){0, 0, 0, 0} + INFINITY, hi_all = -lo_all;
    c->blocks &= ((uint32_t)1 << count_blocks(c)) - 1;
    to->has_planes = to->turned_box_state = 0;
    to->shortest = INFINITY;
    if (c->is_shared) fill_planes(c, c->blocks);
    for (uint32_t i = 0; i < CT_EXACT_BLOCKS; i++)
        for (int k = 0; k < 6; k++) to->block[k][i] = k < 3 ? INFINITY : -INFINITY;
    for (uint32_t left = c->blocks; left; left &= left - 1) {
        const uint32_t block = (uint32_t)__builtin_ctz(left), first = CT_EXACT_BLOCK * block;
        const uint32_t n = count_in_block(c, first);
        v8f lo[3], hi[3];
        if (n == CT_EXACT_BLOCK) /* a constant, so that nothing is tested below */
            fill_boxes(c, first, CT_EXACT_BLOCK, lo, hi);
        else
            fill_boxes(c, first, n, lo, hi);
        const ct_v4f least = smallest_of_each(lo), most = -smallest_of_each((v8f[3]){-hi[0], -hi[1], -hi[2]});
        for (int k = 0; k < 3; k++) {
            to->block[k][block] = least[k];
            to->block[3 + k][block] = most[k];
        }
        lo_all = ct_v4f_min(lo_all, least);
        hi_all = ct_v4f_max(hi_all, most);
    }
    for (int k = 0; k < 3; k++) {
        c->lo[k] = lo_all[k];
        c->hi[k] = hi_all[k];
    }
}

/* ---- points ---- */

/* Vertices ahead: a cluster's are scattered over the mesh's. Where they lie side by side, this reaches into the next
 * cluster, which is likely to follow; a cache line has five. */
enum { PREFETCH = 16, PREFETCH_RUN = 64, PREFETCH_STEP = 4 };

struct pose_columns {
    ct_v4d of[4];
};

static inline void place_point(const struct pose_columns *column, const float *p, double *to, ct_v4d *residual) {
    const ct_v4d x =
        column->of[0] * (double)p[0] + column->of[1] * (double)p[1] + column->of[2] * (double)p[2] + column->of[3];
    const ct_v4d on_lattice = (x + CT_ROUND_MAGIC) - CT_ROUND_MAGIC;
    *residual = larger(*residual, absolute(x - on_lattice));
    store_point(to, on_lattice);
}

/* As place_point, with the lower part of a position. */
static inline void place_double(const struct pose_columns *column, const float *p, const float *low, double *to,
                                ct_v4d *residual) {
    const ct_v4d x = column->of[0] * ((double)p[0] + (double)low[0]) + column->of[1] * ((double)p[1] + (double)low[1]) +
                     column->of[2] * ((double)p[2] + (double)low[2]) + column->of[3];
    const ct_v4d on_lattice = (x + CT_ROUND_MAGIC) - CT_ROUND_MAGIC;
    *residual = larger(*residual, absolute(x - on_lattice));
    store_point(to, on_lattice);
}

static void place_points(ct_placed_cluster *c, const ct_exact_body *body) {
    const ct_lattice_pose *pose = &body->pose;
    const float *const positions = body->positions, *const low = body->low;
    const uint32_t *const vertices = c->vertices, n = c->n_vertices;
    double(*const points)[4] = c->points;
    struct pose_columns column;
    ct_v4d residual = {0, 0, 0, 0};
    for (int j = 0; j < 4; j++) column.of[j] = (ct_v4d){pose->row[0][j], pose->row[1][j], pose->row[2][j], 0};
    if (low) {
        for (uint32_t v = 0; v < n; v++) {
            const size_t at = 3 * (size_t)vertices[v];
            place_double(&column, positions + at, low + at, points[v], &residual);
        }
    } else if (c->positions) {
        const float *p = c->positions[0];
        for (uint32_t v = 0; v < n; v++, p += 3) {
            if (v % PREFETCH_STEP == 0) __builtin_prefetch((const char *)p + PREFETCH_RUN * sizeof *c->positions);
            place_point(&column, p, points[v], &residual);
        }
    } else {
        for (uint32_t v = 0; v < n; v++) {
            if (v + PREFETCH < n) __builtin_prefetch(positions + 3 * (size_t)vertices[v + PREFETCH]);
            place_point(&column, positions + 3 * (size_t)vertices[v], points[v], &residual);
        }
    }
    c->residual = fmax(residual[0], fmax(residual[1], residual[2]));
}

static void place(ct_placed_cluster *c, const ct_exact_body *body) {
    place_points(c, body);
    if (c->floats) fill_floats(c);
}

/* ---- boxes of blocks at rest ---- */

/* Around the cluster along axis k, with 2^-20 of the coordinates and 16 units more on either side: what the sums below
 * are rounded by in floats, and how far a triangle's box reaches from the triangle (fill_floats), come to less than
 * 2^-21 of them and 8 units. */
static inline void place_extent(const ct_cluster_box *box, const ct_lattice_pose *pose, int k, float *lo, float *hi) {
    const double *row = pose->row[k];
    double at = row[3], half = 0, size = fabs(row[3]);
    for (int j = 0; j < 3; j++) {
        const double middle = 0.5 * ((double)box->lo[j] + (double)box->hi[j]);
        at += row[j] * middle;
        half += fabs(row[j]) * (0.5 * ((double)box->hi[j] - (double)box->lo[j]));
        size += fabs(row[j] * middle);
    }
    const double margin = (fabs(at) + 2 * half) * 0x1p-20 + size * 0x1p-48 + pose->rounding + 16;
    *lo = (float)(at - half - margin);
    *hi = (float)(at + half + margin);
}

static void place_blocks(const ct_rigid_blocks *blocks, const ct_cluster_box *box, const ct_lattice_pose *pose,
                         ct_block_boxes *to) {
    double step[3];
    for (int j = 0; j < 3; j++) step[j] = ct_block_step(box, j);
    for (int k = 0; k < 3; k++) place_extent(box, pose, k, &to->lo[k], &to->hi[k]);
    for (int half = 0; half < CT_EXACT_BLOCKS; half += 8) {
        v8f inset[6];
        for (int i = 0; i < 6; i++) inset[i] = load_bytes8(blocks->inset[i] + half);
        for (int k = 0; k < 3; k++) {
            v8f from = (v8f){0, 0, 0, 0, 0, 0, 0, 0} + to->lo[k], end = (v8f){0, 0, 0, 0, 0, 0, 0, 0} + to->hi[k];
            for (int j = 0; j < 3; j++) {
                const float steps = (float)(pose->row[k][j] * step[j]);
                const v8f low = steps > 0 ? inset[j] : inset[3 + j], high = steps > 0 ? inset[3 + j] : inset[j];
                from += fabsf(steps) * low; /* the side of the box that is lower along k */
                end -= fabsf(steps) * high;
            }
            store8(to->of[k] + half, from);
            store8(to->of[3 + k] + half, end);
        }
    }
}

#endif
