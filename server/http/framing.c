/* framing.c - see framing.h. */
#include "server/http/framing.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/http/text.h"

/* Fields whose first value alone is looked at, so that a second one would be another request to somebody else. */
enum { HOST, LENGTH, CODING };
static const char *const single[FRAMING_SINGLE] = {[HOST] = "Host",
                                                   [LENGTH] = "Content-Length",
                                                   [CODING] = "Transfer-Encoding",
                                                   "Content-Type",
                                                   "Content-Encoding",
                                                   "Authorization",
                                                   "Origin",
                                                   "Sec-Fetch-Site",
                                                   "If-Match",
                                                   "Idempotency-Key"};

static bool malformed(problem *p, const char *field, const char *what) {
    return problem_set_http(p, CONTACTD_MALFORMED, 400, "the request's header cannot be read without doubt", field,
                            "%s; the connection is closed", what);
}

/* RFC 9110, 5.6.2 */
static bool is_token(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)text[i]) && !(text[i] && strchr("!#$%&'*+-.^_`|~", text[i]))) return false;
    return size > 0;
}

static bool is_value(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) return false;
    }
    return true;
}

bool framing_begin(framing *framing, const char *uri, const char *version, bool looks_between, problem *p) {
    *framing = (struct framing){.looks_between = looks_between, .line_end = version + strlen(version), .problem = p};
    for (const char *c = uri; *c; c++)
        if ((unsigned char)*c <= 0x20 || *c == 0x7f)
            return malformed(p, "request line", "the target has a blank or a control character");
    return true;
}

/* A line's end was CR LF and became two zeros; then comes the next line. */
static bool follows(const framing *framing, const char *line) {
    const char *end = framing->line_end;
    return (uintptr_t)line == (uintptr_t)end + 2 && end[0] == 0 && end[1] == 0;
}

/* Between a name and its value were a colon, which became a zero, and blanks. */
static bool belongs(const char *name, size_t name_size, const char *value) {
    const char *at = name + name_size + 1;
    if ((uintptr_t)value < (uintptr_t)at) return false; /* the name was moved: a continued line was appended to it */
    while ((uintptr_t)at < (uintptr_t)value && (*at == ' ' || *at == '\t')) at++;
    return at == value;
}

bool framing_take(framing *framing, const char *name, size_t name_size, const char *value, size_t value_size) {
    problem *p = framing->problem;
    if (!is_token(name, name_size)) return malformed(p, "header", "a field's name is not a token (RFC 9110, 5.6.2)");
    if (framing->looks_between) {
        if (!belongs(name, name_size, value)) return malformed(p, "header", "a field is continued on a second line");
        if (!follows(framing, name))
            return malformed(p, "header", "a line does not end in CR LF, or a field has a NUL");
        framing->line_end = value + value_size;
    }
    char field[64];
    snprintf(field, sizeof field, "%.*s", (int)(name_size < sizeof field ? name_size : sizeof field - 1), name);
    if (!is_value(value, value_size)) return malformed(p, field, "a field's value has a control character");
    for (int i = 0; i < FRAMING_SINGLE; i++) {
        if (strlen(single[i]) != name_size || strncasecmp(single[i], name, name_size) != 0) continue;
        if (framing->n[i]++) return malformed(p, single[i], "a field that has one value stands twice");
        if (i == HOST) framing->host = value;
        if (i == LENGTH) framing->length = value;
        if (i == CODING) framing->coding = value;
    }
    return true;
}

/* After the last line comes an empty one. Its end is in the buffer if it is what it should be, as the buffer goes on
 * after it: libmicrohttpd's records of the fields lie there. */
static bool ends_well(const framing *framing) {
    for (int i = 0; i < 4; i++)
        if (framing->line_end[i]) return false;
    return true;
}

static bool is_chunked_last(const char *coding) {
    static const char word[] = "chunked";
    const size_t n = sizeof word - 1, size = strlen(coding);
    return size > n && strcasecmp(coding + size - n, word) == 0 && strchr(" \t,", coding[size - n - 1]);
}

static bool check_length(const framing *framing, const char *version) {
    problem *p = framing->problem;
    const char *length = framing->length, *coding = framing->coding;
    if (length && (!*length || length[strspn(length, "0123456789")]))
        return malformed(p, "Content-Length", "Content-Length is not a number");
    if (!coding) return true;
    if (length)
        return malformed(p, "Content-Length",
                         "the request has both Content-Length and Transfer-Encoding; expected one of them");
    if (strcmp(version, "HTTP/1.0") == 0)
        return malformed(p, "Transfer-Encoding", "a request of HTTP/1.0 has Transfer-Encoding");
    if (strcasecmp(coding, "chunked") == 0) return true;
    if (!is_chunked_last(coding))
        return malformed(p, "Transfer-Encoding", "Transfer-Encoding does not end in chunked, so the body has no end");
    char shown[64];
    return problem_set_http(p, CONTACTD_UNSUPPORTED, 501, "no such transfer coding here", "Transfer-Encoding",
                            "Transfer-Encoding is %s; expected chunked alone; the connection is closed",
                            text_clean(coding, shown, sizeof shown));
}

bool framing_end(framing *framing, const char *version, const char *authority) {
    problem *p = framing->problem;
    if (framing->looks_between && !ends_well(framing))
        return malformed(p, "header", "a line does not end in CR LF, or a field has a NUL");
    if (!check_length(framing, version)) return false;
    if (authority && framing->host && strcasecmp(authority, framing->host) != 0)
        return malformed(p, "Host", "the request line names another host than the header Host");
    return true;
}

uint64_t framing_chunk_size(const char *data) {
    if (data[-1] != '\n' || data[-2] != '\r') return 0;
    uint64_t size = 0;
    const char *digit = data - 3;
    for (unsigned shift = 0; shift < 64 && isxdigit((unsigned char)*digit); shift += 4, digit--) {
        unsigned char c = (unsigned char)*digit;
        size |= (uint64_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10) << shift;
    }
    return *digit == '\n' || *digit == 0 ? size
                                         : 0; /* else an extension's end was read, or bytes of earlier requests */
}

bool framing_split_uri(const char *uri, const char **path, char *authority, size_t size) {
    const char *rest = strncasecmp(uri, "http://", 7) == 0    ? uri + 7
                       : strncasecmp(uri, "https://", 8) == 0 ? uri + 8
                                                              : NULL;
    authority[0] = 0;
    *path = uri;
    if (!rest) return true;
    size_t n = strcspn(rest, "/?");
    *path = rest[n] == '/' ? rest + n : "/";
    if (n >= size) return false;
    memcpy(authority, rest, n);
    authority[n] = 0;
    return true;
}
