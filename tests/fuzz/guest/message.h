/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Netlink messages to the module, valid and invalid ones.
 */
#ifndef STACKBEAT_FUZZ_MESSAGE_H
#define STACKBEAT_FUZZ_MESSAGE_H

#include <stdint.h>

#include "stackbeat.h"
#include "steps.h"

/* Looks up the id of the generic netlink family. Exits if the module is not loaded. */
void message_init(void);

/* Opens a socket for messages; -1 and errno as socket(2). */
int message_open(void);
/* Subscribes the socket to events. */
void message_join(int fd);
/* Receives and discards all messages in the socket. */
void message_drain(int fd);

/* Sends a random message, mostly about the session `id`. */
void message_send_any(int fd, struct random *random, uint32_t id);

/* Sets a u32 attribute of a session. */
void message_set(int fd, uint32_t id, uint16_t attr, uint32_t value);

/*
 * Gets the state and the counters (by enum stackbeat_stat) of a session. Returns false if the
 * session does not exist, or the caller may not access it.
 */
bool message_get(int fd, uint32_t id, uint32_t *state, uint64_t counts[STACKBEAT_S_COUNT]);

#endif
