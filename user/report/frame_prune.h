/* SPDX-License-Identifier: GPL-2.0 */
/* The frames that the writer of a profile wants to be left out: drop_frames and keep_frames. */
#ifndef STACKBEAT_REPORT_FRAME_PRUNE_H
#define STACKBEAT_REPORT_FRAME_PRUNE_H

struct error;
struct profile;

/*
 * Sets *pruned to a new profile where a frame whose function matches drop_frames, but not
 * keep_frames, is missing, with all that it called, as in pprof (RemoveUninteresting() and Prune()
 * of its profile/prune.go): the frame nearest to the root counts, the frames at the root of a stack
 * stay even if they match, and samples keep their values. Names are compared without arguments.
 * *pruned is NULL, and `warning` empty, if the profile has no drop_frames; NULL, with the reason as
 * one line, if a pattern needs syntax that POSIX lacks, has more than 512 repetitions and
 * alternatives, or takes more than 10 s of CPU time. Returns 0 or -ENOMEM.
 */
int frame_prune(const struct profile *profile, struct profile **pruned, struct error *warning);

#endif
