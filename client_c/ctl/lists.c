/* lists.c - contactctl mesh, scene and status: what the server holds, and changing it. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/ctl/ctl.h"
#include "client_c/ctl/report.h"
#include "proto/setting_rows.h"

static const char *size_text(uint64_t bytes, char buffer[32]) {
    const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int u = 0;
    for (; value >= 1024 && u < 4; u++) value /= 1024;
    snprintf(buffer, 32, u ? "%.1f %s" : "%.0f %s", value, units[u]);
    return buffer;
}

/* ---- meshes ---- */

static const char *const change_names[CONTACTD_CHANGE_KINDS] = {
    [CONTACTD_DEGENERATE_TRIANGLES] = "degenerate_triangles",
    [CONTACTD_DUPLICATE_TRIANGLES] = "duplicate_triangles",
    [CONTACTD_WELDED_VERTICES] = "welded_vertices",
    [CONTACTD_TURNED_TRIANGLES] = "turned_triangles",
    [CONTACTD_FILLED_HOLES] = "filled_holes",
};

/* As in the answers over HTTP. */
static void repair_json(const contactd_repair *r) {
    uint64_t all = 0;
    for (int k = 0; k < CONTACTD_CHANGE_KINDS; k++) all += r->counts[k];
    json_open("repair", '{');
    json_bool("changed", all > 0);
    json_count("fill_triangles", r->fill_triangles);
    json_number("moved", r->moved);
    json_number("self_overlap", r->self_overlap);
    for (int k = 0; k < CONTACTD_CHANGE_KINDS; k++) {
        json_open(change_names[k], '{');
        json_count("count", r->counts[k]);
        json_open("first", '[');
        for (uint32_t i = 0; i < r->n_changes; i++) {
            const contactd_change *change = &r->changes[i];
            if ((int)change->kind != k) continue;
            json_open(NULL, '{');
            json_count("index", change->index);
            json_numbers("at", change->at, 3);
            if (k == CONTACTD_FILLED_HOLES) json_count("edges", change->edges);
            json_close('}');
        }
        json_close(']');
        json_close('}');
    }
    json_close('}');
}

static void repair_rows(const contactd_repair *r) {
    static const char *const lines[CONTACTD_CHANGE_KINDS] = {
        [CONTACTD_DEGENERATE_TRIANGLES] = "degenerate triangles dropped",
        [CONTACTD_DUPLICATE_TRIANGLES] = "duplicate triangles dropped",
        [CONTACTD_WELDED_VERTICES] = "vertices welded",
        [CONTACTD_TURNED_TRIANGLES] = "triangles turned",
        [CONTACTD_FILLED_HOLES] = "holes filled",
    };
    uint64_t all = 0;
    for (int k = 0; k < CONTACTD_CHANGE_KINDS; k++) {
        all += r->counts[k];
        if (!r->counts[k]) continue;
        printf("  repair: %" PRIu64 " %s", r->counts[k], lines[k]);
        if (k == CONTACTD_FILLED_HOLES) printf(" with %" PRIu64 " triangles", r->fill_triangles);
        const char *between = ": ";
        for (uint32_t i = 0; i < r->n_changes; i++) {
            const contactd_change *change = &r->changes[i];
            if ((int)change->kind != k) continue;
            if (k == CONTACTD_FILLED_HOLES)
                printf("%s%u edges", between, change->edges);
            else
                printf("%s%" PRIu64, between, change->index);
            printf(" at (%g, %g, %g)", change->at[0], change->at[1], change->at[2]);
            between = ", ";
        }
        printf("%s\n", r->counts[k] > 4 ? ", ..." : "");
    }
    if (!all) printf("  repair: nothing to do\n");
    if (r->self_overlap > 0) printf("  it overlaps itself in %g m^3, where contacts count twice\n", r->self_overlap);
}

static void mesh_json(const contactd_mesh_info *m, const contactd_repair *repair) {
    json_open(NULL, '{');
    json_text("hash", m->hash);
    json_text("name", m->name);
    json_count("id", m->id);
    json_count("vertices", m->vertices);
    json_count("closing_vertices", m->closing_vertices);
    json_count("triangles", m->triangles);
    json_count("bytes", m->bytes);
    json_number("volume", m->volume);
    json_number("area", m->area);
    json_numbers("lo", m->lo, 3);
    json_numbers("hi", m->hi, 3);
    if (m->shells) {
        json_count("shells", m->shells);
        json_count("doubled_shells", m->doubled_shells);
        json_numbers("center_of_mass", m->center_of_mass, 3);
        json_open("inertia", '[');
        for (int k = 0; k < 3; k++) json_numbers(NULL, m->inertia[k], 3);
        json_close(']');
    }
    json_count("bodies", m->bodies);
    json_bool("existed", m->existed);
    const int closing = repair ? (int)repair->closing : m->closing;
    if (closing == CONTACTD_CLOSING_HULL) json_text("closing", "hull");
    if (closing == CONTACTD_CLOSING_WRAP) {
        json_text("closing", "wrap");
        json_number("deviation", repair ? repair->deviation : m->deviation);
    }
    if (repair && repair->uneven_polygons) {
        json_count("uneven_polygons", repair->uneven_polygons);
        json_number("unevenness", repair->unevenness);
    }
    if (repair && repair->was_asked) repair_json(repair);
    json_close('}');
}

static void mesh_head(void) {
    printf("%-32s %10s %10s %10s %12s %6s  %s\n", "HASH", "VERTICES", "TRIANGLES", "MEMORY", "VOLUME m^3", "BODIES",
           "NAME");
}
static void mesh_row(const contactd_mesh_info *m) {
    char size[32];
    printf("%-32s %10" PRIu64 " %10" PRIu64 " %10s %12.6g %6u  %s%s\n", m->hash, m->vertices, m->triangles,
           size_text(m->bytes, size), m->volume, m->bodies, m->name, m->existed ? " (was there already)" : "");
    if (m->doubled_shells)
        printf("  %u of its %u shells %s where another does: what is inside counts twice; --repair drops %s\n",
               m->doubled_shells, m->shells, m->doubled_shells > 1 ? "lie" : "lies",
               m->doubled_shells > 1 ? "them" : "it");
}

bool ctl_mesh_options(ctl *ctl, contactd_mesh_options *out) {
    contactd_mesh_options_init(out);
    out->repair = ctl->options[OPT_REPAIR] != NULL;
    const char *closing = ctl->options[OPT_CLOSING];
    const bool is_wrap = closing && strcmp(closing, "wrap") == 0;
    if (closing && !is_wrap && strcmp(closing, "hull") != 0) {
        ctl_mistake("--closing takes hull or wrap, not %s", closing);
        return false;
    }
    const char *unit = ctl->options[OPT_UNIT];
    if (unit && ctl->options[OPT_SCALE]) {
        ctl_mistake("--unit and --scale say the same: leave out one of them");
        return false;
    }
    if (unit) out->scale = contactd_unit(unit);
    if (unit && !(out->scale > 0)) {
        ctl_mistake("--unit takes m, dm, cm, mm, um, in or ft, not %s", unit);
        return false;
    }
    if (closing) out->closing = is_wrap ? CONTACTD_CLOSING_WRAP : CONTACTD_CLOSING_HULL;
    return ctl_number(ctl, OPT_WRAP_RESOLUTION, &out->resolution) && ctl_number(ctl, OPT_MAX_HOLE, &out->max_hole) &&
           ctl_number(ctl, OPT_WELD, &out->weld) && ctl_number(ctl, OPT_SCALE, &out->scale) &&
           ctl_numbers(ctl, OPT_OPEN_DIRECTION, out->open_direction, 3, "3 numbers");
}

int ctl_mesh_add(ctl *ctl) {
    int code = EXIT_OK;
    unsigned char *bytes[256] = {0};
    size_t sizes[256] = {0};
    if (ctl->options[OPT_NAME] && ctl->n_args > 1)
        return ctl_mistake("--name names one mesh, but there are several files");
    contactd_mesh_options options;
    if (!ctl_mesh_options(ctl, &options)) return EXIT_USAGE;
    for (int i = 0; i < ctl->n_args && code == EXIT_OK; i++)
        if (!ctl_read_mesh(ctl->args[i], &bytes[i], &sizes[i])) code = EXIT_USAGE;
    if (code == EXIT_OK) code = ctl_connect(ctl);
    bool shown = code == EXIT_OK;
    if (shown && ctl->json) json_open(NULL, '[');
    for (int i = 0; i < ctl->n_args && code == EXIT_OK; i++) {
        const char *slash = strrchr(ctl->args[i], '/'), *name = ctl->options[OPT_NAME];
        contactd_mesh mesh;
        contactd_mesh_info info;
        contactd_repair repair;
        if (!name) name = slash ? slash + 1 : ctl->args[i];
        if (ctl_register_file(ctl, name, bytes[i], sizes[i], &options, &mesh) ||
            contactd_get_mesh_repair(ctl->client, mesh, &repair) || contactd_get_mesh_info(ctl->client, mesh, &info)) {
            code = ctl_error(ctl, ctl->args[i]);
            continue;
        }
        if (!ctl->json && i == 0) mesh_head(); /* of a table that has a row */
        if (ctl->json)
            mesh_json(&info, &repair);
        else
            mesh_row(&info);
        if (!ctl->json && repair.closing == CONTACTD_CLOSING_HULL) printf("  it is the convex hull\n");
        if (!ctl->json && repair.closing == CONTACTD_CLOSING_WRAP)
            printf("  it is a wrap, at most %g m from the triangles\n", repair.deviation);
        if (!ctl->json && repair.uneven_polygons)
            printf("  %" PRIu64 " of its faces are not flat, by %g m at most: each is cut where its area is least\n",
                   repair.uneven_polygons, repair.unevenness);
        if (!ctl->json && repair.was_asked) repair_rows(&repair);
    }
    if (shown && ctl->json) json_close(']');
    for (int i = 0; i < ctl->n_args; i++) free(bytes[i]);
    return code;
}

int ctl_mesh_list(ctl *ctl) {
    int code = ctl_connect(ctl);
    if (code != EXIT_OK) return code;
    const contactd_mesh_info *list;
    size_t n;
    if (contactd_list_meshes(ctl->client, &list, &n)) return ctl_error(ctl, "mesh list");
    if (ctl->json)
        json_open(NULL, '[');
    else
        mesh_head();
    for (size_t i = 0; i < n; i++)
        if (ctl->json)
            mesh_json(&list[i], NULL);
        else
            mesh_row(&list[i]);
    if (ctl->json) json_close(']');
    return EXIT_OK;
}

int ctl_mesh_rm(ctl *ctl) {
    int code = ctl_connect(ctl);
    for (int i = 0; i < ctl->n_args && code == EXIT_OK; i++)
        if (contactd_remove_mesh_by_hash(ctl->client, ctl->args[i])) code = ctl_error(ctl, ctl->args[i]);
    if (code != EXIT_OK) return code;
    if (ctl->json) {
        json_open(NULL, '{');
        json_open("removed", '[');
        for (int i = 0; i < ctl->n_args; i++) json_text(NULL, ctl->args[i]);
        json_close(']');
        json_close('}');
    }
    return EXIT_OK;
}

/* ---- scenes ---- */

static void setting_json(const ct_setting_row *row, const contactd_settings *settings) {
    const int64_t value = ct_setting_integer(row, settings, 0);
    if (row->type == CT_SETTING_IS_CHOICE)
        json_text(row->name, ct_setting_choice_name(row, value));
    else if (row->type == CT_SETTING_IS_FLAG)
        json_bool(row->name, value == 1);
    else if (row->type == CT_SETTING_IS_F64)
        json_number(row->name, ct_setting_number(row, settings));
    else if (row->type != CT_SETTING_IS_U32X3)
        json_count(row->name, (uint64_t)value);
    else if (ct_setting_is_zero(row, settings))
        json_number(row->name, NAN); /* null: none is named */
    else
        json_numbers(row->name,
                     (double[]){(double)value, (double)ct_setting_integer(row, settings, 1),
                                (double)ct_setting_integer(row, settings, 2)},
                     3);
}

static void scene_json(const contactd_scene_info *s) {
    json_open(NULL, '{');
    json_count("id", s->id);
    json_text("name", s->name);
    json_text("owner", s->owner);
    json_text("running_method", ct_method_name(s->running_method));
    for (int k = 0; k < CT_SETTINGS; k++) setting_json(&ct_setting_rows[k], &s->settings);
    json_count("revision", s->revision);
    json_count("bodies", s->bodies);
    json_count("contacts", s->contacts);
    json_count("steps", s->steps);
    json_count("bytes", s->bytes);
    json_close('}');
}

static void scene_head(void) {
    printf("%-18s %-16s %-24s %-12s %-16s %7s %9s %12s\n", "ID", "NAME", "OWNER", "METHOD", "SAMPLING", "BODIES",
           "CONTACTS", "STEPS");
}
static void scene_row(const contactd_scene_info *s) {
    char method[32], sampling[64] = "-";
    if (s->settings.pixel_size > 0)
        snprintf(sampling, sizeof sampling, "%.6g m", s->settings.pixel_size);
    else if (s->settings.resolution[0])
        snprintf(sampling, sizeof sampling, "%ux%ux%u", s->settings.resolution[0], s->settings.resolution[1],
                 s->settings.resolution[2]);
    else if (s->settings.tolerance > 0)
        snprintf(sampling, sizeof sampling, "%.3g m^3", s->settings.tolerance);
    else if (s->settings.tolerance_rel > 0)
        snprintf(sampling, sizeof sampling, "%.3g V", s->settings.tolerance_rel);
    const bool is_chosen = strcmp(ct_method_name(s->settings.method), ct_method_name(s->running_method)) !=
                           0; /* by the server, in place of auto */
    snprintf(method, sizeof method, "%s%s%s%s", ct_method_name(s->settings.method), is_chosen ? " (" : "",
             is_chosen ? ct_method_name(s->running_method) : "", is_chosen ? ")" : "");
    printf("%-18" PRIu64 " %-16s %-24s %-12s %-16s %7u %9u %12" PRIu64 "\n", s->id, s->name, s->owner, method, sampling,
           s->bodies, s->contacts, s->steps);
}

int ctl_scene_list(ctl *ctl) {
    int code = ctl_connect(ctl);
    if (code != EXIT_OK) return code;
    const contactd_scene_info *list;
    size_t n;
    if (contactd_list_scenes(ctl->client, &list, &n)) return ctl_error(ctl, "scene list");
    if (ctl->json)
        json_open(NULL, '[');
    else
        scene_head();
    for (size_t i = 0; i < n; i++)
        if (ctl->json)
            scene_json(&list[i]);
        else
            scene_row(&list[i]);
    if (ctl->json) json_close(']');
    return EXIT_OK;
}

static int scene_by_id(ctl *ctl, const contactd_settings *settings) {
    uint64_t id;
    if (!ctl_scene_id(ctl, &id)) return EXIT_USAGE;
    int code = ctl_connect(ctl);
    if (code != EXIT_OK) return code;
    contactd_scene_info info;
    if (contactd_configure_by_id(ctl->client, id, settings, &info)) return ctl_error(ctl, "scene");
    if (ctl->json) {
        scene_json(&info);
    } else {
        scene_head();
        scene_row(&info);
        if (info.settings.max_step_time > 0)
            printf("steps are ended after %.6g s (max_step_time)\n", info.settings.max_step_time);
    }
    return EXIT_OK;
}

enum { SHOWN_CONTACTS = 20 }; /* contactctl contacts shows all */

/* The scene, a row for each of its bodies, and the contacts of its last step; as JSON, which contactctl bodies and
 * contacts have of them, the scene alone. */
int ctl_scene_show(ctl *ctl) {
    uint64_t id;
    json_t *report;
    int code = scene_by_id(ctl, NULL);
    if (code != EXIT_OK || ctl->json || !ctl_scene_id(ctl, &id)) return code;
    code = ctl_get_report(ctl, CONTACTD_REPORT_BODIES, id, "scene show", &report);
    if (code != EXIT_OK) return code;
    putchar('\n');
    ctl_put_bodies(report);
    json_decref(report);
    code = ctl_get_newer_report(ctl, CONTACTD_REPORT_CONTACTS, id, "scene show", &report);
    if (code != EXIT_OK || !report) return code;
    putchar('\n');
    ctl_put_contacts(report, SHOWN_CONTACTS);
    json_decref(report);
    return EXIT_OK;
}

int ctl_scene_set(ctl *ctl) {
    contactd_settings settings;
    if (!ctl_settings(ctl, &settings)) return EXIT_USAGE;
    if (!ct_settings_given(&settings).given)
        return ctl_mistake(
            "nothing to set: give an option of a setting, such as --margin; scene set --help lists them");
    return scene_by_id(ctl, &settings);
}

/* ---- status ---- */

static void device_rows(size_t index, const contactd_device *d) {
    char a[32], b[32];
    printf("device %-3zu %s, %" PRIu64 " scenes of %" PRIu64 " triangles, scratch %s%s%s\n", index, d->device,
           d->scenes, d->triangles, size_text(d->scratch_bytes, a), d->lost ? ", LOST: " : "",
           d->lost ? d->lost_reason : "");
    if (!d->memory_budget) return;
    printf("           memory %s of %s", size_text(d->memory_used, a), size_text(d->memory_budget, b));
    printf(" (meshes %s, bodies %s)", size_text(d->memory_meshes, a), size_text(d->memory_bodies, b));
    printf(", sent %s, received %s, %" PRIu64 " launches\n", size_text(d->uploaded, a), size_text(d->downloaded, b),
           d->launches);
}

/* Prints the same fields, under the same names, as HTTP's GET /v1/status. */
static int status_json(ctl *ctl) {
    json_t *report;
    int code = ctl_get_report(ctl, CONTACTD_REPORT_STATUS, 0, "status", &report);
    if (code != EXIT_OK) return code;
    json_object_set_new(report, "address", json_string(ctl->server));
    ctl_put_report(report);
    json_decref(report);
    return EXIT_OK;
}

int ctl_status(ctl *ctl) {
    int code = ctl_connect(ctl);
    if (code != EXIT_OK) return code;
    if (ctl->json) return status_json(ctl);
    contactd_status s;
    if (contactd_get_status(ctl->client, &s)) return ctl_error(ctl, "status");
    char a[32], b[32];
    printf("server     %s at %s, up %.0f s\n", s.server, ctl->server, s.uptime_s);
    if (s.insecure) puts("INSECURE   other machines may reach it without keys, tokens and encryption (--insecure)");
    printf("ready      %s%s%s\n", s.ready ? "yes" : "no", *s.ready_reason ? ": " : "", s.ready_reason);
    printf("backend    %s, rasterizer %s", s.backend, s.rasterizer);
    if (*s.simd) printf(", %u threads, %s", s.threads, s.simd);
    putchar('\n');
    printf("methods   ");
    for (uint32_t i = 0; i < s.n_methods; i++) printf(" %s", s.methods[i]);
    if (*s.auto_method) printf("; auto runs %s", s.auto_method); /* an older server does not say */
    putchar('\n');
    for (size_t i = 0; i < s.n_devices; i++) device_rows(i, &s.devices[i]);
    printf("holds      %u sessions, %u scenes, %u bodies, %u meshes\n", s.sessions, s.scenes, s.bodies, s.meshes);
    printf("memory     meshes %s of %s", size_text(s.mesh_bytes, a), size_text(s.mesh_bytes_limit, b));
    printf(", scenes %s, scratch %s\n", size_text(s.scene_bytes, a), size_text(s.scratch_bytes, b));
    printf("queue      %u of %u\n", s.queue_depth, s.queue_capacity);
    printf("answered   %" PRIu64 " steps, %" PRIu64 " contacts\n", s.steps, s.contacts);
    printf("limits     resolution %u, message %s\n", s.max_resolution, size_text(s.max_message_bytes, a));
    return EXIT_OK;
}
