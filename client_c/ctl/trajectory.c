/* trajectory.c - reads a trajectory of rigid bodies from a CSV file. */
#include "client_c/ctl/trajectory.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "proto/quaternion.h"

enum { MOST_COLUMNS = 64, NUMBERS = 8, TIME = 0 };

static const char *const columns[NUMBERS + 1] = {"time", "x", "y", "z", "qx", "qy", "qz", "qw", "body"};
enum { BODY = NUMBERS };

typedef struct row {
    double numbers[NUMBERS]; /* time, x, y, z, qx, qy, qz, qw */
    size_t body, line;
} row;

typedef struct reader {
    const char *path, *const *names;
    size_t n_names, n_columns;
    size_t column_of[NUMBERS + 1]; /* where each of `columns` is */
    row *rows;
    size_t n_rows, room;
    size_t line; /* from 1 */
} reader;

static int refuse(const reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int refuse(const reader *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "contactctl: %s, line %zu: ", r->path, r->line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return EXIT_REFUSED;
}

static int no_memory(void) {
    fputs("contactctl: out of memory\n", stderr);
    return EXIT_SERVER;
}

/* ---- lines ---- */

static char *skip_blanks(char *at) {
    return at + strspn(at, " \t");
}

/* A field within quotation marks, where two stand for one, in place; returns what follows the last mark. */
static char *unquote(char *at, char **field) {
    char *to = *field = at + 1;
    for (at++; *at; at++) {
        if (*at == '"' && *++at != '"') break;
        *to++ = *at;
    }
    *to = 0; /* at the last mark, or before it */
    return at;
}

/* A field without quotation marks, in place, without the blanks around it; returns where it ends. */
static char *unblank(char *at, char **field) {
    char *end = at + strcspn(at, ","), *last = end;
    while (last > at && (last[-1] == ' ' || last[-1] == '\t')) last--;
    *field = at;
    if (last < end) *last = 0;
    return end;
}

/* Cuts a line at its commas, in place. The number of fields; more than MOST_COLUMNS: there are too many. */
static size_t split(char *line, char **fields) {
    size_t n = 0;
    for (char *at = line;; at++) {
        if (n == MOST_COLUMNS) return n + 1;
        at = skip_blanks(at);
        at = *at == '"' ? unquote(at, &fields[n]) : unblank(at, &fields[n]);
        n++;
        at += strcspn(at, ",");
        if (!*at) return n;
        *at = 0;
    }
}

/* Takes the next line off the text and ends it with a NUL; NULL: there is none. */
static char *next_line(char **text) {
    char *line = *text;
    if (!line || !*line) return NULL;
    size_t n = strcspn(line, "\n");
    *text = line[n] ? line + n + 1 : line + n;
    line[n] = 0;
    if (n && line[n - 1] == '\r') line[n - 1] = 0;
    return line;
}

static int read_head(reader *r, char *line) {
    char *fields[MOST_COLUMNS];
    const size_t n = line ? split(line, fields) : 0;
    if (n > MOST_COLUMNS) return refuse(r, "expected at most %d columns", MOST_COLUMNS);
    for (int c = 0; c <= NUMBERS; c++) {
        size_t k = 0;
        while (k < n && strcmp(fields[k], columns[c]) != 0) k++;
        if (k == n)
            return refuse(r, "expected the columns time, body, x, y, z, qx, qy, qz, qw; %s is missing", columns[c]);
        r->column_of[c] = k;
    }
    r->n_columns = n;
    return EXIT_OK;
}

static int read_numbers(const reader *r, char *const *fields, row *out) {
    for (int c = 0; c < NUMBERS; c++) {
        const char *text = fields[r->column_of[c]];
        char *end;
        out->numbers[c] = strtod(text, &end);
        if (end == text || *skip_blanks(end) || !isfinite(out->numbers[c]))
            return refuse(r, "%s is \"%s\", expected a finite number", columns[c], text);
    }
    double pose[12], length;
    if (wire_pose_of_quaternion(out->numbers + 1, pose, &length)) return EXIT_OK;
    return refuse(r, "expected a quaternion qx, qy, qz, qw of length 1, got one of %g", length);
}

static int refuse_body(const reader *r, const char *name) {
    char list[256] = "";
    for (size_t k = 0, n = 0; k < r->n_names && n < sizeof list; k++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", k ? ", " : "", r->names[k]);
    return refuse(r, "there is no mesh for \"%s\"; there are %s", name, list);
}

static int read_row(reader *r, char *line) {
    char *fields[MOST_COLUMNS];
    const size_t n = split(line, fields);
    if (n != r->n_columns) return refuse(r, "expected %zu fields, as the first line has, got %zu", r->n_columns, n);
    if (r->n_rows == r->room) {
        r->room = r->room ? 2 * r->room : 1024;
        row *grown = realloc(r->rows, r->room * sizeof *grown);
        if (!grown) return no_memory();
        r->rows = grown;
    }
    row *out = &r->rows[r->n_rows];
    *out = (row){.line = r->line};
    while (out->body < r->n_names && strcmp(r->names[out->body], fields[r->column_of[BODY]]) != 0) out->body++;
    if (out->body == r->n_names) return refuse_body(r, fields[r->column_of[BODY]]);
    const int code = read_numbers(r, fields, out);
    if (code == EXIT_OK) r->n_rows++;
    return code;
}

/* ---- from rows to frames ---- */

static int by_time_and_body(const void *a, const void *b) {
    const row *p = a, *q = b;
    if (p->numbers[TIME] != q->numbers[TIME]) return p->numbers[TIME] < q->numbers[TIME] ? -1 : 1;
    if (p->body != q->body) return p->body < q->body ? -1 : 1;
    return p->line < q->line ? -1 : p->line > q->line;
}

/* The rows are sorted: whether each frame has the bodies that any has, each once. */
static int check_frames(reader *r, const bool *is_used) {
    for (size_t begin = 0, end; begin < r->n_rows; begin = end) {
        bool has[256] = {false};
        const double time = r->rows[begin].numbers[TIME];
        for (end = begin; end < r->n_rows && r->rows[end].numbers[TIME] == time; end++) {
            r->line = r->rows[end].line;
            if (has[r->rows[end].body])
                return refuse(r, "%s is there twice at %g s", r->names[r->rows[end].body], time);
            has[r->rows[end].body] = true;
        }
        for (size_t k = 0; k < r->n_names; k++)
            if (is_used[k] && !has[k]) return refuse(r, "at %g s there is no row of %s", time, r->names[k]);
    }
    return EXIT_OK;
}

static int fill(reader *r, ctl_trajectory *out) {
    static const double identity[12] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
    bool is_used[256] = {false};
    for (size_t k = 0; k < r->n_rows; k++) is_used[r->rows[k].body] = true;
    qsort(r->rows, r->n_rows, sizeof *r->rows, by_time_and_body);
    const int code = check_frames(r, is_used);
    if (code != EXIT_OK) return code;
    for (size_t k = 0; k < r->n_rows; k++)
        out->n_frames += k == 0 || r->rows[k].numbers[TIME] != r->rows[k - 1].numbers[TIME];
    out->times = malloc(out->n_frames * sizeof *out->times);
    out->poses = malloc(out->n_frames * out->n_bodies * sizeof(double[12]));
    if (!out->times || !out->poses) return no_memory();
    for (size_t i = 0; i < out->n_frames * out->n_bodies; i++) memcpy(out->poses + 12 * i, identity, sizeof identity);
    for (size_t k = 0, frame = 0; k < r->n_rows; k++) {
        if (k && r->rows[k].numbers[TIME] != r->rows[k - 1].numbers[TIME]) frame++;
        out->times[frame] = r->rows[k].numbers[TIME];
        double length, *pose = out->poses + 12 * (frame * out->n_bodies + r->rows[k].body);
        wire_pose_of_quaternion(r->rows[k].numbers + 1, pose, &length);
    }
    return EXIT_OK;
}

static int read_text(reader *r, char *text, size_t size, ctl_trajectory *out) {
    if (memchr(text, 0, size)) {
        r->line = 1;
        return refuse(r, "expected text, got a byte 0");
    }
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) text += 3; /* the byte order mark that spreadsheets write */
    r->line = 1;
    int code = read_head(r, next_line(&text));
    for (char *line; code == EXIT_OK && (line = next_line(&text));) {
        r->line++;
        if (*skip_blanks(line)) code = read_row(r, line);
    }
    if (code == EXIT_OK && r->n_rows == 0) code = refuse(r, "expected a row for each body and time, got none");
    return code == EXIT_OK ? fill(r, out) : code;
}

int ctl_read_trajectory(const char *path, const char *const *names, size_t n, ctl_trajectory *out) {
    *out = (ctl_trajectory){.n_bodies = n};
    reader r = {.path = path, .names = names, .n_names = n};
    unsigned char *bytes;
    size_t size;
    if (!ctl_read_file(path, &bytes, &size)) return EXIT_USAGE;
    char *text = malloc(size + 1);
    if (text) {
        memcpy(text, bytes, size);
        text[size] = 0;
    }
    free(bytes);
    const int code = text ? read_text(&r, text, size, out) : no_memory();
    free(text);
    free(r.rows);
    return code;
}

void ctl_trajectory_free(ctl_trajectory *trajectory) {
    free(trajectory->times);
    free(trajectory->poses);
    *trajectory = (ctl_trajectory){0};
}
