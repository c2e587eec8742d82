/* guess.c - see guess.h. */
#include "client_c/ctl/guess.h"

enum { MOST = 40 }; /* letters; longer words are not guessed */

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* The distance of Damerau and Levenshtein in which no letter is edited twice. Both words have at most MOST letters. */
static size_t distance(const char *a, size_t n, const char *b, size_t m) {
    size_t d[3][MOST + 1]; /* of the rows i, i - 1 and i - 2, modulo 3 */
    for (size_t j = 0; j <= m; j++) d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = d[i % 3];
        const size_t *before = d[(i + 2) % 3], *two_before = d[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(least(row[j - 1], before[j]) + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], two_before[j - 2] + 1);
        }
    }
    return d[n % 3][m];
}

void ctl_guess_from(ctl_guess *guess, const char *known) {
    size_t n = 0;
    while (known[n]) n++;
    if (guess->length > MOST || n > MOST) return;
    const size_t errors = distance(guess->given, guess->length, known, n);
    if (guess->best && errors >= guess->errors) return;
    guess->best = known;
    guess->errors = errors;
}

const char *ctl_guess_end(const ctl_guess *guess) {
    return guess->best && 3 * guess->errors <= guess->length ? guess->best : NULL;
}
