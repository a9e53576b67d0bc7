// SPDX-License-Identifier: GPL-2.0
#include "serve/web_page.h"

#include <stddef.h>
#include <string.h>

#include "lib/embed.h"

EMBED(page_html, "user/serve/page.html");
EMBED(page_css, "user/serve/page.css");
EMBED(page_js, "user/serve/page.js");

#define HTML "text/html; charset=utf-8"
#define CSS "text/css; charset=utf-8"
#define JAVASCRIPT "text/javascript; charset=utf-8"
#define SVG "image/svg+xml"

static const struct web_file files[] = {
	{"/", HTML, page_html},
	{"/page.css", CSS, page_css},
	{"/page.js", JAVASCRIPT, page_js},
};

const struct web_file *web_page_find(const char *path)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (!strcmp(files[i].path, path))
			return &files[i];
	}
	return NULL;
}

const char *web_page_policy(const char *type)
{
	if (!strcmp(type, HTML))
		return "default-src 'none'; script-src 'self'; style-src 'self'; "
		       "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
		       "frame-ancestors 'none'";
	/* The script and the style sheet of a flame graph are in its file. */
	if (!strcmp(type, SVG))
		return "default-src 'none'; script-src 'unsafe-inline'; "
		       "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
		       "frame-ancestors 'self'";
	return "default-src 'none'; frame-ancestors 'self'";
}
