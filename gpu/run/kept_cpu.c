/* kept_cpu.c - answers of pairs whose bodies have not moved. A pair's answer follows from its bodies, the scene's
 * settings and the step's wishes alone; where these are the same, bit for bit, so is the answer. */
#include "gpu/run/kept_cpu.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/scene/scene.h"

/* Bytes that a scene keeps at most. */
enum { MOST_BYTES = 64 << 20 };

/* Spans, tiles, cells and products are large, and rarely wanted of what does not move. */
static bool keeps_answers(const ct_step *step, const ct_cpu_method *method) {
    return method->keeps_answers && !(step->want & (CT_WANT_SPANS | CT_WANT_TILES)) && step->n_directions == 0 &&
           step->scene->settings.cell_size == 0;
}

ct_kept_walk ct_kept_begin(const ct_step *step, const ct_cpu_method *method) {
    const ct_kept *kept = step->scene->kept;
    if (!kept || kept->version != step->scene->version || !keeps_answers(step, method)) return (ct_kept_walk){0};
    return (ct_kept_walk){kept->pairs, kept->pairs + kept->n};
}

ct_kept_pair *ct_kept_find(ct_kept_walk *walk, const ct_step *step, const ct_body *a, const ct_body *b) {
    if (walk->next == walk->end) return NULL;
    const uint64_t key = ct_pair_key(a->id, b->id);
    while (walk->next != walk->end && walk->next->key < key) walk->next++;
    ct_kept_pair *pair = walk->next;
    if (pair == walk->end || pair->key != key || pair->want != step->want) return NULL;
    return pair->n_moves[0] == a->resident->n_moves && pair->n_moves[1] == b->resident->n_moves ? pair : NULL;
}

void ct_kept_answer(ct_pair_task *pair) {
    const ct_kept_pair *kept = pair->kept;
    pair->is_alone = false; /* the result copies its entries */
    pair->n_contacts = kept->n_contacts;
    pair->contacts = kept->contacts;
    pair->ended = kept->ended;
    pair->passes = kept->passes;
    pair->rays = kept->rays;
    pair->fragments = kept->fragments;
}

/* ---- keeping ---- */

/* Where the next part of a block begins; with no block, how long it is so far. */
struct block {
    char *memory;
    size_t used;
};

static void *copy_to(struct block *block, const void *from, size_t bytes) {
    if (!from) return NULL;
    void *to = block->memory ? block->memory + block->used : NULL;
    if (to) memcpy(to, from, bytes);
    block->used += (bytes + 7) / 8 * 8;
    return to;
}

/* Copies the contacts that were found, or counts their bytes. */
static ct_pair_contact *copy_contacts(const ct_pair_task *task, uint32_t n_found, struct block *block) {
    ct_pair_contact *copies = block->memory ? (ct_pair_contact *)block->memory : NULL;
    uint32_t k = 0;
    block->used = n_found * sizeof *copies;
    for (uint32_t c = 0; c < task->n_contacts && n_found; c++) {
        const ct_pair_contact *contact = &task->contacts[c];
        if (!contact->is_found) continue;
        const ct_entry_arrays *of = &contact->entries;
        const uint64_t n = contact->contact.count[0] + contact->contact.count[1];
        const ct_entry_arrays entries = {copy_to(block, of->vertices, n * sizeof *of->vertices),
                                         copy_to(block, of->gradient, 3 * n * sizeof *of->gradient),
                                         copy_to(block, of->weights, n * sizeof *of->weights),
                                         copy_to(block, of->forces, 3 * n * sizeof *of->forces)};
        if (copies) copies[k++] = (ct_pair_contact){.is_found = true, .contact = contact->contact, .entries = entries};
    }
    return copies;
}

static uint32_t count_found(const ct_pair_task *task) {
    uint32_t n = 0;
    for (uint32_t c = 0; task->contacts && c < task->n_contacts; c++) n += task->contacts[c].is_found;
    return n;
}

/* False: there is no memory for it. */
static bool keep(const ct_pair_task *task, size_t most, ct_kept_pair *out) {
    const uint32_t n_found = count_found(task);
    struct block block = {0};
    copy_contacts(task, n_found, &block);
    if (block.used > most || (block.used && !(block.memory = malloc(block.used)))) return false;
    *out = (ct_kept_pair){.key = ct_pair_key(task->body[0]->id, task->body[1]->id),
                          .n_moves = {task->body[0]->resident->n_moves, task->body[1]->resident->n_moves},
                          .want = task->step->want,
                          .n_contacts = n_found,
                          .bytes = block.used,
                          .ended = task->ended,
                          .passes = task->passes,
                          .rays = task->rays,
                          .fragments = task->fragments};
    out->contacts = copy_contacts(task, n_found, &block);
    return true;
}

static bool is_at_rest(const ct_pair_task *task) {
    return task->body[0]->resident->at_rest > 0 && task->body[1]->resident->at_rest > 0;
}

static void free_pairs(ct_kept_pair *pairs, size_t n) {
    for (size_t i = 0; i < n; i++) free(pairs[i].contacts);
    free(pairs);
}

void ct_kept_forget(ct_scene *scene) {
    if (!scene->kept) return;
    free_pairs(scene->kept->pairs, scene->kept->n);
    free(scene->kept);
    scene->kept = NULL;
    scene->kept_bytes = 0;
}

static size_t count_kept(const ct_pair_task *pairs, size_t n_pairs) {
    size_t n = 0;
    for (size_t i = 0; i < n_pairs; i++) n += pairs[i].kept || is_at_rest(&pairs[i]);
    return n;
}

/* Answers that were kept before move over, and those of pairs that have come to rest join them. */
static void gather(ct_kept *next, const ct_pair_task *pairs, size_t n_pairs) {
    for (size_t i = 0; i < n_pairs; i++) {
        ct_kept_pair *out = &next->pairs[next->n], *before = pairs[i].kept;
        if (before) {
            *out = *before;
            before->contacts = NULL;
        } else if (!is_at_rest(&pairs[i]) || !keep(&pairs[i], MOST_BYTES - next->bytes, out)) {
            continue;
        }
        next->bytes += out->bytes;
        next->n++;
    }
}

void ct_kept_update(const ct_step *step, const ct_cpu_method *method, ct_pair_task *pairs, size_t n_pairs) {
    ct_scene *scene = step->scene;
    const bool may_keep = keeps_answers(step, method) && (scene->kept || scene->n_at_rest);
    const size_t n = may_keep ? count_kept(pairs, n_pairs) : 0;
    if (n == 0) {
        ct_kept_forget(scene);
        return;
    }
    ct_kept *next = malloc(sizeof *next);
    ct_kept_pair *room = malloc(n * sizeof *room);
    if (!next || !room) { /* the pairs' contacts may be those that are kept */
        free(next);
        free(room);
        return;
    }
    *next = (ct_kept){.version = scene->version, .pairs = room};
    gather(next, pairs, n_pairs);
    ct_kept_forget(scene);
    scene->kept = next;
    scene->kept_bytes = next->bytes + n * sizeof *room;
}
