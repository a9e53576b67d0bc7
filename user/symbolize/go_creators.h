/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The label LABEL_GO_CREATOR: the function whose go statement has created the goroutine. Until it
 * is known, the label of a profile in memory has the number of a location (label_set_go_creator()),
 * which is symbolized as all others. In a file, it has the path and the address of that:
 * "/usr/bin/server+0x47a3c0".
 */
#ifndef STACKBEAT_SYMBOLIZE_GO_CREATORS_H
#define STACKBEAT_SYMBOLIZE_GO_CREATORS_H

#include <stdint.h>

struct profile;

/*
 * Replaces paths and addresses, as a file has them, by locations, which are added. Those in a
 * mapping that the profile does not have, or has more than once, stay. Returns 0 or -ENOMEM: then
 * the profile may only be freed.
 */
int go_creators_locate(struct profile *profile);

/*
 * Adds to `into` the text that replaces the location of a label of `from`: the function of the
 * machine code there, as Go itself calls the creator; or, without a symbol, path and address.
 * Returns the number of the string; 0 if memory ran out.
 */
uint32_t go_creators_text(struct profile *into, const struct profile *from, uint32_t label);

#endif
