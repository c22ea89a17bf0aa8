# SPDX-License-Identifier: GPL-2.0
# Expect: v7.3 is both fixed, by a patch, and "not there: a reason"
/^Fix deadlock when a QP drops its queued packets$/a\
	v7.3	not there: a reason
