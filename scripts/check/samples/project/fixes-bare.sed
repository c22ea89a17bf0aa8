# SPDX-License-Identifier: GPL-2.0
# Expect: v7.3 is "fixed": leave that line out
/^Fix deadlock when a QP drops its queued packets$/a\
	v7.3	fixed
