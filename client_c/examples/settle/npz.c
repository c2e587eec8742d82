/* npz.c - a zip archive of .npy arrays. */
#include "client_c/examples/settle/npz.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, HEADER = 128, LOCAL = 30, CENTRAL = 46 };

struct npz {
    FILE *file;
    uint32_t at; /* bytes written */
    bool failed;
    int n;
    struct entry {
        char name[32];
        uint32_t crc, size, at;
    } entries[MOST];
};

static uint32_t crc32_of(uint32_t crc, const void *data, size_t size) {
    const unsigned char *bytes = data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    return ~crc;
}

static void put(npz *file, const void *data, size_t size) {
    if (size > UINT32_MAX - file->at || (size && fwrite(data, 1, size, file->file) != size)) file->failed = true;
    file->at += (uint32_t)size;
}

static void put_le(unsigned char *to, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(value >> (8 * i));
}

npz *npz_open(const char *path) {
    npz *file = calloc(1, sizeof *file);
    if (file) file->file = fopen(path, "wb");
    if (file && file->file) return file;
    free(file);
    return NULL;
}

/* The fields that an entry's header and its line in the directory share: version, flags, method, date, sizes, name. */
static void put_fields(unsigned char *to, const struct entry *e) {
    put_le(to, 20, 2);
    put_le(to + 8, 0x21, 2); /* the first day that zip knows */
    put_le(to + 10, e->crc, 4);
    put_le(to + 14, e->size, 4);
    put_le(to + 18, e->size, 4);
    put_le(to + 22, (uint32_t)strlen(e->name), 2);
}

void npz_add(npz *file, const char *name, const char *type, const char *shape, const void *data, size_t bytes) {
    if (file->n == MOST || bytes > UINT32_MAX - HEADER) {
        file->failed = true;
        return;
    }
    struct entry *e = &file->entries[file->n++];
    char header[HEADER + 1], local[LOCAL] = "PK\3\4";
    snprintf(e->name, sizeof e->name, "%s.npy", name);
    /* Magic, version 1.0, length of the rest; the description is padded with blanks and ends its line. */
    memcpy(header, "\x93NUMPY\1\0", 8);
    put_le((unsigned char *)header + 8, HEADER - 10, 2);
    int n = snprintf(header + 10, HEADER - 10, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    memset(header + 10 + n, ' ', (size_t)(HEADER - 10 - n));
    header[HEADER - 1] = '\n';
    e->crc = crc32_of(crc32_of(0, header, HEADER), data, bytes);
    e->size = (uint32_t)(HEADER + bytes);
    e->at = file->at;
    put_fields((unsigned char *)local + 4, e);
    put(file, local, LOCAL);
    put(file, e->name, strlen(e->name));
    put(file, header, HEADER);
    put(file, data, bytes);
}

bool npz_close(npz **file) {
    npz *f = *file;
    uint32_t start = f->at;
    for (int i = 0; i < f->n; i++) {
        unsigned char line[CENTRAL] = "PK\1\2";
        put_le(line + 4, 20, 2);
        put_fields(line + 6, &f->entries[i]);
        put_le(line + 42, f->entries[i].at, 4);
        put(f, line, CENTRAL);
        put(f, f->entries[i].name, strlen(f->entries[i].name));
    }
    unsigned char end[22] = "PK\5\6";
    put_le(end + 8, (uint32_t)f->n, 2);
    put_le(end + 10, (uint32_t)f->n, 2);
    put_le(end + 12, f->at - start, 4);
    put_le(end + 16, start, 4);
    put(f, end, sizeof end);
    bool ok = fclose(f->file) == 0 && !f->failed;
    free(f);
    *file = NULL;
    return ok;
}
