/* SPDX-License-Identifier: GPL-2.0 */
/* What a goroutine that is parked waits for, as Go's tracebacks name it. */
#ifndef STACKBEAT_RUNTIME_GO_WAIT_REASONS_H
#define STACKBEAT_RUNTIME_GO_WAIT_REASONS_H

/*
 * Returns the text of g.waitreason of Go 1.`minor`, as waitReasonStrings in src/runtime/runtime2.go
 * of that version: "chan receive"; "" for 0; "unknown wait reason" if the version has no such
 * number, as Go does. A version newer than all known ones is taken as the last of them.
 */
const char *go_wait_reason(unsigned int minor, unsigned int reason);

#endif
