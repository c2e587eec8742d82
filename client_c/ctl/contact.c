/* contact.c - contactctl contact A [B]: takes one or two meshes, from files or from the server, makes one step of
 * them, and prints their contacts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_c/ctl/options.h"
#include "client_c/ctl/progress.h"
#include "proto/contact_rows.h"

enum { NO_GROUP = 65535 };

typedef struct side { /* one of the two bodies */
    const char *path; /* NULL: a half-space */
    bool is_hash;     /* path is that of a mesh that the server has, and no file's */
    double plane[4];  /* of a half-space: normal and offset */
    unsigned char *bytes;
    size_t size;
    double pose[12];
    contactd_mesh mesh;
    contactd_mesh_info info;
    char hash[33];
} side;

/* How both sides move, from the command line. */
typedef struct motion {
    bool has_twist;
    double twist[2][6];
    double viscosity; /* N s/m^3 */
} motion;

/* Whether a word names a mesh of the server: 8 to 32 hexadecimal digits, and no file. */
static bool is_hash(const char *word) {
    const size_t n = strlen(word);
    return n >= 8 && n <= 32 && strspn(word, "0123456789abcdefABCDEF") == n && access(word, F_OK) != 0;
}

static int use_mesh(ctl *ctl, side *s) {
    if (contactd_use_mesh(ctl->client, s->path, &s->mesh) || contactd_get_mesh_info(ctl->client, s->mesh, &s->info))
        return ctl_error(ctl, s->path);
    snprintf(s->hash, sizeof s->hash, "%s", s->info.hash);
    return EXIT_OK;
}

static int upload(ctl *ctl, side *s) {
    if (s->is_hash) return use_mesh(ctl, s);
    const char *slash = strrchr(s->path, '/'), *name = slash ? slash + 1 : s->path;
    contactd_mesh_options options;
    if (!ctl_mesh_options(ctl, &options)) return EXIT_USAGE;
    if (ctl_register_file(ctl, name, s->bytes, s->size, &options, &s->mesh) ||
        contactd_get_mesh_info(ctl->client, s->mesh, &s->info))
        return ctl_error(ctl, s->path);
    snprintf(s->hash, sizeof s->hash, "%s", s->info.hash);
    return EXIT_OK;
}

/* Of all methods but voxtree, whose contacts have an interval, weights are shares of the area. */
static void print_points_json(const contactd_contact *c) {
    json_open("points", '[');
    for (uint64_t i = 0; i < c->n_points; i++) {
        const double *point = c->points + 8 * i;
        json_open(NULL, '{');
        json_numbers("position", point, 3);
        json_numbers("normal", point + 3, 3);
        json_number("depth", point[6]);
        json_number("weight", point[7]);
        if (isnan(c->volume_lower)) json_number("area", point[7] * c->area);
        json_open("group", '[');
        for (int b = 0; b < 2; b++) {
            const uint32_t group = c->point_groups ? c->point_groups[2 * i + (uint64_t)b] : NO_GROUP;
            json_number(NULL, group == NO_GROUP ? NAN : group); /* null: the inside */
        }
        json_close(']');
        json_close('}');
    }
    json_close(']');
}

static void print_separations_json(const contactd_result *result) {
    json_open("separations", '[');
    for (uint32_t i = 0; i < result->n_separations; i++) {
        const contactd_separation *s = &result->separations[i];
        json_open(NULL, '{');
        json_numbers("bodies", (double[]){s->bodies[0], s->bodies[1]}, 2);
        json_number("distance", s->distance);
        json_numbers("normal", s->normal, 3);
        json_open("points", '[');
        for (int b = 0; b < 2; b++) json_numbers(NULL, s->points[b], 3);
        json_close(']');
        json_close('}');
    }
    json_close(']');
}

static void print_progress_json(const contactd_result *result) {
    json_number("quality", result->quality);
    json_open("progress", '[');
    for (uint32_t i = 0; i < result->n_progress; i++) {
        const contactd_pair_progress *p = &result->progress[i];
        json_open(NULL, '{');
        json_numbers("bodies", (double[]){p->bodies[0], p->bodies[1]}, 2);
        json_bool("examined", p->is_examined);
        json_bool("refined", p->is_refined);
        json_numbers("levels", (double[]){p->levels[0], p->levels[1]}, 2);
        json_text("ended", p->ended);
        json_close('}');
    }
    json_close(']');
}

/* A field as its row says: a number, a list, or a list of lists. */
static void field_json(const ct_contact_row *row, const contactd_contact *c) {
    const char *at = (const char *)c + row->offset;
    if (row->type == CT_CONTACT_IS_U32) {
        json_count(row->name, *(const uint32_t *)(const void *)at);
    } else if (row->type == CT_CONTACT_IS_U64) {
        json_count(row->name, *(const uint64_t *)(const void *)at);
    } else if (row->type == CT_CONTACT_IS_FLAG) {
        json_bool(row->name, *(const bool *)(const void *)at);
    } else if (row->type == CT_CONTACT_IS_I32) {
        const int32_t *cell = (const int32_t *)(const void *)at;
        json_numbers(row->name, (double[]){cell[0], cell[1], cell[2]}, 3);
    } else if (!row->rows) {
        json_number(row->name, *(const double *)(const void *)at);
    } else if (row->rows == 1) {
        json_numbers(row->name, (const double *)(const void *)at, (size_t)row->columns);
    } else {
        json_open(row->name, '[');
        for (int i = 0; i < row->rows; i++)
            json_numbers(NULL, (const double *)(const void *)at + i * row->columns, (size_t)row->columns);
        json_close(']');
    }
}

/* groups: CT_CONTACT_... */
static void contact_fields(const contactd_contact *c, unsigned groups) {
    groups |= CT_CONTACT_FRAME;
    if (!isnan(c->error_bounds[0])) groups |= CT_CONTACT_BOUNDS;
    if (!isnan(c->volume_lower)) groups |= CT_CONTACT_INTERVAL;
    json_numbers("bodies", (double[]){c->bodies[0], c->bodies[1]}, 2);
    for (int k = 0; k < CT_CONTACT_ROWS; k++) {
        const ct_contact_row *row = &ct_contact_rows[k];
        if (!row->group || row->group & groups) field_json(row, c);
    }
    json_numbers("gradient_nonzeros", (double[]){(double)c->sparse[0].n, (double)c->sparse[1].n}, 2);
}

static void polygon_vectors_json(const char *name, const contactd_contact *c, size_t offset) {
    json_open(name, '[');
    for (uint64_t i = 0; i < c->n_polygons; i++)
        json_numbers(NULL, (const double *)(const void *)((const char *)&c->polygons[i] + offset), 3);
    json_close(']');
}

/* The columns that HTTP gives. */
static void surface_json(const contactd_contact *c) {
    const uint32_t first = c->polygon_offsets[0], n = c->polygon_offsets[c->n_polygons] - first;
    const contactd_polygon_vertex *v = c->polygon_vertices + first;
    json_open("surface", '{');
    json_open("offsets", '[');
    for (uint64_t i = 0; i <= c->n_polygons; i++) json_count(NULL, c->polygon_offsets[i] - first);
    json_close(']');
    json_open("vertices", '[');
    for (uint32_t i = 0; i < n; i++) json_numbers(NULL, v[i].position, 3);
    json_close(']');
    json_open("depths", '[');
    for (uint32_t i = 0; i < n; i++) json_number(NULL, v[i].depth);
    json_close(']');
    json_open("pressures", '[');
    for (uint32_t i = 0; i < n; i++) json_number(NULL, v[i].pressure);
    json_close(']');
    json_open("areas", '[');
    for (uint64_t i = 0; i < c->n_polygons; i++) json_number(NULL, c->polygons[i].area);
    json_close(']');
    polygon_vectors_json("centers", c, offsetof(contactd_polygon, center));
    polygon_vectors_json("normals", c, offsetof(contactd_polygon, normal));
    polygon_vectors_json("slips", c, offsetof(contactd_polygon, slip));
    polygon_vectors_json("forces", c, offsetof(contactd_polygon, force));
    polygon_vectors_json("torques", c, offsetof(contactd_polygon, torque));
    json_close('}');
}

static void print_surface(const contactd_contact *c) {
    double area = 0, depth = 0, pressure = 0;
    for (uint64_t i = 0; i < c->n_polygons; i++) area += c->polygons[i].area;
    for (uint32_t v = c->polygon_offsets[0]; v < c->polygon_offsets[c->n_polygons]; v++) {
        depth = fmax(depth, c->polygon_vertices[v].depth);
        pressure = fmax(pressure, c->polygon_vertices[v].pressure);
    }
    printf("surface    %llu polygons, %.9g m^2, up to %.9g m deep", (unsigned long long)c->n_polygons, area, depth);
    if (pressure > 0) printf(", up to %.6g Pa", pressure);
    printf("\n");
}

static void cells_json(const contactd_contact *c, unsigned slip) {
    json_open("cells", '[');
    for (uint32_t i = 0; i < c->n_cells; i++) {
        json_open(NULL, '{');
        contact_fields(&c->cells[i], CT_CONTACT_CELL | slip);
        json_close('}');
    }
    json_close(']');
}

static void print_json(const side *sides, int n_sides, const contactd_result *result, bool has_inertia) {
    json_open(NULL, '{');
    const unsigned slip = result->has_slip ? CT_CONTACT_SLIP : 0u;
    json_open("contacts", '[');
    for (uint32_t i = 0; i < result->n_contacts; i++) {
        const contactd_contact *c = &result->contacts[i];
        json_open(NULL, '{');
        contact_fields(c,
                       slip | (has_inertia ? CT_CONTACT_INERTIA : 0u) | (result->has_wrenches ? CT_CONTACT_LAW : 0u));
        if (c->n_cells) cells_json(c, slip);
        if (!isnan(c->volume_lower) || c->n_points) print_points_json(c);
        if (c->polygons) surface_json(c);
        json_close('}');
    }
    json_close(']');
    json_text("method", result->method);
    json_text("backend", result->backend);
    json_count("rays", result->rays);
    json_text("ended", result->ended);
    json_count("passes", result->passes);
    if (result->settings.margin > 0) print_separations_json(result);
    print_progress_json(result);
    json_open("warnings", '[');
    for (uint32_t i = 0; i < result->n_warnings; i++) {
        json_open(NULL, '{');
        json_text("code", contactd_warning_name(result->warnings[i].code));
        json_count("body", result->warnings[i].body);
        json_number("volume", result->warnings[i].value);
        json_close('}');
    }
    json_close(']');
    json_open("timings_us", '{');
    for (int p = 0; p < CONTACTD_PHASES; p++) json_number(contactd_phase_name(p), result->timings_us[p]);
    json_close('}');
    json_open("wall_us", '{');
    for (int p = 0; p < CONTACTD_PHASES; p++) json_number(contactd_phase_name(p), result->wall_us[p]);
    json_close('}');
    json_open("bodies", '[');
    for (int b = 0; b < n_sides; b++) {
        json_open(NULL, '{');
        json_count("body", (uint64_t)b + 1);
        if (!sides[b].path) {
            json_numbers("half_space", sides[b].plane, 4);
            json_close('}');
            continue;
        }
        json_text("file", sides[b].path);
        json_text("mesh", sides[b].hash);
        json_count("vertices", sides[b].info.vertices);
        json_count("triangles", sides[b].info.triangles);
        json_number("volume", sides[b].info.volume);
        json_close('}');
    }
    json_close(']');
    json_close('}');
}

static void print_warnings(const contactd_result *result) {
    for (uint32_t i = 0; i < result->n_warnings; i++) {
        const contactd_warning *w = &result->warnings[i];
        char volume[40] = "";
        if (!isnan(w->value)) snprintf(volume, sizeof volume, " (%.9g m^3)", w->value);
        ctl_say("warning: body %u: %s: %s%s", w->body, contactd_warning_name(w->code), contactd_warning_text(w->code),
                volume);
    }
}

/* Where there is a bound, views need not be told about. is_proven: the bound is. */
static void print_volume(const contactd_contact *c, bool is_proven) {
    if (isnan(c->error_bound)) {
        printf("volume     %.9g m^3 (along x %.9g, y %.9g, z %.9g)\n", c->volume, c->volumes[0], c->volumes[1],
               c->volumes[2]);
        printf("error      about %.3g m^3\n", c->error_estimate);
    } else {
        printf("volume     %.9g m^3\n", c->volume);
        printf("error      at most %.3g m^3%s\n", c->error_bound, is_proven ? "" : " by the published bound");
    }
    if (!isnan(c->volume_lower)) printf("between    %.9g and %.9g m^3\n", c->volume_lower, c->volume_upper);
    const bool is_self = c->bodies[0] == c->bodies[1];
    if (c->max_winding > 1)
        printf("winding    up to %u: %s\n", c->max_winding,
               is_self ? "the body lies there once more, and the volume counts each two layers"
                       : "a body overlaps itself, and the volume counts that part as often");
    if (c->inverted_volume > 0)
        printf("inverted   %.9g m^3 more, where a body is inside out; the volume leaves it out\n", c->inverted_volume);
    if (c->inverted_triangles > 0)
        printf("inverted   at %u triangles a body is inside out; the volume counts that part%s\n",
               c->inverted_triangles, is_self ? "" : " negatively");
}

static void print_nested(const contactd_contact *c) {
    if (c->is_nested) printf("nested     one surface is wholly inside the other: no direction lessens the volume\n");
}

static void print_slip(const contactd_contact *c) {
    const double *v = c->relative_velocity;
    printf("slip       %.9g %.9g %.9g m/s, spin %.9g rad/s about the normal (%u against %u)\n", v[0], v[1], v[2],
           c->spin, c->bodies[1], c->bodies[0]);
    for (int b = 0; b < 2; b++) {
        const double *f = c->friction[b];
        printf("friction   body %u: force %.6g %.6g %.6g N, torque %.6g %.6g %.6g N m\n", c->bodies[b], f[0], f[1],
               f[2], f[3], f[4], f[5]);
    }
}

static void print_cells(const contactd_contact *c, double cell_size) {
    if (!c->n_cells) return;
    printf("cells      %u of %g m\n%-24s %14s %14s %10s %10s %10s\n", c->n_cells, cell_size, "  from (m)",
           "volume (m^3)", "area (m^2)", "normal x", "y", "z");
    for (uint32_t i = 0; i < c->n_cells; i++) {
        const contactd_contact *cell = &c->cells[i];
        char from[64];
        snprintf(from, sizeof from, "  %g %g %g", cell->cell[0] * cell_size, cell->cell[1] * cell_size,
                 cell->cell[2] * cell_size);
        printf("%-24s %14.6g %14.6g %10.6f %10.6f %10.6f\n", from, cell->volume, cell->area, cell->normal[0],
               cell->normal[1], cell->normal[2]);
    }
}

static void print_table(const side *sides, int n_sides, const contactd_result *result, bool is_strict,
                        bool has_inertia) {
    for (int b = 0; b < n_sides; b++)
        if (sides[b].path)
            printf("body %d     %s: %llu triangles, %.9g m^3\n", b + 1, sides[b].path,
                   (unsigned long long)sides[b].info.triangles, sides[b].info.volume);
        else
            printf("body %d     half-space below %.9g along %.9g %.9g %.9g\n", b + 1, sides[b].plane[3],
                   sides[b].plane[0], sides[b].plane[1], sides[b].plane[2]);
    bool is_examined = true;
    for (uint32_t i = 0; i < result->n_progress; i++) is_examined = is_examined && result->progress[i].is_examined;
    for (uint32_t i = 0; i < result->n_separations; i++) {
        const contactd_separation *s = &result->separations[i];
        printf("apart      %.9g m, from %.9g %.9g %.9g of body %u to %.9g %.9g %.9g of body %u\n", s->distance,
               s->points[0][0], s->points[0][1], s->points[0][2], s->bodies[0], s->points[1][0], s->points[1][1],
               s->points[1][2], s->bodies[1]);
        printf("normal     %.6f %.6f %.6f (pushes body %u away)\n", s->normal[0], s->normal[1], s->normal[2],
               s->bodies[0]);
    }
    if (result->n_contacts == 0) printf(is_examined ? "no overlap\n" : "not examined: the budget was used up before\n");
    for (uint32_t i = 0; i < result->n_contacts; i++) {
        const contactd_contact *c = &result->contacts[i];
        const bool is_self = c->bodies[0] == c->bodies[1];
        if (is_self)
            printf("itself     body %u overlaps itself; part 1 and part 2 are the surfaces that do\n", c->bodies[0]);
        else if (c->index > 0 || (i + 1 < result->n_contacts && c[1].index > 0))
            printf("patch %u\n", c->index);
        print_volume(c, is_strict || strcmp(result->method, "ebpi") != 0);
        printf("area       %.9g m^2, mean depth %.9g m\n", c->area, c->depth);
        printf("normal     %.6f %.6f %.6f (pushes %s %u out)\n", c->normal[0], c->normal[1], c->normal[2],
               is_self ? "part" : "body", is_self ? 1 : c->bodies[0]);
        printf("center     %.9g %.9g %.9g m\n", c->center[0], c->center[1], c->center[2]);
        for (uint64_t p = 0; p < c->n_points; p++) {
            const double *point = c->points + 8 * p;
            printf("point      %.9g %.9g %.9g m, normal %.6f %.6f %.6f, depth %.6g m, weight %.4f\n", point[0],
                   point[1], point[2], point[3], point[4], point[5], point[6], point[7]);
        }
        if (c->polygons) print_surface(c);
        for (int k = 0; has_inertia && k < 3; k++)
            printf("%-10s %.9g %.9g %.9g m^5\n", k ? "" : "inertia", c->inertia[k][0], c->inertia[k][1],
                   c->inertia[k][2]);
        for (int b = 0; b < 2; b++) {
            const double *g = c->generalized_gradient[b];
            printf("gradient   %s %u: translation %.6g %.6g %.6g m^2, rotation %.6g %.6g %.6g m^3, %llu vertices\n",
                   is_self ? "part" : "body", is_self ? (uint32_t)b + 1 : c->bodies[b], g[0], g[1], g[2], g[3], g[4],
                   g[5], (unsigned long long)c->sparse[b].n);
        }
        print_nested(c);
        if (result->has_slip) print_slip(c);
        for (int b = 0; b < 2 && result->has_wrenches; b++)
            printf("wrench     %s %u: force %.6g %.6g %.6g N, torque %.6g %.6g %.6g N m\n", is_self ? "part" : "body",
                   is_self ? (uint32_t)b + 1 : c->bodies[b], c->wrench[b][0], c->wrench[b][1], c->wrench[b][2],
                   c->wrench[b][3], c->wrench[b][4], c->wrench[b][5]);
        print_cells(c, result->settings.cell_size);
    }
    if (strcmp(result->ended, "completed") != 0 && !result->n_progress)
        printf("ended      %s: the bound is above the tolerance\n", result->ended);
    for (uint32_t i = 0; i < result->n_progress; i++)
        if (result->progress[i].is_examined)
            printf("trees      compared down to levels %u and %u%s; ended: %s\n", result->progress[i].levels[0],
                   result->progress[i].levels[1], result->progress[i].is_refined ? ", then exactly" : "",
                   result->progress[i].ended);
    printf("computed   %s on %s, %llu rays;", result->method, result->backend, (unsigned long long)result->rays);
    for (int p = 0; p < CONTACTD_PHASES; p++) printf(" %s %.0f", contactd_phase_name(p), result->wall_us[p]);
    printf(" us\n");
}

/* What both bodies are made of together, NaN where nothing is said. */
static bool material_of(const ctl *ctl, const contactd_settings *settings, ct_material *out) {
    static const ctl_option options[] = {OPT_MODULUS, OPT_FRICTION, OPT_STATIC_FRICTION, OPT_DISSIPATION};
    double *const fields[] = {&out->modulus, &out->friction, &out->static_friction, &out->dissipation};
    *out = CT_MATERIAL_NONE;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (!ctl->options[options[i]]) continue;
        if (settings->law != CT_LAW_PRESSURE) {
            ctl_mistake("%s is given, but forces follow from volumes: give --law pressure",
                        ctl_option_name(options[i]));
            return false;
        }
        if (!ctl_numbers(ctl, options[i], fields[i], 1, "a number")) return false;
    }
    return true;
}

static int step_once(ctl *ctl, side *sides, int n_sides, const contactd_settings *settings, double budget,
                     const motion *motion, const ct_material *material) {
    contactd_scene scene;
    contactd_velocity velocities[2] = {{0}};
    for (int b = 0; b < 2; b++) memcpy(velocities[b].twist, motion->twist[b], sizeof velocities[b].twist);
    if (contactd_open_scene(ctl->client, "contactctl contact", settings, &scene)) return ctl_error(ctl, "scene");
    for (int b = 0; b < n_sides; b++) {
        contactd_body_options options;
        contactd_body body;
        contactd_body_options_init(&options);
        if (!sides[b].path) {
            if (contactd_add_half_space(ctl->client, scene, sides[b].plane, sides[b].plane[3], NULL, &body))
                return ctl_error(ctl, "half-space");
            velocities[b].body = body;
            continue;
        }
        options.rigid = true;
        options.self_contact = ctl->options[OPT_SELF] != NULL;
        memcpy(options.pose, sides[b].pose, sizeof options.pose);
        if (contactd_add_body(ctl->client, scene, sides[b].mesh, &options, &body)) return ctl_error(ctl, sides[b].path);
        velocities[b].body = body;
    }
    if (settings->law == CT_LAW_PRESSURE &&
        contactd_set_material(ctl->client, scene, velocities[0].body, velocities[n_sides - 1].body, material))
        return ctl_error(ctl, "material");
    contactd_step_options options;
    contactd_step_options_init(&options);
    options.want = CONTACTD_WANT_FRAME | CONTACTD_WANT_GRADIENT;
    if (budget > 0) options.time_budget_us = (uint32_t)budget;
    if (motion->has_twist) {
        options.velocities = velocities;
        options.n_velocities = (size_t)n_sides;
        options.viscosity = motion->viscosity;
    }
    const bool has_inertia = ctl->options[OPT_INERTIA] != NULL;
    if (has_inertia) options.want |= CONTACTD_WANT_INERTIA;
    if (ctl->options[OPT_SURFACE]) options.want |= CONTACTD_WANT_SURFACE;
    const contactd_result *result;
    progress_begin(PROGRESS_WAITS, 0, "computing contacts");
    if (contactd_step(ctl->client, scene, NULL, 0, &options, &result)) return ctl_error(ctl, "step");
    progress_end();
    if (ctl->json)
        print_json(sides, n_sides, result, has_inertia);
    else
        print_table(sides, n_sides, result, settings->strict == 1, has_inertia);
    if (!ctl->json) print_warnings(result);
    return EXIT_OK;
}

static bool motion_of(const ctl *ctl, int n_sides, motion *out) {
    static const char expected[] = "6 numbers: a velocity in m/s, then an angular velocity in rad/s";
    *out = (motion){.has_twist = ctl->options[OPT_TWIST_A] || ctl->options[OPT_TWIST_B]};
    if (n_sides == 1 && ctl->options[OPT_TWIST_B]) {
        ctl_mistake("--twist-b is given, but no B");
        return false;
    }
    if (ctl->options[OPT_VISCOSITY] && !out->has_twist) {
        ctl_mistake("--viscosity is given, but nothing moves: give --twist-a or --twist-b");
        return false;
    }
    if (!ctl_numbers(ctl, OPT_TWIST_A, out->twist[0], 6, expected) ||
        !ctl_numbers(ctl, OPT_TWIST_B, out->twist[1], 6, expected) || !ctl_number(ctl, OPT_VISCOSITY, &out->viscosity))
        return false;
    if (out->viscosity >= 0) return true;
    ctl_mistake("--viscosity is \"%s\", expected a number >= 0 in N s/m^3", ctl->options[OPT_VISCOSITY]);
    return false;
}

static int read_side(const ctl *ctl, side *s) {
    static const ctl_option making[] = {OPT_REPAIR, OPT_MAX_HOLE,       OPT_WELD,    OPT_SCALE,
                                        OPT_UNIT,   OPT_OPEN_DIRECTION, OPT_CLOSING, OPT_WRAP_RESOLUTION};
    s->is_hash = is_hash(s->path);
    for (size_t i = 0; s->is_hash && i < sizeof making / sizeof *making; i++)
        if (ctl->options[making[i]])
            return ctl_mistake("%s is for files, and %s is a mesh that the server has: register its file with it",
                               ctl_option_name(making[i]), s->path);
    return s->is_hash || ctl_read_mesh(s->path, &s->bytes, &s->size) ? EXIT_OK : EXIT_USAGE;
}

int ctl_contact(ctl *ctl) {
    const bool has_plane = ctl->options[OPT_HALF_SPACE];
    side sides[2] = {{.path = ctl->args[0], .pose = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}},
                     {.path = ctl->n_args > 1 ? ctl->args[1] : NULL, .pose = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}}};
    contactd_settings settings;
    double budget = -1;
    motion motion;
    ct_material material;
    const int n_sides = has_plane ? 2 : ctl->n_args;
    if (has_plane && (ctl->n_args > 1 || ctl->options[OPT_POSE_B]))
        return ctl_mistake("--half-space takes the place of B and has no pose");
    if (has_plane && !ctl_numbers(ctl, OPT_HALF_SPACE, sides[1].plane, 4, "four numbers: NX,NY,NZ,OFFSET"))
        return EXIT_USAGE;
    if (n_sides == 1 && !ctl->options[OPT_SELF])
        return ctl_mistake("expected contact A B, contact A --half-space, or contact A --self");
    if (n_sides == 1 && ctl->options[OPT_POSE_B]) return ctl_mistake("--pose-b is given, but no file B");
    if (!ctl_settings(ctl, &settings) || !ctl_count(ctl, OPT_BUDGET, UINT32_MAX, &budget) ||
        !ctl_pose(ctl, OPT_POSE_A, sides[0].pose) || !ctl_pose(ctl, OPT_POSE_B, sides[1].pose) ||
        !motion_of(ctl, n_sides, &motion) || !material_of(ctl, &settings, &material))
        return EXIT_USAGE;
    int code = EXIT_OK;
    for (int b = 0; b < n_sides && code == EXIT_OK; b++)
        if (sides[b].path) code = read_side(ctl, &sides[b]);
    if (code == EXIT_OK) code = ctl_connect(ctl);
    for (int b = 0; b < n_sides && code == EXIT_OK; b++)
        if (sides[b].path) code = upload(ctl, &sides[b]);
    if (code == EXIT_OK) code = step_once(ctl, sides, n_sides, &settings, budget, &motion, &material);
    for (int b = 0; b < n_sides; b++) free(sides[b].bytes);
    return code;
}
