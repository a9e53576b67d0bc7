/* SPDX-License-Identifier: GPL-2.0 */
/* The files of the web page: what a browser shows of a store. */
#ifndef STACKBEAT_SERVE_WEB_PAGE_H
#define STACKBEAT_SERVE_WEB_PAGE_H

struct web_file {
	const char *path; /* of its URL */
	const char *type; /* MIME type */
	const char *text;
};

/* Returns the file with a path, or NULL. */
const struct web_file *web_page_find(const char *path);

/*
 * Returns the Content-Security-Policy of an answer with a MIME type: the page runs its own script
 * alone, and shows flame graphs, which have a script in them; everything else runs nothing. No page
 * of another site may show any of them in a frame.
 */
const char *web_page_policy(const char *type);

#endif
