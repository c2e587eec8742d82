/* contactd.hpp - the C client (contactd.h) as C++17: handles with types of their own, owners that close what they own,
 * spans, and errors as exceptions. Header only; link libcontactd.
 *
 *     contactd::Client client;                               // CONTACTD_SERVER, else tcp://127.0.0.1:5555
 *     auto box = client.load("box.stl");
 *     auto scene = client.open_scene();
 *     auto a = scene.add_body(box), b = scene.add_body(box);
 *     auto result = scene.step({b.at({1, 0, 0, 0.5, 0, 1, 0, 0, 0, 0, 1, 0})});
 *     for (const contactd::Contact &c : result) std::cout << c.volume << '\n';
 *
 * Units, lengths and errors are those of contactd.h. What is not here is called in C with client.c(), scene.handle() and
 * so on. Scenes and results keep their client open, so that they may outlive the object that they came from. A client,
 * with its scenes and results, is used by one thread at a time; that includes the end of a scene or result. */
#ifndef CONTACTD_HPP
#define CONTACTD_HPP

#if __cplusplus < 201703L
#error "contactd.hpp needs C++17 or newer: compile with -std=c++17"
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "client_c/contactd.h"

#ifdef CONTACTD_STRICT_HANDLES
#error "contactd.hpp has types of its own for handles: leave CONTACTD_STRICT_HANDLES undefined where it is included"
#endif

namespace contactd {

/* What contactd_last_error told of the call that failed. */
class Error : public std::runtime_error {
  public:
    explicit Error(const contactd_error &error) : std::runtime_error(text_of(error)), error_(error) {
    }
    contactd_code code() const noexcept {
        return error_.code;
    }
    const char *object() const noexcept {
        return error_.object;
    } /* "scene 2"; may be empty */
    const char *field() const noexcept {
        return error_.field;
    } /* "positions"; may be empty */
    const char *message() const noexcept {
        return error_.message;
    } /* expected, found, remedy */
    bool may_retry() const noexcept {
        return error_.retry;
    } /* the same call may succeed later */
    uint32_t retry_after_ms() const noexcept {
        return error_.retry_after_ms;
    }

  private:
    static std::string text_of(const contactd_error &e) {
        std::string text = contactd_code_name(e.code);
        for (const char *part : {e.object, e.field, e.message})
            if (*part) text.append(": ").append(part);
        return text;
    }
    contactd_error error_;
};

/* A view of elements that lie one after another: what std::span is in C++20, which takes it. */
template <class T> class Span {
  public:
    using value_type = std::remove_cv_t<T>;
    using iterator = T *;
    constexpr Span() noexcept = default;
    constexpr Span(T *data, size_t size) noexcept : data_(data), size_(size) {
    }
    /* Of a vector, an array, and whatever else has data() and size(). */
    template <class Range,
              class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<Range &>().data()), T *> &&
                                       sizeof(*std::declval<Range &>().data()) == sizeof(T)>>
    constexpr Span(Range &&range) noexcept : data_(range.data()), size_(range.size()) {
    }
    constexpr T *data() const noexcept {
        return data_;
    }
    constexpr size_t size() const noexcept {
        return size_;
    }
    constexpr bool empty() const noexcept {
        return size_ == 0;
    }
    constexpr T &operator[](size_t i) const noexcept {
        return data_[i];
    }
    constexpr T *begin() const noexcept {
        return data_;
    }
    constexpr T *end() const noexcept {
        return data_ + size_;
    }

  private:
    T *data_ = nullptr;
    size_t size_ = 0;
};

/* One field of all contacts, where it lies in the result: column[i] is that of contact i. T is double, double[3],
 * double[2][6] and so on. Valid for as long as its result. */
template <class T> class Column {
  public:
    class iterator {
      public:
        using iterator_category = std::random_access_iterator_tag;
        using value_type = T;
        using difference_type = std::ptrdiff_t;
        using pointer = const T *;
        using reference = const T &;
        iterator(const Column *column, difference_type i) noexcept : column_(column), i_(i) {
        }
        reference operator*() const noexcept {
            return (*column_)[static_cast<size_t>(i_)];
        }
        reference operator[](difference_type n) const noexcept {
            return *(*this + n);
        }
        iterator &operator++() noexcept {
            return *this += 1;
        }
        iterator &operator--() noexcept {
            return *this += -1;
        }
        iterator operator++(int) noexcept {
            return {column_, i_++};
        }
        iterator operator--(int) noexcept {
            return {column_, i_--};
        }
        iterator &operator+=(difference_type n) noexcept {
            return i_ += n, *this;
        }
        iterator &operator-=(difference_type n) noexcept {
            return i_ -= n, *this;
        }
        friend iterator operator+(iterator a, difference_type n) noexcept {
            return {a.column_, a.i_ + n};
        }
        friend iterator operator-(iterator a, difference_type n) noexcept {
            return {a.column_, a.i_ - n};
        }
        friend difference_type operator-(iterator a, iterator b) noexcept {
            return a.i_ - b.i_;
        }
        friend bool operator==(iterator a, iterator b) noexcept {
            return a.i_ == b.i_;
        }
        friend bool operator!=(iterator a, iterator b) noexcept {
            return a.i_ != b.i_;
        }
        friend bool operator<(iterator a, iterator b) noexcept {
            return a.i_ < b.i_;
        }

      private:
        const Column *column_;
        difference_type i_;
    };
    explicit Column(const contactd_column &column) noexcept : column_(column) {
    }
    size_t size() const noexcept {
        return column_.n;
    }
    bool empty() const noexcept {
        return column_.n == 0;
    }
    const T &operator[](size_t i) const noexcept {
        return *static_cast<const T *>(
            static_cast<const void *>(static_cast<const char *>(column_.data) + i * column_.stride));
    }
    iterator begin() const noexcept {
        return {this, 0};
    }
    iterator end() const noexcept {
        return {this, static_cast<std::ptrdiff_t>(column_.n)};
    }
    const contactd_column &c() const noexcept {
        return column_;
    } /* pointer, stride, name and unit */

  private:
    contactd_column column_;
};

using Pose = std::array<double, 12>; /* row-major 3x4 [R|t] */
using Contact = contactd_contact;
using Overlap = contactd_overlap;

/* The options of contactd.h, each with its defaults. */
struct Options : contactd_options {
    Options() {
        contactd_options_init(this);
    }
    explicit Options(const char *address) : Options() {
        server = address;
    } /* not copied: of a text that stays */
};
struct Settings : contactd_settings {
    Settings() {
        contactd_settings_init(this);
    }
};
struct MeshOptions : contactd_mesh_options {
    MeshOptions() {
        contactd_mesh_options_init(this);
    }
};
struct StepOptions : contactd_step_options {
    StepOptions() {
        contactd_step_options_init(this);
    }
};
struct BodyOptions : contactd_body_options { /* deformable, starting at the mesh's positions */
    BodyOptions() {
        contactd_body_options_init(this);
    }
};
struct Rigid : BodyOptions { /* which a pose moves */
    Rigid() {
        rigid = true;
    }
    explicit Rigid(const Pose &at) : Rigid() {
        std::copy(at.begin(), at.end(), pose);
    }
};

class Body { /* of one scene */
  public:
    Body() = default;
    explicit Body(contactd_body handle) noexcept : handle_(handle) {
    }
    contactd_body handle() const noexcept {
        return handle_;
    }
    explicit operator bool() const noexcept {
        return handle_ != 0;
    }
    friend bool operator==(Body a, Body b) noexcept {
        return a.handle_ == b.handle_;
    }
    friend bool operator!=(Body a, Body b) noexcept {
        return a.handle_ != b.handle_;
    }
    /* Updates for a step. The positions, three numbers a vertex, are read during the call of the step. */
    contactd_update at(const Pose &pose) const {
        return contactd_move(handle_, pose.data());
    }
    contactd_update deformed(Span<const float> positions) const {
        return contactd_deform(handle_, positions.data(), positions.size() / 3);
    }

  private:
    contactd_body handle_ = 0;
};

namespace detail {
using Connection = std::shared_ptr<contactd_client>;
inline void check(const Connection &client, contactd_code code) {
    if (code != CONTACTD_OK) throw Error(*contactd_last_error(client.get()));
}
[[noreturn]] inline void refuse(const char *object, const char *field, const char *message) {
    contactd_error error = {};
    error.code = CONTACTD_INVALID_ARGUMENT;
    const std::pair<char *, const char *> texts[] = {
        {error.object, object}, {error.field, field}, {error.message, message}};
    const size_t sizes[] = {sizeof error.object, sizeof error.field, sizeof error.message};
    for (size_t i = 0; i < 3; i++) texts[i].first[std::string(texts[i].second).copy(texts[i].first, sizes[i] - 1)] = 0;
    throw Error(error);
}
/* The handle of a mesh or a scene, which means another one to another client. */
template <class Handle>
Handle handle_in(const Connection &client, const Connection &owner, Handle handle, const char *object) {
    if (handle && owner != client)
        refuse(object, object, "it is another client's: give one of the client that is called");
    return handle;
}
/* Three numbers a row, or an error that names the array. */
template <class T> size_t rows_of_three(Span<T> array, const char *field) {
    if (array.size() % 3) refuse("mesh", field, "its length is no multiple of 3: expected three numbers a row");
    return array.size() / 3;
}
} // namespace detail

class Mesh { /* of one client. It stays registered until it is removed: other clients may use the same content */
  public:
    Mesh() = default;
    Mesh(detail::Connection client, contactd_mesh handle) noexcept : client_(std::move(client)), handle_(handle) {
    }
    contactd_mesh handle() const noexcept {
        return handle_;
    }
    contactd_mesh handle_in(const detail::Connection &client) const { /* INVALID_ARGUMENT if it is another's */
        return detail::handle_in(client, client_, handle_, "mesh");
    }
    explicit operator bool() const noexcept {
        return handle_ != 0;
    }
    contactd_mesh_info info() const { /* its texts are valid until the next call */
        contactd_mesh_info out;
        detail::check(client_, contactd_get_mesh_info(client_.get(), handle_, &out));
        return out;
    }
    void remove() { /* CONFLICT while bodies use it */
        detail::check(client_, contactd_remove_mesh(client_.get(), handle_));
        handle_ = 0;
    }

  private:
    detail::Connection client_;
    contactd_mesh handle_ = 0;
};

/* One field of all contacts, without a copy, for results. NOT_FOUND: the step did not ask for it. */
template <class Result> class ContactColumns {
  public:
    Column<contactd_body[2]> body_pairs() const {
        return column<contactd_body[2]>(CONTACTD_COLUMN_BODIES);
    }
    /* clang-format off */
    /* catalogue: begin columns */
    /* among the contacts of this pair of bodies, from 0 */
    Column<uint32_t> indices() const { return column<uint32_t>(CONTACTD_COLUMN_INDEX); }
    /* m^3: of the intersection; ldi: the mean of the three views, weighted by what they resolve */
    Column<double> volumes() const { return column<double>(CONTACTD_COLUMN_VOLUME); }
    /* m^3: ldi, ebpi: the volume as seen along x, y, z; exact: all are volume */
    Column<double[3]> view_volumes() const { return column<double[3]>(CONTACTD_COLUMN_VOLUMES); }
    /* m^3: guaranteed bound of the error of volume (by ebpi only if strict); none where the method gives none (ldi) */
    Column<double> error_bounds() const { return column<double>(CONTACTD_COLUMN_ERROR_BOUND); }
    /* m^3: bounds of the errors of volumes, guaranteed as error_bound is; none, all three, where the method gives none
       (ldi) */
    Column<double[3]> view_error_bounds() const { return column<double[3]>(CONTACTD_COLUMN_ERROR_BOUNDS); }
    /* m^3: an estimate of the error of volume, no bound. ldi: in 93 to 97 of 100 contacts the error is below it, the
       less the coarser. exact: error_bound. ebpi: the larger of what independent errors of tiles come to and a quarter
       of the bound, above 95 of 100 errors. voxtree: above 95 of 100 errors. LDI's is made from the spread of the three
       volumes and their rays. VOXTREE's is a part of error_bound: a quarter where volume_lower is above 0, half where
       it is 0, and all of it on levels 0 and 1 */
    Column<double> error_estimates() const { return column<double>(CONTACTD_COLUMN_ERROR_ESTIMATE); }
    /* largest |winding number| of one body at points of the other's surface; 0: not counted (ldi, ebpi, voxtree). Above
       1 that body overlaps itself there, and the volume counts the place as often. 1 does not exclude it: a body that
       overlaps itself where no surface of the other one passes, as where it lies wholly inside the other, is counted as
       often too. Of a body with itself: just outside its surface, 1 where it overlaps itself once */
    Column<uint32_t> max_windings() const { return column<uint32_t>(CONTACTD_COLUMN_MAX_WINDING); }
    /* of both surfaces, those with a corner inside the other body where that is inside out: its winding number is
       negative, and the volume there counts negatively; 0 too where max_winding is 0 (ldi). Of a body with itself: just
       outside a corner, and the volume there counts positively */
    Column<uint32_t> inverted_triangles() const { return column<uint32_t>(CONTACTD_COLUMN_INVERTED_TRIANGLES); }
    /* m^3: sampled: the volume inside both bodies where one or both are inside out, which volume leaves out: one of the
       winding numbers is negative, and none is 0; none: not sampled (exact, voxtree, and cells). The views' mean,
       weighted as volume's. Of a body with itself: where its winding number is negative */
    Column<double> inverted_volumes() const { return column<double>(CONTACTD_COLUMN_INVERTED_VOLUME); }
    /* m^3: voxtree: guaranteed lower end of the volume; 0: the bodies may have no contact. Other methods: none. Both
       ends close in from level to level. Volume where one of the bodies overlaps itself counts once */
    Column<double> lower_volumes() const { return column<double>(CONTACTD_COLUMN_VOLUME_LOWER); }
    /* m^3: voxtree: guaranteed upper end of the volume. Other methods: none */
    Column<double> upper_volumes() const { return column<double>(CONTACTD_COLUMN_VOLUME_UPPER); }
    /* m^2: |dV/d(translation)|: that of the contact as seen along its normal, where it is not nested; the sum of one
       part's friction weights */
    Column<double> areas() const { return column<double>(CONTACTD_COLUMN_AREA); }
    /* m: mean depth: volume / area; 0 where area is 0 */
    Column<double> depths() const { return column<double>(CONTACTD_COLUMN_DEPTH); }
    /* unit vector that pushes the first body out of the second; 0 if no direction does (nested bodies) */
    Column<double[3]> normals() const { return column<double[3]>(CONTACTD_COLUMN_NORMAL); }
    /* unit vectors, orthogonal to the normal and to each other */
    Column<double[2][3]> tangents() const { return column<double[2][3]>(CONTACTD_COLUMN_TANGENTS); }
    /* m: ldi: midpoint of the two surfaces' weighted barycentres; exact: the intersection's centre of gravity */
    Column<double[3]> centers() const { return column<double[3]>(CONTACTD_COLUMN_CENTER); }
    /* m: the barycentre of each part's surface, its vertices weighted by friction weights. See Allard 2010. It is
       center where the weights cancel, as in nested bodies */
    Column<double[2][3]> side_centers() const { return column<double[2][3]>(CONTACTD_COLUMN_SIDE_CENTER); }
    /* m^2, m^3: per part: dV/d(translation), then dV/d(rotation about the body's origin). The origin is a rigid body's
       t, a deformable body's 0 0 0 */
    Column<double[2][6]> generalized_gradients() const { return column<double[2][6]>(CONTACTD_COLUMN_GENERALIZED_GRADIENT); }
    /* the surface of one of the bodies is wholly inside the other: no direction lessens the volume, and the contact has
       no normal, and no force but that of the law pressure, the shortest way out of a rigid body or half-space. A
       warning of the step names the inner body. Move a nested body out along the way that it came in, or take smaller
       steps, so that surfaces meet first. Of a body with itself: a closed part of its surface is wholly inside. Not
       known by voxtree's trees */
    Column<bool> are_nested() const { return column<bool>(CONTACTD_COLUMN_IS_NESTED); }
    /* the contact's own number: it keeps it from step to step while it persists; 0 of a cell. Numbers count from 1 in
       each scene, rise in the order in which contacts begin, and are never given twice. gpu/after/identity.h says which
       contact of a step is which of the step before it that wanted ids */
    Column<uint64_t> ids() const { return column<uint64_t>(CONTACTD_COLUMN_ID); }
    /* it began with this step: the step before it that wanted ids does not have it */
    Column<bool> are_new() const { return column<bool>(CONTACTD_COLUMN_IS_NEW); }
    /* m^5: the integral over the intersection of |r|^2 - r r^T, r from center; times a density, the inertia tensor
       about center */
    Column<double[3][3]> inertias() const { return column<double[3][3]>(CONTACTD_COLUMN_INERTIA); }
    /* m/s: of the second part relative to the first: the sum of friction weight times velocity, over area. Where both
       bodies only translate, it is the difference of their velocities */
    Column<double[3]> relative_velocities() const { return column<double[3]>(CONTACTD_COLUMN_RELATIVE_VELOCITY); }
    /* rad/s: of the second part relative to the first, about the normal */
    Column<double> spins() const { return column<double>(CONTACTD_COLUMN_SPIN); }
    /* N, N m: per part: friction, and its torque about the body's origin; by the law volume it is viscous, by pressure
       Coulomb's. It acts on both bodies at one point, or at the same points: torques about any point are opposite, too
       */
    Column<double[2][6]> frictions() const { return column<double[2][6]>(CONTACTD_COLUMN_FRICTION); }
    /* N, N m: per part: the force of pressure and friction on the body, and its torque about the body's origin. The
       wrenches of both parts are opposite: their forces, and their torques about any common point */
    Column<double[2][6]> wrenches() const { return column<double[2][6]>(CONTACTD_COLUMN_WRENCH); }
    /* m: half extents along axes of the rectangle with the contact's area moments: sqrt(3) times their standard
       deviations */
    Column<double[2]> extents() const { return column<double[2]>(CONTACTD_COLUMN_EXTENTS); }
    /* unit vectors of the longer and the shorter extent, orthogonal to the normal and to each other */
    Column<double[2][3]> axes() const { return column<double[2][3]>(CONTACTD_COLUMN_AXES); }
    /* catalogue: end columns */
    /* clang-format on */

  private:
    template <class T> Column<T> column(contactd_column_id id) const {
        contactd_column out;
        const contactd_code code = static_cast<const Result *>(this)->find_column(id, &out);
        if (code == CONTACTD_OK) return Column<T>(out);
        contactd_error error = {};
        error.code = code;
        std::string("result").copy(error.object, sizeof error.object - 1);
        std::string("the step did not ask for this column, or its scene has no such thing: see StepOptions::want, "
                    "velocities, and the setting law")
            .copy(error.message, sizeof error.message - 1);
        throw Error(error);
    }
};

/* The caller's, through any other call; ends its answer's memory. */
class Result : public ContactColumns<Result> {
  public:
    Result(detail::Connection client, const contactd_result *result) : client_(std::move(client)), result_(result) {
        detail::check(client_, contactd_result_keep(client_.get(), result));
    }
    Result(Result &&other) noexcept
        : client_(std::move(other.client_)), result_(std::exchange(other.result_, nullptr)) {
    }
    Result &operator=(Result &&other) noexcept {
        std::swap(client_, other.client_);
        std::swap(result_, other.result_);
        return *this;
    }
    ~Result() {
        if (result_) contactd_result_release(client_.get(), &result_);
    }
    const contactd_result &c() const noexcept {
        return *result_;
    }
    const contactd_result *operator->() const noexcept {
        return result_;
    }
    Span<const Contact> contacts() const noexcept {
        return {result_->contacts, result_->n_contacts};
    }
    Span<const contactd_warning> warnings() const noexcept {
        return {result_->warnings, result_->n_warnings};
    }
    Span<const contactd_separation> separations() const noexcept {
        return {result_->separations, result_->n_separations};
    }
    const Contact *begin() const noexcept {
        return contacts().begin();
    }
    const Contact *end() const noexcept {
        return contacts().end();
    }
    size_t size() const noexcept {
        return result_->n_contacts;
    }
    bool empty() const noexcept {
        return size() == 0;
    }
    const Contact &operator[](size_t i) const noexcept {
        return result_->contacts[i];
    }

    contactd_code find_column(contactd_column_id id, contactd_column *out) const noexcept {
        return contactd_result_column(result_, id, out);
    }

  private:
    detail::Connection client_;
    const contactd_result *result_;
};

/* The contacts of many scenes' steps, one scene's after the other's; needs no client. */
class ManyResult : public ContactColumns<ManyResult> {
  public:
    explicit ManyResult(contactd_many_result *result) noexcept : result_(result) {
    }
    ManyResult(ManyResult &&other) noexcept : result_(std::exchange(other.result_, nullptr)) {
    }
    ManyResult &operator=(ManyResult &&other) noexcept {
        std::swap(result_, other.result_);
        return *this;
    }
    ~ManyResult() {
        contactd_many_result_free(&result_);
    }
    const contactd_many_result &c() const noexcept {
        return *result_;
    }
    size_t size() const noexcept {
        return result_->n_contacts;
    }
    bool empty() const noexcept {
        return size() == 0;
    }
    Span<const uint32_t> offsets() const noexcept { /* scene k has the contacts from offsets()[k] to offsets()[k + 1] */
        return {result_->offsets, result_->n_scenes + 1};
    }
    Span<const uint32_t> scene_indices() const noexcept { /* of each contact */
        return {result_->scene_index, result_->n_contacts};
    }
    Span<const contactd_many_error> errors() const noexcept {
        return {result_->errors, result_->n_errors};
    }
    contactd_code find_column(contactd_column_id id, contactd_column *out) const noexcept {
        return contactd_many_column(result_, id, out);
    }

  private:
    contactd_many_result *result_;
};

class Step { /* in flight, until it is waited for; one that is not waited for changes its scene all the same */
  public:
    Step(detail::Connection client, contactd_ticket ticket) noexcept : client_(std::move(client)), ticket_(ticket) {
    }
    contactd_ticket ticket() const noexcept {
        return ticket_;
    }
    Result wait() const { /* once */
        const contactd_result *result;
        detail::check(client_, contactd_step_wait(client_.get(), ticket_, &result));
        return {client_, result};
    }
    std::optional<Result> try_wait() const { /* nothing: it has not been answered yet */
        const contactd_result *result;
        detail::check(client_, contactd_step_try_wait(client_.get(), ticket_, &result));
        if (!result) return std::nullopt;
        return Result(client_, result);
    }

  private:
    detail::Connection client_;
    contactd_ticket ticket_;
};

class Scene { /* closed with its owner */
  public:
    Scene(detail::Connection client, contactd_scene handle) noexcept : client_(std::move(client)), handle_(handle) {
    }
    Scene(Scene &&other) noexcept : client_(std::move(other.client_)), handle_(std::exchange(other.handle_, 0)) {
    }
    Scene &operator=(Scene &&other) noexcept {
        std::swap(client_, other.client_);
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Scene() {
        if (handle_) contactd_close_scene(client_.get(), handle_);
    }
    contactd_scene handle() const noexcept {
        return handle_;
    }
    contactd_scene handle_in(const detail::Connection &client) const { /* INVALID_ARGUMENT if it is another's */
        return detail::handle_in(client, client_, handle_, "scene");
    }
    void close() { /* as the end of the object, but an error is told */
        detail::check(client_, contactd_close_scene(client_.get(), handle_));
        handle_ = 0;
    }
    Body add_body(const Mesh &mesh, const BodyOptions &options = Rigid()) {
        contactd_body out;
        detail::check(client_, contactd_add_body(client_.get(), handle_, mesh.handle_in(client_), &options, &out));
        return Body(out);
    }
    /* Rigid bodies in one request, all or none: contactd_add_bodies. meshes: of each, or one of all. */
    std::vector<Body> add_bodies(const std::vector<const Mesh *> &meshes,
                                 const std::vector<std::array<double, 12>> &poses,
                                 const BodyOptions &options = Rigid()) {
        std::vector<contactd_mesh> handles;
        for (const Mesh *mesh : meshes) handles.push_back(mesh->handle_in(client_));
        std::vector<contactd_body> out(poses.size());
        const auto *rows = reinterpret_cast<const double(*)[12]>(poses.data());
        detail::check(client_, contactd_add_bodies(client_.get(), handle_, handles.data(), handles.size(), rows,
                                                   poses.size(), &options, out.data()));
        return std::vector<Body>(out.begin(), out.end());
    }
    Body add_half_space(const std::array<double, 3> &normal, double offset, const BodyOptions &options = Rigid()) {
        contactd_body out;
        detail::check(client_, contactd_add_half_space(client_.get(), handle_, normal.data(), offset, &options, &out));
        return Body(out);
    }
    Body add_shape(const contactd_shape &shape, const BodyOptions &options = Rigid()) {
        contactd_body out;
        detail::check(client_, contactd_add_shape(client_.get(), handle_, &shape, &options, &out));
        return Body(out);
    }
    void remove_body(Body body) {
        detail::check(client_, contactd_remove_body(client_.get(), handle_, body.handle()));
    }
    void set_material(Body body, const ct_material &material) {
        set_material(body, Body(), material);
    }
    void set_material(Body body, Body other, const ct_material &material) {
        detail::check(client_, contactd_set_material(client_.get(), handle_, body.handle(), other.handle(), &material));
    }
    /* n scenes with the same settings and bodies, where they are now: contactd_copy_scene. */
    std::vector<Scene> copies(size_t n) const {
        std::vector<contactd_scene> handles(n);
        std::vector<Scene> scenes;
        scenes.reserve(n);
        detail::check(client_, contactd_copy_scene(client_.get(), handle_, n, handles.data()));
        for (const contactd_scene handle : handles) scenes.emplace_back(client_, handle);
        return scenes;
    }
    void reset() { /* all bodies as they were when they were added, or copied */
        detail::check(client_, contactd_reset_scenes(client_.get(), &handle_, 1));
    }
    void configure(const Settings &settings) {
        detail::check(client_, contactd_configure(client_.get(), handle_, &settings));
    }
    contactd_scene_info info() const { /* its texts are valid until the next call */
        contactd_scene_info out;
        detail::check(client_, contactd_get_scene_info(client_.get(), handle_, &out));
        return out;
    }
    Result step(std::initializer_list<contactd_update> updates, const StepOptions &options = {}) {
        return step(Span<const contactd_update>(updates.begin(), updates.size()), options);
    }
    Step submit(std::initializer_list<contactd_update> updates, const StepOptions &options = {}) {
        return submit(Span<const contactd_update>(updates.begin(), updates.size()), options);
    }
    Result step(Span<const contactd_update> updates, const StepOptions &options = {}) {
        const contactd_result *result;
        detail::check(client_,
                      contactd_step(client_.get(), handle_, updates.data(), updates.size(), &options, &result));
        return {client_, result};
    }
    Step submit(Span<const contactd_update> updates, const StepOptions &options = {}) {
        contactd_ticket ticket;
        detail::check(client_,
                      contactd_step_submit(client_.get(), handle_, updates.data(), updates.size(), &options, &ticket));
        return {client_, ticket};
    }

  private:
    detail::Connection client_;
    contactd_scene handle_;
};

/* What moves in each of many scenes, which are built alike: the same bodies in all of them, one scene's after the other's. */
struct Motion {
    std::vector<Body> posed;
    Span<const Pose> poses; /* [scenes][posed] */
    std::vector<Body> moving;
    Span<const std::array<double, 6>> twists; /* [scenes][moving], as contactd_velocity.twist; the others are at rest */
    std::vector<Body> soft;
    Span<const float> positions; /* [scenes][vertices of all soft bodies][3] */
    uint32_t want = CONTACTD_WANT_FRAME;
    bool return_errors = false; /* of scenes whose steps fail, in ManyResult::errors; else the first is thrown */
};

class Client { /* closed with the last of its scenes, meshes and results */
  public:
    explicit Client(const char *address) : Client(Options(address)) {
    }
    explicit Client(const Options &options = {}) {
        contactd_client *client;
        contactd_error error;
        if (contactd_connect(&options, &client, &error) != CONTACTD_OK) throw Error(error);
        client_ = detail::Connection(client, [](contactd_client *c) { contactd_close(&c); });
    }
    contactd_client *c() const noexcept {
        return client_.get();
    }

    Mesh load(const char *path) {
        return mesh([&](contactd_mesh *out) { return contactd_register_mesh_file(c(), path, out); });
    }
    Mesh load(const std::string &path) {
        return load(path.c_str());
    }
    /* Three numbers a vertex, three indices a triangle. */
    Mesh register_mesh(Span<const float> positions, Span<const uint32_t> triangles, const MeshOptions &options = {},
                       const char *name = nullptr) {
        const size_t n = detail::rows_of_three(positions, "positions"),
                     m = detail::rows_of_three(triangles, "triangles");
        return mesh([&](contactd_mesh *out) {
            return contactd_register_mesh_with(c(), name, positions.data(), n, triangles.data(), m, &options, out);
        });
    }
    Mesh register_mesh(Span<const double> positions, Span<const uint32_t> triangles, const char *name = nullptr) {
        const size_t n = detail::rows_of_three(positions, "positions"),
                     m = detail::rows_of_three(triangles, "triangles");
        return mesh([&](contactd_mesh *out) {
            return contactd_register_mesh_f64(c(), name, positions.data(), n, triangles.data(), m, out);
        });
    }
    Mesh register_shape(const contactd_shape &shape) {
        return mesh([&](contactd_mesh *out) { return contactd_register_shape(c(), &shape, out); });
    }
    Scene open_scene(const Settings &settings = {}, const char *name = nullptr) {
        contactd_scene out;
        detail::check(client_, contactd_open_scene(c(), name, &settings, &out));
        return {client_, out};
    }
    Overlap overlap(const Mesh &a, const Mesh &b, const Settings &settings = {}) {
        return find_overlap(a, nullptr, b, nullptr, settings);
    }
    Overlap overlap(const Mesh &a, const Pose &pose_a, const Mesh &b, const Pose &pose_b,
                    const Settings &settings = {}) {
        return find_overlap(a, pose_a.data(), b, pose_b.data(), settings);
    }
    /* Scene::reset of all of them, in one message. */
    void reset(Span<const Scene> scenes) {
        std::vector<contactd_scene> handles;
        for (const Scene &scene : scenes) handles.push_back(scene.handle_in(client_));
        detail::check(client_, contactd_reset_scenes(c(), handles.data(), handles.size()));
    }
    /* A step of each of the scenes, in one message: contactd_step_many. */
    ManyResult step_many(Span<const Scene> scenes, const Motion &motion = {}) {
        std::vector<contactd_scene> handles;
        for (const Scene &scene : scenes) handles.push_back(scene.handle_in(client_));
        const auto posed = handles_of(motion.posed), moving = handles_of(motion.moving), soft = handles_of(motion.soft);
        if (motion.poses.size() != scenes.size() * posed.size())
            detail::refuse("steps of many scenes", "poses", "expected a pose for each body of posed in each scene");
        if (motion.twists.size() != scenes.size() * moving.size())
            detail::refuse("steps of many scenes", "twists", "expected a twist for each body of moving in each scene");
        contactd_many many;
        contactd_many_init(&many);
        many.scenes = handles.data(), many.n_scenes = handles.size();
        many.posed = posed.data(), many.n_posed = posed.size();
        many.moving = moving.data(), many.n_moving = moving.size();
        many.soft = soft.data(), many.n_soft = soft.size();
        many.poses = motion.poses.empty() ? nullptr : motion.poses[0].data();
        many.twists = motion.twists.empty() ? nullptr : motion.twists[0].data();
        many.positions = motion.positions.data(), many.n_positions = motion.positions.size() / 3;
        many.want = motion.want;
        contactd_many_result *out = nullptr;
        detail::check(client_, contactd_step_many(c(), &many, &out));
        ManyResult result(out);
        if (!motion.return_errors && !result.errors().empty()) throw Error(result.errors()[0].error);
        return result;
    }
    /* The first submitted of the steps that are answered, or that is answered next; 0: none is in flight. */
    contactd_ticket wait_any() {
        contactd_ticket out;
        detail::check(client_, contactd_wait_any(c(), &out));
        return out;
    }
    int fd() const noexcept {
        return contactd_fd(c());
    }
    int process() { /* contactd_process: milliseconds until it is to be called again, or -1 */
        int wait_ms;
        detail::check(client_, contactd_process(c(), &wait_ms));
        return wait_ms;
    }
    void set_timeout(uint32_t timeout_ms) {
        detail::check(client_, contactd_set_timeout(c(), timeout_ms));
    }
    double ping_us() {
        double out;
        detail::check(client_, contactd_ping(c(), &out));
        return out;
    }

  private:
    static std::vector<contactd_body> handles_of(const std::vector<Body> &bodies) {
        std::vector<contactd_body> handles;
        for (const Body body : bodies) handles.push_back(body.handle());
        return handles;
    }
    template <class Register> Mesh mesh(Register register_it) {
        contactd_mesh out;
        detail::check(client_, register_it(&out));
        return {client_, out};
    }
    Overlap find_overlap(const Mesh &a, const double *pose_a, const Mesh &b, const double *pose_b,
                         const Settings &settings) {
        Overlap out;
        const contactd_mesh handles[] = {a.handle_in(client_), b.handle_in(client_)};
        detail::check(client_, contactd_find_overlap(c(), handles[0], pose_a, handles[1], pose_b, &settings, &out));
        return out;
    }
    detail::Connection client_;
};

} // namespace contactd

#endif
