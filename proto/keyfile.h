/* keyfile.h - CURVE keys as text and as files, for server and clients.
 *
 * A key is 32 bytes written as 40 characters of Z85 (ZeroMQ's RFC 32), or as 64 hexadecimal digits, which no shell, YAML or URL
 * takes for anything else. A key file is what contactctl keys new writes:
 *
 *     # contactd key pair "lab-7". The secret stays on this machine.
 *     public = Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID
 *     secret = D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs
 */
#ifndef CONTACTD_KEYFILE_H
#define CONTACTD_KEYFILE_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEYFILE_KEY = 40, KEYFILE_BYTES = 32 }; /* characters of a key in Z85; bytes */

static const char keyfile_letters[] =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/* Z85: four bytes, the highest first, are five digits to the base of 85. */
static inline void keyfile_from_hex(const char *hex, char key[KEYFILE_KEY + 1]) {
    for (int word = 0; word < KEYFILE_BYTES / 4; word++) {
        char digits[9];
        memcpy(digits, hex + 8 * word, 8);
        digits[8] = 0;
        unsigned long value = strtoul(digits, NULL, 16);
        for (int k = 5; k-- > 0; value /= 85) key[5 * word + k] = keyfile_letters[value % 85];
        memset(digits, 0, sizeof digits);
    }
    key[KEYFILE_KEY] = 0;
}

/* A key as anyone may write it, as Z85. False: text is none. */
static inline bool keyfile_parse(const char *text, char key[KEYFILE_KEY + 1]) {
    const size_t n = strlen(text);
    if (n == KEYFILE_KEY && strspn(text, keyfile_letters) == n) {
        memcpy(key, text, KEYFILE_KEY + 1);
        return true;
    }
    if (n != 2 * KEYFILE_BYTES || strspn(text, "0123456789abcdefABCDEF") != n) return false;
    keyfile_from_hex(text, key);
    return true;
}

/* The value of "name = value" in a line, cut off from what follows; NULL: the line is another one. */
static inline char *keyfile_value(char *line, const char *name) {
    size_t n = strlen(name);
    char *at = line + strspn(line, " \t");
    if (strncmp(at, name, n) != 0) return NULL;
    at += n;
    at += strspn(at, " \t");
    if (*at++ != '=') return NULL;
    at += strspn(at, " \t");
    at[strcspn(at, " \t\r\n")] = 0;
    return at;
}

/* Reads the key of that name ("public", "secret") from a key file. False: message says why, without the key. */
static inline bool keyfile_read(const char *path, const char *name, char key[KEYFILE_KEY + 1], char *message,
                                size_t size) {
    FILE *file = fopen(path, "re");
    struct stat facts;
    if (!file || fstat(fileno(file), &facts) != 0) {
        snprintf(message, size, "the key file %s cannot be read: %s", path, strerror(errno));
        if (file) fclose(file);
        return false;
    }
    if (strcmp(name, "secret") == 0 && (facts.st_mode & 027) != 0) {
        snprintf(message, size, "other users may read, or its group change, the secret key in %s: chmod 600 it", path);
        fclose(file);
        return false;
    }
    char line[256];
    bool found = false, valid = false;
    while (!found && fgets(line, sizeof line, file)) {
        const char *value = keyfile_value(line, name);
        if (!value) continue;
        found = true;
        valid = keyfile_parse(value, key);
    }
    bool failed = ferror(file) != 0;
    int why = errno;
    fclose(file);
    memset(line, 0, sizeof line);
    if (valid) return true;
    if (failed)
        snprintf(message, size, "the key file %s cannot be read: %s", path, strerror(why));
    else
        snprintf(message, size,
                 "the key file %s has no line \"%s = KEY\" with a key of %d characters, or 64 hexadecimal digits: %s",
                 path, name, KEYFILE_KEY, "contactctl keys new makes one");
    return false;
}

#endif
