// codec_encode.hpp - from the structs of codec.h to FlatBuffers tables, and which array goes where. Only for codec.cpp.
#ifndef CONTACTD_CODEC_ENCODE_HPP
#define CONTACTD_CODEC_ENCODE_HPP

#include <algorithm>
#include <array>
#include <cmath>

#include "proto/codec_memory.hpp"

namespace {

struct Place {
    const wire_array *array;
    size_t bytes;
    unsigned frame; // 0: inline
};

size_t text_bytes(const char *s) {
    return s ? strlen(s) + 16 : 0;
}
size_t text_bytes(const wire_error &e) {
    return text_bytes(e.object) + text_bytes(e.field) + text_bytes(e.message) + text_bytes(e.successors);
}
// How many bodies a list names.
size_t listed(const wire_bodies &b, uint32_t scenes) {
    return b.by_scene ? size_t(b.n) * scenes : b.n;
}
size_t text_bytes(const wire_mesh_info &m) {
    return text_bytes(m.hash) + text_bytes(m.name) + 8 * m.n_repair + 336;
}
size_t text_bytes(const wire_scene_info &s) {
    return text_bytes(s.owner) + text_bytes(s.name) + 320;
}

size_t text_bytes(const wire_device &d) {
    return text_bytes(d.device) + text_bytes(d.lost_reason) + 320;
}

size_t text_bytes(const char *const *texts, uint32_t n_texts) {
    size_t n = 0;
    for (uint32_t i = 0; i < n_texts; i++) n += text_bytes(texts[i]);
    return n;
}

// In the order of their fields.
enum { RESULT_ARRAYS = 19 };
std::array<const wire_array *, RESULT_ARRAYS> arrays_of(const wire_step_result &r) {
    return {&r.vertices,         &r.gradient,   &r.weights,
            &r.forces,           &r.spans,      &r.span_axes,
            &r.product_vertices, &r.products,   &r.generalized_products,
            &r.friction_forces,  &r.points,     &r.point_groups,
            &r.progress,         &r.separations, &r.surface_polygons,
            &r.surface_offsets,  &r.surface_vertices, &r.point_ids,
            &r.ended_ids};
}

#define CONTACT_ENCODE
#include "proto/contact_codec.inc"
#undef CONTACT_ENCODE

struct Encoder {
    wire_encoder *e;
    flatbuffers::FlatBufferBuilder *fbb;

    Place *places() {
        return static_cast<Place *>(e->places.data);
    }

    // ---- before building: what goes where, and how large the header can get

    void place(const wire_array &a) {
        places()[e->n_places++] = Place{&a, size_t(a.count) * wire_dtype_size(a.dtype), 0};
    }

    bool collect(const wire_message &m) {
        size_t most =
            m.type == WIRE_STEP ? 2 * size_t(m.u.step.n_updates) + m.u.step.n_directions + m.u.step.n_velocities : size_t(RESULT_ARRAYS);
        e->n_places = e->next_place = 0;
        if (!e->places.reserve((most ? most : 1) * sizeof(Place))) return false;
        if (m.type == WIRE_REGISTER_MESH) {
            place(m.u.register_mesh.vertices);
            place(m.u.register_mesh.triangles);
            place(m.u.register_mesh.file);
        } else if (m.type == WIRE_MESH_GEOMETRY) {
            place(m.u.mesh_geometry.vertices);
            place(m.u.mesh_geometry.triangles);
        } else if (m.type == WIRE_STEP) {
            for (uint32_t i = 0; i < m.u.step.n_updates; i++) {
                place(m.u.step.updates[i].positions);
                place(m.u.step.updates[i].indices);
            }
            for (uint32_t i = 0; i < m.u.step.n_directions; i++) place(m.u.step.directions[i].values);
            for (uint32_t i = 0; i < m.u.step.n_velocities; i++) place(m.u.step.velocities[i].values);
        } else if (m.type == WIRE_STEP_RESULT) {
            const wire_step_result &r = m.u.step_result;
            for (const wire_array *a : arrays_of(r)) place(*a);
        } else if (m.type == WIRE_STEP_MANY) {
            place(m.u.step_many.poses);
            place(m.u.step_many.twists);
            place(m.u.step_many.positions);
        } else if (m.type == WIRE_MANY_RESULT) {
            place(m.u.many_result.data);
        } else if (m.type == WIRE_SNAPSHOT) {
            place(m.u.snapshot.png);
        } else if (m.type == WIRE_REPORT) {
            place(m.u.report.json);
        }
        return true;
    }

    // Fills out's frames after the header; returns the bytes that stay inline.
    size_t assign(size_t inline_bytes, wire_encoded *out) {
        size_t in_header = 0, largest[WIRE_MAX_FRAMES], n = 0;
        for (size_t i = 0; i < e->n_places; i++) {
            size_t bytes = places()[i].bytes;
            if (bytes <= inline_bytes && in_header <= inline_bytes - bytes) {
                in_header += bytes;
                continue;
            }
            size_t k = n; // keep the largest, in falling order of size
            while (k > 0 && places()[largest[k - 1]].bytes < bytes) k--;
            if (n == WIRE_MAX_FRAMES) in_header += places()[k == n ? i : largest[n - 1]].bytes;
            if (k == WIRE_MAX_FRAMES) continue;
            if (n < WIRE_MAX_FRAMES) n++;
            memmove(largest + k + 1, largest + k, (n - 1 - k) * sizeof *largest);
            largest[k] = i;
        }
        for (size_t k = 0; k < n; k++) {
            Place &p = places()[largest[k]];
            p.frame = unsigned(k + 1);
            out->frames[k + 1] = wire_frame{p.array->data, p.bytes};
        }
        out->n_frames = n + 1;
        return in_header;
    }

    // More than the header of this message can need: a table's fields take at most 8 bytes each, and as many again
    // for its vtable and the builder's notes.
    static size_t bound(const wire_message &m) {
        size_t n = 2048;
        switch (m.type) {
        case WIRE_HELLO:
            return n + text_bytes(m.u.hello.client);
        case WIRE_WELCOME:
            n += text_bytes(m.u.welcome.server) + text_bytes(m.u.welcome.backend) + text_bytes(m.u.welcome.rasterizer) +
                 text_bytes(m.u.welcome.device);
            return n + text_bytes(m.u.welcome.successors) + text_bytes(m.u.welcome.methods, m.u.welcome.n_methods);
        case WIRE_ERROR:
            return n + text_bytes(m.u.error);
        case WIRE_REGISTER_MESH:
            return n + text_bytes(m.u.register_mesh.name);
        case WIRE_MESH_INFO:
            return n + text_bytes(m.u.mesh_info);
        case WIRE_GET_MESH:
            return n + text_bytes(m.u.get_mesh.hash);
        case WIRE_REMOVE_MESH:
            return n + text_bytes(m.u.remove_mesh.hash);
        case WIRE_MESH_GEOMETRY:
            return n + text_bytes(m.u.mesh_geometry.info);
        case WIRE_MESH_LIST:
            for (uint32_t i = 0; i < m.u.mesh_list.n; i++) n += text_bytes(m.u.mesh_list.meshes[i]);
            return n;
        case WIRE_OPEN_SCENE:
            return n + text_bytes(m.u.open_scene.name);
        case WIRE_SCENE_INFO:
            return n + text_bytes(m.u.scene_info);
        case WIRE_SCENE_LIST:
            for (uint32_t i = 0; i < m.u.scene_list.n; i++) n += text_bytes(m.u.scene_list.scenes[i]);
            return n;
        case WIRE_ADD_BODY:
            return n + 4 * size_t(m.u.add_body.n_ignore);
        case WIRE_ADD_BODIES:
            return n + 96 * size_t(m.u.add_bodies.n) + 8 * size_t(m.u.add_bodies.n_meshes) + 4 * size_t(m.u.add_bodies.n_ignore);
        case WIRE_BODIES_ADDED:
            return n + 4 * size_t(m.u.bodies_added.n);
        case WIRE_RESET_SCENES:
            return n + 8 * size_t(m.u.reset_scenes.n);
        case WIRE_CLOSE_SCENES:
            return n + 8 * size_t(m.u.close_scenes.n);
        case WIRE_COPY_SCENE:
            return n + 8 * size_t(m.u.copy_scene.n);
        case WIRE_SCENES_OPENED:
            return n + 8 * size_t(m.u.scenes_opened.n);
        case WIRE_STEP:
            return n + 448 * size_t(m.u.step.n_updates) + 384 * (size_t(m.u.step.n_directions) + m.u.step.n_velocities);
        case WIRE_STEP_RESULT:
            return n + 1472 * (size_t(m.u.step_result.n_contacts) + m.u.step_result.n_cells) +
                   96 * size_t(m.u.step_result.n_warnings) + text_bytes(m.u.step_result.backend);
        case WIRE_STEP_MANY: {
            const wire_step_many &s = m.u.step_many;
            return n + 16 * size_t(s.n) + 4 * (listed(s.posed, s.n) + listed(s.moving, s.n) + listed(s.soft, s.n)) +
                   8 * size_t(s.soft.n);
        }
        case WIRE_MANY_RESULT: {
            const wire_many_result &r = m.u.many_result;
            for (uint32_t i = 0; i < r.n_errors; i++) n += 160 + text_bytes(r.errors[i].error);
            return n + 8 * size_t(r.n) + 96 * size_t(r.n_columns);
        }
        case WIRE_STATUS:
            for (uint32_t i = 0; i < m.u.status.n_devices; i++) n += text_bytes(m.u.status.devices[i]);
            return n + text_bytes(m.u.status.server) + text_bytes(m.u.status.backend) +
                   text_bytes(m.u.status.rasterizer) + text_bytes(m.u.status.device) + text_bytes(m.u.status.simd) +
                   text_bytes(m.u.status.ready_reason) + text_bytes(m.u.status.methods, m.u.status.n_methods) +
                   text_bytes(m.u.status.auto_method);
        default:
            return n;
        }
    }

    // ---- parts

    Offset<flatbuffers::String> text(const char *s) {
        return s && *s ? fbb->CreateString(s) : Offset<flatbuffers::String>();
    }

    Offset<flatbuffers::Vector<double>> numbers(const double *values, size_t n) {
        return fbb->CreateVector(values, n);
    }

    Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> methods(const char *const *names, uint32_t n) {
        Offset<flatbuffers::String> texts[WIRE_METHODS];
        for (uint32_t i = 0; i < n; i++) texts[i] = fbb->CreateString(names[i]);
        return fbb->CreateVector(texts, n);
    }

    Offset<fb::Array> array(const wire_array &a) {
        const Place &p = places()[e->next_place++];
        if (a.dtype == WIRE_NONE) return 0;
        Offset<flatbuffers::Vector<uint8_t>> bytes;
        if (!p.frame && p.bytes) {
            fbb->ForceVectorAlignment(p.bytes, 1, 8);
            bytes = fbb->CreateVector(static_cast<const uint8_t *>(a.data), p.bytes);
        }
        return fb::CreateArray(*fbb, fb::DType(a.dtype), a.count, uint8_t(p.frame), bytes);
    }

    void setting(const ct_setting_row &row, const ct_scene_settings &s) {
        const auto field = field_of(row.id);
        const int64_t value = ct_setting_integer(&row, &s, 0);
        if (row.type == CT_SETTING_IS_F64)
            fbb->AddElement<double>(field, ct_setting_number(&row, &s), -1);
        else if (row.type == CT_SETTING_IS_U64)
            fbb->AddElement<int64_t>(field, value, -1);
        else if (row.type == CT_SETTING_IS_U32)
            fbb->AddElement<int32_t>(field, int32_t(value), -1);
        else if (&row == &ct_setting_rows[CT_SETTING_METHOD])
            fbb->AddElement<uint8_t>(field, uint8_t(value), 0);
        else
            fbb->AddElement<int8_t>(field, int8_t(value), -1);
    }

    // Adds what is given of one of the two tables, but vectors.
    void settings_of(const wire_settings &s, bool is_voxels) {
        for (int k = 0; k < CT_SETTINGS; k++) {
            const ct_setting_row &row = ct_setting_rows[k];
            const bool is_own = row.is_voxels == is_voxels && row.type != CT_SETTING_IS_U32X3;
            if (is_own && s.given & CT_GIVEN(k)) setting(row, s.to);
        }
    }

    Offset<fb::Settings> settings(const wire_settings &s) {
        uint64_t voxel_bits = 0;
        for (int k = 0; k < CT_SETTINGS; k++)
            if (ct_setting_rows[k].is_voxels) voxel_bits |= CT_GIVEN(k);
        Offset<flatbuffers::Vector<uint32_t>> resolution;
        if (s.given & CT_GIVEN(CT_SETTING_RESOLUTION)) resolution = fbb->CreateVector(s.to.resolution, 3);
        Offset<fb::VoxelSettings> voxels;
        if (s.given & voxel_bits) {
            const auto start = fbb->StartTable();
            settings_of(s, true);
            voxels = fbb->EndTable(start);
        }
        const auto start = fbb->StartTable();
        settings_of(s, false);
        fbb->AddOffset(fb::Settings::VT_RESOLUTION, resolution);
        fbb->AddOffset(fb::Settings::VT_VOXELS, voxels);
        return fbb->EndTable(start);
    }

    Offset<fb::MeshInfo> mesh_info(const wire_mesh_info &m) {
        auto hash = text(m.hash), name = text(m.name);
        auto lo = numbers(m.lo, 3), hi = numbers(m.hi, 3);
        Offset<flatbuffers::Vector<double>> repair;
        if (m.repair) repair = numbers(m.repair, m.n_repair);
        Offset<flatbuffers::Vector<double>> center, inertia;
        if (m.shells) {
            center = numbers(m.center_of_mass, 3);
            inertia = numbers(m.inertia, 9);
        }
        return fb::CreateMeshInfo(*fbb, m.mesh, hash, name, m.vertices, m.triangles, m.bytes, m.volume, m.area, lo, hi,
                                  m.bodies, m.existed, repair, m.closing_vertices, m.shells, m.doubled_shells, center,
                                  inertia, m.moved, fb::MeshClosing(m.closing), m.deviation, m.closed_as,
                                  m.repair ? m.self_overlap : -1, m.uneven_polygons, m.unevenness);
    }

    Offset<fb::SceneInfo> scene_info(const wire_scene_info &s) {
        auto name = text(s.name), owner = text(s.owner);
        auto set = settings(s.settings);
        return fb::CreateSceneInfo(*fbb, s.scene, name, set, s.bodies, s.bytes, s.steps, s.contacts, s.mine, owner,
                                   fb::Method(number(s.running_method)), s.revision);
    }

    Offset<fb::BodyUpdate> update(const wire_update &u) {
        auto positions = array(u.positions), indices = array(u.indices);
        Offset<flatbuffers::Vector<double>> pose;
        if (u.kind == WIRE_UPDATE_POSE) pose = numbers(u.pose, 12);
        return fb::CreateBodyUpdate(*fbb, u.body, fb::UpdateKind(u.kind), positions, indices, pose);
    }

    Offset<fb::Direction> direction(const wire_direction &d) {
        auto values = array(d.values);
        Offset<flatbuffers::Vector<double>> twist;
        if (d.has_twist) twist = numbers(d.twist, 6);
        return fb::CreateDirection(*fbb, d.body, d.index, values, twist);
    }

    // groups: of the step. items was reserved for n offsets.
    Offset<flatbuffers::Vector<Offset<fb::Contact>>> contacts(const ct_contact *in, size_t n, unsigned groups) {
        auto *offsets = static_cast<Offset<fb::Contact> *>(e->items.data);
        for (size_t i = 0; i < n; i++)
            offsets[i] =
                encode_contact(*this, in[i], std::isnan(in[i].error_bounds[0]) ? groups : groups | CT_CONTACT_BOUNDS);
        return fbb->CreateVector(offsets, n);
    }

    Offset<fb::Warning> warning(const wire_warning &w) {
        return fb::CreateWarning(*fbb, fb::WarningCode(number(w.code)), w.body, w.value);
    }

    // items was reserved for n offsets
    template <class In, class Out>
    Offset<flatbuffers::Vector<Offset<Out>>> each(const In *in, size_t n, Offset<Out> (Encoder::*write)(const In &)) {
        auto *offsets = static_cast<Offset<Out> *>(e->items.data);
        for (size_t i = 0; i < n; i++) offsets[i] = (this->*write)(in[i]);
        return fbb->CreateVector(offsets, n);
    }

    Offset<void> step_result(const wire_step_result &r) {
        auto whole = contacts(r.contacts, r.n_contacts, r.groups);
        Offset<flatbuffers::Vector<Offset<fb::Contact>>> cells;
        if (r.n_cells) cells = contacts(r.cells, r.n_cells, r.groups | CT_CONTACT_CELL);
        Offset<fb::Array> arrays[RESULT_ARRAYS];
        size_t n = 0;
        for (const wire_array *a : arrays_of(r)) arrays[n++] = array(*a);
        auto backend = text(r.backend);
        auto timings = numbers(r.timings_us, WIRE_TIMINGS);
        Offset<flatbuffers::Vector<double>> wall;
        if (r.has_wall) wall = numbers(r.wall_us, WIRE_TIMINGS);
        Offset<flatbuffers::Vector<Offset<fb::Warning>>> warnings;
        if (r.n_warnings) warnings = each(r.warnings, r.n_warnings, &Encoder::warning);
        Offset<fb::Settings> set;
        if (r.revision) set = settings(r.settings);
        return fb::CreateStepResult(*fbb, r.scene, r.sequence, whole, arrays[0], arrays[1], arrays[2], arrays[3],
                                    arrays[4], arrays[5], fb::Method(number(r.method)), backend, r.pairs, r.rays,
                                    r.fragments, timings, r.cached, warnings, r.directions, arrays[6], arrays[7],
                                    arrays[8], set, r.revision, fb::Ended(number(r.ended)), r.passes, arrays[9], cells,
                                    r.quality, arrays[10], arrays[11], arrays[12], wall, arrays[13], arrays[14],
                                    arrays[15], arrays[16], arrays[17], arrays[18])
            .Union();
    }

    Offset<fb::Error> error(const wire_error &r) {
        auto object = text(r.object), field = text(r.field), message = text(r.message), successors = text(r.successors);
        return fb::CreateError(*fbb, fb::ErrorCode(number(r.code)), object, field, message, r.retry, r.retry_after_ms,
                               successors);
    }

    template <class T> Offset<flatbuffers::Vector<T>> list(const T *in, size_t n) {
        return n ? fbb->CreateVector(in, n) : Offset<flatbuffers::Vector<T>>();
    }
    Offset<flatbuffers::Vector<uint32_t>> bodies(const wire_bodies &b, uint32_t scenes) {
        return list(b.bodies, listed(b, scenes));
    }

    Offset<void> step_many(const wire_step_many &s) {
        auto scenes = list(s.scenes, s.n), sequences = list(s.sequences, s.n);
        auto posed = bodies(s.posed, s.n), moving = bodies(s.moving, s.n), soft = bodies(s.soft, s.n);
        auto vertices = list(s.vertices, s.soft.n);
        auto poses = array(s.poses), twists = array(s.twists), positions = array(s.positions);
        return fb::CreateStepMany(*fbb, scenes, sequences, s.want, s.deadline_us, posed, poses, moving, twists, soft,
                                  vertices, positions)
            .Union();
    }

    Offset<fb::ManyError> many_error(const wire_many_error &m) {
        return fb::CreateManyError(*fbb, m.index, error(m.error), m.is_answer);
    }
    Offset<fb::Column> column(const wire_column &c) {
        return fb::CreateColumn(*fbb, c.field, fb::DType(c.dtype), c.width, c.offset);
    }

    Offset<void> many_result(const wire_many_result &r) {
        auto counts = list(r.counts, r.n);
        auto ended = list(r.ended, r.n);
        auto columns = each(r.columns, r.n_columns, &Encoder::column);
        auto errors = each(r.errors, r.n_errors, &Encoder::many_error);
        auto data = array(r.data);
        return fb::CreateManyResult(*fbb, counts, columns, data, errors, ended).Union();
    }

    Offset<fb::Device> device(const wire_device &d) {
        auto name = text(d.device), reason = text(d.lost_reason);
        return fb::CreateDevice(*fbb, name, d.scenes, d.triangles, d.memory_budget, d.memory_used, d.memory_meshes,
                                d.memory_bodies, d.scratch_bytes, d.scratch_peak, d.uploaded, d.downloaded, d.launches,
                                d.lost, reason);
    }

    Offset<void> status(const wire_status &s) {
        auto devices = each(s.devices, s.n_devices, &Encoder::device);
        auto server = text(s.server), backend = text(s.backend), rasterizer = text(s.rasterizer);
        auto device = text(s.device), simd = text(s.simd), reason = text(s.ready_reason);
        auto names = methods(s.methods, s.n_methods);
        auto auto_method = text(s.auto_method);
        return fb::CreateStatus(*fbb, server, backend, rasterizer, device, simd, s.threads, s.ready, reason, s.epoch,
                                s.uptime_s, s.sessions, s.scenes, s.meshes, s.bodies, s.mesh_bytes, s.mesh_bytes_limit,
                                s.scene_bytes, s.scratch_bytes, s.queue_depth, s.queue_capacity, s.steps, s.contacts,
                                s.max_resolution, s.max_message_bytes, devices, names, auto_method, s.insecure)
            .Union();
    }

    Offset<void> get_snapshot(const wire_get_snapshot &s) {
        Offset<flatbuffers::Vector<uint32_t>> contact;
        if (s.contact[0] || s.contact[1]) contact = fbb->CreateVector(s.contact, 2);
        Offset<flatbuffers::Vector<double>> up, eye, target, background;
        if (s.has_up) up = numbers(s.up, 3);
        if (s.has_eye) eye = numbers(s.eye, 3);
        if (s.has_target) target = numbers(s.target, 3);
        if (s.has_background) background = numbers(s.background, 4);
        return fb::CreateGetSnapshot(*fbb, s.scene, s.width, s.height, contact, s.show, s.resolution, s.azimuth,
                                     s.elevation, up, eye, target, s.zoom, s.field_of_view, s.opacity, background)
            .Union();
    }

    Offset<void> welcome(const wire_welcome &w) {
        auto server = text(w.server), backend = text(w.backend), rasterizer = text(w.rasterizer);
        auto device = text(w.device), successors = text(w.successors);
        auto names = methods(w.methods, w.n_methods);
        return fb::CreateWelcome(*fbb, w.version, w.epoch, w.session, server, backend, rasterizer, device, w.lease_ms,
                                 w.max_message_bytes, w.max_triangles, w.max_vertices, w.max_resolution,
                                 w.max_in_flight, names, successors, w.last_message)
            .Union();
    }

    Offset<void> body(const wire_message &m) {
        const auto &u = m.u;
        switch (m.type) {
        case WIRE_HELLO:
            return fb::CreateHello(*fbb, u.hello.version, u.hello.min_version, text(u.hello.client), u.hello.lease_ms)
                .Union();
        case WIRE_WELCOME:
            return welcome(u.welcome);
        case WIRE_PING:
            return fb::CreatePing(*fbb, u.ping.nonce).Union();
        case WIRE_PONG:
            return fb::CreatePong(*fbb, u.pong.nonce).Union();
        case WIRE_ERROR:
            return error(u.error).Union();
        case WIRE_REGISTER_MESH: {
            auto vertices = array(u.register_mesh.vertices), triangles = array(u.register_mesh.triangles);
            auto file = array(u.register_mesh.file);
            auto name = text(u.register_mesh.name);
            const double *d = u.register_mesh.open_direction;
            Offset<flatbuffers::Vector<double>> direction;
            if (d[0] != 0 || d[1] != 0 || d[2] != 0) direction = numbers(d, 3);
            return fb::CreateRegisterMesh(*fbb, vertices, triangles, file, fb::MeshFormat(u.register_mesh.format), name,
                                          u.register_mesh.repair, u.register_mesh.max_hole, direction,
                                          u.register_mesh.scale, u.register_mesh.weld,
                                          fb::MeshClosing(u.register_mesh.closing), u.register_mesh.resolution)
                .Union();
        }
        case WIRE_MESH_INFO:
            return mesh_info(u.mesh_info).Union();
        case WIRE_GET_MESH:
            return fb::CreateGetMesh(*fbb, u.get_mesh.mesh, text(u.get_mesh.hash), u.get_mesh.with_geometry,
                                     u.get_mesh.takes_doubles)
                .Union();
        case WIRE_MESH_GEOMETRY: {
            auto info = mesh_info(u.mesh_geometry.info);
            auto vertices = array(u.mesh_geometry.vertices), triangles = array(u.mesh_geometry.triangles);
            return fb::CreateMeshGeometry(*fbb, info, vertices, triangles).Union();
        }
        case WIRE_LIST_MESHES:
            return fb::CreateListMeshes(*fbb).Union();
        case WIRE_MESH_LIST:
            return fb::CreateMeshList(*fbb, each(u.mesh_list.meshes, u.mesh_list.n, &Encoder::mesh_info)).Union();
        case WIRE_REMOVE_MESH:
            return fb::CreateRemoveMesh(*fbb, u.remove_mesh.mesh, text(u.remove_mesh.hash)).Union();
        case WIRE_OPEN_SCENE: {
            auto set = settings(u.open_scene.settings);
            return fb::CreateOpenScene(*fbb, set, text(u.open_scene.name), u.open_scene.key, u.open_scene.revision)
                .Union();
        }
        case WIRE_SCENE_INFO:
            return scene_info(u.scene_info).Union();
        case WIRE_CONFIGURE:
            return fb::CreateConfigure(*fbb, u.configure.scene, settings(u.configure.settings)).Union();
        case WIRE_GET_SCENE:
            return fb::CreateGetScene(*fbb, u.get_scene.scene).Union();
        case WIRE_LIST_SCENES:
            return fb::CreateListScenes(*fbb).Union();
        case WIRE_SCENE_LIST:
            return fb::CreateSceneList(*fbb, each(u.scene_list.scenes, u.scene_list.n, &Encoder::scene_info)).Union();
        case WIRE_CLOSE_SCENE:
            return fb::CreateCloseScene(*fbb, u.close_scene.scene, u.close_scene.of_others).Union();
        case WIRE_ADD_BODY: {
            const wire_add_body &b = u.add_body;
            auto pose = numbers(b.pose, 12);
            auto ignore = b.n_ignore ? fbb->CreateVector(b.ignore, b.n_ignore) : 0;
            Offset<flatbuffers::Vector<double>> start;
            if (memcmp(b.start, b.pose, sizeof b.pose) != 0) start = numbers(b.start, 12);
            return fb::CreateAddBody(*fbb, b.scene, b.mesh, fb::BodyKind(b.kind), pose, b.group, b.mask, ignore,
                                     b.self_contact, b.material.modulus, b.material.friction,
                                     b.material.dissipation, b.material.static_friction, start)
                .Union();
        }
        case WIRE_BODY_ADDED:
            return fb::CreateBodyAdded(*fbb, u.body_added.scene, u.body_added.body, u.body_added.self_contact).Union();
        case WIRE_ADD_BODIES: {
            const wire_add_bodies &b = u.add_bodies;
            auto meshes = fbb->CreateVector(b.meshes, b.n_meshes);
            auto poses = fbb->CreateVector(b.poses, 12 * size_t(b.n));
            auto ignore = b.n_ignore ? fbb->CreateVector(b.ignore, b.n_ignore) : 0;
            return fb::CreateAddBodies(*fbb, b.scene, meshes, poses, b.group, b.mask, ignore, b.self_contact,
                                       b.material.modulus, b.material.friction, b.material.dissipation,
                                       b.material.static_friction)
                .Union();
        }
        case WIRE_BODIES_ADDED: {
            auto bodies = fbb->CreateVector(u.bodies_added.bodies, u.bodies_added.n);
            return fb::CreateBodiesAdded(*fbb, u.bodies_added.scene, bodies).Union();
        }
        case WIRE_REMOVE_BODY:
            return fb::CreateRemoveBody(*fbb, u.remove_body.scene, u.remove_body.body).Union();
        case WIRE_DONE:
            return fb::CreateDone(*fbb).Union();
        case WIRE_STEP: {
            auto updates = each(u.step.updates, u.step.n_updates, &Encoder::update);
            Offset<flatbuffers::Vector<Offset<fb::Direction>>> directions;
            if (u.step.n_directions) directions = each(u.step.directions, u.step.n_directions, &Encoder::direction);
            Offset<flatbuffers::Vector<Offset<fb::Direction>>> velocities;
            if (u.step.n_velocities) velocities = each(u.step.velocities, u.step.n_velocities, &Encoder::direction);
            return fb::CreateStep(*fbb, u.step.scene, u.step.sequence, u.step.want, u.step.deadline_us, updates,
                                  u.step.time_budget_us, u.step.tolerance, directions, velocities, u.step.viscosity,
                                  u.step.received)
                .Union();
        }
        case WIRE_STEP_RESULT:
            return step_result(u.step_result);
        case WIRE_STEP_MANY:
            return step_many(u.step_many);
        case WIRE_MANY_RESULT:
            return many_result(u.many_result);
        case WIRE_CANCEL:
            return fb::CreateCancel(*fbb, u.cancel.request).Union();
        case WIRE_RESET_SCENES:
            return fb::CreateResetScenes(*fbb, fbb->CreateVector(u.reset_scenes.scenes, u.reset_scenes.n)).Union();
        case WIRE_CLOSE_SCENES:
            return fb::CreateCloseScenes(*fbb, fbb->CreateVector(u.close_scenes.scenes, u.close_scenes.n)).Union();
        case WIRE_COPY_SCENE: {
            auto keys = fbb->CreateVector(u.copy_scene.keys, u.copy_scene.n);
            return fb::CreateCopyScene(*fbb, u.copy_scene.scene, keys).Union();
        }
        case WIRE_SCENES_OPENED: {
            const wire_scenes_opened &s = u.scenes_opened;
            auto scenes = fbb->CreateVector(s.scenes, s.n);
            auto settings = this->settings(s.settings);
            return fb::CreateScenesOpened(*fbb, scenes, settings, s.revision, fb::Method(number(s.running_method)))
                .Union();
        }
        case WIRE_GET_STATUS:
            return fb::CreateGetStatus(*fbb).Union();
        case WIRE_STATUS:
            return status(u.status);
        case WIRE_GET_SNAPSHOT:
            return get_snapshot(u.get_snapshot);
        case WIRE_SNAPSHOT: {
            auto png = array(u.snapshot.png);
            return fb::CreateSnapshot(*fbb, u.snapshot.scene, u.snapshot.width, u.snapshot.height, png).Union();
        }
        case WIRE_SET_MATERIAL: {
            const wire_set_material &s = u.set_material;
            return fb::CreateSetMaterial(*fbb, s.scene, s.body, s.other, s.material.modulus, s.material.friction,
                                         s.material.dissipation, s.material.static_friction)
                .Union();
        }
        case WIRE_REPLACE_MESH:
            return fb::CreateReplaceMesh(*fbb, u.replace_mesh.scene, u.replace_mesh.body, u.replace_mesh.mesh).Union();
        case WIRE_GET_REPORT:
            return fb::CreateGetReport(*fbb, fb::ReportKind(number(u.get_report.kind)), u.get_report.scene).Union();
        case WIRE_REPORT: {
            auto json = array(u.report.json);
            return fb::CreateReport(*fbb, json).Union();
        }
        case WIRE_DRAIN:
            return fb::CreateDrain(*fbb).Union();
        case WIRE_NO_BODY:
        case WIRE_TYPE_END:
            break;
        }
        return 0;
    }
};

size_t list_length(const wire_message &m) {
    switch (m.type) {
    case WIRE_MESH_LIST:
        return m.u.mesh_list.n;
    case WIRE_SCENE_LIST:
        return m.u.scene_list.n;
    case WIRE_STEP:
        return std::max({m.u.step.n_updates, m.u.step.n_directions, m.u.step.n_velocities});
    case WIRE_STEP_RESULT:
        return std::max({m.u.step_result.n_contacts, m.u.step_result.n_cells, m.u.step_result.n_warnings});
    case WIRE_MANY_RESULT:
        return std::max(m.u.many_result.n_columns, m.u.many_result.n_errors);
    case WIRE_STATUS:
        return m.u.status.n_devices;
    default:
        return 0;
    }
}

} // namespace

#endif
