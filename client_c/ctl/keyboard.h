/* keyboard.h - single keys of a terminal, for commands that go on until a key ends them. */
#ifndef CONTACTCTL_KEYBOARD_H
#define CONTACTCTL_KEYBOARD_H

#include <stdbool.h>

/* Keys come one by one from now on, without being shown, until keyboard_close or the end of the program, also by a signal.
 * False: standard input or output is no terminal, and nothing was done. */
bool keyboard_open(void);
void keyboard_close(void); /* the terminal is as it was */
/* Waits at most so many milliseconds for a key. 0: none came; -1: there is no keyboard any more. */
int keyboard_wait(int wait_ms);

#endif
