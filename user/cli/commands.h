/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The subcommands. Each takes its own arguments, its name first, and returns the exit status of the
 * program.
 */
#ifndef STACKBEAT_CLI_COMMANDS_H
#define STACKBEAT_CLI_COMMANDS_H

enum exit_status {
	STATUS_OK = 0,
	STATUS_FAILED = 1,
	STATUS_USAGE = 2, /* wrong command line; nothing was done */
	STATUS_NO_SAMPLES = 3, /* of record: no profile was written */
	STATUS_REGRESSION = 3, /* of report: a difference is beyond a limit */
};

int cmd_annotate(int argc, char **argv);
int cmd_archive(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_flamegraph(int argc, char **argv);
int cmd_goroutines(int argc, char **argv);
int cmd_load(int argc, char **argv);
int cmd_pause(int argc, char **argv);
int cmd_push(int argc, char **argv);
int cmd_rate(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_resume(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_stack(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_symbolize(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_unload(int argc, char **argv);

#endif
