/* marks.c - the marks of a snapshot: normals and gradients of contacts, contact surfaces coloured by their pressure, tiles
 * of EBPI's views coloured by the density of their rays, voxel trees' cubes and the normals of their contacts. Films over
 * bodies are in films.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/methods/voxtree/finish.h"
#include "gpu/picture/picture.h"

static const int n_points[CT_MARK_KINDS] = {3, 1, 2, 2, 3, 4};

/* Strong, so that they are distinguished from the glass of bodies, and no two alike next to each other. */
const uint8_t ct_contact_color[CT_CONTACT_COLORS][3] = {
    {230, 80, 20}, {20, 90, 220}, {30, 150, 50},  {190, 30, 150},
    {0, 150, 160}, {200, 150, 0}, {110, 60, 200}, {200, 30, 50},
};

ct_status ct_marks_add(ct_snapshot *snapshot, ct_mark_kind kind, const double (*at)[3], const uint8_t color[4],
                       double size, const char *what, const char *remedy, ct_error *error) {
    ct_mark_list *list = &snapshot->marks[kind];
    if (snapshot->n_marks == CT_MAX_MARKS)
        return ct_fail(error, CT_LIMIT_EXCEEDED, "show",
                       "snapshot: %s would need more than %d marks, which is the most that a picture shows: %s", what,
                       (int)CT_MAX_MARKS, remedy);
    if (CT_POLL_EVERY(snapshot->n_marks, 256) && ct_is_cancelled()) return ct_fail_cancelled(error);
    if (list->n == list->capacity) {
        const uint32_t capacity = list->capacity ? 2 * list->capacity : 256;
        ct_mark *marks = realloc(list->marks, capacity * sizeof *marks);
        if (!marks) return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for %u marks", capacity);
        list->marks = marks;
        list->capacity = capacity;
    }
    ct_mark *mark = &list->marks[list->n++];
    *mark = (ct_mark){.size = (float)size};
    for (int i = 0; i < n_points[kind]; i++)
        for (int k = 0; k < 3; k++) mark->at[i][k] = (float)(at[i][k] - snapshot->camera.origin[k]);
    memcpy(mark->color, color, 4);
    snapshot->n_marks++;
    return CT_OK;
}

/* ---- contacts: normals, and gradients of vertices ---- */

/* Of the picture's shorter side: arrows along the largest gradient, and along normals. */
static const double GRADIENT_LENGTH = 0.12, NORMAL_LENGTH = 0.2;
/* Pixels. */
static const double GRADIENT_WIDTH = 1.5, NORMAL_WIDTH = 5;

static const char CONTACTS_REMEDY[] = "show one contact, or less of it";

static double length_of(const double v[3]) {
    return sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

double ct_snapshot_shorter_side(const ct_snapshot *snapshot) {
    const ct_snapshot_options *o = &snapshot->options;
    return snapshot->camera.pixel * (o->width < o->height ? o->width : o->height);
}

static ct_status add_arrow(ct_snapshot *snapshot, const double from[3], const double along[3], double length,
                           const uint8_t color[4], double width, ct_error *error) {
    double at[2][3];
    for (int k = 0; k < 3; k++) {
        at[0][k] = from[k];
        at[1][k] = from[k] + along[k] * length;
    }
    return ct_marks_add(snapshot, CT_MARK_ARROW, (const double(*)[3])at, color, width, "the arrows", CONTACTS_REMEDY,
                        error);
}

static ct_status add_gradient(ct_snapshot *snapshot, const ct_result *result, const ct_contact *contact, double scale,
                              const uint8_t color[4], ct_error *error) {
    ct_status status = CT_OK;
    for (int part = 0; !status && part < 2; part++) {
        const size_t place = ct_snapshot_find_body(snapshot, contact->body[part]);
        for (uint64_t i = contact->first[part]; !status && i < contact->first[part] + contact->count[part]; i++) {
            double from[3];
            ct_snapshot_vertex(&snapshot->bodies[place], result->vertices[i], from);
            status = add_arrow(snapshot, from, result->gradient + 3 * i, scale, color, GRADIENT_WIDTH, error);
        }
    }
    return status;
}

/* Arrows' metres per square metre of the gradient: the largest of all shown contacts is as long as said above. */
static double scale_of_gradients(const ct_snapshot *snapshot, const ct_result *result) {
    double largest = 0;
    for (size_t i = 0; i < result->n_contacts; i++) {
        const ct_contact *contact = &result->contacts[i];
        if (!ct_snapshot_shows(&snapshot->options, contact->body)) continue;
        for (int part = 0; part < 2; part++)
            for (uint64_t k = contact->first[part]; k < contact->first[part] + contact->count[part]; k++)
                largest = fmax(largest, length_of(result->gradient + 3 * k));
    }
    return largest > 0 ? GRADIENT_LENGTH * ct_snapshot_shorter_side(snapshot) / largest : 0;
}

static bool is_of_pair(const ct_contact *a, const ct_contact *b) {
    return a->body[0] == b->body[0] && a->body[1] == b->body[1];
}

ct_status ct_mark_contacts(ct_snapshot *snapshot, const ct_result *result, ct_error *error) {
    const uint32_t show = snapshot->options.show;
    const double scale = scale_of_gradients(snapshot, result);
    ct_status status = CT_OK;
    uint32_t shown = 0;
    for (size_t i = 0; !status && i < result->n_contacts; i++) {
        const ct_contact *contact = &result->contacts[i];
        if (!ct_snapshot_shows(&snapshot->options, contact->body)) continue;
        if (show & CT_SHOW_CONTACTS && (i == 0 || !is_of_pair(contact, contact - 1))) {
            size_t n = 1;
            while (i + n < result->n_contacts && is_of_pair(contact, contact + n)) n++;
            status = ct_mark_films(snapshot, result, i, n, shown, error);
        }
        uint8_t color[4] = {0, 0, 0, 255};
        memcpy(color, ct_contact_color[shown++ % CT_CONTACT_COLORS], 3);
        if (!status && show & CT_SHOW_GRADIENTS) status = add_gradient(snapshot, result, contact, scale, color, error);
        for (int k = 0; k < 3; k++) color[k] = (uint8_t)(color[k] * 0.7); /* apart from the gradient's */
        if (!status && show & CT_SHOW_CONTACTS && length_of(contact->normal) > 0)
            status = add_arrow(snapshot, contact->center, contact->normal,
                               NORMAL_LENGTH * ct_snapshot_shorter_side(snapshot), color, NORMAL_WIDTH, error);
    }
    return status;
}

/* ---- contact surfaces ---- */

static const uint8_t SURFACE_OPACITY = 230; /* of 255 */
enum { SHADES = 24 };

static double load_of(const ct_result *result, const ct_surface_vertex *v) {
    return result->has_wrenches ? v->pressure : v->depth;
}

/* Of all shown contacts. */
static double largest_load(const ct_snapshot *snapshot, const ct_result *result) {
    double largest = 0;
    for (size_t i = 0; i < result->n_contacts; i++) {
        const ct_contact *c = &result->contacts[i];
        if (!ct_snapshot_shows(&snapshot->options, c->body)) continue;
        const uint32_t *first = result->polygon_first + c->first_polygon;
        for (uint32_t v = first[0]; v < first[c->n_polygons]; v++)
            largest = fmax(largest, load_of(result, &result->polygon_vertices[v]));
    }
    return largest;
}

/* A triangle of one colour, that of its middle. */
static ct_status add_loaded(ct_snapshot *snapshot, const double at[3][3], double part, ct_error *error) {
    uint8_t color[4];
    ct_color_scale(part, color);
    color[3] = SURFACE_OPACITY;
    return ct_marks_add(snapshot, CT_MARK_FILM, at, color, 1, "the contact surfaces",
                        "show one contact, or contacts instead of the surface", error);
}

/* Divides a triangle in n x n, so that the load within each differs by a SHADES-th of the largest at most. */
static ct_status add_triangle(ct_snapshot *snapshot, const ct_surface_vertex *const corner[3], const double part[3],
                              ct_error *error) {
    const double most = fmax(part[0], fmax(part[1], part[2])), least = fmin(part[0], fmin(part[1], part[2]));
    const int n = 1 + (int)(SHADES * (most - least));
    ct_status status = CT_OK;
    for (int i = 0; !status && i < n; i++)
        for (int j = 0; !status && j < 2 * (n - i) - 1; j++) {
            const int column = j / 2, is_odd = j % 2;
            const int places[3][2] = {
                {i + is_odd, column}, {i + 1 - is_odd, column + is_odd}, {i + is_odd, column + 1}};
            double at[3][3], load = 0;
            for (int c = 0; c < 3; c++) {
                const double w[3] = {(double)(n - places[c][0] - places[c][1]) / n, (double)places[c][0] / n,
                                     (double)places[c][1] / n};
                load += (w[0] * part[0] + w[1] * part[1] + w[2] * part[2]) / 3;
                for (int k = 0; k < 3; k++)
                    at[c][k] =
                        w[0] * corner[0]->position[k] + w[1] * corner[1]->position[k] + w[2] * corner[2]->position[k];
            }
            status = add_loaded(snapshot, (const double(*)[3])at, load, error);
        }
    return status;
}

static ct_status add_polygon(ct_snapshot *snapshot, const ct_result *result, uint64_t polygon, double largest,
                             ct_error *error) {
    const ct_surface_vertex *v = result->polygon_vertices + result->polygon_first[polygon];
    const uint32_t n = result->polygon_first[polygon + 1] - result->polygon_first[polygon];
    ct_status status = CT_OK;
    for (uint32_t i = 2; !status && i < n; i++) {
        const ct_surface_vertex *const corner[3] = {&v[0], &v[i - 1], &v[i]};
        double part[3];
        for (int k = 0; k < 3; k++) part[k] = largest > 0 ? load_of(result, corner[k]) / largest : 0;
        status = add_triangle(snapshot, corner, part, error);
    }
    return status;
}

ct_status ct_mark_surface(ct_snapshot *snapshot, const ct_result *result, ct_error *error) {
    const double largest = largest_load(snapshot, result);
    ct_status status = CT_OK;
    for (size_t i = 0; i < result->n_contacts; i++) {
        const ct_contact *c = &result->contacts[i];
        if (!ct_snapshot_shows(&snapshot->options, c->body)) continue;
        for (uint64_t p = c->first_polygon; !status && p < c->first_polygon + c->n_polygons; p++)
            status = add_polygon(snapshot, result, p, largest, error);
    }
    return status;
}

/* ---- tiles of EBPI's views ---- */

/* Tiles of more pixels than this along their shorter side have a gap around them, as the ends of spans do; this is its
 * part of each side. */
static const double LARGE = 5, GAP = 0.05;

static double side_length(const float v[3]) {
    return sqrt((double)v[0] * v[0] + (double)v[1] * v[1] + (double)v[2] * v[2]);
}

static double area_of(const ct_ray_tile *tile) {
    return side_length(tile->u) * side_length(tile->v);
}

void ct_color_scale(double part, uint8_t color[4]) {
    static const double stops[5][3] = {
        {205, 222, 240}, {130, 185, 225}, {250, 220, 110}, {235, 110, 40}, {130, 10, 35}};
    const double at = fmin(fmax(part, 0), 1) * 4;
    const int i = at < 3 ? (int)at : 3;
    for (int k = 0; k < 3; k++) color[k] = (uint8_t)lrint(stops[i][k] + (at - i) * (stops[i + 1][k] - stops[i][k]));
    color[3] = 255;
}

static bool is_shown(const ct_snapshot *snapshot, const ct_ray_tile *tile) {
    return snapshot->options.show & (uint32_t)CT_SHOW_RAYS_X << tile->axis;
}

static ct_status add_tile(ct_snapshot *snapshot, const ct_ray_tile *tile, double part, ct_error *error) {
    const double pixel = snapshot->camera.pixel, *back = snapshot->camera.back;
    const double u = side_length(tile->u), v = side_length(tile->v), gap = fmin(u, v) > LARGE * pixel ? GAP : 0;
    double toward = 0, at[3][3];
    for (int k = 0; k < 3; k++) toward += back[k] * (double)tile->along[k];
    for (int k = 0; k < 3; k++) {
        const double corner = (double)tile->corner[k] + (toward < 0 ? (double)tile->along[k] : 0);
        at[0][k] = corner + gap * ((double)tile->u[k] + (double)tile->v[k]);
        at[1][k] = at[0][k] + (1 - 2 * gap) * (double)tile->u[k];
        at[2][k] = at[0][k] + (1 - 2 * gap) * (double)tile->v[k];
    }
    uint8_t color[4];
    ct_color_scale(part, color);
    return ct_marks_add(snapshot, CT_MARK_TILE, (const double(*)[3])at, color, 0, "the tiles of rays",
                        "show one contact, one of rays_x, rays_y and rays_z, or a larger tolerance", error);
}

static ct_status mark_view(ct_snapshot *snapshot, const ct_result *result, const ct_contact *contact, uint32_t axis,
                           ct_error *error) {
    const ct_ray_tile *tiles = result->tiles + contact->first_tile;
    double smallest = INFINITY, largest = 0;
    for (uint64_t i = 0; i < contact->n_tiles; i++) {
        if (tiles[i].axis != axis) continue;
        smallest = fmin(smallest, area_of(&tiles[i]));
        largest = fmax(largest, area_of(&tiles[i]));
    }
    ct_status status = CT_OK;
    for (uint64_t i = 0; !status && i < contact->n_tiles; i++) {
        if (tiles[i].axis != axis || !is_shown(snapshot, &tiles[i])) continue;
        const double part = largest > smallest * 1.01 ? log(largest / area_of(&tiles[i])) / log(largest / smallest) : 0;
        status = add_tile(snapshot, &tiles[i], part, error);
    }
    return status;
}

ct_status ct_mark_tiles(ct_snapshot *snapshot, const ct_result *result, ct_error *error) {
    ct_status status = CT_OK;
    for (size_t i = 0; i < result->n_contacts; i++) {
        if (!ct_snapshot_shows(&snapshot->options, result->contacts[i].body)) continue;
        for (uint32_t axis = 0; !status && axis < 3; axis++)
            status = mark_view(snapshot, result, &result->contacts[i], axis, error);
    }
    return status;
}

/* ---- voxel trees ---- */

/* Pixels. */
static const double EDGE_WIDTH = 1, RAW_WIDTH = 1, REDUCED_WIDTH = 4;
/* Of the picture's shorter side: of the most probable primitive, and of points. */
static const double RAW_LENGTH = 0.06, REDUCED_LENGTH = 0.16;
static const uint8_t RAW_COLOR[4] = {215, 30, 30, 255}, REDUCED_COLOR[4] = {10, 130, 40, 255};

static const char VOXELS_REMEDY[] = "show one contact, or set a lower level";

/* The cubes. */

/* The level that a step came to in a body's tree: the finest of its pairs', or else that it may come to. */
static uint32_t level_of(const ct_snapshot *snapshot, const ct_scene_settings *settings, const ct_result *result,
                         uint32_t body, uint32_t finest) {
    uint32_t level = 0;
    bool is_found = false;
    for (uint64_t i = 0; i < result->n_progress; i++) {
        const ct_pair_progress *pair = &result->progress[i];
        for (int b = 0; b < 2; b++) {
            if (pair->body[b] != body || !pair->is_examined || !ct_snapshot_shows(&snapshot->options, pair->body))
                continue;
            is_found = true;
            if (pair->level[b] > level) level = pair->level[b];
        }
    }
    if (is_found) return level;
    return settings->level && settings->level < finest ? settings->level : finest;
}

/* A box in the world, of all bodies that are shown if two are not selected. */
typedef struct bounds {
    double lo[3], hi[3];
} bounds;

static void cut_to_body(bounds *box, const ct_snapshot_body *body) {
    double lo[3] = {INFINITY, INFINITY, INFINITY}, hi[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (uint32_t v = 0; v < body->mesh->n_vertices; v++) {
        double at[3];
        if (CT_POLL_EVERY(v, 1024) && ct_is_cancelled()) return; /* marking polls too */
        ct_snapshot_vertex(body, v, at);
        for (int k = 0; k < 3; k++) {
            lo[k] = fmin(lo[k], at[k]);
            hi[k] = fmax(hi[k], at[k]);
        }
    }
    for (int k = 0; k < 3; k++) {
        box->lo[k] = fmax(box->lo[k], lo[k]);
        box->hi[k] = fmin(box->hi[k], hi[k]);
    }
}

/* World positions of a cube's lowest corner and of the three beside it. False: it does not reach into the box. */
static bool place_cube(const ct_voxel_tree *tree, double size, const uint8_t index[3], const double pose[12],
                       const bounds *box, double at[4][3]) {
    bool reaches = true;
    for (int row = 0; row < 3; row++) {
        const double *m = pose + 4 * row;
        double low = m[3];
        for (int k = 0; k < 3; k++) low += m[k] * (tree->origin[k] + index[k] * size);
        double least = low, most = low;
        at[0][row] = low;
        for (int k = 0; k < 3; k++) {
            at[1 + k][row] = low + m[k] * size;
            least += fmin(m[k] * size, 0);
            most += fmax(m[k] * size, 0);
        }
        reaches = reaches && most >= box->lo[row] && least <= box->hi[row];
    }
    return reaches;
}

static ct_status mark_tree(ct_snapshot *snapshot, const ct_snapshot_body *body, const ct_voxel_tree *tree,
                           uint32_t level, const bounds *box, ct_error *error) {
    const ct_voxel_level *of = &tree->level[level];
    ct_status status = CT_OK;
    for (uint32_t i = 0; !status && i < of->n_nodes; i++) {
        double at[4][3];
        if (CT_POLL_EVERY(i, 1024) && ct_is_cancelled()) return ct_fail_cancelled(error);
        if (!place_cube(tree, of->size, of->nodes[i].at, body->pose, box, at)) continue;
        uint8_t color[4];
        ct_color_scale(0.2 + 0.8 * (double)of->nodes[i].occupancy, color); /* the palest is hardly seen in a line */
        status = ct_marks_add(snapshot, CT_MARK_CUBE, (const double(*)[3])at, color, EDGE_WIDTH, "the cubes of trees",
                              VOXELS_REMEDY, error);
    }
    return status;
}

static ct_status mark_nodes(ct_snapshot *snapshot, const ct_scene_settings *settings, const ct_result *result,
                            ct_error *error) {
    bounds box = {{-INFINITY, -INFINITY, -INFINITY}, {INFINITY, INFINITY, INFINITY}};
    for (size_t i = 0; i < snapshot->n_bodies && snapshot->options.contact[0]; i++)
        cut_to_body(&box, &snapshot->bodies[i]);
    ct_status status = CT_OK;
    for (size_t i = 0; !status && i < snapshot->n_bodies; i++) {
        const ct_snapshot_body *body = &snapshot->bodies[i];
        const ct_voxel_tree *tree = ct_voxel_tree_for(body->mesh, settings, error);
        if (!tree) return ct_failure();
        const uint32_t level = level_of(snapshot, settings, result, body->id, tree->finest);
        status = mark_tree(snapshot, body, tree, level, &box, error);
    }
    return status;
}

/* The normals of contacts before and after reduction. */

static ct_status add_normal(ct_snapshot *snapshot, ct_mark_kind kind, const ct_point *point, double length,
                            const uint8_t color[4], double width, ct_error *error) {
    double at[2][3];
    for (int k = 0; k < 3; k++) {
        at[0][k] = point->position[k];
        at[1][k] = point->position[k] + length * point->normal[k];
    }
    return ct_marks_add(snapshot, kind, (const double(*)[3])at, color, width, "the normals of cubes", VOXELS_REMEDY,
                        error);
}

/* Of one pair of bodies: all its primitives, as lines. */
static ct_status mark_primitives(ct_snapshot *snapshot, const ct_scene_settings *settings, const ct_pair_progress *pair,
                                 ct_error *error) {
    const ct_voxel_tree *trees[2];
    const double *poses[2];
    for (int b = 0; b < 2; b++) {
        const ct_snapshot_body *body = &snapshot->bodies[ct_snapshot_find_body(snapshot, pair->body[b])];
        trees[b] = ct_voxel_tree_for(body->mesh, settings, error);
        if (!trees[b]) return ct_failure();
        poses[b] = body->pose;
    }
    ct_point *points;
    uint32_t n;
    if (!ct_voxel_list_primitives(trees, poses, settings, pair->level, &points, &n))
        return ct_fail(error, CT_OUT_OF_MEMORY, "snapshot", "no memory for the normals of bodies %u and %u",
                       pair->body[0], pair->body[1]);
    ct_status status = CT_OK;
    for (uint32_t i = 0; !status && i < n; i++)
        status =
            add_normal(snapshot, CT_MARK_LINE, &points[i],
                       points[i].weight * RAW_LENGTH * ct_snapshot_shorter_side(snapshot), RAW_COLOR, RAW_WIDTH, error);
    free(points);
    return status;
}

static ct_status mark_normals(ct_snapshot *snapshot, const ct_scene_settings *settings, const ct_result *result,
                              ct_error *error) {
    ct_status status = CT_OK;
    for (uint64_t i = 0; !status && i < result->n_progress; i++)
        if (result->progress[i].is_examined && ct_snapshot_shows(&snapshot->options, result->progress[i].body))
            status = mark_primitives(snapshot, settings, &result->progress[i], error);
    for (size_t i = 0; i < result->n_contacts; i++) {
        const ct_contact *contact = &result->contacts[i];
        if (!ct_snapshot_shows(&snapshot->options, contact->body)) continue;
        for (uint64_t k = 0; !status && k < contact->n_points; k++)
            status =
                add_normal(snapshot, CT_MARK_ARROW, &result->points[contact->first_point + k],
                           REDUCED_LENGTH * ct_snapshot_shorter_side(snapshot), REDUCED_COLOR, REDUCED_WIDTH, error);
    }
    return status;
}

ct_status ct_mark_voxels(ct_snapshot *snapshot, const ct_scene_settings *settings, const ct_result *result,
                         ct_error *error) {
    const uint32_t show = snapshot->options.show;
    ct_status status = CT_OK;
    if (show & CT_SHOW_NODES) status = mark_nodes(snapshot, settings, result, error);
    if (!status && show & CT_SHOW_NORMALS) status = mark_normals(snapshot, settings, result, error);
    return status;
}
