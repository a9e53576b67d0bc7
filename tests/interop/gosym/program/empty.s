// SPDX-License-Identifier: GPL-2.0
// With an assembly file there may be functions without a body.
