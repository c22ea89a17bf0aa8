/* SPDX-License-Identifier: GPL-2.0 */
/*
Expect: a function in a header
 */
static int sum(int first, int second)
{
	return first + second;
}
