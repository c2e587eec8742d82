/* assets.h - files that the binary carries: the web page and the OpenAPI document. */
#ifndef CONTACTD_HTTP_ASSETS_H
#define CONTACTD_HTTP_ASSETS_H

#include <stddef.h>

typedef struct asset {
    const char *bytes; /* not NUL-terminated */
    size_t size;
} asset;

asset asset_page(void);    /* server/web/index.html */
asset asset_docs(void);    /* server/web/docs.html */
asset asset_script(void);  /* server/web/page.js */
asset asset_style(void);   /* server/web/page.css */
asset asset_openapi(void); /* proto/openapi.json */
/* "view.js" -> server/web/page/view.js; bytes NULL: there is no module of that name. */
asset asset_module(const char *name);

#endif
