// codec_decode.hpp - from verified FlatBuffers tables to the structs of codec.h, with every check of meaning. Only for
// codec.cpp, which has verified the offsets before.
#ifndef CONTACTD_CODEC_DECODE_HPP
#define CONTACTD_CODEC_DECODE_HPP

#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "proto/codec_memory.hpp"

namespace {

enum : unsigned { F32 = 1u << WIRE_F32, F64 = 1u << WIRE_F64, U32 = 1u << WIRE_U32, U8 = 1u << WIRE_U8, U64 = 1u << WIRE_U64 };

const double no_numbers[3] = {NAN, NAN, NAN};
#include "proto/contact_codec.inc"

struct Decoder {
    const wire_frame *frames;
    size_t n_frames;
    wire_scratch *scratch;
    wire_fault *fault;
    const char *list; // the vector whose element is being read, or NULL; for messages
    size_t index;

    __attribute__((format(printf, 4, 5))) bool fail(contactd_code code, const char *field, const char *format, ...) {
        fault->code = code;
        if (list)
            snprintf(fault->field, sizeof fault->field, "%s[%zu]%s%s", list, index, *field ? "." : "", field);
        else
            snprintf(fault->field, sizeof fault->field, "%s", field);
        va_list args;
        va_start(args, format);
        vsnprintf(fault->message, sizeof fault->message, format, args);
        va_end(args);
        return false;
    }

    bool text(const flatbuffers::String *in, const char *field, const char **out) {
        *out = in ? in->c_str() : "";
        if (in && !wire_is_utf8(in->c_str(), in->size()))
            return fail(CONTACTD_MALFORMED, field, "%s is not UTF-8 text without NUL", field);
        return true;
    }

    // A vector of exactly n numbers; where absent, `absent` (or zeros if that is NULL).
    bool numbers(const flatbuffers::Vector<double> *in, const char *field, size_t n, const double *absent,
                 double *out) {
        if (in && in->size() != n)
            return fail(CONTACTD_WRONG_LENGTH, field, "%s has %u numbers, expected %zu", field, in->size(), n);
        const void *from = in ? static_cast<const void *>(in->Data()) : absent;
        if (from)
            memcpy(out, from, n * sizeof *out);
        else
            memset(out, 0, n * sizeof *out);
        return true;
    }

    // dtypes: bits of the types allowed; columns: numbers per row.
    bool array(const fb::Array *in, const char *field, unsigned dtypes, unsigned columns, wire_array *out) {
        *out = wire_array{};
        if (!in || in->dtype() == fb::DType_None) return true;
        unsigned dtype = in->dtype();
        if (dtype > WIRE_U64 || !(dtypes >> dtype & 1))
            return fail(CONTACTD_MALFORMED, field, "%s has numbers of type %u, expected%s%s%s%s%s", field, dtype,
                        dtypes & F32 ? " F32 (1)" : "", dtypes & F64 ? " or F64 (2)" : "",
                        dtypes & U32 ? " U32 (3)" : "", dtypes & U8 ? " U8 (4)" : "",
                        dtypes & U64 ? " U64 (5)" : "");
        const void *data;
        size_t size;
        if (in->frame()) {
            if (in->frame() >= n_frames)
                return fail(CONTACTD_MALFORMED, field, "%s refers to frame %u of a message with %zu array frames",
                            field, in->frame(), n_frames - 1);
            if (in->bytes())
                return fail(CONTACTD_MALFORMED, field, "%s is both inline and in frame %u", field, in->frame());
            data = frames[in->frame()].data;
            size = frames[in->frame()].size;
        } else {
            data = in->bytes() ? in->bytes()->Data() : nullptr;
            size = in->bytes() ? in->bytes()->size() : 0;
        }
        size_t each = wire_dtype_size(wire_dtype(dtype));
        if (size % each || in->count() != size / each)
            return fail(CONTACTD_WRONG_LENGTH, field, "%s has %zu bytes, expected %llu numbers of %zu bytes each",
                        field, size, static_cast<unsigned long long>(in->count()), each);
        if (in->count() % columns)
            return fail(CONTACTD_WRONG_LENGTH, field, "%s has %llu numbers, expected a multiple of %u", field,
                        static_cast<unsigned long long>(in->count()), columns);
        out->dtype = wire_dtype(dtype);
        out->count = in->count();
        out->data = size ? data : "";
        return true;
    }

    // Room for the elements of a decoded vector.
    template <class T> T *items(size_t n, const char *name, WireBuffer &buffer) {
        if (scratch->limit && n > scratch->limit / sizeof(T)) {
            fail(CONTACTD_TOO_LARGE, name, "%s has %zu elements, more than a message of this size can hold", name, n);
            return nullptr;
        }
        if (buffer.reserve(n * sizeof(T))) return static_cast<T *>(buffer.data);
        fail(CONTACTD_OUT_OF_MEMORY, "", "no memory for %zu elements", n);
        return nullptr;
    }

    bool require(bool present, const char *field) {
        return present || fail(CONTACTD_MALFORMED, field, "%s is missing", field);
    }

    // Absent: -1, and of a method 0.
    static int64_t integer(const flatbuffers::Table *in, const ct_setting_row &row) {
        const auto field = field_of(row.id);
        if (&row == &ct_setting_rows[CT_SETTING_METHOD]) {
            const int64_t method = in->GetField<uint8_t>(field, 0);
            return method ? method : -1;
        }
        return row.type == CT_SETTING_IS_U64   ? in->GetField<int64_t>(field, -1)
               : row.type == CT_SETTING_IS_U32 ? in->GetField<int32_t>(field, -1)
                                               : in->GetField<int8_t>(field, -1);
    }

    bool setting(const flatbuffers::Table *in, const ct_setting_row &row, ct_scene_settings *out) {
        if (row.type == CT_SETTING_IS_F64) {
            ct_setting_set_number(&row, out, in->GetField<double>(field_of(row.id), -1));
            return true;
        }
        if (row.type == CT_SETTING_IS_U32X3) {
            const auto *three = in->GetPointer<const flatbuffers::Vector<uint32_t> *>(field_of(row.id));
            if (!three) return true;
            if (three->size() != 1 && three->size() != 3)
                return fail(CONTACTD_WRONG_LENGTH, row.name, "%s has %u numbers, expected 1 or 3", row.name,
                            three->size());
            for (unsigned i = 0; i < 3; i++)
                ct_setting_set_integer(&row, out, int(i), three->Get(three->size() == 3 ? i : 0));
            return true;
        }
        const int64_t value = integer(in, row);
        const bool is_word = row.type == CT_SETTING_IS_FLAG || row.type == CT_SETTING_IS_CHOICE;
        ct_setting_set_integer(&row, out, 0, value);
        if (value == -1 || (value >= 0 && !is_word) || &row == &ct_setting_rows[CT_SETTING_METHOD]) return true;
        char expected[400], ignored[512];
        if (value >= 0 && ct_setting_check(&row, out, ignored, sizeof ignored) == CONTACTD_OK) return true;
        ct_setting_expected(&row, true, expected, sizeof expected);
        return fail(CONTACTD_OUT_OF_RANGE, row.name, "%s is %lld, expected %s, or -1 for none", row.name,
                    static_cast<long long>(value), expected);
    }

    bool settings(const fb::Settings *in, wire_settings *out) {
        ct_scene_settings partial;
        ct_settings_leave_out(&partial);
        const auto *own = reinterpret_cast<const flatbuffers::Table *>(in);
        const auto *voxels = in ? reinterpret_cast<const flatbuffers::Table *>(in->voxels()) : nullptr;
        for (const ct_setting_row &row : ct_setting_rows) {
            const auto *table = row.is_voxels ? voxels : own;
            if (table && !setting(table, row, &partial)) return false;
        }
        *out = ct_settings_given(&partial);
        return true;
    }

    bool closing(fb::MeshClosing in, wire_mesh_closing *out) {
        if (in > fb::MeshClosing_MAX)
            return fail(CONTACTD_UNSUPPORTED, "closing", "closing %u is not known here", unsigned(in));
        *out = wire_mesh_closing(in);
        return true;
    }

    bool mesh_info(const fb::MeshInfo *in, wire_mesh_info *out) {
        out->mesh = in->mesh();
        out->vertices = in->vertices();
        out->triangles = in->triangles();
        out->bytes = in->bytes();
        out->volume = in->volume();
        out->area = in->area();
        out->bodies = in->bodies();
        out->existed = in->existed();
        out->closing_vertices = in->closing_vertices();
        out->shells = in->shells();
        out->doubled_shells = in->doubled_shells();
        out->moved = in->moved();
        out->deviation = in->deviation();
        out->closed_as = in->closed_as();
        out->uneven_polygons = in->uneven_polygons();
        out->unevenness = in->unevenness();
        out->self_overlap = in->repair() ? in->self_overlap() : 0;
        if (!closing(in->closing(), &out->closing)) return false;
        if (!numbers(in->center_of_mass(), "center_of_mass", 3, nullptr, out->center_of_mass) ||
            !numbers(in->inertia(), "inertia", 9, nullptr, out->inertia))
            return false;
        out->repair = nullptr;
        out->n_repair = 0;
        if (in->repair()) {
            const uint32_t n = in->repair()->size();
            if (n < WIRE_REPAIR_COUNTS || n > WIRE_REPAIR_COUNTS + WIRE_REPAIR_ROW * WIRE_REPAIR_ROWS ||
                (n - WIRE_REPAIR_COUNTS) % WIRE_REPAIR_ROW != 0)
                return fail(CONTACTD_WRONG_LENGTH, "repair",
                            "repair has %u numbers, expected %d and %d for each change", n, WIRE_REPAIR_COUNTS,
                            WIRE_REPAIR_ROW);
            out->repair = in->repair()->data();
            out->n_repair = n;
        }
        return text(in->hash(), "hash", &out->hash) && text(in->name(), "name", &out->name) &&
               numbers(in->lo(), "lo", 3, nullptr, out->lo) && numbers(in->hi(), "hi", 3, nullptr, out->hi);
    }

    bool scene_info(const fb::SceneInfo *in, wire_scene_info *out) {
        out->scene = in->scene();
        out->bodies = in->bodies();
        out->bytes = in->bytes();
        out->steps = in->steps();
        out->contacts = in->contacts();
        out->mine = in->mine();
        out->revision = in->revision();
        set_number(&out->running_method, in->running_method());
        return text(in->name(), "name", &out->name) && text(in->owner(), "owner", &out->owner) &&
               settings(in->settings(), &out->settings);
    }

    bool update(const fb::BodyUpdate *in, wire_update *out) {
        out->body = in->body();
        unsigned kind = in->kind();
        if (kind == WIRE_UPDATE_NONE || kind > WIRE_UPDATE_POSE)
            return fail(CONTACTD_MALFORMED, "kind", "kind is %u, expected 1 (positions) to 4 (pose)", kind);
        out->kind = wire_update_kind(kind);
        if (!array(in->positions(), "positions", F32 | F64, 3, &out->positions) ||
            !array(in->indices(), "indices", U32, kind == WIRE_UPDATE_RANGES ? 2 : 1, &out->indices) ||
            !numbers(in->pose(), "pose", 12, identity, out->pose))
            return false;
        bool pose = kind == WIRE_UPDATE_POSE, indices = kind == WIRE_UPDATE_RANGES || kind == WIRE_UPDATE_INDEXED;
        const char *const names[] = {"", "positions", "ranges", "indexed", "pose"};
        const struct {
            const char *field;
            bool given, wanted;
        } parts[] = {{"pose", in->pose() != nullptr, pose},
                     {"positions", out->positions.dtype != WIRE_NONE, !pose},
                     {"indices", out->indices.dtype != WIRE_NONE, indices}};
        for (const auto &part : parts)
            if (part.given != part.wanted)
                return fail(CONTACTD_MALFORMED, part.field, "%s %s in an update of kind %u (%s)", part.field,
                            part.given ? "has no place" : "is missing", kind, names[kind]);
        if (kind == WIRE_UPDATE_INDEXED && out->indices.count != out->positions.count / 3)
            return fail(CONTACTD_WRONG_LENGTH, "indices",
                        "indices has %llu numbers, expected one for each of %llu positions",
                        static_cast<unsigned long long>(out->indices.count),
                        static_cast<unsigned long long>(out->positions.count / 3));
        return true;
    }

    // Where elements of a contact lie in the answer.
    struct Counts {
        uint64_t entries, spans, products, points, cells, polygons;
    };

    // given: loses the groups that the contact lacks.
    bool contact(const fb::Contact *in, const Counts &n, ct_contact *out, unsigned *given) {
        unsigned groups = 0;
        if (!decode_contact(*this, in, n, *out, &groups)) return false;
        *given &= groups;
        return true;
    }
    static bool symmetric(const double parts[6], double out[3][3]) {
        for (int k = 0; k < 3; k++) {
            out[k][k] = parts[k];
            out[k][(k + 1) % 3] = out[(k + 1) % 3][k] = parts[3 + k];
        }
        return true;
    }
    bool whole_numbers(const flatbuffers::Vector<int32_t> *in, const char *field, unsigned n, int32_t *out) {
        if (in && in->size() != n)
            return fail(CONTACTD_WRONG_LENGTH, field, "%s has %u numbers, expected %u", field, in->size(), n);
        for (unsigned k = 0; k < n; k++) out[k] = in ? in->Get(k) : 0;
        return true;
    }
    bool within(uint64_t first, uint64_t count, uint64_t n, const char *field, const char *what) {
        typedef unsigned long long ull;
        if (first <= n && count <= n - first) return true;
        return fail(CONTACTD_WRONG_LENGTH, field, "%s: %llu entries from %llu on, but there are %llu %s", field,
                    ull(count), ull(first), ull(n), what);
    }

    // Every element of a vector of tables, each with its place in messages.
    template <class In, class Out, class Read>
    bool each(const flatbuffers::Vector<Offset<In>> *in, const char *name, const Out **out, uint32_t *n, Read read) {
        return each(in, name, out, n, read, scratch->items);
    }
    template <class In, class Out, class Read>
    bool each(const flatbuffers::Vector<Offset<In>> *in, const char *name, const Out **out, uint32_t *n, Read read,
              WireBuffer &buffer) {
        *n = in ? in->size() : 0;
        *out = nullptr;
        if (*n == 0) return true;
        Out *to = items<Out>(*n, name, buffer);
        if (!to) return false;
        list = name;
        for (index = 0; index < *n; index++)
            if (!read(in->Get(static_cast<flatbuffers::uoffset_t>(index)), to + index)) return false;
        list = nullptr;
        *out = to;
        return true;
    }

    bool direction(const fb::Direction *in, wire_direction *out) {
        out->body = in->body();
        out->index = in->index();
        out->has_twist = in->twist() != nullptr;
        if (!array(in->values(), "values", F32 | F64, 3, &out->values) ||
            !numbers(in->twist(), "twist", 6, nullptr, out->twist))
            return false;
        if (out->has_twist != (out->values.dtype != WIRE_NONE)) return true;
        return fail(CONTACTD_MALFORMED, "values", "it has %s values %s a twist, expected one of them",
                    out->has_twist ? "both" : "neither", out->has_twist ? "and" : "nor");
    }

    bool step(const fb::Step *in, wire_step *out) {
        out->scene = in->scene();
        out->sequence = in->sequence();
        out->want = in->want();
        out->deadline_us = in->deadline_us();
        out->time_budget_us = in->time_budget_us();
        out->tolerance = in->tolerance();
        out->viscosity = in->viscosity();
        out->received = in->received();
        return each(in->updates(), "updates", &out->updates, &out->n_updates,
                    [this](const fb::BodyUpdate *u, wire_update *o) { return update(u, o); }) &&
               each(
                   in->directions(), "directions", &out->directions, &out->n_directions,
                   [this](const fb::Direction *d, wire_direction *o) { return direction(d, o); }, scratch->others) &&
               each(
                   in->velocities(), "velocities", &out->velocities, &out->n_velocities,
                   [this](const fb::Direction *d, wire_direction *o) { return direction(d, o); }, scratch->velocities);
    }

    // As listed; `rows` or `soft` tells how many there are of each scene.
    static bool bodies(const flatbuffers::Vector<uint32_t> *in, wire_bodies *out) {
        *out = wire_bodies{in ? in->data() : nullptr, in ? in->size() : 0, false};
        return true;
    }

    // The rows tell how many bodies of each scene there are: they are listed once, or for each scene.
    bool rows(const wire_array &array, const char *field, const char *list_name, uint64_t numbers, uint32_t m,
              wire_bodies *out) {
        typedef unsigned long long ull;
        const uint32_t listed = out->n;
        const bool once = array.count == uint64_t(m) * listed * numbers, by_scene = array.count == listed * numbers;
        if (once) return true;
        out->by_scene = by_scene && m && listed % m == 0;
        out->n = out->by_scene ? listed / m : 0;
        if (out->by_scene) return true;
        return fail(CONTACTD_WRONG_LENGTH, field, "%s has %llu numbers, expected %llu for each of the %u bodies of %s in each of "
                    "%u scenes", field, ull(array.count), ull(numbers), listed, list_name, m);
    }

    bool soft(const fb::StepMany *in, wire_step_many *out) {
        typedef unsigned long long ull;
        const uint32_t n = in->vertices() ? in->vertices()->size() : 0;
        uint64_t sum = 0;
        out->vertices = in->vertices() ? in->vertices()->data() : nullptr;
        if (out->soft.n != n && out->soft.n != uint64_t(n) * out->n)
            return fail(CONTACTD_WRONG_LENGTH, "soft", "soft has %u bodies, expected %u, as vertices has, or as many for each of "
                        "%u scenes", out->soft.n, n, out->n);
        out->soft.by_scene = out->soft.n != n;
        out->soft.n = n;
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t v = in->vertices()->Get(i);
            if (v < WIRE_LEAST_VERTICES || v > out->positions.count)
                return fail(CONTACTD_OUT_OF_RANGE, "vertices", "a body has %llu vertices of %llu positions, expected %d or more",
                            ull(v), ull(out->positions.count / 3), WIRE_LEAST_VERTICES);
            sum += v;
            if (sum > out->positions.count) break; /* so that the product below is no more than there can be */
        }
        if (out->positions.count == sum * 3 * out->n) return true;
        return fail(CONTACTD_WRONG_LENGTH, "positions", "positions has %llu numbers, expected 3 for each of %llu vertices in each "
                    "of %u scenes", ull(out->positions.count), ull(sum), out->n);
    }

    bool step_many(const fb::StepMany *in, wire_step_many *out) {
        const uint32_t n = in->scenes() ? in->scenes()->size() : 0, numbers = in->sequences() ? in->sequences()->size() : 0;
        if (n > WIRE_MOST_SCENES)
            return fail(CONTACTD_TOO_LARGE, "scenes", "scenes has %u scenes, at most %d are allowed: send the rest in another "
                        "message", n, WIRE_MOST_SCENES);
        if (n != numbers)
            return fail(CONTACTD_WRONG_LENGTH, "sequences", "sequences has %u numbers, expected %u, one for each scene", numbers, n);
        out->n = n;
        out->scenes = n ? in->scenes()->data() : nullptr;
        out->sequences = n ? in->sequences()->data() : nullptr;
        out->want = in->want();
        out->deadline_us = in->deadline_us();
        return bodies(in->posed(), &out->posed) && bodies(in->moving(), &out->moving) && bodies(in->soft(), &out->soft) &&
               array(in->poses(), "poses", F64, 12, &out->poses) && array(in->twists(), "twists", F64, 6, &out->twists) &&
               array(in->positions(), "positions", F32 | F64, 3, &out->positions) &&
               rows(out->poses, "poses", "posed", 12, n, &out->posed) &&
               rows(out->twists, "twists", "moving", 6, n, &out->moving) && soft(in, out);
    }

    bool many_error(const fb::ManyError *in, uint32_t n, wire_many_error *out) {
        out->index = in->index();
        out->is_answer = in->is_answer();
        if (out->index >= n)
            return fail(CONTACTD_OUT_OF_RANGE, "index", "index is %u, and there are %u scenes", out->index, n);
        return require(in->error(), "error") && error(in->error(), &out->error);
    }

    bool column(const fb::Column *in, uint64_t contacts, uint64_t bytes, wire_column *out) {
        const unsigned dtype = in->dtype();
        *out = wire_column{in->field(), wire_dtype(dtype), in->width(), in->offset()};
        if (dtype != WIRE_F64 && dtype != WIRE_U32 && dtype != WIRE_U8 && dtype != WIRE_U64)
            return fail(CONTACTD_MALFORMED, "dtype", "dtype is %u, expected F64 (2), U32 (3), U8 (4) or U64 (5)", dtype);
        const uint64_t each = wire_dtype_size(out->dtype) * uint64_t(out->width);
        if (out->offset % 8 == 0 && out->offset <= bytes && (each == 0 || contacts <= (bytes - out->offset) / each)) return true;
        return fail(CONTACTD_WRONG_LENGTH, "offset", "offset: %llu contacts of %u numbers from byte %llu on, but there are %llu bytes",
                    static_cast<unsigned long long>(contacts), out->width, static_cast<unsigned long long>(out->offset),
                    static_cast<unsigned long long>(bytes));
    }

    bool many_result(const fb::ManyResult *in, wire_many_result *out) {
        const uint32_t n = in->counts() ? in->counts()->size() : 0, ended = in->ended() ? in->ended()->size() : 0;
        uint64_t contacts = 0;
        out->n = n;
        out->counts = n ? in->counts()->data() : nullptr;
        out->ended = n && in->ended() ? in->ended()->data() : nullptr;
        for (uint32_t i = 0; i < n; i++) contacts += out->counts[i];
        if (n != ended)
            return fail(CONTACTD_WRONG_LENGTH, "ended", "ended has %u numbers, expected %u, one for each scene", ended, n);
        return array(in->data(), "data", U8, 1, &out->data) &&
               each(in->columns(), "columns", &out->columns, &out->n_columns,
                    [&](const fb::Column *c, wire_column *o) { return column(c, contacts, out->data.count, o); }) &&
               each(
                   in->errors(), "errors", &out->errors, &out->n_errors,
                   [&](const fb::ManyError *e, wire_many_error *o) { return many_error(e, n, o); }, scratch->others);
    }

    static bool warning(const fb::Warning *in, wire_warning *out) {
        set_number(&out->code, in->code());
        out->body = in->body();
        out->value = in->value();
        return true;
    }

    // Polygons have vertices one after the other, and all there are.
    bool surface(const wire_step_result &r, uint64_t n) {
        typedef unsigned long long ull;
        const bool given = r.surface_polygons.dtype != WIRE_NONE;
        if (given != (r.surface_offsets.dtype != WIRE_NONE) || given != (r.surface_vertices.dtype != WIRE_NONE))
            return fail(CONTACTD_MALFORMED, "surface_polygons",
                        "surface_polygons, surface_offsets and surface_vertices are not all given");
        if (!given) return true;
        if (r.surface_offsets.count != n + 1)
            return fail(CONTACTD_WRONG_LENGTH, "surface_offsets", "surface_offsets has %llu rows, expected %llu",
                        ull(r.surface_offsets.count), ull(n + 1));
        uint64_t last = 0;
        for (uint64_t i = 0; i <= n; i++) {
            uint32_t offset;
            memcpy(&offset, static_cast<const char *>(r.surface_offsets.data) + 4 * i, sizeof offset);
            if (offset < last || (i == 0 && offset != 0))
                return fail(CONTACTD_MALFORMED, "surface_offsets", "surface_offsets[%llu] is %u, expected at least %llu",
                            ull(i), offset, ull(last));
            last = offset;
        }
        const uint64_t vertices = r.surface_vertices.count / WIRE_POLYGON_VERTEX;
        if (last == vertices) return true;
        return fail(CONTACTD_WRONG_LENGTH, "surface_vertices", "surface_vertices has %llu rows, expected %llu",
                    ull(vertices), ull(last));
    }

    bool step_result(const fb::StepResult *in, wire_step_result *out) {
        out->scene = in->scene();
        out->sequence = in->sequence();
        set_number(&out->method, in->method());
        out->pairs = in->pairs();
        out->rays = in->rays();
        out->fragments = in->fragments();
        out->cached = in->cached();
        out->revision = in->revision();
        out->quality = in->quality();
        if (!settings(in->settings(), &out->settings)) return false;
        set_number(&out->ended, in->ended());
        out->passes = in->passes();
        if (!array(in->vertices(), "vertices", U32, 1, &out->vertices) ||
            !array(in->gradient(), "gradient", F64, 3, &out->gradient) ||
            !array(in->weights(), "weights", F64, 1, &out->weights) ||
            !array(in->forces(), "forces", F64, 3, &out->forces) || !array(in->spans(), "spans", F32, 6, &out->spans) ||
            !array(in->span_axes(), "span_axes", U8, 1, &out->span_axes) ||
            !array(in->product_vertices(), "product_vertices", U32, 1, &out->product_vertices) ||
            !array(in->products(), "products", F64, 3, &out->products) ||
            !array(in->generalized_products(), "generalized_products", F64, 12, &out->generalized_products) ||
            !array(in->friction_forces(), "friction_forces", F64, 3, &out->friction_forces) ||
            !array(in->points(), "points", F64, WIRE_POINT, &out->points) ||
            !array(in->point_groups(), "point_groups", U32, 2, &out->point_groups) ||
            !array(in->progress(), "progress", U32, WIRE_PROGRESS, &out->progress) ||
            !array(in->separations(), "separations", F64, WIRE_SEPARATION, &out->separations) ||
            !array(in->surface_polygons(), "surface_polygons", F64, WIRE_POLYGON, &out->surface_polygons) ||
            !array(in->surface_offsets(), "surface_offsets", U32, 1, &out->surface_offsets) ||
            !array(in->surface_vertices(), "surface_vertices", F64, WIRE_POLYGON_VERTEX, &out->surface_vertices) ||
            !array(in->point_ids(), "point_ids", U64, 1, &out->point_ids) ||
            !array(in->ended_ids(), "ended_ids", U64, 1, &out->ended_ids) ||
            !text(in->backend(), "backend", &out->backend) ||
            !numbers(in->timings_us(), "timings_us", WIRE_TIMINGS, nullptr, out->timings_us) ||
            !numbers(in->wall_us(), "wall_us", WIRE_TIMINGS, nullptr, out->wall_us))
            return false;
        out->has_wall = in->wall_us() != nullptr;
        uint64_t n = out->vertices.count, s = out->spans.count / 6, p = out->product_vertices.count;
        uint64_t points = out->points.count / WIRE_POINT, polygons = out->surface_polygons.count / WIRE_POLYGON;
        if (!surface(*out, polygons)) return false;
        uint64_t contacts = in->contacts() ? in->contacts()->size() : 0;
        out->directions = in->directions();
        const struct {
            const char *field;
            const wire_array &array;
            uint64_t rows;
            unsigned columns;
        } sparse[] = {{"gradient", out->gradient, n, 3},
                      {"weights", out->weights, n, 1},
                      {"forces", out->forces, n, 3},
                      {"friction_forces", out->friction_forces, n, 3},
                      {"span_axes", out->span_axes, s, 1},
                      {"point_groups", out->point_groups, points, 2},
                      {"point_ids", out->point_ids, points, 1},
                      {"products", out->products, p * out->directions, 3},
                      {"generalized_products", out->generalized_products, contacts * out->directions, 12}};
        for (const auto &a : sparse)
            if (a.array.dtype != WIRE_NONE && a.array.count / a.columns != a.rows)
                return fail(CONTACTD_WRONG_LENGTH, a.field, "%s has %llu rows, expected %llu", a.field,
                            static_cast<unsigned long long>(a.array.count / a.columns),
                            static_cast<unsigned long long>(a.rows));
        const Counts counts = {n, s, p, points, in->cells() ? in->cells()->size() : 0, polygons},
                     of_cell = {n, 0, 0, 0, 0, 0};
        unsigned given = contacts ? ~0u : 0, ignored = 0;
        if (!each(in->contacts(), "contacts", &out->contacts, &out->n_contacts,
                  [&](const fb::Contact *c, ct_contact *o) { return contact(c, counts, o, &given); }))
            return false;
        out->groups = given;
        return each(
                   in->cells(), "cells", &out->cells, &out->n_cells,
                   [&](const fb::Contact *c, ct_contact *o) { return contact(c, of_cell, o, &ignored); },
                   scratch->velocities) &&
               each(in->warnings(), "warnings", &out->warnings, &out->n_warnings, warning, scratch->others);
    }

    bool device(const fb::Device *in, wire_device *out) {
        out->scenes = in->scenes();
        out->triangles = in->triangles();
        out->memory_budget = in->memory_budget();
        out->memory_used = in->memory_used();
        out->memory_meshes = in->memory_meshes();
        out->memory_bodies = in->memory_bodies();
        out->scratch_bytes = in->scratch_bytes();
        out->scratch_peak = in->scratch_peak();
        out->uploaded = in->uploaded();
        out->downloaded = in->downloaded();
        out->launches = in->launches();
        out->lost = in->lost();
        return text(in->device(), "device", &out->device) && text(in->lost_reason(), "lost_reason", &out->lost_reason);
    }

    bool get_snapshot(const fb::GetSnapshot *in, wire_get_snapshot *out) {
        out->scene = in->scene();
        out->width = in->width();
        out->height = in->height();
        out->show = in->show();
        out->resolution = in->resolution();
        out->azimuth = in->azimuth();
        out->elevation = in->elevation();
        out->zoom = in->zoom();
        out->field_of_view = in->field_of_view();
        out->opacity = in->opacity();
        out->contact[0] = out->contact[1] = 0;
        if (const auto *contact = in->contact()) {
            if (contact->size() != 2)
                return fail(CONTACTD_WRONG_LENGTH, "contact", "contact has %u numbers, expected 2", contact->size());
            for (unsigned i = 0; i < 2; i++) out->contact[i] = contact->Get(i);
        }
        out->has_up = in->up() != nullptr;
        out->has_eye = in->eye() != nullptr;
        out->has_target = in->target() != nullptr;
        out->has_background = in->background() != nullptr;
        return numbers(in->up(), "up", 3, nullptr, out->up) && numbers(in->eye(), "eye", 3, nullptr, out->eye) &&
               numbers(in->target(), "target", 3, nullptr, out->target) &&
               numbers(in->background(), "background", 4, nullptr, out->background);
    }

    bool snapshot(const fb::Snapshot *in, wire_snapshot *out) {
        out->scene = in->scene();
        out->width = in->width();
        out->height = in->height();
        return array(in->png(), "png", U8, 1, &out->png);
    }

    typedef flatbuffers::Vector<Offset<flatbuffers::String>> Strings;
    bool methods(const Strings *in, const char *out[WIRE_METHODS], uint32_t *n) {
        for (unsigned i = 0; in && i < in->size() && *n < WIRE_METHODS; i++)
            if (!text(in->Get(i), "methods", &out[(*n)++])) return false;
        return true;
    }

    bool status(const fb::Status *in, wire_status *out) {
        out->threads = in->threads();
        out->ready = in->ready();
        out->epoch = in->epoch();
        out->uptime_s = in->uptime_s();
        out->sessions = in->sessions();
        out->scenes = in->scenes();
        out->meshes = in->meshes();
        out->bodies = in->bodies();
        out->mesh_bytes = in->mesh_bytes();
        out->mesh_bytes_limit = in->mesh_bytes_limit();
        out->scene_bytes = in->scene_bytes();
        out->scratch_bytes = in->scratch_bytes();
        out->queue_depth = in->queue_depth();
        out->queue_capacity = in->queue_capacity();
        out->steps = in->steps();
        out->contacts = in->contacts();
        out->max_resolution = in->max_resolution();
        out->max_message_bytes = in->max_message_bytes();
        out->insecure = in->insecure();
        return text(in->server(), "server", &out->server) && text(in->backend(), "backend", &out->backend) &&
               text(in->rasterizer(), "rasterizer", &out->rasterizer) && text(in->device(), "device", &out->device) &&
               text(in->simd(), "simd", &out->simd) && text(in->ready_reason(), "ready_reason", &out->ready_reason) &&
               methods(in->methods(), out->methods, &out->n_methods) &&
               text(in->auto_method(), "auto_method", &out->auto_method) &&
               each(in->devices(), "devices", &out->devices, &out->n_devices,
                    [this](const fb::Device *d, wire_device *o) { return device(d, o); });
    }

    bool welcome(const fb::Welcome *in, wire_welcome *out) {
        out->version = in->version();
        out->epoch = in->epoch();
        out->session = in->session();
        out->lease_ms = in->lease_ms();
        out->max_message_bytes = in->max_message_bytes();
        out->max_triangles = in->max_triangles();
        out->max_vertices = in->max_vertices();
        out->max_resolution = in->max_resolution();
        out->max_in_flight = in->max_in_flight();
        out->last_message = in->last_message();
        return methods(in->methods(), out->methods, &out->n_methods) && text(in->server(), "server", &out->server) &&
               text(in->backend(), "backend", &out->backend) &&
               text(in->rasterizer(), "rasterizer", &out->rasterizer) && text(in->device(), "device", &out->device) &&
               text(in->successors(), "successors", &out->successors);
    }

    bool error(const fb::Error *in, wire_error *out) {
        set_number(&out->code, in->code());
        out->retry = in->retry();
        out->retry_after_ms = in->retry_after_ms();
        return text(in->object(), "object", &out->object) && text(in->field(), "field", &out->field) &&
               text(in->message(), "message", &out->message) && text(in->successors(), "successors", &out->successors);
    }

    bool register_mesh(const fb::RegisterMesh *in, wire_register_mesh *out) {
        if (in->format() > fb::MeshFormat_MAX)
            return fail(CONTACTD_UNSUPPORTED, "format", "format %u is not known here", unsigned(in->format()));
        out->format = wire_mesh_format(in->format());
        out->repair = in->repair();
        out->max_hole = in->max_hole();
        out->scale = in->scale();
        out->weld = in->weld();
        out->resolution = in->resolution();
        if (!closing(in->closing(), &out->closing)) return false;
        if (!numbers(in->open_direction(), "open_direction", 3, nullptr, out->open_direction) ||
            !array(in->vertices(), "vertices", F32 | F64, 3, &out->vertices) ||
            !array(in->triangles(), "triangles", U32, 3, &out->triangles) ||
            !array(in->file(), "file", U8, 1, &out->file) || !text(in->name(), "name", &out->name))
            return false;
        if (out->file.dtype == WIRE_NONE)
            return require(out->vertices.dtype != WIRE_NONE, "vertices") &&
                   require(out->triangles.dtype != WIRE_NONE, "triangles");
        if (out->vertices.dtype != WIRE_NONE || out->triangles.dtype != WIRE_NONE)
            return fail(CONTACTD_MALFORMED, "file", "a mesh is either a file or vertices and triangles, not both");
        return true;
    }

    template <typename T> static ct_material material(const T *in) {
        return {in->modulus(), in->friction(), in->dissipation(), in->static_friction()};
    }

    bool add_body(const fb::AddBody *in, wire_add_body *out) {
        out->scene = in->scene();
        out->mesh = in->mesh();
        out->group = in->group();
        out->mask = in->mask();
        out->self_contact = in->self_contact();
        out->material = material(in);
        unsigned kind = in->kind();
        if (kind != WIRE_BODY_DEFORMABLE && kind != WIRE_BODY_RIGID && kind != WIRE_BODY_HALF_SPACE)
            return fail(CONTACTD_MALFORMED, "kind", "kind is %u, expected 1 (deformable), 2 (rigid) or 3 (half-space)",
                        kind);
        if (kind == WIRE_BODY_HALF_SPACE && in->mesh())
            return fail(CONTACTD_MALFORMED, "mesh", "a half-space has no mesh, but mesh is given: leave it out");
        out->kind = wire_body_kind(kind);
        if (const auto *ignore = in->ignore()) {
            out->n_ignore = ignore->size();
            out->ignore = out->n_ignore ? ignore->data() : nullptr; // aligned: the verifier checked
        }
        return numbers(in->pose(), "pose", 12, identity, out->pose) &&
               numbers(in->start(), "start", 12, out->pose, out->start);
    }

    template <typename T> static void take(const flatbuffers::Vector<T> *in, const T **out, uint32_t *n) {
        *n = in ? in->size() : 0;
        *out = *n ? in->data() : nullptr; // aligned: the verifier checked
    }

    bool add_bodies(const fb::AddBodies *in, wire_add_bodies *out) {
        uint32_t n;
        out->scene = in->scene();
        out->group = in->group();
        out->mask = in->mask();
        out->self_contact = in->self_contact();
        out->material = material(in);
        take(in->meshes(), &out->meshes, &out->n_meshes);
        take(in->poses(), &out->poses, &n);
        take(in->ignore(), &out->ignore, &out->n_ignore);
        out->n = n / 12;
        if (n % 12) return fail(CONTACTD_WRONG_LENGTH, "poses", "poses has %u numbers, expected 12 of each body", n);
        if (out->n > WIRE_MOST_BODIES)
            return fail(CONTACTD_TOO_LARGE, "poses",
                        "poses of %u bodies are given, at most %d are allowed: send the rest in another message", out->n,
                        WIRE_MOST_BODIES);
        return out->n_meshes == out->n || out->n_meshes == 1 ||
               fail(CONTACTD_WRONG_LENGTH, "meshes", "meshes has %u numbers, expected one, or one of each of %u bodies",
                    out->n_meshes, out->n);
    }

    bool scene_ids(const flatbuffers::Vector<uint64_t> *in, const char *field, const uint64_t **out, uint32_t *n) {
        *n = in ? in->size() : 0;
        *out = *n ? in->data() : nullptr;
        return *n <= WIRE_MOST_SCENES ||
               fail(CONTACTD_TOO_LARGE, field, "%s has %u numbers, at most %d are allowed: send the rest in another message",
                    field, *n, WIRE_MOST_SCENES);
    }

    bool scenes_opened(const fb::ScenesOpened *in, wire_scenes_opened *out) {
        out->revision = in->revision();
        set_number(&out->running_method, in->running_method());
        return require(in->settings(), "settings") && settings(in->settings(), &out->settings) &&
               scene_ids(in->scenes(), "scenes", &out->scenes, &out->n);
    }

    bool body(const fb::Message *m, wire_message *out) {
        auto &u = out->u;
        switch (out->type) {
        case WIRE_HELLO: {
            const auto *in = m->body_as_Hello();
            u.hello.version = in->version();
            u.hello.min_version = in->min_version();
            u.hello.lease_ms = in->lease_ms();
            return text(in->client(), "client", &u.hello.client);
        }
        case WIRE_WELCOME:
            return welcome(m->body_as_Welcome(), &u.welcome);
        case WIRE_PING:
            u.ping.nonce = m->body_as_Ping()->nonce();
            return true;
        case WIRE_PONG:
            u.pong.nonce = m->body_as_Pong()->nonce();
            return true;
        case WIRE_ERROR:
            return error(m->body_as_Error(), &u.error);
        case WIRE_REGISTER_MESH:
            return register_mesh(m->body_as_RegisterMesh(), &u.register_mesh);
        case WIRE_MESH_INFO:
            return mesh_info(m->body_as_MeshInfo(), &u.mesh_info);
        case WIRE_GET_MESH: {
            const auto *in = m->body_as_GetMesh();
            u.get_mesh.mesh = in->mesh();
            u.get_mesh.with_geometry = in->with_geometry();
            u.get_mesh.takes_doubles = in->takes_doubles();
            return text(in->hash(), "hash", &u.get_mesh.hash);
        }
        case WIRE_MESH_GEOMETRY: {
            const auto *in = m->body_as_MeshGeometry();
            return require(in->info(), "info") && mesh_info(in->info(), &u.mesh_geometry.info) &&
                   array(in->vertices(), "vertices", F32 | F64, 3, &u.mesh_geometry.vertices) &&
                   array(in->triangles(), "triangles", U32, 3, &u.mesh_geometry.triangles);
        }
        case WIRE_MESH_LIST:
            return each(m->body_as_MeshList()->meshes(), "meshes", &u.mesh_list.meshes, &u.mesh_list.n,
                        [this](const fb::MeshInfo *in, wire_mesh_info *o) { return mesh_info(in, o); });
        case WIRE_REMOVE_MESH: {
            u.remove_mesh.mesh = m->body_as_RemoveMesh()->mesh();
            return text(m->body_as_RemoveMesh()->hash(), "hash", &u.remove_mesh.hash);
        }
        case WIRE_OPEN_SCENE:
            u.open_scene.key = m->body_as_OpenScene()->key();
            u.open_scene.revision = m->body_as_OpenScene()->revision();
            return settings(m->body_as_OpenScene()->settings(), &u.open_scene.settings) &&
                   text(m->body_as_OpenScene()->name(), "name", &u.open_scene.name);
        case WIRE_SCENE_INFO:
            return scene_info(m->body_as_SceneInfo(), &u.scene_info);
        case WIRE_CONFIGURE:
            u.configure.scene = m->body_as_Configure()->scene();
            return settings(m->body_as_Configure()->settings(), &u.configure.settings);
        case WIRE_GET_SCENE:
            u.get_scene.scene = m->body_as_GetScene()->scene();
            return true;
        case WIRE_CLOSE_SCENE:
            u.close_scene.scene = m->body_as_CloseScene()->scene();
            u.close_scene.of_others = m->body_as_CloseScene()->of_others();
            return true;
        case WIRE_SCENE_LIST:
            return each(m->body_as_SceneList()->scenes(), "scenes", &u.scene_list.scenes, &u.scene_list.n,
                        [this](const fb::SceneInfo *in, wire_scene_info *o) { return scene_info(in, o); });
        case WIRE_ADD_BODY:
            return add_body(m->body_as_AddBody(), &u.add_body);
        case WIRE_ADD_BODIES:
            return add_bodies(m->body_as_AddBodies(), &u.add_bodies);
        case WIRE_BODIES_ADDED:
            u.bodies_added.scene = m->body_as_BodiesAdded()->scene();
            take(m->body_as_BodiesAdded()->bodies(), &u.bodies_added.bodies, &u.bodies_added.n);
            return true;
        case WIRE_BODY_ADDED:
            u.body_added.scene = m->body_as_BodyAdded()->scene();
            u.body_added.body = m->body_as_BodyAdded()->body();
            u.body_added.self_contact = m->body_as_BodyAdded()->self_contact();
            return true;
        case WIRE_REMOVE_BODY:
            u.remove_body.scene = m->body_as_RemoveBody()->scene();
            u.remove_body.body = m->body_as_RemoveBody()->body();
            return true;
        case WIRE_STEP:
            return step(m->body_as_Step(), &u.step);
        case WIRE_STEP_RESULT:
            return step_result(m->body_as_StepResult(), &u.step_result);
        case WIRE_STEP_MANY:
            return step_many(m->body_as_StepMany(), &u.step_many);
        case WIRE_MANY_RESULT:
            return many_result(m->body_as_ManyResult(), &u.many_result);
        case WIRE_CANCEL:
            u.cancel.request = m->body_as_Cancel()->request();
            return true;
        case WIRE_RESET_SCENES:
            return scene_ids(m->body_as_ResetScenes()->scenes(), "scenes", &u.reset_scenes.scenes, &u.reset_scenes.n);
        case WIRE_CLOSE_SCENES:
            return scene_ids(m->body_as_CloseScenes()->scenes(), "scenes", &u.close_scenes.scenes, &u.close_scenes.n);
        case WIRE_COPY_SCENE:
            u.copy_scene.scene = m->body_as_CopyScene()->scene();
            return scene_ids(m->body_as_CopyScene()->keys(), "keys", &u.copy_scene.keys, &u.copy_scene.n);
        case WIRE_SCENES_OPENED:
            return scenes_opened(m->body_as_ScenesOpened(), &u.scenes_opened);
        case WIRE_STATUS:
            return status(m->body_as_Status(), &u.status);
        case WIRE_GET_SNAPSHOT:
            return get_snapshot(m->body_as_GetSnapshot(), &u.get_snapshot);
        case WIRE_SNAPSHOT:
            return snapshot(m->body_as_Snapshot(), &u.snapshot);
        case WIRE_SET_MATERIAL:
            u.set_material.scene = m->body_as_SetMaterial()->scene();
            u.set_material.body = m->body_as_SetMaterial()->body();
            u.set_material.other = m->body_as_SetMaterial()->other();
            u.set_material.material = material(m->body_as_SetMaterial());
            return true;
        case WIRE_REPLACE_MESH:
            u.replace_mesh.scene = m->body_as_ReplaceMesh()->scene();
            u.replace_mesh.body = m->body_as_ReplaceMesh()->body();
            u.replace_mesh.mesh = m->body_as_ReplaceMesh()->mesh();
            return true;
        case WIRE_GET_REPORT:
            set_number(&u.get_report.kind, m->body_as_GetReport()->kind());
            u.get_report.scene = m->body_as_GetReport()->scene();
            return true;
        case WIRE_REPORT:
            return array(m->body_as_Report()->json(), "json", U8, 1, &u.report.json);
        case WIRE_LIST_MESHES:
        case WIRE_LIST_SCENES:
        case WIRE_DONE:
        case WIRE_GET_STATUS:
        case WIRE_DRAIN:
            return true;
        case WIRE_NO_BODY:
        case WIRE_TYPE_END:
            break;
        }
        return fail(CONTACTD_MALFORMED, "body", "the message has no body");
    }
};

} // namespace

#endif
