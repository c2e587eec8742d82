/* compact_scalar.inl - moments, entries and barycentre of a group, one vertex after the other; for compact_cpu.simd.c
 * without AVX2. compact_avx2.inl has the same functions. */

/* ---- moments ---- */

struct moments_block {
    ct_moments sum;
    size_t n; /* vertices */
};

static inline void reserve_moments(struct moments_block *block, ct_moments *to, size_t groups) {
    (void)block, (void)to, (void)groups; /* 128-bit sums do not overflow */
}

static inline void add_group(struct moments_block *block, ct_moments *to, const struct body_sums *sums,
                             const ct_coords *coords, size_t vertex) {
    (void)to;
    int64_t of_vertex[3];
    for (size_t v = vertex; v < vertex + CT_VERTEX_GROUP; v++) {
        if (!load_sums(sums, v, of_vertex)) continue;
        ct_moments_add(&block->sum, coords[v], of_vertex);
        block->n++;
    }
}

/* Returns the number of vertices whose sums are not zero. */
static inline size_t end_moments(struct moments_block *block, ct_moments *to) {
    ct_moments_join(to, &block->sum);
    return block->n;
}

/* ---- entries and barycentre ---- */

struct barycentre_block {
    ct_barycentre sum;
};

static inline void reserve_barycentre(struct barycentre_block *block, ct_barycentre *to, size_t groups) {
    (void)block, (void)to, (void)groups;
}

static inline void write_group_entries(struct barycentre_block *block, struct entry_writer *writer, size_t vertex) {
    const ct_entry_arrays *arrays = &writer->arrays;
    const ct_entry_scaling *scaling = writer->scaling;
    int64_t of_vertex[3];
    for (size_t v = vertex; v < vertex + CT_VERTEX_GROUP; v++) {
        if (!load_sums(&writer->sums, v, of_vertex)) continue;
        ct_barycentre_add(&block->sum, scaling->contact, scaling->has_normal, scaling->barycentre_scale,
                          &scaling->units, writer->coords[v], of_vertex);
        if (!arrays->vertices) continue;
        const size_t at = writer->at++;
        double g[3];
        ct_frame_gradient(&scaling->units, of_vertex, g);
        arrays->vertices[at] = (uint32_t)v;
        if (arrays->gradient) memcpy(arrays->gradient + 3 * at, g, sizeof g);
        if (arrays->weights) arrays->weights[at] = ct_frame_friction(scaling->contact, g);
        for (int k = 0; k < 3 && arrays->forces; k++) arrays->forces[3 * at + (size_t)k] = scaling->pressure * g[k];
    }
    clear_group(&writer->sums, vertex);
}

static inline void end_barycentre(struct barycentre_block *block, ct_barycentre *to) {
    ct_barycentre_join(to, &block->sum);
}
