/* assets.c - the assembler takes the files in as they are, found from the repository's root; the Makefile knows that
 * this object depends on them. See assets.h. */
#include "server/http/assets.h"

#define EMBED(name, path)                                                                                              \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".balign 16\n"                                                                                             \
            "asset_" #name "_begin:\n"                                                                                 \
            ".incbin \"" path "\"\n"                                                                                   \
            "asset_" #name "_end:\n"                                                                                   \
            ".byte 0\n"                                                                                                \
            ".popsection\n");                                                                                          \
    extern const char asset_##name##_begin[] __attribute__((visibility("hidden")));                                    \
    extern const char asset_##name##_end[] __attribute__((visibility("hidden")));                                      \
    asset asset_##name(void) {                                                                                         \
        return (asset){asset_##name##_begin, (size_t)(asset_##name##_end - asset_##name##_begin)};                     \
    }

EMBED(page, "server/web/index.html")
EMBED(script, "server/web/page.js")
EMBED(style, "server/web/page.css")
EMBED(openapi, "proto/openapi.json")
