/* slots.c - handles with generations over a growing array. */
#include "server/registry/slots.h"

#include <stdlib.h>

enum { SLOT_BITS = 24 };
#define SLOT_MASK       ((1u << SLOT_BITS) - 1)
#define GENERATION_MASK ((1u << 28) - 1)

static uint64_t handle_of(uint32_t index, uint32_t generation) {
    return (uint64_t)generation << SLOT_BITS | (index + 1);
}

uint64_t slots_add(slots *slots, void *item) {
    uint32_t index;
    if (slots->first_free) {
        index = slots->first_free - 1;
        slots->first_free = slots->slots[index].next_free;
        if (!slots->first_free) slots->last_free = 0;
    } else {
        if (slots->n == SLOT_MASK) return 0;
        if (slots->n == slots->room) {
            uint32_t room = slots->room ? slots->room * 2 : 64;
            slot *grown = realloc(slots->slots, room * sizeof *grown);
            if (!grown) return 0;
            slots->slots = grown;
            slots->room = room;
        }
        index = slots->n++;
        slots->slots[index] = (slot){0};
    }
    slots->slots[index].item = item;
    slots->used++;
    return handle_of(index, slots->slots[index].generation);
}

void *slots_get(const slots *slots, uint64_t handle, bool *stale) {
    uint64_t index = (handle & SLOT_MASK) - 1, generation = handle >> SLOT_BITS;
    if (stale) *stale = false;
    if (!(handle & SLOT_MASK) || index >= slots->n) return NULL;
    const slot *slot = &slots->slots[index];
    if (slot->item && slot->generation == generation) return slot->item;
    if (stale) *stale = generation < slot->generation;
    return NULL;
}

void slots_remove(slots *slots, uint64_t handle) {
    if (!slots_get(slots, handle, NULL)) return;
    uint32_t number = handle & SLOT_MASK;
    slot *slot = &slots->slots[number - 1];
    slot->item = NULL;
    slot->generation = (slot->generation + 1) & GENERATION_MASK;
    slot->next_free = 0;
    if (slots->last_free) {
        slots->slots[slots->last_free - 1].next_free = number;
    } else {
        slots->first_free = number;
    }
    slots->last_free = number;
    slots->used--;
}

void *slots_next(const slots *slots, uint32_t *at) {
    while (*at < slots->n) {
        void *item = slots->slots[(*at)++].item;
        if (item) return item;
    }
    return NULL;
}

void slots_free(slots *slots) {
    free(slots->slots);
    *slots = (struct slots){0};
}
