/* SPDX-License-Identifier: GPL-2.0 */
/* Checks of the programs that run now. What their processes say is not believed. */
#ifndef STACKBEAT_DOCTOR_PROGRAMS_H
#define STACKBEAT_DOCTOR_PROGRAMS_H

struct patient;

/* Symbols and debug information of the programs with most CPU time. */
void check_program_symbols(struct patient *patient);

/* Runtimes whose functions have names only if they were started with an option. */
void check_runtimes(struct patient *patient);

#endif
