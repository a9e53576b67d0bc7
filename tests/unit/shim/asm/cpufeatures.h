/* SPDX-License-Identifier: GPL-2.0 */
/* Nothing of it is used. */
