/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages to the module, right and wrong.
 */
#ifndef STACKBEAT_FUZZ_MESSAGE_H
#define STACKBEAT_FUZZ_MESSAGE_H

#include <stdint.h>

#include "stackbeat.h"
#include "steps.h"

/* Asks for the family's number. Ends the process where it has none. */
void message_init(void);

/* A socket for messages; -1 and errno as socket(2). */
int message_open(void);
/* Has the socket told of events. */
void message_join(int fd);
/* Takes all that waits in the socket, and looks at none of it. */
void message_drain(int fd);

/* Draws a message, most often about the session `id`, and sends it. */
void message_send_any(int fd, struct random *random, uint32_t id);

/* Sets what there is one attribute of 4 bytes for. */
void message_set(int fd, uint32_t id, uint16_t attr, uint32_t value);

/*
 * The state and the counters (by enum stackbeat_stat) of a session. False where they can't be had:
 * the session is gone, or the caller may not see it.
 */
bool message_get(int fd, uint32_t id, uint32_t *state, uint64_t counts[STACKBEAT_S_COUNT]);

#endif
