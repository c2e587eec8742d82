/* keyboard.c - see keyboard.h. */
#include "client_c/ctl/keyboard.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static volatile sig_atomic_t is_open;

void keyboard_close(void) {
    if (!is_open) return;
    is_open = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void end(int number) {
    keyboard_close();
    signal(number, SIG_DFL);
    raise(number);
}

bool keyboard_open(void) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0) return false;
    /* One in the background must not touch the terminal: it would be stopped. */
    if (tcgetpgrp(STDIN_FILENO) != getpgrp()) return false;
    struct termios single = before;
    single.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    single.c_cc[VMIN] = 1;
    single.c_cc[VTIME] = 0;
    is_open = 1;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) signal(ends[i], end);
    atexit(keyboard_close);
    return tcsetattr(STDIN_FILENO, TCSANOW, &single) == 0;
}

int keyboard_wait(int wait_ms) {
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char key;
    const int ready = poll(&fd, 1, wait_ms);
    if (ready < 0) return errno == EINTR ? 0 : -1;
    if (ready == 0) return 0;
    return read(STDIN_FILENO, &key, 1) == 1 ? key : -1;
}
