/* recording.h - a file with all messages between clients and a server, for contactctl record and replay.
 *
 * The file: the eight bytes "CTDREC1\n", the length of a JSON object (u32) and the object, which says what was recorded
 * (contactctl's version, protocol, and the server's name, build and backend), then messages until the end of the file.
 * A message: direction ('>' to the server, '<' to the client), number of frames (u8), two bytes 0, the client's number
 * (u32, from 1; 0: the recorder, which asked for a mesh), microseconds since the recording began (u64), the frames'
 * sizes (u64 each), then the frames. Numbers are little-endian. */
#ifndef CONTACTCTL_RECORDING_H
#define CONTACTCTL_RECORDING_H

#include <jansson.h>

#include "client_c/ctl/ctl.h"
#include "proto/codec.h"

#define RECORDING_MAGIC "CTDREC1\n"

enum { RECORDER = 0 }; /* as a client's number: MeshGeometry of a mesh that was registered before the recording began */

typedef enum direction { TO_SERVER = '>', TO_CLIENT = '<' } direction;

typedef struct recorded { /* points into the file's bytes */
    direction direction;
    uint32_t client;
    uint64_t at_us;
    wire_frame frames[1 + WIRE_MAX_FRAMES];
    size_t n_frames;
    wire_message envelope; /* request, session and epoch; all 0 where they cannot be read */
} recorded;

typedef struct recording {
    unsigned char *bytes;
    json_t *header;
    recorded *messages;
    size_t n;
    bool is_cut; /* the last message is incomplete, and left out */
} recording;

/* ---- writing ---- */

/* Begins a file, which must not exist yet. NULL after a message. */
FILE *recording_begin(const char *path, const json_t *header);
/* False: errno says why. */
bool recording_add(FILE *file, const recorded *message);

/* ---- reading: an exit code ---- */

int recording_read(const char *path, recording *out);
void recording_free(recording *recording);

/* What a server is, for the header: an exit code. The caller frees *out. Connects, and closes the connection again. */
int recording_describe(ctl *ctl, const char *what, json_t **out);

#endif
