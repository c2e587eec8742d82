/* list_cuda.cu - snaps pairs' vertices, lists the faces over each pixel of their views, and shares a tile's faces among
 * its parts. One thread a vertex or a face. */
#include "gpu/device/cuda/collective.cuh"
#include "gpu/methods/ebpi/ebpi_cuda.cuh"

CT_KERNEL snap_vertices(const ct_ebpi_snap_tables b) {
    CT_FOR(i, b.n_vertices) {
        const ct_ebpi_pair *pair =
            &b.pairs[ct_find_owner(b.n_pairs, i, [&](uint64_t p) { return b.pairs[p].first_vertex; })];
        const uint64_t of_pair = i - pair->first_vertex;
        const int k = of_pair >= pair->n_vertices[0];
        const uint32_t vertex = (uint32_t)(k ? of_pair - pair->n_vertices[0] : of_pair);
        int32_t q[3];
        if (pair->turned)
            ct_gpu_posed_coords(pair->body[k], pair->turned->pose[k], &pair->window, vertex, q);
        else
            ct_gpu_coords(pair->body[k], &pair->window, vertex, q);
        int32_t *to = pair->coords[k][vertex];
        to[0] = q[0], to[1] = q[1], to[2] = q[2], to[3] = 0;
    }
}

/* ---- faces over pixels ---- */

struct corners {
    const int32_t *a, *b, *c;
};

CT_DEVICE corners corners_of(const ct_ebpi_pair *pair, int body, uint32_t triangle) {
    const uint32_t *of = pair->triangles[body] + 3 * (uint64_t)triangle;
    const corners at = {pair->coords[body][of[0]], pair->coords[body][of[1]], pair->coords[body][of[2]]};
    return at;
}

CT_DEVICE int32_t limit(int32_t x, int32_t lo, int32_t hi) {
    return x < lo ? lo : x > hi ? hi : x;
}

/* Calls add(pixel) for each pixel of a view that a face is over; a face that ends on the border between two pixels is
 * over both. */
template <class Add> CT_DEVICE void list_in_view(const ct_ebpi_view *view, int body, const corners &at, Add add) {
    const int u = view->u, v = view->v, w = view->axis;
    const int su = view->pixel_shift + view->pitch_shift[0], sv = view->pixel_shift + view->pitch_shift[1];
    if (ct_min3(at.a[w], at.b[w], at.c[w]) > view->hi) return;
    if (view->initial[body] == CT_INITIAL_FROM_BALANCE && ct_max3(at.a[w], at.b[w], at.c[w]) < view->lo) return;
    const int32_t c0 = (ct_min3(at.a[u], at.b[u], at.c[u]) - 1) >> su, c1 = ct_max3(at.a[u], at.b[u], at.c[u]) >> su;
    const int32_t r0 = (ct_min3(at.a[v], at.b[v], at.c[v]) - 1) >> sv, r1 = ct_max3(at.a[v], at.b[v], at.c[v]) >> sv;
    const bool is_single = c0 == c1 && r0 == r1;
    if (c1 < 0 || r1 < 0 || c0 >= view->columns || r0 >= view->rows) return;
    for (int32_t row = limit(r0, 0, view->rows); row <= r1 && row < view->rows; row++)
        for (int32_t column = limit(c0, 0, view->columns); column <= c1 && column < view->columns; column++) {
            ct_ebpi_rect rect;
            rect.u0 = column << su, rect.u1 = (column + 1) << su;
            rect.v0 = row << sv, rect.v1 = (row + 1) << sv;
            if (is_single || ct_ebpi_triangle_meets(at.a, at.b, at.c, u, v, &rect))
                add((uint64_t)row * (uint64_t)view->columns + (uint64_t)column);
        }
}

/* Cubic lattice units by how much snapping may change what a face bounds in the window (ct_ebpi_list_cpu). */
CT_DEVICE uint64_t moved_by(const ct_window *window, const corners &at) {
    int64_t length[3], e[2][3], volume = 1;
    for (int k = 0; k < 3; k++) {
        const ct_lattice *axis = &window->axis[k];
        const int64_t end = (int64_t)axis->n << axis->shift;
        const int64_t lo = (axis->lo < 0 ? axis->lo : 0) - 1, hi = (axis->hi > end ? axis->hi : end) + 1;
        const int64_t low = ct_min3(at.a[k], at.b[k], at.c[k]), high = ct_max3(at.a[k], at.b[k], at.c[k]);
        if (high < lo || low > hi) return 0;
        length[k] = high - low < hi - lo ? high - low : hi - lo;
        e[0][k] = at.b[k] - at.a[k];
        e[1][k] = at.c[k] - at.a[k];
    }
    for (int k = 0; k < 3; k++) {
        const int i = (k + 1) % 3, j = (k + 2) % 3;
        const int64_t twice = e[0][i] * e[1][j] - e[0][j] * e[1][i];
        const int64_t half = (int64_t)((uint64_t)(twice < 0 ? -twice : twice) >> 1), flat = length[i] * length[j];
        volume += (half + 1 < flat ? half + 1 : flat) + 2 * length[k];
    }
    return (uint64_t)volume;
}

/* A thread's face, in a chunk of those of all pairs that are listed. Faces of both bodies are numbered together. */
struct listed_face {
    uint64_t at; /* of ct_ebpi_list_tables.listed */
    const ct_ebpi_listed *listed;
    const ct_ebpi_pair *pair;
    int body;
    uint32_t triangle;
    bool is_one; /* else the pair has no more */
};

CT_DEVICE listed_face face_of(const ct_ebpi_list_tables &b, uint64_t chunk, unsigned thread) {
    listed_face face;
    face.at = ct_find_owner(b.n, chunk, [&](uint64_t i) { return b.listed[i].first_chunk; });
    face.listed = &b.listed[face.at];
    face.pair = &b.pairs[face.listed->pair];
    const uint64_t i = (chunk - face.listed->first_chunk) * CT_BLOCK + thread;
    face.body = i >= face.pair->n_triangles[0];
    face.triangle = (uint32_t)(face.body ? i - face.pair->n_triangles[0] : i);
    face.is_one = i < (uint64_t)face.pair->n_triangles[0] + face.pair->n_triangles[1];
    return face;
}

/* Calls add(view, counter) for each pixel that a face is over. */
template <class Add>
CT_DEVICE void list_face(const ct_ebpi_list_tables &b, const listed_face &face, const corners &at, Add add) {
    const ct_ebpi_listed *listed = face.listed;
    for (int w = 0; w < 3; w++) {
        uint32_t *count =
            b.count + listed->first_count + (uint64_t)face.body * listed->n_pixels + listed->first_pixel[w];
        list_in_view(&face.pair->view[w], face.body, at, [&](uint64_t pixel) { add(w, &count[pixel]); });
    }
}

CT_KERNEL count_faces(const ct_ebpi_list_tables b) {
    CT_EACH_BLOCK(chunk, b.n_chunks) {
        uint64_t low[2] = {0, 0}, high[2] = {0, 0}, to = 0;
        CT_THREADS(t) {
            const listed_face face = face_of(b, chunk, t);
            to = face.at;
            if (!face.is_one) continue;
            const corners at = corners_of(face.pair, face.body, face.triangle);
            list_face(b, face, at, [](int, uint32_t *count) { atomicAdd(count, 1u); });
            const uint64_t volume = moved_by(&face.pair->window, at);
            low[face.body] = volume & 0xffffffff;
            high[face.body] = volume >> 32;
        }
        for (int k = 0; k < 2; k++) {
            const uint64_t sum_low = ct_block_sum(low[k]), sum_high = ct_block_sum(high[k]);
            CT_THREADS(t) {
                if (t > 0) continue;
                if (sum_low) ct_atomic_add(&b.moved[to][k][0], sum_low);
                if (sum_high) ct_atomic_add(&b.moved[to][k][1], sum_high);
            }
        }
    }
}

CT_KERNEL write_faces(const ct_ebpi_list_tables b) {
    CT_FOR(i, b.n_chunks * CT_BLOCK) {
        const listed_face face = face_of(b, i / CT_BLOCK, (unsigned)(i % CT_BLOCK));
        if (!face.is_one) continue;
        list_face(b, face, corners_of(face.pair, face.body, face.triangle), [&](int w, uint32_t *count) {
            const uint32_t to = atomicAdd(count, 1u);
            b.faces[face.listed->first_face[w] + to] = (uint32_t)face.body << 31 | face.triangle;
        });
    }
}

/* ---- parts of tiles ---- */

/* The first and the last of the n intervals from `from`, of 2^shift units each, that lo to hi meets. */
CT_DEVICE void find_range(int32_t lo, int32_t hi, int32_t from, int shift, int n, int range[2]) {
    range[0] = limit((lo - from - 1) >> shift, 0, n - 1);
    range[1] = limit((hi - from) >> shift, 0, n - 1);
}

/* A bit for each part of a tile that a face is over, part u, v being bit v << cut.u | u. */
CT_DEVICE uint32_t find_parts(const ct_ebpi_pair *pair, const ct_ebpi_tile *tile, ct_ebpi_cut cut, uint32_t tag) {
    const ct_ebpi_view *view = &pair->view[tile->view];
    const corners at = corners_of(pair, (int)(tag >> 31), tag & 0x7fffffff);
    const int u = view->u, v = view->v, su = tile->shift_u - cut.u, sv = tile->shift_v - cut.v;
    int columns[2], rows[2];
    if (!cut.u && !cut.v) return 1;
    find_range(ct_min3(at.a[u], at.b[u], at.c[u]), ct_max3(at.a[u], at.b[u], at.c[u]), tile->u, su, 1 << cut.u,
               columns);
    find_range(ct_min3(at.a[v], at.b[v], at.c[v]), ct_max3(at.a[v], at.b[v], at.c[v]), tile->v, sv, 1 << cut.v, rows);
    const bool is_single = columns[0] == columns[1] && rows[0] == rows[1];
    uint32_t bits = 0;
    for (int row = rows[0]; row <= rows[1]; row++)
        for (int column = columns[0]; column <= columns[1]; column++) {
            ct_ebpi_rect rect;
            rect.u0 = tile->u + (column << su), rect.u1 = rect.u0 + (1 << su);
            rect.v0 = tile->v + (row << sv), rect.v1 = rect.v0 + (1 << sv);
            if (is_single || ct_ebpi_triangle_meets(at.a, at.b, at.c, u, v, &rect))
                bits |= 1u << (row << cut.u | column);
        }
    return bits;
}

enum { LANES = CT_EBPI_LANES };

CT_KERNEL count_parts(const ct_ebpi_cut_tables b) {
    CT_FOR(i, LANES * b.n) {
        const uint64_t at = i / LANES;
        const ct_ebpi_tile *tile = &b.tiles[at];
        for (uint32_t f = (uint32_t)(i % LANES); f < tile->n_faces; f += LANES) {
            const uint32_t tag = tile->faces[f], bits = find_parts(&b.pairs[b.pair_of[at]], tile, b.cut[at], tag);
            b.covered[b.first_face[at] + f] = (uint16_t)bits;
            for (uint32_t part = 0; bits >> part; part++)
                if (bits >> part & 1) atomicAdd(&b.count[b.first_part[at] + part][tag >> 31], 1u);
        }
    }
}

/* count is 0 again. */
CT_KERNEL write_parts(const ct_ebpi_cut_tables b) {
    CT_FOR(i, LANES * b.n) {
        const uint64_t at = i / LANES;
        const ct_ebpi_tile *tile = &b.tiles[at];
        for (uint32_t f = (uint32_t)(i % LANES); f < tile->n_faces; f += LANES) {
            const uint32_t tag = tile->faces[f], bits = b.covered[b.first_face[at] + f];
            for (uint32_t part = 0; bits >> part; part++) {
                if (!(bits >> part & 1)) continue;
                const uint64_t to = b.first_part[at] + part;
                const uint32_t n = atomicAdd(&b.count[to][tag >> 31], 1u);
                b.faces[to][tag >> 31 ? b.second[to] + n : n] = tag;
            }
        }
    }
}

const ct_kernel_entry ct_ebpi_list_kernels[] = {CT_KERNEL_ENTRY(snap_vertices), CT_KERNEL_ENTRY(count_faces),
                                                CT_KERNEL_ENTRY(write_faces),   CT_KERNEL_ENTRY(count_parts),
                                                CT_KERNEL_ENTRY(write_parts),   CT_KERNELS_END};

unsigned ct_cuda_snap_ebpi(const ct_ebpi_snap_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(snap_vertices, grid, stream, *tables);
}

unsigned ct_cuda_count_faces(const ct_ebpi_list_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(count_faces, grid, stream, *tables);
}

unsigned ct_cuda_write_faces(const ct_ebpi_list_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(write_faces, grid, stream, *tables);
}

unsigned ct_cuda_count_parts(const ct_ebpi_cut_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(count_parts, grid, stream, *tables);
}

unsigned ct_cuda_write_parts(const ct_ebpi_cut_tables *tables, unsigned grid, cudaStream_t stream) {
    return CT_LAUNCH(write_parts, grid, stream, *tables);
}
