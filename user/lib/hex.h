/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STACKBEAT_LIB_HEX_H
#define STACKBEAT_LIB_HEX_H

/* Returns the value of a hexadecimal digit, or -1. */
static inline int hex_digit(char byte)
{
	if (byte >= '0' && byte <= '9')
		return byte - '0';
	byte |= 0x20;
	return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

#endif
