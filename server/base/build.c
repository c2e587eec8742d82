/* build.c - see build.h. */
#include "server/base/build.h"

#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static char id[2 * 32 + 1];

static size_t padded(size_t size) {
    return (size + 3) & ~(size_t)3;
}

/* Notes have a header, a name and a description, each padded to four bytes. */
static void read_notes(const char *notes, size_t size) {
    for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
        ElfW(Nhdr) note;
        memcpy(&note, notes + at, sizeof note);
        const char *name = notes + at + sizeof note, *bytes = name + padded(note.n_namesz);
        at += sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
        if (at > size) return;
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || memcmp(name, "GNU", 4) != 0) continue;
        for (size_t i = 0; i < note.n_descsz && i < (sizeof id - 1) / 2; i++)
            snprintf(id + 2 * i, 3, "%02x", (unsigned char)bytes[i]);
        return;
    }
}

static int read_program(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_NOTE) read_notes((const char *)(info->dlpi_addr + part->p_vaddr), part->p_memsz);
    }
    return 1; /* the first is the program itself, whose libraries follow */
}

static void find_id(void) {
    dl_iterate_phdr(read_program, NULL);
}

const char *build_id(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_id);
    return id;
}
