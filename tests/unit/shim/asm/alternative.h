/* SPDX-License-Identifier: GPL-2.0 */
/* The instructions for any CPU. */
#ifndef SHIM_ASM_ALTERNATIVE_H
#define SHIM_ASM_ALTERNATIVE_H

#define ALTERNATIVE(instructions, others, feature) instructions
#define asm_inline __asm__

#endif
