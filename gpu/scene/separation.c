/* separation.c - finds the closest points of two bodies by descending both of their cluster trees, nearest boxes first.
 *
 *     tree of A        tree of B
 *       root             root          a pair of nodes whose boxes are farther apart than the closest points found so
 *      /    \           /    \         far is dropped; else the larger of the two is replaced by its children, down to
 *     ...    ...      ...    ...       pairs of clusters, whose triangles are compared one by one */
#include "gpu/scene/separation.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "gpu/base/fail.h"
#include "gpu/mesh/mesh.h"
#include "gpu/scene/closest.h"
#include "gpu/scene/surfaces.h"

/* Of a squared distance between boxes: what rounding may have added to it. */
static const double ROUNDED = 1e-9;

struct cluster {
    double corner[CT_CLUSTER_TRIANGLES][3][3]; /* m, world */
    ct_box box[CT_CLUSTER_TRIANGLES];
    uint32_t n;
};

struct pair_search {
    const ct_surface *surface[2];
    double toward[3]; /* from the middle of the second body's box to the first's */
    double touching;
    ct_closest best;
    struct cluster *cluster[2];
    uint32_t loaded[2]; /* clusters that `cluster` holds */
    bool is_loaded[2];
};

/* ---- boxes ---- */

static void world_of(const ct_surface *surface, const float p[3], double out[3]) {
    const double *pose = surface->body->pose;
    for (int i = 0; i < 3; i++)
        out[i] = pose[4 * i] * (double)p[0] + pose[4 * i + 1] * (double)p[1] + pose[4 * i + 2] * (double)p[2] +
                 pose[4 * i + 3];
}

static ct_box box_of_node(const ct_surface *surface, uint32_t node) {
    const ct_cluster_box *of = &surface->boxes[node];
    const double *pose = surface->body->pose;
    ct_box box;
    for (int i = 0; i < 3; i++) {
        double middle = pose[4 * i + 3], half = 0;
        for (int k = 0; k < 3; k++) {
            middle += pose[4 * i + k] * 0.5 * ((double)of->lo[k] + (double)of->hi[k]);
            half += fabs(pose[4 * i + k]) * 0.5 * ((double)of->hi[k] - (double)of->lo[k]);
        }
        half += 1e-14 * (fabs(middle) + half); /* for rounding */
        box.lo[i] = middle - half;
        box.hi[i] = middle + half;
    }
    return box;
}

static double squared_gap(const ct_box *a, const ct_box *b) {
    double squared = 0;
    for (int i = 0; i < 3; i++) {
        const double gap = fmax(fmax(a->lo[i] - b->hi[i], b->lo[i] - a->hi[i]), 0);
        squared += gap * gap;
    }
    return squared * (1 - ROUNDED);
}

static double size_of(const ct_box *box) {
    double size = 0;
    for (int i = 0; i < 3; i++) size = fmax(size, box->hi[i] - box->lo[i]);
    return size;
}

/* ---- triangles ---- */

static void load_cluster(struct pair_search *s, int side, uint32_t at) {
    if (s->is_loaded[side] && s->loaded[side] == at) return;
    const ct_surface *surface = s->surface[side];
    const ct_mesh *mesh = surface->body->mesh;
    struct cluster *cluster = s->cluster[side];
    const uint32_t first = at * CT_CLUSTER_TRIANGLES, left = mesh->n_triangles - first;
    cluster->n = left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES;
    for (uint32_t t = 0; t < cluster->n; t++) {
        double(*corner)[3] = cluster->corner[t];
        for (int k = 0; k < 3; k++)
            world_of(surface, surface->positions + 3 * (size_t)mesh->triangles[3 * (size_t)(first + t) + (size_t)k],
                     corner[k]);
        for (int i = 0; i < 3; i++) {
            cluster->box[t].lo[i] = fmin(corner[0][i], fmin(corner[1][i], corner[2][i]));
            cluster->box[t].hi[i] = fmax(corner[0][i], fmax(corner[1][i], corner[2][i]));
        }
    }
    s->is_loaded[side] = true;
    s->loaded[side] = at;
}

static void compare_clusters(struct pair_search *s, const uint32_t at[2], const ct_box box[2]) {
    for (int side = 0; side < 2; side++) load_cluster(s, side, at[side]);
    for (uint32_t i = 0; i < s->cluster[0]->n; i++) {
        if (squared_gap(&s->cluster[0]->box[i], &box[1]) > s->best.squared) continue;
        for (uint32_t k = 0; k < s->cluster[1]->n; k++)
            if (squared_gap(&s->cluster[0]->box[i], &s->cluster[1]->box[k]) <= s->best.squared)
                ct_closest_of_triangles(s->cluster[0]->corner[i], s->cluster[1]->corner[k], s->toward, s->touching,
                                        &s->best);
    }
}

/* ---- trees ---- */

struct node {
    uint32_t level, at;
    ct_box box;
};

static uint32_t list_children(const ct_surface *surface, const struct node *node,
                              struct node children[CT_CLUSTER_FAN]) {
    const ct_clusters *c = surface->clusters;
    const uint32_t first = c->level[node->level - 1] + (node->at - c->level[node->level]) * CT_CLUSTER_FAN;
    uint32_t n = 0;
    for (uint32_t at = first; n < CT_CLUSTER_FAN && at < c->level[node->level]; at++, n++)
        children[n] = (struct node){node->level - 1, at, box_of_node(surface, at)};
    return n;
}

static void descend(struct pair_search *s, const struct node *a, const struct node *b) {
    const struct node *node[2] = {a, b};
    if (a->level == 0 && b->level == 0) {
        compare_clusters(s, (uint32_t[]){a->at, b->at}, (ct_box[]){a->box, b->box});
        return;
    }
    const int side = b->level == 0 || (a->level > 0 && size_of(&a->box) >= size_of(&b->box)) ? 0 : 1;
    struct node children[CT_CLUSTER_FAN];
    double gap[CT_CLUSTER_FAN];
    uint32_t order[CT_CLUSTER_FAN];
    const uint32_t n = list_children(s->surface[side], node[side], children);
    for (uint32_t i = 0; i < n; i++) { /* the nearest first */
        gap[i] = squared_gap(&children[i].box, &node[1 - side]->box);
        uint32_t at = i;
        for (; at > 0 && gap[order[at - 1]] > gap[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (gap[order[i]] > s->best.squared) return;
        node[side] = &children[order[i]];
        descend(s, node[0], node[1]);
    }
}

static struct node root_of(const ct_surface *surface) {
    const ct_clusters *c = surface->clusters;
    return (struct node){c->n_levels - 1, c->n_nodes - 1, box_of_node(surface, c->n_nodes - 1)};
}

/* ---- half-spaces ---- */

struct plane {
    double normal[3], origin[3];
};

static double above(const struct plane *plane, const double p[3]) {
    double height = 0;
    for (int i = 0; i < 3; i++) height += plane->normal[i] * (p[i] - plane->origin[i]);
    return height;
}

struct lowest {
    double height;
    double at[3];
};

static void find_lowest(const ct_surface *surface, const struct plane *plane, const struct node *node,
                        struct lowest *lowest) {
    double corner[3];
    for (int i = 0; i < 3; i++) corner[i] = plane->normal[i] > 0 ? node->box.lo[i] : node->box.hi[i];
    if (above(plane, corner) > lowest->height) return;
    if (node->level > 0) {
        struct node children[CT_CLUSTER_FAN];
        const uint32_t n = list_children(surface, node, children);
        for (uint32_t i = 0; i < n; i++) find_lowest(surface, plane, &children[i], lowest);
        return;
    }
    const ct_clusters *c = surface->clusters;
    for (uint32_t i = c->first_vertex[node->at]; i < c->first_vertex[node->at + 1]; i++) {
        double p[3];
        world_of(surface, surface->positions + 3 * (size_t)c->vertices[i], p);
        const double height = above(plane, p);
        bool is_lower = height < lowest->height;
        for (int k = 0; k < 3 && !is_lower && height == lowest->height; k++) {
            if (p[k] > lowest->at[k]) break;
            is_lower = p[k] < lowest->at[k];
        }
        if (!is_lower) continue;
        lowest->height = height;
        memcpy(lowest->at, p, sizeof p);
    }
}

/* side: of the half-space. */
static bool find_above_plane(const ct_surface *surface, const ct_body *half_space, int side, double margin,
                             ct_separation *out) {
    struct plane plane;
    struct lowest lowest = {margin, {INFINITY, INFINITY, INFINITY}};
    double length = 0;
    for (int i = 0; i < 3; i++) {
        plane.normal[i] = half_space->pose[4 * i + 2];
        plane.origin[i] = half_space->pose[4 * i + 3];
        length += plane.normal[i] * plane.normal[i];
    }
    for (int i = 0; i < 3; i++) plane.normal[i] /= sqrt(length);
    const struct node root = root_of(surface);
    find_lowest(surface, &plane, &root, &lowest);
    if (!(lowest.height < margin)) return false;
    out->distance = fmax(lowest.height, 0);
    for (int i = 0; i < 3; i++) {
        out->point[1 - side][i] = lowest.at[i];
        out->point[side][i] = lowest.at[i] - lowest.height * plane.normal[i];
        out->normal[i] = side ? plane.normal[i] : -plane.normal[i];
    }
    return true;
}

/* ---- pairs ---- */

static bool find_between(struct pair_search *s, double margin, ct_separation *out) {
    const ct_box *box[2] = {&s->surface[0]->body->box, &s->surface[1]->body->box};
    double reach = 0;
    for (int i = 0; i < 3; i++) {
        s->toward[i] = box[0]->lo[i] + box[0]->hi[i] - box[1]->lo[i] - box[1]->hi[i];
        for (int b = 0; b < 2; b++) reach = fmax(reach, fmax(fabs(box[b]->lo[i]), fabs(box[b]->hi[i])));
    }
    s->touching = CT_TOUCHING * reach;
    s->best = (ct_closest){.squared = margin * margin};
    for (int i = 0; i < 3; i++) s->best.point[0][i] = s->best.point[1][i] = INFINITY;
    s->is_loaded[0] = s->is_loaded[1] = false;
    const struct node roots[2] = {root_of(s->surface[0]), root_of(s->surface[1])};
    descend(s, &roots[0], &roots[1]);
    if (!(s->best.squared < margin * margin)) return false;
    out->distance = sqrt(s->best.squared);
    memcpy(out->point, s->best.point, sizeof out->point);
    for (int i = 0; i < 3; i++) out->normal[i] = s->best.normal[i];
    for (int i = 0; i < 3 && !s->best.is_on_face && out->distance > 0; i++)
        out->normal[i] = (out->point[0][i] - out->point[1][i]) / out->distance;
    return true;
}

static ct_status find_separation(ct_surfaces *surfaces, const ct_pair *pair, struct pair_search *s, bool *is_near,
                                 ct_separation *out, ct_error *error) {
    const ct_scene *scene = surfaces->scene;
    const uint32_t index[2] = {pair->a, pair->b};
    const double margin = scene->settings.margin;
    *out = (ct_separation){.body = {scene->bodies[pair->a]->id, scene->bodies[pair->b]->id}};
    *is_near = false;
    int plane = -1;
    ct_surface *surface[2];
    for (int b = 0; b < 2; b++) {
        if (scene->bodies[index[b]]->is_half_space) {
            if (plane >= 0) return CT_OK; /* two half-spaces */
            plane = b;
            continue;
        }
        const ct_status status = ct_surfaces_tree(surfaces, index[b], "margin", &surface[b], error);
        if (status) return status;
        s->surface[b] = surface[b];
    }
    *is_near = plane < 0 ? find_between(s, margin, out)
                         : find_above_plane(surface[1 - plane], scene->bodies[index[plane]], plane, margin, out);
    return CT_OK;
}

/* The row of the pair in rows of `size` bytes that begin with both bodies' handles, in rising order. NULL: it has none.
 * A pair with several rows gets one of them. */
static const void *find_row(const void *rows, size_t n, size_t size, const ct_scene *scene, const ct_pair *pair) {
    const uint64_t key = ct_pair_key(scene->bodies[pair->a]->id, scene->bodies[pair->b]->id);
    size_t lo = 0, hi = n;
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        const uint32_t *body = (const uint32_t *)((const char *)rows + middle * size);
        const uint64_t found = ct_pair_key(body[0], body[1]);
        if (found == key) return body;
        if (found < key)
            lo = middle + 1;
        else
            hi = middle;
    }
    return NULL;
}

static_assert(offsetof(ct_contact, body) == 0 && offsetof(ct_pair_progress, body) == 0, "rows begin with their bodies");

/* Whether the method found that the pair has no contact. Of a pair that it did not come to, nothing is known: its
 * bodies may overlap. */
static bool is_without_contact(const ct_result *result, const ct_scene *scene, const ct_pair *pair) {
    if (find_row(result->contacts, result->n_contacts, sizeof *result->contacts, scene, pair)) return false;
    const ct_pair_progress *progress =
        find_row(result->progress, (size_t)result->n_progress, sizeof *result->progress, scene, pair);
    return !progress || progress->is_examined;
}

static ct_status add_pairs(ct_scene *scene, const ct_broadphase *broad, struct pair_search *s, ct_result *result,
                           ct_error *error) {
    ct_surfaces surfaces;
    size_t capacity = 0;
    if (!ct_surfaces_open(&surfaces, scene))
        return ct_fail(error, CT_OUT_OF_MEMORY, "margin", "no memory for %u surfaces", scene->n_bodies);
    ct_status status = CT_OK;
    for (size_t i = 0; i < broad->n_pairs && !status; i++) {
        ct_separation separation;
        bool is_near;
        if (!is_without_contact(result, scene, &broad->pairs[i])) continue;
        status = find_separation(&surfaces, &broad->pairs[i], s, &is_near, &separation, error);
        if (status || !is_near) continue;
        if (result->n_separations == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            ct_separation *more = realloc(result->separations, capacity * sizeof *more);
            if (!more) {
                status = ct_fail(error, CT_OUT_OF_MEMORY, "margin", "no memory for %zu separations", capacity);
                break;
            }
            result->separations = more;
        }
        result->separations[result->n_separations++] = separation;
    }
    ct_surfaces_close(&surfaces);
    return status;
}

ct_status ct_result_add_separations(ct_scene *scene, ct_result *result, ct_error *error) {
    ct_broadphase broad = {0};
    struct pair_search search = {0};
    ct_broad_body *bodies = malloc((scene->n_bodies + 1) * sizeof *bodies);
    for (int b = 0; b < 2; b++) search.cluster[b] = malloc(sizeof *search.cluster[b]);
    ct_status status = CT_OK;
    if (!bodies || !search.cluster[0] || !search.cluster[1])
        status = ct_fail(error, CT_OUT_OF_MEMORY, "margin", "no memory for pairs of %u bodies", scene->n_bodies);
    for (uint32_t i = 0; i < scene->n_bodies && !status; i++) {
        const ct_body *body = scene->bodies[i];
        bodies[i] = (ct_broad_body){.box = body->box, .group = body->group, .mask = body->mask};
        /* Both by half of the margin, and a little more: boxes that touch do not overlap. */
        for (int k = 0; k < 3; k++) {
            const double more = 0.5 * scene->settings.margin * (1 + ROUNDED) + 1e-12 * fabs(body->box.lo[k]);
            bodies[i].box.lo[k] -= more;
            bodies[i].box.hi[k] += more + 1e-12 * fabs(body->box.hi[k]);
        }
    }
    ct_scene_refresh(scene);
    if (!status) status = ct_broadphase_run(&broad, bodies, scene->n_bodies, scene->ignored, scene->n_ignored, error);
    if (!status) status = add_pairs(scene, &broad, &search, result, error);
    ct_broadphase_free(&broad);
    free(bodies);
    for (int b = 0; b < 2; b++) free(search.cluster[b]);
    return status;
}
