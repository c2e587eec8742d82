/* recording.c - see recording.h. */
#include "client_c/ctl/recording.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client_c/ctl/report.h"

enum { HEAD = 16, MAGIC = sizeof RECORDING_MAGIC - 1 };

static bool put(FILE *file, const void *bytes, size_t size) {
    return size == 0 || fwrite(bytes, 1, size, file) == size;
}

FILE *recording_begin(const char *path, const json_t *header) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600); /* its meshes are nobody else's business */
    FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
    char *text = json_dumps(header, JSON_COMPACT);
    uint32_t length = text ? htole32((uint32_t)strlen(text)) : 0;
    bool good = file && text && put(file, RECORDING_MAGIC, MAGIC) && put(file, &length, sizeof length) &&
                put(file, text, strlen(text)) && fflush(file) == 0;
    int why = errno;
    free(text);
    if (good) return file;
    ctl_cannot_write(path, why);
    if (file) fclose(file);
    if (fd >= 0) unlink(path);
    return NULL;
}

bool recording_add(FILE *file, const recorded *m) {
    unsigned char head[HEAD] = {(unsigned char)m->direction, (unsigned char)m->n_frames};
    const uint32_t client = htole32(m->client);
    const uint64_t at_us = htole64(m->at_us);
    memcpy(head + 4, &client, sizeof client);
    memcpy(head + 8, &at_us, sizeof at_us);
    bool good = put(file, head, sizeof head);
    for (size_t i = 0; good && i < m->n_frames; i++) {
        const uint64_t size = htole64(m->frames[i].size);
        good = put(file, &size, sizeof size);
    }
    for (size_t i = 0; good && i < m->n_frames; i++) good = put(file, m->frames[i].data, m->frames[i].size);
    return good;
}

/* ---- reading ---- */

/* One message at *at. False: the file ends within it. */
static bool read_message(const unsigned char *bytes, size_t size, size_t *at, recorded *out) {
    if (size - *at < HEAD) return false;
    const unsigned char *head = bytes + *at;
    *out = (recorded){.direction = (direction)head[0], .n_frames = head[1]};
    memcpy(&out->client, head + 4, sizeof out->client);
    memcpy(&out->at_us, head + 8, sizeof out->at_us);
    out->client = le32toh(out->client);
    out->at_us = le64toh(out->at_us);
    size_t sizes = *at + HEAD, next = sizes + 8 * out->n_frames;
    if (out->n_frames > 1 + WIRE_MAX_FRAMES || next > size) return false;
    for (size_t i = 0; i < out->n_frames; i++) {
        uint64_t length;
        memcpy(&length, bytes + sizes + 8 * i, sizeof length);
        length = le64toh(length);
        if (length > size - next) return false;
        out->frames[i] = (wire_frame){bytes + next, (size_t)length};
        next += (size_t)length;
    }
    *at = next;
    return true;
}

static bool read_messages(recording *r, size_t size, size_t at) {
    size_t room = 0;
    while (at < size) {
        if (r->n == room) {
            room = room ? 2 * room : 256;
            recorded *grown = realloc(r->messages, room * sizeof *grown);
            if (!grown) return false;
            r->messages = grown;
        }
        recorded *m = &r->messages[r->n];
        if (!read_message(r->bytes, size, &at, m)) {
            r->is_cut = true;
            return true;
        }
        if (m->n_frames) wire_peek_session(&m->frames[0], &m->envelope);
        r->n++;
    }
    return true;
}

int recording_read(const char *path, recording *out) {
    size_t size, at = MAGIC + 4;
    uint32_t length = 0;
    *out = (recording){0};
    if (!ctl_read_file(path, &out->bytes, &size)) return EXIT_USAGE;
    if (size < at || memcmp(out->bytes, RECORDING_MAGIC, MAGIC - 2) != 0) {
        ctl_say("%s is no recording of contactctl record", path);
        return EXIT_REFUSED;
    }
    if (memcmp(out->bytes, RECORDING_MAGIC, MAGIC) != 0) {
        ctl_say("%s is a recording of format %c, this contactctl (%s) reads format %c", path, out->bytes[MAGIC - 2],
                CONTACTD_VERSION, RECORDING_MAGIC[MAGIC - 2]);
        return EXIT_REFUSED;
    }
    memcpy(&length, out->bytes + MAGIC, sizeof length);
    length = le32toh(length);
    if (length <= size - at) out->header = json_loadb((const char *)out->bytes + at, length, 0, NULL);
    if (!out->header) {
        ctl_say("%s is damaged: its header cannot be read", path);
        return EXIT_REFUSED;
    }
    if (read_messages(out, size, at + length)) return EXIT_OK;
    return ctl_mistake("no memory to read %s", path);
}

void recording_free(recording *r) {
    json_decref(r->header);
    free(r->messages);
    free(r->bytes);
    *r = (recording){0};
}

int recording_describe(ctl *ctl, const char *what, json_t **out) {
    json_t *status;
    *out = NULL;
    int code = ctl_connect(ctl);
    if (code == EXIT_OK) code = ctl_get_report(ctl, CONTACTD_REPORT_STATUS, 0, what, &status);
    contactd_close(&ctl->client);
    if (code != EXIT_OK) return code;
    *out = json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:s}", "contactctl", CONTACTD_VERSION, "protocol", WIRE_VERSION,
                     "server", ctl_text_of(status, "server"), "build", ctl_text_of(status, "build"), "backend",
                     ctl_text_of(status, "backend"), "device", ctl_text_of(status, "device"), "simd",
                     ctl_text_of(status, "simd"));
    json_decref(status);
    return *out ? EXIT_OK : ctl_mistake("out of memory");
}
