/* echo.h - a bare ZeroMQ echo in a process of its own, for bench_stream: what messages of some size cost on this
 * machine there and back with nothing done to them, client and server waiting as contactd's do. */
#ifndef TESTS_BENCH_ECHO_H
#define TESTS_BENCH_ECHO_H

#include <stddef.h>
#include <stdint.h>

typedef struct bench_echo bench_echo;

/* To be called while the process has one thread. NULL: there is no echo, and a message was written. */
bench_echo *bench_echo_start(uint32_t client_spin_us, uint32_t server_spin_us);
void bench_echo_stop(bench_echo **echo);

/* Seconds from sending request bytes to having received answer bytes; negative: no answer came. */
double bench_echo_once(bench_echo *echo, size_t request, size_t answer);

#endif
