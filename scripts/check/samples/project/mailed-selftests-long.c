// SPDX-License-Identifier: GPL-2.0
/*
Expect: LONG_LINE
 */
static int sum(int first, int second, int third, int fourth, int fifth, int sixth, int seventh, int eighth);
