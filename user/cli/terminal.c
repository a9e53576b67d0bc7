// SPDX-License-Identifier: GPL-2.0
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/error.h"
#include "sandbox/child.h"

/* Of a terminal that does not know its size. */
#define COLUMNS_DEFAULT 80u

size_t terminal_columns(int fd)
{
	struct winsize size = {0};

	if (!isatty(fd))
		return 0;
	return !ioctl(fd, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : COLUMNS_DEFAULT;
}

bool terminal_has_colors(int fd)
{
	const char *no_color = getenv("NO_COLOR"), *type = getenv("TERM");

	return isatty(fd) && !(no_color && *no_color) && type && *type && strcmp(type, "dumb");
}

int terminal_check_binary(const char *output, struct error *error)
{
	if (strcmp(output, "-") != 0 || !isatty(STDOUT_FILENO))
		return 0;
	return error_set(error, EINVAL,
			 "the output is no text, and standard output is a terminal: use a pipe or "
			 "-o FILE");
}

bool terminal_has_utf8(void)
{
	locale_t locale = newlocale(LC_CTYPE_MASK, "", 0);
	bool has = locale && !strcmp(nl_langinfo_l(CODESET, locale), "UTF-8");

	if (locale)
		freelocale(locale);
	return has;
}

/* With the rights of root by sudo, a pager of the user's choice, or a shell from it, is too much.
 */
static bool has_rights_of_others(void)
{
	return getenv("SUDO_UID") || getuid() != geteuid();
}

static const char *pager_command(void)
{
	const char *command = getenv("STACKBEAT_PAGER");

	if (has_rights_of_others())
		return "less";
	if (!command)
		command = getenv("PAGER");
	return command ? command : "less";
}

void pager_start(struct pager *pager)
{
	const char *command = pager_command();
	int ends[2];

	pager->pid = 0;
	if (!isatty(STDOUT_FILENO) || !*command || !strcmp(command, "cat") ||
	    pipe2(ends, O_CLOEXEC))
		return;
	pager->pid = child_fork(CHILD_PAGER);
	if (!pager->pid) {
		dup2(ends[0], STDIN_FILENO);
		/* As in git: quit if it fits the screen, show colours, leave the text there. */
		setenv("LESS", "FRX", false);
		if (has_rights_of_others())
			setenv("LESSSECURE", "1", true);
		/* Without the pager, the text is shown nevertheless. */
		if (execlp("sh", "sh", "-c", "trap : INT QUIT; eval \"$0\" || exec cat", command,
			   NULL))
			_exit(EXIT_FAILURE);
	}
	close(ends[0]);
	if (pager->pid > 0) {
		signal(SIGPIPE, SIG_IGN);
		/* They are the pager's, which the shell would not wait for. */
		signal(SIGINT, SIG_IGN);
		signal(SIGQUIT, SIG_IGN);
		dup2(ends[1], STDOUT_FILENO);
	} else {
		pager->pid = 0;
	}
	close(ends[1]);
}

void pager_wait(struct pager *pager)
{
	if (!pager->pid)
		return;
	fclose(stdout);
	while (waitpid(pager->pid, NULL, 0) < 0)
		;
	pager->pid = 0;
}
