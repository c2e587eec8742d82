/* identity.c - see identity.h. Nearest places are found along the longest axis of where they lie, outwards from the place
 * itself, so that thousands of contacts of one pair, as of combs, cost no search of all against all. */
#include "gpu/after/identity.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/base/array.h"
#include "gpu/base/cancel.h"
#include "gpu/base/fail.h"
#include "gpu/base/vec.h"

enum { NONE = -1, NEW = -2 };

/* A contact, or a point of one. */
typedef struct known {
    uint64_t id;
    double place[2][3]; /* m, in the axes of each body */
    double reach;       /* r, m; of a point that of its contact */
    uint32_t body[2];
    double middle[2][3];          /* m, of the bodies' boxes; of a point as what follows: not used */
    size_t first_point, n_points; /* in points[] */
    bool persists;                /* of what was: it is there still */
    ptrdiff_t before;             /* of what is: the contact that it was, or NEW */
} known;

typedef struct memory {
    known *contacts, *points;
    size_t n_contacts, n_points, contact_capacity, point_capacity;
} memory;

/* A place along one axis of one body. */
typedef struct key {
    double x;
    size_t item;
} key;

/* One side of a match: what was, or what is. */
typedef struct side {
    const known *items;
    size_t n;
    ptrdiff_t *partner; /* of each: the index on the other side; NONE: not found; NEW: there is none */
    key *keys[2];       /* of all, by their places on either body, in rising order */
    int axis[2];        /* that keys are along */
} side;

struct ct_identity {
    uint64_t last_id;
    memory kept, next; /* the contacts of the last step that wanted ids; of the one that runs */
    uint64_t next_last_id;
    bool has_next;
    ptrdiff_t *partners; /* of the search, as the next */
    key *keys;
    size_t partner_capacity, key_capacity;
};

/* ---- where contacts lie ---- */

static void middle_of(const ct_body *body, double middle[3]) {
    for (int k = 0; k < 3; k++) {
        middle[k] = body->box.lo[k] / 2 + body->box.hi[k] / 2;
        if (!isfinite(middle[k])) middle[k] = 0; /* of a half-space */
    }
}

static void place_on(const ct_body *body, const double p[3], double out[3]) {
    double from[3], arm[3];
    const double *pose = body->given;
    if (body->kind == CT_BODY_DEFORMABLE)
        middle_of(body, from);
    else
        ct_body_origin(body, from);
    ct_sub3(p, from, arm);
    for (int k = 0; k < 3; k++) out[k] = pose[k] * arm[0] + pose[4 + k] * arm[1] + pose[8 + k] * arm[2];
}

static bool note_points(memory *next, const ct_result *result, const ct_contact *contact, const ct_body *const body[2],
                        known *to) {
    to->first_point = next->n_points;
    to->n_points = contact->n_points;
    if (!ct_array_grow(&next->points, &next->point_capacity, next->n_points + contact->n_points)) return false;
    for (uint64_t i = 0; i < contact->n_points; i++) {
        known *point = &next->points[next->n_points++];
        *point = (known){.reach = to->reach};
        for (int b = 0; b < 2; b++)
            place_on(body[b], result->points[contact->first_point + i].position, point->place[b]);
    }
    return true;
}

/* Of x >= 0, by Newton's method: the library's cbrt differs between processors. */
static double cube_root(double x) {
    if (!(x > 0)) return 0;
    int exponent;
    frexp(x, &exponent);
    double root = ldexp(1, exponent / 3); /* 0.6 to 2 times the root */
    for (int i = 0; i < 6; i++) root -= (root - x / (root * root)) / 3;
    return root;
}

static bool note_contacts(const ct_scene *scene, memory *next, const ct_result *result) {
    next->n_contacts = next->n_points = 0;
    if (!ct_array_grow(&next->contacts, &next->contact_capacity, result->n_contacts)) return false;
    for (size_t i = 0; i < result->n_contacts; i++) {
        const ct_contact *contact = &result->contacts[i];
        const ct_body *body[2];
        known *to = &next->contacts[next->n_contacts++];
        *to = (known){.body = {contact->body[0], contact->body[1]},
                      .reach = fmax(sqrt(contact->area), cube_root(fabs(contact->volume)))};
        for (int b = 0; b < 2; b++) {
            body[b] = ct_scene_find(scene, contact->body[b], NULL);
            middle_of(body[b], to->middle[b]);
            place_on(body[b], contact->center, to->place[b]);
        }
        if (!note_points(next, result, contact, body, to)) return false;
    }
    return true;
}

/* ---- which is which ---- */

static double way2(const known *p, const known *q, int body) {
    double d[3];
    ct_sub3(p->place[body], q->place[body], d);
    return ct_dot3(d, d);
}

static int rising(const void *a, const void *b) {
    const key *p = a, *q = b;
    if (p->x != q->x) return p->x < q->x ? -1 : 1;
    return p->item < q->item ? -1 : 1;
}

static int longest_axis(const known *items, size_t n, int body) {
    ct_box box = ct_box_none();
    for (size_t i = 0; i < n; i++) ct_box_add_point(&box, items[i].place[body]);
    int axis = 0;
    for (int k = 1; k < 3; k++)
        if (box.hi[k] - box.lo[k] > box.hi[axis] - box.lo[axis]) axis = k;
    return axis;
}

static void sort_side(side *side) {
    for (int b = 0; b < 2; b++) {
        side->axis[b] = longest_axis(side->items, side->n, b);
        for (size_t i = 0; i < side->n; i++) side->keys[b][i] = (key){side->items[i].place[b][side->axis[b]], i};
        qsort(side->keys[b], side->n, sizeof(key), rising);
    }
}

typedef struct nearest {
    ptrdiff_t item; /* NONE: there is none */
    double way2;    /* m^2 */
} nearest;

/* Takes what key k has where it is nearer. False: neither it nor any key beyond it is. */
static bool look(const side *among, const known *from, int b, size_t k, nearest *best) {
    const key *at = &among->keys[b][k];
    const double along = at->x - from->place[b][among->axis[b]], far = along * along;
    if (far > best->way2) return false;
    if (among->partner[at->item] != NONE) return true;
    const double found = way2(&among->items[at->item], from, b);
    if (found < best->way2 || (found == best->way2 && (ptrdiff_t)at->item < best->item))
        *best = (nearest){(ptrdiff_t)at->item, found};
    return true;
}

/* Of those without a partner; of several as near the first. */
static nearest find_nearest(const side *among, const known *from) {
    nearest best = {NONE, INFINITY};
    for (int b = 0; b < 2; b++) {
        const double x = from->place[b][among->axis[b]];
        size_t low = 0, high = among->n;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            if (among->keys[b][middle].x < x)
                low = middle + 1;
            else
                high = middle;
        }
        for (size_t k = low; k < among->n && look(among, from, b, k, &best); k++) {
        }
        for (size_t k = low; k > 0 && look(among, from, b, k - 1, &best); k--) {
        }
    }
    return best;
}

/* Those that are nearest to each other, and went less than the limit, are partners. The number of places that were
 * settled: 0 where nothing is left to find. */
static size_t match_round(side *was, side *now, double moved) {
    size_t settled = 0;
    for (size_t j = 0; j < now->n && !ct_is_cancelled(); j++) {
        if (now->partner[j] != NONE) continue;
        const nearest before = find_nearest(was, &now->items[j]);
        if (before.item == NONE) {
            now->partner[j] = NEW;
            continue;
        }
        const known *one = &was->items[before.item];
        if (find_nearest(now, one).item != (ptrdiff_t)j) continue;
        settled++;
        if (sqrt(before.way2) <= 2 * (one->reach + now->items[j].reach) + moved) {
            now->partner[j] = before.item;
            was->partner[before.item] = (ptrdiff_t)j;
        } else {
            now->partner[j] = NEW;
        }
    }
    return settled;
}

/* moved: m, of both bodies since then. False: no memory. Partners of `now` are in ids->partners. */
static bool match(struct ct_identity *ids, const known *was, size_t n_was, const known *now, size_t n_now,
                  double moved) {
    const size_t n = n_was + n_now;
    if (!ct_array_grow(&ids->partners, &ids->partner_capacity, n) ||
        !ct_array_grow(&ids->keys, &ids->key_capacity, 2 * n))
        return false;
    for (size_t i = 0; i < n; i++) ids->partners[i] = NONE;
    if (n_was == 1 && n_now == 1) {
        ids->partners[0] = 0;
        return true;
    }
    if (n_was == 0 || n_now == 0) return true;
    side then = {.items = was, .n = n_was, .partner = ids->partners + n_now, .keys = {ids->keys, ids->keys + n_was}};
    side is = {.items = now,
               .n = n_now,
               .partner = ids->partners,
               .keys = {ids->keys + 2 * n_was, ids->keys + 2 * n_was + n_now}};
    sort_side(&then);
    sort_side(&is);
    while (match_round(&then, &is, moved) > 0 && !ct_is_cancelled()) {
    }
    return !ct_is_cancelled();
}

/* ---- a step ---- */

static int compare_pairs(const known *a, const known *b) {
    if (a->body[0] != b->body[0]) return a->body[0] < b->body[0] ? -1 : 1;
    if (a->body[1] != b->body[1]) return a->body[1] < b->body[1] ? -1 : 1;
    return 0;
}

static size_t end_of_pair(const memory *memory, size_t first) {
    size_t end = first + 1;
    while (end < memory->n_contacts && compare_pairs(&memory->contacts[first], &memory->contacts[end]) == 0) end++;
    return end;
}

static double moved(const known *was, const known *now) {
    double sum = 0, way[3];
    for (int b = 0; b < 2; b++) {
        ct_sub3(now->middle[b], was->middle[b], way);
        sum += sqrt(ct_dot3(way, way));
    }
    return sum;
}

/* The contacts of one pair of bodies, some of which may be in one of the two lists alone. */
static bool match_pair(struct ct_identity *ids, size_t was, size_t n_was, size_t now, size_t n_now) {
    known *then = ids->kept.contacts + was, *is = ids->next.contacts + now;
    if (!match(ids, then, n_was, is, n_now, n_was && n_now ? moved(then, is) : 0)) return false;
    for (size_t j = 0; j < n_now; j++) {
        const ptrdiff_t i = ids->partners[j];
        is[j].before = i < 0 ? NEW : (ptrdiff_t)was + i;
        if (i < 0) continue;
        is[j].id = then[i].id;
        then[i].persists = true;
    }
    return true;
}

/* Both lists are in order of pairs. */
static bool match_contacts(struct ct_identity *ids) {
    const memory *kept = &ids->kept, *next = &ids->next;
    for (size_t i = 0; i < kept->n_contacts; i++) kept->contacts[i].persists = false;
    for (size_t i = 0, j = 0; j < next->n_contacts;) {
        const int side = i < kept->n_contacts ? compare_pairs(&kept->contacts[i], &next->contacts[j]) : 1;
        const size_t i_end = side <= 0 ? end_of_pair(kept, i) : i, j_end = side >= 0 ? end_of_pair(next, j) : j;
        if (side >= 0 && !match_pair(ids, i, i_end - i, j, j_end - j)) return false;
        i = i_end;
        j = j_end;
    }
    for (size_t j = 0; j < next->n_contacts; j++)
        if (next->contacts[j].before == NEW) next->contacts[j].id = ++ids->next_last_id;
    return true;
}

static bool match_points(struct ct_identity *ids) {
    for (size_t j = 0; j < ids->next.n_contacts; j++) {
        const known *now = &ids->next.contacts[j], *was = now->before == NEW ? NULL : &ids->kept.contacts[now->before];
        known *points = ids->next.points + now->first_point;
        if (now->n_points == 0) continue;
        if (!match(ids, was ? ids->kept.points + was->first_point : NULL, was ? was->n_points : 0, points,
                   now->n_points, was ? moved(was, now) : 0))
            return false;
        for (size_t i = 0; i < now->n_points; i++)
            points[i].id = ids->partners[i] < 0 ? ++ids->next_last_id
                                                : ids->kept.points[was->first_point + (size_t)ids->partners[i]].id;
    }
    return true;
}

static int rising_ids(const void *a, const void *b) {
    const uint64_t p = *(const uint64_t *)a, q = *(const uint64_t *)b;
    return (p > q) - (p < q);
}

static bool tell(const struct ct_identity *ids, ct_result *result) {
    for (size_t i = 0; i < result->n_contacts; i++) {
        const known *now = &ids->next.contacts[i];
        result->contacts[i].id = now->id;
        result->contacts[i].is_new = now->before == NEW;
        for (size_t k = 0; k < now->n_points; k++)
            result->points[result->contacts[i].first_point + k].id = ids->next.points[now->first_point + k].id;
    }
    size_t n = 0;
    for (size_t i = 0; i < ids->kept.n_contacts; i++) n += !ids->kept.contacts[i].persists;
    if (n == 0) return true;
    result->ended_ids = malloc(n * sizeof *result->ended_ids);
    if (!result->ended_ids) return false;
    for (size_t i = 0; i < ids->kept.n_contacts; i++)
        if (!ids->kept.contacts[i].persists) result->ended_ids[result->n_ended_ids++] = ids->kept.contacts[i].id;
    qsort(result->ended_ids, n, sizeof *result->ended_ids, rising_ids);
    return true;
}

uint32_t ct_identity_wants(const ct_step *step) {
    return step->want & CT_WANT_IDS ? CT_WANT_FRAME : 0;
}

ct_status ct_result_add_ids(ct_scene *scene, ct_result *result, ct_error *error) {
    if (!scene->identity) scene->identity = calloc(1, sizeof *scene->identity);
    struct ct_identity *ids = scene->identity;
    if (ids) ids->next_last_id = ids->last_id;
    if (ids && note_contacts(scene, &ids->next, result) && match_contacts(ids) && match_points(ids) &&
        tell(ids, result)) {
        ids->has_next = true;
        return CT_OK;
    }
    return ct_fail(error, CT_OUT_OF_MEMORY, "", "no memory to compare %zu contacts with those of the step before",
                   result->n_contacts);
}

void ct_identity_end_step(ct_scene *scene, bool is_good) {
    struct ct_identity *ids = scene->identity;
    if (!ids || !ids->has_next) return;
    ids->has_next = false;
    if (!is_good) return;
    const memory next = ids->next;
    ids->next = ids->kept;
    ids->kept = next;
    ids->last_id = ids->next_last_id;
}

void ct_identity_forget(ct_scene *scene) {
    if (scene->identity) scene->identity->kept.n_contacts = scene->identity->kept.n_points = 0;
}

void ct_identity_free(struct ct_identity **identity) {
    struct ct_identity *ids = *identity;
    if (!ids) return;
    for (memory *m = &ids->kept; m; m = m == &ids->kept ? &ids->next : NULL) {
        free(m->contacts);
        free(m->points);
    }
    free(ids->partners);
    free(ids->keys);
    free(ids);
    *identity = NULL;
}

uint64_t ct_identity_bytes(const struct ct_identity *ids) {
    if (!ids) return 0;
    return sizeof *ids + ids->partner_capacity * sizeof *ids->partners + ids->key_capacity * sizeof *ids->keys +
           (ids->kept.contact_capacity + ids->kept.point_capacity + ids->next.contact_capacity +
            ids->next.point_capacity) *
               sizeof(known);
}
