/* many_result.c - the columns of many scenes' contacts: where they lie in the message, or put together where they are not
 * there as one piece: bodies by the caller's handles, two parts of a contact side by side, symmetric matrices. */
#include "client_c/many_result.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client_c/base.h"
#include "client_c/flight.h"
#include "client_c/records.h"
#include "proto/contact_columns.h"

typedef struct contactd_many_parts parts_of_result;

struct contactd_many_parts {
    ctc_received *received;                        /* the message */
    wire_scratch *scratch;                         /* what was decoded of it */
    void *aligned;                                 /* its data, if that did not lie at a multiple of 8 bytes */
    void *block;                                   /* all that is not in the message */
    contactd_column bodies, rows[CT_CONTACT_ROWS]; /* columns == 0: absent */
};

static void free_parts(parts_of_result *parts) {
    if (parts->received) ctc_received_close(parts->received);
    free(parts->received);
    wire_scratch_free(&parts->scratch);
    free(parts->aligned);
    free(parts->block);
    free(parts);
}

void contactd_many_result_free(contactd_many_result **result) {
    if (!result || !*result) return;
    free_parts((*result)->parts);
    free(*result);
    *result = NULL;
}

/* ---- columns ---- */

static size_t size_of(ct_contact_type type) {
    static const size_t sizes[] = {sizeof(double), sizeof(uint32_t), sizeof(int32_t), sizeof(bool), sizeof(uint64_t)};
    return sizes[type];
}
static uint32_t at_least_one(int n) {
    return n ? (uint32_t)n : 1;
}
static size_t row_bytes(const ct_contact_row *row) {
    return at_least_one(row->rows) * at_least_one(row->columns) * size_of(row->type);
}

static const ct_contact_column *column_of(const wire_column *wire) {
    for (int i = 0; i < CT_CONTACT_COLUMNS; i++) {
        const ct_contact_column *column = &ct_contact_columns[i];
        const wire_dtype dtype = column->type == CT_CONTACT_IS_F64    ? WIRE_F64
                                 : column->type == CT_CONTACT_IS_FLAG ? WIRE_U8
                                 : column->type == CT_CONTACT_IS_U64  ? WIRE_U64
                                                                      : WIRE_U32;
        if (column->field == wire->field) return dtype == wire->dtype && column->width == wire->width ? column : NULL;
    }
    return NULL; /* of a newer server */
}

/* The field that the column is, or is a part of; CT_CONTACT_ROWS: none. */
static int row_of(const ct_contact_column *column) {
    int r = 0;
    while (r < CT_CONTACT_ROWS && (column->offset < ct_contact_rows[r].offset ||
                                   column->offset >= ct_contact_rows[r].offset + row_bytes(&ct_contact_rows[r])))
        r++;
    return r;
}

static bool is_whole(const ct_contact_column *column, const ct_contact_row *row) {
    return !column->is_symmetric && column->width * size_of(column->type) == row_bytes(row);
}

/* Bytes of the block for columns that are not in the message as they are. */
static size_t block_bytes(const wire_many_result *in, size_t contacts) {
    size_t bytes = 2 * sizeof(contactd_body) * contacts;
    bool is_counted[CT_CONTACT_ROWS + 1] = {false};
    for (uint32_t c = 0; c < in->n_columns; c++) {
        const ct_contact_column *column = column_of(&in->columns[c]);
        const int r = column ? row_of(column) : CT_CONTACT_ROWS;
        if (r == CT_CONTACT_ROWS || is_counted[r] || is_whole(column, &ct_contact_rows[r])) continue;
        is_counted[r] = true;
        bytes += contacts * row_bytes(&ct_contact_rows[r]);
    }
    return bytes;
}

static void copy_symmetric(const double *from, double *to, size_t n) {
    for (; n > 0; n--, from += 6, to += 9) {
        const double all[9] = {from[0], from[3], from[5], from[3], from[1], from[4], from[5], from[4], from[2]};
        memcpy(to, all, sizeof all);
    }
}

/* `at` is where the block is free; returns where it is free then. */
static char *place_column(parts_of_result *parts, int r, const ct_contact_column *column, const char *from,
                          size_t contacts, char *at) {
    const ct_contact_row *row = &ct_contact_rows[r];
    contactd_column *out = &parts->rows[r];
    const size_t bytes = row_bytes(row), part = column->width * size_of(column->type);
    const bool is_new = !out->columns;
    if (is_new)
        *out = (contactd_column){.data = is_whole(column, row) ? from : at,
                                 .stride = bytes,
                                 .n = contacts,
                                 .type = (contactd_column_type)row->type,
                                 .rows = at_least_one(row->rows),
                                 .columns = at_least_one(row->columns),
                                 .name = row->name,
                                 .unit = row->unit};
    if (is_whole(column, row)) return at;
    char *to = (char *)parts->block + ((const char *)out->data - (const char *)parts->block);
    if (column->is_symmetric)
        copy_symmetric((const double *)(const void *)from, (double *)(void *)to, contacts);
    else
        for (size_t i = 0; i < contacts; i++)
            memcpy(to + i * bytes + (column->offset - row->offset), from + i * part, part);
    return is_new ? at + contacts * bytes : at;
}

/* ---- the result ---- */

/* Server's numbers to handles. */
static void place_bodies(contactd_column *out, ctc_scene *const *scenes, const wire_many_result *in, const char *data,
                         size_t contacts, contactd_body (*to)[2]) {
    *out = (contactd_column){to,        sizeof *to,   contacts,         CONTACTD_TYPE_U32,
                             .rows = 1, .columns = 2, .name = "bodies", .unit = ""};
    for (uint32_t c = 0; c < in->n_columns; c++) {
        const ct_contact_column *column = column_of(&in->columns[c]);
        if (!column || column->offset >= sizeof((ct_contact){0}.body)) continue;
        const size_t side = column->offset / sizeof(uint32_t);
        const uint32_t *from = (const uint32_t *)(const void *)(data + in->columns[c].offset);
        for (uint32_t k = 0, i = 0; k < in->n; k++)
            for (uint32_t j = 0; j < in->counts[k]; j++, i++) to[i][side] = ctc_body_of(scenes[k], from[i]);
    }
}

static void place_errors(contactd_many_error *to, ctc_scene *const *scenes, const wire_many_result *in) {
    for (uint32_t e = 0; e < in->n_errors; e++) {
        to[e].scene = in->errors[e].index;
        ctc_fill_step_error(scenes[to[e].scene], &in->errors[e].error, &to[e].error);
    }
}

/* The parts that the message does not have, one after the other in the block. */
static void fill(contactd_many_result *out, ctc_scene *const *scenes, const wire_many_result *in, const char *data) {
    parts_of_result *parts = out->parts;
    char *at = parts->block;
    memset(&parts->bodies, 0, sizeof parts->bodies);
    memset(parts->rows, 0, sizeof parts->rows);
    place_errors((contactd_many_error *)(void *)at, scenes, in);
    out->errors = (contactd_many_error *)(void *)at;
    at += in->n_errors * sizeof *out->errors;
    const char **ended = (const char **)(void *)at;
    out->ended = ended;
    at += in->n * sizeof *ended;
    for (uint32_t c = 0; c < in->n_columns; c++) {
        const ct_contact_column *column = column_of(&in->columns[c]);
        const int r = column ? row_of(column) : CT_CONTACT_ROWS;
        if (r < CT_CONTACT_ROWS) at = place_column(parts, r, column, data + in->columns[c].offset, out->n_contacts, at);
    }
    place_bodies(&parts->bodies, scenes, in, data, out->n_contacts, (contactd_body(*)[2])(void *)at);
    at += out->n_contacts * 2 * sizeof(contactd_body);
    uint32_t *offsets = (uint32_t *)(void *)at, *index = offsets + in->n + 1;
    out->offsets = offsets;
    out->scene_index = index;
    for (uint32_t k = 0; k < in->n; k++) {
        ended[k] = wire_ended_name((wire_ended)in->ended[k]);
        offsets[k + 1] = offsets[k] + in->counts[k];
        for (uint32_t i = offsets[k]; i < offsets[k + 1]; i++) index[i] = k;
    }
    for (uint32_t e = 0; e < in->n_errors; e++) ended[in->errors[e].index] = NULL;
}

/* A copy where the message has it at an odd address; NULL: out of memory. */
static const char *align(const wire_array *data, void **copy) {
    *copy = NULL;
    if ((uintptr_t)data->data % 8 == 0 && data->data) return data->data;
    *copy = malloc((size_t)data->count + 1);
    if (*copy && data->count) memcpy(*copy, data->data, (size_t)data->count);
    return *copy;
}

static contactd_many_result *new_result(void) {
    contactd_many_result *out = calloc(1, sizeof *out);
    parts_of_result *parts = calloc(1, sizeof *parts);
    if (parts) parts->received = calloc(1, sizeof *parts->received);
    if (parts) parts->scratch = wire_scratch_new();
    if (out && parts && parts->received && parts->scratch) {
        out->parts = parts;
        return out;
    }
    if (parts) free_parts(parts);
    free(out);
    return NULL;
}

bool ctc_make_many(contactd_client *client, ctc_scene *const *scenes, contactd_many_result **result) {
    const wire_many_result *in = &client->message.u.many_result;
    size_t contacts = 0;
    for (uint32_t k = 0; k < in->n; k++) contacts += in->counts[k];
    const size_t bytes = in->n_errors * sizeof(contactd_many_error) + in->n * sizeof(char *) +
                         block_bytes(in, contacts) + (in->n + 1 + contacts) * sizeof(uint32_t);
    void *copy, *block = calloc(1, bytes);
    const char *data = align(&in->data, &copy);
    contactd_many_result *out = *result ? *result : new_result();
    if (!block || !data || !out) {
        free(block);
        free(copy);
        if (out && !*result) contactd_many_result_free(&out);
        return false;
    }
    parts_of_result *parts = out->parts;
    free(parts->aligned);
    free(parts->block);
    parts->aligned = copy;
    parts->block = block;
    out->n_scenes = in->n;
    out->n_contacts = contacts;
    out->n_errors = in->n_errors;
    fill(out, scenes, in, data);
    ctc_received *received = parts->received;
    parts->received = client->incoming;
    client->incoming = received;
    wire_scratch *scratch = parts->scratch;
    parts->scratch = client->scratch;
    client->scratch = scratch;
    *result = out;
    return true;
}

contactd_code contactd_many_column(const contactd_many_result *result, contactd_column_id id, contactd_column *out) {
    if (!out) return CONTACTD_INVALID_ARGUMENT;
    *out = (contactd_column){0};
    if (!result) return CONTACTD_INVALID_ARGUMENT;
    if (id == CONTACTD_COLUMN_BODIES) {
        *out = result->parts->bodies;
        return CONTACTD_OK;
    }
    for (int r = 0; r < CT_CONTACT_ROWS; r++) {
        const ct_contact_row *row = &ct_contact_rows[r];
        if (row->id != (int)id) continue;
        if (result->n_contacts && !result->parts->rows[r].columns) return CONTACTD_NOT_FOUND;
        *out = result->parts->rows[r];
        if (out->columns) return CONTACTD_OK;
        *out = (contactd_column){.stride = row_bytes(row), /* there is no contact, and no message of them */
                                 .type = (contactd_column_type)row->type,
                                 .rows = at_least_one(row->rows),
                                 .columns = at_least_one(row->columns),
                                 .name = row->name,
                                 .unit = row->unit};
        return CONTACTD_OK;
    }
    return CONTACTD_INVALID_ARGUMENT;
}
