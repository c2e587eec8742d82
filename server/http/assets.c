/* assets.c - the assembler takes the files in as they are, found from the repository's root; the Makefile knows that
 * this object depends on them. See assets.h. */
#include "server/http/assets.h"

#include <string.h>

#define EMBED(linkage, name, path)                                                                                     \
    __asm__(".pushsection .rodata\n"                                                                                   \
            ".balign 16\n"                                                                                             \
            "asset_" #name "_begin:\n"                                                                                 \
            ".incbin \"" path "\"\n"                                                                                   \
            "asset_" #name "_end:\n"                                                                                   \
            ".byte 0\n"                                                                                                \
            ".popsection\n");                                                                                          \
    extern const char asset_##name##_begin[] __attribute__((visibility("hidden")));                                    \
    extern const char asset_##name##_end[] __attribute__((visibility("hidden")));                                      \
    linkage asset asset_##name(void) {                                                                                 \
        return (asset){asset_##name##_begin, (size_t)(asset_##name##_end - asset_##name##_begin)};                     \
    }

EMBED(extern, page, "server/web/index.html")
EMBED(extern, docs, "server/web/docs.html")
EMBED(extern, script, "server/web/page.js")
EMBED(extern, style, "server/web/page.css")
EMBED(extern, openapi, "proto/openapi.json")

/* Names as in addresses, and files: server/web/vendor has what is not contactd's own. */
#define MODULES(X)                                                                                                     \
    X(api, "page/api.js")                                                                                              \
    X(bodies3d, "page/bodies3d.js")                                                                                    \
    X(chooser, "page/chooser.js")                                                                                      \
    X(contacts3d, "page/contacts3d.js")                                                                                \
    X(docs, "page/docs.js")                                                                                            \
    X(dom, "page/dom.js")                                                                                              \
    X(export, "page/export.js")                                                                                        \
    X(feed, "page/feed.js")                                                                                            \
    X(glb, "page/glb.js")                                                                                              \
    X(graphs, "page/graphs.js")                                                                                        \
    X(handles, "page/handles.js")                                                                                      \
    X(history, "page/history.js")                                                                                      \
    X(listing, "page/listing.js")                                                                                      \
    X(lists, "page/lists.js")                                                                                          \
    X(live, "page/live.js")                                                                                            \
    X(lod, "page/lod.js")                                                                                              \
    X(overview, "page/overview.js")                                                                                    \
    X(schema, "page/schema.js")                                                                                        \
    X(settings, "page/settings.js")                                                                                    \
    X(slot, "page/slot.js")                                                                                            \
    X(sorted, "page/sorted.js")                                                                                        \
    X(three, "vendor/three-r168.min.js")                                                                               \
    X(try, "page/try.js")                                                                                              \
    X(trycode, "page/trycode.js")                                                                                      \
    X(view, "page/view.js")
#define EMBED_MODULE(name, path) EMBED(static, module_##name, "server/web/" path)
MODULES(EMBED_MODULE)

asset asset_module(const char *name) {
    static const struct {
        const char *name;
        asset (*get)(void);
    } modules[] = {
#define MODULE_ROW(name, path) {#name ".js", asset_module_##name},
        MODULES(MODULE_ROW)
#undef MODULE_ROW
    };
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strcmp(modules[i].name, name) == 0) return modules[i].get();
    return (asset){NULL, 0};
}
