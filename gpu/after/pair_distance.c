/* pair_distance.c - finds the closest points of two bodies by descending both of their cluster trees, nearest boxes
 * first.
 *
 *     tree of A        tree of B
 *       root             root          a pair of nodes whose boxes are farther apart than the closest points found so
 *      /    \           /    \         far is dropped; else the larger of the two is replaced by its children, down to
 *     ...    ...      ...    ...       pairs of clusters, their parts, and the features of these, one by one
 *
 * Boxes are in axes of the pair's own, the first of which is where the closest points are likely to be apart: along it
 * boxes of convex bodies are as far apart as these are, so that few features are left to compare. Any axes give the
 * same answer. */
#include "gpu/after/pair_distance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/cancel.h"
#include "gpu/mesh/mesh.h"

/* ---- clusters in the axes of a search ---- */

/* The place of a vertex in the cluster's rising list of them. */
static uint16_t place_of(const uint32_t *vertices, uint32_t n, uint32_t vertex) {
    if (vertices[n - 1] - vertices[0] == n - 1) return (uint16_t)(vertex - vertices[0]); /* none is left out */
    uint32_t lo = 0, hi = n;
    while (hi - lo > 1) {
        const uint32_t middle = lo + (hi - lo) / 2;
        if (vertices[middle] <= vertex)
            lo = middle;
        else
            hi = middle;
    }
    return (uint16_t)lo;
}

/* Nothing, if it is placed already. */
static void place_cluster(ct_searched_cluster *placed, const ct_surface *surface, uint32_t cluster) {
    if (placed->surface == surface && placed->cluster == cluster) return;
    const ct_mesh *mesh = surface->body->mesh;
    const ct_clusters *clusters = surface->clusters;
    const uint32_t first = cluster * CT_CLUSTER_TRIANGLES, left = mesh->n_triangles - first;
    const uint32_t *vertices = clusters->vertices + clusters->first_vertex[cluster];
    /* Many bodies share a mesh: only places differ then. */
    const bool has_corners = placed->surface && placed->surface->clusters == clusters && placed->cluster == cluster;
    placed->surface = surface;
    placed->cluster = cluster;
    placed->axes = 0;
    placed->n = left < CT_CLUSTER_TRIANGLES ? left : CT_CLUSTER_TRIANGLES;
    placed->n_vertices = clusters->first_vertex[cluster + 1] - clusters->first_vertex[cluster];
    for (uint32_t v = 0; v < placed->n_vertices; v++)
        ct_surface_place(surface, surface->positions + 3 * (size_t)vertices[v], placed->world[v]);
    for (uint32_t t = 0; t < placed->n && !has_corners; t++) {
        const uint32_t *corners = mesh->triangles + 3 * (size_t)(first + t);
        placed->owned[t] = 0;
        for (uint32_t k = 0; k < 3; k++) {
            placed->corner[t][k] = place_of(vertices, placed->n_vertices, corners[k]);
            /* The surface is closed: the triangle beyond the edge has it in the other direction. */
            placed->owned[t] |= (uint8_t)((corners[k] < corners[(k + 1) % 3]) << k);
        }
    }
}

/* Of a placed cluster; nothing, if it is turned to these axes already. */
static void turn_cluster(ct_searched_cluster *placed, const ct_search_axes *axes) {
    if (placed->axes == axes->number) return;
    placed->axes = axes->number;
    for (uint32_t v = 0; v < placed->n_vertices; v++) ct_search_turn(axes, placed->world[v], placed->turned[v]);
    for (uint32_t i = 1; i < CT_PLACED_PARTS; i++) placed->parts[i] = ct_box_none();
    for (uint32_t t = 0; t < placed->n; t++) {
        ct_box *box = &placed->triangles[t];
        *box = ct_box_none();
        for (int k = 0; k < 3; k++) ct_box_add_point(box, placed->turned[placed->corner[t][k]]);
        ct_box_add_box(&placed->parts[CT_PLACED_LEAVES + t / CT_PART_TRIANGLES], box);
    }
    for (uint32_t i = CT_PLACED_LEAVES - 1; i >= ct_placed_root(placed); i--) {
        ct_box_add_box(&placed->parts[i], &placed->parts[2 * i]);
        ct_box_add_box(&placed->parts[i], &placed->parts[2 * i + 1]);
    }
}

/* ---- features ---- */

/* What to list, and where. */
struct listing {
    const ct_searched_cluster *placed;
    const ct_box *box;
    double squared, error; /* from the box, m^2; of it, m */
    ct_closest_part *features;
};

static bool is_near(const struct listing *l, const ct_box *box) {
    return !(ct_squared_gap(box, l->box, l->error) > l->squared);
}

static void list_corner(const struct listing *l, uint32_t corner) {
    const double *at = l->placed->turned[corner];
    const ct_box box = {{at[0], at[1], at[2]}, {at[0], at[1], at[2]}};
    if (!is_near(l, &box)) return;
    l->features->corner_boxes[l->features->n_corners] = box;
    l->features->corners[l->features->n_corners++] = l->placed->world[corner];
}

static void list_edge(const struct listing *l, uint32_t p, uint32_t q) {
    ct_box box = ct_box_none();
    ct_box_add_point(&box, l->placed->turned[p]);
    ct_box_add_point(&box, l->placed->turned[q]);
    if (!is_near(l, &box)) return;
    l->features->edge_boxes[l->features->n_edges] = box;
    l->features->edges[l->features->n_edges++] = ct_closest_edge_of(l->placed->world[p], l->placed->world[q]);
}

static void list_face(const struct listing *l, uint32_t t) {
    const uint16_t *corner = l->placed->corner[t];
    const double(*world)[3] = l->placed->world;
    ct_box_add_box(&l->features->box, &l->placed->triangles[t]);
    l->features->face_boxes[l->features->n_faces] = l->placed->triangles[t];
    l->features->faces[l->features->n_faces++] =
        ct_closest_face_of(world[corner[0]], world[corner[1]], world[corner[2]]);
}

/* Of the triangles of a part without halves that may be within a distance of a box: the features that may be.
 * squared: m^2, of the distance. False: there are none. */
static bool list_near(const ct_searched_cluster *placed, uint32_t part, const ct_box *box, double squared, double error,
                      ct_closest_part *features) {
    const struct listing l = {placed, box, squared, error, features};
    const uint32_t first = (part - CT_PLACED_LEAVES) * CT_PART_TRIANGLES;
    const uint32_t end = first + CT_PART_TRIANGLES < placed->n ? first + CT_PART_TRIANGLES : placed->n;
    uint64_t looked_at[CT_PLACED_VERTICES / 64] = {0};
    features->n_corners = features->n_edges = features->n_faces = 0;
    features->box = ct_box_none();
    for (uint32_t t = first; t < end; t++) {
        if (!is_near(&l, &placed->triangles[t])) continue;
        const uint16_t *corner = placed->corner[t];
        list_face(&l, t);
        for (uint32_t k = 0; k < 3; k++) {
            const uint64_t bit = (uint64_t)1 << corner[k] % 64;
            if (!(looked_at[corner[k] / 64] & bit)) list_corner(&l, corner[k]);
            looked_at[corner[k] / 64] |= bit;
            if (placed->owned[t] >> k & 1) list_edge(&l, corner[k], corner[(k + 1) % 3]);
        }
    }
    return features->n_faces > 0;
}

/* Of coordinates: what rounding may add to the gap of two boxes. */
static const double ERROR = 1e-14;

enum {
    GUESSES = 8,              /* directions that are tried for the axes */
    LOADS_OF_CLUSTER = 4,     /* for each cluster, pairs of clusters that are worth less than better boxes */
    WORK_BETWEEN_POLLS = 4096 /* pairs of features, at some 2 to 10 ns */
};

/* Counts work, and polls. */
static bool is_ended(ct_pair_distance *s, uint64_t work) {
    s->work += work;
    if (s->work < s->next_poll) return s->is_over;
    s->next_poll = s->work + WORK_BETWEEN_POLLS;
    if (ct_is_cancelled_at("separations", s->found)) s->is_over = s->is_cancelled = true;
    return s->is_over;
}

/* ---- axes ---- */

/* first: unit; the second is across it, as near to `second` as can be. */
static void set_axes(ct_pair_distance *s, const double first[3], const double second[3]) {
    double(*row)[3] = s->axes.row;
    s->axes.number = ++s->n_axes;
    memcpy(row[0], first, sizeof row[0]);
    double along = ct_dot3(second, first), length = 0;
    for (int i = 0; i < 3; i++) row[1][i] = second[i] - along * first[i];
    if (!(ct_dot3(row[1], row[1]) > 1e-6 * ct_dot3(second, second))) {
        int least = 0;
        for (int i = 1; i < 3; i++)
            if (fabs(first[i]) < fabs(first[least])) least = i;
        for (int i = 0; i < 3; i++) row[1][i] = (i == least) - first[least] * first[i];
    }
    length = sqrt(ct_dot3(row[1], row[1]));
    for (int i = 0; i < 3; i++) row[1][i] /= length;
    ct_cross3(first, row[1], row[2]);
    for (int side = 0; side < 2 && s->surface[side]; side++) {
        const double *pose = s->surface[side]->body->pose, from[3] = {pose[3], pose[7], pose[11]};
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < 3; k++)
                s->turn[side][i][k] = row[i][0] * pose[k] + row[i][1] * pose[4 + k] + row[i][2] * pose[8 + k];
            s->shift[side][i] = ct_dot3(row[i], from);
        }
    }
}

/* ---- boxes of nodes ---- */

static ct_box box_of_node(const ct_pair_distance *s, int side, uint32_t node) {
    if (s->has_boxes) return s->boxes[side][node];
    const ct_cluster_box *of = &s->surface[side]->boxes[node];
    ct_box box;
    double middle[3], half[3];
    for (int k = 0; k < 3; k++) {
        middle[k] = 0.5 * ((double)of->lo[k] + (double)of->hi[k]);
        half[k] = 0.5 * ((double)of->hi[k] - (double)of->lo[k]);
    }
    for (int i = 0; i < 3; i++) {
        const double *turn = s->turn[side][i];
        double at = s->shift[side][i], width = 0, size = fabs(at);
        for (int k = 0; k < 3; k++) {
            at += turn[k] * middle[k];
            size += fabs(turn[k] * middle[k]);
            width += fabs(turn[k]) * half[k];
        }
        width += ERROR * (size + width);
        box.lo[i] = at - width;
        box.hi[i] = at + width;
    }
    return box;
}

static double size_of(const ct_box *box) {
    double size = 0;
    for (int i = 0; i < 3; i++) size = box->hi[i] - box->lo[i] > size ? box->hi[i] - box->lo[i] : size;
    return size;
}

/* ---- a guess ---- */

struct support {
    double height;
    double at[3]; /* m, world */
};

/* A node of the tree of a surface, toward a direction in the axes of its positions. */
static double most_of_box(const ct_cluster_box *box, const double toward[3]) {
    double most = 0;
    for (int k = 0; k < 3; k++) most += toward[k] * (double)(toward[k] > 0 ? box->hi[k] : box->lo[k]);
    return most;
}

static void find_support_below(ct_pair_distance *s, const ct_surface *surface, const double toward[3], uint32_t level,
                               uint32_t node, struct support *best) {
    const ct_clusters *c = surface->clusters;
    if (is_ended(s, CT_CLUSTER_FAN)) return;
    if (level == 0) {
        for (uint32_t i = c->first_vertex[node]; i < c->first_vertex[node + 1]; i++) {
            const float *p = surface->positions + 3 * (size_t)c->vertices[i];
            const double height = toward[0] * (double)p[0] + toward[1] * (double)p[1] + toward[2] * (double)p[2];
            if (!(height > best->height)) continue;
            best->height = height;
            ct_surface_place(surface, p, best->at);
        }
        is_ended(s, CT_CLUSTER_TRIANGLES / 2);
        return;
    }
    const uint32_t first = c->level[level - 1] + (node - c->level[level]) * CT_CLUSTER_FAN;
    uint32_t order[CT_CLUSTER_FAN], n = 0;
    double most[CT_CLUSTER_FAN];
    for (uint32_t child = first; n < CT_CLUSTER_FAN && child < c->level[level]; child++, n++) {
        most[n] = most_of_box(&surface->boxes[child], toward);
        uint32_t at = n;
        for (; at > 0 && most[order[at - 1]] < most[n]; at--) order[at] = order[at - 1];
        order[at] = n;
    }
    for (uint32_t i = 0; i < n && most[order[i]] > best->height; i++)
        find_support_below(s, surface, toward, level - 1, first + order[i], best);
}

/* The vertex that is farthest in a direction, but for rounding. */
static struct support find_support(ct_pair_distance *s, int side, const double toward[3]) {
    const ct_surface *surface = s->surface[side];
    struct support best = {-INFINITY, {0, 0, 0}};
    if (surface->clusters->n == 1) {
        const ct_searched_cluster *placed = s->placed[side];
        for (uint32_t v = 0; v < placed->n_vertices; v++) {
            const double height = ct_dot3(placed->world[v], toward);
            if (!(height > best.height)) continue;
            best.height = height;
            memcpy(best.at, placed->world[v], sizeof best.at);
        }
        return best;
    }
    double turned[3];
    const double *pose = surface->body->pose;
    for (int k = 0; k < 3; k++) turned[k] = pose[k] * toward[0] + pose[4 + k] * toward[1] + pose[8 + k] * toward[2];
    find_support_below(s, surface, turned, surface->clusters->n_levels - 1, surface->clusters->n_nodes - 1, &best);
    return best;
}

/* Axes along the shortest vector of the difference of both convex hulls, found by Gilbert's algorithm: exact for convex
 * bodies that are apart, and as good as any for others. No pair of vertices that it meets is closer than the bodies:
 * that bounds the search from the start. */
static void guess(ct_pair_distance *s) {
    static const double x[3] = {1, 0, 0}, y[3] = {0, 1, 0};
    ct_closest_query *c = &s->closest;
    double v[3];
    bool is_apart = false;
    memcpy(v, ct_dot3(c->toward, c->toward) > 0 ? c->toward : x, sizeof v);
    for (int round = 0; round < GUESSES && !s->is_over; round++) {
        const double back[3] = {-v[0], -v[1], -v[2]};
        const struct support p = find_support(s, 0, back), q = find_support(s, 1, v);
        double w[3], step[3];
        for (int i = 0; i < 3; i++) w[i] = p.at[i] - q.at[i];
        const double apart = sqrt(ct_dot3(w, w)) + c->error, bound = apart * apart * (1 + 1e-9);
        if (bound < c->best.squared) c->best.squared = bound; /* no points are known of it yet */
        const double vv = ct_dot3(v, v), vw = ct_dot3(v, w);
        is_apart = vw > 0;
        if (round == 0) {
            memcpy(v, w, sizeof v);
            continue;
        }
        if (!(vv - vw > 1e-9 * vv)) break;
        for (int i = 0; i < 3; i++) step[i] = w[i] - v[i];
        const double part = -ct_dot3(v, step) / ct_dot3(step, step);
        for (int i = 0; i < 3; i++) v[i] += (part < 1 ? part : 1) * step[i];
    }
    const double length = sqrt(ct_dot3(v, v));
    if (is_apart && length > 0)
        set_axes(s, (double[]){v[0] / length, v[1] / length, v[2] / length}, x);
    else
        set_axes(s, x, y);
}

/* ---- clusters ---- */

static bool has_halves(uint32_t part) {
    return part < CT_PLACED_LEAVES;
}

static void compare_features(ct_pair_distance *s, const uint32_t part[2]) {
    ct_closest_query *c = &s->closest;
    ct_closest_part *const *of = s->part;
    const uint64_t before = c->compared;
    if (list_near(s->placed[0], part[0], &s->placed[1]->parts[part[1]], c->best.squared, c->error, of[0]) &&
        list_near(s->placed[1], part[1], &of[0]->box, c->best.squared, c->error, of[1]))
        ct_closest_of_parts(of[0], of[1], c);
    is_ended(s, 2 * CT_PART_TRIANGLES + (c->compared - before));
}

static void compare_parts(ct_pair_distance *s, uint32_t a, uint32_t b) {
    const ct_box *box[2] = {&s->placed[0]->parts[a], &s->placed[1]->parts[b]};
    if (s->is_over || ct_squared_gap(box[0], box[1], s->closest.error) > s->closest.best.squared) return;
    uint32_t part[2] = {a, b};
    if (!has_halves(a) && !has_halves(b)) {
        compare_features(s, part);
        return;
    }
    const int side = has_halves(a) && (!has_halves(b) || size_of(box[0]) >= size_of(box[1])) ? 0 : 1;
    const uint32_t half = 2 * part[side];
    const ct_box *halves = &s->placed[side]->parts[half], *other = box[1 - side];
    const bool is_second_nearer = ct_squared_gap(&halves[1], other, 0) < ct_squared_gap(&halves[0], other, 0);
    for (uint32_t i = 0; i < 2; i++) {
        part[side] = half + (i ^ is_second_nearer);
        compare_parts(s, part[0], part[1]);
    }
}

static void compare_clusters(ct_pair_distance *s, const uint32_t at[2]) {
    for (int side = 0; side < 2; side++) {
        place_cluster(s->placed[side], s->surface[side], at[side]);
        if (s->placed[side]->axes != s->axes.number) is_ended(s, CT_CLUSTER_TRIANGLES);
        turn_cluster(s->placed[side], &s->axes);
    }
    compare_parts(s, ct_placed_root(s->placed[0]), ct_placed_root(s->placed[1]));
    if (++s->loaded == s->load_limit && !s->has_boxes) s->is_over = true;
}

/* ---- trees ---- */

struct node {
    uint32_t level, at;
    ct_box box;
};

static uint32_t list_children(const ct_pair_distance *s, int side, const struct node *node,
                              struct node children[CT_CLUSTER_FAN]) {
    const ct_clusters *c = s->surface[side]->clusters;
    const uint32_t first = c->level[node->level - 1] + (node->at - c->level[node->level]) * CT_CLUSTER_FAN;
    uint32_t n = 0;
    for (uint32_t at = first; n < CT_CLUSTER_FAN && at < c->level[node->level]; at++, n++)
        children[n] = (struct node){node->level - 1, at, box_of_node(s, side, at)};
    return n;
}

static void descend(ct_pair_distance *s, const struct node *a, const struct node *b) {
    const struct node *node[2] = {a, b};
    if (a->level == 0 && b->level == 0) {
        compare_clusters(s, (uint32_t[]){a->at, b->at});
        return;
    }
    const int side = b->level == 0 || (a->level > 0 && size_of(&a->box) >= size_of(&b->box)) ? 0 : 1;
    struct node children[CT_CLUSTER_FAN];
    double gap[CT_CLUSTER_FAN];
    uint32_t order[CT_CLUSTER_FAN];
    const uint32_t n = list_children(s, side, node[side], children);
    for (uint32_t i = 0; i < n; i++) { /* the nearest first */
        gap[i] = ct_squared_gap(&children[i].box, &node[1 - side]->box, s->closest.error);
        uint32_t at = i;
        for (; at > 0 && gap[order[at - 1]] > gap[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    for (uint32_t i = 0; i < n && !is_ended(s, CT_CLUSTER_FAN); i++) {
        if (gap[order[i]] > s->closest.best.squared) return;
        node[side] = &children[order[i]];
        descend(s, node[0], node[1]);
    }
}

static struct node root_of(const ct_pair_distance *s, int side) {
    const ct_clusters *c = s->surface[side]->clusters;
    return (struct node){c->n_levels - 1, c->n_nodes - 1, box_of_node(s, side, c->n_nodes - 1)};
}

static void descend_from_roots(ct_pair_distance *s) {
    const struct node roots[2] = {root_of(s, 0), root_of(s, 1)};
    descend(s, &roots[0], &roots[1]);
}

/* ---- better boxes ---- */

/* Boxes in the bodies' own axes say little of needles that lie along none of them: theirs are as large as the bodies.
 * Where a search looks into many pairs of clusters, axes along an edge near the closest points are better, with boxes
 * around the vertices. */
static bool find_boxes(ct_pair_distance *s, int side) {
    const ct_surface *surface = s->surface[side];
    const ct_clusters *c = surface->clusters;
    if (c->n_nodes > s->capacity[side]) {
        free(s->boxes[side]);
        s->boxes[side] = malloc(c->n_nodes * sizeof *s->boxes[side]);
        s->capacity[side] = s->boxes[side] ? c->n_nodes : 0;
        if (!s->boxes[side]) return false;
    }
    for (uint32_t level = 0; level < c->n_levels; level++)
        for (uint32_t node = c->level[level]; node < c->level[level + 1]; node++) {
            ct_box *box = &s->boxes[side][node];
            *box = (ct_box){{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};
            const uint32_t first =
                level ? c->level[level - 1] + (node - c->level[level]) * CT_CLUSTER_FAN : c->first_vertex[node];
            const uint32_t most = level ? c->level[level] : c->first_vertex[node + 1];
            const uint32_t end = level && most - first > CT_CLUSTER_FAN ? first + CT_CLUSTER_FAN : most;
            for (uint32_t i = first; i < end; i++) {
                double p[3], q[3];
                const double *lo = q, *hi = q;
                if (level) {
                    lo = s->boxes[side][i].lo;
                    hi = s->boxes[side][i].hi;
                } else {
                    ct_surface_place(surface, surface->positions + 3 * (size_t)c->vertices[i], p);
                    ct_search_turn(&s->axes, p, q);
                }
                for (int k = 0; k < 3; k++) {
                    box->lo[k] = lo[k] < box->lo[k] ? lo[k] : box->lo[k];
                    box->hi[k] = hi[k] > box->hi[k] ? hi[k] : box->hi[k];
                }
            }
            if (is_ended(s, CT_CLUSTER_TRIANGLES)) return true;
        }
    return true;
}

/* Of the clusters that were looked into last. */
static void find_longest_edge(const ct_pair_distance *s, double longest[3]) {
    memset(longest, 0, 3 * sizeof *longest);
    for (int side = 0; side < 2; side++)
        for (uint32_t t = 0; t < s->placed[side]->n; t++)
            for (int k = 0; k < 3; k++) {
                const uint16_t *corner = s->placed[side]->corner[t];
                const double *p = s->placed[side]->world[corner[k]], *q = s->placed[side]->world[corner[(k + 1) % 3]];
                const double along[3] = {q[0] - p[0], q[1] - p[1], q[2] - p[2]};
                if (ct_dot3(along, along) > ct_dot3(longest, longest)) memcpy(longest, along, sizeof along);
            }
}

static bool find_better_boxes(ct_pair_distance *s) {
    const ct_closest *best = &s->closest.best;
    double first[3], longest[3];
    memcpy(first, s->axes.row[0], sizeof first);
    if (isfinite(best->point[0][0]) && best->squared > 0)
        for (int i = 0; i < 3; i++) first[i] = (best->point[0][i] - best->point[1][i]) / sqrt(best->squared);
    find_longest_edge(s, longest);
    set_axes(s, first, longest);
    s->has_boxes = find_boxes(s, 0) && find_boxes(s, 1);
    return s->has_boxes;
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

/* Below a node of the surface, in axes whose first is the plane's normal. */
static void find_lowest(ct_pair_distance *s, const struct plane *plane, const struct node *node,
                        struct support *lowest) {
    const ct_surface *surface = s->surface[0];
    if (is_ended(s, CT_CLUSTER_FAN)) return;
    if (node->box.lo[0] - ct_dot3(plane->normal, plane->origin) - s->closest.error > lowest->height) return;
    if (node->level > 0) {
        struct node children[CT_CLUSTER_FAN];
        const uint32_t n = list_children(s, 0, node, children);
        for (uint32_t i = 0; i < n; i++) find_lowest(s, plane, &children[i], lowest);
        return;
    }
    const ct_clusters *c = surface->clusters;
    for (uint32_t i = c->first_vertex[node->at]; i < c->first_vertex[node->at + 1]; i++) {
        double p[3];
        ct_surface_place(surface, surface->positions + 3 * (size_t)c->vertices[i], p);
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
    is_ended(s, c->first_vertex[node->at + 1] - c->first_vertex[node->at]);
}

static double reach_of(const ct_box *box) {
    double reach = 0;
    for (int i = 0; i < 3; i++) reach = fmax(reach, fmax(fabs(box->lo[i]), fabs(box->hi[i])));
    return reach;
}

bool ct_pair_distance_above(ct_pair_distance *s, const ct_surface *surface, const ct_body *half_space, int side,
                            double margin, ct_separation *out, bool *is_near) {
    struct plane plane;
    struct support lowest = {margin, {INFINITY, INFINITY, INFINITY}};
    double length = 0, reach = reach_of(&surface->body->box);
    for (int i = 0; i < 3; i++) {
        plane.normal[i] = half_space->pose[4 * i + 2];
        plane.origin[i] = half_space->pose[4 * i + 3];
        length += plane.normal[i] * plane.normal[i];
        reach = fmax(reach, fabs(plane.origin[i]));
    }
    for (int i = 0; i < 3; i++) plane.normal[i] /= sqrt(length);
    s->surface[0] = surface;
    s->surface[1] = NULL;
    s->has_boxes = s->is_over = s->is_cancelled = false;
    s->closest.error = ERROR * reach;
    set_axes(s, plane.normal, plane.normal);
    const struct node root = root_of(s, 0);
    find_lowest(s, &plane, &root, &lowest);
    *is_near = lowest.height < margin;
    if (!*is_near || s->is_cancelled) return !s->is_cancelled;
    out->distance = fmax(lowest.height, 0);
    for (int i = 0; i < 3; i++) {
        out->point[1 - side][i] = lowest.at[i];
        out->point[side][i] = lowest.at[i] - lowest.height * plane.normal[i];
        out->normal[i] = side ? plane.normal[i] : -plane.normal[i];
    }
    return true;
}

/* ---- pairs ---- */

static void begin(ct_pair_distance *s, const ct_surface *const surface[2], double margin) {
    ct_closest_query *c = &s->closest;
    const ct_box *box[2] = {&surface[0]->body->box, &surface[1]->body->box};
    const double reach = fmax(reach_of(box[0]), reach_of(box[1]));
    for (int i = 0; i < 3; i++) c->toward[i] = box[0]->lo[i] + box[0]->hi[i] - box[1]->lo[i] - box[1]->hi[i];
    c->touching = CT_TOUCHING * reach;
    c->error = ERROR * reach;
    c->best = (ct_closest){.squared = margin * margin};
    for (int i = 0; i < 3; i++) c->best.point[0][i] = c->best.point[1][i] = INFINITY;
    s->has_boxes = s->is_over = s->is_cancelled = false;
    s->loaded = 0;
    s->load_limit = LOADS_OF_CLUSTER * ((uint64_t)surface[0]->clusters->n + surface[1]->clusters->n);
    for (int side = 0; side < 2; side++) {
        s->surface[side] = surface[side];
        if (surface[side]->clusters->n == 1) place_cluster(s->placed[side], surface[side], 0);
    }
}

bool ct_pair_distance_find(ct_pair_distance *s, const ct_surface *a, const ct_surface *b, double margin,
                           ct_separation *out, bool *is_near) {
    const ct_closest *best = &s->closest.best;
    begin(s, (const ct_surface *[]){a, b}, margin);
    guess(s);
    if (!s->is_over) descend_from_roots(s);
    if (s->is_over && !s->is_cancelled) {
        s->is_over = false;
        if (!find_better_boxes(s)) return false;
        if (!s->is_over) descend_from_roots(s);
    }
    *is_near = best->squared < margin * margin && isfinite(best->point[0][0]);
    if (!*is_near || s->is_cancelled) return !s->is_cancelled;
    out->distance = sqrt(best->squared);
    memcpy(out->point, best->point, sizeof out->point);
    memcpy(out->normal, best->normal, sizeof out->normal);
    for (int i = 0; i < 3 && !best->is_on_face && out->distance > 0; i++)
        out->normal[i] = (out->point[0][i] - out->point[1][i]) / out->distance;
    return true;
}

bool ct_pair_distance_open(ct_pair_distance *s) {
    bool ok = true;
    memset(s, 0, sizeof *s);
    for (int side = 0; side < 2; side++) {
        s->placed[side] = calloc(1, sizeof *s->placed[side]);
        s->part[side] = malloc(sizeof *s->part[side]);
        ok = ok && s->placed[side] && s->part[side];
    }
    return ok;
}

void ct_pair_distance_free(ct_pair_distance *s) {
    for (int side = 0; side < 2; side++) {
        free(s->placed[side]);
        free(s->part[side]);
        free(s->boxes[side]);
    }
    memset(s, 0, sizeof *s);
}
