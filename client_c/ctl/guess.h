/* guess.h - what a word that is not known was meant to be. */
#ifndef CONTACTCTL_GUESS_H
#define CONTACTCTL_GUESS_H

#include <stddef.h>

typedef struct ctl_guess {
    const char *given;
    size_t length; /* of given that counts */
    const char *best;
    size_t errors; /* letters that best has more, fewer, other or swapped */
} ctl_guess;

void ctl_guess_from(ctl_guess *guess, const char *known); /* looks at one word that is known */
/* The known word that is nearest, if it is near: a third of the letters given may be wrong. NULL: none is. */
const char *ctl_guess_end(const ctl_guess *guess);

#endif
