/* failing_malloc.c - preloaded into a program (LD_PRELOAD), makes one allocation fail: that which brings the number in
 * the file FAILING_MALLOC to 0. The file is 8 bytes, which the test writes and reads while the program runs; 0: none
 * fails. Only calls from the program's own code count: libraries such as ZeroMQ end the process when they get no
 * memory. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic int64_t *left;
static uintptr_t first, last; /* the program's code */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static int find_program(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size, (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        first = info->dlpi_addr + part->p_vaddr;
        last = first + part->p_memsz;
    }
    return 1; /* the program is the first of all */
}

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("FAILING_MALLOC");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    dl_iterate_phdr(find_program, NULL);
    void *page = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED) left = page;
}

static int fails(const void *caller) {
    uintptr_t at = (uintptr_t)caller;
    if (!left || at < first || at >= last) return 0;
    int64_t n = atomic_load(left);
    while (n > 0 && !atomic_compare_exchange_weak(left, &n, n - 1)) {
    }
    if (n != 1) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}
void *realloc(void *old, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}
