/* config.h - what the server can be told: one table gives every option its name, type, default, range and help.
 *
 * An option is set by a flag (--max-message 64M), the environment (CONTACTD_MAX_MESSAGE=64M) or a file of `key = value`
 * lines (max-message = 64M; named by --config or CONTACTD_CONFIG); the flag wins over the environment, that over the
 * file, that over the default. A variable CONTACTD_... that is no option is an error, as a misspelt one would silently
 * do nothing, and so is a comment behind a value.
 */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_MAX_LIST 16

/* TEXT(field, default, value's shape, help)          a string
 * CHOICE(field, default, "a|b|c", help)              one of the words
 * COUNT(field, default, low, high, help)             a number
 * SIZE(field, default, low, high, help)              bytes: 4096, 64K, 16M, 2G
 * TIME(field, default, low, high, help)              milliseconds: 250ms, 30s, 2m
 * DURATION(field, default, help)                     milliseconds, from 1 on: 10 (seconds), 0.5, 250ms, 30s, 2m
 * LIST(field, default, value's shape, help)          repeatable; comma-separated in environment and file
 * SWITCH(field, help)                                off unless given: --insecure; yes or no in environment and file
 * The flag's name is the field's with dashes; defaults are written as a user would. */
#define CONFIG_MAP(TEXT, CHOICE, COUNT, SIZE, TIME, DURATION, LIST, SWITCH)                                            \
    TEXT(http, "127.0.0.1:8080", "HOST:PORT", "address of the HTTP control API; \"off\" for none")                     \
    LIST(stream, "tcp://127.0.0.1:5555", "ENDPOINT", "where simulators connect, tcp:// or ipc://; repeatable")         \
    TEXT(principals, "", "FILE",                                                                                       \
         "who may do what: names, roles, keys and hashes of tokens. Without: everyone, everything")                    \
    TEXT(stream_key, "", "FILE",                                                                                       \
         "the server's CURVE key pair (contactctl keys new); encrypts tcp:// and admits listed keys")                  \
    TEXT(http_cert, "", "FILE", "certificate chain of the HTTP API, PEM; with --http-key it speaks HTTPS")             \
    TEXT(http_key, "", "FILE", "private key of the certificate, PEM")                                                  \
    LIST(http_host, "", "NAME", "further names by which requests may address the HTTP API; repeatable")                \
    TIME(http_scene_ttl, "1h", 0, INT64_C(31536000000),                                                                \
         "a scene opened over HTTP that no command came for is closed after so long; 0: never")                        \
    COUNT(http_viewers, "16", 0, 1024, "how many may watch scenes live at once (/v1/scenes/ID/live)")                  \
    CHOICE(http_metrics, "token", "token|open", "whether /metrics asks for a token like the rest")                     \
    SWITCH(insecure, "allow addresses that other machines reach without keys, tokens and encryption")                  \
    CHOICE(backend, "auto", "auto|cpu|cuda", "what computes; auto: cuda where a device ran a kernel, else cpu")        \
    CHOICE(raster, "auto", "auto|native|egl", "what rasterises; auto: native. What is named runs, or nothing starts")  \
    TEXT(devices, "all", "all|N,N...", "which of the backend's devices compute; a scene stays on one")                 \
    SIZE(gpu_memory, "0", 0, INT64_MAX, "memory to use of each GPU; 0: most of what is free at the start")             \
    COUNT(threads, "0", 0, 1024, "CPU threads of the engine; 0: one for each processor that may be used")              \
    TEXT(simd, "auto", "NAME", "instruction set, e.g. avx2; auto: the best that the processor has")                    \
    TEXT(state_dir, "", "FOLDER",                                                                                      \
         "where meshes, and settings that an operator changed, outlive the server. One server each; without: nowhere") \
    SIZE(state_size, "16G", 1 << 16, INT64_MAX, "disk space for meshes there; the oldest unused ones make room")       \
    SIZE(mesh_memory, "4G", 1 << 16, INT64_MAX, "memory for registered meshes; unused ones make room")                 \
    SIZE(scene_memory, "8G", 1 << 16, INT64_MAX, "memory for scenes: bodies' positions and kept answers")              \
    SIZE(scratch_memory, "0", 0, INT64_MAX,                                                                            \
         "memory for the steps that run; 0: a quarter of the memory, or a GPU's own")                                  \
    DURATION(scratch_idle, "1m", "working memory that no step has used for so long is given back")                     \
    COUNT(max_cells, "4096", 1, 1048576, "cells of one contact; a step with more fails")                               \
    SIZE(max_message, "256M", 1 << 16, INT64_C(1) << 40, "largest message or HTTP body")                               \
    SIZE(unread_per_client, "64M", 1 << 16, INT64_MAX, "answers that one client may leave unread; more are BUSY")      \
    SIZE(unread_memory, "512M", 1 << 16, INT64_MAX, "the same of all clients together")                                \
    COUNT(max_sessions, "1024", 1, 1000000, "clients connected at once")                                               \
    COUNT(max_scenes, "16384", 1, 1000000, "scenes open at once")                                                      \
    COUNT(queue, "4096", 1, 1000000, "commands waiting; more are answered BUSY")                                       \
    COUNT(max_in_flight, "256", 1, 65536, "steps of one client queued or running; more are answered BUSY")             \
    COUNT(spin_us, "1000", 0, 100000, "microseconds to look for the next message before sleeping; 0: sleep at once")   \
    COUNT(batch_window_us, "0", 0, 100000, "microseconds that a small step waits for others to share its batch")       \
    DURATION(max_step_time, "10s", "a step, or another command of a scene, that runs for longer is cancelled")         \
    TIME(lease, "60s", 100, 86400000, "a client silent for longer loses its scenes")                                   \
    LIST(successor, "", "ENDPOINT",                                                                                    \
         "server that clients go to when this one drains, or file:PATH of such, read then; repeatable")                \
    TIME(drain, "10s", 0, 3600000, "on SIGTERM, the longest wait for queued steps and unsent answers")                 \
    SWITCH(until_stdin_ends,                                                                                           \
           "for a program with a server of its own: ends, as on SIGTERM, when standard input does, and "               \
           "removes its ipc:// sockets and their folders")                                                             \
    CHOICE(log_format, "text", "text|json", "how log lines look")                                                      \
    CHOICE(log_level, "info", "error|warn|info|debug", "the least important lines that are logged")                    \
    TEXT(log_file, "", "PATH", "where the log goes; empty: standard error")

/* Defaults of limits on memory are at most this part of the memory that the process may use, so that all of them
 * together leave a quarter of it for the rest. A limit that is given is left alone. */
#define CONFIG_PARTS_MAP(X)                                                                                            \
    X(mesh_memory, 8)                                                                                                  \
    X(scene_memory, 8)                                                                                                 \
    X(unread_memory, 16)                                                                                               \
    X(unread_per_client, 128)                                                                                          \
    X(max_message, 64) /* 4 times as unanswered requests, 4 as unfinished ones, 4 as HTTP bodies */
enum { CONFIG_SCRATCH_PART = 4 };

typedef struct config_list {
    size_t n;
    char *items[CONFIG_MAX_LIST];
} config_list;

typedef struct config {
#define CONFIG_TEXT(field, ...)   char *field;
#define CONFIG_NUMBER(field, ...) uint64_t field;
#define CONFIG_LIST(field, ...)   config_list field;
#define CONFIG_SWITCH(field, ...) bool field;
    CONFIG_MAP(CONFIG_TEXT, CONFIG_TEXT, CONFIG_NUMBER, CONFIG_NUMBER, CONFIG_NUMBER, CONFIG_NUMBER, CONFIG_LIST,
               CONFIG_SWITCH)
#undef CONFIG_TEXT
#undef CONFIG_NUMBER
#undef CONFIG_LIST
#undef CONFIG_SWITCH
} config;

typedef enum config_outcome {
    CONFIG_RUN,     /* *out is complete and valid */
    CONFIG_PRINT,   /* --print-config: *out is complete, print it and exit */
    CONFIG_HELP,    /* --help */
    CONFIG_VERSION, /* --version */
    CONFIG_INVALID, /* message says which option, from where, and what it wants: exit 2 */
} config_outcome;

/* argv and envp as main() gets them. memory_bytes: what the process may use. On CONFIG_RUN and CONFIG_PRINT the caller
 * frees *out with config_free. */
config_outcome config_load(config *out, int argc, char *const argv[], char *const envp[], uint64_t memory_bytes,
                           char *message, size_t size);
void config_free(config *config);

void config_help(FILE *to);
void config_print(const config *config, FILE *to); /* in the file's format, so that it can be given to --config */

#endif
